"""Hypothesis strategies and metric laws, for property tests of code built on these metrics.

Needs the package hypothesis.

Examples
--------
>>> from hypothesis import given, settings
>>> import chronocore as cc
>>> from chronocore.testing import check_metric_laws, distribution_pairs
>>> @settings(deadline=None)  # the first call compiles
... @given(distribution_pairs())
... def test_my_distance(pair):
...     p, q, support = pair
...     check_metric_laws(cc.wasserstein, p, q, support)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.errors import MissingDependencyError

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingDependencyError(
        "chronocore.testing needs hypothesis; install it with: pip install hypothesis"
    ) from None

__all__ = [
    "check_affine_invariance",
    "check_metric_laws",
    "check_reversal_invariance",
    "check_triangle",
    "distribution_pairs",
    "distributions",
    "microdata",
    "supports",
]

Floats = NDArray[np.float64]
Distance = Callable[[Floats, Floats, Floats], Any]

#: Two floating computations of one law may differ by this much.
LAW_TOLERANCE = 1e-9


@st.composite
def distributions(draw: st.DrawFn, n_options: int | None = None) -> Floats:
    """Draw a distribution over ``n_options`` (by default 2 to 11) ordered options.

    Point masses, empty options and very uneven shares are as likely as smooth ones.
    """
    k = draw(st.integers(2, 11)) if n_options is None else n_options
    weight = st.one_of(
        st.just(0.0), st.floats(0.0, 1.0), st.sampled_from([1e-12, 1e-6, 1.0]), st.just(0.5)
    )
    weights = np.array(draw(st.lists(weight, min_size=k, max_size=k)))
    if weights.sum() < 1e-9:
        weights = np.zeros(k)
        weights[draw(st.integers(0, k - 1))] = 1.0
    result: Floats = weights / weights.sum()
    return result


@st.composite
def supports(draw: st.DrawFn, n_options: int) -> Floats:
    """Draw strictly increasing positions, negative and unevenly spaced ones included."""
    start = draw(st.integers(-5, 5))
    gaps = draw(st.lists(st.integers(1, 5), min_size=n_options - 1, max_size=n_options - 1))
    return np.cumsum([start, *gaps]).astype(np.float64)


@st.composite
def distribution_pairs(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    """Draw two distributions over the same options, and their support."""
    k = draw(st.integers(2, 11))
    return draw(distributions(k)), draw(distributions(k)), draw(supports(k))


@st.composite
def microdata(draw: st.DrawFn) -> tuple[pa.Table, list[int], int]:
    """Draw a microdata table with its options and its number of groups.

    Columns ``code`` (float64 with nulls, NaN and codes off the scale), ``group`` (int64) and
    ``weight`` (float64 with null, NaN, infinite, zero and negative ones).
    """
    n_groups = draw(st.integers(1, 5))
    options = draw(st.lists(st.integers(-3, 12), min_size=1, max_size=11, unique=True))
    code = st.one_of(
        st.sampled_from([float(option) for option in options]),
        st.sampled_from([-1.0, -5.0, 99.0, 1.5, float("nan")]),
        st.none(),
    )
    weight = st.one_of(
        st.floats(0.01, 100.0), st.sampled_from([0.0, -1.0, float("nan"), float("inf")]), st.none()
    )
    row = st.tuples(code, st.integers(0, n_groups - 1), weight)
    rows = draw(st.lists(row, max_size=60))
    table = pa.table(
        {
            "code": pa.array([r[0] for r in rows], pa.float64()),
            "group": pa.array([r[1] for r in rows], pa.int64()),
            "weight": pa.array([r[2] for r in rows], pa.float64()),
        }
    )
    return table, options, n_groups


def check_metric_laws(distance: Distance, p: Floats, q: Floats, support: Floats) -> None:
    """Assert bounds, identity and symmetry of a normalised distance."""
    forward = float(distance(p, q, support))
    assert 0.0 <= forward <= 1.0, f"distance {forward} is outside [0, 1]"
    assert float(distance(p, p, support)) == 0.0, "distance of a distribution to itself is not 0"
    assert forward == float(distance(q, p, support)), "distance is not symmetric"
    if not np.allclose(p, q, atol=LAW_TOLERANCE):
        assert forward > 0.0, "two different distributions have distance 0"


def check_triangle(distance: Distance, p: Floats, q: Floats, r: Floats, support: Floats) -> None:
    """Assert the triangle inequality."""
    direct = float(distance(p, r, support))
    around = float(distance(p, q, support)) + float(distance(q, r, support))
    assert direct <= around + LAW_TOLERANCE, f"{direct} > {around}: no triangle inequality"


def check_affine_invariance(
    distance: Distance, p: Floats, q: Floats, support: Floats, shift: float, scale: float
) -> None:
    """Assert that a positive affine change of the support leaves the distance as it is."""
    assert scale > 0
    moved = float(distance(p, q, support * scale + shift))
    assert abs(moved - float(distance(p, q, support))) <= LAW_TOLERANCE


def check_reversal_invariance(distance: Distance, p: Floats, q: Floats, support: Floats) -> None:
    """Assert that reversing scale and distributions together leaves the distance as it is."""
    reversed_support = -support[::-1]
    back = float(distance(p[::-1].copy(), q[::-1].copy(), reversed_support))
    assert abs(back - float(distance(p, q, support))) <= LAW_TOLERANCE
