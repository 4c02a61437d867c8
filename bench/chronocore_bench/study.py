"""A synthetic study of the paper's size: 10,360 pairs, six models, every score and table.

Run as ``python -m chronocore_bench.study``: writes the study to a temporary folder, then times
``chronocore.score`` on it in a process of its own, with its memory, beside the same statistics
with polars and scipy.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import scipy.stats
from numpy.typing import NDArray

import chronocore as cc
import chronocore_data
from chronocore import schema
from chronocore.config import ScoreSettings, Source, StudyConfig
from chronocore.scores import PairPredictions, pair_predictions, pair_scores
from chronocore.store import Study
from chronocore.tables import Benchmark, Context, Evaluation, all_tables

__all__ = [
    "CLASSES",
    "MODELS",
    "SyntheticBenchmark",
    "agrees_with",
    "evaluate",
    "polars_and_scipy",
    "predictions_of",
    "synthetic_benchmark",
    "time_tables",
    "write_study",
]

Floats = NDArray[np.float64]

#: Pairs of each shift class in the paper (Table 1).
CLASSES = {"stable": 2607, "moderate": 5535, "strong": 1828, "very_strong": 390}
_RANGES = {
    "stable": (0.0005, 0.0295), "moderate": (0.0305, 0.0995), "strong": (0.1005, 0.1995),
    "very_strong": (0.2005, 0.33),
}  # fmt: skip
#: Pairs, questions and time points of the two surveys.
_WVS_SHARE = 3228 / 10360
_QUESTIONS = {"wvs": 160, "issp": 248}
_TOPICS = ("Government", "Religion", "Inequality and work", "Family and health", "Environment")

#: Names of the synthetic models.
MODELS = tuple(f"model {letter}" for letter in "ABCDEF")


@dataclass(frozen=True, slots=True)
class SyntheticBenchmark:
    """Pairs, gold, items and prompts as a build writes them."""

    pairs: pa.Table
    gold: pa.Table
    items: pa.Table
    prompts: pa.Table


def _gold_pair(rng: np.random.Generator, k: int, d_h: float) -> tuple[Floats, Floats]:
    """Return two distributions over k options whose distance is ``d_h``."""
    old = rng.dirichlet(np.full(k, 2.0))
    end = np.zeros(k)
    # Towards the farther end of the scale the distance is a multiple of the mixing share.
    mean = old @ np.arange(k) / (k - 1)
    end[k - 1 if mean < 0.5 else 0] = 1.0
    reach = max(mean, 1 - mean)
    share = d_h / reach
    return old, (1 - share) * old + share * end


def synthetic_benchmark(n_pairs: int = 10_360, seed: int = 0) -> SyntheticBenchmark:
    """Return a benchmark of two surveys with the paper's shares of surveys and shift classes."""
    rng = np.random.default_rng(seed)
    counts = {name: round(count * n_pairs / 10_360) for name, count in CLASSES.items()}
    counts["moderate"] += n_pairs - sum(counts.values())
    targets = np.concatenate([rng.uniform(*_RANGES[name], count) for name, count in counts.items()])
    rng.shuffle(targets)
    countries = [row for row in chronocore_data.regions() if row["iso_numeric"] and row["region"]][
        :80
    ]
    sizes = {
        (survey, v): int(rng.choice([2, 3, 4, 5, 7, 10], p=[0.1, 0.1, 0.35, 0.25, 0.05, 0.15]))
        for survey, count in _QUESTIONS.items()
        for v in range(count)
    }
    items = [
        {
            "survey": survey, "variable": f"Q{v}", "source": "synthetic", "text": f"Question {v}?",
            "topic": f"{survey.upper()} topic {v % (11 if survey == 'wvs' else 8)}",
            "topic_broad": _TOPICS[v % len(_TOPICS)],
            "options": [
                {"code": j + 1, "label": f"option {j + 1}", "position": float(j + 1)}
                for j in range(size)
            ],
        }
        for (survey, v), size in sizes.items()
    ]  # fmt: skip
    n_wvs = round(n_pairs * _WVS_SHARE)
    pairs: list[dict[str, Any]] = []
    gold: list[dict[str, Any]] = []
    for index in range(n_pairs):
        survey = "wvs" if index < n_wvs else "issp"
        place = index if survey == "wvs" else index - n_wvs
        v = place % _QUESTIONS[survey]
        country = countries[(place // _QUESTIONS[survey]) % len(countries)]
        code = country["iso_numeric"]
        old, new = _gold_pair(rng, sizes[survey, v], float(targets[index]))
        t = int(rng.integers(2, 6))
        waves = [None] * t if survey == "issp" else sorted(range(8 - t, 8))
        years = [1990 + 7 * j for j in range(t)]
        for j, (wave, year) in enumerate(zip(waves, years, strict=True)):
            share = j / (t - 1)
            probs = (1 - share) * old + share * new
            if 0 < j < t - 1:
                probs = 0.9 * probs + 0.1 * rng.dirichlet(np.ones(len(old)))
            elif j == 0:
                probs = old
            else:
                probs = new
            gold.append(
                {
                    "survey": survey, "variable": f"Q{v}", "country": code,
                    "country_name": country["country_name"], "region": country["region"],
                    "year": year, "wave": wave, "weight": None, "n_valid": 1000, "n_eff": 800.0,
                    "n_dropped_weight": 0, "n_options": len(old), "collapsed": False,
                    "probs": (probs / probs.sum()).tolist(),
                }
            )  # fmt: skip
        ends = [gold[-t]["probs"], gold[-1]["probs"]]
        pairs.append(
            {
                "pair_id": f"p{(index * 2_654_435_761) % 2**32:016x}",
                "survey": survey, "variable": f"Q{v}", "country": code,
                "country_name": country["country_name"], "region": country["region"],
                "topic": f"{survey.upper()} topic {v % (11 if survey == 'wvs' else 8)}",
                "topic_broad": _TOPICS[v % len(_TOPICS)], "wave_old": waves[0],
                "wave_new": waves[-1], "year_old": years[0], "year_new": years[-1],
                "n_timepoints": t, "n_valid_old": 1000, "n_valid_new": 1000, "n_eff_old": 800.0,
                "n_eff_new": 800.0, "gold_old": ends[0], "gold_new": ends[1],
                "d_h": 0.0, "shift": "",
                "mode_old": int(np.argmax(ends[0])) + 1, "mode_new": int(np.argmax(ends[1])) + 1,
                "mode_tied_old": False, "mode_tied_new": False,
            }
        )  # fmt: skip
    d_h = cc.wasserstein([p["gold_old"] for p in pairs], [p["gold_new"] for p in pairs])
    for pair, distance, shift in zip(pairs, d_h.tolist(), cc.shift_class(d_h), strict=True):
        pair["d_h"], pair["shift"] = distance, str(shift)
    return SyntheticBenchmark(
        pa.Table.from_pylist(pairs, schema=schema.PAIRS),
        pa.Table.from_pylist(gold, schema=schema.GOLD),
        pa.Table.from_pylist(items, schema=schema.ITEMS),
        _prompts(pairs, items),
    )


def _prompts(pairs: list[dict[str, Any]], items: list[dict[str, Any]]) -> pa.Table:
    """Return dated and undated prompts; their wording does not matter here."""
    options = {(item["survey"], item["variable"]): item["options"] for item in items}
    rows = []
    for kind in ("dated", "undated"):
        for pair in pairs:
            ends = [("old", pair["wave_old"], pair["year_old"]),
                    ("new", pair["wave_new"], pair["year_new"])]  # fmt: skip
            for end, wave, year in ends if kind == "dated" else [("undated", None, None)]:
                rows.append(
                    {
                        "prompt_id": f"q{pair['pair_id'][1:]}-{end}", "kind": kind,
                        "elicitation": "verbalized", "instruction": "default",
                        "survey": pair["survey"], "variable": pair["variable"],
                        "country": pair["country"], "wave": wave, "year": year,
                        "system": "", "user": "",
                        "options": options[pair["survey"], pair["variable"]],
                    }
                )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema.PROMPTS)


def predictions_of(benchmark: SyntheticBenchmark, model: str) -> pa.Table:
    """Return the answers of a synthetic model that knows a part of the change."""
    number = MODELS.index(model)
    rng = np.random.default_rng([7, number])
    still, noise = 0.2 + 0.07 * number, 0.25 + 0.04 * number
    golds = [benchmark.pairs[name].combine_chunks() for name in ("gold_old", "gold_new")]
    starts = golds[0].offsets.to_numpy()
    lengths = np.diff(starts)
    flat = [gold.flatten().to_numpy() for gold in golds]
    answers = {end: np.empty(len(flat[0])) for end in ("old", "new", "undated")}
    for k in np.unique(lengths):
        rows = np.flatnonzero(lengths == k)
        place = starts[rows][:, None] + np.arange(k)
        a, b = flat[0][place], flat[1][place]
        undated = (1 - noise) * (a + b) / 2 + noise * rng.dirichlet(np.ones(k), len(rows))
        keeps = rng.random((2, len(rows), 1)) < still
        old = np.where(keeps[0], undated, 0.8 * undated + 0.2 * a)
        new = np.where(keeps[1], old, 0.75 * undated + 0.25 * b)
        for end, probs in (("old", old), ("new", new), ("undated", undated)):
            answers[end][place] = probs / probs.sum(axis=1, keepdims=True)
    ids = benchmark.pairs["pair_id"].to_pylist()
    n = 3 * len(ids)
    offsets = np.concatenate([starts[:-1] + j * starts[-1] for j in range(3)] + [[3 * starts[-1]]])
    columns: dict[str, Any] = {
        "run_id": [""] * n,
        "model": [model] * n,
        "prompt_id": [f"q{one[1:]}-{end}" for end in answers for one in ids],
        "repeat": pa.array(np.zeros(n), pa.int32()),
        "status": ["ok"] * n,
        "attempt": pa.array(np.ones(n), pa.int32()),
        "created_at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * n, pa.timestamp("us", "UTC")),
        "probs": pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), np.concatenate(list(answers.values()))
        ),
    }
    for field in schema.PREDICTIONS:
        columns.setdefault(field.name, pa.nulls(n, field.type))
    return schema.conform(pa.table(columns), schema.PREDICTIONS)


def evaluate(
    benchmark: SyntheticBenchmark, models: Sequence[str], *, retain: float = 0.75
) -> tuple[list[Evaluation], list[PairPredictions]]:
    """Return the evaluation of each model, and what it was scored from."""
    evaluations, predictions = [], []
    for model in models:
        data = pair_predictions(
            benchmark.pairs, benchmark.gold, benchmark.items, benchmark.prompts,
            predictions_of(benchmark, model),
        )  # fmt: skip
        scores = pair_scores(data, retain=retain)
        own = scores.take(scores.retained)
        evaluations.append(Evaluation(f"r{model[-1]}", model, {"model": own}, scores))
        predictions.append(data)
    return evaluations, predictions


def write_study(path: Path, benchmark: SyntheticBenchmark, models: Sequence[str] = MODELS) -> None:
    """Write a benchmark and the answers of models to a folder, as build and predict do."""
    study = Study(path)
    path.mkdir(parents=True, exist_ok=True)
    built = {name: getattr(benchmark, name) for name in ("items", "gold", "pairs", "prompts")}
    study.save_build(StudyConfig(sources=[Source(preset="open-sample")]), built, {})
    for number, model in enumerate(models):
        run_id = f"r{number:016x}"
        study.save_run(
            {
                "run_id": run_id, "label": model, "model": model, "engine": "file",
                "elicitation": "verbalized", "instruction": "default", "structured": False,
            }
        )  # fmt: skip
        answers = predictions_of(benchmark, model)
        place = answers.column_names.index("run_id")
        answers = answers.set_column(
            place, answers.schema.field(place), pa.array([run_id] * len(answers))
        )
        undated = pc.ends_with(answers["prompt_id"], "-undated")
        for kind, own in (("dated", pc.invert(undated)), ("undated", undated)):
            study.add_part(run_id, kind, answers.filter(own))


# -- the same work with polars and scipy ---------------------------------------------------------


def polars_and_scipy(frame: pl.DataFrame, resamples: int) -> dict[tuple[str, str], Floats]:
    """Compute a part of one model's tables the straightforward way.

    Group with polars, resample each cell with ``scipy.stats.bootstrap`` (percentile, vectorised,
    ``batch`` 100, so that the index matrix fits the cache).

    Returns
    -------
    dict
        Interval by (shift class, measure): shares of Table 8, medians of Table 11, means of
        Table 18, in their units.
    """
    found: dict[tuple[str, str], Floats] = {}

    def interval(values: Floats, statistic: Callable[..., Any]) -> Floats:
        result = scipy.stats.bootstrap(
            (values,), statistic, n_resamples=resamples, batch=100, method="percentile",
            vectorized=True, rng=0,
        )  # fmt: skip
        return np.array(result.confidence_interval)

    for (shift,), group in frame.group_by("shift"):
        where = str(shift)
        both = (group["outcome"] == "both").to_numpy().astype(float)
        found[where, "both"] = 100 * interval(both, np.mean)
        for end in ("old", "new"):
            values = group[f"benefit_{end}"].to_numpy()
            found[where, {"old": "older", "new": "newer"}[end]] = 100 * interval(values, np.mean)
        if where != "stable":
            moving = group.filter(pl.col("d_m") > 1e-12)
            for column in ("ratio", "cosine"):
                values = moving[column].drop_nulls().to_numpy()
                found[where, f"median_{column}"] = interval(values, np.median)
    return found


def agrees_with(tables: Mapping[str, pa.Table], label: str, peer: Mapping[Any, Floats]) -> bool:
    """Return whether a peer's intervals are those of the tables, within Monte-Carlo error."""
    own = {}
    for name in ("t08", "t11", "t18"):
        for row in tables[name].to_pylist():
            if (row["label"], row["prediction"], row["survey"]) == (label, "model", "all"):
                own[row["group"], row["item"] or row["measure"]] = np.array(
                    [row["low"], row["high"]], dtype=float
                )
    return all(
        np.abs(own[where] - ends).max() <= 0.5 * np.ptp(own[where]) + 1e-9
        for where, ends in peer.items()
    )


def time_tables(n_resamples: int, n_pairs: int = 10_360, n_models: int = 6) -> tuple[float, int]:
    """Return the seconds all tables take and how many cells with an interval they hold."""
    benchmark = synthetic_benchmark(n_pairs)
    evaluations, _ = evaluate(benchmark, MODELS[:n_models])

    def context(resamples: int) -> Context:
        columns = Benchmark(benchmark.pairs, benchmark.gold, benchmark.items)
        return Context(columns, evaluations, ScoreSettings(resamples=resamples))

    all_tables(context(10))  # compiles
    started = time.perf_counter()
    tables = all_tables(context(n_resamples))
    seconds = time.perf_counter() - started
    return seconds, sum(len(table) - table["low"].null_count for table in tables.values())


_CHILD = """
import json, resource, sys, time
import chronocore as cc
cc.score(sys.argv[1], resamples=10)
times = []
for _ in range(3):
    started = time.perf_counter()
    cc.score(sys.argv[1], resamples=int(sys.argv[2]))
    times.append(time.perf_counter() - started)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": times, "megabytes": peak / 1024}))
"""


def main(resamples: int) -> None:
    """Print what scoring a study of the paper's size takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study"
        write_study(path, synthetic_benchmark())
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path), str(resamples)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = json.loads(done.stdout)
        study = Study.open(path)
        tables = cc.tables(study)
        cells = sum(len(table) - table["low"].null_count for table in tables.values())
        run = study.runs().to_pylist()[0]
        frame = pl.DataFrame(study.scores(run["run_id"])).filter(pl.col("retained"))
        started = time.perf_counter()
        theirs = polars_and_scipy(frame, resamples)
        few = len(theirs)
        peer = (time.perf_counter() - started) / few
        if not agrees_with(tables, run["label"], theirs):
            raise AssertionError("polars and scipy give other intervals than the tables")
    seconds = min(found["seconds"])
    print(
        f"score and {len(tables)} tables, {cells:,} intervals, {resamples:,} resamples: "
        f"{seconds:.2f} s (of {', '.join(f'{s:.2f}' for s in found['seconds'])}), "
        f"peak {found['megabytes']:.0f} MB"
    )
    print(
        f"polars and scipy: {peer * 1e3:.0f} ms an interval over {few} intervals, "
        f"{peer * cells:.0f} s for all: {peer * cells / seconds:.0f} times as long"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
