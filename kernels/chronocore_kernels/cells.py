"""The bootstrap intervals of many small samples in one call: the cells of tables.

Every cell owns a stream and gets the replicates the kernels for a single sample give, to the last
bit; here a thread takes whole cells, so that thousands of cells cost one call. Callers put the
costly cells first: thread t of T takes every T-th.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel
from chronocore_kernels.multinomial import LANES, draw_resamples, log_factorials
from chronocore_kernels.resampling import counted_sum, draw_indices, gather_sum, rank_replicate
from chronocore_kernels.selection import select

__all__ = ["count_ends", "mean_ends", "quantile_ends", "rank_ends", "weighted_mean_ends"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

# Parts the cells are dealt to: enough that a thread held up elsewhere does not hold up the rest.
_PARTS = 64


@inline
def quantile_ends(replicates: Floats, levels: Floats, out: Floats) -> None:
    """Write the type-7 quantiles at ascending levels; reorders the replicates."""
    last = replicates.shape[0] - 1
    first = 0
    for j in range(levels.shape[0]):
        place = levels[j] * last
        below = int(place)
        low = select(replicates, first, below)
        high = low
        if below < last:
            high = select(replicates, below, below + 1)
        out[j] = low + (high - low) * (place - below)
        first = below


@kernel(parallel=True)
def mean_ends(
    values: Floats,
    starts: Integers,
    sizes: Integers,
    bases: Words,
    groups: Integers,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    """Return the ends of the intervals of means, shape (n, 2), from resampled rows.

    Parameters
    ----------
    values : (M,) float64
        The cells side by side.
    starts, sizes : (n,) int64
        Where each cell begins in ``values`` and how many values it has, at least one.
    bases : (n,) uint64
        Where the stream of each cell begins.
    groups : (g + 1,) int64
        Cells ``groups[i]`` up to ``groups[i + 1]`` have one size and base: they share resamples.
    levels : (2,) float64
        Ascending, in [0, 1].
    n_resamples : int
    """
    out = np.empty((sizes.shape[0], levels.shape[0]), dtype=np.float64)
    n_groups = groups.shape[0] - 1
    for part in numba.prange(min(_PARTS, n_groups)):
        for group in range(part, n_groups, _PARTS):
            first = groups[group]
            count = groups[group + 1] - first
            n = sizes[first]
            index = np.empty(n + (n & 1), dtype=np.uint32)
            replicates = np.empty((count, n_resamples), dtype=np.float64)
            for r in range(n_resamples):
                draw_indices(bases[first], r, n, index)
                for j in range(count):
                    start = starts[first + j]
                    replicates[j, r] = gather_sum(values[start : start + n], index[:n]) / n
            for j in range(count):
                quantile_ends(replicates[j], levels, out[first + j])
    return out


@kernel(parallel=True)
def weighted_mean_ends(
    columns: Floats, starts: Integers, sizes: Integers, bases: Words, levels: Floats,
    n_resamples: int,
) -> Floats:  # fmt: skip
    """Return the ends of the intervals of weighted means, shape (n, 2).

    Parameters
    ----------
    columns : (2, M) float64
        Values times weights, and weights; the cells side by side.
    starts, sizes, bases, levels, n_resamples
        As in :func:`mean_ends`.
    """
    n_cells = sizes.shape[0]
    out = np.empty((n_cells, levels.shape[0]), dtype=np.float64)
    for part in numba.prange(min(_PARTS, n_cells)):
        for cell in range(part, n_cells, _PARTS):
            n = sizes[cell]
            start = starts[cell]
            index = np.empty(n + (n & 1), dtype=np.uint32)
            counts = np.empty(n, dtype=np.int32)
            replicates = np.empty(n_resamples, dtype=np.float64)
            for r in range(n_resamples):
                draw_indices(bases[cell], r, n, index)
                counts[:] = 0
                for i in range(n):
                    counts[np.uint64(index[i])] += np.int32(1)
                above = counted_sum(columns[0, start : start + n], counts)
                replicates[r] = above / counted_sum(columns[1, start : start + n], counts)
            quantile_ends(replicates, levels, out[cell])
    return out


@kernel(parallel=True)
def rank_ends(
    values: Floats,
    starts: Integers,
    sizes: Integers,
    bases: Words,
    laws: Integers,
    ranks: Integers,
    fractions: Floats,
    firsts: Integers,
    tables: Integers,
    threshold: Floats,
    alias: Integers,
    moves: Floats,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    """Return the ends of the intervals of a quantile, shape (n, 2), by the law of its ranks.

    Parameters
    ----------
    values : (M,) float64
        The cells side by side, each in ascending order.
    starts, sizes, bases, levels, n_resamples
        As in :func:`mean_ends`.
    laws : (n,) int64
        Which law each cell's rank has.
    ranks, fractions, firsts : (s,)
        Of each law, as in :func:`chronocore_kernels.resampling.rank_replicates`.
    tables : (s + 1,) int64
        Where each law's ``threshold``, ``alias`` and ``moves`` begin.
    """
    n_cells = sizes.shape[0]
    out = np.empty((n_cells, levels.shape[0]), dtype=np.float64)
    for part in numba.prange(min(_PARTS, n_cells)):
        replicates = np.empty(n_resamples, dtype=np.float64)
        for cell in range(part, n_cells, _PARTS):
            law = laws[cell]
            begin = tables[law]
            end = tables[law + 1]
            ascending = values[starts[cell] : starts[cell] + sizes[cell]]
            for r in range(n_resamples):
                replicates[r] = rank_replicate(
                    ascending,
                    ranks[law],
                    fractions[law],
                    firsts[law],
                    threshold[begin:end],
                    alias[begin:end],
                    moves[begin:end],
                    bases[cell],
                    r,
                )
            quantile_ends(replicates, levels, out[cell])
    return out


@inline
def _counted_ends(row: NDArray[np.int32], levels: Floats, out: Floats) -> None:
    """Write the type-7 quantiles of counts at ascending levels."""
    b = row.shape[0]
    least = np.int64(row[0])
    greatest = least
    for i in range(b):
        least = min(least, np.int64(row[i]))
        greatest = max(greatest, np.int64(row[i]))
    histogram = np.zeros(greatest - least + 1, dtype=np.int64)
    for i in range(b):
        histogram[np.int64(row[i]) - least] += 1
    value = -1
    seen = 0
    for j in range(levels.shape[0]):
        place = levels[j] * (b - 1)
        rank = int(place)
        fraction = place - rank
        while seen <= rank:
            value += 1
            seen += histogram[value]
        above = value
        reached = seen
        if fraction > 0.0:
            while reached <= rank + 1:
                above += 1
                reached += histogram[above]
        out[j] = (least + value) + (above - value) * fraction


@kernel(parallel=True)
def _count_ends(
    counts: Integers, offsets: Integers, bases: Words, table: Floats, levels: Floats,
    n_resamples: int,
) -> Floats:  # fmt: skip
    n_cells = bases.shape[0]
    out = np.empty((counts.shape[0], levels.shape[0]), dtype=np.float64)
    for part in numba.prange(min(_PARTS, n_cells)):
        for cell in range(part, n_cells, _PARTS):
            first = offsets[cell]
            n_classes = offsets[cell + 1] - first
            size = 0
            for j in range(n_classes):
                size += counts[first + j]
            shares = np.empty((2, n_classes), dtype=np.float64)
            later = size
            for j in range(n_classes):
                own = counts[first + j]
                later -= own
                rest = max(own + later, 1)
                shares[0, j] = own / rest
                shares[1, j] = later / rest
            drawn = np.empty((n_classes, n_resamples), dtype=np.int32)
            known = table if size < table.shape[0] else table[:0]
            for block in range(0, n_resamples, LANES):
                draw_resamples(
                    shares, size, bases[cell], block, 1, known, drawn[:, block : block + LANES]
                )
            for j in range(n_classes):
                _counted_ends(drawn[j], levels, out[first + j])
    return out


def count_ends(
    counts: Integers, offsets: Integers, bases: Words, levels: Floats, n_resamples: int
) -> Floats:
    """Return the ends of the intervals of class counts, shape (M, 2), in pairs of the cell.

    Parameters
    ----------
    counts : (M,) int64
        The class counts of the cells side by side.
    offsets : (n + 1,) int64
        Where the classes of each cell begin.
    bases, levels, n_resamples
        As in :func:`mean_ends`.
    """
    return _count_ends(counts, offsets, bases, log_factorials(), levels, n_resamples)
