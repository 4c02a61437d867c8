"""``chronocore predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chronocore_cli.shared import STUDY, emit, json_option, plain

if TYPE_CHECKING:
    from chronocore.predict import PredictResult

__all__ = ["engine_arguments", "predict"]


def engine_arguments(pairs: tuple[str, ...]) -> dict[str, object]:
    """Return what ``--engine-arg KEY=VALUE`` says; a value that is JSON is read as such."""
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


@click.command()
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

    arguments = engine_arguments(engine_args)
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
    emit(as_json, plain(result), lines)
    if errors:
        raise click.ClickException(
            f"{errors} prompts got no answer; run the same command again to ask only these"
        )
