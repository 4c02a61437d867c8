"""Two-level resampling one unit after the other, and max-t intervals from their formula."""

from __future__ import annotations

import math
import statistics

from reference.metrics import quantile, resample_indices

__all__ = ["members", "simultaneous", "two_level"]


def members(clusters):
    """The rows of each cluster, clusters in the order of their labels."""
    return [
        [row for row, label in enumerate(clusters) if label == cluster]
        for cluster in sorted(set(clusters))
    ]


def two_level(redraws, units, statistic, base, n_resamples):
    """Resample b takes redraw b mod R and as many units as there are."""
    out = []
    for b in range(n_resamples):
        values = redraws[b % len(redraws)]
        drawn = [
            values[row]
            for unit in resample_indices(base, b, len(units))
            for row in units[unit]
            if not math.isnan(values[row])
        ]
        if not drawn:
            out.append(math.nan)
        elif statistic == "median":
            out.append(quantile(sorted(drawn), 0.5))
        else:
            out.append(math.fsum(drawn) / len(drawn))
    return out


def simultaneous(estimates, replicates, level):
    """Critical value, intervals and p-values of the largest studentised deviation."""
    errors = [statistics.stdev(column) for column in replicates]
    largest = [
        max(
            abs(column[b] - estimate) / error
            for column, estimate, error in zip(replicates, estimates, errors, strict=True)
        )
        for b in range(len(replicates[0]))
    ]
    critical = quantile(sorted(largest), level)
    intervals = [
        (estimate - critical * error, estimate + critical * error)
        for estimate, error in zip(estimates, errors, strict=True)
    ]
    p_values = [
        (1 + sum(value >= abs(estimate) / error for value in largest)) / (1 + len(largest))
        for estimate, error in zip(estimates, errors, strict=True)
    ]
    return critical, intervals, p_values
