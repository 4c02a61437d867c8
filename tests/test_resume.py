"""A run survives whatever ends it: kills, signals, full disks, broken files, a second process."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from proofs.kill import check_rows, prove, rows_of
from proofs.scripted import ScriptedEngine, another_model, run

import chronocore as cc
from chronocore import storage, stream
from chronocore.engines.base import Answer
from chronocore.identity import run_id

RUN = run_id(ScriptedEngine().settings)


def keys_of(study, columns=("prompt_id", "repeat")):
    table = cc.Study.open(study).predictions(RUN, columns=list(columns))
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


@pytest.fixture
def unbroken(built_study, tmp_path):
    path = tmp_path / "unbroken"
    shutil.copytree(built_study, path)
    cc.predict(path, ScriptedEngine())
    return rows_of(path, RUN)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(stream, "PART_ROWS", 40)
    monkeypatch.setattr(stream, "SMALL_PARTS", 3)


@pytest.mark.slow
def test_killed_at_random_moments_a_run_is_the_same(built_study):
    figures = prove(built_study, kills=10, seed=1, repeats=4)
    assert figures["kills"] == 10
    assert figures["rows compared"] >= 4 * 387
    assert figures["kills with rows on disk"] >= 5


# -- signals -----------------------------------------------------------------------------------

COMMAND = """
import sys, time
sys.path.insert(0, sys.argv.pop(1))
import chronocore.predict as module
from chronocore import stream
from proofs.scripted import ScriptedEngine, scripted_answer
kind = sys.argv.pop(1)
stream.DRAIN_SECONDS = float(sys.argv.pop(1))

class Engine(ScriptedEngine):
    def answers(self, requests):
        for number, request in enumerate(requests):
            yield scripted_answer(request)
            print("answered", flush=True)
            if kind == "slow":
                time.sleep(0.05)
            elif number == 20:
                time.sleep(600)

sys.modules["chronocore.predict"].open_engine = lambda *_: Engine()
from chronocore_cli.main import main
main()
"""


def start_command(study, environment, kind, drain=10.0):
    child = subprocess.Popen(
        [
            sys.executable, "-c", COMMAND, str(Path(__file__).parent), kind, str(drain),
            "predict", str(study), "--model", "vllm:x",
        ],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(21 if kind == "hangs" else 20):
        assert child.stdout.readline() == "answered\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_keeps_what_is_in_flight(study, unbroken, child_environment, number):
    child = start_command(study, child_environment, "slow")
    child.send_signal(number)
    sent = time.monotonic()
    out, err = child.communicate(timeout=30)
    assert time.monotonic() - sent < 10
    assert child.returncode == 1
    assert "Traceback" not in err
    rows = len(keys_of(study))
    assert rows == 20 + out.count("answered")
    assert err.splitlines()[-1] == (
        f"Error: stopped; {rows} of 387 answers are kept, run the same command again to go on"
    )
    assert cc.predict(study, ScriptedEngine()).already_done == rows
    assert rows_of(study, RUN) == unbroken


def test_two_signals_stop_an_engine_that_hangs_at_once(study, child_environment):
    child = start_command(study, child_environment, "hangs")
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = child.communicate(timeout=30)
    assert time.monotonic() - sent < 5
    assert child.returncode == 1
    assert err.splitlines()[-1].startswith("Error: stopped; 21 of 387 answers are kept")
    assert len(keys_of(study)) == 21


@pytest.mark.slow
def test_an_engine_that_hangs_is_ended_after_one_signal_too(study, child_environment):
    child = start_command(study, child_environment, "hangs", drain=0.5)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=10)
    assert child.returncode == 1
    assert "21 of 387 answers are kept" in err
    assert len(keys_of(study)) == 21


def test_the_handlers_of_others_are_left_alone_and_ours_are_put_back(study):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:

        class Signalling(ScriptedEngine):
            def _answer(self, request):
                if not seen:
                    os.kill(os.getpid(), signal.SIGTERM)
                return super()._answer(request)

        cc.predict(study, Signalling())
        assert seen == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_in_another_thread_nothing_listens(study):
    results = []
    thread = threading.Thread(target=lambda: results.append(cc.predict(study, ScriptedEngine())))
    thread.start()
    thread.join()
    assert results[0].total == len(keys_of(study)) == 387


# -- disks -------------------------------------------------------------------------------------


def failing(real, number, at, wrong):
    """Fail with an error number from the ``at``-th call that ``wrong`` applies to, three times."""
    calls = []

    def call(*arguments, **options):
        if wrong(*arguments):
            calls.append(1)
            if at <= len(calls) < at + 3:
                raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    return call


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "disk is full"), (errno.EIO, "Input/output error")]
)
def test_a_part_that_cannot_be_put_in_place_stops_the_run(
    study, unbroken, monkeypatch, small_parts, number, message, at
):
    replace = failing(Path.replace, number, at, lambda _, target: "part-" in Path(target).name)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(cc.StorageError, match=message):
        cc.predict(study, ScriptedEngine())
    kept = len(keys_of(study))
    assert kept < 387
    assert not list(study.rglob(".*.tmp"))
    monkeypatch.undo()
    assert cc.predict(study, ScriptedEngine()).already_done == kept
    assert rows_of(study, RUN) == unbroken


def test_what_could_not_be_written_is_tried_once_more_at_the_end(study, monkeypatch, small_parts):
    calls = []
    real = Path.replace

    def once(path, target):
        if "part-" in Path(target).name:
            calls.append(1)
            if len(calls) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", once)
    with pytest.raises(cc.StorageError, match="disk is full"):
        cc.predict(study, ScriptedEngine(per_second=1000))
    assert len(keys_of(study)) >= 80  # the first part and the one that failed


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_is_really_full(built_study, tmp_path, monkeypatch):
    small = tmp_path / "small"
    small.mkdir()
    size = sum(path.stat().st_size for path in built_study.iterdir()) + 100_000
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small],
                      check=False, capture_output=True).returncode:  # fmt: skip
        pytest.skip("cannot mount a file system here")
    try:
        study = small / "study"
        shutil.copytree(built_study, study)
        monkeypatch.setattr(stream, "PART_ROWS", 100)
        with pytest.raises(cc.StorageError, match="disk is full"):
            cc.predict(study, ScriptedEngine(), repeats=100)
        rows, _ = check_rows(study)
        assert rows >= 100
        assert not list(study.rglob(".*.tmp"))
        assert (
            subprocess.run(["mount", "-o", "remount,size=50m", small], check=False).returncode == 0
        )
        result = cc.predict(study, ScriptedEngine(), repeats=20)
        assert sum(result.statuses.values()) == 20 * 387
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_folder_that_cannot_be_written_is_named(study):
    if os.geteuid() == 0:
        (study / "predictions").write_text("")  # root may write anywhere
        message = "a file stands where a folder is needed"
    else:
        (study / "predictions").mkdir(mode=0o500)
        message = "read-only"
    with pytest.raises(cc.StorageError, match=message):
        cc.predict(study, ScriptedEngine())


def test_a_clock_that_jumps_loses_nothing(study, unbroken, monkeypatch, small_parts):
    times = [2_000_000_000, 1_000, 1_700_000_000, 5, 4_000_000_000]
    calls = []

    def jumping():
        calls.append(1)
        return times[len(calls) % len(times)] * 10**9

    monkeypatch.setattr(time, "time_ns", jumping)
    for salt in range(3):
        cc.predict(study, ScriptedEngine(errors=100, salt=salt))
    cc.predict(study, ScriptedEngine())
    assert rows_of(study, RUN) == unbroken
    rows = cc.Study.open(study).predictions(RUN).to_pylist()
    assert max(row["attempt"] for row in rows) > 2


# -- files that were left ----------------------------------------------------------------------


def test_a_truncated_part_is_set_aside_and_asked_again(study, unbroken, small_parts, run_cli):
    cc.predict(study, ScriptedEngine())
    parts = sorted(study.glob("predictions/**/*.parquet"))
    lost = len(pq.read_table(parts[0]))
    parts[0].write_bytes(parts[0].read_bytes()[:-30])
    with pytest.raises(cc.StudyError, match="damaged"):
        cc.score(study)
    result = cc.predict(study, ScriptedEngine())
    assert result.already_done == 387 - lost
    assert len(result.notices) == 1
    assert parts[0].name in result.notices[0]
    assert parts[0].with_name(f"{parts[0].name}.unreadable").exists()
    assert rows_of(study, RUN) == unbroken
    assert cc.predict(study, ScriptedEngine()).notices == []


def test_temporary_files_of_the_dead_go_and_of_the_living_stay(study):
    host = socket.gethostname()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = study / "predictions" / f"run={RUN}" / "kind=dated"
    folder.mkdir(parents=True)
    gone = [
        study / f".runs.parquet.0123abcd.{dead.pid}@{host}.tmp",
        folder / f".part-1.parquet.0123abcd.{dead.pid}@{host}.tmp",
        folder / ".part-1.parquet.half.tmp",
    ]
    stays = [
        study / f".scores.json.0123abcd.{os.getpid()}@{host}.tmp",
        study / ".scores.json.0123abcd.1@elsewhere.tmp",
    ]
    for path in [*gone, *stays]:
        path.write_bytes(b"half")
    cc.predict(study, ScriptedEngine())
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stays)
    os.utime(stays[1], (1, 1))
    assert storage.is_stray(stays[1])


def test_merging_that_is_cut_short_is_seen_by_nobody(study, unbroken, monkeypatch, small_parts):
    monkeypatch.setattr(stream, "SMALL_PARTS", 1000)
    monkeypatch.setattr(stream, "_LEFT_PARTS", 1000)
    cc.predict(study, ScriptedEngine())
    opened = cc.Study.open(study)
    before = opened.parts(RUN)
    totals = opened.totals(RUN)

    def killed(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "remove", killed)
    with pytest.raises(KeyboardInterrupt):
        cc.compact(study)
    monkeypatch.undo()
    merged = [path for path in opened.parts(RUN) if path not in before]
    assert len(merged) == 1
    assert all(path.exists() for path in before)
    assert rows_of(study, RUN) == unbroken
    assert opened.totals(RUN) == totals
    cc.predict(study, ScriptedEngine())
    assert not [p for p in before if p.exists() and p.parent == merged[0].parent]
    assert rows_of(study, RUN) == unbroken


def test_a_compacted_run_is_sorted_with_statistics(study, unbroken, small_parts, monkeypatch):
    monkeypatch.setattr(stream, "SMALL_PARTS", 1000)
    monkeypatch.setattr(stream, "_LEFT_PARTS", 1000)
    cc.predict(study, ScriptedEngine(errors=40))
    cc.predict(study, ScriptedEngine())
    assert len(cc.Study.open(study).parts(RUN)) > 4
    counts = cc.compact(study, "scripted")
    assert counts["scripted"].after == len(list(study.rglob("part-*.parquet"))) <= 4
    assert rows_of(study, RUN) == unbroken
    for part in cc.Study.open(study).parts(RUN):
        file = pq.ParquetFile(part)
        keys = file.read(columns=["prompt_id", "repeat"]).to_pylist()
        assert keys == sorted(keys, key=lambda row: (row["prompt_id"], row["repeat"]))
        group = file.metadata.row_group(0)
        names = [group.column(i).path_in_schema for i in range(group.num_columns)]
        column = group.column(names.index("prompt_id"))
        assert column.statistics.min == keys[0]["prompt_id"]
        assert column.statistics.max == keys[-1]["prompt_id"]
        assert [s.column_index for s in group.sorting_columns] == [
            names.index("prompt_id"), names.index("repeat"),
        ]  # fmt: skip


def test_parts_of_a_slow_run_are_few(study, monkeypatch):
    monkeypatch.setattr(stream, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PART_SECONDS", 0.0)
    written = []
    real = cc.Study.add_part

    def counting(self, *arguments, **options):
        written.append(1)
        return real(self, *arguments, **options)

    monkeypatch.setattr(cc.Study, "add_part", counting)
    monkeypatch.setattr(stream, "SMALL_PARTS", 5)
    cc.predict(study, ScriptedEngine(per_second=400))
    assert len(written) > 20
    assert len(cc.Study.open(study).parts(RUN)) <= 2 * stream._LEFT_PARTS


# -- attempts ----------------------------------------------------------------------------------


def test_attempts_are_counted_through_everything(study, monkeypatch):
    cc.predict(study, ScriptedEngine(errors=256))
    assert {a for _, a in keys_of(study, ("status", "attempt"))} == {1}

    class Dies(ScriptedEngine):
        def answers(self, requests):
            raise cc.EngineError("the engine died")
            yield

    # The rows without an answer have left predictions/ when the engine dies.
    with pytest.raises(cc.EngineError, match="0 of 387"):
        cc.predict(study, Dies())
    assert keys_of(study) == []
    first = cc.predict(study, ScriptedEngine(errors=256, salt=1))
    assert first.statuses == {"error": 387}
    assert {a for _, a in keys_of(study, ("status", "attempt"))} == {2}
    last = cc.predict(study, ScriptedEngine())
    assert {a for _, a in keys_of(study, ("status", "attempt"))} == {3}
    rows = cc.Study.open(study).predictions(RUN).to_pylist()
    assert last.prompt_tokens == sum(row["prompt_tokens"] for row in rows) + 2 * 387 * 7
    assert last.completion_tokens == sum(row["completion_tokens"] for row in rows)
    assert cc.status(study)[0].attempts == 3 * 387


def test_an_attempt_that_is_in_both_places_counts_once(study, monkeypatch):
    cc.predict(study, ScriptedEngine(errors=100))
    opened = cc.Study.open(study)
    totals = opened.totals(RUN)
    real = storage.writing

    def killed(path):
        if "predictions" in path.parts and path.exists():
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(storage, "writing", killed)
    with pytest.raises(KeyboardInterrupt):
        cc.predict(study, ScriptedEngine())
    monkeypatch.undo()
    assert len(opened.attempts(RUN, ["dated"])) > 0
    assert opened.totals(RUN) == totals
    cc.predict(study, ScriptedEngine())
    assert max(a for _, a in keys_of(study, ("status", "attempt"))) == 2


# -- several processes -------------------------------------------------------------------------


def test_two_models_at_once_do_not_disturb_each_other(study):
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=another_model, args=(study, name)) for name in ("one", "two")
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    opened = cc.Study.open(study)
    runs = opened.runs().to_pylist()
    assert sorted(run["label"] for run in runs) == ["one", "two"]
    for row in runs:
        table = opened.predictions(row["run_id"])
        assert len(table) == 2 * 387
        assert set(table["model"].to_pylist()) == {row["model"]}
        assert opened.run_notes(row["run_id"]) == {"device": "none"}


@pytest.fixture
def busy(study):
    """A process that writes the scripted run."""
    context = multiprocessing.get_context("spawn")
    asking, end = context.Pipe(duplex=False)
    child = context.Process(target=run, args=(study, 4, 50.0, 0, 0, end))
    child.start()
    assert asking.poll(60)
    yield study
    child.kill()
    child.join()


def test_the_same_run_twice_and_a_build_are_refused_meanwhile(busy):
    assert cc.status(busy)[0].writing
    with pytest.raises(cc.StudyError, match=f"another process is writing run {RUN}"):
        cc.predict(busy, ScriptedEngine())
    with pytest.raises(cc.StudyError, match="another process"):
        cc.compact(busy)
    with pytest.raises(cc.StudyError, match="another process"):
        cc.remove_run(busy, "scripted")
    with pytest.raises(cc.StudyError, match=f"a predict of run {RUN} is writing"):
        cc.build(busy)
    cc.Study.open(busy)  # untouched
    assert cc.predict(busy, "reference:uniform").statuses == {"ok": 387}


def test_a_study_built_anew_in_between_is_not_written_to(study):
    opened = cc.Study.open(study)
    files = opened.manifest()["files"]
    with (
        pytest.raises(cc.StudyError, match="built anew"),
        opened.writing_run(RUN, {**files, "prompts.parquet": "0"}),
    ):
        pass
    with opened.writing_run(RUN, files):
        pass
    cc.build(study)


def test_prompts_that_change_while_they_are_read_are_not_asked(study, monkeypatch):
    module = sys.modules["chronocore.predict"]
    real = module.requests_of

    def builds(opened, *arguments, **options):
        asked = real(opened, *arguments, **options)
        text = (study / "study.toml").read_text()
        changed = text.replace("min_respondents = 500", "min_respondents = 700")
        (study / "study.toml").write_text(changed)
        cc.build(study)
        return asked

    monkeypatch.setattr(module, "requests_of", builds)
    with pytest.raises(cc.StudyError, match="built anew just now"):
        cc.predict(study, ScriptedEngine())
    assert not (study / "predictions").exists()


# -- the loop ----------------------------------------------------------------------------------


def test_requests_are_made_when_they_are_pulled(study):
    held = []

    class Lazy(ScriptedEngine):
        def answers(self, requests):
            assert len(requests) == 387 * 1000
            assert requests[387 * 999].repeat == 999
            assert len(requests[5:10]) == 5
            for number, request in enumerate(requests):
                held.append(requests.issued)
                if number == 500:
                    return
                yield Answer(request.prompt_id, request.repeat, text="{}")

    result = cc.predict(study, Lazy(), repeats=1000)
    assert held == list(range(1, 502))
    assert result.missing == 387 * 1000 - 500


def test_progress_tells_what_is_what(study):
    seen = []

    def note(state):
        seen.append((state.done, state.in_flight, state.written, dict(state.statuses)))

    cc.predict(study, ScriptedEngine(per_second=500), progress=note)
    assert len(seen) >= 3
    assert [done for done, *_ in seen] == sorted(done for done, *_ in seen)
    assert max(in_flight for _, in_flight, *_ in seen) == 8
    done, in_flight, written, statuses = seen[-1]
    assert (done, in_flight, written) == (387, 0, 387)
    assert sum(statuses.values()) == 387
    assert set(statuses) == {"ok", "recovered", "refused", "truncated", "invalid"}


def test_a_fault_of_the_progress_callback_loses_nothing(study):
    def breaks(state):
        if state.done > 50:
            raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        cc.predict(study, ScriptedEngine(per_second=300), progress=breaks)
    assert len(keys_of(study)) > 50
