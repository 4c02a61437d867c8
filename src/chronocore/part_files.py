"""Rows of many part files in the order of their keys, a few at a time.

A run may hold any amount of text. What is bounded here is bounded by the bytes of that text, as it
is in memory: neither rows nor the compressed size of a file say how much that is.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronocore.parquet import decoding, open_parquet
from chronocore.provenance import ColumnDigests

__all__ = [
    "KEYS",
    "Order",
    "PartWriter",
    "chunked_text",
    "order_of",
    "rows_in_order",
    "text_bytes",
    "text_size",
    "whole_order",
]

KEYS = ["prompt_id", "repeat"]

#: Where a part says how much text it holds.
_TEXT_BYTES = b"chronocore.text_bytes"
_TEXT_COLUMNS = ("text", "thinking")

#: A row group ends after so many rows or so much text.
ROW_GROUP_ROWS = 50_000
ROW_GROUP_TEXT = 16 * 2**20

#: So much text of one part is held at once while parts are read side by side.
BATCH_TEXT = 2**20
_BATCH_ROWS = 8_192

#: So many parts are open at once.
MOST_OPEN = 64

Read = Callable[[Path, pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Order:
    """Which rows of which parts are wanted, and in which order.

    Attributes
    ----------
    part, row : ndarray of int64
        Number of the part and of the row in it.
    """

    part: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.part)


def text_size(table: pa.Table | pa.RecordBatch) -> int:
    """Return how many bytes of text a table holds."""
    return sum(
        int(pc.sum(pc.binary_length(table.column(name)).cast(pa.int64())).as_py() or 0)
        for name in _TEXT_COLUMNS
        if name in table.schema.names
    )


def text_bytes(part: Path) -> int:
    """Return how many bytes of text a part holds, at most."""
    with open_parquet(part) as file:
        known = (file.metadata.metadata or {}).get(_TEXT_BYTES, b"")
        if known.isdigit():
            return int(known)
        # A part of an earlier version does not say it.
        columns = [name for name in _TEXT_COLUMNS if name in file.schema_arrow.names]
        return sum(
            text_size(batch)
            for batch in file.iter_batches(batch_size=64, columns=columns, use_threads=False)
        )


class PartWriter:
    """Writes rows, in the order of their keys, as row groups of bounded size.

    Sorted keys, their statistics for every row group and page, and row groups of bounded size
    let a reader skip what it does not look for. Checksums tell a disk that returns other bytes.

    Parameters
    ----------
    handle : binary file
    rows : pyarrow.Schema
    mean_text : float
        About how many bytes of text a row has; pages are kept small by it.
    """

    def __init__(self, handle: IO[bytes], rows: pa.Schema, mean_text: float) -> None:
        order = [pq.SortingColumn(rows.names.index(key)) for key in KEYS if key in rows.names]
        # A page ends between batches of values, so a batch of long texts must be a small one.
        batch = int(min(1024, max(1, 2**20 / max(1.0, mean_text))))
        self._writer = pq.ParquetWriter(
            handle,
            rows,
            compression="zstd",
            write_statistics=True,
            write_page_index=True,
            write_page_checksum=True,
            write_batch_size=batch,
            sorting_columns=order,
        )
        self._rows = rows
        self._held: list[pa.Table] = []
        self._held_rows = self._held_text = 0
        self._text = 0
        self._digests = ColumnDigests()
        self.n_rows = 0

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        mean = text_size(table) / max(1, len(table))
        step = int(min(ROW_GROUP_ROWS, max(1, ROW_GROUP_TEXT / max(1.0, mean))))
        for start in range(0, len(table), step):
            piece = table.slice(start, step)
            size = text_size(piece)
            full = self._held_rows + len(piece) > ROW_GROUP_ROWS
            if self._held and (full or self._held_text + size > ROW_GROUP_TEXT):
                self._flush()
            self._held.append(piece)
            self._held_rows += len(piece)
            self._held_text += size

    def _flush(self) -> None:
        if self._held:
            table = pa.concat_tables(self._held).cast(self._rows)
            self._digests.update(table)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self.n_rows += self._held_rows
        self._text += self._held_text
        self._held, self._held_rows, self._held_text = [], 0, 0

    def close(self, metadata: Mapping[bytes, bytes] | None = None) -> None:
        """Write what is left and end the file.

        Parameters
        ----------
        metadata : mapping of bytes to bytes, optional
            Kept in the file beside how much text it holds.
        """
        self._flush()
        text = {_TEXT_BYTES: str(self._text).encode()}
        added = {**text, **self._digests.metadata(), **(metadata or {})}
        self._writer.add_key_value_metadata(added)
        self._writer.close()


def whole_order(keys: pa.Table) -> npt.NDArray[np.int64]:
    """Return the places of rows sorted by prompt and repeat."""
    order = pc.sort_indices(keys, [(key, "ascending") for key in KEYS])
    return np.asarray(order.to_numpy(), np.int64)


def order_of(keys: pa.Table) -> npt.NDArray[np.int64]:
    """Return the places of one row a prompt and repeat, sorted by them.

    An answer goes before an error, then the last attempt before earlier ones.

    Parameters
    ----------
    keys : pyarrow.Table
        ``prompt_id``, ``repeat``, ``status`` and ``attempt``.
    """
    ranked = keys.select(KEYS).append_column("_failed", pc.equal(keys["status"], "error"))
    ranked = ranked.append_column("attempt", keys["attempt"])
    found = pc.sort_indices(
        ranked,
        [
            ("prompt_id", "ascending"),
            ("repeat", "ascending"),
            ("_failed", "ascending"),
            ("attempt", "descending"),
        ],
    )
    order = np.asarray(found.to_numpy(), np.int64)
    n = len(order)
    if n < 2:
        return order
    ordered = keys.select(KEYS).take(found)
    prompts, repeats = ordered["prompt_id"].combine_chunks(), ordered["repeat"].combine_chunks()
    same = pc.and_(
        pc.equal(prompts.slice(1), prompts.slice(0, n - 1)),
        pc.equal(repeats.slice(1), repeats.slice(0, n - 1)),
    )
    first = np.ones(n, np.bool_)
    first[1:] = ~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)
    chosen: npt.NDArray[np.int64] = order[first]
    return chosen


class _Cursor:
    """Reads chosen rows of a part from its beginning to its end, holding few at a time."""

    def __init__(self, path: Path, file: pq.ParquetFile, size: int, read: Read) -> None:
        n_rows = file.metadata.num_rows
        mean = size / max(1, n_rows)
        n_batch = int(min(_BATCH_ROWS, max(1, BATCH_TEXT / max(1.0, mean))))
        self._batches = file.iter_batches(batch_size=n_batch, use_threads=False)
        self._path = path
        self._read = read
        self._start = 0
        self._held: pa.Table | None = None

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return rows, whose numbers ascend from call to call."""
        pieces: list[pa.Table] = []
        while True:
            if self._held is not None:
                end = int(np.searchsorted(rows, self._start + len(self._held)))
                if end:
                    pieces.append(self._held.take(pa.array(rows[:end] - self._start)))
                    rows = rows[end:]
                if not len(rows):
                    return pa.concat_tables(pieces)
                self._start += len(self._held)
                self._held = None
            with decoding(self._path):  # of several parts that are open, this one
                batch = pa.Table.from_batches([next(self._batches)])
            self._held = self._read(self._path, batch)


class _Loaded:
    """A part whose rows are not in the order of their keys, which none of ours is."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        return self._table.take(pa.array(rows))


def rows_in_order(
    parts: Sequence[Path], order: Order, read: Read, scratch: Path | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of parts in an order, some megabytes of text at a time.

    Parameters
    ----------
    parts : sequence of Path
    order : Order
    read : callable
        Makes of a path and some of its rows what is wanted of them, or refuses them.
    scratch : Path, optional
        Folder for what is merged in between where there are more parts than should be open.
    """
    if len(parts) > MOST_OPEN:
        yield from _in_two_steps(parts, order, read, scratch)
        return
    with contextlib.ExitStack() as opened:
        sources: list[_Cursor | _Loaded] = []
        largest = 1.0
        for number, path in enumerate(parts):
            size = text_bytes(path)
            file = opened.enter_context(open_parquet(path))
            largest = max(largest, size / max(1, file.metadata.num_rows))
            mine = order.row[order.part == number]
            if len(mine) and (np.diff(mine) < 0).any():
                sources.append(_Loaded(read(path, file.read(use_threads=False))))
            else:
                sources.append(_Cursor(path, file, size, read))
        step = int(min(_BATCH_ROWS, max(1, 4 * BATCH_TEXT / largest)))
        for start in range(0, len(order), step):
            part, row = order.part[start : start + step], order.row[start : start + step]
            places, pieces = [], []
            for number in np.unique(part):
                at = np.flatnonzero(part == number)
                places.append(at)
                pieces.append(sources[number].take(row[at]))
            table = pa.concat_tables(pieces).combine_chunks()
            yield table.take(pa.array(np.argsort(np.concatenate(places))))


def _in_two_steps(
    parts: Sequence[Path], order: Order, read: Read, scratch: Path | None
) -> Iterator[pa.Table]:
    """Merge groups of parts into files of their own, then these."""
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".chronocore-") as folder:
        merged: list[Path] = []
        new_part = np.empty(len(order), np.int64)
        new_row = np.empty(len(order), np.int64)
        for start in range(0, len(parts), MOST_OPEN):
            group = parts[start : start + MOST_OPEN]
            at = np.flatnonzero((order.part >= start) & (order.part < start + len(group)))
            if not len(at):
                continue
            new_part[at], new_row[at] = len(merged), np.arange(len(at))
            path = Path(folder) / f"{len(merged)}.parquet"
            own = Order(order.part[at] - start, order.row[at])
            with path.open("wb") as handle:
                writer: PartWriter | None = None
                for table in rows_in_order(group, own, read, scratch):
                    if writer is None:
                        mean = text_size(table) / max(1, len(table))
                        writer = PartWriter(handle, table.schema, mean)
                    writer.write(table)
                if writer is not None:
                    writer.close()
            merged.append(path)

        def plain(_: Path, table: pa.Table) -> pa.Table:
            return table

        yield from rows_in_order(merged, Order(new_part, new_row), plain, scratch)


def chunked_text(table: pa.Table) -> pa.Table:
    """Return a table whose text may be of any size, as columns that the rest knows.

    One array of strings holds 2 GiB at most; a column may have several.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_large_string(field.type):
            chunks: list[Any] = []
            for chunk in table.column(index).chunks:
                chunks += _halved(chunk)
            column = pa.chunked_array(chunks, pa.string())
            table = table.set_column(index, pa.field(field.name, pa.string()), column)
    return table


def _halved(chunk: Any) -> list[Any]:
    if len(chunk) < 2 or (pc.sum(pc.binary_length(chunk)).as_py() or 0) < 2**30:
        return [chunk.cast(pa.string())]
    middle = len(chunk) // 2
    return [*_halved(chunk.slice(0, middle)), *_halved(chunk.slice(middle))]
