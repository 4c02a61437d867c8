"""Numba kernels of chronocore: NumPy arrays in, NumPy arrays out.

The kernels check nothing; :mod:`chronocore` validates and shapes what it hands to them.
"""

from chronocore_kernels import (
    bitmaps,
    cells,
    components,
    distances,
    distributions,
    jit,
    multinomial,
    resampling,
    streams,
    survey,
)

__all__ = [
    "bitmaps",
    "cells",
    "components",
    "distances",
    "distributions",
    "jit",
    "multinomial",
    "resampling",
    "streams",
    "survey",
]
