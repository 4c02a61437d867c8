"""Differences between models on the same pairs, with intervals that hold all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.identity import derived_seed
from chronocore.intervals import (
    SMALL_N,
    column_estimates,
    ends,
    two_level_replicates,
    units_of,
)

__all__ = ["Difference", "Measure", "PairedDifferences", "paired_differences"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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
    evaluated : (M, n) bool, optional
        The pairs that each model is evaluated on; by default all. Two models are compared on the
        pairs of both. A pair inside may have no value: each model's statistic leaves out its own.
    """

    name: str
    group: str
    statistic: str
    values: Floats
    clusters: Any = None
    redrawn: Floats | None = None
    evaluated: NDArray[np.bool_] | None = None


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
        Interval that holds for all comparisons at once; NaN with fewer than 20 units.
    p_value : float
        Chance of a difference as many standard errors from zero among all comparisons, had no
        two models differed; NaN with fewer than 20 units.
    n : int
        Pairs with a value for both models.
    units : int
        What is resampled of them: these pairs, or the clusters they belong to.
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
    units: int


@dataclass(frozen=True, slots=True)
class PairedDifferences:
    """All comparisons, and how many they are.

    Attributes
    ----------
    differences : list of Difference
    comparisons : int
        Comparisons that the simultaneous intervals and p-values allow for: those of at least 20
        units with a standard error above zero.
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
    correction would not. A bootstrap of fewer than 20 pairs or clusters knows neither its own
    standard error nor the tails of its deviations: such comparisons have an interval alone, and
    take no part in the maximum (definitions, section 9).

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
    drawing = _Drawing(n_resamples, confidence_level, seed)
    compared = [_compared(measure, pairs, len(labels), drawing, largest) for measure in measures]
    return _all_at_once(measures, labels, pairs, compared, largest, confidence_level)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How many resamples are drawn, what their intervals hold, and the seed."""

    n_resamples: int
    confidence_level: float
    seed: int


@dataclass(frozen=True, slots=True)
class _Compared:
    """The comparisons of one measure, arrays of one number a pair of models."""

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats
    counted: NDArray[np.bool_]
    n: Integers
    units: Integers


def _compared(
    measure: Measure,
    pairs: Sequence[tuple[int, int]],
    n_models: int,
    drawing: _Drawing,
    largest: Floats,
) -> _Compared:
    """Compare all models in one measure.

    ``largest``, the largest studentised deviation of each resample so far, is kept up to date:
    what would take a number a resample and comparison takes one a resample.
    """
    _check(measure, n_models)
    redraws = 1 if measure.redrawn is None else measure.redrawn.shape[1]
    same = measure.evaluated is None or bool(measure.evaluated.all())
    estimate, low, high, error = (np.full(len(pairs), np.nan) for _ in range(4))
    n, units = _sizes(measure, pairs)
    step = max(1, _DEVIATIONS // drawing.n_resamples)
    # Models with the same pairs have one column each; else every comparison has two of its own.
    size = max(drawing.n_resamples, redraws * measure.values.shape[1])
    part = len(pairs) if same else max(1, _DEVIATIONS // (2 * size))
    counted = np.zeros(len(pairs), dtype=bool)
    for start in range(0, len(pairs), max(part, 1)):
        inside = slice(start, start + part)
        columns = _Columns.of(measure, pairs[inside], same)
        replicates = columns.replicates(drawing)
        first, second = columns.first, columns.second
        estimate[inside] = columns.observed[first] - columns.observed[second]
        for begin in range(0, len(first), step):
            a, b = first[begin : begin + step], second[begin : begin + step]
            here = slice(start + begin, start + begin + len(a))
            deviation = (replicates[:, a] - replicates[:, b]) - (
                columns.centre[a] - columns.centre[b]
            )
            low[here], high[here] = ends(deviation, drawing.confidence_level)
            some = (~np.isnan(deviation)).sum(axis=0) > 1
            error[here][some] = np.nanstd(deviation[:, some], axis=0, ddof=1)
            # Models that agree on every pair do not differ in any resample either.
            own = (error[here] > np.abs(estimate[here]) * 1e-14) & (units[here] >= SMALL_N)
            counted[here] = own
            if own.any():
                studentised = np.abs(deviation[:, own]) / error[here][own]
                np.fmax(largest, np.fmax.reduce(studentised, axis=1), out=largest)
    return _Compared(estimate, estimate + low, estimate + high, error, counted, n, units)


def _sizes(measure: Measure, pairs: Sequence[tuple[int, int]]) -> tuple[Integers, Integers]:
    """Return the pairs with a value for both models of each comparison, and their units."""
    present = ~np.isnan(measure.values)
    if measure.evaluated is not None:
        present &= measure.evaluated
    both = (present[a] & present[b] for a, b in pairs)
    if measure.clusters is None:
        n = np.array([inside.sum() for inside in both], dtype=np.int64)
        return n, n
    _, codes = np.unique(np.asarray(measure.clusters), return_inverse=True)
    counts = [(inside.sum(), len(np.unique(codes.reshape(-1)[inside]))) for inside in both]
    n, units = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    return n, units


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that some comparisons take the difference of.

    Attributes
    ----------
    measure : Measure
    redrawn : (c, R, n) float64
        Values under every redraw of gold, those observed without redraws; NaN outside of the
        pairs that are compared.
    observed, centre : (c,) float64
        The statistic as observed, and of all redraws together.
    first, second : (comparisons,) int64
        The columns of each comparison.
    """

    measure: Measure
    redrawn: Floats
    observed: Floats
    centre: Floats
    first: Integers
    second: Integers

    @classmethod
    def of(cls, measure: Measure, pairs: Sequence[tuple[int, int]], same: bool) -> _Columns:
        """Return one column a model if all have the same pairs, else two a comparison."""
        values, redrawn = measure.values, measure.redrawn
        first, second = (np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
        if not same and measure.evaluated is not None:
            inside = measure.evaluated[first] & measure.evaluated[second]
            inside, own = np.concatenate([inside, inside]), np.concatenate([first, second])
            values = np.where(inside, values[own], np.nan)
            if redrawn is not None:
                redrawn = np.where(inside[:, None], redrawn[own], np.nan)
            first, second = np.arange(len(pairs)), np.arange(len(pairs)) + len(pairs)
        observed = column_estimates(values, measure.statistic)
        if redrawn is None:
            return cls(measure, values[:, None], observed, observed, first, second)
        centre = column_estimates(redrawn.reshape(len(redrawn), -1), measure.statistic)
        return cls(measure, redrawn, observed, centre, first, second)

    def replicates(self, drawing: _Drawing) -> Floats:
        """Return the statistic of every resample, (n_resamples, c); all share the resamples."""
        n = self.redrawn.shape[2]
        if not n:
            return np.full((drawing.n_resamples, len(self.redrawn)), np.nan)
        return two_level_replicates(
            self.redrawn,
            self.measure.statistic,
            units_of(self.measure.clusters, n),
            drawing.n_resamples,
            derived_seed(drawing.seed, "differences", self.measure.group),
        )


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
    if measure.evaluated is not None and (
        measure.evaluated.shape != shape or measure.evaluated.dtype != np.bool_
    ):
        raise InvalidInputError(
            f"{measure.name}: evaluated must be true or false in shape {shape}, not "
            f"{measure.evaluated.dtype} in {measure.evaluated.shape}"
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
    estimate, low, high, error, counted, n, units = (
        np.concatenate([getattr(one, name) for one in compared])
        for name in ("estimate", "low", "high", "error", "counted", "n", "units")
    )
    # Of few units nothing is known at once; models that agree everywhere do not differ.
    known = (error >= 0) & (units >= SMALL_N)
    critical = float("nan")
    p_values = np.where(known, np.where(estimate == 0, 1.0, 0.0), np.nan)
    if counted.any():
        critical = float(np.quantile(largest, confidence_level))
        reached = np.abs(estimate[counted]) / error[counted]
        ordered = np.sort(largest)
        beyond = len(ordered) - np.searchsorted(ordered, reached, side="left")
        p_values[counted] = (1 + beyond) / (1 + len(ordered))
    half = np.where(known, np.where(counted, error * critical, 0.0), np.nan)
    rows = [
        Difference(
            group=measure.group,
            measure=measure.name,
            first=labels[a],
            second=labels[b],
            estimate=float(estimate[place]),
            low=float(low[place]),
            high=float(high[place]),
            simultaneous_low=float(estimate[place] - half[place]),
            simultaneous_high=float(estimate[place] + half[place]),
            p_value=float(p_values[place]),
            n=int(n[place]),
            units=int(units[place]),
        )
        for place, (measure, (a, b)) in enumerate(product(measures, pairs))
    ]
    return PairedDifferences(rows, int(counted.sum()), critical)
