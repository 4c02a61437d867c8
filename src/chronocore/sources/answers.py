"""Raw columns -> answers that are options, and reasons for those that are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore.errors import SourceError
from chronocore.sources.files import is_blank, parse_number
from chronocore.sources.labels import same_label
from chronocore.sources.nonresponse import missing_reason
from chronocore.sources.presets import LETTERS, VALID, MissingCodes

__all__ = [
    "NOT_IN_THE_FILE",
    "NOT_ON_SCALE",
    "Answers",
    "Coding",
    "code_answers",
    "distinct_values",
]

# Reasons why there is no answer.
NOT_IN_THE_FILE = "not in the file"
NOT_ON_SCALE = "not on the scale"
OFF_SCALE = "off scale"
NO_VALUE = "no value in the file"
FILE_MISSING = "declared missing in the file"

_LETTER_OF = {code: f".{letter}" for letter, code in LETTERS.items()}

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Coding:
    """What the codes of one column mean.

    Attributes
    ----------
    options : dict of int to int
        Codes in the file to codes of the options.
    names : dict of int to tuple of str
        Labels of the options by their code, for files that hold labels in place of codes.
    off_scale : dict of int to tuple of str
        Codes in the file of answers that are no options, and their labels.
    labels : dict of int to str
        The file's own value labels.
    user_missing : sequence of (float, float)
        Ranges that the file declares missing.
    missing : MissingCodes
        Missing codes declared for the survey.
    listed : set of int
        Codes that the user lists as the scale: answers, whatever the file declares.
    table_first : bool
        The survey documents one table of negative codes for all of its questions; it goes before
        their labels.
    texts : dict of str to str
        The file's labels of values that are text.
    """

    options: Mapping[int, int]
    names: Mapping[int, tuple[str, ...]]
    off_scale: Mapping[int, tuple[str, ...]]
    labels: Mapping[int, str]
    user_missing: Sequence[tuple[float, float]]
    missing: MissingCodes
    listed: frozenset[int] = frozenset()
    table_first: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)

    def _declared(self, code: int) -> str | None:
        """Return the reason of a code: the user's, its label's, or the habit of the survey."""
        own = self.missing.own(code)
        if own is not None and own != VALID:
            return own
        label = self.labels.get(code)
        named = missing_reason(label) if label else None
        habit = self.missing.habit(code)
        if self.table_first and code < 0 and code not in _LETTER_OF:
            return habit or named
        return named or habit

    def reason(self, code: int) -> str:
        """Return why a code that is no option is no answer."""
        declared = self._declared(code)
        if any(low <= code <= high for low, high in self.user_missing):
            return declared or FILE_MISSING
        if code in self.off_scale:
            return OFF_SCALE
        if declared:
            return declared
        if code in _LETTER_OF:
            return f"missing {_LETTER_OF[code]}"
        return NOT_ON_SCALE

    def read(self, value: Value) -> int | str:
        """Return the option that a value is, or the reason why it is none.

        Raises
        ------
        ValueError
            A text that is neither a code, nor a label, nor a reason.
        """
        if value is None:
            return NO_VALUE
        if isinstance(value, str):
            number = parse_number(value)
            if number is None:
                for code, names in self.names.items():
                    if any(same_label(value, name) for name in names):
                        return code
                for names in self.off_scale.values():
                    if any(same_label(value, name) for name in names):
                        return OFF_SCALE
                if is_blank(value):
                    return NO_VALUE
                if value in self.texts:
                    # A letter with a label is what the label says.
                    return replace(self, texts={}).read(self.texts[value])
                reason = missing_reason(value)
                if reason is None:
                    raise ValueError(value)
                return reason
            value = number
        if not math.isfinite(value) or value != int(value):
            return NOT_ON_SCALE
        code = int(value)
        answer = code in self.listed or self.missing.own(code) == VALID
        if not answer and any(low <= code <= high for low, high in self.user_missing):
            return self.reason(code)
        option = self.options.get(code)
        return self.reason(code) if option is None else option


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one question.

    Attributes
    ----------
    column : pyarrow.Array
        Option codes, int8 or int16, null where there is no answer.
    values : list
        The distinct values in the file.
    meaning : list of int or str
        The option or the reason of each distinct value.
    counts : (G, D) int64
        Rows by group and distinct value.
    """

    column: pa.Array
    values: list[Value]
    meaning: list[int | str]
    counts: NDArray[np.int64]

    def by_option(self) -> dict[int, NDArray[np.int64]]:
        """Return the number of answers in each group, by option."""
        totals: dict[int, NDArray[np.int64]] = {}
        for place, meaning in enumerate(self.meaning):
            if isinstance(meaning, int):
                totals[meaning] = totals.get(meaning, 0) + self.counts[:, place]
        return totals

    def by_reason(self) -> dict[str, NDArray[np.int64]]:
        """Return the number of missing answers in each group, by reason."""
        totals: dict[str, NDArray[np.int64]] = {}
        for place, meaning in enumerate(self.meaning):
            if isinstance(meaning, str):
                totals[meaning] = totals.get(meaning, 0) + self.counts[:, place]
        return totals

    def undeclared(self) -> dict[str, int]:
        """Return the values that are neither options nor declared missing, with their counts."""
        return {
            str(value): int(self.counts[:, place].sum())
            for place, (value, meaning) in enumerate(zip(self.values, self.meaning, strict=True))
            if meaning == NOT_ON_SCALE
        }


def distinct_values(column: pa.ChunkedArray) -> tuple[list[Value], NDArray[np.int64]]:
    """Return the distinct values of a column, and the place of each row's among them.

    Null is one of them, and comes last.
    """
    if pa.types.is_dictionary(column.type):
        encoded = column.combine_chunks()
        texts: list[Value] = encoded.dictionary.to_pylist()
        place = np.asarray(pc.fill_null(encoded.indices, len(texts)).to_numpy(), dtype=np.int64)
        return [*texts, None], place
    if pa.types.is_integer(column.type) and column.type.bit_width <= 16:
        missing = 2 ** (column.type.bit_width - 1)
        if column.null_count == 0:
            numbers = np.asarray(column.to_numpy(), dtype=np.int32)
        else:
            filled = pc.fill_null(column.cast(pa.int32()), missing)
            numbers = np.asarray(filled.to_numpy(), dtype=np.int32)
        used = np.bincount(numbers + missing, minlength=2 * missing + 1)
        present = np.flatnonzero(used[: 2 * missing])
        lookup = np.full(2 * missing + 1, len(present), dtype=np.int64)
        lookup[present] = np.arange(len(present))
        return [*map(int, present - missing), None], lookup[numbers + missing]
    floats = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    known = ~np.isnan(floats)
    found, inverse = np.unique(floats[known], return_inverse=True)
    place = np.full(len(floats), len(found), dtype=np.int64)
    place[known] = inverse
    return [*map(float, found), None], place


def code_answers(
    column: pa.ChunkedArray, coding: Coding, group: NDArray[np.int64], n_groups: int, where: str
) -> Answers:
    """Turn a raw column into answers.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Integers, floats, or dictionary-encoded text.
    coding : Coding
    group : (N,) int64
        The group of each row.
    n_groups : int
    where : str
        File and column, for messages.

    Raises
    ------
    SourceError
        A text in the column is no answer.
    """
    if column.type == pa.int8() and not column.null_count:
        # The bit pattern of a code is its place among 256: one pass counts, one translates.
        place: NDArray[Any] = np.ascontiguousarray(column.to_numpy()).view(np.uint8)
        table = _counted(group, place, n_groups, 256)
        present = np.flatnonzero(table.any(axis=0))
        values: list[Value] = [*map(int, present.astype(np.uint8).view(np.int8))]
        meaning = _meanings(values, coding, where, lambda i: place == present[i])
        counts = table[:, present]
    else:
        values, places = distinct_values(column)
        present = np.arange(len(values))
        place = places
        meaning = _meanings(values, coding, where, lambda i: places == i)
        counts = _counted(group, places, n_groups, len(values))
    codes = [entry if isinstance(entry, int) else 0 for entry in meaning]
    kind = np.int8 if all(-128 <= code < 128 for code in codes) else np.int16
    size = int(present.max()) + 1 if len(present) else 0
    translated = np.zeros(size, dtype=kind)
    translated[present] = codes
    invalid = np.zeros(size, dtype=np.bool_)
    invalid[present] = [isinstance(entry, str) for entry in meaning]
    return Answers(
        column=pa.array(translated[place], mask=invalid[place]),
        values=values,
        meaning=meaning,
        counts=counts,
    )


def _counted(
    group: NDArray[np.int64], place: NDArray[Any], n_groups: int, width: int
) -> NDArray[np.int64]:
    found = np.bincount(group * width + place, minlength=n_groups * width)
    return found.reshape(n_groups, width).astype(np.int64, copy=False)


def _meanings(
    values: Sequence[Value],
    coding: Coding,
    where: str,
    rows: Callable[[int], NDArray[np.bool_]],
) -> list[int | str]:
    meaning: list[int | str] = []
    for index, value in enumerate(values):
        try:
            meaning.append(coding.read(value))
        except ValueError:
            row = int(np.flatnonzero(rows(index))[0]) + 1
            known = ", ".join(names[0] for names in coding.names.values())
            raise SourceError(
                f"{where}, row {row}: {value!r} is no answer; the options are {known}. Declare "
                "its label in an item catalog, or leave the question out with variables"
            ) from None
    return meaning
