"""``chronocore sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chronocore_cli.shared import STUDY, FiniteRange, WholeRange, emit, json_option, plain, say

if TYPE_CHECKING:
    from chronocore.sweep import SweepResult

__all__ = ["sweep"]


def _sets(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> list[str | tuple[float, ...]]:
    found: list[str | tuple[float, ...]] = []
    for value in values:
        if value in ("default", "tighter", "looser"):
            found.append(value)
            continue
        try:
            numbers = tuple(float(part) for part in value.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != 3 or not 0 <= numbers[0] < numbers[1] < numbers[2] <= 1:
            raise click.BadParameter(
                "use default, tighter, looser, or three increasing numbers such as 0.03,0.1,0.2"
            )
        found.append(numbers)
    return found


_SHARE = FiniteRange(0, 1, min_open=True)


@click.command(short_help="Which findings hold under every choice.")
@click.argument("study", type=STUDY)
@click.option(
    "--boundaries", multiple=True, callback=_sets, metavar="SET",
    default=("tighter", "default", "looser"),
    help="Shift boundaries, may be repeated: default, tighter, looser or three numbers.",
)  # fmt: skip
@click.option(
    "--tau", multiple=True, type=_SHARE, default=(0.05, 0.10, 0.15, 0.20), show_default=True,
    help="Tolerance of accuracy, may be repeated.",
)  # fmt: skip
@click.option(
    "--retain", multiple=True, type=_SHARE, default=(0.25, 0.50, 0.75, 1.0), show_default=True,
    help="Share the knowledge filter keeps, may be repeated.",
)  # fmt: skip
@click.option(
    "--instruction", "--instructions", "instructions", multiple=True, metavar="NAME",
    help="Only runs with this instruction, may be repeated. By default all runs.",
)  # fmt: skip
@click.option(
    "--seeds", type=WholeRange(1), default=1, show_default=True,
    help="Number of bootstrap seeds.",
)  # fmt: skip
@click.option("--seed", type=WholeRange(0), default=0, show_default=True,
              help="The first of them.")  # fmt: skip
@click.option(
    "--resamples", type=WholeRange(1, 10_000_000), default=1000, show_default=True,
    help="Bootstrap resamples.",
)  # fmt: skip
@click.option(
    "--cluster", type=click.Choice(["pair", "country", "variable"]), default="pair",
    show_default=True, help="What is resampled: single pairs, or whole countries or questions.",
)  # fmt: skip
@click.option(
    "--gold-error", is_flag=True, help="Carry the surveys' own sampling error into the resamples."
)
@json_option
def sweep(
    study: Path,
    boundaries: list[str | tuple[float, ...]],
    tau: tuple[float, ...],
    retain: tuple[float, ...],
    instructions: tuple[str, ...],
    seeds: int,
    seed: int,
    resamples: int,
    cluster: str,
    gold_error: bool,
    as_json: bool,
) -> None:
    """Check the findings under every choice.

    Boundary sets x tolerances x retention x runs (and their instructions) x bootstrap seeds. A
    sweep that was stopped goes on where it stopped; its cells are in STUDY/sweep.

    \b
    Examples:
      chronocore sweep my-study
      chronocore sweep my-study --resamples 100000 --seeds 5
    """
    import chronocore as cc
    from chronocore_cli.progress import sweep_progress

    with sweep_progress() as progress:
        result = cc.sweep(
            study,
            boundaries=boundaries,
            tau=tau,
            retain=retain,
            instructions=instructions or None,
            seeds=seeds,
            seed=seed,
            resamples=resamples,
            cluster=cluster,
            gold_error=gold_error,
            progress=progress,
        )
    from chronocore.tables import too_few_resamples

    few = too_few_resamples(result.resamples, result.confidence_level)
    if few:
        say(f"note: {few}")
    emit(as_json, plain(result), _lines(study, result))


def _lines(study: Path, result: SweepResult) -> list[str]:
    sizes = [
        f"{len(result.boundaries)} boundary sets",
        f"{len(result.tau)} tolerances",
        f"{len(result.retain)} retention levels",
        f"{len(result.runs)} runs",
        f"{len(result.seeds)} seed{'' if len(result.seeds) == 1 else 's'}",
    ]
    from chronocore.config import CLUSTERS
    from chronocore.tables import gold_error_words

    gold = gold_error_words(result.gold_error, result.effective_sizes)
    lines = [
        f"{result.cells:,} cells ({' x '.join(sizes)}), {result.resamples:,} resamples"
        f"{CLUSTERS[result.cluster]} each{gold}; {result.computed:,} computed now",
        "cells in which a finding holds, and in which it holds in at least 95% of the resamples:",
    ]
    for one in result.findings:
        defined = one.cells - one.undefined
        lines.append(
            f"  {one.finding} {one.statement}: {one.holds} and {one.supported} of {defined}"
            + (f" ({one.undefined} without pairs)" if one.undefined else "")
        )
    if result.n_failures:
        lines.append(f"it does not hold, for example ({result.n_failures} in all):")
    statements = {one.name: f"{one.finding} {one.statement}" for one in result.findings}
    lines += [
        f"  {statements[one.finding]}: {one.label}, boundaries {one.boundaries}, "
        f"tau {one.tau:g}, {100 * one.retain:g}% retained"
        for one in result.failures[:5]
    ]
    lines += [f"not swept: {label}: {why}" for label, why in result.skipped.items()]
    lines.append(f"every cell: {study / 'sweep'}")
    return lines
