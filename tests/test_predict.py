"""Predictions: references, files, resuming, errors, identity of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore.engines.base import Answer, Request, RunSettings

pytestmark = pytest.mark.versions

# The package exports a function of the same name, so the module is looked up.
predict_module = sys.modules["chronocore.predict"]


class ScriptedEngine:
    """Answers from a function of the request; counts what it was asked."""

    def __init__(self, answer, **settings):
        self.answer = answer
        self.settings = RunSettings(
            **{"model": "scripted", "engine": "scripted", "engine_version": "1", **settings}
        )
        self.notes = {"device": "none"}
        self.asked: list[Request] = []
        self.closed = 0

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        for request in requests:
            self.asked.append(request)
            result = self.answer(request)
            if result is not None:
                yield result

    def close(self) -> None:
        self.closed += 1


def good(request):
    shares = {str(o.code): 100 // len(request.options) for o in request.options}
    return Answer(
        request.prompt_id, request.repeat, text=json.dumps(shares), finish_reason="stop",
        prompt_tokens=10, completion_tokens=5,
    )  # fmt: skip


@pytest.fixture
def scripted(monkeypatch):
    """Make predict use a given engine, whatever the model specification says."""

    def use(engine):
        monkeypatch.setattr(predict_module, "open_engine", lambda *args, **kwargs: engine)
        return engine

    return use


def rows_of(study, result, kind=None):
    return cc.Study.open(study).predictions(result.run_id, kind).to_pylist()


def test_references_answer_as_defined(study):
    opened = cc.Study.open(study)
    gold = opened.gold().to_pylist()
    prompts = {p["prompt_id"]: p for p in opened.prompts().to_pylist()}
    for name in ("uniform", "persistence", "pooled"):
        result = cc.predict(study, f"reference:{name}")
        assert result.total == 387
        assert sum(result.statuses.values()) == 387
        for row in rows_of(study, result):
            prompt = prompts[row["prompt_id"]]
            where = (prompt["survey"], prompt["variable"])
            points = [g for g in gold if (g["survey"], g["variable"]) == where]
            if name == "uniform":
                expected = [1 / len(prompt["options"])] * len(prompt["options"])
            elif name == "persistence":
                own = [g for g in points if g["country"] == prompt["country"]]
                expected = min(own, key=lambda g: g["year"])["probs"]
            else:
                donors = [g for g in points if g["country"] != prompt["country"]]
                if prompt["kind"] == "dated":
                    key = "wave" if prompt["wave"] is not None else "year"
                    donors = [g for g in donors if g[key] == prompt[key]]
                expected = np.mean([g["probs"] for g in donors], axis=0) if donors else None
            if expected is None:
                assert (row["status"], row["reason"]) == ("invalid", "no_reference")
            else:
                assert row["status"] == "ok"
                np.testing.assert_allclose(row["probs"], expected, atol=1e-12)


def test_a_second_call_asks_nothing_and_adds_nothing(study, scripted):
    engine = scripted(ScriptedEngine(good))
    first = cc.predict(study, "vllm:x")
    parts = sorted(study.glob("predictions/**/*.parquet"))
    again = cc.predict(study, "vllm:x")
    assert len(engine.asked) == 387
    assert engine.closed == 2
    assert again.already_done == 387
    assert again.statuses == first.statuses == {"ok": 387}
    assert sorted(study.glob("predictions/**/*.parquet")) == parts


def test_a_broken_run_keeps_its_answers_and_goes_on(study, scripted):
    def fails_late(request, seen=[]):  # noqa: B006
        seen.append(request)
        if len(seen) > 100:
            raise cc.EngineError("the engine died")
        return good(request)

    scripted(ScriptedEngine(fails_late))
    with pytest.raises(cc.EngineError, match="died; 100 of 387 answers are kept"):
        cc.predict(study, "vllm:x")
    engine = scripted(ScriptedEngine(good))
    result = cc.predict(study, "vllm:x")
    assert (len(engine.asked), result.already_done) == (287, 100)
    rows = rows_of(study, result)
    assert len({(r["prompt_id"], r["repeat"]) for r in rows}) == len(rows) == 387


def test_unexpected_faults_of_an_engine_lose_nothing_either(study, scripted):
    def interrupted(request, seen=[]):  # noqa: B006
        seen.append(request)
        if len(seen) > 7:
            raise KeyboardInterrupt
        return good(request)

    engine = scripted(ScriptedEngine(interrupted))
    with pytest.raises(KeyboardInterrupt):
        cc.predict(study, "vllm:x")
    assert engine.closed == 1
    table = pq.read_table(study / "predictions")
    assert len(table) == 7


def test_errors_are_asked_again_and_other_statuses_are_final(study, scripted):
    def some(request):
        if request.kind == "undated":
            return Answer(request.prompt_id, request.repeat, error="context_length")
        if request.variable == "E143":
            return Answer(request.prompt_id, request.repeat, text="I cannot help with that.")
        return good(request)

    scripted(ScriptedEngine(some))
    first = cc.predict(study, "vllm:x")
    assert first.statuses == {"ok": 170, "error": 129, "refused": 88}
    assert first.reasons == {"error: context_length": 129, "refused: refusal": 88}
    engine = scripted(ScriptedEngine(good))
    second = cc.predict(study, "vllm:x")
    assert {r.kind for r in engine.asked} == {"undated"}
    assert second.statuses == {"ok": 299, "refused": 88}
    rows = rows_of(study, second)
    assert len(rows) == 387
    assert {r["attempt"] for r in rows_of(study, second, "undated")} == {2}
    # on disk too, each prompt has one row
    disk = pq.read_table(study / "predictions")
    assert len(disk) == len(set(disk["prompt_id"].to_pylist())) == 387


def test_wrong_and_doubled_answers_of_an_engine_are_ignored(study, scripted):
    class Doubling(ScriptedEngine):
        def answers(self, requests):
            for request in reversed(requests):
                yield Answer("qffff", 0, text="{}")
                yield good(request)
                yield Answer(request.prompt_id, request.repeat, text="something else")

    scripted(Doubling(None))
    result = cc.predict(study, "vllm:x")
    assert result.statuses == {"ok": 387}


def test_repeats_are_rows_of_their_own(study, scripted):
    engine = scripted(ScriptedEngine(good))
    result = cc.predict(study, "vllm:x", repeats=3, kinds=("undated",))
    assert result.total == len(engine.asked) == 387
    assert {r["repeat"] for r in rows_of(study, result)} == {0, 1, 2}


def test_settings_make_runs_and_labels_tell_siblings_apart(study, scripted):
    for settings in (
        {},
        {"structured": True},
        {"temperature": 0.7},
        {"temperature": 0.7, "seed": 1},
        {"revision": "abc"},
    ):
        scripted(ScriptedEngine(good, **settings))
        cc.predict(study, "vllm:x", kinds=("undated",))
    runs = cc.Study.open(study).runs().to_pylist()
    assert len({run["run_id"] for run in runs}) == len({run["label"] for run in runs}) == 5
    folders = {path.name for path in (study / "predictions").iterdir()}
    assert folders == {f"run={run['run_id']}" for run in runs}
    scripted(ScriptedEngine(good))
    with pytest.raises(cc.ConfigurationError, match="another run"):
        cc.predict(study, "vllm:x", name=runs[-1]["label"])
    cc.predict(study, "vllm:x", name="mine", kinds=("undated",))
    labels = [run["label"] for run in cc.Study.open(study).runs().to_pylist()]
    assert len(labels) == 5
    assert "mine" in labels


def test_other_instructions_are_prompts_of_their_own(study, scripted):
    engine = scripted(ScriptedEngine(good, instruction="national"))
    result = cc.predict(study, "vllm:x", instruction="national")
    assert result.total == 387
    assert all("nationally representative" in request.user for request in engine.asked)
    assert len(cc.Study.open(study).prompts()) == 645  # no file of the build changes
    summary = cc.score(study)
    assert summary.runs[0].n_complete == 129


def test_modal_prompts_get_a_choice(study, scripted):
    def choose(request):
        return Answer(request.prompt_id, request.repeat, text='{"answer": 2}')

    scripted(ScriptedEngine(choose))
    result = cc.predict(study, "vllm:x", kinds=("modal",))
    rows = rows_of(study, result, "modal")
    assert {r["choice"] for r in rows if r["status"] == "ok"} == {2}
    assert all(r["choice"] is None for r in rows if r["status"] != "ok")


def test_references_choose_their_mode(study):
    result = cc.predict(study, "reference:persistence", kinds=("modal",))
    opened = cc.Study.open(study)
    modes = {(p["variable"], p["country"]): p["mode_old"] for p in opened.pairs().to_pylist()}
    prompts = {p["prompt_id"]: p for p in opened.prompts().to_pylist()}
    for row in rows_of(study, result, "modal"):
        prompt = prompts[row["prompt_id"]]
        assert row["choice"] == modes[prompt["variable"], prompt["country"]]


def test_every_part_has_the_schema_and_names_its_model(study, scripted):
    scripted(ScriptedEngine(good))
    cc.predict(study, "vllm:x")
    for part in study.glob("predictions/**/*.parquet"):
        table = pq.ParquetFile(part).read()
        assert table.schema.metadata[b"chronocore.schema"] == b"predictions"
        assert set(table["model"].to_pylist()) == {"scripted"}
    hive = pl.read_parquet(study / "predictions/**/*.parquet", hive_partitioning=True)
    assert set(hive["kind"].to_list()) == {"dated", "undated"}


def write_file(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def e143_rows(study):
    pairs = cc.Study.open(study).pairs().to_pylist()
    return [
        {"survey": "wvs", "variable": "E143", "country": p["country"], "year": year,
         "probs": [0.1, 0.2, 0.3, 0.4]}
        for p in pairs if p["variable"] == "E143"
        for year in (p["year_old"], p["year_new"], None)
    ]  # fmt: skip


def test_a_file_answers_by_location_or_by_id(study, tmp_path):
    rows = e143_rows(study)
    result = cc.predict(study, f"file:{write_file(tmp_path / 'mine.parquet', rows)}")
    assert (result.label, result.statuses, result.missing) == ("mine", {"ok": 132}, 255)
    prompts = cc.Study.open(study).prompts().to_pylist()
    by_id = [
        {"prompt_id": p["prompt_id"], "text": '{"1": 10, "2": 20, "3": 30, "4": 40}'}
        for p in prompts if p["variable"] == "E143" and p["kind"] != "modal"
    ]  # fmt: skip
    again = cc.predict(study, f"file:{write_file(tmp_path / 'by_id.parquet', by_id)}")
    assert again.statuses == {"ok": 132}
    first, second = rows_of(study, result), rows_of(study, again)
    assert [r["probs"] for r in first] == [r["probs"] for r in second]


@pytest.mark.parametrize(
    ("probs", "status", "reason", "kept"),
    [
        ([10.0, 20.0, 30.0, 40.0], "ok", None, [0.1, 0.2, 0.3, 0.4]),
        ([-1.0, 1.0, 1.0, 2.0], "ok", None, [0.0, 0.25, 0.25, 0.5]),
        ([0.5, 0.5], "invalid", "length_mismatch", None),
        ([0.5, None, 0.25, 0.25], "invalid", "not_finite", None),
        ([0.5, float("inf"), 0.25, 0.25], "invalid", "not_finite", None),
        ([0.0, 0.0, 0.0, 0.0], "invalid", "no_mass", None),
        ([1e308, 1e308, 1e308, 1e308], "invalid", "not_finite", None),
    ],
)
def test_numbers_in_a_file_are_checked_like_answers(study, tmp_path, probs, status, reason, kept):
    rows = [{**row, "probs": probs} for row in e143_rows(study)]
    result = cc.predict(study, f"file:{write_file(tmp_path / 'x.parquet', rows)}")
    row = rows_of(study, result)[0]
    assert (row["status"], row["reason"], row["probs"]) == (status, reason, kept)


def test_pandas_style_files_are_understood(study, tmp_path):
    rows = e143_rows(study)
    table = pa.table(
        {
            "survey": ["WVS"] * len(rows),
            "variable": [r["variable"] for r in rows],
            "country": pa.array([int(r["country"]) for r in rows]),
            "year": pa.array([float(r["year"]) if r["year"] else float("nan") for r in rows]),
            "probs": [r["probs"] for r in rows],
        }
    )
    pq.write_table(table, tmp_path / "pandas.parquet")
    assert cc.predict(study, f"file:{tmp_path / 'pandas.parquet'}").statuses == {"ok": 132}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [{k: v for k, v in r.items() if k != "year"} for r in rows], "prompt_id"),
        (lambda rows: [{k: v for k, v in r.items() if k != "probs"} for r in rows], "probs"),
        (lambda rows: [*rows, rows[0]], "there twice"),
        (lambda rows: [{**rows[0], "country": None}], "row 0.*missing"),
        (lambda rows: [{**r, "probs": 0.5} for r in rows], "lists of numbers"),
        (lambda rows: [{**r, "survey": "gss"} for r in rows], "none of the 132 rows"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_anything_is_written(
    study, tmp_path, change, message
):
    path = write_file(tmp_path / "bad.parquet", change(e143_rows(study)))
    with pytest.raises(cc.ChronocoreError, match=message):
        cc.predict(study, f"file:{path}")
    assert not (study / "predictions").exists()
    assert not (study / "runs.parquet").exists()


def test_a_file_without_rows_is_refused_and_leaves_no_run(study, tmp_path):
    path = write_file(tmp_path / "rows.parquet", e143_rows(study))
    pq.write_table(pq.read_table(path)[:0], path)
    with pytest.raises(cc.ConfigurationError, match="has no rows, so it answers no prompt"):
        cc.predict(study, f"file:{path}")
    assert not (study / "runs.parquet").exists()


def test_missing_and_broken_files_are_named(study, tmp_path):
    with pytest.raises(cc.ConfigurationError, match="there is no file"):
        cc.predict(study, f"file:{tmp_path / 'nothing.parquet'}")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(cc.ConfigurationError, match="no readable Parquet"):
        cc.predict(study, f"file:{tmp_path / 'text.parquet'}")


def test_an_exported_run_comes_back_as_itself(study, built_study, tmp_path, scripted, monkeypatch):
    scripted(ScriptedEngine(good, temperature=0.0, seed=3))
    made = cc.predict(study, "vllm:x")
    assert cc.export_run(study, made.label, tmp_path / "run.parquet") == 387
    monkeypatch.undo()
    import shutil

    other = tmp_path / "other"
    shutil.copytree(built_study, other)
    back = cc.predict(other, f"file:{tmp_path / 'run.parquet'}")
    assert back.run_id == made.run_id
    assert back.statuses == made.statuses
    keep = ["prompt_id", "text", "probs", "prompt_tokens", "seed"]
    assert [{k: r[k] for k in keep} for r in rows_of(other, back)] == [
        {k: r[k] for k in keep} for r in rows_of(study, made)
    ]
    assert cc.Study.open(other).run_notes(made.run_id) == {"device": "none"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("llama", "names no engine"),
        ("vlm:x", "did you mean 'vllm'"),
        ("reference:unifrom", "did you mean 'uniform'"),
        ("reference:", "names no model"),
        ("ftp:x", "no engine 'ftp'"),
    ],
)
def test_unknown_models_are_refused(study, spec, message):
    with pytest.raises(cc.ConfigurationError, match=message):
        cc.predict(study, spec)


def test_a_run_is_written_by_one_process_at_a_time(study, scripted):
    engine = scripted(ScriptedEngine(good))
    from chronocore.identity import run_id

    opened = cc.Study.open(study)
    with (
        opened.lock(f"run-{run_id(engine.settings)}"),
        pytest.raises(cc.StudyError, match="another process"),
    ):
        cc.predict(study, "vllm:x")
    assert engine.asked == []


def test_references_of_earlier_gold_are_left_out_and_asked_again(study):
    for name in ("uniform", "persistence", "pooled"):
        cc.predict(study, f"reference:{name}")
    before = {row["label"]: row["run_id"] for row in cc.Study.open(study).runs().to_pylist()}
    settings = study / "study.toml"
    text = settings.read_text()
    assert "min_respondents = 500" in text
    settings.write_text(text.replace("min_respondents = 500", "min_respondents = 1500"))
    cc.build(study)
    result = cc.score(study)
    # An even spread rests on no gold.
    assert [run.label for run in result.runs] == ["uniform"]
    assert set(result.skipped) == {"persistence", "pooled"}
    assert all("earlier build" in why and "reference:" in why for why in result.skipped.values())
    swept = cc.sweep(study, resamples=50, tau=[0.1], boundaries=["default"], retain=[0.75])
    assert set(swept.skipped) == {"persistence", "pooled"}
    for name in ("persistence", "pooled"):
        again = cc.predict(study, f"reference:{name}")
        assert again.label == name
        assert again.already_done == 0
        assert again.notices == [f"removed {name} with the gold of an earlier build"]
    now = {row["label"]: row["run_id"] for row in cc.Study.open(study).runs().to_pylist()}
    assert now["uniform"] == before["uniform"]
    assert {now["persistence"], now["pooled"]}.isdisjoint(before.values())
    fresh = study.parent / "fresh"
    fresh.mkdir()
    (fresh / "study.toml").write_text(settings.read_text())
    cc.build(fresh)
    for name in ("persistence", "pooled"):
        cc.predict(fresh, f"reference:{name}")
        ours, theirs = (
            dict(zip(table["prompt_id"].to_pylist(), table["probs"].to_pylist(), strict=True))
            for table in (cc.Study.open(path).predictions(now[name]) for path in (study, fresh))
        )
        assert ours == theirs
    assert cc.score(study).skipped == {}
