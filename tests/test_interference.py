"""What others do to a study while it is used: links, leftovers, lost locks, moved folders."""

from __future__ import annotations

import multiprocessing
import shutil
import socket
import time
from collections import Counter

import pyarrow.parquet as pq
import pytest
from proofs.kill import rows_of
from proofs.scripted import ScriptedEngine, noting

import chronocore as cc
from chronocore import stream
from chronocore.identity import run_id

RUN = run_id(ScriptedEngine().settings)


# -- locks that are links ------------------------------------------------------------------------


_LOCKS = [".runs.lock", ".build.lock", ".manifest.lock", f".run-{RUN}.lock"]


@pytest.mark.parametrize("name", _LOCKS)
@pytest.mark.parametrize("dangling", [False, True], ids=["to a file", "to nothing"])
def test_a_lock_that_is_a_link_is_refused_and_its_target_untouched(
    study, tmp_path, run_cli, name, dangling
):
    target = tmp_path / "mine.txt"
    if not dangling:
        target.write_text("years of work")
    (study / name).unlink(missing_ok=True)
    (study / name).symlink_to(target)
    with pytest.raises(cc.StorageError, match="symbolic link") as caught:
        cc.predict(study, ScriptedEngine())
    assert name in str(caught.value)
    assert "delete it" in str(caught.value)
    assert "\n" not in str(caught.value)
    if name != f".run-{RUN}.lock":  # that of another run is no business of this one
        done = run_cli("predict", study, "--model", "reference:uniform")
        assert done.returncode == 1
        assert "symbolic link" in done.stderr
        assert "Traceback" not in done.stderr
    if dangling:
        assert not target.exists()
    else:
        assert target.read_text() == "years of work"
    (study / name).unlink()
    assert sum(cc.predict(study, ScriptedEngine()).statuses.values()) == 387


@pytest.mark.parametrize("name", [".scores.lock", ".sweep.lock"])
def test_score_and_sweep_refuse_it_too(study, tmp_path, name):
    cc.predict(study, ScriptedEngine())
    cc.score(study, resamples=10)
    target = tmp_path / "mine.txt"
    target.write_text("years of work")
    (study / name).unlink(missing_ok=True)
    (study / name).symlink_to(target)
    with pytest.raises(cc.StorageError, match="symbolic link"):
        cc.score(study, resamples=10) if "scores" in name else cc.sweep(study, resamples=10)
    assert target.read_text() == "years of work"


# -- folders that are not empty ------------------------------------------------------------------


def test_a_folder_with_a_leftover_file_does_not_stop_a_removal(study, monkeypatch):
    """NFS renames a file that is still open and keeps it until it is closed."""
    cc.predict(study, ScriptedEngine())
    cc.score(study, resamples=10)
    unlink = type(study).unlink

    def kept_while_open(path, missing_ok=False):
        if path.suffix == ".parquet" and "kind=dated" in str(path):
            path.rename(path.with_name(".nfs0001"))
        else:
            unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(type(study), "unlink", kept_while_open)
    assert cc.remove_run(study, "scripted") > 0
    monkeypatch.undo()
    assert cc.status(study) == []
    left = [path.name for path in (study / "predictions").rglob("*") if path.is_file()]
    assert set(left) == {".nfs0001"}
    assert sum(cc.predict(study, ScriptedEngine()).statuses.values()) == 387


def test_a_removal_and_a_registration_take_what_a_killed_process_left(study):
    cc.predict(study, "reference:uniform")
    cc.predict(study, ScriptedEngine())
    process = multiprocessing.get_context("spawn").Process(target=len, args=("",))
    process.start()
    process.join()
    left = study / f".runs.parquet.0badcafe.{process.pid}@{socket.gethostname()}.tmp"
    for call in (lambda: cc.remove_run(study, "uniform"), lambda: cc.register_runs(study)):
        left.write_bytes(b"half")
        call()
        assert not left.exists()


def test_figures_and_a_report_take_what_a_killed_process_left(report_study, tmp_path):
    study = tmp_path / "study"
    shutil.copytree(report_study, study)
    process = multiprocessing.get_context("spawn").Process(target=len, args=("",))
    process.start()
    process.join()
    left = study / "figures" / f".fig01.svg.0badcafe.{process.pid}@{socket.gethostname()}.tmp"
    for call in (lambda: cc.figures(study, "fig01", formats="svg"), lambda: cc.report(study)):
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
        call()
        assert not left.exists()


# -- locks that are deleted ----------------------------------------------------------------------


def _raw_keys(study):
    parts = (study / "predictions").rglob("part-*.parquet")
    tables = [pq.ParquetFile(part).read(columns=["prompt_id", "repeat"]) for part in parts]
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def test_rows_that_two_writers_left_are_there_once_after_the_next_predict(study, monkeypatch):
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=noting, args=(study,))
    child.start()
    folder = study / "predictions" / f"run={RUN}"
    until = time.monotonic() + 120
    while not list(folder.rglob("part-*.parquet")) and time.monotonic() < until:
        time.sleep(0.01)
    for lock in study.glob(".*.lock"):
        lock.unlink()
    monkeypatch.setattr(stream, "SMALL_PARTS", 10_000)
    cc.predict(study, ScriptedEngine())
    child.join(120)
    assert sum(_raw_keys(study).values()) > 387  # the second writer did write at the same time
    before = {row["prompt_id"]: row["text"] for row in rows_of(study, RUN)}
    result = cc.predict(study, ScriptedEngine())
    assert result.already_done == 387
    counts = _raw_keys(study)
    assert (len(counts), max(counts.values())) == (387, 1)
    assert {row["prompt_id"]: row["text"] for row in rows_of(study, RUN)} == before


# -- a study that moves --------------------------------------------------------------------------


class _Moving(ScriptedEngine):
    """Does something to the study after so many answers."""

    def __init__(self, then):
        super().__init__()
        self._then = then

    def answers(self, requests):
        for number, answer in enumerate(super().answers(requests)):
            if number == 100:
                time.sleep(0.2)  # a part is written
                self._then()
            yield answer


def test_a_study_that_is_moved_while_it_is_predicted_is_not_made_again(
    study, tmp_path, monkeypatch
):
    monkeypatch.setattr(stream, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(stream, "PART_SECONDS", 0.02)
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(cc.StudyError, match="moved or deleted") as caught:
        cc.predict(study, _Moving(lambda: study.rename(elsewhere)))
    assert not study.exists()
    assert str(study) in str(caught.value)
    assert "\n" not in str(caught.value)
    kept = len(rows_of(elsewhere, RUN))
    assert 0 < kept < 387
    result = cc.predict(elsewhere, ScriptedEngine())
    assert result.already_done == kept
    assert sum(result.statuses.values()) == 387


def test_a_study_that_is_deleted_while_it_is_predicted_is_not_made_again(study, monkeypatch):
    monkeypatch.setattr(stream, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(stream, "PART_SECONDS", 0.02)

    with pytest.raises(cc.StudyError, match="moved or deleted"):
        cc.predict(study, _Moving(lambda: shutil.rmtree(study)))
    assert not study.exists()
