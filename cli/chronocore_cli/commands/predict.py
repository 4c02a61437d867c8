"""``chronocore predict``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    say,
    without_keys,
)

if TYPE_CHECKING:
    from chronocore.plan import Plan
    from chronocore.predict import PredictResult
    from chronocore.runs import RunStatus

__all__ = ["engine_options", "engine_settings", "predict"]

_ALL = "*"

#: Arguments of vLLM that have an option of their own.
_NAMED_ARGUMENTS = (
    "tensor_parallel_size",
    "data_parallel_size",
    "dtype",
    "quantization",
    "max_model_len",
    "gpu_memory_utilization",
)


def _engine_arguments(pairs: tuple[str, ...]) -> dict[str, object]:
    """Return what ``--engine-arg KEY=VALUE`` says; a value that is JSON is read as such."""
    from chronocore.engines.keys import refuse_key

    arguments: dict[str, object] = {}
    for pair in pairs:
        if any("\ud800" <= sign <= "\udfff" for sign in pair):
            raise click.BadParameter(f"{pair!r} is not UTF-8", param_hint="--engine-arg")
        refuse_key(pair, "an engine argument (--engine-arg)")
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--engine-arg")
        if key in arguments:
            raise click.BadParameter(f"{key!r} is given twice", param_hint="--engine-arg")
        try:
            arguments[key] = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        except _NoNumberError as error:
            raise click.BadParameter(
                f"{key}={error} is no number that JSON can hold; for the text put it into "
                f"quotes: '{key}=\"{error}\"'",
                param_hint="--engine-arg",
            ) from None
        except RecursionError:
            raise click.BadParameter(
                f"{key!r} is nested too deeply", param_hint="--engine-arg"
            ) from None
        except ValueError:
            arguments[key] = text
    return arguments


class _NoNumberError(Exception):
    """A JSON text holds NaN or an infinite number."""


def _no_number(text: str) -> float:
    raise _NoNumberError(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def engine_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the options of :data:`engine_options` say, as ``chronocore.predict`` takes it."""
    out = dict(settings)
    named = {name: out.pop(name) for name in _NAMED_ARGUMENTS}
    given = {name: value for name, value in named.items() if value is not None}
    out["engine_args"] = given | _engine_arguments(out["engine_args"])
    return out


def _kinds(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in value.split(",") if part.strip())
    known = ("dated", "undated", "modal")
    wrong = [kind for kind in kinds if kind not in known]
    if wrong or not kinds:
        raise click.BadParameter(f"{value!r}: kinds are {', '.join(known)}")
    return kinds


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply decorators so that the first is listed first in the help."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_ASKING = _options(
    click.option(
        "--model",
        "models",
        multiple=True,
        metavar="SPEC",
        help="vllm:MODEL, openai:MODEL, reference:uniform|persistence|pooled or file:PARQUET; "
        "given several times, one is asked after the other.",
    ),
    click.option("--name", metavar="LABEL", help="Name of the run in tables."),
    click.option(
        "--kinds",
        default="dated,undated",
        show_default=True,
        callback=_kinds,
        help="Kinds of prompt: dated, undated, modal.",
    ),
    click.option(
        "--instruction",
        default="default",
        show_default=True,
        type=click.Choice(["default", "national", "hundred-adults", "hundred_adults"]),
        help="Wording of the task.",
        callback=lambda _, __, value: value.replace("-", "_"),
    ),
    click.option(
        "--elicitation",
        default="verbalized",
        show_default=True,
        type=click.Choice(["verbalized", "sampled", "logprob"]),
        help="Ask for the distribution, count many answers, or read the first token.",
    ),
    click.option(
        "--samples",
        default=20,
        show_default=True,
        type=WholeRange(2, 2**31 - 1),
        help="Answers that make one distribution, for sampled.",
    ),
    click.option(
        "--repeats",
        default=1,
        show_default=True,
        type=WholeRange(1, 2**31 - 1),
        help="Answers to each prompt.",
    ),
    click.option(
        "--sample",
        metavar="N",
        type=WholeRange(1),
        help="Ask only about N pairs, drawn before any filter.",
    ),
    click.option(
        "--by", type=click.Choice(["shift"]), help="Draw as many pairs in each shift class."
    ),
    click.option(
        "--sample-seed",
        default=0,
        show_default=True,
        type=WholeRange(0),
        help="Seed of that draw.",
    ),
)
_SAMPLING = _options(
    click.option(
        "--structured", is_flag=True, help="Hold the model to the format by a JSON schema."
    ),
    click.option(
        "--temperature",
        type=FiniteRange(min=0),
        help="By default 0, for sampled 1; logprob has none.",
    ),
    click.option("--top-p", default=1.0, show_default=True, type=FiniteRange(0, 1, min_open=True)),
    click.option(
        "--max-tokens", type=WholeRange(1, 2**31 - 1), help="By default 120, for sampled 32."
    ),
    click.option("--seed", default=0, show_default=True, type=WholeRange(0)),
)
#: How an engine is started or reached; the same for every command that asks one.
engine_options = _options(
    click.option("--revision", metavar="REV", help="Revision of a model on a hub."),
    click.option(
        "--concurrency",
        "max_in_flight",
        metavar="N",
        type=WholeRange(1),
        help="Most requests handed over and not yet answered.",
    ),
    click.option("--tensor-parallel-size", metavar="N", type=WholeRange(1), help="For vLLM."),
    click.option("--data-parallel-size", metavar="N", type=WholeRange(1), help="For vLLM."),
    click.option("--dtype", metavar="TYPE", help="Number type of the weights, for vLLM."),
    click.option("--quantization", metavar="METHOD", help="For vLLM."),
    click.option("--max-model-len", metavar="N", type=WholeRange(1), help="Context, for vLLM."),
    click.option(
        "--gpu-memory-utilization",
        metavar="SHARE",
        type=FiniteRange(0, 1, min_open=True),
        help="Of a device's memory, for vLLM.",
    ),
    click.option("--base-url", metavar="URL", help="Address of an OpenAI-compatible endpoint."),
    click.option(
        "--api-key-env",
        metavar="NAME",
        help="Environment variable that holds the endpoint's key.",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=FiniteRange(min=0, min_open=True),
        help="What an endpoint has for one request.",
    ),
    click.option(
        "--retries",
        metavar="N",
        type=WholeRange(0),
        help="How often a request that failed on the way is sent again.",
    ),
    click.option(
        "--requests-per-minute",
        metavar="N",
        type=FiniteRange(min=0, min_open=True),
        help="Limit of an endpoint.",
    ),
    click.option(
        "--tokens-per-minute",
        metavar="N",
        type=FiniteRange(min=0, min_open=True),
        help="Limit of an endpoint.",
    ),
    click.option(
        "--omit",
        multiple=True,
        type=click.Choice(["temperature", "top_p", "max_tokens", "seed"]),
        help="Setting not sent to an endpoint, which uses its own.",
    ),
    click.option(
        "--engine-arg",
        "engine_args",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other argument of the engine; may be given several times.",
    ),
)
_INSTEAD = _options(
    click.option("--dry-run", is_flag=True, help="Count and estimate; ask nothing."),
    click.option(
        "--price-in",
        metavar="PRICE",
        type=FiniteRange(min=0),
        help="Of a million prompt tokens, for --dry-run.",
    ),
    click.option(
        "--price-out",
        metavar="PRICE",
        type=FiniteRange(min=0),
        help="Of a million completion tokens, for --dry-run.",
    ),
    click.option("--status", "show_status", is_flag=True, help="Say how far every run is."),
    click.option(
        "--compact",
        "compacted",
        metavar="[RUN]",
        is_flag=False,
        flag_value=_ALL,
        help="Merge the files of a run, or of all runs.",
    ),
    click.option("--remove", "removed", metavar="RUN", help="Remove a run and its predictions."),
    click.option(
        "--register",
        "registering",
        is_flag=True,
        help="Register again the runs whose predictions runs.parquet lacks.",
    ),
)


@click.command()
@click.argument("study", type=STUDY)
@_ASKING
@_SAMPLING
@engine_options
@allow_errors_option
@_INSTEAD
@json_option
def predict(
    study: Path,
    models: tuple[str, ...],
    name: str | None,
    allow_errors: bool,
    dry_run: bool,
    price_in: float | None,
    price_out: float | None,
    show_status: bool,
    compacted: str | None,
    removed: str | None,
    registering: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Let a model answer the prompts.

    Answers are written as they come; the same command goes on where it stopped. Ctrl-C finishes
    what is in flight, twice stops at once.

    \b
    Examples:
      chronocore predict my-study --model reference:pooled
      chronocore predict my-study --model vllm:meta-llama/Llama-3.3-70B-Instruct
      chronocore predict my-study --model openai:gpt-4o --dry-run --price-in 2.5 --price-out 10
      chronocore predict my-study --model file:mine.parquet --name "my model"
      chronocore predict my-study --model vllm:./model-a --model vllm:./model-b
      chronocore predict my-study --status
    """
    import chronocore as cc
    from chronocore.engines import parse_model_spec

    instead = [
        flag
        for flag, given in (
            ("--status", show_status), ("--compact", compacted), ("--remove", removed),
            ("--register", registering),
        ) if given
    ]  # fmt: skip
    also = [*instead[1:], *(["--model"] if models else []), *(["--dry-run"] if dry_run else [])]
    if instead and also:
        raise click.UsageError(f"{instead[0]} and {also[0]} do not go together")
    if show_status:
        _report_status(study, cc.status(study), as_json)
        return
    if compacted is not None:
        merged = cc.compact(study, None if compacted == _ALL else compacted)
        for notice in (notice for one in merged.values() for notice in one.notices):
            say(notice)
        lines = [f"{label}: {one.before} files, now {one.after}" for label, one in merged.items()]
        emit(as_json, plain(merged), lines or [f"{study} has no runs yet"])
        return
    if removed is not None:
        n_files = cc.remove_run(study, removed)
        emit(
            as_json, {"removed": removed, "files": n_files}, [f"removed {removed}: {n_files} files"]
        )
        return
    if registering:
        _register(study, as_json)
        return
    if not models:
        raise click.UsageError("Missing option '--model'.")
    if (price_in is not None or price_out is not None) and not dry_run:
        raise click.UsageError("prices are for --dry-run")
    if name is not None and len(models) > 1:
        raise click.UsageError("--name names one run, and several models are several runs")
    settings = engine_settings(settings)
    for model in models:
        parse_model_spec(model)  # before the first of them runs for hours
    if dry_run:
        plans = [
            cc.plan(study, model, price_in=price_in, price_out=price_out, **settings)
            for model in models
        ]
        _report_plans(plans, as_json)
    else:
        _ask(study, models, name, settings, as_json=as_json, allow_errors=allow_errors)


def _register(study: Path, as_json: bool) -> None:
    """Register runs again; fail if some cannot be."""
    import chronocore as cc

    result = cc.register_runs(study)
    lines = [f"registered {label} (run {run_id})" for run_id, label in result.registered.items()]
    emit(as_json, plain(result), lines or [f"no run of {study} was registered"])
    if result.unknown:
        raise click.ClickException("; ".join(result.unknown))


def _ask(
    study: Path,
    models: tuple[str, ...],
    name: str | None,
    settings: dict[str, Any],
    *,
    as_json: bool,
    allow_errors: bool,
) -> None:
    """Ask one model after the other; the failure of one does not keep the next from its turn."""
    import chronocore as cc
    from chronocore_cli.progress import asking_progress

    results: list[PredictResult] = []
    without = failed = 0
    for model in models:
        try:
            with asking_progress() as show:
                result = cc.predict(study, model, name=name, progress=show, **settings)
        except (cc.ConfigurationError, cc.EngineError, cc.MissingDependencyError) as error:
            if len(models) == 1:
                raise
            say(without_keys(f"Error: {model}: {error}"))
            failed += 1
            continue
        for notice in result.notices:
            say(notice)
        results.append(result)
        without += result.statuses.get("error", 0)
        if not model.startswith(("file:", "reference:")):
            without += result.missing  # what was asked of a model must have an answer
        if not as_json:
            emit(False, {}, _result_lines(result))
    usable = any(result.statuses.keys() & {"ok", "recovered"} for result in results)
    if as_json:
        one = len(models) == 1
        emit(True, plain(results[0]) if one else {"runs": plain(results)}, [])
    elif usable and not without:
        emit(False, {}, [f"next: chronocore score {study}"])
    unanswered = [line for result in results for line in result.failed]
    fail_without(without, "prompts", unanswered, allowed=allow_errors or failed > 0)
    if failed:
        raise click.ClickException(f"{failed} of {len(models)} models failed, as said above")


def _result_lines(result: PredictResult) -> list[str]:
    lines = [
        f"{result.label} (run {result.run_id}): {result.total} prompts, "
        f"{result.already_done} answered before, {result.seconds:.1f} s",
        *answer_lines(result.statuses, result.reasons, result.examples),
    ]
    if result.prompt_tokens or result.completion_tokens:
        lines.append(
            f"tokens so far: {result.prompt_tokens} of prompts, {result.completion_tokens} written"
        )
    if result.missing:
        lines.append(
            f"without an answer: {result.missing} prompts (a pair is scored only with its older, "
            "its newer and its undated prediction)"
        )
    if result.unmatched:
        lines.append(f"rows of the file that answer no prompt: {result.unmatched}")
    if not result.statuses.keys() & {"ok", "recovered"}:
        lines.append("no answer is usable: there is nothing to score")
    return lines


def _report_status(study: Path, runs: list[RunStatus], as_json: bool) -> None:
    lines: list[str] = []
    for run in runs:
        done = ", ".join(f"{n}/{run.total[kind]} {kind}" for kind, n in run.done.items())
        counts = ", ".join(f"{n} {status}" for status, n in run.statuses.items())
        tokens = f"{run.prompt_tokens} + {run.completion_tokens} tokens in {run.attempts} attempts"
        lines += [
            f"{run.label} (run {run.run_id}){', being written now' if run.writing else ''}",
            f"  answers: {done or 'none'}" + (f" ({counts})" if counts else ""),
            f"  {tokens}; last answer {run.last_write or 'never'}; "
            f"{run.parts} files, {run.size / 2**20:.1f} MiB",
            *(f"  damaged: {sentence}" for sentence in run.damaged),
        ]
    emit(as_json, {"runs": plain(runs)}, lines or [f"{study} has no runs yet"])


def _report_plans(plans: list[Plan], as_json: bool) -> None:
    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        say(note)
    data = plain(plans[0]) if len(plans) == 1 else {"plans": plain(plans)}
    emit(as_json, data, [line for plan in plans for line in _plan_lines(plan)])


def _plan_lines(plan: Plan) -> list[str]:
    kinds = ", ".join(f"{n} {kind}" for kind, n in plan.prompts.items()) or "none"
    lines = [
        f"{plan.model}: {plan.total} answers wanted, {plan.already_done} there, "
        f"{plan.pending} to ask",
        f"prompts: {kinds}",
        f"prompt tokens: {plan.prompt_tokens} ({plan.counted_by})",
        f"completion tokens: {plan.completion_tokens} ({plan.completion_from})",
        "time: "
        + (f"about {_duration(plan.seconds)} ({plan.seconds_from})"
           if plan.seconds is not None else plan.seconds_from),
        "cost: " + ("give --price-in and --price-out" if plan.cost is None else f"{plan.cost:.2f}"),
    ]  # fmt: skip
    for sample in plan.samples:
        lines += ["", f"--- {sample['kind']} ---", f"[system] {sample['system']}", sample["user"]]
    return lines


def _duration(seconds: float) -> str:
    from chronocore_cli.progress import duration

    return duration(seconds)
