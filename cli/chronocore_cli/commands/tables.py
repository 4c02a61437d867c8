"""``chronocore tables``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from chronocore_cli.shared import STUDY, json_option, published_models, say, warn_unscored

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
@click.option(
    "--survey", metavar="KEY", help="Only pairs of this survey; all: of every survey together."
)
@click.option("--by-survey", is_flag=True, help="Add the rows of each survey to those of all.")
@click.option("--intervals", is_flag=True, help="Show each cell with its interval and n.")
@click.option(
    "--compare-published", is_flag=True, help="Set the paper's values beside the study's."
)
@click.option(
    "--as",
    "models",
    multiple=True,
    callback=published_models,
    metavar="LABEL=MODEL",
    help="With --compare-published: the paper's model a run stands for.",
)
@click.option("--list", "listing", is_flag=True, help="List the tables and what they hold.")
@json_option
def tables(
    study: Path,
    names: tuple[str, ...],
    form: str,
    label: str | None,
    survey: str | None,
    by_survey: bool,
    intervals: bool,
    compare_published: bool,
    models: dict[str, str] | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Print result tables, by default all of them.

    The layout is the paper's; --intervals shows every cell with its interval and n. csv and json
    hold all rows, those of each survey too, in full precision.

    \b
    Examples:
      chronocore tables my-study t08 t11
      chronocore tables my-study t18 --format latex
      chronocore tables my-study --run "my model" --intervals
      chronocore tables my-study --compare-published --as "my model=GPT-4o"
    """
    import chronocore as cc
    from chronocore.tables import TABLES, format_table, pooled

    if models and not compare_published:
        raise click.UsageError("--as goes with --compare-published")
    form = "json" if as_json else form
    if listing:
        _list(form)
        return
    if compare_published:
        warn_unscored(study)
        _compare(study, names, form, models)
        return
    results = cc.tables(study, names, run=label, survey=survey)
    warn_unscored(study)
    if form == "json":
        data = {name: table.to_pylist() for name, table in results.items()}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    if form != "csv" and survey is None and not by_survey:
        results = {name: pooled(name, table) for name, table in results.items()}
    if not names:
        # All tables: those that need what the study does not have are named once.
        empty = {name: TABLES[name].needs for name, table in results.items() if not len(table)}
        results = {name: table for name, table in results.items() if name not in empty}
        for name, needs in empty.items():
            say(f"{name} has no rows; needs {needs or 'scored pairs'}")
    if form == "terminal":
        from chronocore_cli.terminal import print_table

        for name, table in results.items():
            print_table(name, table, intervals=intervals)
    else:
        texts = [format_table(n, t, form, intervals=intervals) for n, t in results.items()]
        click.echo("\n".join(texts), nl=False)


def _list(form: str) -> None:
    from chronocore.tables import TABLES

    if form == "json":
        data = [
            {"name": s.name, "title": s.title, "finding": s.finding, "note": s.note}
            for s in TABLES.values()
        ]
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    width = max(map(len, TABLES))
    for spec in TABLES.values():
        click.echo(f"{spec.name:<{width}}  {spec.finding:<11} {spec.title}")


def _compare(study: Path, names: tuple[str, ...], form: str, models: dict[str, str] | None) -> None:
    import chronocore as cc
    from chronocore.tables import compare_published, format_comparison

    comparison = compare_published(cc.tables(study), models)
    if names:
        comparison = comparison.only(cc.tables(study, names))
    if form == "terminal":
        from chronocore_cli.terminal import print_comparison

        print_comparison(comparison)
    else:
        click.echo(format_comparison(comparison, form), nl=False)
