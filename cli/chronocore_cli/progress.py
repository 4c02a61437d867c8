"""Progress on stderr: a bar on a terminal, a line every 30 seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chronocore.predict import Progress
from chronocore.sweep import SweepProgress

__all__ = ["predict_progress", "sweep_progress"]

LOG_SECONDS = 30.0


def _summary(state: Progress, started: float) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in state.statuses.most_common())
    elapsed = max(time.monotonic() - started, 1e-9)
    rate = state.completion_tokens / elapsed
    tokens = f", {rate:.0f} tokens/s" if state.completion_tokens else ""
    left = ""
    if state.first_answer is not None and state.done > 1:
        # From the first answer on: the start of an engine says nothing about its speed.
        pace = (time.monotonic() - state.first_answer) / (state.done - 1)
        left = f", {(state.total - state.done) * pace:.0f} s left"
    return f"{state.done}/{state.total} ({counts}){tokens}{left}"


@contextmanager
def predict_progress() -> Iterator[Callable[[Progress], None]]:
    """Give a progress callback for :func:`chronocore.predict`."""
    started = time.monotonic()
    if not sys.stderr.isatty():
        logged = started

        def log(state: Progress) -> None:
            nonlocal logged
            if time.monotonic() - logged >= LOG_SECONDS:
                logged = time.monotonic()
                print(_summary(state, started), file=sys.stderr, flush=True)

        yield log
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bar

    with Bar(
        BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    ) as bar:
        task: TaskID | None = None

        def show(state: Progress) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task("", total=state.total)
            bar.update(task, completed=state.done, description=_summary(state, started))

        yield show


@contextmanager
def sweep_progress() -> Iterator[Callable[[SweepProgress], None]]:
    """Give a progress callback for :func:`chronocore.sweep`."""
    if not sys.stderr.isatty():
        logged = time.monotonic()

        def log(state: SweepProgress) -> None:
            nonlocal logged
            if time.monotonic() - logged >= LOG_SECONDS:
                logged = time.monotonic()
                print(f"{state.done}/{state.total} cells", file=sys.stderr, flush=True)

        yield log
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        BarColumn(), MofNCompleteColumn(), TextColumn("cells"), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task: TaskID | None = None

        def show(state: SweepProgress) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task("", total=state.total)
            bar.update(task, completed=state.done)

        yield show
