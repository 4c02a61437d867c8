"""Gold drawn again: what changes, what stays, and that every table carries it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference import multinomial as reference

import chronocore as cc
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.noise import respondents
from chronocore.redraws import GoldRedraws
from chronocore.scores import pair_predictions, pair_scores


@pytest.fixture(scope="module")
def blurred_study(built_study, tmp_path_factory):
    """Two models that predict the surveys, blurred, and persistence."""
    import shutil

    study = tmp_path_factory.mktemp("redraws") / "study"
    shutil.copytree(built_study, study)
    opened = cc.Study.open(study)
    keys = ("survey", "variable", "country")
    gold: dict[tuple, dict[int, list[float]]] = {}
    for row in opened.gold().to_pylist():
        gold.setdefault(tuple(row[k] for k in keys), {})[row["year"]] = row["probs"]
    for name, seed in (("near", 1), ("far", 2)):
        rng = np.random.default_rng(seed)
        rows = []
        for prompt in opened.prompts().to_pylist():
            if prompt["kind"] == "modal":
                continue
            years = gold[tuple(prompt[k] for k in keys)]
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


def test_what_is_observed_stays(blurred_study):
    opened, _, scores = scored(blurred_study, "near")
    redraws = GoldRedraws(opened.gold(), seed=1, repeats=3)
    for name in ("d_m", "shift", "stability", "identical_old", "n_timepoints"):
        drawn = redraws.column(scores, name, lambda s, name=name: getattr(s, name))
        np.testing.assert_array_equal(drawn, np.tile(getattr(scores, name), (3, 1)))
    strict = scores.within(0.02)
    outcome = redraws.column(strict, "strict", lambda s: s.outcome)
    both = redraws.column(strict, "d_old", lambda s: s.d_old) <= np.float32(0.02)
    assert ((outcome <= 1) == both).all()


def cells(study, names):
    keys = ["label", "prediction", "survey", "group", "item", "measure"]
    tables = cc.tables(study, names)
    return {
        (name, *(row[k] for k in keys)): row
        for name, table in tables.items()
        for row in table.to_pylist()
    }


def test_settings_reach_every_interval(blurred_study):
    names = ["t08", "t11", "t17", "differences"]
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
    note = pl.from_arrow(cc.tables(blurred_study, "differences")["differences"])
    count = note.filter(pl.col("measure") == "comparisons")["estimate"].item()
    assert 10 < count <= 33


def test_bad_settings_are_named(study):
    cc.predict(study, "reference:uniform")
    with pytest.raises(cc.ConfigurationError, match="cluster must be one of pair, country"):
        cc.score(study, cluster="region")
