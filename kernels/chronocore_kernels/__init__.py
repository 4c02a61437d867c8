"""Numba kernels of chronocore: NumPy arrays in, NumPy arrays out.

The kernels check nothing; :mod:`chronocore` validates and shapes what it hands to them.
"""

from chronocore_kernels import distances, distributions, jit, resampling

__all__ = ["distances", "distributions", "jit", "resampling"]
