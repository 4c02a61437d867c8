"""What stands beside a distribution and is none: scales, dates, totals, sizes."""

from __future__ import annotations

import re

from chronocore.parsing.answers import (
    Answer,
    Entry,
    field_name,
    first_reason,
    object_entries,
)
from chronocore.parsing.characters import bare_label, fold
from chronocore.parsing.containers import Container, Raw
from chronocore.parsing.matching import matches
from chronocore.parsing.names import NAMING_FIELDS
from chronocore.parsing.options import OptionTable, is_bijection
from chronocore.parsing.values import MAX_NUMBER, SUM_TOLERANCE, Kind, exact_sum, is_off, read_value
from chronocore.tolerance import ATOL

__all__ = [
    "SIDE_KEYS",
    "is_aside",
    "unknown_reason",
]

#: Keys that stand beside a distribution and never name mass.
SIDE_KEYS = frozenset({"year", "country", "n", "total", "sum", "confidence"})


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


def is_aside(answer: Answer, table: OptionTable) -> bool:
    """Return whether an answer gives every option its own code or label, or a year.

    Such numbers are the scale or a date, not a distribution, unless they sum to 1 or 100.
    """
    found = matches(answer, table)
    pairs = list(zip(answer.entries, found, strict=True))
    if is_bijection(found, table) and all(
        index is None or _is_name_of(entry.value, index, table) for entry, index in pairs
    ):
        return True
    numbers: dict[int, float] = {}
    for entry, index in pairs:
        if index is not None:
            value = read_value(entry.value)
            if value.kind is not Kind.NUMBER or index in numbers or index >= len(table):
                return False
            numbers[index] = value.number
    if len(numbers) < len(table) or not is_off(exact_sum(numbers.values()), SUM_TOLERANCE):
        return False
    return all(number == table.codes[index] for index, number in numbers.items()) or all(
        number.is_integer() and _FIRST_YEAR <= number <= _LAST_YEAR for number in numbers.values()
    )


def _is_name_of(value: Raw, index: int, table: OptionTable) -> bool:
    """Return whether a value is the text of an option."""
    if isinstance(value, Container) or read_value(value).kind is not Kind.TEXT:
        return False
    return table.find(value) == index


_SIDE_KEY = re.compile(_SIDE_WORDS)


_SUM_SHOWN = re.compile(r"\d\s*%?\s*\+\s*\d|[^\W\d]\s*\+\s*[^\W\d]")


def _is_side_key(name: str) -> bool:
    """Return whether a key stands beside a distribution: a total, a size, a check of the sum."""
    if len(name) > MAX_NUMBER:
        return False
    folded = fold(name)
    parts = re.split(r"[:=]", re.sub(r"\s*\([^()]*\)", "", folded.replace("_", " ")))
    bare = [bare_label(part.strip()) for part in parts if part.strip()]
    return (
        folded in SIDE_KEYS
        or (bare != [] and all(_SIDE_KEY.fullmatch(part) for part in bare))
        or _SUM_SHOWN.search(folded) is not None
    )


def unknown_reason(entry: Entry, table: OptionTable | None = None) -> str | None:
    """Return what is wrong with an entry that names no option, if it is more than an aside.

    With a table, numbers in an object or a list count as well, unless they are a distribution of
    their own, such as that of a group.
    """
    if any(_is_side_key(name) for name in entry.names):
        return None
    if isinstance(entry.value, Container):
        if table is None or is_bijection(map(table.find, entry.value.keys), table):
            return None
        inner = object_entries(entry.value) or [Entry((), raw) for raw in entry.value.values]
        return first_reason(unknown_reason(part, table) or "" for part in inner)
    value = read_value(entry.value)
    if value.kind is Kind.INTERVAL and any(
        field_name(name) in NAMING_FIELDS for name in entry.names
    ):
        return None  # an age group
    if value.kind is Kind.NUMBER and abs(value.number) <= ATOL:
        return None
    if value.kind is Kind.INTERVAL:  # of percentages; a period such as 2017-2022 is an aside
        return "range" if value.number <= 100 else None
    return None if value.kind is Kind.TEXT else "unknown_option"
