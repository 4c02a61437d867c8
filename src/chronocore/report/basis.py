"""What the numbers of a run rest on: pairs, the questions they belong to, and even spreads."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chronocore.predict import prompts_of
from chronocore.report.results import Results
from chronocore.score import RunSummary
from chronocore.tolerance import ATOL

__all__ = ["VALID", "Basis", "Question", "answers", "basis", "plain", "questions", "wordings"]

#: A share of the pairs above this makes one question the subject of the whole evaluation.
DOMINANT = 1 / 3

VALID = ("ok", "recovered")

#: Questions that start alike for so many characters are told apart by what follows.
_SHARED = 40
_BEFORE = 18
_WORDING = 76


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


# -- words ---------------------------------------------------------------------------------------


def plain(text: str, limit: int | None = None) -> str:
    """Return text without control and formatting characters, cut to ``limit`` characters."""
    kept = "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs") else " " for c in text)
    kept = " ".join(kept.split())
    return kept if limit is None or len(kept) <= limit else kept[: limit - 1].rstrip() + "…"


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))


def _cut(text: str, limit: int) -> str:
    """Cut text at the last word that fits."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    whole = head.rsplit(" ", 1)[0] if " " in head and text[limit - 1] != " " else head
    return whole.rstrip(" ,;:.") + "…"


def wordings(items: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return a short wording of every question, by survey and variable.

    Questions that begin with the same words keep the words in which they differ.
    """
    texts = {(i["survey"], i["variable"]): plain(i["text"]) for i in items}
    # Of sorted texts, the neighbours share the longest beginning.
    ordered = sorted(set(texts.values()))
    shared = dict.fromkeys(ordered, 0)
    for a, b in pairwise(ordered):
        length = _common(a, b)
        shared[a], shared[b] = max(shared[a], length), max(shared[b], length)
    short = {}
    for key, text in texts.items():
        start = text.rfind(" ", 0, shared[text]) + 1
        # A few of the shared words before, unless a sentence or a list begins here.
        back = text.rfind(" ", 0, max(start - _BEFORE, 0)) + 1
        begun = [
            text.rfind(mark, back, start) + 2
            for mark in (": ", ". ", "? ")
            if text.rfind(mark, back, start) >= 0
        ]
        rest = text[max([back, *begun]) :]
        if shared[text] >= _SHARED and text[start:].strip(" .?!") and len(text) > _WORDING:
            head = text[: text.find(" ", 16)]
            short[key] = f"{head} … {_cut(rest, _WORDING - len(head) - 3)}"
        else:
            short[key] = _cut(text, _WORDING)
    return short


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
        scores = _scores(results, run)
        complete[run.run_id] = Counter(map(_where, scores))
        retained[run.run_id] = Counter(_where(row) for row in scores if row["retained"])
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


def _scores(results: Results, run: RunSummary) -> list[dict[str, Any]]:
    columns = ["survey", "variable", "country", "year_old", "year_new", "retained", "d_m"]
    rows: list[dict[str, Any]] = results.study.scores(run.run_id).select(columns).to_pylist()
    return rows


def answers(results: Results, run: RunSummary) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return a run's first answers by survey, variable, country and year."""
    (wording,) = (
        (row["instruction"], row["elicitation"])
        for row in results.study.runs().to_pylist()
        if row["run_id"] == run.run_id
    )
    prompts = {
        row["prompt_id"]: row
        for row in prompts_of(results.study, *wording).to_pylist()
        if row["kind"] != "modal" and (row["instruction"], row["elicitation"]) == wording
    }
    return {
        (p["survey"], p["variable"], p["country"], p["year"]): row
        for row in results.study.predictions(run.run_id).to_pylist()
        if row["repeat"] == 0 and (p := prompts.get(row["prompt_id"])) is not None
    }


def _is_even(probs: Iterable[float] | None) -> bool:
    if probs is None:
        return False
    values = list(probs)
    return max(abs(value - 1 / len(values)) for value in values) <= ATOL


def basis(results: Results, run: RunSummary, listed: Sequence[Question] | None = None) -> Basis:
    """Return what the evaluation of a run rests on.

    Parameters
    ----------
    results : Results
    run : RunSummary
        An evaluated run.
    listed : sequence of Question, optional
        What :func:`questions` returned, if it is there already.
    """
    kept = [row for row in _scores(results, run) if row["retained"]]
    given = answers(results, run)
    even = sum(
        all(
            _is_even(given[row["survey"], row["variable"], row["country"], row[year]]["probs"])
            for year in ("year_old", "year_new")
        )
        for row in kept
    )
    listed = questions(results) if listed is None else listed
    held = [question for question in listed if question.retained[run.run_id]]
    most = max(held, key=lambda question: question.retained[run.run_id], default=None)
    return Basis(
        pairs=run.n_pairs,
        complete=run.n_complete,
        retained=len(kept),
        questions=len(held),
        countries=len({row["country"] for row in kept}),
        most=most,
        n_most=most.retained[run.run_id] if most else 0,
        even=even,
        still=sum(row["d_m"] is not None and row["d_m"] <= ATOL for row in kept),
    )
