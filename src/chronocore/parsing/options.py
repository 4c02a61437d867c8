"""The options of a question and the names they go by."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from chronocore.parsing.characters import DASHES, EMPHASIS, bare_label, fold

__all__ = [
    "CODE",
    "CODE_WORD",
    "ONLY_CODE",
    "OptionTable",
    "bounded_pattern",
    "is_bijection",
    "option_table",
]

_MAX_NAME = 1_000  # characters of a key that is compared beyond its exact label


_MAX_KNOWN = 1_000  # names whose option is remembered


CODE = r"[+-]?[0-9]{1,18}"


CODE_WORD = r"(?:option|code|answer|choice|category|response|value|opt|number)[ _]*[:#]?\s*"


ONLY_CODE = re.compile(rf"(?P<code>{CODE})(?:\.0+)?")


_WORDED_CODE = re.compile(rf"{CODE_WORD}(?P<code>{CODE})(?:\.0+)?")


_CODE_THEN_LABEL = re.compile(
    rf"(?:{CODE_WORD})?[(\[#]*\s*(?P<code>{CODE})(?:\.0+)?(?![0-9])\s*"
    r"(?:[-.:=)\]>,|]\s*)*(?P<label>.+)"
)


_LABEL_THEN_CODE = re.compile(
    rf"(?P<label>.+?)\s*(?:[-:=,]\s*)?"
    rf"(?:[(\[]\s*(?:{CODE_WORD})?(?P<inside>{CODE})(?:\.0+)?\s*[)\]]?"
    rf"|(?:\s-\s|[:=])\s*(?P<after>{CODE}))"
)


class OptionTable:
    """The options of one question and the names they go by; see :func:`option_table`."""

    def __init__(self, pairs: tuple[tuple[int, str], ...]) -> None:
        self.codes = tuple(code for code, _ in pairs)
        self.labels = tuple(fold(label) for _, label in pairs)
        self._by_code = {code: index for index, code in enumerate(self.codes)}
        self._exact = _unique((label, index) for index, label in enumerate(self.labels))
        bare = [(bare_label(label), index) for index, label in enumerate(self.labels)]
        self._bare = _unique(bare)
        self._after_code = _unique(
            (bare_label(match["rest"]), index)
            for index, (code, label) in enumerate(zip(self.codes, self.labels, strict=True))
            if (match := re.fullmatch(rf"\+?{code}(?!\d)\W*(?P<rest>[^\W\d].*)", label))
        )
        self._known: dict[tuple[str, bool], int | None] = {}
        self.by_name, self.label_pattern = _label_pattern(self.labels, self.codes)
        # A label may be the code of another option; then it matters which is meant.
        self.clash = any(self._code(name) not in (None, index) for name, index in bare)
        self.plain = None if self.clash else _plain_pattern(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, name: str, *, labels_first: bool = False) -> int | None:
        """Return the position of the option a key names by code, label or both; else None."""
        if len(name) > _MAX_NAME:
            return self._exact.get(fold(name))
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        asked = (name, labels_first)
        if asked not in self._known:
            self._known[asked] = self._find(name, labels_first)
        return self._known[asked]

    def _find(self, name: str, labels_first: bool) -> int | None:
        folded = fold(name)
        bare = bare_label(folded)
        if not labels_first and (found := self._code(bare)) is not None:
            return found
        if (found := self._label(folded, bare)) is not None:
            return found
        if (found := self._code(bare)) is not None:
            return found
        if worded := _WORDED_CODE.fullmatch(bare):
            return self._by_code.get(int(worded["code"]))
        return self._both(bare)

    def index_of(self, name: str) -> int | None:
        """Return the position of the option whose label a text matched by the pattern is."""
        return self.by_name.get(name)

    def find_all(self, names: Sequence[str], *, labels_first: bool = False) -> int | None:
        """Return the position of the one option that every name names; else None."""
        found = {self.find(name, labels_first=labels_first) for name in names}
        return found.pop() if len(found) == 1 else None

    def _code(self, bare: str) -> int | None:
        match = ONLY_CODE.fullmatch(bare)
        return self._by_code.get(int(match["code"])) if match else None

    def _label(self, folded: str, bare: str) -> int | None:
        for names, name in ((self._exact, folded), (self._bare, bare), (self._after_code, bare)):
            if name in names:
                return names[name]
        return None

    def _both(self, bare: str) -> int | None:
        """Return the option named by code and label together, if the two agree."""
        for pattern in (_CODE_THEN_LABEL, _LABEL_THEN_CODE):
            if match := pattern.fullmatch(bare):
                found = self._label(match["label"], bare_label(match["label"]))
                code = next(c for name, c in match.groupdict().items() if name != "label" and c)
                if found is not None and found == self._by_code.get(int(code)):
                    return found
        return None


def _label_pattern(
    labels: Sequence[str], codes: Sequence[int]
) -> tuple[dict[str, int | None], re.Pattern[str] | None]:
    """Return the position of every label as :func:`plain_text` has it, and a pattern of them all.

    Labels that are numbers are left out: they cannot be told from codes. A name that several
    options share has no position.
    """
    names: dict[str, int | None] = {}
    for index, (label, code) in enumerate(zip(labels, codes, strict=True)):
        plain = label.translate(EMPHASIS).translate(DASHES).strip()
        after = re.match(rf"\+?{code}(?!\d)\W*(?P<rest>[^\W\d].*)", plain)
        variants = {plain, bare_label(label), bare_label(after["rest"]) if after else plain}
        for name in variants:
            if name and not ONLY_CODE.fullmatch(name) and any(map(str.isalnum, name)):
                names[name] = index if names.get(name, index) == index else None
    if not names:
        return names, None

    longest_first = sorted(names, key=len, reverse=True)
    return names, re.compile("|".join(map(bounded_pattern, longest_first)))


def bounded_pattern(name: str) -> str:
    """Return a pattern of a name as a word of its own."""
    before = r"(?<!\w)" if _needs_bound(name[0]) else ""
    after = r"(?!\w)" if _needs_bound(name[-1]) else ""
    return f"{before}{re.escape(name)}{after}"


def _needs_bound(character: str) -> bool:
    """Return whether a word goes on behind a letter, in scripts that put blanks between words."""
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff"


def _unique(names: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return name -> position, without the names that several options share."""
    found: dict[str, int] = {}
    shared: set[str] = set()
    for name, index in names:
        if found.setdefault(name, index) != index:
            shared.add(name)
    return {name: index for name, index in found.items() if name not in shared}


def option_table(options: Sequence[Mapping[str, object]] | OptionTable) -> OptionTable:
    """Return options ready for matching, to be used for any number of answers.

    Parameters
    ----------
    options : sequence of mapping
        ``code`` (int) and ``label`` (str) of each option, in the order of the scale.

    Raises
    ------
    ValueError
        If `options` is malformed: empty, a code that is no integer or comes twice, no label.

    Examples
    --------
    >>> from chronocore.parsing import parse_distribution
    >>> table = option_table([{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}])
    >>> parse_distribution('{"1": 40, "2": 60}', table, "stop").probs
    (0.4, 0.6)
    """
    if isinstance(options, OptionTable):
        return options
    pairs: list[tuple[int, str]] = []
    for position, option in enumerate(options):
        try:
            code, label = option["code"], option["label"]
        except (KeyError, TypeError, IndexError):
            raise ValueError(f"option {position} needs a 'code' and a 'label'") from None
        if isinstance(code, bool):
            raise ValueError(f"option {position}: code {code!r} is not an integer")
        try:
            number = operator.index(code)  # type: ignore[arg-type]
        except TypeError:
            raise ValueError(f"option {position}: code {code!r} is not an integer") from None
        if not isinstance(label, str):
            raise ValueError(f"option {position}: label {label!r} is not a string")
        pairs.append((number, label))
    if not pairs:
        raise ValueError("options must hold at least one option")
    if len({code for code, _ in pairs}) < len(pairs):
        raise ValueError("options must not hold a code twice")
    return _cached_table(tuple(pairs))


@lru_cache(maxsize=512)
def _cached_table(pairs: tuple[tuple[int, str], ...]) -> OptionTable:
    return OptionTable(pairs)


_JSON_SPACE = r"[ \t\r\n]*+"


def _plain_pattern(codes: Sequence[int]) -> re.Pattern[str]:
    """Return the pattern of an object with the codes as keys, in order, and small numbers."""
    entries = (
        rf'"{code}"{_JSON_SPACE}:{_JSON_SPACE}((?:0|[1-9]\d{{0,2}}+)(?:\.\d{{1,17}}+)?)'
        for code in codes
    )
    body = rf"{_JSON_SPACE},{_JSON_SPACE}".join(entries)
    # [0-9] only: \d would let other scripts' digits through.
    return re.compile(
        rf"{_JSON_SPACE}\{{{_JSON_SPACE}{body}{_JSON_SPACE}\}}{_JSON_SPACE}".replace(r"\d", "[0-9]")
    )


def is_bijection(found: Iterable[int | None], table: OptionTable) -> bool:
    """Return whether every option is found, and none twice."""
    named = [index for index in found if index is not None]
    return len(named) == len(set(named)) == len(table)
