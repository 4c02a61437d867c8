"""Prompts -> predictions, streamed to the study as they come and resumed where they stopped."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronocore import schema
from chronocore.elicitation import read_answer
from chronocore.engines import (
    Answer,
    Engine,
    EngineOptions,
    FileEngine,
    Option,
    Request,
    RunSettings,
    open_engine,
)
from chronocore.engines.file import RUN_METADATA
from chronocore.errors import ConfigurationError, EngineError, StudyError
from chronocore.identity import run_id
from chronocore.prompts import INSTRUCTIONS, KINDS, prompts_table
from chronocore.store import Study, write_parquet

__all__ = ["PredictResult", "Progress", "export_run", "find_run", "predict", "prompts_of"]

#: A part is written after this many rows, or this many seconds after the last one.
FLUSH_ROWS = 500
FLUSH_SECONDS = 30.0


@dataclass(slots=True)
class Progress:
    """Where a run stands; handed to the progress callback after every answer.

    ``first_answer`` is the monotonic time of the first answer of this call.
    """

    total: int
    done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    completion_tokens: int = 0
    first_answer: float | None = None


@dataclass(frozen=True, slots=True)
class PredictResult:
    """What a call of :func:`predict` did.

    Attributes
    ----------
    run_id, label : str
    total : int
        Prompts times repeats asked for.
    already_done : int
        Of these, answered before this call.
    statuses : dict of str to int
        All answers of the run for the kinds asked for, by status.
    reasons : dict of str to int
        The answers without a distribution, by ``status: reason``.
    missing : int
        Prompts without a row (a file that does not cover them).
    unmatched : int
        Rows of a predictions file that answer none of the prompts.
    seconds : float
        Time of this call.
    """

    run_id: str
    label: str
    total: int
    already_done: int
    statuses: dict[str, int]
    reasons: dict[str, int]
    missing: int
    unmatched: int
    seconds: float


def prompts_of(study: Study, instruction: str, elicitation: str = "verbalized") -> pa.Table:
    """Return the prompts of a study with those of one instruction and elicitation.

    ``prompts.parquet`` holds the default ones; the others are written from pairs and items
    whenever they are needed, with the same ids every time, so no file has to change.
    """
    prompts = study.prompts()
    if (instruction, elicitation) == ("default", "verbalized"):
        return prompts
    added = prompts_table(study.pairs(), study.items(), instruction, elicitation)
    return pa.concat_tables([prompts, added])


def _requests(
    study: Study, kinds: Sequence[str], instruction: str, elicitation: str, repeats: int
) -> list[Request]:
    prompts = prompts_of(study, instruction, elicitation)
    requests: list[Request] = []
    rows = [
        row
        for row in prompts.to_pylist()
        if row["kind"] in kinds
        and (
            (row["instruction"], row["elicitation"]) == (instruction, elicitation)
            or row["kind"] == "modal"
        )
    ]
    for repeat in range(repeats):
        for row in rows:
            options = tuple(Option(o["code"], o["label"]) for o in row["options"])
            requests.append(
                Request(
                    prompt_id=row["prompt_id"],
                    repeat=repeat,
                    kind=row["kind"],
                    system=row["system"],
                    user=row["user"],
                    options=options,
                    survey=row["survey"],
                    variable=row["variable"],
                    country=row["country"],
                    wave=row["wave"],
                    year=row["year"],
                    elicitation=row["elicitation"],
                )
            )
    return requests


_LABEL_PARTS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("elicitation", str),
    ("structured", lambda value: "structured" if value else "free text"),
    ("instruction", lambda value: f"{value} instruction"),
    ("temperature", lambda value: f"temperature {value:g}"),
    ("top_p", lambda value: f"top-p {value:g}"),
    ("max_tokens", lambda value: f"{value} tokens"),
    ("seed", lambda value: f"seed {value}"),
    ("engine", str),
    ("revision", lambda value: f"revision {str(value).removeprefix('sha256:')[:8]}"),
    ("engine_version", lambda value: f"engine {value}"),
    ("chat_template_sha256", lambda value: f"template {str(value)[:8]}"),
)


def _label(settings: RunSettings, others: list[dict[str, Any]]) -> str:
    """Name a run by its model and by what distinguishes it from its siblings."""
    taken = {str(row["label"]) for row in others}
    siblings = [row for row in others if row["model"] == settings.model]
    own = asdict(settings)
    parts = [settings.model]
    for key, render in _LABEL_PARTS:
        if own[key] is not None and any(row[key] != own[key] for row in siblings):
            parts.append(render(own[key]))
    label = ", ".join(parts)
    return label if label not in taken else f"{label} ({run_id(settings)[:7]})"


def _register(
    study: Study, settings: RunSettings, name: str | None, carried: str | None
) -> tuple[str, str]:
    identity = run_id(settings)
    rows = study.runs().to_pylist()
    others = [row for row in rows if row["run_id"] != identity]
    present = [row for row in rows if row["run_id"] == identity]
    if name is not None and name in {row["label"] for row in others}:
        raise ConfigurationError(
            f"another run of this study is called {name!r}; choose another --name"
        )
    label = name or (present[0]["label"] if present else None)
    if label is None:
        taken = {row["label"] for row in others}
        label = carried if carried and carried not in taken else _label(settings, others)
    if not present or present[0]["label"] != label:
        study.save_run({"run_id": identity, "label": label, **asdict(settings)})
    return identity, label


def _row(
    answer: Answer, request: Request, identity: str, settings: RunSettings, attempt: int
) -> dict[str, Any]:
    """Return the prediction row of an answer."""
    row: dict[str, Any] = dict.fromkeys(schema.PREDICTIONS.names)
    row |= {
        "run_id": identity,
        "model": settings.model,
        "prompt_id": request.prompt_id,
        "repeat": request.repeat,
        "seed": settings.seed if answer.seed is None else answer.seed,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "attempt": attempt,
        "created_at": datetime.now(UTC),
    }
    return row | read_answer(answer, request)


class _Writer:
    """Collects rows by kind and writes them as parts of bounded size and age."""

    def __init__(self, study: Study, identity: str) -> None:
        self._study = study
        self._run_id = identity
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._flushed = time.monotonic()

    def add(self, kind: str, row: dict[str, Any]) -> None:
        rows = self._rows.setdefault(kind, [])
        rows.append(row)
        if len(rows) >= FLUSH_ROWS:
            self._write(kind)
        elif time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def _write(self, kind: str) -> None:
        rows = self._rows.pop(kind, [])
        if rows:
            self._study.add_part(self._run_id, kind, rows)

    def flush(self) -> None:
        for kind in list(self._rows):
            self._write(kind)
        self._flushed = time.monotonic()


def predict(
    study: str | Path | Study,
    model: str,
    *,
    name: str | None = None,
    kinds: Sequence[str] = ("dated", "undated"),
    instruction: str = "default",
    elicitation: str = "verbalized",
    samples: int = 20,
    repeats: int = 1,
    structured: bool = False,
    temperature: float | None = None,
    top_p: float = 1.0,
    max_tokens: int | None = None,
    seed: int = 0,
    revision: str | None = None,
    engine_args: Mapping[str, object] | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
) -> PredictResult:
    """Let a model, a reference or a file answer the prompts of a study.

    Answers are written as they come; a second call goes on where the first stopped and asks
    again only what got no answer. The published settings are the defaults (ChronoCulture,
    appendix B.1).

    Parameters
    ----------
    study : path or Study
    model : str
        ``vllm:<model or path>``, ``reference:uniform|persistence|pooled`` or ``file:<parquet>``.
    name : str, optional
        Label of the run in tables.
    kinds : sequence of {"dated", "undated", "modal"}
    instruction : {"default", "national", "hundred_adults"}
    elicitation : {"verbalized", "sampled", "logprob"}
        Whether the model is asked for the distribution, many times for one option, or whether
        the probabilities of its first token are read.
    samples : int
        Answers that make one distribution, for ``sampled``.
    repeats : int
        Answers to each prompt.
    structured : bool
        Hold the model to the JSON format by a schema.
    temperature, top_p, max_tokens, seed
        Sampling settings.
    revision : str, optional
        Revision of a model on a hub.
    engine_args : mapping, optional
        Passed through to vLLM.
    progress : callable
        Called with a :class:`Progress` after every answer.

    Returns
    -------
    PredictResult

    Raises
    ------
    ConfigurationError
        The model specification, a kind or an instruction is unknown.
    EngineError
        The engine failed; what was answered before is kept and the run can be resumed.
    StudyError
        The study cannot be used, or another process is writing this run.
    """
    started = time.monotonic()
    opened = study if isinstance(study, Study) else Study.open(study)
    kinds = list(dict.fromkeys(kinds))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ConfigurationError(f"unknown kind {unknown}; kinds are {', '.join(KINDS)}")
    if instruction not in INSTRUCTIONS:
        raise ConfigurationError(
            f"unknown instruction {instruction!r}; known: {', '.join(INSTRUCTIONS)}"
        )
    if name is not None and not (
        name.isprintable() and name.strip() == name and 0 < len(name) <= 100
    ):
        raise ConfigurationError(
            "a run's name is 1 to 100 printable characters without spaces at its ends"
        )
    if elicitation != "verbalized" and "modal" in kinds:
        raise ConfigurationError(
            "modal prompts ask for one option already and have no other elicitation; "
            "leave out the kind or the elicitation"
        )
    if not all(map(math.isfinite, (temperature or 0.0, top_p))):
        raise ConfigurationError("temperature and top_p must be finite numbers")
    if repeats < 1:
        raise ConfigurationError(f"repeats must be at least 1, not {repeats}")
    options = EngineOptions(
        instruction=instruction,
        elicitation=elicitation,
        samples=samples,
        structured=structured,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seed=seed,
        revision=revision,
        engine_args=engine_args or {},
    )
    engine = open_engine(model, options, opened.gold)
    try:
        return _run(opened, engine, name, kinds, repeats, progress, started)
    finally:
        engine.close()


def _run(
    study: Study,
    engine: Engine,
    name: str | None,
    kinds: Sequence[str],
    repeats: int,
    progress: Callable[[Progress], None],
    started: float,
) -> PredictResult:
    settings = engine.settings
    requests = _requests(study, kinds, settings.instruction, settings.elicitation, repeats)
    unmatched = engine.unmatched(requests) if isinstance(engine, FileEngine) else 0
    if isinstance(engine, FileEngine) and unmatched and unmatched == engine.n_rows:
        raise ConfigurationError(
            f"none of the {unmatched} rows of {engine.path} answers a prompt of {study.path}; "
            "check survey, variable, country (the survey's code, such as 8, not a name) and year "
            "against prompts.parquet"
        )
    carried = engine.label if isinstance(engine, FileEngine) else None
    identity, label = _register(study, settings, name, carried)
    with study.lock(f"run-{identity}", timeout=1.0):
        study.remove_temporaries(identity)
        attempts = study.drop_errors(identity, kinds)
        done = set()
        for kind in kinds:
            present = study.predictions(identity, kind)
            done |= set(
                zip(present["prompt_id"].to_pylist(), present["repeat"].to_pylist(), strict=True)
            )
        pending = [r for r in requests if (r.prompt_id, r.repeat) not in done]
        by_key = {(r.prompt_id, r.repeat): r for r in pending}
        state = Progress(total=len(pending))
        writer = _Writer(study, identity)
        try:
            if pending:
                for answer in engine.answers(pending):
                    request = by_key.pop((answer.prompt_id, answer.repeat), None)
                    if request is None:  # an answer to nothing we asked, or a second one
                        continue
                    key = (request.prompt_id, request.repeat)
                    row = _row(answer, request, identity, settings, attempts.get(key, 0) + 1)
                    writer.add(request.kind, row)
                    if state.first_answer is None:
                        state.first_answer = time.monotonic()
                    state.done += 1
                    state.statuses[row["status"]] += 1
                    state.completion_tokens += answer.completion_tokens or 0
                    progress(state)
        except EngineError as error:
            writer.flush()
            raise EngineError(
                f"{error}; {state.done} of {len(pending)} answers are kept, "
                "run the same command again to go on"
            ) from error
        finally:
            writer.flush()
            if pending:
                study.save_run_notes(identity, engine.notes)
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    wanted = {(r.prompt_id, r.repeat) for r in requests}
    for kind in kinds:
        table = study.predictions(identity, kind)
        for row in table.select(["prompt_id", "repeat", "status", "reason"]).to_pylist():
            if (row["prompt_id"], row["repeat"]) in wanted:
                statuses[row["status"]] += 1
                if row["reason"] is not None:
                    reasons[f"{row['status']}: {row['reason']}"] += 1
    return PredictResult(
        run_id=identity,
        label=label,
        total=len(requests),
        already_done=len(requests) - len(pending),
        statuses=dict(statuses.most_common()),
        reasons=dict(reasons.most_common()),
        missing=len(requests) - sum(statuses.values()),
        unmatched=unmatched,
        seconds=time.monotonic() - started,
    )


def find_run(study: Study, run: str) -> dict[str, Any]:
    """Return the row of a run by its label or id.

    Raises
    ------
    StudyError
        The study has no such run.
    """
    rows: list[dict[str, Any]] = study.runs().to_pylist()
    for row in rows:
        if run in (row["run_id"], row["label"]):
            return row
    known = ", ".join(str(row["label"]) for row in rows) or "none yet"
    raise StudyError(f"{study.path} has no run {run!r}; it has: {known}")


def export_run(study: str | Path | Study, run: str, path: str | Path) -> int:
    """Write a run's predictions to one Parquet file that carries the run's settings.

    ``file:<path>`` brings them back, into any study with the same prompts, as the same run.

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
    settings = RunSettings(**{k: v for k, v in row.items() if k not in ("run_id", "label")})
    notes = opened.run_notes(row["run_id"])
    table = opened.predictions(row["run_id"])
    carried = {
        "run_id": row["run_id"],
        "label": row["label"],
        "settings": asdict(settings),
        "notes": notes,
    }
    metadata = {**table.schema.metadata, RUN_METADATA: json.dumps(carried).encode()}
    write_parquet(Path(path), table.replace_schema_metadata(metadata))
    return len(table)
