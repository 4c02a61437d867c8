"""The engine for endpoints, against a real server that fails on order."""

from __future__ import annotations

import email.utils
import json
import logging
import math
import sys
import threading
import time
import traceback

import pytest
from endpoint import Cut, Endpoint, Wait, completion, message

import chronocore as cc
from chronocore.engines import Option, Request
from chronocore.identity import run_id

pytest.importorskip("openai")

from chronocore.engines.openai import OpenAIEngine, endpoint_address
from chronocore.engines.openai import engine as module
from chronocore.engines.openai.failures import retry_after
from chronocore.engines.openai.rate import Rate
from chronocore.errors import ConfigurationError, EngineError, MissingDependencyError

pytestmark = pytest.mark.versions

GOOD = '{"1": 40, "2": 60}'
KEY = "sk-chronocore-secret-1234567890"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.02)


def request(name="q1", **fields):
    given = {
        "prompt_id": name, "repeat": 0, "kind": "dated", "system": "S", "user": name,
        "options": (Option(1, "yes"), Option(2, "no")), "survey": "wvs", "variable": "E143",
        "country": "8", "wave": 3, "year": 1998,
    }  # fmt: skip
    return Request(**(given | fields))


def good(body, number):
    return completion(message(GOOD))


def ask(script, requests=None, **options):
    """Return answers by prompt, the server and the engine, closed."""
    requests = [request()] if requests is None else requests
    with Endpoint(script) as server:
        engine = OpenAIEngine("m", base_url=server.url, **options)
        try:
            answers = list(engine.answers(requests))
        finally:
            engine.close()
    assert len({(a.prompt_id, a.repeat) for a in answers}) == len(answers)
    return {a.prompt_id: a for a in answers}, server, engine


# -- what is sent ---------------------------------------------------------------------------


def test_the_published_settings_are_sent_and_nothing_else():
    answers, server, engine = ask(good)
    (body,) = server.bodies
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q1"}],
        "temperature": 0.0, "top_p": 1.0, "max_tokens": 120, "seed": 0,
    }  # fmt: skip
    answer = answers["q1"]
    assert (answer.text, answer.finish_reason) == (GOOD, "stop")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.seed) == (11, 7, 0)
    assert engine.notes["model_reported"] == "served-model-2026-11-01"
    assert engine.notes["system_fingerprint"] == "fp_1"
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_what_is_omitted_is_not_sent_and_recorded_as_null():
    _, server, engine = ask(good, omit=["temperature", "seed", "top_p", "max_tokens"])
    assert set(server.bodies[0]) == {"model", "messages"}
    settings = engine.settings
    assert settings.temperature is settings.top_p is settings.max_tokens is settings.seed is None
    with pytest.raises(ConfigurationError, match="did you mean 'temperature'"):
        OpenAIEngine("m", omit=["temprature"])


def test_structured_output_and_further_fields():
    _, server, engine = ask(good, structured=True, engine_args={"reasoning_effort": "low"})
    form = server.bodies[0]["response_format"]["json_schema"]
    assert form["strict"] is True
    assert form["schema"]["required"] == ["1", "2"]
    assert server.bodies[0]["reasoning_effort"] == "low"
    assert "reasoning_effort=low" in engine.settings.engine_version
    with pytest.raises(ConfigurationError, match="a setting of its own"):
        OpenAIEngine("m", engine_args={"temperature": 1})


def test_above_temperature_0_every_request_has_a_seed_of_its_own():
    requests = [request("a"), request("b"), request("a", repeat=1)]
    answers, server, _ = ask(good, [requests[0], requests[1]], temperature=0.7)
    again, other, _ = ask(good, [requests[2]], temperature=0.7)
    seeds = {body["seed"] for body in [*server.bodies, *other.bodies]}
    assert len(seeds) == 3
    assert {answers["a"].seed, answers["b"].seed, again["a"].seed} == seeds
    assert all(0 <= seed < 2**31 for seed in seeds)


# -- identity -------------------------------------------------------------------------------


def test_one_name_at_two_addresses_is_two_runs():
    def settings(**options):
        return OpenAIEngine("m", **options).settings

    runs = [
        settings(),
        settings(base_url="http://localhost:8000/v1"),
        settings(base_url="http://localhost:8001/v1"),
        settings(base_url="http://localhost:8000/v1", omit=["seed"]),
        settings(base_url="http://localhost:8000/v1", engine_args={"top_k": 5}),
        settings(base_url="http://localhost:8000/v1", elicitation="sampled", samples=5),
        settings(base_url="http://localhost:8000/v1", elicitation="sampled", samples=6),
    ]
    assert len({run_id(run) for run in runs}) == len(runs)
    same = settings(base_url="http://LOCALHOST:8000/v1/", max_in_flight=3, timeout=9, retries=1)
    assert run_id(same) == run_id(runs[1])


def test_addresses_are_checked(monkeypatch):
    assert endpoint_address(None) == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://x.example/v1/")
    assert endpoint_address(None) == "https://x.example/v1"
    assert endpoint_address("http://[::1]:80/v1") == "http://[::1]:80/v1"
    for secret in ("http://me:pw@x.example/v1", "http://x.example/v1?key=pw", "http://x/v1#pw"):
        with pytest.raises(ConfigurationError) as caught:
            endpoint_address(secret)
        assert "pw" not in str(caught.value)
    for wrong in ("ftp://x/v1", "localhost:8000", "http://"):
        with pytest.raises(ConfigurationError, match="looks like"):
            endpoint_address(wrong)


# -- keys -----------------------------------------------------------------------------------


def test_a_key_is_read_late_and_only_from_the_environment(monkeypatch, study):
    monkeypatch.delenv("OPENAI_API_KEY")
    engine = OpenAIEngine("m")  # a finished run needs no key
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        next(engine.answers([request()]))
    named = OpenAIEngine("m", base_url="http://localhost:1/v1", api_key_env="MY_KEY")
    with pytest.raises(ConfigurationError, match="MY_KEY is not set"):
        next(named.answers([request()]))
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not set"):
        cc.predict(study, "openai:m")
    assert not (study / "runs.parquet").exists()  # no run without an answer is left behind
    monkeypatch.setenv("MY_KEY", "other-secret")
    _, server, _ = ask(good, api_key_env="MY_KEY")
    assert server.headers[0]["authorization"] == "Bearer other-secret"
    _, server, _ = ask(good)  # a server of one's own needs none
    assert KEY not in str(server.headers)


def test_a_key_is_in_no_message_log_note_or_file(tmp_path, study, caplog):
    caplog.set_level(logging.DEBUG)

    def refuse(body, number):
        return 401, {}, {"error": {"message": f"Incorrect API key provided: {KEY}. sk-ab***90"}}

    refused = pytest.raises(EngineError, match="not accept the key in OPENAI_API_KEY")
    with Endpoint(refuse) as server, refused as caught:
        cc.predict(study, "openai:m", base_url=server.url)
    with Endpoint(lambda b, n: (400, {}, {"error": {"message": KEY, "param": [KEY]}})) as server:
        with pytest.raises(EngineError) as turned_away:
            cc.predict(study, "openai:m", base_url=server.url)
        assert KEY not in "".join(traceback.format_exception(turned_away.value))
        assert "0 of 387 answers are kept" in str(turned_away.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in shown
    assert "sk-ab" not in shown
    assert "(Incorrect API key provided: <key>. <key>)" in str(caught.value)

    def echo(body, number):
        return completion(
            message(f"no, {KEY}", reasoning=KEY, refusal=KEY if number % 2 else None), model=KEY
        )

    with Endpoint(echo) as server:
        for elicitation in ("verbalized", "sampled"):
            cc.predict(
                study, "openai:m", base_url=server.url, elicitation=elicitation, sample=4, samples=2
            )
    assert KEY not in caplog.text
    files = [path for path in study.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


# -- failures on the way ----------------------------------------------------------------------


def test_429_with_retry_after_then_500_then_success_is_one_row():
    def script(body, number):
        if number == 0:
            return 429, {"Retry-After": "1"}, {"error": {"message": "slow down"}}
        if number == 1:
            return 500, {}, {"error": {"message": "oops"}}
        return good(body, number)

    answers, server, engine = ask(script)
    assert answers["q1"].text == GOOD
    assert len(server.bodies) == 3
    assert server.times[1] - server.times[0] >= 1.0
    assert engine.notes["failed_attempts"] == "1 status 429 (slow down), 1 status 500 (oops)"


def test_retry_after_holds_all_requests_back():
    def script(body, number):
        if body["messages"][-1]["content"] == "q0" and number == 0:
            return 429, {"Retry-After": "1"}, {"error": {"message": "slow down"}}
        return Wait(0.05, completion(message(GOOD)))

    requests = [request(f"q{i}") for i in range(12)]
    answers, server, _ = ask(script, requests, max_in_flight=2)
    assert len(answers) == 12
    later = [t - server.times[0] for t in server.times]
    assert sum(t < 0.9 for t in later) <= 4  # those that were on the way already


def test_retry_after_is_read_as_seconds_milliseconds_or_date():
    read = retry_after
    assert read({"retry-after": "2.5"}) == 2.5
    assert read({"retry-after-ms": "300", "retry-after": "9"}) == 0.3
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 25 < read({"retry-after": date}) <= 30
    assert read({"retry-after": email.utils.formatdate(time.time() - 30, usegmt=True)}) == 0
    assert read({"retry-after": "1e9"}) == 600
    assert read({"retry-after": "soon"}) is None
    assert read({}) is None


@pytest.mark.parametrize("failure", [Cut(), "<html>busy</html>", {"choices": []}, {"x": 1}])
def test_cut_connections_and_empty_replies_are_asked_again(failure):
    def script(body, number):
        return failure if number < 2 else good(body, number)

    answers, server, _ = ask(script)
    assert answers["q1"].text == GOOD
    assert len(server.bodies) == 3


def changed(where, value):
    """Return a good reply with one place of it changed."""
    reply = completion(message(GOOD))
    inside = reply
    for key in where[:-1]:
        inside = inside[key]
    inside[where[-1]] = value
    return reply


CHOICE = ("choices", 0)
CONTENT = (*CHOICE, "message", "content")
UNREADABLE = {
    "a list": [1, 2],
    "a text": json.dumps("abc"),
    "lists without an end": (200, {"Content-Type": "application/json"}, "[" * 200_000),
    "choices that are no list": changed(["choices"], 5),
    "choices that are a text": changed(["choices"], "abc"),
    "choices that are an object": changed(["choices"], {"a": 1}),
    "no choice": changed(CHOICE, None),
    "an index that is an object": changed((*CHOICE, "index"), {}),
    "no message": changed((*CHOICE, "message"), None),
    "a message that is a text": changed((*CHOICE, "message"), "x"),
    "content that is a number": changed(CONTENT, 5),
    "content that is an object": changed(CONTENT, {"1": 40, "2": 60}),
    "content with a picture": changed(CONTENT, [{"type": "image_url"}]),
    "content with parts of nothing": changed(CONTENT, [None]),
    "a finish reason that is a number": changed((*CHOICE, "finish_reason"), 3),
    "a finish reason that is an object": changed((*CHOICE, "finish_reason"), {"a": 1}),
}
READABLE = {
    "no usage": changed(["usage"], None),
    "a usage that is a text": changed(["usage"], "x"),
    "tokens beyond 32 bits": changed(["usage"], {"prompt_tokens": 2**40, "total_tokens": 2**70}),
    "tokens below 0": changed(["usage"], {"prompt_tokens": -5, "completion_tokens": True}),
    "half a finish reason": changed((*CHOICE, "finish_reason"), "\ud800"),
    "no finish reason": changed((*CHOICE, "finish_reason"), None),
    "a model that is an object": changed(["model"], {"a": "\ud800"}),
    "half a model": changed(["model"], "m\ud800"),
    "content in parts": changed(CONTENT, [{"type": "text", "text": GOOD}]),
    "NUL and half an emoji": changed(CONTENT, "\0\ud83d" + GOOD + "\udc00"),
    "reasoning that is an object": changed((*CHOICE, "message", "reasoning"), {"a": "\ud800"}),
}


def test_a_reply_that_is_not_what_the_protocol_says_costs_its_own_row_alone(study):
    """Whatever comes back: the run goes on, everything else is answered and can be written."""
    replies = [*UNREADABLE.values(), *READABLE.values()]
    for elicitation in ("verbalized", "sampled"):
        users = {}

        def script(body, number, users=users):
            user = body["messages"][-1]["content"]
            at = users.setdefault(user, len(users))
            return replies[at] if at < len(replies) else completion(message(GOOD))

        with Endpoint(script) as server:
            result = cc.predict(
                study, "openai:m", base_url=server.url, retries=1, samples=2, max_in_flight=1,
                elicitation=elicitation, name=elicitation,
            )  # fmt: skip
        assert len(users) == result.total > len(replies)
        assert result.statuses["error"] == len(UNREADABLE)
        assert result.reasons["error: endpoint"] == len(UNREADABLE)
        assert result.missing == 0
    opened = cc.Study.open(study)
    texts = opened.predictions(result.run_id, columns=["text", "status"]).to_pylist()
    assert any("\0\ufffd" in json.loads(row["text"])[0]["text"] for row in texts if row["text"])
    assert "m\ufffd" in opened.run_notes(result.run_id)["model_reported"]


def test_a_message_in_parts_is_its_text_and_its_thinking():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "{'1': 5} or"}]},
        {"type": "reasoning", "reasoning": " not"},
        {"type": "text", "text": '{"1": 40,'},
        {"type": "output_text", "text": ' "2": 60}'},
    ]
    answers, _, _ = ask(lambda body, number: changed(CONTENT, parts))
    assert answers["q1"].text == GOOD
    assert answers["q1"].thinking == "{'1': 5} or not"


@pytest.mark.parametrize(
    "first",
    [
        [None], [{"token": "A", "logprob": None, "top_logprobs": []}],
        [{"token": "A", "logprob": "x"}], [{"token": "A", "logprob": 800.0, "top_logprobs": []}],
        [{"token": "A", "logprob": float("nan"), "top_logprobs": []}],
        [{"token": None, "logprob": -1.0, "top_logprobs": None}], [], None,
    ],
)  # fmt: skip
def test_log_probabilities_that_are_none_cost_their_own_row_alone(first):
    def script(body, number):
        reply = completion(message("A", logprobs=[("A", -0.1), ("x", -3.0)]))
        if body["messages"][-1]["content"] == "bad":
            reply["choices"][0]["logprobs"] = {"content": first}
        return reply

    requests = [request(name, elicitation="logprob") for name in ("q1", "bad", "q2")]
    answers, _, _ = ask(
        script, requests, retries=1, max_in_flight=1, elicitation="logprob", temperature=None,
        top_p=None, seed=None, max_tokens=1,
    )  # fmt: skip
    assert answers["bad"].error == "endpoint"
    assert answers["q1"].option_probs == answers["q2"].option_probs == (math.exp(-0.1), 0.0)


def test_a_server_that_turns_everything_away_is_quoted():
    busy = (429, {}, {"error": {"message": f"Rate limit of {KEY} reached, see your plan"}})
    requests = [request(f"q{number}") for number in range(20)]
    says = r"20 requests in a row, .* status 429 \(Rate limit of <key> reached, see your plan\)$"
    with pytest.raises(EngineError, match=says):
        ask(lambda body, number: busy, requests, retries=0)


def test_what_an_error_says_can_be_shown_on_a_terminal():
    says = "bad \x1b[2J\x07 thing \ud800!"
    with pytest.raises(EngineError) as caught:
        ask(lambda body, number: (401, {}, {"error": {"message": says}}))
    assert "bad [2J thing \ufffd!" in str(caught.value)
    assert str(caught.value).isprintable()


def test_after_the_last_attempt_there_is_an_error_row_and_the_rest_is_answered():
    def script(body, number):
        name = body["messages"][-1]["content"]
        if name == "dead":
            return Cut()
        if name == "slow":
            return Wait(5, completion(message(GOOD)))
        if name == "long":
            text = "This model's maximum context length is 4096 tokens."
            error = {"message": text, "code": "context_length_exceeded"}
            return 400, {}, {"error": error}
        return good(body, number)

    requests = [request(name) for name in ("dead", "slow", "long", "fine", "well")]
    started = time.monotonic()
    answers, server, _ = ask(script, requests, retries=2, timeout=0.3)
    assert time.monotonic() - started < 20
    assert {name: a.error for name, a in answers.items()} == {
        "dead": "endpoint", "slow": "timeout", "long": "context_length", "fine": None, "well": None
    }  # fmt: skip
    sent = [body["messages"][-1]["content"] for body in server.bodies]
    assert (sent.count("dead"), sent.count("slow"), sent.count("long")) == (3, 3, 1)


def test_a_reply_that_trickles_meets_the_timeout():
    answers, _, _ = ask(lambda *_: Wait(30, None), retries=0, timeout=0.2)
    assert answers["q1"].error == "timeout"


def test_replies_in_another_order_stay_with_their_prompts():
    def script(body, number):
        name = body["messages"][-1]["content"]
        share = int(name[1:])
        reply = completion(message(json.dumps({"1": share, "2": 100 - share})))
        return Wait(0.02 * (20 - share), reply)

    requests = [request(f"q{i}") for i in range(20)]
    with Endpoint(script) as server:
        engine = OpenAIEngine("m", base_url=server.url, max_in_flight=20)
        answers = list(engine.answers(requests))
        engine.close()
    assert [a.prompt_id for a in answers] != [r.prompt_id for r in requests]
    assert sorted(a.prompt_id for a in answers) == sorted(r.prompt_id for r in requests)
    for answer in answers:
        assert json.loads(answer.text)["1"] == int(answer.prompt_id[1:])


def test_a_choice_that_comes_twice_counts_once():
    def script(body, number):
        one, two = message("1", index=0), message("2", index=1)
        return completion(one, one, two) if body.get("n") == 3 else completion(message("2"))

    asked = [request(elicitation="sampled")]
    answers, server, _ = ask(
        script, asked, elicitation="sampled", samples=3, temperature=1.0, max_tokens=32
    )
    assert [sample.text for sample in answers["q1"].samples] == ["1", "2", "2"]
    assert [body.get("n", 1) for body in server.bodies] == [3, 1]
    # The call for the rest draws anew.
    assert server.bodies[1]["seed"] != server.bodies[0]["seed"]
    assert answers["q1"].completion_tokens == 14


# -- failures for good ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (401, {"message": "bad key"}, "does not accept the key"),
        (403, {"message": "not for you"}, "does not accept the key"),
        (404, {"message": "no such model"}, "there is no model 'm'"),
        (429, {"message": "x", "code": "insufficient_quota"}, "quota of the key is spent"),
        (
            400,
            {"message": "Unsupported value: 'temperature' does not support 0", "param": None},
            "omit",
        ),
    ],
)
def test_what_no_other_request_would_survive_ends_the_run(status, error, says):
    with pytest.raises(EngineError, match=says):
        ask(lambda *_: (status, {}, {"error": error}))


def test_an_endpoint_that_never_answers_ends_the_run_after_some_requests():
    requests = [request(f"q{i}") for i in range(500)]
    with Endpoint(lambda *_: (503, {}, {"error": {"message": "down"}})) as server:
        engine = OpenAIEngine("m", base_url=server.url, retries=0)
        with pytest.raises(EngineError, match="failed 20 requests in a row, the last by: status"):
            list(engine.answers(requests))
        engine.close()
        assert len(server.bodies) < 60


def test_nobody_at_the_address():
    engine = OpenAIEngine("m", base_url="http://127.0.0.1:9/v1", retries=0)
    says = r"cannot be reached, in 1 attempts \((connection \(Connect\w+\))\); check the base URL"
    with pytest.raises(EngineError, match=says):
        list(engine.answers([request()]))  # one request tells it
    engine.close()


def test_why_requests_got_no_answer_is_told(study, run_cli):
    def script(body, number):
        return 503, {}, {"error": {"message": "down"}}

    with Endpoint(script) as server:
        done = run_cli(
            "predict", study, "--model", "openai:m", "--base-url", server.url, "--sample", "3",
            "--retries", "0",
        )  # fmt: skip
    assert done.returncode == 1
    first, *named, last = done.stderr.splitlines()
    assert first == "attempts that failed: 9 status 503 (down)"
    assert len(named) == 9
    assert all(line.endswith(": endpoint") for line in named)
    assert last == "Error: 9 prompts got no answer; run the same command again to ask only these"


def test_the_newer_name_of_the_token_limit_is_taken_up():
    def script(body, number):
        if "max_tokens" in body:
            text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return 400, {}, {"error": {"message": text, "param": "max_tokens"}}
        return good(body, number)

    answers, server, _ = ask(script)
    assert answers["q1"].text == GOOD
    assert server.bodies[1]["max_completion_tokens"] == 120


# -- refusals, filters, reasoning ---------------------------------------------------------------


def test_refusals_filters_and_reasoning_are_what_they_are(study):
    """Through to the rows of the study."""
    replies = [
        message(None, finish_reason="content_filter"),
        message(None, refusal="I cannot help with that."),
        message("", finish_reason="length", reasoning_content='Draft: {"1": 50, "2": 50}'),
        message("", reasoning="hm"),
        message(GOOD, finish_reason="length"),
    ]
    expected = [
        ("refused", "content_filter"),
        ("refused", "refusal"),
        ("truncated", "length"),
        ("invalid", "empty"),
    ]
    for reply, (status, reason) in zip(replies, expected, strict=False):
        with Endpoint(lambda body, number, reply=reply: completion(reply)) as server:
            result = cc.predict(study, "openai:m", base_url=server.url, kinds=("undated",))
        assert result.reasons == {f"{status}: {reason}": 129}
        rows = cc.Study.open(study).predictions(result.run_id).to_pylist()
        thinking = reply["message"].get("reasoning_content") or reply["message"].get("reasoning")
        assert {row["thinking"] for row in rows} == {thinking}
        assert all(row["probs"] is None for row in rows)


def test_a_filter_that_answers_with_a_status():
    def script(body, number):
        error = {"message": "The response was filtered", "code": "content_filter"}
        return 400, {}, {"error": error}

    answers, _, _ = ask(script)
    assert (answers["q1"].error, answers["q1"].finish_reason) == (None, "content_filter")


# -- log-probabilities --------------------------------------------------------------------------


def test_the_first_token_gives_the_distribution():
    top = [("A", math.log(0.5)), (" A", math.log(0.1)), ("The", math.log(0.2)), ("B", -3.0)]
    asked = [request(elicitation="logprob")]
    answers, server, engine = ask(
        lambda *_: completion(message("A", finish_reason="length", logprobs=top)), asked,
        elicitation="logprob", temperature=None, top_p=None, seed=None, max_tokens=1,
    )  # fmt: skip
    body = server.bodies[0]
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 1)
    assert "temperature" not in body
    assert answers["q1"].option_probs == pytest.approx((0.6, math.exp(-3.0)), abs=1e-15)
    unseen = 1 - 0.8 - math.exp(-3.0)
    shown = engine.notes["first_token_probability_not_shown"]
    assert shown == f"mean {unseen:.4f}, largest {unseen:.4f}"


def test_an_endpoint_without_log_probabilities_is_said_to_have_none():
    with pytest.raises(EngineError, match="gives no log-probabilities"):
        ask(good, [request(elicitation="logprob")], elicitation="logprob")


# -- rates, bounds, ends ------------------------------------------------------------------------


def test_no_more_requests_are_on_the_way_than_allowed_and_all_places_are_used():
    requests = [request(f"q{i}") for i in range(20)]
    answers, server, _ = ask(lambda *_: Wait(0.2, completion(message(GOOD))), requests,
                             max_in_flight=5)  # fmt: skip
    assert len(answers) == 20
    assert server.most_open == 5


def test_requests_a_minute_are_kept_to():
    requests = [request(f"q{i}") for i in range(6)]
    started = time.monotonic()
    _, server, _ = ask(good, requests, requests_per_minute=600)
    # The n-th may not leave before n tenths of a second; a busy machine is only later.
    for place, arrived in enumerate(server.times):
        assert arrived - started >= place / 10


def test_tokens_a_minute_are_estimated_and_corrected(monkeypatch):
    rate = Rate(6000)  # a hundred a second
    with monkeypatch.context() as still:
        still.setattr(time, "monotonic", lambda: 1000.0)
        assert rate.wait(50) == 0
        assert rate.wait(50) == pytest.approx(0.5)
        rate.correct(-60)
        assert rate.wait(1) == pytest.approx(0.4)
    requests = [request(f"q{i}") for i in range(4)]
    # Twenty a second, estimated at 120 a request and 18 used: the rate follows what was used.
    _, server, _ = ask(good, requests, tokens_per_minute=1200, max_in_flight=1)
    assert 2.6 < server.times[-1] - server.times[0] < 12


def test_requests_are_pulled_as_places_become_free():
    pulled = []

    class Lazy:
        def __len__(self):
            return 1000

        def __iter__(self):
            for i in range(1000):
                pulled.append(i)
                yield request(f"q{i}")

    with Endpoint(good) as server:
        engine = OpenAIEngine("m", base_url=server.url, max_in_flight=4)
        stream = engine.answers(Lazy())
        for _ in range(10):
            next(stream)
        assert len(pulled) <= 15
        stream.close()
        assert engine.in_flight == 0
        engine.close()


def test_a_drain_lets_what_is_on_the_way_finish_and_then_ends():
    with Endpoint(lambda *_: Wait(0.3, completion(message(GOOD)))) as server:
        engine = OpenAIEngine("m", base_url=server.url, max_in_flight=3)
        stream = engine.answers([request(f"q{i}") for i in range(100)])
        next(stream)
        engine.drain(5.0)
        assert len(list(stream)) == 2
        engine.close()
    with Endpoint(lambda *_: Wait(30, None)) as server:
        engine = OpenAIEngine("m", base_url=server.url, max_in_flight=3)
        threading.Timer(0.3, engine.drain, [0.3]).start()
        started = time.monotonic()
        assert list(engine.answers([request(f"q{i}") for i in range(9)])) == []
        engine.close()
        assert time.monotonic() - started < 15


def test_closing_twice_and_without_a_start_is_harmless():
    engine = OpenAIEngine("m")
    engine.close()
    engine.close()
    _, _, used = ask(good)
    used.close()
    assert not [t for t in threading.enumerate() if t.name == "chronocore-openai"]


def test_a_missing_client_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingDependencyError, match=r"chronocore\[openai\]"):
        OpenAIEngine("m")


# -- through predict ----------------------------------------------------------------------------


def test_a_run_resumes_with_what_failed(study):
    broken = {"on": True}

    def script(body, number):
        user = body["messages"][-1]["content"]
        if broken["on"] and "Albania" in user:
            return 500, {}, {"error": {"message": "oops"}}
        codes = [line.split(":")[0] for line in user.splitlines() if line[:1].isdigit()]
        return completion(message(json.dumps({code: 1 / len(codes) for code in codes})))

    with Endpoint(script) as server:
        options = {"base_url": server.url, "retries": 0, "kinds": ("undated",)}
        first = cc.predict(study, "openai:m", **options)
        assert first.statuses["error"] == first.reasons["error: endpoint"] > 0
        broken["on"] = False
        asked = len(server.bodies)
        second = cc.predict(study, "openai:m", **options)
        assert len(server.bodies) - asked == first.statuses["error"]
    assert second.run_id == first.run_id
    assert "error" not in second.statuses
    rows = cc.Study.open(study).predictions(second.run_id).to_pylist()
    assert len(rows) == 129
    assert {row["attempt"] for row in rows if row["status"] != "error"} == {1, 2}
