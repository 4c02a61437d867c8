"""Damage a study in thousands of ways: every command gives the same result, or says what is wrong.

Run ``python tests/proofs/mutate_study.py --mutations 3000``. A small study with runs, noise, scores
and a sweep is copied, one thing in the copy is changed (bits, length, place, rows, JSON,
rights, links), and one command runs on it, in this process's child. What is allowed:

- the result is that of the whole study;
- exit status 1 and one message that names a file and what to do, without a traceback;
- a file that is gone or that a user may edit (``study.toml``) may change what is there to be shown,
  and a predict that sets a damaged part aside says so.

Anything else is printed with the number that repeats it (``--only``), and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from command_line import run_here

COMMANDS = {
    "status": ["predict", "STUDY", "--status"],
    "predict": ["predict", "STUDY", "--model", "reference:pooled"],
    "predict file": ["predict", "STUDY", "--model", "file:MODEL"],
    "compact": ["predict", "STUDY", "--compact"],
    "score": ["score", "STUDY", "--resamples", "40"],
    "tables": ["tables", "STUDY"],
    "tables json": ["tables", "STUDY", "--json"],
    "noise": ["noise", "STUDY", "--repeats", "5", "--floor-repeats", "40"],
    "sweep": ["sweep", "STUDY", "--resamples", "40", "--tau", "0.1", "--retain", "1",
              "--boundaries", "default"],
    "report": ["report", "STUDY", "--formats", "none"],
    "build": ["build", "STUDY"],
}  # fmt: skip
#: How often each is drawn: those that take long are drawn less.
WEIGHTS = {"report": 1, "score": 3, "sweep": 3, "build": 1, "noise": 3}
#: Runs once on the whole study, in this order, before anything is damaged.
PREPARATION = ["predict", "predict file", "noise", "score", "sweep", "report"]
_TIMES = re.compile(r"\d+\.\d+ s\b|\d{4}-\d\d-\d\dT[\d:+.]+|[\d.]+ MiB|\d+ computed now")


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str
    files: str


def in_child(work, seconds=180):
    """Return what ``work`` returns in a forked child, or a text about how the child died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            os.write(write, json.dumps(work()).encode())
            status = 0
        except BaseException as error:
            os.write(write, json.dumps(f"child: {type(error).__name__}: {error}").encode())
        finally:
            os._exit(status)
    os.close(write)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(seconds)
    content = b""
    while piece := os.read(read, 1 << 16):
        content += piece
    os.close(read)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return json.loads(content)


def results_of(study):
    """Return a digest of what commands write and people read: the tables."""
    digest = hashlib.sha256()
    for path in sorted((study / "tables").glob("*.csv")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def run(command, study):
    """Run a command in this process."""
    places = {"STUDY": str(study), "file:MODEL": f"file:{study.parent / 'model.parquet'}"}
    done = run_here(*(places.get(word, word) for word in COMMANDS[command]))
    shown = done.stdout.replace(str(study), "STUDY")
    files = results_of(study) if command == "score" and not done.returncode else ""
    return [done.returncode, _TIMES.sub("#", shown)[:200_000], done.stderr, files]


# -- mutations -----------------------------------------------------------------------------------


def files_of(study):
    return sorted(
        path for path in study.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "report.html"
        and path.suffix not in (".md", ".csv")
    )  # fmt: skip


def flip(rng, path, study):
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 1, 8])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def cut(rng, path, study):
    content = path.read_bytes()
    path.write_bytes(content[: rng.choice([0, 1, rng.randrange(len(content)), len(content) - 1])])


def garbage(rng, path, study):
    path.write_bytes(rng.randbytes(rng.choice([1, 100, 5000])))


def append(rng, path, study):
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.choice([1, 8, 1000])))


def swap(rng, path, study):
    others = [p for p in files_of(study) if p.suffix == path.suffix and p != path]
    other = rng.choice(others or [path])
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def overwrite(rng, path, study):
    others = [p for p in files_of(study) if p.suffix == path.suffix and p != path]
    path.write_bytes(rng.choice(others or [path]).read_bytes())


def double(rng, path, study):
    place = rng.choice([p for p in files_of(study) if p.suffix == path.suffix]).parent
    name = path.name if place != path.parent else f"{path.stem}0{path.suffix}"
    if not (place / name).exists():
        shutil.copy(path, place / name)


def delete(rng, path, study):
    path.unlink()


def delete_folder(rng, path, study):
    folder = path.parent if path.parent != study else rng.choice(
        [p for p in study.iterdir() if p.is_dir()]
    )  # fmt: skip
    shutil.rmtree(folder)


def into_folder(rng, path, study):
    path.unlink()
    path.mkdir()


def link(rng, path, study):
    kept = study.parent / f"kept{path.suffix}"
    shutil.move(path, kept)
    path.symlink_to(rng.choice([kept, path, study.parent / "nothing", Path(os.devnull), study]))


def rights(rng, path, study):
    path.chmod(rng.choice([0o000, 0o200, 0o444, 0o777]))


def rows(rng, path, study):
    """Change rows and write them as a valid file with the metadata it had."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        return edit(rng, path, study)
    table = pq.ParquetFile(path).read()
    kept = table.schema.metadata
    n = len(table)
    what = rng.choice(["less", "twice", "order", "none", "value", "value", "column"])
    if what == "less" and n:
        at = rng.randrange(n)
        table = pa.concat_tables([table.slice(0, at), table.slice(at + 1)])
    elif what == "twice" and n:
        table = pa.concat_tables([table, table.slice(rng.randrange(n), 1)])
    elif what == "order" and n:
        order = list(range(n))
        rng.shuffle(order)
        table = table.take(order)
    elif what == "none":
        table = table.slice(0, 0)
    elif what == "column":
        table = table.drop_columns([rng.choice(table.column_names)])
    elif n:
        name, at = rng.choice(table.column_names), rng.randrange(n)
        values = table[name].to_pylist()
        kind = table.schema.field(name)
        real = rng.choice([float("inf"), float("nan"), -1.0, 1e300])
        new = {"string": "x\x1b[2J", "double": real, "bool": not values[at]}
        if pa.types.is_list(kind.type):
            values[at] = values[rng.randrange(n)]
        else:
            values[at] = new.get(str(kind.type), rng.choice([0, -1, 7]))
        table = table.set_column(table.column_names.index(name), kind, pa.array(values, kind.type))
    pq.write_table(table.replace_schema_metadata(kept), path)
    return None


def edit(rng, path, study):
    """Edit JSON: a key less, another value, a value of another type."""
    if path.suffix != ".json":
        return flip(rng, path, study)
    data = json.loads(path.read_bytes())
    node = data
    for _ in range(rng.randrange(4)):
        inner = [v for v in (node.values() if isinstance(node, dict) else node)
                 if isinstance(v, dict | list) and v]  # fmt: skip
        if inner:
            node = rng.choice(inner)
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = rng.choice(keys)
    if rng.random() < 0.3:
        del node[key]
    else:
        node[key] = rng.choice([None, 0, -1, 1e999, "x", "\x1b[2J", [], {}, True, 2**70])
    path.write_text(json.dumps(data))
    return None


MUTATIONS = [flip, flip, cut, garbage, append, swap, swap, overwrite, double, delete, delete,
             delete_folder, into_folder, link, rights, rows, rows, rows, edit, edit]  # fmt: skip


# -- judgement -----------------------------------------------------------------------------------


def fault(command, mutation, path, done, whole):
    """Return what is wrong with an outcome, or None; and the kind of an outcome that is right."""
    if isinstance(done, str):
        return done, ""
    status, out, err, files = done
    if "Traceback" in err or "fault of chronocore" in err:
        return "a traceback or a fault", ""
    if any(not c.isprintable() and c not in "\n\t" for c in out + err):
        return "control characters are printed", ""
    if status == 0:
        if (out, files) == (whole.out, whole.files):
            return None, "same result"
        if path.name == "study.toml":
            return None, "settings of the user's"
        if mutation.startswith("delete") or "mkdir" in mutation:
            return None, "fewer files, shown as what is there"
        if "  damaged: " in out and command == "status":
            return None, "a clear error"
        if "could not be read" in err or "set aside" in err or command == "build":
            return None, "mended, and said so"
        return "another result", ""
    if status != 1:
        return f"exit status {status}", ""
    if err.count("Error: ") != 1:
        return f"{err.count('Error: ')} messages", ""
    message = err[err.index("Error: ") :]
    if "/study" not in message:
        return "no file is named", ""
    steps = (
        "chronocore ",
        "delete",
        "choose",
        "check",
        "permission",
        "move it",
        "ask this model again",
    )
    if not any(step in message for step in steps):
        return "no next step is named", ""
    return None, "a clear error"


def mutated(number, seed, template, scratch):
    """Return command, mutation and file of a number, after damaging a copy of the study."""
    rng = random.Random(f"{seed}/{number}")
    names = list(COMMANDS)
    command = rng.choices(names, [WEIGHTS.get(name, 6) for name in names])[0]
    shutil.copytree(template, scratch, symlinks=True)
    study = scratch / "study"
    # Tables are many and alike: a folder first, then one of its files.
    folders = sorted({path.parent for path in files_of(study)})
    folder = rng.choice(folders)
    path = rng.choice([path for path in files_of(study) if path.parent == folder])
    change = rng.choice(MUTATIONS)
    return rng, command, change, path, study


def one(number, seed, template, scratch):
    """Damage a copy, run a command on it; both in this process."""
    rng, command, change, path, study = mutated(number, seed, template, scratch)
    change(rng, path, study)
    return run(command, study)


def prepare(folder, countries):
    """Write the study that is damaged, and the predictions of its model."""
    import pyarrow.parquet as pq
    from report_study import answers

    import chronocore as cc
    from chronocore.config import Rules, Source, StudyConfig
    from chronocore.store import Study

    source = Source(preset="open-sample", variables=["HAPPY", "govt_waste"])
    cc.build(folder / "study", config=StudyConfig(sources=[source], rules=Rules(newest="latest")))
    pq.write_table(answers(Study.open(folder / "study"), countries), folder / "model.parquet")
    return [run(command, folder / "study") for command in PREPARATION]


def main():
    """Run the proof."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat one mutation")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    arguments = parser.parse_args()
    import chronocore_cli.main  # noqa: F401  # imported once, for all children

    for module in ("figures.draw", "report.page", "sweep", "noise", "quickstart"):
        __import__(f"chronocore.{module}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        template = Path(place) / "whole"
        template.mkdir()
        done = in_child(lambda: prepare(template, None), 600)
        if isinstance(done, str) or any(status for status, *_ in done):
            sys.exit(f"the study cannot be made: {done}")
        scratch = Path(place) / "copy"

        def undamaged(command):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(template, scratch)
            return run(command, scratch / "study")

        whole = {}
        for command in COMMANDS:
            found = in_child(lambda command=command: undamaged(command))
            again = in_child(lambda command=command: undamaged(command))
            if isinstance(found, str) or found[0] or found != again:
                sys.exit(f"{command} on the whole study: {found} {again}")
            whole[command] = Outcome(*found)
        counts, faults, per_command = Counter(), [], Counter()
        numbers = range(arguments.mutations) if arguments.only is None else [arguments.only]
        for number in numbers:
            if time.monotonic() - started > arguments.seconds:
                break
            shutil.rmtree(scratch, ignore_errors=True)
            _, command, change, path, _ = mutated(number, arguments.seed, template, scratch)
            shutil.rmtree(scratch)
            work = (number, arguments.seed, template, scratch)
            done = in_child(lambda work=work: one(*work))
            wrong, kind = fault(command, change.__name__, path, done, whole[command])
            per_command[command] += 1
            counts[kind or "FAULT"] += 1
            if sum(counts.values()) % 100 == 0:
                print(f"... {sum(counts.values())}: {dict(counts)}", file=sys.stderr, flush=True)
            if wrong or arguments.only is not None:
                where = path.relative_to(scratch / "study")
                said = done if isinstance(done, str) else (done[2] or done[1])[-700:]
                print(f"{number}: {command}, {change.__name__} of {where}: {wrong}\n  {said}",
                      flush=True)  # fmt: skip
                faults.append(number)
    print(f"{sum(counts.values())} mutations: {dict(counts)}; by command {dict(per_command)}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
