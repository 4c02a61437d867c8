"""Inference engines: what answers prompts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa

from chronocore.engines.base import (
    ELICITATIONS,
    INSTRUCTIONS,
    LARGEST_MAX_TOKENS,
    LARGEST_SEED,
    Answer,
    Engine,
    Option,
    Request,
    RunSettings,
    Sample,
)
from chronocore.engines.file import FileEngine
from chronocore.engines.reference import REFERENCES, ReferenceEngine
from chronocore.errors import ArgumentError

__all__ = [
    "ELICITATIONS",
    "INSTRUCTIONS",
    "LARGEST_MAX_TOKENS",
    "LARGEST_SEED",
    "REFERENCES",
    "Answer",
    "Engine",
    "EngineArguments",
    "EngineOptions",
    "FileEngine",
    "ModelSpec",
    "Option",
    "ReferenceEngine",
    "Request",
    "RunSettings",
    "Sample",
    "check_endpoint_options",
    "open_engine",
    "parse_model_spec",
]

ModelSpec = tuple[str, str]

_ENGINES = ("vllm", "openai", "reference", "file")

#: Temperature and longest answer where none is asked for. The published ones are verbalized's;
#: one option needs few tokens, and at temperature 0 all samples would be the same.
_DEFAULTS: dict[str, tuple[float | None, int]] = {
    "verbalized": (0.0, 120),
    "sampled": (1.0, 32),
    "logprob": (None, 1),
}


class EngineArguments(TypedDict, total=False):
    """How an engine is started or reached; the same for every function that asks one.

    The meaning of each is that of the same field of :class:`EngineOptions`.
    """

    revision: str | None
    omit: Sequence[str]
    base_url: str | None
    api_key_env: str | None
    max_in_flight: int | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    timeout: float | None
    retries: int | None
    engine_args: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine is asked; what an engine does not know it must not be given.

    Attributes
    ----------
    instruction, elicitation : str
        Which prompts it will answer.
    samples : int
        Answers that make one distribution, for ``sampled``.
    structured : bool
        Hold the model to the format by a JSON schema.
    temperature : float, optional
        By default 0, for ``sampled`` 1; ``logprob`` has none.
    top_p : float
    max_tokens : int, optional
        By default 120, for ``sampled`` 32.
    seed : int
    revision : str, optional
        Revision of a model on a hub.
    omit : sequence of {"temperature", "top_p", "max_tokens", "seed"}
        Settings not sent to an endpoint, which then uses its own; they are recorded as null.
    base_url : str, optional
        Address of an endpoint.
    api_key_env : str, optional
        Name of the environment variable that holds the endpoint's key.
    max_in_flight : int, optional
        Most requests handed over and not yet answered.
    requests_per_minute, tokens_per_minute : float, optional
        Limits of an endpoint.
    timeout : float, optional
        Seconds an endpoint has for one request, by default 120.
    retries : int, optional
        How often a request that failed on the way is sent again, by default 6.
    engine_args : mapping, optional
        The engine's own arguments.
    """

    instruction: str = "default"
    elicitation: str = "verbalized"
    samples: int = 20
    structured: bool = False
    temperature: float | None = None
    top_p: float = 1.0
    max_tokens: int | None = None
    seed: int = 0
    revision: str | None = None
    omit: Sequence[str] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    max_in_flight: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float | None = None
    retries: int | None = None
    engine_args: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        """Refuse a number or a text that the files of a run could not hold."""
        for name in ("revision", "base_url", "api_key_env"):
            text = getattr(self, name)
            if isinstance(text, str) and not text.isprintable():
                raise ArgumentError(f"{name} has characters that cannot be seen: {text!r}")
        for name, largest in (("max_tokens", LARGEST_MAX_TOKENS), ("seed", LARGEST_SEED)):
            value = getattr(self, name)
            if value is not None and value > largest:
                raise ArgumentError(f"{name} must be at most {largest}, not {value}")


#: Options that mean something for endpoints only.
_ENDPOINT_OPTIONS = (
    "omit",
    "base_url",
    "api_key_env",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout",
    "retries",
)


def open_engine(spec: str, options: EngineOptions, gold: Callable[[], pa.Table]) -> Engine:
    """Return the engine of a model specification; nothing is loaded or asked yet.

    Parameters
    ----------
    spec : str
        As for :func:`parse_model_spec`.
    options : EngineOptions
    gold : callable
        Returns the gold distributions; called for references only.

    Raises
    ------
    ConfigurationError
        The specification or an option cannot be understood, or the options contradict each
        other.
    MissingDependencyError
        The engine is not installed.
    """
    kind, model = parse_model_spec(spec)
    if options.elicitation not in ELICITATIONS:
        near = difflib.get_close_matches(str(options.elicitation), ELICITATIONS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError(
            f"unknown elicitation {options.elicitation!r}; {hint}known: {', '.join(ELICITATIONS)}"
        )
    check_endpoint_options(kind, options)
    if kind == "reference":
        return ReferenceEngine(model, gold(), options.instruction, options.elicitation)
    if kind == "file":
        return FileEngine(Path(model), options.instruction, options.elicitation)
    temperature, max_tokens = _sampling(options)
    sampling: dict[str, Any] = {
        "structured": options.structured,
        "temperature": temperature,
        "top_p": None if options.elicitation == "logprob" else options.top_p,
        "max_tokens": max_tokens,
        "seed": None if options.elicitation == "logprob" else options.seed,
        "instruction": options.instruction,
        "elicitation": options.elicitation,
        "samples": options.samples,
        "max_in_flight": options.max_in_flight,
        "engine_args": options.engine_args,
    }
    if kind == "openai":
        from chronocore.engines.openai import OpenAIEngine

        if options.revision is not None:
            raise ArgumentError(
                "an endpoint does not take a revision; name the dated version of the model"
            )
        return OpenAIEngine(
            model,
            omit=options.omit,
            base_url=options.base_url,
            api_key_env=options.api_key_env,
            requests_per_minute=options.requests_per_minute,
            tokens_per_minute=options.tokens_per_minute,
            timeout=options.timeout,
            retries=options.retries,
            **sampling,
        )
    from chronocore.engines.vllm import VllmEngine

    return VllmEngine(model, revision=options.revision, **sampling)


def check_endpoint_options(kind: str, options: EngineOptions) -> None:
    """Refuse what only an endpoint takes, where an engine of another kind is asked.

    Raises
    ------
    ConfigurationError
        Naming the options.
    """
    given = [name for name in _ENDPOINT_OPTIONS if getattr(options, name) != getattr(_UNSET, name)]
    if kind != "openai" and given:
        raise ArgumentError(
            f"{', '.join(given)}: only an endpoint (openai:MODEL) takes this, not {kind}:"
        )


def _sampling(options: EngineOptions) -> tuple[float | None, int]:
    """Return temperature and longest answer, or say what cannot go together."""
    default_temperature, default_tokens = _DEFAULTS[options.elicitation]
    temperature = options.temperature if options.temperature is not None else default_temperature
    max_tokens = options.max_tokens if options.max_tokens is not None else default_tokens
    if options.elicitation == "logprob":
        if options.temperature is not None or options.top_p != 1.0:
            raise ArgumentError(
                "logprob reads probabilities and draws nothing; leave temperature and top_p out"
            )
        if options.structured:
            raise ArgumentError(
                "logprob reads the first token as the model would write it; leave structured out"
            )
        max_tokens = 1
    if options.elicitation == "sampled":
        if options.samples < 2:
            raise ArgumentError(f"samples must be at least 2, not {options.samples}")
        if temperature == 0 and "temperature" not in options.omit:
            raise ArgumentError(
                "sampled at temperature 0 would count one answer many times; "
                "give a temperature above 0"
            )
    return temperature, max_tokens


_UNSET = EngineOptions()


def parse_model_spec(spec: str) -> ModelSpec:
    """Split a model specification into engine and model.

    Parameters
    ----------
    spec : str
        ``vllm:<model or path>``, ``openai:<model>``, ``reference:uniform|persistence|pooled``
        or ``file:<parquet>``.

    Raises
    ------
    ConfigurationError
        The engine is not known or the model is missing.

    Examples
    --------
    >>> parse_model_spec("reference:uniform")
    ('reference', 'uniform')
    """
    if not isinstance(spec, str):
        raise ArgumentError(
            f"model must be text such as 'file:mine.parquet', not {type(spec).__name__}; "
            "write a frame to Parquet first"
        )
    engine, separator, model = spec.partition(":")
    usage = "use vllm:MODEL, openai:MODEL, reference:uniform|persistence|pooled or file:PARQUET"
    if not separator:
        raise ArgumentError(f"model {spec!r} names no engine; {usage}")
    if engine not in _ENGINES:
        near = difflib.get_close_matches(engine, _ENGINES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError(f"there is no engine {engine!r}; {hint}{usage}")
    if not model:
        raise ArgumentError(f"model {spec!r} names no model; {usage}")
    if engine != "file" and not model.isprintable():
        raise ArgumentError(f"model {spec!r} has characters that cannot be seen; {usage}")
    if engine == "reference" and model not in REFERENCES:
        near = difflib.get_close_matches(model, REFERENCES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(REFERENCES)}"
        raise ArgumentError(f"there is no reference {model!r}; {hint}")
    if engine == "file":
        model = str(Path(model))
    return engine, model
