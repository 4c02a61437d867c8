"""Distances and directions between distributions over ordered options.

All kernels take ragged rows the way Arrow stores list columns: ``offsets`` of length N + 1 into
flat ``values``. Row ``i`` of every argument has the same number of options K_i, counted by the
shared ``offsets``; ``starts_*`` say where row ``i`` begins in each flat buffer, so that one
buffer can serve many rows (a shared support, a broadcast prediction).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel

__all__ = ["check_distributions", "check_supports", "direction_cosine", "wasserstein"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel(parallel=True)
def check_distributions(
    values: Floats, starts: Integers, lengths: Integers, tolerance: float
) -> NDArray[np.int8]:
    """Return what is wrong with each row: 0 nothing, 1 not finite, 2 negative, 3 sum is not 1."""
    n = lengths.shape[0]
    faults = np.zeros(n, dtype=np.int8)
    for i in numba.prange(n):
        row = values[starts[i] : starts[i] + lengths[i]]
        total = 0.0
        fault = 0
        for j in range(row.shape[0]):
            x = row[j]
            if not np.isfinite(x):
                fault = 1
            elif x < 0.0 and fault == 0:
                fault = 2
            total += x
        if fault == 0 and not abs(total - 1.0) <= tolerance:
            fault = 3
        faults[i] = fault
    return faults


@kernel(parallel=True)
def check_supports(values: Floats, starts: Integers, lengths: Integers) -> NDArray[np.int8]:
    """Return what is wrong with each support: 0 nothing, 1 not finite, 2 not increasing."""
    n = lengths.shape[0]
    faults = np.zeros(n, dtype=np.int8)
    for i in numba.prange(n):
        row = values[starts[i] : starts[i] + lengths[i]]
        fault = 0
        for j in range(row.shape[0]):
            if not np.isfinite(row[j]):
                fault = 1
        if fault == 0:
            for j in range(1, row.shape[0]):
                if not row[j] > row[j - 1]:
                    fault = 2
        faults[i] = fault
    return faults


@kernel(parallel=True)
def wasserstein(
    p: Floats,
    starts_p: Integers,
    q: Floats,
    starts_q: Integers,
    support: Floats,
    starts_support: Integers,
    lengths: Integers,
) -> Floats:
    """Return the normalised Wasserstein-1 distance of each row, in [0, 1].

    An empty ``support`` means equally spaced options. Rows need K >= 2.
    """
    n = lengths.shape[0]
    out = np.empty(n, dtype=np.float64)
    equal = support.shape[0] == 0
    for i in numba.prange(n):
        k = lengths[i]
        row_p = p[starts_p[i] : starts_p[i] + k]
        row_q = q[starts_q[i] : starts_q[i] + k]
        # p and q are summed apart: their difference would cancel differently for W(q, p).
        cumulative_p = 0.0
        cumulative_q = 0.0
        distance = 0.0
        if equal:
            for j in range(k - 1):
                cumulative_p += row_p[j]
                cumulative_q += row_q[j]
                distance += abs(cumulative_p - cumulative_q)
            distance /= k - 1
        else:
            row_a = support[starts_support[i] : starts_support[i] + k]
            for j in range(k - 1):
                cumulative_p += row_p[j]
                cumulative_q += row_q[j]
                distance += abs(cumulative_p - cumulative_q) * (row_a[j + 1] - row_a[j])
            distance /= row_a[k - 1] - row_a[0]
        # Sums may miss 1 by the accepted tolerance; the distance stays within its bounds.
        out[i] = min(distance, 1.0)
    return out


@kernel(parallel=True)
def direction_cosine(
    gold_old: Floats,
    starts_gold_old: Integers,
    gold_new: Floats,
    starts_gold_new: Integers,
    prediction_old: Floats,
    starts_prediction_old: Integers,
    prediction_new: Floats,
    starts_prediction_new: Integers,
    lengths: Integers,
    tolerance: float,
) -> Floats:
    """Return the cosine of the cumulative changes of gold and prediction; NaN where undefined.

    The last cumulative share is 1 on both sides and carries rounding noise only, so the first
    K - 1 enter.
    """
    n = lengths.shape[0]
    out = np.empty(n, dtype=np.float64)
    for i in numba.prange(n):
        k = lengths[i]
        row_gold_old = gold_old[starts_gold_old[i] : starts_gold_old[i] + k]
        row_gold_new = gold_new[starts_gold_new[i] : starts_gold_new[i] + k]
        row_prediction_old = prediction_old[starts_prediction_old[i] : starts_prediction_old[i] + k]
        row_prediction_new = prediction_new[starts_prediction_new[i] : starts_prediction_new[i] + k]
        a = b = c = d = 0.0
        largest_gold = 0.0
        largest_prediction = 0.0
        for j in range(k - 1):
            a += row_gold_old[j]
            b += row_gold_new[j]
            c += row_prediction_old[j]
            d += row_prediction_new[j]
            largest_gold = max(largest_gold, abs(b - a))
            largest_prediction = max(largest_prediction, abs(d - c))
        if largest_gold <= tolerance or largest_prediction <= tolerance:
            out[i] = np.nan
            continue
        # Scaled by the largest entry, so that tiny changes do not underflow when squared.
        a = b = c = d = 0.0
        product = square_gold = square_prediction = 0.0
        for j in range(k - 1):
            a += row_gold_old[j]
            b += row_gold_new[j]
            c += row_prediction_old[j]
            d += row_prediction_new[j]
            gold = (b - a) / largest_gold
            prediction = (d - c) / largest_prediction
            product += gold * prediction
            square_gold += gold * gold
            square_prediction += prediction * prediction
        cosine = product / np.sqrt(square_gold * square_prediction)
        out[i] = min(1.0, max(-1.0, cosine))
    return out
