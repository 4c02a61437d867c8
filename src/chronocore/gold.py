"""Microdata -> gold response distributions, one a time point."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore import schema
from chronocore.config import Rules
from chronocore.countries import country_name, country_order, region_of
from chronocore.errors import SourceError
from chronocore.metrics import weighted_distributions
from chronocore.sources.microdata import Item, Microdata

__all__ = ["Funnel", "gold_table", "items_table"]


@dataclass(slots=True)
class Funnel:
    """How many rows and cells every rule let through, in the order of the rules.

    ``steps`` maps a step to its count; ``notes`` are what a reader should know: renamed years,
    unnamed countries, pooled years, unweighted cells.
    """

    steps: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def _steps(rules: Rules) -> tuple[str, ...]:
    """Return the steps in the order of the rules, so that a rule that drops nothing shows 0."""
    return (
        "rows read",
        "rows without country, wave or year",
        "rows outside the waves in use",
        "answers asked for",
        "valid answers",
        "valid answers dropped for their weight",
        "cells",
        "cells where the item was not asked",
        f"cells below {rules.min_respondents} valid answers",
        "time points",
    )


@dataclass(frozen=True, slots=True)
class _TimePoints:
    """The candidate time points of one survey file.

    ``group`` gives each respondent's time point (or -1), ``fine`` its (time point, year).
    """

    keys: list[tuple[str, int | None]]  # country, wave or year
    group: NDArray[np.int64]
    fine: NDArray[np.int64]
    fine_group: NDArray[np.int64]
    fine_year: NDArray[np.int64]


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


def _integers(column: pa.ChunkedArray, missing: int) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), missing).to_numpy(), dtype=np.int64)


def _time_points(data: Microdata, rules: Rules, funnel: Funnel) -> _TimePoints:
    """Key every respondent by (country, wave) or (country, year)."""
    respondents = data.respondents
    encoded = pc.dictionary_encode(respondents["country"]).combine_chunks()
    countries = encoded.dictionary.to_pylist()
    country = np.asarray(encoded.indices.fill_null(-1).to_numpy(), dtype=np.int64)
    missing = -(2**31)
    year = _integers(respondents["year"], missing)
    wave = _integers(respondents["wave"], missing)
    has_waves = bool((wave != missing).any())
    key = wave if has_waves and rules.time_point == "wave" else year
    usable = (country >= 0) & (key != missing) & (year != missing)
    funnel.steps["rows read"] += len(country)
    funnel.steps["rows without country, wave or year"] += int((~usable).sum())
    if has_waves:
        outside = usable & ~np.isin(wave, np.asarray(rules.waves, dtype=np.int64))
        funnel.steps["rows outside the waves in use"] += int(outside.sum())
        usable &= ~outside
    triples = np.stack([country, key, year], axis=1)[usable]
    fine_rows, fine_index = np.unique(triples, axis=0, return_inverse=True)
    cells, fine_group = np.unique(fine_rows[:, :2], axis=0, return_inverse=True)
    fine = np.full(len(country), -1, dtype=np.int64)
    fine[usable] = fine_index.reshape(-1)
    group = np.full(len(country), -1, dtype=np.int64)
    group[usable] = fine_group.reshape(-1)[fine_index.reshape(-1)]
    keyed_by_wave = has_waves and rules.time_point == "wave"
    keys = [(countries[c], int(k) if keyed_by_wave else None) for c, k in cells]
    return _TimePoints(keys, group, fine, fine_group.reshape(-1), fine_rows[:, 2])


def _name_years(
    cells: list[int],
    counts: NDArray[np.int64],
    points: _TimePoints,
    where: str,
    funnel: Funnel,
) -> dict[int, int]:
    """Name each time point of one variable and country by its most frequent year.

    Ties go to the earlier year; a later time point never shares its year with an earlier one.
    """
    names: dict[int, int] = {}
    for cell in cells:
        members = np.flatnonzero(points.fine_group == cell)
        by_year = sorted(
            ((int(points.fine_year[m]), int(counts[m])) for m in members if counts[m]),
            key=lambda pair: (-pair[1], pair[0]),
        )
        free = [year for year, _ in by_year if year not in names.values()]
        if not free:
            raise SourceError(
                f"{where}: wave {points.keys[cell][1]} has answers only in "
                f"{[year for year, _ in by_year]}, years that another wave already has; "
                "leave one of the two waves out with [rules] waves"
            )
        names[cell] = free[0]
        if free[0] != by_year[0][0]:
            funnel.notes.append(
                f"{where}: wave {points.keys[cell][1]} is named {free[0]}, because "
                f"{by_year[0][0]} already names an earlier wave"
            )
        if len(by_year) > 1:
            years = ", ".join(str(year) for year, _ in sorted(by_year))
            funnel.notes.append(
                f"{where}: wave {points.keys[cell][1]} pools {years}, named {free[0]}"
            )
    return names


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
        Two sources give one (survey, variable), or two waves of a country cannot be told apart
        by year.

    Notes
    -----
    ChronoCulture, sections 3.2 and 3.3, appendix A.2; definitions, section 1.
    """
    funnel = Funnel(Counter(dict.fromkeys(_steps(rules), 0)))
    rows: list[dict[str, object]] = []
    seen: dict[tuple[str, str], str] = {}
    for data in sources:
        points = _time_points(data, rules, funnel)
        names: dict[str, str | None] = {}
        for code, name in zip(
            *(data.respondents[c].to_pylist() for c in ("country", "country_name")), strict=True
        ):
            if code is not None and names.get(code) is None:
                names[code] = name
        weights = (
            np.asarray(data.respondents["weight"].to_numpy(), dtype=np.float64)
            if data.weight is not None
            else None
        )
        inside = points.group >= 0
        for item in data.items:
            where = f"{item.survey} {item.variable}"
            if (item.survey, item.variable) in seen:
                raise SourceError(
                    f"{where} is in two sources, {seen[item.survey, item.variable]} and "
                    f"{data.source}; keep it in one of them with [[sources]] variables"
                )
            seen[item.survey, item.variable] = data.source
            rows.extend(_item_rows(data, item, points, inside, weights, names, rules, funnel))
    order = {key: index for index, key in enumerate(seen)}
    rows.sort(
        key=lambda row: (
            order[str(row["survey"]), str(row["variable"])],
            country_order(str(row["country"])),
            row["year"],
        )
    )
    if not rows:
        raise SourceError(
            f"no time point has {rules.min_respondents} valid answers in the waves "
            f"{rules.waves}; lower [rules] min_respondents or widen waves"
        )
    funnel.notes.sort()
    unnamed = sorted({str(r["country"]) for r in rows if r["country_name"] is None})
    if unnamed:
        funnel.notes.append(f"countries without a name, kept under their code: {unnamed}")
    return pa.Table.from_pylist(rows, schema=schema.GOLD), funnel


def _item_rows(
    data: Microdata,
    item: Item,
    points: _TimePoints,
    inside: NDArray[np.bool_],
    weights: NDArray[np.float64] | None,
    names: dict[str, str | None],
    rules: Rules,
    funnel: Funnel,
) -> list[dict[str, object]]:
    codes = np.asarray(data.respondents[item.variable].to_numpy(), dtype=np.float64)[inside]
    group = points.group[inside]
    options = [option.code for option in item.options]
    n_cells = len(points.keys)
    unweighted = weighted_distributions(codes, group, None, options, n_cells)
    cells = unweighted
    weight_names: list[str | None] = [None] * n_cells
    if weights is not None:
        cells = weighted_distributions(codes, group, weights[inside], options, n_cells)
        weight_names = [data.weight] * n_cells
    valid = np.isin(codes, np.asarray(options, dtype=np.float64))
    if weights is not None:
        kept = weights[inside]
        valid &= np.isfinite(kept) & (kept > 0)
    by_year = np.bincount(points.fine[inside][valid], minlength=len(points.fine_year))
    funnel.steps["answers asked for"] += len(codes)
    funnel.steps["valid answers"] += int(unweighted.n_valid.sum())
    funnel.steps["valid answers dropped for their weight"] += int(cells.n_dropped_weight.sum())
    entering: dict[str, list[int]] = {}
    for cell in range(n_cells):
        funnel.steps["cells"] += 1
        if unweighted.n_valid[cell] == 0:
            funnel.steps["cells where the item was not asked"] += 1
            continue
        if weights is not None and cells.n_valid[cell] == 0:
            # No respondent of this cell has a weight: unweighted, and the row says so.
            cells.probs[cell] = unweighted.probs[cell]
            cells.n_valid[cell] = unweighted.n_valid[cell]
            cells.n_eff[cell] = unweighted.n_eff[cell]
            cells.n_dropped_weight[cell] = 0
            weight_names[cell] = None
            members = np.flatnonzero(points.fine_group == cell)
            answered = np.isin(codes, np.asarray(options, dtype=np.float64))
            by_year[members] = np.bincount(
                points.fine[inside][answered], minlength=len(points.fine_year)
            )[members]
            funnel.notes.append(
                f"{item.survey} {item.variable}, country {points.keys[cell][0]}, "
                f"wave {points.keys[cell][1]}: no respondent has a weight, unweighted"
            )
        if cells.n_valid[cell] < rules.min_respondents:
            funnel.steps[f"cells below {rules.min_respondents} valid answers"] += 1
            continue
        entering.setdefault(points.keys[cell][0], []).append(cell)
    rows: list[dict[str, object]] = []
    for country, members_of_country in entering.items():
        where = f"{item.survey} {item.variable}, country {country}"
        years = _name_years(members_of_country, by_year, points, where, funnel)
        name = names.get(country) or country_name(country)
        for cell in members_of_country:
            funnel.steps["time points"] += 1
            probs = cells.probs[cell]
            rows.append(
                {
                    "survey": item.survey,
                    "variable": item.variable,
                    "country": country,
                    "country_name": name,
                    "region": region_of(country),
                    "year": years[cell],
                    "wave": points.keys[cell][1],
                    "weight": weight_names[cell],
                    "n_valid": int(cells.n_valid[cell]),
                    "n_eff": float(cells.n_eff[cell]),
                    "n_dropped_weight": int(cells.n_dropped_weight[cell]),
                    "n_options": len(options),
                    "collapsed": bool(2 * int((probs > 0).sum()) <= len(options)),
                    "probs": probs.tolist(),
                }
            )
    return rows
