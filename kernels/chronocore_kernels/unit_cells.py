"""The bootstrap intervals of many cells whose pairs come in clusters or are redrawn.

All cells of a call rest on one column that has R redraws. Resample ``b`` of a cell takes the
values of redraw ``b mod R``, then draws as many units, rows or clusters of rows, as the cell has.
Without clusters, counts and medians are drawn from the law of their resamples instead of from
rows. Callers put the costly cells first: thread t of T takes every T-th.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.cells import quantile_ends
from chronocore_kernels.jit import inline, kernel
from chronocore_kernels.multinomial import draw_resamples, log_factorials
from chronocore_kernels.resampling import counted_sum, draw_indices, gather_sum, rank_draw
from chronocore_kernels.selection import select

__all__ = ["unit_count_ends", "unit_mean_ends", "unit_median_ends"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

# Parts the cells are dealt to: enough that a thread held up elsewhere does not hold up the rest.
_PARTS = 64


@inline
def _write(replicates: Floats, levels: Floats, out: Floats) -> None:
    """Write the type-7 quantiles of the replicates that have a value; reorders them."""
    kept = 0
    for b in range(replicates.shape[0]):
        if replicates[b] == replicates[b]:
            replicates[kept] = replicates[b]
            kept += 1
    if kept == 0:
        out[:] = np.nan
    else:
        quantile_ends(replicates[:kept], levels, out)


@kernel(parallel=True)
def unit_mean_ends(
    column: NDArray[np.floating],
    rows: Integers,
    weights: Floats,
    row_starts: Integers,
    units: Integers,
    unit_starts: Integers,
    clustered: bool,
    bases: Words,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    """Return the ends of the intervals of (weighted) means, and the mean of all redraws.

    Parameters
    ----------
    column : (R, N) floating
        The redraws of the value of every row; NaN is left out.
    rows : (M,) int64
        The rows of the cells side by side, those of a unit beside each other.
    weights : (M,) float64, or (0,)
        Nothing if all weigh the same.
    row_starts : (n + 1,) int64
        Where the rows of each cell begin.
    units : (U,) int64
        The cells side by side: where each unit begins among the rows of its cell, and the number
        of these rows.
    unit_starts : (n + 1,) int64
        Where the units of each cell begin.
    clustered : bool
        Otherwise every row is a unit of its own.
    bases : (n,) uint64
        Where the stream of each cell begins.
    levels : (2,) float64
        Ascending, in [0, 1].
    n_resamples : int

    Returns
    -------
    (n, 3) float64
        NaN where no resample has a value.
    """
    n_cells = bases.shape[0]
    n_redraws = column.shape[0]
    out = np.empty((n_cells, levels.shape[0] + 1), dtype=np.float64)
    weighted = weights.shape[0] > 0
    for part in numba.prange(min(_PARTS, n_cells)):
        replicates = np.empty(n_resamples, dtype=np.float64)
        for cell in range(part, n_cells, _PARTS):
            own = rows[row_starts[cell] : row_starts[cell + 1]]
            own_weights = weights[row_starts[cell] : row_starts[cell + 1]] if weighted else weights
            offsets = units[unit_starts[cell] : unit_starts[cell + 1]]
            n_units = offsets.shape[0] - 1
            sums = np.empty(n_units, dtype=np.float64)
            sizes = np.empty(n_units, dtype=np.float64)
            index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
            counts = np.empty(n_units, dtype=np.int32)
            total = 0.0
            size = 0.0
            for r in range(n_redraws):
                values = column[r]
                plain = not weighted and not clustered
                for u in range(n_units):
                    above = 0.0
                    below = 0.0
                    for i in range(offsets[u], offsets[u + 1]):
                        value = np.float64(values[own[i]])
                        if value == value:
                            weight = own_weights[i] if weighted else 1.0
                            above += value * weight
                            below += weight
                        else:
                            plain = False
                    sums[u] = above
                    sizes[u] = below
                    total += above
                    size += below
                for b in range(r, n_resamples, n_redraws):
                    draw_indices(bases[cell], b, n_units, index)
                    if plain:
                        replicates[b] = gather_sum(sums, index[:n_units]) / n_units
                    else:
                        counts[:] = 0
                        for i in range(n_units):
                            counts[np.uint64(index[i])] += np.int32(1)
                        below = counted_sum(sizes, counts)
                        replicates[b] = counted_sum(sums, counts) / below if below > 0.0 else np.nan
            _write(replicates, levels, out[cell, : levels.shape[0]])
            out[cell, levels.shape[0]] = total / size if size > 0.0 else np.nan
    return out


@kernel(parallel=True)
def _unit_count_ends(
    column: NDArray[np.int8],
    n_classes: int,
    rows: Integers,
    row_starts: Integers,
    units: Integers,
    unit_starts: Integers,
    clustered: bool,
    bases: Words,
    table: Floats,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    n_cells = bases.shape[0]
    n_redraws = column.shape[0]
    n_levels = levels.shape[0]
    out = np.empty((n_cells * n_classes, n_levels + 1), dtype=np.float64)
    for part in numba.prange(min(_PARTS, n_cells)):
        # The last class collects what is left out.
        drawn = np.empty((n_classes + 1, n_resamples), dtype=np.int32)
        replicates = np.empty(n_resamples, dtype=np.float64)
        shares = np.empty((2, n_classes + 1), dtype=np.float64)
        for cell in range(part, n_cells, _PARTS):
            own = rows[row_starts[cell] : row_starts[cell + 1]]
            offsets = units[unit_starts[cell] : unit_starts[cell + 1]]
            n_units = offsets.shape[0] - 1
            size = own.shape[0]
            by_unit = np.empty((n_units if clustered else 1, n_classes + 1), dtype=np.int32)
            index = np.empty(n_units + (n_units & 1) if clustered else 0, dtype=np.uint32)
            known = table if size < table.shape[0] else table[:0]
            totals = np.zeros(n_classes + 1, dtype=np.int64)
            for r in range(n_redraws):
                classes = column[r]
                by_unit[:] = 0
                for u in range(n_units):
                    row = by_unit[u if clustered else 0]
                    for i in range(offsets[u], offsets[u + 1]):
                        code = np.int64(classes[own[i]])
                        row[n_classes if code < 0 else code] += np.int32(1)
                for u in range(by_unit.shape[0]):
                    for j in range(n_classes + 1):
                        totals[j] += by_unit[u, j]
                if r >= n_resamples:
                    continue
                if clustered:
                    for b in range(r, n_resamples, n_redraws):
                        draw_indices(bases[cell], b, n_units, index)
                        drawn[:, b] = 0
                        for i in range(n_units):
                            row = by_unit[np.int64(index[i])]
                            for j in range(n_classes + 1):
                                drawn[j, b] += row[j]
                else:
                    later = size
                    for j in range(n_classes + 1):
                        count = np.int64(by_unit[0, j])
                        later -= count
                        rest = max(count + later, 1)
                        shares[0, j] = count / rest
                        shares[1, j] = later / rest
                    draw_resamples(
                        shares, size, bases[cell], r, n_redraws, known, drawn[:, r::n_redraws]
                    )
            valid = totals[:n_classes].sum()
            for j in range(n_classes):
                for b in range(n_resamples):
                    below = 0
                    for k in range(n_classes):
                        below += drawn[k, b]
                    replicates[b] = drawn[j, b] / below if below > 0 else np.nan
                place = cell * n_classes + j
                _write(replicates, levels, out[place, :n_levels])
                out[place, n_levels] = totals[j] / valid if valid > 0 else np.nan
    return out


def unit_count_ends(
    column: NDArray[np.int8],
    n_classes: int,
    rows: Integers,
    row_starts: Integers,
    units: Integers,
    unit_starts: Integers,
    clustered: bool,
    bases: Words,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    """Return the ends of the intervals of class shares, and the shares of all redraws.

    Parameters
    ----------
    column : (R, N) int8
        The redraws of the class of every row; a negative one is left out.
    n_classes : int
        No class reaches it.
    rows, row_starts, units, unit_starts, clustered, bases, levels, n_resamples
        As in :func:`unit_mean_ends`.

    Returns
    -------
    (n * n_classes, 3) float64
        The classes of each cell side by side.
    """
    return _unit_count_ends(
        column, n_classes, rows, row_starts, units, unit_starts, clustered, bases, log_factorials(),
        levels, n_resamples,
    )  # fmt: skip


@inline
def _middle(values: Floats) -> float:
    """Return the type-7 median; reorders the values."""
    rank = (values.shape[0] - 1) // 2
    low = select(values, 0, rank)
    if values.shape[0] & 1:
        return low
    high = select(values, rank, rank + 1)
    return low + (high - low) * 0.5


@inline
def _counted_middle(ascending: Floats, owners: Integers, counts: Integers, total: int) -> float:
    """Return the type-7 median of values that occur as often as their owners; NaN of none."""
    if total == 0:
        return float(np.nan)
    rank = (total - 1) // 2
    i = 0
    seen = counts[owners[0]]
    while seen <= rank:
        i += 1
        seen += counts[owners[i]]
    low = ascending[i]
    if total & 1:
        return float(low)
    while seen <= rank + 1:
        i += 1
        seen += counts[owners[i]]
    return float(low + (ascending[i] - low) * 0.5)


@kernel(parallel=True)
def unit_median_ends(
    column: NDArray[np.floating],
    rows: Integers,
    row_starts: Integers,
    units: Integers,
    unit_starts: Integers,
    clustered: bool,
    bases: Words,
    laws: Integers,
    ranks: Integers,
    fractions: Floats,
    firsts: Integers,
    tables: Integers,
    threshold: Floats,
    alias: Integers,
    moves: Floats,
    levels: Floats,
    n_resamples: int,
) -> Floats:
    """Return the ends of the intervals of medians, and the median of all redraws.

    Parameters
    ----------
    column, rows, row_starts, units, unit_starts, clustered, bases, levels, n_resamples
        As in :func:`unit_mean_ends`.
    laws, ranks, fractions, firsts, tables, threshold, alias, moves
        The law of the rank of each cell, as in :func:`chronocore_kernels.cells.rank_ends`; used
        without clusters for redraws in which every row has a value.

    Returns
    -------
    (n, 3) float64
        NaN where no resample has a value.
    """
    n_cells = bases.shape[0]
    n_redraws = column.shape[0]
    n_levels = levels.shape[0]
    out = np.empty((n_cells, n_levels + 1), dtype=np.float64)
    for part in numba.prange(min(_PARTS, n_cells)):
        replicates = np.empty(n_resamples, dtype=np.float64)
        lower = np.empty(n_resamples, dtype=np.int64)
        upper = np.empty(n_resamples, dtype=np.int64)
        for cell in range(part, n_cells, _PARTS):
            own = rows[row_starts[cell] : row_starts[cell + 1]]
            offsets = units[unit_starts[cell] : unit_starts[cell + 1]]
            n_units = offsets.shape[0] - 1
            size = own.shape[0]
            law = laws[cell]
            begin = tables[law]
            end = tables[law + 1]
            index = np.empty(n_units + (n_units & 1), dtype=np.uint32)
            counts = np.empty(n_units, dtype=np.int64)
            sizes = np.empty(n_units, dtype=np.int64)
            unit_of = np.empty(size, dtype=np.int64)
            for u in range(n_units):
                unit_of[offsets[u] : offsets[u + 1]] = u
            values = np.empty(size, dtype=np.float64)
            everything = np.empty(n_redraws * size, dtype=np.float64)
            known = 0
            for r in range(n_redraws):
                complete = not clustered
                for i in range(size):
                    value = np.float64(column[r, own[i]])
                    values[i] = value
                    if value == value:
                        everything[known] = value
                        known += 1
                    else:
                        complete = False
                if r >= n_resamples:
                    continue
                if complete:
                    # Only the ranks that are drawn are put in order.
                    first = int(size)
                    last = 1
                    for b in range(r, n_resamples, n_redraws):
                        a, z = rank_draw(
                            size,
                            ranks[law],
                            fractions[law],
                            firsts[law],
                            threshold[begin:end],
                            alias[begin:end],
                            moves[begin:end],
                            bases[cell],
                            b,
                        )
                        lower[b] = a
                        upper[b] = z
                        first = min(first, a)
                        last = max(last, z)
                    select(values, 0, first - 1)
                    select(values, first - 1, last - 1)
                    values[first - 1 : last].sort()
                    for b in range(r, n_resamples, n_redraws):
                        value = values[lower[b] - 1]
                        replicates[b] = value + (values[upper[b] - 1] - value) * fractions[law]
                    continue
                # What has a value, in ascending order, and the unit of each.
                kept = 0
                sizes[:] = 0
                owners = np.empty(size, dtype=np.int64)
                for i in range(size):
                    if values[i] == values[i]:
                        values[kept] = values[i]
                        owners[kept] = unit_of[i]
                        sizes[unit_of[i]] += 1
                        kept += 1
                order = np.argsort(values[:kept])
                ascending = values[order]
                owners = owners[order]
                for b in range(r, n_resamples, n_redraws):
                    draw_indices(bases[cell], b, n_units, index)
                    counts[:] = 0
                    for g in range(n_units):
                        counts[np.int64(index[g])] += 1
                    total = 0
                    for u in range(n_units):
                        total += counts[u] * sizes[u]
                    replicates[b] = _counted_middle(ascending, owners, counts, total)
            _write(replicates, levels, out[cell, :n_levels])
            out[cell, n_levels] = _middle(everything[:known]) if known > 0 else np.nan
    return out
