"""The bootstrap: streams, exact laws against plain resampling and enumeration, awkward samples.

Tests of distributions use fixed seeds and fail a sound program less than once in a million.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as reference

import chronocore as cc
from chronocore_kernels import resampling

pytestmark = pytest.mark.kernels

SAMPLES = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=12)

#: Largest chi-square statistic with ``cells`` cells that chance gives once in a million.
MILLION = 1e-6


def chi_square(counts, expected):
    """p-value of observed counts; cells expected below 5 are pooled."""
    order = np.argsort(expected)
    counts, expected = np.asarray(counts, float)[order], np.asarray(expected, float)[order]
    small = np.cumsum(expected) < 5
    if small.any():
        cut = int(small.sum()) + 1
        counts = np.r_[counts[:cut].sum(), counts[cut:]]
        expected = np.r_[expected[:cut].sum(), expected[cut:]]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return scipy.stats.chi2.sf(statistic, len(counts) - 1)


# -- streams -------------------------------------------------------------------------------------


def test_stream_gives_the_known_answers_of_splitmix64():
    # First outputs of the published generator for the seeds 0 and 42.
    assert resampling.stream_words(np.uint64(0), 1).tolist() == [0xE220A8397B1DCDAF]
    assert resampling.stream_words(np.uint64(42), 3).tolist() == reference.splitmix64(42, 3)
    base = 2**64 - 3
    assert resampling.stream_words(np.uint64(base), 50).tolist() == reference.splitmix64(base, 50)


@given(st.integers(1, 60), st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_indices_equal_the_reference(n, base, resample):
    found = resampling.resample_indices(n, np.uint64(base), resample)
    assert found.tolist() == reference.resample_indices(base, resample, n)


def test_rejected_draws_are_made_again():
    n = 159_902  # 2**32 mod n is 159,478: some six of a resample's draws are rejected
    threshold = 2**32 % n
    half = (n + 1) // 2
    found = resampling.resample_indices(n, np.uint64(5), 0)
    words = resampling.stream_words(np.uint64(5), half)
    draws = np.concatenate([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)])[:n]
    low = (draws * np.uint64(n)) & np.uint64(0xFFFFFFFF)
    rejected = np.flatnonzero(low < threshold)
    assert len(rejected) >= 1
    kept = low >= threshold
    np.testing.assert_array_equal(found[kept], ((draws * np.uint64(n)) >> np.uint64(32))[kept])
    assert found.tolist() == reference.resample_indices(5, 0, n)


def test_indices_are_uniform():
    rows = [resampling.resample_indices(7, np.uint64(3), r) for r in range(30_000)]
    counts = np.bincount(np.concatenate(rows), minlength=7)
    assert chi_square(counts, np.full(7, counts.sum() / 7)) > MILLION


def test_neighbouring_resamples_are_independent():
    """Pairs (index i of resample r, index i of resample r + 1) fill their table evenly."""
    rows = np.stack([resampling.resample_indices(5, np.uint64(9), r) for r in range(20_001)])
    pairs = (rows[:-1].astype(int) * 5 + rows[1:]).ravel()
    counts = np.bincount(pairs, minlength=25)
    assert chi_square(counts, np.full(25, counts.sum() / 25)) > MILLION


# -- replicates against the reference ------------------------------------------------------------


@given(SAMPLES, st.integers(0, 2**64 - 1))
def test_resampled_statistics_equal_the_reference(values, base):
    sample = np.array(values)
    order = np.argsort(sample, kind="stable")
    columns = np.stack([sample, sample**2])
    sums = resampling.resample_sums(columns, np.uint64(base), 5)
    single = resampling.resample_sums(columns[:1], np.uint64(base), 5)
    quantiles = resampling.resample_quantiles(
        sample[order], order, len(values), np.array([0.25, 0.5, 0.9]), np.uint64(base), 5
    )
    for r in range(5):
        drawn = sample[reference.resample_indices(base, r, len(values))]
        assert sums[r] == pytest.approx([drawn.sum(), (drawn**2).sum()], abs=1e-9)
        assert single[r, 0] == pytest.approx(drawn.sum(), abs=1e-9)
        expected = [reference.quantile(drawn, p) for p in (0.25, 0.5, 0.9)]
        assert quantiles[r] == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=50), st.sampled_from([0.0, 0.025, 0.5, 1]))
def test_quantiles_by_counting_equal_numpy(counts, level):
    row = np.array([counts, counts[::-1]], dtype=np.int32)
    found, deviation = resampling.count_quantiles(row, 30, np.array([level]))
    assert found[:, 0] == pytest.approx([np.quantile(counts, level)] * 2)
    if len(counts) > 1:
        assert deviation[0] == pytest.approx(np.std(counts, ddof=1), abs=1e-9)


# -- exact laws ----------------------------------------------------------------------------------


def enumerate_resamples(values, statistic):
    """The law of a statistic over all n**n resamples."""
    law = {}
    for drawn in itertools.product(values, repeat=len(values)):
        key = round(float(statistic(np.array(drawn))), 9)
        law[key] = law.get(key, 0) + 1
    total = len(values) ** len(values)
    return {key: count / total for key, count in law.items()}


CASES = [
    ("median", np.median, [1.0, 2.0, 4.0, 8.0, 16.0]),
    ("median", np.median, [1.0, 2.0, 4.0, 8.0]),
    ("median", np.median, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
    ("median", np.median, [3.0, 3.0, 5.0, 5.0]),
    (0.3, lambda x: np.quantile(x, 0.3), [1.0, 2.0, 4.0, 8.0, 16.0]),
    (0.05, lambda x: np.quantile(x, 0.05), [1.0, 2.0, 4.0, 8.0]),
    (0.95, lambda x: np.quantile(x, 0.95), [1.0, 2.0, 4.0, 8.0]),
    ("mean", np.mean, [0.0, 1.0, 3.0, 7.0]),
    ("proportion", np.mean, [0.0, 0.0, 1.0, 1.0, 1.0]),
]


METHODS = [(method, *case) for case in CASES for method in ("auto", "resample")]
METHODS += [("levels", *case) for case in CASES if case[0] == "mean"]


@pytest.mark.parametrize(("method", "statistic", "function", "values"), METHODS)
def test_replicates_follow_the_enumerated_law(method, statistic, function, values):
    law = enumerate_resamples(values, function)
    b = 100_000
    result = cc.bootstrap(
        values, statistic, n_resamples=b, seed=5, return_replicates=True, method=method
    )
    found = np.round(result.replicates, 9)
    keys = np.array(sorted(law))
    assert set(np.unique(found)) <= set(keys)
    counts = [(found == key).sum() for key in keys]
    assert chi_square(counts, np.array([law[k] for k in keys]) * b) > MILLION


@pytest.mark.parametrize(("statistic", "function", "values"), CASES[:7])
def test_the_ideal_bootstrap_of_a_quantile_is_the_enumerated_law(statistic, function, values):
    law = enumerate_resamples(values, function)
    keys = np.array(sorted(law))
    cumulative = np.cumsum([law[key] for key in keys])
    result = cc.bootstrap(values, statistic, n_resamples=math.inf)
    expected = [keys[np.searchsorted(cumulative, level)] for level in (0.025, 0.975)]
    assert result.confidence_interval == pytest.approx(expected, abs=1e-9)
    mean = (keys * [law[k] for k in keys]).sum()
    variance = ((keys - mean) ** 2 * [law[k] for k in keys]).sum()
    assert result.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_the_ideal_bootstrap_of_a_mean_agrees_with_many_resamples():
    values = np.random.default_rng(0).gamma(2.0, size=801)
    ideal = cc.bootstrap(values, "mean", n_resamples=math.inf)
    b = 400_000
    drawn = cc.bootstrap(values, "mean", n_resamples=b, seed=3)
    se = ideal.standard_error
    # Monte-Carlo error of a 2.5 % quantile: sqrt(p q / B) / density
    monte_carlo = math.sqrt(0.025 * 0.975 / b) / scipy.stats.norm.pdf(1.96) * se
    for exact, found in zip(ideal.confidence_interval, drawn.confidence_interval, strict=True):
        assert abs(exact - found) < 6 * monte_carlo
    assert drawn.standard_error == pytest.approx(se, rel=0.01)


def test_the_ideal_bootstrap_of_a_proportion_is_binomial():
    result = cc.bootstrap([0] * 30 + [1] * 70, "proportion", n_resamples=math.inf)
    assert result.confidence_interval == (0.61, 0.79)
    classes = cc.bootstrap([0, 1, 1, 2, 3], "proportion", n_resamples=math.inf)
    assert classes.estimate.tolist() == [0.2, 0.4, 0.2, 0.2]


@pytest.mark.parametrize("statistic", ["mean", "median", 0.2, "proportion"])
@pytest.mark.parametrize("n", [1, 2, 7, 50, 1001])
def test_the_exact_laws_agree_with_plain_resampling(statistic, n):
    """Kolmogorov-Smirnov on 40,000 replicates each, once in a million."""
    rng = np.random.default_rng(n)
    values = (
        rng.integers(0, 2, n).astype(float) if statistic == "proportion" else rng.normal(size=n)
    )
    b = 40_000
    auto, plain = (
        cc.bootstrap(values, statistic, n_resamples=b, seed=s, method=m, return_replicates=True)
        for s, m in ((1, "auto"), (2, "resample"))
    )
    gap = scipy.stats.ks_2samp(auto.replicates, plain.replicates).statistic
    assert gap < math.sqrt(math.log(2 / MILLION) / b)


# -- several columns, weights, clusters, pairs ---------------------------------------------------


def test_columns_and_statistics_share_their_resamples():
    values = np.random.default_rng(1).normal(size=(40, 3))
    both = cc.bootstrap(values, ["mean", "median"], seed=4, n_resamples=30, return_replicates=True)
    assert both.estimate.shape == (3, 2)
    assert both.replicates.shape == (30, 3, 2)
    base = np.random.SeedSequence(4).generate_state(1, np.uint64)[0]
    for r in range(30):
        drawn = values[reference.resample_indices(int(base), r, 40)]
        np.testing.assert_allclose(both.replicates[r, :, 0], drawn.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(both.replicates[r, :, 1], np.median(drawn, axis=0), atol=1e-12)
    means = cc.bootstrap(values, "mean", seed=4, n_resamples=30)
    np.testing.assert_allclose(means.estimate, values.mean(axis=0))


def test_weighted_means_are_ratios_over_each_resample():
    rng = np.random.default_rng(2)
    values, weights = rng.normal(size=25), rng.gamma(2, size=25)
    result = cc.bootstrap(
        values, "mean", weights=weights, seed=6, n_resamples=20, return_replicates=True
    )
    assert result.estimate == pytest.approx(np.average(values, weights=weights))
    base = np.random.SeedSequence(6).generate_state(1, np.uint64)[0]
    for r in range(20):
        index = reference.resample_indices(int(base), r, 25)
        expected = np.average(values[index], weights=weights[index])
        assert result.replicates[r] == pytest.approx(expected, abs=1e-12)
    # R's boot::city, ratio of means: 1.5203125 (cases S12)
    u = np.array([138, 93, 61, 179, 48, 37, 29, 23, 30, 2.0])
    x = np.array([143, 104, 69, 260, 75, 63, 50, 48, 111, 50.0])
    ratio = cc.bootstrap(x / u, "mean", weights=u, seed=0)
    assert ratio.estimate == pytest.approx(1.5203125)


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion"])
def test_whole_clusters_are_resampled(statistic):
    rng = np.random.default_rng(3)
    clusters = rng.integers(0, 6, 40)
    values = (
        rng.integers(0, 2, 40).astype(float) if statistic == "proportion" else rng.normal(size=40)
    )
    result = cc.bootstrap(
        values, statistic, clusters=[f"c{c}" for c in clusters], seed=7, n_resamples=25,
        return_replicates=True,
    )  # fmt: skip
    function = np.median if statistic == "median" else np.mean
    assert result.estimate == pytest.approx(function(values))
    base = np.random.SeedSequence(7).generate_state(1, np.uint64)[0]
    for r in range(25):
        drawn = np.concatenate(
            [values[clusters == c] for c in reference.resample_indices(int(base), r, 6)]
        )
        assert result.replicates[r] == pytest.approx(function(drawn), abs=1e-12)


def test_clusters_widen_the_interval_of_clustered_data():
    rng = np.random.default_rng(4)
    values = np.repeat(rng.normal(size=20), 50)
    clusters = np.repeat(np.arange(20), 50)
    wide, narrow = (
        np.ptp(cc.bootstrap(values, "mean", clusters=c, seed=0).confidence_interval)
        for c in (clusters, None)
    )
    assert wide > 4 * narrow


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion"])
def test_paired_differences_keep_the_pairs(statistic):
    rng = np.random.default_rng(5)
    a, b = (
        rng.integers(0, 2, (2, 30)).astype(float)
        if statistic == "proportion"
        else rng.normal(size=(2, 30))
    )
    result = cc.bootstrap(
        a, statistic, paired=b, seed=8, n_resamples=20, return_replicates=True, method="resample"
    )
    function = np.median if statistic == "median" else np.mean
    base = np.random.SeedSequence(8).generate_state(1, np.uint64)[0]
    for r in range(20):
        index = reference.resample_indices(int(base), r, 30)
        expected = function(a[index]) - function(b[index])
        assert result.replicates[r] == pytest.approx(expected, abs=1e-12)


# -- intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_basic_and_bca_agree_with_scipy(statistic):
    values = np.random.default_rng(6).gamma(2.0, size=60)
    function = {"mean": np.mean, "median": np.median}[statistic]
    for ours, theirs in (("basic", "basic"), ("bca", "BCa"), ("percentile", "percentile")):
        mine = cc.bootstrap(values, statistic, n_resamples=50_000, interval=ours, seed=1)
        peer = scipy.stats.bootstrap(
            (values,), function, n_resamples=50_000, method=theirs, batch=500,
            rng=np.random.default_rng(2),
        ).confidence_interval  # fmt: skip
        assert mine.interval == ours
        assert mine.confidence_interval == pytest.approx(tuple(peer), abs=0.05 * mine.estimate)


def test_bca_that_is_undefined_falls_back_and_says_so():
    result = cc.bootstrap([2.0] * 9, "mean", interval="bca", seed=0)
    assert result.interval == "percentile"
    assert result.confidence_interval == (2.0, 2.0)


@given(SAMPLES, st.sampled_from(["mean", "median", 0.1]), st.sampled_from(cc.inference.INTERVALS))
def test_intervals_are_ordered_and_finite(values, statistic, interval):
    result = cc.bootstrap(values, statistic, n_resamples=50, interval=interval, seed=0)
    low, high = result.confidence_interval
    assert low <= high
    assert np.isfinite([low, high, result.estimate]).all()
    if interval == "percentile":
        assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion", 0.25])
@pytest.mark.parametrize("n_resamples", [1000, math.inf])
def test_constants_single_values_and_empty_samples(statistic, n_resamples):
    for values in ([1.0], [1.0] * 9):
        result = cc.bootstrap(values, statistic, seed=0, n_resamples=n_resamples)
        assert result.confidence_interval == (result.estimate, result.estimate) == (1.0, 1.0)
    empty = cc.bootstrap([], statistic, seed=0, n_resamples=n_resamples)
    assert np.isnan([empty.estimate, *empty.confidence_interval]).all()


def test_methods_are_named_and_can_be_forced():
    normal = np.random.default_rng(0).normal(size=500)
    assert cc.bootstrap(normal, "mean", seed=0).method == "resample"
    assert cc.bootstrap(normal > 0, "proportion", seed=0).method == "multinomial"
    assert cc.bootstrap(normal, "median", seed=0).method == "rank"
    assert cc.bootstrap(np.round(normal), "mean", seed=0).method == "levels"
    assert cc.bootstrap(normal, "mean", n_resamples=math.inf).method == "ideal"
    assert cc.bootstrap(normal, "median", seed=0, method="resample").method == "resample"
    for wrong in ("rank", "multinomial", "ideal"):
        with pytest.raises(cc.InvalidInputError, match=wrong):
            cc.bootstrap(normal, "mean", method=wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, float("nan")], "mean"), r"row 1.*not finite"),
        (([1.0], "variance"), "'variance' is not known"),
        (([0.5], "proportion"), "0/1"),
        (([[1.0, 2.0]], ["mean", "proportion"]), "cannot be combined"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(arguments, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        cc.bootstrap(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 0}, ">= 1"),
        ({"n_resamples": 1.5}, "integer"),
        ({"confidence_level": 1.0}, "confidence_level"),
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"method": "magic"}, "none of auto"),
        ({"interval": "t"}, "none of percentile"),
        ({"weights": [1.0]}, "3 rows, weights 1"),
        ({"weights": [1.0, 0.0, 1.0]}, "row 1"),
        ({"clusters": [1, 2]}, "3 rows, clusters 2"),
        ({"clusters": ["a", None, "b"]}, "row 1: no label"),
        ({"paired": [1.0]}, "shape of values"),
    ],
)
def test_wrong_options_say_what_is_wrong(options, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        cc.bootstrap([1.0, 2.0, 3.0], "mean", **options)


# -- threads, layers, instruction sets -----------------------------------------------------------

SCRIPT = """
import json, sys
import numba, numpy as np
import chronocore as cc
if sys.argv[1] != "0":
    numba.set_num_threads(int(sys.argv[1]))
rng = np.random.default_rng(1)
values = np.linspace(-1, 2, 301) ** 3
codes = np.arange(301) % 4
p, q = rng.dirichlet(np.ones(7), 500), rng.dirichlet(np.ones(7), 500)
gold = cc.weighted_distributions(rng.integers(-1, 5, 5000), rng.integers(0, 9, 5000),
                                 rng.random(5000), [1, 2, 3, 4])
out = [gold.probs.tolist(), gold.n_eff.tolist(), cc.wasserstein(p, q).tolist()]
for statistic, sample, method in (("mean", values, "resample"), ("median", values, "resample"),
                                  ("median", values, "rank"), (0.3, values, "rank"),
                                  ("proportion", codes, "multinomial")):
    result = cc.bootstrap(sample, statistic, seed=11, n_resamples=70, method=method,
                          return_replicates=True)
    out.append(result.replicates.tolist())
print(json.dumps(out))
"""


def run_script(environment, threads, **extra):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(threads)],
        env={**environment, **extra},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def test_results_are_the_same_on_any_threads_and_layer(child_environment):
    environment = {**child_environment, "NUMBA_NUM_THREADS": "4"}
    one = run_script(environment, 1)
    assert run_script(environment, 4) == one
    assert run_script(environment, 3, NUMBA_THREADING_LAYER="workqueue") == one


@pytest.mark.slow
def test_results_are_the_same_without_the_compiler_and_with_plain_instructions(child_environment):
    one = run_script(child_environment, 1)
    others = {
        "interpreted": run_script(child_environment, 0, CHRONOCORE_JIT="0"),
        "baseline instructions": run_script(
            child_environment, 0, NUMBA_CPU_NAME="generic", CHRONOCORE_CACHE="0"
        ),
    }
    for name, other in others.items():
        # Draws are the same bits; sums of gold weights may be reordered.
        assert other[3:] == one[3:], name
        for found, expected in zip(other[:3], one[:3], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)


MEMORY = """
import resource
import numpy as np
import chronocore as cc
values = np.arange(1_000_000.0)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for method in ("resample", "rank"):
    cc.bootstrap(values[:100], "mean" if method == "resample" else "median", method=method)
before = peak()
cc.bootstrap(values, "mean", n_resamples=200, seed=0, method="resample")
cc.bootstrap(values, "median", n_resamples=100_000, seed=0)
cc.bootstrap(values[:200_000] % 4, "proportion", n_resamples=100_000, seed=0)
print(peak() - before)
"""


def test_memory_grows_with_the_sample_plus_the_resamples_never_with_their_product(
    child_environment,
):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env=child_environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    # 200 resamples of a million rows, held at once, would take 1.6 GB; 100,000 of them 800 GB.
    assert float(done.stdout) < 250
