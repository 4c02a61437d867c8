"""Differences between models on the same pairs, with intervals that hold all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.identity import derived_seed
from chronocore.intervals import column_estimates, ends, two_level_replicates, units_of

__all__ = ["Difference", "Measure", "PairedDifferences", "paired_differences"]

Floats = NDArray[np.float64]

STATISTICS = ("mean", "median", "proportion")

# Deviations that are looked at together.
_DEVIATIONS = 20_000_000


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared: one statistic of the same pairs for every model.

    Attributes
    ----------
    name : str
    group : str
        The pairs it is a statistic of. Measures of one group share their resamples.
    statistic : {"mean", "proportion", "median"}
    values : (M, n) float64
        One row a model, one column a pair of the group; NaN where a model has no value.
    clusters : (n,), optional
        Labels; whole clusters are resampled. The same for all measures of a group.
    redrawn : (M, R, n) float64, optional
        The values under R redraws of the gold distributions, the same redraws for all models.
    """

    name: str
    group: str
    statistic: str
    values: Floats
    clusters: Any = None
    redrawn: Floats | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One comparison: the first model's statistic minus the second's.

    Attributes
    ----------
    group, measure, first, second : str
    estimate : float
    low, high : float
        Percentile interval of this difference alone.
    simultaneous_low, simultaneous_high : float
        Interval that holds for all comparisons at once.
    p_value : float
        Chance of a difference as many standard errors from zero among all comparisons, had no
        two models differed.
    n : int
        Pairs with a value for both models.
    """

    group: str
    measure: str
    first: str
    second: str
    estimate: float
    low: float
    high: float
    simultaneous_low: float
    simultaneous_high: float
    p_value: float
    n: int


@dataclass(frozen=True, slots=True)
class PairedDifferences:
    """All comparisons, and how many they are.

    Attributes
    ----------
    differences : list of Difference
    comparisons : int
        Comparisons that the simultaneous intervals and p-values allow for: those with a standard
        error above zero.
    critical_value : float
        Standard errors that the simultaneous intervals reach to either side; NaN without a
        comparison.
    """

    differences: list[Difference]
    comparisons: int
    critical_value: float


def paired_differences(
    measures: Sequence[Measure],
    labels: Sequence[str],
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> PairedDifferences:
    """Return the differences between all models in all measures.

    Parameters
    ----------
    measures : sequence of Measure
    labels : sequence of str
        Names of the M models, in the order of the rows of ``values``.
    n_resamples, confidence_level
        As in :func:`chronocore.bootstrap`.
    seed : int
        The same seed gives the same intervals for any number of threads.

    Returns
    -------
    PairedDifferences
        Every model minus every later one, measure by measure.

    Raises
    ------
    InvalidInputError
        Shapes do not match the labels or each other, or a statistic is not known.

    Notes
    -----
    Both models of a comparison are resampled with the same pairs, so that what makes a pair hard
    for both cancels. The simultaneous intervals reach to both sides by the same number of
    standard errors: the quantile, over resamples, of the largest studentised deviation among all
    comparisons (max-t). They allow for the comparisons being correlated, where a Bonferroni
    correction would not.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = rng.random(400)
    >>> values = np.stack([first, first + 0.05 + 0.1 * rng.random(400)])
    >>> result = paired_differences([Measure("error", "all", "mean", values)], ["a", "b"])
    >>> one = result.differences[0]
    >>> round(one.estimate, 2), one.simultaneous_high < 0, result.comparisons
    (-0.1, True, 1)
    """
    pairs = list(combinations(range(len(labels)), 2))
    largest = np.zeros(n_resamples)
    compared = [
        _compared(measure, pairs, len(labels), n_resamples, confidence_level, seed, largest)
        for measure in measures
    ]
    return _all_at_once(measures, labels, pairs, compared, largest, confidence_level)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The comparisons of one measure, arrays of one number a pair of models."""

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats
    counted: NDArray[np.bool_]


def _compared(
    measure: Measure,
    pairs: Sequence[tuple[int, int]],
    n_models: int,
    n_resamples: int,
    confidence_level: float,
    seed: int,
    largest: Floats,
) -> _Compared:
    """Compare all models in one measure.

    ``largest``, the largest studentised deviation of each resample so far, is kept up to date:
    what would take a number a resample and comparison takes one a resample.
    """
    _check(measure, n_models)
    n = measure.values.shape[1]
    observed = column_estimates(measure.values, measure.statistic)
    columns = measure.values[:, None] if measure.redrawn is None else measure.redrawn
    if n:
        replicates = two_level_replicates(
            columns,
            measure.statistic,
            units_of(measure.clusters, n),
            n_resamples,
            derived_seed(seed, "differences", measure.group),
        )
    else:
        replicates = np.full((n_resamples, n_models), np.nan)
    centre = observed
    if measure.redrawn is not None:
        centre = column_estimates(measure.redrawn.reshape(n_models, -1), measure.statistic)
    first, second = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    estimate = observed[first] - observed[second]
    low, high, error = (np.full(len(pairs), np.nan) for _ in range(3))
    counted = np.zeros(len(pairs), dtype=bool)
    step = max(1, _DEVIATIONS // n_resamples)
    for begin in range(0, len(pairs), step):
        here = slice(begin, begin + step)
        a, b = first[here], second[here]
        deviation = (replicates[:, a] - replicates[:, b]) - (centre[a] - centre[b])
        low[here], high[here] = ends(deviation, confidence_level)
        some = (~np.isnan(deviation)).sum(axis=0) > 1
        error[here][some] = np.nanstd(deviation[:, some], axis=0, ddof=1)
        # Models that agree on every pair do not differ in any resample either.
        counted[here] = own = error[here] > np.abs(estimate[here]) * 1e-14
        if own.any():
            studentised = np.abs(deviation[:, own]) / error[here][own]
            np.fmax(largest, np.fmax.reduce(studentised, axis=1), out=largest)
    return _Compared(estimate, estimate + low, estimate + high, error, counted)


def _check(measure: Measure, n_models: int) -> None:
    if measure.statistic not in STATISTICS:
        raise InvalidInputError(
            f"statistic {measure.statistic!r} is none of {', '.join(STATISTICS)}"
        )
    shape = measure.values.shape
    if len(shape) != 2 or shape[0] != n_models:
        raise InvalidInputError(
            f"{measure.name}: values must have shape ({n_models}, pairs), not {shape}"
        )
    if measure.redrawn is not None and (
        measure.redrawn.ndim != 3
        or (measure.redrawn.shape[0], measure.redrawn.shape[2]) != shape
        or not measure.redrawn.shape[1]
    ):
        raise InvalidInputError(
            f"{measure.name}: redrawn must have shape ({shape[0]}, redraws, {shape[1]}), not "
            f"{measure.redrawn.shape}"
        )


def _all_at_once(
    measures: Sequence[Measure],
    labels: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    compared: Sequence[_Compared],
    largest: Floats,
    confidence_level: float,
) -> PairedDifferences:
    if not measures or not pairs:
        return PairedDifferences([], 0, float("nan"))
    estimate, low, high, error = (
        np.concatenate([getattr(one, name) for one in compared])
        for name in ("estimate", "low", "high", "error")
    )
    counted = np.concatenate([one.counted for one in compared])
    critical = float("nan")
    p_values = np.where(error >= 0, np.where(estimate == 0, 1.0, 0.0), np.nan)
    if counted.any():
        critical = float(np.quantile(largest, confidence_level))
        reached = np.abs(estimate[counted]) / error[counted]
        ordered = np.sort(largest)
        beyond = len(ordered) - np.searchsorted(ordered, reached, side="left")
        p_values[counted] = (1 + beyond) / (1 + len(ordered))
    half = np.where(counted, np.where(counted, error, 0.0) * critical, 0.0)
    rows: list[Difference] = []
    place = 0
    for measure in measures:
        present = ~np.isnan(measure.values)
        for a, b in pairs:
            known = error[place] >= 0
            rows.append(
                Difference(
                    group=measure.group,
                    measure=measure.name,
                    first=labels[a],
                    second=labels[b],
                    estimate=float(estimate[place]),
                    low=float(low[place]),
                    high=float(high[place]),
                    simultaneous_low=float(estimate[place] - half[place]) if known else np.nan,
                    simultaneous_high=float(estimate[place] + half[place]) if known else np.nan,
                    p_value=float(p_values[place]),
                    n=int((present[a] & present[b]).sum()),
                )
            )
            place += 1
    return PairedDifferences(rows, int(counted.sum()), critical)
