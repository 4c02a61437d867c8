"""Which of several answers counts: the last, the one asked for, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chronocore.parsing.answers import Answer, Found, Reading
from chronocore.parsing.asides import is_aside, unknown_reason
from chronocore.parsing.matching import matches
from chronocore.parsing.names import corrected_names, is_year, name_of
from chronocore.parsing.options import OptionTable
from chronocore.parsing.reading import read_answer

__all__ = [
    "chosen_answer",
]

_MAX_ALTERNATIVES = 100  # complete answers of one form that are compared


def chosen_answer(
    forms: Iterable[list[Answer]], table: OptionTable, text: str, year: str | None
) -> Found | None:
    """Return the answer that counts, of the first form that has a complete one.

    Of several without names the last counts, as a correction would; one whose sum is off gives way
    to an earlier one whose sum is not. Of several under names of their own that counts which is
    asked for, or none. Without any complete one, it is the last that names some options, else the
    last that gives numbers to something else: these only tell the reason.
    """
    partial: Answer | None = None
    foreign: Answer | None = None
    half: Found | None = None
    for answers in forms:
        complete: list[Found] = []
        for answer in reversed(answers):
            if len(complete) == _MAX_ALTERNATIVES:
                break
            if is_aside(answer, table):
                continue
            named = {index for index in matches(answer, table) if index is not None}
            if answer.positional:
                whole = len(answer.entries) == len(table)
            else:
                whole = len(named) == len(table)
            if whole:
                reading = read_answer(answer, table, None)
                if answer.unclosed and reading.sum_off:  # the last number may be half of one
                    half = half or Found(answer, Reading("sum_off", None, reading.raw_sum, True))
                else:
                    complete.append(Found(answer, reading))
            elif named:
                partial = partial or answer
            elif any(unknown_reason(entry) for entry in answer.entries):
                foreign = foreign or answer
        if complete:
            return _of_alternatives(complete[::-1], text, year)
    if half is not None:
        return half
    answer_left = partial or foreign
    if answer_left is None:
        return None
    reading = read_answer(answer_left, table, None)
    return None if reading.reason is None else Found(answer_left, reading)


def _of_alternatives(complete: list[Found], text: str, year: str | None) -> Found:
    """Return the one of several complete answers, in the order of the text, that counts."""
    last = complete[-1]
    if len(complete) == 1 or (last.reading.reason is not None and not last.reading.sum_off):
        return last
    valid = [found for found in complete if found.reading.reason is None]
    fitting = [found for found in valid if not found.reading.sum_off]
    if not valid:
        return last
    if len({_rounded(found.reading) for found in valid}) == 1:
        return (fitting or valid)[-1]
    names = corrected_names(name_of(found.answer, text) for found in valid)
    named = list(zip(names, valid, strict=True))
    if fitting:
        # A sum that is off gives way, but one under a name of its own may be what was meant.
        named = [
            (name, found)
            for name, found in named
            if not found.reading.sum_off or (any(name) and _is_rough_distribution(found.reading))
        ]
    pool = [found for _, found in named]
    return _asked_for([one for one in named if not _is_inside_another(one[1], pool)], year)


def _rounded(reading: Reading) -> tuple[float, ...]:
    return tuple(round(p, 9) for p in reading.probs or ())


def _is_rough_distribution(reading: Reading) -> bool:
    total = reading.raw_sum or 0.0
    return 0.5 <= total <= 1.5 or 50 <= total <= 150


def _is_inside_another(found: Found, pool: Sequence[Found]) -> bool:
    """Return whether an answer stands inside the object of another one, as its breakdown."""
    around = found.answer.container
    others = [id(other.answer.container) for other in pool if other.answer.container]
    while around is not None and around.parent is not None:
        around = around.parent
        if id(around) in others:
            return True
    return False


def _asked_for(named: list[tuple[tuple[str, ...], Found]], year: str | None) -> Found:
    """Return the alternative that is named by the year asked for or as the answer, or none.

    Those that share a name, or have none, follow each other as corrections do.
    """
    found = [alternative for _, alternative in named]
    if year is not None:
        own = [(name, one) for name, one in named if {y for y in name if is_year(y)} == {year}]
        if own:
            rest = [(tuple(w for w in name if w != year), one) for name, one in own]
            return _asked_for(rest, None)
    answers = [(name, one) for name, one in named if "" in name]
    if answers and (len(answers) < len(named) or any(len(name) > 1 for name, _ in answers)):
        # Words for the answer above "2004" and "2019" alike do not choose between these.
        return _asked_for([(tuple(w for w in name if w), one) for name, one in answers], None)
    if len({name for name, _ in named}) == 1 or len({_rounded(one.reading) for one in found}) == 1:
        return found[-1]
    return Found(found[-1].answer, Reading("several_answers"))
