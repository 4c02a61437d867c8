"""The commands, in the order of the work.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import click

from chronocore_cli.commands.bench import bench
from chronocore_cli.commands.build import build
from chronocore_cli.commands.doctor import doctor, warmup
from chronocore_cli.commands.noise import noise
from chronocore_cli.commands.predict import predict
from chronocore_cli.commands.quickstart import quickstart
from chronocore_cli.commands.report import report
from chronocore_cli.commands.score import score
from chronocore_cli.commands.sweep import sweep
from chronocore_cli.commands.tables import tables
from chronocore_cli.commands.validity import validity
from chronocore_cli.shared import say, without_keys

__all__ = ["cli", "main"]


class OrderedGroup(click.Group):
    """Lists the commands in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they were added."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an argument that the library refuses is wrong usage like any other."""
        if _is_too_little_memory() and not set(ctx.args) & set(ctx.help_option_names):
            say(f"Error: {_NO_MEMORY}")
            sys.exit(1)
        try:
            return super().invoke(ctx)
        except ValueError as error:
            from chronocore.errors import ArgumentError

            if isinstance(error, ArgumentError):
                raise click.UsageError(str(error), ctx) from error
            raise


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

    Start with: chronocore quickstart. Commands stand in the order of the work.
    """


for command in (
    quickstart,
    build,
    predict,
    score,
    tables,
    report,
    sweep,
    noise,
    validity,
    bench,
    doctor,
    warmup,
):
    cli.add_command(command)


#: What is true of a command that was stopped, whenever that was.
_STOPPED = {
    "build": "the study is that of the last build that ended",
    "predict": "what was answered is kept, run the same command again to go on",
    "score": "scores and tables are those of the last score that ended",
    "report": "the page is that of the last report that ended",
    "sweep": "what was computed is kept, run the same command again to go on; until then the "
    "summary is that of the last sweep that ended",
    "noise": "what was simulated before is as it was",
    "validity": "what was answered is kept, run the same command again to go on",
}

_NO_MEMORY = (
    "not enough memory; results of before are as they were and answers that were written are kept. "
    "Give the command more (ulimit -v, or what the job asked the scheduler for) and run it again"
)
_MEMORY_WORDS = (
    "annot allocate memory",
    "failed to map segment",
    "MemoryError",
    "start new thread",
)


#: Below this much address space the libraries cannot be loaded, and where memory ends in the
#: middle of it some wait for ever: OpenBLAS asks again and again for what it did not get.
_LEAST_MEMORY = 704 * 2**20


def _is_too_little_memory() -> bool:
    """Return whether this process may not have the memory to load what a command needs."""
    try:
        import resource
    except ImportError:
        return False  # Windows has no such limits
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit != resource.RLIM_INFINITY and limit < _LEAST_MEMORY


def _stopped(arguments: list[str], cause: BaseException | None) -> str:
    """Return what to say about a stop: what the command knows, or what is true of it."""
    from_command = str(cause or "")
    if from_command:
        return from_command
    known = [_STOPPED[one] for one in arguments if one in _STOPPED]
    return f"stopped; {known[0]}" if known else "stopped"


def _sentence(error: BaseException) -> str:
    """Return what was wrong and what to do, in one line."""
    chain: list[BaseException] = []
    while len(chain) < 10 and (one := chain[-1].__cause__ if chain else error) is not None:
        chain.append(one)
    said = " ".join(str(one) for one in chain)
    try:
        from chronocore.errors import ChronocoreError
        from chronocore.storage import is_shortage, storage_error
    except (ImportError, MemoryError, OSError, AttributeError) as failed:
        if any(word in f"{said} {failed!r}" for word in _MEMORY_WORDS):
            return _NO_MEMORY
        return f"chronocore cannot be imported ({failed}); install it again"
    if isinstance(error, ChronocoreError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        where = Path(error.filename) if isinstance(error.filename, str) else Path("the output")
        if error.errno == errno.ENOSPC:
            return f"{where} cannot be written: no space is left where it goes"
        return str(storage_error("use", where, error))
    if isinstance(error, MemoryError) or any(is_shortage(one) for one in chain):
        return _NO_MEMORY
    return (
        f"unexpected {type(error).__name__}: {error}. This is a fault of chronocore; run with "
        "`chronocore --debug ...` to see where"
    )


def _shown(message: str) -> str:
    """Return a message without keys; where not even that can be imported, memory is short."""
    try:
        return without_keys(message)
    except (ImportError, MemoryError, OSError, AttributeError):
        return f"Error: {_NO_MEMORY}"


def _survive_any_stream() -> None:
    """Let output go to any terminal or pipe: what it cannot show is replaced, not an error."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if not issubclass(category, DeprecationWarning):
        say(f"note: {message}")


def main() -> None:
    """Run the command line; every expected error is one line and exit status 1."""
    _survive_any_stream()
    warnings.showwarning = _show_warning
    arguments = sys.argv[1:]
    # Also after the command, where people add it to the line that failed.
    debug = "--debug" in arguments
    try:
        cli.main([a for a in arguments if a != "--debug"], standalone_mode=False)
    except click.exceptions.Abort as error:
        cause = error.__cause__
        if isinstance(cause, EOFError):  # of a damaged file; click takes it for Ctrl-D
            say(_shown(f"Error: {_sentence(cause)}"))
        else:
            say(_shown(_stopped(arguments, cause)))
        sys.exit(1)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(without_keys(shown.getvalue()), nl=False, err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as finished:
        sys.exit(finished.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong with the result.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as error:
        say(_shown(_stopped(arguments, error)))
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        say(_shown(f"Error: {_sentence(error)}"))
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            # What is buffered would fail once more at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
