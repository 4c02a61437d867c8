"""What may be a key, and how it is kept out of everything that is shown or written down.

A key comes from an environment variable only. People also put it where it does not belong, and
servers quote it: neither may bring it to a terminal, into a note or into a run's identity.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from chronocore.engines.base import well_formed
from chronocore.errors import ConfigurationError
from chronocore.text import plain

__all__ = [
    "HIDDEN",
    "check_arguments",
    "hidden",
    "read_key",
    "refuse_key",
    "said",
    "shown_variable",
]

#: What stands in a text where a key was.
HIDDEN = "<key>"

#: The most that is shown of what a server says.
_LONGEST_SAID = 300

#: The forms in which providers issue keys, whole or with its middle starred out.
_KEY_LIKE = re.compile(
    r"\bBearer\s+\S+"
    r"|\b[sprk]k-[\w*.-]{4,}"
    r"|\b(?:[sprk]k|gsk|hf|r8|tgp|fw|ghp|gho|csk|key)_[\w*-]{12,}"
    r"|\b(?:xai|nvapi|pplx|pcsk|glpat|github_pat)[-_][\w*-]{12,}"
    r"|\bAIza[\w-]{20,}"
    r"|\bA[KS]IA[A-Z0-9]{12,}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"
)

#: Environment variables that hold a key, by their names.
_KEY_VARIABLE = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)

#: A variable's name as people write them; a key has other letters, digits or lengths.
_VARIABLE = re.compile(r"_?(?:[A-Z]{1,20}\d{0,3})(?:_[A-Z]{0,20}\d{0,3}){0,8}")

#: Names of fields that hold a secret, in lower case without what parts words.
_SECRET_FIELDS = frozenset(
    {
        "auth", "authorization", "bearer", "bearertoken", "credential", "credentials", "key",
        "passphrase", "passwd", "password", "secret", "token", "xapikey",
    }
)  # fmt: skip
_SECRET_ENDS = (
    "apikey", "apitoken", "accesskey", "accesstoken", "authtoken", "clientsecret", "hftoken",
    "password", "secretkey", "subscriptionkey",
)  # fmt: skip

#: What is shorter may be any word, and is taken for a key only where it is the one in use.
_SHORTEST_KEY = 12


def _environment_keys() -> list[str]:
    """Return the values of the environment that are keys by the names of their variables."""
    values = [value.strip() for name, value in os.environ.items() if _KEY_VARIABLE.search(name)]
    # A path to a file of keys is no key.
    return [v for v in values if len(v) >= _SHORTEST_KEY and not v.startswith(("/", "~", "."))]


def hidden(text: str, key: str = "") -> str:
    """Return a text without what is a key, or looks like one.

    Parameters
    ----------
    text : str
    key : str
        The key in use, besides those that the environment holds.

    Examples
    --------
    >>> hidden("Incorrect API key provided: sk-ab***90")
    'Incorrect API key provided: <key>'
    """
    known = [*_environment_keys(), *([key] if len(key) > 4 else [])]
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _KEY_LIKE.sub(HIDDEN, text)


def said(text: str, key: str = "") -> str:
    """Return what a server said as one short line that can be shown: visible, without a key."""
    # Cut last: half a key at the end would not be known for one.
    return plain(hidden(plain(text[:20_000], None), key), _LONGEST_SAID)


def shown_variable(name: str) -> str:
    """Return the name of an environment variable, or words for it where it may be a key.

    Examples
    --------
    >>> shown_variable("MY_API_KEY_2"), shown_variable("0f3a9c7e41")
    ('MY_API_KEY_2', 'the variable named')
    """
    known = len(name) <= 64 and _VARIABLE.fullmatch(name) and hidden(name) == name
    return name if known else "the variable named"


def read_key(name: str) -> str | None:
    """Return the key that an environment variable holds, None if it is not set or empty.

    Raises
    ------
    ConfigurationError
        No header can carry it, or the name is none.
    """
    if not name.strip():
        raise ConfigurationError(
            "api_key_env (--api-key-env) is empty; give the name of the environment variable "
            "that holds the key, or leave it out"
        )
    try:
        key = os.environ.get(name, "").strip()
    except ValueError:  # a NUL
        key = ""
    if not key:
        if re.fullmatch(r"[A-Za-z_]\w*", name) is None or hidden(name) != name:
            raise ConfigurationError(
                "api_key_env (--api-key-env) takes the name of an environment variable, such as "
                "OPENAI_API_KEY; what was given is no such name and is not shown, since it may "
                "be a key. Put the key into a variable: export OPENAI_API_KEY=..."
            )
        return None
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError(
            f"the key in {shown_variable(name)} cannot be sent: it holds a space, a line break "
            "or a character that no key has; copy it anew"
        )
    return key


def refuse_key(text: str, what: str) -> None:
    """Refuse a text that goes into files and looks like a key.

    Raises
    ------
    ConfigurationError
        Naming what it was given as, not the text.
    """
    if hidden(text) != text:
        raise ConfigurationError(
            f"{what} holds what looks like a key, and it would be written down; put the key into "
            "an environment variable and name that with api_key_env (--api-key-env)"
        )


def check_arguments(arguments: Mapping[str, Any], *, sent: bool = True) -> None:
    """Refuse engine arguments that hold a key, or that cannot be sent as JSON.

    Parameters
    ----------
    arguments : mapping
        Names and values, which may be lists and mappings.
    sent : bool
        They go out as JSON; an engine in this process takes other objects, too.

    Raises
    ------
    ConfigurationError
        Naming the argument.
    """
    for name, value in arguments.items():
        for where, leaf in _leaves(str(name), value, 0):
            _check_leaf(where, leaf)
            if sent and not isinstance(leaf, str | int | float | bool | None):
                raise ConfigurationError(
                    f"the engine argument {plain(where, 60)!r} is a {type(leaf).__name__}; give "
                    "text, a number, true, false, null, a list or a mapping"
                )


def _leaves(where: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 50:
        raise ConfigurationError(f"the engine argument {where[:60]!r} is nested too deeply")
    if isinstance(value, Mapping):
        yield where, None
        for name, inner in value.items():
            yield from _leaves(f"{where}.{name}", inner, depth + 1)
    elif isinstance(value, list | tuple):
        yield where, None
        for inner in value:
            yield from _leaves(where, inner, depth + 1)
    else:
        yield where, value


def _check_leaf(where: str, value: Any) -> None:
    name = re.sub(r"[^a-z0-9]", "", where.rpartition(".")[2].casefold())
    secret = name in _SECRET_FIELDS or name.endswith(_SECRET_ENDS)
    given = isinstance(value, str) and value != ""
    if (secret and given) or hidden(where) != where or (given and hidden(value) != value):
        shown = repr(plain(where, 60)) if hidden(where) == where else "given"
        raise ConfigurationError(
            f"the engine argument {shown} looks like a key, and engine arguments are written "
            "into the study; put the key into an environment variable and name that with "
            "api_key_env (--api-key-env), or for a hub set HF_TOKEN"
        )
    shown = repr(plain(where, 60))
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(
            f"the engine argument {shown} is {value}, which no JSON can hold; give a finite number"
        )
    if well_formed(where) != where or (isinstance(value, str) and well_formed(value) != value):
        raise ConfigurationError(
            f"the engine argument {shown} holds bytes that are no text; write it in UTF-8"
        )
