"""Modal answers: the filter, what counts as correct, and mode changes, against plain loops."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.arrow import rows_of
from chronocore.modal import clear_mode, modal_answers, modal_pairs, mode_changes
from chronocore.testing import distributions


@given(st.lists(st.integers(2, 6).flatmap(distributions), min_size=1, max_size=8))
def test_a_mode_is_clear_if_it_leads_by_a_tenth(rows):
    found = clear_mode(rows_of(rows, "gold"))
    for row, clear in zip(rows, found, strict=True):
        first, second = sorted(row, reverse=True)[:2]
        assert clear == (first - second >= 0.10 - 1e-12)


def test_the_lead_takes_the_closed_side():
    # 0.45 - 0.35 is 0.10000000000000003, 0.4 - 0.3 is 0.10000000000000003, 0.55 - 0.45 below 0.1.
    rows = [[0.45, 0.35, 0.2], [0.55, 0.45], [0.54, 0.46]]
    assert clear_mode(rows_of(rows, "gold")).tolist() == [True, True, False]


def one_pair(pair_id, shift, old, new, country):
    codes = [1, 2, 3]
    return {
        "pair_id": pair_id, "survey": "wvs", "variable": "Q", "country": country,
        "year_old": 1995, "year_new": 2010, "gold_old": old, "gold_new": new, "shift": shift,
        "mode_old": codes[int(np.argmax(old))], "mode_new": codes[int(np.argmax(new))],
    }  # fmt: skip


STABLE = ([0.6, 0.3, 0.1], [0.61, 0.29, 0.1])
MOVED = ([0.6, 0.3, 0.1], [0.2, 0.2, 0.6])
KEPT = ([0.8, 0.1, 0.1], [0.5, 0.1, 0.4])
UNCLEAR = ([0.6, 0.3, 0.1], [0.2, 0.36, 0.44])

# name, shift, gold, answers (None: not valid), ratio; whether it is used
CASES = [
    ("stable, both right", "stable", STABLE, (1, 1), 2.0, True),
    ("stable, one right", "stable", STABLE, (1, 2), 2.0, True),
    ("stable, none right", "stable", STABLE, (2, 3), 2.0, False),
    ("moderate", "moderate", MOVED, (1, 3), 0.1, False),
    ("strong, both right", "strong", MOVED, (1, 3), 0.4, True),
    ("strong, newer right", "strong", MOVED, (3, 3), 0.6, True),
    ("strong, older right", "strong", MOVED, (1, 1), 0.1, True),
    ("strong, mode kept", "strong", KEPT, (1, 1), 0.1, False),
    ("very strong, no ratio", "very_strong", MOVED, (2, 3), np.nan, True),
    ("very strong, unclear", "very_strong", UNCLEAR, (1, 3), 0.1, False),
    ("very strong, no older answer", "very_strong", MOVED, (None, 3), 0.1, False),
    ("very strong, half exactly", "very_strong", MOVED, (2, 3), 0.5, True),
]


def tables():
    pairs, prompts, answers = [], [], []
    for index, (name, shift, (old, new), chosen, _, _) in enumerate(CASES):
        pairs.append(one_pair(name, shift, old, new, str(index)))
        for year, choice in zip((1995, 2010), chosen, strict=True):
            prompts.append(
                {"prompt_id": f"{index}-{year}", "kind": "modal", "survey": "wvs",
                 "variable": "Q", "country": str(index), "year": year}
            )  # fmt: skip
            answers.append(
                {"prompt_id": f"{index}-{year}", "repeat": 0,
                 "status": "invalid" if choice is None else "ok", "choice": choice}
            )  # fmt: skip
            # Another repeat never counts.
            answers.append(
                {"prompt_id": f"{index}-{year}", "repeat": 1, "status": "ok", "choice": 1}
            )
    return (pa.Table.from_pylist(rows) for rows in (pairs, prompts, answers))


def test_every_rule_of_the_filter():
    pairs, prompts, answers = tables()
    ratio = np.array([case[4] for case in CASES])
    found = modal_answers(pairs, prompts, answers, ratio)
    used = [case[0] for case in CASES if case[5]]
    names = pairs["pair_id"].to_pylist()
    assert [names[row] for row in found.pair] == used
    assert found.n_unanswered == 1
    assert found.n_wrong == 1
    by_name = dict(zip(used, found.both_correct.tolist(), strict=True))
    assert [name for name, both in by_name.items() if both] == [
        "stable, both right", "strong, both right",
    ]  # fmt: skip
    missed = [name for name, yes in zip(used, found.half_missed, strict=True) if yes]
    assert missed == ["strong, both right"]
    assert found.shift.tolist() == [0, 0, 2, 2, 2, 3, 3]


def test_mode_changes_over_all_pairs(cases, study):
    pairs = cc.Study.open(study).pairs()
    changed = mode_changes(pairs)
    handed = pl.read_csv(cases / "open-sample-pairs.csv", schema_overrides={"country": pl.String})
    handed = handed.filter(pl.col("item") == "E143")
    mine = {
        (row["variable"], row["country"]): change
        for row, change in zip(pairs.to_pylist(), changed.tolist(), strict=True)
    }
    for row in handed.to_dicts():
        first_old, first_new = (
            int(str(row[name]).strip("[]").split(";")[0].split("|")[0])
            for name in ("mode_old", "mode_new")
        )
        assert mine["E143", row["country"]] == (first_old != first_new)


def test_persistence_answers_the_older_mode(study):
    cc.predict(study, "reference:persistence", kinds=("dated", "undated", "modal"))
    opened = cc.Study.open(study)
    pairs = opened.pairs()
    run = opened.runs().to_pylist()[0]["run_id"]
    answers = opened.predictions(run, "modal")
    found = modal_answers(pairs, opened.prompts(), answers, np.zeros(len(pairs)))
    eligible = np.flatnonzero(modal_pairs(pairs))
    assert found.pair.tolist() == eligible.tolist()
    assert found.older_correct.all()
    np.testing.assert_array_equal(found.newer_correct, ~mode_changes(pairs)[eligible])
    # Where the mode moved, the older answer is wrong for the newer year.
    assert not found.both_correct[found.shift > 0].any()
    assert found.both_correct[found.shift == 0].all()


def test_table_5_of_a_study(study):
    cc.predict(study, "reference:persistence", kinds=("dated", "undated", "modal"))
    cc.score(study, resamples=50)
    rows = cc.tables(study, "t05")["t05"].to_pylist()
    table = {(r["group"], r["measure"]): r for r in rows if r["survey"] == "all"}
    opened = cc.Study.open(study)
    pairs = opened.pairs()
    usable = modal_pairs(pairs)
    shift = np.array(pairs["shift"].to_pylist())
    for group in ("stable", "strong", "very_strong"):
        row = table[group, "both_correct"]
        assert row["n"] == (usable & (shift == group)).sum()
        if row["n"]:
            assert row["estimate"] == (100.0 if group == "stable" else 0.0)
    missed = table["strong_plus", "newer_correct_half_missed"]
    assert missed["n"] == table["strong_plus", "both_correct"]["n"]
    # Persistence predicts no change at all, and never the newer mode.
    assert missed["estimate"] in (0.0, None)


def test_modal_answers_alone_are_evaluated_and_the_run_is_noted(study, run_cli):
    cc.predict(study, "reference:persistence", name="whole", kinds=("dated", "undated", "modal"))
    cc.score(study, resamples=50)
    whole = cc.tables(study, "t05")["t05"].to_pylist()
    cc.remove_run(study, "whole")
    cc.predict(study, "reference:persistence", name="modal only", kinds=("modal",))
    result = cc.score(study, resamples=50)
    assert result.runs == []
    assert list(result.skipped) == ["modal only"]
    assert "none of the 129 pairs has a valid old, new and undated" in result.skipped["modal only"]
    assert result.skipped["modal only"].endswith("its modal answers are in table t05")
    rows = cc.tables(study, "t05")["t05"].to_pylist()
    # There is no ratio without dated predictions, and so nothing about half of a shift.
    expected = [row | {"label": "modal only"} for row in whole if row["measure"] == "both_correct"]
    assert rows == expected
    assert any(row["n"] for row in rows)
    done = run_cli("score", study)
    assert done.returncode == 0, done.stderr
    assert "not scored: modal only: none of the 129 pairs" in done.stdout
    assert run_cli("tables", study).returncode == 0
    report = run_cli("report", study)
    assert report.returncode == 1
    assert "has valid dated and undated predictions" in report.stderr


def answers_file(study, path, seed):
    """Text answers to every prompt, those for one option too, made from the surveys."""
    opened = cc.Study.open(study)
    rng = np.random.default_rng(seed)
    rows = []
    for prompt in opened.prompts().to_pylist():
        codes = [option["code"] for option in prompt["options"]]
        shares = rng.dirichlet(np.ones(len(codes)))
        answer = {str(code): float(share) for code, share in zip(codes, shares, strict=True)}
        if prompt["kind"] == "modal":
            answer = {"answer": codes[int(rng.integers(len(codes)))]}
        rows.append({"prompt_id": prompt["prompt_id"], "text": json.dumps(answer)})
    pq.write_table(pa.Table.from_pylist(rows), path)
    return f"file:{path}"


@pytest.fixture
def several_kinds(study, tmp_path):
    """A study with a run of every kind, and one of modal answers alone, scored."""
    every = ("dated", "undated", "modal")
    cc.predict(study, answers_file(study, tmp_path / "a.parquet", 1), name="asked", kinds=every)
    modal = answers_file(study, tmp_path / "b.parquet", 2)
    cc.predict(study, modal, name="modal only", kinds=("modal",))
    cc.predict(study, "reference:persistence", kinds=every)
    cc.score(study, resamples=50)
    return study


def test_modal_answers_alone_stand_beside_a_scored_run(several_kinds):
    table = cc.tables(several_kinds, "t05")["t05"].to_pylist()
    measures = {}
    for row in table:
        measures.setdefault(row["label"], set()).add(row["measure"])
    assert measures == {
        "asked": {"both_correct", "newer_correct_half_missed"}, "modal only": {"both_correct"},
    }  # fmt: skip
    page = cc.report(several_kinds, formats=()).read_text(encoding="utf-8")
    assert "its modal answers are in table t05" in page
