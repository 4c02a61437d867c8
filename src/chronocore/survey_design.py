"""Standard errors that know how a sample was drawn: strata, clusters, replicate weights.

Kish's effective size knows the weights alone. Where a survey says which stratum and which primary
sampling unit a respondent comes from, the sampling error of a share follows from how the units
differ within their strata (Taylor linearisation), whatever made them differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from chronocore.arrow import column_array, scalar_column
from chronocore.errors import InvalidInputError
from chronocore.metrics import _answer_bytes, _option_codes
from chronocore.tolerance import ATOL
from chronocore_kernels import distributions, survey

__all__ = [
    "DesignMean",
    "DesignShares",
    "LonelyUnit",
    "design_mean",
    "design_shares",
    "design_shares_many",
    "replicate_mean",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: What a stratum with one primary sampling unit contributes.
LonelyUnit = Literal["adjust", "certainty"]

# Variables whose answers are gathered and counted at a time.
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class DesignShares:
    """Shares of K options in G groups with design-aware standard errors.

    Attributes
    ----------
    probs, standard_errors : (G, K) float64
        NaN in a group without a valid answer or of unknown design; the errors also where there
        is one primary sampling unit only.
    n_valid : (G,) int64
        Respondents with a valid answer and a usable weight.
    n_eff : (G,) float64
        ``n_valid`` over the design effect: the simple random sample whose shares have the same
        total variance. NaN where it is undefined (all answers alike, fewer than two answers).
    design_effect : (G,) float64
        Total variance of the shares over that of a simple random sample of ``n_valid``.
    n_eff_mean : (G,) float64
        The simple random sample whose mean position on the scale has the same variance. Below
        ``n_eff`` where respondents of a sampling unit lie on the same side of the scale.
    degrees_of_freedom : (G,) int64
        Primary sampling units minus strata.
    """

    probs: Floats
    standard_errors: Floats
    n_valid: Integers
    n_eff: Floats
    design_effect: Floats
    n_eff_mean: Floats
    degrees_of_freedom: Integers


@dataclass(frozen=True, slots=True)
class DesignMean:
    """A weighted mean with its standard error.

    Attributes
    ----------
    estimate, standard_error : float
        The error of a single primary sampling unit is NaN.
    n : int
        Values with a usable weight.
    degrees_of_freedom : int
        Primary sampling units minus strata; replicates minus one for replicate weights.
    """

    estimate: float
    standard_error: float
    n: int
    degrees_of_freedom: int


@dataclass(frozen=True, slots=True)
class _Design:
    """Rows in the order of group, stratum and unit, and where each begins."""

    rows: Integers
    groups: Integers
    strata: Integers
    units: Integers
    weights: Floats
    known: NDArray[np.bool_]


def _labels(column: Any, name: str, n: int) -> Integers | None:
    """Return labels as integers, -1 where there is none; None for no column at all."""
    if column is None:
        return None
    if isinstance(column, pa.Array | pa.ChunkedArray) or hasattr(column, "__arrow_c_stream__"):
        values = column_array(column, name)
    else:
        values = pa.array(np.asarray(column).tolist())
    if len(values) != n:
        raise InvalidInputError(f"{name} has {len(values)} rows, the answers {n}")
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    encoded = pc.dictionary_encode(values)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.fill_null(-1).to_numpy(), dtype=np.int64)


def _usable_weights(weights: Any, n: int) -> Floats:
    if weights is None:
        return np.ones(n)
    given = scalar_column(weights, "weights", np.float64)
    if len(given) != n:
        raise InvalidInputError(f"weights has {len(given)} rows, the answers {n}")
    good = np.isfinite(given) & (given > 0)
    largest = float(given[good].max(initial=1.0))
    # Only ratios matter; weights of any size stay within the range of floats.
    return np.where(good, given / largest, 0.0)


def _runs(*keys: Integers) -> Integers:
    """Return where each run of equal keys starts, and the end."""
    n = len(keys[0])
    new = np.zeros(n, dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.append(np.flatnonzero(new), n).astype(np.int64)


def _design(
    groups: Integers, n_groups: int, weights: Any, strata: Any, psu: Any, n: int
) -> _Design:
    usable = _usable_weights(weights, n)
    stratum = _labels(strata, "strata", n)
    unit = _labels(psu, "psu", n)
    inside = (groups >= 0) & (usable > 0)
    known = np.ones(n_groups, dtype=bool)
    for labels in (stratum, unit):
        if labels is not None:
            known[np.unique(groups[inside & (labels < 0)])] = False
    rows = np.flatnonzero(inside & known[groups])
    group = groups[rows]
    own_stratum = np.zeros(len(rows), np.int64) if stratum is None else stratum[rows]
    # Without clusters every respondent is a unit.
    own_unit = np.arange(len(rows)) if unit is None else unit[rows]
    order = np.lexsort((own_unit, own_stratum, group))
    rows, group = rows[order], group[order]
    own_stratum, own_unit = own_stratum[order], own_unit[order]
    unit_starts = _runs(group, own_stratum, own_unit)
    head = unit_starts[:-1]
    stratum_starts = _runs(group[head], own_stratum[head])
    of_stratum = group[head][stratum_starts[:-1]]
    group_starts = np.searchsorted(of_stratum, np.arange(n_groups + 1)).astype(np.int64)
    return _Design(rows, group_starts, stratum_starts, unit_starts, usable[rows], known)


def _check_lonely(lonely: str) -> bool:
    if lonely not in ("adjust", "certainty"):
        raise InvalidInputError(f"lonely_unit must be 'adjust' or 'certainty', not {lonely!r}")
    return lonely == "adjust"


def design_shares_many(
    columns: Sequence[Any],
    options: Sequence[ArrayLike],
    *,
    groups: Any,
    n_groups: int,
    weights: Any = None,
    strata: Any = None,
    psu: Any = None,
    lonely_unit: LonelyUnit = "adjust",
    positions: Sequence[ArrayLike] | None = None,
) -> list[DesignShares]:
    """Return the shares of many variables of the same respondents with their standard errors.

    The design is ordered once; parameters as in :func:`design_shares`. A negative group leaves a
    respondent out. ``positions`` are those of the options of each variable, by default the codes.

    Returns
    -------
    list of DesignShares
        In the order of ``columns``.
    """
    adjust = _check_lonely(lonely_unit)
    group = scalar_column(groups, "groups", np.int64)
    n = len(group)
    if len(group) and int(group.max()) >= n_groups:
        raise InvalidInputError(f"groups: {int(group.max())} is not below n_groups={n_groups}")
    if len(columns) != len(options):
        raise InvalidInputError(f"{len(columns)} columns, but options for {len(options)}")
    names = ["codes"] if len(columns) == 1 else [f"column {j}" for j in range(len(columns))]
    scales = [
        _option_codes(scale, f"options of {name}")
        for scale, name in zip(options, names, strict=True)
    ]
    places = [np.asarray(own, dtype=np.float64) for own in (positions or scales)]
    design = _design(group, n_groups, weights, strata, psu, n)
    rows = design.rows.astype(np.int32)
    freedom = _degrees_of_freedom(design)
    result: list[DesignShares] = []
    for first in range(0, len(columns), _CHUNK):
        part = slice(first, first + _CHUNK)
        pairs = [
            _answer_bytes(column, scale, name)
            for column, scale, name in zip(columns[part], scales[part], names[part], strict=True)
        ]
        for (answers, _), name in zip(pairs, names[part], strict=True):
            if len(answers) != n:
                raise InvalidInputError(f"{name} has {len(answers)} rows, groups {n}")
        matrix = distributions.gather_rows(np.stack([answers for answers, _ in pairs]), rows)
        lengths = np.array([len(scale) for scale in scales[part]], dtype=np.int64)
        where = np.zeros((len(lengths), int(lengths.max(initial=0))))
        for row, own in zip(where, places[part], strict=True):
            row[: len(own)] = own
        shares, variances, of_means, n_valid = survey.share_variances(
            matrix,
            np.array([base for _, base in pairs], dtype=np.int64),
            lengths,
            where,
            design.groups,
            design.strata,
            design.units,
            design.weights,
            adjust,
        )
        for j, scale in enumerate(scales[part]):
            k = slice(0, len(scale))
            result.append(
                _shares(
                    shares[j, :, k], variances[j, :, k], of_means[j], where[j, k], n_valid[j],
                    freedom,
                )
            )  # fmt: skip
    return result


def _degrees_of_freedom(design: _Design) -> Integers:
    """Return the sampling units minus the strata of each group, at least 1 where there are any."""
    strata = np.diff(design.groups)
    units: Integers = design.strata[design.groups[1:]] - design.strata[design.groups[:-1]]
    freedom: Integers = np.maximum(units - strata, np.minimum(units, 1)).astype(np.int64)
    return freedom


def _shares(
    probs: Floats,
    variances: Floats,
    of_means: Floats,
    positions: Floats,
    n_valid: Integers,
    freedom: Integers,
) -> DesignShares:
    with np.errstate(invalid="ignore", divide="ignore"):
        simple = (probs * (1.0 - probs)).sum(axis=1) / (n_valid - 1.0)
        total = variances.sum(axis=1)
        defined = (n_valid > 1) & (simple > ATOL) & (total > 0.0)
        effect = np.where(defined, total / simple, np.nan)
        n_eff = np.where(defined, n_valid / effect, np.nan)
        mean = probs @ positions
        spread = (probs * (positions - mean[:, None]) ** 2).sum(axis=1)
        varies = defined & (of_means > 0.0)
        n_eff_mean = np.where(varies, spread * n_valid / ((n_valid - 1.0) * of_means), np.nan)
    return DesignShares(
        np.ascontiguousarray(probs),
        np.sqrt(variances),
        n_valid.copy(),
        n_eff,
        effect,
        n_eff_mean,
        freedom,
    )


def design_shares(
    codes: Any,
    options: ArrayLike,
    *,
    groups: Any = None,
    n_groups: int | None = None,
    weights: Any = None,
    strata: Any = None,
    psu: Any = None,
    lonely_unit: LonelyUnit = "adjust",
) -> DesignShares:
    """Return weighted shares with standard errors by Taylor linearisation.

    Primary sampling units (PSUs) are taken as drawn with replacement within strata; there is no
    finite-population correction. Respondents without a valid answer stay in the design: shares
    are those of a domain.

    Parameters
    ----------
    codes : array-like or Arrow column of shape (n,)
        Answer codes; a null, NaN or a code that is no option is no valid answer.
    options : array-like of int, shape (K,)
        The codes in the order of the scale.
    groups : array-like of int, shape (n,), optional
        Group of each respondent, for example a country and wave; each is a sample of its own.
        By default there is one.
    n_groups : int, optional
        By default the largest group plus one.
    weights : array-like of shape (n,), optional
        A null, NaN, infinite, zero or negative weight drops the respondent. None: unweighted.
    strata, psu : array-like of labels, shape (n,), optional
        Without strata a group is one stratum, without PSUs every respondent is one. PSU labels
        count within their stratum. A group in which a label is missing has an unknown design:
        its errors are NaN.
    lonely_unit : {"adjust", "certainty"}
        What a stratum with a single PSU contributes: its squared distance from the mean over all
        strata (as ``survey.lonely.psu = "adjust"`` of R's survey), or nothing.

    Returns
    -------
    DesignShares

    Notes
    -----
    With y 1 for those who chose an option and 0 for the others, R its share and N the weight of
    the valid answers, z = w (y - R) / N. The variance is the sum over strata of
    n / (n - 1) * sum (z_u - mean z)^2, z_u being the total of z over a PSU and n the number of
    PSUs in the stratum.

    Examples
    --------
    >>> import chronocore as cc
    >>> shares = cc.design_shares([1, 1, 2, 2, 2, 1], [1, 2], psu=[1, 1, 2, 2, 3, 3])
    >>> shares.probs.tolist(), shares.standard_errors.round(4).tolist()
    ([[0.5, 0.5]], [[0.2887, 0.2887]])
    """
    answers = codes if hasattr(codes, "__arrow_c_stream__") else np.asarray(codes)
    n = len(column_array(answers, "codes")) if not isinstance(answers, np.ndarray) else len(answers)
    group = np.zeros(n, np.int64) if groups is None else scalar_column(groups, "groups", np.int64)
    if len(group) != n:
        raise InvalidInputError(f"groups has {len(group)} rows, the answers {n}")
    if n_groups is None:
        n_groups = int(group.max(initial=0)) + 1
    return design_shares_many(
        [codes],
        [options],
        groups=group,
        n_groups=n_groups,
        weights=weights,
        strata=strata,
        psu=psu,
        lonely_unit=lonely_unit,
    )[0]


def design_mean(
    values: Any,
    *,
    weights: Any = None,
    strata: Any = None,
    psu: Any = None,
    lonely_unit: LonelyUnit = "adjust",
) -> DesignMean:
    """Return a weighted mean with its standard error by Taylor linearisation.

    Parameters
    ----------
    values : array-like or Arrow column of shape (n,)
        A null or NaN is no value; its respondent stays in the design.
    weights, strata, psu, lonely_unit
        As in :func:`design_shares`.

    Returns
    -------
    DesignMean

    Raises
    ------
    InvalidInputError
        No respondent has a value and a usable weight, or a stratum or PSU is missing.

    Examples
    --------
    Survivors of heart attacks by ambulance station, two stations in each of three areas:

    >>> import chronocore as cc
    >>> survivors = cc.design_mean([25, 24, 30, 49, 80, 70], strata=[1, 1, 2, 2, 3, 3])
    >>> round(survivors.estimate, 3), round(survivors.standard_error, 3), survivors.n
    (46.333, 3.582, 6)
    """
    adjust = _check_lonely(lonely_unit)
    given = scalar_column(values, "values", np.float64)
    n = len(given)
    design = _design(np.zeros(n, np.int64), 1, weights, strata, psu, n)
    if not design.known[0]:
        raise InvalidInputError(
            "strata or psu is missing for a respondent with a usable weight; leave these "
            "respondents out or name their unit"
        )
    if not len(design.rows):
        raise InvalidInputError("no respondent has a usable weight")
    means, variances, n_valid = survey.mean_variances(
        given[design.rows], design.groups, design.strata, design.units, design.weights, adjust
    )
    if n_valid[0] == 0:
        raise InvalidInputError("no respondent has a value and a usable weight")
    freedom = (len(design.units) - 1) - (len(design.strata) - 1)
    return DesignMean(float(means[0]), float(np.sqrt(variances[0])), int(n_valid[0]), freedom)


def replicate_mean(
    values: Any, weights: Any, replicate_weights: Any, *, scale: float, rscales: Any = None
) -> DesignMean:
    """Return a weighted mean with its standard error by replicate weights.

    Parameters
    ----------
    values : array-like of shape (n,)
        A null or NaN is no value.
    weights : array-like of shape (n,)
        The full-sample weight.
    replicate_weights : array-like of shape (n, R)
    scale : float
        Factor of the sum of squares: 1 / R for balanced repeated replication,
        1 / (R (1 - rho)^2) for Fay's method, (R - 1) / R for the delete-one jackknife (JK1),
        1 / (R - 1) for the bootstrap.
    rscales : array-like of shape (R,), optional
        A factor for each replicate, as in the stratified jackknife (JKn).

    Returns
    -------
    DesignMean
        Squares are taken about the full-sample estimate.

    Examples
    --------
    >>> import chronocore as cc
    >>> jackknife = [[0, 1.5, 1.5], [1.5, 0, 1.5], [1.5, 1.5, 0]]
    >>> mean = cc.replicate_mean([1, 2, 6], [1, 1, 1], jackknife, scale=2 / 3)
    >>> mean.estimate, round(mean.standard_error, 4), mean.degrees_of_freedom
    (3.0, 1.5275, 2)
    """
    given = scalar_column(values, "values", np.float64)
    full = scalar_column(weights, "weights", np.float64)
    replicates = np.asarray(replicate_weights, dtype=np.float64)
    if replicates.ndim != 2 or len(replicates) != len(given) or replicates.shape[1] < 2:
        raise InvalidInputError(
            f"replicate_weights must be (n, R) with n = {len(given)} and R >= 2, "
            f"it is {replicates.shape}"
        )
    if len(full) != len(given):
        raise InvalidInputError(f"weights has {len(full)} rows, the values {len(given)}")
    if not np.isfinite(replicates).all() or (replicates < 0).any():
        raise InvalidInputError("replicate_weights must be finite and not negative")
    factors = np.ones(replicates.shape[1])
    if rscales is not None:
        factors = np.asarray(rscales, dtype=np.float64)
        if factors.shape != (replicates.shape[1],):
            raise InvalidInputError(f"rscales must have {replicates.shape[1]} values")
    keep = np.isfinite(given) & np.isfinite(full) & (full > 0)
    if not keep.any():
        raise InvalidInputError("no respondent has a value and a usable weight")
    y, w, r = given[keep], full[keep], replicates[keep]
    sums = r.sum(axis=0)
    if not (sums > 0).all():
        raise InvalidInputError(f"replicate {int(np.argmin(sums))} has no weight left")
    estimate = float((w * y).sum() / w.sum())
    each = (r * y[:, None]).sum(axis=0) / sums
    variance = scale * float((factors * (each - estimate) ** 2).sum())
    return DesignMean(estimate, float(np.sqrt(variance)), int(keep.sum()), r.shape[1] - 1)
