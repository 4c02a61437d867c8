"""Bare lists of numbers, the only positional form, and the order their text states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from chronocore.parsing.answers import Answer, Entry
from chronocore.parsing.characters import MAX_LINE, MAX_LINES, ORDER_REACH, plain_text, unfenced
from chronocore.parsing.containers import Container
from chronocore.parsing.options import CODE, OptionTable
from chronocore.parsing.values import Kind, is_line_value, is_plausible, mark_of, read_value

__all__ = [
    "list_answers",
    "number_texts",
    "states_order",
]


def list_answers(
    containers: Iterable[Container], text: str, table: OptionTable, limit: int
) -> list[Answer]:
    """Return the lists of numbers, the only positional form.

    Amid other text a list is an answer only if it sums to 1 or 100.
    """
    size = len(unfenced(text))
    answers: list[Answer] = []
    for container in containers:
        if container.kind != "list" or container.nested or container.start >= limit:
            continue
        values = [value for value in container.values if isinstance(value, str)]
        if len(values) < len(container.values) or not _are_numbers(values):
            continue
        alone = size == container.end - container.start
        for answer in _positional(values, table, alone=alone):
            ordered = _in_stated_order(answer, text, container, table)
            if ordered is not None:
                answers.append(ordered._replace(container=container))
    return answers


def number_texts(text: str, table: OptionTable, *, alone: bool) -> list[Answer]:
    """Return the answer of a text that is nothing but numbers."""
    body = unfenced(text)
    if body.startswith("(") and body.endswith(")"):
        body = body[1:-1].strip()
    if len(body) > MAX_LINE:
        return []
    if ";" in body:
        values = body.split(";")
    elif len(body.splitlines()) > 1:
        values = [line for line in body.splitlines() if line.strip()]
    else:
        # "25,5" is one number; only blanks, or commas that separate nothing else, make several.
        spaced = re.search(r",\s", body) is not None
        single = not spaced and read_value(body).kind is Kind.NUMBER
        separator = r",\s+" if spaced else r"\s+(?!%)" if re.search(r"\S\s+[^\s%]", body) else ","
        values = re.split(separator, body)
        in_brackets = single and body != unfenced(text)
        if single and not (in_brackets and is_plausible(list(map(read_value, values)))):
            values = [body]
        alone = alone and not (spaced and re.search(r",\S", body))
    values = [value.strip().rstrip(",") for value in values]
    if len(values) == 1 and len(table) > 1 and alone and "," in body and mark_of(body) is not None:
        return [Answer([Entry((), body)], positional=True)]
    if _are_numbers(values):
        return _positional(values, table, alone=alone)
    numbered = _numbered(values, table)
    return [numbered] if numbered else []


def _positional(values: Sequence[str], table: OptionTable, *, alone: bool) -> list[Answer]:
    """Return the answer of a list of numbers, if it is one.

    Where each number begins with the code of its option, as in ``1,40``, the rest may be the
    value: then the reading counts that sums to 1 or 100, and none if neither does.
    """
    if is_plausible([read_value(value) for value in values]):
        return [Answer([Entry((), value) for value in values], positional=True)]
    numbered = _numbered(values, table)
    if numbered:
        rest = [read_value(entry.value) for entry in numbered.entries]
        return [numbered] if is_plausible(rest) else []
    if not alone:
        return []
    return [Answer([Entry((), value) for value in values], positional=True)]


_ORDER_WORDS = re.compile(
    r"\b(?:revers\w+|descending|ascending|sorted|respectively|in (?:that|this|the \w+)? ?order"
    r"|order(?:ed)?|start\w* (?:with|from)"
    r"|(?:largest|highest|smallest|lowest|last|best|worst) (?:first|to)"
    r"|rank\w*|by (?:frequency|size|share|popularity)"
    r"|most (?:common|frequent|popular) (?:first|to)"
    r"|from (?:highest|lowest|high|low|largest|smallest|top|bottom|most|last)|first)\b"
)


_CODES_STATED = re.compile(
    rf"\b(?:options?|codes?|order|categories|answers?)\b[^\d\n+-]{{0,20}}"
    rf"(?P<codes>{CODE}(?:\s*(?:,|;|and|then|>|/)+\s*{CODE})+)"
)


_CODES_SPANNED = re.compile(
    rf"\b(?:options?|codes?|categories|answers?|from)\s(?P<first>{CODE})"
    rf"\s?(?:-|to|through|down to)\s?(?P<last>{CODE})(?!\w|[.,]\d)"
)


def states_order(text: str) -> bool:
    """Return whether a text says how what follows is ordered."""
    return _ORDER_WORDS.search(plain_text(text)) is not None


def _in_stated_order(
    answer: Answer, text: str, container: Container, table: OptionTable
) -> Answer | None:
    """Return a list in the order that the text around it states; None if that is undecided."""
    if not answer.positional or len(answer.entries) != len(table):
        return answer
    before = plain_text(text[max(0, container.start - ORDER_REACH) : container.start])
    after = plain_text(text[container.end : container.end + ORDER_REACH])
    orders = [order for part in (before, after) if (order := _stated_order(part, table))]
    scale = list(range(len(table)))
    told = [order for order in orders if order != scale]
    if not told:
        complete = any(order == scale for order in orders)
        wordy = _ORDER_WORDS.search(before) or _ORDER_WORDS.search(after)
        return None if wordy and not complete and _says_order(before + after, table) else answer
    order = told[-1]
    if sorted(order) != scale or len(told) != len(orders):
        return None
    names = [(str(table.codes[index]),) for index in order]
    pairs = zip(names, answer.entries, strict=True)
    return answer._replace(
        entries=[Entry(name, entry.value) for name, entry in pairs], positional=False
    )


def _says_order(text: str, table: OptionTable) -> bool:
    """Return whether words of order are more than those of the scale itself."""
    first = table.label_pattern.search(text) if table.label_pattern else None
    if re.search(
        r"\b(?:revers|descend|sorted|second\b|third\b|bottom|backward|(?:largest|highest|last|most)\b)",
        text,
    ):
        return True
    return first is not None and table.index_of(first.group()) != 0


def _stated_order(text: str, table: OptionTable) -> list[int] | None:
    """Return the options in the order in which a text names them; None if it names none or one.

    Options that stand apart in the text are an order only if they would be that of the scale.
    """
    if codes := _CODES_STATED.search(text):
        found = [table.find(code) for code in re.findall(CODE, codes["codes"])]
        named = [index for index in found if index is not None]
        if len(named) == len(found) == len(table):
            return named
    if span := _CODES_SPANNED.search(text):
        ends = [table.find(span["first"]), table.find(span["last"])]
        scale = list(range(len(table)))
        if ends in (scale[:1] + scale[-1:], scale[-1:] + scale[:1]):
            return scale if ends[0] == 0 else scale[::-1]
    if table.label_pattern is None:
        return None
    mentions = list(table.label_pattern.finditer(text))[-MAX_LINES:]
    order = [index for m in mentions if (index := table.index_of(m.group())) is not None]
    if len(set(order)) < 2 or len(order) != len(mentions):
        return None
    if len(order) == len(table) == len(set(order)):
        return order
    if order == [len(table) - 1, 0]:  # from the last one to the first
        between = text[mentions[0].end() : mentions[1].start()]
        return (
            order[:1] + list(range(len(table) - 2, 0, -1)) + order[1:] if "to" in between else order
        )
    return None if order == sorted(order) else order


_NUMBERED = re.compile(rf"\(?(?P<code>{CODE})\s*[,.;:)\]\s]\s*(?P<value>.+)")


def _numbered(values: Sequence[str], table: OptionTable) -> Answer | None:
    """Return the answer of ``1) 40`` and the like, with all codes in their order."""
    if len(values) != len(table):
        return None
    entries: list[Entry] = []
    for text, code in zip(values, table.codes, strict=True):
        match = _NUMBERED.fullmatch(text.strip())
        if match is None or int(match["code"]) != code or not is_line_value(match["value"]):
            return None
        entries.append(Entry((match["code"],), match["value"]))
    return Answer(entries)


def _are_numbers(values: Sequence[str]) -> bool:
    """Return whether a list is one of numbers, gaps such as null included."""
    return (
        len(values) > 1
        and all(is_line_value(value) for value in values)
        and any(read_value(value).kind is Kind.NUMBER for value in values)
    )
