"""Results by topic and by region, over models, and how far models agree (appendix C.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from chronocore import schema
from chronocore.components import kendalls_w
from chronocore.metrics import SHIFTS
from chronocore.scores import Floats, Integers, PairScores
from chronocore.tables.cells import (
    SMALL_N,
    Cells,
    Context,
    Evaluation,
    Labels,
    TableSpec,
    View,
)
from chronocore.tables.intervals import Quantity
from chronocore.tables.measures import (
    BOTH,
    MEAN_SHIFT,
    MEDIAN_RATIO,
    NAMING,
    RIGHT_DIRECTION,
    ZERO_SHIFT,
)

__all__ = ["DIMENSIONS", "SPECS"]

#: Shift classes of the breakdown; strong and very strong are one, since some groups hold few.
CLASSES = {
    "stable": ("stable",),
    "moderate": ("moderate",),
    "strong_plus": ("strong", "very_strong"),
}

#: What results are broken down by, and the table that holds it.
DIMENSIONS = {"topics": "topic", "topics-broad": "topic_broad", "regions": "region"}

MEASURES: tuple[tuple[str, Quantity], ...] = (
    ("both", BOTH),
    ("median_ratio", MEDIAN_RATIO),
    ("zero_shift", ZERO_SHIFT),
    ("right_direction", RIGHT_DIRECTION),
    ("benefit_older", replace(NAMING["older"][0], measure="benefit_older")),
    ("benefit_newer", replace(NAMING["newer"][0], measure="benefit_newer")),
    ("mean_shift", MEAN_SHIFT),
)


def _equal_countries(context: Context) -> Quantity:
    """Return both-period accuracy in which every country of the cell counts the same."""
    country = context.benchmark.country.codes

    def weights(scores: PairScores, rows: Integers) -> Floats:
        own = country[scores.pair[rows]]
        return np.asarray(1.0 / np.bincount(own)[own])

    return replace(BOTH, measure="both_by_country", statistic="mean", weights=weights)


def _surveys(context: Context, dimension: str) -> tuple[str, ...]:
    # A survey's own topics say nothing about another survey's pairs.
    return context.benchmark.surveys if dimension == "topic" else context.surveys


def _breakdown(cells: Cells, context: Context, name: str) -> None:
    cells.rows = _cells(context, name).rows


def _cells(context: Context, name: str) -> Cells:
    """Return the cells of a breakdown, which tables over models read as well."""
    if name not in context.built:
        context.built[name] = Cells(name, context)
        _fill(context.built[name], context, DIMENSIONS[name])
    return context.built[name]


def _fill(cells: Cells, context: Context, dimension: str) -> None:
    labels: Labels = getattr(context.benchmark, dimension)
    quantities = [quantity for _, quantity in MEASURES] + [_equal_countries(context)]
    for evaluation in context.evaluations:
        for survey in _surveys(context, dimension):
            view = View("model", survey, context.own_scores(evaluation, survey))
            codes = labels.codes[view.scores.pair]
            shift = view.scores.shift
            by_class = {
                item: np.logical_or.reduce([shift == SHIFTS.index(name) for name in classes])
                for item, classes in CLASSES.items()
            }
            for code, group in sorted(enumerate(labels.names), key=lambda pair: pair[1]):
                members = codes == code
                if not members.any():
                    continue
                for item, inside in by_class.items():
                    rows = np.flatnonzero(members & inside)
                    for quantity in quantities:
                        cells.statistic(
                            evaluation, view, group, rows, quantity, item=item, minimum=SMALL_N
                        )


Estimates = dict[tuple[str, str, str, str, str], list[tuple[float | None, int]]]


def _models(context: Context) -> tuple[list[str], list[str]]:
    """Return the runs that stand for a model each, and what is to be said of the others.

    Several runs of one model (instructions, elicitations, settings) are no further models. The one
    asked as published counts; of several such, the first.
    """
    runs: dict[Any, list[Evaluation]] = {}
    for evaluation in context.evaluations:
        asked = context.asked.get(evaluation.run_id)
        runs.setdefault(evaluation.run_id if asked is None else asked.weights, []).append(
            evaluation
        )
    chosen, said = [], []
    for own in runs.values():
        one = min(own, key=lambda run: _distance_to_the_paper(context, run))
        chosen.append(one.run_id)
        others = [run.label for run in own if run is not one]
        if others:
            said.append(f"One run a model: {one.label} stands for {', '.join(others)} as well.")
    return chosen, said


def _distance_to_the_paper(context: Context, run: Evaluation) -> tuple[bool, ...]:
    asked = context.asked.get(run.run_id)
    return () if asked is None else asked.unlike_the_paper


def _by_cell(context: Context, name: str) -> Estimates:
    """Return the estimates of a breakdown by (survey, item, measure, unit, group), one a model."""
    chosen = set(_models(context)[0])
    names = schema.TABLE.names
    keys = [names.index(key) for key in ("survey", "item", "measure", "unit", "group")]
    run, estimate, n = (names.index(key) for key in ("run_id", "estimate", "n"))
    found: Estimates = {}
    for row in _cells(context, name).rows:
        if row[run] not in chosen:
            continue
        where: Any = tuple(row[key] for key in keys)
        found.setdefault(where, []).append((row[estimate], row[n]))
    return found


def _over_models(cells: Cells, context: Context, name: str) -> None:
    cells.remarks.extend(_models(context)[1])
    ends: dict[str, Callable[[list[float]], float]] = {
        "mean": lambda values: sum(values) / len(values), "lowest": min, "highest": max,
    }  # fmt: skip
    for (survey, item, measure, unit, group), cell in _by_cell(context, name).items():
        values = [estimate for estimate, _ in cell if estimate is not None]
        for label, function in ends.items():
            cells.add(
                label=label, survey=survey, group=group, item=item, measure=measure, unit=unit,
                estimate=function(values) if values else np.nan, n=len(values),
            )  # fmt: skip


def _agreement(cells: Cells, context: Context) -> None:
    chosen, said = _models(context)
    n_models = len(chosen)
    if n_models < 2:
        return
    cells.remarks.extend(said)
    for name, dimension in DIMENSIONS.items():
        ranked: dict[tuple[str, str, str], list[list[float]]] = {}
        for (survey, item, measure, _, _), cell in _by_cell(context, name).items():
            values = [estimate for estimate, _ in cell if estimate is not None]
            groups = ranked.setdefault((survey, item, measure), [])
            if len(values) == n_models:
                groups.append(values)
        for (survey, item, measure), groups in ranked.items():
            enough = len(groups) > 1
            cells.add(
                survey=survey, group=dimension, item=item, measure=measure, unit="concordance",
                estimate=kendalls_w(np.array(groups).T) if enough else np.nan, n=len(groups),
            )  # fmt: skip


_NOTE = (
    f"Blank: fewer than {SMALL_N} pairs. Strong+ is strong and very strong together; ratio and "
    "right direction over pairs with nonzero predicted change; by country: both years accurate "
    "with every country weighted equally."
)
_RANGE = (
    "Mean, lowest and highest value over the models whose cell is not blank, one run each; n "
    "counts models."
)


def _specs() -> tuple[TableSpec, ...]:
    titles = {
        "topics": ("topic", "each survey's own topics"),
        "topics-broad": ("broad topic", "broad topics"),
        "regions": ("region", "world regions"),
    }
    specs = []
    for name, (head, words) in titles.items():
        specs.append(
            TableSpec(
                name, f"Results by {words}", "breakdowns", _NOTE, head,
                partial(_breakdown, name=name), item="human shift", by_survey=True,
            )
        )  # fmt: skip
        specs.append(
            TableSpec(
                f"{name}-range", f"Results by {words}: mean and range over models", "breakdowns",
                _RANGE, head, partial(_over_models, name=name), item="human shift", by_survey=True,
                lines=("survey", "group", "item", "label"), names=(),
            )
        )  # fmt: skip
    specs.append(
        TableSpec(
            "agreement", "Agreement of models on which groups are hardest", "breakdowns",
            "Kendall's W, corrected for ties, over the models' rankings of the groups that are "
            "not blank for any model, one run each; 1 means identical rankings; n counts groups.",
            "ranked", _agreement, item="human shift", by_survey=True, needs="two or more models",
        )
    )  # fmt: skip
    return tuple(specs)


SPECS = _specs()
