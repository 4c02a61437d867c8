"""Slow linearisation, respondent by respondent, in exact fractions.

A share is R = Y / N with Y the weight of those who chose the option and N the weight of those
who answered. Its linearised value is (y - R) / N per unit of weight for those who answered and 0
for the others. Primary sampling units are taken as drawn with replacement within strata.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

__all__ = ["mean_and_error", "share_and_error"]


def mean_and_error(values, weights, strata, units, *, adjust=True):
    """Weighted mean and standard error; None among the values means no answer."""
    rows = [
        (None if y is None else Fraction(y), Fraction(w), s, u)
        for y, w, s, u in zip(values, weights, strata, units, strict=True)
        if w is not None and math.isfinite(w) and w > 0
    ]
    answered = [(y, w) for y, w, _, _ in rows if y is not None]
    if not answered:
        return None, None
    total = sum(w for _, w in answered)
    mean = sum(w * y for y, w in answered) / total
    scores = defaultdict(lambda: defaultdict(Fraction))
    for y, w, stratum, unit in rows:
        scores[stratum][unit] += Fraction(0) if y is None else w * (y - mean) / total
    if sum(len(by_unit) for by_unit in scores.values()) < 2:
        return float(mean), math.nan
    variance = Fraction(0)
    for by_unit in scores.values():
        z = list(by_unit.values())
        if len(z) == 1:
            variance += z[0] ** 2 if adjust else 0
        else:
            centre = sum(z) / len(z)
            variance += Fraction(len(z), len(z) - 1) * sum((one - centre) ** 2 for one in z)
    return float(mean), math.sqrt(variance)


def share_and_error(codes, option, options, weights, strata, units, *, adjust=True):
    """Weighted share of one option among the valid answers and its standard error."""
    values = [None if code not in options else int(code == option) for code in codes]
    return mean_and_error(values, weights, strata, units, adjust=adjust)
