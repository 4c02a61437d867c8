"""What other formats wrap an answer in: LaTeX, JSON strings, turn markers, tags."""

from __future__ import annotations

import json
import re

from chronocore.parsing.characters import word_set
from chronocore.parsing.names import name_words

__all__ = [
    "untagged",
    "unwrapped",
]

_LATEX_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:bf|rm|it|sf)|emph|operatorname)\s?\{([^{}\\]{0,500})\}"
)


_LATEX_MARK = re.compile(r"\\([{}%_#&$])|\\[()\[\],;!]|\$(?=[^$\n]{1,200}\$)|(?<=[\w}%)\]])\$")


_MARKER = re.compile(
    r"<\|[^|<>\n]{1,40}\|>(?:assistant\b|user\b|system\b|final\b)?|</?s>|\[/?(?:INST|ASSISTANT"
    r"|ASST)\]"
    r"|<(?:start|end)_of_turn>(?:model\b)?|(?:\A|(?<=\n))(?:Assistant|ASSISTANT)\s?:"
)


_INLINE_TAG = re.compile(
    r"</?(?:b|strong|i|em|u|mark|code|span|font|small|big)(?:\s[^<>]{0,80})?>", re.I
)


_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w-]{0,30})\s?/?>")


_LAYOUT_TAGS = word_set("p br div ul ol li pre html body table tr td th h1 h2 h3 h4 hr section")


def unwrapped(text: str) -> str:
    """Return an answer without what other formats wrap it in: LaTeX, a JSON string."""
    if "<!--" in text:
        text = _without_html_comments(text)
    if "\\" in text:
        whole = text.strip()
        if len(whole) > 1 and whole[0] == whole[-1] == '"' and '\\"' in whole:
            try:
                decoded = json.loads(whole, strict=False)
            except ValueError:
                decoded = None
            if isinstance(decoded, str):
                text = decoded
        elif '\\"' in text and re.search(r'(?<!\\)"', text) is None:
            text = text.replace('\\"', '"').replace("\\n", "\n")
        if "\\" in text and '\\"' not in text:
            text = _LATEX_TEXT.sub(r"\1", text)
            text = _LATEX_MARK.sub(lambda mark: mark[1] or "", text)
    return text


def _without_html_comments(text: str) -> str:
    pieces: list[str] = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start)) >= 0:
        pieces.append(text[position:start])
        position = end + 3
    return "".join([*pieces, text[position:]])


def untagged(text: str) -> str:
    """Return a text without the tags around its parts; a tag's name becomes a heading."""
    if "<" not in text and "[" not in text and "ssistant" not in text and "ASSISTANT" not in text:
        return text
    text = _INLINE_TAG.sub("", _MARKER.sub("\n", text))

    def heading(tag: re.Match[str]) -> str:
        name = tag["name"].casefold()
        if tag["close"] or name in _LAYOUT_TAGS or not name_words(f"{name}:")[-1:] > [""]:
            return "\n"
        return f"\n{name}:\n"

    return _TAG.sub(heading, text)
