"""Answers to a design: from endpoints, and through kills, signals and failures."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter

import pyarrow.parquet as pq
import pytest
from endpoint import Cut, Endpoint, completion, message
from proofs.scripted import ScoringEngine, score

import chronocore as cc
from chronocore import validity as v
from chronocore.engines.base import Answer
from chronocore.validity.answers import AnswerStore

SAME = [
    "run_id", "model", "prompt_id", "repeat", "seed", "text", "thinking", "status", "reason",
    "score", "probs", "finish_reason", "prompt_tokens", "completion_tokens",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    v.prompts(tmp_path / "panel")
    return tmp_path / "panel"


@pytest.fixture
def endpoint(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-chronocore-secret-1234567890")
    monkeypatch.setattr("chronocore.engines.openai.engine._FIRST_WAIT", 0.02)


def rows_of(folder):
    """Everything stored, by run, without what differs from call to call."""
    store = AnswerStore(folder)
    runs = sorted({row["run_id"] for row in v.load_runs(folder).to_pylist()})
    return {run: store.answers(run).select(SAME).to_pylist() for run in runs}


# -- endpoints -----------------------------------------------------------------------------------


def hash_of(body):
    """A number below 256 that follows from what is asked."""
    text = json.dumps([body["messages"], body["seed"]])
    return hashlib.sha256(text.encode()).digest()[0]


def five(body, number):
    return completion(message("5"))


def test_an_endpoint_keeps_its_own_defaults_and_both_stages_are_one_run(folder, endpoint):
    with Endpoint(five) as server:
        (result,) = v.run(folder, "openai:m", base_url=server.url, max_in_flight=32)
        # 5 is no code of six items, and one of several child qualities.
        assert result.statuses == {"ok": 120, "recovered": 40, "invalid": 240}
        assert len(server.bodies) == 400
        assert server.most_open <= 32
        sent = Counter(tuple(sorted(body)) for body in server.bodies)
        assert sent == {("max_tokens", "messages", "model", "seed"): 400}
        assert {body["max_tokens"] for body in server.bodies} == {v.load_protocol().max_tokens}
        assert len({body["seed"] for body in server.bodies}) == 400
    assert result.run_ids["variants"] == result.run_ids["seeds"]
    assert not result.seed_lower_bound
    rows = v.load_runs(folder).to_pylist()
    assert [row["stage"] for row in rows] == ["variants", "seeds"]
    assert {(row["temperature"], row["top_p"], row["seed"]) for row in rows} == {(None, None, 0)}
    notes = json.loads((folder / "validity" / "notes.json").read_text())
    assert notes[result.run_ids["seeds"]]["model_reported"] == "served-model-2026-11-01"


def test_an_endpoint_without_a_seed_makes_a_lower_bound(folder, endpoint):
    def no_seed(body, number):
        if "seed" in body:
            return 400, {}, {"error": {"message": "Unsupported parameter: 'seed'"}}
        return five(body, number)

    with Endpoint(no_seed) as server:
        with pytest.raises(cc.EngineError, match="seed"):
            v.run(folder, "openai:m", base_url=server.url)
        server.bodies.clear()
        (result,) = v.run(folder, "openai:m", base_url=server.url, omit=["seed"], name="no seed")
        assert all("seed" not in body for body in server.bodies)
    assert result.seed_lower_bound
    rows = [row for row in v.load_runs(folder).to_pylist() if row["label"] == "no seed"]
    assert {(row["seed"], row["seed_lower_bound"]) for row in rows} == {(None, True)}


def test_failures_on_the_way_are_retried_and_what_fails_for_good_is_asked_again(folder, endpoint):
    broken = True

    def faulty(body, number):
        if number % 7 == 3:
            return Cut()
        if number % 7 == 5:
            return 429, {"Retry-After": "0"}, {"error": {"message": "slow down"}}
        if broken and hash_of(body) < 40:
            return 500, {}, {"error": {"message": "no"}}
        return five(body, number)

    with Endpoint(faulty) as server:
        (first,) = v.run(folder, "openai:m", base_url=server.url, retries=1, max_in_flight=8)
        assert 20 <= first.statuses["error"] < 150
        failed = first.statuses["error"]
        broken = False
        (second,) = v.run(folder, "openai:m", base_url=server.url, max_in_flight=8)
    assert second.already_done == 400 - failed
    assert "error" not in second.statuses
    assert sum(second.statuses.values()) == 400
    store = AnswerStore(folder)
    attempts = store.answers(second.run_ids["seeds"])["attempt"].to_pylist()
    assert Counter(attempts) == {1: 400 - failed, 2: failed}
    assert store.totals(second.run_ids["seeds"]).attempts == 400 + failed


def test_the_command_takes_address_key_and_pace(folder, endpoint, run_cli):
    key = "sk-another-secret-0987654321"
    with Endpoint(five) as server:
        done = run_cli(
            "validity", "run", folder, "--model", "openai:m", "--base-url", server.url,
            "--api-key-env", "MY_KEY", "--concurrency", 3, "--timeout", 20, "--retries", 2,
            "--requests-per-minute", 1_000_000, "--access", "API", env={"MY_KEY": key},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert server.most_open <= 3
        assert {h["authorization"] for h in server.headers} == {f"Bearer {key}"}
    assert "m: 400 queries, 0 answered before" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"another-secret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("openai:m", {"temperature_seeds": 1.0}, "provider's own temperature"),
        ("openai:m", {"top_p": 0.9}, "provider's own temperature"),
        ("openai:m", {"revision": "x"}, "does not take a revision"),
        ("reference:uniform", {"base_url": "http://localhost/v1"}, "only an endpoint"),
        ("file:x.csv", {"omit": ["seed"]}, "only an endpoint"),
        ("opnai:m", {}, "did you mean 'openai'"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, endpoint, model, options, says):
    with pytest.raises(cc.ConfigurationError, match=says):
        v.run(folder, model, **options)
    assert not (folder / "validity" / "runs.parquet").exists()


# -- kills and signals ---------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_at_random_moments_a_run_is_the_same(folder, tmp_path):
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    v.run(whole, ScoringEngine())
    expected = rows_of(whole)
    assert sorted(len(rows) for rows in expected.values()) == [100, 300]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chronocore.validity", "proofs.scripted"])
    chance = random.Random(4)
    kills = with_rows = 0
    for attempt in range(8):
        asking, end = context.Pipe(duplex=False)
        child = context.Process(target=score, args=(folder, 500.0, 12, attempt, end))
        child.start()
        asking.poll(20.0)
        until = time.monotonic() + chance.uniform(0.0, 0.25)
        while child.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if not child.is_alive():
            assert child.exitcode == 0
            break
        child.kill()
        child.join()
        kills += 1
        for part in (folder / "validity").rglob("part-*.parquet"):
            pq.read_table(part, partitioning=None)
        kept = rows_of(folder)
        for run, rows in kept.items():
            keys = Counter((row["prompt_id"], row["repeat"]) for row in rows)
            assert set(keys.values()) <= {1}
            by_key = {(row["prompt_id"], row["repeat"]): row for row in expected[run]}
            for row in rows:
                if row["status"] != "error":
                    assert row == by_key[row["prompt_id"], row["repeat"]]
        with_rows += any(kept.values())
    assert kills >= 3
    assert with_rows >= 2
    v.run(folder, ScoringEngine())
    assert rows_of(folder) == expected
    for run, rows in expected.items():
        parts = (folder / "validity" / "answers" / f"run={run}").rglob("part-*.parquet")
        assert sum(len(pq.read_table(part, partitioning=None)) for part in parts) == len(rows)
    assert not list(folder.rglob(".*.tmp"))
    store = AnswerStore(folder)
    for run in expected:
        highest = Counter()
        for row in store.attempts(run, ["score"]).to_pylist():
            key = (row["prompt_id"], row["repeat"])
            highest[key] = max(highest[key], row["attempt"])
        for row in store.answers(run).to_pylist():
            assert row["attempt"] == highest[row["prompt_id"], row["repeat"]] + 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_in_flight(folder, number):
    class Signalled(ScoringEngine):
        """Gets the signal in the middle of the second stage, and ends what it holds."""

        def answers(self, requests):
            for count, answer in enumerate(super().answers(requests)):
                if count == 50 and self.settings.temperature == 0.0:
                    os.kill(os.getpid(), number)
                yield answer

    with pytest.raises(cc.StoppedError, match=r"stopped; 158 of 400 answers are kept"):
        v.run(folder, Signalled())
    assert sum(map(len, rows_of(folder).values())) == 158
    engine = ScoringEngine()
    (result,) = v.run(folder, engine)
    assert result.already_done == 158
    assert sum(result.statuses.values()) == 400


def test_two_processes_cannot_write_one_run(folder):
    (result,) = v.run(folder, ScoringEngine())
    store = AnswerStore(folder)
    with (
        store.lock(f"run-{result.run_ids['seeds']}"),
        pytest.raises(cc.StudyError, match="another process is writing run-"),
    ):
        v.run(folder, ScoringEngine())


def test_a_damaged_part_is_set_aside_and_asked_again(folder):
    (result,) = v.run(folder, ScoringEngine())
    before = rows_of(folder)
    run = result.run_ids["seeds"]
    (part,) = (folder / "validity" / "answers" / f"run={run}").rglob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:200])
    (again,) = v.run(folder, ScoringEngine())
    assert (again.already_done, len(again.notices)) == (300, 1)
    assert "is now" in again.notices[0]
    assert rows_of(folder) == before


class _Noted(ScoringEngine):
    """Reports a model of its own and a failed attempt in every call."""

    def __init__(self, reported, **options):
        super().__init__(**options)
        self.notes = {"model_reported": reported, "failed_attempts": "1 timeout"}


def test_the_notes_of_every_call_are_kept(folder):
    (result,) = v.run(folder, _Noted("m-1", errors=60))
    v.run(folder, _Noted("m-2"))
    notes = json.loads((folder / "validity" / "notes.json").read_bytes())
    for stage in ("variants", "seeds"):
        kept = notes[result.run_ids[stage]]
        assert kept == {"model_reported": "m-1, m-2", "failed_attempts": "2 timeout"}


def test_notes_are_bounded(folder):
    store = AnswerStore(folder)
    for number in range(80):
        store.save_run_notes("r", {"model_reported": f"m-{number}"})
    kept = json.loads((folder / "validity" / "notes.json").read_bytes())["r"]["model_reported"]
    assert kept.endswith(", and more")
    assert len(kept.split(", ")) == 51


class _Failing(ScoringEngine):
    """Fails for good after some requests, all of which got no answer."""

    def answers(self, requests):
        for number, request in enumerate(requests):
            if number == 20:
                raise cc.EngineError("failed 20 requests in a row")
            yield Answer(request.prompt_id, 0, error="endpoint")


def test_a_model_that_never_got_an_answer_leaves_its_label(folder):
    v.run(folder, "reference:midpoint", name="other")
    before = rows_of(folder)
    with pytest.raises(cc.EngineError, match="in a row"):
        v.run(folder, _Failing(), name="m")
    assert {row["label"] for row in v.load_runs(folder).to_pylist()} == {"other"}
    assert rows_of(folder) == before
    assert len(list((folder / "validity" / "answers").glob("run=*"))) == 1
    v.run(folder, ScoringEngine(), name="m")  # the name is free, for any settings
    with pytest.raises(cc.EngineError):  # a model that has answers keeps them
        v.run(folder, _Later(), name="n")
    assert "n" in {row["label"] for row in v.load_runs(folder).to_pylist()}


class _Later(_Failing):
    """As that, with answers before it fails."""

    def __init__(self):
        super().__init__()
        self.settings = dataclasses.replace(self.settings, model="later")

    def answers(self, requests):
        for number, request in enumerate(requests):
            if number == 20:
                raise cc.EngineError("failed")
            yield self._answer(request)
