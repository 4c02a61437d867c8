"""Flip, cut, insert and repeat random bytes of survey and prediction files, and read them.

    python tests/proofs/mutate_surveys.py --n 3000 [--seed 0] [--kinds sav,zsav,dta,...]

Every mutated file is read through the public interface in this process. It must give the result of
the whole file, another whole result, or an error of chronocore that says what is wrong: no other
exception, and no dead process. Files whose bytes carry no check of their own (CSV, SPSS, Stata) may
read as other answers; those are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import polars as pl

import chronocore as cc

WRITERS = {
    "sav": lambda frame, path: _stat("write_sav", frame, path),
    "zsav": lambda frame, path: _stat("write_sav", frame, path, compress=True),
    "dta": lambda frame, path: _stat("write_dta", frame, path, version=15),
    "csv": lambda frame, path: frame.write_csv(path),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "arrow": lambda frame, path: frame.write_ipc(path, compression="lz4"),
    "feather": lambda frame, path: frame.write_ipc(path, compression="uncompressed"),
}


def _stat(name, frame, path, **options):
    import pyreadstat

    labels = {"q": {1: "Agree", 2: "Neither", 3: "Disagree", 8: "Don't know"}}
    getattr(pyreadstat, name)(frame.to_pandas(), str(path), variable_value_labels=labels, **options)


def survey(n=400):
    draw = random.Random(1)
    return pl.DataFrame(
        {
            "person": list(range(n)),
            "country": [draw.choice(["SE", "CL"]) for _ in range(n)],
            "year": [2004 if i < n // 2 else 2019 for i in range(n)],
            "w": [draw.choice([0.5, 1.0, 1.5]) for _ in range(n)],
            "q": [draw.choice([1, 2, 3, 8]) for _ in range(n)],
        }
    )


CATALOG = "variable,text,code,label\n" + "".join(
    f"q,What do you think?,{code},{label}\n" for code, label in ((1, "A"), (2, "B"), (3, "C"))
)


def mutate(content: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5, 20])):
        at = draw.randrange(len(data)) if data else 0
        way = draw.random()
        # Headers and footers say how the rest is read; they are hit as often as the rest.
        if draw.random() < 0.5 and data:
            edge = draw.randrange(min(len(data), 600))
            at = edge if draw.random() < 0.6 else len(data) - 1 - edge
        if way < 0.6 and data:
            data[at] ^= 1 << draw.randrange(8)
        elif way < 0.75 and data:
            data[at : at + 8] = draw.randbytes(draw.choice([1, 4, 8]))
        elif way < 0.85:
            del data[at : at + draw.choice([1, 7, 500])]
        elif way < 0.95:
            data[at:at] = draw.randbytes(draw.choice([1, 4, 60]))
        else:
            del data[at:]
    return bytes(data)


def read(path: Path, catalog: Path):
    data = cc.survey_microdata(
        str(path),
        items=str(catalog),
        weight="w",
        columns={"respondent": "person"},
        missing={"don't know": [8]},
        labels="flag",
    )
    return data.respondents.to_pydict()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(WRITERS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="mutate-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["CHRONOCORE_SURVEY_CACHE"] = "0"
    catalog = folder / "items.csv"
    catalog.write_text(CATALOG)
    counts: dict[str, Counter[str]] = {}
    bad: list[str] = []
    kinds = options.kinds.split(",")
    for kind in kinds:
        whole = folder / f"whole.{kind}"
        WRITERS[kind](survey(), whole)
        content, expected = whole.read_bytes(), read(whole, catalog)
        found = counts.setdefault(kind, Counter())
        for number in range(options.n // len(kinds)):
            draw = random.Random(f"{options.seed}-{kind}-{number}")
            path = folder / f"mutated.{kind}"
            path.write_bytes(mutate(content, draw))
            # The number is known even if this process dies.
            (folder / "current").write_text(f"{kind} {number}")
            try:
                got = read(path, catalog)
                found["same" if got == expected else "other answers"] += 1
            except cc.ChronocoreError as error:
                found["clear error"] += 1
                if not str(error).strip():
                    bad.append(f"{kind} {number}: an error without a word")
            except BaseException as error:
                found["BAD"] += 1
                bad.append(f"{kind} {number}: {type(error).__name__}: {str(error)[:200]}")
    for kind, found in counts.items():
        print(f"{kind:<8}", ", ".join(f"{what} {n}" for what, n in sorted(found.items())))
    print(*bad, sep="\n")
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
