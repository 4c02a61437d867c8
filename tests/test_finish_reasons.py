"""One table of words says why a model stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
