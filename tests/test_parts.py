"""When answers reach the disk, and in how many files: soon, and few."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from proofs.scripted import ScriptedEngine, scripted_answer

import chronocore as cc
from chronocore import schema, stream
from chronocore.asking import Asking
from chronocore.elicitation import read_answer
from chronocore.engines import Option, Request
from chronocore.identity import run_id
from chronocore.store import RunParts
from chronocore.stream import Progress, Stop

RUN = run_id(ScriptedEngine().settings)


class Answers(RunParts):
    """Answers that no study belongs to; notes how many files there ever were."""

    answers_folder = "predictions"
    rows = schema.PREDICTIONS

    def __init__(self, path):
        super().__init__(path)
        self.written = 0
        self.most = 0

    def add_part(self, *arguments, **options):
        part = super().add_part(*arguments, **options)
        self.written += 1
        self.most = max(self.most, len(self.files()))
        return part

    def files(self):
        return list(self.path.rglob("*.parquet"))


def requests(n_questions, n_countries):
    options = (Option(1, "yes"), Option(2, "no"))
    return [
        Request(
            f"p{question}-{country}-{year}", 0, "dated" if year else "undated", "", "How many?",
            options, "wvs", f"Q{question}", str(country), None, year,
        )
        for question in range(n_questions)
        for country in range(n_countries)
        for year in (1990, 2010, None)
    ]  # fmt: skip


def ask(store, prompts, engine):
    asking = Asking(store, RUN, prompts, 1)
    state = Progress(total=len(asking.todo))
    asking.ask(engine, read_answer, state, lambda state: None, Stop())
    return state


@pytest.mark.slow
def test_twenty_thousand_questions_and_countries_are_a_handful_of_files(tmp_path, monkeypatch):
    """No folder a question or country; files that time ended are folded while the run goes on."""
    monkeypatch.setattr(stream, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PART_SECONDS", 0.0)
    monkeypatch.setattr(stream, "SMALL_PARTS", 4)
    store = Answers(tmp_path)
    prompts = requests(200, 100)
    assert ask(store, prompts, ScriptedEngine()).written == 60_000
    full = 60_000 // (stream.PART_ROWS // 2)
    assert store.written > 30  # so many there would be
    assert store.most <= 2 * (4 + 2) + full
    assert len(store.files()) <= 2 * 4 + full
    assert {path.parent.parent.name for path in store.files()} == {f"run={RUN}"}
    assert {path.parent.name for path in store.files()} == {"kind=dated", "kind=undated"}
    left = len(store.files())
    assert store.compact(RUN) == (left, 2)
    assert len(store.files()) == 2
    assert store.answers(RUN, columns=["prompt_id"])["prompt_id"].to_pylist() == sorted(
        prompt.prompt_id for prompt in prompts
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_file_system_with_room_for_few_files_is_enough_and_with_none_is_said(
    built_study, tmp_path, monkeypatch
):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60m,nr_inodes=40", "tmpfs", small]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a file system here")
    monkeypatch.setattr(stream, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PART_SECONDS", 0.0)
    monkeypatch.setattr(stream, "SMALL_PARTS", 4)
    try:
        study = small / "study"
        shutil.copytree(built_study, study)
        result = cc.predict(study, ScriptedEngine(per_second=3000), repeats=10)
        assert sum(result.statuses.values()) == 3870
        taken = []
        try:
            while True:
                taken.append(small / f"taken{len(taken)}")
                taken[-1].touch()
        except OSError:
            taken.pop()
        with pytest.raises(cc.StorageError, match="no room for another file") as caught:
            cc.predict(study, ScriptedEngine(), repeats=11)
        assert "delete files you do not need" in str(caught.value)
        for path in taken:
            path.unlink()
        result = cc.predict(study, ScriptedEngine(), repeats=11)
        assert sum(result.statuses.values()) == 11 * 387
    finally:
        subprocess.run(["umount", small], check=True)


class Clock:
    """Time that passes when it is told to, and how often somebody looked at it."""

    def __init__(self):
        self.now = 1000.0
        self.looks = 0

    def monotonic(self):
        self.looks += 1
        return self.now

    def pass_by(self, seconds):
        """Let time pass, and everybody see it."""
        self.now += seconds
        seen = self.looks + 8  # the writer looks a few times in each of its rounds
        while self.looks < seen:
            time.sleep(0.0002)


def test_first_answers_are_on_the_disk_within_seconds_and_files_stay_few(tmp_path, monkeypatch):
    """An answer a second, for ten minutes."""
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic, sleep=time.sleep, time_ns=time.time_ns)
    monkeypatch.setattr(stream, "time", fake)
    monkeypatch.setattr(stream, "_IDLE_SECONDS", 0.0005)
    monkeypatch.setattr(stream, "SMALL_PARTS", 6)
    store = Answers(tmp_path)
    prompts = [one for one in requests(20, 30) if one.kind == "dated"][:600]
    history = []

    class Slow(ScriptedEngine):
        def answers(self, requests):
            for place, request in enumerate(requests):
                yield scripted_answer(request)
                clock.pass_by(1.0)
                rows = sum(pq.ParquetFile(path).metadata.num_rows for path in store.files())
                history.append((place + 1, rows, len(store.files())))

    state = ask(store, prompts, Slow())
    assert state.written == len(history) == 600
    answered, _, _ = next(entry for entry in history if entry[1])
    assert answered <= 3  # seconds after the first answer
    waiting = [answered - rows for answered, rows, _ in history]
    assert max(waiting[:10]) <= 4
    assert max(waiting) <= stream.PART_SECONDS + 1
    assert max(files for *_, files in history) <= 6 + 2
    # Thirty seconds a file once it runs: no more writing than that.
    assert store.written <= 600 / stream.PART_SECONDS + 12
    assert len(store.files()) <= 4 + 1
    assert len(store.answers(RUN)) == 600
