"""An engine whose answers follow from the prompt alone, and a process that runs it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

from chronocore.engines.base import Answer, Request, RunSettings


def scripted_answer(request: Request) -> Answer:
    """Return the answer to a request: mostly what was asked for, and some of everything else."""
    digest = hashlib.sha256(f"{request.prompt_id} {request.repeat}".encode()).digest()
    codes = [option.code for option in request.options]
    weights = [digest[place % 32] + 1 for place in range(len(codes))]
    shares = {str(c): round(100 * w / sum(weights), 1) for c, w in zip(codes, weights, strict=True)}
    text, finish = json.dumps(shares), "stop"
    if digest[31] < 25:
        text = f"Here you are:\n{text.replace(chr(34), chr(39))}\nHope that helps!"
    elif digest[31] < 40:
        text = "I'm sorry, but I cannot help with that."
    elif digest[31] < 55:
        text, finish = text[: len(text) // 2], "length"
    elif digest[31] < 65:
        text = json.dumps(dict(list(shares.items())[1:]))
    return Answer(
        request.prompt_id,
        request.repeat,
        text=text,
        thinking="so it is" if digest[30] < 20 else None,
        finish_reason=finish,
        prompt_tokens=100 + digest[29],
        completion_tokens=len(text) // 4,
    )


class ScriptedEngine:
    """Answers at a steady pace, a few requests at a time and out of order.

    Parameters
    ----------
    per_second : float
        0: at once.
    errors : int
        Of 256 requests, about so many get no answer; which ones depends on ``salt``.
    """

    def __init__(self, per_second: float = 0.0, errors: int = 0, salt: int = 0) -> None:
        self.settings = RunSettings(model="scripted", engine="scripted", engine_version="1")
        self.notes = {"device": "none"}
        self.in_flight = 0
        self._pause = 1 / per_second if per_second else 0.0
        self._errors = errors
        self._salt = salt

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        held: list[Request] = []
        for request in requests:
            held.append(request)
            self.in_flight = len(held)
            if len(held) == 8:
                yield self._answer(held.pop(0 if request.repeat % 2 else 5))
        while held:
            yield self._answer(held.pop())
            self.in_flight = len(held)

    def _answer(self, request: Request) -> Answer:
        if self._pause:
            time.sleep(self._pause)
        key = f"{self._salt} {request.prompt_id} {request.repeat}".encode()
        if self._errors and hashlib.sha256(key).digest()[0] < self._errors:
            return Answer(request.prompt_id, request.repeat, error="endpoint", prompt_tokens=7)
        return scripted_answer(request)

    def close(self) -> None:
        pass


def run(
    study: str | Path, repeats: int, per_second: float, errors: int, salt: int, asking: Connection
) -> None:
    """Predict with parts that are written and merged many times a second.

    A byte is sent down ``asking`` when the first request is answered.
    """
    import chronocore as cc
    from chronocore import stream

    stream.FIRST_SECONDS = stream.PART_SECONDS = 0.02
    stream.PART_ROWS = 60
    stream.SMALL_PARTS = 6
    engine = ScriptedEngine(per_second, errors, salt)
    answers = engine.answers

    def told(requests: Sequence[Request]) -> Iterator[Answer]:
        asking.send_bytes(b"1")
        yield from answers(requests)

    engine.answers = told  # type: ignore[method-assign]
    cc.predict(study, engine, repeats=repeats)


class ScoringEngine(ScriptedEngine):
    """Names one option, or declines; a local model, so that both stages of a design are runs."""

    def __init__(self, per_second: float = 0.0, errors: int = 0, salt: int = 0) -> None:
        super().__init__(per_second, errors, salt)
        self.settings = replace(self.settings, engine="vllm", temperature=0.0, seed=0)

    def _answer(self, request: Request) -> Answer:
        answer = super()._answer(request)
        if answer.error is not None:
            return answer
        digest = hashlib.sha256(f"{request.prompt_id} {request.repeat}".encode()).digest()
        code = request.options[digest[0] % len(request.options)].code
        text = "I'm sorry, but I cannot help with that." if digest[1] < 40 else str(code)
        return replace(answer, text=text, finish_reason="stop")


def score(
    folder: str | Path, per_second: float, errors: int, salt: int, asking: Connection
) -> None:
    """Answer a design of measurement validity in parts that are written many times a second."""
    from chronocore import stream, validity

    stream.FIRST_SECONDS = stream.PART_SECONDS = 0.02
    stream.PART_ROWS = 20
    stream.SMALL_PARTS = 4
    engine = ScoringEngine(per_second, errors, salt)
    answers = engine.answers

    def told(requests: Sequence[Request]) -> Iterator[Answer]:
        asking.send_bytes(b"1")
        yield from answers(requests)

    engine.answers = told  # type: ignore[method-assign]
    validity.run(folder, engine)


def another_model(study: str | Path, name: str) -> None:
    """Predict as a run of this name beside others."""
    import chronocore as cc
    from chronocore import stream

    stream.FIRST_SECONDS = stream.PART_SECONDS = 0.01
    engine = ScriptedEngine(per_second=2000)
    engine.settings = replace(engine.settings, model=name)
    cc.predict(study, engine, repeats=2)


def one_of_many(study: Path, seed: int, ready: Semaphore, go: Event) -> None:
    """Predict with a seed of its own as soon as all others are ready."""
    import chronocore as cc

    engine = ScriptedEngine()
    engine.settings = replace(engine.settings, seed=seed, temperature=1.0)
    ready.release()
    go.wait()
    cc.predict(study, engine)


class Noting(ScriptedEngine):
    """Reports a model of its own in every call, and failed attempts."""

    def __init__(self, reported: str, failed: int = 1, per_second: float = 0.0) -> None:
        super().__init__(per_second)
        self.notes = {
            "device": "none", "model_reported": reported, "failed_attempts": f"{failed} timeout",
        }  # fmt: skip


def noting(study: Path) -> None:
    """Predict slowly with an engine that has notes."""
    import chronocore as cc
    from chronocore import stream

    stream.FIRST_SECONDS = stream.PART_SECONDS = 0.02
    cc.predict(study, Noting("m-killed", per_second=400.0))
