"""What value labels say: why an answer is missing, and whether a scale is the one it should be.

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

__all__ = [
    "LabelConflict",
    "clean_label",
    "compare_labels",
    "doubtful_order",
    "missing_reason",
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

# Reasons in the order they are looked for: "not available, not applicable" is the latter.
_REASONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile("|".join(patterns)))
    for reason, patterns in (
        ("refused", (r"\brefus(?:ed|al|es)\b",)),
        (
            "don't know",
            (r"\bdon ?t know\b", r"\bcan ?(?:t|not) (?:choose|say)\b", r"\bno opinion\b", r"^dk\b"),
        ),
        (
            "not asked",
            (
                r"\bnot (?:asked|available)\b",
                r"\bnot in(?:cluded)? (?:the )?survey\b",
                r"\bskipped\b",
                r"^nav\b",
            ),
        ),
        ("not applicable", (r"\bnot applicable\b", r"\binapplicable\b", r"^[ni]ap\b")),
        ("no answer", (r"\bno answer\b", r"\bnot answered\b", r"^na\b")),
        (
            "other missing",
            (
                r"\bmissing\b",
                r"\bunknown\b",
                r"\bnot (?:codable|classifiable)\b",
                r"\buncodeable\b",
            ),
        ),
    )
)

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


def clean_label(label: str, code: int) -> str:
    """Return a label without the code that some files repeat before it.

    Examples
    --------
    >>> clean_label("1. Very important", 1), clean_label("10 Always", 10), clean_label("5", 5)
    ('Very important', 'Always', '5')
    """
    text = " ".join(label.split())
    match = re.match(
        rf"^[\[(]?{code}\s*[\])]?\s*[.:,=–-]*\s+(?=\S)|^{code}\s*[.:,=–-]+(?=\D)", text
    )
    return text[match.end() :] if match else text


def _words(label: str) -> str:
    return " ".join(re.sub(r"[^\w]+", " ", label.casefold()).split())


def says_nothing(label: str | None) -> bool:
    """Tell whether a label is empty or only repeats a number."""
    return label is None or not _words(label) or bool(re.fullmatch(r"[\d ]+", _words(label)))


def missing_reason(label: str) -> str | None:
    """Return why an answer with this label is none, or None if it is an answer.

    Examples
    --------
    >>> missing_reason("Don't know"), missing_reason("NAP, other"), missing_reason("Agree")
    ("don't know", 'not applicable', None)
    """
    text = _words(label)
    return next((reason for reason, pattern in _REASONS if pattern.search(text)), None)


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
    for code, raw in found.items():
        label = clean_label(raw, code)
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
    for code, names in expected.items():
        label = found.get(code)
        if says_nothing(label):
            if says_nothing(names[0]):
                continue
            return f"code {code} should be {names[0]!r} and has no label"
        shown = clean_label(str(label), code)
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
