"""Order statistics without sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import inline

__all__ = ["select"]


@inline
def select(values: NDArray[np.float64], first: int, rank: int) -> float:
    """Return the value of this rank, partitioning ``values`` from ``first`` on around it."""
    low = first
    high = values.shape[0] - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return float(values[rank])
