"""What several commands share: paths, ``--json`` and how results are printed."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "STUDY",
    "FiniteRange",
    "PathArgument",
    "WholeRange",
    "allow_errors_option",
    "answer_lines",
    "emit",
    "fail_without",
    "json_option",
    "plain",
    "published_models",
    "say",
    "shift_line",
    "warn_unscored",
    "without_keys",
]

F = TypeVar("F", bound=Callable[..., Any])


class PathArgument(click.Path):
    """A path or an fsspec URL that is not empty: an empty one would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path; a URL becomes a path of its filesystem."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        if isinstance(value, str) and "://" in value:
            from chronocore.storage import location

            return location(value)
        return super().convert(value, param, ctx)


STUDY = PathArgument(path_type=Path)


class FiniteRange(click.FloatRange):
    """A number in a range: neither infinite nor NaN, which any range would let through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what is no finite number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number


class WholeRange(click.IntRange):
    """A whole number in a range; by default one that 64 bits with a sign can hold."""

    def __init__(self, min: int, max: int = 2**63 - 1) -> None:  # click's names
        super().__init__(min, max)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def say(message: str) -> None:
    """Print a line to stderr, where progress and warnings go; a full one stops nothing."""
    with contextlib.suppress(OSError):
        click.echo(_seen(message), err=True)


def _seen(text: str) -> str:
    """Return text without what a terminal would obey; names of files that are no text stay."""
    return "".join(
        sign
        if sign.isprintable() or sign in "\n\t\u00a0\u3000" or "\ud800" <= sign <= "\udfff"
        else "\ufffd"
        for sign in text
    )


def without_keys(message: str) -> str:
    """Return a message without a key that was put into the wrong option."""
    from chronocore.engines.keys import hidden

    return hidden(message)


def emit(as_json: bool, data: Mapping[str, Any], lines: list[str]) -> None:
    """Print a result to stdout: ``data`` as JSON, or ``lines`` for people."""
    if as_json:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(_seen(line))


def plain(value: Any) -> Any:
    """Return a result as what JSON can hold; a number that is none is null."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value))


_EXAMPLE_WIDTH = 100


def answer_lines(
    statuses: Mapping[str, int], reasons: Mapping[str, int], examples: Mapping[str, str]
) -> list[str]:
    """Return what became of the answers, with a text for every reason against one."""
    counts = ", ".join(f"{n} {status}" for status, n in statuses.items()) or "none"
    lines = [f"answers: {counts}"]
    for reason, n in reasons.items():
        lines.append(f"  {n:>5}  {reason}")
        if reason in examples:
            shown = repr(examples[reason])  # on one line, without what a terminal would obey
            if len(shown) > _EXAMPLE_WIDTH:
                shown = f"{shown[:_EXAMPLE_WIDTH]}…"
            lines.append(f"         such as {shown}")
    return lines


def fail_without(n: int, what: str, failed: list[str], *, allowed: bool) -> None:
    """List what got no answer, and end with status 1 unless that is allowed."""
    if not n:
        return
    for name in failed:
        say(f"  no answer: {name}")
    if n > len(failed) > 0:
        say(f"  and {n - len(failed)} more")
    message = f"{n} {what} got no answer; run the same command again to ask only these"
    if not allowed:
        raise click.ClickException(message)
    say(message)


def allow_errors_option(function: F) -> F:
    """Add ``--allow-errors``."""
    return click.option(
        "--allow-errors",
        is_flag=True,
        help="End with status 0 though something that was asked got no answer (rows that a file "
        "lacks are only counted).",
    )(function)


def shift_line(shifts: Mapping[str, int]) -> str:
    """Return the number of pairs in each shift class, in words."""
    from chronocore.tables import words

    return ", ".join(f"{count} {words(shift)}" for shift, count in shifts.items())


def warn_unscored(study: Path) -> None:
    """Name the runs and the sampling noise that the last score does not cover."""
    from chronocore.score import load_summary
    from chronocore.store import Study

    opened = Study.open(study)
    summary = load_summary(opened)
    for label in summary.unscored(opened):
        say(f"not scored yet: {label}; run: chronocore score {study}")
    for design in summary.unscored_noise(opened):
        sizes = "effective sample sizes" if design == "effective" else f"{design} respondents"
        say(f"noise not in the tables yet: {sizes}; run: chronocore score {study}")


def published_models(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Read LABEL=MODEL: which of a paper's models a run stands for."""
    models = {}
    for value in values:
        label, equals, model = value.rpartition("=")
        if not (label and equals and model):
            raise click.BadParameter(f"{value!r} is not LABEL=MODEL, for example my-run=GPT-4o")
        models[label] = model
    return models or None
