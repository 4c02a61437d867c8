"""How often bootstrap intervals hold the true value, on simulated data of the papers' kind.

Coverage depends on the data, the statistic and n, not on the machine. ``python -m
chronocore_bench.coverage FILE`` writes the table between the coverage markers of a Markdown file;
without a file it is printed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

import chronocore as cc
from chronocore.errors import InvalidInputError
from chronocore.intervals import cell_interval
from chronocore.tolerance import at_least, at_most
from chronocore_bench import coverage_validity
from chronocore_bench.markdown import replace_table
from chronocore_bench.studies_without_a_difference import studies_without_a_difference

__all__ = [
    "CASES",
    "INTERVALS",
    "SIZES",
    "CoverageCase",
    "CoverageResult",
    "CoverageRow",
    "DesignResult",
    "DesignRow",
    "coverage",
    "design_coverage",
    "write_coverage",
]


#: Pairs in a cell: a small shift class, a breakdown, a survey's strong shifts, a whole benchmark.
SIZES: tuple[int, ...] = (20, 50, 322, 1443)
INTERVALS: tuple[str, ...] = ("percentile", "basic", "bca")
_NAMES = {"bca": "BCa"}


def _share(truth: float) -> Callable[[np.random.Generator, int], NDArray[np.float64]]:
    return lambda rng, n: (rng.random(n) < truth).astype(np.float64)


def _ratio(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.lognormal(math.log(0.7), 0.8, n)


def _benefit(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 0.01 + 0.03 * rng.standard_t(4, n)


@dataclass(frozen=True, slots=True)
class CoverageCase:
    """A statistic of simulated pairs whose true value is known.

    Attributes
    ----------
    name : str
    statistic : str
        As for :func:`chronocore.bootstrap`.
    truth : float
        The statistic of the population.
    draw : callable
        Returns a sample of n values.
    """

    name: str
    statistic: str
    truth: float
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]]


CASES: tuple[CoverageCase, ...] = (
    CoverageCase("share, 10 %", "proportion", 0.1, _share(0.1)),
    CoverageCase("share, 50 %", "proportion", 0.5, _share(0.5)),
    # Magnitude ratios of nonzero shifts: positive, most below 1, a long right tail.
    CoverageCase("median ratio", "median", 0.7, _ratio),
    # Benefits of naming a year: small, on both sides of zero, heavy tails.
    CoverageCase("mean benefit", "mean", 0.01, _benefit),
)


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Coverage of one kind of interval.

    Attributes
    ----------
    case : str
    n : int
        Pairs in each sample.
    interval : str
    coverage : float
        Share of the samples whose interval holds the true value.
    standard_error : float
        Monte-Carlo standard error of that share.
    """

    case: str
    n: int
    interval: str
    coverage: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class CoverageResult:
    """All rows and the settings they were simulated with."""

    rows: list[CoverageRow]
    samples: int
    n_resamples: int
    confidence_level: float
    seed: int

    def markdown(self) -> str:
        """Return a Markdown table, one row a statistic and n, one column a kind of interval."""
        kinds = dict.fromkeys(row.interval for row in self.rows)
        lines = [
            f"| statistic | n | {' | '.join(_NAMES.get(kind, kind) for kind in kinds)} |",
            f"| --- | ---: |{' ---: |' * len(kinds)}",
        ]
        cells: dict[tuple[str, int], list[str]] = {}
        for row in self.rows:
            text = f"{100 * row.coverage:.1f} ± {100 * row.standard_error:.1f}"
            cells.setdefault((row.case, row.n), []).append(text)
        previous = ""
        for (case, n), texts in cells.items():
            lines.append(f"| {case if case != previous else ''} | {n:,} | {' | '.join(texts)} |")
            previous = case
        return "\n".join(
            [
                *lines,
                "",
                f"Coverage in %, ± its Monte-Carlo standard error: {self.samples:,} simulated "
                f"samples, {self.n_resamples:,} resamples each, intervals at the "
                f"{100 * self.confidence_level:g} % level, seed {self.seed}.",
            ]
        )


def coverage(
    *,
    samples: int = 3000,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    progress: Callable[[str], None] = lambda message: None,
) -> CoverageResult:
    """Simulate samples with known truth and count the intervals that hold it.

    Parameters
    ----------
    samples : int
        Simulated samples for each statistic and n.
    n_resamples : int
        Resamples of each.
    confidence_level : float
        Level of the intervals, in (0, 1).
    sizes : sequence of int
        Values in a sample.
    seed : int
        The same seed gives the same table for any number of threads.
    progress : callable
        Called with a line of text for each statistic and n.

    Returns
    -------
    CoverageResult
        The three kinds of interval of a sample share its resamples.

    Raises
    ------
    InvalidInputError
        There is no sample, or a size is below 1.
    """
    if samples < 1 or not sizes or min(sizes) < 1:
        raise InvalidInputError("coverage needs at least one sample, of at least one value")
    rows: list[CoverageRow] = []
    threads = numba.get_num_threads()
    # Calls of well under a millisecond: waking other threads would take most of the time.
    numba.set_num_threads(1)
    try:
        for place, case in enumerate(CASES):
            for n in sizes:
                progress(f"{case.name}, n = {n:,}")
                held = dict.fromkeys(INTERVALS, 0)
                rng = np.random.default_rng([seed, place, n])
                for _ in range(samples):
                    values = case.draw(rng, n)
                    draws = int(rng.integers(2**63))
                    for kind in INTERVALS:
                        low, high = cc.bootstrap(
                            values,
                            case.statistic,
                            n_resamples=n_resamples,
                            confidence_level=confidence_level,
                            interval=kind,
                            seed=draws,
                        ).confidence_interval
                        held[kind] += bool(at_most(low, case.truth) & at_least(high, case.truth))
                for kind in INTERVALS:
                    share = held[kind] / samples
                    error = math.sqrt(share * (1 - share) / samples)
                    rows.append(CoverageRow(case.name, n, kind, share, error))
    finally:
        numba.set_num_threads(threads)
    return CoverageResult(rows, samples, n_resamples, confidence_level, seed)


# -- clusters, redrawn gold and many comparisons at once -------------------------------------------

#: Pairs of one cell in these simulations: 40 countries of 8 pairs.
_COUNTRIES, _PAIRS = 40, 8
_REDRAWS = 100


@dataclass(frozen=True, slots=True)
class DesignRow:
    """Coverage of one kind of interval in one simulated design.

    Attributes
    ----------
    case, interval : str
    coverage, standard_error : float
        Share of the samples whose interval (or whose every interval) holds the truth, and its
        Monte-Carlo standard error.
    width : float
        Mean width, as a multiple of that of the first kind in the same case.
    """

    case: str
    interval: str
    coverage: float
    standard_error: float
    width: float


@dataclass(frozen=True, slots=True)
class DesignResult:
    """All rows and the settings they were simulated with."""

    rows: list[DesignRow]
    samples: int
    n_resamples: int
    seed: int

    def markdown(self) -> str:
        """Return a Markdown table, one row a case and kind of interval."""
        lines = ["| simulated | interval | coverage | width |", "| --- | --- | ---: | ---: |"]
        previous = ""
        for row in self.rows:
            text = f"{100 * row.coverage:.1f} ± {100 * row.standard_error:.1f}"
            case = row.case if row.case != previous else ""
            lines.append(f"| {case} | {row.interval} | {text} | {row.width:.2f} |")
            previous = row.case
        return "\n".join(
            [
                *lines,
                "",
                f"Coverage in %, ± its Monte-Carlo standard error; width relative to the first row "
                f"of each case. {self.samples:,} simulated samples of {_COUNTRIES * _PAIRS} pairs, "
                f"{self.n_resamples:,} resamples each, 95 % level, seed {self.seed}.",
            ]
        )


@dataclass(slots=True)
class _Tally:
    """Counts intervals that hold the truth, and adds up their widths."""

    held: int = 0
    width: float = 0.0

    def add(self, low: NDArray[np.float64], high: NDArray[np.float64], truth: float) -> None:
        self.held += bool((at_most(low, truth) & at_least(high, truth)).all())
        self.width += float(np.mean(high - low))


def _countries(rng: np.random.Generator, n_resamples: int, tally: dict[str, _Tally]) -> None:
    """Shares of pairs whose countries differ: intervals over pairs, and over countries."""
    country = np.repeat(np.arange(_COUNTRIES), _PAIRS)
    chance = rng.beta(2.0, 2.0, _COUNTRIES)[country]
    values = (rng.random(len(country)) < chance).astype(np.float64)
    for name, clusters in (("pairs", None), ("countries", country)):
        _, low, high = cell_interval(
            values, "proportion", n_resamples=n_resamples, clusters=clusters,
            seed=int(rng.integers(2**63)),
        )  # fmt: skip
        tally[name].add(np.array([low]), np.array([high]), 0.5)


def _as_surveyed() -> float:
    """Return the mean distance to surveys of 500 respondents in :func:`_surveys`."""
    opinion = np.linspace(0.3, 0.7, 4001)
    spread = np.sqrt(0.04**2 + opinion * (1 - opinion) / 500)
    return float(np.mean(spread) * math.sqrt(2 / math.pi))


def _surveys(
    statistic: str, *, surveyed_truth: bool = False
) -> Callable[[np.random.Generator, int, dict[str, _Tally]], None]:
    """Simulate mean distances to opinion, known from samples of 500 respondents only.

    The truth is the distance to opinion itself, or to what such surveys find.
    """

    def simulate(rng: np.random.Generator, n_resamples: int, tally: dict[str, _Tally]) -> None:
        n = _COUNTRIES * _PAIRS
        opinion = rng.uniform(0.3, 0.7, n)
        predicted = opinion + rng.normal(0.0, 0.04, n)
        surveyed = rng.binomial(500, opinion) / 500
        again = rng.binomial(500, surveyed, (_REDRAWS, n)) / 500
        values, redrawn = np.abs(predicted - surveyed), np.abs(predicted - again)
        # |N(0, 0.04)|
        truth = 0.04 * math.sqrt(2 / math.pi)
        if statistic == "proportion":
            values, redrawn = (values <= 0.04).astype(float), (redrawn <= 0.04).astype(float)
            truth = math.erf(1 / math.sqrt(2))
        if surveyed_truth:
            truth = _as_surveyed()
        seed = int(rng.integers(2**63))
        for name, drawn in (("gold as observed", None), ("gold drawn again", redrawn)):
            estimate, low, high = cell_interval(
                values, statistic, n_resamples=n_resamples, redrawn=drawn, seed=seed
            )
            tally[name].add(np.array([low]), np.array([high]), truth)
        if surveyed_truth:
            return
        # What all redraws move the statistic, the surveys have moved it before.
        moved = float(redrawn.mean()) - estimate
        tally["gold drawn again, moved once more"].add(
            np.array([low - moved]), np.array([high - moved]), truth
        )

    return simulate


def _models(rng: np.random.Generator, n_resamples: int, tally: dict[str, _Tally]) -> None:
    """Six models that do not differ, on pairs that are hard or easy for all of them."""
    n = _COUNTRIES * _PAIRS
    values = rng.normal(size=n) + 0.5 * rng.normal(size=(6, n))
    result = cc.paired_differences(
        [cc.Measure("error", "all", "mean", values)], list("abcdef"), n_resamples=n_resamples,
        seed=int(rng.integers(2**62)),
    )  # fmt: skip
    found = result.differences
    alone = np.array([(one.low, one.high) for one in found])
    at_once = np.array([(one.simultaneous_low, one.simultaneous_high) for one in found])
    tally["each alone"].add(alone[:, 0], alone[:, 1], 0.0)
    tally["simultaneous"].add(at_once[:, 0], at_once[:, 1], 0.0)


_DESIGNS: tuple[
    tuple[str, tuple[str, ...], Callable[[np.random.Generator, int, dict[str, _Tally]], None]], ...
] = (
    ("share, countries differ", ("pairs", "countries"), _countries),
    (
        "mean distance to surveys",
        ("gold as observed", "gold drawn again"),
        _surveys("mean", surveyed_truth=True),
    ),
    (
        "mean distance to opinion",
        ("gold as observed", "gold drawn again", "gold drawn again, moved once more"),
        _surveys("mean"),
    ),
    (
        "accurate share of opinion",
        ("gold as observed", "gold drawn again", "gold drawn again, moved once more"),
        _surveys("proportion"),
    ),
    ("all 15 differences of six equal models", ("each alone", "simultaneous"), _models),
)


def design_coverage(
    *,
    samples: int = 1000,
    n_resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda message: None,
) -> DesignResult:
    """Simulate clustered pairs, surveys with sampling error and many comparisons.

    Parameters
    ----------
    samples : int
        Simulated samples of each case.
    n_resamples : int
        Resamples of each.
    seed : int
        The same seed gives the same table for any number of threads.
    progress : callable
        Called with a line of text for each case.

    Returns
    -------
    DesignResult
    """
    if samples < 1:
        raise InvalidInputError("coverage needs at least one sample")
    rows: list[DesignRow] = []
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        for place, (case, names, simulate) in enumerate(_DESIGNS):
            progress(case)
            rng = np.random.default_rng([seed, place])
            tally = {name: _Tally() for name in names}
            for _ in range(samples):
                simulate(rng, n_resamples, tally)
            first = tally[names[0]].width
            for name, one in tally.items():
                share = one.held / samples
                error = math.sqrt(share * (1 - share) / samples)
                rows.append(DesignRow(case, name, share, error, one.width / first))
    finally:
        numba.set_num_threads(threads)
    return DesignResult(rows, samples, n_resamples, seed)


def write_coverage(result: CoverageResult, path: Path) -> None:
    """Replace the table between the coverage markers of a Markdown file.

    Raises
    ------
    ConfigurationError
        The file has no markers.
    """
    replace_table(path, "coverage table", result.markdown())


def _main(arguments: Sequence[str]) -> int:
    if len(arguments) > 1:
        print("usage: python -m chronocore_bench.coverage [FILE]", file=sys.stderr)
        return 2

    def progress(message: str) -> None:
        print(message, file=sys.stderr)

    result = coverage(progress=progress)
    designs = design_coverage(progress=progress)
    studies = studies_without_a_difference(progress=progress)
    if arguments:
        write_coverage(result, Path(arguments[0]))
        replace_table(Path(arguments[0]), "design table", designs.markdown())
        for name in studies.rows:
            replace_table(Path(arguments[0]), name, studies.markdown(name))
    else:
        print(result.markdown())
        print()
        print(designs.markdown())
        progress("panels of measurement validity; for one Markdown file: coverage_validity FILE")
        print()
        print(coverage_validity.markdown())
        for name in studies.rows:
            print()
            print(studies.markdown(name))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
