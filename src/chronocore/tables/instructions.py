"""Prompt instructions and repeated runs (appendix F.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chronocore.identity import derived_seed
from chronocore.inference import bootstrap
from chronocore.intervals import cell_interval
from chronocore.metrics import SHIFTS, wasserstein
from chronocore.scores import Flags, Floats, Integers, PairPredictions, PairScores, pair_scores
from chronocore.tables.cells import (
    POOLED,
    SHIFTED,
    Cells,
    Context,
    Evaluation,
    TableSpec,
    View,
    by_shift,
    clusters_of,
    sampled,
)
from chronocore.tables.measures import MEDIAN_COSINE, MEDIAN_RATIO, OUTCOME, ZERO_SHIFT

__all__ = ["SPECS", "InstructionRuns", "RepeatedRun"]


@dataclass(frozen=True)
class InstructionRuns:
    """Runs of one model that differ in the instruction alone, on the pairs all of them have.

    Attributes
    ----------
    run_id, label : str
        The run under the default instruction.
    data : mapping of str to PairPredictions
        By instruction, ``default`` first.
    """

    run_id: str
    label: str
    data: Mapping[str, PairPredictions]

    @cached_property
    def pairs(self) -> Integers:
        """Rows in ``pairs.parquet`` of the pairs that are complete under every instruction."""
        common: Integers | None = None
        for data in self.data.values():
            common = data.index if common is None else np.intersect1d(common, data.index)
        assert common is not None
        return common

    def scores(
        self, instruction: str, tau: float, boundaries: str | tuple[float, ...]
    ) -> PairScores:
        """Return the scores of the common pairs, without a filter."""
        scores = pair_scores(
            self.data[instruction], tau=tau, boundaries=boundaries, is_reference=True
        )
        return scores.take(np.isin(scores.pair, self.pairs))

    def distances(self, instruction: str, pairs: Integers) -> Floats:
        """Return the mean distance of the dated predictions of some pairs to the default's."""
        other, base = self.data[instruction], self.data["default"]
        there = np.searchsorted(other.index, pairs)
        here = np.searchsorted(base.index, pairs)
        total = np.zeros(len(pairs))
        for end in ("old", "new"):
            total += wasserstein(
                getattr(other, end).take(there),
                getattr(base, end).take(here),
                base.supports.take(here),
            )
        return total / 2


@dataclass(frozen=True, slots=True)
class RepeatedRun:
    """Answers to the same prompts, compared with the first.

    Attributes
    ----------
    run_id, label : str
    kind : (n,) str
        Kind of the prompt of each comparison: ``dated`` or ``undated``.
    unit : (n,) int64
        What is resampled whole: the prompt of each comparison, or its country or question.
    distance : (n,) float64
        Distance of a later answer to the first one.
    identical : (n,) bool
    """

    run_id: str
    label: str
    kind: NDArray[np.str_]
    unit: Integers
    distance: Floats
    identical: Flags


def _instructions(cells: Cells, context: Context) -> None:
    settings = context.settings
    boundaries = context.boundaries
    chosen = boundaries if isinstance(boundaries, str) else tuple(boundaries)
    for runs in context.instructions:
        if not len(runs.pairs):
            continue
        for instruction in runs.data:
            scores = runs.scores(instruction, settings.tau, chosen)
            evaluation = Evaluation(runs.run_id, runs.label, {"model": scores}, scores)
            view = View("model", POOLED, scores)
            distances = runs.distances(instruction, scores.pair)
            groups = by_shift(scores, SHIFTS, POOLED)
            groups[-1:-1] = by_shift(scores, SHIFTED, "all_shifted")[-1:]
            for group, rows in groups:
                where = (evaluation, view, group, rows)
                seed = derived_seed(settings.seed, cells.name, runs.run_id, group, instruction)
                estimate, low, high = cell_interval(
                    distances[rows], "mean",
                    n_resamples=settings.resamples, confidence_level=settings.confidence_level,
                    seed=seed, clusters=clusters_of(context, scores.pair[rows]),
                )  # fmt: skip
                cells.add(
                    run_id=runs.run_id, label=runs.label, prediction="model", survey=POOLED,
                    group=group, item=instruction, measure="mean_distance", unit="W",
                    estimate=estimate, low=low, high=high, n=len(rows),
                    **sampled(context, scores.pair[rows]),
                )  # fmt: skip
                cells.shares(*where, OUTCOME, item=instruction, only=("both",))
                for quantity in (ZERO_SHIFT, MEDIAN_RATIO, MEDIAN_COSINE):
                    if group not in ("stable", POOLED):
                        cells.statistic(*where, quantity, item=instruction)


def _repeats(cells: Cells, context: Context) -> None:
    settings = context.settings
    for run in context.repeats:
        # The kinds one by one, then all together: naming a year may steady an answer.
        kinds = [kind for kind in ("dated", "undated", "modal") if (run.kind == kind).any()]
        for kind in (*kinds, None):
            chosen = np.ones(len(run.kind), dtype=np.bool_) if kind is None else run.kind == kind
            for measure, unit, values, scale in (
                ("identical", "%", run.identical.astype(np.float64), 100.0),
                ("mean_distance", "W", run.distance, 1.0),
            ):
                # The answers to one prompt are no independent observations.
                result = bootstrap(
                    values[chosen], "mean", clusters=run.unit[chosen],
                    n_resamples=settings.resamples, confidence_level=settings.confidence_level,
                    seed=derived_seed(settings.seed, cells.name, run.run_id, POOLED, kind or ""),
                )  # fmt: skip
                low, high = result.confidence_interval
                cells.add(
                    run_id=run.run_id, label=run.label, prediction="model", survey=POOLED,
                    group=POOLED, item=kind, measure=measure, unit=unit,
                    estimate=result.estimate * scale, low=low * scale, high=high * scale,
                    n=int(chosen.sum()), clusters=len(np.unique(run.unit[chosen])),
                )  # fmt: skip


SPECS = (
    TableSpec(
        "instructions", "Robustness to the prompt's instruction", "robustness",
        "All pairs complete under every instruction, without the knowledge filter; mean distance "
        "of the dated predictions to those under the default instruction.", "human shift",
        _instructions, item="instruction",
        needs="chronocore predict STUDY --instruction national",
    ),
    TableSpec(
        "repeats", "Repeated runs of the same prompts", "robustness",
        "Share of later answers that equal the first, and their mean distance to it. The answers "
        "to one prompt are resampled together; n counts later answers. Dated prompts are those of "
        "the paper's F.3; the line without a kind is over all prompts.", "human shift", _repeats,
        item="prompt",
        needs="chronocore predict STUDY --repeats 5",
    ),
)  # fmt: skip
