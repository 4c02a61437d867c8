"""Tables: every cell against an independent exact computation, and the paper's arithmetic."""

from __future__ import annotations

import importlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference import evaluation as reference

import chronocore as cc
import chronocore_data
from chronocore.config import ScoreSettings
from chronocore.tables import (
    FORMATS,
    TABLES,
    Benchmark,
    Context,
    all_tables,
    compare_published,
    format_comparison,
    format_table,
    page,
    pooled,
    wide,
)
from chronocore_bench.study import MODELS, evaluate, synthetic_benchmark

DOCS = Path(__file__).resolve().parent.parent / "docs"
SHIFTS = ("stable", "moderate", "strong", "very_strong")

# -- formula models on the open sample --------------------------------------------------------


def shrink(old, new, rng):
    middle = (old + new) / 2
    return middle + 0.35 * (old - middle), middle + 0.35 * (new - middle), middle


def fives(old, new, rng):
    return tuple(
        np.maximum(np.round(x * 20), 0.0) / 20 + 1e-3 for x in (old, new, 0.5 * (old + new))
    )


def reverse(old, new, rng):
    return new, old, (old + new) / 2


def still(old, new, rng):
    return new, new, new


def noisy(old, new, rng):
    undated = 0.7 * new + 0.3 * rng.dirichlet(np.ones(len(new)))
    dated = undated if rng.random() < 0.3 else 0.8 * undated + 0.2 * new
    return 0.8 * undated + 0.2 * old, dated, undated


def even(old, new, rng):
    flat = np.full(len(old), 1 / len(old))
    return flat, 0.9 * flat + 0.1 * new, flat


FORMULAS = (shrink, fives, reverse, still, noisy, even)


@pytest.fixture(scope="module")
def evaluated(built_study, tmp_path_factory):
    """The open sample with six formula models and two references, scored; and its predictions."""
    path = tmp_path_factory.mktemp("evaluated") / "study"
    shutil.copytree(built_study, path)
    study = cc.Study.open(path)
    pairs = study.pairs().to_pylist()
    predictions = {}
    for formula in FORMULAS:
        rng = np.random.default_rng(3)
        rows, own = [], {}
        for pair in pairs:
            made = formula(np.array(pair["gold_old"]), np.array(pair["gold_new"]), rng)
            made = [(x / x.sum()).tolist() for x in made]
            own[pair["pair_id"]] = made
            rows += [
                {"survey": pair["survey"], "variable": pair["variable"],
                 "country": pair["country"], "year": year, "probs": probs}
                for year, probs in zip(
                    (pair["year_old"], pair["year_new"], None), made, strict=True
                )
            ]  # fmt: skip
        file = path.parent / f"{formula.__name__}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), file)
        cc.predict(path, f"file:{file}", name=formula.__name__)
        predictions[formula.__name__] = own
    cc.predict(path, "reference:persistence")
    cc.score(path, resamples=100)
    # What the project read back, so that both start from the same floats.
    for run in study.runs().to_pylist():
        if run["label"] in predictions:
            stored = study.predictions(run["run_id"])
            by_id = dict(
                zip(stored["prompt_id"].to_pylist(), stored["probs"].to_pylist(), strict=True)
            )
            prompts = {
                (p["survey"], p["variable"], p["country"], p["year"]): p["prompt_id"]
                for p in study.prompts().to_pylist() if p["kind"] != "modal"
            }  # fmt: skip
            for pair in pairs:
                where = (pair["survey"], pair["variable"], pair["country"])
                years = (pair["year_old"], pair["year_new"], None)
                predictions[run["label"]][pair["pair_id"]] = [
                    by_id[prompts[(*where, year)]] for year in years
                ]
    return study, predictions


@pytest.fixture(scope="module")
def exactly(evaluated):
    """The exact evaluation of each model, made once."""
    study, predictions = evaluated
    return {model: slow(study, own) for model, own in predictions.items()}


def slow(study, predictions):
    points = {}
    for row in study.gold().to_pylist():
        where = (row["survey"], row["variable"], row["country"])
        points.setdefault(where, []).append((row["year"], row["probs"]))
    supports = {
        (row["survey"], row["variable"]): [option["position"] for option in row["options"]]
        for row in study.items().to_pylist()
    }
    return reference.Evaluation(study.pairs().to_pylist(), points, supports, predictions)


def own_cells(tables, label, survey="all"):
    return {
        (name, row["group"], row["item"], row["measure"]): row
        for name, table in tables.items()
        for row in table.to_pylist()
        if row["label"] == label and row["prediction"] == "model"
        and row["survey"] in (survey, None)
    }  # fmt: skip


@pytest.mark.parametrize("model", [formula.__name__ for formula in FORMULAS])
def test_every_cell_equals_the_exact_computation(evaluated, exactly, model):
    study, _ = evaluated
    expected = reference.tables(exactly[model])
    found = own_cells(cc.tables(study), model)
    assert len(expected) > 350
    for key, value in expected.items():
        assert key in found, key
        got = found[key]["estimate"]
        if value is None:
            assert got is None, key
        else:
            assert got == pytest.approx(float(value), rel=1e-9, abs=1e-9), key
    tables = {key[0] for key in expected}
    # And no cell of these tables is left unchecked.
    assert {key for key in found if key[0] in tables} == set(expected)


@pytest.mark.parametrize(
    ("table", "key", "minimum"), [("topics", "topic", 20), ("regions", "region", 5)]
)
def test_breakdowns_equal_the_exact_computation(
    evaluated, exactly, tmp_path, monkeypatch, table, key, minimum
):
    study, _ = evaluated
    if minimum != 20:
        # No region of the open sample has 20 pairs of one class: fewer have to do here.
        breakdowns = importlib.import_module("chronocore.tables.breakdowns")
        monkeypatch.setattr(breakdowns, "SMALL_N", minimum)
        shutil.copytree(study.path, tmp_path / "study")
        study = cc.Study.open(tmp_path / "study")
        cc.score(study, resamples=10)
    tables = cc.tables(study, [table, f"{table}-range"])
    everything = {}
    for model, evaluation in exactly.items():
        expected = reference.breakdown(evaluation, key, minimum=minimum)
        everything[model] = expected
        rows = {
            (f"{r['survey']}|{r['group']}" if key == "topic" else r["group"], r["item"],
             r["measure"]): r
            for r in tables[table].to_pylist()
            if r["label"] == model and (key == "topic" or r["survey"] == "all")
        }  # fmt: skip
        assert set(rows) == set(expected)
        for where, value in expected.items():
            got = rows[where]["estimate"]
            if value is None:
                assert got is None, where
            else:
                assert got == pytest.approx(float(value), rel=1e-9, abs=1e-9), where
    filled = 0
    for r in tables[f"{table}-range"].to_pylist():
        if key == "region" and r["survey"] != "all":
            continue
        group = f"{r['survey']}|{r['group']}" if key == "topic" else r["group"]
        values = [
            float(cells[where])
            for cells in everything.values()
            if cells.get(where := (group, r["item"], r["measure"])) is not None
        ]
        assert r["n"] == len(values)
        if values:
            filled += 1
            want = {"mean": sum(values) / len(values), "lowest": min(values),
                    "highest": max(values)}[r["label"]]  # fmt: skip
            assert r["estimate"] == pytest.approx(want, rel=1e-9, abs=1e-9)
    assert filled > 20


def test_mode_changes_are_counted_over_all_pairs(evaluated):
    study, _ = evaluated
    pairs = pl.DataFrame(study.pairs())
    table = pl.DataFrame(cc.tables(study, "mode-change")["mode-change"])
    for group, inside in (
        ("stable", pl.col("shift") == "stable"), ("all_shifted", pl.col("shift") != "stable"),
    ):  # fmt: skip
        own = pairs.filter(inside)
        kept = 100 * (own["mode_old"] == own["mode_new"]).mean()
        row = table.filter(
            (pl.col("survey") == "all") & (pl.col("group") == group)
            & (pl.col("measure") == "mode_kept")
        )  # fmt: skip
        assert row["estimate"].item() == pytest.approx(kept)
        assert row["n"].item() == len(own)


def test_composition_counts_what_the_files_hold(evaluated):
    study, _ = evaluated
    tables = {name: pl.DataFrame(table) for name, table in cc.tables(study).items()}
    gold, pairs = pl.DataFrame(study.gold()), pl.DataFrame(study.pairs())
    gold = gold.join(pairs.select("survey", "variable").unique(), on=["survey", "variable"])
    wave5 = gold.filter((pl.col("survey") == "wvs") & (pl.col("wave") == 5))
    t02 = tables["t02"].filter(pl.col("group") == "wave 5")
    got = dict(t02.select("measure", "estimate").iter_rows())
    assert got["first_year"] == wave5["year"].min()
    assert got["last_year"] == wave5["year"].max()
    assert got["countries"] == wave5["country"].n_unique()
    most = wave5.group_by("country").agg(pl.col("n_valid").max())["n_valid"].sum()
    assert got["respondents"] == most
    t03 = tables["t03"].filter(pl.col("measure") == "countries")
    years = gold.filter(pl.col("survey") == "gss")["year"].unique().sort().to_list()
    assert sorted({int(y) for y in t03.filter(pl.col("survey") == "gss")["item"]}) == years
    t04 = tables["t04"].filter(pl.col("survey") == "all")
    total = t04.filter(pl.col("group") == "all")["estimate"].item()
    assert total == pairs.select("survey", "variable").unique().height
    assert t04.filter(pl.col("group") != "all")["estimate"].sum() == total


# -- thresholds ---------------------------------------------------------------------------------


def edge_study(tmp_path, cases):
    """A benchmark whose pairs lie exactly on thresholds, from the handed cases."""
    unit = json.loads((cases / "metric-edges.json").read_text())["unit_cases"]
    return [case for case in unit if len(case["p"]) == len(case["q"]) == len(case["codes"]) > 1]


def test_values_on_a_boundary_fall_on_the_closed_side_in_every_set(cases, tmp_path):
    from helpers import complete

    from chronocore.scores import pair_scores

    checked = 0
    for case in edge_study(tmp_path, cases):
        gold_old, gold_new = case["p"], case["q"]
        if not all(f"cat_{name}" in case for name in ("default", "tighter", "looser")):
            continue
        data = complete(gold_old, gold_new, gold_old, gold_old, gold_new, support=case["codes"])
        scores = pair_scores(data, retain=1.0)
        for name in ("default", "tighter", "looser"):
            assert SHIFTS[scores.under(name).shift[0]] == case[f"cat_{name}"], case["name"]
        # The same two distributions as prediction and gold: accurate on the threshold too.
        data = complete(gold_new, gold_new, gold_new, gold_old, gold_new, support=case["codes"])
        both = pair_scores(data, retain=1.0).outcome[0] == 0
        assert both == case["within_tau10"], case["name"]
        checked += 1
    assert checked >= 8


# -- a study of the paper's size ----------------------------------------------------------------


@pytest.fixture(scope="module")
def paper_size():
    benchmark = synthetic_benchmark()
    evaluations, _ = evaluate(benchmark, MODELS)
    context = Context(
        Benchmark(benchmark.pairs, benchmark.gold, benchmark.items), evaluations,
        ScoreSettings(resamples=20),
    )  # fmt: skip
    return benchmark, all_tables(context)


def rows_of(tables, name, **where):
    frame = pl.DataFrame(tables[name])
    for column, value in where.items():
        match = pl.col(column).is_null() if value is None else pl.col(column) == value
        frame = frame.filter(match)
    return frame


def test_the_paper_size_study_has_the_papers_counts(paper_size):
    _, tables = paper_size
    t01 = dict(rows_of(tables, "t01", group="all").select("measure", "estimate").iter_rows())
    assert t01 == {
        "stable": 2607, "moderate": 5535, "strong": 1828, "very_strong": 390, "total": 10360,
    }  # fmt: skip
    for model in MODELS:
        t06 = rows_of(tables, "t06", label=model)
        counts = dict(t06.select(pl.concat_str("group", "measure", separator=" "), "estimate")
                      .iter_rows())  # fmt: skip
        assert counts["wvs scored"] + counts["issp scored"] == counts["all scored"] == 10360
        assert counts["wvs retained"] + counts["issp retained"] == counts["all retained"]
        t07 = rows_of(tables, "t07", label=model, survey="all")
        for level in ("25", "50", "75", "100"):
            own = dict(t07.filter(pl.col("item") == level).select("group", "estimate").iter_rows())
            assert sum(own[shift] for shift in SHIFTS) == own["total"]
            assert own["total"] == pytest.approx(10360 * int(level) / 100, abs=8)
        assert own == {**{k: v for k, v in t01.items() if k != "total"}, "total": 10360}
        kept = rows_of(tables, "t07", label=model, survey="all", item="75", group="total")
        assert kept["estimate"].item() == counts["all retained"]
    total = rows_of(tables, "t04", survey="all")
    assert total.filter(pl.col("group") == "all")["estimate"].item() == 408
    assert total.filter(pl.col("group") != "all")["estimate"].sum() == 408


def same(tables, first, second, keys, **where):
    """Rows of two tables, joined: estimate, interval and n must be the same to the last bit."""
    left = rows_of(tables, first, **where.get("a", {}))
    right = rows_of(tables, second, **where.get("b", {}))
    columns = ["label", "survey", *keys]
    joined = left.join(right, on=columns, suffix="_b", nulls_equal=True)
    assert len(joined) >= where.get("least", 6)
    for column in ("estimate", "low", "high", "n"):
        assert joined[column].equals(joined[f"{column}_b"], null_equal=True), (
            first,
            second,
            column,
        )


def test_a_cell_that_several_tables_show_is_the_same_in_all(paper_size):
    _, tables = paper_size
    by_shift = ["group", "measure"]
    same(tables, "t08", "t09", by_shift, b={"item": "0.10"}, least=6 * 3 * 5 * 4)
    same(tables, "t08", "t22", by_shift, b={"item": "default"}, least=6 * 3 * 4)
    same(tables, "t10", "t23", by_shift, b={"item": "default"}, least=6 * 3 * 3 * 2)
    same(tables, "t11", "t24", by_shift, b={"item": "default"}, least=6 * 3 * 3 * 3)
    same(tables, "t13", "t14", by_shift, least=6 * 3 * 3)
    same(tables, "t13", "t25", by_shift, b={"item": "default"}, least=6 * 3 * 3)
    for main in ("t08", "t10", "t11"):
        same(tables, main, "t26", by_shift, b={"item": "75"}, least=6 * 3 * 3)
    same(tables, "t16", "t15", by_shift, a={"item": "observed"}, least=6 * 3 * 3)
    same(tables, "t19", "t18", ["group", "item", "measure"], least=6 * 3 * 4 * 2)
    same(tables, "t19", "t20", ["group", "item", "measure"], least=6 * 3 * 4)
    for item in ("older", "newer"):
        left = rows_of(tables, "t17", item=item, measure="mean_benefit").drop("item", "measure")
        right = rows_of(tables, "t27", item="75", measure=f"benefit_{item}")
        joined = left.join(right, on=["label", "survey"], suffix="_b")
        assert len(joined) == 18
        assert (joined["low"] == joined["low_b"]).all()
    newest = rows_of(tables, "t15", measure="newest").join(
        rows_of(tables, "t27", item="75", measure="newest_default"),
        on=["label", "survey"], suffix="_b",
    )  # fmt: skip
    assert (newest["high"] == newest["high_b"]).all()


@pytest.mark.parametrize(
    ("table", "measures", "keys"),
    [
        ("t08", ("both", "older_only", "newer_only", "neither"), ["group"]),
        ("t09", ("both", "older_only", "newer_only", "neither"), ["group", "item"]),
        ("t10", ("separated", "older_aligned", "newer_aligned", "reversed", "tied"), ["group"]),
        ("t10", ("separated", "same_period", "reversed", "tied"), ["group"]),
        ("t13", ("preserves", "small_drift", "large_drift"), ["group"]),
        ("t15", ("oldest", "intermediate", "newest"), ["group"]),
        ("t16", ("oldest", "intermediate", "newest"), ["group", "item"]),
        ("t17", ("helped", "unchanged", "hurt"), ["group", "item"]),
        ("t19", ("helped", "unchanged", "hurt"), ["group", "item"]),
        ("t25", ("preserves", "small_drift", "large_drift"), ["group", "item"]),
        ("mode-change", ("mode_kept", "mode_changed"), ["group"]),
    ],
)
def test_shares_of_a_row_sum_to_100(paper_size, table, measures, keys):
    _, tables = paper_size
    frame = rows_of(tables, table).filter(pl.col("measure").is_in(measures))
    sums = frame.group_by(["label", "survey", *keys]).agg(pl.col("estimate").sum())
    assert len(sums) >= 6
    assert all(math.isclose(value, 100, abs_tol=1e-9) for value in sums["estimate"])


def test_accurate_for_a_year_is_both_or_that_year_alone(paper_size):
    _, tables = paper_size
    frame = rows_of(tables, "t09").pivot(
        "measure", index=["label", "survey", "group", "item"], values="estimate"
    )
    for year, alone in (("older", "older_only"), ("newer", "newer_only")):
        assert ((frame["both"] + frame[alone] - frame[year]).abs() < 1e-9).all()


def test_surveys_add_up_to_all_pairs(paper_size):
    _, tables = paper_size
    for name, measure in (("t08", "both"), ("t13", "preserves"), ("t17", "helped")):
        frame = rows_of(tables, name, measure=measure)
        keys = ["label", "group", "item"]
        pooled_n = frame.filter(pl.col("survey") == "all").sort(keys, nulls_last=True)
        parts = (
            frame.filter(pl.col("survey") != "all")
            .group_by(keys)
            .agg(pl.col("n").sum(), hits=(pl.col("estimate") * pl.col("n")).sum())
            .sort(keys, nulls_last=True)
        )
        assert pooled_n["n"].to_list() == parts["n"].to_list()
        hits = pooled_n["estimate"] * pooled_n["n"]
        assert ((hits - parts["hits"]).abs() < 1e-6).all()


def test_blank_cells_have_few_pairs_and_agreement_ranks_the_others(paper_size):
    _, tables = paper_size
    for name in ("topics", "topics-broad", "regions"):
        frame = rows_of(tables, name)
        assert (frame["estimate"].is_null() == (frame["n"] < 20)).all()
        inside = rows_of(tables, f"{name}-range").pivot(
            "label", index=["survey", "group", "item", "measure"], values="estimate"
        ).drop_nulls()  # fmt: skip
        assert (inside["lowest"] <= inside["mean"] + 1e-12).all()
        assert (inside["mean"] <= inside["highest"] + 1e-12).all()
    topics = rows_of(tables, "topics", survey="wvs", item="stable", measure="both")
    matrix = topics.pivot("group", index="label", values="estimate").drop("label").to_numpy()
    whole = matrix[:, ~np.isnan(matrix).any(axis=0)]
    row = rows_of(tables, "agreement", survey="wvs", group="topic", item="stable", measure="both")
    assert row["n"].item() == whole.shape[1] >= 5
    assert row["estimate"].item() == pytest.approx(cc.kendalls_w(whole))


def test_numbers_do_not_depend_on_which_other_runs_there_are(paper_size):
    benchmark, tables = paper_size
    evaluations, _ = evaluate(benchmark, MODELS[:1])
    alone = all_tables(
        Context(
            Benchmark(benchmark.pairs, benchmark.gold, benchmark.items), evaluations,
            ScoreSettings(resamples=20),
        )
    )  # fmt: skip
    for name in ("t08", "t11", "t16", "t19", "t24", "t27", "topics"):
        one = rows_of(alone, name)
        assert one.equals(rows_of(tables, name, label=MODELS[0]), null_equal=True)


# -- how they look ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_every_table_has_every_format(evaluated, form):
    study, _ = evaluated
    for name, table in cc.tables(study).items():
        for intervals in (False, True):
            text = format_table(name, table, form, intervals=intervals)
            if form == "json":
                assert json.loads(text) == table.to_pylist()
            elif form == "csv":
                assert text.count("\n") == len(table) + 1
            else:
                assert TABLES[name].title.split("%")[0][:20] in text
                assert "nan" not in text.lower().replace("cnan", "")


def test_the_page_sets_out_t08_as_the_paper_does(evaluated):
    study, _ = evaluated
    table = pooled("t08", cc.tables(study, "t08")["t08"])
    layout = page("t08", table)
    assert layout.header == ["run", "prediction"]
    assert layout.over == [m for m in ("both (%)", "older only (%)", "newer only (%)")
                           for _ in range(5)]  # fmt: skip
    assert layout.measures[:5] == ["stable", "moderate", "strong", "very strong", "all"]
    assert layout.index[0][1] == "model"
    cells = {(r["label"], r["prediction"], r["group"], r["measure"]): r
             for r in table.to_pylist()}  # fmt: skip
    for index, line in zip(layout.index, layout.cells, strict=True):
        prediction = {"undated for both": "undated_both"}.get(index[1], index[1])
        row = cells[index[0], prediction, "stable", "both"]
        shown = f"{row['estimate']:.1f}" if row["estimate"] is not None else "–"
        assert line[0][0].rstrip("*") == shown


def test_counts_are_set_apart_by_thousands_where_people_read_them(paper_size):
    _, tables = paper_size
    shown = {
        "t01": "10,360", "t02": "", "t03": "", "t04": "", "t06": "10,360", "t07": "10,360",
        "t21": "",
    }  # fmt: skip
    for name, expected in shown.items():
        table = tables[name]
        large = {
            f"{row['estimate']:.0f}": f"{row['estimate']:,.0f}"
            for row in table.to_pylist()
            if row["unit"] in ("pairs", "count") and row["estimate"] >= 1000
        }
        assert expected in ("", *large.values())
        years = [row["estimate"] for row in table.to_pylist() if row["unit"] == "year"]
        for intervals in (False, True):
            text = format_table(name, table, "md", intervals=intervals)
            for plain, apart in large.items():
                assert f" {apart} " in text
                assert plain not in text
            assert all(f" {year:.0f} " in text for year in years)
            latex = format_table(name, table, "latex", intervals=intervals)
            assert not any(apart in latex for apart in large.values())
            assert all(plain in latex for plain in large)
        for form in ("csv", "json"):
            assert not any(apart in format_table(name, table, form) for apart in large.values())
    # The number of pairs behind a cell too.
    rows = rows_of(tables, "t08", label="model A", group="all", measure="both", survey="all")
    n = rows.filter(pl.col("prediction") == "model")["n"].item()
    assert n >= 1000
    assert f"| {n:,} |" in format_table("t08", tables["t08"], "md", intervals=True)
    assert f"& {n} &" in format_table("t08", tables["t08"], "latex", intervals=True)


def test_latex_spans_the_headings_of_the_page(evaluated):
    study, _ = evaluated
    text = format_table("t10", cc.tables(study, "t10")["t10"], "latex")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    n_columns = len(text.partition(r"\begin{tabular}{")[2].partition("}")[0])
    assert r"\multicolumn" in body[0]
    assert all(line.count("&") == n_columns - 1 for line in body[1:])
    spans = sum(int(part.partition("{")[2].partition("}")[0])
                for part in body[0].split(r"\multicolumn")[1:])  # fmt: skip
    assert body[0].count("&") == n_columns - spans + body[0].count(r"\multicolumn") - 1


def test_intervals_are_shown_on_request(evaluated):
    study, _ = evaluated
    table = pooled("t11", cc.tables(study, "t11")["t11"])
    assert "[" not in format_table("t11", table, "md").partition("\n\n")[2].partition("\n\n")[0]
    with_intervals = format_table("t11", table, "md", intervals=True)
    assert with_intervals.count("[") > 20
    assert "100 resamples" in with_intervals
    assert len(wide("t11", table).cells) == 4 * (6 + 1 * 6)  # shifts x (own and persistence)


# -- the paper's values -------------------------------------------------------------------------


def test_the_reference_lists_every_table_and_measure(paper_size):
    _, tables = paper_size
    text = (DOCS / "reference" / "tables.md").read_text(encoding="utf-8")
    for name, table in tables.items():
        assert f"| `{name}` |" in text
        if name not in ("noise", "noise-floor"):
            for measure in set(table["measure"].to_pylist()):
                assert f"`{measure}`" in text, (name, measure)


def test_published_values_are_cells_of_these_tables(paper_size):
    _, tables = paper_size
    published = chronocore_data.published_tables()
    known = {}
    for name, table in tables.items():
        known[name] = {(r["group"], r["item"], r["measure"]) for r in table.to_pylist()}
    # Their rows depend on what a study holds.
    free = {"t04", "t05", "agreement", "repeats", "instructions"}
    checked = 0
    for table, _, _, group, item, measure, value in published["cells"]:
        assert table in TABLES
        assert isinstance(value, int | float)
        if table not in free:
            assert (group, item, measure) in known[table], (table, group, item, measure)
            checked += 1
    assert checked > 1000
    assert len({tuple(cell[:6]) for cell in published["cells"]}) == len(published["cells"])


def test_published_shares_add_up_as_far_as_they_are_rounded():
    published = chronocore_data.published_tables()["cells"]
    for table, measures, step in (
        ("t09", {"both", "older_only", "newer_only", "neither"}, 0.2),
        ("t13", {"preserves", "small_drift", "large_drift"}, 0.15),
        ("t15", {"oldest", "intermediate", "newest"}, 0.15),
        ("t17", {"helped", "unchanged", "hurt"}, 0.15),
    ):
        sums = {}
        for name, model, survey, group, item, measure, value in published:
            if name == table and measure in measures:
                key = (model, survey, group, item)
                sums[key] = sums.get(key, 0) + value
        assert sums
        assert all(abs(total - 100) <= step + 1e-9 for total in sums.values())
    t01 = {cell[5]: cell[6] for cell in published if cell[0] == "t01"}
    assert sum(t01[shift] for shift in SHIFTS) == t01["total"] == 10360


def test_a_comparison_says_that_the_open_sample_is_not_the_papers_benchmark(evaluated):
    study, _ = evaluated
    comparison = compare_published(cc.tables(study), {"shrink": "GPT-4o"})
    assert not comparison.same_benchmark
    assert "not the paper's benchmark" in comparison.note
    row = next(
        r for r in comparison.rows.to_pylist()
        if r["table"] == "t08" and r["group"] == "stable" and r["measure"] == "both"
    )  # fmt: skip
    assert (row["published_model"], row["label"], row["published"]) == ("GPT-4o", "shrink", 66.9)
    assert row["difference"] == pytest.approx(row["estimate"] - 66.9)
    for form in FORMATS:
        assert format_comparison(comparison, form)
    with pytest.raises(cc.ConfigurationError, match="no run called"):
        compare_published(cc.tables(study), {"x": "GPT-4o"})
    with pytest.raises(cc.ConfigurationError, match="no model"):
        compare_published(cc.tables(study), {"shrink": "GPT-9"})


def test_a_comparison_knows_the_papers_benchmark_by_its_counts(paper_size):
    _, tables = paper_size
    comparison = compare_published(tables)
    assert comparison.same_benchmark
    assert "model A beside Llama-3.3-70B" in comparison.note
    scored = [r for r in comparison.rows.to_pylist()
              if r["table"] == "t06" and r["measure"] == "scored"]  # fmt: skip
    assert len(scored) == 2 * len(MODELS)
    assert {r["difference"] for r in scored} == {0.0}


# -- the command --------------------------------------------------------------------------------


def test_the_command_prints_pages_comparisons_and_lists(evaluated, run_cli):
    study, _ = evaluated
    done = run_cli("tables", study.path, "t08", "--format", "md")
    assert done.returncode == 0, done.stderr
    assert "both (%): stable" in done.stdout
    assert "gss" not in done.stdout
    done = run_cli("tables", study.path, "t08", "--format", "md", "--by-survey", "--intervals")
    assert "gss" in done.stdout
    assert "[" in done.stdout
    done = run_cli("tables", study.path, "t13", "t01", "--compare-published", "--format", "json")
    data = json.loads(done.stdout)
    assert {row["table"] for row in data["rows"]} == {"t13", "t01"}
    assert data["same_benchmark"] is False
    done = run_cli("tables", study.path, "--list")
    assert all(name in done.stdout for name in TABLES)
    done = run_cli("tables", study.path, "t13", "--survey", "nowhere")
    assert done.returncode == 2
    assert "no survey 'nowhere'" in done.stderr
    done = run_cli("tables", study.path, "--as", "shrink=GPT-4o")
    assert done.returncode == 2
