"""How much of a model's answers is noise: variance components and agreement among raters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.tolerance import at_most
from chronocore_kernels import components

__all__ = ["CULTURE_BASES", "STATUSES", "VarianceComponents", "kendalls_w", "variance_components"]

#: Answers a model's mean is taken over before models are compared.
CULTURE_BASES: tuple[str, ...] = ("variants", "standard", "seeds")

#: What became of a ratio: the first of these that applies.
STATUSES: tuple[str, ...] = (
    "undefined_noise",
    "undefined_culture",
    "zero_over_zero",
    "infinite",
    "ok",
)


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Noise and signal in the answers of M models to Q items.

    Attributes
    ----------
    sigma_seed : (M, Q) float64
        Standard deviation over seeds; NaN with fewer than 2 answers.
    sigma_prompt : (M, Q) float64
        Standard deviation over prompt variants; NaN with fewer than 2 answers.
    sigma_culture : (Q,) float64
        Standard deviation over models of their mean answers; NaN with fewer than 2 models.
    nsr : (M, Q) float64
        Noise-to-signal ratio; NaN unless ``status`` is ``"ok"``.
    status : (M, Q) str
        ``"ok"`` or why there is no ratio: ``"undefined_noise"``, ``"undefined_culture"``,
        ``"zero_over_zero"``, ``"infinite"``.
    """

    sigma_seed: NDArray[np.float64]
    sigma_prompt: NDArray[np.float64]
    sigma_culture: NDArray[np.float64]
    nsr: NDArray[np.float64]
    status: NDArray[np.str_]


def _array(data: Any, name: str, axes: tuple[str, ...]) -> NDArray[np.float64]:
    try:
        if isinstance(data, np.ma.MaskedArray):
            data = np.ma.filled(data.astype(np.float64), np.nan)
        array = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as numbers: {error}") from None
    if array.ndim != len(axes):
        raise InvalidInputError(
            f"{name} must have the shape ({', '.join(axes)}), it has {array.ndim} dimensions"
        )
    return np.ascontiguousarray(array)


def _moments(
    answers: NDArray[np.float64], ddof: float, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation over the last of three axes."""
    models, items, length = answers.shape
    mean, deviation, too_large = components.moments(
        answers.reshape(models * items, length), float(ddof)
    )
    if too_large.any():
        model, item, index = np.argwhere(np.abs(answers) > components.LARGEST)[0].tolist()
        value = float(answers[model, item, index])
        raise InvalidInputError(
            f"{name}, model {model}, item {item}, index {index}: {value!r} is no answer "
            f"(finite, at most {components.LARGEST:g} in magnitude); mark a missing one as NaN"
        )
    return mean.reshape(models, items), deviation.reshape(models, items)


def _variant_indices(indices: Any, n_variants: int) -> NDArray[np.int64]:
    array = np.asarray(indices)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError("standard_variants must be a list of indices of variants")
    outside = array[(array < 0) | (array >= n_variants)]
    if outside.size:
        raise InvalidInputError(
            f"standard_variants: {int(outside[0])} is no index of {n_variants} variants"
        )
    if len(np.unique(array)) != len(array):
        raise InvalidInputError(f"standard_variants has an index twice: {array.tolist()}")
    return array.astype(np.int64)


def variance_components(
    seed_answers: Any,
    variant_answers: Any,
    *,
    ddof: float = 1,
    culture_base: str = "variants",
    standard_variants: Sequence[int] | None = None,
) -> VarianceComponents:
    r"""Return the seed, prompt and culture components of answers and their ratio.

    .. math:: NSR(m, q) = \frac{\sigma_{seed}(m, q) + \sigma_{prompt}(m, q)}{\sigma_{culture}(q)}

    Parameters
    ----------
    seed_answers : array-like of shape (M, Q, seeds)
        Numeric answers of M models to Q items, one prompt asked with several seeds. NaN (or a
        masked entry) means no answer: a refusal or a text that could not be read.
    variant_answers : array-like of shape (M, Q, variants)
        One answer to each prompt variant.
    ddof : float
        Delta degrees of freedom of all three standard deviations.
    culture_base : {"variants", "standard", "seeds"}
        The answers a model's mean is taken over: all variants, those of the standard tone, or
        the seeds.
    standard_variants : sequence of int, optional
        Indices of the standard tone's variants, needed by ``culture_base="standard"``.

    Returns
    -------
    VarianceComponents
        A component with fewer than 2 valid answers (or models) is undefined, never 0, and so is
        the ratio. A model enters ``sigma_culture`` with one valid answer or more. A ratio over a
        ``sigma_culture`` of at most 1e-12 is NaN too: ``"zero_over_zero"`` if the noise is at
        most 1e-12, else ``"infinite"``.

    Raises
    ------
    InvalidInputError
        An answer is infinite or absurdly large (the message names model, item and index), shapes
        do not match, or an argument is unknown.

    Notes
    -----
    Measurement Validity in LLM Cultural Alignment, sections 3.4 and 3.5. The ratio tells how
    reliable a measurement is, not what it measures. Compare it with a threshold through
    :func:`chronocore.tolerance.above`.

    Examples
    --------
    >>> import chronocore as cc
    >>> nan = float("nan")
    >>> seeds = [[[4, 4, 4, 4]], [[1, 2, 3, 2]], [[nan, nan, nan, 2]]]
    >>> variants = [[[4, 4, 4]], [[1, 2, 3]], [[3, 3, nan]]]
    >>> result = cc.variance_components(seeds, variants)
    >>> result.sigma_culture.tolist()
    [1.0]
    >>> result.nsr.round(4).tolist()
    [[0.0], [1.8165], [nan]]
    >>> result.status.tolist()
    [['ok'], ['ok'], ['undefined_noise']]
    """
    if culture_base not in CULTURE_BASES:
        raise InvalidInputError(
            f"culture_base {culture_base!r} is none of {', '.join(CULTURE_BASES)}"
        )
    if not (ddof >= 0 and np.isfinite(ddof)):
        raise InvalidInputError(f"ddof must be a number of at least 0, not {ddof}")
    seeds = _array(seed_answers, "seed_answers", ("models", "items", "seeds"))
    variants = _array(variant_answers, "variant_answers", ("models", "items", "variants"))
    if seeds.shape[:2] != variants.shape[:2]:
        raise InvalidInputError(
            f"seed_answers has {seeds.shape[0]} models and {seeds.shape[1]} items, "
            f"variant_answers {variants.shape[0]} and {variants.shape[1]}"
        )
    standard = (
        None
        if standard_variants is None
        else _variant_indices(standard_variants, variants.shape[2])
    )
    seed_mean, sigma_seed = _moments(seeds, ddof, "seed_answers")
    mean, sigma_prompt = _moments(variants, ddof, "variant_answers")
    if culture_base == "seeds":
        mean = seed_mean
    elif culture_base == "standard":
        if standard is None:
            raise InvalidInputError('culture_base="standard" needs standard_variants')
        mean, _ = _moments(np.ascontiguousarray(variants[..., standard]), ddof, "variant_answers")
    _, sigma_culture, _ = components.moments(np.ascontiguousarray(mean.T), float(ddof))

    noise = sigma_seed + sigma_prompt
    no_signal = at_most(sigma_culture, 0.0)
    # The weakest reason first: each later one replaces it.
    status = np.full(noise.shape, "ok", dtype=np.asarray(STATUSES).dtype)
    status[:, no_signal] = np.where(at_most(noise[:, no_signal], 0.0), "zero_over_zero", "infinite")
    status[:, np.isnan(sigma_culture)] = "undefined_culture"
    status[np.isnan(noise)] = "undefined_noise"
    nsr = noise / np.where(no_signal, np.nan, sigma_culture)
    return VarianceComponents(sigma_seed, sigma_prompt, sigma_culture, nsr, status)


def kendalls_w(ratings: Any, *, correct: bool = True) -> float:
    r"""Return Kendall's coefficient of concordance among m raters of n items.

    With R_i the sum of the ranks of item i, S the sum of their squared deviations from
    m(n + 1)/2, and t the sizes of the groups of tied items of each rater:

    .. math:: W = \frac{12 S}{m^2 (n^3 - n) - m T}, \qquad T = \sum (t^3 - t)

    Parameters
    ----------
    ratings : array-like of shape (m, n)
        One row a rater. Only the order within a row matters; equal ratings share their mean
        rank. NaN is refused: drop the item or the rater first.
    correct : bool
        Correct for ties; ``False`` sets T to 0.

    Returns
    -------
    float
        W in [0, 1], 1 for complete agreement. NaN if every rater ties all items: with nothing
        ranked, agreement is undefined (0 if not corrected).

    Raises
    ------
    InvalidInputError
        A rating is NaN (the message names rater and item), or there are fewer than 2 raters or
        2 items.

    Notes
    -----
    Kendall and Babington Smith (1939), The problem of m rankings. The corrected W equals
    ``irr::kendall`` and ``DescTools::KendallW`` with ``correct = TRUE`` in R, where items are the
    rows and the default is not to correct. Friedman's chi-square is m(n - 1)W.

    Examples
    --------
    >>> import chronocore as cc
    >>> round(cc.kendalls_w([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4]]), 4)
    0.7778
    >>> cc.kendalls_w([[1, 1, 2], [5, 5, 9]]), cc.kendalls_w([[1, 1, 2], [5, 5, 9]], correct=False)
    (1.0, 0.75)
    """
    array = _array(ratings, "ratings", ("raters", "items"))
    m, n = array.shape
    if m < 2 or n < 2:
        raise InvalidInputError(
            f"ratings must have at least 2 raters (rows) and 2 items (columns), it has {m} and {n}"
        )
    missing = np.argwhere(np.isnan(array))
    if missing.size:
        rater, item = missing[0].tolist()
        raise InvalidInputError(f"ratings, rater {rater}, item {item}: NaN; drop the item or rater")
    # Twice a mean rank is an integer, and Python's integers do not overflow: W is exact.
    # Imported here: scipy.stats takes longer to load than all else together.
    from scipy.stats import rankdata

    ranks = np.rint(2.0 * rankdata(array, axis=1)).astype(np.int64)
    squares = sum((total - m * (n + 1)) ** 2 for total in ranks.sum(axis=0).tolist())
    possible = m * m * (n**3 - n)
    if correct:
        for row in ranks:
            sizes = np.unique(row, return_counts=True)[1].tolist()
            possible -= m * sum(size**3 - size for size in sizes)
    return 3 * squares / possible if possible else float("nan")
