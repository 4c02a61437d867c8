"""One model asked in several ways, on the same pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from chronocore.metrics import SHIFTS
from chronocore.scores import Integers, PairScores
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
from chronocore.tables.measures import (
    ALIGNMENT,
    BOTH,
    DEFAULT_PLACES,
    MEDIAN_RATIO,
    NAMING,
    RIGHT_DIRECTION,
    STABILITY,
    ZERO_SHIFT,
)

__all__ = ["SPECS", "Asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """How a run asked its model.

    Attributes
    ----------
    weights : tuple of str
        What is the same model: name and revision.
    engine : tuple of str
        Engine and its version.
    instruction, elicitation : str
    greedy : bool
        At temperature 0, or at none an engine knows of.
    """

    weights: tuple[str, ...]
    engine: tuple[str, ...]
    instruction: str
    elicitation: str
    greedy: bool = True

    @property
    def model(self) -> tuple[str, ...]:
        """What must be the same for two runs to differ in the elicitation alone."""
        return (*self.weights, *self.engine, self.instruction)

    @property
    def unlike_the_paper(self) -> tuple[bool, bool, bool]:
        """Whether instruction, elicitation and temperature are others than the published ones."""
        return self.instruction != "default", self.elicitation != "verbalized", not self.greedy


def _on(scores: PairScores, pairs: Integers) -> PairScores:
    return scores.take(np.flatnonzero(np.isin(scores.pair, pairs)))


def _groups(context: Context) -> list[list[Evaluation]]:
    """Return the runs of each model that was asked in several ways, in the order of the runs."""
    groups: dict[tuple[str, ...], list[Evaluation]] = {}
    for evaluation in context.evaluations:
        asked = context.asked.get(evaluation.run_id)
        if asked is not None:
            groups.setdefault(asked.model, []).append(evaluation)
    return [
        runs
        for runs in groups.values()
        if len({context.asked[run.run_id].elicitation for run in runs}) > 1
    ]


def _elicitations(cells: Cells, context: Context) -> None:
    for runs in _groups(context):
        common = reduce(np.intersect1d, [run.scores["model"].pair for run in runs])
        if not len(common):
            continue
        for run in runs:
            scores = _on(run.scores["model"], common)
            item = context.asked[run.run_id].elicitation
            view = View("model", POOLED, scores)
            groups = dict(by_shift(scores, SHIFTED, "all_shifted"))
            groups |= dict(by_shift(scores, SHIFTS, POOLED))
            everything, shifted = groups[POOLED], groups["all_shifted"]
            cells.statistic(run, view, POOLED, everything, BOTH, item=item)
            if len(shifted):
                where = (run, view, "all_shifted", shifted)
                cells.shares(*where, ALIGNMENT, item=item, only=("separated",))
                for quantity in (ZERO_SHIFT, MEDIAN_RATIO, RIGHT_DIRECTION):
                    cells.statistic(*where, quantity, item=item)
            if len(groups["stable"]):
                where = (run, view, "stable", groups["stable"])
                cells.shares(*where, STABILITY, item=item, only=("preserves",))
            cells.statistic(
                run, view, POOLED, everything, DEFAULT_PLACES[2], item=item,
                measure="newest_default",
            )  # fmt: skip
            for end in ("older", "newer"):
                cells.statistic(
                    run, view, POOLED, everything, NAMING[end][0], item=item,
                    measure=f"benefit_{end}",
                    # Both ends have one quantity's name; they are different cells.
                    cell=(cells.name, f"{POOLED}, {end}", item),
                )  # fmt: skip


SPECS = (
    TableSpec(
        "elicitation", "One model asked in several ways", "robustness",
        "The pairs that every run of the model retains, so that only the way of asking differs: "
        "for the distribution (verbalized), many times for one option (sampled), or by the "
        "probabilities of the first token (logprob). Ratio and direction rest on the pairs with a "
        "predicted change.",
        "human shift", _elicitations, item="elicitation", across=("group", "measure"),
        lines=("item", "label"),
        needs="chronocore predict STUDY --model SPEC --elicitation sampled",
    ),
)  # fmt: skip
