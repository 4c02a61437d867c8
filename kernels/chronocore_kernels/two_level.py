"""Bootstrap replicates of units that are resampled and whose values are redrawn.

A unit is a row or a cluster of rows. Resample ``b`` takes the values of redraw ``b mod R``, then
draws as many units as there are, with replacement. With one redraw this is the ordinary
bootstrap, for columns that may have gaps (NaN). Everything computed with the same base and the
same units shares its resamples.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel
from chronocore_kernels.resampling import draw_indices
from chronocore_kernels.selection import select

__all__ = ["two_level_counts", "two_level_means", "two_level_quantiles"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Resamples a thread takes at a time: its buffers are made once.
_BLOCK = 16


@kernel(parallel=True)
def two_level_means(
    columns: Floats, offsets: Integers, base: np.uint64, n_resamples: int
) -> Floats:
    """Return the mean of every column over the rows of every resample.

    Parameters
    ----------
    columns : (m, R, n) float64, C-contiguous
        The redraws of each column; NaN is left out of its mean.
    offsets : (G + 1,) int64
        Rows ``offsets[g]`` up to ``offsets[g + 1]`` belong to unit g.
    base : uint64
    n_resamples : int

    Returns
    -------
    (n_resamples, m) float64
        NaN where a resample has no value.
    """
    m, n_redraws, _ = columns.shape
    n_units = offsets.shape[0] - 1
    out = np.empty((n_resamples, m), dtype=np.float64)
    for block in numba.prange((n_resamples + _BLOCK - 1) // _BLOCK):
        index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
        for b in range(block * _BLOCK, min(n_resamples, (block + 1) * _BLOCK)):
            draw_indices(base, b, n_units, index)
            for j in range(m):
                values = columns[j, b % n_redraws]
                total = 0.0
                count = 0
                for g in range(n_units):
                    unit = np.int64(index[g])
                    for i in range(offsets[unit], offsets[unit + 1]):
                        value = values[i]
                        if value == value:
                            total += value
                            count += 1
                out[b, j] = total / count if count > 0 else np.nan
    return out


@kernel(parallel=True)
def two_level_counts(
    codes: NDArray[np.int8],
    n_classes: int,
    offsets: Integers,
    base: np.uint64,
    n_resamples: int,
) -> Integers:
    """Return how often each class occurs in every resample.

    Parameters
    ----------
    codes : (R, n) int8, C-contiguous
        The redraws of the class of each row; a negative one is left out.
    n_classes : int
        No code reaches it.
    offsets, base, n_resamples
        As in :func:`two_level_means`.

    Returns
    -------
    (n_resamples, n_classes) int64
    """
    n_redraws = codes.shape[0]
    n_units = offsets.shape[0] - 1
    out = np.zeros((n_resamples, n_classes), dtype=np.int64)
    for block in numba.prange((n_resamples + _BLOCK - 1) // _BLOCK):
        index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
        # The first cell collects what is left out.
        counts = np.empty(n_classes + 1, dtype=np.int64)
        for b in range(block * _BLOCK, min(n_resamples, (block + 1) * _BLOCK)):
            draw_indices(base, b, n_units, index)
            classes = codes[b % n_redraws]
            counts[:] = 0
            for g in range(n_units):
                unit = np.int64(index[g])
                for i in range(offsets[unit], offsets[unit + 1]):
                    counts[max(np.int64(classes[i]), np.int64(-1)) + 1] += 1
            out[b] = counts[1:]
    return out


@kernel(parallel=True)
def two_level_quantiles(
    columns: Floats,
    offsets: Integers,
    probability: float,
    base: np.uint64,
    n_resamples: int,
) -> Floats:
    """Return a type-7 quantile of every column over the rows of every resample.

    Parameters
    ----------
    columns, offsets, base, n_resamples
        As in :func:`two_level_means`.
    probability : float
        In [0, 1].

    Returns
    -------
    (n_resamples, m) float64
        NaN where a resample has no value.
    """
    m, n_redraws, _ = columns.shape
    n_units = offsets.shape[0] - 1
    largest = 0
    for g in range(n_units):
        largest = max(largest, offsets[g + 1] - offsets[g])
    out = np.empty((n_resamples, m), dtype=np.float64)
    for block in numba.prange((n_resamples + _BLOCK - 1) // _BLOCK):
        index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
        drawn = np.empty(n_units * largest, dtype=np.float64)
        for b in range(block * _BLOCK, min(n_resamples, (block + 1) * _BLOCK)):
            draw_indices(base, b, n_units, index)
            for j in range(m):
                values = columns[j, b % n_redraws]
                count = 0
                for g in range(n_units):
                    unit = np.int64(index[g])
                    for i in range(offsets[unit], offsets[unit + 1]):
                        value = values[i]
                        if value == value:
                            drawn[count] = value
                            count += 1
                if count == 0:
                    out[b, j] = np.nan
                    continue
                place = probability * (count - 1)
                rank = int(place)
                low = select(drawn[:count], 0, rank)
                high = low
                if place > rank:
                    high = select(drawn[:count], rank, rank + 1)
                out[b, j] = low + (high - low) * (place - rank)
    return out
