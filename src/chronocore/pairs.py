"""Gold distributions -> temporal pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from chronocore import schema
from chronocore.config import Rules
from chronocore.errors import SourceError
from chronocore.identity import pair_id, time_point_key
from chronocore.metrics import shift_class, wasserstein
from chronocore.tolerance import ATOL

__all__ = ["mode_of", "pairs_table"]


def mode_of(probs: Sequence[float]) -> tuple[int, bool]:
    """Return the position of the largest probability and whether it is tied.

    Ties within 1e-12 go to the lowest position.

    Examples
    --------
    >>> mode_of([0.2, 0.4, 0.4])
    (1, True)
    """
    largest = max(probs)
    tied = [j for j, p in enumerate(probs) if p >= largest - ATOL]
    return tied[0], len(tied) > 1


# The wave that ends a study's series; the European Values Study counts its own.
_LAST_WAVE = {"evs": 5}


def _in_order_of_time(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # By wave where there are waves: a wave may be named by a year before an earlier wave's. Two
    # studies count their waves apart, so there the years decide.
    if len({point["study"] for point in points}) > 1:
        return sorted(points, key=lambda row: (row["year"], row["wave"] or 0))
    return sorted(points, key=lambda row: (row["wave"] or 0, row["year"]))


def _newest(points: list[dict[str, Any]], rules: Rules) -> dict[str, Any] | None:
    """Return the newer end of a pair; ``points`` are in order of time."""
    if rules.newest == "wave7" and any(point["wave"] is not None for point in points):
        if points[0]["survey"] in _LAST_WAVE:
            return points[-1]
        last = [point for point in points if point["wave"] == _LAST_WAVE.get(point["study"], 7)]
        return last[-1] if last else None
    return points[-1]


def pairs_table(gold: pa.Table, items: pa.Table, rules: Rules) -> pa.Table:
    """Pair the oldest with the newest time point of every variable and country.

    Parameters
    ----------
    gold, items : pyarrow.Table
        Schemas :data:`chronocore.schema.GOLD` and :data:`chronocore.schema.ITEMS`.
    rules : Rules
        The newest rule and the boundaries of the shift classes.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.PAIRS`, in the order of ``gold``.

    Raises
    ------
    SourceError
        No variable has two time points in any country.

    Notes
    -----
    ChronoCulture, sections 3.4 and 3.5; definitions, section 3.
    """
    by_item = {(item["survey"], item["variable"]): item for item in items.to_pylist()}
    rows: list[dict[str, Any]] = []
    keys = ("survey", "variable", "country")
    for key, group in groupby(gold.to_pylist(), key=lambda row: tuple(row[k] for k in keys)):
        points = _in_order_of_time(list(group))
        newest = _newest(points, rules)
        oldest = points[0]
        if newest is None or newest is oldest:
            continue
        survey, variable, country = key
        item = by_item[survey, variable]
        codes = [option["code"] for option in item["options"]]
        old_key = time_point_key(oldest["wave"], oldest["year"], oldest["study"])
        new_key = time_point_key(newest["wave"], newest["year"], newest["study"])
        assert old_key is not None
        assert new_key is not None
        mode_old, tied_old = mode_of(oldest["probs"])
        mode_new, tied_new = mode_of(newest["probs"])
        rows.append(
            {
                "pair_id": pair_id(survey, variable, country, old_key, new_key),
                "survey": survey,
                "variable": variable,
                "country": country,
                "country_name": newest["country_name"],
                "region": newest["region"],
                "topic": item["topic"],
                "topic_broad": item["topic_broad"],
                "wave_old": oldest["wave"],
                "wave_new": newest["wave"],
                "year_old": oldest["year"],
                "year_new": newest["year"],
                "n_timepoints": len(points),
                "n_valid_old": oldest["n_valid"],
                "n_valid_new": newest["n_valid"],
                "n_eff_old": oldest["n_eff"],
                "n_eff_new": newest["n_eff"],
                "gold_old": oldest["probs"],
                "gold_new": newest["probs"],
                "mode_old": codes[mode_old],
                "mode_new": codes[mode_new],
                "mode_tied_old": tied_old,
                "mode_tied_new": tied_new,
                "support": [option["position"] for option in item["options"]],
            }
        )
    if not rows:
        raise SourceError(
            "no variable has two time points in any country under these rules; "
            f"lower [rules] min_respondents ({rules.min_respondents}), widen waves, or set "
            'newest = "latest"'
        )
    d_h = wasserstein(
        pa.array([row["gold_old"] for row in rows]),
        pa.array([row["gold_new"] for row in rows]),
        pa.array([row.pop("support") for row in rows]),
    )
    shifts = shift_class(np.asarray(d_h), rules.boundaries)
    for row, distance, shift in zip(rows, d_h, shifts, strict=True):
        row["d_h"] = float(distance)
        row["shift"] = str(shift)
    return pa.Table.from_pylist(rows, schema=schema.PAIRS)
