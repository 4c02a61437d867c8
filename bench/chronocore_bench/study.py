"""Every table of a study of the paper's size, with any number of resamples.

Run as ``python -m chronocore_bench.study 1000000``: 7,767 retained pairs of one synthetic model,
all statistics of RF1, RF2 and RF3 in every cell, each with its interval.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import chronocore as cc
from chronocore.config import ScoreSettings
from chronocore.scores import PairPredictions, score_pairs
from chronocore.tables import Evaluation, all_tables

__all__ = ["synthetic_study", "time_tables"]

#: Pairs a model keeps in the paper.
PAIRS = 7_767


def synthetic_study(n_pairs: int = PAIRS) -> tuple[pa.Table, Evaluation]:
    """Return pairs and one scored model with distributions drawn at random."""
    rng = np.random.default_rng(0)
    k = 4
    gold_old = rng.dirichlet(np.full(k, 3.0), n_pairs)
    gold_new = 0.7 * gold_old + 0.3 * rng.dirichlet(np.full(k, 3.0), n_pairs)
    undated = 0.6 * gold_old + 0.4 * rng.dirichlet(np.full(k, 3.0), n_pairs)
    old = np.where(rng.random((n_pairs, 1)) < 0.4, undated, 0.8 * undated + 0.2 * gold_old)
    new = np.where(rng.random((n_pairs, 1)) < 0.4, old, 0.8 * undated + 0.2 * gold_new)
    pairs = pa.table(
        {
            "pair_id": [f"p{i:06d}" for i in range(n_pairs)],
            "survey": ["wvs"] * n_pairs,
            "variable": ["Q"] * n_pairs,
            "country": ["8"] * n_pairs,
            "year_old": pa.array([1998] * n_pairs, pa.int16()),
            "year_new": pa.array([2018] * n_pairs, pa.int16()),
            "gold_old": gold_old.tolist(),
            "gold_new": gold_new.tolist(),
            "n_timepoints": [2] * n_pairs,
            "d_h": cc.wasserstein(gold_old, gold_new),
        }
    )
    pairs = pairs.append_column("shift", pa.array(cc.shift_class(pairs["d_h"].to_numpy()).tolist()))
    ends = zip(gold_old.tolist(), gold_new.tolist(), strict=True)
    data = PairPredictions(
        pairs,
        old.tolist(),
        new.tolist(),
        undated.tolist(),
        [list(map(float, range(k)))] * n_pairs,
        [[(1998, a), (2018, b)] for a, b in ends],
        0,
    )
    rows: list[dict[str, Any]] = score_pairs(data, retain=1.0).to_pylist()
    counts = dict.fromkeys(pairs["pair_id"].to_pylist(), 2)
    return pairs, Evaluation("r0", "synthetic", {"model": rows}, rows, counts)


def time_tables(n_resamples: int, n_pairs: int = PAIRS) -> tuple[float, int]:
    """Return the seconds all tables take and how many cells with an interval they hold."""
    pairs, evaluation = synthetic_study(n_pairs)
    all_tables(pairs, [evaluation], ScoreSettings(resamples=10))  # compiles
    started = time.perf_counter()
    tables = all_tables(pairs, [evaluation], ScoreSettings(resamples=n_resamples))
    seconds = time.perf_counter() - started
    cells = sum(len(table) - table["low"].null_count for table in tables.values())
    return seconds, cells


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seconds, cells = time_tables(asked)
    print(f"{cells} cells, {PAIRS:,} pairs, {asked:,} resamples each: {seconds:.1f} s")
