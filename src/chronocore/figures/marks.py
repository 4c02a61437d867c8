"""The parts of a figure: panels, axes, keys, bars, points with intervals.

Every figure is one printed column wide (85 mm). Altair makes the parts; they are put together
as plain dicts, because altair copies every part again at every step of a composition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import altair as alt

from chronocore.figures.svg import FONT, colour
from chronocore.tables import few_units

__all__ = [
    "BOLD",
    "FONT_SIZE",
    "INTERVAL",
    "SMALL",
    "WIDTH",
    "Row",
    "Spec",
    "as_field",
    "beside",
    "config",
    "count",
    "data",
    "even_ticks",
    "flow",
    "key",
    "label_lines",
    "layers",
    "letters",
    "line_key",
    "lines_axis",
    "nothing",
    "number_axis",
    "percent",
    "stack",
    "title",
    "trend",
    "whisker",
    "width_of",
    "wrapped",
]

#: A Vega-Lite specification.
Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

#: Inner width in pixels: with four pixels on each side 321 pixels, which are 85 mm.
WIDTH = 313

#: 8 point and 7 point in print.
FONT_SIZE = 10.6
SMALL = 9.4

BOLD = "bold"

#: Drawn in keys for an interval.
INTERVAL = "M-1,-.14L1,-.14L1,.14L-1,.14Z"

#: Between the number of a line and its label.
_MARK = "|"


def data(rows: Iterable[Row]) -> alt.InlineData:
    """Return rows as text, which altair does not copy row by row."""
    return alt.InlineData(values=json.dumps(list(rows)), format=alt.JsonDataFormat(type="json"))


def layers(
    charts: Iterable[alt.Chart], width: float, height: float | alt.Step, head: Spec | None = None
) -> Spec:
    """Return one panel of several layers."""
    parts = []
    for chart in charts:
        spec = chart.to_dict(validate=False)
        (values,) = spec.pop("datasets").values()
        parts.append(
            {name: value for name, value in spec.items() if name not in ("$schema", "config")}
            | {"data": {"values": values, "format": {"type": "json"}}}
        )
    panel: Spec = {"layer": parts, "width": width}
    panel["height"] = height.to_dict() if isinstance(height, alt.Step) else height
    return panel if head is None else panel | {"title": head}


def beside(panels: Iterable[Spec], spacing: float) -> Spec:
    """Put panels beside each other."""
    return {"hconcat": list(panels), "spacing": spacing, "bounds": "flush"}


def stack(panels: Iterable[Spec], spacing: float) -> Spec:
    """Put panels below each other."""
    return {"vconcat": list(panels), "spacing": spacing}


def config() -> Spec:
    """Return what all figures share."""
    settings = alt.Config(
        aria=False,
        background=colour("surface"),
        font=FONT,
        padding=4,
        view=alt.ViewConfig(stroke=None),
        text=alt.MarkConfig(fontSize=FONT_SIZE),
        axis=alt.AxisConfig(
            labelFontSize=SMALL,
            titleFontSize=SMALL,
            titleFontWeight="normal",
            labelColor=colour("muted"),
            titleColor=colour("muted"),
            gridColor=colour("grid"),
            domainColor=colour("rule"),
            tickColor=colour("rule"),
            domain=False,
            ticks=False,
            labelPadding=4,
            titlePadding=5,
        ),
    )
    spec: Spec = settings.to_dict()
    return spec


# -- words ---------------------------------------------------------------------------------------


def count(n: int, clusters: int | None = None) -> str:
    """Return "n = 12*"; the star marks few pairs or clusters."""
    return f"n = {n:,}{'*' if few_units(n, clusters) else ''}"


def width_of(text: str, size: float = FONT_SIZE) -> float:
    """Return about how wide a text is in Helvetica and its like."""
    return size * sum(
        0.29 if c in "iljtfrI.,:;'|()[]! -" else 0.85 if c in "mwMW%@—→" else 0.68 if c.isupper()
        else 0.56
        for c in text
    )  # fmt: skip


def wrapped(
    text: str, width: float, size: float = FONT_SIZE, lines: int | None = None
) -> list[str]:
    """Return text in lines that fit a width; what does not fit the lines ends with an ellipsis."""
    found = [""]
    for word in text.split():
        joined = f"{found[-1]} {word}".strip()
        if width_of(joined, size) <= width:
            found[-1] = joined
            continue
        if found[-1]:
            found.append("")
        for letter in word:
            if found[-1] and width_of(found[-1] + letter, size) > width:
                found.append("")
            found[-1] += letter
    if lines is not None and len(found) > lines:
        found = found[:lines]
        while found[-1] and width_of(found[-1] + "…", size) > width:
            found[-1] = found[-1][:-1]
        found[-1] = found[-1].rstrip(" ,;:.") + "…"
    return found


def title(
    *lines: str, bold: bool = False, offset: float | None = None, small: bool = False
) -> Spec:
    """Return a panel's title."""
    settings = alt.TitleParams(
        text=list(lines),
        anchor="start",
        fontSize=SMALL if small else FONT_SIZE,
        fontWeight="bold" if bold else "normal",
        color=colour("muted" if small else "ink"),
        lineHeight=SMALL + 3 if small else FONT_SIZE + 3,
        offset=5 if offset is None else offset,
        frame="group",
    )
    spec: Spec = settings.to_dict()
    return spec


def letters(index: int) -> str:
    """Return the letter of a panel, ``(a)``."""
    return f"({chr(ord('a') + index)})"


# -- keys ----------------------------------------------------------------------------------------


def key(entries: Sequence[tuple[str, str, str]], extent: float, hollow: bool = False) -> Spec:
    """Return the key: (label, colour role, shape) in as many lines as it needs.

    It stands above panels whose labels take ``extent`` pixels, and starts where they do.
    """
    width = WIDTH - extent
    start = float(-extent)
    x, line, rows = start, 0, []
    for label, role, shape in entries:
        needed = 14 + 1.06 * width_of(label) + 9
        if x > start and x + needed - 9 > width:
            x, line = start, line + 1
        rows.append({"x": x + 5, "t": x + 14, "y": line, "l": label, "c": colour(role), "s": shape})
        x += needed
    base = alt.Chart(data(rows)).encode(
        y=alt.Y("y:Q", scale=alt.Scale(domain=[-0.5, line + 0.5], reverse=True), axis=None),
    )
    scale = alt.Scale(domain=[0, width], nice=False, zero=False)
    symbols = base.mark_point(filled=not hollow, size=58, opacity=1, strokeWidth=0).encode(
        x=alt.X("x:Q", scale=scale, axis=None),
        color=alt.Color("c:N", scale=None),
        shape=alt.Shape("s:N", scale=None),
    )
    labels = base.mark_text(align="left", color=colour("ink")).encode(
        x=alt.X("t:Q", scale=scale, axis=None), text="l:N"
    )
    return layers((symbols, labels), width, 15 * (line + 1))


# -- axes ----------------------------------------------------------------------------------------


def line_key(number: int, label: str, head: bool = False) -> str:
    """Return the key of a line: lines may share a label, and a heading is bold."""
    return f"{number}{'#' if head else ''}{_MARK}{label}"


def lines_axis(rows: Sequence[str], labels: bool, extent: float) -> alt.Y:
    """Return the axis of labelled lines."""
    bold = "test(/^[0-9]+#/, datum.value)"
    axis = alt.Axis(
        title=None,
        labels=labels,
        ticks=False,
        domain=False,
        grid=False,
        labelPadding=6,
        labelLimit=max(extent - 8, 0),
        labelFontSize=FONT_SIZE,
        labelExpr=f"slice(datum.value, indexof(datum.value, '{_MARK}') + 1)",
        labelFontWeight={"condition": {"test": bold, "value": "bold"}, "value": "normal"},
        minExtent=extent if labels else 0,
        maxExtent=extent if labels else 0,
        labelColor=colour("ink"),
    )
    return alt.Y("row:N", sort=None, scale=alt.Scale(domain=list(rows)), axis=axis)


def label_lines(
    keys: Sequence[str], labels: Sequence[str], y: alt.Y, extent: float
) -> list[alt.Chart]:
    """Return labels left of a panel, in two lines where one is too short."""
    placed: dict[float, list[Row]] = {}
    for name, label in zip(keys, labels, strict=True):
        parts = wrapped(label, extent - 6, lines=2)
        for i, part in enumerate(parts):
            offset = (i - (len(parts) - 1) / 2) * (FONT_SIZE + 0.6)
            placed.setdefault(offset, []).append({"row": name, "t": part})
    return [
        alt.Chart(data(rows))
        .mark_text(align="right", color=colour("ink"), yOffset=offset)
        .encode(x=alt.value(-6), y=y, text="t:N")
        for offset, rows in placed.items()
    ]


def as_field(channel: Any, field: str) -> Any:
    """Return a channel of the same scale and axis for another field."""
    copy = channel.copy()
    copy["shorthand"] = f"{field}:Q"
    return copy


def percent(field: str, axis: bool = True) -> alt.X:
    """Return a horizontal axis of percentages."""
    shown = alt.Axis(
        title=None,
        values=[0, 25, 50, 75, 100],
        labelExpr="datum.value % 50 ? '' : datum.value + '%'",
        labelFlush=True,
    )
    return alt.X(
        f"{field}:Q",
        scale=alt.Scale(domain=[0, 100], nice=False),
        axis=shown if axis else None,
    )


def number_axis(
    values: Sequence[float],
    *,
    heading: str | None = None,
    grid: bool = False,
    extent: float | None = None,
    labels: bool = True,
    unit: str = "",
    flush: bool = False,
) -> alt.Axis:
    """Return an axis of plain numbers.

    ``extent`` is the room of its labels at the left; ``flush`` keeps the first and the last label
    within the panel.
    """
    room: dict[str, Any] = {}
    if extent is not None:
        room = {"minExtent": extent, "maxExtent": extent}
    return alt.Axis(
        title=heading,
        values=list(values),
        labels=labels,
        labelFlush=flush,
        labelExpr=f"replace(format(datum.value, ',~r'), '-', '−') + '{unit}'",
        grid=grid,
        domain=not grid,
        **room,
    )


def even_ticks(low: float, high: float, most: int = 5, whole: bool = False) -> list[float]:
    """Return at most ``most`` round numbers from low to high."""
    span = high - low
    step = 1e9
    for exponent in range(0 if whole else -4, 7):
        for m in (1, 2, 5):
            candidate = m * 10.0**exponent
            if span / candidate <= most - 0.5:
                step = min(step, candidate)
    first = -(-low // step)
    ticks = []
    while first * step <= high + 1e-9:
        ticks.append(round(first * step, 6))
        first += 1
    return ticks


def whisker(
    rows: alt.InlineData, x: alt.X, y: alt.Y, role: str, offset: float = 0, halo: bool = False
) -> list[alt.Chart]:
    """Return the layers of a horizontal interval from ``low`` to ``high``."""
    base = alt.Chart(rows).transform_filter("isValid(datum.low)")
    found = []
    for role_of, width in (*((("surface", 3.6),) if halo else ()), (role, 1.3)):
        found.append(
            base.mark_rule(color=colour(role_of), strokeWidth=width, yOffset=offset).encode(
                x=as_field(x, "low"), x2="high:Q", y=y
            )
        )
    return found


def nothing(rows: Sequence[Row], x: alt.X, y: alt.Y, middle: float) -> list[alt.Chart]:
    """Return the layer that says which rows are empty."""
    empty = [{**row, "at": middle} for row in rows]
    if not empty:
        return []
    return [
        alt.Chart(data(empty))
        .mark_text(text="no pairs", color=colour("muted"), fontStyle="italic", fontSize=SMALL)
        .encode(x=as_field(x, "at"), y=y)
    ]


# -- estimates along ordered groups ----------------------------------------------------------------


def trend(
    series: Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]],
    groups: Sequence[str],
    *,
    head: str,
    domain: tuple[float, float],
    unit: str = "",
    reference: float | None = None,
    labels: bool = True,
    height: float = 92,
    extent: float = 34,
) -> Spec:
    """Return estimates with intervals by ordered group, one series a model.

    Parameters
    ----------
    series : sequence of (colour role, shape, cells)
        One cell a group: ``estimate``, ``low``, ``high``, ``n``. Without an estimate nothing is
        drawn; with few pairs the symbol is hollow.
    groups : sequence of str
        Names of the groups.
    head : str
        Title of the panel.
    domain : (float, float)
        Of the vertical axis.
    unit : str
        Behind the numbers of the axis.
    reference : float, optional
        Where a dashed line is drawn.
    labels : bool
        Whether the groups are named below.
    """
    width = WIDTH - extent
    last = len(groups) - 1
    spread = min(0.62 / max(len(series), 1), 0.11)
    points: list[Row] = []
    lines: list[Row] = []
    for index, (role, shape, cells) in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * spread
        for position, cell in enumerate(cells):
            if cell["estimate"] is None:
                continue
            few = few_units(cell["n"], cell["clusters"])
            row = {
                "x": position + shift, "y": cell["estimate"], "low": cell["low"],
                "high": cell["high"], "s": shape, "k": f"{index}", "c": colour(role),
                "f": colour("surface") if few else colour(role),
            }  # fmt: skip
            points.append(row)
            lines.append({name: row[name] for name in ("x", "y", "k", "c")})
    names = json.dumps(list(groups))
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[-0.5, last + 0.5], nice=False, zero=False),
        axis=alt.Axis(
            title=None,
            values=list(range(last + 1)),
            labels=labels,
            labelExpr=f"{names}[datum.value]",
            labelFontSize=FONT_SIZE,
            labelColor=colour("ink"),
            labelPadding=5,
            grid=False,
            domain=True,
        ),
    )
    ticks = even_ticks(*domain)
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=list(domain), nice=False, zero=False),
        axis=number_axis(ticks, grid=True, extent=extent, unit=unit),
    )
    charts: list[alt.Chart] = []
    if reference is not None:
        charts.append(
            alt.Chart(data([{"y": reference}]))
            .mark_rule(color=colour("rule"), strokeDash=[4, 3], strokeWidth=1.2)
            .encode(y=y)
        )
    if not points:
        empty = alt.Chart(data([{"x": last / 2, "y": sum(domain) / 2}]))
        charts.append(
            empty.mark_text(
                text="no pairs", color=colour("muted"), fontStyle="italic", fontSize=SMALL
            ).encode(x=x, y=y)
        )
        return layers(charts, width, height, title(head))
    own = alt.Color("c:N", scale=None)
    charts += [
        alt.Chart(data(lines))
        .mark_line(strokeWidth=1, opacity=0.4)
        .encode(x=x, y=y, color=own, detail="k:N"),
        alt.Chart(data(points))
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.3, clip=True)
        .encode(x=x, y=as_field(y, "low"), y2="high:Q", color=own),
        alt.Chart(data(points))
        .mark_point(size=34, opacity=1, strokeWidth=1.3)
        .encode(
            x=x, y=y, shape=alt.Shape("s:N", scale=None), stroke=alt.Stroke("c:N", scale=None),
            fill=alt.Fill("f:N", scale=None),
        ),
    ]  # fmt: skip
    return layers(charts, width, height, title(head))


# -- text ----------------------------------------------------------------------------------------


def flow(rows: Sequence[Row], height: float, boxes: Sequence[Row] = (), extent: float = 0) -> Spec:
    """Return text placed by hand: rows with x, y, text and optional colour, weight and size.

    ``boxes`` lie behind the text: x, y, x2, y2 and a colour role. Above panels whose labels take
    ``extent`` pixels it starts where the labels do.
    """
    x_scale = alt.Scale(domain=[extent, WIDTH], nice=False, zero=False)
    y_scale = alt.Scale(domain=[height, 0], nice=False, zero=False)
    charts: list[alt.Chart] = []
    if boxes:
        placed = [
            {
                "x": box["x"], "x2": box["x2"], "y": box["y"], "y2": box["y2"],
                "c": colour(box.get("role", "rest")),
            }
            for box in boxes
        ]  # fmt: skip
        charts.append(
            alt.Chart(data(placed))
            .mark_rect(cornerRadius=3)
            .encode(
                x=alt.X("x:Q", scale=x_scale, axis=None), x2="x2:Q",
                y=alt.Y("y:Q", scale=y_scale, axis=None), y2="y2:Q",
                color=alt.Color("c:N", scale=None),
            )
        )  # fmt: skip
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        how = (
            row.get("align", "left"), row.get("weight", "normal"), row.get("size", FONT_SIZE),
            row.get("role", "ink"), row.get("style", "normal"),
        )  # fmt: skip
        groups.setdefault(how, []).append({"x": row["x"], "y": row["y"], "t": row["text"]})
    for (align, weight, size, role, style), members in groups.items():
        charts.append(
            alt.Chart(data(members))
            .mark_text(
                align=align, baseline="middle", fontWeight=weight, fontSize=size,
                color=colour(role), fontStyle=style,
            )
            .encode(
                x=alt.X("x:Q", scale=x_scale, axis=None),
                y=alt.Y("y:Q", scale=y_scale, axis=None), text="t:N",
            )
        )  # fmt: skip
    return layers(charts, WIDTH - extent, height)
