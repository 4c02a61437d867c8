"""What is taken from a reply; the client of the protocol does not check what servers send."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronocore.elicitation import bare_token, option_letters
from chronocore.engines.base import Request, Sample
from chronocore.engines.openai.failures import AttemptError, page_title, server_message
from chronocore.finish_reasons import ending
from chronocore.text import plain

__all__ = ["LARGEST_COUNT", "Choice", "FirstToken", "Reply", "read_reply"]

#: The largest number of tokens that a prediction can hold (32 bits), far above any answer.
LARGEST_COUNT = 2**31 - 1

#: Log-probabilities are rounded, so what they add up to may come out a little above 1.
_PROBABILITY_TOLERANCE = 0.01

#: A single token shown must have this probability to leave none to others that matters.
_NEARLY_ALL = 0.98

#: Most characters of a finish reason that are kept.
_LONGEST_WORD = 60


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The probabilities of the options as first token, and how much was not shown."""

    option_probs: tuple[float, ...]
    unseen: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer in a reply; its first token where it was asked for."""

    sample: Sample
    first_token: FirstToken | None


@dataclass(frozen=True, slots=True)
class Reply:
    """What is kept of a reply.

    Attributes
    ----------
    choices : list of Choice
    usage : list of int or None
        Tokens of the prompt and of the answer.
    total_tokens : int or None
    model, fingerprint : str or None
        What the endpoint says answered.
    """

    choices: list[Choice]
    usage: list[int | None]
    total_tokens: int | None
    model: str | None
    fingerprint: str | None


def read_reply(request: Request, response: Any, key: str, clean: Callable[[str], str]) -> Reply:
    """Take from a reply what is needed of it.

    Parameters
    ----------
    request : Request
        What was asked.
    response : object
        As the client gives it.
    key : str
        Never part of what is kept.
    clean : callable
        Makes of a text of the model what may be written down.

    Raises
    ------
    AttemptError
        It holds no answer.
    ArithmeticError, AttributeError, TypeError, ValueError
        It is not what the protocol says.
    """
    _check_is_reply(response, key)
    # A reply may hold fewer choices than asked for, or one of them twice.
    distinct = {choice.index: choice for choice in response.choices}
    choices: list[Choice] = []
    broken: list[str] = []
    for index in sorted(distinct):
        choice = distinct[index]
        own = (getattr(choice, "model_extra", None) or {}).get("error")
        if ending(_word(choice.finish_reason, key)) == "error" or own:
            broken.append(server_message(own, key))
        else:
            choices.append(_choice(request, choice, key, clean))
    if not choices:
        words = next((text for text in broken if text), "")
        raise AttemptError("an answer that ended in an error", words)
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    usage = [_count(getattr(response.usage, name, None)) for name in counts]
    model, fingerprint = (getattr(response, n, None) for n in ("model", "system_fingerprint"))
    return Reply(
        choices,
        usage[:2],
        usage[2],
        plain(clean(str(model))) if model else None,
        plain(clean(str(fingerprint))) if fingerprint else None,
    )


def _check_is_reply(response: Any, key: str) -> None:
    if isinstance(response, str):
        title = page_title(response)
        if title is not None:
            raise AttemptError(
                "a web page in place of a reply",
                title.removeprefix(": "),
                useless=f"answers with a web page{title} and is no API; check the base URL (it "
                "mostly ends in /v1), and whether a gateway or a login stands in between",
                patience=3,
            )
        raise AttemptError("a reply that is no JSON", server_message(response, key))
    extra = getattr(response, "model_extra", None) or {}
    if not getattr(response, "choices", None):
        body = {**extra, "error": extra.get("error") or extra.get("errors")}
        if words := server_message(body, key):
            raise AttemptError("an error in a reply of status 200", words)
        raise AttemptError("an empty reply")


def _choice(request: Request, choice: Any, key: str, clean: Callable[[str], str]) -> Choice:
    sample = _sample(choice, key, clean)
    refused = sample.refusal or ending(sample.finish_reason) == "content_filter"
    if request.elicitation == "logprob" and not refused:
        return Choice(sample, _first_token(request, choice))
    return Choice(sample, None)


def _sample(choice: Any, key: str, clean: Callable[[str], str]) -> Sample:
    message = choice.message
    extra = message.model_extra or {}
    parts = _Parts()
    parts.read(message.content)
    thinking = extra.get("reasoning_content") or extra.get("reasoning")
    thinking = str(thinking) if thinking else "".join(parts.thinking)
    calls = [*(message.tool_calls or ()), *filter(None, [getattr(message, "function_call", None)])]
    arguments = [*parts.arguments, *(_arguments(call) for call in calls)]
    refusal = str(message.refusal) if message.refusal else "".join(parts.refusals)
    # What stands in the arguments of a call is what the model wrote, as it wrote it.
    written = "\n".join(text for text in ("".join(parts.texts), *arguments) if text)
    return Sample(
        text=clean(written or refusal),
        thinking=clean(thinking) if thinking else None,
        finish_reason=_word(choice.finish_reason, key),
        refusal=bool(refusal),
    )


def _word(finish_reason: Any, key: str) -> str | None:
    if not isinstance(finish_reason, str | None):
        raise TypeError("the finish reason is no text")
    if not finish_reason:
        return None
    word = finish_reason.replace(key, "") if len(key) > 4 else finish_reason
    return plain(word, _LONGEST_WORD)


class _Parts:
    """What a message consists of: a text, or a list of parts of several kinds."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self.refusals: list[str] = []
        self.arguments: list[str] = []

    def read(self, content: Any) -> None:
        """Take a message's content apart.

        Raises
        ------
        TypeError, ValueError
            It is neither a text nor parts that can be read.
        """
        if isinstance(content, str):
            self.texts.append(content)
        elif isinstance(content, list):
            for part in content:
                self._take(part)
        elif content is not None:
            raise TypeError("the content of a message is no text")

    def _take(self, part: Any) -> None:
        if isinstance(part, str):
            self.texts.append(part)
            return
        if not isinstance(part, Mapping):
            raise TypeError("a part of a message is no object")
        kind = part.get("type", "text")
        if kind in ("text", "output_text"):
            self.texts.append(_told(part, "text"))
        elif kind == "refusal":
            self.refusals.append(_told(part, "refusal", "text"))
        elif kind in ("thinking", "reasoning", "redacted_thinking"):
            self.thinking.append(_told(part, "thinking", "reasoning", "text", "summary", "data"))
        elif kind in ("tool_use", "tool_call", "function_call", "tool_calls", "function"):
            self.arguments.append(_arguments(part))
        else:
            raise ValueError(f"a message has a part that is no text: {kind!r}")


def _told(part: Mapping[str, Any], *names: str) -> str:
    """Return the text of a part, which may itself be a list of parts."""
    value = next((part[name] for name in names if part.get(name)), "")
    if isinstance(value, list):
        inner = _Parts()
        inner.read([{**p, "type": "text"} if isinstance(p, Mapping) else p for p in value])
        return "".join(inner.texts)
    if not isinstance(value, str):
        raise TypeError("a part of a message is no text")
    return value


def _arguments(call: Any) -> str:
    """Return the arguments of a tool call as they were written, in any of the forms servers use."""
    if hasattr(call, "model_dump"):
        call = call.model_dump()
    if not isinstance(call, Mapping):
        raise TypeError("a tool call is no object")
    for name in ("function", "custom", "tool_call"):
        if isinstance(call.get(name), Mapping):
            call = call[name]
    value = next((call[n] for n in ("arguments", "input", "parameters", "args") if call.get(n)), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(value: Any) -> int | None:
    """Return a number of tokens, None for what cannot be one."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT
    return value if usable else None


def _first_token(request: Request, choice: Any) -> FirstToken:
    """Sum the probabilities of the tokens that are an option's letter, spaces and marks aside."""
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    if not content:
        raise AttemptError(
            "no log-probabilities",
            useless="gives no log-probabilities; use the elicitation sampled or verbalized",
            patience=1,
        )
    first = content[0]
    shown = [(token.token, token.logprob) for token in first.top_logprobs or ()]
    # The token that was drawn is among the likeliest ones, or comes on top of them.
    if first.token not in {token for token, _ in shown}:
        shown.append((first.token, first.logprob))
    masses = [_mass(logprob) for _, logprob in shown]
    total = math.fsum(masses)
    if len(shown) < 2 and total < _NEARLY_ALL:
        raise AttemptError(
            "log-probabilities without alternatives",
            useless="gives the log-probability of one token only, without its alternatives; use "
            "the elicitation sampled or verbalized",
            patience=1,
        )
    if total > 1.0 + _PROBABILITY_TOLERANCE:
        raise AttemptError(
            "probabilities above 1 in sum",
            useless=f"gives probabilities of the first token that sum to {total:.3g}, which are "
            "none; use the elicitation sampled or verbalized",
            patience=1,
        )
    return FirstToken(_of_options(shown, masses, len(request.options)), max(1.0 - total, 0.0))


def _of_options(
    shown: Sequence[tuple[str, float]], masses: Sequence[float], n_options: int
) -> tuple[float, ...]:
    """Return the probability of each option: all tokens that read as its letter, together."""
    place = {letter: i for i, letter in enumerate(option_letters(n_options))}
    parts: list[list[float]] = [[] for _ in place]
    for (token, _), mass in zip(shown, masses, strict=True):
        at = place.get(bare_token(token))
        if at is not None:
            parts[at].append(mass)
    return tuple(math.fsum(part) for part in parts)


def _mass(logprob: float) -> float:
    mass = math.exp(logprob)
    if not mass <= 1.0 + _PROBABILITY_TOLERANCE:
        raise ValueError("a token's probability is above 1, or none")
    return mass
