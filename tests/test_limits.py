"""Sizes beyond all sense: a sentence with the limit, and no memory asked for."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import chronocore as cc
from chronocore.config import MAXIMUM_RESAMPLES, parse_config
from chronocore.differences import Measure, paired_differences
from chronocore.validity.components import components

HUGE = 99_999_999_999


@pytest.fixture(scope="module")
def answered(built_study, tmp_path_factory):
    import shutil

    path = tmp_path_factory.mktemp("limits") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, "reference:uniform")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score", "--resamples", HUGE), "'--resamples': 99999999999 is not in the range"),
        (("sweep", "--resamples", HUGE), "'--resamples': 99999999999 is not in the range"),
        (("sweep", "--resamples", 2_000_000), "must lie between 1 and 1,000,000"),
        (("sweep", "--seeds", HUGE), "seeds must lie between 1 and 10,000"),
        (("noise", "--repeats", HUGE), "repeats must lie between 1 and 387,596 for 129 pairs"),
        (("noise", "--floor-repeats", HUGE), "floor_repeats must lie between 1 and 10,000,000"),
        (("noise", "--n", HUGE), "n must be at most 2,147,483,647 respondents"),
    ],
)
def test_a_size_beyond_sense_is_one_line_with_the_limit(answered, run_cli, arguments, said):
    command, option, value = arguments
    done = run_cli(command, answered, option, value)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert done.stdout == ""


def test_the_limits_hold_in_python_and_in_the_study_file(answered):
    before = sorted(path.name for path in answered.iterdir())
    for call, size in (
        (cc.score, {"resamples": HUGE}), (cc.score, {"resamples": MAXIMUM_RESAMPLES + 1}),
        (cc.sweep, {"resamples": 1_000_001}), (cc.sweep, {"seeds": 10_001}),
        (cc.noise, {"repeats": 387_597}), (cc.noise, {"floor_repeats": 10_000_001}),
    ):  # fmt: skip
        tracemalloc.start()
        with pytest.raises(cc.ConfigurationError, match="must lie between 1 and"):
            call(answered, **size)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()
    assert sorted(path.name for path in answered.iterdir()) == before
    text = (answered / "study.toml").read_text(encoding="utf-8")
    with pytest.raises(cc.ConfigurationError, match=r"score\.resamples must lie between 1 and"):
        parse_config(text.replace("resamples = 1000", f"resamples = {HUGE}"))
    with pytest.raises(cc.InvalidInputError, match="resamples must lie between 0 and 10,000,000"):
        components({"model": []}, n_resamples=HUGE)


def test_differences_keep_one_number_a_resample():
    rng = np.random.default_rng(0)
    measures = [Measure(f"m{i}", f"g{i}", "mean", rng.random((6, 24))) for i in range(40)]
    labels = list("abcdef")
    small = paired_differences(measures, labels, n_resamples=500, seed=1)
    tracemalloc.start()
    large = paired_differences(measures, labels, n_resamples=20_000, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 600 comparisons: a number for each resample of each would take 96 MB.
    assert peak < 40_000_000
    assert large.comparisons == small.comparisons == 600
    assert large.critical_value == pytest.approx(small.critical_value, rel=0.1)


def test_differences_do_not_depend_on_how_many_are_looked_at_together(monkeypatch):
    rng = np.random.default_rng(1)
    values = np.where(rng.random((5, 30)) < 0.1, np.nan, rng.random((5, 30)))
    measures = [Measure("x", "all", "mean", values), Measure("y", "all", "median", values)]
    whole = paired_differences(measures, list("abcde"), n_resamples=400, seed=1)
    monkeypatch.setattr("chronocore.differences._DEVIATIONS", 3 * 400)
    parts = paired_differences(measures, list("abcde"), n_resamples=400, seed=1)
    assert parts.comparisons == whole.comparisons == 20
    assert parts.critical_value == pytest.approx(whole.critical_value, rel=1e-12)
    for one, other in zip(parts.differences, whole.differences, strict=True):
        assert (one.low, one.high, one.p_value) == (other.low, other.high, other.p_value)
        assert one.simultaneous_low == pytest.approx(other.simultaneous_low, rel=1e-12, abs=1e-15)
