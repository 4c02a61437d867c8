"""End every command before each of its steps on the disk, and see that its study stays whole.

    python tests/proofs/every_step.py --kills 30 --errors 10 [--only score …]

A step opens a file to write, writes, flushes, renames, removes, makes or removes a folder. For
each command a forked process is killed right before a step, or is told that the step failed (disk
full, quota, device, rights, file handles, memory). Then the study must open, with each result the
old one or the new one as a whole, and the same command again must end with the results of a run
that nobody disturbed. Steps are spread evenly where a command has more than were asked for.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import importlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proofs.kill import SAME
from proofs.scripted import ScriptedEngine

#: What a disk that is full, and one that may not be written, goes on to say.
LASTING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}
ERRORS = [*sorted(LASTING), errno.EIO, errno.EMFILE, errno.ENOMEM]

#: Steps that take room on a disk.
FILLING = {"open", "write", "fsync", "mkdir"}

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EVENTS = {"os.rename": "rename", "os.remove": "remove", "os.mkdir": "mkdir", "os.rmdir": "rmdir",
           "os.truncate": "truncate", "os.link": "link", "os.symlink": "link"}  # fmt: skip


class Steps:
    """Counts the steps below a folder, and ends or fails the one that is asked for.

    Parameters
    ----------
    folder : Path
    at : int
        The step, from 1; 0 only counts.
    error : int
        0 kills the process.
    """

    def __init__(self, folder: Path, at: int = 0, error: int = 0) -> None:
        self.kinds: list[str] = []
        self._inside = f"{folder}{os.sep}"
        self._folder = str(folder)
        self._at = at
        self._error = error
        self._lock = threading.Lock()

    def install(self) -> None:
        """Watch this process from now on, to its end."""
        sys.addaudithook(self._hear)
        steps, fsync, opened = self, os.fsync, Path.open

        class Counted(io.BufferedWriter):
            def write(self, content: Any) -> int:
                steps.step("write", str(self.raw.name))  # type: ignore[attr-defined]
                return super().write(content)

        def counted_fsync(handle: int) -> None:
            steps.step("fsync", str(Path(f"/proc/self/fd/{handle}").readlink()))
            fsync(handle)

        def counted_open(path: Path, mode: str = "r", *args: Any, **named: Any) -> Any:
            if mode == "wb":
                return Counted(io.FileIO(str(path), "wb"))  # type: ignore[arg-type]
            return opened(path, mode, *args, **named)

        os.fsync = counted_fsync
        Path.open = counted_open  # type: ignore[method-assign]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if (flags or 0) & _WRITES or (mode and set("wax+") & set(mode)):
                self.step("open", path)
        elif event in _EVENTS:
            self.step(_EVENTS[event], arguments[0])

    def step(self, kind: str, path: object) -> None:
        """Count a step, and end or fail it when its turn has come."""
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.fsdecode(path)
        if not (name.startswith(self._inside) or name == self._folder):
            return
        with self._lock:
            self.kinds.append(kind)
            number = len(self.kinds)
        if not self._at or number < self._at:
            return
        if not self._error:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        full = self._error in (errno.ENOSPC, errno.EDQUOT)
        lasts = self._error in LASTING and (not full or kind in FILLING)
        if number == self._at or lasts:
            raise OSError(self._error, os.strerror(self._error), name)


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Return how a forked process ended, and what its work returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 70
        try:
            os.close(reading)
            answer = work()
            with os.fdopen(writing, "w") as pipe:
                json.dump(answer, pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    return code, json.loads(said) if said else None


def command(words: list[str], steps: Steps) -> dict[str, Any]:
    """Run a command in this process, in parts that are small, and return what came of it."""
    from chronocore import stream
    from chronocore_cli.main import main

    stream.PART_ROWS, stream.SMALL_PARTS = 60, 3
    stream.FIRST_SECONDS = stream.PART_SECONDS = 0.005
    sys.argv = ["chronocore", *words]
    code: object = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        sys.stdout, sys.stderr = out, err
        steps.install()
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        err.seek(0)
        return {"code": code, "said": err.read(), "steps": steps.kinds}


# -- what a study holds --------------------------------------------------------------------------

#: What changes as one, by the patterns of its files.
GROUPS = {
    "build": ["items.parquet", "gold.parquet", "pairs.parquet", "prompts.parquet", "study.toml"],
    "scores": ["scores/**/*", "tables/*", "scores.json"],
    "report": ["report.html"],
    "noise": ["noise/**/*"],
    "sweep": ["sweep.json"],
}
_TIMES = ("_at", "seconds", "time")
# What a call did, which is less after a kill than from the start.
_DONE = ("computed",)


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            k: v for k, v in value.items() if not k.endswith(_TIMES) and k not in ("seal", *_DONE)
        }
        return {key: _untimed(one) for key, one in kept.items() if "sha256" not in key}
    return [_untimed(one) for one in value] if isinstance(value, list) else value


def _content(path: Path) -> str:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.ParquetFile(path).read()
        text = repr([(n, table[n].to_pylist()) for n in table.column_names])
    elif path.suffix == ".json":
        text = repr(_untimed(json.loads(path.read_bytes())))
    else:
        text = path.read_text(errors="strict")
        assert path.suffix != ".html" or text.rstrip().endswith("</html>"), path
        text = re.sub(r"<time>[^<]*</time>", "", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def held(study: Path) -> dict[str, Any]:
    """Open a study as a user does and return its results, without what time changes."""
    import pyarrow.parquet as pq

    import chronocore as cc

    if not (study / "manifest.json").exists() and not (study / ".build.journal").exists():
        return {"runs": {}, **dict.fromkeys(GROUPS)}
    opened = cc.Study.open(study)
    runs = {}
    for row in opened.runs().to_pylist():
        rows = opened.predictions(row["run_id"]).select([*SAME, "attempt"]).to_pylist()
        keys = Counter((one["prompt_id"], one["repeat"]) for one in rows)
        assert all(n == 1 for n in keys.values()), "a row is there twice"
        if row["label"] in {r["label"] for r in opened.runs().to_pylist()} and any(
            opened.score_path(row["run_id"]).parent.glob("*.parquet")
        ):
            opened.scores(row["run_id"])
        runs[row["run_id"]] = {
            "rows": {f"{one['prompt_id']} {one['repeat']}": repr(one) for one in rows},
            "failed": sorted(
                f"{one['prompt_id']} {one['repeat']}" for one in rows if one["status"] == "error"
            ),
            "label": row["label"],
            "attempts": opened.totals(row["run_id"]).attempts,
        }
    found: dict[str, Any] = {"runs": runs}
    for name, patterns in GROUPS.items():
        files = sorted({
            path for one in patterns for path in study.glob(one)
            if path.is_file() and not path.name.startswith(".")
        })  # fmt: skip
        pairs = [(str(path.relative_to(study)), _content(path)) for path in files]
        found[name] = None if not pairs else hashlib.sha256(repr(pairs).encode()).hexdigest()
    cells = [
        row for p in study.glob("sweep/part-*.parquet") for row in pq.read_table(p).to_pylist()
    ]
    found["cells"] = len(cells)
    return found


def check_between(found: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> None:
    """Each result is the old one or the new one, and no answer of before is lost."""
    for name in GROUPS:
        assert found[name] in (old[name], new[name]), f"{name} is neither the old nor the new one"
    for run, before in old["runs"].items():
        if run not in found["runs"]:
            assert run not in new["runs"], "a run is lost"
            continue
        there = found["runs"][run]
        after = new["runs"].get(run, before)
        assert there["label"] in (before["label"], after["label"])
        for key, row in before["rows"].items():
            if key not in before["failed"] and run in new["runs"]:
                assert there["rows"].get(key) == row, "an answer of before is lost"
        for key, row in there["rows"].items():
            assert row in (before["rows"].get(key), after["rows"].get(key)), "an answer changed"


def check_tidy(study: Path) -> None:
    """Nothing half-done lies about, and every row is there once."""
    import pyarrow.parquet as pq

    left = [
        path.name for path in study.rglob(".*") if path.suffix in (".tmp", ".staged", ".journal")
    ]
    assert not left, f"left: {left}"
    assert not list(study.rglob("*.unreadable")), "intact parts were set aside"
    for folder in (study / "predictions").glob("run=*"):
        tables = [
            pq.ParquetFile(p).read(columns=["prompt_id", "repeat"])
            for p in folder.rglob("*.parquet")
        ]
        keys = Counter(tuple(row.values()) for table in tables for row in table.to_pylist())
        assert max(keys.values(), default=1) == 1, "a row is on the disk twice"


# -- the commands --------------------------------------------------------------------------------


def make_studies(folder: Path) -> dict[str, tuple[Path | None, list[str]]]:
    """Return, by name, the study a command starts from and its words after the study."""
    import chronocore as cc
    from chronocore import stream
    from chronocore.config import Source, StudyConfig, dump_config

    rules = cc.preset_config("open-sample").rules
    source = Source(preset="open-sample", variables=["E143"])
    config = StudyConfig(sources=[source], rules=rules)
    (folder / "one.toml").write_bytes(dump_config(config).encode())
    whole, half, many = folder / "whole", folder / "half", folder / "many"
    cc.build(whole, config=folder / "one.toml")
    shutil.copytree(whole, half)
    shutil.copytree(whole, many)
    cc.predict(whole, ScriptedEngine(), repeats=3)
    cc.export_run(whole, "scripted", folder / "run.parquet")
    stream.PART_ROWS, stream.SMALL_PARTS = 40, 1000
    cc.predict(half, ScriptedEngine(errors=60))
    cc.predict(many, ScriptedEngine(errors=60), repeats=3)
    cc.predict(many, ScriptedEngine(), repeats=3)
    cc.score(whole, resamples=20)
    cc.report(whole)
    cc.noise(whole, repeats=5)
    words: dict[str, tuple[Path | None, list[str]]] = {
        "build": (None, ["build", "STUDY", "--config", str(folder / "one.toml")]),
        "rebuild": (whole, ["build", "STUDY"]),
        "predict": (half, ["predict", "STUDY", "--model", f"file:{folder / 'run.parquet'}",
                           "--repeats", "3"]),
        "compact": (many, ["predict", "STUDY", "--compact"]),
        "remove": (whole, ["predict", "STUDY", "--remove", "scripted"]),
        "score": (whole, ["score", "STUDY", "--resamples", "30"]),
        "report": (whole, ["report", "STUDY"]),
        "noise": (whole, ["noise", "STUDY", "--repeats", "7"]),
        "sweep": (whole, ["sweep", "STUDY", "--resamples", "5"]),
    }  # fmt: skip
    return words


def spread(kinds: list[str], most: int) -> list[int]:
    """Return up to ``most`` steps, evenly; of the many writes a quarter as many as of others."""

    def even(steps: list[int], n: int) -> set[int]:
        n = min(n, len(steps))
        return {steps[round(place * (len(steps) - 1) / max(1, n - 1))] for place in range(n)}

    writes = [at for at, kind in enumerate(kinds, start=1) if kind == "write"]
    others = [at for at, kind in enumerate(kinds, start=1) if kind != "write"]
    return sorted(even(others, most - most // 4) | even(writes, most // 4))


def trial(
    start: Path | None, study: Path, words: list[str], at: int, error: int,
    old: dict[str, Any], new: dict[str, Any],
) -> str:  # fmt: skip
    """Disturb a command once; return how it ended, or raise what was wrong."""
    shutil.rmtree(study, ignore_errors=True)
    if start is not None:
        shutil.copytree(start, study)
    code, ended = forked(lambda: command(words, Steps(study, at, error)))
    if not error:
        if code != -signal.SIGKILL:
            return "ended before that step"
    else:
        assert code == 0, f"the process ended with {code}"
        said, lines = ended["said"], ended["said"].splitlines()
        assert ended["code"] in (0, 1), f"exit {ended['code']}: {said[-400:]}"
        assert "Traceback" not in said, said[-1500:]
        assert "unexpected" not in said, said[-800:]
        assert "Exception ignored" not in said, said[-800:]
        told = [line for line in lines if line.startswith("Error: ")]
        assert len(told) == ended["code"], f"exit {ended['code']}, told {told}: {said[-400:]}"

    def look_and_repeat() -> Any:
        if study.exists() or start is not None:
            check_between(held(study), old, new)
        again = command(words, Steps(study))
        found = held(study)
        check_tidy(study)
        return {"again": again, "found": found}

    code, after = forked(look_and_repeat)
    assert code == 0, "the study is not whole, or cannot be gone on with (see above)"
    said = after["again"]["said"]
    done = "--remove" in words and "has no run" in said  # it was killed after its last change
    assert after["again"]["code"] == 0 or done, f"again: {said[-600:]}"
    found = after["found"]
    for name in (*GROUPS, "cells"):
        assert found[name] == new[name], f"{name} differs from that of an unbroken run"
    assert found["runs"].keys() == new["runs"].keys()
    for run, expected in new["runs"].items():
        got = {k: v.rpartition(", 'attempt'")[0] for k, v in found["runs"][run]["rows"].items()}
        want = {k: v.rpartition(", 'attempt'")[0] for k, v in expected["rows"].items()}
        assert got == want, "the answers differ from those of an unbroken run"
    return "killed" if not error else ("told" if ended["code"] else "went on")


def prove(folder: Path, kills: int, errors: int, only: list[str]) -> int:
    """Run the proof and print its figures; return the number of faults."""
    importlib.import_module("chronocore_cli.main")  # before the processes fork
    importlib.import_module("chronocore")
    (folder / "start").mkdir()
    code, words = forked(
        lambda: {
            name: [None if start is None else str(start), given]
            for name, (start, given) in make_studies(folder / "start").items()
        }
    )
    assert code == 0
    faults = 0
    for name, (start, given) in words.items():
        if only and name not in only:
            continue
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        origin = None if start is None else Path(start)
        study = folder / "study"
        shutil.rmtree(study, ignore_errors=True)
        if origin is not None:
            shutil.copytree(origin, study)
        asked = [str(study) if word == "STUDY" else word for word in given]
        _, old = forked(lambda study=study: held(study))
        _, whole = forked(lambda asked=asked, study=study: command(asked, Steps(study)))
        assert whole["code"] == 0, whole["said"]
        _, new = forked(lambda study=study: held(study))
        n = len(whole["steps"])
        plan = [(at, 0) for at in spread(whole["steps"], kills)]
        plan += [(at, error) for error in ERRORS for at in spread(whole["steps"], errors)]
        outcomes: Counter[str] = Counter()
        for at, error in plan:
            what = errno.errorcode.get(error, "kill")
            try:
                outcomes[f"{what}: {trial(origin, study, asked, at, error, old, new)}"] += 1
            except AssertionError as wrong:
                faults += 1
                kind = whole["steps"][at - 1]
                outcomes["FAULT"] += 1
                print(f"FAULT {name} step {at}/{n} ({kind}) {what}: {wrong}", flush=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
        print(name, f"{n} steps", dict(Counter(whole["steps"])), dict(outcomes),
              f"{used:.0f} s CPU", flush=True)  # fmt: skip
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30, help="steps of each command")
    parser.add_argument("--errors", type=int, default=5, help="steps of each command and error")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(1 if prove(Path(folder).resolve(), given.kills, given.errors, given.only) else 0)


if __name__ == "__main__":
    main()
