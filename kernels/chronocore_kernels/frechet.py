"""Fréchet variances of distributions on a line, under the 2-Wasserstein distance.

On a line the distance is that of quantile functions in L2, and the Fréchet mean of distributions is
the one whose quantile function is the mean of theirs. Quantile functions are steps: one sweep over
all the cumulative shares of a group integrates exactly.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel

__all__ = ["frechet_variance"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Cumulative shares closer than this are the same share.
_SAME = 1e-12


@kernel(parallel=True)
def frechet_variance(
    values: Floats,
    starts: Integers,
    first: Integers,
    lengths: Integers,
    positions: Floats,
    position_starts: Integers,
    units: Integers,
    ddof: float,
) -> tuple[Floats, Integers]:
    """Return the variance of each group of distributions around its mean, and its unit count.

    Parameters
    ----------
    values : (M,) float64
        Probabilities of all rows, flat.
    starts : (N,) int64
        Where each row begins in ``values``; the rows of a group follow each other.
    first : (G + 1,) int64
        Where each group's rows begin.
    lengths : (G,) int64
        Number of options of each group.
    positions : float64
        Ascending positions of the options of all groups, flat.
    position_starts : (G,) int64
        Where each group's positions begin.
    units : (N,) int64
        Unit of each row, 0 to n - 1 within its group. Rows of one unit are averaged first (their
        Fréchet mean); the variance is that of the units. Give every row its own for plain variance.
    ddof : float
        Delta degrees of freedom. With no more units than that, or fewer than 2, it is NaN.
    """
    n_groups = first.shape[0] - 1
    variance = np.empty(n_groups, dtype=np.float64)
    counts = np.empty(n_groups, dtype=np.int64)
    for group in numba.prange(n_groups):
        low = first[group]
        n = first[group + 1] - low
        k = lengths[group]
        place = position_starts[group]
        n_units = 0
        for i in range(n):
            n_units = max(n_units, units[low + i] + 1)
        counts[group] = n_units
        if n_units < 2 or n_units <= ddof:
            variance[group] = np.nan
            continue
        cumulative = np.empty((n, k), dtype=np.float64)
        for i in range(n):
            total = 0.0
            for j in range(k):
                total += values[starts[low + i] + j]
                cumulative[i, j] = total
            cumulative[i, k - 1] = np.inf  # the last option takes what rounding left over
        at = np.zeros(n, dtype=np.int64)
        size = np.zeros(n_units, dtype=np.float64)
        for i in range(n):
            size[units[low + i]] += 1.0
            while cumulative[i, at[i]] <= _SAME:
                at[i] += 1
        sums = np.empty(n_units, dtype=np.float64)
        least = np.empty(n_units, dtype=np.float64)
        most = np.empty(n_units, dtype=np.float64)
        reached = 0.0
        total = 0.0
        while reached < 1.0 - _SAME:
            upto = 1.0
            for i in range(n):
                upto = min(upto, cumulative[i, at[i]])
            sums[:] = 0.0
            least[:] = np.inf
            most[:] = -np.inf
            for i in range(n):
                unit = units[low + i]
                x = positions[place + at[i]]
                sums[unit] += x
                least[unit] = min(least[unit], x)
                most[unit] = max(most[unit], x)
            center = 0.0
            lowest = np.inf
            highest = -np.inf
            for u in range(n_units):
                # Rounding must not push the mean of equal values off them.
                mean = min(max(sums[u] / size[u], least[u]), most[u])
                sums[u] = mean
                center += mean
                lowest = min(lowest, mean)
                highest = max(highest, mean)
            center = min(max(center / n_units, lowest), highest)
            squares = 0.0
            for u in range(n_units):
                squares += (sums[u] - center) * (sums[u] - center)
            total += (upto - reached) * squares
            reached = upto
            for i in range(n):
                while cumulative[i, at[i]] <= reached + _SAME:
                    at[i] += 1
        variance[group] = total / (n_units - ddof)
    return variance, counts
