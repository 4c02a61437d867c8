"""Model answers -> distributions over the options, single choices and scores.

What a language model writes is rarely only what it was asked for. This module reads an answer in
the order of the definitions (section 4, *Parsing*), which spell out "Output parsing and
normalization" of ChronoCulture, appendix B.1:

1. drop the thinking, normalise the characters;
2. find the answers: strict JSON, near-JSON, ``label: number`` lines, Markdown tables, a bare list;
3. match keys to options;
4. read the values and settle their unit;
5. clip, divide by the sum, and say why where that is impossible.

A distribution is never padded, cut or guessed: an answer either gives every option one number or
carries a reason instead. Every step takes time linear in the length of the text, of an answer of
more than 40,000 characters only the two ends are read, and no text makes a function of this module
raise.

Examples
--------
>>> options = [{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}]
>>> parse_distribution('{"1": 40, "2": 60}', options, "stop").probs
(0.4, 0.6)
>>> parse_choice("I would choose 2.", options, "stop").choice
2
"""

from __future__ import annotations

from chronocore.parsing.choice import ParsedChoice, parse_choice
from chronocore.parsing.distribution import (
    ParsedDistribution,
    normalise_distribution,
    parse_distribution,
)
from chronocore.parsing.options import OptionTable, option_table
from chronocore.parsing.score import ParsedScore, parse_score

__all__ = [
    "OptionTable",
    "ParsedChoice",
    "ParsedDistribution",
    "ParsedScore",
    "normalise_distribution",
    "option_table",
    "parse_choice",
    "parse_distribution",
    "parse_score",
]
