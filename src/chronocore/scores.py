"""Predictions -> one row of scores a temporal pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.errors import StudyError
from chronocore.metrics import (
    BOUNDARIES,
    direction_cosine,
    knowledge_filter,
    shift_class,
    wasserstein,
)
from chronocore.tolerance import ATOL, above, at_least, at_most, below, equal

__all__ = ["PairPredictions", "pair_predictions", "score_pairs"]

#: From here on the change a model predicts for a stable pair is large.
LARGE_DRIFT = 0.10

Valid = ("ok", "recovered")


@dataclass(frozen=True, slots=True)
class PairPredictions:
    """The pairs of a study that have all three predictions, with what they are scored against.

    Attributes
    ----------
    pairs : pyarrow.Table
        The complete pairs, a subset of ``pairs.parquet`` in its order.
    old, new, undated : list of list of float
        The predictions for the older year, the newer year and no year.
    supports : list of list of float
        Positions of the options.
    time_points : list of list of (int, list of float)
        Year and gold distribution of every available time point, oldest first.
    n_incomplete : int
        Pairs left out because a prediction is missing or not valid.
    """

    pairs: pa.Table
    old: list[list[float]]
    new: list[list[float]]
    undated: list[list[float]]
    supports: list[list[float]]
    time_points: list[list[tuple[int, list[float]]]]
    n_incomplete: int


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
    by_prompt = {
        row["prompt_id"]: row["probs"]
        for row in predictions.select(["prompt_id", "repeat", "status", "probs"]).to_pylist()
        if row["repeat"] == 0 and row["status"] in Valid and row["probs"] is not None
    }
    answers: dict[tuple[str, str, str, int | None], list[float]] = {}
    wanted = (instruction, elicitation)
    columns = ["prompt_id", "kind", "instruction", "elicitation"]
    for row in prompts.select([*columns, "survey", "variable", "country", "year"]).to_pylist():
        if row["kind"] == "modal" or (row["instruction"], row["elicitation"]) != wanted:
            continue
        probs = by_prompt.get(row["prompt_id"])
        if probs is not None:
            answers[row["survey"], row["variable"], row["country"], row["year"]] = probs
    support = {
        (item["survey"], item["variable"]): [o["position"] for o in item["options"]]
        for item in items.to_pylist()
    }
    points: dict[tuple[str, str, str], list[tuple[int, list[float]]]] = {}
    for row in gold.select(["survey", "variable", "country", "year", "probs"]).to_pylist():
        key = (row["survey"], row["variable"], row["country"])
        points.setdefault(key, []).append((row["year"], row["probs"]))
    kept: list[int] = []
    triples: list[tuple[list[float], list[float], list[float]]] = []
    columns = ["survey", "variable", "country", "year_old", "year_new"]
    rows = pairs.select(columns).to_pylist()
    for index, row in enumerate(rows):
        where = (row["survey"], row["variable"], row["country"])
        found = [answers.get((*where, year)) for year in (row["year_old"], row["year_new"], None)]
        if found[0] is not None and found[1] is not None and found[2] is not None:
            kept.append(index)
            triples.append((found[0], found[1], found[2]))
    locations = [(rows[i]["survey"], rows[i]["variable"], rows[i]["country"]) for i in kept]
    return PairPredictions(
        pairs=pairs.take(pa.array(kept, pa.int64())),
        old=[triple[0] for triple in triples],
        new=[triple[1] for triple in triples],
        undated=[triple[2] for triple in triples],
        supports=[support[where[:2]] for where in locations],
        time_points=[sorted(points[where]) for where in locations],
        n_incomplete=len(rows) - len(kept),
    )


def _lists(rows: Sequence[Sequence[float]]) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float64()))


def _default_years(
    data: PairPredictions,
) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Return the distance of each undated prediction to its nearest time point, and its years."""
    flat_gold = [probs for points in data.time_points for _, probs in points]
    repeats = [len(points) for points in data.time_points]
    index = np.repeat(np.arange(len(repeats)), repeats)
    distances = wasserstein(
        _lists([data.undated[i] for i in index]),
        _lists(flat_gold),
        _lists([data.supports[i] for i in index]),
    )
    nearest = np.empty(len(repeats))
    years: list[list[int]] = []
    start = 0
    for pair, points in enumerate(data.time_points):
        own = distances[start : start + len(points)]
        start += len(points)
        nearest[pair] = own.min()
        tied = at_most(own, float(own.min()))
        years.append([year for (year, _), is_tied in zip(points, tied, strict=True) if is_tied])
    return nearest, years


def _choose(conditions: list[NDArray[np.bool_]], names: list[str], default: str) -> list[str]:
    return [str(name) for name in np.select(conditions, names, default)]


def _identical(a: list[list[float]], b: list[list[float]]) -> list[bool]:
    return [
        max(abs(x - y) for x, y in zip(p, q, strict=True)) <= ATOL
        for p, q in zip(a, b, strict=True)
    ]


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
    if not len(data.pairs):
        raise StudyError(
            f"none of the {data.n_incomplete} pairs has a valid old, new and undated "
            "prediction; see the statuses that predict printed"
        )
    gold_old, gold_new = data.pairs["gold_old"], data.pairs["gold_new"]
    support = _lists(data.supports)
    old, new, undated = _lists(data.old), _lists(data.new), _lists(data.undated)
    d_h = np.asarray(data.pairs["d_h"].to_numpy(), dtype=np.float64)
    d_old = wasserstein(old, gold_old, support)
    d_new = wasserstein(new, gold_new, support)
    d_old_to_new = wasserstein(old, gold_new, support)
    d_new_to_old = wasserstein(new, gold_old, support)
    d_m = wasserstein(old, new, support)
    cosine = direction_cosine(gold_old, gold_new, old, new)
    shift = shift_class(d_h, boundaries)
    stable_boundary = (
        BOUNDARIES[boundaries][0] if isinstance(boundaries, str) else float(boundaries[0])
    )
    nearest, default_years = _default_years(data)
    columns = [data.pairs[c].to_pylist() for c in ("survey", "n_timepoints")]
    strata = list(zip(*columns, strict=True))
    retained = (
        np.ones(len(nearest), dtype=bool)
        if is_reference
        else knowledge_filter(nearest, strata, retain)
    )
    old_ok, new_ok = at_most(d_old, tau), at_most(d_new, tau)
    outcome = _choose(
        [old_ok & new_ok, old_ok, new_ok], ["both", "older_only", "newer_only"], "neither"
    )
    old_tied, new_tied = equal(d_old, d_old_to_new), equal(d_new, d_new_to_old)
    old_to_own, new_to_own = d_old < d_old_to_new, d_new < d_new_to_old
    alignment = _choose(
        [
            old_tied | new_tied,
            old_to_own & new_to_own,
            ~old_to_own & ~new_to_own,
            old_to_own,
        ],
        ["tied", "separated", "reversed", "older_aligned"],
        "newer_aligned",
    )
    stable = shift == "stable"
    stability = np.select(
        [
            stable & at_most(d_m, stable_boundary),
            stable & below(d_m, LARGE_DRIFT),
            stable & at_least(d_m, LARGE_DRIFT),
        ],
        ["preserves", "small_drift", "large_drift"],
        "",
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(above(d_h, 0.0), d_m / d_h, np.nan)
    undated_to_old = wasserstein(undated, gold_old, support)
    undated_to_new = wasserstein(undated, gold_new, support)

    def nullable(values: NDArray[np.float64]) -> pa.Array:
        return pa.array(values, pa.float64(), mask=np.isnan(values))

    result: dict[str, Any] = {
        name: data.pairs[name]
        for name in ("pair_id", "survey", "variable", "country", "year_old", "year_new")
    }
    result |= {
        "shift": pa.array(shift.tolist(), pa.string()),
        "d_h": d_h,
        "retained": retained,
        "nearest_distance": nearest,
        "d_old": d_old,
        "d_new": d_new,
        "d_old_to_new": d_old_to_new,
        "d_new_to_old": d_new_to_old,
        "d_m": d_m,
        "ratio": nullable(ratio),
        "cosine": nullable(cosine),
        "outcome": outcome,
        "alignment": alignment,
        "stability": pa.array([s or None for s in stability.tolist()], pa.string()),
        "benefit_old": undated_to_old - d_old,
        "benefit_new": undated_to_new - d_new,
        "identical_old": _identical(data.old, data.undated),
        "identical_new": _identical(data.new, data.undated),
        "default_years": pa.array(default_years, schema.SCORES.field("default_years").type),
    }
    return schema.conform(pa.table(result), schema.SCORES).sort_by("pair_id")
