"""Write a laid-out file as SPSS, Stata, CSV or Parquet."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Layout", "write"]


@dataclass
class Layout:
    """Columns by name, with what SPSS and Stata files say about them.

    ``missing`` lists SPSS user-missing codes and ranges; ``letters`` maps codes to the letters
    that a Stata file has in their place.
    """

    columns: dict[str, list] = field(default_factory=dict)
    value_labels: dict[str, dict[int, str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    missing: dict[str, list] = field(default_factory=dict)
    letters: dict[int, str] = field(default_factory=dict)


def _frame(layout, *, letters):
    import pandas as pd

    columns = {}
    for name, values in layout.columns.items():
        if any(isinstance(value, str) for value in values):
            columns[name] = pd.Series([value or "" for value in values], dtype=object)
        elif letters and any(value in letters for value in values if value is not None):
            columns[name] = pd.Series(
                [letters.get(v, math.nan if v is None else float(v)) for v in values], dtype=object
            )
        else:
            columns[name] = pd.Series(
                [math.nan if v is None else v for v in values], dtype="float64"
            )
    return pd.DataFrame(columns)


def write(layout: Layout, path: Path) -> Path:
    """Write the file; its suffix decides the format."""
    kind = path.suffix
    if kind == ".csv":
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(layout.columns)
            for row in zip(*layout.columns.values(), strict=True):
                writer.writerow(["" if value is None else value for value in row])
        return path
    if kind == ".parquet":
        arrays = {}
        for name, values in layout.columns.items():
            text = any(isinstance(value, str) for value in values)
            real = any(isinstance(value, float) for value in values)
            arrays[name] = pa.array(
                values, pa.string() if text else pa.float64() if real else pa.int64()
            )
        pq.write_table(pa.table(arrays), path, row_group_size=200)
        return path
    import pyreadstat

    labels = [layout.labels.get(name) or name for name in layout.columns]
    if kind in (".sav", ".zsav"):
        pyreadstat.write_sav(
            _frame(layout, letters={}),
            str(path),
            column_labels=labels,
            variable_value_labels=layout.value_labels,
            missing_ranges=layout.missing,
            compress=kind == ".zsav",
        )
        return path
    assert kind == ".dta", kind
    used = {
        name: sorted({layout.letters[v] for v in values if v in layout.letters})
        for name, values in layout.columns.items()
    }
    # A letter that no row has cannot be labelled.
    named = {
        column: {
            layout.letters.get(code, code): label
            for code, label in options.items()
            if code not in layout.letters or layout.letters[code] in used[column]
        }
        for column, options in layout.value_labels.items()
    }
    pyreadstat.write_dta(
        _frame(layout, letters=layout.letters),
        str(path),
        column_labels=labels,
        variable_value_labels=named,
        missing_user_values={name: letters for name, letters in used.items() if letters},
        version=15,
    )
    return path
