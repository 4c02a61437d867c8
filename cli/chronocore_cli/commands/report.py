"""``chronocore report``."""

from __future__ import annotations

from pathlib import Path

import click

from chronocore_cli.shared import STUDY, emit, json_option, warn_unscored

__all__ = ["report"]


@click.command(short_help="Write report.html, one file that opens offline.")
@click.argument("study", type=STUDY)
@click.option("--output", type=STUDY, metavar="FILE", help="By default STUDY/report.html.")
@json_option
def report(study: Path, output: Path | None, as_json: bool) -> None:
    """Write report.html: findings, figures and tables in one file that opens offline.

    \b
    Example:
      chronocore report my-study
    """
    import chronocore as cc

    path = cc.report(study, output)
    warn_unscored(study)
    emit(as_json, {"report": str(path)}, [str(path)])
