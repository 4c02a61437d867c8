"""Figures of what was measured: cells of the tables, and scores of single pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from chronocore.figures.marks import (
    FONT_SIZE,
    INTERVAL,
    SMALL,
    WIDTH,
    Row,
    Spec,
    as_field,
    beside,
    count,
    data,
    even_ticks,
    key,
    label_lines,
    layers,
    letters,
    line_key,
    lines_axis,
    nothing,
    number_axis,
    percent,
    stack,
    title,
    trend,
    whisker,
)
from chronocore.figures.sheet import Drawing, Sheet
from chronocore.figures.svg import MODELS, colour
from chronocore.metrics import SHIFTS
from chronocore.results import Cell
from chronocore.score import RunSummary
from chronocore.tables import SMALL_N, number, words
from chronocore.text import plain
from chronocore.tolerance import ATOL

__all__ = [
    "accuracy",
    "alignment",
    "benefit",
    "change",
    "default_year",
    "errors",
    "human_and_model_shift",
    "human_shift",
    "naming_outcomes",
    "nearest_distance",
    "regions",
    "topics",
]


def _count_of(cell: Cell) -> str:
    """Return "n = 12*" of a cell."""
    return count(cell.n, cell.clusters)


SHIFTED = SHIFTS[1:]

#: More points than this are drawn as counts in a grid.
MANY_POINTS = 1200

#: References drawn beside a single model: prediction, words, colour role, shape.
_BESIDE = (
    ("undated_both", "undated for both", "reference", "diamond"),
    ("pooled", "pooled", "rule", "square"),
    ("uniform", "uniform", "reference-mid", "triangle-up"),
)


def _entries(sheet: Sheet) -> list[tuple[str, str, str]]:
    """Return the key of the models."""
    return [
        (sheet.name(run), role, shape)
        for run, (role, shape) in zip(sheet.models, MODELS, strict=False)
    ]


def _series(
    sheet: Sheet, table: str, measure: str, groups: tuple[str, ...], item: str | None = None
) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return a series a model; beside a single model also references on the same pairs."""
    found = [
        (role, shape, sheet.cells(table, run, groups, measure, item=item))
        for run, (role, shape) in zip(sheet.models, MODELS, strict=False)
    ]
    for prediction, _, role, shape in _held(sheet, table, measure, groups, item):
        (run,) = sheet.models
        cells = sheet.cells(table, run, groups, measure, item=item, prediction=prediction)
        found.append((role, shape, cells))
    return found


def _held(
    sheet: Sheet, table: str, measure: str, groups: tuple[str, ...], item: str | None = None
) -> list[tuple[str, str, str, str]]:
    """Return the references that stand beside a single model."""
    if len(sheet.models) != 1:
        return []
    (run,) = sheet.models
    return [
        entry
        for entry in _BESIDE
        if any(
            cell["estimate"] is not None
            for cell in sheet.cells(table, run, groups, measure, item=item, prediction=entry[0])
        )
    ]


def _trend_key(
    sheet: Sheet, table: str, measure: str, groups: tuple[str, ...], item: str | None = None
) -> Spec:
    held = _held(sheet, table, measure, groups, item)
    entries = [*_entries(sheet), *((name, role, shape) for _, name, role, shape in held)]
    return key(entries, 34)


def _beside_note(sheet: Sheet) -> str:
    return (
        " References (grey) are evaluated on the same pairs."
        if len(sheet.models) == 1 and sheet.focus.engine != "reference"
        else ""
    )


def _range(series: Sequence[tuple[str, str, list[dict[str, Any]]]]) -> tuple[float, float]:
    values = [
        cell[name]
        for _, _, cells in series
        for cell in cells
        for name in ("estimate", "low", "high")
        if cell[name] is not None
    ]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _listed(sheet: Sheet, table: str, measure: str, groups: tuple[str, ...]) -> str:
    return "; ".join(
        f"{plain(run.label)}: {sheet.classes(run, table, measure, groups)}" for run in sheet.models
    )


def _names(groups: Sequence[str]) -> list[str]:
    return [words(group) for group in groups]


# -- figure 5 ------------------------------------------------------------------------------------


def accuracy(sheet: Sheet) -> Drawing | str:
    """Figure 5: both years accurate, and exactly one, by human shift."""
    tau = sheet.results.tau_text
    chosen = sheet.results.boundary_set
    panels = [
        trend(
            _series(sheet, "t08", "both", SHIFTS), _names(SHIFTS),
            head=f"(a) both years within {tau} of the survey", domain=(0, 100), unit="%",
            labels=False, height=104,
        ),
        trend(
            _series(sheet, "t22", "one_period", SHIFTS, chosen), _names(SHIFTS),
            head=f"(b) exactly one year within {tau}", domain=(0, 100), unit="%", height=104,
        ),
    ]  # fmt: skip
    return Drawing(
        title="Accuracy by human shift",
        caption=(
            f"Share of evaluated pairs whose predictions are within {tau} of the survey (W), by "
            "class of human shift: (a) for both years, (b) for exactly one. Lines are "
            f"{sheet.level} bootstrap intervals. {sheet.few}{_beside_note(sheet)}{sheet.left_out}"
        ),
        description="Both years accurate, in percent. "
        + _listed(sheet, "t08", "both", SHIFTS)
        + ".",
        sources=("tables/t08: both", "tables/t22: one_period"),
        spec=stack([_trend_key(sheet, "t08", "both", SHIFTS), *panels], 12),
    )


# -- figure 6 ------------------------------------------------------------------------------------

_ALIGNMENT = (
    ("separated", "separated", "on-strong"),
    ("older_aligned", "older", "on-strong"),
    ("newer_aligned", "newer", "on-pale"),
    ("reversed", "reversed", "on-strong"),
    ("tied", "tied", "ink"),
)


def _share_bars(
    lines: Sequence[tuple[str, Sequence[tuple[Cell, str, str]], bool]],
    *,
    width: float,
    extent: float,
    step: float = 24,
    named: bool = True,
    head: str | None = None,
) -> Spec:
    """Return stacked shares with the interval of the first one.

    ``lines`` are (label, (cell, colour role, colour role of text on it), own): lines that are
    not the run's own are paler.
    """
    keys = [line_key(i, label) for i, (label, _, _) in enumerate(lines)]
    y = lines_axis(keys, named, extent)
    x = percent("x0")
    bars: list[Row] = []
    texts: dict[str, list[Row]] = {}
    whiskers: list[Row] = []
    empty: list[Row] = []
    for name, (_, cells, own) in zip(keys, lines, strict=True):
        if any(cell.estimate is None for cell, _, _ in cells):
            empty.append({"row": name})
            continue
        at = 0.0
        for index, (cell, role, on) in enumerate(cells):
            end = at + (cell.estimate or 0.0)
            bars.append(
                {"row": name, "x0": at, "x1": end, "c": colour(role), "o": 1 if own else 0.55}
            )
            first = index == 0
            if own and (end - at) * width / 100 >= (19 if first else 25):
                # The interval of the first share may cross the middle of the second.
                texts.setdefault(on + ("<" if first else ""), []).append(
                    {"row": name, "x": 4 * 100 / width if first else (at + end) / 2,
                     "t": f"{cell.estimate:.0f}%"}
                )  # fmt: skip
            at = end
        cell = cells[0][0]
        if own and cell.low is not None and cell.low != cell.high:
            whiskers.append({"row": name, "low": cell.low, "high": cell.high})
    band = alt.RelativeBandSize(band=0.8)
    charts = [
        # Hides the grid behind faded bars.
        alt.Chart(data(bars)).mark_bar(height=band, color=colour("surface")).encode(
            x=x, x2="x1:Q", y=y
        ),
        alt.Chart(data(bars))
        .mark_bar(height=band, stroke=colour("surface"), strokeWidth=0.8)
        .encode(
            x=x, x2="x1:Q", y=y, color=alt.Color("c:N", scale=None),
            opacity=alt.Opacity("o:Q", scale=None),
        ),
        *whisker(data(whiskers), x, y, "ink", step * 0.26, halo=True),
    ]  # fmt: skip
    for role, members in texts.items():
        charts.append(
            alt.Chart(data(members))
            .mark_text(
                align="left" if role.endswith("<") else "center", fontSize=SMALL,
                color=colour(role.removesuffix("<")), yOffset=-1.5,
            )
            .encode(x=as_field(x, "x"), y=y, text="t:N")
        )  # fmt: skip
    charts += nothing(empty, x, y, 50)
    return layers(charts, width, alt.Step(step), None if head is None else title(head))


def alignment(sheet: Sheet) -> Drawing | str:
    """Figure 6: which year's survey the predictions are nearer to."""
    extent = 112

    def line(label: str, run: RunSummary, group: str, prediction: str = "model") -> Any:
        cells = [
            (sheet.results.cell("t10", run, group, measure, None, prediction), role, on)
            for measure, role, on in _ALIGNMENT
        ]
        return label, cells, prediction == "model"

    def tied(run: RunSummary, group: str, prediction: str = "model") -> Cell:
        return sheet.results.cell("t10", run, group, "tied", None, prediction)

    if len(sheet.models) > 1:
        lines = [
            line(f"{sheet.name(run, 20)}{'*' if tied(run, 'all_shifted').few else ''}",
                 run, "all_shifted")
            for run in sheet.models
        ]  # fmt: skip
        counts = ", ".join(
            f"{sheet.name(run)} {tied(run, 'all_shifted').n:,}" for run in sheet.models
        )
        what = f"One bar a run, on its evaluated shifted pairs ({counts})."
    else:
        (run,) = sheet.models
        lines = [
            line(
                f"{words(group)}, {_count_of(tied(run, group))}",
                run,
                group,
            )
            for group in (*SHIFTED, "all_shifted")
        ]
        for prediction, name, _, _ in _BESIDE:
            if tied(run, "all_shifted", prediction).n:
                lines.append(line(f"{name}, all", run, "all_shifted", prediction))
        what = f"{sheet.focused} by class of human shift{_faded(sheet)}."
    if not any(cell.estimate is not None for _, cells, _ in lines for cell, _, _ in cells):
        return "No evaluated pair is a shifted one."
    names = {"older_aligned": "older", "newer_aligned": "newer"}
    legend = key(
        [
            *((names.get(m, words(m)), role, "square") for m, role, _ in _ALIGNMENT),
            (f"{sheet.level} interval", "ink", INTERVAL),
        ],
        extent,
    )
    return Drawing(
        title="Which year's survey the predictions are nearer to",
        caption=(
            "Separated: each prediction is nearer to its own year's survey; older, newer: both "
            "are nearer to that one; reversed: each is nearer to the other year's; tied: as near "
            f"to both. {what} Lines are {sheet.level} bootstrap intervals of the share separated. "
            f"{sheet.star}{sheet.left_out}"
        ),
        description="Shares separated, in percent. "
        + _listed(sheet, "t10", "separated", (*SHIFTED, "all_shifted"))
        + ".",
        sources=("tables/t10: separated, older_aligned, newer_aligned, reversed, tied",),
        spec=stack([legend, _share_bars(lines, width=WIDTH - extent - 10, extent=extent)], 10),
    )


def _faded(sheet: Sheet) -> str:
    return "" if sheet.focus.engine == "reference" else "; references (faded) on all shifted pairs"


# -- figure 7 ------------------------------------------------------------------------------------


def change(sheet: Sheet) -> Drawing | str:
    """Figure 7: identical predictions, magnitude and direction by human shift."""
    ratio = _series(sheet, "t11", "median_ratio", SHIFTED)
    _, high = _range(ratio)
    panels = []
    for index, (measure, head, domain, unit, reference) in enumerate(
        (
            ("zero_shift", "identical predictions for both years", (0.0, 100.0), "%", None),
            (
                "median_ratio", "median ratio of predicted to observed shift",
                (0.0, min(max(1.25, high * 1.06), 3.0)), "", 1.0,
            ),
            ("median_cosine", "median cosine of the direction", (-1.0, 1.0), "", 0.0),
        )
    ):  # fmt: skip
        series = _series(sheet, "t11", measure, SHIFTED)
        panels.append(
            trend(
                series, _names(SHIFTED), head=f"{letters(index)} {head}", domain=domain, unit=unit,
                reference=reference, labels=index == 2, height=86,
            )
        )  # fmt: skip
    return Drawing(
        title="How much, and in which direction, predictions change",
        caption=(
            "Evaluated shifted pairs by class of human shift: (a) share with the same prediction "
            "for both years; where they differ, (b) the median of predicted divided by observed "
            "shift, with equal size dashed, and (c) the median cosine between the predicted and "
            f"the observed change, with no relation dashed. Lines are {sheet.level} bootstrap "
            f"intervals. {sheet.few}{_beside_note(sheet)}{sheet.left_out}"
        ),
        description="Identical predictions, in percent. "
        + _listed(sheet, "t11", "zero_shift", SHIFTED)
        + ". Median ratios. "
        + _listed(sheet, "t11", "median_ratio", SHIFTED)
        + ".",
        sources=("tables/t11: zero_shift, median_ratio, median_cosine",),
        spec=stack([_trend_key(sheet, "t11", "zero_shift", SHIFTED), *panels], 12),
    )


# -- figure 8 ------------------------------------------------------------------------------------


def benefit(sheet: Sheet) -> Drawing | str:
    """Figure 8: mean benefit of naming a year by human shift."""
    both = [_series(sheet, "t18", "mean_benefit", SHIFTS, item) for item in ("older", "newer")]
    low, high = _range([line for series in both for line in series])
    pad = 0.06 * max(high - low, 1.0)
    domain = (min(low - pad, -0.5), max(high + pad, 0.5))
    panels = [
        trend(
            series, _names(SHIFTS), head=f"{letters(index)} naming the {item} year",
            domain=domain, reference=0.0, labels=index == 1, height=100,
        )
        for index, (item, series) in enumerate(zip(("older", "newer"), both, strict=True))
    ]  # fmt: skip
    return Drawing(
        title="Benefit of naming a year by human shift",
        caption=(
            "Mean reduction of the distance to the survey, in hundredths of W, when the prompt "
            "names (a) the older and (b) the newer year, against the prompt without a year; above "
            f"zero (dashed) naming helps. Lines are {sheet.level} bootstrap intervals. {sheet.few}"
            f"{_beside_note(sheet)}{sheet.left_out}"
        ),
        description="Mean benefit by class, in hundredths of W. "
        + "; ".join(
            f"{plain(run.label)}, {item} year: "
            + ", ".join(
                f"{words(shift)} {number(cell.estimate, 'W x 100')}"
                for shift in SHIFTS
                if (cell := sheet.results.cell("t18", run, shift, "mean_benefit", item)).estimate
                is not None
            )
            for run in sheet.models
            for item in ("older", "newer")
        )
        + ".",
        sources=("tables/t18: mean_benefit",),
        spec=stack([_trend_key(sheet, "t18", "mean_benefit", SHIFTS, "older"), *panels], 12),
    )


# -- figure 11 -----------------------------------------------------------------------------------


def _quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    at = (len(ordered) - 1) * q
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def _columns(panels: Sequence[Spec], extent: float, columns: int) -> list[Spec]:
    return [
        beside(panels[start : start + columns], extent + 12)
        for start in range(0, len(panels), columns)
    ]


def nearest_distance(sheet: Sheet) -> Drawing | str:
    """Figure 11: the distance the knowledge filter ranks by, and what it keeps."""
    runs = [run for run in sheet.models if run.engine != "reference" and run.n_complete]
    if not runs:
        return "References have no knowledge filter of their own, and no model was evaluated."
    columns = 1 if len(runs) == 1 else 2
    extent = 28
    width = (WIDTH - columns * extent - (columns - 1) * 12) / columns
    top = max(row["nearest_distance"] for run in runs for row in sheet.scores(run))
    cells = 40 if columns == 1 else 24
    top = max(math.ceil(top * 20) / 20, 0.05)
    bin_width = top / cells
    panels, said = [], []
    for run in runs:
        rows = sheet.scores(run)
        counts: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        for row in rows:
            counts[row["retained"]][min(int(row["nearest_distance"] / bin_width), cells - 1)] += 1
        bars = []
        for i in range(cells):
            kept, out = counts[True][i], counts[False][i]
            for a, b, role in ((0, kept, "model"), (kept, kept + out, "reference-mid")):
                if b > a:
                    bars.append(
                        {"x": i * bin_width, "x2": (i + 1) * bin_width, "a": a, "b": b,
                         "c": colour(role)}
                    )  # fmt: skip
        most = max((bar["b"] for bar in bars), default=1)
        cut = _quantile([row["nearest_distance"] for row in rows], 0.75)
        retained = sum(row["retained"] for row in rows)
        x = alt.X(
            "x:Q",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=number_axis(even_ticks(0, top, 4), flush=True),
        )
        y = alt.Y(
            "a:Q",
            scale=alt.Scale(domain=[0, most * 1.05], nice=False),
            axis=number_axis(even_ticks(0, most, 3, whole=True), grid=True, extent=extent),
        )  # fmt: skip
        charts = [
            alt.Chart(data(bars))
            .mark_rect(stroke=colour("surface"), strokeWidth=0.3)
            .encode(x=x, x2="x2:Q", y=y, y2="b:Q", color=alt.Color("c:N", scale=None)),
            alt.Chart(data([{"x": cut}]))
            .mark_rule(color=colour("ink"), strokeDash=[4, 3], strokeWidth=1.2)
            .encode(x=x),
        ]
        heads = [f"{sheet.name(run, 40 if columns == 1 else 22)}"]
        heads.append(f"{retained:,} of {len(rows):,} kept")
        panels.append(layers(charts, width, 96 if columns == 1 else 62, title(*heads, small=True)))
        said.append(f"{plain(run.label)} keeps {retained:,} of {len(rows):,}")
    legend = key(
        [("kept", "model", "square"), ("left out", "reference-mid", "square"),
         ("75th percentile", "ink", "M-.14,-1L.14,-1L.14,1L-.14,1Z")], extent,
    )  # fmt: skip
    retain = 100 * float(sheet.results.summary.settings["retain"])
    return Drawing(
        title="Distance of the undated prediction to the nearest survey",
        caption=(
            "Number of pairs by the distance (W) between the prediction without a year and the "
            f"nearest available survey. The knowledge filter keeps the {retain:g}% with the "
            "smallest distance (blue) of each survey and number of available time points; the "
            "dashed line is the 75th percentile of all pairs together, for reference: because the "
            f"filter works within groups, kept and left out overlap.{sheet.left_out}"
        ),
        description=f"Histograms of the nearest-survey distance; {'; '.join(said)}.",
        sources=("scores.parquet: nearest_distance, retained",),
        spec=stack([legend, *_columns(panels, extent, columns)], 12),
    )


# -- figure 12 -----------------------------------------------------------------------------------


def _density(points: Sequence[tuple[float, float]], top: float, cells: int) -> list[Row]:
    """Return counts in a grid of equal cells."""
    counts: Counter[tuple[int, int]] = Counter(
        (min(int(x / top * cells), cells - 1), min(int(y / top * cells), cells - 1))
        for x, y in points
    )
    most = max(counts.values())
    return [
        {
            "x": top * (i + 0.5) / cells,
            "y": top * (j + 0.5) / cells,
            "z": 3 + 50 * number_of / most,
        }
        for (i, j), number_of in sorted(counts.items())
    ]


def errors(sheet: Sheet) -> Drawing | str:
    """Figure 12: the errors of both years."""
    rows = sheet.retained(sheet.focus)
    if not rows:
        return f"{sheet.focused} has no evaluated pair."
    extent = 30
    tau = sheet.results.tau
    top = max(max(row["d_old"], row["d_new"]) for row in rows)
    top = max(math.ceil(top * 20) / 20, math.ceil(tau * 26) / 20)
    width = WIDTH - extent
    cells = 32
    bin_width = top / cells
    x_axis = number_axis(
        even_ticks(0, top, 6), heading="distance of a prediction to its survey (W)", flush=True
    )
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=x_axis)
    steps: list[Row] = []
    most = 1
    for name, role in (("d_old", "older"), ("d_new", "reversed")):
        counts = Counter(min(int(row[name] / bin_width), cells - 1) for row in rows)
        most = max(most, *counts.values())
        for i in range(cells):
            steps.append({"x": i * bin_width, "y": counts[i], "k": name, "c": colour(role)})
        steps.append({"x": top, "y": counts[cells - 1], "k": name, "c": colour(role)})
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[0, most * 1.05], nice=False),
        axis=number_axis(even_ticks(0, most, 4, whole=True), grid=True, extent=extent),
    )  # fmt: skip
    charts = []
    for name, dash in (("d_old", [1, 0]), ("d_new", [5, 2])):
        members = [row for row in steps if row["k"] == name]
        charts.append(
            alt.Chart(data([{"x": r["x"], "y": r["y"]} for r in members]))
            .mark_line(
                interpolate="step-after", strokeWidth=1.6, color=members[0]["c"], strokeDash=dash
            )
            .encode(x=x, y=y)
        )
    if tau <= top:
        charts.append(
            alt.Chart(data([{"x": tau}]))
            .mark_rule(color=colour("ink"), strokeDash=[2, 2], strokeWidth=1.2)
            .encode(x=x)
        )
    first = layers(charts, width, 84, title("(a) number of pairs by distance, each year"))
    side = 196.0
    own_x = alt.X(
        "x:Q", scale=alt.Scale(domain=[0, top], nice=False),
        axis=number_axis(even_ticks(0, top, 5), heading="older year (W)"),
    )  # fmt: skip
    own_y = alt.Y(
        "y:Q", scale=alt.Scale(domain=[0, top], nice=False),
        axis=number_axis(even_ticks(0, top, 5), extent=extent),
    )  # fmt: skip
    points = [(row["d_old"], row["d_new"]) for row in rows]
    grid = len(points) > MANY_POINTS
    spots = _density(points, top, 36) if grid else [{"x": a, "y": b, "z": 12} for a, b in points]
    ticks: list[alt.Chart] = []
    if tau <= top:
        for at in ({"x": tau, "y": 0, "x2": tau, "y2": tau}, {"x": 0, "y": tau, "x2": tau,
                                                              "y2": tau}):  # fmt: skip
            ticks.append(
                alt.Chart(data([at]))
                .mark_rule(color=colour("ink"), strokeDash=[2, 2])
                .encode(x=own_x, y=own_y, x2="x2:Q", y2="y2:Q")
            )
    second = layers(
        [
            alt.Chart(data([{"x": 0, "y": 0}, {"x": top, "y": top}]))
            .mark_line(color=colour("rule"), strokeDash=[4, 4], strokeWidth=1.2)
            .encode(x=own_x, y=own_y),
            *ticks,
            alt.Chart(data(spots))
            .mark_point(filled=True, color=colour("model"), opacity=0.55)
            .encode(x=own_x, y=own_y, size=alt.Size("z:Q", scale=None)),
        ],
        side,
        side,
        title("(b) newer year (W) against older year", offset=8),
    )
    legend = key(
        [
            ("older year", "older", INTERVAL),
            ("newer year (dashed)", "reversed", INTERVAL),
            (f"τ = {sheet.results.tau_text}", "ink", "M-.14,-1L.14,-1L.14,1L-.14,1Z"),
        ],
        extent,
    )
    apart = sum(abs(a - b) > tau for a, b in points)
    return Drawing(
        title="Errors of the two years",
        caption=(
            f"Distances between prediction and survey of {sheet.focused} on {len(rows):,} "
            "evaluated pairs: (a) how many pairs have which distance in the older and the newer "
            "year, with "
            f"the tolerance τ = {sheet.results.tau_text} marked; (b) the two distances of each pair"
            f"{', points as large as the number of pairs there' if grid else ''}. On the dashed "
            "diagonal both years are equally far; the dotted square holds pairs accurate in both."
            + sheet.one_of
        ),
        description=(
            f"Histograms and scatter of the errors of {len(rows):,} pairs. In {apart:,} of them "
            f"the two errors differ by more than {sheet.results.tau_text}."
        ),
        sources=("scores.parquet: d_old, d_new",),
        spec=stack([legend, first, second], 12),
    )


# -- figures 13 and 14 ---------------------------------------------------------------------------

_BANDS = ("stable", "moderate", "strong_plus")

#: Below each bound the colour of a cell, and of the text on it.
_HEAT = ((20, "h1", "ink"), (40, "h2", "ink"), (60, "h3", "ink"), (80, "h4", "on-strong"),
         (101, "h5", "on-strong"))  # fmt: skip


def _heat(sheet: Sheet, table: str, head: str, what: str) -> Drawing | str:
    """Return accuracy by group of questions or countries, mean and range over models."""
    found = sheet.results.tables.get(table)
    ranges = sheet.results.tables.get(f"{table}-range")
    if found is None or ranges is None:
        return f"The study has no table {table}; score it again."
    many = sheet.results.n_models > 1
    # The pairs of each cell, for the model that has most: a blank cell says how few they are.
    pairs: dict[str, dict[str, dict[str, int]]] = {}
    for row in found.to_pylist():
        if row["measure"] != "both" or (not many and row["run_id"] != sheet.focus.run_id):
            continue
        counts = pairs.setdefault(row["survey"], {}).setdefault(row["group"], {})
        counts[row["item"]] = max(counts.get(row["item"], 0), row["n"])
    held: dict[str, dict[str, dict[str, dict[str, Row]]]] = {
        survey: {name: {} for name, counts in groups.items() if any(counts.values())}
        for survey, groups in pairs.items()
    }
    for row in (ranges if many else found).to_pylist():
        if row["measure"] != "both" or row["estimate"] is None:
            continue
        if not many and row["run_id"] != sheet.focus.run_id:
            continue
        shown = held[row["survey"]][row["group"]].setdefault(row["item"], {})
        shown[row["label"] if many else "mean"] = row
    held = {survey: groups for survey, groups in sorted(held.items()) if len(groups) > 1}
    # Surveys ask other questions of other countries: each is a panel of its own, unless only
    # together they fill a cell.
    together = held.pop("all", None)
    filled = any(cells for groups in held.values() for cells in groups.values())
    if together is not None and not (held and filled):
        held = {"all": together}
    if not held:
        return f"No survey of the study has evaluated pairs in two {what}s."
    extent = 122
    width = WIDTH - extent
    panels, said, blank = [], [], []
    drawn = {survey: groups for survey, groups in held.items() if any(groups.values())} or held
    blank += [f"{plain(survey, 20)}: every {what}" for survey in held if survey not in drawn]
    for survey, groups in drawn.items():

        def rank(name: str, groups: Any = groups) -> tuple[Any, ...]:
            cells = [groups[name].get(band) for band in reversed(_BANDS)]
            return (
                *((cell is None, -cell["mean"]["estimate"] if cell else 0.0) for cell in cells),
                name,
            )

        ordered = sorted(groups, key=rank)
        keys = [line_key(i, plain(name)) for i, name in enumerate(ordered)]
        cells: list[Row] = []
        for key_of, name in zip(keys, ordered, strict=True):
            for band in _BANDS:
                cell = groups[name].get(band)
                if cell is None:
                    few = pairs[survey][name].get(band, 0)
                    cells.append(
                        {"row": key_of, "x": words(band), "t": "–", "r": f"n={few}",
                         "c": colour("rest"), "f": colour("muted")}
                    )  # fmt: skip
                    continue
                mean = cell["mean"]
                role, on = next((r, o) for top, r, o in _HEAT if mean["estimate"] < top)
                low, high = (
                    (cell["lowest"]["estimate"], cell["highest"]["estimate"])
                    if many
                    else (mean["low"], mean["high"])
                )
                span = "" if low is None else f"{low:.0f}–{high:.0f}"
                cells.append(
                    {"row": key_of, "x": words(band), "t": f"{mean['estimate']:.0f}%", "r": span,
                     "c": colour(role), "f": colour(on)}
                )  # fmt: skip
                said.append(f"{survey} {plain(name)} {words(band)} {mean['estimate']:.0f}%")
        y = lines_axis(keys, False, extent)
        x = alt.X(
            "x:N",
            sort=None,
            scale=alt.Scale(domain=[words(band) for band in _BANDS], paddingInner=0.03),
            axis=alt.Axis(
                title=None, orient="top", labelAngle=0, labelFontSize=FONT_SIZE,
                labelColor=colour("ink"),
            ),
        )  # fmt: skip
        base = alt.Chart(data(cells))
        own = alt.Color("f:N", scale=None)
        charts = [
            base.mark_rect(height=alt.RelativeBandSize(band=0.93), cornerRadius=2).encode(
                x=x, y=y, color=alt.Color("c:N", scale=None)
            ),
            base.mark_text(yOffset=-5, fontWeight="bold").encode(x=x, y=y, text="t:N", color=own),
            base.mark_text(yOffset=7, fontSize=SMALL - 0.6).encode(x=x, y=y, text="r:N", color=own),
            *label_lines(keys, [plain(name) for name in ordered], y, extent),
        ]
        head_of = "all surveys" if survey == "all" else plain(survey, 20)
        panels.append(layers(charts, width, alt.Step(29), title(head_of, bold=True)))
        empty = [plain(name) for name in ordered if not groups[name]]
        if empty:
            blank.append(f"{head_of}: {', '.join(empty)}")
    below = (
        f"the mean over {sheet.results.n_models} models (one run each), and below it the range "
        "from the lowest to the highest"
        if many
        else f"{sheet.focused}, with its {sheet.level} bootstrap interval below"
    )
    return Drawing(
        title=f"Accuracy by {what}",
        caption=(
            f"Share of evaluated pairs with both years within {sheet.results.tau_text} of the "
            f"survey by {head} and class of human shift: {below}. Strong+ holds strong and very "
            f"strong shifts. A cell with fewer than {SMALL_N} pairs is blank (–) and shows how "
            f"many there are{' for the model with most' if many else ''}. Ordered by strong+."
            + (f" Blank in every class: {'; '.join(blank)}." if blank else "")
        ),
        description=(
            f"Accuracy by {head}: {', '.join(said)}."
            if said
            else f"Accuracy by {head}: every cell has fewer than {SMALL_N} pairs."
        ),
        sources=(f"tables/{table}-range: both" if many else f"tables/{table}: both",),
        spec=stack(panels, 12),
    )


def topics(sheet: Sheet) -> Drawing | str:
    """Figure 13: accuracy by topic."""
    return _heat(sheet, "topics", "the survey's own topics", "topic")


def regions(sheet: Sheet) -> Drawing | str:
    """Figure 14: accuracy by region."""
    return _heat(sheet, "regions", "region of the world", "region")


# -- figure 15 -----------------------------------------------------------------------------------

_TICKS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)

_DIRECTIONS = (
    ("right direction", "model", "circle"),
    ("wrong direction", "reversed", "triangle-down"),
    ("no change, or no direction", "muted", "cross"),
)


def _root_ticks(top: float, width: float) -> list[float]:
    """Return the ticks of a square-root axis that have room for their labels."""
    kept = [0.0]
    for tick in _TICKS:
        gap = (math.sqrt(tick) - math.sqrt(kept[-1])) / math.sqrt(top) * width
        if tick <= top and gap >= 24:
            kept.append(tick)
    return kept


def _root_cells(points: Sequence[tuple[float, float]], top: float, cells: int) -> list[Row]:
    """Return counts in a grid of equal cells on square-root axes."""
    counts: Counter[tuple[int, int]] = Counter(
        (
            min(int(math.sqrt(x / top) * cells), cells - 1),
            min(int(math.sqrt(y / top) * cells), cells - 1),
        )
        for x, y in points
    )
    most = max(counts.values())
    return [
        {
            "x": round(top * ((i + 0.5) / cells) ** 2, 5),
            "y": round(top * ((j + 0.5) / cells) ** 2, 5),
            "z": round(3 + 45 * held / most, 1),
        }
        for (i, j), held in sorted(counts.items())
    ]


def _direction(row: Row) -> int:
    if row["cosine"] is None or row["d_m"] is None or row["d_m"] <= ATOL:
        return 2
    return 0 if row["cosine"] > 0 else 1


def human_and_model_shift(sheet: Sheet) -> Drawing | str:
    """Figure 15: human shift against predicted shift."""
    rows = {run.run_id: sheet.retained(run) for run in sheet.models}
    everything = [row for part in rows.values() for row in part]
    if not everything:
        return "No pair could be evaluated."
    columns = 1 if len(sheet.models) == 1 else 2
    extent = 30
    width = (WIDTH - columns * extent - (columns - 1) * 12) / columns
    tall = width if columns == 2 else 236
    top = max(max(row["d_h"], row["d_m"]) for row in everything)
    top = min(max(top * 1.06, 0.05), 1.0)
    edges = [{"x": edge} for edge in sheet.results.boundaries if edge < top]
    panels, said = [], []
    for run in sheet.models:
        own = rows[run.run_id]
        x = alt.X(
            "x:Q",
            scale=alt.Scale(type="sqrt", domain=[0, top], nice=False),
            axis=number_axis(_root_ticks(top, width), heading="human shift (W)", flush=True),
        )  # fmt: skip
        y = alt.Y(
            "y:Q",
            scale=alt.Scale(type="sqrt", domain=[0, top], nice=False),
            axis=number_axis(_root_ticks(top, tall), extent=extent),
        )  # fmt: skip
        charts: list[alt.Chart] = [
            alt.Chart(data(edges)).mark_rule(color=colour("grid"), strokeWidth=1).encode(x=x),
            alt.Chart(data([{"x": 0, "y": 0}, {"x": top, "y": top}]))
            .mark_line(color=colour("rule"), strokeDash=[4, 4], strokeWidth=1.2)
            .encode(x=x, y=y),
        ]
        for index, (_, role, shape) in enumerate(_DIRECTIONS):
            members = [(row["d_h"], row["d_m"]) for row in own if _direction(row) == index]
            if not members:
                continue
            if len(own) > MANY_POINTS:
                spots = _root_cells(members, top, 36 if columns == 1 else 20)
            else:
                size = 26 if columns == 1 else 15
                spots = [{"x": round(a, 5), "y": round(b, 5), "z": size} for a, b in members]
            charts.append(
                alt.Chart(data(spots))
                .mark_point(
                    filled=True,
                    shape=shape,
                    color=colour(role),
                    opacity=0.7,
                    strokeWidth=0,
                )
                .encode(x=x, y=y, size=alt.Size("z:Q", scale=None))
            )
        still = sum(row["d_m"] is not None and row["d_m"] <= ATOL for row in own)
        less = sum(row["d_m"] < row["d_h"] for row in own)
        heads = [f"{sheet.name(run, 40 if columns == 1 else 22)}, {count(len(own))}"]
        if still:
            heads.append(f"{still:,} on the bottom axis")
        panels.append(layers(charts, width, tall, title(*heads, small=True)))
        said.append(
            f"{plain(run.label)}: the predictions change less than the surveys in {less} of "
            f"{len(own):,} pairs, and not at all in {still:,}"
        )
    edges_text = ", ".join(f"{edge:g}" for edge in sheet.results.boundaries)
    many = any(len(own) > MANY_POINTS for own in rows.values())
    return Drawing(
        title="Human shift against predicted shift",
        caption=(
            "Each point is an evaluated pair"
            + (", or as large as the number of pairs there" if many else "")
            + "; vertical: predicted shift (W), square-root scales. Below the dashed diagonal the "
            "predictions change less than the surveys. Vertical lines are the boundaries of the "
            f"shift classes, {edges_text}. {sheet.star}{sheet.left_out}"
        ),
        description=f"Scatter of human shift against predicted shift. {'; '.join(said)}.",
        sources=("scores.parquet: d_h, d_m, cosine",),
        spec=stack([key(_DIRECTIONS, extent), *_columns(panels, extent, columns)], 12),
    )


# -- figure 18 -----------------------------------------------------------------------------------

_OUTCOMES = (
    ("helped", "helped", "separated", "on-strong"),
    ("unchanged", "unchanged", "tied", "on-pale"),
    ("hurt", "hurt", "reversed", "on-strong"),
)


def naming_outcomes(sheet: Sheet) -> Drawing | str:
    """Figure 18: naming a year helps, changes nothing or hurts."""
    run = sheet.focus
    if not sheet.results.cell("t17", run, "all", "helped", "older").n:
        return f"No pair of {sheet.focused} could be evaluated."
    extent = 118
    panels = []
    for index, item in enumerate(("older", "newer")):
        lines = []
        for table, group in (*(("t19", group) for group in SHIFTS), ("t17", "all")):
            cells = [
                (sheet.results.cell(table, run, group, measure, item), role, on)
                for measure, _, role, on in _OUTCOMES
            ]
            lines.append((f"{words(group)}, {_count_of(cells[0][0])}", cells, True))
        panels.append(
            _share_bars(
                lines, width=WIDTH - extent - 10, extent=extent, step=21,
                head=f"{letters(index)} naming the {item} year",
            )
        )  # fmt: skip
    legend = key(
        [
            *((name, role, "square") for _, name, role, _ in _OUTCOMES),
            (f"{sheet.level} interval", "ink", INTERVAL),
        ],
        extent,
    )
    return Drawing(
        title="What naming a year does to the predictions",
        caption=(
            f"Share of evaluated pairs of {sheet.focused} whose prediction gets nearer to the "
            "survey (helped), stays as far (unchanged) or gets farther (hurt) when the prompt "
            f"names the year, by class of human shift. Lines are {sheet.level} bootstrap intervals "
            f"of the share helped. {sheet.star}{sheet.one_of}"
        ),
        description="Shares helped, in percent. "
        + "; ".join(
            f"{item} year, {words(group)}: "
            f"{number(sheet.results.cell(table, run, group, 'helped', item).estimate, '%')}"
            for item in ("older", "newer")
            for table, group in (*(("t19", group) for group in SHIFTS), ("t17", "all"))
        )
        + ".",
        sources=("tables/t17: helped, unchanged, hurt", "tables/t19: helped, unchanged, hurt"),
        spec=stack([legend, *panels], 12),
    )


# -- beside the paper's: what was evaluated, and the default year ----------------------------------


def human_shift(sheet: Sheet) -> Drawing | str:
    """Human shift of every pair, by survey."""
    pairs = list(sheet.pairs.values())
    if not pairs:
        return "The benchmark has no pair."
    top = min(max(max(row["d_h"] for row in pairs) * 1.06, 0.05), 1.0)
    extent = 30
    surveys = sorted({row["survey"] for row in pairs})
    width = WIDTH - extent
    cells = 48
    edges = [{"x": edge} for edge in sheet.results.boundaries if edge < top]
    panels = []
    for survey in surveys:
        members = [row["d_h"] for row in pairs if row["survey"] == survey]
        counts = Counter(min(int(value / top * cells), cells - 1) for value in members)
        bars = [
            {"x": top * i / cells, "x2": top * (i + 1) / cells, "a": 0, "b": held}
            for i, held in sorted(counts.items())
        ]
        most = max(counts.values())
        last = survey == surveys[-1]
        x = alt.X(
            "x:Q",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=number_axis(
                even_ticks(0, top, 8), heading="human shift (W)" if last else None, flush=True
            ),
        )  # fmt: skip
        y = alt.Y(
            "a:Q",
            scale=alt.Scale(domain=[0, most * 1.05], nice=False),
            axis=number_axis(even_ticks(0, most, 3, whole=True), grid=True, extent=extent),
        )  # fmt: skip
        charts = [
            alt.Chart(data(bars))
            .mark_rect(color=colour("model"), stroke=colour("surface"), strokeWidth=0.3)
            .encode(x=x, x2="x2:Q", y=y, y2="b:Q"),
            alt.Chart(data(edges)).mark_rule(color=colour("rule"), strokeDash=[3, 3]).encode(x=x),
        ]
        panels.append(
            layers(charts, width, 54, title(f"{plain(survey, 20)}, {len(members):,} pairs"))
        )
    said = []
    for shift in SHIFTS:
        cell = sheet.results.cells.get(("t01", None, None, "all", None, shift), Cell())
        said.append(f"{words(shift)} {cell.estimate or 0:.0f}")
    return Drawing(
        title="Human shift of the pairs",
        caption=(
            "Number of pairs of the benchmark by the distance (W) between their older and their "
            f"newer survey. Dashed: boundaries of the shift classes. Pairs: {', '.join(said)}."
        ),
        description=f"Histograms of human shift by survey. Pairs: {', '.join(said)}.",
        sources=("pairs.parquet: d_h", "tables/t01: estimate"),
        spec=stack(panels, 10),
    )


def default_year(sheet: Sheet) -> Drawing | str:
    """Which available survey the prediction without a year is nearest to."""
    extent = 92
    entries = _entries(sheet)
    panels = []
    for index, (group, head) in enumerate(
        (("two", "two surveys available"), ("three_or_more", "three or more"))
    ):
        places = ["oldest", "newest"] if group == "two" else ["oldest", "intermediate", "newest"]
        keys = [line_key(i, place) for i, place in enumerate(places)]
        y = lines_axis(keys, True, extent)
        x = percent("est")
        ticks: list[Row] = []
        charts: list[alt.Chart] = []
        empty: list[Row] = []
        step = 12 + 7.0 * len(sheet.models)
        for run in sheet.models[:1]:
            for name, place in zip(keys, places, strict=True):
                cell = sheet.results.cell("t16", run, group, place, "equal_choice")
                if cell.estimate is None:
                    empty.append({"row": name})
                else:
                    ticks.append({"row": name, "est": cell.estimate})
        charts.append(
            alt.Chart(data(ticks))
            .mark_tick(color=colour("ink"), thickness=1.6, size=step - 6)
            .encode(x=x, y=y)
        )
        for i, (run, (role, shape)) in enumerate(zip(sheet.models, MODELS, strict=False)):
            points = [
                {
                    "row": name, "est": cell.estimate, "low": cell.low, "high": cell.high,
                    "f": colour("surface") if cell.few else colour(role),
                }
                for name, place in zip(keys, places, strict=True)
                if (cell := sheet.results.cell("t16", run, group, place, "observed")).n
            ]  # fmt: skip
            if not points:
                continue
            offset = (i - (len(sheet.models) - 1) / 2) * 7.0
            charts += whisker(data(points), x, y, role, offset)
            charts.append(
                alt.Chart(data(points))
                .mark_point(
                    shape=shape,
                    stroke=colour(role),
                    opacity=1,
                    yOffset=offset,
                    size=34,
                    strokeWidth=1.3,
                )
                .encode(x=x, y=y, fill=alt.Fill("f:N", scale=None))
            )
        charts += nothing(empty, x, y, 50)
        panels.append(
            layers(charts, WIDTH - extent - 10, alt.Step(step), title(f"{letters(index)} {head}"))
        )
    entries.append(("equal choice", "ink", "M-.14,-1L.14,-1L.14,1L-.14,1Z"))
    said = []
    for run in sheet.models:
        cell = sheet.results.cell("t16", run, "all", "newest", "observed")
        if cell.estimate is not None:
            said.append(f"{plain(run.label)} {number(cell.estimate, '%')}% of {cell.n:,} pairs")
    if not said:
        return "No pair could be evaluated."
    several = (
        " Equal choice is drawn for the first run; it differs slightly by run, see table t16."
        if len(sheet.models) > 1
        else ""
    )
    return Drawing(
        title="The year of a prediction without a year",
        caption=(
            "Share of evaluated pairs whose undated prediction is nearest to the oldest, an "
            "intermediate or the newest available survey, and the share if every available year "
            f"were equally likely. Lines are {sheet.level} bootstrap intervals. {sheet.few}"
            f"{several}{sheet.left_out}"
        ),
        description=f"Newest survey nearest: {'; '.join(said)}.",
        sources=("tables/t16: oldest, intermediate, newest",),
        spec=stack([key(entries, extent), *panels], 12),
    )
