"""Differences between runs on the same pairs, with intervals that hold for all at once."""

from __future__ import annotations

from functools import reduce

import numpy as np

from chronocore.differences import Measure, paired_differences
from chronocore.identity import derived_seed
from chronocore.metrics import SHIFTS
from chronocore.scores import ALIGNMENTS, Integers, PairScores
from chronocore.tables.cells import POOLED, SHIFTED, Cells, Context, TableSpec, by_shift
from chronocore.tables.intervals import Quantity, UnitBootstrap, column_of
from chronocore.tables.measures import (
    BOTH,
    DEFAULT_PLACES,
    MEDIAN_COSINE,
    MEDIAN_RATIO,
    NAMING,
    RIGHT_DIRECTION,
    ZERO_SHIFT,
)

__all__ = ["SPECS"]

_SEPARATED = Quantity(
    "separated", "%", "proportion",
    lambda scores: scores.alignment == ALIGNMENTS.index("separated"), scale=100.0,
)  # fmt: skip
_NEWEST = DEFAULT_PLACES[2]

#: Name, quantity and the shift classes it is compared in.
_COMPARED: tuple[tuple[str, Quantity, tuple[str, ...]], ...] = (
    ("both", BOTH, (*SHIFTS, "all")),
    ("separated", _SEPARATED, SHIFTED),
    ("zero_shift", ZERO_SHIFT, SHIFTED),
    ("median_ratio", MEDIAN_RATIO, SHIFTED),
    ("median_cosine", MEDIAN_COSINE, SHIFTED),
    ("right_direction", RIGHT_DIRECTION, SHIFTED),
    ("newest_default", _NEWEST, ("all",)),
    ("benefit_older", NAMING["older"][0], (*SHIFTS, "all")),
    ("benefit_newer", NAMING["newer"][0], (*SHIFTS, "all")),
)


def _on(scores: PairScores, pairs: Integers) -> PairScores:
    """Return the scores of these pairs, in their order."""
    order = np.argsort(scores.pair)
    return scores.take(order[np.searchsorted(scores.pair[order], pairs)])


def _measure(
    context: Context,
    name: str,
    quantity: Quantity,
    group: str,
    runs: list[PairScores],
    rows: Integers,
) -> Measure:
    values = np.stack([column_of(quantity, scores)[rows] for scores in runs])
    intervals = context.intervals
    clusters = redrawn = None
    if isinstance(intervals, UnitBootstrap):
        if intervals.clusters is not None:
            clusters = intervals.clusters[runs[0].pair[rows]]
        again = [intervals.redrawn(scores, rows, quantity) for scores in runs]
        if any(one is not None for one in again):
            shape = next(one.shape for one in again if one is not None)
            redrawn = np.stack(
                [
                    np.broadcast_to(own, shape) if one is None else one
                    for one, own in zip(again, values, strict=True)
                ]
            )
    return Measure(name, group, quantity.statistic, values, clusters, redrawn)


def _differences(cells: Cells, context: Context) -> None:
    evaluations = context.evaluations
    if len(evaluations) < 2:
        return
    own = [evaluation.scores["model"] for evaluation in evaluations]
    common = reduce(np.intersect1d, [scores.pair for scores in own])
    if not len(common):
        return
    # In the order of pair ids, as all scores are.
    common = common[np.argsort(_on(own[0], common).pair_ids, kind="stable")]
    runs = [_on(scores, common) for scores in own]
    groups = dict(by_shift(runs[0], SHIFTS, "all"))
    compared = [
        (name, quantity, group)
        for name, quantity, inside in _COMPARED
        for group in inside
        if len(groups[group])
    ]
    settings = context.settings
    result = paired_differences(
        [
            _measure(context, name, quantity, group, runs, groups[group])
            for name, quantity, group in compared
        ],
        [evaluation.run_id for evaluation in evaluations],
        n_resamples=settings.resamples,
        confidence_level=settings.confidence_level,
        seed=derived_seed(settings.seed, cells.name),
    )
    labels = {evaluation.run_id: evaluation.label for evaluation in evaluations}
    quantities = {name: quantity for name, quantity, _ in _COMPARED}
    for one in result.differences:
        quantity = quantities[one.measure]
        cells.add(
            run_id=one.first, label=labels[one.first], prediction="model", survey=POOLED,
            group=one.group, item=labels[one.second], measure=one.measure,
            # Shares differ by percentage points.
            unit="pp" if quantity.unit == "%" else quantity.unit,
            estimate=one.estimate * quantity.scale, low=one.simultaneous_low * quantity.scale,
            high=one.simultaneous_high * quantity.scale, n=one.n,
        )  # fmt: skip
    cells.add(
        survey=POOLED, group="all", measure="comparisons", unit="comparisons",
        estimate=float(result.comparisons), n=len(common),
    )  # fmt: skip
    cells.add(
        survey=POOLED, group="all", measure="critical_value", unit="standard errors",
        estimate=result.critical_value, n=len(common),
    )  # fmt: skip


SPECS = (
    TableSpec(
        "differences", "Differences between runs on the same pairs", "comparison",
        "The run minus the other run, on the pairs that every run retains; shares differ by "
        "percentage points (pp). The intervals hold for "
        "all comparisons of this table at once (largest studentised deviation over resamples). "
        "Ratio, cosine and direction rest on each run's pairs with a predicted change.",
        "human shift", _differences, item="minus", lines=("group", "label", "item"),
        names=("label", "item"),
        needs="at least two runs",
    ),
)  # fmt: skip
