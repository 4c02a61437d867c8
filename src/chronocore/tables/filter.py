"""The knowledge filter (Tables 6 and 7) and the distances it ranks by."""

from __future__ import annotations

import numpy as np

from chronocore.metrics import SHIFTS
from chronocore.tables.cells import POOLED, Cells, Context, TableSpec, View
from chronocore.tables.measures import NEAREST

__all__ = ["LEVELS", "SPECS", "levels"]

#: Retention levels, in per cent.
LEVELS = (25, 50, 75, 100)


def levels(retain: float) -> dict[str, float]:
    """Return the retention levels to show, with the one in force, by their text in per cent."""
    shown = {f"{level:g}": level / 100 for level in LEVELS}
    own = f"{retain * 100:g}"
    if own not in shown:
        shown[own] = retain
    return dict(sorted(shown.items(), key=lambda pair: pair[1]))


def _retention(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        scored = evaluation.scored
        own = context.benchmark.survey.codes[scored.pair]
        present = {context.benchmark.survey.names[code] for code in np.unique(own)}
        for survey in [*sorted(present), POOLED]:
            members = context.benchmark.in_survey(survey)[scored.pair]
            n = int(members.sum())
            for measure, count in (
                ("scored", n),
                ("retained", int(scored.retained[members].sum())),
            ):
                cells.add(run_id=evaluation.run_id, label=evaluation.label, prediction="model",
                          group=survey, measure=measure, unit="pairs", estimate=count,
                          n=n)  # fmt: skip


def _by_level(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for survey in context.surveys:
            scored = context.of_survey(evaluation.scored, survey)
            for level, retain in levels(context.settings.retain).items():
                shift = scored.shift[scored.at(retain)]
                counts = np.bincount(shift, minlength=len(SHIFTS))
                for group, count in (
                    *zip(SHIFTS, counts, strict=True), ("total", len(shift)),
                ):  # fmt: skip
                    cells.add(run_id=evaluation.run_id, label=evaluation.label,
                              prediction="model", survey=survey, group=group, item=level,
                              measure="retained", unit="pairs", estimate=float(count),
                              n=len(scored))  # fmt: skip


def _nearest(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        for survey in context.surveys:
            scored = context.of_survey(evaluation.scored, survey)
            view = View("model", survey, scored)
            for count in np.unique(scored.n_timepoints):
                rows = np.flatnonzero(scored.n_timepoints == count)
                cells.statistic(evaluation, view, f"{count}", rows, NEAREST)


SPECS = (
    TableSpec(
        "t06", "Knowledge filter: retained pairs", "filter",
        "Pairs scored and retained, by survey.", "survey", _retention,
        across=("group", "measure"),
    ),
    TableSpec(
        "t07", "Knowledge filter: retained pairs at each level", "filter",
        "The level is the share of pairs kept in each stratum, in per cent.", "human shift",
        _by_level, item="level", across=("group",),
    ),
    TableSpec(
        "nearest", "Nearest-survey distance by available time points", "filter",
        "Median distance of the undated prediction to its nearest time point, before the "
        "filter.", "time points", _nearest, across=("group",),
    ),
)  # fmt: skip
