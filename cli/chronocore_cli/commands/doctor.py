"""``chronocore doctor`` and ``chronocore warmup``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chronocore_cli.shared import emit, json_option, plain, without_keys

if TYPE_CHECKING:
    from chronocore.doctor import Check

__all__ = ["doctor", "warmup"]


@click.command(short_help="What is installed, what is missing, how to get it.")
@click.option("--base-url", metavar="URL", help="Ask this endpoint for its models, too.")
@click.option(
    "--api-key-env", metavar="NAME", help="Environment variable that holds the endpoint's key."
)
@json_option
def doctor(base_url: str | None, api_key_env: str | None, as_json: bool) -> None:
    """Show what is installed, which engines work, what is missing and how to get it.

    Ends with status 1 if something is missing without which nothing goes, or if the endpoint
    that was asked for does not answer. What is optional and not there is marked "-".

    \b
    Examples:
      chronocore doctor
      chronocore doctor --base-url http://localhost:8000/v1
    """
    from chronocore.doctor import doctor as examine

    checks = examine(base_url, api_key_env)
    lines = [
        f"{_mark(check)}  {check.name:<18} {check.detail}"
        + ("" if check.present or not check.advice else f"; {check.advice}")
        for check in checks
    ]
    emit(as_json, {"checks": plain(checks)}, [without_keys(line) for line in lines])
    missing = [check.name for check in checks if check.required and not check.present]
    if missing:
        raise click.ClickException(f"missing: {', '.join(missing)}, as said above")


def _mark(check: Check) -> str:
    if check.present:
        return "ok     "
    return "missing" if check.required else "-      "


@click.command(short_help="Compile the kernels now.")
@json_option
def warmup(as_json: bool) -> None:
    """Compile the kernels now, so that the first real call is fast.

    \b
    Example:
      chronocore warmup
    """
    from chronocore.warmup import warmup as compile_all

    result = compile_all()
    emit(
        as_json,
        {"kernels": result.kernels, "seconds": round(result.seconds, 2)},
        [f"{result.kernels} kernels ready in {result.seconds:.1f} s"],
    )
