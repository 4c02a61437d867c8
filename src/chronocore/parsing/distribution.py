"""Distributions over the options of a question, read from what a model wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronocore.finish_reasons import ending
from chronocore.parsing.alternatives import chosen_answer
from chronocore.parsing.answers import Reading
from chronocore.parsing.characters import readable, split_thinking
from chronocore.parsing.forms import answer_forms
from chronocore.parsing.options import OptionTable, option_table
from chronocore.parsing.reading import normalise, read_answer
from chronocore.parsing.refusals import endpoint_refusal, is_refusal, nothing_found
from chronocore.parsing.values import SUM_TOLERANCE, is_off
from chronocore.parsing.wrappings import unwrapped

__all__ = [
    "ParsedDistribution",
    "normalise_distribution",
    "parse_distribution",
]


@dataclass(frozen=True, slots=True)
class ParsedDistribution:
    """One model answer read as a distribution.

    Attributes
    ----------
    status : str
        ``ok``, ``recovered``, ``refused``, ``truncated`` or ``invalid``.
    reason : str or None
        Why there is no distribution; None with ``ok`` and ``recovered``.
    probs : tuple of float or None
        One probability per option, in the order of the options, summing to 1.
    raw_sum : float or None
        Sum of the values as given, after clipping negative ones to 0; None unless every option
        has a finite number.
    sum_off : bool
        Whether ``raw_sum`` is farther than 0.02 from 1 and farther than 2 from 100.
    thinking : str or None
        The text inside thinking tags, never read as an answer.
    """

    status: str
    reason: str | None
    probs: tuple[float, ...] | None
    raw_sum: float | None
    sum_off: bool
    thinking: str | None


def parse_distribution(
    text: str | None,
    options: Sequence[Mapping[str, object]] | OptionTable,
    finish_reason: str | None = None,
    *,
    max_sum_error: float | None = None,
    refusal: bool = False,
    year: int | str | None = None,
) -> ParsedDistribution:
    """Read a distribution over `options` from a model's answer.

    Parameters
    ----------
    text : str or None
        What the model wrote; None is the same as nothing.
    options : sequence of mapping, or OptionTable
        ``code`` (int) and ``label`` (str) of each option, in the order of the scale; other keys
        are ignored. :func:`option_table` prepares them once for many answers.
    finish_reason : str, optional
        Why the model stopped, in any interface's words (:mod:`chronocore.finish_reasons`):
        ``length`` (cut) and ``content_filter`` are told apart, and only an explicit ``stop`` lets
        a JSON object without its last bracket count.
    max_sum_error : float, optional
        The largest error of the sum that is accepted, as a fraction. An answer is rejected with
        reason ``sum_off`` if its raw sum is farther than ``max_sum_error`` from 1 and farther
        than ``100 * max_sum_error`` from 100; a sum within 1e-12 of the limit is accepted. By
        default every sum is accepted and divided out, as published.
    refusal : bool, optional
        Whether the endpoint itself flagged the answer as a refusal, which then counts whatever
        the text.
    year : int or str, optional
        The year that was asked for. Of several distributions that stand under years, that of
        this one counts; without it such an answer is ``several_answers``.

    Returns
    -------
    ParsedDistribution

    Raises
    ------
    ValueError
        If `options` is malformed: empty, a code that is no integer or comes twice, no label.

    Notes
    -----
    Definitions, section 4; ChronoCulture, appendix B.1, "Output parsing and normalization".

    Examples
    --------
    >>> options = [{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}]
    >>> parsed = parse_distribution("{'Yes': '40%', 'No': '59%',}", options, "stop")
    >>> parsed.status, parsed.raw_sum, parsed.sum_off
    ('recovered', 99.0, False)
    >>> parse_distribution('{"1": 40, "2": null}', options, "stop").reason
    'not_numeric'
    >>> by_year = '{"2004": {"1": 40, "2": 60}, "2019": {"1": 30, "2": 70}}'
    >>> parse_distribution(by_year, options, "stop", year=2004).probs
    (0.4, 0.6)
    >>> parse_distribution(by_year, options, "stop").reason
    'several_answers'
    """
    table = option_table(options)
    finish_reason = ending(finish_reason)
    if max_sum_error is None and not refusal and finish_reason != "content_filter":
        plain = _read_plainly(text, table)
        if plain is not None:
            return plain
    thinking, answer = split_thinking(text or "")

    def without_distribution(status: str, reason: str) -> ParsedDistribution:
        return ParsedDistribution(status, reason, None, None, False, thinking)

    flagged = endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return without_distribution("refused", flagged)
    answer = unwrapped(readable(answer))
    forms = answer_forms(answer, table, finish_reason)
    found = chosen_answer(forms, table, answer, None if year is None else str(year))
    if found is not None:
        reading = found.reading
        if reading.reason is None and max_sum_error is not None:
            reading = read_answer(found.answer, table, max_sum_error)
        if reading.reason is None:
            status = "ok" if found.answer.strict else "recovered"
            return ParsedDistribution(
                status, None, reading.probs, reading.raw_sum, reading.sum_off, thinking
            )
    if is_refusal(answer, table):
        return without_distribution("refused", "refusal")
    if found is not None:
        assert reading.reason is not None
        return ParsedDistribution(
            "invalid", reading.reason, None, reading.raw_sum, reading.sum_off, thinking
        )
    return without_distribution(*nothing_found(answer, finish_reason))


def _read_plainly(text: str | None, table: OptionTable) -> ParsedDistribution | None:
    """Read an answer that is exactly what was asked for, in one match; None if it is not.

    Most answers of most models are, and all of a model that is held to a schema. The result is
    that of the long way, which everything else takes: a sum that is off too, as there the numbers
    may be something else.
    """
    if not text or table.plain is None or (match := table.plain.fullmatch(text)) is None:
        return None
    numbers = [float(number) for number in match.groups()]
    raw_sum = math.fsum(numbers)
    if is_off(raw_sum, SUM_TOLERANCE):
        return None
    probs = tuple([number / raw_sum for number in numbers])
    return ParsedDistribution("ok", None, probs, raw_sum, False, None)


def normalise_distribution(values: Sequence[float], n_options: int) -> ParsedDistribution:
    """Check and normalise an answer that came as numbers, one an option, in their order.

    Negative values become 0 and the vector is divided by its sum, as in the last step of
    :func:`parse_distribution`.

    Parameters
    ----------
    values : sequence of float
        NaN stands for a missing value.
    n_options : int

    Returns
    -------
    ParsedDistribution
        ``invalid`` with ``length_mismatch``, ``not_finite`` or ``no_mass``, else ``ok``.

    Examples
    --------
    >>> normalise_distribution([30, 90], 2).probs
    (0.25, 0.75)
    """
    if len(values) != n_options:
        reading = Reading("length_mismatch")
    elif not all(math.isfinite(value) for value in values):
        reading = Reading("not_finite")
    else:
        reading = normalise([max(value, 0.0) for value in values], range(n_options), None)
    status = "ok" if reading.reason is None else "invalid"
    return ParsedDistribution(
        status, reading.reason, reading.probs, reading.raw_sum, reading.sum_off, None
    )
