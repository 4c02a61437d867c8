"""Run every command that reads a run under limits of memory, and see that nothing is lost.

    python tests/proofs/memory_limits.py FOLDER --limits 20

FOLDER is made and removed. A run with long texts is read by every command under ``ulimit -v`` at
evenly spaced limits up to what the command needs. Whatever happens, predictions, attempts, the
list of runs and the built tables must be the same bytes, nothing may be set aside, and the
command must end well or with one clear line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proofs.large_text import LongWinded

KEPT = ("predictions", "attempts", "runs.parquet", "prompts.parquet", "pairs.parquet")


def commands(study: Path) -> dict[str, list[str]]:
    predict = ["predict", str(study)]
    return {
        "resume": [*predict, "--model", f"file:{study.parent / 'run.parquet'}"],
        "dry run": [*predict, "--model", f"file:{study.parent / 'run.parquet'}", "--dry-run"],
        "status": [*predict, "--status"],
        "compact": [*predict, "--compact"],
        "score": ["score", str(study)],
        "tables": ["tables", str(study), "t08"],
        "report": ["report", str(study)],
        "sweep": ["sweep", str(study), "--resamples", "20"],
        "noise": ["noise", str(study), "--repeats", "10"],
    }


def digests(study: Path) -> dict[str, str]:
    """Return the digests of what no command may lose; parts only as rows, for merging."""
    return {
        str(path.relative_to(study)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in KEPT
        for path in [study / name, *(study / name).rglob("*")]
        if path.is_file()
    }


def limited(arguments: list[str], limit: int | None, seconds: float) -> tuple[int, str]:
    def set_limit() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    try:
        done = subprocess.run(
            [sys.executable, "-m", "chronocore_cli.main", *arguments],
            capture_output=True, preexec_fn=set_limit, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, "does not end"  # a library asks again and again for memory it did not get
    return done.returncode, done.stderr.decode(errors="replace")


def needed(arguments: list[str]) -> int:
    """Return how much address space a command needs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chronocore_cli.main", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmPeak")]
        peak = max(peak, int(found[0]) * 1024 if found else 0)
        time.sleep(0.01)
    return peak


def prove(folder: Path, n_limits: int, seconds: float) -> dict[str, dict[str, int]]:
    """Run the proof and return its figures; an assertion fails where it does."""
    import chronocore as cc

    study = folder / "study"
    cc.build(study, preset="open-sample")
    cc.predict(study, LongWinded(300_000))
    cc.score(study)
    cc.export_run(study, "scripted", folder / "run.parquet")
    rows = cc.Study.open(study).predictions(cc.status(study)[0].run_id)
    figures: dict[str, dict[str, int]] = {}
    for name, arguments in commands(study).items():
        counts: Counter[str] = Counter()
        before = digests(study)
        most = needed(arguments)
        for step in range(1, n_limits + 1):
            code, said = limited(arguments, most * step // n_limits, seconds)
            lines = [line for line in said.splitlines() if line.strip()]
            if code == 0:
                counts["done"] += 1
            elif code < 0:
                counts[f"ended by signal {-code}"] += 1
            elif "Traceback" in said:
                counts["traceback"] += 1
            elif any("memory" in line for line in lines):
                counts["told"] += 1
            else:
                counts[f"other: {lines[-1][:160] if lines else 'nothing'}"] += 1
            assert not list(study.rglob("*.unreadable")), (name, step)
            if digests(study) != before:
                assert name == "compact", (name, step)
                run = cc.status(study)[0].run_id
                assert cc.Study.open(study).predictions(run).equals(rows)
                before = digests(study)
        figures[name] = dict(counts)
        print(name, f"up to {most / 2**20:.0f} MiB", dict(counts), flush=True)
    assert cc.Study.open(study).predictions(cc.status(study)[0].run_id).equals(rows)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limits", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest one may take")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    try:
        print(json.dumps(prove(given.folder, given.limits, given.seconds), indent=2))
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
