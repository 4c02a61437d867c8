"""Means and standard deviations of short rows with missing values, and their resamples.

Answers come as many rows of 10 or 30, too short for a vectorised loop along the row. ``LANES``
rows are therefore turned into columns and worked on side by side. Every row is still summed from
left to right, so results do not depend on threads, vector width or the compiler.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel
from chronocore_kernels.streams import GOLDEN, S32, mix

__all__ = ["LARGEST", "moments", "resample_components"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Largest magnitude of a value: its square, and the sum of many such, is still finite.
LARGEST = 1e150

_LANES = 32
_CHUNK = 1024  # rows one thread takes at a time, a multiple of _LANES


@inline
def _sum_columns(
    columns: Floats, total: Floats, count: Floats, lowest: Floats, highest: Floats
) -> None:
    """Sum and count the values of each lane, and find their range; NaN is no value."""
    total[:] = 0.0
    count[:] = 0.0
    lowest[:] = np.inf
    highest[:] = -np.inf
    for j in range(columns.shape[0]):
        column = columns[j]
        for lane in range(column.shape[0]):
            x = column[lane]
            valid = x == x
            total[lane] += x if valid else 0.0
            count[lane] += 1.0 if valid else 0.0
            lowest[lane] = x if x < lowest[lane] else lowest[lane]
            highest[lane] = x if x > highest[lane] else highest[lane]


@inline
def _sum_squares(columns: Floats, mean: Floats, squares: Floats) -> None:
    """Sum the squared deviations of each lane from its mean; NaN is no value."""
    squares[:] = 0.0
    for j in range(columns.shape[0]):
        column = columns[j]
        for lane in range(column.shape[0]):
            deviation = column[lane] - mean[lane]
            squares[lane] += deviation * deviation if deviation == deviation else 0.0


@kernel(parallel=True)
def moments(values: Floats, ddof: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean and standard deviation of each row of ``values`` (N, L), NaN skipped.

    The mean is NaN for a row without a value, the deviation for one with fewer than 2 values or
    no more than ``ddof``. Equal values have their own mean and deviation exactly 0. The third
    array, one entry a chunk of rows, says whether a magnitude above ``LARGEST`` was met.
    """
    n, length = values.shape
    mean = np.empty(n, dtype=np.float64)
    deviation = np.empty(n, dtype=np.float64)
    chunks = (n + _CHUNK - 1) // _CHUNK
    too_large = np.zeros(chunks, dtype=np.bool_)
    for chunk in numba.prange(chunks):
        # Lanes beyond the last row of the chunk stay NaN or keep an old row; they are not read.
        columns = np.full((length, _LANES), np.nan)
        total = np.empty(_LANES)
        count = np.empty(_LANES)
        lowest = np.empty(_LANES)
        highest = np.empty(_LANES)
        squares = np.empty(_LANES)
        end = min(n, (chunk + 1) * _CHUNK)
        for start in range(chunk * _CHUNK, end, _LANES):
            stop = min(start + _LANES, end)
            rows = values[start:stop]
            for lane in range(rows.shape[0]):
                row = rows[lane]
                for j in range(length):
                    columns[j, lane] = row[j]
            _sum_columns(columns, total, count, lowest, highest)
            for lane in range(_LANES):
                # Rounding must not push the mean of equal values off them.
                center = total[lane] / count[lane]
                center = lowest[lane] if center < lowest[lane] else center
                total[lane] = highest[lane] if center > highest[lane] else center
            _sum_squares(columns, total, squares)
            means = mean[start:stop]
            deviations = deviation[start:stop]
            for lane in range(rows.shape[0]):
                means[lane] = total[lane]
                freedom = count[lane] - ddof
                defined = count[lane] >= 2.0 and freedom > 0.0
                deviations[lane] = np.sqrt(squares[lane] / freedom) if defined else np.nan
                if lowest[lane] < -LARGEST or highest[lane] > LARGEST:
                    too_large[chunk] = True
    return mean, deviation, too_large


@inline
def _draw(base: np.uint64, first: int, n: int, counts: NDArray[np.int32]) -> None:
    """Count how often each of n units is drawn in n draws with replacement."""
    counts[:] = 0
    for j in range(n):
        counter = np.uint64(first + j + 1)
        word = mix(base + counter * GOLDEN)
        index = ((word >> S32) * np.uint64(n)) >> S32
        counts[index] += np.int32(1)


@inline
def _counted_moments(row: Floats, counts: NDArray[np.int32], ddof: float) -> tuple[float, float]:
    """Return mean and standard deviation of values that count several times; NaN is no value."""
    total = 0.0
    n = 0.0
    low = np.inf
    high = -np.inf
    for j in range(row.shape[0]):
        x = row[j]
        if counts[j] > 0 and x == x:
            total += counts[j] * x
            n += counts[j]
            low = min(low, x)
            high = max(high, x)
    if n < 1.0:
        return np.nan, np.nan
    mean = min(max(total / n, low), high)
    if n < 2.0 or n <= ddof:
        return mean, np.nan
    squares = 0.0
    for j in range(row.shape[0]):
        x = row[j]
        if counts[j] > 0 and x == x:
            squares += counts[j] * (x - mean) * (x - mean)
    return mean, np.sqrt(squares / (n - ddof))


@kernel(parallel=True)
def resample_components(
    seeds: Floats,
    variants: Floats,
    standard: Integers,
    from_seeds: bool,
    seed_bases: NDArray[np.uint64],
    variant_base: np.uint64,
    n_resamples: int,
    ddof: float,
) -> tuple[Floats, Floats, Floats]:
    """Return the components of one item in every resample.

    Variants are drawn once for all models, which answered the same ones; seeds are drawn for
    every model by itself.

    Parameters
    ----------
    seeds : (M, S) float64
    variants : (M, V) float64
    standard : (V,) int64
        1 for the variants a model's mean is taken over.
    from_seeds : bool
        Take a model's mean over the seeds instead.
    seed_bases : (M,) uint64
    variant_base : uint64
    n_resamples : int
    ddof : float

    Returns
    -------
    sigma_seed, sigma_prompt : (n_resamples, M) float64
    sigma_culture : (n_resamples,) float64
    """
    n_models, n_seeds = seeds.shape
    n_variants = variants.shape[1]
    sigma_seed = np.empty((n_resamples, n_models), dtype=np.float64)
    sigma_prompt = np.empty((n_resamples, n_models), dtype=np.float64)
    sigma_culture = np.empty(n_resamples, dtype=np.float64)
    for r in numba.prange(n_resamples):
        seed_counts = np.empty(n_seeds, dtype=np.int32)
        variant_counts = np.empty(n_variants, dtype=np.int32)
        base_counts = np.empty(n_variants, dtype=np.int32)
        means = np.empty(n_models, dtype=np.float64)
        once = np.ones(n_models, dtype=np.int32)
        _draw(variant_base, r * n_variants, n_variants, variant_counts)
        for j in range(n_variants):
            base_counts[j] = variant_counts[j] * standard[j]
        for m in range(n_models):
            _draw(seed_bases[m], r * n_seeds, n_seeds, seed_counts)
            seed_mean, sigma_seed[r, m] = _counted_moments(seeds[m], seed_counts, ddof)
            _, sigma_prompt[r, m] = _counted_moments(variants[m], variant_counts, ddof)
            mean, _ = _counted_moments(variants[m], base_counts, ddof)
            means[m] = seed_mean if from_seeds else mean
        _, sigma_culture[r] = _counted_moments(means, once, ddof)
    return sigma_seed, sigma_prompt, sigma_culture
