"""Compile every kernel once, on inputs of the types the library uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from chronocore.components import variance_components
from chronocore.inference import bootstrap
from chronocore.intervals import (
    Cell,
    cell_shares,
    ends_of_cells,
    two_level_replicates,
    units_of,
)
from chronocore.metrics import direction_cosine, wasserstein, weighted_distributions
from chronocore.noise import noise_floor, sampling_noise
from chronocore.survey_design import design_mean, design_shares
from chronocore.validity.distributions import frechet_deviation
from chronocore_kernels import cells, multinomial
from chronocore_kernels.components import resample_components
from chronocore_kernels.jit import compiled_kernels

__all__ = ["WarmupResult", "steps", "warmup"]


@dataclass(frozen=True, slots=True)
class WarmupResult:
    """Number of kernels known and the seconds their first calls took."""

    kernels: int
    seconds: float


def warmup() -> WarmupResult:
    """Compile the kernels now, or load them from the cache."""
    started = time.perf_counter()
    for step in steps():
        step()
    return WarmupResult(len(compiled_kernels()), time.perf_counter() - started)


def steps() -> tuple[Callable[[], object], ...]:
    """Return what `warmup` runs, in parts that processes may share and run in any order."""
    return (
        _distances,
        _distributions,
        partial(_samples, "mean"),
        partial(_samples, "median"),
        _proportions,
        partial(_two_levels, "mean"),
        partial(_two_levels, "median"),
        _units,
        _cells,
        _components,
        _noise,
        _floor,
        _redraws,
    )


def _distances() -> None:
    p, q = [[0.5, 0.5]], [[0.4, 0.6]]
    wasserstein(p, q)
    wasserstein(p, q, support=[1, 2])
    direction_cosine(p, q, p, q)


def _distributions() -> None:
    weighted_distributions([1, 2], [0, 0], [1.0, 1.0], options=[1, 2])
    design_shares([1, 2], [1, 2])
    design_mean([1.0, 2.0])


def _values() -> np.ndarray:
    return np.linspace(0.0, 1.0, 9)


def _samples(statistic: str) -> None:
    bootstrap(_values(), statistic, n_resamples=2, seed=0)
    bootstrap(_values(), statistic, n_resamples=2, seed=0, method="resample")


def _proportions() -> None:
    bootstrap([0, 1, 1], "proportion", n_resamples=2, seed=0)
    bootstrap(_values(), "mean", n_resamples=2, seed=0, clusters=_values() > 0.5)


def _two_levels(statistic: str) -> None:
    again = np.stack([_values(), _values()])
    for redrawn in (again, again.astype(np.float32)):  # tables keep redraws in single precision
        ends_of_cells(redrawn, statistic, [Cell(np.arange(9), np.uint64(0))], n_resamples=2)
    two_level_replicates(again[None], statistic, units_of(None, 9), 2, 0)


def _units() -> None:
    cell_shares([0, 1, 1], 2, n_resamples=2, clusters=[0, 0, 1])


def _noise() -> None:
    sampling_noise([[0.5, 0.5]], repeats=2, seed=0)


def _floor() -> None:
    noise_floor([[0.5, 0.5]], [[0.4, 0.6]], repeats=2, seed=0)


def _redraws() -> None:
    start, length, size, number = (np.array([x]) for x in (0, 2, 10, 0))
    multinomial.redrawn_shares(np.array([0.5, 0.5]), start, length, size, number, 2, np.uint64(0))


def _components() -> None:
    variance_components(np.ones((2, 2, 2)), np.ones((2, 2, 2)))
    frechet_deviation([[0.5, 0.5], [1.0, 0.0]])
    resample_components(
        np.ones((2, 2)), np.ones((2, 2)), np.ones(2, dtype=np.int64), False,
        np.zeros(2, dtype=np.uint64), np.uint64(0), 1, 1.0,
    )  # fmt: skip


def _cells() -> None:
    whole = {number: np.array([number]) for number in (0, 1, 2)}
    bases, levels, values = np.zeros(1, dtype=np.uint64), np.array([0.1, 0.9]), np.array([0.0, 1.0])
    starts, sizes, ends = whole[0], whole[2], np.array([0, 1])
    cells.mean_ends(values, starts, sizes, bases, ends, levels, 2)
    cells.weighted_mean_ends(np.ones((2, 2)), starts, sizes, bases, levels, 2)
    cells.rank_ends(
        values, starts, sizes, bases, whole[0], whole[1], np.array([0.5]), whole[1], ends,
        np.ones(1), whole[0], np.ones(1), levels, 2,
    )  # fmt: skip
    cells.count_ends(np.array([1, 1]), np.array([0, 2]), bases, levels, 2)
