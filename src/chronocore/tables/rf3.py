"""RF3: the default year, and what naming a year does (Tables 15 to 20)."""

from __future__ import annotations

import numpy as np

from chronocore.metrics import SHIFTS
from chronocore.tables.cells import POOLED, Cells, Context, TableSpec, by_shift
from chronocore.tables.measures import DEFAULT_PLACES, NAMING

__all__ = ["SPECS"]


def _default_year(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation):
            if view.prediction == "undated_both":
                continue  # its undated prediction is the model's own
            available = view.scores.n_timepoints
            for group, inside in (
                ("two", available == 2),
                ("three_or_more", available >= 3),
                (POOLED, available >= 2),
            ):
                rows = np.flatnonzero(inside)
                own = available[rows].astype(np.float64)
                for place in DEFAULT_PLACES:
                    if group == "two" and place.measure == "intermediate":
                        continue
                    cells.statistic(evaluation, view, group, rows, place, item="observed")
                    chance = (own - 2) / own if place.measure == "intermediate" else 1 / own
                    cells.add(
                        run_id=evaluation.run_id, label=evaluation.label,
                        prediction=view.prediction, survey=view.survey, group=group,
                        item="equal_choice", measure=place.measure, unit="%",
                        estimate=float(chance.mean() * 100) if len(own) else np.nan, n=len(own),
                    )  # fmt: skip


def _default_overall(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation):
            if view.prediction == "undated_both":
                continue
            rows = np.flatnonzero(view.scores.n_timepoints >= 2)
            for place in DEFAULT_PLACES:
                cells.statistic(
                    evaluation, view, POOLED, rows, place, cell=("t16", POOLED, "observed")
                )


def _overall(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation, static=False):
            rows = np.arange(len(view.scores))
            for item, quantities in NAMING.items():
                for quantity in quantities:
                    cells.statistic(evaluation, view, POOLED, rows, quantity, item=item)


def _by_shift(
    cells: Cells, context: Context, shifts: tuple[str, ...], measures: tuple[str, ...]
) -> None:
    for evaluation in context.evaluations:
        for view in context.views(evaluation, static=False):
            for group, rows in by_shift(view.scores, shifts):
                for item, quantities in NAMING.items():
                    for quantity in quantities:
                        if quantity.measure in measures:
                            cells.statistic(
                                evaluation, view, group, rows, quantity, item=item,
                                cell=("t18", group, item),
                            )  # fmt: skip


def _benefit(cells: Cells, context: Context) -> None:
    _by_shift(cells, context, SHIFTS, ("mean_benefit",))


def _outcomes(cells: Cells, context: Context) -> None:
    measures = ("mean_benefit", "helped", "unchanged", "hurt", "identical")
    _by_shift(cells, context, SHIFTS, measures)


def _very_strong(cells: Cells, context: Context) -> None:
    _by_shift(cells, context, ("very_strong",), ("helped", "hurt"))


SPECS = (
    TableSpec(
        "t15", "RF3: default year of undated predictions", "RF3",
        "Share of pairs whose undated prediction is closest to the oldest, an intermediate or the "
        "newest available year; tied years share the pair.", "available years", _default_overall,
    ),
    TableSpec(
        "t16", "RF3: default year by number of available years", "RF3",
        "The year whose gold is nearest, beside the share expected if every available year "
        "were equally likely.", "available years", _default_year, item="share",
        measures=("oldest", "intermediate", "newest"),
    ),
    TableSpec(
        "t17", "RF3: overall effect of naming a year", "RF3",
        "Benefit: reduction of the distance to gold; helped, unchanged and hurt sum to 100.",
        "human shift", _overall, item="naming", across=("item", "measure"),
    ),
    TableSpec(
        "t18", "RF3: effect of naming a year by human shift", "RF3",
        "Benefit: reduction of the distance to gold.", "human shift", _benefit, item="naming",
        across=("item", "group"),
    ),
    TableSpec(
        "t19", "RF3: outcomes of naming a year by human shift", "RF3",
        "Helped, unchanged and hurt: positive, zero and negative benefit; identical: the dated "
        "prediction equals the undated one.", "human shift", _outcomes, item="naming",
    ),
    TableSpec(
        "t20", "RF3: helped and hurt by naming a year, very strong shifts", "RF3",
        "Share of very strong shifts.", "human shift", _very_strong, item="naming",
        across=("item", "measure"),
    ),
)  # fmt: skip
