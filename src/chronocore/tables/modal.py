"""Modal answers (Table 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore.identity import derived_seed
from chronocore.intervals import cell_interval
from chronocore.metrics import SHIFTS
from chronocore.modal import ModalAnswers
from chronocore.scores import Integers
from chronocore.tables.cells import Cells, Context, TableSpec, clusters_of

__all__ = ["SPECS"]

STRONG = SHIFTS.index("strong")


def _add(
    cells: Cells,
    context: Context,
    hits: NDArray[np.bool_],
    pair: Integers,
    where: dict[str, str | None],
) -> None:
    """Add a percentage with its interval."""
    settings = context.settings
    estimate, low, high = cell_interval(
        hits.astype(np.float64),
        "proportion",
        n_resamples=settings.resamples,
        confidence_level=settings.confidence_level,
        seed=derived_seed(settings.seed, cells.name, *(where[key] or "" for key in sorted(where))),
        clusters=clusters_of(context, pair),
    )
    cells.add(
        group=str(where["group"]), measure=str(where["measure"]), unit="%", n=len(hits),
        estimate=estimate * 100, low=low * 100, high=high * 100, run_id=where["run_id"],
        label=where["label"], prediction=where["prediction"], survey=where["survey"],
    )  # fmt: skip


def _modal(cells: Cells, context: Context) -> None:
    for evaluation in context.evaluations:
        answers = context.modal.get(evaluation.run_id)
        if answers is None:
            continue
        for survey in context.surveys:
            inside = context.benchmark.in_survey(survey)[answers.pair]
            where = {
                "run_id": evaluation.run_id, "label": evaluation.label, "prediction": "model",
                "survey": survey,
            }  # fmt: skip
            _groups(cells, context, answers, inside, where)


def _groups(
    cells: Cells,
    context: Context,
    answers: ModalAnswers,
    inside: NDArray[np.bool_],
    where: dict[str, str],
) -> None:
    both, missed = answers.both_correct, answers.half_missed
    strong_plus = inside & (answers.shift >= STRONG)
    groups = [
        (name, inside & (answers.shift == SHIFTS.index(name)))
        for name in ("stable", "strong", "very_strong")
    ]
    for group, rows in [*groups, ("strong_plus", strong_plus)]:
        _add(
            cells, context, both[rows], answers.pair[rows],
            {**where, "group": group, "measure": "both_correct"},
        )  # fmt: skip
    # Without dated predictions there is no ratio, and nothing can be said of the shift.
    known = strong_plus & np.isfinite(answers.ratio)
    _add(
        cells, context, missed[known], answers.pair[known],
        {**where, "group": "strong_plus", "measure": "newer_correct_half_missed"},
    )  # fmt: skip


SPECS = (
    TableSpec(
        "t05", "Modal answers", "modal",
        "Pairs whose two most common answers lie at least 10 points apart in both years: stable "
        "ones, and strongly or very strongly shifted ones whose most common answer changes. Of "
        "those with at least one correct answer, the share with both correct; and among shifted "
        "ones the share where the newer answer is correct while the predicted distributions move "
        "less than half as far as opinion did.",
        "human shift", _modal,
        needs="modal answers: chronocore predict STUDY --model SPEC --kinds modal",
    ),
)  # fmt: skip
