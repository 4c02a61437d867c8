"""Which runs a study has: their labels, their notes, and what is left when the list is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time

import pyarrow.parquet as pq
import pytest
from proofs.scripted import Noting, ScriptedEngine, noting, one_of_many

import chronocore as cc
from chronocore import notes, publication
from chronocore.identity import run_id
from chronocore.parquet import read_metadata

RUN = run_id(ScriptedEngine().settings)


# -- labels ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_settings_of_one_model_that_start_at_once_all_get_a_label(study):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chronocore", "proofs.scripted"])
    ready, go = context.Semaphore(0), context.Event()
    children = [
        context.Process(target=one_of_many, args=(study, seed, ready, go)) for seed in range(16)
    ]
    for child in children:
        child.start()
    for _ in children:
        assert ready.acquire(timeout=120)
    go.set()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 16
    labels = cc.Study.open(study).runs()["label"].to_pylist()
    assert len(set(labels)) == 16


def test_a_name_that_is_taken_is_refused(study):
    cc.predict(study, "reference:uniform", name="mine")
    with pytest.raises(cc.ConfigurationError, match="choose another --name"):
        cc.predict(study, "reference:pooled", name="mine")


# -- notes -------------------------------------------------------------------------------------


def test_notes_of_a_second_call_are_added(study):
    cc.predict(study, Noting("m-1", failed=2), kinds=["dated"])
    cc.predict(study, Noting("m-2", failed=3))
    found = cc.Study.open(study).run_notes(RUN)
    assert found == {
        "device": "none", "model_reported": "m-1, m-2", "failed_attempts": "5 timeout",
    }  # fmt: skip


def test_notes_are_bounded():
    many = {}
    for reply in range(5000):
        many = notes.added(many, {"system_fingerprint": f"fp_{reply:06d}", f"note {reply}": "x"})
    assert len(json.dumps(many)) < 5_000
    assert many["system_fingerprint"].startswith("fp_000000, fp_000001")
    assert many["system_fingerprint"].endswith("and more")
    assert len(notes.added({}, {"first_rejection": "x" * 10**6})["first_rejection"]) < 2_000


def test_notes_survive_a_kill(study):
    child = multiprocessing.get_context("spawn").Process(target=noting, args=(study,))
    child.start()
    opened = cc.Study.open(study)
    deadline = time.monotonic() + 60
    while not opened.parts(RUN) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert opened.run_notes(RUN)["model_reported"] == "m-killed"
    cc.predict(study, Noting("m-after"))
    assert opened.run_notes(RUN)["model_reported"] == "m-killed, m-after"


def test_a_build_over_a_damaged_manifest_keeps_notes_and_says_so(study):
    cc.predict(study, Noting("m-1"))
    before = cc.Study.open(study).run_notes(RUN)
    manifest = study / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:200])
    with pytest.raises(cc.StudyError, match="run: chronocore build"):
        cc.status(study)
    built = cc.build(study)
    assert "manifest.json.unreadable" in built.notes[0]
    assert (study / "manifest.json.unreadable").stat().st_size == 200
    assert cc.Study.open(study).run_notes(RUN) == before


# -- a list of runs that was lost --------------------------------------------------------------


@pytest.fixture
def lost(study):
    """A study whose ``runs.parquet`` was deleted."""
    cc.predict(study, Noting("m-1"), name="my model")
    cc.predict(study, "reference:uniform")
    cc.score(study, resamples=10)
    kept = study / "runs.kept"
    shutil.move(study / "runs.parquet", kept)
    return study


@pytest.mark.parametrize(
    "call",
    [
        cc.status, cc.compact, cc.score, cc.report, cc.findings, cc.sweep,
        lambda study: cc.tables(study, run="my model"),
        lambda study: cc.export_run(study, "my model", study / "x.parquet"),
        lambda study: cc.remove_run(study, "my model"),
    ],
)  # fmt: skip
def test_every_command_names_the_folders_and_how_to_register_them(lost, call):
    with pytest.raises(cc.StudyError, match="--register") as caught:
        call(lost)
    assert f"run={RUN}" in str(caught.value)


def test_parts_register_their_runs_again(lost, run_cli):
    rows = cc.Study.open(lost).predictions(RUN)
    done = run_cli("predict", lost, "--register")
    assert done.returncode == 0, done.stderr
    assert "registered my model" in done.stdout
    assert pq.read_table(lost / "runs.parquet").equals(pq.read_table(lost / "runs.kept"))
    assert cc.Study.open(lost).predictions(RUN).equals(rows)
    cc.score(lost, resamples=10)
    assert cc.register_runs(lost).registered == {}


def test_a_predict_goes_on_and_names_the_others(lost):
    result = cc.predict(lost, Noting("m-1"))
    assert result.already_done == result.total
    (notice,) = [one for one in result.notices if "--register" in one]
    assert RUN not in notice


def test_merged_parts_still_say_whose_they_are(lost):
    cc.register_runs(lost)
    cc.compact(lost)
    (lost / "runs.parquet").unlink()
    assert set(cc.register_runs(lost).registered.values()) == {"my model", "uniform"}


def test_parts_that_do_not_say_it_are_registered_by_their_command(lost, run_cli):
    for part in cc.Study.open(lost).parts(RUN):
        table = pq.ParquetFile(part).read()
        metadata = {k: v for k, v in table.schema.metadata.items() if k != b"chronocore.part"}
        pq.write_table(table.replace_schema_metadata(metadata), part)
        assert b"chronocore.part" not in read_metadata(part)
    done = run_cli("predict", lost, "--register")
    assert done.returncode == 1
    assert "registered uniform" in done.stdout
    assert "predict command that asked it" in done.stderr
    assert cc.predict(lost, Noting("m-1")).already_done > 0
    assert len(cc.status(lost)) == 2


# -- files that change as one ------------------------------------------------------------------


def test_what_was_decided_is_put_in_place_by_the_next(tmp_path, monkeypatch):
    publication.publish(tmp_path, "scores", {"a": b"1", "tables/b": b"1", "c": b"1"})
    from chronocore import storage

    for moves in range(3):
        real, moved = storage.move, []

        def dies(source, target, real=real, moved=moved, moves=moves):
            if len(moved) == moves:
                raise KeyboardInterrupt
            moved.append(target)
            real(source, target)

        monkeypatch.setattr(storage, "move", dies)
        new = {"a": b"2", "tables/b": b"2", "c": b"2"}
        with pytest.raises(KeyboardInterrupt):
            publication.publish(tmp_path, "scores", new, ["gone"])
        monkeypatch.undo()
        publication.settle(tmp_path, "scores")
        assert {(tmp_path / name).read_bytes() for name in new} == {b"2"}
        publication.publish(tmp_path, "scores", dict.fromkeys(new, b"1"))
    names = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {"a", "b", "c"}
