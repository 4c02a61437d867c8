"""Files that a disk gave back changed are seen, named, and mended by a predict."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proofs.kill import rows_of
from proofs.scripted import ScriptedEngine

import chronocore as cc
from chronocore.identity import run_id
from chronocore.store import DamagedFileError, read_parquet, write_parquet

RUN = run_id(ScriptedEngine().settings)


@pytest.fixture(scope="module")
def predicted(built_study, tmp_path_factory):
    """A run with attempts, and one of a reference; read-only."""
    path = tmp_path_factory.mktemp("damaged") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, ScriptedEngine(errors=60))
    cc.predict(path, ScriptedEngine())
    cc.predict(path, "reference:uniform")
    return path


@pytest.fixture
def study(predicted, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(predicted, path)
    return path


def parts_of(study, kind="dated", folder="predictions"):
    return sorted((study / folder / f"run={RUN}" / f"kind={kind}").glob("part-*.parquet"))


def spoil(part):
    part.write_bytes(part.read_bytes()[:-30])
    return part


def damage(content, way, chance):
    """Return a file as a disk may give it back."""
    changed = bytearray(content)
    place = chance.randrange(len(changed))
    if way == "bit":
        changed[place] ^= 1 << chance.randrange(8)
    elif way == "zeros":
        length = min(len(changed) - place, chance.randrange(1, 5000))
        changed[place : place + length] = bytes(length)
    elif way == "short":
        del changed[place:]
    else:  # blocks swapped
        half = len(changed) // 2
        changed[:half], changed[half:] = changed[-half:], changed[:-half]
    return bytes(changed)


@pytest.mark.parametrize("way", ["bit", "zeros", "short", "swapped"])
def test_a_part_reads_as_it_was_written_or_not_at_all(study, way):
    """No other text, number or status: bits that turn over are found by checksums."""
    opened = cc.Study.open(study)
    part = parts_of(study)[0]
    whole, expected = part.read_bytes(), opened.read_part(RUN, part)
    chance = random.Random(way)
    messages = []
    for _ in range(150):
        part.write_bytes(damage(whole, way, chance))
        try:
            assert opened.read_part(RUN, part).equals(expected)
        except cc.StudyError as error:
            messages.append(str(error))
    assert len(messages) > 75
    assert all(part.name in message and "\n" not in message for message in messages)


def test_a_table_reads_as_it_was_written_or_not_at_all(tmp_path):
    """Scores, tables and all else a study writes has checksums, not only predictions."""
    path = tmp_path / "table.parquet"
    values = np.random.default_rng(5).random(400)
    table = pa.table({"estimate": values, "label": [f"run {v:.17f}" for v in values]})
    write_parquet(path, table)
    whole = path.read_bytes()
    refused = 0
    for position in range(4, len(whole) - 8, 7):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        try:
            read = read_parquet(path)
        except DamagedFileError:
            refused += 1
            continue
        if read.schema.equals(table.schema):  # the footer has no checksum
            assert read.equals(table)
    assert refused > 0.9 * len(range(4, len(whole) - 8, 7))


def test_status_names_a_damaged_part_and_its_fate(study, run_cli):
    whole, _ = cc.status(study)
    part = spoil(parts_of(study)[0])
    table = pq.ParquetFile(parts_of(study)[1]).read(columns=["status"])
    scripted, uniform = cc.status(study)
    assert uniform.damaged == whole.damaged == []
    assert scripted.done["dated"] == len(table)
    assert scripted.done["undated"] == whole.done["undated"]
    assert scripted.parts == whole.parts
    assert scripted.attempts < whole.attempts
    (sentence,) = scripted.damaged
    assert str(part) in sentence
    assert "the next predict of this run sets it aside and asks its prompts again" in sentence
    done = run_cli("predict", study, "--status")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  damaged: {part} cannot be read (" in done.stdout
    assert "uniform (run r" in done.stdout
    told = json.loads(run_cli("predict", study, "--status", "--json").stdout)
    assert [run["damaged"] for run in told["runs"]] == [[sentence], []]


def test_a_damaged_part_of_attempts_is_named_too(study):
    part = spoil(parts_of(study, folder="attempts")[0])
    (sentence,) = cc.status(study)[0].damaged
    assert "forgets its attempts" in sentence
    result = cc.predict(study, ScriptedEngine())
    assert (result.already_done, len(result.notices)) == (387, 1)
    assert "its attempts are no longer counted" in result.notices[0]
    assert part.with_name(f"{part.name}.unreadable").exists()
    assert cc.status(study)[0].damaged == []


def test_a_part_that_belongs_elsewhere_is_named_and_stays(study):
    (stranger,) = (study / "predictions").glob(f"run={cc.status(study)[1].run_id}/kind=dated/*")
    moved = parts_of(study)[0].with_name(stranger.name)
    shutil.copy(stranger, moved)
    (sentence,) = cc.status(study)[0].damaged
    assert "move it where it belongs or delete it" in sentence
    with pytest.raises(cc.StudyError, match="move it where it belongs"):
        cc.predict(study, ScriptedEngine())
    assert moved.exists()


@pytest.mark.parametrize("command", [["score"], ["sweep", "--resamples", "10"]])
def test_what_reads_answers_says_which_part_and_what_to_do(study, run_cli, command):
    part = spoil(parts_of(study)[0])
    done = run_cli(command[0], study, *command[1:])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"Error: {part} is damaged")
    assert line.endswith(
        "ask this model again with the command that asked it: that sets the file aside and asks "
        "again what was in it"
    )


def test_a_report_names_what_is_damaged(study, run_cli):
    cc.score(study, resamples=10)
    part = parts_of(study)[0]
    whole = part.read_bytes()
    spoil(part)
    done = run_cli("report", study)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {part} is damaged")
    assert "ask this model again" in line
    part.write_bytes(whole)
    table = study / "tables" / "t08.parquet"
    spoil(table)
    done = run_cli("report", study)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {table} is not the one that the last score wrote")
    assert line.endswith(f"; run: chronocore score {study}")
    assert run_cli("tables", study, "t01").returncode == 0
    assert run_cli("tables", study, "t08").returncode == 1


def test_compact_sets_a_damaged_part_aside_and_says_so(study, run_cli):
    expected = rows_of(study, RUN)
    part = spoil(parts_of(study)[0])
    done = run_cli("predict", study, "--compact", "scripted")
    assert done.returncode == 0
    assert f"{part} could not be read" in done.stderr
    assert f"it is now {part.name}.unreadable, and its prompts are asked again" in done.stderr
    assert len(rows_of(study, RUN)) < len(expected)
    cc.predict(study, ScriptedEngine())
    assert rows_of(study, RUN) == expected


def test_a_dry_run_counts_what_a_damaged_part_held(study, monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules["chronocore.plan"], "open_engine", lambda *_: ScriptedEngine())
    assert cc.plan(study, "vllm:x").pending == 0
    part = parts_of(study)[0]
    held = len(pq.ParquetFile(part).read(columns=["status"]))
    spoil(part)
    plan = cc.plan(study, "vllm:x")
    assert plan.pending == held
    (note,) = plan.notes
    assert str(part) in note
    assert "set aside and its prompts asked again" in note


def test_status_waits_for_a_part_that_is_merged_away_meanwhile(study, monkeypatch):
    expected = cc.status(study)[0]
    real = cc.Study.read_part
    gone = []

    def merged_away(self, run, part, columns=None):
        if not gone:
            gone.append(part)
            cc.Study.open(study).compact(RUN)
            assert not part.exists()
        return real(self, run, part, columns)

    monkeypatch.setattr(cc.Study, "read_part", merged_away)
    found = cc.status(study)[0]
    assert gone
    assert (found.done, found.damaged) == (expected.done, [])
