"""What model answers become: the frozen cases, trouble seen elsewhere, and laws on any text."""

from __future__ import annotations

import doctest
import json
import math
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chronocore import parsing
from chronocore.parsing import (
    ParsedChoice,
    ParsedDistribution,
    option_table,
    parse_choice,
    parse_distribution,
)
from chronocore.parsing.distribution import _read_plainly

CASES = json.loads((Path(__file__).parent / "cases" / "parsing.json").read_text(encoding="utf-8"))

Options = list[dict[str, object]]


def scale(*labels: str, codes: list[int] | None = None) -> Options:
    given_codes = codes or list(range(1, len(labels) + 1))
    return [{"code": c, "label": x} for c, x in zip(given_codes, labels, strict=True)]


TRUST = scale("Trust", "Distrust")
LETTERS = scale("A", "B")
WORK = scale("Agree strongly", "Agree", "Disagree")
TEN = scale("Left", *(str(n) for n in range(2, 10)), "Right")
FAITH = scale(
    "-2 obedience/religious faith", "-1", "0", "1", "2 determination", codes=[-2, -1, 0, 1, 2]
)
QUOTED = scale('Often, "daily"', "Rarely, it doesn't matter")


def outcome(text: str | None, options: Options, finish: str | None = "stop") -> Any:
    """Return status and rounded probabilities, or status and reason."""
    parsed = parse_distribution(text, options, finish)
    if parsed.probs is None:
        return parsed.status, parsed.reason
    return parsed.status, tuple(round(p, 9) for p in parsed.probs)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_frozen_case(case: dict[str, Any]) -> None:
    parsed = parse_distribution(case["text"], case["options"], case["finish_reason"])
    assert (parsed.status, parsed.reason) == (case["status"], case["reason"])
    if case["probs"] is None:
        assert parsed.probs is None
    else:
        assert parsed.probs == pytest.approx(case["probs"], abs=1e-9)


# Each row is of the kind of the case of that number, on an input of our own.
TROUBLE: list[tuple[str, str | None, Options, Any]] = [
    ("P01", "{'A': '27%', 'B': '73%'}", LETTERS, ("recovered", (0.27, 0.73))),
    ("P02", "{'A': 15%, 'B': 85%}", LETTERS, ("recovered", (0.15, 0.85))),
    ("P03", "{'A': '35%', B: '65%'}", LETTERS, ("recovered", (0.35, 0.65))),
    ("P04-open", "{'A': '35%, 'B': '65%'}", LETTERS, ("recovered", (0.35, 0.65))),
    ("P04-last", "{'A': '35%', 'B': '65%}", LETTERS, ("recovered", (0.35, 0.65))),
    ("P04-mixed", "{'A': '35%\", 'B': '65%'}", LETTERS, ("recovered", (0.35, 0.65))),
    ("P05", "{'1': '.25', '2': '.75'}", TRUST, ("recovered", (0.25, 0.75))),
    ("P06", '{"3": 60, "1": 30, "2": 10}', WORK, ("ok", (0.3, 0.1, 0.6))),
    ("P07-stop", '{"1": 20, "2": 80}.', TRUST, ("ok", (0.2, 0.8))),
    ("P07-bracket", '{"1": 20, "2": 80}] Let me know!', TRUST, ("ok", (0.2, 0.8))),
    ("P07-before", '1 = Trust, 2 = Distrust\n\n{"1": 20, "2": 80}', TRUST, ("ok", (0.2, 0.8))),
    ("P08-short", "[20, 80]", WORK, ("invalid", "length_mismatch")),
    ("P08-long", "[20, 30, 40, 10]", WORK, ("invalid", "length_mismatch")),
    ("P09", "Trust: 30%\nDistrust: 62%\nRefused / DK: 8%", TRUST, ("invalid", "unknown_option")),
    ("P11-one", '{"1": 0, "2": 1}', TRUST, ("ok", (0.0, 1.0))),
    ("P11-percent", '{"1": 2, "2": 98}', TRUST, ("ok", (0.02, 0.98))),
    ("P11-own-unit", '{"1": "25%", "2": 0.75}', TRUST, ("ok", (0.25, 0.75))),
    ("P11-all", '{"1": "25%", "2": 75}', TRUST, ("ok", (0.25, 0.75))),
    ("P11-mixed", '{"1": "25%", "2": 9}', TRUST, ("invalid", "mixed_units")),
    ("P12-hyphen", "Trust: 30-40\nDistrust: 60-70", TRUST, ("invalid", "range")),
    ("P12-dash", "Trust: 30 \u2013 40%\nDistrust: 65%", TRUST, ("invalid", "range")),
    ("P12-around", "Trust: around 5-7%\nDistrust: 94%", TRUST, ("invalid", "range")),
    ("P12-about", "Trust: \u22480.3\nDistrust: about 0.7", TRUST, ("recovered", (0.3, 0.7))),
    ("P13", "{0.2, 0.3, 0.5}", WORK, ("recovered", (0.2, 0.3, 0.5))),
    ("P14-letters", '{"A": 30, "B": 70}', TRUST, ("invalid", "unknown_option")),
    ("P14-bucket", '{"1": 30, "2": 60, "3": 10}', TRUST, ("invalid", "unknown_option")),
    ("P15", '<think>{"1": 1, "2": 99}</think>{"1": 30, "2": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P16-close", 'Say {"1": 1, "2": 99}</think>{"1": 30, "2": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P16-none", 'Sure: {"1": 30, "2": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P19", "I cannot say. In 2010, 55% trusted.", TRUST, ("refused", "refusal")),
    (
        "P20-twice",
        '```\n{"1": 30, "2": 70}\n```\n```json\n{"1": 30, "2": 70}\n```',
        TRUST,
        ("ok", (0.3, 0.7)),
    ),
    ("P20-open", 'Here:\n```json\n{"1": 30, "2": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P21-object", '{"1": 30, "2": 70, }', TRUST, ("recovered", (0.3, 0.7))),
    ("P21-list", "[30, 70,]", TRUST, ("recovered", (0.3, 0.7))),
    ("P22", '{"1\u201d: "30%\u201d, "2\u201d: "70%\u201d}', TRUST, ("recovered", (0.3, 0.7))),
    (
        "P23-key",
        json.dumps({'Often, "daily"': 30, "Rarely, it doesn't matter": 70}),
        QUOTED,
        ("ok", (0.3, 0.7)),
    ),
    (
        "P23-near",
        "{'Often, \"daily\"': 30, 'Rarely, it doesn't matter': 70}",
        QUOTED,
        ("recovered", (0.3, 0.7)),
    ),
    (
        "P23-prose",
        'Often, "daily": 30%\nRarely, it doesn\u2019t matter: 70%',
        QUOTED,
        ("recovered", (0.3, 0.7)),
    ),
    ("P24-float", "{1.0: 30, 2.0: 70}", scale("Never", "2.0"), ("recovered", (0.3, 0.7))),
    ("P24-text", '{"Never": 30, "2.0": 70}', scale("Never", "2.0"), ("ok", (0.3, 0.7))),
    (
        "P25-codes",
        json.dumps({str(n): 10 for n in range(1, 11)}),
        TEN,
        ("ok", (0.1,) * 10),
    ),
    (
        "P25-words",
        json.dumps({str(option["label"]): 10 for option in TEN}),
        TEN,
        ("ok", (0.1,) * 10),
    ),
    ("P26-paren", '{"1 (Trust)": 30, "2 (Distrust)": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P26-last", '{"Trust (1)": 30, "Distrust (2)": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P26-dot", '{"1. Trust": 30, "2: Distrust": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P26-option", '{"Option 1": 30, "option_2": 70}', TRUST, ("ok", (0.3, 0.7))),
    ("P27-nan", '{"1": NaN, "2": 70}', TRUST, ("invalid", "not_finite")),
    ("P27-inf", '{"1": 30, "2": "-Infinity"}', TRUST, ("invalid", "not_finite")),
    ("P27-true", '{"1": 30, "2": true}', TRUST, ("invalid", "not_numeric")),
    ("P27-null", '{"1": null, "2": 100}', TRUST, ("invalid", "not_numeric")),
    ("P27-na", "Trust: N/A\nDistrust: 100%", TRUST, ("invalid", "not_numeric")),
    ("P28-counts", '{"1": "1,500", "2": "500"}', TRUST, ("ok", (0.75, 0.25))),
    ("P28-comma", "Trust: 12,5 %\nDistrust: 87,5 %", TRUST, ("recovered", (0.125, 0.875))),
    ("P28-wide", '{"1": "\uff13\uff10\uff05", "2": "70%"}', TRUST, ("ok", (0.3, 0.7))),
    ("P28-minus", '{"1": "\u22121", "2": 7}', TRUST, ("ok", (0.0, 1.0))),
    (
        "P29-inner",
        '{"year": 1999, "shares": {"1": 30, "2": 70}, "confidence": 0.8}',
        TRUST,
        ("ok", (0.3, 0.7)),
    ),
    (
        "P29-list",
        '[{"option": 2, "probability": 0.7}, {"option": 1, "probability": 0.3}]',
        TRUST,
        ("ok", (0.3, 0.7)),
    ),
    (
        "P29-extra",
        '{"1": 30, "2": 70, "reasoning": "as in 2005", "year": 2010, "total": 100}',
        TRUST,
        ("ok", (0.3, 0.7)),
    ),
    ("P30-none", '{"1": 30, "2": 70, "DK": "0%"}', TRUST, ("ok", (0.3, 0.7))),
    ("P30-some", '{"1": 30, "2": 68, "DK": "2%"}', TRUST, ("invalid", "unknown_option")),
    ("P31", "[0, 0, 0]", WORK, ("invalid", "no_mass")),
    ("P33-lines", "\n" * 200_000, TRUST, ("invalid", "empty")),
    ("P33-braces", "{" * 1_000_000, TRUST, ("invalid", "missing_option")),
    ("P34", "I would choose 3", WORK, ("invalid", "missing_option")),
]


@pytest.mark.parametrize(
    ("text", "options", "expected"), [pytest.param(*row[1:], id=row[0]) for row in TROUBLE]
)
def test_trouble(text: str | None, options: Options, expected: Any) -> None:
    assert outcome(text, options) == expected


@pytest.mark.parametrize(
    ("total", "off"),
    [
        (0.98, False),
        (1.02, False),
        (99, False),
        (101, False),
        (98, False),
        (102, False),
        (1.021, True),
        (102.1, True),
        (50, True),
        (174, True),
    ],
)
def test_sum_is_divided_out_flagged_and_rejected_on_request(total: float, off: bool) -> None:  # P10
    text = json.dumps({"1": total / 4, "2": total * 3 / 4})
    parsed = parse_distribution(text, TRUST, "stop")
    assert parsed.probs == pytest.approx((0.25, 0.75))
    assert parsed.raw_sum == pytest.approx(total)
    assert parsed.sum_off is off
    strict = parse_distribution(text, TRUST, "stop", max_sum_error=0.02)
    assert (strict.reason == "sum_off") is off
    assert strict.raw_sum == parsed.raw_sum


def test_max_sum_error_is_a_fraction_of_the_whole() -> None:
    text = '{"1": 29, "2": 70}'
    assert parse_distribution(text, TRUST, max_sum_error=0.01).status == "ok"
    assert parse_distribution(text, TRUST, max_sum_error=0.009).reason == "sum_off"
    assert parse_distribution(text, TRUST, max_sum_error=0.0).probs is None


def test_reasoning_is_kept_and_never_read() -> None:  # P17
    parsed = parse_distribution('<think>so {"1": 30, "2": 70}', TRUST, "length")
    assert (parsed.status, parsed.reason) == ("truncated", "length")
    assert parsed.thinking == 'so {"1": 30, "2": 70}'
    assert outcome(None, TRUST, "length") == ("truncated", "length")


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [({"finish_reason": "content_filter"}, "content_filter"), ({"refusal": True}, "refusal")],
)
def test_endpoint_refusals_come_before_everything(keywords: Any, reason: str) -> None:  # P18
    for text in (None, "", '{"1": 30, "2": 70}'):
        parsed = parse_distribution(text, TRUST, **keywords)
        assert (parsed.status, parsed.reason) == ("refused", reason)
    chosen = parse_choice("2", TRUST, **keywords)
    assert (chosen.status, chosen.reason) == ("refused", reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"answer": 7}', "unknown_option"),
        ("7", "unknown_option"),
        ("Answer: 7", "unknown_option"),
        ('{"answer": 1.5}', "unknown_option"),
        ('{"answer": null}', "missing_option"),
        ("I would choose 1 or 2", "duplicate_option"),
        ('{"answer": [1, 2]}', "duplicate_option"),
        ('{"answer": "1-2"}', "range"),
        ("Nobody knows.", "missing_option"),
        ('{"1": 30, "2": 70}', "missing_option"),
        ("", "empty"),
    ],
)
def test_invalid_choice(text: str, reason: str) -> None:  # P32
    assert parse_choice(text, TRUST, "stop") == ParsedChoice("invalid", reason, None, None)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"answer": 2}', "ok"),
        ('```json\n{"answer": "Distrust"}\n```', "ok"),
        ('{"code": 2, "label": "Distrust", "confidence": 1}', "ok"),
        ('{"answer": 1} No: {"answer": 2}', "ok"),
        ("<think>1 or 2?</think>2", "ok"),
        ("{'answer': 2}", "recovered"),
        ("Option 2", "recovered"),
        ("2. Distrust", "recovered"),
        ("**distrust**", "recovered"),
        ("I would choose 2.", "recovered"),
        ("On a scale of 1 to 10, I would pick 2.", "recovered"),
        ("I would not choose 1; I would choose 2.", "recovered"),
        ("The answer is: Distrust.", "recovered"),
        ("Answer: 2 - Distrust", "recovered"),
    ],
)
def test_choice(text: str, status: str) -> None:
    chosen = parse_choice(text, TRUST, "stop")
    assert (chosen.status, chosen.choice) == (status, 2)


def test_choice_after_length_must_be_closed() -> None:
    assert parse_choice("2", TRUST, "length").status == "truncated"
    assert parse_choice('{"answer": 2', TRUST, "length").status == "truncated"
    assert parse_choice('{"answer": 2} and', TRUST, "length").choice == 2


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('{"-2": 10, "-1": 20, "0": 30, "1": 20, "2": 20}', FAITH, "ok"),
        ('{"\u22122": 10, "\u22121": 20, "0": 30, "+1": 20, "2": 20}', FAITH, "ok"),
        ("{-2: 10, -1: 20, 0: 30, 1: 20, 2: 20}", FAITH, "recovered"),
        ("-2: 10\n-1: 20\n0: 30\n1: 20\n2: 20", FAITH, "recovered"),
        (
            "- -2: obedience/religious faith: 10\n- -1: 20\n- 0: 30\n- 1: 20\n- 2: 20",
            FAITH,
            "recovered",
        ),
    ],
)
def test_negative_codes(text: str, options: Options, expected: str) -> None:
    assert outcome(text, options) == (expected, (0.1, 0.2, 0.3, 0.2, 0.2))


def test_labels_that_are_codes_of_other_options() -> None:
    children = scale("0", "1", "2 or more")
    assert outcome('{"1": 10, "2": 20, "3": 70}', children) == ("ok", (0.1, 0.2, 0.7))
    assert outcome('{"0": 10, "1": 20, "2 or more": 70}', children) == ("ok", (0.1, 0.2, 0.7))


@pytest.mark.parametrize(
    ("text", "finish", "expected"),
    [
        # what is closed survives a cut; what stands in something unclosed does not
        ('{"1": 30, "2": 70', "length", ("truncated", "length")),
        ('{"d": {"1": 30, "2": 70}, "why": "beca', "length", ("truncated", "length")),
        ('{"d": {"1": 30, "2": 70}, "e": 0.', "length", ("truncated", "length")),
        ("Trust: 30\nDistrust: 70", "length", ("truncated", "length")),
        ("30, 70", "length", ("truncated", "length")),
        ('{"1": 30}', "length", ("invalid", "missing_option")),
        ('{"1": 30, "2": 70', "stop", ("recovered", (0.3, 0.7))),
        ('{"1": 30, "2": 70', None, ("invalid", "missing_option")),
        # the last complete answer wins
        ('{"1": 50, "2": 50}, no, {"1": 30, "2": 70}', "stop", ("ok", (0.3, 0.7))),
        ('{"1": 30, "2": 70} e.g. {"1": 50}', "stop", ("ok", (0.3, 0.7))),
        ("Trust: 5\nDistrust: 95\n\nTrust: 30\nDistrust: 70", "stop", ("recovered", (0.3, 0.7))),
        ("Trust: 30\nDistrust: 60\nTrust: 10", "stop", ("invalid", "duplicate_option")),
        # reasons in their order
        ('{"1": "30-40", "1": null}', "stop", ("invalid", "range")),
        ('{"1": 30, "1": 30, "2": 40}', "stop", ("invalid", "duplicate_option")),
        ('{"1": 30, "Trust": 30, "2": 40}', "stop", ("invalid", "duplicate_option")),
        ('{"1": 1e308, "2": 1e308}', "stop", ("invalid", "not_finite")),
        ('{"1": 1e400, "2": 1}', "stop", ("invalid", "not_finite")),
        ('{"1": "<1%", "2": "99%"}', "stop", ("invalid", "range")),
        # a refusal counts only without a valid answer, and before a cut
        ('I\'m sorry, but roughly {"1": 30, "2": 70}', "stop", ("ok", (0.3, 0.7))),
        ('I cannot. {"1": 0, "2": 0}', "stop", ("refused", "refusal")),
        ("I\u2019m sorry, but", "length", ("refused", "refusal")),
        ("As an AI language model, I do not have opinions.", "stop", ("refused", "refusal")),
        ("Lo siento, no puedo.", "stop", ("refused", "refusal")),
        ("Je suis d\u00e9sol\u00e9, je ne peux pas.", "stop", ("refused", "refusal")),
        ("Es tut mir leid.", "stop", ("refused", "refusal")),
        ("\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u56de\u7b54\u3002", "stop", ("refused", "refusal")),
        ("We cannot be certain: Trust", "stop", ("invalid", "missing_option")),
        # tables
        (
            "| Code | Label | % |\n|--|--|--|\n| 1 | Trust | 30 |\n| 2 | Distrust | 70 |",
            "stop",
            ("recovered", (0.3, 0.7)),
        ),
        (
            "| 1 | Distrust | 30 |\n| 2 | Trust | 70 |",
            "stop",
            ("invalid", "unknown_option"),
        ),
        (
            "| Trust | Distrust |\n|---|---|\n| 30% | 70% |",
            "stop",
            ("recovered", (0.3, 0.7)),
        ),
        # numbers
        ('{"1": 1,200, "2": 800}', "stop", ("recovered", (0.6, 0.4))),
        ('{"1": "0,250", "2": "0,750"}', "stop", ("ok", (0.25, 0.75))),
        ('{"1": "1.234,5", "2": "1.234,5"}', "stop", ("ok", (0.5, 0.5))),
        ('{"1": "1.234,5", "2": "1,234.5"}', "stop", ("invalid", "not_numeric")),
        ('{"1": "1,2,3", "2": 1}', "stop", ("invalid", "not_numeric")),
        # lists of codes are the scale
        ("The codes are [1, 2].", "stop", ("invalid", "missing_option")),
    ],
)
def test_rules(text: str, finish: str | None, expected: Any) -> None:
    assert outcome(text, TRUST, finish) == expected


YES_NO = scale("Yes", "No")
ZERO_ONE = scale("No", "Yes", codes=[0, 1])
FOUR = scale("w", "x", "y", "z")
UNKNOWN = ("invalid", "unknown_option")
NOTHING = ("invalid", "missing_option")
SPLIT = ("recovered", (0.4, 0.6))
CODED_TEN = json.dumps({str(n): n for n in range(1, 11)})
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
DRAFT = '{"1": 90, "2": 10}'


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        # the codes are no answer
        ('{"1": 40, "2": 60}\n\nKey: {"Yes": 1, "No": 2}', YES_NO, ("ok", (0.4, 0.6))),
        ("{'1': 40, '2': 60}\nCodes: {\"Yes\": 1, \"No\": 2}", YES_NO, SPLIT),
        ('{"1": 40, "2": 60}\nKey: {"1": "Yes", "2": "No"}', YES_NO, ("ok", (0.4, 0.6))),
        ("Yes: 40\nNo: 60\n\nCodes:\nYes: 1\nNo: 2", YES_NO, SPLIT),
        ('{"Yes": 1, "No": 2}', YES_NO, NOTHING),
        ('[{"option": "Yes", "value": 1}, {"option": "No", "value": 2}]', YES_NO, UNKNOWN),
        (CODED_TEN, TEN, NOTHING),
        ("\n".join(map(str, range(1, 11))), TEN, NOTHING),
        ("[1, 2]", YES_NO, NOTHING),
        ("| Label | Code |\n|---|---|\n| Yes | 1 |\n| No | 2 |", YES_NO, NOTHING),
        ('{"-2": -2, "-1": -1, "0": 0, "1": 1, "2": 2}', FAITH, NOTHING),
        ('{"0": 0, "1": 1}', ZERO_ONE, ("ok", (0.0, 1.0))),
        # numbers amid prose, and dates
        ("95% CI: [0.38, 0.42]. Estimate: 0.40", YES_NO, NOTHING),
        ("As shown in [1, 7], opinions vary.", YES_NO, NOTHING),
        ("Studies [4, 12, 15, 22] show that opinions vary.", FOUR, NOTHING),
        ("2017, 2018", YES_NO, NOTHING),
        ("Year range {1998, 2012}", YES_NO, NOTHING),
        ("1: 2017\n2: 2018", YES_NO, NOTHING),
        ("Sure: [40, 60].", YES_NO, SPLIT),
        ("```\n[20, 30]\n```", YES_NO, SPLIT),
        # a sum that is off gives way
        ('{"1": 40, "2": 60} with errors {"1": 3, "2": 4}', YES_NO, ("ok", (0.4, 0.6))),
        ('{"1": 40, "2": 60} no, {"1": 0.3, "2": 0.7}', YES_NO, ("ok", (0.3, 0.7))),
        ('{"1": 40, "2": 60} no, {"1": null, "2": 60}', YES_NO, ("invalid", "not_numeric")),
        # a code before each value
        ("1,40\n2,60", YES_NO, SPLIT),
        ("1,40; 2,60", YES_NO, SPLIT),
        ("1.40\n2.60", YES_NO, SPLIT),
        ("1,4\n2,9", YES_NO, NOTHING),
        ("0,4\n0,6", ZERO_ONE, SPLIT),
        ("1) 40\n2) 60", YES_NO, SPLIT),
        ("1. 40%\n2. 60%", YES_NO, SPLIT),
        ("1) 40\n3) 60", YES_NO, NOTHING),
        # commas and points mean the same throughout
        ('{"1": "40,000", "2": "60,00"}', YES_NO, ("ok", (0.4, 0.6))),
        ("Yes: 12,500\nNo: 87,5", YES_NO, ("recovered", (0.125, 0.875))),
        ('{"1": "33,333", "2": "66"}', YES_NO, ("invalid", "not_numeric")),
        ('{"1": "1.200", "2": "800"}', YES_NO, ("invalid", "not_numeric")),
        ('{"1": 33.125, "2": 66.875}', YES_NO, ("ok", (0.33125, 0.66875))),
        ('{"1": "40.125", "2": "60"}', YES_NO, ("ok", (round(40.125 / 100.125, 9), 0.599250936))),
        ('{"1": "1.200", "2": 80}', YES_NO, ("invalid", "not_numeric")),
        ('{"1": 33.125, "2": 33.125}', YES_NO, ("ok", (0.5, 0.5))),
        ('{"1": 10.125, "2": 30}', YES_NO, ("ok", (0.252336449, 0.747663551))),
        # footnotes
        ("Yes: 40\u00b9\nNo: 60\u00b2", YES_NO, SPLIT),
        ("Yes: 40%\u2460\nNo: 60%\u2081", YES_NO, SPLIT),
        ('{"1": "4\u00b2", "2": 96}', YES_NO, ("ok", (0.04, 0.96))),
        # mass below another key
        ('{"1": 40, "2": 50, "other": {"x": 10}}', YES_NO, ("invalid", "unknown_option")),
        ('{"1": 40, "2": 50, "other": [10]}', YES_NO, ("invalid", "unknown_option")),
        ('{"1": 40, "2": 60, "why": {"a": "as in 2005", "n": 9}}', YES_NO, ("ok", (0.4, 0.6))),
        # thinking
        (f"\u25c1think\u25b7{DRAFT}\u25c1/think\u25b7[40, 60]", YES_NO, SPLIT),
        (f"\u25c1think\u25b7{DRAFT}", YES_NO, ("invalid", "empty")),
        (f"<|channel|>analysis<|message|>{DRAFT}{FINAL}[40, 60]<|return|>", YES_NO, SPLIT),
        (f"<|channel|>analysis<|message|>{DRAFT}", YES_NO, ("invalid", "empty")),
        (f"<seed:think>{DRAFT}</seed:think>[40, 60]", YES_NO, SPLIT),
        (f"<analysis>{DRAFT}</analysis>[40, 60]", YES_NO, SPLIT),
        (f"<reasoning>{DRAFT}</reasoning>[40, 60]", YES_NO, SPLIT),
        (f"<analysis>{DRAFT}", YES_NO, ("invalid", "empty")),
        # several options on a line, pairs, and values one level down
        ("Yes: 40%, No: 60%", YES_NO, SPLIT),
        ("1: 40, 2: 60", YES_NO, SPLIT),
        ("Yes: 40,5 %; No: 59,5 %.", YES_NO, ("recovered", (0.405, 0.595))),
        ("Yes: 1, No: 2", YES_NO, NOTHING),
        ("Yes: 40, Maybe: 60", YES_NO, NOTHING),
        ('[["Yes", 40], ["No", 60]]', YES_NO, SPLIT),
        ('[["Yes", 1], ["No", 2]]', YES_NO, NOTHING),
        ('{"1": {"percentage": 40}, "2": {"percentage": 60}}', YES_NO, ("ok", (0.4, 0.6))),
        (
            '{"1": {"label": "Yes", "share": 40}, "2": {"label": "No", "share": 60}}',
            YES_NO,
            ("ok", (0.4, 0.6)),
        ),
        (
            '{"1": {"label": "No", "share": 40}, "2": {"label": "Yes", "share": 60}}',
            YES_NO,
            UNKNOWN,
        ),
        # invisible characters
        ("Yes: \u200b40\nNo: 60", YES_NO, SPLIT),
    ],
)
def test_hostile_answers(text: str, options: Options, expected: Any) -> None:
    assert outcome(text, options) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I would choose 1. Actually, 2.",
        "I would choose 1. Wait, it must be 2.",
        "I would choose trust. No, distrust.",
    ],
)
def test_corrected_choice_is_not_the_first(text: str) -> None:
    chosen = parse_choice(text, TRUST, "stop")
    assert (chosen.status, chosen.reason) == ("invalid", "duplicate_option")


@pytest.mark.parametrize(
    "options",
    [
        [],
        [{"code": 1}],
        [{"code": "1", "label": "Yes"}],
        [{"code": True, "label": "Yes"}],
        [{"code": 1, "label": 1}],
        [{"code": 1, "label": "Yes"}, {"code": 1, "label": "No"}],
    ],
)
def test_malformed_options_are_the_only_error(options: Any) -> None:
    for parse in (parse_distribution, parse_choice):
        with pytest.raises(ValueError, match="option"):
            parse('{"1": 1}', options)


# --- Laws ---------------------------------------------------------------------------------------

LABELS = st.sampled_from(
    ["Yes", "No", "2", "0", "-1", "I can't say", 'Often, "daily"', "Agree: strongly", "1 to 3"]
) | st.text(max_size=12)
OPTIONS = st.lists(
    st.builds(lambda code, label: {"code": code, "label": label}, st.integers(-5, 12), LABELS),
    min_size=1,
    max_size=6,
    unique_by=lambda option: option["code"],
)
JSON_PIECES = ('"1"', '"2": ', '"answer": ', '{"1": 40, "2": 60}', '{"option": 1, "share": 3}')
TEXT_PIECES = ("1: 40", "Yes: ", "No", "| 1 | 40 |\n", "I cannot ", "choose 2", "```json\n")
VALUE_PIECES = ("40%", "0.6", "null", "NaN", "1e400", "1e308", "-5", "1,200", "9" * 400)
ODD_PIECES = ("<think>", "</think>", "\ud800", "\x00", "\u2212", "\u201c", "\uff15", "\u0300")
FRAGMENTS = st.sampled_from(
    [*"{}[]():,;|\"'%\n\t .-\\~<>=`*", *JSON_PIECES, *TEXT_PIECES, *VALUE_PIECES, *ODD_PIECES]
)
TEXTS = st.text() | st.lists(FRAGMENTS, max_size=25).map("".join)
FINISHES = st.sampled_from([None, "stop", "length", "content_filter", "tool_calls"])


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(parsing)
    assert results.attempted > 0
    assert results.failed == 0


def check_invariants(parsed: ParsedDistribution, options: Options) -> None:
    assert parsed.status in {"ok", "recovered", "refused", "truncated", "invalid"}
    assert (parsed.reason is None) == (parsed.status in {"ok", "recovered"})
    assert (parsed.probs is not None) == (parsed.reason is None)
    assert parsed.raw_sum is None or math.isfinite(parsed.raw_sum)
    assert parsed.raw_sum is not None or not parsed.sum_off
    if parsed.probs is not None:
        assert len(parsed.probs) == len(options)
        assert all(math.isfinite(p) and p >= 0 for p in parsed.probs)
        assert abs(math.fsum(parsed.probs) - 1) <= 1e-9
        assert parsed.raw_sum is not None


@settings(deadline=None)
@given(TEXTS, OPTIONS, FINISHES)
def test_any_text_gives_a_distribution_or_a_reason(
    text: str, options: Options, finish: str | None
) -> None:
    check_invariants(parse_distribution(text, options, finish), options)
    chosen = parse_choice(text, options, finish)
    assert (chosen.choice is None) == (chosen.reason is not None)
    assert chosen.choice is None or chosen.choice in [option["code"] for option in options]


@settings(deadline=None)
@given(st.data())
def test_fragments_naming_the_options_never_raise(data: st.DataObject) -> None:
    options = data.draw(OPTIONS)
    names = st.sampled_from([str(value) for option in options for value in option.values()])
    pieces = data.draw(st.lists(FRAGMENTS | names, max_size=30))
    check_invariants(parse_distribution("".join(pieces), options, data.draw(FINISHES)), options)


def render(style: str, names: list[str], numbers: list[int]) -> str:
    pairs = dict(zip(names, numbers, strict=True))
    if style == "json":
        return json.dumps(pairs)
    if style == "dict":
        return repr({name: f"{number}%" for name, number in pairs.items()})
    if style == "lines":
        return "\n".join(f"- {name}: {number}%" for name, number in pairs.items())
    rows = "\n".join(f"| {name} | {number} |" for name, number in pairs.items())
    return f"| Option | Percent |\n|---|---|\n{rows}"


@settings(deadline=None)
@given(
    st.sampled_from(["json", "dict", "lines", "table"]),
    st.sampled_from(["code", "label"]),
    st.sampled_from([TRUST, WORK, TEN, FAITH, scale("No", "Yes", codes=[0, 1])]),
    st.data(),
)
def test_written_percentages_read_back(
    style: str, named_by: str, options: Options, data: st.DataObject
) -> None:
    size = len(options)
    numbers = data.draw(st.lists(st.integers(0, 100), min_size=size, max_size=size).filter(any))
    codes = [option["code"] for option in options]
    assume(numbers != codes or sum(numbers) == 1)  # else it is the scale
    order = data.draw(st.permutations(range(size)))
    names = [str(options[k][named_by]) for k in order]
    text = render(style, names, [numbers[k] for k in order])
    parsed = parse_distribution(text, options, "stop")
    assert parsed.status == ("ok" if style == "json" else "recovered")
    assert parsed.raw_sum == sum(numbers)
    assert parsed.probs == pytest.approx([number / sum(numbers) for number in numbers])


@pytest.mark.parametrize(
    ("piece", "size"),
    [(piece, 1_000_000) for piece in ("{", "[", "\n", " ", "\t", "(", '"', "9", "a", "\\")]
    + [("\u0300\u0316", 200_000), ("\ufdfa", 50_000), ('{"', 200_000), ("{'a':\"", 200_000)]
    + [('{"a":', 200_000), ("[1,", 200_000), ("1: 5\n", 200_000), ("|1|2|\n", 200_000)]
    + [('{"1": 5, "2": 9} ', 100_000), ('{"1": 5, "2": 9, "x": ', 200_000)]
    + [("<|channel|>", 200_000), ("choose 1. actually, ", 200_000), ("1: 4, 2: 6\n", 200_000)]
    + [("I cannot ", 200_000), ("choose 1 or ", 200_000), ("a" + " " * 1900 + "b\n", 200_000)],
)
def test_time_is_linear(piece: str, size: int) -> None:
    text = piece * (size // len(piece))
    for parse in (parse_distribution, parse_choice):
        start = time.process_time()
        parse(text, TRUST, "stop")
        parse('{"1": ' + text, TRUST, "length")
        assert time.process_time() - start < 4  # two texts


def work(function: Any, *arguments: Any) -> int:
    """Return how many calls, of Python's functions and of the interpreter's own, a call makes."""
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before)
    return calls


HOSTILE = [
    "{}", "[]", "[", "{{", "}{", '{"1":', '{"1":4}', '{"1":{"1":4}},', '{"a":"b"},', "[1,2],",
    "[[1,2]]", "{1,2}", '{"answer": 3}', "9", '"', '"\'', "\\", '\\"', '"\n', "{'a':\"", "é",
    "aé", "\ufdfa", "\ufb01 ", '{"\u0300', "\ud83d", "<think>", "</think> x", "1: 5\n",
    "|1|2|\n", "- Yes: 3\n", "```\n", "not 1, 2\n", "choose 1 or ", "I cannot ",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_is_bounded_whatever_a_model_writes(piece: str) -> None:
    for parse, finish in ((parse_distribution, "stop"), (parse_choice, "length")):
        text = piece * (60_000 // len(piece))
        once, longer = work(parse, text, TRUST, finish), work(parse, text * 3, TRUST, finish)
        # Tags of thinking alone are looked for in the whole text, by a few calls each.
        tags = 8 * 3 * 60_000 // len(piece) if "think" in piece else 0
        assert max(once, longer) < 1_250_000 + tags
        assert longer < once + 1_000 + tags


FILLER = "It depends on many things. " * 4_000


@pytest.mark.parametrize("newline", ["", "\n"])
def test_a_long_answer_is_read_at_both_ends(newline: str) -> None:
    filler = f"{newline}{FILLER}{newline}"
    good, split = '{"1": 40, "2": 60}', ("ok", (0.4, 0.6))
    assert outcome(good + filler, TRUST) == split
    assert outcome(filler + good, TRUST) == split
    assert outcome('{"1": 30, "2": 70}' + filler + good, TRUST) == split
    assert outcome(filler + good + filler, TRUST) == NOTHING
    assert outcome(f"{filler} I would choose 2.", TRUST) == NOTHING
    assert parse_choice(f"{filler} I would choose 2.", TRUST, "stop").choice == 2
    assert parse_choice('{"answer": 2}' + filler, TRUST, "stop").choice == 2
    assert outcome(f"I'm sorry, I cannot.{filler}", TRUST)[0] == "refused"
    assert outcome("\n" * 200_000, TRUST) == ("invalid", "empty")
    assert outcome("\n" * 200_000 + good + " " * 9_000, TRUST) == split


@pytest.mark.parametrize("form", ['{"1": 40, "2": 60}', "{40, 60}", "[40, 60]"])
@pytest.mark.parametrize("filler", [FILLER, "{" * 100_000, '"' * 100_000])
def test_nothing_is_put_together_of_what_was_cut(form: str, filler: str) -> None:
    for place in range(1, len(form)):
        # The first end stops within the answer, and the last one begins within it.
        first, last = form[:place].rjust(20_000), form[place:].ljust(20_000)
        for text in (first + filler + last, first + form[place:] + filler):
            assert parse_distribution(text, TRUST, "stop").probs is None, place
        assert parse_distribution(filler + form[:place] + last, TRUST, "stop").probs is None, place


@pytest.mark.parametrize("place", range(1, 12))
def test_a_line_that_was_cut_is_no_line(place: int) -> None:
    form = "1: 40\n2: 60"
    first, last = form[:place].rjust(20_000), form[place:].ljust(20_000)
    whole = form[place - 1 : place + 1].count("\n") == 1  # then both lines are there
    for text in (first + FILLER + last, "x\n" + first[2:] + FILLER + last[:-2] + "\nx"):
        parsed = parse_distribution(text, TRUST, "stop")
        assert parsed.probs in ((None, (0.4, 0.6)) if whole else (None,))


# --- The short way for what was asked for -------------------------------------------------------

_NUMBER = st.one_of(
    st.integers(0, 120).map(str),
    st.floats(0, 100).map(lambda x: f"{x:.3f}"),
    st.floats(0, 1).map(lambda x: f"{x:.17f}"),
    st.floats(0, 1).map(repr),
    st.sampled_from(["0", "0.0", "00", "05", "100", "1e2", ".5", "5.", "-0", "1,5", '"5"', "٣"]),
)
_BLANK = st.sampled_from(["", " ", "\n  ", "\t", "\r\n", "\u00a0", "\x0c"])
_AROUND = st.sampled_from(["", "\n", "```json\n", "```", "x", "<think>", "{", "}", ","])


@st.composite
def _nearly_asked_for(draw: st.DrawFn) -> tuple[str, Options]:
    options = draw(
        st.sampled_from(
            [TRUST, LETTERS, WORK, TEN, FAITH, QUOTED, scale("3", "2", "1"), scale("1950", "x")]
        )
    )
    size = len(options)
    if draw(st.booleans()):
        cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=size - 1, max_size=size - 1)))
        ends = [0, *cuts, 100]
        numbers = [str(b - a) for a, b in pairwise(ends)]
    else:
        numbers = draw(st.lists(_NUMBER, min_size=size, max_size=size))
    names = [str(option["code"]) for option in options]
    if draw(st.integers(0, 5)) == 0:
        names = draw(st.permutations(names))
    entries = [
        f'{draw(_BLANK)}"{name}"{draw(_BLANK)}:{draw(_BLANK)}{number}{draw(_BLANK)}'
        for name, number in zip(names, numbers, strict=True)
    ]
    return f"{draw(_AROUND)}{{{','.join(entries)}}}{draw(_AROUND)}", options


@given(_nearly_asked_for(), st.sampled_from(["stop", "length", None]))
@settings(max_examples=1500)
def test_the_short_way_gives_what_the_long_way_gives(
    answer: tuple[str, Options], finish: str | None
) -> None:
    text, options = answer
    short = _read_plainly(text, option_table(options))
    if short is None:
        return
    # A limit that no sum breaks takes the long way.
    assert parse_distribution(text, options, finish, max_sum_error=1e300) == short


def test_the_short_way_is_taken() -> None:
    for text in ('{"1": 20, "2": 80}', '{"1":0.2,"2":0.8}', '\n{ "1" : 99.5 , "2" : 0.5 }\n'):
        assert _read_plainly(text, option_table(TRUST)) is not None
    for text in ('{"2": 80, "1": 20}', '{"1": 20, "2": 60}', '{"1": "20", "2": 80}', None, ""):
        assert _read_plainly(text, option_table(TRUST)) is None
