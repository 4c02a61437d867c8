"""The figures of the report, each in a wide and a narrow layout.

Layout: one block of panels a run, panels side by side where there is room. What belongs to
the model is coloured, references are grey; every estimate has its interval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import altair as alt
import vl_convert

from chronocore.metrics import SHIFTS
from chronocore.report.basis import plain
from chronocore.report.results import SHIFTED, Cell, Results
from chronocore.report.svg import FONT, colour, for_file, for_page
from chronocore.score import RunSummary
from chronocore.tables import SMALL_N, number, words
from chronocore.tolerance import ATOL

__all__ = ["Figure", "draw"]

#: A Vega-Lite specification. Altair makes its parts; they are put together as plain dicts,
#: because altair copies every part again at every step of a composition.
Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

#: Widths of the two layouts in pixels, label column included.
WIDE, NARROW = 798, 330

#: More points than this are drawn as counts in a grid.
MANY_POINTS = 1500

_SIZE = 12


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn figure.

    Attributes
    ----------
    name, title, caption : str
    description : str
        Alternative text: what the figure shows, with its main numbers.
    svg, png : bytes
        For a file, in light colours.
    wide, narrow : str
        For the page.
    """

    name: str
    title: str
    caption: str
    description: str
    svg: bytes
    png: bytes
    wide: str
    narrow: str


# -- pieces --------------------------------------------------------------------------------------


def _data(rows: Iterable[Row]) -> alt.InlineData:
    # As text, which altair does not copy row by row.
    return alt.InlineData(values=json.dumps(list(rows)), format=alt.JsonDataFormat(type="json"))


def _layers(
    charts: Iterable[alt.Chart], width: int, height: int | alt.Step, title: Spec | None = None
) -> Spec:
    """Return one panel of several layers."""
    layers = []
    for chart in charts:
        spec = chart.to_dict(validate=False)
        (values,) = spec.pop("datasets").values()
        layers.append(
            {key: value for key, value in spec.items() if key not in ("$schema", "config")}
            | {"data": {"values": values, "format": {"type": "json"}}}
        )
    panel: Spec = {"layer": layers, "width": width}
    panel["height"] = height if isinstance(height, int) else height.to_dict()
    return panel if title is None else panel | {"title": title}


def _beside(panels: Iterable[Spec], spacing: int) -> Spec:
    return {"hconcat": list(panels), "spacing": spacing, "bounds": "flush"}


def _stack(panels: Iterable[Spec], spacing: int) -> Spec:
    return {"vconcat": list(panels), "spacing": spacing}


def _count(n: int) -> str:
    return f"n = {n:,}{'*' if 0 < n < SMALL_N else ''}"


def _title(*lines: str, bold: bool = False, offset: int | None = None) -> Spec:
    title = alt.TitleParams(
        text=list(lines),
        anchor="start",
        fontSize=12.5 if bold else _SIZE,
        fontWeight="bold" if bold else "normal",
        color=colour("ink" if bold else "muted"),
        offset=offset or (8 if bold else 4),
        frame="bounds" if bold else "group",
    )
    spec: Spec = title.to_dict()
    return spec


def _width(text: str) -> float:
    return 0.53 * _SIZE * len(text)


def _key(entries: Sequence[tuple[str, str, str]], narrow: bool, extent: int) -> Spec:
    """Return the key: (label, colour role, shape) in as many lines as it needs.

    It stands above panels whose labels take ``extent`` pixels, and starts where they do.
    """
    width = (NARROW if narrow else WIDE) - extent - 24
    start = float(-extent)
    x, line, rows = start, 0, []
    for label, role, shape in entries:
        needed = 18 + _width(label) + 16
        if x > start and x + needed - 16 > width:
            x, line = start, line + 1
        rows.append({"x": x + 6, "t": x + 17, "y": line, "l": label, "c": colour(role), "s": shape})
        x += needed
    height = 18 * (line + 1)
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y("y:Q", scale=alt.Scale(domain=[-0.5, line + 0.5], reverse=True), axis=None),
    )
    scale = alt.Scale(domain=[0, width], nice=False, zero=False)
    symbols = base.mark_point(filled=True, size=80, opacity=1, strokeWidth=0).encode(
        x=alt.X("x:Q", scale=scale, axis=None),
        color=alt.Color("c:N", scale=None),
        shape=alt.Shape("s:N", scale=None),
    )
    labels = base.mark_text(align="left", color=colour("ink")).encode(
        x=alt.X("t:Q", scale=scale, axis=None), text="l:N"
    )
    return _layers((symbols, labels), width, height)


#: Between the number of a line and its label.
_MARK = "|"


def _line(number: int, label: str, head: bool = False) -> str:
    """Return the key of a line: lines may share a label, and a heading is bold."""
    return f"{number}{'#' if head else ''}{_MARK}{label}"


def _y(rows: Sequence[str], labels: bool, extent: int) -> alt.Y:
    bold = "test(/^[0-9]+#/, datum.value)"
    axis = alt.Axis(
        title=None,
        labels=labels,
        ticks=False,
        domain=False,
        grid=False,
        labelPadding=8,
        labelLimit=extent,
        labelExpr=f"slice(datum.value, indexof(datum.value, '{_MARK}') + 1)",
        labelFontWeight={"condition": {"test": bold, "value": "bold"}, "value": "normal"},
        minExtent=extent if labels else 0,
        maxExtent=extent if labels else 0,
        labelColor=colour("ink"),
    )
    return alt.Y("row:N", sort=None, scale=alt.Scale(domain=list(rows)), axis=axis)


def _percent_axis(title: str | None = None) -> alt.Axis:
    return alt.Axis(
        title=title,
        values=[0, 25, 50, 75, 100],
        labelExpr="datum.value % 50 ? '' : datum.value + '%'",
        labelFlush=True,
    )


def _percent(field: str) -> alt.X:
    scale = alt.Scale(domain=[0, 100], nice=False)
    return alt.X(f"{field}:Q", scale=scale, axis=_percent_axis())


def _whisker(
    data: alt.InlineData, x: alt.X, y: alt.Y, role: str, offset: float = 0, halo: bool = False
) -> list[alt.Chart]:
    """Return the layers of an interval from ``low`` to ``high``."""
    base = alt.Chart(data).transform_filter("isValid(datum.low)")
    layers = []
    if halo:
        layers.append(
            base.mark_rule(color=colour("surface"), strokeWidth=4, yOffset=offset).encode(
                x=_as(x, "low"), x2="high:Q", y=y
            )
        )
    layers.append(
        base.mark_rule(color=colour(role), strokeWidth=1.5, yOffset=offset).encode(
            x=_as(x, "low"), x2="high:Q", y=y
        )
    )
    return layers


def _as(x: alt.X, field: str) -> alt.X:
    copy: alt.X = x.copy()
    copy["shorthand"] = f"{field}:Q"
    return copy


def _nothing(rows: Sequence[Row], x: alt.X, y: alt.Y, middle: float) -> list[alt.Chart]:
    """Return the layer that says which rows are empty."""
    empty = [{**row, "at": middle} for row in rows]
    if not empty:
        return []
    return [
        alt.Chart(_data(empty))
        .mark_text(text="no pairs", color=colour("muted"), fontStyle="italic", fontSize=10.5)
        .encode(x=_as(x, "at"), y=y)
    ]


def _blocks(results: Results, key: Spec, block: Callable[[RunSummary], Spec], narrow: bool) -> Spec:
    """Return the key and one block a run, titled where there is more than one."""
    charts = [key]
    for run in results.evaluated:
        chart = block(run)
        if len(results.evaluated) > 1:
            chart["title"] = _title(plain(run.label, 46 if narrow else 100), bold=True)
        charts.append(chart)
    return _stack(charts, 16)


def _config() -> Spec:
    config = alt.Config(
        aria=False,
        background=colour("surface"),
        font=FONT,
        padding=4,
        view=alt.ViewConfig(stroke=None),
        text=alt.MarkConfig(fontSize=_SIZE),
        axis=alt.AxisConfig(
            labelFontSize=_SIZE,
            titleFontSize=_SIZE,
            titleFontWeight="normal",
            labelColor=colour("muted"),
            titleColor=colour("muted"),
            gridColor=colour("grid"),
            domainColor=colour("rule"),
            tickColor=colour("rule"),
            domain=False,
            ticks=False,
            labelPadding=5,
        ),
    )
    spec: Spec = config.to_dict()
    return spec


def _own_name(run: RunSummary) -> str:
    return "reference" if run.engine == "reference" else "model"


# -- RF1: accuracy -------------------------------------------------------------------------------


def _accuracy_lines(results: Results, run: RunSummary) -> list[tuple[str, str | None, str]]:
    """Return (group, prediction, label) of every line; a heading has no prediction."""
    predictions = results.predictions[run.run_id]
    groups = (*SHIFTS, "all")

    def head(group: str) -> str:
        return f"{words(group)}, {_count(results.cell('t08', run, group, 'both').n)}"

    if len(predictions) == 1:
        return [(group, "model", head(group)) for group in groups]
    names = {p: _own_name(run) if p == "model" else words(p) for p in predictions}
    if len(results.evaluated) > 1:
        # References by class would hide the runs; they stand beside all pairs.
        own: list[tuple[str, str | None, str]] = [(g, "model", head(g)) for g in SHIFTS]
        return [*own, ("all", None, head("all")), *(("all", p, names[p]) for p in predictions)]
    lines: list[tuple[str, str | None, str]] = []
    for group in groups:
        lines.append((group, None, head(group)))
        lines.extend((group, p, names[p]) for p in predictions)
    return lines


def _accuracy(results: Results, narrow: bool) -> Spec:
    extent, room = 122, 48
    tau = results.tau_text
    alone = all(run.engine == "reference" for run in results.evaluated)
    key = [("reference" if alone else "model", "model-mid", "square")]
    if not alone:
        key.append(("references on the same pairs", "reference-mid", "square"))
    key.append((f"{results.level} interval", "ink", "M-1,-.12L1,-.12L1,.12L-1,.12Z"))

    def shares(run: RunSummary, group: str, prediction: str, either: bool) -> Cell:
        if not either:
            return results.cell("t08", run, group, "both", None, prediction)
        cell = results.cell("t08", run, group, "neither", None, prediction)
        if cell.estimate is None or cell.low is None or cell.high is None:
            return Cell(n=cell.n)
        return Cell(100 - cell.estimate, 100 - cell.high, 100 - cell.low, cell.n)

    def panel(run: RunSummary, either: bool, labels: bool, width: int) -> Spec:
        lines = _accuracy_lines(results, run)
        keys = [_line(i, label, p is None) for i, (_, p, label) in enumerate(lines)]
        y = _y(keys, labels, extent)
        bars: list[Row] = []
        whiskers: list[Row] = []
        empty: list[Row] = []
        for key, (group, prediction, _) in zip(keys, lines, strict=True):
            if prediction is None:
                continue
            cell = shares(run, group, prediction, either)
            if cell.estimate is None:
                empty.append({"row": key})
                continue
            role = "model-mid" if prediction == "model" else "reference-mid"
            bars.append(
                {
                    "row": key, "x0": 0, "x1": cell.estimate, "c": colour(role), "at": 100,
                    "t": f"{number(cell.estimate, '%')}%",
                }
            )  # fmt: skip
            if cell.low is not None and cell.low != cell.high:
                whiskers.append({"row": key, "low": cell.low, "high": cell.high})
        x = _percent("x0")
        layers = [
            alt.Chart(_data(bars))
            .mark_bar(height=alt.RelativeBandSize(band=0.78))
            .encode(x=x, x2="x1:Q", y=y, color=alt.Color("c:N", scale=None)),
            *_whisker(_data(whiskers), x, y, "ink"),
            alt.Chart(_data(bars))
            .mark_text(align="left", dx=7, fontSize=11, color=colour("ink"))
            .encode(x=_as(x, "at"), y=y, text="t:N"),
            *_nothing(empty, x, y, 50),
        ]
        many = "at least one year" if either else "both years"
        return _layers(layers, width, alt.Step(18), _title(f"{many} within {tau}"))

    def block(run: RunSummary) -> Spec:
        if narrow:
            width = NARROW - extent - room - 20
            return _stack([panel(run, either, True, width) for either in (False, True)], 18)
        width = (WIDE - extent - 2 * room - 24) // 2
        return _beside(
            [panel(run, False, True, width), panel(run, True, False, width)], spacing=room + 8
        )

    return _blocks(results, _key(key, narrow, extent), block, narrow)


def _accuracy_text(results: Results) -> str:
    parts = []
    for run in results.evaluated:
        shares = [
            f"{words(group)} {number(cell.estimate, '%')}% (n = {cell.n})"
            for group in (*SHIFTS, "all")
            if (cell := results.cell("t08", run, group, "both")).n
        ]
        parts.append(f"{plain(run.label)}: {', '.join(shares)}")
    return (
        "Bars with intervals by class of human shift: share of pairs with both predictions, and "
        f"with at least one, within {results.tau_text} of the survey. Both years: "
        f"{'; '.join(parts)}."
    )


# -- RF1: alignment ------------------------------------------------------------------------------

_ALIGNMENT = (
    ("separated", "separated", "on-strong"),
    ("older_aligned", "older", "on-strong"),
    ("newer_aligned", "newer", "on-pale"),
    ("reversed", "reversed", "on-strong"),
    ("tied", "tied", "ink"),
)


def _shares(rows: Sequence[Row], x: alt.X, y: alt.Y) -> alt.Chart:
    chart: alt.Chart = alt.Chart(_data(rows)).encode(
        x=_as(x, "x"), y=y, text="t:N", color=alt.Color("c:N", scale=None)
    )
    return chart


def _alignment(results: Results, narrow: bool) -> Spec:
    extent = 138
    width = (NARROW if narrow else WIDE) - extent - 24
    key = _key([(words(m), role, "square") for m, role, _ in _ALIGNMENT], narrow, extent)

    def block(run: RunSummary) -> Spec:
        named: list[tuple[str, str | None, str]] = [
            (group, "model", f"{words(group)}, {_count(results.cell('t10', run, group, 'tied').n)}")
            for group in (*SHIFTED, "all_shifted")
        ]
        references = [
            p
            for p in results.predictions[run.run_id]
            if p != "model" and results.cell("t10", run, "all_shifted", "tied", None, p).n
        ]
        if references:
            named.append(("all_shifted", None, "references"))
            named += [("all_shifted", p, words(p)) for p in references]
        lines = [
            (group, p, _line(i, label, p is None)) for i, (group, p, label) in enumerate(named)
        ]
        y = _y([line[2] for line in lines], True, extent)
        bars: list[Row] = []
        start: list[Row] = []
        middle: list[Row] = []
        whiskers: list[Row] = []
        empty: list[Row] = []
        for group, prediction, name in lines:
            if prediction is None:
                continue
            at = 0.0
            for measure, role, on in _ALIGNMENT:
                cell = results.cell("t10", run, group, measure, None, prediction)
                if cell.estimate is None:
                    empty.append({"row": name})
                    break
                own = prediction == "model"
                end = at + cell.estimate
                bars.append(
                    {"row": name, "x0": at, "x1": end, "c": colour(role), "o": 1 if own else 0.6}
                )
                if own and cell.estimate * width / 100 >= 34:
                    text = {"row": name, "c": colour(on), "t": f"{cell.estimate:.0f}%"}
                    # The interval of the first share may cross the middle of the second.
                    if measure == "separated":
                        start.append({**text, "x": 0})
                    else:
                        middle.append({**text, "x": (at + end) / 2})
                if measure == "separated" and cell.low is not None and cell.low != cell.high:
                    whiskers.append({"row": name, "low": cell.low, "high": cell.high})
                at = end
        x = _percent("x0")
        layers = [
            # Hides the grid behind faded bars.
            alt.Chart(_data(bars))
            .mark_bar(height=alt.RelativeBandSize(band=0.82), color=colour("surface"))
            .encode(x=x, x2="x1:Q", y=y),
            alt.Chart(_data(bars))
            .mark_bar(
                height=alt.RelativeBandSize(band=0.82), stroke=colour("surface"), strokeWidth=1,
            )
            .encode(
                x=x, x2="x1:Q", y=y, color=alt.Color("c:N", scale=None),
                opacity=alt.Opacity("o:Q", scale=None),
            ),
            *_whisker(_data(whiskers), x, y, "ink", 9, halo=True),
        ]  # fmt: skip
        if middle:
            layers.append(_shares(middle, x, y).mark_text(align="center", fontSize=10.5))
        if start:
            layers.append(_shares(start, x, y).mark_text(align="left", dx=6, fontSize=10.5))
        layers += _nothing(empty, x, y, 50)
        return _layers(layers, width, alt.Step(28))

    return _blocks(results, key, block, narrow)


def _alignment_text(results: Results) -> str:
    parts = []
    for run in results.evaluated:
        shares = [
            f"{words(measure)} {number(cell.estimate, '%')}%"
            for measure, _, _ in _ALIGNMENT
            if (cell := results.cell("t10", run, "all_shifted", measure)).n
        ]
        n = results.cell("t10", run, "all_shifted", "tied").n
        parts.append(f"{plain(run.label)}, {n} shifted pairs: {', '.join(shares) or 'no pairs'}")
    return f"Stacked bars of alignment on shifted pairs. {'; '.join(parts)}."


# -- RF2: human against model shift --------------------------------------------------------------

_TICKS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def _ticks(top: float, width: float) -> list[float]:
    """Return the ticks of a square-root axis that have room for their labels."""
    kept = [0.0]
    for tick in _TICKS:
        gap = (math.sqrt(tick) - math.sqrt(kept[-1])) / math.sqrt(top) * width
        if tick <= top and gap >= 34:
            kept.append(tick)
    return kept


def _bands(results: Results, top: float, width: float) -> tuple[list[Row], list[Row]]:
    """Return boundaries of the shift classes, and their names where they fit."""
    edges = [0.0, *(b for b in results.boundaries if b < top), top]
    rules = [{"x": edge} for edge in edges[1:-1]]
    names = []
    for shift, low, high in zip(SHIFTS, edges, edges[1:], strict=False):
        a, b = math.sqrt(low), math.sqrt(high)
        room = (b - a) / math.sqrt(top) * width - 4
        for name in (words(shift), words(shift).replace(" ", "\n")):
            if max(5.4 * len(line) for line in name.split("\n")) <= room:
                names.append({"x": ((a + b) / 2) ** 2, "t": name})
                break
    return rules, names


def _band_names(names: Sequence[Row], x: alt.X) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(_data(names))
        .mark_text(color=colour("muted"), baseline="bottom", fontSize=10.5, lineBreak="\n")
        .encode(x=x, y=alt.value(-5), text="t:N")
    )
    return chart


def _root(field: str, top: float, width: float, title: str) -> alt.X:
    return alt.X(
        f"{field}:Q",
        scale=alt.Scale(type="sqrt", domain=[0, top], nice=False),
        axis=alt.Axis(title=title, values=_ticks(top, width), format="~g", grid=False, domain=True),
    )


def _grid_counts(points: Sequence[tuple[float, float]], top: float, cells: int = 36) -> list[Row]:
    counts: dict[tuple[int, int], int] = {}
    for x, y in points:
        key = (
            min(int(math.sqrt(x / top) * cells), cells - 1),
            min(int(math.sqrt(y / top) * cells), cells - 1),
        )
        counts[key] = counts.get(key, 0) + 1
    most = max(counts.values())
    return [
        {
            "x": top * ((i + 0.5) / cells) ** 2,
            "y": top * ((j + 0.5) / cells) ** 2,
            "z": 4 + 70 * count / most,
            "t": f"{count:,} pair{'' if count == 1 else 's'}",
        }
        for (i, j), count in sorted(counts.items())
    ]


def _spots(
    rows: Sequence[Row], top: float, size: int, names: Mapping[str, str], note: str
) -> list[Row]:
    """Return one point a pair, or counts in a grid where there are too many of them."""
    if len(rows) > MANY_POINTS:
        return _grid_counts([(row["d_h"], row["d_m"]) for row in rows], top)
    return [
        {
            "x": row["d_h"],
            "y": row["d_m"],
            "z": size,
            "t": f"{names[row['pair_id']]}: observed {row['d_h']:.3f}, "
            f"predicted {row['d_m']:.3f}, {note}",
        }
        for row in rows
    ]


_DIRECTIONS = (
    ("right direction", "model", "circle"),
    ("wrong direction", "reversed", "triangle-down"),
    ("no change, or none to compare", "muted", "cross"),
)


def _direction(row: Row) -> int:
    if row["cosine"] is None or row["d_m"] is None or row["d_m"] <= ATOL:
        return 2
    return 0 if row["cosine"] > 0 else 1


def _still(rows: Sequence[Row]) -> int:
    """Return how many points lie on the bottom axis."""
    return sum(row["d_m"] is not None and row["d_m"] <= ATOL for row in rows)


def _still_text(still: int, n: int) -> str:
    if still == n:
        who = f"all {n:,} predict" if n > 1 else "it predicts"
    else:
        who = f"{still:,} of {n:,} predict{'s' if still == 1 else ''}"
    return f"{who} no change: on the bottom axis"


def _shift_rows(results: Results, run: RunSummary) -> list[Row]:
    rows: list[Row] = results.study.scores(run.run_id).to_pylist()
    return [row for row in rows if row["retained"]]


def _pooled_rows(results: Results, run: RunSummary) -> list[Row]:
    """Return the pooled reference on a model's retained pairs."""
    if run.engine == "reference":
        return []
    pooled = [r for r in results.summary.runs if r.engine == "reference" and r.model == "pooled"]
    if not pooled or "pooled" not in results.predictions[run.run_id]:
        return []
    kept = {row["pair_id"] for row in _shift_rows(results, run)}
    rows: list[Row] = results.study.scores(pooled[0].run_id).to_pylist()
    return [row for row in rows if row["pair_id"] in kept]


def _names(results: Results) -> dict[str, str]:
    columns = ["pair_id", "country", "country_name", "variable", "year_old", "year_new"]
    return {
        row["pair_id"]: plain(
            f"{row['country_name'] or row['country']}, {row['variable']}, "
            f"{row['year_old']} to {row['year_new']}"
        )
        for row in results.study.pairs().select(columns).to_pylist()
    }


def _shift(results: Results, narrow: bool) -> Spec:
    many = len(results.evaluated) > 1
    side = NARROW - 64 if narrow else (WIDE - 172) // 2 if many else WIDE - 76
    tall = min(side, 500)
    names = _names(results)
    rows = {run.run_id: _shift_rows(results, run) for run in results.evaluated}
    pooled = {run.run_id: _pooled_rows(results, run) for run in results.evaluated}
    everything = [row for part in (*rows.values(), *pooled.values()) for row in part]
    top = max((max(row["d_h"], row["d_m"]) for row in everything), default=0.1)
    top = min(max(top * 1.06, 0.05), 1.0)
    key = [*_DIRECTIONS]
    if any(pooled.values()):
        key.append(("pooled reference", "reference-mid", "square"))

    slope = 360 - math.degrees(math.atan2(tall, side))

    def panel(run: RunSummary) -> Spec:
        own = rows[run.run_id]
        rules, labels = _bands(results, top, side)
        x = _root("x", top, side, "human shift (W, square-root scale)")
        y_scale = alt.Scale(type="sqrt", domain=[0, top], nice=False)
        y = alt.Y(
            "y:Q",
            scale=y_scale,
            axis=alt.Axis(
                title="predicted shift (W)", values=_ticks(top, tall), format="~g",
                grid=False, domain=True,
            ),
        )  # fmt: skip
        layers: list[alt.Chart] = [
            alt.Chart(_data(rules)).mark_rule(color=colour("grid"), strokeWidth=1).encode(x=x),
            _band_names(labels, x),
            alt.Chart(_data([{"x": 0, "y": 0}, {"x": top, "y": top}]))
            .mark_line(color=colour("rule"), strokeDash=[4, 4], strokeWidth=1.2)
            .encode(x=x, y=y),
            alt.Chart(_data([{"x": top, "y": top}]))
            .mark_text(
                text="predicted = observed", color=colour("muted"), fontSize=10.5, angle=slope,
                align="right", baseline="bottom", dx=-8, dy=-5,
            )
            .encode(x=x, y=y),
        ]  # fmt: skip
        if pooled[run.run_id]:
            grey = _spots(pooled[run.run_id], top, 22, names, "pooled reference")
            layers.append(
                alt.Chart(_data(grey))
                .mark_point(
                    filled=True, color=colour("reference-mid"), shape="square", opacity=0.75
                )
                .encode(x=x, y=y, size=alt.Size("z:Q", scale=None))
            )
        for index, (name, role, shape) in enumerate(_DIRECTIONS):
            members = [row for row in own if _direction(row) == index]
            if not members:
                continue
            spots = _spots(members, top, 44, names, name)
            layers.append(
                alt.Chart(_data(spots))
                .mark_point(
                    aria=True, filled=True, shape=shape, color=colour(role), opacity=0.78,
                    stroke=colour("surface"), strokeWidth=0.6,
                )
                .encode(
                    x=x, y=y, size=alt.Size("z:Q", scale=None), description="t:N",
                    )
            )  # fmt: skip
        title = [f"{plain(run.label, 34 if many or narrow else 60)}, {_count(len(own))}"]
        still = _still(own)
        if still:
            title.append(_still_text(still, len(own)))
        return _layers(layers, side, tall, _title(*title, bold=many, offset=18))

    panels = [panel(run) for run in results.evaluated]
    columns = 1 if narrow or not many else 2
    lines = [_key(key, narrow, 44)]
    for start in range(0, len(panels), columns):
        lines.append(_beside(panels[start : start + columns], spacing=70))
    return _stack(lines, 18)


def _shift_text(results: Results) -> str:
    parts = []
    for run in results.evaluated:
        rows = _shift_rows(results, run)
        less = sum(row["d_m"] < row["d_h"] for row in rows)
        parts.append(
            f"{plain(run.label)}: the predictions change less than the surveys in {less} of "
            f"{len(rows)} pairs, and not at all in {_still(rows)}"
        )
    return f"Scatter of human shift against model shift, one point a pair. {'; '.join(parts)}."


# -- RF3: benefit of naming a year ---------------------------------------------------------------


#: Labels a tick with the number as it is, with a real minus.
_PLAIN = "replace('' + datum.value, '-', '−')"


def _even_ticks(top: float) -> list[float]:
    """Return five ticks or fewer around zero, at a round distance."""
    magnitude = 10 ** math.floor(math.log10(top / 2))
    step = max(m * magnitude for m in (1, 2, 5) if m * magnitude <= top / 2)
    count = min(int(top / step), 2)
    return [round(step * i, 6) for i in range(-count, count + 1)]


def _benefit(results: Results, narrow: bool) -> Spec:
    extent = 126
    cells: list[Cell] = []
    for run in results.evaluated:
        for prediction in ("model", "pooled"):
            for item in ("older", "newer"):
                for group in SHIFTS:
                    cells.append(results.cell("t18", run, group, "mean_benefit", item, prediction))
    reach = [abs(v) for c in cells for v in (c.low, c.high, c.estimate) if v is not None]
    top = max([*reach, 0.5]) * 1.08
    key = [("model", "model", "circle")]
    if all(run.engine == "reference" for run in results.evaluated):
        key = [("reference", "model", "circle")]
    if any("pooled" in results.predictions[run.run_id] for run in results.evaluated):
        key.append(("pooled reference", "reference", "diamond"))

    def panel(run: RunSummary, item: str, first: bool, width: int) -> Spec:
        lines = []
        for table, group in (*(("t18", group) for group in SHIFTS), ("t17", "all")):
            n = results.cell(table, run, group, "mean_benefit", item).n
            lines.append((table, group, f"{words(group)}, {_count(n)}"))
        y = _y([line[2] for line in lines], first, extent)
        x = alt.X(
            "est:Q",
            scale=alt.Scale(domain=[-top, top], nice=False),
            axis=alt.Axis(
                title="mean benefit (W × 100)"
                if narrow
                else "farther ← mean benefit (W × 100) → nearer",
                values=_even_ticks(top),
                labelExpr=_PLAIN,
            ),
        )
        layers: list[alt.Chart] = [
            alt.Chart(_data([{"est": 0}]))
            .mark_rule(color=colour("rule"), strokeWidth=1.4)
            .encode(x=x),
        ]
        empty: list[Row] = []
        for prediction, role, shape, offset in (
            ("pooled", "reference", "diamond", 6),
            ("model", "model", "circle", -3),
        ):
            points: list[Row] = []
            for table, group, name in lines:
                cell = results.cell(table, run, group, "mean_benefit", item, prediction)
                if cell.estimate is None:
                    if prediction == "model":
                        empty.append({"row": name})
                    continue
                points.append(
                    {"row": name, "est": cell.estimate, "low": cell.low, "high": cell.high}
                )
            if points:
                layers += _whisker(_data(points), x, y, role, offset)
                layers.append(
                    alt.Chart(_data(points))
                    .mark_point(
                        filled=True, shape=shape, color=colour(role), opacity=1, yOffset=offset,
                        size=58 if prediction == "model" else 34,
                    )
                    .encode(x=x, y=y)
                )  # fmt: skip
        layers += _nothing(empty, x, y, top / 2)
        return _layers(layers, width, alt.Step(28), _title(f"naming the {item} year"))

    def block(run: RunSummary) -> Spec:
        if narrow:
            width = NARROW - extent - 24
            return _stack([panel(run, item, True, width) for item in ("older", "newer")], 10)
        width = (WIDE - extent - 24 - 24) // 2
        return _beside(
            [panel(run, "older", True, width), panel(run, "newer", False, width)], spacing=24
        )

    return _blocks(results, _key(key, narrow, extent), block, narrow)


def _benefit_text(results: Results) -> str:
    parts = []
    for run in results.evaluated:
        for item in ("older", "newer"):
            cell = results.cell("t17", run, "all", "mean_benefit", item)
            parts.append(
                f"{plain(run.label)}, naming the {item} year: {number(cell.estimate, 'W x 100')} "
                f"(n = {cell.n})"
            )
    return (
        "Points with intervals by class of human shift: mean benefit of naming a year, in "
        f"hundredths of W; above zero is nearer to the survey. Overall: {'; '.join(parts)}."
    )


# -- RF3: default year ---------------------------------------------------------------------------


def _default_year(results: Results, narrow: bool) -> Spec:
    extent = 92
    key = [
        ("model" if any(r.engine != "reference" for r in results.evaluated) else "reference",
         "model", "circle"),
        ("equal choice", "ink", "M-.2,-1L.2,-1L.2,1L-.2,1Z"),
    ]  # fmt: skip
    for prediction, name, shape in (
        ("pooled", "pooled reference", "diamond"),
        ("uniform", "uniform reference", "square"),
    ):
        if any(
            results.cell("t16", run, "all", "newest", "observed", prediction).n
            for run in results.evaluated
        ):
            key.append((name, "reference", shape))

    def panel(run: RunSummary, group: str, width: int) -> Spec:
        places = ["oldest", "newest"] if group == "two" else ["oldest", "intermediate", "newest"]
        y = _y(places, True, extent)
        x = _percent("est")
        layers: list[alt.Chart] = []
        empty: list[Row] = []
        ticks: list[Row] = []
        for place in places:
            cell = results.cell("t16", run, group, place, "equal_choice")
            if cell.estimate is None:
                empty.append({"row": place})
            else:
                ticks.append({"row": place, "est": cell.estimate})
        layers.append(
            alt.Chart(_data(ticks))
            .mark_tick(color=colour("ink"), thickness=2, size=30)
            .encode(x=x, y=y)
        )
        for prediction, role, shape, offset in (
            ("uniform", "reference", "square", 11),
            ("pooled", "reference", "diamond", 2),
            ("model", "model", "circle", -8),
        ):
            points = [
                {"row": place, "est": cell.estimate, "low": cell.low, "high": cell.high}
                for place in places
                if (cell := results.cell("t16", run, group, place, "observed", prediction)).n
            ]
            if points:
                layers += _whisker(_data(points), x, y, role, offset)
                layers.append(
                    alt.Chart(_data(points))
                    .mark_point(
                        filled=True, shape=shape, color=colour(role), opacity=1, yOffset=offset,
                        size=58 if prediction == "model" else 34,
                    )
                    .encode(x=x, y=y)
                )  # fmt: skip
        layers += _nothing(empty, x, y, 50)
        name = {"two": "two surveys available", "three_or_more": "three or more"}[group]
        n = results.cell("t16", run, group, "newest", "equal_choice").n
        return _layers(layers, width, alt.Step(38), _title(f"{name}, {_count(n)}"))

    def block(run: RunSummary) -> Spec:
        groups = ("two", "three_or_more")
        if narrow:
            return _stack([panel(run, group, NARROW - extent - 24) for group in groups], 10)
        width = (WIDE - 2 * extent - 24 - 24) // 2
        return _beside([panel(run, group, width) for group in groups], spacing=24 + extent)

    return _blocks(results, _key(key, narrow, extent), block, narrow)


def _default_year_text(results: Results) -> str:
    parts = []
    for run in results.evaluated:
        cell = results.cell("t16", run, "all", "newest", "observed")
        chance = results.cell("t16", run, "all", "newest", "equal_choice")
        parts.append(
            f"{plain(run.label)}: newest year nearest for {number(cell.estimate, '%')}% of "
            f"{cell.n} pairs, equal choice {number(chance.estimate, '%')}%"
        )
    return (
        "Points with intervals: which available survey year the undated prediction is nearest to, "
        f"beside the share under equal choice. {'; '.join(parts)}."
    )


# -- what was evaluated --------------------------------------------------------------------------


def _human_shift(results: Results, narrow: bool) -> Spec:
    pairs = results.study.pairs().select(["pair_id", "survey", "d_h"]).to_pylist()
    names = _names(results)
    top = min(max(max((row["d_h"] for row in pairs), default=0.1) * 1.06, 0.05), 1.0)
    extent = 92
    width = (NARROW if narrow else WIDE) - extent - 28
    surveys = list(dict.fromkeys(row["survey"] for row in pairs))
    rules, labels = _bands(results, top, width)
    lines = []
    points: list[Row] = []
    for position, survey in enumerate(surveys):
        members = sorted(
            (r for r in pairs if r["survey"] == survey), key=lambda r: str(r["pair_id"])
        )
        line = _line(position, f"{plain(survey, 8)}, {_count(len(members)).rstrip('*')}")
        lines.append(line)
        if len(members) > MANY_POINTS:
            spots = _grid_counts([(row["d_h"], 0.5 * top) for row in members], top, 60)
            points += [{**spot, "row": line, "o": 0.0} for spot in spots]
            continue
        for index, row in enumerate(members):
            # A low-discrepancy spread: points of equal shift do not hide each other.
            spread = (index * 0.6180339887498949) % 1 - 0.5
            points.append(
                {
                    "x": row["d_h"],
                    "row": line,
                    "o": spread,
                    "z": 22,
                    "t": f"{names[row['pair_id']]}: {row['d_h']:.3f}",
                }
            )
    x = _root("x", top, width, "human shift (W, square-root scale)")
    y = _y(lines, True, extent)
    layers = (
        alt.Chart(_data(rules)).mark_rule(color=colour("rule"), strokeDash=[3, 3]).encode(x=x),
        _band_names(labels, x),
        alt.Chart(_data(points))
        .mark_point(aria=True, filled=True, color=colour("model"), opacity=0.6)
        .encode(
            x=x, y=y, size=alt.Size("z:Q", scale=None),
            yOffset=alt.YOffset("o:Q", scale=alt.Scale(domain=[-0.6, 0.6])), description="t:N",
        ),
    )  # fmt: skip
    return _layers(layers, width, alt.Step(46, **{"for": "position"}))


def _human_shift_text(results: Results) -> str:
    parts = []
    for shift in SHIFTS:
        n = results.cells[("t01", None, None, "all", None, shift)].estimate or 0
        parts.append(f"{words(shift)} {n:.0f}")
    return f"Human shift of every pair, by survey. Pairs: {', '.join(parts)}."


# -- all of them ---------------------------------------------------------------------------------


def _render(spec: Spec) -> str:
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawing: str = vl_convert.vegalite_to_svg(spec | {"config": _config()}, vl_version=version)
    return drawing


def draw(results: Results) -> list[Figure]:
    """Draw every figure of the report."""
    level = results.level
    few = f"* fewer than {SMALL_N} pairs."
    beside = any(len(listed) > 1 for listed in results.predictions.values())

    def if_beside(text: str) -> str:
        """Return a sentence that only holds where references stand beside models."""
        return f" {text}" if beside and text else ""

    figures = []
    for name, title, build, describe, caption in (
        (
            "human_shift", "Human shift of the pairs", _human_shift, _human_shift_text,
            "Each dot is a pair: the distance between its older and its newer survey. Dashed lines "
            "are the boundaries of the shift classes.",
        ),
        (
            "accuracy", "Accuracy by human shift", _accuracy, _accuracy_text,
            f"Left, the share of pairs whose predictions for both years are within "
            f"{results.tau_text} of the survey; right, for at least one of the two years; the rest "
            f"has neither. The number is the length of the bar, the line across its end its {level}"
            " interval, left out where all pairs agree."
            f"{if_beside('References (grey) are evaluated on the same pairs.')} {few}",
        ),
        (
            "alignment", "Which year the predictions are nearer to", _alignment, _alignment_text,
            "Shifted pairs only. Separated: each prediction is nearer to its own year's survey; "
            "older- and newer-aligned: both are nearer to the same one; reversed: both the other "
            f"way round. Lines are {level} intervals of the share separated."
            f"{if_beside('References (faded) are evaluated on all shifted pairs.')} {few}",
        ),
        (
            "human_and_model_shift", "Human shift against predicted shift", _shift, _shift_text,
            "Each point is a pair. Below the dashed diagonal the predictions change less than the "
            "surveys did; the vertical lines are the boundaries of the shift classes."
            + if_beside(
                "Uniform, persistence and undated-for-both predict no change and would lie on "
                "the bottom axis."
            ),
        ),
        (
            "benefit", "Benefit of naming a year", _benefit, _benefit_text,
            "How much nearer to the survey a prediction gets when the prompt names the year. Right "
            f"of zero it helps, left of zero it hurts. Lines are {level} intervals."
            + if_beside(
                "Persistence answers alike with and without a year: its benefit is zero by "
                "construction."
            )
            + f" {few}",
        ),
        (
            "default_year", "The year of a prediction without a year", _default_year,
            _default_year_text,
            "Which available survey the undated prediction is nearest to, and the share if every "
            f"available year were equally likely. Lines are {level} intervals."
            + if_beside(
                "An even spread has a nearest survey as well, without knowing any."
                if any(
                    results.cell("t16", run, "all", "newest", "observed", "uniform").n
                    for run in results.evaluated
                )
                else ""
            )
            + f" {few}",
        ),
    ):  # fmt: skip
        wide, narrow = _render(build(results, False)), _render(build(results, True))
        description = describe(results)
        file = for_file(wide, description)
        figures.append(
            Figure(
                name=name,
                title=title,
                caption=caption,
                description=description,
                svg=file,
                png=vl_convert.svg_to_png(file.decode(), scale=2),
                wide=for_page(wide, description, f"{name}-w-"),
                narrow=for_page(narrow, description, f"{name}-n-"),
            )
        )
    return figures
