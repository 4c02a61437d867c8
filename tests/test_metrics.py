"""The metrics against the slow reference, the handed cases and the laws they must keep."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import CASES
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as reference

import chronocore as cc
from chronocore.testing import (
    check_affine_invariance,
    check_metric_laws,
    check_reversal_invariance,
    check_triangle,
    distribution_pairs,
    distributions,
    microdata,
    supports,
)
from chronocore.tolerance import at_least, at_most

pytestmark = pytest.mark.kernels

EDGES = json.loads((CASES / "metric-edges.json").read_text())


@pytest.mark.parametrize("case", EDGES["unit_cases"], ids=lambda case: case["name"])
def test_wasserstein_and_classes_on_the_handed_cases(case):
    distance = float(cc.wasserstein(case["p"], case["q"], case["codes"]))
    assert distance == pytest.approx(case["W"], abs=1e-15)
    for boundaries in ("tighter", "default", "looser"):
        assert str(cc.shift_class(distance, boundaries)) == case[f"cat_{boundaries}"]
    assert bool(at_most(distance, 0.10)) is case["within_tau10"]


@pytest.mark.parametrize("case", EDGES["cosine_cases"], ids=lambda case: case["name"])
def test_cosine_on_the_handed_cases(case):
    k = len(case["g"]) + 1
    base = np.full(k, 1 / k)

    def moved(change):
        # a distribution whose cumulative shares differ from base's by change / 100
        cumulative = np.concatenate([np.asarray(change) / 100, [0.0]])
        return base + np.diff(np.concatenate([[0.0], cumulative]))

    cosine = float(cc.direction_cosine(base, moved(case["g"]), base, moved(case["p"])))
    if case["cos"] is None:
        assert math.isnan(cosine)
    else:
        assert cosine == pytest.approx(case["cos"], abs=1e-9)


def test_weights_of_appendix_a2():
    case = EDGES["weight_case"]
    codes = [{"Agree": 1, "Disagree": 2}[answer] for answer in case["answers"]]
    result = cc.weighted_distributions(codes, [0, 0, 0], case["w"], [1, 2])
    assert result.probs.tolist() == [case["gold"]]


@pytest.mark.parametrize(
    "row", EDGES["enumeration"], ids=lambda r: f"K={r['k_options']},step={r['step_percent']}"
)
def test_every_pair_of_grid_predictions_falls_on_the_closed_side(row):
    k, units = row["k_options"], 100 // row["step_percent"]
    grid = np.array(
        [c for c in itertools.product(range(units + 1), repeat=k - 1) if sum(c) <= units]
    )
    counts = np.concatenate([grid, units - grid.sum(axis=1, keepdims=True)], axis=1)
    assert len(counts) == row["n_predictions"]
    cumulative = np.cumsum(counts, axis=1)[:, :-1]
    # In whole units the distance is an exact integer over (K - 1) * units.
    exact = np.abs(cumulative[:, None] - cumulative[None]).sum(axis=2)
    probs = counts / units
    found = cc.wasserstein(probs[:, None], probs[None])
    for threshold in (key for key in row if key.startswith("0.")):
        limit = Fraction(threshold) * (k - 1) * units
        on = exact == limit
        assert int(on.sum()) == row[threshold]["on_threshold"]
        np.testing.assert_array_equal(at_most(found, float(threshold)), exact <= limit)
        np.testing.assert_array_equal(at_least(found, float(threshold)), exact >= limit)


@given(distribution_pairs())
def test_wasserstein_equals_the_reference_and_keeps_the_laws(pair):
    p, q, support = pair
    assert float(cc.wasserstein(p, q, support)) == pytest.approx(
        reference.wasserstein(p, q, support), abs=1e-12
    )
    assert float(cc.wasserstein(p, q)) == pytest.approx(reference.wasserstein(p, q), abs=1e-12)
    check_metric_laws(cc.wasserstein, p, q, support)
    check_reversal_invariance(cc.wasserstein, p, q, support)


@given(distribution_pairs(), st.floats(-50, 50), st.floats(0.1, 20))
def test_wasserstein_ignores_origin_and_unit_of_the_support(pair, shift, scale):
    check_affine_invariance(cc.wasserstein, *pair, shift, scale)


@given(st.data(), st.integers(2, 11))
def test_wasserstein_keeps_the_triangle_inequality(data, k):
    p, q, r = (data.draw(distributions(k)) for _ in range(3))
    check_triangle(cc.wasserstein, p, q, r, data.draw(supports(k)))


@given(st.lists(distribution_pairs(), min_size=1, max_size=20))
def test_ragged_rows_equal_single_rows(pairs):
    expected = [float(cc.wasserstein(p, q, a)) for p, q, a in pairs]
    columns = [[row[i].tolist() for row in pairs] for i in range(3)]
    for wrap in (list, pa.array, pl.Series):
        assert cc.wasserstein(*(wrap(column) for column in columns)).tolist() == expected
    chunked = [pa.chunked_array([c[:1], c[1:]], pa.list_(pa.float64())) for c in columns]
    assert cc.wasserstein(*chunked).tolist() == expected
    sliced = [pa.array([[0.5, 0.5], *c, [0.5, 0.5]]).slice(1, len(c)) for c in columns]
    assert cc.wasserstein(*sliced).tolist() == expected
    frame = pl.DataFrame({"p": columns[0], "q": columns[1], "a": columns[2]})
    assert cc.wasserstein(frame["p"], frame.select("q"), frame["a"]).tolist() == expected


def test_fixed_size_lists_keep_their_slice_offset():
    column = pa.FixedSizeListArray.from_arrays(pa.array([0.1, 0.9, 0.4, 0.6, 0.2, 0.8]), 2)
    assert cc.wasserstein(column.slice(1), [0.5, 0.5]).round(12).tolist() == [0.1, 0.3]


@given(st.data(), st.integers(2, 11))
def test_cosine_equals_the_reference(data, k):
    rows = [data.draw(distributions(k)) for _ in range(4)]
    expected = reference.direction_cosine(*rows)
    found = float(cc.direction_cosine(*rows))
    if expected is None:
        assert math.isnan(found)
    elif not math.isnan(found):  # a largest change within rounding of the tolerance
        # Cumulative sums are off by some 1e-16, which weighs the more the smaller the change.
        old, new, predicted_old, predicted_new = (np.cumsum(row) for row in rows)
        change = min(np.abs(new - old).max(), np.abs(predicted_new - predicted_old).max())
        assert found == pytest.approx(expected, abs=1e-9 + 4e-15 / change)
        assert -1.0 <= found <= 1.0


@given(microdata())
def test_weighted_distributions_equal_the_reference(drawn):
    table, options, n_groups = drawn
    columns = [table[name].to_pylist() for name in ("code", "group", "weight")]
    probs, n_valid, n_eff, dropped = reference.weighted_distributions(*columns, options, n_groups)
    for frame in (table, pl.from_arrow(table)):
        found = cc.weighted_distributions(
            frame["code"], frame["group"], frame["weight"], options, n_groups
        )
        np.testing.assert_allclose(found.probs, probs, atol=1e-12)
        assert found.n_valid.tolist() == n_valid
        np.testing.assert_allclose(found.n_eff, n_eff, rtol=1e-12)
        assert found.n_dropped_weight.tolist() == dropped
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    again = cc.weighted_distributions(
        shuffled["code"], shuffled["group"], shuffled["weight"], options, n_groups
    )
    np.testing.assert_allclose(again.probs, probs, atol=1e-12)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abc")), max_size=40),
    st.sampled_from([0.25, 0.29, 0.5, 0.7, 0.75, 1.0]),
)
def test_knowledge_filter_equals_the_reference(rows, retain):
    values, strata = [r[0] for r in rows], [r[1] for r in rows]
    found = cc.knowledge_filter(values, strata, retain).tolist()
    assert found == reference.knowledge_filter(values, strata, retain)


@pytest.mark.parametrize(("n", "kept"), [(3228, 2420 + 1), (7132, 5349)])
def test_knowledge_filter_rounds_down_within_one_stratum(n, kept):
    mask = cc.knowledge_filter(np.linspace(0, 1, n), ["one"] * n)
    assert mask.sum() == n * 3 // 4 == kept


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], "row 1.*sums to"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 1.*negative"),
        ([[0.5, 0.5], [float("nan"), 0.5]], "row 1.*not finite"),
        ([[50, 50], [0.5, 0.5]], "row 0.*sums to 100"),
        ([[0.5, 0.5], [0.0, 0.0]], "row 1.*sums to 0"),
    ],
)
def test_what_is_no_distribution_is_refused_by_row(p, message):
    with pytest.raises(ValueError, match=message):
        cc.wasserstein(p, [0.5, 0.5])


def test_scales_that_do_not_match_are_refused():
    with pytest.raises(cc.InvalidInputError, match="4 options, q has 5"):
        cc.wasserstein([0.25] * 4, [0.2] * 5)
    with pytest.raises(cc.InvalidInputError, match="at least 2"):
        cc.wasserstein([1.0], [1.0])
    with pytest.raises(cc.InvalidInputError, match="strictly increasing"):
        cc.wasserstein([0.5, 0.5], [0.5, 0.5], support=[2, 1])


def test_masses_are_not_taken_for_values():
    assert float(cc.wasserstein([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5])) == pytest.approx(2 / 3)


def test_an_option_nobody_chose_keeps_its_place():
    result = cc.weighted_distributions([1, 1, 3], [0, 0, 0], None, [1, 2, 3])
    assert result.probs.tolist() == [[2 / 3, 0.0, 1 / 3]]
    empty = cc.weighted_distributions([], [], None, [1, 2], n_groups=2)
    assert np.isnan(empty.probs).all()
    assert empty.n_valid.tolist() == [0, 0]
