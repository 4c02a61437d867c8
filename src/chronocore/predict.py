"""Prompts -> predictions, streamed to the study as they come and resumed where they stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from chronocore.asking import Asking
from chronocore.elicitation import read_answer
from chronocore.engines import (
    INSTRUCTIONS,
    Engine,
    EngineArguments,
    EngineOptions,
    FileEngine,
    Option,
    Request,
    RunSettings,
    open_engine,
)
from chronocore.engines.keys import refuse_key
from chronocore.engines.reference import outdated
from chronocore.errors import ArgumentError, ConfigurationError, EngineError, StudyError
from chronocore.identity import run_id
from chronocore.notes import added
from chronocore.prompts import KINDS, prompts_table
from chronocore.sampling import sample_notes, sampled_prompts
from chronocore.store import Study
from chronocore.stream import Progress, Stop
from chronocore.text import LONGEST_NAME, is_plain_name, plain

__all__ = [
    "PredictResult",
    "Progress",
    "check_request",
    "find_run",
    "predict",
    "prompts_of",
    "requests_of",
]


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
    examples : dict of str to str
        By the same keys the text of one such answer, its beginning if it is long.
    failed : list of str
        What got no answer and why, the first twenty in the order of asking.
    missing : int
        Prompts without a row (a file that does not cover them).
    unmatched : int
        Rows of a predictions file that answer none of the prompts.
    prompt_tokens, completion_tokens : int
        Tokens the run has cost so far, over all attempts, calls and kinds.
    notices : list of str
        What was found and mended: a part that could not be read and was set aside. What could
        not be done as asked: a sample of more pairs than there are.
    seconds : float
        Time of this call.
    """

    run_id: str
    label: str
    total: int
    already_done: int
    statuses: dict[str, int]
    reasons: dict[str, int]
    examples: dict[str, str]
    failed: list[str]
    missing: int
    unmatched: int
    prompt_tokens: int
    completion_tokens: int
    notices: list[str]
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


def requests_of(
    study: Study,
    kinds: Sequence[str],
    instruction: str = "default",
    elicitation: str = "verbalized",
    *,
    sample: int | None = None,
    by: str | None = None,
    sample_seed: int = 0,
) -> list[Request]:
    """Return the prompts a model is asked, each once, in the order of asking.

    Parameters
    ----------
    study : Study
    kinds, instruction, elicitation, sample, by, sample_seed
        As for :func:`predict`.
    """
    prompts = prompts_of(study, instruction, elicitation)
    asked = pc.and_(
        pc.is_in(prompts["kind"], value_set=pa.array(list(kinds), pa.string())),
        pc.or_(
            pc.and_(
                pc.equal(prompts["instruction"], instruction),
                pc.equal(prompts["elicitation"], elicitation),
            ),
            pc.equal(prompts["kind"], "modal"),
        ),
    )
    prompts = prompts.filter(asked)
    if sample is not None:
        prompts = sampled_prompts(prompts, study.pairs(), sample, by=by, seed=sample_seed)
    # The options of a question are the same in all its prompts, and one object serves them all.
    known: dict[tuple[str, str], tuple[Option, ...]] = {}
    columns = [
        "prompt_id", "kind", "elicitation", "system", "user",
        "survey", "variable", "country", "wave", "year",
    ]  # fmt: skip
    requests: list[Request] = []
    options = prompts["options"]
    rows = zip(*(prompts[name].to_pylist() for name in columns), strict=True)
    for number, row in enumerate(rows):
        identity, kind, asked_by, system, user, survey, variable, country, wave, year = row
        item = (survey, variable)
        if item not in known:
            known[item] = tuple(Option(o["code"], o["label"]) for o in options[number].as_py())
        requests.append(
            Request(
                prompt_id=identity,
                repeat=0,
                kind=kind,
                system=system,
                user=user,
                options=known[item],
                survey=survey,
                variable=variable,
                country=country,
                wave=wave,
                year=year,
                elicitation=asked_by,
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


def _register(study: Study, settings: RunSettings, name: str | None, carried: str | None) -> str:
    """Add the run to the study's, or rename it; return its label."""
    identity = run_id(settings)

    def choose(rows: list[dict[str, Any]]) -> str:
        others = [row for row in rows if row["run_id"] != identity]
        present = [row for row in rows if row["run_id"] == identity]
        taken = {row["label"] for row in others}
        label = name or (present[0]["label"] if present else None)
        if label is None:
            label = carried if carried and carried not in taken else _label(settings, others)
        return str(label)

    return study.save_run({"run_id": identity, "label": None, **asdict(settings)}, choose)


class _NotesOfCall:
    """Adds what an engine notes to what earlier calls of the run noted."""

    def __init__(self, study: Study, identity: str) -> None:
        self._study = study
        self._identity = identity
        carried = study.carried(identity) or {}
        # A call that was killed may have written a part and no manifest.
        self._earlier = added(carried.get("notes", {}), {})
        for name, value in study.run_notes(identity).items():
            self._earlier[name] = value
        self._row = next(row for row in study.known_runs().to_pylist() if row["run_id"] == identity)

    def __call__(self, notes: Mapping[str, str]) -> None:
        self._study.carry(self._row, added(self._earlier, notes))
        self._study.save_run_notes(self._identity, notes, self._earlier)


def _remove_outdated(study: Study, settings: RunSettings, files: Mapping[str, str]) -> list[str]:
    """Remove the same reference's answers of an earlier build; return what was removed."""
    if settings.engine != "reference" or settings.revision is None:
        return []
    removed = []
    for row in study.known_runs().to_pylist():
        same = (row["model"], row["instruction"], row["elicitation"]) == (
            settings.model, settings.instruction, settings.elicitation,
        )  # fmt: skip
        if same and outdated(row, settings.revision):
            with study.writing_run(row["run_id"], files):
                study.remove_run(row["run_id"])
            removed.append(f"removed {row['label']} with the gold of an earlier build")
    return removed


def check_request(
    kinds: Sequence[str],
    options: EngineOptions,
    *,
    name: str | None = None,
    repeats: int = 1,
    sample: int | None = None,
    by: str | None = None,
) -> None:
    """Refuse what cannot be asked, before anything is opened.

    Raises
    ------
    ConfigurationError
        A kind, an instruction, a name or a number makes no sense.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ArgumentError(f"unknown kind {unknown}; kinds are {', '.join(KINDS)}")
    if options.instruction not in INSTRUCTIONS:
        raise ArgumentError(
            f"unknown instruction {options.instruction!r}; known: {', '.join(INSTRUCTIONS)}"
        )
    if name is not None:
        refuse_key(name, "the run's name (--name)")
    if name is not None and not is_plain_name(name):
        raise ArgumentError(
            f"a run's name is 1 to {LONGEST_NAME} printable characters with single spaces "
            "between words"
        )
    if options.elicitation != "verbalized" and "modal" in kinds:
        raise ArgumentError(
            "modal prompts ask for one option already and have no other elicitation; "
            "leave out the kind or the elicitation"
        )
    if not all(map(math.isfinite, (options.temperature or 0.0, options.top_p))):
        raise ArgumentError("temperature and top_p must be finite numbers")
    if repeats < 1:
        raise ArgumentError(f"repeats must be at least 1, not {repeats}")
    if sample is not None and sample < 1:
        raise ArgumentError(f"sample must be at least 1 pair, not {sample}")
    if by is not None and sample is None:
        raise ArgumentError("by says how a sample is drawn; say how many pairs with sample")
    if by not in (None, "shift"):
        raise ArgumentError(f"a sample is drawn by 'shift' or by nothing, not by {by!r}")


def predict(
    study: str | Path | Study,
    model: str | Engine,
    *,
    name: str | None = None,
    kinds: Sequence[str] = ("dated", "undated"),
    instruction: str = "default",
    elicitation: str = "verbalized",
    samples: int = 20,
    repeats: int = 1,
    sample: int | None = None,
    by: str | None = None,
    sample_seed: int = 0,
    structured: bool = False,
    temperature: float | None = None,
    top_p: float = 1.0,
    max_tokens: int | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] = lambda state: None,
    **engine_arguments: Unpack[EngineArguments],
) -> PredictResult:
    """Let a model, a reference or a file answer the prompts of a study.

    Answers are written as they come; a second call goes on where the first stopped and asks
    again only what got no answer. The published settings are the defaults (ChronoCulture,
    appendix B.1).

    Ctrl-C lets the engine finish what it holds, for at most ten seconds, and keeps it; a second
    one ends it at once. SIGTERM does the same.

    Parameters
    ----------
    study : path, URL or Study
    model : str or Engine
        ``vllm:<model or path>``, ``openai:<model>``, ``reference:uniform|persistence|pooled``
        or ``file:<parquet>``; or an engine of your own, which is then closed.
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
    sample : int, optional
        Ask only about this many pairs, drawn before any filter (ChronoCulture, appendix F.3).
        The run is the same: what is asked later is added to it.
    by : {"shift"}, optional
        Draw the same number of pairs in each shift class.
    sample_seed : int
        Seed of that draw; the same pairs for every model and setting.
    structured : bool
        Hold the model to the JSON format by a schema.
    temperature, top_p, max_tokens, seed
        Sampling settings; None is the default of the elicitation.
    progress : callable
        Called with a :class:`Progress` a few times a second, from another thread.
    revision : str, optional
        Revision of a model on a hub.
    max_in_flight : int, optional
        Most requests handed to the engine and not yet answered.
    engine_args : mapping, optional
        Passed through to the engine.
    omit, base_url, api_key_env, requests_per_minute, tokens_per_minute, timeout, retries
        For endpoints; see :class:`chronocore.engines.EngineOptions`.

    Returns
    -------
    PredictResult

    Raises
    ------
    ConfigurationError
        The model specification, a kind or an instruction is unknown.
    EngineError
        The engine failed; what was answered before is kept and the run can be resumed.
    StoppedError
        Ctrl-C or SIGTERM came before the end; likewise.
    StudyError
        The study cannot be used, or another process is writing this run.
    """
    started = time.monotonic()
    opened = study if isinstance(study, Study) else Study.open(study)
    kinds = list(dict.fromkeys(kinds))
    options = EngineOptions(
        instruction=instruction,
        elicitation=elicitation,
        samples=samples,
        structured=structured,
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        seed=seed,
        **engine_arguments,
    )
    check_request(kinds, options, name=name, repeats=repeats, sample=sample, by=by)
    name = None if name is None else plain(name)
    stop = Stop()
    with stop.installed():
        engine = open_engine(model, options, opened.gold) if isinstance(model, str) else model
        try:
            files = opened.manifest()["files"]  # before the prompts are read
            prompts = requests_of(
                opened,
                kinds,
                engine.settings.instruction,
                engine.settings.elicitation,
                sample=sample,
                by=by,
                sample_seed=sample_seed,
            )
            notices = [] if sample is None else sample_notes(opened.pairs(), sample, by=by)
            return _run(
                opened, files, engine, name, prompts, repeats, notices, progress, started, stop
            )
        finally:
            engine.close()


def _run(
    study: Study,
    files: Mapping[str, str],
    engine: Engine,
    name: str | None,
    prompts: list[Request],
    repeats: int,
    notices: list[str],
    progress: Callable[[Progress], None],
    started: float,
    stop: Stop,
) -> PredictResult:
    settings = engine.settings
    unmatched = engine.unmatched(prompts) if isinstance(engine, FileEngine) else 0
    if isinstance(engine, FileEngine) and not engine.n_rows:
        raise ConfigurationError(
            f"{engine.path} has no rows, so it answers no prompt of {study.path}"
        )
    if isinstance(engine, FileEngine) and unmatched and unmatched == engine.n_rows:
        raise ConfigurationError(
            f"none of the {unmatched} rows of {engine.path} answers a prompt of {study.path}; "
            "check survey, variable, country (the survey's code, such as 8, not a name) and year "
            "against prompts.parquet"
        )
    carried = engine.label if isinstance(engine, FileEngine) else None
    identity = run_id(settings)
    unknown = set(study.orphans(study.known_runs())) - {identity}
    if unknown:
        notices.append(
            f"runs.parquet lacks the runs whose predictions are in "
            f"{', '.join(str(study.run_folder(one)) for one in sorted(unknown))}; register them "
            f"again with: chronocore predict {study.path} --register"
        )
    notices = [*notices, *_remove_outdated(study, settings, files)]
    with study.writing_run(identity, files):
        asking = Asking(study, identity, prompts, repeats)
        check = getattr(engine, "check_key", None)
        if check is not None and len(asking.todo):
            check()  # before there is a run that never gets an answer
        is_new = identity not in study.known_runs()["run_id"].to_pylist()
        label = _register(study, settings, name, carried)
        keep_notes = _NotesOfCall(study, identity)
        state = Progress(total=len(asking.todo), already_done=asking.already_done)
        if state.total:
            failed = False
            try:
                asking.ask(engine, read_answer, state, progress, stop, keep_notes)
            except EngineError:
                failed = True
                raise
            finally:
                with stop.writing():
                    if is_new and failed and not (state.statuses.keys() - {"error"}):
                        # Nothing came of it: it must not keep its label from a run that works.
                        study.remove_run(identity)
                    else:
                        keep_notes(engine.notes)
        outcome = asking.outcome()
        cost = study.totals(identity)
    return PredictResult(
        run_id=identity,
        label=label,
        total=asking.total,
        already_done=asking.already_done,
        statuses=dict(outcome.statuses.most_common()),
        reasons=dict(outcome.reasons.most_common()),
        examples=outcome.examples,
        failed=outcome.failed,
        missing=outcome.missing,
        unmatched=unmatched,
        prompt_tokens=cost.prompt_tokens,
        completion_tokens=cost.completion_tokens,
        notices=[*notices, *asking.notices],
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
