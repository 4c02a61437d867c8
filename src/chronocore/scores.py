"""Predictions -> one row of scores a temporal pair.

Everything is a column: distributions are ragged rows over flat buffers, classes are small
integer codes, and one call of a kernel serves all pairs of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore import schema
from chronocore.arrow import Rows, positions_among, row_keys, rows_of
from chronocore.errors import StudyError
from chronocore.metrics import (
    BOUNDARIES,
    SHIFTS,
    check_rows,
    retained_count,
    rows_cosine,
    rows_distance,
    shift_index,
)
from chronocore.tolerance import ATOL, above, at_least, at_most, below, equal

__all__ = [
    "ALIGNMENTS",
    "LARGE_DRIFT",
    "OUTCOMES",
    "PLACES",
    "SCORED_COLUMNS",
    "STABILITIES",
    "VALID",
    "PairPredictions",
    "PairScores",
    "against_gold",
    "default_columns",
    "largest_difference",
    "outcome_codes",
    "pair_predictions",
    "pair_scores",
    "retained_at",
    "score_pairs",
    "scores_table",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]

#: From here on the change a model predicts for a stable pair is large.
LARGE_DRIFT = 0.10

#: What is read of a run to score it; texts are not among it.
SCORED_COLUMNS = ["prompt_id", "repeat", "status", "probs", "choice"]

#: Which of the two predictions are accurate; a code of :attr:`PairScores.outcome` is a position.
OUTCOMES = ("both", "older_only", "newer_only", "neither")
#: Which year's gold the predictions are closer to.
ALIGNMENTS = ("separated", "older_aligned", "newer_aligned", "reversed", "tied")
#: What a model does with a stable pair.
STABILITIES = ("preserves", "small_drift", "large_drift")
#: Where the default year of an undated prediction lies among the available years.
PLACES = ("oldest", "intermediate", "newest")

VALID = ("ok", "recovered")


@dataclass(frozen=True, slots=True)
class PairPredictions:
    """The pairs of a study that have all three predictions, with what they are scored against.

    Attributes
    ----------
    pairs : pyarrow.Table
        The complete pairs, a subset of ``pairs.parquet`` in its order.
    index : (n,) int64
        Row of each complete pair in ``pairs.parquet``.
    old, new, undated : Rows
        The predictions for the older year, the newer year and no year.
    gold_old, gold_new : Rows
        The gold distributions of the two years.
    supports : Rows
        Positions of the options.
    points : Rows
        Gold of every available time point of every pair, oldest first.
    point_years : (p,) int64
        Year of each time point.
    point_starts : (n + 1,) int64
        Where the time points of each pair begin.
    n_incomplete : int
        Pairs left out because a prediction is missing or not valid.
    """

    pairs: pa.Table
    index: Integers
    old: Rows
    new: Rows
    undated: Rows
    gold_old: Rows
    gold_new: Rows
    supports: Rows
    points: Rows
    point_years: Integers
    point_starts: Integers
    n_incomplete: int

    def __len__(self) -> int:
        return len(self.index)


def _flat(rows: Rows) -> tuple[Integers, Integers]:
    """Return, for each option of each row, its place in the flat buffer, and where rows begin."""
    ends = np.cumsum(rows.lengths)
    begins = ends - rows.lengths
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(rows.starts - begins, rows.lengths), begins


def pair_predictions(
    pairs: pa.Table,
    gold: pa.Table,
    items: pa.Table,
    prompts: pa.Table,
    predictions: pa.Table,
    instruction: str = "default",
    elicitation: str = "verbalized",
) -> PairPredictions:
    """Put the predictions of a run (repeat 0) beside the pairs they belong to.

    A pair without a valid old, new and undated prediction is left out of everything.
    """
    own = pc.and_(
        pc.equal(prompts["instruction"], instruction), pc.equal(prompts["elicitation"], elicitation)
    )
    asked = prompts.filter(pc.and_(pc.not_equal(prompts["kind"], "modal"), own))
    usable = pc.and_(
        pc.and_(
            pc.equal(predictions["repeat"], 0),
            pc.is_in(predictions["status"], pa.array(VALID)),
        ),
        pc.is_valid(predictions["probs"]),
    )
    valid = predictions.select(["prompt_id", "probs"]).filter(usable)
    prompt = positions_among(
        valid["prompt_id"].combine_chunks(), asked["prompt_id"].combine_chunks()
    )
    valid = valid.filter(pa.array(prompt >= 0))
    where = ["survey", "variable", "country"]
    answered = row_keys(asked.select([*where, "year"]), [*where, "year"]).take(
        pa.array(prompt[prompt >= 0])
    )
    answers = rows_of(valid["probs"].combine_chunks(), "predictions")
    location = row_keys(pairs, where)
    undated_key = pc.binary_join_element_wise(location, "-", "\x1f")
    old_key, new_key = (row_keys(pairs, [*where, year]) for year in ("year_old", "year_new"))
    found = np.stack([positions_among(key, answered) for key in (old_key, new_key, undated_key)])
    kept = np.flatnonzero((found >= 0).all(axis=0))

    supports = rows_of(_supports(items), "support")
    item = positions_among(row_keys(pairs, where[:2]), row_keys(items, where[:2]))[kept]
    point_pair = positions_among(row_keys(gold, where), location.take(pa.array(kept)))
    inside = np.flatnonzero(point_pair >= 0)
    years = np.asarray(gold["year"].to_numpy(), dtype=np.int64)[inside]
    order = np.lexsort((years, point_pair[inside]))
    counts = np.bincount(point_pair[inside], minlength=len(kept))
    points = rows_of(gold["probs"].combine_chunks(), "gold").take(inside[order])
    data = PairPredictions(
        pairs=pairs.take(pa.array(kept)),
        index=kept,
        old=answers.take(found[0][kept]),
        new=answers.take(found[1][kept]),
        undated=answers.take(found[2][kept]),
        gold_old=rows_of(pairs["gold_old"].combine_chunks(), "gold_old").take(kept),
        gold_new=rows_of(pairs["gold_new"].combine_chunks(), "gold_new").take(kept),
        supports=supports.take(item),
        points=points,
        point_years=years[order],
        point_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        n_incomplete=len(pairs) - len(kept),
    )
    _check_lengths(data)
    return data


def _supports(items: pa.Table) -> pa.Array:
    options = items["options"].combine_chunks()
    positions = pc.struct_field(options.flatten(), "position")
    starts = options.offsets.to_numpy()
    return pa.ListArray.from_arrays(pa.array(starts - starts[0], pa.int32()), positions)


def _check_lengths(data: PairPredictions) -> None:
    expected = data.supports.lengths
    for name in ("old", "new", "undated"):
        found = getattr(data, name).lengths
        bad = np.flatnonzero(found != expected)
        if bad.size:
            row = data.pairs.slice(int(bad[0]), 1).to_pylist()[0]
            raise StudyError(
                f"the {name} prediction of {row['survey']}, {row['variable']}, country "
                f"{row['country']} has {found[bad[0]]} options, the variable "
                f"{expected[bad[0]]}; the predictions do not belong to these items"
            )


# -- scores -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores of n pairs under one prediction, one array a column.

    Attributes
    ----------
    pair : (n,) int64
        Row of each pair in ``pairs.parquet``.
    pair_ids : (n,) bytes
        Ascending.
    d_h, d_old, d_new, d_old_to_new, d_new_to_old, d_m : (n,) float64
        Human shift; distances of each prediction to either gold; predicted change.
    ratio, cosine : (n,) float64
        NaN where undefined.
    nearest_distance : (n,) float64
        Distance of the undated prediction to the nearest time point.
    benefit_old, benefit_new : (n,) float64
        What naming the year takes off the distance to its gold.
    identical_old, identical_new : (n,) bool
        The dated prediction equals the undated one.
    shift : (n,) int8
        Position in :data:`chronocore.metrics.SHIFTS`.
    outcome, alignment : (n,) int8
        Position in :data:`OUTCOMES`, :data:`ALIGNMENTS`.
    stability : (n,) int8
        Position in :data:`STABILITIES`; -1 for pairs that are not stable.
    credit : (n, 3) float64
        Share of the default year at each of :data:`PLACES`; rows sum to 1.
    n_timepoints : (n,) int64
        Available time points.
    retained : (n,) bool
        Kept by the knowledge filter.
    rank, stratum_size : (n,) int64
        Place of the pair in its stratum, by nearest distance from 0, and pairs in the stratum.
    even : (n,) bool
        Both dated predictions give every option the same share.
    tau : float
        Tolerance the outcomes were decided with.
    data : PairPredictions or None
        What was scored, for intervals that draw gold again.
    """

    pair: Integers
    pair_ids: NDArray[np.bytes_]
    d_h: Floats
    d_old: Floats
    d_new: Floats
    d_old_to_new: Floats
    d_new_to_old: Floats
    d_m: Floats
    ratio: Floats
    cosine: Floats
    nearest_distance: Floats
    benefit_old: Floats
    benefit_new: Floats
    identical_old: Flags
    identical_new: Flags
    shift: Codes
    outcome: Codes
    alignment: Codes
    stability: Codes
    credit: Floats
    n_timepoints: Integers
    retained: Flags
    rank: Integers
    stratum_size: Integers
    even: Flags
    tau: float = 0.10
    data: PairPredictions | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.pair)

    def take(self, rows: Integers | Flags) -> PairScores:
        """Return the scores of some pairs, in the order asked for."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    def within(self, tau: float) -> PairScores:
        """Return the scores under another tolerance of accuracy."""
        return replace(self, tau=tau, outcome=outcome_codes(self.d_old, self.d_new, tau))

    def under(self, boundaries: str | Sequence[float]) -> PairScores:
        """Return the scores under another set of shift boundaries."""
        shift = shift_index(self.d_h, boundaries)
        return replace(self, shift=shift, stability=_stability(shift, self.d_m, boundaries))

    def at(self, retain: float) -> Flags:
        """Return which pairs the knowledge filter keeps at a level, in (0, 1]."""
        return retained_at(self.rank, self.stratum_size, retain)


_COLUMNS = tuple(column.name for column in fields(PairScores) if column.name not in ("tau", "data"))


def retained_at(rank: Integers, stratum_size: Integers, retain: float) -> Flags:
    """Return which pairs are among the first ``floor(retain * n)`` of their stratum."""
    sizes, which = np.unique(stratum_size, return_inverse=True)
    kept = np.array([retained_count(retain, int(size)) for size in sizes], dtype=np.int64)
    return np.asarray(rank < kept[which])


def _strata_ranks(nearest: Floats, strata: Integers) -> tuple[Integers, Integers]:
    """Return the rank of each pair in its stratum (ties by position) and the stratum's size."""
    order = np.lexsort((np.round(nearest, 12), strata))
    sizes = np.bincount(strata)
    begins = np.cumsum(sizes) - sizes
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - begins[strata[order]]
    return rank, sizes[strata]


def _strata(pairs: pa.Table) -> Integers:
    """Return the stratum of each pair: survey x number of available time points."""
    keys = row_keys(pairs, ("survey", "n_timepoints"))
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.int64)


def _default_years(data: PairPredictions) -> tuple[Floats, Flags]:
    """Return the distance of each undated prediction to its nearest time point, and which it is."""
    counts = np.diff(data.point_starts)
    owner = np.repeat(np.arange(len(data)), counts)
    distances = rows_distance(data.undated.take(owner), data.points, data.supports.take(owner))
    nearest = np.minimum.reduceat(distances, data.point_starts[:-1])
    return nearest, at_most(distances, nearest[owner])


def _credit(data: PairPredictions, is_default: Flags) -> Floats:
    """Return how the nearest time points share the credit between the places, shape (n, 3)."""
    owner = np.repeat(np.arange(len(data)), np.diff(data.point_starts))[is_default]
    years = data.point_years[is_default]
    old, new = (
        np.asarray(data.pairs[name].to_numpy(), dtype=np.int64)[owner]
        for name in ("year_old", "year_new")
    )
    place = np.where(years == old, 0, np.where(years == new, 2, 1))
    tied = np.bincount(owner, minlength=len(data))
    credit = np.bincount(owner * 3 + place, 1 / tied[owner], 3 * len(data))
    return np.asarray(credit, dtype=np.float64).reshape(-1, 3)


def largest_difference(a: Rows, b: Rows) -> Floats:
    """Return the largest difference of two distributions at any option, for each row."""
    places_a, begins = _flat(a)
    places_b, _ = _flat(b)
    return np.asarray(np.maximum.reduceat(np.abs(a.values[places_a] - b.values[places_b]), begins))


def _is_even(rows: Rows) -> Flags:
    places, begins = _flat(rows)
    values = rows.values[places]
    distance = np.abs(values - np.repeat(1 / rows.lengths, rows.lengths))
    return np.asarray(np.maximum.reduceat(distance, begins) <= ATOL)


def outcome_codes(d_old: Floats, d_new: Floats, tau: float) -> Codes:
    """Return the position in :data:`OUTCOMES` of each pair."""
    old, new = at_most(d_old, tau), at_most(d_new, tau)
    return np.select([old & new, old, new], [0, 1, 2], 3).astype(np.int8)


def _alignment(d_old: Floats, d_new: Floats, old_to_new: Floats, new_to_old: Floats) -> Codes:
    tied = equal(d_old, old_to_new) | equal(d_new, new_to_old)
    old_to_own, new_to_own = d_old < old_to_new, d_new < new_to_old
    conditions = [tied, old_to_own & new_to_own, ~old_to_own & ~new_to_own, old_to_own]
    return np.select(conditions, [4, 0, 3, 1], 2).astype(np.int8)


def _stability(shift: Codes, d_m: Floats, boundaries: str | Sequence[float]) -> Codes:
    boundary = BOUNDARIES[boundaries][0] if isinstance(boundaries, str) else float(boundaries[0])
    stable = shift == 0
    conditions = [
        stable & at_most(d_m, boundary),
        stable & below(d_m, LARGE_DRIFT),
        stable & at_least(d_m, LARGE_DRIFT),
    ]
    return np.select(conditions, [0, 1, 2], -1).astype(np.int8)


def against_gold(
    data: PairPredictions,
    *,
    tau: float,
    d_h: Floats | None = None,
    d_m: Floats | None = None,
    defaults: bool = True,
) -> dict[str, NDArray[Any]]:
    """Return the columns of :class:`PairScores` that depend on gold, in the order of ``data``.

    Nothing is checked here: gold is drawn again many times, predictions stay what they are.

    Parameters
    ----------
    data : PairPredictions
    tau : float
        Tolerance of accuracy.
    d_h : (n,) float64, optional
        Human shift; by default the distance between the two gold distributions.
    d_m : (n,) float64, optional
        Predicted change; by default the distance between the two predictions.
    defaults : bool
        With :func:`default_columns`.
    """
    found: dict[tuple[int, int], Floats] = {}

    def distance(p: Rows, q: Rows) -> Floats:
        # A prediction that cannot change with the year is compared once for all three.
        key = (id(p), id(q))
        if key not in found:
            found[key] = rows_distance(p, q, data.supports)
        return found[key]

    old, new, undated = data.old, data.new, data.undated
    if d_h is None:
        d_h = distance(data.gold_old, data.gold_new)
    if d_m is None:
        d_m = distance(old, new)
    d_old = distance(old, data.gold_old)
    d_new = distance(new, data.gold_new)
    d_old_to_new = distance(old, data.gold_new)
    d_new_to_old = distance(new, data.gold_old)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(above(d_h, 0.0), d_m / d_h, np.nan)
    columns = {
        "d_old": d_old,
        "d_new": d_new,
        "d_old_to_new": d_old_to_new,
        "d_new_to_old": d_new_to_old,
        "ratio": ratio,
        "cosine": rows_cosine(data.gold_old, data.gold_new, old, new),
        "benefit_old": distance(undated, data.gold_old) - d_old,
        "benefit_new": distance(undated, data.gold_new) - d_new,
        "outcome": outcome_codes(d_old, d_new, tau),
        "alignment": _alignment(d_old, d_new, d_old_to_new, d_new_to_old),
    }
    return columns | default_columns(data) if defaults else columns


def default_columns(data: PairPredictions) -> dict[str, Floats]:
    """Return the columns that rest on undated predictions and the gold of all time points."""
    nearest, is_default = _default_years(data)
    return {"nearest_distance": nearest, "credit": _credit(data, is_default)}


def pair_scores(
    data: PairPredictions,
    *,
    tau: float = 0.10,
    retain: float = 0.75,
    boundaries: str | Sequence[float] = "default",
    is_reference: bool = False,
) -> PairScores:
    """Score every complete pair of a run; see :func:`score_pairs` for parameters and errors.

    Returns
    -------
    PairScores
        Sorted by ``pair_id``.
    """
    if not len(data):
        raise StudyError(
            f"none of the {data.n_incomplete} pairs has a valid old, new and undated "
            "prediction; see the statuses that predict printed"
        )
    d_h = np.asarray(data.pairs["d_h"].to_numpy(), dtype=np.float64)
    check_rows(
        data.supports, old=data.old, new=data.new, undated=data.undated, gold_old=data.gold_old,
        gold_new=data.gold_new,
    )  # fmt: skip
    owner = np.repeat(np.arange(len(data)), np.diff(data.point_starts))
    check_rows(data.supports.take(owner), gold=data.points)
    d_m = rows_distance(data.old, data.new, data.supports)
    columns = against_gold(data, tau=tau, d_h=d_h, d_m=d_m)
    shift = shift_index(d_h, boundaries)
    rank, size = _strata_ranks(columns["nearest_distance"], _strata(data.pairs))
    pair_ids = np.asarray(data.pairs["pair_id"].to_numpy(zero_copy_only=False)).astype(np.bytes_)
    scores = PairScores(
        pair=data.index,
        pair_ids=pair_ids,
        d_h=d_h,
        d_m=d_m,
        **columns,
        identical_old=largest_difference(data.old, data.undated) <= ATOL,
        identical_new=largest_difference(data.new, data.undated) <= ATOL,
        shift=shift,
        stability=_stability(shift, d_m, boundaries),
        n_timepoints=np.asarray(data.pairs["n_timepoints"].to_numpy(), dtype=np.int64),
        retained=np.ones(len(data), bool) if is_reference else retained_at(rank, size, retain),
        rank=rank,
        stratum_size=size,
        even=_is_even(data.old) & _is_even(data.new),
        tau=tau,
        data=data,
    )
    return scores.take(np.argsort(pair_ids, kind="stable"))


def score_pairs(
    data: PairPredictions,
    *,
    tau: float = 0.10,
    retain: float = 0.75,
    boundaries: str | Sequence[float] = "default",
    is_reference: bool = False,
) -> pa.Table:
    """Score every complete pair of a run.

    Parameters
    ----------
    data : PairPredictions
    tau : float
        A prediction is accurate within this distance of gold.
    retain : float
        Share that the knowledge filter keeps in each stratum (survey x number of available
        time points).
    boundaries : str or three floats
        Boundaries of the shift classes; the first is also the boundary of stability.
    is_reference : bool
        References have no filter of their own: every pair is retained.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.SCORES`, sorted by ``pair_id``.

    Raises
    ------
    StudyError
        No pair is complete.

    Notes
    -----
    ChronoCulture, sections 4.1 to 4.4; definitions, sections 5 to 8.
    """
    scores = pair_scores(
        data, tau=tau, retain=retain, boundaries=boundaries, is_reference=is_reference
    )
    return scores_table(data, scores)


def scores_table(data: PairPredictions, scores: PairScores) -> pa.Table:
    """Return scores as they are kept in a study, schema :data:`chronocore.schema.SCORES`."""
    _, is_default = _default_years(data)
    owner = np.repeat(np.arange(len(data)), np.diff(data.point_starts))[is_default]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(data)))])
    default_years = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(data.point_years[is_default], pa.int16())
    )
    # ``data`` is in the order of pairs.parquet, ``scores`` by pair_id.
    place = np.searchsorted(data.index, scores.pair)

    def nullable(values: Floats) -> pa.Array:
        return pa.array(values, pa.float64(), mask=np.isnan(values))

    def named(codes: Codes, names: tuple[str, ...]) -> pa.Array:
        return pa.array((*names, None), pa.string()).take(
            pa.array(np.where(codes < 0, len(names), codes).astype(np.int64))
        )

    result: dict[str, Any] = {
        name: data.pairs[name].take(pa.array(place))
        for name in ("pair_id", "survey", "variable", "country", "year_old", "year_new")
    }
    numbers = (
        "d_h", "nearest_distance", "d_old", "d_new", "d_old_to_new", "d_new_to_old", "d_m",
        "benefit_old", "benefit_new", "identical_old", "identical_new", "retained",
    )  # fmt: skip
    result |= {name: pa.array(getattr(scores, name)) for name in numbers}
    result |= {
        "shift": named(scores.shift, SHIFTS),
        "ratio": nullable(scores.ratio),
        "cosine": nullable(scores.cosine),
        "outcome": named(scores.outcome, OUTCOMES),
        "alignment": named(scores.alignment, ALIGNMENTS),
        "stability": named(scores.stability, STABILITIES),
        "default_years": default_years.take(pa.array(place)),
    }
    return schema.conform(pa.table(result), schema.SCORES)
