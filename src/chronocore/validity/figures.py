"""The figures of measurement validity, each in a wide and a narrow layout.

What belongs to the models is coloured, the survey's countries are grey, and no position comes
without the region it may lie in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from chronocore.figures.draw import Figure, render
from chronocore.figures.marks import INTERVAL, Row, Spec, beside, stack, width_of
from chronocore.figures.marks import title as heading
from chronocore.figures.svg import colour
from chronocore.text import plain
from chronocore.tolerance import above

__all__ = ["NAMES", "Drawn", "draw"]

#: Widths of the two layouts in pixels: a printed page (178 mm) and a column (87 mm).
WIDE, NARROW = 672, 328

#: Every figure: all ratios, those of the paper in its order, the change over waves.
NAMES: tuple[str, ...] = (
    "validity-grid",
    "validity-map",
    "validity-tone-shift",
    "validity-disagreement",
    "validity-seed-clouds",
    "validity-components",
    "validity-noise-signal",
    "validity-refusals",
    "validity-change",
)

_SIZE, _SMALL = 12, 10

#: With more models than this, the wider ellipses would hide the map; the table holds them.
_FEW_MODELS = 4
_LABEL = 24


@dataclass(frozen=True, slots=True)
class Drawn:
    """What figures are drawn from.

    Attributes
    ----------
    components, map, change : list of dict
        Rows of the tables of the same names; empty where there are none.
    """

    components: list[Row]
    map: list[Row]
    change: list[Row]
    standard: str = "standard"

    @property
    def labels(self) -> list[str]:
        """Return the models in the order of their median ratio, the most reliable first."""
        ratios: dict[str, list[float]] = {}
        for row in self.components:
            own = ratios.setdefault(row["label"], [])
            if row["nsr"] is not None:
                own.append(row["nsr"])
        return sorted(
            ratios, key=lambda name: (float(np.median(ratios[name])) if ratios[name] else 1e9, name)
        )

    @property
    def items(self) -> list[str]:
        """Return the items as they are named in figures."""
        return list(dict.fromkeys(self.item(row) for row in self.components))

    @staticmethod
    def item(row: Row) -> str:
        """Return the name of a row's item, with its wording where that is not the survey's."""
        return str(
            row["item"] if row["wording"] == "native" else f"{row['item']} ({row['wording']})"
        )

    def placed(self, kind: str, **where: Any) -> list[Row]:
        """Return rows of the map that have a position."""
        return [
            row
            for row in self.map
            if row["kind"] == kind
            and row["x"] is not None
            and all(row[key] == value for key, value in where.items())
        ]


# -- pieces --------------------------------------------------------------------------------------


def _layer(mark: str, rows: Iterable[Row], encoding: Spec, **properties: Any) -> Spec:
    return {
        "data": {"values": list(rows)},
        "mark": {"type": mark, **properties},
        "encoding": encoding,
    }


def _panel(
    layers: Sequence[Spec], width: float, height: float | Spec, title: str | None = None
) -> Spec:
    panel: Spec = {"layer": list(layers), "width": width, "height": height}
    return panel if title is None else panel | {"title": heading(title)}


def _real(field: str, domain: Sequence[float], title: str | None, **axis: Any) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": list(domain), "nice": False, "zero": False},
        "axis": {"title": title, "labelExpr": "replace(datum.label, '-', '−')", **axis},
    }


def _names(field: str, values: Sequence[str], **axis: Any) -> Spec:
    return {
        "field": field,
        "type": "nominal",
        "sort": None,
        "scale": {"domain": list(values)},
        "axis": {
            "title": None, "ticks": False, "domain": False, "grid": False, "labelPadding": 6,
            "labelLimit": 170, "labelColor": colour("ink"), **axis,
        },
    }  # fmt: skip


def _fixed(field: str) -> Spec:
    return {"field": field, "type": "nominal", "scale": None, "legend": None}


def _key(entries: Sequence[tuple[str, str, str]], width: float) -> Spec:
    """Return a key of (label, colour role, shape), in as many lines as it needs."""
    x, line, rows = 0.0, 0, []
    for label, role, shape in entries:
        needed = 18 + 1.06 * width_of(label, _SMALL + 1) + 14
        if x > 0 and x + needed > width:
            x, line = 0.0, line + 1
        rows.append({"x": x + 6, "t": x + 17, "y": line, "l": label, "c": colour(role), "s": shape})
        x += needed
    scale = {"domain": [0, width], "nice": False, "zero": False}
    y = {
        "field": "y", "type": "quantitative", "axis": None,
        "scale": {"domain": [-0.5, line + 0.5], "reverse": True, "nice": False},
    }  # fmt: skip
    return _panel(
        [
            _layer(
                "point",
                rows,
                {
                    "x": {"field": "x", "type": "quantitative", "scale": scale, "axis": None},
                    "y": y,
                    "color": _fixed("c"),
                    "shape": {"field": "s", "type": "nominal", "scale": None},
                },
                filled=True,
                size=64,
                opacity=1,
                strokeWidth=0,
            ),
            _layer(
                "text",
                rows,
                {
                    "x": {"field": "t", "type": "quantitative", "scale": scale, "axis": None},
                    "y": y,
                    "text": {"field": "l"},
                },
                align="left",
                fontSize=_SMALL + 1,
            ),
        ],
        width,
        17 * (line + 1),
    )


# -- the plane -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plane:
    """A panel of the map: its domains and its size in pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        return (
            (x - self.x[0]) / (self.x[1] - self.x[0]) * self.width,
            (self.y[1] - y) / (self.y[1] - self.y[0]) * self.height,
        )

    def holds(self, x: float, y: float) -> bool:
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]

    def axes(self, titles: bool = True) -> tuple[Spec, Spec]:
        return (
            _real("x", self.x, "survival ← → self-expression" if titles else None, tickCount=6),
            _real("y", self.y, "traditional ← → secular-rational" if titles else None, tickCount=6),
        )


def _plane(
    points: Sequence[tuple[float, float]], width: float, height: float, pad: float = 0.06
) -> _Plane:
    """Return a plane that holds all points with equal units on both axes."""
    xs, ys = zip(*points, strict=True)
    middle = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2)
    unit = max((max(xs) - min(xs)) / width, (max(ys) - min(ys)) / height, 1e-6) * (1 + 2 * pad)
    half = (unit * width / 2, unit * height / 2)
    return _Plane(
        (middle[0] - half[0], middle[0] + half[0]),
        (middle[1] - half[1], middle[1] + half[1]),
        width,
        height,
    )


def _ellipse(row: Row, which: str, key: str) -> list[Row]:
    """Return the outline of an ellipse as points in order."""
    major, minor, angle = (row[f"{which}_{part}"] for part in ("major", "minor", "angle"))
    if major is None:
        return []
    turn = math.radians(angle)
    out = []
    for step in range(49):
        t = 2 * math.pi * step / 48
        a, b = major * math.cos(t), minor * math.sin(t)
        out.append(
            {
                "x": row["x"] + a * math.cos(turn) - b * math.sin(turn),
                "y": row["y"] + a * math.sin(turn) + b * math.cos(turn),
                "o": step,
                "k": key,
            }
        )
    return out


def _placed_labels(
    plane: _Plane,
    points: Sequence[tuple[float, float, str, bool]],
    size: float,
    occupied: list[tuple[float, float, float, float]],
) -> list[Row]:
    """Place labels beside their points where they cover neither points nor each other.

    ``points`` are (x, y, text, must). A label without room is left out unless it must stand.
    """
    out = []
    for x, y, text, must in points:
        px, py = plane.pixel(x, y)
        width, height = width_of(text, size), size + 1
        places = (
            (7, 0, "left"), (-7, 0, "right"), (0, -9, "center"), (0, 10, "center"),
            (6, -9, "left"), (-6, -9, "right"), (6, 9, "left"), (-6, 9, "right"),
        )  # fmt: skip
        best: tuple[float, Row, tuple[float, float, float, float]] | None = None
        for dx, dy, align in places:
            left = px + dx - {"left": 0.0, "right": width, "center": width / 2}[align]
            box = (left, py + dy - height / 2, left + width, py + dy + height / 2)
            outside = (
                max(0.0, -box[0]) + max(0.0, box[2] - plane.width)
                + max(0.0, -box[1]) + max(0.0, box[3] - plane.height)
            )  # fmt: skip
            cover = sum(
                max(0.0, min(box[2], b[2]) - max(box[0], b[0]))
                * max(0.0, min(box[3], b[3]) - max(box[1], b[1]))
                for b in occupied
            )
            cost = cover + 1000 * outside
            row = {"x": x, "y": y, "t": text, "dx": dx, "dy": dy, "a": align}
            if best is None or cost < best[0] - 1e-9:
                best = (cost, row, box)
            if cost == 0:
                break
        assert best is not None
        if must or best[0] == 0:
            out.append(best[1])
            occupied.append(best[2])
    return out


def _text_layers(
    rows: Sequence[Row], x: Spec, y: Spec, size: float, role: str, **more: Any
) -> list[Spec]:
    """Return labels: an offset is a property of a mark, so there is one layer for each."""
    groups: dict[tuple[float, float, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["dx"], row["dy"], row["a"]), []).append(row)
    return [
        _layer(
            "text", members, {"x": x, "y": y, "text": {"field": "t"}},
            dx=dx, dy=dy, align=align, baseline="middle", fontSize=size, color=colour(role), **more,
        )
        for (dx, dy, align), members in groups.items()
    ]  # fmt: skip


def _countries(drawn: Drawn) -> list[Row]:
    return drawn.placed("country")


def _model_points(drawn: Drawn) -> list[Row]:
    return drawn.placed("model", group=drawn.standard)


def _map(drawn: Drawn, narrow: bool) -> Spec | None:
    countries, models = _countries(drawn), _model_points(drawn)
    if not countries:
        return None
    width = (NARROW if narrow else WIDE) - 48
    height = width * (1.0 if narrow else 0.82)
    references = drawn.placed("reference")
    outlines: list[Row] = []
    fills: list[Row] = []
    for row in models:
        outlines += _ellipse(row, "mean", row["label"])
        if len(models) <= _FEW_MODELS:
            fills += _ellipse(row, "spread", row["label"])
    seen = [*countries, *models, *references, *outlines]
    plane = _plane([(row["x"], row["y"]) for row in seen], width, height)
    # Wider than the whole panel, an ellipse would leave nothing but its name in the key.
    fills = fills if any(plane.holds(row["x"], row["y"]) for row in fills) else []
    x, y = plane.axes()
    occupied = [
        (px - 4, py - 4, px + 4, py + 4)
        for row in [*models, *references]
        for px, py in [plane.pixel(row["x"], row["y"])]
    ]
    size = 9.5 if narrow else 11
    own = _placed_labels(
        plane,
        [(row["x"], row["y"], plain(row["label"], _LABEL), True) for row in models]
        + [(row["x"], row["y"], plain(row["label"], _LABEL), True) for row in references],
        size,
        occupied,
    )
    grey = occupied + [
        (px - 2, py - 2, px + 2, py + 2)
        for row in countries
        for px, py in [plane.pixel(row["x"], row["y"])]
    ]
    named = _placed_labels(
        plane,
        [(row["x"], row["y"], plain(row["name"], 20), False) for row in countries],
        7.5 if narrow else 8.5,
        grey,
    )
    line = {
        "x": x,
        "y": y,
        "detail": {"field": "k"},
        "order": {"field": "o", "type": "quantitative"},
    }
    layers = [
        _layer(
            "point", countries, {"x": x, "y": y}, filled=True, size=14,
            color=colour("reference-mid"), opacity=1,
        ),
        *_text_layers(named, x, y, 7.5 if narrow else 8.5, "reference"),
        _layer(
            "line", fills, line, color=colour("model-mid"), strokeWidth=0.8, strokeDash=[2, 3],
            clip=True,
        ),
        _layer("line", outlines, line, color=colour("model"), strokeWidth=1.3, clip=True),
        _layer(
            "point", references, {"x": x, "y": y}, shape="cross", filled=True, size=90,
            color=colour("reversed"), opacity=1,
        ),
        _layer(
            "point", models, {"x": x, "y": y}, shape="diamond", filled=True, size=62,
            color=colour("model"), stroke=colour("surface"), strokeWidth=0.8, opacity=1,
        ),
        *_text_layers(own, x, y, size, "ink"),
    ]  # fmt: skip
    key = [
        ("models, standard tone", "model", "diamond"),
        ("95% ellipse of the mean", "model", INTERVAL),
        ("countries", "reference-mid", "circle"),
    ]
    if fills:
        key.insert(2, ("one more variant (dashed)", "model-mid", INTERVAL))
    if references:
        key.append(("published position", "reversed", "cross"))
    return stack([_key(key, width), _panel(layers, width, height)], 12)


def _map_text(drawn: Drawn) -> str:
    models = _model_points(drawn)
    places = "; ".join(
        f"{plain(row['label'])} ({row['x']:.2f}, {row['y']:.2f}), {row['n']} of {row['n_asked']} "
        "variants"
        for row in models
    )
    off = sorted(
        {
            plain(row["label"])
            for row in drawn.map
            if row["kind"] == "model" and row["group"] == drawn.standard and row["x"] is None
        }
    )
    return (
        f"Cultural map of {len(_countries(drawn))} countries with the models' mean positions: "
        f"{places or 'none'}." + (f" Not on the map: {', '.join(off)}." if off else "")
    )


# -- tone shift ----------------------------------------------------------------------------------


def _shifts(drawn: Drawn) -> list[Row]:
    base = {row["label"]: row for row in _model_points(drawn)}
    out = []
    for row in drawn.placed("model"):
        if row["group"] in (drawn.standard, "all") or row["label"] not in base:
            continue
        own = base[row["label"]]
        out.append(
            {
                "l": plain(row["label"], _LABEL),
                "tone": row["group"],
                "x": row["x"] - own["x"],
                "y": row["y"] - own["y"],
                "d": row["tone_shift"],
            }
        )
    return out


_TONES = (
    ("newer", "circle"),
    ("reversed", "triangle-up"),
    ("separated", "square"),
    ("older", "diamond"),
)


def _tone_shift(drawn: Drawn, narrow: bool) -> Spec | None:
    rows = _shifts(drawn)
    if not rows:
        return None
    tones = list(dict.fromkeys(row["tone"] for row in rows))
    look = {tone: _TONES[i % len(_TONES)] for i, tone in enumerate(tones)}
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["l"]] = max(largest.get(row["l"], 0.0), row["d"])
    labels = sorted(largest, key=lambda name: (-largest[name], name))
    mean = "mean of all models"
    for tone in tones:
        own = [row for row in rows if row["tone"] == tone]
        rows.append(
            {
                "l": mean,
                "tone": tone,
                "x": float(np.mean([r["x"] for r in own])),
                "y": float(np.mean([r["y"] for r in own])),
                "d": 0.0,
            }
        )
    for row in rows:
        role, shape = look[row["tone"]]
        row |= {"c": colour(role), "s": shape}
    top = max(max(abs(row["x"]), abs(row["y"])) for row in rows) * 1.1 or 1.0
    extent = 110 if narrow else 150
    width = NARROW - extent - 20 if narrow else (WIDE - extent - 40) / 2
    order = [*labels, mean]

    def panel(field: str, title: str, first: bool) -> Spec:
        x = _real(field, (-top, top), title, tickCount=5)
        y = _names("l", order, labels=first, minExtent=extent if first else 0, labelLimit=extent)
        return _panel(
            [
                _layer("rule", [{field: 0}], {"x": x}, color=colour("rule"), strokeWidth=1.2),
                _layer(
                    "rule", [{**row, "zero": 0} for row in rows],
                    {"x": x, "x2": {"field": "zero"}, "y": y, "color": _fixed("c"),
                     "yOffset": {"field": "tone", "scale": {"domain": tones}}},
                    strokeWidth=1,
                ),
                _layer(
                    "point", rows,
                    {"x": x, "y": y, "color": _fixed("c"),
                     "shape": {"field": "s", "type": "nominal", "scale": None},
                     "yOffset": {"field": "tone", "scale": {"domain": tones}}},
                    filled=True, size=46, opacity=1,
                ),
            ],
            width,
            {"step": 11},
        )  # fmt: skip

    horizontal = panel("x", "shift in x (self-expression →)", True)
    vertical = panel("y", "shift in y (secular-rational →)", narrow)
    panels = stack([horizontal, vertical], 12) if narrow else beside([horizontal, vertical], 24)
    key = [(f"{tone} tone", *look[tone]) for tone in tones]
    return stack([_key(key, (NARROW if narrow else WIDE) - extent - 24), panels], 12)


def _tone_text(drawn: Drawn) -> str:
    rows = sorted(_shifts(drawn), key=lambda row: -row["d"])
    parts = [f"{row['l']}, {row['tone']}: {row['d']:.2f}" for row in rows[:6]]
    return f"Shift of every model on the map under another tone; the largest: {'; '.join(parts)}."


# -- heat maps -----------------------------------------------------------------------------------

_HEAT = ("h1", "h2", "h3", "h4", "h5")


def _heat(
    drawn: Drawn,
    field: str,
    width: float,
    extent: float,
    step: float,
    title: str | None,
    narrow: bool,
) -> Spec:
    labels, items = [plain(name, _LABEL) for name in drawn.labels], drawn.items
    cells = []
    for row in drawn.components:
        value = row[field]
        level = -1 if value is None else min(int(value * 5), 4)
        text = "–" if value is None else f"{100 * value:.0f}" if value > 0 else ""
        cells.append(
            {
                "l": plain(row["label"], _LABEL),
                "i": drawn.item(row),
                "c": colour("surface" if level < 0 else "rest" if not value else _HEAT[level]),
                "t": text,
                "tc": colour("muted" if level < 0 else "on-strong" if level >= 3 else "ink"),
            }
        )
    x = _names("i", items, orient="top", labelAngle=-55 if narrow else 0, labelFontSize=9)
    y = _names("l", labels, minExtent=extent, labelLimit=extent)
    return _panel(
        [
            _layer(
                "rect", cells, {"x": x, "y": y, "color": _fixed("c")},
                stroke=colour("surface"), strokeWidth=1.5,
            ),
            _layer(
                "text", cells, {"x": x, "y": y, "text": {"field": "t"}, "color": _fixed("tc")},
                fontSize=8.5 if narrow else 10,
            ),
        ],
        width - extent,
        {"step": step},
        title,
    )  # fmt: skip


def _disagreement(drawn: Drawn, narrow: bool) -> Spec | None:
    if not drawn.components:
        return None
    width, extent = (NARROW, 104) if narrow else (WIDE, 150)
    return stack([_heat(drawn, "disagreement_rate", width - 24, extent, 22, None, narrow)], 12)


def _rate_text(drawn: Drawn, field: str, what: str) -> str:
    rows = sorted((row for row in drawn.components if row[field]), key=lambda row: -row[field])
    parts = [
        f"{plain(row['label'])}, {drawn.item(row)} {100 * row[field]:.0f}%" for row in rows[:6]
    ]
    return f"{what} by model and item. Largest: {'; '.join(parts) or 'none'}."


def _refusals(drawn: Drawn, narrow: bool) -> Spec | None:
    if not drawn.components:
        return None
    width, extent = (NARROW, 104) if narrow else (WIDE, 150)
    return stack(
        [
            _heat(drawn, "refusal_rate", width - 24, extent, 20, "refused, % of variants", narrow),
            _heat(
                drawn, "parse_failure_rate", width - 24, extent, 20,
                "could not be read, % of variants", narrow,
            ),
        ],
        22,
    )  # fmt: skip


#: Ratios from which a cell has a colour, with it and the colour of its number.
_RATIOS = (
    (2.0, "h5", "on-strong"),
    (1.0, "h4", "on-strong"),
    (0.5, "h2", "ink"),
    (0.0, "h1", "ink"),
)


def _grid(drawn: Drawn, narrow: bool) -> Spec | None:
    if not any(row["nsr"] is not None for row in drawn.components):
        return None
    width, extent = (NARROW - 24, 96) if narrow else (WIDE - 24, 150)
    cells = []
    for row in drawn.components:
        value = row["nsr"]
        role, ink = "surface", "muted"
        if value is not None:
            # The classes are closed below, but 1 and 2 themselves are not exceeded.
            role, ink = next(
                (role, ink) for start, role, ink in _RATIOS
                if (start < 1 and value >= start) or (start >= 1 and above(value, start))
            )  # fmt: skip
        cells.append(
            {
                "l": plain(row["label"], _LABEL), "i": drawn.item(row), "c": colour(role),
                "t": "–" if value is None else f"{value:.1f}" if narrow else f"{value:.2f}",
                "tc": colour(ink),
            }
        )  # fmt: skip
    x = _names("i", drawn.items, orient="top", labelAngle=-55 if narrow else 0, labelFontSize=9)
    y = _names(
        "l", [plain(name, _LABEL) for name in drawn.labels], minExtent=extent, labelLimit=extent
    )
    key = [
        ("below 0.5", "h1", "square"), ("0.5 to 1", "h2", "square"), ("above 1", "h4", "square"),
        ("above 2", "h5", "square"),
    ]  # fmt: skip
    cell_layers = [
        _layer(
            "rect", cells, {"x": x, "y": y, "color": _fixed("c")},
            stroke=colour("surface"), strokeWidth=1.5,
        ),
        _layer(
            "text", cells, {"x": x, "y": y, "text": {"field": "t"}, "color": _fixed("tc")},
            fontSize=8 if narrow else 10,
        ),
    ]  # fmt: skip
    return stack([_key(key, width - extent), _panel(cell_layers, width - extent, {"step": 22})], 8)


def _grid_text(drawn: Drawn) -> str:
    ok = [row for row in drawn.components if row["nsr"] is not None]
    above_1 = sum(bool(row["above_1"]) for row in ok)
    worst = sorted(ok, key=lambda row: -row["nsr"])[:4]
    parts = "; ".join(f"{plain(r['label'])}, {drawn.item(r)} {r['nsr']:.2f}" for r in worst)
    return (
        f"Noise-to-signal ratio by model and item: {above_1} of {len(ok)} above 1. "
        f"Largest: {parts}."
    )


# -- seed clouds ---------------------------------------------------------------------------------


def _clouds(drawn: Drawn, narrow: bool) -> Spec | None:
    seeds = drawn.placed("seed")
    countries = _countries(drawn)
    if not seeds or not countries:
        return None
    labels = [name for name in drawn.labels if any(row["label"] == name for row in seeds)]
    columns = 2 if narrow else 4
    total = (NARROW if narrow else WIDE) - 30
    side = (total - 26 * columns) / columns
    plane = _plane([(r["x"], r["y"]) for r in [*countries, *seeds]], side, side)
    x, y = plane.axes(titles=False)
    x["axis"] |= {"tickCount": 4}
    y["axis"] |= {"tickCount": 4}
    panels = []
    for label in labels:
        own = [row for row in seeds if row["label"] == label]
        distinct = len({(round(row["x"], 9), round(row["y"], 9)) for row in own})
        panels.append(
            _panel(
                [
                    _layer(
                        "point", countries, {"x": x, "y": y}, filled=True, size=5,
                        color=colour("reference-mid"), opacity=0.8,
                    ),
                    _layer(
                        "point", own, {"x": x, "y": y}, filled=True, size=30,
                        color=colour("model"), opacity=0.55,
                    ),
                ],
                side,
                side,
                f"{plain(label, 17)}, {len(own)} ({distinct})",
            )
        )  # fmt: skip
    lines = [
        beside(panels[start : start + columns], 26) for start in range(0, len(panels), columns)
    ]
    return stack(lines, 14)


def _clouds_text(drawn: Drawn) -> str:
    counts: dict[str, int] = {}
    for row in drawn.placed("seed"):
        counts[row["label"]] = counts.get(row["label"], 0) + 1
    parts = "; ".join(f"{plain(label)}: {n} seeds" for label, n in sorted(counts.items()))
    return f"Answers to one prompt with several seeds, on the map. {parts}."


# -- components ----------------------------------------------------------------------------------


def _component_rows(drawn: Drawn) -> list[Row]:
    out = []
    for item in drawn.items:
        own = [row for row in drawn.components if drawn.item(row) == item]
        values: Row = {"i": item, "culture": own[0]["sigma_culture"]}
        for name in ("sigma_seed", "sigma_prompt"):
            found = [row[name] for row in own if row["sigma_seed"] is not None
                     and row["sigma_prompt"] is not None]  # fmt: skip
            values[name] = float(np.mean(found)) if found else None
            values["n"] = len(found)
        out.append(values)
    return out


def _components(drawn: Drawn, narrow: bool) -> Spec | None:
    rows = [row for row in _component_rows(drawn) if row["sigma_seed"] is not None]
    if not rows:
        return None
    bars = []
    for row in rows:
        end = row["sigma_seed"]
        bars.append({"i": row["i"], "a": 0, "b": end, "c": colour("model")})
        bars.append(
            {"i": row["i"], "a": end, "b": end + row["sigma_prompt"], "c": colour("model-mid")}
        )
    lines = [{"i": row["i"], "a": row["culture"]} for row in rows if row["culture"] is not None]
    top = max([bar["b"] for bar in bars] + [line["a"] for line in lines] + [0.1]) * 1.05
    extent = 64
    width = (NARROW if narrow else WIDE) - extent - 24
    x = _real("a", (0, top), "standard deviation, in points of the item's scale", tickCount=6)
    y = _names("i", [row["i"] for row in rows], minExtent=extent, labelLimit=extent)
    key = [
        ("σ seed, mean over models", "model", "square"),
        ("σ prompt", "model-mid", "square"),
        ("σ culture", "reversed", "M-.2,-1L.2,-1L.2,1L-.2,1Z"),
    ]
    return stack(
        [
            _key(key, width),
            _panel(
                [
                    _layer(
                        "bar", bars,
                        {"x": x, "x2": {"field": "b"}, "y": y, "color": _fixed("c")},
                        height={"band": 0.68},
                    ),
                    _layer(
                        "tick", lines, {"x": x, "y": y}, color=colour("reversed"), opacity=1,
                        thickness=2.5, size=19,
                    ),
                ],
                width,
                {"step": 24},
            ),
        ], 12)  # fmt: skip


def _components_text(drawn: Drawn) -> str:
    parts = []
    for row in _component_rows(drawn):
        if row["sigma_seed"] is not None and row["culture"] is not None:
            noise = row["sigma_seed"] + row["sigma_prompt"]
            parts.append(f"{row['i']} {noise:.2f} against {row['culture']:.2f}")
    return (
        f"Noise (seed plus prompt, mean over models) against culture by item: {'; '.join(parts)}."
    )


# -- noise and signal ----------------------------------------------------------------------------


def _noise_signal(drawn: Drawn, narrow: bool) -> Spec | None:
    points = [
        {
            "x": row["sigma_culture"],
            "y": row["sigma_seed"] + row["sigma_prompt"],
            "s": "triangle-up" if row["above_1"] else "circle",
            "c": colour("reversed" if row["above_1"] else "model"),
            "t": f"{plain(row['label'])}, {drawn.item(row)}: {row['nsr']:.2f}",
        }
        for row in drawn.components
        if row["status"] == "ok"
    ]
    if not points:
        return None
    width = (NARROW if narrow else WIDE) - 52
    height = min(width, 420)
    top = max(max(point["x"], point["y"]) for point in points) * 1.06
    x = _real("x", (0, top), "σ culture (signal)", tickCount=6)
    y = _real("y", (0, top), "σ seed + σ prompt (noise)", tickCount=6)
    angle = 360 - math.degrees(math.atan2(height, width))
    key = [
        ("noise at most the signal", "model", "circle"),
        ("noise above the signal", "reversed", "triangle-up"),
    ]
    return stack(
        [
            _key(key, width),
            _panel(
                [
                    _layer(
                        "line", [{"x": 0, "y": 0}, {"x": top, "y": top}], {"x": x, "y": y},
                        color=colour("rule"), strokeDash=[4, 4], strokeWidth=1.2,
                    ),
                    _layer(
                        "text", [{"x": top, "y": top, "t": "NSR = 1"}],
                        {"x": x, "y": y, "text": {"field": "t"}},
                        angle=angle, align="right", baseline="bottom", dx=-8, dy=-5,
                        color=colour("muted"), fontSize=_SMALL,
                    ),
                    _layer(
                        "point", points,
                        {"x": x, "y": y, "color": _fixed("c"),
                         "shape": {"field": "s", "type": "nominal", "scale": None},
                         "description": {"field": "t"}},
                        filled=True, size=40, opacity=0.75, aria=True,
                    ),
                ],
                width,
                height,
            ),
        ], 12)  # fmt: skip


def _noise_text(drawn: Drawn) -> str:
    ok = [row for row in drawn.components if row["status"] == "ok"]
    above = sum(bool(row["above_1"]) for row in ok)
    share = f"{above} of {len(ok)} above the diagonal"
    return f"Noise against signal, one point a model and item: {share}."


# -- change --------------------------------------------------------------------------------------


def _change(drawn: Drawn, narrow: bool) -> Spec | None:
    if not drawn.change:
        return None
    sources = list(dict.fromkeys(row["label"] for row in drawn.change))
    look = {"survey": ("reference", "survey")}
    roles = ("model", "reversed", "separated", "newer")
    for index, label in enumerate(name for name in sources if name != "survey"):
        look[label] = (roles[index % len(roles)], plain(label, _LABEL))
    width = (NARROW if narrow else WIDE) - 48
    height = width * (1.1 if narrow else 0.75)
    points = [(row[f"x_{end}"], row[f"y_{end}"]) for row in drawn.change for end in ("old", "new")]
    plane = _plane(points, width, height)
    x, y = plane.axes()
    segments, heads = [], []
    for row in drawn.change:
        role = colour(look[row["label"]][0])
        segments.append(
            {
                "x": row["x_old"],
                "y": row["y_old"],
                "x2": row["x_new"],
                "y2": row["y_new"],
                "c": role,
            }
        )
        (ax, ay), (bx, by) = (plane.pixel(row[f"x_{e}"], row[f"y_{e}"]) for e in ("old", "new"))
        heads.append(
            {"x": row["x_new"], "y": row["y_new"], "c": role,
             "r": math.degrees(math.atan2(by - ay, bx - ax)) + 90}
        )  # fmt: skip
    named = _placed_labels(
        plane,
        [
            (row["x_new"], row["y_new"], plain(row["country_name"], 18), False)
            for row in drawn.change
            if row["label"] == "survey"
        ],
        9,
        [],
    )
    layers = [
        _layer(
            "rule", segments,
            {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}, "color": _fixed("c")},
            strokeWidth=1.4,
        ),
        _layer(
            "point", heads,
            {"x": x, "y": y, "color": _fixed("c"),
             "angle": {"field": "r", "type": "quantitative", "scale": None}},
            shape="triangle-up", filled=True, size=36, opacity=1,
        ),
        *_text_layers(named, x, y, 9, "muted"),
    ]  # fmt: skip
    key = [(look[label][1], look[label][0], INTERVAL) for label in sources]
    return stack([_key(key, width), _panel(layers, width, height)], 12)


def _change_text(drawn: Drawn) -> str:
    parts = []
    for label in dict.fromkeys(row["label"] for row in drawn.change):
        own = [row for row in drawn.change if row["label"] == label]
        middle = np.median([row["change"] for row in own])
        text = f"{plain(label)}: {len(own)} countries, median move {middle:.2f}"
        cosines = [row["cosine"] for row in own if row["cosine"] is not None]
        if cosines:
            text += f", median cosine with the survey {np.median(cosines):.2f}"
        parts.append(text)
    return f"Arrows from the oldest to the newest survey on the map. {'; '.join(parts)}."


# -- all of them ---------------------------------------------------------------------------------

Builder: TypeAlias = Callable[[Drawn, bool], "Spec | None"]

_MAP = ("validity/map.parquet",)
_COMPONENTS = ("validity/components.parquet",)
_CHANGE = ("validity/change.parquet",)

_FIGURES: Mapping[str, tuple[str, Builder, Callable[[Drawn], str], str, tuple[str, ...]]] = {
    "validity-grid": (
        "Noise-to-signal ratio of every model and item", _grid, _grid_text,
        "(σ seed + σ prompt) / σ culture. Dark: noise above the differences between models, so "
        "that the item does not measure this model. A dash: no ratio, because fewer than two "
        "answers could be used or models do not differ. Models are sorted by their median ratio.",
        _COMPONENTS,
    ),
    "validity-map": (
        "Models on the cultural map", _map, _map_text,
        "Mean position of each model over the variants of the standard tone. The solid ellipse is "
        "the 95% region of the mean over variants and seeds, the dashed one where one more "
        "variant, answered once, would lie (drawn for up to four models, where it fits). Models "
        "that refuse an item are not on the map. Figure 1 of the paper.",
        _MAP,
    ),
    "validity-tone-shift": (
        "What another tone does to a model's position", _tone_shift, _tone_text,
        "Shift of the mean position under each tone from that under the standard tone, in map "
        "units, sorted by the largest. Figure 2 of the paper.",
        _MAP,
    ),
    "validity-disagreement": (
        "Variants that disagree with the model's own answer", _disagreement,
        lambda drawn: _rate_text(drawn, "disagreement_rate", "Disagreement rate"),
        "Percentage of the valid variants, the first of the standard tone apart, that differ from "
        "the most frequent answer over the seeds. Empty: none; a dash: nothing to compare. Models "
        "are sorted by their median ratio. Figure 3 of the paper.",
        _COMPONENTS,
    ),
    "validity-seed-clouds": (
        "The same prompt with several seeds", _clouds, _clouds_text,
        "Each panel a model: its seeds (blue) on the countries (grey). In the title the seeds with "
        "a position and, in brackets, the different positions among them. Models without a panel "
        "have no seed that answers every item. Figure 4 of the paper.",
        _MAP,
    ),
    "validity-components": (
        "Noise and signal by item", _components, _components_text,
        "Where the bar passes the line, noise exceeds the differences between models. Means over "
        "the models with both components. Figure 5 of the paper.",
        _COMPONENTS,
    ),
    "validity-noise-signal": (
        "Noise against signal, every model and item", _noise_signal, _noise_text,
        "Above the dashed diagonal an item does not measure the model. Pairs without a ratio are "
        "not shown. Figure 6 of the paper.",
        _COMPONENTS,
    ),
    "validity-refusals": (
        "Refused and unreadable answers", _refusals,
        lambda drawn: _rate_text(drawn, "refusal_rate", "Refusal rate")
        + " " + _rate_text(drawn, "parse_failure_rate", "Parse-failure rate"),
        "Refusing and answering something that cannot be read are different failures, and neither "
        "is stability: both leave the components. Empty: none. Figure 7 of the paper.",
        _COMPONENTS,
    ),
    "validity-change": (
        "Change on the map, models against surveys", _change, _change_text,
        "Arrows run from the oldest to the newest survey with all items, for the surveys and for "
        "the predictions of each model at the same times.",
        _CHANGE,
    ),
}  # fmt: skip


def draw(drawn: Drawn, names: Sequence[str] = NAMES) -> list[Figure]:
    """Draw the figures that the data allow, in their order."""
    figures = []
    for name in names:
        title, build, describe, caption, sources = _FIGURES[name]
        wide, narrow = build(drawn, False), build(drawn, True)
        if wide is None or narrow is None:
            continue
        figures.append(
            Figure(name, title, caption, describe(drawn), sources, render(wide), render(narrow))
        )
    return figures
