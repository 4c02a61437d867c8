"""Measurement validity with the real vLLM engine and SmolLM2-135M-Instruct."""

from __future__ import annotations

from collections import Counter

import pytest

from chronocore import schema
from chronocore import validity as v
from chronocore.store import read_parquet

pytest.importorskip("vllm", reason="run tests/engine/run, which installs the engine")

pytestmark = pytest.mark.engine

SMALL = """
name = "small"
survey = "ivs"
seeds = 5
max_tokens = 24
[[tone]]
name = "standard"
variants = ["You are a person responding to a survey question.", "You are a human being."]
[[tone]]
name = "combative"
variants = ["You are a person. Answer directly."]
[[item]]
variable = "F063"
label = "Importance of God"
text = "How important is God in your life? 10 means very important, 1 not at all important."
format = "Answer with one whole number from 1 to 10 and nothing else."
options = [
  { code = 1, label = "Not at all important" }, { code = 2, label = "2" },
  { code = 3, label = "3" }, { code = 4, label = "4" }, { code = 5, label = "5" },
  { code = 6, label = "6" }, { code = 7, label = "7" }, { code = 8, label = "8" },
  { code = 9, label = "9" }, { code = 10, label = "Very important" },
]
[[item]]
variable = "A165"
label = "Trust in people"
text = "Would you say that most people can be trusted or that you need to be very careful?"
format = "Answer with the number of one option and nothing else."
options = [
  { code = 1, label = "Most people can be trusted" },
  { code = 2, label = "Need to be very careful" },
]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("validity")
    (path / "small.toml").write_text(SMALL)
    v.prompts(path, path / "small.toml")
    return path


@pytest.fixture(scope="module")
def result(folder, model):
    (done,) = v.run(folder, f"vllm:{model}")
    return done


def test_one_engine_answers_both_stages_at_their_temperatures(folder, result):
    assert (result.total, result.missing) == (2 * (3 + 5), 0)
    assert "error" not in result.statuses
    assert not result.seed_lower_bound
    runs = {row["stage"]: row for row in v.load_runs(folder).to_pylist()}
    assert (runs["variants"]["temperature"], runs["seeds"]["temperature"]) == (0.0, 1.0)
    assert runs["variants"]["run_id"] != runs["seeds"]["run_id"]
    rows = v.load_answers(folder).to_pylist()
    print(Counter((row["stage"], row["status"], row["reason"]) for row in rows))
    # At temperature 1 the same prompt gets different texts, each with a seed of its own.
    texts = {row["text"] for row in rows if row["stage"] == "seeds" and row["item"] == "F063"}
    assert len(texts) > 1
    run = folder / "validity" / "answers" / f"run={result.run_ids['seeds']}"
    parts = run.glob("kind=*/part-*.parquet")
    seeds = [s for p in parts for s in read_parquet(p, schema.VALIDITY_ANSWERS)["seed"].to_pylist()]
    assert len(set(seeds)) == len(seeds) == 10


def test_a_second_call_starts_no_engine_and_asks_nothing(folder, result, model):
    (again,) = v.run(folder, f"vllm:{model}")
    assert again.already_done == again.total
    assert again.seconds < 20


def test_components_of_a_real_model_beside_a_reference(folder, result):
    v.run(folder, "reference:uniform")
    scored = v.score(folder, n_resamples=50)
    assert (scored.models, scored.items) == (2, 2)
    rows = read_parquet(folder / "validity" / "components.parquet", schema.VALIDITY_COMPONENTS)
    for row in rows.to_pylist():
        assert (row["status"] == "undefined_noise") == (
            min(row["n_variants_valid"], row["n_seeds_valid"]) < 2
        )
