"""Binomial and multinomial laws in exact fractions, and the sampler drawn one sample at a time.

The sampler reads the same words of the stream as the kernels but decides by exact probabilities,
without tables, series, squeezes or blocks.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

from reference.metrics import splitmix64, wasserstein

GOLDEN = 0x9E3779B97F4A7C15
SAMPLE_STRIDE = 2**31 + 11
CLASS_STRIDE = 131


def binomial_pmf(n, p):
    """P(0), ..., P(n)."""
    p = Fraction(p)
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def outcomes(n, k):
    """All counts of k classes that sum to n."""
    for bars in itertools.combinations(range(n + k - 1), k - 1):
        edges = (-1, *bars, n + k - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def multinomial_pmf(n, shares):
    """Every outcome with its probability."""
    shares = [Fraction(p) for p in shares]
    law = {}
    for counts in outcomes(n, len(shares)):
        ways = math.factorial(n)
        probability = Fraction(1)
        for count, share in zip(counts, shares, strict=True):
            ways //= math.factorial(count)
            probability *= share**count
        law[counts] = ways * probability
    return law


def distance_pmf(shares, n_old, n_new, support=None):
    """The law of the distance between two samples, by enumeration of both."""
    law = defaultdict(Fraction)
    new_law = multinomial_pmf(n_new, shares)
    for old, p_old in multinomial_pmf(n_old, shares).items():
        for new, p_new in new_law.items():
            distance = wasserstein(
                [Fraction(x, n_old) for x in old], [Fraction(x, n_new) for x in new], support
            )
            law[round(distance, 12)] += p_old * p_new
    return dict(law)


def word(base, sample, position, attempt, which):
    counter = sample * SAMPLE_STRIDE + position * CLASS_STRIDE + 2 * attempt + which
    return splitmix64((base + counter * GOLDEN) % 2**64, 1)[0]


def uniform(bits):
    """The top 52 bits and a half, in (0, 1)."""
    return Fraction(2 * (bits >> 12) + 1, 2**53)


def invert(u, n, p):
    """The smallest k with F(k) >= u."""
    total = Fraction(0)
    for k in range(n + 1):
        total += math.comb(n, k) * p**k * (1 - p) ** (n - k)
        if total >= u:
            return k
    raise AssertionError("u lies in (0, 1)")


def rejection_setup(n, p):
    """The constants of Hörmann's BTRS: a, b, centre, alpha and the bound of its squeeze."""
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    return a, b, n * p + 0.5, (2.83 + 5.1 / b) * deviation, 0.92 - 4.2 / b


def binomial(base, sample, position, n, p, rare=None):
    """The hits, or, unless they are the rarer kind, what the misses leave of n."""
    if not (p <= Fraction(1, 2) if rare is None else rare):
        return n - binomial(base, sample, position, n, 1 - p, True)
    if p == 0:
        return 0
    if n * float(p) < 10:
        return invert(uniform(word(base, sample, position, 0, 0)), n, p)
    a, b, centre, alpha, _ = rejection_setup(n, float(p))
    mode = math.floor((n + 1) * p)
    for attempt in itertools.count():
        u = float(uniform(word(base, sample, position, attempt, 0))) - 0.5
        v = float(uniform(word(base, sample, position, attempt, 1)))
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + centre)
        if not 0 <= k <= n:
            continue
        ratio = Fraction(math.comb(n, k), math.comb(n, mode)) * (p / (1 - p)) ** (k - mode)
        if v * alpha / (a / us**2 + b) <= ratio:
            return k


def multinomial(base, sample, n, shares):
    """One sample: a chain of conditional binomials."""
    exact = [Fraction(p) for p in shares]
    counts = []
    for position in range(len(shares)):
        rest = sum(exact[position:])
        p = exact[position] / rest if rest else Fraction(0)
        # Where rounding decides which of two halves is the rarer, it is that of the kernel.
        later = 0.0
        for share in reversed(shares[position + 1 :]):
            later += float(share)
        rare = float(shares[position]) <= later
        counts.append(binomial(base, sample, position, n - sum(counts), p, rare))
    return counts


def distances(base, row, repeats, shares, n_old, n_new, support=None):
    """The distances of one distribution, one repeat after the other."""
    out = []
    for repeat in range(repeats):
        sample = 2 * (row * repeats + repeat)
        old = multinomial(base, sample, n_old, shares)
        new = multinomial(base, sample + 1, n_new, shares)
        out.append(
            wasserstein(
                [Fraction(x, n_old) for x in old], [Fraction(x, n_new) for x in new], support
            )
        )
    return out
