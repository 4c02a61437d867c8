"""Intervals of the cells of tables: pairs or clusters resampled, gold redrawn or as observed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.inference import (
    _rank_law,
    _rank_place,
    bootstrap,
    class_shares,
    seed_base,
)
from chronocore_kernels import resampling, two_level, unit_cells
from chronocore_kernels.jit import threads

__all__ = [
    "SMALL_N",
    "Cell",
    "MedianLaws",
    "Units",
    "cell_interval",
    "cell_shares",
    "column_estimates",
    "ends",
    "ends_of_cells",
    "exact_share",
    "level_ends",
    "median_laws",
    "moved_back",
    "threads_for",
    "two_level_replicates",
    "units_of",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: A bootstrap of fewer units than this, pairs or clusters, is marked.
SMALL_N = 20

_MAXIMUM_CLASSES = 127

# Draws that are worth another thread: half a millisecond of them.
_DRAWS_A_THREAD = 2_000_000


@dataclass(frozen=True, slots=True)
class Units:
    """What a bootstrap draws: rows, or clusters of rows.

    Attributes
    ----------
    order : (n,) int64
        Rows in the order of their units.
    offsets : (G + 1,) int64
        Where each unit begins in ``order``.
    """

    order: Integers
    offsets: Integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def ordered(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return columns (..., n) with the rows of each unit side by side."""
        if (self.order[1:] > self.order[:-1]).all():  # they lie like that
            return np.ascontiguousarray(columns)
        return np.ascontiguousarray(columns[..., self.order])


def units_of(clusters: Any, n: int) -> Units:
    """Return the units of ``n`` rows; every row is its own without ``clusters``.

    Parameters
    ----------
    clusters : array-like of shape (n,), or None
        Labels.
    """
    if clusters is None:
        return Units(np.arange(n), np.arange(n + 1))
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise InvalidInputError(f"clusters must have shape {(n,)}, not {labels.shape}")
    _, codes = np.unique(labels, return_inverse=True)
    codes = codes.reshape(-1)
    sizes = np.bincount(codes) if n else np.empty(0, dtype=np.int64)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return Units(order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def column_estimates(columns: Floats, statistic: str) -> Floats:
    """Return the statistic of each column of shape (..., n); NaN is left out.

    A column without a value gives NaN.
    """
    present = ~np.isnan(columns)
    count = present.sum(axis=-1)
    if statistic == "median":
        out = np.full(columns.shape[:-1], np.nan)
        some = count > 0
        out[some] = np.nanmedian(columns[some], axis=-1)
        return out
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, columns, 0.0).sum(axis=-1) / count)


def two_level_replicates(
    columns: Floats, statistic: str, units: Units, n_resamples: int, seed: int
) -> Floats:
    """Return bootstrap replicates of columns that share every resample.

    Resample b takes redraw b mod R of all columns and draws as many units as there are.

    Parameters
    ----------
    columns : (m, R, n) float64
        R redraws of m columns; NaN is left out.
    statistic : {"mean", "proportion", "median"}
    units : Units
    n_resamples : int
    seed : int

    Returns
    -------
    (n_resamples, m) float64
        NaN where a resample of a column has no value.
    """
    if columns.shape[1] == 1:
        return _one_level(columns[:, 0], statistic, units, n_resamples, seed)
    ordered = units.ordered(columns)
    base = seed_base(seed)
    if statistic == "median":
        return two_level.two_level_quantiles(ordered, units.offsets, 0.5, base, n_resamples)
    return two_level.two_level_means(ordered, units.offsets, base, n_resamples)


def _one_level(
    columns: Floats, statistic: str, units: Units, n_resamples: int, seed: int
) -> Floats:
    """Return what the two-level kernels give for one redraw, from sums and sorted values."""
    base = seed_base(seed)
    present = ~np.isnan(columns)
    unit = np.empty(columns.shape[1], dtype=np.int64)
    unit[units.order] = np.repeat(np.arange(len(units)), np.diff(units.offsets))
    if statistic != "median":
        parts = [np.where(present, columns, 0.0), present.astype(np.float64)]
        rows = np.concatenate(parts)
        sums = np.zeros((len(rows), len(units)))
        for j, row in enumerate(rows):
            sums[j] = np.bincount(unit, row, len(units))
        drawn = resampling.resample_sums(sums, base, n_resamples)
        m = len(columns)
        with np.errstate(invalid="ignore"):
            return drawn[:, :m] / drawn[:, m:]
    out = np.full((n_resamples, len(columns)), np.nan)
    for j, column in enumerate(columns):
        kept = np.flatnonzero(present[j])
        kept = kept[np.argsort(column[kept], kind="stable")]
        if len(kept):
            out[:, j] = resampling.resample_quantiles(
                column[kept], unit[kept], len(units), np.array([0.5]), base, n_resamples
            )[:, 0]
    return out


def exact_share(hits: Any, n: Any, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the exact (Clopper-Pearson) interval of a share of independent cases.

    Parameters
    ----------
    hits, n : int, or array-like of int
        Cases that count, from 0 up to all ``n``; ``n`` at least 1.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    low, high : float64, or array of float64
        In [0, 1]. They hold the true share in at least ``confidence_level`` of all samples,
        whatever it is; a share of 0 or 1 keeps its width.

    Raises
    ------
    InvalidInputError
        A count is not a whole number, or out of range.

    Notes
    -----
    Definitions, section 9: beside the percentile interval of shares of 0 and 100 %, where no
    resample differs. The ends are quantiles of beta distributions.

    Examples
    --------
    >>> low, high = exact_share([0, 10, 20], 20)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.272, 0.832], [0.168, 0.728, 1.0])
    """
    if not 0 < confidence_level < 1:
        raise InvalidInputError(f"confidence_level must lie in (0, 1), not {confidence_level}")
    count, size = np.broadcast_arrays(
        np.asarray(hits, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    good = (size >= 1) & (count >= 0) & (count <= size)
    if not (good & (np.floor(count) == count) & (np.floor(size) == size)).all():
        raise InvalidInputError("hits and n must be whole numbers with 0 <= hits <= n and n >= 1")
    # Imported here: most calls of the library have no such share.
    from scipy.special import betaincinv

    tail = (1 - confidence_level) / 2
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), size - count + 1, tail), 0.0)
    high = np.where(count < size, betaincinv(count + 1, np.maximum(size - count, 1), 1 - tail), 1.0)
    return low, high


def ends(replicates: Floats, confidence_level: float) -> tuple[Floats, Floats]:
    """Return the type-7 percentile ends of each column; resamples without a value are left out."""
    levels = level_ends(confidence_level)
    low = np.full(replicates.shape[1], np.nan)
    high = low.copy()
    for j in range(replicates.shape[1]):
        column = replicates[:, j]
        if np.isnan(column).any():
            column = column[~np.isnan(column)]
        if len(column):
            low[j], high[j] = np.quantile(column, levels)
    return low, high


def level_ends(confidence_level: float) -> Floats:
    """Return the two levels of the replicates between which an interval lies."""
    tail = (1 - confidence_level) / 2
    return np.array([tail, 1 - tail])


def threads_for(draws: int) -> AbstractContextManager[None]:
    """Return as many threads as ``draws`` random numbers are worth."""
    return threads(1 + draws // _DRAWS_A_THREAD)


# -- many cells of one column ----------------------------------------------------------------------


class MedianLaws(NamedTuple):
    """What the medians of samples of some sizes are drawn from, side by side.

    See :func:`chronocore_kernels.cells.rank_ends`.
    """

    laws: Integers
    ranks: Integers
    fractions: Floats
    firsts: Integers
    tables: Integers
    threshold: Floats
    alias: Integers
    moves: Floats


@lru_cache(maxsize=4096)
def _median_law(n: int) -> tuple[int, float, int, Floats, Integers, Floats]:
    """Return what a median's replicates are drawn from; it depends on the sample's size alone."""
    rank, fraction = _rank_place(n, 0.5)
    first, chances, moves = _rank_law(n, rank, fraction > 0)
    threshold, alias = resampling.alias_table(chances)
    return rank, fraction, first, threshold, alias, moves


def median_laws(sizes: Integers) -> MedianLaws:
    """Return the laws of the medians of samples of these sizes."""
    distinct, which = np.unique(sizes, return_inverse=True)
    ranks, fractions, firsts, *columns = zip(*(_median_law(int(n)) for n in distinct), strict=True)
    threshold, alias, moves = (np.concatenate(column) for column in columns)
    return MedianLaws(
        which.reshape(-1).astype(np.int64),
        np.array(ranks, dtype=np.int64),
        np.array(fractions, dtype=np.float64),
        np.array(firsts, dtype=np.int64),
        np.cumsum([0, *(len(one) for one in columns[0])]).astype(np.int64),
        threshold,
        alias,
        moves,
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """Some rows of a column whose statistic has an interval.

    Attributes
    ----------
    rows : (n,) int64
        At least one.
    base : uint64
        Where the stream of its resamples begins (:func:`chronocore.inference.seed_base`).
    clusters : (n,) array, optional
        Labels.
    weights : (n,) float64, optional
        For means.
    """

    rows: Integers
    base: np.uint64
    clusters: NDArray[Any] | None = None
    weights: Floats | None = None


def ends_of_cells(
    column: NDArray[Any],
    statistic: str,
    cells: Sequence[Cell],
    *,
    n_classes: int = 0,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
) -> Floats:
    """Return the ends of the intervals of cells of one column, and the statistic of its redraws.

    Parameters
    ----------
    column : (R, N)
        R redraws of the values of all rows, NaN where undefined; or int8 classes, negative where
        undefined.
    statistic : {"mean", "median", "shares"}
    cells : sequence of Cell
        All with clusters or all without, likewise weights.
    n_classes : int
        For shares.
    n_resamples, confidence_level
        As in :func:`cell_interval`.

    Returns
    -------
    (c, 3) float64, for shares (c, n_classes, 3)
        Low end, high end, and the statistic of all redraws together; NaN where no resample has a
        value.

    Notes
    -----
    Resample b takes redraw b mod R. Shares and medians of pairs are drawn from the law of their
    resamples, everything of clusters from the clusters.
    """
    # The costly ones first, as the kernels deal them to the threads.
    order = sorted(range(len(cells)), key=lambda i: -len(cells[i].rows))
    clustered = cells[0].clusters is not None
    units = [units_of(cells[i].clusters, len(cells[i].rows)) for i in order]
    sizes = np.array([len(cells[i].rows) for i in order], dtype=np.int64)
    rows = [
        cells[i].rows[own.order] if clustered else cells[i].rows
        for i, own in zip(order, units, strict=True)
    ]
    row_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    unit_starts = np.concatenate([[0], np.cumsum([len(own.offsets) for own in units])])
    bases = np.array([cells[i].base for i in order], dtype=np.uint64)
    flat = np.concatenate(rows).astype(np.int64, copy=False)
    offsets = np.concatenate([own.offsets for own in units])
    found = np.empty((len(cells), 3 * max(n_classes, 1)))
    levels = level_ends(confidence_level)
    with threads_for(int(sizes.sum()) * n_resamples):
        if statistic == "shares":
            drawn = unit_cells.unit_count_ends(
                column, n_classes, flat, row_starts, offsets, unit_starts, clustered, bases,
                levels, n_resamples,
            )  # fmt: skip
        elif statistic == "median":
            drawn = unit_cells.unit_median_ends(
                column, flat, row_starts, offsets, unit_starts, clustered, bases,
                *median_laws(sizes), levels, n_resamples,
            )  # fmt: skip
        else:
            weights = [
                np.asarray(weight)[own.order]
                for weight, own in zip((cells[i].weights for i in order), units, strict=True)
                if weight is not None
            ]
            drawn = unit_cells.unit_mean_ends(
                column, flat, np.concatenate(weights) if weights else np.empty(0), row_starts,
                offsets, unit_starts, clustered, bases, levels, n_resamples,
            )  # fmt: skip
    found[order] = drawn.reshape(len(cells), -1)
    return found.reshape(len(cells), n_classes, 3) if statistic == "shares" else found


def moved_back(
    estimate: Floats | float,
    low: Floats | float,
    high: Floats | float,
    centre: Floats | float,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Floats, Floats]:
    """Return the ends of an interval with redraws, moved back by what these move the statistic.

    The interval reaches to its estimate, which in a cell of a few pairs it could miss, and no
    further than the statistic can lie.

    Parameters
    ----------
    estimate, low, high : float, or array of float64
    centre : float, or array of float64
        The statistic of all redraws together.
    bounds : (float, float)
        Least and greatest value of the statistic.
    """
    moved = centre - estimate
    low = np.clip(np.minimum(low - moved, estimate), *bounds)
    high = np.clip(np.maximum(high - moved, estimate), *bounds)
    return low, high


# -- one cell --------------------------------------------------------------------------------------


def _check_redrawn(redrawn: Any, n: int, dtype: type[np.generic]) -> NDArray[Any]:
    array = np.asarray(redrawn)
    if array.ndim != 2 or array.shape[1] != n or not len(array):
        raise InvalidInputError(f"redrawn must have shape (redraws, {n}), not {array.shape}")
    return array.astype(dtype, copy=False)


def cell_interval(
    values: Any,
    statistic: str,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    weights: Any = None,
    clusters: Any = None,
    redrawn: Any = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[float, float, float]:
    """Return estimate, low and high of the statistic of a cell.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite values of the pairs of the cell.
    statistic : {"mean", "proportion", "median"}
        ``"proportion"`` is for 0/1 values.
    n_resamples, confidence_level, seed
        As in :func:`chronocore.bootstrap`; intervals are percentile intervals.
    weights : array-like of shape (n,), optional
        Finite and > 0, for means and proportions.
    clusters : array-like of shape (n,), optional
        Whole clusters are resampled.
    redrawn : array-like of shape (R, n), optional
        The same values under R redraws of the gold distributions, NaN where undefined. Each
        resample takes one redraw of all pairs.
    bounds : (float, float)
        Least and greatest value of the statistic, for an interval with redraws; a proportion has
        those it must have.

    Returns
    -------
    estimate, low, high : float
        NaN for an empty cell.

    Raises
    ------
    InvalidInputError
        Shapes do not match, or a value is not finite.

    Notes
    -----
    Definitions, section 9. An interval with redraws is moved back by what the redraws move the
    statistic itself: they add the surveys' error a second time, and without that the interval of
    a large cell could lie beside its own estimate. See :func:`moved_back`.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.repeat([0.0, 1.0], 50)
    >>> [round(x, 2) for x in cell_interval(values, "mean", seed=1)]
    [0.5, 0.41, 0.59]
    >>> [round(x, 2) for x in cell_interval(values, "mean", clusters=np.arange(100) // 25, seed=1)]
    [0.5, 0.0, 1.0]
    """
    if redrawn is None:
        result = bootstrap(
            values,
            statistic,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            weights=weights,
            clusters=clusters,
            seed=seed,
        )
        low, high = result.confidence_interval
        return result.estimate, low, high
    column = np.asarray(values, dtype=np.float64)
    again = _check_redrawn(redrawn, len(column), np.float64)
    if not np.isfinite(column).all():
        raise InvalidInputError("values must be finite; leave missing values out")
    if not len(column):
        return float("nan"), float("nan"), float("nan")
    if statistic == "proportion" and weights is None:
        codes = np.where(np.isnan(again), -1.0, again).astype(np.int8)
        shares = cell_shares(
            column.astype(np.int8), 2, n_resamples=n_resamples, redrawn=codes, clusters=clusters,
            confidence_level=confidence_level, seed=seed,
        )  # fmt: skip
        estimate, low, high = (float(part[1]) for part in shares)
        return estimate, low, high
    if statistic == "median" and weights is not None:
        raise InvalidInputError("weights are for means and proportions, not for medians")
    cell = Cell(
        np.arange(len(column)),
        seed_base(seed),
        None if clusters is None else np.asarray(clusters),
        None if weights is None else np.asarray(weights, dtype=np.float64),
    )
    low, high, centre = ends_of_cells(
        again, "median" if statistic == "median" else "mean", [cell], n_resamples=n_resamples,
        confidence_level=confidence_level,
    )[0]  # fmt: skip
    if cell.weights is None:
        estimate = float(column_estimates(column[None], statistic)[0])
    else:
        estimate = float(cell.weights @ column / cell.weights.sum())
    low, high = moved_back(estimate, low, high, centre, bounds)
    return estimate, float(low), float(high)


def cell_shares(
    codes: Any,
    n_classes: int,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    clusters: Any = None,
    redrawn: Any = None,
) -> tuple[Floats, Floats, Floats]:
    """Return the share of each class of a cell, with the ends of its interval.

    Parameters
    ----------
    codes : array-like of int, shape (n,)
        Classes 0 ... ``n_classes`` - 1 of the pairs of the cell.
    n_classes : int
        At least 2.
    n_resamples, confidence_level, seed, clusters
        As in :func:`cell_interval`.
    redrawn : array-like of int, shape (R, n), optional
        The classes under R redraws of the gold distributions; -1 where undefined.

    Returns
    -------
    estimate, low, high : (n_classes,) float64
        All classes share their resamples.

    Examples
    --------
    >>> import numpy as np
    >>> estimate, low, high = cell_shares([0, 0, 1, 2] * 25, 3, seed=0)
    >>> estimate.tolist(), bool((low < estimate).all()), bool((high > estimate).all())
    ([0.5, 0.25, 0.25], True, True)
    """
    classes = np.asarray(codes)
    if clusters is None and redrawn is None:
        result = class_shares(
            classes,
            n_classes,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            seed=seed,
        )
        return result.estimate, *result.confidence_interval
    if len(classes) and (classes.min() < 0 or classes.max() >= n_classes):
        raise InvalidInputError(f"codes must be classes below n_classes={n_classes}")
    if not len(classes):
        nothing = np.full(n_classes, np.nan)
        return nothing, nothing.copy(), nothing.copy()
    if n_classes > _MAXIMUM_CLASSES:
        raise InvalidInputError(f"at most {_MAXIMUM_CLASSES} classes, not {n_classes}")
    again = classes[None] if redrawn is None else _check_redrawn(redrawn, len(classes), np.int8)
    cell = Cell(
        np.arange(len(classes)), seed_base(seed), None if clusters is None else np.asarray(clusters)
    )
    low, high, centre = ends_of_cells(
        again.astype(np.int8, copy=False), "shares", [cell], n_classes=n_classes,
        n_resamples=n_resamples, confidence_level=confidence_level,
    )[0].T  # fmt: skip
    estimate = np.bincount(classes, minlength=n_classes) / len(classes)
    return estimate, *moved_back(estimate, low, high, centre, (0.0, 1.0))
