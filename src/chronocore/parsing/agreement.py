"""One choice, or the reason against it: all that gives a choice must agree."""

from __future__ import annotations

import re
from functools import lru_cache
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
    "NUMBER_WORDS",
    "Choice",
    "Said",
    "folded_lines",
    "whole_choice",
    "with_digits",
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
    if kind is Kind.INTERVAL:
        several = _ALTERNATIVES.search(text) is not None
        return Choice(None, "duplicate_option" if several else "range", False)
    about = _ABOUT_CODE.fullmatch(text.casefold())
    index = table.find(about["code"]) if about else None
    if index is not None:
        return Choice(table.codes[index], None, False)
    return Choice(None, "unknown_option", False)


_ALTERNATIVES = re.compile(r"\d\s+or\s+[+-]?\d", re.IGNORECASE)


_ABOUT_CODE = re.compile(
    r"(?:about|around|approximately|approx\.?|roughly|ca\.?|circa)\s+(?P<code>[+-]?\d{1,18})[.!]?"
)


_WORDS = dict(
    enumerate(
        (
            "zero|null|cero|zéro",
            "one|eins|uno|un",
            "two|zwei|dos|deux",
            "three|drei|tres|trois",
            "four|vier|cuatro|quatre",
            "five|fünf|cinco|cinq",
            "six|sechs|seis",
            "seven|sieben|siete|sept",
            "eight|acht|ocho|huit",
            "nine|neun|nueve|neuf",
            "ten|zehn|diez|dix",
        )
    )
)


#: Number words in English that name an option where its code would; "one" is any word at all.
NUMBER_WORDS = {words.split("|")[0]: n for n, words in _WORDS.items() if n != 1}


_WORD = "|".join(_WORDS.values())


_WORD_BESIDE_CODE = re.compile(
    rf"\b(?P<before>{_WORD})\s?\((?P<inside>\d{{1,2}})\)|(?<![\w.,-])(?P<code>\d{{1,2}})\s?\((?P<word>{_WORD})\)",
    re.IGNORECASE,
)


_WORD_OUT_OF_TEN = re.compile(
    rf"\b(?P<word>{'|'.join(NUMBER_WORDS)})\s+out\s+of\s+(?:ten|10)\b", re.IGNORECASE
)


def with_digits(answer: str) -> str:
    """Return an answer in which a number in digits and in words stands once, if they agree."""

    def beside(match: re.Match[str]) -> str:
        digits, word = match["inside"] or match["code"], (match["before"] or match["word"])
        same = word.casefold() in _WORDS.get(int(digits), "").split("|")
        return digits if same else match.group()

    answer = _WORD_BESIDE_CODE.sub(beside, answer)
    return _WORD_OUT_OF_TEN.sub(
        lambda match: f"{NUMBER_WORDS[match['word'].casefold()]} out of 10", answer
    )


@lru_cache(maxsize=512)
def _ends_of_scale(low: int, high: int) -> re.Pattern[str]:
    """Return the pattern of both ends of a scale with what they mean: "1 = never, 10 = always"."""
    says = r"(?:=|:|\(|\b(?:is|means?|meaning|being|indicat\w+|represent\w*|stands? for|for)\b)"
    meaning = r"\s*[\"'(]*(?![\s\"'(]*\d)[^\d.,;:!?\n()=\"']{1,60}[\"')]*\s*"
    joined = (
        r"(?:\.\.\.|…|[,;/|-]|\u2013|\u2014|\n)?\s*(?:(?:and|to|up to|while|und|y|et|bis|a)\s+)?"
    )

    def both(first: int, last: int) -> str:
        return (
            rf"(?<![\w.,+-]){re.escape(str(first))}\s*{says}{meaning}{joined}"
            rf"{re.escape(str(last))}(?![\d])\s*{says}{meaning}"
        )

    return re.compile(
        r"(?:\(?\s*(?:\b(?:(?:on|using)\s+)?(?:an?|the|this)\s+)?(?:\bscale\b\s*:?\s*)?"
        r"\b(?:where|with|from|of|if)\s+|\()?"
        rf"(?:{both(low, high)}|{both(high, low)})\)?",
        re.IGNORECASE,
    )


def without_scale(answer: str, table: OptionTable) -> str:
    """Return an answer without what only repeats the scale, such as "out of 10"."""
    low, high = min(table.codes), max(table.codes)
    if len(table) > 2:
        answer = _ends_of_scale(low, high).sub(" ", answer)
    if len(table) < 4 or high - low != len(table) - 1:
        return answer
    between = rf"{low}\s*(?:-|\u2013|\u2014|to|through|bis|à|a|до)\s*{high}"
    answer = re.sub(
        rf"(?<=\d)\s*(?:/|\bout of\b)\s*{high}(?![\d%]|[.,]\d)", "", answer, flags=re.IGNORECASE
    )
    return re.sub(
        rf"\b(?:(?:on|using)\s+)?(?:an?|the|this)?\s*scale\s+(?:of|from|ranging from)\s+{between}\b"
        rf"|\b(?:from|von|de|от)\s+{between}\b|\(\s*{between}\s*\)|\b{between}\s+scale\b",
        " ",
        answer,
        flags=re.IGNORECASE,
    )
