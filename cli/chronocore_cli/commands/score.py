"""``chronocore score``."""

from __future__ import annotations

from pathlib import Path

import click

from chronocore_cli.shared import STUDY, FiniteRange, WholeRange, emit, json_option, plain, say

__all__ = ["score"]


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


@click.command()
@click.argument("study", type=STUDY)
@click.option("--tau", type=FiniteRange(0, 1, min_open=True), help="Tolerance of accuracy.")
@click.option(
    "--retain",
    type=FiniteRange(0, 1, min_open=True),
    help="Share of pairs the knowledge filter keeps.",
)
@click.option(
    "--boundaries",
    callback=_boundaries,
    metavar="SET",
    help="Shift boundaries: default, tighter, looser or three numbers.",
)
@click.option("--resamples", type=WholeRange(1, 10_000_000), help="Bootstrap resamples.")
@click.option(
    "--confidence-level",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    help="Level of the intervals.",
)
@click.option("--seed", type=WholeRange(0), help="Seed of the intervals.")
@click.option(
    "--cluster",
    type=click.Choice(["pair", "country", "variable"]),
    help="What intervals resample: single pairs, or whole countries or questions.",
)
@click.option(
    "--gold-error/--no-gold-error",
    default=None,
    help="Carry the surveys' own sampling error into the intervals.",
)
@click.option(
    "--exact-intervals",
    type=click.Choice(["ends", "all"]),
    help="Shares with an exact interval beside the bootstrap's: those of 0 and 100 %, or all.",
)
@json_option
def score(
    study: Path,
    tau: float | None,
    retain: float | None,
    boundaries: str | tuple[float, ...] | None,
    resamples: int | None,
    confidence_level: float | None,
    seed: int | None,
    cluster: str | None,
    gold_error: bool | None,
    exact_intervals: str | None,
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
        cluster=cluster,
        gold_error=gold_error,
        exact_intervals=exact_intervals,
        progress=say,
    )
    from chronocore.tables import settings_line, too_few_resamples

    few = too_few_resamples(result.settings["resamples"], result.settings["confidence_level"])
    if few:
        say(f"note: {few}")
    lines = []
    for run in result.runs:
        kept = "" if run.engine == "reference" else f", {run.n_retained:,} retained"
        lines.append(f"{run.label}: {run.n_complete:,} of {run.n_pairs:,} pairs complete{kept}")
        if run.empty_strata:
            lines.append(
                "  strata so small that the filter keeps none: " + "; ".join(run.empty_strata)
            )
    lines.extend(f"not scored: {label}: {why}" for label, why in result.skipped.items())
    lines.append(settings_line(result.settings))
    lines.append(f"tables: {', '.join(result.tables)}")
    lines.append(f"next: chronocore tables {study}, chronocore report {study}")
    emit(as_json, plain(result), lines)
