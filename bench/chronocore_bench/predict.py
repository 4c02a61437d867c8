"""What ``predict`` costs on top of an engine: with one that answers at once, and with vLLM.

Run as ``python -m chronocore_bench.predict STUDY`` for the overhead of a million answers, and with
``--vllm MODEL`` for the throughput beside a bare ``LLM.chat`` over the same prompts. Both engines
of that comparison are alive in one process and take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import chronocore as cc
from chronocore.engines import Answer, Engine, EngineOptions, Request, RunSettings, open_engine
from chronocore.predict import Progress, requests_of

__all__ = ["Overhead", "Throughput", "copy_study", "time_overhead", "time_vllm"]


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a run with an instant engine showed.

    Attributes
    ----------
    answers : int
    seconds : float
        Of the whole call, the summary at its end included.
    per_second : float
    memory_tenth, memory_end, memory_peak : float
        Resident memory (MiB) after a tenth of the answers, at the end, and at most.
    files : int
    """

    answers: int
    seconds: float
    per_second: float
    memory_tenth: float
    memory_end: float
    memory_peak: float
    files: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rounds of a bare engine and of ``predict`` over the same prompts.

    Attributes
    ----------
    prompts : int
    bare, predict : list of float
        Seconds of each round.
    ratio : float
        Median of ``predict`` by that of the bare engine.
    spread : float
        Largest by smallest round of the bare engine.
    tokens_bare, tokens_predict : int
        Completion tokens of a round.
    first_on_disk : float
        Seconds from the first request of the first round to the first part.
    """

    prompts: int
    bare: list[float]
    predict: list[float]
    ratio: float
    spread: float
    tokens_bare: int
    tokens_predict: int
    first_on_disk: float


class _Instant:
    """Answers every prompt at once with what was asked for."""

    def __init__(self) -> None:
        self.settings = RunSettings(model="instant", engine="scripted", engine_version="1")
        self.notes: dict[str, str] = {}
        self.in_flight = 0

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        texts: dict[int, str] = {}
        for request in requests:
            key = id(request.options)
            text = texts.get(key)
            if text is None:
                share, rest = divmod(100, len(request.options))
                shares = {
                    str(option.code): share + (place < rest)
                    for place, option in enumerate(request.options)
                }
                text = texts[key] = json.dumps(shares)
            yield Answer(
                request.prompt_id, request.repeat, text=text, finish_reason="stop",
                prompt_tokens=200, completion_tokens=40,
            )  # fmt: skip

    def drain(self, seconds: float) -> None:
        """Hold nothing, so there is nothing to finish."""

    def close(self) -> None:
        """Hold nothing, so there is nothing to free."""


def _resident() -> float:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def copy_study(study: str | Path, folder: str | Path) -> Path:
    """Copy the built part of a study, without its runs."""
    target = Path(folder) / "study"
    target.mkdir()
    for name in ("study.toml", "manifest.json", "items.parquet", "gold.parquet", "pairs.parquet",
                 "prompts.parquet"):  # fmt: skip
        (target / name).write_bytes((Path(study) / name).read_bytes())
    return target


def time_overhead(study: str | Path, answers: int = 1_000_000) -> Overhead:
    """Predict with an engine that answers at once.

    Parameters
    ----------
    study : path
        A built study; it is copied.
    answers : int
        About so many, by repeating the prompts.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = copy_study(study, folder)
        n_prompts = len(requests_of(cc.Study.open(target), ("dated", "undated")))
        seen: list[tuple[int, float]] = []

        def note(state: Progress) -> None:
            seen.append((state.done, _resident()))

        started = time.perf_counter()
        result = cc.predict(
            target, _Instant(), repeats=max(1, round(answers / n_prompts)), progress=note
        )
        seconds = time.perf_counter() - started
        return Overhead(
            answers=result.total,
            seconds=seconds,
            per_second=result.total / seconds,
            memory_tenth=next(size for done, size in seen if done >= result.total / 10),
            memory_end=seen[-1][1],
            memory_peak=max(size for _, size in seen),
            files=len(list(target.rglob("part-*.parquet"))),
        )


class _Kept:
    """An engine that stays open from one predict to the next, and times its answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.settings, self.notes = engine.settings, engine.notes
        self.started = self.ended = 0.0

    @property
    def in_flight(self) -> int:
        """Requests the engine holds."""
        return self._engine.in_flight

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        self.started = time.perf_counter()
        yield from self._engine.answers(requests)
        self.ended = time.perf_counter()

    def drain(self, seconds: float) -> None:
        """Pass it on."""
        self._engine.drain(seconds)

    def close(self) -> None:
        """Stay open for the next round."""


def time_vllm(study: str | Path, model: str, n_prompts: int = 96, rounds: int = 3) -> Throughput:
    """Answer the same prompts by a bare ``LLM.chat`` and by ``predict``, in turn.

    Both have vLLM's settings as chronocore makes them, and both caches of prefixes are emptied
    before every round. The first round of each is not counted.

    Parameters
    ----------
    study : path
        A built study; it is copied.
    model : str
        A folder or the id of a hub model.
    n_prompts, rounds : int
    """
    import vllm

    from chronocore.engines.vllm import _children_have_our_main

    engine: Any = open_engine(f"vllm:{model}", EngineOptions(), lambda: cc.Study.open(study).gold())
    bare: Any = None
    try:
        engine._load_tokenizer()
        with _children_have_our_main():
            bare = vllm.LLM(**engine._arguments())
        sampling = vllm.SamplingParams(temperature=0.0, top_p=1.0, max_tokens=120)
        seconds: dict[str, list[float]] = {"bare": [], "predict": []}
        tokens = {"bare": 0, "predict": 0}
        first_on_disk = 0.0
        for turn in range(rounds + 1):
            with tempfile.TemporaryDirectory() as folder:
                target = copy_study(study, folder)
                n_pairs = round(n_prompts / 3)
                opened = cc.Study.open(target)
                asked = requests_of(opened, ("dated", "undated"), sample=n_pairs)
                chats = [
                    [{"role": "system", "content": r.system}, {"role": "user", "content": r.user}]
                    for r in asked
                ]
                bare.reset_prefix_cache()
                started = time.perf_counter()
                outputs = bare.chat(chats, sampling, use_tqdm=False)
                seconds["bare"].append(time.perf_counter() - started)
                tokens["bare"] = sum(len(output.outputs[0].token_ids) for output in outputs)
                if engine._engine is not None:
                    engine._engine.reset_prefix_cache()
                kept, written = _Kept(engine), [0.0]

                def note(state: Progress, written: list[float] = written) -> None:
                    if state.written and not written[0]:
                        written[0] = time.perf_counter()

                if turn == 0:
                    engine._start()
                started = time.perf_counter()
                result = cc.predict(target, kept, sample=n_pairs, progress=note)
                seconds["predict"].append(time.perf_counter() - started)
                tokens["predict"] = result.completion_tokens
                if turn == 0:
                    first_on_disk = written[0] - kept.started
        medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
        return Throughput(
            prompts=len(asked),
            bare=seconds["bare"][1:],
            predict=seconds["predict"][1:],
            ratio=medians["predict"] / medians["bare"],
            spread=max(seconds["bare"][1:]) / min(seconds["bare"][1:]),
            tokens_bare=tokens["bare"],
            tokens_predict=tokens["predict"],
            first_on_disk=first_on_disk,
        )
    finally:
        engine.close()
        if bare is not None:
            bare.llm_engine.engine_core.shutdown()


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m chronocore_bench.predict")
    parser.add_argument("study")
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--vllm", metavar="MODEL")
    parser.add_argument("--prompts", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    result: Overhead | Throughput
    if given.vllm:
        result = time_vllm(given.study, given.vllm, given.prompts, given.rounds)
    else:
        result = time_overhead(given.study, given.answers)
    json.dump(asdict(result), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    _main()
