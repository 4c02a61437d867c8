"""Flip bits of an exported run, one at a time, and see that no other answer comes back.

    python tests/proofs/flip_bits.py STUDY RUN --flips 1000

Every flipped file is opened as ``file:`` opens it; what it would import must be refused, or be
exactly what was exported: settings, label, notes and every answer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import chronocore as cc
from chronocore.engines import FileEngine
from chronocore.predict import requests_of


def imported(path: Path, study: cc.Study) -> Any:
    """Return everything that a predictions file would bring into a study."""
    engine = FileEngine(path)
    try:
        prompts = requests_of(study, ["dated", "undated"])
        answers = [asdict(answer) for answer in engine.answers(prompts)]
        return asdict(engine.settings), engine.label, dict(engine.notes), answers
    finally:
        engine.close()


def prove(folder: Path, run: str, flips: int, seed: int = 0) -> dict[str, int]:
    """Run the proof and return its figures; an assertion fails where it does."""
    study = cc.Study.open(folder)
    chance = random.Random(seed)
    figures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.parquet"
        cc.export_run(study, run, path)
        whole, expected = path.read_bytes(), imported(path, study)
        for _ in range(flips):
            changed = bytearray(whole)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            try:
                found = imported(path, study)
            except cc.ChronocoreError as error:
                figures["refused" if "\n" not in str(error) else "refused in many lines"] += 1
                continue
            figures["the same" if found == expected else "silent"] += 1
    return dict(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("run")
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    figures = prove(given.study, given.run, given.flips, given.seed)
    print(json.dumps(figures, indent=2))
    sys.exit(1 if figures.get("silent") else 0)


if __name__ == "__main__":
    main()
