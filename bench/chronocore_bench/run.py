"""Run the cases: peers checked first, then timed in turn within one process."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import numba

from chronocore.errors import ConfigurationError
from chronocore_bench.cases import CASES

__all__ = ["BenchResult", "Row", "run_bench"]


@dataclass(frozen=True, slots=True)
class Row:
    """One peer of one case: median seconds of both, and how many times faster ours is."""

    case: str
    about: str
    peer: str
    seconds: float
    peer_seconds: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All rows with the machine they were measured on."""

    rows: list[Row]
    machine: dict[str, str]

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        head = f"{'case':<24}{'peer':<34}{'ours':>10}{'peer':>10}{'ratio':>9}   spread"
        body = [
            f"{row.case:<24}{row.peer:<34}{row.seconds * 1e3:>7.1f} ms"
            f"{row.peer_seconds * 1e3:>7.1f} ms{row.ratio:>8.1f}x   {row.low:.1f}-{row.high:.1f}"
            for row in self.rows
        ]
        return [head, *body, "", *(f"{key}: {value}" for key, value in self.machine.items())]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _machine() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "threads": str(numba.get_num_threads()),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numba", "numpy", "scipy", "polars")},
    }


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
        Smaller inputs and fewer repetitions.
    progress : callable
        Called with a line of text for each case.

    Returns
    -------
    BenchResult

    Raises
    ------
    ConfigurationError
        No case matches, or a peer's answer differs from ours: then no time means anything.
    """
    chosen = [case for case in CASES if only is None or only in case.name]
    if not chosen:
        names = ", ".join(case.name for case in CASES)
        raise ConfigurationError(f"no case is called {only!r}; cases: {names}")
    rounds = 3 if quick else 7
    rows: list[Row] = []
    for case in chosen:
        progress(f"{case.name}: {case.about}")
        prepared = case.prepare(quick)
        ours = prepared.ours()
        for peer, call in prepared.peers.items():
            if not prepared.agree(ours, call()):
                raise ConfigurationError(f"{case.name}: {peer} gives another answer than ours")
        calls = {"": prepared.ours, **prepared.peers}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                started = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - started)
        own = statistics.median(times[""])
        for peer in prepared.peers:
            whole = [seconds / prepared.parts.get(peer, 1.0) for seconds in times[peer]]
            ratios = [b / a for a, b in zip(times[""], whole, strict=True)]
            peer_seconds = statistics.median(whole)
            rows.append(
                Row(
                    case.name, case.about, peer, own, peer_seconds, peer_seconds / own,
                    min(ratios), max(ratios),
                )
            )  # fmt: skip
    return BenchResult(rows, _machine())
