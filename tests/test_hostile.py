"""Faults that were found by trying to break it: each kind stays fixed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore import storage
from chronocore.store import Study, write_atomic


@pytest.fixture
def scored(study):
    cc.predict(study, "reference:persistence")
    cc.score(study)
    return study


def test_a_part_in_the_wrong_folder_is_refused(study):
    for name in ("persistence", "uniform"):
        cc.predict(study, f"reference:{name}")
    a, b = sorted((study / "predictions").glob("run=*/kind=dated/part-*.parquet"))
    shutil.move(a, b.parent / a.name)
    with pytest.raises(cc.StudyError, match=r"was written as run=r\w+/kind=dated"):
        cc.score(study)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("status", ["weird"] * 129, "unknown status 'weird'"),
        ("status", ["invalid"] * 129, "status invalid and distribution"),
        ("probs", [None] * 129, "status ok but no distribution"),
    ],
)
def test_a_part_that_says_what_it_may_not_say_is_refused(study, column, values, message):
    cc.predict(study, "reference:uniform", kinds=("undated",))
    (part,) = study.glob("predictions/**/part-*.parquet")
    table = pq.ParquetFile(part).read()
    index = table.column_names.index(column)
    field = table.schema.field(column)
    edited = table.set_column(index, field, pa.array(values, field.type))
    pq.write_table(edited, part)
    with pytest.raises(cc.StudyError, match=f"column {column} is not what was written"):
        cc.score(study)
    # As an earlier version wrote it, without digests of its columns.
    metadata = {k: v for k, v in table.schema.metadata.items() if k != b"chronocore.columns"}
    pq.write_table(edited.replace_schema_metadata(metadata), part)
    with pytest.raises(cc.StudyError, match=message):
        cc.score(study)


def test_a_part_without_a_column_is_refused(study):
    cc.predict(study, "reference:uniform")
    part = next(iter(study.glob("predictions/**/part-*.parquet")))
    pq.write_table(pq.ParquetFile(part).read().drop_columns(["attempt"]), part)
    with pytest.raises(cc.StudyError, match="does not have the columns"):
        cc.score(study)


def everything(study):
    """Return the content of all files that are there to be read."""
    return {
        str(path.relative_to(study)): path.read_bytes()
        for path in study.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, None])
@pytest.mark.parametrize("step", [1, 4, 9])
def test_scores_that_cannot_be_written_leave_the_old_ones(scored, monkeypatch, error, step):
    """A full disk, a device that fails, Ctrl-C: the old scores are there and whole."""
    before = everything(scored)
    real, calls = storage.write_atomic, []

    def fails(path, content):
        calls.append(path)
        if len(calls) == step:
            if error is None:
                raise KeyboardInterrupt
            raise storage.storage_error("write", path, OSError(error, os.strerror(error)))
        return real(path, content)

    monkeypatch.setattr(storage, "write_atomic", fails)
    with pytest.raises((cc.StorageError, KeyboardInterrupt)):
        cc.score(scored, tau=0.3)
    monkeypatch.undo()
    assert everything(scored) == before
    assert not [path for path in scored.rglob(".*") if path.suffix in (".tmp", ".staged")]
    assert cc.tables(scored)


def test_scores_count_as_a_whole_once_all_are_written(scored, monkeypatch):
    """A process that dies between two renames is finished by whoever comes next."""
    real, moved = storage.move, []

    def dies(source, target):
        if len(moved) == 5:
            raise KeyboardInterrupt
        moved.append(target)
        real(source, target)

    monkeypatch.setattr(storage, "move", dies)
    with pytest.raises(KeyboardInterrupt):
        cc.score(scored, tau=0.3)
    monkeypatch.undo()
    cut_short = cc.tables(scored)
    assert json.loads((scored / "scores.json").read_bytes())["settings"]["tau"] == 0.3
    cc.score(scored, tau=0.3)
    assert all(cut_short[name].equals(table) for name, table in cc.tables(scored).items())
    assert not list(scored.rglob(".*.staged"))


def test_a_bad_setting_leaves_the_old_scores(scored):
    before = (scored / "scores.json").read_bytes()
    with pytest.raises(cc.ConfigurationError):
        cc.score(scored, tau=2.0)
    assert (scored / "scores.json").read_bytes() == before


def test_tables_of_an_older_build_are_refused(scored):
    text = (scored / "study.toml").read_text()
    (scored / "study.toml").write_text(text.replace("= 500", "= 1200"))
    cc.build(scored)
    for call in (cc.tables, cc.report, cc.findings):
        with pytest.raises(cc.StudyError, match="built anew"):
            call(scored)


def test_a_run_that_came_after_the_scores_is_named(scored, run_cli):
    cc.predict(scored, "reference:pooled")
    done = run_cli("tables", scored, "t01")
    assert done.returncode == 0
    assert "not scored yet: pooled" in done.stderr


def test_instructions_at_the_same_time_and_a_build_lose_nothing(study):
    for instruction in ("national", "hundred_adults"):
        cc.predict(study, "reference:pooled", instruction=instruction)
    cc.build(study)
    assert {run.n_complete for run in cc.score(study).runs} == {109}


def test_links_are_written_through_and_devices_are_left_alone(tmp_path):
    target = tmp_path / "real.html"
    target.write_text("old")
    (tmp_path / "link.html").symlink_to(target)
    write_atomic(tmp_path / "link.html", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "link.html").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(cc.StorageError, match="no regular file"):
        write_atomic(tmp_path / "pipe", b"new")


@pytest.mark.parametrize("name", ["", " ", " x", "a\nb", "\x1b[31m", "x" * 101])
def test_names_that_would_break_output_are_refused(study, name):
    with pytest.raises(cc.ConfigurationError, match="printable"):
        cc.predict(study, "reference:uniform", name=name)


def test_kinds_count_once(study):
    result = cc.predict(study, "reference:uniform", kinds=("undated", "undated"))
    assert (result.total, result.missing) == (129, 0)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("probs", [["a", "b"]], "column probs"),
        ("probs", [[[0.5], [0.5]]], "column probs"),
        ("probs", [[True, False]], "column probs"),
        ("text", [3], "column text"),
        ("text", [["x"]], "column text"),
        ("text", [b"\xff"], "column text"),
        ("year", ["1998"], "column year"),
        ("year", [1998.7], "column year"),
        ("year", [float("inf")], "column year"),
        ("country", [8.6], "column country"),
        ("status", ["banana"], "'banana' is none of"),
        ("repeat", [[0]], "column repeat"),
        ("finish_reason", [7], "column finish_reason"),
        ("prompt_tokens", [2**40], "column prompt_tokens"),
    ],
)
def test_columns_of_another_type_are_named_before_anything_is_written(
    study, tmp_path, column, values, message
):
    row = {"survey": ["wvs"], "variable": ["E143"], "country": ["8"], "year": [1998],
           "text": ['{"1": 100}']}  # fmt: skip
    pq.write_table(pa.table({**row, column: values}), tmp_path / "x.parquet")
    with pytest.raises(cc.ConfigurationError, match=message):
        cc.predict(study, f"file:{tmp_path / 'x.parquet'}")
    assert not (study / "runs.parquet").exists()


def test_a_status_without_an_answer_is_no_answer(study, tmp_path):
    prompts = [p["prompt_id"] for p in Study.open(study).prompts().to_pylist()[:3]]
    table = pa.table({"prompt_id": prompts, "status": ["ok"] * 3,
                      "probs": pa.nulls(3, pa.list_(pa.float64()))})  # fmt: skip
    pq.write_table(table, tmp_path / "x.parquet")
    assert cc.predict(study, f"file:{tmp_path / 'x.parquet'}").statuses == {"invalid": 3}


@pytest.mark.parametrize(
    "change",
    [{"files": []}, {"files": {}}, {"runs": []}, {"files": None}],
)
def test_a_broken_manifest_is_a_sentence(study, change):
    path = study / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(cc.StudyError, match=r"manifest\.json"):
        cc.predict(study, "reference:uniform")


def test_any_stream_will_do(scored, run_cli, child_environment):
    done = run_cli("tables", scored, "t08", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    closed = subprocess.run(
        f"{sys.executable} -m chronocore_cli.main predict {scored} --model reference:uniform 2>&-",
        shell=True, env=child_environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert closed.returncode == 0
    assert "387 ok" in closed.stdout


def test_an_empty_path_is_refused(run_cli, tmp_path):
    done = run_cli("quickstart", "", cwd=tmp_path)
    assert done.returncode == 2
    assert "empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


# -- metrics -------------------------------------------------------------------------------------


def test_masked_values_are_missing():
    masked = np.ma.array([1, 2, 2], mask=[0, 1, 0])
    assert cc.weighted_distributions(masked, [0] * 3, None, [1, 2]).probs.tolist() == [[0.5, 0.5]]
    weights = np.ma.array([1.0, 5.0, 1.0], mask=[0, 1, 0])
    result = cc.weighted_distributions([1, 2, 2], [0] * 3, weights, [1, 2])
    assert result.probs.tolist() == [[0.5, 0.5]]
    with pytest.raises(cc.InvalidInputError, match="not finite"):
        cc.bootstrap(np.ma.array([1.0, 2.0], mask=[0, 1]), "mean")
    with pytest.raises(cc.InvalidInputError, match="not finite"):
        cc.wasserstein(np.ma.array([0.5, 0.5], mask=[0, 1]), [0.5, 0.5])


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e308])
def test_only_ratios_of_weights_matter(scale):
    weights = np.array([0.25, 0.75]) * scale
    result = cc.weighted_distributions([1, 2], [0, 0], weights, [1, 2])
    np.testing.assert_allclose(result.probs, [[0.25, 0.75]])
    np.testing.assert_allclose(result.n_eff, [1.6])


def test_what_is_no_real_number_is_refused():
    with pytest.raises(cc.InvalidInputError, match="real numbers"):
        cc.wasserstein(np.array([0.5 + 0j, 0.5]), [0.5, 0.5])
    with pytest.raises(cc.InvalidInputError, match="real numbers"):
        cc.weighted_distributions(np.array(["2001-01-01"], "M8[D]"), [0], None, [1])
    with pytest.raises(cc.InvalidInputError, match="no integer"):
        cc.weighted_distributions([1, 1], [0.0, 1.2], None, [1, 2])
    for nothing in ([], np.empty((3, 0)), [[], []]):
        with pytest.raises(cc.InvalidInputError, match="empty"):
            cc.wasserstein(nothing, nothing)
    assert cc.wasserstein(np.empty((0, 3)), np.empty((0, 3))).shape == (0,)
    with pytest.raises(cc.InvalidInputError, match="mostly empty"):
        cc.weighted_distributions([1, 2], [1990, 2000], None, [1, 2])


def test_a_share_of_two_thirds_keeps_two_of_three():
    assert cc.knowledge_filter([0.1, 0.2, 0.3], ["a"] * 3, retain=2 / 3).sum() == 2
    assert cc.knowledge_filter([0.1, 0.2, 0.3], ["a"] * 3, retain=1 / 3).sum() == 1


def test_a_frame_filtered_in_pandas_and_a_wide_frame_are_understood():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"probs": [[0.5, 0.5], [0.2, 0.8], [0.4, 0.6]]})
    assert cc.wasserstein(frame[frame.index > 0][["probs"]], [0.5, 0.5]).round(9).tolist() == [
        0.3, 0.1,
    ]  # fmt: skip
    wide = {"a": [0.5, 0.2], "b": [0.5, 0.8]}
    for kind in (pandas.DataFrame, pl.DataFrame, pa.table):
        assert cc.wasserstein(kind(wide), [0.5, 0.5]).round(9).tolist() == [0.0, 0.3]
