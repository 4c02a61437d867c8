"""Components from answers in long form, against the worked example and the slow reference."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pyarrow as pa
import pytest
from conftest import CASES
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import components as reference
from reference import frechet as slow

import chronocore as cc
from chronocore.validity import (
    answer_grid,
    components,
    distribution_components,
    frechet_deviation,
)
from chronocore.validity.component_intervals import deviation_interval, signal_interval

NSR = json.loads((CASES / "nsr.json").read_text())


def frame(rows):
    names = ["model", "item", "tone", "variant", "seed", "score", "status"]
    kinds = [pa.string()] * 3 + [pa.int64()] * 2 + [pa.float64(), pa.string()]
    return pa.table({n: pa.array([r[i] for r in rows], k)
                     for i, (n, k) in enumerate(zip(names, kinds, strict=True))})  # fmt: skip


def worked_example():
    tensor = NSR["tensor"]
    rows = []
    for m, model in enumerate(NSR["models"]):
        for q, item in enumerate(NSR["questions"]):
            for v in range(30):
                x = tensor[m][q][v][0]
                tone = ("standard", "friendly", "combative")[v // 10]
                rows.append((model, item, tone, v % 10, None, x, "refused" if x is None else "ok"))
            for s in range(10):
                x = tensor[m][q][0][s]
                rows.append((model, item, "standard", 0, s, x, "refused" if x is None else "ok"))
    return rows


def test_the_worked_example_exactly():
    table = components(frame(worked_example()), n_resamples=0).table.to_pylist()
    found = {(row["label"], row["item"]): row for row in table}
    assert len(found) == len(NSR["cells_ddof1_culture_variants"]) == 12
    for cell in NSR["cells_ddof1_culture_variants"]:
        row = found[cell["model"], cell["question"]]
        assert row["status"] == cell["status"]
        assert row["n_seeds_valid"] == cell["n_seed_valid"]
        assert row["n_variants_valid"] == cell["n_prompt_valid"]
        for name, value in (
            ("sigma_seed", row["sigma_seed"]), ("sigma_prompt", row["sigma_prompt"]),
            ("sigma_culture", row["sigma_culture"]), ("NSR", row["nsr"]),
        ):  # fmt: skip
            if cell[name] is None:
                assert value is None, name
            else:
                assert value == pytest.approx(float(cell[name]), rel=1e-14, abs=0), name
    expected = NSR["recommended"]
    assert sum(bool(row["above_1"]) for row in table) == expected["gt1"]
    assert sum(bool(row["above_2"]) for row in table) == expected["gt2"]


def test_the_order_of_the_rows_does_not_matter():
    rows = worked_example()
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    a, b = (components(frame(r), n_resamples=50, seed=3) for r in (rows, shuffled))
    assert a.table.equals(b.table)
    assert np.array_equal(a.replicates, b.replicates, equal_nan=True)


def test_another_model_changes_no_seed_interval():
    rows = worked_example()
    extra = [("another", *row[1:]) for row in rows if row[0] == "noisy"]
    a, b = (
        {
            (r["label"], r["item"]): (r["sigma_seed_low"], r["sigma_prompt_high"])
            for r in components(frame(x), n_resamples=100).table.to_pylist()
        }
        for x in (rows, rows + extra)
    )
    assert all(b[key] == value for key, value in a.items())


def test_refusals_failures_and_errors_are_counted_apart_and_are_never_stable():
    rows = []
    for model, answer in (("a", 3.0), ("b", 5.0), ("c", None)):
        for v in range(10):
            rows.append((model, "q", "standard", v, None, answer, "ok" if answer else "refused"))
        for s in range(4):
            rows.append((model, "q", "standard", 0, s, answer, "ok" if answer else "refused"))
    rows[1] = ("a", "q", "standard", 1, None, None, "invalid")
    rows[2] = ("a", "q", "standard", 2, None, None, "refused")
    rows[3] = ("a", "q", "standard", 3, None, None, "error")
    rows[4] = ("a", "q", "standard", 4, None, 4.0, "recovered")
    a, b, c = components(frame(rows), n_resamples=20).table.to_pylist()
    assert (a["n_answered"], a["n_variants"], a["n_variants_valid"]) == (9, 10, 7)
    assert (a["refusal_rate"], a["parse_failure_rate"]) == (0.1, 0.1)
    assert a["answered_refusal_rate"] == pytest.approx(1 / 9)
    assert a["answered_parse_failure_rate"] == pytest.approx(1 / 9)
    # Valid variants other than the first: six, one of which is not 3.
    assert (a["n_compared"], a["disagreement_rate"]) == (6, pytest.approx(1 / 6))
    assert (b["sigma_seed"], b["sigma_prompt"], b["nsr"]) == (0.0, 0.0, 0.0)
    assert c["status"] == "undefined_noise"
    for name in ("sigma_seed", "sigma_prompt", "nsr", "nsr_low", "mean", "disagreement_rate"):
        assert c[name] is None
    assert (c["refusal_rate"], c["parse_failure_rate"]) == (1.0, 0.0)


def test_a_score_beside_a_refusal_is_not_taken():
    rows = worked_example()
    rows[0] = (*rows[0][:5], 3.0, "refused")
    grid = answer_grid(frame(rows))
    assert np.isnan(grid.variant_answers[grid.labels.index(rows[0][0]), 0, 0])


def test_two_answers_to_one_query_are_an_error():
    rows = worked_example()
    with pytest.raises(cc.InvalidInputError, match="steady, Q0_1to10 has two answers"):
        components(frame([*rows, rows[0]]))
    with pytest.raises(cc.InvalidInputError, match="lack the columns"):
        components(pa.table({"model": ["a"]}))
    with pytest.raises(cc.InvalidInputError, match="culture_base"):
        components(frame(rows), culture_base="x")


@given(st.data())
@settings(max_examples=60)
def test_components_agree_with_the_reference(data):
    m, q, v, s = (data.draw(st.integers(1, n)) for n in (4, 3, 5, 4))
    answer = st.one_of(st.none(), st.integers(1, 10))
    variants = [[[data.draw(answer) for _ in range(v)] for _ in range(q)] for _ in range(m)]
    seeds = [[[data.draw(answer) for _ in range(s)] for _ in range(q)] for _ in range(m)]
    rows = []
    for i in range(m):
        for j in range(q):
            rows += [
                (f"m{i}", f"q{j}", "standard", k, None, x, "ok" if x else "invalid")
                for k, x in enumerate(variants[i][j])
            ]
            rows += [
                (f"m{i}", f"q{j}", "standard", 0, k, x, "ok" if x else "invalid")
                for k, x in enumerate(seeds[i][j])
            ]
    base = data.draw(st.sampled_from(["variants", "seeds"]))
    found = components(frame(rows), n_resamples=0, culture_base=base)
    culture, cells = reference.variance_components(seeds, variants, culture_base=base)
    for row in found.table.to_pylist():
        i, j = int(row["label"][1:]), int(row["item"][1:])
        seed, prompt, nsr, status = cells[i][j]
        assert row["status"] == status
        for name, value in (
            ("sigma_seed", seed), ("sigma_prompt", prompt), ("sigma_culture", culture[j]),
            ("nsr", nsr),
        ):  # fmt: skip
            assert (row[name] is None) == math.isnan(value)
            if row[name] is not None:
                assert row[name] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_resamples_follow_the_law_of_the_bootstrap():
    rng = np.random.default_rng(1)
    rows = []
    answers = {m: rng.integers(1, 11, 30) for m in ("a", "b", "c")}
    drawn = {m: rng.integers(1, 11, 10) for m in ("a", "b", "c")}
    for model in answers:
        rows += [
            (model, "q", "standard", v, None, float(x), "ok") for v, x in enumerate(answers[model])
        ]
        rows += [(model, "q", "standard", 0, s, float(x), "ok") for s, x in enumerate(drawn[model])]
    found = components(frame(rows), n_resamples=4000, seed=5, intervals="percentile")
    index = rng.integers(0, 30, (4000, 30))
    row = found.table.to_pylist()[0]

    def ends(replicates, estimate):
        centred = replicates * estimate / np.sqrt((replicates**2).mean())
        return np.quantile(centred, [0.025, 0.975])

    low, high = ends(np.std(answers["a"][index], axis=1, ddof=1), row["sigma_prompt"])
    assert row["sigma_prompt_low"] == pytest.approx(low, abs=0.06)
    assert row["sigma_prompt_high"] == pytest.approx(high, abs=0.06)
    # Variants are drawn together for all models: the same index for every mean.
    means = np.stack([answers[m][index].mean(axis=1) for m in answers])
    low, high = ends(means.std(axis=0, ddof=1), row["sigma_culture"])
    assert row["sigma_culture_low"] == pytest.approx(low, abs=0.03)
    assert row["sigma_culture_high"] == pytest.approx(high, abs=0.03)
    assert row["nsr_low"] < row["nsr"] < row["nsr_high"]


def test_intervals_hold_what_they_are_about():
    """Over many panels drawn from one population, about as often as they say."""
    rng = np.random.default_rng(7)
    held = []
    for seed in range(60):
        rows = []
        for model in range(6):
            center = 3.0 * model
            for v in range(30):
                x = center + rng.normal(0, 2)
                rows.append((f"m{model}", "q", "standard", v, None, x, "ok"))
            rows += [
                (f"m{model}", "q", "standard", 0, s, center + rng.normal(0, 1), "ok")
                for s in range(10)
            ]
        table = components(frame(rows), n_resamples=300, seed=seed).table.to_pylist()
        held += [row["sigma_prompt_low"] <= 2 <= row["sigma_prompt_high"] for row in table]
        held += [row["nsr_low"] <= 3 / np.std(3 * np.arange(6), ddof=1) <= row["nsr_high"]
                 for row in table]  # fmt: skip
    assert 0.85 < np.mean(held) < 0.98


def test_any_size():
    rng = np.random.default_rng(0)
    m, q, v, s = 20, 200, 30, 10
    n = m * q * (v + s)
    model, item, place = np.unravel_index(np.arange(n), (m, q, v + s))
    table = pa.table(
        {
            "model": pa.array(model).cast(pa.string()).dictionary_encode(),
            "item": pa.array(item).cast(pa.string()),
            "variant": pa.array(np.where(place < v, place, 0)),
            "seed": pa.array(place - v, mask=place < v),
            "score": pa.array(rng.integers(1, 11, n).astype(float)),
        }
    )
    found = components(table, n_resamples=0)
    assert len(found.table) == m * q
    scores = table["score"].to_numpy().reshape(m, q, v + s)
    order = [int(name) for name in found.grid.labels]
    columns = [int(name) for name, _ in found.grid.items]
    expected = scores[:, :, :v].std(axis=2, ddof=1)[np.ix_(order, columns)]
    assert np.allclose(found.values.sigma_prompt, expected, rtol=1e-13)


# Distributions


def exact(rows):
    return [[Fraction(x) / sum(map(Fraction, row)) for x in row] for row in rows]


rows_of = st.integers(2, 5).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(0, 20), min_size=k, max_size=k).filter(any), min_size=2, max_size=6
    )
)


@given(rows_of, st.data())
def test_frechet_deviation_agrees_with_the_exact_reference(rows, data):
    k = len(rows[0])
    gaps = data.draw(st.lists(st.integers(1, 4), min_size=k - 1, max_size=k - 1))
    support = np.cumsum([0, *gaps]).tolist()
    given_rows = exact(rows)
    found = frechet_deviation([[float(x) for x in row] for row in given_rows], support)
    assert found**2 == pytest.approx(float(slow.variance(given_rows, support)), abs=1e-11)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=8), st.sampled_from([0, 1]))
def test_point_masses_have_the_ordinary_standard_deviation(places, ddof):
    rows = np.eye(7)[places]
    assert frechet_deviation(rows, ddof=ddof) == pytest.approx(
        np.std(np.array(places) / 6, ddof=ddof), abs=1e-12
    )


@given(rows_of)
def test_laws_of_the_frechet_deviation(rows):
    matrix = np.array(rows, dtype=float)
    matrix /= matrix.sum(axis=1, keepdims=True)
    k = matrix.shape[1]
    found = frechet_deviation(matrix)
    assert frechet_deviation(matrix[::-1]) == pytest.approx(found, abs=1e-12)
    assert frechet_deviation(matrix[:, ::-1]) == pytest.approx(found, abs=1e-9)
    assert frechet_deviation(matrix, 3.0 * np.arange(k) - 7) == pytest.approx(found, abs=1e-12)
    assert 0 <= frechet_deviation(matrix, ddof=0) <= 0.5 + 1e-12
    # The mean of all squared distances between two is twice the variance, and no distance
    # of W2 is below W1.
    n = len(matrix)
    pairs = [
        2 * frechet_deviation(matrix[[i, j]], ddof=0) for i in range(n) for j in range(i + 1, n)
    ]
    assert np.sum(np.square(pairs)) / (n * (n - 1)) == pytest.approx(found**2, abs=1e-11)
    first = [float(cc.wasserstein(matrix[i], matrix[j])) for i in range(n) for j in range(i + 1, n)]
    assert all(w2 >= w1 - 1e-9 for w1, w2 in zip(first, pairs, strict=True))


def test_equal_distributions_have_no_variance_at_all():
    row = [0.1, 0.2, 0.3, 0.4]
    assert frechet_deviation([row] * 7) == 0.0
    percents = [10 / 100, 20 / 100, 30 / 100, 40 / 100]
    assert frechet_deviation([row, percents, [x / 1.0000000000000002 for x in row]]) == 0.0
    assert math.isnan(frechet_deviation([row]))
    assert math.isnan(frechet_deviation(np.empty((0, 3))))


def test_what_is_no_distribution_is_refused():
    with pytest.raises(cc.InvalidInputError, match="row 1"):
        frechet_deviation([[0.5, 0.5], [0.5, 0.6]])
    with pytest.raises(cc.InvalidInputError, match="support"):
        frechet_deviation([[0.5, 0.5]], [2, 1])


def answers_of(label, item, seeds, variants):
    return [
        {"label": label, "item": item, "stage": stage, "status": "ok", "probs": list(row)}
        for stage, rows in (("seeds", seeds), ("variants", variants))
        for row in rows
    ]


def test_distribution_components_reduce_to_those_of_numbers():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, (3, 10 + 30))
    rows, numbers = [], []
    for m in range(3):
        masses = np.eye(5)[codes[m]]
        rows += answers_of(f"m{m}", "q", masses[:10], masses[10:])
        numbers += [(f"m{m}", "q", "standard", 0, s, codes[m, s] / 4, "ok") for s in range(10)]
        numbers += [
            (f"m{m}", "q", "standard", v, None, codes[m, 10 + v] / 4, "ok") for v in range(30)
        ]
    found = distribution_components(rows, {"q": [1, 2, 3, 4, 5]}).to_pylist()
    expected = components(frame(numbers), n_resamples=0).table.to_pylist()
    for a, b in zip(found, expected, strict=True):
        for name, other in (
            ("sigma_seed", "sigma_seed"), ("sigma_prompt", "sigma_prompt"),
            ("sigma_model", "sigma_culture"), ("nsr", "nsr"),
        ):  # fmt: skip
            assert a[name] == pytest.approx(b[other], rel=1e-10)
        assert a["status"] == b["status"] == "ok"
        assert a["n_models"] == 3


def test_model_component_is_that_of_the_barycentres():
    rng = np.random.default_rng(4)
    rows, raw, units = [], [], []
    for m in range(4):
        variants = rng.integers(0, 9, (3, 4)) + 1
        raw += exact(variants.tolist())
        units += [m] * 3
        rows += answers_of(f"m{m}", "q", variants / variants.sum(axis=1, keepdims=True),
                           variants / variants.sum(axis=1, keepdims=True))  # fmt: skip
    found = distribution_components(rows, {"q": [1, 2, 4, 8]}).to_pylist()[0]
    exact_variance = slow.variance(raw, [1, 2, 4, 8], units)
    assert found["sigma_model"] ** 2 == pytest.approx(float(exact_variance), abs=1e-12)


def test_statuses_of_distribution_components():
    even, left = [0.5, 0.5], [1.0, 0.0]
    rows = answers_of("a", "q", [even, even], [even, even])
    rows += answers_of("b", "q", [left], [left, left])
    rows += answers_of("c", "q", [even, left], [even, even])
    rows += answers_of("a", "same", [even, even], [even, even])
    rows += answers_of("c", "same", [even, left], [even, even])
    rows += answers_of("a", "alone", [even, even], [even, even])
    table = distribution_components(rows, {"q": [1, 2], "same": [1, 2], "alone": [1, 2]})
    found = {(r["item"], r["label"]): r for r in table.to_pylist()}
    assert found["q", "a"]["status"] == "ok"
    assert found["q", "a"]["nsr"] == 0.0
    assert found["q", "b"]["status"] == "undefined_noise"
    assert found["same", "a"]["status"] == "zero_over_zero"
    assert found["same", "c"]["status"] == "infinite"
    assert found["alone", "a"]["status"] == "undefined_culture"


def test_resamples_and_variances_are_the_same_on_any_number_of_threads():
    table = frame(worked_example())
    rng = np.random.default_rng(0)
    groups = [rng.dirichlet(np.ones(4), 3) for _ in range(50)]
    rows = [r for i, g in enumerate(groups) for r in answers_of("a", f"q{i}", g, g)]
    before = numba.get_num_threads()
    found = []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            split = components(table, n_resamples=200, seed=1)
            spread = distribution_components(rows, {f"q{i}": [1, 2, 3, 4] for i in range(50)})
            found.append((split, spread))
    finally:
        numba.set_num_threads(before)
    (a, x), (b, y) = found
    assert a.table.equals(b.table)
    assert np.array_equal(a.replicates, b.replicates, equal_nan=True)
    assert x.equals(y)


def test_interpreted_kernels_give_the_same_bits(child_environment):
    script = (
        "import numpy as np\n"
        "from chronocore_kernels.components import resample_components as r\n"
        "from chronocore_kernels.frechet import frechet_variance as f\n"
        "s = np.arange(8.0).reshape(2, 4) ** 1.5; v = np.sqrt(np.arange(10.0).reshape(2, 5))\n"
        "v[0, 1] = np.nan\n"
        "b = np.array([3, 4], np.uint64)\n"
        "out = r(s, v, np.ones(5, np.int64), False, b, np.uint64(9), 7, 1.0)\n"
        "p = np.array([.1, .2, .7, .3, .3, .4, 1., 0., 0.])\n"
        "z = np.zeros(1, np.int64)\n"
        "g = f(p, np.array([0, 3, 6]), np.array([0, 3]), np.array([3]),\n"
        "      np.array([0., .25, 1.]), z, np.arange(3), 1.0)[0]\n"
        "print([x.hex() for a in out for x in a.ravel().tolist()], g[0].hex())\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**child_environment, "CHRONOCORE_JIT": jit},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for jit in ("0", "1")
    }
    assert len(printed) == 1


# Intervals in closed form


def test_the_interval_of_a_deviation_is_that_of_a_chi_square_variable():
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    answers = rng.standard_normal((50, 10))
    low, high = deviation_interval(answers, 1.0, 0.9)
    deviation = answers.std(axis=1, ddof=1)
    assert np.allclose(low, deviation * np.sqrt(9 / chi2.ppf(0.95, 9)))
    assert np.allclose(high, deviation * np.sqrt(9 / chi2.ppf(0.05, 9)))
    missing = np.concatenate([answers, np.full((50, 5), np.nan)], axis=1)
    again = deviation_interval(missing[:, ::-1], 1.0, 0.9)
    assert np.allclose(again[0], low)
    assert np.allclose(again[1], high)


def test_equal_answers_do_not_show_that_the_next_is_the_same():
    from scipy.stats import beta

    rows = np.array([[4.0] * 10, [4.0] * 9 + [5.0], [4.0, *[np.nan] * 9], [np.nan] * 10])
    low, high = deviation_interval(rows, 1.0, 0.95)
    share = beta.ppf(0.975, 0.5, 10.5)
    assert (low[0], high[0]) == (0.0, pytest.approx(np.sqrt(share * (1 - share))))
    assert 0 < low[1] < rows[1].std(ddof=1) < high[1]
    assert np.isnan(low[2:]).all()
    assert np.isnan(high[2:]).all()
    # Twice the step, twice the width; where nothing ever differs, nothing is known of steps.
    assert deviation_interval(rows[:1], 2.0, 0.95)[1][0] == pytest.approx(2 * high[0])
    assert deviation_interval(rows[:1], 0.0, 0.95)[1][0] == 0.0


def test_the_signal_of_models_without_a_difference_may_be_zero():
    rng = np.random.default_rng(4)
    alike = rng.standard_normal((8, 30))
    low, _ = signal_interval(alike, float(alike.mean(axis=1).std(ddof=1)), 0.95)
    assert low == 0.0
    apart = alike + 3 * np.arange(8)[:, None]
    estimate = float(apart.mean(axis=1).std(ddof=1))
    low, high = signal_interval(apart, estimate, 0.95)
    assert 0.95 * estimate < low < estimate < high < 1.05 * estimate
    # What a prompt does to all models alike does not count.
    shared = apart + 5 * rng.standard_normal(30)
    again = signal_interval(shared, float(shared.mean(axis=1).std(ddof=1)), 0.95)
    assert again[1] - again[0] < 1.01 * (high - low)
    exact = np.repeat(np.arange(3.0)[:, None], 5, axis=1)
    assert signal_interval(exact, 1.0, 0.95) == (1.0, 1.0)


def test_intervals_hold_their_parts_and_the_percentile_stays_a_setting():
    rng = np.random.default_rng(2)
    rows = []
    for m in range(4):
        for v in range(30):
            rows.append((f"m{m}", "q", "standard", v, None, float(m + rng.integers(1, 4)), "ok"))
        for s in range(10):
            rows.append((f"m{m}", "q", "standard", 0, s, float(m + rng.integers(1, 3)), "ok"))
    own = components(frame(rows), n_resamples=200).table.to_pylist()
    other = components(frame(rows), n_resamples=200, intervals="percentile").table.to_pylist()
    for a, b in zip(own, other, strict=True):
        for name in ("sigma_seed", "sigma_prompt", "sigma_culture", "nsr"):
            assert a[name] == b[name]
            assert a[f"{name}_low"] <= a[name] <= a[f"{name}_high"]
            assert a[f"{name}_low"] != b[f"{name}_low"]
    # Nothing is drawn.
    assert own == components(frame(rows), n_resamples=200, seed=9).table.to_pylist()
    with pytest.raises(cc.InvalidInputError, match="intervals 'bca' are none of"):
        components(frame(rows), intervals="bca")


@pytest.mark.slow
@pytest.mark.parametrize("place", range(6))
def test_intervals_hold_what_they_say_in_simulated_panels(place):
    from chronocore_bench.coverage_validity import PANELS, panel_coverage

    for row in panel_coverage(PANELS[place], samples=25, seed=1):
        assert 0.93 <= row.coverage <= 0.985, row
