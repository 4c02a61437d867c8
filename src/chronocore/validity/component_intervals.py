"""Intervals of standard deviations and of the noise-to-signal ratio, in closed form.

Answers are few and mostly whole points of a short scale. Resampling ten of them says too little
about how far their spread may be off; the distribution of a standard deviation is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore.tolerance import ATOL

__all__ = ["deviation_interval", "grid_step", "ratio_interval", "signal_interval"]

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

#: From this noncentrality on, its distribution is normal to the digits that matter.
_LARGE = 1e4


def grid_step(answers: Floats) -> float:
    """Return the smallest distance between two different answers, 0 where all are the same."""
    found = np.unique(answers[np.isfinite(answers)])
    steps = np.diff(found)
    steps = steps[steps > ATOL]
    return float(steps.min()) if steps.size else 0.0


def deviation_interval(answers: Floats, step: float, level: float) -> Ends:
    """Return the interval of the standard deviation that each row of answers was drawn from.

    Parameters
    ----------
    answers : (..., n) float64
        NaN where there is no answer.
    step : float
        How far a second value lies from the only one that was given.
    level : float
        In (0, 1).

    Returns
    -------
    low, high : (...) float64
        NaN with fewer than 2 answers.

    Notes
    -----
    Chi-square, with Satterthwaite's degrees of freedom where whole-point answers have heavier
    tails than a normal distribution. Rows of one or two different values are also taken for
    draws of a share (Jeffreys), and the interval spans both: ten equal answers do not show
    that the eleventh is the same.
    """
    # Imported here: it takes longer to load than the rest of the module.
    from scipy.special import betaincinv, chdtri

    tail = (1 - level) / 2
    valid = np.isfinite(answers)
    n = valid.sum(axis=-1).astype(np.float64)
    ordered = np.sort(np.where(valid, answers, np.inf), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rises = (np.diff(ordered, axis=-1) > ATOL) & np.isfinite(ordered[..., 1:])
        distinct = 1 + rises.sum(axis=-1)
        mean = np.where(valid, answers, 0.0).sum(axis=-1) / n
        off = np.where(valid, answers - mean[..., None], 0.0)
        square = (off**2).sum(axis=-1)
        deviation = np.where(distinct > 1, np.sqrt(square / (n - 1)), 0.0)
        excess = np.where(square > 0, n * (off**4).sum(axis=-1) / square**2 - 3.0, 0.0)
        freedom = np.where(
            (distinct < n) & (excess > 0), 2 / (2 / (n - 1) + np.maximum(excess, 0.0) / n), n - 1
        )
        low = deviation * np.sqrt(freedom / chdtri(freedom, tail))
        high = deviation * np.sqrt(freedom / chdtri(freedom, 1 - tail))
        lowest = ordered[..., 0]
        highest = np.where(valid, answers, -np.inf).max(axis=-1, initial=-np.inf)
        width = np.where(distinct == 2, highest - lowest, step)
        fewer = (valid & (answers - lowest[..., None] > ATOL)).sum(axis=-1)
        fewer = np.minimum(fewer, n - fewer)
        least = np.where(fewer > 0, betaincinv(fewer + 0.5, n - fewer + 0.5, tail), 0.0)
        most = np.minimum(betaincinv(fewer + 0.5, n - fewer + 0.5, 1 - tail), 1.0)
    spread_least = np.sqrt(least * (1 - least))
    spread_most = np.sqrt(most * (1 - most))
    of_share = (
        width * np.minimum(spread_least, spread_most),
        width * np.where(most > 0.5, 0.5, spread_most),
    )
    two = distinct <= 2
    low = np.where(two, np.minimum(low, of_share[0]), low)
    high = np.where(two, np.maximum(high, of_share[1]), high)
    return np.where(n >= 2, low, np.nan), np.where(n >= 2, high, np.nan)


def _error_of_means(answers: Floats) -> float:
    """Return the error variance in the spread of models' means, one answer a model and prompt.

    What a prompt does to all models alike does not move them apart, and is no part of it.
    """
    models = len(answers)
    with np.errstate(invalid="ignore", divide="ignore"):
        n = np.isfinite(answers).sum(axis=1)
        off = answers - (np.nansum(answers, axis=1) / n)[:, None]
        asked = np.isfinite(answers).sum(axis=0)
        common = np.where(asked > 1, np.nansum(off, axis=0) / asked, 0.0)
        own = off - common
        variance = np.nansum(own**2, axis=1) / (n - 1) * models / (models - 1)
        error = variance / n
    known = error[(n >= 2) & np.isfinite(error)]
    return float(known.mean()) if known.size else 0.0


def signal_interval(answers: Floats, estimate: float, level: float) -> tuple[float, float]:
    """Return the interval of the standard deviation of models' true mean answers.

    Parameters
    ----------
    answers : (M, n) float64
        Of each model to the same prompts; NaN where there is none.
    estimate : float
        Standard deviation (ddof 1) of the models' means.
    level : float

    Notes
    -----
    The models are these models and not a sample. Means of a few answers lie further apart than
    the models do; the sum of squares over their error variance has a noncentral chi-square
    distribution, whose noncentrality is what is asked for.
    """
    from scipy.special import chdtr, chndtrinc, ndtri

    models = int(np.isfinite(answers).any(axis=1).sum())
    if models < 2 or not np.isfinite(estimate):
        return float("nan"), float("nan")
    error = _error_of_means(answers[np.isfinite(answers).any(axis=1)])
    if error <= ATOL**2:
        return estimate, estimate
    freedom = models - 1
    found = freedom * estimate**2 / error
    tail = (1 - level) / 2
    ends = []
    for share in (1 - tail, tail):
        if chdtr(freedom, found) < share:
            ends.append(0.0)  # no difference between the models explains as much
            continue
        noncentral = float("nan") if found > _LARGE else float(chndtrinc(found, freedom, share))
        if not np.isfinite(noncentral):
            center = max(found - freedom, 0.0)
            noncentral = max(center - ndtri(share) * np.sqrt(2 * (freedom + 2 * center)), 0.0)
        ends.append(float(np.sqrt(noncentral * error / freedom)))
    return ends[0], ends[1]


def ratio_interval(
    seed: Floats, prompt: Floats, seed_ends: Ends, prompt_ends: Ends, signal: Floats, ends: Ends
) -> Ends:
    """Return the interval of (seed + prompt) / signal from the intervals of its parts.

    Notes
    -----
    Variance estimates recovered from the parts' intervals (Zou and Donner): squared distances to
    the ends add for the sum, and on the logarithmic scale for the ratio. The upper end is
    infinite where the signal may be zero.
    """
    noise = seed + prompt
    low = noise - np.hypot(seed - seed_ends[0], prompt - prompt_ends[0])
    high = noise + np.hypot(seed_ends[1] - seed, prompt_ends[1] - prompt)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = noise / signal
        down = np.hypot(np.log(noise / np.maximum(low, 0.0)), np.log(ends[1] / signal))
        up = np.hypot(np.log(high / noise), np.log(signal / ends[0]))
        # Without any noise found there is no logarithm of it: the largest noise over the least
        # signal.
        lower = np.where((noise > ATOL) & (low > 0), ratio * np.exp(-down), 0.0)
        upper = np.where(noise > ATOL, ratio * np.exp(up), high / ends[0])
    undefined = np.isnan(noise) | ~(signal > ATOL)
    return np.where(undefined, np.nan, lower), np.where(undefined, np.nan, upper)
