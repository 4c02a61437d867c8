"""Value labels of a question -> the codes that are its options, with the evidence for each.

The scale comes from the question: its labels and the codes that the file declares missing, then
what the user declares. The habit of the survey programme (8 is "don't know") speaks only of codes
about which the question says nothing, and the data only confirm. What is concluded is written down;
what is in doubt has to be confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from chronocore.sources.files import SurveyFile
from chronocore.sources.labels import clean_labels, doubtful_order, says_nothing
from chronocore.sources.nonresponse import Reading, non_response, plain_words
from chronocore.sources.presets import LETTERS, VALID, MissingCodes

__all__ = ["LARGEST_CODE", "MOST_POINTS", "Asked", "Scale", "scale_from_labels"]

#: Points of a scale of which only some need a label.
MOST_POINTS = 11
#: Codes fit into 16 bits, beside those of Stata's letters.
LARGEST_CODE = 32_000
# Options that a question may have at all.
_MOST_OPTIONS = 127
# Share of the answers between the ends from which on they confirm that there are points.
_CONFIRMS = 0.01
# Letters of a word that two labels share, when one denies the other.
_TELLING = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in one file: its column, and how many rows have each code."""

    file: SurveyFile
    column: str
    codes: Mapping[int, int]

    def labels(self) -> dict[int, str]:
        """Return the labels without the codes before them, Stata's letters left out."""
        raw = self.file.value_labels.get(self.column, {})
        return clean_labels({c: text for c, text in raw.items() if c not in LETTERS.values()})

    def declared_missing(self, code: int) -> bool:
        """Tell whether the file declares a code missing."""
        return any(low <= code <= high for low, high in self.file.user_missing.get(self.column, ()))


@dataclass(slots=True)
class Scale:
    """The options of one question.

    Attributes
    ----------
    options : dict of int to str
        Labels by code, ascending: what is taken if the doubts are confirmed.
    certain : set of int
        Options that nothing speaks against.
    possible : dict of int to str
        All codes that may be options, if the user says so.
    evidence : list of str
        What was concluded, and from what.
    doubts : list of str
        What has to be confirmed.
    answers : dict of int to str
        Labelled codes that say something of their own; those that are no options are off the
        scale.
    """

    options: dict[int, str] = field(default_factory=dict)
    certain: set[int] = field(default_factory=set)
    possible: dict[int, str] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    answers: dict[int, str] = field(default_factory=dict)

    @property
    def aside(self) -> dict[int, str]:
        """Labelled answers that are no options."""
        return {c: label for c, label in self.answers.items() if c not in self.options}

    def shown(self) -> str:
        """Return the options in words."""
        return " / ".join(
            str(code) if label == str(code) else f"{code} {label}"
            for code, label in self.options.items()
        )


def _spans(codes: Sequence[int]) -> str:
    """Return codes in words, runs as ranges."""
    runs = _runs(sorted(codes))
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _runs(codes: Sequence[int]) -> list[list[int]]:
    """Return ascending codes as runs without a gap."""
    runs: list[list[int]] = []
    for code in codes:
        if runs and code == runs[-1][-1] + 1:
            runs[-1].append(code)
        else:
            runs.append([code])
    return runs


class _Deduction:
    """Finds the scale of one question, step by step."""

    def __init__(
        self, files: Sequence[Asked], missing: MissingCodes, listed: Set[int] = frozenset()
    ) -> None:
        self.missing = missing
        self.listed = listed
        self.scale = Scale()
        self.labels: dict[int, str] = {}
        self.counts: dict[int, int] = {}
        self.out: set[int] = set()
        #: Labels that say why there is no answer, and may mean something else.
        self.weak: dict[int, Reading] = {}
        self.suspects: dict[int, Reading] = {}
        self.negative: dict[int, str] = {}
        #: What speaks against codes that the user takes for answers.
        self.overruled: dict[int, str] = {}
        declared: dict[int, str] = {}
        for asked in files:
            for code, label in asked.labels().items():
                if asked.declared_missing(code) and self.own(code) == VALID:
                    self.overruled[code] = "the file declares it missing"
                    self.labels.setdefault(code, label)
                elif asked.declared_missing(code):
                    self.out.add(code)
                    declared.setdefault(code, label)
                else:
                    self.labels.setdefault(code, label)
            for code, count in asked.codes.items():
                if asked.declared_missing(code) and self.own(code) != VALID:
                    self.out.add(code)
                else:
                    self.counts[code] = self.counts.get(code, 0) + count
        for code in declared:
            self.labels.pop(code, None)
        if declared:
            self._say("declared missing in the file", declared)

    def own(self, code: int) -> str | None:
        """Return what the user says of a code: a reason, :data:`VALID`, or None."""
        return self.missing.own(code) or (VALID if code in self.listed else None)

    def _say(self, why: str, codes: Mapping[int, str]) -> None:
        named = ", ".join(f"{code} {label!r}" for code, label in sorted(codes.items()))
        self.scale.evidence.append(f"no answer, {why}: {named}")

    def classify(self) -> dict[int, str]:
        """Return the labelled codes that say something of their own."""
        answers: dict[int, str] = {}
        by_label: dict[str, dict[int, str]] = {}
        by_habit: dict[str, dict[int, str]] = {}
        for code, label in self.labels.items():
            own, habit = self.own(code), self.missing.habit(code)
            reading = non_response(label)
            if abs(code) > LARGEST_CODE:
                self.out.add(code)
                self.scale.doubts.append(
                    f"code {code} ({label!r}) is larger than codes are ({LARGEST_CODE:,}): taken "
                    "for no option"
                )
            elif own == VALID:
                answers[code] = label
                if reading.reason is not None and not reading.weak:
                    self.overruled.setdefault(code, f"its label says {reading.reason!r}")
            elif own is not None:
                self.out.add(code)
            elif reading.reason is not None and (not reading.weak or habit is not None):
                self.out.add(code)
                by_label.setdefault(reading.reason, {})[code] = label
            elif says_nothing(label) and (habit is not None or code < 0):
                by_habit.setdefault(habit or "codes below 0 are", {})[code] = label
            elif code < 0:
                self.negative[code] = label
            elif reading.reason is not None:
                self.weak[code] = reading
            else:
                answers[code] = label
                if reading.suspect is not None:
                    self.suspects[code] = reading
        for reason, codes in by_label.items():
            self._say(by_its_label(reason), codes)
        for code, against in sorted(self.overruled.items()):
            setting = "order" if self.missing.own(code) is None else "missing] valid"
            self.scale.evidence.append(
                f"code {code} ({self.labels[code]!r}) is an answer by [sources.{setting}"
                f"{']' if setting == 'order' else ''}, although {against}"
            )
        # A number as a label says nothing: it is a point of the scale if it lies within.
        ends = (min(answers), max(answers)) if answers else (0, 0)
        for reason, codes in by_habit.items():
            for code, label in codes.items():
                if ends[0] < code < ends[1]:
                    answers[code] = label
                else:
                    self.out.add(code)
                    self.scale.evidence.append(
                        f"no answer, {reason} by the habit of the survey: {code} {label!r}"
                    )
        return dict(sorted(answers.items()))

    def fill(self, answers: dict[int, str]) -> None:
        """Find the points between labelled codes, and the codes that stand apart."""
        low, high = min(answers), max(answers)
        width = high - low + 1
        free = (
            [c for c in range(low, high) if c not in answers and c not in self.out]
            if width <= _MOST_OPTIONS
            else []
        )
        free = [c for c in free if c not in self.weak and self.own(c) in (None, VALID)]
        alone = all(len(run) == 1 for run in _runs(list(answers)))
        if width > MOST_POINTS and alone:
            self._far_end(answers, low, high)
        elif free and alone:
            self._between_ends(answers, free)
        elif free or width > _MOST_OPTIONS:
            self._holes(answers, free)
        else:
            self._take(answers, answers)

    def _take(self, options: Mapping[int, str], certain: Mapping[int, str]) -> None:
        self.scale.options.update(options)
        self.scale.certain.update(certain)

    def _rows(self, codes: Sequence[int]) -> int:
        return sum(self.counts.get(code, 0) for code in codes)

    def _between_ends(self, answers: dict[int, str], free: list[int]) -> None:
        """Settle a scale of which only the ends (and some points) are labelled."""
        inner, outer = self._rows(free), self._rows(list(answers))
        points = {**answers, **{code: str(code) for code in free}}
        if inner and inner >= _CONFIRMS * (inner + outer):
            self._take(points, points)
            self.scale.evidence.append(
                f"points without a label, between labelled ones: {_spans(free)} ({inner:,} answers)"
            )
            return
        self._take(answers, answers)
        self.scale.possible.update(points)
        between = f"{inner:,} answers are" if inner else "no answer is"
        self.scale.doubts.append(
            f"only {_spans(list(answers))} have a label, and {between} between them: taken for "
            f"all options; if {_spans(free)} belong to the question, list them too"
        )

    def _far_end(self, answers: dict[int, str], low: int, high: int) -> None:
        """Settle labels that lie too far apart for a scale: hours, ages, a thermometer."""
        used = [c for c in self.counts if low < c < high and c not in self.out]
        used = [c for c in used if self.own(c) in (None, VALID) and c not in self.weak]
        reached = bool(self.counts.get(high))
        top = high if reached else max(used, default=low)
        if reached and high - low < _MOST_OPTIONS:
            options = {c: answers.get(c, str(c)) for c in range(low, high + 1) if c not in self.out}
        else:
            options = {c: answers.get(c, str(c)) for c in range(low, min(top, low + 126) + 1)}
            options = {c: label for c, label in options.items() if c not in self.out}
        self._take(options, {})
        self.scale.possible.update({c: answers.get(c, str(c)) for c in (*answers, *used, *options)})
        far = ", ".join(f"{c} {label!r}" for c, label in answers.items() if c not in options)
        last = f"answers reach {top}"
        shown = f"; {far} is taken for no option" if far else ""
        self.scale.doubts.append(
            f"only {', '.join(f'{c} {label!r}' for c, label in answers.items())} have a label, and "
            f"{last}{shown}: {_spans(list(options))} are taken for the options"
        )

    def _holes(self, answers: dict[int, str], free: list[int]) -> None:
        """Settle labels with holes: points without a label, or codes that stand apart."""
        filled: list[int] = []
        total = self._rows([*answers, *free])
        for hole in _runs(free):
            used = [c for c in hole if self.counts.get(c)]
            enough = self._rows(hole) >= _CONFIRMS * total
            if used and enough and 2 * len(used) >= len(hole):
                filled += hole
        if filled:
            self.scale.evidence.append(
                f"points without a label, between labelled ones: {_spans(filled)} "
                f"({self._rows(filled):,} answers)"
            )
        points = dict(sorted({**answers, **{code: str(code) for code in filled}}.items()))
        # What the file or its labels call missing leaves no hole.
        steps = [c for c in self.out | set(self.weak) if min(points) < c < max(points)]
        runs = [[c for c in run if c in points] for run in _runs(sorted([*points, *steps]))]
        runs = [run for run in runs if run]
        main = max(runs, key=len)
        apart = [c for run in runs if run is not main for c in run]
        # One code left out is a gap in the scale; a code far off is hardly an option.
        near = [c for c in apart if main[0] - 2 <= c <= main[-1] + 2 or 2 * len(apart) > len(main)]
        near += [c for c in apart if c not in near and self.own(c) == VALID]
        self._take(
            {c: points[c] for c in points if c in main or c in near}, dict.fromkeys(main, "")
        )
        self.scale.possible.update(
            {**points, **{c: str(c) for c in free if abs(c) <= _MOST_OPTIONS}}
        )
        for code in apart:
            if self.own(code) == VALID:
                continue
            taken = "an option" if code in near else "no option"
            self.scale.doubts.append(
                f"code {code} ({points[code]!r}, {self.counts.get(code, 0):,} answers) stands "
                f"apart from {_spans(main)}: taken for {taken}"
            )

    def doubt_words(self, answers: dict[int, str]) -> None:
        """Ask about labels that may be answers and may be none."""
        scale = self.scale
        for code, reading in sorted(self.weak.items()):
            label = self.labels[code]
            beside = code - 1 in scale.options or code + 1 in scale.options
            scale.possible[code] = label
            if beside:
                scale.doubts.append(
                    f"code {code} ({label!r}) may be an answer or none: taken for "
                    f"{reading.reason!r}"
                )
            else:
                self._say(by_its_label(str(reading.reason)), {code: label})
        ends = {min(scale.options), max(scale.options)}
        for code, reading in sorted(self.suspects.items()):
            if code in ends and code in scale.options:
                scale.doubts.append(
                    f"code {code} ({answers[code]!r}) may be an answer or none "
                    f"({reading.suspect}): taken for an option"
                )
        for code in sorted(self.out & self.labels.keys()):
            self._doubt_denial(code)
        for code, label in sorted(self.negative.items()):
            scale.possible[code] = label
            scale.doubts.append(
                f"code {code} ({label!r}) is below 0, as missing codes are: taken for no answer; "
                f"if it is one: [sources.missing] valid = [{code}]"
            )

    def _doubt_denial(self, code: int) -> None:
        """Ask about "Unknown" beside "Well known": it may be the end of the scale."""
        scale = self.scale
        if not (code - 1 in scale.options or code + 1 in scale.options):
            return
        if self.missing.own(code) is not None:
            return
        words = [w for w in plain_words(self.labels[code]).split() if len(w) >= _TELLING]
        for label in scale.options.values():
            others = [w for w in plain_words(label).split() if len(w) >= _TELLING]
            if any(a in b or b in a for a in words for b in others):
                scale.possible[code] = self.labels[code]
                scale.doubts.append(
                    f"code {code} ({self.labels[code]!r}) may be an answer like {label!r} or none: "
                    "taken for none"
                )
                return

    def show_habit(self) -> None:
        """Say where the question overrules the habit of the survey programme, or follows it."""
        for code, label in self.scale.options.items():
            habit = self.missing.habit(code)
            if habit is not None and code in self.labels and not says_nothing(label):
                self.scale.evidence.append(
                    f"code {code} ({label!r}) is an answer by its label, although the survey has "
                    f"{habit!r} there"
                )
        low, high = min(self.scale.options), max(self.scale.options)
        total = self._rows(list(self.scale.options))
        for code, count in sorted(self.counts.items()):
            if code in self.labels or code in self.scale.options or code in self.out:
                continue
            if code not in LETTERS.values() and self.missing.own(code) == VALID:
                self.scale.possible[code] = str(code)
                self.scale.doubts.append(
                    f"code {code} is an answer by [sources.missing] valid, and has {count:,} "
                    "answers and no label: taken for no option"
                )
                continue
            if self.missing.own(code) is not None or code in LETTERS.values() or code < 0:
                continue
            habit = self.missing.habit(code)
            if habit is not None:
                self.scale.evidence.append(
                    f"no answer, {habit} by the habit of the survey: {code} without a label"
                )
            elif code in (low - 1, high + 1) and count >= _CONFIRMS * (total + count):
                self.scale.possible[code] = str(code)
                self.scale.doubts.append(
                    f"code {code} has no label and {count:,} answers, beside {low} to {high}: "
                    "taken for no option"
                )

    def run(self) -> Scale:
        scale = self.scale
        answers = scale.answers = self.classify()
        # Labelled codes that are no options may still be named as such by the user.
        scale.possible.update(
            {c: label for c, label in self.labels.items() if self.own(c) in (None, VALID)}
        )
        if len(answers) < 2:
            self._take(answers, answers)
            if answers:
                self.doubt_words(answers)
            return self._settled()
        self.fill(answers)
        self.doubt_words(answers)
        self.show_habit()
        return self._settled()

    def _settled(self) -> Scale:
        scale = self.scale
        scale.options = dict(sorted(scale.options.items()))
        middle = doubtful_order(list(scale.options.values()))
        if middle is not None:
            scale.doubts.append(
                f"{middle!r} stands at an end of the scale, in the order of the codes"
            )
        scale.possible = dict(sorted({**scale.possible, **scale.options}.items()))
        return scale


def by_its_label(reason: str) -> str:
    """Return a reason and where it is from; the label of "no answer" says just that."""
    return "by its label" if reason == "no answer" else f"{reason} by its label"


def scale_from_labels(
    files: Sequence[Asked], missing: MissingCodes, listed: Set[int] = frozenset()
) -> Scale:
    """Return the options that the value labels of one question give.

    Parameters
    ----------
    files : sequence of Asked
        Every file that asks the question. The scale is the same for all of them.
    missing : MissingCodes
        What the user declares, and the habit of the survey programme.
    listed : set of int
        Codes that the user lists as the scale: answers, whatever the file or a label says of them.

    Returns
    -------
    Scale
        Without options if fewer than two labels say anything.
    """
    return _Deduction(files, missing, listed).run()
