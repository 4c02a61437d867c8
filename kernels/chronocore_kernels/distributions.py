"""Weighted response distributions of many groups in one pass."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel

__all__ = ["weighted_counts"]


@kernel(parallel=True)
def weighted_counts(
    positions: NDArray[np.int64],
    groups: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_groups: int,
    n_options: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Sum weights by group and option.

    Parameters
    ----------
    positions : (n,) int64
        Position of each respondent's answer among the options; negative means invalid.
    groups : (n,) int64
        Group of each respondent, 0 <= group < ``n_groups``; negative means none.
    weights : (n,) float64, or empty
        Empty means unweighted. Only finite weights > 0 count.

    Returns
    -------
    sums : (n_groups, n_options) float64
        Weight of the respondents choosing each option.
    n_valid : (n_groups,) int64
        Respondents with a valid answer and a usable weight.
    squares : (n_groups,) float64
        Sum of their squared weights.
    n_dropped : (n_groups,) int64
        Respondents with a valid answer and no usable weight.
    """
    n = positions.shape[0]
    weighted = weights.shape[0] > 0
    # Counting sort by group: each group's rows keep their order, so its floating sums are the
    # same for any number of threads, one thread owning a group.
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for i in range(n):
        if groups[i] >= 0 and positions[i] >= 0:
            starts[groups[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(starts[n_groups], dtype=np.int64)
    filled = starts[:-1].copy()
    for i in range(n):
        g = groups[i]
        if g >= 0 and positions[i] >= 0:
            order[filled[g]] = i
            filled[g] += 1
    sums = np.zeros((n_groups, n_options), dtype=np.float64)
    n_valid = np.zeros(n_groups, dtype=np.int64)
    squares = np.zeros(n_groups, dtype=np.float64)
    n_dropped = np.zeros(n_groups, dtype=np.int64)
    for g in numba.prange(n_groups):
        rows = order[starts[g] : starts[g + 1]]
        valid = 0
        dropped = 0
        square = 0.0
        for r in range(rows.shape[0]):
            i = rows[r]
            w = weights[i] if weighted else 1.0
            if np.isfinite(w) and w > 0.0:
                valid += 1
                square += w * w
                sums[g, positions[i]] += w
            else:
                dropped += 1
        n_valid[g] = valid
        squares[g] = square
        n_dropped[g] = dropped
    return sums, n_valid, squares, n_dropped
