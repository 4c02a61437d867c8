"""How far two samples of the same population lie apart by chance alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.arrow import Rows, broadcast_rows
from chronocore.effective_size import basis_of_sizes, sizes_of_pairs
from chronocore.errors import ArgumentError, InvalidInputError, StudyError
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.metrics import (
    SHIFTS,
    _distributions,
    _require_two_options,
    _supports,
    wasserstein,
)
from chronocore.store import NOISE_METADATA, Study
from chronocore.tolerance import ATOL, above, at_most
from chronocore_kernels import multinomial

__all__ = [
    "NoiseFloor",
    "NoiseResult",
    "SamplingNoise",
    "ShiftNoise",
    "cautions",
    "false_discovery",
    "load_noise",
    "noise",
    "noise_floor",
    "sampling_noise",
]

_MAXIMUM_SIZE = 2**31
# Below, a 95th percentile lies between the two largest draws.
_FEWEST_REPEATS = 20
_QUANTILES = np.array([0.5, 0.95])
# Drawn distances kept for their median, and repeats behind a p-value, at most.
_MOST_DISTANCES = 50_000_000
_MOST_FLOOR_REPEATS = 10_000_000


# Another stream than the bootstrap's of the same seed.
_STREAM = np.uint64(0x6E6F697365)
_FLOOR_STREAM = np.uint64(0x666C6F6F72)


@dataclass(frozen=True, slots=True)
class SamplingNoise:
    """Distances between two samples from the same distribution.

    Attributes
    ----------
    median, p95 : (N,) float64
        Median and 95th percentile (type 7) of each distribution's distances over the repeats.
    pooled_median : float
        Median of all distances, over distributions and repeats.
    n_old, n_new : (N,) int64
        Sizes of the two samples.
    repeats : int
        Pairs of samples drawn for each distribution.
    distances : (N, repeats) float64 or None
        The distances themselves, only if asked for.
    """

    median: NDArray[np.float64]
    p95: NDArray[np.float64]
    pooled_median: float
    n_old: NDArray[np.int64]
    n_new: NDArray[np.int64]
    repeats: int
    distances: NDArray[np.float64] | None = None


def _sizes(n: Any, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes of the two samples of each distribution."""
    try:
        given = np.asarray(n)
        numbers = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"n cannot be read as numbers: {error}") from None
    if given.dtype.kind == "b":
        raise InvalidInputError("n must be a number of respondents, not true or false")
    good = (numbers >= 1) & (numbers < _MAXIMUM_SIZE) & (numbers == np.floor(numbers))
    if not good.all():
        found = float(numbers[~good].flat[0])
        raise InvalidInputError(f"n must be whole numbers from 1 up to 2**31 - 1, not {found!r}")
    sizes = numbers.astype(np.int64)
    if sizes.shape not in ((), shape, (*shape, 2)):
        raise InvalidInputError(
            f"n has shape {sizes.shape}; use one number, {shape} or {(*shape, 2)} (old, new)"
        )
    pair = sizes.shape == (*shape, 2)
    old, new = (sizes[..., 0], sizes[..., 1]) if pair else (sizes, sizes)
    return np.broadcast_to(old, shape).copy(), np.broadcast_to(new, shape).copy()


def _repeats(repeats: Any, n_rows: int) -> int:
    if isinstance(repeats, bool) or int(repeats) != repeats or repeats < 1:
        raise InvalidInputError(f"repeats must be a whole number from 1 on, not {repeats!r}")
    if 2 * n_rows * int(repeats) > multinomial.MAXIMUM_SAMPLES:
        raise InvalidInputError(
            f"{n_rows} distributions x {repeats} repeats need more random numbers than there are"
        )
    return int(repeats)


def _median(values: NDArray[np.float64]) -> float:
    """Return the median, sorting only what may hold it: numpy.median is three times slower."""
    n = len(values)
    if n < 2**16:
        return float(np.median(values)) if n else float("nan")
    sample = np.sort(values[:: n // 2**12])
    low, high = sample[int(0.46 * len(sample))], sample[int(0.54 * len(sample))]
    middle = values[(values >= low) & (values <= high)]
    below = int(np.count_nonzero(values < low))
    first, second = (n - 1) // 2 - below, n // 2 - below
    if first < 0 or second >= len(middle):
        return float(np.median(values))
    middle.partition([first, second])
    return float((middle[first] + middle[second]) / 2)


def sampling_noise(
    probs: Any,
    support: Any = None,
    *,
    n: Any = 500,
    repeats: int = 200,
    seed: int | None = None,
    return_distances: bool = False,
) -> SamplingNoise:
    """Return how far two samples from the same distribution lie apart, for each distribution.

    Parameters
    ----------
    probs : array-like of shape (..., K), or N rows of any length
        Distributions as in :func:`wasserstein`, unrounded. Each is divided by its sum, which
        may miss 1 by 1e-6.
    support : array-like of shape (K,) or one row a distribution, optional
        Strictly increasing positions of the options. By default they are equally spaced.
    n : int, or array-like of shape (N,) or (N, 2)
        Respondents in each sample; a last axis of two gives the older and the newer sample
        sizes of their own. Round effective sample sizes before.
    repeats : int
        Pairs of samples for each distribution.
    seed : int, optional
        The same seed gives the same distances for any number of threads. By default a fresh one.
    return_distances : bool
        Keep all distances in the result.

    Returns
    -------
    SamplingNoise

    Raises
    ------
    InvalidInputError
        A row is no distribution or has fewer than two options, a size is not a whole number
        from 1 on, or shapes do not match.

    Notes
    -----
    ChronoCulture, appendix F.4, with n = 500 and 200 repeats. Samples are multinomial and
    exact; the time does not grow with n. Distributions x repeats distances of eight bytes are
    held in memory.

    Examples
    --------
    >>> import numpy as np
    >>> noise = sampling_noise([[0.25, 0.25, 0.5], [0.9, 0.1, 0.0]], n=500, seed=0)
    >>> noise.median.shape, bool(np.all(noise.median < noise.p95))
    ((2,), True)
    """
    rows = _distributions(probs, "probs")
    if support is None:
        rows_support = Rows(np.empty(0), rows.starts, rows.lengths, rows.shape)
        shape = rows.shape
    else:
        (rows, rows_support), shape = broadcast_rows(
            ("probs", rows), ("support", _supports(support))
        )
    _require_two_options(rows)
    n_old, n_new = _sizes(n, shape)
    repeats = _repeats(repeats, len(rows))
    quantiles, distances = multinomial.sampling_noise(
        rows.values,
        rows.starts,
        rows_support.values,
        rows_support.starts,
        rows.lengths,
        n_old.reshape(-1),
        n_new.reshape(-1),
        repeats,
        _QUANTILES,
        seed_base(seed) ^ _STREAM,
    )
    return SamplingNoise(
        median=quantiles[:, 0].reshape(shape),
        p95=quantiles[:, 1].reshape(shape),
        pooled_median=_median(distances.reshape(-1)),
        n_old=n_old,
        n_new=n_new,
        repeats=repeats,
        distances=distances.reshape(*shape, repeats) if return_distances else None,
    )


# -- the floor under an observed shift ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Observed shifts beside what sampling alone would show had nothing changed.

    Attributes
    ----------
    expected, median : (N,) float64
        Mean and median shift of two samples from one population.
    excess : (N,) float64
        Observed minus expected shift; negative where the surveys are closer than chance.
    p_value : (N,) float64
        Chance of a shift at least as large as the observed one, (1 + reached) / (1 + repeats).
    n_old, n_new : (N,) int64
        Sizes of the two samples.
    repeats : int
    """

    expected: NDArray[np.float64]
    median: NDArray[np.float64]
    excess: NDArray[np.float64]
    p_value: NDArray[np.float64]
    n_old: NDArray[np.int64]
    n_new: NDArray[np.int64]
    repeats: int


def noise_floor(
    gold_old: Any,
    gold_new: Any,
    support: Any = None,
    *,
    n: Any = 500,
    repeats: int = 1000,
    seed: int | None = None,
    widening: Any = 1.0,
    degrees_of_freedom: Any = np.inf,
) -> NoiseFloor:
    """Return how much of each observed shift sampling alone explains.

    The null: both surveys asked the same population, whose distribution is the two observed ones
    averaged by their sizes. Two samples of the surveys' sizes are drawn from it again and again.

    Parameters
    ----------
    gold_old, gold_new : array-like of shape (..., K), or N rows of any length
        Distributions as in :func:`wasserstein`, unrounded.
    support : array-like of shape (K,) or one row a distribution, optional
        Positions of the options; by default equally spaced.
    n : int, or array-like of shape (N,) or (N, 2)
        Respondents of the two surveys, as in :func:`sampling_noise`; effective sizes where
        respondents are weighted.
    repeats : int
        Pairs of samples for each row. No p-value is below 1 / (1 + repeats).
    seed : int, optional
        The same seed gives the same result for any number of threads. By default a fresh one.
    widening : float or array-like of shape (N,)
        How much farther apart samples of the design lie than multinomial ones of the sizes ``n``,
        above 0: drawn shifts are multiplied by it.
    degrees_of_freedom : float or array-like of shape (N,)
        With which the sizes were estimated, above 0; infinite where they are known.

    Returns
    -------
    NoiseFloor

    Raises
    ------
    InvalidInputError
        As :func:`sampling_noise`; ``widening`` or ``degrees_of_freedom`` is not above 0.

    Notes
    -----
    ChronoCulture, appendix F.4, asks which shifts exceed the noise of their own pair; this is its
    test with the true sample sizes. A drawn shift within 1e-12 of the observed one reaches it.
    An effective size that few sampling units estimate is itself uncertain, and so is the scale of
    the shifts: the p-value is that of Student's t at the same number of standard errors, 2 T(z)
    with z the normal quantile of p / 2. For two options this is exact.

    Examples
    --------
    >>> floor = noise_floor([[0.5, 0.5], [0.5, 0.5]], [[0.49, 0.51], [0.3, 0.7]], n=900, seed=0)
    >>> floor.p_value.round(2).tolist()
    [0.7, 0.0]
    """
    named = [("gold_old", _distributions(gold_old, "gold_old"))]
    named.append(("gold_new", _distributions(gold_new, "gold_new")))
    if support is not None:
        named.append(("support", _supports(support)))
    rows, shape = broadcast_rows(*named)
    old, new = rows[0], rows[1]
    positions = (
        rows[2] if support is not None else Rows(np.empty(0), old.starts, old.lengths, shape)
    )
    _require_two_options(old)
    n_old, n_new = _sizes(n, shape)
    repeats = _repeats(repeats, len(old))
    observed = wasserstein(old, new, positions if support is not None else None).reshape(-1)
    wider = _above_zero(widening, "widening", shape)
    freedom = _above_zero(degrees_of_freedom, "degrees_of_freedom", shape)
    share = (n_old / (n_old + n_new)).reshape(-1)
    # One row after the other, each weighted by the size of its survey
    ends = np.cumsum(old.lengths)
    starts = ends - old.lengths
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(starts, old.lengths)
    weight = np.repeat(share, old.lengths)
    pooled = weight * old.values[np.repeat(old.starts, old.lengths) + within]
    pooled += (1 - weight) * new.values[np.repeat(new.starts, new.lengths) + within]
    mean, median, reached = multinomial.noise_floor(
        pooled,
        starts,
        positions.values,
        positions.starts,
        old.lengths,
        n_old.reshape(-1),
        n_new.reshape(-1),
        observed / wider,
        ATOL,
        repeats,
        seed_base(seed) ^ _FLOOR_STREAM,
    )
    mean, median = mean * wider, median * wider
    return NoiseFloor(
        expected=mean.reshape(shape),
        median=median.reshape(shape),
        excess=(observed - mean).reshape(shape),
        p_value=_of_estimated_scale((1 + reached) / (1 + repeats), freedom).reshape(shape),
        n_old=n_old,
        n_new=n_new,
        repeats=repeats,
    )


def _above_zero(given: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return one number above 0 for each row."""
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.shape not in ((), shape):
        raise InvalidInputError(f"{name} has shape {numbers.shape}; use one number or {shape}")
    if not (numbers > 0).all():
        raise InvalidInputError(f"{name} must be above 0")
    return np.broadcast_to(numbers, shape).reshape(-1)


def _of_estimated_scale(
    p_values: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return p-values of a scale that was estimated with some degrees of freedom."""
    few = np.isfinite(freedom)
    if not few.any():
        return p_values
    from scipy.special import ndtri, stdtr

    found = p_values.copy()
    found[few] = 2 * stdtr(freedom[few], ndtri(p_values[few] / 2))
    return found


def false_discovery(p_values: Any, method: str = "bh") -> NDArray[np.float64]:
    """Return the smallest false-discovery rate at which each test would be a discovery.

    Parameters
    ----------
    p_values : array-like of shape (N,)
        In [0, 1].
    method : {"bh", "by"}
        Benjamini and Hochberg, for tests that are independent or positively dependent, or
        Benjamini and Yekutieli, for any dependence.

    Returns
    -------
    (N,) float64
        Adjusted p-values (q-values); those of at most 0.05 are the discoveries of which 5 % are
        expected to be false.

    Examples
    --------
    >>> false_discovery([0.01, 0.02, 0.9]).round(3).tolist()
    [0.03, 0.03, 0.9]
    """
    if method not in ("bh", "by"):
        raise InvalidInputError(f"method {method!r} is none of bh, by")
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise InvalidInputError("p_values must be a vector of numbers in [0, 1]")
    if not len(values):
        return values
    # Imported here: scipy.stats takes longer to load than all else together.
    import scipy.stats

    return np.asarray(scipy.stats.false_discovery_control(values, method=method))


# -- the noise of a study --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShiftNoise:
    """The pairs of one shift class, or all of them, beside their sampling noise.

    Attributes
    ----------
    shift : str
        A shift class, ``all_shifted`` or ``all``.
    pairs : int
    above_p95 : int
        Pairs whose shift is strictly above the 95th percentile of their own noise.
    detected : int
        Pairs whose shift is told from noise at the false-discovery rate.
    expected_shift, excess_shift : float or None
        Medians over the pairs; None without pairs.
    """

    shift: str
    pairs: int
    above_p95: int
    detected: int
    expected_shift: float | None
    excess_shift: float | None


@dataclass(frozen=True, slots=True)
class NoiseResult:
    """What :func:`noise` found.

    Attributes
    ----------
    design : str
        Respondents of each drawn sample, or ``"effective"``.
    repeats, floor_repeats, seed : int
    median : float
        Median of all drawn distances, over pairs and repeats.
    median_p95 : float
        Median over pairs of each pair's 95th percentile.
    false_discovery_rate : float
    method : str
        ``"bh"`` or ``"by"``.
    effective_sizes : str
        What they rest on: strata and sampling units where known, else weights.
    shifts : list of ShiftNoise
        The four classes, all shifted pairs, all pairs.
    pairs_sha256 : str
        Digest of the pairs.
    """

    design: str
    repeats: int
    floor_repeats: int
    seed: int
    median: float
    median_p95: float
    false_discovery_rate: float
    method: str
    effective_sizes: str
    shifts: list[ShiftNoise]
    pairs_sha256: str


def noise(
    study: str | Path | Study,
    *,
    n: int | str = 500,
    repeats: int = 200,
    floor_repeats: int = 2000,
    false_discovery_rate: float = 0.05,
    method: str = "bh",
    seed: int = 0,
    progress: Callable[[str], None] = lambda message: None,
) -> NoiseResult:
    """Simulate the sampling noise of every pair of a study and write it to ``noise/``.

    Parameters
    ----------
    study : path or Study
    n : int or "effective"
        Respondents of both samples drawn from the older gold distribution; ``"effective"`` takes
        each survey's effective sample size: by strata and sampling units where the study has them
        (``n_eff_design``), else by weights (``n_eff``).
    repeats : int
        Pairs of samples for each pair.
    floor_repeats : int
        Pairs of samples behind each p-value, always with the effective sizes.
    false_discovery_rate : float
        Expected share of false ones among the pairs told from noise, in (0, 1).
    method : {"bh", "by"}
        How it is controlled; see :func:`false_discovery`.
    seed : int
        The same seed gives the same noise for any number of threads.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    NoiseResult
        Over all pairs of the benchmark, before any filter. One row a pair, schema
        :data:`chronocore.schema.NOISE`, is in ``noise/``; each ``n`` has a file there.

    Raises
    ------
    ConfigurationError
        A setting is out of range.
    StudyError
        A pair has no effective sample size.

    Notes
    -----
    ChronoCulture, appendix F.4; definitions, section 9.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    if n != "effective" and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ArgumentError(f"n must be a number of respondents or 'effective', not {n!r}")
    if not isinstance(n, str) and n >= 2**31:
        raise ArgumentError(f"n must be at most {2**31 - 1:,} respondents, not {n:,}")
    if not 0 < false_discovery_rate < 1:
        raise ArgumentError(f"false_discovery_rate must lie in (0, 1), not {false_discovery_rate}")
    if method not in ("bh", "by"):
        raise ArgumentError(f"method {method!r} is none of bh, by")
    pairs = opened.pairs()
    # The median of all drawn distances needs every one of them.
    most = max(_MOST_DISTANCES // max(len(pairs), 1), 1)
    for name, value, limit in (
        ("repeats", repeats, most), ("floor_repeats", floor_repeats, _MOST_FLOOR_REPEATS),
    ):  # fmt: skip
        if not 1 <= value <= limit:
            raise ArgumentError(
                f"{name} must lie between 1 and {limit:,} for {len(pairs):,} pairs, not {value:,}"
            )
    support = _pair_supports(pairs, opened.items())
    effective = sizes_of_pairs(opened.gold(), pairs)
    sizes = effective.respondents
    design = str(n)
    drawn = sizes if n == "effective" else np.full(len(pairs), int(n))
    progress(f"drawing {repeats} x 2 samples for each of {len(pairs)} pairs")
    simulated = sampling_noise(
        pairs["gold_old"], support, n=drawn, repeats=repeats,
        seed=derived_seed(seed, "noise", design),
    )  # fmt: skip
    progress(f"drawing {floor_repeats} x 2 samples under no change for each pair")
    floor = noise_floor(
        pairs["gold_old"], pairs["gold_new"], support, n=sizes, repeats=floor_repeats,
        seed=derived_seed(seed, "noise floor"), widening=effective.widening(),
        degrees_of_freedom=effective.joint_degrees_of_freedom(),
    )  # fmt: skip
    d_h = np.asarray(pairs["d_h"].to_numpy(), dtype=np.float64)
    q_values = false_discovery(floor.p_value, method)
    above_p95 = above(d_h - simulated.p95, 0.0)
    detected = at_most(q_values, false_discovery_rate)
    names = ("pair_id", "survey", "variable", "country", "shift", "d_h")
    table = pa.table(
        {
            "design": pa.array([design] * len(pairs), pa.string()),
            **{name: pairs[name] for name in names},
            "n_old": simulated.n_old,
            "n_new": simulated.n_new,
            "noise_median": simulated.median,
            "noise_p95": simulated.p95,
            "above_p95": above_p95,
            "n_eff_old": floor.n_old,
            "n_eff_new": floor.n_new,
            "expected_shift": floor.expected,
            "expected_median": floor.median,
            "excess_shift": floor.excess,
            "p_value": floor.p_value,
            "q_value": q_values,
            "detected": detected,
        }
    )
    result = NoiseResult(
        design=design,
        repeats=repeats,
        floor_repeats=floor_repeats,
        seed=seed,
        median=simulated.pooled_median,
        median_p95=float(np.median(simulated.p95)),
        false_discovery_rate=false_discovery_rate,
        method=method,
        effective_sizes=basis_of_sizes(np.asarray(effective.by_design.all(axis=1)), "pairs"),
        shifts=_by_shift(pairs, above_p95, detected, floor),
        pairs_sha256=opened.manifest()["files"]["pairs.parquet"],
    )
    settings = json.dumps(msgspec.to_builtins(result)).encode()
    opened.save_noise(schema.conform(table, schema.NOISE), design, settings)
    return result


def cautions(result: NoiseResult) -> tuple[list[str], list[str]]:
    """Return where draws are too few for what is made of them: percentiles, and p-values."""
    percentiles, tests = [], []
    if result.repeats < _FEWEST_REPEATS:
        percentiles.append(
            f"a 95th percentile of {_draws(result.repeats)} is no more than the largest of them; "
            f"at least {_FEWEST_REPEATS} are needed"
        )
    least = 1 / (1 + result.floor_repeats)
    if above(least, result.false_discovery_rate):
        needed = math.ceil(1 / result.false_discovery_rate - 1 - 1e-9)
        tests.append(
            f"no p-value of {_draws(result.floor_repeats)} is below {least:.3g}, so no pair can be "
            f"told from noise at a false-discovery rate of {100 * result.false_discovery_rate:g} "
            f"%; at least {needed:,} are needed"
        )
    return percentiles, tests


def _draws(count: int) -> str:
    return f"{count:,} draw{'' if count == 1 else 's'}"


def load_noise(study: Study, design: str) -> NoiseResult:
    """Return what the last :func:`noise` of a design found.

    Raises
    ------
    StudyError
        The design was not simulated.
    """
    metadata = study.noise(design).schema.metadata or {}
    try:
        return msgspec.json.decode(metadata[NOISE_METADATA], type=NoiseResult)
    except (KeyError, msgspec.DecodeError) as error:
        raise StudyError(
            f"{study.noise_path(design)} does not say what it was simulated with ({error}); "
            f"run: chronocore noise {study.path} --n {design}"
        ) from error


def _by_shift(
    pairs: pa.Table,
    above_p95: NDArray[np.bool_],
    detected: NDArray[np.bool_],
    floor: NoiseFloor,
) -> list[ShiftNoise]:
    shift = np.asarray(pairs["shift"].to_numpy(zero_copy_only=False)).astype(str)
    groups = [(name, shift == name) for name in SHIFTS]
    groups += [("all_shifted", shift != SHIFTS[0]), ("all", np.ones(len(shift), dtype=bool))]
    return [
        ShiftNoise(
            shift=name,
            pairs=int(inside.sum()),
            above_p95=int(above_p95[inside].sum()),
            detected=int(detected[inside].sum()),
            expected_shift=_median(floor.expected[inside]) if inside.any() else None,
            excess_shift=_median(floor.excess[inside]) if inside.any() else None,
        )
        for name, inside in groups
    ]


def _pair_supports(pairs: pa.Table, items: pa.Table) -> pa.Array:
    positions = {
        (item["survey"], item["variable"]): [option["position"] for option in item["options"]]
        for item in items.to_pylist()
    }
    keys = zip(pairs["survey"].to_pylist(), pairs["variable"].to_pylist(), strict=True)
    return pa.array([positions[key] for key in keys], pa.list_(pa.float64()))
