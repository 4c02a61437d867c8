"""What a predict would ask, and what that would cost; nothing is asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronocore.engines import Engine, EngineOptions, Request, open_engine, parse_model_spec
from chronocore.errors import ConfigurationError, MissingDependencyError
from chronocore.identity import run_id
from chronocore.predict import check_request, requests_of
from chronocore.sampling import sample_notes
from chronocore.store import DamagedFileError, Study

__all__ = ["Plan", "plan"]

_CHARACTERS_PER_TOKEN = 4
_COUNTED_PROMPTS = 2_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What :func:`chronocore.predict` would do with the same arguments.

    Attributes
    ----------
    model : str
    run_id : str or None
        None if the engine is not installed, so that its version is not known.
    prompts : dict of str to int
        By kind.
    total, already_done, pending : int
        Prompts times repeats; those with an answer; those to be asked.
    prompt_tokens : int
        For the pending ones.
    completion_tokens : int
        Likewise; an upper bound unless earlier answers tell.
    counted_by : str
        How the prompt tokens were found.
    completion_from : str
        How the completion tokens were found.
    seconds : float or None
        None if nothing is known about the speed.
    seconds_from : str
    cost : float or None
        In the unit of the prices; None without prices.
    samples : list of dict of str to str
        ``kind``, ``system`` and ``user`` of three prompts.
    notes : list of str
        What is not known, and what could not be done as asked.
    """

    model: str
    run_id: str | None
    prompts: dict[str, int]
    total: int
    already_done: int
    pending: int
    prompt_tokens: int
    completion_tokens: int
    counted_by: str
    completion_from: str
    seconds: float | None
    seconds_from: str
    cost: float | None
    samples: list[dict[str, str]]
    notes: list[str]


def plan(
    study: str | Path | Study,
    model: str,
    *,
    kinds: Sequence[str] = ("dated", "undated"),
    repeats: int = 1,
    sample: int | None = None,
    by: str | None = None,
    sample_seed: int = 0,
    price_in: float | None = None,
    price_out: float | None = None,
    **settings: Any,
) -> Plan:
    """Count what a predict would ask, and estimate tokens, time and cost.

    Parameters
    ----------
    study : path, URL or Study
    model : str
        As for :func:`chronocore.predict`; the model is not loaded.
    kinds, repeats, sample, by, sample_seed
        As for :func:`chronocore.predict`.
    price_in, price_out : float, optional
        Price of a million prompt and completion tokens.
    **settings
        Fields of :class:`chronocore.engines.EngineOptions`.

    Returns
    -------
    Plan

    Raises
    ------
    ConfigurationError
        A setting or a price makes no sense.
    """
    for price_name, price in (("price_in", price_in), ("price_out", price_out)):
        if price is not None and not (math.isfinite(price) and price >= 0):
            raise ConfigurationError(f"{price_name} must be a finite number from 0, not {price}")
    opened = study if isinstance(study, Study) else Study.open(study)
    kinds = list(dict.fromkeys(kinds))
    options = EngineOptions(**settings)
    check_request(kinds, options, repeats=repeats, sample=sample, by=by)
    engine_kind, name = parse_model_spec(model)
    notes = [] if sample is None else sample_notes(opened.pairs(), sample, by=by)
    engine: Engine | None = None
    try:
        engine = open_engine(model, options, opened.gold)
    except MissingDependencyError as error:
        notes.append(f"what is answered already is not known: {error}")
    try:
        instruction, elicitation = options.instruction, options.elicitation
        if engine is not None:
            instruction = engine.settings.instruction
            elicitation = engine.settings.elicitation
        prompts = requests_of(
            opened,
            kinds,
            instruction,
            elicitation,
            sample=sample,
            by=by,
            sample_seed=sample_seed,
        )
        identity = None if engine is None else run_id(engine.settings)
        notes += _not_ready(engine)
        left = np.full(len(prompts), repeats, np.int64)
        if identity is not None:
            left -= _answers(opened, identity, kinds, prompts, repeats, notes)
        pending = int(left.sum())
        generates = engine_kind in ("vllm", "openai")
        tokens, counted_by = _prompt_tokens(engine, prompts, left) if generates else (0, "none")
    finally:
        if engine is not None:
            engine.close()
    speed = _observed(opened, name if engine is None else engine.settings.model, elicitation)
    completion, completion_from = _completion(speed, options, pending, generates)
    seconds, seconds_from = _seconds(speed, options, pending, tokens + completion)
    cost = None
    if price_in is not None or price_out is not None:
        cost = (tokens * (price_in or 0.0) + completion * (price_out or 0.0)) / 1e6
    return Plan(
        model=model,
        run_id=identity,
        prompts=dict(Counter(prompt.kind for prompt in prompts)),
        total=len(prompts) * repeats,
        already_done=len(prompts) * repeats - pending,
        pending=pending,
        prompt_tokens=tokens,
        completion_tokens=completion,
        counted_by=counted_by,
        completion_from=completion_from,
        seconds=seconds,
        seconds_from=seconds_from,
        cost=cost,
        samples=_samples(prompts),
        notes=notes,
    )


def _not_ready(engine: Engine | None) -> list[str]:
    """Return what is missing before an engine can be asked."""
    check = getattr(engine, "check_key", None)
    try:
        if check is not None:
            check()
    except ConfigurationError as error:
        return [f"before this can be asked: {error}"]
    return []


def _answers(
    study: Study,
    identity: str,
    kinds: Sequence[str],
    prompts: Sequence[Request],
    repeats: int,
    notes: list[str],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how many answers that are no errors each prompt has; note what cannot be read."""
    ids = pa.array([prompt.prompt_id for prompt in prompts], pa.string())
    seen = np.zeros((len(prompts), repeats), np.bool_)
    for part in [part for kind in kinds for part in study.parts(identity, kind)]:
        try:
            table = study.read_part(identity, part, ["prompt_id", "repeat", "status"])
        except DamagedFileError as error:
            notes.append(
                f"{part} cannot be read ({error.cause}); it will be set aside and its prompts "
                "asked again"
            )
            continue
        table = table.filter(pc.not_equal(table["status"], "error"))
        at = pc.fill_null(pc.index_in(table["prompt_id"], value_set=ids), -1).to_numpy()
        repeat = table["repeat"].to_numpy()
        inside = (at >= 0) & (repeat < repeats)
        seen[at[inside], repeat[inside]] = True
    left: np.ndarray[Any, np.dtype[np.int64]] = seen.sum(axis=1, dtype=np.int64)
    return left


def _prompt_tokens(
    engine: Engine | None,
    prompts: Sequence[Request],
    left: np.ndarray[Any, np.dtype[np.int64]],
) -> tuple[int, str]:
    asked = [(prompt, int(n)) for prompt, n in zip(prompts, left, strict=True) if n]
    if not asked:
        return 0, "none are pending"
    count = getattr(engine, "count_tokens", None)
    step = max(1, len(asked) // _COUNTED_PROMPTS)
    counted = asked[::step]
    first = None if count is None else count(counted[0][0])
    if count is None or first is None:
        characters = sum((len(p.system) + len(p.user)) * n for p, n in asked)
        return round(characters / _CHARACTERS_PER_TOKEN), "estimated: a token for 4 characters"
    mean = sum(count(p) * n for p, n in counted) / sum(n for _, n in counted)
    share = "" if step == 1 else f", on {len(counted)} of the prompts"
    return round(mean * sum(n for _, n in asked)), f"the model's tokenizer{share}"


@dataclass(frozen=True, slots=True)
class _Speed:
    """What earlier runs of a model in this study show."""

    answers_per_second: float | None = None
    completion_tokens: float | None = None


def _observed(study: Study, model: str, elicitation: str) -> _Speed:
    rows = seconds = 0.0
    tokens: list[float] = []
    for run in study.known_runs().to_pylist():
        if run["model"] != model or run["elicitation"] != elicitation:
            continue
        for part in study.parts(run["run_id"]):
            try:
                columns = ["created_at", "completion_tokens", "status"]
                table = study.read_part(run["run_id"], part, columns)
            except DamagedFileError:
                continue  # no matter for an estimate
            table = table.filter(pc.not_equal(table["status"], "error"))
            if not len(table):
                continue
            ends = pc.min_max(table["created_at"]).as_py()
            span = (ends["max"] - ends["min"]).total_seconds()
            # The time of a part is that between its answers; one answer alone has none.
            rows, seconds = rows + len(table) - 1, seconds + span
            mean = pc.mean(table["completion_tokens"]).as_py()
            tokens += [] if mean is None else [mean]
    return _Speed(
        rows / seconds if rows and seconds else None,
        sum(tokens) / len(tokens) if tokens else None,
    )


def _completion(
    speed: _Speed, options: EngineOptions, pending: int, generates: bool
) -> tuple[int, str]:
    if not generates:
        return 0, "none"
    if speed.completion_tokens is not None:
        return round(speed.completion_tokens * pending), "as in this model's earlier answers"
    longest = options.max_tokens or {"sampled": 32, "logprob": 1}.get(options.elicitation, 120)
    each = longest * (options.samples if options.elicitation == "sampled" else 1)
    return each * pending, "at most"


def _seconds(
    speed: _Speed, options: EngineOptions, pending: int, tokens: int
) -> tuple[float | None, str]:
    known: list[tuple[float, str]] = []
    if speed.answers_per_second is not None:
        known.append((pending / speed.answers_per_second, "at this model's earlier speed"))
    if options.requests_per_minute:
        known.append((pending / options.requests_per_minute * 60, "by the limit of requests"))
    if options.tokens_per_minute:
        known.append((tokens / options.tokens_per_minute * 60, "by the limit of tokens"))
    return max(known) if known else (None, "not known before the first answers")


def _samples(prompts: Sequence[Request]) -> list[dict[str, str]]:
    """Return three prompts: the ends of one pair and its undated one where they are asked."""
    chosen: Mapping[str, Request] = {}
    if prompts:
        first = prompts[0]
        where = (first.survey, first.variable, first.country)
        same = [p for p in prompts if (p.survey, p.variable, p.country) == where]
        chosen = {p.prompt_id: p for p in [*same, *prompts][: max(3, len(same))]}
    keep = list(chosen.values())[:3]
    return [{"kind": p.kind, "system": p.system, "user": p.user} for p in keep]
