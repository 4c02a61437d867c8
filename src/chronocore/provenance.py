"""What a file of a study says of itself, and whether it still is what was written.

Every Parquet file names itself and carries a digest of each column, every JSON file one of what it
says. A file that was swapped, copied, edited or cut by something else is told by name, with the
command that makes it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "ColumnDigests",
    "JsonError",
    "changed_column",
    "described",
    "named",
    "other_name",
    "remedy",
    "sealed",
    "sha256",
    "unsealed",
]

#: Where a Parquet file says under which name it was written.
FILE_METADATA = b"chronocore.file"
#: Where it carries the number of its rows and the digest of each column.
COLUMNS_METADATA = b"chronocore.columns"

_SEAL = "sha256"


class JsonError(ValueError):
    """A JSON file cannot be read, or does not say what was written."""


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


# -- Parquet ---------------------------------------------------------------------------------------


class _ColumnDigest:
    """The digest of a column of any type, however it is cut into chunks."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def _add(self, depth: int, content: Any) -> None:
        while len(self._parts) <= depth:
            self._parts.append(hashlib.sha256())
        self._parts[depth].update(content)

    def update(self, values: pa.Array, depth: int = 0) -> None:
        """Add the values of a chunk: which are there, how long they are, and what they are."""
        kind = values.type
        if pa.types.is_dictionary(kind):
            values = values.dictionary_decode()
            kind = values.type
        there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        self._add(depth, np.ascontiguousarray(there).view(np.uint8))
        if pa.types.is_null(kind):
            return
        if pa.types.is_struct(kind):
            for number, field in enumerate(values.flatten()):
                self.update(field, depth + 10 * (number + 1))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
            self._add(depth + 1, np.ascontiguousarray(lengths.to_numpy(zero_copy_only=False)))
            self.update(pc.list_flatten(values), depth + 2)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            lengths = pc.fill_null(pc.binary_length(values), 0).cast(pa.int64())
            self._add(depth + 1, np.ascontiguousarray(lengths.to_numpy(zero_copy_only=False)))
            self._add(depth + 2, _text(values))
        else:
            if pa.types.is_boolean(kind):
                values = values.cast(pa.uint8())
            elif pa.types.is_timestamp(kind):
                values = values.cast(pa.int64())
            numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
            self._add(depth + 1, np.ascontiguousarray(numbers).view(np.uint8))

    def hex(self) -> str:
        """Return the digest so far, 32 hexadecimal digits."""
        whole = hashlib.sha256(b"".join(part.digest() for part in self._parts))
        return whole.hexdigest()[:32]


def _text(values: pa.Array) -> memoryview:
    """Return the bytes of the texts of a chunk, one behind the other; none of nulls."""
    if values.null_count:
        values = pc.fill_null(values, "")
    if not len(values):
        return memoryview(b"")
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, width, len(values) + 1, values.offset * width().itemsize)
    return memoryview(content or b"")[int(ends[0]) : int(ends[-1])]


class ColumnDigests:
    """The digests of the columns of a table that comes in pieces."""

    def __init__(self) -> None:
        self._columns: dict[str, _ColumnDigest] = {}
        self._n_rows = 0

    def update(self, table: pa.Table | pa.RecordBatch) -> None:
        """Add rows."""
        self._n_rows += table.num_rows
        for name, column in zip(table.schema.names, table.columns, strict=True):
            digest = self._columns.setdefault(name, _ColumnDigest())
            for chunk in getattr(column, "chunks", [column]):
                digest.update(chunk)

    def metadata(self) -> dict[bytes, bytes]:
        """Return what goes into the metadata of the file."""
        columns = {name: digest.hex() for name, digest in self._columns.items()}
        return {COLUMNS_METADATA: json.dumps({"rows": self._n_rows, **columns}).encode()}

    def changed(self, metadata: Mapping[bytes, bytes]) -> str | None:
        """Return which of these columns is not the one the metadata tells of, if any.

        A file that carries no digests, as those of earlier versions, is taken as it is.
        """
        if COLUMNS_METADATA not in metadata:
            return None
        try:
            written = dict(json.loads(metadata[COLUMNS_METADATA]))
        except (ValueError, TypeError, RecursionError):
            return "the digests of its columns cannot be read"
        if self._n_rows != written.pop("rows", None):
            return "it does not have as many rows as were written"
        for name, digest in self._columns.items():
            if digest.hex() != written.get(name):
                return f"column {name} is not what was written"
        return None


def changed_column(table: pa.Table, metadata: Mapping[bytes, bytes]) -> str | None:
    """Return which column of a whole table is not the one its file's metadata tells of, if any."""
    if COLUMNS_METADATA not in metadata:
        return None
    digests = ColumnDigests()
    digests.update(table)
    return digests.changed(metadata)


def _own_name(path: PurePath) -> str:
    """Return the name a file gives itself: with folders that are named after what they hold."""
    folders: list[str] = []
    for folder in path.parents:
        if "=" not in folder.name:
            break
        folders.insert(0, folder.name)
    return "/".join([*folders, path.name])


def named(path: PurePath) -> dict[bytes, bytes]:
    """Return what the metadata of a file say of its name."""
    return {FILE_METADATA: _own_name(path).encode()}


def described(table: pa.Table, path: PurePath) -> pa.Table:
    """Return a table whose metadata name its file and hold the digests of its columns."""
    digests = ColumnDigests()
    digests.update(table)
    own = {**named(path), **digests.metadata()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **own})


def other_name(path: PurePath, metadata: Mapping[bytes, bytes]) -> str | None:
    """Return the name under which a file was written, if it is another than it has."""
    written = metadata.get(FILE_METADATA)
    if written is None or written == _own_name(path).encode():
        return None
    return written.decode(errors="replace")


# -- JSON ------------------------------------------------------------------------------------------


def _canonical(data: Mapping[str, Any]) -> bytes:
    # Not sorted: an order that was changed is a change.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode()


def sealed(data: Mapping[str, Any]) -> bytes:
    """Return JSON that ends with a digest of what it says.

    Examples
    --------
    >>> unsealed(sealed({"seed": 1}))
    {'seed': 1}
    """
    text = json.loads(json.dumps(data))  # as it will be read
    return (
        json.dumps({**data, _SEAL: sha256(_canonical(text))}, indent=2, ensure_ascii=False) + "\n"
    ).encode()


def unsealed(content: bytes, *, required: bool = True) -> dict[str, Any]:
    """Return what sealed JSON says.

    Parameters
    ----------
    content : bytes
    required : bool
        Refuse JSON without a digest.

    Raises
    ------
    JsonError
        Saying what is wrong with it.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise JsonError(f"it is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise JsonError("it is no JSON object")
    seal = data.pop(_SEAL, None)
    if seal is None and not required:
        return data
    if seal is None:
        raise JsonError("it carries no digest, so it was written by another program or version")
    if seal != sha256(_canonical(data)):
        raise JsonError("it was changed since it was written")
    return data


# -- what to do ------------------------------------------------------------------------------------

_FOLDERS = {
    "tables": "score", "scores": "score", "sweep": "sweep", "noise": "noise",
    "predictions": "predict", "attempts": "predict",
}  # fmt: skip
_BUILT = ("items.parquet", "gold.parquet", "pairs.parquet", "prompts.parquet", "manifest.json")


def _study_and_folder(path: Path) -> tuple[Path, str]:
    folders: Iterable[Path] = path.parents
    for folder in folders:
        if folder.name in _FOLDERS:
            return folder.parent, folder.name
        if "=" not in folder.name:
            break
    return path.parent, ""


def remedy(path: Path) -> str:
    """Return what to do about a file that is not what it should be: the command that makes it.

    Examples
    --------
    >>> remedy(Path("my-study/noise/respondents-500.parquet"))
    'run: chronocore noise my-study --n 500'
    """
    study, folder = _study_and_folder(path)
    if folder == "noise":
        design = path.stem.removeprefix("respondents-")
        return f"run: chronocore noise {study} --n {design}"
    if folder == "sweep":
        return f"delete it and run: chronocore sweep {study}"
    if folder in ("predictions", "attempts"):
        return "run the chronocore predict that asked this model again"
    if folder:
        return f"run: chronocore {_FOLDERS[folder]} {study}"
    if path.name in _BUILT:
        return f"run: chronocore build {study}"
    return "delete it and run the command that makes it again"
