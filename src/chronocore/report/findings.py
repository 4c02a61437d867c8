"""The findings in words, whichever way the numbers go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chronocore.metrics import SHIFTS
from chronocore.report.basis import Basis, Question, basis
from chronocore.results import Cell, Results, load_results
from chronocore.score import RunSummary
from chronocore.scores import LARGE_DRIFT
from chronocore.store import Study
from chronocore.tables import SMALL_N, number, words

__all__ = ["LEGEND", "Finding", "answer_of", "findings", "findings_of"]

#: What the names of the findings stand for.
LEGEND = "RF: research finding, numbered as in the ChronoCulture paper."

#: The references that predict no change, as the answer names them.
_STATIC = {
    "uniform": "an even spread over the options",
    "undated_both": "its own answer without a year",
    "persistence": "persistence, which repeats the oldest survey",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about one run.

    Attributes
    ----------
    name : {"Answer", "RF1", "RF2", "RF3"}
        What the numbers say in short and what they rest on; accuracy and alignment; magnitude
        and direction; naming a year.
    sentence : str
        Plain text. Every number in it is a cell of ``tables``, or a count of the pairs that a
        percentage in it stands for.
    tables : tuple of str
        Names of the tables it is read from.
    """

    name: str
    sentence: str
    tables: tuple[str, ...]


def findings(study: str | Path | Study, label: str | None = None) -> list[Finding]:
    """Return the findings about a run in words: a short answer, and three headline findings.

    Parameters
    ----------
    study : path or Study
    label : str, optional
        Label of an evaluated run; by default the first model, or the first reference of a
        study without models.

    Returns
    -------
    list of Finding
        Answer, RF1, RF2, RF3.

    Raises
    ------
    ConfigurationError
        No evaluated run has this label.
    StudyError
        The study was not scored yet.
    """
    results = load_results(study if isinstance(study, Study) else Study.open(study))
    return findings_of(results, results.run(label))


def findings_of(
    results: Results, run: RunSummary, listed: Sequence[Question] | None = None
) -> list[Finding]:
    """Return the findings about one evaluated run."""
    rests_on = basis(results, run, listed)
    agreed = _Agreed()
    answer = " ".join(answer_of(results, run, rests_on))
    return [
        Finding("Answer", answer, ("basis", "t08", "t11")),
        _accuracy(results, run, agreed),
        _change(results, run, agreed),
        _naming(results, run, agreed),
    ]


# -- writing -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Agreed:
    """Whether some share was 0% or 100%, has an exact interval, and was explained already."""

    seen: bool = False
    exact: bool = False
    explained: bool = False


@dataclass(slots=True)
class _Writer:
    """Formats cells, and remembers what a reader must know about them."""

    results: Results
    agreed: _Agreed
    _spelt: bool = False
    _few: list[str] = field(default_factory=list)

    def value(self, cell: Cell, unit: str, suffix: str = "", interval: bool = True) -> str:
        """Return "12.3% [10.1, 14.5]"; the first interval says its level."""
        text = number(cell.estimate, unit) + suffix
        if not interval or cell.low is None:
            return text
        head = "" if self._spelt else f"{self.results.level} interval "
        self._spelt = True
        return f"{text} [{head}{number(cell.low, unit)}, {number(cell.high, unit)}]"

    def share(self, cell: Cell, interval: bool = True) -> str:
        """Return a percentage, or "none" or "all" where the pairs agree."""
        whole = _whole(cell)
        if whole is None:
            return self.value(cell, "%", "%", interval)
        self._see(cell)
        return whole

    def _see(self, cell: Cell) -> None:
        """Remember that all or none was said, and whether the tables have its exact interval."""
        self.agreed.seen = True
        self.agreed.exact |= cell.exact_low is not None

    def of(self, cell: Cell, kind: str = "") -> str:
        """Return "3 of 56 pairs (5.4% [0.0, 12.5])", "all 56 pairs" or "none of 56 pairs".

        Of one pair: "the only pair" or "none (there is one pair)", which read on in a sentence.
        """
        whole = _whole(cell)
        if whole is None:
            return f"{_hits(cell)} of {_pairs(cell.n, kind)} ({self.value(cell, '%', '%')})"
        self._see(cell)
        if cell.n == 1:
            noun = f"{kind} pair" if kind else "pair"
            return f"the only {noun}" if whole == "all" else f"none (there is one {noun})"
        return f"{'all' if whole == 'all' else 'none of'} {_pairs(cell.n, kind)}"

    def watch(self, cell: Cell, what: str) -> None:
        """Remember a cell that rests on few pairs."""
        if cell.few and what not in self._few:
            self._few.append(what)

    def caution(self) -> str:
        """Return what a reader must know about the cells, or nothing."""
        text = ""
        if self.agreed.seen and not self.agreed.explained:
            self.agreed.explained = True
            text += (
                " All or none stands without an interval: resamples of equal values are equal, "
                "which is a limit of the bootstrap and not certainty"
                + ("; the tables have exact intervals." if self.agreed.exact else ".")
            )
        if self._few:
            words = self.results.few_words
            text += f" {words[0].upper()}{words[1:]}, so only indicative: {_list(self._few)}."
        return text


def _whole(cell: Cell) -> str | None:
    """Return whether a percentage is that of all or of no pairs."""
    if cell.estimate is None or not cell.n:
        return None
    return "none" if cell.estimate <= 0 else "all" if cell.estimate >= 100 else None


def _hits(cell: Cell) -> int:
    """Return the number of pairs that a percentage counts."""
    return round((cell.estimate or 0.0) * cell.n / 100)


def _list(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def _pairs(count: int, kind: str = "") -> str:
    noun = f"{kind} pair" if kind else "pair"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _on(count: int, n: int) -> str:
    """Return "3 of 56 pairs", or "all 56 pairs"."""
    if count < n:
        return f"{count:,} of {_pairs(n)}"
    return f"all {_pairs(n)}" if n > 1 else "the only pair"


def _order(first: Cell, last: Cell) -> int:
    """Return whether the first is clearly lower (-1) or higher (1) than the last, or neither.

    An interval without width says nothing where it rests on few pairs.
    """
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return 0
    if any(cell.low == cell.high and cell.few for cell in (first, last)):
        return 0
    return -1 if first.high < last.low else 1 if first.low > last.high else 0


def _side(cell: Cell, middle: float) -> int:
    """Return on which side of a number the interval of a cell lies; 0 where it holds it."""
    return _order(cell, Cell(middle, middle, middle, SMALL_N))


# -- the answer ----------------------------------------------------------------------------------


def _best_static(results: Results, run: RunSummary) -> tuple[str, Cell] | None:
    """Return the reference without a change that is accurate most often on the same pairs."""
    n = results.cell("t08", run, "all", "both").n
    held = [
        (name, cell)
        for name in _STATIC
        if (cell := results.cell("t08", run, "all", "both", None, name)).n == n
        and cell.estimate is not None
    ]
    return max(held, key=lambda entry: entry[1].estimate or 0.0, default=None)


def _verdict(results: Results, run: RunSummary, better: bool) -> str:
    """Return a word or two on whether the model knows how attitudes changed."""
    zero = results.cell("t11", run, "all_shifted", "zero_shift")
    right = _side(results.cell("t11", run, "all_shifted", "right_direction"), 50.0)
    if zero.n < SMALL_N:
        return "Too few shifted pairs to tell"
    if zero.estimate == 100 or right < 0:
        return "No"
    if (zero.estimate or 0.0) >= 50:
        return "Mostly not"
    if right > 0:
        return "Yes, more than a reference that never changes" if better else "In part"
    return "In part" if better else "Not that these pairs could show it"


def answer_of(results: Results, run: RunSummary, rests_on: Basis) -> list[str]:
    """Return the sentences of the answer; the first is the answer itself."""
    n = rests_on.retained
    if not n:
        return [f"No pair of {run.label} could be evaluated."]
    write = _Writer(results, _Agreed())
    both = results.cell("t08", run, "all", "both")
    right = results.cell("t11", run, "all_shifted", "right_direction")
    best = _best_static(results, run)
    order = _order(both, best[1]) if best else 0
    # Reaction to the year, and where there is one, its direction.
    still, even = rests_on.still, rests_on.even
    whose = f"the predictions of {run.label}"
    if still == n:
        text = f"{whose} do not react to the year (identical for both years on {_on(n, n)})"
    elif still >= n / 2:
        text = f"{whose} are identical for both years on {_on(still, n)}"
    else:
        text = f"{whose} differ between the years on {_on(n - still, n)}"
    if even >= n / 10:
        where = f"the same {even:,}" if even == still < n else _on(even, n)
        text += f" and do not differ from an even spread over the options on {where}"
    if right.n:
        clear = {
            1: "is right more often than wrong",
            0: "is not clearly right more often than wrong",
            -1: "is wrong more often than right",
        }[_side(right, 50.0)]
        text += (
            f"; where they differ on shifted pairs, the direction {clear}: right on "
            f"{write.of(right)}"
        )
    if run.engine == "reference":
        text = text[0].upper() + text[1:]
    else:
        text = f"{_verdict(results, run, order > 0)}: {text}"
    sentences = [f"{text}."]
    text = f"Both years are within {results.tau_text} of the survey on {write.of(both)}"
    if best is not None:
        than = {1: "more than for", 0: "not clearly different from", -1: "fewer than for"}[order]
        text += (
            f", {than} {_STATIC[best[0]]} ({write.share(best[1])}), the best of the references "
            "that predict no change"
        )
    sentences += [f"{text}.", *_basis_sentences(rests_on)]
    if n < SMALL_N:
        sentences.append(f"Fewer than {SMALL_N} pairs: all of this is only indicative.")
    return sentences


def _basis_sentences(rests_on: Basis) -> list[str]:
    n = rests_on.retained
    lost, filtered = rests_on.pairs - rests_on.complete, rests_on.complete - n
    text = f"Basis: {_on(n, rests_on.pairs)} of the benchmark"
    if lost:
        text += f"; {lost:,} lack{'s' if lost == 1 else ''} at least one valid prediction"
    if filtered:
        more = " more" if lost else ""
        be = "is" if filtered == 1 else "are"
        text += f"{' and' if lost else ';'} {filtered:,}{more} {be} left out by the knowledge"
        text += " filter"
    sentences = [f"{text}."]
    if rests_on.most is not None and rests_on.dominated and n > 1:
        question = rests_on.most
        who = "All" if rests_on.n_most == n else f"{rests_on.n_most:,}"
        sentences.append(
            f"{who} of the {n:,} are from one question ({question.survey} {question.variable}); "
            "pairs of one question are not independent, so the intervals are likely too narrow."
        )
    return sentences


# -- RF1 -----------------------------------------------------------------------------------------


def _accuracy(results: Results, run: RunSummary, agreed: _Agreed) -> Finding:
    write = _Writer(results, agreed)
    overall = results.cell("t08", run, "all", "both")
    if overall.n == 0:
        return Finding("RF1", f"No pair of {run.label} could be evaluated.", ("t08", "t10"))
    text = (
        f"Both predictions of {run.label} are within {results.tau_text} of the survey for "
        f"{write.of(overall)}."
    )
    write.watch(overall, "all pairs")
    by_shift = {shift: results.cell("t08", run, shift, "both") for shift in SHIFTS}
    filled = [shift for shift in SHIFTS[1:] if by_shift[shift].n]
    enough = [shift for shift in filled if by_shift[shift].n >= SMALL_N]
    if by_shift["stable"].n and filled:
        shift = (enough or filled)[-1]
        text += " " + _compare(write, by_shift["stable"], by_shift[shift], words(shift))
    others = [p for p in results.predictions[run.run_id] if p != "model"]
    if others:
        shares = []
        for p in others:
            cell = results.cell("t08", run, "all", "both", None, p)
            fewer = f" of {cell.n:,}" if cell.n != overall.n else ""
            shares.append(f"{words(p)} {write.value(cell, '%', '%', interval=False)}{fewer}")
        text += f" References on the same pairs: {', '.join(shares)}."
    separated = results.cell("t10", run, "all_shifted", "separated")
    if separated.n:
        write.watch(separated, "shifted pairs")
        older, newer, reverse, tied = (
            results.cell("t10", run, "all_shifted", measure)
            for measure in ("older_aligned", "newer_aligned", "reversed", "tied")
        )
        text += (
            f" Of {_pairs(separated.n, 'shifted')}, {write.share(separated)} are separated (each "
            "prediction is nearest to its own year's survey); both predictions are nearer to the "
            f"older survey for {write.share(older)} and to the newer one for "
            f"{write.share(newer)}; {write.share(reverse, False)} are reversed"
        )
        text += f" and {write.share(tied, False)} tied." if tied.estimate else "."
    else:
        text += " None of the pairs is a shifted one, so alignment is undefined."
    return Finding("RF1", text + write.caution(), ("t08", "t10"))


def _compare(write: _Writer, first: Cell, last: Cell, name: str) -> str:
    write.watch(first, "stable pairs")
    write.watch(last, f"{name} pairs")
    order = _order(first, last)
    stable, other = _pairs(first.n, "stable"), _pairs(last.n, name)
    if order == 0:
        return (
            f"There is no clear difference between {stable} ({write.share(first)}) and {other} "
            f"({write.share(last)})."
        )
    verb = "falls" if order > 0 else "rises"
    return (
        f"From {stable} to {other}, this share {verb} from {write.share(first)} to "
        f"{write.share(last)}."
    )


# -- RF2 -----------------------------------------------------------------------------------------


def _change(results: Results, run: RunSummary, agreed: _Agreed) -> Finding:
    write = _Writer(results, agreed)
    parts: list[str] = []
    zero = results.cell("t11", run, "all_shifted", "zero_shift")
    ratio = results.cell("t11", run, "all_shifted", "median_ratio")
    right = results.cell("t11", run, "all_shifted", "right_direction")
    if zero.n:
        write.watch(zero, "shifted pairs")
        parts.append(
            f"The predictions of {run.label} for the two years are identical on "
            f"{write.of(zero, 'shifted')}."
        )
    else:
        parts.append(f"No shifted pair of {run.label} could be evaluated.")
    if ratio.n:
        write.watch(ratio, "pairs with a predicted change")
        size = {
            0: "neither clearly smaller nor clearly larger than",
            -1: "smaller than",
            1: "larger than",
        }[_side(ratio, 1.0)]
        parts.append(
            f"Where they differ ({_pairs(ratio.n)}), the predicted change is {size} the observed "
            f"one (median ratio {write.value(ratio, 'ratio')})"
        )
        if right.n:
            where = "" if right.n == ratio.n else f" of {_pairs(right.n)}"
            parts[-1] += f" and its direction is right for {write.share(right)}{where}"
        parts[-1] += "."
    elif zero.n:
        parts.append("There is no predicted change whose size or direction could be compared.")
    stable = results.cell("t13", run, "stable", "preserves")
    if stable.n:
        write.watch(stable, "stable pairs")
        large = results.cell("t13", run, "stable", "large_drift")
        parts.append(
            f"Of {_pairs(stable.n, 'stable')}, {write.share(stable)} keep their two predictions "
            f"within {results.boundaries[0]:g} of each other, as they should, and "
            f"{write.share(large, False)} drift by {LARGE_DRIFT:.2f} or more."
        )
    return Finding("RF2", " ".join(parts) + write.caution(), ("t11", "t13"))


# -- RF3 -----------------------------------------------------------------------------------------


def _benefit(results: Results, run: RunSummary, write: _Writer, item: str) -> str:
    benefit, helped, hurt = (
        results.cell("t17", run, "all", measure, item)
        for measure in ("mean_benefit", "helped", "hurt")
    )
    nearer, farther = _hits(helped), _hits(hurt)
    changed = nearer + farther
    if not changed:
        return f"aming the {item} year changes the distance to the survey on none of them"
    effect = {
        1: "brings predictions nearer to the survey",
        0: "makes no clear difference on average",
        -1: "takes predictions farther from the survey",
    }[_side(benefit, 0.0)]
    return (
        f"aming the {item} year {effect} (mean benefit {write.value(benefit, 'W x 100')} W × 100; "
        f"{_on(changed, benefit.n)} change{'s' if changed == 1 else ''}: {nearer:,} nearer, "
        f"{farther:,} farther)"
    )


def _naming(results: Results, run: RunSummary, agreed: _Agreed) -> Finding:
    write = _Writer(results, agreed)
    newest = results.cell("t16", run, "all", "newest", "observed")
    chance = results.cell("t16", run, "all", "newest", "equal_choice")
    if newest.n == 0:
        return Finding("RF3", f"No pair of {run.label} could be evaluated.", ("t16", "t17"))
    write.watch(newest, "all pairs")
    middle = chance.estimate if chance.estimate is not None else 0.0
    than = {1: "more than", 0: "not clearly different from", -1: "less than"}[_side(newest, middle)]
    even = results.cell("t16", run, "all", "newest", "observed", "uniform")
    beside = f" (an even spread over the options: {write.share(even, False)})" if even.n else ""
    text = (
        f"Asked without a year, {run.label} is nearest to the newest survey for "
        f"{write.share(newest)} of {_pairs(newest.n)}{beside}, {than} the "
        f"{write.value(chance, '%', '%', interval=False)} of an equal choice among the available "
        "years."
    )
    older, newer = (_benefit(results, run, write, item) for item in ("older", "newer"))
    text += f" N{older}; n{newer}."
    return Finding("RF3", text + write.caution(), ("t16", "t17"))
