"""The distribution of an answer, or the first reason against it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chronocore.parsing.answers import Answer, Reading, first_reason
from chronocore.parsing.asides import unknown_reason
from chronocore.parsing.characters import plain_text
from chronocore.parsing.containers import Raw
from chronocore.parsing.matching import matches
from chronocore.parsing.options import OptionTable
from chronocore.parsing.values import (
    SUM_TOLERANCE,
    Kind,
    beside_value,
    exact_sum,
    is_off,
    read_values,
    settle_units,
)
from chronocore.tolerance import ATOL

__all__ = [
    "normalise",
    "read_answer",
]


def read_answer(answer: Answer, table: OptionTable, max_sum_error: float | None) -> Reading:
    """Return the distribution of an answer, or the first reason against it."""
    found = matches(answer, table)
    reasons: set[str] = set()
    positions: list[int] = []
    texts: list[Raw] = []
    for entry, index in zip(answer.entries, found, strict=True):
        if index is None:
            reasons.add(unknown_reason(entry, table) or "")
        else:
            positions.append(index)
            texts.append(entry.value)
            beside = beside_value(entry.value)
            if beside and table.by_name.get(plain_text(beside), index) not in (index, None):
                reasons.add("unknown_option")  # the label beside the value is another one's
    values = read_values(texts)
    kinds = {value.kind for value in values}
    reasons.update(_KIND_REASONS[kind] for kind in kinds if kind in _KIND_REASONS)
    if answer.positional:
        if len(values) != len(table):
            reasons.add("length_mismatch")
    else:
        if len(set(positions)) < len(positions):
            reasons.add("duplicate_option")
        if len(set(positions)) < len(table):
            reasons.add("missing_option")
    numbers = settle_units([value for value in values if value.kind is Kind.NUMBER])
    if numbers is None:
        reasons.add("mixed_units")
    first = first_reason(reasons)
    if first is not None or numbers is None:
        return Reading(first)
    return normalise(numbers, positions, max_sum_error)


_KIND_REASONS = {
    Kind.INTERVAL: "range",
    Kind.TEXT: "not_numeric",
    Kind.NOT_FINITE: "not_finite",
}


def normalise(
    numbers: Sequence[float], positions: Sequence[int], max_sum_error: float | None
) -> Reading:
    """Return the numbers, one an option, divided by their sum."""
    raw_sum = exact_sum(numbers)
    if not math.isfinite(raw_sum):
        return Reading("not_finite")
    sum_off = is_off(raw_sum, SUM_TOLERANCE)
    if raw_sum <= ATOL:
        return Reading("no_mass", None, raw_sum, sum_off)
    if max_sum_error is not None and is_off(raw_sum, max_sum_error):
        return Reading("sum_off", None, raw_sum, sum_off)
    probs = [0.0] * len(numbers)
    for number, position in zip(numbers, positions, strict=True):
        probs[position] = number / raw_sum
    return Reading(None, tuple(probs), raw_sum, sum_off)
