"""The forms an answer can have, the one that counts most first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chronocore.parsing.answers import Answer
from chronocore.parsing.characters import MAX_LINE
from chronocore.parsing.containers import (
    Container,
    NearReader,
    Scan,
    StrictReader,
    scan_containers,
    without_comments,
)
from chronocore.parsing.lines import line_answers, table_answers
from chronocore.parsing.lists import list_answers, number_texts
from chronocore.parsing.objects import json_answers
from chronocore.parsing.options import OptionTable
from chronocore.parsing.wrappings import untagged

__all__ = [
    "answer_forms",
]


def answer_forms(
    text: str, table: OptionTable, finish_reason: str | None
) -> Iterator[list[Answer]]:
    """Yield the answers of each form, the form that counts most first (step 2).

    After ``length`` only what is closed can be complete, and nothing inside an unclosed
    container is.
    """
    cut = finish_reason == "length"
    strict = scan_containers(StrictReader(text))
    near: Scan | None = None
    limit = len(text)
    if cut:
        near = scan_containers(NearReader(text))
        limit = min(strict.limit(limit), near.limit(limit))
    bare = without_comments(text)
    closed = strict.closed
    if bare is not text:  # what stands in a comment is no answer
        closed = [one for one in closed if bare[one.start] == text[one.start]]
    yield json_answers(closed, table, limit, strict=True)
    if near is None:
        near = scan_containers(NearReader(text))
    containers = [*_quoted_containers(strict.closed), *near.closed]
    if near.unclosed and near.after_value and finish_reason == "stop":
        containers.append(near.unclosed)
    yield json_answers(containers, table, limit, strict=False)
    outside = untagged(_outside_objects(text, near))
    if not cut:
        lines = [line for line in outside.splitlines() if len(line) <= MAX_LINE]
        yield line_answers(lines, table, half_written=finish_reason in ("unknown", "error"))
        yield table_answers(lines, table)
    positional = list_answers(near.closed, text, table, limit)
    if not positional and not cut:
        positional = number_texts(outside, table, alone=outside == text)
    yield positional


def _quoted_containers(containers: Sequence[Container]) -> list[Container]:
    """Return the containers inside strings of containers: JSON that was encoded twice."""
    found: list[Container] = []
    for container in containers:
        for place, value in enumerate(container.values):
            if not isinstance(value, str) or "{" not in value or ":" not in value:
                continue
            for inner in scan_containers(StrictReader(value)).closed:
                inner.start = inner.end = container.start
                if inner.parent is None:
                    inner.parent, inner.nested = container, True
                    inner.key = container.keys[place] if place < len(container.keys) else None
                found.append(inner)
    return found


def _outside_objects(text: str, scan: Scan) -> str:
    """Return the text outside objects, closed or not, so that no number counts twice."""
    pieces: list[str] = []
    position = 0
    for container in scan.closed:
        if container.kind == "object" and not container.nested and container.start >= position:
            pieces.append(text[position : container.start])
            position = container.end
    end = len(text)
    if scan.unclosed and scan.unclosed.kind == "object":
        end = scan.unclosed.start
    pieces.append(text[position : max(position, end)])
    return "\n".join(pieces)
