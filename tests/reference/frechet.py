"""Fréchet variance of distributions on a line and varimax, written from their definitions.

Nothing here is shared with the package.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np


def quantiles(probs, positions, cuts):
    """Value of the quantile function on every interval between two cuts."""
    values = []
    for low, high in pairwise(cuts):
        middle = (low + high) / 2
        total = Fraction(0)
        for p, x in zip(probs, positions, strict=True):
            total += p
            if total >= middle:
                values.append(x)
                break
    return values


def variance(rows, positions, units=None, ddof=1):
    """Exact Fréchet variance of the barycentres of units; rows hold Fractions that sum to 1."""
    units = list(range(len(rows))) if units is None else list(units)
    n = len(set(units))
    if n < 2 or n <= ddof:
        return None
    span = positions[-1] - positions[0]
    places = [Fraction(x - positions[0]) / Fraction(span) for x in positions]
    cuts = {Fraction(0), Fraction(1)}
    for row in rows:
        total = Fraction(0)
        for p in row:
            total += p
            cuts.add(total)
    cuts = sorted(cuts)
    functions = [quantiles(row, places, cuts) for row in rows]
    means = []
    for unit in sorted(set(units)):
        own = [f for f, u in zip(functions, units, strict=True) if u == unit]
        means.append([sum(column) / len(own) for column in zip(*own, strict=True)])
    center = [sum(column) / n for column in zip(*means, strict=True)]
    total = Fraction(0)
    for mean in means:
        for low, high, a, b in zip(cuts, cuts[1:], mean, center, strict=False):
            total += (high - low) * (a - b) ** 2
    return total / (n - Fraction(ddof))


def varimax(loadings, normalise=True, limit=2000, tolerance=1e-15):
    """Varimax by repeated singular value decompositions, for any number of columns."""
    matrix = np.array(loadings, dtype=float)
    p, k = matrix.shape
    if normalise:
        matrix = matrix / np.sqrt((matrix**2).sum(axis=1))[:, None]
    rotation = np.eye(k)
    before = 0.0
    for _ in range(limit):
        turned = matrix @ rotation
        u, s, v = np.linalg.svd(
            matrix.T @ (turned**3 - turned @ np.diag((turned**2).sum(axis=0)) / p)
        )
        rotation = u @ v
        if s.sum() <= before * (1 + tolerance):
            break
        before = s.sum()
    return rotation


def criterion(loadings, normalise=True):
    """What varimax maximises: the summed variance of the squared loadings."""
    matrix = np.array(loadings, dtype=float)
    if normalise:
        matrix = matrix / np.sqrt((matrix**2).sum(axis=1))[:, None]
    return (matrix**2).var(axis=0).sum()
