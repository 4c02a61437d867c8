"""A small population: what people answer in each country and time point, and who was asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Person", "Question", "Sample", "draw"]


@dataclass(frozen=True)
class Question:
    """One question: its codes in the order of the scale, with labels."""

    variable: str
    codes: tuple[int, ...]
    labels: tuple[str, ...]
    off_scale: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sample:
    """Who is asked: one country at one time, in one or several years.

    ``weighted`` False: the file has no weight for these people. ``skipped``: questions that were
    not asked.
    """

    country: str
    year: int
    wave: int | None = None
    study: str | None = None
    n: int = 60
    later: int = 0
    weighted: bool = True
    skipped: tuple[str, ...] = ()


@dataclass
class Person:
    """One respondent: the truth that a file hides among its codes.

    ``answers`` holds a code of the scale; ``reasons`` says why there is none: ``off`` (an answer
    beside the scale), or a reason of non-response.
    """

    country: str
    year: int
    wave: int | None
    study: str | None
    weight: float | None
    stratum: int
    psu: int
    number: int
    answers: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


REASONS = ("don't know", "no answer", "not applicable")


def draw(questions: list[Question], samples: list[Sample], seed: int) -> list[Person]:
    """Draw respondents: opinions drift over the years, clusters hold together, weights vary."""
    rng = np.random.default_rng(seed)
    people: list[Person] = []
    for number, sample in enumerate(samples):
        level = rng.normal(0.0, 0.6, len(questions))
        for i in range(sample.n):
            year = sample.year + (1 if i < sample.later else 0)
            cluster = i // 5
            weight: float | None = round(float(rng.gamma(4.0, 0.25)) + 0.01, 6)
            if i % 17 == 3:
                weight = [0.0, -1.0, math.nan][i % 3]
            person = Person(
                sample.country,
                year,
                sample.wave,
                sample.study,
                weight if sample.weighted else None,
                stratum=10 * number + cluster % 3,
                psu=1000 * number + cluster,
                number=len(people) + 1,
            )
            shared = np.random.default_rng([seed, number, cluster]).normal(0.0, 0.4)
            for j, question in enumerate(questions):
                if question.variable in sample.skipped:
                    person.reasons[question.variable] = "not asked"
                    continue
                fate = rng.random()
                if fate < 0.08:
                    person.reasons[question.variable] = REASONS[int(rng.integers(len(REASONS)))]
                elif fate < 0.14 and question.off_scale:
                    person.reasons[question.variable] = "off"
                else:
                    k = len(question.codes)
                    drift = 0.02 * (sample.year - 2000)
                    centre = (k - 1) / 2 * (1 + 0.4 * (level[j] + shared + drift))
                    odds = np.exp(-0.5 * ((np.arange(k) - centre) / (0.3 * k)) ** 2) + 0.01
                    choice = int(rng.choice(k, p=odds / odds.sum()))
                    person.answers[question.variable] = question.codes[choice]
            people.append(person)
    return people
