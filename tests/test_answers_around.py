"""Answers around one number or many: corrections, echoes of the scale, others, bounds, scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chronocore.parsing import parse_choice, parse_distribution, parse_score

TABLE = json.loads((Path(__file__).parent / "cases" / "answers-3.json").read_text("utf-8"))
SCALES = {
    name: [{"code": code, "label": label} for code, label in scale]
    for name, scale in TABLE["scales"].items()
}


def is_right(parsed: Any, value: Any, right: list[Any]) -> bool:
    """Return whether a reading is one of those that are right."""
    if value is None:
        return parsed.status in right or parsed.reason in right
    return any(value == pytest.approx(one, abs=1e-9) for one in right if not isinstance(one, str))


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["text"][:40])
def test_what_stands_around_an_answer_is_read(case: dict[str, Any]) -> None:
    options, finish = SCALES[case["scale"]], case.get("finish_reason", "stop")
    if case["read"] == "distribution":
        shares = parse_distribution(case["text"], options, finish, year=case.get("year"))
        assert is_right(shares, shares.probs, case["right"]), shares
    if case["read"] in ("choice", "both"):
        chosen = parse_choice(case["text"], options, finish)
        assert is_right(chosen, chosen.choice, case["right"]), chosen
    if case["read"] in ("score", "both"):
        scored = parse_score(case["text"], options, finish)
        assert is_right(scored, scored.score, case["right"]), scored
