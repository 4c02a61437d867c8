"""A run against an endpoint that is slow, busy, silent or away for a while."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest
from endpoint import Endpoint, Wait, completion, message

import chronocore as cc
from chronocore_cli.progress import progress_line

pytest.importorskip("openai")

from chronocore.engines.openai import engine as module


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def good(body, number):
    return completion(message('{"1": 40, "2": 60}'))


def rows_of(study, run):
    return cc.Study.open(study).predictions(run).to_pylist()


# -- away for a while ---------------------------------------------------------------------------


def test_a_server_that_goes_away_and_comes_back_costs_nothing(study, monkeypatch):
    """Twenty seconds at the real waits, here a twenty-fifth of all: every row, each once."""
    monkeypatch.setattr(module, "_FIRST_WAIT", module._FIRST_WAIT / 25)
    away = threading.Event()

    def go():
        server.leave()
        time.sleep(20 / 25)
        server.come_back()

    def script(body, number):
        if len(server.bodies) == 100 and not away.is_set():
            away.set()
            threading.Thread(target=go).start()
        return Wait(0.01, good(body, number))

    retries = []
    with Endpoint(script) as server:
        result = cc.predict(
            study, "openai:m", base_url=server.url, progress=lambda s: retries.append(s.retries)
        )
    assert away.is_set()
    assert retries[-1] >= 16  # all that were on the way, some of them more than once
    assert "error" not in result.statuses
    assert (sum(result.statuses.values()), result.missing) == (387, 0)
    rows = rows_of(study, result.run_id)
    assert len({(row["prompt_id"], row["repeat"]) for row in rows}) == len(rows) == 387
    assert {row["attempt"] for row in rows} == {1}
    notes = cc.Study.open(study).run_notes(result.run_id)
    assert "connection (" in notes["failed_attempts"]


def test_all_attempts_of_a_request_outlast_half_a_minute(monkeypatch):
    """The least they wait, whatever the jitter."""
    monkeypatch.setattr(module.random, "uniform", lambda low, high: low)
    waits = []

    async def noted(self, seconds):
        waits.append(seconds)

    monkeypatch.setattr(module.OpenAIEngine, "_sleep", noted)
    with Endpoint(lambda *_: (503, {}, {"error": {"message": "down"}})) as server:
        engine = module.OpenAIEngine("m", base_url=server.url)
        from test_openai import request

        (answer,) = engine.answers([request()])
        engine.close()
        assert len(server.bodies) == 7
    assert answer.error == "endpoint"
    assert sum(waits) == pytest.approx(31.5)


# -- what the user sees -------------------------------------------------------------------------


def test_a_throttled_run_says_that_it_waits(study):
    def script(body, number):
        if len(server.bodies) == 3:
            return 429, {"Retry-After": "2"}, {"error": {"message": "slow down"}}
        return good(body, number)

    lines = []
    states = []

    def note(state):
        states.append((state.retries, state.waiting))
        lines.append(progress_line(state, time.monotonic()))

    with Endpoint(script) as server:
        result = cc.predict(
            study, "openai:m", base_url=server.url, kinds=("undated",), sample=6,
            max_in_flight=2, progress=note,
        )  # fmt: skip
    assert (sum(result.statuses.values()), "error" in result.statuses) == (6, False)
    waits = [waiting for retries, waiting in states if retries]
    assert 1 < max(waits) < 4
    assert states[0][0] == 0
    assert states[-1] == (1, 0.0)
    (line, *_) = [line for line in lines if "waiting" in line and "to send" in line]
    assert "1 retry, waiting " in line


def test_a_limit_of_the_account_is_shown_as_waiting(study):
    waits = []
    with Endpoint(good) as server:
        cc.predict(
            study, "openai:m", base_url=server.url, kinds=("undated",), sample=3,
            requests_per_minute=40, progress=lambda s: waits.append((s.retries, s.waiting)),
        )  # fmt: skip
    assert {retries for retries, _ in waits} == {0}
    assert 1 < max(waiting for _, waiting in waits) <= 1.5


# -- being told to stop -------------------------------------------------------------------------

COMMAND = """
import sys
from chronocore import stream
stream.DRAIN_SECONDS = float(sys.argv.pop(1))
from chronocore_cli.main import main
main()
"""

#: A server that never answers, one that asks to come back later, and one that hangs half-way.
SILENT = "silent"
BUSY = "busy"
HALF = "half"


@pytest.fixture(params=[SILENT, BUSY, HALF])
def stuck(request, study, child_environment):
    """Yield a maker of commands that wait for a server, the server and how many it answered."""
    answered = []

    def script(body, number):
        if request.param == BUSY:
            return 503, {"Retry-After": "500"}, {"error": {"message": "busy"}}
        if request.param == HALF and len(answered) < 40:
            answered.append(1)
            return good(body, number)
        return Wait(600, None)

    with Endpoint(script) as server:

        def start(drain):
            child = subprocess.Popen(
                [
                    sys.executable, "-c", COMMAND, str(drain), "predict", str(study),
                    "--model", "openai:m", "--base-url", server.url,
                ],
                env=child_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            deadline = time.monotonic() + 60
            while len(server.bodies) < len(answered) + 16:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(0.7)  # what was answered is read
            return child

        yield start, answered


def ended(child, seconds):
    """Wait for the end of a command, for so long at most; return what it said last."""
    out, err = child.communicate(timeout=seconds)
    assert (child.returncode, out) == (1, "")
    assert "Traceback" not in err
    return err.splitlines()[-1]


def test_one_signal_ends_a_run_that_waits_for_a_server(stuck, study):
    start, answered = stuck
    child = start(drain=1.0)
    child.send_signal(signal.SIGTERM)
    said = ended(child, 1.0 + 8.0)
    assert said == (
        f"Error: stopped; {len(answered)} of 387 answers are kept, run the same command again to "
        "go on"
    )
    assert [sum(run.statuses.values()) for run in cc.status(study)] == [len(answered)]


def test_a_second_signal_ends_it_at_once_and_it_goes_on_later(stuck, study):
    start, answered = stuck
    child = start(drain=60.0)
    child.send_signal(signal.SIGINT)
    time.sleep(0.7)
    assert child.poll() is None  # what is on the way gets its time
    child.send_signal(signal.SIGINT)
    assert ended(child, 8.0).startswith(f"Error: stopped; {len(answered)} of 387 answers are kept")
    (run,) = cc.Study.open(study).runs().to_pylist()
    assert len(rows_of(study, run["run_id"])) == len(answered)
