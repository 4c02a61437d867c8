"""Differences between runs on the same pairs, with intervals that hold for all at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.differences import Measure, paired_differences
from chronocore.identity import derived_seed
from chronocore.intervals import SMALL_N
from chronocore.metrics import SHIFTS
from chronocore.scores import ALIGNMENTS, Integers, PairScores
from chronocore.tables.cells import POOLED, SHIFTED, Cells, Context, TableSpec
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


@dataclass(frozen=True, slots=True)
class _Runs:
    """The pairs that any run retains, side by side for all runs.

    Attributes
    ----------
    pairs : (n,) int64
        Rows of ``pairs.parquet``, in the order of pair ids.
    evaluated : (M, n) bool
        The pairs each run retains.
    rows : list of (n_m,) int64
        For each run, where its retained pairs stand among all; its scores are in their order.
    groups : dict of str to (g,) int64
        Pairs of each shift class, and of all.
    """

    scores: list[PairScores]
    pairs: Integers
    evaluated: NDArray[np.bool_]
    rows: list[Integers]
    groups: dict[str, Integers]

    @classmethod
    def of(cls, scores: list[PairScores], shift: NDArray[np.str_]) -> _Runs:
        """Return the runs with these scores; ``shift`` is the class of every pair."""
        ids = dict(
            zip(
                np.concatenate([own.pair for own in scores]).tolist(),
                np.concatenate([own.pair_ids for own in scores]).tolist(),
                strict=True,
            )
        )
        pairs = np.array(sorted(ids, key=ids.__getitem__), dtype=np.int64)
        place = np.full(len(shift), -1)
        place[pairs] = np.arange(len(pairs))
        rows = [place[own.pair] for own in scores]
        evaluated = np.zeros((len(scores), len(pairs)), dtype=bool)
        for inside, own in zip(evaluated, rows, strict=True):
            inside[own] = True
        groups = {name: np.flatnonzero(shift[pairs] == name) for name in SHIFTS}
        groups["all"] = np.arange(len(pairs))
        return cls(scores, pairs, evaluated, rows, groups)

    @property
    def common(self) -> Integers:
        """Pairs that every two runs share, (M, M)."""
        inside = self.evaluated.astype(np.int64)
        return np.asarray(inside @ inside.T)

    def spread(self, run: int, values: NDArray[Any], group: str) -> NDArray[Any]:
        """Return values (..., n_m) of a run's pairs as those of a group; NaN where it has none."""
        whole = np.full((*values.shape[:-1], len(self.pairs)), np.nan)
        whole[..., self.rows[run]] = values
        return whole[..., self.groups[group]]


def _measure(context: Context, runs: _Runs, name: str, quantity: Quantity, group: str) -> Measure:
    numbers = range(len(runs.scores))
    values = np.stack([runs.spread(m, column_of(quantity, runs.scores[m]), group) for m in numbers])
    intervals = context.intervals
    clusters = redrawn = None
    if isinstance(intervals, UnitBootstrap):
        if intervals.clusters is not None:
            clusters = intervals.clusters[runs.pairs[runs.groups[group]]]
        every = [np.arange(len(own)) for own in runs.scores]
        again = [intervals.redrawn(runs.scores[m], every[m], quantity) for m in numbers]
        shapes = {len(one) for one in again if one is not None}
        if shapes:
            # What predictions alone decide is the same in every redraw.
            shape = (max(shapes), values.shape[1])
            redrawn = np.stack(
                [
                    np.broadcast_to(own, shape) if one is None else runs.spread(m, one, group)
                    for m, (one, own) in enumerate(zip(again, values, strict=True))
                ]
            )
    evaluated = runs.evaluated[:, runs.groups[group]]
    return Measure(name, group, quantity.statistic, values, clusters, redrawn, evaluated)


def _differences(cells: Cells, context: Context) -> None:
    evaluations = [one for one in context.evaluations if len(one.scores["model"])]
    cells.remarks.extend(_not_compared(context))
    if len(evaluations) < 2:
        return
    runs = _Runs.of([one.scores["model"] for one in evaluations], context.benchmark.shift)
    cells.remarks.extend(_on_few_pairs([one.label for one in evaluations], runs.common))
    compared = [
        (name, quantity, group)
        for name, quantity, inside in _COMPARED
        for group in inside
        if len(runs.groups[group])
    ]
    settings = context.settings
    result = paired_differences(
        [_measure(context, runs, name, quantity, group) for name, quantity, group in compared],
        [one.run_id for one in evaluations],
        n_resamples=settings.resamples,
        confidence_level=settings.confidence_level,
        seed=derived_seed(settings.seed, cells.name),
    )
    place = {one.run_id: number for number, one in enumerate(evaluations)}
    quantities = {name: quantity for name, quantity, _ in _COMPARED}
    common = runs.common
    for one in result.differences:
        first, second = place[one.first], place[one.second]
        if not common[first, second]:
            continue
        quantity = quantities[one.measure]
        cells.add(
            run_id=one.first, label=evaluations[first].label, prediction="model", survey=POOLED,
            group=one.group, item=evaluations[second].label, measure=one.measure,
            # Shares differ by percentage points.
            unit="pp" if quantity.unit == "%" else quantity.unit,
            estimate=one.estimate * quantity.scale, low=one.simultaneous_low * quantity.scale,
            high=one.simultaneous_high * quantity.scale, n=one.n,
            clusters=None if settings.cluster == "pair" else one.units,
        )  # fmt: skip
    if not len(cells):
        return
    cells.add(
        survey=POOLED, group="all", measure="comparisons", unit="comparisons",
        estimate=float(result.comparisons), n=len(runs.pairs),
    )  # fmt: skip
    cells.add(
        survey=POOLED, group="all", measure="critical_value", unit="standard errors",
        estimate=result.critical_value, n=len(runs.pairs),
    )  # fmt: skip


def _not_compared(context: Context) -> list[str]:
    """Return which runs of the study are not in the table, and why."""
    why = dict(context.left_out)
    for one in context.evaluations:
        if not len(one.scores["model"]):
            why[one.label] = "no pair is retained"
    labels: dict[str, list[str]] = {}
    for label, reason in why.items():
        labels.setdefault(reason, []).append(label)
    return [f"Not compared: {', '.join(own)} ({reason})." for reason, own in labels.items()]


def _on_few_pairs(labels: list[str], common: Integers) -> list[str]:
    """Return which runs share fewer pairs than an interval for all at once needs."""
    said: list[str] = []
    shared = common - np.diag(np.diag(common))
    for number, label in enumerate(labels):
        most = int(shared[number].max())
        if most < SMALL_N:
            pairs = "no pair" if not most else f"at most {most} pair{'' if most == 1 else 's'}"
            said.append(
                f"{label} retains {int(common[number, number]):,} pairs and shares {pairs} with "
                "another run"
                + (": its differences have no interval." if most else ": it is not compared.")
            )
    alone = {label for label, line in zip(labels, shared, strict=True) if line.max() < SMALL_N}
    for a, b in combinations(range(len(labels)), 2):
        if common[a, b] < SMALL_N and not alone & {labels[a], labels[b]}:
            said.append(
                f"{labels[a]} and {labels[b]} share {int(common[a, b]):,} pairs: too few for an "
                "interval of their differences."
            )
    return said


SPECS = (
    TableSpec(
        "differences", "Differences between runs on the same pairs", "comparison",
        "The run minus the other run, on the pairs that both retain; shares differ by "
        "percentage points (pp). The intervals shown hold all at once (largest studentised "
        f"deviation over resamples); comparisons of fewer than {SMALL_N} pairs, or of fewer "
        "clusters where these are resampled, take no part and have none. "
        "Ratio, cosine and direction rest on each run's pairs with a predicted change.",
        "human shift", _differences, item="minus", lines=("group", "label", "item"),
        names=("label", "item"),
        needs="at least two runs",
    ),
)  # fmt: skip
