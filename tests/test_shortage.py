"""What a command lacked says nothing about what lies on the disk: nothing is set aside for it."""

from __future__ import annotations

import builtins
import errno
import os
import resource
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from proofs.kill import rows_of
from proofs.scripted import ScriptedEngine

import chronocore as cc
from chronocore import parquet, storage
from chronocore.identity import run_id

RUN = run_id(ScriptedEngine().settings)


@pytest.fixture(scope="module")
def predicted(built_study, tmp_path_factory):
    path = tmp_path_factory.mktemp("shortage") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, ScriptedEngine(errors=60))
    cc.predict(path, ScriptedEngine())
    cc.score(path)
    return path


@pytest.fixture
def study(predicted, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(predicted, path)
    return path


def everything(study):
    return {
        str(path.relative_to(study)): path.read_bytes()
        for path in study.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def _raising(error):
    def raises(*args, **kwargs):
        raise error

    return raises


SHORTAGES = [
    pa.ArrowMemoryError("malloc of size 13568 failed"),
    MemoryError(),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
    OSError(errno.EACCES, os.strerror(errno.EACCES)),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    OSError("ZSTD decompression failed: Allocation error : not enough memory"),
    RuntimeError("can't start new thread"),
]


@pytest.mark.parametrize("error", SHORTAGES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["open", "decode"])
def test_a_shortage_renames_nothing_and_asks_nothing_again(study, monkeypatch, error, where):
    before = everything(study)
    calls = {
        "status": lambda: cc.status(study),
        "compact": lambda: cc.compact(study),
        "predict": lambda: cc.predict(study, ScriptedEngine()),
        "plan": lambda: cc.plan(study, "reference:uniform"),
        "score": lambda: cc.score(study),
        "tables": lambda: cc.tables(study),
        "sweep": lambda: cc.sweep(study, resamples=10),
        "export": lambda: cc.export_run(study, "scripted", study.parent / "x.parquet"),
    }
    if where == "open":
        monkeypatch.setattr(parquet.pa, "OSFile", _raising(error))
    else:
        monkeypatch.setattr(parquet.pq, "ParquetFile", _raising(error))
    for name, call in calls.items():
        with pytest.raises(cc.StorageError) as caught:
            call()
        assert not isinstance(caught.value, cc.StudyError), name
        assert "delete" not in str(caught.value), name
        assert "\n" not in str(caught.value), name
    monkeypatch.undo()
    assert everything(study) == before
    assert not list(study.rglob("*.unreadable"))


def test_each_shortage_is_told_with_what_to_do(tmp_path):
    def told(error):
        return str(storage.storage_error("read", tmp_path / "file", error))

    assert "not enough memory" in told(SHORTAGES[0])
    assert "ulimit -v" in told(MemoryError())
    assert "ulimit -n" in told(SHORTAGES[3])
    assert "permission" in told(SHORTAGES[5])
    assert "device" in told(SHORTAGES[6])
    assert "quota" in told(OSError(errno.EDQUOT, ""))
    assert isinstance(storage.storage_error("read", tmp_path, MemoryError()), MemoryError)


def test_a_predictions_file_is_not_called_unreadable_for_want_of_memory(study, monkeypatch):
    path = study.parent / "run.parquet"
    cc.export_run(study, "scripted", path)
    monkeypatch.setattr(parquet.pq, "ParquetFile", _raising(pa.ArrowMemoryError("realloc")))
    with pytest.raises(cc.OutOfMemoryError, match="not enough memory"):
        cc.predict(study, f"file:{path}")


def test_damage_is_still_damage(study):
    part = cc.Study.open(study).parts(RUN)[0]
    part.write_bytes(part.read_bytes()[:-30])
    result = cc.predict(study, ScriptedEngine())
    assert any("asked again" in notice for notice in result.notices)
    assert part.with_name(f"{part.name}.unreadable").exists()


@pytest.mark.slow
def test_little_memory_is_told_and_changes_nothing(study, cli_python):
    before = everything(study)
    rows = rows_of(study, RUN)
    for limit in (500, 650, 800):
        done = subprocess.run(
            [*cli_python, "predict", str(study), "--compact"],
            capture_output=True,
            text=True,
            preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_AS, (limit * 2**20, limit * 2**20)
            ),
        )
        assert "Traceback" not in done.stderr
        if done.returncode:
            assert everything(study) == before
    assert rows_of(study, RUN) == rows


@pytest.mark.parametrize("limit", [300, 600, 660, 700])
def test_where_the_libraries_cannot_be_loaded_a_command_says_so_at_once(
    study, cli_python, child_environment, limit
):
    def limited(*arguments):
        return subprocess.run(
            [*cli_python, *arguments],
            env=child_environment,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (limit * 2**20, limit * 2**20)
            ),
        )

    done = limited("predict", str(study), "--status")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: not enough memory")
    assert done.stderr.count("\n") == 1
    assert limited("predict", "--help").returncode == 0
    assert limited("--version").returncode == 0


@pytest.fixture
def cli_python():
    return [sys.executable, "-m", "chronocore_cli.main"]


def test_few_file_handles_are_named_with_a_hint(study):
    script = (
        "import resource, sys, chronocore as cc\n"
        "study = cc.Study.open(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n"
        "    study.pairs()\n"
        "except cc.StorageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(study)], capture_output=True, text=True, check=True
    )
    assert "too many files are open; raise the limit (ulimit -n" in done.stdout


def test_a_full_stderr_stops_no_command(study, cli_python):
    with builtins.open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*cli_python, "score", str(study), "--resamples", "10"],
            stderr=full,
            stdout=subprocess.PIPE,
        )
    assert done.returncode == 0
