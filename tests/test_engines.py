"""How the vLLM engine behaves when its process does not, with a scripted process."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chronocore.elicitation import read_answer
from chronocore.engines import EngineOptions, Option, Request, open_engine, parse_model_spec
from chronocore.errors import ConfigurationError, EngineError
from chronocore.identity import run_id

SCRIPTED = Path(__file__).resolve().parent / "scripted"

pytest.importorskip("psutil")
if importlib.util.find_spec("vllm") is not None:
    pytest.skip("the real vLLM is installed", allow_module_level=True)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "chat_template.jinja").write_text("plain")
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def vllm(model, monkeypatch):
    """Return a maker of engines whose process follows a script."""
    monkeypatch.syspath_prepend(str(SCRIPTED))
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # the engine sets it, undo it
    made = []

    def make(script=None, **options):
        monkeypatch.setenv("SCRIPTED_VLLM", json.dumps(script or {}))
        engine = open_engine(f"vllm:{model}", EngineOptions(**options), lambda: None)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()
    for name in [name for name in sys.modules if name.split(".")[0] in ("vllm", "transformers")]:
        del sys.modules[name]


def request(name="q", length=20, **fields):
    given = {
        "prompt_id": name, "repeat": 0, "kind": "dated", "system": "", "user": "x" * length,
        "options": (Option(1, "yes"), Option(2, "no")), "survey": "wvs", "variable": "E143",
        "country": "8", "wave": 3, "year": 1998,
    }  # fmt: skip
    return Request(**(given | fields))


def requests(n, **fields):
    return [request(f"q{i}", 20 + i, **fields) for i in range(n)]


def collect(answers, done):
    """Keep what comes before an error."""
    for answer in answers:
        done.append(answer)


def asked(engine):
    """Return the process of the engine."""
    (process,) = (p for p in engine._processes if p.name == "EngineCore")
    return process


# -- answers ----------------------------------------------------------------------------------


def test_every_request_gets_its_own_answer_whatever_else_comes(vllm):
    engine = vllm({"twice": True})
    answers = list(engine.answers(requests(20)))
    assert [a.prompt_id for a in answers] == [f"q{i}" for i in range(20)]
    for place, answer in enumerate(answers):
        assert json.loads(answer.text)["1"] == answer.prompt_tokens == 37 + place
        assert (answer.completion_tokens, answer.finish_reason) == (3, "stop")


def test_a_lost_request_and_one_inside_that_failed_are_errors_the_rest_is_there(vllm):
    lost = list(vllm({"lose": 7}).answers(requests(20)))
    assert len(lost) == 20
    assert [a.prompt_id for a in lost if a.error] == ["q7"]
    for word in ("abort", "error", "weary", "content_filter"):
        assert {a.error for a in vllm({"finish": word}).answers(requests(3))} == {"engine"}
    for word in ("stop", "length", "max_tokens"):
        answers = list(vllm({"finish": word}).answers(requests(3)))
        assert {(a.error, a.finish_reason) for a in answers} == {(None, word)}


@pytest.mark.parametrize(
    "arguments",
    [{"hf_token": "abc"}, {"a": {"api_key": "abc"}}, {"rope_theta": math.nan}, {"x": [math.inf]}],
)
def test_engine_arguments_hold_no_key_and_finite_numbers(vllm, arguments):
    with pytest.raises(ConfigurationError) as caught:
        vllm(engine_args=arguments)
    assert "abc" not in str(caught.value)


def test_prompts_over_the_limit_are_error_rows_and_the_rest_completes(vllm):
    """A prompt as long as the limit leaves no room for an answer either."""
    engine = vllm({"reject": 97}, engine_args={"max_model_len": 100})
    lengths = [50, 5000, 82, 83, 84, 80, 60]  # and 17 characters of the template
    answers = {
        a.prompt_tokens: a.error for a in engine.answers([request(f"q{n}", n) for n in lengths])
    }
    assert answers == {
        67: None, 5017: "context_length", 99: None, 100: "context_length",
        101: "context_length", 97: "engine", 77: None,
    }  # fmt: skip
    assert engine.notes["first_rejection"] == "this prompt is not liked"


def test_requests_are_handed_over_as_others_finish(vllm):
    pulled = []

    class Lazy:
        def __len__(self):
            return 500

        def __iter__(self):
            for one in requests(500):
                pulled.append(one)
                yield one

    engine = vllm({"delay": 0.01}, engine_args={"max_num_seqs": 8})
    stream = engine.answers(Lazy())
    started = time.monotonic()
    next(stream)
    assert time.monotonic() - started < 15
    assert len(pulled) == 16  # twice what it works on
    for _ in range(10):
        next(stream)
    assert engine.in_flight == 15
    assert len(pulled) == 26
    stream.close()
    assert engine.in_flight == 0
    small = vllm(max_in_flight=3)
    stream = small.answers(requests(9))
    next(stream)
    assert small.in_flight == 2


def test_what_is_sent(vllm, monkeypatch):
    seen = []
    engine = vllm(temperature=0.7, seed=3, structured=True)
    options = engine._sampling_params(request())
    seen.append(options.seed)
    assert (options.n, options.top_p, options.max_tokens) == (1, 1.0, 120)
    assert options.stop is None  # one could occur inside the reasoning
    assert json.loads(options.structured_outputs.json)["required"] == ["1", "2"]
    seen += [engine._sampling_params(request(repeat=r)).seed for r in (1, 2)]
    assert len(set(seen)) == 3
    arguments = engine._arguments()
    assert arguments["enable_prefix_caching"] is True
    assert arguments["structured_outputs_config"].disable_any_whitespace is True
    greedy = vllm()._sampling_params(request())
    assert (greedy.temperature, greedy.seed) == (0.0, None)


def test_on_a_processor_prompts_are_not_split_where_something_is_drawn(vllm, monkeypatch):
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    engine = vllm()  # puts the stand-in on the path
    from vllm.platforms import current_platform

    monkeypatch.setattr(current_platform, "is_cpu", lambda: True)
    assert "enable_chunked_prefill" not in engine._arguments()
    assert "enable_chunked_prefill" not in vllm(elicitation="logprob")._arguments()
    assert vllm(temperature=0.7)._arguments()["enable_chunked_prefill"] is False
    given = {"enable_chunked_prefill": True}
    assert vllm(temperature=0.7, engine_args=given)._arguments()["enable_chunked_prefill"] is True


def test_sampled_answers_and_first_tokens(vllm):
    sampled = vllm({"text": '{"answer": 2}'}, elicitation="sampled", samples=5)
    one = request(elicitation="sampled")
    (answer,) = sampled.answers([one])
    assert [sample.text for sample in answer.samples] == ['{"answer": 2}'] * 5
    assert answer.completion_tokens == 15
    assert read_answer(answer, one)["probs"] == [0.0, 1.0]
    assert (sampled.settings.temperature, sampled.settings.max_tokens) == (1.0, 32)
    logprob = vllm(elicitation="logprob")
    one = request(elicitation="logprob")
    (answer,) = logprob.answers([one])
    # Two spellings of each letter, each with one part in a hundred.
    assert answer.option_probs == pytest.approx((0.02, 0.02), abs=1e-12)
    row = read_answer(answer, one)  # what the other letters have is most of it
    assert (row["status"], row["reason"], row["probs"]) == ("invalid", "low_mass", None)
    assert row["raw_sum"] == pytest.approx(0.04)
    settings = logprob.settings
    assert settings.temperature is settings.top_p is settings.seed is None
    assert settings.max_tokens == 1


def test_reasoning_that_the_template_opens_is_kept_apart(vllm, model):
    (model / "chat_template.jinja").write_text("thinks")
    text = 'First {"1": 1, "2": 2}.\n</think>\n\n{"1": 3, "2": 1}'
    (answer,) = vllm({"text": text}).answers([request()])
    assert (answer.text, answer.thinking) == ('{"1": 3, "2": 1}', 'First {"1": 1, "2": 2}.')
    (cut,) = vllm({"text": '{"1": 1, "2": 2}', "finish": "length"}).answers([request()])
    row = read_answer(cut, request())
    assert (row["status"], row["thinking"]) == ("truncated", '{"1": 1, "2": 2}')
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    (answer,) = vllm({"text": '{"1": 3, "2": 1}'}, engine_args=off).answers([request()])
    assert answer.text == '{"1": 3, "2": 1}'
    with pytest.raises(ConfigurationError, match="opens with reasoning"):
        list(vllm(elicitation="logprob").answers([request(elicitation="logprob")]))
    assert list(vllm(elicitation="logprob", engine_args=off).answers([request()]))


def test_a_template_without_a_system_role_gets_it_in_the_users(vllm, model):
    (model / "chat_template.jinja").write_text("no system")
    engine = vllm()
    (answer,) = engine.answers([request(system="SYS")])
    assert answer.prompt_tokens == len("<user>SYS\n\n" + "x" * 20 + "<assistant>")
    assert engine.count_tokens(request(system="SYS")) == answer.prompt_tokens
    assert engine.notes["system_role"] == "folded into the user message"


@pytest.mark.parametrize("script", [{}, {"twice": True}, {"reject": 40}])
def test_copies_of_a_model_share_the_requests(vllm, script):
    engine = vllm(script, engine_args={"data_parallel_size": 2, "max_num_seqs": 3})
    answers = {a.prompt_id: a for a in engine.answers(requests(40))}
    assert len(answers) == 40
    assert engine._max_in_flight == 12
    assert len([p for p in engine._processes if p.name == "EngineCore"]) == 2
    for place in range(40):
        answer = answers[f"q{place}"]
        if script.get("reject") == 37 + place:
            assert answer.error == "engine"
        else:
            assert json.loads(answer.text)["1"] == answer.prompt_tokens == 37 + place
    processes = engine._processes
    engine.close()
    assert not any(process.is_alive() for process in processes)


def test_the_death_of_one_copy_ends_the_run_with_its_cause(vllm):
    engine = vllm({"die_after": 9}, engine_args={"data_parallel_size": 2})
    done = []
    with pytest.raises(EngineError, match="ended by SIGKILL"):
        collect(engine.answers(requests(60)), done)
    assert len(done) < 60
    slow = vllm({"delay": 4}, engine_args={"data_parallel_size": 2})
    threading.Timer(1.0, slow.drain, [0.5]).start()
    assert list(slow.answers(requests(9))) == []


# -- identity ---------------------------------------------------------------------------------


def test_what_can_change_an_answer_is_another_run(vllm, model):
    runs = {
        run_id(vllm(**options).settings)
        for options in (
            {}, {"seed": 1}, {"temperature": 0.5}, {"max_tokens": 60}, {"structured": True},
            {"instruction": "national"}, {"elicitation": "sampled"},
            {"elicitation": "sampled", "samples": 21}, {"elicitation": "logprob"},
            {"engine_args": {"dtype": "float32"}},
            {"engine_args": {"chat_template_kwargs": {"enable_thinking": False}}},
        )
    }  # fmt: skip
    assert len(runs) == 11
    sizes = {"tensor_parallel_size": 1, "max_num_seqs": 9, "gpu_memory_utilization": 0.5}
    assert run_id(vllm(engine_args=sizes).settings) == run_id(vllm().settings)
    (model / "config.json").write_text('{"changed": 1}')
    assert run_id(vllm().settings) not in runs


def test_options_that_contradict_are_refused(vllm):
    for options, says in (
        ({"elicitation": "sampeld"}, "did you mean 'sampled'"),
        ({"elicitation": "sampled", "temperature": 0.0}, "count one answer many times"),
        ({"elicitation": "sampled", "samples": 1}, "at least 2"),
        ({"elicitation": "logprob", "temperature": 0.5}, "draws nothing"),
        ({"elicitation": "logprob", "structured": True}, "leave structured out"),
        ({"base_url": "http://x/v1"}, "only an endpoint"),
        ({"engine_args": {"chat_template_kwargs": 1}}, "must be a mapping"),
        ({"engine_args": {"seed": 1}}, "itself"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            vllm(**options)
    with pytest.raises(ConfigurationError, match="no engine argument 'max_len'"):
        list(vllm(engine_args={"max_len": 1}).answers([request()]))
    assert parse_model_spec("openai:a/b:c") == ("openai", "a/b:c")


# -- the end of the process -----------------------------------------------------------------


@pytest.mark.parametrize("script", [{"die_after": 9}, {"die_after": 9, "silent_death": True}])
def test_the_engines_death_is_told_in_a_line_and_what_is_done_stays(vllm, script):
    engine = vllm(script)
    done = []
    started = time.monotonic()
    with pytest.raises(EngineError, match=r"ended by SIGKILL.*run again to continue") as caught:
        collect(engine.answers(requests(40)), done)
    assert time.monotonic() - started < 20
    assert 1 <= len(done) <= 9
    assert "\n" not in str(caught.value)
    # The same engine can be started again.
    os.environ["SCRIPTED_VLLM"] = "{}"
    assert len(list(engine.answers(requests(3)))) == 3


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (
            "ValueError: To serve at least one request with the model's max seq len (131072), "
            "(16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
            "(2.50 GiB).",
            "16.00 GiB needed, 2.50 GiB free",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a "
            "total capacity of 79.10 GiB of which 1.02 GiB is free.",
            "1.96 GiB needed, 1.02 GiB free",
        ),
        (
            "ValueError: Free memory on device (10.5/79.1 GiB) on startup is less than desired "
            "GPU memory utilization (0.9, 71.19 GiB).",
            "71.19 GiB needed, 10.5 GiB free",
        ),
    ],
)
def test_no_room_is_one_line_with_what_is_needed_what_is_free_and_three_settings(vllm, log, says):
    trace = "\n".join(["Traceback (most recent call last):", *["  frame"] * 200, log])
    with pytest.raises(EngineError) as caught:
        list(vllm({"start": trace}).answers([request()]))
    text = str(caught.value)
    assert says in text
    for setting in ("gpu_memory_utilization", "max_model_len", "VLLM_CPU_KVCACHE_SPACE"):
        assert setting in text
    assert "\n" not in text
    assert len(text) < 500


def test_another_failure_to_start_names_its_cause(vllm):
    log = "Traceback\n  x\nValueError: architecture FooForCausalLM is not supported"
    with pytest.raises(EngineError, match="FooForCausalLM is not supported"):
        list(vllm({"start": log}).answers([request()]))


def test_a_shutdown_that_never_returns_ends_within_the_bound(vllm, monkeypatch):
    from chronocore.engines import vllm as module

    monkeypatch.setattr(module, "CLOSE_SECONDS", 7.0)
    engine = vllm({"hang_at_shutdown": True, "ignore_sigterm": True})
    list(engine.answers(requests(2)))
    process = asked(engine)
    started = time.monotonic()
    engine.close()
    assert time.monotonic() - started < 9
    assert not process.is_alive()
    engine.close()


@pytest.mark.slow
def test_a_drain_finishes_what_is_in_flight_and_is_bounded(vllm):
    engine = vllm({"delay": 0.2}, max_in_flight=3)
    stream = engine.answers(requests(100))
    next(stream)
    engine.drain(10)
    assert len(list(stream)) == 2
    slow = vllm({"delay": 4}, max_in_flight=3)
    stream = slow.answers(requests(100))
    threading.Timer(1.0, slow.drain, [0.5]).start()
    started = time.monotonic()
    assert list(stream) == []
    assert time.monotonic() - started < 20
    assert slow.in_flight == 0


# -- processes ------------------------------------------------------------------------------


def test_the_terminals_interrupt_does_not_reach_the_engine(vllm):
    engine = vllm({"delay": 0.05}, max_in_flight=2)
    stream = engine.answers(requests(10))
    next(stream)
    for name in (signal.SIGINT, signal.SIGHUP):
        os.kill(asked(engine).pid, name)
    assert len(list(stream)) == 9
    # Only the engine is shielded.
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGHUP}


SCRIPT = """
import json, os, sys, time
import chronocore as cc
{before}
result = cc.predict(sys.argv[1], "vllm:" + sys.argv[2], kinds=("undated",))
print(json.dumps(result.statuses))
"""


def run_script(text, study, model, script, environment, **options):
    environment = environment | {
        "SCRIPTED_VLLM": json.dumps(script),
        "PYTHONPATH": os.pathsep.join([str(SCRIPTED), environment["PYTHONPATH"]]),
    }
    file = model.parent / "script.py"
    file.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(file), str(study), str(model)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_an_unguarded_script_with_a_shutdown_that_hangs_ends_with_its_status(
    study, model, child_environment
):
    """Files are final, standard output holds results alone, the status is kept."""
    before = "from chronocore.engines import vllm; vllm.CLOSE_SECONDS = 7.0"
    script = {"hang_at_shutdown": True, "ignore_sigterm": True}
    started = time.monotonic()
    process = run_script(SCRIPT.format(before=before), study, model, script, child_environment)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert time.monotonic() - started < 45
    assert set(json.loads(out)) <= {"ok", "invalid"}
    import chronocore as cc

    (run,) = cc.Study.open(study).runs().to_pylist()
    assert len(cc.Study.open(study).predictions(run["run_id"])) == 129


def test_nothing_is_left_when_the_process_is_killed(study, model, child_environment):
    import psutil

    process = run_script(
        SCRIPT.format(before=""), study, model, {"delay": 0.5, "ignore_sigterm": True},
        child_environment, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 40
    children = []
    while time.monotonic() < deadline and len(children) < 2:  # the engine, a resource tracker
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.1)
    time.sleep(1.0)
    process.kill()
    process.communicate(timeout=20)
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert gone
    assert not alive


# -- several models, and processes of others ------------------------------------------------------


COMMAND = """
from chronocore.engines import vllm
vllm.CLOSE_SECONDS = 6.0
from chronocore_cli.main import main
main()
"""


def command(arguments, script, environment):
    environment = environment | {
        "SCRIPTED_VLLM": json.dumps(script),
        "PYTHONPATH": os.pathsep.join([str(SCRIPTED), environment["PYTHONPATH"]]),
    }
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)], env=environment,
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def models(model, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(model, other)
    (other / "config.json").write_text('{"layers": 2}')
    return model, other


@pytest.mark.parametrize("hangs", [False, True])
def test_two_models_in_one_command_have_a_process_each_and_the_device_to_themselves(
    study, models, child_environment, tmp_path, hangs
):
    device = tmp_path / "device"
    script = {"device": str(device), "ignore_sigterm": hangs, "hang_at_shutdown": hangs}
    done = command(
        ["predict", study, "--model", f"vllm:{models[0]}", "--model", f"vllm:{models[1]}",
         "--kinds", "undated", "--sample", "4"], script, child_environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split(" (")[0] for line in done.stdout.splitlines() if "(run r" in line] == [
        "tiny", "other",
    ]  # fmt: skip
    assert len(set(device.read_text().split())) == 2
    import chronocore as cc

    opened = cc.Study.open(study)
    for run in opened.runs().to_pylist():
        table = opened.predictions(run["run_id"])
        assert (len(table), set(table["model"].to_pylist())) == (4, {run["model"]})


def test_the_failure_of_one_model_does_not_keep_the_next_from_its_turn(
    study, models, child_environment, tmp_path
):
    (models[0] / "chat_template.jinja").unlink()
    arguments = ["predict", study, "--model", f"vllm:{models[0]}", "--model", f"vllm:{models[1]}",
                 "--kinds", "undated", "--sample", "4"]  # fmt: skip
    done = command([*arguments, "--json"], {}, child_environment)
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert first.startswith(f"Error: vllm:{models[0]}: ")
    assert last == "Error: 1 of 2 models failed, as said above"
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["label"], run["total"]) == ("other", 4)
    assert "given several times" not in done.stderr


def test_a_folder_without_a_tokenizer_and_a_revision_that_is_none_are_told(
    study, model, child_environment
):
    (model / "chat_template.jinja").unlink()
    for more in ([], ["--dry-run"]):
        done = command(["predict", study, "--model", f"vllm:{model}", *more], {}, child_environment)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line == (
            f"Error: the folder {model} has no tokenizer (tokenizer.json, tokenizer_config.json); "
            "put the tokenizer files of the model beside its weights"
        )
    (model / "tokenizer.json").write_text("")
    done = command(["predict", study, "--model", f"vllm:{model}"], {}, child_environment)
    assert f"Error: the tokenizer in {model} cannot be loaded (" in done.stderr
    hub = ["--model", "vllm:some/model", "--revision", "nope"]
    done = command(["predict", study, *hub], {}, child_environment)
    (line,) = done.stderr.splitlines()
    assert "the model 'some/model' at revision 'nope' is not in the local cache" in line
    assert line.endswith("check the id and the revision, or name a folder")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--model", "reference:pooled", "--name", "x"], "--name names one run"),
        (["--model", "vlm:x"], "did you mean 'vllm'"),
    ],
)
def test_several_models_are_checked_before_the_first_is_asked(study, run_cli, more, says):
    done = run_cli("predict", study, "--model", "reference:uniform", *more)
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert not (study / "runs.parquet").exists()


POLARS = """
import os, sys, threading
import polars
polars.DataFrame({"a": [1, 2, 2] * 100_000}).lazy().group_by("a").len().collect()
import chronocore as cc
result = cc.predict(sys.argv[1], "vllm:" + sys.argv[2], kinds=("undated",), sample=4)
print(result.statuses)
"""


def test_an_engine_is_spawned_where_polars_was_used_before(study, model, child_environment):
    """A forked child has polars' locks without the threads that would free them."""
    process = run_script(POLARS, study, model, {"polars": True}, child_environment)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "invalid" in out or "ok" in out) == (0, True), err


def test_nothing_here_forks():
    """Processes are started by vLLM, which is told to spawn them, and by subprocess."""
    import re

    root = SCRIPTED.parent.parent
    files = [f for name in ("src", "kernels", "cli", "data") for f in (root / name).rglob("*.py")]
    assert len(files) > 100
    forks = re.compile(r"\b(?:fork|forkpty|Pool|ProcessPoolExecutor)\(|[\"']fork[\"']")
    assert [file for file in files if forks.search(file.read_text(encoding="utf-8"))] == []


# -- what is not promised -------------------------------------------------------------------------


class Batched:
    """Answers at temperature 0 that depend on how many requests are worked on together."""

    def __init__(self, max_in_flight):
        from chronocore.engines import RunSettings

        self.settings = RunSettings(
            model="batched", engine="scripted", engine_version="1", temperature=0.0, seed=0
        )
        self.notes = {"batch": str(max_in_flight)}
        self.in_flight = 0
        self._size = max_in_flight

    def answers(self, requests):
        from chronocore.engines import Answer

        waiting = list(requests)
        while waiting:
            batch, waiting = waiting[: self._size], waiting[self._size :]
            for one in batch:
                last = 10.0 + (len(batch) % 5)
                shares = [1.0] * (len(one.options) - 1) + [last]
                yield Answer(one.prompt_id, one.repeat, probs=tuple(shares))

    def close(self):
        pass


def test_equal_answers_in_every_batch_are_not_promised_and_their_noise_is_shown(study, run_cli):
    import numpy as np

    import chronocore as cc

    alone = cc.predict(study, Batched(1))
    # The same run, whatever the size of a batch: repeats show what the size does.
    again = cc.predict(study, Batched(64), repeats=2)
    assert (again.run_id, again.already_done) == (alone.run_id, 387)
    opened = cc.Study.open(study)
    rows = opened.predictions(alone.run_id).to_pylist()
    positions = {
        (item["survey"], item["variable"]): [option["position"] for option in item["options"]]
        for item in opened.items().to_pylist()
    }
    asked = {p["prompt_id"]: positions[p["survey"], p["variable"]]
             for p in opened.prompts().to_pylist()}  # fmt: skip
    answers = {}
    for row in rows:
        answers.setdefault(row["prompt_id"], {})[row["repeat"]] = row["probs"]
    distances = np.array(
        [cc.wasserstein(given[0], given[1], asked[prompt]) for prompt, given in answers.items()]
    )
    assert 0 < (distances > 0).sum() <= 387
    cc.score(study, resamples=50)
    table = cc.tables(study, ["repeats"])["repeats"].to_pylist()
    shown = {row["measure"]: row for row in table}
    assert shown["identical"]["estimate"] == pytest.approx(100 * (distances == 0).mean())
    assert shown["mean_distance"]["estimate"] == pytest.approx(distances.mean())
    assert {row["n"] for row in shown.values()} == {387}
    # Kinds of prompts apart, and all together as the last line of each measure.
    kind = {p["prompt_id"]: p["kind"] for p in opened.prompts().to_pylist()}
    by = {(row["item"], row["measure"]): row for row in table}
    assert {key[0] for key in by} == {"dated", "undated", None}
    for name, n in (("dated", 258), ("undated", 129)):
        own = np.array([kind[prompt] == name for prompt in answers])
        assert by[name, "identical"]["n"] == own.sum() == n
        expected = 100 * (distances[own] == 0).mean()
        assert by[name, "identical"]["estimate"] == pytest.approx(expected)
        assert by[name, "mean_distance"]["estimate"] == pytest.approx(distances[own].mean())
        low, high = by[name, "mean_distance"]["low"], by[name, "mean_distance"]["high"]
        assert low < by[name, "mean_distance"]["estimate"] < high
    text = run_cli("tables", study, "repeats").stdout
    assert "Repeated runs" in text
    assert "undated" in text
