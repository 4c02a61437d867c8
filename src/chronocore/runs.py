"""The runs of a study: how far each is, merging its parts, removing it, handing it on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from chronocore import schema, storage
from chronocore.errors import StudyError
from chronocore.part_files import PartWriter, text_size
from chronocore.predict import find_run, prompts_of
from chronocore.row_digest import ROWS_METADATA, RUN_METADATA, RowDigest, rows_digest
from chronocore.store import DamagedFileError, Study

__all__ = [
    "CompactResult",
    "RegisterResult",
    "RunStatus",
    "compact",
    "export_run",
    "register_runs",
    "remove_run",
    "status",
]

#: How often a run is looked at anew because the process that writes it merged a part away.
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How far a run is.

    Attributes
    ----------
    run_id, label, model, engine : str
    done, total : dict of str to int
        Answers there, and prompts times repeats, by kind; for kinds that were asked. A row with
        the status ``error`` is no answer.
    statuses : dict of str to int
        The rows by status.
    attempts : int
        Prompts asked, however often and whatever came back.
    prompt_tokens, completion_tokens : int
        Sums over all attempts.
    last_write : str or None
        When the last answer came (UTC, ISO 8601).
    parts, size : int
        Files and bytes.
    writing : bool
        A process is writing it right now.
    damaged : list of str
        A sentence about each part that cannot be read, and what will become of it. What is in
        them is not counted.
    """

    run_id: str
    label: str
    model: str
    engine: str
    done: dict[str, int]
    total: dict[str, int]
    statuses: dict[str, int]
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    last_write: str | None
    parts: int
    size: int
    writing: bool
    damaged: list[str]


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What merging did to a run.

    Attributes
    ----------
    before, after : int
        Number of parts.
    notices : list of str
        What was found and mended: a part that could not be read and was set aside.
    """

    before: int
    after: int
    notices: list[str]


def status(study: str | Path | Study) -> list[RunStatus]:
    """Return how far every run of a study is; no model is needed.

    Parameters
    ----------
    study : path, URL or Study

    Returns
    -------
    list of RunStatus
        In the order of their labels.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    rows = sorted(opened.runs().to_pylist(), key=lambda row: str(row["label"]))
    return [_status(opened, row) for row in rows]


def _status(study: Study, run: dict[str, Any]) -> RunStatus:
    for look in range(_LOOKS):
        try:
            return _look(study, run)
        except (StudyError, FileNotFoundError):
            # The process that writes the run may have merged a part away since it was listed.
            if look == _LOOKS - 1:
                raise
    raise AssertionError


def _look(study: Study, run: dict[str, Any]) -> RunStatus:
    identity = run["run_id"]
    prompts = prompts_of(study, run["instruction"], run["elicitation"])
    asked = pc.or_(
        pc.and_(
            pc.equal(prompts["instruction"], run["instruction"]),
            pc.equal(prompts["elicitation"], run["elicitation"]),
        ),
        pc.equal(prompts["kind"], "modal"),
    )
    prompts = prompts.filter(asked)
    n_prompts = Counter(prompts["kind"].to_pylist())
    done: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    last: datetime | None = None
    damaged: dict[Path, str] = {}
    parts = study.parts(identity)
    for part in [*parts, *study.parts(identity, attempts=True)]:
        try:
            for _ in study.batches(identity, part):
                pass  # the whole of it, as a predict will
            columns = ["prompt_id", "repeat", "status", "created_at"]
            table = study.read_part(identity, part, columns)
        except StudyError as error:
            if not storage.exists(part):
                raise
            damaged[part] = _fate(part, error)
            continue
        if part not in parts:
            continue
        # Answers to prompts of an earlier build are kept, and are not answers to these.
        table = table.filter(pc.is_in(table["prompt_id"], value_set=prompts["prompt_id"]))
        if not len(table):
            continue
        kind = part.parent.name.removeprefix("kind=")
        done[kind] += len(table) - (pc.sum(pc.equal(table["status"], "error")).as_py() or 0)
        repeats[kind] = max(repeats[kind], pc.max(table["repeat"]).as_py() + 1)
        statuses.update(table["status"].to_pylist())
        written = pc.max(table["created_at"]).as_py()
        last = written if last is None else max(last, written)
    totals = study.totals(identity, without=damaged.keys())
    kinds = list(done)
    if set(done) != {"modal"}:  # a run of distributions is not complete without both
        kinds = [*(kind for kind in ("dated", "undated") if n_prompts[kind]), *done]
    most = max(repeats.values(), default=1)
    return RunStatus(
        run_id=identity,
        label=run["label"],
        model=run["model"],
        engine=run["engine"],
        done={kind: done[kind] for kind in kinds},
        total={kind: n_prompts[kind] * (repeats[kind] or most) for kind in kinds},
        statuses=dict(statuses.most_common()),
        attempts=totals.attempts,
        prompt_tokens=totals.prompt_tokens,
        completion_tokens=totals.completion_tokens,
        last_write=None if last is None else last.isoformat(timespec="seconds"),
        parts=len(parts),
        size=sum(part.stat().st_size for part in parts),
        writing=study.is_written(identity),
        damaged=list(damaged.values()),
    )


def _fate(part: Path, error: StudyError) -> str:
    """Return a sentence about a part that cannot be read and what will become of it."""
    if not isinstance(error, DamagedFileError):
        return str(error)  # says what to do; a predict leaves it where it is
    again = "forgets its attempts" if part.parts[-4] == "attempts" else "asks its prompts again"
    return (
        f"{part} cannot be read ({error.cause}); the next predict of this run sets it aside and "
        f"{again}"
    )


def compact(study: str | Path | Study, run: str | None = None) -> dict[str, CompactResult]:
    """Merge the parts of a run, or of all, into few large ones, sorted by prompt.

    A process that is killed in the middle loses and doubles nothing. A part that cannot be read is
    set aside, as by a predict.

    Parameters
    ----------
    study : path, URL or Study
    run : str, optional
        Label or id; by default every run.

    Returns
    -------
    dict of str to CompactResult
        By label.

    Raises
    ------
    StudyError
        There is no such run, or another process is writing it.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    rows = [find_run(opened, run)] if run else opened.runs().to_pylist()
    results: dict[str, CompactResult] = {}
    for row in rows:
        with opened.writing_run(row["run_id"], opened.manifest()["files"]):
            notices = opened.recover(row["run_id"])
            before, after = opened.compact(row["run_id"])
            results[row["label"]] = CompactResult(before, after, notices)
    return results


def remove_run(study: str | Path | Study, run: str) -> int:
    """Remove a run and everything it holds: predictions, attempts, scores.

    Parameters
    ----------
    study : path, URL or Study
    run : str
        Label or id.

    Returns
    -------
    int
        Number of files removed.

    Raises
    ------
    StudyError
        There is no such run, or another process is writing it.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    row = find_run(opened, run)
    with opened.writing_run(row["run_id"], opened.manifest()["files"]):
        return opened.remove_run(row["run_id"])


@dataclass(frozen=True, slots=True)
class RegisterResult:
    """What registering runs again came to.

    Attributes
    ----------
    registered : dict of str to str
        Label of each run that is in ``runs.parquet`` again, by its id.
    unknown : list of str
        Folders whose parts do not say which run they belong to, with what to do.
    """

    registered: dict[str, str]
    unknown: list[str]


def register_runs(study: str | Path | Study) -> RegisterResult:
    """Register again the runs whose predictions are there and which ``runs.parquet`` lacks.

    Every part says which run it belongs to: its model, its settings and its label.

    Parameters
    ----------
    study : path, URL or Study

    Returns
    -------
    RegisterResult
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    registered: dict[str, str] = {}
    unknown: list[str] = []
    opened.remove_strays()
    for identity in opened.orphans(opened.known_runs()):
        found = opened.carried(identity)
        if found is None:
            unknown.append(
                f"the parts in {opened.run_folder(identity)} do not say which model answered; the "
                "predict command that asked it registers it again, without asking anything twice"
            )
            continue
        notes = found.pop("notes")
        row = {name: found[name] for name in schema.RUNS.names}
        registered[identity] = opened.save_run(row, _free_label(row))
        if notes:
            known = opened.run_notes(identity)
            opened.save_run_notes(identity, known or notes, {})
    return RegisterResult(registered, unknown)


def _free_label(row: dict[str, Any]) -> Any:
    """Return what chooses the label a run had, with its id where another run has it now."""

    def choose(rows: list[dict[str, Any]]) -> str:
        taken = {other["label"] for other in rows if other["run_id"] != row["run_id"]}
        label = str(row["label"])
        return label if label not in taken else f"{label} ({row['run_id'][:7]})"

    return choose


def export_run(study: str | Path | Study, run: str, path: str | Path) -> int:
    """Write a run's predictions to one Parquet file that carries the run's settings.

    ``file:<path>`` brings them back, into any study with the same prompts, as the same run. A
    digest binds the rows to the run: edited ones are not taken for it.

    Parameters
    ----------
    study : path or Study
    run : str
        Label or id of the run.
    path : path
        The file to write.

    Returns
    -------
    int
        Number of rows written.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    row = find_run(opened, run)
    carried = {
        "run_id": row["run_id"],
        "label": row["label"],
        "settings": {k: v for k, v in row.items() if k not in ("run_id", "label")},
        "notes": opened.run_notes(row["run_id"]),
    }
    said = json.dumps(carried).encode()
    target = storage.location(path)
    scratch = None if storage.is_remote(target) else target.resolve().parent
    digest = RowDigest(schema.PREDICTIONS)
    rows = schema.PREDICTIONS.with_metadata({**schema.PREDICTIONS.metadata, RUN_METADATA: said})
    with storage.writing(target) as handle:
        writer: PartWriter | None = None
        for table in opened.ordered_rows(row["run_id"], scratch):
            if writer is None:
                writer = PartWriter(handle, rows, text_size(table) / max(1, len(table)))
            digest.update(table)
            writer.write(table.replace_schema_metadata(rows.metadata))
        writer = writer or PartWriter(handle, rows, 0.0)
        writer.close({ROWS_METADATA: rows_digest(said, digest)})
    return digest.n_rows
