"""The intervals of table cells: the one place where the bootstrap of a cell is chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chronocore.config import ScoreSettings
from chronocore.inference import _ends, _few_levels, _levels, _rank_law, _rank_place
from chronocore.intervals import cell_interval, cell_shares
from chronocore.redraws import GoldRedraws
from chronocore.scores import Codes, Flags, Floats, Integers, PairScores
from chronocore_kernels import cells as kernels
from chronocore_kernels import resampling
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

    def finish(self) -> None:
        """Write the ends of all estimates returned so far; they may be NaN until then."""
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


def _unfinished(estimate: Floats, n: int) -> Estimate:
    """Return an estimate whose ends are still to be written."""
    return Estimate(estimate, np.full(len(estimate), np.nan), np.full(len(estimate), np.nan), n)


@dataclass(slots=True)
class _Waiting:
    """Cells of one kind whose intervals are still to be drawn, and where their ends go."""

    data: list[NDArray[Any]] = field(default_factory=list)
    bases: list[np.uint64] = field(default_factory=list)
    places: list[tuple[Estimate, float, float]] = field(default_factory=list)

    def add(
        self, data: NDArray[Any], seed: int, estimate: Estimate, unit: float, scale: float
    ) -> None:
        self.data.append(data)
        self.bases.append(seed_word(seed))
        self.places.append((estimate, unit, scale))

    def sorted(self) -> tuple[list[int], Integers, Integers, NDArray[Any]]:
        """Return the order of the cells, their sizes, where they begin, and their streams."""
        sizes = [one.shape[-1] for one in self.data]
        # The costly ones first; those with one stream and size beside each other.
        order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], int(self.bases[i])))
        length = np.array([sizes[i] for i in order], dtype=np.int64)
        bases = np.array([self.bases[i] for i in order], dtype=np.uint64)
        return order, length, np.cumsum(length) - length, bases

    def fill(self, order: list[int], ends: Floats) -> None:
        """Write the ends of each cell, one row a class, to where they go."""
        row = 0
        for i in order:
            estimate, unit, scale = self.places[i]
            own = ends[row : row + len(estimate.low)] / unit * scale
            estimate.low[:] = own[:, 0]
            estimate.high[:] = own[:, 1]
            row += len(estimate.low)
        self.data.clear()
        self.bases.clear()
        self.places.clear()


@dataclass(frozen=True, slots=True)
class PairBootstrap:
    """Percentile bootstrap over the pairs of a cell (definitions, section 9).

    What :func:`chronocore.bootstrap` gives, to the last bit, without its checks and without what
    no table shows: a study has thousands of cells, many of a dozen pairs. Their ends are drawn
    together, in :meth:`finish`.
    """

    settings: ScoreSettings
    _means: _Waiting = field(default_factory=_Waiting, init=False, repr=False, compare=False)
    _weighted: _Waiting = field(default_factory=_Waiting, init=False, repr=False, compare=False)
    _medians: _Waiting = field(default_factory=_Waiting, init=False, repr=False, compare=False)
    _counts: _Waiting = field(default_factory=_Waiting, init=False, repr=False, compare=False)

    def statistic(
        self, quantity: Quantity, scores: PairScores, rows: Integers, seed: int
    ) -> Estimate:
        """Return a statistic; its interval is drawn in :meth:`finish`."""
        n = len(rows)
        if not n:
            return _nothing(1)
        values = quantity.values(scores)[rows]
        scale = quantity.scale
        if quantity.statistic == "proportion":
            hits = int(np.count_nonzero(values))
            share = np.array([n - hits, hits]) / n
            found = _unfinished(share * scale, n)
            self._counts.add(np.array([n - hits, hits], dtype=np.int64), seed, found, n, scale)
            return Estimate(found.estimate[1:], found.low[1:], found.high[1:], n)
        numbers = np.asarray(values, dtype=np.float64)
        if quantity.weights is not None:
            weights = quantity.weights(scores, rows)
            columns = np.stack([numbers * weights, weights])
            total = columns.sum(axis=1)
            found = _unfinished(total[:1] / total[1:] * scale, n)
            self._weighted.add(columns, seed, found, 1.0, scale)
        elif quantity.statistic == "median":
            ascending = np.sort(numbers)
            found = _unfinished(np.array([_middle(ascending)]) * scale, n)
            self._medians.add(ascending, seed, found, 1.0, scale)
        elif _few_levels(numbers):
            drawn = _levels(numbers, seed_word(seed), self.settings.resamples)
            low, high = _ends(drawn.replicates, self._ends_at)
            return Estimate(drawn.estimate * scale, low * scale, high * scale, n)
        else:
            found = _unfinished(numbers[None].sum(axis=1) / n * scale, n)
            self._means.add(numbers, seed, found, 1.0, scale)
        return found

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class; the intervals are drawn in :meth:`finish`."""
        n = len(rows)
        if not n:
            return _nothing(len(shares.names))
        counts = np.bincount(shares.codes(scores)[rows], minlength=len(shares.names))
        found = _unfinished(counts / n * 100, n)
        self._counts.add(counts.astype(np.int64), seed, found, n, 100)
        return found

    @property
    def _ends_at(self) -> Floats:
        tail = (1 - self.settings.confidence_level) / 2
        return np.array([tail, 1 - tail])

    def finish(self) -> None:
        """Draw the intervals of all cells asked for since the last time."""
        self._finish_means()
        self._finish_weighted()
        self._finish_medians()
        self._finish_counts()

    def _finish_means(self) -> None:
        cells = self._means
        if not cells.data:
            return
        order, sizes, starts, bases = cells.sorted()
        new = (sizes[1:] != sizes[:-1]) | (bases[1:] != bases[:-1])
        groups = np.concatenate([[0], np.flatnonzero(new) + 1, [len(order)]]).astype(np.int64)
        values = np.concatenate([cells.data[i] for i in order])
        with self._threads(int(sizes.sum())):
            ends = kernels.mean_ends(
                values, starts, sizes, bases, groups, self._ends_at, self.settings.resamples
            )
        cells.fill(order, ends)

    def _finish_weighted(self) -> None:
        cells = self._weighted
        if not cells.data:
            return
        order, sizes, starts, bases = cells.sorted()
        columns = np.concatenate([cells.data[i] for i in order], axis=1)
        with self._threads(int(sizes.sum())):
            ends = kernels.weighted_mean_ends(
                columns, starts, sizes, bases, self._ends_at, self.settings.resamples
            )
        cells.fill(order, ends)

    def _finish_medians(self) -> None:
        cells = self._medians
        if not cells.data:
            return
        order, sizes, starts, bases = cells.sorted()
        distinct, which = np.unique(sizes, return_inverse=True)
        laws = [_median_law(int(size)) for size in distinct]
        ranks, fractions, firsts, *columns = zip(*laws, strict=True)
        threshold, alias, moves = (np.concatenate(column) for column in columns)
        tables = np.cumsum([0, *(len(one) for one in columns[0])]).astype(np.int64)
        values = np.concatenate([cells.data[i] for i in order])
        with self._threads(len(order)):
            ends = kernels.rank_ends(
                values, starts, sizes, bases, which.reshape(-1).astype(np.int64),
                np.array(ranks, dtype=np.int64), np.array(fractions, dtype=np.float64),
                np.array(firsts, dtype=np.int64), tables,
                threshold, alias, moves, self._ends_at, self.settings.resamples,
            )  # fmt: skip
        cells.fill(order, ends)

    def _finish_counts(self) -> None:
        cells = self._counts
        if not cells.data:
            return
        order, sizes, starts, bases = cells.sorted()
        counts = np.concatenate([cells.data[i] for i in order])
        with self._threads(int(sizes.sum())):
            ends = kernels.count_ends(
                counts, np.append(starts, len(counts)), bases, self._ends_at,
                self.settings.resamples,
            )  # fmt: skip
        cells.fill(order, ends)

    def _threads(self, draws: int) -> AbstractContextManager[None]:
        """Return the threads for ``draws`` random numbers a resample."""
        return threads(1 + draws * self.settings.resamples // _DRAWS_A_THREAD)


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
        # Where gold matters, it mostly shows in the first redraw.
        same = np.array_equal(redrawn[0], values) and bool((redrawn == values).all())
        return None if same else redrawn

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

    def finish(self) -> None:
        """Do nothing: every interval is there from the start."""


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
