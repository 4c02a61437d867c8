"""Entries of an answer and the options they name."""

from __future__ import annotations

from chronocore.parsing.answers import Answer
from chronocore.parsing.options import OptionTable, is_bijection

__all__ = [
    "matches",
]


def matches(answer: Answer, table: OptionTable) -> list[int | None]:
    """Return the position of the option each entry names, or None.

    Codes come before labels, since codes are what is asked for. Where some labels are codes of
    other options, labels come first if only then every option is named once.
    """
    if answer.positional:
        return list(range(len(answer.entries)))
    found = [table.find_all(entry.names) for entry in answer.entries]
    if table.clash and not is_bijection(found, table):
        by_label = [table.find_all(entry.names, labels_first=True) for entry in answer.entries]
        if is_bijection(by_label, table):
            return by_label
    return found
