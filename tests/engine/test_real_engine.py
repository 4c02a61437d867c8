"""The whole pipeline with the real vLLM engine and SmolLM2-135M-Instruct."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chronocore as cc

pytest.importorskip("vllm", reason="run tests/engine/run, which installs the engine")

pytestmark = pytest.mark.engine

N_PAIRS = 44 + 65  # E143 and F117 over all their countries
N_PROMPTS = 3 * N_PAIRS


@pytest.fixture(scope="module")
def results(folder, model, chronocore):
    """Both runs through the command line, the structured one first."""
    assert len(cc.Study.open(folder).pairs()) == N_PAIRS
    runs = {}
    for name, options in (("structured", ["--structured"]), ("free", [])):
        done = chronocore("predict", folder, "--model", f"vllm:{model}", "--json", *options)
        runs[name] = json.loads(done.stdout)
    return runs


def test_every_prompt_is_answered_and_counted(folder, results):
    study = cc.Study.open(folder)
    for name, result in results.items():
        rows = study.predictions(result["run_id"]).to_pylist()
        assert len(rows) == N_PROMPTS == result["total"] == sum(result["statuses"].values())
        assert result["missing"] == 0
        assert "error" not in result["statuses"]
        assert all(row["finish_reason"] in ("stop", "length") for row in rows)
        assert all(0 < row["completion_tokens"] <= 120 for row in rows)
        assert all(row["prompt_tokens"] > 50 for row in rows)
        assert all(row["seed"] == 0 for row in rows)
        print(name, result["statuses"], result["reasons"], f"{result['seconds']:.1f} s")
    # Held to the format by the schema, every answer names all options with numbers; the one way
    # left not to be a distribution is to give nobody to any option, which this model does.
    structured = results["structured"]
    assert set(structured["statuses"]) <= {"ok", "invalid"}
    assert set(structured["reasons"]) <= {"invalid: no_mass"}
    assert structured["statuses"]["ok"] > 0.5 * N_PROMPTS


def test_the_two_runs_are_apart_and_know_what_made_them(folder, results):
    runs = {run["run_id"]: run for run in cc.Study.open(folder).runs().to_pylist()}
    assert len(runs) == 2
    for name, result in results.items():
        run = runs[result["run_id"]]
        assert run["engine"] == "vllm"
        assert run["engine_version"]
        assert run["revision"].startswith("sha256:")
        assert len(run["chat_template_sha256"]) == 64
        assert run["structured"] is (name == "structured")
        assert (run["temperature"], run["top_p"], run["max_tokens"]) == (0.0, 1.0, 120)


def test_a_second_call_starts_no_engine_and_asks_nothing(folder, results, model, chronocore):
    done = chronocore("predict", folder, "--model", f"vllm:{model}", "--structured", "--json")
    again = json.loads(done.stdout)
    assert again["already_done"] == N_PROMPTS
    assert again["run_id"] == results["structured"]["run_id"]


def test_scores_tables_and_report(folder, results, chronocore):
    scored = json.loads(chronocore("score", folder, "--json").stdout)
    complete = {run["run_id"]: run["n_complete"] for run in scored["runs"]}
    assert complete[results["structured"]["run_id"]] > 0.3 * N_PAIRS
    table = chronocore("tables", folder, "t08", "--format", "md").stdout
    assert "undated for both" in table
    path = Path(chronocore("report", folder).stdout.strip())
    text = path.read_text(encoding="utf-8")
    assert "</html>" in text
    assert "smollm2" in text.lower()
