"""Where an endpoint is, how it is reached, and what it may send.

The client of the protocol follows redirects to any host and unpacks whatever comes. Here a reply
counts only if the address asked for gave it, and it has a size limit, packed and unpacked.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import zlib
from collections.abc import Coroutine
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from chronocore.engines.keys import read_key, refuse_key, said, shown_variable
from chronocore.engines.openai.failures import message, page_title, root, server_message
from chronocore.errors import ConfigurationError, MissingDependencyError
from chronocore.text import plain

__all__ = [
    "DEFAULT_BASE_URL",
    "DEFAULT_KEY",
    "LARGEST_REPLY",
    "LargeReplyError",
    "RedirectError",
    "ReplyError",
    "client_module",
    "endpoint_address",
    "key_of",
    "open_client",
    "probe_endpoint",
]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY = "OPENAI_API_KEY"

#: The client insists on a key where a server of one's own asks for none.
NO_KEY = "none"

#: Most bytes of a reply, packed and unpacked: a hundred times a long reasoning.
LARGEST_REPLY = 16 * 2**20

#: Most brackets in a reply: the client makes an object of each, at a hundred times its size.
_MOST_BRACKETS = 200_000

#: Statuses of redirects that ask for the same request once more.
_SAME_REQUEST = (307, 308)
_MOST_REDIRECTS = 3

_SHOWN_MODELS = 5
_LONGEST_MODEL = 80

_Result = TypeVar("_Result")


class ReplyError(Exception):
    """A reply is refused before it is read; some releases of the client wrap it in their own."""

    @classmethod
    def behind(cls, failure: BaseException | None) -> ReplyError | None:
        """Return the refusal that an error of the client stands for, None for any other."""
        while failure is not None and not isinstance(failure, ReplyError):
            failure = failure.__cause__
        return failure


class RedirectError(ReplyError):
    """An endpoint sends requests on to where they were not meant to go."""

    def __init__(self, status: int, target: str) -> None:
        super().__init__(f"status {status} to {target}")
        self.status = status
        self.target = target


class LargeReplyError(ReplyError):
    """A reply is larger than :data:`LARGEST_REPLY`, or holds more values than any answer."""

    def __init__(self, limit: str = f"{LARGEST_REPLY // 2**20} MiB") -> None:
        super().__init__(limit)


class PackedReplyError(ReplyError):
    """A reply is packed in a way that was not asked for, or cannot be unpacked."""


def endpoint_address(base_url: str | None) -> str:
    """Return the address of an endpoint in the form that names it.

    Parameters
    ----------
    base_url : str or None
        None takes ``OPENAI_BASE_URL`` or, where that is not set, OpenAI's own.

    Returns
    -------
    str
        Scheme and host in lower case, no trailing slash.

    Raises
    ------
    ConfigurationError
        It is empty or no http(s) address, or carries a user name, a password, a query or a key,
        which might be a secret and would end up in files. The address is not quoted.

    Examples
    --------
    >>> endpoint_address("http://Localhost:8000/v1/")
    'http://localhost:8000/v1'
    """
    named = "the base URL (--base-url)"
    given = base_url
    if given is None and "OPENAI_BASE_URL" in os.environ:
        named, given = "the environment variable OPENAI_BASE_URL", os.environ["OPENAI_BASE_URL"]
    given = DEFAULT_BASE_URL if given is None else given.strip()
    example = f"an address looks like {DEFAULT_BASE_URL} or http://localhost:8000/v1"
    if not given:
        # A shell variable that was not set must not send prompts and a key to OpenAI.
        raise ConfigurationError(
            f"{named} is empty; {example}. To ask OpenAI, leave it out (unset the variable)"
        )
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{named} cannot be read; {example}") from None
    if "@" in given or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{named} must carry no user name, password or query; put the key into an "
            "environment variable and name that with api_key_env (--api-key-env)"
        )
    refuse_key(given, named)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{named} is no http address: it does not begin with http:// or https:// and a host; "
            f"{example}"
        )
    if not (given.isascii() and given.isprintable()) or re.search(r"[\s\\<>\"]", given):
        raise ConfigurationError(
            f"{named} holds a space or a character that no address has; {example}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def key_of(address: str, variable: str | None) -> str:
    """Return the key for an address, :data:`NO_KEY` for a server that may need none.

    Raises
    ------
    ConfigurationError
        It is needed and not set, or no header can carry it.
    """
    name = DEFAULT_KEY if variable is None else variable
    key = read_key(name)
    if key is None:
        if variable is None and address != DEFAULT_BASE_URL:
            return NO_KEY
        raise ConfigurationError(
            f"the environment variable {shown_variable(name)} is not set; put the endpoint's key "
            "there, or name another variable with api_key_env (--api-key-env)"
            if shown_variable(name) == name
            else "the environment variable named with api_key_env (--api-key-env) is not set; "
            "its name is not shown, since it may be a key. Put the key into a variable: "
            "export OPENAI_API_KEY=..."
        )
    if len(key) > 4 and key in address:
        raise ConfigurationError(
            "the base URL (--base-url) holds the key, and it would be written down; leave it out"
        )
    return key


def open_client(address: str, key: str, timeout: float) -> Any:
    """Return a client that takes bounded replies of this address only; use it in an event loop."""
    openai = client_module()

    class Client(openai.DefaultAsyncHttpxClient):  # type: ignore[misc, name-defined]
        async def send(self, request: Any, **options: Any) -> Any:
            options |= {"stream": True, "follow_redirects": False}
            for _ in range(_MOST_REDIRECTS + 1):
                response = await super().send(request, **options)
                try:
                    location = response.headers.get("location")
                    if not (300 <= response.status_code < 400 and location):
                        return await _read(response)
                    follow = response.next_request
                    same = follow is not None and _origin(follow.url) == _origin(request.url)
                    if not same or response.status_code not in _SAME_REQUEST:
                        break
                    request = follow
                finally:
                    await response.aclose()
            raise RedirectError(response.status_code, _target(str(request.url), location))

    return openai.AsyncOpenAI(
        api_key=key,
        base_url=address,
        timeout=timeout,
        max_retries=0,
        http_client=Client(timeout=timeout, headers={"Accept-Encoding": "gzip, deflate"}),
    )


def _origin(url: Any) -> tuple[str, str, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _target(asked: str, location: str) -> str:
    """Return where a redirect leads, without what an address should not carry."""
    try:
        parts = urlsplit(urljoin(asked, location))
        port = f":{parts.port}" if parts.port else ""
        return said(f"{parts.scheme}://{parts.hostname}{port}{parts.path}")
    except ValueError:
        return "an address that cannot be read"


async def _read(response: Any) -> Any:
    """Return a response with its whole body, read and unpacked within the limit."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > LARGEST_REPLY:
        raise LargeReplyError
    unpack = _unpacker(response.headers.get("content-encoding", ""))
    received, body = 0, bytearray()
    async for chunk in response.aiter_raw():
        received += len(chunk)
        body += unpack(chunk, LARGEST_REPLY - len(body))
        if received > LARGEST_REPLY or len(body) > LARGEST_REPLY:
            raise LargeReplyError
    if body.count(b"{") + body.count(b"[") > _MOST_BRACKETS:
        raise LargeReplyError(f"{_MOST_BRACKETS:,} brackets")
    gone = ("content-encoding", "content-length", "transfer-encoding")
    kept = [(name, value) for name, value in response.headers.multi_items() if name not in gone]
    return type(response)(
        response.status_code, headers=kept, content=bytes(body), request=response.request
    )


def _unpacker(coding: str) -> Any:
    """Return what unpacks the chunks of a body; it returns at most a byte more than it is told.

    Raises
    ------
    PackedReplyError
        The coding was not asked for.
    """
    coding = coding.strip().casefold()
    if coding in ("", "identity"):
        return lambda chunk, room: chunk
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise PackedReplyError
    # "deflate" is a zlib stream, or with some servers its inside alone.
    state = {"first": True, "unpack": zlib.decompressobj(zlib.MAX_WBITS | 32)}

    def unpack(chunk: bytes, room: int) -> bytes:
        stream: Any = state["unpack"]
        if state["first"] and chunk:
            state["first"] = False
            if coding == "deflate" and chunk[0] & 0x0F != 8:
                stream = state["unpack"] = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            out = stream.decompress(chunk, room + 1)
        except zlib.error:
            raise PackedReplyError from None
        return bytes(out)

    return unpack


def probe_endpoint(
    base_url: str | None, api_key_env: str | None = None, timeout: float = 10.0
) -> tuple[bool, str]:
    """Ask an endpoint for its models.

    Parameters
    ----------
    base_url, api_key_env : str, optional
        As for :class:`OpenAIEngine`.
    timeout : float
        Seconds, from sending to the last byte.

    Returns
    -------
    tuple of bool and str
        Whether it answered, and what it serves or why it did not, and then what to do. One line
        of visible characters, without the key.

    Raises
    ------
    ConfigurationError
        The address is none, or the key is not set.
    MissingDependencyError
        The client is not installed.
    """
    openai = client_module()
    address = endpoint_address(base_url)
    key = key_of(address, api_key_env)

    async def models() -> str:
        client = open_client(address, key, timeout)
        try:
            async with asyncio.timeout(timeout):
                listed = await client.models.with_raw_response.list()
                return str(listed.http_response.text)
        finally:
            await client.close()

    try:
        return True, f"{address} serves {_served(_in_a_loop(models()), key)}"
    except openai.APIStatusError as failure:
        status, words = failure.status_code, message(failure, key)
        return False, f"{address} answers {status} ({words}); {_step(status, api_key_env, key)}"
    except (TimeoutError, openai.APITimeoutError):
        why = f"does not answer within {timeout:g} s; check whether the server is up and idle"
    except (ReplyError, openai.APIConnectionError) as failure:
        why = _unreached(failure)
    except _NotModelsError as failure:
        why = f"{failure}; check the base URL (it mostly ends in /v1)"
    except (openai.APIError, ValueError, TypeError, AttributeError, RecursionError):
        why = "answers something else than a list of models; check the base URL"
    return False, f"{address} {why}"


class _NotModelsError(Exception):
    """What came is no list of models."""


def _served(text: str, key: str) -> str:
    """Return the models of a reply; the first of them by name."""
    title = page_title(text)
    if title is not None:
        raise _NotModelsError(f"answers with a web page{title}, and is no API")
    listed = json.loads(text)
    models = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(models, list):
        words = server_message(listed, key) if isinstance(listed, dict) else ""
        raise _NotModelsError(
            "answers something else than a list of models" + (f" ({words})" if words else "")
        )
    names = [said(str(model["id"]), key) for model in models[:_SHOWN_MODELS]]
    shown = ", ".join(plain(name, _LONGEST_MODEL) for name in names)
    more = len(models) - len(names)
    return (shown + (f" and {more} more" if more else "")) or "no model"


def _step(status: int, variable: str | None, key: str) -> str:
    """Return what to do about a status."""
    name = shown_variable(variable or DEFAULT_KEY)
    if status in (401, 403):
        if key == NO_KEY:
            return (
                "it wants a key; put it into OPENAI_API_KEY or name a variable with --api-key-env"
            )
        return f"check the key in {name}, and what it may be used for"
    if status in (404, 405):
        return (
            "check the base URL (it mostly ends in /v1); some servers have no list of models "
            "and answer nevertheless"
        )
    if status == 429 or status >= 500:
        return "try again in a while"
    return "check the base URL"


def _unreached(failure: BaseException) -> str:
    own = ReplyError.behind(failure)
    if isinstance(own, RedirectError):
        return (
            f"redirects to {own.target} (status {own.status}), which is not asked; if that is the "
            "endpoint, give its address as base URL"
        )
    if isinstance(own, LargeReplyError):
        return f"sends more than {own}; check the base URL"
    if own is not None:
        return "sends what cannot be unpacked; check the base URL"
    return f"cannot be reached ({root(failure)}); check the base URL, and whether the server runs"


def _in_a_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in an event loop of its own: a notebook has one in this thread."""
    outcome: list[_Result | BaseException] = []

    def target() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=target, name="chronocore-probe", daemon=True)
    thread.start()
    thread.join()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def client_module() -> ModuleType:
    """Return the client of the protocol.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingDependencyError(
            f"the client of endpoints cannot be imported ({error}); "
            "install it with: pip install 'chronocore[openai]'"
        ) from error
    return openai
