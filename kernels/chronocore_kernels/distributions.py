"""Weighted response distributions of many variables and groups in one pass.

Rows are ordered by group once. Each (variable, group) segment is then a contiguous run of one
byte an answer; its option weights are summed in branch-free accumulators, four options a pass
over a segment that lies in the first-level cache, which compiles to masked vector additions. The
weights of a group stay in the cache while its variables go by.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline, kernel

__all__ = ["code_positions", "gather_rows", "group_order", "weighted_counts"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bytes = NDArray[np.int8]

# Sums may be reordered to vectorise; NaN and infinity keep their meaning.
_SUMS = frozenset({"reassoc", "nsz"})


@inline(fastmath=_SUMS)
def _sum_four(x: Bytes, w: Floats, first: int, out: Floats) -> None:
    # The codes are run-time values: literal ones would compile to a switch.
    c0 = np.int8(first)
    c1 = np.int8(first + 1)
    c2 = np.int8(first + 2)
    c3 = np.int8(first + 3)
    a = b = c = d = 0.0
    for i in range(x.shape[0]):
        v = x[i]
        u = w[i]
        a += u if v == c0 else 0.0
        b += u if v == c1 else 0.0
        c += u if v == c2 else 0.0
        d += u if v == c3 else 0.0
    out[0] = a
    out[1] = b
    out[2] = c
    out[3] = d


@inline(fastmath=_SUMS)
def _sum_two(x: Bytes, w: Floats, first: int, out: Floats) -> None:
    c0 = np.int8(first)
    c1 = np.int8(first + 1)
    a = b = 0.0
    for i in range(x.shape[0]):
        v = x[i]
        u = w[i]
        a += u if v == c0 else 0.0
        b += u if v == c1 else 0.0
    out[0] = a
    out[1] = b


@inline(fastmath=_SUMS)
def _squares(x: Bytes, w: Floats, low: int, high: int) -> float:
    first = np.int8(low)
    last = np.int8(high)
    total = 0.0
    for i in range(x.shape[0]):
        u = w[i]
        total += u * u if (x[i] >= first) & (x[i] <= last) else 0.0
    return total


@inline
def _count_between(x: Bytes, low: int, high: int) -> int:
    first = np.int8(low)
    last = np.int8(high)
    n = np.int32(0)
    for i in range(x.shape[0]):
        n += np.int32((x[i] >= first) & (x[i] <= last))
    return int(n)


@inline
def _count_unusable(x: Bytes, w: Floats, low: int, high: int) -> int:
    first = np.int8(low)
    last = np.int8(high)
    n = 0
    for i in range(x.shape[0]):
        n += int((x[i] >= first) & (x[i] <= last) & (w[i] == 0.0))
    return n


@kernel()
def group_order(groups: Integers, n_groups: int) -> tuple[Integers, NDArray[np.int32], bool]:
    """Return where each group starts, the rows in order of their group, and if they were so.

    Within a group rows keep their order, so that its sums do not depend on other groups.
    """
    n = groups.shape[0]
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    ordered = True
    for i in range(n):
        starts[groups[i] + 1] += 1
        if i > 0 and groups[i] < groups[i - 1]:
            ordered = False
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    rows = np.empty(0 if ordered else n, dtype=np.int32)
    if not ordered:
        filled = starts.copy()
        for i in range(n):
            g = groups[i]
            rows[filled[g]] = i
            filled[g] += 1
    return starts, rows, ordered


@kernel(parallel=True)
def gather_rows(columns: Bytes, rows: NDArray[np.int32]) -> Bytes:
    """Return ``columns[:, rows]``, one thread a column."""
    v = columns.shape[0]
    n = rows.shape[0]
    out = np.empty((v, n), dtype=np.int8)
    for j in numba.prange(v):
        source = columns[j]
        target = out[j]
        for i in range(n):
            target[i] = source[np.uint64(rows[i])]
    return out


@kernel(parallel=True)
def code_positions(codes: Floats, table: Bytes, low: int) -> Bytes:
    """Return the position of each code among the options, -1 where it is none of them.

    ``table[c - low]`` is the position of code c. NaN and fractions are no codes.
    """
    n = codes.shape[0]
    out = np.empty(n, dtype=np.int8)
    size = table.shape[0]
    for i in numba.prange(n):
        code = codes[i]
        place = code - low
        position = np.int8(-1)
        if place >= 0.0 and place < size:
            index = np.int64(place)
            if place == index:
                position = table[index]
        out[i] = position
    return out


@kernel(parallel=True)
def weighted_counts(
    columns: Bytes,
    bases: Integers,
    n_options: Integers,
    starts: Integers,
    weights: Floats,
    all_usable: bool,
) -> tuple[Floats, Integers, Floats, Integers]:
    """Sum weights by variable, group and option.

    Parameters
    ----------
    columns : (V, n) int8
        Answers in order of their group. Those outside ``[base, base + K)`` are invalid.
    bases, n_options : (V,) int64
        Smallest code and number of options of each variable.
    starts : (G + 1,) int64
        Where each group's rows start.
    weights : (n,) float64, or empty
        Empty means unweighted. An unusable weight is given as 0.
    all_usable : bool
        No weight is 0.

    Returns
    -------
    sums : (V, G, K_max) float64
    n_valid : (V, G) int64
        Valid answers with a usable weight.
    squares : (V, G) float64
        Sum of the squared weights of those.
    n_dropped : (V, G) int64
        Valid answers without a usable weight.
    """
    n_variables = columns.shape[0]
    n_groups = starts.shape[0] - 1
    widest = 0
    for j in range(n_variables):
        widest = max(widest, n_options[j])
    # Passes of four and two options may write past the last one.
    sums = np.zeros((n_variables, n_groups, widest + 3), dtype=np.float64)
    n_valid = np.zeros((n_variables, n_groups), dtype=np.int64)
    squares = np.zeros((n_variables, n_groups), dtype=np.float64)
    n_dropped = np.zeros((n_variables, n_groups), dtype=np.int64)
    weighted = weights.shape[0] > 0
    for g in numba.prange(n_groups):
        low = starts[g]
        high = starts[g + 1]
        w = weights[low:high] if weighted else weights
        for j in range(n_variables):
            x = columns[j, low:high]
            base = bases[j]
            k = n_options[j]
            last = base + k - 1
            out = sums[j, g]
            valid = _count_between(x, base, last)
            if not weighted:
                for option in range(k):
                    out[option] = _count_between(x, base + option, base + option)
                n_valid[j, g] = valid
                squares[j, g] = valid
                continue
            done = 0
            while k - done > 2:
                _sum_four(x, w, base + done, out[done : done + 4])
                done += 4
            if done < k:
                _sum_two(x, w, base + done, out[done : done + 2])
            for option in range(k, widest + 3):
                out[option] = 0.0
            squares[j, g] = _squares(x, w, base, last)
            dropped = 0 if all_usable else _count_unusable(x, w, base, last)
            n_valid[j, g] = valid - dropped
            n_dropped[j, g] = dropped
    return sums[:, :, :widest], n_valid, squares, n_dropped
