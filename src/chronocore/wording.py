"""Short wordings of questions, for pages and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chronocore.text import plain

__all__ = ["wordings"]

#: Questions that start alike for so many characters are told apart by what follows.
_SHARED = 40
_BEFORE = 18
_WORDING = 76


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))


def _cut(text: str, limit: int) -> str:
    """Cut text at the last word that fits."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    whole = head.rsplit(" ", 1)[0] if " " in head and text[limit - 1] != " " else head
    return whole.rstrip(" ,;:.") + "…"


def wordings(items: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return a short wording of every question, by survey and variable.

    Questions that begin with the same words keep the words in which they differ.
    """
    texts = {(i["survey"], i["variable"]): plain(i["text"], None) for i in items}
    # Of sorted texts, the neighbours share the longest beginning.
    ordered = sorted(set(texts.values()))
    shared = dict.fromkeys(ordered, 0)
    for a, b in pairwise(ordered):
        length = _common(a, b)
        shared[a], shared[b] = max(shared[a], length), max(shared[b], length)
    short = {}
    for key, text in texts.items():
        start = text.rfind(" ", 0, shared[text]) + 1
        # A few of the shared words before, unless a sentence or a list begins here.
        back = text.rfind(" ", 0, max(start - _BEFORE, 0)) + 1
        begun = [
            text.rfind(mark, back, start) + 2
            for mark in (": ", ". ", "? ")
            if text.rfind(mark, back, start) >= 0
        ]
        rest = text[max([back, *begun]) :]
        if shared[text] >= _SHARED and text[start:].strip(" .?!") and len(text) > _WORDING:
            head = text[: text.find(" ", 16)]
            short[key] = f"{head} … {_cut(rest, _WORDING - len(head) - 3)}"
        else:
            short[key] = _cut(text, _WORDING)
    return short
