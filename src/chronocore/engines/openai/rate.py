"""Keeps requests within a rate."""

from __future__ import annotations

import time

__all__ = ["Rate"]


class Rate:
    """Spaces events so that no minute holds more than a given amount."""

    def __init__(self, per_minute: float) -> None:
        self._seconds = 60.0 / per_minute
        self._free_at = 0.0

    def wait(self, amount: float) -> float:
        """Reserve an amount and return the seconds until it may be used."""
        now = time.monotonic()
        start = max(self._free_at, now)
        self._free_at = start + amount * self._seconds
        return start - now

    def correct(self, difference: float) -> None:
        """Add what was used beyond the reserved amount, or give back what was not."""
        self._free_at += difference * self._seconds
