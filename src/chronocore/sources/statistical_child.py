"""Read SPSS and Stata files in a process of its own.

The C reader of these files can crash on damaged ones, and would take the program with it. This file
is run as a script, knows nothing of chronocore and leaves what it read in a folder: ``result.json``
and, for rows, ``rows.arrow``. It ends normally also where the file cannot be read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]


def _column(values: list[Any], is_text: bool) -> Any:
    import pyarrow as pa

    if is_text:
        return pa.array(values, pa.string())
    try:
        return pa.array(values, pa.float64(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        # Numbers among Stata's missing letters, which stand below every code.
        codes = [-32700.0 - (ord(v.lower()) - 97) if isinstance(v, str) else v for v in values]
        return pa.array(codes, pa.float64(), from_pandas=True)


def _labels(metadata: Any) -> dict[str, list[list[Any]]]:
    return {
        column: [[value, str(label)] for value, label in values.items()]
        for column, values in metadata.variable_value_labels.items()
    }


def _read(folder: Path) -> dict[str, Any]:
    import pyarrow as pa
    import pyreadstat

    asked = json.loads((folder / "asked.json").read_text(encoding="utf-8"))
    read = pyreadstat.read_sav if asked["kind"] == "spss" else pyreadstat.read_dta
    data, metadata = read(
        asked["path"],
        output_format="dict",
        user_missing=True,
        disable_datetime_conversion=True,
        **asked["options"],
    )
    kinds = metadata.readstat_variable_types
    if asked["options"].get("metadataonly"):
        return {
            "names": list(metadata.column_names),
            "labels": metadata.column_names_to_labels,
            "value_labels": _labels(metadata),
            "missing_ranges": metadata.missing_ranges,
            "kinds": kinds,
            "rows": metadata.number_rows,
            "encoding": metadata.file_encoding,
        }
    columns = asked["options"]["usecols"]
    arrays = [_column(data.pop(c), kinds.get(c) == "string") for c in columns]
    table = pa.table(arrays, names=columns)
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    return {"rows": len(table)}


def main() -> None:
    """Read what ``asked.json`` in the folder asks for."""
    folder = Path(sys.argv[1])
    try:
        result = _read(folder)
        text = json.dumps(result, default=str)
    except MemoryError:
        text = json.dumps({"error": "memory", "text": ""})
    except Exception as error:
        kind = "decoding" if isinstance(error, UnicodeDecodeError) else type(error).__name__
        text = json.dumps({"error": kind, "text": str(error)})
    (folder / "result.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
