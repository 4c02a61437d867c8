"""Characters of an answer: thinking set aside, compatibility forms, folding."""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = [
    "DASHES",
    "EMPHASIS",
    "INVISIBLE",
    "MAX_LINE",
    "MAX_LINES",
    "ORDER_REACH",
    "SIGNS",
    "STRAIGHT_QUOTES",
    "bare_label",
    "fold",
    "nfkc",
    "plain_text",
    "readable",
    "split_thinking",
    "unescape",
    "unfenced",
    "word_set",
]

_MAX_ANSWER = 40_000  # characters; of a longer answer its two ends are read, half from each


MAX_LINE = 2_000  # characters; a longer line is prose


MAX_LINES = 50  # lines of an answer that may repeat the options


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


_THINKING_NAME = r"(?:think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)"


_THINKING_TAG = re.compile(
    rf"<\s?(?P<close>/?)\s?(?:\w{{1,20}}:)?{_THINKING_NAME}(?:\s[^<>]{{0,100}})?>"
    r"|\[(?P<bracket>/?)THINK\]"
    r"|\u25c1(?P<triangle>/?)think\u25b7"
    r"|<\|(?:begin|(?P<ended>end))_of_thought\|>"
    # channels: only the final one is not thinking
    r"|<\|channel\|>\s?(?:(?P<final>final)\b)?"
    r"(?:[^<\n]{0,100}(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>)?",
    re.IGNORECASE,
)


_END_OF_ANSWER = ("<|return|>", "<|end|>")


_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb"


_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2032"


STRAIGHT_QUOTES = str.maketrans(
    dict.fromkeys(_DOUBLE_QUOTES, '"') | dict.fromkeys(_SINGLE_QUOTES, "'")
)


INVISIBLE = str.maketrans(dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""))


DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))


EMPHASIS = str.maketrans(dict.fromkeys("*`", ""))


SIGNS = str.maketrans({"\u2212": "-", "\u066a": "%"})  # minus, Arabic percent


# Digits of Arabic, Persian and Devanagari script, with their decimal and thousands separators.
_DIGITS = str.maketrans(
    {chr(zero + digit): str(digit) for zero in (0x0660, 0x06F0, 0x0966) for digit in range(10)}
    | {"\u066b": ".", "\u066c": ","}
)


# Footnote marks behind a figure, which the compatibility form would make further digits of it.
_FOOTNOTE = re.compile(
    r"(?<=[\d%\u066a\uff05])"
    r"[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089"
    r"\u2460-\u2473\u24ea\u3251-\u325f\u32b1-\u32bf]+"
)


# Runs of other scripts with the letter before them, so that a mark stays with its letter.
_NON_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]{1,256}")


def split_thinking(text: str) -> tuple[str | None, str]:
    """Return the thinking, if any, and the text that counts as the answer."""
    start = 0
    for tag in _THINKING_TAG.finditer(text):
        if any(tag.groupdict().values()):  # it closes
            start = tag.end()
    if _THINKING_TAG.search(text, start):  # opened again and never closed: no answer
        start = len(text)
    thinking = _THINKING_TAG.sub("", text[:start]).strip()
    answer = text[start:]
    if thinking:
        for mark in _END_OF_ANSWER:
            answer = answer.rstrip().removesuffix(mark)
    return thinking or None, answer


def nfkc(text: str) -> str:
    """Return the compatibility form of a text, without footnote marks behind figures.

    The standard library sorts a run of combining marks in quadratic time, hence the short runs.
    """
    if text.isascii():
        return text
    text = _FOOTNOTE.sub("", text)
    return _NON_ASCII.sub(lambda run: unicodedata.normalize("NFKC", run.group()), text)


def readable(answer: str) -> str:
    """Return what is read of an answer: its characters normalised, no more than can be examined.

    What was asked for has some hundred characters, and stands at the end of reasoning or before
    an endless repetition. An answer that is far longer is hostile or a loop.
    """
    return _ends(nfkc(_ends(answer))).translate(_DIGITS)  # one character can become eighteen


def _ends(text: str) -> str:
    """Return a text, or the whole lines at both ends of one that is too long.

    Where it was cut stands what no form of answer goes on over, so that nothing is put together of
    two halves. Lines too long to be read as such are cut anywhere.
    """
    if len(text) <= _MAX_ANSWER:
        return text
    head, tail = text[: _MAX_ANSWER // 2], text[-_MAX_ANSWER // 2 :]
    last = head.rfind("\n", len(head) - MAX_LINE)
    head = head if last < 0 else head[:last]
    tail = tail[tail.find("\n", 0, MAX_LINE) + 1 :]
    if not head.strip() or not tail.strip():
        return head + tail
    return f"{head}\n:\n{tail}"


def plain_text(text: str) -> str:
    """Return a text as it is compared with labels: folded, without emphasis, dashes alike."""
    return fold(text).translate(EMPHASIS).translate(DASHES)


def fold(text: str) -> str:
    """Return a label as it is compared: case-folded, spaces collapsed, quotes straightened."""
    folded = nfkc(nfkc(text).casefold())
    return " ".join(folded.translate(INVISIBLE).translate(STRAIGHT_QUOTES).split())


def bare_label(folded: str) -> str:
    """Return a folded label without Markdown emphasis and the punctuation around it."""
    plain = folded.translate(EMPHASIS).translate(DASHES)
    return plain.strip(" \"'()[].,:;!?#") or folded


def unescape(text: str) -> str:
    """Return the content of a quoted string with its escapes resolved."""
    if "\\" not in text:
        return text
    try:
        decoded: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        decoded = re.sub(r"\\(.)", r"\1", text)
    return nfkc(decoded)


def unfenced(text: str) -> str:
    """Return a text without the lines that open and close code fences."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("```"))
    return "\n".join(lines).strip()


ORDER_REACH = 400  # characters around a list in which its order may be stated
