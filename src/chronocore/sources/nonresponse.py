"""Labels of codes that are no answers: which reason they give, in many languages.

A label is a non-answer when it says nothing else. The words are data
(``chronocore_data/nonresponse.toml``); here a label is taken apart into them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

import chronocore_data

__all__ = ["Reading", "missing_reason", "non_response", "plain_words"]

# Reasons in the order they are looked for: "not available, not applicable" is the latter.
REASONS = ("refused", "don't know", "not asked", "not applicable", "no answer", "other missing")

_NO_LANGUAGES = frozenset({"beside", "head", "opinion"})
# Straight, curly, backward and modifier apostrophes, accents in their place, and joiners.
_APOSTROPHES = re.compile("['\u2019\u2018`\u00b4\u02bc\u2032\uff07\u200c]")
_FOLDED = str.maketrans({"\u0131": "i", "ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})
_TO_NOBODY = re.compile(
    r"^(?:not|never) (?:asked|included|fielded|administered) (?:in|to|of|for|if)\b"
)
# Abbreviations this short may be names of something else.
_SHORT = 3


def plain_words(label: str) -> str:
    """Return a label as words: no case, accents, apostrophes or punctuation.

    Examples
    --------
    >>> plain_words("Don't KNOW / Weiß-nicht"), plain_words("Não sabe")
    ('dont know weiss nicht', 'nao sabe')
    """
    text = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", unicodedata.normalize("NFKC", label)))
    text = "".join(c for c in text.casefold() if not unicodedata.combining(c)).translate(_FOLDED)
    text = unicodedata.normalize("NFC", text)
    return " ".join(re.sub(r"[^\w]+|_+", " ", text).split())


@dataclass(frozen=True, slots=True)
class _Words:
    """Phrases as tuples of words."""

    reasons: dict[tuple[str, ...], str]
    opinions: frozenset[tuple[str, ...]]
    beside: frozenset[tuple[str, ...]]
    heads: tuple[str, ...]
    english: frozenset[tuple[str, ...]]
    longest: int


def _phrases(entries: list[str]) -> set[tuple[str, ...]]:
    return {tuple(plain_words(entry).split()) for entry in entries}


@cache
def _words() -> _Words:
    data = chronocore_data.non_response()
    reasons: dict[tuple[str, ...], str] = {}
    english: set[tuple[str, ...]] = set()
    for language, table in data.items():
        if language in _NO_LANGUAGES:
            continue
        # An abbreviation of two languages has the first one's reason; English comes first.
        for reason in REASONS:
            for phrase in _phrases(table.get(reason, [])):
                reasons.setdefault(phrase, reason)
                if language == "en":
                    english.add(phrase)
    opinions = frozenset(_phrases(data["opinion"]["words"]))
    for phrase in opinions:
        reasons.setdefault(phrase, "don't know")
    beside = frozenset(_phrases(data["beside"]["joining"] + data["beside"]["remarks"]))
    return _Words(
        reasons=reasons,
        opinions=opinions,
        beside=beside,
        heads=tuple(plain_words(word) for word in data["head"]["words"]),
        english=frozenset(english),
        longest=max(map(len, [*reasons, *beside])),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """What a label says about its code.

    Attributes
    ----------
    reason : str or None
        Why the code is no answer; None if the label says something else.
    weak : bool
        With a reason: the words may also be an honest answer, such as "No opinion".
    suspect : str or None
        Without a reason: the reason that the label begins with, before it says something else.
    mentions : bool
        Without a reason: such words are somewhere in it.
    """

    reason: str | None = None
    weak: bool = False
    suspect: str | None = None
    mentions: bool = False


def _better(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> bool:
    """Tell whether phrases say more than others: some at all, and then in fewer parts."""
    return bool(one) and (not other or len(one) < len(other))


def _taken_apart(tokens: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """Return the phrases that words consist of, or None if there are other words in them."""
    words = _words()
    # best[i]: phrases of the first i words, with as few of them as possible.
    best: list[list[tuple[str, ...]] | None] = [[]] + [None] * len(tokens)
    for end in range(1, len(tokens) + 1):
        for start in range(max(0, end - words.longest), end):
            before = best[start]
            part = tokens[start:end]
            if before is None:
                continue
            if part in words.reasons:
                found = [*before, part]
            elif part in words.beside:
                found = before
            else:
                continue
            current = best[end]
            if current is None or _better(found, current):
                best[end] = found
    return best[-1] or None


def _is_abbreviation(phrase: tuple[str, ...]) -> bool:
    text = "".join(phrase)
    return len(text) <= _SHORT and text.isascii()


def _first_reason(phrases: list[tuple[str, ...]]) -> str:
    found = {_words().reasons[phrase] for phrase in phrases}
    return next(reason for reason in REASONS if reason in found)


@lru_cache(maxsize=200_000)
def non_response(label: str) -> Reading:
    """Read a label, without the code that may stand before it.

    Examples
    --------
    >>> non_response("DK / refused").reason, non_response("No opinion either way").reason
    ('refused', None)
    >>> non_response("Weiß nicht").reason, non_response("不知道").reason
    ("don't know", "don't know")
    """
    words = _words()
    text = plain_words(label)
    tokens = tuple(text.split())
    if not tokens:
        return Reading()
    phrases = _taken_apart(tokens)
    if phrases:
        weak = all(
            phrase in words.opinions or (_is_abbreviation(phrase) and phrase not in words.english)
            for phrase in phrases
        )
        return Reading(_first_reason(phrases), weak=weak)
    if _TO_NOBODY.match(text):
        return Reading("not asked")
    for end in range(min(len(tokens), words.longest), 0, -1):
        head = tokens[:end]
        if head not in words.reasons or head in words.opinions:
            continue
        rest = _after(label, head)
        if rest is not None and " ".join(head) in words.heads:
            return Reading(words.reasons[head])
        if rest is not None and re.match(r"\s*[(\[].*[)\]]\s*$", rest):
            # An explanation in brackets, and nothing behind it.
            return Reading(words.reasons[head])
        if not _is_abbreviation(head):
            return Reading(suspect=words.reasons[head], mentions=True)
    mentions = any(
        tokens[i:j] in words.reasons and not _is_abbreviation(tokens[i:j])
        for i in range(len(tokens))
        for j in range(i + 1, min(len(tokens), i + words.longest) + 1)
    )
    return Reading(mentions=mentions)


def _after(label: str, head: tuple[str, ...]) -> str | None:
    """Return what follows the first words of a label, if a separator follows them."""
    wanted = " ".join(head)
    for match in re.finditer(r"[:,;(/\[–—-]", label):
        before = plain_words(label[: match.start()])
        if before == wanted:
            return label[match.start() :]
        if len(before) > len(wanted):
            return None
    return None


def missing_reason(label: str) -> str | None:
    """Return why an answer with this label is none, or None if it is an answer.

    Examples
    --------
    >>> missing_reason("Don't know"), missing_reason("NAP, other"), missing_reason("Agree")
    ("don't know", 'not applicable', None)
    """
    return non_response(label).reason
