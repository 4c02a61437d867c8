"""Raw answers -> the answer columns of a prediction, for every way of asking.

``verbalized`` asks for the distribution and reads it from the text. ``sampled`` asks many times
for one option and counts. ``logprob`` reads the probabilities of the first token. All three end
in the same columns, so what comes after them does not know which one it was.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from chronocore.engines.base import Answer, Option, Request, Sample, well_formed
from chronocore.errors import ConfigurationError
from chronocore.finish_reasons import ending
from chronocore.pairs import mode_of
from chronocore.parsing import (
    OptionTable,
    ParsedDistribution,
    normalise_distribution,
    option_table,
    parse_choice,
    parse_distribution,
)
from chronocore.tolerance import ATOL

__all__ = [
    "ANSWER_COLUMNS",
    "MIN_LETTER_MASS",
    "MIN_VALID_SHARE",
    "MOST_OPTIONS",
    "bare_token",
    "distribution_of_options",
    "distribution_of_samples",
    "option_letters",
    "read_answer",
]

#: The columns of a prediction that :func:`read_answer` fills.
ANSWER_COLUMNS = (
    "text",
    "thinking",
    "status",
    "reason",
    "raw_sum",
    "sum_off",
    "probs",
    "choice",
)

#: Without I: a sentence that begins with it, such as a refusal, would count for the option.
_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"

#: Options that a question asked by letter can have.
MOST_OPTIONS = len(_LETTERS)

#: Of the answers to a sampled prompt at least this share must name an option.
MIN_VALID_SHARE = 0.5

#: Of the probability of the first token at least this much must lie on the options' letters.
MIN_LETTER_MASS = 0.5

#: Which failure names a prompt whose answers failed equally often in several ways.
_FAILURES = ("refused", "truncated", "invalid")

#: A sum of probabilities farther than this from 1 is flagged (definitions, section 4).
_SUM_TOLERANCE = 0.02


def option_letters(n_options: int) -> tuple[str, ...]:
    """Return the letters that stand for the options where the first token is read.

    A code such as 10 is two tokens in many vocabularies, and the first of them is that of the
    code 1. A capital letter is one token in all of them. I is left out: with it begin sentences
    that are no answer, such as refusals.

    Parameters
    ----------
    n_options : int
        From 1 to 25.

    Raises
    ------
    ConfigurationError
        There are more options than letters.

    Examples
    --------
    >>> "".join(option_letters(10))
    'ABCDEFGHJK'
    """
    if not 1 <= n_options <= MOST_OPTIONS:
        raise ConfigurationError(
            f"a question with {n_options} options cannot be asked by letter (at most "
            f"{MOST_OPTIONS}); use another elicitation"
        )
    return tuple(_LETTERS[:n_options])


#: What stands for a space, a line break or a tab before a token in the usual vocabularies.
_TOKEN_SPACES = str.maketrans(
    {"\u0120": " ", "\u2581": " ", "\u010a": "\n", "\u010d": "\r", "\u0109": "\t"}
)
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>|bytes:\\\\?x([0-9A-Fa-f]{2})")
_WORD_END = "</w>"


def bare_token(token: str) -> str:
    """Return what a token writes, without the white space around it.

    Vocabularies mark the space before a word (``\u2581``, ``\u0120``) or the end of one
    (``</w>``), and name single bytes; servers show such marks or what they stand for.

    Examples
    --------
    >>> [bare_token(token) for token in ("A", " A", "\u2581A", "\u0120A", "A</w>", "<0x41>", "Al")]
    ['A', 'A', 'A', 'A', 'A', 'A', 'Al']
    """
    byte = _BYTE_TOKEN.fullmatch(token)
    if byte is not None:
        return chr(int(byte.group(1) or byte.group(2), 16)).strip()
    return token.removesuffix(_WORD_END).translate(_TOKEN_SPACES).strip()


def distribution_of_samples(
    samples: Sequence[Sample], options: Sequence[Mapping[str, object]] | OptionTable
) -> ParsedDistribution:
    """Count the options that many answers to one prompt name.

    Parameters
    ----------
    samples : sequence of Sample
    options : sequence of mapping, or OptionTable
        ``code`` (int) and ``label`` (str) of each option, in order.

    Returns
    -------
    ParsedDistribution
        Shares of the valid answers, without smoothing: an option that nobody named has 0.
        ``raw_sum`` is the share of valid answers, ``sum_off`` marks more than 2 % of others. It
        is ``recovered`` if a valid answer was. With fewer than half valid there is no
        distribution; status and reason are then those of most of the others.

    Examples
    --------
    >>> options = [{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}]
    >>> answers = [Sample('{"answer": 2}'), Sample('{"answer": 2}'), Sample('{"answer": 1}')]
    >>> distribution_of_samples([*answers, Sample("Hm.")], options).raw_sum
    0.75
    """
    table = option_table(options)
    place = {code: index for index, code in enumerate(table.codes)}
    counts = [0] * len(table)
    failures: Counter[tuple[str, str]] = Counter()
    status = "ok"
    for sample in samples:
        choice = parse_choice(sample.text, table, sample.finish_reason, refusal=sample.refusal)
        if choice.choice is None:
            failures[choice.status, choice.reason or "missing_option"] += 1
            continue
        counts[place[choice.choice]] += 1
        if choice.status == "recovered":
            status = "recovered"
    valid = sum(counts)
    if not samples:
        return ParsedDistribution("invalid", "empty", None, None, False, None)
    if valid < MIN_VALID_SHARE * len(samples):
        (failed, reason), _ = min(
            failures.items(),
            key=lambda item: (-item[1], _FAILURES.index(item[0][0]), item[0][1]),
        )
        return ParsedDistribution(failed, reason, None, None, False, None)
    probs = tuple(count / valid for count in counts)
    share = valid / len(samples)
    return ParsedDistribution(status, None, probs, share, _is_off(share), None)


def distribution_of_options(option_probs: Sequence[float]) -> ParsedDistribution:
    """Normalise the probabilities of the options as first token.

    Parameters
    ----------
    option_probs : sequence of float
        In [0, 1], in the order of the options; together at most 1, the rest of the probability
        lying on tokens that name no option.

    Returns
    -------
    ParsedDistribution
        ``raw_sum`` is the probability that lies on the options, ``sum_off`` marks less than
        98 %. ``invalid`` with ``not_finite`` or ``no_mass`` where it cannot be normalised, with
        ``low_mass`` where less than half lies on the options (within 1e-12), with ``sum_off``
        where there is more than there can be; ``raw_sum`` then says how much it was.

    Examples
    --------
    >>> distribution_of_options([0.125, 0.375])
    ParsedDistribution(status='ok', reason=None, probs=(0.25, 0.75), raw_sum=0.5, sum_off=True, \
thinking=None)
    """
    given = normalise_distribution(option_probs, len(option_probs))
    if given.probs is None or given.raw_sum is None:
        return given
    mass, off = given.raw_sum, _is_off(given.raw_sum)
    if mass < MIN_LETTER_MASS - ATOL:
        return ParsedDistribution("invalid", "low_mass", None, mass, off, None)
    if off and mass > 1.0:
        return ParsedDistribution("invalid", "sum_off", None, mass, off, None)
    return ParsedDistribution(given.status, given.reason, given.probs, mass, off, None)


def _is_off(total: float) -> bool:
    return abs(total - 1.0) > _SUM_TOLERANCE + ATOL


@lru_cache(maxsize=4096)
def _table(options: tuple[Option, ...]) -> OptionTable:
    return option_table([{"code": option.code, "label": option.label} for option in options])


def read_answer(answer: Answer, request: Request) -> dict[str, Any]:
    """Return the answer columns of a prediction.

    Parameters
    ----------
    answer : Answer
        What an engine gave.
    request : Request
        What it was asked.

    Returns
    -------
    dict
        The columns :data:`ANSWER_COLUMNS`. ``text`` is what the model wrote. For a sampled
        prompt it is a JSON list with one object an answer (``text``, and where there is
        something to say ``finish_reason``, ``thinking``, ``refusal``); for one read by its first
        token a JSON object with the probability of each option's letter under the option's
        code. Both can be read back, so an exported run scores as it did.

    Notes
    -----
    Definitions, section 4.
    """
    row: dict[str, Any] = dict.fromkeys(ANSWER_COLUMNS)
    # A row that cannot be written would take all others of its part with it.
    text = None if answer.text is None else well_formed(answer.text)
    thinking = None if answer.thinking is None else well_formed(answer.thinking)
    row["text"], row["thinking"] = text, thinking
    if answer.error is not None:
        return row | {"status": "error", "reason": answer.error}
    if answer.status is not None:
        return row | {"status": answer.status, "reason": answer.reason}
    options = _table(request.options)
    if answer.probs is not None:
        parsed = normalise_distribution(answer.probs, len(options))
        if request.kind == "modal":
            row |= {"status": parsed.status, "reason": parsed.reason}
            if parsed.probs is not None:
                row["choice"] = options.codes[mode_of(parsed.probs)[0]]
            return row
    elif request.kind == "modal":
        choice = parse_choice(text, options, answer.finish_reason, refusal=answer.refusal)
        row |= {"status": choice.status, "reason": choice.reason, "choice": choice.choice}
        row["thinking"] = thinking or choice.thinking
        return row
    elif text is not None and _filtered(answer):
        parsed = parse_distribution(text, options, answer.finish_reason, refusal=answer.refusal)
    elif request.elicitation == "sampled":
        samples = answer.samples if answer.samples is not None else _samples_in(text)
        samples = [_well_formed_sample(sample) for sample in samples]
        parsed = distribution_of_samples(samples, options)
        row["text"] = _samples_text(samples) if text is None else text
    elif request.elicitation == "logprob":
        if answer.option_probs is not None:
            masses: Sequence[float] = answer.option_probs
            row["text"] = _masses_text(masses, request.options)
        else:
            masses = _masses_in(text, request.options)
        parsed = distribution_of_options(masses)
    else:
        year = request.year if request.kind == "dated" else None
        parsed = parse_distribution(
            text, options, answer.finish_reason, refusal=answer.refusal, year=year
        )
        row["thinking"] = thinking or parsed.thinking
    return row | {
        "status": parsed.status,
        "reason": parsed.reason,
        "probs": None if parsed.probs is None else list(parsed.probs),
        "raw_sum": parsed.raw_sum,
        "sum_off": None if parsed.raw_sum is None else parsed.sum_off,
    }


def _filtered(answer: Answer) -> bool:
    return answer.refusal or ending(answer.finish_reason) == "content_filter"


def _well_formed_sample(sample: Sample) -> Sample:
    return Sample(
        None if sample.text is None else well_formed(sample.text),
        None if sample.thinking is None else well_formed(sample.thinking),
        sample.finish_reason,
        sample.refusal,
    )


def _samples_text(samples: Sequence[Sample]) -> str:
    rows: list[dict[str, Any]] = []
    for sample in samples:
        row: dict[str, Any] = {"text": sample.text}
        if sample.finish_reason is not None:
            row["finish_reason"] = sample.finish_reason
        if sample.thinking is not None:
            row["thinking"] = sample.thinking
        if sample.refusal:
            row["refusal"] = True
        rows.append(row)
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _samples_in(text: str | None) -> list[Sample]:
    """Read back what :func:`_samples_text` wrote; a plain list of texts will do as well."""
    try:
        rows = json.loads(text or "[]")
    except ValueError:
        return [Sample(text)]
    samples = []
    for row in rows if isinstance(rows, list) else [rows]:
        given = row if isinstance(row, dict) and "text" in row else {"text": row}
        value = given["text"]
        samples.append(
            Sample(
                value if isinstance(value, str | None) else json.dumps(value),
                given.get("thinking"),
                given.get("finish_reason"),
                given.get("refusal") is True,
            )
        )
    return samples


def _masses_text(masses: Sequence[float], options: Sequence[Option]) -> str:
    given = {str(option.code): mass for option, mass in zip(options, masses, strict=True)}
    return json.dumps(given, separators=(",", ":"))


def _masses_in(text: str | None, options: Sequence[Option]) -> list[float]:
    """Read back what :func:`_masses_text` wrote; what is not there is no number."""
    try:
        given = json.loads(text or "{}")
    except ValueError:
        given = {}
    values = [given.get(str(o.code)) if isinstance(given, dict) else None for o in options]
    return [float(v) if isinstance(v, int | float) else math.nan for v in values]
