"""Values of an answer: numbers, intervals, units, and what a comma means."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from chronocore.parsing.characters import SIGNS, STRAIGHT_QUOTES
from chronocore.parsing.containers import Container, Raw
from chronocore.tolerance import ATOL

__all__ = [
    "MAX_NUMBER",
    "SUM_TOLERANCE",
    "Kind",
    "beside_value",
    "exact_sum",
    "is_line_value",
    "is_off",
    "is_plausible",
    "mark_of",
    "read_value",
    "read_values",
    "settle_units",
]

#: Sums farther than this from 1 (and 100 times this from 100) are flagged ``sum_off``.
SUM_TOLERANCE = 0.02


MAX_NUMBER = 120  # characters of a value with anything but digits in it


_NO_NUMBER = frozenset(
    {"n/a", "na", "none", "null", "unknown", "?", "-", "\u2013", "\u2014", "true", "false"}
    | {"not available", "not applicable"}
)


def is_line_value(text: str) -> bool:
    """Return whether a text is a value: a number, an interval, or none in words."""
    return read_value(text).kind is not Kind.TEXT or _bare_value_text(text) in _NO_NUMBER


class Kind(Enum):
    """What a value is."""

    NUMBER = auto()
    INTERVAL = auto()
    NOT_FINITE = auto()
    TEXT = auto()


class _Value(NamedTuple):
    """A value as read: its kind, its number (an interval's upper end) and its percent sign."""

    kind: Kind
    number: float = math.nan
    percent: bool = False


_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")


_ABOUT = (
    r"(?:[~≈\u223c≃≅]|about|around|approximately|approx\.?|roughly|circa|ca\.?|c\.|almost|nearly)"
    r"\s*"
)


_DIGITS = r"(?:\d[\d.,]*|\.\d+)"


_PERCENT = r"(?:%|percent|per cent|pct\.?)"


_AMOUNT = rf"[+-]?{_DIGITS}\s*{_PERCENT}?"


_TRAILER = r"(?:\s*\([^\d]*\)|\s+of\s[^\d]*)?"


_TWICE = re.compile(
    rf"(?P<first>[^()=]{{1,40}}?)\s*"
    rf"(?:\((?P<inside>[^()]{{1,60}})\)|(?:=|/|, or|or)\s*(?P<after>{_AMOUNT}))\s*"
)


_NUMBER = re.compile(
    rf"(?:{_ABOUT})?(?P<before>%\s*)?(?P<number>[+-]?{_DIGITS}(?:e[+-]?\d+)?)"
    rf"\s*(?P<after>{_PERCENT})?{_TRAILER}"
)


_INTERVALS = tuple(
    re.compile(pattern + _TRAILER)
    for pattern in (
        rf"(?:{_ABOUT})?(?:between\s+|from\s+)?{_AMOUNT}\s*"
        rf"(?:-|\u2013|\u2014|~|\.\.+|\bto\b|\band\b|\bor\b|±|\+/-)\s*{_AMOUNT}",
        r"(?:<=?|>=?|≤|≥|(?:less|more|fewer|greater) than|under|over|below|above|at (?:least|most)"
        rf"|up to)\s*{_AMOUNT}",
        rf"{_AMOUNT}\s*(?:\+|(?:or|and) (?:more|less|above|below|higher|lower|over|under))",
    )
)


_NOT_FINITE = frozenset({"nan", "inf", "infinity", "∞"})


_AROUND_VALUE = " \t\r\n\"'`*\u00ad\u200b\u200c\u200d\u2060\ufeff"


def _bare_value_text(text: str) -> str:
    """Return a value without the quotes, emphasis and final punctuation around it."""
    plain = text.translate(SIGNS).translate(STRAIGHT_QUOTES).casefold()
    return plain.strip(_AROUND_VALUE).rstrip(_AROUND_VALUE + ",;.!")


def read_value(raw: Raw) -> _Value:
    """Return a value as a number, an interval, something infinite, or mere text."""
    if isinstance(raw, Container):
        return _Value(Kind.TEXT)
    if len(raw) <= MAX_NUMBER:
        return _read_text(raw)
    return _finite(float(raw)) if _PLAIN_NUMBER.fullmatch(raw) else _Value(Kind.TEXT)


@lru_cache(maxsize=4096)
def _read_text(text: str) -> _Value:
    if _PLAIN_NUMBER.fullmatch(text):
        return _finite(float(text))
    text = _bare_value_text(text)
    if text.removeprefix("%").removesuffix("%").strip(" +-") in _NOT_FINITE:
        return _Value(Kind.NOT_FINITE)
    if match := _NUMBER.fullmatch(text):
        number = _separated_number(match["number"])
        if number is not None:
            return _finite(number, bool(match["before"] or match["after"]))
    if "(" in text or "=" in text or "/" in text:
        twice = _said_twice(text)
        if twice is not None:
            return twice
    if any(interval.fullmatch(text) for interval in _INTERVALS):
        ends = [_separated_number(digits) for digits in re.findall(_DIGITS, text)]
        return _Value(Kind.INTERVAL, max((end for end in ends if end is not None), default=0.0))
    return _Value(Kind.TEXT)


_PRECISION = re.compile(
    rf"(?:(?:±|\+/-|\+-)\s*{_AMOUNT}|(?:n|base)\s*=\s*[\d.,]+"
    rf"|(?:n\s*=\s*)?[\d.,]+\s+(?:people|respondents|adults|persons|votes|out of [\d.,]+)"
    rf"|(?:(?:95\s*%\s*)?(?:ci|range)\s*[:=]?\s*)?\[?(?P<low>{_AMOUNT})\s*(?:-|\u2013|\u2014"
    rf"|\bto\b|,)\s*"
    rf"(?P<high>{_AMOUNT})\]?)"
)


_RATIO = re.compile(rf"(?P<part>{_DIGITS})\s*(?:/|out of)\s*(?P<whole>{_DIGITS})")


def _said_twice(text: str) -> _Value | None:
    """Return the number of ``0.4 (40%)``, ``40% (n = 400)`` or ``2/5 (40%)``, if both agree."""
    match = _TWICE.fullmatch(text)
    if match is None:
        return None
    first, second = _plain_value(match["first"]), match["inside"] or match["after"]
    precision = _PRECISION.fullmatch(second.strip()) if match["inside"] else None
    if precision is not None and first is not None:
        low, high = (_plain_value(precision[end] or "") for end in ("low", "high"))
        if low is None or high is None:
            return first
        return first if low.number <= first.number <= high.number else None
    other = _plain_value(second)
    if other is None:
        return None
    if first is None:
        ratio = _RATIO.fullmatch(match["first"].strip())
        part, whole = (_separated_number(ratio[n]) if ratio else None for n in ("part", "whole"))
        if part is None or not whole:
            return None
        return other if abs(part / whole - _as_share(other)) <= 0.006 else None
    same = abs(first.number - other.number) <= ATOL or (
        abs(_as_share(first) - _as_share(other)) <= 0.0051
    )
    return first if same else None


def _plain_value(text: str) -> _Value | None:
    match = _NUMBER.fullmatch(text.strip())
    number = _separated_number(match["number"]) if match else None
    if match is None or number is None:
        return None
    return _finite(number, bool(match["before"] or match["after"]))


def _as_share(value: _Value) -> float:
    return value.number / 100 if value.percent or value.number > 1 else value.number


_SAYS = re.compile(
    r"(?:(?:for|of|say|says|said|answer|answered|chose|choose|option|saying|answering|people"
    r"|respondents"
    r"|that|is|would|who|the)\b|[\s:=,;()\[\]\"'>-])+"
)


def beside_value(raw: Raw) -> str:
    """Return what a value says beside its number, such as a label in brackets."""
    if isinstance(raw, Container) or len(raw) > MAX_NUMBER:
        return ""
    text = _bare_value_text(raw)
    if _PLAIN_NUMBER.fullmatch(text):
        return ""
    rest = re.sub(rf"{_ABOUT}|[+-]?{_DIGITS}\s*{_PERCENT}?", " ", text, count=1)
    said = _SAYS.match(rest)
    return rest[said.end() if said else 0 :].strip(" ()[].,;:\"'")


def _finite(number: float, percent: bool = False) -> _Value:
    if math.isfinite(number):
        return _Value(Kind.NUMBER, number, percent)
    return _Value(Kind.NOT_FINITE, percent=percent)


def _separated_number(text: str) -> float | None:
    """Return a number with thousands separators or a decimal comma, or None.

    A comma followed by exactly three digits after a non-zero integer part separates thousands;
    any other single comma is a decimal one.
    """
    mantissa, mark, exponent = text.rstrip(".,").partition("e")
    if "," in mantissa:
        whole, *groups = mantissa.split(",")
        last, dot, decimals = groups[-1].partition(".")
        groups[-1] = last
        has_integer_part = any(digit not in "0+-" for digit in whole)
        if "." in whole:
            # 1.234,5: points separate thousands, and the one comma is decimal
            if dot or len(groups) > 1 or not re.fullmatch(r"[+-]?\d{1,3}(?:\.\d{3})+", whole):
                return None
            mantissa = f"{whole.replace('.', '')}.{last}"
        elif has_integer_part and all(len(group) == 3 for group in groups):
            mantissa = f"{whole}{''.join(groups)}{dot}{decimals}"
        elif len(groups) == 1 and not dot:
            mantissa = f"{whole}.{last}"
        else:
            return None
    plain = f"{mantissa}{mark}{exponent}"
    return float(plain) if _PLAIN_NUMBER.fullmatch(plain) else None


class _Mark(Enum):
    """What the comma or point of a number is."""

    DECIMAL_COMMA = auto()
    THOUSANDS_COMMA = auto()
    EITHER_COMMA = auto()  # 12,500
    DECIMAL_POINT = auto()
    EITHER_POINT = auto()  # 1.200


_MARKED = (
    (re.compile(r"[+-]?0*[1-9]\d*,\d{3}"), _Mark.EITHER_COMMA),
    (re.compile(r"[+-]?[\d.]*,\d*"), _Mark.DECIMAL_COMMA),
    (re.compile(r".*,.*"), _Mark.THOUSANDS_COMMA),
    (re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}"), _Mark.EITHER_POINT),
    (re.compile(r".*\..*"), _Mark.DECIMAL_POINT),
)


def mark_of(raw: Raw) -> _Mark | None:
    """Return what the comma or point of a value is, as far as the value itself tells."""
    if isinstance(raw, Container) or len(raw) > MAX_NUMBER:
        return None
    match = _NUMBER.fullmatch(_bare_value_text(raw))
    if match is None:
        return None
    digits = match["number"].rstrip(".,")
    return next((mark for pattern, mark in _MARKED if pattern.fullmatch(digits)), None)


def read_values(texts: Sequence[Raw]) -> list[_Value]:
    """Return the values of one answer, in which commas and points mean the same throughout.

    A comma that may be either is decimal beside one that must be. Where the marks contradict
    each other, or the other meaning would be as good, the values are no numbers, unless they sum
    to 1 or 100.
    """
    values = [read_value(text) for text in texts]
    marks = [mark_of(text) for text in texts]
    present = {mark for mark in marks if mark is not None}
    if not present - {_Mark.DECIMAL_POINT}:
        return values
    comma, point = _Mark.EITHER_COMMA, _Mark.EITHER_POINT
    as_decimals = [
        read_value(text.replace(",", ".")) if mark is comma and isinstance(text, str) else value
        for text, mark, value in zip(texts, marks, values, strict=True)
    ]
    if _Mark.DECIMAL_COMMA in present:
        doubtful = bool(present - {_Mark.DECIMAL_COMMA, comma})
        values = as_decimals
    else:

        def all_are(mark: _Mark) -> bool:  # then the meaning changes nothing
            pairs = zip(marks, values, strict=True)
            return all(found is mark or not value.number for found, value in pairs)

        doubtful = (
            (point in present and len(present) > 1 and _Mark.DECIMAL_POINT not in present)
            or (present == {point} and not all_are(point) and _are_counts(texts, values))
            or (present == {comma} and not all_are(comma) and is_plausible(as_decimals))
        )
    if doubtful and not is_plausible(values):
        return [_Value(Kind.TEXT)] * len(values)
    return values


def _are_counts(texts: Sequence[Raw], values: Sequence[_Value]) -> bool:
    """Return whether values read as more than percentages, or have points as no float prints."""
    if any(value.number > 100 for value in values):
        return True
    return any(
        isinstance(text, str)
        and mark_of(text) is _Mark.EITHER_POINT
        and re.search(r"0\D*\Z", text) is not None
        for text in texts
    )


def is_plausible(values: Sequence[_Value]) -> bool:
    """Return whether all values are numbers and sum to 1 or 100."""
    if any(value.kind is not Kind.NUMBER for value in values):
        return False
    numbers = settle_units(values)
    return numbers is not None and not is_off(exact_sum(numbers), SUM_TOLERANCE)


def settle_units(values: Sequence[_Value]) -> list[float] | None:
    """Return numbers in one unit, negative ones clipped to 0, or None if the unit is undecided.

    Signs on all or on no values change nothing. With signs on some, either those values are
    hundredths or all are percents: the reading counts whose sum comes within 2 % of 1 or 100,
    the closer one if both do.
    """
    plain = [max(0.0, value.number) for value in values]
    if len({value.percent for value in values}) < 2:
        return plain
    hundredths = [
        number / 100 if value.percent else number
        for number, value in zip(plain, values, strict=True)
    ]
    all_percents = _sum_error(exact_sum(plain)) < _sum_error(exact_sum(hundredths)) - ATOL
    closer = plain if all_percents else hundredths
    return None if is_off(exact_sum(closer), SUM_TOLERANCE) else closer


def exact_sum(numbers: Iterable[float]) -> float:
    """Return the sum of numbers, rounded once; infinity where it is too large."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _sum_error(total: float) -> float:
    """Return how far a sum is from 1, or in hundredths from 100, whichever is closer."""
    return min(abs(total - 1), abs(total - 100) / 100)


def is_off(total: float, tolerance: float) -> bool:
    """Return whether a sum is neither near 1 nor near 100."""
    return abs(total - 1) > tolerance + ATOL and abs(total - 100) > 100 * tolerance + ATOL
