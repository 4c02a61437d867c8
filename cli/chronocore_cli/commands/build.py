"""``chronocore build``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronocore_cli.shared import STUDY, WholeRange, emit, json_option, plain, say, shift_line

if TYPE_CHECKING:
    from chronocore.sources import Explanation
    from chronocore.sources.explanation import Question

__all__ = ["build", "explanation_lines"]


FILE = click.Path(path_type=Path)


@click.command()
@click.argument("study", type=STUDY, required=False)
@click.option("--preset", metavar="NAME", help="What is known about the source; see below.")
@click.option("--file", "files", type=FILE, multiple=True, help="Survey file; may be repeated.")
@click.option("--config", type=STUDY, metavar="FILE", help="Settings as in study.toml.")
@click.option("--min-respondents", type=WholeRange(1), help="Valid answers a time point needs.")
@click.option("--explain", type=FILE, metavar="FILE", help="Say what a preset finds in a file.")
@json_option
def build(
    study: Path | None,
    preset: str | None,
    files: tuple[Path, ...],
    config: Path | None,
    min_respondents: int | None,
    explain: Path | None,
    as_json: bool,
) -> None:
    """Make a study from survey microdata.

    Writes items, gold distributions, temporal pairs and prompts, or nothing if any source cannot
    be read. Without --preset or --config, STUDY/study.toml is used. --explain needs no STUDY: it
    shows what a preset finds in a file, what it lacks, and the lines for study.toml.

    \b
    Presets:
      open-sample (needs no file), wvs-timeseries, wvs-wave7, evs-trend, ivs,
      issp-role-of-government, issp-national-identity, issp-social-inequality,
      issp-religion, issp-environment, issp-health, issp-family,
      issp-work-orientations, gss, ess, generic, or the path of your own (*.toml)

    \b
    Examples:
      chronocore build my-study --preset open-sample
      chronocore build --explain WVS_Time_Series.sav
      chronocore build my-study --preset wvs-timeseries --file WVS_Time_Series.sav
    """
    import chronocore as cc

    if explain is not None:
        if study is not None or files or config is not None or min_respondents is not None:
            raise click.UsageError("--explain FILE takes no STUDY and no option but --preset")
        found = cc.explain(explain, preset=preset, progress=say)
        emit(as_json, plain(found), explanation_lines(found))
        return
    if study is None:
        raise click.UsageError("Missing argument 'STUDY'.")
    result = cc.build(
        study,
        preset=preset,
        files=files,
        config=config,
        min_respondents=min_respondents,
        progress=say,
    )
    width = max(len(step) for step in result.funnel)
    lines = [
        *(f"  {step:<{width}}  {count:>11,}" for step, count in result.funnel.items()),
        *map(_weight_line, result.weights),
        *(f"  note: {note}" for note in result.notes),
        f"{sum(result.shifts.values()):,} pairs over {result.countries} countries: "
        f"{shift_line(result.shifts)}",
        "prompts: " + ", ".join(f"{count} {kind}" for kind, count in result.prompts.items()),
        f"next: chronocore predict {study} --model reference:uniform",
    ]
    data = {
        "study": str(study),
        "funnel": result.funnel,
        "weights": result.weights,
        "notes": result.notes,
        "pairs": sum(result.shifts.values()),
        "shifts": result.shifts,
        "countries": result.countries,
        "prompts": result.prompts,
    }
    emit(as_json, data, lines)


def _weight_line(used: Mapping[str, Any]) -> str:
    name = "no weight" if used["weight"] is None else f"weight {used['weight']}"
    dropped = f", {used['dropped']:,} answers dropped for it" if used["dropped"] else ""
    return f"  {used['survey']}: {name} in {used['time_points']:,} time points{dropped}"


def explanation_lines(found: Explanation) -> list[str]:
    """Return what a preset finds in a file as lines for people."""
    encoding = f", {found.encoding}" if found.encoding else ""
    rows = "" if found.rows is None else f"{found.rows:,} rows, "
    lines = [f"{found.file}: {rows}{len(found.names):,} columns{encoding}"]
    others = [f"{n} {share:.0%}" for n, share in found.fit.items() if share and n != found.preset]
    also = f" (others: {', '.join(others[:3])})" if others else ""
    lines += [f"preset: {found.preset}{also}", "", "Columns"]
    lines += [f"  {role:<14} {column}" for role, column in found.roles.items()]
    lines += [f"  LACKING        {role}: {why}" for role, why in found.lacking.items()]
    if found.lacking:
        more = ", …" if len(found.names) > 100 else ""
        lines.append(f"  of the file    {', '.join(found.names[:100])}{more}")
    if found.waves:
        lines.append("  waves          " + _counted(found.waves))
    if found.years:
        lines.append("  years          " + _counted(found.years))
    if found.weights:
        lines.append("  weights by country and time point: " + _counted(found.weights))
    if found.countries:
        from chronocore.countries import country_name

        named = {f"{c} {country_name(c) or ''}".strip(): n for c, n in found.countries.items()}
        lines += ["", f"Countries ({len(named)})", f"  {_counted(named, most=200)}"]
    if found.unknown_countries:
        lines.append(f"  without a name, kept: {', '.join(found.unknown_countries)}")
    if found.questions:
        lines += ["", f"Questions that can be used ({len(found.questions)})"]
        lines += [_question_line(question) for question in found.questions]
    if found.doubtful:
        lines += [
            "",
            f"Questions whose scale is in doubt, not in the settings below ({len(found.doubtful)})",
            *map(_question_line, found.doubtful),
            '  to use one: add it to variables, and confirmed = ["…"] takes it as shown, or',
            "  [sources.order] QUESTION = [1, 2, …] lists the codes of its scale",
        ]
    if found.text:
        lines += ["", f"Questions stored as text ({len(found.text)})"]
        lines += [f"  {variable}: {what}" for variable, what in found.text.items()]
    if found.unused:
        lines += ["", f"Labelled columns that are no questions for a study ({len(found.unused)})"]
        lines += [f"  {name}: {why}" for name, why in list(found.unused.items())[:200]]
    undeclared = [
        f"  {q.variable}: {_counted(q.undeclared)}" for q in found.questions if q.undeclared
    ]
    if undeclared:
        lines += ["", "Codes that are neither options nor declared missing", *undeclared]
    unconfirmed = [f"{variable}: {why}" for variable, why in found.unconfirmed.items()]
    absent = [", ".join(found.absent)] if found.absent else []
    for heading, entries, number in (
        ("Labels that contradict the catalog", found.conflicts, len(found.conflicts)),
        ("Questions whose codes nothing confirms, left out", unconfirmed, len(unconfirmed)),
        ("Questions of the catalog that the file lacks", absent, len(found.absent)),
    ):
        if entries:
            lines += ["", f"{heading} ({number})", *(f"  {entry}" for entry in entries)]
    lines += [f"  note: {note}" for note in found.notes]
    lines += [f"  check: {check}" for check in found.checks]
    return [
        *lines,
        "",
        "Settings, for a file of your own (plan.toml) or a study's study.toml; paths in it are",
        "relative to it. Then: chronocore build STUDY --config plan.toml",
        "",
        *found.block.splitlines(),
    ]


def _counted(counts: Mapping[Any, int], most: int = 60) -> str:
    shown = [f"{key} ({count:,})" for key, count in list(counts.items())[:most]]
    more = f", and {len(counts) - most} more" if len(counts) > most else ""
    return ", ".join(shown) + more


def _question_line(question: Question) -> str:
    missing = ", ".join(f"{why} {count:,}" for why, count in question.missing.items() if count)
    scale = " / ".join(
        str(code) if label == str(code) else f"{code} {label}"
        for code, label in question.options.items()
    )
    points = "point" if question.time_points == 1 else "points"
    line = (
        f"  {question.variable:<12} {question.text}\n"
        f"               {scale}\n"
        f"               {question.time_points} time {points}, {question.answers:,} answers"
    )
    if missing:
        line += f"; missing: {missing}"
    said = [*question.evidence, *(f"IN DOUBT: {doubt}" for doubt in question.doubts)]
    return "\n".join([line, *(f"               {entry}" for entry in said)])
