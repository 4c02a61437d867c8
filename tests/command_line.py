"""The command line under test: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent

__all__ = ["environment", "run_here", "run_process"]


def environment(**more):
    """Return the environment of a process that imports the packages from this tree."""
    roots = [str(ROOT / name) for name in ("src", "kernels", "cli", "bench", "data")]
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*roots, *([inherited] if inherited else [])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **more}


def run_process(*arguments, env=None, **options):
    """Run ``chronocore`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "chronocore_cli.main", *map(str, arguments)],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


def run_here(*arguments, env=None, cwd=None):
    """Run ``chronocore`` in this process; what it prints goes to files, as to no terminal."""
    from chronocore_cli.main import main

    words = ["chronocore", *map(str, arguments)]
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(_output()) for _ in range(2))
        stack.enter_context(patch.dict(os.environ, environment(**(env or {}))))
        stack.enter_context(patch.multiple(sys, argv=words, stdout=out, stderr=err))
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        return subprocess.CompletedProcess(words, status, _text(out), _text(err))


def _output():
    return tempfile.TemporaryFile("w+", encoding="utf-8", newline="")


def _text(file):
    file.flush()
    file.seek(0)
    return file.read().replace(os.linesep, "\n")
