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
from chronocore.tolerance import at_least, at_most
from chronocore_bench.markdown import replace_table

__all__ = [
    "CASES",
    "INTERVALS",
    "SIZES",
    "CoverageCase",
    "CoverageResult",
    "CoverageRow",
    "coverage",
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
    result = coverage(progress=lambda message: print(message, file=sys.stderr))
    if arguments:
        write_coverage(result, Path(arguments[0]))
    else:
        print(result.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
