"""Bootstrap intervals: exact laws where they exist, index resampling elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.special
from numpy.typing import NDArray

from chronocore.arrow import scalar_column
from chronocore.errors import InvalidInputError
from chronocore_kernels import multinomial, resampling

__all__ = ["INTERVALS", "METHODS", "BootstrapResult", "bootstrap", "class_shares", "seed_base"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: How replicates can be made; ``"auto"`` takes the first exact law that applies.
METHODS = ("auto", "resample", "multinomial", "levels", "rank", "ideal")
INTERVALS = ("percentile", "basic", "bca")

_MAXIMUM_ROWS = 2**32 - 1
# Up to here a sample's mean is drawn from the counts of its distinct values: one binomial a level
# costs as much as some twenty gathered values.
_MAXIMUM_LEVELS = 64
# Window of a rank law in standard deviations: what lies outside has a chance below 1e-22.
_RANK_WINDOW = 10.0
# Cells of the ideal bootstrap's grid for each standard deviation of the values.
_GRID = 64


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
        Standard deviation of the replicates (ddof = 1), or of their exact law.
    method : str
        How the replicates were made: ``"multinomial"``, ``"levels"``, ``"rank"``,
        ``"resample"`` or ``"ideal"``.
    interval : str
        The kind of interval: ``"percentile"``, ``"basic"`` or ``"bca"``; where BCa is undefined
        (a constant sample, all replicates on one side) the percentile interval is given and
        named.
    replicates : numpy.ndarray or None
        Shape (B,) + shape of ``estimate``, only if asked for.
    """

    estimate: Any
    confidence_interval: tuple[Any, Any]
    standard_error: Any
    method: str
    interval: str
    replicates: Floats | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """What is resampled: the columns of values, and the units (rows or clusters) drawn."""

    values: Floats  # (n, m)
    paired: Floats | None  # (n, m)
    weights: Floats | None  # (n,)
    units: Integers  # (n,) unit of each row
    n_units: int
    clustered: bool


@dataclass(frozen=True, slots=True)
class _Replicates:
    """Estimates (p,), replicates (B, p) and what an interval may need besides."""

    estimate: Floats
    replicates: Floats
    method: str


def seed_base(seed: int | None) -> np.uint64:
    """Return where the stream of a seed begins; a fresh one without a seed.

    Raises
    ------
    InvalidInputError
        The seed is no integer in [0, 2**64).
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InvalidInputError(f"seed must be an integer in [0, 2**64), not {seed!r}")
    # Neighbouring seeds must not give overlapping counter ranges.
    return np.uint64(np.random.SeedSequence(int(seed)).generate_state(1, np.uint64)[0])


def _columns(data: Any, name: str) -> tuple[Floats, bool]:
    """Return values as (n, m) and whether they came as one column."""
    if isinstance(data, np.ndarray | Sequence) and np.ndim(data) == 2:
        matrix = np.array(data, dtype=np.float64)
        one = False
    else:
        matrix = scalar_column(data, name, np.float64)[:, None]
        one = True
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise InvalidInputError(
            f"{name}, row {row}: {matrix[row, column]} is not finite; leave missing values out"
        )
    return matrix, one


def _check_rows(n: int, data: Floats | Integers, name: str) -> None:
    if len(data) != n:
        raise InvalidInputError(f"values has {n} rows, {name} {len(data)}")


def _sample(values: Any, weights: Any, clusters: Any, paired: Any) -> tuple[_Sample, bool]:
    matrix, one = _columns(values, "values")
    n = len(matrix)
    if n > _MAXIMUM_ROWS:
        raise InvalidInputError(f"at most {_MAXIMUM_ROWS} values can be resampled")
    other: Floats | None = None
    if paired is not None:
        other, _ = _columns(paired, "paired")
        if other.shape != matrix.shape:
            raise InvalidInputError(
                f"paired must have the shape of values, {matrix.shape}, not {other.shape}"
            )
    weight: Floats | None = None
    if weights is not None:
        weight = scalar_column(weights, "weights", np.float64)
        _check_rows(n, weight, "weights")
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))
        if bad.size:
            row = int(bad[0])
            raise InvalidInputError(f"weights, row {row}: {weight[row]} is not finite and > 0")
    units, n_units = np.arange(n), n
    if clusters is not None:
        labels = _labels(clusters)
        _check_rows(n, labels, "clusters")
        _, units = np.unique(labels, return_inverse=True)
        units = units.reshape(-1).astype(np.int64)
        n_units = int(units.max(initial=-1)) + 1
    return _Sample(matrix, other, weight, units, n_units, clusters is not None), one


def _labels(clusters: Any) -> NDArray[Any]:
    if hasattr(clusters, "__arrow_c_stream__") or hasattr(clusters, "__arrow_c_array__"):
        from chronocore.arrow import column_array

        clusters = column_array(clusters, "clusters").to_pylist()
    labels = np.asarray(clusters)
    if labels.ndim != 1:
        raise InvalidInputError(f"clusters must have one dimension, it has {labels.ndim}")
    if labels.dtype == object:
        missing = [i for i, label in enumerate(labels) if label is None]
        if missing:
            raise InvalidInputError(f"clusters, row {missing[0]}: no label")
        labels = labels.astype(str)
    return labels


# -- statistics ----------------------------------------------------------------------------------


def _parse(statistic: Any) -> tuple[list[str | float], bool]:
    """Return the statistics asked for, and whether it was a single one."""
    single = isinstance(statistic, str | float)
    asked = [statistic] if single else list(statistic)
    parsed: list[str | float] = []
    for one in asked:
        if one in ("mean", "proportion"):
            parsed.append(one)
        elif one == "median":
            parsed.append(0.5)
        elif isinstance(one, float) and 0 < one < 1:
            parsed.append(float(one))
        else:
            raise InvalidInputError(
                f"statistic {one!r} is not known; use 'mean', 'median', 'proportion' or "
                "quantiles in (0, 1)"
            )
    if not parsed:
        raise InvalidInputError("no statistic was asked for")
    return parsed, single


def _class_codes(values: Floats) -> Integers:
    codes = values.astype(np.int64)
    if len(codes) and ((codes != values).any() or codes.min() < 0):
        raise InvalidInputError("proportion needs 0/1 values or non-negative integer class codes")
    return codes


def _is_binary(values: Floats) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _expand_classes(sample: _Sample) -> tuple[_Sample, int]:
    """Turn class codes into one 0/1 column a class; 0/1 values stay as they are."""
    both = [sample.values] if sample.paired is None else [sample.values, sample.paired]
    if all(_is_binary(matrix) for matrix in both):
        return sample, 1
    if sample.values.shape[1] != 1:
        raise InvalidInputError("several columns of class codes are not supported; pass one")
    n_classes = max(int(_class_codes(matrix[:, 0]).max(initial=0)) + 1 for matrix in both)
    hot = [np.eye(n_classes)[_class_codes(matrix[:, 0])] for matrix in both]
    paired = hot[1] if sample.paired is not None else None
    expanded = _Sample(
        hot[0], paired, sample.weights, sample.units, sample.n_units, sample.clustered
    )
    return expanded, n_classes


def _unit_sums(rows: Floats, sample: _Sample) -> Floats:
    """Return the sum of each column over the rows of each unit, shape (m, n_units)."""
    if not sample.clustered:
        return np.ascontiguousarray(rows.T)
    return np.stack(
        [np.bincount(sample.units, rows[:, j], sample.n_units) for j in range(rows.shape[1])]
    )


def _linear_columns(sample: _Sample) -> Floats:
    """Return the columns whose sums make a weighted mean: numerators, and the denominator last."""
    weights = np.ones(len(sample.values)) if sample.weights is None else sample.weights
    parts = [sample.values * weights[:, None]]
    if sample.paired is not None:
        parts.append(sample.paired * weights[:, None])
    if sample.weights is None and not sample.clustered:
        return _unit_sums(np.concatenate(parts, axis=1), sample)
    return _unit_sums(np.concatenate([*parts, weights[:, None]], axis=1), sample)


def _ratio(sums: Floats, sample: _Sample) -> Floats:
    """Return the (differences of) means from sums over a resample, shape (..., m)."""
    m = sample.values.shape[1]
    if sample.weights is None and not sample.clustered:
        means = sums / sample.n_units
    else:
        means = sums[..., :-1] / sums[..., -1:]
    return means if sample.paired is None else means[..., :m] - means[..., m:]


def _quantile(values: Floats, probability: float) -> float:
    return float(np.quantile(values, probability)) if len(values) else math.nan


def _resample(
    sample: _Sample, statistics: Sequence[str | float], base: np.uint64, b: int
) -> _Replicates:
    """Resample rows or clusters; all statistics and columns share the resamples."""
    estimates: list[Floats] = []
    replicates: list[Floats] = []
    n = len(sample.values)
    if any(isinstance(s, str) for s in statistics):
        columns = _linear_columns(sample)
        sums = resampling.resample_sums(columns, base, b) if n else np.empty((0, len(columns)))
        with np.errstate(invalid="ignore"):
            mean = _ratio(columns.sum(axis=1), sample)
        mean_replicates = _ratio(sums, sample)
    for statistic in statistics:
        if isinstance(statistic, str):
            estimates.append(mean)
            replicates.append(mean_replicates)
            continue
        parts = []
        for matrix in (sample.values, sample.paired):
            if matrix is None:
                continue
            estimate = np.array([_quantile(column, statistic) for column in matrix.T])
            drawn = np.empty((b if n else 0, matrix.shape[1]))
            for j in range(matrix.shape[1] if n else 0):
                order = np.argsort(matrix[:, j], kind="stable")
                drawn[:, j] = resampling.resample_quantiles(
                    matrix[order, j],
                    sample.units[order],
                    sample.n_units,
                    np.array([statistic]),
                    base,
                    b,
                )[:, 0]
            parts.append((estimate, drawn))
        estimates.append(parts[0][0] if len(parts) == 1 else parts[0][0] - parts[1][0])
        replicates.append(parts[0][1] if len(parts) == 1 else parts[0][1] - parts[1][1])
    # Shape (m, s) flattened: columns first, statistics within.
    return _Replicates(
        np.stack(estimates, axis=-1).reshape(-1),
        np.stack(replicates, axis=-1).reshape(len(replicates[0]), sum(map(len, estimates))),
        "resample",
    )


def _levels(values: Floats, base: np.uint64, b: int) -> _Replicates:
    """Draw the mean of few distinct values from the multinomial law of their counts."""
    levels, counts = np.unique(values, return_counts=True)
    drawn = multinomial.multinomial_counts(counts.astype(np.int64), base, b)
    replicates = (levels @ drawn / len(values))[:, None]
    return _Replicates(np.array([values.mean()]), replicates, "levels")


def _rank_law(n: int, rank: int, with_next: bool) -> tuple[int, Floats, Floats]:
    """Return the law of the rank, in the sample, of the ``rank``-th smallest of a resample.

    Returns
    -------
    first : int
        The smallest rank with a chance worth a cell.
    chances : (s,)
    moves : (s,)
        Chance that the next order statistic is a larger value of the sample, given the rank;
        zero unless ``with_next``.
    """
    centre = n * (rank - 0.5) / n
    width = _RANK_WINDOW * math.sqrt(max(centre * (1 - centre / n), 1.0)) + 40
    first = max(1, math.floor(centre - width))
    last = min(n, math.ceil(centre + width))
    ranks = np.arange(first - 1, last + 1)
    share = ranks / n
    # P(rank-th smallest <= j) = P(at least `rank` of n draws are among the j smallest)
    at_most = scipy.special.betainc(rank, n - rank + 1, share)
    chances = np.diff(at_most)
    moves = np.zeros(len(chances))
    if with_next and rank < n:
        # Exactly `rank` draws among the a smallest, and at least one of them is the a-th itself.
        exactly = at_most - scipy.special.betainc(rank + 1, n - rank, share)
        a = ranks[1:].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            one_at_a = -np.expm1(rank * np.log1p(-1 / a))
            moves = np.where(chances > 0, exactly[1:] * one_at_a / chances, 0.0)
    return first, chances, np.clip(moves, 0.0, 1.0)


def _rank_place(n: int, probability: float) -> tuple[int, float]:
    place = probability * (n - 1)
    below = int(place)
    return below + 1, place - below


def _rank(values: Floats, probability: float, base: np.uint64, b: int) -> _Replicates:
    """Draw a quantile from the law of its ranks: O(1) a resample."""
    ascending = np.sort(values)
    n = len(values)
    rank, fraction = _rank_place(n, probability)
    first, chances, moves = _rank_law(n, rank, fraction > 0)
    threshold, alias = resampling.alias_table(chances)
    replicates = resampling.rank_replicates(
        ascending, rank, fraction, first, threshold, alias, moves, base, b
    )
    return _Replicates(np.array([_quantile(ascending, probability)]), replicates[:, None], "rank")


# -- the ideal bootstrap: the exact law of all resamples -------------------------------------------


@dataclass(frozen=True, slots=True)
class _Law:
    """A discrete distribution: ascending values and their chances."""

    values: Floats
    chances: Floats

    def quantiles(self, levels: Floats) -> Floats:
        cumulative = np.cumsum(self.chances)
        index = np.searchsorted(cumulative, np.asarray(levels) * cumulative[-1] - 1e-15)
        return np.asarray(self.values[np.minimum(index, len(self.values) - 1)])

    def deviation(self) -> float:
        total = self.chances.sum()
        mean = self.values @ self.chances / total
        return float(math.sqrt(max(((self.values - mean) ** 2) @ self.chances / total, 0.0)))


def _ideal_rank(values: Floats, probability: float) -> _Law:
    """Return the law of a quantile over all n**n resamples."""
    ascending = np.sort(values)
    n = len(values)
    rank, fraction = _rank_place(n, probability)
    first, chances, moves = _rank_law(n, rank, fraction > 0)
    a = np.arange(first, first + len(chances))
    low = ascending[a - 1]
    if fraction == 0:
        return _Law(low, chances)
    points = [low]
    weights = [chances * (1 - moves)]
    # The next order statistic is the smallest of n - rank draws above a; 64 steps leave 1e-27.
    left = (n - a).astype(np.float64)
    for step in range(1, 65):
        b = a + step
        inside = b <= n
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where(left > step - 1, ((left - step + 1) / left) ** (n - rank), 0.0)
            after = np.where(left > step, ((left - step) / left) ** (n - rank), 0.0)
        high = ascending[np.minimum(b, n) - 1]
        points.append(low + (high - low) * fraction)
        weights.append(np.where(inside, chances * moves * (beyond - after), 0.0))
    flat, mass = np.concatenate(points), np.concatenate(weights)
    order = np.argsort(flat, kind="stable")
    return _Law(flat[order], mass[order])


def _ideal_mean(values: Floats, levels: Floats) -> tuple[Floats, float]:
    """Return quantiles of the mean over all resamples, by powers of its Fourier transform.

    Each value is split between two neighbouring cells of a grid so that its mean is kept; the
    grid, sd / 64, adds less than 1e-4 of the variance. Returned with the exact standard error.
    """
    n = len(values)
    mean, deviation = float(values.mean()), float(values.std())
    if deviation <= abs(mean) * 1e-14:
        return np.full(len(levels), mean), 0.0
    step = deviation / _GRID
    size = scipy.fft.next_fast_len(
        max(int(2 * 9 * deviation * math.sqrt(n) / step), 4 * _GRID), real=True
    )
    place = (values - mean) / step
    below = np.floor(place)
    share = place - below
    cell = below.astype(np.int64)
    mass = np.bincount(cell % size, 1 - share, size) + np.bincount((cell + 1) % size, share, size)
    transform = scipy.fft.rfft(mass / n)
    law = scipy.fft.irfft(transform**n, size)
    law = np.maximum(np.fft.fftshift(law), 0.0)
    grid = (np.arange(size) - size // 2) * step
    cumulative = np.cumsum(law) - 0.5 * law
    ends = mean + np.interp(levels, cumulative / law.sum(), grid) / n
    # No resample has a mean outside the values.
    return np.clip(ends, values.min(), values.max()), deviation / math.sqrt(n)


def _ideal(
    values: Floats, statistic: str | float, n_classes: int, levels: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return estimate (p,), quantiles (2, p) and standard error (p,) of the ideal bootstrap."""
    n = len(values)
    if statistic == "mean":
        quantiles, deviation = _ideal_mean(values, levels)
        return np.array([values.mean()]), quantiles[:, None], np.array([deviation])
    if statistic == "proportion":
        counts = np.bincount(_class_codes(values), minlength=max(n_classes, 2))
        shares = counts / n
        # Imported here: scipy.stats takes longer to load than all else together.
        import scipy.stats

        ends = scipy.stats.binom.ppf(levels[:, None], n, shares[None]) / n
        error = np.sqrt(shares * (1 - shares) / n)
        keep = slice(1, None) if n_classes == 1 else slice(None)
        return shares[keep], ends[:, keep], error[keep]
    assert isinstance(statistic, float)
    law = _ideal_rank(values, statistic)
    estimate = np.array([_quantile(values, statistic)])
    return estimate, law.quantiles(levels)[:, None], np.array([law.deviation()])


# -- intervals -----------------------------------------------------------------------------------


def _jackknife(sample: _Sample, statistics: Sequence[str | float]) -> Floats:
    """Return the statistics without each unit in turn, shape (n_units, p)."""
    parts: list[Floats] = []
    columns = _linear_columns(sample)
    for statistic in statistics:
        if isinstance(statistic, str):
            rest = (columns.sum(axis=1, keepdims=True) - columns).T
            if sample.weights is None and not sample.clustered:
                rest = rest * sample.n_units / (sample.n_units - 1)
            parts.append(_ratio(rest, sample))
            continue
        both = []
        for matrix in (sample.values, sample.paired):
            if matrix is not None:
                both.append(_quantiles_without(matrix, sample, statistic))
        parts.append(both[0] if len(both) == 1 else both[0] - both[1])
    return np.stack(parts, axis=-1).reshape(sample.n_units, -1)


def _quantiles_without(matrix: Floats, sample: _Sample, probability: float) -> Floats:
    n, m = matrix.shape
    out = np.empty((sample.n_units, m))
    for j in range(m):
        if sample.clustered:
            for unit in range(sample.n_units):
                out[unit, j] = _quantile(matrix[sample.units != unit, j], probability)
            continue
        order = np.argsort(matrix[:, j], kind="stable")
        ascending = matrix[order, j]
        rank, fraction = _rank_place(n - 1, probability)
        place = np.arange(n)  # sorted place of the row left out
        low = ascending[rank - 1 + (place <= rank - 1)]
        high = ascending[np.minimum(rank + (place <= rank), n - 1)]
        out[order, j] = low + (high - low) * fraction
    return out


def _bca_levels(
    replicates: Floats, estimate: Floats, jackknife: Floats, tail: float
) -> Floats | None:
    """Return the adjusted levels (2, p) of the BCa interval; None where one is undefined."""
    below = (replicates < estimate).mean(axis=0) + 0.5 * (replicates == estimate).mean(axis=0)
    centred = jackknife.mean(axis=0) - jackknife
    spread = (centred**2).sum(axis=0)
    if ((below <= 0) | (below >= 1) | (spread <= 0)).any():
        return None
    bias = scipy.special.ndtri(below)
    acceleration = (centred**3).sum(axis=0) / (6 * spread**1.5)
    z = scipy.special.ndtri(np.array([tail, 1 - tail]))[:, None]
    shifted = bias + z
    levels = scipy.special.ndtr(bias + shifted / (1 - acceleration * shifted))
    return levels if np.isfinite(levels).all() else None


def _ends(replicates: Floats, levels: Floats) -> Floats:
    """Return type-7 quantiles of each column, shape (2, p); a partition, not a sort."""
    b = len(replicates)
    place = levels * (b - 1)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, b - 1)
    share = place - below
    ends = np.empty((len(levels), replicates.shape[1]))
    for j in range(replicates.shape[1]):
        column = np.partition(replicates[:, j], np.unique(np.concatenate([below, above])))
        ends[:, j] = column[below] + (column[above] - column[below]) * share
    return ends


def _interval(
    drawn: _Replicates,
    level: float,
    kind: str,
    sample: _Sample,
    statistics: Sequence[str | float],
) -> tuple[Floats, Floats, str]:
    tail = (1 - level) / 2
    if not len(drawn.replicates):
        nothing = np.full(len(drawn.estimate), np.nan)
        return nothing, nothing, kind
    low, high = _ends(drawn.replicates, np.array([tail, 1 - tail]))
    if kind == "basic":
        return 2 * drawn.estimate - high, 2 * drawn.estimate - low, kind
    if kind == "bca":
        levels = (
            _bca_levels(drawn.replicates, drawn.estimate, _jackknife(sample, statistics), tail)
            if sample.n_units > 1
            else None
        )
        if levels is None:
            return low, high, "percentile"
        pairs = [np.quantile(drawn.replicates[:, j], levels[:, j]) for j in range(levels.shape[1])]
        ends = np.stack(pairs, axis=-1)
        return ends[0], ends[1], kind
    return low, high, kind


# -- the function --------------------------------------------------------------------------------


def _choose(method: str, sample: _Sample, statistics: list[str | float], infinite: bool) -> str:
    """Return the method in force, or say why the one asked for does not apply."""
    simple = (
        len(statistics) == 1
        and sample.values.shape[1] == 1
        and sample.weights is None
        and not sample.clustered
    )
    statistic = statistics[0]
    unpaired = sample.paired is None
    applies = {
        "resample": not infinite,
        "multinomial": simple and unpaired and statistic == "proportion" and not infinite,
        "levels": simple and statistic == "mean" and not infinite,
        "rank": simple and unpaired and isinstance(statistic, float) and not infinite,
        "ideal": simple and infinite and (unpaired or statistic == "mean"),
    }
    if method == "auto":
        if infinite:
            method = "ideal"
        elif applies["multinomial"]:
            method = "multinomial"
        elif applies["rank"]:
            method = "rank"
        elif applies["levels"] and _few_levels(_difference(sample)):
            method = "levels"
        else:
            method = "resample"
    if method == "ideal" and not infinite:
        raise InvalidInputError("method 'ideal' goes with n_resamples=math.inf")
    if not applies[method]:
        raise InvalidInputError(
            f"method {method!r} does not apply here; it needs one statistic of one column "
            "without weights and clusters"
            + ("" if method != "ideal" else ", and no paired values but for a mean")
        )
    if sample.weights is not None and any(isinstance(s, float) for s in statistics):
        raise InvalidInputError("weights are for means and proportions, not for quantiles")
    return method


def _few_levels(values: Floats) -> bool:
    # A look at a part tells most continuous samples without sorting them whole.
    if len(set(values[: 4 * _MAXIMUM_LEVELS].tolist())) > _MAXIMUM_LEVELS:
        return False
    levels = len(np.unique(values))
    return levels <= _MAXIMUM_LEVELS and len(values) > 20 * levels


def _difference(sample: _Sample) -> Floats:
    values = sample.values[:, 0]
    return values if sample.paired is None else values - sample.paired[:, 0]


def bootstrap(
    values: Any,
    statistic: str | float | Sequence[str | float],
    *,
    n_resamples: float = 1000,
    confidence_level: float = 0.95,
    weights: Any = None,
    clusters: Any = None,
    paired: Any = None,
    method: str = "auto",
    interval: str = "percentile",
    seed: int | None = None,
    return_replicates: bool = False,
) -> BootstrapResult:
    """Return a statistic with its bootstrap interval.

    Where the law of a resampled statistic is known, replicates are drawn from it instead of from
    resampled rows: the result has exactly the same distribution and costs a fraction.

    Parameters
    ----------
    values : array-like or Arrow column of shape (n,), or array-like of shape (n, m)
        The sample; several columns share every resample.
    statistic : "mean", "median", "proportion", a quantile in (0, 1), or several of them
        ``"proportion"`` of 0/1 values is one number; of class codes 0 ... c - 1 it is one number
        a class, all from the same resamples. Quantiles are linear (type 7). Several statistics
        share the resamples.
    n_resamples : int or math.inf
        Number of resamples B. ``math.inf`` gives the ideal bootstrap: the law of all resamples,
        without Monte-Carlo error.
    confidence_level : float
        Level of the interval, in (0, 1).
    weights : array-like of shape (n,), optional
        Finite and > 0, for (weighted) means and proportions.
    clusters : array-like of shape (n,), optional
        Labels; whole clusters are resampled.
    paired : array-like shaped like ``values``, optional
        The statistic is the difference, values minus paired, on the same resamples.
    method : {"auto", "resample", "multinomial", "levels", "rank", "ideal"}
        ``"auto"`` takes an exact law where one applies. Forcing one that does not is an error.
    interval : {"percentile", "basic", "bca"}
    seed : int, optional
        The same seed gives the same draws for any number of threads. By default a fresh one.
    return_replicates : bool
        Keep the replicates in the result.

    Returns
    -------
    BootstrapResult
        With the method used. Memory is O(n + B).

    Raises
    ------
    InvalidInputError
        A value is not finite, or an argument is out of range or does not fit another. An empty
        sample is no error: its estimate and interval are NaN.

    Notes
    -----
    Percentile ends are linear (type 7) percentiles of the replicates (definitions, section 9;
    ChronoCulture, appendices C.1 and E.4).

    Examples
    --------
    >>> import math
    >>> import chronocore as cc
    >>> result = cc.bootstrap([0.0] * 30 + [1.0] * 70, "proportion", n_resamples=math.inf)
    >>> result.estimate, result.confidence_interval, result.method
    (0.7, (0.61, 0.79), 'ideal')
    """
    statistics, single = _parse(statistic)
    if method not in METHODS:
        raise InvalidInputError(f"method {method!r} is none of {', '.join(METHODS)}")
    if interval not in INTERVALS:
        raise InvalidInputError(f"interval {interval!r} is none of {', '.join(INTERVALS)}")
    if not 0 < confidence_level < 1:
        raise InvalidInputError(f"confidence_level must lie in (0, 1), not {confidence_level}")
    infinite = n_resamples == math.inf
    if not infinite and (n_resamples != int(n_resamples) or n_resamples < 1):
        raise InvalidInputError(f"n_resamples must be an integer >= 1 or inf, not {n_resamples}")
    sample, one_column = _sample(values, weights, clusters, paired)
    n_classes = 1
    codes = sample.values
    if "proportion" in statistics:
        if len(statistics) > 1:
            raise InvalidInputError("proportion cannot be combined with other statistics")
        sample, n_classes = _expand_classes(sample)
    plain = sample if n_classes == 1 else _Sample(
        codes, None if paired is None else codes, sample.weights, sample.units, sample.n_units,
        sample.clustered,
    )  # fmt: skip
    chosen = _choose(method, plain, statistics, infinite)
    base = seed_base(seed)
    tail = (1 - confidence_level) / 2
    n = len(sample.values)

    def shaped(flat: Floats) -> Any:
        if single and one_column and n_classes == 1:
            return float(flat[0])
        if not one_column and not single:
            return flat.reshape(sample.values.shape[1], len(statistics))
        return flat

    if chosen == "ideal":
        if interval == "bca" or return_replicates:
            raise InvalidInputError("the ideal bootstrap has no replicates and no BCa interval")
        if n:
            flat = codes[:, 0] if paired is None else _difference(sample)
            levels = np.array([tail, 1 - tail])
            estimate, ends, error = _ideal(flat, statistics[0], n_classes, levels)
        else:
            estimate = error = np.full(n_classes, np.nan)
            ends = np.full((2, n_classes), np.nan)
        if interval == "basic":
            ends = 2 * estimate - ends[::-1]
        return BootstrapResult(
            shaped(estimate), (shaped(ends[0]), shaped(ends[1])), shaped(error), "ideal", interval
        )
    b = int(n_resamples)
    if not n:
        drawn = _resample(sample, statistics, base, b)
        drawn = _Replicates(drawn.estimate, drawn.replicates, chosen)
    elif chosen == "multinomial":
        return _proportions(
            codes[:, 0], n_classes, base, b, confidence_level, interval, sample, return_replicates
        )
    elif chosen == "levels":
        drawn = _levels(_difference(sample), base, b)
    elif chosen == "rank":
        assert isinstance(statistics[0], float)
        drawn = _rank(sample.values[:, 0], statistics[0], base, b)
    else:
        drawn = _resample(sample, statistics, base, b)
    low, high, kind = _interval(drawn, confidence_level, interval, sample, statistics)
    error = (
        drawn.replicates.std(axis=0, ddof=1)
        if len(drawn.replicates) > 1
        else np.full(len(drawn.estimate), np.nan)
    )
    kept = None
    if return_replicates:
        kept = drawn.replicates
        if single and one_column and n_classes == 1:
            kept = kept[:, 0]
        elif not one_column and not single:
            kept = kept.reshape(len(kept), sample.values.shape[1], len(statistics))
    return BootstrapResult(
        shaped(drawn.estimate), (shaped(low), shaped(high)), shaped(error), chosen, kind, kept
    )


def class_shares(
    codes: Any,
    n_classes: int,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int | None = None,
) -> BootstrapResult:
    """Return the share of each of ``n_classes`` classes with its percentile interval.

    As :func:`bootstrap` with ``"proportion"``, but the number of classes is the caller's, not
    the data's: a class that does not occur has share 0.

    Parameters
    ----------
    codes : array-like of int, shape (n,)
        Classes 0 ... ``n_classes`` - 1.
    n_classes : int
        At least 2.

    Returns
    -------
    BootstrapResult
        Arrays of shape (n_classes,).
    """
    values = scalar_column(codes, "codes", np.float64)
    if n_classes < 2 or (len(values) and _class_codes(values).max() >= n_classes):
        raise InvalidInputError(f"codes must be classes below n_classes={n_classes}, at least 2")
    if not len(values):
        nothing = np.full(n_classes, np.nan)
        return BootstrapResult(nothing, (nothing, nothing), nothing, "multinomial", "percentile")
    sample, _ = _sample(values, None, None, None)
    return _proportions(
        values, n_classes, seed_base(seed), n_resamples, confidence_level, "percentile", sample,
        False,
    )  # fmt: skip


def _proportions(
    values: Floats,
    n_classes: int,
    base: np.uint64,
    b: int,
    level: float,
    interval: str,
    sample: _Sample,
    return_replicates: bool,
) -> BootstrapResult:
    """Draw the counts of all classes from their multinomial law; their quantiles by counting."""
    n = len(values)
    counts = np.bincount(_class_codes(values), minlength=max(n_classes, 2)).astype(np.int64)
    drawn = multinomial.multinomial_counts(counts, base, b)
    keep = slice(1, None) if n_classes == 1 else slice(None)
    estimate = counts[keep] / n
    replicates: Floats | None = None
    if interval == "bca" or return_replicates:
        replicates = np.ascontiguousarray(drawn[keep].T) / n
    kind = interval
    tail = (1 - level) / 2
    quantiles, deviations = resampling.count_quantiles(drawn[keep], n, np.array([tail, 1 - tail]))
    low, high = quantiles[:, 0] / n, quantiles[:, 1] / n
    if interval == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    elif interval == "bca":
        assert replicates is not None
        made = _Replicates(estimate, replicates, "multinomial")
        low, high, kind = _interval(made, level, interval, sample, ["proportion"])
    error = deviations / n
    if n_classes == 1:
        return BootstrapResult(
            float(estimate[0]),
            (float(low[0]), float(high[0])),
            float(error[0]),
            "multinomial",
            kind,
            replicates[:, 0] if return_replicates and replicates is not None else None,
        )
    return BootstrapResult(
        estimate,
        (low, high),
        error,
        "multinomial",
        kind,
        replicates if return_replicates else None,
    )
