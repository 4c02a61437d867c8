"""What several commands share: paths, ``--json`` and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "STUDY",
    "PathArgument",
    "emit",
    "json_option",
    "plain",
    "say",
    "shift_line",
    "warn_unscored",
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


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def say(message: str) -> None:
    """Print a line to stderr, where progress and warnings go."""
    click.echo(message, err=True)


def emit(as_json: bool, data: Mapping[str, Any], lines: list[str]) -> None:
    """Print a result to stdout: ``data`` as JSON, or ``lines`` for people."""
    if as_json:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(line)


def plain(value: Any) -> Any:
    """Return a result as what JSON can hold; a number that is none is null."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value))


def shift_line(shifts: Mapping[str, int]) -> str:
    """Return the number of pairs in each shift class, in words."""
    from chronocore.tables import words

    return ", ".join(f"{count} {words(shift)}" for shift, count in shifts.items())


def warn_unscored(study: Path) -> None:
    """Name the runs that the last score does not cover."""
    from chronocore.score import load_summary
    from chronocore.store import Study

    opened = Study.open(study)
    for label in load_summary(opened).unscored(opened):
        say(f"not scored yet: {label}; run: chronocore score {study}")
