"""The study on disk or in an object store: the only module that writes its files.

Every file is written under a temporary name, flushed to the device and renamed, so that a
reader sees the old file or the new one and never a part of either. A study exists when its
manifest does; the manifest is written last.

Predictions are parts that are only ever added, each under a name of its own. What replaces a
part (a merged one, one without the answers that are asked for again) is whole before that part
goes, and readers take every (prompt, repeat) once, so that a process may die at any moment.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronocore import schema, storage
from chronocore.config import StudyConfig, dump_config, load_config
from chronocore.engines.base import STATUSES
from chronocore.errors import ConfigurationError, StudyError
from chronocore.provenance import (
    JsonError,
    changed_column,
    described,
    other_name,
    remedy,
    sealed,
    sha256,
    unsealed,
)
from chronocore.storage import location, storage_error, write_atomic

__all__ = [
    "NOISE_METADATA",
    "DamagedFileError",
    "RunParts",
    "RunTotals",
    "Study",
    "page_path",
    "parquet_bytes",
    "read_parquet",
    "write_atomic",
    "write_parquet",
]

#: Where a noise file says what it was simulated with.
NOISE_METADATA = b"chronocore.noise"

_BUILT = {
    "items": schema.ITEMS,
    "gold": schema.GOLD,
    "pairs": schema.PAIRS,
    "prompts": schema.PROMPTS,
}


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


#: A merged part has at most about this many rows, or this many bytes in its sources.
_MERGED_ROWS = 250_000
_MERGED_BYTES = 256 * 2**20

_ROW_GROUP = 50_000
_ASK_AGAIN = (
    "ask this model again with the command that asked it: that sets the file aside and asks again "
    "what was in it"
)
_REPLACES = b"chronocore.replaces"
_KEYS = ["prompt_id", "repeat"]


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


def _part_bytes(table: pa.Table, path: Path) -> bytes:
    """Return predictions, in the order of their prompts, as the bytes of a part.

    Sorted keys, their statistics for every row group and page, and row groups of bounded size
    let a reader skip what it does not look for. Checksums tell a disk that returns other bytes.
    """
    table = table.take(pc.sort_indices(table, [(key, "ascending") for key in _KEYS]))
    table = described(table, path)
    order = [pq.SortingColumn(table.column_names.index(key)) for key in _KEYS]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        row_group_size=_ROW_GROUP,
        write_statistics=True,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=order,
    )
    return bytes(sink.getvalue().to_pybytes())


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically."""
    write_atomic(path, parquet_bytes(table, path))


def page_path(path: str | Path, folder: Path) -> Path:
    """Return where an HTML page about a folder may be written.

    A page replaces only a page, and among the files of its folder it has a name none of them has:
    one that ends in ``.html``.

    Raises
    ------
    ConfigurationError
        Something else would be overwritten, or might be taken for a file of the folder.
    """
    target = location(path)
    if target.is_dir():
        raise ConfigurationError(f"{target} is a folder; name the HTML file to write in it")
    try:
        with target.open("rb") as file:
            start: bytes | None = file.read(1024)
    except OSError:
        start = None  # not there, or whoever writes it says why that does not work
    if start is not None and not start.lstrip().lower().startswith(b"<!doctype html"):
        raise ConfigurationError(
            f"{target} exists and is no HTML page, so it is not overwritten; choose another file, "
            "or delete this one"
        )
    inside = target.resolve().is_relative_to(folder.resolve())
    if inside and target.suffix.lower() != ".html":
        raise ConfigurationError(
            f"{target} lies among the files of {folder}; there, a page must end in .html, for "
            "example report.html"
        )
    return target


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
    """
    try:
        content = storage.read_bytes(path)
    except FileNotFoundError:
        raise StudyError(
            f"{path} is missing; {remedy(path).removeprefix('delete it and ')}"
        ) from None
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        found = file.schema_arrow
        # On one thread: those of older pyarrow can abort a process that ends soon after.
        table = None if expected is not None else file.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    if expected is not None:
        wanted = expected if columns is None else schema.selected(expected, columns)
        try:
            _check_schema(path, found, expected)
            schema.conform(found.empty_table(), expected)
        except (KeyError, UnicodeDecodeError, pa.ArrowException) as error:
            raise _misshapen(path, error) from error
        try:
            table = file.read(columns=columns, use_threads=False)
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise _damaged(path, error) from error
        _check_provenance(path, table, found)
        try:
            table = schema.conform(table, wanted)
        except pa.ArrowException as error:
            raise _misshapen(path, error) from error
    return table


def _check_provenance(path: Path, table: pa.Table, found: pa.Schema) -> None:
    """Refuse a file that was written under another name, or whose rows are not those written."""
    metadata = found.metadata or {}
    name = other_name(path, metadata)
    if name is not None:
        raise StudyError(
            f"{path} was written as {name} (a copy, or files were swapped); move it where it "
            f"belongs or delete it, and {remedy(path).removeprefix('delete it and ')}"
        )
    changed = changed_column(table, metadata)
    if changed is not None:
        raise DamagedFileError(path, changed, remedy(path))


def _misshapen(path: Path, error: Exception) -> StudyError:
    return StudyError(
        f"{path} does not have the columns it should ({str(error).splitlines()[0]}); {remedy(path)}"
    )


def _damaged(path: Path, error: Exception) -> DamagedFileError:
    cause = (str(error).splitlines() or [type(error).__name__])[0]
    return DamagedFileError(path, cause, remedy(path))


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

    @contextlib.contextmanager
    def lock(self, name: str, timeout: float = 30.0) -> Iterator[None]:
        """Hold a lock of this folder; the system frees it when the process dies.

        Raises
        ------
        StudyError
            Another process holds it.
        """
        try:
            with storage.lock(self.path / f".{name}.lock", timeout):
                yield
        except storage.LockHeldError:
            raise StudyError(
                f"another process is writing {name} of {self.path}; wait for it or stop it"
            ) from None

    def _folder(self, run_id: str, *, attempts: bool = False) -> Path:
        return self.path / "attempts" / f"run={run_id}" if attempts else self.run_folder(run_id)

    def parts(self, run_id: str, kind: str | None = None, *, attempts: bool = False) -> list[Path]:
        """Return the parts of a run, without those that a merged part replaces."""
        pattern = f"kind={kind}" if kind else "kind=*"
        folder = self._folder(run_id, attempts=attempts)
        with storage.reaching("list", folder):
            found = sorted(folder.glob(f"{pattern}/part-*.parquet"), key=str)
        replaced = {old for part in found for old in self._replaced_by(part)}
        return [part for part in found if part not in replaced]

    @staticmethod
    def _replaced_by(part: Path) -> list[Path]:
        if not part.name.endswith("-merged.parquet"):
            return []
        try:
            metadata = pq.read_schema(pa.BufferReader(storage.read_bytes(part))).metadata or {}
            return [part.with_name(name) for name in json.loads(metadata.get(_REPLACES, b"[]"))]
        except (OSError, ValueError):
            return []

    def read_part(self, run_id: str, part: Path, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a part and check that it belongs where it lies and says what it may say.

        Raises
        ------
        DamagedFileError
            It is no whole Parquet file.
        StudyError
            It holds what it must not, or is gone.
        """
        wanted = list(dict.fromkeys([*(columns or self.rows.names), "run_id", "status"]))
        try:
            table = read_parquet(part, self.rows, wanted)
        except DamagedFileError as error:
            raise DamagedFileError(part, error.cause, _ASK_AGAIN) from error
        try:
            found = set(pc.unique(table["run_id"]).to_pylist()) - {run_id}
            unknown = set(pc.unique(table["status"]).to_pylist()) - STATUSES
        except UnicodeDecodeError as error:
            raise DamagedFileError(part, str(error), _ASK_AGAIN) from error
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
        table = table.select(list(columns) if columns is not None else self.rows.names)
        return table.replace_schema_metadata(self.rows.metadata)

    def answers(
        self, run_id: str, kind: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return a run's answers, one row a prompt and repeat, in the order of their ids.

        Parameters
        ----------
        run_id : str
        kind : str, optional
        columns : sequence of str, optional
            Only these columns.
        """
        names = self.rows.names if columns is None else list(columns)
        needed = list(dict.fromkeys([*names, *_KEYS, "status", "attempt"]))
        for attempt in range(5):
            parts = self.parts(run_id, kind)
            try:
                tables = [self.read_part(run_id, part, needed) for part in parts]
                break
            except StudyError:
                # The process that writes the run may have merged a part away since it was listed.
                if attempt == 4 or all(part.exists() for part in parts):
                    raise
        if not tables:
            return schema.selected(self.rows, names).empty_table()
        return _unique(pa.concat_tables(tables)).select(names)

    def recover(self, run_id: str) -> list[str]:
        """Tidy up what a process that was killed left of a run; the caller holds its lock.

        Half-written files are removed, and so are parts whose merged part is there. A part that
        cannot be read is renamed to ``….unreadable``, so that its prompts are asked again.

        Returns
        -------
        list of str
            A sentence about each part that was set aside.
        """
        messages: list[str] = []
        self._remove_strays()
        for attempts in (False, True):
            folder = self._folder(run_id, attempts=attempts)
            with storage.reaching("list", folder):
                for path in folder.glob("kind=*/.*.tmp"):
                    with contextlib.suppress(OSError):
                        path.unlink()
                found = sorted(folder.glob("kind=*/part-*.parquet"), key=str)
            live = set(self.parts(run_id, attempts=attempts))
            for part in found:
                if part not in live:
                    self._unlink(part)
                    continue
                try:
                    self.read_part(run_id, part)
                except DamagedFileError as error:
                    aside = part.with_name(f"{part.name}.unreadable")
                    try:
                        part.rename(aside)
                    except Exception as problem:
                        raise storage_error("rename", part, problem) from problem
                    lost = (
                        "its attempts are no longer counted"
                        if attempts
                        else "its prompts are asked again"
                    )
                    messages.append(
                        f"{part} could not be read ({error.cause}); it is now {aside.name}, "
                        f"and {lost}"
                    )
        return messages

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
            table = self.read_part(run_id, part)
            kind = part.parent.name.removeprefix("kind=")
            self.add_part(run_id, kind, table.filter(asked), attempts=True)
            kept = table.filter(pc.invert(asked))
            if len(kept):
                write_atomic(part, _part_bytes(kept, part))
            else:
                self._unlink(part)

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
        columns = [*_KEYS, "attempt", "prompt_tokens", "completion_tokens"]
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

    def add_part(self, run_id: str, kind: str, table: pa.Table, *, attempts: bool = False) -> Path:
        """Write a part of a run's answers under a name no other part has."""
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        path = self._folder(run_id, attempts=attempts) / f"kind={kind}" / name
        write_atomic(path, _part_bytes(schema.conform(table, self.rows), path))
        return path

    def merge_parts(self, run_id: str, parts: Sequence[Path]) -> tuple[Path, int]:
        """Make one part of several of one kind; the caller holds the run's lock.

        The new part names those it replaces. Readers pass over them from then on, and whoever
        writes the run next removes those that a killed process left.

        Returns
        -------
        part : Path
        n_rows : int
        """
        table = pa.concat_tables([self.read_part(run_id, part) for part in parts])
        if parts[0].parent.parent.parent.name == self.answers_folder:
            table = _unique(table)
        names = json.dumps([part.name for part in parts]).encode()
        table = table.replace_schema_metadata({**self.rows.metadata, _REPLACES: names})
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}-merged.parquet"
        path = parts[0].with_name(name)
        write_atomic(path, _part_bytes(table, path))
        for part in parts:
            self._unlink(part)
        return path, len(table)

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
                for group in self._groups(run_id, parts):
                    after += 1
                    if len(group) > 1:
                        self.merge_parts(run_id, group)
        return before, after

    def _groups(self, run_id: str, parts: Sequence[Path]) -> Iterator[list[Path]]:
        group: list[Path] = []
        rows = size = 0
        for part in parts:
            n_rows = len(self.read_part(run_id, part, ["repeat"]))
            n_bytes = part.stat().st_size
            if group and (rows + n_rows > _MERGED_ROWS or size + n_bytes > _MERGED_BYTES):
                yield group
                group, rows, size = [], 0, 0
            group.append(part)
            rows, size = rows + n_rows, size + n_bytes
        if group:
            yield group

    @staticmethod
    def _unlink(path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise storage_error("remove", path, error) from error

    def _remove_strays(self) -> None:
        """Remove temporary files of processes that are no more."""
        if storage.is_remote(self.path):
            return
        for path in self.path.rglob(".*.tmp"):
            if storage.is_stray(path):
                with contextlib.suppress(OSError):
                    path.unlink()


class Study(RunParts):
    """A study folder, or the prefix of an object store.

    Parameters
    ----------
    path : str or path
        A folder, or an fsspec URL such as ``s3://bucket/study``.

    Attributes
    ----------
    path : Path
        The folder; for a URL a ``UPath``, which has the same methods.
    """

    answers_folder = "predictions"
    rows = schema.PREDICTIONS

    # -- paths ---------------------------------------------------------------------------------

    @property
    def config_path(self) -> Path:
        """``study.toml``."""
        return self.path / "study.toml"

    @property
    def manifest_path(self) -> Path:
        """``manifest.json``."""
        return self.path / "manifest.json"

    def score_path(self, run_id: str) -> Path:
        """Return the path of a run's scores."""
        return self.path / "scores" / f"run={run_id}" / "scores.parquet"

    # -- opening -------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Open a study that was built.

        Raises
        ------
        StudyError
            The folder is no study, is half-built, of another version, or ``study.toml`` asks
            for something that was not built.
        """
        study = cls(path)
        with storage.reaching("open", study.path):
            present = study.path.is_dir()
        if not present:
            raise StudyError(
                f"there is no folder {path}; make a study with: "
                f"chronocore build {path} --preset open-sample"
            )
        if not study.manifest_path.is_file():
            raise StudyError(
                f"{path} is not a study (it has no manifest.json); make one with: "
                f"chronocore build {path} --preset open-sample"
            )
        manifest = study.manifest()
        if manifest.get("schema_version") != schema.SCHEMA_VERSION:
            raise StudyError(
                f"{path} has schema version {manifest.get('schema_version')!r}, this chronocore "
                f"reads {schema.SCHEMA_VERSION}; build the study again in a new folder"
            )
        for name, digest in manifest["files"].items():
            file = study.path / name
            if not file.is_file():
                raise StudyError(f"{file} is missing; run: chronocore build {path}")
            if sha256(storage.read_bytes(file)) != digest:
                raise StudyError(
                    f"{file} is not the one that was built (an interrupted build, or edited); "
                    f"run: chronocore build {path}"
                )
        if study.config().build_part() != manifest["config"]:
            raise StudyError(
                f"{study.config_path} has changed since the study was built; "
                f"run: chronocore build {path}"
            )
        return study

    def manifest(self) -> dict[str, Any]:
        """Return the provenance record."""
        try:
            data = unsealed(storage.read_bytes(self.manifest_path), required=False)
        except JsonError as error:
            raise StudyError(
                f"{self.manifest_path} cannot be used ({error}); {remedy(self.manifest_path)}"
            ) from None
        except FileNotFoundError:
            raise StudyError(
                f"{self.manifest_path} is missing; {remedy(self.manifest_path)}"
            ) from None
        whole = (
            isinstance(data, dict)
            and {"schema_version", "config"} <= set(data)
            and isinstance(data.get("files"), dict)
            and isinstance(data.get("runs", {}), dict)
        )
        if not whole:
            raise StudyError(
                f"{self.manifest_path} is not the manifest of a chronocore study; "
                f"{remedy(self.manifest_path)}"
            )
        if data["schema_version"] == schema.SCHEMA_VERSION and set(data["files"]) != {
            f"{name}.parquet" for name in _BUILT
        }:
            raise StudyError(
                f"{self.manifest_path} does not name the files of the build; "
                f"run: chronocore build {self.path}"
            )
        return data

    def config(self) -> StudyConfig:
        """Return the settings in ``study.toml``."""
        return load_config(self.config_path)

    # -- the built tables ----------------------------------------------------------------------

    def items(self) -> pa.Table:
        """Return ``items.parquet``."""
        return read_parquet(self.path / "items.parquet", schema.ITEMS)

    def gold(self) -> pa.Table:
        """Return ``gold.parquet``."""
        return read_parquet(self.path / "gold.parquet", schema.GOLD)

    def pairs(self) -> pa.Table:
        """Return ``pairs.parquet``."""
        return read_parquet(self.path / "pairs.parquet", schema.PAIRS)

    def prompts(self) -> pa.Table:
        """Return ``prompts.parquet``."""
        return read_parquet(self.path / "prompts.parquet", schema.PROMPTS)

    def save_build(
        self, config: StudyConfig, tables: Mapping[str, pa.Table], provenance: dict[str, Any]
    ) -> None:
        """Write the result of a build: everything, or nothing that counts.

        All tables are made before the first file is replaced, and the manifest, which holds
        their digests, comes last: a study whose files do not match it is refused.
        """
        files = {name: self.path / f"{name}.parquet" for name in _BUILT}
        contents = {file.name: parquet_bytes(tables[name], file) for name, file in files.items()}
        manifest = {
            "schema_version": schema.SCHEMA_VERSION,
            "chronocore_version": schema.chronocore_version(),
            "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "config": config.build_part(),
            "files": {n: sha256(c) for n, c in contents.items()},
            **provenance,
        }
        with self._building():
            if self.manifest_path.exists():
                # Predictions outlive a new build, and so does where they came from.
                with contextlib.suppress(StudyError):
                    manifest["runs"] = self.manifest().get("runs", {})
            if not self.config_path.exists() or self.config() != config:
                write_atomic(self.config_path, dump_config(config).encode())
            for name, content in contents.items():
                write_atomic(self.path / name, content)
            write_atomic(self.manifest_path, sealed(manifest))
            self._remove_strays()

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        """Change the built tables: nobody reads prompts meanwhile, and no predict is running.

        A new study that could not be finished leaves no trace.
        """
        with storage.reaching("write", self.path):
            existed = self.path.exists()
        try:
            if not storage.is_remote(self.path):
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise storage_error("write", self.path, error) from error
            with self.lock("build", timeout=1.0):
                for held in sorted(self.path.glob(".run-*.lock")):
                    try:
                        with storage.lock(held, 0.0):
                            pass
                    except storage.LockHeldError:
                        run_id = held.name.removeprefix(".run-").removesuffix(".lock")
                        raise StudyError(
                            f"a predict of run {run_id} is writing to {self.path}, and a build "
                            "would change the prompts under it; wait for it or stop it (Ctrl-C "
                            "keeps its answers), then build again"
                        ) from None
                yield
        except BaseException:
            if not existed:
                built = (f"{name}.parquet" for name in _BUILT)
                for name in ("study.toml", *built, "manifest.json", ".build.lock"):
                    with contextlib.suppress(OSError):
                        (self.path / name).unlink(missing_ok=True)
                if not storage.is_remote(self.path):
                    with contextlib.suppress(OSError):
                        self.path.rmdir()
            raise

    @contextlib.contextmanager
    def _edited_manifest(self) -> Iterator[dict[str, Any]]:
        """Change the manifest under its lock."""
        with self.lock("manifest"):
            manifest = self.manifest()
            yield manifest
            write_atomic(self.manifest_path, sealed(manifest))

    def save_run_notes(self, run_id: str, notes: Mapping[str, str]) -> None:
        """Keep the provenance of a run (device, versions) in the manifest."""
        with self._edited_manifest() as manifest:
            manifest.setdefault("runs", {})[run_id] = dict(notes)

    def run_notes(self, run_id: str) -> dict[str, str]:
        """Return the provenance of a run."""
        notes: dict[str, str] = self.manifest().get("runs", {}).get(run_id, {})
        return notes

    # -- runs and predictions ------------------------------------------------------------------

    def runs(self) -> pa.Table:
        """Return ``runs.parquet``; empty before the first prediction."""
        path = self.path / "runs.parquet"
        if not path.exists():
            return schema.RUNS.empty_table()
        return read_parquet(path, schema.RUNS)

    def save_run(self, row: dict[str, Any]) -> None:
        """Add a run, or give an existing one another label."""
        with self.lock("runs"):
            others = [r for r in self.runs().to_pylist() if r["run_id"] != row["run_id"]]
            if row["label"] in {other["label"] for other in others}:
                raise ConfigurationError(
                    f"another run of this study is called {row['label']!r}; choose another --name"
                )
            rows = sorted([*others, row], key=lambda r: str(r["run_id"]))
            write_parquet(
                self.path / "runs.parquet", pa.Table.from_pylist(rows, schema=schema.RUNS)
            )

    @contextlib.contextmanager
    def writing_run(self, run_id: str, files: Mapping[str, str]) -> Iterator[None]:
        """Be the one process that writes a run, and keep builds out meanwhile.

        Parameters
        ----------
        run_id : str
        files : mapping of str to str
            Digests of the built tables as this process read them (``manifest()["files"]``).

        Raises
        ------
        StudyError
            Another process writes the run, or the study was built anew in between.
        """
        with contextlib.ExitStack() as held:
            with self.lock("build"):
                if self.manifest()["files"] != files:
                    raise StudyError(f"{self.path} was built anew just now; run the command again")
                try:
                    held.enter_context(storage.lock(self.path / f".run-{run_id}.lock", 1.0))
                except storage.LockHeldError:
                    raise StudyError(
                        f"another process is writing run {run_id} of {self.path}; wait for it or "
                        "stop it (its answers are kept)"
                    ) from None
            yield

    def is_written(self, run_id: str) -> bool:
        """Return whether a process is writing a run right now, as far as can be told."""
        path = self.path / f".run-{run_id}.lock"
        try:
            if not path.exists():
                return False
            if storage.is_remote(self.path):
                return True  # a lease is there; whether its holder lives takes long to tell
            with storage.lock(path, 0.0):
                return False
        except storage.LockHeldError:
            return True
        except OSError:
            return False

    def predictions(
        self, run_id: str, kind: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return a run's predictions, one row a prompt and repeat, in the order of their ids.

        Parameters
        ----------
        run_id : str
        kind : {"dated", "undated", "modal"}, optional
        columns : sequence of str, optional
            Only these columns.
        """
        return self.answers(run_id, kind, columns)

    def check_part(self, part: Path, table: pa.Table) -> None:
        """Refuse a part with a distribution that should not be there, or without one."""
        if "probs" not in table.column_names or part.parent.name == "kind=modal":
            return
        given = pc.greater(pc.fill_null(pc.list_value_length(table["probs"]), 0), 1)
        usable = pc.is_in(table["status"], value_set=pa.array(["ok", "recovered"]))
        wrong = pc.not_equal(given, usable)
        if pc.any(wrong).as_py():
            row = table.filter(wrong).slice(0, 1).to_pylist()[0]
            has = row["status"] not in ("ok", "recovered")
            raise StudyError(
                f"{part} has a row with status {row['status']} "
                f"{'and' if has else 'but no'} distribution; delete the file and run "
                "predict again"
            )

    def remove_run(self, run_id: str) -> int:
        """Remove a run and its predictions; the caller holds the run's lock.

        Its row in ``runs.parquet`` goes last, so that a removal that was cut short can be
        repeated.

        Returns
        -------
        int
            Number of files removed.
        """
        removed = 0
        for folder in (
            self.run_folder(run_id),
            self._folder(run_id, attempts=True),
            self.score_path(run_id).parent,
        ):
            with storage.reaching("remove", folder):
                files = [path for path in folder.rglob("*") if path.is_file()]
            for path in files:
                self._unlink(path)
                removed += 1
            if not storage.is_remote(folder):
                for inner in sorted((p for p in folder.rglob("*") if p.is_dir()), reverse=True):
                    inner.rmdir()
                with contextlib.suppress(OSError):
                    folder.rmdir()
        with self._edited_manifest() as manifest:
            manifest.get("runs", {}).pop(run_id, None)
        with self.lock("runs"):
            rows = [row for row in self.runs().to_pylist() if row["run_id"] != run_id]
            table = pa.Table.from_pylist(rows, schema=schema.RUNS)
            write_parquet(self.path / "runs.parquet", table)
        return removed

    # -- scores, tables, report ----------------------------------------------------------------

    def scores(self, run_id: str) -> pa.Table:
        """Return a run's scores."""
        return self._scored(self.score_path(run_id), schema.SCORES)

    def save_scores(
        self, files: Mapping[str, bytes | pa.Table], run_ids: Sequence[str], summary: bytes
    ) -> None:
        """Write scores and tables as one unit: without their summary they do not count.

        The old summary goes first and the new one comes last, under a lock, so that a process
        that is killed in between, or two that score at once, never leave a mixture behind.
        Scores of runs that are not among ``run_ids`` are removed.
        """
        with self.lock("scores"):
            path = self.path / "scores.json"
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise storage_error("write", path, error) from error
            # Most of the time of a small file goes into waiting for the disk.
            with ThreadPoolExecutor(max_workers=8) as pool:
                list(pool.map(self.write, files.keys(), files.values()))
            self._keep_scores(run_ids)
            write_atomic(path, summary)

    def _keep_scores(self, run_ids: Sequence[str]) -> None:
        kept = {f"run={run_id}" for run_id in run_ids}
        for folder in (self.path / "scores").glob("run=*"):
            if folder.name not in kept:
                with contextlib.suppress(OSError):
                    (folder / "scores.parquet").unlink(missing_ok=True)
                    folder.rmdir()

    def table(self, name: str) -> pa.Table:
        """Return a result table."""
        return self._scored(self.path / "tables" / f"{name}.parquet", schema.TABLE)

    def _scored(self, path: Path, expected: pa.Schema) -> pa.Table:
        try:
            return read_parquet(path, expected)
        except DamagedFileError as error:
            remedy = f"run: chronocore score {self.path}"
            raise DamagedFileError(path, error.cause, remedy) from error

    def write(self, relative: str, content: bytes | pa.Table) -> Path:
        """Write a file of the study atomically and return its path."""
        path = self.path / relative
        if isinstance(content, pa.Table):
            write_parquet(path, content)
        else:
            write_atomic(path, content)
        return path

    # -- noise ---------------------------------------------------------------------------------

    def noise_path(self, design: str) -> Path:
        """Return the path of the sampling noise of a design."""
        return self.path / "noise" / f"respondents-{design}.parquet"

    def save_noise(self, table: pa.Table, design: str, settings: bytes) -> None:
        """Write the sampling noise of a design, with what it was simulated with."""
        metadata = {**table.schema.metadata, NOISE_METADATA: settings}
        write_parquet(self.noise_path(design), table.replace_schema_metadata(metadata))

    def noise(self, design: str) -> pa.Table:
        """Return the sampling noise of a design (a number of respondents, or ``effective``)."""
        return read_parquet(self.noise_path(design), schema.NOISE)

    def noise_designs(self) -> list[str]:
        """Return the designs that were simulated, numbers first."""
        found = (path.stem for path in (self.path / "noise").glob("respondents-*.parquet"))
        names = [name.removeprefix("respondents-") for name in found]
        return sorted(
            names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0)
        )

    # -- sweep ---------------------------------------------------------------------------------

    def prediction_digests(self, run_id: str) -> list[list[str]]:
        """Return name and SHA-256 of each file of a run's dated and undated predictions."""
        parts = [part for kind in ("dated", "undated") for part in self.parts(run_id, kind)]
        return [[part.name, sha256(storage.read_bytes(part))] for part in parts]

    def _sweep_parts(self) -> list[Path]:
        return sorted((self.path / "sweep").glob("part-*.parquet"))

    def clean_sweep(self, origins: Set[str]) -> None:
        """Remove what a killed sweep left half-written, and parts of another origin.

        The caller holds the lock of the sweep.
        """
        kept = tuple(f"part-{origin}-" for origin in origins)
        old = [part for part in self._sweep_parts() if not part.name.startswith(kept)]
        for path in [*old, *(self.path / "sweep").glob(".*.tmp")]:
            with contextlib.suppress(OSError):
                path.unlink()

    def add_sweep_part(self, origin: str, table: pa.Table) -> Path:
        """Write a part of the sweep under a name no other part has.

        ``origin`` names the run and what its cells were computed from.
        """
        path = self.path / "sweep" / f"part-{origin}-{uuid.uuid4().hex[:12]}.parquet"
        write_parquet(path, schema.conform(table, schema.SWEEP))
        return path

    def sweep(self) -> pa.Table:
        """Return all cells of all sweeps; empty before the first one."""
        tables = [read_parquet(part, schema.SWEEP) for part in self._sweep_parts()]
        return pa.concat_tables(tables) if tables else schema.SWEEP.empty_table()

    def sweep_findings(self) -> pa.Table:
        """Return, for each cell of all sweeps, which findings hold."""
        columns = ["cell_id", "measure", "holds", "support"]
        tables = []
        for part in self._sweep_parts():
            found = read_parquet(part, schema.SWEEP, [*columns, "kind"])
            tables.append(found.filter(pc.equal(found["kind"], "finding")).select(columns))
        empty = pa.schema([schema.SWEEP.field(name) for name in columns]).empty_table()
        return pa.concat_tables(tables) if tables else empty

    def sweep_cells(self) -> set[str]:
        """Return the ids of the cells that are there.

        Raises
        ------
        StudyError
            A part is damaged or of another version.
        """
        return {
            cell
            for part in self._sweep_parts()
            for cell in read_parquet(part, schema.SWEEP)["cell_id"].unique().to_pylist()
        }


def _unique(table: pa.Table) -> pa.Table:
    """Return one row a prompt and repeat, sorted: an answer before an error, the last attempt."""
    ranked = table.append_column("_failed", pc.equal(table["status"], "error"))
    order = pc.sort_indices(
        ranked,
        [
            ("prompt_id", "ascending"),
            ("repeat", "ascending"),
            ("_failed", "ascending"),
            ("attempt", "descending"),
        ],
    )
    table = table.take(order)
    if len(table) < 2:
        return table
    prompts, repeats = table["prompt_id"].combine_chunks(), table["repeat"].combine_chunks()
    n = len(table)
    same = pc.and_(
        pc.equal(prompts.slice(1), prompts.slice(0, n - 1)),
        pc.equal(repeats.slice(1), repeats.slice(0, n - 1)),
    )
    first = np.concatenate([[True], ~np.asarray(same.to_numpy(zero_copy_only=False))])
    return table if first.all() else table.filter(pa.array(first))
