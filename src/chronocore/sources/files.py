"""Survey files of any format, as columns of codes.

SPSS (``.sav``, ``.zsav``) and Stata (``.dta``) files are read by pyreadstat, text by Arrow's CSV
reader, Parquet and Arrow files and frames by Arrow. All of them give the same: names, labels,
declared missing codes, and the wanted columns in batches of rows, numeric (float64, Stata's missing
letters as :data:`~chronocore.sources.presets.LETTERS`) or text.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import difflib
import errno
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from chronocore.arrow import frame_table
from chronocore.errors import MissingDependencyError, SourceError
from chronocore.sources.presets import LETTERS
from chronocore.text import plain

__all__ = [
    "FORMATS",
    "SurveyFile",
    "file_digest",
    "is_blank",
    "near",
    "open_frame",
    "open_survey_file",
    "parse_number",
    "parse_text",
]

#: Format of a file by the end of its name.
FORMATS: Mapping[str, str] = {
    ".sav": "spss",
    ".zsav": "spss",
    ".dta": "stata",
    ".csv": "text",
    ".tsv": "text",
    ".tab": "text",
    ".txt": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

# Tried in this order where a file does not say, or says wrongly, how its text is encoded. The
# last one decodes anything.
ENCODINGS = ("utf-8", "cp1252", "latin1")

# Characters of a question's wording.
LONGEST_WORDING = 2000

# The script that reads SPSS and Stata files.
_CHILD = Path(__file__).with_name("statistical_child.py")

# What Arrow raises on damaged files.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, MemoryError)

# Cells held as Python objects at a time, about 32 bytes each.
CELLS_PER_CHUNK = 20_000_000

# Integers from here on are not all numbers of their own.
_EXACT = 2.0**53

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_EMPTY = frozenset({"", "."})
_BLANK = frozenset({"na", "n/a", "nan", "null", "none", "#null!"})
_LETTER = re.compile(r"\.([a-z])")


@dataclass(slots=True)
class SurveyFile:
    """One survey file, opened: its columns are known, its rows are not read.

    Attributes
    ----------
    name : str
        For messages: the file's name, or what a frame is called.
    path : Path or None
    kind : {"spss", "stata", "text", "parquet", "arrow", "frame"}
    columns : tuple of str
        Names as the file has them, without stray quotes and without the label that some exports
        append to a name.
    labels : dict of str to str
        Variable labels by column.
    value_labels : dict of str to dict of int to str
        Value labels by column and code, Stata's letters as their codes.
    text_labels : dict of str to dict of str to str
        Value labels of columns that hold text in place of codes.
    user_missing : dict of str to list of (float, float)
        Ranges that the file declares missing, by column.
    rows : int or None
        Number of rows, where the file says.
    encoding : str or None
        How text is decoded; None where the file's own declaration holds.
    fallback : bool
        Whether ``encoding`` was found by trying.
    number_columns : frozenset of str
        Columns of years, weights and ids, in which a word like ``NA`` is a blank. Elsewhere it may
        be a code or a label: ``NA`` is Namibia, and ``None`` is an answer.
    """

    name: str
    path: Path | None
    kind: str
    columns: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)
    value_labels: dict[str, dict[int, str]] = field(default_factory=dict)
    text_labels: dict[str, dict[str, str]] = field(default_factory=dict)
    user_missing: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    rows: int | None = None
    encoding: str | None = None
    fallback: bool = False
    declared_encoding: str | None = None
    text_columns: frozenset[str] = frozenset()
    table: pa.Table | None = None
    delimiter: str = ","
    raw_columns: tuple[str, ...] = ()
    number_columns: frozenset[str] = frozenset()
    _by_name: dict[str, list[str]] = field(default_factory=dict)

    def find(self, name: str, *, guessed: bool = False) -> str | None:
        """Return the column of this name, without regard to case; an exact match comes first.

        Parameters
        ----------
        name : str
        guessed : bool
            A preset or a catalog has the name, the user did not write it: an exact match is not
            enough where there are others.

        Raises
        ------
        SourceError
            Several columns differ in case only: a merged file may go on in one where the other
            ends.
        """
        if not self._by_name:
            for column in self.columns:
                self._by_name.setdefault(column.casefold(), []).append(column)
        found = self._by_name.get(name.casefold(), [])
        if len(found) > 1:
            if name in found and not guessed:
                return name
            raise SourceError(
                f"{self.name} has the columns {' and '.join(found)}, which differ in case only; "
                f"put them into one, or write the one to use for {name!r} or rename the other"
            )
        return found[0] if found else None

    def first(self, names: Sequence[str], *, guessed: bool = False) -> str | None:
        """Return the column of the first of several names that the file has."""
        found = (self.find(name, guessed=guessed) for name in names)
        return next((column for column in found if column is not None), None)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read the wanted columns, some rows at a time.

        Columns come as float64 (Stata's letters as their codes) or string; a column may be of one
        type in one batch and of the other in the next.

        Raises
        ------
        SourceError
            The file cannot be read or decoded.
        """
        if self.kind in ("spss", "stata"):
            return _statistical_batches(self, columns)
        if self.kind == "text":
            return _text_batches(self, columns)
        return _arrow_batches(self, columns)


def near(name: str, known: Sequence[str]) -> str:
    """Return the names most like one that is not known, as the end of a message."""
    folded = {entry.casefold(): entry for entry in known}
    near = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.5)
    return f"; nearest: {', '.join(folded[n] for n in near)}" if near else ""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex digits."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None


def open_survey_file(path: Path, encoding: str | None = None) -> SurveyFile:
    """Open a survey file and read what it says about its columns.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        How its text is encoded; by default what the file declares, or what decodes it.

    Raises
    ------
    SourceError
        The file is missing, of no known format, damaged, or cannot be decoded.
    MissingDependencyError
        The format needs pyreadstat, which is not installed.
    """
    if path.is_dir():
        raise SourceError(_no_file(path))
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise SourceError(
            f"{path}: files that end in {path.suffix or 'nothing'!r} are not read; save it as one "
            f"of {', '.join(FORMATS)}"
        )
    if not path.is_file():
        raise SourceError(_no_file(path))
    try:
        path.open("rb").close()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
    if kind != "text" and path.stat().st_size == 0:
        raise SourceError(f"{path} is empty: 0 bytes; copy or download it again")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise SourceError(f"{path}: there is no encoding {encoding!r}") from None
    if kind in ("spss", "stata"):
        return _open_statistical(path, kind, encoding)
    if kind == "text":
        return _open_text(path, encoding)
    if encoding is not None:
        raise SourceError(f"{path}: text in {kind} files is UTF-8; leave encoding out")
    return _open_arrow(path, kind)


def _no_file(path: Path) -> str:
    if path.exists():
        return f"{path} is a folder; name a file in it"
    try:
        beside = [p.name for p in sorted(path.parent.iterdir()) if p.suffix.lower() in FORMATS]
    except OSError:
        return f"there is no file {path}, and no folder {path.parent}"
    near = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.5) or beside[:3]
    return f"there is no file {path}" + (f"; its folder has {', '.join(near)}" if near else "")


def open_frame(frame: object, name: str) -> SurveyFile:
    """Take any Arrow-compatible frame (polars, pyarrow, pandas, DuckDB) for a survey file."""
    table = frame_table(frame, name)
    return _with_names(
        SurveyFile(name=name, path=None, kind="frame", columns=(), rows=len(table), table=table),
        table.column_names,
    )


# -- names ---------------------------------------------------------------------------------------


def _with_names(file: SurveyFile, raw: Sequence[str]) -> SurveyFile:
    """Clean column names: stray quotes go, and ``Q1: label`` is a name and its label."""
    names: list[str] = []
    for column in raw:
        # A column without a name cannot be asked for.
        text = "\n".join(plain(line, None) for line in str(column or "").split("\n"))
        text = text.strip().strip("\ufeff").strip("\"'“”").strip()
        name, separator, label = text.partition(": ")
        if separator and re.fullmatch(r"\w+", name):
            file.labels.setdefault(name, plain(label, LONGEST_WORDING))
            text = name
        names.append(text)
    twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
    if twice is not None:
        raise SourceError(
            f"{file.name} has the column {twice!r} twice; rename or remove one of them"
        )
    file.columns = tuple(names)
    file.raw_columns = tuple(raw)
    return file


# -- SPSS and Stata ------------------------------------------------------------------------------


def _pyreadstat(path: Path) -> Any:
    try:
        import pyreadstat
    except ImportError:
        raise MissingDependencyError(
            f"reading {path.name} needs the package pyreadstat, which is not installed; "
            "install it with: pip install 'chronocore[surveys]'"
        ) from None
    return pyreadstat


class _DecodingError(Exception):
    """Text of a file is in another encoding than was tried."""


def _read_statistical(path: Path, kind: str, **options: Any) -> tuple[dict[str, Any], pa.Table]:
    """Read a file in a child process: what crashes the reader of a damaged one ends that alone.

    Returns
    -------
    result : dict
        What ``statistical_child`` says of the columns.
    table : pyarrow.Table
        The rows; empty if only columns were asked for.
    """
    _pyreadstat(path)
    with tempfile.TemporaryDirectory(prefix="chronocore-") as name:
        folder = Path(name)
        asked = {"path": str(path.absolute()), "kind": kind, "options": options}
        (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
        places = [place for place in sys.path if place]
        done = subprocess.run(
            [sys.executable, "-P", "-X", "utf8", str(_CHILD), name],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        )
        said = folder / "result.json"
        if done.returncode != 0 or not said.is_file():
            raise _reader_died(path, done)
        result: dict[str, Any] = json.loads(said.read_text(encoding="utf-8"))
        if "error" in result:
            raise _reading_failed(path, str(result["error"]), str(result["text"]))
        rows = folder / "rows.arrow"
        if not rows.is_file():
            return result, pa.table({})
        with pa.OSFile(str(rows), "rb") as source:
            return result, pa.ipc.open_file(source).read_all()


def _reader_died(path: Path, done: subprocess.CompletedProcess[bytes]) -> SourceError:
    killed = done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    if killed or b"MemoryError" in done.stderr or b"Cannot allocate" in done.stderr:
        return SourceError(_short_of(path, "memory"))
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return SourceError(
        f"{path} cannot be read (its reader crashed, {how}); it is damaged, incomplete, or of "
        "another format than its name says"
    )


def _reading_failed(path: Path, kind: str, text: str) -> Exception:
    folded = text.lower()
    if kind == "memory" or "unable to allocate memory" in folded:
        return SourceError(_short_of(path, "memory"))
    if kind == "decoding" or "convert" in folded or "encoding" in folded:
        return _DecodingError(text)
    return _cannot_read(path, ValueError(text or kind))


def _short_of(path: Path, what: str) -> str:
    return (
        f"{path} cannot be read: not enough {what}; the file is as it was. Close other programs, "
        "raise the limit, or name fewer questions with variables"
    )


def _cannot_read(path: Path, error: Exception) -> SourceError:
    """Return what to say; only what was read and found wrong is called damage."""
    if isinstance(error, MemoryError):
        return SourceError(_short_of(path, "memory"))
    number = getattr(error, "errno", None)
    if number in (errno.EMFILE, errno.ENFILE):
        return SourceError(_short_of(path, "file handles"))
    if number == errno.ENOMEM:
        return SourceError(_short_of(path, "memory"))
    if isinstance(error, OSError) and number is not None and number != errno.EINVAL:
        return SourceError(f"{path} cannot be read: {os.strerror(number)}")
    text = str(error).strip().splitlines()
    return SourceError(
        f"{path} cannot be read ({plain(text[0]) if text else type(error).__name__}); it is "
        "damaged, incomplete, or of another format than its name says"
    )


def _cannot_decode(path: Path, tried: Sequence[str | None]) -> SourceError:
    names = ", ".join(name or "the file's own declaration" for name in tried)
    return SourceError(
        f'{path} cannot be decoded; tried {names}. Name its encoding in [[sources]]: encoding = "…"'
    )


def _code(value: Any, is_text: bool) -> int | None:
    """Return a labelled value as a code; words, fractions and NaN have none.

    A letter stands for a missing value in Stata's numbers, and for itself in a column of text.
    """
    if isinstance(value, str):
        if not is_text:
            return LETTERS.get(value.lstrip(".").lower())
        value = parse_number(value.strip())
    number = math.nan if value is None else float(value)
    return int(number) if math.isfinite(number) and number == int(number) else None


def _fallbacks(kind: str) -> Sequence[str]:
    """Return the encodings to try where the file's own fails.

    Stata files that do not say are UTF-8 already; asked for by name, a cut-off character at the
    end of a text would be dropped in silence.
    """
    return ENCODINGS[1:] if kind == "stata" else ENCODINGS


def _open_statistical(path: Path, kind: str, encoding: str | None) -> SurveyFile:
    tried: list[str | None] = [encoding] if encoding else [None, *_fallbacks(kind)]
    for attempt in tried:
        try:
            metadata, _ = _read_statistical(path, kind, metadataonly=True, encoding=attempt)
        except _DecodingError:
            continue
        break
    else:
        raise _cannot_decode(path, tried)
    file = SurveyFile(
        name=path.name,
        path=path,
        kind=kind,
        columns=(),
        rows=metadata["rows"],
        encoding=attempt,
        fallback=attempt is not None and encoding is None,
        declared_encoding=metadata["encoding"],
    )
    for column, label in metadata["labels"].items():
        if label:
            file.labels[column] = plain(label, LONGEST_WORDING)
    kinds = metadata["kinds"]
    file.text_columns = frozenset(c for c in metadata["names"] if kinds.get(c) == "string")
    for column, values in metadata["value_labels"].items():
        is_text = column in file.text_columns
        read = [(_code(value, is_text), plain(label)) for value, label in values]
        codes = {code: label for code, label in read if code is not None}
        if is_text and len(codes) < len(values):
            file.text_labels[column] = {str(v).strip(): plain(label) for v, label in values}
        else:
            file.value_labels[column] = codes
    for column, ranges in metadata["missing_ranges"].items():
        file.user_missing[column] = [
            (float(entry["lo"]), float(entry["hi"]))
            for entry in ranges
            if not isinstance(entry["lo"], str)
        ]
    # Names of these formats are clean; labels stand beside them.
    file.columns = file.raw_columns = tuple(name for name in metadata["names"] if name)
    return file


def _statistical_batches(file: SurveyFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    size = max(1_000, CELLS_PER_CHUNK // max(1, len(columns)))
    start = 0
    while True:
        table = _statistical_rows(file, columns, start, size)
        if len(table):
            arrays = [
                parse_text(table.column(c), verbatim=c not in file.number_columns)
                if c in file.text_columns
                else table.column(c)
                for c in columns
            ]
            yield pa.table(arrays, names=list(columns))
        start += len(table)
        # A header need not say how many rows there are; a short read is the end.
        if len(table) < size or (file.rows is not None and start >= file.rows):
            return


def _statistical_rows(file: SurveyFile, columns: Sequence[str], start: int, size: int) -> pa.Table:
    path = file.path
    assert path is not None
    tried: list[str | None] = [file.encoding]
    if file.encoding is None or file.fallback:
        tried += [name for name in _fallbacks(file.kind) if name != file.encoding]
    for attempt in tried:
        try:
            _, table = _read_statistical(
                path,
                file.kind,
                usecols=list(columns),
                encoding=attempt,
                row_offset=start,
                row_limit=size,
            )
        except _DecodingError:
            continue
        if attempt != file.encoding:
            file.encoding, file.fallback = attempt, True
        return table
    raise _cannot_decode(path, tried)


# -- text ----------------------------------------------------------------------------------------


def _text_encoding(path: Path, encoding: str | None) -> tuple[str, bool]:
    """Return the encoding that decodes the whole file, and whether it is a fall-back."""
    for attempt in (encoding,) if encoding else _candidates(path):
        decoder = codecs.getincrementaldecoder(attempt)()
        try:
            with path.open("rb") as handle:
                while block := handle.read(1 << 20):
                    decoder.decode(block)
                decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            continue
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
        # A byte order mark is a declaration, not a guess.
        return attempt, encoding is None and attempt not in (ENCODINGS[0], "utf-16")
    raise _cannot_decode(path, [encoding])


def _candidates(path: Path) -> Sequence[str]:
    """Return the encodings to try; one byte a letter decodes anything, so look first."""
    with contextlib.suppress(OSError), path.open("rb") as handle:
        start = handle.read(1 << 16)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return ("utf-16",)
        if b"\0" in start:
            raise SourceError(
                f"{path} is no text (it holds NUL bytes): it is of another format than its name "
                'says, or encoded in UTF-16; then say so in [[sources]]: encoding = "utf-16-le"'
            )
    return ENCODINGS


def _open_text(path: Path, encoding: str | None) -> SurveyFile:
    found, fallback = _text_encoding(path, encoding)
    with path.open(encoding="utf-8-sig" if found == "utf-8" else found, newline="") as handle:
        line = handle.readline()
        if not line.strip():
            raise SourceError(f"{path} is empty or has no header line")
        # A comma inside quotes is none.
        bare = re.sub(r'"[^"]*"', "", line)
        delimiter = max("\t;,|", key=bare.count) if any(map(bare.count, "\t;,|")) else ","
        handle.seek(0)
        try:
            header = next(csv.reader(handle, delimiter=delimiter))
        except csv.Error as error:
            raise SourceError(
                f"{path}: the header line cannot be read ({error}); it names the columns"
            ) from None
    file = SurveyFile(
        name=path.name,
        path=path,
        kind="text",
        columns=(),
        encoding=found,
        fallback=fallback,
        delimiter=delimiter,
    )
    return _with_names(file, header)


def _text_batches(file: SurveyFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    assert file.path is not None
    places = [file.columns.index(column) for column in columns]
    names = [f"c{i}" for i in range(len(file.columns))]
    wanted = [names[i] for i in places]
    assert file.encoding is not None
    uneven: list[Any] = []

    def remember(row: Any) -> str:
        # What a handler raises is lost; what it keeps is not.
        uneven.append(row)
        return "error"

    try:
        reader = pa.csv.open_csv(
            file.path,
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows_after_names=1,
                encoding="utf8" if file.encoding == "utf-8" else file.encoding,
                block_size=16 << 20,
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=file.delimiter,
                newlines_in_values=True,
                invalid_row_handler=remember,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            arrays = [
                parse_text(
                    batch.column(i), file.delimiter, verbatim=columns[i] not in file.number_columns
                )
                for i in range(len(wanted))
            ]
            yield pa.table(arrays, names=list(columns))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _uneven(file, uneven[0]) if uneven else _cannot_read(file.path, error) from None


def _uneven_line(file: SurveyFile, expected: int) -> int | None:
    """Return the line of the first row that has another number of fields."""
    assert file.path is not None
    with (
        contextlib.suppress(OSError, UnicodeDecodeError, csv.Error),
        file.path.open(encoding=file.encoding, newline="") as handle,
    ):
        rows = csv.reader(handle, delimiter=file.delimiter)
        # A blank line is no row.
        return next((rows.line_num for row in rows if row and len(row) != expected), None)
    return None


def _uneven(file: SurveyFile, row: Any) -> SourceError:
    start = row.text if len(row.text) <= 80 else f"{row.text[:80]}…"
    line = _uneven_line(file, row.expected_columns)
    where = "" if line is None else f", line {line}"
    return SourceError(
        f"{file.path}{where}: {row.actual_columns} fields where the header names "
        f"{row.expected_columns} ({start!r}); the file is damaged, or a field that holds "
        f"{file.delimiter!r} is not in quotes"
    )


def parse_text(
    column: pa.Array | pa.ChunkedArray, delimiter: str = ",", *, verbatim: bool = False
) -> pa.Array:
    """Return a text column as numbers if all of it are, else as text.

    ``1``, ``1.0`` and `` 1`` are one number; blanks are null; ``.a`` to ``.z`` are missing letters.
    In files separated by semicolons a comma is a decimal point. Among texts, words such as ``NA``
    and ``None`` are null too, unless ``verbatim``.

    Examples
    --------
    >>> parse_text(pa.array(["1.0", " 1", "", ".a"])).to_pylist()
    [1.0, 1.0, None, -32700.0]
    >>> parse_text(pa.array(["1", " agree"])).to_pylist()
    ['1', 'agree']
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [None if t is None else str(t).strip() for t in encoded.dictionary.to_pylist()]
    numbers = [parse_number(text, delimiter) for text in texts]
    empty = [text is None or text in _EMPTY for text in texts]
    word = [text is not None and is_blank(text) for text in texts]
    numeric = all(n is not None or e or w for n, e, w in zip(numbers, empty, word, strict=True))
    words_only = verbatim and any(word) and all(number is None for number in numbers)
    # Digits that a number would not keep: the ids of two respondents would become one.
    exact = not any(
        n is not None and abs(n) >= _EXACT and text is not None and re.fullmatch(r"[-+]?\d+", text)
        for n, text in zip(numbers, texts, strict=True)
    )
    if numeric and exact and not words_only:
        values = pa.array(numbers, pa.float64())
    else:
        kept = [
            None if e or (w and not verbatim) else text
            for text, e, w in zip(texts, empty, word, strict=True)
        ]
        values = pa.array(kept, pa.string())
    return values.take(encoded.indices)


def is_blank(text: str) -> bool:
    """Tell whether a text stands for no value, as other programs write it.

    Examples
    --------
    >>> is_blank("NaN"), is_blank(" "), is_blank("no")
    (True, True, False)
    """
    return text.strip() in _EMPTY or text.strip().casefold() in _BLANK


def parse_number(text: str | None, delimiter: str = ",") -> float | None:
    """Return the number, or the code of the missing letter, that a text is, or None."""
    if text is None:
        return None
    if delimiter == ";" and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    if _NUMBER.fullmatch(text):
        return float(text)
    letter = _LETTER.fullmatch(text.lower())
    return None if letter is None else float(LETTERS[letter[1]])


# -- Arrow ---------------------------------------------------------------------------------------


def _open_arrow(path: Path, kind: str) -> SurveyFile:
    try:
        if kind == "parquet":
            parquet = pq.ParquetFile(path, page_checksum_verification=True)
            names, rows, table = parquet.schema_arrow.names, parquet.metadata.num_rows, None
        else:
            table = pa.feather.read_table(path, memory_map=True)
            # What is not checked here would be read past its end later.
            table.validate(full=True)
            names, rows = table.column_names, len(table)
    except _UNREADABLE as error:
        raise _cannot_read(path, error) from None
    file = SurveyFile(name=path.name, path=path, kind=kind, columns=(), rows=rows, table=table)
    return _with_names(file, names)


def _arrow_batches(file: SurveyFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    raw = [file.raw_columns[file.columns.index(column)] for column in columns]
    if file.table is not None:
        tables: Iterator[pa.Table] = iter([file.table.select(raw)])
    else:
        assert file.path is not None
        tables = _parquet_tables(file.path, raw)
    for table in tables:
        arrays = [
            _arrow_column(
                table.column(i), file.name, columns[i], columns[i] not in file.number_columns
            )
            for i in range(len(raw))
        ]
        yield pa.table(arrays, names=list(columns))


def _parquet_tables(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    size = max(1_000, CELLS_PER_CHUNK // max(1, len(columns)))
    try:
        parquet = pq.ParquetFile(path, page_checksum_verification=True)
        for batch in parquet.iter_batches(batch_size=size, columns=list(columns)):
            batch.validate(full=True)
            yield pa.Table.from_batches([batch])
    except _UNREADABLE as error:
        raise _cannot_read(path, error) from None


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as their values; Arrow itself does not decode all types of text."""
    chunks: list[pa.Array] = []
    kind = column.type.value_type
    if "string" in str(kind):
        kind = pa.string()
    for chunk in column.chunks:
        values = chunk.dictionary.cast(kind)
        chunks.append(values.take(chunk.indices.cast(pa.int64())))
    return pa.chunked_array(chunks, kind)


def _arrow_column(
    column: pa.ChunkedArray, where: str, name: str, verbatim: bool
) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # Categories of any kind: polars' Categorical and Enum have types of their own.
        column = _decoded(column)
        kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pc.year(column).cast(pa.float64())
    if pa.types.is_floating(kind):
        # What pandas calls missing is NaN.
        values = column.cast(pa.float64())
        return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        try:
            return column.cast(pa.float64())
        except pa.ArrowInvalid:
            # An integer that a number would not keep.
            return parse_text(column.cast(pa.string()), verbatim=verbatim)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return parse_text(column, verbatim=verbatim)
    if str(kind) == "string_view":
        return parse_text(column.cast(pa.string()), verbatim=verbatim)
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(column), pa.float64())])
    raise SourceError(f"{where}, column {name}: a column of type {kind} holds no answers")
