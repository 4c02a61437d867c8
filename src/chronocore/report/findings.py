"""The three headline findings in words, whichever way the numbers go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chronocore.metrics import SHIFTS
from chronocore.report.results import Cell, Results, load_results
from chronocore.score import RunSummary
from chronocore.scores import LARGE_DRIFT
from chronocore.store import Study
from chronocore.tables import SMALL_N, number, words

__all__ = ["Finding", "findings", "findings_of"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A headline finding.

    Attributes
    ----------
    name : {"RF1", "RF2", "RF3"}
        Accuracy and alignment; magnitude and direction; naming a year.
    sentence : str
        Plain text. Every number in it is a cell of ``tables``.
    tables : tuple of str
        Names of the tables it is read from.
    """

    name: str
    sentence: str
    tables: tuple[str, ...]


def findings(study: str | Path | Study, label: str | None = None) -> list[Finding]:
    """Return the three headline findings of a run in words.

    Parameters
    ----------
    study : path or Study
    label : str, optional
        Label of an evaluated run; by default the first model, or the first reference of a
        study without models.

    Returns
    -------
    list of Finding
        RF1, RF2, RF3.

    Raises
    ------
    ConfigurationError
        No evaluated run has this label.
    StudyError
        The study was not scored yet.
    """
    results = load_results(study if isinstance(study, Study) else Study.open(study))
    return findings_of(results, results.run(label))


def findings_of(results: Results, run: RunSummary) -> list[Finding]:
    """Return the three findings of one evaluated run."""
    return [_accuracy(results, run), _change(results, run), _naming(results, run)]


class _Writer:
    """Formats cells, and remembers which of them have few pairs."""

    def __init__(self, results: Results) -> None:
        self._level = results.level
        self._spelt = False
        self._few: list[str] = []

    def value(self, cell: Cell, unit: str, suffix: str = "", interval: bool = True) -> str:
        """Return "12.3% [10.1, 14.5]"; the first interval says its level."""
        text = number(cell.estimate, unit) + suffix
        if not interval or cell.low is None:
            return text
        head = "" if self._spelt else f"{self._level} interval "
        self._spelt = True
        return f"{text} [{head}{number(cell.low, unit)}, {number(cell.high, unit)}]"

    def share(self, cell: Cell, interval: bool = True) -> str:
        """Return a percentage."""
        return self.value(cell, "%", "%", interval)

    def watch(self, cell: Cell, what: str) -> None:
        """Remember a cell that rests on few pairs."""
        if 0 < cell.n < SMALL_N and what not in self._few:
            self._few.append(what)

    def caution(self) -> str:
        """Return what a reader must know about small cells, or nothing."""
        if not self._few:
            return ""
        return f" Fewer than {SMALL_N} pairs, so only indicative: {_list(self._few)}."


def _list(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def _pairs(count: int, kind: str = "") -> str:
    noun = f"{kind} pair" if kind else "pair"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _accuracy(results: Results, run: RunSummary) -> Finding:
    write = _Writer(results)
    overall = results.cell("t08", run, "all", "both")
    whose = f"Both predictions of {run.label} are within {results.tau_text} of the survey"
    if overall.n == 0:
        return Finding("RF1", f"No pair of {run.label} could be evaluated.", ("t08", "t10"))
    text = f"{whose} for {write.share(overall)} of {_pairs(overall.n)}."
    write.watch(overall, "all pairs")
    by_shift = {shift: results.cell("t08", run, shift, "both") for shift in SHIFTS}
    filled = [shift for shift in SHIFTS[1:] if by_shift[shift].n]
    enough = [shift for shift in filled if by_shift[shift].n >= SMALL_N]
    if by_shift["stable"].n and filled:
        shift = (enough or filled)[-1]
        text += " " + _compare(write, by_shift["stable"], by_shift[shift], words(shift))
    others = [p for p in results.predictions[run.run_id] if p != "model"]
    if others:
        shares = [
            f"{words(p)} {write.share(results.cell('t08', run, 'all', 'both', None, p), False)}"
            for p in others
        ]
        text += f" References on the same pairs: {', '.join(shares)}."
    separated = results.cell("t10", run, "all_shifted", "separated")
    if separated.n:
        write.watch(separated, "shifted pairs")
        older, newer, reverse = (
            results.cell("t10", run, "all_shifted", measure)
            for measure in ("older_aligned", "newer_aligned", "reversed")
        )
        text += (
            f" Of {_pairs(separated.n, 'shifted')}, {write.share(separated)} are separated (each "
            f"prediction is nearest to its own year), while both predictions are nearer to the "
            f"older survey for {write.share(older)} and to the newer one for "
            f"{write.share(newer)}; {write.share(reverse, False)} are reversed."
        )
    else:
        text += " None of the pairs is a shifted one, so alignment is undefined."
    return Finding("RF1", text + write.caution(), ("t08", "t10"))


def _compare(write: _Writer, first: Cell, last: Cell, name: str) -> str:
    write.watch(first, "stable pairs")
    write.watch(last, f"{name} pairs")
    groups = f"From {_pairs(first.n, 'stable')} to {_pairs(last.n, name)}, this share"
    before, after = number(first.estimate, "%"), number(last.estimate, "%")
    if before == after:
        return f"{groups} stays at {write.share(last)}."
    verb = "falls" if (last.estimate or 0.0) < (first.estimate or 0.0) else "rises"
    text = f"{groups} {verb} from {write.share(first)} to {write.share(last)}"
    bounds = (first.low, first.high, last.low, last.high)
    if None not in bounds:
        a, b, c, d = (float(x or 0.0) for x in bounds)
        if a <= d and c <= b:
            text += "; the intervals overlap"
    return text + "."


def _change(results: Results, run: RunSummary) -> Finding:
    write = _Writer(results)
    parts: list[str] = []
    zero = results.cell("t11", run, "all_shifted", "zero_shift")
    ratio = results.cell("t11", run, "all_shifted", "median_ratio")
    right = results.cell("t11", run, "all_shifted", "right_direction")
    if zero.n:
        write.watch(zero, "shifted pairs")
        parts.append(
            f"On {_pairs(zero.n, 'shifted')}, the two predictions of {run.label} are identical "
            f"for {write.share(zero)}."
        )
    else:
        parts.append(f"No shifted pair of {run.label} could be evaluated.")
    if ratio.n:
        write.watch(ratio, "pairs with a predicted change")
        size = "neither clearly smaller nor clearly larger than"
        if ratio.high is not None and ratio.high < 1:
            size = "smaller than"
        elif ratio.low is not None and ratio.low > 1:
            size = "larger than"
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
            f"On {_pairs(stable.n, 'stable')}, {write.share(stable)} of the predictions stay "
            f"within {results.boundaries[0]:g} of each other and {write.share(large, False)} "
            f"drift by {LARGE_DRIFT:.2f} or more."
        )
    return Finding("RF2", " ".join(parts) + write.caution(), ("t11", "t13"))


def _effect(write: _Writer, cell: Cell) -> str:
    low, high = cell.low, cell.high
    if low is None or high is None:
        effect = "has no measurable effect"
    elif number(low, "W x 100") == number(high, "W x 100") == number(0.0, "W x 100"):
        effect = "changes nothing on average"
    elif low > 0:
        effect = "brings predictions nearer to the survey"
    elif high < 0:
        effect = "takes predictions farther from the survey"
    else:
        effect = "makes no clear difference on average"
    return effect


def _naming(results: Results, run: RunSummary) -> Finding:
    write = _Writer(results)
    newest = results.cell("t16", run, "all", "newest", "observed")
    chance = results.cell("t16", run, "all", "newest", "equal_choice")
    if newest.n == 0:
        return Finding("RF3", f"No pair of {run.label} could be evaluated.", ("t16", "t17"))
    write.watch(newest, "all pairs")
    text = (
        f"Asked without a year, {run.label} is nearest to the newest survey for "
        f"{write.share(newest)} of {_pairs(newest.n)}, where equal choice among the available "
        f"years would give {write.share(chance)}."
    )
    clauses = []
    for item in ("older", "newer"):
        benefit, helped, hurt = (
            results.cell("t17", run, "all", measure, item)
            for measure in ("mean_benefit", "helped", "hurt")
        )
        clauses.append(
            f"aming the {item} year {_effect(write, benefit)} (mean benefit "
            f"{write.value(benefit, 'W x 100')} W × 100; helped {write.share(helped, False)}, "
            f"hurt {write.share(hurt, False)})"
        )
    text += f" N{clauses[0]}; n{clauses[1]}."
    return Finding("RF3", text + write.caution(), ("t16", "t17"))
