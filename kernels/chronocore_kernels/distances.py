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

from chronocore_kernels.jit import inline, kernel

__all__ = [
    "check_distributions",
    "check_supports",
    "direction_cosine",
    "wasserstein",
    "wasserstein_rows",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@inline
def _fault(total: float, smallest: float, finite: bool, tolerance: float) -> int:
    if not finite:
        return 1
    if smallest < 0.0:
        return 2
    return 0 if abs(total - 1.0) <= tolerance else 3


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
        smallest = 0.0
        for j in range(row.shape[0]):
            total += row[j]
            smallest = min(smallest, row[j])
        # A NaN or an infinity anywhere makes the sum NaN or infinite.
        finite = np.isfinite(total)
        faults[i] = _fault(total, smallest, finite, tolerance)
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
        # Swapping p and q negates every step exactly: W is symmetric to the last bit.
        cumulative = 0.0
        distance = 0.0
        if equal:
            for j in range(k - 1):
                cumulative += row_p[j] - row_q[j]
                distance += abs(cumulative)
            distance /= k - 1
        else:
            row_a = support[starts_support[i] : starts_support[i] + k]
            for j in range(k - 1):
                cumulative += row_p[j] - row_q[j]
                distance += abs(cumulative) * (row_a[j + 1] - row_a[j])
            distance /= row_a[k - 1] - row_a[0]
        # Sums may miss 1 by the accepted tolerance; the distance stays within its bounds.
        out[i] = min(distance, 1.0)
    return out


@kernel(parallel=True)
def wasserstein_rows(
    p: Floats, q: Floats, gaps: Floats, span: float, tolerance: float
) -> tuple[Floats, NDArray[np.int8], NDArray[np.int8]]:
    """Check and compare rows of one K in a single pass over memory.

    Parameters
    ----------
    p, q : (n, K) float64, C-contiguous
    gaps : (K - 1,) float64
        Distances between neighbouring options.
    span : float
        Distance between the outer options.
    tolerance : float
        Accepted distance of a sum from 1.

    Returns
    -------
    distances : (n,) float64
    faults_p, faults_q : (n,) int8
        As in :func:`check_distributions`.
    """
    n, k = p.shape
    out = np.empty(n, dtype=np.float64)
    faults_p = np.zeros(n, dtype=np.int8)
    faults_q = np.zeros(n, dtype=np.int8)
    for i in numba.prange(n):
        row_p = p[i]
        row_q = q[i]
        cumulative = distance = total_p = total_q = smallest = 0.0
        for j in range(k - 1):
            a = row_p[j]
            b = row_q[j]
            total_p += a
            total_q += b
            smallest = min(smallest, min(a, b))
            cumulative += a - b
            distance += abs(cumulative) * gaps[j]
        a = row_p[k - 1]
        b = row_q[k - 1]
        total_p += a
        total_q += b
        smallest = min(smallest, min(a, b))
        if not (
            smallest >= 0.0 and abs(total_p - 1.0) <= tolerance and abs(total_q - 1.0) <= tolerance
        ):
            smallest_p = smallest_q = 0.0
            for j in range(k):
                smallest_p = min(smallest_p, row_p[j])
                smallest_q = min(smallest_q, row_q[j])
            faults_p[i] = _fault(total_p, smallest_p, np.isfinite(total_p), tolerance)
            faults_q[i] = _fault(total_q, smallest_q, np.isfinite(total_q), tolerance)
        out[i] = min(distance / span, 1.0)
    return out, faults_p, faults_q


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
