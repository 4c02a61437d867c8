"""One choice, or the reason against it: all that gives a choice must agree."""

from __future__ import annotations

import re
from typing import NamedTuple

from chronocore.parsing.characters import (
    DASHES,
    EMPHASIS,
    INVISIBLE,
    MAX_LINE,
    STRAIGHT_QUOTES,
    nfkc,
    unfenced,
)
from chronocore.parsing.containers import StrictReader
from chronocore.parsing.options import OptionTable
from chronocore.parsing.values import Kind, read_value

__all__ = [
    "Choice",
    "Said",
    "folded_lines",
    "whole_choice",
    "without_scale",
]


class Choice(NamedTuple):
    """A chosen code, or the reason why a choice does not count."""

    code: int | None
    reason: str | None
    strict: bool


def _is_json_scalar(text: str) -> bool:
    value = StrictReader(text).value(0)
    return value is not None and value.end == len(text)


class Said:
    """What an answer says in several places, and whether that is one choice."""

    def __init__(self) -> None:
        self._codes: set[int] = set()
        self._reasons: set[str] = set()
        self._strict = True

    def add(self, choice: Choice | None) -> None:
        """Take a choice, or the reason why there is none, into account."""
        if choice is None:
            return
        self._strict &= choice.strict
        if choice.code is not None:
            self._codes.add(choice.code)
        elif choice.reason is not None:
            self._reasons.add(choice.reason)

    def choice(self) -> Choice | None:
        """Return the one choice, the reason against it, or None if nothing was said."""
        if "range" in self._reasons:
            return Choice(None, "range", False)
        if len(self._codes) > 1 or "duplicate_option" in self._reasons:
            return Choice(None, "duplicate_option", False)
        if self._reasons:
            return Choice(None, min(self._reasons), False)
        return Choice(min(self._codes), None, self._strict) if self._codes else None


def folded_lines(text: str) -> str:
    """Return a text as it is compared, line by line."""
    folded = nfkc(nfkc(text).casefold()).translate(INVISIBLE).translate(STRAIGHT_QUOTES)
    folded = folded.translate(EMPHASIS).translate(DASHES).replace("__", "")
    folded = folded.replace("e.g.", "eg").replace("i.e.", "ie")
    lines = (" ".join(line.split()).removeprefix("> ") for line in folded.splitlines())
    return "\n".join(line for line in lines if line)


def whole_choice(answer: str, table: OptionTable) -> Choice | None:
    """Return the choice of a text that is an option and nothing else."""
    text = unfenced(answer)
    if not text or len(text) > MAX_LINE:
        return None
    index = table.find(text)
    if index is not None:
        return Choice(table.codes[index], None, _is_json_scalar(text))
    kind = read_value(text).kind
    if kind is Kind.TEXT:
        return None
    return Choice(None, "range" if kind is Kind.INTERVAL else "unknown_option", False)


def without_scale(answer: str, table: OptionTable) -> str:
    """Return an answer without what only repeats the scale, such as "out of 10"."""
    low, high = min(table.codes), max(table.codes)
    if len(table) < 4 or high - low != len(table) - 1:
        return answer
    between = rf"{low}\s*(?:-|\u2013|\u2014|to|through)\s*{high}"
    answer = re.sub(
        rf"(?<=\d)\s*(?:/|\bout of\b)\s*{high}(?![\d%]|[.,]\d)", "", answer, flags=re.IGNORECASE
    )
    return re.sub(
        rf"\b(?:(?:on|using)\s+)?(?:an?|the|this)?\s*scale\s+(?:of|from|ranging from)\s+{between}\b"
        rf"|\bfrom\s+{between}\b|\(\s*{between}\s*\)|\b{between}\s+scale\b",
        " ",
        answer,
        flags=re.IGNORECASE,
    )
