"""Answers from an endpoint that speaks the OpenAI protocol, hosted or a server of one's own.

Requests go out from a thread with an event loop of its own, a bounded number at a time, and come
back in the order of completion. The module imports without the client; the key is read from the
environment with the first request and is kept in no file, note or message.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib.metadata
import math
import queue
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from chronocore.engines.base import (
    Answer,
    Request,
    RunSettings,
    answer_schema,
    request_seed,
    version_with,
    well_formed,
)
from chronocore.engines.keys import HIDDEN, check_arguments, refuse_key, shown_variable
from chronocore.engines.openai.endpoint import (
    DEFAULT_BASE_URL,
    DEFAULT_KEY,
    NO_KEY,
    LargeReplyError,
    RedirectError,
    ReplyError,
    client_module,
    endpoint_address,
    key_of,
    open_client,
)
from chronocore.engines.openai.failures import (
    CONTEXT,
    FILTER,
    PARAMETER,
    AttemptError,
    message,
    retry_after,
    root,
)
from chronocore.engines.openai.rate import Rate
from chronocore.engines.openai.replies import LARGEST_COUNT, Choice, Reply, read_reply
from chronocore.errors import ConfigurationError, EngineError

__all__ = ["OMITTABLE", "OpenAIEngine"]

#: Settings that an endpoint may be left to choose.
OMITTABLE = ("temperature", "top_p", "max_tokens", "seed")

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

#: So many attempts show that nobody listens at an address that never answered, within seconds.
_FIRST_ATTEMPTS = 3

#: What the client's transport raises where nobody listens, or the host has no address.
_UNREACHED = ("ConnectError", "ConnectionRefusedError", "gaierror", "SSLCertVerificationError")

#: Most different names or fingerprints of what answered that are kept.
_MOST_REPORTED = 20

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

#: Stands for all names beyond :data:`_MOST_REPORTED`; no server can report it.
_FURTHER = ""


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
        client_module()
        self._patient = retries is not None
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
        check_arguments(self._body)
        refuse_key(model, "the name of the model (--model)")
        self._address = endpoint_address(base_url)
        if api_key_env is not None and not api_key_env.strip():
            key_of(self._address, api_key_env)  # says that it is empty
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
            Rate(requests_per_minute) if requests_per_minute else None,
            Rate(tokens_per_minute) if tokens_per_minute else None,
        )
        # The older name is understood by all servers, except by OpenAI's for its newer models.
        self._tokens_field = (
            "max_completion_tokens" if self._address == DEFAULT_BASE_URL else "max_tokens"
        )
        self._paused_until = 0.0
        self._failed_in_a_row = 0
        self._answered = 0
        self._attempts: Counter[str] = Counter()
        self._said: dict[str, str] = {}
        self._reported: dict[str, Counter[str]] = {
            "model_reported": Counter(), "system_fingerprint": Counter()
        }  # fmt: skip
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
        key_of(self._address, self._key_name)

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
            self.describe()

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
        self._key = key_of(self._address, self._key_name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="chronocore-openai", daemon=True
        )
        self._thread.start()

        async def connect() -> Any:
            return open_client(self._address, self._key, self._timeout)

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
        choices: list[Choice] = []
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
                    usage[place] = min(count + (usage[place] or 0), LARGEST_COUNT)
        return self._answer(request, choices, usage, seed)

    async def _call(
        self, request: Request, count: int, seed: int | None, offset: int
    ) -> Reply | Answer:
        """Return the reply to one call, or the answer that says why there is none."""
        estimate = (len(request.system) + len(request.user)) // 4 + count * (
            self.settings.max_tokens or 0
        )
        attempt = 0
        while True:
            await self._wait_for_turn(estimate)
            try:
                reply = await self._attempt(request, count, seed, offset)
            except AttemptError as error:
                failure = error
            else:
                if isinstance(reply, Reply):
                    self._count_reply(reply, estimate)
                return reply
            self._attempts[failure.cause] += 1
            self._said.setdefault(failure.cause, failure.said)
            attempt += 1
            self._check_useful(failure, attempt)
            if failure.final or attempt > self._retries:
                break
            self._retried += 1
            backoff = min(_FIRST_WAIT * 2.0 ** (attempt - 1), _LONGEST_WAIT)
            # Jitter, so that requests turned away together do not come back together. Never
            # less than the back-off: all attempts together outlast a server's absence.
            await self._sleep((failure.wait or 0.0) + backoff * random.uniform(1.0, 1.5))
        self._give_up(str(failure))
        return Answer(request.prompt_id, request.repeat, error=failure.error)

    async def _attempt(
        self, request: Request, count: int, seed: int | None, offset: int
    ) -> Reply | Answer:
        """Return what one request brings.

        Raises
        ------
        AttemptError
            Nothing.
        EngineError
            No other request would fare better.
        """
        openai = client_module()
        try:
            response = await self._send(self._fields(request, count, seed, offset))
            return read_reply(request, response, self._key, self._text)
        except (TimeoutError, openai.APITimeoutError):
            raise AttemptError("time-out", error="timeout") from None
        except openai.APIStatusError as failure:
            refused = self._read_status(request, failure)
        except (ReplyError, openai.APIConnectionError) as failure:
            raise self._unconnected(failure) from None
        except (
            openai.APIError,
            ArithmeticError,
            AttributeError,
            RecursionError,  # JSON nested deeper than Python reads
            TypeError,
            ValueError,
        ) as failure:
            raise AttemptError(f"unreadable reply ({type(failure).__name__})") from None
        if refused is None:  # it wants the token limit by its newer name
            return await self._attempt(request, count, seed, offset)
        return refused

    def _unconnected(self, failure: BaseException) -> AttemptError:
        """Return why nothing came back.

        Raises
        ------
        EngineError
            The endpoint sends requests on to another address.
        """
        own = ReplyError.behind(failure)
        if isinstance(own, RedirectError):
            raise EngineError(
                f"{self._address} redirects to {own.target} (status {own.status}), and what it "
                "answers would be kept as this endpoint's; if that is the endpoint, give its "
                "address as base URL"
            ) from None
        if isinstance(own, LargeReplyError):
            return AttemptError(f"a reply of more than {own}", final=True)
        if own is not None:
            return AttemptError("a reply that cannot be unpacked")
        cause = f"connection ({root(failure)})"
        if root(failure) not in _UNREACHED:
            return AttemptError(cause)
        return AttemptError(
            cause,
            useless=f"cannot be reached, in {{attempts}} attempts ({cause}); check the base URL, "
            "and whether the server runs. For one that is still starting, give more --retries",
            patience=_FIRST_ATTEMPTS,
        )

    def _check_useful(self, failure: AttemptError, attempt: int) -> None:
        """End the run where the first attempts show that the endpoint is none."""
        if failure.useless is None or self._answered:
            return
        patience = failure.patience or self._retries + 1
        # Whoever says how often to try means it, for what may pass.
        if patience > 1 and (self._patient or self._retries + 1 < patience):
            patience = self._retries + 1
        if attempt >= patience:
            says = failure.useless.replace("{attempts}", str(attempt))
            raise EngineError(f"{self._address} {says}") from None

    def _count_reply(self, reply: Reply, estimate: int) -> None:
        """Note what a reply says about the endpoint."""
        self._failed_in_a_row = 0
        self._answered += 1
        if self._rates[1] is not None and reply.total_tokens is not None:
            self._rates[1].correct(reply.total_tokens - estimate)
        for name, value in (
            ("model_reported", reply.model), ("system_fingerprint", reply.fingerprint),
        ):  # fmt: skip
            known = self._reported[name]
            if value and (value in known or len(known) < _MOST_REPORTED):
                known[value] += 1
            elif value:
                known[_FURTHER] += 1
        for choice in reply.choices:
            if choice.first_token is not None:
                unseen = choice.first_token.unseen
                self._unseen = [self._unseen[0] + unseen, max(self._unseen[1], unseen)]

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

    def _text(self, text: str) -> str:
        """Return what may be written down: no lone surrogates, and not the key."""
        # Short ones stand for no key on servers of one's own, and may be words of an answer.
        if len(self._key) >= 8:
            text = text.replace(self._key, HIDDEN)
        return well_formed(text)

    def _answer(
        self,
        request: Request,
        choices: Sequence[Choice],
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
        token = choices[0].first_token
        if token is not None:
            return Answer(option_probs=token.option_probs, **common)
        return Answer(text=first.text, thinking=first.thinking, refusal=first.refusal, **common)

    def describe(self) -> None:
        """Bring the notes up to date; another thread may ask for them while answers come."""
        self.notes["endpoint"] = self._address
        self.notes["openai"] = importlib.metadata.version("openai")
        for name, values in self._reported.items():
            if values:
                values = values.copy()
                further = values[_FURTHER]
                named = ", ".join(sorted(value for value in values if value != _FURTHER))
                self.notes[name] = named + (f" and others ({further} replies)" if further else "")
        if self._attempts:
            told = [
                f"{count} {cause}" + (f" ({self._said[cause]})" if self._said.get(cause) else "")
                for cause, count in self._attempts.copy().most_common(_MOST_REPORTED)
            ]
            self.notes["failed_attempts"] = ", ".join(told)
        if self.settings.elicitation == "logprob" and self._answered:
            self.notes["first_token_probability_not_shown"] = (
                f"mean {self._unseen[0] / self._answered:.4f}, largest {self._unseen[1]:.4f}"
            )

    # -- failures -------------------------------------------------------------------------

    def _read_status(self, request: Request, failure: Any) -> Answer | None:
        """Return what a status means for the request; None: it is to be sent in another form.

        Raises
        ------
        AttemptError
            It is worth another attempt.
        EngineError
            No other request would fare better.
        """
        status, text = int(failure.status_code), message(failure, self._key)
        code = str(getattr(failure, "code", None) or "")
        if status == 402 or (status == 429 and "insufficient_quota" in f"{code} {text}"):
            raise EngineError(
                f"{self._address}: the quota of the key is spent ({text}); add to it, or take "
                "another key"
            ) from None
        if status in (408, 409, 429) or status >= 500:
            wait = retry_after(failure.response.headers)
            if wait is not None and status in (429, 503):
                self._paused_until = max(self._paused_until, time.monotonic() + wait)
            raise AttemptError(f"status {status}", text, wait=wait) from None
        self._check_status(status, text)
        if CONTEXT.search(code) or CONTEXT.search(text):
            return Answer(request.prompt_id, request.repeat, error="context_length")
        if FILTER.search(code) or FILTER.search(text):
            return Answer(
                request.prompt_id,
                request.repeat,
                text="",
                finish_reason="content_filter",
                refusal=True,
            )
        if self._tokens_field == "max_tokens" and "max_completion_tokens" in text:
            self._tokens_field = "max_completion_tokens"
            return None
        named = [n for n in OMITTABLE if re.search(rf"\b{n}\b", f"{failure.param} {text}")]
        if named and PARAMETER.search(f"{code} {text}"):
            raise EngineError(
                f"{self._address} answers {status}: it does not take {named[0]} as it is ({text}); "
                f"leave it to the endpoint with --omit {named[0]}, or change it"
            ) from None
        self._attempts[f"status {status}"] += 1
        self.notes.setdefault("first_rejection", text)
        if not self._answered:  # the next prompt may well be taken, once one was
            self._give_up(f"status {status}: {text}")
        return Answer(request.prompt_id, request.repeat, error="endpoint")

    def _check_status(self, status: int, text: str) -> None:
        """Raise EngineError, with a next step, for a status that all requests would have."""
        where = f"{self._address} answers {status}"
        name = shown_variable(self._key_name or DEFAULT_KEY)
        look = f"chronocore doctor --base-url {self._address}"
        if self._key_name:
            look += f" --api-key-env {name}"
        if status in (401, 403) and self._key == NO_KEY:
            raise EngineError(
                f"{where}: it wants a key ({text}); put it into {DEFAULT_KEY}, or name another "
                "variable with api_key_env (--api-key-env)"
            ) from None
        if status == 401:
            raise EngineError(
                f"{where}: it does not accept the key in {name} ({text}); check that the variable "
                "holds this endpoint's key, and that the key is still valid"
            ) from None
        if status == 403:
            raise EngineError(
                f"{where}: it does not accept the key in {name} for this ({text}); check what the "
                f"key may be used for, or ask another model: {look} lists them"
            ) from None
        if status in (404, 405):
            raise EngineError(
                f"{where}: there is no model {self._model!r}, or the base URL is not the "
                f"endpoint's (it mostly ends in /v1) ({text}); {look} lists its models"
            ) from None

    def _give_up(self, cause: str) -> None:
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= FAILURES_IN_A_ROW:
            raise EngineError(
                f"{self._address} failed {self._failed_in_a_row} requests in a row, the last by: "
                f"{cause}"
            ) from None  # the client's own error may quote the key


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


def _sent(name: str, value: Any, omit: Sequence[str]) -> Any:
    return None if name in omit else value
