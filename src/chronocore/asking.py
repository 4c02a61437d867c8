"""Asks an engine what a run has no answer to yet, and keeps what comes back.

What is asked and how an answer is read is the caller's; that nothing is lost, doubled or asked
again without need, whatever ends the process, is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronocore.engines.base import Answer, Engine, Request
from chronocore.errors import EngineError, StoppedError
from chronocore.part_files import text_bytes
from chronocore.parts import RunParts
from chronocore.stream import Pending, Progress, Stop, Writer, is_small

__all__ = ["LISTED", "Asking", "Outcome"]

#: So many of the requests without an answer are named.
LISTED = 20

_EXAMPLE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of everything that is asked of a run.

    Attributes
    ----------
    statuses, reasons : Counter of str
        Answers by status; those without a value by ``status: reason``.
    examples : dict of str to str
        By ``status: reason`` the text of one such answer, its beginning if it is long.
    failed : list of str
        What got no answer and why, the first :data:`LISTED` in the order of asking.
    missing : int
        Requests without a row.
    """

    statuses: Counter[str]
    reasons: Counter[str]
    examples: dict[str, str]
    failed: list[str]
    missing: int


class Asking:
    """What is asked of one run; the caller holds the run's lock as long as it uses this.

    Parameters
    ----------
    store : RunParts
        Tidied up first, after a process that was killed; failures are set aside, so that they
        are asked again.
    run_id : str
    prompts : sequence of Request
        Every prompt once, as repeat 0.
    repeats : int
    wanted : ndarray of bool, optional
        For each ``repeat * len(prompts) + index`` whether it is asked; by default all are.

    Attributes
    ----------
    notices : list of str
        What was found and mended, and how attempts failed where requests got no answer.
    todo : ndarray of int64
        Places without an answer, in the order of asking.
    total, already_done : int
    """

    def __init__(
        self,
        store: RunParts,
        run_id: str,
        prompts: Sequence[Request],
        repeats: int,
        wanted: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._prompts = prompts
        self._repeats = repeats
        self._ids = pa.array([prompt.prompt_id for prompt in prompts], pa.string())
        self._kinds = list(dict.fromkeys(prompt.kind for prompt in prompts))
        self._wanted = wanted
        self.notices = store.recover(run_id)
        store.set_errors_aside(run_id, self._kinds, self._ids, repeats)
        self._done, self._small = self._answered()
        self.todo = np.flatnonzero(np.frombuffer(self._done, np.uint8) == 0)
        self.total = len(self._done) if wanted is None else int(wanted.sum())
        self.already_done = self.total - len(self.todo)

    def ask(
        self,
        engine: Engine,
        read: Callable[[Answer, Request], Mapping[str, Any]],
        state: Progress,
        progress: Callable[[Progress], None],
        stop: Stop,
        keep_notes: Callable[[Mapping[str, str]], None] = lambda notes: None,
    ) -> None:
        """Ask what is to be done and write what comes back, until the end or a reason to stop.

        Parameters
        ----------
        engine : Engine
        read : callable
            As for :class:`~chronocore.stream.Writer`.
        state : Progress
            Kept up to date; several calls may share one.
        progress : callable
            Called with ``state`` a few times a second, from another thread.
        stop : Stop
        keep_notes : callable
            Called with the engine's notes before each part in which they have changed, from
            another thread.

        Raises
        ------
        EngineError
            The engine failed; what was answered before is kept.
        StoppedError
            It was asked to stop; likewise.
        """
        received = 0
        pending = Pending(self._prompts, self.todo)

        def observe(state: Progress) -> None:
            state.in_flight = int(getattr(engine, "in_flight", pending.issued - received))
            state.retries = int(getattr(engine, "retries", 0))
            state.waiting = float(getattr(engine, "waiting", 0.0))

        def kept() -> str:
            return (
                f"{state.written} of {state.total} answers are kept, "
                "run the same command again to go on"
            )

        attempts = self._attempts()
        stop.watch(engine, pending, state)
        writer = Writer(
            self._store, self._run_id, engine.settings, read, self._prompts, self._done, attempts,
            self._small, state, progress, observe, _Noted(engine, keep_notes),
        )  # fmt: skip
        try:
            try:
                answers = engine.answers(pending)
                try:
                    for answer in answers:
                        received += 1
                        writer.put(answer)
                        if stop.expired:
                            break
                finally:
                    close = getattr(answers, "close", None)
                    if close is not None:
                        close()  # what is still in flight is given up
            finally:
                with stop.writing():
                    writer.finish()
                self.notices += _failures(engine, state)
        except EngineError as error:
            raise EngineError(f"{error}; {kept()}") from error
        except KeyboardInterrupt as error:
            if stop.requested:
                raise StoppedError(f"stopped; {kept()}") from error
            raise
        if stop.requested and state.done < state.total:
            raise StoppedError(f"stopped; {kept()}")

    def outcome(self) -> Outcome:
        """Count the answers to what is asked by status, and those without a value by reason."""
        statuses: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        examples: dict[str, str] = {}
        failed: list[tuple[int, str]] = []
        seen = self._not_asked()
        columns = ["prompt_id", "repeat", "status", "reason"]
        for part in self._parts():
            table = self._store.read_part(self._run_id, part, columns)
            at = self._places(table)
            new = at >= 0
            new[new] = ~seen[at[new]]
            seen[at[new]] = True
            table, at = table.filter(pa.array(new)), at[new]
            errors = np.flatnonzero(pc.equal(table["status"], "error").to_numpy())
            whys = table["reason"].take(pa.array(errors)).to_pylist()
            failed = sorted([*failed, *zip(at[errors].tolist(), whys, strict=True)])[:LISTED]
            counts = table.group_by(["status", "reason"]).aggregate([([], "count_all")])
            unseen = False
            for row in counts.to_pylist():
                statuses[row["status"]] += row["count_all"]
                if row["reason"] is not None:
                    name = f"{row['status']}: {row['reason']}"
                    reasons[name] += row["count_all"]
                    unseen |= name not in examples
            if unseen:  # texts are long, so they are read only where one is looked for
                self._add_examples(part, new, examples)
        named = [f"{self._name(place)}: {why}" for place, why in failed]
        missing = self.total - sum(statuses.values())
        return Outcome(statuses, reasons, examples, named, missing)

    def _name(self, place: int) -> str:
        """Return what is asked at a place, as a person would look for it."""
        repeat, index = divmod(place, len(self._prompts))
        prompt = self._prompts[index]
        parts = [prompt.survey, prompt.variable, prompt.country, prompt.kind, prompt.year]
        again = f", repeat {repeat}" if repeat else ""
        return " ".join(str(part) for part in parts if part not in (None, "")) + again

    def _add_examples(
        self, part: Path, counted: npt.NDArray[np.bool_], examples: dict[str, str]
    ) -> None:
        """Note the first text of each reason that has none yet; errors have no text."""
        columns = ["status", "reason", "text"]
        start = 0
        for table in self._store.batches(self._run_id, part, columns):
            chosen = pa.array(counted[start : start + len(table)])
            start += len(table)
            table = table.filter(chosen)
            table = table.filter(pc.and_(pc.is_valid(table["reason"]), pc.is_valid(table["text"])))
            names = pc.binary_join_element_wise(table["status"], table["reason"], ": ")
            for name in pc.unique(names).to_pylist():
                if name not in examples:
                    text = table["text"][pc.index(names, name).as_py()].as_py()
                    long = len(text) > _EXAMPLE_CHARACTERS
                    examples[name] = f"{text[:_EXAMPLE_CHARACTERS]}…" if long else text

    def _places(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """Return the place of each row, -1 for what is not asked."""
        index = pc.fill_null(pc.index_in(table["prompt_id"], value_set=self._ids), -1)
        at = index.to_numpy().astype(np.int64)
        repeat = table["repeat"].to_numpy().astype(np.int64)
        inside = (at >= 0) & (repeat < self._repeats)
        return np.where(inside, repeat * len(self._prompts) + at, -1)

    def _not_asked(self) -> npt.NDArray[np.bool_]:
        if self._wanted is None:
            return np.zeros(len(self._prompts) * self._repeats, np.bool_)
        return ~self._wanted

    def _parts(self) -> list[Path]:
        return [part for kind in self._kinds for part in self._store.parts(self._run_id, kind)]

    def _answered(self) -> tuple[bytearray, dict[str, list[Path]]]:
        """Return what has an answer or needs none, and by kind the parts that are small."""
        done = self._not_asked().astype(np.uint8)
        small: dict[str, list[Path]] = {}
        for part in self._parts():
            table = self._store.read_part(self._run_id, part, ["prompt_id", "repeat"])
            at = self._places(table)
            done[at[at >= 0]] = 1
            if is_small(len(table), 0) and is_small(0, text_bytes(part)):
                small.setdefault(part.parent.name.removeprefix("kind="), []).append(part)
        return bytearray(done.tobytes()), small

    def _attempts(self) -> dict[int, int]:
        """Return how often each place was asked without an answer."""
        table = self._store.attempts(self._run_id, self._kinds)
        attempts: dict[int, int] = {}
        for place, attempt in zip(
            self._places(table).tolist(), table["attempt"].to_pylist(), strict=True
        ):
            if place >= 0:
                attempts[place] = max(attempts.get(place, 0), attempt)
        return attempts


class _Noted:
    """Keeps the notes of an engine whenever they have changed."""

    def __init__(self, engine: Engine, keep: Callable[[Mapping[str, str]], None]) -> None:
        self._engine = engine
        self._keep = keep
        self._kept: dict[str, str] = {}

    def __call__(self) -> None:
        describe = getattr(self._engine, "describe", None)
        if describe is not None:
            describe()
        notes = dict(self._engine.notes)
        if notes != self._kept:
            self._keep(notes)
            self._kept = notes


def _failures(engine: Engine, state: Progress) -> list[str]:
    """Return why requests got no answer, as far as an engine knows more than the reason."""
    known = {
        "failed_attempts": "attempts that failed",
        "first_rejection": "the first request that was turned away",
    }
    if not state.statuses["error"]:
        return []
    return [f"{says}: {engine.notes[name]}" for name, says in known.items() if name in engine.notes]
