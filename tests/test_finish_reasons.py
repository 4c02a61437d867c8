"""One table of words says why a model stopped."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.finish_reasons import ENDINGS, ending


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("stop STOP end_turn stop_sequence eos eos_token COMPLETE completed endTurn", "stop"),
        ("tool_calls tool_use function_call", "tool_calls"),
        ("length max_tokens MAX_TOKENS model_length max_output_tokens maxTokens", "length"),
        ("FinishReason.MAX_TOKENS FINISH_REASON_MAX_TOKENS max-tokens ERROR_LIMIT", "length"),
        ("content_filter content-filter SAFETY refusal RECITATION contentFilter", "content_filter"),
        ("PROHIBITED_CONTENT BLOCKLIST SPII guardrail_intervened ERROR_TOXIC", "content_filter"),
        ("error ERROR abort cancelled insufficient_system_resource network_error", "error"),
        ("weary OTHER stop! length. 7 ಠ", "unknown"),
    ],
)
def test_every_engines_word_has_one_meaning(words, meaning):
    assert {ending(word) for word in words.split(" ")} == {meaning}


@pytest.mark.parametrize("nothing", [None, "", "  ", "null", "FINISH_REASON_UNSPECIFIED"])
def test_where_nothing_is_said_nothing_is_known(nothing):
    assert ending(nothing) is None


def test_no_word_has_two_meanings_and_all_are_written_as_they_are_compared():
    words = [word for group in ENDINGS.values() for word in group]
    assert len(words) == len(set(words))
    for meaning, group in ENDINGS.items():
        for word in group:
            spelled = (word, word.upper(), word.replace("_", "-"), f"FinishReason.{word.upper()}")
            assert {ending(one) for one in spelled} == {meaning}
        if meaning != "unknown":
            assert ending(meaning) == meaning


@given(st.text(max_size=40))
def test_any_text_has_a_meaning(text):
    assert ending(text) in {None, "unknown", *ENDINGS}


def test_a_file_and_a_server_mean_the_same_by_a_word(study, tmp_path):
    """One answer in every word: cut, filtered, broken off, or in a word nobody knows."""
    prompts = cc.Study.open(study).prompts().filter(pc.field("kind") == "undated").slice(0, 40)
    words = [*(word for group in ENDINGS.values() for word in sorted(group)[:7]), "weary"]
    words = [word.upper().replace("_", "-") for word in words]
    rows = [
        {"prompt_id": prompt, "text": '{"1": 4', "finish_reason": word}
        for prompt, word in zip(prompts["prompt_id"].to_pylist(), words, strict=False)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "mine.parquet")
    result = cc.predict(study, f"file:{tmp_path / 'mine.parquet'}", kinds=("undated",))
    expected = {
        "stop": "invalid", "tool_calls": "invalid", "unknown": "invalid", "length": "truncated",
        "content_filter": "refused", "error": None,
    }  # fmt: skip
    got = {
        row["prompt_id"]: (row["status"], row["finish_reason"])
        for row in cc.Study.open(study).predictions(result.run_id).to_pylist()
    }
    for row in rows:
        status = expected[ending(row["finish_reason"])]
        wanted = None if status is None else (status, row["finish_reason"])
        assert got.get(row["prompt_id"]) == wanted, row
    assert {"truncated", "refused", "invalid"} == {status for status, _ in got.values()}
