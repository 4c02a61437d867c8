"""A small scored study with its report, for tests of figures, page and accessibility."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import chronocore as cc
from chronocore.config import Rules, Source, StudyConfig
from chronocore.store import Study

__all__ = ["EVIL", "LABEL", "answers", "config", "write_report_study"]

LABEL = 'evil <script>alert("label")</script> & co'
EVIL = '</script><script>alert("text")</script><img src="https://example.org/x.png">'


def config() -> StudyConfig:
    return StudyConfig(
        sources=[Source(preset="open-sample", variables=["E143", "HAPPY", "govt_waste"])],
        rules=Rules(newest="latest"),
    )


def answers(study: Study, countries: int | None = None, move: int = 25) -> pa.Table:
    """A model that moves a part of the way, and sometimes writes what cannot be read."""
    gold: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for row in study.gold().to_pylist():
        where = (row["survey"], row["variable"], row["country"])
        gold.setdefault(where, {})[row["year"]] = row["probs"]
    kept = sorted({row["country"] for row in study.pairs().to_pylist()})[:countries]
    rows = []
    for index, prompt in enumerate(study.prompts().to_pylist()):
        if prompt["kind"] == "modal" or prompt["country"] not in kept:
            continue
        points = gold[prompt["survey"], prompt["variable"], prompt["country"]]
        mean = [sum(values) / len(points) for values in zip(*points.values(), strict=True)]
        own = points.get(prompt["year"], mean)
        shares = [round(move * a + (100 - move) * b) for a, b in zip(own, mean, strict=True)]
        codes = [str(option["code"]) for option in prompt["options"]]
        text = json.dumps(dict(zip(codes, shares, strict=True)))
        if countries is None and index % 29 == 0:
            text = EVIL
        rows.append({"prompt_id": prompt["prompt_id"], "text": text})
    return pa.Table.from_pylist(rows)


def write_report_study(folder: Path) -> Path:
    """Write a scored study: three references and one model, with its report."""
    path = folder / "study"
    cc.build(path, config=config())
    for name in ("uniform", "persistence", "pooled"):
        cc.predict(path, f"reference:{name}")
    pq.write_table(answers(Study.open(path)), folder / "model.parquet")
    cc.predict(path, f"file:{folder / 'model.parquet'}", name=LABEL)
    cc.score(path, resamples=50)
    cc.report(path)
    return path
