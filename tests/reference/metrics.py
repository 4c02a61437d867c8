"""The metrics written from their formulas, slow and in exact fractions.

Nothing here is shared with the package: this is what the kernels are tested against.
"""

from __future__ import annotations

import math
from fractions import Fraction


def wasserstein(p, q, support=None):
    """Definitions, section 2, term by term."""
    p, q = [Fraction(x) for x in p], [Fraction(x) for x in q]
    a = list(range(len(p))) if support is None else [Fraction(x) for x in support]
    total = Fraction(0)
    for j in range(len(p) - 1):
        difference = sum(p[: j + 1]) - sum(q[: j + 1])
        total += abs(difference) * (a[j + 1] - a[j])
    return float(total / (a[-1] - a[0]))


def direction_cosine(gold_old, gold_new, pred_old, pred_new, tolerance=Fraction(1, 10**12)):
    """Definitions, section 7, in fractions but for the two square roots."""

    def change(old, new):
        old, new = [Fraction(x) for x in old], [Fraction(x) for x in new]
        return [sum(new[: j + 1]) - sum(old[: j + 1]) for j in range(len(old) - 1)]

    g, p = change(gold_old, gold_new), change(pred_old, pred_new)
    if max(map(abs, g)) <= tolerance or max(map(abs, p)) <= tolerance:
        return None
    product = sum(x * y for x, y in zip(g, p, strict=True))
    squares = sum(x * x for x in g) * sum(y * y for y in p)
    # sqrt of a fraction without leaving the exact range of floats
    root = math.isqrt(squares.numerator * 10**60 // squares.denominator)
    return float(product * 10**30 / Fraction(root))


def weighted_distributions(codes, groups, weights, options, n_groups):
    """One respondent after the other."""
    sums = [[Fraction(0)] * len(options) for _ in range(n_groups)]
    n_valid = [0] * n_groups
    squares = [Fraction(0)] * n_groups
    dropped = [0] * n_groups
    for code, group, weight in zip(codes, groups, weights, strict=True):
        if code is None or math.isnan(code) or code not in options:
            continue
        if weight is None or not math.isfinite(weight) or weight <= 0:
            dropped[group] += 1
            continue
        n_valid[group] += 1
        sums[group][options.index(code)] += Fraction(weight)
        squares[group] += Fraction(weight) ** 2
    probs = [[float(s / sum(row)) if sum(row) else float("nan") for s in row] for row in sums]
    n_eff = [
        float(sum(row) ** 2 / square) if square else 0.0
        for row, square in zip(sums, squares, strict=True)
    ]
    return probs, n_valid, n_eff, dropped


def splitmix64(base, n):
    """Sebastiano Vigna's splitmix64 in arbitrary-precision integers."""
    mask = (1 << 64) - 1
    state, out = base, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(z ^ (z >> 31))
    return out


def resample_indices(base, resample, n):
    """The rows of one bootstrap resample: Lemire's method, one draw after the other."""
    mask, low = (1 << 64) - 1, 0xFFFFFFFF
    golden = 0x9E3779B97F4A7C15
    half = (n + 1) // 2
    start = (base + resample * half * golden) & mask
    words = splitmix64(start, half)
    key = splitmix64(((start ^ 0xD1B54A32D192ED03) - golden) & mask, 1)[0]
    out = []
    for i in range(n):
        draw = words[i] & low if i < half else words[i - half] >> 32
        attempt = 0
        while (draw * n) & low < (2**32 - n) % n:
            attempt += 1
            counter = (key + (i * 64 + attempt - 1) * golden) & mask
            draw = splitmix64(counter, 1)[0] >> 32
        out.append((draw * n) >> 32)
    return out


def quantile(values, probability):
    """Type-7 quantile."""
    ordered = sorted(values)
    place = probability * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def knowledge_filter(values, strata, retain):
    """Rank within each stratum, keep the smallest floor(retain * n)."""
    keep = [False] * len(values)
    for stratum in set(strata):
        rows = [i for i, s in enumerate(strata) if s == stratum]
        rows.sort(key=lambda i: (round(values[i], 12), i))
        for i in rows[: math.floor(Fraction(str(retain)) * len(rows))]:
            keep[i] = True
    return keep
