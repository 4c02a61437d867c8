"""Distributions in objects keyed by options and in lists of records."""

from __future__ import annotations

from collections.abc import Iterable

from chronocore.parsing.answers import Answer, Entry, field_name, object_entries
from chronocore.parsing.asides import SIDE_KEYS
from chronocore.parsing.containers import Container, Raw
from chronocore.parsing.options import OptionTable
from chronocore.parsing.values import Kind, mark_of, read_value

__all__ = [
    "json_answers",
]

#: Fields of a record that name an option, and fields that only number the record.
_NAME_FIELDS = frozenset(
    {"option", "code", "label", "name", "answer", "choice", "category", "response", "key", "text"}
)


_ORDINAL_FIELDS = frozenset({"id", "index", "rank"})


_FREE_FIELDS = frozenset({"reason", "reasoning", "explanation", "note", "notes", "comment"})


_NUMBER_FIELDS = frozenset(
    {"percentage", "percent", "pct", "%", "probability", "prob", "share", "proportion", "value"}
)


def json_answers(
    containers: Iterable[Container], table: OptionTable, limit: int, *, strict: bool
) -> list[Answer]:
    """Return the objects keyed by options and the lists of records among closed containers."""
    answers: list[Answer] = []
    for container in containers:
        if container.start >= limit or not container.values:
            continue
        entries: list[Entry] | None
        if container.kind == "object":
            nests = len(container.values) >= len(table) and not all(
                isinstance(value, str) for value in container.values
            )
            if nests and (across := _across_entries(container, table)):
                answers += [
                    Answer(entries, strict=strict, container=container, lead=name)
                    for name, entries in across
                ]
                continue
            entries = [_lifted(entry) for entry in object_entries(container)]
        else:
            entries = _record_entries(container, table)
            if entries is None and not strict:
                entries = _pair_entries(container, table)
        if entries:
            unclosed = container.end < 0
            answers.append(Answer(entries, strict=strict, container=container, unclosed=unclosed))
    return answers


def _across_entries(
    container: Container, table: OptionTable
) -> list[tuple[str, list[Entry]]] | None:
    """Return the answers of an object that gives each option several numbers, by their name.

    Such as ``{"1": {"lower": 35, "upper": 45}, "2": {"lower": 55, "upper": 65}}``.
    """
    parts = [value for value in container.values if not isinstance(value, str)]
    if len(parts) < len(table) or len(parts[0].keys) < 2:
        return None
    named = [
        (key, part)
        for key, part in zip(container.keys, container.values, strict=False)
        if not isinstance(part, str) and table.find(key) is not None
    ]
    names = parts[0].keys
    if len(named) != len(table) or any(part.keys != names for _, part in named):
        return None
    across: list[tuple[str, list[Entry]]] = []
    for place, name in enumerate(names):
        values = [part.values[place] for _, part in named]
        if all(read_value(value).kind is Kind.NUMBER for value in values):
            keys = [key for key, _ in named]
            pairs = zip(keys, values, strict=True)
            across.append((name, [Entry((key,), value) for key, value in pairs]))
        elif field_name(name) not in _NAME_FIELDS | _FREE_FIELDS:
            return None
    return across if len(across) > 1 else None


def _lifted(entry: Entry) -> Entry:
    """Return an entry such as ``"1": {"percentage": 40}`` with the number as its value."""
    item = entry.value
    if isinstance(item, str) or item.kind != "object" or not 1 <= len(item.keys) <= 3:
        return entry
    names: list[str] = []
    numbers: list[Raw] = []
    for key, value in zip(item.keys, item.values, strict=False):
        name = field_name(key)
        if isinstance(value, str) and name in _NAME_FIELDS:
            names.append(value)
        elif isinstance(value, str) and name in _NUMBER_FIELDS:
            numbers.append(value)
        elif name not in SIDE_KEYS:
            return entry
    return Entry((*entry.names, *names), numbers[0]) if len(numbers) == 1 else entry


def _pair_entries(container: Container, table: OptionTable) -> list[Entry] | None:
    """Return the entries of a list of pairs such as ``["Yes", 40]``."""
    if len(container.values) != len(table):
        return None
    entries: list[Entry] = []
    for item in container.values:
        if isinstance(item, str) or item.kind != "list" or len(item.values) != 2:
            return None
        name, value = item.values
        if not isinstance(name, str) or table.find(name) is None or mark_of(name):
            return None
        entries.append(Entry((name,), value))
    return entries


def _record_entries(container: Container, table: OptionTable) -> list[Entry] | None:
    """Return the entries of a list of objects each naming one option and one number."""
    entries: list[Entry] = []
    for item in container.values:
        if isinstance(item, str) or item.kind != "object":
            return None
        entry = _record_entry(item, table)
        if entry is None:
            return None
        entries.append(entry)
    return entries


def _record_entry(item: Container, table: OptionTable) -> Entry | None:
    if len(item.keys) == 1:
        return Entry((item.keys[0],), item.values[0])
    names: list[str] = []
    others: list[tuple[str, str]] = []
    for key, value in zip(item.keys, item.values, strict=False):
        name = field_name(key)
        if isinstance(value, Container) or name in SIDE_KEYS | _ORDINAL_FIELDS:
            continue
        if name in _NAME_FIELDS:
            names.append(value)
        else:
            others.append((name, value))
    if not names:
        names = [
            value
            for _, value in others
            if read_value(value).kind is Kind.TEXT and table.find(value) is not None
        ]
    numbers = [value for _, value in others if read_value(value).kind is not Kind.TEXT]
    if not numbers:
        numbers = [value for name, value in others if name in _NUMBER_FIELDS]
    if not names or len(numbers) != 1:
        return None
    return Entry(tuple(names), numbers[0])
