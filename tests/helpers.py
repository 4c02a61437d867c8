"""What several test files build their inputs with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import chronocore as cc
from chronocore.arrow import rows_of
from chronocore.scores import PairPredictions


def complete(old, new, undated, gold_old, gold_new, *, middle=(), survey="wvs", support=None):
    """One pair with given distributions, ready to score."""
    support = list(map(float, support or range(1, len(old) + 1)))
    points = [(1995, list(gold_old)), *middle, (2010, list(gold_new))]
    pairs = pa.table(
        {
            "pair_id": ["p1"], "survey": [survey], "variable": ["Q"], "country": ["8"],
            "year_old": pa.array([1995], pa.int16()), "year_new": pa.array([2010], pa.int16()),
            "n_timepoints": [len(points)],
            "d_h": [float(cc.wasserstein(gold_old, gold_new, support))],
        }
    )  # fmt: skip

    def rows(*distributions):
        return rows_of([list(map(float, row)) for row in distributions], "row")

    return PairPredictions(
        pairs=pairs,
        index=np.arange(1),
        old=rows(old),
        new=rows(new),
        undated=rows(undated),
        gold_old=rows(gold_old),
        gold_new=rows(gold_new),
        supports=rows(support),
        points=rows(*(probs for _, probs in points)),
        point_years=np.array([year for year, _ in points]),
        point_starts=np.array([0, len(points)]),
        n_incomplete=0,
    )
