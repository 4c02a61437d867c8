"""Variance components and Kendall's W against the slow reference and known answers."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys

import numba
import numpy as np
import pytest
from conftest import CASES
from hypothesis import given
from hypothesis import strategies as st
from reference import components as reference
from scipy.stats import friedmanchisquare

import chronocore as cc
from chronocore.components import (
    CULTURE_BASES,
    STATUSES,
    kendalls_w,
    variance_components,
)
from chronocore.tolerance import above
from chronocore_kernels import components as kernels

pytestmark = pytest.mark.kernels

NSR = json.loads((CASES / "nsr.json").read_text())
GRID = np.array(NSR["tensor"], dtype=np.float64)  # model, item, variant, seed
SEEDS, VARIANTS = GRID[:, :, 0, :], GRID[:, :, :, 0]
STANDARD = range(10)
NAN = math.nan


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Thousands of tiny calls: waking a second thread would cost more than it computes."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(threads)


# The worked example


def test_the_handed_cells():
    found = variance_components(SEEDS, VARIANTS)
    cells = NSR["cells_ddof1_culture_variants"]
    assert len(cells) == found.nsr.size == 12
    for cell in cells:
        m, q = NSR["models"].index(cell["model"]), NSR["questions"].index(cell["question"])
        assert found.status[m, q] == cell["status"]
        for name, value in (
            ("sigma_seed", found.sigma_seed[m, q]),
            ("sigma_prompt", found.sigma_prompt[m, q]),
            ("sigma_culture", found.sigma_culture[q]),
            ("NSR", found.nsr[m, q]),
        ):
            expected = NAN if cell[name] is None else float(cell[name])
            assert value == pytest.approx(expected, rel=1e-14, abs=0, nan_ok=True), name
        assert np.isfinite(SEEDS[m, q]).sum() == cell["n_seed_valid"]
        assert np.isfinite(VARIANTS[m, q]).sum() == cell["n_prompt_valid"]


def test_the_handed_summary():
    found = variance_components(SEEDS, VARIANTS)
    expected = NSR["recommended"]
    assert (found.status == "ok").sum() == expected["n_ok"]
    assert above(found.nsr, 1.0).sum() == expected["gt1"]
    assert above(found.nsr, 2.0).sum() == expected["gt2"]
    undefined = [
        [NSR["models"][m], NSR["questions"][q], str(found.status[m, q])]
        for m, q in np.argwhere(found.status != "ok")
    ]
    assert sorted(undefined) == sorted(expected["undefined"])


@pytest.mark.parametrize("case", NSR["recommended"]["sensitivity_of_median"])
def test_the_handed_sensitivity(case):
    ddof, base = case.split("|")
    options = {"ddof": int(ddof), "standard_variants": STANDARD}
    name = {"baseline_standard10": "standard", "seeds_v0": "seeds"}.get(base, "variants")
    found = variance_components(SEEDS, VARIANTS, culture_base=name, **options)
    nsr = found.nsr
    if base == "full_grid":  # a model's mean over all its answers
        whole = variance_components(SEEDS, GRID.reshape(*GRID.shape[:2], -1), **options)
        signal = np.where(whole.sigma_culture > 0, whole.sigma_culture, NAN)
        nsr = (found.sigma_seed + found.sigma_prompt) / signal
    median = statistics.median(nsr[np.isfinite(nsr)].tolist())
    assert median == pytest.approx(NSR["recommended"]["sensitivity_of_median"][case], rel=1e-14)


# Against the reference


CODES = st.one_of(st.integers(1, 10).map(float), st.sampled_from([1.0, 2.0]), st.just(NAN))
FLOATS = st.one_of(
    st.floats(-1e3, 1e3),
    st.floats(-kernels.LARGEST, kernels.LARGEST),
    st.sampled_from([0.0, -0.0, 0.1, 5e-324, 1e-160, kernels.LARGEST, -kernels.LARGEST]),
    st.just(NAN),
)


@st.composite
def designs(draw, elements=CODES):
    """Seed and variant answers as nested lists: (M, Q, S) and (M, Q, V)."""
    models, items = draw(st.integers(1, 5)), draw(st.integers(1, 3))

    def answers(length):
        row = st.one_of(
            st.lists(elements, min_size=length, max_size=length),
            elements.map(lambda x: [x] * length),
            st.just([NAN] * length),
        )
        table = st.lists(
            st.lists(row, min_size=items, max_size=items), min_size=models, max_size=models
        )
        return draw(table)

    return answers(draw(st.integers(1, 6))), answers(draw(st.integers(1, 8)))


def agree(found, expected, rtol=1e-12):
    for name in ("sigma_seed", "sigma_prompt", "sigma_culture", "nsr"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=rtol, atol=1e-12, err_msg=name
        )
    assert found.status.tolist() == expected.status.tolist()


@given(designs(), st.sampled_from(CULTURE_BASES), st.sampled_from([0, 1, 2, 1.5]), st.data())
def test_components_equal_the_reference(design, base, ddof, data):
    seeds, variants = design
    indices = st.integers(0, len(variants[0][0]) - 1)
    standard = data.draw(st.lists(indices, min_size=1, unique=True))
    found = variance_components(
        seeds, variants, ddof=ddof, culture_base=base, standard_variants=standard
    )
    culture, cells = reference.variance_components(seeds, variants, ddof, base, standard)
    np.testing.assert_allclose(found.sigma_culture, culture, rtol=1e-12)
    columns = np.moveaxis(np.array([[c[:3] for c in row] for row in cells]), -1, 0)
    for name, expected in zip(("sigma_seed", "sigma_prompt", "nsr"), columns, strict=True):
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, err_msg=name)
    assert found.status.tolist() == [[cell[3] for cell in row] for row in cells]


@given(st.lists(st.lists(FLOATS, min_size=4, max_size=4), min_size=1, max_size=40))
def test_moments_equal_the_reference_up_to_the_largest_magnitude(rows):
    values = np.array(rows)
    means, deviations, too_large = kernels.moments(values, 1.0)
    assert not too_large.any()
    for row, mean, deviation in zip(rows, means.tolist(), deviations.tolist(), strict=True):
        size = max((abs(x) for x in row if not math.isnan(x)), default=0.0)
        expected = reference.moments(row, 1)
        tolerance = {"rel": 1e-13, "abs": max(4e-15 * size, 1e-153), "nan_ok": True}
        assert mean == pytest.approx(expected[0], **tolerance)
        assert deviation == pytest.approx(expected[1], **tolerance)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("length", [1, 2, 10, 30])
def test_blocks_of_rows_meet_without_a_seam(rows, length):
    rng = np.random.default_rng(rows)
    values = rng.integers(1, 11, (rows, length)).astype(float)
    values[rng.random(values.shape) < 0.3] = NAN
    mean, deviation, _ = kernels.moments(values, 1.0)
    for row in {0, rows // 2, rows - 1}:
        alone = kernels.moments(values[row : row + 1], 1.0)
        np.testing.assert_array_equal([mean[row], deviation[row]], np.ravel(alone[:2]))
    valid = (~np.isnan(values)).sum(axis=1)
    assert np.isnan(mean).tolist() == (valid == 0).tolist()
    assert np.isnan(deviation).tolist() == (valid < 2).tolist()
    known = [statistics.stdev(row[~np.isnan(row)]) for row in values[valid >= 2]]
    np.testing.assert_allclose(deviation[valid >= 2], known, rtol=1e-13)


# Laws


@given(designs(), st.randoms(use_true_random=False))
def test_order_of_seeds_and_variants_does_not_matter(design, random):
    seeds, variants = map(np.array, design)
    orders = [random.sample(range(x.shape[2]), x.shape[2]) for x in (seeds, variants)]
    found = variance_components(seeds[..., orders[0]], variants[..., orders[1]])
    agree(found, variance_components(seeds, variants))


@given(designs(), st.randoms(use_true_random=False))
def test_models_and_items_keep_their_cells(design, random):
    seeds, variants = map(np.array, design)
    models, items = (random.sample(range(n), n) for n in seeds.shape[:2])
    cells = np.ix_(models, items)
    found = variance_components(seeds[cells], variants[cells])
    whole = variance_components(seeds, variants)
    np.testing.assert_allclose(
        found.sigma_culture, whole.sigma_culture[items], rtol=1e-12, atol=1e-14
    )
    np.testing.assert_array_equal(found.sigma_prompt, whole.sigma_prompt[cells])
    assert found.status.tolist() == whole.status[cells].tolist()


@given(designs(), st.integers(-1000, 1000))
def test_a_constant_moves_no_component(design, constant):
    seeds, variants = map(np.array, design)
    agree(
        variance_components(seeds + constant, variants + constant),
        variance_components(seeds, variants),
        rtol=1e-10,
    )


@given(designs(), st.integers(-20, 20), st.booleans())
def test_a_factor_scales_the_components_and_not_the_ratio(design, exponent, negative):
    seeds, variants = map(np.array, design)
    factor = 2.0**exponent * (-1 if negative else 1)  # exact in floats
    found = variance_components(seeds * factor, variants * factor)
    plain = variance_components(seeds, variants)
    for name in ("sigma_seed", "sigma_prompt", "sigma_culture"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name) * abs(factor))
    np.testing.assert_array_equal(found.nsr, plain.nsr)
    assert found.status.tolist() == plain.status.tolist()


@given(st.floats(-1e100, 1e100), st.integers(2, 40))
def test_equal_answers_have_no_noise_at_all(value, length):
    """The mean of ten 0.1 is 0.09999999999999999 when summed; the deviation is 0 all the same."""
    mean, deviation, _ = kernels.moments(np.full((3, length), value), 1.0)
    assert mean.tolist() == [value] * 3
    assert deviation.tolist() == [0.0] * 3


@given(designs())
def test_no_answer_changes_nothing(design):
    seeds, variants = map(np.array, design)
    missing = np.full((*seeds.shape[:2], 3), NAN)
    found = variance_components(
        np.concatenate([missing, seeds], axis=2), np.concatenate([variants, missing], axis=2)
    )
    agree(found, variance_components(seeds, variants))


# Rules


@pytest.mark.parametrize(
    ("gap", "noisy", "status"),
    [
        (1.6e-12, True, "ok"),  # sd of 0 and the gap is the gap over root 2: 1.13e-12
        (1.2e-12, True, "infinite"),
        (1.2e-12, False, "zero_over_zero"),
        (0.0, False, "zero_over_zero"),
    ],
)
def test_signal_within_the_tolerance_is_none(gap, noisy, status):
    variants = np.array([[[0.0, 0.0]], [[gap, gap]]])
    seeds = np.array([[[0.0, float(noisy)]], [[gap, gap + noisy]]])
    found = variance_components(seeds, variants)
    assert found.status.tolist() == [[status], [status]]
    assert np.isnan(found.nsr).all() == (status != "ok")


def test_reasons_are_tested_in_order():
    answers = np.array([[[1.0, NAN, NAN], [1.0, 2.0, 3.0]]])
    found = variance_components(answers, answers)
    # One model has no spread among models, but too few answers come first.
    assert found.status.tolist() == [["undefined_noise", "undefined_culture"]]
    assert np.isnan(found.sigma_culture).all()
    assert set(found.status.ravel()) < set(STATUSES)


def test_a_model_with_one_answer_counts_for_culture_and_one_without_does_not():
    seeds = np.ones((3, 1, 2))
    variants = np.array([[[1.0, 1.0]], [[4.0, NAN]], [[NAN, NAN]]])
    found = variance_components(seeds, variants)
    assert found.sigma_culture.tolist() == [pytest.approx(math.sqrt(4.5), rel=1e-15)]
    assert found.status.ravel().tolist() == ["ok", "undefined_noise", "undefined_noise"]


def test_none_masked_and_integer_answers_are_read():
    lists = variance_components([[[1, None, 3]], [[1, 2, 2]]], [[[1, 2]], [[3, None]]])
    masked = variance_components(
        np.ma.masked_equal([[[1, -1, 3]], [[1, 2, 2]]], -1),
        np.ma.masked_equal([[[1, 2]], [[3, -1]]], -1),
    )
    agree(lists, masked, rtol=0)
    assert lists.sigma_seed[0, 0] == pytest.approx(math.sqrt(2))
    assert lists.status.tolist() == [["ok"], ["undefined_noise"]]


def test_strided_answers_equal_their_copies():
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(20, 6, 5)).astype(np.float32)
    seeds, variants = wide[::2, :4].transpose(2, 1, 0), wide[1::2, :4].transpose(2, 1, 0)
    agree(variance_components(seeds, variants), variance_components(seeds.copy(), variants.copy()))


def test_empty_axes_give_empty_or_undefined_results():
    assert variance_components(np.empty((0, 2, 3)), np.empty((0, 2, 4))).nsr.shape == (0, 2)
    none = variance_components(np.empty((2, 1, 0)), np.ones((2, 1, 4)))
    assert none.status.tolist() == [["undefined_noise"], ["undefined_noise"]]
    assert none.sigma_culture.tolist() == [0.0]


ONES = np.ones((2, 3, 4))


def with_value(value):
    answers = ONES.copy()
    answers[1, 2, 3] = value
    return answers


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((with_value(math.inf), ONES), {}, "seed_answers, model 1, item 2, index 3: inf"),
        ((ONES, with_value(-math.inf)), {}, "variant_answers, model 1, item 2, index 3: -inf"),
        ((ONES, with_value(1e200)), {}, "model 1, item 2, index 3: 1e.200"),
        ((ONES, ONES[0]), {}, "variant_answers must have the shape .models, items, variants."),
        ((ONES, ONES[:1]), {}, "2 models and 3 items, variant_answers 1 and 3"),
        (([[["yes"]]], ONES), {}, "seed_answers cannot be read as numbers"),
        ((ONES, ONES), {"ddof": -1}, "ddof"),
        ((ONES, ONES), {"ddof": NAN}, "ddof"),
        ((ONES, ONES), {"culture_base": "tones"}, "'tones' is none of variants, standard, seeds"),
        ((ONES, ONES), {"culture_base": "standard"}, "needs standard_variants"),
        ((ONES, ONES), {"standard_variants": [0, 4]}, "4 is no index of 4 variants"),
        ((ONES, ONES), {"standard_variants": [-1]}, "-1 is no index"),
        ((ONES, ONES), {"standard_variants": [0, 0]}, "twice"),
        ((ONES, ONES), {"standard_variants": [True, False]}, "list of indices"),
        ((ONES, ONES), {"standard_variants": []}, "list of indices"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(arguments, options, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        variance_components(*arguments, **options)


SCRIPT = """
import sys
import numba
import numpy as np
from chronocore.components import kendalls_w, variance_components
rng = np.random.default_rng(7)
seeds, variants = rng.normal(size=(31, 70, 10)), rng.normal(size=(31, 70, 30))
for answers in (seeds, variants):
    answers[rng.random(answers.shape) < 0.2] = np.nan
seeds[3, 5] = np.nan
ratings = rng.integers(1, 5, (6, 9))
for threads in map(int, sys.argv[1:]):
    numba.set_num_threads(threads)
    found = variance_components(seeds, variants)
    values = (found.sigma_seed, found.sigma_prompt, found.sigma_culture, found.nsr)
    print(*(x.tobytes().hex() for x in values), found.status.tolist(), kendalls_w(ratings))
"""


def test_results_are_the_same_to_the_last_bit_on_any_threads_and_without_the_compiler(
    child_environment,
):
    def run(*threads, **extra):
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, *threads],
            env={
                **child_environment,
                "NUMBA_NUM_THREADS": "4",
                "OMP_WAIT_POLICY": "passive",
                **extra,
            },
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.splitlines()

    one, three, four = run("1", "3", "4")
    assert one == three == four
    assert run("1", CHRONOCORE_JIT="0") == [one]


# Kendall's W


@pytest.mark.parametrize(
    ("ratings", "corrected", "uncorrected"),
    [
        # Rank sums 4, 6, 8, 12, their mean 7.5: S = 35, W = 12 * 35 / (9 * 60).
        ([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4]], 7 / 9, 7 / 9),
        # Rank sums 4.5, 5, 9.5, 11: S = 31.5; T = 6 + 6 + 12; W = 378 / (540 - 3 * 24).
        ([[1, 2, 2, 3], [2, 1, 3, 3], [1, 1, 2, 2]], 21 / 26, 378 / 540),
        # Rank sums 3, 3, 6: S = 6; T = 12; W = 72 / (96 - 24). Agreement is complete.
        ([[1, 1, 2], [5, 5, 9]], 1.0, 0.75),
        # Opposite orders: every rank sum is 4.
        ([[1, 2, 3], [3, 2, 1]], 0.0, 0.0),
        # One rater ties everything, T = 24: rank sums 3, 4, 5, S = 2, W = 24 / (96 - 48).
        ([[1, 2, 3], [7, 7, 7]], 0.5, 0.25),
        # Nothing is ranked: 0 / 0; R gives NaN and 0 as well.
        ([[2, 2, 2], [7, 7, 7]], NAN, 0.0),
    ],
)
def test_agreement_worked_by_hand(ratings, corrected, uncorrected):
    assert kendalls_w(ratings) == pytest.approx(corrected, rel=1e-15, nan_ok=True)
    assert kendalls_w(ratings, correct=False) == pytest.approx(uncorrected, rel=1e-15)


def test_agreement_on_the_anxiety_ratings_of_r():
    """20 subjects rated by 3 raters with many ties, shipped with irr and DescTools.

    ``kendall(anxiety, TRUE)`` prints Wt = 0.54, Chisq(19) = 30.8. By hand S = 3004, T = 1674.
    """
    ratings = [
        [3, 3, 3, 4, 5, 5, 2, 3, 5, 2, 2, 6, 1, 5, 2, 2, 1, 2, 4, 3],
        [3, 6, 4, 6, 2, 4, 2, 4, 3, 3, 2, 3, 3, 3, 2, 2, 1, 3, 3, 4],
        [2, 1, 4, 4, 3, 2, 1, 6, 1, 1, 1, 2, 3, 3, 1, 1, 3, 3, 2, 2],
    ]
    w = kendalls_w(ratings)
    assert round(w, 2) == 0.54
    assert round(3 * 19 * w, 1) == 30.8
    assert w == 12 * 3004 / (9 * 7980 - 3 * 1674)
    assert kendalls_w(ratings, correct=False) == 12 * 3004 / (9 * 7980)


@st.composite
def rating_tables(draw):
    m, n = draw(st.integers(2, 6)), draw(st.integers(2, 9))
    row = st.lists(st.integers(1, 6), min_size=n, max_size=n)
    return draw(st.lists(row, min_size=m, max_size=m))


@given(rating_tables(), st.booleans())
def test_agreement_equals_the_reference(ratings, correct):
    expected = reference.kendalls_w(ratings, correct)
    found = kendalls_w(ratings, correct=correct)
    if expected is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(expected, rel=1e-15)
        assert 0.0 <= found <= 1.0


@given(rating_tables())
def test_agreement_is_friedmans_chi_square(ratings):
    """Chi-square = m (n - 1) W, both corrected for ties; scipy wants three items."""
    m, n = len(ratings), len(ratings[0])
    w = kendalls_w(ratings)
    if n >= 3 and not math.isnan(w):
        chi_square = friedmanchisquare(*np.transpose(ratings)).statistic
        assert m * (n - 1) * w == pytest.approx(chi_square, rel=1e-10, abs=1e-10)


@given(rating_tables(), st.randoms(use_true_random=False), st.booleans())
def test_agreement_depends_on_the_order_within_raters_only(ratings, random, correct):
    plain = kendalls_w(ratings, correct=correct)
    increasing = [[f(x) for x in row] for f, row in zip(transforms(), ratings, strict=False)]
    items = random.sample(range(len(ratings[0])), len(ratings[0]))
    shuffled = [[row[i] for i in items] for row in random.sample(ratings, len(ratings))]
    reversed_ = [[-x for x in row] for row in ratings]
    for other in (increasing, shuffled, reversed_):
        found = kendalls_w(other, correct=correct)
        assert found == plain or (math.isnan(found) and math.isnan(plain))


def transforms():
    """A different increasing function for each rater."""
    return [math.exp, lambda x: x**3, lambda x: 2 * x - 100, math.log, float, math.atan]


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(2, 6))
def test_raters_who_say_the_same_agree_completely(row, m):
    w = kendalls_w([row] * m)
    assert w == 1.0 if len(set(row)) > 1 else math.isnan(w)


@given(st.permutations(range(6)))
def test_without_ties_the_correction_changes_nothing(order):
    ratings = [list(range(6)), list(order), [5, 3, 1, 0, 2, 4]]
    assert kendalls_w(ratings) == kendalls_w(ratings, correct=False)


def test_large_tables_do_not_overflow():
    n = 1_400_000  # m^2 n^3 leaves 64 bits
    assert kendalls_w(np.arange(n) + np.zeros((2, 1))) == 1.0


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([[1, 2, NAN], [1, 2, 3]], "rater 0, item 2: NaN"),
        ([[1, 2, 3], [None, 2, 3]], "rater 1, item 0: NaN"),
        ([[1, 2, 3]], "at least 2 raters .* it has 1 and 3"),
        ([[1], [2]], "at least 2 raters .* it has 2 and 1"),
        (np.empty((0, 0)), "at least 2 raters"),
        ([1, 2, 3], "shape .raters, items."),
        ([["a", "b"], ["a", "b"]], "cannot be read as numbers"),
    ],
)
def test_ratings_that_cannot_be_ranked_are_refused(ratings, message):
    with pytest.raises(cc.InvalidInputError, match=message):
        kendalls_w(ratings)
