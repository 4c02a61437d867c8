"""Bootstrap replicates by resampling rows or clusters, and by the law of a rank.

Resample ``r`` of a stream owns the words ``[r * W, (r + 1) * W)``, W its number of words: the
resamples are the same on any number of threads and in blocks of any size. Statistics that are
computed with the same base and the same number of units share their resamples.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel
from chronocore_kernels.streams import GOLDEN, LOW, ONE, S32, exp, log, mix, unit

__all__ = [
    "alias_table",
    "count_quantiles",
    "counted_sum",
    "draw_indices",
    "gather_sum",
    "rank_draw",
    "rank_replicate",
    "rank_replicates",
    "resample_indices",
    "resample_quantiles",
    "resample_sums",
    "stream_words",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Resamples a thread takes at a time: their index buffer is made once.
_BLOCK = 32
_REJECT = np.uint64(0xD1B54A32D192ED03)
# A draw is rejected with a chance below one half, so 64 attempts always suffice.
_ATTEMPTS = np.uint64(64)
_WORDS_A_RANK = np.uint64(3)
_S11 = np.uint64(11)


@inline
def draw_indices(base: np.uint64, resample: int, n: int, out: NDArray[np.uint32]) -> None:
    """Fill ``out`` (an even number, n or n + 1) with exact uniform indices in [0, n).

    Lemire's multiplication: the upper and the lower half of a word give an index each. The rare
    rejected ones are drawn again from a stream of their own.
    """
    half = out.shape[0] // 2
    bound = np.uint64(n)
    threshold = (LOW - bound + ONE) % bound
    start = base + np.uint64(resample) * np.uint64(half) * GOLDEN
    first = out[:half]
    second = out[half:]
    rejected = np.uint64(0)
    for i in range(half):
        word = mix(start + np.uint64(i + 1) * GOLDEN)
        a = (word & LOW) * bound
        b = (word >> S32) * bound
        first[i] = np.uint32(a >> S32)
        second[i] = np.uint32(b >> S32)
        rejected |= np.uint64((a & LOW) < threshold) | np.uint64((b & LOW) < threshold)
    if rejected != np.uint64(0):
        _draw_again(start, n, out)


@inline
def _draw_again(start: np.uint64, n: int, out: NDArray[np.uint32]) -> None:
    half = out.shape[0] // 2
    bound = np.uint64(n)
    threshold = (LOW - bound + ONE) % bound
    key = mix(start ^ _REJECT)
    for i in range(out.shape[0]):
        place = i if i < half else i - half
        word = mix(start + np.uint64(place + 1) * GOLDEN)
        product = (word & LOW) * bound if i < half else (word >> S32) * bound
        attempt = np.uint64(0)
        while (product & LOW) < threshold:
            attempt += ONE
            product = (mix(key + (np.uint64(i) * _ATTEMPTS + attempt) * GOLDEN) >> S32) * bound
        out[i] = np.uint32(product >> S32)


@inline
def gather_sum(values: Floats, index: NDArray[np.uint32]) -> float:
    """Sum the drawn values in eight fixed accumulators: the same bits everywhere."""
    a = b = c = d = e = f = g = h = 0.0
    eights = index.shape[0] // 8
    for i in range(eights):
        q = index[8 * i : 8 * i + 8]
        a += values[np.uint64(q[0])]
        b += values[np.uint64(q[1])]
        c += values[np.uint64(q[2])]
        d += values[np.uint64(q[3])]
        e += values[np.uint64(q[4])]
        f += values[np.uint64(q[5])]
        g += values[np.uint64(q[6])]
        h += values[np.uint64(q[7])]
    for i in range(8 * eights, index.shape[0]):
        a += values[np.uint64(index[i])]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@inline(fastmath=frozenset({"reassoc", "nsz"}))
def counted_sum(values: Floats, counts: NDArray[np.int32]) -> float:
    """Sum values times counts; reordered to vectorise, the same on any number of threads."""
    total = 0.0
    for i in range(counts.shape[0]):
        total += values[i] * counts[i]
    return total


@kernel()
def stream_words(base: np.uint64, n: int) -> NDArray[np.uint64]:
    """Return the first ``n`` words of a stream (for known-answer tests)."""
    out = np.empty(n, dtype=np.uint64)
    for i in range(n):
        out[i] = mix(base + np.uint64(i + 1) * GOLDEN)
    return out


@kernel()
def resample_indices(n: int, base: np.uint64, resample: int) -> NDArray[np.uint32]:
    """Return the rows of one resample (for tests)."""
    out = np.empty(n + (n & 1), dtype=np.uint32)
    draw_indices(base, resample, n, out)
    return out[:n]


@kernel(parallel=True)
def resample_sums(columns: Floats, base: np.uint64, n_resamples: int) -> Floats:
    """Return the sum of every column over the rows of every resample.

    Parameters
    ----------
    columns : (m, n) float64, C-contiguous
    base : uint64
    n_resamples : int

    Returns
    -------
    (n_resamples, m) float64
    """
    m, n = columns.shape
    out = np.empty((n_resamples, m), dtype=np.float64)
    blocks = (n_resamples + _BLOCK - 1) // _BLOCK
    for block in numba.prange(blocks):
        index = np.empty(n + (n & 1), dtype=np.uint32)
        counts = np.empty(n if m > 1 else 0, dtype=np.int32)
        for r in range(block * _BLOCK, min(n_resamples, (block + 1) * _BLOCK)):
            draw_indices(base, r, n, index)
            drawn = index[:n]
            if m == 1:
                out[r, 0] = gather_sum(columns[0], drawn)
            else:
                counts[:] = 0
                for i in range(n):
                    counts[np.uint64(drawn[i])] += np.int32(1)
                for j in range(m):
                    out[r, j] = counted_sum(columns[j], counts)
    return out


@kernel(parallel=True)
def resample_quantiles(
    ascending: Floats,
    units: Integers,
    n_units: int,
    probabilities: Floats,
    base: np.uint64,
    n_resamples: int,
) -> Floats:
    """Return type-7 quantiles of every resample, shape (n_resamples, p).

    Parameters
    ----------
    ascending : (n,) float64
        The values in ascending order.
    units : (n,) int64
        The resampled unit (row or cluster) each of them belongs to.
    n_units : int
    probabilities : (p,) float64, ascending
    base : uint64
    n_resamples : int
    """
    n = ascending.shape[0]
    out = np.empty((n_resamples, probabilities.shape[0]), dtype=np.float64)
    blocks = (n_resamples + _BLOCK - 1) // _BLOCK
    for block in numba.prange(blocks):
        index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
        counts = np.empty(n_units, dtype=np.int64)
        for r in range(block * _BLOCK, min(n_resamples, (block + 1) * _BLOCK)):
            draw_indices(base, r, n_units, index)
            counts[:] = 0
            for i in range(n_units):
                counts[np.uint64(index[i])] += 1
            total = 0
            for i in range(n):
                total += counts[units[i]]
            if total == 0:
                # Only units without a value were drawn.
                out[r, :] = np.nan
                continue
            i = -1
            seen = 0
            for j in range(probabilities.shape[0]):
                place = probabilities[j] * (total - 1)
                lower_rank = int(place)
                fraction = place - lower_rank
                while seen <= lower_rank:
                    i += 1
                    seen += counts[units[i]]
                lower = ascending[i]
                upper = lower
                if fraction > 0.0:
                    above = i
                    reached = seen
                    while reached <= lower_rank + 1:
                        above += 1
                        reached += counts[units[above]]
                    upper = ascending[above]
                out[r, j] = lower + (upper - lower) * fraction
    return out


@kernel()
def alias_table(weights: Floats) -> tuple[Floats, Integers]:
    """Return thresholds and aliases (Vose) to draw a cell by its weight in one step."""
    n = weights.shape[0]
    total = 0.0
    for i in range(n):
        total += weights[i]
    threshold = np.empty(n, dtype=np.float64)
    alias = np.empty(n, dtype=np.int64)
    small = np.empty(n, dtype=np.int64)
    large = np.empty(n, dtype=np.int64)
    n_small = 0
    n_large = 0
    for i in range(n):
        threshold[i] = weights[i] / total * n
        alias[i] = i
        if threshold[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        poor = small[n_small]
        rich = large[n_large - 1]
        alias[poor] = rich
        threshold[rich] -= 1.0 - threshold[poor]
        if threshold[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1
    # What is left is 1 but for rounding.
    for i in range(n_small):
        threshold[small[i]] = 1.0
    for i in range(n_large):
        threshold[large[i]] = 1.0
    return threshold, alias


@inline
def rank_draw(
    n: int,
    rank: int,
    fraction: float,
    first: int,
    threshold: Floats,
    alias: Integers,
    moves: Floats,
    base: np.uint64,
    resample: int,
) -> tuple[int, int]:
    """Return which two of n ascending values, counted from 1, a replicate lies between.

    Without a ``fraction`` the second is the first. See :func:`rank_replicates`.
    """
    cells = np.uint64(threshold.shape[0])
    counter = base + np.uint64(resample) * _WORDS_A_RANK * GOLDEN
    word = mix(counter + GOLDEN)
    # The product of the upper half gives the cell, what is left over the coin.
    product = (word >> S32) * cells
    cell = np.int64(product >> S32)
    rest = ((product & LOW) << S32) | (word & LOW)
    coin = np.float64(rest >> _S11) * 2.0**-53
    if coin >= threshold[cell]:
        cell = alias[cell]
    a = int(first + cell)
    b = a
    if fraction > 0.0 and unit(mix(counter + GOLDEN + GOLDEN)) < moves[cell]:
        t = -log(unit(mix(counter + GOLDEN + GOLDEN + GOLDEN))) * (1.0 / max(n - rank, 1))
        smallest = 1.0 - exp(-t)
        if t < 0.01:
            smallest = t * (1.0 - t * (0.5 - t * (1 / 6 - t * (1 / 24 - t * (1 / 120)))))
        b = min(a + 1 + int((n - a) * smallest), n)
    return a, b


@inline
def rank_replicate(
    ascending: Floats,
    rank: int,
    fraction: float,
    first: int,
    threshold: Floats,
    alias: Integers,
    moves: Floats,
    base: np.uint64,
    resample: int,
) -> float:
    """Return one replicate of a quantile; see :func:`rank_replicates`."""
    a, b = rank_draw(
        ascending.shape[0], rank, fraction, first, threshold, alias, moves, base, resample
    )
    value = ascending[a - 1]
    if fraction > 0.0:
        value += (ascending[b - 1] - value) * fraction
    return float(value)


@kernel(parallel=True)
def rank_replicates(
    ascending: Floats,
    rank: int,
    fraction: float,
    first: int,
    threshold: Floats,
    alias: Integers,
    moves: Floats,
    base: np.uint64,
    n_resamples: int,
) -> Floats:
    """Return replicates of a quantile drawn from the law of its ranks.

    The ``rank``-th smallest of a resample is the a-th smallest value of the sample; ``threshold``
    and ``alias`` draw a, from ``first`` on. With a ``fraction``, the next one is a as well, or,
    with chance ``moves``, the smallest of the n - rank values that were drawn above a.

    Parameters
    ----------
    ascending : (n,) float64
    rank : int
        1 <= rank <= n; below n if ``fraction`` > 0.
    fraction : float
        Weight of the next order statistic.
    first : int
        Smallest rank the table knows.
    threshold, alias, moves : (s,)
    base : uint64
    n_resamples : int
    """
    out = np.empty(n_resamples, dtype=np.float64)
    for r in numba.prange(n_resamples):
        out[r] = rank_replicate(ascending, rank, fraction, first, threshold, alias, moves, base, r)
    return out


@kernel(parallel=True)
def count_quantiles(
    counts: NDArray[np.int32], largest: int, probabilities: Floats
) -> tuple[Floats, Floats]:
    """Return type-7 quantiles, and mean and standard deviation, of each row of counts.

    Counting needs no sorting: the cost is one pass over the replicates.

    Parameters
    ----------
    counts : (c, n_resamples) int32
    largest : int
        No count exceeds it.
    probabilities : (p,) float64, ascending

    Returns
    -------
    quantiles : (c, p) float64
    deviations : (c,) float64
        Standard deviation with ddof = 1.
    """
    c, b = counts.shape
    quantiles = np.empty((c, probabilities.shape[0]), dtype=np.float64)
    deviations = np.empty(c, dtype=np.float64)
    for k in numba.prange(c):
        histogram = np.zeros(largest + 2, dtype=np.int64)
        row = counts[k]
        for i in range(b):
            histogram[np.uint64(row[i])] += 1
        total = 0.0
        for value in range(largest + 1):
            total += np.float64(value) * histogram[value]
        mean = total / b
        square = 0.0
        for value in range(largest + 1):
            square += (value - mean) * (value - mean) * histogram[value]
        deviations[k] = np.sqrt(square / (b - 1)) if b > 1 else np.nan
        value = -1
        seen = 0
        for j in range(probabilities.shape[0]):
            place = probabilities[j] * (b - 1)
            lower_rank = int(place)
            fraction = place - lower_rank
            while seen <= lower_rank:
                value += 1
                seen += histogram[value]
            above = value
            reached = seen
            if fraction > 0.0:
                while reached <= lower_rank + 1:
                    above += 1
                    reached += histogram[above]
            quantiles[k, j] = value + (above - value) * fraction
    return quantiles, deviations
