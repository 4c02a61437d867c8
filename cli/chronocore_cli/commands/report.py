"""``chronocore report``."""

from __future__ import annotations

from pathlib import Path

import click

from chronocore_cli.shared import STUDY, emit, json_option, say, warn_unscored

__all__ = ["report"]


def _formats(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    """Return the formats of a list with commas."""
    from chronocore.figures import FORMATS

    wanted = [] if value == "none" else [part.strip() for part in value.split(",")]
    for name in wanted:
        if name not in FORMATS:
            raise click.BadParameter(
                f"{name!r} is none of {', '.join(FORMATS)} or none", context, parameter
            )
    return wanted


@click.command(short_help="Write report.html, one file that opens offline, and the figures.")
@click.argument("study", type=STUDY)
@click.option("--output", type=STUDY, metavar="FILE", help="By default STUDY/report.html.")
@click.option(
    "--formats",
    default="svg,png,pdf",
    show_default=True,
    callback=_formats,
    metavar="LIST",
    help="Formats of the figures in STUDY/figures, or none.",
)
@click.option("--run", "label", metavar="LABEL", help="The run that figures about one run show.")
@click.option(
    "--figures", "only", is_flag=True, help="Draw the figures alone and say what was left out."
)
@json_option
def report(
    study: Path, output: Path | None, formats: list[str], label: str | None, only: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write report.html and figures/: findings, figures and tables that open offline.

    \b
    Examples:
      chronocore report my-study
      chronocore report my-study --figures --formats pdf --run "my model"
    """
    import chronocore as cc

    if only and output is not None:
        raise click.UsageError("--figures writes no page; leave out --output")
    if only and not formats:
        raise click.UsageError("--figures needs a format; leave out --formats none")
    if not only:
        path = cc.report(study, output, formats=formats, run=label)
        warn_unscored(study)
        emit(as_json, {"report": str(path)}, [str(path)])
        return
    drawn = cc.figures(study, formats=formats, run=label)
    warn_unscored(study)
    for name, why in drawn.omitted.items():
        say(f"left out {name}: {why}")
    files = {name: [str(path) for path in paths] for name, paths in drawn.files.items()}
    data = {"files": files, "captions": drawn.captions, "omitted": drawn.omitted}
    emit(as_json, data, [path for paths in files.values() for path in paths])
