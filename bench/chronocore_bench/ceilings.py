"""Where the machine ends: memory bandwidth and words of the random stream a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel
from chronocore_kernels.streams import GOLDEN, mix

__all__ = ["bandwidth", "words_a_second"]

_BLOCK = 65_536


@kernel(parallel=True)
def _read(values: NDArray[np.int64]) -> NDArray[np.int64]:
    blocks = values.shape[0] // _BLOCK
    out = np.empty(blocks, dtype=np.int64)
    for block in numba.prange(blocks):
        part = values[block * _BLOCK : (block + 1) * _BLOCK]
        total = np.int64(0)
        for i in range(_BLOCK):
            total += part[i]
        out[block] = total
    return out


@kernel(parallel=True)
def _draw(base: np.uint64, n_blocks: int) -> NDArray[np.uint64]:
    out = np.empty(n_blocks, dtype=np.uint64)
    for block in numba.prange(n_blocks):
        start = base + np.uint64(block * _BLOCK) * GOLDEN
        total = np.uint64(0)
        for i in range(_BLOCK):
            total ^= mix(start + np.uint64(i) * GOLDEN)
        out[block] = total
    return out


def _best(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def bandwidth() -> float:
    """Return bytes read a second, all threads."""
    values = np.ones(2**25, dtype=np.int64)
    return values.nbytes / _best(lambda: _read(values))


def words_a_second() -> float:
    """Return words of the random stream drawn a second, all threads."""
    blocks = 1_000
    return blocks * _BLOCK / _best(lambda: _draw(np.uint64(1), blocks))
