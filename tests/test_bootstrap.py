"""The bootstrap against the slow reference, and what it does with awkward samples."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as reference

import chronocore as cc
from chronocore_kernels import resampling

SAMPLES = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=12)


def test_stream_gives_the_known_answers_of_splitmix64():
    # First outputs of the published generator for the seeds 0 and 42.
    assert resampling.stream_words(np.uint64(0), 1).tolist() == [0xE220A8397B1DCDAF]
    assert resampling.stream_words(np.uint64(42), 3).tolist() == reference.splitmix64(42, 3)
    base = 2**64 - 3
    assert resampling.stream_words(np.uint64(base), 50).tolist() == reference.splitmix64(base, 50)


@given(SAMPLES, st.integers(0, 2**64 - 1))
def test_replicates_equal_the_reference(values, base):
    sample = np.array(values)
    means = resampling.resample_means(sample, np.uint64(base), 5)
    medians = resampling.resample_quantiles(
        np.sort(sample), np.array([0.5, 0.9]), np.uint64(base), 5
    )
    codes = (sample - sample.min()).astype(np.int64)
    counts = resampling.resample_counts(codes, int(codes.max()) + 1, np.uint64(base), 5)
    for r in range(5):
        index = reference.resample_indices(base, r, len(values))
        drawn = sample[index]
        assert means[r] == pytest.approx(drawn.mean(), abs=1e-12)
        ordered = np.sort(sample)[index]
        assert medians[r, 0] == pytest.approx(reference.quantile(ordered, 0.5), abs=1e-12)
        assert medians[r, 1] == pytest.approx(reference.quantile(ordered, 0.9), abs=1e-9)
        assert counts[r].tolist() == np.bincount(codes[index], minlength=counts.shape[1]).tolist()


def test_indices_are_uniform():
    """Chi-square over 7 cells, 200,000 draws: a sound generator fails one time in a million."""
    counts = resampling.resample_counts(np.arange(7), 7, np.uint64(3), 200_000 // 7).sum(axis=0)
    expected = counts.sum() / 7
    # 99.9999 % quantile of chi-square with 6 degrees of freedom
    assert ((counts - expected) ** 2 / expected).sum() < 38.3


def test_interval_of_a_proportion_is_near_its_exact_law():
    """Percentile ends are binomial quantiles / n; 200,000 resamples leave at most one step."""
    values = np.r_[np.ones(30), np.zeros(70)]
    low, high = cc.bootstrap(values, "proportion", n_resamples=200_000, seed=1).confidence_interval
    assert low in (0.21, 0.22)
    assert high == 0.39


def test_classes_share_their_resamples_and_sum_to_one():
    result = cc.bootstrap([0, 1, 1, 2, 3], "proportion", seed=0, return_replicates=True)
    assert result.replicates.shape == (1000, 4)
    np.testing.assert_allclose(result.replicates.sum(axis=1), 1.0)
    single = cc.bootstrap([0.0, 1, 1, 0, 0], "proportion", seed=0, return_replicates=True)
    np.testing.assert_array_equal(single.replicates, result.replicates[:, 1])


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion", 0.25])
def test_constants_single_values_and_empty_samples(statistic):
    for values in ([1.0], [1.0] * 9):
        result = cc.bootstrap(values, statistic, seed=0)
        assert result.confidence_interval == (result.estimate, result.estimate) == (1.0, 1.0)
    empty = cc.bootstrap([], statistic, seed=0)
    assert np.isnan([empty.estimate, *empty.confidence_interval]).all()


def test_wrong_arguments_say_what_is_wrong():
    with pytest.raises(cc.InvalidInputError, match=r"row 1.*not finite"):
        cc.bootstrap([1.0, float("nan")], "mean")
    with pytest.raises(cc.InvalidInputError, match="'variance' is not known"):
        cc.bootstrap([1.0], "variance")
    with pytest.raises(cc.InvalidInputError, match="0/1"):
        cc.bootstrap([0.5], "proportion")
    with pytest.raises(cc.InvalidInputError, match="at least 1"):
        cc.bootstrap([1.0], "mean", n_resamples=0)


SCRIPT = """
import json, sys
import numba, numpy as np
import chronocore as cc
if sys.argv[1] != "0":
    numba.set_num_threads(int(sys.argv[1]))
values = np.random.default_rng(5).normal(size=301)
codes = np.arange(301) % 4
rng = np.random.default_rng(1)
p, q = rng.dirichlet(np.ones(7), 500), rng.dirichlet(np.ones(7), 500)
gold = cc.weighted_distributions(rng.integers(-1, 5, 5000), rng.integers(0, 9, 5000),
                                 rng.random(5000), [1, 2, 3, 4])
out = [gold.probs.tolist(), gold.n_eff.tolist(), cc.wasserstein(p, q).tolist()]
for name, sample in (("mean", values), ("median", values), ("proportion", codes)):
    result = cc.bootstrap(sample, name, seed=11, n_resamples=40, return_replicates=True)
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
        timeout=300,
    )
    return json.loads(done.stdout)


def test_results_are_the_same_on_any_threads_layer_and_without_the_compiler(child_environment):
    environment = {**child_environment, "NUMBA_NUM_THREADS": "4"}
    one = run_script(environment, 1)
    assert run_script(environment, 4) == one
    assert run_script(environment, 3, NUMBA_THREADING_LAYER="workqueue") == one
    plain = run_script(child_environment, 0, CHRONOCORE_JIT="0")
    assert plain[3:] == one[3:]
    for found, expected in zip(plain[:3], one[:3], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
