"""Compile every kernel once, on inputs of the types the library uses."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from chronocore.components import variance_components
from chronocore.inference import bootstrap
from chronocore.metrics import direction_cosine, wasserstein, weighted_distributions
from chronocore.noise import sampling_noise
from chronocore.validity.distributions import frechet_deviation
from chronocore_kernels.components import resample_components
from chronocore_kernels.jit import compiled_kernels

__all__ = ["WarmupResult", "warmup"]


@dataclass(frozen=True, slots=True)
class WarmupResult:
    """Number of kernels known and the seconds their first calls took."""

    kernels: int
    seconds: float


def warmup() -> WarmupResult:
    """Compile the kernels now, or load them from the cache."""
    started = time.perf_counter()
    p, q = [[0.5, 0.5]], [[0.4, 0.6]]
    wasserstein(p, q)
    wasserstein(p, q, support=[1, 2])
    direction_cosine(p, q, p, q)
    weighted_distributions([1, 2], [0, 0], [1.0, 1.0], options=[1, 2])
    values = np.linspace(0.0, 1.0, 9)
    for statistic in ("mean", "median"):
        bootstrap(values, statistic, n_resamples=2, seed=0)
        bootstrap(values, statistic, n_resamples=2, seed=0, method="resample")
    bootstrap([0, 1, 1], "proportion", n_resamples=2, seed=0)
    sampling_noise([[0.5, 0.5]], repeats=2, seed=0)
    variance_components(np.ones((2, 2, 2)), np.ones((2, 2, 2)))
    frechet_deviation([[0.5, 0.5], [1.0, 0.0]])
    resample_components(
        np.ones((2, 2)), np.ones((2, 2)), np.ones(2, dtype=np.int64), False,
        np.zeros(2, dtype=np.uint64), np.uint64(0), 1, 1.0,
    )  # fmt: skip
    return WarmupResult(len(compiled_kernels()), time.perf_counter() - started)
