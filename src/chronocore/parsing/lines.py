"""Distributions in ``label: number`` lines and in Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from chronocore.parsing.answers import Answer, Entry, field_name
from chronocore.parsing.characters import EMPHASIS, MAX_LINE, plain_text
from chronocore.parsing.containers import end_of
from chronocore.parsing.lists import states_order
from chronocore.parsing.names import is_year
from chronocore.parsing.options import CODE, OptionTable, is_bijection
from chronocore.parsing.values import Kind, is_line_value, is_plausible, read_value

__all__ = [
    "line_answers",
    "table_answers",
]

_BULLET = re.compile(r"[\s>#]*+(?:[-*+•‣◦▪·\u2013\u2014]\s++)?")


_LINE_SEPARATOR = re.compile(r"\s*+(?::|=>|=|->|→|⇒|\t)\s*+|\s++[-\u2013\u2212]\s++|\s*+\u2014\s*+")


_BLANKS = re.compile(r"[^\S\t]++")


_MAX_SEPARATORS = 12


def line_answers(
    lines: Sequence[str], table: OptionTable, *, half_written: bool = False
) -> list[Answer]:
    """Return the answers written as ``label: number`` lines.

    A new answer begins where an option comes again after all of them have been named. Lines that
    repeat some options of the answer just above, with nothing in between, belong to it. The last
    line without a value above an answer is its heading.
    """
    blocks: list[list[Entry]] = [[]]
    leads: list[str | None] = [None]
    named: set[int] = set()
    lead: str | None = None
    apart = True  # something stands between this entry and the one before
    attached = False  # the current block follows another one directly
    for entry in _each_entry(lines, table):
        if isinstance(entry, str):
            apart = True
            lead = entry if entry.strip() else lead
            continue
        index = table.find_all(entry.names)
        if index is None and table.find(entry.names[0]) is None:
            if field_name(entry.names[0]) in _HEADING_FIELDS:
                lead = f"{entry.names[0]} {entry.value}"
                continue
        elif index is not None:
            if index in named and len(named) == len(table):
                blocks.append([])
                leads.append(None)
                named, attached = set(), not apart
            if not named:
                leads[-1] = lead
            named.add(index)
            lead = None
        blocks[-1].append(entry)
        apart = False
    if attached and len(named) < len(table):
        rest = blocks.pop()
        blocks[-1].extend(rest)
    return [
        Answer(block, lead=above or "", unclosed=half_written)
        for block, above in zip(blocks, leads, strict=False)
        if _is_listing(block, table)
    ]


_ITEM_SEPARATOR = re.compile(r"[,;]\s+")


#: Keys of lines that say of what the lines below them are the distribution.
_HEADING_FIELDS = frozenset({"year", "survey year", "wave", "round", "jahr", "année", "año", "ano"})


def _each_entry(lines: Iterable[str], table: OptionTable) -> Iterator[Entry | str]:
    """Yield the entry of each line, and of each part of ``Yes: 40, No: 60``; else the line."""
    lines = list(lines)
    enumerated = _enumerated(lines, table)
    for number, line in enumerate(lines):
        if number in enumerated:
            yield enumerated[number]
            continue
        parts = _ITEM_SEPARATOR.split(line.strip(" \t.")) if len(table) > 1 else []
        if len(parts) == len(table):
            entries = [entry for part in parts if (entry := _line_entry(part, table))]
            if is_bijection([table.find(entry.names[0]) for entry in entries], table):
                yield from entries
                continue
        yield _line_entry(line, table) or line


_ENUMERATED = re.compile(
    rf"(?:\(?(?P<name>[^\s():.][^():]{{0,200}}?)\s?[.)\]]{{1,2}}|(?P<code>{CODE}))\s+"
    r"(?P<value>[~≈+-]?[.\d].{0,80})"
)


_NUMBER_BEHIND = re.compile(r"\s[^\s\d]?\.?\d")


def _enumerated(lines: Sequence[str], table: OptionTable) -> dict[int, Entry]:
    """Return the entries of lines such as ``1) 0.40``, by line, where they name every option.

    The numbers of such a list may also count its lines. They are codes if each comes once, as far
    as the shares make sense and no other order is stated above them.
    """
    found: dict[int, Entry] = {}
    run: dict[int, Entry] = {}
    above = lead = ""

    def settle(below: str = "") -> None:
        named = [table.find(entry.names[0]) for entry in run.values()]
        if is_bijection(named, table) and not states_order(f"{lead} {below}"):
            values = [read_value(entry.value) for entry in run.values()]
            if any(value.kind is Kind.INTERVAL for value in values) or is_plausible(values):
                found.update(run)
        run.clear()

    for number, line in enumerate(lines):
        if not line or line.isspace():
            continue
        if _NUMBER_BEHIND.search(line) is None:
            if run:
                settle(line)
            above = line
            continue
        bare = _BLANKS.sub(" ", line.translate(EMPHASIS)).strip()
        bare = bare[end_of(_BULLET, bare, 0) :]
        match = None if len(bare) > MAX_LINE else _ENUMERATED.fullmatch(bare)
        name = (match["name"] or match["code"]) if match else ""
        index = table.find(name)
        if match is None or index is None or not is_line_value(match["value"]):
            settle(line)
            above = line
            continue
        if len(run) == len(table):
            settle()
        if not run:
            lead = above
        run[number] = Entry((name,), match["value"])
    settle()
    return found


def _is_listing(block: Sequence[Entry], table: OptionTable) -> bool:
    """Return whether lines are more than a stray number after a colon."""
    return len(block) > 1 or any(table.find(entry.names[0]) is not None for entry in block)


def _line_entry(line: str, table: OptionTable) -> Entry | None:
    """Return the key and the value of a line, split where the key names an option if possible."""
    if "|" in line or not line.strip():
        return None
    line = _BLANKS.sub(" ", line.translate(EMPHASIS))
    line = line[end_of(_BULLET, line, 0) :].strip()
    fallback: Entry | None = None
    for tried, separator in enumerate(_LINE_SEPARATOR.finditer(line)):
        if tried == _MAX_SEPARATORS:
            break
        name, value = line[: separator.start()].strip(), line[separator.end() :]
        if not name:
            continue
        entry = Entry((name,), value)
        if not is_line_value(value):
            beside = _VALUE_THEN_LABEL.fullmatch(value)
            if (
                beside is None
                or table.by_name.get(plain_text(beside["label"]).strip(" .)")) is None
            ):
                continue
            entry = Entry((name, beside["label"].strip(" .)")), beside["value"])
        if table.find(name) is not None:
            return entry
        fallback = fallback or entry
    if fallback is None and (turned := _VALUE_THEN_NAME.fullmatch(line)) is not None:
        name = turned["name"].strip(" .,;")
        if table.find(name) is not None and table.find(name, labels_first=True) is not None:
            return Entry((name,), turned["value"])
    return fallback


_VALUE_THEN_LABEL = re.compile(
    r"(?P<value>[~≈]?\s*\d[\d.,]*\s*(?:%|percent|per cent)?)\s*[:(–—-]?\s*(?P<label>[^\d\s].*)"
)


_VALUE_THEN_NAME = re.compile(
    r"(?P<value>[~≈]?\s*\d[\d.,]*\s*(?:%|percent|per cent))\s*[:–—-]?\s*"
    r"(?:(?:for|of (?:people|adults|respondents))\s+)?(?:(?:would )?(?:say|answer|choose)\s+)?"
    r"(?P<name>[^\d\s].*)"
)


_RULE_CELL = re.compile(r":?-+:?|")


def table_answers(lines: Sequence[str], table: OptionTable) -> list[Answer]:
    """Return the answers written as Markdown tables, one option a row or one a column."""
    answers: list[Answer] = []
    for lead, rows in _tables(lines):
        answers += _row_answers(rows, table, lead) or _column_answers(rows, table, lead)
    return answers


def _tables(lines: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each run of lines with the same number of cells, without rules, and its heading."""
    rows: list[list[str]] = []
    lead = ""
    for line in [*lines, ""]:
        cells = _cells(line)
        if rows and len(cells) != len(rows[0]):
            yield lead, rows
            rows, lead = [], ""
        if len(cells) > 1 and not all(_RULE_CELL.fullmatch(cell) for cell in cells):
            rows.append(cells)
        elif not cells and line.strip():
            lead = line


def _cells(line: str) -> list[str]:
    if "|" not in line:
        return []
    line = line.translate(EMPHASIS).strip()
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


def _column_answers(rows: list[list[str]], table: OptionTable, lead: str) -> list[Answer]:
    """Return one answer for each column behind the first that holds only values.

    Several columns are alternatives under the names of the header, as far as they are shares.
    """
    header = [""] * len(rows[0])
    if not any(is_line_value(cell) and not is_year(cell) for cell in rows[0][1:]):
        header, rows = rows[0], rows[1:]
    if not rows:
        return []
    width = len(rows[0])
    values = [j for j in range(1, width) if all(is_line_value(row[j]) for row in rows)]
    answers: list[Answer] = []
    for column in values:
        entries: list[Entry] = []
        for row in rows:
            cells = [cell for j, cell in enumerate(row) if j not in values]
            named = tuple(cell for cell in cells if table.find(cell) is not None)
            entries.append(Entry(named or tuple(cells[:1]), row[column]))
        name = f"{header[column]}:" if len(values) > 1 else lead
        answers.append(Answer(entries, lead=name))
    return answers


def _row_answers(rows: list[list[str]], table: OptionTable, lead: str) -> list[Answer]:
    """Return one answer a row of values, below a header of all options.

    A first column that names no option names the rows.
    """
    header, *others = rows
    first = 0 if len(header) == len(table) else 1
    if not others or not is_bijection(map(table.find, header[first:]), table):
        return []
    if len(header) - first != len(table) or (first and table.find(header[0]) is not None):
        return []
    answers: list[Answer] = []
    for row in others:
        if not all(map(is_line_value, row[first:])):
            return []
        pairs = zip(header[first:], row[first:], strict=True)
        name = f"{row[0]}:" if first else lead
        answers.append(Answer([Entry((key,), value) for key, value in pairs], lead=name))
    return answers
