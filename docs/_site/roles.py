"""Docstrings use a few Sphinx roles; show them as code in the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")
_MATH = re.compile(r"^\.\. math:: (.+)$", re.MULTILINE)


class Roles(griffe.Extension):
    """Replace roles by plain code and formulas by code blocks."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object before it is parsed."""
        if obj.docstring is None:
            return
        text = _ROLE.sub(r"`\1`", obj.docstring.value)
        obj.docstring.value = _MATH.sub(r"    \1", text)
