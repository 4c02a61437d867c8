"""Sampling noise of a study: the floor under every shift, and which shifts rise above it.

Tests of distributions use fixed seeds and fail a sound program less than once in a million.
"""

from __future__ import annotations

import json
import math

import numba
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import metrics as slow
from reference import multinomial as reference

import chronocore as cc
from chronocore.config import Columns, Source, StudyConfig
from chronocore.effective_size import respondents
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.noise import _FLOOR_STREAM
from chronocore.redraws import GoldRedraws
from chronocore.testing import distributions
from chronocore_kernels import multinomial


@settings(max_examples=25)
@given(st.data(), st.integers(1, 60), st.integers(1, 60), st.integers(1, 9))
def test_the_floor_equals_the_reference(data, n_old, n_new, repeats):
    k = data.draw(st.integers(2, 4))
    old, new = data.draw(distributions(k)), data.draw(distributions(k))
    support = data.draw(st.sampled_from([None, [0.0, 1.0, 3.0, 4.0][:k]]))
    found = cc.noise_floor([old], [new], support, n=[[n_old, n_new]], repeats=repeats, seed=3)
    share = n_old / (n_old + n_new)
    pooled = [share * a + (1 - share) * b for a, b in zip(old, new, strict=True)]
    base = int(seed_base(3) ^ _FLOOR_STREAM)
    drawn = reference.distances(base, 0, repeats, pooled, n_old, n_new, support)
    assert found.expected[0] == pytest.approx(np.mean(drawn), abs=1e-12)
    assert found.median[0] == pytest.approx(np.median(drawn), abs=1e-12)
    observed = slow.wasserstein(old, new, support)
    reached = sum(distance >= observed - 1e-12 for distance in drawn)
    assert found.p_value[0] == (1 + reached) / (1 + repeats)
    assert found.excess[0] == pytest.approx(observed - np.mean(drawn), abs=1e-12)


@settings(max_examples=25)
@given(st.data(), st.integers(1, 60), st.integers(0, 5), st.integers(1, 6))
def test_redrawn_shares_equal_the_reference(data, size, number, repeats):
    probs = data.draw(distributions(data.draw(st.integers(2, 5))))
    k = len(probs)
    values = np.array([0.5, 0.5, *probs])  # a row before it, with another number
    shares, starts = multinomial.redrawn_shares(
        values, np.array([0, 2]), np.array([2, k]), np.array([7, size]),
        np.array([number + 1, number]), repeats, np.uint64(11),
    )  # fmt: skip
    for repeat in range(repeats):
        expected = reference.multinomial(11, number * repeats + repeat, size, probs)
        own = shares[repeat, starts[1] : starts[1] + k]
        np.testing.assert_array_equal(own, np.array(expected) / size)


def test_effective_sizes_round_half_up():
    assert respondents([0.5, 1.49, 2.5, 3.5, 1000.0]).tolist() == [1, 1, 3, 4, 1000]
    for wrong in (0.4, np.nan, np.inf, -3.0):
        with pytest.raises(cc.InvalidInputError, match="below one respondent"):
            respondents([wrong])


def test_p_values_of_no_change_are_uniform_and_of_change_are_small():
    rng = np.random.default_rng(5)
    truth = rng.dirichlet(np.full(4, 2.0), 2000)
    n_old, n_new = rng.integers(500, 2000, (2, 2000))
    old, new = (
        np.stack([rng.multinomial(n, p) / n for n, p in zip(sizes, truth, strict=True)])
        for sizes in (n_old, n_new)
    )
    floor = cc.noise_floor(old, new, n=np.stack([n_old, n_new], axis=1), repeats=999, seed=1)
    assert scipy.stats.kstest(floor.p_value, "uniform").pvalue > 1e-6
    assert (floor.p_value <= 0.05).mean() == pytest.approx(0.05, abs=0.024)  # 5 sd
    assert abs(floor.excess.mean()) < 0.0015
    moved = np.roll(new, 1, axis=1)
    far = cc.wasserstein(old, moved) > 0.1
    found = cc.noise_floor(old, moved, n=np.stack([n_old, n_new], axis=1), repeats=999, seed=1)
    assert found.p_value[far].max() == 1 / 1000


def test_false_discoveries_are_controlled():
    rng = np.random.default_rng(8)
    shares = []
    for _ in range(400):
        p = np.r_[rng.random(80), rng.random(20) * 1e-4]
        found = cc.false_discovery(p) <= 0.05
        shares.append(found[:80].sum() / max(found.sum(), 1))
    assert np.mean(shares) < 0.05 * 0.8 + 5 * np.std(shares) / 20
    p = np.array([0.04, 0.001, 0.03, 0.2])
    # Largest first: p * m / rank, cumulative minimum.
    assert cc.false_discovery(p).tolist() == pytest.approx([0.16 / 3, 0.004, 0.16 / 3, 0.2])
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    by = cc.false_discovery(p, "by")
    assert by.tolist() == pytest.approx(np.minimum(cc.false_discovery(p) * harmonic, 1).tolist())
    assert cc.false_discovery([]).tolist() == []
    for wrong in ([1.2], [np.nan], [[0.1]]):
        with pytest.raises(cc.InvalidInputError):
            cc.false_discovery(wrong)


def test_the_noise_of_a_study(study):
    result = cc.noise(study, repeats=50, floor_repeats=200, seed=2)
    opened = cc.Study.open(study)
    table = pl.from_arrow(opened.noise("500"))
    pairs = pl.from_arrow(opened.pairs())
    assert table["pair_id"].to_list() == pairs["pair_id"].to_list()
    again = cc.sampling_noise(
        pairs["gold_old"], opened_supports(opened), n=500, repeats=50,
        seed=derived_seed(2, "noise", "500"),
    )  # fmt: skip
    np.testing.assert_array_equal(table["noise_p95"], again.p95)
    assert result.median == again.pooled_median
    assert result.median_p95 == np.median(again.p95)
    above = table["d_h"].to_numpy() > again.p95 + 1e-12
    assert table["above_p95"].to_list() == above.tolist()
    by_shift = {row.shift: row for row in result.shifts}
    for shift in ("stable", "moderate", "strong", "very_strong"):
        inside = (pairs["shift"] == shift).to_numpy()
        assert by_shift[shift].pairs == inside.sum()
        assert by_shift[shift].above_p95 == above[inside].sum()
        assert by_shift[shift].detected == table["detected"].to_numpy()[inside].sum()
    assert by_shift["all"].pairs == 129
    assert (
        by_shift["all_shifted"].detected == by_shift["all"].detected - by_shift["stable"].detected
    )
    q = cc.false_discovery(table["p_value"].to_numpy())
    np.testing.assert_array_equal(table["q_value"], q)
    assert table["detected"].to_list() == (q <= 0.05 + 1e-12).tolist()


def opened_supports(opened):
    positions = {
        (i["survey"], i["variable"]): [o["position"] for o in i["options"]]
        for i in opened.items().to_pylist()
    }
    return [positions[p["survey"], p["variable"]] for p in opened.pairs().to_pylist()]


def test_each_design_is_a_file_of_one_dataset(study):
    cc.noise(study, repeats=20, floor_repeats=50)
    cc.noise(study, n="effective", repeats=20, floor_repeats=50)
    opened = cc.Study.open(study)
    assert opened.noise_designs() == ["500", "effective"]
    both = pl.from_arrow(pq.read_table(study / "noise"))
    assert both.group_by("design").len().sort("design")["len"].to_list() == [129, 129]
    own = pl.from_arrow(opened.noise("effective"))
    pairs = pl.from_arrow(opened.pairs())
    assert own["n_old"].to_list() == respondents(pairs["n_eff_old"]).tolist()
    assert own["n_new"].to_list() == respondents(pairs["n_eff_new"]).tolist()
    # The floor rests on the effective sizes whatever the design.
    fixed = pl.from_arrow(opened.noise("500"))
    assert set(fixed["n_old"]) == {500}
    assert fixed["p_value"].to_list() == own["p_value"].to_list()


def test_noise_does_not_depend_on_threads(study):
    threads = numba.get_num_threads()
    results = []
    try:
        for count in (1, threads):
            numba.set_num_threads(count)
            cc.noise(study, repeats=20, floor_repeats=50, seed=9)
            results.append(cc.Study.open(study).noise("500"))
    finally:
        numba.set_num_threads(threads)
    assert results[0].equals(results[1])


@pytest.fixture(scope="module")
def clustered(tmp_path_factory):
    """Two countries whose respondents of one area answer alike, one of them without a design."""
    folder = tmp_path_factory.mktemp("clustered")
    rng = np.random.default_rng(5)
    columns = {name: [] for name in ("country", "year", "stratum", "psu", "binary", "scale")}
    for country in (1, 2):
        for year in (2000, 2010):
            area = np.repeat(np.arange(30), 20)
            lean = rng.normal(size=(2, 30))[:, area] + rng.normal(size=(2, 600))
            columns["country"].append(np.full(600, country))
            columns["year"].append(np.full(600, year))
            columns["stratum"].append(area // 10 if country == 1 else np.full(600, np.nan))
            columns["psu"].append(area if country == 1 else np.full(600, np.nan))
            columns["binary"].append(1 + (lean[0] > 0.3))
            columns["scale"].append(1 + np.searchsorted(np.linspace(-2, 2, 9), lean[1]))
    catalog = folder / "catalog.csv"
    catalog.write_text(
        "variable,text,code,label\n"
        + "".join(f"binary,Yes or no?,{k},{'ab'[k - 1]}\n" for k in (1, 2))
        + "".join(f"scale,How much?,{k},step {k}\n" for k in range(1, 11))
    )
    roles = {name: name for name in ("country", "year", "stratum", "psu")}
    source = Source(
        preset="generic", file="f", items=str(catalog), survey="own", columns=Columns(**roles)
    )
    frame = pa.table({name: np.concatenate(parts) for name, parts in columns.items()})
    return cc.build(
        folder / "study", config=StudyConfig(sources=[source]), frames={"f": frame}
    ).study


def test_effective_sizes_are_those_of_the_design_where_it_is_known(clustered):
    gold = {
        (row["variable"], row["country"], row["year"]): row for row in clustered.gold().to_pylist()
    }
    result = cc.noise(clustered, n="effective", repeats=20, floor_repeats=400, seed=3)
    assert result.effective_sizes == (
        "by strata and sampling units at 2 of 4 pairs, else by weights"
    )
    rows = clustered.noise("effective").to_pylist()
    pairs = clustered.pairs()
    supports = pa.array(opened_supports(clustered))
    sizes = [(row["n_eff_old"], row["n_eff_new"]) for row in rows]
    plain = cc.noise_floor(
        pairs["gold_old"], pairs["gold_new"], supports, n=sizes, repeats=400,
        seed=derived_seed(3, "noise floor"),
    )  # fmt: skip
    widening, degrees = [1.0] * len(rows), [math.inf] * len(rows)
    for j, row in enumerate(rows):
        points = [gold[row["variable"], row["country"], year] for year in (2000, 2010)]
        name = "n_eff_design" if row["country"] == "1" else "n_eff"
        assert (
            sizes[j]
            == (row["n_old"], row["n_new"])
            == tuple(int(respondents(point[name])) for point in points)
        )
        if row["country"] == "2":
            assert all(point["design_df"] is point["n_eff_mean"] is None for point in points)
            assert row["p_value"] == plain.p_value[j]
            assert row["expected_shift"] == plain.expected[j]
            continue
        assert max(sizes[j]) < 300
        assert [point["design_df"] for point in points] == [27, 27]
        least = [min(n, p["n_eff_mean"]) for n, p in zip(sizes[j], points, strict=True)]
        wider = math.sqrt(sum(1 / m for m in least) / sum(1 / n for n in sizes[j]))
        # Of two options the mean is a share; of ten, an area's lean moves all shares together.
        assert wider < 1.01 if row["variable"] == "binary" else wider > 1.2
        assert row["expected_shift"] == pytest.approx(plain.expected[j] * wider)
        variances = [1 / m for m in least]
        freedom = sum(variances) ** 2 / sum(v**2 / 27 for v in variances)
        widening[j], degrees[j] = wider, freedom
    floor = cc.noise_floor(
        pairs["gold_old"], pairs["gold_new"], supports, n=sizes, repeats=400,
        seed=derived_seed(3, "noise floor"), widening=widening, degrees_of_freedom=degrees,
    )  # fmt: skip
    assert [row["p_value"] for row in rows] == pytest.approx(floor.p_value, rel=1e-12)
    assert (floor.p_value >= plain.p_value).all()


def test_estimated_sizes_give_the_p_values_of_student():
    old, new = [[0.5, 0.5]] * 3, [[0.46, 0.54]] * 3
    exact = cc.noise_floor(old, new, n=900, repeats=999, seed=1)
    few = cc.noise_floor(
        old, new, n=900, repeats=999, seed=1, degrees_of_freedom=[5.0, 40.0, math.inf]
    )
    z = scipy.stats.norm.ppf(exact.p_value / 2)
    expected = [2 * scipy.stats.t.cdf(z[0], 5), 2 * scipy.stats.t.cdf(z[1], 40), exact.p_value[2]]
    assert few.p_value.tolist() == pytest.approx(expected, rel=1e-9)
    wide = cc.noise_floor(old, new, n=900, repeats=999, seed=1, widening=2.0)
    assert (wide.expected == 2 * exact.expected).all()
    assert (wide.p_value > exact.p_value).all()
    for wrong in ({"widening": 0.0}, {"widening": [1.0, 2.0]}, {"degrees_of_freedom": math.nan}):
        with pytest.raises(cc.InvalidInputError, match=next(iter(wrong))):
            cc.noise_floor(old, new, n=900, **wrong)


def test_few_draws_are_cautioned_about(study, run_cli):
    done = run_cli("noise", study, "--repeats", 1, "--floor-repeats", 18)
    assert done.returncode == 0, done.stderr
    assert "note: a 95th percentile of 1 draw is no more than the largest" in done.stderr
    assert "note: no p-value of 18 draws is below 0.0526" in done.stderr
    assert "at least 19 are needed" in done.stderr
    cc.predict(study, "reference:uniform")
    cc.score(study, resamples=50)
    shown = run_cli("tables", study, "noise", "noise-floor").stdout
    shown = " ".join(shown.split())
    assert "Caution: a 95th percentile of 1 draw" in shown
    assert "Caution: no p-value of 18 draws" in shown
    assert "Effective sizes by weights." in shown
    done = run_cli("noise", study, "--repeats", 20, "--floor-repeats", 19)
    assert "note:" not in done.stderr


def test_a_damaged_noise_file_names_the_command_that_makes_it_again(study):
    cc.predict(study, "reference:uniform")
    cc.noise(study, repeats=20, floor_repeats=20)
    path = cc.Study.open(study).noise_path("500")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(cc.StudyError, match=r"again with: chronocore noise .* --n 500$"):
        cc.score(study, resamples=20)


def test_settings_of_noise_are_checked(study):
    for wrong in (
        {"n": 0}, {"n": "all"}, {"n": True}, {"repeats": 0}, {"floor_repeats": 0},
        {"false_discovery_rate": 0.0}, {"method": "holm"},
    ):  # fmt: skip
        with pytest.raises(cc.ConfigurationError):
            cc.noise(study, **wrong)


def test_noise_on_the_command_line(study, run_cli):
    done = run_cli("noise", study, "--n", "effective", "--repeats", 20, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["design"] == "effective"
    assert [row["pairs"] for row in data["shifts"]] == [52, 60, 14, 3, 77, 129]
    assert run_cli("noise", study, "--n", "none").returncode == 2


def test_tables_of_noise_follow_the_boundaries_of_the_score(study):
    cc.predict(study, "reference:uniform")
    cc.score(study, resamples=20)
    assert not len(cc.tables(study, "noise")["noise"])
    cc.noise(study, repeats=20, floor_repeats=50)
    cc.noise(study, n="effective", repeats=20, floor_repeats=50)
    for boundaries, moderate in (("default", 60), ((0.01, 0.02, 0.5), None)):
        cc.score(study, resamples=20, boundaries=boundaries)
        pairs = pl.from_arrow(cc.Study.open(study).pairs())
        shift = cc.shift_class(pairs["d_h"], boundaries)
        table = pl.from_arrow(cc.Study.open(study).noise("effective"))
        inside = shift == "moderate"
        assert moderate is None or inside.sum() == moderate
        rows = pl.from_arrow(cc.tables(study, "noise")["noise"]).filter(
            (pl.col("group") == "moderate") & (pl.col("item") == "effective")
        )
        found = dict(rows.select("measure", "estimate").iter_rows())
        assert found["above_p95"] == 100 * table["above_p95"].to_numpy()[inside].mean()
        assert found["p95"] == np.median(table["noise_p95"].to_numpy()[inside])
        rows = pl.from_arrow(cc.tables(study, "noise-floor")["noise-floor"]).filter(
            pl.col("group") == "moderate"
        )
        found = dict(rows.select("measure", "estimate").iter_rows())
        assert found["detected"] == 100 * table["detected"].to_numpy()[inside].mean()
        assert found["excess_shift"] == np.median(table["excess_shift"].to_numpy()[inside])


def test_gold_error_takes_the_sizes_of_the_design_and_says_so(clustered, run_cli):
    gold = clustered.gold()
    redraws = GoldRedraws(gold, seed=0, repeats=2000)
    shares, starts = redraws.drawn
    for j, row in enumerate(gold.to_pylist()):
        first = shares[:, starts[j]]
        p = row["probs"][0]
        size = row["n_eff_design"] if row["country"] == "1" else row["n_eff"]
        assert first.std() == pytest.approx(math.sqrt(p * (1 - p) / size), rel=0.15)
        assert (row["country"] == "1") == (size < 0.6 * row["n_eff"])
    cc.predict(clustered, "reference:uniform")
    result = cc.score(clustered, resamples=50, gold_error=True)
    basis = "by strata and sampling units at 4 of 8 time points, else by weights"
    assert result.settings["effective_sizes"] == basis
    assert f"(effective sizes {basis})" in " ".join(
        run_cli("tables", clustered.path, "t08", "--intervals").stdout.split()
    )
    assert f"(effective sizes {basis})" in cc.report(clustered).read_text(encoding="utf-8")
    choices = {"boundaries": ["default"], "tau": [0.1], "retain": [1.0], "resamples": 50}
    assert cc.sweep(clustered, gold_error=True, **choices).effective_sizes == basis
    assert cc.sweep(clustered, **choices).effective_sizes is None
    assert "effective_sizes" not in cc.score(clustered, resamples=50).settings


def test_noise_that_came_after_the_score_is_told(study, run_cli):
    cc.predict(study, "reference:uniform")
    told = f"noise not in the tables yet: 500 respondents; run: chronocore score {study}\n"
    run_cli("score", study, "--resamples", 20)
    done = run_cli("noise", study, "--repeats", 20, "--floor-repeats", 50)
    assert f"next: chronocore score {study}, which takes it" in done.stdout
    shown = run_cli("tables", study, "noise")
    assert told in shown.stderr
    assert "a score after it" in shown.stdout
    assert run_cli("score", study, "--resamples", 20).returncode == 0
    assert "not in the tables" not in run_cli("tables", study, "noise").stderr
    run_cli("noise", study, "--repeats", 21, "--floor-repeats", 50)  # other draws, same design
    assert told in run_cli("tables", study, "noise").stderr
