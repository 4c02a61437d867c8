"""What is noted about a run: added to by every call, never replaced, and bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["added"]

#: So many different values are kept of one note, and so many notes.
_MOST_VALUES = 50
_MOST_NOTES = 64
_LONGEST_VALUE = 1_000
_LONGEST_NOTE = 4_000

_MORE = "and more"
_COUNT = re.compile(r"(\d+) (.+)", re.DOTALL)


def added(known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the notes of earlier calls with those of one more.

    Values that differ stand side by side, counts of failed attempts are summed.

    Parameters
    ----------
    known, new : mapping of str to str
        A list has a comma between its values.

    Examples
    --------
    >>> added({"model": "m-1", "failed_attempts": "2 timeout"}, {"model": "m-2"})
    {'model': 'm-1, m-2', 'failed_attempts': '2 timeout'}
    >>> added({"failed_attempts": "2 timeout"}, {"failed_attempts": "1 status 429, 3 timeout"})
    {'failed_attempts': '5 timeout, 1 status 429'}
    """
    notes = {str(name): _bounded(str(value)) for name, value in known.items()}
    for name, value in new.items():
        if name not in notes:
            if len(notes) < _MOST_NOTES:
                notes[name[:_LONGEST_VALUE]] = _bounded(str(value))
        elif name == "failed_attempts":
            notes[name] = _bounded(_summed(notes[name], str(value)))
        else:
            notes[name] = _bounded(f"{notes[name]}, {value}")
    return notes


def _bounded(value: str) -> str:
    """Return the different values of a list, cut where they are too many or too long."""
    values = list(dict.fromkeys(value.split(", ")))
    more = _MORE in values
    values = [one for one in values if one != _MORE]
    kept: list[str] = []
    length = 0
    for one in values:
        cut = one if len(one) <= _LONGEST_VALUE else f"{one[:_LONGEST_VALUE]}…"
        if len(kept) == _MOST_VALUES or length + len(cut) > _LONGEST_NOTE:
            more = True
            break
        kept.append(cut)
        length += len(cut)
    return ", ".join([*kept, _MORE] if more else kept)


def _summed(known: str, new: str) -> str:
    counts: dict[str, int] = {}
    others: list[str] = []
    for one in [*known.split(", "), *new.split(", ")]:
        found = _COUNT.fullmatch(one)
        if found:
            counts[found[2]] = counts.get(found[2], 0) + int(found[1])
        else:
            others.append(one)
    most_first = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join([*(f"{n} {cause}" for cause, n in most_first), *others])
