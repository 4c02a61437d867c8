"""Exact multinomial samples on a counter-based random stream.

A multinomial sample is a chain of conditional binomials. Blocks of samples are drawn side by
side, one lane a sample, class after class: by transformed rejection (BTRS) where a lane expects
at least ten, by inversion of the distribution function elsewhere. The work does not grow with
the size of the samples.

The generator is splitmix64 in counter form: word ``c`` of a stream with base ``b`` is
``mix(b + (c + 1) * GOLDEN)``. Sample ``s`` owns the words from ``s * SAMPLE_STRIDE`` on, its
class ``j`` those from ``j * CLASS_STRIDE`` on within them, each attempt two. A lane sees nothing
else, and every step is an IEEE operation that rounds correctly (no library logarithm, no
contraction, no reordering): counts are the same bits for any number of threads, size of blocks
and instruction set, compiled or not.

References
----------
W. Hörmann, "The generation of binomial random variates", Journal of Statistical Computation
and Simulation 46 (1993), 101-110.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel
from chronocore_kernels.selection import select
from chronocore_kernels.streams import GOLDEN, exp, log, mix, unit

__all__ = [
    "LANES",
    "MAXIMUM_CLASSES",
    "MAXIMUM_SAMPLES",
    "draw_resamples",
    "log_factorials",
    "multinomial_counts",
    "noise_floor",
    "redrawn_shares",
    "sampling_noise",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
# Work space of a block
Scratch = tuple[Floats, Floats, Floats, Floats, Floats, Words, Words, Words, Words, Integers]

#: Samples drawn side by side: enough to make light of the passes over the last few rejected
#: lanes, few enough for a dozen arrays of this length to stay in the second-level cache.
LANES = 1024


# Two words for each of 64 attempts; no lane ever needs more (each fails with chance < 0.3).
# Odd strides, so that all bits of the counter differ between neighbours.
_CLASS_STRIDE = 131
_SAMPLE_STRIDE = 2**31 + 11
#: Bounds within which no two draws share a word.
MAXIMUM_CLASSES = 2**31 // _CLASS_STRIDE
MAXIMUM_SAMPLES = 2**64 // _SAMPLE_STRIDE
_GOLDEN_TWICE = np.uint64(2 * int(GOLDEN) % 2**64)
_CLASS_STEP = np.uint64(_CLASS_STRIDE * int(GOLDEN) % 2**64)
_SAMPLE_STEP = np.uint64(_SAMPLE_STRIDE * int(GOLDEN) % 2**64)

# Longest vector of float64 that a processor works on at once.
_VECTOR = 8

# Samples below this size look their log-factorials up, larger ones use Stirling's series.
_TABULATED = 2**14
_HALF_LOG_2PI = float.fromhex("0x1.d67f1c864beb5p-1")
# Inversion below this many expected, where rejection is not proven to work.
_SWITCH = 10.0
# A probability that 52 random bits cannot tell from none.
_NEGLIGIBLE = 2.0**-60
# Cells of a histogram of distances for each distance, beyond which selection is faster.
_CELLS = 8


@inline
def _log_complement(p: float, q: float) -> float:
    """Return log(1 - p) for 0 <= p <= 1/2, relatively accurate; q is 1 - p rounded."""
    return log(q) + ((1.0 - q) - p) / q


@inline
def _rising(j: float) -> float:
    """Return (j + 1) (j + 2) ... (j + 7), so that j! = Gamma(j + 8) / _rising(j)."""
    centre = j + 4.0
    square = centre * centre
    return (square - 9.0) * (square - 4.0) * (square - 1.0) * centre


@inline
def _stirling(inverse: float) -> float:
    """Return what Stirling's formula lacks of log Gamma(z) at z = 1 / inverse >= 8, to 2e-14."""
    t = inverse * inverse
    series = 1 / 1188 - t * (691 / 360360)
    series = 1 / 1260 - t * (1 / 1680 - t * series)
    return inverse * (1 / 12 - t * (1 / 360 - t * series))


@inline
def _propose(
    left: Floats,
    keys: Words,
    p: float,
    q: float,
    drawn: Floats,
    doubtful: Integers,
) -> None:
    """Draw a candidate a lane and accept those inside the region that needs no logarithm."""
    for i in range(left.shape[0]):
        n = left[i]
        counter = keys[i]
        u = unit(mix(counter + GOLDEN)) - 0.5
        v = unit(mix(counter + _GOLDEN_TWICE))
        deviation = np.sqrt(n * (p * q))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        us = 0.5 - abs(u)
        drawn[i] = np.floor((2.0 * a / us + b) * u + (n * p + 0.5))
        doubtful[i] = np.int64((us < 0.07) | ((0.92 - v) * b < 4.2))


@inline
def _decide_by_table(
    left: Floats,
    keys: Words,
    count: int,
    attempt: np.uint64,
    p: float,
    q: float,
    table: Floats,
    drawn: Floats,
    bound: Floats,
    rejected: Integers,
) -> None:
    """Draw the candidates again and test them exactly, with tabulated log-factorials."""
    log_odds = log(p / q)
    for i in range(count):
        n = left[i]
        counter = keys[i] + attempt
        u = unit(mix(counter + GOLDEN)) - 0.5
        v = unit(mix(counter + _GOLDEN_TWICE))
        deviation = np.sqrt(n * (p * q))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + (n * p + 0.5))
        inside = (k >= 0.0) & (k <= n)
        k = k if k > 0.0 else 0.0
        k = k if k < n else n
        mode = np.floor((n + 1.0) * p)
        squared = us * us
        hat = v * (2.83 * b + 5.1) * deviation * squared / ((a + b * squared) * b)
        test = log(hat) - (k - mode) * log_odds
        drawn[i] = k
        bound[i] = test if inside else np.inf
    # Apart, because a loop with look-ups would not be vectorised
    for i in range(count):
        n = left[i]
        k = drawn[i]
        mode = np.floor((n + 1.0) * p)
        ratio = (table[np.uint64(np.int64(mode))] + table[np.uint64(np.int64(n - mode))]) - (
            table[np.uint64(np.int64(k))] + table[np.uint64(np.int64(n - k))]
        )
        rejected[i] = np.int64(bound[i] > ratio)


@inline
def _decide_by_series(
    left: Floats,
    keys: Words,
    count: int,
    attempt: np.uint64,
    p: float,
    q: float,
    drawn: Floats,
    rejected: Integers,
) -> None:
    """Draw the candidates again and test them exactly, with Stirling's series."""
    inverse_odds = q / p
    for i in range(count):
        n = left[i]
        counter = keys[i] + attempt
        u = unit(mix(counter + GOLDEN)) - 0.5
        v = unit(mix(counter + _GOLDEN_TWICE))
        deviation = np.sqrt(n * (p * q))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + (n * p + 0.5))
        inside = (k >= 0.0) & (k <= n)
        k = k if k > 0.0 else 0.0
        k = k if k < n else n
        mode = np.floor((n + 1.0) * p)
        # The four factorials as Gamma functions of arguments >= 8. Their logarithms are paired
        # so that only ratios near 1 meet large factors.
        z_mode = mode + 8.0
        z_rest = (n - mode) + 8.0
        z_k = k + 8.0
        inverse_mode = 1.0 / z_mode
        inverse_rest = 1.0 / z_rest
        inverse_k = 1.0 / z_k
        inverse_other = 1.0 / ((n - k) + 8.0)
        ratio = (
            (z_mode - 0.5) * log(z_mode * inverse_rest * inverse_odds)
            + (n + 15.0) * log(z_rest * inverse_other)
            - (z_k - 0.5) * log(z_k * inverse_other * inverse_odds)
            + (_stirling(inverse_mode) - _stirling(inverse_k))
            + (_stirling(inverse_rest) - _stirling(inverse_other))
        )
        squared = us * us
        hat = (v * (2.83 * b + 5.1) * deviation * squared * (_rising(mode) * _rising(n - mode))) / (
            (a + b * squared) * b * (_rising(k) * _rising(n - k))
        )
        drawn[i] = k
        rejected[i] = np.int64(not (inside & (log(hat) <= ratio)))


@inline
def _reject(
    left: Floats,
    keys: Words,
    p: float,
    q: float,
    table: Floats,
    drawn: Floats,
    scratch: Scratch,
) -> None:
    """Draw Binomial(left, p) a lane by transformed rejection; left * p >= 10, p <= 1/2."""
    pending_left, pending_drawn, bound, _, _, pending_keys, _, lanes, _, flags = scratch
    _propose(left, keys, p, q, drawn, flags)
    pending = 0
    for i in range(left.shape[0]):
        lanes[pending] = np.uint64(i)
        pending += flags[i]
    for i in range(pending):
        pending_left[i] = left[lanes[i]]
        pending_keys[i] = keys[lanes[i]]
    attempt = np.uint64(0)
    while pending > 0:
        # Whole vectors only: the rest of one would be computed lane by lane
        width = (pending + _VECTOR - 1) // _VECTOR * _VECTOR
        for i in range(pending, width):
            pending_left[i] = pending_left[0]
            pending_keys[i] = pending_keys[0]
        if table.shape[0] > 0:
            _decide_by_table(
                pending_left, pending_keys, width, attempt, p, q, table, pending_drawn, bound, flags
            )
        else:
            _decide_by_series(
                pending_left, pending_keys, width, attempt, p, q, pending_drawn, flags
            )
        kept = 0
        for i in range(pending):
            lane = lanes[i]
            drawn[lane] = pending_drawn[i]
            lanes[kept] = lane
            pending_left[kept] = pending_left[i]
            pending_keys[kept] = pending_keys[i]
            kept += flags[i]
        pending = kept
        attempt += _GOLDEN_TWICE


@inline
def _invert(
    left: Floats,
    keys: Words,
    p: float,
    q: float,
    drawn: Floats,
    rest: Floats,
    term: Floats,
) -> None:
    """Draw Binomial(left, p) a lane by summing probabilities up to a uniform; left * p < 10."""
    n = left.shape[0]
    log_q = _log_complement(p, q)
    for i in range(n):
        probability = exp(left[i] * log_q)
        term[i] = probability
        rest[i] = unit(mix(keys[i] + GOLDEN)) - probability
        drawn[i] = 0.0
    odds = p / q
    step = 0.0
    active = np.int64(1)
    while active > 0:
        active = np.int64(0)
        odds_1 = odds / (step + 1.0)
        odds_2 = odds / (step + 2.0)
        odds_3 = odds / (step + 3.0)
        odds_4 = odds / (step + 4.0)
        for i in range(n):
            t = term[i]
            r = rest[i]
            k = drawn[i]
            m = left[i] - step
            # Past the largest count the terms are zero, and none is counted.
            t *= m * odds_1
            k += np.float64((r > 0.0) & (t > _NEGLIGIBLE))
            r -= t
            t *= (m - 1.0) * odds_2
            k += np.float64((r > 0.0) & (t > _NEGLIGIBLE))
            r -= t
            t *= (m - 2.0) * odds_3
            k += np.float64((r > 0.0) & (t > _NEGLIGIBLE))
            r -= t
            t *= (m - 3.0) * odds_4
            more = (r > 0.0) & (t > _NEGLIGIBLE)
            k += np.float64(more)
            r -= t
            term[i] = t
            rest[i] = r
            drawn[i] = k
            active += np.int64(more)
        step += 4.0


@inline
def _binomials(
    left: Floats,
    keys: Words,
    p: float,
    q: float,
    table: Floats,
    drawn: Floats,
    scratch: Scratch,
) -> None:
    """Draw Binomial(left, p) a lane; q = 1 - p, each exact where the other is tiny.

    ``table`` holds the logarithms of the factorials that the lanes need, or nothing.
    """
    work_1, work_2, _, some_left, some_drawn, _, some_keys, _, order, _ = scratch
    n = left.shape[0]
    small = min(p, q)
    large = max(p, q)
    few = np.int64(0)
    for i in range(n):
        few += np.int64(left[i] * small < _SWITCH)
    sorted_left = left
    sorted_keys = keys
    sorted_drawn = drawn
    mixed = 0 < few < n
    if mixed:
        # Both kinds in one block: those for inversion to the left, the others to the right
        sorted_left = some_left
        sorted_keys = some_keys
        sorted_drawn = some_drawn
        low = np.int64(0)
        high = few
        for i in range(n):
            if left[i] * small < _SWITCH:
                place = low
                low += 1
            else:
                place = high
                high += 1
            order[place] = np.uint64(i)
            sorted_left[place] = left[i]
            sorted_keys[place] = keys[i]
    if small <= 0.0:
        for i in range(n):
            drawn[i] = 0.0
    elif few > 0:
        _invert(
            sorted_left[:few],
            sorted_keys[:few],
            small,
            large,
            sorted_drawn[:few],
            work_1,
            work_2,
        )
    if few < n:
        _reject(
            sorted_left[few:n],
            sorted_keys[few:n],
            small,
            large,
            table,
            sorted_drawn[few:n],
            scratch,
        )
    if mixed:
        for i in range(n):
            drawn[order[i]] = sorted_drawn[i]
    if p > q:
        for i in range(n):
            drawn[i] = left[i] - drawn[i]


@inline
def _scratch(n: int) -> Scratch:
    width = n + _VECTOR
    floats = np.empty((5, width), dtype=np.float64)
    words = np.empty((4, width), dtype=np.uint64)
    flags = np.empty(width, dtype=np.int64)
    return (
        floats[0],
        floats[1],
        floats[2],
        floats[3],
        floats[4],
        words[0],
        words[1],
        words[2],
        words[3],
        flags,
    )


@kernel()
def _log_factorials(n: int) -> Floats:
    """Return log(0!), ..., log((n - 1)!)."""
    out = np.empty(n, dtype=np.float64)
    for k in range(n):
        j = np.float64(k)
        z = j + 8.0
        out[k] = (z - 0.5) * log(z) - z + _HALF_LOG_2PI + _stirling(1.0 / z) - log(_rising(j))
    return out


@inline
def draw_resamples(
    shares: Floats,
    size: int,
    base: np.uint64,
    first: int,
    step: int,
    table: Floats,
    out: NDArray[np.int32],
) -> None:
    """Fill the columns of ``out`` with resamples ``first``, ``first + step`` and so on."""
    n = out.shape[1]
    left = np.empty(n, dtype=np.float64)
    keys = np.empty(n, dtype=np.uint64)
    drawn = np.empty(n, dtype=np.float64)
    scratch = _scratch(n)
    for i in range(n):
        left[i] = np.float64(size)
        keys[i] = base + np.uint64(first + i * step) * _SAMPLE_STEP
    for j in range(out.shape[0]):
        row = out[j]
        _binomials(left, keys, shares[0, j], shares[1, j], table, drawn, scratch)
        for i in range(n):
            row[i] = np.int32(drawn[i])
        for i in range(n):
            left[i] -= drawn[i]
            keys[i] += _CLASS_STEP


@kernel(parallel=True)
def _multinomial_counts(
    shares: Floats,
    size: int,
    base: np.uint64,
    width: int,
    table: Floats,
    out: NDArray[np.int32],
) -> None:
    n_resamples = out.shape[1]
    for block in numba.prange((n_resamples + width - 1) // width):
        first = block * width
        last = min(first + width, n_resamples)
        draw_resamples(shares, size, base, first, 1, table, out[:, first:last])


@inline
def _quantiles(
    values: Floats, whole: bool, unit: float, probabilities: Floats, out: Floats
) -> None:
    """Divide values by the unit; write their type-7 quantiles at ascending probabilities.

    ``whole`` says that the values are integers, so that they can be counted.
    """
    n = values.shape[0]
    least = values[0]
    greatest = values[0]
    for i in range(n):
        least = min(least, values[i])
        greatest = max(greatest, values[i])
    if whole and greatest - least < _CELLS * n:
        cells = np.zeros(int(greatest - least) + 1, dtype=np.int64)
        for i in range(n):
            cells[int(values[i] - least)] += 1
        cell = 0
        seen = cells[0]
        for j in range(probabilities.shape[0]):
            place = probabilities[j] * (n - 1)
            rank = int(place)
            while seen <= rank:
                cell += 1
                seen += cells[cell]
            low = least + cell
            high = low
            if place > rank and seen <= rank + 1:
                above = cell + 1
                while cells[above] == 0:
                    above += 1
                high = least + above
            out[j] = min((low + (high - low) * (place - rank)) / unit, 1.0)
    else:
        work = np.empty(n, dtype=np.float64)
        for i in range(n):
            work[i] = values[i]
        first = 0
        for j in range(probabilities.shape[0]):
            place = probabilities[j] * (n - 1)
            rank = int(place)
            low = select(work, first, rank)
            high = low
            if place > rank:
                high = select(work, rank, rank + 1)
            out[j] = min((low + (high - low) * (place - rank)) / unit, 1.0)
            first = rank
    for i in range(n):
        values[i] = min(values[i] / unit, 1.0)


@inline
def _common_divisor(a: int, b: int) -> int:
    while b > 0:
        a, b = b, a % b
    return a


@inline
def _draw_distances(
    probs: Floats,
    support: Floats,
    n_old: int,
    n_new: int,
    base: np.uint64,
    first: int,
    table: Floats,
    width: int,
    out: Floats,
) -> float:
    """Fill ``out`` with distances between two samples each; return the unit to divide them by.

    ``first`` numbers the first of the samples. With equally spaced options (an empty support)
    the distances are integers in that unit.
    """
    n_options = probs.shape[0]
    # Of those who chose no earlier option: the shares of this option and of the later ones.
    # Sums run from the end: nothing cancels, and nothing is left behind the last option.
    here = np.empty(n_options, dtype=np.float64)
    after = np.empty(n_options, dtype=np.float64)
    total = 0.0
    for j in range(n_options - 1, -1, -1):
        later = total
        total += probs[j]
        here[j] = probs[j] / total if total > 0.0 else 0.0
        after[j] = later / total if total > 0.0 else 1.0
    divisor = _common_divisor(n_old, n_new)
    scale_old = np.float64(n_new // divisor)
    scale_new = np.float64(n_old // divisor)
    left = np.empty(2 * width, dtype=np.float64)
    keys = np.empty(2 * width, dtype=np.uint64)
    drawn = np.empty(2 * width, dtype=np.float64)
    scratch = _scratch(2 * width)
    for start in range(0, out.shape[0], width):
        distance = out[start : start + width]
        n = distance.shape[0]
        old = left[:n]
        new = left[n : 2 * n]
        for i in range(n):
            sample = np.uint64(first + 2 * (start + i))
            keys[i] = base + sample * _SAMPLE_STEP
            keys[n + i] = keys[i] + _SAMPLE_STEP
            old[i] = np.float64(n_old)
            new[i] = np.float64(n_new)
            distance[i] = 0.0
        for j in range(n_options - 1):
            _binomials(left[: 2 * n], keys, here[j], after[j], table, drawn, scratch)
            for i in range(2 * n):
                left[i] -= drawn[i]
                keys[i] += _CLASS_STEP
            gap = 1.0 if support.shape[0] == 0 else support[j + 1] - support[j]
            for i in range(n):
                distance[i] += abs(old[i] * scale_old - new[i] * scale_new) * gap
    reach = np.float64(n_options - 1)
    if support.shape[0] > 0:
        reach = support[n_options - 1] - support[0]
    return float(scale_old * n_old * reach)


@kernel(parallel=True)
def _sampling_noise(
    probs: Floats,
    starts: Integers,
    support: Floats,
    starts_support: Integers,
    lengths: Integers,
    n_old: Integers,
    n_new: Integers,
    quantiles: Floats,
    base: np.uint64,
    width: int,
    table: Floats,
    distances: Floats,
    out: Floats,
) -> None:
    repeats = distances.shape[1]
    for row in numba.prange(lengths.shape[0]):
        positions = support
        if support.shape[0] > 0:
            positions = support[starts_support[row] : starts_support[row] + lengths[row]]
        unit = _draw_distances(
            probs[starts[row] : starts[row] + lengths[row]],
            positions,
            n_old[row],
            n_new[row],
            base,
            2 * row * repeats,
            table if max(n_old[row], n_new[row]) < table.shape[0] else table[:0],
            min(width, repeats),
            distances[row],
        )
        _quantiles(distances[row], support.shape[0] == 0, unit, quantiles, out[row])


@kernel(parallel=True)
def _noise_floor(
    probs: Floats,
    starts: Integers,
    support: Floats,
    starts_support: Integers,
    lengths: Integers,
    n_old: Integers,
    n_new: Integers,
    observed: Floats,
    tolerance: float,
    repeats: int,
    base: np.uint64,
    width: int,
    table: Floats,
    out: Floats,
    reached: Integers,
) -> None:
    half = np.full(1, 0.5)
    for row in numba.prange(lengths.shape[0]):
        positions = support
        if support.shape[0] > 0:
            positions = support[starts_support[row] : starts_support[row] + lengths[row]]
        distances = np.empty(repeats, dtype=np.float64)
        unit = _draw_distances(
            probs[starts[row] : starts[row] + lengths[row]],
            positions,
            n_old[row],
            n_new[row],
            base,
            2 * row * repeats,
            table if max(n_old[row], n_new[row]) < table.shape[0] else table[:0],
            min(width, repeats),
            distances,
        )
        _quantiles(distances, support.shape[0] == 0, unit, half, out[row, 1:])
        total = 0.0
        count = np.int64(0)
        for i in range(repeats):
            total += distances[i]
            count += np.int64(distances[i] >= observed[row] - tolerance)
        out[row, 0] = total / repeats
        reached[row] = count


@kernel(parallel=True)
def _redrawn_shares(
    probs: Floats,
    starts: Integers,
    lengths: Integers,
    sizes: Integers,
    numbers: Integers,
    base: np.uint64,
    table: Floats,
    starts_out: Integers,
    out: Floats,
) -> None:
    repeats = out.shape[0]
    for row in numba.prange(lengths.shape[0]):
        k = lengths[row]
        shares = probs[starts[row] : starts[row] + k]
        redrawn = out[:, starts_out[row] : starts_out[row] + k]
        here = np.empty(k, dtype=np.float64)
        after = np.empty(k, dtype=np.float64)
        total = 0.0
        for j in range(k - 1, -1, -1):
            later = total
            total += shares[j]
            here[j] = shares[j] / total if total > 0.0 else 0.0
            after[j] = later / total if total > 0.0 else 1.0
        size = np.float64(sizes[row])
        left = np.empty(repeats, dtype=np.float64)
        keys = np.empty(repeats, dtype=np.uint64)
        drawn = np.empty(repeats, dtype=np.float64)
        scratch = _scratch(repeats)
        for i in range(repeats):
            left[i] = size
            keys[i] = base + np.uint64(numbers[row] * repeats + i) * _SAMPLE_STEP
        known = table if sizes[row] < table.shape[0] else table[:0]
        for j in range(k):
            _binomials(left, keys, here[j], after[j], known, drawn, scratch)
            for i in range(repeats):
                redrawn[i, j] = drawn[i] / size
                left[i] -= drawn[i]
                keys[i] += _CLASS_STEP


@cache
def log_factorials() -> Floats:
    """Return log(0!), log(1!), ... for samples small enough to look them up."""
    return _log_factorials(_TABULATED)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array that is read-only, as Arrow's are: it would be compiled for once more."""
    return np.require(array, requirements=["C", "W"])


def multinomial_counts(
    counts: Integers, base: np.uint64, n_resamples: int, *, width: int = LANES
) -> NDArray[np.int32]:
    """Return the class counts of bootstrap resamples of a sample with these class counts.

    Parameters
    ----------
    counts : (C,) int64
        Class counts, not negative, of a sample of n < 2**31.
    base : numpy.uint64
        Where the stream begins.
    n_resamples : int
        Number of resamples B.
    width : int
        Resamples in a block; results do not depend on it.

    Returns
    -------
    (C, B) int32
        Each column an independent draw from Multinomial(n, counts / n).
    """
    size = int(counts.sum())
    later = size - np.cumsum(counts)
    # Of those who chose no earlier class: the shares of this class and of the later ones
    rest = np.maximum(counts + later, 1)
    shares = np.stack([counts / rest, later / rest])
    out = np.empty((len(counts), n_resamples), dtype=np.int32)
    table = log_factorials() if size < _TABULATED else np.empty(0)
    _multinomial_counts(shares, size, base, width, table, out)
    return out


def sampling_noise(
    probs: Floats,
    starts: Integers,
    support: Floats,
    starts_support: Integers,
    lengths: Integers,
    n_old: Integers,
    n_new: Integers,
    repeats: int,
    quantiles: Floats,
    base: np.uint64,
    *,
    width: int = LANES // 2,
) -> tuple[Floats, Floats]:
    """Return how far two samples from the same distribution lie apart, for each distribution.

    Parameters
    ----------
    probs, starts, lengths
        Distributions over K >= 2 options each, as rows of one flat buffer. A row is divided by
        its sum.
    support, starts_support
        Positions of the options in the same form; an empty ``support`` means equally spaced.
    n_old, n_new : (N,) int64
        Sizes of the two samples, at least 1, below 2**31.
    repeats : int
        Pairs of samples R for each distribution.
    quantiles : (m,) float64
        Probabilities of the quantiles, ascending.
    base : numpy.uint64
        Where the stream begins.
    width : int
        Repeats in a block; results do not depend on it.

    Returns
    -------
    quantiles : (N, m) float64
        Type-7 quantiles of the distances of each distribution.
    distances : (N, R) float64
        Normalised Wasserstein-1 distances.
    """
    distances = np.empty((len(lengths), repeats))
    out = np.empty((len(lengths), len(quantiles)))
    _sampling_noise(
        _writable(probs),
        _writable(starts),
        _writable(support),
        _writable(starts_support),
        _writable(lengths),
        _writable(n_old),
        _writable(n_new),
        _writable(quantiles),
        base,
        width,
        log_factorials(),
        distances,
        out,
    )
    return out, distances


def noise_floor(
    probs: Floats,
    starts: Integers,
    support: Floats,
    starts_support: Integers,
    lengths: Integers,
    n_old: Integers,
    n_new: Integers,
    observed: Floats,
    tolerance: float,
    repeats: int,
    base: np.uint64,
    *,
    width: int = LANES // 2,
) -> tuple[Floats, Floats, Integers]:
    """Compare observed distances with those of two samples from one distribution.

    Parameters
    ----------
    probs, starts, support, starts_support, lengths, n_old, n_new, repeats, base, width
        As in :func:`sampling_noise`; the distances are the same ones.
    observed : (N,) float64
        Observed distance of each row.
    tolerance : float
        A drawn distance reaches the observed one if it is at most this much smaller.

    Returns
    -------
    mean, median : (N,) float64
        Of the drawn distances; no more than a row of them is ever held.
    reached : (N,) int64
        Number of drawn distances that reach the observed one.
    """
    out = np.empty((len(lengths), 2))
    reached = np.empty(len(lengths), dtype=np.int64)
    _noise_floor(
        _writable(probs),
        _writable(starts),
        _writable(support),
        _writable(starts_support),
        _writable(lengths),
        _writable(n_old),
        _writable(n_new),
        _writable(observed),
        tolerance,
        repeats,
        base,
        width,
        log_factorials(),
        out,
        reached,
    )
    return out[:, 0], out[:, 1], reached


def redrawn_shares(
    probs: Floats,
    starts: Integers,
    lengths: Integers,
    sizes: Integers,
    numbers: Integers,
    repeats: int,
    base: np.uint64,
) -> tuple[Floats, Integers]:
    """Return the shares of samples drawn from each distribution.

    Parameters
    ----------
    probs, starts, lengths
        Distributions as rows of one flat buffer. A row is divided by its sum.
    sizes : (N,) int64
        Size of the samples of each row, at least 1, below 2**31.
    numbers : (N,) int64
        Number of each row in the stream: equal numbers give equal uniforms, wherever the row is.
    repeats : int
        Samples R of each row.
    base : numpy.uint64
        Where the stream begins.

    Returns
    -------
    shares : (R, sum of K) float64
        A sample of every row, then the next one: what is compared lies close together.
    starts : (N,) int64
        Where each row begins in a sample of all.
    """
    ends = np.cumsum(lengths)
    starts_out = ends - lengths
    out = np.empty((repeats, int(ends[-1]) if len(ends) else 0))
    _redrawn_shares(
        _writable(probs),
        _writable(starts),
        _writable(lengths),
        _writable(sizes),
        _writable(numbers),
        base,
        log_factorials(),
        starts_out,
        out,
    )
    return out, starts_out
