"""``chronocore validity``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronocore_cli.commands.predict import engine_options, engine_settings
from chronocore_cli.shared import (
    STUDY,
    FiniteRange,
    WholeRange,
    allow_errors_option,
    answer_lines,
    emit,
    fail_without,
    json_option,
    plain,
    published_models,
    say,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from chronocore.validity.answers import RunResult
    from chronocore.validity.country_means import CountryMeans
    from chronocore.validity.cultural_map import CulturalMap
    from chronocore.validity.score import MapResult
    from chronocore.validity.tables import ValidityTable

__all__ = ["validity"]


class _Ordered(click.Group):
    """Lists the commands in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they were added."""
        return list(self.commands)


@click.group(cls=_Ordered, short_help="Seed, prompt and culture components; cultural map.")
def validity() -> None:
    """Measure how much of a model's answers is noise, and place it on the cultural map.

    A folder holds one protocol and any number of models; a study is such a folder.

    \b
    Example:
      chronocore validity prompts my-panel
      chronocore validity run my-panel --model vllm:Qwen/Qwen2.5-3B-Instruct
      chronocore validity score my-panel
      chronocore validity map my-panel --countries ivs-means.csv
      chronocore validity tables my-panel
      chronocore validity report my-panel
    """


@validity.command()
@click.argument("folder", type=STUDY)
@click.option(
    "--protocol", type=STUDY, metavar="FILE",
    help="A protocol of your own (TOML); by default the published one.",
)  # fmt: skip
@json_option
def prompts(folder: Path, protocol: Path | None, as_json: bool) -> None:
    """Write the design: every variant of every item, and the seeds.

    \b
    Example:
      chronocore validity prompts my-panel --protocol mine.toml
    """
    from chronocore import validity as v

    result = v.prompts(folder, protocol)
    lines = [
        f"{result.items} items, {result.variants} variants, {result.seeds} seeds: "
        f"{result.queries} queries a model "
        f"({', '.join(f'{n} {stage}' for stage, n in result.by_stage.items())})",
        f"{result.path}",
        f"next: chronocore validity run {folder} --model SPEC",
    ]
    data = {
        "path": str(result.path),
        "items": result.items,
        "variants": result.variants,
        "seeds": result.seeds,
        "queries": result.queries,
        "by_stage": result.by_stage,
    }
    emit(as_json, data, lines)


@validity.command()
@click.argument("folder", type=STUDY)
@click.option(
    "--model", required=True, metavar="SPEC",
    help="vllm:MODEL, openai:MODEL, file:PARQUET-OR-CSV or reference:uniform|midpoint.",
)  # fmt: skip
@click.option("--name", metavar="LABEL", help="Name of the model in tables.")
@click.option("--access", help="Group of the model: how it is reached, such as API or open.")
@click.option("--origin", help="Group of the model: who made it.")
@click.option("--region", help="Group of the model: where it is meant to be used.")
@click.option(
    "--temperature-variants", type=FiniteRange(min=0),
    help="Of a local model, instead of the protocol's.",
)  # fmt: skip
@click.option(
    "--temperature-seeds", type=FiniteRange(min=0),
    help="Of a local model, instead of the protocol's.",
)  # fmt: skip
@click.option(
    "--top-p", type=FiniteRange(0, 1, min_open=True), help="Of a local model, by default 1."
)
@click.option("--seed", default=0, show_default=True, type=WholeRange(0))
@click.option(
    "--structured", is_flag=True,
    help="Hold a model to one option by a JSON schema, where one is asked for.",
)  # fmt: skip
@click.option(
    "--seed-lower-bound", is_flag=True,
    help="The seeds tell less than all of the sampling noise, though the settings do not show it.",
)  # fmt: skip
@engine_options
@allow_errors_option
@json_option
def run(
    folder: Path,
    model: str,
    name: str | None,
    access: str | None,
    origin: str | None,
    region: str | None,
    seed_lower_bound: bool,
    allow_errors: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Let a model answer the design, or take answers from a file.

    Answers are written as they come; the same command goes on where it stopped. Ctrl-C finishes
    what is in flight, twice stops at once.

    \b
    Examples:
      chronocore validity run my-panel --model openai:gpt-4o --access API
      chronocore validity run my-panel --model vllm:google/gemma-2-2b-it --access open
      chronocore validity run my-panel --model file:answers.csv
    """
    from chronocore import validity as v
    from chronocore_cli.progress import asking_progress

    settings = engine_settings(settings)
    with asking_progress() as show:
        results = v.run(
            folder,
            model,
            name=name,
            group={"access": access, "origin": origin, "region": region},
            seed_lower_bound=True if seed_lower_bound else None,
            progress=show,
            **settings,
        )
    for notice in (notice for result in results for notice in result.notices):
        say(notice)
    emit(as_json, {"models": plain(results)}, _run_lines(folder, model, results))
    errors = sum(result.statuses.get("error", 0) for result in results)
    if not model.startswith(("file:", "reference:")):
        errors += sum(result.missing for result in results)  # what is asked must have an answer
    failed = [name for result in results for name in result.failed]
    fail_without(errors, "queries", failed, allowed=allow_errors)


def _run_lines(folder: Path, model: str, results: list[RunResult]) -> list[str]:
    beside = ""
    if model.startswith("file:"):
        beside = " that the file has no row for; the score rests on the others"
    lines = []
    for result in results:
        lines.append(
            f"{result.label}: {result.total} queries, {result.already_done} answered before, "
            f"{result.seconds:.1f} s"
        )
        lines += answer_lines(result.statuses, result.reasons, result.examples)
        if result.missing:
            lines.append(f"without an answer: {result.missing} queries{beside}")
        if result.seed_lower_bound:
            lines.append("the seed component of this model is a lower bound")
    lines.append(f"next: chronocore validity score {folder}")
    return lines


@validity.command()
@click.argument("folder", type=STUDY)
@click.option(
    "--culture-base", type=click.Choice(["variants", "standard", "seeds"]), default="variants",
    show_default=True, help="Answers a model's mean is taken over.",
)  # fmt: skip
@click.option("--resamples", default=1000, show_default=True, type=WholeRange(0, 10_000_000))
@click.option(
    "--confidence-level", default=0.95, show_default=True,
    type=FiniteRange(0, 1, min_open=True, max_open=True),
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=WholeRange(0))
@click.option(
    "--intervals", type=click.Choice(["chi-square", "percentile"]), default="chi-square",
    show_default=True, help="How intervals of components and ratios are made.",
)  # fmt: skip
@json_option
def score(
    folder: Path,
    culture_base: str,
    resamples: int,
    confidence_level: float,
    seed: int,
    intervals: str,
    as_json: bool,
) -> None:
    """Compute components, noise-to-signal ratios, rates and their tables.

    \b
    Example:
      chronocore validity score my-panel --resamples 10000
    """
    from chronocore import validity as v

    result = v.score(
        folder,
        culture_base=culture_base,
        n_resamples=resamples,
        confidence_level=confidence_level,
        seed=seed,
        intervals=intervals,
    )
    lines = []
    if result.models:
        middle = "–" if result.median is None else f"{result.median:.2f}"
        lines.append(
            f"{result.models} models, {result.items} items: {result.valid} pairs with a ratio, "
            f"median {middle}, {result.above_1} above 1, {result.above_2} above 2"
        )
        lines.extend(
            f"  no ratio: {label}, {item}: {why}"
            for (label, item, _), why in zip(
                result.undefined_pairs, result.undefined_because, strict=True
            )
        )
        if result.models < 2:
            lines.append("a ratio needs two models: there is no spread between models yet")
    lines.append(f"tables: {', '.join(result.tables)}")
    lines.append(f"next: chronocore validity tables {folder}, chronocore validity map {folder}")
    emit(as_json, plain(result), lines)


class _Waves(click.ParamType):  # type: ignore[type-arg]
    """Waves such as ``5-7``, ``5,7`` or, by study, ``wvs:5-7;evs:4-5``; ``all`` for all."""

    name = "waves"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a list, a mapping by study, or None for all."""
        if not isinstance(value, str):
            return value
        text = value.replace(" ", "").casefold()
        if text == "all":
            return None
        try:
            if ":" not in text:
                return _numbers(text)
            parts = [part.split(":") for part in text.split(";") if part]
            return {study: _numbers(numbers) for study, numbers in parts}
        except ValueError:
            self.fail(f"{value!r} is not of the form 5-7, or wvs:5-7;evs:4-5, or all", param, ctx)


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if not 1 <= first <= last <= 99:
            raise ValueError(part)
        numbers += range(first, last + 1)
    return numbers


@validity.command(name="map")
@click.argument("folder", type=STUDY, required=False)
@click.option(
    "--file", "files", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
    help="Survey file that countries' means are taken from; may be repeated.",
)  # fmt: skip
@click.option(
    "--preset", metavar="NAME",
    help="What is known about it: ivs, wvs-timeseries, evs-trend, wvs-wave7, or a path (*.toml).",
)  # fmt: skip
@click.option(
    "--config", type=STUDY, metavar="FILE", help="Survey files with settings, as in study.toml."
)
@click.option(
    "--waves", type=_Waves(), default="5-7", show_default=True,
    help="Waves of survey files that are pooled: 5-7, or by study wvs:5-7;evs:4-5, or all.",
)  # fmt: skip
@click.option(
    "--countries", type=STUDY, metavar="FILE",
    help="Country means of the items (CSV or Parquet); by default those of the last call.",
)  # fmt: skip
@click.option(
    "--output", type=STUDY, metavar="FILE",
    help="Write the country means (.csv or .parquet), as --countries takes them.",
)  # fmt: skip
@click.option(
    "--fit", type=click.Choice(["countries", "respondents"]), default="countries",
    show_default=True, help="What the axes are computed from; respondents need survey files.",
)  # fmt: skip
@click.option(
    "--rotation", type=click.Choice(["varimax", "none"]), default="varimax", show_default=True
)
@click.option(
    "--confirmed", multiple=True, metavar="ITEM",
    help="An item whose coding you checked: its direction is not questioned. May be repeated.",
)  # fmt: skip
@click.option(
    "--confidence-level", default=0.95, show_default=True,
    type=FiniteRange(0, 1, min_open=True, max_open=True), help="Of the ellipses.",
)  # fmt: skip
@json_option
def map_command(
    folder: Path | None,
    files: tuple[Path, ...],
    preset: str | None,
    config: Path | None,
    waves: Any,
    countries: Path | None,
    output: Path | None,
    fit: str,
    rotation: str,
    confirmed: tuple[str, ...],
    confidence_level: float,
    as_json: bool,
) -> None:
    """Fit the cultural map on countries and place the models of a folder on it.

    The countries' means are taken from survey files (--file with --preset, or --config), or from a
    table of them (--countries). Without a FOLDER only the countries are placed.

    \b
    Examples:
      chronocore validity map my-panel --file Integrated_values_surveys_1981-2022.sav --preset ivs
      chronocore validity map --file IVS.sav --preset ivs --output ivs-means.csv
      chronocore validity map my-panel --countries ivs-means.csv
    """
    from chronocore import validity as v

    surveys = bool(files) or config is not None
    if bool(files) != (preset is not None):
        raise click.UsageError("--file and --preset go together, for example --preset ivs")
    if bool(files) + (config is not None) + (countries is not None) > 1:
        raise click.UsageError("give one of --file, --config and --countries")
    if folder is None and not surveys and countries is None:
        raise click.UsageError("Missing argument 'FOLDER', or --file FILE with --preset NAME")
    if fit == "respondents" and not surveys:
        raise click.UsageError("--fit respondents needs survey files (--file or --config)")
    items = None if folder is None else v.map_items(folder)
    means: CountryMeans | None = None
    if surveys:
        means = v.survey_means(
            list(files) if config is None else config,
            preset=preset,
            items=items,
            waves=waves,
            keep_respondents=fit == "respondents",
            progress=say,
        )
    elif countries is not None:
        means = v.read_country_table(countries, items)
    elif folder is not None and output is not None:
        means = v.load_country_means(folder)
    lines, data = _means_told(means) if means is not None and surveys else ([], {})
    if folder is None:
        assert means is not None
        fitted = v.fit_map(means, fit=fit, rotation=rotation, confirmed=confirmed)
        own_lines, own_data = _countries_told(fitted)
    else:
        result = v.map_models(
            folder,
            means,
            fit=fit,
            rotation=rotation,
            confirmed=confirmed,
            confidence_level=confidence_level,
        )
        own_lines, own_data = _map_lines(folder, result), plain(result)
    lines, data = [*lines, *own_lines], {**data, **own_data}
    if output is not None:
        assert means is not None
        v.write_country_table(means, output)
        lines.append(f"country means: {output}")
        data["output"] = str(output)
    elif folder is None:
        lines.append("--output FILE keeps the country means, for: chronocore validity map FOLDER")
    emit(as_json, data, lines)


def _means_told(means: CountryMeans) -> tuple[list[str], dict[str, Any]]:
    """Return which respondents and weights are behind country means, in lines and as data."""
    assert means.counts is not None
    assert means.weights_used is not None
    assert means.time_points is not None
    points = means.time_points.select(["study", "wave"]).group_by(["study", "wave"]).aggregate([])
    waves = sorted((row["study"] or "", row["wave"] or 0) for row in points.to_pylist())
    names = dict.fromkeys(name or "none" for name in means.weights_used)
    counted = [
        f"{item} {least:,} to {most:,}"
        for item, least, most in zip(
            means.items, means.counts.min(axis=0), means.counts.max(axis=0), strict=True
        )
    ]
    lines = [
        "waves: " + ", ".join(f"{study} {wave or 'without a wave'}" for study, wave in waves),
        f"weights: {', '.join(names)}",
        f"valid answers by country: {', '.join(counted)}",
    ]
    data = {
        "means": {
            code: dict(zip(means.items, map(float, row), strict=True))
            for code, row in zip(means.countries, means.means, strict=True)
        },
        "counts": {
            code: dict(zip(means.items, map(int, row), strict=True))
            for code, row in zip(means.countries, means.counts, strict=True)
        },
        "weights": dict(zip(means.countries, means.weights_used, strict=True)),
    }
    return lines, data


def _fitted_lines(countries: int, explained: Any, notes: Sequence[str]) -> list[str]:
    x, y = explained
    return [
        *(f"note: {note}" for note in notes),
        f"{countries} countries; the axes carry {x:.0%} and {y:.0%} of the variance",
    ]


def _countries_told(fitted: CulturalMap) -> tuple[list[str], dict[str, Any]]:
    """Return where countries lie on a map without models."""
    means = fitted.means
    lines = _fitted_lines(len(means.countries), fitted.explained, means.notes)
    lines += [
        f"  {name}: ({position[0]:.2f}, {position[1]:.2f})"
        for name, position in zip(means.names, fitted.positions, strict=True)
    ]
    data = {
        "countries": len(means.countries),
        "explained": [float(share) for share in fitted.explained],
        "country_positions": {
            code: [float(x) for x in position]
            for code, position in zip(means.countries, fitted.positions, strict=True)
        },
        "notes": list(means.notes),
    }
    return lines, data


def _map_lines(folder: Path, result: MapResult) -> list[str]:
    lines = _fitted_lines(result.countries, result.explained, result.notes)
    if result.positions:
        lines.append(f"models, asked in the tone {result.tone}:")
    lines += [
        f"  {label}: ({position[0]:.2f}, {position[1]:.2f})"
        for label, position in result.positions.items()
    ]
    lines += [
        f"  {label}: not on the map, lacks {', '.join(items)}"
        for label, items in result.unprojectable.items()
    ]
    if result.changes:
        lines.append(f"change over waves in {result.changes} countries")
    if not result.positions and not result.unprojectable:
        lines.append(
            f"no model has answered yet; run: chronocore validity run {folder} --model SPEC"
        )
    lines.append(f"next: chronocore validity report {folder}")
    return lines


@validity.command()
@click.argument("folder", type=STUDY)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--format", "form", type=click.Choice(["terminal", "md", "csv", "latex", "json"]),
    default="terminal", show_default=True,
)  # fmt: skip
@click.option(
    "--compare-published",
    is_flag=True,
    help="Set what the paper's text says beside the panel's values.",
)
@click.option(
    "--as",
    "models",
    multiple=True,
    callback=published_models,
    metavar="LABEL=MODEL",
    help="With --compare-published: the paper's model that a model stands for.",
)
@json_option
def tables(
    folder: Path,
    names: tuple[str, ...],
    form: str,
    compare_published: bool,
    models: dict[str, str] | None,
    as_json: bool,
) -> None:
    """Print the tables of measurement validity, by default all of them.

    \b
    Examples:
      chronocore validity tables my-panel validity-nsr-models
      chronocore validity tables my-panel --format latex
      chronocore validity tables my-panel --compare-published --as "gpt=GPT-4o"
    """
    import json

    from chronocore import validity as v
    from chronocore.validity.published import compare_published as compare
    from chronocore.validity.tables import format_table

    if models and not compare_published:
        raise click.UsageError("--as goes with --compare-published")
    found = v.tables(folder, names)
    if compare_published:
        found = compare(found, models)
    if as_json or form == "json":
        data = {name: table.table.to_pylist() for name, table in found.items()}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif form == "terminal":
        for table in found.values():
            _print(table)
    else:
        click.echo("\n".join(format_table(table, form) for table in found.values()), nl=False)


def _print(table: ValidityTable) -> None:
    """Print a table to stdout; one that is wider than the terminal is split by columns."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(f"{table.name}. {table.title}", style="bold"))
    names = list(table.heads)
    # The columns that say what a line is about are repeated in every part.
    kept = [name for name in names[:3] if name in _INDEX]
    part = list(kept)
    for name in names[len(kept) :]:
        if len(part) > len(kept) and _width(console, table, [*part, name]) > console.width:
            console.print(_grid(table, part))
            part = list(kept)
        part.append(name)
    console.print(_grid(table, part))
    console.print(Text(table.note, style="dim"))
    console.print()


_INDEX = ("label", "item", "kind", "attribute", "group", "wording", "country_name")


def _width(console: Console, table: ValidityTable, names: list[str]) -> int:
    """Return how wide a table of these columns would be."""
    unbound = console.options.update(max_width=10_000)
    return _grid(table, names).__rich_measure__(console, unbound).maximum


def _grid(table: ValidityTable, names: list[str]) -> Table:
    """Return a table of some columns; only lists wrap."""
    import pyarrow as pa
    from rich.table import Table
    from rich.text import Text

    from chronocore.validity.tables import cell

    grid = Table(show_edge=False, pad_edge=False)
    fields = [table.table.schema.field(name) for name in names]
    for field in fields:
        right = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        wraps = pa.types.is_list(field.type)
        grid.add_column(
            table.heads[field.name],
            justify="right" if right else "left",
            no_wrap=not wraps,
            max_width=32 if wraps else None,
        )
    for row in table.table.to_pylist():
        grid.add_row(*(Text(cell(name, row[name])) for name in names))
    return grid


@validity.command()
@click.argument("folder", type=STUDY)
@click.option(
    "--output", type=STUDY, metavar="FILE", help="By default FOLDER/validity/report.html."
)
@json_option
def report(folder: Path, output: Path | None, as_json: bool) -> None:
    """Write the figures and one HTML page that opens offline.

    \b
    Example:
      chronocore validity report my-panel
    """
    from chronocore.validity.report import report as write

    path = write(folder, output)
    emit(as_json, {"report": str(path)}, [str(path)])
