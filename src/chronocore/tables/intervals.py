"""The intervals of table cells: the one place where the bootstrap of a cell is chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chronocore.config import ScoreSettings
from chronocore.inference import _ends, _few_levels, _levels, _rank_law, _rank_place, bootstrap
from chronocore.intervals import cell_interval, cell_shares
from chronocore.redraws import GoldRedraws
from chronocore.scores import Codes, Flags, Floats, Integers, PairScores
from chronocore_kernels import multinomial, resampling
from chronocore_kernels.jit import threads

__all__ = [
    "Estimate",
    "Intervals",
    "PairBootstrap",
    "Quantity",
    "Shares",
    "UnitBootstrap",
    "column_of",
    "intervals_for",
    "seed_word",
]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number each pair has, and the statistic of it that a cell reports.

    Attributes
    ----------
    measure, unit : str
        As in the tables.
    statistic : str
        ``"mean"``, ``"median"`` or ``"proportion"`` (values 0 and 1).
    values : callable
        From :class:`~chronocore.scores.PairScores` to one value a pair, shape (n,).
    defined : callable, optional
        From scores to the pairs that have a value; by default all.
    scale : float
        What estimate and interval are multiplied by for the unit.
    weights : callable, optional
        From scores and the pairs of the cell that have a value to their weights, shape (r,), for
        a weighted mean.
    """

    measure: str
    unit: str
    statistic: str
    values: Callable[[PairScores], NDArray[Any]]
    defined: Callable[[PairScores], Flags] | None = None
    scale: float = 1.0
    weights: Callable[[PairScores, Integers], Floats] | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """Classes that divide the pairs of a cell between them; they share every resample.

    Attributes
    ----------
    names : tuple of str
        The classes, each a measure of the table, in per cent.
    codes : callable
        From scores to the position of each pair's class, shape (n,); all >= 0.
    """

    names: tuple[str, ...]
    codes: Callable[[PairScores], Codes]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Statistics of one cell: scalars as arrays of shape (1,), shares of shape (c,)."""

    estimate: Floats
    low: Floats
    high: Floats
    n: int


class Intervals(Protocol):
    """How the cells of tables get their intervals.

    ``scores`` is the view of the pairs a cell is part of, ``rows`` are the pairs of the cell in
    it. The functions of a quantity can be applied to other scores of the same pairs, for example
    against gold that was drawn again.
    """

    def statistic(
        self, quantity: Quantity, scores: PairScores, rows: Integers, seed: int
    ) -> Estimate:
        """Return a statistic, in the unit of the quantity."""
        ...

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class."""
        ...


# Draws that are worth another thread: half a millisecond of them.
_DRAWS_A_THREAD = 2_000_000


@lru_cache(maxsize=1 << 16)
def seed_word(seed: int) -> np.uint64:
    """Return the word that places a seed's counter range, as :func:`chronocore.bootstrap` does."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@lru_cache(maxsize=4096)
def _median_law(n: int) -> tuple[int, float, int, Floats, Integers, Floats]:
    """Return what a median's replicates are drawn from; it depends on the sample's size alone."""
    rank, fraction = _rank_place(n, 0.5)
    first, chances, moves = _rank_law(n, rank, fraction > 0)
    threshold, alias = resampling.alias_table(chances)
    return rank, fraction, first, threshold, alias, moves


def _middle(ascending: Floats) -> float:
    """Return the median of sorted values, in numpy.quantile's own arithmetic."""
    n = len(ascending)
    high = float(ascending[n // 2])
    return high if n % 2 else high - (high - float(ascending[n // 2 - 1])) * 0.5


def _nothing(n_classes: int) -> Estimate:
    nan = np.full(n_classes, np.nan)
    return Estimate(nan, nan, nan, 0)


@dataclass(frozen=True, slots=True)
class PairBootstrap:
    """Percentile bootstrap over the pairs of a cell (definitions, section 9).

    What :func:`chronocore.bootstrap` gives, to the last bit, without its checks and without what
    no table shows: a study has thousands of cells, many of a dozen pairs.
    """

    settings: ScoreSettings

    def _threads(self, draws: int) -> AbstractContextManager[None]:
        """Return the threads for ``draws`` random numbers a resample."""
        return threads(1 + draws * self.settings.resamples // _DRAWS_A_THREAD)

    def _count_shares(self, counts: Integers, seed: int) -> tuple[Floats, Floats, Floats]:
        n = int(counts.sum())
        tail = (1 - self.settings.confidence_level) / 2
        with self._threads(len(counts)):
            drawn = multinomial.multinomial_counts(counts, seed_word(seed), self.settings.resamples)
            ends, _ = resampling.count_quantiles(drawn, n, np.array([tail, 1 - tail]))
        return counts / n, ends[:, 0] / n, ends[:, 1] / n

    def statistic(
        self, quantity: Quantity, scores: PairScores, rows: Integers, seed: int
    ) -> Estimate:
        """Return a statistic with its interval."""
        if not len(rows):
            return _nothing(1)
        values = quantity.values(scores)[rows]
        scale = quantity.scale
        if quantity.statistic == "proportion":
            hits = int(np.count_nonzero(values))
            counts = np.array([len(rows) - hits, hits], dtype=np.int64)
            share, low, high = self._count_shares(counts, seed)
            return Estimate(share[1:] * scale, low[1:] * scale, high[1:] * scale, len(rows))
        numbers = np.asarray(values, dtype=np.float64)
        if quantity.weights is not None:
            result = bootstrap(
                numbers,
                quantity.statistic,
                n_resamples=self.settings.resamples,
                confidence_level=self.settings.confidence_level,
                weights=quantity.weights(scores, rows),
                seed=seed,
            )
            ends = np.array([result.estimate, *result.confidence_interval]) * scale
        else:
            drawn = (
                self._median(numbers, seed)
                if quantity.statistic == "median"
                else (self._mean(numbers, seed))
            )
            tail = (1 - self.settings.confidence_level) / 2
            low, high = _ends(drawn[1], np.array([tail, 1 - tail]))
            ends = np.array([drawn[0], low[0], high[0]]) * scale
        return Estimate(ends[:1], ends[1:2], ends[2:], len(rows))

    def _mean(self, values: Floats, seed: int) -> tuple[float, Floats]:
        """Return the mean and its replicates, shape (B, 1)."""
        base, b, n = seed_word(seed), self.settings.resamples, len(values)
        if _few_levels(values):
            drawn = _levels(values, base, b)
            return float(drawn.estimate[0]), drawn.replicates
        columns = np.ascontiguousarray(values[None])
        with self._threads(n):
            sums = resampling.resample_sums(columns, base, b)
        return float(columns.sum(axis=1)[0] / n), sums / n

    def _median(self, values: Floats, seed: int) -> tuple[float, Floats]:
        """Return the median and its replicates, shape (B, 1), drawn from the law of its ranks."""
        ascending = np.sort(values)
        rank, fraction, first, threshold, alias, moves = _median_law(len(values))
        with self._threads(1):
            replicates = resampling.rank_replicates(
                ascending, rank, fraction, first, threshold, alias, moves, seed_word(seed),
                self.settings.resamples,
            )  # fmt: skip
        return _middle(ascending), replicates[:, None]

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class with its interval."""
        if not len(rows):
            return _nothing(len(shares.names))
        counts = np.bincount(shares.codes(scores)[rows], minlength=len(shares.names))
        share, low, high = self._count_shares(counts.astype(np.int64), seed)
        return Estimate(share * 100, low * 100, high * 100, len(rows))


def column_of(quantity: Quantity, scores: PairScores) -> Floats:
    """Return the values of a quantity, NaN where it is not defined."""
    values = np.array(quantity.values(scores), dtype=np.float64)
    if quantity.defined is not None:
        values[~quantity.defined(scores)] = np.nan
    return values


@dataclass(frozen=True, slots=True)
class UnitBootstrap:
    """Percentile bootstrap over pairs or clusters, with gold as observed or drawn again.

    Attributes
    ----------
    settings : ScoreSettings
    clusters : (N,) int64, optional
        Cluster of each pair of ``pairs.parquet``; None resamples pairs.
    redraws : GoldRedraws, optional
        With it, every resample takes one redraw of all gold distributions.
    """

    settings: ScoreSettings
    clusters: Integers | None = None
    redraws: GoldRedraws | None = None

    def redrawn(
        self, scores: PairScores, rows: Integers, values: NDArray[Any], what: Quantity | Shares
    ) -> NDArray[Any] | None:
        """Return the values of a cell under every redraw, (R, n); None if gold does not matter."""
        if self.redraws is None:
            return None
        of = partial(column_of, what) if isinstance(what, Quantity) else what.codes
        redrawn = self.redraws.column(scores, what, of)[:, rows]
        return None if np.array_equal(redrawn, np.broadcast_to(values, redrawn.shape)) else redrawn

    def _options(self, scores: PairScores, rows: Integers, seed: int) -> dict[str, Any]:
        pair = scores.pair[rows]
        return {
            "n_resamples": self.settings.resamples,
            "confidence_level": self.settings.confidence_level,
            "seed": seed,
            "clusters": None if self.clusters is None else self.clusters[pair],
        }

    def statistic(
        self, quantity: Quantity, scores: PairScores, rows: Integers, seed: int
    ) -> Estimate:
        """Return a statistic with its interval."""
        if not len(rows):
            return _nothing(1)
        values = np.asarray(quantity.values(scores)[rows], dtype=np.float64)
        found = cell_interval(
            values,
            quantity.statistic,
            weights=None if quantity.weights is None else quantity.weights(scores, rows),
            redrawn=self.redrawn(scores, rows, values, quantity),
            **self._options(scores, rows, seed),
        )
        ends = np.array(found) * quantity.scale
        return Estimate(ends[:1], ends[1:2], ends[2:], len(rows))

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class with its interval."""
        if not len(rows):
            return _nothing(len(shares.names))
        codes = shares.codes(scores)[rows]
        estimate, low, high = cell_shares(
            codes,
            len(shares.names),
            redrawn=self.redrawn(scores, rows, codes, shares),
            **self._options(scores, rows, seed),
        )
        return Estimate(estimate * 100, low * 100, high * 100, len(rows))


def intervals_for(settings: ScoreSettings, benchmark: Any) -> Intervals:
    """Return how cells get their intervals under ``settings``.

    ``benchmark`` is the :class:`~chronocore.tables.cells.Benchmark` the scores refer to.
    """
    if settings.cluster == "pair" and not settings.gold_error:
        return PairBootstrap(settings)
    labels = {"country": benchmark.country, "variable": benchmark.question}
    clusters = None if settings.cluster == "pair" else labels[settings.cluster].codes
    redraws = None
    if settings.gold_error:
        redraws = GoldRedraws(benchmark.gold, seed=settings.seed)
    return UnitBootstrap(settings, clusters, redraws)
