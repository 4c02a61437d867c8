"""The names under which an answer stands: keys, fields, headings, words before it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from chronocore.parsing.answers import Answer, field_name
from chronocore.parsing.characters import EMPHASIS, MAX_LINE, ORDER_REACH, fold, word_set
from chronocore.parsing.containers import Container

__all__ = [
    "EMPTY_WORDS",
    "NAME_WORD",
    "NAMING_FIELDS",
    "corrected_names",
    "is_year",
    "name_of",
    "name_words",
]


def is_year(text: str) -> bool:
    """Return whether a text is a year and nothing else."""
    return _YEAR.fullmatch(text.strip()) is not None


_YEAR = re.compile(r"(?<!\d)(?:1[89]|20|21)\d\d(?!\d)")


#: Words for the answer itself. Names made of these alone are no names of alternatives.
_ANSWER_WORDS = word_set(
    "answer answers distribution distributions percentage percentages percent pct share"
    " shares probability probabilities prob proportion proportions estimate estimates"
    " estimated estimation result results response responses output prediction predictions"
    " predicted values value data json final last corrected correction correct revised"
    " revision updated update adjusted adjustment normalised normalized rescaled scaled"
    " rounded best point central main definitive actual sum sums sum up add adds total totals"
    " better instead rather actually so therefore thus hence then wait sorry no not or again"
    " let try fix fixed which one survey option options antwort"
    " verteilung korrektur korrigiert endgültig respuesta distribución corrección corregido"
    " réponse répartition corrigé résultat version versions attempt"
    " revise reflection change modify adjust resposta risposta normalising normalizing"
    " normalisation normalization rounding rescaling amended amend 答案 修正 更正"
)


#: What a name is that only says that it corrects. It stands for the name of what it corrects.
CORRECTION = "correction"


_CORRECTING_WORDS = word_set(
    "correction correcting wait sorry oops reconsider apologies"
    " korrektur corrección correzione correção pardon perdón 更正 修正"
)


# Phrases that only say that something is corrected, whatever words they are made of.
_CORRECTING_PHRASE = re.compile(
    r"\b(?:on (?:second|further|closer|more careful) (?:thoughts?|reflection|consideration"
    r"|inspection|look)|scratch that|i (?:actually |really )?mean[t]?|make that"
    r"|my (?:mistake|bad|apologies)"
    r"|after (?:rounding|normali[sz](?:ing|ation)|rescaling|adjust(?:ing|ment)|correction)"
    r"|let me (?:re)?(?:consider|think|check|calculate|compute|do|try|fix|correct|revise|adjust)"
    r"(?: (?:that|this|it|again))*|(?:that|it|this) should (?:be|read|have been)"
    r"|ich meinte|besser gesagt|quise decir|mejor dicho|je voulais dire)\b",
    re.IGNORECASE,
)


_GROUP_BEFORE = re.compile(
    r"(?:for|if|when|assuming|given|in|among|amongst|within|under|as of|by"
    r"|für|bei|unter|para|pour|chez|parmi|entre|wenn|falls|si)\s",
    re.IGNORECASE,
)


#: Words that say nothing of their own.
EMPTY_WORDS = word_set(
    "a an the of for in is are was were be been would will should could can may might must it"
    " its this that these those here there as at by on with to and but i i'm i'd i'll we my"
    " our me us you have has had do does did get gives give given make makes made"
    " following follows below above now more most think say believe guess approximately about"
    " around roughly likely overall hmm ok okay sure well also just really e.g eg etc each"
    " all both who what how im id if when expect summary conclusion short"
)


#: Fields of an object that say of what its other fields are the distribution.
NAMING_FIELDS = word_set(
    "year wave round period date time scenario case group subgroup gender sex age cohort"
    " segment region country population name title type kind version draft variant model"
    " method source label sample bound estimate status stage step jahr année año geschlecht"
    " sexe sexo"
)


_MAX_NAME_WORDS = {True: 6, False: 3}  # of a heading, and of words that merely come before


_CLAUSE_END = re.compile(r"[.!?;,]\s+|\n|\{|->")


_TAG_BEFORE = re.compile(r"<([A-Za-z][\w-]{0,30})>\s*(?:```\w*)?\s*\Z")


NAME_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def name_of(answer: Answer, text: str) -> tuple[str, ...]:
    """Return the words of the names under which an answer stands; none if it has no name.

    Words for the answer itself count as one name, the empty word.
    """
    words: list[str] = []
    if answer.lead is not None:
        words += name_words(answer.lead)
    around = answer.container
    if around is not None:
        top = around
        while True:
            words += _field_words(around)
            if around.key is not None:
                words += name_words(f"{around.key}:")
            if around.parent is None:
                break
            around = top = around.parent
        words += name_words(_text_before(text, top.start))
        words += filter(None, name_words(_text_after(text, top.end)))
    return tuple(dict.fromkeys(words))


def corrected_names(names: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return names in the order of the text, where a correction has that of what it corrects."""
    found: list[tuple[str, ...]] = []
    for name in names:
        own = tuple(word for word in name if word != CORRECTION)
        if own != name and not any(own):
            own = found[-1] if found else ("",)
        found.append(own)
    return found


def _field_words(container: Container) -> list[str]:
    """Return the words of the fields that say what an object is about."""
    words: list[str] = []
    for key, value in zip(container.keys, container.values, strict=False):
        if isinstance(value, str) and field_name(key) in NAMING_FIELDS:
            words += name_words(f"{value}:")
    return words


def _text_before(text: str, position: int) -> str:
    """Return what stands directly before an answer, back to the answer before it."""
    gap = text[max(0, position - ORDER_REACH) : position]
    if tag := _TAG_BEFORE.search(gap):
        return f"{tag[1]}:"
    lines = [line for line in gap.splitlines() if not line.lstrip().startswith("```")]
    blank = gap.rstrip(" ").endswith("\n")
    above = [line for line in lines if line.strip(" *_#`[")]
    if not above:
        return ""
    line = above[-1].strip()
    last = max(line.rfind("}"), line.rfind("]")) + 1
    if last and blank and not line.endswith(":"):
        return ""  # it says of what the answer before was
    line = line[last:]
    if blank and not (line.endswith((":", "*")) or line.startswith(("#", "*"))):
        return line if len(line.split()) <= _MAX_NAME_WORDS[False] else ""
    return line


_SAID_AFTER = re.compile(
    r"[ \t]*(?:\(|//|#|-|\u2013|\u2014|<-|\u2190|\b(?:for|in|as of|among)\b)[^\n{}\[\]]{1,60}$"
)


def _text_after(text: str, position: int) -> str:
    """Return what stands behind an answer, to the end of its line, if it says of what it is."""
    if position <= 0:
        return ""
    end = text.find("\n", position, position + MAX_LINE)
    line = text[position : len(text) if end < 0 else end][:MAX_LINE]
    said = _SAID_AFTER.match(line.rstrip(" ,;`"))
    return "" if said is None or line.rstrip().endswith(":") else said.group().strip(" ()-#/")


def name_words(lead: str) -> list[str]:
    """Return the words that name an alternative in what stands above or before it."""
    lead = lead.translate(EMPHASIS).strip()
    if lead.endswith((".", "!", "?", ";")):
        return []  # a sentence that is over
    heading = lead.endswith(":") or lead.startswith(("#", "<"))
    clauses = [part for part in _CLAUSE_END.split(lead.strip(" #:>-")) if part.strip()]
    if not clauses:
        return []
    clause = _CORRECTING_PHRASE.sub(f" {CORRECTION} ", clauses[-1].replace("_", " "))
    if len(clauses) > 1 and _GROUP_BEFORE.match(clauses[-2].strip()):
        clause = f"{clauses[-2]} {clause}"  # "For men, I estimate"
    years = _YEAR.findall(clause)
    words = NAME_WORD.findall(fold(clause))
    corrects = [word for word in words if word in _CORRECTING_WORDS]
    words = [word for word in words if word not in _CORRECTING_WORDS]
    own = [word for word in words if word not in _ANSWER_WORDS and word not in EMPTY_WORDS]
    if words and words[-1] not in own and len(words[-1]) == 1:
        own.append(words[-1])  # "Option A"
    if any(word in _ANSWER_WORDS for word in words):  # "adds up to 110"
        own = [w for w in own if not (w.isdecimal() and len(w) > 1 and w not in years)]
    if years:
        return [*years, *(word for word in own if not _YEAR.search(word))]
    if not own:
        if corrects:
            return [CORRECTION]
        return [""] if any(word in _ANSWER_WORDS for word in words) else []
    return own if len(own) <= _MAX_NAME_WORDS[heading] else []
