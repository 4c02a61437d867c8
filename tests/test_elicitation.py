"""Three ways to get a distribution out of a model, and that they end in the same columns."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.elicitation import (
    ANSWER_COLUMNS,
    bare_token,
    distribution_of_options,
    distribution_of_samples,
    option_letters,
    read_answer,
)
from chronocore.engines import Answer, Option, Request, RunSettings, Sample
from chronocore.errors import ConfigurationError
from chronocore.predict import prompts_of
from chronocore.prompts import prompts_table, render_prompt

GOLDEN = Path(__file__).resolve().parent / "golden" / "prompts"
OPTIONS = [{"code": code, "label": f"label {code}"} for code in (1, 2, 10)]


def request(elicitation="verbalized", **fields):
    options = tuple(Option(o["code"], o["label"]) for o in OPTIONS)
    given = {
        "prompt_id": "q", "repeat": 0, "kind": "dated", "system": "", "user": "",
        "options": options, "survey": "wvs", "variable": "E143", "country": "8", "wave": 3,
        "year": 1998, "elicitation": elicitation,
    }  # fmt: skip
    return Request(**(given | fields))


def samples(*texts):
    return [text if isinstance(text, Sample) else Sample(text, None, "stop") for text in texts]


# -- prompts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("elicitation", ["sampled", "logprob"])
@pytest.mark.parametrize("instruction", ["default", "national", "hundred_adults"])
def test_prompts_have_golden_texts(built_study, elicitation, instruction):
    study = cc.Study.open(built_study)
    table = prompts_table(study.pairs(), study.items(), instruction, elicitation)
    rows = table.filter(pl.from_arrow(table)["variable"].eq("F117").to_arrow()).to_pylist()
    assert {row["kind"] for row in rows} == {"dated", "undated"}
    assert {row["elicitation"] for row in rows} == {elicitation}
    text = f"--- system\n{rows[0]['system']}\n--- user\n{rows[0]['user']}\n"
    path = GOLDEN / f"f117-albania-dated-old-{elicitation}-{instruction}.txt"
    if os.environ.get("CHRONOCORE_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("elicitation", ["sampled", "logprob"])
def test_prompts_of_a_pair_differ_in_the_year_alone(built_study, elicitation):
    study = cc.Study.open(built_study)
    prompts = pl.from_arrow(prompts_table(study.pairs(), study.items(), "default", elicitation))
    dated = prompts.filter(pl.col("kind") == "dated").to_dicts()
    undated = prompts.filter(pl.col("kind") == "undated").to_dicts()
    assert len(undated) == 129
    for old, new, none in zip(dated[::2], dated[1::2], undated, strict=True):
        assert old["user"].replace(str(old["year"]), str(new["year"])) == new["user"]
        plain = old["user"].replace(f"Year: {old['year']}\n", "").replace(f" in {old['year']}", "")
        assert plain == none["user"]


def test_every_prompt_of_every_way_has_an_id_of_its_own(built_study):
    study = cc.Study.open(built_study)
    ids = [
        prompt_id
        for elicitation in ("verbalized", "sampled", "logprob")
        for instruction in ("default", "national", "hundred_adults")
        for prompt_id in prompts_table(study.pairs(), study.items(), instruction, elicitation)[
            "prompt_id"
        ].to_pylist()
    ]
    assert len(ids) == len(set(ids)) == 9 * 387 + 258


def test_letters_stand_for_the_options_by_position():
    options = [{"code": code, "label": str(code)} for code in range(1, 11)]
    options[0]["label"] = "Never justifiable"
    system, user = render_prompt(
        "dated", "default", country="Chile", text="Q?", options=options, year=2000,
        elicitation="logprob",
    )  # fmt: skip
    lines = user.splitlines()
    assert "A: Never justifiable" in lines
    assert "B: 2" in lines
    assert "K: 10" in lines  # the tenth; I is left out
    assert lines[-1] == "Reply with one letter: A, B, C, D, E, F, G, H, J, K."
    assert "JSON" not in system
    with pytest.raises(ConfigurationError, match="at most 25"):
        option_letters(26)


# -- counting ---------------------------------------------------------------------------------


def test_shares_of_the_answers_are_the_distribution_without_smoothing():
    read = distribution_of_samples(
        samples('{"answer": 1}', '{"answer": 10}', '{"answer": 10}', '{"answer": "10"}'), OPTIONS
    )
    assert (read.status, read.reason) == ("ok", None)
    assert read.probs == (0.25, 0.0, 0.75)
    assert (read.raw_sum, read.sum_off) == (1.0, False)


def test_answers_that_name_no_option_are_counted_and_left_out():
    read = distribution_of_samples(
        samples('{"answer": 1}', "2", '{"answer": 7}', "I would choose 10."), OPTIONS
    )
    assert (read.status, read.raw_sum, read.sum_off) == ("recovered", 0.75, True)
    assert read.probs == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-15)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (['{"answer": 1}', "", ""], ("invalid", "empty")),
        (
            ['{"answer": 1}', Sample("x", None, "content_filter"), "I'm sorry, I cannot.", ""],
            ("refused", "content_filter"),
        ),
        ([Sample("", None, "length"), Sample("", None, "length"), ""], ("truncated", "length")),
        ([Sample("No.", None, "stop", True)] * 2, ("refused", "refusal")),
        (['{"answer": 7}'] * 3, ("invalid", "unknown_option")),
        ([], ("invalid", "empty")),
    ],
)
def test_with_fewer_than_half_valid_there_is_no_distribution(given, expected):
    read = distribution_of_samples(samples(*given), OPTIONS)
    assert (read.status, read.reason, read.probs, read.raw_sum) == (*expected, None, None)


def test_half_valid_is_enough():
    read = distribution_of_samples(samples('{"answer": 2}', ""), OPTIONS)
    assert (read.probs, read.raw_sum) == ((0.0, 1.0, 0.0), 0.5)


@given(st.lists(st.sampled_from([1, 2, 10]), min_size=1, max_size=60), st.randoms())
def test_the_order_of_the_answers_does_not_matter(codes, random):
    texts = [f'{{"answer": {code}}}' for code in codes]
    one = distribution_of_samples(samples(*texts), OPTIONS)
    random.shuffle(texts)
    assert distribution_of_samples(samples(*texts), OPTIONS) == one
    assert one.probs == tuple(codes.count(code) / len(codes) for code in (1, 2, 10))


def test_first_tokens():
    read = distribution_of_options((0.4, 0.2, 0.2))
    assert read.probs == pytest.approx((0.5, 0.25, 0.25), abs=1e-15)
    assert (read.status, read.sum_off) == ("ok", True)
    assert read.raw_sum == pytest.approx(0.8)
    assert distribution_of_options((0.5, 0.25, 0.24)).sum_off is False
    # 0.98 is on the threshold and counts as no less.
    assert distribution_of_options((0.5, 0.25, 0.23)).sum_off is False
    assert distribution_of_options((0.0, 0.0, 0.0)).reason == "no_mass"
    assert distribution_of_options((math.nan, 0.1, 0.1)).reason == "not_finite"


def test_first_tokens_that_mostly_name_no_option_are_no_distribution():
    """As many answers of a sampled prompt must name one."""
    assert distribution_of_options((0.25, 0.25)).status == "ok"
    assert distribution_of_options((0.5 - 1e-13, 0.0)).status == "ok"
    for masses in ((0.05, 0.0), (0.25, 0.24)):
        read = distribution_of_options(masses)
        assert (read.status, read.reason, read.probs) == ("invalid", "low_mass", None)
        assert read.raw_sum == pytest.approx(sum(masses))
        row = read_answer(
            Answer("q", 0, option_probs=(*masses, 0.0)), request(elicitation="logprob")
        )
        assert (row["status"], row["reason"], row["probs"]) == ("invalid", "low_mass", None)
        assert row["raw_sum"] == pytest.approx(sum(masses))
    for masses in ((2.0, 2.0), (1.0, 0.03)):  # as a file may have them
        read = distribution_of_options(masses)
        assert (read.status, read.reason, read.probs) == ("invalid", "sum_off", None)
        assert read.raw_sum == sum(masses)


def test_marks_of_tokens_are_off():
    marked = ["A", " A", "A ", "\u2581A", "\u0120A", "\u010aA", "\u0109A", "A</w>", "<0x41>"]
    assert {bare_token(token) for token in marked} == {"A"}
    for other in ("a", "AB", "##A", "A@@", "A.", '"A', "<0x42>", "Ä", "", "\u2581"):
        assert bare_token(other) != "A"


# -- rows -------------------------------------------------------------------------------------


def answers():
    told = (Sample('{"answer": 2}', "hm", "stop"), Sample("10", None, "length", False),
            Sample('{"answer": 2}'), Sample("no", None, "stop", True))  # fmt: skip
    yield request("sampled"), Answer("q", 0, samples=told)
    yield request("sampled"), Answer("q", 0, samples=(Sample(""), Sample(None)))
    yield request("logprob"), Answer("q", 0, option_probs=(0.1, 0.3, 1e-9))
    yield request("logprob"), Answer("q", 0, option_probs=(0.1 + 0.2, 1 / 3, 0.0))
    yield request("logprob"), Answer("q", 0, text="", finish_reason="content_filter")
    yield request("sampled"), Answer("q", 0, text="Sorry", refusal=True)
    yield request(), Answer("q", 0, text='{"1": 1, "2": 2, "10": 1}')
    yield request(), Answer("q", 0, error="timeout")


@pytest.mark.parametrize(("asked", "answer"), list(answers()))
def test_a_row_can_be_read_back_from_its_text(asked, answer):
    row = read_answer(answer, asked)
    assert tuple(row) == ANSWER_COLUMNS
    if answer.error is not None:
        assert (row["status"], row["reason"]) == ("error", answer.error)
        return
    again = Answer(
        "q", 0, text=row["text"], thinking=row["thinking"], finish_reason=answer.finish_reason,
        refusal=answer.refusal,
    )  # fmt: skip
    assert read_answer(again, asked) == row


def test_what_is_kept_of_samples_and_first_tokens():
    told = (Sample('{"answer": 2}', "hm", "stop"), Sample("no", None, "stop", True))
    row = read_answer(Answer("q", 0, samples=told), request("sampled"))
    assert json.loads(row["text"]) == [
        {"text": '{"answer": 2}', "finish_reason": "stop", "thinking": "hm"},
        {"text": "no", "finish_reason": "stop", "refusal": True},
    ]
    row = read_answer(Answer("q", 0, option_probs=(0.1, 0.2, 0.3)), request("logprob"))
    assert json.loads(row["text"]) == {"1": 0.1, "2": 0.2, "10": 0.3}
    for broken in ("", "{", "[1, 2]", '{"1": 0.5}', '{"1": "a", "2": 1, "10": 1}'):
        row = read_answer(Answer("q", 0, text=broken), request("logprob"))
        assert (row["status"], row["reason"]) == ("invalid", "not_finite")
    for texts in ('["1", "2", {"answer": 1}]', "[]", "{", "7", '[{"text": 3}]'):
        assert read_answer(Answer("q", 0, text=texts), request("sampled"))["status"] in (
            "ok", "recovered", "invalid",
        )  # fmt: skip


# -- the whole way ----------------------------------------------------------------------------


class Respondents:
    """Answers every prompt alike, in whatever way it is asked."""

    def __init__(self, elicitation, instruction="default", version="1"):
        self.settings = RunSettings(
            model="respondents", engine="scripted", engine_version=version,
            elicitation=elicitation, instruction=instruction,
        )  # fmt: skip
        self.notes = {}
        self.asked = []

    def answers(self, requests):
        for one in requests:
            self.asked.append(one)
            codes = [option.code for option in one.options]
            key = (one.prompt_id, one.repeat)
            shift = (one.year or 2000) % 3
            weights = [1 + (place + shift) % 3 for place in range(len(codes))]
            if one.elicitation == "sampled":
                texts = [f'{{"answer": {c}}}' for c, w in zip(codes, weights, strict=True)
                         for _ in range(w)]  # fmt: skip
                yield Answer(*key, samples=tuple(samples(*texts)), finish_reason="stop")
            elif one.elicitation == "logprob":
                yield Answer(*key, option_probs=tuple(w / (2 * sum(weights)) for w in weights))
            else:
                text = json.dumps(dict(zip(map(str, codes), weights, strict=True)))
                yield Answer(*key, text=text, finish_reason="stop")

    def close(self):
        pass


def test_three_ways_stand_side_by_side_in_one_study(study, tmp_path):
    results = {}
    for elicitation in ("verbalized", "sampled", "logprob"):
        engine = Respondents(elicitation)
        results[elicitation] = cc.predict(study, engine)
        assert {one.elicitation for one in engine.asked} == {elicitation}
        assert results[elicitation].statuses == {"ok": 387}
    labels = [result.label for result in results.values()]
    assert labels[1:] == ["respondents, sampled", "respondents, logprob"]
    scored = cc.score(study, resamples=10)
    assert {run.n_complete for run in scored.runs} == {129}
    opened = cc.Study.open(study)
    tables = [opened.scores(result.run_id).to_pylist() for result in results.values()]
    # The same distributions, so the same scores, whatever way they came.
    for one, two in ((0, 1), (0, 2)):
        for a, b in zip(tables[one], tables[two], strict=True):
            assert a["d_old"] == pytest.approx(b["d_old"], abs=1e-12)
            assert a["outcome"] == b["outcome"]
    # Exported runs come back as what they were.
    other = tmp_path / "other"
    cc.build(other, preset="open-sample")
    for elicitation, result in results.items():
        path = tmp_path / f"{elicitation}.parquet"
        cc.export_run(study, result.label, path)
        back = cc.predict(other, f"file:{path}", elicitation=elicitation)
        assert back.run_id == result.run_id
        columns = ["prompt_id", "probs", "text", "status", "raw_sum", "sum_off"]
        rows = [
            pl.from_arrow(s.predictions(result.run_id)).select(columns).sort("prompt_id")
            for s in (opened, cc.Study.open(other))
        ]
        assert rows[0].equals(rows[1])


def test_prompts_are_found_by_instruction_and_elicitation(study):
    opened = cc.Study.open(study)
    result = cc.predict(study, Respondents("sampled", "national"))
    assert result.statuses == {"ok": 387}
    wanted = prompts_of(opened, "national", "sampled").to_pylist()
    ids = {
        row["prompt_id"]
        for row in wanted
        if (row["instruction"], row["elicitation"]) == ("national", "sampled")
    }
    assert {row["prompt_id"] for row in opened.predictions(result.run_id).to_pylist()} == ids
    (run,) = cc.score(study, resamples=10).runs
    assert run.n_complete == 129
    assert run.statuses == {"ok": 387}
    report = cc.report(study)
    assert report.exists()


def test_repeats_of_a_sampled_prompt_are_rows_of_their_own(study):
    result = cc.predict(study, Respondents("sampled"), kinds=("undated",), repeats=3)
    rows = cc.Study.open(study).predictions(result.run_id).to_pylist()
    assert len({(row["prompt_id"], row["repeat"]) for row in rows}) == len(rows) == 3 * 129


def test_modal_prompts_have_one_elicitation(study):
    with pytest.raises(ConfigurationError, match="ask for one option already"):
        cc.predict(study, "reference:uniform", kinds=("modal",), elicitation="sampled")


def test_references_answer_the_prompts_of_any_elicitation(study):
    cc.predict(study, "reference:pooled", elicitation="logprob")
    result = cc.predict(study, "reference:pooled", elicitation="sampled")
    assert result.statuses["ok"] > 300
    assert "sampled" in result.label
