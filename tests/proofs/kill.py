"""Kill a predict at random moments, and see that nothing is lost, doubled or unreadable.

    python tests/proofs/kill.py STUDY --kills 200

STUDY is a built study; it is copied. In every round a run is killed with SIGKILL and resumed
until it is done. While it runs and after every kill each of its files is read by pyarrow, polars
and DuckDB. At the end of a round its rows must be those of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proofs.scripted import ScriptedEngine, run

#: What must be the same, however often a run was killed.
SAME = [
    "run_id", "model", "prompt_id", "repeat", "seed", "text", "thinking", "status", "reason",
    "raw_sum", "sum_off", "probs", "choice", "finish_reason", "prompt_tokens", "completion_tokens",
]  # fmt: skip


def parts_of(study: Path) -> list[Path]:
    return sorted([*study.glob("predictions/**/*.parquet"), *study.glob("attempts/**/*.parquet")])


def read_everywhere(path: Path) -> int:
    """Read a whole file with three readers and return its number of rows."""
    import duckdb
    import polars as pl
    import pyarrow.parquet as pq

    n = len(pq.ParquetFile(path).read())
    assert len(pl.read_parquet(path, hive_partitioning=False)) == n
    rows = duckdb.sql(f"select count(*), count(text) from read_parquet('{path}')").fetchall()
    assert rows[0][0] == n
    return n


def rows_of(study: Path, run_id: str) -> list[dict[str, Any]]:
    import chronocore as cc

    return cc.Study.open(study).predictions(run_id).select(SAME).to_pylist()


def check_rows(study: Path) -> tuple[int, int]:
    """Check what lies there after a kill; return rows, and rows a raw reader sees twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import chronocore as cc

    for part in parts_of(study):
        read_everywhere(part)
    folders = list((study / "predictions").glob("run=*"))
    if not folders:
        return 0, 0
    run_id = folders[0].name.removeprefix("run=")
    table = cc.Study.open(study).predictions(run_id, columns=["prompt_id", "repeat"])
    keys = Counter(zip(table["prompt_id"].to_pylist(), table["repeat"].to_pylist(), strict=True))
    assert all(n == 1 for n in keys.values()), "a row is there twice"
    raw = [
        pq.ParquetFile(p).read(columns=["prompt_id"]) for p in folders[0].rglob("part-*.parquet")
    ]
    return len(table), (len(pa.concat_tables(raw)) if raw else 0) - len(table)


def check_attempts(study: Path, run_id: str) -> int:
    """Check that attempts were counted through all kills; return how many were repeated."""
    import chronocore as cc

    opened = cc.Study.open(study)
    earlier = opened.attempts(run_id, ["dated", "undated"]).to_pylist()
    highest: Counter[tuple[str, int]] = Counter()
    for row in earlier:
        key = (row["prompt_id"], row["repeat"])
        highest[key] = max(highest[key], row["attempt"])
    final = opened.predictions(run_id, columns=["prompt_id", "repeat", "attempt"]).to_pylist()
    for row in final:
        assert row["attempt"] == highest[row["prompt_id"], row["repeat"]] + 1
    return len(earlier)


def prove(
    study: Path, kills: int, seed: int = 0, repeats: int = 8, per_second: float = 2500.0
) -> dict[str, Any]:
    """Run the proof and return its figures; an assertion fails where it does."""
    import chronocore as cc

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chronocore", "proofs.scripted"])
    chance = random.Random(seed)
    figures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        unbroken = Path(folder) / "unbroken"
        shutil.copytree(study, unbroken)
        whole = cc.predict(unbroken, ScriptedEngine(), repeats=repeats)
        expected = rows_of(unbroken, whole.run_id)
        while figures["kills"] < kills:
            figures["rounds"] += 1
            broken = Path(folder) / f"broken{figures['rounds']}"
            shutil.copytree(study, broken)
            while figures["kills"] < kills:
                salt = chance.randrange(2**32)
                asking, end = context.Pipe(duplex=False)
                child = context.Process(
                    target=run, args=(broken, repeats, per_second, 12, salt, end)
                )
                child.start()
                if chance.random() < 0.8:  # most while it asks, some while it starts or resumes
                    asking.poll(20.0)
                until = time.monotonic() + chance.uniform(0.0, 0.5)
                while child.is_alive() and time.monotonic() < until:
                    _read_one(broken, chance, figures)
                if not child.is_alive():
                    assert child.exitcode == 0, f"the child ended with {child.exitcode}"
                    break
                child.kill()
                child.join()
                asking.close()
                figures["kills"] += 1
                figures["temporaries left"] += len(list(broken.rglob(".*.tmp")))
                rows, twice = check_rows(broken)
                figures["kills with rows on disk"] += rows > 0
                figures["kills between a merged part and those it replaces"] += twice > 0
            result = cc.predict(broken, ScriptedEngine(), repeats=repeats)
            assert rows_of(broken, result.run_id) == expected, "the rows differ"
            assert check_rows(broken) == (len(expected), 0)
            assert not list(broken.rglob(".*.tmp"))
            figures["attempts repeated"] += check_attempts(broken, result.run_id)
            figures["rows compared"] += len(expected)
            shutil.rmtree(broken)
    return dict(figures)


def _read_one(study: Path, chance: random.Random, figures: Counter[str]) -> None:
    parts = parts_of(study)
    if not parts:
        time.sleep(0.005)
        return
    path = chance.choice(parts)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return  # merged away since it was listed
    # From a copy, so that it may go meanwhile: what is whole once stays whole.
    with tempfile.NamedTemporaryFile(suffix=".parquet") as copy:
        copy.write(content)
        copy.flush()
        read_everywhere(Path(copy.name))
    figures["files read while they were written"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.monotonic()
    figures = prove(arguments.study, arguments.kills, arguments.seed)
    figures["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
