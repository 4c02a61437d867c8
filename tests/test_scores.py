"""Scores: the handed pair metrics through the command line, and every definition by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import complete
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.scores import score_pairs

pytestmark = pytest.mark.versions


def formula_file(cases, study, model, path):
    """Write one of the handed formula models as a predictions file."""
    predictions = json.loads((cases / "pair-metrics-predictions.json").read_text())["predictions"]
    pairs = pl.from_arrow(cc.Study.open(study).pairs()).filter(pl.col("variable") == "E143")
    years = {p["country"]: (p["year_old"], p["year_new"], None) for p in pairs.to_dicts()}
    rows = [
        {"survey": "wvs", "variable": "E143", "country": str(entry["country"]),
         "year": year, "probs": entry[key]}
        for entry in predictions[model]
        for year, key in zip(
            years[str(entry["country"])], ("P_old", "P_new", "P_und"), strict=True
        )
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


NUMBERS = {
    "d_h": "d_h", "K": "nearest_distance", "d_old": "d_old", "d_new": "d_new", "d_m": "d_m",
    "W_Pold_Gnew": "d_old_to_new", "W_Pnew_Gold": "d_new_to_old", "b_old": "benefit_old",
    "b_new": "benefit_new", "r": "ratio", "cos": "cosine",
}  # fmt: skip


@pytest.mark.parametrize("model", ["shrink30", "round5"])
def test_the_handed_pair_metrics_through_the_command_line(cases, study, tmp_path, run_cli, model):
    path = formula_file(cases, study, model, tmp_path / f"{model}.parquet")
    done = run_cli("predict", study, "--model", f"file:{path}", "--json")
    assert done.returncode == 0, done.stderr
    run_id = json.loads(done.stdout)["run_id"]
    assert run_cli("score", study).returncode == 0
    found = {
        row["country"]: row
        for row in pq.read_table(study / f"scores/run={run_id}/scores.parquet").to_pylist()
    }
    handed = pl.read_csv(cases / "pair-metrics.csv", schema_overrides={"country": pl.String})
    handed = handed.filter(pl.col("model") == model).to_dicts()
    assert len(handed) == len(found) == 44
    gold = pl.from_arrow(cc.Study.open(study).gold()).filter(pl.col("variable") == "E143")
    for row in handed:
        mine = found[row["country"]]
        for theirs, name in NUMBERS.items():
            if row[theirs] is None:
                assert mine[name] is None
            else:
                assert mine[name] == pytest.approx(float(row[theirs]), abs=1e-9), name
        assert mine["alignment"] == row["alignment"]
        assert mine["shift"] == row["cat_default"]
        assert str(mine["identical_old"]) == str(row["ident_old"])
        assert str(mine["identical_new"]) == str(row["ident_new"])
        years = gold.filter(pl.col("country") == row["country"])["year"].sort().to_list()
        positions = [int(x) for x in str(row["default_years"]).replace("|", ";").split(";")]
        assert mine["default_years"] == [years[i] for i in positions]


def one(data, **settings):
    return score_pairs(data, **{"retain": 1.0, **settings}).to_pylist()[0]


def test_thresholds_take_the_closed_side():
    # 0.7 - 0.6 is 0.09999999999999998 and 0.55 - 0.52 is 0.030000000000000027 in floats.
    row = one(complete([0.7, 0.3], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.7, 0.3]))
    assert row["outcome"] == "both"
    assert row["shift"] == "strong"
    row = one(complete([0.55, 0.45], [0.52, 0.48], [0.5, 0.5], [0.55, 0.45], [0.52, 0.48]))
    assert (row["shift"], row["stability"]) == ("stable", "preserves")
    row = one(complete([0.7, 0.3], [0.6, 0.4], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]))
    assert row["stability"] == "large_drift"
    row = one(complete([0.65, 0.35], [0.6, 0.4], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]))
    assert row["stability"] == "small_drift"


@pytest.mark.parametrize(
    ("old", "new", "alignment"),
    [
        (0.2, 0.8, "separated"),
        (0.8, 0.2, "reversed"),
        (0.2, 0.3, "older_aligned"),
        (0.8, 0.7, "newer_aligned"),
        (0.5, 0.8, "tied"),
    ],
)
def test_alignment(old, new, alignment):
    data = complete([old, 1 - old], [new, 1 - new], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2])
    assert one(data)["alignment"] == alignment


def test_no_predicted_change_has_no_direction():
    row = one(complete([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2]))
    assert row["cosine"] is None
    assert row["d_m"] == row["ratio"] == 0.0
    assert row["identical_old"] is row["identical_new"] is True
    assert row["benefit_old"] == row["benefit_new"] == 0.0


def test_no_observed_change_has_no_ratio():
    row = one(complete([0.4, 0.6], [0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.2, 0.8]))
    assert row["ratio"] is None
    assert row["cosine"] is None


def test_nearest_distance_and_default_year_use_every_time_point():
    middle = [(2000, [0.5, 0.5])]
    row = one(complete([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2], middle=middle))
    assert row["nearest_distance"] == 0.0
    assert row["default_years"] == [2000]
    tied = one(complete([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.2, 0.8], [0.8, 0.2]))
    assert tied["default_years"] == [1995, 2010]


@given(st.data())
def test_scores_agree_with_each_other(data):
    from chronocore.testing import distributions

    rows = [data.draw(distributions(4)) for _ in range(5)]
    row = one(complete(*rows))
    # The triangle inequality ties the distances together.
    assert row["d_m"] <= row["d_old"] + row["d_new_to_old"] + 1e-9
    assert row["d_h"] <= row["d_old"] + row["d_old_to_new"] + 1e-9
    if row["ratio"] is not None:
        assert row["ratio"] * row["d_h"] == pytest.approx(row["d_m"], abs=1e-9)
    assert (row["stability"] is None) == (row["shift"] != "stable")


def test_incomplete_pairs_leave_the_run(study, tmp_path, cases):
    path = formula_file(cases, study, "shrink30", tmp_path / "x.parquet")
    rows = pq.read_table(path).to_pylist()
    rows[2]["probs"] = [0.0] * 4  # the undated prediction of the first pair is invalid
    pq.write_table(pa.Table.from_pylist(rows[:-1]), path)  # and one of the last is missing
    cc.predict(study, f"file:{path}")
    summary = cc.score(study)
    (run,) = summary.runs
    assert (run.n_pairs, run.n_complete, run.n_retained) == (129, 42, 22 + 9)
    assert len(cc.Study.open(study).scores(run.run_id)) == 42


def test_references_are_scored_on_the_models_pairs_or_alone_on_all(study, tmp_path, cases):
    cc.predict(study, "reference:persistence")
    alone = cc.score(study)
    assert alone.runs[0].n_retained == 129
    t08 = pl.from_arrow(cc.tables(study, ["t08"])["t08"])
    total = t08.filter(
        (pl.col("survey") == "all") & (pl.col("group") == "all") & (pl.col("measure") == "both")
    )
    assert total["n"].to_list() == [129]
    cc.predict(study, f"file:{formula_file(cases, study, 'round5', tmp_path / 'm.parquet')}")
    cc.score(study)
    t08 = pl.from_arrow(cc.tables(study, ["t08"])["t08"])
    total = t08.filter(
        (pl.col("survey") == "all") & (pl.col("group") == "all") & (pl.col("measure") == "both")
    )
    assert dict(total.select("prediction", "n").iter_rows()) == {
        "model": 32, "uniform": 32, "undated_both": 32, "persistence": 32,
    }  # fmt: skip


def test_strata_of_one_keep_none_and_are_listed(study):
    opened = cc.Study.open(study)
    prompts = [p for p in opened.prompts().to_pylist() if p["kind"] != "modal"]
    rows = [{"prompt_id": p["prompt_id"], "probs": [1.0] * len(p["options"])} for p in prompts]
    path = study.parent / "all.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    cc.predict(study, f"file:{path}")
    run = cc.score(study).runs[0]
    assert run.n_complete == 129
    table = pl.from_arrow(opened.scores(run.run_id)).join(
        pl.from_arrow(opened.pairs()).select("pair_id", "n_timepoints"), on="pair_id"
    )
    for (survey, count), group in table.group_by("survey", "n_timepoints"):
        assert group["retained"].sum() == len(group) * 3 // 4
        assert (f"{survey}, {count} time points (1 pair)" in run.empty_strata) == (len(group) == 1)
    assert cc.score(study, retain=1.0).runs[0].n_retained == 129


def test_folders_of_results_hold_parquet_alone(study, cases, tmp_path):
    cc.predict(study, f"file:{formula_file(cases, study, 'round5', tmp_path / 'round5.parquet')}")
    cc.predict(study, "reference:uniform")
    cc.score(study)
    assert len(pq.read_table(study / "scores")) == 44 + 129
    assert len(pq.read_table(study / "predictions")) == 132 + 387
    only = cc.tables(study, run="round5")
    assert set(only["t08"]["label"].to_pylist()) == {"round5"}
    assert len(only["t01"]) == len(cc.tables(study, "t01")["t01"]) > 0


def test_settings_of_score_are_checked_and_recorded(study):
    cc.predict(study, "reference:uniform")
    result = cc.score(study, tau=0.05, resamples=50, seed=4, boundaries="looser")
    assert result.settings["tau"] == 0.05
    assert result.settings["boundaries"] == "looser"
    t01 = pl.from_arrow(cc.tables(study, ["t01"])["t01"]).filter(pl.col("group") == "all")
    assert dict(t01.select("measure", "estimate").iter_rows())["stable"] == 61
    for wrong in ({"tau": 0.0}, {"retain": 1.5}, {"resamples": 0}, {"boundaries": "loser"}):
        with pytest.raises(cc.ConfigurationError):
            cc.score(study, **wrong)


def test_a_run_without_complete_pairs_is_named(study, tmp_path):
    with pytest.raises(cc.StudyError, match="no predictions yet"):
        cc.score(study)
    cc.predict(study, "reference:uniform", kinds=("undated",))
    with pytest.raises(cc.StudyError, match="none of the 129 pairs"):
        cc.score(study)


def test_undated_for_both_never_changes(study):
    cc.predict(study, "reference:pooled")
    opened = cc.Study.open(study)
    from chronocore.scores import pair_predictions

    run = opened.runs().to_pylist()[0]
    data = pair_predictions(
        opened.pairs(), opened.gold(), opened.items(), opened.prompts(),
        opened.predictions(run["run_id"]),
    )  # fmt: skip
    static = score_pairs(
        replace(data, old=data.undated, new=data.undated), is_reference=True
    ).to_pydict()
    assert set(static["d_m"]) == {0.0}
    assert set(static["benefit_old"]) == {0.0}
    np.testing.assert_array_equal(static["identical_new"], True)
