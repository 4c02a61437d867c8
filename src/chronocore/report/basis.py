"""What the numbers of a run rest on: pairs, the questions they belong to, and even spreads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronocore.results import Results
from chronocore.score import RunSummary
from chronocore.wording import wordings

__all__ = ["VALID", "Basis", "Question", "basis", "questions"]

#: A share of the pairs above this makes one question the subject of the whole evaluation.
DOMINANT = 1 / 3

VALID = ("ok", "recovered")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and how many pairs it has.

    Attributes
    ----------
    survey, variable : str
    wording : str
        A short form of its text.
    pairs, countries : int
        In the benchmark.
    complete, retained : mapping of str to int
        Pairs by ``run_id`` of each evaluated run.
    """

    survey: str
    variable: str
    wording: str
    pairs: int
    countries: int
    complete: Mapping[str, int]
    retained: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Basis:
    """What the evaluation of one run rests on.

    Attributes
    ----------
    pairs, complete, retained : int
        Pairs of the benchmark, with three valid predictions, and evaluated.
    questions, countries : int
        Among the evaluated pairs.
    most : Question or None
        The question with the most evaluated pairs, and ``n_most`` their number.
    even : int
        Evaluated pairs whose two dated predictions give every option the same share.
    still : int
        Evaluated pairs whose two dated predictions are the same.
    """

    pairs: int
    complete: int
    retained: int
    questions: int
    countries: int
    most: Question | None
    n_most: int
    even: int
    still: int

    @property
    def dominated(self) -> bool:
        """Whether one question of several holds more than a third of the evaluated pairs."""
        return self.n_most > DOMINANT * self.retained


# -- counts --------------------------------------------------------------------------------------


def _where(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["survey"], row["variable"]


def questions(results: Results) -> list[Question]:
    """Return every question of the benchmark that has a pair, the largest first."""
    items = results.study.items().select(["survey", "variable", "text"]).to_pylist()
    rows = results.study.pairs().select(["survey", "variable", "country"]).to_pylist()
    pairs = Counter(map(_where, rows))
    countries: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        countries.setdefault(_where(row), set()).add(row["country"])
    complete: dict[str, Counter[tuple[str, str]]] = {}
    retained: dict[str, Counter[tuple[str, str]]] = {}
    for run in results.evaluated:
        scores = results.scores(run).select(["survey", "variable", "retained"])
        rows = scores.to_pylist()
        complete[run.run_id] = Counter(map(_where, rows))
        retained[run.run_id] = Counter(_where(row) for row in rows if row["retained"])
    short = wordings(items)
    found = [
        Question(
            survey=where[0],
            variable=where[1],
            wording=short[where],
            pairs=pairs[where],
            countries=len(countries[where]),
            complete={run_id: counts[where] for run_id, counts in complete.items()},
            retained={run_id: counts[where] for run_id, counts in retained.items()},
        )
        for where in short
        if pairs[where]
    ]
    return sorted(found, key=lambda question: -question.pairs)


def basis(results: Results, run: RunSummary, listed: Sequence[Question] | None = None) -> Basis:
    """Return what the evaluation of a run rests on: cells of the table ``basis``.

    Parameters
    ----------
    results : Results
    run : RunSummary
        An evaluated run.
    listed : sequence of Question, optional
        What :func:`questions` returned, if it is there already.
    """
    listed = questions(results) if listed is None else listed
    held = [question for question in listed if question.retained[run.run_id]]

    def held_by(measure: str) -> int:
        return round(results.cell("basis", run, "all", measure).estimate or 0)

    return Basis(
        pairs=held_by("pairs"),
        complete=held_by("complete"),
        retained=held_by("retained"),
        questions=held_by("questions"),
        countries=held_by("countries"),
        most=max(held, key=lambda question: question.retained[run.run_id], default=None),
        n_most=held_by("largest_question"),
        even=held_by("even"),
        still=held_by("identical_years"),
    )
