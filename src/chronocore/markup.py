"""Text as cells of CSV, Markdown and LaTeX, where a sign may mean more than itself.

All that these formats write goes through here, so that no label becomes a formula of a
spreadsheet, a link or a command.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from chronocore.text import plain

__all__ = ["csv_text", "latex_text", "markdown_name", "markdown_text"]

# What spreadsheets take for the beginning of a formula; some read the wide forms alike.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
        "−": "$-$", "×": r"$\times$", "–": "--", "σ": r"$\sigma$",
    }
)  # fmt: skip
_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "&": "&amp;", "<": "&lt;", "`": "\\`"})
_EMPHASIS = re.compile(r"[*\[\]~]|(?<!\w)_|_(?!\w)")


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = plain(value, None)
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV.

    Numbers stay numbers, None is empty, lists are joined by semicolons. A text that a
    spreadsheet would run as a formula gets an apostrophe in front, which spreadsheets hide.

    Examples
    --------
    >>> print(csv_text(["label", "estimate"], [["=1+1", -2.5], ["gpt", None]]), end="")
    label,estimate
    '=1+1,-2.5
    gpt,
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([_csv_cell(head) for head in header])
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return sink.getvalue()


def markdown_text(text: str) -> str:
    r"""Return text for a line or a table cell of Markdown: no HTML, no column, no link.

    Examples
    --------
    >>> markdown_text("a|b <i> [x](y)")
    'a\\|b &lt;i> [x]\\(y)'
    """
    return plain(text, None).translate(_MARKDOWN).replace("](", "]\\(")


def markdown_name(text: str) -> str:
    r"""Return a name for a table cell of Markdown, in which no sign is emphasis either.

    Examples
    --------
    >>> markdown_name("my_model*")
    'my_model\\*'
    """
    return _EMPHASIS.sub(lambda sign: f"\\{sign.group()}", plain(text, None).translate(_MARKDOWN))


def latex_text(text: str) -> str:
    r"""Return text as LaTeX sets it, sign by sign.

    Examples
    --------
    >>> latex_text("50% of a_b")
    '50\\% of a\\_b'
    """
    return plain(text, None).translate(_LATEX)
