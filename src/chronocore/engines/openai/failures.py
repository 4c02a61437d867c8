"""Why an attempt brought no answer, in words, and what to do about it."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any

from chronocore.engines.keys import said

__all__ = [
    "CONTEXT",
    "FILTER",
    "PARAMETER",
    "AttemptError",
    "message",
    "page_title",
    "retry_after",
    "root",
    "server_message",
]

_LONGEST_RETRY_AFTER = 600.0

CONTEXT = re.compile(
    r"context[ _](?:length|window)|maximum (?:model|input|prompt) length|max_model_len"
    r"|too many (?:input )?tokens|(?:prompt|input) is too long",
    re.IGNORECASE,
)
FILTER = re.compile(r"content[ _](?:filter|policy|management)", re.IGNORECASE)
PARAMETER = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected|not supported|does not support|extra inputs)",
    re.IGNORECASE,
)

_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,500}?-->\s*)?"
    r"<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(r"<title[^>]{0,200}>(.{0,300}?)</title", re.IGNORECASE | re.DOTALL)


class AttemptError(Exception):
    """An attempt brought no answer.

    Parameters
    ----------
    cause : str
        A few words, the same for all failures of the kind; attempts are counted by it.
    said : str
        What the server said, as it can be shown.
    error : {"endpoint", "timeout"}
        Of the row, if no further attempt brings more.
    wait : float, optional
        Seconds that the server asks to wait.
    final : bool
        A further attempt would bring the same.
    useless : str, optional
        What is wrong with the endpoint, if it never answered a request, and what to do next.
    patience : int, optional
        So many attempts show that; by default all of them.
    """

    def __init__(
        self,
        cause: str,
        said: str = "",
        *,
        error: str = "endpoint",
        wait: float | None = None,
        final: bool = False,
        useless: str | None = None,
        patience: int | None = None,
    ) -> None:
        super().__init__(cause)
        self.cause = cause
        self.said = said
        self.error = error
        self.wait = wait
        self.final = final
        self.useless = useless
        self.patience = patience

    def __str__(self) -> str:
        """Return the cause, and in brackets what the server said."""
        return f"{self.cause} ({self.said})" if self.said else self.cause


def server_message(body: Any, key: str) -> str:
    """Return what a body that is no answer says, as far as it says something."""
    text: Any = body
    for _ in range(3):  # {"error": {"message": ...}}, {"detail": [{"msg": ...}]}, ...
        if isinstance(text, list) and text:
            text = text[0]
        if isinstance(text, Mapping):
            names = ("error", "message", "detail", "msg", "errors", "description", "title")
            text = next((text[name] for name in names if text.get(name)), text.get("code"))
    if isinstance(text, str) and (title := page_title(text)) is not None:
        text = f"a web page{title}"
    return "" if text is None else said(str(text), key)


def message(failure: Any, key: str) -> str:
    """Return what a status that is a failure came with."""
    return server_message(getattr(failure, "body", None), key) or said(str(failure), key)


def page_title(text: str) -> str | None:
    """Return the title of a web page after a colon, empty without one; None for any other text.

    Examples
    --------
    >>> page_title("<!doctype html><title>Sign in</title>"), page_title("{}")
    (': Sign in', None)
    """
    if _PAGE.match(text[:2_000]) is None:
        return None
    title = _TITLE.search(text[:20_000])
    words = said(title.group(1)) if title else ""
    return f": {words}" if words else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a reply asks to wait: a number, or a date (RFC 9110, 10.2.3)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                parsed = email.utils.parsedate_tz(text)
                if parsed is None:
                    continue
                seconds = email.utils.mktime_tz(parsed) - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)
    return None


def root(error: BaseException) -> str:
    """Return the name of the error at the bottom of a chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__
