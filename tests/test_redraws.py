"""Gold drawn again: what changes, what stays, and that every table carries it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference import multinomial as reference
from surveys_by_year import PLACE, gold_by_year

import chronocore as cc
from chronocore.config import ScoreSettings
from chronocore.effective_size import respondents
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.intervals import cell_interval, cell_shares
from chronocore.redraws import _REDRAWN, GoldRedraws
from chronocore.scores import pair_predictions, pair_scores
from chronocore.tables import differences, measures
from chronocore.tables.cells import Benchmark
from chronocore.tables.intervals import Quantity, Shares, column_of, intervals_for


@pytest.fixture(scope="module")
def blurred_study(built_study, tmp_path_factory):
    """Two models that predict the surveys, blurred, and persistence."""
    import shutil

    study = tmp_path_factory.mktemp("redraws") / "study"
    shutil.copytree(built_study, study)
    opened = cc.Study.open(study)
    gold = gold_by_year(opened)
    for name, seed in (("near", 1), ("far", 2)):
        rng = np.random.default_rng(seed)
        rows = []
        for prompt in opened.prompts().to_pylist():
            if prompt["kind"] == "modal":
                continue
            years = gold[tuple(prompt[k] for k in PLACE)]
            mean = np.mean(list(years.values()), axis=0)
            target = mean if prompt["year"] is None else np.array(years[prompt["year"]])
            noise = rng.dirichlet(np.full(len(mean), 2.0))
            probs = 0.5 * target + 0.3 * mean + 0.2 * noise * (1 if seed == 1 else 2)
            rows.append({"prompt_id": prompt["prompt_id"], "probs": (probs / probs.sum()).tolist()})
        path = study.parent / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        cc.predict(study, f"file:{path}", name=name)
    return study


def scored(study, label):
    opened = cc.Study.open(study)
    run = next(row for row in opened.runs().to_pylist() if row["label"] == label)
    data = pair_predictions(
        opened.pairs(), opened.gold(), opened.items(), opened.prompts(),
        opened.predictions(run["run_id"]),
    )  # fmt: skip
    return opened, data, pair_scores(data, retain=1.0)


def test_redrawn_scores_are_scores_against_redrawn_gold(blurred_study):
    opened, data, scores = scored(blurred_study, "near")
    gold = opened.gold()
    redraws = GoldRedraws(gold, seed=5, repeats=4)
    d_old, benefit, nearest, cosine = (
        redraws.column(scores, name, lambda s, name=name: getattr(s, name))
        for name in ("d_old", "benefit_new", "nearest_distance", "cosine")
    )
    assert d_old.shape == (4, 129)
    base = int(seed_base(derived_seed(5, "gold")))
    rows = {
        (r["survey"], r["variable"], r["country"], r["year"]): (i, r)
        for i, r in enumerate(gold.to_pylist())
    }
    supports = {
        (i["survey"], i["variable"]): [o["position"] for o in i["options"]]
        for i in opened.items().to_pylist()
    }
    pairs = data.pairs.to_pylist()
    place = np.searchsorted(data.index, scores.pair)

    def row_of(rows_, index):
        start = rows_.starts[index]
        return rows_.values[start : start + rows_.lengths[index]].tolist()

    for j in (0, 60, 128):
        i = int(place[j])
        pair = pairs[i]
        key = (pair["survey"], pair["variable"], pair["country"])
        support = supports[key[:2]]
        old, new, undated = (row_of(p, i) for p in (data.old, data.new, data.undated))
        points = [entry for where, entry in rows.items() if where[:3] == key]
        for r in range(4):

            def again(index, row, r=r):
                n = int(respondents(row["n_eff"]))
                # Exact shares would ask for fractions of a thousand digits.
                counts = reference.multinomial(base, index * 4 + r, n, row["probs"])
                return [count / n for count in counts]

            if max(row["n_eff"] for _, row in points) > 2500:
                continue
            drawn = {row["year"]: again(index, row) for index, row in points}
            g_old, g_new = drawn[pair["year_old"]], drawn[pair["year_new"]]
            assert d_old[r, j] == pytest.approx(cc.wasserstein(old, g_old, support), abs=2e-7)
            expected = cc.wasserstein(undated, g_new, support) - cc.wasserstein(new, g_new, support)
            assert benefit[r, j] == pytest.approx(expected, abs=2e-7)
            distances = [cc.wasserstein(undated, p, support) for p in drawn.values()]
            assert nearest[r, j] == pytest.approx(min(distances), abs=2e-7)
            assert cosine[r, j] == pytest.approx(
                cc.direction_cosine(g_old, g_new, old, new), abs=2e-6
            )


def test_redraws_do_not_depend_on_the_view_or_the_model(blurred_study):
    opened, _, near = scored(blurred_study, "near")
    _, _, far = scored(blurred_study, "far")
    redraws = GoldRedraws(opened.gold(), seed=1, repeats=3)

    def shift(scores):
        return scores.d_h

    whole = redraws.column(near, shift, shift)
    np.testing.assert_array_equal(whole, redraws.column(far, shift, shift))
    part = near.take(np.array([100, 3, 50]))
    np.testing.assert_array_equal(redraws.column(part, shift, shift), whole[:, [100, 3, 50]])
    fresh = GoldRedraws(opened.gold(), seed=1, repeats=3)
    np.testing.assert_array_equal(fresh.column(part, shift, shift), whole[:, [100, 3, 50]])
    other = GoldRedraws(opened.gold(), seed=2, repeats=3).column(near, shift, shift)
    assert not np.array_equal(other, whole)


def declared():
    """Every quantity and set of classes that a table is made of."""
    found = {}
    for module in (measures, differences):
        for name, value in vars(module).items():
            parts = value.items() if isinstance(value, dict) else [(0, value)]
            for key, part in parts:
                for place, one in enumerate(part if isinstance(part, tuple) else (part,)):
                    if isinstance(one, Quantity | Shares):
                        found[name, key, place] = one
    return list(found.values())


def test_what_gold_decides_is_declared(blurred_study):
    _, _, scores = scored(blurred_study, "near")
    kinds = {True: 0, False: 0}
    for what in declared():
        of = what.codes if isinstance(what, Shares) else partial(column_of, what)
        changes = False
        for value in (-1, 0, 1):
            # Everything a redraw changes, put to one value.
            other = {name: np.full_like(getattr(scores, name), value) for name in _REDRAWN}
            changed = of(replace(scores, **other))
            changes |= not np.array_equal(changed, of(scores), equal_nan=changed.dtype != np.int8)
        assert changes == what.by_gold, what
        kinds[what.by_gold] += 1
    assert kinds[False] == 4
    assert kinds[True] > 20


def test_every_view_has_its_own_tolerance(blurred_study):
    opened, _, scores = scored(blurred_study, "near")
    redraws = GoldRedraws(opened.gold(), seed=1, repeats=3)
    strict = scores.within(0.02)
    outcome = redraws.column(strict, "strict", lambda s: s.outcome)
    both = redraws.column(strict, "d_old", lambda s: s.d_old) <= np.float32(0.02)
    assert ((outcome <= 1) == both).all()
    d_m = redraws.column(scores, "d_m", lambda s: s.d_m)
    np.testing.assert_array_equal(d_m, np.tile(scores.d_m, (3, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["pair", "country"])
def test_cells_drawn_together_equal_those_drawn_alone(blurred_study, cluster):
    opened, _, scores = scored(blurred_study, "near")
    settings = ScoreSettings(cluster=cluster, gold_error=True, resamples=50, seed=3)
    together = intervals_for(settings, Benchmark(opened.pairs(), opened.gold(), opened.items()))
    views = [scores, scores.within(0.05), scores.take(np.arange(0, len(scores), 2))]
    asked = []
    for number, view in enumerate(views):
        for what in declared():
            rows = np.flatnonzero(np.arange(len(view)) % 3 != number)
            if isinstance(what, Quantity) and what.defined is not None:
                rows = rows[what.defined(view)[rows]]
            if isinstance(what, Shares):
                rows = rows[what.codes(view)[rows] >= 0]
            draw = together.shares if isinstance(what, Shares) else together.statistic
            asked.append((view, what, rows, number, draw(what, view, rows, number)))
    together.finish()
    for view, what, rows, seed, found in asked:
        options = {
            "n_resamples": 50, "seed": seed,
            "clusters": None if cluster == "pair" else together.clusters[view.pair[rows]],
        }  # fmt: skip
        of = what.codes if isinstance(what, Shares) else partial(column_of, what)
        redrawn = None
        if what.by_gold:
            redrawn = together.redraws.column(view, object(), of)[:, rows]
        if isinstance(what, Shares):
            codes = what.codes(view)[rows]
            expected = cell_shares(codes, len(what.names), redrawn=redrawn, **options)
            scale = 100.0
        else:
            values = np.asarray(what.values(view)[rows], dtype=np.float64)
            expected = cell_interval(
                values, what.statistic, redrawn=redrawn, bounds=what.bounds, **options
            )
            scale = what.scale
        got = np.array([found.estimate, found.low, found.high])
        np.testing.assert_allclose(
            got, np.reshape(expected, (3, -1)) * scale, rtol=1e-12, atol=1e-12 * scale
        )


def cells(study, names):
    keys = ["label", "prediction", "survey", "group", "item", "measure"]
    tables = cc.tables(study, names)
    return {
        (name, *(row[k] for k in keys)): row
        for name, table in tables.items()
        for row in table.to_pylist()
    }


#: Between what a number can lie, by its unit.
LIMITS = {"%": (0, 100), "cosine": (-1, 1), "W": (0, 1), "W x 100": (-100, 100)}


def test_settings_reach_every_interval(blurred_study):
    names = ["t08", "t11", "t12", "t15", "t16", "t17", "t24", "t26", "nearest", "differences"]
    widths = {}
    tables = {}
    for setting in ({}, {"gold_error": True}, {"cluster": "country"}, {"cluster": "variable"}):
        result = cc.score(blurred_study, resamples=200, **setting)
        assert result.settings["cluster"] == setting.get("cluster", "pair")
        key = json.dumps(setting)
        tables[key] = cells(blurred_study, names)
        widths[key] = {
            where: row["high"] - row["low"]
            for where, row in tables[key].items()
            if row["low"] is not None and row["n"] >= 40
        }
    plain = tables["{}"]
    for table in tables.values():
        assert {k: v["estimate"] for k, v in table.items() if k[0] != "differences"} == (
            pytest.approx({k: v["estimate"] for k, v in plain.items() if k[0] != "differences"})
        )
        for where, row in table.items():
            if row["low"] is not None and where[0] != "differences":
                assert row["low"] - 1e-9 <= row["estimate"] <= row["high"] + 1e-9, where
                least, greatest = LIMITS.get(row["unit"], (0, np.inf))
                assert least <= row["low"] + 1e-9, where
                assert row["high"] - 1e-9 <= greatest, where
    gold = widths['{"gold_error": true}']
    measures = ("both", "median_ratio", "mean_benefit", "median_cosine")
    ratios = [gold[k] / w for k, w in widths["{}"].items() if k[-1] in measures and w > 0]
    assert len(ratios) > 20
    assert np.median(ratios) > 1.02
    # What rests on predictions alone is as before.
    zero = [k for k in widths["{}"] if k[-1] == "zero_shift" and k[0] == "t11"]
    assert [gold[k] for k in zero] == pytest.approx([widths["{}"][k] for k in zero])
    variable = widths['{"cluster": "variable"}']
    assert variable != widths["{}"]
    # A comparison at once with all others needs twenty pairs, or as many clusters.
    counts = {
        setting: table["differences", *where]["estimate"]
        for setting, table in tables.items()
        for name, *where in table
        if name == "differences" and where[-1] == "comparisons"
    }
    assert 10 < counts["{}"] <= 33
    assert 10 < counts['{"cluster": "country"}'] <= counts["{}"]
    assert counts['{"cluster": "variable"}'] == 0


def test_bad_settings_are_named(study):
    cc.predict(study, "reference:uniform")
    with pytest.raises(cc.ConfigurationError, match="cluster must be one of pair, country"):
        cc.score(study, cluster="region")
