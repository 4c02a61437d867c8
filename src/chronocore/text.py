"""Text that others wrote, made safe to show and to file.

Labels, model names, reasons, groups, topics and names of countries come from files, servers and
command lines. :func:`plain` cleans them once, where they enter, so that a terminal, CSV, Markdown,
LaTeX and HTML need not each remember what could be hidden in them. What a model answered and what
it was asked stay as they are; :func:`visible` is for the places that print them.
"""

from __future__ import annotations

import unicodedata

__all__ = ["LONGEST", "LONGEST_NAME", "is_plain_name", "plain", "visible"]

#: Most characters of a label, a reason or the name of a thing; what is longer is cut.
LONGEST = 200

#: Most characters of the name of a run or a model in tables.
LONGEST_NAME = 100

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Categories of control characters, line and paragraph separators, which part words.
_BREAKS = frozenset({"Cc", "Zl", "Zp"})


def _without_hidden(text: str) -> str:
    """Return text without what no one sees: breaks become spaces, formatting goes."""
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if category in _BREAKS:
            kept.append(" ")
        elif category == "Cs" or ord(character) & 0xFFFE == 0xFFFE:
            kept.append(_REPLACEMENT)  # half a surrogate pair, or no character at all
        elif category != "Cf":
            kept.append(character)
    return "".join(kept)


def plain(text: str, limit: int | None = LONGEST) -> str:
    r"""Return text as one line of visible characters.

    Parameters
    ----------
    text : str
        Any text.
    limit : int, optional
        Most characters of the result, at least 1; what is longer is cut and ends in ``…``. None
        cuts nothing.

    Returns
    -------
    str
        In Unicode's composed form (NFC). Control characters and line breaks are spaces, several
        spaces are one, none is at an end. Marks of direction and of width zero are gone. A lone
        half of a surrogate pair is U+FFFD. May be empty. Cleaned again it stays the same.

    Examples
    --------
    >>> plain("a\nb\x1b[31m\u202e c")
    'a b [31m c'
    >>> plain("Rather important", 8)
    'Rather…'
    """
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", _without_hidden(text))
    text = " ".join(text.split())
    return text if limit is None or len(text) <= limit else text[: limit - 1].rstrip() + "…"


def is_plain_name(name: str) -> bool:
    r"""Return whether a name can be taken as it was given: short, visible, all on one line.

    Composed and decomposed letters are the same; :func:`plain` gives the one form.

    Examples
    --------
    >>> is_plain_name("Llama 3"), is_plain_name(" x"), is_plain_name("a\tb"), is_plain_name("")
    (True, False, False, False)
    """
    composed = unicodedata.normalize("NFC", name)
    return bool(name) and name.isprintable() and plain(name, LONGEST_NAME) == composed


def visible(text: str, limit: int | None = None) -> str:
    r"""Return a text of several lines with what is hidden in it made visible.

    For an answer or a prompt where it is printed: line breaks and tabs stay, any other
    character that is not printable is U+FFFD.

    Parameters
    ----------
    text : str
    limit : int, optional
        What is longer is cut to so many characters and ends in `` …``.

    Examples
    --------
    >>> visible("1: 20\n2: 80\x07") == "1: 20\n2: 80\ufffd"
    True
    """
    text = "".join(
        c if c in "\n\t" or c.isprintable() or unicodedata.category(c) == "Zs" else _REPLACEMENT
        for c in text
    )
    return text if limit is None or len(text) <= limit else text[:limit] + " …"
