"""The commands, in the order of the work.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from chronocore.predict import PredictResult

__all__ = ["cli", "main"]

F = TypeVar("F", bound=Callable[..., Any])


class PathArgument(click.Path):
    """A path that is not empty: an empty one would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


STUDY = PathArgument(path_type=Path)


class OrderedGroup(click.Group):
    """Lists the commands in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they were added."""
        return list(self.commands)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"chronocore {version('chronocore')}")
    except PackageNotFoundError:
        click.echo("chronocore (source tree)")
    ctx.exit()


@click.group(cls=OrderedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, callback=_print_version, expose_value=False, is_eager=True,
    help="Print the version.",
)  # fmt: skip
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def cli() -> None:
    """Measure whether a language model knows how a society's attitudes changed.

    Surveys -> gold distributions -> temporal pairs -> prompts -> predictions -> scores ->
    tables -> report. Start with: chronocore quickstart
    """


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def _say(message: str) -> None:
    click.echo(message, err=True)


def _emit(as_json: bool, data: Mapping[str, Any], lines: list[str]) -> None:
    if as_json:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(line)


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _shift_line(shifts: Mapping[str, int]) -> str:
    from chronocore.tables import words

    return ", ".join(f"{count} {words(shift)}" for shift, count in shifts.items())


@cli.command(short_help="All of it on open data, with a recorded model.")
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

    result = run(directory, progress=_say)
    lines = [
        "",
        f"{result.n_pairs} temporal pairs over {result.n_countries} countries: "
        f"{_shift_line(result.shifts)}",
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
    _emit(as_json, data, lines)


@cli.command()
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
        study, preset=preset, config=config, min_respondents=min_respondents, progress=_say
    )
    width = max(len(step) for step in result.funnel)
    lines = [
        *(f"  {step:<{width}}  {count:>9,}" for step, count in result.funnel.items()),
        *(f"  note: {note}" for note in result.notes),
        f"{sum(result.shifts.values())} pairs over {result.countries} countries: "
        f"{_shift_line(result.shifts)}",
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
    _emit(as_json, data, lines)


def _engine_arguments(pairs: tuple[str, ...]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--engine-arg")
        try:
            arguments[key] = json.loads(text)
        except ValueError:
            arguments[key] = text
    return arguments


def _kinds(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in value.split(",") if part.strip())
    known = ("dated", "undated", "modal")
    wrong = [kind for kind in kinds if kind not in known]
    if wrong or not kinds:
        raise click.BadParameter(f"{value!r}: kinds are {', '.join(known)}")
    return kinds


@cli.command()
@click.argument("study", type=STUDY)
@click.option(
    "--model",
    required=True,
    metavar="SPEC",
    help="vllm:MODEL, reference:uniform|persistence|pooled or file:PARQUET.",
)
@click.option("--name", metavar="LABEL", help="Name of the run in tables.")
@click.option(
    "--kinds",
    default="dated,undated",
    show_default=True,
    callback=_kinds,
    help="Kinds of prompt: dated, undated, modal.",
)
@click.option(
    "--instruction",
    default="default",
    show_default=True,
    type=click.Choice(["default", "national", "hundred-adults", "hundred_adults"]),
    help="Wording of the task.",
    callback=lambda _, __, value: value.replace("-", "_"),
)
@click.option(
    "--repeats",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Answers to each prompt.",
)
@click.option("--structured", is_flag=True, help="Hold the model to the format by a JSON schema.")
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0))
@click.option("--top-p", default=1.0, show_default=True, type=click.FloatRange(0, 1, min_open=True))
@click.option("--max-tokens", default=120, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--revision", metavar="REV", help="Revision of a model on a hub.")
@click.option(
    "--engine-arg",
    "engine_args",
    multiple=True,
    metavar="KEY=VALUE",
    help="Passed through to vLLM; may be given several times.",
)
@json_option
def predict(
    study: Path,
    model: str,
    name: str | None,
    kinds: tuple[str, ...],
    instruction: str,
    repeats: int,
    structured: bool,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
    revision: str | None,
    engine_args: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let a model answer the prompts.

    Answers are written as they come; the same command goes on where it stopped.

    \b
    Examples:
      chronocore predict my-study --model reference:pooled
      chronocore predict my-study --model vllm:meta-llama/Llama-3.3-70B-Instruct
      chronocore predict my-study --model file:mine.parquet --name "my model"
    """
    import chronocore as cc
    from chronocore_cli.progress import predict_progress

    arguments = _engine_arguments(engine_args)
    with predict_progress() as show:
        result = cc.predict(
            study,
            model,
            name=name,
            kinds=kinds,
            instruction=instruction,
            repeats=repeats,
            structured=structured,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            seed=seed,
            revision=revision,
            engine_args=arguments,
            progress=show,
        )
    _report_predictions(study, result, as_json)


def _report_predictions(study: Path, result: PredictResult, as_json: bool) -> None:
    errors = result.statuses.get("error", 0)
    counts = ", ".join(f"{count} {status}" for status, count in result.statuses.items()) or "none"
    lines = [
        f"{result.label} (run {result.run_id}): {result.total} prompts, "
        f"{result.already_done} answered before, {result.seconds:.1f} s",
        f"answers: {counts}",
        *(f"  {count:>5}  {reason}" for reason, count in result.reasons.items()),
    ]
    if result.missing:
        lines.append(
            f"without an answer: {result.missing} prompts (a pair is scored only with its older, "
            "its newer and its undated prediction)"
        )
    if result.unmatched:
        lines.append(f"rows of the file that answer no prompt: {result.unmatched}")
    usable = result.statuses.get("ok", 0) + result.statuses.get("recovered", 0)
    if not usable:
        lines.append("no answer is usable: there is nothing to score")
    elif not errors:
        lines.append(f"next: chronocore score {study}")
    _emit(as_json, _plain(result), lines)
    if errors:
        raise click.ClickException(
            f"{errors} prompts got no answer; run the same command again to ask only these"
        )


def _boundaries(
    _: click.Context, __: click.Parameter, value: str | None
) -> str | tuple[float, ...] | None:
    if value is None or value in ("default", "tighter", "looser"):
        return value
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3 or not 0 <= numbers[0] < numbers[1] < numbers[2] <= 1:
        raise click.BadParameter(
            "use default, tighter, looser, or three increasing numbers such as 0.03,0.1,0.2"
        )
    return numbers


@cli.command()
@click.argument("study", type=STUDY)
@click.option("--tau", type=click.FloatRange(0, 1, min_open=True), help="Tolerance of accuracy.")
@click.option(
    "--retain",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of pairs the knowledge filter keeps.",
)
@click.option(
    "--boundaries",
    callback=_boundaries,
    metavar="SET",
    help="Shift boundaries: default, tighter, looser or three numbers.",
)
@click.option("--resamples", type=click.IntRange(min=1), help="Bootstrap resamples.")
@click.option(
    "--confidence-level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Level of the intervals.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the intervals.")
@json_option
def score(
    study: Path,
    tau: float | None,
    retain: float | None,
    boundaries: str | tuple[float, ...] | None,
    resamples: int | None,
    confidence_level: float | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Score all runs and compute the tables.

    Every cell has its bootstrap interval and its n. Settings that are not given are those of
    [score] in study.toml.

    \b
    Example:
      chronocore score my-study --tau 0.05 --resamples 10000
    """
    import chronocore as cc

    result = cc.score(
        study,
        tau=tau,
        retain=retain,
        boundaries=boundaries,
        resamples=resamples,
        confidence_level=confidence_level,
        seed=seed,
        progress=_say,
    )
    from chronocore.tables import settings_line

    lines = []
    for run in result.runs:
        kept = "" if run.engine == "reference" else f", {run.n_retained} retained"
        lines.append(f"{run.label}: {run.n_complete} of {run.n_pairs} pairs complete{kept}")
        if run.empty_strata:
            lines.append(
                "  strata so small that the filter keeps none: " + "; ".join(run.empty_strata)
            )
    lines.extend(f"not scored: {label}: {why}" for label, why in result.skipped.items())
    lines.append(settings_line(result.settings))
    lines.append(f"tables: {', '.join(result.tables)}")
    lines.append(f"next: chronocore tables {study}, chronocore report {study}")
    _emit(as_json, _plain(result), lines)


def _warn_unscored(study: Path) -> None:
    from chronocore.score import load_summary
    from chronocore.store import Study

    opened = Study.open(study)
    for label in load_summary(opened).unscored(opened):
        _say(f"not scored yet: {label}; run: chronocore score {study}")


@cli.command()
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
    _warn_unscored(study)
    if as_json or form == "json":
        data = {name: table.to_pylist() for name, table in results.items()}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif form == "terminal":
        from chronocore_cli.terminal import print_table

        for name, table in results.items():
            print_table(name, table)
    else:
        click.echo("\n".join(format_table(n, t, form) for n, t in results.items()), nl=False)


@cli.command(short_help="Write report.html, one file that opens offline.")
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
    _warn_unscored(study)
    _emit(as_json, {"report": str(path)}, [str(path)])


@cli.command(short_help="Time the kernels beside their peers.")
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

    result = run_bench(only=only, quick=quick, progress=_say)
    for file in files:
        write_table(result, file)
    _emit(as_json, _plain(result), result.lines())


@cli.command(short_help="What is installed, what is missing, how to get it.")
@json_option
def doctor(as_json: bool) -> None:
    """Show what is installed, what is missing and how to get it.

    \b
    Example:
      chronocore doctor
    """
    from chronocore.doctor import doctor as examine

    checks = examine()
    marks = {True: "ok     ", False: "missing"}
    lines = [
        f"{marks[check.present]}  {check.name:<18} {check.detail}"
        + ("" if check.present else f"; {check.advice}")
        for check in checks
    ]
    _emit(as_json, {"checks": _plain(checks)}, lines)


@cli.command(short_help="Compile the kernels now.")
@json_option
def warmup(as_json: bool) -> None:
    """Compile the kernels now, so that the first real call is fast.

    \b
    Example:
      chronocore warmup
    """
    from chronocore.warmup import warmup as compile_all

    result = compile_all()
    _emit(
        as_json,
        {"kernels": result.kernels, "seconds": round(result.seconds, 2)},
        [f"{result.kernels} kernels ready in {result.seconds:.1f} s"],
    )


_STOPPED = "stopped; the study is as it was, and a predict goes on where it stopped"


def _survive_any_stream() -> None:
    """Let output go to any terminal or pipe: what it cannot show is replaced, not an error."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line; every expected error is one line and exit status 1."""
    _survive_any_stream()
    arguments = sys.argv[1:]
    # Also after the command, where people add it to the line that failed.
    debug = "--debug" in arguments
    try:
        cli.main([a for a in arguments if a != "--debug"], standalone_mode=False)
    except click.exceptions.Abort:
        _say(_STOPPED)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as finished:
        sys.exit(finished.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong with the result.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _say(_STOPPED)
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        from chronocore.errors import ChronocoreError

        if isinstance(error, ChronocoreError):
            _say(f"Error: {error}")
        elif isinstance(error, MemoryError):
            _say("Error: not enough memory for this")
        else:
            name = type(error).__name__
            _say(
                f"Error: unexpected {name}: {error}. This is a fault of chronocore; run with "
                "`chronocore --debug ...` to see where"
            )
        sys.exit(1)


if __name__ == "__main__":
    main()
