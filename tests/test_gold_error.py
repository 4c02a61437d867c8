"""The surveys' own sampling error in modal answers and in the sweep, against slow computations."""

from __future__ import annotations

import json
import shutil

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from reference import multinomial as reference
from reference.metrics import quantile
from reference.resampling import members, two_level
from surveys_by_year import PLACE, gold_by_year

import chronocore as cc
from chronocore.claims import CLAIMS
from chronocore.effective_size import respondents
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.intervals import cell_interval, cell_shares
from chronocore.modal import modal_answers
from chronocore.redraws import GoldRedraws
from chronocore.scores import pair_predictions, pair_scores
from chronocore.sweep import _Drawing, _Sample, sweep_cell
from chronocore.tables import TABLES, Benchmark, Cells, Context
from chronocore.tables.intervals import UnitBootstrap
from chronocore.tables.modal import ModalRun

REPEATS = 4
SMALL = {"boundaries": ["default"], "tau": [0.1], "retain": [1.0]}


@pytest.fixture(scope="module")
def asked(built_study, tmp_path_factory):
    """A model that blurs the surveys and was asked for single answers too."""
    study = tmp_path_factory.mktemp("gold error") / "study"
    shutil.copytree(built_study, study)
    opened = cc.Study.open(study)
    gold = gold_by_year(opened)
    rng = np.random.default_rng(3)
    rows = []
    for prompt in opened.prompts().to_pylist():
        years = gold[tuple(prompt[k] for k in PLACE)]
        mean = np.mean(list(years.values()), axis=0)
        own = mean if prompt["year"] is None else np.array(years[prompt["year"]])
        shares = 0.5 * own + 0.3 * mean + 0.2 * rng.dirichlet(np.full(len(mean), 2.0))
        codes = [option["code"] for option in prompt["options"]]
        answer = dict(zip(map(str, codes), shares.tolist(), strict=True))
        if prompt["kind"] == "modal":
            right = codes[int(own.argmax())]
            answer = {"answer": right if rng.random() < 0.8 else codes[0]}
        rows.append({"prompt_id": prompt["prompt_id"], "text": json.dumps(answer)})
    path = study.parent / "model.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    cc.predict(study, f"file:{path}", name="model", kinds=("dated", "undated", "modal"))
    return opened


@pytest.fixture(scope="module")
def scored(asked):
    run = asked.runs().to_pylist()[0]
    data = pair_predictions(
        asked.pairs(), asked.gold(), asked.items(), asked.prompts(),
        asked.predictions(run["run_id"]),
    )  # fmt: skip
    return data, pair_scores(data, retain=1.0)


@pytest.fixture(scope="module")
def few_respondents(asked):
    """The surveys as if each had asked forty people, so that redraws change what is common."""
    gold = asked.gold()
    place = gold.column_names.index("n_eff")
    n_eff = pa.array([40.0] * len(gold), gold.schema.field("n_eff").type)
    return gold.set_column(place, gold.schema.field("n_eff"), n_eff)


@pytest.fixture(scope="module")
def drawn(few_respondents):
    """Every time point's redraws by the slow reference, and the position of each one's mode."""
    base = int(seed_base(derived_seed(0, "gold")))
    found = {}
    for index, row in enumerate(few_respondents.to_pylist()):
        n = int(respondents(row["n_eff"]))
        counts = [
            reference.multinomial(base, index * REPEATS + r, n, row["probs"])
            for r in range(REPEATS)
        ]
        where = tuple(row[k] for k in ("survey", "variable", "country", "year"))
        found[where] = [([c / n for c in own], own.index(max(own))) for own in counts]
    return found


def ends_of(redraws, values, units, base, n_resamples):
    """Ends of a percentile interval that is moved back, in plain numbers."""
    if units is None:  # pairs: their counts have a law
        counts = [
            reference.multinomial(
                base, b, len(values), [row.count(0.0), row.count(1.0), sum(x != x for x in row)]
            )
            for b, row in ((b, redraws[b % len(redraws)]) for b in range(n_resamples))
        ]
        replicates = sorted(hits / (rest + hits) for rest, hits, _ in counts if rest + hits)
    else:
        replicates = sorted(two_level(redraws, units, "mean", base, n_resamples))
    every = [value for row in redraws for value in row if value == value]
    moved = sum(every) / len(every) - sum(values) / len(values)
    return [min(max(quantile(replicates, level) - moved, 0), 1) for level in (0.025, 0.975)]


def test_modes_of_redrawn_gold(asked, few_respondents, drawn):
    redraws = GoldRedraws(few_respondents, seed=0, repeats=REPEATS)
    pairs = asked.pairs()
    for year in ("year_old", "year_new"):
        found = redraws.modes(pairs, year)
        for j, pair in enumerate(pairs.to_pylist()):
            where = tuple(pair[k] for k in ("survey", "variable", "country", year))
            assert found[:, j].tolist() == [mode for _, mode in drawn[where]]
    observed = np.array([np.argmax(probs) for probs in pairs["gold_new"].to_pylist()])
    assert (found != observed).mean() > 0.02
    other = pairs.set_column(
        pairs.column_names.index("country"), "country", pa.array(["nowhere"] * len(pairs))
    )
    with pytest.raises(cc.StudyError, match="does not hold the two years"):
        redraws.modes(other, "year_old")


def modal_table(asked, scores, gold, redraws=None, **settings):
    """Table 5 as ``score`` makes it, from gold of one's own."""
    pairs = asked.pairs()
    run = asked.runs().to_pylist()[0]
    ratio = np.full(len(pairs), np.nan)
    ratio[scores.pair] = scores.ratio
    answers = modal_answers(pairs, asked.prompts(), asked.predictions(run["run_id"]), ratio)
    config = msgspec.structs.replace(asked.config().score, **settings)
    modal = [ModalRun(run["run_id"], "model", answers, scores)]
    context = Context(Benchmark(pairs, gold, asked.items()), [], config, modal=modal)
    if redraws is not None:
        labels = {"pair": None, "country": context.benchmark.country.codes}
        context.intervals = UnitBootstrap(config, labels[config.cluster], redraws)
    cells = Cells("t05", context)
    TABLES["t05"].build(cells, context)
    rows = cells.table().to_pylist()
    return {(r["group"], r["measure"]): r for r in rows if r["survey"] == "all"}, answers


@pytest.mark.parametrize("cluster", [pytest.param("pair", marks=pytest.mark.slow), "country"])
def test_modal_answers_carry_the_surveys_error(asked, scored, few_respondents, drawn, cluster):
    _, scores = scored
    pairs, items = asked.pairs(), asked.items()
    run = asked.runs().to_pylist()[0]
    redraws = GoldRedraws(few_respondents, seed=0, repeats=REPEATS)
    rows, answers = modal_table(
        asked, scores, few_respondents, redraws, resamples=40, cluster=cluster
    )

    codes = {
        (row["survey"], row["variable"]): [option["code"] for option in row["options"]]
        for row in items.to_pylist()
    }
    supports = {
        (row["survey"], row["variable"]): [option["position"] for option in row["options"]]
        for row in items.to_pylist()
    }
    d_m = dict(zip(scores.pair.tolist(), scores.d_m.tolist(), strict=True))
    table = pairs.to_pylist()
    observed, again = {}, {}
    for i, index in enumerate(answers.pair.tolist()):
        pair = table[index]
        where = (pair["survey"], pair["variable"], pair["country"])
        own = codes[where[:2]]
        for r in range(REPEATS):
            old, new = (drawn[*where, pair[f"year_{end}"]][r] for end in ("old", "new"))
            right = (own[old[1]] == answers.older_choice[i], own[new[1]] == answers.newer_choice[i])
            d_h = float(cc.wasserstein(old[0], new[0], supports[where[:2]]))
            missed = float(right[1] and d_m[index] / d_h < 0.5) if d_h else float("nan")
            again[i, r] = (float(all(right)), missed)
        observed[i] = (float(answers.both_correct[i]), float(answers.half_missed[i]))
    strong = answers.shift >= 2
    groups = {
        "stable": answers.shift == 0, "strong": answers.shift == 2,
        "very_strong": answers.shift == 3, "strong_plus": strong,
    }  # fmt: skip
    seen = []
    for (group, measure), row in rows.items():
        which = 0 if measure == "both_correct" else 1
        members_of = np.flatnonzero(groups[group]).tolist()
        assert row["n"] == len(members_of)
        if not members_of:
            continue
        values = [observed[i][which] for i in members_of]
        redrawn = [[again[i, r][which] for i in members_of] for r in range(REPEATS)]
        labels = [table[answers.pair[i]]["country"] for i in members_of]
        order = {name: code for code, name in enumerate(Benchmark(pairs).country.names)}
        units = None if cluster == "pair" else members([order[label] for label in labels])
        seed = derived_seed(0, "t05", group, measure, "model", run["run_id"], "all")
        low, high = ends_of(redrawn, values, units, int(seed_base(seed)), 40)
        assert row["estimate"] == pytest.approx(100 * sum(values) / len(values))
        if redrawn != [values] * REPEATS:
            seen.append(measure)
            assert row["low"] == pytest.approx(100 * low)
            assert row["high"] == pytest.approx(100 * high)
    assert set(seen) == {"both_correct", "newer_correct_half_missed"}


@pytest.mark.parametrize("cluster", ["pair", "variable"])
def test_mode_changes_carry_the_surveys_error(asked, few_respondents, drawn, cluster):
    pairs = asked.pairs()
    config = msgspec.structs.replace(asked.config().score, resamples=40, cluster=cluster)
    context = Context(Benchmark(pairs, few_respondents, asked.items()), [], config)
    clusters = None if cluster == "pair" else context.benchmark.question.codes
    redraws = GoldRedraws(few_respondents, seed=0, repeats=REPEATS)
    context.intervals = UnitBootstrap(config, clusters, redraws)
    cells = Cells("mode-change", context)
    TABLES["mode-change"].build(cells, context)
    table = pairs.to_pylist()
    compared = 0
    for row in cells.table().to_pylist():
        if row["survey"] != "all" or row["measure"] != "mode_changed":
            continue
        inside = [
            i
            for i, pair in enumerate(table)
            if row["group"] in (pair["shift"], "all")
            or (row["group"] == "all_shifted" and pair["shift"] != "stable")
        ]
        values = [float(table[i]["mode_old"] != table[i]["mode_new"]) for i in inside]
        redrawn = []
        for r in range(REPEATS):
            redrawn.append([])
            for i in inside:
                where = tuple(table[i][k] for k in ("survey", "variable", "country"))
                old, new = (drawn[*where, table[i][f"year_{end}"]][r][1] for end in ("old", "new"))
                redrawn[-1].append(float(old != new))
        units = (
            None
            if cluster == "pair"
            else members([int(context.benchmark.question.codes[i]) for i in inside])
        )
        seed = derived_seed(0, "mode-change", "", row["group"], "")
        low, high = ends_of(redrawn, values, units, int(seed_base(seed)), 40)
        assert row["n"] == len(inside)
        assert row["estimate"] == pytest.approx(100 * sum(values) / len(values))
        assert (row["low"], row["high"]) == (pytest.approx(100 * low), pytest.approx(100 * high))
        compared += 1
    assert compared == 6


def test_gold_error_widens_table_5(asked, scored, few_respondents):
    widths = []
    for gold_error in (False, True):
        rows, _ = modal_table(
            asked, scored[1], few_respondents, resamples=2000, gold_error=gold_error
        )
        widths.append(
            {key: row["high"] - row["low"] for key, row in rows.items() if row["n"] >= 20}
        )
    assert ("stable", "both_correct") in widths[0]
    for key, width in widths[0].items():
        assert widths[1][key] > 1.05 * width


# -- the sweep -------------------------------------------------------------------------------------


def redrawn_columns(rng, n, repeats, undefined=0.0):
    """Values, and what blurring makes of them."""
    values = rng.lognormal(size=n)
    again = values * rng.lognormal(0.05, 0.3, (repeats, n))
    again[rng.random(again.shape) < undefined] = np.nan
    return values, again


@pytest.mark.parametrize("undefined", [0.0, 0.05])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_replicates_follow_the_two_level_bootstrap(statistic, undefined):
    values, again = redrawn_columns(np.random.default_rng(4), 90, 5, undefined)
    drawing = _Drawing(4000, 0.95, 0, ("test",))
    draw = getattr(drawing, statistic)
    found = draw("RF2", "ratio", "all", _Sample(values, again))
    units = [[i] for i in range(90)]
    slow = np.array(two_level(again.tolist(), units, statistic, 77, 4000))
    middle = np.nanmedian(again) if statistic == "median" else np.nanmean(again)
    moved = middle - found.estimate
    assert found.estimate == pytest.approx(getattr(np, statistic)(values))
    for r in range(5):  # each redraw has its own law
        test = scipy.stats.ks_2samp(found.replicates[r::5], slow[r::5] - moved)
        assert test.pvalue > 1e-4, (statistic, r)
    assert abs(moved) > 0.005
    low, high = (quantile(sorted(found.replicates.tolist()), level) for level in (0.025, 0.975))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    # What a table shows of the same pairs lies within Monte-Carlo error.
    table = cell_interval(values, statistic, n_resamples=4000, seed=1, redrawn=again)
    width = table[2] - table[1]
    assert abs(found.low - table[1]) < 0.08 * width
    assert abs(found.high - table[2]) < 0.08 * width


def test_replicates_of_shares_follow_the_two_level_bootstrap():
    rng = np.random.default_rng(5)
    codes = rng.choice(3, 80, p=[0.6, 0.3, 0.1]).astype(np.int8)
    again = np.where(rng.random((5, 80)) < 0.8, codes, rng.integers(-1, 3, (5, 80)))
    again = again.astype(np.int8)
    classes = {"first": (0,), "others": (1, 2)}
    drawing = _Drawing(4000, 0.95, 0, ("test",))
    found = drawing.shares("RF1", "outcome", "all", _Sample(codes, again), classes, 3)
    for name, members_of in classes.items():
        one = found[name, "all"]
        values = np.where(again < 0, np.nan, np.isin(again, members_of))
        slow = np.array(two_level(values.tolist(), [[i] for i in range(80)], "mean", 7, 4000))
        assert one.estimate == np.isin(codes, members_of).mean()
        moved = np.nanmean(values) - one.estimate
        for r in range(5):
            assert scipy.stats.ks_2samp(one.replicates[r::5], slow[r::5] - moved).pvalue > 1e-4
    table = cell_shares(codes, 3, n_resamples=4000, seed=1, redrawn=again)
    assert found["first", "all"].low == pytest.approx(table[1][0], abs=0.02)
    assert found["first", "all"].high == pytest.approx(table[2][0], abs=0.02)


@pytest.mark.parametrize("with_gold", [False, True])
def test_clusters_are_drawn_whole(with_gold):
    rng = np.random.default_rng(6)
    values, again = redrawn_columns(rng, 60, 3)
    clusters = rng.integers(0, 7, 60)
    redraws = again if with_gold else None
    drawing = _Drawing(30, 0.95, 0, ("test",))
    columns = again.tolist() if with_gold else [values.tolist()]
    for statistic in ("mean", "median"):
        found = getattr(drawing, statistic)("RF2", "m", "g", _Sample(values, redraws, clusters))
        base = int(seed_base(drawing._seed("m", "g")))
        slow = np.array(two_level(columns, members(clusters.tolist()), statistic, base, 30))
        middle = getattr(np, statistic)(columns)
        np.testing.assert_allclose(found.replicates, slow - (middle - found.estimate), rtol=1e-9)
    codes = (values > 1).astype(np.int8)
    again_codes = (again > 1).astype(np.int8) if with_gold else None
    sample = _Sample(codes, again_codes, clusters)
    one = drawing.shares("RF1", "s", "g", sample, {"yes": (1,)}, 2)["yes", "g"]
    columns = (again_codes if with_gold else codes[None]).astype(float).tolist()
    base = int(seed_base(drawing._seed("s", "g")))
    slow = np.array(two_level(columns, members(clusters.tolist()), "mean", base, 30))
    moved = np.mean(columns) - one.estimate
    np.testing.assert_allclose(one.replicates, np.clip(slow - moved, 0, 1), rtol=1e-9)


def test_support_counts_the_replicates_that_are_moved_back(few_respondents, scored):
    _, scores = scored
    redraws = GoldRedraws(few_respondents, seed=0, repeats=10)
    rows = sweep_cell(scores, resamples=400, redraws=redraws)
    plain = sweep_cell(scores, resamples=400)
    cells = [{(r["measure"], r["group"]): r for r in own} for own in (plain, rows)]
    wider = []
    for key, row in cells[1].items():
        own = cells[0][key]
        assert (row["estimate"], row["n"], row["holds"]) == (
            own["estimate"], own["n"], own["holds"]
        )  # fmt: skip
        if key[0] in ("zero_shift", "preserves", "small_drift", "large_drift"):
            assert row == own  # predictions alone decide
        elif row["kind"] == "statistic" and own["high"] is not None and own["n"] >= 30:
            assert row["low"] - 1e-9 <= row["estimate"] <= row["high"] + 1e-9, key
            if own["high"] > own["low"]:
                wider.append((row["high"] - row["low"]) / (own["high"] - own["low"]))
    assert np.median(wider) > 1.1
    # Support is the share of the same replicates that make the rule true.
    drawing = _Drawing(400, 0.95, 0, ())
    benefit = redraws.column(scores, "benefit", lambda s: s.benefit_old)
    one = drawing.mean("RF3", "benefit_older", "all", _Sample(scores.benefit_old, benefit))
    claim = next(claim for claim in CLAIMS if claim.name == "older_benefit_near_zero")
    expected = float(np.mean(np.abs(one.replicates) <= 0.01 + 1e-12))
    assert cells[1]["older_benefit_near_zero", "all"]["support"] == expected
    assert claim.needs == (("benefit_older", "all"),)


def test_a_sweep_with_gold_error_is_another_sweep(asked, tmp_path, run_cli):
    study = tmp_path / "study"
    shutil.copytree(asked.path, study)
    plain = cc.sweep(study, **SMALL, resamples=200)
    gold = cc.sweep(study, **SMALL, resamples=200, gold_error=True, seeds=2)
    assert (plain.gold_error, plain.cluster, plain.computed) == (False, "pair", 1)
    assert (gold.gold_error, gold.cells, gold.computed) == (True, 2, 2)
    # The second seed's redraws are its own, whichever seeds there were before.
    table = pl.from_arrow(cc.Study.open(study).sweep())
    both = table.filter(pl.col("gold_error") & (pl.col("measure") == "both"))
    assert both["cell_id"].n_unique() == 2
    shutil.rmtree(study / "sweep")
    again = cc.sweep(study, **SMALL, resamples=200, gold_error=True, seed=1)
    assert again.computed == 1
    columns = ["group", "estimate", "low", "high", "n"]
    fresh = pl.from_arrow(cc.Study.open(study).sweep()).filter(pl.col("measure") == "both")
    assert fresh.select(columns).equals(both.filter(pl.col("seed") == 1).select(columns))
    for arguments, said in (
        (["--gold-error"], "200 resamples each, with the surveys' own sampling error"),
        (["--cluster", "country"], "200 resamples of whole countries each;"),
    ):
        done = run_cli(
            "sweep", study, "--boundaries", "default", "--tau", "0.1", "--retain", "1",
            "--resamples", "200", *arguments,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    clustered = pl.from_arrow(cc.Study.open(study).sweep()).filter(
        (pl.col("cluster") == "country") & (pl.col("kind") == "statistic")
    )
    assert len(clustered) > 40
    with pytest.raises(cc.ConfigurationError, match="cluster must be one of pair, country"):
        cc.sweep(study, cluster="region")
