"""What value labels say: the code before them, and whether a scale is the one it should be.

Labels of the same answer are worded differently from file to file ("Very important", "1. very").
They are compared by their words, and a label is held against that of every option: a
contradiction is a label that fits another option better than its own, or none at all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from chronocore.sources.catalog import CatalogItem
from chronocore.sources.nonresponse import missing_reason

__all__ = [
    "LabelConflict",
    "clean_label",
    "clean_labels",
    "compare_labels",
    "doubtful_order",
    "same_label",
    "says_nothing",
    "unconfirmed",
]

# A label fits an option from here on, and fits another one better by at least this much.
FITS = 0.25
CONFIRMS = 0.5
BETTER = 0.15
# What is left of the likeness of two labels of which only one says no.
NEGATED = 0.6

_NEGATIONS = frozenset({"not", "no", "never", "none", "without"})

_MIDDLE = re.compile(
    r"^(?:neither|both|(?:it )?depends|undecided|not sure|other|don ?t mind|no difference)\b"
)


@dataclass(frozen=True, slots=True)
class LabelConflict:
    """A contradiction between a file's label and what was expected.

    ``kind`` is ``reversed`` (the scale runs the other way), ``moved`` (the label of another
    option), ``different`` (the label of none), ``extra`` (a labelled answer that is no option) or
    ``missing`` (an option that the file declares missing).
    """

    variable: str
    kind: str
    code: int
    label: str
    expected: str | None
    where: str

    def message(self) -> str:
        """Return the contradiction in words, with both labels."""
        place = f"{self.variable} in {self.where}: code {self.code} is labelled {self.label!r}"
        if self.kind == "extra":
            return f"{place}, which is no option of the catalog"
        if self.kind == "missing":
            return f"{place} and declared missing, but it is an option of the catalog"
        if self.kind == "reversed":
            return f"{place} and should be {self.expected!r}: the scale runs the other way"
        return f"{place} and should be {self.expected!r}"


# A code before a label is one only if a separator follows it: "1. Agree", "(1) Agree", "1 = Agree".
# "1 hour", "2 or more", "1-2 times", "1.5 hours" and "10%" are labels as they stand.
_SEPARATED = (
    r"^[\[(]\s*0*{code}\s*[\])]\s*[.:=–-]*\s*(?=[^\W\d]|\d+\b)",
    r"^0*{code}\s*(?:\)|\]|:|=|=>|->|\.(?!\d))\s*[–-]?\s*(?=\S)",
    r"^0*{code}\s*[–—-]\s*(?=[^\W\d]|[\"'“(])",
    r"^0*{code}\s*,\s+(?=[^\W\d])(?!(?:or|and|to|oder|und|bis|ou|et|y|o|e)\b)",
)
# What may stand between a number and the thing that is counted: "3 or more children".
_AMOUNT = re.compile(r"^(?:or|and|to|oder|und|bis|ou|et|à|o|u|y|e|of|en|tot|times?)\b")


def clean_label(label: str, code: int) -> str:
    """Return a label without the code that some files repeat before it, and a separator.

    Examples
    --------
    >>> clean_label("1. Very important", 1), clean_label("1 hour", 1), clean_label("5", 5)
    ('Very important', '1 hour', '5')
    """
    text = " ".join(label.split())
    number = rf"[-−]\s*{-code}" if code < 0 else str(code)
    for pattern in _SEPARATED:
        match = re.match(pattern.replace("{code}", number), text)
        if match:
            return text[match.end() :]
    return text


def _counts_something(rests: list[str]) -> bool:
    """Tell whether what follows the codes is counted by them: hour, hours, hours or more."""
    if any(_AMOUNT.match(rest) for rest in rests):
        return True
    stems = [re.match(r"[^\W\d]*", rest.casefold()) for rest in rests]
    firsts = [stem[0] if stem else "" for stem in stems]
    shortest = min(firsts, key=len)
    alike = len(shortest) > 2 and all(first.startswith(shortest) for first in firsts)
    # "1 Stunde", "2 Stunden"; but "1 Would help", "2 Would not help".
    return alike and (len(set(firsts)) > 1 or not any(rest[0].isupper() for rest in rests))


def clean_labels(labels: Mapping[int, str]) -> dict[int, str]:
    """Return the labels of one question without the codes before them.

    A number without a separator is the code only if every label of the question has its own.

    Examples
    --------
    >>> clean_labels({1: "1 Agree", 2: "2 Disagree"}), clean_labels({1: "1 hour", 2: "2 hours"})
    ({1: 'Agree', 2: 'Disagree'}, {1: '1 hour', 2: '2 hours'})
    """
    cleaned = {code: clean_label(label, code) for code, label in labels.items()}
    rests: dict[int, str] = {}
    for code, label in cleaned.items():
        if re.fullmatch(rf"0*{code} 0*{code}", label):
            rests[code] = str(code)
            continue
        if says_nothing(label):
            continue
        match = re.match(rf"^0*{code}\s+(?=[^\W\d])", label)
        if match is None:
            return cleaned
        rests[code] = label[match.end() :]
    if len(rests) < 2 or _counts_something(list(rests.values())):
        return cleaned
    return cleaned | rests


def _words(label: str) -> str:
    return " ".join(re.sub(r"[^\w]+", " ", label.casefold()).split())


def says_nothing(label: str | None) -> bool:
    """Tell whether a label is empty or only repeats a number."""
    return label is None or not _words(label) or bool(re.fullmatch(r"[\d ]+", _words(label)))


@lru_cache(maxsize=100_000)
def _likeness(one: str, other: str) -> float:
    """Return how alike two labels are, from 0 to 1, mostly by the words they share."""
    a, b = _words(one), _words(other)
    if a == b:
        return 1.0
    left, right = set(a.split()), set(b.split())
    union = left | right
    shared = len(left & right) / len(union) if union else 0.0
    alike = 0.6 * shared + 0.4 * difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
    # "Not an essential characteristic" shares all but one word with its opposite.
    return alike if bool(left & _NEGATIONS) == bool(right & _NEGATIONS) else alike * NEGATED


def same_label(one: str, other: str) -> bool:
    """Tell whether two labels are the same but for case, spaces and punctuation."""
    return _words(one) == _words(other)


def _fit(label: str, expected: Iterable[str]) -> float:
    return max(
        (_likeness(label, other) for other in expected if not says_nothing(other)), default=0.0
    )


def compare_labels(
    variable: str,
    found: Mapping[int, str],
    expected: Mapping[int, tuple[str, ...]],
    known: Iterable[int],
    where: str,
) -> list[LabelConflict]:
    """Hold the labels of a file against those expected.

    Parameters
    ----------
    variable, where : str
        For messages.
    found : dict of int to str
        Labels in the file, by the code an answer gets; missing codes are not among them.
    expected : dict of int to tuple of str
        Labels of every option, in the order of the scale: the label and its other spellings.
    known : iterable of int
        Codes besides the options that are known not to be options.

    Returns
    -------
    list of LabelConflict
        Empty if nothing contradicts. A label that says nothing contradicts nothing.
    """
    conflicts: list[LabelConflict] = []
    moved: dict[int, int] = {}
    order = list(expected)
    off = set(known)
    cleaned = clean_labels(found)
    for code, raw in found.items():
        label = cleaned[code]
        if says_nothing(label) or code in off:
            continue
        if code not in expected:
            if missing_reason(label) is None:
                conflicts.append(LabelConflict(variable, "extra", code, raw, None, where))
            continue
        own = _fit(label, expected[code])
        best, other = max((_fit(label, expected[c]), c) for c in order if c != code)
        shown = expected[code][0]
        if best >= CONFIRMS and (best > own + BETTER or best == 1.0 > own):
            moved[code] = other
            conflicts.append(LabelConflict(variable, "moved", code, raw, shown, where))
        elif own < FITS and not says_nothing(shown):
            conflicts.append(LabelConflict(variable, "different", code, raw, shown, where))
    mirror = dict(zip(order, reversed(order), strict=True))
    if len(moved) >= 2 and all(mirror[code] == other for code, other in moved.items()):
        conflicts = [
            LabelConflict(c.variable, "reversed", c.code, c.label, c.expected, c.where)
            if c.kind == "moved"
            else c
            for c in conflicts
        ]
    return conflicts


def unconfirmed(item: CatalogItem, found: Mapping[int, str]) -> str | None:
    """Return the first option that a file's labels do not confirm, in words, or None.

    An option that the catalog only numbers needs no label.
    """
    expected = {option.code: (option.label, *option.aliases) for option in item.scale}
    cleaned = clean_labels(found)
    for code, names in expected.items():
        label = found.get(code)
        if says_nothing(label):
            if says_nothing(names[0]):
                continue
            return f"code {code} should be {names[0]!r} and has no label"
        shown = cleaned[code]
        if _fit(shown, names) < CONFIRMS:
            return f"code {code} should be {names[0]!r} and is labelled {label!r}"
    off = [option.code for option in item.options if option.off_scale]
    conflicts = compare_labels(item.variable, found, expected, off, "the file")
    return conflicts[0].message() if conflicts else None


def doubtful_order(labels: list[str]) -> str | None:
    """Return the label at an end of a scale that reads like its middle, if there is one.

    Examples
    --------
    >>> doubtful_order(["Agree", "Disagree", "Neither"])
    'Neither'
    """
    if len(labels) < 3:
        return None
    return next((t for t in (labels[0], labels[-1]) if _MIDDLE.match(_words(t))), None)
