"""The answers of runs, kept as parts that are only ever added.

Each part has a name of its own. What replaces a part (a merged one, one without the answers that
are asked for again) is whole before that part goes, and readers take every (prompt, repeat)
once, so that a process may die at any moment. No step holds the text of more than a few parts.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronocore import locks, schema, storage
from chronocore.engines.base import STATUSES
from chronocore.errors import StorageError, StudyError
from chronocore.parquet import (
    DamagedFileError,
    check_columns,
    check_name,
    conformed,
    decoding,
    open_parquet,
    read_metadata,
)
from chronocore.part_files import (
    KEYS,
    Order,
    PartWriter,
    chunked_text,
    order_of,
    rows_in_order,
    text_bytes,
    text_size,
    whole_order,
)
from chronocore.provenance import ColumnDigests, named
from chronocore.storage import location, storage_error

__all__ = ["RunParts", "RunTotals"]


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What a run has cost, the attempts without an answer included.

    Attributes
    ----------
    attempts : int
        Prompts asked, however often and whatever came back.
    prompt_tokens, completion_tokens : int
        Sums over all attempts; what an engine did not count is not in them.
    """

    attempts: int
    prompt_tokens: int
    completion_tokens: int


#: A merged part has at most about this many rows, and this many bytes of text.
MERGED_ROWS = 250_000
MERGED_TEXT = 256 * 2**20

_ASK_AGAIN = (
    "ask this model again with the command that asked it: that sets the file aside and asks again "
    "what was in it"
)
_REPLACES = b"chronocore.replaces"

#: A part is looked through so many rows at a time.
_LOOK_ROWS = 512


class RunParts:
    """The answers of runs, kept as parts: what a study and other collections of runs share.

    Answers lie in ``answers_folder/run=<run_id>/kind=<kind>/``, those that failed and were asked
    again in ``attempts/``.

    Parameters
    ----------
    path : str or path
        A folder, or an fsspec URL.

    Attributes
    ----------
    path : Path
    answers_folder : str
    rows : pyarrow.Schema
        What a part holds.
    """

    answers_folder: str
    rows: pa.Schema

    def __init__(self, path: str | Path) -> None:
        self.path = location(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of a run's answers."""
        return self.path / self.answers_folder / f"run={run_id}"

    def check_part(self, part: Path, table: pa.Table) -> None:
        """Refuse a part whose rows contradict themselves; here nothing can."""

    def part_metadata(self, run_id: str) -> dict[bytes, bytes]:
        """Return what each part of a run says about it beside its rows; here nothing."""
        return {}

    @contextlib.contextmanager
    def lock(self, name: str, timeout: float = 30.0) -> Iterator[None]:
        """Hold a lock of this folder; the system frees it when the process dies.

        Raises
        ------
        StudyError
            Another process holds it.
        """
        self.check_place()
        try:
            with locks.lock(self.path / f".{name}.lock", timeout):
                yield
        except storage.LockHeldError:
            raise StudyError(
                f"another process is writing {name} of {self.path}; wait for it or stop it"
            ) from None

    def check_place(self) -> None:
        """Refuse to go on where the folder is no more: nothing is written to a place that was left.

        Raises
        ------
        StudyError
        """
        if not storage.is_remote(self.path) and not storage.is_folder(self.path):
            raise StudyError(
                f"there is no folder {self.path} any more: it was moved or deleted meanwhile; what "
                "was written is where it went, run the same command with that path to go on"
            )

    def _folder(self, run_id: str, *, attempts: bool = False) -> Path:
        return self.path / "attempts" / f"run={run_id}" if attempts else self.run_folder(run_id)

    # -- reading -------------------------------------------------------------------------------

    def parts(self, run_id: str, kind: str | None = None, *, attempts: bool = False) -> list[Path]:
        """Return the parts of a run, without those that a merged part replaces."""
        pattern = f"kind={kind}" if kind else "kind=*"
        folder = self._folder(run_id, attempts=attempts)
        found = _listed(folder, f"{pattern}/part-*.parquet")
        replaced = {old for part in found for old in self._replaced_by(part)}
        return [part for part in found if part not in replaced]

    @staticmethod
    def _replaced_by(part: Path) -> list[Path]:
        if not part.name.endswith("-merged.parquet"):
            return []
        try:
            names = json.loads(read_metadata(part).get(_REPLACES, b"[]"))
            return [part.with_name(name) for name in names]
        except (DamagedFileError, FileNotFoundError, ValueError, TypeError):
            return []  # gone meanwhile, or nothing it says can be believed

    def read_part(self, run_id: str, part: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a part and check that it belongs where it lies and says what it may say.

        Raises
        ------
        DamagedFileError
            It is no whole Parquet file.
        StudyError
            It holds what it must not, or is gone.
        """
        names = list(columns) if columns is not None else self.rows.names
        tables = list(self.batches(run_id, part, names, n_rows=None))
        if not tables:
            return schema.selected(self.rows, names).empty_table()
        return pa.concat_tables(tables)

    def batches(
        self,
        run_id: str,
        part: Path,
        columns: Sequence[str] | None = None,
        n_rows: int | None = _LOOK_ROWS,
    ) -> Iterator[pa.Table]:
        """Yield the rows of a part, some at a time, checked as by :meth:`read_part`.

        Parameters
        ----------
        run_id : str
        part : Path
        columns : sequence of str, optional
        n_rows : int or None
            So many at a time; None for all at once.
        """
        names = list(columns) if columns is not None else self.rows.names
        wanted = list(dict.fromkeys([*names, "run_id", "status"]))
        try:
            with open_parquet(part) as file:
                check_columns(part, file.schema_arrow, self.rows)
                metadata = dict(file.metadata.metadata or {})
                check_name(part, metadata)
                seen = ColumnDigests()
                left = file.metadata.num_rows
                for table in _pieces(file, wanted, n_rows):
                    seen.update(table)
                    left -= len(table)
                    changed = None if left else seen.changed(metadata)
                    if changed is not None:
                        raise DamagedFileError(part, changed, _ASK_AGAIN)
                    yield self._checked(run_id, part, table, wanted, names)
        except DamagedFileError as error:
            raise DamagedFileError(part, error.cause, _ASK_AGAIN) from error
        except FileNotFoundError:
            linked = not storage.is_remote(part) and part.is_symlink()
            lost = "is a link to nothing; delete it" if linked else "is gone"
            raise StudyError(
                f"{part} {lost}; run the command again, and if it stays so the chronocore predict "
                "that asked this model"
            ) from None

    def _checked(
        self,
        run_id: str,
        part: Path,
        table: pa.Table,
        wanted: Sequence[str],
        names: Sequence[str],
    ) -> pa.Table:
        table = conformed(part, table, self.rows, wanted)
        with decoding(part, _ASK_AGAIN):
            found = set(pc.unique(table["run_id"]).to_pylist()) - {run_id}
            unknown = set(pc.unique(table["status"]).to_pylist()) - STATUSES
        if found:
            raise StudyError(
                f"{part} holds run {sorted(map(str, found))[0]}, not {run_id}; move it where it "
                "belongs or delete it"
            )
        if unknown:
            raise StudyError(
                f"{part} has the unknown status {sorted(map(str, unknown))[0]!r}; delete the file "
                "and run the command again"
            )
        self.check_part(part, table)
        return table.select(list(names)).replace_schema_metadata(self.rows.metadata)

    def answers(
        self, run_id: str, kind: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return a run's answers, one row a prompt and repeat, in the order of their ids.

        Parameters
        ----------
        run_id : str
        kind : str, optional
        columns : sequence of str, optional
            Only these columns; others are not read, texts least of all.
        """
        names = self.rows.names if columns is None else list(columns)
        needed = list(dict.fromkeys([*names, *KEYS, "status", "attempt"]))

        def read(parts: list[Path]) -> list[pa.Table]:
            return [self.read_part(run_id, part, needed) for part in parts]

        tables = self._while_it_is_written(run_id, kind, read)
        if not tables:
            return schema.selected(self.rows, names).empty_table()
        table = pa.concat_tables(tables)
        place = order_of(table.select([*KEYS, "status", "attempt"]))
        table = table.select(names)
        for index, field in enumerate(table.schema):
            if field.name in ("text", "thinking"):
                column = table.column(index).cast(pa.large_string())
                table = table.set_column(index, field.with_type(pa.large_string()), column)
        table = chunked_text(table.take(pa.array(place)))
        wanted = schema.selected(self.rows, names)
        return table.cast(wanted).replace_schema_metadata(self.rows.metadata)

    def answers_to(self, run_id: str, prompt_ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return a run's answers to a few prompts; of all others nothing is kept in memory.

        Parameters
        ----------
        run_id : str
        prompt_ids : pyarrow.Array
        columns : sequence of str
        """
        needed = list(dict.fromkeys([*columns, *KEYS, "status", "attempt"]))

        def read(parts: list[Path]) -> list[pa.Table]:
            return [
                table.filter(pc.is_in(table["prompt_id"], value_set=prompt_ids))
                for part in parts
                for table in self.batches(run_id, part, needed)
            ]

        tables = self._while_it_is_written(run_id, None, read)
        table = pa.concat_tables([schema.selected(self.rows, needed).empty_table(), *tables])
        return table.take(pa.array(order_of(table))).select(list(columns))

    def _while_it_is_written(
        self, run_id: str, kind: str | None, read: Callable[[list[Path]], list[pa.Table]]
    ) -> list[pa.Table]:
        """Read the parts of a run; its writer may have merged one away since it was listed."""
        for attempt in range(5):
            parts = self.parts(run_id, kind)
            try:
                return read(parts)
            except StudyError:
                if attempt == 4 or all(storage.exists(part) for part in parts):
                    raise
        raise AssertionError

    def ordered_rows(self, run_id: str, scratch: Path | None = None) -> Iterator[pa.Table]:
        """Yield a run's answers as :meth:`answers` has them, some megabytes at a time.

        Parameters
        ----------
        run_id : str
        scratch : Path, optional
            Folder for temporary files, of a run with very many parts.
        """
        parts = self.parts(run_id)
        order = self._order(run_id, parts, unique=True)
        yield from rows_in_order(parts, order, self._reader(run_id), scratch)

    def _reader(self, run_id: str) -> Callable[[Path, pa.Table], pa.Table]:
        def read(part: Path, table: pa.Table) -> pa.Table:
            try:
                check_columns(part, table.schema, self.rows)
                return self._checked(run_id, part, table, self.rows.names, self.rows.names)
            except DamagedFileError as error:
                raise DamagedFileError(part, error.cause, _ASK_AGAIN) from error

        return read

    def _order(self, run_id: str, parts: Sequence[Path], *, unique: bool) -> Order:
        """Return where the rows of parts go, from their keys alone."""
        columns = [*KEYS, "status", "attempt"]
        tables = [self.read_part(run_id, part, columns) for part in parts]
        if not tables:
            nothing = np.empty(0, np.int64)
            return Order(nothing, nothing)
        lengths = [len(table) for table in tables]
        keys = pa.concat_tables(tables)
        place = order_of(keys) if unique else whole_order(keys)
        part = np.repeat(np.arange(len(parts)), lengths)
        row = np.concatenate([np.arange(n) for n in lengths])
        return Order(part[place], row[place])

    def attempts(self, run_id: str, kinds: Sequence[str]) -> pa.Table:
        """Return prompt_id, repeat and attempt of the attempts that were asked again."""
        columns = ["prompt_id", "repeat", "attempt"]
        tables = [
            self.read_part(run_id, part, columns)
            for kind in kinds
            for part in self.parts(run_id, kind, attempts=True)
        ]
        empty = schema.selected(self.rows, columns).empty_table()
        return pa.concat_tables([empty, *tables])

    def totals(self, run_id: str, *, without: Set[Path] = frozenset()) -> RunTotals:
        """Return what a run has cost so far, over all attempts.

        Parameters
        ----------
        run_id : str
        without : set of Path
            Parts that are left out.
        """
        counts = [0, 0, 0]
        columns = [*KEYS, "attempt", "prompt_tokens", "completion_tokens"]
        known: set[tuple[Any, ...]] = set()
        for attempts in (True, False):
            for part in self.parts(run_id, attempts=attempts):
                if part in without:
                    continue
                table = self.read_part(run_id, part, columns)
                # An attempt is in both places if a process died while it was moved.
                keys = list(zip(*(table[c].to_pylist() for c in columns[:3]), strict=True))
                if attempts:
                    new = [key not in known for key in keys]
                    known.update(keys)
                else:
                    new = [key not in known for key in keys] if known else [True] * len(keys)
                table = table.filter(pa.array(new, pa.bool_()))
                counts[0] += len(table)
                for index, column in enumerate(columns[3:], start=1):
                    counts[index] += pc.sum(table[column].cast(pa.int64())).as_py() or 0
        return RunTotals(*counts)

    # -- writing -------------------------------------------------------------------------------

    def _write(
        self, path: Path, run_id: str, tables: Iterator[pa.Table], metadata: Mapping[bytes, bytes]
    ) -> int:
        """Write rows, in the order of their keys, as a part; return how many."""
        self.check_place()
        rows = self.rows.with_metadata({**self.rows.metadata, **self.part_metadata(run_id)})
        rows = rows.with_metadata({**rows.metadata, **metadata})
        first = next(tables, None)
        if first is None:
            first = self.rows.empty_table()
        with storage.writing(path) as handle:
            writer = PartWriter(handle, rows, text_size(first) / max(1, len(first)))
            writer.write(first.replace_schema_metadata(rows.metadata))
            for table in tables:
                writer.write(table.replace_schema_metadata(rows.metadata))
            writer.close(named(path))
        return writer.n_rows

    def add_part(self, run_id: str, kind: str, table: pa.Table, *, attempts: bool = False) -> Path:
        """Write a part of a run's answers under a name no other part has."""
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        path = self._folder(run_id, attempts=attempts) / f"kind={kind}" / name
        table = schema.conform(table, self.rows)
        table = table.take(pa.array(whole_order(table)))
        self._write(path, run_id, iter([table]), {})
        return path

    def set_errors_aside(
        self, run_id: str, kinds: Sequence[str], prompt_ids: pa.Array, repeats: int
    ) -> None:
        """Move rows without an answer to ``attempts/``, so that they can be asked again.

        They are whole in their new place before they go from the old one: an attempt is never
        forgotten, and the answers have a prompt and repeat once at any time.
        """
        for part in [part for kind in kinds for part in self.parts(run_id, kind)]:
            keys = self.read_part(run_id, part, ["prompt_id", "repeat", "status"])
            asked = pc.and_(
                pc.equal(keys["status"], "error"),
                pc.and_(
                    pc.is_in(keys["prompt_id"], value_set=prompt_ids),
                    pc.less(keys["repeat"], repeats),
                ),
            )
            if not pc.any(asked).as_py():
                continue
            chosen = np.asarray(asked.to_numpy(), np.bool_)
            kind = part.parent.name.removeprefix("kind=")
            errors = self._chosen(run_id, part, np.flatnonzero(chosen))
            self.add_part(run_id, kind, pa.concat_tables(errors), attempts=True)
            self._keep(run_id, part, np.flatnonzero(~chosen))

    def _chosen(self, run_id: str, part: Path, rows: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
        order = Order(np.zeros(len(rows), np.int64), rows)
        return rows_in_order([part], order, self._reader(run_id))

    def _keep(self, run_id: str, part: Path, rows: npt.NDArray[np.int64]) -> None:
        """Write a part anew with some of its rows; without any it goes."""
        if not len(rows):
            storage.remove(part)
            return
        replaced = read_metadata(part).get(_REPLACES)
        metadata = {} if replaced is None else {_REPLACES: replaced}
        self._write(part, run_id, self._chosen(run_id, part, rows), metadata)

    def merge_parts(self, run_id: str, parts: Sequence[Path]) -> tuple[Path, int, int]:
        """Make one part of several of one kind; the caller holds the run's lock.

        The new part names those it replaces. Readers pass over them from then on, and whoever
        writes the run next removes those that a killed process left.

        Returns
        -------
        part : Path
        n_rows : int
        n_text : int
            Bytes of text in it.
        """
        is_answers = parts[0].parent.parent.parent.name == self.answers_folder
        order = self._order(run_id, parts, unique=is_answers)
        names = json.dumps([part.name for part in parts]).encode()
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}-merged.parquet"
        path = parts[0].with_name(name)
        rows = rows_in_order(parts, order, self._reader(run_id))
        n_rows = self._write(path, run_id, rows, {_REPLACES: names})
        for part in parts:
            storage.remove(part)
        return path, n_rows, text_bytes(path)

    def compact(self, run_id: str) -> tuple[int, int]:
        """Merge the parts of a run into few large ones; the caller holds the run's lock.

        Returns
        -------
        before, after : int
            Number of parts.
        """
        before = after = 0
        for attempts in (False, True):
            folders: dict[Path, list[Path]] = {}
            for part in self.parts(run_id, attempts=attempts):
                folders.setdefault(part.parent, []).append(part)
            for parts in folders.values():
                before += len(parts)
                for group in self._groups(parts):
                    after += 1
                    if len(group) > 1:
                        self.merge_parts(run_id, group)
        return before, after

    @staticmethod
    def _groups(parts: Sequence[Path]) -> Iterator[list[Path]]:
        group: list[Path] = []
        rows = text = 0
        for part in parts:
            with open_parquet(part) as file:
                n_rows = file.metadata.num_rows
            n_text = text_bytes(part)
            if group and (rows + n_rows > MERGED_ROWS or text + n_text > MERGED_TEXT):
                yield group
                group, rows, text = [], 0, 0
            group.append(part)
            rows, text = rows + n_rows, text + n_text
        if group:
            yield group

    def remove_answers(self, run_id: str) -> int:
        """Remove a run's answers and attempts; the caller holds the run's lock.

        Returns
        -------
        int
            Number of files removed.
        """
        folders = (self.run_folder(run_id), self._folder(run_id, attempts=True))
        return sum(storage.remove_folder(folder) for folder in folders)

    # -- after a process that was killed -------------------------------------------------------

    def recover(self, run_id: str) -> list[str]:
        """Tidy up what a process that was killed left of a run; the caller holds its lock.

        Half-written files are removed, and so are parts whose merged part is there. A part that
        was read and found wrong is renamed to ``….unreadable``, so that its prompts are asked
        again. Rows that two writers left twice are kept once.

        Returns
        -------
        list of str
            A sentence about each part that was set aside.

        Raises
        ------
        StorageError
            There was too little memory, or no permission, to look at a part: it stays as it is.
        """
        messages: list[str] = []
        self.remove_strays()
        for attempts in (False, True):
            folder = self._folder(run_id, attempts=attempts)
            for path in _listed(folder, "kind=*/.*.tmp"):
                with contextlib.suppress(OSError):
                    path.unlink()
            found = _listed(folder, "kind=*/part-*.parquet")
            live = set(self.parts(run_id, attempts=attempts))
            for part in found:
                if part not in live:
                    storage.remove(part)
                    continue
                try:
                    for _ in self.batches(run_id, part):
                        pass
                except DamagedFileError as error:
                    messages.append(_set_aside(part, error, attempts=attempts))
        self._keep_once(run_id)
        return messages

    def _keep_once(self, run_id: str) -> None:
        """Remove rows that are there twice, as after two writers of one run."""
        folders: dict[Path, list[Path]] = {}
        for part in self.parts(run_id):
            folders.setdefault(part.parent, []).append(part)
        for parts in folders.values():
            order = self._order(run_id, parts, unique=True)
            for number, part in enumerate(parts):
                rows = np.sort(order.row[order.part == number])
                with open_parquet(part) as file:
                    n_rows = file.metadata.num_rows
                if len(rows) < n_rows:
                    self._keep(run_id, part, rows)

    def remove_strays(self) -> None:
        """Remove temporary files of processes that are no more."""
        if storage.is_remote(self.path):
            return
        with contextlib.suppress(OSError):
            for path in self.path.rglob(".*.tmp"):
                if storage.is_stray(path):
                    with contextlib.suppress(OSError):
                        path.unlink()


def _pieces(file: pq.ParquetFile, columns: Sequence[str], n_rows: int | None) -> Iterator[pa.Table]:
    """Yield the rows of a file, so many at a time, or all at once."""
    if n_rows is None:
        yield file.read(columns=columns, use_threads=False)
        return
    for batch in file.iter_batches(batch_size=n_rows, columns=columns, use_threads=False):
        yield pa.Table.from_batches([batch])


def _listed(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder in the order of their names.

    Raises
    ------
    StorageError
        The folder is there and cannot be listed; that is not the same as empty.
    """
    try:
        if not storage.is_remote(folder) and storage.is_folder(folder):
            next(folder.iterdir(), None)  # glob passes over what it may not list
        with storage.reaching("list", folder):
            return sorted(folder.glob(pattern), key=str)
    except (OSError, MemoryError) as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error("list", folder, error) from error


def _set_aside(part: Path, error: DamagedFileError, *, attempts: bool) -> str:
    """Rename a part that was read and found wrong; return a sentence about it."""
    aside = part.with_name(f"{part.name}.unreadable")
    storage.move(part, aside)
    lost = "its attempts are no longer counted" if attempts else "its prompts are asked again"
    return f"{part} could not be read ({error.cause}); it is now {aside.name}, and {lost}"
