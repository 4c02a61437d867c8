"""Take a run with any amount of text through every command, and measure what memory each needs.

    python tests/proofs/large_text.py FOLDER --gigabytes 5

FOLDER is made and removed. A scripted engine answers the prompts of the open sample, with a
reasoning of so many characters that the run holds the gigabytes asked for. Every command is a
process of its own, whose largest resident memory is printed; what the commands say of the run
must be what they say of the same run without the reasoning.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chronocore.engines.base import Answer, Request
from chronocore.part_files import text_size
from proofs.scripted import ScriptedEngine


class LongWinded(ScriptedEngine):
    """Reasons at length before every answer, each time in other words."""

    def __init__(self, characters: int, only: int | None = None) -> None:
        super().__init__()
        self._characters = characters
        self._left = only
        self._words = [f"{word:08x} " for word in range(0, 2**32, 2**20 + 7)]

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        for answer in super().answers(requests):
            if self._left is not None:
                if not self._left:
                    return
                self._left -= 1
            yield replace(answer, thinking=self._thinking(answer))

    def _thinking(self, answer: Answer) -> str:
        start = int(answer.prompt_id[1:9], 16) + answer.repeat
        chosen = "".join(self._words[(start * k) % len(self._words)] for k in range(1, 400))
        return (chosen * (self._characters // len(chosen) + 1))[: self._characters]


def _child(step: str, study: Path, characters: int, repeats: int) -> None:
    """Do one step in this process."""
    import chronocore as cc

    if step == "predict a half":
        cc.predict(study, LongWinded(characters, only=387 * repeats // 2), repeats=repeats)
    elif step == "resume":
        result = cc.predict(study, LongWinded(characters), repeats=repeats)
        assert not result.missing
    elif step == "export":
        cc.export_run(study, "scripted", study.parent / "run.parquet")
    elif step == "import":
        cc.predict(study.parent / "other", f"file:{study.parent / 'run.parquet'}", repeats=repeats)


def _commands(study: Path) -> dict[str, list[str]]:
    cli = [sys.executable, "-m", "chronocore_cli.main"]
    return {
        "--status": [*cli, "predict", str(study), "--status"],
        "--compact": [*cli, "predict", str(study), "--compact"],
        "score": [*cli, "score", str(study)],
        "tables": [*cli, "tables", str(study), "t08"],
        "sweep": [*cli, "sweep", str(study), "--resamples", "50"],
        "noise": [*cli, "noise", str(study), "--repeats", "20"],
        "report": [*cli, "report", str(study)],
    }


def _measured(command: list[str]) -> dict[str, Any]:
    """Run a command; return its largest resident memory in MB and its CPU seconds."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise AssertionError(f"{command} ended with {status}: {output[-2000:]}")
    return {
        "peak_mb": round(used.ru_maxrss / 1024),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(time.monotonic() - started, 1),
    }


def prove(folder: Path, gigabytes: float, characters: int) -> dict[str, Any]:
    """Run the proof and return its figures; an assertion fails where it does."""
    import chronocore as cc

    repeats = max(1, round(gigabytes * 1e9 / characters / 387))
    study = folder / "study"
    cc.build(study, preset="open-sample")
    shutil.copytree(study, folder / "plain")
    shutil.copytree(study, folder / "other")
    figures: dict[str, Any] = {"characters": 387 * repeats * characters, "rows": 387 * repeats}
    script = [sys.executable, __file__, str(study)]
    for step in ("predict a half", "resume"):
        figures[step] = _measured(
            [*script, "--step", step, "--characters", str(characters), "--repeats", str(repeats)]
        )
    figures["parts"] = len(list(study.glob("predictions/**/part-*.parquet")))
    for name, command in _commands(study).items():
        figures[name] = _measured(command)
    for step in ("export", "import"):
        figures[step] = _measured(
            [*script, "--step", step, "--characters", str(characters), "--repeats", str(repeats)]
        )
    # The same run without the reasoning has the same results.
    cc.predict(folder / "plain", ScriptedEngine(), repeats=repeats)
    cc.score(folder / "plain")
    for name, table in cc.tables(folder / "plain").items():
        assert cc.tables(study, name)[name].equals(table), name
    columns = ["prompt_id", "repeat", "text", "status", "probs"]
    expected = cc.Study.open(folder / "plain").predictions(
        cc.status(folder / "plain")[0].run_id, columns=columns
    )
    for place in (study, folder / "other"):
        opened = cc.Study.open(place)
        run = cc.status(place)[0].run_id
        assert opened.predictions(run, columns=columns).equals(expected)
        texts = (
            text_size(batch.select(["thinking"]))
            for part in opened.parts(run)
            for batch in opened.batches(run, part, ["thinking"])
        )
        assert sum(texts) == figures["characters"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--characters", type=int, default=100_000)
    parser.add_argument("--step")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    if given.step:
        _child(given.step, given.folder, given.characters, given.repeats)
        return
    given.folder.mkdir(parents=True)
    try:
        figures = prove(given.folder, given.gigabytes, given.characters)
    finally:
        shutil.rmtree(given.folder)
    print(json.dumps(figures, indent=2))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"(the proof itself: {own:.0f} MB)")


if __name__ == "__main__":
    main()
