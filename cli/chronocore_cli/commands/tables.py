"""``chronocore tables``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from chronocore_cli.shared import STUDY, json_option, warn_unscored

__all__ = ["tables"]


@click.command()
@click.argument("study", type=STUDY)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "md", "csv", "latex", "json"]),
    default="terminal",
    show_default=True,
)
@click.option("--run", "label", metavar="LABEL", help="Only the rows of this run.")
@json_option
def tables(
    study: Path, names: tuple[str, ...], form: str, label: str | None, as_json: bool
) -> None:
    """Print result tables, by default all of them.

    \b
    Examples:
      chronocore tables my-study t08 t11
      chronocore tables my-study t18 --format latex
      chronocore tables my-study --run "my model"
    """
    import chronocore as cc
    from chronocore.tables import format_table

    results = cc.tables(study, names, run=label)
    warn_unscored(study)
    if as_json or form == "json":
        data = {name: table.to_pylist() for name, table in results.items()}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif form == "terminal":
        from chronocore_cli.terminal import print_table

        for name, table in results.items():
            print_table(name, table)
    else:
        click.echo("\n".join(format_table(n, t, form) for n, t in results.items()), nl=False)
