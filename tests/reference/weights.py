"""Effective sizes in exact arithmetic, one group after the other."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

__all__ = ["exact_sizes"]


def exact_sizes(answers, groups, weights, options, n_groups):
    """Valid answers, shares and effective size of each group, from fractions."""
    members = defaultdict(list)
    for answer, group, weight in zip(answers, groups, weights, strict=True):
        if answer in options and math.isfinite(weight) and weight > 0:
            members[group].append((answer, Fraction(weight)))
    sizes = []
    for group in range(n_groups):
        own = members[group]
        total = sum((w for _, w in own), Fraction(0))
        if not total:
            sizes.append((0, None, 0.0))
            continue
        shares = [float(sum((w for a, w in own if a == o), Fraction(0)) / total) for o in options]
        sizes.append((len(own), shares, float(total**2 / sum(w * w for _, w in own))))
    return sizes
