"""Microdata -> gold response distributions, one a time point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore import schema
from chronocore.config import Rules
from chronocore.countries import country_name, country_order, region_of
from chronocore.errors import SourceError
from chronocore.metrics import WeightedDistributions, weighted_distributions_many
from chronocore.sources.microdata import Item, Microdata
from chronocore.survey_design import design_shares_many

__all__ = ["Funnel", "gold_table", "items_table"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Years and waves fit into 16 bits; this is none of them.
_MISSING = -(2**31)

# A note that holds for more variables than this counts them.
_NAMED_VARIABLES = 3


@dataclass(slots=True)
class Funnel:
    """How many rows and cells every rule let through, in the order of the rules.

    Attributes
    ----------
    steps : Counter
        Step -> count. Where a reader says why answers are missing, each reason is a step.
    weights : list of dict
        Which weight was used where: ``survey``, ``weight`` (None: unweighted), ``time_points``
        and ``dropped``, the valid answers that those time points lost for their weight.
    notes : list of str
        What a reader should know: renamed years, unnamed countries, pooled years, unweighted
        cells.
    """

    steps: Counter[str] = field(default_factory=Counter)
    weights: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_ROWS = "rows read"
_NO_KEY = "rows without country, wave or year"
_OUTSIDE = "rows outside the waves in use"
_ASKED = "answers asked for"
_VALID = "valid answers"
_DROPPED = "valid answers dropped for their weight"
_CELLS = "cells"
_NOT_ASKED = "cells where the item was not asked"
_SHARED = "cells in a year that another study has"
_TIME_POINTS = "time points"


def _below(rules: Rules) -> str:
    return f"cells below {rules.min_respondents} valid answers"


class _Tally:
    """Collects what the funnel is made of."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.notes: dict[tuple[str, str], list[str]] = {}

    def note(self, item: Item, country: str, text: str) -> None:
        """Note something about one country of an item; alike notes are told once."""
        key = (item.survey, f"country {country}: {text}")
        self.notes.setdefault(key, []).append(item.variable)

    def funnel(self, rules: Rules, gold: pa.Table) -> Funnel:
        """Return the steps in the order of the rules; one that drops nothing shows 0."""
        steps: Counter[str] = Counter()
        for step in (_ROWS, _NO_KEY, _OUTSIDE, _ASKED):
            steps[step] = self.steps[step]
        for reason, count in sorted(self.missing.items(), key=lambda entry: (-entry[1], entry[0])):
            steps[f"missing: {reason}"] = count
        for step in (_VALID, _DROPPED, _CELLS, _NOT_ASKED, _below(rules), _SHARED, _TIME_POINTS):
            # Only where one survey joins several studies can this happen.
            if step != _SHARED or self.steps[step]:
                steps[step] = self.steps[step]
        notes: list[str] = []
        for (survey, text), variables in self.notes.items():
            few = len(variables) <= _NAMED_VARIABLES
            which = ", ".join(variables) if few else f"{len(variables)} variables"
            notes.append(f"{survey} {which}, {text}")
        return Funnel(steps, _weights_used(gold), sorted(notes))


def _weights_used(gold: pa.Table) -> list[dict[str, Any]]:
    used = gold.group_by(["survey", "weight"], use_threads=False).aggregate(
        [("n_valid", "count"), ("n_dropped_weight", "sum")]
    )
    return [
        {
            "survey": row["survey"],
            "weight": row["weight"],
            "time_points": row["n_valid_count"],
            "dropped": row["n_dropped_weight_sum"],
        }
        for row in used.to_pylist()
    ]


def items_table(items: list[Item]) -> pa.Table:
    """Return ``items.parquet``: one row an item, in the order of the catalogs."""
    rows = [
        {
            "survey": item.survey,
            "variable": item.variable,
            "source": item.source,
            "text": item.text,
            "topic": item.topic,
            "topic_broad": item.topic_broad,
            "options": [
                {"code": option.code, "label": option.label, "position": position}
                for option, position in zip(item.options, item.positions, strict=True)
            ],
        }
        for item in items
    ]
    return pa.Table.from_pylist(rows, schema=schema.ITEMS)


# -- time points ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """The candidate time points of one survey file.

    Groups are numbered as they first appear, so that a sorted file is counted without sorting;
    they include rows that do not enter, which ``order`` leaves out.

    Attributes
    ----------
    group : (n,) int64
        Group of each respondent.
    n_groups : int
    order : (C,) int64
        Groups that may enter, in order of country and time.
    country, study : lists of (G,) labels
        Of each group; of a group that may not enter they mean nothing.
    country_index : (G,) int64
    wave : (G,) int64
        Wave of each group, or missing where time points are keyed by year.
    fine : (n,) int64
        (group, year) of each respondent.
    fine_group, fine_year : (F,) int64
    """

    group: Integers
    n_groups: int
    order: Integers
    country: list[str]
    country_index: Integers
    study: list[str | None]
    wave: Integers
    fine: Integers
    fine_group: Integers
    fine_year: Integers


def _encoded(column: pa.ChunkedArray) -> tuple[Integers, list[Any]]:
    """Return the labels of a column as integers, -1 for null, and what they stand for."""
    encoded = pc.dictionary_encode(column.cast(pa.string())).combine_chunks()
    indices = np.asarray(encoded.indices.fill_null(-1).to_numpy(), dtype=np.int64)
    return indices, encoded.dictionary.to_pylist()


def _integers(column: pa.ChunkedArray) -> Integers:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), _MISSING).to_numpy(), dtype=np.int64)


def _by_appearance(keys: Integers) -> tuple[Integers, Integers]:
    """Return keys numbered as they first appear, and the row in which each does."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    appearance = np.argsort(first, kind="stable")
    rank[appearance] = np.arange(len(first))
    return rank[inverse.reshape(-1)], first[appearance]


def _compact(values: Integers) -> tuple[Integers, int]:
    unique, inverse = np.unique(values, return_inverse=True)
    return inverse.reshape(-1), len(unique)


def _cells(data: Microdata, rules: Rules, steps: Counter[str]) -> _Cells:
    """Key every respondent by country, study and wave (or year)."""
    respondents = data.respondents
    country, countries = _encoded(respondents["country"])
    n = len(country)
    year, wave = _integers(respondents["year"]), _integers(respondents["wave"])
    study, studies = np.full(n, -1, dtype=np.int64), [None]
    if "study" in respondents.column_names:
        study, studies = _encoded(respondents["study"])
    has_waves = bool((wave != _MISSING).any())
    by_wave = has_waves and rules.time_point == "wave"
    key = wave if by_wave else year
    usable = (country >= 0) & (key != _MISSING) & (year != _MISSING)
    steps[_ROWS] += n
    steps[_NO_KEY] += int((~usable).sum())
    if has_waves:
        outside = usable & ~np.isin(wave, np.asarray(rules.waves, dtype=np.int64))
        steps[_OUTSIDE] += int(outside.sum())
        usable &= ~outside
    # Rows that do not enter make one group, so that nothing has to be copied to leave them out.
    key_index, n_keys = _compact(key)
    year_index, n_years = _compact(year)
    n_studies = len(studies) + 1
    joint = np.where(usable, ((country * n_studies) + study + 1) * n_keys + key_index, -1)
    group, first = _by_appearance(joint)
    fine, fine_first = _by_appearance(np.where(usable, joint * n_years + year_index, -1))
    entering = usable[first]
    names = ["" if c < 0 else str(countries[c]) for c in country[first]]
    labels = [None if s < 0 else studies[s] for s in study[first]]
    # In order of time: by wave; where studies with waves of their own meet, by year.
    time = key if not (study >= 0).any() else year
    earliest = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(earliest, group, time)
    by_name = sorted((label for label in studies if label is not None), reverse=True)
    study_rank = np.array([by_name.index(label) if label else -1 for label in labels])
    order = np.lexsort((key[first], study_rank, earliest, country[first]))
    return _Cells(
        group=group,
        n_groups=len(first),
        order=order[entering[order]],
        country=names,
        country_index=country[first],
        study=labels,
        wave=key[first] if by_wave else np.full(len(first), _MISSING),
        fine=fine,
        fine_group=group[fine_first],
        fine_year=year[fine_first],
    )


def _where(cells: _Cells, cell: int) -> str:
    study = cells.study[cell]
    wave = int(cells.wave[cell])
    point = "time point" if wave == _MISSING else f"wave {wave}"
    return point if study is None else f"{study} {point}"


def _name_years(
    members: list[int], counts: dict[int, Integers], cells: _Cells, where: str
) -> tuple[dict[int, int], dict[int, str]]:
    """Name the time points of one variable and country by their most frequent years.

    Ties go to the earlier year; a later time point never shares its year with an earlier one. One
    that has no year of its own is an error within a study, and left out where another study has
    that year. Returns the years, and what is to be noted.
    """
    years: dict[int, int] = {}
    notes: dict[int, str] = {}
    for cell in members:
        by_year = sorted(
            (
                (int(cells.fine_year[f]), int(counts[cell][i]))
                for i, f in enumerate(np.flatnonzero(cells.fine_group == cell))
                if counts[cell][i]
            ),
            key=lambda pair: (-pair[1], pair[0]),
        )
        free = [year for year, _ in by_year if year not in years.values()]
        if not free and len({cells.study[member] for member in members}) > 1:
            taken = ", ".join(str(year) for year, _ in by_year)
            notes[cell] = f"{_where(cells, cell)} is left out: another study has {taken}"
            continue
        if not free:
            raise SourceError(
                f"{where}: {_where(cells, cell)} has answers only in "
                f"{[year for year, _ in by_year]}, years that another wave already has; "
                "leave one of the two waves out with [rules] waves"
            )
        years[cell] = free[0]
        text = []
        if free[0] != by_year[0][0]:
            text.append(
                f"{_where(cells, cell)} is named {free[0]}, because "
                f"{by_year[0][0]} already names an earlier wave"
            )
        if len(by_year) > 1:
            pooled = ", ".join(str(year) for year, _ in sorted(by_year))
            text.append(f"{_where(cells, cell)} pools {pooled}, named {free[0]}")
        if text:
            notes[cell] = "; ".join(text)
    return years, notes


class _Years:
    """Names the time points of one file, item by item."""

    def __init__(
        self, cells: _Cells, columns: list[pa.ChunkedArray], items: tuple[Item, ...], weights: Any
    ) -> None:
        self.cells = cells
        n_years = np.bincount(cells.fine_group, minlength=cells.n_groups)
        self.single = np.full(cells.n_groups, _MISSING)
        self.single[cells.fine_group] = cells.fine_year
        self.pooled = n_years > 1
        self.pooled[np.setdiff1d(np.arange(cells.n_groups), cells.order)] = False
        self.counts: list[WeightedDistributions] | None = None
        self.column = np.full(len(cells.fine_group), -1)
        if not self.pooled.any():
            return
        # Answers by year are counted only where a time point has more than one.
        rows = np.flatnonzero(self.pooled[cells.group])
        fines, inverse = np.unique(cells.fine[rows], return_inverse=True)
        self.column[fines] = np.arange(len(fines))
        taken = pa.array(rows)
        self.counts = weighted_distributions_many(
            [column.take(taken) for column in columns],
            inverse.reshape(-1),
            None if weights is None else weights[rows],
            _options(items),
            len(fines),
        )

    def of_item(
        self, j: int, item: Item, entering: Integers, fallback: Flags, tally: _Tally
    ) -> Integers:
        """Return the year of each entering cell of item ``j``, missing if it has none."""
        cells = self.cells
        years: Integers = self.single[entering].copy()
        country = cells.country_index[entering]
        # Countries in which a time point pools years, or two would have the same name.
        keys, times = np.unique(country * 2**16 + years, return_counts=True)
        unclear = np.union1d(country[self.pooled[entering]], keys[times > 1] // 2**16)
        for one in unclear:
            places = np.flatnonzero(country == one)
            members = [int(cell) for cell in entering[places]]
            name = cells.country[members[0]]
            counts = {cell: self._counts(j, cell, fallback) for cell in members}
            where = f"{item.survey} {item.variable}, country {name}"
            found, notes = _name_years(members, counts, cells, where)
            years[places] = [found.get(cell, _MISSING) for cell in members]
            for text in notes.values():
                tally.note(item, name, text)
        return years

    def _counts(self, j: int, cell: int, fallback: Flags) -> Integers:
        """Return the answers of an item and cell by year."""
        fines = np.flatnonzero(self.cells.fine_group == cell)
        if not self.pooled[cell] or self.counts is None:
            return np.ones(len(fines), dtype=np.int64)
        of_item = self.counts[j]
        columns = self.column[fines]
        counts: Integers = of_item.n_valid[columns]
        return counts + of_item.n_dropped_weight[columns] if fallback[cell] else counts


# -- gold ----------------------------------------------------------------------------------------


def _options(items: tuple[Item, ...]) -> list[list[int]]:
    return [[option.code for option in item.options] for item in items]


@dataclass(slots=True)
class _Distributions:
    """One file's distributions, by item and group.

    ``fallback`` marks cells without a usable weight, which are unweighted; ``errors`` and
    ``n_eff_design`` are None without strata and primary sampling units.
    """

    by_item: list[WeightedDistributions]
    fallback: list[Flags]
    errors: list[Floats] | None = None
    n_eff_design: list[Floats] | None = None


def _distributions(
    data: Microdata, cells: _Cells, columns: list[pa.ChunkedArray], weights: Floats | None
) -> _Distributions:
    options = _options(data.items)
    found = weighted_distributions_many(columns, cells.group, weights, options, cells.n_groups)
    none = np.zeros(cells.n_groups, dtype=bool)
    result = _Distributions(found, [none] * len(found))
    if weights is not None:
        inside = np.zeros(cells.n_groups, dtype=bool)
        inside[cells.order] = True
        result.fallback = [
            inside & (one.n_valid == 0) & (one.n_dropped_weight > 0) for one in found
        ]
        _replace_unweighted(result, cells, columns, options)
    names = data.respondents.column_names
    if "stratum" in names or "psu" in names:
        _add_errors(result, data, cells, columns, weights, options)
    return result


def _replace_unweighted(
    result: _Distributions,
    cells: _Cells,
    columns: list[pa.ChunkedArray],
    options: list[list[int]],
) -> None:
    """Count cells in which no respondent has a weight as if all had the same."""
    concerned = [j for j, flags in enumerate(result.fallback) if flags.any()]
    if not concerned:
        return
    groups = np.any([result.fallback[j] for j in concerned], axis=0)
    rows = np.flatnonzero(groups[cells.group])
    plain = weighted_distributions_many(
        [columns[j].take(pa.array(rows)) for j in concerned],
        cells.group[rows],
        None,
        [options[j] for j in concerned],
        cells.n_groups,
    )
    for j, one in zip(concerned, plain, strict=True):
        flags = result.fallback[j]
        before = result.by_item[j]
        result.by_item[j] = WeightedDistributions(
            np.where(flags[:, None], one.probs, before.probs),
            np.where(flags, one.n_valid, before.n_valid),
            np.where(flags, one.n_eff, before.n_eff),
            np.where(flags, 0, before.n_dropped_weight),
        )


def _add_errors(
    result: _Distributions,
    data: Microdata,
    cells: _Cells,
    columns: list[pa.ChunkedArray],
    weights: Floats | None,
    options: list[list[int]],
) -> None:
    """Add standard errors by strata and primary sampling units."""
    inside = np.zeros(cells.n_groups, dtype=bool)
    inside[cells.order] = True
    whole = np.zeros(cells.n_groups, dtype=bool)
    if weights is not None:
        usable = np.isfinite(weights) & (weights > 0)
        whole = np.bincount(cells.group[usable], minlength=cells.n_groups) == 0
        weights = np.where(whole[cells.group], 1.0, weights)
    design = {
        name: data.respondents[name] if name in data.respondents.column_names else None
        for name in ("stratum", "psu")
    }
    shares = design_shares_many(
        columns,
        options,
        groups=np.where(inside[cells.group], cells.group, -1),
        n_groups=cells.n_groups,
        weights=weights,
        strata=design["stratum"],
        psu=design["psu"],
    )
    result.errors, result.n_eff_design = [], []
    for one, fallback in zip(shares, result.fallback, strict=True):
        # Unweighted for this item alone: the weights of the others say nothing about it.
        unknown = fallback & ~whole
        result.errors.append(np.where(unknown[:, None], np.nan, one.standard_errors))
        result.n_eff_design.append(np.where(unknown, np.nan, one.n_eff))


@dataclass(frozen=True, slots=True)
class _Labels:
    """What stands beside the numbers of each group."""

    name: list[str | None]
    region: list[str | None]
    weight: list[str | None]
    fieldwork_year: list[int | None]


def _first_names(data: Microdata) -> dict[str, str]:
    """Return the first name the file has for each country."""
    country, countries = _encoded(data.respondents["country"])
    name, names = _encoded(data.respondents["country_name"])
    rows = np.flatnonzero((country >= 0) & (name >= 0))
    found, first = np.unique(country[rows], return_index=True)
    return {str(countries[c]): str(names[name[rows[f]]]) for c, f in zip(found, first, strict=True)}


def _labels(data: Microdata, cells: _Cells) -> _Labels:
    given = _first_names(data)
    weight: list[str | None] = [data.weight] * cells.n_groups
    if "weight_name" in data.respondents.column_names:
        index, names = _encoded(data.respondents["weight_name"])
        weight = [None] * cells.n_groups
        rows = np.flatnonzero(index >= 0)
        pairs = np.unique(np.stack([cells.group[rows], index[rows]]), axis=1)
        for group in np.unique(pairs[0]):
            weight[int(group)] = "+".join(
                sorted(str(names[i]) for i in pairs[1, pairs[0] == group])
            )
    fieldwork: list[int | None] = [None] * cells.n_groups
    if "fieldwork_year" in data.respondents.column_names:
        year = _integers(data.respondents["fieldwork_year"])
        rows = np.flatnonzero(year != _MISSING)
        pairs, counts = np.unique(
            np.stack([cells.group[rows], year[rows]]), axis=1, return_counts=True
        )
        for group in np.unique(pairs[0]):
            own = pairs[0] == group
            # Ties go to the earlier year.
            fieldwork[int(group)] = int(pairs[1, own][np.argmax(counts[own])])
    return _Labels(
        name=[given.get(code) or country_name(code) for code in cells.country],
        region=[region_of(code) for code in cells.country],
        weight=weight,
        fieldwork_year=fieldwork,
    )


def _missing_by_reason(data: Microdata, rules: Rules, missing: Counter[str], unknown: int) -> None:
    """Count invalid answers by the reasons the reader gave."""
    table = data.missing
    if table is None:
        return
    keep = pc.and_(pc.is_valid(table["country"]), pc.is_valid(table["year"]))
    if (
        pc.any(pc.is_valid(table["wave"])).as_py()
        or pc.any(pc.is_valid(data.respondents["wave"])).as_py()
    ):
        waves = pa.array(rules.waves, pa.int64())
        keep = pc.and_(keep, pc.is_in(table["wave"].cast(pa.int64()), value_set=waves))
    reasons = table.filter(keep).group_by("reason").aggregate([("count", "sum")])
    told = 0
    for row in reasons.to_pylist():
        missing[str(row["reason"])] += row["count_sum"]
        told += row["count_sum"]
    if unknown > told:
        missing["no reason given"] += unknown - told


def _column(data: Microdata, item: Item) -> pa.ChunkedArray:
    return data.respondents[item.variable]


def _source_rows(data: Microdata, rules: Rules, tally: _Tally) -> list[pa.Table]:
    """Return the gold rows of one source, a table an item."""
    cells = _cells(data, rules, tally.steps)
    weights = (
        np.asarray(data.respondents["weight"].to_numpy(), dtype=np.float64)
        if data.weight is not None
        else None
    )
    columns = [_column(data, item) for item in data.items]
    found = _distributions(data, cells, columns, weights)
    labels = _labels(data, cells)
    namer = _Years(cells, columns, data.items, weights)
    n_inside = int(np.isin(cells.group, cells.order).sum())
    rank = np.zeros(cells.n_groups, dtype=np.int64)
    by_code = sorted(cells.order, key=lambda cell: country_order(cells.country[cell]))
    changes = np.diff(cells.country_index[by_code], prepend=-1) != 0
    rank[by_code] = np.cumsum(changes)
    invalid = 0
    parts: list[pa.Table] = []
    for j, item in enumerate(data.items):
        one, fallback = found.by_item[j], found.fallback[j]
        n_valid = one.n_valid[cells.order]
        answered = n_valid + one.n_dropped_weight[cells.order]
        small = (answered > 0) & (n_valid < rules.min_respondents)
        entering = cells.order[(answered > 0) & ~small]
        # What a fallback counts as valid was dropped for its weight by the others.
        tally.steps[_ASKED] += n_inside
        tally.steps[_VALID] += int(answered.sum())
        tally.steps[_DROPPED] += int(one.n_dropped_weight[cells.order].sum())
        tally.steps[_CELLS] += len(cells.order)
        tally.steps[_NOT_ASKED] += int((answered == 0).sum())
        tally.steps[_below(rules)] += int(small.sum())
        invalid += n_inside - int(answered.sum())
        for cell in map(int, np.flatnonzero(fallback)):
            tally.note(
                item,
                cells.country[cell],
                f"{_where(cells, cell)}: no respondent has a weight, unweighted",
            )
        if len(entering):
            years = namer.of_item(j, item, entering, fallback, tally)
            named = years != _MISSING
            tally.steps[_SHARED] += int((~named).sum())
            entering, years = entering[named], years[named]
            tally.steps[_TIME_POINTS] += len(entering)
            parts.append(_item_table(item, j, entering, years, cells, labels, found, rank))
    _missing_by_reason(data, rules, tally.missing, invalid)
    return parts


def _item_table(
    item: Item,
    j: int,
    entering: Integers,
    years: Integers,
    cells: _Cells,
    labels: _Labels,
    found: _Distributions,
    rank: Integers,
) -> pa.Table:
    """Return the time points of one item, in order of country and year."""
    one, fallback = found.by_item[j], found.fallback[j]
    order = np.lexsort((years, rank[entering]))
    entering, years = entering[order], years[order]
    n, k = len(entering), len(item.options)
    probs = one.probs[entering]
    wave = cells.wave[entering]
    columns: dict[str, Any] = {
        "survey": pa.repeat(item.survey, n),
        "variable": pa.repeat(item.variable, n),
        "country": pa.array([cells.country[c] for c in entering], pa.string()),
        "country_name": pa.array([labels.name[c] for c in entering], pa.string()),
        "region": pa.array([labels.region[c] for c in entering], pa.string()),
        "year": pa.array(years.astype(np.int16)),
        "wave": pa.array(
            np.where(wave == _MISSING, 0, wave).astype(np.int16), mask=wave == _MISSING
        ),
        "weight": pa.array(
            [None if fallback[c] else labels.weight[c] for c in entering], pa.string()
        ),
        "n_valid": pa.array(one.n_valid[entering]),
        "n_eff": pa.array(one.n_eff[entering]),
        "n_dropped_weight": pa.array(one.n_dropped_weight[entering]),
        "n_options": pa.array(np.full(n, k, dtype=np.int16)),
        "collapsed": pa.array(2 * (probs > 0).sum(axis=1) <= k),
        "probs": _lists(probs),
        "standard_errors": pa.nulls(n, schema.GOLD.field("standard_errors").type),
        "n_eff_design": pa.nulls(n, pa.float64()),
        "study": pa.array([cells.study[c] for c in entering], pa.string()),
        "fieldwork_year": pa.array([labels.fieldwork_year[c] for c in entering], pa.int16()),
    }
    if found.errors is not None and found.n_eff_design is not None:
        errors, n_eff = found.errors[j][entering], found.n_eff_design[j][entering]
        columns["standard_errors"] = _lists(errors, np.isnan(errors[:, 0]))
        columns["n_eff_design"] = pa.array(n_eff, mask=np.isnan(n_eff))
    return pa.table(columns, schema=schema.GOLD)


def _lists(matrix: Floats, null: Flags | None = None) -> pa.ListArray:
    n, k = matrix.shape
    return pa.ListArray.from_arrays(
        np.arange(0, (n + 1) * k, k, dtype=np.int32),
        np.ascontiguousarray(matrix).reshape(-1),
        type=schema.GOLD.field("probs").type,
        mask=None if null is None else pa.array(null),
    )


def gold_table(sources: list[Microdata], rules: Rules) -> tuple[pa.Table, Funnel]:
    """Compute the gold distribution of every item at every time point that enters.

    Parameters
    ----------
    sources : list of Microdata
    rules : Rules
        Waves, time points and the least number of valid answers.

    Returns
    -------
    gold : pyarrow.Table
        Schema :data:`chronocore.schema.GOLD`, sorted by item, country (numeric codes as
        numbers, before text) and year.
    funnel : Funnel
        Rows and cells in and out.

    Raises
    ------
    SourceError
        Two sources give one (survey, variable), two waves of a country cannot be told apart by
        year, or no time point enters.

    Notes
    -----
    ChronoCulture, sections 3.2 and 3.3, appendix A.2; definitions, section 1.
    """
    tally = _Tally()
    parts: list[pa.Table] = []
    seen: dict[tuple[str, str], str] = {}
    for data in sources:
        for item in data.items:
            key = (item.survey, item.variable)
            if key in seen:
                raise SourceError(
                    f"{item.survey} {item.variable} is in two sources, {seen[key]} and "
                    f"{data.source}; keep it in one of them with [[sources]] variables"
                )
            seen[key] = data.source
        parts.extend(_source_rows(data, rules, tally))
    if not parts:
        raise SourceError(
            f"no time point has {rules.min_respondents} valid answers in the waves "
            f"{rules.waves}; lower [rules] min_respondents or widen waves"
        )
    gold = pa.concat_tables(parts).combine_chunks()
    nameless = gold.filter(pc.is_null(gold["country_name"]))["country"].unique().to_pylist()
    funnel = tally.funnel(rules, gold)
    if nameless:
        funnel.notes.append(f"countries without a name, kept under their code: {sorted(nameless)}")
    return gold, funnel
