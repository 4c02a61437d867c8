"""CSV and Parquet files of the user: read whole, or a reason why not."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronocore.errors import ConfigurationError

__all__ = ["blank", "read_own_file", "whole_number"]

#: What other programs write where there is no value.
_BLANK = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})

#: Longest text of one field; the reader's own bound is shorter than many answers.
_LARGEST_FIELD = 1 << 27


def blank(value: object) -> bool:
    """Tell whether a field holds no value, however a program spells that.

    Examples
    --------
    >>> blank(""), blank(" NA "), blank(float("nan")), blank(0)
    (True, True, True, False)
    """
    if isinstance(value, float):
        return value != value
    return value is None or (isinstance(value, str) and value.strip().casefold() in _BLANK)


def whole_number(value: object) -> int | None:
    """Return a field as a whole number, None where it is none.

    Examples
    --------
    >>> whole_number("3"), whole_number(3.0), whole_number("3.5"), whole_number("x")
    (3, 3, None, None)
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    whole = number == number and abs(number) < 2**53 and number == int(number)
    return int(number) if whole and not isinstance(value, bool) else None


def read_own_file(path: Path, about: str) -> pa.Table:
    """Read a CSV file, all of it as text, or a Parquet file.

    Parameters
    ----------
    path : Path
        A name that ends in ``.csv`` is a CSV file, separated by commas, in UTF-8.
    about : str
        What the file holds, for messages.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    ConfigurationError
        The file is missing, damaged, no such file, or separated by something else.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name the file of {about} in it")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from None
    if path.suffix.lower() == ".csv":
        return _csv_table(path, content, about)
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        table = file.read(use_threads=False)
        table.validate(full=True)
    except MemoryError:
        raise
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigurationError(
            f"{path} is no readable Parquet file or is damaged ({cause}); a file of {about} is "
            "Parquet, or CSV with a name that ends in .csv"
        ) from None
    return _distinct(table, path)


def _distinct(table: pa.Table, path: Path) -> pa.Table:
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{path} has the column {twice!r} twice; keep one")
    return table


def _csv_table(path: Path, content: bytes, about: str) -> pa.Table:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path}, line {line} is not UTF-8; save the file as CSV in UTF-8"
        ) from None
    if "\0" in text:
        raise ConfigurationError(f"{path} holds NUL bytes and is no CSV file of {about}")
    csv.field_size_limit(_LARGEST_FIELD)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if len(header) == 1:
            other = next((mark for mark in ";\t|" if mark in header[0]), None)
            if other is not None:
                raise ConfigurationError(
                    f"{path} is separated by {other!r}; save it separated by commas (with a point "
                    "in decimal numbers)"
                )
        columns: list[list[str]] = [[] for _ in header]
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise ConfigurationError(
                    f"{path}, line {rows.line_num}: {len(row)} fields where the header names "
                    f"{len(header)}; a text that holds a comma must be in quotes"
                )
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    except csv.Error as error:
        raise ConfigurationError(f"{path}, line {rows.line_num}: {error}") from None
    if not any(header):
        raise ConfigurationError(f"{path} is empty or has no header line")
    named = pa.table([pa.array(column, pa.string()) for column in columns], names=header)
    return _distinct(named, path)
