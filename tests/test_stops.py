"""A stop that is asked for comes, also where C code keeps the interruption to itself."""

from __future__ import annotations

import contextlib
import signal
import sys
import time

import pytest

from chronocore.errors import StoppedError
from chronocore.stream import Pending, Progress, Stop


class Lost:
    """Asks for a stop where no exception can get out."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_a_callback_cannot_pass_on_is_repeated(number, capfd):
    stop, hook, started = Stop(), sys.unraisablehook, time.monotonic()

    def work():
        Lost(number)
        while time.monotonic() - started < 10:
            time.sleep(0.01)

    with pytest.raises(StoppedError, match="stopped"), stop.installed():
        work()
    assert time.monotonic() - started < 5
    assert sys.unraisablehook is hook
    assert signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
    assert capfd.readouterr() == ("", "")  # no "Exception ignored in"


def test_what_swallows_an_interruption_is_found_out_before_anything_is_asked():
    stop = Stop()

    def work():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        stop.watch(object(), Pending([], []), Progress(0, 0))
        pytest.fail("nobody looked")

    with pytest.raises(StoppedError), stop.installed():
        work()


def test_other_failures_in_a_callback_are_told_as_ever(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Broken:
        def __del__(self):
            raise ValueError("x")

    with Stop().installed():
        Broken()
    assert [one.exc_type for one in told] == [ValueError]
