"""Several options chosen by a model, in lists and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from chronocore.parsing.agreement import Choice
from chronocore.parsing.characters import DASHES, EMPHASIS, MAX_LINE, bare_label, fold, unfenced
from chronocore.parsing.containers import NearReader, StrictReader, scan_containers
from chronocore.parsing.options import ONLY_CODE, OptionTable

__all__ = [
    "alias_table",
    "find_choices",
]

_SEPARATORS = re.compile(r"(?:[\s,;:.()\[\]{}\"'*•‣–—-]|/|&|\b(?:and|then|or)\b)*")


_LEADING_CODE = re.compile(r"(?P<code>[+-]?[0-9]{1,18})(?![0-9%]|\.[0-9])")


_LIST_LINE = re.compile(r"\s*(?:[-*+•‣]|\(?[0-9]{1,3}[.):])\s+\S")


_ORDINAL_LINE = re.compile(r"\s*\(?(?P<place>[0-9]{1,3})[.):]\s+(?P<rest>\S.*)")


_LISTING = re.compile(
    r"\b(?:(?:choose|pick|select)\b"
    r"|(?:goals?|qualit(?:y|ies)|choices?|options?|numbers?|answers?|selections?|most important"
    r"|next|first|second)\b[^.!?\d\n:]{0,40}?(?:\bare\b|\bis\b|\bwould be\b|:))[\s:]*"
)


_Names: TypeAlias = "list[tuple[str, int]]"


def alias_table(options: Sequence[Mapping[str, object]]) -> _Names:
    """Return every name of an option as it is compared, the longest first, with its position."""
    names: list[tuple[str, int]] = []
    for index, option in enumerate(options):
        aliases = option.get("aliases", ())
        if isinstance(aliases, str) or not isinstance(aliases, Iterable):
            raise ValueError(f"option {index}: aliases must be a list of names")
        for name in (option["label"], *aliases):
            folded = bare_label(fold(str(name)))
            if folded and not ONLY_CODE.fullmatch(folded):
                names.append((folded, index))
    return sorted(names, key=lambda pair: -len(pair[0]))


class _Listed(NamedTuple):
    """Options named one after the other, and where the naming stops."""

    indices: list[int]
    unknown: bool
    end: int


def _listed(folded: str, position: int, table: OptionTable, names: _Names) -> _Listed:
    """Read codes and names from a position of a folded text as far as they go."""
    indices: list[int] = []
    unknown = False
    while True:
        separators = _SEPARATORS.match(folded, position)
        start = separators.end() if separators else position
        code = _LEADING_CODE.match(folded, start)
        after = start
        if code is not None:
            blank = re.compile(r"[\s.:)\-]*").match(folded, code.end())
            after = blank.end() if blank else code.end()
        named = next(
            (
                (index, after + len(name))
                for name, index in names
                if folded.startswith(name, after) and not folded[after + len(name) :][:1].isalnum()
            ),
            None,
        )
        if code is None and named is None:
            return _Listed(indices, unknown, position)
        if code is None:
            assert named is not None
            indices.append(named[0])
            position = named[1]
            continue
        index = table.find(code["code"])
        if named is not None:
            # "2. label" names an option by its code, or counts the options of the answer.
            place = len(indices) + 1
            if index != named[0] and code["code"] != str(place):
                unknown = True
            indices.append(named[0])
            position = named[1]
            continue
        unknown |= index is None
        if index is not None:
            indices.append(index)
        position = code.end()


def find_choices(
    answer: str,
    table: OptionTable,
    names: _Names,
    choose: tuple[int, int],
    *,
    cut: bool,
) -> tuple[Choice | None, tuple[int, ...] | None]:
    """Return the options of an answer in the first form that names enough of them."""
    found = _json_choices(answer, table, names, cut=cut)
    if found is None and not cut:
        found = _told_choices(answer, table, names, choose)
    if found is None:
        return None, None
    indices, unknown, strict = found
    if unknown:
        return Choice(None, "unknown_option", strict), None
    if len(set(indices)) < len(indices):
        return Choice(None, "duplicate_option", strict), None
    if not choose[0] <= len(indices) <= choose[1]:
        return Choice(None, "length_mismatch", strict), None
    codes = tuple(table.codes[index] for index in indices)
    return Choice(codes[0], None, strict), codes


def _json_choices(
    answer: str, table: OptionTable, names: _Names, *, cut: bool
) -> tuple[list[int], bool, bool] | None:
    """Return (positions, whether one is unknown, whether it is strict JSON) of the last list."""
    for reader in (StrictReader(answer), NearReader(answer)):
        scan = scan_containers(reader)
        limit = scan.limit(len(reader.text)) if cut else len(reader.text)
        for container in reversed(scan.closed):
            values = list(container.values)
            while len(values) == 1 and not isinstance(values[0], str):
                values = list(values[0].values)
            texts = [value for value in values if isinstance(value, str)]
            if container.start >= limit or not texts or len(texts) < len(values):
                continue
            indices: list[int] = []
            unknown = False
            for text in texts:
                folded = fold(text).translate(EMPHASIS).translate(DASHES)
                listed = _listed(folded, 0, table, names)
                rest = _SEPARATORS.match(folded, listed.end)
                complete = rest is not None and rest.end() == len(folded)
                if listed.unknown or not listed.indices or not complete:
                    unknown = True
                indices += listed.indices
            if indices:
                return indices, unknown, isinstance(reader, StrictReader)
    return None


def _told_choices(
    answer: str, table: OptionTable, names: _Names, choose: tuple[int, int]
) -> tuple[list[int], bool, bool] | None:
    """Return the options that a whole text, its first line, its list or a sentence names."""
    text = unfenced(answer)[: 2 * MAX_LINE]
    folds = [
        fold(line).translate(EMPHASIS).translate(DASHES)
        for line in text.splitlines()
        if line.strip()
    ]
    ordinals = [_ORDINAL_LINE.fullmatch(line) for line in folds]
    if len(folds) > 1 and all(
        match is not None and match["place"] == str(place)
        for place, match in enumerate(ordinals, start=1)
    ):
        # A numbered list: the numbers count its lines, unless a line holds nothing else.
        folds = [match["rest"] for match in ordinals if match is not None]

    def whole(folded: str) -> tuple[list[int], bool, bool] | None:
        listed = _listed(folded, 0, table, names)
        rest = _SEPARATORS.match(folded, listed.end)
        if (listed.indices or listed.unknown) and rest and rest.end() == len(folded):
            return listed.indices, listed.unknown, False
        return None

    if folds and (found := whole(" , ".join(folds))) is not None:
        return found
    starts = [line for line in text.splitlines() if _LIST_LINE.match(line)]
    if len(folds) > 1 and len(starts) < 2 and (found := whole(folds[0])) is not None:
        return found
    if len(starts) >= max(2, choose[0]):
        indices: list[int] = []
        for line in starts:
            folded = fold(line).translate(EMPHASIS).translate(DASHES)
            match = _ORDINAL_LINE.fullmatch(folded)
            listed = _listed(match["rest"] if match else folded, 0, table, names)
            if len(listed.indices) != 1:
                break
            indices += listed.indices
        else:
            return indices, False, False
    sentences = " ".join(folds)
    told: list[int] = []
    unknown, reached = False, 0
    for phrase in _LISTING.finditer(sentences):
        if phrase.end() < reached:
            continue
        listed = _listed(sentences, phrase.end(), table, names)
        told += listed.indices
        unknown |= listed.unknown
        reached = listed.end
    return (told, unknown, False) if len(told) >= choose[0] else None
