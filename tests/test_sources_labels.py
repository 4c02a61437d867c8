"""Labels are compared by their words: other wordings pass, other meanings do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronocore.sources.catalog import load_catalog
from chronocore.sources.labels import (
    clean_label,
    clean_labels,
    compare_labels,
    doubtful_order,
    says_nothing,
    unconfirmed,
)
from chronocore.sources.nonresponse import missing_reason

CATALOG = {item.variable: item for item in load_catalog("wvs")}
ITEMS = list(CATALOG.values())


def expected(item):
    return {option.code: (option.label, *option.aliases) for option in item.scale}


def off(item):
    return [option.code for option in item.options if option.off_scale]


def conflicts(item, labels):
    return compare_labels(item.variable, labels, expected(item), off(item), "x.sav")


@pytest.mark.parametrize(
    ("variable", "labels"),
    [
        ("A001", "Very important/Rather important/Not very important/Not at all important"),
        ("A001", "1. very/2. rather/3. not very/4. not at all"),
        ("A165", "Most people can be trusted/Can\u00b4t be too careful"),
        ("C001", "Agree/Disagree/Neither"),
        ("D054", "Agree strongly/Agree/Disagree/Strongly disagree"),
        ("D001_B", "Trust completely/Trust somewhat/Do not trust very much/Do not trust at all"),
        ("E023", "Very interested/Somewhat interested/Not very interested/Not at all interested"),
        ("E025", "Have done/Might do/Would never do"),
        ("E265_01", "Very often/Fairly often/Not often/Not at all often"),
        ("F034", "A religious person/Not a religious person/Convinced atheist/Other"),
        ("G006", "Very proud/Quite proud/Not very proud/Not at all proud/Not a national"),
        ("H006_01", "Very much/A good deal/Not much/Not at all"),
    ],
)
def test_other_wordings_of_the_same_scale_pass(variable, labels):
    assert conflicts(CATALOG[variable], dict(enumerate(labels.split("/"), start=1))) == []


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.variable)
def test_the_catalogs_own_labels_agree_and_its_reversed_ones_do_not(item):
    own = {option.code: option.label for option in item.options}
    assert conflicts(item, own) == []
    assert unconfirmed(item, own) is None
    codes = [option.code for option in item.scale]
    turned = {c: own[d] for c, d in zip(codes, reversed(codes), strict=True)}
    found = conflicts(item, turned)
    assert found
    assert {conflict.kind for conflict in found} == {"reversed"}
    assert unconfirmed(item, turned) is not None


@given(st.sampled_from(ITEMS), st.data())
def test_two_exchanged_labels_are_a_contradiction_with_both_shown(item, data):
    named = [o for o in item.scale if not says_nothing(o.label)]
    one, other = data.draw(st.permutations(named))[:2]
    own = {option.code: option.label for option in item.options}
    found = conflicts(item, own | {one.code: other.label, other.code: one.label})
    assert {conflict.code for conflict in found} == {one.code, other.code}
    for conflict in found:
        message = conflict.message()
        assert repr(one.label) in message
        assert repr(other.label) in message
        assert "x.sav" in message


@given(
    st.sampled_from(ITEMS),
    st.sampled_from(["{code}. {label}", "{code} {label}", "({code}) {label}"]),
)
def test_a_code_before_the_label_changes_nothing(item, form):
    labels = {o.code: form.format(code=o.code, label=o.label) for o in item.options}
    cleaned = clean_labels(labels)
    for option in item.options:
        assert cleaned[option.code] == option.label
    assert conflicts(item, labels) == []


def test_labels_that_say_nothing_contradict_nothing_and_confirm_nothing():
    item = CATALOG["F118"]
    assert conflicts(item, {code: str(code) for code in range(1, 11)}) == []
    assert unconfirmed(item, {}) is not None
    ends = {1: "Never justifiable", 10: "Always justifiable"}
    assert unconfirmed(item, ends) is None
    assert "'Purple'" in str(unconfirmed(item, ends | {5: "Purple"}))
    assert unconfirmed(CATALOG["A001"], {1: "Very important"}) is not None


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("Don't know", "don't know"), ("Don\u00b4t know", "don't know"), ("DK", "don't know"),
        ("Can't choose", "don't know"), ("8. Can’t choose, dk", "don't know"),
        ("No answer", "no answer"), ("NA", "no answer"), ("Refusal", "refused"),
        ("NA, refused", "refused"), ("NAP: not in paid work", "not applicable"),
        ("Not applicable", "not applicable"), ("iap", "not applicable"),
        ("Not asked in survey", "not asked"), ("Missing; Unknown", "other missing"),
        ("Agree", None), ("Nap time", None), ("National pride", None),
        ("Not at all", None), ("Nothing", None), ("Neither", None), ("Know well", None),
    ],
)  # fmt: skip
def test_reasons_are_read_from_labels(label, reason):
    assert missing_reason(clean_label(label, 8)) == reason


def test_an_order_is_doubted_where_the_middle_stands_at_an_end():
    assert doubtful_order(["Agree", "Disagree", "Neither agree nor disagree"]) is not None
    assert doubtful_order(["It depends", "Yes", "No"]) == "It depends"
    assert doubtful_order(["Agree", "Neither", "Disagree"]) is None
    assert doubtful_order(["Both", "Neither"]) is None
