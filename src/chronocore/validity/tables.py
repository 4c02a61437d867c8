"""Components and positions -> the tables of measurement validity."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from chronocore.errors import ConfigurationError
from chronocore.markup import csv_text, latex_text, markdown_name, markdown_text
from chronocore.schema import SCHEMA_VERSION, chronocore_version
from chronocore.validity.components import ComponentsResult, median_interval
from chronocore.validity.protocol import Protocol

__all__ = [
    "FORMATS",
    "NAMES",
    "ValidityTable",
    "component_tables",
    "distribution_tables",
    "format_table",
    "map_tables",
    "read_table",
]

#: Every table, in the order in which they are printed.
NAMES: tuple[str, ...] = (
    "validity-models",
    "validity-positions",
    "validity-nsr-models",
    "validity-nsr-items",
    "validity-groups",
    "validity-grid",
    "validity-rates",
    "validity-wordings",
    "validity-exclusions",
    "validity-distributions",
    "validity-change",
)

FORMATS = ("md", "csv", "latex", "json")

_TITLE, _NOTE, _HEADS = b"chronocore.title", b"chronocore.note", b"chronocore.heads"


@dataclass(frozen=True, slots=True)
class ValidityTable:
    """A result table: ``heads`` are what a person reads above its columns."""

    name: str
    title: str
    note: str
    heads: dict[str, str]
    table: pa.Table

    def with_metadata(self) -> pa.Table:
        """Return the table as it is stored, title, note and heads in its metadata."""
        return self.table.replace_schema_metadata(
            {
                b"chronocore.schema": b"validity_table",
                b"chronocore.schema_version": str(SCHEMA_VERSION).encode(),
                b"chronocore.version": chronocore_version().encode(),
                b"chronocore.name": self.name.encode(),
                _TITLE: self.title.encode(),
                _NOTE: self.note.encode(),
                _HEADS: json.dumps(self.heads).encode(),
            }
        )


def read_table(table: pa.Table) -> ValidityTable:
    """Return a stored table."""
    metadata = table.schema.metadata or {}
    return ValidityTable(
        metadata[b"chronocore.name"].decode(),
        metadata[_TITLE].decode(),
        metadata[_NOTE].decode(),
        json.loads(metadata[_HEADS]),
        table,
    )


_TEXT, _REAL, _COUNT = pa.string(), pa.float64(), pa.int64()
_FLAG = pa.bool_()
_LIST = pa.list_(pa.string())

Column = tuple[str, pa.DataType, str]


# Columns that several tables have.
_MODEL: Column = ("label", _TEXT, "model")
_ITEM: Column = ("item", _TEXT, "item")
_ASKED: tuple[Column, ...] = (_ITEM, ("wording", _TEXT, "wording"))
_SIGMA_SEED: Column = ("sigma_seed", _REAL, "σ seed")
_SIGMA_PROMPT: Column = ("sigma_prompt", _REAL, "σ prompt")
_LOWER_BOUND: Column = ("seed_lower_bound", _FLAG, "lower bound")
_RATES: tuple[Column, ...] = (
    ("refusal_rate", _REAL, "refused %"),
    ("parse_failure_rate", _REAL, "unreadable %"),
)
_PLACE: tuple[Column, ...] = (("x", _REAL, "x"), ("y", _REAL, "y"))
_NEAREST: Column = ("nearest", _LIST, "nearest countries")


def _table(
    name: str, title: str, note: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]
) -> ValidityTable:
    fields = [pa.field(key, kind) for key, kind, _ in columns]
    listed = [{key: row.get(key) for key, _, _ in columns} for row in rows]
    return ValidityTable(
        name,
        title,
        note,
        {key: head for key, _, head in columns},
        pa.Table.from_pylist(listed, schema=pa.schema(fields)),
    )


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_BOUND = "* the seed component is a lower bound, and so is the ratio."


def _marked(label: str, lower_bound: bool) -> str:
    return f"{label}*" if lower_bound else label


def _summary(
    result: ComponentsResult, rows: Sequence[Mapping[str, Any]], members: np.ndarray[Any, Any]
) -> dict[str, Any]:
    """Return count, median with interval, largest, and how many are above 1 and 2."""
    ratios = [row["nsr"] for row in rows if row["status"] == "ok"]
    middle = _median(ratios)
    low, high = median_interval(result.replicates, members, middle, result.confidence_level)
    return {
        "n_valid": len(ratios),
        "median": middle,
        "low": _finite(low) if ratios else None,
        "high": _finite(high) if ratios else None,
        "largest": max(ratios, default=None),
        "above_1": sum(bool(row["above_1"]) for row in rows),
        "above_2": sum(bool(row["above_2"]) for row in rows),
    }


def _by_median(name: str) -> Callable[[Mapping[str, Any]], tuple[bool, float, str]]:
    """Return the order by median, those without one last, ties by a name."""
    return lambda row: (row["median"] is None, row["median"] or 0.0, row[name])


_OPEN = (
    "A dash for high: in some resamples the models do not differ on the item, so that its ratio "
    "has no upper bound."
)

_SUMMARY: tuple[Column, ...] = (
    ("n_valid", _COUNT, "n valid"),
    ("median", _REAL, "median NSR"),
    ("low", _REAL, "low"),
    ("high", _REAL, "high"),
    ("largest", _REAL, "max NSR"),
    ("above_1", _COUNT, "NSR > 1"),
    ("above_2", _COUNT, "NSR > 2"),
)


def component_tables(
    result: ComponentsResult, protocol: Protocol, runs: Sequence[Mapping[str, Any]]
) -> list[ValidityTable]:
    """Return the tables that need no map.

    Parameters
    ----------
    result : ComponentsResult
    protocol : Protocol
        Labels of the items, and which wording is the survey's own.
    runs : sequence of mapping
        Rows of ``validity/runs.parquet``.
    """
    everything = result.table.to_pylist()
    n_items = len(result.grid.items)
    level = f"{result.confidence_level * 100:g}% bootstrap interval over variants and seeds"
    own_level = level
    if result.intervals == "chi-square":
        own_level = f"{result.confidence_level * 100:g}% chi-square interval"
    native = [wording == protocol.wording for _, wording in result.grid.items]
    rows = [row for i, row in enumerate(everything) if native[i % n_items]]
    ok = result.values.status == "ok"
    member = np.broadcast_to(np.array(native, dtype=bool), ok.shape) & ok
    bounded = {row["label"] for row in rows if row["seed_lower_bound"]}
    titles = {item.variable: item.label for item in protocol.item}

    def cells(**key: str) -> list[dict[str, Any]]:
        return [row for row in rows if all(row[name] == value for name, value in key.items())]

    def at(label: str | None = None, item: str | None = None) -> np.ndarray[Any, Any]:
        chosen = np.array(member)
        if label is not None:
            chosen &= (np.array(result.grid.labels) == label)[:, None]
        if item is not None:
            chosen &= np.array([name == item for name, _ in result.grid.items])[None, :]
        return chosen

    by_model = []
    for label in result.grid.labels:
        own = cells(label=label)
        by_model.append(
            {
                "label": label,
                "seed_lower_bound": label in bounded,
                **_summary(result, own, at(label=label)),
                "exclude": [row["item"] for row in own if row["above_1"]],
            }
        )
    by_model.sort(key=_by_median("label"))
    by_item = [
        {
            "item": item,
            "title": titles.get(item, item),
            **_summary(result, cells(item=item), at(item=item)),
        }
        for item, wording in result.grid.items
        if wording == protocol.wording
    ]
    by_item.sort(key=_by_median("item"))
    panel = _summary(result, rows, member)
    share = 100 * panel["above_1"] / panel["n_valid"] if panel["n_valid"] else 0.0
    overall = (
        f"{panel['n_valid']} of {len(rows)} model and item pairs have a ratio; their median is "
        f"{_number(panel['median'])}, {panel['above_1']} ({share:.0f}%) are above 1 and "
        f"{panel['above_2']} above 2."
    )
    groups = _groups(result, rows, member)
    made = {row["label"]: row for row in runs}
    stages: dict[str, dict[str, Any]] = {}
    for row in runs:
        stages.setdefault(row["label"], {})[row["stage"]] = row["temperature"]
    tables = [
        _table(
            "validity-models",
            "Models and how they were asked",
            "Temperature is empty where the provider's default was used or nothing was sampled. "
            "Table 1 of the paper.",
            (
                _MODEL,
                ("access", _TEXT, "access"),
                ("origin", _TEXT, "origin"),
                ("region", _TEXT, "region"),
                ("engine", _TEXT, "engine"),
                ("temperature_variants", _REAL, "temperature, variants"),
                ("temperature_seeds", _REAL, "temperature, seeds"),
                ("seed_lower_bound", _FLAG, "seed component is a lower bound"),
            ),
            [
                {
                    **{
                        k: made.get(label, {}).get(k)
                        for k in ("access", "origin", "region", "engine")
                    },
                    "label": label,
                    "temperature_variants": stages.get(label, {}).get("variants"),
                    "temperature_seeds": stages.get(label, {}).get("seeds"),
                    "seed_lower_bound": label in bounded,
                }
                for label in result.grid.labels
            ],
        ),
        _table(
            "validity-nsr-models",
            "Noise-to-signal ratio over items, by model",
            f"{overall} Sorted by median; {level}. Refused items have no ratio and are left out. "
            f"Table 3 of the paper. {_BOUND if bounded else ''}".strip(),
            (
                _MODEL,
                *_SUMMARY,
                ("exclude", _LIST, "items to exclude"),
                _LOWER_BOUND,
            ),
            by_model,
        ),
        _table(
            "validity-nsr-items",
            "Noise-to-signal ratio over models, by item",
            f"Sorted by median; {level}. {_OPEN} A low ratio of the panel does not mean "
            "that any one model is stable. Table 4 of the paper.",
            (_ITEM, ("title", _TEXT, ""), *_SUMMARY),
            by_item,
        ),
        _table(
            "validity-groups",
            "Noise-to-signal ratio by group of models",
            f"Pairs of a model and an item; {level}.",
            (
                ("attribute", _TEXT, "attribute"),
                ("group", _TEXT, "group"),
                ("models", _COUNT, "models"),
                *_SUMMARY,
            ),
            groups,
        ),
        _table(
            "validity-grid",
            "Components of every model and item",
            f"{own_level}. Without two valid answers a component is undefined, never 0.",
            (
                _MODEL,
                *_ASKED,
                ("n_variants_valid", _COUNT, "variants"),
                ("n_seeds_valid", _COUNT, "seeds"),
                ("mean", _REAL, "mean"),
                _SIGMA_SEED,
                _SIGMA_PROMPT,
                ("sigma_culture", _REAL, "σ culture"),
                ("nsr", _REAL, "NSR"),
                ("nsr_low", _REAL, "low"),
                ("nsr_high", _REAL, "high"),
                ("status", _TEXT, "status"),
            ),
            everything,
        ),
        _table(
            "validity-rates",
            "Refusals, unreadable answers and disagreement",
            "Shares of the variants asked, and of those answered: an error or a missing row is "
            "asked and not answered. Disagreement is the share of the valid variants, the "
            "first of the standard tone apart, that differ from the model's most frequent answer "
            "over its seeds.",
            (
                _MODEL,
                *_ASKED,
                ("n_variants", _COUNT, "asked"),
                *_RATES,
                ("n_answered", _COUNT, "answered"),
                ("answered_refusal_rate", _REAL, "refused % of answered"),
                ("answered_parse_failure_rate", _REAL, "unreadable % of answered"),
                ("n_compared", _COUNT, "compared"),
                ("disagreement_rate", _REAL, "disagree %"),
            ),
            everything,
        ),
    ]
    wordings = _wordings(result, everything, protocol)
    if wordings:
        tables.append(
            _table(
                "validity-wordings",
                "The same item in several wordings",
                "Models with a ratio in all wordings of the item. A paraphrase that lowers "
                "refusals can move the noise to another item.",
                (
                    *_ASKED,
                    ("models", _COUNT, "models"),
                    ("median", _REAL, "median NSR"),
                    ("largest", _REAL, "max NSR"),
                    ("sigma_culture", _REAL, "σ culture"),
                    ("mean", _REAL, "mean answer"),
                    *_RATES,
                ),
                wordings,
            )
        )
    return tables


def _groups(
    result: ComponentsResult, rows: Sequence[Mapping[str, Any]], member: np.ndarray[Any, Any]
) -> list[dict[str, Any]]:
    """Return the summary of all pairs and of those of every group of models."""
    out: list[dict[str, Any]] = [
        {
            "attribute": "panel",
            "group": "all models",
            "models": len(result.grid.labels),
            **_summary(result, rows, member),
        }
    ]
    for key in ("access", "origin", "region"):
        for value in sorted({str(row[key]) for row in rows if row[key] is not None}):
            own = [row for row in rows if row[key] == value]
            labels = {row["label"] for row in own}
            chosen = member & np.array([label in labels for label in result.grid.labels])[:, None]
            out.append(
                {
                    "attribute": key,
                    "group": value,
                    "models": len(labels),
                    **_summary(result, own, chosen),
                }
            )
    return out


def _wordings(
    result: ComponentsResult, rows: Sequence[Mapping[str, Any]], protocol: Protocol
) -> list[dict[str, Any]]:
    """Return items that were asked in several wordings, one row a wording."""
    by_item: dict[str, list[str]] = {}
    for item, wording in result.grid.items:
        by_item.setdefault(item, []).append(wording)
    out = []
    for item, wordings in by_item.items():
        if len(wordings) < 2:
            continue
        defined = [
            {row["label"] for row in rows
             if (row["item"], row["wording"]) == (item, wording) and row["status"] == "ok"}
            for wording in wordings
        ]  # fmt: skip
        shared = set.intersection(*defined)
        for wording in sorted(wordings, key=lambda name: (name != protocol.wording, name)):
            own = [row for row in rows if (row["item"], row["wording"]) == (item, wording)]
            kept = [row for row in own if row["label"] in shared]

            def mean(key: str, members: list[Mapping[str, Any]]) -> float | None:
                values = [row[key] for row in members if row[key] is not None]
                return float(np.mean(values)) if values else None

            out.append(
                {
                    "item": item,
                    "wording": wording,
                    "models": len(kept),
                    "median": _median([row["nsr"] for row in kept]),
                    "largest": max((row["nsr"] for row in kept), default=None),
                    "sigma_culture": own[0]["sigma_culture"] if own else None,
                    "mean": mean("mean", own),
                    "refusal_rate": mean("refusal_rate", own),
                    "parse_failure_rate": mean("parse_failure_rate", own),
                }
            )
    return out


def map_tables(table: pa.Table, change: pa.Table | None = None) -> list[ValidityTable]:
    """Return the tables of the cultural map.

    Parameters
    ----------
    table : pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_MAP`.
    change : pyarrow.Table, optional
        Schema :data:`chronocore.schema.VALIDITY_CHANGE`.
    """
    rows = table.to_pylist()
    kinds = ("model", "imputed", "panel", "group", "reference")
    placed = [row for row in rows if row["kind"] in kinds]
    order = {kind: index for index, kind in enumerate(kinds)}
    placed.sort(key=lambda row: order[row["kind"]])
    without = []
    base = {
        row["label"]: row
        for row in rows
        if row["kind"] == "model"
        and row["group"] not in (None, "all")
        and row["tone_shift"] is None
    }
    for row in rows:
        if row["kind"] != "without":
            continue
        own = base.get(row["label"], {})
        moved = None
        if row["x"] is not None and own.get("x") is not None:
            moved = float(np.hypot(row["x"] - own["x"], row["y"] - own["y"]))
        without.append(
            {
                **row,
                "items": len(row["without"]),
                "full_x": own.get("x"),
                "full_y": own.get("y"),
                "moved": moved,
            }
        )
    tables = [
        _table(
            "validity-positions",
            "Positions on the cultural map",
            "Means over the variants with a valid answer to every item; the ellipses (95%, "
            "semi-axes in map units) are over variants and seeds: of the mean, and of one more "
            "variant answered once. 'imputed' places a model that is off the map as if it had "
            "answered with the middle of the scale: a sensitivity check, no measurement. Table 2 "
            "of the paper.",
            (
                ("kind", _TEXT, "kind"),
                _MODEL,
                ("group", _TEXT, "tone or attribute"),
                *_PLACE,
                ("n", _COUNT, "n"),
                ("n_asked", _COUNT, "of"),
                ("mean_major", _REAL, "mean, major"),
                ("mean_minor", _REAL, "mean, minor"),
                ("spread_major", _REAL, "spread, major"),
                ("spread_minor", _REAL, "spread, minor"),
                ("tone_shift", _REAL, "tone shift"),
                ("reference_distance", _REAL, "to reference"),
                _NEAREST,
                ("lacking", _LIST, "lacks"),
            ),
            placed,
        ),
        _table(
            "validity-exclusions",
            "The map without unreliable items",
            "For each model, items with a ratio above 1 are left out, the map is fitted again on "
            "the rest and the model placed on it, in the standard tone. No position: too few items "
            "are left for two axes.",
            (
                _MODEL,
                ("items", _COUNT, "left out"),
                ("without", _LIST, "items"),
                ("full_x", _REAL, "x, all items"),
                ("full_y", _REAL, "y, all items"),
                *_PLACE,
                ("moved", _REAL, "moved by"),
                _NEAREST,
            ),
            without,
        ),
    ]
    if change is not None:
        tables.append(
            _table(
                "validity-change",
                "Change on the cultural map, models against surveys",
                "From the oldest to the newest time point with all items. The cosine compares a "
                "model's move with the survey's; the distances are to the survey of the same time.",
                (
                    ("country_name", _TEXT, "country"),
                    ("label", _TEXT, "source"),
                    ("year_old", _COUNT, "from"),
                    ("year_new", _COUNT, "to"),
                    ("x_old", _REAL, "x, old"),
                    ("y_old", _REAL, "y, old"),
                    ("x_new", _REAL, "x, new"),
                    ("y_new", _REAL, "y, new"),
                    ("change", _REAL, "moved by"),
                    ("cosine", _REAL, "cosine"),
                    ("distance_old", _REAL, "off, old"),
                    ("distance_new", _REAL, "off, new"),
                ),
                change.to_pylist(),
            )
        )
    return tables


def distribution_tables(table: pa.Table) -> list[ValidityTable]:
    """Return the summary of distribution-valued answers, by model and kind of prompt."""
    rows = table.to_pylist()
    out = []
    for label in sorted({row["label"] for row in rows}):
        kinds = sorted({row["kind"] for row in rows if row["label"] == label})
        for kind in kinds:
            own = [row for row in rows if row["label"] == label and row["kind"] == kind]
            ok = [row for row in own if row["status"] == "ok"]

            def middle(key: str, members: list[dict[str, Any]]) -> float | None:
                return _median([row[key] for row in members if row[key] is not None])

            out.append(
                {
                    "label": label,
                    "kind": kind,
                    "prompts": len(own),
                    "n_valid": len(ok),
                    "sigma_seed": middle("sigma_seed", own),
                    "sigma_prompt": middle("sigma_prompt", own),
                    "sigma_model": middle("sigma_model", own),
                    "median": middle("nsr", ok),
                    "above_1": sum(bool(row["above_1"]) for row in ok),
                    "seed_lower_bound": any(row["seed_lower_bound"] for row in own),
                }
            )
    return [
        _table(
            "validity-distributions",
            "Components of distribution-valued answers",
            "Fréchet standard deviations under the 2-Wasserstein distance on the scale from 0 to "
            "1: over repeats (seed), over instructions or variants (prompt), over models. Medians "
            "over prompts.",
            (
                _MODEL,
                ("kind", _TEXT, "kind"),
                ("prompts", _COUNT, "prompts"),
                ("n_valid", _COUNT, "with NSR"),
                _SIGMA_SEED,
                _SIGMA_PROMPT,
                ("sigma_model", _REAL, "σ model"),
                ("median", _REAL, "median NSR"),
                ("above_1", _COUNT, "NSR > 1"),
                _LOWER_BOUND,
            ),
            out,
        )
    ]


# -- rendering -----------------------------------------------------------------------------------


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:.2f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def cell(name: str, value: Any) -> str:
    """Return a value as a person reads it; shares are percentages."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{100 * value:.0f}" if name.endswith("_rate") else _number(value)
    return str(value)


def format_table(table: ValidityTable, form: str) -> str:
    """Return a table as text.

    Parameters
    ----------
    table : ValidityTable
    form : {"md", "csv", "latex", "json"}
        ``csv`` and ``json`` hold full precision.
    """
    rows = table.table.to_pylist()
    if form == "json":
        return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    if form == "csv":
        return csv_text(table.table.column_names, (row.values() for row in rows))
    if form not in FORMATS:
        raise ConfigurationError(f"unknown format {form!r}; known: {', '.join(FORMATS)}")
    header = list(table.heads.values())
    lines = [[cell(name, value) for name, value in row.items()] for row in rows]
    numeric = [
        pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        for field in table.table.schema
    ]
    if form == "md":
        rule = ["---:" if right else "---" for right in numeric]
        body = [
            list(map(markdown_text, header)),
            rule,
            *(map(markdown_name, line) for line in lines),
        ]
        text = "\n".join("| " + " | ".join(line) + " |" for line in body)
        return f"**{table.name}. {table.title}**\n\n{text}\n\n{markdown_text(table.note)}\n"
    columns = "".join("r" if right else "l" for right in numeric)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(latex_text(head) for head in header) + r" \\",
            r"\midrule",
            *(" & ".join(latex_text(text) for text in line) + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{latex_text(table.title)}. {latex_text(table.note)}}}",
            rf"\label{{tab:{table.name}}}",
            r"\end{table}",
            "",
        ]
    )
