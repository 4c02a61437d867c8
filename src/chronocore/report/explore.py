"""The evaluated pairs, compact enough to travel in the page, for filters by the reader."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.metrics import SHIFTS
from chronocore.results import Results
from chronocore.tables import words
from chronocore.tolerance import above, at_most

__all__ = ["MEASURES", "pair_data"]

SHIFTED = SHIFTS[1:]

OUTCOMES = ("both", "older_only", "newer_only", "neither")
ALIGNMENTS = ("separated", "older_aligned", "newer_aligned", "reversed", "tied")
STABILITIES = ("preserves", "small_drift", "large_drift")

#: What a reader can choose: key, label, unit, digits, axis, base of the bars, and where the
#: tables hold the values of all pairs: (table, measure, item), classes, name of all together.
MEASURES: tuple[dict[str, Any], ...] = (
    {"key": "both", "label": "both years accurate", "unit": "%", "digits": 1, "axis": [0, 100],
     "base": 0, "table": "t08", "of": ("t08", "both", None), "classes": SHIFTS, "all": "all"},
    {"key": "separated", "label": "each prediction nearest to its own year", "unit": "%",
     "digits": 1, "axis": [0, 100], "base": 0, "table": "t10", "of": ("t10", "separated", None),
     "classes": SHIFTED, "all": "all_shifted"},
    {"key": "zero_shift", "label": "same prediction for both years", "unit": "%", "digits": 1,
     "axis": [0, 100], "base": 0, "table": "t11", "of": ("t11", "zero_shift", None),
     "classes": SHIFTED, "all": "all_shifted"},
    {"key": "median_ratio", "label": "median ratio of predicted to observed shift", "unit": "ratio",
     "digits": 2, "axis": [0, 2], "base": 0, "table": "t11", "of": ("t11", "median_ratio", None),
     "classes": SHIFTED, "all": "all_shifted"},
    {"key": "right_direction", "label": "right direction, where a change is predicted",
     "unit": "%", "digits": 1, "axis": [0, 100], "base": 0, "table": "t11",
     "of": ("t11", "right_direction", None), "classes": SHIFTED, "all": "all_shifted"},
    {"key": "preserves", "label": "stable pairs predicted as stable", "unit": "%", "digits": 1,
     "axis": [0, 100], "base": 0, "table": "t13", "of": ("t13", "preserves", None),
     "classes": ("stable",), "all": None},
    {"key": "benefit_older", "label": "benefit of naming the older year", "unit": "W × 100",
     "digits": 2, "axis": [-1, 1], "base": 0, "table": "t18",
     "of": ("t18", "mean_benefit", "older"), "classes": SHIFTS, "all": "all"},
    {"key": "benefit_newer", "label": "benefit of naming the newer year", "unit": "W × 100",
     "digits": 2, "axis": [-1, 1], "base": 0, "table": "t18",
     "of": ("t18", "mean_benefit", "newer"), "classes": SHIFTS, "all": "all"},
)  # fmt: skip


def _text(values: NDArray[Any]) -> str:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode()


def _coded(values: Sequence[str]) -> tuple[list[str], NDArray[np.uint16]]:
    names = sorted(set(values))
    place = {name: index for index, name in enumerate(names)}
    return names, np.array([place[value] for value in values], dtype=np.uint16)


def _codes(values: Sequence[str | None], names: Sequence[str]) -> NDArray[np.uint16]:
    place = {name: index for index, name in enumerate(names)}
    return np.array([place.get(value or "", len(names)) for value in values], dtype=np.uint16)


def _reals(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _cell(results: Results, run: Any, measure: Mapping[str, Any], group: str) -> list[Any]:
    table, name, item = measure["of"]
    if group == "all" and table == "t18":
        table = "t17"
    cell = results.cell(table, run, group, name, item)
    return [cell.estimate, cell.low, cell.high, cell.n, cell.few]


def pair_data(results: Results) -> dict[str, Any]:
    """Return the evaluated pairs of every evaluated run as text a page can hold.

    About 22 characters a pair and run: two bytes of classes, decided when the study was scored,
    and three numbers in single precision.
    """
    columns = ["pair_id", "survey", "topic", "region"]
    pairs = results.study.pairs().select(columns).to_pydict()
    surveys, survey = _coded(pairs["survey"])
    topics, topic = _coded(
        [
            f"{name}: {label or 'no topic'}"
            for name, label in zip(pairs["survey"], pairs["topic"], strict=True)
        ]
    )
    regions, region = _coded([name or "no region" for name in pairs["region"]])
    place = {pair_id: number for number, pair_id in enumerate(pairs["pair_id"])}
    index = np.uint16 if len(place) <= np.iinfo(np.uint16).max else np.uint32
    runs = []
    for run in results.evaluated:
        scores = results.scores(run)
        held = scores.filter(scores["retained"]).to_pydict()
        zero = at_most(_reals(held["d_m"]), 0.0)
        cosine = _reals(held["cosine"])
        defined = np.isfinite(cosine)
        right = defined & above(np.where(defined, cosine, 0.0), 0.0)
        bits = (
            _codes(held["outcome"], OUTCOMES)
            | _codes(held["alignment"], ALIGNMENTS) << 2
            | _codes(held["stability"], STABILITIES) << 5
            | _codes(held["shift"], SHIFTS) << 7
            | zero.astype(np.uint16) << 9
            | defined.astype(np.uint16) << 10
            | right.astype(np.uint16) << 11
        )
        runs.append(
            {
                "label": run.label,
                "pair": _text(np.array([place[p] for p in held["pair_id"]], dtype=index)),
                "bits": _text(bits.astype(np.uint16)),
                "ratio": _text(_reals(held["ratio"]).astype(np.float32)),
                "older": _text(_reals(held["benefit_old"]).astype(np.float32)),
                "newer": _text(_reals(held["benefit_new"]).astype(np.float32)),
            }
        )
    measures, cells = [], {}
    for measure in MEASURES:
        groups = [
            {"key": group, "label": words(group), "classes": [group]}
            for group in measure["classes"]
        ]
        if measure["all"] is not None:
            groups.append(
                {"key": measure["all"], "label": words(measure["all"]),
                 "classes": list(measure["classes"])}
            )  # fmt: skip
        measures.append(
            {key: value for key, value in measure.items() if key not in ("of", "classes", "all")}
            | {"groups": groups}
        )
        cells[measure["key"]] = [
            {group["key"]: _cell(results, run, measure, group["key"]) for group in groups}
            for run in results.evaluated
        ]
        if measure["unit"] == "W × 100":
            ends = [
                abs(value)
                for held in cells[measure["key"]]
                for cell in held.values()
                for value in cell[:3]
                if value is not None
            ]
            top = math.ceil(max([*ends, 1.0]))
            measures[-1]["axis"] = [-top, top]
    return {
        "measures": measures,
        "cells": cells,
        "names": {"survey": surveys, "topic": topics, "region": regions},
        "bytes": np.dtype(index).itemsize,
        "survey": _text(survey),
        "topic": _text(topic),
        "region": _text(region),
        "runs": runs,
    }
