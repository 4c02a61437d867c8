"""The one tolerance for every threshold, tie and zero test.

Distributions are ratios of floats, so 0.55 - 0.52 is not 0.03. Each comparison with a boundary
therefore takes the closed side within ``ATOL`` (definitions, section 2).
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ATOL", "above", "at_least", "at_most", "below", "equal"]

ATOL = 1e-12

Number = TypeVar("Number", float, NDArray[np.float64])


def at_most(x: Number, threshold: Number | float) -> NDArray[np.bool_]:
    """Return x <= threshold, true within ``ATOL`` above it; false for NaN."""
    return np.asarray(x <= threshold + ATOL)


def at_least(x: Number, threshold: Number | float) -> NDArray[np.bool_]:
    """Return x >= threshold, true within ``ATOL`` below it; false for NaN."""
    return np.asarray(x >= threshold - ATOL)


def below(x: Number, threshold: Number | float) -> NDArray[np.bool_]:
    """Return x < threshold, that is: not at least it; false for NaN."""
    return np.asarray(x < threshold - ATOL)


def above(x: Number, threshold: Number | float) -> NDArray[np.bool_]:
    """Return x > threshold, that is: not at most it; false for NaN."""
    return np.asarray(x > threshold + ATOL)


def equal(x: Number, y: Number | float) -> NDArray[np.bool_]:
    """Return whether x and y differ by at most ``ATOL``."""
    return np.asarray(abs(x - y) <= ATOL)
