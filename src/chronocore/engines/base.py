"""What an inference engine takes and gives.

An engine answers prompts. It knows neither surveys nor scores: it receives the columns of
``prompts.parquet`` it needs, yields one :class:`Answer` for each request as soon as that
request is done (in any order), and describes itself by :class:`RunSettings`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "ELICITATIONS",
    "INSTRUCTIONS",
    "LARGEST_MAX_TOKENS",
    "LARGEST_SEED",
    "STATUSES",
    "Answer",
    "Engine",
    "Option",
    "Request",
    "RunSettings",
    "Sample",
    "answer_schema",
    "request_seed",
    "version_with",
    "well_formed",
]

#: Ways to get a distribution out of a model: it is asked for the distribution; it is asked many
#: times for one option; the probabilities of its first token are read.
ELICITATIONS = ("verbalized", "sampled", "logprob")

#: Instructions a distribution prompt can be written in; modal prompts have one wording.
INSTRUCTIONS = ("default", "national", "hundred_adults")

#: What the columns of a run and of its answers hold: 32 and 64 bits with a sign.
LARGEST_MAX_TOKENS = 2**31 - 1
LARGEST_SEED = 2**63 - 1

#: What can become of a prompt (definitions, section 4).
STATUSES = frozenset({"ok", "recovered", "refused", "truncated", "invalid", "error"})


@dataclass(frozen=True, slots=True)
class Option:
    """One answer option of a question: its code and its label."""

    code: int
    label: str


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to be answered once.

    ``survey``, ``variable``, ``country``, ``wave`` and ``year`` locate the prompt in the
    benchmark; only the references and ``file:`` need them. ``elicitation`` says what is asked
    for: a text with the distribution, several texts with one option each, or the probabilities
    of the first token.
    """

    prompt_id: str
    repeat: int
    kind: str
    system: str
    user: str
    options: tuple[Option, ...]
    survey: str
    variable: str
    country: str
    wave: int | None
    year: int | None
    elicitation: str = "verbalized"


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the answers to a prompt that is asked many times."""

    text: str | None
    thinking: str | None = None
    finish_reason: str | None = None
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    Exactly one of ``text``, ``samples``, ``option_probs``, ``probs`` and ``error`` carries the
    result: ``text`` and ``samples`` are still to be parsed, ``option_probs`` is the probability
    of each option as the first token, in the order of the options and not normalised, ``probs``
    is already a distribution over the options in their order, ``error`` names why no answer came
    (``context_length``, ``timeout``, ``endpoint``, ``engine``). ``seed`` is the seed of this one
    answer, where it differs from the run's.
    ``status`` and ``reason`` are set only by engines that decide them without a text (a
    reference without donors is ``invalid``, ``no_reference``).
    """

    prompt_id: str
    repeat: int
    text: str | None = None
    thinking: str | None = None
    samples: tuple[Sample, ...] | None = None
    option_probs: tuple[float, ...] | None = None
    probs: tuple[float, ...] | None = None
    error: str | None = None
    status: str | None = None
    reason: str | None = None
    refusal: bool = False
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that distinguishes one run from another; the columns of ``runs.parquet``.

    ``None`` means that the setting does not exist for this engine. ``run_id`` is derived
    from all fields (see :func:`chronocore.identity.run_id`).
    """

    model: str
    engine: str
    engine_version: str
    revision: str | None = None
    elicitation: str = "verbalized"
    instruction: str = "default"
    structured: bool = False
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    chat_template_sha256: str | None = None


class Engine(Protocol):
    """An inference engine: vLLM, an endpoint, a reference, a file of predictions.

    Attributes
    ----------
    settings : RunSettings
        Known before any prompt is answered, so that a run can be found and resumed.
    notes : dict of str to str
        Provenance that does not distinguish runs (device, library versions); kept in the
        run's manifest.
    in_flight : int
        Requests handed over and not yet answered.

    An engine that sends requests again may also have ``retries``, how many attempts failed on the
    way, and ``waiting``, the seconds until it sends the next request (0 while one is on the way);
    the progress line shows them.
    """

    settings: RunSettings
    notes: dict[str, str]

    @property
    def in_flight(self) -> int:
        """Requests handed over and not yet answered; 0 for engines that answer at once."""
        ...

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield one answer for each request, in any order, each as soon as it is done."""
        ...

    def drain(self, seconds: float) -> None:
        """Ask for an end: hand over nothing more.

        :meth:`answers` yields what is finished within ``seconds`` and then ends as if all were
        done. Only sets what the engine looks at, so a signal handler or another thread may call
        it.
        """
        ...

    def close(self) -> None:
        """Free the device and end child processes; harmless when called twice."""
        ...


def version_with(version: str, arguments: Mapping[str, object]) -> str:
    """Return an engine's version with the arguments that can change an answer.

    Examples
    --------
    >>> version_with("0.32.0", {"samples": 20, "dtype": "float32"})
    '0.32.0; dtype=float32; samples=20'
    """
    parts = [
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in sorted(arguments.items())
    ]
    return "; ".join([version, *parts])


def answer_schema(request: Request) -> dict[str, Any] | None:
    """Return the JSON schema of a structured answer.

    Parameters
    ----------
    request : Request
        A modal or a sampled prompt asks for one option code, every other for a distribution.

    Returns
    -------
    dict or None
        For a distribution an object with exactly the codes as keys and numbers from 0 to 100
        as values; for one option ``{"answer": <code>}``. ``None`` without options.

    Examples
    --------
    >>> options = (Option(1, "yes"), Option(2, "no"))
    >>> asked = Request("q", 0, "dated", "", "", options, "wvs", "E143", "8", 3, 1998)
    >>> answer_schema(asked)["required"]
    ['1', '2']
    """
    if not request.options:
        return None
    codes = [option.code for option in request.options]
    properties: dict[str, Any]
    if request.kind == "modal" or request.elicitation == "sampled":
        properties = {"answer": {"enum": codes}}
    else:
        properties = {str(code): {"type": "number", "minimum": 0, "maximum": 100} for code in codes}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def request_seed(seed: int, request: Request) -> int:
    """Return the seed of one request's random stream.

    It depends on the run's seed, the prompt and the repeat only, so the order of the requests
    and a resumed run do not matter, and no two prompts share a stream.

    Parameters
    ----------
    seed : int
        The seed of the run.
    request : Request
        The request.

    Returns
    -------
    int
        A number below 2**63.
    """
    text = f"{seed}\x1f{request.prompt_id}\x1f{request.repeat}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def well_formed(text: str) -> str:
    r"""Return a text that can be written down as UTF-8.

    JSON may carry one half of a surrogate pair, and models write it when they are cut in the
    middle of an emoji. Two halves become their character, a lone one U+FFFD.

    Examples
    --------
    >>> well_formed("caf\u00e9 \ud83d") == "caf\u00e9 \ufffd"
    True
    >>> well_formed("\ud83d\ude00") == "\U0001f600"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
