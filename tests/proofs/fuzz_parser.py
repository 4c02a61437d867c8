# ruff: noqa: E501, PT018
"""Feed the three readers of answers seeded rubbish and hold what comes back against their laws.

``python tests/proofs/fuzz_parser.py --answers 1000000 --seed 1`` prints what was done and exits with 1
at the first answer that breaks a law, which it shows. Half of the texts are fragments put together, the
others answers that were right once and then cut, doubled, turned or spoilt in places.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from typing import Any

from chronocore.parsing import option_table, parse_choice, parse_distribution, parse_score

SCALES: list[list[str]] = [
    ["Yes", "No"],
    ["Very important", "Rather important", "Not very important", "Not at all important"],
    ["Strongly disagree", "Disagree", "Agree", "Strongly agree"],
    ["Never justifiable", *map(str, range(2, 10)), "Always justifiable"],
    ["A great deal", "Some", "None"],
    ["0", "1", "2 or more"],
    ['Often, "daily"', "Rarely, it doesn't matter", "I can't say"],
    ["非常重要", "不重要"],
]
FRAGMENTS = [
    *"{}[]():,;|\"'%\n\t .-\\~<>=`*/#+?!$&_", '"1"', '"2": ', '"answer": ', '{"1": 40, "2": 60}', "1: 40\n",
    "Yes: ", "No", "| 1 | 40 |\n", "|---|---|\n", "I cannot ", "I would choose ", "My answer is ", "or ", "and ",
    "at least ", "out of 10", "between ", "not ", "```json\n", "40%", "0.6", "null", "NaN", "1e400", "-5", "1,200",
    "25,5", "9" * 40, "<think>", "</think>", "<answer>", "</answer>", "<|assistant|>", "\\boxed{", "\\text{", "}",
    "\ud800", "\x00", "\u2212", "\u201c", "\uff15", "\u0300", "\ufdfa", "½", "²", "\u200b", "\u202e", "2004", "2019:\n",
    "Men:\n", "Women:\n", "Final: ", "// x\n", "/*", "*/", "As an AI language model, ", "However, ", "(40%)", "Total: 100",
    '{"2004": {"1": 40, "2": 60}, "2019": ', '\\"', "Some would say ", "because ", "Actually, ", "1) ", "2. ", "I'm sorry",
]  # fmt: skip
SEEDS = [
    '{"1": 40, "2": 60}', "{'1': '40%', '2': '60%'}", "Yes: 40%\nNo: 60%", "[40, 60]", "| 1 | 40 |\n| 2 | 60 |",
    '{"answer": 2}', "I would choose 2) No.", "My answer is 3) Agree.", "I'd rate it 7 out of 10.", "4\n\nBecause.",
    '[{"option": 1, "percentage": 40}, {"option": 2, "percentage": 60}]', "<think>x</think>\n\\boxed{2}",
    '{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}', "In the order No, Yes: [60, 40]",
    "As an AI, I have no opinion, but if I had to choose: 1) Yes", "1) Yes: cheap.\n2) No: risky.",
]  # fmt: skip
FINISHES = [
    None,
    "stop",
    "stop",
    "stop",
    "length",
    "MAX_TOKENS",
    "content_filter",
    "tool_calls",
    "other",
    "error",
]
STATUSES = {"ok", "recovered", "refused", "truncated", "invalid"}
REASONS = {
    "refused": {"content_filter", "refusal"},
    "truncated": {"length"},
    "invalid": {
        "empty", "range", "mixed_units", "not_numeric", "not_finite", "duplicate_option", "unknown_option",
        "length_mismatch", "missing_option", "several_answers", "no_mass", "sum_off",
    },
}  # fmt: skip


def text_of(draw: random.Random, options: list[dict[str, Any]]) -> str:
    """Return a text to be read."""
    if draw.random() < 0.5:
        names = [str(value) for option in options for value in option.values()]
        pieces = [
            draw.choice(names if draw.random() < 0.2 else FRAGMENTS)
            for _ in range(draw.randint(0, 14))
        ]
        return "".join(pieces)
    text = draw.choice(SEEDS)
    for _ in range(draw.randint(0, 4)):
        at = draw.randint(0, len(text))
        match draw.randint(0, 4):
            case 0:
                text = text[:at] + draw.choice(FRAGMENTS) + text[at:]
            case 1:
                text = text[:at]
            case 2:
                text = text[:at] + text[at + draw.randint(1, 3) :]
            case 3:
                text += draw.choice(["\n", " ", ""]) + draw.choice(SEEDS)
            case _:
                end = draw.randint(at, len(text))
                text = text[:at] + text[at:end][::-1] + text[end:]
    return text


def check(parsed: Any, value: Any) -> None:
    """Raise AssertionError where a status, a reason and a value do not fit."""
    assert parsed.status in STATUSES
    if parsed.status in ("ok", "recovered"):
        assert parsed.reason is None and value is not None
    else:
        assert parsed.reason in REASONS[parsed.status] and value is None


def run(answers: int, seed: int) -> Counter[str]:
    """Read so many answers with all three readers; the counts of what became of them."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    scales = [[{"code": c, "label": x} for c, x in enumerate(labels, 1)] for labels in SCALES]
    tables = [option_table(options) for options in scales]
    for number in range(answers):
        place = draw.randrange(len(scales))
        options, table = scales[place], tables[place]
        text, finish = text_of(draw, options), draw.choice(FINISHES)
        year = draw.choice([None, None, 2004, 2019])
        try:
            shares = parse_distribution(text, table, finish, year=year)
            check(shares, shares.probs)
            if shares.probs is not None:
                assert len(shares.probs) == len(options)
                assert all(p >= 0 for p in shares.probs)
                assert abs(math.fsum(shares.probs) - 1) <= 1e-9
                assert shares.raw_sum is not None and math.isfinite(shares.raw_sum)
            chosen = parse_choice(text, table, finish)
            check(chosen, chosen.choice)
            assert chosen.choice is None or chosen.choice in table.codes
            scored = parse_score(text, options, finish)
            check(scored, scored.score)
            assert scored.score is None or scored.score in table.codes
            if number % 50 == 0:
                assert shares == parse_distribution(text, table, finish, year=year)
                assert chosen == parse_choice(text, table, finish)
                assert scored == parse_score(text, options, finish)
        except Exception:
            print(f"answer {number} of seed {seed}: {text!r}, {finish!r}, {year}", file=sys.stderr)
            raise
        for parsed in (shares, chosen, scored):
            counts[parsed.status] += 1
    return counts


HOSTILE = [
    "{", "[", "{{", "}{", '{"1":', '{"1":4}', '{"1":40,"2":60,"3":0,"4":0}', '{"1":{"1":4}},', '{"a":"b"},', "[1,2],", "[[1,2]]",
    "{1,2}", '{"answer": 3}', "9", '"', "\"'", "\\", '\\"', '"\n', "{'a':\"", "é", "\ufdfa", "\ufb01 ", "\u0300\u0316", "<think>",
    "</think> x", "<a>", "<a", "</", "<|", "|>", "1: 5\n", "|1|2|\n", "- Yes: 3\n", "```\n", "not 1, 2\n", "choose 1 or ", "I cannot ",
    "Yes ", "no, ", "1) Yes ", "3) No\n", "my answer is ", "answer: 1. ", "\\boxed{", "\\boxed{2}", "$", "\\text{a}", "//", "/*", "*/",
    '{"a": 1 // x\n', "{ /* ", "#", " # a\n", '{"1": 40, # a\n', "?", "...", "\n", " ", "\t", "(", "1,", "1 2 ", "0.4 (40%) ",
    "Yes: 0.4 (40%)\n", "2004: [1,2,3,4]\n", '2004: {"1":40,"2":60,"3":0,"4":0}\n', "at least ", "1 or 2 ", "actually 2 ", "½", "⑴", "㎉",
    "if i had to choose ", "I would rate it 8 or 9. ", "1.Yes", "Very important (3) ", "rate", "answer ", "<answer>2</answer>",
    '"{\\"1\\": 40}"', '{"a":"{\\"1\\":4}"},', '{"a":"{',
]  # fmt: skip


def slowest(size: int) -> list[tuple[float, str, str]]:
    """Return seconds of CPU, reader and repeated text of the slowest answers of so many characters."""
    labels = ["Yes", "No", "Very important", "Not at all important"]
    options = [{"code": code, "label": label} for code, label in enumerate(labels, 1)]
    times = []
    for piece in HOSTILE:
        text = (piece * (size // len(piece) + 1))[:size]
        for parse in (parse_distribution, parse_choice, parse_score):
            for finish in ("stop", "length"):
                start = time.process_time()
                parse(text, options, finish)
                times.append((time.process_time() - start, parse.__name__, piece))
    return sorted(times, reverse=True)[:5]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--hostile", type=int, metavar="CHARACTERS", help="time repeated texts instead"
    )
    given = parser.parse_args()
    if given.hostile:
        for seconds, reader, piece in slowest(given.hostile):
            print(f"{seconds:.3f} s of CPU, {reader}, {piece!r}")
        return
    start = time.process_time()
    counts = run(given.answers, given.seed)
    seconds = time.process_time() - start
    print(
        f"{given.answers} answers, seed {given.seed}, three readers each: nothing raised, every law held; "
        f"{seconds:.0f} s of CPU; "
        + ", ".join(f"{n} {status}" for status, n in counts.most_common())
    )


if __name__ == "__main__":
    main()
