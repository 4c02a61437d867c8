"""The intervals of table cells: the one place where the bootstrap of a cell is chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chronocore.config import ScoreSettings
from chronocore.inference import _ends, _few_levels, _levels
from chronocore.intervals import (
    Cell,
    ends_of_cells,
    level_ends,
    median_laws,
    moved_back,
    threads_for,
)
from chronocore.redraws import GoldRedraws
from chronocore.scores import Codes, Flags, Floats, Integers, PairPredictions, PairScores
from chronocore_kernels import cells as kernels

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
    by_gold : bool
        Whether another sample of the surveys could change the values; otherwise predictions and
        the observed shift class alone decide.
    bounds : (float, float)
        Least and greatest value of the statistic, before the scale.
    """

    measure: str
    unit: str
    statistic: str
    values: Callable[[PairScores], NDArray[Any]]
    defined: Callable[[PairScores], Flags] | None = None
    scale: float = 1.0
    weights: Callable[[PairScores, Integers], Floats] | None = None
    by_gold: bool = True
    bounds: tuple[float, float] = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Shares:
    """Classes that divide the pairs of a cell between them; they share every resample.

    Attributes
    ----------
    names : tuple of str
        The classes, each a measure of the table, in per cent.
    codes : callable
        From scores to the position of each pair's class, shape (n,); all >= 0.
    by_gold : bool
        As of a :class:`Quantity`.
    """

    names: tuple[str, ...]
    codes: Callable[[PairScores], Codes]
    by_gold: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """Statistics of one cell: scalars as arrays of shape (1,), shares of shape (c,).

    Attributes
    ----------
    estimate, low, high : (c,) float64
    n : int
        Pairs.
    clusters : int or None
        Clusters that are resampled; None where pairs are.
    hits : (c,) int64 or None
        Pairs that a share of independent pairs counts; None for other statistics.
    pairs_alone : bool
        Whether nothing but the choice of pairs makes the interval.
    """

    estimate: Floats
    low: Floats
    high: Floats
    n: int
    clusters: int | None = None
    hits: Integers | None = None
    pairs_alone: bool = True


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


_SHARE = (0.0, 1.0)


@lru_cache(maxsize=1 << 16)
def seed_word(seed: int) -> np.uint64:
    """Return the word that places a seed's counter range, as :func:`chronocore.bootstrap` does."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _middle(ascending: Floats) -> float:
    """Return the median of sorted values, in numpy.quantile's own arithmetic."""
    n = len(ascending)
    high = float(ascending[n // 2])
    return high if n % 2 else high - (high - float(ascending[n // 2 - 1])) * 0.5


def _estimate(quantity: Quantity, values: NDArray[Any], weights: Floats | None) -> float:
    """Return the statistic of the values of a cell, before the scale of its unit."""
    n = len(values)
    if quantity.statistic == "proportion":
        return float(np.count_nonzero(values) / n)
    numbers = np.asarray(values, dtype=np.float64)
    if weights is not None:
        return float((numbers * weights).sum() / weights.sum())
    if quantity.statistic == "median":
        return _middle(np.sort(numbers))
    return float(numbers.sum() / n)


def _data(scores: PairScores) -> PairPredictions:
    assert scores.data is not None
    return scores.data


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
            return Estimate(
                found.estimate[1:], found.low[1:], found.high[1:], n, hits=np.array([hits])
            )
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
        found = replace(_unfinished(counts / n * 100, n), hits=counts)
        self._counts.add(counts.astype(np.int64), seed, found, n, 100)
        return found

    @property
    def _ends_at(self) -> Floats:
        return level_ends(self.settings.confidence_level)

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
        values = np.concatenate([cells.data[i] for i in order])
        with self._threads(len(order)):
            ends = kernels.rank_ends(
                values, starts, sizes, bases, *median_laws(sizes), self._ends_at,
                self.settings.resamples,
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
        return threads_for(draws * self.settings.resamples)


def column_of(quantity: Quantity, scores: PairScores) -> Floats:
    """Return the values of a quantity, NaN where it is not defined."""
    values = np.array(quantity.values(scores), dtype=np.float64)
    if quantity.defined is not None:
        values[~quantity.defined(scores)] = np.nan
    return values


@dataclass(slots=True)
class _Asked:
    """A cell whose interval is still to be drawn, and where its ends go."""

    cell: Cell
    estimate: Estimate
    scale: float


@dataclass(slots=True)
class _Column:
    """Cells of one column of redrawn values.

    Attributes
    ----------
    scores : PairScores
        A view with the predictions and the tolerance of all of them.
    what : Quantity or Shares
    asked : list of _Asked
    """

    scores: PairScores
    what: Quantity | Shares
    asked: list[_Asked] = field(default_factory=list)


@dataclass(slots=True)
class _Observed:
    """Cells of one kind whose gold is as observed, with their own values side by side."""

    values: list[NDArray[Any]] = field(default_factory=list)
    asked: list[_Asked] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True, slots=True)
class UnitBootstrap:
    """Percentile bootstrap over pairs or clusters, with gold as observed or drawn again.

    Cells are drawn in :meth:`finish`: those of one model together, whose redrawn values are made
    once and freed.

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
    _pairs: PairBootstrap = field(init=False, repr=False, compare=False)
    _columns: dict[tuple[int, float, int], _Column] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _observed: dict[tuple[str, int, bool], _Observed] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _places: dict[int, tuple[PairScores, Integers]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Take intervals that redraws do not change from the bootstrap over pairs."""
        object.__setattr__(self, "_pairs", PairBootstrap(self.settings))

    def redrawn(
        self, scores: PairScores, rows: Integers, quantity: Quantity
    ) -> NDArray[Any] | None:
        """Return the values of a cell under every redraw, (R, n); None if gold does not matter."""
        if self.redraws is None or not quantity.by_gold:
            return None
        return self.redraws.column(scores, quantity, partial(column_of, quantity))[:, rows]

    def statistic(
        self, quantity: Quantity, scores: PairScores, rows: Integers, seed: int
    ) -> Estimate:
        """Return a statistic; its interval is drawn in :meth:`finish`."""
        n = len(rows)
        if not n:
            return _nothing(1)
        if self.clusters is None and not quantity.by_gold:
            return self._pairs.statistic(quantity, scores, rows, seed)
        values = quantity.values(scores)[rows]
        weights = None if quantity.weights is None else quantity.weights(scores, rows)
        estimate = np.array([_estimate(quantity, values, weights)]) * quantity.scale
        if quantity.statistic == "proportion":
            found = _unfinished(np.array([quantity.scale - estimate[0], estimate[0]]), n)
            self._ask(
                quantity, "shares", 2, scores, rows, values, None, seed, found, quantity.scale
            )
            hits = np.array([np.count_nonzero(values)])
            own = replace(self._sampled(scores, rows, hits), n=n)
            return replace(own, estimate=found.estimate[1:], low=found.low[1:], high=found.high[1:])
        found = replace(
            self._sampled(scores, rows), estimate=estimate, low=estimate * np.nan,
            high=estimate * np.nan, n=n,
        )  # fmt: skip
        self._ask(
            quantity, quantity.statistic, 0, scores, rows, values, weights, seed, found,
            quantity.scale,
        )  # fmt: skip
        return found

    def shares(self, shares: Shares, scores: PairScores, rows: Integers, seed: int) -> Estimate:
        """Return the percentage of each class; the intervals are drawn in :meth:`finish`."""
        n = len(rows)
        if not n:
            return _nothing(len(shares.names))
        if self.clusters is None and not shares.by_gold:
            return self._pairs.shares(shares, scores, rows, seed)
        codes = shares.codes(scores)[rows]
        n_classes = len(shares.names)
        counts = np.bincount(codes, minlength=n_classes)
        blank = _unfinished(counts / n * 100, n)
        found = replace(
            self._sampled(scores, rows, counts), estimate=blank.estimate, low=blank.low,
            high=blank.high, n=n,
        )  # fmt: skip
        self._ask(shares, "shares", n_classes, scores, rows, codes, None, seed, found, 100.0)
        return found

    def _sampled(
        self, scores: PairScores, rows: Integers, hits: Integers | None = None
    ) -> Estimate:
        """Return an estimate that says what is resampled, and nothing else yet."""
        blank = np.full(1, np.nan)
        if self.clusters is not None:
            clusters = len(np.unique(self.clusters[scores.pair[rows]]))
            return Estimate(blank, blank, blank, len(rows), clusters, None, False)
        return Estimate(blank, blank, blank, len(rows), None, hits, False)

    def _ask(
        self,
        what: Quantity | Shares,
        statistic: str,
        n_classes: int,
        scores: PairScores,
        rows: Integers,
        values: NDArray[Any],
        weights: Floats | None,
        seed: int,
        estimate: Estimate,
        scale: float,
    ) -> None:
        """Keep a cell until its interval is drawn."""
        clusters = None if self.clusters is None else self.clusters[scores.pair[rows]]
        if self.redraws is not None and what.by_gold:
            column = self._columns.setdefault(
                (id(scores.data), scores.tau, id(what)), _Column(scores, what)
            )
            cell = Cell(self._place(scores)[rows], seed_word(seed), clusters, weights)
            column.asked.append(_Asked(cell, estimate, scale))
            return
        kind = (statistic, n_classes, weights is not None)
        observed = self._observed.setdefault(kind, _Observed())
        rows = np.arange(observed.size, observed.size + len(values))
        observed.size += len(values)
        observed.values.append(values)
        cell = Cell(rows, seed_word(seed), clusters, weights)
        observed.asked.append(_Asked(cell, estimate, scale))

    def _place(self, scores: PairScores) -> Integers:
        """Return where the pairs of a view stand in a redraw."""
        assert self.redraws is not None
        if id(scores) not in self._places:
            # With the view, so that its id is not used again.
            self._places[id(scores)] = (scores, self.redraws.place(scores).astype(np.int32))
        return self._places[id(scores)][1]

    def finish(self) -> None:
        """Draw the intervals of all cells asked for since the last time."""
        self._pairs.finish()
        for (statistic, n_classes, _), observed in self._observed.items():
            values = np.concatenate(observed.values)
            kind = np.int8 if statistic == "shares" else np.float64
            self._draw(values.astype(kind)[None], statistic, n_classes, observed.asked)
        self._observed.clear()
        if self.redraws is not None:
            self._draw_redrawn(self.redraws)
        self._columns.clear()
        self._places.clear()

    def _draw_redrawn(self, redraws: GoldRedraws) -> None:
        """Draw the cells whose gold is redrawn, one model after the other."""
        by_data: dict[int, list[_Column]] = {}
        for (key, _, _), column in self._columns.items():
            by_data.setdefault(key, []).append(column)
        waiting = [(_data(own[0].scores), own) for own in by_data.values()]
        # First those whose redraws are at hand, then each is made once; those with the same
        # undated predictions after each other, as they share what rests on these.
        waiting.sort(key=lambda one: not redraws.kept(one[0]))
        order = {id(data.undated): place for place, (data, _) in reversed(list(enumerate(waiting)))}
        waiting.sort(key=lambda one: order[id(one[0].undated)])
        for place, (data, columns) in enumerate(waiting):
            flat: dict[float, PairScores] = {}
            for column in columns:
                tau = column.scores.tau
                if tau not in flat:
                    flat[tau] = redraws.flat(column.scores)
                what = column.what
                if isinstance(what, Shares):
                    values: NDArray[Any] = what.codes(flat[tau])
                    statistic, n_classes, bounds = "shares", len(what.names), _SHARE
                elif what.statistic == "proportion":
                    values = what.values(flat[tau]).astype(np.int8)
                    if what.defined is not None:
                        values[~what.defined(flat[tau])] = -1
                    statistic, n_classes, bounds = "shares", 2, _SHARE
                else:
                    values = column_of(what, flat[tau]).astype(np.float32)
                    statistic, n_classes, bounds = what.statistic, 0, what.bounds
                self._draw(
                    values.reshape(redraws.repeats, -1), statistic, n_classes, column.asked, bounds
                )
            undated = data.undated
            if not any(later.undated is undated for later, _ in waiting[place + 1 :]):
                redraws.forget(undated)

    def _draw(
        self,
        column: NDArray[Any],
        statistic: str,
        n_classes: int,
        asked: list[_Asked],
        bounds: tuple[float, float] | None = None,
    ) -> None:
        """Draw cells of one column and write their ends; with bounds, they are moved back."""
        ends = ends_of_cells(
            column, statistic, [one.cell for one in asked], n_classes=n_classes,
            n_resamples=self.settings.resamples, confidence_level=self.settings.confidence_level,
        ).reshape(len(asked), -1, 3)  # fmt: skip
        for one, own in zip(asked, ends * np.array([[[one.scale]] for one in asked]), strict=True):
            low, high, centre = own.T
            if bounds is not None:
                limits = (bounds[0] * one.scale, bounds[1] * one.scale)
                low, high = moved_back(one.estimate.estimate, low, high, centre, limits)
            one.estimate.low[:] = low
            one.estimate.high[:] = high


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
