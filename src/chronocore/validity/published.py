"""What the paper's text says of its panel, beside a panel's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import chronocore_data
from chronocore.errors import ConfigurationError
from chronocore.tables.published_text import off_by
from chronocore.validity.tables import ValidityTable

__all__ = ["compare_published", "published_models"]

_VALUES = (
    ("section", pa.string(), "section"), ("table", pa.string(), "table"),
    ("published_model", pa.string(), "paper's model"), ("label", pa.string(), "model"),
    ("cell", pa.string(), "cell"), ("measure", pa.string(), "measure"),
    ("published_low", pa.float64(), "paper"), ("published_high", pa.float64(), "up to"),
    ("estimate", pa.float64(), "panel"), ("difference", pa.float64(), "difference"),
    ("quote", pa.string(), "quote"),
)  # fmt: skip
_LEFT_OUT = (
    ("section", pa.string(), "section"), ("quote", pa.string(), "quote"),
    ("why", pa.string(), "why"),
)  # fmt: skip
# What says which row of a table is meant; the rest of a cell is its value.
_KEYS = ("label", "item", "kind", "attribute", "group")


def published_models() -> list[str]:
    """Return the models of the paper of which its text gives a value."""
    statements = chronocore_data.published_text("validity")["statement"]
    named = (cell["model"] for row in statements for cell in row["cells"] if "model" in cell)
    return list(dict.fromkeys(named))


def compare_published(
    tables: Mapping[str, ValidityTable], models: Mapping[str, str] | None = None
) -> dict[str, ValidityTable]:
    """Set the values in the text of the paper beside a panel's own.

    Parameters
    ----------
    tables : mapping of str to ValidityTable
        As :func:`chronocore.validity.tables` returns them; values of other tables are left out.
    models : mapping of str to str, optional
        Published model by the label of the model that stands for it. By default those of the same
        name, in any case of letters.

    Returns
    -------
    dict of str to ValidityTable
        ``published``: one row a value, with section and quote; a range has two ends, and
        ``difference`` is the distance to the nearer one, 0 in between. The estimate is empty where
        the panel has no such cell. ``not-compared``: values that no table holds, and why.

    Raises
    ------
    ConfigurationError
        A label or a published model is not known.
    """
    own = {name: table.table.to_pylist() for name, table in tables.items()}
    labels = list(
        dict.fromkeys(
            row["label"] for rows in own.values() for row in rows if row.get("label") is not None
        )
    )
    models = _standing_for(models, labels)
    said = chronocore_data.published_text("validity")
    rows = []
    for statement in said["statement"]:
        for cell in statement["cells"]:
            if cell["table"] not in own:
                continue
            wanted = cell.get("model")
            beside = [label for label, model in models.items() if model == wanted]
            for label in beside if wanted is not None else [cell.get("label")]:
                rows.append(_row(statement, cell, label, own[cell["table"]]))
    note = (
        "Values in the running text of the paper; a model stands beside the one of its name. "
        "Another panel, protocol or set of countries gives other numbers: a difference is no error."
    )
    return {
        "published": _table("published", "Beside the paper's text", note, _VALUES, rows),
        "not-compared": _table(
            "not-compared", "In the paper's text, without a counterpart",
            "What no table holds, and why.", _LEFT_OUT, said["not_compared"],
        ),
    }  # fmt: skip


def _standing_for(models: Mapping[str, str] | None, labels: list[str]) -> dict[str, str]:
    published = published_models()
    if models is None:
        by_name = {model.casefold(): model for model in published}
        return {label: by_name[label.casefold()] for label in labels if label.casefold() in by_name}
    for label, model in models.items():
        if label not in labels:
            raise ConfigurationError(f"there is no model {label!r}; known: {', '.join(labels)}")
        if model not in published:
            raise ConfigurationError(
                f"the paper's text has no model {model!r}; known: {', '.join(published)}"
            )
    return dict(models)


def _row(
    statement: Mapping[str, Any],
    cell: Mapping[str, Any],
    label: str | None,
    rows: list[dict[str, Any]],
) -> dict[str, Any]:
    where = {key: cell[key] for key in _KEYS if key in cell}
    if label is not None:
        where["label"] = label
    values = [
        float(row[cell["measure"]])
        for row in rows
        if all(row.get(key) == value for key, value in where.items())
        and row[cell["measure"]] is not None
    ]
    # One row is meant, or of several the one with the largest value.
    estimate = max(values) if cell.get("of") == "largest" and values else None
    if len(values) == 1:
        estimate = values[0]
    low, high = (float(cell.get("value", cell.get(end))) for end in ("low", "high"))
    place = [where[key] for key in _KEYS if key != "label" and key in where]
    return {
        "section": statement["section"], "quote": statement["quote"], "table": cell["table"],
        "published_model": cell.get("model"), "label": label, "cell": ", ".join(place),
        "measure": cell["measure"], "published_low": low, "published_high": high,
        "estimate": estimate, "difference": off_by(estimate, low, high),
    }  # fmt: skip


def _table(
    name: str,
    title: str,
    note: str,
    columns: tuple[tuple[str, pa.DataType, str], ...],
    rows: list[dict[str, Any]],
) -> ValidityTable:
    schema = pa.schema([(key, kind) for key, kind, _ in columns])
    heads = {key: head for key, _, head in columns}
    return ValidityTable(name, title, note, heads, pa.Table.from_pylist(rows, schema=schema))
