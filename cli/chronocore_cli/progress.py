"""Progress on stderr: one line on a terminal, a line every 30 seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from chronocore.errors import StoppedError
from chronocore.predict import Progress
from chronocore.sweep import SweepProgress

__all__ = ["asking_progress", "duration", "progress_line", "sweep_progress"]

LOG_SECONDS = 30.0


def duration(seconds: float) -> str:
    """Return a time in the two units that matter.

    Examples
    --------
    >>> duration(42.4), duration(754), duration(9_060)
    ('42 s', '12 min 34 s', '2 h 31 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def progress_line(state: Progress, now: float) -> str:
    """Return where a run stands in one line.

    Parameters
    ----------
    state : Progress
    now : float
        Monotonic time.
    """
    counts = state.statuses
    parts = [
        f"{state.already_done + state.done}/{state.already_done + state.total}",
        f"{counts['ok'] + counts['recovered']} valid ({counts['recovered']} recovered)",
        f"{counts['refused']} refused",
        f"{counts['invalid'] + counts['truncated']} invalid",
    ]
    if counts["error"]:
        parts.append(f"{counts['error']} without an answer")
    # From the first answer on: the start of an engine says nothing about its speed.
    elapsed = 0.0 if state.first_answer is None else now - state.first_answer
    if state.completion_tokens and elapsed > 0:
        parts.append(f"{state.completion_tokens / elapsed:.0f} tokens/s")
    parts.append(f"{state.in_flight} in flight")
    if state.retries:
        parts.append(f"{state.retries} {'retry' if state.retries == 1 else 'retries'}")
    if state.waiting >= 1:
        parts.append(f"waiting {duration(state.waiting)} to send")
    if state.stopping:
        parts.append("finishing these; Ctrl-C again stops at once")
    elif state.first_answer is None:
        parts.append("waiting for the first answer")
    elif 1 < state.done < state.total:
        left = (state.total - state.done) * elapsed / (state.done - 1)
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


@contextmanager
def asking_progress() -> Iterator[Callable[[Progress], None]]:
    """Give a progress callback for whatever asks an engine; being stopped is no fault of it."""
    try:
        with _shown() as show:
            yield show
    except StoppedError as stopped:
        raise click.ClickException(str(stopped)) from stopped


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    if not sys.stderr.isatty():
        logged = time.monotonic()
        told = False

        def log(state: Progress) -> None:
            nonlocal logged, told
            now = time.monotonic()
            stops = state.stopping and not told
            if stops or now - logged >= LOG_SECONDS:
                logged, told = now, told or stops
                print(progress_line(state, now), file=sys.stderr, flush=True)

        yield log
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    text = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
    with Bar(BarColumn(20), text, console=Console(stderr=True), transient=True) as bar:
        task: TaskID | None = None

        def show(state: Progress) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task("", total=state.already_done + state.total)
            line = progress_line(state, time.monotonic())
            bar.update(task, completed=state.already_done + state.done, description=line)

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
