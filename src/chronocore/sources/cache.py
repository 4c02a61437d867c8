"""The wanted columns of a survey file, typed and cached.

A survey file of 1,000 columns takes minutes to decode and a study needs a part of it. The columns
it needs are written once, in the smallest type that holds them, to a Parquet file named by the
digest of the source, the columns and the version of the reader, and read from there afterwards.
The cache lies in the user's cache folder, readable by its user alone, with a digest beside each
file; ``CHRONOCORE_SURVEY_CACHE=0`` keeps nothing (``CHRONOCORE_CACHE=0`` no compiled code either).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronocore.errors import SourceError
from chronocore.sources.files import SurveyFile, file_digest

__all__ = ["cache_folder", "read_columns"]

#: Changes whenever the same source would be read to other values.
READER_VERSION = 2

# Seconds after which an unfinished file belongs to nobody.
_LEFT_BEHIND = 24 * 3600

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_BOUNDS = {kind: 2 ** (kind.bit_width - 1) for kind in _INTEGERS}


def cache_folder() -> Path | None:
    """Return the folder for cached survey files, or None if none can be written or wanted."""
    if "0" in (os.environ.get("CHRONOCORE_SURVEY_CACHE"), os.environ.get("CHRONOCORE_CACHE")):
        return None
    user = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(user) if user else Path.home() / ".cache") / "chronocore" / "surveys"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It holds answers of respondents, also where an older version made it for everyone.
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):
        return None


def read_columns(file: SurveyFile, digest: str | None, columns: Sequence[str]) -> pa.Table:
    """Return columns of a survey file: integers in the smallest type, else float64 or text.

    Parameters
    ----------
    file : SurveyFile
    digest : str or None
        SHA-256 of the file; None for a frame, which is not cached. Neither are Parquet and Arrow
        files, which are as fast to read as the cache would be.
    columns : sequence of str
        Each must be a column of the file.

    Returns
    -------
    pyarrow.Table
        All rows of the file. Text columns are dictionary-encoded.

    Raises
    ------
    SourceError
        The file cannot be read, or has no rows.
    """
    wanted = list(dict.fromkeys(columns))
    if digest is None or file.kind in ("parquet", "arrow", "frame"):
        parts = [_narrow(table) for table in file.batches(wanted)]
        return _checked(_unified(parts, wanted), file)
    folder = cache_folder()
    if folder is None:
        try:
            with tempfile.TemporaryDirectory(prefix="chronocore-") as temporary:
                path = Path(temporary) / "columns.parquet"
                _write(path, file, wanted)
                return _checked(_load(path), file)
        except OSError as error:
            raise SourceError(
                f"{file.name} cannot be decoded in the folder for temporary files, "
                f"{tempfile.gettempdir()} ({_why(error)}); free some space, or name another "
                "folder with TMPDIR"
            ) from error
    path = folder / f"{_key(file, digest, wanted)}.parquet"
    with contextlib.suppress(
        pa.ArrowInvalid, OSError, LookupError, ValueError, TypeError, SourceError
    ):
        table = _verified(path, wanted)
        kept = json.loads(table.schema.metadata[b"chronocore.encoding"])
        file.encoding, file.fallback = kept["encoding"], kept["fallback"]
        return _checked(table, file)
    _sweep(folder)
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        os.close(os.open(temporary_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _write(temporary_path, file, wanted)
        _digest_path(path).unlink(missing_ok=True)
        digest_of = file_digest(temporary_path)
        temporary_path.replace(path)
        handle = os.open(_digest_path(path), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as target:
            target.write(digest_of)
    except OSError as error:
        raise SourceError(
            f"{path} cannot be written ({_why(error)}); free some space, or set "
            "CHRONOCORE_SURVEY_CACHE=0 to keep no cache"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary_path.unlink(missing_ok=True)
    return _checked(_load(path), file)


def _why(error: OSError) -> str:
    # Arrow gives the number of an error and a long text.
    return os.strerror(error.errno) if error.errno else str(error)


def _sweep(folder: Path) -> None:
    """Remove what a process that was killed while it wrote has left behind."""
    with contextlib.suppress(OSError):
        for path in folder.glob(".*"):
            if time.time() - path.stat().st_mtime > _LEFT_BEHIND:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _key(file: SurveyFile, digest: str, columns: Sequence[str]) -> str:
    numbers = sorted(file.number_columns & set(columns))
    text = json.dumps([digest, file.kind, file.encoding, sorted(columns), numbers, READER_VERSION])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _checked(table: pa.Table, file: SurveyFile) -> pa.Table:
    if not len(table):
        raise SourceError(f"{file.name} has no rows")
    return table


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _verified(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read a cached file; one that is damaged anywhere is a ValueError, and decoded again."""
    if _digest_path(path).read_text() != file_digest(path):
        raise ValueError("damaged")
    table = _load(path)
    if set(table.column_names) != set(columns):
        raise ValueError("of other columns")
    return table


def _load(path: Path) -> pa.Table:
    parquet = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
    return _with_dictionaries(parquet.read())


def _integer_type(column: pa.ChunkedArray) -> pa.DataType | None:
    """Return the smallest integer type that holds a column of floats exactly, if there is one."""
    if column.null_count != len(column):
        whole = pc.all(pc.equal(pc.floor(column), column), min_count=0).as_py()
        bounds = pc.min_max(column).as_py()
        low, high = bounds["min"], bounds["max"]
        if not whole or max(-low, high) >= 2.0**53:
            return None
        return next(k for k in _INTEGERS if -_BOUNDS[k] <= low and high < _BOUNDS[k])
    return pa.int8()


def _narrow(table: pa.Table) -> pa.Table:
    """Store every column in the smallest type that holds it exactly."""
    arrays: list[pa.ChunkedArray] = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            arrays.append(column.dictionary_encode())
            continue
        kind = _integer_type(column)
        arrays.append(column if kind is None else column.cast(kind))
    return pa.table(arrays, names=table.column_names)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind))


def _common(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if any(_is_text(kind) for kind in kinds):
        return pa.string()
    if any(pa.types.is_floating(kind) for kind in kinds):
        return pa.float64()
    return max(kinds, key=lambda kind: kind.bit_width)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    if kind == pa.string() and pa.types.is_floating(column.type):
        # "1", not "1.0": a number is the same code wherever in the file it stands.
        integer = _integer_type(column)
        column = column if integer is None else column.cast(integer)
    return column.cast(kind)


def _target(schemas: Sequence[pa.Schema], columns: Sequence[str]) -> list[pa.DataType]:
    return [_common([schema.field(name).type for schema in schemas]) for name in columns]


def _cast(table: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    arrays = [_as(column, kind) for column, kind in zip(table.columns, kinds, strict=True)]
    return pa.table(arrays, names=table.column_names)


def _unified(parts: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    if not parts:
        return pa.table({name: pa.nulls(0, pa.int8()) for name in columns})
    kinds = _target([part.schema for part in parts], columns)
    table = pa.concat_tables([_cast(part, kinds) for part in parts])
    return _with_dictionaries(table)


def _with_dictionaries(table: pa.Table) -> pa.Table:
    arrays = [
        column.dictionary_encode().unify_dictionaries() if _is_text(column.type) else column
        for column in table.columns
    ]
    return pa.table(arrays, names=table.column_names).replace_schema_metadata(table.schema.metadata)


def _write(path: Path, file: SurveyFile, columns: Sequence[str]) -> None:
    """Write the columns of a file, holding one batch of rows in memory at a time.

    The type of a column is known only at the end, so batches are written apart, each as narrow as
    it can be, and then put together.
    """
    with tempfile.TemporaryDirectory(prefix=".parts-", dir=path.parent) as folder:
        parts: list[Path] = []
        for table in file.batches(columns):
            parts.append(Path(folder) / f"{len(parts)}.parquet")
            pq.write_table(_cast_text(_narrow(table)), parts[-1], compression="lz4")
        if not parts:
            raise SourceError(f"{file.name} has no rows")
        schemas = [pq.read_schema(part) for part in parts]
        kinds = _target(schemas, columns)
        kept = {"encoding": file.encoding, "fallback": file.fallback}
        schema = pa.schema(
            list(zip(columns, kinds, strict=True)),
            metadata={"chronocore.encoding": json.dumps(kept)},
        )
        with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
            for table in _tables(parts):
                writer.write_table(_cast(table, kinds))


def _cast_text(table: pa.Table) -> pa.Table:
    kinds = [pa.string() if _is_text(c.type) else c.type for c in table.columns]
    return _cast(table, kinds)


def _tables(parts: Sequence[Path]) -> Iterator[pa.Table]:
    for part in parts:
        yield pq.ParquetFile(part).read()
