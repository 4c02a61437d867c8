"""RF1: accuracy and alignment (Tables 8 to 10)."""

from __future__ import annotations

from chronocore.metrics import SHIFTS
from chronocore.tables.cells import POOLED, SHIFTED, Cells, Context, TableSpec, View, by_shift
from chronocore.tables.measures import (
    ALIGNMENT,
    NEWER_ACCURATE,
    OLDER_ACCURATE,
    OUTCOME,
    SAME_PERIOD,
)
from chronocore.tolerance import ATOL

__all__ = ["SPECS", "TOLERANCES", "tolerances"]

#: Tolerances of accuracy of the sensitivity check.
TOLERANCES = (0.05, 0.10, 0.15, 0.20)


def tolerances(tau: float) -> dict[str, float]:
    """Return the tolerances to show, with the one in force, by their text."""
    shown = {f"{value:.2f}": value for value in TOLERANCES}
    if not any(abs(value - tau) <= ATOL for value in TOLERANCES):
        shown[f"{tau:g}"] = tau
    return dict(sorted(shown.items(), key=lambda pair: pair[1]))


def _accuracy(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation):
            for group, rows in by_shift(view.scores, SHIFTS, POOLED):
                cells.shares(evaluation, view, group, rows, OUTCOME)


def _by_tolerance(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for own in context.own_views(evaluation):
            for item, tau in tolerances(context.settings.tau).items():
                in_force = abs(tau - context.settings.tau) <= ATOL
                view = own if in_force else View("model", own.survey, own.scores.within(tau))
                for group, rows in by_shift(view.scores, SHIFTS, POOLED):
                    where = (evaluation, view, group, rows)
                    # The tolerance in force is Table 8 again, to the last digit.
                    cell = ("t08", group, None) if in_force else None
                    for quantity in (OLDER_ACCURATE, NEWER_ACCURATE):
                        cells.statistic(*where, quantity, item=item, cell=cell)
                    cells.shares(*where, OUTCOME, item=item, cell=cell)


def _alignment(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation):
            for group, rows in by_shift(view.scores, SHIFTED, "all_shifted"):
                cells.shares(evaluation, view, group, rows, ALIGNMENT)
                cells.statistic(evaluation, view, group, rows, SAME_PERIOD)


SPECS = (
    TableSpec(
        "t08", "RF1: accuracy by human shift", "RF1",
        "Pairs whose predictions are within the tolerance of gold for both years, one of "
        "them, or neither; references on the same pairs.", "human shift", _accuracy,
        measures=("both", "older_only", "newer_only"), across=("measure", "group"),
    ),
    TableSpec(
        "t09", "RF1: accuracy by tolerance", "RF1",
        "Older and newer accuracy include pairs counted under both; the four outcomes of a pair "
        "sum to 100.", "human shift", _by_tolerance, item="tolerance",
        lines=("label", "prediction", "survey", "item", "group"),
    ),
    TableSpec(
        "t10", "RF1: which year's gold the predictions are closer to", "RF1",
        "Separated: each prediction is closer to its own year. Same period: both are closer to "
        "the same year. Shifted pairs only, also those with zero predicted change.",
        "human shift", _alignment, across=("measure", "group"),
        measures=("separated", "same_period", "older_aligned", "newer_aligned", "reversed"),
    ),
)  # fmt: skip
