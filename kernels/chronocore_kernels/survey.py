"""Sampling variances of weighted shares and means in designs with strata and clusters.

Rows come in the order of group, stratum and primary sampling unit, so that each is a run. A share
or mean is a ratio of weighted sums; its variance is that of the totals of its linearised values
over primary sampling units, taken as drawn with replacement within strata.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel

__all__ = ["mean_variances", "share_variances"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bytes = NDArray[np.int8]


@inline
def _between_units(scores: Floats, strata: Integers, first: int, last: int, adjust: bool) -> float:
    """Sum the variances of unit totals over the strata ``first`` to ``last``."""
    total = 0.0
    offset = strata[first]
    for h in range(first, last):
        low = strata[h] - offset
        n = strata[h + 1] - strata[h]
        if n == 1:
            # The totals of all strata sum to zero, so that zero is the mean over strata.
            total += scores[low] * scores[low] if adjust else 0.0
            continue
        mean = 0.0
        for u in range(low, low + n):
            mean += scores[u]
        mean /= n
        squares = 0.0
        for u in range(low, low + n):
            squares += (scores[u] - mean) * (scores[u] - mean)
        total += squares * n / (n - 1.0)
    return total


@kernel(parallel=True)
def share_variances(
    columns: Bytes,
    bases: Integers,
    n_options: Integers,
    positions: Floats,
    groups: Integers,
    strata: Integers,
    units: Integers,
    weights: Floats,
    adjust: bool,
) -> tuple[Floats, Floats, Floats, Integers]:
    """Return the shares of each option in each group, and sampling variances.

    Parameters
    ----------
    columns : (V, n) int8
        Answers; those outside ``[base, base + K)`` are invalid and stay in the design.
    bases, n_options : (V,) int64
    positions : (V, K_max) float64
        Where each option lies on its scale.
    groups : (G + 1,) int64
        Where the strata of each group start.
    strata : (H + 1,) int64
        Where the units of each stratum start.
    units : (P + 1,) int64
        Where the rows of each unit start.
    weights : (n,) float64
        All positive.
    adjust : bool
        A stratum with one unit varies about the mean of all strata; else it does not vary.

    Returns
    -------
    shares, variances : (V, G, K_max) float64
        NaN in a group without a valid answer; one unit alone has no variance.
    mean_variances : (V, G) float64
        Of the mean position.
    n_valid : (V, G) int64
    """
    n_variables = columns.shape[0]
    n_groups = groups.shape[0] - 1
    widest = 0
    for j in range(n_variables):
        widest = max(widest, n_options[j])
    shares = np.full((n_variables, n_groups, widest), np.nan)
    variances = np.full((n_variables, n_groups, widest), np.nan)
    mean_variances = np.full((n_variables, n_groups), np.nan)
    n_valid = np.zeros((n_variables, n_groups), dtype=np.int64)
    for g in numba.prange(n_groups):
        first = groups[g]
        last = groups[g + 1]
        low = strata[first]
        high = strata[last]
        sums = np.zeros((high - low, widest))
        valid = np.zeros(high - low)
        scores = np.zeros(high - low)
        moved = np.zeros(high - low)
        totals = np.zeros(widest)
        for j in range(n_variables):
            x = columns[j]
            base = bases[j]
            k = n_options[j]
            sums[:] = 0.0
            totals[:] = 0.0
            moved[:] = 0.0
            weight = 0.0
            count = 0
            for u in range(low, high):
                own = 0.0
                for i in range(units[u], units[u + 1]):
                    option = np.int64(x[i]) - base
                    if 0 <= option < k:
                        sums[u - low, option] += weights[i]
                        own += weights[i]
                        count += 1
                valid[u - low] = own
                weight += own
                for option in range(k):
                    totals[option] += sums[u - low, option]
            n_valid[j, g] = count
            if count == 0:
                continue
            for option in range(k):
                share = totals[option] / weight
                shares[j, g, option] = share
                if high - low < 2:
                    continue
                for u in range(high - low):
                    scores[u] = (sums[u, option] - share * valid[u]) / weight
                    moved[u] += positions[j, option] * scores[u]
                variances[j, g, option] = _between_units(scores, strata, first, last, adjust)
            if high - low >= 2:
                mean_variances[j, g] = _between_units(moved, strata, first, last, adjust)
    return shares, variances, mean_variances, n_valid


@kernel()
def mean_variances(
    values: Floats,
    groups: Integers,
    strata: Integers,
    units: Integers,
    weights: Floats,
    adjust: bool,
) -> tuple[Floats, Floats, Integers]:
    """Return the weighted mean of each group and its sampling variance.

    Parameters
    ----------
    values : (n,) float64
        NaN where there is none; such rows stay in the design.
    groups, strata, units, weights, adjust
        As in :func:`share_variances`.

    Returns
    -------
    means, variances : (G,) float64
        One unit alone has no variance: NaN.
    n_valid : (G,) int64
    """
    n_groups = groups.shape[0] - 1
    means = np.full(n_groups, np.nan)
    variances = np.full(n_groups, np.nan)
    n_valid = np.zeros(n_groups, dtype=np.int64)
    for g in range(n_groups):
        first = groups[g]
        last = groups[g + 1]
        low = strata[first]
        high = strata[last]
        weight = 0.0
        total = 0.0
        count = 0
        for i in range(units[low], units[high]):
            if not np.isnan(values[i]):
                weight += weights[i]
                total += weights[i] * values[i]
                count += 1
        n_valid[g] = count
        if count == 0:
            continue
        mean = total / weight
        means[g] = mean
        if high - low < 2:
            continue
        scores = np.zeros(high - low)
        for u in range(low, high):
            for i in range(units[u], units[u + 1]):
                if not np.isnan(values[i]):
                    scores[u - low] += weights[i] * (values[i] - mean) / weight
        variances[g] = _between_units(scores, strata, first, last, adjust)
    return means, variances, n_valid
