"""One option chosen by a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chronocore.finish_reasons import ending
from chronocore.parsing.agreement import Choice, Said
from chronocore.parsing.answers import Answer, field_name
from chronocore.parsing.characters import MAX_LINES, fold, readable, split_thinking
from chronocore.parsing.containers import (
    Container,
    NearReader,
    Reader,
    StrictReader,
    scan_containers,
)
from chronocore.parsing.names import corrected_names, name_of
from chronocore.parsing.options import OptionTable, option_table
from chronocore.parsing.refusals import endpoint_refusal, is_refusal, nothing_found
from chronocore.parsing.sentences import ChoiceReader, choice_reader
from chronocore.parsing.values import Kind, read_value
from chronocore.parsing.wrappings import untagged, unwrapped

__all__ = [
    "ParsedChoice",
    "find_choice",
    "parse_choice",
]


@dataclass(frozen=True, slots=True)
class ParsedChoice:
    """One model answer read as a single option.

    Attributes
    ----------
    status : str
        ``ok``, ``recovered``, ``refused``, ``truncated`` or ``invalid``.
    reason : str or None
        Why there is no choice; None with ``ok`` and ``recovered``.
    choice : int or None
        The code of the chosen option.
    thinking : str or None
        The text inside thinking tags, never read as an answer.
    """

    status: str
    reason: str | None
    choice: int | None
    thinking: str | None


def parse_choice(
    text: str | None,
    options: Sequence[Mapping[str, object]] | OptionTable,
    finish_reason: str | None = None,
    *,
    refusal: bool = False,
) -> ParsedChoice:
    """Read the one option a model chose.

    Understood are a JSON object such as ``{"answer": 2}``, an answer that is nothing but an
    option (``2``, ``Option 2``, ``2. Label``, the label), and a sentence that says what it
    chooses (``I would choose 2.``). JSON is ``ok``, anything else ``recovered``.

    Parameters
    ----------
    text : str or None
        What the model wrote; None is the same as nothing.
    options : sequence of mapping, or OptionTable
        ``code`` (int) and ``label`` (str) of each option; other keys are ignored.
    finish_reason : str, optional
        As for :func:`parse_distribution`; after ``length`` only a closed JSON object counts.
    refusal : bool, optional
        Whether the endpoint itself flagged the answer as a refusal.

    Returns
    -------
    ParsedChoice
        Two different options in one answer are ``duplicate_option``, an answer off the scale is
        ``unknown_option``, an interval is ``range`` and no choice at all is ``missing_option``.

    Raises
    ------
    ValueError
        If `options` is malformed.

    Notes
    -----
    Definitions, section 4, and section 10 for the modal prompts; statuses and their order are
    those of :func:`parse_distribution`.

    Examples
    --------
    >>> options = [{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}]
    >>> parse_choice('{"answer": 2}', options, "stop")
    ParsedChoice(status='ok', reason=None, choice=2, thinking=None)
    >>> parse_choice("Either 1 or 2.", options, "stop").choice is None
    True
    """
    table = option_table(options)
    finish_reason = ending(finish_reason)
    thinking, answer = split_thinking(text or "")
    flagged = endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return ParsedChoice("refused", flagged, None, thinking)
    answer = unwrapped(readable(answer))
    found = find_choice(answer, table, finish_reason, choice_reader(table, (), False))
    if found is not None and found.code is not None:
        status = "ok" if found.strict else "recovered"
        return ParsedChoice(status, None, found.code, thinking)
    if is_refusal(answer, table):
        return ParsedChoice("refused", "refusal", None, thinking)
    if found is not None:
        return ParsedChoice("invalid", found.reason, None, thinking)
    status, reason = nothing_found(answer, finish_reason)
    return ParsedChoice(status, reason, None, thinking)


_CHOICE_FIELDS = frozenset(
    {"answer", "choice", "option", "code", "label", "response", "selected", "selection", "mode"}
    | {"selected option", "chosen option", "final answer", "most common answer", "category"}
    | {"most common option", "most common", "prediction", "result", "rating", "score"}
)


_NULLS = frozenset({"", "null", "none", "nan", "n/a"})


def find_choice(
    answer: str, table: OptionTable, finish_reason: str | None, reader: ChoiceReader
) -> Choice | None:
    """Return the choice of an answer in the first form that has one; None without any."""
    cut = finish_reason == "length"
    for json_reader in (StrictReader, NearReader) if "{" in answer else ():
        found = _json_choice(json_reader(answer), reader, cut=cut)
        if found is not None:
            return found
    if cut:
        return None
    found = _wrapped_choice(answer, reader)
    if found is None:
        found = reader.read(untagged(answer))
    if finish_reason in ("unknown", "error") and found is not None and found.code is not None:
        # Nobody knows whether the text was cut, and a half-written 10 is a 1.
        name = str(found.code)
        label = table.labels[table.codes.index(found.code)]
        longer = [str(code) for code in table.codes] + list(table.labels)
        if any(
            other != part and other.startswith(part)
            for part in (name, label)
            if part
            for other in longer
        ):
            return Choice(None, "missing_option", False)
    return found


def _json_choice(json_reader: Reader, reader: ChoiceReader, *, cut: bool) -> Choice | None:
    """Return the choice of the objects that make one: the last, unless they are alternatives."""
    scan, answer = scan_containers(json_reader), json_reader.text
    strict = isinstance(json_reader, StrictReader)
    limit = scan.limit(len(answer)) if cut else len(answer)
    found: list[tuple[Container, Choice]] = []
    for container in reversed(scan.closed):
        if container.kind != "object" or container.start >= limit or not container.values:
            continue
        names = _chosen_names(container, reader.table)
        if names is not None:
            found.append((container, _decide(names, reader, strict=strict)))
            if len(found) == MAX_LINES:
                break
    if not found:
        return None
    last = found[0][1]
    if len({choice.code for _, choice in found}) > 1:
        # The names of those around them: a correction has none of its own.
        named = [(name_of(Answer([], container=one), answer), choice) for one, choice in found]
        under = corrected_names(name for name, _ in reversed(named))[::-1]
        named = list(zip(under, (choice for _, choice in named), strict=True))
        own = {tuple(word for word in name if word) for name in under}
        final = [choice for name, choice in named if "" in name]
        if len(own) > 1:
            codes = {choice.code for choice in final}
            chosen = final[0] if len(codes) == 1 else None
            return chosen or Choice(None, "several_answers", strict)
    return last


def _chosen_names(container: Container, table: OptionTable) -> list[str] | None:
    """Return the texts an object chooses with, or None if it is no choice."""
    fields = zip(container.keys, container.values, strict=False)
    chosen = [value for key, value in fields if field_name(key) in _CHOICE_FIELDS]
    if not chosen and len(container.keys) == 1 and isinstance(container.values[0], str):
        key, value = container.keys[0], container.values[0]
        if read_value(value).kind is Kind.TEXT and table.find(key) is not None:
            return [key, value]  # {"2": "No"}
    names: list[str] = []
    for raw in chosen:
        items = [raw] if isinstance(raw, str) else raw.values
        names += [item for item in items if isinstance(item, str)]
    return names if chosen else None


def _decide(names: Iterable[str], reader: ChoiceReader, *, strict: bool) -> Choice:
    """Return the one option that all names name, or why there is none."""
    table = reader.table
    given = [n for n in names if table.find(n) is not None or fold(n) not in _NULLS]
    if not given:
        return Choice(None, "missing_option", strict)
    said = Said()
    for name in given:
        index = table.find(name)
        if index is not None:
            said.add(Choice(table.codes[index], None, strict))
            continue
        found = reader.read(name)
        said.add(found if found is not None else Choice(None, "unknown_option", strict))
    choice = said.choice()
    return (
        Choice(None, "missing_option", strict) if choice is None else choice._replace(strict=strict)
    )


_BOXED = re.compile(r"\\boxed\s?\{([^{}]{1,500})\}")


_ANSWER_TAG = re.compile(
    r"<(answer|final[_-]?answer|final|response|choice|option|selection|rating|score|number|result)>"
    r"([^<]{1,500})</",
    re.IGNORECASE,
)


def _wrapped_choice(answer: str, reader: ChoiceReader) -> Choice | None:
    """Return what a box or the tags of an answer hold, if it is a choice."""
    if "\\boxed" not in answer and "</" not in answer:
        return None
    contents = _BOXED.findall(answer) or [match[2] for match in _ANSWER_TAG.finditer(answer)]
    said = Said()
    for content in contents[-MAX_LINES:]:
        said.add(reader.read(content))
    return said.choice()
