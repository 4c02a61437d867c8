"""Figures that explain the data by examples, each chosen by a rule that its caption states."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import altair as alt

from chronocore.figures.marks import (
    FONT_SIZE,
    SMALL,
    WIDTH,
    Row,
    Spec,
    as_field,
    beside,
    data,
    even_ticks,
    flow,
    key,
    label_lines,
    layers,
    letters,
    line_key,
    lines_axis,
    number_axis,
    stack,
    title,
    wrapped,
)
from chronocore.figures.sheet import Drawing, Sheet
from chronocore.figures.svg import colour
from chronocore.metrics import SHIFTS
from chronocore.tables import number, words
from chronocore.text import plain
from chronocore.tolerance import ATOL

__all__ = [
    "changed_mode",
    "cumulative_curves",
    "example_pair",
    "four_patterns",
    "limited_sensitivity",
    "modal_prompt",
    "pipeline",
    "prompt_example",
]

_LINE = FONT_SIZE + 3.4
_STRONG = ("strong", "very_strong")

#: Modal answers are asked where the two most common options are so far apart (A.5).
_CLEAR = 0.10

#: A prompt with more lines is cut.
_PROMPT_LINES = 44


def _largest(rows: Iterable[Row], measure: Any) -> Row | None:
    """Return the row with the largest measure; of equal ones the first by ``pair_id``."""
    return min(rows, key=lambda row: (-round(measure(row), 12), row["pair_id"]), default=None)


def _paragraph(
    lines: Sequence[str], y: float, *, x: float = 0, role: str = "ink", size: float = FONT_SIZE,
    weight: str = "normal",
) -> list[Row]:  # fmt: skip
    return [
        {"x": x, "y": y + _LINE * (i + 0.5), "text": line, "role": role, "size": size,
         "weight": weight}
        for i, line in enumerate(lines)
    ]  # fmt: skip


def _head(sheet: Sheet, pair: Row, extent: float, lines: int = 3) -> Spec:
    """Return the country and the question above an example."""
    where = f"{sheet.country(pair)}, {pair['year_old']} and {pair['year_new']}"
    question = wrapped(plain(sheet.item(pair)["text"], None), WIDTH, lines=lines)
    rows = _paragraph([where], 0, weight="bold")
    rows += _paragraph(question, _LINE, role="muted")
    return flow(rows, _LINE * (1 + len(question)) + 2, extent=extent)


def _bars(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    width: float,
    extent: float,
    top: float,
    head: str | None = None,
    named: bool = True,
    strong: Sequence[int | None] = (),
) -> Spec:
    """Return bars by option, a series below the other; bold marks option ``strong``."""
    keys = [line_key(i, label) for i, label in enumerate(labels)]
    y = lines_axis(keys, False, extent)
    room = 27
    x = alt.X(
        "x0:Q",
        scale=alt.Scale(domain=[0, top], nice=False, range=[0, width - room]),
        axis=None,
    )
    charts = label_lines(keys, labels, y, extent) if named else []
    height = 8.5
    for index, (role, shares) in enumerate(series):
        offset = (index - (len(series) - 1) / 2) * (height + 0.8)
        best = strong[index] if index < len(strong) else None
        rows = [
            {"row": keys[k], "x0": 0, "x1": 100 * share, "t": f"{100 * share:.1f}",
             "b": k == best}
            for k, share in enumerate(shares)
        ]  # fmt: skip
        charts.append(
            alt.Chart(data(rows))
            .mark_bar(height=height, yOffset=offset, color=colour(role))
            .encode(x=x, x2="x1:Q", y=y)
        )
        for bold in (False, True):
            texts = [row for row in rows if row["b"] == bold]
            if texts:
                charts.append(
                    alt.Chart(data(texts))
                    .mark_text(
                        align="left", dx=3, yOffset=offset, fontSize=SMALL - 0.6,
                        color=colour("ink" if bold else "muted"),
                        fontWeight="bold" if bold else "normal",
                    )
                    .encode(x=as_field(x, "x1"), y=y, text="t:N")
                )  # fmt: skip
    step = alt.Step(len(series) * (height + 0.8) + 6)
    return layers(charts, width, step, None if head is None else title(head))


def _top(*shares: Sequence[float]) -> float:
    return 100 * max(max(row) for row in shares)


def _year_key(pair: Row, extent: float, roles: Sequence[tuple[str, str]]) -> Spec:
    return key([(label, role, "square") for label, role in roles], extent)


# -- figure 1 ------------------------------------------------------------------------------------


def limited_sensitivity(sheet: Sheet) -> Drawing | str:
    """Figure 1: the surveys move, the predictions hardly do."""
    rows = [row for row in sheet.retained(sheet.focus) if row["shift"] != "stable"]
    chosen = _largest(rows, lambda row: row["d_h"] - row["d_m"])
    if chosen is None or chosen["d_h"] - chosen["d_m"] <= ATOL:
        return (
            f"No evaluated shifted pair of {sheet.focused} changes less in the predictions than "
            "in the surveys."
        )
    pair = sheet.pairs[chosen["pair_id"]]
    old, new = (sheet.prediction(pair, pair[year]) for year in ("year_old", "year_new"))
    extent = 96
    width = (WIDTH - extent - 8) / 2
    top = _top(pair["gold_old"], pair["gold_new"], old, new)
    labels = sheet.labels(pair)
    years = f"{pair['year_old']}", f"{pair['year_new']}"
    panels = beside(
        [
            _bars(
                labels, [("reference-mid", pair["gold_old"]), ("reference", pair["gold_new"])],
                width=width, extent=extent, top=top,
                head=f"survey, shift {number(chosen['d_h'], 'W')}",
            ),
            _bars(
                labels, [("model-mid", old), ("model", new)], width=width, extent=extent, top=top,
                head=f"predicted, shift {number(chosen['d_m'], 'W')}", named=False,
            ),
        ],
        8,
    )  # fmt: skip
    legend = _year_key(
        pair, extent,
        [(f"survey {years[0]}", "reference-mid"), (f"survey {years[1]}", "reference"),
         (f"predicted {years[0]}", "model-mid"), (f"predicted {years[1]}", "model")],
    )  # fmt: skip
    return Drawing(
        title="Limited sensitivity to the year: an example",
        caption=(
            f"{sheet.where(pair)}: percentages of answers in the surveys (grey) and as predicted "
            f"by {sheet.focused} (blue), the older year light, the newer year dark. Chosen by "
            "rule: of the evaluated shifted pairs, the one in which the observed shift exceeds "
            "the predicted shift most. It shows what can happen, not how often; see RF2."
            + sheet.one_of
        ),
        description=(
            f"Bars by answer for {sheet.where(pair)}. Human shift {number(chosen['d_h'], 'W')}, "
            f"predicted shift {number(chosen['d_m'], 'W')}."
        ),
        sources=(
            "pairs.parquet: gold_old, gold_new",
            "predictions: probs",
            "scores.parquet: d_h, d_m",
        ),
        spec=stack([_head(sheet, pair, extent), legend, panels], 8),
    )


# -- figure 2 ------------------------------------------------------------------------------------

#: Steps of the build: key of the funnel, words, and what was lost on the way there.
_STEPS = (
    ("rows read", "respondents' rows in the survey files", ()),
    ("valid answers", "valid answers to the chosen questions", ()),
    (
        "time points", "time points: question × country × survey",
        (("cells below", "with too few answers"),),
    ),
    ("questions by country", "question × country", ()),
    (
        "pairs", "temporal pairs",
        (
            ("questions by country with one time point", "with one time point"),
            ("questions by country without the newest wave", "without the newest wave"),
        ),
    ),
)  # fmt: skip


def pipeline(sheet: Sheet) -> Drawing | str:
    """Figure 2: from survey rows to evaluated pairs."""
    manifest = sheet.results.study.manifest()
    funnel: dict[str, int] = manifest.get("funnel", {})
    rows: list[Row] = []
    boxes: list[Row] = []
    said: list[str] = []
    y = 0.0
    box, gap = 21.0, 17.0

    def step(label: str, value: str, role: str = "rest") -> None:
        nonlocal y
        boxes.append({"x": 0, "x2": WIDTH, "y": y, "y2": y + box, "role": role})
        rows.append({"x": 8, "y": y + box / 2, "text": label})
        rows.append(
            {"x": WIDTH - 8, "y": y + box / 2, "text": value, "align": "right", "weight": "bold"}
        )
        said.append(f"{label} {value}")
        y += box

    def arrow(note: str = "") -> None:
        nonlocal y
        rows.append({"x": 16, "y": y + gap / 2, "text": "↓", "role": "muted", "align": "center"})
        if note:
            rows.append({"x": 28, "y": y + gap / 2, "text": note, "role": "muted", "size": SMALL})
        y += gap

    for name, label, losses in _STEPS:
        if name not in funnel:
            continue
        notes = [
            f"{count:,} {what}"
            for start, what in losses
            for known, count in funnel.items()
            if count and (known == start or (start == "cells below" and known.startswith(start)))
        ]
        if said:
            arrow(f"without {', '.join(notes)}" if notes else "")
        step(label, f"{funnel[name]:,}")
    if not said:
        return "The study's manifest has no counts of the build."
    counts = {
        shift: sheet.results.cells.get(("t01", None, None, "all", None, shift)) for shift in SHIFTS
    }
    total = sum((cell.estimate or 0) for cell in counts.values() if cell) or 1
    y += 4
    x = 0.0
    roles = ("tied", "newer", "model-mid", "model")
    bottom = []
    for (shift, cell), role in zip(counts.items(), roles, strict=True):
        held = (cell.estimate or 0) if cell else 0
        wide = WIDTH * held / total
        if held:
            boxes.append({"x": x, "x2": x + max(wide - 1, 1), "y": y, "y2": y + 11, "role": role})
        x += wide
        bottom.append(f"{words(shift)} {held:,.0f}")
    y += 11
    rows += _paragraph([" · ".join(bottom)], y + 1, role="muted", size=SMALL)
    said += bottom
    y += _LINE + 2
    kinds = manifest.get("prompts_by_kind", {})
    if kinds:
        arrow()
        asked = {"dated": "with a year", "undated": "without", "modal": "for one answer"}
        step(
            "prompts",
            ", ".join(f"{kinds[k]:,} {asked[k]}" for k in ("dated", "undated") if k in kinds),
        )
    arrow("pairs with three valid answers → kept by the knowledge filter")
    for run in sheet.models:
        kept = f"{run.n_complete:,} → {run.n_retained:,}"
        if run.engine == "reference":
            kept = f"{run.n_complete:,}, no filter"
        step(sheet.name(run, 36), kept, "grid")
        y += 2
    return Drawing(
        title="From survey rows to evaluated pairs",
        caption=(
            "Counts of this study at every step: what was read, what the rules kept, and the "
            "pairs by class of human shift; below, for every run, the pairs with valid answers "
            "for both years and without a year, and those its knowledge filter keeps."
            + sheet.left_out
        ),
        description=f"Steps with counts: {'; '.join(said)}.",
        sources=(
            "manifest.json: funnel, prompts_by_kind",
            "tables/t01: estimate",
            "scores.json: n_complete, n_retained",
        ),
        spec=flow(rows, y + 2, boxes),
    )


# -- figures 3, 9 and 10: prompts ----------------------------------------------------------------


def _example(sheet: Sheet) -> Row | None:
    return _largest(sheet.pairs.values(), lambda row: row["d_h"])


_EXAMPLE_RULE = "Chosen by rule: the pair with the largest human shift of the benchmark."


def _prompt(sheet: Sheet, pair: Row, kind: str, year: int | None) -> Row | None:
    for row in sheet.prompts:
        if (
            row["kind"] == kind
            and row["year"] == year
            and (row["survey"], row["variable"], row["country"])
            == (pair["survey"], pair["variable"], pair["country"])
        ):
            return row
    return None


def _card(lines: Sequence[tuple[str, str]], y: float) -> tuple[list[Row], list[Row], float]:
    """Return text and box of a prompt: (text, colour role of the line's box) of every line."""
    size = SMALL + 0.4
    step = size + 3
    rows: list[Row] = []
    boxes: list[Row] = []
    shown: list[tuple[str, str]] = []
    for text, role in lines:
        parts = wrapped(plain(text, None), WIDTH - 16, size) if text.strip() else [""]
        shown += [(part, role) for part in parts]
    if len(shown) > _PROMPT_LINES:
        shown = [*shown[:_PROMPT_LINES], ("…", "")]
    height = step * len(shown) + 10
    boxes.append({"x": 0, "x2": WIDTH, "y": y, "y2": y + height, "role": "rest"})
    for i, (text, role) in enumerate(shown):
        at = y + 5 + step * (i + 0.5)
        if role:
            boxes.append(
                {"x": 3, "x2": WIDTH - 3, "y": at - step / 2, "y2": at + step / 2, "role": role}
            )
        rows.append(
            {"x": 8, "y": at, "text": text, "size": size,
             "role": {"model": "on-strong", "newer": "on-pale"}.get(role, "ink")}
        )  # fmt: skip
    return rows, boxes, y + height


def example_pair(sheet: Sheet) -> Drawing | str:
    """Figure 3: a pair, its two prompts and its two distributions."""
    pair = _example(sheet)
    if pair is None:
        return "The benchmark has no pair."
    old = _prompt(sheet, pair, "dated", pair["year_old"])
    new = _prompt(sheet, pair, "dated", pair["year_new"])
    if old is None or new is None:
        return "The study has no dated prompts."
    first, second = old["user"].splitlines(), new["user"].splitlines()
    lines: list[tuple[str, str]] = []
    matcher = difflib.SequenceMatcher(a=first, b=second, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            lines += [(line, "") for line in first[a:b]]
        else:
            lines += [(line, "newer") for line in first[a:b]]
            lines += [(line, "model") for line in second[c:d]]
    rows, boxes, height = _card(lines, 0)
    extent = 120
    panel = _bars(
        sheet.labels(pair), [("newer", pair["gold_old"]), ("model", pair["gold_new"])],
        width=WIDTH - extent, extent=extent, top=_top(pair["gold_old"], pair["gold_new"]),
        head=f"surveys, shift {number(pair['d_h'], 'W')} ({words(pair['shift'])})",
    )  # fmt: skip
    legend = key(
        [(f"{pair['year_old']} (older)", "newer", "square"),
         (f"{pair['year_new']} (newer)", "model", "square")], extent,
    )  # fmt: skip
    return Drawing(
        title="A temporal pair: two prompts and two surveys",
        caption=(
            f"{sheet.where(pair)}. Above, the prompts: all lines are the same but those with the "
            "year, shown for the older (pale) and the newer year (dark). Below, the answers of "
            f"the two surveys in percent. {_EXAMPLE_RULE}"
        ),
        description=(
            f"The prompt text of {sheet.where(pair)}, and bars of the two surveys, "
            f"{number(pair['d_h'], 'W')} apart."
        ),
        sources=("prompts.parquet: user", "pairs.parquet: gold_old, gold_new, d_h"),
        spec=stack([flow(rows, height, boxes, extent=extent), legend, panel], 10),
    )


def _prompt_card(system: str, user: str) -> tuple[list[Row], list[Row], float]:
    rows = _paragraph(["system"], 0, role="muted", size=SMALL, weight="bold")
    more, boxes, y = _card([(system, "")], _LINE)
    rows += more
    rows += _paragraph(["user"], y + 4, role="muted", size=SMALL, weight="bold")
    more, own, y = _card([(line, "") for line in user.splitlines()], y + 4 + _LINE)
    return [*rows, *more], [*boxes, *own], y


def prompt_example(sheet: Sheet) -> Drawing | str:
    """Figure 9: the prompt for a distribution."""
    pair = _example(sheet)
    prompt = _prompt(sheet, pair, "dated", pair["year_old"]) if pair else None
    if pair is None or prompt is None:
        return "The study has no dated prompts."
    rows, boxes, height = _prompt_card(prompt["system"], prompt["user"])
    return Drawing(
        title="The prompt for a distribution",
        caption=(
            f"System and user message for {sheet.country(pair)}, {pair['survey']} "
            f"{pair['variable']}, {pair['year_old']}. The newer prompt is the same but for the "
            f"year, {pair['year_new']}; the undated one has no year. {_EXAMPLE_RULE}"
        ),
        description="Text of a prompt: "
        f"{plain(prompt['system'], None)} {plain(prompt['user'], None)}",
        sources=("prompts.parquet: system, user",),
        spec=flow(rows, height, boxes),
    )


def _gap(shares: Sequence[float]) -> float:
    first, second, *_ = sorted(shares, reverse=True)
    return first - second


def modal_prompt(sheet: Sheet) -> Drawing | str:
    """Figure 10: the prompt for one answer."""
    eligible = [
        pair
        for pair in sheet.pairs.values()
        if pair["shift"] in _STRONG
        and pair["mode_old"] != pair["mode_new"]
        and min(_gap(pair["gold_old"]), _gap(pair["gold_new"])) >= _CLEAR - ATOL
    ]
    pair = _largest(eligible, lambda row: row["d_h"])
    if pair is None:
        return (
            "No pair with a strong or very strong shift has two different modes, each ten points "
            "ahead of the next option."
        )
    prompt = _prompt(sheet, pair, "modal", pair["year_old"])
    if prompt is None:
        return "The study has no prompts for one answer."
    rows, boxes, y = _prompt_card(prompt["system"], prompt["user"])
    options = {option["code"]: plain(option["label"]) for option in sheet.item(pair)["options"]}
    shown = []
    for year, mode, shares in (
        (pair["year_old"], pair["mode_old"], pair["gold_old"]),
        (pair["year_new"], pair["mode_new"], pair["gold_new"]),
    ):
        text = f"label {year}: {mode}"
        if options[mode] != str(mode):
            text += f" {options[mode]}"
        shown.append(f"{plain(text, 48)} ({100 * max(shares):.1f}% of answers)")
    rows += _paragraph(shown, y + 5, weight="bold")
    return Drawing(
        title="The prompt for one answer",
        caption=(
            f"System and user message for {sheet.country(pair)}, {pair['survey']} "
            f"{pair['variable']}, {pair['year_old']}, and the labels of both years: the most "
            "common answer. Chosen by rule: the largest human shift among pairs with a strong or "
            "very strong shift whose most common answer changes and is ten points ahead in both "
            "years."
        ),
        description=f"Text of a prompt: {plain(prompt['user'], None)} Labels: {'; '.join(shown)}.",
        sources=("prompts.parquet: system, user", "pairs.parquet: mode_old, mode_new, gold"),
        spec=flow(rows, y + 5 + _LINE * len(shown) + 2, boxes),
    )


# -- figure 4 ------------------------------------------------------------------------------------


def _position(sheet: Sheet, pair: Row, code: int) -> int:
    return [option["code"] for option in sheet.item(pair)["options"]].index(code)


def changed_mode(sheet: Sheet) -> Drawing | str:
    """Figure 4: the most common answer misrepresents change."""
    clear = [
        pair
        for pair in sheet.pairs.values()
        if not pair["mode_tied_old"] and not pair["mode_tied_new"]
    ]
    kept = _largest(
        (p for p in clear if p["mode_old"] == p["mode_new"] and p["shift"] != "stable"),
        lambda row: row["d_h"],
    )
    moved = _largest(
        (p for p in clear if p["mode_old"] != p["mode_new"] and p["shift"] == "stable"),
        lambda row: -row["d_h"],
    )
    if kept is None and moved is None:
        return "No shifted pair keeps its most common answer, and no stable pair changes it."
    extent = 120
    panels: list[Spec] = []
    said: list[str] = []
    for pair, what in ((kept, "large shift, same mode"), (moved, "hardly a shift, other mode")):
        if pair is None:
            continue
        letter = letters(len(said))
        rows = _paragraph(
            [f"{letter} {what}: human shift {number(pair['d_h'], 'W')}"], 0, weight="bold"
        )
        where = f"{sheet.country(pair)}, {pair['year_old']} and {pair['year_new']}"
        question = wrapped(
            f"{where}: {sheet.short[pair['survey'], pair['variable']]}", WIDTH, lines=3
        )
        rows += _paragraph(question, _LINE, role="muted")
        panels.append(flow(rows, _LINE * (1 + len(question)), extent=extent))
        strong = [_position(sheet, pair, pair[m]) for m in ("mode_old", "mode_new")]
        panels.append(
            _bars(
                sheet.labels(pair), [("newer", pair["gold_old"]), ("model", pair["gold_new"])],
                width=WIDTH - extent, extent=extent, strong=strong,
                top=_top(pair["gold_old"], pair["gold_new"]),
            )
        )  # fmt: skip
        said.append(f"{letter} {sheet.where(pair)}")
    missing = ""
    if kept is None:
        missing = " No shifted pair keeps its mode."
    elif moved is None:
        missing = " No stable pair changes its mode."
    legend = key([("older year", "newer", "square"), ("newer year", "model", "square")], extent)
    return Drawing(
        title="The most common answer can misrepresent change",
        caption=(
            f"{'; '.join(said)}. Percentages of survey answers; bold marks the mode. Chosen by "
            "rule: the largest human shift among shifted pairs that keep their mode, and the "
            "smallest among stable pairs that change it; ties for the mode excluded." + missing
        ),
        description=(
            f"Bars by answer of two pairs: {'; '.join(said)}. A scoring by the most common answer "
            "would miss the first change and overstate the second."
        ),
        sources=("pairs.parquet: gold_old, gold_new, mode_old, mode_new, d_h",),
        spec=stack([legend, *panels], 8),
    )


# -- figure 16 -----------------------------------------------------------------------------------

#: A predicted shift below this part of the observed one has no direction worth showing.
_TENTH = 0.1

_PATTERNS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("same direction, too small", lambda r: r["cosine"] is not None and r["cosine"] > 0
     and _TENTH * r["d_h"] <= r["d_m"] < r["d_h"]),
    ("no change predicted", lambda r: r["d_m"] <= ATOL),
    ("opposite direction", lambda r: r["cosine"] is not None and r["cosine"] < 0
     and r["d_m"] >= _TENTH * r["d_h"]),
    ("same direction, too large", lambda r: r["cosine"] is not None and r["cosine"] > 0
     and r["d_m"] > r["d_h"]),
)  # fmt: skip


def _mean(item: Row, shares: Sequence[float]) -> float:
    mean: float = sum(o["position"] * p for o, p in zip(item["options"], shares, strict=True))
    return mean


def four_patterns(sheet: Sheet) -> Drawing | str:
    """Figure 16: mean answers, observed and predicted, in four patterns."""
    by_item: dict[tuple[str, str], list[Row]] = {}
    for row in sheet.retained(sheet.focus):
        if row["shift"] != "stable":
            by_item.setdefault((row["survey"], row["variable"]), []).append(row)

    def held(rows: list[Row]) -> list[Row | None]:
        return [
            _largest((r for r in rows if test(r)), lambda row: row["d_h"]) for _, test in _PATTERNS
        ]

    ranked = sorted(
        by_item.items(),
        key=lambda entry: (-sum(r is not None for r in held(entry[1])), -len(entry[1]), entry[0]),
    )
    if not ranked:
        return f"{sheet.focused} has no evaluated shifted pair."
    where, rows = ranked[0]
    item = sheet.items[where]
    chosen = [
        (name, sheet.pairs[row["pair_id"]], row)
        for (name, _), row in zip(_PATTERNS, held(rows), strict=True)
        if row is not None
    ]
    if not chosen:
        return f"No evaluated shifted pair of {sheet.focused} shows one of the four patterns."
    positions = [option["position"] for option in item["options"]]
    arrows: list[Row] = []
    texts: list[Row] = []
    step = 54.0
    means = []
    for index, (name, pair, _) in enumerate(chosen):
        at = index * step
        texts.append({"y": at + 7, "t": f"{sheet.country(pair, 24)}: {name}"})
        old, new = (sheet.prediction(pair, pair[year]) for year in ("year_old", "year_new"))
        observed, predicted = (pair["gold_old"], pair["gold_new"]), (old, new)
        for line, (role, shares) in enumerate((("reference", observed), ("model", predicted))):
            start, end = _mean(item, shares[0]), _mean(item, shares[1])
            means += [start, end]
            arrows.append({"y": at + 21 + 13 * line, "a": start, "b": end, "c": colour(role)})
    low, high = min(means), max(means)
    pad = max(0.12 * (high - low), 0.04 * (positions[-1] - positions[0]))
    low, high = max(low - pad, positions[0]), min(high + pad, positions[-1])
    extent = 0
    width = WIDTH - 14
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    x = alt.X(
        "a:Q", scale=scale,
        axis=number_axis(
            even_ticks(low, high, 6), heading="mean answer on the question's own scale",
            grid=True, flush=True,
        ),
    )  # fmt: skip
    height = step * len(chosen)
    y_scale = alt.Scale(domain=[height, 0], nice=False, zero=False)
    y = alt.Y("y:Q", scale=y_scale, axis=None)
    heads = []
    reach = (high - low) / width
    for row in arrows:
        change = row["b"] - row["a"]
        if abs(change) > 4 * reach:
            heads.append({**row, "angle": 90 if change > 0 else 270})
    still = [row for row in arrows if abs(row["b"] - row["a"]) <= 4 * reach]
    own = alt.Color("c:N", scale=None)
    charts = [
        alt.Chart(data([{"a": low, **row} for row in texts]))
        .mark_text(align="left", fontWeight="bold", color=colour("ink"))
        .encode(x=x, y=y, text="t:N"),
        alt.Chart(data(arrows)).mark_rule(strokeWidth=2).encode(x=x, x2="b:Q", y=y, color=own),
        alt.Chart(data(arrows))
        .mark_point(filled=True, size=22, opacity=1)
        .encode(x=x, y=y, color=own),
    ]
    for angle in (90, 270):
        members = [row for row in heads if row["angle"] == angle]
        if members:
            charts.append(
                alt.Chart(data(members))
                .mark_point(shape="triangle-up", filled=True, size=58, opacity=1, angle=angle)
                .encode(x=as_field(x, "b"), y=y, color=own)
            )
    if still:
        charts.append(
            alt.Chart(data(still))
            .mark_point(filled=False, size=74, opacity=1, strokeWidth=1.3)
            .encode(x=x, y=y, color=own)
        )
    legend = key([("survey", "reference", "circle"), ("predicted", "model", "circle")], extent)
    question = wrapped(plain(item["text"], None), WIDTH, lines=3)
    head = flow(
        _paragraph([f"{where[0]} {where[1]}"], 0, weight="bold")
        + _paragraph(question, _LINE, role="muted"),
        _LINE * (1 + len(question)) + 2,
    )
    lacking = len(_PATTERNS) - len(chosen)
    note = f" {lacking} of the four patterns do not occur there." if lacking else ""
    listed = "; ".join(f"{sheet.where(pair)}: {name}" for name, pair, _ in chosen)
    return Drawing(
        title="Patterns of predicted change",
        caption=(
            f"Mean answers from the older to the newer year in the surveys (grey) and as predicted "
            f"by {sheet.focused} (blue); a ring marks no or hardly any change. {listed}. "
            "Chosen by rule: the question with the most of the four patterns among evaluated "
            "shifted pairs (then the most pairs), and for each "
            "pattern its largest human shift; a direction counts where the predicted shift is at "
            f"least a tenth of the observed one.{note} Means simplify: direction is judged on "
            f"whole distributions.{sheet.one_of}"
        ),
        description=(
            "Arrows of mean answers, survey above prediction: "
            + "; ".join(f"{sheet.country(pair)}, {name}" for name, pair, _ in chosen)
            + "."
        ),
        sources=(
            "pairs.parquet: gold_old, gold_new",
            "predictions: probs",
            "scores.parquet: cosine, d_h, d_m",
        ),
        spec=stack([head, legend, layers(charts, width, height)], 8),
    )


# -- figure 17 -----------------------------------------------------------------------------------


def cumulative_curves(sheet: Sheet) -> Drawing | str:
    """Figure 17: cumulative curves where the predictions change least."""
    rows = [row for row in sheet.retained(sheet.focus) if row["shift"] in _STRONG]
    rows.sort(key=lambda row: (-round(row["d_h"] - row["d_m"], 12), row["pair_id"]))
    chosen: list[Row] = []
    for row in rows:
        if len(chosen) == 4 or row["d_h"] - row["d_m"] <= ATOL:
            break
        if row["country"] not in {other["country"] for other in chosen}:
            chosen.append(row)
    if not chosen:
        return (
            f"No evaluated pair of {sheet.focused} with a strong or very strong shift changes "
            "less in the predictions than in the surveys."
        )
    extent = 30
    width = (WIDTH - 2 * extent - 18) / 2
    panels = []
    for index, row in enumerate(chosen):
        pair = sheet.pairs[row["pair_id"]]
        positions = [option["position"] for option in sheet.item(pair)["options"]]
        curves = []
        for name, shares, role, dash in (
            ("a", pair["gold_old"], "reference-mid", [1, 0]),
            ("b", pair["gold_new"], "reference", [1, 0]),
            ("c", sheet.prediction(pair, pair["year_old"]), "model-mid", [4, 2]),
            ("d", sheet.prediction(pair, pair["year_new"]), "model", [4, 2]),
        ):
            total = 0.0
            for at, share in zip(positions, shares, strict=True):
                total += share
                curves.append({"x": at, "y": 100 * total, "k": name, "c": colour(role), "d": dash})
        x = alt.X(
            "x:Q",
            scale=alt.Scale(domain=[positions[0], positions[-1]], nice=False, zero=False),
            axis=number_axis(
                positions if len(positions) <= 6 else [positions[0], positions[-1]], flush=True
            ),
        )  # fmt: skip
        y = alt.Y(
            "y:Q",
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=number_axis(
                [0, 50, 100], grid=True, extent=extent, unit="%"
            ),
        )  # fmt: skip
        charts = []
        for name in "abcd":
            members = [c for c in curves if c["k"] == name]
            charts.append(
                alt.Chart(data([{k: c[k] for k in ("x", "y")} for c in members]))
                .mark_line(
                    strokeWidth=2, color=members[0]["c"], strokeDash=members[0]["d"],
                    interpolate="step-after",
                )
                .encode(x=x, y=y)
            )  # fmt: skip
        head = [
            f"{letters(index)} {sheet.country(pair)}",
            f"{pair['year_old']}–{pair['year_new']}, {pair['survey']} {plain(pair['variable'])}",
            f"observed {number(row['d_h'], 'W')}",
            f"predicted {number(row['d_m'], 'W')} ({100 * row['d_m'] / row['d_h']:.0f}%)",
        ]
        short = [wrapped(line, width, SMALL, lines=1)[0] for line in head]
        panels.append(layers(charts, width, 78, title(*short, small=True)))
    legend = key(
        [("survey, older", "reference-mid", "M-1.5,-.25L1.5,-.25L1.5,.25L-1.5,.25Z"),
         ("survey, newer", "reference", "M-1.5,-.25L1.5,-.25L1.5,.25L-1.5,.25Z"),
         ("predicted, older (dashed)", "model-mid", "M-1.5,-.25L-.3,-.25L-.3,.25L-1.5,.25Z"
          "M.3,-.25L1.5,-.25L1.5,.25L.3,.25Z"),
         ("newer (dashed)", "model", "M-1.5,-.25L-.3,-.25L-.3,.25L-1.5,.25Z"
          "M.3,-.25L1.5,-.25L1.5,.25L.3,.25Z")], extent,
    )  # fmt: skip
    lines: list[Spec] = [legend]
    for start in range(0, len(panels), 2):
        lines.append(beside(panels[start : start + 2], 14 + extent))
    questions = "; ".join(
        f"{letters(i)} {sheet.short[row['survey'], row['variable']]}"
        for i, row in enumerate(chosen)
    )
    return Drawing(
        title="Where the predictions change least",
        caption=(
            "Cumulative percentages of answers along the scale, surveys (solid) and predictions "
            f"of {sheet.focused} (dashed); where the two dashed lines coincide only the newer one "
            f"shows. Questions: {questions}. Chosen by rule: of evaluated pairs with a strong or "
            "very strong shift, those in which the observed shift exceeds the predicted one most, "
            f"one a country.{sheet.one_of}"
        ),
        description="; ".join(
            f"{sheet.where(sheet.pairs[row['pair_id']])}: observed {number(row['d_h'], 'W')}, "
            f"predicted {number(row['d_m'], 'W')}"
            for row in chosen
        )
        + ".",
        sources=(
            "pairs.parquet: gold_old, gold_new",
            "predictions: probs",
            "scores.parquet: d_h, d_m",
        ),
        spec=stack(lines, 12),
    )
