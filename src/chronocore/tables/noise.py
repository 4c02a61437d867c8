"""Sampling noise (appendix F.4), and the part of each shift that stands above it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore.metrics import SHIFTS
from chronocore.noise import cautions
from chronocore.tables.cells import SHIFTED, Cells, Context, TableSpec

__all__ = ["SPECS"]

_NEEDS = "a simulation (chronocore noise STUDY) and a score after it (chronocore score STUDY)"


def _groups(context: Context) -> list[tuple[str, NDArray[np.bool_]]]:
    shift = context.benchmark.shift
    groups = [(name, shift == name) for name in SHIFTS]
    return [
        *groups,
        ("all_shifted", np.isin(shift, SHIFTED)),
        ("all", np.ones(len(shift), dtype=bool)),
    ]


def _noise(cells: Cells, context: Context) -> None:
    for design, (result, table) in context.noise.items():
        if design == "effective":
            cells.remarks.append(f"Effective sizes {result.effective_sizes}.")
        cells.remarks.extend(f"Caution: {one}." for one in cautions(result)[0])
        columns = {
            name: np.asarray(table[name].to_numpy(zero_copy_only=False))
            for name in ("noise_median", "noise_p95", "above_p95")
        }
        for group, rows in _groups(context):
            n = int(rows.sum())
            if not n:
                continue
            # Of all pairs: the median over pairs and repeats, as published.
            median = result.median if group == "all" else np.median(columns["noise_median"][rows])
            for measure, unit, value in (
                ("median", "W", median),
                ("p95", "W", np.median(columns["noise_p95"][rows])),
                ("above_p95", "%", 100 * columns["above_p95"][rows].sum() / n),
            ):
                cells.add(
                    group=group, item=design, measure=measure, unit=unit, estimate=float(value), n=n
                )


def _floor(cells: Cells, context: Context) -> None:
    if not context.noise:
        return
    # The floor rests on the effective sizes, whatever the samples of the simulation.
    result, table = list(context.noise.values())[-1]
    cells.remarks.append(f"Effective sizes {result.effective_sizes}.")
    cells.remarks.extend(f"Caution: {one}." for one in cautions(result)[1])
    columns = {
        name: np.asarray(table[name].to_numpy(zero_copy_only=False))
        for name in ("expected_shift", "excess_shift", "detected")
    }
    for group, rows in _groups(context):
        n = int(rows.sum())
        if not n:
            continue
        for measure, unit, value in (
            ("expected_shift", "W", np.median(columns["expected_shift"][rows])),
            ("excess_shift", "W", np.median(columns["excess_shift"][rows])),
            ("detected", "%", 100 * columns["detected"][rows].sum() / n),
        ):
            cells.add(group=group, measure=measure, unit=unit, estimate=float(value), n=n)


SPECS = (
    TableSpec(
        "noise", "Sampling noise", "robustness",
        "Distance between two samples of unchanged opinion (the older distribution): median and "
        "95th percentile, and the pairs whose own shift is above their 95th percentile. The median "
        "of all pairs is over pairs and repeats, that of a class over its pairs' medians. Over "
        "the whole benchmark, before any filter.",
        "human shift", _noise, item="respondents of each sample", needs=_NEEDS,
    ),
    TableSpec(
        "noise-floor", "Shifts and the noise under them", "robustness",
        "Median over pairs of the shift that sampling alone would show had opinion not changed, "
        "with the effective sizes of both surveys, and of what the observed shift adds to it; and "
        "the pairs told from no change with the false discoveries controlled. STUDY/noise holds "
        "one row a pair.",
        "human shift", _floor, needs=_NEEDS,
    ),
)  # fmt: skip
