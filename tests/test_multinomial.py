"""Multinomial samples and sampling noise against exact laws.

Every test of a distribution has a fixed seed and would fail a sound sampler with another seed
one time in a million or less (``FALSE_ALARM``).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as reference_metrics
from reference import multinomial as reference
from scipy import stats

import chronocore as cc
from chronocore.noise import sampling_noise
from chronocore_kernels import multinomial, streams

pytestmark = pytest.mark.kernels

FALSE_ALARM = 1e-6


def draw(counts, n_resamples, base=1, **options):
    return multinomial.multinomial_counts(
        np.array(counts, dtype=np.int64), np.uint64(base), n_resamples, **options
    )


def chi_square(observed, probabilities):
    """Return the p-value of counts in cells, neighbours merged until 10 are expected in each."""
    observed = np.asarray(observed, dtype=float)
    expected = np.array([float(p) for p in probabilities]) * observed.sum()
    cells, seen, hoped = [], 0.0, 0.0
    for x, e in zip(observed, expected, strict=True):
        seen, hoped = seen + x, hoped + e
        if hoped >= 10:
            cells.append([seen, hoped])
            seen = hoped = 0.0
    cells[-1][0] += seen
    cells[-1][1] += hoped
    seen, hoped = np.array(cells).T
    assert hoped.sum() == pytest.approx(observed.sum(), rel=1e-9)
    if len(cells) == 1:
        return 1.0
    return stats.chi2.sf(((seen - hoped) ** 2 / hoped).sum(), len(cells) - 1)


# Elementary functions


def test_logarithms_of_factorials_are_relatively_accurate():
    table = multinomial._log_factorials(20_000)
    exact = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 20_000, dtype=np.longdouble)))])
    np.testing.assert_allclose(table, exact.astype(float), rtol=1e-13, atol=3e-14)


def test_logarithm_and_exponential_are_accurate_to_a_few_ulp():
    x = np.concatenate([np.logspace(-120, 130, 2001), 1 + np.logspace(-15, -1, 99), [0.5, 1.0, 2]])
    found = np.array([streams.log(value) for value in x])
    np.testing.assert_allclose(found, np.log(x), rtol=1e-15, atol=0)
    y = np.linspace(-20, 20, 2001)
    found = np.array([streams.exp(value) for value in y])
    np.testing.assert_allclose(found, np.exp(y), rtol=1e-15)
    assert streams.log(1.0) == 0.0
    assert streams.exp(0.0) == 1.0
    small = np.logspace(-300, np.log10(0.5), 500)
    found = np.array([multinomial._log_complement(p, 1.0 - p) for p in small])
    np.testing.assert_allclose(found, np.log1p(-small), rtol=4e-16 * 4)


@pytest.mark.parametrize("p", [1e-6, 0.001, 0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("expected", [10, 10.01, 11, 13, 20, 50, 300, 10_000])
def test_rejection_covers_every_binomial_it_is_used_for(p, expected):
    """Hörmann's hat lies above the law, and his squeeze below it, for n p >= 10."""
    n = np.ceil(expected / p)
    a, b, centre, alpha, squeeze = reference.rejection_setup(n, p)
    near = np.logspace(-9, -1, 4000)
    u = np.concatenate([np.linspace(-0.4999, 0.4999, 100_001), near - 0.5, 0.5 - near])
    us = 0.5 - abs(u)
    k = np.floor((2 * a / us + b) * u + centre)
    possible = (k >= 0) & (k <= n)
    mode = np.floor((n + 1) * p)
    law = stats.binom(n, p)
    ratio = np.where(possible, np.exp(law.logpmf(k) - law.logpmf(mode)), 0.0)
    accepted = ratio * (a / us**2 + b) / alpha
    assert accepted.max() < 1
    assert (accepted - squeeze)[us >= 0.07].min() > 0


# Known answers: one sample at a time from the same words


@pytest.mark.parametrize(
    "counts",
    [
        [1],
        [0, 3, 0],
        [2, 1, 4],
        [5, 0, 0, 9, 1],
        [12, 13, 11],
        [40, 30, 0, 20, 10],
        [3, 300, 700, 2],
        [750, 10, 240],
        [2500, 200, 300],
    ],
)
@pytest.mark.parametrize("base", [0, 12345, 2**64 - 1])
def test_counts_equal_the_reference(counts, base):
    drawn = draw(counts, 60, base)
    assert drawn.dtype == np.int32
    assert drawn.shape == (len(counts), 60)
    for r in range(60):
        expected = reference.multinomial(base, r, sum(counts), counts)
        assert drawn[:, r].tolist() == expected


def test_table_and_series_decide_alike(monkeypatch):
    """Logarithms from the table and from Stirling's series agree to 1e-10."""
    counts = np.array([3000, 2500, 1500, 767])
    rest = np.cumsum(counts[::-1])[::-1]
    shares = np.stack([counts / rest, (rest - counts) / rest])
    drawn = []
    for table in (multinomial.log_factorials(), np.empty(0)):
        out = np.empty((4, 20_000), dtype=np.int32)
        multinomial._multinomial_counts(shares, 7767, np.uint64(3), 1024, table, out)
        drawn.append(out)
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize(
    ("shares", "support", "n_old", "n_new"),
    [
        ([0.5, 0.5], None, 1, 1),
        ([0.2, 0.3, 0.5], None, 40, 40),
        ([0.25, 0.25, 0.25, 0.25], [1, 2, 5, 9], 100, 60),
        ([0.0, 0.4, 0.0, 0.6, 0.0], None, 30, 45),
        ([0.1, 0.2, 0.7], [0.5, 0.75, 10], 200, 200),
    ],
)
def test_noise_equals_the_reference(shares, support, n_old, n_new):
    rows = [[0.5, 0.5], shares]
    supports = None if support is None else [[0.0, 1.0], support]
    noise = sampling_noise(
        rows,
        supports,
        n=[[7, 5], [n_old, n_new]],
        repeats=25,
        seed=4,
        return_distances=True,
    )
    from chronocore.inference import seed_base
    from chronocore.noise import _STREAM

    expected = reference.distances(
        int(seed_base(4) ^ _STREAM), 1, 25, shares, n_old, n_new, support
    )
    np.testing.assert_allclose(noise.distances[1], expected, atol=1e-14)
    for found, level in ((noise.median, 0.5), (noise.p95, 0.95)):
        assert found[1] == pytest.approx(reference_metrics.quantile(expected, level), abs=1e-14)
    assert noise.pooled_median == pytest.approx(np.median(noise.distances), abs=1e-15)


# Distributions


@pytest.mark.parametrize(
    ("count", "n"),
    [
        *[(0, 7), (1, 1), (1, 2), (3, 8), (1, 500), (499, 500), (150, 500), (30, 60), (50, 100)],
        # Around the switch from inversion to rejection
        *[(9, 1000), (10, 1000), (11, 1000), (9, 20), (10, 20), (11, 20), (985, 1000)],
        # Around the end of the table
        *[(4000, 9000), (5000, 16_383), (5000, 16_384), (9, 100_000), (70_000, 200_000)],
    ],
)
def test_binomials_follow_their_law(count, n):
    n_resamples = 400_000
    drawn = draw([count, n - count], n_resamples, base=count + n)[0]
    law = stats.binom(n, count / n)
    low, high = drawn.min(), drawn.max()
    if n <= 100:
        probabilities = reference.binomial_pmf(n, reference.Fraction(count, n))
    else:
        probabilities = law.pmf(np.arange(n + 1))
    assert 0 <= low <= high <= n
    assert chi_square(np.bincount(drawn, minlength=n + 1), probabilities) > FALSE_ALARM


@pytest.mark.parametrize("counts", [[1, 2, 1], [3, 1, 1], [0, 2, 3, 1], [12, 12, 12], [5, 15, 10]])
def test_small_multinomials_follow_their_exact_law(counts):
    n = sum(counts)
    law = reference.multinomial_pmf(n, [reference.Fraction(c, n) for c in counts])
    drawn = draw(counts, 300_000, base=n)
    keys = {outcome: i for i, outcome in enumerate(law)}
    code = np.zeros((n + 1,) * len(counts), dtype=np.int64)
    for outcome, i in keys.items():
        code[outcome] = i
    observed = np.bincount(code[tuple(drawn)], minlength=len(law))
    impossible = [observed[keys[outcome]] for outcome, p in law.items() if p == 0]
    assert not any(impossible)
    assert chi_square(observed, law.values()) > FALSE_ALARM


@pytest.mark.parametrize("counts", [[750, 10, 240], [9000, 250, 12, 738], [500, 20, 480]])
def test_later_classes_follow_their_law_where_lanes_differ_in_method(counts):
    """What is left varies by lane, on both sides of the switch between the methods."""
    n = sum(counts)
    drawn = draw(counts, 400_000, base=7)
    for row, count in zip(drawn, counts, strict=True):
        probabilities = stats.binom(n, count / n).pmf(np.arange(n + 1))
        assert chi_square(np.bincount(row, minlength=n + 1), probabilities) > FALSE_ALARM


def test_draws_are_independent_between_resamples_and_attempts():
    """Correlations of 400,000 pairs stay within 4.9 standard errors; 12 of them are looked at."""
    size = 400_000
    for counts in ([5, 495], [250, 250]):
        drawn = draw(counts, size + 512, base=5)[0].astype(float)
        drawn -= drawn.mean()
        for lag in (1, 2, 7, 8, 256, 512):
            r = (drawn[:size] * drawn[lag : size + lag]).mean() / drawn.var()
            assert abs(r) * np.sqrt(size) < 5.4
    three = draw([300, 300, 400], size, base=5).astype(float)
    correlation = np.corrcoef(three)[0, 1]
    # The exact value is -sqrt(p q / ((1 - p) (1 - q))).
    assert abs(correlation + 3 / 7) * np.sqrt(size) < 4.9


def test_ten_million_respondents():
    n = 10_000_000
    drawn = draw([3_000_000, 6_999_999, 1], 200_000, base=2)
    assert (drawn.sum(axis=0) == n).all()
    # Cells of equal probability for the first class, exact ones for the last
    law = stats.binom(n, 0.3)
    edges = law.ppf(np.arange(1, 40) / 40)
    observed = np.bincount(np.searchsorted(edges, drawn[0]), minlength=40)
    probabilities = np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    assert chi_square(observed, probabilities) > FALSE_ALARM
    rare = stats.binom(n, 1 / n).pmf(np.arange(30))
    assert chi_square(np.bincount(drawn[2], minlength=30), rare) > FALSE_ALARM


def test_extremes():
    assert draw([5], 3).tolist() == [[5, 5, 5]]
    assert draw([0, 0, 9, 0], 2).tolist() == [[0, 0], [0, 0], [9, 9], [0, 0]]
    assert draw([0, 0], 2).tolist() == [[0, 0], [0, 0]]
    assert draw([4, 4], 0).shape == (2, 0)
    one = draw([1, 0, 0], 100)
    assert (one == np.array([[1], [0], [0]])).all()
    single = draw(np.eye(5, dtype=int).sum(axis=0), 2000)
    assert (single.sum(axis=0) == 5).all()
    largest = draw([2**31 - 2, 1], 1000)
    assert (largest.astype(np.int64).sum(axis=0) == 2**31 - 1).all()
    assert largest[1].max() < 12
    many = draw(np.ones(3000, dtype=int), 50)
    assert (many.sum(axis=0) == 3000).all()
    # The chance of no draw from a class of one is (1 - 1/3000)^3000.
    share = (many == 0).mean()
    assert abs(share - np.exp(-1)) < 4.9 * np.sqrt(0.233 / many.size)


# Sampling noise


@pytest.mark.parametrize(
    ("shares", "support", "n_old", "n_new"),
    [
        (["1/2", "1/2"], None, 6, 6),
        (["1/4", "1/4", "1/2"], None, 4, 4),
        (["1/4", "1/4", "1/2"], [0, 1, 4], 3, 5),
        (["1/8", "1/8", "1/4", "1/2"], None, 3, 2),
    ],
)
def test_noise_of_tiny_samples_follows_its_exact_law(shares, support, n_old, n_new):
    shares = [reference.Fraction(p) for p in shares]
    law = reference.distance_pmf(shares, n_old, n_new, support)
    rows = [[float(p) for p in shares]] * 1000
    noise = sampling_noise(
        rows, support, n=[[n_old, n_new]] * 1000, repeats=200, seed=1, return_distances=True
    )
    values, observed = np.unique(noise.distances.round(9), return_counts=True)
    cells = {round(distance, 9): 0 for distance in law}
    cells.update(zip(values.tolist(), observed.tolist(), strict=True))
    assert len(cells) == len(law)
    merged = dict.fromkeys(cells, 0)
    for distance, probability in law.items():
        merged[round(distance, 9)] += probability
    ordered = sorted(cells)
    assert chi_square([cells[x] for x in ordered], [merged[x] for x in ordered]) > FALSE_ALARM


@pytest.mark.parametrize("n", [100, 500, (400, 900), (20_000, 30_000)])
def test_noise_agrees_with_a_simulation_in_numpy(n):
    """Two-sample Kolmogorov-Smirnov on continuous distances (irregular support)."""
    shares = np.array([0.05, 0.3, 0.01, 0.44, 0.2])
    support = np.array([0.0, 1.0, 2.618, 3.1415, 7.0])
    n_old, n_new = n if isinstance(n, tuple) else (n, n)
    ours = sampling_noise(
        np.tile(shares, (200, 1)),
        support,
        n=[[n_old, n_new]] * 200,
        repeats=200,
        seed=3,
        return_distances=True,
    ).distances.ravel()
    rng = np.random.default_rng(0)
    old = rng.multinomial(n_old, shares, 40_000).cumsum(axis=1) / n_old
    new = rng.multinomial(n_new, shares, 40_000).cumsum(axis=1) / n_new
    theirs = (abs(old - new)[:, :-1] * np.diff(support)).sum(axis=1) / 7.0
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM


def test_noise_has_the_quantiles_of_its_distances():
    rng = np.random.default_rng(2)
    for repeats in (1, 2, 7, 200, 1200):
        for n in (1, 30, 500, 10_000_000, [[500, 700]] * 20):
            noise = sampling_noise(
                rng.dirichlet(np.ones(4), 20), n=n, repeats=repeats, seed=1, return_distances=True
            )
            for found, level in ((noise.median, 0.5), (noise.p95, 0.95)):
                expected = np.quantile(noise.distances, level, axis=1)
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
            assert noise.pooled_median == pytest.approx(np.median(noise.distances), rel=1e-12)


def test_pooled_median_of_many_distances_is_exact():
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(3), 400)
    noise = sampling_noise(rows, repeats=201, seed=0, return_distances=True)
    assert noise.pooled_median == np.median(noise.distances)
    rows = np.tile([1.0, 0.0], (700, 1))
    rows[:100] = 0.5
    noise = sampling_noise(rows, repeats=200, seed=0)
    assert noise.pooled_median == 0.0
    # Sorted so that every sample of it misleads
    awkward = np.tile(np.concatenate([[1.0], np.zeros(31)]), 4096)
    module = importlib.import_module("chronocore.noise")  # the package has a function of that name

    assert module._median(awkward) == np.median(awkward)


def test_options_without_probability_are_never_drawn():
    rows = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    noise = sampling_noise(rows, n=10_000_000, repeats=50, seed=0, return_distances=True)
    assert not noise.distances.any()
    # Rounded sums above and below 1 leave nothing for the option behind them.
    for first in (0.1, 0.3, 1 / 3, 0.7):
        shares = [first, 1 - first - 3e-7, 0.0]
        support = [0.0, 1e-9, 1.0]
        noise = sampling_noise([shares], support, repeats=500, seed=0, return_distances=True)
        assert noise.distances.max() < 1e-8


def test_rare_options_are_drawn_as_often_as_they_should():
    """Poisson(1e-5 x 10^7 x 2): the number of repeats with any difference at all."""
    shares = [1 - 1e-12, 1e-12]
    noise = sampling_noise([shares] * 500, n=10_000_000, repeats=400, seed=0, return_distances=True)
    different = int((noise.distances > 0).sum())
    expected = 200_000 * 2e-5
    assert stats.poisson(expected).sf(different - 1) > FALSE_ALARM
    assert stats.poisson(expected).cdf(different) > FALSE_ALARM
    reverse = sampling_noise(
        [shares[::-1]] * 500, n=10_000_000, repeats=400, seed=0, return_distances=True
    )
    np.testing.assert_array_equal(reverse.distances > 0, noise.distances > 0)


def test_noise_of_500_respondents_agrees_with_a_simulation_in_numpy():
    """Quantiles of 400,000 distances in steps of 1 / 1500 are at most one step apart."""
    noise = sampling_noise([[0.25] * 4] * 2000, seed=0, return_distances=True)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(500, [0.25] * 4, (2, 400_000)).cumsum(axis=2)[..., :3]
    theirs = abs(counts[0] - counts[1]).sum(axis=1) / 1500
    levels = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
    difference = np.quantile(noise.distances, levels) - np.quantile(theirs, levels)
    assert abs(difference).max() < 1.01 / 1500
    assert noise.distances.mean() == pytest.approx(theirs.mean(), rel=0.007)


@given(
    st.lists(
        st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(any), min_size=1, max_size=4
    ),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 40),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_noise_stays_within_its_bounds(weights, n_old, n_new, repeats, seed, spaced):
    rows = [(np.array(w) / sum(w)).tolist() for w in weights]
    support = [np.cumsum(np.arange(1.0, len(w) + 1)).tolist() for w in rows] if spaced else None
    arguments = (rows, support)
    options = {"n": [[n_old, n_new]] * len(rows), "repeats": repeats, "seed": seed}
    noise = sampling_noise(*arguments, **options, return_distances=True)
    again = sampling_noise(*arguments, **options)
    assert again.distances is None
    np.testing.assert_array_equal(again.median, noise.median)
    np.testing.assert_array_equal(again.p95, noise.p95)
    assert again.pooled_median == noise.pooled_median
    assert noise.distances.shape == (len(rows), repeats)
    assert ((noise.distances >= 0) & (noise.distances <= 1)).all()
    assert (noise.median <= noise.p95).all()
    if support is None:
        steps = np.array([n_old * n_new * (len(row) - 1) for row in rows])
        np.testing.assert_allclose(
            noise.distances * steps[:, None], (noise.distances * steps[:, None]).round(), atol=1e-6
        )
    for row, distances in zip(rows, noise.distances, strict=True):
        if max(row) == 1:
            assert not distances.any()


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=7),
    st.integers(1, 50),
    st.integers(0, 2**64 - 1),
)
def test_counts_sum_to_n_and_keep_empty_classes_empty(counts, n_resamples, base):
    drawn = draw(counts, n_resamples, base)
    assert (drawn >= 0).all()
    assert (drawn.sum(axis=0) == sum(counts)).all()
    assert not drawn[np.array(counts) == 0].any()


# Arguments


def test_shapes_and_sizes():
    vector = sampling_noise([0.5, 0.5], seed=0)
    assert vector.median.shape == vector.p95.shape == vector.n_old.shape == ()
    assert (vector.n_old, vector.n_new, vector.repeats) == (500, 500, 200)
    pair = sampling_noise([0.5, 0.5], n=[10, 20], repeats=3, seed=0, return_distances=True)
    assert (pair.n_old, pair.n_new, pair.distances.shape) == (10, 20, (3,))
    grid = sampling_noise(np.full((2, 3, 4), 0.25), n=np.full((2, 3), 50.0), seed=0)
    assert grid.median.shape == (2, 3)
    ragged = pa.array([[0.5, 0.5], [0.2, 0.3, 0.5]])
    columns = sampling_noise(ragged, n=pa.array([100, 200]), seed=0)
    assert columns.n_new.tolist() == [100, 200]
    assert sampling_noise(np.empty((0, 3)), seed=0).median.shape == (0,)
    assert np.isnan(sampling_noise(np.empty((0, 3)), seed=0).pooled_median)


def test_support_of_equal_steps_changes_nothing():
    rows = np.random.default_rng(0).dirichlet(np.ones(5), 30)
    plain = sampling_noise(rows, seed=0, return_distances=True)
    spaced = sampling_noise(rows, [1, 2, 3, 4, 5], seed=0, return_distances=True)
    np.testing.assert_array_equal(plain.distances, spaced.distances)
    np.testing.assert_array_equal(plain.median, spaced.median)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.5, 0.6]],), {}, "probs, row 0: sums"),
        (([[1.0]],), {}, "at least 2"),
        (([[0.5, 0.5]], [2, 1]), {}, "strictly increasing"),
        (([[0.5, 0.5]],), {"n": 0}, "whole numbers from 1"),
        (([[0.5, 0.5]],), {"n": 512.5}, "512.5"),
        (([[0.5, 0.5]],), {"n": 2**31}, "whole numbers"),
        (([[0.5, 0.5]],), {"n": float("nan")}, "whole numbers"),
        (([[0.5, 0.5]],), {"n": True}, "not true or false"),
        (([[0.5, 0.5]],), {"n": "many"}, "cannot be read"),
        (([[0.5, 0.5]],), {"n": [1, 2, 3]}, r"shape \(3,\)"),
        (([[0.5, 0.5]],), {"repeats": 0}, "repeats"),
        (([[0.5, 0.5]],), {"repeats": 1.5}, "repeats"),
        (([[0.5, 0.5]],), {"seed": -1}, "seed"),
        (([[0.5, 0.5]],), {"repeats": 2**33}, "more random numbers"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(arguments, options, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        sampling_noise(*arguments, **{"seed": 0, **options})


# The same bits everywhere

SCRIPT = """
import hashlib, json, sys
import numba, numpy as np
from chronocore_kernels import multinomial, streams
from chronocore.noise import sampling_noise
if sys.argv[1] != "0":
    numba.set_num_threads(int(sys.argv[1]))
out = []
for counts, n in (([3, 300, 700, 2], 70), ([20, 15, 0, 9], 40), ([750, 10, 240], 40),
                  ([9_000, 30_000, 20_000], 30), ([2_000_000, 8_000_000], 30)):
    drawn = multinomial.multinomial_counts(np.array(counts), np.uint64(9), n)
    out.append(hashlib.sha256(drawn.tobytes()).hexdigest())
rows = [[0.2, 0.3, 0.5], [0.01, 0.5, 0.2, 0.29]]
for n, support in ((500, None), ([[400, 30_000], [20, 7]],
                                [[0.0, 0.3, 1.0], [1.0, 2.0, 4.0, 8.0]])):
    noise = sampling_noise(rows, support, n=n, repeats=30, seed=2, return_distances=True)
    out.append(hashlib.sha256(noise.distances.tobytes()).hexdigest())
    out.append([noise.median.tolist(), noise.p95.tolist(), noise.pooled_median])
if sys.argv[1] != "0":
    drawn = multinomial.multinomial_counts(np.array([3000, 2500, 1500, 767]), np.uint64(4), 9000)
    out.append(hashlib.sha256(drawn.tobytes()).hexdigest())
print(json.dumps(out))
"""


def run_script(environment, threads, **extra):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(threads)],
        env={**environment, **extra},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def test_bits_do_not_depend_on_threads_or_layer(child_environment):
    environment = {**child_environment, "NUMBA_NUM_THREADS": "4"}
    one = run_script(environment, 1)
    assert run_script(environment, 4, NUMBA_THREADING_LAYER="workqueue") == one
    assert run_script(environment, 3, NUMBA_THREADING_LAYER="omp") == one


@pytest.mark.slow
def test_bits_do_not_depend_on_instructions_or_the_compiler(child_environment):
    one = run_script(child_environment, 1)
    plain = run_script(child_environment, 0, CHRONOCORE_JIT="0")
    assert plain == one[:-1]
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    environment = {**child_environment, "NUMBA_NUM_THREADS": "4"}
    assert run_script(environment, 2, **generic) == one


def test_bits_do_not_depend_on_the_size_of_blocks():
    for counts in ([3, 300, 700, 2], [750, 10, 240], [30_000, 20_000]):
        whole = draw(counts, 3001)
        for width in (1, 7, 64, 1000):
            np.testing.assert_array_equal(draw(counts, 3001, width=width), whole)
        np.testing.assert_array_equal(draw(counts, 57), whole[:, :57])
    rows = np.array([0.2, 0.3, 0.5, 0.01, 0.99])
    found = [
        multinomial.sampling_noise(
            rows,
            np.array([0, 3]),
            np.empty(0),
            np.array([0, 3]),
            np.array([3, 2]),
            np.array([500, 40]),
            np.array([500, 90]),
            301,
            np.array([0.5, 0.95]),
            np.uint64(8),
            width=width,
        )
        for width in (1, 33, 512)
    ]
    for quantiles, distances in found[1:]:
        np.testing.assert_array_equal(quantiles, found[0][0])
        np.testing.assert_array_equal(distances, found[0][1])
