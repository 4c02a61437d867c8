"""Clustered, two-level and simultaneous intervals, against loops over units and formulas."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import resampling as reference

import chronocore as cc
from chronocore.differences import Measure, paired_differences
from chronocore.inference import seed_base
from chronocore.intervals import cell_interval, cell_shares, two_level_replicates, units_of
from chronocore_kernels import two_level

NUMBERS = st.one_of(st.integers(-9, 9).map(float), st.just(math.nan))


@st.composite
def redrawn_cells(draw):
    n = draw(st.integers(1, 9))
    n_redraws = draw(st.integers(1, 3))
    rows = [draw(st.lists(NUMBERS, min_size=n, max_size=n)) for _ in range(n_redraws)]
    clusters = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    return rows, clusters


@settings(max_examples=60)
@given(redrawn_cells(), st.sampled_from(["mean", "median"]), st.booleans())
def test_replicates_equal_the_reference(cell, statistic, clustered):
    rows, clusters = cell
    units = units_of(clusters if clustered else None, len(clusters))
    found = two_level_replicates(np.array([rows]), statistic, units, 7, seed=5)[:, 0]
    members = reference.members(clusters if clustered else range(len(clusters)))
    expected = reference.two_level(rows, members, statistic, int(seed_base(5)), 7)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@settings(max_examples=40)
@given(redrawn_cells())
def test_class_counts_equal_the_reference(cell):
    rows, clusters = cell
    codes = np.array([[-1 if math.isnan(v) else int(abs(v)) % 3 for v in row] for row in rows])
    units = units_of(clusters, len(clusters))
    ordered = np.ascontiguousarray(codes[:, units.order], dtype=np.int8)
    base = seed_base(5)
    counts = two_level.two_level_counts(ordered, 3, units.offsets, base, 6)
    members = reference.members(clusters)
    for j in range(3):
        hits = [[math.nan if c < 0 else float(c == j) for c in row] for row in codes.tolist()]
        shares = reference.two_level(hits, members, "mean", int(base), 6)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(counts[:, j] / counts.sum(axis=1), shares, atol=1e-12)


@settings(max_examples=40)
@given(redrawn_cells(), st.sampled_from(["mean", "median"]))
def test_one_redraw_is_drawn_alike_by_both_ways(cell, statistic):
    # One redraw goes through sums and sorted values, two equal ones through the kernels.
    rows, clusters = cell
    units = units_of(clusters, len(clusters))
    once = two_level_replicates(np.array([rows[:1]]), statistic, units, 20, seed=1)
    twice = two_level_replicates(np.array([rows[:1] * 2]), statistic, units, 20, seed=1)
    np.testing.assert_allclose(once, twice, atol=1e-12)


def test_without_clusters_and_redraws_it_is_the_bootstrap():
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=200)
    for statistic in ("mean", "median"):
        result = cc.bootstrap(values, statistic, seed=3)
        found = cell_interval(values, statistic, seed=3)
        assert found == (result.estimate, *result.confidence_interval)
    codes = rng.integers(0, 3, 200)
    estimate, low, high = cell_shares(codes, 3, seed=3)
    result = cc.bootstrap(codes, "proportion", seed=3)
    np.testing.assert_array_equal(estimate, result.estimate)
    np.testing.assert_array_equal([low, high], result.confidence_interval)


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion"])
def test_clusters_through_the_public_bootstrap(statistic):
    rng = np.random.default_rng(1)
    country = np.repeat(np.arange(30), 20)
    level = rng.normal(size=30)[country]
    values = level + 0.3 * rng.normal(size=600)
    if statistic == "proportion":
        values = (values > 0).astype(float)
    found = cell_interval(values, statistic, clusters=country, seed=4)
    result = cc.bootstrap(values, statistic, clusters=country, seed=4)
    assert found == (result.estimate, *result.confidence_interval)
    alone = cell_interval(values, statistic, seed=4)
    assert found[2] - found[1] > 2 * (alone[2] - alone[1])


def test_shares_of_clusters_add_up():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 4, 300)
    estimate, low, high = cell_shares(codes, 4, clusters=np.repeat(np.arange(20), 15), seed=0)
    assert estimate.sum() == pytest.approx(1)
    assert (low < estimate).all()
    assert (high > estimate).all()
    again = cell_shares(codes, 4, clusters=[f"c{i:02}" for i in np.repeat(np.arange(20), 15)])
    np.testing.assert_array_equal([low, high], again[1:])


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion"])
@pytest.mark.parametrize("clustered", [False, True])
def test_two_levels_are_wider_than_one(statistic, clustered):
    # Errors of the surveys as large as the spread between pairs: the interval must grow by
    # some sqrt(2), and stay around its estimate.
    rng = np.random.default_rng(3)
    truth = rng.normal(size=400)
    redrawn = truth + rng.normal(size=(100, 400))
    clusters = np.repeat(np.arange(80), 5) if clustered else None
    if statistic == "proportion":
        truth, redrawn = (truth > 0).astype(float), (redrawn > 0).astype(float)
    one = cell_interval(truth, statistic, clusters=clusters, seed=1, n_resamples=4000)
    two = cell_interval(
        truth, statistic, clusters=clusters, redrawn=redrawn, seed=1, n_resamples=4000
    )
    assert two[0] == pytest.approx(one[0], abs=1e-14)
    assert 1.1 < (two[2] - two[1]) / (one[2] - one[1]) < 2.2
    assert two[1] < two[0] < two[2]


def test_a_statistic_that_redraws_move_keeps_its_estimate_inside():
    # Distances near zero can only grow: without moving back, the interval would lie above.
    rng = np.random.default_rng(4)
    observed = np.abs(0.01 * rng.normal(size=5000))
    redrawn = np.abs(observed + 0.02 * rng.normal(size=(50, 5000)))
    for statistic in ("mean", "median"):
        estimate, low, high = cell_interval(observed, statistic, redrawn=redrawn, seed=0)
        assert low < estimate < high
    estimate, low, high = cell_shares(
        (observed < 0.01).astype(int), 2, redrawn=(redrawn < 0.01).astype(int), seed=0
    )
    assert (low < estimate).all()
    assert (estimate < high).all()


def test_weights_go_through_both_levels():
    rng = np.random.default_rng(5)
    values = rng.random(300)
    weights = rng.integers(1, 5, 300).astype(float)
    redrawn = values + 0.1 * rng.normal(size=(40, 300))
    redrawn[3, 7] = np.nan
    estimate, low, high = cell_interval(values, "mean", weights=weights, redrawn=redrawn, seed=0)
    assert estimate == pytest.approx(np.average(values, weights=weights))
    assert low < estimate < high
    plain = cell_interval(values, "mean", weights=weights, seed=0)
    assert high - low > plain[2] - plain[1]
    with pytest.raises(cc.InvalidInputError, match="not for medians"):
        cell_interval(values, "median", weights=weights, redrawn=redrawn)


def test_empty_cells_and_wrong_shapes():
    assert all(math.isnan(x) for x in cell_interval([], "mean", redrawn=np.empty((3, 0))))
    assert all(np.isnan(x).all() for x in cell_shares([], 3, clusters=[]))
    with pytest.raises(cc.InvalidInputError, match="redrawn must have shape"):
        cell_interval([1.0, 2.0], "mean", redrawn=[[1.0]])
    with pytest.raises(cc.InvalidInputError, match="clusters must have shape"):
        cell_shares([0, 1], 2, clusters=["a"])
    with pytest.raises(cc.InvalidInputError, match="below n_classes"):
        cell_shares([0, 2], 2, clusters=["a", "b"])
    with pytest.raises(cc.InvalidInputError, match="finite"):
        cell_interval([np.nan], "mean", redrawn=[[1.0]])


# -- differences -----------------------------------------------------------------------------------


def test_simultaneous_intervals_equal_the_reference():
    rng = np.random.default_rng(6)
    values = rng.random((3, 40))
    values[1] += 0.2
    other = np.where(rng.random((3, 45)) < 0.2, np.nan, rng.normal(size=(3, 45)))
    measures = [Measure("x", "all", "mean", values), Measure("y", "some", "median", other)]
    # A class of three pairs would be as far from zero in many a resample as all others together.
    few = Measure("z", "few", "mean", 5 + rng.normal(size=(3, 3)))
    result = paired_differences([*measures, few], ["a", "b", "c"], n_resamples=300, seed=9)
    for one in result.differences[6:]:
        assert one.low < one.estimate < one.high
        assert math.isnan(one.simultaneous_low)
        assert math.isnan(one.simultaneous_high)
        assert math.isnan(one.p_value)
        assert one.n == one.units == 3
    result = paired_differences(measures, ["a", "b", "c"], n_resamples=300, seed=9)
    estimates, replicates = [], []
    for measure in measures:
        columns = two_level_replicates(
            measure.values[:, None], measure.statistic,
            units_of(None, measure.values.shape[1]), 300,
            cc_seed(9, measure.group),
        )  # fmt: skip
        statistic = np.nanmean if measure.statistic == "mean" else np.nanmedian
        own = statistic(measure.values, axis=1)
        for a, b in ((0, 1), (0, 2), (1, 2)):
            estimates.append(own[a] - own[b])
            replicates.append((columns[:, a] - columns[:, b]).tolist())
    critical, intervals, p_values = reference.simultaneous(estimates, replicates, 0.95)
    assert result.comparisons == 6
    assert result.critical_value == pytest.approx(critical, rel=1e-12)
    for one, estimate, interval, p in zip(
        result.differences, estimates, intervals, p_values, strict=True
    ):
        assert one.estimate == pytest.approx(estimate, abs=1e-14)
        assert (one.simultaneous_low, one.simultaneous_high) == pytest.approx(interval, abs=1e-12)
        assert one.p_value == p
        assert one.simultaneous_low < one.low < one.high < one.simultaneous_high
    assert [d.n for d in result.differences[:3]] == [40] * 3
    assert result.differences[3].n == (~np.isnan(other[0]) & ~np.isnan(other[1])).sum()


def test_few_pairs_or_clusters_take_no_part_in_the_maximum():
    rng = np.random.default_rng(16)
    values = rng.normal(size=(2, 60))
    for n, clusters, units in (
        (19, None, 19), (20, None, 20), (60, np.arange(60) // 3, 20), (60, np.arange(60) // 4, 15),
    ):  # fmt: skip
        measure = Measure("x", "all", "mean", values[:, :n], clusters)
        alone = paired_differences([measure], ["a", "b"])
        (one,) = alone.differences
        assert (one.n, one.units) == (n, units)
        assert alone.comparisons == (units >= 20)
        assert math.isnan(one.simultaneous_low) == math.isnan(one.p_value) == (units < 20)
        assert one.low < one.estimate < one.high
        whole = Measure("y", "whole", "mean", values)
        beside = paired_differences([measure, whole], ["a", "b"])
        if units < 20:
            only = paired_differences([whole], ["a", "b"])
            assert beside.critical_value == only.critical_value
            assert beside.comparisons == 1


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("clustered", [False, True])
def test_two_models_are_compared_on_the_pairs_of_both(statistic, clustered, monkeypatch):
    rng = np.random.default_rng(17)
    values = rng.random((3, 90))
    evaluated = np.ones((3, 90), dtype=bool)
    evaluated[0, :30] = evaluated[1, 60:] = False
    clusters = np.arange(90) % 30 if clustered else None
    redrawn = values[:, None] + 0.1 * rng.normal(size=(3, 4, 90))
    for again in (None, redrawn):
        measure = Measure("x", "all", statistic, values, clusters, again, evaluated)
        result = paired_differences([measure], ["a", "b", "c"], seed=3)
        own = {(one.first, one.second): one for one in result.differences}
        assert [one.n for one in result.differences] == [30, 60, 60]
        for (a, b), one in own.items():
            inside = evaluated["abc".index(a)] & evaluated["abc".index(b)]
            first, second = (values["abc".index(name)][inside] for name in (a, b))
            expected = getattr(np, statistic)(first) - getattr(np, statistic)(second)
            assert one.estimate == pytest.approx(expected, abs=1e-14)
            # What lies outside of the pairs of both decides nothing.
            other = values.copy()
            other[:, ~inside] = rng.random((3, int((~inside).sum())))
            changed = Measure("x", "all", statistic, other, clusters, None, evaluated)
            if again is None:
                same = paired_differences([changed], ["a", "b", "c"], seed=3).differences
                (twin,) = [d for d in same if (d.first, d.second) == (a, b)]
                assert (twin.estimate, twin.low, twin.high) == (one.estimate, one.low, one.high)
        with monkeypatch.context() as patch:
            patch.setattr("chronocore.differences._DEVIATIONS", 1)
            parts = paired_differences([measure], ["a", "b", "c"], seed=3)
        assert parts == result
    with pytest.raises(cc.InvalidInputError, match="evaluated must be true or false"):
        paired_differences([Measure("x", "all", "mean", values, evaluated=evaluated[:2])], "abc")


def cc_seed(seed, group):
    from chronocore.identity import derived_seed

    return derived_seed(seed, "differences", group)


def test_pairing_takes_away_what_is_hard_for_both():
    rng = np.random.default_rng(7)
    hard = rng.normal(size=300)
    values = np.stack([hard, hard + 0.05 + 0.05 * rng.normal(size=300)])
    (one,) = paired_differences([Measure("error", "all", "mean", values)], ["a", "b"]).differences
    assert one.simultaneous_high < 0
    intervals = [cell_interval(row, "mean", seed=0)[1:] for row in values]
    assert intervals[0][1] > intervals[1][0]  # alone they overlap


def test_equal_models_do_not_differ_and_count_as_no_comparison():
    values = np.random.default_rng(8).random((1, 50)).repeat(2, axis=0)
    result = paired_differences([Measure("x", "all", "mean", values)], ["a", "b"])
    (one,) = result.differences
    assert (one.estimate, one.low, one.high, one.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert (one.simultaneous_low, one.simultaneous_high) == (0.0, 0.0)
    assert result.comparisons == 0
    assert math.isnan(result.critical_value)
    empty = paired_differences([Measure("x", "all", "mean", np.empty((2, 0)))], ["a", "b"])
    assert math.isnan(empty.differences[0].simultaneous_low)
    assert empty.comparisons == 0


def test_more_comparisons_need_wider_intervals():
    rng = np.random.default_rng(9)
    criticals = []
    for models in (2, 4, 8):
        values = rng.normal(size=(models, 200))
        labels = [str(i) for i in range(models)]
        result = paired_differences([Measure("x", "all", "mean", values)], labels)
        criticals.append(result.critical_value)
    assert 1.8 < criticals[0] < 2.15
    assert criticals[0] < criticals[1] < criticals[2] < 3.6


def test_gold_error_of_a_difference_is_shared():
    # Both models are wrong by the same survey: its error cancels in their difference.
    rng = np.random.default_rng(10)
    values = rng.normal(size=(2, 300))
    error = rng.normal(size=(60, 300))
    redrawn = values[:, None] + error
    plain = paired_differences([Measure("x", "all", "mean", values)], ["a", "b"])
    both = paired_differences([Measure("x", "all", "mean", values, redrawn=redrawn)], ["a", "b"])
    width = [d.differences[0].high - d.differences[0].low for d in (plain, both)]
    assert width[1] == pytest.approx(width[0], rel=1e-9)


def test_wrong_measures_are_refused():
    for measure in (
        Measure("x", "all", "mode", np.ones((2, 3))),
        Measure("x", "all", "mean", np.ones((3, 3))),
        Measure("x", "all", "mean", np.ones((2, 3)), redrawn=np.ones((2, 4))),
    ):
        with pytest.raises(cc.InvalidInputError):
            paired_differences([measure], ["a", "b"])


# -- threads ---------------------------------------------------------------------------------------

SCRIPT = """
import hashlib, sys
import numba, numpy as np
numba.set_num_threads(int(sys.argv[1]))
from chronocore.differences import Measure, paired_differences
from chronocore.intervals import cell_interval, cell_shares
rng = np.random.default_rng(0)
values, clusters = rng.lognormal(size=257), rng.integers(0, 20, 257)
redrawn = values * rng.lognormal(0, 0.2, (7, 257))
out = [
    cell_interval(values, statistic, clusters=labels, redrawn=again, n_resamples=100, seed=1)
    for statistic in ("mean", "median") for labels in (None, clusters) for again in (None, redrawn)
]
codes = (values * 3).astype(int) % 3
out += [np.array(cell_shares(codes, 3, clusters=clusters, seed=1, n_resamples=100)).tolist()]
measure = Measure("x", "all", "mean", redrawn[:3], clusters)
out += [[d.simultaneous_low for d in paired_differences([measure], list("abc")).differences]]
print(hashlib.sha256(repr(out).encode()).hexdigest())
"""


def test_intervals_are_the_same_on_any_number_of_threads(child_environment):
    digests = set()
    for threads in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(threads)],
            env={**child_environment, "NUMBA_NUM_THREADS": "2"}, capture_output=True,
            text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
