"""How tables look on a page, on a terminal and in files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chronocore.config import CLUSTERS
from chronocore.errors import ConfigurationError
from chronocore.markup import csv_text, latex_text, markdown_name, markdown_text
from chronocore.metrics import BOUNDARIES
from chronocore.tables.cells import POOLED, SMALL_N, TableSpec
from chronocore.tables.registry import TABLES
from chronocore.text import plain

__all__ = [
    "FORMATS",
    "REMARKS_METADATA",
    "SETTINGS_METADATA",
    "WideTable",
    "few_legend",
    "few_units",
    "format_table",
    "gold_error_words",
    "number",
    "page",
    "pooled",
    "remarks",
    "render",
    "settings_line",
    "too_few_resamples",
    "wide",
    "words",
]

FORMATS = ("md", "csv", "latex", "json")

#: Key of the Parquet metadata under which a table carries the settings it was made with.
SETTINGS_METADATA = b"chronocore.settings"
#: Key under which it carries what is to be said below it, as a list.
REMARKS_METADATA = b"chronocore.remarks"


def percentage(level: float) -> str:
    """Return a level below 1 in percent, with so many digits that it does not read as 100.

    Examples
    --------
    >>> percentage(0.95), percentage(0.9999999999999999)
    ('95', '99.99999999999999')
    """
    shown = (f"{100 * level:.{digits}g}" for digits in range(6, 18))
    return next((text for text in shown if float(text) < 100), "almost 100")


def too_few_resamples(resamples: int, confidence_level: float) -> str | None:
    """Return a sentence where intervals have fewer resamples than their level needs, else None.

    A percentile end of level c cuts off (1 - c) / 2 of the resamples on its side; with fewer than
    2 / (1 - c) of them that is less than one resample.

    Examples
    --------
    >>> too_few_resamples(10, 0.95)
    '10 resamples are too few for 95% intervals, which need at least 40: their ends mean nothing'
    >>> too_few_resamples(40, 0.95)
    """
    needed = math.ceil(2 / (1 - confidence_level) - 1e-6)
    if resamples >= needed:
        return None
    few = f"{resamples:,} resample{' is' if resamples == 1 else 's are'} too few"
    return (
        f"{few} for {percentage(confidence_level)}% intervals, which need at least {needed:,}: "
        "their ends mean nothing"
    )


def gold_error_words(gold_error: Any, sizes: str | None) -> str:
    """Return in words that intervals carry gold error, and by which effective sizes; or nothing.

    Examples
    --------
    >>> gold_error_words(True, "by weights")
    ", with the surveys' own sampling error (effective sizes by weights)"
    """
    if not gold_error:
        return ""
    basis = f" (effective sizes {sizes})" if sizes else ""
    return f", with the surveys' own sampling error{basis}"


def settings_line(settings: Mapping[str, Any], *, intervals: bool = True) -> str:
    """Return the settings of tables in one sentence, with or without those of intervals.

    Examples
    --------
    >>> settings_line(
    ...     {"tau": 0.1, "retain": 0.75, "boundaries": "default", "resamples": 1000,
    ...      "confidence_level": 0.95, "seed": 0}
    ... )
    'Tolerance 0.1; 75% of pairs retained; shift boundaries 0.03, 0.1, 0.2; 95% bootstrap \
intervals from 1,000 resamples, seed 0.'
    """
    boundaries = settings["boundaries"]
    values = BOUNDARIES[boundaries] if isinstance(boundaries, str) else boundaries
    cluster = settings.get("cluster", "pair")
    gold = gold_error_words(settings.get("gold_error"), settings.get("effective_sizes"))
    thresholds = (
        f"Tolerance {settings['tau']:g}; {settings['retain'] * 100:g}% of pairs retained; "
        f"shift boundaries {', '.join(f'{value:g}' for value in values)}"
    )
    if not intervals:
        return f"{thresholds}."
    few = too_few_resamples(settings["resamples"], settings["confidence_level"])
    return (
        f"{thresholds}; {percentage(settings['confidence_level'])}% bootstrap intervals from "
        f"{settings['resamples']:,} resamples{CLUSTERS[cluster]}, seed {settings['seed']}{gold}."
    ) + (f" Caution: {few}." if few else "")


# -- rendering ---------------------------------------------------------------------------------

_WORDS = {
    "very_strong": "very strong",
    "all_shifted": "all shifted",
    "older_only": "older only",
    "newer_only": "newer only",
    "older_aligned": "older-aligned",
    "newer_aligned": "newer-aligned",
    "zero_shift": "zero shift",
    "median_ratio": "median ratio",
    "median_cosine": "median cosine",
    "right_direction": "right direction",
    "nonzero_shift": "nonzero shift",
    "all_pairs": "all pairs",
    "small_drift": "small drift",
    "large_drift": "large drift",
    "three_or_more": "three or more",
    "equal_choice": "equal choice",
    "mean_benefit": "mean benefit",
    "undated_both": "undated for both",
    "median_nearest_distance": "median distance",
    "same_period": "same period",
    "one_period": "one period",
    "strong_plus": "strong+",
    "both_by_country": "both, by country",
    "benefit_older": "benefit, older",
    "benefit_newer": "benefit, newer",
    "newest_default": "newest default",
    "mean_shift": "mean shift",
    "mean_distance": "mean distance",
    "mode_kept": "mode kept",
    "mode_changed": "mode changed",
    "stable_up_to": "stable up to",
    "strong_from": "strong from",
    "very_strong_from": "very strong from",
    "first_year": "first year",
    "last_year": "last year",
    "largest_question": "largest question",
    "identical_years": "identical years",
    "topic_broad": "broad topic",
    "both_correct": "both correct",
    "newer_correct_half_missed": "newer correct, half missed",
    "p95": "95th percentile",
    "above_p95": "shift above it",
    "expected_shift": "expected shift",
    "excess_shift": "excess shift",
    "detected": "told from noise",
    "hundred_adults": "hundred adults",
}

#: Measures about a whole table: said below it, for they belong to none of its lines.
_WHOLE = ("comparisons", "critical_value")

#: Units that a heading need not name.
_PLAIN = ("pairs", "count", "year", "ratio", "cosine", "d_h", "concordance")


def words(key: str | None) -> str:
    """Return a key as a person reads it."""
    return "" if key is None else _WORDS.get(key, key)


def _index(spec: TableSpec, dimensions: list[str], key: tuple[Any, ...]) -> list[str]:
    """Return what tells a line apart as a person reads it; names of runs stay as they are."""
    return [
        plain(part or "") if name in spec.names else plain(words(part))
        for name, part in zip(dimensions, key, strict=True)
    ]


_DIGITS = {"%": 1, "pp": 1, "year": 0, "W": 3, "d_h": 3}


def number(
    value: float | None, unit: str, digits: int | None = None, *, thousands: bool = True
) -> str:
    """Return a number with the digits its unit deserves; a missing one is a dash.

    ``thousands`` sets counts apart by thousands, as the paper does.
    """
    if value is None:
        return "–"
    counts = unit in ("pairs", "count")
    if digits is None:
        digits = 0 if counts else _DIGITS.get(unit, 2)
    text = f"{value:,.{digits}f}" if counts and thousands else f"{value:.{digits}f}"
    if text[0] != "-":
        return text
    return text[1:] if not text.strip("-0.") else f"−{text[1:]}"


@dataclass(frozen=True, slots=True)
class WideTable:
    """A table as a person reads it: one row a group, one column a measure.

    ``cells`` hold (estimate, interval, n) as text; the interval is empty where there is none.
    ``caption`` says how to read the table and with which settings it was made; ``over`` is the
    outer heading of each measure where the page has two rows of headings.
    """

    spec: TableSpec
    header: list[str]
    index: list[list[str]]
    measures: list[str]
    cells: list[list[tuple[str, str, str]]]
    caption: str
    over: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether no cell has an interval or few pairs, so that n need not be shown."""
        return all(not c[1] and not c[2].endswith("*") for line in self.cells for c in line)


def remarks(table: pa.Table) -> list[str]:
    """Return what is to be said of a whole table: by its rows about it, and of its runs."""
    kept = (table.schema.metadata or {}).get(REMARKS_METADATA)
    of_runs: list[str] = [] if kept is None else json.loads(kept)
    rows = table.filter(pc.is_in(table["measure"], value_set=pa.array(_WHOLE))).to_pylist()
    said = {row["measure"]: row["estimate"] for row in rows}
    if "comparisons" not in said:
        return of_runs
    text = f"{said['comparisons']:,.0f} comparisons"
    if said.get("critical_value") is not None:
        text += f"; the intervals reach {said['critical_value']:.2f} standard errors to either side"
    return [f"{text}.", *of_runs]


def _laid_out(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows that are cells of a layout."""
    return [row for row in table.to_pylist() if row["measure"] not in _WHOLE]


def _filled(
    spec: TableSpec, grid: dict[tuple[Any, ...], dict[Any, tuple[str, str, str]]]
) -> tuple[dict[tuple[Any, ...], dict[Any, tuple[str, str, str]]], list[str]]:
    """Leave out the blank lines of a breakdown, which say nothing, and say so."""
    if spec.finding != "breakdowns":
        return grid, []
    filled = {key: line for key, line in grid.items() if any(c[0] != "–" for c in line.values())}
    if not filled:
        return filled, ["Every line is blank."]
    return filled, ["Blank lines are left out."] if len(filled) < len(grid) else []


def _page_caption(spec: TableSpec, table: pa.Table, rows: list[dict[str, Any]]) -> str:
    parts = [spec.note, *remarks(table)]
    if any(_mark(row) and row["estimate"] is not None for row in rows):
        parts.append(few_legend(rows))
    used = (table.schema.metadata or {}).get(SETTINGS_METADATA)
    if used is not None and any(row["low"] is not None for row in rows):
        parts.append(settings_line(json.loads(used), intervals=False))
    return " ".join(parts)


def _caption(spec: TableSpec, table: pa.Table, rows: list[dict[str, Any]]) -> str:
    parts = [spec.note, *remarks(table)]
    intervals = [row for row in rows if row["low"] is not None]
    if any(_mark(row) for row in rows if row["estimate"] is not None):
        parts.append(few_legend(rows))
    if any(row["low"] == row["high"] and row["unit"] in ("%", "pp") for row in intervals):
        parts.append(
            "An interval without width: all pairs of the cell agree, which resampling cannot vary."
        )
    parts += _about_exact(intervals)
    used = (table.schema.metadata or {}).get(SETTINGS_METADATA)
    if used is not None and intervals:
        parts.append(settings_line(json.loads(used)))
    return " ".join(parts)


def _about_exact(rows: list[dict[str, Any]]) -> list[str]:
    """Return what exact intervals are, and why shares without width have none."""
    said = []
    if any(row["exact_low"] is not None for row in rows):
        said.append("Exact: the Clopper-Pearson interval of a share of independent pairs.")
    bare = [
        row
        for row in rows
        if row["unit"] == "%" and row["low"] == row["high"] and row["exact_low"] is None
    ]
    if any(row["clusters"] is not None for row in bare):
        said.append("There is no exact interval where whole clusters are resampled.")
    if any(row["clusters"] is None for row in bare):
        said.append("There is no exact interval of weighted shares and of shared credit.")
    return said


def _heading(measure: str, unit: str) -> str:
    head = words(measure) + ("" if unit in _PLAIN else f" ({unit})")
    return head.replace("W x 100", "W × 100")


def _shown(spec: TableSpec, rows: list[dict[str, Any]], across: tuple[str, ...]) -> list[str]:
    """Return the columns that tell the lines of a layout apart."""
    dimensions = [
        name
        for name in spec.lines
        if name not in across and any(row[name] is not None for row in rows)
    ]
    if {row["prediction"] for row in rows} <= {"model", None}:
        dimensions = [name for name in dimensions if name != "prediction"]
    for name in ("survey", "group"):
        if len({row[name] for row in rows}) == 1 and len(dimensions) > 1:
            dimensions = [dimension for dimension in dimensions if dimension != name]
    return dimensions


def pooled(name: str, table: pa.Table) -> pa.Table:
    """Return the rows over all surveys together; all of a table that is about surveys."""
    if TABLES[name].by_survey:
        return table
    survey = table["survey"]
    return table.filter(pc.fill_null(pc.equal(survey, POOLED), True))


def _index_heads(spec: TableSpec) -> dict[str, str]:
    return {
        "label": "run" if "label" in spec.names else "over models",
        "prediction": "prediction",
        "survey": "survey",
        "group": spec.group,
        "item": spec.item,
    }


def _mark(row: dict[str, Any]) -> str:
    # Rows over models have a label and no run; their n counts models.
    over_models = row["run_id"] is None and row["label"] is not None
    counted = over_models or row["unit"] in ("pairs", "count", "year", "d_h", "concordance")
    return "*" if not counted and few_units(row["n"], row["clusters"]) else ""


def few_units(n: int, clusters: int | None) -> bool:
    """Return whether a cell rests on fewer than 20 pairs, or on fewer than 20 clusters."""
    return 0 < n < SMALL_N or (clusters is not None and 0 < clusters < SMALL_N)


def few_legend(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the star of cells means."""
    clustered = any(row["clusters"] is not None for row in rows)
    return f"* fewer than {SMALL_N} pairs{' or clusters' if clustered else ''}."


def _interval(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return ""
    text = f"[{number(row['low'], row['unit'])}, {number(row['high'], row['unit'])}]"
    if row["exact_low"] is None:
        return text
    exact = f"[{number(row['exact_low'], row['unit'])}, {number(row['exact_high'], row['unit'])}]"
    return f"{text} exact {exact}"


def wide(name: str, table: pa.Table, *, thousands: bool = True) -> WideTable:
    """Lay a tidy table out with a line a group and a column a measure, with interval and n.

    ``thousands`` sets counts apart by thousands.
    """
    spec = TABLES[name]
    rows = _laid_out(table)
    dimensions = _shown(spec, rows, ())
    heads = _index_heads(spec)
    measures: dict[str, str] = {}
    grid: dict[tuple[Any, ...], dict[str, tuple[str, str, str]]] = {}
    for row in rows:
        measures.setdefault(row["measure"], _heading(row["measure"], row["unit"]))
        key = tuple(row[d] for d in dimensions)
        n = number(row["n"], "count", thousands=thousands)
        estimate = number(row["estimate"], row["unit"], thousands=thousands)
        cell = (estimate, _interval(row), f"{n}{_mark(row)}")
        grid.setdefault(key, {})[row["measure"]] = cell
    grid, left_out = _filled(spec, grid)
    return WideTable(
        spec=spec,
        header=[heads[d] for d in dimensions],
        index=[_index(spec, dimensions, key) for key in grid],
        measures=list(measures.values()),
        cells=[[line.get(m, ("–", "", "")) for m in measures] for line in grid.values()],
        caption=" ".join([_caption(spec, table, rows), *left_out]),
    )


def page(name: str, table: pa.Table, *, thousands: bool = True) -> WideTable:
    """Lay a tidy table out as the paper does: estimates alone, what is compared side by side.

    Cells with fewer than 20 pairs carry a star; :func:`wide` has the intervals and counts.
    ``thousands`` sets counts apart by thousands.
    """
    spec = TABLES[name]
    rows = [row for row in _laid_out(table) if not spec.measures or row["measure"] in spec.measures]
    if spec.across == ("items",):
        return _joined(spec, table, rows)
    dimensions = _shown(spec, rows, spec.across)
    heads = _index_heads(spec)
    one_measure = len({row["measure"] for row in rows}) == 1
    parts = [part for part in spec.across if part != "measure" or not one_measure] or ["measure"]
    columns: dict[tuple[Any, ...], tuple[str, ...]] = {}
    grid: dict[tuple[Any, ...], dict[tuple[Any, ...], tuple[str, str, str]]] = {}
    for row in rows:
        place = tuple(row[part] for part in parts)
        columns.setdefault(
            place,
            tuple(
                _heading(row["measure"], row["unit"])
                if part == "measure"
                else plain(words(row[part]))
                for part in parts
            ),
        )
        key = tuple(row[d] for d in dimensions)
        text = number(row["estimate"], row["unit"], thousands=thousands) + (
            _mark(row) if row["estimate"] is not None else ""
        )
        grid.setdefault(key, {})[place] = (text, "", str(row["n"]))
    grid, left_out = _filled(spec, grid)
    order = _ordered(list(columns), spec)
    return WideTable(
        spec=spec,
        header=[heads[d] for d in dimensions],
        index=[_index(spec, dimensions, key) for key in grid],
        measures=[columns[place][-1] for place in order],
        cells=[[line.get(place, ("", "", "")) for place in order] for line in grid.values()],
        caption=" ".join([_page_caption(spec, table, rows), *left_out]),
        over=[", ".join(columns[place][:-1]) for place in order],
    )


def _ordered(places: list[tuple[Any, ...]], spec: TableSpec) -> list[tuple[Any, ...]]:
    """Keep columns of one heading together, headings in order of appearance."""
    outer = {place[0]: rank for rank, place in reversed(list(enumerate(places)))}
    if spec.measures and places and places[0][0] in spec.measures:
        outer = {measure: rank for rank, measure in enumerate(spec.measures)}
    return sorted(places, key=lambda place: outer[place[0]])


def _joined(spec: TableSpec, table: pa.Table, rows: list[dict[str, Any]]) -> WideTable:
    """Lay a table out with the items of each group in one cell."""
    items: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        known = items.setdefault((plain(row["survey"] or ""), plain(row["group"] or "")), [])
        item = plain(row["item"] or "")
        if item not in known:
            known.append(item)
    return WideTable(
        spec=spec,
        header=["survey", spec.group],
        index=[list(key) for key in items],
        measures=[f"{spec.item}s"],
        cells=[[(", ".join(own), "", "")] for own in items.values()],
        caption=_page_caption(spec, table, rows),
        over=[""],
    )


def _flat(layout: WideTable) -> tuple[list[str], list[list[str]]]:
    """Return header and lines with interval and n inside the cells."""
    counts = layout.cells and all(
        len({cell[2] for cell in line if cell[2]}) <= 1 for line in layout.cells
    )
    plain = layout.plain
    header = [*layout.header, *(["n"] if counts and not plain else []), *layout.measures]
    lines = []
    for index, line in zip(layout.index, layout.cells, strict=True):
        n = next((cell[2] for cell in line if cell[2]), "")
        texts = []
        for estimate, interval, own in line:
            text = f"{estimate} {interval}".strip()
            texts.append(text if counts or plain or not own else f"{text} n={own}")
        lines.append([*index, *([n] if counts and not plain else []), *texts])
    return header, lines


def format_table(name: str, table: pa.Table, form: str, *, intervals: bool = False) -> str:
    """Return a table as text.

    Parameters
    ----------
    name : str
        A key of :data:`TABLES`.
    table : pyarrow.Table
        The tidy table.
    form : {"md", "csv", "latex", "json"}
        ``csv`` and ``json`` hold the tidy rows in full precision, the others the layout of a
        page.
    intervals : bool
        On a page, show every cell with its interval and n instead of the paper's layout.
    """
    if form == "json":
        return json.dumps(table.to_pylist(), ensure_ascii=False, indent=2) + "\n"
    if form == "csv":
        columns = [column.to_pylist() for column in table.columns]
        return csv_text(table.column_names, zip(*columns, strict=True))
    if form not in FORMATS:
        raise ConfigurationError(f"unknown format {form!r}; known: {', '.join(FORMATS)}")
    spec = TABLES[name]
    if not len(table):
        nothing = f"{spec.title}: nothing to show; needs {spec.needs or 'scored pairs'}."
        empty = " ".join([nothing, *remarks(table)])
        return f"**{name}. {empty}**\n" if form == "md" else f"% {name}. {empty}\n"
    layout = (wide if intervals else page)(name, table, thousands=form != "latex")
    return render(f"{name}. {spec.title}", layout, form, label=name)


def render(title: str, layout: WideTable, form: str, *, label: str) -> str:
    """Return a layout as Markdown or LaTeX."""
    header, lines = _flat(layout)
    if form == "latex":
        return _latex(label, title.partition(". ")[2] or title, layout, header, lines)

    over = [""] * (len(header) - len(layout.over)) + layout.over
    heads = [
        f"{outer}: {head}" if outer else head for outer, head in zip(over, header, strict=True)
    ]
    names = len(layout.header)
    body = [list(map(markdown_text, heads)), ["---"] * len(heads)]
    body += [
        [*map(markdown_name, line[:names]), *map(markdown_text, line[names:])] for line in lines
    ]
    text = "\n".join("| " + " | ".join(line) + " |" for line in body)
    return f"**{title}**\n\n{text}\n\n{markdown_text(layout.caption)}\n"


def _latex(
    label: str, title: str, layout: WideTable, header: list[str], lines: list[list[str]]
) -> str:
    n_index = len(layout.header)
    columns = "l" * n_index + "r" * (len(header) - n_index)
    rows = [" & ".join(latex_text(cell) for cell in line) + r" \\" for line in lines]
    # After the end of a line, an opening bracket or a star would belong to it.
    rows = [f"{{}}{row}" if row.startswith(("[", "*")) else row for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *_outer_headings(layout.over, len(header) - len(layout.over)),
            " & ".join(latex_text(cell) for cell in header) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{latex_text(title)}. {latex_text(layout.caption)}}}",
            rf"\label{{tab:{label}}}",
            r"\end{table}",
            "",
        ]
    )


def _outer_headings(over: list[str], before: int) -> list[str]:
    """Return the row of headings that span several columns, and the rules below them."""
    if not any(over):
        return []
    spans: list[tuple[str, int, int]] = []
    for column, head in enumerate(over, start=before + 1):
        if spans and spans[-1][0] == head:
            spans[-1] = (head, spans[-1][1], column)
        else:
            spans.append((head, column, column))
    cells = [rf"\multicolumn{{{b - a + 1}}}{{c}}{{{latex_text(head)}}}" for head, a, b in spans]
    rules = "".join(rf"\cmidrule(lr){{{a}-{b}}}" for head, a, b in spans if head)
    return [" & ".join([""] * before + cells).strip() + r" \\", rules]
