"""``chronocore quickstart``."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from chronocore_cli.shared import STUDY, emit, json_option, say, shift_line

__all__ = ["quickstart"]


@click.command(short_help="All of it on open data, with a recorded model.")
@click.argument("directory", type=STUDY, default=Path("quickstart-study"), required=False)
@json_option
def quickstart(directory: Path, as_json: bool) -> None:
    """Run everything on real open data, with a recorded language model.

    Builds the open sample, adds three references and the recorded predictions of
    SmolLM2-135M-Instruct, scores them and writes the report. No network, no GPU.

    \b
    Example:
      chronocore quickstart my-first-study
    """
    from chronocore.quickstart import quickstart as run
    from chronocore.report import LEGEND

    result = run(directory, progress=say)
    lines = [
        "",
        f"{result.n_pairs:,} temporal pairs over {result.n_countries} countries: "
        f"{shift_line(result.shifts)}",
        f"model: {result.label}",
        "",
        *(
            textwrap.fill(f"{finding.name}  {finding.sentence}", 96) + "\n"
            for finding in result.findings
        ),
        LEGEND,
        f"report: {result.report}",
    ]
    data = {
        "study": str(directory),
        "pairs": result.n_pairs,
        "countries": result.n_countries,
        "shifts": result.shifts,
        "model": result.label,
        "findings": {finding.name: finding.sentence for finding in result.findings},
        "report": str(result.report),
        "seconds": round(result.seconds, 1),
    }
    emit(as_json, data, lines)
