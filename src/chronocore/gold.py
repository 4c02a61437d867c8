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
from chronocore.metrics import (
    extreme_groups,
    normalised,
    scaled_weights,
    shares_of_extreme_weights,
    weighted_distributions_many,
    weighted_sums,
)
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
        #: The most valid answers that too small a time point has, and which one that is.
        self.largest = (0, "")

    def note(self, survey: str, country: str, text: str, variables: list[str]) -> None:
        """Note something about some items in a country; alike notes are told once."""
        self.notes.setdefault((survey, f"country {country}: {text}"), []).extend(variables)

    def no_time_point(self, rules: Rules) -> str:
        """Return why no time point enters, in words."""
        reasons = [
            f"{count:,} {what}"
            for what, count in (
                (_NO_KEY, self.steps[_NO_KEY]),
                (f"{_OUTSIDE} ({', '.join(map(str, rules.waves))})", self.steps[_OUTSIDE]),
                *((f"answers missing: {why}", n) for why, n in self.missing.most_common()),
                (_DROPPED, self.steps[_DROPPED]),
            )
            if count
        ]
        found = f" of {self.steps[_ROWS]:,} rows read" + (
            f": {'; '.join(reasons)}" if reasons else ""
        )
        most = (
            f"the most are {self.largest[0]:,} ({self.largest[1]})"
            if self.largest[0]
            else "none has any"
        )
        return (
            f"no time point has {rules.min_respondents} valid answers, {most};{found}. Lower "
            "[rules] min_respondents, widen its waves, or declare codes and weights in [[sources]]"
        )

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
    """The C candidate time points of one survey file, in order of country and time.

    Answers are counted by time point and year (``fine``), numbered as they first appear, so that
    a sorted file is counted without sorting. Rows that do not enter are counted too, as one, so
    that nothing has to be copied to leave them out.

    Attributes
    ----------
    position : (n,) int64
        Time point of each respondent, -1 for none.
    country, study : lists of C labels
    country_index, wave : (C,) int64
        Wave: missing where time points are keyed by year.
    fine : (n,) int64
        Time point and year of each respondent.
    n_fine : int
    order : (F,) int64
        Those of ``fine`` that enter, by time point and year.
    starts : (C,) int64
        Where each time point begins in ``order``.
    year : (F,) int64
        Year of each in ``order``.
    """

    position: Integers
    country: list[str]
    country_index: Integers
    study: list[str | None]
    wave: Integers
    fine: Integers
    n_fine: int
    order: Integers
    starts: Integers
    year: Integers

    def __len__(self) -> int:
        return len(self.country)

    def years(self, cell: int) -> slice:
        """Return where a time point's years are."""
        last = cell + 1 == len(self.starts)
        end = len(self.order) if last else int(self.starts[cell + 1])
        return slice(int(self.starts[cell]), end)

    def about(self, cell: int) -> str:
        """Return what to call a time point beside its country."""
        wave, study = int(self.wave[cell]), self.study[cell]
        point = "time point" if wave == _MISSING else f"wave {wave}"
        return point if study is None else f"{study} {point}"


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
    study = np.full(n, -1, dtype=np.int64)
    studies: list[str] = []
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
    key_index, n_keys = _compact(key)
    year_index, n_years = _compact(year)
    joint = ((country * (len(studies) + 1)) + study + 1) * n_keys + key_index
    fine, row = _by_appearance(np.where(usable, joint * n_years + year_index, -1))
    entering = np.flatnonzero(usable[row])
    row = row[entering]
    # Of all that is one time point: its earliest year, and a row that tells the rest.
    cell, first = _by_appearance(joint[row])
    first = row[first]
    earliest = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(earliest, cell, year[row])
    # In order of time: by wave; where studies with waves of their own meet, by year.
    time = earliest if (study >= 0).any() else key[first]
    by_name = sorted(studies, reverse=True)
    study_rank = np.array([-1 if s < 0 else by_name.index(studies[s]) for s in study[first]])
    order = np.lexsort((key[first], study_rank, time, country[first]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    cell, first = rank[cell], first[order]
    by_cell = np.lexsort((year[row], cell))
    position = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    position[entering] = cell
    return _Cells(
        position=position[fine],
        country=[str(countries[c]) for c in country[first]],
        country_index=country[first],
        study=[None if s < 0 else studies[s] for s in study[first]],
        wave=key[first] if by_wave else np.full(len(first), _MISSING),
        fine=fine,
        n_fine=len(position),
        order=entering[by_cell],
        starts=np.searchsorted(cell[by_cell], np.arange(len(first))).astype(np.int64),
        year=year[row][by_cell],
    )


# -- distributions -------------------------------------------------------------------------------


def _options(items: tuple[Item, ...]) -> list[list[int]]:
    return [[option.code for option in item.options] for item in items]


@dataclass(slots=True)
class _Distributions:
    """The distributions of V items at C time points.

    Attributes
    ----------
    probs : list of (C, K) float64
    n_valid, n_dropped : (V, C) int64
    n_eff : (V, C) float64
    by_year : (V, F) int64
        Valid answers by time point and year.
    fallback : (V, C) bool
        Unweighted, because no respondent has a weight.
    errors : list of (C, K) float64, or None
        Standard errors by design, where there are strata or sampling units.
    n_eff_design, n_eff_mean : (V, C) float64, or None
    design_df : (C,) int64, or None
    """

    probs: list[Floats]
    n_valid: Integers
    n_dropped: Integers
    n_eff: Floats
    by_year: Integers
    fallback: Flags
    errors: list[Floats] | None = None
    n_eff_design: Floats | None = None
    n_eff_mean: Floats | None = None
    design_df: Integers | None = None


def _distributions(data: Microdata, cells: _Cells, weights: Floats | None) -> _Distributions:
    columns = [data.respondents[item.variable] for item in data.items]
    options = _options(data.items)
    shape = (len(columns), len(cells))
    by_year = np.zeros((len(columns), len(cells.order)), dtype=np.int64)
    dropped_by_year = np.zeros_like(by_year)
    result = _Distributions(
        [],
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        by_year,
        np.zeros(shape, dtype=bool),
    )
    if not len(cells):
        result.probs = [np.empty((0, len(scale))) for scale in options]
        return result
    scales, chunks = weighted_sums(columns, cells.fine, weights, options, cells.n_fine)
    for first, sums, n_valid, squares, n_dropped in chunks:
        part = slice(first, first + len(sums))
        probs, result.n_eff[part] = normalised(
            np.add.reduceat(sums[:, cells.order], cells.starts, axis=1),
            np.add.reduceat(squares[:, cells.order], cells.starts, axis=1),
        )
        result.probs += [
            np.ascontiguousarray(own[:, : len(scale)])
            for own, scale in zip(probs, scales[part], strict=True)
        ]
        by_year[part] = n_valid[:, cells.order]
        dropped_by_year[part] = n_dropped[:, cells.order]
    result.n_valid = np.add.reduceat(by_year, cells.starts, axis=1)
    result.n_dropped = np.add.reduceat(dropped_by_year, cells.starts, axis=1)
    if weights is not None:
        result.fallback = (result.n_valid == 0) & (result.n_dropped > 0)
        _replace_unweighted(result, cells, columns, options)
        lengths = np.diff(cells.starts, append=len(cells.order))
        result.by_year += np.where(np.repeat(result.fallback, lengths, axis=1), dropped_by_year, 0)
    if _design(data):
        _add_errors(result, data, cells, columns, weights, options)
    return result


def _design(data: Microdata) -> dict[str, pa.ChunkedArray]:
    """Return the columns of strata and primary sampling units that hold anything."""
    respondents = data.respondents
    return {
        name: respondents[name]
        for name in ("stratum", "psu")
        if name in respondents.column_names and respondents[name].null_count < len(respondents)
    }


def _replace_unweighted(
    result: _Distributions,
    cells: _Cells,
    columns: list[pa.ChunkedArray],
    options: list[list[int]],
) -> None:
    """Count cells in which no respondent has a weight as if all had the same."""
    concerned = np.flatnonzero(result.fallback.any(axis=1))
    if not len(concerned):
        return
    concerned_cells: Flags = np.asarray(result.fallback.any(axis=0))
    rows = np.flatnonzero((cells.position >= 0) & concerned_cells[cells.position])
    taken = pa.array(rows)
    plain = weighted_distributions_many(
        [columns[j].take(taken) for j in concerned],
        cells.position[rows],
        None,
        [options[j] for j in concerned],
        len(cells),
    )
    for j, one in zip(concerned, plain, strict=True):
        flags = result.fallback[j]
        result.probs[j][flags] = one.probs[flags]
        result.n_valid[j, flags] = one.n_valid[flags]
        result.n_eff[j, flags] = one.n_eff[flags]
        result.n_dropped[j, flags] = 0


def _settle_extreme(
    result: _Distributions, data: Microdata, cells: _Cells, weights: Floats
) -> None:
    """Compute time points with weights beyond the range of squares on a scale of their own."""
    concerned = np.flatnonzero(extreme_groups(weights, cells.position, len(cells)))
    if not len(concerned):
        return
    for j, item in enumerate(data.items):
        own = concerned[~result.fallback[j, concerned]]
        result.probs[j][own], result.n_eff[j, own] = shares_of_extreme_weights(
            data.respondents[item.variable],
            cells.position,
            weights,
            [option.code for option in item.options],
            own,
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
    whole = np.zeros(len(cells), dtype=bool)
    if weights is not None:
        usable = np.isfinite(weights) & (weights > 0) & (cells.position >= 0)
        whole = np.bincount(cells.position[usable], minlength=len(cells)) == 0
        weights = np.where((cells.position >= 0) & whole[cells.position], 1.0, weights)
    design = _design(data)
    shares = design_shares_many(
        columns,
        options,
        groups=cells.position,
        n_groups=len(cells),
        weights=weights,
        strata=design.get("stratum"),
        psu=design.get("psu"),
        positions=[item.positions for item in data.items],
    )
    # Unweighted for one item alone: the weights of the others say nothing about it.
    unknown = result.fallback & ~whole
    result.errors = [
        np.where(flags[:, None], np.nan, one.standard_errors)
        for one, flags in zip(shares, unknown, strict=True)
    ]
    result.n_eff_design = np.where(unknown, np.nan, np.stack([one.n_eff for one in shares]))
    result.n_eff_mean = np.where(unknown, np.nan, np.stack([one.n_eff_mean for one in shares]))
    result.design_df = shares[0].degrees_of_freedom


# -- years ---------------------------------------------------------------------------------------


def _name_years(
    members: list[int], counts: Integers, cells: _Cells, where: str
) -> tuple[dict[int, int], dict[int, str]]:
    """Name the time points of one variable and country by their most frequent years.

    Ties go to the earlier year; a later time point never shares its year with an earlier one. One
    that has no year of its own is an error within a study, and left out where another study has
    that year. Returns the years, and what is to be noted.
    """
    years: dict[int, int] = {}
    notes: dict[int, str] = {}
    for cell in members:
        own = cells.years(cell)
        by_year = sorted(
            (
                (int(year), int(count))
                for year, count in zip(cells.year[own], counts[own], strict=True)
                if count
            ),
            key=lambda pair: (-pair[1], pair[0]),
        )
        free = [year for year, _ in by_year if year not in years.values()]
        if not free and len({cells.study[member] for member in members}) > 1:
            taken = ", ".join(str(year) for year, _ in by_year)
            notes[cell] = f"{cells.about(cell)} is left out: another study has {taken}"
            continue
        if not free:
            raise SourceError(
                f"{where}: {cells.about(cell)} has answers only in "
                f"{[year for year, _ in by_year]}, years that another wave already has; "
                "leave one of the two waves out with [rules] waves"
            )
        years[cell] = free[0]
        if free[0] != by_year[0][0]:
            notes[cell] = (
                f"{cells.about(cell)} is named {free[0]}, because "
                f"{by_year[0][0]} already names an earlier wave"
            )
    return years, notes


def _most_frequent_years(counts: Integers, cells: _Cells) -> Integers:
    """Return the most frequent year of each item and time point, ties to the earlier: (V, C)."""
    # Count and year in one number: more answers first, then the earlier year.
    ranked = counts * 2**17 + (2**16 - cells.year)
    best = np.maximum.reduceat(ranked, cells.starts, axis=1)
    return np.asarray(2**16 - best % 2**17, dtype=np.int64)


def _years(
    data: Microdata, cells: _Cells, found: _Distributions, entering: Flags, tally: _Tally
) -> Integers:
    """Return the year of each item and time point that enters, missing if it has none: (V, C)."""
    years = _most_frequent_years(found.by_year, cells)
    country = cells.country_index
    for j, item in enumerate(data.items):
        own = np.flatnonzero(entering[j])
        # Countries in which two time points would have the same name.
        keys, times = np.unique(country[own] * 2**17 + years[j, own], return_counts=True)
        for clash in np.unique(keys[times > 1] // 2**17):
            members = [int(cell) for cell in own[country[own] == clash]]
            name = cells.country[members[0]]
            where = f"{item.survey} {item.variable}, country {name}"
            named, notes = _name_years(members, found.by_year[j], cells, where)
            years[j, members] = [named.get(cell, _MISSING) for cell in members]
            for text in notes.values():
                tally.note(item.survey, name, text, [item.variable])
    _note_pooled(data, cells, found, np.where(entering, years, _MISSING), tally)
    return years


def _note_pooled(
    data: Microdata, cells: _Cells, found: _Distributions, years: Integers, tally: _Tally
) -> None:
    """Note the time points that pool several years, alike items together."""
    for cell in np.flatnonzero(np.diff(cells.starts, append=len(cells.order)) > 1):
        own = cells.years(int(cell))
        asked = found.by_year[:, own] > 0
        pooled = np.flatnonzero((asked.sum(axis=1) > 1) & (years[:, cell] != _MISSING))
        alike: dict[tuple[int, bytes], list[int]] = {}
        for j in pooled:
            alike.setdefault((int(years[j, cell]), asked[j].tobytes()), []).append(int(j))
        for (year, _), members in alike.items():
            several = ", ".join(str(y) for y in cells.year[own][asked[members[0]]])
            tally.note(
                data.survey,
                cells.country[cell],
                f"{cells.about(int(cell))} pools {several}, named {year}",
                [data.items[j].variable for j in members],
            )


# -- gold ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Labels:
    """What stands beside the numbers of each time point."""

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


def _values_by_cell(cells: _Cells, values: Integers, usable: Flags) -> dict[int, dict[int, int]]:
    """Return how often each value occurs in each time point."""
    rows = np.flatnonzero(usable & (cells.position >= 0))
    low = int(values[rows].min(initial=0))
    width = int(values[rows].max(initial=0)) - low + 1
    joint, counts = np.unique(cells.position[rows] * width + values[rows] - low, return_counts=True)
    result: dict[int, dict[int, int]] = {}
    for one, count in zip(joint.tolist(), counts.tolist(), strict=True):
        result.setdefault(one // width, {})[one % width + low] = count
    return result


def _labels(data: Microdata, cells: _Cells) -> _Labels:
    given = _first_names(data)
    weight: list[str | None] = [data.weight] * len(cells)
    if "weight_name" in data.respondents.column_names:
        index, names = _encoded(data.respondents["weight_name"])
        weight = [None] * len(cells)
        for cell, used in _values_by_cell(cells, index, index >= 0).items():
            weight[cell] = "+".join(sorted(str(names[i]) for i in used))
    fieldwork: list[int | None] = [None] * len(cells)
    if "fieldwork_year" in data.respondents.column_names:
        year = _integers(data.respondents["fieldwork_year"])
        for cell, counts in _values_by_cell(cells, year, year != _MISSING).items():
            fieldwork[cell] = min(counts, key=lambda one: (-counts[one], one))
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


def _source_rows(data: Microdata, rules: Rules, tally: _Tally) -> list[pa.Table]:
    """Return the gold rows of one source, a table an item."""
    cells = _cells(data, rules, tally.steps)
    weights = (
        np.asarray(data.respondents["weight"].to_numpy(), dtype=np.float64)
        if data.weight is not None
        else None
    )
    delivered = weights
    if delivered is not None:
        weights = scaled_weights(delivered, cells.position, len(cells))
    found = _distributions(data, cells, weights)
    if delivered is not None:
        _settle_extreme(found, data, cells, delivered)
    answered = found.n_valid + found.n_dropped
    small = (answered > 0) & (found.n_valid < rules.min_respondents)
    entering = (answered > 0) & ~small
    years = np.empty(entering.shape, dtype=np.int64)
    if len(cells):
        years = _years(data, cells, found, entering, tally)
    if small.any():
        most = np.where(small, found.n_valid, -1)
        j, largest = (int(i) for i in np.unravel_index(most.argmax(), most.shape))
        if found.n_valid[j, largest] > tally.largest[0]:
            point = cells.about(largest)
            if int(cells.wave[largest]) == _MISSING:
                point = f"year {int(cells.year[cells.years(largest)][0])}"
            place = (
                f"{data.survey} {data.items[j].variable}, country {cells.country[largest]}, {point}"
            )
            tally.largest = (int(found.n_valid[j, largest]), place)
    named = entering & (years != _MISSING)
    asked = len(data.items) * int((cells.position >= 0).sum())
    tally.steps[_ASKED] += asked
    tally.steps[_VALID] += int(answered.sum())
    tally.steps[_DROPPED] += int(found.n_dropped.sum())
    tally.steps[_CELLS] += answered.size
    tally.steps[_NOT_ASKED] += int((answered == 0).sum())
    tally.steps[_below(rules)] += int(small.sum())
    tally.steps[_SHARED] += int((entering & ~named).sum())
    tally.steps[_TIME_POINTS] += int(named.sum())
    _missing_by_reason(data, rules, tally.missing, asked - int(answered.sum()))
    for cell in np.flatnonzero(found.fallback.any(axis=0)):
        tally.note(
            data.survey,
            cells.country[cell],
            f"{cells.about(int(cell))}: no respondent has a weight, unweighted",
            [data.items[j].variable for j in np.flatnonzero(found.fallback[:, cell])],
        )
    _note_one_respondent(data, cells, found, named, tally)
    _note_unknown_designs(data, cells, found, named, tally)
    labels = _labels(data, cells)
    by_code = sorted(range(len(cells)), key=lambda cell: country_order(cells.country[cell]))
    rank = np.zeros(len(cells), dtype=np.int64)
    rank[by_code] = np.cumsum(np.diff(cells.country_index[by_code], prepend=-1) != 0)
    parts: list[pa.Table] = []
    for j, item in enumerate(data.items):
        own = np.flatnonzero(named[j])
        if len(own):
            own = own[np.lexsort((years[j, own], rank[own]))]
            parts.append(_item_table(item, j, own, years[j, own], cells, labels, found))
    return parts


def _note_one_respondent(
    data: Microdata, cells: _Cells, found: _Distributions, named: Flags, tally: _Tally
) -> None:
    """Note the time points in which one respondent has most of the weight."""
    # The largest share of the weight is at least 1 / n_eff.
    alone = named & (found.n_eff > 0) & (found.n_eff < 2) & (found.n_valid > 2)
    for cell in np.flatnonzero(alone.any(axis=0)):
        variables = np.flatnonzero(alone[:, cell])
        share = 1 / float(found.n_eff[variables, cell].max())
        tally.note(
            data.survey,
            cells.country[cell],
            f"{cells.about(int(cell))}: one respondent has at least {share:.0%} of the weight; "
            "check the weights",
            [data.items[j].variable for j in variables],
        )


def _note_unknown_designs(
    data: Microdata, cells: _Cells, found: _Distributions, named: Flags, tally: _Tally
) -> None:
    """Note where a file that has strata or sampling units gives no standard errors."""
    if found.errors is None:
        return
    unknown = named & np.stack([np.isnan(errors[:, 0]) for errors in found.errors])
    for cell in np.flatnonzero(unknown.any(axis=0)):
        tally.note(
            data.survey,
            cells.country[cell],
            f"{cells.about(int(cell))}: strata or sampling units are not known, no standard errors",
            [data.items[j].variable for j in np.flatnonzero(unknown[:, cell])],
        )


def _item_table(
    item: Item,
    j: int,
    own: Integers,
    years: Integers,
    cells: _Cells,
    labels: _Labels,
    found: _Distributions,
) -> pa.Table:
    """Return the time points ``own`` of one item."""
    n, k = len(own), len(item.options)
    probs = found.probs[j][own]
    wave = cells.wave[own]
    fallback = found.fallback[j]
    columns: dict[str, Any] = {
        "survey": pa.repeat(item.survey, n),
        "variable": pa.repeat(item.variable, n),
        "country": pa.array([cells.country[c] for c in own], pa.string()),
        "country_name": pa.array([labels.name[c] for c in own], pa.string()),
        "region": pa.array([labels.region[c] for c in own], pa.string()),
        "year": pa.array(years.astype(np.int16)),
        "wave": pa.array(
            np.where(wave == _MISSING, 0, wave).astype(np.int16), mask=wave == _MISSING
        ),
        "weight": pa.array([None if fallback[c] else labels.weight[c] for c in own], pa.string()),
        "n_valid": pa.array(found.n_valid[j, own]),
        "n_eff": pa.array(found.n_eff[j, own]),
        "n_dropped_weight": pa.array(found.n_dropped[j, own]),
        "n_options": pa.array(np.full(n, k, dtype=np.int16)),
        "collapsed": pa.array(2 * (probs > 0).sum(axis=1) <= k),
        "probs": _lists(probs),
        "standard_errors": pa.nulls(n, schema.GOLD.field("standard_errors").type),
        "n_eff_design": pa.nulls(n, pa.float64()),
        "study": pa.array([cells.study[c] for c in own], pa.string()),
        "fieldwork_year": pa.array([labels.fieldwork_year[c] for c in own], pa.int16()),
        "n_eff_mean": pa.nulls(n, pa.float64()),
        "design_df": pa.nulls(n, pa.int64()),
    }
    if found.errors is not None:
        assert found.n_eff_design is not None
        assert found.n_eff_mean is not None
        assert found.design_df is not None
        errors = found.errors[j][own]
        unknown = np.isnan(errors[:, 0])
        columns["standard_errors"] = _lists(errors, unknown)
        for name, sizes in (
            ("n_eff_design", found.n_eff_design), ("n_eff_mean", found.n_eff_mean),
        ):  # fmt: skip
            columns[name] = pa.array(sizes[j, own], mask=np.isnan(sizes[j, own]))
        columns["design_df"] = pa.array(found.design_df[own], mask=unknown)
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
        raise SourceError(tally.no_time_point(rules))
    gold = pa.concat_tables(parts).combine_chunks()
    nameless = gold.filter(pc.is_null(gold["country_name"]))["country"].unique().to_pylist()
    funnel = tally.funnel(rules, gold)
    if nameless:
        funnel.notes.append(
            "countries without a name, kept under their code: " + ", ".join(sorted(nameless))
        )
    return gold, funnel
