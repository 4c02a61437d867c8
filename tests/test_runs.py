"""Before, beside and after a run: plans, samples, status, removal, and what the user is told."""

from __future__ import annotations

import json
import sys
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from proofs.scripted import ScriptedEngine

import chronocore as cc
from chronocore.engines import Answer, EngineOptions
from chronocore.predict import requests_of
from chronocore.sampling import sampled_pairs
from chronocore.stream import Progress
from chronocore_cli.progress import duration, progress_line


def pairs_of(counts, prefix="p"):
    shifts = [shift for shift, n in counts.items() for _ in range(n)]
    ids = [f"{prefix}{i:04d}" for i in range(len(shifts))]
    return pa.table({"pair_id": ids, "shift": shifts})


PAIRS = pairs_of({"stable": 400, "moderate": 300, "strong": 120, "very_strong": 80})


def test_a_sample_has_75_pairs_a_class():
    drawn = sampled_pairs(PAIRS, 300, by="shift")
    assert Counter(drawn["shift"].to_pylist()) == dict.fromkeys(
        ("stable", "moderate", "strong", "very_strong"), 75
    )
    assert len(set(drawn["pair_id"].to_pylist())) == 300


def test_a_sample_does_not_depend_on_the_order_of_the_rows():
    backwards = PAIRS.take(list(range(len(PAIRS)))[::-1])
    for by in (None, "shift"):
        one = sampled_pairs(PAIRS, 40, by=by, seed=3)["pair_id"].to_pylist()
        other = sampled_pairs(backwards, 40, by=by, seed=3)["pair_id"].to_pylist()
        assert sorted(one) == sorted(other)
        assert other == one[::-1]


def test_a_larger_sample_holds_the_smaller_and_another_seed_is_another_sample():
    small = set(sampled_pairs(PAIRS, 40, by="shift")["pair_id"].to_pylist())
    assert small < set(sampled_pairs(PAIRS, 80, by="shift")["pair_id"].to_pylist())
    other = set(sampled_pairs(PAIRS, 40, by="shift", seed=1)["pair_id"].to_pylist())
    assert len(small & other) < 20


def test_a_sample_is_uniform_within_a_class():
    counts = Counter()
    for seed in range(600):
        counts.update(
            sampled_pairs(pairs_of({"stable": 20}), 20, by="shift", seed=seed)[
                "pair_id"
            ].to_pylist()
        )
    # 5 of 20: each pair is drawn 150 times on average, with a deviation of 10.6
    assert len(counts) == 20
    assert all(150 - 5 * 10.6 < n < 150 + 5 * 10.6 for n in counts.values())


def test_small_classes_give_what_they_have_and_rests_go_to_the_first():
    drawn = sampled_pairs(pairs_of({"stable": 9, "moderate": 9, "strong": 1}), 10, by="shift")
    assert Counter(drawn["shift"].to_pylist()) == {"stable": 3, "moderate": 3, "strong": 1}


def test_a_sampled_run_asks_about_whole_pairs_and_grows(study):
    opened = cc.Study.open(study)
    asked = requests_of(opened, ("dated", "undated"), sample=12, by="shift")
    where = Counter((r.survey, r.variable, r.country) for r in asked)
    assert len(where) == 12
    assert set(where.values()) == {3}
    first = cc.predict(study, ScriptedEngine(), sample=12, by="shift")
    assert first.total == 36
    more = cc.predict(study, ScriptedEngine())
    assert (more.run_id, more.already_done, more.total) == (first.run_id, 36, 387)


def test_a_sample_that_is_smaller_than_asked_for_is_noted(study, run_cli):
    counts = Counter(cc.Study.open(study).pairs()["shift"].to_pylist())
    short = {shift: n for shift, n in counts.items() if n < 40}
    assert short
    result = cc.predict(study, "reference:pooled", sample=160, by="shift")
    (notice,) = result.notices
    drawn = sum(min(n, 40) for n in counts.values())
    assert result.total == 3 * drawn
    assert notice.startswith(f"the sample has {drawn} of the 160 pairs asked for: ")
    for shift, n in short.items():
        assert f"{n} of 40 {shift.replace('_', ' ')}" in notice
    arguments = ("predict", study, "--model", "reference:pooled", "--sample", "160")
    for more in ((), ("--dry-run",)):
        done = run_cli(*arguments, "--by", "shift", *more)
        assert (done.returncode, done.stderr.splitlines()) == (0, [notice])
        told = json.loads(run_cli(*arguments, "--by", "shift", *more, "--json").stdout)
        assert (told["notes"] if more else told["notices"]) == [notice]
    assert cc.plan(study, "reference:pooled", sample=4, by="shift").notes == []
    assert cc.plan(study, "reference:pooled", sample=129).notes == []
    assert cc.plan(study, "reference:pooled", sample=300).notes == [
        "the sample has 129 of the 300 pairs asked for: the study has no more"
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample": 0}, "at least 1 pair"),
        ({"by": "shift"}, "say how many pairs"),
        ({"sample": 4, "by": "country"}, "not by 'country'"),
    ],
)
def test_samples_that_make_no_sense_are_refused(study, settings, message):
    with pytest.raises(cc.ConfigurationError, match=message):
        cc.predict(study, "reference:uniform", **settings)
    with pytest.raises(cc.ConfigurationError, match=message):
        cc.plan(study, "reference:uniform", **settings)


def test_a_plan_counts_what_predict_would_ask(study):
    plan = cc.plan(study, "reference:uniform", repeats=2)
    assert (plan.total, plan.already_done, plan.pending) == (774, 0, 774)
    assert plan.prompts == {"dated": 258, "undated": 129}
    cc.predict(study, "reference:uniform")
    plan = cc.plan(study, "reference:uniform", repeats=2)
    assert (plan.total, plan.already_done, plan.pending) == (774, 387, 387)
    assert (plan.prompt_tokens, plan.completion_tokens) == (0, 0)  # nothing is generated
    assert sorted(p.name for p in (study / "predictions").iterdir()) == [f"run={plan.run_id}"]


class Counting(ScriptedEngine):
    def count_tokens(self, request):
        return len(request.user.split())


def test_a_plan_estimates_tokens_time_and_cost(study, monkeypatch):
    engine = ScriptedEngine(errors=60)
    monkeypatch.setattr(sys.modules["chronocore.plan"], "open_engine", lambda *_: engine)
    opened = cc.Study.open(study)
    asked = requests_of(opened, ("dated", "undated"))
    plan = cc.plan(
        study, "vllm:scripted", repeats=2, price_in=2.0, price_out=8.0, requests_per_minute=60
    )
    characters = 2 * sum(len(r.system) + len(r.user) for r in asked)
    assert plan.prompt_tokens == round(characters / 4)
    assert "4 characters" in plan.counted_by
    assert (plan.completion_tokens, plan.completion_from) == (2 * 387 * 120, "at most")
    assert plan.cost == pytest.approx((plan.prompt_tokens * 2 + plan.completion_tokens * 8) / 1e6)
    assert plan.seconds == pytest.approx(774)
    assert [sample["kind"] for sample in plan.samples] == ["dated", "dated", "undated"]
    assert len({sample["user"].split("\n")[0] for sample in plan.samples}) == 1  # one country
    first = cc.predict(study, engine)
    engine = Counting()
    plan = cc.plan(study, "vllm:scripted")
    assert plan.pending == first.statuses["error"]
    errors = set(
        opened.predictions(first.run_id)
        .filter(pc.equal(opened.predictions(first.run_id)["status"], "error"))["prompt_id"]
        .to_pylist()
    )
    exact = sum(len(r.user.split()) for r in asked if r.prompt_id in errors)
    assert plan.prompt_tokens == exact
    assert plan.counted_by == "the model's tokenizer"
    assert "earlier" in plan.completion_from
    assert 0 < plan.completion_tokens < 120 * plan.pending
    assert plan.seconds is not None


def test_a_plan_for_an_engine_that_is_not_installed_says_so(study, monkeypatch):
    def missing(*_):
        raise cc.MissingDependencyError("vLLM is not installed")

    monkeypatch.setattr(sys.modules["chronocore.plan"], "open_engine", missing)
    plan = cc.plan(study, "vllm:x")
    assert plan.run_id is None
    assert plan.pending == 387
    assert plan.notes == ["what is answered already is not known: vLLM is not installed"]


def test_a_plan_says_which_key_is_missing_and_goes_by_answers_alone(study, monkeypatch, run_cli):
    pytest.importorskip("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    plan = cc.plan(study, "openai:m")
    (note,) = plan.notes
    assert note.startswith("before this can be asked: the environment variable OPENAI_API_KEY is")
    (note,) = cc.plan(study, "openai:m", api_key_env="MINE").notes
    assert "MINE is not set" in note
    assert "(--api-key-env)" in note
    assert cc.plan(study, "openai:m", base_url="http://localhost:1/v1").notes == []
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert cc.plan(study, "openai:m").notes == []
    # Errors say nothing about the speed of a model.
    engine = ScriptedEngine(errors=256)
    cc.predict(study, engine)
    monkeypatch.setattr(sys.modules["chronocore.plan"], "open_engine", lambda *_: engine)
    plan = cc.plan(study, "vllm:scripted")
    assert (plan.pending, plan.seconds) == (387, None)


def test_status_says_how_far_every_run_is(study):
    cc.predict(study, "reference:pooled", sample=10)
    made = cc.predict(study, ScriptedEngine(errors=60), repeats=2)
    pooled, scripted = cc.status(study)
    assert (pooled.label, scripted.label) == ("pooled", "scripted")
    assert pooled.done == {"dated": 20, "undated": 10}
    assert pooled.total == scripted.total | {"dated": 258, "undated": 129}
    assert scripted.total == {"dated": 516, "undated": 258}
    assert made.statuses["error"] > 60
    assert sum(scripted.done.values()) == 774 - made.statuses["error"]  # these are no answers
    assert scripted.statuses == made.statuses
    assert scripted.attempts == 774
    assert (scripted.prompt_tokens, scripted.completion_tokens) == (
        made.prompt_tokens, made.completion_tokens,
    )  # fmt: skip
    assert scripted.size == sum(
        p.stat().st_size for p in study.glob(f"**/run={made.run_id}/**/*.parquet")
    )
    assert not scripted.writing
    assert scripted.last_write.endswith("+00:00")


def test_a_removed_run_leaves_nothing(study):
    cc.predict(study, ScriptedEngine(errors=60))
    cc.predict(study, ScriptedEngine())
    cc.predict(study, "reference:pooled")
    cc.score(study)
    assert cc.remove_run(study, "scripted") >= 5
    opened = cc.Study.open(study)
    assert [run["label"] for run in opened.runs().to_pylist()] == ["pooled"]
    run = cc.predict(study, ScriptedEngine()).run_id
    cc.remove_run(study, run)
    assert not list(study.rglob(f"*{run}*/**/*"))
    assert not list(study.rglob(f"run={run}"))
    with pytest.raises(cc.StudyError, match="no run 'scripted'"):
        cc.remove_run(study, "scripted")
    cc.score(study)


def test_the_command_line_does_the_same(study, run_cli):
    sample = ("--sample", "8", "--by", "shift")
    done = run_cli("predict", study, "--model", "reference:pooled", *sample, "--json")
    assert json.loads(done.stdout)["total"] == 24
    done = run_cli("predict", study, "--status")
    assert done.stdout.splitlines()[0].startswith("pooled (run r")
    assert "16/258 dated, 8/129 undated" in done.stdout
    done = run_cli("predict", study, "--compact", "pooled", "--json")
    assert json.loads(done.stdout) == {"pooled": {"before": 2, "after": 2, "notices": []}}
    done = run_cli("predict", study, "--model", "openai:some-model", "--dry-run",
                   "--price-in", "2", "--price-out", "8", "--json")  # fmt: skip
    plan = json.loads(done.stdout)
    assert plan["pending"] == 387
    assert plan["cost"] == pytest.approx(
        (plan["prompt_tokens"] * 2 + plan["completion_tokens"] * 8) / 1e6
    )
    done = run_cli("predict", study, "--remove", "pooled")
    assert done.stdout == "removed pooled: 2 files\n"
    assert json.loads(run_cli("predict", study, "--status", "--json").stdout) == {"runs": []}


def test_a_run_with_nothing_left_ends_well_and_its_report_is_made_again(study, run_cli):
    for name in ("altair", "vl_convert", "jinja2"):
        pytest.importorskip(name)
    predict = ("predict", study, "--model", "reference:pooled")
    assert run_cli(*predict).returncode == 0
    assert run_cli("score", study, "--resamples", "10").returncode == 0
    assert run_cli("report", study).returncode == 0
    page = (study / "report.html").read_text(encoding="utf-8")
    (study / "report.html").unlink()
    again = run_cli(*predict, "--json")
    assert (again.returncode, json.loads(again.stdout)["already_done"]) == (0, 387)
    assert run_cli("report", study).returncode == 0
    made = (study / "report.html").read_text(encoding="utf-8")
    assert len(made) == len(page) > 10_000


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--status", "--compact"),
        ("--status", "--model", "reference:pooled"),
        ("--model", "reference:pooled", "--price-in", "1"),
        ("--model", "reference:pooled", "--engine-arg", "novalue"),
    ],
)
def test_wrong_usage_is_told(study, arguments):
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    done = CliRunner().invoke(cli, ["predict", str(study), *arguments])
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


def test_prompts_a_model_left_without_an_answer_are_a_failure(study, monkeypatch, capsys):
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    class Forgets(ScriptedEngine):
        def answers(self, requests):
            for number, answer in enumerate(super().answers(requests)):
                if number >= 5:
                    yield answer

    monkeypatch.setattr(sys.modules["chronocore.predict"], "open_engine", lambda *_: Forgets())
    done = CliRunner().invoke(cli, ["predict", str(study), "--model", "vllm:x"])
    assert done.exit_code == 1
    assert "5 prompts got no answer; run the same command again" in done.output


def test_garbage_is_shown_as_it_came_with_the_reason(study, monkeypatch):
    """A model at a temperature far too high: what it wrote, and why that is no answer."""
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    garbage = 'ossa\n\x1b[31m{"1": lorem\u202e' + " ipsum" * 500
    declined = "I'm sorry, but I cannot help with that."

    class Hot(ScriptedEngine):
        def answers(self, requests):
            for place, one in enumerate(requests):
                if place % 3 == 2:
                    yield Answer(one.prompt_id, one.repeat, error="timeout")
                else:
                    yield Answer(one.prompt_id, one.repeat, text=(garbage, declined)[place % 3])

    monkeypatch.setattr(sys.modules["chronocore.predict"], "open_engine", lambda *_: Hot())
    done = CliRunner().invoke(cli, ["predict", str(study), "--model", "vllm:x"])
    assert done.exit_code == 1
    lines = done.output.splitlines()
    reason = lines.index("    129  invalid: missing_option")
    assert lines[reason + 1].startswith(
        '         such as \'ossa\\n\\x1b[31m{"1": lorem\\u202e ipsum'
    )
    assert len(lines[reason + 1]) < 130
    assert f'         such as "{declined}"' in lines
    reason = lines.index("    129  error: timeout")
    assert not lines[reason + 1].startswith("         such as")
    assert "no answer is usable: there is nothing to score" in lines
    result = cc.predict(study, Hot())
    assert result.examples == {
        "invalid: missing_option": f"{garbage[:300]}…", "refused: refusal": declined,
    }  # fmt: skip
    assert result.examples.keys() == result.reasons.keys() - {"error: timeout"}


def test_what_got_no_answer_is_listed_and_may_be_allowed(study, monkeypatch):
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    engine = ScriptedEngine(errors=40)
    monkeypatch.setattr(sys.modules["chronocore.predict"], "open_engine", lambda *_: engine)
    command = ["predict", str(study), "--model", "vllm:x"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1
    asked = requests_of(cc.Study.open(study), ("dated", "undated"))
    run = cc.Study.open(study).runs()["run_id"][0].as_py()
    rows = {r["prompt_id"]: r for r in cc.Study.open(study).predictions(run).to_pylist()}
    expected = [
        f"{r.survey} {r.variable} {r.country} {r.kind} {r.year or ''}".strip() + ": endpoint"
        for r in asked
        if rows[r.prompt_id]["status"] == "error"
    ]
    assert len(expected) > 20
    listed = [line for line in done.stderr.splitlines() if line.startswith("  ")]
    assert listed == [
        *(f"  no answer: {name}" for name in expected[:20]),
        f"  and {len(expected) - 20} more",
    ]
    assert cc.predict(study, ScriptedEngine(errors=40)).failed == expected[:20]
    allowed = CliRunner().invoke(cli, [*command, "--allow-errors"])
    assert allowed.exit_code == 0
    assert f"{len(expected)} prompts got no answer; run the same command again" in allowed.stderr
    engine = ScriptedEngine()
    done = CliRunner().invoke(cli, [*command, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["already_done"]) == (0, 387 - len(expected))
    assert told["failed"] == []


def test_named_arguments_of_vllm_reach_it(study, monkeypatch):
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    asked = []

    def opened(spec, options, gold):
        asked.append(options)
        return ScriptedEngine()

    monkeypatch.setattr(sys.modules["chronocore.predict"], "open_engine", opened)
    done = CliRunner().invoke(
        cli,
        ["predict", str(study), "--model", "vllm:x", "--dtype", "half", "--max-model-len", "512",
         "--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.5", "--concurrency", "7",
         "--engine-arg", "swap_space=1", "--structured", "--seed", "3", "--temperature", "0.5"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert asked == [
        EngineOptions(
            structured=True, temperature=0.5, seed=3, max_in_flight=7,
            engine_args={"dtype": "half", "max_model_len": 512, "tensor_parallel_size": 2,
                         "gpu_memory_utilization": 0.5, "swap_space": 1},
        )
    ]  # fmt: skip


# -- what the user sees ------------------------------------------------------------------------


def test_the_progress_line_says_all_of_it():
    state = Progress(
        total=300, done=101, already_done=87, completion_tokens=4000, in_flight=64,
        first_answer=100.0,
        statuses=Counter(ok=80, recovered=10, refused=5, invalid=4, truncated=2),
    )  # fmt: skip
    assert progress_line(state, 120.0) == (
        "188/387, 90 valid (10 recovered), 5 refused, 6 invalid, 200 tokens/s, 64 in flight, "
        "40 s left"
    )
    state.statuses["error"] = 3
    state.stopping = True
    assert progress_line(state, 120.0).endswith(
        "3 without an answer, 200 tokens/s, 64 in flight, finishing these; "
        "Ctrl-C again stops at once"
    )
    assert "waiting for the first answer" in progress_line(Progress(total=5), 3.0)
    throttled = Progress(total=5, in_flight=2, retries=12, waiting=74.6)
    assert progress_line(throttled, 3.0).endswith(
        "2 in flight, 12 retries, waiting 1 min 15 s to send, waiting for the first answer"
    )
    brief = Progress(total=5, in_flight=2, retries=1, waiting=0.4)
    assert "2 in flight, 1 retry, waiting for" in progress_line(brief, 3.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (86_400, "24 h 0 min"),
    ],
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text


def test_without_a_terminal_a_line_comes_every_30_seconds(monkeypatch, capsys):
    from chronocore_cli import progress

    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress.asking_progress() as show:
        for second in range(0, 100):
            now[0] = float(second)
            show(Progress(total=10, done=second // 10))
        show(Progress(total=10, stopping=True))
        show(Progress(total=10, stopping=True))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["3/10", "6/10", "9/10", "0/10"]
    assert "finishing these" in lines[-1]


def test_a_run_that_never_got_an_answer_leaves_its_label(study, run_cli):
    address = "http://127.0.0.1:9/v1"  # nobody listens there
    options = ("--model", "openai:m", "--base-url", address, "--retries", "0", "--sample", "1")
    done = run_cli("predict", study, *options)
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert cc.status(study) == []
    assert "m" not in cc.Study.open(study).runs()["label"].to_pylist()


@pytest.mark.parametrize("extra", ["--dry-run", "--status", "--compact"])
def test_removing_goes_with_nothing_else(study, run_cli, extra):
    cc.predict(study, "reference:uniform")
    done = run_cli("predict", study, "--remove", "uniform", extra)
    assert done.returncode == 2
    assert "do not go together" in done.stderr
    assert len(cc.status(study)) == 1


def test_a_status_shows_the_kind_that_has_not_begun(study, run_cli):
    cc.predict(study, "reference:uniform", kinds=["dated"])
    (one,) = cc.status(study)
    assert (one.done, one.total) == (
        {"dated": 258, "undated": 0}, {"dated": 258, "undated": 129},
    )  # fmt: skip
    assert "258/258 dated, 0/129 undated" in run_cli("predict", study, "--status").stdout
    cc.predict(study, "reference:persistence", kinds=["modal"])
    modal = next(run for run in cc.status(study) if run.model == "persistence")
    assert list(modal.done) == ["modal"]
