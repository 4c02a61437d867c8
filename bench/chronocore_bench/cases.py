"""What is timed: one table of cases, each with its peers.

A case makes its input once and offers our call and its peers', written the way a competent user
would write them. Every peer's answer is checked against ours before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import scipy.stats
from numpy.typing import NDArray

import chronocore as cc

__all__ = ["CASES", "Case", "Prepared"]

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case with its input made.

    ``agree`` compares a peer's answer with ours. ``parts`` says what part of the work a slow
    peer is given; its time is scaled up to the whole.
    """

    ours: Call
    peers: Mapping[str, Call]
    agree: Callable[[Any, Any], bool]
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time.

    ``prepare(quick)`` makes the input, smaller if ``quick``.
    """

    name: str
    about: str
    prepare: Callable[[bool], Prepared]


def _close(a: Any, b: Any) -> bool:
    return bool(np.allclose(np.asarray(a), np.asarray(b), atol=1e-9))


def _wasserstein(quick: bool) -> Prepared:
    rng = np.random.default_rng(0)
    n = 100_000 if quick else 1_000_000
    p, q = (rng.dirichlet(np.ones(10), n) for _ in range(2))
    positions = np.arange(10)
    sample = 500

    def numpy_chunked() -> NDArray[np.float64]:
        out = np.empty(n)
        for start in range(0, n, 10_000):
            part = slice(start, start + 10_000)
            difference = np.cumsum(p[part] - q[part], axis=1)[:, :-1]
            out[part] = np.abs(difference).sum(axis=1) / 9
        return out

    def scipy_loop() -> NDArray[np.float64]:
        rows = [
            scipy.stats.wasserstein_distance(positions, positions, p[i], q[i]) / 9
            for i in range(sample)
        ]
        return np.array(rows)

    def agree(ours: Any, peer: Any) -> bool:
        return _close(ours[: len(peer)], peer)

    return Prepared(
        lambda: cc.wasserstein(p, q),
        {"numpy, chunks of 10,000": numpy_chunked, f"scipy loop, {sample} rows": scipy_loop},
        agree,
        {f"scipy loop, {sample} rows": sample / n},
    )


def _weighted(quick: bool) -> Prepared:
    rng = np.random.default_rng(1)
    n, n_groups = (100_000 if quick else 2_000_000), 300
    codes = rng.integers(-2, 11, n)
    groups = np.sort(rng.integers(0, n_groups, n))
    weights = rng.gamma(2.0, 0.5, n)
    frame = pl.DataFrame({"code": codes, "group": groups, "weight": weights})
    options = list(range(1, 11))

    def numpy_bincount() -> NDArray[np.float64]:
        valid = (codes >= 1) & (codes <= 10)
        cell = groups[valid] * 10 + codes[valid] - 1
        sums = np.bincount(cell, weights[valid], n_groups * 10).reshape(n_groups, 10)
        shares: NDArray[np.float64] = sums / sums.sum(axis=1, keepdims=True)
        return shares

    def polars_group_by() -> NDArray[np.float64]:
        sums = (
            frame.lazy()
            .filter(pl.col("code").is_between(1, 10))
            .group_by("group", "code")
            .agg(pl.col("weight").sum())
            .sort("group", "code")
            .collect()["weight"]
            .to_numpy()
            .reshape(n_groups, 10)
        )
        shares: NDArray[np.float64] = sums / sums.sum(axis=1, keepdims=True)
        return shares

    return Prepared(
        lambda: cc.weighted_distributions(codes, groups, weights, options, n_groups).probs,
        {"numpy.bincount": numpy_bincount, "polars group_by": polars_group_by},
        _close,
        {},
    )


def _bootstrap_mean(quick: bool) -> Prepared:
    rng = np.random.default_rng(2)
    n, resamples = 7_767, (2_000 if quick else 20_000)
    values = rng.normal(size=n)

    def ours() -> tuple[float, float]:
        return tuple(
            cc.bootstrap(values, "mean", n_resamples=resamples, seed=0).confidence_interval
        )

    def scipy_bootstrap() -> tuple[float, float]:
        interval = scipy.stats.bootstrap(
            (values,), np.mean, n_resamples=resamples, batch=20, method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
        return interval.low, interval.high

    def agree(mine: Any, peer: Any) -> bool:
        # Both ends are Monte-Carlo estimates; their standard error is about 2 % of the width.
        return bool(np.allclose(mine, peer, atol=0.1 * (mine[1] - mine[0])))

    return Prepared(ours, {"scipy.stats.bootstrap, batch=20": scipy_bootstrap}, agree, {})


CASES: tuple[Case, ...] = (
    Case("wasserstein", "normalised distances, K = 10", _wasserstein),
    Case("weighted_distributions", "one item, 300 groups, 10 options, weighted", _weighted),
    Case("bootstrap_mean", "mean with 95 % interval, n = 7,767", _bootstrap_mean),
)
