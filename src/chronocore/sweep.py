"""Robustness: every finding under every combination of the choices that could change it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.claims import ALL_CLAIMS, CLAIMS, Claim
from chronocore.config import CLUSTERS
from chronocore.effective_size import basis_of_sizes, effective_sizes
from chronocore.engines.reference import gold_digest, outdated
from chronocore.errors import ArgumentError, StudyError
from chronocore.identity import canonical_json, derived_seed
from chronocore.inference import _ideal_mean, bootstrap, seed_base
from chronocore.intervals import (
    column_estimates,
    ends,
    level_ends,
    median_laws,
    moved_back,
    two_level_replicates,
    units_of,
)
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.predict import prompts_of
from chronocore.provenance import JsonError, sealed, unsealed
from chronocore.redraws import GoldRedraws
from chronocore.scores import (
    ALIGNMENTS,
    SCORED_COLUMNS,
    STABILITIES,
    PairPredictions,
    PairScores,
    pair_predictions,
    pair_scores,
)
from chronocore.storage import read_bytes
from chronocore.store import Study
from chronocore.sweep_groups import (
    BY_CLASS,
    BY_PAIR,
    BY_TOLERANCE,
    GroupFindings,
    Groups,
    group_findings,
)
from chronocore.tables.cells import Benchmark
from chronocore.tables.measures import DEFAULT_PLACES, MEDIAN_COSINE, MEDIAN_RATIO, NAMING
from chronocore.tolerance import above, at_least, at_most
from chronocore_kernels import multinomial, resampling, two_level
from chronocore_kernels.jit import threads

__all__ = [
    "MAXIMUM_SWEEP_RESAMPLES",
    "SUPPORTED",
    "Failure",
    "FindingSummary",
    "OutdatedSweepError",
    "SweepProgress",
    "SweepResult",
    "load_sweep",
    "sweep",
    "sweep_cell",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

#: A cell of a run: boundaries, tau, retain, seed.
Key = tuple[str, float, float, int]

#: A finding is supported by its data where it holds in at least this share of the resamples.
SUPPORTED = 0.95

#: Replicates of some sixty statistics are in memory at a time: half a gigabyte of them.
MAXIMUM_SWEEP_RESAMPLES = 1_000_000
_MAXIMUM_SEEDS = 10_000

# Failures that a summary lists by name; all of them are in the dataset.
_LISTED = 20

# Up to here the rows of a resample are drawn: they cost less than the law of their mean.
_FEW = 64

# Resamples that are worth another thread, where one costs a draw or a few.
_DRAWS_A_THREAD = 20_000

_SHIFTED = SHIFTS[1:]

_ANYWHERE = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Failure:
    """A grid cell in which a finding does not hold.

    Attributes
    ----------
    finding, label, instruction, boundaries : str
    tau, retain : float
    seeds : int
        Bootstrap seeds of this cell: whether a finding holds does not depend on them.
    """

    finding: str
    label: str
    instruction: str
    boundaries: str
    tau: float
    retain: float
    seeds: int


@dataclass(frozen=True, slots=True)
class FindingSummary:
    """In how many grid cells a finding holds.

    Attributes
    ----------
    name, finding, statement : str
    cells : int
        Grid cells, each run and bootstrap seed counted.
    holds : int
        Cells whose estimates make the statement true.
    undefined : int
        Cells without pairs for one of its statistics.
    supported : int
        Of these, cells where it is true in at least 95 % of the resamples.
    least_support : float or None
        Smallest share of resamples in which it is true, over all defined cells.
    by_run : dict of str to list of int
        For each run, cells in which it holds and cells in which it is defined.
    """

    name: str
    finding: str
    statement: str
    cells: int
    holds: int
    undefined: int
    supported: int
    least_support: float | None
    by_run: dict[str, list[int]]


class OutdatedSweepError(StudyError):
    """A study was built anew since it was swept."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found.

    Attributes
    ----------
    runs : list of str
        Labels of the runs in the cells.
    skipped : dict of str to str
        Label of each run without a complete pair, or with answers from the gold of an earlier
        build, and why it has no cells.
    instructions, boundaries : list of str
    tau, retain : list of float
    seeds : list of int
    resamples : int
    confidence_level : float
    cluster : str
    gold_error : bool
    effective_sizes : str or None
        What the effective sizes of redrawn gold rest on; None without gold error.
    cells : int
        Grid cells: combinations of all of these.
    computed : int
        Cells computed by this call; the others were there.
    findings : list of FindingSummary
    failures : list of Failure
        The first cells, in the order of the grid, in which a finding does not hold.
    n_failures : int
        Such cells in all, seeds counted once.
    pairs_sha256 : str
        Digest of the pairs that were swept.
    """

    runs: list[str]
    skipped: dict[str, str]
    instructions: list[str]
    boundaries: list[str]
    tau: list[float]
    retain: list[float]
    seeds: list[int]
    resamples: int
    confidence_level: float
    cluster: str
    gold_error: bool
    effective_sizes: str | None
    cells: int
    computed: int
    findings: list[FindingSummary]
    failures: list[Failure]
    n_failures: int
    pairs_sha256: str


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Where a sweep stands: grid cells done, of all, and those that were there before."""

    done: int
    total: int
    skipped: int


@dataclass(frozen=True, slots=True)
class _Statistic:
    """A statistic of a group of pairs with its replicates."""

    finding: str
    unit: str
    estimate: float
    low: float
    high: float
    n: int
    replicates: Floats
    clusters: int | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """The pairs a statistic is about.

    Attributes
    ----------
    values : (n,)
        Numbers, or class codes.
    redrawn : (R, n), optional
        The same under every redraw of gold; NaN, or a negative code, where undefined.
    clusters : (n,) int64, optional
        What is resampled whole.
    bounds : (float, float)
        Between what their mean and median can lie.
    """

    values: NDArray[Any]
    redrawn: NDArray[Any] | None = None
    clusters: Integers | None = None
    bounds: tuple[float, float] = _ANYWHERE

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_clusters(self) -> int | None:
        """How many clusters there are to resample; None where pairs are resampled."""
        return None if self.clusters is None else len(np.unique(self.clusters))


class _Redrawn:
    """The columns of a run under every redraw of gold, each made once."""

    def __init__(self, scores: PairScores, redraws: GoldRedraws) -> None:
        self.scores, self.redraws = scores, redraws
        self._columns: dict[tuple[str, float], NDArray[Any]] = {}

    def column(self, name: str, tau: float) -> NDArray[Any]:
        """Return a column of all complete pairs, shape (R, N)."""
        by_tau = name in _BY_TAU
        key = (name, tau if by_tau else 0.0)
        if key not in self._columns:
            view = self.scores.within(tau) if by_tau else self.scores
            self._columns[key] = self.redraws.column(view, _COLUMNS[name], _COLUMNS[name])
        return self._columns[key]


def _undated(scores: PairScores) -> NDArray[Any]:
    """Return the outcome of the undated prediction for both years: 0 both, 1 older, 2, 3 none."""
    older = at_most(scores.benefit_old + scores.d_old, scores.tau)
    newer = at_most(scores.benefit_new + scores.d_new, scores.tau)
    return np.where(older, np.where(newer, 0, 1), np.where(newer, 2, 3)).astype(np.int8)


def _undated_gap(scores: PairScores) -> NDArray[Any]:
    """Return 1 where only the undated prediction is accurate in both years, 2 only dated ones."""
    undated, dated = _undated(scores) == 0, scores.outcome == 0
    return (np.where(undated & ~dated, 1, 0) + np.where(dated & ~undated, 2, 0)).astype(np.int8)


_BY_TAU = ("outcome", "undated", "undated_gap")

#: What statistics are made of and gold decides.
_COLUMNS: dict[str, Callable[[PairScores], NDArray[Any]]] = {
    "outcome": lambda scores: scores.outcome,
    "undated": _undated,
    "undated_gap": _undated_gap,
    "alignment": lambda scores: scores.alignment,
    "ratio": lambda scores: scores.ratio,
    "cosine": lambda scores: scores.cosine,
    "newest": lambda scores: scores.credit[:, 2],
    "benefit_older": lambda scores: scores.benefit_old,
    "benefit_newer": lambda scores: scores.benefit_new,
    "gap": lambda scores: scores.benefit_old - scores.benefit_new,
}

#: Between what their means and medians can lie.
_BOUNDS = {
    "ratio": MEDIAN_RATIO.bounds,
    "cosine": MEDIAN_COSINE.bounds,
    "newest": DEFAULT_PLACES[2].bounds,
    "benefit_older": NAMING["older"][0].bounds,
    "benefit_newer": NAMING["newer"][0].bounds,
    "gap": (-2.0, 2.0),
}


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of a cell of the grid.

    Attributes
    ----------
    scores : PairScores
        Under the tolerance and the boundaries of the cell.
    place : (n,) int64
        Where they stand among all complete pairs of the run.
    clusters : (n,) int64, optional
    redrawn : _Redrawn, optional
    """

    scores: PairScores
    place: Integers
    clusters: Integers | None = None
    redrawn: _Redrawn | None = None

    @property
    def moved(self) -> Flags:
        """Which pairs have a predicted change."""
        return ~at_most(self.scores.d_m, 0.0)

    def sample(self, inside: Flags, name: str) -> _Sample:
        """Return a column of some pairs, which gold decides."""
        values = _COLUMNS[name](self.scores)[inside]
        again = None
        if self.redrawn is not None:
            column = self.redrawn.column(name, self.scores.tau)
            again = column[:, self.place[inside]]
        return replace(self._sample(values, again, inside), bounds=_BOUNDS.get(name, _ANYWHERE))

    def observed(self, inside: Flags, values: NDArray[Any]) -> _Sample:
        """Return what predictions alone decide, and no redraw changes."""
        return self._sample(values[inside], None, inside)

    def _sample(self, values: NDArray[Any], again: NDArray[Any] | None, inside: Flags) -> _Sample:
        clusters = None if self.clusters is None else self.clusters[inside]
        return _Sample(np.ascontiguousarray(values), again, clusters)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How replicates are drawn: their number, the seed of the stream, and the level of ends.

    With redraws of gold, replicate b rests on redraw b mod R: it is drawn from the law that the
    statistic has in resamples of that redraw. Replicates are moved back by what the redraws
    together move the statistic, as the intervals of tables are.
    """

    resamples: int
    confidence_level: float
    seed: int
    stream: tuple[str, ...]

    def _seed(self, *parts: str) -> int:
        return derived_seed(self.seed, "sweep", *self.stream, *parts)

    def _few_threads(self) -> AbstractContextManager[None]:
        """Return the threads for one draw a resample."""
        return threads(1 + self.resamples // _DRAWS_A_THREAD)

    def shares(
        self,
        finding: str,
        name: str,
        group: str,
        sample: _Sample,
        classes: Mapping[str, Sequence[int]],
        n_classes: int,
    ) -> dict[tuple[str, str], _Statistic]:
        """Return the share of each class, or union of classes, from counts of all classes."""
        n = len(sample)
        if not n:
            nothing = np.empty(0)
            nan = float("nan")
            return {
                (measure, group): _Statistic(finding, "share", nan, nan, nan, 0, nothing)
                for measure in classes
            }
        counts = np.bincount(sample.values, minlength=n_classes).astype(np.int64)
        seed = self._seed(name, group)
        found = {}
        if sample.redrawn is None and sample.clusters is None:
            with self._few_threads():
                drawn = multinomial.multinomial_counts(counts, seed_base(seed), self.resamples)
                for measure, members in classes.items():
                    own = np.ascontiguousarray(drawn[list(members)].sum(axis=0, dtype=np.int32))
                    low, high = (
                        resampling.count_quantiles(own[None], n, level_ends(self.confidence_level))[
                            0
                        ][0]
                        / n
                    )
                    found[measure, group] = _Statistic(
                        finding, "share", float(counts[list(members)].sum() / n), float(low),
                        float(high), n, own / n,
                    )  # fmt: skip
            return found
        every, pooled = self._counts(sample, n_classes, seed)
        for measure, members in classes.items():
            estimate = float(counts[list(members)].sum() / n)
            with np.errstate(invalid="ignore"):
                replicates = every[list(members)].sum(axis=0) / every.sum(axis=0)
            moved = float(pooled[list(members)].sum() / pooled.sum()) - estimate
            found[measure, group] = replace(
                self._moved(
                    finding, "share", estimate, n, replicates,
                    None if sample.redrawn is None else moved, (0.0, 1.0),
                ),
                clusters=sample.n_clusters,
            )  # fmt: skip
        return found

    def _counts(
        self, sample: _Sample, n_classes: int, seed: int
    ) -> tuple[NDArray[np.integer[Any]], Integers]:
        """Return class counts of every resample, and of all redraws together."""
        codes = sample.values[None] if sample.redrawn is None else sample.redrawn
        # A pair that a redraw leaves undefined is drawn, and left out.
        every = np.stack([np.count_nonzero(codes == c, axis=1) for c in range(-1, n_classes)])
        pooled = every[1:].sum(axis=1)
        if sample.clusters is not None:
            units = units_of(sample.clusters, len(sample))
            drawn = two_level.two_level_counts(
                units.ordered(codes.astype(np.int8, copy=False)), n_classes, units.offsets,
                seed_base(seed), self.resamples,
            )  # fmt: skip
            return drawn.T, pooled
        drawn = np.empty((n_classes, self.resamples), dtype=np.int32)
        with self._few_threads():
            for r in range(min(len(codes), self.resamples)):
                size = len(range(r, self.resamples, len(codes)))
                base = seed_base(derived_seed(seed, f"redraw {r}"))
                own = np.ascontiguousarray(every[:, r], dtype=np.int64)
                drawn[:, r :: len(codes)] = multinomial.multinomial_counts(own, base, size)[1:]
        return drawn, pooled

    def median(self, finding: str, measure: str, group: str, sample: _Sample) -> _Statistic:
        """Return a median, from the law of its rank where pairs are resampled."""
        values = np.asarray(sample.values, dtype=np.float64)
        if not len(values):
            nan = float("nan")
            return _Statistic(finding, "", nan, nan, nan, 0, np.empty(0))
        seed = self._seed(measure, group)
        if sample.redrawn is None and sample.clusters is None:
            with self._few_threads():
                result = bootstrap(
                    values, "median", n_resamples=self.resamples, return_replicates=True,
                    method="rank", confidence_level=self.confidence_level, seed=seed,
                )  # fmt: skip
            low, high = result.confidence_interval
            assert result.replicates is not None
            return _Statistic(
                finding, "", result.estimate, low, high, len(values), result.replicates
            )
        return self._drawn(finding, "", "median", sample, seed)

    def mean(
        self, finding: str, measure: str, group: str, sample: _Sample, unit: str = "W"
    ) -> _Statistic:
        """Return a mean, from its law where pairs are resampled and gold is as observed."""
        values = np.asarray(sample.values, dtype=np.float64)
        if not len(values):
            nan = float("nan")
            return _Statistic(finding, unit, nan, nan, nan, 0, np.empty(0))
        seed = self._seed(measure, group)
        if sample.redrawn is None and sample.clusters is None:
            replicates = _mean_replicates(values, self.resamples, seed)
            estimate = float(values.mean())
            return self._moved(finding, unit, estimate, len(values), replicates, None)
        return self._drawn(finding, unit, "mean", sample, seed)

    def difference(self, one: _Statistic, other: _Statistic) -> _Statistic:
        """Return the difference of two shares of the same resamples."""
        if not one.n:
            return one
        found = self._moved(
            one.finding, one.unit, one.estimate - other.estimate, one.n,
            one.replicates - other.replicates, None,
        )  # fmt: skip
        return replace(found, clusters=one.clusters)

    def _drawn(
        self,
        finding: str,
        unit: str,
        statistic: str,
        sample: _Sample,
        seed: int,
    ) -> _Statistic:
        """Return a mean or median of clusters, or of redrawn gold."""
        values = np.asarray(sample.values, dtype=np.float64)
        redrawn = values[None] if sample.redrawn is None else sample.redrawn.astype(np.float64)
        if statistic == "median" and sample.clusters is None and not np.isnan(redrawn).any():
            replicates = np.empty(self.resamples)
            # All redraws have one size, and so one law of the rank.
            law = median_laws(np.array([len(values)]))
            with self._few_threads():
                for r, ascending in enumerate(np.sort(redrawn[: self.resamples], axis=1)):
                    size = len(range(r, self.resamples, len(redrawn)))
                    replicates[r :: len(redrawn)] = resampling.rank_replicates(
                        ascending, law.ranks[0], law.fractions[0], law.firsts[0],
                        law.threshold, law.alias, law.moves,
                        seed_base(derived_seed(seed, f"redraw {r}")), size,
                    )  # fmt: skip
        else:
            units = units_of(sample.clusters, len(values))
            replicates = two_level_replicates(
                redrawn[None], statistic, units, self.resamples, seed
            )[:, 0]
        estimate, pooled = (
            float(column_estimates(column.reshape(1, -1), statistic)[0])
            for column in (values, redrawn)
        )
        moved = None if sample.redrawn is None else pooled - estimate
        found = self._moved(finding, unit, estimate, len(values), replicates, moved, sample.bounds)
        return replace(found, clusters=sample.n_clusters)

    def _moved(
        self,
        finding: str,
        unit: str,
        estimate: float,
        n: int,
        replicates: Floats,
        moved: float | None,
        bounds: tuple[float, float] = _ANYWHERE,
    ) -> _Statistic:
        """Return a statistic; its replicates are moved back if redraws moved them."""
        found = ends(replicates[:, None], self.confidence_level)
        low, high = (float(end[0]) for end in found)
        if moved is not None:
            back = moved_back(estimate, low, high, estimate + moved, bounds)
            low, high = map(float, back)
            replicates = np.clip(replicates - moved, *bounds)
        return _Statistic(finding, unit, estimate, low, high, n, replicates)


def _mean_replicates(values: Floats, n_resamples: int, seed: int) -> Floats:
    """Return means of resamples: of a few rows that are drawn, of many by their law.

    The law is that of all resamples (``n_resamples=math.inf`` of :func:`chronocore.bootstrap`);
    replicates are its quantiles at uniform numbers.
    """
    if len(values) <= _FEW:
        result = bootstrap(
            values, "mean", n_resamples=n_resamples, return_replicates=True, seed=seed
        )
        assert result.replicates is not None
        return result.replicates
    words = resampling.stream_words(seed_base(seed), n_resamples)
    # The upper 52 bits, in the middle of their cells: never 0 nor 1
    uniforms = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return _ideal_mean(values, uniforms)[0]


def _groups(scores: PairScores) -> dict[str, Flags]:
    groups = {name: scores.shift == code for code, name in enumerate(SHIFTS)}
    groups["strong_plus"] = groups["strong"] | groups["very_strong"]
    groups["all_shifted"] = ~groups["stable"]
    groups["all"] = np.ones(len(scores), dtype=bool)
    return groups


def _accuracy(pairs: _Pairs, drawing: _Drawing) -> dict[tuple[str, str], _Statistic]:
    """Return the statistics that depend on the tolerance."""
    found: dict[tuple[str, str], _Statistic] = {}
    classes = {"both": (0,), "one_period": (1, 2)}
    for group, inside in _groups(pairs.scores).items():
        if group in (*SHIFTS, "all"):
            sample = pairs.sample(inside, "outcome")
            found |= drawing.shares("RF1", "outcome", group, sample, classes, 4)
            sample = pairs.sample(inside, "undated")
            found |= drawing.shares("RF1", "undated", group, sample, {"both_undated": (0,)}, 4)
            sample = pairs.sample(inside, "undated_gap")
            apart = {"undated_only": (1,), "dated_only": (2,)}
            one_way = drawing.shares("RF1", "undated_gap", group, sample, apart, 3)
            found["both_undated_gap", group] = drawing.difference(*one_way.values())
    return found


def _others(pairs: _Pairs, drawing: _Drawing) -> dict[tuple[str, str], _Statistic]:
    """Return the statistics that do not depend on the tolerance."""
    found: dict[tuple[str, str], _Statistic] = {}
    scores = pairs.scores
    groups = _groups(scores)
    zero = ~pairs.moved
    has_ratio = ~zero & np.isfinite(scores.ratio)
    has_direction = ~zero & np.isfinite(scores.cosine)
    alignment = {
        "separated": (ALIGNMENTS.index("separated"),),
        "same_period": (ALIGNMENTS.index("older_aligned"), ALIGNMENTS.index("newer_aligned")),
        "reversed": (ALIGNMENTS.index("reversed"),),
    }
    for group in (*_SHIFTED, "strong_plus", "all_shifted"):
        inside = groups[group]
        sample = pairs.sample(inside, "alignment")
        found |= drawing.shares("RF1", "alignment", group, sample, alignment, len(ALIGNMENTS))
        sample = pairs.observed(inside, zero.astype(np.int8))
        found |= drawing.shares("RF2", "zero_shift", group, sample, {"zero_shift": (1,)}, 2)
        sample = pairs.sample(inside & has_ratio, "ratio")
        found["median_ratio", group] = drawing.median("RF2", "median_ratio", group, sample)
        sample = pairs.sample(inside & has_direction, "cosine")
        found["median_cosine", group] = drawing.median("RF2", "median_cosine", group, sample)
        found |= drawing.shares(
            "RF2", "right_direction", group, _right(sample), {"right_direction": (1,)}, 2
        )
    stability = {name: (code,) for code, name in enumerate(STABILITIES)}
    sample = pairs.observed(groups["stable"], scores.stability)
    found |= drawing.shares("RF2", "stability", "stable", sample, stability, len(STABILITIES))
    found["newest_default", "all"] = drawing.mean(
        "RF3", "newest_default", "all", pairs.sample(groups["all"], "newest"), "share"
    )
    for group in (*SHIFTS, "all"):
        for measure in ("benefit_older", "benefit_newer"):
            sample = pairs.sample(groups[group], measure)
            found[measure, group] = drawing.mean("RF3", measure, group, sample)
    sample = pairs.sample(groups["very_strong"], "gap")
    found["benefit_gap", "very_strong"] = drawing.mean("RF3", "benefit_gap", "very_strong", sample)
    return found


def _right(cosine: _Sample) -> _Sample:
    """Return which predicted changes go the right way; -1 where a redraw of gold has none."""
    redrawn = None
    if cosine.redrawn is not None:
        redrawn = np.where(np.isnan(cosine.redrawn), -1, above(cosine.redrawn, 0.0))
        redrawn = redrawn.astype(np.int8)
    return _Sample(above(cosine.values, 0.0).astype(np.int8), redrawn, cosine.clusters)


def _rows(found: Mapping[tuple[str, str], _Statistic]) -> Iterator[dict[str, Any]]:
    """Yield one row a statistic, then one a claim."""

    def known(value: float) -> float | None:
        return None if np.isnan(value) else value

    for (measure, group), one in found.items():
        yield {
            "kind": "statistic", "finding": one.finding, "group": group, "measure": measure,
            "unit": one.unit, "estimate": known(one.estimate), "low": known(one.low),
            "high": known(one.high), "n": one.n, "holds": None, "support": None,
            "clusters": one.clusters,
        }  # fmt: skip
    estimates = {key: one.estimate for key, one in found.items()}
    replicates = {key: one.replicates for key, one in found.items()}
    for claim in CLAIMS:
        holds = claim.holds(estimates)
        support = None if holds is None else _support(claim, replicates)
        yield {
            "kind": "finding", "finding": claim.finding, "group": "all", "measure": claim.name,
            "unit": None, "estimate": None, "low": None, "high": None, "n": None,
            "holds": None if holds is None else bool(holds), "support": support,
            "clusters": None,
        }  # fmt: skip


def _support(claim: Claim, replicates: Mapping[tuple[str, str], Floats]) -> float:
    """Return the share of resamples in which a claim holds.

    A resample without one of its statistics (of clusters or redraws that leave none of them
    defined) says nothing of the claim.
    """
    known = np.logical_and.reduce([~np.isnan(replicates[need]) for need in claim.needs])
    inside = claim.holds({need: replicates[need][known] for need in claim.needs})
    return float(np.mean(inside)) if known.any() and inside is not None else 0.0


def sweep_cell(
    scores: PairScores,
    *,
    resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    stream: tuple[str, ...] = (),
    clusters: Integers | None = None,
    redraws: GoldRedraws | None = None,
) -> list[dict[str, Any]]:
    """Return every statistic of RF1 to RF3 of some pairs, and which findings they make true.

    Parameters
    ----------
    scores : PairScores
        The pairs of the cell, retained ones only, under its tolerance and boundaries.
    resamples : int
        Replicates of each statistic, all from exact laws: the time hardly grows with them, unless
        there are clusters or redraws.
    confidence_level : float
    seed : int
    stream : tuple of str
        Tells apart what is drawn with one seed.
    clusters : (n,) int64, optional
        Cluster of each pair; whole ones are resampled.
    redraws : GoldRedraws, optional
        Each resample takes one redraw of gold, and ``scores`` have their predictions.

    Returns
    -------
    list of dict
        The columns of :data:`chronocore.schema.SWEEP` from ``kind`` on.
    """
    drawing = _Drawing(resamples, confidence_level, seed, stream)
    redrawn = None if redraws is None else _Redrawn(scores, redraws)
    pairs = _Pairs(scores, np.arange(len(scores)), clusters, redrawn)
    return list(_rows({**_accuracy(pairs, drawing), **_others(pairs, drawing)}))


# -- the grid --------------------------------------------------------------------------------------


def _text(number: float) -> str:
    return format(Decimal(repr(float(number))).normalize() + 0, "f")


def _boundary_text(chosen: str | Sequence[float]) -> str:
    return chosen if isinstance(chosen, str) else ",".join(_text(value) for value in chosen)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run to sweep over, with what its cells are made from."""

    run_id: str
    label: str
    instruction: str
    elicitation: str
    is_reference: bool
    outdated: str | None
    inputs: str


@dataclass(frozen=True, slots=True)
class _Grid:
    """The choices of a sweep."""

    boundaries: tuple[str | tuple[float, float, float], ...]
    tau: tuple[float, ...]
    retain: tuple[float, ...]
    seeds: tuple[int, ...]
    resamples: int
    confidence_level: float
    cluster: str
    gold_error: bool
    effective_sizes: str | None = None

    def cells(self, run: _Run) -> dict[Key, str]:
        """Return the id of every cell of a run by (boundaries, retain, tau, seed)."""
        ids = {}
        for chosen, retain, tau, seed in product(
            self.boundaries, self.retain, self.tau, self.seeds
        ):
            name = _boundary_text(chosen)
            parts = [
                run.run_id, run.inputs, name, _text(tau), _text(retain), seed, self.resamples,
                _text(self.confidence_level), self.cluster, self.gold_error,
                schema.SCHEMA_VERSION, [claim.name for claim in ALL_CLAIMS],
            ]  # fmt: skip
            if self.effective_sizes is not None:
                parts.append(self.effective_sizes)
            digest = hashlib.sha256(canonical_json(parts).encode()).hexdigest()
            ids[name, retain, tau, seed] = "s" + digest[:16]
        return ids


def _grid(
    boundaries: Sequence[str | Sequence[float]],
    tau: Sequence[float],
    retain: Sequence[float],
    seeds: int,
    seed: int,
    resamples: int,
    confidence_level: float,
    cluster: str,
    gold_error: bool,
) -> _Grid:
    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ArgumentError(what)

    sets: list[str | tuple[float, float, float]] = []
    for chosen in boundaries:
        if isinstance(chosen, str):
            require(
                chosen in BOUNDARIES,
                f"boundaries {chosen!r} is none of {', '.join(BOUNDARIES)}; or give three numbers",
            )
            sets.append(chosen)
        else:
            values = tuple(float(value) for value in chosen)
            require(
                len(values) == 3 and 0 <= values[0] < values[1] < values[2] <= 1,
                f"boundaries must be three increasing values in [0, 1], not {values}",
            )
            sets.append((values[0], values[1], values[2]))
    require(bool(sets and tau and retain), "a sweep needs boundaries, tau and retain")
    for value in tau:
        require(0 < value <= 1, f"tau must lie in (0, 1], not {value}")
    for value in retain:
        require(0 < value <= 1, f"retain must lie in (0, 1], not {value}")
    require(
        1 <= seeds <= _MAXIMUM_SEEDS,
        f"seeds must lie between 1 and {_MAXIMUM_SEEDS:,}, not {seeds:,}",
    )
    require(0 <= seed < 2**63 - seeds, f"seed must lie between 0 and {2**63 - 1 - seeds}")
    require(
        1 <= resamples <= MAXIMUM_SWEEP_RESAMPLES,
        f"resamples of a sweep must lie between 1 and {MAXIMUM_SWEEP_RESAMPLES:,}, "
        f"not {resamples:,}",
    )
    require(0 < confidence_level < 1, f"confidence_level must lie in (0, 1): {confidence_level}")
    require(cluster in CLUSTERS, f"cluster must be one of {', '.join(CLUSTERS)}, not {cluster!r}")
    return _Grid(
        tuple(dict.fromkeys(sets)),
        tuple(dict.fromkeys(map(float, tau))),
        tuple(dict.fromkeys(map(float, retain))),
        tuple(range(seed, seed + seeds)),
        resamples,
        confidence_level,
        cluster,
        gold_error,
    )


def _runs(study: Study) -> list[_Run]:
    """Return all runs of a study, by label."""
    rows = study.runs().to_pylist()
    if not rows:
        raise StudyError(
            f"{study.path} has no predictions yet; make some with: "
            f"chronocore predict {study.path} --model SPEC"
        )
    files = study.manifest()["files"]
    digest = gold_digest(study.gold())
    return [
        _Run(
            row["run_id"], row["label"], row["instruction"], row["elicitation"],
            row["engine"] == "reference", outdated(row, digest, study.path),
            hashlib.sha256(
                canonical_json([dict(files), study.prediction_digests(row["run_id"])]).encode()
            ).hexdigest()[:16],
        )
        for row in sorted(rows, key=lambda row: str(row["label"]))
    ]  # fmt: skip


def _chosen(study: Study, runs: Sequence[_Run], instructions: Sequence[str] | None) -> list[_Run]:
    """Return the models, then the references, that were asked under some instructions."""
    models_first = sorted(runs, key=lambda run: run.is_reference)
    if instructions is None:
        return models_first
    # References are no answer to an instruction where there are models.
    known = {run.instruction for run in runs if not run.is_reference}
    known = known or {run.instruction for run in runs}
    for name in instructions:
        if name not in known:
            raise ArgumentError(
                f"no run has the instruction {name!r}; make one with: "
                f"chronocore predict {study.path} --model SPEC --instruction {name}"
            )
    return [run for run in models_first if run.instruction in instructions]


def sweep(
    study: str | Path | Study,
    *,
    boundaries: Sequence[str | Sequence[float]] = ("tighter", "default", "looser"),
    tau: Sequence[float] = (0.05, 0.10, 0.15, 0.20),
    retain: Sequence[float] = (0.25, 0.50, 0.75, 1.0),
    instructions: Sequence[str] | None = None,
    seeds: int = 1,
    seed: int = 0,
    resamples: int = 1000,
    confidence_level: float = 0.95,
    cluster: str = "pair",
    gold_error: bool = False,
    progress: Callable[[SweepProgress], None] = lambda state: None,
) -> SweepResult:
    """Compute every finding under every combination of choices.

    Parameters
    ----------
    study : path or Study
    boundaries : sequence of str or of three floats
        Sets of shift boundaries.
    tau, retain : sequence of float
        Tolerances of accuracy and shares the knowledge filter keeps, in (0, 1].
    instructions : sequence of str, optional
        Instructions whose runs are swept; by default those of all runs there are.
    seeds : int
        Bootstrap seeds, from ``seed`` on.
    seed : int
        The first of them.
    resamples : int
        Replicates of each statistic. They come from exact laws, so that a hundred thousand cost
        little more than a thousand; some 500 bytes of memory each, and a million at most.
    confidence_level : float
    cluster : {"pair", "country", "variable"}
        What is resampled: pairs, or all pairs of a country or of a question at once.
    gold_error : bool
        Carry the surveys' own sampling error into intervals and support: each resample also draws
        the gold distributions again. With it, or with clusters, the time of means (and with
        clusters of everything) grows with the resamples.
    progress : callable
        Called with :class:`SweepProgress` after every part.

    Returns
    -------
    SweepResult
        The cells themselves are in ``sweep/``, schema :data:`chronocore.schema.SWEEP`: one row a
        statistic, and one a finding with whether it holds and in which share of resamples. Cells
        of other sweeps stay there; those of predictions or pairs that have changed are removed.

    Raises
    ------
    ConfigurationError
        A choice is out of range, or no run has an instruction.
    StudyError
        The study has no predictions, or no run has a pair with all three predictions.

    Notes
    -----
    ChronoCulture, appendices C.2, F.1, F.2 and F.3. A sweep that was stopped goes on where it
    stopped: finished cells are recognised by a digest of their settings and of all they were
    computed from. Models are swept; references alone where no model has a complete pair, on all
    pairs. A run without one is skipped, and the result says why.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    grid = _grid(
        boundaries, tau, retain, seeds, seed, resamples, confidence_level, cluster, gold_error
    )
    if gold_error:
        by_design = effective_sizes(opened.gold()).by_design
        grid = replace(grid, effective_sizes=basis_of_sizes(by_design))
    known = _runs(opened)
    chosen_runs = _chosen(opened, known, instructions)
    with opened.lock("sweep"):
        opened.remove_strays()
        origins = {f"{run.run_id}-{run.inputs}" for run in known}
        there = opened.sweep_cells(origins)
        wanted: dict[str, dict[Key, str]] = {}
        waiting: dict[str, PairScores] = {}
        skipped: dict[str, str] = {}
        runs: list[_Run] = []
        for run in chosen_runs:
            if run.is_reference and any(not one.is_reference for one in runs):
                break  # references are swept alone
            if run.outdated is not None:
                skipped[run.label] = run.outdated
                continue
            cells = grid.cells(run)
            if not there.issuperset(cells.values()):
                data = _predictions(opened, run)
                try:
                    waiting[run.run_id] = pair_scores(data, is_reference=run.is_reference)
                except StudyError as error:
                    skipped[run.label] = str(error)
                    continue
            wanted[run.run_id] = cells
            runs.append(run)
        if not runs:
            raise StudyError(
                "; ".join(f"{label}: {why}" for label, why in skipped.items())
                + f" (of {opened.path}; chronocore predict asks for what is missing)"
            )
        total = sum(len(cells) for cells in wanted.values())
        before = sum(cell in there for cells in wanted.values() for cell in cells.values())
        done = before
        progress(SweepProgress(done, total, before))
        resampling_of = _Resampling(opened, grid)
        for run in runs:
            if run.run_id not in waiting:
                continue
            missing = {key: cell for key, cell in wanted[run.run_id].items() if cell not in there}
            for rows in _computed(run, waiting.pop(run.run_id), missing, grid, resampling_of):
                opened.add_sweep_part(f"{run.run_id}-{run.inputs}", rows)
                done += len(set(rows["cell_id"].to_pylist()))
                progress(SweepProgress(done, total, before))
        result = _summary(opened, runs, skipped, wanted, grid, done - before)
        opened.write("sweep.json", sealed(msgspec.to_builtins(result)))
        # Only now: what an earlier sweep found stays until this one is whole.
        opened.clean_sweep(origins)
    return result


def _predictions(study: Study, run: _Run) -> PairPredictions:
    wording = (run.instruction, run.elicitation)
    return pair_predictions(
        study.pairs(), study.gold(), study.items(), prompts_of(study, *wording),
        study.predictions(run.run_id, columns=SCORED_COLUMNS), *wording,
    )  # fmt: skip


class _Resampling:
    """What the resamples of a grid take besides pairs: clusters, and redraws of gold."""

    def __init__(self, study: Study, grid: _Grid) -> None:
        self._clusters: Integers | None = None
        self.groups = Groups.of(Benchmark(study.pairs()))
        if grid.cluster != "pair":
            benchmark = Benchmark(study.pairs())
            labels = {"country": benchmark.country, "variable": benchmark.question}
            self._clusters = labels[grid.cluster].codes
        self._gold = study.gold() if grid.gold_error else None

    def clusters(self, scores: PairScores) -> Integers | None:
        """Return the cluster of each pair."""
        return None if self._clusters is None else self._clusters[scores.pair]

    def redrawn(self, scores: PairScores, seed: int) -> _Redrawn | None:
        """Return the columns of a run under the redraws of a seed; all runs see the same ones."""
        if self._gold is None:
            return None
        return _Redrawn(scores, GoldRedraws(self._gold, seed=seed))


def _computed(
    run: _Run,
    scores: PairScores,
    missing: Mapping[Key, str],
    grid: _Grid,
    resampling_of: _Resampling,
) -> Iterator[pa.Table]:
    """Yield the rows of the cells of a run that are missing, part by part."""
    # The redraws of one seed are a hundred copies of the scores: one seed at a time.
    together = [(seed,) for seed in grid.seeds] if grid.gold_error else [grid.seeds]
    # What naming a year changes in a group does not depend on boundaries: computed once.
    naming: dict[tuple[float, int], GroupFindings] = {}
    for seeds in together:
        if not any(key[3] in seeds for key in missing):
            continue
        redrawn = resampling_of.redrawn(scores, seeds[0])
        for chosen, share in product(grid.boundaries, grid.retain):
            where = (_boundary_text(chosen), share)
            part = {key: c for key, c in missing.items() if key[:2] == where and key[3] in seeds}
            if not part:
                continue
            retained = np.ones(len(scores), dtype=bool) if run.is_reference else scores.at(share)
            own = scores.under(chosen).take(retained)
            pairs = _Pairs(own, np.flatnonzero(retained), resampling_of.clusters(own), redrawn)
            yield _part(run, pairs, part, grid, resampling_of.groups, naming)


def _part(
    run: _Run,
    pairs: _Pairs,
    cells: Mapping[Key, str],
    grid: _Grid,
    groups: Groups,
    naming: dict[tuple[float, int], GroupFindings],
) -> pa.Table:
    """Return the rows of the cells of one run, one set of boundaries and one retention."""
    rows: list[dict[str, Any]] = []
    boundaries, retain = next(iter(cells))[:2]
    stream = (run.run_id, boundaries, _text(retain))
    for seed in dict.fromkeys(key[3] for key in cells):
        drawing = _Drawing(grid.resamples, grid.confidence_level, seed, stream)
        others = _others(pairs, drawing)
        if (retain, seed) not in naming:
            unclassed = replace(drawing, stream=(run.run_id, _text(retain)))
            naming[retain, seed] = group_findings(groups, pairs, unclassed, BY_PAIR)
        of_groups = group_findings(groups, pairs, drawing, BY_CLASS).joined(naming[retain, seed])
        for tau in (key[2] for key in cells if key[3] == seed):
            own = _Drawing(grid.resamples, grid.confidence_level, seed, (*stream, _text(tau)))
            within = replace(pairs, scores=pairs.scores.within(tau))
            found = {**_accuracy(within, own), **others}
            in_groups = group_findings(groups, within, own, BY_TOLERANCE).joined(of_groups)
            head = {
                "cell_id": cells[boundaries, retain, tau, seed], "run_id": run.run_id,
                "label": run.label, "instruction": run.instruction, "boundaries": boundaries,
                "tau": tau, "retain": retain, "cluster": grid.cluster,
                "gold_error": grid.gold_error, "seed": seed, "resamples": grid.resamples,
            }  # fmt: skip
            made = (_rows(found), in_groups.rows, in_groups.finding_rows())
            rows.extend({**head, **row} for row in chain(*made))
    return pa.Table.from_pylist(rows, schema=schema.SWEEP)


# -- the summary -----------------------------------------------------------------------------------


def _summary(
    study: Study,
    runs: Sequence[_Run],
    skipped: Mapping[str, str],
    wanted: Mapping[str, Mapping[Key, str]],
    grid: _Grid,
    computed: int,
) -> SweepResult:
    ids = {cell for cells in wanted.values() for cell in cells.values()}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in study.sweep_findings({f"{run.run_id}-{run.inputs}" for run in runs}).to_pylist():
        if row["cell_id"] in ids:
            found[row["cell_id"], row["measure"]] = row
    summaries = []
    failures: dict[tuple[Any, ...], Failure] = {}
    for claim in ALL_CLAIMS:
        holds = undefined = supported = 0
        least: float | None = None
        by_run: dict[str, list[int]] = {run.label: [0, 0] for run in runs}
        for run in runs:
            for (boundaries, retain, tau, _), cell in wanted[run.run_id].items():
                row = found[cell, claim.name]
                if row["holds"] is None:
                    undefined += 1
                    continue
                by_run[run.label][1] += 1
                by_run[run.label][0] += row["holds"]
                holds += row["holds"]
                supported += bool(row["holds"] and at_least(row["support"], SUPPORTED))
                least = row["support"] if least is None else min(least, row["support"])
                if not row["holds"]:
                    key = (claim.name, run.run_id, boundaries, tau, retain)
                    failures[key] = Failure(
                        claim.name, run.label, run.instruction, boundaries, tau, retain,
                        len(grid.seeds),
                    )  # fmt: skip
        summaries.append(
            FindingSummary(
                claim.name,
                claim.finding,
                claim.statement,
                len(ids),
                holds,
                undefined,
                supported,
                least,
                by_run,
            )
        )
    return SweepResult(
        runs=[run.label for run in runs],
        skipped=dict(skipped),
        instructions=sorted({run.instruction for run in runs}),
        boundaries=[_boundary_text(chosen) for chosen in grid.boundaries],
        tau=list(grid.tau),
        retain=list(grid.retain),
        seeds=list(grid.seeds),
        resamples=grid.resamples,
        confidence_level=grid.confidence_level,
        cluster=grid.cluster,
        gold_error=grid.gold_error,
        effective_sizes=grid.effective_sizes,
        cells=len(ids),
        computed=computed,
        findings=summaries,
        failures=list(failures.values())[:_LISTED],
        n_failures=len(failures),
        pairs_sha256=study.manifest()["files"]["pairs.parquet"],
    )


def load_sweep(study: Study) -> SweepResult:
    """Return the summary that the last :func:`sweep` wrote.

    Raises
    ------
    StudyError
        The study was not swept yet, or built anew since, or the summary cannot be read.
    """
    path = study.path / "sweep.json"
    again = f"run: chronocore sweep {study.path}"
    try:
        result = msgspec.convert(unsealed(read_bytes(path)), SweepResult)
    except FileNotFoundError:
        raise StudyError(f"{study.path} was not swept yet; {again}") from None
    except (JsonError, msgspec.ValidationError) as error:
        raise StudyError(f"{path} cannot be used ({error}); {again}") from None
    if result.pairs_sha256 != study.manifest()["files"]["pairs.parquet"]:
        raise OutdatedSweepError(f"{study.path} was built anew since it was swept; {again}")
    return result
