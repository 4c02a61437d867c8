"""Kill a predict with a real vLLM engine at random moments, and resume it.

    python tests/proofs/kill_vllm.py STUDY MODEL --kills 5

Run it with the Python of an environment that has vLLM (see tests/engine/run). STUDY is a built
study; it is copied. MODEL is a model folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proofs.kill import check_rows, parts_of


def prove(study: Path, model: str, kills: int, seed: int, pairs: int) -> dict[str, Any]:
    """Run the proof and return its figures; an assertion fails where it does."""
    import chronocore as cc

    chance = random.Random(seed)
    figures: dict[str, Any] = {"kills": 0, "rows at kills": [], "seconds to the first part": []}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "study"
        shutil.copytree(study, target)
        command = [
            sys.executable, "-m", "chronocore_cli.main", "predict", str(target),
            "--model", f"vllm:{model}", "--sample", str(pairs), "--concurrency", "4", "--json",
        ]  # fmt: skip
        while figures["kills"] < kills:
            before = set(parts_of(target))
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            started = time.monotonic()
            while child.poll() is None and set(parts_of(target)) == before:
                time.sleep(0.05)
            figures["seconds to the first part"].append(round(time.monotonic() - started, 1))
            end = time.monotonic() + chance.uniform(0.0, 2.5)
            while child.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            if child.poll() is not None:
                raise AssertionError(
                    f"the run ended (status {child.returncode}) before {kills} kills; "
                    f"give more --pairs\n{child.communicate()[1]}"
                )
            os.kill(child.pid, signal.SIGKILL)
            child.communicate()
            figures["kills"] += 1
            rows, _ = check_rows(target)
            figures["rows at kills"].append(rows)
            print(json.dumps(figures), file=sys.stderr, flush=True)
            assert figures["rows at kills"] == sorted(figures["rows at kills"]), "rows were lost"
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        opened = cc.Study.open(target)
        from chronocore.predict import requests_of

        wanted = sorted(
            (r.prompt_id, 0) for r in requests_of(opened, ("dated", "undated"), sample=pairs)
        )
        table = opened.predictions(result["run_id"])
        found = list(zip(table["prompt_id"].to_pylist(), table["repeat"].to_pylist(), strict=True))
        assert found == wanted, "the set of rows differs from an unbroken run's"
        assert check_rows(target) == (len(wanted), 0)
        assert not list(target.rglob(".*.tmp"))
        assert result["already_done"] == figures["rows at kills"][-1]
        figures["rows"] = len(wanted)
        figures["statuses"] = result["statuses"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("model")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=40)
    given = parser.parse_args()
    figures = prove(given.study, given.model, given.kills, given.seed, given.pairs)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
