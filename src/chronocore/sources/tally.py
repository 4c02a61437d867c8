"""What is counted while answers are read: why some are none, and where each option occurs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.sources.answers import Answers
from chronocore.sources.catalog import CatalogItem
from chronocore.sources.microdata import MISSING
from chronocore.sources.respondents import Group

__all__ = ["Tally"]

#: A study and its wave, or its year where there are no waves.
Point = tuple[str | None, int | None]


class Tally:
    """Counts over the files of one source."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._points: list[Point] = []
        self._point_of: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._offset = 0
        # Variable, reason, groups and counts of every missing answer.
        self._missing: list[tuple[str, str, NDArray[np.int64], NDArray[np.int64]]] = []
        # Variable -> option -> time points at which it occurs.
        self._seen: dict[str, dict[int, set[Point]]] = {}
        #: Variable -> value -> rows whose value is neither an option nor declared missing.
        self.undeclared: dict[str, dict[str, int]] = {}

    def start(self, groups: Sequence[Group]) -> None:
        """Begin with the groups of another file."""
        self._offset = len(self._groups)
        self._groups.extend(groups)
        points = [(study, year if wave is None else wave) for _, study, wave, year in groups]
        self._points = list(dict.fromkeys(points))
        index = {point: i for i, point in enumerate(self._points)}
        self._point_of = np.array([index[point] for point in points], dtype=np.int64)

    def add(self, variable: str, answers: Answers) -> None:
        """Count the answers to one question."""
        for reason, counts in answers.by_reason().items():
            self.add_missing(variable, reason, counts)
        seen = self._seen.setdefault(variable, {})
        for option, counts in answers.by_option().items():
            at = np.unique(self._point_of[counts > 0]).tolist()
            seen.setdefault(option, set()).update(self._points[i] for i in at)
        for value, count in answers.undeclared().items():
            values = self.undeclared.setdefault(variable, {})
            values[value] = values.get(value, 0) + count

    def add_missing(self, variable: str, reason: str, counts: NDArray[np.int64]) -> None:
        """Count rows of each group that do not answer a question for one reason."""
        groups = np.flatnonzero(counts)
        if len(groups):
            self._missing.append((variable, reason, groups + self._offset, counts[groups]))

    def missing(self) -> pa.Table:
        """Return the missing answers: schema :data:`~chronocore.sources.microdata.MISSING`."""
        if not self._missing:
            return MISSING.empty_table()
        lengths = [len(groups) for _, _, groups, _ in self._missing]
        part = np.repeat(np.arange(len(lengths)), lengths)
        group = np.concatenate([groups for _, _, groups, _ in self._missing])
        columns = {
            "variable": pa.array([v for v, _, _, _ in self._missing], pa.string()).take(part),
            "reason": pa.array([r for _, r, _, _ in self._missing], pa.string()).take(part),
            "count": pa.array(np.concatenate([counts for _, _, _, counts in self._missing])),
        }
        for i, name in enumerate(("country", "study", "wave", "year")):
            values = pa.array([key[i] for key in self._groups], MISSING.field(name).type)
            columns[name] = values.take(group)
        return pa.table([columns[name] for name in MISSING.names], schema=MISSING)

    def reasons(self) -> dict[str, int]:
        """Return the number of missing answers by reason."""
        totals: dict[str, int] = {}
        for _, reason, _, counts in self._missing:
            totals[reason] = totals.get(reason, 0) + int(counts.sum())
        return dict(sorted(totals.items()))

    def one_time_options(self, item: CatalogItem) -> list[str]:
        """Return the options that occur at one time point only, where there are others."""
        seen = self._seen.get(item.variable, {})
        if len({point for points in seen.values() for point in points}) < 2:
            return []
        lines: list[str] = []
        for option in item.scale:
            at = seen.get(option.code, set())
            if len(at) == 1:
                study, time = next(iter(at))
                where = f"{study} {time}" if study else str(time)
                lines.append(f"{option.code} ({option.label}) only in {where}")
        return lines
