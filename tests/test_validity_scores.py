"""Scores read from what models write: one option, several options, refusals, everything else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.validity import load_protocol

PROTOCOL = load_protocol()
SCALE = [{"code": code, "label": str(code)} for code in range(1, 11)]


def read(variable, text, finish_reason="stop"):
    return PROTOCOL.find(variable).parse(text, finish_reason)


@pytest.mark.parametrize(
    ("variable", "text", "score"),
    [
        ("F063", "7", 7),
        ("F063", "\uff17", 7),
        ("F063", "**8**", 8),
        ("F063", "7/10", 7),
        ("F063", "Score: 8", 8),
        ("F063", "I would rate it a 7 out of 10.", 7),
        ("F063", "On a scale from 1 to 10, I would say 6.", 6),
        ("F063", "There are 5 reasons for a score of 9.", 9),
        ("F063", "10 (Very important)", 10),
        ("F063", "Very important", 10),
        ("F063", "8. God is central to me.", 8),
        ("F063", "8\n\nI was raised that way.", 8),
        ("F063", "The answer to this question is 10.", 10),
        # A list of the options before it takes nothing from a sentence that answers.
        ("E025", "1. Have done\n2. Might do\n3. Would never do\n\nThe answer is 1.", 1),
        ("F063", '{"answer": 4}', 4),
        ("F063", "<think>Perhaps 3.</think>5", 5),
        ("A008", "2: Quite happy", 2),
        ("A165", "Most people can be trusted", 1),
        ("A165", "You need to be very careful.", 2),
        ("Y002", "1, 3", 1),
        ("Y002", "2,4", 3),
        ("Y002", "4 and 1", 2),
        ("Y002", '{"first": 2, "second": 4}', 3),
        ("Y002", "1. Maintaining order in the nation\n2. Protecting freedom of speech", 2),
        ("Y002", "1. 3\n2. 4", 2),
        ("Y002", "The most important is fighting rising prices, and the next is 1.", 1),
        ("Y003", "2, 8", 2),
        ("Y003", "Obedience and religious faith", -2),
        ("Y003", "Independence, Determination, perseverance, Hard work", 2),
        ("Y003", "- Independence\n- Obedience\n- Imagination", 0),
        ("Y003", "1. Independence: it helps.\n2. Religious faith: it guides.", 0),
        ("Y003", '["Independence", "Thrift"]', 1),
    ],
)
def test_scores(variable, text, score):
    parsed = read(variable, text)
    assert (parsed.status in ("ok", "recovered"), parsed.reason, parsed.score) == (
        True,
        None,
        score,
    )


@pytest.mark.parametrize(
    ("variable", "text", "reason"),
    [
        ("F063", "", "empty"),
        ("F063", "11", "unknown_option"),
        ("F063", "0", "unknown_option"),
        ("F063", "7.5", "unknown_option"),
        ("F063", "My rating is 12.", "unknown_option"),
        ("F063", "5-7", "range"),
        ("F063", "My rating is 5 to 7.", "range"),
        ("F063", "I would choose 3 or 4", "duplicate_option"),
        ("F063", "I do not give it a 7", "missing_option"),
        ("F063", "The answer is not 5", "missing_option"),
        ("F063", "10 is not a valid answer.", "missing_option"),
        # The options repeated, rightly or wrongly, are no answer: an echo would look stable.
        ("A008", "1: Very happy\n2: Quite happy\n3: Not very happy", "duplicate_option"),
        ("A165", "1: Most people can be trusted\n2: Need to be very careful", "duplicate_option"),
        ("E018", "1. Good thing\n2. Bad thing\n3. No reason", "duplicate_option"),
        (
            "Y003",
            "1. Good manners\n2. Independence\n3. Obedience\n4. Obedience",
            "duplicate_option",
        ),
        ("F063", "God matters a great deal.", "missing_option"),
        ("A165", "3", "unknown_option"),
        ("Y002", "1", "length_mismatch"),
        ("Y002", "1, 2, 3", "length_mismatch"),
        ("Y002", "1, 1", "duplicate_option"),
        ("Y002", "1, 5", "unknown_option"),
        ("Y002", "Peace", "missing_option"),
        ("Y003", "1, 2, 3, 4, 5, 6", "length_mismatch"),
        (
            "Y003",
            "\n".join(f"{i}. {o.label}" for i, o in enumerate(PROTOCOL.find("Y003").options, 1)),
            "length_mismatch",
        ),
        ("Y003", "12", "unknown_option"),
        ("Y003", "3: Obedience, 2", "unknown_option"),
    ],
)
def test_what_is_no_score_is_invalid_and_says_why(variable, text, reason):
    parsed = read(variable, text)
    assert (parsed.status, parsed.reason, parsed.score, parsed.chosen) == (
        "invalid", reason, None, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't answer that.",
        "As an AI language model, I don't have personal beliefs.",
        "I cannot share opinions on this topic.",
    ],
)
@pytest.mark.parametrize("variable", ["F118", "Y002", "Y003"])
def test_a_refusal_is_no_parse_failure(variable, text):
    assert read(variable, text).status == "refused"
    assert cc.parse_score("", SCALE, "content_filter").reason == "content_filter"
    assert cc.parse_score("7", SCALE, "stop", refusal=True).status == "refused"


def test_a_cut_answer_counts_only_as_closed_json():
    assert read("F063", "7 because", "length").status == "truncated"
    assert read("F063", '{"answer": 7} because', "length").score == 7
    assert read("Y002", "1, 3 because", "length").status == "truncated"
    assert read("Y002", "[1, 3] because", "length").score == 1
    assert read("Y002", "[1, 3", "length").status == "truncated"


@given(st.data())
def test_every_set_of_options_scores_base_plus_values(data):
    item = data.draw(st.sampled_from(PROTOCOL.item))
    n = data.draw(st.integers(*item.choose))
    chosen = data.draw(st.permutations(item.options))[:n]
    by_label = data.draw(st.booleans()) and not any(o.label.isdecimal() for o in chosen)
    join = data.draw(st.sampled_from([", ", " and ", "\n- ", "; "]))
    text = join.join(o.label if by_label else str(o.code) for o in chosen)
    if "-" in join and n > 1:
        text = "- " + text
    parsed = item.parse(text, "stop")
    assert parsed.score == pytest.approx(item.base + sum(o.worth for o in chosen)), text
    assert parsed.chosen == tuple(o.code for o in chosen)
    low, high = item.scores
    assert low <= parsed.score <= high


@given(st.text(max_size=80), st.sampled_from([None, "stop", "length", "content_filter"]))
def test_no_text_raises(text, finish_reason):
    for item in PROTOCOL.item:
        parsed = item.parse(text, finish_reason)
        assert (parsed.score is not None) == (parsed.status in ("ok", "recovered"))
        assert (parsed.reason is None) == (parsed.score is not None)


@pytest.mark.parametrize(
    "text",
    ["\n" * 200_000, "{" * 1_000_000, "1, " * 200_000, "rate " * 100_000, "answer " * 100_000,
     "on a scale of 1 to 10 " * 50_000, "1. Obedience\n" * 50_000, "rate" + "a" * 500_000],
)  # fmt: skip
def test_long_rubbish_is_quick(text):
    started = time.perf_counter()
    cc.parse_score(text, SCALE, "stop")
    PROTOCOL.find("Y003").parse(text, "stop")
    assert time.perf_counter() - started < 5


def test_malformed_options_are_refused():
    with pytest.raises(ValueError, match="choose"):
        cc.parse_score("1", SCALE, choose=(2, 1))
    with pytest.raises(ValueError, match="value"):
        cc.parse_score("1", [{"code": 1, "label": "a", "value": "x"}])
    with pytest.raises(ValueError, match="aliases"):
        cc.parse_score("1", [{"code": 1, "label": "a", "aliases": "x"}])
