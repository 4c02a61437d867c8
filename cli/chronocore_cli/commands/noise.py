"""``chronocore noise``."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from chronocore_cli.shared import STUDY, FiniteRange, WholeRange, emit, json_option, plain, say

__all__ = ["noise"]


def _respondents(_: click.Context, __: click.Parameter, value: str) -> int | str:
    if value == "effective":
        return value
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter("use a number of respondents from 1 on, or effective")
    return int(value)


@click.command(short_help="How much of the shifts is sampling noise.")
@click.argument("study", type=STUDY)
@click.option(
    "--n",
    "n",
    default="500",
    show_default=True,
    callback=_respondents,
    metavar="N|effective",
    help="Respondents of each drawn sample, or each survey's effective sample size.",
)
@click.option(
    "--repeats", type=WholeRange(1), default=200, show_default=True,
    help="Pairs of samples for each pair.",
)  # fmt: skip
@click.option(
    "--floor-repeats", type=WholeRange(1), default=2000, show_default=True,
    help="Pairs of samples behind each p-value.",
)  # fmt: skip
@click.option(
    "--fdr", "false_discovery_rate", type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.05, show_default=True, help="False-discovery rate.",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(["bh", "by"]), default="bh", show_default=True,
    help="Benjamini-Hochberg, or Benjamini-Yekutieli for any dependence.",
)  # fmt: skip
@click.option("--seed", type=WholeRange(0), default=0, show_default=True)
@json_option
def noise(
    study: Path,
    n: int | str,
    repeats: int,
    floor_repeats: int,
    false_discovery_rate: float,
    method: str,
    seed: int,
    as_json: bool,
) -> None:
    """Test every shift against sampling noise.

    Draws samples of unchanged opinion for every pair, and tests each pair's shift against them
    with the surveys' effective sample sizes. One row a pair is kept in STUDY/noise.

    \b
    Examples:
      chronocore noise my-study
      chronocore noise my-study --n effective
    """
    import chronocore as cc
    from chronocore.noise import cautions
    from chronocore.tables import words

    result = cc.noise(
        study,
        n=n,
        repeats=repeats,
        floor_repeats=floor_repeats,
        false_discovery_rate=false_discovery_rate,
        method=method,
        seed=seed,
        progress=say,
    )
    for caution in itertools.chain(*cautions(result)):
        say(f"note: {caution}")
    sizes = "effective sample sizes" if n == "effective" else f"{n} respondents"
    shifts = {row.shift: row for row in result.shifts}
    shifted = shifts["all_shifted"]
    lines = [
        f"two samples of unchanged opinion ({sizes}, {repeats} repeats) lie "
        f"{result.median:.3f} apart (median); their 95th percentile is {result.median_p95:.3f} "
        "(median over pairs)",
        "pairs whose shift is above the 95th percentile of their own noise:",
    ]
    lines += [
        f"  {words(row.shift)}: {row.above_p95:,} of {row.pairs:,}"
        + (f" ({100 * row.above_p95 / row.pairs:.1f} %)" if row.pairs else "")
        for row in result.shifts
        if row.shift not in ("all_shifted", "all")
    ]
    lines += [
        f"told from noise at a false-discovery rate of {100 * false_discovery_rate:g} % "
        f"({'Benjamini-Hochberg' if method == 'bh' else 'Benjamini-Yekutieli'}, "
        f"{shifts['all'].pairs:,} tests): {shifted.detected:,} of {shifted.pairs:,} shifted pairs, "
        f"{shifts['stable'].detected:,} of {shifts['stable'].pairs:,} stable ones",
        f"effective sample sizes {result.effective_sizes}",
        f"one row a pair: {study / 'noise'}",
        f"next: chronocore score {study}, which takes it into the tables and the report",
    ]
    emit(as_json, plain(result), lines)
