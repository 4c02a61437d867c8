"""Sections with figures and tables of their own: measurement validity, ways of asking."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore import validity as v
from chronocore.engines.base import Answer, RunSettings


class OneModel:
    """Answers every prompt with a distribution that follows from it, some with nothing usable."""

    in_flight = 0

    def __init__(self, elicitation, revision="1", unusable=0):
        self.settings = RunSettings(
            "m", "scripted", "1", revision=revision, elicitation=elicitation, temperature=1.0
        )
        self.notes = {}
        self._unusable = unusable

    def answers(self, requests):
        for request in requests:
            key = f"{self.settings.elicitation} {request.prompt_id}"
            digest = hashlib.sha256(key.encode()).digest()
            if digest[31] < self._unusable:
                yield Answer(request.prompt_id, request.repeat, status="invalid", reason="no_mass")
                continue
            weights = np.array([digest[i % 31] + 1.0 for i in range(len(request.options))])
            yield Answer(
                request.prompt_id, request.repeat, probs=tuple((weights / weights.sum()).tolist())
            )

    def drain(self, seconds):
        pass

    def close(self):
        pass


@pytest.fixture(scope="module")
def asked(built_study, tmp_path_factory):
    import shutil

    path = tmp_path_factory.mktemp("asked") / "study"
    shutil.copytree(built_study, path)
    # The first by label asks in another way than the default.
    for name, engine in (
        ("a first token", OneModel("logprob", unusable=20)),
        ("b sampled", OneModel("sampled", unusable=10)),
        ("c verbalized", OneModel("verbalized")),
        ("d another revision", OneModel("verbalized", revision="2")),
    ):
        cc.predict(path, engine, name=name)
    cc.score(path, resamples=200)
    return path


def retained(path, run_id):
    rows = pq.read_table(path / "scores" / f"run={run_id}" / "scores.parquet").to_pylist()
    return {row["pair_id"]: row for row in rows if row["retained"]}


def test_ways_of_asking_are_compared_on_the_same_pairs(asked):
    table = cc.tables(asked, "elicitation")["elicitation"].to_pylist()
    assert {(row["label"], row["item"]) for row in table} == {
        ("a first token", "logprob"), ("b sampled", "sampled"), ("c verbalized", "verbalized"),
    }  # fmt: skip
    scores = {row["run_id"]: retained(asked, row["run_id"]) for row in table}
    common = set.intersection(*(set(own) for own in scores.values()))
    assert common
    assert any(set(own) != common for own in scores.values())
    cells = {(row["run_id"], row["measure"], row["group"]): row for row in table}
    for run, own in scores.items():
        rows = [own[pair] for pair in common]
        shifted = [row for row in rows if row["shift"] != "stable"]
        moved = [row for row in shifted if row["cosine"] is not None and row["d_m"] > 1e-12]
        for measure, group, members, value in (
            ("both", "all", rows, [100.0 * (r["outcome"] == "both") for r in rows]),
            ("benefit_older", "all", rows, [100 * r["benefit_old"] for r in rows]),
            ("benefit_newer", "all", rows, [100 * r["benefit_new"] for r in rows]),
            ("zero_shift", "all_shifted", shifted, [100.0 * (r["d_m"] <= 1e-12) for r in shifted]),
            ("right_direction", "all_shifted", moved, [100.0 * (r["cosine"] > 0) for r in moved]),
        ):
            cell = cells[run, measure, group]
            assert cell["n"] == len(members)
            assert cell["estimate"] == pytest.approx(np.mean(value), abs=1e-9)
            assert cell["low"] <= cell["estimate"] <= cell["high"]


def test_the_page_shows_them_whatever_the_first_run_asked(asked):
    pytest.importorskip("altair")
    text = cc.report(asked, formats=()).read_text(encoding="utf-8")
    assert 'id="elicitation"' in text
    assert 'id="table-elicitation"' in text
    assert "a first token (logprob): both years accurate" in text
    assert 'id="validity"' not in text


def test_a_study_with_validity_results_shows_them(asked, tmp_path):
    pytest.importorskip("altair")
    v.prompts(asked)
    for seed in (0, 1, 2):
        v.run(asked, "reference:uniform", seed=seed, name=f"draws {seed}")
    v.score(asked, n_resamples=50)
    rng = np.random.default_rng(1)
    protocol = v.load_protocol()
    factors = rng.uniform(-1, 1, (30, 2))
    means = {}
    for item in protocol.item:
        own = (protocol.map.x.get(item.variable, 0), protocol.map.y.get(item.variable, 0))
        low, high = item.scores
        means[item.variable] = ((low + high) / 2 + factors @ own * (high - low) / 4).tolist()
    countries = pa.table({"country": [f"c{i}" for i in range(30)], **means})
    v.map_models(asked, countries)
    text = cc.report(asked, formats=("svg",)).read_text(encoding="utf-8")
    assert 'href="#validity"' in text
    identifiers = set(re.findall(r' id="([^"]+)"', text))
    tables = set(v.tables(asked))
    assert tables
    assert {f"table-{name}" for name in tables} <= identifiers
    for name in ("validity-grid", "validity-map", "validity-components"):
        assert f"figure-{name}" in identifiers
        assert (asked / "figures" / f"{name}.svg").read_bytes().startswith(b"<?xml")
    assert re.search(r"\d+ of 30 pairs of a model and an item", text)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= identifiers
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
