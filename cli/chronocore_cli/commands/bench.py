"""``chronocore bench``."""

from __future__ import annotations

from pathlib import Path

import click

from chronocore_cli.shared import STUDY, emit, json_option, plain, say

__all__ = ["bench"]


@click.command(short_help="Time the kernels beside their peers.")
@click.option("--only", metavar="CASE", help="Only cases whose name contains this.")
@click.option("--quick", is_flag=True, help="Smaller inputs and fewer repetitions.")
@click.option(
    "--write",
    "files",
    multiple=True,
    type=STUDY,
    metavar="FILE",
    help="Put the table between the bench markers of a Markdown file.",
)
@json_option
def bench(only: str | None, quick: bool, files: tuple[Path, ...], as_json: bool) -> None:
    """Time the kernels beside their peers in one run; ratios of medians.

    \b
    Example:
      chronocore bench --quick
    """
    from chronocore_bench import run_bench, write_table

    result = run_bench(only=only, quick=quick, progress=say)
    for file in files:
        write_table(result, file)
    emit(as_json, plain(result), result.lines())
