"""Servers that lie, err, wander off and never end, through the command line.

Every run is made with a key in the environment that the server knows: it must be in nothing that
is printed or written, whatever the server does with it.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
import zlib

import pytest
from endpoint import Endpoint, Raw, Wait, completion, message

import chronocore as cc
from chronocore import validity as v

pytest.importorskip("openai")

from chronocore.engines.openai import engine as module

KEY = "abcd-Very.Secret_0123456789+/="
GOOD = '{"1": 40, "2": 60}'
CHOSEN = '{"answer": 1}'
HERE = ("--kinds", "undated", "--sample", "6")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.02)


def told(body, share=40):
    """Return an answer to a prompt: a distribution over the codes it lists."""
    listed = body["messages"][-1]["content"].splitlines()
    codes = [code for line in listed for code in re.findall(r"^(-?\d+)(?:: .*)?$", line)]
    rest = (100 - share) / (len(codes) - 1)
    return json.dumps({code: share if code == codes[0] else rest for code in codes})


@pytest.fixture
def predict(study, run_cli):
    """Ask a server; return the finished command and the rows, after looking for the key."""

    def ask(script, *options, elsewhere=None, **environment):
        with Endpoint(script) as server:
            done = run_cli(
                "predict", study, "--model", "openai:m", "--base-url", server.url, *HERE, *options
            )
        check_nothing_secret(done, study)
        runs = cc.Study.open(study).runs().to_pylist()
        rows = cc.Study.open(study).predictions(runs[0]["run_id"]).to_pylist() if runs else []
        return done, rows, server

    return ask


def check_nothing_secret(done, folder, *secrets):
    for secret in (KEY, *secrets):
        assert secret not in done.stdout + done.stderr
        for path in folder.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert "Traceback" not in done.stderr
    assert "fault of chronocore" not in done.stderr
    for line in (done.stdout + done.stderr).splitlines():
        assert line.isprintable(), line


# -- where a reply comes from --------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_refused_and_named(predict, status):
    with Endpoint(lambda body, number: completion(message(told(body)))) as other:
        where = f"{other.url}/chat/completions?token={KEY}"
        done, rows, server = predict(lambda *_: (status, {"Location": where}, {}))
        assert other.paths == []
    assert (done.returncode, rows) == (1, [])
    assert f"redirects to {other.url}/chat/completions (status {status})" in done.stderr
    assert "give its address as base URL" in done.stderr
    assert len(server.bodies) <= 16


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_the_same_host_asks_the_same_request_or_nothing(study, run_cli, status):
    paths = []

    class Moved(Endpoint):
        async def _one(self, reader, writer):
            paths.append(len(self.bodies))
            return await super()._one(reader, writer)

    def script(body, number):
        if server.paths[-1].startswith("/v1/"):
            return status, {"Location": "/v2/chat/completions"}, {}
        return completion(message(told(body)))

    with Moved(script) as server:
        done = run_cli(
            "predict", study, "--model", "openai:m", "--base-url", server.url, *HERE,
            "--concurrency", "1",
        )  # fmt: skip
    if status in (307, 308):
        assert done.returncode == 0, done.stderr
        assert "6 ok" in done.stdout
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    else:  # asked for again without the prompt, as these are
        assert done.returncode == 1
        assert f"(status {status})" in done.stderr
    check_nothing_secret(done, study)


def test_redirects_without_an_end_and_to_nowhere_end_the_run(predict):
    for where in ("/v1/chat/completions", "http://[", "//", "\x1b]0;x\x07", f"https://u:{KEY}@h/"):
        done, rows, _ = predict(lambda *_, where=where: (307, {"Location": where}, {}))
        assert done.returncode == 1
        assert not [row for row in rows if row["status"] != "error"]
        assert (
            "redirects to" in done.stderr or "failed" in done.stderr or "no answer" in done.stderr
        )


# -- what is no reply ----------------------------------------------------------------------------

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Sign \x1b[31m in</title></head><body>Hello</body></html>"
)


def test_a_web_page_is_said_to_be_no_api_and_soon(predict):
    done, rows, server = predict(lambda *_: PAGE)
    assert (done.returncode, rows) == (1, [])
    assert "answers with a web page: Sign [31m in and is no API; check the base URL" in done.stderr
    assert len(server.bodies) <= 3 * 6  # of seven attempts for each


def test_a_web_page_now_and_then_costs_an_attempt(predict):
    done, rows, _ = predict(
        lambda body, number: completion(message(told(body))) if number else PAGE,
        "--concurrency", "1", "--retries", "6",
    )  # fmt: skip
    assert (done.returncode, {row["status"] for row in rows}) == (0, {"ok"})


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Upstream is down for {KEY}", "code": 502}},
        {"error": f"Upstream is down for {KEY}"},
        {"object": "error", "message": f"Upstream is down for {KEY}", "code": 40303},
        {"choices": [], "error": {"message": f"Upstream is down for {KEY}"}},
        {"detail": [{"msg": f"Upstream is down for {KEY}"}]},
        {"errors": [{"message": f"Upstream is down for {KEY}"}]},
    ],
)
def test_an_error_with_status_200_is_asked_again_and_its_message_kept(predict, body):
    def script(asked, number):
        return completion(message(told(asked))) if number else body

    done, rows, server = predict(script)
    assert (done.returncode, {row["status"] for row in rows}) == (0, {"ok"})
    assert len(server.bodies) == 12
    done, rows, _ = predict(lambda *_: body, "--retries", "1", "--seed", "5")
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if "attempts that failed" in line]
    assert "12 an error in a reply of status 200 (Upstream is down for <key>)" in said


def test_an_answer_that_ended_in_an_error_is_asked_again(predict):
    """E3, whatever the word, with or without half an answer, for one of several samples too."""
    words = ["error", "ERROR", "abort", "cancelled", "network_error"]

    def script(body, number):
        if number == len(words):
            return completion(message(told(body)))
        text = [None, "", '{"1": 4', GOOD][number % 4]
        reply = message(text, finish_reason=words[number])
        return completion({**reply, "error": {"message": f"lost {KEY}"}} if number else reply)

    done, rows, server = predict(script)
    assert (done.returncode, {row["status"] for row in rows}) == (0, {"ok"})
    assert len(server.bodies) == 6 * (len(words) + 1)
    done, rows, _ = predict(
        lambda *_: completion(message("", finish_reason="error")), "--retries", "0", "--seed", "7"
    )
    assert done.returncode == 1
    assert "6 an answer that ended in an error" in done.stderr

    def one_lost(body, number):
        lost = message("", index=0, finish_reason="error")
        return completion(lost, *(message(CHOSEN, index=1 + i) for i in range(body.get("n", 1))))

    done, rows, server = predict(one_lost, "--elicitation", "sampled", "--samples", "3")
    assert done.returncode == 0, done.stderr
    assert "6 ok" in done.stdout
    assert len(server.bodies) == 6


# -- what an answer consists of ------------------------------------------------------------------


def call(arguments):
    return [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]


FORMS = {
    "a tool call": lambda t: message(None, finish_reason="tool_calls", tool_calls=call(t)),
    "with an empty text": lambda t: message("", finish_reason="tool_calls", tool_calls=call(t)),
    "arguments as an object": lambda t: message(None, tool_calls=call(json.loads(t))),
    "the older form": lambda t: message(None, function_call={"name": "f", "arguments": t}),
    "a free tool": lambda t: message(
        None, tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "f", "input": t}}]
    ),
    "a part": lambda t: message([{"type": "tool_use", "name": "f", "input": json.loads(t)}]),
    "parts": lambda t: message([{"type": "text", "text": t[:9]}, {"type": "text", "text": t[9:]}]),
    "a part without a type": lambda t: message([{"text": t}]),
    "parts that are texts": lambda t: message([t[:3], t[3:]]),
    "thinking and an answer": lambda t: message(
        [{"type": "thinking", "thinking": '{"1": 1}'}, {"type": "output_text", "text": t}]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_in_another_place_is_kept_as_it_came_and_read(predict, form):
    done, rows, server = predict(lambda body, number: completion(FORMS[form](told(body))))
    assert done.returncode == 0, done.stderr
    assert len(server.bodies) == 6
    assert {row["status"] for row in rows} == {"ok"}
    assert [row["probs"][0] for row in rows] == pytest.approx([0.4] * 6)
    assert all(isinstance(json.loads(row["text"]), dict) for row in rows)
    assert {row["thinking"] for row in rows} == ({'{"1": 1}'} if "think" in form else {None})


@pytest.mark.parametrize(
    "reply",
    [
        message([{"type": "refusal", "refusal": "I cannot do that."}]),
        message(None, refusal="I cannot do that."),
        message([{"type": "text", "text": ""}, {"type": "refusal", "text": "I cannot do that."}]),
    ],
)
def test_a_refusal_as_a_part_is_one(predict, reply):
    done, rows, server = predict(lambda *_: completion(reply))
    assert len(server.bodies) == 6
    assert {(row["status"], row["reason"]) for row in rows} == {("refused", "refusal")}
    assert {row["text"] for row in rows} == {"I cannot do that."}
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("length max_tokens MAX_TOKENS model_length max_output_tokens", '{"1": 4',
         ("truncated", "length")),
        ("content_filter content-filter SAFETY refusal RECITATION", "",
         ("refused", "content_filter")),
    ],
)  # fmt: skip
def test_finish_reasons_mean_the_same_in_any_words(predict, words, text, expected):
    words = words.split()
    left = [*words, words[0]]
    done, rows, _ = predict(
        lambda *_: completion(message(text, finish_reason=left.pop())), "--concurrency", "1"
    )
    assert done.returncode == 0, done.stderr
    assert {(row["status"], row["reason"]) for row in rows} == {expected}
    assert {row["finish_reason"] for row in rows} == set(words)


def test_an_unknown_finish_reason_is_recorded_as_what_may_be_written(predict):
    word = f"weary\x1b[2J\n{KEY}" + "x" * 500

    def script(body, number):
        return completion(message(told(body), finish_reason=word))

    _, rows, _ = predict(script)
    assert {row["status"] for row in rows} == {"ok"}
    (kept,) = {row["finish_reason"] for row in rows}
    assert kept.startswith("weary [2J x")
    assert len(kept) == 60


# -- log-probabilities ---------------------------------------------------------------------------


def first(top, token=None):
    reply = message("A", finish_reason="length", logprobs=[("A", -0.1)])
    shown = top and [{"token": t, "logprob": p, "bytes": None} for t, p in top]
    drawn = token or (top or [("A", -0.5)])[0]
    reply["logprobs"]["content"] = [
        {"token": drawn[0], "logprob": drawn[1], "bytes": None, "top_logprobs": shown}
    ]
    return reply


def logprob(predict, top, token=None):
    return predict(
        lambda *_: completion(first(top, token)), "--elicitation", "logprob", "--retries", "0",
        "--concurrency", "1",
    )  # fmt: skip


def masses(row, n):
    return [json.loads(row["text"])[code] for code in list(json.loads(row["text"]))[:n]]


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        ([("A", 0.4), ("A", 0.2), ("B", 0.3), ("D", 0.1)], [0.6, 0.3]),
        ([("\u2581A", 0.4), ("\u0120A", 0.2), ("B", 0.3), (" B", 0.05)], [0.6, 0.35]),
        ([("A</w>", 0.4), ("<0x41>", 0.2), ("\u010aB", 0.3), ("The", 0.1)], [0.6, 0.3]),
    ],
)
def test_tokens_that_read_alike_count_together(predict, top, expected):
    done, rows, _ = logprob(predict, [(t, math.log(p)) for t, p in top])
    assert done.returncode == 0, done.stderr
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        assert masses(row, 2) == pytest.approx(expected, abs=1e-12)


def test_little_probability_on_letters_is_no_distribution(predict):
    top = [("I", math.log(0.9)), ("A", math.log(0.05)), ("\u0120B", math.log(0.02))]
    done, rows, _ = logprob(predict, top)
    assert {(row["status"], row["reason"], row["probs"]) for row in rows} == {
        ("invalid", "low_mass", None)
    }
    assert [row["raw_sum"] for row in rows] == pytest.approx([0.07] * 6)
    assert "invalid: low_mass" in done.stdout


@pytest.mark.parametrize(
    ("top", "token", "says"),
    [
        (None, ("A", math.log(0.38)), "without its alternatives"),
        ([], ("A", math.log(0.38)), "without its alternatives"),
        ([("A", math.log(0.6))], None, "without its alternatives"),
        ([(t, 0.0) for t in "ABCD"], None, "sum to 4"),
        ([("A", math.log(0.7)), ("A", math.log(0.7))], None, "sum to 1.4"),
        ([("A", math.nan), ("B", -1.0)], None, "no answer"),
        ([("A", 3.0), ("B", -1.0)], None, "no answer"),
    ],
)
def test_log_probabilities_that_cannot_be_a_distribution_are_refused(predict, top, token, says):
    done, rows, _ = logprob(predict, top, token)
    assert done.returncode == 1
    assert says in done.stderr
    assert not [row for row in rows if row["status"] != "error"]


# -- a reply has a size --------------------------------------------------------------------------


def bomb(coding, size=2**30):
    """Return a packed gigabyte, about one MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    block = b" " * 2**20
    packed = b"".join(packer.compress(block) for _ in range(size // 2**20)) + packer.flush()
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    head += f"Content-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    return head.encode() + packed


def endless(start=b'{"choices": ["'):
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"%x\r\n%s\r\n" % (len(start), start)
    block = b"%x\r\n%s\r\n" % (2**16, b"a" * 2**16)
    while True:
        yield block


def measured(*arguments):
    """Run the command in a process of its own; return its status and its peak in MiB."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.execv(
            sys.executable, [sys.executable, "-m", "chronocore_cli.main", *map(str, arguments)]
        )
    os.close(write)
    with os.fdopen(read, encoding="utf-8", errors="replace") as stream:
        output = stream.read()
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), output, used.ru_maxrss / 1024


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gzip", "deflate", "endless"])
def test_memory_stays_bounded_with_sixteen_on_the_way(study, child_environment, monkeypatch, kind):
    for name, value in child_environment.items():
        monkeypatch.setenv(name, value)
    data = b"" if kind == "endless" else bomb(kind)
    with Endpoint(lambda *_: Raw(endless() if kind == "endless" else [data])) as server:
        status, output, peak = measured(
            "predict", study, "--model", "openai:m", "--base-url", server.url,
            "--concurrency", "16", "--kinds", "undated",
        )  # fmt: skip
    print(f"{kind}: {peak:.0f} MiB")
    assert status == 1, output
    assert "a reply of more than 16 MiB" in output
    assert "failed 20 requests in a row" in output
    assert 12 <= server.most_open <= 16
    assert peak < 1000


@pytest.mark.parametrize(
    "reply",
    [
        lambda: Raw([bomb("gzip", 32 * 2**20)]),
        lambda: Raw(endless()),
        lambda: (200, {"Content-Length": str(10**12)}, {}),
        lambda: (500, {}, "x" * (17 * 2**20)),
    ],
)
def test_a_reply_that_is_too_large_is_not_asked_for_again(predict, reply):
    done, _, server = predict(lambda *_: reply(), "--sample", "2")
    assert done.returncode == 1
    assert "2 a reply of more than 16 MiB" in done.stderr
    assert len(server.bodies) == 2


@pytest.mark.parametrize("crowd", [[{}] * 250_000, [[]] * 250_000])
def test_a_reply_of_countless_objects_is_not_taken_apart(predict, crowd):
    """A few MB of brackets cost the client minutes; every place of a reply may hold them."""
    for reply in ({"choices": crowd}, {**completion(message(GOOD)), "more": crowd}):
        done, rows, _ = predict(lambda *_, r=reply: r, "--sample", "2")
        assert done.returncode == 1
        assert "a reply of more than 200,000 brackets" in done.stderr
        assert not [row for row in rows if row["status"] != "error"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
def test_a_packed_reply_is_unpacked(predict, coding):
    def script(body, number):
        data = json.dumps(completion(message(told(body)))).encode()
        if coding == "gzip":
            packed = gzip.compress(data)
        else:
            packer = zlib.compressobj(wbits=15 if coding == "deflate" else -15)
            packed = packer.compress(data) + packer.flush()
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        head += f"Content-Encoding: {coding.split()[-1]}\r\nContent-Length: {len(packed)}\r\n\r\n"
        return Raw([head.encode(), packed])

    done, rows, _ = predict(script)
    assert (done.returncode, {row["status"] for row in rows}) == (0, {"ok"})


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip"])
def test_what_cannot_be_unpacked_is_no_reply(predict, coding):
    head = {"Content-Encoding": coding}
    done, _, _ = predict(lambda *_: (200, head, completion(message(GOOD))), "--retries", "0")
    assert done.returncode == 1
    assert "6 a reply that cannot be unpacked" in done.stderr


def test_heads_without_an_end_and_replies_that_drip_cost_their_row(predict):
    huge = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(999))
    done, _, _ = predict(lambda *_: Raw([huge]), "--retries", "0")
    assert done.returncode == 1
    assert "6 connection (" in done.stderr

    def drip():
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n"
        yield from iter(lambda: b" ", None)

    done, _, _ = predict(lambda *_: Raw(drip(), 0.05), "--retries", "0", "--timeout", "0.5")
    assert done.returncode == 1
    assert "6 time-out" in done.stderr


# -- keys ----------------------------------------------------------------------------------------


def test_a_server_that_puts_the_key_everywhere_brings_it_nowhere(predict):
    """Also with an escape sequence before it, in a long message, and in every field."""

    def script(body, number):
        if number == 0:
            return 500, {"X-Key": KEY}, {"error": {"message": "x" * 290 + KEY, "code": KEY}}
        if number == 1:
            return {"error": {"message": f"\x1b[2J{KEY}", "type": KEY}}
        reply = message(
            f"{told(body)} {KEY}", finish_reason=KEY, reasoning_content=KEY, tool_calls=call(KEY)
        )
        return {**completion(reply, model=KEY), "system_fingerprint": KEY, "id": KEY}

    done, rows, _ = predict(script)
    assert done.returncode == 0, done.stderr
    assert all("<key>" in row["text"] for row in rows)


@pytest.mark.parametrize(
    "options",
    [
        ("--api-key-env", "sk-abcdefgh12345678"),
        ("--api-key-env", "0123456789abcdef0123456789abcdef"),
        ("--api-key-env", "a123456789abcdef0123456789abcdef"),
        ("--api-key-env", KEY),
        ("--base-url", f"user:{KEY}@host/v1"),
        ("--base-url", f"https://user:{KEY}@host/v1"),
        ("--base-url", f"//user:{KEY}@host/v1"),
        ("--base-url", f"http://host/v1?key={KEY}"),
        ("--base-url", f"http://host/{KEY}/v1"),
        ("--base-url", "sk-abcdefgh12345678"),
        ("--base-url", KEY),
        ("--engine-arg", f"api_key={KEY}"),
        ("--engine-arg", "api_key=0123456789abcdef"),
        ("--engine-arg", f"{KEY}"),
        ("--engine-arg", f"user={KEY}"),
        ("--engine-arg", '{"headers": 1}'),
        ("--engine-arg", f'extra={{"headers": {{"Authorization": "Bearer {KEY}"}}}}'),
        ("--engine-arg", 'extra={"x-api-key": "0123456789abcdef"}'),
        ("--name", KEY),
        ("--model", KEY),
        ("--model", f"openai:{KEY}"),
        ("--model", "openai:sk-abcdefgh12345678"),
        ("--omit", KEY),
        ("--timeout", KEY),
        ("--revision", KEY),
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_shown(study, run_cli, options):
    with Endpoint(lambda body, number: completion(message(told(body)))) as server:
        where = () if "--base-url" in options else ("--base-url", server.url)
        model = () if "--model" in options else ("--model", "openai:m")
        done = run_cli("predict", study, *model, *where, *options)
        assert server.bodies == []
    assert done.returncode in (1, 2)
    secrets = ("abcdefgh12345678", "0123456789abcdef", "123456789abcdef0")
    check_nothing_secret(done, study, *secrets)
    assert not (study / "runs.parquet").exists()


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        (("--base-url", ""), {}, "--base-url) is empty"),
        (("--base-url", "  "), {}, "--base-url) is empty"),
        ((), {"OPENAI_BASE_URL": ""}, "OPENAI_BASE_URL is empty"),
        ((), {"OPENAI_BASE_URL": " "}, "OPENAI_BASE_URL is empty"),
        (("--api-key-env", ""), {}, "--api-key-env) is empty"),
        (("--api-key-env", " "), {}, "--api-key-env) is empty"),
        (("--api-key-env", "MY_KEY"), {"MY_KEY": "a\nb"}, "MY_KEY cannot be sent"),
        (("--api-key-env", "MY_KEY"), {"MY_KEY": "schlüssel"}, "MY_KEY cannot be sent"),
        (("--api-key-env", "MY_KEY"), {"MY_KEY": ""}, "MY_KEY is not set"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "doctor", "validity"])
def test_an_empty_setting_asks_nobody(
    study, run_cli, monkeypatch, tmp_path, options, environment, says, command
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # whoever asked would be noticed
    if command == "doctor":
        if "--base-url" not in options:
            pytest.skip("doctor asks no endpoint that is not named")
        done = run_cli("doctor", *options)
        assert says in done.stdout
    else:
        folder = study
        if command == "validity":
            folder = tmp_path / "panel"
            v.prompts(folder)
        words = ("validity", "run") if command == "validity" else ("predict",)
        done = run_cli(*words, folder, "--model", "openai:m", *options)
        assert says in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '{"a": [1, NaN]}', "[" * 5000]
)
def test_a_number_that_json_cannot_hold_is_no_engine_argument(study, run_cli, value):
    done = run_cli(
        "predict", study, "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1",
        "--engine-arg", f"x={value}",
    )  # fmt: skip
    assert done.returncode == 2
    assert "--engine-arg" in done.stderr
    assert not (study / "runs.parquet").exists()


@pytest.mark.parametrize("option", ["--price-in", "--price-out", "--timeout", "--temperature"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_a_setting_is_a_finite_number(study, run_cli, option, value):
    done = run_cli(
        "predict", study, "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1",
        "--dry-run", f"{option}={value}",
    )  # fmt: skip
    assert done.returncode == 2
    assert option in done.stderr


def test_prices_are_finite_from_python(study):
    for price in (math.nan, math.inf, -1.0):
        with pytest.raises(cc.ConfigurationError, match="price_in must be a finite number"):
            cc.plan(study, "openai:m", base_url="http://127.0.0.1:9/v1", price_in=price)


# -- ends and next steps -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "key", "says"),
    [
        (401, KEY, "check that the variable holds this endpoint's key"),
        (401, "", "it wants a key"),
        (403, KEY, "chronocore doctor --base-url http"),
        (404, KEY, "chronocore doctor --base-url http"),
        (405, KEY, "mostly ends in /v1"),
        (402, KEY, "add to it, or take another key"),
    ],
)
def test_every_refusal_has_a_next_step(predict, monkeypatch, status, key, says):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    for content in ({"error": {"message": "no"}}, PAGE):
        done, rows, _ = predict(lambda *_, c=content: (status, {}, c))
        assert (done.returncode, rows) == (1, [])
        assert f"answers {status}" in done.stderr or status == 402
        assert says in done.stderr
        assert "<html" not in done.stderr.lower()


def test_nobody_at_the_address_is_told_within_seconds(study, run_cli, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.5)  # as it is for everybody
    done = run_cli("predict", study, "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 1
    assert "cannot be reached, in 3 attempts" in done.stderr
    assert not cc.Study.open(study).runs().num_rows


def test_a_first_call_without_an_answer_leaves_no_run(predict, study):
    done, _, _ = predict(
        lambda *_: (503, {}, {"error": {"message": "down"}}), "--retries", "0", "--name", "x",
        "--sample", "129",
    )  # fmt: skip
    assert done.returncode == 1
    assert "failed 20 requests in a row, the last by: status 503 (down)" in done.stderr
    assert cc.Study.open(study).runs().num_rows == 0
    done, _, _ = predict(
        lambda body, number: completion(message(told(body))), "--name", "x", "--seed", "3"
    )
    assert done.returncode == 0, done.stderr


# -- the other commands that ask -----------------------------------------------------------------


def test_a_dry_run_asks_nobody_and_shows_no_key(predict):
    done, rows, server = predict(
        lambda *_: PAGE, "--dry-run", "--price-in", "1", "--price-out", "1"
    )
    assert (done.returncode, server.paths, rows) == (0, [], [])


@pytest.mark.parametrize(
    ("listed", "present", "says"),
    [
        ({"data": [{"id": f"m{KEY}\x1b]0;x\x07\u202e\n" + "x" * 500}]}, True, "m<key> ]0;x"),
        ({"object": "list", "data": []}, True, "no model"),
        (PAGE, False, "a web page: Sign [31m in, and is no API"),
        ({"error": {"message": f"bad {KEY}"}}, False, "something else than a list of models"),
        ((401, {}, {"error": {"message": f"bad {KEY}"}}), False, "(bad <key>); check the key"),
        ((403, {}, PAGE), False, "(a web page: Sign [31m in); check the key"),
        ((404, {}, {"detail": "Not Found"}), False, "(Not Found); check the base URL"),
        ((307, {"Location": "http://127.0.0.2:1/v1/models"}, {}), False, "redirects to http://127.0.0.2:1"),
        (Raw([bomb("gzip", 64 * 2**20)]), False, "sends more than 16 MiB"),
        (Raw([b"SSH-2.0-OpenSSH\r\n"]), False, "cannot be reached"),
        ([1, 2], False, "something else than a list of models"),
        ({"data": [None]}, False, "something else than a list of models"),
        ({"data": [{"id": 7}]}, True, "serves 7"),
        (Wait(30, {}), False, "does not answer within"),
    ],
)  # fmt: skip
def test_the_doctor_prints_nothing_a_server_says_as_it_is(
    run_cli, monkeypatch, tmp_path, listed, present, says
):
    from chronocore.engines import openai

    probe = openai.probe_endpoint
    monkeypatch.setattr(openai, "probe_endpoint", lambda *a: probe(*a, timeout=2.0))
    with Endpoint(lambda *_: listed) as server:
        done = run_cli("doctor", "--base-url", server.url)
    assert done.returncode == (0 if present else 1)
    (line,) = [line for line in done.stdout.splitlines() if " endpoint " in line]
    assert line.startswith("ok" if present else "missing")
    assert says in line
    assert len(line) < 600
    check_nothing_secret(done, tmp_path)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (PAGE, "is no API"),
        ((307, {"Location": "http://127.0.0.2:1/x"}, {}), "redirects to http://127.0.0.2:1/x"),
        ((401, {}, {"error": {"message": f"\x07bad {KEY}"}}), "(bad <key>)"),
        ({"error": {"message": f"down {KEY}"}}, "(down <key>)"),
        (completion(message("", finish_reason="error")), "an answer that ended in an error"),
        ((200, {"Content-Length": str(10**10)}, {}), "a reply of more than 16 MiB"),
    ],
)
def test_a_panel_meets_the_same_servers(run_cli, tmp_path, reply, says):
    folder = tmp_path / "panel"
    v.prompts(folder)
    with Endpoint(lambda *_: reply) as server:
        done = run_cli(
            "validity", "run", folder, "--model", "openai:m", "--base-url", server.url,
            "--retries", "0", "--concurrency", "4",
        )  # fmt: skip
    assert done.returncode == 1
    assert says in done.stderr
    check_nothing_secret(done, folder)


def test_a_panel_reads_answers_in_other_places_and_words(run_cli, tmp_path):
    folder = tmp_path / "panel"
    v.prompts(folder)

    def script(body, number):
        reply = message(None, finish_reason="tool_use", tool_calls=call('{"answer": 1}'))
        return completion(reply, model=f"m\x1b{KEY}")

    with Endpoint(script) as server:
        done = run_cli("validity", "run", folder, "--model", "openai:m", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    assert "400 queries" in done.stdout
    check_nothing_secret(done, folder)
