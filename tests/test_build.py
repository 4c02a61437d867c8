"""Microdata -> gold -> pairs: the handed pairs, the rules, and awkward microdata."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import chronocore as cc
from chronocore.config import Rules
from chronocore.engines.base import Option
from chronocore.errors import SourceError
from chronocore.gold import gold_table, items_table
from chronocore.pairs import pairs_table
from chronocore.sources import Item, Microdata

pytestmark = pytest.mark.versions


def test_open_sample_has_the_expected_pairs(built_study, cases):
    study = cc.Study.open(built_study)
    pairs = study.pairs()
    assert len(pairs) == 129
    assert len(set(pairs["country"].to_pylist())) == 65
    shifts = pairs["shift"].to_pylist()
    order = ("stable", "moderate", "strong", "very_strong")
    assert [shifts.count(s) for s in order] == [52, 60, 14, 3]
    d_h = pairs["d_h"].to_numpy()
    assert [int((cc.shift_class(d_h, "tighter") == s).sum()) for s in order] == [32, 60, 29, 8]
    assert [int((cc.shift_class(d_h, "looser") == s).sum()) for s in order] == [61, 57, 8, 3]


def test_open_sample_equals_the_handed_pairs(built_study, cases):
    expected = pl.read_csv(cases / "open-sample-pairs.csv", schema_overrides={"country": pl.String})
    found = pl.from_arrow(cc.Study.open(built_study).pairs())
    keys = ["survey", "variable", "country"]
    joined = expected.rename({"item": "variable"}).join(found, on=keys, suffix="_found")
    assert len(joined) == len(expected) == 64
    assert (joined["d_h"] - joined["d_h_found"]).abs().max() <= 1e-12
    for handed, column in (
        ("country_name", "country_name_found"),
        ("year_old", "year_old_found"),
        ("year_new", "year_new_found"),
        ("n_old", "n_valid_old"),
        ("n_new", "n_valid_new"),
        ("n_years", "n_timepoints"),
        ("cat_default", "shift"),
    ):
        assert joined[handed].to_list() == joined[column].to_list(), handed
    for end in ("old", "new"):
        handed = [json.loads(text) for text in joined[f"mode_{end}"].to_list()]
        modes = joined[f"mode_{end}_found"].to_list()
        assert [modes_[0] for modes_ in handed] == modes
        assert [len(m) > 1 for m in handed] == joined[f"mode_tied_{end}"].to_list()
    waves = joined.select("wave_old", "wave_new", "wave_old_found", "wave_new_found")
    for row in waves.to_dicts():
        assert row["wave_old"] in (row["wave_old_found"], None)


def test_items_follow_the_catalog(built_study, cases):
    catalog = json.loads((cases / "open-sample.json").read_text())["items"]
    items = cc.Study.open(built_study).items().to_pylist()
    core = [entry for entry in catalog if entry["core"]]
    assert [i["variable"] for i in items] == [entry["variable"] for entry in core]
    for item, entry in zip(items, core, strict=True):
        assert item["survey"] == entry["survey"]
        assert [o["code"] for o in item["options"]] == entry["codes"]
        assert [o["label"] for o in item["options"]] == entry["labels"]
        assert item["text"]


def test_stress_inputs_are_built_when_asked_for(tmp_path):
    config = cc.preset_config("open-sample")
    source = type(config.sources[0])(preset="open-sample", variables=["G006dummy", "WORDSUM"])
    result = cc.build(
        tmp_path / "stress",
        config=cc.StudyConfig(sources=[source], rules=config.rules, score=config.score),
    )
    wordsum = pl.from_arrow(result.study.gold()).filter(pl.col("variable") == "WORDSUM")
    assert set(wordsum["n_options"].to_list()) == {11}
    assert len(result.study.pairs()) == 2


def test_collapsed_cells_are_flagged(built_study):
    gold = pl.from_arrow(cc.Study.open(built_study).gold())
    used = gold["probs"].list.eval(pl.element() > 0).list.sum()
    assert gold["collapsed"].to_list() == (2 * used <= gold["n_options"]).to_list()
    india = gold.filter((pl.col("variable") == "F117") & (pl.col("country") == "356"))
    assert india.filter(pl.col("year") == 2006)["collapsed"].to_list() == [True]


def make_item(variable="Q", codes=(1, 2, 3), survey="test"):
    options = tuple(Option(code, f"label {code}") for code in codes)
    return Item(
        survey, variable, "made", "Is it so?", None, None, options, tuple(map(float, codes))
    )


def make_source(rows, *, items=(), weight=None, survey="test"):
    """rows: (country, wave, year, answer, weight, count)."""
    columns = {"country": [], "wave": [], "year": [], "Q": [], "weight": []}
    for country, wave, year, answer, w, count in rows:
        for name, value in zip(columns, (country, wave, year, answer, w), strict=True):
            columns[name].extend([value] * count)
    table = {
        "country": pa.array(columns["country"], pa.string()),
        "country_name": pa.array([None] * len(columns["country"]), pa.string()),
        "wave": pa.array(columns["wave"], pa.int16()),
        "year": pa.array(columns["year"], pa.int16()),
        "Q": pa.array(columns["Q"], pa.float64()),
    }
    if weight:
        table["weight"] = pa.array(columns["weight"], pa.float64())
    return Microdata(survey, pa.table(table), tuple(items) or (make_item(),), weight, "made")


RULES = Rules(min_respondents=10, newest="latest")


def gold_rows(source, rules=RULES):
    gold, funnel = gold_table([source], rules)
    return gold.to_pylist(), funnel


def test_the_wave_column_decides_and_pooled_years_are_named():
    source = make_source(
        [
            ("170", 3, 1997, 1.0, 1, 30),
            ("170", 3, 1998, 2.0, 1, 10),
            ("170", 4, 1998, 1.0, 1, 20),
        ]
    )
    rows, funnel = gold_rows(source)
    assert [(r["wave"], r["year"], r["n_valid"]) for r in rows] == [(3, 1997, 40), (4, 1998, 20)]
    assert any("pools 1997, 1998" in note for note in funnel.notes)
    by_year, _ = gold_rows(source, Rules(min_respondents=10, time_point="year", newest="latest"))
    assert [(r["wave"], r["year"], r["n_valid"]) for r in by_year] == [
        (None, 1997, 30),
        (None, 1998, 30),
    ]


def test_two_waves_never_share_a_year():
    rows, funnel = gold_rows(
        make_source(
            [
                ("8", 3, 1998, 1.0, 1, 20),
                ("8", 4, 1998, 1.0, 1, 15),
                ("8", 4, 1999, 2.0, 1, 12),
            ]
        )
    )
    assert [(r["wave"], r["year"]) for r in rows] == [(3, 1998), (4, 1999)]
    assert any("already names an earlier wave" in note for note in funnel.notes)
    clash = make_source([("8", 3, 1998, 1.0, 1, 20), ("8", 4, 1998, 1.0, 1, 15)])
    with pytest.raises(SourceError, match=r"country 8: wave 4.*rules\] waves"):
        gold_rows(clash)


def test_ties_between_years_go_to_the_earlier():
    rows, _ = gold_rows(make_source([("8", 3, 1999, 1.0, 1, 9), ("8", 3, 1998, 1.0, 1, 9)]))
    assert rows[0]["year"] == 1998


def test_invalid_answers_and_weights_leave_the_cell():
    rows, funnel = gold_rows(
        make_source(
            [
                ("8", 3, 1998, 1.0, 2.0, 10),
                ("8", 3, 1998, 3.0, 1.0, 20),
                ("8", 3, 1998, -1.0, 1.0, 5),
                ("8", 3, 1998, None, 1.0, 5),
                ("8", 3, 1998, 2.0, 0.0, 3),
                ("8", 3, 1998, 2.0, None, 4),
            ],
            weight="S017",
        )
    )
    (row,) = rows
    assert row["probs"] == [0.5, 0.0, 0.5]
    assert (row["n_valid"], row["n_dropped_weight"], row["weight"]) == (30, 7, "S017")
    assert row["n_eff"] == pytest.approx(40**2 / (10 * 4 + 20))
    assert funnel.steps["valid answers dropped for their weight"] == 7


def test_a_cell_without_any_weight_is_unweighted_and_says_so():
    rows, funnel = gold_rows(
        make_source([("8", 3, 1998, 1.0, None, 12), ("9", 3, 1998, 1.0, 1.5, 12)], weight="S017")
    )
    assert [(r["country"], r["weight"], r["n_valid"]) for r in rows] == [
        ("8", None, 12),
        ("9", "S017", 12),
    ]
    assert any("unweighted" in note for note in funnel.notes)


def test_small_cells_and_other_waves_do_not_enter():
    rows, funnel = gold_rows(
        make_source(
            [("8", 2, 1990, 1.0, 1, 50), ("8", 3, 1998, 1.0, 1, 9), ("8", 4, 2001, 1.0, 1, 10)]
        )
    )
    assert [r["wave"] for r in rows] == [4]
    assert funnel.steps["rows outside the waves in use"] == 50
    assert funnel.steps["cells below 10 valid answers"] == 1


def test_countries_sort_as_numbers_before_text_and_unknown_ones_stay():
    rows, funnel = gold_rows(
        make_source([(c, 3, 1998, 1.0, 1, 10) for c in ("DE-E", "100", "8", "914", "GB-NIR")])
    )
    assert [r["country"] for r in rows] == ["8", "100", "914", "DE-E", "GB-NIR"]
    assert {r["country"]: r["region"] for r in rows}["DE-E"] == "Western"
    assert any("914" in note for note in funnel.notes)


def test_row_order_does_not_matter():
    rng = np.random.default_rng(2)
    shape = [
        ("8", 3, 1998, float(rng.integers(1, 4)), float(rng.random() + 0.1), 1) for _ in range(80)
    ]
    straight, _ = gold_rows(make_source(shape, weight="W"))
    shuffled, _ = gold_rows(make_source([shape[i] for i in rng.permutation(80)], weight="W"))
    np.testing.assert_allclose(straight[0]["probs"], shuffled[0]["probs"], atol=1e-12)


def test_the_wave7_rule_needs_wave_7():
    rows = [("8", 3, 1998, 1.0, 1, 10), ("8", 6, 2011, 2.0, 1, 10), ("9", 3, 1998, 1.0, 1, 10)]
    rows += [("9", 7, 2020, 2.0, 1, 10)]
    source = make_source(rows)
    items = items_table(list(source.items))
    gold, _ = gold_table([source], RULES)
    assert pairs_table(gold, items, RULES)["country"].to_pylist() == ["8", "9"]
    wave7 = Rules(min_respondents=10, newest="wave7")
    assert pairs_table(gold, items, wave7)["country"].to_pylist() == ["9"]


def test_one_variable_in_two_sources_is_refused():
    source = make_source([("8", 3, 1998, 1.0, 1, 10)])
    with pytest.raises(SourceError, match="test Q is in two sources"):
        gold_table([source, source], RULES)


@pytest.mark.parametrize(
    ("codes", "positions"), [((1,), (1.0,)), ((1, 1), (1.0, 2.0)), ((2, 1), (2.0, 1.0))]
)
def test_scales_that_are_none_are_refused(codes, positions):
    with pytest.raises(SourceError, match="test Q"):
        Item("test", "Q", "", "", None, None, tuple(Option(c, "") for c in codes), positions)


def test_mode_ties_go_to_the_lowest_position_with_a_flag():
    from chronocore.pairs import mode_of

    assert mode_of([0.25, 0.3, 0.3 + 5e-13, 0.15]) == (1, True)
    assert mode_of([0.25, 0.3, 0.45]) == (2, False)


def test_ids_are_stable_and_hash_no_float():
    from chronocore.identity import canonical_json, pair_id, run_id

    # Written down once: a change of these breaks every study that exists.
    assert pair_id("wvs", "E143", "8", "wave:3", "wave:4") == "p42f17f3ba9c8b95a"
    with pytest.raises(TypeError, match="float"):
        canonical_json({"a": [0.5]})
    settings = cc.engines.base.RunSettings(
        model="m", engine="vllm", engine_version="0.9.2", temperature=0.0, top_p=1.0
    )
    assert run_id(settings) == run_id(
        cc.engines.base.RunSettings(
            model="m", engine="vllm", engine_version="0.9.2", temperature=-0.0, top_p=1
        )
    )


def test_the_wave_decides_what_is_older_even_where_years_run_the_other_way():
    rows = [("8", 3, 1999, 1.0, 1, 20), ("8", 4, 1999, 2.0, 1, 40), ("8", 4, 1998, 2.0, 1, 30)]
    source = make_source(rows)
    gold, _ = gold_table([source], RULES)
    (pair,) = pairs_table(gold, items_table(list(source.items)), RULES).to_pylist()
    assert (pair["wave_old"], pair["wave_new"]) == (3, 4)
    assert (pair["year_old"], pair["year_new"]) == (1999, 1998)
    assert pair["gold_old"] == [1.0, 0.0, 0.0]


def test_the_funnel_is_in_the_order_of_the_rules_and_keeps_zeros(tmp_path):
    source = make_source([("8", 3, 1998, 1.0, 1, 20)])
    _, funnel = gold_table([source], RULES)
    steps = list(funnel.steps)
    assert steps[:3] == [
        "rows read", "rows without country, wave or year", "rows outside the waves in use",
    ]  # fmt: skip
    assert steps[-1] == "time points"
    assert funnel.steps["cells where the item was not asked"] == 0


def test_pairs_lost_for_lack_of_wave_7_are_counted_apart(tmp_path):
    config = cc.preset_config("open-sample")
    rules = type(config.rules)(newest="wave7")
    result = cc.build(tmp_path / "s", config=cc.StudyConfig(sources=config.sources, rules=rules))
    assert result.funnel["questions by country with one time point"] == 69
    assert result.funnel["questions by country without the newest wave"] == 117
    assert result.funnel["pairs"] == 12
