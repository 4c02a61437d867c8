"""Design -> answers: asked of an engine or taken from a file, kept as they come and resumed."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from chronocore import schema, storage
from chronocore.asking import Asking
from chronocore.engines import (
    Answer,
    Engine,
    EngineArguments,
    EngineOptions,
    Option,
    Request,
    RunSettings,
    check_endpoint_options,
    open_engine,
)
from chronocore.errors import ConfigurationError, EngineError, StudyError
from chronocore.identity import derived_seed, run_id
from chronocore.notes import added
from chronocore.parsing import normalise_distribution, parse_distribution
from chronocore.storage import location, read_bytes
from chronocore.store import RunParts, read_parquet, write_atomic, write_parquet
from chronocore.stream import Progress, Stop
from chronocore.text import LONGEST_NAME, is_plain_name, plain
from chronocore.tolerance import ATOL
from chronocore.validity.answer_files import open_answer_file
from chronocore.validity.design import STAGES, load_design, saved_protocol
from chronocore.validity.protocol import ModelGroup, Protocol

__all__ = ["REFERENCES", "AnswerStore", "RunResult", "load_answers", "load_runs", "run"]

#: Answers that need no model: a score drawn from the scale, and the middle of the scale.
REFERENCES: tuple[str, ...] = ("uniform", "midpoint")

_USABLE = ("ok", "recovered")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a call of :func:`run` did for one model.

    Attributes
    ----------
    label : str
    run_ids : dict of str to str
        Run of each stage.
    total, already_done : int
        Queries of the design, and those answered before this call.
    statuses, reasons : dict of str to int
        All answers by status; the ones without a score by ``status: reason``.
    examples : dict of str to str
        By the same keys as ``reasons`` the text of one such answer.
    failed : list of str
        What got no answer and why, the first twenty of each run in the order of asking.
    missing : int
        Queries without a row (a file that does not cover them).
    seed_lower_bound : bool
        The seed component is a lower bound.
    notices : list of str
        What was found and mended: a part that could not be read and was set aside.
    seconds : float
    """

    label: str
    run_ids: dict[str, str]
    total: int
    already_done: int
    statuses: dict[str, int]
    reasons: dict[str, int]
    examples: dict[str, str]
    failed: list[str]
    missing: int
    seed_lower_bound: bool
    notices: list[str]
    seconds: float


# -- stored answers ------------------------------------------------------------------------------


class AnswerStore(RunParts):
    """The answers of a folder: ``validity/answers/run=<run_id>/kind=<kind>/``.

    Parameters
    ----------
    folder : path or URL
    """

    answers_folder = "answers"
    rows = schema.VALIDITY_ANSWERS

    def __init__(self, folder: str | Path) -> None:
        super().__init__(location(folder) / "validity")

    def check_part(self, part: Path, table: pa.Table) -> None:
        """Refuse a part with a value that should not be there, or without one."""
        if not {"score", "probs"} <= set(table.column_names):
            return
        given = pc.or_(pc.is_valid(table["score"]), pc.is_valid(table["probs"]))
        usable = pc.is_in(table["status"], value_set=pa.array(_USABLE))
        if pc.any(pc.not_equal(given, usable)).as_py():
            raise StudyError(
                f"{part} has a usable answer without a value, or a value without one; delete the "
                "file and run the command again"
            )

    def save_run_notes(self, run_id: str, notes: Mapping[str, str] | None) -> None:
        """Add to the provenance of a run (device, versions, what an endpoint reported).

        Parameters
        ----------
        run_id : str
        notes : mapping of str to str, or None
            None removes what is known of the run.
        """
        path = self.path / "notes.json"
        with self.lock("notes"):
            known = json.loads(read_bytes(path)) if storage.is_file(path) else {}
            earlier = known.pop(run_id, {})
            if notes is not None:
                known[run_id] = added(earlier, notes)
            text = json.dumps(known, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
            write_atomic(path, text.encode())


def load_runs(folder: str | Path) -> pa.Table:
    """Return the models of a folder, one row a model and stage; empty before the first run."""
    path = AnswerStore(folder).path / "runs.parquet"
    if not path.is_file():
        return schema.VALIDITY_RUNS.empty_table()
    return read_parquet(path, schema.VALIDITY_RUNS)


def load_answers(folder: str | Path) -> pa.Table:
    """Return every query of the design with the answer of every model.

    Returns
    -------
    pyarrow.Table
        ``label``, ``stage``, ``tone``, ``variant`` (position in the tone), ``seed``, ``kind``,
        ``item``, ``wording``, ``survey``, ``variable``, ``country``, ``wave``, ``year``,
        ``status``, ``reason``, ``score``, ``probs``, ``text``; status ``null`` where there is no
        row. Sorted by label, then as the design.
    """
    design = load_design(folder)
    columns = [
        "prompt_id", "repeat", "stage", "tone", "variant", "seed", "kind", "item", "wording",
        "survey", "variable", "country", "wave", "year",
    ]  # fmt: skip
    queries = design.select(columns).to_pylist()
    runs: dict[str, dict[str, str]] = {}
    for row in load_runs(folder).to_pylist():
        runs.setdefault(row["label"], {})[row["stage"]] = row["run_id"]
    store = AnswerStore(folder)
    rows: list[dict[str, Any]] = []
    for label in sorted(runs):
        stored = {
            identity: {
                (row["prompt_id"], row["repeat"]): row
                for row in store.answers(identity, columns=[*_KEYS, *_GIVEN]).to_pylist()
            }
            for identity in set(runs[label].values())
        }
        for query in queries:
            identity = runs[label].get(query["stage"])
            answer = (
                stored[identity].get((query["prompt_id"], query["repeat"])) if identity else None
            )
            given = {key: answer[key] if answer else None for key in _GIVEN}
            rows.append({"label": label, **{key: query[key] for key in columns[2:]}, **given})
    return pa.Table.from_pylist(rows, schema=_ANSWERED)


_KEYS = ("prompt_id", "repeat")
_GIVEN = ("status", "reason", "score", "probs", "text")
_ANSWERED = pa.schema(
    [
        pa.field("label", pa.string()),
        *(
            schema.VALIDITY_DESIGN.field(name)
            for name in (
                "stage", "tone", "variant", "seed", "kind", "item", "wording", "survey",
                "variable", "country", "wave", "year",
            )
        ),
        *(schema.VALIDITY_ANSWERS.field(name).with_nullable(True) for name in _GIVEN),
    ]
)  # fmt: skip


# -- references ------------------------------------------------------------------------


class _ScoreReference:
    """Answers score items without a model."""

    def __init__(self, name: str, protocol: Protocol, seed: int) -> None:
        if name not in REFERENCES:
            raise ConfigurationError(
                f"there is no validity reference {name!r}; known: {', '.join(REFERENCES)}"
            )
        drawn = name == "uniform"
        self.settings = RunSettings(
            model=name, engine="reference", engine_version="1", seed=seed if drawn else None
        )
        self.notes: dict[str, str] = {}
        self._protocol = protocol
        self._stopped = False

    @property
    def in_flight(self) -> int:
        return 0

    def drain(self, seconds: float) -> None:
        self._stopped = True

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        for request in requests:
            if self._stopped:
                return
            if request.kind != "score":
                n = len(request.options)
                yield Answer(request.prompt_id, request.repeat, probs=(1.0 / n,) * n)
                continue
            item = self._protocol.find(request.variable)
            if item is None:
                raise ConfigurationError(f"the protocol has no item {request.variable}")
            if self.settings.model == "midpoint":
                # Not an option, and no text: the middle may lie between two of them.
                yield Answer(request.prompt_id, request.repeat, probs=(item.midpoint,))
                continue
            stream = derived_seed(self.settings.seed or 0, request.prompt_id, request.repeat)
            generator = np.random.default_rng(stream)
            chosen = generator.choice(len(item.options), item.choose[1], replace=False)
            text = ", ".join(str(item.options[index].code) for index in sorted(chosen.tolist()))
            yield Answer(request.prompt_id, request.repeat, text=text, seed=stream)

    def close(self) -> None:
        """Do nothing."""


# -- running -------------------------------------------------------------------------------------


_READ = ("text", "thinking", "status", "reason", "score", "probs")


def _read(answer: Answer, query: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
    """Return the columns of a stored answer that follow from what the engine gave."""
    row: dict[str, Any] = dict.fromkeys(_READ)
    row |= {"text": answer.text, "thinking": answer.thinking}
    if answer.error is not None:
        return row | {"status": "error", "reason": answer.error}
    if answer.status is not None:
        return row | {"status": answer.status, "reason": answer.reason}
    if query["kind"] == "score":
        item = protocol.find(query["variable"], query["wording"])
        if item is None:
            raise ConfigurationError(
                f"the protocol has no item {query['variable']} in the wording "
                f"{query['wording']!r}; run: chronocore validity prompts"
            )
        if answer.probs is not None:
            low, high = item.scores
            (score,) = answer.probs
            inside = low - ATOL <= score <= high + ATOL
            return row | {
                "status": "ok" if inside else "invalid",
                "reason": None if inside else "unknown_option",
                "score": score if inside else None,
            }
        parsed = item.parse(answer.text, answer.finish_reason, refusal=answer.refusal)
        return row | {
            "status": parsed.status,
            "reason": parsed.reason,
            "score": parsed.score,
            "thinking": answer.thinking or parsed.thinking,
        }
    options = [{"code": o["code"], "label": o["label"]} for o in query["options"]]
    if answer.probs is not None:
        given = normalise_distribution(answer.probs, len(options))
    else:
        given = parse_distribution(
            answer.text,
            options,
            answer.finish_reason,
            refusal=answer.refusal,
            year=query["year"] if query["kind"] == "dated" else None,
        )
    return row | {
        "status": given.status,
        "reason": given.reason,
        "probs": None if given.probs is None else list(given.probs),
        "thinking": answer.thinking or given.thinking,
    }


def _request(query: Mapping[str, Any], protocol: Protocol, structured: bool) -> Request:
    """Return what a query asks as engines take it; its repeats ask the same.

    Engines know the form of a distribution and that of one option (``modal``). Held to a form, an
    item of one option is asked as the latter; several options have no form, and so no options.
    """
    kind = query["kind"]
    options = tuple(Option(o["code"], o["label"]) for o in query["options"])
    if structured and kind == "score":
        item = protocol.find(query["variable"], query["wording"])
        kind = "modal"
        options = options if item is not None and item.choose == (1, 1) else ()
    return Request(
        prompt_id=query["prompt_id"],
        repeat=0,
        kind=kind,
        system=query["system"],
        user=query["user"],
        options=options,
        survey=query["survey"],
        variable=query["variable"],
        country=query["country"] or "",
        wave=query["wave"],
        year=query["year"],
    )


def _settings(
    engine: Engine, protocol: Protocol, temperatures: Mapping[str, float | None]
) -> dict[str, RunSettings]:
    """Return the settings of each stage: local models change their temperature between them."""
    settings = engine.settings
    if settings.engine != "vllm":
        return dict.fromkeys(STAGES, settings)
    return {
        stage: replace(settings, temperature=temperatures[stage], max_tokens=protocol.max_tokens)
        for stage in STAGES
    }


def _lower_bound(settings: RunSettings) -> bool:
    """Whether the seeds of these settings tell less than all of the sampling noise.

    At temperature 0 nothing is drawn, and an endpoint without a seed may answer from one stream.
    """
    if settings.engine in ("file", "reference"):
        return False
    return settings.temperature == 0.0 or settings.seed is None


def _check_label(
    store: AnswerStore,
    rows: Sequence[Mapping[str, Any]],
    label: str,
    settings: Mapping[str, RunSettings],
) -> None:
    """Refuse a label that another model of the folder has."""
    own = {(row["stage"], row["run_id"]) for row in rows if row["label"] == label}
    if own and own != {(stage, run_id(one)) for stage, one in settings.items()}:
        raise ConfigurationError(
            f"{store.path.parent} has another model called {label!r}; choose another name"
        )


@contextlib.contextmanager
def _registered(
    store: AnswerStore,
    label: str,
    settings: Mapping[str, RunSettings],
    lower_bound: bool,
    group: ModelGroup,
) -> Iterator[None]:
    """Register a model; one that fails before its first answer is as if it had never been."""
    known = load_runs(store.path.parent).to_pylist()
    _register(store, label, settings, lower_bound, group)
    try:
        yield
    except BaseException as error:
        if label not in {row["label"] for row in known}:
            own = {run_id(one) for one in settings.values()}
            if own.isdisjoint(row["run_id"] for row in known):
                _forget_unanswered(store, label, own, failed=isinstance(error, EngineError))
        raise


def _forget_unanswered(store: AnswerStore, label: str, own: set[str], *, failed: bool) -> None:
    """Remove a model that got no answer: it must not keep its label from one that works.

    An engine that failed may have left rows that say so; they go with it.
    """
    for identity in own:
        found = set(store.answers(identity, columns=["status"])["status"].to_pylist())
        if found - ({"error"} if failed else set()):
            return
    for identity in own:
        store.remove_answers(identity)
        store.save_run_notes(identity, None)
    with store.lock("runs"):
        rows = load_runs(store.path.parent)
        left = rows.filter(pc.not_equal(rows["label"], label))
        path = store.path / "runs.parquet"
        if len(left):
            write_parquet(path, left)
        else:
            storage.remove(path)


def _register(
    store: AnswerStore,
    label: str,
    settings: Mapping[str, RunSettings],
    lower_bound: bool,
    group: ModelGroup,
) -> None:
    path = store.path / "runs.parquet"
    with store.lock("runs"):
        known = load_runs(store.path.parent).to_pylist()
        _check_label(store, known, label, settings)
        rows = [row for row in known if row["label"] != label]
        for stage, one in settings.items():
            rows.append(
                {
                    "label": label,
                    "stage": stage,
                    "run_id": run_id(one),
                    **asdict(one),
                    "seed_lower_bound": lower_bound,
                    "access": group.access,
                    "origin": group.origin,
                    "region": group.region,
                }
            )
        rows.sort(key=lambda row: (str(row["label"]), STAGES.index(row["stage"])))
        write_parquet(path, pa.Table.from_pylist(rows, schema=schema.VALIDITY_RUNS))


def run(
    folder: str | Path,
    model: str | Engine,
    *,
    name: str | None = None,
    group: Mapping[str, str | None] | None = None,
    temperature_variants: float | None = None,
    temperature_seeds: float | None = None,
    top_p: float | None = None,
    seed: int = 0,
    structured: bool = False,
    seed_lower_bound: bool | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
    **engine_arguments: Unpack[EngineArguments],
) -> list[RunResult]:
    """Let a model, a reference or a file answer the design of a folder.

    Answers are written as they come; the same call goes on where the last one stopped and asks
    again only what got no answer. Ctrl-C and SIGTERM do what they do in
    :func:`chronocore.predict`.

    Parameters
    ----------
    folder : path or URL
        With a design (:func:`chronocore.validity.prompts`).
    model : str or Engine
        ``vllm:<model or path>``, ``openai:<model>``, ``file:<parquet or csv>`` or
        ``reference:uniform|midpoint``; or an engine of your own, which is then closed. A file
        with a column ``model`` holds several models.
    name : str, optional
        Label of the model in tables; not for a file of several models.
    group : mapping, optional
        ``access``, ``origin`` and ``region`` of the model, for the tables by group; by default
        what the protocol knows of a model of that name.
    temperature_variants, temperature_seeds, top_p : float, optional
        Of a local model, instead of the protocol's 0 and 1, and of 1. An endpoint answers with
        its provider's defaults, which are recorded as null.
    seed : int
    structured : bool
        Hold a model to one option by a JSON schema, in the items that ask for one.
        Refusing is then impossible, so that its rate says nothing.
    seed_lower_bound : bool, optional
        Say that the seeds tell less than all of the sampling noise (no seed could be set, or
        nothing was drawn), where the settings do not show it: a file, an endpoint that takes a
        seed and does not use it.
    progress : callable
        Called with a :class:`chronocore.predict.Progress` a few times a second, from another
        thread.
    revision, max_in_flight, engine_args
        As for :func:`chronocore.predict`.
    omit, base_url, api_key_env, requests_per_minute, tokens_per_minute, timeout, retries
        For endpoints; see :class:`chronocore.engines.EngineOptions`. ``omit=["seed"]`` is for
        those that take none.

    Returns
    -------
    list of RunResult
        One a model.

    Raises
    ------
    ConfigurationError, InvalidInputError
        The specification or the file cannot be understood.
    EngineError
        The engine failed; what was answered before is kept.
    StoppedError
        Ctrl-C or SIGTERM came before the end; likewise.
    StudyError
        There is no design, or another process is writing this run.

    Notes
    -----
    Definitions, section 11: local models answer the variants at temperature 0 and the seeds at
    1. A seed stage at temperature 0, or an endpoint without a seed, makes the seed component a
    lower bound, which every table then says.
    """
    place = location(folder)
    design = load_design(place).to_pylist()
    protocol = saved_protocol(place)
    if name is not None and not is_plain_name(name):
        raise ConfigurationError(
            f"a model's name is 1 to {LONGEST_NAME} printable characters without spaces at its ends"
        )
    temperatures = {
        "variants": protocol.temperature.variants
        if temperature_variants is None
        else temperature_variants,
        "seeds": protocol.temperature.seeds if temperature_seeds is None else temperature_seeds,
    }
    options = EngineOptions(
        structured=structured,
        temperature=temperatures["variants"],
        top_p=1.0 if top_p is None else top_p,
        max_tokens=protocol.max_tokens,
        seed=seed,
        **engine_arguments,
    )
    stop = Stop()
    with stop.installed():
        if isinstance(model, str):
            sampling = (temperature_variants, temperature_seeds, top_p)
            if model.startswith("openai:") and any(value is not None for value in sampling):
                raise ConfigurationError(
                    "an endpoint answers with its provider's own temperature and top-p; "
                    "leave them out"
                )
            engines = _engines(model, options, name, design, protocol)
        else:
            engines = [model]
        results = []
        try:
            # All of a file's models or none: a name that is taken stops before the first.
            planned = [
                _Planned(
                    engine,
                    label := name or engine.settings.model,
                    _group(protocol, label, group or {}),
                    _settings(engine, protocol, temperatures),
                )
                for engine in engines
            ]
            rows = load_runs(place).to_pylist()
            for one in planned:
                _check_label(AnswerStore(place), rows, one.label, one.settings)
            for one in planned:
                result = _run(place, one, design, protocol, seed_lower_bound, progress, stop)
                results.append(result)
        finally:
            for engine in engines:
                engine.close()
    return results


@dataclass(frozen=True, slots=True)
class _Planned:
    """A model about to be asked: what it is called and how each stage asks it."""

    engine: Engine
    label: str
    group: ModelGroup
    settings: Mapping[str, RunSettings]


def _group(protocol: Protocol, label: str, given: Mapping[str, str | None]) -> ModelGroup:
    """Return the groups of a model: as given, else what the protocol knows of its name."""
    known = protocol.group_of(label)
    chosen = {key: given.get(key) or getattr(known, key) for key in _ATTRIBUTES}
    return ModelGroup(
        name=label, **{key: value and (plain(value) or None) for key, value in chosen.items()}
    )


def _engines(
    model: str,
    options: EngineOptions,
    name: str | None,
    design: Sequence[Mapping[str, Any]],
    protocol: Protocol,
) -> Sequence[Engine]:
    """Return the engines of a specification: one a model."""
    kind, _, rest = model.partition(":")
    if kind == "reference" and rest:
        check_endpoint_options(kind, options)
        return [_ScoreReference(rest, protocol, options.seed)]
    if kind == "file" and rest:
        check_endpoint_options(kind, options)
        files = open_answer_file(Path(rest), design)
        if name is not None and len(files) > 1:
            raise ConfigurationError(
                f"{rest} holds {len(files)} models; their names are those of its column model"
            )
        return files
    if kind == "openai":
        own = dict.fromkeys(["temperature", "top_p", *options.omit])
        options = replace(options, omit=tuple(own))
    return [open_engine(model, options, schema.GOLD.empty_table)]


_ATTRIBUTES = ("access", "origin", "region")


def _run(
    folder: Path,
    planned: _Planned,
    design: Sequence[Mapping[str, Any]],
    protocol: Protocol,
    seed_lower_bound: bool | None,
    progress: Callable[[Progress], None],
    stop: Stop,
) -> RunResult:
    started = time.monotonic()
    engine, label, settings = planned.engine, planned.label, planned.settings
    identities = {stage: run_id(one) for stage, one in settings.items()}
    lower_bound = _lower_bound(settings["seeds"]) if seed_lower_bound is None else seed_lower_bound
    store = AnswerStore(folder)
    queries = {query["prompt_id"]: query for query in design}

    def read(answer: Answer, request: Request) -> dict[str, Any]:
        return _read(answer, queries[request.prompt_id], protocol)

    # Draws first: an engine that must start in another way to be able to draw sees it at its start.
    ordered = sorted(STAGES, key=lambda name: -(settings[name].temperature or 0.0))
    with contextlib.ExitStack() as held:
        asked: dict[str, Asking] = {}
        # An endpoint answers both stages alike, and they are one run.
        first = {identities[stage]: stage for stage in reversed(ordered)}
        for identity, stage in sorted(first.items()):
            held.enter_context(store.lock(f"run-{identity}", timeout=1.0))
            own = [query for query in design if identities[query["stage"]] == identity]
            asked[identity] = _asking(store, identity, own, protocol, settings[stage].structured)
        check = getattr(engine, "check_key", None)
        if check is not None and any(len(one.todo) for one in asked.values()):
            check()  # before there is a model that never gets an answer
        held.enter_context(_registered(store, label, settings, lower_bound, planned.group))
        state = Progress(
            total=sum(len(one.todo) for one in asked.values()),
            already_done=sum(one.already_done for one in asked.values()),
        )
        for identity, stage in sorted(first.items(), key=lambda pair: ordered.index(pair[1])):
            if not len(asked[identity].todo):
                continue
            # One engine serves both stages: what it samples with is read at every request.
            engine.settings = settings[stage]
            try:
                asked[identity].ask(engine, read, state, progress, stop)
            finally:
                with stop.writing():
                    store.save_run_notes(identity, engine.notes)
        outcomes = [one.outcome() for one in asked.values()]
        notices = list(dict.fromkeys(n for one in asked.values() for n in one.notices))
    return RunResult(
        label=label,
        run_ids=identities,
        total=len(design),
        already_done=state.already_done,
        statuses=dict(sum((one.statuses for one in outcomes), Counter()).most_common()),
        reasons=dict(sum((one.reasons for one in outcomes), Counter()).most_common()),
        examples={name: text for one in reversed(outcomes) for name, text in one.examples.items()},
        failed=[name for one in outcomes for name in one.failed],
        missing=sum(one.missing for one in outcomes),
        seed_lower_bound=lower_bound,
        notices=notices,
        seconds=time.monotonic() - started,
    )


def _asking(
    store: AnswerStore,
    identity: str,
    queries: Sequence[Mapping[str, Any]],
    protocol: Protocol,
    structured: bool,
) -> Asking:
    """Return what a run is asked: not every prompt has every repeat."""
    first = {query["prompt_id"]: query for query in reversed(queries)}
    prompts = [_request(query, protocol, structured) for query in reversed(first.values())]
    index = {prompt.prompt_id: place for place, prompt in enumerate(prompts)}
    repeats = max((query["repeat"] for query in queries), default=0) + 1
    wanted = np.zeros(repeats * len(prompts), np.bool_)
    for query in queries:
        wanted[query["repeat"] * len(prompts) + index[query["prompt_id"]]] = True
    return Asking(store, identity, prompts, repeats, wanted)
