"""Variance components and Kendall's W written from their definitions, slow and exact.

Nothing here is shared with the package: this is what the kernels are tested against.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

TOLERANCE = Decimal("1e-12")


def valid(answers):
    return [Fraction(x) for x in answers if x is not None and not math.isnan(x)]


def mean(values):
    return sum(values, Fraction(0)) / len(values)


def deviation(values, ddof):
    """Standard deviation to 60 digits; None if undefined."""
    if len(values) < 2 or len(values) <= ddof:
        return None
    center = mean(values)
    variance = sum((x - center) ** 2 for x in values) / (len(values) - Fraction(ddof))
    with localcontext() as context:
        context.prec = 60
        return (Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()


def moments(row, ddof):
    values = valid(row)
    sigma = deviation(values, ddof)
    return (
        float(mean(values)) if values else math.nan,
        math.nan if sigma is None else float(sigma),
    )


def variance_components(seeds, variants, ddof=1, culture_base="variants", standard=None):
    """Definitions, section 11, one model and item after the other.

    Returns sigma_culture as a list and (sigma_seed, sigma_prompt, nsr, status) by [model][item].
    """
    models, items = len(seeds), len(seeds[0]) if seeds else 0
    culture = []
    for q in range(items):
        means = []
        for m in range(models):
            if culture_base == "seeds":
                answers = seeds[m][q]
            elif culture_base == "standard":
                answers = [variants[m][q][v] for v in standard]
            else:
                answers = variants[m][q]
            answers = valid(answers)
            if answers:
                means.append(mean(answers))
        culture.append(deviation(means, ddof))

    def cell(m, q):
        seed = deviation(valid(seeds[m][q]), ddof)
        prompt = deviation(valid(variants[m][q]), ddof)
        nsr = None
        if seed is None or prompt is None:
            status = "undefined_noise"
        elif culture[q] is None:
            status = "undefined_culture"
        elif culture[q] <= TOLERANCE:
            status = "zero_over_zero" if seed + prompt <= TOLERANCE else "infinite"
        else:
            status = "ok"
            nsr = (seed + prompt) / culture[q]
        return (*(math.nan if x is None else float(x) for x in (seed, prompt, nsr)), status)

    cells = [[cell(m, q) for q in range(items)] for m in range(models)]
    return [math.nan if x is None else float(x) for x in culture], cells


def kendalls_w(ratings, correct=True):
    """W = 12 S / (m^2 (n^3 - n) - m T) with mean ranks for ties; None if undefined."""
    m, n = len(ratings), len(ratings[0])
    totals = [Fraction(0)] * n
    ties = 0
    for row in ratings:
        for i, x in enumerate(row):
            totals[i] += sum(y < x for y in row) + Fraction(row.count(x) + 1, 2)
        ties += sum(row.count(x) ** 3 - row.count(x) for x in set(row))
    s = sum((total - Fraction(m * (n + 1), 2)) ** 2 for total in totals)
    possible = m**2 * (n**3 - n) - (m * ties if correct else 0)
    return float(12 * s / possible) if possible else None
