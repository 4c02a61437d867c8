"""Parquet files of our own: written with checksums, read as they were written or not at all.

Only bytes that were read and found wrong are damage. A reader that had no memory, no free file
handle or no permission has seen nothing, and says what it lacked.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronocore import schema, storage
from chronocore.errors import ChronocoreError, StudyError
from chronocore.provenance import changed_column, described, other_name, remedy
from chronocore.storage import write_atomic

__all__ = [
    "DamagedFileError",
    "check_columns",
    "check_name",
    "conformed",
    "damage",
    "decoding",
    "open_parquet",
    "parquet_bytes",
    "read_metadata",
    "read_parquet",
    "write_parquet",
]

#: What a reader may need beside the file before a failure counts as damage.
_LEAST_MEMORY = 16 * 2**20


class DamagedFileError(StudyError):
    """A file of a study cannot be read as Parquet.

    Attributes
    ----------
    path : Path
    cause : str
        What the reader found, in one line.
    """

    def __init__(self, path: Path, cause: str, remedy: str) -> None:
        super().__init__(f"{path} is damaged or no Parquet file ({cause}); {remedy}")
        self.path = path
        self.cause = cause


def parquet_bytes(table: pa.Table, path: Path) -> bytes:
    """Return a table as the bytes of a Parquet file that says what it is.

    Checksums tell a disk that returns other bytes.

    Parameters
    ----------
    table : pyarrow.Table
    path : Path
        Where it will lie; the file names itself after it.
    """
    table = described(table, path)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically."""
    write_atomic(path, parquet_bytes(table, path))


def damage(path: Path, error: BaseException, what: str | None = None) -> ChronocoreError:
    """Return what an error of a reader says about a file: that it is damaged, or what was short.

    Parameters
    ----------
    path : Path
    error : BaseException
        Raised while the content of the file was decoded.
    what : str, optional
        What to do about damage.
    """
    if storage.is_shortage(error):
        return storage.storage_error("read", path, error)
    try:
        # A codec without memory does not always say so.
        bytearray(_LEAST_MEMORY)
    except MemoryError as short:
        return storage.storage_error("read", path, short)
    cause = (str(error).splitlines() or [type(error).__name__])[0]
    return DamagedFileError(path, cause, what or remedy(path))


@contextlib.contextmanager
def decoding(path: Path, what: str | None = None) -> Iterator[None]:
    """Tell damage from shortage in what the block reads of a file.

    Raises
    ------
    DamagedFileError
        The bytes are wrong.
    StorageError
        The reader lacked memory, file handles or permission, or the device failed.
    FileNotFoundError
    """
    try:
        yield
    except (ChronocoreError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise damage(path, error, what) from error
    except Exception as error:
        if storage.is_shortage(error):
            raise storage.storage_error("read", path, error) from error
        raise


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose pages are verified as they are read.

    Of a local file only what is asked for is read; an object comes as a whole.

    Raises
    ------
    DamagedFileError, StorageError, FileNotFoundError
        As for :func:`decoding`, here and in the block.
    """
    with decoding(path), contextlib.ExitStack() as closing:
        if storage.is_remote(path):
            source = pa.BufferReader(storage.read_bytes(path))
        else:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            source = closing.enter_context(pa.OSFile(os.fsencode(path), "rb"))
        # Column chunks are read through a buffer, so that a large one is never there as a whole.
        file = pq.ParquetFile(
            source, page_checksum_verification=True, pre_buffer=False, buffer_size=2**18
        )
        yield file


def read_metadata(path: Path) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet file; no row is read.

    Raises
    ------
    DamagedFileError, StorageError, FileNotFoundError
        As for :func:`decoding`.
    """
    with open_parquet(path) as file:
        return dict(file.metadata.metadata or {})  # not all of it is in the schema


def read_parquet(
    path: Path, expected: pa.Schema | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read a table and check that it is of the schema version this release knows.

    Parameters
    ----------
    path : Path
    expected : pyarrow.Schema, optional
    columns : sequence of str, optional
        Only these; the whole schema is checked all the same.

    Raises
    ------
    StudyError
        The file is missing, damaged, or of another schema or version.
    StorageError
        It could not be read for want of memory, file handles or permission.
    """
    try:
        with open_parquet(path) as file:
            if expected is None:
                # On one thread: those of older pyarrow can abort a process that ends soon after.
                return file.read(columns=columns, use_threads=False)
            check_columns(path, file.schema_arrow, expected)
            table = file.read(columns=columns, use_threads=False)
            metadata = dict(file.metadata.metadata or {})
            check_name(path, metadata)
            changed = changed_column(table, metadata)
            if changed is not None:
                raise DamagedFileError(path, changed, remedy(path))
            return conformed(path, table, expected, columns)
    except FileNotFoundError:
        raise StudyError(
            f"{path} is missing; {remedy(path).removeprefix('delete it and ')}"
        ) from None


def check_name(path: Path, metadata: Mapping[bytes, bytes]) -> None:
    """Refuse a file that was written under another name."""
    name = other_name(path, metadata)
    if name is not None:
        raise StudyError(
            f"{path} was written as {name} (a copy, or files were swapped); move it where it "
            f"belongs or delete it, and {remedy(path).removeprefix('delete it and ')}"
        )


def check_columns(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    """Refuse a file of another table or version, or without the columns it should have."""
    try:
        _check_schema(path, found, expected)
        schema.conform(found.empty_table(), expected)
    except MemoryError:
        raise
    except (KeyError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _misshapen(path, error) from error


def conformed(
    path: Path, table: pa.Table, expected: pa.Schema, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return what was read of a file with the types of its schema."""
    wanted = expected if columns is None else schema.selected(expected, columns)
    try:
        return schema.conform(table, wanted)
    except MemoryError:
        raise
    except pa.ArrowException as error:
        raise _misshapen(path, error) from error


def _misshapen(path: Path, error: Exception) -> StudyError:
    return StudyError(
        f"{path} does not have the columns it should ({str(error).splitlines()[0]}); {remedy(path)}"
    )


def _check_schema(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    metadata = found.metadata or {}
    name = metadata.get(b"chronocore.schema", b"?").decode()
    number = metadata.get(b"chronocore.schema_version", b"?").decode()
    wanted = (expected.metadata or {})[b"chronocore.schema"].decode()
    if name != wanted:
        raise StudyError(f"{path} holds {name!r}, not {wanted!r}; {remedy(path)}")
    if number != str(schema.SCHEMA_VERSION):
        raise StudyError(
            f"{path} has schema version {number}, this chronocore reads "
            f"{schema.SCHEMA_VERSION}; build the study again with this version in a new folder"
        )
