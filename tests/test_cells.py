"""The cells of tables, drawn many at a time, against ``bootstrap`` and ``class_shares`` one by one.

Equal means to the last bit: what a table shows of a cell is what the function gives for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chronocore as cc
from chronocore.config import ScoreSettings
from chronocore.inference import class_shares
from chronocore.tables.intervals import PairBootstrap, Quantity, Shares

RESAMPLES = st.sampled_from([1, 2, 3, 40, 101])
LEVELS = st.sampled_from([0.5, 0.9, 0.95, 0.999])


@dataclass(frozen=True)
class Cell:
    """One cell: its kind, the values of its pairs, and the seed of its stream."""

    kind: str
    values: Any
    seed: int
    weights: Any = None
    n_classes: int = 0


def numbers(size):
    """Values of one cell: all different, or so few that many are tied."""
    different = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=size, max_size=size)
    tied = st.lists(st.sampled_from([0.0, 0.25, -0.5, 1e-9]), min_size=size, max_size=size)
    return st.one_of(different, tied).map(np.array)


SIZES = st.one_of(st.just(1), st.just(2), st.integers(1, 70))
# Cells of one table share streams: equal seeds come up often.
SEEDS = st.integers(0, 3)


@st.composite
def cells(draw, kinds=("mean", "weighted", "median", "proportion", "shares")):
    kind = draw(st.sampled_from(kinds))
    size = draw(SIZES)
    if kind == "proportion":
        values = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        return Cell(kind, values, draw(SEEDS))
    if kind == "shares":
        n_classes = draw(st.integers(2, 6))
        codes = st.lists(st.integers(0, n_classes - 1), min_size=size, max_size=size)
        return Cell(kind, np.array(draw(codes), dtype=np.int8), draw(SEEDS), None, n_classes)
    values = draw(numbers(size))
    weights = None
    if kind == "weighted":
        weights = np.array(
            draw(st.lists(st.sampled_from([0.1, 1.0, 1 / 3, 7.5]), min_size=size, max_size=size))
        )
    return Cell(kind, values, draw(SEEDS), weights)


def asked(bootstrap, cell):
    """Ask the tables' bootstrap for a cell; its ends are there after ``finish``."""
    rows = np.arange(len(cell.values))
    if cell.kind == "shares":
        names = tuple(f"class {code}" for code in range(cell.n_classes))
        return bootstrap.shares(Shares(names, lambda v: v), cell.values, rows, cell.seed)
    statistic = {"weighted": "mean"}.get(cell.kind, cell.kind)
    weights = None if cell.weights is None else lambda _, rows: cell.weights[rows]
    quantity = Quantity("m", "W", statistic, lambda v: v, weights=weights)
    return bootstrap.statistic(quantity, cell.values, rows, cell.seed)


def expected(cell, used):
    """Estimate, low and high of a cell by the function for one sample."""
    options = {
        "n_resamples": used.resamples, "confidence_level": used.confidence_level,
        "seed": cell.seed,
    }  # fmt: skip
    if cell.kind == "shares":
        result = class_shares(cell.values, cell.n_classes, **options)
        # The tables have per cent.
        return [np.asarray(part) * 100 for part in (result.estimate, *result.confidence_interval)]
    statistic = {"weighted": "mean"}.get(cell.kind, cell.kind)
    values = cell.values.astype(float)
    result = cc.bootstrap(values, statistic, weights=cell.weights, **options)
    return [np.array([part]) for part in (result.estimate, *result.confidence_interval)]


def check(drawn, resamples, level):
    used = ScoreSettings(resamples=resamples, confidence_level=level)
    bootstrap = PairBootstrap(used)
    found = [asked(bootstrap, cell) for cell in drawn]
    bootstrap.finish()
    for cell, one in zip(drawn, found, strict=True):
        assert one.n == len(cell.values)
        for name, value in zip(("estimate", "low", "high"), expected(cell, used), strict=True):
            assert getattr(one, name).tolist() == value.tolist(), (cell, name)


@given(st.lists(cells(), min_size=1, max_size=12), RESAMPLES, LEVELS)
def test_cells_of_all_kinds_equal_single_samples(drawn, resamples, level):
    check(drawn, resamples, level)


@settings(max_examples=40)
@pytest.mark.parametrize("kind", ["mean", "weighted", "median", "proportion", "shares"])
@given(data=st.data())
def test_cells_of_one_kind_equal_single_samples(kind, data):
    drawn = data.draw(st.lists(cells((kind,)), min_size=1, max_size=25))
    check(drawn, data.draw(RESAMPLES), data.draw(LEVELS))


@given(st.integers(1, 3), st.integers(0, 40), st.sampled_from([0.0, 0.1, 1e300, -7.0]), LEVELS)
def test_equal_values_have_an_interval_without_width(n, seed, value, level):
    for kind in ("mean", "median"):
        used = ScoreSettings(resamples=20, confidence_level=level)
        bootstrap = PairBootstrap(used)
        one = asked(bootstrap, Cell(kind, np.full(n, value), seed))
        bootstrap.finish()
        assert one.low.tolist() == pytest.approx(one.estimate.tolist())
        assert one.high.tolist() == pytest.approx(one.estimate.tolist())


@pytest.mark.parametrize("levels", [1, 2, 64])
def test_means_of_few_levels_equal_single_samples(levels):
    rng = np.random.default_rng(levels)
    # At most 64 levels of some twenty values each are drawn from counts, others from rows.
    for n in (20 * levels, 20 * levels + 1, 21 * levels + 40):
        values = np.resize(np.arange(levels) / 7, n)[rng.permutation(n)]
        drawn = [Cell("mean", values, seed) for seed in (0, 1)]
        drawn.append(Cell("mean", rng.random(n), 0))
        check(drawn, 200, 0.95)


def test_a_large_cell_and_thousands_of_small_ones():
    rng = np.random.default_rng(0)
    drawn = [
        Cell(kind, values, int(rng.integers(5)))
        for size in (9000, *rng.integers(1, 30, 300))
        for kind, values in (
            ("mean", rng.random(size)), ("median", rng.lognormal(size=size)),
            ("proportion", rng.random(size) < 0.3),
        )
    ]  # fmt: skip
    check(drawn, 60, 0.95)


def test_asking_again_after_the_end_draws_only_what_is_new():
    used = ScoreSettings(resamples=50)
    bootstrap = PairBootstrap(used)
    first = asked(bootstrap, Cell("mean", np.array([1.0, 2.0, 4.0]), 3))
    assert np.isnan(first.low).all()
    bootstrap.finish()
    kept = (first.low.copy(), first.high.copy())
    second = asked(bootstrap, Cell("mean", np.array([5.0, 6.0]), 3))
    bootstrap.finish()
    assert (first.low == kept[0]).all()
    assert (first.high == kept[1]).all()
    assert 5 <= second.low[0] <= second.high[0] <= 6
    empty = asked(bootstrap, Cell("mean", np.empty(0), 3))
    bootstrap.finish()
    assert np.isnan([empty.estimate[0], empty.low[0], empty.high[0]]).all()
    assert empty.n == 0
