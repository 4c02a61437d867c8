"""Cells that rest on few pairs or clusters, and shares of all pairs or of none."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc


@given(st.integers(1, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_exact_intervals_are_those_of_clopper_and_pearson(n, level):
    hits = np.arange(n + 1)
    low, high = cc.exact_share(hits, n, level)
    for count in hits.tolist():
        expected = scipy.stats.binomtest(count, n).proportion_ci(level, method="exact")
        assert low[count] == pytest.approx(expected.low, abs=1e-10)
        assert high[count] == pytest.approx(expected.high, abs=1e-10)


@given(st.integers(1, 40), st.floats(0.001, 0.999))
def test_exact_intervals_hold_every_share_often_enough(n, truth):
    low, high = cc.exact_share(np.arange(n + 1), n)
    held = scipy.stats.binom.pmf(np.arange(n + 1), n, truth)[(low <= truth) & (truth <= high)]
    assert held.sum() >= 0.95 - 1e-9


def test_wrong_counts_are_refused():
    for hits, n in ((-1, 5), (6, 5), (0, 0), (1.5, 5), (float("nan"), 5)):
        with pytest.raises(cc.InvalidInputError, match="0 <= hits <= n"):
            cc.exact_share(hits, n)
    with pytest.raises(cc.InvalidInputError, match="confidence_level"):
        cc.exact_share(1, 5, 1.0)


@pytest.fixture(scope="module")
def answered(built_study, tmp_path_factory):
    path = tmp_path_factory.mktemp("small cells") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, "reference:persistence")
    cc.predict(path, "reference:pooled")
    return path


def rows_of(path, name):
    return cc.tables(path, name)[name].to_pylist()


def test_shares_of_all_or_none_show_their_exact_interval(answered, run_cli):
    cc.score(answered, resamples=200)
    seen = set()
    for name in ("t05", "t08", "t10", "t11", "t13", "t17", "mode-change"):
        for row in rows_of(answered, name):
            at_end = row["unit"] == "%" and row["estimate"] in (0.0, 100.0) and row["n"]
            assert (row["exact_low"] is not None) == bool(at_end), (name, row)
            if not at_end:
                continue
            expected = cc.exact_share(round(row["estimate"] * row["n"] / 100), row["n"])
            assert row["exact_low"] == pytest.approx(100 * expected[0])
            assert row["exact_high"] == pytest.approx(100 * expected[1])
            assert row["low"] == row["high"] == row["estimate"]
            seen.add(name)
    assert seen > {"t08", "t10", "t11"}
    # Shared credit and medians are no counts of pairs.
    for name in ("t16", "t12"):
        assert all(row["exact_low"] is None for row in rows_of(answered, name))
    shown = {
        form: run_cli("tables", answered, "t08", "--intervals", "--format", form).stdout
        for form in ("md", "latex", "csv", "json")
    }
    for form in ("md", "latex"):
        assert "[100.0, 100.0] exact [9" in shown[form]
        assert "Clopper-Pearson" in shown[form]
    header, first, *_ = csv.reader(io.StringIO(shown["csv"]))
    assert header[-3:] == ["clusters", "exact_low", "exact_high"]
    assert float(first[-2]) > 90
    assert {"clusters", "exact_low", "exact_high"} <= set(json.loads(shown["json"])["t08"][0])
    terminal = run_cli("tables", answered, "t08", "--intervals").stdout
    assert "exact [9" in terminal


def test_every_share_of_pairs_can_show_its_exact_interval(answered, run_cli):
    cc.score(answered, resamples=200)
    before = rows_of(answered, "t08")
    done = run_cli("score", answered, "--resamples", 200, "--exact-intervals", "all")
    assert done.returncode == 0, done.stderr
    rows = rows_of(answered, "t08")
    for row, old in zip(rows, before, strict=True):
        # The published interval stays what it was.
        assert (row["estimate"], row["low"], row["high"]) == (
            old["estimate"], old["low"], old["high"],
        )  # fmt: skip
        assert row["exact_low"] is not None or not row["n"]
        assert not row["n"] or row["exact_low"] <= row["estimate"] <= row["exact_high"]
    # What the surveys' own error moves has no exact interval.
    cc.score(answered, resamples=200, exact_intervals="all", gold_error=True)
    rows = rows_of(answered, "t08")
    assert any(row["exact_low"] is None for row in rows if row["n"])
    assert all(
        row["low"] == row["high"] for row in rows if row["n"] and row["exact_low"] is not None
    )
    with pytest.raises(cc.ConfigurationError, match="exact_intervals must be ends or all"):
        cc.score(answered, exact_intervals="some")


def test_cells_of_few_clusters_are_marked_everywhere(answered, run_cli):
    cc.score(answered, resamples=100, cluster="variable")
    pairs = {row["pair_id"]: row for row in cc.Study.open(answered).pairs().to_pylist()}
    rows = rows_of(answered, "t08")
    few = set()
    for row in rows:
        inside = [p for p in pairs.values() if row["group"] in ("all", p["shift"])]
        if row["n"] == len(inside):
            questions = {(p["survey"], p["variable"]) for p in inside}
            assert row["clusters"] == len(questions)
            few.add((row["group"], row["n"] < 20, row["clusters"] < 20))
        assert row["exact_low"] is None
    assert {("stable", False, True), ("all", False, False)} <= few
    text = run_cli("tables", answered, "t08", "--intervals", "--format", "md").stdout
    assert "| 52* |" in text
    assert "| 129 |" in text
    assert "* fewer than 20 pairs or clusters." in text
    assert "There is no exact interval where whole clusters are resampled." in text
    page = run_cli("tables", answered, "t08", "--format", "md").stdout
    assert "100.0*" in page
    finding = cc.findings(answered, "persistence")[1].sentence
    assert "Fewer than 20 pairs or clusters, so only indicative: stable pairs" in finding
    report = cc.report(answered).read_text(encoding="utf-8")
    assert "resamples of whole questions" in report
    assert "* fewer than 20 pairs or clusters." in report
    assert "Hollow: fewer than 20 pairs or clusters." in report
    cc.score(answered, resamples=100)
    assert all(row["clusters"] is None for row in rows_of(answered, "t08"))


def test_the_sweep_says_how_many_clusters_it_resamples(answered):
    choices = {"boundaries": ["default"], "tau": [0.1], "retain": [1.0], "resamples": 50}
    cc.sweep(answered, cluster="variable", **choices)
    cc.sweep(answered, **choices)
    study = cc.Study.open(answered)
    import pyarrow.parquet as pq

    rows = pq.read_table(study.path / "sweep").to_pylist()
    for row in rows:
        known = row["kind"] == "statistic" and row["n"] and row["cluster"] == "variable"
        assert (row["clusters"] is not None) == bool(known), row
    assert {row["clusters"] for row in rows if row["group"] == "stable"} >= {11}
