"""Modal answers (Table 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chronocore.identity import derived_seed
from chronocore.intervals import cell_interval
from chronocore.metrics import SHIFTS
from chronocore.modal import HALF, ModalAnswers
from chronocore.redraws import GoldRedraws
from chronocore.scores import Flags, Floats, Integers, PairScores
from chronocore.tables.cells import Cells, Context, TableSpec, clusters_of, sampled
from chronocore.tables.intervals import UnitBootstrap
from chronocore.tolerance import below

__all__ = ["SPECS", "ModalRun"]

STRONG = SHIFTS.index("strong")


@dataclass(frozen=True, slots=True)
class ModalRun:
    """A run that was asked for the most common answer.

    Attributes
    ----------
    run_id, label : str
    answers : ModalAnswers
    scores : PairScores or None
        All complete pairs of the run; None if it has none.
    """

    run_id: str
    label: str
    answers: ModalAnswers
    scores: PairScores | None = None


@dataclass(frozen=True, slots=True)
class _Measure:
    """What a share counts: the pairs of a run, as observed and, if asked for, under redraws."""

    name: str
    values: Floats  # (n,)
    redrawn: Floats | None  # (R, n)


def _add(
    cells: Cells,
    context: Context,
    measure: _Measure,
    rows: Integers,
    pair: Integers,
    where: dict[str, str],
) -> None:
    """Add a percentage with its interval."""
    settings = context.settings
    where = where | {"measure": measure.name}
    # The run's id stands for it: another label gives the same interval.
    stream = [where[key] for key in sorted(where) if key != "label"]
    values = measure.values[rows]
    redrawn = None if measure.redrawn is None else measure.redrawn[:, rows]
    if redrawn is not None and (redrawn == values).all():
        redrawn = None  # no redraw changes an answer
    estimate, low, high = cell_interval(
        values,
        "proportion",
        n_resamples=settings.resamples,
        confidence_level=settings.confidence_level,
        seed=derived_seed(settings.seed, cells.name, *stream),
        clusters=clusters_of(context, pair[rows]),
        redrawn=redrawn,
    )
    cells.add(
        group=where["group"], measure=measure.name, unit="%", n=len(rows),
        estimate=estimate * 100, low=low * 100, high=high * 100, run_id=where["run_id"],
        label=where["label"], prediction=where["prediction"], survey=where["survey"],
        **sampled(context, pair[rows], int(values.sum()), redrawn is None),
    )  # fmt: skip


def _modal(cells: Cells, context: Context) -> None:
    for run in context.modal:
        both, missed = _measures(context, run)
        for survey in context.surveys:
            inside = context.benchmark.in_survey(survey)[run.answers.pair]
            where = {
                "run_id": run.run_id, "label": run.label, "prediction": "model", "survey": survey,
            }  # fmt: skip
            _groups(cells, context, run, both, missed, inside, where)


def _groups(
    cells: Cells,
    context: Context,
    run: ModalRun,
    both: _Measure,
    missed: _Measure,
    inside: Flags,
    where: dict[str, str],
) -> None:
    answers = run.answers
    strong_plus = inside & (answers.shift >= STRONG)
    groups = [
        (name, inside & (answers.shift == SHIFTS.index(name)))
        for name in ("stable", "strong", "very_strong")
    ]
    for group, members in [*groups, ("strong_plus", strong_plus)]:
        rows = np.flatnonzero(members)
        _add(cells, context, both, rows, answers.pair, {**where, "group": group})
    if run.scores is None:
        return  # without dated predictions there is no ratio, and nothing to say of the shift
    rows = np.flatnonzero(strong_plus & np.isfinite(answers.ratio))
    _add(cells, context, missed, rows, answers.pair, {**where, "group": "strong_plus"})


def _measures(context: Context, run: ModalRun) -> tuple[_Measure, _Measure]:
    """Return which pairs have both answers right, and which the newer one but half the shift."""
    answers = run.answers
    both, missed = answers.both_correct, answers.half_missed
    again: tuple[Floats | None, Floats | None] = (None, None)
    intervals = context.intervals
    if isinstance(intervals, UnitBootstrap) and intervals.redraws is not None and len(answers):
        again = _redrawn(context, run, intervals.redraws)
    return (
        _Measure("both_correct", both.astype(np.float64), again[0]),
        _Measure("newer_correct_half_missed", missed.astype(np.float64), again[1]),
    )


def _ratio(scores: PairScores) -> Floats:
    return scores.ratio


def _redrawn(context: Context, run: ModalRun, redraws: GoldRedraws) -> tuple[Floats, Floats | None]:
    """Return both measures under every redraw of gold, shape (R, n).

    Which pairs are evaluated stays as observed; the most common options and the observed shift
    are those of the redraw. The second is NaN where a redraw shows no shift.
    """
    answers = run.answers
    pairs = context.benchmark.pairs.take(pa.array(answers.pair))
    older = redraws.modes(pairs, "year_old") == _places(context, answers.older_choice, pairs)
    newer = redraws.modes(pairs, "year_new") == _places(context, answers.newer_choice, pairs)
    both = (older & newer).astype(np.float64)
    if run.scores is None:
        return both, None
    ratio = np.full((redraws.repeats, len(context.benchmark.pairs)), np.nan)
    ratio[:, run.scores.pair] = redraws.column(run.scores, _ratio, _ratio)
    ratio = ratio[:, answers.pair]
    missed = np.where(np.isnan(ratio), np.nan, newer & below(ratio, HALF))
    return both, missed


def _places(context: Context, choice: Integers, pairs: pa.Table) -> Integers:
    """Return the position of each chosen option; -1 if the question has no such option."""
    assert context.benchmark.items is not None
    codes = {
        (row["survey"], row["variable"]): [option["code"] for option in row["options"]]
        for row in context.benchmark.items.select(["survey", "variable", "options"]).to_pylist()
    }
    questions = pairs.select(["survey", "variable"]).to_pylist()
    found = np.full(len(choice), -1)
    for i, (code, row) in enumerate(zip(choice.tolist(), questions, strict=True)):
        own = codes[row["survey"], row["variable"]]
        if code in own:
            found[i] = own.index(code)
    return found


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
