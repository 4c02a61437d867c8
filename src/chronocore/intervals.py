"""Intervals of the cells of tables: pairs or clusters resampled, gold redrawn or as observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.inference import bootstrap, class_shares, seed_base
from chronocore_kernels import resampling, two_level

__all__ = [
    "Units",
    "cell_interval",
    "cell_shares",
    "column_estimates",
    "ends",
    "two_level_replicates",
    "units_of",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MAXIMUM_CLASSES = 127


@dataclass(frozen=True, slots=True)
class Units:
    """What a bootstrap draws: rows, or clusters of rows.

    Attributes
    ----------
    order : (n,) int64
        Rows in the order of their units.
    offsets : (G + 1,) int64
        Where each unit begins in ``order``.
    """

    order: Integers
    offsets: Integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def ordered(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return columns (..., n) with the rows of each unit side by side."""
        if (self.order[1:] > self.order[:-1]).all():  # they lie like that
            return np.ascontiguousarray(columns)
        return np.ascontiguousarray(columns[..., self.order])


def units_of(clusters: Any, n: int) -> Units:
    """Return the units of ``n`` rows; every row is its own without ``clusters``.

    Parameters
    ----------
    clusters : array-like of shape (n,), or None
        Labels.
    """
    if clusters is None:
        return Units(np.arange(n), np.arange(n + 1))
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise InvalidInputError(f"clusters must have shape {(n,)}, not {labels.shape}")
    _, codes = np.unique(labels, return_inverse=True)
    codes = codes.reshape(-1)
    sizes = np.bincount(codes) if n else np.empty(0, dtype=np.int64)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return Units(order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def column_estimates(columns: Floats, statistic: str) -> Floats:
    """Return the statistic of each column of shape (..., n); NaN is left out.

    A column without a value gives NaN.
    """
    present = ~np.isnan(columns)
    count = present.sum(axis=-1)
    if statistic == "median":
        out = np.full(columns.shape[:-1], np.nan)
        some = count > 0
        out[some] = np.nanmedian(columns[some], axis=-1)
        return out
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, columns, 0.0).sum(axis=-1) / count)


def two_level_replicates(
    columns: Floats, statistic: str, units: Units, n_resamples: int, seed: int
) -> Floats:
    """Return bootstrap replicates of columns that share every resample.

    Resample b takes redraw b mod R of all columns and draws as many units as there are.

    Parameters
    ----------
    columns : (m, R, n) float64
        R redraws of m columns; NaN is left out.
    statistic : {"mean", "proportion", "median"}
    units : Units
    n_resamples : int
    seed : int

    Returns
    -------
    (n_resamples, m) float64
        NaN where a resample of a column has no value.
    """
    if columns.shape[1] == 1:
        return _one_level(columns[:, 0], statistic, units, n_resamples, seed)
    ordered = units.ordered(columns)
    base = seed_base(seed)
    if statistic == "median":
        return two_level.two_level_quantiles(ordered, units.offsets, 0.5, base, n_resamples)
    return two_level.two_level_means(ordered, units.offsets, base, n_resamples)


def _one_level(
    columns: Floats, statistic: str, units: Units, n_resamples: int, seed: int
) -> Floats:
    """Return what the two-level kernels give for one redraw, from sums and sorted values."""
    base = seed_base(seed)
    present = ~np.isnan(columns)
    unit = np.empty(columns.shape[1], dtype=np.int64)
    unit[units.order] = np.repeat(np.arange(len(units)), np.diff(units.offsets))
    if statistic != "median":
        parts = [np.where(present, columns, 0.0), present.astype(np.float64)]
        rows = np.concatenate(parts)
        sums = np.zeros((len(rows), len(units)))
        for j, row in enumerate(rows):
            sums[j] = np.bincount(unit, row, len(units))
        drawn = resampling.resample_sums(sums, base, n_resamples)
        m = len(columns)
        with np.errstate(invalid="ignore"):
            return drawn[:, :m] / drawn[:, m:]
    out = np.full((n_resamples, len(columns)), np.nan)
    for j, column in enumerate(columns):
        kept = np.flatnonzero(present[j])
        kept = kept[np.argsort(column[kept], kind="stable")]
        if len(kept):
            out[:, j] = resampling.resample_quantiles(
                column[kept], unit[kept], len(units), np.array([0.5]), base, n_resamples
            )[:, 0]
    return out


def ends(replicates: Floats, confidence_level: float) -> tuple[Floats, Floats]:
    """Return the type-7 percentile ends of each column; resamples without a value are left out."""
    tail = (1 - confidence_level) / 2
    low = np.full(replicates.shape[1], np.nan)
    high = low.copy()
    for j in range(replicates.shape[1]):
        column = replicates[:, j]
        if np.isnan(column).any():
            column = column[~np.isnan(column)]
        if len(column):
            low[j], high[j] = np.quantile(column, [tail, 1 - tail])
    return low, high


def _moved_back(
    observed: Floats,
    redrawn: Floats | None,
    statistic: str,
    units: Units,
    n_resamples: int,
    confidence_level: float,
    seed: int,
) -> tuple[Floats, Floats, Floats]:
    """Return estimate, low and high of columns (m, n) with redraws (m, R, n).

    Redrawing adds the error of the surveys once more and moves statistics that are not linear in
    the distributions: a distance near zero can only grow. The interval is moved back by what all
    redraws together move the statistic, and keeps its width.
    """
    estimate = column_estimates(observed, statistic)
    columns = observed[:, None] if redrawn is None else redrawn
    replicates = two_level_replicates(columns, statistic, units, n_resamples, seed)
    low, high = ends(replicates, confidence_level)
    if redrawn is not None:
        moved = column_estimates(redrawn.reshape(len(redrawn), -1), statistic) - estimate
        low, high = low - moved, high - moved
    return estimate, low, high


def _check_redrawn(redrawn: Any, n: int, dtype: type[np.generic]) -> NDArray[Any]:
    array = np.asarray(redrawn)
    if array.ndim != 2 or array.shape[1] != n or not len(array):
        raise InvalidInputError(f"redrawn must have shape (redraws, {n}), not {array.shape}")
    return array.astype(dtype, copy=False)


def cell_interval(
    values: Any,
    statistic: str,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    weights: Any = None,
    clusters: Any = None,
    redrawn: Any = None,
) -> tuple[float, float, float]:
    """Return estimate, low and high of the statistic of a cell.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite values of the pairs of the cell.
    statistic : {"mean", "proportion", "median"}
        ``"proportion"`` is for 0/1 values.
    n_resamples, confidence_level, seed
        As in :func:`chronocore.bootstrap`; intervals are percentile intervals.
    weights : array-like of shape (n,), optional
        Finite and > 0, for means and proportions.
    clusters : array-like of shape (n,), optional
        Whole clusters are resampled.
    redrawn : array-like of shape (R, n), optional
        The same values under R redraws of the gold distributions, NaN where undefined. Each
        resample takes one redraw of all pairs.

    Returns
    -------
    estimate, low, high : float
        NaN for an empty cell.

    Raises
    ------
    InvalidInputError
        Shapes do not match, or a value is not finite.

    Notes
    -----
    Definitions, section 9. An interval with redraws is moved back by what the redraws move the
    statistic itself: they add the surveys' error a second time, and without that the interval of
    a large cell could lie beside its own estimate.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.repeat([0.0, 1.0], 50)
    >>> [round(x, 2) for x in cell_interval(values, "mean", seed=1)]
    [0.5, 0.41, 0.59]
    >>> [round(x, 2) for x in cell_interval(values, "mean", clusters=np.arange(100) // 25, seed=1)]
    [0.5, 0.0, 1.0]
    """
    if redrawn is None:
        result = bootstrap(
            values,
            statistic,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            weights=weights,
            clusters=clusters,
            seed=seed,
        )
        low, high = result.confidence_interval
        return result.estimate, low, high
    column = np.asarray(values, dtype=np.float64)
    again = _check_redrawn(redrawn, len(column), np.float64)
    if not np.isfinite(column).all():
        raise InvalidInputError("values must be finite; leave missing values out")
    if not len(column):
        return float("nan"), float("nan"), float("nan")
    if statistic == "proportion" and weights is None:
        codes = np.where(np.isnan(again), -1.0, again).astype(np.int8)
        shares = cell_shares(
            column.astype(np.int8), 2, n_resamples=n_resamples, redrawn=codes, clusters=clusters,
            confidence_level=confidence_level, seed=seed,
        )  # fmt: skip
        estimate, low, high = (float(part[1]) for part in shares)
        return estimate, low, high
    units = units_of(clusters, len(column))
    if weights is not None:
        return _weighted(
            column, again, np.asarray(weights, dtype=np.float64), statistic, units, n_resamples,
            confidence_level, seed,
        )  # fmt: skip
    found = _moved_back(
        column[None], again[None], statistic, units, n_resamples, confidence_level, seed
    )
    estimate, low, high = (float(part[0]) for part in found)
    return estimate, low, high


def _weighted(
    column: Floats,
    redrawn: Floats,
    weights: Floats,
    statistic: str,
    units: Units,
    n_resamples: int,
    confidence_level: float,
    seed: int,
) -> tuple[float, float, float]:
    """Return a weighted mean as the ratio of two means that share every resample."""
    if statistic == "median":
        raise InvalidInputError("weights are for means and proportions, not for medians")
    present = np.where(np.isnan(redrawn), np.nan, weights)
    parts = np.stack([redrawn * weights, present])
    drawn = two_level_replicates(parts, "mean", units, n_resamples, seed)
    with np.errstate(invalid="ignore"):
        low, high = ends(drawn[:, :1] / drawn[:, 1:], confidence_level)
        total = np.nansum(parts, axis=(1, 2))
        estimate = float(weights @ column / weights.sum())
        moved = float(total[0] / total[1]) - estimate
    return estimate, float(low[0]) - moved, float(high[0]) - moved


def cell_shares(
    codes: Any,
    n_classes: int,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    clusters: Any = None,
    redrawn: Any = None,
) -> tuple[Floats, Floats, Floats]:
    """Return the share of each class of a cell, with the ends of its interval.

    Parameters
    ----------
    codes : array-like of int, shape (n,)
        Classes 0 ... ``n_classes`` - 1 of the pairs of the cell.
    n_classes : int
        At least 2.
    n_resamples, confidence_level, seed, clusters
        As in :func:`cell_interval`.
    redrawn : array-like of int, shape (R, n), optional
        The classes under R redraws of the gold distributions; -1 where undefined.

    Returns
    -------
    estimate, low, high : (n_classes,) float64
        All classes share their resamples.

    Examples
    --------
    >>> import numpy as np
    >>> estimate, low, high = cell_shares([0, 0, 1, 2] * 25, 3, seed=0)
    >>> estimate.tolist(), bool((low < estimate).all()), bool((high > estimate).all())
    ([0.5, 0.25, 0.25], True, True)
    """
    classes = np.asarray(codes)
    if clusters is None and redrawn is None:
        result = class_shares(
            classes,
            n_classes,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            seed=seed,
        )
        return result.estimate, *result.confidence_interval
    if len(classes) and (classes.min() < 0 or classes.max() >= n_classes):
        raise InvalidInputError(f"codes must be classes below n_classes={n_classes}")
    if not len(classes):
        nothing = np.full(n_classes, np.nan)
        return nothing, nothing.copy(), nothing.copy()
    if n_classes > _MAXIMUM_CLASSES:
        raise InvalidInputError(f"at most {_MAXIMUM_CLASSES} classes, not {n_classes}")
    units = units_of(clusters, len(classes))
    again = classes[None] if redrawn is None else _check_redrawn(redrawn, len(classes), np.int8)
    drawn = two_level.two_level_counts(
        units.ordered(again.astype(np.int8, copy=False)),
        n_classes,
        units.offsets,
        seed_base(seed),
        n_resamples,
    )
    with np.errstate(invalid="ignore"):
        low, high = ends(drawn / drawn.sum(axis=1, keepdims=True), confidence_level)
    estimate = np.bincount(classes, minlength=n_classes) / len(classes)
    # Counting class by class: bincount would first make eight bytes of each of them.
    valid = np.array([np.count_nonzero(again == code) for code in range(n_classes)])
    moved = valid / max(int(valid.sum()), 1) - estimate
    return estimate, np.clip(low - moved, 0.0, 1.0), np.clip(high - moved, 0.0, 1.0)
