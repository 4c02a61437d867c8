"""One weight, however large or small, changes nothing but its own group."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.weights import exact_sizes

import chronocore as cc
from chronocore.config import Rules
from chronocore.gold import gold_table
from chronocore.sources import survey_microdata

WEIGHTS = st.one_of(
    st.floats(0.01, 100),
    st.floats(1e-320, 1e308),
    st.sampled_from([0.0, -1.0, math.nan, math.inf, 1e162, 1e-162, 1e308, 5e-324]),
)
ROWS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), WEIGHTS), min_size=1, max_size=40)


@given(ROWS)
@settings(deadline=None)
def test_shares_and_sizes_are_those_of_exact_arithmetic(rows):
    answers, groups, weights = map(list, zip(*rows, strict=True))
    found = cc.weighted_distributions(answers, groups, weights, [1, 2, 3], n_groups=4)
    for group, (n, shares, size) in enumerate(exact_sizes(answers, groups, weights, [1, 2, 3], 4)):
        assert found.n_valid[group] == n
        assert found.n_eff[group] == pytest.approx(size, rel=1e-9)
        if shares is not None:
            assert found.probs[group].tolist() == pytest.approx(shares, abs=1e-12)


@given(ROWS, st.sampled_from([1e120, 1e162, 1e308, 1e-162, 5e-324]))
@settings(deadline=None)
def test_a_weight_changes_no_bit_of_another_group(rows, extreme):
    answers, groups, weights = map(list, zip(*rows, strict=True))
    before = cc.weighted_distributions(answers, groups, weights, [1, 2, 3], n_groups=5)
    after = cc.weighted_distributions(
        [*answers, 1], [*groups, 4], [*weights, extreme], [1, 2, 3], n_groups=5
    )
    assert np.array_equal(before.probs[:4], after.probs[:4], equal_nan=True)
    assert np.array_equal(before.n_eff[:4], after.n_eff[:4])


def test_the_published_example():
    found = cc.weighted_distributions(
        [1, 2, 2, 1, 2, 2], [0, 0, 0, 1, 1, 1], [1e162, 1, 1, 1, 1, 1], options=[1, 2]
    )
    assert found.n_eff.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("huge", [1e162, 1e-162, 1.0])
def test_gold_notes_a_respondent_with_all_the_weight(tmp_path, huge):
    catalog = tmp_path / "items.csv"
    catalog.write_text("variable,text,code,label\nq,Well?,1,Yes\nq,Well?,2,No\n")
    weights = [huge] + [1.0] * 39
    frame = pa.table(
        {
            "country": ["SE"] * 20 + ["CL"] * 20,
            # A wave of two years: its parts are added on one scale.
            "wave": [1] * 40,
            "year": [2001, 2002] * 20,
            "w": weights,
            "q": [1, 2, 2, 2] * 10,
        }
    )
    data = survey_microdata(frame, items=str(catalog), weight="w", columns={"wave": "wave"})
    gold, funnel = gold_table([data], Rules(min_respondents=1, waves=[1], newest="latest"))
    found = {row["country"]: row for row in gold.to_pylist()}
    exact = exact_sizes(frame["q"].to_pylist(), [0] * 20 + [1] * 20, weights, [1, 2], 2)
    for row, (n, shares, size) in zip((found["SE"], found["CL"]), exact, strict=True):
        assert row["n_valid"] == n
        assert row["probs"] == pytest.approx(shares, abs=1e-12)
        assert row["n_eff"] == pytest.approx(size, rel=1e-12)
    noted = [n for n in funnel.notes if "one respondent has at least 100% of the weight" in n]
    assert len(noted) == (huge == 1e162)
