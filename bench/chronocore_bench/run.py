"""Run the cases: peers checked first, then timed in turn within one process."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import llvmlite.binding
import numba

from chronocore.errors import ChronocoreError, ConfigurationError
from chronocore_bench.cases import CASES, Prepared
from chronocore_bench.ceilings import bandwidth, words_a_second
from chronocore_bench.markdown import replace_table

__all__ = ["BenchError", "BenchResult", "Row", "run_bench", "write_table"]


class BenchError(ChronocoreError, AssertionError):
    """A peer gives another answer than ours: then no time means anything."""


@dataclass(frozen=True, slots=True)
class Row:
    """One peer of one case.

    Attributes
    ----------
    case, about, peer : str
    milliseconds, peer_milliseconds : float
        Medians; the peer's scaled up where it did a part of the work.
    ratio : float
        Ratio of the medians: how many times faster ours is.
    low, high : float
        Smallest and largest ratio of one round.
    part : float
        Part of the work the peer did.
    roofline : str
        Share of the memory bandwidth or of the generator's ceiling that ours reached.
    """

    case: str
    about: str
    peer: str
    milliseconds: float
    peer_milliseconds: float
    ratio: float
    low: float
    high: float
    part: float
    roofline: str


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All rows, the peers that are missing, and the machine they were measured on."""

    rows: list[Row]
    missing: dict[str, str]
    machine: dict[str, str]

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        head = f"{'case':<20} {'peer':<42} {'ours':>10} {'peer':>12} {'ratio':>8}  spread"
        lines = [head]
        for row in self.rows:
            lines.append(
                f"{row.case:<20} {row.peer:<42} {row.milliseconds:>7.1f} ms "
                f"{row.peer_milliseconds:>9,.0f} ms {_ratio(row.ratio):>7}x  "
                f"{_ratio(row.low)}-{_ratio(row.high)}  {row.roofline}"
            )
        lines += ["", *(f"missing: {text}" for text in self.missing.values())]
        return [*lines, *(f"{key}: {value}" for key, value in self.machine.items())]

    def markdown(self) -> str:
        """Return the result as a Markdown table with the machine below it."""
        lines = [
            "| case | peer | ours | peer | ratio | spread | of the machine's limit |",
            "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        ]
        previous = ""
        for row in self.rows:
            about = row.about if row.case != previous else ""
            previous = row.case
            peer = row.peer + ("" if row.part == 1 else f" ({row.part:.2%} of the work, scaled)")
            lines.append(
                f"| {about} | {peer} | {row.milliseconds:,.1f} ms | "
                f"{row.peer_milliseconds:,.0f} ms | {_ratio(row.ratio)}× | "
                f"{_ratio(row.low)}–{_ratio(row.high)} | {row.roofline or '–'} |"
            )
        machine = "; ".join(f"{key} {value}" for key, value in self.machine.items())
        return "\n".join([*lines, "", f"Medians of interleaved runs in one process. {machine}."])


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _vector_width() -> str:
    features = llvmlite.binding.get_host_cpu_features()
    if features.get("avx512f"):
        return "512 bits (AVX-512)"
    return "256 bits (AVX2)" if features.get("avx2") else "128 bits"


def _machine() -> dict[str, str]:
    found = {
        "processor": _processor(),
        "vectors": _vector_width(),
        "cores": str(os.cpu_count()),
        "threads": str(numba.get_num_threads()),
        "python": platform.python_version(),
    }
    for name in ("numba", "numpy", "scipy", "polars", "duckdb", "POT", "arch", "resample"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _roofline(prepared: Prepared, seconds: float, memory: float, words: float) -> str:
    if prepared.bytes_read:
        return f"{prepared.bytes_read / seconds / memory:.0%} of read bandwidth"
    if prepared.words:
        return f"{prepared.words / seconds / words:.0%} of random words"
    return ""


def run_bench(
    *,
    only: str | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = lambda message: None,
) -> BenchResult:
    """Time every case beside its peers.

    Parameters
    ----------
    only : str, optional
        Only cases whose name contains this.
    quick : bool
        Smaller inputs and fewer rounds: under a minute.
    progress : callable
        Called with a line of text for each case.

    Returns
    -------
    BenchResult

    Raises
    ------
    ConfigurationError
        No case matches.
    BenchError
        A peer's answer differs from ours.
    """
    chosen = [case for case in CASES if only is None or only in case.name]
    if not chosen:
        names = ", ".join(case.name for case in CASES)
        raise ConfigurationError(f"no case is called {only!r}; cases: {names}")
    progress("measuring the machine's ceilings")
    memory, words = bandwidth(), words_a_second()
    rounds = 3 if quick else 7
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for case in chosen:
        progress(f"{case.name}: {case.about}")
        prepared = case.prepare(quick)
        missing |= prepared.missing
        ours = prepared.ours()
        for name, peer in prepared.peers.items():
            if not peer.agrees(ours, peer.call()):
                raise BenchError(f"{case.name}: {name} gives another answer than ours")
        own: list[float] = []
        theirs: dict[str, list[float]] = {name: [] for name in prepared.peers}
        for _ in range(rounds):
            # Once before the clock starts: idle threads take milliseconds to wake up.
            prepared.ours()
            own.append(_seconds(prepared.ours))
            for name, peer in prepared.peers.items():
                theirs[name].append(_seconds(peer.call) / peer.part)
        median = statistics.median(own)
        for name, peer in prepared.peers.items():
            ratios = [b / a for a, b in zip(own, theirs[name], strict=True)]
            other = statistics.median(theirs[name])
            rows.append(
                Row(
                    case.name, case.about, name, median * 1e3, other * 1e3, other / median,
                    min(ratios), max(ratios), peer.part,
                    _roofline(prepared, median, memory, words),
                )
            )  # fmt: skip
    machine = _machine() | {
        "read bandwidth": f"{memory / 1e9:.0f} GB/s",
        "random words": f"{words / 1e9:.1f} billion/s",
    }
    return BenchResult(rows, missing, machine)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def write_table(result: BenchResult, path: Path) -> None:
    """Replace the table between the bench markers of a Markdown file.

    Raises
    ------
    ConfigurationError
        The file has no markers.
    """
    replace_table(path, "bench table", result.markdown())
