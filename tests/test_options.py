"""Exit status 2 for what no command could do, 1 for what this one could not: of every option."""

from __future__ import annotations

import os
import shutil

import click
import pytest
from command_line import run_here, run_process

import chronocore as cc
from chronocore_cli.main import cli

NO_NUMBERS = ("nan", "inf", "-inf", "1e999", "", "x", "-1", "1" + "0" * 30)


def commands(group=cli, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def numeric_options():
    for path, command in commands():
        for option in command.params:
            kind = getattr(option, "type", None)
            if isinstance(option, click.Option) and isinstance(
                kind, click.IntRange | click.FloatRange | click.types.IntParamType
                | click.types.FloatParamType
            ):  # fmt: skip
                yield pytest.param(path, option, id=f"{' '.join(path)} {option.opts[0]}")


def arguments_of(path):
    command = cli
    for name in path:
        command = command.commands[name]
    return ["x" for one in command.params if isinstance(one, click.Argument) and one.nargs == 1]


@pytest.mark.parametrize(("path", "option"), list(numeric_options()))
def test_a_number_out_of_its_range_is_wrong_usage_whatever_the_option(path, option):
    assert isinstance(option.type, click.IntRange | click.FloatRange), "it has no range"
    for value in NO_NUMBERS:
        if len(value) > 9 and isinstance(option.type, click.FloatRange) and not option.type.max:
            continue  # a large number is one
        done = run_here(*path, *arguments_of(path), f"{option.opts[0]}={value}")
        assert done.returncode == 2, (value, done)
        assert option.opts[0] in done.stderr, value
        assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "--boundaries", "nan,0.1,0.2"],
        ["score", "--boundaries", "0.1,0.2,inf"],
        ["score", "--boundaries", ""],
        ["score", "--resamples", "10000001"],
        ["sweep", "--boundaries", "0.3,0.2,0.1"],
        ["sweep", "--resamples", "10000000000"],
        ["sweep", "--seeds", "1000000000"],
        ["sweep", "--seed", str(2**63)],
        ["sweep", "--instruction", "nothing"],
        ["noise", "--n", "0"],
        ["noise", "--n", "1000000000000"],
        ["noise", "--n", ""],
        ["noise", "--repeats", str(2**62)],
        ["predict", "--model", "uniform"],
        ["predict", "--model", ""],
        ["predict", "--model", "reference:unifrom"],
        ["predict", "--model", "vllm:"],
        ["predict", "--model", "vllm:a\x1b[2Jb"],
        ["predict", "--model", "vllm:a\udcffb"],
        ["predict", "--model", "reference:uniform", "--name", ""],
        ["predict", "--model", "reference:uniform", "--name", "a\nb"],
        ["predict", "--model", "reference:uniform", "--name", "\udcff"],
        ["predict", "--model", "reference:uniform", "--revision", "\udcff"],
        ["predict", "--model", "reference:uniform", "--engine-arg", "x=\udcff"],
        ["predict", "--model", "reference:uniform", "--base-url", "http://x"],
        ["predict", "--model", "reference:uniform", "--by", "shift"],
        ["predict", "--model", "reference:uniform", "--kinds", ""],
        ["predict", "--model", "reference:uniform", "--max-tokens", str(2**31)],
        ["predict", "--model", "reference:uniform", "--samples", "1"],
        ["tables", "t99"],
        ["tables", "--as", "x"],
        ["report", "--formats", "gif"],
    ],
)
def test_an_argument_that_makes_no_sense_is_wrong_usage(study, arguments):
    cc.predict(study, "reference:persistence")
    cc.score(study, resamples=40)
    done = run_here(arguments[0], study, *arguments[1:])
    assert done.returncode == 2, done
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def two_runs(study, tmp_path):
    cc.predict(study, "reference:persistence")
    from chronocore.store import Study

    prompts = Study.open(study).prompts().to_pylist()
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"prompt_id": p["prompt_id"], "probs": [1 / len(p["options"])] * len(p["options"])}
        for p in prompts if p["kind"] != "modal"
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "mine.parquet")
    cc.predict(study, f"file:{tmp_path / 'mine.parquet'}", name="mine")
    cc.score(study, resamples=40)
    return study


def test_tables_of_a_run_without_a_row_name_those_there_are(two_runs):
    done = run_here("tables", two_runs, "t08", "--run", "persistence")
    assert done.returncode == 1
    assert "there are rows of 'mine'" in done.stderr
    assert run_here("tables", two_runs, "t08", "--run", "mine").returncode == 0


def test_a_renamed_run_is_known_by_its_new_name_at_once(two_runs, tmp_path):
    before = cc.tables(two_runs, "t08")["t08"]
    cc.predict(two_runs, f"file:{tmp_path / 'mine.parquet'}", name="another name")
    done = run_here("tables", two_runs, "t08", "--run", "another name")
    assert done.returncode == 0
    assert "not scored yet" not in done.stderr
    after = cc.tables(two_runs, "t08", run="another name")["t08"]
    assert set(after["label"].to_pylist()) == {"another name"}
    assert after["estimate"].to_pylist() == before["estimate"].to_pylist()
    done = run_here("tables", two_runs, "--run", "mine")
    assert done.returncode == 1
    assert "another name" in done.stderr


def test_a_report_is_not_written_into_a_folder_that_is_not_there(two_runs, tmp_path):
    done = run_here("report", two_runs, "--output", tmp_path / "new" / "folder" / "x.html")
    assert done.returncode == 1
    assert "make it first" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_study_whose_path_is_no_text_can_be_used(two_runs, tmp_path):
    folder = os.fsencode(tmp_path / "st") + b"\xff"
    shutil.copytree(os.fsencode(two_runs), folder)
    path = os.fsdecode(folder)
    for command, *words in (
        ["tables", "t08"], ["score", "--resamples", "40"], ["predict", "--status"],
        ["report", "--formats", "none"],
    ):  # fmt: skip
        done = run_here(command, path, *words)
        assert done.returncode == 0, done
        assert "Traceback" not in done.stderr
    assert os.path.exists(folder + b"/report.html")  # noqa: PTH110


def test_figures_without_docstrings_are_refused_with_what_to_do(two_runs):
    done = run_process("report", two_runs, env={"PYTHONOPTIMIZE": "2"})
    assert done.returncode == 1
    assert "unset PYTHONOPTIMIZE" in done.stderr


def test_a_level_near_one_is_not_told_as_a_hundred(two_runs):
    done = run_here("score", two_runs, "--confidence-level", "0.9999999999999999")
    assert done.returncode == 0
    assert "100% " not in done.stdout + done.stderr
