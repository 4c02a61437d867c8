"""Bootstrap resampling on a counter-based random stream.

The generator is splitmix64 in counter form: draw ``c`` of a stream with base ``b`` is
``mix(b + (c + 1) * GOLDEN)``. Resample ``r`` owns the draws ``[r * stride, (r + 1) * stride)``,
whatever thread computes it, so a seed gives the same resamples on any number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel

__all__ = ["resample_counts", "resample_means", "resample_quantiles", "stream_words"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
# Index draws a resample may use: one each plus rejected ones. A rejection has a chance below
# n / 2**32, so twice n (and never fewer than 64) leaves no real stream short.
_MINIMUM_STRIDE = np.uint64(64)
_TWO = np.uint64(2)


@inline
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@inline
def _stride(n: int) -> np.uint64:
    return max(_MINIMUM_STRIDE, _TWO * np.uint64(n))


@inline
def _draw_indices(base: np.uint64, resample: int, n: int, out: NDArray[np.int64]) -> None:
    """Fill ``out`` with indices in [0, n): Lemire's multiplication with rejection, exact."""
    bound = np.uint64(n)
    counter = np.uint64(resample) * _stride(n)
    threshold = (_LOW - bound + _ONE) % bound
    for i in range(out.shape[0]):
        while True:
            counter += _ONE
            product = (_mix(base + counter * _GOLDEN) >> _S32) * bound
            if (product & _LOW) >= threshold:
                break
        out[i] = np.int64(product >> _S32)


@kernel()
def stream_words(base: np.uint64, n: int) -> NDArray[np.uint64]:
    """Return the first ``n`` words of a stream (for known-answer tests)."""
    out = np.empty(n, dtype=np.uint64)
    counter = np.uint64(0)
    for i in range(n):
        counter += _ONE
        out[i] = _mix(base + counter * _GOLDEN)
    return out


@kernel(parallel=True)
def resample_means(
    values: NDArray[np.float64], base: np.uint64, n_resamples: int
) -> NDArray[np.float64]:
    """Return the mean of each bootstrap resample of ``values``, shape (B,)."""
    n = values.shape[0]
    out = np.empty(n_resamples, dtype=np.float64)
    for r in numba.prange(n_resamples):
        index = np.empty(n, dtype=np.int64)
        _draw_indices(base, r, n, index)
        total = 0.0
        for i in range(n):
            total += values[index[i]]
        out[r] = total / n
    return out


@kernel(parallel=True)
def resample_counts(
    positions: NDArray[np.int64], n_classes: int, base: np.uint64, n_resamples: int
) -> NDArray[np.int64]:
    """Return how often each class occurs in each resample, shape (B, n_classes)."""
    n = positions.shape[0]
    out = np.zeros((n_resamples, n_classes), dtype=np.int64)
    for r in numba.prange(n_resamples):
        index = np.empty(n, dtype=np.int64)
        _draw_indices(base, r, n, index)
        for i in range(n):
            out[r, positions[index[i]]] += 1
    return out


@kernel(parallel=True)
def resample_quantiles(
    ascending: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    base: np.uint64,
    n_resamples: int,
) -> NDArray[np.float64]:
    """Return type-7 quantiles of each resample of sorted values, shape (B, n_probabilities)."""
    n = ascending.shape[0]
    out = np.empty((n_resamples, probabilities.shape[0]), dtype=np.float64)
    for r in numba.prange(n_resamples):
        index = np.empty(n, dtype=np.int64)
        _draw_indices(base, r, n, index)
        counts = np.zeros(n, dtype=np.int64)
        for i in range(n):
            counts[index[i]] += 1
        for j in range(probabilities.shape[0]):
            place = probabilities[j] * (n - 1)
            lower_rank = int(place)
            fraction = place - lower_rank
            seen = 0
            i = -1
            while seen <= lower_rank:
                i += 1
                seen += int(counts[i])
            lower = ascending[i]
            upper = lower
            if fraction > 0.0:
                while seen <= lower_rank + 1:
                    i += 1
                    seen += int(counts[i])
                upper = ascending[i]
            out[r, j] = lower + (upper - lower) * fraction
    return out
