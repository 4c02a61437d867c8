"""Scores: what the options that a model chooses add up to."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronocore.finish_reasons import ending
from chronocore.parsing.characters import readable, split_thinking
from chronocore.parsing.choice import find_choice
from chronocore.parsing.options import option_table
from chronocore.parsing.refusals import endpoint_refusal, is_refusal, nothing_found
from chronocore.parsing.sentences import choice_reader
from chronocore.parsing.several import alias_table, find_choices
from chronocore.parsing.wrappings import unwrapped

__all__ = [
    "ParsedScore",
    "parse_score",
]


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """One model answer read as a number.

    Attributes
    ----------
    status : str
        ``ok``, ``recovered``, ``refused``, ``truncated`` or ``invalid``.
    reason : str or None
        Why there is no score; None with ``ok`` and ``recovered``.
    score : float or None
        The base plus the values of the chosen options.
    chosen : tuple of int
        Codes of the chosen options, in the order of the answer.
    thinking : str or None
        The text inside thinking tags, never read as an answer.
    """

    status: str
    reason: str | None
    score: float | None
    chosen: tuple[int, ...]
    thinking: str | None


def parse_score(
    text: str | None,
    options: Sequence[Mapping[str, object]],
    finish_reason: str | None = None,
    *,
    choose: tuple[int, int] = (1, 1),
    base: float = 0.0,
    refusal: bool = False,
) -> ParsedScore:
    """Read the score that a model gives by choosing one option or several.

    A scale from 1 to 10 is ten options; a binary question has two. An index is the base plus the
    values of several chosen options, such as the two goals of the post-materialist index or the
    child qualities of the autonomy index.

    Parameters
    ----------
    text : str or None
        What the model wrote; None is the same as nothing.
    options : sequence of mapping
        ``code`` (int) and ``label`` (str) of each option; ``value`` (float) is what choosing it
        adds to the score, by default its code; ``aliases`` are other names of it.
    finish_reason : str, optional
        As for :func:`parse_distribution`; after ``length`` only a closed JSON object counts.
    choose : tuple of int
        Fewest and most options of an answer.
    base : float
        Score of an answer whose options add nothing.
    refusal : bool, optional
        Whether the endpoint itself flagged the answer as a refusal.

    Returns
    -------
    ParsedScore
        A number off the scale is ``unknown_option``, two scores in one answer (or one option
        twice) ``duplicate_option``, an interval ``range``, too few or too many options
        ``length_mismatch`` and no score at all ``missing_option``; all are ``invalid``. A refusal
        is ``refused``, never ``invalid``.

    Raises
    ------
    ValueError
        If `options` or `choose` is malformed.

    Notes
    -----
    Definitions, sections 4 and 11. Refusals and answers that cannot be read are told apart
    because they are counted apart, and neither ever counts as a stable answer.

    Examples
    --------
    >>> scale = [{"code": code, "label": str(code)} for code in range(1, 11)]
    >>> parse_score("I would give it a 7 out of 10.", scale, "stop").score
    7.0
    >>> parse_score("11", scale, "stop").reason
    'unknown_option'
    >>> goals = [
    ...     {"code": 1, "label": "Order", "value": -0.5},
    ...     {"code": 2, "label": "More say", "value": 0.5},
    ...     {"code": 3, "label": "Prices", "value": -0.5},
    ...     {"code": 4, "label": "Free speech", "value": 0.5},
    ... ]
    >>> parse_score("1, 3", goals, "stop", choose=(2, 2), base=2).score
    1.0
    >>> parse_score("I cannot share opinions.", scale, "stop").status
    'refused'
    """
    table = option_table(options)
    fewest, most = choose
    if not 1 <= fewest <= most <= len(table):
        raise ValueError(f"choose must be two counts within 1 and {len(table)}, not {choose}")
    values = _option_values(options)
    finish_reason = ending(finish_reason)
    thinking, answer = split_thinking(text or "")

    def without_score(status: str, reason: str | None) -> ParsedScore:
        return ParsedScore(status, reason, None, (), thinking)

    flagged = endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return without_score("refused", flagged)
    answer = unwrapped(readable(answer))
    cut = finish_reason == "length"
    if most == 1:
        reader = choice_reader(table, tuple(alias_table(options)), True)
        found = find_choice(answer, table, finish_reason, reader)
        codes: tuple[int, ...] | None
        codes = None if found is None or found.code is None else (found.code,)
    else:
        found, codes = find_choices(answer, table, alias_table(options), choose, cut=cut)
    if found is not None and codes is not None:
        score = float(base) + math.fsum(values[code] for code in codes)
        return ParsedScore("ok" if found.strict else "recovered", None, score, codes, thinking)
    if is_refusal(answer, table):
        return without_score("refused", "refusal")
    if found is not None:
        return without_score("invalid", found.reason)
    return without_score(*nothing_found(answer, finish_reason))


def _option_values(options: Sequence[Mapping[str, object]]) -> dict[int, float]:
    """Return what choosing each code adds to the score."""
    values: dict[int, float] = {}
    for position, option in enumerate(options):
        code = operator.index(option["code"])  # type: ignore[arg-type]
        value = option.get("value")
        number = code if value is None else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"option {position}: value {number!r} is not a number")
        if not math.isfinite(number):
            raise ValueError(f"option {position}: value {number!r} is not finite")
        values[code] = float(number)
    return values
