"""Between an engine and the disk: requests made as they are pulled, answers written as they come.

The engine runs in the caller's thread. A second thread reads the answers and writes them, so
that no device ever waits for a parser or a disk. Rows are kept in columns of bounded size and
requests are made when they are pulled: a million answers need no more memory than a thousand.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronocore.engines.base import Answer, Engine, Request, RunSettings
from chronocore.errors import StoppedError
from chronocore.part_files import text_size
from chronocore.parts import RunParts

__all__ = ["DRAIN_SECONDS", "Pending", "Progress", "Stop", "Writer", "is_small"]

#: A part is written after this many rows or bytes of text, or when the oldest row is this old.
PART_ROWS = 10_000
PART_BYTES = 32 * 2**20
FIRST_SECONDS = 1.0
PART_SECONDS = 30.0

#: This many parts that time, not size, has ended are merged into one.
SMALL_PARTS = 64
_LEFT_PARTS = 4

DRAIN_SECONDS = 10.0
"""The longest an engine has to finish what it holds once it was asked to stop."""

#: How soon an interruption that got lost is repeated.
_AGAIN_SECONDS = 0.05

_INBOX = 20_000
_INBOX_TEXT = 64 * 2**20
_IDLE_SECONDS = 0.02
_REPORT_SECONDS = 0.2


@dataclass(slots=True)
class Progress:
    """Where a call that asks an engine stands.

    Attributes
    ----------
    total : int
        Answers this call waits for.
    done : int
        Of these, arrived and read.
    already_done : int
        Answers that were there before.
    statuses : Counter of str
        What the ``done`` ones are.
    prompt_tokens, completion_tokens : int
        Sums over ``done``.
    in_flight : int
        Requests the engine holds.
    retries : int
        Attempts of this call that failed on the way and were, or will be, made again.
    waiting : float
        Seconds until the engine sends the next request, where it waits to be allowed to; 0 while
        one is on the way.
    first_answer : float or None
        Monotonic time of the first answer of this call.
    written : int
        Of ``done``, safe in the study; without those that got no answer.
    stopping : bool
        The call was asked to stop and finishes what is in flight.
    """

    total: int
    done: int = 0
    already_done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    in_flight: int = 0
    retries: int = 0
    waiting: float = 0.0
    first_answer: float | None = None
    written: int = 0
    stopping: bool = False


class Pending(Sequence[Request]):
    """The requests that have no answer yet, each made when it is pulled.

    Parameters
    ----------
    prompts : sequence of Request
        Every prompt once, as repeat 0.
    places : ndarray of int64
        ``repeat * len(prompts) + index`` of each request, in the order of asking.

    Attributes
    ----------
    issued : int
        How many were pulled by iteration.
    """

    def __init__(self, prompts: Sequence[Request], places: npt.NDArray[np.int64]) -> None:
        self._prompts = prompts
        self._places = places
        self._stopped = False
        self.issued = 0

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> Pending: ...
    def __getitem__(self, index: int | slice) -> Request | Pending:
        if isinstance(index, slice):
            return Pending(self._prompts, self._places[index])
        return self._request(int(self._places[index]))

    def __iter__(self) -> Iterator[Request]:
        for start in range(0, len(self._places), 4096):
            for place in self._places[start : start + 4096].tolist():
                if self._stopped:
                    return
                self.issued += 1
                yield self._request(place)

    def _request(self, place: int) -> Request:
        repeat, index = divmod(place, len(self._prompts))
        prompt = self._prompts[index]
        if repeat == 0:
            return prompt
        # What dataclasses.replace does, in a third of the time.
        return Request(prompt.prompt_id, repeat, *_REST(prompt))

    def stop(self) -> None:
        """Hand out nothing more; what iterates comes to its end."""
        self._stopped = True


_REST = operator.attrgetter(
    *(f.name for f in fields(Request) if f.name not in ("prompt_id", "repeat"))
)

_Row = tuple[Any, ...]

#: Columns of every kind of answer that do not follow from reading it; the other two of them,
#: ``run_id`` and ``model``, are the same in all rows.
_GIVEN = (
    "prompt_id", "repeat", "seed", "finish_reason", "prompt_tokens", "completion_tokens",
    "attempt", "created_at",
)  # fmt: skip


def is_small(n_rows: int, n_text: int) -> bool:
    """Return whether time, not size, has ended a part, so that it is worth merging."""
    return n_rows < PART_ROWS // 2 and n_text < PART_BYTES // 2


def _length(answer: Answer) -> int:
    """Return how many characters an answer has, whatever it is made of."""
    samples = answer.samples or ()
    return (
        len(answer.text or "")
        + len(answer.thinking or "")
        + sum(len(one.text or "") + len(one.thinking or "") for one in samples)
    )


class Writer:
    """Reads answers and writes them as parts, in a thread of its own.

    Parameters
    ----------
    store : RunParts
    run_id : str
    settings : RunSettings
    read : callable
        Makes of an answer and what was asked the columns of ``store.rows`` that are not the same
        for every kind of answer; ``status`` is among them.
    prompts : sequence of Request
        Every prompt once, as repeat 0.
    done : bytearray
        For each ``repeat * len(prompts) + index`` whether it has an answer; kept up to date. An
        answer to nothing that was asked, or a second one, is dropped.
    attempts : mapping of int to int
        Attempts before this one, by the same place; 0 where it has none.
    small : mapping of str to list of Path
        By kind, the parts of earlier calls that are worth merging.
    state : Progress
        Kept up to date.
    report : callable
        Called with ``state`` a few times a second, from the thread.
    observe : callable
        Called with ``state`` before each report, to note in it what the engine does.
    before_part : callable
        Called before each part is written, from the thread.
    """

    def __init__(
        self,
        store: RunParts,
        run_id: str,
        settings: RunSettings,
        read: Callable[[Answer, Request], Mapping[str, Any]],
        prompts: Sequence[Request],
        done: bytearray,
        attempts: Mapping[int, int],
        small: Mapping[str, list[Path]],
        state: Progress,
        report: Callable[[Progress], None],
        observe: Callable[[Progress], None],
        before_part: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_part = before_part
        self._store = store
        self._run_id = run_id
        self._settings = settings
        self._read = read
        own = [name for name in store.rows.names if name not in (*_GIVEN, "run_id", "model")]
        self._columns = [*_GIVEN, *own]
        self._values = operator.itemgetter(*own)
        self._prompts = prompts
        self._index = {prompt.prompt_id: place for place, prompt in enumerate(prompts)}
        self._done = done
        self._attempts = attempts
        self._small = {kind: list(parts) for kind, parts in small.items()}
        self._state = state
        self._report = report
        self._observe = observe
        self._inbox: deque[Answer] = deque()
        self._put_text = self._taken_text = 0  # each is changed by one thread only
        self._rows: dict[str, list[_Row]] = {}
        self._bytes = 0
        self._oldest: float | None = None
        self._interval = FIRST_SECONDS
        self._reported = 0.0
        self._finished = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="chronocore-writer", daemon=True)
        self._thread.start()

    # -- the engine's side ---------------------------------------------------------------------

    def put(self, answer: Answer) -> None:
        """Take an answer; waits only if far too many are not written yet.

        Raises
        ------
        Exception
            What the thread met: an answer could not be written.
        """
        if self._error is not None:
            raise self._error
        self._put_text += _length(answer)
        self._inbox.append(answer)
        while len(self._inbox) > _INBOX or self._put_text - self._taken_text > _INBOX_TEXT:
            time.sleep(_IDLE_SECONDS / 4)
            if self._error is not None:
                raise self._error

    def finish(self) -> None:
        """Write what is left and end the thread; harmless when called twice.

        Raises
        ------
        Exception
            What the thread met. Before that, what it could not write is tried once more.
        """
        self._finished = True
        self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            with contextlib.suppress(Exception):
                while self._take():
                    pass
                self._flush()
            raise error

    # -- the thread's side ---------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while True:
                last = self._finished  # seen before the inbox is: nothing comes after it
                taken = self._take()
                self._flush_if_due()
                self._tell()
                if last and not self._inbox:
                    break
                if not taken and not self._finished:
                    time.sleep(_IDLE_SECONDS)
            self._flush()
            for kind in list(self._small):
                self._merge(kind, _LEFT_PARTS)
            self._tell(always=True)
        except BaseException as error:  # the engine's side raises it
            self._error = error

    def _take(self) -> int:
        """Read at most some thousand answers of the inbox into rows."""
        inbox, index, done, prompts = self._inbox, self._index, self._done, self._prompts
        state, statuses = self._state, self._state.statuses
        seed, taken = self._settings.seed, 0
        while inbox and taken < 2_000:
            answer = inbox.popleft()
            taken += 1
            self._taken_text += _length(answer)
            at = index.get(answer.prompt_id)
            place = -1 if at is None else answer.repeat * len(prompts) + at
            if at is None or not 0 <= place < len(done) or done[place]:
                continue
            done[place] = 1
            prompt = prompts[at]
            read = self._read(answer, prompt)
            row = (
                answer.prompt_id,
                answer.repeat,
                seed if answer.seed is None else answer.seed,
                answer.finish_reason,
                answer.prompt_tokens,
                answer.completion_tokens,
                self._attempts.get(place, 0) + 1,
                time.time_ns() // 1000,
                *self._values(read),
            )
            rows = self._rows.get(prompt.kind)
            if rows is None:
                rows = self._rows[prompt.kind] = []
            rows.append(row)
            self._bytes += len(read["text"] or "") + len(read["thinking"] or "")
            if self._oldest is None:
                self._oldest = time.monotonic()
                if state.first_answer is None:
                    state.first_answer = self._oldest
            state.done += 1
            statuses[read["status"]] += 1
            state.prompt_tokens += answer.prompt_tokens or 0
            state.completion_tokens += answer.completion_tokens or 0
            if len(rows) >= PART_ROWS:
                self._write(prompt.kind)
            if self._bytes >= PART_BYTES:
                self._flush()
        return taken

    def _flush_if_due(self) -> None:
        if self._oldest is None:
            return
        if time.monotonic() - self._oldest >= self._interval:
            # Soon at first, so that a fault in the prompts shows; then less often, so that a
            # slow model does not end in thousands of files.
            self._interval = min(self._interval * 1.5, PART_SECONDS)
            self._flush()

    def _flush(self) -> None:
        for kind in list(self._rows):
            self._write(kind)
        self._oldest, self._bytes = None, 0

    def _write(self, kind: str) -> None:
        rows = self._rows[kind]
        if not rows:
            return
        table = self._table(rows)
        self._before_part()
        part = self._store.add_part(self._run_id, kind, table)
        status = self._columns.index("status")
        self._state.written += sum(row[status] != "error" for row in rows)
        self._rows[kind] = []  # only now: what could not be written is still here
        if is_small(len(rows), text_size(table)):
            self._small.setdefault(kind, []).append(part)
            self._merge(kind, SMALL_PARTS)

    def _merge(self, kind: str, most: int) -> None:
        if len(self._small.get(kind, [])) > most:
            part, n_rows, n_text = self._store.merge_parts(self._run_id, self._small.pop(kind))
            self._small[kind] = [part] if is_small(n_rows, n_text) else []

    def _table(self, rows: list[_Row]) -> pa.Table:
        columns: dict[str, pa.Array] = {
            "run_id": pa.repeat(pa.scalar(self._run_id), len(rows)),
            "model": pa.repeat(pa.scalar(self._settings.model), len(rows)),
        }
        expected = self._store.rows
        for name, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            kind = expected.field(name).type
            if pa.types.is_timestamp(kind):
                columns[name] = pa.array(values, pa.int64()).cast(kind)
            else:
                columns[name] = pa.array(values, kind)
        return pa.Table.from_arrays([columns[name] for name in expected.names], schema=expected)

    def _tell(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._observe(self._state)
            self._report(self._state)


class Stop:
    """Ends a run in good order when the process is asked to end.

    The first Ctrl-C (or SIGTERM, or the terminal going away) lets the engine finish what it
    holds, for at most :data:`DRAIN_SECONDS`; the second ends it at once, and so does the first
    when nothing is in flight yet. Only handlers that are Python's or the system's own are
    replaced, and only in the main thread; they are put back.

    Attributes
    ----------
    requested : bool
        It was asked for.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._pending: Pending | None = None
        self._state: Progress | None = None
        self._deadline = float("inf")
        self._writing = False
        self._has_alarm = False
        self.requested = False

    def watch(self, engine: Engine, pending: Pending, state: Progress) -> None:
        """From now on let this engine finish what it holds.

        Raises
        ------
        KeyboardInterrupt
            It was asked to stop before, and whoever was interrupted then kept it to itself.
        """
        self._engine, self._pending, self._state = engine, pending, state
        if self.requested:
            raise KeyboardInterrupt

    @property
    def expired(self) -> bool:
        """Whether the engine has had its time."""
        return self.requested and time.monotonic() > self._deadline

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Listen to nothing while the block writes the last answers."""
        self._writing = True
        self._set_alarm(0.0)
        try:
            yield
        finally:
            self._writing = False
            self._pending = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Listen while the block runs.

        Raises
        ------
        StoppedError
            The block was ended before anything was asked or after everything was.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        ours = {
            signal.SIGINT: signal.default_int_handler,
            signal.SIGTERM: signal.SIG_DFL,
            signal.SIGHUP: signal.SIG_DFL,
            signal.SIGALRM: signal.SIG_DFL,
        }
        before = {n: handler for n, handler in ours.items() if signal.getsignal(n) == handler}
        for number in before:
            signal.signal(number, self._asked)
        self._has_alarm = signal.SIGALRM in before
        hook = sys.unraisablehook
        sys.unraisablehook = functools.partial(self._lost, hook)
        try:
            yield
        except KeyboardInterrupt as error:
            if self.requested and not isinstance(error, StoppedError):
                raise StoppedError(
                    "stopped; what was answered is kept, run the same command again to go on"
                ) from error
            raise
        finally:
            self._set_alarm(0.0)
            sys.unraisablehook = hook
            for number, handler in before.items():
                signal.signal(number, handler)

    def _lost(self, hook: Callable[[Any], object], unraisable: Any) -> None:
        """Interrupt once more where a callback of C code could not pass an interruption on."""
        if self.requested and issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._set_alarm(_AGAIN_SECONDS)
        else:
            hook(unraisable)

    def _set_alarm(self, seconds: float) -> None:
        if self._has_alarm:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _asked(self, number: int, _: FrameType | None) -> None:
        if self._writing:
            return
        again, self.requested = self.requested, True
        pending, engine, state = self._pending, self._engine, self._state
        if again or pending is None or engine is None or state is None or not pending.issued:
            if pending is not None:
                pending.stop()  # should the interruption get lost on its way
            raise KeyboardInterrupt
        state.stopping = True
        self._deadline = time.monotonic() + DRAIN_SECONDS
        pending.stop()
        drain = getattr(engine, "drain", None)
        if drain is not None:
            drain(DRAIN_SECONDS)
        # An engine that does not end by itself is ended.
        self._set_alarm(DRAIN_SECONDS + 1.0)
