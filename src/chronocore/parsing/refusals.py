"""Answers that decline, and answers in which nothing was found."""

from __future__ import annotations

import re

from chronocore.parsing.characters import fold, nfkc
from chronocore.parsing.options import OptionTable

__all__ = [
    "endpoint_refusal",
    "is_refusal",
    "nothing_found",
]


def endpoint_refusal(finish_reason: str | None, refusal: bool) -> str | None:
    """Return the reason if the endpoint filtered the answer or flagged it as a refusal."""
    if finish_reason == "content_filter":
        return "content_filter"
    return "refusal" if refusal else None


def nothing_found(answer: str, finish_reason: str | None) -> tuple[str, str]:
    """Return status and reason of a text in which no answer was found."""
    if finish_reason == "length":
        return "truncated", "length"
    return "invalid", "missing_option" if answer.strip() else "empty"


_REFUSAL_REACH = 2_000  # characters at either end of an answer that are searched


# Written as they are compared: folded, with straight quotes.
_REFUSALS = re.compile(
    "|".join(
        nfkc(pattern)
        for pattern in (
            # English
            r"\b(?:i'?m|i am|we'?re|we are) (?:(?:very|so|truly|really) )?sorry\b",
            r"\bsorry,? (?:but )?(?:i|we)\b"
            r"(?! (?:mean|meant|mis\w+|made|forgot|should|got|added|wrote|swapped)\b)",
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


def is_refusal(answer: str, table: OptionTable) -> bool:
    """Return whether a model says, in the first person, that it will not answer."""
    if len(answer) > 2 * _REFUSAL_REACH:
        answer = f"{answer[:_REFUSAL_REACH]}\n{answer[-_REFUSAL_REACH:]}"
    folded = fold(answer)
    for label in table.labels:  # a label such as "I can't say" is not the model speaking
        if _REFUSALS.search(label):
            folded = folded.replace(label, " ")
    return _REFUSALS.search(folded) is not None
