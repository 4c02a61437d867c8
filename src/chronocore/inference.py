"""Bootstrap intervals for the statistics a table shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.arrow import scalar_column
from chronocore.errors import InvalidInputError
from chronocore_kernels import resampling

__all__ = ["BootstrapResult", "bootstrap"]

_MAXIMUM_ROWS = 2**31


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """A statistic with its bootstrap interval.

    Attributes
    ----------
    estimate : float or numpy.ndarray
        The statistic of the sample itself.
    confidence_interval : tuple
        Lower and upper end, each shaped like ``estimate``.
    standard_error : float or numpy.ndarray
        Standard deviation (ddof = 1) of the replicates.
    method : str
        How the replicates were drawn: ``"resample"``.
    replicates : numpy.ndarray or None
        Shape (B,) or (B, m), only if asked for.
    """

    estimate: Any
    confidence_interval: tuple[Any, Any]
    standard_error: Any
    method: str
    replicates: NDArray[np.float64] | None = None


def _seed_base(seed: int | None) -> np.uint64:
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if not 0 <= seed < 2**64:
        raise InvalidInputError(f"seed must be an integer in [0, 2**64), not {seed}")
    # Neighbouring seeds must not give overlapping counter ranges.
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _quantile(statistic: str | float) -> float | None:
    if statistic == "median":
        return 0.5
    if isinstance(statistic, float) and 0 < statistic < 1:
        return statistic
    return None


def bootstrap(
    values: Any,
    statistic: str | float | Sequence[float | str],
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int | None = None,
    return_replicates: bool = False,
) -> BootstrapResult:
    """Return a statistic with its percentile bootstrap interval.

    Parameters
    ----------
    values : array-like or Arrow column of shape (n,)
        The sample. For ``"proportion"``: 0/1 values, or non-negative integer class codes.
    statistic : "mean", "median", "proportion", a quantile in (0, 1), or a list of quantiles
        ``"proportion"`` of 0/1 values is one number; of class codes 0 ... m - 1 with m > 2 it is
        one number a class, all from the same resamples. Quantiles are linear (type 7).
    n_resamples : int
        Number of resamples B.
    confidence_level : float
        Level of the interval, in (0, 1).
    seed : int, optional
        The same seed gives the same interval for any number of threads. By default a fresh one.
    return_replicates : bool
        Keep the replicates in the result.

    Returns
    -------
    BootstrapResult

    Raises
    ------
    InvalidInputError
        A value is not finite, or an argument is out of range. An empty sample is no error: its
        estimate and interval are NaN.

    Notes
    -----
    Resamples have the size of the sample; the ends of the interval are linear (type 7)
    percentiles of the replicates (definitions, section 9).

    Examples
    --------
    >>> import chronocore as cc
    >>> result = cc.bootstrap([0.0, 1.0, 1.0, 1.0], "proportion", seed=0)
    >>> result.estimate, result.confidence_interval
    (0.75, (0.25, 1.0))
    """
    sample = scalar_column(values, "values", np.float64)
    bad = np.flatnonzero(~np.isfinite(sample))
    if bad.size:
        raise InvalidInputError(f"values, row {int(bad[0])}: {sample[bad[0]]} is not finite")
    if not 0 < confidence_level < 1:
        raise InvalidInputError(f"confidence_level must lie in (0, 1), not {confidence_level}")
    if n_resamples < 1:
        raise InvalidInputError(f"n_resamples must be at least 1, not {n_resamples}")
    if len(sample) >= _MAXIMUM_ROWS:
        raise InvalidInputError(f"at most {_MAXIMUM_ROWS} values can be resampled")
    base = _seed_base(seed)
    n = len(sample)
    scalar = True
    if statistic == "mean":
        estimate = np.array([sample.mean()]) if n else np.array([np.nan])
        replicates = (
            resampling.resample_means(sample, base, n_resamples)[:, None] if n else np.empty((0, 1))
        )
    elif statistic == "proportion":
        codes = sample.astype(np.int64)
        if n and ((codes != sample).any() or codes.min() < 0):
            raise InvalidInputError("proportion needs 0/1 values or non-negative class codes")
        n_classes = max(int(codes.max(initial=0)) + 1, 2)
        scalar = n_classes == 2
        estimate = np.bincount(codes, minlength=n_classes) / n if n else np.full(n_classes, np.nan)
        replicates = (
            resampling.resample_counts(codes, n_classes, base, n_resamples) / n
            if n
            else np.empty((0, n_classes))
        )
        if scalar:
            estimate, replicates = estimate[1:], replicates[:, 1:]
    else:
        asked = [statistic] if isinstance(statistic, str | float) else list(statistic)
        scalar = isinstance(statistic, str | float)
        probabilities = [_quantile(one) for one in asked]
        if any(p is None for p in probabilities):
            raise InvalidInputError(
                f"statistic {statistic!r} is not known; use 'mean', 'median', 'proportion' "
                "or quantiles in (0, 1)"
            )
        levels = np.array(probabilities, dtype=np.float64)
        ascending = np.sort(sample)
        estimate = np.quantile(ascending, levels) if n else np.full(len(levels), np.nan)
        replicates = (
            resampling.resample_quantiles(ascending, levels, base, n_resamples)
            if n
            else np.empty((0, len(levels)))
        )
    tail = (1 - confidence_level) / 2
    if n:
        low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
        error = replicates.std(axis=0, ddof=1) if n_resamples > 1 else np.full(len(low), np.nan)
    else:
        low = high = error = np.full(len(estimate), np.nan)
    kept = replicates if return_replicates else None
    if scalar:
        return BootstrapResult(
            float(estimate[0]),
            (float(low[0]), float(high[0])),
            float(error[0]),
            "resample",
            None if kept is None else kept[:, 0],
        )
    return BootstrapResult(estimate, (low, high), error, "resample", kept)
