"""The paper's published values beside a study's own."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import chronocore_data
from chronocore.errors import ConfigurationError
from chronocore.markup import csv_text, latex_text, markdown_text
from chronocore.tables.cells import SMALL_N
from chronocore.tables.format import WideTable, number, render, words
from chronocore.tables.published_text import compare_text, text_lines
from chronocore.tables.registry import TABLES
from chronocore.text import plain

__all__ = [
    "NOT_COMPARED_TITLE",
    "TEXT_TITLE",
    "Comparison",
    "compare_published",
    "comparison_lines",
    "format_comparison",
    "simple_table",
]

_FIELDS = {
    "table": pa.string(), "published_model": pa.string(), "label": pa.string(),
    "survey": pa.string(), "group": pa.string(), "item": pa.string(), "measure": pa.string(),
    "unit": pa.string(), "published": pa.float64(), "estimate": pa.float64(),
    "difference": pa.float64(), "low": pa.float64(), "high": pa.float64(), "n": pa.int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """Published values beside a study's own.

    Attributes
    ----------
    rows : pyarrow.Table
        One row a published value and run: ``published``, the study's ``estimate`` with interval
        and n (null where the study has no such cell), and ``difference``, own minus published.
    same_benchmark : bool
        Whether the study has as many pairs in every shift class as the paper's benchmark.
    note : str
        What the comparison can and cannot say.
    text : pyarrow.Table
        The same for values in the paper's running text, with section and quote; a range over
        models has two ends, and ``difference`` is the distance to the nearer one, 0 in between.
    not_compared : tuple of dict
        Section and quote of values that no table holds, and ``why``.
    """

    rows: pa.Table
    same_benchmark: bool
    note: str
    text: pa.Table
    not_compared: tuple[dict[str, str], ...]

    def only(self, names: Collection[str]) -> Comparison:
        """Return the comparison of some tables, without what none of them holds."""

        def chosen(rows: pa.Table) -> pa.Table:
            inside = [name in names for name in rows["table"].to_pylist()]
            return rows.filter(pa.array(inside, pa.bool_()))

        return replace(self, rows=chosen(self.rows), text=chosen(self.text), not_compared=())


def _own_counts(tables: Mapping[str, pa.Table]) -> dict[str, float]:
    rows = tables["t01"].to_pylist()
    return {row["measure"]: row["estimate"] for row in rows if row["group"] == "all"}


def _runs(tables: Mapping[str, pa.Table]) -> list[str]:
    return list(dict.fromkeys(tables["t06"]["label"].to_pylist()))


def _check_models(models: Mapping[str, str], labels: list[str], published: list[str]) -> None:
    for label, model in models.items():
        if label not in labels:
            raise ConfigurationError(
                f"no run called {label!r} is evaluated; known: {', '.join(labels)}"
            )
        if model not in published:
            raise ConfigurationError(
                f"the paper has no model {model!r}; known: {', '.join(published)}"
            )


def compare_published(
    tables: Mapping[str, pa.Table], models: Mapping[str, str] | None = None
) -> Comparison:
    """Set the paper's values beside a study's own.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Result tables as :func:`chronocore.tables` returns them, ``t01`` and ``t06`` among them.
    models : mapping of str to str, optional
        Published model by the label of the run that stands for it. By default runs go with the
        model of the same name; if there is none, every run stands beside the paper's reference
        model.

    Returns
    -------
    Comparison

    Raises
    ------
    ConfigurationError
        A label or a published model is not known.
    """
    published = chronocore_data.published_tables()
    labels = _runs(tables)
    if models is None:
        by_name = {model.casefold(): model for model in published["models"]}
        models = {
            label: by_name[label.casefold()] for label in labels if label.casefold() in by_name
        }
        models = models or dict.fromkeys(labels, published["reference_model"])
    _check_models(models, labels, published["models"])
    own: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, table in tables.items():
        for row in table.to_pylist():
            if row["prediction"] in (None, "model"):
                key = (name, row["label"], row["survey"], row["group"], row["item"], row["measure"])
                own[key] = row
    units = {(key[0], key[-1]): row["unit"] for key, row in own.items()}
    rows: list[dict[str, Any]] = []
    for cell in published["cells"]:
        known = dict(zip(published["columns"], cell, strict=True))
        if known["table"] not in tables:
            continue
        beside: list[str | None] = [None]
        if known["model"] is not None:
            beside = [label for label, model in models.items() if model == known["model"]]
        where = tuple(known[name] for name in ("survey", "group", "item", "measure"))
        for label in beside:
            found = own.get((known["table"], label, *where), {})
            estimate = found.get("estimate")
            rows.append(
                {
                    "table": known["table"], "published_model": known["model"], "label": label,
                    **dict(zip(("survey", "group", "item", "measure"), where, strict=True)),
                    "unit": units.get((known["table"], known["measure"])),
                    "published": float(known["value"]),
                    "estimate": estimate,
                    "difference": None if estimate is None else estimate - known["value"],
                    "low": found.get("low"), "high": found.get("high"), "n": found.get("n"),
                }
            )  # fmt: skip
    order = {name: rank for rank, name in enumerate(TABLES)}
    rank = {label: place for place, label in enumerate([None, *labels])}
    # A stable sort: cells keep the paper's order.
    rows.sort(key=lambda row: (order[row["table"]], rank[row["label"]]))
    counts = {cell[5]: cell[6] for cell in published["cells"] if cell[0] == "t01"}
    mine = _own_counts(tables)
    same = all(mine.get(measure) == value for measure, value in counts.items())
    said = chronocore_data.published_text("chronoculture")
    return Comparison(
        pa.Table.from_pylist(rows, schema=pa.schema(_FIELDS)),
        same,
        _note(same, mine, counts, models, published),
        compare_text(said["statement"], tables, models),
        tuple(said["not_compared"]),
    )


def _note(
    same: bool,
    mine: Mapping[str, float],
    counts: Mapping[str, float],
    models: Mapping[str, str],
    published: Mapping[str, Any],
) -> str:
    parts = []
    if not same:
        parts.append(
            f"This study is not the paper's benchmark: it has {mine.get('total', 0):,.0f} temporal "
            f"pairs, the paper {counts['total']:,.0f} (WVS and ISSP, licensed). The differences "
            "compare other questions and countries and say nothing about whether the paper's "
            "numbers can be reproduced."
        )
    else:
        parts.append("The study has as many pairs in every shift class as the paper's benchmark.")
    others = [label for label, model in models.items() if label.casefold() != model.casefold()]
    if others:
        beside = "; ".join(f"{label} beside {models[label]}" for label in others)
        parts.append(f"Runs set beside a model of another name: {beside}.")
    parts.append(
        "Known not to add up in the paper: " + " ".join(published["known_inconsistencies"])
    )
    return " ".join(parts)


def _signed(value: float | None, unit: str, thousands: bool) -> str:
    text = number(value, unit, thousands=thousands)
    return text if value is None or text[0] in "−–" or not text.strip("0.") else f"+{text}"


def _of_the_study(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of one table whose survey, group and item the study has values of."""
    places = ("survey", "group", "item")
    known = {place: {row[place] for row in rows if row["estimate"] is not None} for place in places}
    return [row for row in rows if all(row[place] in known[place] for place in places)]


def left_out(comparison: Comparison) -> str:
    """Return how many of the paper's values are not shown, empty if all are."""
    rows = comparison.rows.to_pylist()
    shown = sum(
        len(_of_the_study([row for row in rows if row["table"] == name]))
        for name in {row["table"] for row in rows}
    )
    if shown == len(rows):
        return ""
    return (
        f"{len(rows) - shown:,} of the paper's {len(rows):,} values are of surveys, regions, "
        "topics or groups that this study does not have, and are left out; csv and json hold them."
    )


def comparison_lines(
    comparison: Comparison, name: str, *, thousands: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of one table's comparison, as texts.

    Surveys, regions, topics and other groups of which the study has nothing are left out.
    """
    rows = _of_the_study([row for row in comparison.rows.to_pylist() if row["table"] == name])
    dimensions = [
        column
        for column in ("published_model", "label", "survey", "group", "item")
        if len({row[column] for row in rows}) > 1 or (column == "group" and rows)
    ]
    heads = {
        "published_model": "paper's model", "label": "run", "survey": "survey",
        "group": TABLES[name].group, "item": TABLES[name].item,
    }  # fmt: skip
    header = [*(heads[d] for d in dimensions), "measure", "paper", "study", "difference", "n"]
    lines = []
    for row in rows:
        unit = row["unit"] or "%"
        small = row["n"] is not None and 0 < row["n"] < SMALL_N and unit != "pairs"
        lines.append(
            [
                *(words(row[d]) for d in dimensions),
                words(row["measure"]),
                number(row["published"], unit, thousands=thousands),
                number(row["estimate"], unit, thousands=thousands),
                _signed(row["difference"], unit, thousands),
                ""
                if row["n"] is None
                else number(row["n"], "count", thousands=thousands) + ("*" if small else ""),
            ]
        )
    return header, lines


def format_comparison(comparison: Comparison, form: str) -> str:
    """Return a comparison as text.

    Parameters
    ----------
    comparison : Comparison
    form : {"md", "csv", "latex", "json"}
    """
    rows = comparison.rows
    if form == "json":
        data = {
            "same_benchmark": comparison.same_benchmark, "note": comparison.note,
            "rows": rows.to_pylist(), "text": comparison.text.to_pylist(),
            "not_compared": list(comparison.not_compared),
        }  # fmt: skip
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    if form == "csv":
        # One file: values of the text have section and quote, and a range has a higher end.
        text = comparison.text.rename_columns(
            ["published" if n == "published_low" else n for n in comparison.text.column_names]
        )
        both = pa.concat_tables([rows, text], promote_options="default")
        columns = [column.to_pylist() for column in both.columns]
        return csv_text(both.column_names, zip(*columns, strict=True))
    note = plain(" ".join(filter(None, (comparison.note, left_out(comparison)))), None)
    parts = [f"{markdown_text(note)}\n" if form == "md" else f"% {note}\n"]
    for name in dict.fromkeys(rows["table"].to_pylist()):
        header, lines = comparison_lines(comparison, name, thousands=form != "latex")
        if not lines:
            continue
        spec = TABLES[name]
        layout = WideTable(
            spec=spec,
            header=header[:-4],
            index=[line[:-4] for line in lines],
            measures=header[-4:],
            cells=[[(text, "", "") for text in line[-4:]] for line in lines],
            caption="Difference: study minus paper." if form == "latex" else "",
        )
        parts.append(render(f"{name}. {spec.title}, beside the paper", layout, form, label=name))
    parts += _text_parts(comparison, form)
    return "\n".join(parts)


TEXT_TITLE = "Values in the paper's text"
NOT_COMPARED_TITLE = "Values in the paper's text that no table holds"


def _text_parts(comparison: Comparison, form: str) -> list[str]:
    header, lines = text_lines(comparison.text.to_pylist())
    parts = [simple_table(TEXT_TITLE, header, lines, form)] if lines else []
    left = [[row["section"], row["quote"], row["why"]] for row in comparison.not_compared]
    if left:
        parts.append(simple_table(NOT_COMPARED_TITLE, ["section", "quote", "why"], left, form))
    return parts


def simple_table(title: str, header: list[str], lines: list[list[str]], form: str) -> str:
    """Return lines of text as a table in Markdown or LaTeX."""
    if form == "md":
        body = [header, ["---"] * len(header), *lines]
        rows = "\n".join("| " + " | ".join(map(markdown_text, line)) + " |" for line in body)
        return f"**{markdown_text(title)}**\n\n{rows}\n"
    rows = "\n".join(" & ".join(map(latex_text, line)) + r" \\" for line in [header, *lines])
    columns = "l" * len(header)
    return f"% {title}\n\\begin{{tabular}}{{{columns}}}\n{rows}\n\\end{{tabular}}\n"
