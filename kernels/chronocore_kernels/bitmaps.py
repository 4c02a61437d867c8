"""Arrow validity bitmaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore_kernels.jit import kernel

__all__ = ["fill_nulls"]


@kernel()
def fill_nulls(
    values: NDArray[np.int8], bitmap: NDArray[np.uint8], offset: int, missing: int
) -> NDArray[np.int8]:
    """Return the values with ``missing`` where the bitmap says null.

    Parameters
    ----------
    values : (n,) int8
        The values of a slice that starts at bit ``offset`` of the bitmap.
    bitmap : (m,) uint8
        One bit a value, least significant first; 1 means valid.
    offset : int
    missing : int
    """
    n = values.shape[0]
    out = np.empty(n, dtype=np.int8)
    absent = np.int8(missing)
    # Up to the first whole byte, then eight values a byte, then the rest.
    head = min(n, (8 - offset % 8) % 8)
    for i in range(head):
        j = offset + i
        valid = (bitmap[j >> 3] >> np.uint8(j & 7)) & np.uint8(1)
        out[i] = values[i] if valid != 0 else absent
    whole = (n - head) // 8
    first = (offset + head) >> 3
    bits = bitmap[first : first + whole]
    source = values[head : head + 8 * whole]
    target = out[head : head + 8 * whole]
    for q in range(whole):
        byte = bits[q]
        for u in range(8):
            valid = (byte >> np.uint8(u)) & np.uint8(1)
            target[8 * q + u] = source[8 * q + u] if valid != 0 else absent
    for i in range(head + 8 * whole, n):
        j = offset + i
        valid = (bitmap[j >> 3] >> np.uint8(j & 7)) & np.uint8(1)
        out[i] = values[i] if valid != 0 else absent
    return out
