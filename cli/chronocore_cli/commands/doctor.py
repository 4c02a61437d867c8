"""``chronocore doctor`` and ``chronocore warmup``."""

from __future__ import annotations

import click

from chronocore_cli.shared import emit, json_option, plain

__all__ = ["doctor", "warmup"]


@click.command(short_help="What is installed, what is missing, how to get it.")
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
    emit(as_json, {"checks": plain(checks)}, lines)


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
