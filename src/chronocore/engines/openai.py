"""Answers from an endpoint that speaks the OpenAI protocol, hosted or a server of one's own.

Requests go out from a thread with an event loop of its own, a bounded number at a time, and come
back in the order of completion. The module imports without the client; the key is read from the
environment with the first request and is kept in no file, note or message.
"""

from __future__ import annotations

import asyncio
import difflib
import email.utils
import importlib.metadata
import math
import os
import queue
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from chronocore.elicitation import option_letters
from chronocore.engines.base import (
    Answer,
    Request,
    RunSettings,
    Sample,
    answer_schema,
    request_seed,
    version_with,
    well_formed,
)
from chronocore.errors import ConfigurationError, EngineError, MissingDependencyError

__all__ = ["OMITTABLE", "OpenAIEngine", "endpoint_address", "probe_endpoint"]

#: Settings that an endpoint may be left to choose.
OMITTABLE = ("temperature", "top_p", "max_tokens", "seed")

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"

#: Most requests on the way at once where none is asked for.
DEFAULT_IN_FLIGHT = 16

#: Seconds an attempt has, and further attempts, where nothing else is asked for.
DEFAULT_TIMEOUT = 120.0
DEFAULT_RETRIES = 6

#: Most tokens whose probabilities the protocol gives for one place.
TOP_LOGPROBS = 20

#: So many requests in a row without a single answer mean that the endpoint does not work.
FAILURES_IN_A_ROW = 20

#: Back-off: the first wait and the longest, in seconds; Retry-After may ask for more.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_LONGEST_RETRY_AFTER = 600.0

#: What a prediction can hold (32 bits), far above any answer.
_MOST_TOKENS = 2**31 - 1

#: What the client's transport raises where nobody listens, or the host has no address.
_UNREACHED = ("ConnectError", "ConnectionRefusedError", "gaierror")

#: Log-probabilities are rounded, so one may come out a little above 0.
_PROBABILITY_TOLERANCE = 0.01

_POLL_SECONDS = 0.1
_CLOSE_SECONDS = 5.0

#: Fields of a request that are decided by the settings, not by engine arguments.
_OWN_FIELDS = (
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "response_format",
    "seed",
    "stop",
    "stream",
    "temperature",
    "top_logprobs",
    "top_p",
)

_CONTEXT = re.compile(
    r"context[ _](?:length|window)|maximum (?:model|input|prompt) length|max_model_len"
    r"|too many (?:input )?tokens|(?:prompt|input) is too long",
    re.IGNORECASE,
)
_FILTER = re.compile(r"content[ _](?:filter|policy|management)", re.IGNORECASE)
_PARAMETER = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected|not supported|does not support|extra inputs)",
    re.IGNORECASE,
)
_KEY_LIKE = re.compile(r"\b(?:sk|pk)-[\w*.-]{4,}|\bBearer \S+")


def endpoint_address(base_url: str | None) -> str:
    """Return the address of an endpoint in the form that names it.

    Parameters
    ----------
    base_url : str or None
        None takes ``OPENAI_BASE_URL`` or else OpenAI's own.

    Returns
    -------
    str
        Scheme and host in lower case, no trailing slash.

    Raises
    ------
    ConfigurationError
        It is no http(s) address, or carries a user name, a password or a query, which might be
        a secret and would end up in files.

    Examples
    --------
    >>> endpoint_address("http://Localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    given = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    example = f"an address looks like {DEFAULT_BASE_URL} or http://localhost:8000/v1"
    try:
        parts = urlsplit(given.strip())
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"the base URL cannot be read; {example}") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            "a base URL must carry no user name, password or query; put the key into an "
            "environment variable and name that with api_key_env"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"the base URL {given!r} is no http address; {example}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def probe_endpoint(
    base_url: str | None, api_key_env: str | None = None, timeout: float = 10.0
) -> tuple[bool, str]:
    """Ask an endpoint for its models.

    Parameters
    ----------
    base_url, api_key_env : str, optional
        As for :class:`OpenAIEngine`.
    timeout : float
        Seconds.

    Returns
    -------
    tuple of bool and str
        Whether it answered, and what it serves or why it did not.

    Raises
    ------
    ConfigurationError
        The address is none, or the key is not set.
    MissingDependencyError
        The client is not installed.
    """
    openai = _client_module()
    address = endpoint_address(base_url)
    key = _read_key(address, api_key_env)
    try:
        with openai.OpenAI(api_key=key, base_url=address, timeout=timeout, max_retries=0) as client:
            names = [model.id for model in client.models.list().data]
    except openai.APIStatusError as failure:
        text = _scrubbed(_message(failure), key)
        return False, f"{address} answers {failure.status_code} ({text})"
    except openai.APITimeoutError:
        return False, f"{address} does not answer within {timeout:g} s"
    except openai.APIConnectionError as failure:
        return False, f"{address} cannot be reached ({_root(failure)})"
    except (openai.APIError, ValueError, TypeError, AttributeError, RecursionError):
        return False, f"{address} answers something else than a list of models"
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return True, f"{address} serves {shown or 'no model'}"


class OpenAIEngine:
    """A model behind an endpoint with OpenAI's chat completions.

    Parameters
    ----------
    model : str
        As the endpoint calls it.
    base_url : str, optional
        By default ``OPENAI_BASE_URL``, else OpenAI's own. Part of the run's identity: equal
        model names at two addresses may be two models.
    api_key_env : str, optional
        Environment variable with the key; by default ``OPENAI_API_KEY``. A server of one's own
        needs none.
    structured : bool
        Send the JSON schema of the answer (see
        :func:`~chronocore.engines.base.answer_schema`).
    temperature, top_p, max_tokens, seed
        Sampling. Above temperature 0 each request has a seed of its own.
    omit : sequence of str
        Of :data:`OMITTABLE`: what is not sent, for endpoints that refuse it or whose own default
        is wanted. Recorded as null.
    instruction, elicitation : str
        How the prompts were worded.
    samples : int
        Answers a prompt, for ``sampled``.
    max_in_flight : int, optional
        Most requests on the way at once, 16 by default.
    requests_per_minute, tokens_per_minute : float, optional
        Rates that are kept to. Tokens are estimated before, and corrected after each answer.
    timeout : float, optional
        Seconds for each attempt, from sending to the last byte; 120 by default.
    retries : int, optional
        Further attempts after a time-out, a cut connection or a status 408, 409, 429 or 5xx, 6 by
        default, with exponential back-off and jitter; ``Retry-After`` is kept to, by all requests.
    engine_args : mapping, optional
        Further fields of the request's body, such as ``reasoning_effort``. They are part of the
        run's identity.

    Attributes
    ----------
    settings : RunSettings
        Complete from the start. ``engine_version`` names the protocol, the address and the
        engine arguments.
    notes : dict of str to str
        The model and fingerprints that the endpoint reported, attempts that failed by cause.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        structured: bool = False,
        temperature: float | None = 0.0,
        top_p: float | None = 1.0,
        max_tokens: int = 120,
        seed: int | None = 0,
        omit: Sequence[str] = (),
        instruction: str = "default",
        elicitation: str = "verbalized",
        samples: int = 20,
        max_in_flight: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        engine_args: Mapping[str, object] | None = None,
    ) -> None:
        _client_module()
        timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        retries = DEFAULT_RETRIES if retries is None else retries
        _check(
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            max_in_flight=max_in_flight,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            timeout=timeout,
            retries=retries,
        )
        for name in omit:
            if name not in OMITTABLE:
                near = difflib.get_close_matches(name, OMITTABLE, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ConfigurationError(
                    f"{name!r} cannot be omitted; {hint}possible: {', '.join(OMITTABLE)}"
                )
        self._body = dict(engine_args or {})
        for name in self._body:
            if name in _OWN_FIELDS:
                raise ConfigurationError(f"{name!r} is a setting of its own, no engine argument")
        self._address = endpoint_address(base_url)
        self._key_name = api_key_env
        self._model = model
        identity: dict[str, object] = {**self._body, "endpoint": self._address}
        if elicitation == "sampled":
            identity["samples"] = samples
        self.settings = RunSettings(
            model=model,
            engine="openai",
            engine_version=version_with("chat completions", identity),
            elicitation=elicitation,
            instruction=instruction,
            structured=structured,
            temperature=_sent("temperature", temperature, omit),
            top_p=_sent("top_p", top_p, omit),
            max_tokens=_sent("max_tokens", max_tokens, omit),
            seed=_sent("seed", seed, omit),
        )
        self.notes: dict[str, str] = {}
        self._samples = samples if elicitation == "sampled" else 1
        self._max_in_flight = max_in_flight or DEFAULT_IN_FLIGHT
        self._timeout = timeout
        self._retries = retries
        self._rates = (
            _Rate(requests_per_minute) if requests_per_minute else None,
            _Rate(tokens_per_minute) if tokens_per_minute else None,
        )
        # The older name is understood by all servers, except by OpenAI's for its newer models.
        self._tokens_field = (
            "max_completion_tokens" if self._address == DEFAULT_BASE_URL else "max_tokens"
        )
        self._paused_until = 0.0
        self._failed_in_a_row = 0
        self._answered = 0
        self._attempts: Counter[str] = Counter()
        self._reported: dict[str, set[str]] = {"model_reported": set(), "system_fingerprint": set()}
        self._unseen: list[float] = [0.0, 0.0]
        self._stop_at: float | None = None
        self._open: set[tuple[str, int]] = set()
        self._on_the_way = 0
        self._retried = 0
        self._wakes: dict[object, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._key = ""

    # -- the protocol ---------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests on the way, those that wait for another attempt included."""
        return len(self._open)

    @property
    def retries(self) -> int:
        """Attempts so far that failed on the way and are made again."""
        return self._retried

    @property
    def waiting(self) -> float:
        """Seconds until the next request is sent; 0 while one is on the way."""
        wakes = list(self._wakes.values())
        if self._on_the_way or not wakes:
            return 0.0
        return max(min(wakes), self._paused_until, now := time.monotonic()) - now

    def check_key(self) -> None:
        """Raise ConfigurationError if the key that a request needs is not set."""
        _read_key(self._address, self._key_name)

    def drain(self, seconds: float) -> None:
        """Send no further request; those on the way get ``seconds``."""
        self._stop_at = time.monotonic() + seconds

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield one answer for each request, in the order of completion.

        Parameters
        ----------
        requests : sequence of Request

        Yields
        ------
        Answer
            A request whose attempts all failed has ``error="timeout"`` or ``"endpoint"``, one
            too long for the model ``"context_length"``.

        Raises
        ------
        EngineError
            The endpoint cannot work: the key or the model is refused, a setting is not
            supported, the quota is spent, or nothing at all was answered.
        """
        if not requests:
            return
        self._start()
        waiting = iter(requests)
        done: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
        tasks: set[Any] = set()
        self._open.clear()
        try:
            while True:
                while self._stop_at is None and len(self._open) < self._max_in_flight:
                    request = next(waiting, None)
                    if request is None:
                        break
                    self._open.add((request.prompt_id, request.repeat))
                    tasks.add(self._submit(request, done))
                if not self._open:
                    return
                try:
                    outcome = done.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    if self._stop_at is not None and time.monotonic() >= self._stop_at:
                        return
                    continue
                if isinstance(outcome, BaseException):
                    raise outcome
                self._open.discard((outcome.prompt_id, outcome.repeat))
                tasks = {task for task in tasks if not task.done()}
                yield outcome
        finally:
            for task in tasks:
                task.cancel()
            self._open.clear()
            self._describe()

    def close(self) -> None:
        """Cancel what is on the way and end the thread; harmless when called twice."""
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        client, self._client = self._client, None
        self._key = ""
        if loop is None or thread is None:
            return

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            with suppress(Exception):
                await client.close()

        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), loop).result(_CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_SECONDS)
        if not thread.is_alive():
            loop.close()

    # -- one request ----------------------------------------------------------------------

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._key = _read_key(self._address, self._key_name)
        openai = _client_module()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="chronocore-openai", daemon=True
        )
        self._thread.start()

        async def connect() -> Any:
            return openai.AsyncOpenAI(
                api_key=self._key, base_url=self._address, timeout=self._timeout, max_retries=0
            )

        self._client = asyncio.run_coroutine_threadsafe(connect(), self._loop).result()

    def _submit(self, request: Request, done: queue.SimpleQueue[Answer | BaseException]) -> Any:
        async def run() -> None:
            try:
                done.put(await self._ask(request))
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                done.put(error)

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    async def _ask(self, request: Request) -> Answer:
        """Return the answer to one request, however many calls it takes."""
        choices: list[_Choice] = []
        usage: list[int | None] = [None, None]
        missing = self._samples
        seed = self._seed_of(request)
        while missing > 0:
            reply = await self._call(request, missing, seed, len(choices))
            if isinstance(reply, Answer):
                return reply
            choices += reply.choices[:missing]
            missing = self._samples - len(choices)
            for place, count in enumerate(reply.usage):
                if count is not None:
                    usage[place] = min(count + (usage[place] or 0), _MOST_TOKENS)
        return self._answer(request, choices, usage, seed)

    async def _call(
        self, request: Request, count: int, seed: int | None, offset: int
    ) -> _Reply | Answer:
        """Return the reply to one call, or the answer that says why there is none."""
        openai = _client_module()
        estimate = (len(request.system) + len(request.user)) // 4 + count * (
            self.settings.max_tokens or 0
        )
        error, says, unreached = "endpoint", "", False
        for attempt in range(self._retries + 1):
            says, unreached = "", False
            await self._wait_for_turn(estimate)
            wait: float | None = None
            try:
                response = await self._send(self._fields(request, count, seed, offset))
                reply = self._read_reply(request, response)
                if reply is not None:
                    self._failed_in_a_row = 0
                    self._answered += 1
                    if self._rates[1] is not None and reply.total_tokens is not None:
                        self._rates[1].correct(reply.total_tokens - estimate)
                    return reply
                error, cause = "endpoint", "empty reply"
            except (TimeoutError, openai.APITimeoutError):
                error, cause = "timeout", "time-out"
            except openai.APIConnectionError as failure:
                error, cause = "endpoint", f"connection ({_root(failure)})"
                unreached = _root(failure) in _UNREACHED
            except openai.APIStatusError as failure:
                refused = self._read_status(request, failure)
                if isinstance(refused, Answer):
                    return refused
                if refused == "again":
                    continue
                error, cause = "endpoint", f"status {failure.status_code}"
                says = f" ({_scrubbed(_message(failure), self._key)})"
                wait = _retry_after(failure.response.headers)
                if wait is not None and failure.status_code in (429, 503):
                    self._paused_until = max(self._paused_until, time.monotonic() + wait)
            except (
                openai.APIError,
                ArithmeticError,
                AttributeError,
                RecursionError,  # JSON nested deeper than Python reads
                TypeError,
                ValueError,
            ) as failure:
                error, cause = "endpoint", f"unreadable reply ({type(failure).__name__})"
            self._attempts[cause] += 1
            if attempt < self._retries:
                self._retried += 1
                backoff = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)
                # Jitter, so that requests turned away together do not come back together. Never
                # less than the back-off: all attempts together outlast a server's absence.
                await self._sleep((wait or 0.0) + backoff * random.uniform(1.0, 1.5))
        if unreached and not self._answered:
            raise EngineError(
                f"{self._address} cannot be reached, in {self._retries + 1} attempts ({cause}); "
                "check the base URL, and whether the server runs"
            ) from None
        self._give_up(f"{cause}{says}")
        return Answer(request.prompt_id, request.repeat, error=error)

    async def _send(self, fields: dict[str, Any]) -> Any:
        self._on_the_way += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await self._client.chat.completions.create(**fields)
        finally:
            self._on_the_way -= 1

    async def _sleep(self, seconds: float) -> None:
        """Wait, and let it be seen how long."""
        place = object()
        self._wakes[place] = time.monotonic() + seconds
        try:
            await asyncio.sleep(seconds)
        finally:
            del self._wakes[place]

    def _fields(
        self, request: Request, count: int, seed: int | None, offset: int
    ) -> dict[str, Any]:
        """Return the body of a call: what is set is sent, nothing else."""
        settings = self.settings
        messages = [{"role": "user", "content": request.user}]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        fields: dict[str, Any] = {"model": self._model, "messages": messages}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.top_p is not None:
            fields["top_p"] = settings.top_p
        if settings.max_tokens is not None:
            fields[self._tokens_field] = settings.max_tokens
        if seed is not None:
            fields["seed"] = seed + offset
        if count > 1:
            fields["n"] = count
        if settings.elicitation == "logprob":
            fields |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        schema = answer_schema(request) if settings.structured else None
        if schema is not None:
            described = {"name": "answer", "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": described}
        if self._body:
            fields["extra_body"] = self._body
        return fields

    def _seed_of(self, request: Request) -> int | None:
        if self.settings.seed is None:
            return None
        if self.settings.temperature == 0:
            return self.settings.seed
        # Some servers keep seeds in 32 bits; the offset of further samples must fit as well.
        return request_seed(self.settings.seed, request) % 2**30

    async def _wait_for_turn(self, tokens: int) -> None:
        for rate, amount in zip(self._rates, (1, tokens), strict=True):
            if rate is not None:
                await self._sleep(rate.wait(amount))
        while (pause := self._paused_until - time.monotonic()) > 0:
            await self._sleep(pause * random.uniform(1.0, 1.1))

    # -- what came back -------------------------------------------------------------------

    def _read_reply(self, request: Request, response: Any) -> _Reply | None:
        """Take from a reply what is needed of it; the client does not check what servers send.

        Returns
        -------
        _Reply or None
            None if it holds no choice.

        Raises
        ------
        ArithmeticError, AttributeError, TypeError, ValueError
            It is not what the protocol says.
        EngineError
            The endpoint gives no log-probabilities.
        """
        if not getattr(response, "choices", None):
            return None
        # A reply may hold fewer choices than asked for, or one of them twice.
        distinct = {choice.index: choice for choice in response.choices}
        choices = []
        for index in sorted(distinct):
            sample, probs = self._sample(distinct[index]), None
            refused = sample.refusal or sample.finish_reason == "content_filter"
            if request.elicitation == "logprob" and not refused:
                probs = self._option_probs(request, distinct[index])
            choices.append(_Choice(sample, probs))
        counts = ("prompt_tokens", "completion_tokens", "total_tokens")
        usage = [_count(getattr(response.usage, name, None)) for name in counts]
        for name, place in (("model_reported", "model"), ("system_fingerprint",) * 2):
            value = getattr(response, place, None)
            if value:
                self._reported[name].add(self._text(str(value)))
        return _Reply(choices, usage[:2], usage[2])

    def _sample(self, choice: Any) -> Sample:
        message = choice.message
        extra = message.model_extra or {}
        text, thinking = _content(message.content)
        thinking = extra.get("reasoning_content") or extra.get("reasoning") or thinking
        refusal = message.refusal
        finish_reason = choice.finish_reason
        if not isinstance(finish_reason, str | None):
            raise TypeError("the finish reason is no text")
        return Sample(
            text=self._text(text or (str(refusal) if refusal else "")),
            thinking=self._text(str(thinking)) if thinking else None,
            finish_reason=None if finish_reason is None else self._text(finish_reason),
            refusal=bool(refusal),
        )

    def _text(self, text: str) -> str:
        """Return what may be written down: no lone surrogates, and not the key."""
        # Short ones stand for no key on servers of one's own, and may be words of an answer.
        if len(self._key) >= 8:
            text = text.replace(self._key, "<key>")
        return well_formed(text)

    def _answer(
        self,
        request: Request,
        choices: Sequence[_Choice],
        usage: Sequence[int | None],
        seed: int | None,
    ) -> Answer:
        samples = tuple(choice.sample for choice in choices)
        reasons = {sample.finish_reason for sample in samples}
        first = samples[0]
        common: dict[str, Any] = {
            "prompt_id": request.prompt_id,
            "repeat": request.repeat,
            "finish_reason": reasons.pop() if len(reasons) == 1 else None,
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "seed": seed,
        }
        if request.elicitation == "sampled":
            return Answer(samples=samples, **common)
        if choices[0].option_probs is not None:
            return Answer(option_probs=choices[0].option_probs, **common)
        return Answer(text=first.text, thinking=first.thinking, refusal=first.refusal, **common)

    def _option_probs(self, request: Request, choice: Any) -> tuple[float, ...]:
        """Sum the probabilities of the tokens that are an option's letter, spaces aside."""
        content = getattr(getattr(choice, "logprobs", None), "content", None)
        if not content:
            if self._answered:  # others had them, so this reply is not whole
                raise ValueError("no log-probabilities")
            raise EngineError(
                f"{self._address} gives no log-probabilities for {self._model}; "
                "use the elicitation sampled or verbalized"
            )
        place = {letter: i for i, letter in enumerate(option_letters(len(request.options)))}
        given = {token.token: token.logprob for token in content[0].top_logprobs or ()}
        given.setdefault(content[0].token, content[0].logprob)
        masses = [0.0] * len(place)
        total = 0.0
        for token, logprob in given.items():
            mass = math.exp(logprob)
            if not mass <= 1.0 + _PROBABILITY_TOLERANCE:
                raise ValueError("a token's probability is above 1")
            total += mass
            if token.strip() in place:
                masses[place[token.strip()]] += mass
        unseen = max(1.0 - total, 0.0)
        self._unseen = [self._unseen[0] + unseen, max(self._unseen[1], unseen)]
        return tuple(masses)

    def _describe(self) -> None:
        self.notes["endpoint"] = self._address
        self.notes["openai"] = importlib.metadata.version("openai")
        for name, values in self._reported.items():
            if values:
                self.notes[name] = ", ".join(sorted(values))
        if self._attempts:
            self.notes["failed_attempts"] = ", ".join(
                f"{count} {cause}" for cause, count in self._attempts.most_common()
            )
        if self.settings.elicitation == "logprob" and self._answered:
            self.notes["first_token_probability_not_shown"] = (
                f"mean {self._unseen[0] / self._answered:.4f}, largest {self._unseen[1]:.4f}"
            )

    # -- failures -------------------------------------------------------------------------

    def _read_status(self, request: Request, failure: Any) -> Answer | str | None:
        """Return what a status means for the request; None: worth another attempt.

        Raises
        ------
        EngineError
            No other request would fare better.
        """
        status, text = int(failure.status_code), _scrubbed(_message(failure), self._key)
        code = str(getattr(failure, "code", None) or "")
        if status == 429 and ("insufficient_quota" in code or "insufficient_quota" in text):
            raise EngineError(f"{self._address}: the quota of the key is spent ({text})") from None
        if status in (408, 409, 429) or status >= 500:
            return None
        where = f"{self._address} answers {status}"
        if status in (401, 403):
            name = self._key_name or DEFAULT_KEY
            raise EngineError(f"{where}: it does not accept the key in {name} ({text})") from None
        if status == 404:
            raise EngineError(
                f"{where}: there is no model {self._model!r}, or the base URL is not the "
                f"endpoint's (it mostly ends in /v1) ({text})"
            ) from None
        if _CONTEXT.search(code) or _CONTEXT.search(text):
            return Answer(request.prompt_id, request.repeat, error="context_length")
        if _FILTER.search(code) or _FILTER.search(text):
            return Answer(
                request.prompt_id,
                request.repeat,
                text="",
                finish_reason="content_filter",
                refusal=True,
            )
        if self._tokens_field == "max_tokens" and "max_completion_tokens" in text:
            self._tokens_field = "max_completion_tokens"
            return "again"
        named = [n for n in OMITTABLE if re.search(rf"\b{n}\b", f"{failure.param} {text}")]
        if named and _PARAMETER.search(f"{code} {text}"):
            raise EngineError(
                f"{where}: it does not take {named[0]} as it is ({text}); leave it to the "
                f"endpoint with omit, or change it"
            ) from None
        self._attempts[f"status {status}"] += 1
        self.notes.setdefault("first_rejection", text)
        if not self._answered:  # the next prompt may well be taken, once one was
            self._give_up(f"status {status}: {text}")
        return Answer(request.prompt_id, request.repeat, error="endpoint")

    def _give_up(self, cause: str) -> None:
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= FAILURES_IN_A_ROW:
            raise EngineError(
                f"{self._address} failed {self._failed_in_a_row} requests in a row, the last by: "
                f"{cause}"
            ) from None  # the client's own error may quote the key


@dataclass(frozen=True, slots=True)
class _Choice:
    """One answer in a reply; the probabilities of the options where they were asked for."""

    sample: Sample
    option_probs: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is kept of a reply; ``usage`` has the tokens of the prompt and of the answer."""

    choices: list[_Choice]
    usage: list[int | None]
    total_tokens: int | None


class _Rate:
    """Spaces events so that no minute holds more than a given amount."""

    def __init__(self, per_minute: float) -> None:
        self._seconds = 60.0 / per_minute
        self._free_at = 0.0

    def wait(self, amount: float) -> float:
        """Reserve an amount and return the seconds until it may be used."""
        now = time.monotonic()
        start = max(self._free_at, now)
        self._free_at = start + amount * self._seconds
        return start - now

    def correct(self, difference: float) -> None:
        """Add what was used beyond the reserved amount, or give back what was not."""
        self._free_at += difference * self._seconds


def _check(
    *,
    temperature: float | None,
    top_p: float | None,
    max_tokens: int,
    max_in_flight: int | None,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
    timeout: float,
    retries: int,
) -> None:
    if temperature is not None and not 0.0 <= temperature <= 2.0:
        raise ConfigurationError(f"temperature must lie in [0, 2], not {temperature}")
    if top_p is not None and not 0.0 < top_p <= 1.0:
        raise ConfigurationError(f"top_p must lie in (0, 1], not {top_p}")
    if retries < 0:
        raise ConfigurationError(f"retries must be at least 0, not {retries}")
    for name, value in (
        ("max_tokens", max_tokens),
        ("max_in_flight", max_in_flight),
        ("requests_per_minute", requests_per_minute),
        ("tokens_per_minute", tokens_per_minute),
        ("timeout", timeout),
    ):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfigurationError(f"{name} must be a finite number above 0, not {value}")


def _read_key(address: str, name: str | None) -> str:
    variable = name or DEFAULT_KEY
    key = os.environ.get(variable, "").strip()
    if key:
        return key
    if name is not None or address == DEFAULT_BASE_URL:
        raise ConfigurationError(
            f"the environment variable {variable} is not set; put the endpoint's key there, or "
            "name another variable with api_key_env (--api-key-env)"
        )
    return "none"  # a server of one's own asks for no key, the client insists on one


def _scrubbed(text: str, key: str) -> str:
    """Take out what may be a key: servers quote it when they refuse it."""
    if len(key) > 4:
        text = text.replace(key, "<key>")
    return _KEY_LIKE.sub("<key>", text)


def _sent(name: str, value: Any, omit: Sequence[str]) -> Any:
    return None if name in omit else value


def _content(content: Any) -> tuple[str, str | None]:
    """Return the text and the thinking of a message, which is a text or a list of parts."""
    if isinstance(content, str | None):
        return content or "", None
    if not isinstance(content, list):
        raise TypeError("the content of a message is no text")
    texts: list[str] = []
    thinking: list[str] = []
    for part in content:
        kind = part["type"]
        if kind in ("text", "output_text"):
            texts.append(part["text"])
        elif kind in ("thinking", "reasoning"):
            inner = part.get(kind)
            thinking.append(inner if isinstance(inner, str) else _content(inner)[0])
        else:
            raise ValueError(f"a message has a part that is no text: {kind!r}")
    return "".join(texts), "".join(thinking) or None


def _count(value: Any) -> int | None:
    """Return a number of tokens, None for what cannot be one."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if usable else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a reply asks to wait: a number, or a date (RFC 9110, 10.2.3)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            parsed = email.utils.parsedate_tz(text)
            if parsed is None:
                continue
            seconds = email.utils.mktime_tz(parsed) - time.time()
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)
    return None


def _message(failure: Any) -> str:
    body = getattr(failure, "body", None)
    text = body.get("message") if isinstance(body, dict) else None
    # It goes to terminals and into files: no escape sequences, no lone surrogates.
    text = " ".join("".join(c if c.isprintable() else " " for c in str(text or failure)).split())
    return text if len(text) <= 300 else f"{text[:299]}…"


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


def _client_module() -> ModuleType:
    try:
        import openai
    except ImportError as error:
        raise MissingDependencyError(
            f"the client of endpoints cannot be imported ({error}); "
            "install it with: pip install 'chronocore[openai]'"
        ) from error
    return openai
