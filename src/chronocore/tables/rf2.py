"""RF2: magnitude, direction and stability (Tables 11 to 14)."""

from __future__ import annotations

from chronocore.tables.cells import SHIFTED, Cells, Context, TableSpec, by_shift
from chronocore.tables.measures import (
    MEDIAN_COSINE,
    MEDIAN_RATIO,
    RATIO_OF_ALL,
    RATIO_OF_NONZERO,
    RIGHT_DIRECTION,
    STABILITY,
    ZERO_SHIFT,
)

__all__ = ["SPECS"]


def _change(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation, static=False):
            for group, rows in by_shift(view.scores, SHIFTED, "all_shifted"):
                for quantity in (ZERO_SHIFT, MEDIAN_RATIO, MEDIAN_COSINE, RIGHT_DIRECTION):
                    cells.statistic(evaluation, view, group, rows, quantity)


def _ratios(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation, static=False):
            for group, rows in by_shift(view.scores, SHIFTED):
                for quantity in (RATIO_OF_NONZERO, RATIO_OF_ALL):
                    cells.statistic(evaluation, view, group, rows, quantity)


def _stability(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation, static=False):
            for group, rows in by_shift(view.scores, ("stable",)):
                cells.shares(evaluation, view, group, rows, STABILITY)


def _stability_by_survey(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.own_views(evaluation):
            for group, rows in by_shift(view.scores, ("stable",)):
                cells.shares(evaluation, view, group, rows, STABILITY, cell=("t13", group, None))


SPECS = (
    TableSpec(
        "t11", "RF2: magnitude and direction of the predicted change", "RF2",
        "Ratio and cosine are medians over pairs with nonzero predicted change; right "
        "direction is the share of them with a positive cosine.", "human shift", _change,
        across=("measure", "group"),
    ),
    TableSpec(
        "t12", "RF2: median magnitude ratio with and without identical predictions", "RF2",
        "Predicted change divided by observed change.", "human shift", _ratios,
    ),
    TableSpec(
        "t13", "RF2: stability and false drift on stable pairs", "RF2",
        "Preserves: the predicted change stays within the stable boundary; large drift from "
        "0.10 on.", "human shift", _stability,
    ),
    TableSpec(
        "t14", "RF2: stability and false drift on stable pairs, by survey", "RF2",
        "As in t13, for each survey and for all pairs together.", "human shift",
        _stability_by_survey, by_survey=True,
    ),
)  # fmt: skip
