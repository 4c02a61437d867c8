"""From whatever holds data to the arrays kernels take.

Anything that speaks the Arrow PyCapsule interface (pyarrow, polars, pandas, DuckDB), NumPy
arrays and nested sequences are accepted. Buffers without nulls are not copied.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore_kernels import bitmaps

__all__ = [
    "Rows",
    "broadcast_rows",
    "byte_column",
    "column_array",
    "frame_table",
    "positions_among",
    "row_keys",
    "rows_of",
    "scalar_column",
]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of options, possibly of different length, over one flat buffer.

    Attributes
    ----------
    values : (M,) float64
        The flat buffer.
    starts, lengths : (N,) int64
        Where each row begins in ``values`` and how many options it has.
    shape : tuple of int
        Shape of the rows as the caller gave them, without the last axis.
    """

    values: NDArray[np.float64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Return some rows in the order asked for, over the same buffer."""
        return Rows(self.values, self.starts[index], self.lengths[index], (len(index),))

    @property
    def width(self) -> int:
        """Number of options if all rows have the same, 0 otherwise."""
        if not len(self.lengths):
            return 0
        first = int(self.lengths[0])
        return first if bool((self.lengths == first).all()) else 0

    def matrix(self) -> NDArray[np.float64]:
        """Return rows of one width that follow each other as (N, K), without copying."""
        width = self.width
        first = int(self.starts[0])
        return self.values[first : first + width * len(self)].reshape(-1, width)


def _is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _without_index(table: pa.Table) -> pa.Table:
    """Drop the columns that pandas adds for an index that is not the default one."""
    named = (table.schema.metadata or {}).get(b"pandas")
    if named is None:
        return table
    index = [column for column in json.loads(named)["index_columns"] if isinstance(column, str)]
    return table.drop_columns([column for column in index if column in table.column_names])


def frame_table(frame: object, name: str) -> pa.Table:
    """Return any Arrow-compatible frame as a pyarrow Table, without copying its buffers."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return _without_index(pa.table(frame))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            # A pandas column of objects may hold numbers and texts; Arrow's columns hold one kind.
            what = "; ".join(map(str, error.args))
            raise InvalidInputError(
                f"{name} has a column of mixed values ({what}); give each column one "
                'type, for example frame["q"] = frame["q"].astype(str), or pandas.to_numeric'
            ) from None
    raise InvalidInputError(
        f"{name} must be an Arrow-compatible frame (pyarrow, polars, pandas, DuckDB), "
        f"not {type(frame).__name__}"
    )


def column_array(data: object, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column: an Arrow array, a series, or the only column of a frame."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return data
    if isinstance(data, pa.Table | pa.RecordBatch):
        table = frame_table(data, name)
    elif hasattr(data, "__arrow_c_stream__"):
        try:
            column = pa.chunked_array(data)
        except (pa.ArrowInvalid, TypeError):
            table = frame_table(data, name)
        else:
            if not pa.types.is_struct(column.type):
                return column
            table = frame_table(data, name)
    elif hasattr(data, "__arrow_c_array__"):
        return pa.array(data)
    else:
        raise InvalidInputError(f"{name} is not an Arrow column: {type(data).__name__}")
    if table.num_columns != 1:
        raise InvalidInputError(
            f"{name} must have one column, it has {table.num_columns}: {table.column_names}; "
            "pass the column itself"
        )
    return table.column(0)


def _plain(data: object, name: str) -> object:
    """Return masked arrays with NaN where they are masked; refuse what is no real number."""
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if isinstance(kind, str) and kind in "cmMV":
        raise InvalidInputError(f"{name} must be real numbers, it is {data.dtype}")  # type: ignore[attr-defined]
    return data


def scalar_column(data: object, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a one-dimensional column as a NumPy array; nulls become NaN.

    Integer requests refuse nulls and fractions.
    """
    data = _plain(data, name)
    if _is_arrow(data):
        column = column_array(data, name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            if np.issubdtype(dtype, np.integer):
                row = int(pc.index(pc.is_null(column), True).as_py())
                raise InvalidInputError(f"{name} has a null in row {row}")
            column = pc.fill_null(column.cast(pa.float64()), float("nan"))
        array = column.to_numpy(zero_copy_only=False)
    else:
        try:
            array = np.asarray(data)
            if array.dtype == object:
                array = np.array([np.nan if v is None else v for v in array.ravel()], dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name} cannot be read as numbers: {error}") from None
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, it has {array.ndim}")
    if np.issubdtype(dtype, np.integer) and array.dtype.kind == "f":
        wrong = np.flatnonzero(~(array == np.floor(array)) | (np.abs(array) >= 2**53))
        if wrong.size:
            row = int(wrong[0])
            raise InvalidInputError(f"{name}, row {row}: {array[row]} is no integer")
    try:
        return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as numbers: {error}") from None


def byte_column(data: object, missing: int) -> NDArray[np.int8] | None:
    """Return a column of int8 without translating it; None if it is of another type.

    Without nulls the buffer is not copied; with nulls, ``missing`` stands for them, taken from
    the validity bitmap in one pass.
    """
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data) if data.dtype == np.int8 and data.ndim == 1 else None
    if not _is_arrow(data):
        return None
    column = column_array(data, "codes")
    if column.type != pa.int8():
        return None
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_byte_chunk(chunk, missing) for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)


def _byte_chunk(chunk: pa.Array, missing: int) -> NDArray[np.int8]:
    validity, buffer = chunk.buffers()
    values = np.frombuffer(buffer, dtype=np.int8)[chunk.offset : chunk.offset + len(chunk)]
    if validity is None or not chunk.null_count:
        return values
    bitmap = np.frombuffer(validity, dtype=np.uint8)
    return bitmaps.fill_nulls(values, bitmap, chunk.offset, missing)


def _dense(array: NDArray[np.float64]) -> Rows:
    k = array.shape[-1]
    n = int(np.prod(array.shape[:-1], dtype=np.int64))
    return Rows(
        values=np.ascontiguousarray(array).reshape(-1),
        starts=np.arange(n, dtype=np.int64) * k,
        lengths=np.full(n, k, dtype=np.int64),
        shape=array.shape[:-1],
    )


def _ragged(lists: Sequence[NDArray[np.float64]]) -> Rows:
    lengths = np.array([len(row) for row in lists], dtype=np.int64)
    values = np.concatenate(lists) if lists else np.empty(0)
    return Rows(values, np.cumsum(lengths) - lengths, lengths, (len(lists),))


def _list_column(column: pa.Array | pa.ChunkedArray, name: str) -> Rows:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts: list[Rows] = []
    for chunk in chunks:
        kind = chunk.type
        if isinstance(kind, pa.ExtensionType):
            chunk, kind = chunk.storage, chunk.type.storage_type
        if not (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            raise InvalidInputError(f"{name} must be a column of lists, it is {kind}")
        if chunk.null_count:
            row = sum(len(p) for p in parts) + int(pc.index(pc.is_null(chunk), True).as_py())
            raise InvalidInputError(f"{name} has no distribution (null) in row {row}")
        flat = chunk.flatten()
        if flat.null_count:
            raise InvalidInputError(f"{name} has a null inside a distribution")
        values = np.ascontiguousarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
        if pa.types.is_fixed_size_list(kind):
            lengths = np.full(len(chunk), kind.list_size, dtype=np.int64)
        else:
            lengths = pc.list_value_length(chunk).to_numpy().astype(np.int64)
        parts.append(Rows(values, np.cumsum(lengths) - lengths, lengths, (len(chunk),)))
    if len(parts) == 1:
        return parts[0]
    offset = np.cumsum([0, *(len(p.values) for p in parts)])
    return Rows(
        np.concatenate([p.values for p in parts]) if parts else np.empty(0),
        np.concatenate([p.starts + o for p, o in zip(parts, offset, strict=False)])
        if parts
        else np.empty(0, dtype=np.int64),
        np.concatenate([p.lengths for p in parts]) if parts else np.empty(0, dtype=np.int64),
        (sum(len(p) for p in parts),),
    )


def _wide_frame(data: object, name: str) -> NDArray[np.float64] | None:
    """Return a frame with one numeric column an option as (N, K); None if it is none."""
    if isinstance(data, pa.Array | pa.ChunkedArray) or not hasattr(data, "columns"):
        return None
    table = frame_table(data, name)
    if table.num_columns < 2:
        return None
    kinds = [field.type for field in table.schema]
    if not all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in kinds):
        raise InvalidInputError(
            f"{name} must be one column of lists, or one numeric column an option; it has "
            f"{', '.join(f'{field.name} ({field.type})' for field in table.schema)}"
        )
    columns = [scalar_column(table.column(j), name, np.float64) for j in range(len(kinds))]
    return np.stack(columns, axis=1)


def rows_of(data: object, name: str) -> Rows:
    """Return distributions as :class:`Rows`.

    Parameters
    ----------
    data : array-like, list column or frame of one list column
        Shape (..., K), or N rows of any length.
    name : str
        Name of the argument in error messages.
    """
    if isinstance(data, Rows):
        return data
    data = _plain(data, name)
    if _is_arrow(data) and not isinstance(data, np.ndarray):
        matrix = _wide_frame(data, name)
        return _list_column(column_array(data, name), name) if matrix is None else _dense(matrix)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        lengths = {len(row) for row in data if isinstance(row, Sequence | np.ndarray)}
        if len(lengths) > 1:
            try:
                return _ragged([np.asarray(row, dtype=np.float64).reshape(-1) for row in data])
            except (TypeError, ValueError) as error:
                raise InvalidInputError(f"{name} cannot be read as numbers: {error}") from None
    try:
        array = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as numbers: {error}") from None
    if array.ndim and array.shape[-1] == 0:
        raise InvalidInputError(f"{name} is empty: a row needs at least one option")
    if array.ndim == 0:
        raise InvalidInputError(f"{name} must have at least one dimension (the options)")
    return _dense(array)


def broadcast_rows(*named: tuple[str, Rows]) -> tuple[list[Rows], tuple[int, ...]]:
    """Broadcast rows against each other (the options are never broadcast).

    Returns
    -------
    rows : list of Rows
        All with the same number of rows and the same number of options in each row.
    shape : tuple of int
        Shape of the result.
    """
    try:
        shape = np.broadcast_shapes(*(rows.shape for _, rows in named))
    except ValueError:
        sizes = ", ".join(f"{name} {rows.shape}" for name, rows in named)
        raise InvalidInputError(f"shapes do not match: {sizes}") from None
    out: list[Rows] = []
    for _, rows in named:
        index = np.broadcast_to(np.arange(len(rows)).reshape(rows.shape), shape).reshape(-1)
        whole = len(index) == len(rows)
        out.append(
            Rows(
                rows.values,
                rows.starts if whole else rows.starts[index],
                rows.lengths if whole else rows.lengths[index],
                shape,
            )
        )
    first_name = named[0][0]
    for (name, _), rows in zip(named[1:], out[1:], strict=True):
        differs = np.flatnonzero(rows.lengths != out[0].lengths)
        if differs.size:
            row = int(differs[0])
            raise InvalidInputError(
                f"row {row}: {first_name} has {out[0].lengths[row]} options, "
                f"{name} has {rows.lengths[row]}"
            )
    return out, shape


def row_keys(table: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Return one text a row that identifies the values of ``columns``."""
    parts = [
        pc.fill_null(pc.cast(table[column].combine_chunks(), pa.string()), "-")
        for column in columns
    ]
    return pc.binary_join_element_wise(*parts, "\x1f")


def positions_among(wanted: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Return where each wanted key stands in ``among``; -1 where it does not."""
    found = pc.fill_null(pc.index_in(wanted, value_set=among), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
