"""Means and standard deviations of short rows with missing values.

Answers come as many rows of 10 or 30, too short for a vectorised loop along the row. ``LANES``
rows are therefore turned into columns and worked on side by side. Every row is still summed from
left to right, so results do not depend on threads, vector width or the compiler.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel

__all__ = ["LARGEST", "moments"]

Floats = NDArray[np.float64]

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
