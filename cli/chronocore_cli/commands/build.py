"""``chronocore build``."""

from __future__ import annotations

from pathlib import Path

import click

from chronocore_cli.shared import STUDY, emit, json_option, say, shift_line

__all__ = ["build"]


@click.command()
@click.argument("study", type=STUDY)
@click.option("--preset", metavar="NAME", help="Settings made for a known source: open-sample.")
@click.option("--config", type=STUDY, metavar="FILE", help="Settings as in study.toml.")
@click.option(
    "--min-respondents", type=click.IntRange(min=1), help="Valid answers a time point needs."
)
@json_option
def build(
    study: Path,
    preset: str | None,
    config: Path | None,
    min_respondents: int | None,
    as_json: bool,
) -> None:
    """Make a study from survey microdata.

    Writes items, gold distributions, temporal pairs and prompts. The one source of this
    release is the open sample: real survey microdata that need no file and have no weights.
    Without --preset or --config, STUDY/study.toml is used.

    \b
    Example:
      chronocore build my-study --preset open-sample
    """
    import chronocore as cc

    result = cc.build(
        study, preset=preset, config=config, min_respondents=min_respondents, progress=say
    )
    width = max(len(step) for step in result.funnel)
    lines = [
        *(f"  {step:<{width}}  {count:>9,}" for step, count in result.funnel.items()),
        *(f"  note: {note}" for note in result.notes),
        f"{sum(result.shifts.values())} pairs over {result.countries} countries: "
        f"{shift_line(result.shifts)}",
        "prompts: " + ", ".join(f"{count} {kind}" for kind, count in result.prompts.items()),
        f"next: chronocore predict {study} --model reference:uniform",
    ]
    data = {
        "study": str(study),
        "funnel": result.funnel,
        "notes": result.notes,
        "pairs": sum(result.shifts.values()),
        "shifts": result.shifts,
        "countries": result.countries,
        "prompts": result.prompts,
    }
    emit(as_json, data, lines)
