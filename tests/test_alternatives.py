"""Distributions among others: alternatives under names, orders, labels beside values, wrappings."""

# ruff: noqa: E501
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chronocore.elicitation import read_answer
from chronocore.engines.base import Answer, Option, Request
from chronocore.parsing import parse_choice, parse_distribution, parse_score

FROZEN = json.loads((Path(__file__).parent / "cases" / "answers-2.json").read_text("utf-8"))


def scale(*labels: str) -> list[dict[str, object]]:
    return [{"code": code, "label": label} for code, label in enumerate(labels, start=1)]


YES_NO = scale("Yes", "No")
WORK = scale("Agree strongly", "Agree", "Disagree")
FOUR = scale("a", "b", "c", "d")


def read(case: dict[str, Any]) -> tuple[str, Any]:
    text, options, finish = case["text"], case["options"], case["finish_reason"]
    if case["kind"] == "distribution":
        parsed = parse_distribution(text, options, finish)
        return parsed.status, parsed.probs
    if case["kind"] == "choice":
        chosen = parse_choice(text, options, finish)
        return chosen.status, chosen.choice
    scored = parse_score(text, options, finish)
    return scored.status, scored.score


@pytest.mark.parametrize("case", FROZEN["cases"], ids=lambda case: case["id"])
def test_frozen_answers(case: dict[str, Any]) -> None:
    status, value = read(case)
    for right in case["right"]:
        if "value" in right and value is not None:
            assert status in ("ok", "recovered")
            assert value == pytest.approx(right["value"], abs=1e-9)
            return
        if "status" in right and value is None and status in right["status"]:
            return
    pytest.fail(f"{status} {value}")


# What is written, the options, the year asked for, and the shares or the reason.
ALTERNATIVES: list[tuple[str, list[dict[str, object]], int | None, Any]] = [
    ('{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}', YES_NO, 2004, (0.4, 0.6)),
    ('{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}', YES_NO, 2010, "several_answers"),
    ('{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 80}}', YES_NO, None, "several_answers"),
    ('{"y2004": {"1": 40, "2": 60}, "y2019": {"1": 30, "2": 70}}', YES_NO, 2004, (0.4, 0.6)),
    (
        '[{"year": 2004, "1": 40, "2": 60}, {"year": 2019, "1": 30, "2": 70}]',
        YES_NO,
        2004,
        (0.4, 0.6),
    ),
    (
        '[{"year": 2004, "1": 40, "2": 60}, {"year": 2019, "1": 30, "2": 70}]',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '[{"year": 2004, "distribution": {"1": 40, "2": 60}}, {"year": 2019, "distribution": {"1": 30, "2": 70}}]',
        YES_NO,
        2004,
        (0.4, 0.6),
    ),
    (
        '[{"year": 2004, "distribution": {"1": 40, "2": 60}}, {"year": 2019, "distribution": {"1": 30, "2": 70}}]',
        YES_NO,
        None,
        "several_answers",
    ),
    ('2004: {"1": 40, "2": 60}\n2019: {"1": 30, "2": 70}', YES_NO, 2004, (0.4, 0.6)),
    ('2004: {"1": 40, "2": 60}\n2019: {"1": 30, "2": 70}', YES_NO, None, "several_answers"),
    (
        'In 2004:\n```json\n{"1": 40, "2": 60}\n```\nIn 2019:\n```json\n{"1": 30, "2": 70}\n```',
        YES_NO,
        None,
        "several_answers",
    ),
    ("**2004**\nYes: 40%\nNo: 60%\n\n**2019**\nYes: 30%\nNo: 70%", YES_NO, None, "several_answers"),
    ("**2004**\nYes: 40%\nNo: 60%\n\n**2019**\nYes: 30%\nNo: 70%", YES_NO, 2004, (0.4, 0.6)),
    ("Year: 2004\nYes: 40%\nNo: 60%\n\nYear: 2019\nYes: 30%\nNo: 70%", YES_NO, 2004, (0.4, 0.6)),
    (
        "Year: 2004\nYes: 40%\nNo: 60%\n\nYear: 2019\nYes: 30%\nNo: 70%",
        YES_NO,
        None,
        "several_answers",
    ),
    ('men: {"1": 40, "2": 60}, women: {"1": 30, "2": 70}', YES_NO, None, "several_answers"),
    ("Männer:\nYes: 40%\nNo: 60%\n\nFrauen:\nYes: 30%\nNo: 70%", YES_NO, None, "several_answers"),
    ("Hombres:\n1: 40\n2: 60\nMujeres:\n1: 30\n2: 70", YES_NO, None, "several_answers"),
    (
        '{"men": {"1": 40, "2": 60}, "women": {"1": 30, "2": 70}, "final": {"1": 35, "2": 65}}',
        YES_NO,
        None,
        (0.35, 0.65),
    ),
    ('{"answer": {"1": 40, "2": 60}, "previous": {"1": 30, "2": 70}}', YES_NO, None, (0.4, 0.6)),
    (
        '{"prior": {"1": 40, "2": 60}, "posterior": {"1": 30, "2": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"scenario_a": {"1": 40, "2": 60}, "scenario_b": {"1": 30, "2": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        'Scenario A: {"1": 40, "2": 60}\nScenario B: {"1": 30, "2": 70}',
        YES_NO,
        None,
        "several_answers",
    ),
    ("Scenario A\n1: 40\n2: 60\n\nScenario B\n1: 30\n2: 70", YES_NO, None, "several_answers"),
    (
        'Lower bound: {"1": 40, "2": 60}\nUpper bound: {"1": 50, "2": 50}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('Draft: {"1": 50, "2": 50}\nFinal: {"1": 40, "2": 60}', YES_NO, None, (0.4, 0.6)),
    ('Final: {"1": 40, "2": 60}\nDraft: {"1": 50, "2": 50}', YES_NO, None, (0.4, 0.6)),
    (
        '{"lower": {"1": 35, "2": 65}, "estimate": {"1": 40, "2": 60}, "upper": {"1": 45, "2": 55}}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    ('{"lower": {"1": 35, "2": 65}, "upper": {"1": 45, "2": 55}}', YES_NO, None, "several_answers"),
    (
        '{"1": {"lower": 35, "upper": 45}, "2": {"lower": 55, "upper": 65}}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('{"1": {"2004": 40, "2019": 30}, "2": {"2004": 60, "2019": 70}}', YES_NO, 2004, (0.4, 0.6)),
    (
        '{"1": {"2004": 40, "2019": 30}, "2": {"2004": 60, "2019": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"1": {"men": 40, "women": 30}, "2": {"men": 60, "women": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        "| Option | 2004 | 2019 |\n|---|---|---|\n| Yes | 40 | 30 |\n| No | 60 | 70 |",
        YES_NO,
        None,
        "several_answers",
    ),
    (
        "| Option | 2004 | 2019 |\n|---|---|---|\n| Yes | 40 | 30 |\n| No | 60 | 70 |",
        YES_NO,
        2004,
        (0.4, 0.6),
    ),
    (
        "| Year | Yes | No |\n|---|---|---|\n| 2004 | 40 | 60 |\n| 2019 | 30 | 70 |",
        YES_NO,
        2004,
        (0.4, 0.6),
    ),
    (
        "| Year | Yes | No |\n|---|---|---|\n| 2004 | 40 | 60 |\n| 2019 | 30 | 70 |",
        YES_NO,
        None,
        "several_answers",
    ),
    (
        "| Option | Men | Women |\n|---|---|---|\n| Yes | 40 | 30 |\n| No | 60 | 70 |",
        YES_NO,
        None,
        "several_answers",
    ),
    ("2004: [40, 60]\n2019: [30, 70]", YES_NO, 2004, (0.4, 0.6)),
    ("2004: [40, 60]\n2019: [30, 70]", YES_NO, None, "several_answers"),
    (
        '<draft>{"1": 50, "2": 50}</draft><final>{"1": 40, "2": 60}</final>',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        '<men>{"1": 50, "2": 50}</men><women>{"1": 40, "2": 60}</women>',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        "<men>\nYes: 50\nNo: 50\n</men>\n<women>\nYes: 40\nNo: 60\n</women>",
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"2004": {"men": {"1": 40, "2": 60}, "women": {"1": 30, "2": 70}}}',
        YES_NO,
        2004,
        "several_answers",
    ),
    (
        '{"country": "X", "year": 2004, "distribution": {"1": 40, "2": 60}}',
        YES_NO,
        2004,
        (0.4, 0.6),
    ),
    (
        '{"1": 40, "2": 60, "by_gender": {"men": {"1": 45, "2": 55}, "women": {"1": 35, "2": 65}}}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        '{"1": 50, "2": 50}\nWait, that is wrong. It should be:\n{"1": 40, "2": 60}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        'First estimate: {"1": 50, "2": 50}\nRevised estimate: {"1": 40, "2": 60}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        'Here is the distribution:\n{"1": 50, "2": 60}\nNote that this sums to 110. Here is the corrected version:\n{"1": 40, "2": 60}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        'Let me think. {"1": 50, "2": 50} seems too even, so {"1": 40, "2": 60}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        '{"1": 40, "2": 60}\n\nFor comparison, in 2010:\n{"1": 50, "2": 50}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"distribution": {"1": 40, "2": 60}, "standard_error": {"1": 3, "2": 3}}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        '{"percentages": {"1": 40, "2": 60}, "counts": {"1": 400, "2": 600}}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    ('Antwort:\n{"1": 40, "2": 60}', YES_NO, None, (0.4, 0.6)),
    ("The distribution for Yes and No is [40, 60].", YES_NO, None, (0.4, 0.6)),
    ("[60, 40] (No, Yes)", YES_NO, None, (0.4, 0.6)),
    ("Options: [No, Yes]\nPercentages: [60, 40]", YES_NO, None, (0.4, 0.6)),
    ("In the order No, Yes: [60, 40]", YES_NO, None, (0.4, 0.6)),
    ("In reverse order: [60, 40]", YES_NO, None, "missing_option"),
    ("No first, then Yes: [60, 40]", YES_NO, None, (0.4, 0.6)),
    ("For options 2, 1: [60, 40]", YES_NO, None, (0.4, 0.6)),
    ("From Disagree to Agree strongly: [20, 30, 50]", WORK, None, (0.5, 0.3, 0.2)),
    ("From Agree strongly to Disagree: [50, 30, 20]", WORK, None, (0.5, 0.3, 0.2)),
    ("(Disagree, Agree, Agree strongly) = [20, 30, 50]", WORK, None, (0.5, 0.3, 0.2)),
    ("sorted from largest to smallest: [50, 30, 20]", WORK, None, "missing_option"),
    ("Sure: [40, 60].", YES_NO, None, (0.4, 0.6)),
    ("Most say no: [40, 60].", YES_NO, None, (0.4, 0.6)),
    ("40, 60 for Yes and No respectively", YES_NO, None, "missing_option"),
    ('{"1": "No: 60%", "2": "Yes: 40%"}', YES_NO, None, "not_numeric"),
    ('{"1": "40% (Yes)", "2": "60% (No)"}', YES_NO, None, (0.4, 0.6)),
    ("Yes: 40% (No)\nNo: 60% (Yes)", YES_NO, None, "unknown_option"),
    ("1: 40% - Yes\n2: 60% - No", YES_NO, None, (0.4, 0.6)),
    ("1: 40% No\n2: 60% Yes", YES_NO, None, "unknown_option"),
    (
        '[{"option": 1, "label": "No", "percentage": 40}, {"option": 2, "label": "Yes", "percentage": 60}]',
        YES_NO,
        None,
        "unknown_option",
    ),
    ("Yes: 40% (0.40)\nNo: 60% (0.60)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 0.4 / 40%\nNo: 0.6 / 60%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40% (n = 400)\nNo: 60% (n = 600)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40% (±3%)\nNo: 60% (±3%)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 2/5 (40%)\nNo: 3/5 (60%)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 0.4 (60%)\nNo: 0.6 (40%)", YES_NO, None, "missing_option"),
    ("Yes: 40%\nNo: 60%\nTotal: 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nTotal = 40 + 60 = 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\n(40 + 60 = 100)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nSumme: 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nN: 1,200", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nMargin of error: 3%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nYes + No = 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 55%\nDon't know: 5%", YES_NO, None, "unknown_option"),
    ('{"1": 40, "2": 60, "sum_check": 100}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60, "sample_size": 1200}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, # most\n "2": 60 # rest\n}', YES_NO, None, (0.4, 0.6)),
    ('{\n  // shares\n  "1": 40,\n  "2": 60\n}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, /* a, b */ "2": 60}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60, "source": "http://x.y/z"}', YES_NO, None, (0.4, 0.6)),
    ('"{\\"1\\": 40, \\"2\\": 60}"', YES_NO, None, (0.4, 0.6)),
    ('{\\"1\\": 40, \\"2\\": 60}', YES_NO, None, (0.4, 0.6)),
    ("{\"answer\": \"{'1': 40, '2': 60}\"}", YES_NO, None, (0.4, 0.6)),
    ('{"response": {"text": "{\\"1\\": 40, \\"2\\": 60}"}}', YES_NO, None, (0.4, 0.6)),
    (
        '{"2004": "{\\"1\\": 40, \\"2\\": 60}", "2019": "{\\"1\\": 30, \\"2\\": 70}"}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('<answer>{"1": 40, "2": 60}</answer>', YES_NO, None, (0.4, 0.6)),
    ("<answer>Yes: 40%, No: 60%</answer>", YES_NO, None, (0.4, 0.6)),
    ("<answer>\nYes: 40%\nNo: 60%\n</answer>", YES_NO, None, (0.4, 0.6)),
    ('\\boxed{\\{"1": 40, "2": 60\\}}', YES_NO, None, (0.4, 0.6)),
    ("\\text{Yes}: 40\\%\n\\text{No}: 60\\%", YES_NO, None, (0.4, 0.6)),
    ("$\\text{Yes}: 40\\%$\n$\\text{No}: 60\\%$", YES_NO, None, (0.4, 0.6)),
    ("\\boxed{[40, 60]}", YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 5', YES_NO, None, "sum_off"),
    ('{"1": 0.4, "2": 0.', YES_NO, None, "sum_off"),
    ('{"1": 40, "2": 60', YES_NO, None, (0.4, 0.6)),
    ("40% Yes\n60% No", YES_NO, None, (0.4, 0.6)),
    ("60% No, 40% Yes", YES_NO, None, (0.4, 0.6)),
    ("25,5", YES_NO, None, "length_mismatch"),
    ("12,500", YES_NO, None, "length_mismatch"),
    ("2,004", YES_NO, None, "length_mismatch"),
    ("3,14", YES_NO, None, "length_mismatch"),
    ("0,4", YES_NO, None, "length_mismatch"),
    ("25,5%", YES_NO, None, "length_mismatch"),
    ("**25,5**", YES_NO, None, "length_mismatch"),
    ("40,60", YES_NO, None, "length_mismatch"),
    ("40, 60", YES_NO, None, (0.4, 0.6)),
    ("25,5, 74,5", YES_NO, None, (0.255, 0.745)),
    ("25,5 74,5", YES_NO, None, (0.255, 0.745)),
    ("20,30,50", WORK, None, (0.2, 0.3, 0.5)),
    ("1,200 800", YES_NO, None, (0.6, 0.4)),
    ("25,5 24,5", FOUR, None, "length_mismatch"),
    ("100,200,300", WORK, None, "length_mismatch"),
    ("~25,5", YES_NO, None, "length_mismatch"),
    ("25,5.", YES_NO, None, "length_mismatch"),
    ("```\n25,5\n```", YES_NO, None, "length_mismatch"),
    ("(25,5)", YES_NO, None, "length_mismatch"),
    ("12,500 %", YES_NO, None, "length_mismatch"),
    (
        'Baseline: {"1": 40, "2": 60}\nOptimistic: {"1": 50, "2": 50}\nPessimistic: {"1": 30, "2": 70}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('{"low": {"1": 40, "2": 60}, "high": {"1": 30, "2": 70}}', YES_NO, None, "several_answers"),
    (
        '{"urban": {"Yes": 40, "No": 60}, "rural": {"Yes": 30, "No": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '[{"group": "men", "Yes": 40, "No": 60}, {"group": "women", "Yes": 30, "No": 70}]',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"results": [{"name": "A", "dist": {"1": 40, "2": 60}}, {"name": "B", "dist": {"1": 30, "2": 70}}]}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"2004": [{"option": 1, "value": 40}, {"option": 2, "value": 60}], "2019": [{"option": 1, "value": 30}, {"option": 2, "value": 70}]}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '[{"option": 1, "2004": 40, "2019": 30}, {"option": 2, "2004": 60, "2019": 70}]',
        YES_NO,
        None,
        "unknown_option",
    ),
    ('{"2004": [40, 60], "2019": [30, 70]}', YES_NO, None, "missing_option"),
    (
        'Young people (18-29): {"1": 40, "2": 60}\nOlder people (60+): {"1": 30, "2": 70}',
        YES_NO,
        None,
        "several_answers",
    ),
    ("- Men: Yes 40%, No 60%\n- Women: Yes 30%, No 70%", YES_NO, None, "missing_option"),
    ("Men: Yes: 40%, No: 60%\nWomen: Yes: 30%, No: 70%", YES_NO, None, "unknown_option"),
    ("Men\nYes: 40%\nNo: 60%\nWomen\nYes: 30%\nNo: 70%", YES_NO, None, "several_answers"),
    ("男性:\n1: 30%\n2: 70%\n\n女性:\n1: 50%\n2: 50%", YES_NO, None, "several_answers"),
    ("### 2004\n1: 30\n2: 70\n### 2019\n1: 50\n2: 50", YES_NO, None, "several_answers"),
    (
        'Version 1: {"1": 40, "2": 60}\nVersion 2: {"1": 30, "2": 70}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('Option A: {"1": 40, "2": 60}\nOption B: {"1": 30, "2": 70}', YES_NO, None, "several_answers"),
    ('Draft 1: {"1": 40, "2": 60}\nDraft 2: {"1": 30, "2": 70}', YES_NO, None, "several_answers"),
    (
        '{"my_estimate": {"1": 40, "2": 60}, "your_estimate": {"1": 30, "2": 70}}',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    ('{"initial": {"1": 40, "2": 60}, "final": {"1": 30, "2": 70}}', YES_NO, None, (0.3, 0.7)),
    (
        '{"before": {"1": 40, "2": 60}, "after": {"1": 30, "2": 70}}',
        YES_NO,
        None,
        "several_answers",
    ),
    ('{"1": 40, "2": 60}\n{"1": 30, "2": 70}', YES_NO, None, (0.3, 0.7)),
    (
        '{"1": 40, "2": 60}\n\nActually, a better estimate:\n\n{"1": 30, "2": 70}',
        YES_NO,
        None,
        (0.3, 0.7),
    ),
    (
        '{"1": 40, "2": 60}\n\nOn reflection, I would revise this to:\n\n{"1": 30, "2": 70}',
        YES_NO,
        None,
        (0.3, 0.7),
    ),
    (
        'My first guess is {"1": 40, "2": 60}, but my final answer is {"1": 30, "2": 70}.',
        YES_NO,
        None,
        (0.3, 0.7),
    ),
    ('{"1": 40, "2": 60}\nUpdated: {"1": 30, "2": 70}', YES_NO, None, (0.3, 0.7)),
    (
        '```json\n{"1": 40, "2": 60}\n```\nor as fractions\n```json\n{"1": 0.4, "2": 0.6}\n```',
        YES_NO,
        None,
        (0.4, 0.6),
    ),
    (
        'In 2004, it was {"1": 40, "2": 60}, while in 2019 it was {"1": 30, "2": 70}.',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        'Weighted: {"1": 40, "2": 60}\nUnweighted: {"1": 30, "2": 70}',
        YES_NO,
        None,
        "several_answers",
    ),
    (
        '{"estimate": {"1": 55, "2": 45}, "ci_lower": {"1": 50, "2": 40}, "ci_upper": {"1": 60, "2": 50}}',
        YES_NO,
        None,
        (0.55, 0.45),
    ),
    ("Yes: 40% (35-45%)\nNo: 60% (55-65%)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40% [35, 45]\nNo: 60% [55, 65]", YES_NO, None, "missing_option"),
    ("Yes: 40 ± 3\nNo: 60 ± 3", YES_NO, None, "range"),
    ('{"1": "40% (Yes)", "2": "60%"}', YES_NO, None, (0.4, 0.6)),
    ('{"1": "40% yes", "2": "60% no"}', YES_NO, None, "not_numeric"),
    ('{"1": "40% no", "2": "60% yes"}', YES_NO, None, "not_numeric"),
    (
        '{"1": {"label": "No", "value": 40}, "2": {"label": "Yes", "value": 60}}',
        YES_NO,
        None,
        "unknown_option",
    ),
    ("1 (Yes): 40%\n2 (No): 60%", YES_NO, None, (0.4, 0.6)),
    ("1 (No): 40%\n2 (Yes): 60%", YES_NO, None, "unknown_option"),
    ("Yes (2): 40%\nNo (1): 60%", YES_NO, None, "unknown_option"),
    (
        "| Code | Label | % |\n|--|--|--|\n| 1 | No | 30 |\n| 2 | Yes | 70 |",
        YES_NO,
        None,
        "unknown_option",
    ),
    ("Of the options Disagree, Agree, Agree strongly: [20, 30, 50]", WORK, None, (0.5, 0.3, 0.2)),
    ("[20, 30, 50] in the order: Disagree, Agree, Agree strongly", WORK, None, (0.5, 0.3, 0.2)),
    ("Listed as Disagree / Agree / Agree strongly: 20, 30, 50", WORK, None, "missing_option"),
    ("No/Yes: 60/40", YES_NO, None, "missing_option"),
    ("Yes/No: 40/60", YES_NO, None, "missing_option"),
    ("Yes (40%) and No (60%)", YES_NO, None, "missing_option"),
    ("[60, 40] // No, Yes", YES_NO, None, (0.4, 0.6)),
    ('{"order": ["No", "Yes"], "values": [60, 40]}', YES_NO, None, "missing_option"),
    ("{60, 40} (No first)", YES_NO, None, "missing_option"),
    ("[60, 40] - no comes first", YES_NO, None, "missing_option"),
    ("The second option first: [60, 40]", YES_NO, None, "missing_option"),
    ('{"1": 40, "2": 60}]}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60,', YES_NO, None, "missing_option"),
    ('{"1": 0.4, "2": 0.6', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60.', YES_NO, None, (0.4, 0.6)),
    ('{"a": {"1": 40, "2": 60}', YES_NO, None, (0.4, 0.6)),
    ("[40, 6", YES_NO, None, "missing_option"),
    ("[40, 60", YES_NO, None, "missing_option"),
    ("1,5", YES_NO, None, "length_mismatch"),
    ("1.234,5", YES_NO, None, "length_mismatch"),
    ("12,5 %", YES_NO, None, "length_mismatch"),
    ("0,25\n0,75", YES_NO, None, (0.25, 0.75)),
    ("0,25 0,75", YES_NO, None, (0.25, 0.75)),
    ("33,3, 66,7", YES_NO, None, (0.333, 0.667)),
    ("1,000", YES_NO, None, "length_mismatch"),
    ("1,000,000", YES_NO, None, "length_mismatch"),
    ("-2,5", YES_NO, None, "length_mismatch"),
    ("25,5 percent", YES_NO, None, "length_mismatch"),
    ("Answer: 25,5", YES_NO, None, "missing_option"),
    ("[25,5]", YES_NO, None, (0.833333, 0.166667)),
    ("{25,5}", YES_NO, None, (0.833333, 0.166667)),
    ("40,60", YES_NO, None, "length_mismatch"),
    ("Yes: 40%\nNo: 60%\nNote: 2017 data", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nSource: WVS 7", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nTotal respondents: 1000", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\n---\nTotal: 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nThese sum to 100%: 40+60", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nSum of percentages: 100", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\n= 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nCheck: 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nTotal (all options): 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nTotal percentage = 100%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nConfidence level: 80%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nBase: 1,000 adults", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nOther: 0%", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 50%\nRefused: 10%", YES_NO, None, "unknown_option"),
    ("Yes: 40%\nNo: 60%\nN = 1200", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\n(n=1200)", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\n*Sample size: 1200*", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nSample: n = 1200", YES_NO, None, (0.4, 0.6)),
    ("Yes: 40%\nNo: 60%\nTotal: 40% + 60% = 100%", YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60, "check": "40+60=100"}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60, "Grand Total": 100}', YES_NO, None, (0.4, 0.6)),
    ('{"1": 40, "2": 60} (2004)\n{"1": 30, "2": 70} (2019)', YES_NO, 2004, (0.4, 0.6)),
    ('{"1": 40, "2": 60} (2004)\n{"1": 30, "2": 70} (2019)', YES_NO, 2019, (0.3, 0.7)),
    ('{"1": 40, "2": 60} (2004)\n{"1": 30, "2": 70} (2019)', YES_NO, None, "several_answers"),
    ('{"1": 40, "2": 60} in 2004\n{"1": 30, "2": 70} in 2019', YES_NO, 2004, (0.4, 0.6)),
    ("[40, 60] for men\n[30, 70] for women", YES_NO, None, "several_answers"),
    ('{"1": 50, "2": 60} - that is 110, so:\n{"1": 45, "2": 55}', YES_NO, None, (0.45, 0.55)),
]


@pytest.mark.parametrize(("text", "options", "year", "expected"), ALTERNATIVES)
def test_alternatives_orders_and_wrappings(
    text: str, options: list[dict[str, object]], year: int | None, expected: Any
) -> None:
    parsed = parse_distribution(text, options, "stop", year=year)
    if isinstance(expected, str):
        assert (parsed.status, parsed.reason, parsed.probs) == ("invalid", expected, None)
    else:
        assert parsed.probs == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("year", [2004, "2004"])
def test_the_year_asked_for_chooses_and_no_other_does(year: int | str) -> None:
    text = '{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}'
    assert parse_distribution(text, YES_NO, "stop", year=year).probs == (0.4, 0.6)
    for other in (None, 2010, 204, "20", ""):
        assert parse_distribution(text, YES_NO, "stop", year=other).reason == "several_answers"


@pytest.mark.parametrize(
    ("kind", "probs", "reason"),
    [("dated", [0.4, 0.6], None), ("undated", None, "several_answers")],
)
def test_a_dated_prompt_knows_its_year_and_an_undated_one_has_none(
    kind: str, probs: list[float] | None, reason: str | None
) -> None:
    text = '{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}'
    request = Request(
        prompt_id="q1", repeat=0, kind=kind, system="", user="", survey="s", variable="v",
        country="c", wave=None, year=2004, options=(Option(1, "Yes"), Option(2, "No")),
    )  # fmt: skip
    row = read_answer(Answer(prompt_id="q1", repeat=0, text=text, finish_reason="stop"), request)
    assert (row["probs"], row["reason"]) == (probs, reason)
