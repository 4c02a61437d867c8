"""Robustness to the shift boundaries (Tables 22 to 25) and to retention (Tables 26 and 27)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from chronocore.metrics import SHIFTS
from chronocore.tables.cells import (
    POOLED,
    SHIFTED,
    Cells,
    Context,
    Evaluation,
    TableSpec,
    View,
    by_shift,
)
from chronocore.tables.filter import levels
from chronocore.tables.measures import (
    ALIGNMENT,
    DEFAULT_PLACES,
    MEDIAN_COSINE,
    MEDIAN_RATIO,
    NAMING,
    ONE_PERIOD,
    OUTCOME,
    SAME_PERIOD,
    STABILITY,
    ZERO_SHIFT,
)

__all__ = ["SPECS"]

# A cell of these tables that is a cell of a main table too takes that one's random numbers, so
# that the set and the level in force repeat the main results to the last digit.


def _set_views(context: Context) -> Iterator[tuple[Evaluation, View, str, bool]]:
    for evaluation in context.evaluations:
        for own in context.own_views(evaluation):
            for name, chosen in context.boundary_sets.items():
                in_force = context.in_force(chosen)
                key = ("set", evaluation.run_id, own.survey, name)
                scores = own.scores
                if not in_force:
                    scores = context.keep(key, partial(own.scores.under, chosen))
                yield evaluation, View("model", own.survey, scores), name, in_force


def _accuracy(cells: Cells, context: Context) -> None:
    for evaluation, view, name, in_force in _set_views(context):
        for group, rows in by_shift(view.scores, SHIFTS):
            cell = ("t08", group, None) if in_force else None
            cells.shares(
                evaluation, view, group, rows, OUTCOME, item=name, only=("both",), cell=cell
            )
            cells.statistic(evaluation, view, group, rows, ONE_PERIOD, item=name, cell=cell)


def _alignment(cells: Cells, context: Context) -> None:
    for evaluation, view, name, in_force in _set_views(context):
        for group, rows in by_shift(view.scores, SHIFTED):
            cell = ("t10", group, None) if in_force else None
            cells.shares(
                evaluation, view, group, rows, ALIGNMENT, item=name, only=("separated",), cell=cell
            )
            cells.statistic(evaluation, view, group, rows, SAME_PERIOD, item=name, cell=cell)


def _change(cells: Cells, context: Context) -> None:
    for evaluation, view, name, in_force in _set_views(context):
        for group, rows in by_shift(view.scores, SHIFTED):
            for quantity in (ZERO_SHIFT, MEDIAN_RATIO, MEDIAN_COSINE):
                cells.statistic(
                    evaluation, view, group, rows, quantity, item=name,
                    cell=("t11", group, None) if in_force else None,
                )  # fmt: skip


def _stability(cells: Cells, context: Context) -> None:
    for evaluation, view, name, in_force in _set_views(context):
        for group, rows in by_shift(view.scores, ("stable",)):
            cell = ("t13", group, None) if in_force else None
            cells.shares(evaluation, view, group, rows, STABILITY, item=name, cell=cell)


def _level_views(context: Context) -> Iterator[tuple[Evaluation, View, str, bool]]:
    for evaluation in context.evaluations:
        for survey in context.surveys:
            scored = context.of_survey(evaluation.scored, survey)
            for level, retain in levels(context.settings.retain).items():
                kept = scored.at(retain)
                # References alone are evaluated on all pairs, whatever the level in force.
                in_force = bool((kept == scored.retained).all())
                key = ("level", evaluation.run_id, survey, level)
                scores = context.keep(key, partial(scored.take, kept))
                yield evaluation, View("model", survey, scores), level, in_force


_MAIN = ("t08", "t10", "t11")


def _findings_by_level(cells: Cells, context: Context) -> None:
    for evaluation, view, level, in_force in _level_views(context):
        for group, rows in by_shift(view.scores, SHIFTS):
            where = (evaluation, view, group, rows)

            main = {name: (name, group, None) if in_force else None for name in _MAIN}
            cells.shares(*where, OUTCOME, item=level, only=("both",), cell=main["t08"])
            if group == "stable":
                continue
            cells.shares(*where, ALIGNMENT, item=level, only=("separated",), cell=main["t10"])
            for quantity in (MEDIAN_RATIO, MEDIAN_COSINE):
                cells.statistic(*where, quantity, item=level, cell=main["t11"])


def _rf3_by_level(cells: Cells, context: Context) -> None:
    for evaluation, view, level, in_force in _level_views(context):
        every = np.arange(len(view.scores))
        available = np.flatnonzero(view.scores.n_timepoints >= 2)
        for quantity, measure, rows, main in (
            (DEFAULT_PLACES[2], "newest_default", available, ("t16", POOLED, "observed")),
            (NAMING["older"][0], "benefit_older", every, ("t17", POOLED, "older")),
            (NAMING["newer"][0], "benefit_newer", every, ("t17", POOLED, "newer")),
        ):
            # Two quantities of one cell need streams of their own names outside the level in
            # force: the benefits of the two years would otherwise be one cell.
            cells.statistic(
                evaluation, view, POOLED, rows, quantity, item=level, measure=measure,
                cell=main if in_force else (cells.name, measure, level),
            )  # fmt: skip
        stable = np.flatnonzero(view.scores.shift == 0)
        cells.shares(
            evaluation, view, POOLED, stable, STABILITY, item=level, only=("preserves",),
            cell=("t13", "stable", None) if in_force else (cells.name, "stable", level),
        )  # fmt: skip


SPECS = (
    TableSpec(
        "t22", "RF1 under other shift boundaries", "robustness",
        "One period: older only plus newer only.", "human shift", _accuracy, item="set",
        across=("measure", "group"), measures=("both", "one_period"),
    ),
    TableSpec(
        "t23", "RF1 alignment under other shift boundaries", "robustness",
        "Separated: each prediction is closer to its own year; same period: both are closer to "
        "the same year.", "human shift", _alignment, item="set", across=("measure", "group"),
    ),
    TableSpec(
        "t24", "RF2 under other shift boundaries", "robustness",
        "Ratio and cosine are medians over pairs with nonzero predicted change.", "human shift",
        _change, item="set", across=("measure", "group"),
    ),
    TableSpec(
        "t25", "Stable pairs under other shift boundaries", "robustness",
        "Preserves takes the stable boundary of each set; large drift from 0.10 on throughout.",
        "human shift", _stability, item="set",
    ),
    TableSpec(
        "t26", "RF1 and RF2 at each retention level", "robustness",
        "Both accurate, separated, and medians over pairs with nonzero predicted change; the level "
        "in force repeats the main results.", "human shift", _findings_by_level, item="level",
        across=("measure", "group"),
    ),
    TableSpec(
        "t27", "RF3 and stable pairs at each retention level", "robustness",
        "Newest default: share of pairs whose undated prediction is closest to the newest year; "
        "preserves: share of stable pairs.", "human shift", _rf3_by_level, item="level",
    ),
)  # fmt: skip
