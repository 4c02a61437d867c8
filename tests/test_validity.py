"""Protocol, design, answers, tables and the commands, with real engines that need no model."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
import chronocore_data
from chronocore import schema
from chronocore import validity as v
from chronocore.engines.base import Answer, RunSettings
from chronocore.identity import run_id
from chronocore.store import Study, read_parquet
from chronocore.validity.answers import AnswerStore, _lower_bound, _settings
from chronocore.validity.design import saved_protocol
from chronocore.validity.own_files import read_own_file
from chronocore.validity.protocol import parse_protocol
from chronocore.validity.published import compare_published
from chronocore.validity.tables import FORMATS, NAMES, format_table

PROTOCOL = v.load_protocol()

MINE = """
name = "mine"
survey = "own"
seeds = 3
[[tone]]
name = "plain"
variants = ["Answer.", "Please answer."]
[[tone]]
name = "rude"
variants = ["Answer now."]
[[item]]
variable = "GOD"
label = "God"
text = "How important is God?"
format = "One number."
options = [{code = 1, label = "not"}, {code = 2, label = "some"}, {code = 3, label = "very"}]
[[item]]
variable = "GOD"
wording = "role"
label = "God"
text = "How important is the role of God?"
format = "One number."
options = [{code = 1, label = "not"}, {code = 2, label = "some"}, {code = 3, label = "very"}]
"""


@pytest.fixture
def folder(tmp_path):
    v.prompts(tmp_path / "panel")
    return tmp_path / "panel"


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    v.prompts(tmp_path / "own", tmp_path / "mine.toml")
    return tmp_path / "own"


def distributions(folder):
    path = folder / "validity" / "distributions.parquet"
    return read_parquet(path, schema.VALIDITY_DISTRIBUTIONS)


def panel_rows(folder, models, answer):
    """Rows of an answers file by place, for every query of the design."""
    rows = []
    for model in models:
        for q in v.design.load_design(folder).to_pylist():
            score = answer(model, q)
            rows.append(
                {
                    "model": model, "item": q["item"], "tone": q["tone"], "variant": q["variant"],
                    "seed": q["seed"], "wording": q["wording"], "score": score,
                    "status": "refused" if score is None else "ok",
                }
            )  # fmt: skip
    return rows


# Protocol and design


def test_the_published_protocol():
    assert [item.variable for item in PROTOCOL.item] == [
        "A008", "A165", "E018", "E025", "F063", "F118", "F120", "G006", "Y002", "Y003",
    ]  # fmt: skip
    assert [(tone.name, len(tone.variants)) for tone in PROTOCOL.tone] == [
        ("standard", 10), ("friendly", 10), ("combative", 10),
    ]  # fmt: skip
    standard = PROTOCOL.tone[0].variants
    assert standard[0] == (
        "You are an average human being responding to the following survey question."
    )
    # Quantifier by noun, and one world citizen.
    assert len({text.split(" responding")[0] for text in standard}) == 10
    assert sum("world citizen" in text for tone in PROTOCOL.tone for text in tone.variants) == 3
    assert (PROTOCOL.temperature.variants, PROTOCOL.temperature.seeds) == (0.0, 1.0)
    assert Counter(model.access for model in PROTOCOL.model) == {"API": 3, "open": 9}
    assert len({model.origin for model in PROTOCOL.model}) == 4
    assert (PROTOCOL.map.reference.x, PROTOCOL.map.reference.y) == (3.35, 0.50)
    ranges = {item.variable: item.scores for item in PROTOCOL.item}
    assert ranges["Y002"] == (1, 3)
    assert ranges["Y003"] == (-2, 2)
    assert ranges["F118"] == (1, 10)


def test_the_design_has_4800_queries_for_twelve_models(folder):
    rows = v.design.load_design(folder).to_pylist()
    assert len(rows) * len(PROTOCOL.model) == 4800
    variants = [row for row in rows if row["stage"] == "variants"]
    seeds = [row for row in rows if row["stage"] == "seeds"]
    assert (len(variants), len(seeds)) == (300, 100)
    assert {(row["tone"], row["variant"]) for row in seeds} == {("standard", 0)}
    assert {row["seed"] for row in seeds} == set(range(10))
    assert {row["seed"] for row in variants} == {None}
    keys = [(row["prompt_id"], row["repeat"]) for row in rows]
    assert len(set(keys)) == 400  # even where both stages are one run
    first = {
        row["item"]: row for row in variants if (row["tone"], row["variant"]) == ("standard", 0)
    }
    assert all(row["prompt_id"] == first[row["item"]]["prompt_id"] for row in seeds)
    # Within an item only the system prompt changes.
    for item in first:
        own = [row for row in variants if row["item"] == item]
        assert len({row["user"] for row in own}) == 1
        assert len({row["system"] for row in own}) == 30


def test_a_design_written_again_is_the_same(folder, tmp_path):
    again = v.prompts(tmp_path / "again")
    assert again.queries == 400
    assert v.design.load_design(tmp_path / "again").equals(v.design.load_design(folder))
    assert saved_protocol(folder) == PROTOCOL
    before = v.design.load_design(folder)
    v.prompts(folder)
    assert v.design.load_design(folder).equals(before)


def test_a_protocol_of_ones_own(mine):
    rows = v.design.load_design(mine).to_pylist()
    assert len(rows) == 2 * (3 + 3)
    assert {(row["item"], row["wording"]) for row in rows} == {("GOD", "native"), ("GOD", "role")}
    assert len({row["prompt_id"] for row in rows}) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 3", "sedes = 3"), "did you mean 'seeds'"),
        (('wording = "role"', ""), "is there twice in one wording"),
        (('code = 3, label = "very"', 'code = 2, label = "very"'), "code 2 twice"),
        (('format = "One number."', 'format = "One number."\nchoose = [2, 4]'), "choose"),
        (('name = "rude"', 'name = "plain"'), "two tones"),
        (('"Please answer."', '"Answer."'), "a variant twice"),
        (("seeds = 3", "seeds = -1"), "seeds must be at least 0"),
        (('name = "mine"', 'name = "mine'), "not valid TOML"),
    ],
)
def test_a_faulty_protocol_says_what_is_wrong(change, message):
    assert change[0] in MINE
    with pytest.raises(cc.ConfigurationError, match=message):
        parse_protocol(MINE.replace(*change))


def test_temporal_pairs_become_distribution_prompts(study, tmp_path):
    (tmp_path / "pairs.toml").write_text(MINE + "\n[pairs]\nsample = 4\n")
    result = v.prompts(study, tmp_path / "pairs.toml")
    rows = v.design.load_design(study).to_pylist()
    pairs = [row for row in rows if row["kind"] == "distribution"]
    assert len(pairs) == 4 * 2 * (3 + 3)
    assert result.queries == len(rows) == len(pairs) + 12
    assert all("Estimate the percentage" in row["user"] for row in pairs)
    assert all(row["system"].endswith("or extra text.") for row in pairs)
    v.run(study, "reference:uniform")
    (done,) = v.run(study, "reference:uniform")
    assert done.already_done == done.total
    v.score(study, n_resamples=0)
    table = read_parquet(
        study / "validity" / "distributions.parquet", schema.VALIDITY_DISTRIBUTIONS
    )
    assert len(table) == 8
    assert set(table["status"].to_pylist()) == {"undefined_culture"}
    assert set(table["sigma_prompt"].to_pylist()) == {0.0}
    with pytest.raises(cc.ConfigurationError, match="built study"):
        v.prompts(tmp_path / "nothing", tmp_path / "pairs.toml")


# Answers


class FakeModel:
    """Answers from a table of texts, and stops where it is told to; settings like vLLM's."""

    def __init__(self, texts=lambda request, settings: "5", stop_after=None, engine="vllm"):
        self.settings = RunSettings("fake", engine, "1", temperature=0.0, top_p=1.0, seed=0)
        self.notes = {"device": "none"}
        self.texts, self.stop_after, self.asked = texts, stop_after, []
        self.in_flight = 0

    def answers(self, requests):
        for request in requests:
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise cc.EngineError("it stopped")
            self.asked.append((request.prompt_id, request.repeat, self.settings.temperature))
            text = self.texts(request, self.settings)
            if text is None:
                yield Answer(request.prompt_id, request.repeat, error="timeout")
            else:
                yield Answer(request.prompt_id, request.repeat, text=text, finish_reason="stop")

    def drain(self, seconds):
        self.stop_after = 0

    def close(self):
        pass


@pytest.fixture
def ask(monkeypatch):
    """Run a folder with a fake model in the place of vLLM."""

    def asked(folder, model, **options):
        monkeypatch.setattr("chronocore.engines.vllm.VllmEngine", lambda *a, **k: model)
        return v.run(folder, "vllm:fake", **options)

    return asked


def test_local_models_answer_variants_at_0_and_seeds_at_1(folder, ask):
    model = FakeModel()
    (result,) = ask(folder, model)
    temperatures = Counter(temperature for *_, temperature in model.asked)
    assert temperatures == {0.0: 300, 1.0: 100}
    assert result.run_ids["variants"] != result.run_ids["seeds"]
    assert not result.seed_lower_bound
    rows = v.load_runs(folder).to_pylist()
    assert {row["stage"]: row["temperature"] for row in rows} == {"variants": 0.0, "seeds": 1.0}
    assert all(row["run_id"] == result.run_ids[row["stage"]] for row in rows)


def test_held_to_a_form_an_engine_is_asked_for_one_option(folder, ask):
    seen = {}

    def texts(request, settings):
        seen[request.variable] = (request.kind, len(request.options))
        return '{"answer": 2}' if request.options else "1, 2"

    model = FakeModel(texts)
    model.settings = replace(model.settings, structured=True)
    (result,) = ask(folder, model, structured=True)
    assert seen["F118"] == ("modal", 10)
    assert seen["Y002"] == seen["Y003"] == ("modal", 0)  # several options have no form
    assert result.statuses == {"ok": 320, "recovered": 80}


def test_a_seed_stage_without_sampling_is_a_lower_bound(folder, ask):
    (result,) = ask(folder, FakeModel(), temperature_seeds=0.0)
    assert result.seed_lower_bound
    assert all(row["seed_lower_bound"] for row in v.load_runs(folder).to_pylist())
    v.score(folder, n_resamples=0)
    table = read_parquet(folder / "validity" / "components.parquet", schema.VALIDITY_COMPONENTS)
    assert set(table["seed_lower_bound"].to_pylist()) == {True}


def test_endpoints_keep_their_default_and_say_when_they_have_no_seed():
    endpoint = RunSettings("m", "openai", "1", temperature=None, seed=4)
    engine = FakeModel()
    engine.settings = endpoint
    stages = _settings(engine, PROTOCOL, {"variants": 0.0, "seeds": 1.0})
    assert stages["variants"] == stages["seeds"] == endpoint
    assert not _lower_bound(endpoint)
    assert _lower_bound(RunSettings("m", "openai", "1", temperature=None, seed=None))
    assert _lower_bound(RunSettings("m", "vllm", "1", temperature=0.0, seed=0))


def test_a_stopped_run_goes_on_where_it_stopped(folder, ask, monkeypatch):
    monkeypatch.setattr("chronocore.stream.PART_ROWS", 7)
    with pytest.raises(cc.EngineError, match="120 of 400 answers are kept"):
        ask(folder, FakeModel(stop_after=120))
    second = FakeModel()
    (result,) = ask(folder, second)
    assert (result.already_done, len(second.asked)) == (120, 280)
    assert sum(result.statuses.values()) == 400
    third = FakeModel()
    (again,) = ask(folder, third)
    assert (again.already_done, third.asked) == (400, [])


def test_only_failures_are_asked_again(folder, ask):
    (first,) = ask(folder, FakeModel(lambda r, s: None if r.variable == "F118" else "5"))
    assert first.statuses["error"] == 40
    second = FakeModel()
    (result,) = ask(folder, second)
    assert len(second.asked) == 40
    assert "error" not in result.statuses
    rows = v.load_answers(folder).to_pylist()
    assert {row["score"] for row in rows if row["item"] == "F118"} == {5.0}


def test_answers_off_the_scale_and_refusals_are_counted(folder, ask):
    def texts(request, settings):
        if request.variable == "F118":
            return "I'm sorry, but I can't answer that."
        return "5"

    (result,) = ask(folder, FakeModel(texts))
    # 5 is no code of the questions with fewer options; it is one of eleven child qualities.
    assert result.reasons == {"invalid: unknown_option": 240, "refused: refusal": 40}


def test_parts_say_whose_they_are(folder, ask):
    (result,) = ask(folder, FakeModel())
    parts = list((folder / "validity" / "answers").rglob("part-*.parquet"))
    assert {part.parent.parent.name for part in parts} == {
        f"run={i}" for i in result.run_ids.values()
    }
    table = read_parquet(parts[0], schema.VALIDITY_ANSWERS)
    assert set(table["model"].to_pylist()) == {"fake"}
    moved = parts[0].parent.parent.with_name("run=r0000000000000000")
    parts[0].parent.parent.rename(moved)
    settings = RunSettings("other", "file", "1")
    assert run_id(settings) not in str(moved)
    with pytest.raises(cc.StudyError, match="was written as run="):
        AnswerStore(folder).answers("r0000000000000000")


def test_two_models_cannot_share_a_name(folder, ask):
    ask(folder, FakeModel(), name="mine")
    with pytest.raises(cc.ConfigurationError, match="another model called 'mine'"):
        v.run(folder, "reference:uniform", name="mine")


def test_references(folder):
    (uniform,) = v.run(folder, "reference:uniform")
    (midpoint,) = v.run(folder, "reference:midpoint")
    assert set(uniform.statuses) <= {"ok", "recovered"}
    rows = v.load_answers(folder).to_pylist()
    middle = {row["score"] for row in rows if (row["label"], row["item"]) == ("midpoint", "F118")}
    assert middle == {5.5}
    drawn = [row["score"] for row in rows if (row["label"], row["item"]) == ("uniform", "F118")]
    assert len(set(drawn)) > 5
    with pytest.raises(cc.ConfigurationError, match="no validity reference"):
        v.run(folder, "reference:pooled")
    assert midpoint.total == 400


# Files of one's own


def write_csv(path, rows):
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_a_panel_in_one_file(folder, tmp_path):
    rng = np.random.default_rng(0)

    def answer(model, q):
        if (model, q["item"]) == ("b", "F118"):
            return None
        low, high = PROTOCOL.find(q["item"]).scores
        return float(rng.integers(low, high + 1))

    rows = panel_rows(folder, ["a", "b", "GPT-4o"], answer)
    write_csv(tmp_path / "panel.csv", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "panel.parquet")
    results = v.run(folder, f"file:{tmp_path / 'panel.csv'}")
    assert [(r.label, r.total, r.missing) for r in results] == [
        ("a", 400, 0), ("b", 400, 0), ("GPT-4o", 400, 0),
    ]  # fmt: skip
    assert results[1].statuses == {"ok": 360, "refused": 40}
    groups = {row["label"]: row["access"] for row in v.load_runs(folder).to_pylist()}
    assert groups == {"a": None, "b": None, "GPT-4o": "API"}
    stored = {
        (r["label"], r["item"], r["tone"], r["variant"], r["seed"]): r["score"]
        for r in v.load_answers(folder).to_pylist()
    }
    for row in rows:
        assert (
            stored[row["model"], row["item"], row["tone"], row["variant"], row["seed"]]
            == (row["score"])
        )
    v.prompts(tmp_path / "other")
    v.run(tmp_path / "other", f"file:{tmp_path / 'panel.parquet'}")
    same = {r["score"] for r in v.load_answers(tmp_path / "other").to_pylist()}
    assert same == set(stored.values())


def test_texts_by_prompt_id(folder, tmp_path):
    rows = v.design.load_design(folder).to_pylist()
    table = pa.table(
        {
            "prompt_id": [row["prompt_id"] for row in rows],
            "repeat": [row["repeat"] for row in rows],
            "text": ["1, 2" if row["item"] in ("Y002", "Y003") else "Option 2" for row in rows],
        }
    )
    pq.write_table(table, tmp_path / "mine.parquet")
    (result,) = v.run(folder, f"file:{tmp_path / 'mine.parquet'}", name="my model")
    assert result.statuses == {"recovered": 400}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"item": "F118", "score": 3}], "needs a column prompt_id"),
        ([{"prompt_id": "q", "repeat": 0}], "needs a column score, text or probs"),
        ([{"item": "X", "tone": "standard", "variant": 0, "score": 1}], "there is no item 'X'"),
        (
            [{"item": "F118", "tone": "standard", "variant": 0, "score": 1}] * 2,
            "answered twice",
        ),
        ([{"item": "F118", "tone": "standard", "variant": 0, "score": "x"}], "column score"),
        (
            [{"item": "F118", "tone": "standard", "variant": 0, "score": None, "status": "no"}],
            "status 'no'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(folder, tmp_path, rows, message):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=message):
        v.run(folder, f"file:{tmp_path / 'x.parquet'}")
    assert not (folder / "validity" / "runs.parquet").exists()


HEAD = "model,item,tone,variant,seed,score,status"
GOOD = "a,F118,standard,0,,5,"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([HEAD, GOOD, "a,F119,standard,0,,5,"], "row 2 answers no query .* did you mean 'F118'"),
        ([HEAD, GOOD, "a,F118,Standard,0,,5,"], "no tone 'Standard'; did you mean 'standard'"),
        ([HEAD, GOOD, "a,F118,standard,10,,5,"], "variant 10 is not among .*0 to 9"),
        ([HEAD, GOOD, "a,F118,standard,0,10,5,"], "seed 10 is not among .*0 to 9"),
        ([HEAD, GOOD, "a,F118,friendly,0,1,5,"], "seeds repeat the first variant"),
        ([HEAD, GOOD, "a,F118,standard,1.5,,5,"], "column variant: '1.5' is no whole number"),
        ([HEAD, GOOD, "a,F118,standard,1,,five,"], "column score: 'five' is no number"),
        ([HEAD, GOOD, 'a,F118,standard,1,,"5,5",'], "decimals have a point"),
        ([HEAD, GOOD, "a,F118,standard,1,,,Refused"], "status 'Refused' is none of .*'refused'"),
        ([HEAD, GOOD, "a,F118,standard,1,,4,refused"], "and yet there is a score"),
        ([HEAD, GOOD, "a,F118,standard,0,,6,"], "row 2: this query of a is answered twice"),
        ([HEAD, GOOD, "a,,standard,1,,6,"], "row 2: item is missing"),
        ([HEAD, GOOD, "a,F118,standard,1,,6"], "line 3: 6 fields where the header names 7"),
        ([HEAD.replace(",", ";"), GOOD.replace(",", ";")], "separated by ';'"),
        ([HEAD.replace("tone", "item"), GOOD], "column 'item' twice"),
        (["model,item,score", "a,F118,5"], "needs a column prompt_id"),
        ([HEAD], "has no rows"),
        ([""], "is empty"),
        (["prompt_id,repeat,score", "q,0,5"], "'q' with repeat 0 is no query"),
    ],
)
def test_a_file_is_checked_whole_before_a_model_is_registered(
    folder, tmp_path, run_cli, lines, says
):
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines) + "\n")
    done = run_cli("validity", "run", folder, "--model", f"file:{path}")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(says, done.stderr.replace("\n", " ")), done.stderr
    # A second model, right or wrong, leaves nothing either.
    assert not (folder / "validity" / "runs.parquet").exists()
    assert not (folder / "validity" / "answers").exists()


def test_empty_optional_fields_are_nothing(folder, tmp_path):
    rows = panel_rows(folder, ["a"], lambda model, q: 1.0)
    for name, spelled in (("bom", ""), ("r", "NA"), ("pandas", "nan")):
        path = tmp_path / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8-sig") as handle:
            writer = csv.writer(handle)
            writer.writerow(["item", "tone", "variant", "seed", "score", "status", "wording"])
            for row in rows:
                seed = spelled if row["seed"] is None else f"{row['seed']}.0"
                place = (row["item"], row["tone"], row["variant"])
                writer.writerow([*place, seed, row["score"], spelled, spelled])
        (result,) = v.run(folder, f"file:{path}")
        assert (result.label, result.statuses, result.missing) == (name, {"ok": 400}, 0)
    table = pa.Table.from_pylist(
        [{**row, "status": None, "reason": ""} for row in rows],
    )
    pq.write_table(table, tmp_path / "empty.parquet")
    (result,) = v.run(folder, f"file:{tmp_path / 'empty.parquet'}")
    assert result.statuses == {"ok": 400}


def test_a_taken_name_stops_a_file_of_several_models_before_the_first(folder, tmp_path):
    write_csv(tmp_path / "one.csv", panel_rows(folder, ["b"], lambda model, q: 1.0))
    v.run(folder, f"file:{tmp_path / 'one.csv'}")
    write_csv(tmp_path / "two.csv", panel_rows(folder, ["a", "b"], lambda model, q: 2.0))
    with pytest.raises(cc.ConfigurationError, match="another model called 'b'"):
        v.run(folder, f"file:{tmp_path / 'two.csv'}")
    assert {row["label"] for row in v.load_runs(folder).to_pylist()} == {"b"}


def test_a_flipped_bit_of_an_answer_file_is_noticed(folder, tmp_path):
    path = tmp_path / "p.parquet"
    rows = pa.Table.from_pylist(panel_rows(folder, ["a"], lambda model, q: 1.0 + q["variant"] % 2))
    pq.write_table(rows, path, write_page_checksum=True, compression=None)
    content = path.read_bytes()
    told = 0
    for place in range(40, len(content), 53):
        damaged = bytearray(content)
        damaged[place] ^= 16
        path.write_bytes(bytes(damaged))
        try:
            found = read_own_file(path, "answers")
        except cc.ConfigurationError:
            told += 1
            continue
        if found.column_names != rows.column_names:
            continue  # a column of another name: the footer of a Parquet file has no checksum
        # A bit of no meaning to the rows, such as one of their statistics.
        assert found.select(rows.column_names).equals(rows)
    assert told > 20


def test_a_model_that_fails_before_its_first_answer_is_not_registered(folder):
    class Broken:
        """Fails at once, as a server that is not there."""

        def __init__(self):
            from chronocore.engines import RunSettings

            self.settings = RunSettings(model="broken", engine="mine", engine_version="1", seed=0)
            self.notes = {}
            self.in_flight = 0

        def answers(self, requests):
            raise cc.EngineError("nothing there")
            yield

        def drain(self, seconds):
            pass

        def close(self):
            pass

    with pytest.raises(cc.EngineError, match="nothing there"):
        v.run(folder, Broken())
    assert not len(v.load_runs(folder))


def test_groups_are_cleaned_of_what_a_terminal_obeys(folder, run_cli):
    done = run_cli(
        "validity", "run", folder, "--model", "reference:midpoint", "--access", "a\x1b]0;x\x07b",
        "--region", "\u202eno",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row = v.load_runs(folder).to_pylist()[0]
    assert (row["access"], row["region"]) == ("a ]0;x b", "no")


def test_a_score_off_the_scale_is_invalid_and_counted(folder, tmp_path):
    rows = [{"item": "F118", "tone": "standard", "variant": i, "score": s}
            for i, s in enumerate([1.0, 10.0, 11.0, 0.0, None])]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    (result,) = v.run(folder, f"file:{tmp_path / 'x.parquet'}")
    assert result.reasons == {"invalid: unknown_option": 2, "invalid: empty": 1}
    assert result.missing == 395


# Results


@pytest.fixture
def scored(folder, tmp_path):
    rng = np.random.default_rng(3)
    base = {}

    def answer(model, q):
        if (model, q["item"]) == ("refuser", "F118"):
            return None
        low, high = PROTOCOL.find(q["item"]).scores
        center = base.setdefault((model, q["item"]), rng.uniform(low, high))
        wide = {"steady": 0.0, "noisy": 1.5, "refuser": 0.4}[model] * (high - low) / 6
        return float(np.clip(round(rng.normal(center, wide)), low, high))

    write_csv(tmp_path / "p.csv", panel_rows(folder, ["steady", "noisy", "refuser"], answer))
    v.run(folder, f"file:{tmp_path / 'p.csv'}", group={"access": "open"})
    v.score(folder, n_resamples=200)
    return folder


def countries(n=40, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    columns = {"country": [f"c{i}" for i in range(n)]}
    for item in PROTOCOL.item:
        low, high = item.scores
        load = [PROTOCOL.map.x.get(item.variable, 0), PROTOCOL.map.y.get(item.variable, 0)]
        z = factors @ load + rng.normal(0, 0.3, n)
        columns[item.variable] = np.clip((low + high) / 2 + z * (high - low) / 9, low, high)
    return pa.table(columns)


def test_scores_and_tables(scored):
    result = v.score(scored, n_resamples=200)
    assert (result.models, result.items) == (3, 10)
    assert ("refuser", "F118", "undefined_noise") in result.undefined_pairs
    table = read_parquet(scored / "validity" / "components.parquet", schema.VALIDITY_COMPONENTS)
    rows = table.to_pylist()
    ratios = [row["nsr"] for row in rows if row["status"] == "ok"]
    assert result.valid == len(ratios) == 29
    assert result.median == pytest.approx(np.median(ratios))
    found = v.tables(scored)
    models = {row["label"]: row for row in found["validity-nsr-models"].table.to_pylist()}
    for label, row in models.items():
        own = [r for r in rows if r["label"] == label and r["status"] == "ok"]
        assert row["n_valid"] == len(own)
        assert row["median"] == pytest.approx(np.median([r["nsr"] for r in own]))
        assert row["exclude"] == [r["item"] for r in own if r["nsr"] > 1]
        if label != "steady":
            assert row["low"] <= row["median"] <= row["high"]
    assert models["steady"]["above_1"] == 0
    assert models["refuser"]["n_valid"] == 9
    items = {row["item"]: row for row in found["validity-nsr-items"].table.to_pylist()}
    assert items["F118"]["n_valid"] == 2
    assert len(found["validity-grid"].table) == 30
    groups = found["validity-groups"].table.to_pylist()
    assert [(g["attribute"], g["models"]) for g in groups] == [("panel", 3), ("access", 3)]


def test_the_map_of_a_panel(scored):
    result = v.map_models(scored, countries())
    assert set(result.positions) == {"steady", "noisy"}
    assert result.unprojectable == {"refuser": ["F118"]}
    assert sum(result.explained) > 0.5
    positions = v.tables(scored, ["validity-positions"])["validity-positions"].table.to_pylist()
    imputed = [row for row in positions if row["kind"] == "imputed"]
    assert [row["label"] for row in imputed] == ["refuser"]
    again = v.map_models(scored)  # with the countries of the last call
    assert again.positions == result.positions
    exclusions = v.tables(scored, ["validity-exclusions"])["validity-exclusions"].table
    noisy = [row for row in exclusions.to_pylist() if row["label"] == "noisy"]
    assert noisy
    assert noisy[0]["items"] == len(noisy[0]["without"])


def test_the_papers_text_stands_beside_a_panel(scored, run_cli):
    v.map_models(scored, countries())
    tables = v.tables(scored)
    names = {"steady": "GPT-4o", "noisy": "Claude Sonnet 4.6", "refuser": "Llama3.1-8B"}
    found = compare_published(tables, names)
    rows = found["published"].table.to_pylist()
    statements = chronocore_data.published_text("validity")["statement"]
    cells = [cell for statement in statements for cell in statement["cells"]]
    for cell in cells:
        assert cell["measure"] in tables[cell["table"]].table.column_names
        assert set(cell) - {"model", "measure", "value", "low", "high", "of", "table"} <= set(
            tables[cell["table"]].table.column_names
        )
    # One row a value: those of the panel, and those of the models that are here.
    assert len(rows) == sum(cell.get("model") in (None, *names.values()) for cell in cells)
    at = {(row["table"], row["label"], row["cell"], row["measure"]): row for row in rows}
    models = {r["label"]: r for r in tables["validity-nsr-models"].table.to_pylist()}
    own = at["validity-nsr-models", "refuser", "", "n_valid"]
    assert (own["published_low"], own["estimate"], own["difference"]) == (8, 9, 1)
    own = at["validity-nsr-models", "steady", "", "median"]
    assert own["estimate"] == models["steady"]["median"]
    own = at["validity-rates", "refuser", "F118", "refusal_rate"]
    assert (own["estimate"], own["difference"]) == (1.0, 0.0)
    own = at["validity-groups", None, "panel, all models", "n_valid"]
    assert (own["published_low"], own["estimate"]) == (117, 29)
    positions = tables["validity-positions"].table.to_pylist()
    place = next(r for r in positions if r["label"] == "steady" and r["group"] == "standard")
    own = at["validity-positions", "steady", "model, standard", "x"]
    assert own["difference"] == pytest.approx(place["x"] - 3.66)
    own = at["validity-positions", None, "reference", "x"]
    assert (own["estimate"], own["difference"]) == (3.35, 0.0)
    assert at["validity-positions", "all models", "panel", "reference_distance"]["estimate"] > 0
    assert at["validity-groups", None, "access, API", "median"]["estimate"] is None
    assert len(found["not-compared"].table) >= 6
    for form in FORMATS:
        assert "88 countries" in format_table(found["not-compared"], form)
    # Without names given, a model of the paper's name stands for it; here none has one.
    alone = compare_published(tables)["published"].table.to_pylist()
    assert len(alone) == sum("model" not in cell for cell in cells)
    for wrong, message in (({"x": "GPT-4o"}, "no model 'x'"), ({"noisy": "GPT-9"}, "no model 'G")):
        with pytest.raises(cc.ConfigurationError, match=message):
            compare_published(tables, wrong)
    done = run_cli(
        "validity", "tables", scored, "--compare-published", "--as", "steady=GPT-4o", "--json"
    )
    assert {row["label"] for row in json.loads(done.stdout)["published"]} >= {"steady"}
    done = run_cli("validity", "tables", scored, "--as", "steady=GPT-4o")
    assert done.returncode == 2


def test_the_largest_tone_shift_is_compared(scored):
    v.map_models(scored, countries())
    tables = v.tables(scored)
    rows = compare_published(tables, {"noisy": "Mistral-7B"})["published"].table.to_pylist()
    (row,) = (row for row in rows if row["measure"] == "tone_shift")
    shifts = [
        r["tone_shift"] for r in tables["validity-positions"].table.to_pylist()
        if r["label"] == "noisy" and r["kind"] == "model" and r["tone_shift"] is not None
    ]  # fmt: skip
    assert len(shifts) > 1
    assert row["estimate"] == max(shifts)


def test_every_format_of_every_table(scored):
    v.map_models(scored, countries())
    for name, table in v.tables(scored).items():
        assert name in NAMES
        rows = table.table.to_pylist()
        assert json.loads(format_table(table, "json")) == rows
        lines = format_table(table, "csv").splitlines()
        assert len(lines) == len(rows) + 1
        assert format_table(table, "md").count("\n| ") == len(rows) + 2
        assert format_table(table, "latex").count(r"\\") == len(rows) + 1
        stored = pq.read_table(scored / "tables" / f"{name}.parquet")
        assert stored.to_pylist() == rows


def test_two_wordings_stand_side_by_side(mine, tmp_path):
    rng = np.random.default_rng(1)

    def answer(model, q):
        if q["wording"] == "role" and model == "b" and q["stage"] == "variants":
            return None
        return float(rng.integers(1, 4))

    write_csv(tmp_path / "w.csv", panel_rows(mine, ["a", "b", "c"], answer))
    v.run(mine, f"file:{tmp_path / 'w.csv'}")
    v.score(mine, n_resamples=0)
    rows = v.tables(mine)["validity-wordings"].table.to_pylist()
    assert [(row["item"], row["wording"]) for row in rows] == [("GOD", "native"), ("GOD", "role")]
    assert rows[0]["refusal_rate"] == 0
    assert rows[1]["refusal_rate"] == pytest.approx(1 / 3)
    assert rows[0]["models"] == rows[1]["models"] <= 2  # b has no ratio in one of them
    # The paraphrase enters no summary of the item.
    items = v.tables(mine)["validity-nsr-items"].table.to_pylist()
    assert [(row["item"], row["n_valid"]) for row in items] == [("GOD", 3)]


def test_predictions_get_a_ratio_over_repeats_instructions_and_models(study):
    from chronocore.predict import prompts_of

    opened = Study.open(study)
    rng = np.random.default_rng(6)
    for model in ("a", "b"):
        for instruction in ("default", "national"):
            settings = RunSettings(
                model, "vllm", "1", instruction=instruction, temperature=1.0, seed=0
            )
            identity = run_id(settings)
            opened.save_run(
                {
                    "run_id": identity, "label": f"{model} {instruction}",
                    **{f: getattr(settings, f) for f in settings.__dataclass_fields__},
                }
            )  # fmt: skip
            for kind in ("dated", "undated"):
                asked = [
                    row for row in prompts_of(opened, instruction).to_pylist()
                    if row["instruction"] == instruction and row["kind"] == kind
                ]  # fmt: skip
                parts = []
                for row in asked:
                    for repeat in range(3 if instruction == "default" else 1):
                        part = dict.fromkeys(schema.PREDICTIONS.names)
                        probs = rng.dirichlet(np.ones(len(row["options"]))).tolist()
                        part |= {
                            "run_id": identity, "model": model, "prompt_id": row["prompt_id"],
                            "repeat": repeat, "status": "ok", "probs": probs, "attempt": 1,
                            "created_at": 0,
                        }  # fmt: skip
                        parts.append(part)
                opened.add_part(identity, kind, pa.Table.from_pylist(parts, schema.PREDICTIONS))
    v.score(study, n_resamples=0)
    table = read_parquet(
        study / "validity" / "distributions.parquet", schema.VALIDITY_DISTRIBUTIONS
    )
    rows = table.to_pylist()
    assert {row["label"] for row in rows} == {"a default", "b default"}
    assert {(r["n_seeds_valid"], r["n_variants_valid"], r["n_models"]) for r in rows} == {(3, 2, 2)}
    assert {row["status"] for row in rows} == {"ok"}
    assert all(
        row["nsr"] == pytest.approx((row["sigma_seed"] + row["sigma_prompt"]) / row["sigma_model"])
        for row in rows
    )
    summary = v.tables(study)["validity-distributions"].table.to_pylist()
    assert {(row["label"], row["kind"]) for row in summary} == {
        (label, kind) for label in ("a default", "b default") for kind in ("dated", "undated")
    }


def test_nothing_to_score_says_what_to_do(folder, tmp_path):
    with pytest.raises(cc.StudyError, match="validity run"):
        v.score(folder)
    with pytest.raises(cc.StudyError, match="validity prompts"):
        v.score(tmp_path / "nothing")
    with pytest.raises(cc.StudyError, match="validity score"):
        v.tables(folder)
    with pytest.raises(cc.StudyError, match="--countries"):
        v.map_models(folder)
    with pytest.raises(cc.ConfigurationError, match="no table"):
        v.tables(folder, ["x"])


# Report and commands


def test_figures_and_page(scored):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from chronocore.validity.report import report

    v.map_models(scored, countries())
    path = report(scored)
    text = path.read_text(encoding="utf-8")
    assert "Not on the map: refuser lacks F118" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    names = {file.stem for file in (scored / "figures").iterdir()}
    assert names == {
        "validity-grid", "validity-map", "validity-tone-shift", "validity-disagreement",
        "validity-seed-clouds",
        "validity-components", "validity-noise-signal", "validity-refusals",
    }  # fmt: skip
    for name in names:
        svg = (scored / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.startswith("<?xml")
        assert "aria-label" in svg
        assert (scored / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (scored / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f'id="figure-{name}"' in text
    map_svg = (scored / "figures" / "validity-map.svg").read_text(encoding="utf-8")
    assert "noisy" in map_svg
    assert "refuser" not in map_svg.split("aria-label")[1].split(">", 1)[1]


def test_labels_are_text_in_the_report(folder, tmp_path):
    pytest.importorskip("altair")
    from chronocore.validity.report import report

    name = "<script>alert(1)</script>"
    v.run(folder, "reference:uniform", name=name)
    v.run(folder, "reference:uniform", seed=1, name="other")
    v.score(folder, n_resamples=0)
    text = report(folder).read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_commands_from_prompts_to_report(run_cli, tmp_path):
    pytest.importorskip("altair")
    folder = tmp_path / "panel"
    done = run_cli("validity", "prompts", folder, "--json")
    assert json.loads(done.stdout)["queries"] == 400
    for seed in (0, 1):
        done = run_cli(
            "validity", "run", folder, "--model", "reference:uniform", "--seed", seed,
            "--name", f"u{seed}", "--access", "open",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"u{seed}: 400 queries, 0 answered before" in done.stdout
    done = run_cli("validity", "score", folder, "--resamples", 100, "--json")
    assert json.loads(done.stdout)["models"] == 2
    pa.csv.write_csv(countries(), tmp_path / "countries.csv")
    done = run_cli("validity", "map", folder, "--countries", tmp_path / "countries.csv")
    assert "40 countries" in done.stdout, done.stderr
    done = run_cli("validity", "tables", folder, "validity-nsr-items")
    assert "Respect for authority" in done.stdout
    done = run_cli("validity", "tables", folder, "--format", "json")
    assert set(json.loads(done.stdout)) <= set(NAMES)
    done = run_cli("validity", "report", folder, "--json")
    assert json.loads(done.stdout)["report"].endswith("report.html")
    done = run_cli("validity", "run", folder, "--model", "file:nothing.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no file nothing.csv\n"


def test_a_map_names_the_countries_that_lack_an_item_and_the_tone_of_the_models(
    scored, tmp_path, run_cli
):
    table = countries().to_pandas()
    table["country"] = [str(code) for code in [752, 276, *range(1000, 1038)]]
    table.loc[0, "A008"] = np.nan
    table.loc[1, ["A008", "F063"]] = np.nan
    table.to_csv(tmp_path / "gap.csv", index=False)
    note = "not on the map: Sweden lacks A008; Germany lacks A008, F063"
    for folder in ((), (scored,)):
        done = run_cli("validity", "map", *folder, "--countries", tmp_path / "gap.csv")
        assert done.returncode == 0, done.stderr
        assert f"note: {note}\n38 countries;" in done.stdout
        told = run_cli("validity", "map", *folder, "--countries", tmp_path / "gap.csv", "--json")
        assert json.loads(told.stdout)["notes"] == [note]
    assert "models, asked in the tone standard:\n  noisy: (" in done.stdout
    table["A008"] = np.nan
    table.to_csv(tmp_path / "gap.csv", index=False)
    done = run_cli("validity", "map", "--countries", tmp_path / "gap.csv")
    assert done.returncode == 1
    assert "no country has all of" in done.stderr
    assert "Sweden lacks A008;" in done.stderr


def test_queries_that_a_file_lacks_are_counted_and_are_no_error(folder, tmp_path, run_cli):
    rows = panel_rows(folder, ["m"], lambda model, q: PROTOCOL.find(q["item"]).scores[0])
    write_csv(tmp_path / "some.csv", rows[:50])
    done = run_cli("validity", "run", folder, "--model", f"file:{tmp_path / 'some.csv'}")
    assert done.returncode == 0, done.stderr
    assert (
        "without an answer: 350 queries that the file has no row for; the score rests on the others"
        in done.stdout
    )
    helped = run_cli("validity", "run", "--help").stdout
    assert "rows that a file lacks are only counted" in " ".join(helped.split())


def test_a_pair_without_a_ratio_says_what_became_of_its_answers(scored, run_cli):
    done = run_cli("validity", "score", scored, "--resamples", 20)
    assert (
        "no ratio: refuser, F118: 0 of 30 variants and 0 of 10 seeds have a usable answer; "
        "100% of the variants refused"
    ) in done.stdout


def test_a_report_of_nothing_names_the_command_that_comes_first(run_cli, tmp_path):
    for more in ((), ("--output", tmp_path / "page.html")):
        done = run_cli("validity", "report", tmp_path / "nopanel", *more)
        assert done.returncode == 1
        assert f"run: chronocore validity prompts {tmp_path / 'nopanel'}" in done.stderr


def test_a_folder_in_the_place_of_a_file_is_told(scored, tmp_path, run_cli):
    for command, what in (
        (("run", scored, "--model", f"file:{tmp_path}"), "answers"),
        (("map", "--countries", tmp_path), "country means"),
    ):
        done = run_cli("validity", *command)
        assert done.returncode == 1
        assert f"{tmp_path} is a folder; name the file of {what} in it" in done.stderr


def test_the_page_counts_in_words_and_shows_that_a_wide_table_goes_on(scored):
    from chronocore.validity.report import report

    page = report(scored).read_text()
    assert "1 pair has no ratio because fewer than two answers could be used, 1 of them" in page
    assert page.count("scroll sideways") == page.count('<div class="scroll"') > 5
    assert "(3 lines)" in page
    assert "(1 lines)" not in page
