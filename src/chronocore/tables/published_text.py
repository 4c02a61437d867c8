"""Values in the paper's running text, beside a study's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from chronocore.tables.format import number, words

__all__ = ["TEXT_FIELDS", "compare_text", "off_by", "text_lines"]

TEXT_FIELDS = pa.schema(
    {
        "section": pa.string(), "quote": pa.string(), "table": pa.string(),
        "published_model": pa.string(), "label": pa.string(), "prediction": pa.string(),
        "survey": pa.string(), "group": pa.string(), "item": pa.string(), "measure": pa.string(),
        "of": pa.string(), "unit": pa.string(), "published_low": pa.float64(),
        "published_high": pa.float64(), "estimate": pa.float64(), "difference": pa.float64(),
        "n": pa.int64(),
    }
)  # fmt: skip

_KEYS = ("survey", "group", "item", "measure")
#: Where a table has no rows of runs, its values stand once.
_WITHOUT_RUNS = ("t02", "t03", "noise")


def off_by(estimate: float | None, low: float, high: float) -> float | None:
    """Return how far an estimate lies outside a published range, signed; 0 inside it.

    Examples
    --------
    >>> off_by(8.5, 8.0, 11.0), off_by(12.0, 8.0, 11.0), off_by(7.0, 8.0, 11.0)
    (0.0, 1.0, -1.0)
    """
    if estimate is None:
        return None
    return estimate - min(max(estimate, low), high)


def compare_text(
    statements: Sequence[Mapping[str, Any]],
    tables: Mapping[str, pa.Table],
    models: Mapping[str, str],
) -> pa.Table:
    """Return one row a published value and run it stands beside.

    Parameters
    ----------
    statements : sequence of mapping
        As :func:`chronocore_data.published_text` returns them.
    tables : mapping of str to pyarrow.Table
        Result tables by name; statements about others have no rows.
    models : mapping of str to str
        Published model by the label of the run that stands for it.

    Returns
    -------
    pyarrow.Table
        Columns :data:`TEXT_FIELDS`. ``published_low`` and ``published_high`` are equal for a
        single value; ``difference`` is the distance to the nearer of them, 0 in between.
    """
    own = {
        name: {
            (row["label"], row["prediction"], *(row[key] for key in _KEYS)): row
            for row in table.to_pylist()
        }
        for name, table in tables.items()
    }
    rows = []
    for statement in statements:
        for cell in statement["cells"]:
            name = cell["table"]
            if name not in own:
                continue
            for label, prediction in _beside(cell, models):
                key = (label, prediction, *(cell.get(part) for part in _KEYS))
                found = own[name].get(key, {})
                rows.append(_row(statement, cell, label, prediction, found))
    return pa.Table.from_pylist(rows, schema=TEXT_FIELDS)


def _beside(
    cell: Mapping[str, Any], models: Mapping[str, str]
) -> list[tuple[str | None, str | None]]:
    """Return label and prediction of the rows that a value stands beside."""
    if "over" in cell:
        return [(cell["over"], None)]
    if cell["table"] in _WITHOUT_RUNS:
        return [(None, None)]
    prediction = cell.get("prediction", "model")
    return [
        (label, prediction) for label, model in models.items() if cell.get("model") in (None, model)
    ]


def _row(
    statement: Mapping[str, Any],
    cell: Mapping[str, Any],
    label: str | None,
    prediction: str | None,
    found: Mapping[str, Any],
) -> dict[str, Any]:
    of = cell.get("of", "estimate")
    low = float(cell["value"] if "value" in cell else cell["low"])
    high = float(cell["value"] if "value" in cell else cell["high"])
    estimate = _meant(found, of)
    return {
        "section": statement["section"], "quote": statement["quote"], "table": cell["table"],
        "published_model": cell.get("model"), "label": label, "prediction": prediction,
        **{key: cell.get(key) for key in _KEYS}, "of": of,
        "unit": {"n": "pairs", "year": "year"}.get(of, found.get("unit")),
        "published_low": low, "published_high": high, "estimate": estimate,
        "difference": off_by(estimate, low, high), "n": found.get("n"),
    }  # fmt: skip


def _meant(found: Mapping[str, Any], of: str) -> float | None:
    """Return what a statement says of a cell: its estimate, n, half an interval, or its year."""
    if not found or (of == "half_width" and found["low"] is None):
        return None
    if of == "half_width":
        return float((found["high"] - found["low"]) / 2)
    value = found["item"] if of == "year" else found[of]
    return None if value is None else float(value)


_OF = {"n": "number of pairs", "half_width": "half of the interval", "year": "year"}


def text_lines(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return header and lines of a comparison with the text, as texts."""
    header = ["section", "run", "cell", "measure", "paper", "study", "difference"]
    lines = []
    for row in rows:
        unit = row["unit"] or "%"
        ends = [number(row[f"published_{end}"], unit) for end in ("low", "high")]
        parts = (row["survey"], row["prediction"], row["group"], row["item"])
        skipped = (None, "model", "all")
        place = ", ".join(words(part) for part in parts if part not in skipped)
        off = row["difference"]
        lines.append(
            [
                row["section"],
                row["label"] or "",
                f"{row['table']} {place}".strip(),
                _OF.get(row["of"], words(row["measure"])),
                ends[0] if ends[0] == ends[1] else "–".join(ends),
                number(row["estimate"], unit),
                number(off, unit) if off is None or off <= 0 else f"+{number(off, unit)}",
            ]
        )
    return header, lines
