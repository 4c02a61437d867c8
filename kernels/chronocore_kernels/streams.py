"""The counter-based random stream of every kernel, and functions that round alike everywhere.

The generator is splitmix64 in counter form: word ``c`` of a stream with base ``b`` is
``mix(b + (c + 1) * GOLDEN)``. Whoever draws owns a range of counters, so that a seed gives the
same draws on any number of threads. Everything here is made of IEEE operations that round
correctly, in a fixed order: the bits are the same on every instruction set, compiled or not.
"""

from __future__ import annotations

import numpy as np

from chronocore_kernels.jit import inline

__all__ = ["GOLDEN", "LOW", "ONE", "S32", "exp", "log", "mix", "unit"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ONE = np.uint64(1)
LOW = np.uint64(0xFFFFFFFF)
S32 = np.uint64(32)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S12 = np.uint64(12)
_S52 = np.uint64(52)

# Layout of a float64: the bits of 1.0, of 2**52, and of 1.0 less those of the square root of 1/2.
_ONE_BITS = np.uint64(0x3FF0000000000000)
_SHIFTER_BITS = np.uint64(0x4330000000000000)
_CENTRE_BITS = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_BIAS = 2.0**52 + 1023.0
# ln 2 in two parts; the first has 21 trailing zeros, so that its multiples by exponents are exact.
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_PER_LN2 = float.fromhex("0x1.71547652b82fep+0")
_ROUNDER = 1.5 * 2.0**52
_UNIT_SHIFT = 1.0 - 2.0**-53


@inline
def mix(z: np.uint64) -> np.uint64:
    """Return the word at counter ``z``: the finaliser of splitmix64."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@inline
def unit(word: np.uint64) -> np.float64:
    """Return the top 52 bits as the odd multiple of 2**-53 in (0, 1)."""
    return np.uint64((word >> _S12) | _ONE_BITS).view(np.float64) - _UNIT_SHIFT


@inline
def log(x: float) -> float:
    """Return the logarithm of a positive normal number to an ulp or two, without a branch."""
    bits = np.float64(x).view(np.uint64)
    # x = 2**e * m with m in [sqrt(1/2), sqrt(2))
    biased = (bits + _CENTRE_BITS) >> _S52
    exponent = np.uint64(biased | _SHIFTER_BITS).view(np.float64) - _BIAS
    mantissa = np.uint64(bits - (biased << _S52) + _ONE_BITS).view(np.float64)
    # ln m = 2 artanh(s); |s| < 0.172, the first term left out is below 2**-54 of the sum
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 1 / 17 + z * (1 / 19)
    tail = 1 / 15 + z * tail
    tail = 1 / 13 + z * tail
    tail = 1 / 11 + z * tail
    tail = 1 / 9 + z * tail
    tail = 1 / 7 + z * tail
    tail = 1 / 5 + z * tail
    tail = z * (1 / 3 + z * tail)
    # 2 s = f - s f, which keeps f exact
    return exponent * _LN2_HIGH + (f - (s * (f - 2.0 * tail) - exponent * _LN2_LOW))


@inline
def exp(x: float) -> float:
    """Return the exponential of a number in [-700, 700], without a branch."""
    shifted = np.float64(x * _PER_LN2 + _ROUNDER)
    exponent = shifted - _ROUNDER
    scale = np.uint64((shifted.view(np.uint64) << _S52) + _ONE_BITS).view(np.float64)
    r = (x - exponent * _LN2_HIGH) - exponent * _LN2_LOW
    # Taylor series on |r| < 0.35: the first term left out is below 2**-57
    total = 1 / 479001600 + r * (1 / 6227020800)
    total = 1 / 39916800 + r * total
    total = 1 / 3628800 + r * total
    total = 1 / 362880 + r * total
    total = 1 / 40320 + r * total
    total = 1 / 5040 + r * total
    total = 1 / 720 + r * total
    total = 1 / 120 + r * total
    total = 1 / 24 + r * total
    total = 1 / 6 + r * total
    total = 1 / 2 + r * total
    total = 1.0 + r * (1.0 + r * total)
    return scale * total
