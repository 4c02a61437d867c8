"""What gold must be, counted person by person."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from reference.survey_design import share_and_error

__all__ = ["expected_gold", "expected_missing"]


def _usable(weight):
    return weight is not None and math.isfinite(weight) and weight > 0


def expected_gold(people, questions, *, least, waves=None, by_year=False, design=False):
    """Gold by (variable, country, study, wave or year)."""
    cells = defaultdict(list)
    for person in people:
        if waves is not None and person.wave is not None and person.wave not in waves:
            continue
        key = person.year if by_year or person.wave is None else person.wave
        cells[person.country, person.study, key].append(person)
    gold = {}
    for question in questions:
        for key, members in cells.items():
            valid = [p for p in members if question.variable in p.answers]
            usable = [p for p in valid if _usable(p.weight)]
            weight_of = {p.number: p.weight for p in usable}
            weighted = True
            if valid and not usable:
                usable, weight_of, weighted = valid, {p.number: 1.0 for p in valid}, False
            if len(usable) < least:
                continue
            total = math.fsum(weight_of.values())
            of_option = [
                math.fsum(
                    weight_of[p.number] for p in usable if p.answers[question.variable] == code
                )
                for code in question.codes
            ]
            years = Counter(p.year for p in usable)
            cell = {
                "probs": [one / total for one in of_option],
                "n_valid": len(usable),
                "n_eff": total**2 / math.fsum(w * w for w in weight_of.values()),
                "n_dropped_weight": len(valid) - len(usable),
                "weighted": weighted,
                "year": min(years, key=lambda year: (-years[year], year)),
            }
            if design:
                own = [1.0] * len(members) if not weighted else [p.weight for p in members]
                cell["errors"] = [
                    share_and_error(
                        [p.answers.get(question.variable) for p in members],
                        code,
                        question.codes,
                        own,
                        [p.stratum for p in members],
                        [p.psu for p in members],
                    )[1]
                    for code in question.codes
                ]
            gold[(question.variable, *key)] = cell
    return gold


def expected_missing(people, questions, *, waves=None):
    """How many answers are missing, by reason."""
    counts = Counter()
    for person in people:
        if waves is None or person.wave is None or person.wave in waves:
            for question in questions:
                reason = person.reasons.get(question.variable)
                if reason is not None:
                    counts[reason] += 1
    return counts
