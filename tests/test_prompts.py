"""Golden files of the prompts, and the rules they must keep."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

import chronocore as cc
from chronocore.prompts import prompts_table

GOLDEN = Path(__file__).resolve().parent / "golden" / "prompts"

PICKED = {
    "e143-albania-dated-old": ("dated", "E143", "8", 0),
    "e143-albania-dated-new": ("dated", "E143", "8", 1),
    "e143-albania-undated": ("undated", "E143", "8", 0),
    "e143-albania-modal-old": ("modal", "E143", "8", 0),
    "f117-albania-dated-old": ("dated", "F117", "8", 0),
    "y003-united-states-dated-old": ("dated", "Y003", "840", 0),
    "abany-united-states-undated": ("undated", "ABANY", "840", 0),
}


@pytest.fixture(scope="module")
def prompts(built_study):
    return pl.from_arrow(cc.Study.open(built_study).prompts())


def check_golden(name, row):
    text = f"--- system\n{row['system']}\n--- user\n{row['user']}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("CHRONOCORE_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", PICKED)
def test_prompt_text_is_the_golden_one(prompts, name):
    kind, variable, country, place = PICKED[name]
    rows = prompts.filter(
        (pl.col("kind") == kind) & (pl.col("variable") == variable) & (pl.col("country") == country)
    )
    check_golden(name, rows.row(place, named=True))


@pytest.mark.parametrize("instruction", ["national", "hundred_adults"])
def test_other_instructions_have_golden_texts(built_study, instruction):
    study = cc.Study.open(built_study)
    rows = prompts_table(study.pairs(), study.items(), instruction).to_pylist()
    assert {row["kind"] for row in rows} == {"dated", "undated"}
    check_golden(f"e143-albania-dated-old-{instruction}", rows[0])


def test_counts_and_ids(prompts):
    counts = dict(prompts.group_by("kind").len().iter_rows())
    assert counts == {"dated": 258, "undated": 129, "modal": 258}
    assert prompts["prompt_id"].n_unique() == len(prompts)


def test_the_dated_prompts_of_a_pair_differ_in_the_year_alone(prompts, built_study):
    pairs = cc.Study.open(built_study).pairs().to_pylist()
    for kind in ("dated", "modal"):
        rows = prompts.filter(pl.col("kind") == kind).to_dicts()
        for pair, old, new in zip(pairs, rows[::2], rows[1::2], strict=True):
            assert (old["year"], new["year"]) == (pair["year_old"], pair["year_new"])
            assert old["user"] != new["user"]
            assert old["user"].replace(str(old["year"]), str(new["year"])) == new["user"]


def test_the_undated_prompt_is_the_dated_one_without_its_year(prompts):
    dated = prompts.filter(pl.col("kind") == "dated").to_dicts()
    undated = prompts.filter(pl.col("kind") == "undated").to_dicts()
    for old, none in zip(dated[::2], undated, strict=True):
        year = str(old["year"])
        assert none["year"] is None
        assert none["wave"] is None
        assert (
            old["user"].replace(f"Year: {year}\n", "").replace(f" in {year}.", ".")
            == (none["user"])
        )
        for word in ("year", "when", "today", "current", "recent", "Year"):
            assert word not in none["user"].replace("taxes, waste", "").split()


def test_the_system_message_is_the_published_one(prompts):
    published = (
        "You estimate survey response distributions. Return only valid JSON. "
        "Do not include explanations, markdown, or extra text."
    )
    assert prompts["system"].unique().to_list() == [published]


def test_every_option_is_listed_and_asked_for(prompts):
    for row in prompts.filter(pl.col("kind") != "modal").to_dicts():
        for option in row["options"]:
            assert f'"{option["code"]}"' in row["user"].splitlines()[-1]
            assert any(line.startswith(f"{option['code']}") for line in row["user"].splitlines())


def test_braces_in_wording_are_text():
    from chronocore.prompts import render_prompt

    _, user = render_prompt(
        "dated", "default", country="{options}", text="What of {task} and {year_line}?",
        options=[{"code": 1, "label": "{text}"}, {"code": 2, "label": "No"}], year=2000,
    )  # fmt: skip
    assert "Country: {options}\n" in user
    assert "What of {task} and {year_line}?" in user
    assert "1: {text}\n" in user
