"""How far two samples of the same population lie apart by chance alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.arrow import Rows, broadcast_rows
from chronocore.errors import InvalidInputError
from chronocore.inference import seed_base
from chronocore.metrics import _distributions, _require_two_options, _supports
from chronocore_kernels import multinomial

__all__ = ["SamplingNoise", "sampling_noise"]

_MAXIMUM_SIZE = 2**31
_QUANTILES = np.array([0.5, 0.95])


# Another stream than the bootstrap's of the same seed.
_STREAM = np.uint64(0x6E6F697365)


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
    if isinstance(repeats, bool) or int(repeats) != repeats or repeats < 1:
        raise InvalidInputError(f"repeats must be a whole number from 1 on, not {repeats!r}")
    repeats = int(repeats)
    if 2 * len(rows) * repeats > multinomial.MAXIMUM_SAMPLES:
        raise InvalidInputError(
            f"{len(rows)} distributions x {repeats} repeats need more random numbers than there are"
        )
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
