"""The study on disk: the only module that writes files.

Every file is written under a temporary name, flushed to the device and renamed, so that a
reader sees the old file or the new one and never a part of either. A study exists when its
manifest does; the manifest is written last.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronocore import schema
from chronocore.config import StudyConfig, dump_config, load_config
from chronocore.engines.base import STATUSES
from chronocore.errors import ConfigurationError, StorageError, StudyError

__all__ = ["NOISE_METADATA", "Study", "read_parquet", "write_atomic", "write_parquet"]

#: Where a noise file says what it was simulated with.
NOISE_METADATA = b"chronocore.noise"

_BUILT = {
    "items": schema.ITEMS,
    "gold": schema.GOLD,
    "pairs": schema.PAIRS,
    "prompts": schema.PROMPTS,
}


def _storage_error(action: str, path: Path, error: OSError) -> StorageError:
    if error.errno == errno.ENOSPC:
        what = "the disk is full; free some space and run the command again"
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        what = "the folder is read-only for you; choose another folder or change its permissions"
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        what = "a file stands where a folder is needed; choose another path"
    else:
        what = error.strerror or str(error)
    return StorageError(f"cannot {action} {path}: {what}")


def write_atomic(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that no reader ever sees a part of it.

    Raises
    ------
    StorageError
        The disk is full or read-only; ``path`` is as it was before.
    """
    # A link is written through, as other programs do; a device or a folder is no place to write.
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise StorageError(f"cannot write {path}: it is no regular file; choose another path")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise _storage_error("write", path, error) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table atomically."""
    write_atomic(path, parquet_bytes(table))


def read_parquet(path: Path, expected: pa.Schema | None = None) -> pa.Table:
    """Read a table and check that it is of the schema version this release knows.

    Raises
    ------
    StudyError
        The file is missing, damaged, or of another schema or version.
    """
    try:
        table = pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise StudyError(
            f"{path} is missing; run the command that makes it again (build, predict or score)"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise StudyError(
            f"{path} is damaged or no Parquet file ({str(error).splitlines()[0]}); "
            "delete it and run the command that makes it again"
        ) from error
    if expected is not None:
        try:
            _check_schema(path, table.schema, expected)
            table = schema.conform(table, expected)
        except (KeyError, UnicodeDecodeError, pa.ArrowException) as error:
            raise StudyError(
                f"{path} does not have the columns it should ({str(error).splitlines()[0]}); "
                "delete it and run the command that makes it again"
            ) from error
    return table


def _check_schema(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    metadata = found.metadata or {}
    name = metadata.get(b"chronocore.schema", b"?").decode()
    number = metadata.get(b"chronocore.schema_version", b"?").decode()
    wanted = (expected.metadata or {})[b"chronocore.schema"].decode()
    if name != wanted:
        raise StudyError(f"{path} holds {name!r}, not {wanted!r}; it is no file of this study")
    if number != str(schema.SCHEMA_VERSION):
        raise StudyError(
            f"{path} has schema version {number}, this chronocore reads "
            f"{schema.SCHEMA_VERSION}; build the study again with this version in a new folder"
        )


class Study:
    """A study folder.

    Attributes
    ----------
    path : Path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r})"

    # -- paths ---------------------------------------------------------------------------------

    @property
    def config_path(self) -> Path:
        """``study.toml``."""
        return self.path / "study.toml"

    @property
    def manifest_path(self) -> Path:
        """``manifest.json``."""
        return self.path / "manifest.json"

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of a run's predictions."""
        return self.path / "predictions" / f"run={run_id}"

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
        study = cls(Path(path))
        if not study.path.is_dir():
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
            if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
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
            data: dict[str, Any] = json.loads(self.manifest_path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise StudyError(f"{self.manifest_path} cannot be read ({error})") from error
        whole = (
            isinstance(data, dict)
            and {"schema_version", "config"} <= set(data)
            and isinstance(data.get("files"), dict)
            and isinstance(data.get("runs", {}), dict)
        )
        if not whole:
            raise StudyError(f"{self.manifest_path} is not the manifest of a chronocore study")
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
        contents = {f"{name}.parquet": parquet_bytes(tables[name]) for name in _BUILT}
        manifest = {
            "schema_version": schema.SCHEMA_VERSION,
            "chronocore_version": schema.chronocore_version(),
            "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "config": config.build_part(),
            "files": {n: hashlib.sha256(c).hexdigest() for n, c in contents.items()},
            **provenance,
        }
        if self.manifest_path.exists():
            # Predictions outlive a new build, and so does where they came from.
            with contextlib.suppress(StudyError):
                manifest["runs"] = self.manifest().get("runs", {})
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        existed = self.path.exists()
        try:
            if not self.config_path.exists() or self.config() != config:
                write_atomic(self.config_path, dump_config(config).encode())
            for name, content in contents.items():
                write_atomic(self.path / name, content)
            write_atomic(self.manifest_path, text.encode())
        except BaseException:
            if not existed:
                # A new study that could not be finished leaves no trace.
                for name in ("study.toml", *contents, "manifest.json"):
                    with contextlib.suppress(OSError):
                        (self.path / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            raise

    @contextlib.contextmanager
    def _edited_manifest(self) -> Iterator[dict[str, Any]]:
        """Change the manifest under its lock."""
        with self.lock("manifest"):
            manifest = self.manifest()
            yield manifest
            text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
            write_atomic(self.manifest_path, text.encode())

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
    def lock(self, name: str, timeout: float = 30.0) -> Iterator[None]:
        """Hold a lock of this study; the system frees it when the process dies.

        Raises
        ------
        StudyError
            Another process holds it.
        """
        path = self.path / f".{name}.lock"
        try:
            with filelock.FileLock(path, timeout=timeout):
                yield
        except filelock.Timeout:
            raise StudyError(
                f"another process is writing {name} of {self.path}; wait for it or stop it"
            ) from None
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise _storage_error("lock", path, error) from error

    def _parts(self, run_id: str, kind: str | None = None) -> list[Path]:
        pattern = f"kind={kind}" if kind else "kind=*"
        return sorted(self.run_folder(run_id).glob(f"{pattern}/part-*.parquet"))

    def _read_part(self, run_id: str, part: Path) -> pa.Table:
        """Read a part and check that it belongs where it lies and says what it may say."""
        table = read_parquet(part, schema.PREDICTIONS)
        found = set(table["run_id"].unique().to_pylist()) - {run_id}
        if found:
            raise StudyError(
                f"{part} holds run {sorted(map(str, found))[0]}, not {run_id}; move it where it "
                "belongs or delete it"
            )
        unknown = set(table["status"].unique().to_pylist()) - STATUSES
        if unknown:
            raise StudyError(
                f"{part} has the unknown status {sorted(map(str, unknown))[0]!r}; delete the file "
                "and run predict again"
            )
        if part.parent.name != "kind=modal":
            given = pc.fill_null(pc.greater(pc.list_value_length(table["probs"]), 1), False)
            usable = pc.is_in(table["status"], pa.array(["ok", "recovered"]))
            wrong = pc.index(pc.equal(usable, given), False).as_py()
            if wrong >= 0:
                raise StudyError(
                    f"{part} has a row with status {table['status'][wrong]} "
                    f"{'and' if given[wrong].as_py() else 'but no'} distribution; delete the file "
                    "and run predict again"
                )
        return table

    def predictions(self, run_id: str, kind: str | None = None) -> pa.Table:
        """Return a run's predictions, one row a prompt and repeat: the last attempt."""
        tables = [self._read_part(run_id, part) for part in self._parts(run_id, kind)]
        if not tables:
            return schema.PREDICTIONS.empty_table()
        # Last of each prompt and repeat: an answer before an error, then the later attempt.
        # Equal ones keep the first, as parts are read in order.
        table = pa.concat_tables(tables).combine_chunks()
        codes = table["prompt_id"].combine_chunks().dictionary_encode()
        names = np.asarray(codes.dictionary.to_numpy(zero_copy_only=False)).astype(str)
        place = np.empty(len(names), dtype=np.int64)
        place[np.argsort(names, kind="stable")] = np.arange(len(names))
        prompt = place[codes.indices.to_numpy()]
        repeat, attempt = table["repeat"].to_numpy(), table["attempt"].to_numpy()
        answered = pc.not_equal(table["status"], "error").to_numpy()
        row = np.arange(len(table))
        order = np.lexsort((-row, attempt, answered, repeat, prompt))
        last = np.ones(len(order), dtype=bool)
        ranked = np.stack([prompt[order], repeat[order]])
        last[:-1] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
        return table.take(pa.array(order[last]))

    def drop_errors(self, run_id: str, kinds: Sequence[str]) -> dict[tuple[str, int], int]:
        """Remove rows without an answer, so that they can be asked again.

        Returns
        -------
        dict
            Attempts so far of each removed (prompt_id, repeat).
        """
        attempts: dict[tuple[str, int], int] = {}
        for part in [part for kind in kinds for part in self._parts(run_id, kind)]:
            table = self._read_part(run_id, part)
            failed = [status == "error" for status in table["status"].to_pylist()]
            if not any(failed):
                continue
            for row in table.filter(pa.array(failed)).to_pylist():
                key = (row["prompt_id"], row["repeat"])
                attempts[key] = max(attempts.get(key, 0), row["attempt"])
            kept = table.filter(pa.array([not f for f in failed]))
            if len(kept):
                write_parquet(part, kept)
            else:
                part.unlink()
        return attempts

    def remove_temporaries(self, run_id: str) -> None:
        """Remove what a killed process left half-written; the caller holds the run's lock."""
        for path in self.run_folder(run_id).glob("kind=*/.*.tmp"):
            with contextlib.suppress(OSError):
                path.unlink()

    def add_part(self, run_id: str, kind: str, rows: list[dict[str, Any]]) -> Path:
        """Write a part of a run's predictions under a name no other part has."""
        name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        path = self.run_folder(run_id) / f"kind={kind}" / name
        write_parquet(path, pa.Table.from_pylist(rows, schema=schema.PREDICTIONS))
        return path

    # -- scores, tables, report ----------------------------------------------------------------

    def scores(self, run_id: str) -> pa.Table:
        """Return a run's scores."""
        return read_parquet(self.score_path(run_id), schema.SCORES)

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
                raise _storage_error("write", path, error) from error
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
        return read_parquet(self.path / "tables" / f"{name}.parquet", schema.TABLE)

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
        parts = [part for kind in ("dated", "undated") for part in self._parts(run_id, kind)]
        return [[part.name, hashlib.sha256(part.read_bytes()).hexdigest()] for part in parts]

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
        tables = [
            pq.read_table(part, columns=columns, filters=[("kind", "=", "finding")])
            for part in self._sweep_parts()
        ]
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
