"""JSON and what models make of it: objects and lists found in any text, in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal, NamedTuple, TypeAlias

from chronocore.parsing.characters import MAX_LINE, SIGNS, STRAIGHT_QUOTES, unescape

__all__ = [
    "Container",
    "NearReader",
    "Raw",
    "Reader",
    "Scan",
    "StrictReader",
    "end_of",
    "scan_containers",
    "without_comments",
]

_MAX_DEPTH = 64  # containers inside one another; a deeper one is not an answer


@dataclass(slots=True)
class Container:
    """A JSON-like object or list, possibly still open.

    ``keys`` stays empty for a list. Texts are kept as written: units and numbers come later.
    """

    kind: Literal["object", "list"]
    start: int
    end: int = -1
    nested: bool = False
    keys: list[str] = field(default_factory=list)
    values: list[Raw] = field(default_factory=list)
    parent: Container | None = None
    key: str | None = None  # under which it stands in its parent


Raw: TypeAlias = "str | Container"


class Scan(NamedTuple):
    """The containers of a text, in the order they close, and what was still open at its end."""

    closed: list[Container]
    unclosed: Container | None = None  # the outermost container open at the end of the text
    after_value: bool = False  # it lacks nothing but its last bracket
    open_string: Container | None = None  # the outermost one around a string that never closes

    def limit(self, size: int) -> int:
        """Return where the text stops being complete if it was cut."""
        still_open = [c.start for c in (self.unclosed, self.open_string) if c is not None]
        return min(still_open, default=size)


class _Token(NamedTuple):
    text: str
    end: int


_SPACE = re.compile(r"\s*+")


_OPENERS = re.compile(r"[\s{\[]*+")


_JSON_OPEN = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'


_JSON_STRING = rf'{_JSON_OPEN}"'


class StrictReader:
    """The keys and values of JSON as the standard has it."""

    trailing_comma = False
    quotes = '"'
    _string = re.compile(_JSON_STRING)
    opener = re.compile(rf"\{{(?=\s*+(?:{_JSON_STRING}\s*+:|{_JSON_OPEN}\Z))|\[")
    _literal = re.compile(
        r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
        r"|true\b|false\b|null\b|NaN\b|-?Infinity\b"
    )

    def __init__(self, text: str) -> None:
        self.text = text

    def key(self, position: int) -> _Token | None:
        """Return the key at a position, or None."""
        match = self._string.match(self.text, position)
        return _Token(unescape(match.group()[1:-1]), match.end()) if match else None

    def value(self, position: int) -> _Token | None:
        """Return the text of the value at a position, or None."""
        match = self._literal.match(self.text, position)
        return _Token(match.group(), match.end()) if match else self.key(position)

    def plain_list(self, position: int) -> tuple[list[str], int] | None:
        """Return None: the standard has no braces around bare numbers."""
        del position
        return None


_LOOSE_NUMBER = r"[~≈]?\s*+[+-]?\s*+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)\s*+%?"


class NearReader:
    """The keys and values of JSON as models bend it.

    Single, curly or missing quotes, bare keys, percents and words, braces around bare numbers.
    """

    trailing_comma = True
    quotes = "\"'"
    opener = re.compile(r"\{(?!\s*+[{}\[])|\[")
    _bare_key = re.compile(r"[^:{}\[\]\n]++(?=:)")
    _quoted_number = re.compile(
        r"""["']\s*+([~≈]?[+-]?(?:[0-9]++(?:[.,][0-9]++)*+|\.[0-9]++)\s*+%?)\s*+["']?"""
        r"(?=\s*+[,}\]])"
    )
    _comma_number = re.compile(r"[~≈]?[+-]?[0-9]++(?:,[0-9]++)++(?:\.[0-9]++)?\s*+%?(?=\s*+[,}])")
    _bare_value = re.compile(r"""([^,"'{}\[\]\n]++)["']?""")
    _plain_list = re.compile(
        rf"""\{{\s*+["']?{_LOOSE_NUMBER}["']?(?:\s*+,\s*+["']?{_LOOSE_NUMBER}["']?)*+\s*+,?\s*+\}}"""
    )
    _plain_number = re.compile(_LOOSE_NUMBER)

    def __init__(self, text: str) -> None:
        # One character for one: positions hold.
        self.text = without_comments(text.translate(STRAIGHT_QUOTES).translate(SIGNS))
        self._key_ends = _Marks(r"""["'](?=\s*+:)""", self.text)
        self._value_ends = _Marks(r"""["'](?=\s*+(?:[,}\]]|\Z))""", self.text)
        self._breaks = _Marks(r"[{}\n]", self.text)

    def key(self, position: int) -> _Token | None:
        """Return the key at a position, or None."""
        if self.text[position] in "\"'":
            end = self._key_ends.after(position)
            if end < self._breaks.after(position):
                return _Token(unescape(self.text[position + 1 : end]), end + 1)
        match = self._bare_key.match(self.text, position)
        return _Token(match.group(), match.end()) if match else None

    def value(self, position: int) -> _Token | None:
        """Return the text of the value at a position, or None."""
        if self.text[position] in "\"'":
            if match := self._quoted_number.match(self.text, position):
                return _Token(match[1], match.end())
            end = self._value_ends.after(position)
            if end < self._breaks.after(position):
                return _Token(unescape(self.text[position + 1 : end]), end + 1)
            return None
        if match := self._comma_number.match(self.text, position):
            return _Token(match.group(), match.end())
        match = self._bare_value.match(self.text, position)
        return _Token(match[1].strip(), match.end()) if match else None

    def plain_list(self, position: int) -> tuple[list[str], int] | None:
        """Return the numbers of ``{0.1, 0.3, 0.6}`` and where it ends."""
        match = self._plain_list.match(self.text, position)
        if match is None:
            return None
        return self._plain_number.findall(match.group()), match.end()


_COMMENT = re.compile(r"//|/\*|#")


def without_comments(text: str) -> str:
    """Return a text with the comments inside its braces blanked."""
    if "{" not in text or _COMMENT.search(text) is None:
        return text
    pieces: list[str] = []
    position = 0
    last_end = text.rfind("*/")
    for mark in _COMMENT.finditer(text):
        start = mark.start()
        if start < position:
            continue
        above = text[max(0, start - MAX_LINE) : start]
        before = above.rstrip()[-1:]
        if not before or before == ":" or above.rfind("{") <= above.rfind("}"):
            continue
        if mark.group() == "/*":
            if last_end < mark.end():
                continue
            end = text.find("*/", mark.end()) + 2
        elif mark.group() == "#" and (above == above.rstrip() or before not in ",{[\"'%0123456789"):
            continue
        else:
            end = text.find("\n", mark.end())
            end = len(text) if end < 0 else end
        pieces += [text[position:start], re.sub(r"[^\n]", " ", text[start:end])]
        position = end
    return "".join([*pieces, text[position:]])


class _Marks:
    """Positions of a pattern in a text, asked for in ascending order: linear in total."""

    def __init__(self, pattern: str, text: str) -> None:
        self._positions = [match.start() for match in re.finditer(pattern, text)]
        self._positions.append(len(text))
        self._next = 0

    def after(self, position: int) -> int:
        """Return the first mark after a position, or the length of the text."""
        while self._next + 1 < len(self._positions) and self._positions[self._next] <= position:
            self._next += 1
        return self._positions[self._next]


Reader: TypeAlias = StrictReader | NearReader


class _State(Enum):
    FIRST = auto()  # just opened
    ITEM = auto()  # after a comma
    VALUE = auto()  # after a key and its colon
    NEXT = auto()  # after a value


# An opening quote with no closing one up to the end of the text.
_OPEN_STRING = re.compile(r"""(["'])(?:(?!\1)[^\\]|\\.)*+\\?\Z""", re.DOTALL)


def scan_containers(reader: Reader) -> Scan:
    """Return the containers of a text, read from left to right once.

    Text between containers is prose. What does not fit abandons every open container, since
    each of them holds the misfit, and reading goes on from there: nothing is read twice, nothing
    recurses, and containers closed before the misfit remain.
    """
    text, size = reader.text, len(reader.text)
    closed: list[Container] = []
    stack: list[Container] = []
    state = _State.FIRST
    position = 0
    open_string: Container | None = None
    while True:
        if not stack:
            opening = reader.opener.search(text, position)
            if opening is None:
                return Scan(closed, open_string=open_string)
            position = opening.start()
            numbers = reader.plain_list(position)
            if numbers is not None:
                values: list[Raw] = list(numbers[0])
                closed.append(Container("list", position, numbers[1], values=values))
                position = numbers[1]
                continue
            stack.append(_open(text, position))
            position, state = position + 1, _State.FIRST
            continue
        position = end_of(_SPACE, text, position)
        if position == size:
            after_value = len(stack) == 1 and state is _State.NEXT
            return Scan(closed, stack[0], after_value, open_string)
        innermost, character = stack[-1], text[position]
        if character in "}]":
            may_close = state in (_State.NEXT, _State.FIRST) or (
                state is _State.ITEM and reader.trailing_comma
            )
            if may_close and character == ("}" if innermost.kind == "object" else "]"):
                stack.pop()
                position, state = position + 1, _State.NEXT
                innermost.end, innermost.nested = position, bool(stack)
                closed.append(innermost)
                if stack:
                    stack[-1].values.append(innermost)
                continue
        elif state is _State.NEXT:
            if character == ",":
                position, state = position + 1, _State.ITEM
                continue
        elif innermost.kind == "object" and state is not _State.VALUE:
            key = reader.key(position)
            colon = end_of(_SPACE, text, key.end) if key else size
            if key and colon < size and text[colon] == ":":
                innermost.keys.append(key.text)
                position, state = colon + 1, _State.VALUE
                continue
        elif character in "{[":
            if len(stack) < _MAX_DEPTH:
                opened = _open(text, position)
                opened.parent = innermost
                opened.key = innermost.keys[-1] if innermost.keys else None
                stack.append(opened)
                position, state = position + 1, _State.FIRST
            else:
                stack.clear()
                position = end_of(_OPENERS, text, position)
            continue
        elif value := reader.value(position):
            innermost.values.append(value.text)
            position, state = value.end, _State.NEXT
            continue
        if open_string is None and character in reader.quotes and _is_open(text, position):
            open_string = stack[0]
        stack.clear()


def _is_open(text: str, position: int) -> bool:
    """Return whether the quote at a position has no partner up to the end of the text."""
    return _OPEN_STRING.match(text, position) is not None


def _open(text: str, position: int) -> Container:
    return Container("object" if text[position] == "{" else "list", position)


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where a match at a position ends, or the position."""
    match = pattern.match(text, position)
    return match.end() if match else position
