"""What looks like a distribution, before it is read, and what comes of reading it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chronocore.parsing.characters import bare_label, fold
from chronocore.parsing.containers import Container, Raw

__all__ = [
    "Answer",
    "Entry",
    "Found",
    "Reading",
    "field_name",
    "first_reason",
    "object_entries",
]

#: Reasons of an invalid answer; of several that apply the first is reported.
_REASONS = (
    "range",
    "mixed_units",
    "not_numeric",
    "not_finite",
    "duplicate_option",
    "unknown_option",
    "length_mismatch",
    "missing_option",
    "several_answers",
    "no_mass",
    "sum_off",
)


class Entry(NamedTuple):
    """One key (by one or more names) and its value."""

    names: tuple[str, ...]
    value: Raw


class Answer(NamedTuple):
    """Something that looks like a distribution; positional if its entries have no names.

    What it stands under is its ``container`` in the text, or the ``lead`` above it.
    """

    entries: list[Entry]
    positional: bool = False
    strict: bool = False
    container: Container | None = None
    lead: str | None = None
    unclosed: bool = False


def object_entries(container: Container) -> list[Entry]:
    """Return the keys and values of an object as entries."""
    pairs = zip(container.keys, container.values, strict=False)
    return [Entry((key,), value) for key, value in pairs]


def field_name(key: str) -> str:
    """Return a key as the names of fields are compared."""
    return bare_label(fold(key.replace("_", " ")))


class Found(NamedTuple):
    """An answer and what it says."""

    answer: Answer
    reading: Reading


class Reading(NamedTuple):
    """A distribution, or the reason why an answer holds none."""

    reason: str | None
    probs: tuple[float, ...] | None = None
    raw_sum: float | None = None
    sum_off: bool = False


def first_reason(reasons: Iterable[str]) -> str | None:
    """Return the reason that is reported of several."""
    return min((r for r in reasons if r), key=_REASONS.index, default=None)
