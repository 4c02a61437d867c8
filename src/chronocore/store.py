"""The study on disk or in an object store: the only module that knows where its files are.

Every file is written under a temporary name, flushed to the device and renamed, so that a
reader sees the old file or the new one and never a part of either. What belongs together (a
build, the scores and tables) changes as one. A study exists when its manifest does.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chronocore import locks, publication, schema, storage
from chronocore.config import StudyConfig, dump_config, load_config
from chronocore.errors import ConfigurationError, StudyError
from chronocore.notes import added
from chronocore.parquet import (
    DamagedFileError,
    parquet_bytes,
    read_metadata,
    read_parquet,
    write_parquet,
)
from chronocore.parts import RunParts, RunTotals
from chronocore.provenance import JsonError, remedy, sealed, sha256, unsealed
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

#: Where a part says which run it belongs to.
_RUN = b"chronocore.part"

_BUILT = {
    "items": schema.ITEMS,
    "gold": schema.GOLD,
    "pairs": schema.PAIRS,
    "prompts": schema.PROMPTS,
}


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
    if not storage.is_remote(target) and not target.parent.is_dir():
        raise ConfigurationError(
            f"there is no folder {target.parent} to write {target.name} in; make it first, or "
            "choose another place"
        )
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

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._carried: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, dict[str, str]] = {}

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
        if not storage.is_folder(study.path):
            raise StudyError(
                f"there is no folder {path}; make a study with: "
                f"chronocore build {path} --preset open-sample"
            )
        study.settle()
        if not storage.is_file(study.manifest_path):
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
            try:
                found = storage.digest(file)
            except FileNotFoundError:
                raise StudyError(f"{file} is missing; run: chronocore build {path}") from None
            if found != digest:
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
                f"{self.manifest_path} cannot be used ({error}); {remedy(self.manifest_path)} "
                "(it keeps the damaged file, and the predictions)"
            ) from None
        except FileNotFoundError:
            self.check_place()
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

    def settle(self) -> None:
        """End what a process that was killed had begun to put in place."""
        for name in ("build", "scores"):
            if storage.exists(publication.journal_path(self.path, name)):
                with self.lock(name):
                    publication.settle(self.path, name)

    def config(self) -> StudyConfig:
        """Return the settings in ``study.toml``."""
        try:
            return load_config(self.config_path)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error}\ncorrect {self.config_path}, or write it anew with: "
                f"chronocore build {self.path} --preset NAME (or --config FILE)"
            ) from error

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
    ) -> list[str]:
        """Write the result of a build: everything, or nothing.

        Returns
        -------
        list of str
            A sentence about what was mended: a manifest that could not be read.
        """
        contents: dict[str, bytes | pa.Table] = {}
        digests: dict[str, str] = {}
        for name in _BUILT:
            content = parquet_bytes(tables[name], self.path / f"{name}.parquet")
            contents[f"{name}.parquet"] = content
            digests[f"{name}.parquet"] = sha256(content)
        manifest = {
            "schema_version": schema.SCHEMA_VERSION,
            "chronocore_version": schema.chronocore_version(),
            "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "config": config.build_part(),
            "files": digests,
            **provenance,
        }
        with self._building():
            notes, messages = self._earlier_notes()
            if notes:  # predictions outlive a new build, and so does where they came from
                manifest["runs"] = notes
            if not storage.exists(self.config_path) or self.config() != config:
                contents["study.toml"] = dump_config(config).encode()
            contents["manifest.json"] = sealed(manifest)
            publication.publish(self.path, "build", contents)
            self.remove_strays()
        return messages

    def _earlier_notes(self) -> tuple[dict[str, dict[str, str]], list[str]]:
        """Return the notes of runs by their ids, and what was mended to have them."""
        if not storage.exists(self.manifest_path):
            notes = self._notes_in_parts()
            return notes, []
        try:
            return dict(self.manifest().get("runs", {})), []
        except StudyError:
            notes = self._notes_in_parts()
            aside = self.manifest_path.with_name("manifest.json.unreadable")
            storage.write_atomic(aside, storage.read_bytes(self.manifest_path))
            return notes, [
                f"{self.manifest_path} could not be read; it is kept as {aside.name}, and the "
                f"notes of {len(notes)} runs were taken from their parts"
            ]

    @contextlib.contextmanager
    def _building(self) -> Iterator[None]:
        """Change the built tables: nobody reads prompts meanwhile, and no predict is running.

        A new study that could not be finished leaves no trace.
        """
        with storage.reaching("write", self.path):
            existed = storage.exists(self.path)
        try:
            if not storage.is_remote(self.path):
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise storage_error("write", self.path, error) from error
            with self.lock("build", timeout=1.0):
                for held in sorted(self.path.glob(".run-*.lock")):
                    try:
                        with locks.lock(held, 0.0):
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
                names = (".build.journal", "study.toml", *built, "manifest.json", ".build.lock")
                for name in names:
                    with contextlib.suppress(OSError):
                        (self.path / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    publication.discard(self.path, "build")
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

    def save_run_notes(
        self, run_id: str, notes: Mapping[str, str], earlier: Mapping[str, str] | None = None
    ) -> None:
        """Add to the provenance of a run (device, versions, what an endpoint reported).

        Parameters
        ----------
        run_id : str
        notes : mapping of str to str
            Those of this call so far.
        earlier : mapping of str to str, optional
            Those of the calls before it; by default what is there.
        """
        with self._edited_manifest() as manifest:
            runs = manifest.setdefault("runs", {})
            known = runs.get(run_id, {}) if earlier is None else earlier
            runs[run_id] = added(known, notes)

    def run_notes(self, run_id: str) -> dict[str, str]:
        """Return the provenance of a run."""
        notes: dict[str, str] = self.manifest().get("runs", {}).get(run_id, {})
        return notes

    # -- runs and predictions ------------------------------------------------------------------

    def runs(self) -> pa.Table:
        """Return ``runs.parquet``; empty before the first prediction.

        Raises
        ------
        StudyError
            There are predictions that belong to none of its runs.
        """
        table = self.known_runs()
        orphans = self.orphans(table)
        if orphans:
            listed = ", ".join(str(self.run_folder(run_id)) for run_id in orphans)
            state = "lacks" if len(table) else "is missing, and with it"
            raise StudyError(
                f"{self.path / 'runs.parquet'} {state} the runs whose predictions are in "
                f"{listed}; register them again with: chronocore predict {self.path} --register "
                "(or delete these folders)"
            )
        return table

    def known_runs(self) -> pa.Table:
        """Return ``runs.parquet``, whatever else there is."""
        try:
            return read_parquet(self.path / "runs.parquet", schema.RUNS)
        except DamagedFileError as error:
            what = (
                f"delete it and register the runs again with: chronocore predict {self.path} "
                "--register"
            )
            raise DamagedFileError(error.path, error.cause, what) from error
        except StudyError:
            if storage.exists(self.path / "runs.parquet"):
                raise
            self.check_place()
            return schema.RUNS.empty_table()

    def orphans(self, runs: pa.Table) -> list[str]:
        """Return the ids of runs that have predictions and are not among these."""
        known = set(runs["run_id"].to_pylist())
        folder = self.path / self.answers_folder
        with storage.reaching("list", folder):
            found = sorted(path.name.removeprefix("run=") for path in folder.glob("run=*"))
        return [one for one in found if one not in known and self.parts(one)]

    def part_metadata(self, run_id: str) -> dict[bytes, bytes]:
        """Return which run a part belongs to, should ``runs.parquet`` be lost."""
        if run_id not in self._carried:
            rows = [row for row in self.known_runs().to_pylist() if row["run_id"] == run_id]
            if rows:
                self.carry(rows[0])
        row = self._carried.get(run_id)
        if row is None:
            return {}
        carried = {**row, "notes": self._notes.get(run_id, {})}
        return {_RUN: json.dumps(carried, ensure_ascii=False).encode()}

    def carry(self, row: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> None:
        """Let the parts of a run that are written from now on say what run it is."""
        self._carried[str(row["run_id"])] = dict(row)
        if notes is not None:
            self._notes[str(row["run_id"])] = dict(notes)

    def carried(self, run_id: str) -> dict[str, Any] | None:
        """Return the row of ``runs.parquet`` that the parts of a run carry, and its ``notes``."""
        found: dict[str, Any] | None = None
        notes: dict[str, str] = {}
        for part in [*self.parts(run_id), *self.parts(run_id, attempts=True)]:
            try:
                row = json.loads(read_metadata(part)[_RUN])
                if row["run_id"] == run_id and set(schema.RUNS.names) <= set(row):
                    notes = added({}, {**notes, **row["notes"]})
                    found = {**row, "notes": notes}
            except (DamagedFileError, FileNotFoundError, KeyError, ValueError, TypeError):
                continue
        return found

    def _notes_in_parts(self) -> dict[str, dict[str, str]]:
        """Return the notes that the parts of runs carry, by run."""
        folder = self.path / self.answers_folder
        ids = sorted(path.name.removeprefix("run=") for path in folder.glob("run=*"))
        found = {run_id: self.carried(run_id) for run_id in ids}
        return {run_id: row["notes"] for run_id, row in found.items() if row and row["notes"]}

    def save_run(
        self, row: Mapping[str, Any], choose: Callable[[list[dict[str, Any]]], str] | None = None
    ) -> str:
        """Add a run, or give an existing one another label; return its label.

        Parameters
        ----------
        row : mapping
            A row of ``runs.parquet``; without its label where that is to be chosen.
        choose : callable, optional
            Chooses the label from all rows, while no other process can add one.
        """
        with self.lock("runs"):
            rows = self.known_runs().to_pylist()
            label = str(row["label"]) if choose is None else choose(rows)
            others = [r for r in rows if r["run_id"] != row["run_id"]]
            if label in {other["label"] for other in others}:
                raise ConfigurationError(
                    f"another run of this study is called {label!r}; choose another --name"
                )
            new = {**row, "label": label}
            self.carry(new)
            if new not in rows:
                kept = sorted([*others, new], key=lambda r: str(r["run_id"]))
                table = pa.Table.from_pylist(kept, schema=schema.RUNS)
                write_parquet(self.path / "runs.parquet", table)
        return label

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
                    held.enter_context(locks.lock(self.path / f".run-{run_id}.lock", 1.0))
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
            if not storage.exists(path):
                return False
            if storage.is_remote(self.path):
                return True  # a lease is there; whether its holder lives takes long to tell
            with locks.lock(path, 0.0):
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

    def n_texts(self, run_id: str) -> int:
        """Return how many rows of a run have a text."""
        return sum(
            len(table) - table["text"].null_count
            for part in self.parts(run_id)
            for table in self.batches(run_id, part, ["text"])
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
        removed = self.remove_answers(run_id)
        removed += storage.remove_folder(self.score_path(run_id).parent)
        with self._edited_manifest() as manifest:
            manifest.get("runs", {}).pop(run_id, None)
        with self.lock("runs"):
            rows = [row for row in self.known_runs().to_pylist() if row["run_id"] != run_id]
            table = pa.Table.from_pylist(rows, schema=schema.RUNS)
            write_parquet(self.path / "runs.parquet", table)
        self.remove_strays()
        return removed

    # -- scores, tables, report ----------------------------------------------------------------

    def scores(self, run_id: str) -> pa.Table:
        """Return a run's scores."""
        return self._scored(self.score_path(run_id), schema.SCORES)

    def save_scores(
        self, files: Mapping[str, bytes | pa.Table], run_ids: Sequence[str], summary: bytes
    ) -> None:
        """Write scores and tables as one: the old ones stay until all new ones are whole.

        Scores of runs that are not among ``run_ids`` are removed.
        """
        kept = {f"run={run_id}" for run_id in run_ids}
        with self.lock("scores"):
            removed = [
                f"scores/{folder.name}/scores.parquet"
                for folder in (self.path / "scores").glob("run=*")
                if folder.name not in kept
            ]
            contents = {**files, "scores.json": summary}
            publication.publish(self.path, "scores", contents, removed)
            self.remove_strays()

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
        self.remove_strays()

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
        return [[part.name, storage.digest(part)] for part in parts]

    def _sweep_parts(self, origins: Set[str] | None = None) -> list[Path]:
        parts = sorted((self.path / "sweep").glob("part-*.parquet"))
        if origins is None:
            return parts
        kept = tuple(f"part-{origin}-" for origin in origins)
        return [part for part in parts if part.name.startswith(kept)]

    def clean_sweep(self, origins: Set[str]) -> None:
        """Remove parts of the sweep of another origin.

        The caller holds the lock of the sweep.
        """
        kept = set(self._sweep_parts(origins))
        for path in self._sweep_parts():
            if path not in kept:
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

    def sweep_findings(self, origins: Set[str]) -> pa.Table:
        """Return, for each cell of some origins, which findings hold."""
        columns = ["cell_id", "measure", "holds", "support"]
        tables = []
        for part in self._sweep_parts(origins):
            found = read_parquet(part, schema.SWEEP, [*columns, "kind"])
            tables.append(found.filter(pc.equal(found["kind"], "finding")).select(columns))
        empty = pa.schema([schema.SWEEP.field(name) for name in columns]).empty_table()
        return pa.concat_tables(tables) if tables else empty

    def sweep_cells(self, origins: Set[str]) -> set[str]:
        """Return the ids of the cells of some origins that are there.

        Raises
        ------
        StudyError
            A part is damaged or of another version.
        """
        return {
            cell
            for part in self._sweep_parts(origins)
            for cell in read_parquet(part, schema.SWEEP, ["cell_id"])["cell_id"]
            .unique()
            .to_pylist()
        }
