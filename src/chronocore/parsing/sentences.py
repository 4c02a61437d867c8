"""The option that sentences and lines choose."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from chronocore.parsing.agreement import (
    NUMBER_WORDS,
    Choice,
    Said,
    folded_lines,
    whole_choice,
    with_digits,
    without_scale,
)
from chronocore.parsing.characters import DASHES, EMPHASIS, MAX_LINES, bare_label, unfenced
from chronocore.parsing.cues import (
    AFTER_LABEL,
    AS_IF,
    ATTRIBUTED,
    BOUND_AFTER,
    BOUND_BEFORE,
    CLOSING_CUE,
    CORRECTED,
    CORRECTING,
    COUNTED,
    CUE,
    DEGREES,
    DENIED,
    DENIED_GAP,
    DISCUSSED,
    EXPLAINED,
    FINAL,
    GAP,
    HEDGED,
    I_LABEL,
    JOINED,
    LEADING,
    LIST_GAP,
    NUMBER_IN_TEXT,
    NUMBERED_LINE,
    OTHERS,
    OTHERS_SAY,
    PAIR_SEPARATOR,
    PART_OF_NUMBER,
    RANGE_BY,
    REACH,
    REASONED,
    SENTENCE_END,
    SPEAKER,
    STANDALONE_CODE,
    THOUSANDS,
    begins_line,
    clause_start,
    is_asked,
    is_denied,
    leaves_sentence,
)
from chronocore.parsing.names import EMPTY_WORDS, NAME_WORD
from chronocore.parsing.options import CODE, CODE_WORD, ONLY_CODE, OptionTable, bounded_pattern
from chronocore.parsing.refusals import is_refusal

__all__ = [
    "ChoiceReader",
    "choice_reader",
]

_MAX_MENTIONS = 2_000  # of a text that names more, those at its ends are read


class _Mention(NamedTuple):
    """A place where a text names an option, or a number or pair that names none."""

    start: int
    end: int
    option: int | None
    paired: bool = False  # code and label together
    number: bool = False  # a number alone


_ALSO = re.compile(
    r"[\s\"')\]]*(?:(?:would|could|might|may|is|are)\s(?:also|equally|just as)\b"
    r"|(?:also|too|as well)\b|(?:is|(?:would|might|could) be) (?:possible|fine|plausible|an option)"
    r"|(?:would|could) (?:work|do|fit))"
)


class ChoiceReader:
    """Reads which option a text chooses.

    Every place where the text names an option is found once. What counts are the places that words
    announce ("I would choose", "Answer:"), lines that are nothing but an option, and options
    given by code and label; not what is denied, asked, said of others, or the options listed.
    All that counts must agree.
    """

    def __init__(self, table: OptionTable, names: Mapping[str, int | None], personal: bool) -> None:
        self.table = table
        own_names = names
        self._names = names = _with_number_words(table, names)
        self._words = set(names) - set(own_names)
        self._personal = personal
        labels = "|".join(map(bounded_pattern, sorted(names, key=len, reverse=True)))
        code = rf"(?:{CODE_WORD})?{CODE}(?:\.0+)?"
        patterns = [rf"(?P<number>{NUMBER_IN_TEXT})"]
        if labels:
            patterns = [
                rf"(?<![A-Za-z0-9_.,%+-])(?P<code>{CODE})(?![0-9%]){PAIR_SEPARATOR}(?P<label>{labels})",
                rf"(?P<before>{labels})[\"')\]]*\s?(?:[-:=,]\s?)?[(\[]\s?(?P<inside>{code})\s?[)\]]",
                rf"(?P<only>{labels})",
                *patterns,
            ]
        self._pattern = re.compile("|".join(patterns))
        self._label_words = {
            word for name in own_names for word in NAME_WORD.findall(name)
        } - EMPTY_WORDS

    def read(self, text: str) -> Choice | None:
        """Return the choice of a text that is no JSON; None if it makes none."""
        text = with_digits(text)
        whole = whole_choice(text, self.table)
        if whole is not None:
            return whole
        bare = without_scale(unfenced(text), self.table)
        if len(bare) != len(text):
            whole = whole_choice(bare.strip(" ,;:()"), self.table)
            if whole is not None and whole.code is not None:
                return whole
        folded = folded_lines(bare)
        if not folded.strip():
            return None
        return self._amended(folded) or self._said(folded)

    def _amended(self, folded: str) -> Choice | None:
        """Return what an answer is corrected to; None if it is not, or to nothing clear."""
        changes = list(islice(CORRECTED.finditer(folded), MAX_LINES))
        finals = list(islice(FINAL.finditer(folded), 2))
        if changes:
            first, rest = changes[0].start(), folded[changes[-1].end() :]
        elif len(finals) == 1:
            first, rest = finals[0].start(), folded[finals[0].start() :]
        else:
            return None
        said, before = rest.strip(" :,;.-\n"), folded[:first].strip(" ,;-\n")
        change = changes[-1].start() if changes else first
        start = max(folded.rfind(end, max(0, change - REACH), change) for end in ".!?\n") + 1
        if not before or self._is_said_by(ATTRIBUTED, folded[start:change]):
            return None
        if OTHERS.search(said, 0, GAP) or ATTRIBUTED.search(said, 0, GAP):
            return None  # somebody else's
        earlier = whole_choice(before, self.table) or self._said(before)
        if earlier is None or earlier.code is None:
            return None
        amended = whole_choice(said, self.table) or self._said(said)
        return amended if amended is not None and amended.code is not None else None

    def _said(self, folded: str) -> Choice | None:
        mentions = self._mentions(folded)
        if not mentions:
            return None
        counted = self._counted(folded, mentions)
        declared = self._announced(folded, mentions, counted)
        declared += self._lines(folded, mentions)
        corrected = self._corrected(folded, mentions) if declared else []
        if declared:
            said = Said()
            for choice in declared + corrected:
                said.add(choice)
            return said.choice()
        found = self._paired(folded, mentions, counted) or self._leading(folded, mentions)
        if found is None and any(
            mention.paired and place not in counted for place, mention in enumerate(mentions)
        ):
            return Choice(None, "duplicate_option", False)  # the options, listed
        return found or self._unsettled(folded, mentions)

    def _unsettled(self, folded: str, mentions: list[_Mention]) -> Choice | None:
        """Return why a short text that is all about an answer settles on none."""
        first = mentions[0]
        if len(folded) > GAP or self._is_of_others(folded, first.start):
            return None
        if is_asked(folded, first.end):
            return None
        for mention in mentions:
            if self._choice_of(folded, mention).reason == "range":
                return Choice(None, "range", False)
        if is_denied(folded, first.start):
            return None
        for one, other in pairwise(mentions):
            joined = JOINED.fullmatch(folded[one.end : other.start])
            if joined and joined["by"].strip(" (") and other.option != one.option:
                span = RANGE_BY.search(joined["by"])
                return Choice(None, "range" if span else "duplicate_option", False)
        return None

    def _mentions(self, folded: str) -> list[_Mention]:
        """Return every place that names an option, in the order of the text."""
        found: list[_Mention] = []
        for match in self._pattern.finditer(folded):
            kind = match.lastgroup
            if kind == "number":
                found.append(_Mention(*match.span(), self._of_number(match.group()), number=True))
            elif kind == "only":
                if AFTER_LABEL.match(folded, match.end()):
                    found.append(self._named(folded, match))
            else:
                found.append(self._pair(folded, match))
            if len(found) > 4 * _MAX_MENTIONS:
                break
        if len(found) > _MAX_MENTIONS:
            found = found[: _MAX_MENTIONS // 2] + found[-_MAX_MENTIONS // 2 :]
        return found

    def _named(self, folded: str, match: re.Match[str]) -> _Mention:
        """Return the mention of a label or of a number word, which may be part of a number."""
        name = match.group()
        if name not in self._words:
            return _Mention(*match.span(), self._names[name])
        part = PART_OF_NUMBER.search(folded, max(0, match.start() - 12), match.start())
        option = None if part else self._names[name]
        return _Mention(*match.span(), option, number=True)

    def _of_number(self, text: str) -> int | None:
        if THOUSANDS.fullmatch(text):
            return None
        whole, _, rest = text.replace(",", ".").partition(".")
        return None if rest.strip("0") else self.table.find(whole)

    def _pair(self, folded: str, match: re.Match[str]) -> _Mention:
        """Return the mention of a code beside a label; without an option if they differ."""
        name = match["label"] or match["before"]
        code = re.findall(CODE, match["code"] or match["inside"])[-1]
        by_code, by_name = self.table.find(code), self._names[name]
        bounded = match["label"] is None or AFTER_LABEL.match(folded, match.end()) is not None
        if by_code is not None and by_code == by_name and (bounded or len(name) > 3):
            return _Mention(*match.span(), by_code, paired=True)
        if bounded and match["label"] is None and by_code is None:
            return _Mention(match.start(), match.start() + len(name), by_name)
        if bounded and by_name is not None:
            return _Mention(*match.span(), None, paired=True)
        return _Mention(match.start(), match.start() + len(code), by_code, number=True)

    def _announced(self, folded: str, mentions: list[_Mention], counted: set[int]) -> list[Choice]:
        """Return what words such as "I would choose" announce."""
        starts = [mention.start for mention in mentions]
        found: list[Choice] = []
        others: list[Choice] = []  # what is said of most people
        reached = -1
        for cue in CUE.finditer(folded):
            if cue.start() < reached or cue["denied"]:
                continue
            place = bisect_left(starts, cue.end())
            if place == len(mentions):
                break
            gap = folded[cue.end() : mentions[place].start]
            if len(gap) > GAP or DENIED_GAP.search(gap) or leaves_sentence(gap):
                continue
            if self._is_of_others(folded, cue.start()) or is_asked(folded, mentions[place].end):
                continue
            if mentions[place].number and COUNTED.match(folded, mentions[place].end):
                continue
            if DISCUSSED.search(gap) or (mentions[place].paired and place not in counted):
                continue
            phrase, reached = self._phrase(folded, mentions, place)
            if self._is_said_by(OTHERS, folded[clause_start(folded, cue.start()) : cue.end()]):
                others += phrase
            else:
                found += phrase
            if len(found) + len(others) > MAX_LINES:
                break
        for mention in mentions[:MAX_LINES]:
            if CLOSING_CUE.match(folded, mention.end) and not self._is_of_others(
                folded, mention.start
            ):
                denied = is_denied(folded, mention.start)
                if not denied and not is_asked(folded, mention.end):
                    found.append(self._choice_of(folded, mention))
        if others and not found:  # an answer of its own comes before that of most people
            leading = self._leading(folded, mentions)
            return [*others, leading] if leading else others
        return found

    def _phrase(
        self, folded: str, mentions: list[_Mention], place: int
    ) -> tuple[list[Choice], int]:
        """Return everything that the phrase with a choice names, and where it ends."""
        first = mentions[place]
        found = [self._choice_of(folded, first)]
        end = SENTENCE_END.search(folded, first.end, first.end + REACH)
        stop = end.start() if end else min(len(folded), first.end + REACH)
        last = first
        for mention in mentions[place + 1 : place + 1 + MAX_LINES]:
            gap = folded[last.end : mention.start]
            if mention.start >= stop or (SPEAKER.search(gap) and CUE.search(gap)):
                break  # another phrase
            joined = JOINED.fullmatch(gap)
            if joined is not None:
                if not mention.paired and not mention.number and not joined["by"].strip(" ("):
                    continue
                if mention.option != last.option and RANGE_BY.search(joined["by"]):
                    found.append(Choice(None, "range", False))
                found.append(self._choice_of(folded, mention))
            elif DENIED.search(gap):
                continue
            elif (
                HEDGED.search(gap)
                or _ALSO.match(folded, mention.end)
                or (
                    not EXPLAINED.search(folded, first.end, mention.start)
                    and (mention.paired or mention.number)
                )
            ):
                found.append(self._choice_of(folded, mention))
            else:
                continue
            last = mention
        return found, last.end

    def _choice_of(self, folded: str, mention: _Mention) -> Choice:
        """Return what a mention chooses: an option, a bound, or nothing on the scale."""
        before = folded[max(0, mention.start - 30) : mention.start]
        if mention.paired:
            before = before.rstrip("<>= ")  # a quoted line
        if BOUND_BEFORE.search(before) or BOUND_AFTER.match(folded, mention.end):
            return Choice(None, "range", False)
        if mention.option is None or (mention.number and self._is_mislabelled(folded, mention)):
            return Choice(None, "unknown_option", False)
        return Choice(self.table.codes[mention.option], None, False)

    def _is_mislabelled(self, folded: str, mention: _Mention) -> bool:
        """Return whether a code is followed by a few words that are the label of none.

        "4) Somewhat agree" where 4 is "Strongly agree"; "4) Strongly" and "4) I agree" are not.
        """
        assert mention.option is not None
        own = self.table.labels[mention.option]
        after = re.compile(r"\s?[.):\]-]{1,3}\s?[\"'(]?(?P<rest>[^.!?,;:\n]{1,60})").match(
            folded, mention.end
        )
        if after is None or not self._label_words or ONLY_CODE.fullmatch(bare_label(own)):
            return False
        words = NAME_WORD.findall(after["rest"])
        own_words = set(NAME_WORD.findall(own))
        if not 1 <= len(words) <= 5 or not self._label_words.intersection(words):
            return False
        if own_words <= set(words):
            return bool(DEGREES & (set(words) - own_words))
        return not set(words) <= own_words

    def _lines(self, folded: str, mentions: list[_Mention]) -> list[Choice]:
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
            return [Choice(None, "duplicate_option", False)]  # a list of its own making
        return [self._choice_of(folded, mention) for mention in rest[:MAX_LINES]]

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
                begins = [begins_line(folded, mention.start) for mention in part]
                joined = [
                    LIST_GAP.fullmatch(folded, one.end, other.start) is not None
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

    def _paired(self, folded: str, mentions: list[_Mention], counted: set[int]) -> Choice | None:
        """Return the one option that a text gives by code and label, wherever it does."""
        numbered = {match["code"] for match in NUMBERED_LINE.finditer(folded)}
        declines = bool(counted) and is_refusal(folded, self.table)
        indices: set[int] = set()
        differing = False
        shown: list[Choice] = []
        for place in sorted(counted)[: 4 * MAX_LINES]:
            mention = mentions[place]
            if mention.option is None:
                differing = True
                continue
            clause = folded[clause_start(folded, mention.start) : mention.start]
            if OTHERS_SAY.search(clause) and self._is_of_others(folded, mention.start):
                continue
            if is_denied(folded, mention.start, mentions[place - 1].end if place else 0):
                continue
            indices.add(mention.option)
            if len(indices) > 1:
                break
            if not self._is_discussed(folded, mention, declines):
                shown.append(self._choice_of(folded, mention))
        if len(indices) > 1 or (differing and len(numbered) > 1):
            return Choice(None, "duplicate_option", False)
        if differing:
            return Choice(None, "unknown_option", False)
        if shown:
            said = Said()
            for choice in shown:
                said.add(choice)
            return said.choice()
        if len(numbered) > 1 and not indices:
            # The model repeats the list it was given, or makes one of its own.
            return Choice(None, "duplicate_option", False)
        return None

    def _is_discussed(self, folded: str, mention: _Mention, declines: bool) -> bool:
        """Return whether a pair is spoken about rather than given as the answer."""
        start = clause_start(folded, mention.start)
        clause = folded[start : mention.start]
        if self._is_of_others(folded, mention.start) or is_denied(folded, mention.start):
            return True
        if DISCUSSED.search(clause) or is_asked(folded, mention.end):
            return True
        if not declines:
            return False
        # A refusal may name an option; only one that ends or begins its line answers after all.
        after = folded[mention.end : mention.end + 40].lstrip("\"')] ")
        if after.startswith(":"):
            return True
        ends = not after or after[0] in ".!\n;,-" or EXPLAINED.match(after) is not None
        begins = not any(
            map(str.isalnum, folded[folded.rfind("\n", 0, mention.start) + 1 : mention.start])
        )
        return not (ends or begins)

    def _is_of_others(self, folded: str, position: int) -> bool:
        """Return whether what a clause says is said of somebody else."""
        clause = folded[clause_start(folded, position) : position]
        if any(map(str.isdecimal, clause)):  # a pair such as "2) Some" names nobody
            clause = self._pattern.sub(
                lambda match: match.group() if match.lastgroup == "only" else " ", clause
            )
        if AS_IF.search(clause):
            return True
        patterns = (ATTRIBUTED, OTHERS) if self._personal else (ATTRIBUTED,)
        return any(self._is_said_by(pattern, clause) for pattern in patterns)

    @staticmethod
    def _is_said_by(pattern: re.Pattern[str], clause: str) -> bool:
        """Return whether the last to speak in a clause is whom a pattern names."""
        found = None
        for match in pattern.finditer(clause):
            found = match
        return found is not None and SPEAKER.search(clause, found.end()) is None

    def _corrected(self, folded: str, mentions: list[_Mention]) -> list[Choice]:
        """Return what an answer changes to: which of the two holds is not for us to say."""
        starts = [mention.start for mention in mentions]
        found: list[Choice] = []
        for change in CORRECTING.finditer(folded):
            around = bisect_left(starts, change.start()) - 1
            if around >= 0 and mentions[around].end > change.start():
                continue  # a word of a label, such as "Rather important"
            place = bisect_left(starts, change.end("gap") - len(change["gap"]))
            if place == len(mentions) or mentions[place].start > change.end("gap"):
                continue
            mention = mentions[place]
            gap = folded[change.start() : mention.start]
            plain_label = not mention.number and not mention.paired
            if DENIED.search(gap) or (plain_label and len(gap.split()) > 2):
                continue
            found.append(self._choice_of(folded, mention))
            if len(found) > MAX_LINES:
                break
        return found

    def _leading(self, folded: str, mentions: list[_Mention]) -> Choice | None:
        """Return the option that a text begins with, before it goes on about it."""
        first = mentions[0]
        opening = folded[: first.start]
        if not first.number and not first.paired:
            rest = folded[first.end : first.end + 2].strip(" .!\"')")
            alone = I_LABEL.fullmatch(opening) is not None and not rest
            if not alone and not any(map(str.isalnum, opening)):
                alone = REASONED.match(folded, first.end) is not None
                alone = alone and not is_refusal(folded, self.table)
            return self._choice_of(folded, first) if alone else None
        leading = LEADING.match(folded.replace("\n", " ", 1) if first.end < 30 else folded)
        if leading is None or any(map(str.isalnum, opening)):
            return None
        if COUNTED.match(folded, first.end):
            return None
        rest = leading["rest"]
        if STANDALONE_CODE.search(rest):
            return None
        index = self.table.find(leading["code"])
        for name, other in self._names.items():
            if len(name) > 3 and rest.startswith(name) and other not in (index, None):
                return Choice(None, "unknown_option", False)
        return self._choice_of(folded, first._replace(option=index))


def _with_number_words(
    table: OptionTable, names: Mapping[str, int | None]
) -> Mapping[str, int | None]:
    """Return names of options and the words for their codes, unless a label has such a word."""
    if any(word in NUMBER_WORDS for name in names for word in NAME_WORD.findall(name)):
        return names
    places = {word: table.find(str(number)) for word, number in NUMBER_WORDS.items()}
    return {**{word: place for word, place in places.items() if place is not None}, **names}


@lru_cache(maxsize=512)
def choice_reader(
    table: OptionTable, aliases: tuple[tuple[str, int], ...], personal: bool
) -> ChoiceReader:
    """Return the reader of a question; a personal one is asked for its own view."""
    names = dict(table.by_name)
    for name, index in aliases:
        plain = name.translate(EMPHASIS).translate(DASHES)
        names[plain] = index if names.get(plain, index) == index else None
    return ChoiceReader(table, names, personal)
