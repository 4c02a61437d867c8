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

import json
import math
import operator
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from chronocore.finish_reasons import ending
from chronocore.tolerance import ATOL

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

#: Sums farther than this from 1 (and 100 times this from 100) are flagged ``sum_off``.
_SUM_TOLERANCE = 0.02

#: Reasons of an invalid answer; of several that apply the first is reported.
_REASONS = (
    "range",
    "mixed_units",
    "not_numeric",
    "not_finite",
    "duplicate_option",
    "unknown_option",
    "length_mismatch",
    "missing_option",
    "several_answers",
    "no_mass",
    "sum_off",
)

#: Keys that stand beside a distribution and never name mass.
_SIDE_KEYS = frozenset({"year", "country", "n", "total", "sum", "confidence"})

# The same in more words: check sums, sizes, precision, and where the numbers come from.
_SIDE_WORDS = (
    r"(?:grand|overall|sub|sum|check)?\W?(?:total|sum)s?"
    r"(?: (?:check|of [\w %]+|percentages?|percent|share|probability|probabilities|responses"
    r"|respondents|answers|mass))?"
    r"|(?:check|verification|proof|sanity)(?:\W?sum|\W?total| of [\w ]+)?"
    r"|(?:total |weighted |unweighted )?(?:sample(?: size)?|base|n|interviews|respondents"
    r"|number of (?:respondents|cases|observations|interviews))(?: \(?n\)?)?"
    r"|margin of error|moe|standard error|std error|s\.?e\.?"
    r"|(?:95%? )?(?:ci|confidence)(?: (?:level|score|interval|rating))?|certainty"
    r"|(?:survey |reference |data |field )?years?|wave|round|source|date|country"
    # German, French, Spanish, Portuguese, Italian, Dutch, Swedish, Polish, Turkish
    r"|(?:gesamt)?summe|gesamt|insgesamt|kontrollsumme|stichproben(?:größe|umfang)|jahr|land"
    r"|somme|total général|taille de l'échantillon|échantillon|année|pays"
    r"|suma|total general|tamaño de la muestra|muestra|año|país"
    r"|soma|tamanho da amostra|amostra|ano"
    r"|somma|totale|dimensione del campione|campione|anno|totaal|som|steekproef(?:omvang)?|jaar"
    r"|summa|totalt|stickprov|razem|ogółem|liczebność|rok|toplam|örneklem"
    # Russian, Arabic, Hindi, Chinese, Japanese, Korean
    r"|итого|всего|сумма|выборка|год|المجموع|السنة|कुल"
    r"|合计|总计|合計|總和|總計|样本量|年份|サンプルサイズ|합계|총계|표본 크기"
)

_FIRST_YEAR, _LAST_YEAR = 1900, 2100  # numbers that are dates if they all lie here

_MAX_ANSWER = 40_000  # characters; of a longer answer its two ends are read, half from each
_MAX_DEPTH = 64  # containers inside one another; a deeper one is not an answer
_MAX_LINE = 2_000  # characters; a longer line is prose
_MAX_NAME = 1_000  # characters of a key that is compared beyond its exact label
_MAX_KNOWN = 1_000  # names whose option is remembered
_MAX_LINES = 50  # lines of an answer that may repeat the options
_MAX_NUMBER = 120  # characters of a value with anything but digits in it


def _words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


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
    thinking, answer = _split_thinking(text or "")

    def without_distribution(status: str, reason: str) -> ParsedDistribution:
        return ParsedDistribution(status, reason, None, None, False, thinking)

    flagged = _endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return without_distribution("refused", flagged)
    answer = _unwrapped(_readable(answer))
    forms = _answer_forms(answer, table, finish_reason)
    found = _chosen_answer(forms, table, answer, None if year is None else str(year))
    if found is not None:
        reading = found.reading
        if reading.reason is None and max_sum_error is not None:
            reading = _read_answer(found.answer, table, max_sum_error)
        if reading.reason is None:
            status = "ok" if found.answer.strict else "recovered"
            return ParsedDistribution(
                status, None, reading.probs, reading.raw_sum, reading.sum_off, thinking
            )
    if _declines(answer, table):
        return without_distribution("refused", "refusal")
    if found is not None:
        assert reading.reason is not None
        return ParsedDistribution(
            "invalid", reading.reason, None, reading.raw_sum, reading.sum_off, thinking
        )
    return without_distribution(*_nothing_found(answer, finish_reason))


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
    thinking, answer = _split_thinking(text or "")
    flagged = _endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return ParsedChoice("refused", flagged, None, thinking)
    answer = _unwrapped(_readable(answer))
    found = _find_choice(answer, table, finish_reason, _choice_reader(table, (), False))
    if found is not None and found.code is not None:
        status = "ok" if found.strict else "recovered"
        return ParsedChoice(status, None, found.code, thinking)
    if _declines(answer, table):
        return ParsedChoice("refused", "refusal", None, thinking)
    if found is not None:
        return ParsedChoice("invalid", found.reason, None, thinking)
    status, reason = _nothing_found(answer, finish_reason)
    return ParsedChoice(status, reason, None, thinking)


def _endpoint_refusal(finish_reason: str | None, refusal: bool) -> str | None:
    """Return the reason if the endpoint filtered the answer or flagged it as a refusal."""
    if finish_reason == "content_filter":
        return "content_filter"
    return "refusal" if refusal else None


def _nothing_found(answer: str, finish_reason: str | None) -> tuple[str, str]:
    """Return status and reason of a text in which no answer was found."""
    if finish_reason == "length":
        return "truncated", "length"
    return "invalid", "missing_option" if answer.strip() else "empty"


# --- 1. Thinking and characters -----------------------------------------------------------------

_THINKING_NAME = r"(?:think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)"
_THINKING_TAG = re.compile(
    rf"<\s?(?P<close>/?)\s?(?:\w{{1,20}}:)?{_THINKING_NAME}(?:\s[^<>]{{0,100}})?>"
    r"|\[(?P<bracket>/?)THINK\]"
    r"|\u25c1(?P<triangle>/?)think\u25b7"
    r"|<\|(?:begin|(?P<ended>end))_of_thought\|>"
    # channels: only the final one is not thinking
    r"|<\|channel\|>\s?(?:(?P<final>final)\b)?"
    r"(?:[^<\n]{0,100}(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>)?",
    re.IGNORECASE,
)
_END_OF_ANSWER = ("<|return|>", "<|end|>")

_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2032"
_STRAIGHT_QUOTES = str.maketrans(
    dict.fromkeys(_DOUBLE_QUOTES, '"') | dict.fromkeys(_SINGLE_QUOTES, "'")
)
_INVISIBLE = str.maketrans(dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""))
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_EMPHASIS = str.maketrans(dict.fromkeys("*`", ""))
_SIGNS = str.maketrans({"\u2212": "-", "\u066a": "%"})  # minus, Arabic percent

# Footnote marks behind a figure, which the compatibility form would make further digits of it.
_FOOTNOTE = re.compile(
    r"(?<=[\d%\u066a\uff05])"
    r"[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089"
    r"\u2460-\u2473\u24ea\u3251-\u325f\u32b1-\u32bf]+"
)

# Runs of other scripts with the letter before them, so that a mark stays with its letter.
_NON_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]{1,256}")


def _split_thinking(text: str) -> tuple[str | None, str]:
    """Return the thinking, if any, and the text that counts as the answer."""
    start = 0
    for tag in _THINKING_TAG.finditer(text):
        if any(tag.groupdict().values()):  # it closes
            start = tag.end()
    if _THINKING_TAG.search(text, start):  # opened again and never closed: no answer
        start = len(text)
    thinking = _THINKING_TAG.sub("", text[:start]).strip()
    answer = text[start:]
    if thinking:
        for mark in _END_OF_ANSWER:
            answer = answer.rstrip().removesuffix(mark)
    return thinking or None, answer


def _nfkc(text: str) -> str:
    """Return the compatibility form of a text, without footnote marks behind figures.

    The standard library sorts a run of combining marks in quadratic time, hence the short runs.
    """
    if text.isascii():
        return text
    text = _FOOTNOTE.sub("", text)
    return _NON_ASCII.sub(lambda run: unicodedata.normalize("NFKC", run.group()), text)


def _readable(answer: str) -> str:
    """Return what is read of an answer: its characters normalised, no more than can be examined.

    What was asked for has some hundred characters, and stands at the end of reasoning or before
    an endless repetition. An answer that is far longer is hostile or a loop.
    """
    return _ends(_nfkc(_ends(answer)))  # one character can become eighteen


def _ends(text: str) -> str:
    """Return a text, or the whole lines at both ends of one that is too long.

    Where it was cut stands what no form of answer goes on over, so that nothing is put together of
    two halves. Lines too long to be read as such are cut anywhere.
    """
    if len(text) <= _MAX_ANSWER:
        return text
    head, tail = text[: _MAX_ANSWER // 2], text[-_MAX_ANSWER // 2 :]
    last = head.rfind("\n", len(head) - _MAX_LINE)
    head = head if last < 0 else head[:last]
    tail = tail[tail.find("\n", 0, _MAX_LINE) + 1 :]
    if not head.strip() or not tail.strip():
        return head + tail
    return f"{head}\n:\n{tail}"


_LATEX_TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:bf|rm|it|sf)|emph|operatorname)\s?\{([^{}\\]{0,500})\}"
)
_LATEX_MARK = re.compile(r"\\([{}%_#&$])|\\[()\[\],;!]|\$(?=[^$\n]{1,200}\$)|(?<=[\w}%)\]])\$")
_MARKER = re.compile(
    r"<\|[^|<>\n]{1,40}\|>(?:assistant\b|user\b|system\b|final\b)?|</?s>|\[/?(?:INST|ASSISTANT"
    r"|ASST)\]"
    r"|<(?:start|end)_of_turn>(?:model\b)?|(?:\A|(?<=\n))(?:Assistant|ASSISTANT)\s?:"
)
_INLINE_TAG = re.compile(
    r"</?(?:b|strong|i|em|u|mark|code|span|font|small|big)(?:\s[^<>]{0,80})?>", re.I
)
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w-]{0,30})\s?/?>")
_LAYOUT_TAGS = _words("p br div ul ol li pre html body table tr td th h1 h2 h3 h4 hr section")


def _unwrapped(text: str) -> str:
    """Return an answer without what other formats wrap it in: LaTeX, a JSON string."""
    if "\\" in text:
        whole = text.strip()
        if len(whole) > 1 and whole[0] == whole[-1] == '"' and '\\"' in whole:
            try:
                decoded = json.loads(whole, strict=False)
            except ValueError:
                decoded = None
            if isinstance(decoded, str):
                text = decoded
        elif '\\"' in text and re.search(r'(?<!\\)"', text) is None:
            text = text.replace('\\"', '"').replace("\\n", "\n")
        if "\\" in text and '\\"' not in text:
            text = _LATEX_TEXT.sub(r"\1", text)
            text = _LATEX_MARK.sub(lambda mark: mark[1] or "", text)
    return text


def _untagged(text: str) -> str:
    """Return a text without the tags around its parts; a tag's name becomes a heading."""
    if "<" not in text and "[" not in text and "ssistant" not in text and "ASSISTANT" not in text:
        return text
    text = _INLINE_TAG.sub("", _MARKER.sub("\n", text))

    def heading(tag: re.Match[str]) -> str:
        name = tag["name"].casefold()
        if tag["close"] or name in _LAYOUT_TAGS or not _name_words(f"{name}:")[-1:] > [""]:
            return "\n"
        return f"\n{name}:\n"

    return _TAG.sub(heading, text)


def _plain(text: str) -> str:
    """Return a text as it is compared with labels: folded, without emphasis, dashes alike."""
    return _fold(text).translate(_EMPHASIS).translate(_DASHES)


def _fold(text: str) -> str:
    """Return a label as it is compared: case-folded, spaces collapsed, quotes straightened."""
    folded = _nfkc(_nfkc(text).casefold())
    return " ".join(folded.translate(_INVISIBLE).translate(_STRAIGHT_QUOTES).split())


def _bare(folded: str) -> str:
    """Return a folded label without Markdown emphasis and the punctuation around it."""
    plain = folded.translate(_EMPHASIS).translate(_DASHES)
    return plain.strip(" \"'()[].,:;!?#") or folded


# --- Options ------------------------------------------------------------------------------------

_CODE = r"[+-]?[0-9]{1,18}"
_CODE_WORD = r"(?:option|code|answer|choice|category|response|value|opt|number)[ _]*[:#]?\s*"
_ONLY_CODE = re.compile(rf"(?P<code>{_CODE})(?:\.0+)?")
_WORDED_CODE = re.compile(rf"{_CODE_WORD}(?P<code>{_CODE})(?:\.0+)?")
_CODE_THEN_LABEL = re.compile(
    rf"(?:{_CODE_WORD})?[(\[#]*\s*(?P<code>{_CODE})(?:\.0+)?(?![0-9])\s*"
    r"(?:[-.:=)\]>,|]\s*)*(?P<label>.+)"
)
_LABEL_THEN_CODE = re.compile(
    rf"(?P<label>.+?)\s*(?:[-:=,]\s*)?"
    rf"(?:[(\[]\s*(?:{_CODE_WORD})?(?P<inside>{_CODE})(?:\.0+)?\s*[)\]]?"
    rf"|(?:\s-\s|[:=])\s*(?P<after>{_CODE}))"
)


class OptionTable:
    """The options of one question and the names they go by; see :func:`option_table`."""

    def __init__(self, pairs: tuple[tuple[int, str], ...]) -> None:
        self.codes = tuple(code for code, _ in pairs)
        self.labels = tuple(_fold(label) for _, label in pairs)
        self._by_code = {code: index for index, code in enumerate(self.codes)}
        self._exact = _unique((label, index) for index, label in enumerate(self.labels))
        bare = [(_bare(label), index) for index, label in enumerate(self.labels)]
        self._bare = _unique(bare)
        self._after_code = _unique(
            (_bare(match["rest"]), index)
            for index, (code, label) in enumerate(zip(self.codes, self.labels, strict=True))
            if (match := re.fullmatch(rf"\+?{code}(?!\d)\W*(?P<rest>[^\W\d].*)", label))
        )
        self._known: dict[tuple[str, bool], int | None] = {}
        self.by_name, self.label_pattern = _label_pattern(self.labels, self.codes)
        # A label may be the code of another option; then it matters which is meant.
        self.clash = any(self._code(name) not in (None, index) for name, index in bare)
        self.plain = None if self.clash else _plain_pattern(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, name: str, *, labels_first: bool = False) -> int | None:
        """Return the position of the option a key names by code, label or both; else None."""
        if len(name) > _MAX_NAME:
            return self._exact.get(_fold(name))
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        asked = (name, labels_first)
        if asked not in self._known:
            self._known[asked] = self._find(name, labels_first)
        return self._known[asked]

    def _find(self, name: str, labels_first: bool) -> int | None:
        folded = _fold(name)
        bare = _bare(folded)
        if not labels_first and (found := self._code(bare)) is not None:
            return found
        if (found := self._label(folded, bare)) is not None:
            return found
        if (found := self._code(bare)) is not None:
            return found
        if worded := _WORDED_CODE.fullmatch(bare):
            return self._by_code.get(int(worded["code"]))
        return self._both(bare)

    def index_of(self, name: str) -> int | None:
        """Return the position of the option whose label a text matched by the pattern is."""
        return self.by_name.get(name)

    def find_all(self, names: Sequence[str], *, labels_first: bool = False) -> int | None:
        """Return the position of the one option that every name names; else None."""
        found = {self.find(name, labels_first=labels_first) for name in names}
        return found.pop() if len(found) == 1 else None

    def _code(self, bare: str) -> int | None:
        match = _ONLY_CODE.fullmatch(bare)
        return self._by_code.get(int(match["code"])) if match else None

    def _label(self, folded: str, bare: str) -> int | None:
        for names, name in ((self._exact, folded), (self._bare, bare), (self._after_code, bare)):
            if name in names:
                return names[name]
        return None

    def _both(self, bare: str) -> int | None:
        """Return the option named by code and label together, if the two agree."""
        for pattern in (_CODE_THEN_LABEL, _LABEL_THEN_CODE):
            if match := pattern.fullmatch(bare):
                found = self._label(match["label"], _bare(match["label"]))
                code = next(c for name, c in match.groupdict().items() if name != "label" and c)
                if found is not None and found == self._by_code.get(int(code)):
                    return found
        return None


def _label_pattern(
    labels: Sequence[str], codes: Sequence[int]
) -> tuple[dict[str, int | None], re.Pattern[str] | None]:
    """Return the position of every label as :func:`_plain` has it, and a pattern of them all.

    Labels that are numbers are left out: they cannot be told from codes. A name that several
    options share has no position.
    """
    names: dict[str, int | None] = {}
    for index, (label, code) in enumerate(zip(labels, codes, strict=True)):
        plain = label.translate(_EMPHASIS).translate(_DASHES).strip()
        after = re.match(rf"\+?{code}(?!\d)\W*(?P<rest>[^\W\d].*)", plain)
        variants = {plain, _bare(label), _bare(after["rest"]) if after else plain}
        for name in variants:
            if name and not _ONLY_CODE.fullmatch(name) and any(map(str.isalnum, name)):
                names[name] = index if names.get(name, index) == index else None
    if not names:
        return names, None

    longest_first = sorted(names, key=len, reverse=True)
    return names, re.compile("|".join(map(_bounded, longest_first)))


def _bounded(name: str) -> str:
    """Return a pattern of a name as a word of its own."""
    before = r"(?<!\w)" if _needs_bound(name[0]) else ""
    after = r"(?!\w)" if _needs_bound(name[-1]) else ""
    return f"{before}{re.escape(name)}{after}"


def _needs_bound(character: str) -> bool:
    """Return whether a word goes on behind a letter, in scripts that put blanks between words."""
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff"


def _unique(names: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return name -> position, without the names that several options share."""
    found: dict[str, int] = {}
    shared: set[str] = set()
    for name, index in names:
        if found.setdefault(name, index) != index:
            shared.add(name)
    return {name: index for name, index in found.items() if name not in shared}


def option_table(options: Sequence[Mapping[str, object]] | OptionTable) -> OptionTable:
    """Return options ready for matching, to be used for any number of answers.

    Parameters
    ----------
    options : sequence of mapping
        ``code`` (int) and ``label`` (str) of each option, in the order of the scale.

    Raises
    ------
    ValueError
        If `options` is malformed: empty, a code that is no integer or comes twice, no label.

    Examples
    --------
    >>> table = option_table([{"code": 1, "label": "Yes"}, {"code": 2, "label": "No"}])
    >>> parse_distribution('{"1": 40, "2": 60}', table, "stop").probs
    (0.4, 0.6)
    """
    if isinstance(options, OptionTable):
        return options
    pairs: list[tuple[int, str]] = []
    for position, option in enumerate(options):
        try:
            code, label = option["code"], option["label"]
        except (KeyError, TypeError, IndexError):
            raise ValueError(f"option {position} needs a 'code' and a 'label'") from None
        if isinstance(code, bool):
            raise ValueError(f"option {position}: code {code!r} is not an integer")
        try:
            number = operator.index(code)  # type: ignore[arg-type]
        except TypeError:
            raise ValueError(f"option {position}: code {code!r} is not an integer") from None
        if not isinstance(label, str):
            raise ValueError(f"option {position}: label {label!r} is not a string")
        pairs.append((number, label))
    if not pairs:
        raise ValueError("options must hold at least one option")
    if len({code for code, _ in pairs}) < len(pairs):
        raise ValueError("options must not hold a code twice")
    return _cached_table(tuple(pairs))


@lru_cache(maxsize=512)
def _cached_table(pairs: tuple[tuple[int, str], ...]) -> OptionTable:
    return OptionTable(pairs)


# --- The answer that was asked for --------------------------------------------------------------

_JSON_SPACE = r"[ \t\r\n]*+"


def _plain_pattern(codes: Sequence[int]) -> re.Pattern[str]:
    """Return the pattern of an object with the codes as keys, in order, and small numbers."""
    entries = (
        rf'"{code}"{_JSON_SPACE}:{_JSON_SPACE}((?:0|[1-9]\d{{0,2}}+)(?:\.\d{{1,17}}+)?)'
        for code in codes
    )
    body = rf"{_JSON_SPACE},{_JSON_SPACE}".join(entries)
    # [0-9] only: \d would let other scripts' digits through.
    return re.compile(
        rf"{_JSON_SPACE}\{{{_JSON_SPACE}{body}{_JSON_SPACE}\}}{_JSON_SPACE}".replace(r"\d", "[0-9]")
    )


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
    if _is_off(raw_sum, _SUM_TOLERANCE):
        return None
    probs = tuple([number / raw_sum for number in numbers])
    return ParsedDistribution("ok", None, probs, raw_sum, False, None)


# --- 2. Finding answers -------------------------------------------------------------------------


@dataclass(slots=True)
class _Container:
    """A JSON-like object or list, possibly still open.

    ``keys`` stays empty for a list. Texts are kept as written: units and numbers come later.
    """

    kind: Literal["object", "list"]
    start: int
    end: int = -1
    nested: bool = False
    keys: list[str] = field(default_factory=list)
    values: list[_Raw] = field(default_factory=list)
    parent: _Container | None = None
    key: str | None = None  # under which it stands in its parent


_Raw: TypeAlias = "str | _Container"


class _Scan(NamedTuple):
    """The containers of a text, in the order they close, and what was still open at its end."""

    closed: list[_Container]
    unclosed: _Container | None = None  # the outermost container open at the end of the text
    after_value: bool = False  # it lacks nothing but its last bracket
    open_string: _Container | None = None  # the outermost one around a string that never closes

    def limit(self, size: int) -> int:
        """Return where the text stops being complete if it was cut."""
        still_open = [c.start for c in (self.unclosed, self.open_string) if c is not None]
        return min(still_open, default=size)


class _Token(NamedTuple):
    text: str
    end: int


class _Entry(NamedTuple):
    """One key (by one or more names) and its value."""

    names: tuple[str, ...]
    value: _Raw


class _Answer(NamedTuple):
    """Something that looks like a distribution; positional if its entries have no names.

    What it stands under is its ``container`` in the text, or the ``lead`` above it.
    """

    entries: list[_Entry]
    positional: bool = False
    strict: bool = False
    container: _Container | None = None
    lead: str | None = None
    unclosed: bool = False


_SPACE = re.compile(r"\s*+")
_OPENERS = re.compile(r"[\s{\[]*+")


_JSON_OPEN = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_JSON_STRING = rf'{_JSON_OPEN}"'


class _StrictReader:
    """The keys and values of JSON as the standard has it."""

    trailing_comma = False
    quotes = '"'
    _string = re.compile(_JSON_STRING)
    opener = re.compile(rf"\{{(?=\s*+(?:{_JSON_STRING}\s*+:|{_JSON_OPEN}\Z))|\[")
    _literal = re.compile(
        r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
        r"|true\b|false\b|null\b|NaN\b|-?Infinity\b"
    )

    def __init__(self, text: str) -> None:
        self.text = text

    def key(self, position: int) -> _Token | None:
        match = self._string.match(self.text, position)
        return _Token(_unescape(match.group()[1:-1]), match.end()) if match else None

    def value(self, position: int) -> _Token | None:
        match = self._literal.match(self.text, position)
        return _Token(match.group(), match.end()) if match else self.key(position)

    def plain_list(self, position: int) -> tuple[list[str], int] | None:
        del position
        return None


_LOOSE_NUMBER = r"[~≈]?\s*+[+-]?\s*+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)\s*+%?"


class _NearReader:
    """The keys and values of JSON as models bend it.

    Single, curly or missing quotes, bare keys, percents and words, braces around bare numbers.
    """

    trailing_comma = True
    quotes = "\"'"
    opener = re.compile(r"\{(?!\s*+[{}\[])|\[")
    _bare_key = re.compile(r"[^:{}\[\]\n]++(?=:)")
    _quoted_number = re.compile(
        r"""["']\s*+([~≈]?[+-]?(?:[0-9]++(?:[.,][0-9]++)*+|\.[0-9]++)\s*+%?)\s*+["']?"""
        r"(?=\s*+[,}\]])"
    )
    _comma_number = re.compile(r"[~≈]?[+-]?[0-9]++(?:,[0-9]++)++(?:\.[0-9]++)?\s*+%?(?=\s*+[,}])")
    _bare_value = re.compile(r"""([^,"'{}\[\]\n]++)["']?""")
    _plain_list = re.compile(
        rf"""\{{\s*+["']?{_LOOSE_NUMBER}["']?(?:\s*+,\s*+["']?{_LOOSE_NUMBER}["']?)*+\s*+,?\s*+\}}"""
    )
    _plain_number = re.compile(_LOOSE_NUMBER)

    def __init__(self, text: str) -> None:
        # One character for one: positions hold.
        self.text = _without_comments(text.translate(_STRAIGHT_QUOTES).translate(_SIGNS))
        self._key_ends = _Marks(r"""["'](?=\s*+:)""", self.text)
        self._value_ends = _Marks(r"""["'](?=\s*+(?:[,}\]]|\Z))""", self.text)
        self._breaks = _Marks(r"[{}\n]", self.text)

    def key(self, position: int) -> _Token | None:
        if self.text[position] in "\"'":
            end = self._key_ends.after(position)
            if end < self._breaks.after(position):
                return _Token(_unescape(self.text[position + 1 : end]), end + 1)
        match = self._bare_key.match(self.text, position)
        return _Token(match.group(), match.end()) if match else None

    def value(self, position: int) -> _Token | None:
        if self.text[position] in "\"'":
            if match := self._quoted_number.match(self.text, position):
                return _Token(match[1], match.end())
            end = self._value_ends.after(position)
            if end < self._breaks.after(position):
                return _Token(_unescape(self.text[position + 1 : end]), end + 1)
            return None
        if match := self._comma_number.match(self.text, position):
            return _Token(match.group(), match.end())
        match = self._bare_value.match(self.text, position)
        return _Token(match[1].strip(), match.end()) if match else None

    def plain_list(self, position: int) -> tuple[list[str], int] | None:
        """Return the numbers of ``{0.1, 0.3, 0.6}`` and where it ends."""
        match = self._plain_list.match(self.text, position)
        if match is None:
            return None
        return self._plain_number.findall(match.group()), match.end()


_COMMENT = re.compile(r"//|/\*|#")


def _without_comments(text: str) -> str:
    """Return a text with the comments inside its braces blanked."""
    if "{" not in text or _COMMENT.search(text) is None:
        return text
    pieces: list[str] = []
    position = 0
    for mark in _COMMENT.finditer(text):
        start = mark.start()
        if start < position:
            continue
        above = text[max(0, start - _MAX_LINE) : start]
        before = above.rstrip()[-1:]
        if not before or before == ":" or above.rfind("{") <= above.rfind("}"):
            continue
        if mark.group() == "/*":
            end = text.find("*/", mark.end()) + 2
            if end < 2:
                continue
        elif mark.group() == "#" and (above == above.rstrip() or before not in ",{[\"'%0123456789"):
            continue
        else:
            end = text.find("\n", mark.end())
            end = len(text) if end < 0 else end
        pieces += [text[position:start], re.sub(r"[^\n]", " ", text[start:end])]
        position = end
    return "".join([*pieces, text[position:]])


class _Marks:
    """Positions of a pattern in a text, asked for in ascending order: linear in total."""

    def __init__(self, pattern: str, text: str) -> None:
        self._positions = [match.start() for match in re.finditer(pattern, text)]
        self._positions.append(len(text))
        self._next = 0

    def after(self, position: int) -> int:
        """Return the first mark after a position, or the length of the text."""
        while self._next + 1 < len(self._positions) and self._positions[self._next] <= position:
            self._next += 1
        return self._positions[self._next]


_Reader: TypeAlias = _StrictReader | _NearReader


def _unescape(text: str) -> str:
    """Return the content of a quoted string with its escapes resolved."""
    if "\\" not in text:
        return text
    try:
        decoded: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        decoded = re.sub(r"\\(.)", r"\1", text)
    return _nfkc(decoded)


class _State(Enum):
    FIRST = auto()  # just opened
    ITEM = auto()  # after a comma
    VALUE = auto()  # after a key and its colon
    NEXT = auto()  # after a value


# An opening quote with no closing one up to the end of the text.
_OPEN_STRING = re.compile(r"""(["'])(?:(?!\1)[^\\]|\\.)*+\\?\Z""", re.DOTALL)


def _scan(reader: _Reader) -> _Scan:
    """Return the containers of a text, read from left to right once.

    Text between containers is prose. What does not fit abandons every open container, since
    each of them holds the misfit, and reading goes on from there: nothing is read twice, nothing
    recurses, and containers closed before the misfit remain.
    """
    text, size = reader.text, len(reader.text)
    closed: list[_Container] = []
    stack: list[_Container] = []
    state = _State.FIRST
    position = 0
    open_string: _Container | None = None
    while True:
        if not stack:
            opening = reader.opener.search(text, position)
            if opening is None:
                return _Scan(closed, open_string=open_string)
            position = opening.start()
            numbers = reader.plain_list(position)
            if numbers is not None:
                values: list[_Raw] = list(numbers[0])
                closed.append(_Container("list", position, numbers[1], values=values))
                position = numbers[1]
                continue
            stack.append(_open(text, position))
            position, state = position + 1, _State.FIRST
            continue
        position = _end_of(_SPACE, text, position)
        if position == size:
            after_value = len(stack) == 1 and state is _State.NEXT
            return _Scan(closed, stack[0], after_value, open_string)
        innermost, character = stack[-1], text[position]
        if character in "}]":
            may_close = state in (_State.NEXT, _State.FIRST) or (
                state is _State.ITEM and reader.trailing_comma
            )
            if may_close and character == ("}" if innermost.kind == "object" else "]"):
                stack.pop()
                position, state = position + 1, _State.NEXT
                innermost.end, innermost.nested = position, bool(stack)
                closed.append(innermost)
                if stack:
                    stack[-1].values.append(innermost)
                continue
        elif state is _State.NEXT:
            if character == ",":
                position, state = position + 1, _State.ITEM
                continue
        elif innermost.kind == "object" and state is not _State.VALUE:
            key = reader.key(position)
            colon = _end_of(_SPACE, text, key.end) if key else size
            if key and colon < size and text[colon] == ":":
                innermost.keys.append(key.text)
                position, state = colon + 1, _State.VALUE
                continue
        elif character in "{[":
            if len(stack) < _MAX_DEPTH:
                opened = _open(text, position)
                opened.parent = innermost
                opened.key = innermost.keys[-1] if innermost.keys else None
                stack.append(opened)
                position, state = position + 1, _State.FIRST
            else:
                stack.clear()
                position = _end_of(_OPENERS, text, position)
            continue
        elif value := reader.value(position):
            innermost.values.append(value.text)
            position, state = value.end, _State.NEXT
            continue
        if open_string is None and character in reader.quotes and _is_open(text, position):
            open_string = stack[0]
        stack.clear()


def _is_open(text: str, position: int) -> bool:
    """Return whether the quote at a position has no partner up to the end of the text."""
    return _OPEN_STRING.match(text, position) is not None


def _open(text: str, position: int) -> _Container:
    return _Container("object" if text[position] == "{" else "list", position)


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _answer_forms(
    text: str, table: OptionTable, finish_reason: str | None
) -> Iterator[list[_Answer]]:
    """Yield the answers of each form, the form that counts most first (step 2).

    After ``length`` only what is closed can be complete, and nothing inside an unclosed
    container is.
    """
    cut = finish_reason == "length"
    strict = _scan(_StrictReader(text))
    near: _Scan | None = None
    limit = len(text)
    if cut:
        near = _scan(_NearReader(text))
        limit = min(strict.limit(limit), near.limit(limit))
    yield _json_answers(strict.closed, table, limit, strict=True)
    if near is None:
        near = _scan(_NearReader(text))
    containers = [*_quoted_containers(strict.closed), *near.closed]
    if near.unclosed and near.after_value and finish_reason == "stop":
        containers.append(near.unclosed)
    yield _json_answers(containers, table, limit, strict=False)
    outside = _untagged(_outside_objects(text, near))
    if not cut:
        lines = [line for line in outside.splitlines() if len(line) <= _MAX_LINE]
        yield _line_answers(lines, table, half_written=finish_reason in ("unknown", "error"))
        yield _table_answers(lines, table)
    positional = _list_answers(near.closed, text, table, limit)
    if not positional and not cut:
        positional = _number_texts(outside, table, alone=outside == text)
    yield positional


def _quoted_containers(containers: Sequence[_Container]) -> list[_Container]:
    """Return the containers inside strings of containers: JSON that was encoded twice."""
    found: list[_Container] = []
    for container in containers:
        for place, value in enumerate(container.values):
            if not isinstance(value, str) or "{" not in value or ":" not in value:
                continue
            for inner in _scan(_StrictReader(value)).closed:
                inner.start = inner.end = container.start
                if inner.parent is None:
                    inner.parent, inner.nested = container, True
                    inner.key = container.keys[place] if place < len(container.keys) else None
                found.append(inner)
    return found


def _outside_objects(text: str, scan: _Scan) -> str:
    """Return the text outside objects, closed or not, so that no number counts twice."""
    pieces: list[str] = []
    position = 0
    for container in scan.closed:
        if container.kind == "object" and not container.nested and container.start >= position:
            pieces.append(text[position : container.start])
            position = container.end
    end = len(text)
    if scan.unclosed and scan.unclosed.kind == "object":
        end = scan.unclosed.start
    pieces.append(text[position : max(position, end)])
    return "\n".join(pieces)


# JSON and near-JSON

#: Fields of a record that name an option, and fields that only number the record.
_NAME_FIELDS = frozenset(
    {"option", "code", "label", "name", "answer", "choice", "category", "response", "key", "text"}
)
_ORDINAL_FIELDS = frozenset({"id", "index", "rank"})
_FREE_FIELDS = frozenset({"reason", "reasoning", "explanation", "note", "notes", "comment"})
_NUMBER_FIELDS = frozenset(
    {"percentage", "percent", "pct", "%", "probability", "prob", "share", "proportion", "value"}
)


def _json_answers(
    containers: Iterable[_Container], table: OptionTable, limit: int, *, strict: bool
) -> list[_Answer]:
    """Return the objects keyed by options and the lists of records among closed containers."""
    answers: list[_Answer] = []
    for container in containers:
        if container.start >= limit or not container.values:
            continue
        entries: list[_Entry] | None
        if container.kind == "object":
            nests = len(container.values) >= len(table) and not all(
                isinstance(value, str) for value in container.values
            )
            if nests and (across := _across_entries(container, table)):
                answers += [
                    _Answer(entries, strict=strict, container=container, lead=name)
                    for name, entries in across
                ]
                continue
            entries = [_lifted(entry) for entry in _object_entries(container)]
        else:
            entries = _record_entries(container, table)
            if entries is None and not strict:
                entries = _pair_entries(container, table)
        if entries:
            unclosed = container.end < 0
            answers.append(_Answer(entries, strict=strict, container=container, unclosed=unclosed))
    return answers


def _across_entries(
    container: _Container, table: OptionTable
) -> list[tuple[str, list[_Entry]]] | None:
    """Return the answers of an object that gives each option several numbers, by their name.

    Such as ``{"1": {"lower": 35, "upper": 45}, "2": {"lower": 55, "upper": 65}}``.
    """
    parts = [value for value in container.values if not isinstance(value, str)]
    if len(parts) < len(table) or len(parts[0].keys) < 2:
        return None
    named = [
        (key, part)
        for key, part in zip(container.keys, container.values, strict=False)
        if not isinstance(part, str) and table.find(key) is not None
    ]
    names = parts[0].keys
    if len(named) != len(table) or any(part.keys != names for _, part in named):
        return None
    across: list[tuple[str, list[_Entry]]] = []
    for place, name in enumerate(names):
        values = [part.values[place] for _, part in named]
        if all(_read_value(value).kind is _Kind.NUMBER for value in values):
            keys = [key for key, _ in named]
            pairs = zip(keys, values, strict=True)
            across.append((name, [_Entry((key,), value) for key, value in pairs]))
        elif _field_name(name) not in _NAME_FIELDS | _FREE_FIELDS:
            return None
    return across if len(across) > 1 else None


def _object_entries(container: _Container) -> list[_Entry]:
    pairs = zip(container.keys, container.values, strict=False)
    return [_Entry((key,), value) for key, value in pairs]


def _lifted(entry: _Entry) -> _Entry:
    """Return an entry such as ``"1": {"percentage": 40}`` with the number as its value."""
    item = entry.value
    if isinstance(item, str) or item.kind != "object" or not 1 <= len(item.keys) <= 3:
        return entry
    names: list[str] = []
    numbers: list[_Raw] = []
    for key, value in zip(item.keys, item.values, strict=False):
        name = _field_name(key)
        if isinstance(value, str) and name in _NAME_FIELDS:
            names.append(value)
        elif isinstance(value, str) and name in _NUMBER_FIELDS:
            numbers.append(value)
        elif name not in _SIDE_KEYS:
            return entry
    return _Entry((*entry.names, *names), numbers[0]) if len(numbers) == 1 else entry


def _pair_entries(container: _Container, table: OptionTable) -> list[_Entry] | None:
    """Return the entries of a list of pairs such as ``["Yes", 40]``."""
    if len(container.values) != len(table):
        return None
    entries: list[_Entry] = []
    for item in container.values:
        if isinstance(item, str) or item.kind != "list" or len(item.values) != 2:
            return None
        name, value = item.values
        if not isinstance(name, str) or table.find(name) is None or _mark(name):
            return None
        entries.append(_Entry((name,), value))
    return entries


def _record_entries(container: _Container, table: OptionTable) -> list[_Entry] | None:
    """Return the entries of a list of objects each naming one option and one number."""
    entries: list[_Entry] = []
    for item in container.values:
        if isinstance(item, str) or item.kind != "object":
            return None
        entry = _record_entry(item, table)
        if entry is None:
            return None
        entries.append(entry)
    return entries


def _record_entry(item: _Container, table: OptionTable) -> _Entry | None:
    if len(item.keys) == 1:
        return _Entry((item.keys[0],), item.values[0])
    names: list[str] = []
    others: list[tuple[str, str]] = []
    for key, value in zip(item.keys, item.values, strict=False):
        name = _field_name(key)
        if isinstance(value, _Container) or name in _SIDE_KEYS | _ORDINAL_FIELDS:
            continue
        if name in _NAME_FIELDS:
            names.append(value)
        else:
            others.append((name, value))
    if not names:
        names = [
            value
            for _, value in others
            if _read_value(value).kind is _Kind.TEXT and table.find(value) is not None
        ]
    numbers = [value for _, value in others if _read_value(value).kind is not _Kind.TEXT]
    if not numbers:
        numbers = [value for name, value in others if name in _NUMBER_FIELDS]
    if not names or len(numbers) != 1:
        return None
    return _Entry(tuple(names), numbers[0])


def _field_name(key: str) -> str:
    return _bare(_fold(key.replace("_", " ")))


# Lines

_BULLET = re.compile(r"[\s>#]*+(?:[-*+•‣◦▪·\u2013\u2014]\s++)?")
_LINE_SEPARATOR = re.compile(r"\s*+(?::|=>|=|->|→|⇒|\t)\s*+|\s++[-\u2013\u2212]\s++|\s*+\u2014\s*+")
_BLANKS = re.compile(r"[^\S\t]++")
_MAX_SEPARATORS = 12
_NO_NUMBER = frozenset(
    {"n/a", "na", "none", "null", "unknown", "?", "-", "\u2013", "\u2014", "true", "false"}
    | {"not available", "not applicable"}
)


def _line_answers(
    lines: Sequence[str], table: OptionTable, *, half_written: bool = False
) -> list[_Answer]:
    """Return the answers written as ``label: number`` lines.

    A new answer begins where an option comes again after all of them have been named. Lines that
    repeat some options of the answer just above, with nothing in between, belong to it. The last
    line without a value above an answer is its heading.
    """
    blocks: list[list[_Entry]] = [[]]
    leads: list[str | None] = [None]
    named: set[int] = set()
    lead: str | None = None
    apart = True  # something stands between this entry and the one before
    attached = False  # the current block follows another one directly
    for entry in _each_entry(lines, table):
        if isinstance(entry, str):
            apart = True
            lead = entry if entry.strip() else lead
            continue
        index = table.find_all(entry.names)
        if index is None and table.find(entry.names[0]) is None:
            if _field_name(entry.names[0]) in _HEADING_FIELDS:
                lead = f"{entry.names[0]} {entry.value}"
                continue
        elif index is not None:
            if index in named and len(named) == len(table):
                blocks.append([])
                leads.append(None)
                named, attached = set(), not apart
            if not named:
                leads[-1] = lead
            named.add(index)
            lead = None
        blocks[-1].append(entry)
        apart = False
    if attached and len(named) < len(table):
        rest = blocks.pop()
        blocks[-1].extend(rest)
    return [
        _Answer(block, lead=above or "", unclosed=half_written)
        for block, above in zip(blocks, leads, strict=False)
        if _is_listing(block, table)
    ]


_ITEM_SEPARATOR = re.compile(r"[,;]\s+")
#: Keys of lines that say of what the lines below them are the distribution.
_HEADING_FIELDS = frozenset({"year", "survey year", "wave", "round", "jahr", "année", "año", "ano"})


def _each_entry(lines: Iterable[str], table: OptionTable) -> Iterator[_Entry | str]:
    """Yield the entry of each line, and of each part of ``Yes: 40, No: 60``; else the line."""
    for line in lines:
        parts = _ITEM_SEPARATOR.split(line.strip(" \t.")) if len(table) > 1 else []
        if len(parts) == len(table):
            entries = [entry for part in parts if (entry := _line_entry(part, table))]
            if _is_bijection([table.find(entry.names[0]) for entry in entries], table):
                yield from entries
                continue
        yield _line_entry(line, table) or line


def _is_listing(block: Sequence[_Entry], table: OptionTable) -> bool:
    """Return whether lines are more than a stray number after a colon."""
    return len(block) > 1 or any(table.find(entry.names[0]) is not None for entry in block)


def _line_entry(line: str, table: OptionTable) -> _Entry | None:
    """Return the key and the value of a line, split where the key names an option if possible."""
    if "|" in line or not line.strip():
        return None
    line = _BLANKS.sub(" ", line.translate(_EMPHASIS))
    line = line[_end_of(_BULLET, line, 0) :].strip()
    fallback: _Entry | None = None
    for tried, separator in enumerate(_LINE_SEPARATOR.finditer(line)):
        if tried == _MAX_SEPARATORS:
            break
        name, value = line[: separator.start()].strip(), line[separator.end() :]
        if not name:
            continue
        entry = _Entry((name,), value)
        if not _is_line_value(value):
            beside = _VALUE_THEN_LABEL.fullmatch(value)
            if beside is None or table.by_name.get(_plain(beside["label"]).strip(" .)")) is None:
                continue
            entry = _Entry((name, beside["label"].strip(" .)")), beside["value"])
        if table.find(name) is not None:
            return entry
        fallback = fallback or entry
    if fallback is None and (turned := _VALUE_THEN_NAME.fullmatch(line)) is not None:
        name = turned["name"].strip(" .,;")
        if table.find(name) is not None and table.find(name, labels_first=True) is not None:
            return _Entry((name,), turned["value"])
    return fallback


_VALUE_THEN_LABEL = re.compile(
    r"(?P<value>[~≈]?\s*\d[\d.,]*\s*(?:%|percent|per cent)?)\s*[:(–—-]?\s*(?P<label>[^\d\s].*)"
)
_VALUE_THEN_NAME = re.compile(
    r"(?P<value>[~≈]?\s*\d[\d.,]*\s*(?:%|percent|per cent))\s*[:–—-]?\s*"
    r"(?:(?:for|of (?:people|adults|respondents))\s+)?(?:(?:would )?(?:say|answer|choose)\s+)?"
    r"(?P<name>[^\d\s].*)"
)


def _is_line_value(text: str) -> bool:
    return _read_value(text).kind is not _Kind.TEXT or _bare_value_text(text) in _NO_NUMBER


# Tables

_RULE_CELL = re.compile(r":?-+:?|")


def _table_answers(lines: Sequence[str], table: OptionTable) -> list[_Answer]:
    """Return the answers written as Markdown tables, one option a row or one a column."""
    answers: list[_Answer] = []
    for lead, rows in _tables(lines):
        answers += _row_answers(rows, table, lead) or _column_answers(rows, table, lead)
    return answers


def _tables(lines: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each run of lines with the same number of cells, without rules, and its heading."""
    rows: list[list[str]] = []
    lead = ""
    for line in [*lines, ""]:
        cells = _cells(line)
        if rows and len(cells) != len(rows[0]):
            yield lead, rows
            rows, lead = [], ""
        if len(cells) > 1 and not all(_RULE_CELL.fullmatch(cell) for cell in cells):
            rows.append(cells)
        elif not cells and line.strip():
            lead = line


def _cells(line: str) -> list[str]:
    if "|" not in line:
        return []
    line = line.translate(_EMPHASIS).strip()
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


def _column_answers(rows: list[list[str]], table: OptionTable, lead: str) -> list[_Answer]:
    """Return one answer for each column behind the first that holds only values.

    Several columns are alternatives under the names of the header, as far as they are shares.
    """
    header = [""] * len(rows[0])
    if not any(_is_line_value(cell) and not _is_year(cell) for cell in rows[0][1:]):
        header, rows = rows[0], rows[1:]
    if not rows:
        return []
    width = len(rows[0])
    values = [j for j in range(1, width) if all(_is_line_value(row[j]) for row in rows)]
    answers: list[_Answer] = []
    for column in values:
        entries: list[_Entry] = []
        for row in rows:
            cells = [cell for j, cell in enumerate(row) if j not in values]
            named = tuple(cell for cell in cells if table.find(cell) is not None)
            entries.append(_Entry(named or tuple(cells[:1]), row[column]))
        name = f"{header[column]}:" if len(values) > 1 else lead
        answers.append(_Answer(entries, lead=name))
    return answers


def _row_answers(rows: list[list[str]], table: OptionTable, lead: str) -> list[_Answer]:
    """Return one answer a row of values, below a header of all options.

    A first column that names no option names the rows.
    """
    header, *others = rows
    first = 0 if len(header) == len(table) else 1
    if not others or not _is_bijection(map(table.find, header[first:]), table):
        return []
    if len(header) - first != len(table) or (first and table.find(header[0]) is not None):
        return []
    answers: list[_Answer] = []
    for row in others:
        if not all(map(_is_line_value, row[first:])):
            return []
        pairs = zip(header[first:], row[first:], strict=True)
        name = f"{row[0]}:" if first else lead
        answers.append(_Answer([_Entry((key,), value) for key, value in pairs], lead=name))
    return answers


def _is_year(text: str) -> bool:
    return _YEAR.fullmatch(text.strip()) is not None


# Bare lists


def _list_answers(
    containers: Iterable[_Container], text: str, table: OptionTable, limit: int
) -> list[_Answer]:
    """Return the lists of numbers, the only positional form.

    Amid other text a list is an answer only if it sums to 1 or 100.
    """
    size = len(_unfenced(text))
    answers: list[_Answer] = []
    for container in containers:
        if container.kind != "list" or container.nested or container.start >= limit:
            continue
        values = [value for value in container.values if isinstance(value, str)]
        if len(values) < len(container.values) or not _are_numbers(values):
            continue
        alone = size == container.end - container.start
        for answer in _positional(values, table, alone=alone):
            ordered = _in_stated_order(answer, text, container, table)
            if ordered is not None:
                answers.append(ordered._replace(container=container))
    return answers


def _number_texts(text: str, table: OptionTable, *, alone: bool) -> list[_Answer]:
    """Return the answer of a text that is nothing but numbers."""
    body = _unfenced(text)
    if body.startswith("(") and body.endswith(")"):
        body = body[1:-1].strip()
    if len(body) > _MAX_LINE:
        return []
    if ";" in body:
        values = body.split(";")
    elif len(body.splitlines()) > 1:
        values = [line for line in body.splitlines() if line.strip()]
    else:
        # "25,5" is one number; only blanks, or commas that separate nothing else, make several.
        spaced = re.search(r",\s", body) is not None
        single = not spaced and _read_value(body).kind is _Kind.NUMBER
        separator = r",\s+" if spaced else r"\s+(?!%)" if re.search(r"\S\s+[^\s%]", body) else ","
        values = re.split(separator, body)
        in_brackets = single and body != _unfenced(text)
        if single and not (in_brackets and _is_plausible(list(map(_read_value, values)))):
            values = [body]
        alone = alone and not (spaced and re.search(r",\S", body))
    values = [value.strip().rstrip(",") for value in values]
    if len(values) == 1 and len(table) > 1 and alone and "," in body and _mark(body) is not None:
        return [_Answer([_Entry((), body)], positional=True)]
    if _are_numbers(values):
        return _positional(values, table, alone=alone)
    numbered = _numbered(values, table)
    return [numbered] if numbered else []


def _unfenced(text: str) -> str:
    """Return a text without the lines that open and close code fences."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("```"))
    return "\n".join(lines).strip()


def _positional(values: Sequence[str], table: OptionTable, *, alone: bool) -> list[_Answer]:
    """Return the answer of a list of numbers, if it is one.

    Where each number begins with the code of its option, as in ``1,40``, the rest may be the
    value: then the reading counts that sums to 1 or 100, and none if neither does.
    """
    if _is_plausible([_read_value(value) for value in values]):
        return [_Answer([_Entry((), value) for value in values], positional=True)]
    numbered = _numbered(values, table)
    if numbered:
        rest = [_read_value(entry.value) for entry in numbered.entries]
        return [numbered] if _is_plausible(rest) else []
    if not alone:
        return []
    return [_Answer([_Entry((), value) for value in values], positional=True)]


_ORDER_REACH = 400  # characters around a list in which its order may be stated
_ORDER_WORDS = re.compile(
    r"\b(?:revers\w+|descending|ascending|sorted|respectively|in (?:that|this|the \w+)? ?order"
    r"|order(?:ed)?|start\w* (?:with|from)"
    r"|(?:largest|highest|smallest|lowest|last|best|worst) (?:first|to)"
    r"|from (?:highest|lowest|high|low|largest|smallest|top|bottom|most|last)|first)\b"
)
_CODES_STATED = re.compile(
    rf"\b(?:options?|codes?|order|categories|answers?)\b[^\d\n+-]{{0,20}}"
    rf"(?P<codes>{_CODE}(?:\s*(?:,|;|and|then|>|/)+\s*{_CODE})+)"
)


def _in_stated_order(
    answer: _Answer, text: str, container: _Container, table: OptionTable
) -> _Answer | None:
    """Return a list in the order that the text around it states; None if that is undecided."""
    if not answer.positional or len(answer.entries) != len(table):
        return answer
    before = _plain(text[max(0, container.start - _ORDER_REACH) : container.start])
    after = _plain(text[container.end : container.end + _ORDER_REACH])
    orders = [order for part in (before, after) if (order := _stated_order(part, table))]
    scale = list(range(len(table)))
    told = [order for order in orders if order != scale]
    if not told:
        complete = any(order == scale for order in orders)
        wordy = _ORDER_WORDS.search(before) or _ORDER_WORDS.search(after)
        return None if wordy and not complete and _says_order(before + after, table) else answer
    order = told[-1]
    if sorted(order) != scale or len(told) != len(orders):
        return None
    names = [(str(table.codes[index]),) for index in order]
    pairs = zip(names, answer.entries, strict=True)
    return answer._replace(
        entries=[_Entry(name, entry.value) for name, entry in pairs], positional=False
    )


def _says_order(text: str, table: OptionTable) -> bool:
    """Return whether words of order are more than those of the scale itself."""
    first = table.label_pattern.search(text) if table.label_pattern else None
    if re.search(
        r"\b(?:revers|descend|sorted|second\b|third\b|bottom|backward|(?:largest|highest|last|most)\b)",
        text,
    ):
        return True
    return first is not None and table.index_of(first.group()) != 0


def _stated_order(text: str, table: OptionTable) -> list[int] | None:
    """Return the options in the order in which a text names them; None if it names none or one.

    Options that stand apart in the text are an order only if they would be that of the scale.
    """
    if codes := _CODES_STATED.search(text):
        found = [table.find(code) for code in re.findall(_CODE, codes["codes"])]
        named = [index for index in found if index is not None]
        if len(named) == len(found) == len(table):
            return named
    if table.label_pattern is None:
        return None
    mentions = list(table.label_pattern.finditer(text))[-_MAX_LINES:]
    order = [index for m in mentions if (index := table.index_of(m.group())) is not None]
    if len(set(order)) < 2 or len(order) != len(mentions):
        return None
    if len(order) == len(table) == len(set(order)):
        return order
    if order == [len(table) - 1, 0]:  # from the last one to the first
        between = text[mentions[0].end() : mentions[1].start()]
        return (
            order[:1] + list(range(len(table) - 2, 0, -1)) + order[1:] if "to" in between else order
        )
    return None if order == sorted(order) else order


_NUMBERED = re.compile(rf"\(?(?P<code>{_CODE})\s*[,.;:)\]\s]\s*(?P<value>.+)")


def _numbered(values: Sequence[str], table: OptionTable) -> _Answer | None:
    """Return the answer of ``1) 40`` and the like, with all codes in their order."""
    if len(values) != len(table):
        return None
    entries: list[_Entry] = []
    for text, code in zip(values, table.codes, strict=True):
        match = _NUMBERED.fullmatch(text.strip())
        if match is None or int(match["code"]) != code or not _is_line_value(match["value"]):
            return None
        entries.append(_Entry((match["code"],), match["value"]))
    return _Answer(entries)


def _are_numbers(values: Sequence[str]) -> bool:
    """Return whether a list is one of numbers, gaps such as null included."""
    return (
        len(values) > 1
        and all(_is_line_value(value) for value in values)
        and any(_read_value(value).kind is _Kind.NUMBER for value in values)
    )


# --- 3. Matching keys and choosing the answer ---------------------------------------------------


def _matches(answer: _Answer, table: OptionTable) -> list[int | None]:
    """Return the position of the option each entry names, or None.

    Codes come before labels, since codes are what is asked for. Where some labels are codes of
    other options, labels come first if only then every option is named once.
    """
    if answer.positional:
        return list(range(len(answer.entries)))
    found = [table.find_all(entry.names) for entry in answer.entries]
    if table.clash and not _is_bijection(found, table):
        by_label = [table.find_all(entry.names, labels_first=True) for entry in answer.entries]
        if _is_bijection(by_label, table):
            return by_label
    return found


def _is_bijection(found: Iterable[int | None], table: OptionTable) -> bool:
    named = [index for index in found if index is not None]
    return len(named) == len(set(named)) == len(table)


class _Found(NamedTuple):
    """An answer and what it says."""

    answer: _Answer
    reading: _Reading


_MAX_ALTERNATIVES = 100  # complete answers of one form that are compared


def _chosen_answer(
    forms: Iterable[list[_Answer]], table: OptionTable, text: str, year: str | None
) -> _Found | None:
    """Return the answer that counts, of the first form that has a complete one.

    Of several without names the last counts, as a correction would; one whose sum is off gives way
    to an earlier one whose sum is not. Of several under names of their own that counts which is
    asked for, or none. Without any complete one, it is the last that names some options, else the
    last that gives numbers to something else: these only tell the reason.
    """
    partial: _Answer | None = None
    foreign: _Answer | None = None
    half: _Found | None = None
    for answers in forms:
        complete: list[_Found] = []
        for answer in reversed(answers):
            if len(complete) == _MAX_ALTERNATIVES:
                break
            if _is_aside(answer, table):
                continue
            named = {index for index in _matches(answer, table) if index is not None}
            if answer.positional:
                whole = len(answer.entries) == len(table)
            else:
                whole = len(named) == len(table)
            if whole:
                reading = _read_answer(answer, table, None)
                if answer.unclosed and reading.sum_off:  # the last number may be half of one
                    half = half or _Found(answer, _Reading("sum_off", None, reading.raw_sum, True))
                else:
                    complete.append(_Found(answer, reading))
            elif named:
                partial = partial or answer
            elif any(_unknown_reason(entry) for entry in answer.entries):
                foreign = foreign or answer
        if complete:
            return _of_alternatives(complete[::-1], text, year)
    if half is not None:
        return half
    answer_left = partial or foreign
    if answer_left is None:
        return None
    reading = _read_answer(answer_left, table, None)
    return None if reading.reason is None else _Found(answer_left, reading)


def _of_alternatives(complete: list[_Found], text: str, year: str | None) -> _Found:
    """Return the one of several complete answers, in the order of the text, that counts."""
    last = complete[-1]
    if len(complete) == 1 or (last.reading.reason is not None and not last.reading.sum_off):
        return last
    valid = [found for found in complete if found.reading.reason is None]
    fitting = [found for found in valid if not found.reading.sum_off]
    if not valid:
        return last
    if len({_rounded(found.reading) for found in valid}) == 1:
        return (fitting or valid)[-1]
    named = [(_name_of(found.answer, text), found) for found in valid]
    if fitting:
        # A sum that is off gives way, but one under a name of its own may be what was meant.
        named = [
            (name, found)
            for name, found in named
            if not found.reading.sum_off or (any(name) and _is_rough_distribution(found.reading))
        ]
    pool = [found for _, found in named]
    return _asked_for([one for one in named if not _is_inside_another(one[1], pool)], year)


def _rounded(reading: _Reading) -> tuple[float, ...]:
    return tuple(round(p, 9) for p in reading.probs or ())


def _is_rough_distribution(reading: _Reading) -> bool:
    total = reading.raw_sum or 0.0
    return 0.5 <= total <= 1.5 or 50 <= total <= 150


def _is_inside_another(found: _Found, pool: Sequence[_Found]) -> bool:
    """Return whether an answer stands inside the object of another one, as its breakdown."""
    around = found.answer.container
    others = [id(other.answer.container) for other in pool if other.answer.container]
    while around is not None and around.parent is not None:
        around = around.parent
        if id(around) in others:
            return True
    return False


# --- Alternatives -------------------------------------------------------------------------------

_YEAR = re.compile(r"(?<!\d)(?:1[89]|20|21)\d\d(?!\d)")

#: Words for the answer itself. Names made of these alone are no names of alternatives.
_ANSWER_WORDS = _words(
    "answer answers distribution distributions percentage percentages percent pct share"
    " shares probability probabilities prob proportion proportions estimate estimates"
    " estimated estimation result results response responses output prediction predictions"
    " predicted values value data json final last corrected correction correct revised"
    " revision updated update adjusted adjustment normalised normalized rescaled scaled"
    " rounded best point central main definitive actual sum sums sum up add adds total totals"
    " better instead rather actually so therefore thus hence then wait sorry no not or again"
    " let try wrong mistake error fix fixed which one survey option options antwort"
    " verteilung korrektur korrigiert endgültig respuesta distribución corrección corregido"
    " réponse répartition corrigé résultat version versions attempt"
    " revise reflection change modify adjust correcting resposta risposta 答案 修正"
    " 更正"
)
#: Words that say nothing of their own.
_EMPTY_WORDS = _words(
    "a an the of for in is are was were be been would will should could can may might must it"
    " its this that these those here there as at by on with to and but i i'm i'd i'll we my"
    " our me us you have has had do does did get gives give given make makes made"
    " following follows below above now more most think say believe guess approximately about"
    " around roughly likely overall hmm ok okay sure well also just really e.g eg etc each"
    " all both who what how im id"
)
#: Fields of an object that say of what its other fields are the distribution.
_NAMING_FIELDS = _words(
    "year wave round period date time scenario case group subgroup gender sex age cohort"
    " segment region country population name title type kind version draft variant model"
    " method source label sample bound estimate status stage step jahr année año geschlecht"
    " sexe sexo"
)
_MAX_NAME_WORDS = {True: 6, False: 3}  # of a heading, and of words that merely come before
_CLAUSE_END = re.compile(r"[.!?;,]\s+|\n|\{|->")
_TAG_BEFORE = re.compile(r"<([A-Za-z][\w-]{0,30})>\s*(?:```\w*)?\s*\Z")
_NAME_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def _name_of(answer: _Answer, text: str) -> tuple[str, ...]:
    """Return the words of the names under which an answer stands; none if it has no name.

    Words for the answer itself count as one name, the empty word.
    """
    words: list[str] = []
    if answer.lead is not None:
        words += _name_words(answer.lead)
    around = answer.container
    if around is not None:
        top = around
        while True:
            words += _field_words(around)
            if around.key is not None:
                words += _name_words(f"{around.key}:")
            if around.parent is None:
                break
            around = top = around.parent
        words += _name_words(_text_before(text, top.start))
    return tuple(dict.fromkeys(words))


def _field_words(container: _Container) -> list[str]:
    """Return the words of the fields that say what an object is about."""
    words: list[str] = []
    for key, value in zip(container.keys, container.values, strict=False):
        if isinstance(value, str) and _field_name(key) in _NAMING_FIELDS:
            words += _name_words(f"{value}:")
    return words


def _text_before(text: str, position: int) -> str:
    """Return what stands directly before an answer, back to the answer before it."""
    gap = text[max(0, position - _ORDER_REACH) : position]
    if tag := _TAG_BEFORE.search(gap):
        return f"{tag[1]}:"
    lines = [line for line in gap.splitlines() if not line.lstrip().startswith("```")]
    blank = gap.rstrip(" ").endswith("\n")
    above = [line for line in lines if line.strip(" *_#`[")]
    if not above:
        return ""
    line = above[-1].strip()
    line = line[max(line.rfind("}"), line.rfind("]")) + 1 :]
    if blank and not (line.endswith((":", "*")) or line.startswith(("#", "*"))):
        return line if len(line.split()) <= _MAX_NAME_WORDS[False] else ""
    return line


def _name_words(lead: str) -> list[str]:
    """Return the words that name an alternative in what stands above or before it."""
    lead = lead.translate(_EMPHASIS).strip()
    if lead.endswith((".", "!", "?", ";")):
        return []  # a sentence that is over
    heading = lead.endswith(":") or lead.startswith(("#", "<"))
    clauses = [part for part in _CLAUSE_END.split(lead.strip(" #:>-")) if part.strip()]
    if not clauses:
        return []
    years = _YEAR.findall(clauses[-1])
    words = _NAME_WORD.findall(_fold(clauses[-1].replace("_", " ")))
    own = [word for word in words if word not in _ANSWER_WORDS and word not in _EMPTY_WORDS]
    if words and words[-1] not in own and len(words[-1]) == 1:
        own.append(words[-1])  # "Option A"
    if any(word in _ANSWER_WORDS for word in words):  # "adds up to 110"
        own = [w for w in own if not (w.isdecimal() and len(w) > 1 and w not in years)]
    if years:
        return [*years, *(word for word in own if not _YEAR.search(word))]
    if not own:
        return [""] if any(word in _ANSWER_WORDS for word in words) else []
    return own if len(own) <= _MAX_NAME_WORDS[heading] else []


def _asked_for(named: list[tuple[tuple[str, ...], _Found]], year: str | None) -> _Found:
    """Return the alternative that is named by the year asked for or as the answer, or none.

    Those that share a name, or have none, follow each other as corrections do.
    """
    found = [alternative for _, alternative in named]
    if year is not None:
        own = [(name, one) for name, one in named if {y for y in name if _is_year(y)} == {year}]
        if own:
            rest = [(tuple(w for w in name if w != year), one) for name, one in own]
            return _asked_for(rest, None)
    answers = [(name, one) for name, one in named if "" in name]
    if answers and (len(answers) < len(named) or any(len(name) > 1 for name, _ in answers)):
        # Words for the answer above "2004" and "2019" alike do not choose between these.
        return _asked_for([(tuple(w for w in name if w), one) for name, one in answers], None)
    if len({name for name, _ in named}) == 1 or len({_rounded(one.reading) for one in found}) == 1:
        return found[-1]
    return _Found(found[-1].answer, _Reading("several_answers"))


# --- Asides -------------------------------------------------------------------------------------


def _is_aside(answer: _Answer, table: OptionTable) -> bool:
    """Return whether an answer gives every option its own code or label, or a year.

    Such numbers are the scale or a date, not a distribution, unless they sum to 1 or 100.
    """
    found = _matches(answer, table)
    pairs = list(zip(answer.entries, found, strict=True))
    if _is_bijection(found, table) and all(
        index is None or _is_name_of(entry.value, index, table) for entry, index in pairs
    ):
        return True
    numbers: dict[int, float] = {}
    for entry, index in pairs:
        if index is not None:
            value = _read_value(entry.value)
            if value.kind is not _Kind.NUMBER or index in numbers or index >= len(table):
                return False
            numbers[index] = value.number
    if len(numbers) < len(table) or not _is_off(_sum(numbers.values()), _SUM_TOLERANCE):
        return False
    return all(number == table.codes[index] for index, number in numbers.items()) or all(
        number.is_integer() and _FIRST_YEAR <= number <= _LAST_YEAR for number in numbers.values()
    )


def _is_name_of(value: _Raw, index: int, table: OptionTable) -> bool:
    """Return whether a value is the text of an option."""
    if isinstance(value, _Container) or _read_value(value).kind is not _Kind.TEXT:
        return False
    return table.find(value) == index


_SIDE_KEY = re.compile(_SIDE_WORDS)
_SUM_SHOWN = re.compile(r"\d\s*%?\s*\+\s*\d|[^\W\d]\s*\+\s*[^\W\d]")


def _is_side_key(name: str) -> bool:
    """Return whether a key stands beside a distribution: a total, a size, a check of the sum."""
    if len(name) > _MAX_NUMBER:
        return False
    folded = _fold(name)
    parts = re.split(r"[:=]", re.sub(r"\s*\([^()]*\)", "", folded.replace("_", " ")))
    bare = [_bare(part.strip()) for part in parts if part.strip()]
    return (
        folded in _SIDE_KEYS
        or (bare != [] and all(_SIDE_KEY.fullmatch(part) for part in bare))
        or _SUM_SHOWN.search(folded) is not None
    )


def _unknown_reason(entry: _Entry, table: OptionTable | None = None) -> str | None:
    """Return what is wrong with an entry that names no option, if it is more than an aside.

    With a table, numbers in an object or a list count as well, unless they are a distribution of
    their own, such as that of a group.
    """
    if any(_is_side_key(name) for name in entry.names):
        return None
    if isinstance(entry.value, _Container):
        if table is None or _is_bijection(map(table.find, entry.value.keys), table):
            return None
        inner = _object_entries(entry.value) or [_Entry((), raw) for raw in entry.value.values]
        return _first_reason(_unknown_reason(part, table) or "" for part in inner)
    value = _read_value(entry.value)
    if value.kind is _Kind.NUMBER and abs(value.number) <= ATOL:
        return None
    if value.kind is _Kind.INTERVAL:  # of percentages; a period such as 2017-2022 is an aside
        return "range" if value.number <= 100 else None
    return None if value.kind is _Kind.TEXT else "unknown_option"


# --- 4. Values and units ------------------------------------------------------------------------


class _Kind(Enum):
    NUMBER = auto()
    INTERVAL = auto()
    NOT_FINITE = auto()
    TEXT = auto()


class _Value(NamedTuple):
    """A value as read: its kind, its number (an interval's upper end) and its percent sign."""

    kind: _Kind
    number: float = math.nan
    percent: bool = False


_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")
_ABOUT = (
    r"(?:[~≈\u223c≃≅]|about|around|approximately|approx\.?|roughly|circa|ca\.?|c\.|almost|nearly)"
    r"\s*"
)
_DIGITS = r"(?:\d[\d.,]*|\.\d+)"
_PERCENT = r"(?:%|percent|per cent|pct\.?)"
_AMOUNT = rf"[+-]?{_DIGITS}\s*{_PERCENT}?"
_TRAILER = r"(?:\s*\([^\d]*\)|\s+of\s[^\d]*)?"
_TWICE = re.compile(
    rf"(?P<first>[^()=]{{1,40}}?)\s*"
    rf"(?:\((?P<inside>[^()]{{1,60}})\)|(?:=|/|, or|or)\s*(?P<after>{_AMOUNT}))\s*"
)
_NUMBER = re.compile(
    rf"(?:{_ABOUT})?(?P<before>%\s*)?(?P<number>[+-]?{_DIGITS}(?:e[+-]?\d+)?)"
    rf"\s*(?P<after>{_PERCENT})?{_TRAILER}"
)
_INTERVALS = tuple(
    re.compile(pattern + _TRAILER)
    for pattern in (
        rf"(?:{_ABOUT})?(?:between\s+|from\s+)?{_AMOUNT}\s*"
        rf"(?:-|\u2013|\u2014|~|\.\.+|\bto\b|\band\b|\bor\b|±|\+/-)\s*{_AMOUNT}",
        r"(?:<=?|>=?|≤|≥|(?:less|more|fewer|greater) than|under|over|below|above|at (?:least|most)"
        rf"|up to)\s*{_AMOUNT}",
        rf"{_AMOUNT}\s*(?:\+|(?:or|and) (?:more|less|above|below|higher|lower|over|under))",
    )
)
_NOT_FINITE = frozenset({"nan", "inf", "infinity", "∞"})


_AROUND_VALUE = " \t\r\n\"'`*\u00ad\u200b\u200c\u200d\u2060\ufeff"


def _bare_value_text(text: str) -> str:
    """Return a value without the quotes, emphasis and final punctuation around it."""
    plain = text.translate(_SIGNS).translate(_STRAIGHT_QUOTES).casefold()
    return plain.strip(_AROUND_VALUE).rstrip(_AROUND_VALUE + ",;.!")


def _read_value(raw: _Raw) -> _Value:
    """Return a value as a number, an interval, something infinite, or mere text."""
    if isinstance(raw, _Container):
        return _Value(_Kind.TEXT)
    if len(raw) <= _MAX_NUMBER:
        return _read_text(raw)
    return _finite(float(raw)) if _PLAIN_NUMBER.fullmatch(raw) else _Value(_Kind.TEXT)


@lru_cache(maxsize=4096)
def _read_text(text: str) -> _Value:
    if _PLAIN_NUMBER.fullmatch(text):
        return _finite(float(text))
    text = _bare_value_text(text)
    if text.removeprefix("%").removesuffix("%").strip(" +-") in _NOT_FINITE:
        return _Value(_Kind.NOT_FINITE)
    if match := _NUMBER.fullmatch(text):
        number = _separated_number(match["number"])
        if number is not None:
            return _finite(number, bool(match["before"] or match["after"]))
    if "(" in text or "=" in text or "/" in text:
        twice = _said_twice(text)
        if twice is not None:
            return twice
    if any(interval.fullmatch(text) for interval in _INTERVALS):
        ends = [_separated_number(digits) for digits in re.findall(_DIGITS, text)]
        return _Value(_Kind.INTERVAL, max((end for end in ends if end is not None), default=0.0))
    return _Value(_Kind.TEXT)


_PRECISION = re.compile(
    rf"(?:(?:±|\+/-|\+-)\s*{_AMOUNT}|(?:n|base)\s*=\s*[\d.,]+"
    rf"|(?:n\s*=\s*)?[\d.,]+\s+(?:people|respondents|adults|persons|votes|out of [\d.,]+)"
    rf"|(?:(?:95\s*%\s*)?(?:ci|range)\s*[:=]?\s*)?\[?(?P<low>{_AMOUNT})\s*(?:-|\u2013|\u2014"
    rf"|\bto\b|,)\s*"
    rf"(?P<high>{_AMOUNT})\]?)"
)
_RATIO = re.compile(rf"(?P<part>{_DIGITS})\s*(?:/|out of)\s*(?P<whole>{_DIGITS})")


def _said_twice(text: str) -> _Value | None:
    """Return the number of ``0.4 (40%)``, ``40% (n = 400)`` or ``2/5 (40%)``, if both agree."""
    match = _TWICE.fullmatch(text)
    if match is None:
        return None
    first, second = _plain_value(match["first"]), match["inside"] or match["after"]
    precision = _PRECISION.fullmatch(second.strip()) if match["inside"] else None
    if precision is not None and first is not None:
        low, high = (_plain_value(precision[end] or "") for end in ("low", "high"))
        if low is None or high is None:
            return first
        return first if low.number <= first.number <= high.number else None
    other = _plain_value(second)
    if other is None:
        return None
    if first is None:
        ratio = _RATIO.fullmatch(match["first"].strip())
        part, whole = (_separated_number(ratio[n]) if ratio else None for n in ("part", "whole"))
        if part is None or not whole:
            return None
        return other if abs(part / whole - _as_share(other)) <= 0.006 else None
    same = abs(first.number - other.number) <= ATOL or (
        abs(_as_share(first) - _as_share(other)) <= 0.0051
    )
    return first if same else None


def _plain_value(text: str) -> _Value | None:
    match = _NUMBER.fullmatch(text.strip())
    number = _separated_number(match["number"]) if match else None
    if match is None or number is None:
        return None
    return _finite(number, bool(match["before"] or match["after"]))


def _as_share(value: _Value) -> float:
    return value.number / 100 if value.percent or value.number > 1 else value.number


_SAYS = re.compile(
    r"(?:(?:for|of|say|says|said|answer|answered|chose|choose|option|saying|answering|people"
    r"|respondents"
    r"|that|is|would|who|the)\b|[\s:=,;()\[\]\"'>-])+"
)


def _beside_value(raw: _Raw) -> str:
    """Return what a value says beside its number, such as a label in brackets."""
    if isinstance(raw, _Container) or len(raw) > _MAX_NUMBER:
        return ""
    text = _bare_value_text(raw)
    if _PLAIN_NUMBER.fullmatch(text):
        return ""
    rest = re.sub(rf"{_ABOUT}|[+-]?{_DIGITS}\s*{_PERCENT}?", " ", text, count=1)
    said = _SAYS.match(rest)
    return rest[said.end() if said else 0 :].strip(" ()[].,;:\"'")


def _finite(number: float, percent: bool = False) -> _Value:
    if math.isfinite(number):
        return _Value(_Kind.NUMBER, number, percent)
    return _Value(_Kind.NOT_FINITE, percent=percent)


def _separated_number(text: str) -> float | None:
    """Return a number with thousands separators or a decimal comma, or None.

    A comma followed by exactly three digits after a non-zero integer part separates thousands;
    any other single comma is a decimal one.
    """
    mantissa, mark, exponent = text.rstrip(".,").partition("e")
    if "," in mantissa:
        whole, *groups = mantissa.split(",")
        last, dot, decimals = groups[-1].partition(".")
        groups[-1] = last
        has_integer_part = any(digit not in "0+-" for digit in whole)
        if "." in whole:
            # 1.234,5: points separate thousands, and the one comma is decimal
            if dot or len(groups) > 1 or not re.fullmatch(r"[+-]?\d{1,3}(?:\.\d{3})+", whole):
                return None
            mantissa = f"{whole.replace('.', '')}.{last}"
        elif has_integer_part and all(len(group) == 3 for group in groups):
            mantissa = f"{whole}{''.join(groups)}{dot}{decimals}"
        elif len(groups) == 1 and not dot:
            mantissa = f"{whole}.{last}"
        else:
            return None
    plain = f"{mantissa}{mark}{exponent}"
    return float(plain) if _PLAIN_NUMBER.fullmatch(plain) else None


class _Mark(Enum):
    """What the comma or point of a number is."""

    DECIMAL_COMMA = auto()
    THOUSANDS_COMMA = auto()
    EITHER_COMMA = auto()  # 12,500
    DECIMAL_POINT = auto()
    EITHER_POINT = auto()  # 1.200


_MARKED = (
    (re.compile(r"[+-]?0*[1-9]\d*,\d{3}"), _Mark.EITHER_COMMA),
    (re.compile(r"[+-]?[\d.]*,\d*"), _Mark.DECIMAL_COMMA),
    (re.compile(r".*,.*"), _Mark.THOUSANDS_COMMA),
    (re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}"), _Mark.EITHER_POINT),
    (re.compile(r".*\..*"), _Mark.DECIMAL_POINT),
)


def _mark(raw: _Raw) -> _Mark | None:
    """Return what the comma or point of a value is, as far as the value itself tells."""
    if isinstance(raw, _Container) or len(raw) > _MAX_NUMBER:
        return None
    match = _NUMBER.fullmatch(_bare_value_text(raw))
    if match is None:
        return None
    digits = match["number"].rstrip(".,")
    return next((mark for pattern, mark in _MARKED if pattern.fullmatch(digits)), None)


def _read_values(texts: Sequence[_Raw]) -> list[_Value]:
    """Return the values of one answer, in which commas and points mean the same throughout.

    A comma that may be either is decimal beside one that must be. Where the marks contradict
    each other, or the other meaning would be as good, the values are no numbers, unless they sum
    to 1 or 100.
    """
    values = [_read_value(text) for text in texts]
    marks = [_mark(text) for text in texts]
    present = {mark for mark in marks if mark is not None}
    if not present - {_Mark.DECIMAL_POINT}:
        return values
    comma, point = _Mark.EITHER_COMMA, _Mark.EITHER_POINT
    as_decimals = [
        _read_value(text.replace(",", ".")) if mark is comma and isinstance(text, str) else value
        for text, mark, value in zip(texts, marks, values, strict=True)
    ]
    if _Mark.DECIMAL_COMMA in present:
        doubtful = bool(present - {_Mark.DECIMAL_COMMA, comma})
        values = as_decimals
    else:

        def all_are(mark: _Mark) -> bool:  # then the meaning changes nothing
            pairs = zip(marks, values, strict=True)
            return all(found is mark or not value.number for found, value in pairs)

        doubtful = (
            (point in present and len(present) > 1 and _Mark.DECIMAL_POINT not in present)
            or (present == {point} and not all_are(point) and _are_counts(texts, values))
            or (present == {comma} and not all_are(comma) and _is_plausible(as_decimals))
        )
    if doubtful and not _is_plausible(values):
        return [_Value(_Kind.TEXT)] * len(values)
    return values


def _are_counts(texts: Sequence[_Raw], values: Sequence[_Value]) -> bool:
    """Return whether values read as more than percentages, or have points as no float prints."""
    if any(value.number > 100 for value in values):
        return True
    return any(
        isinstance(text, str)
        and _mark(text) is _Mark.EITHER_POINT
        and re.search(r"0\D*\Z", text) is not None
        for text in texts
    )


def _is_plausible(values: Sequence[_Value]) -> bool:
    """Return whether all values are numbers and sum to 1 or 100."""
    if any(value.kind is not _Kind.NUMBER for value in values):
        return False
    numbers = _settle_units(values)
    return numbers is not None and not _is_off(_sum(numbers), _SUM_TOLERANCE)


def _settle_units(values: Sequence[_Value]) -> list[float] | None:
    """Return numbers in one unit, negative ones clipped to 0, or None if the unit is undecided.

    Signs on all or on no values change nothing. With signs on some, either those values are
    hundredths or all are percents: the reading counts whose sum comes within 2 % of 1 or 100,
    the closer one if both do.
    """
    plain = [max(0.0, value.number) for value in values]
    if len({value.percent for value in values}) < 2:
        return plain
    hundredths = [
        number / 100 if value.percent else number
        for number, value in zip(plain, values, strict=True)
    ]
    all_percents = _sum_error(_sum(plain)) < _sum_error(_sum(hundredths)) - ATOL
    closer = plain if all_percents else hundredths
    return None if _is_off(_sum(closer), _SUM_TOLERANCE) else closer


# --- 5. Sums and reasons ------------------------------------------------------------------------


class _Reading(NamedTuple):
    """A distribution, or the reason why an answer holds none."""

    reason: str | None
    probs: tuple[float, ...] | None = None
    raw_sum: float | None = None
    sum_off: bool = False


def _read_answer(answer: _Answer, table: OptionTable, max_sum_error: float | None) -> _Reading:
    """Return the distribution of an answer, or the first reason against it."""
    found = _matches(answer, table)
    reasons: set[str] = set()
    positions: list[int] = []
    texts: list[_Raw] = []
    for entry, index in zip(answer.entries, found, strict=True):
        if index is None:
            reasons.add(_unknown_reason(entry, table) or "")
        else:
            positions.append(index)
            texts.append(entry.value)
            beside = _beside_value(entry.value)
            if beside and table.by_name.get(_plain(beside), index) not in (index, None):
                reasons.add("unknown_option")  # the label beside the value is another one's
    values = _read_values(texts)
    kinds = {value.kind for value in values}
    reasons.update(_KIND_REASONS[kind] for kind in kinds if kind in _KIND_REASONS)
    if answer.positional:
        if len(values) != len(table):
            reasons.add("length_mismatch")
    else:
        if len(set(positions)) < len(positions):
            reasons.add("duplicate_option")
        if len(set(positions)) < len(table):
            reasons.add("missing_option")
    numbers = _settle_units([value for value in values if value.kind is _Kind.NUMBER])
    if numbers is None:
        reasons.add("mixed_units")
    first = _first_reason(reasons)
    if first is not None or numbers is None:
        return _Reading(first)
    return _normalise(numbers, positions, max_sum_error)


_KIND_REASONS = {
    _Kind.INTERVAL: "range",
    _Kind.TEXT: "not_numeric",
    _Kind.NOT_FINITE: "not_finite",
}


def _first_reason(reasons: Iterable[str]) -> str | None:
    return min((r for r in reasons if r), key=_REASONS.index, default=None)


def _normalise(
    numbers: Sequence[float], positions: Sequence[int], max_sum_error: float | None
) -> _Reading:
    """Return the numbers, one an option, divided by their sum."""
    raw_sum = _sum(numbers)
    if not math.isfinite(raw_sum):
        return _Reading("not_finite")
    sum_off = _is_off(raw_sum, _SUM_TOLERANCE)
    if raw_sum <= ATOL:
        return _Reading("no_mass", None, raw_sum, sum_off)
    if max_sum_error is not None and _is_off(raw_sum, max_sum_error):
        return _Reading("sum_off", None, raw_sum, sum_off)
    probs = [0.0] * len(numbers)
    for number, position in zip(numbers, positions, strict=True):
        probs[position] = number / raw_sum
    return _Reading(None, tuple(probs), raw_sum, sum_off)


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
        reading = _Reading("length_mismatch")
    elif not all(math.isfinite(value) for value in values):
        reading = _Reading("not_finite")
    else:
        reading = _normalise([max(value, 0.0) for value in values], range(n_options), None)
    status = "ok" if reading.reason is None else "invalid"
    return ParsedDistribution(
        status, reading.reason, reading.probs, reading.raw_sum, reading.sum_off, None
    )


def _sum(numbers: Iterable[float]) -> float:
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _sum_error(total: float) -> float:
    """Return how far a sum is from 1, or in hundredths from 100, whichever is closer."""
    return min(abs(total - 1), abs(total - 100) / 100)


def _is_off(total: float, tolerance: float) -> bool:
    return abs(total - 1) > tolerance + ATOL and abs(total - 100) > 100 * tolerance + ATOL


# --- Refusals -----------------------------------------------------------------------------------

_REFUSAL_REACH = 2_000  # characters at either end of an answer that are searched

# Written as they are compared: folded, with straight quotes.
_REFUSALS = re.compile(
    "|".join(
        _nfkc(pattern)
        for pattern in (
            # English
            r"\b(?:i'?m|i am|we'?re|we are) (?:(?:very|so|truly|really) )?sorry\b",
            r"\bsorry,? (?:but )?(?:i|we)\b",
            r"\b(?:i|we) (?:must )?(?:respectfully )?(?:apologi[sz]e|decline|refuse)\b",
            r"\b(?:i|we) (?:(?:really|simply|just|also|therefore|personally) )?"
            r"(?:can ?not|can'?t|won'?t|will not|could not|couldn'?t)\b"
            r"(?! be (?:\w+ )?(?:certain|sure|precise|exact))",
            r"\b(?:i'?m|i am|we'?re|we are) (?:unable|not able|not comfortable|not allowed) to\b",
            r"\bi (?:do not|don'?t) feel comfortable\b",
            r"\b(?:i|we) (?:(?:do not|don'?t|never) (?:really |actually )?(?:have|hold|possess"
            r"|share|express"
            r"|form|offer)|have no|hold no) (?:any |personal |own |subjective |political |such "
            r"|an )*"
            r"(?:opinions?|views?|beliefs?|feelings?|preferences?|stances?|values|experiences?)\b",
            r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b[^.!?]{0,200}?"
            r"\b(?:can ?not|can'?t|unable|not able|do not|don'?t|should not|shouldn'?t)\b",
            r"\A\W*unable to (?:comply|provide|answer|assist|help|estimate)\b",
            # Spanish, Portuguese, French, Italian, German, Dutch
            r"\blo siento\b|\bno puedo\b|\bno me es posible\b|\bno soy capaz\b",
            r"\b(?:sinto muito|desculpe|lamento)\b|\bnão (?:posso|consigo)\b",
            r"\bdésolée?\b|\bje ne (?:peux|puis) pas\b|\bje ne suis pas en mesure\b",
            r"\bmi dispiace\b|\bnon posso\b|\bnon sono in grado\b",
            r"\btut mir leid\b|\bich kann [^.!?]{0,120}?\b(?:nicht|kein\w*)\b",
            r"\bhet spijt me\b|\bik kan [^.!?]{0,120}?\b(?:niet|geen)\b",
            # Polish, Turkish, Russian, Ukrainian
            r"\b(?:przykro mi|przepraszam)\b|\bnie mogę\b",
            r"\büzgünüm\b",
            r"\b(?:извините|простите)\b|\bя не (?:могу|можу)\b|\bвибачте\b",  # noqa: RUF001
            # Arabic, Hindi, Indonesian, Vietnamese
            r"عذرًا|عذرا|آسف|لا أستطيع|لا يمكنني",
            r"क्षमा करें|माफ़ करें|मैं नहीं",
            r"\bmaaf\b|\bsaya tidak (?:dapat|bisa)\b",
            r"\bxin lỗi\b|\btôi không thể\b",
            # Chinese, Japanese, Korean
            r"抱歉|对不起|對不起|我(?:不能|无法|無法)",
            r"申し訳|お答えできません|できかねます",
            r"죄송|답변할 수 없|제공할 수 없",
        )
    )
)


def _declines(answer: str, table: OptionTable) -> bool:
    """Return whether a model says, in the first person, that it will not answer."""
    if len(answer) > 2 * _REFUSAL_REACH:
        answer = f"{answer[:_REFUSAL_REACH]}\n{answer[-_REFUSAL_REACH:]}"
    folded = _fold(answer)
    for label in table.labels:  # a label such as "I can't say" is not the model speaking
        if _REFUSALS.search(label):
            folded = folded.replace(label, " ")
    return _REFUSALS.search(folded) is not None


# --- Single choices -----------------------------------------------------------------------------


class _Choice(NamedTuple):
    """A chosen code, or the reason why a choice does not count."""

    code: int | None
    reason: str | None
    strict: bool


_CHOICE_FIELDS = frozenset(
    {"answer", "choice", "option", "code", "label", "response", "selected", "selection", "mode"}
    | {"selected option", "chosen option", "final answer", "most common answer", "category"}
    | {"most common option", "most common", "prediction", "result", "rating", "score"}
)
_NULLS = frozenset({"", "null", "none", "nan", "n/a"})
_STANDALONE_CODE = re.compile(r"(?<![\w.,%+-])[+-]?[0-9]{1,18}(?![\w%]|[.,][0-9])")


def _find_choice(
    answer: str, table: OptionTable, finish_reason: str | None, reader: _ChoiceReader
) -> _Choice | None:
    """Return the choice of an answer in the first form that has one; None without any."""
    cut = finish_reason == "length"
    for json_reader in (_StrictReader(answer), _NearReader(answer)):
        found = _json_choice(json_reader, reader, cut=cut)
        if found is not None:
            return found
    if cut:
        return None
    found = _wrapped_choice(answer, reader)
    if found is None:
        found = reader.read(_untagged(answer))
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
            return _Choice(None, "missing_option", False)
    return found


def _json_choice(json_reader: _Reader, reader: _ChoiceReader, *, cut: bool) -> _Choice | None:
    """Return the choice of the objects that make one: the last, unless they are alternatives."""
    scan, answer = _scan(json_reader), json_reader.text
    strict = isinstance(json_reader, _StrictReader)
    limit = scan.limit(len(answer)) if cut else len(answer)
    found: list[tuple[_Container, _Choice]] = []
    for container in reversed(scan.closed):
        if container.kind != "object" or container.start >= limit or not container.values:
            continue
        names = _chosen_names(container, reader.table)
        if names is not None:
            found.append((container, _decide(names, reader, strict=strict)))
            if len(found) == _MAX_LINES:
                break
    if not found:
        return None
    last = found[0][1]
    if len({choice.code for _, choice in found}) > 1:
        # The names of those around them: a correction has none of its own.
        named = [(_name_of(_Answer([], container=one), answer), choice) for one, choice in found]
        own = {tuple(word for word in name if word) for name, _ in named}
        final = [choice for name, choice in named if "" in name]
        if len(own) > 1:
            codes = {choice.code for choice in final}
            chosen = final[0] if len(codes) == 1 else None
            return chosen or _Choice(None, "several_answers", strict)
    return last


def _chosen_names(container: _Container, table: OptionTable) -> list[str] | None:
    """Return the texts an object chooses with, or None if it is no choice."""
    fields = zip(container.keys, container.values, strict=False)
    chosen = [value for key, value in fields if _field_name(key) in _CHOICE_FIELDS]
    if not chosen and len(container.keys) == 1 and isinstance(container.values[0], str):
        key, value = container.keys[0], container.values[0]
        if _read_value(value).kind is _Kind.TEXT and table.find(key) is not None:
            return [key, value]  # {"2": "No"}
    names: list[str] = []
    for raw in chosen:
        items = [raw] if isinstance(raw, str) else raw.values
        names += [item for item in items if isinstance(item, str)]
    return names if chosen else None


def _decide(names: Iterable[str], reader: _ChoiceReader, *, strict: bool) -> _Choice:
    """Return the one option that all names name, or why there is none."""
    table = reader.table
    given = [n for n in names if table.find(n) is not None or _fold(n) not in _NULLS]
    if not given:
        return _Choice(None, "missing_option", strict)
    said = _Said()
    for name in given:
        index = table.find(name)
        if index is not None:
            said.add(_Choice(table.codes[index], None, strict))
            continue
        found = reader.read(name)
        said.add(found if found is not None else _Choice(None, "unknown_option", strict))
    choice = said.choice()
    return (
        _Choice(None, "missing_option", strict)
        if choice is None
        else choice._replace(strict=strict)
    )


_BOXED = re.compile(r"\\boxed\s?\{([^{}]{1,500})\}")
_ANSWER_TAG = re.compile(
    r"<(answer|final[_-]?answer|final|response|choice|option|selection|rating|score|number|result)>"
    r"([^<]{1,500})</",
    re.IGNORECASE,
)


def _wrapped_choice(answer: str, reader: _ChoiceReader) -> _Choice | None:
    """Return what a box or the tags of an answer hold, if it is a choice."""
    if "\\boxed" not in answer and "</" not in answer:
        return None
    contents = _BOXED.findall(answer) or [match[2] for match in _ANSWER_TAG.finditer(answer)]
    said = _Said()
    for content in contents[-_MAX_LINES:]:
        said.add(reader.read(content))
    return said.choice()


def _is_json_scalar(text: str) -> bool:
    value = _StrictReader(text).value(0)
    return value is not None and value.end == len(text)


class _Said:
    """What an answer says in several places, and whether that is one choice."""

    def __init__(self) -> None:
        self._codes: set[int] = set()
        self._reasons: set[str] = set()
        self._strict = True

    def add(self, choice: _Choice | None) -> None:
        """Take a choice, or the reason why there is none, into account."""
        if choice is None:
            return
        self._strict &= choice.strict
        if choice.code is not None:
            self._codes.add(choice.code)
        elif choice.reason is not None:
            self._reasons.add(choice.reason)

    def choice(self) -> _Choice | None:
        """Return the one choice, the reason against it, or None if nothing was said."""
        if "range" in self._reasons:
            return _Choice(None, "range", False)
        if len(self._codes) > 1 or "duplicate_option" in self._reasons:
            return _Choice(None, "duplicate_option", False)
        if self._reasons:
            return _Choice(None, min(self._reasons), False)
        return _Choice(min(self._codes), None, self._strict) if self._codes else None


# --- Options named in sentences -----------------------------------------------------------------

_MAX_MENTIONS = 2_000  # of a text that names more, those at its ends are read
_GAP = 80  # characters between words that announce a choice and the choice
_REACH = 400  # characters of a sentence that are searched on either side


class _Mention(NamedTuple):
    """A place where a text names an option, or a number or pair that names none."""

    start: int
    end: int
    option: int | None
    paired: bool = False  # code and label together
    number: bool = False  # a number alone


_NUMBER_IN_TEXT = (
    r"(?<![A-Za-z0-9_.,%⁄])(?:(?<!\w)[+-])?[0-9]{1,18}(?:[.,][0-9]+)*+"  # noqa: RUF001
    r"(?![A-Za-z0-9_⁄]|\s?%|[.,][0-9]|-?\s?(?:point|star|step|item|year|percent)s?\b)"  # noqa: RUF001
)
_PAIR_SEPARATOR = r"(?:\.0+)?[\s.):\]=,#>|-]{0,6}[\"'(\[]{0,2}\s?"
_AFTER_LABEL = re.compile(
    r"[\"')\]]*(?:\s*(?:[.,;:!?()/\n|-]|\Z|[^\x00-\x7f]|[\[(]?\d)|\s(?:as|and|because|for|in|or"
    r"|since|but|with"
    r"|that|to|is|would|rather|over|due|given|which|while|although|though|however|considering|when"
    r"|if|on|at|are|was|not|seems|fits|best|it|this|i)\b)"
)

# Words that announce a choice.
_CUES = (
    r"\b(?:"
    r"(?:choos(?:e|es|ing)|chose|pick|select(?:ed)?|chosen|go(?:ing)? with|opt for|vote for"
    r"|settle on"
    r"|lean(?:ing)? towards?|rat(?:e|ed|ing)|scor(?:e|ed|ing)|rank|assign|give|gave|say|put|place"
    r"|(?:would|will|'d|to|must|should) (?:answer|respond|reply)(?: with| is| as)?)\b"
    r"|(?<!each )(?<!every )(?<!possible )(?<!any )(?<!all )(?<!which )(?<!what )(?<!either )"
    r"(?:answer|choice|response|selection|prediction|option|opinion|pick|vote|position|view|number"
    r"|verdict|preference)\b(?:(?!\bnot\b|n't)[^.!?\d\n:]){0,60}?(?:\b(?:is|would be|will be)\b"
    r"|\s?:)"
    r"|option(?=\s[+-]?\d)|(?:therefore|conclusion|overall|so|hence|thus)\s?:"
    # German, Dutch, Swedish, French, Spanish, Portuguese, Italian, Polish, Turkish
    r"|(?:antwort|wahl|antwoord|keuze|svar|réponse|choix|respuesta|elección|opción|resposta|escolha"
    r"|risposta|scelta|odpowiedź|wybór|cevab\w*|yanıt\w*|seçim\w*|jawaban|pilihan)"  # noqa: RUF001
    r"(?:\s(?:ist|lautet|wäre|is|zou zijn|är|est|serait|es|sería|é|seria|è|sarebbe|to|adalah)\b"
    r"|\s?:)"
    r"|(?:wähle|ich würde|kies|zou kiezen|väljer|choisis|choisirais|dirais|elijo|elegiría|escojo"
    r"|escogería|diría|escolho|escolheria|diria|scelgo|sceglierei|direi|wybieram|wybrał\w*"
    r"|seçiyorum|seçerdim|memilih)\b"
    r")"
    # Russian, Ukrainian, Chinese, Japanese, Korean, Arabic, Hindi, Vietnamese
    r"|(?:ответ|відповідь)\s?:|выбираю|выбрала?\s|выбрал бы|обираю"
    r"|答案(?:是|为|：|:)|选择|選擇|我选|我選|回答(?:是|：|:)|答え(?:は|:)|回答は|답(?:변)?(?:은|:)|선택"  # noqa: RUF001
    r"|الإجابة|جوابي|أختار|उत्तर|चुन|tôi chọn|câu trả lời"
)
_CUE = re.compile(
    r"(?P<denied>(?:\bnot|n't|\bnever|\brather than|\binstead of|\bcannot|\bwithout|\brefuse to"
    r"|\bunable to"
    r"|\bdecline to|\bnicht|\bno|\bne|\bnão|\bnie|\bnon|\bне|不(?:能|会)?) ?(?:\w+ ){0,2}?)?"  # noqa: RUF001
    rf"(?:{_CUES})"
)
_DENIED = re.compile(
    r"\b(?:not|never|rather than|instead of|over|above|than|versus|vs|against|unlike|nor|neither"
    r"|cannot"
    r"|without|refuse|decline|excluding|except|(?:any|every)thing but|all but|other than|besides"
    r"|apart from|nicht|kein\w*|pas|não|nie|non)\b(?: [\w']+){0,2}[ \"'(]*\Z"
    r"|n't(?: [\w']+){0,2}[ \"'(]*\Z"
)
_DENIED_GAP = re.compile(
    r"\b(?:not|never|cannot|none|neither|between|because|since|due to|based on|nicht"
    r"|kein\w*|pas|não|nie|non|не)\b|n't\b|不|没"
)
_CLOSING_CUE = re.compile(
    r"[\"')\].,]* ?(?:is|would be|seems to be|comes|best|most closely|it is\b)[^.!?\n\d]{0,30}?"
    r"\b(?:my (?:own |final )?(?:answer|choice|response|view|opinion|position|selection|feelings?)"
    r"|what i(?:'d| would)? (?:choose|pick|select|answer|say|go with)|(?:the )?(?:answer|option"
    r"|one) (?:i|for me))\b"
)
_ATTRIBUTED = re.compile(
    r"\b(?:(?:some|many|other|few|several|certain|various|different)\b|others\b|critics|supporters"
    r"|proponents|opponents|advocates|he\b|she\b|they\b|you\b|one (?:could|might|may|can)\b"
    r"|some(?:one|body)\b"
    r"|any(?:one|body)\b|people (?:who|that|may|might|could|often|sometimes|in)\b|those who"
    r"|my (?:mother|father|mom|mum|dad|wife|husband|partner|friends?|brother|sister|parents"
    r"|neighbou?rs?"
    r"|boss|colleagues?|grand\w+|son|daughter|uncle|aunt|family|teacher|doctor)\b"
    r")"
)
_OTHERS = re.compile(
    r"\b(?:most (?:\w+ )?(?:people|adults|respondents|persons|citizens|individuals|(?:wo)?men"
    r"|humans|others"
    r"|would)\b|(?:the )?majority\b|people\b|society\b|respondents\b|the public\b|adults\b"
    r"|(?:a|the) (?:typical|religious|conservative|liberal|traditional|progressive|secular)\b)"
)
_SPEAKER = re.compile(
    r"\b(?:i|i'd|i'll|i'm|we|we'd|my (?:own|answer|choice|rating|score|response|opinion))\b"
)
_DISCUSSED = re.compile(
    r"\b(?:means?|meaning|indicat\w+|represents?|corresponds? to|stands? for|such as|for example"
    r"|for instance|eg|options? (?:are|include|like|is)|ranges?|arguments?|case for|in favou?r of"
    r"|pros"
    r"|cons|speaks? (?:for|against)|against|scale|choices|either|both|between|whether|those|depends"
    r"|refers? to|defined as|would be (?:for|if)|chosen by|unless|someone)\b"
)
_CLAUSE_START = re.compile(
    r"[.;:!?\n]|,?\s(?:but|while|whereas|although|though|yet|however|still),?\s"
)
_BOUND_BEFORE = re.compile(
    r"(?:\b(?:at least|at most|more than|less than|fewer than|greater than|higher than|lower than"
    r"|no more than|no less than|not more than|over|under|above|below|up to|minimum(?: of)?"
    r"|upwards of"
    r"|maximum(?: of)?|beyond|exceeding|somewhere between|between)|<=?|>=?|≤|≥)\s*(?:an?\s"
    r"|the\s)?[\s\"'(]*\Z"
)
_BOUND_AFTER = re.compile(
    r"[\"')\]]*\s?(?:\+|(?:or|and)\s(?:more|less|higher|lower|above|below|up|over|under|greater"
    r"|fewer|beyond)"
    r"|and a (?:half|quarter)|plus\b|at (?:least|most|minimum|the least)"
    r"|(?:as )?(?:a )?(?:minimum|maximum)\b"
    r"|½|point (?:five|\d))"
)
_JOINED = re.compile(
    r"[\s\"')\],]*(?P<by>(?:\b(?:or|and|to|through|till|until|maybe|perhaps|possibly|even"
    r"|sometimes|if not"
    r"|potentially|probably|respectively|oder|und|bis|ou|et|o|y|e|of|en|tot|或|和|至)\b|[-/~,;|&]|\s"
    r"|\()*)"
    r"(?:\s?(?:an?|the|option|code|number)\s)*[\s\"'(\[]*"
)
_RANGE_BY = re.compile(r"-|~|\b(?:to|through|till|until|bis|tot)\b|至")
_EXPLAINED = re.compile(
    r"\b(?:because|since|as|due|given|for|which|where|while|whereas|although|though|but|with|so"
    r"|if|when"
    r"|considering|reflecting|meaning|indicating|even though|on|weil|da|porque|car|perché)\b|:|\("
    r"|\s-\s|;"
)
_HEDGED = re.compile(
    r"\b(?:or|maybe|perhaps|possibly|could be|might be|may be|if not|even|alternatively|sometimes"
    r"|closer to"
    r"|also|potentially|either)\s(?:(?:an?|the|option|even|as|it|be|low|high)\s)*[\s\"'(]*\Z"
)
_ALSO = re.compile(
    r"[\s\"')\]]*(?:(?:would|could|might|may|is|are)\s(?:also|equally|just as)\b"
    r"|(?:also|too|as well)\b|(?:is|(?:would|might|could) be) (?:possible|fine|plausible|an option)"
    r"|(?:would|could) (?:work|do|fit))"
)
_COUNTED = re.compile(
    r"\s(?:\w+\s)?(?:reasons?|examples?|arguments?|options?|answers?|factors?|ways|things|people"
    r"|times|years"
    r"|perspectives|considerations|sides|choices|categories|items|countries|percent|respondents"
    r"|questions)\b"
)
_SENTENCE_END = re.compile(r"[.!?。！？](?=[\s\"')\]]|\Z)|\n")  # noqa: RUF001
_CORRECTING = re.compile(  # "I would choose 1. Actually, 2."
    r"\b(?:actually|correction|wait|rather|scratch that|on second thoughts?|i mean|i meant"
    r"|or better"
    r"|make (?:that|it)|sorry|no(?=,))\b(?P<gap>[^.!?\n\d]{0,80})"
)
_NUMBERED_LINE = re.compile(r"(?:\A|(?<=\n))[^\w\n]{0,8}(?P<code>[0-9]{1,18})\s?[.:)]\s?\S")
_LEADING = re.compile(
    r"\W{0,8}(?P<code>[+-]?[0-9]{1,18})(?:\s?[.:;,)]\s|\s-\s|\s(?=because|since|as\b"
    r"|\())(?P<rest>.*)"
)
_I_LABEL = re.compile(r"\A\W*(?:i|we)\s(?:(?:would|do|personally|mostly)\s)?\Z")


_OTHERS_SAY = re.compile(
    r"\b(?:(?:some|many|most|other|few|certain)(?: (?:people|respondents|persons|adults))?"
    r"|others|critics|supporters|he|she|they|my \w+)(?: \w+)? (?:would|might|may|could|will|says?"
    r"|chooses?|prefers?|thinks?|answers?|sees?|believes?|picks?)\b"
)
_DEGREES = _words(
    "not somewhat strongly rather very slightly fairly quite moderately mostly completely totally"
    " partly neither tend never absolutely extremely hardly barely mildly generally fully"
)
_AS_IF = re.compile(
    r"\bif i were (?:an? |the |in |living|older|younger|religious|conservative|liberal)"
)


class _ChoiceReader:
    """Reads which option a text chooses.

    Every place where the text names an option is found once. What counts are the places that words
    announce ("I would choose", "Answer:"), lines that are nothing but an option, and options
    given by code and label; not what is denied, asked, said of others, or the options listed.
    All that counts must agree.
    """

    def __init__(self, table: OptionTable, names: Mapping[str, int | None], personal: bool) -> None:
        self.table = table
        self._names = names
        self._personal = personal
        labels = "|".join(map(_bounded, sorted(names, key=len, reverse=True)))
        code = rf"(?:{_CODE_WORD})?{_CODE}(?:\.0+)?"
        patterns = [rf"(?P<number>{_NUMBER_IN_TEXT})"]
        if labels:
            patterns = [
                rf"(?<![A-Za-z0-9_.,%+-])(?P<code>{_CODE})(?![0-9%]){_PAIR_SEPARATOR}(?P<label>{labels})",
                rf"(?P<before>{labels})[\"')\]]*\s?(?:[-:=,]\s?)?[(\[]\s?(?P<inside>{code})\s?[)\]]",
                rf"(?P<only>{labels})",
                *patterns,
            ]
        self._pattern = re.compile("|".join(patterns))
        self._label_words = {
            word for name in names for word in _NAME_WORD.findall(name)
        } - _EMPTY_WORDS

    def read(self, text: str) -> _Choice | None:
        """Return the choice of a text that is no JSON; None if it makes none."""
        whole = _whole_choice(text, self.table)
        if whole is not None:
            return whole
        folded = _folded_lines(_without_scale(_unfenced(text), self.table))
        if not folded.strip():
            return None
        mentions = self._mentions(folded)
        if not mentions:
            return None
        counted = self._counted(folded, mentions)
        declared = self._announced(folded, mentions, counted)
        declared += self._lines(folded, mentions)
        corrected = self._corrected(folded, mentions) if declared else []
        if declared:
            said = _Said()
            for choice in declared + corrected:
                said.add(choice)
            return said.choice()
        found = self._paired(folded, mentions, counted) or self._leading(folded, mentions)
        if found is None and any(
            mention.paired and place not in counted for place, mention in enumerate(mentions)
        ):
            return _Choice(None, "duplicate_option", False)  # the options, listed
        return found

    def _mentions(self, folded: str) -> list[_Mention]:
        """Return every place that names an option, in the order of the text."""
        found: list[_Mention] = []
        for match in self._pattern.finditer(folded):
            kind = match.lastgroup
            if kind == "number":
                found.append(_Mention(*match.span(), self._of_number(match.group()), number=True))
            elif kind == "only":
                if _AFTER_LABEL.match(folded, match.end()):
                    found.append(_Mention(*match.span(), self._names[match.group()]))
            else:
                found.append(self._pair(folded, match))
            if len(found) > 4 * _MAX_MENTIONS:
                break
        if len(found) > _MAX_MENTIONS:
            found = found[: _MAX_MENTIONS // 2] + found[-_MAX_MENTIONS // 2 :]
        return found

    def _of_number(self, text: str) -> int | None:
        whole, _, rest = text.replace(",", ".").partition(".")
        return None if rest.strip("0") else self.table.find(whole)

    def _pair(self, folded: str, match: re.Match[str]) -> _Mention:
        """Return the mention of a code beside a label; without an option if they differ."""
        name = match["label"] or match["before"]
        code = re.findall(_CODE, match["code"] or match["inside"])[-1]
        by_code, by_name = self.table.find(code), self._names[name]
        bounded = match["label"] is None or _AFTER_LABEL.match(folded, match.end()) is not None
        if by_code is not None and by_code == by_name and (bounded or len(name) > 3):
            return _Mention(*match.span(), by_code, paired=True)
        if bounded and match["label"] is None and by_code is None:
            return _Mention(match.start(), match.start() + len(name), by_name)
        if bounded and by_name is not None:
            return _Mention(*match.span(), None, paired=True)
        return _Mention(match.start(), match.start() + len(code), by_code, number=True)

    def _announced(self, folded: str, mentions: list[_Mention], counted: set[int]) -> list[_Choice]:
        """Return what words such as "I would choose" announce."""
        starts = [mention.start for mention in mentions]
        found: list[_Choice] = []
        reached = -1
        for cue in _CUE.finditer(folded):
            if cue.start() < reached or cue["denied"]:
                continue
            place = bisect_left(starts, cue.end())
            if place == len(mentions):
                break
            gap = folded[cue.end() : mentions[place].start]
            if len(gap) > _GAP or _DENIED_GAP.search(gap) or _leaves_sentence(gap):
                continue
            if self._is_of_others(folded, cue.start()) or _is_asked(folded, mentions[place].end):
                continue
            if mentions[place].number and _COUNTED.match(folded, mentions[place].end):
                continue
            if _DISCUSSED.search(gap) or (mentions[place].paired and place not in counted):
                continue
            phrase, reached = self._phrase(folded, mentions, place)
            found += phrase
            if len(found) > _MAX_LINES:
                break
        for mention in mentions[:_MAX_LINES]:
            if _CLOSING_CUE.match(folded, mention.end) and not self._is_of_others(
                folded, mention.start
            ):
                denied = _is_denied(folded, mention.start)
                if not denied and not _is_asked(folded, mention.end):
                    found.append(self._choice_of(folded, mention))
        return found

    def _phrase(
        self, folded: str, mentions: list[_Mention], place: int
    ) -> tuple[list[_Choice], int]:
        """Return everything that the phrase with a choice names, and where it ends."""
        first = mentions[place]
        found = [self._choice_of(folded, first)]
        end = _SENTENCE_END.search(folded, first.end, first.end + _REACH)
        stop = end.start() if end else min(len(folded), first.end + _REACH)
        last = first
        for mention in mentions[place + 1 : place + 1 + _MAX_LINES]:
            if mention.start >= stop:
                break
            gap = folded[last.end : mention.start]
            joined = _JOINED.fullmatch(gap)
            if joined is not None:
                if not mention.paired and not mention.number and not joined["by"].strip(" ("):
                    continue
                if mention.option != last.option and _RANGE_BY.search(joined["by"]):
                    found.append(_Choice(None, "range", False))
                found.append(self._choice_of(folded, mention))
            elif _DENIED.search(gap):
                continue
            elif (
                _HEDGED.search(gap)
                or _ALSO.match(folded, mention.end)
                or (
                    not _EXPLAINED.search(folded, first.end, mention.start)
                    and (mention.paired or mention.number)
                )
            ):
                found.append(self._choice_of(folded, mention))
            else:
                continue
            last = mention
        return found, last.end

    def _choice_of(self, folded: str, mention: _Mention) -> _Choice:
        """Return what a mention chooses: an option, a bound, or nothing on the scale."""
        before = folded[max(0, mention.start - 30) : mention.start]
        if mention.paired:
            before = before.rstrip("<>= ")  # a quoted line
        if _BOUND_BEFORE.search(before) or _BOUND_AFTER.match(folded, mention.end):
            return _Choice(None, "range", False)
        if mention.option is None or (mention.number and self._is_mislabelled(folded, mention)):
            return _Choice(None, "unknown_option", False)
        return _Choice(self.table.codes[mention.option], None, False)

    def _is_mislabelled(self, folded: str, mention: _Mention) -> bool:
        """Return whether a code is followed by a few words that are the label of none.

        "4) Somewhat agree" where 4 is "Strongly agree"; "4) Strongly" and "4) I agree" are not.
        """
        assert mention.option is not None
        own = self.table.labels[mention.option]
        after = re.compile(r"\s?[.):\]-]{1,3}\s?[\"'(]?(?P<rest>[^.!?,;:\n]{1,60})").match(
            folded, mention.end
        )
        if after is None or not self._label_words or _ONLY_CODE.fullmatch(_bare(own)):
            return False
        words = _NAME_WORD.findall(after["rest"])
        own_words = set(_NAME_WORD.findall(own))
        if not 1 <= len(words) <= 5 or not self._label_words.intersection(words):
            return False
        if own_words <= set(words):
            return bool(_DEGREES & (set(words) - own_words))
        return not set(words) <= own_words

    def _lines(self, folded: str, mentions: list[_Mention]) -> list[_Choice]:
        """Return the options that have a line to themselves, unless they list the options."""
        lines: dict[int, _Mention] = {}
        for mention in mentions:
            start = folded.rfind("\n", max(0, mention.start - 40), mention.start) + 1
            end = folded.find("\n", mention.end, mention.end + 40)
            end = min(len(folded), mention.end + 40) if end < 0 else end
            around = folded[start : mention.start] + folded[mention.end : end]
            if not any(map(str.isalnum, around)) and "?" not in around:
                whole = not mention.paired and folded[mention.end : mention.end + 1] == ":"
                if not whole:
                    lines[start] = mention
        listed = list(lines.values())
        run = self._listing(folded, listed)
        rest = [one for place, one in enumerate(listed) if place not in run]
        if len(rest) > 1 and any(one.paired and one.option is None for one in rest):
            return [_Choice(None, "duplicate_option", False)]  # a list of its own making
        return [self._choice_of(folded, mention) for mention in rest[:_MAX_LINES]]

    def _listing(self, folded: str, mentions: Sequence[_Mention]) -> set[int]:
        """Return the places of mentions that list all options, in the order of the scale."""
        size = len(self.table)
        places: set[int] = set()
        scale = list(range(size))
        indices = [mention.option for mention in mentions]
        start = 0
        while size > 1 and start + size <= len(indices):
            if indices[start] in (0, size - 1) and indices[start : start + size] in (
                scale,
                scale[::-1],
            ):
                part = mentions[start : start + size]
                begins = [_begins_line(folded, mention.start) for mention in part]
                joined = [
                    _LIST_GAP.fullmatch(folded, one.end, other.start) is not None
                    for one, other in pairwise(part)
                ]
                if all(begins) or all(joined):
                    places.update(range(start, start + size))
                    start += size
                    continue
            start += 1
        return places

    def _counted(self, folded: str, mentions: list[_Mention]) -> set[int]:
        """Return the places of pairs that are no list of all the options."""
        places = [place for place, mention in enumerate(mentions) if mention.paired]
        run = self._listing(folded, [mentions[place] for place in places])
        return {place for order, place in enumerate(places) if order not in run}

    def _paired(self, folded: str, mentions: list[_Mention], counted: set[int]) -> _Choice | None:
        """Return the one option that a text gives by code and label, wherever it does."""
        numbered = {match["code"] for match in _NUMBERED_LINE.finditer(folded)}
        declines = bool(counted) and _declines(folded, self.table)
        indices: set[int] = set()
        differing = False
        shown: list[_Choice] = []
        for place in sorted(counted)[: 4 * _MAX_LINES]:
            mention = mentions[place]
            if mention.option is None:
                differing = True
                continue
            clause = folded[_clause_start(folded, mention.start) : mention.start]
            if _OTHERS_SAY.search(clause) and self._is_of_others(folded, mention.start):
                continue
            indices.add(mention.option)
            if len(indices) > 1:
                break
            if not self._is_discussed(folded, mention, declines):
                shown.append(self._choice_of(folded, mention))
        if len(indices) > 1 or (differing and len(numbered) > 1):
            return _Choice(None, "duplicate_option", False)
        if differing:
            return _Choice(None, "unknown_option", False)
        if shown:
            said = _Said()
            for choice in shown:
                said.add(choice)
            return said.choice()
        if len(numbered) > 1 and not indices:
            # The model repeats the list it was given, or makes one of its own.
            return _Choice(None, "duplicate_option", False)
        return None

    def _is_discussed(self, folded: str, mention: _Mention, declines: bool) -> bool:
        """Return whether a pair is spoken about rather than given as the answer."""
        start = _clause_start(folded, mention.start)
        clause = folded[start : mention.start]
        if self._is_of_others(folded, mention.start) or _is_denied(folded, mention.start):
            return True
        if _DISCUSSED.search(clause) or _is_asked(folded, mention.end):
            return True
        if not declines:
            return False
        # A refusal may name an option; only one that ends or begins its line answers after all.
        after = folded[mention.end : mention.end + 40].lstrip("\"')] ")
        if after.startswith(":"):
            return True
        ends = not after or after[0] in ".!\n;,-" or _EXPLAINED.match(after) is not None
        begins = not any(
            map(str.isalnum, folded[folded.rfind("\n", 0, mention.start) + 1 : mention.start])
        )
        return not (ends or begins)

    def _is_of_others(self, folded: str, position: int) -> bool:
        """Return whether what a clause says is said of somebody else."""
        clause = folded[_clause_start(folded, position) : position]
        if any(map(str.isdecimal, clause)):  # a pair such as "2) Some" names nobody
            clause = self._pattern.sub(
                lambda match: match.group() if match.lastgroup == "only" else " ", clause
            )
        found = None
        for pattern in (_ATTRIBUTED, _OTHERS) if self._personal else (_ATTRIBUTED,):
            for match in pattern.finditer(clause):
                found = match
        if _AS_IF.search(clause):
            return True
        return found is not None and _SPEAKER.search(clause, found.end()) is None

    def _corrected(self, folded: str, mentions: list[_Mention]) -> list[_Choice]:
        """Return what an answer changes to: which of the two holds is not for us to say."""
        starts = [mention.start for mention in mentions]
        found: list[_Choice] = []
        for change in _CORRECTING.finditer(folded):
            place = bisect_left(starts, change.end("gap") - len(change["gap"]))
            if place == len(mentions) or mentions[place].start > change.end("gap"):
                continue
            mention = mentions[place]
            gap = folded[change.start() : mention.start]
            plain_label = not mention.number and not mention.paired
            if _DENIED.search(gap) or (plain_label and len(gap.split()) > 2):
                continue
            found.append(self._choice_of(folded, mention))
            if len(found) > _MAX_LINES:
                break
        return found

    def _leading(self, folded: str, mentions: list[_Mention]) -> _Choice | None:
        """Return the option that a text begins with, before it goes on about it."""
        first = mentions[0]
        opening = folded[: first.start]
        if not first.number and not first.paired:
            rest = folded[first.end : first.end + 2].strip(" .!\"')")
            alone = _I_LABEL.fullmatch(opening) is not None and not rest
            return self._choice_of(folded, first) if alone else None
        leading = _LEADING.match(folded.replace("\n", " ", 1) if first.end < 30 else folded)
        if leading is None or any(map(str.isalnum, opening)):
            return None
        if _COUNTED.match(folded, first.end):
            return None
        rest = leading["rest"]
        if _STANDALONE_CODE.search(rest):
            return None
        index = self.table.find(leading["code"])
        for name, other in self._names.items():
            if len(name) > 3 and rest.startswith(name) and other not in (index, None):
                return _Choice(None, "unknown_option", False)
        return self._choice_of(folded, first._replace(option=index))


def _clause_start(folded: str, position: int) -> int:
    """Return where the clause around a position begins."""
    start = max(0, position - _REACH // 2)
    for end in _CLAUSE_START.finditer(folded, start, position):
        start = end.end()
    return start


_LIST_GAP = re.compile(r"[\s,;/|.\"')(-]*(?:\b(?:and|or)\b)?[\s(\"']*")


def _begins_line(folded: str, position: int) -> bool:
    """Return whether nothing but punctuation stands before a position in its line."""
    start = folded.rfind("\n", max(0, position - 40), position) + 1
    if start == 0 and position > 40:
        return False
    return not any(map(str.isalnum, folded[start:position]))


def _leaves_sentence(gap: str) -> bool:
    """Return whether more than blanks and punctuation stand behind the end of a sentence."""
    end = _SENTENCE_END.search(gap)
    return end is not None and any(map(str.isalnum, gap[end.end() :] + gap[: end.start()]))


def _is_denied(folded: str, position: int) -> bool:
    """Return whether the words directly before a position deny what follows."""
    return _DENIED.search(folded, max(0, position - _GAP), position) is not None


def _is_asked(folded: str, position: int) -> bool:
    """Return whether the sentence around a position is a question."""
    end = _SENTENCE_END.search(folded, position, position + _REACH)
    return end is not None and end.group() in "?？"  # noqa: RUF001


def _folded_lines(text: str) -> str:
    """Return a text as it is compared, line by line."""
    folded = _nfkc(_nfkc(text).casefold()).translate(_INVISIBLE).translate(_STRAIGHT_QUOTES)
    folded = folded.translate(_EMPHASIS).translate(_DASHES).replace("__", "")
    folded = folded.replace("e.g.", "eg").replace("i.e.", "ie")
    lines = (" ".join(line.split()).removeprefix("> ") for line in folded.splitlines())
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=512)
def _choice_reader(
    table: OptionTable, aliases: tuple[tuple[str, int], ...], personal: bool
) -> _ChoiceReader:
    names = dict(table.by_name)
    for name, index in aliases:
        plain = name.translate(_EMPHASIS).translate(_DASHES)
        names[plain] = index if names.get(plain, index) == index else None
    return _ChoiceReader(table, names, personal)


def _whole_choice(answer: str, table: OptionTable) -> _Choice | None:
    """Return the choice of a text that is an option and nothing else."""
    text = _unfenced(answer)
    if not text or len(text) > _MAX_LINE:
        return None
    index = table.find(text)
    if index is not None:
        return _Choice(table.codes[index], None, _is_json_scalar(text))
    kind = _read_value(text).kind
    if kind is _Kind.TEXT:
        return None
    return _Choice(None, "range" if kind is _Kind.INTERVAL else "unknown_option", False)


def _without_scale(answer: str, table: OptionTable) -> str:
    """Return an answer without what only repeats the scale, such as "out of 10"."""
    low, high = min(table.codes), max(table.codes)
    if len(table) < 4 or high - low != len(table) - 1:
        return answer
    between = rf"{low}\s*(?:-|\u2013|\u2014|to|through)\s*{high}"
    answer = re.sub(
        rf"(?<=\d)\s*(?:/|\bout of\b)\s*{high}(?![\d%]|[.,]\d)", "", answer, flags=re.IGNORECASE
    )
    return re.sub(
        rf"\b(?:(?:on|using)\s+)?(?:an?|the|this)?\s*scale\s+(?:of|from|ranging from)\s+{between}\b"
        rf"|\bfrom\s+{between}\b|\(\s*{between}\s*\)|\b{between}\s+scale\b",
        " ",
        answer,
        flags=re.IGNORECASE,
    )


# --- Scores -------------------------------------------------------------------------------------

_SEPARATORS = re.compile(r"(?:[\s,;:.()\[\]{}\"'*•‣–—-]|/|&|\b(?:and|then|or)\b)*")
_LEADING_CODE = re.compile(r"(?P<code>[+-]?[0-9]{1,18})(?![0-9%]|\.[0-9])")
_LIST_LINE = re.compile(r"\s*(?:[-*+•‣]|\(?[0-9]{1,3}[.):])\s+\S")
_ORDINAL_LINE = re.compile(r"\s*\(?(?P<place>[0-9]{1,3})[.):]\s+(?P<rest>\S.*)")
_LISTING = re.compile(
    r"\b(?:(?:choose|pick|select)\b"
    r"|(?:goals?|qualit(?:y|ies)|choices?|options?|numbers?|answers?|selections?|most important"
    r"|next|first|second)\b[^.!?\d\n:]{0,40}?(?:\bare\b|\bis\b|\bwould be\b|:))[\s:]*"
)


_Names: TypeAlias = "list[tuple[str, int]]"


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
    thinking, answer = _split_thinking(text or "")

    def without_score(status: str, reason: str | None) -> ParsedScore:
        return ParsedScore(status, reason, None, (), thinking)

    flagged = _endpoint_refusal(finish_reason, refusal)
    if flagged is not None:
        return without_score("refused", flagged)
    answer = _unwrapped(_readable(answer))
    cut = finish_reason == "length"
    if most == 1:
        reader = _choice_reader(table, tuple(_alias_table(options)), True)
        found = _find_choice(answer, table, finish_reason, reader)
        codes: tuple[int, ...] | None
        codes = None if found is None or found.code is None else (found.code,)
    else:
        found, codes = _find_choices(answer, table, _alias_table(options), choose, cut=cut)
    if found is not None and codes is not None:
        score = float(base) + math.fsum(values[code] for code in codes)
        return ParsedScore("ok" if found.strict else "recovered", None, score, codes, thinking)
    if _declines(answer, table):
        return without_score("refused", "refusal")
    if found is not None:
        return without_score("invalid", found.reason)
    return without_score(*_nothing_found(answer, finish_reason))


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


def _alias_table(options: Sequence[Mapping[str, object]]) -> _Names:
    """Return every name of an option as it is compared, the longest first, with its position."""
    names: list[tuple[str, int]] = []
    for index, option in enumerate(options):
        aliases = option.get("aliases", ())
        if isinstance(aliases, str) or not isinstance(aliases, Iterable):
            raise ValueError(f"option {index}: aliases must be a list of names")
        for name in (option["label"], *aliases):
            folded = _bare(_fold(str(name)))
            if folded and not _ONLY_CODE.fullmatch(folded):
                names.append((folded, index))
    return sorted(names, key=lambda pair: -len(pair[0]))


class _Listed(NamedTuple):
    """Options named one after the other, and where the naming stops."""

    indices: list[int]
    unknown: bool
    end: int


def _listed(folded: str, position: int, table: OptionTable, names: _Names) -> _Listed:
    """Read codes and names from a position of a folded text as far as they go."""
    indices: list[int] = []
    unknown = False
    while True:
        separators = _SEPARATORS.match(folded, position)
        start = separators.end() if separators else position
        code = _LEADING_CODE.match(folded, start)
        after = start
        if code is not None:
            blank = re.compile(r"[\s.:)\-]*").match(folded, code.end())
            after = blank.end() if blank else code.end()
        named = next(
            (
                (index, after + len(name))
                for name, index in names
                if folded.startswith(name, after) and not folded[after + len(name) :][:1].isalnum()
            ),
            None,
        )
        if code is None and named is None:
            return _Listed(indices, unknown, position)
        if code is None:
            assert named is not None
            indices.append(named[0])
            position = named[1]
            continue
        index = table.find(code["code"])
        if named is not None:
            # "2. label" names an option by its code, or counts the options of the answer.
            place = len(indices) + 1
            if index != named[0] and code["code"] != str(place):
                unknown = True
            indices.append(named[0])
            position = named[1]
            continue
        unknown |= index is None
        if index is not None:
            indices.append(index)
        position = code.end()


def _find_choices(
    answer: str,
    table: OptionTable,
    names: _Names,
    choose: tuple[int, int],
    *,
    cut: bool,
) -> tuple[_Choice | None, tuple[int, ...] | None]:
    """Return the options of an answer in the first form that names enough of them."""
    found = _json_choices(answer, table, names, cut=cut)
    if found is None and not cut:
        found = _told_choices(answer, table, names, choose)
    if found is None:
        return None, None
    indices, unknown, strict = found
    if unknown:
        return _Choice(None, "unknown_option", strict), None
    if len(set(indices)) < len(indices):
        return _Choice(None, "duplicate_option", strict), None
    if not choose[0] <= len(indices) <= choose[1]:
        return _Choice(None, "length_mismatch", strict), None
    codes = tuple(table.codes[index] for index in indices)
    return _Choice(codes[0], None, strict), codes


def _json_choices(
    answer: str, table: OptionTable, names: _Names, *, cut: bool
) -> tuple[list[int], bool, bool] | None:
    """Return (positions, whether one is unknown, whether it is strict JSON) of the last list."""
    for reader in (_StrictReader(answer), _NearReader(answer)):
        scan = _scan(reader)
        limit = scan.limit(len(reader.text)) if cut else len(reader.text)
        for container in reversed(scan.closed):
            values = list(container.values)
            while len(values) == 1 and not isinstance(values[0], str):
                values = list(values[0].values)
            texts = [value for value in values if isinstance(value, str)]
            if container.start >= limit or not texts or len(texts) < len(values):
                continue
            indices: list[int] = []
            unknown = False
            for text in texts:
                folded = _fold(text).translate(_EMPHASIS).translate(_DASHES)
                listed = _listed(folded, 0, table, names)
                rest = _SEPARATORS.match(folded, listed.end)
                complete = rest is not None and rest.end() == len(folded)
                if listed.unknown or not listed.indices or not complete:
                    unknown = True
                indices += listed.indices
            if indices:
                return indices, unknown, isinstance(reader, _StrictReader)
    return None


def _told_choices(
    answer: str, table: OptionTable, names: _Names, choose: tuple[int, int]
) -> tuple[list[int], bool, bool] | None:
    """Return the options that a whole text, its first line, its list or a sentence names."""
    text = _unfenced(answer)[: 2 * _MAX_LINE]
    folds = [
        _fold(line).translate(_EMPHASIS).translate(_DASHES)
        for line in text.splitlines()
        if line.strip()
    ]
    ordinals = [_ORDINAL_LINE.fullmatch(line) for line in folds]
    if len(folds) > 1 and all(
        match is not None and match["place"] == str(place)
        for place, match in enumerate(ordinals, start=1)
    ):
        # A numbered list: the numbers count its lines, unless a line holds nothing else.
        folds = [match["rest"] for match in ordinals if match is not None]

    def whole(folded: str) -> tuple[list[int], bool, bool] | None:
        listed = _listed(folded, 0, table, names)
        rest = _SEPARATORS.match(folded, listed.end)
        if (listed.indices or listed.unknown) and rest and rest.end() == len(folded):
            return listed.indices, listed.unknown, False
        return None

    if folds and (found := whole(" , ".join(folds))) is not None:
        return found
    starts = [line for line in text.splitlines() if _LIST_LINE.match(line)]
    if len(folds) > 1 and len(starts) < 2 and (found := whole(folds[0])) is not None:
        return found
    if len(starts) >= max(2, choose[0]):
        indices: list[int] = []
        for line in starts:
            folded = _fold(line).translate(_EMPHASIS).translate(_DASHES)
            match = _ORDINAL_LINE.fullmatch(folded)
            listed = _listed(match["rest"] if match else folded, 0, table, names)
            if len(listed.indices) != 1:
                break
            indices += listed.indices
        else:
            return indices, False, False
    sentences = " ".join(folds)
    told: list[int] = []
    unknown, reached = False, 0
    for phrase in _LISTING.finditer(sentences):
        if phrase.end() < reached:
            continue
        listed = _listed(sentences, phrase.end(), table, names)
        told += listed.indices
        unknown |= listed.unknown
        reached = listed.end
    return (told, unknown, False) if len(told) >= choose[0] else None
