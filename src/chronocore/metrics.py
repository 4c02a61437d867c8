"""The metrics of the ChronoCulture paper on arrays, list columns and frames.

Each function validates what it is given and hands it to a kernel; nothing here knows studies,
files or models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chronocore.arrow import Rows, broadcast_rows, byte_column, rows_of, scalar_column
from chronocore.errors import InvalidInputError
from chronocore.tolerance import ATOL, at_least, at_most
from chronocore_kernels import distances, distributions

__all__ = [
    "BOUNDARIES",
    "SHIFTS",
    "WeightedDistributions",
    "check_rows",
    "direction_cosine",
    "extreme_groups",
    "knowledge_filter",
    "normalised",
    "retained_count",
    "rows_cosine",
    "rows_distance",
    "scaled_weights",
    "shares_of_extreme_weights",
    "shift_class",
    "shift_index",
    "wasserstein",
    "weighted_distributions",
    "weighted_distributions_many",
    "weighted_sums",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: The accepted distance of a distribution's sum from 1.
SUM_TOLERANCE = 1e-6

#: Options a variable may have.
MAXIMUM_OPTIONS = 127

# Variables whose answers are gathered and counted at a time; bounds memory at 32 bytes a row.
_CHUNK = 32

#: Shift classes in ascending order.
SHIFTS: tuple[str, ...] = ("stable", "moderate", "strong", "very_strong")

#: Upper boundary of ``stable`` and lower boundaries of ``strong`` and ``very_strong``.
BOUNDARIES: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "default": (0.03, 0.10, 0.20),
        "tighter": (0.02, 0.075, 0.15),
        "looser": (0.04, 0.125, 0.25),
    }
)


def _refuse(name: str, rows: Rows, faults: NDArray[np.int8]) -> None:
    """Raise for the first row that is no distribution."""
    bad = np.flatnonzero(faults)
    if bad.size:
        row = int(bad[0])
        values = rows.values[rows.starts[row] : rows.starts[row] + rows.lengths[row]]
        found = {
            1: "has a value that is not finite",
            2: f"has a negative value ({float(values.min(initial=0.0))!r})",
            3: f"sums to {float(values.sum())!r}, not to 1; divide by the sum first",
        }[int(faults[row])]
        raise InvalidInputError(f"{name}, row {row}: {found}")


def _distributions(data: object, name: str) -> Rows:
    rows = rows_of(data, name)
    _refuse(
        name,
        rows,
        distances.check_distributions(rows.values, rows.starts, rows.lengths, SUM_TOLERANCE),
    )
    return rows


def _supports(data: object) -> Rows:
    rows = rows_of(data, "support")
    faults = distances.check_supports(rows.values, rows.starts, rows.lengths)
    bad = np.flatnonzero(faults)
    if bad.size:
        row = int(bad[0])
        found = {1: "has a position that is not finite", 2: "is not strictly increasing"}
        raise InvalidInputError(f"support, row {row}: {found[int(faults[row])]}")
    return rows


def _require_two_options(rows: Rows) -> None:
    single = np.flatnonzero(rows.lengths < 2)
    if single.size:
        row = int(single[0])
        raise InvalidInputError(
            f"row {row} has {rows.lengths[row]} option(s); a distance needs at least 2"
        )


def wasserstein(p: Any, q: Any, support: Any = None) -> NDArray[np.float64]:
    """Return the normalised Wasserstein-1 distance between ordered distributions.

    W(p, q) is the sum over j < K of abs(F_p(a_j) - F_q(a_j)) * (a_{j+1} - a_j), divided by
    a_K - a_1, with F the cumulative shares.

    Parameters
    ----------
    p, q : array-like of shape (..., K), or N rows of any length
        Distributions over K >= 2 ordered options: finite, >= 0, each summing to 1 within 1e-6.
        List columns of pyarrow, polars, pandas or DuckDB may have a different K in each row.
        All axes but the last broadcast.
    support : array-like of shape (K,) or one row a distribution, optional
        Strictly increasing positions of the options. By default they are equally spaced.

    Returns
    -------
    numpy.ndarray
        Distances in [0, 1], one a row; a zero-dimensional array for two vectors.

    Raises
    ------
    InvalidInputError
        A row is no distribution, has fewer than two options, or shapes do not match; the
        message names the row. Nothing is rescaled.

    Notes
    -----
    ChronoCulture, appendix A.3, equations 6 to 8.

    Examples
    --------
    >>> import chronocore as cc
    >>> float(cc.wasserstein([0.5, 0.5, 0.0], [0.5, 0.0, 0.5], support=[1, 2, 5]))
    0.375
    >>> cc.wasserstein([[0.7, 0.3], [0.2, 0.8]], [0.5, 0.5]).round(6).tolist()
    [0.2, 0.3]
    """
    if support is None and _is_plain(p) and _is_plain(q) and p.shape == q.shape:
        # The common case, without describing a million rows first.
        return _plain_distances(p, q, np.ones(p.shape[1] - 1), float(p.shape[1] - 1))
    rows_p, rows_q = rows_of(p, "p"), rows_of(q, "q")
    rows_support = None if support is None else _supports(support)
    dense = _dense_distances(rows_p, rows_q, rows_support)
    if dense is not None:
        return dense
    named = [("p", _distributions(rows_p, "p")), ("q", _distributions(rows_q, "q"))]
    if rows_support is None:
        (rows_p, rows_q), shape = broadcast_rows(*named)
        rows_support = Rows(np.empty(0), rows_p.starts, rows_p.lengths, shape)
    else:
        (rows_p, rows_q, rows_support), shape = broadcast_rows(*named, ("support", rows_support))
    _require_two_options(rows_p)
    result = distances.wasserstein(
        rows_p.values,
        rows_p.starts,
        rows_q.values,
        rows_q.starts,
        rows_support.values,
        rows_support.starts,
        rows_p.lengths,
    )
    return result.reshape(shape)


def check_rows(support: Rows, **named: Rows) -> None:
    """Raise :class:`InvalidInputError` unless N rows each are distributions over the support."""
    _supports(support)
    broadcast_rows(
        *((name, _distributions(rows, name)) for name, rows in named.items()), ("support", support)
    )
    _require_two_options(support)


def rows_distance(p: Rows, q: Rows, support: Rows) -> NDArray[np.float64]:
    """Return what :func:`wasserstein` does for N checked rows each, without checking them again."""
    return distances.wasserstein(
        p.values, p.starts, q.values, q.starts, support.values, support.starts, p.lengths
    )


def _is_plain(data: Any) -> bool:
    return (
        type(data) is np.ndarray
        and data.dtype == np.float64
        and data.ndim == 2
        and data.shape[0] > 0
        and data.shape[1] > 1
        and bool(data.flags.c_contiguous)
    )


def _plain_distances(
    p: NDArray[np.float64], q: NDArray[np.float64], gaps: NDArray[np.float64], span: float
) -> NDArray[np.float64]:
    result, faults_p, faults_q = distances.wasserstein_rows(p, q, gaps, span, SUM_TOLERANCE)
    for name, matrix, faults in (("p", p, faults_p), ("q", q, faults_q)):
        if faults.any():
            _refuse(name, rows_of(matrix, name), faults)
    return result


def _dense_distances(p: Rows, q: Rows, support: Rows | None) -> NDArray[np.float64] | None:
    """Compare rows of one K pairwise in a single pass; None where rows are of another kind."""
    k = p.width
    if k < 2 or q.width != k or p.shape != q.shape:
        return None
    if support is None:
        gaps, span = np.ones(k - 1), float(k - 1)
    elif len(support) == 1 and support.shape == () and support.lengths[0] == k:
        positions = support.values[support.starts[0] : support.starts[0] + k]
        gaps, span = np.diff(positions), float(positions[-1] - positions[0])
    else:
        return None
    return _plain_distances(p.matrix(), q.matrix(), gaps, span).reshape(p.shape)


def direction_cosine(
    gold_old: Any, gold_new: Any, pred_old: Any, pred_new: Any
) -> NDArray[np.float64]:
    """Return the cosine between the observed and the predicted cumulative change.

    With F the cumulative shares, g = F(gold_new) - F(gold_old) and
    p = F(pred_new) - F(pred_old), not weighted by gaps in the support.

    Parameters
    ----------
    gold_old, gold_new, pred_old, pred_new : array-like of shape (..., K), or N rows
        Distributions as in :func:`wasserstein`; all axes but the last broadcast.

    Returns
    -------
    numpy.ndarray
        Cosines in [-1, 1]; NaN where max|g| or max|p| is at most 1e-12, since a change of zero
        has no direction.

    Notes
    -----
    ChronoCulture, section 4.3, equation 4.

    Examples
    --------
    >>> import chronocore as cc
    >>> float(cc.direction_cosine([0.6, 0.4], [0.5, 0.5], [0.9, 0.1], [0.7, 0.3]))
    1.0
    """
    rows, shape = broadcast_rows(
        ("gold_old", _distributions(gold_old, "gold_old")),
        ("gold_new", _distributions(gold_new, "gold_new")),
        ("pred_old", _distributions(pred_old, "pred_old")),
        ("pred_new", _distributions(pred_new, "pred_new")),
    )
    _require_two_options(rows[0])
    return rows_cosine(*rows).reshape(shape)


def rows_cosine(
    gold_old: Rows, gold_new: Rows, pred_old: Rows, pred_new: Rows
) -> NDArray[np.float64]:
    """Return what :func:`direction_cosine` does for N checked rows each."""
    return distances.direction_cosine(
        gold_old.values,
        gold_old.starts,
        gold_new.values,
        gold_new.starts,
        pred_old.values,
        pred_old.starts,
        pred_new.values,
        pred_new.starts,
        gold_old.lengths,
        ATOL,
    )


@dataclass(frozen=True, slots=True)
class WeightedDistributions:
    """Response distributions of G groups over K options.

    Attributes
    ----------
    probs : (G, K) float64
        Weighted shares; a group without a valid answer is NaN.
    n_valid : (G,) int64
        Respondents with a valid answer and a usable weight.
    n_eff : (G,) float64
        Kish effective sample size of those respondents, (sum w)^2 / sum w^2; 0 if there are none.
    n_dropped_weight : (G,) int64
        Respondents with a valid answer dropped for a null, NaN, infinite, zero or negative weight.
    """

    probs: NDArray[np.float64]
    n_valid: NDArray[np.int64]
    n_eff: NDArray[np.float64]
    n_dropped_weight: NDArray[np.int64]


def _option_codes(options: ArrayLike, where: str) -> NDArray[np.int64]:
    codes = np.asarray(options)
    if codes.ndim != 1 or codes.size == 0:
        raise InvalidInputError(f"{where} must be a non-empty vector of codes")
    if not np.issubdtype(codes.dtype, np.integer):
        raise InvalidInputError(f"{where} must be integer codes")
    if len(set(codes.tolist())) != len(codes):
        raise InvalidInputError(f"{where} has a code twice: {codes.tolist()}")
    return codes.astype(np.int64)


def _answer_bytes(column: object, options: NDArray[np.int64], name: str) -> tuple[Any, int]:
    """Return answers as one byte each, and the byte of the first option.

    Consecutive options in a column of int8 need no translation; other codes become positions.
    """
    consecutive = options[-1] - options[0] == len(options) - 1 and bool(
        (options[1:] > options[:-1]).all()
    )
    if consecutive and options[0] >= -127 and options[-1] <= 127:
        answers = byte_column(column, -128)
        if answers is not None:
            return answers, int(options[0])
    low, high = int(options.min()), int(options.max())
    if high - low >= 2**20:
        raise InvalidInputError(f"the options of {name} span too wide a range: {low} to {high}")
    table = np.full(high - low + 1, -1, dtype=np.int8)
    table[options - low] = np.arange(len(options))
    codes = scalar_column(column, name, np.float64)
    return distributions.code_positions(codes, table, low), 0


def weighted_distributions(
    codes: Any,
    groups: Any,
    weights: Any,
    options: ArrayLike,
    n_groups: int | None = None,
) -> WeightedDistributions:
    """Return the weighted share of each option in each group.

    Parameters
    ----------
    codes : array-like or Arrow column of shape (n,)
        Answer codes. A null, NaN or a code that is no option is an invalid answer: it leaves
        numerator and denominator.
    groups : array-like or Arrow column of shape (n,)
        Group of each respondent, an integer in [0, ``n_groups``).
    weights : array-like or Arrow column of shape (n,), or None
        Survey weights; only their ratios within a group matter. None means unweighted.
        A null, NaN, infinite, zero or negative weight drops the respondent.
    options : array-like of int, shape (K,)
        The codes of the question in the order of its scale. An option nobody chose keeps
        share 0.
    n_groups : int, optional
        By default the largest group plus one.

    Returns
    -------
    WeightedDistributions

    Notes
    -----
    ChronoCulture, section 3.3 and appendix A.2.

    Examples
    --------
    >>> import chronocore as cc
    >>> gold = cc.weighted_distributions([1, 1, 2], [0, 0, 0], [1, 1, 2], options=[1, 2])
    >>> gold.probs.tolist(), gold.n_valid.tolist(), gold.n_eff.round(3).tolist()
    ([[0.5, 0.5]], [3], [2.667])
    """
    return weighted_distributions_many([codes], groups, weights, [options], n_groups)[0]


def weighted_distributions_many(
    columns: Sequence[Any],
    groups: Any,
    weights: Any,
    options: Sequence[ArrayLike],
    n_groups: int | None = None,
) -> list[WeightedDistributions]:
    """Return the weighted distributions of many variables of the same respondents.

    One pass over all variables: rows are ordered by group once.

    Parameters
    ----------
    columns : sequence of array-like or Arrow columns of shape (n,)
        Answer codes, one column a variable, as in :func:`weighted_distributions`.
    groups, weights, n_groups
        As in :func:`weighted_distributions`; shared by all variables.
    options : sequence of array-like of int
        The codes of each variable in the order of its scale, at most 127.

    Returns
    -------
    list of WeightedDistributions
        In the order of ``columns``.

    Notes
    -----
    ChronoCulture, section 3.3 and appendix A.2.

    Examples
    --------
    >>> import chronocore as cc
    >>> answers = [[1, 2, 2], [3, 3, 1]]
    >>> both = cc.weighted_distributions_many(answers, [0, 0, 0], None, [[1, 2], [1, 2, 3]])
    >>> [one.probs.round(2).tolist() for one in both]
    [[[0.33, 0.67]], [[0.33, 0.0, 0.67]]]
    """
    result: list[WeightedDistributions] = []
    scales, chunks = weighted_sums(columns, groups, weights, options, n_groups, rescale=True)
    for first, sums, n_valid, squares, n_dropped in chunks:
        probs, n_eff = normalised(sums, squares)
        for j, scale in enumerate(scales[first : first + len(sums)]):
            own = np.ascontiguousarray(probs[j, :, : len(scale)])
            result.append(WeightedDistributions(own, n_valid[j], n_eff[j], n_dropped[j]))
    if weights is not None and result:
        group_values = scalar_column(groups, "groups", np.int64)
        given = scalar_column(weights, "weights", np.float64)
        concerned = np.flatnonzero(extreme_groups(given, group_values, len(result[0].n_valid)))
        for one, column, codes in zip(result, columns, options, strict=True):
            if len(concerned):
                one.probs[concerned], one.n_eff[concerned] = shares_of_extreme_weights(
                    column, group_values, given, codes, concerned
                )
    return result


def normalised(sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return shares and Kish's effective sizes from sums of weights and of their squares."""
    # Slots beyond a variable's last option are 0, so one sum serves all variables.
    totals = sums.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        probs = sums / totals[:, :, None]
        n_eff = np.where(squares > 0, totals * totals / squares, 0.0)
    return probs, n_eff


def extreme_groups(weights: Floats, groups: Integers, n_groups: int) -> NDArray[np.bool_]:
    """Return which groups hold a weight above 1e100 or below 1e-100, whose square is no float."""
    good = np.isfinite(weights) & (weights > 0) & (groups >= 0)
    concerned = np.zeros(n_groups, dtype=np.bool_)
    concerned[groups[good & ((weights > 1e100) | (weights < 1e-100))]] = True
    return concerned


def shares_of_extreme_weights(
    codes: Any, groups: Integers, weights: Floats, options: ArrayLike, concerned: Integers
) -> tuple[Floats, Floats]:
    """Return shares (G', K) and effective sizes (G',) of some groups, each on a scale of its own.

    The scale is that of the weights of the valid answers to this one question; a huge weight of
    somebody who did not answer it changes nothing.
    """
    answers = scalar_column(codes, "codes", np.float64)
    scale = np.asarray(options, dtype=np.float64)
    shares = np.full((len(concerned), len(scale)), np.nan)
    sizes = np.zeros(len(concerned))
    for place, group in enumerate(concerned.tolist()):
        rows = np.flatnonzero((groups == group) & np.isfinite(weights) & (weights > 0))
        chosen = answers[rows][:, None] == scale[None, :]
        valid = chosen.any(axis=1)
        if valid.any():
            own = weights[rows][valid]
            own = np.ldexp(own, -int(np.frexp(own.max())[1]))
            total = own.sum()
            shares[place] = (own[:, None] * chosen[valid]).sum(axis=0) / total
            sizes[place] = total * total / (own * own).sum()
    return shares, sizes


def scaled_weights(weights: Floats, groups: Integers, n_groups: int) -> Floats:
    """Return weights whose squares stay within the range of floats, scaled group by group.

    Only ratios within a group matter. A group is scaled, by a power of two, only if it holds
    weights above 1e100 or below 1e-100, so that one huge weight changes nothing elsewhere.

    Parameters
    ----------
    weights : (n,) float64
        Unusable weights (NaN, infinite, zero, negative) stay as they are.
    groups : (n,) int64
        Below 0: of no group, left as it is.
    n_groups : int

    Returns
    -------
    (n,) float64
        The same array where nothing had to be scaled.
    """
    good = np.isfinite(weights) & (weights > 0) & (groups >= 0)
    concerned = extreme_groups(weights, groups, n_groups)
    if not concerned.any():
        return weights
    rows = np.flatnonzero(good)
    rows = rows[concerned[groups[rows]]]
    largest = np.zeros(n_groups)
    np.maximum.at(largest, groups[rows], weights[rows])
    exponent = np.frexp(largest)[1]
    scaled = weights.copy()
    # A weight that vanishes beside the largest is a respondent still.
    scaled[rows] = np.maximum(np.ldexp(weights[rows], -exponent[groups[rows]]), 5e-324)
    return scaled


def weighted_sums(
    columns: Sequence[Any],
    groups: Any,
    weights: Any,
    options: Sequence[ArrayLike],
    n_groups: int | None = None,
    *,
    rescale: bool = False,
) -> tuple[list[Integers], Iterator[tuple[int, Floats, Integers, Floats, Integers]]]:
    """Return what :func:`weighted_distributions_many` divides, some variables at a time.

    ``rescale`` takes the weights of each group to its own scale (:func:`scaled_weights`): then
    sums of several groups cannot be added.

    Returns
    -------
    scales : list of (K,) int64
        The checked options of each variable.
    chunks : iterator
        Number of the first variable, sums of weights (V, G, K_max), valid answers (V, G), sums
        of squared weights (V, G) and answers dropped for their weight (V, G).
    """
    if len(columns) != len(options):
        raise InvalidInputError(f"{len(columns)} columns, but options for {len(options)}")
    names = ["codes"] if len(columns) == 1 else [f"column {j}" for j in range(len(columns))]
    scales = [
        _option_codes(scale, "options" if len(columns) == 1 else f"options of {name}")
        for scale, name in zip(options, names, strict=True)
    ]
    for scale, name in zip(scales, names, strict=True):
        if len(scale) > MAXIMUM_OPTIONS:
            raise InvalidInputError(
                f"{name} has {len(scale)} options, at most {MAXIMUM_OPTIONS} are supported"
            )
    try:
        group_values = scalar_column(groups, "groups", np.int64)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error}; groups are integers from 0, for example from "
            "numpy.unique(labels, return_inverse=True)"
        ) from None
    n = len(group_values)
    if n >= 2**31:
        raise InvalidInputError(f"at most {2**31 - 1} respondents in one call, not {n}")
    if n and int(group_values.min()) < 0:
        raise InvalidInputError(f"groups, row {int(np.argmin(group_values))}: negative")
    largest = int(group_values.max(initial=-1))
    if n_groups is None:
        n_groups = largest + 1
        if n_groups > 1000 + 10 * len(np.unique(group_values)):
            raise InvalidInputError(
                f"groups run up to {largest} and are mostly empty: number them from 0 without "
                "gaps, for example by numpy.unique(labels, return_inverse=True)"
            )
    elif largest >= n_groups:
        row = int(np.argmax(group_values))
        raise InvalidInputError(f"groups, row {row}: {largest} is not below n_groups={n_groups}")
    usable = np.empty(0)
    all_usable = True
    if weights is not None:
        given = scalar_column(weights, "weights", np.float64)
        if len(given) != n:
            raise InvalidInputError(f"groups has {n} rows, weights {len(given)}")
        if rescale:
            given = scaled_weights(given, group_values, n_groups)
        good = np.isfinite(given) & (given > 0)
        all_usable = bool(good.all())
        usable = given if all_usable else np.where(good, given, 0.0)
    starts, rows, ordered = distributions.group_order(group_values, n_groups)
    if not ordered and weights is not None:
        usable = usable[rows]
    return scales, _sums_by_chunk(columns, scales, names, starts, rows, ordered, usable, all_usable)


def _sums_by_chunk(
    columns: Sequence[Any],
    scales: list[Integers],
    names: list[str],
    starts: Integers,
    rows: NDArray[np.int32],
    ordered: bool,
    usable: Floats,
    all_usable: bool,
) -> Iterator[tuple[int, Floats, Integers, Floats, Integers]]:
    n = int(starts[-1])
    for first in range(0, len(columns), _CHUNK):
        part = slice(first, first + _CHUNK)
        pairs = [
            _answer_bytes(column, scale, name)
            for column, scale, name in zip(columns[part], scales[part], names[part], strict=True)
        ]
        for (answers, _), name in zip(pairs, names[part], strict=True):
            if len(answers) != n:
                raise InvalidInputError(f"{name} has {len(answers)} rows, groups {n}")
        matrix = pairs[0][0][None] if len(pairs) == 1 else np.stack([a for a, _ in pairs])
        if not ordered:
            matrix = distributions.gather_rows(matrix, rows)
        sums, n_valid, squares, n_dropped = distributions.weighted_counts(
            matrix,
            np.array([base for _, base in pairs], dtype=np.int64),
            np.array([len(scale) for scale in scales[part]], dtype=np.int64),
            starts,
            usable,
            all_usable,
        )
        yield first, sums, n_valid, squares, n_dropped


def _boundary_set(boundaries: str | Sequence[float]) -> tuple[float, float, float]:
    if isinstance(boundaries, str):
        if boundaries not in BOUNDARIES:
            raise InvalidInputError(
                f"boundaries {boundaries!r} is none of {', '.join(sorted(BOUNDARIES))}"
            )
        return BOUNDARIES[boundaries]
    values = tuple(float(value) for value in boundaries)
    if len(values) != 3 or not 0 <= values[0] < values[1] < values[2] <= 1:
        raise InvalidInputError(f"boundaries must be three increasing values in [0, 1]: {values}")
    return values


def shift_class(d_h: ArrayLike, boundaries: str | Sequence[float] = "default") -> NDArray[np.str_]:
    """Return the shift class of each human shift.

    Parameters
    ----------
    d_h : array-like
        Human shifts, W(gold_old, gold_new), in [0, 1].
    boundaries : {"default", "tighter", "looser"} or three floats
        Stable up to and including the first; strong from the second, very strong from the third
        on. A value within 1e-12 of a boundary counts as on it.

    Returns
    -------
    numpy.ndarray of str
        ``"stable"``, ``"moderate"``, ``"strong"`` or ``"very_strong"``, in the shape of ``d_h``.

    Notes
    -----
    ChronoCulture, section 3.5, Table 1, and appendix F.1.

    Examples
    --------
    >>> import chronocore as cc
    >>> cc.shift_class([0.03, 0.55 - 0.52, 0.05, 0.1, 0.2]).tolist()
    ['stable', 'stable', 'moderate', 'strong', 'very_strong']
    """
    return np.asarray(SHIFTS)[shift_index(d_h, boundaries)]


def shift_index(d_h: ArrayLike, boundaries: str | Sequence[float] = "default") -> NDArray[np.int8]:
    """Return the position of each shift class in :data:`SHIFTS`; see :func:`shift_class`."""
    stable, strong, very_strong = _boundary_set(boundaries)
    values = np.asarray(d_h, dtype=np.float64)
    if not np.all((values >= 0) & (values <= 1 + SUM_TOLERANCE)):
        raise InvalidInputError("d_h must lie in [0, 1]")
    index = np.where(
        at_least(values, very_strong),
        3,
        np.where(at_least(values, strong), 2, np.where(at_most(values, stable), 0, 1)),
    )
    return index.astype(np.int8)


def retained_count(retain: float, n: int) -> int:
    """Return ``floor(retain * n)``, meant exactly: 0.29 of 100 is 29 and 2/3 of 3 is 2."""
    return math.floor(retain * n + 1e-9)


def knowledge_filter(
    nearest_distance: ArrayLike, strata: Any, retain: float = 0.75
) -> NDArray[np.bool_]:
    """Return which questions the model knows best, within each stratum.

    Parameters
    ----------
    nearest_distance : array-like of shape (n,)
        Distance of the undated prediction to the nearest available time point (the paper's K).
        Compared after rounding to 12 decimals.
    strata : array-like of shape (n,)
        Stratum of each row (any hashable labels): survey and number of available time points.
    retain : float
        Share to keep, in (0, 1]: the smallest ``floor(retain * n)`` of each stratum, ties by
        position. A stratum of one keeps none below 1.

    Returns
    -------
    numpy.ndarray of bool, shape (n,)

    Notes
    -----
    ChronoCulture, section 4.1 and appendix B.2.

    Examples
    --------
    >>> import chronocore as cc
    >>> cc.knowledge_filter([0.3, 0.1, 0.2, 0.1], ["a", "a", "a", "a"], retain=0.5).tolist()
    [False, True, False, True]
    """
    values = np.asarray(nearest_distance, dtype=np.float64)
    labels = list(np.asarray(strata, dtype=object)) if not isinstance(strata, list) else strata
    if values.ndim != 1 or len(labels) != len(values):
        raise InvalidInputError("nearest_distance and strata must be vectors of one length")
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInputError(f"nearest_distance, row {row}: not finite")
    if not 0 < retain <= 1:
        raise InvalidInputError(f"retain must lie in (0, 1], not {retain}")
    members: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    mask = np.zeros(len(values), dtype=bool)
    rounded = np.round(values, 12)
    for rows in members.values():
        kept = retained_count(retain, len(rows))
        ranked = sorted(rows, key=lambda row: (rounded[row], row))
        mask[ranked[:kept]] = True
    return mask
