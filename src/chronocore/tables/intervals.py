"""The intervals of table cells: the one place where the bootstrap of a cell is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chronocore.config import ScoreSettings
from chronocore.inference import bootstrap
from chronocore.scores import Codes, Flags, Floats, Integers, PairScores
from chronocore_kernels import multinomial, resampling

__all__ = [
    "Estimate",
    "Intervals",
    "PairBootstrap",
    "Quantity",
    "Shares",
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


@lru_cache(maxsize=1 << 16)
def seed_word(seed: int) -> np.uint64:
    """Return the word that places a seed's counter range, as :func:`chronocore.bootstrap` does."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _nothing(n_classes: int) -> Estimate:
    nan = np.full(n_classes, np.nan)
    return Estimate(nan, nan, nan, 0)


@dataclass(frozen=True, slots=True)
class PairBootstrap:
    """Percentile bootstrap over the pairs of a cell (definitions, section 9).

    Shares and proportions come straight from their counts; everything else goes through
    :func:`chronocore.bootstrap`. Both give what that function gives, to the last bit.
    """

    settings: ScoreSettings

    def _count_shares(self, counts: Integers, seed: int) -> tuple[Floats, Floats, Floats]:
        n = int(counts.sum())
        drawn = multinomial.multinomial_counts(counts, seed_word(seed), self.settings.resamples)
        tail = (1 - self.settings.confidence_level) / 2
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
        result = bootstrap(
            np.asarray(values, dtype=np.float64),
            quantity.statistic,
            n_resamples=self.settings.resamples,
            confidence_level=self.settings.confidence_level,
            weights=None if quantity.weights is None else quantity.weights(scores, rows),
            seed=seed,
        )
        low, high = result.confidence_interval
        ends = np.array([result.estimate, low, high]) * scale
        return Estimate(ends[:1], ends[1:2], ends[2:], len(rows))

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class with its interval."""
        if not len(rows):
            return _nothing(len(shares.names))
        counts = np.bincount(shares.codes(scores)[rows], minlength=len(shares.names))
        share, low, high = self._count_shares(counts.astype(np.int64), seed)
        return Estimate(share * 100, low * 100, high * 100, len(rows))


def intervals_for(settings: ScoreSettings, benchmark: Any) -> Intervals:
    """Return how cells get their intervals under ``settings``.

    ``benchmark`` is the :class:`~chronocore.tables.cells.Benchmark` the scores refer to.
    """
    return PairBootstrap(settings)
