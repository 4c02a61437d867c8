"""Microdata -> gold: one pass over a file equals counting each cell by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.survey_design import share_and_error

import chronocore as cc
from chronocore import schema
from chronocore.config import Rules
from chronocore.engines.base import Option, Request
from chronocore.engines.reference import ReferenceEngine
from chronocore.gold import gold_table, items_table
from chronocore.identity import pair_id
from chronocore.pairs import pairs_table
from chronocore.sources import Item, Microdata

SCALES = {"A": (1, 2, 3), "B": (0, 1), "C": (1, 3, 2), "D": tuple(range(1, 11))}


def make_item(variable, survey="ivs"):
    codes = SCALES[variable]
    options = tuple(Option(code, f"label {code}") for code in codes)
    positions = tuple(float(i) for i in range(len(codes)))
    return Item(survey, variable, "made", "Is it so?", "t", "b", options, positions)


def make_data(rows, *, variables="A", kind=None, weight="W", missing=None, survey="ivs"):
    """rows: dicts with country, wave, year and whatever else there is."""
    kind = kind or pa.int8()
    kinds = {
        "country": pa.string(), "country_name": pa.string(), "study": pa.string(),
        "weight_name": pa.string(), "wave": pa.int16(), "year": pa.int16(),
        "weight": pa.float64(), "stratum": pa.int64(), "psu": pa.int64(),
        "fieldwork_year": pa.int16(), **dict.fromkeys(SCALES, kind),
    }  # fmt: skip
    present = {key for row in rows for key in row} | {"country", "country_name", "wave", "year"}
    present |= set(variables)
    table = pa.table(
        {
            name: pa.array([row.get(name) for row in rows], kinds[name])
            for name in kinds
            if name in present
        }
    )
    items = tuple(make_item(variable, survey) for variable in variables)
    named = weight if "weight" in present else None
    return Microdata(survey, table, items, named, "made", missing=missing)


def slow_gold(data, rules):
    """Count every cell of every item by loops over respondents."""
    rows = data.respondents.to_pylist()
    weighted = data.weight is not None
    has_waves = any(row["wave"] is not None for row in rows)
    by_wave = has_waves and rules.time_point == "wave"
    found = {}
    for item in data.items:
        cells = defaultdict(list)
        for row in rows:
            if row["country"] is None or row["year"] is None or (by_wave and row["wave"] is None):
                continue
            if has_waves and row["wave"] not in rules.waves:
                continue
            key = row["wave"] if by_wave else row["year"]
            cells[row["country"], row.get("study"), key].append(row)
        codes = [option.code for option in item.options]
        for key, members in cells.items():
            valid = [row for row in members if row[item.variable] in codes]
            usable = [
                row
                for row in valid
                if not weighted
                or (
                    row["weight"] is not None and math.isfinite(row["weight"]) and row["weight"] > 0
                )
            ]
            w = {id(row): row["weight"] if weighted else 1.0 for row in valid}
            name = data.weight
            if valid and not usable:
                usable, name, w = valid, None, {id(row): 1.0 for row in valid}
            if not usable or len(usable) < rules.min_respondents:
                continue
            total = sum(w[id(row)] for row in usable)
            found[(item.variable, *key)] = {
                "probs": [
                    sum(w[id(row)] for row in usable if row[item.variable] == code) / total
                    for code in codes
                ],
                "n_valid": len(usable),
                "n_eff": total**2 / sum(w[id(row)] ** 2 for row in usable),
                "weight": name,
                "n_dropped_weight": len(valid) - len(usable),
                "years": Counter(row["year"] for row in usable),
                "first": min(row["year"] for row in members),
            }
    return found


def named(expected):
    """Name the time points as definitions, section 1, say; None where a study must be left out.

    Returns nothing at all if two waves of one study cannot be told apart.
    """
    names = {}
    countries = defaultdict(list)
    for key, cell in expected.items():
        countries[key[:2]].append((key, cell))
    for points in countries.values():
        # In order of time; the World Values Survey before another study of the same year.
        points.sort(key=lambda point: (point[1]["first"], point[0][2] != "wvs", point[0][3]))
        taken = set()
        for key, cell in points:
            by_year = sorted(cell["years"], key=lambda year: (-cell["years"][year], year))
            free = [year for year in by_year if year not in taken]
            if not free and len({other[2] for other, _ in points}) == 1:
                return None
            names[key] = free[0] if free else None
            taken.add(names[key])
    return names


respondent = st.fixed_dictionaries(
    {
        "country": st.sampled_from(["8", "276", "DE-E", None]),
        "study": st.sampled_from(["evs", "wvs"]),
        "wave": st.sampled_from([2, 3, 4, 7, None]),
        "year": st.sampled_from([1995, 1996, 2018, None]),
        "weight": st.sampled_from([0.5, 1.0, 1.5, 0.0, -1.0, math.nan, math.inf, None]),
        "A": st.sampled_from([1, 2, 3, 4, -1, None]),
        "B": st.sampled_from([0, 1, 1, 2, None]),
        "C": st.sampled_from([1, 2, 3, -5, None]),
        "D": st.integers(1, 10),
    }
)


@given(
    st.lists(respondent, min_size=1, max_size=60),
    st.sampled_from([pa.int8(), pa.int16(), pa.float64()]),
    st.booleans(),
    st.sampled_from(["wave", "year"]),
    st.integers(1, 3),
)
def test_gold_equals_counting_by_hand(rows, kind, weighted, time_point, least):
    if not weighted:
        rows = [{k: v for k, v in row.items() if k != "weight"} for row in rows]
    data = make_data(rows, variables="ABCD", kind=kind)
    rules = Rules(min_respondents=least, time_point=time_point, waves=[3, 4, 7], newest="latest")
    expected = slow_gold(data, rules)
    names = named(expected)
    if not expected or names is None:
        with pytest.raises(cc.SourceError, match=r"no time point has|leave one of the two waves"):
            gold_table([data], rules)
        return
    gold, _ = gold_table([data], rules)
    assert gold.schema.equals(schema.GOLD)
    found = {}
    for row in gold.to_pylist():
        key = row["wave"] if row["wave"] is not None else row["year"]
        found[row["variable"], row["country"], row["study"], key] = row
    assert {key: row["year"] for key, row in found.items()} == {
        key: year for key, year in names.items() if year is not None
    }
    for key, row in found.items():
        want = expected[key]
        assert row["probs"] == pytest.approx(want["probs"], abs=1e-12)
        assert row["n_eff"] == pytest.approx(want["n_eff"], rel=1e-12)
        for column in ("n_valid", "weight", "n_dropped_weight"):
            assert row[column] == want[column], column
        assert row["n_options"] == len(row["probs"])
        assert row["collapsed"] == (2 * sum(p > 0 for p in row["probs"]) <= row["n_options"])
        assert row["standard_errors"] is None
    keys = gold.select(["variable", "country", "year"]).to_pylist()
    # No two time points of one variable and country share a year, whatever their study.
    assert len({tuple(key.values()) for key in keys}) == len(keys)
    countries = [row["country"] for row in gold.to_pylist() if row["variable"] == "A"]
    assert countries == sorted(countries, key=["8", "276", "DE-E"].index)


@given(st.lists(respondent, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    rules = Rules(min_respondents=1, waves=[3, 4, 7], newest="latest")

    def result(some):
        try:
            gold, funnel = gold_table([make_data(some, variables="AB")], rules)
        except cc.ChronocoreError as error:
            return type(error), None, None
        return gold.drop_columns(["probs", "n_eff"]).to_pylist(), gold, dict(funnel.steps)

    mixed = list(rows)
    random.shuffle(mixed)
    one, gold, steps = result(rows)
    other, other_gold, other_steps = result(mixed)
    assert one == other
    assert steps == other_steps
    if gold is not None:
        for a, b in zip(gold["probs"].to_pylist(), other_gold["probs"].to_pylist(), strict=True):
            assert a == pytest.approx(b, abs=1e-12)


def rows_of(country="8", wave=None, year=2000, n=10, **columns):
    return [{"country": country, "wave": wave, "year": year, "A": 1, **columns} for _ in range(n)]


RULES = Rules(min_respondents=5, newest="latest")


def test_studies_keep_their_waves_apart():
    rows = [
        *rows_of(study="evs", wave=3, year=1999, A=1),
        *rows_of(study="wvs", wave=3, year=1996, A=2),
        *rows_of(study="wvs", wave=7, year=2018, A=3),
        *rows_of(study="evs", wave=5, year=2017, A=2),
    ]
    data = make_data(rows)
    gold, _ = gold_table([data], RULES)
    found = [(r["study"], r["wave"], r["year"], r["probs"].index(1.0)) for r in gold.to_pylist()]
    assert found == [
        ("wvs", 3, 1996, 1),
        ("evs", 3, 1999, 0),
        ("evs", 5, 2017, 1),
        ("wvs", 7, 2018, 2),
    ]


@pytest.mark.parametrize(
    ("last", "newest", "year"),
    [
        ([("wvs", 7, 2018), ("evs", 5, 2017)], "wave7", 2018),
        ([("wvs", 7, 2017), ("evs", 5, 2018)], "wave7", 2018),
        ([("evs", 5, 2017)], "wave7", 2017),
        ([("wvs", 6, 2012)], "wave7", None),
        ([("evs", 4, 2008)], "wave7", None),
        ([("evs", 4, 2008)], "latest", 2008),
    ],
)
def test_the_newest_point_of_the_joined_studies(last, newest, year):
    points = [("wvs", 3, 1996), *last]
    rows = [row for s, w, y in points for row in rows_of(study=s, wave=w, year=y)]
    data = make_data(rows)
    rules = Rules(min_respondents=5, newest=newest)
    gold, _ = gold_table([data], rules)
    items = items_table(list(data.items))
    if year is None:
        with pytest.raises(cc.SourceError, match="no variable has two time points"):
            pairs_table(gold, items, rules)
        return
    (pair,) = pairs_table(gold, items, rules).to_pylist()
    assert (pair["year_old"], pair["year_new"]) == (1996, year)
    study, wave = next((s, w) for s, w, y in points if y == year)
    assert pair["pair_id"] == pair_id("ivs", "A", "8", "wvs:wave:3", f"{study}:wave:{wave}")


def test_the_european_values_study_alone_ends_where_it_ends():
    rows = [*rows_of(study="evs", wave=3, year=1999), *rows_of(study="evs", wave=4, year=2008)]
    data = make_data(rows, survey="evs")
    rules = Rules(min_respondents=5, newest="wave7")
    gold, _ = gold_table([data], rules)
    (pair,) = pairs_table(gold, items_table(list(data.items)), rules).to_pylist()
    assert (pair["wave_old"], pair["wave_new"]) == (3, 4)


def test_the_pooled_reference_asks_the_same_study():
    rows = [
        *rows_of("8", study="wvs", wave=3, year=1996, A=1),
        *rows_of("12", study="wvs", wave=3, year=1997, A=2),
        *rows_of("31", study="evs", wave=3, year=1999, A=3),
    ]
    gold, _ = gold_table([make_data(rows)], RULES)
    request = Request(
        prompt_id="q", repeat=0, kind="dated", system="", user="", options=(), survey="ivs",
        variable="A", country="8", wave=3, year=1996,
    )  # fmt: skip
    (answer,) = ReferenceEngine("pooled", gold).answers([request])
    assert answer.probs == (0.0, 1.0, 0.0)


def test_each_cell_says_which_weight_it_used():
    rows = [
        *rows_of("1", weight=2.0, weight_name="wtssps"),
        *rows_of("2", weight=2.0, weight_name="wtssall", n=5),
        *rows_of("2", weight=1.0, weight_name="wtssps", n=5),
        *rows_of("3", weight=None),
        *rows_of("4", weight=1.0, weight_name="wtssall", n=6),
        *rows_of("4", weight=0.0, weight_name="wtssall", n=4),
    ]
    gold, funnel = gold_table([make_data(rows, weight="wtssall, wtssps")], RULES)
    weights = dict(zip(gold["country"].to_pylist(), gold["weight"].to_pylist(), strict=True))
    assert weights == {"1": "wtssps", "2": "wtssall+wtssps", "3": None, "4": "wtssall"}
    used = {(w["weight"], w["time_points"], w["dropped"]) for w in funnel.weights}
    assert used == {
        ("wtssps", 1, 0), ("wtssall+wtssps", 1, 0), (None, 1, 0), ("wtssall", 1, 4),
    }  # fmt: skip
    assert any("no respondent has a weight" in note for note in funnel.notes)


def test_equilibrated_weights_give_the_same_distribution_within_a_cell():
    rng = np.random.default_rng(1)
    weights, codes = rng.gamma(2.0, 0.5, 40), rng.integers(1, 4, 40)
    one, two = (
        gold_table(
            [
                make_data(
                    [
                        {**rows_of(n=1)[0], "weight": float(w * factor), "A": int(a)}
                        for w, a in zip(weights, codes, strict=True)
                    ]
                )
            ],
            RULES,
        )[0]
        for factor in (1.0, 1000 / weights.sum())
    )
    assert one["probs"].to_pylist()[0] == pytest.approx(two["probs"].to_pylist()[0], abs=1e-12)
    assert one["n_eff"].to_pylist() == pytest.approx(two["n_eff"].to_pylist())


def test_alike_notes_are_told_once():
    rows = [
        {**row, "B": 1, "C": 1, "D": 1}
        for year, n in ((1997, 8), (1998, 4))
        for row in rows_of("170", wave=3, year=year, n=n)
    ]
    _, funnel = gold_table([make_data(rows, variables="ABCD")], RULES)
    assert funnel.notes == ["ivs 4 variables, country 170: wave 3 pools 1997, 1998, named 1997"]
    _, funnel = gold_table([make_data(rows, variables="AB")], RULES)
    assert funnel.notes == ["ivs A, B, country 170: wave 3 pools 1997, 1998, named 1997"]


def test_a_year_is_named_by_the_answers_of_the_item():
    rows = [
        *rows_of(wave=3, year=1997, n=8, A=1, B=None),
        *rows_of(wave=3, year=1998, n=7, A=1, B=1),
        *rows_of(wave=4, year=1997, n=6, A=2, B=0),
        *rows_of(wave=4, year=2001, n=5, A=2, B=0),
    ]
    gold, funnel = gold_table([make_data(rows, variables="AB")], RULES)
    years = [(r["variable"], r["wave"], r["year"]) for r in gold.to_pylist()]
    assert years == [("A", 3, 1997), ("A", 4, 2001), ("B", 4, 1997), ("B", 3, 1998)]
    assert sum("already names an earlier wave" in note for note in funnel.notes) == 1


def test_reasons_of_the_reader_add_up_in_the_funnel():
    rows = [
        *rows_of(wave=3, n=20),
        *rows_of(wave=3, n=6, A=None),
        *rows_of(wave=2, n=50, A=None),
    ]
    missing = pa.table(
        {
            "variable": ["A"] * 4,
            "country": ["8", "8", "8", None],
            "study": pa.nulls(4, pa.string()),
            "wave": pa.array([3, 3, 2, 3], pa.int16()),
            "year": pa.array([2000] * 4, pa.int16()),
            "reason": ["don't know", "off scale", "don't know", "don't know"],
            "count": [3, 2, 50, 7],
        }
    )
    _, funnel = gold_table([make_data(rows, missing=missing)], RULES)
    steps = dict(funnel.steps)
    assert steps["answers asked for"] == 26
    reasons = {k: v for k, v in steps.items() if k.startswith("missing: ")}
    assert reasons == {
        "missing: don't know": 3,
        "missing: off scale": 2,
        "missing: no reason given": 1,
    }
    assert steps["answers asked for"] - sum(reasons.values()) == steps["valid answers"]
    order = list(steps)
    assert order.index("answers asked for") < order.index("missing: don't know")
    assert order.index("missing: don't know") < order.index("valid answers")


def test_fieldwork_years_stand_beside_the_module_year():
    rows = [
        *rows_of(year=1998, n=6, fieldwork_year=1999),
        *rows_of(year=1998, n=4, fieldwork_year=1998),
        *rows_of("12", year=1998, n=6, fieldwork_year=None),
    ]
    gold, _ = gold_table([make_data(rows)], RULES)
    assert gold["fieldwork_year"].to_pylist() == [1999, None]
    assert gold["year"].to_pylist() == [1998, 1998]


@pytest.fixture(scope="module")
def designed():
    rng = np.random.default_rng(6)
    rows = []
    for country in ("1", "2", "3"):
        for i in range(60):
            rows.append(
                {
                    "country": country,
                    "year": 2010,
                    "weight": [0.5, 1.0, 2.0, 0.0][i % 4] if country != "3" else None,
                    "stratum": i // 20,
                    "psu": i // 5,
                    "A": int(rng.integers(1, 5)) if i % 7 else None,
                    "B": 1,
                }
            )
    return rows


def test_errors_follow_strata_and_units(designed):
    gold, _ = gold_table([make_data(designed, variables="AB")], RULES)
    for row in gold.to_pylist():
        own = [r for r in designed if r["country"] == row["country"]]
        weights = [1.0 if r["weight"] is None else r["weight"] for r in own]
        columns = (weights, [r["stratum"] for r in own], [r["psu"] for r in own])
        codes, options = [r[row["variable"]] for r in own], SCALES[row["variable"]]
        for k, option in enumerate(options):
            share, error = share_and_error(codes, option, options, *columns)
            assert row["probs"][k] == pytest.approx(share, abs=1e-12)
            assert row["standard_errors"][k] == pytest.approx(error, abs=1e-12)
        if row["variable"] == "B":
            assert row["n_eff_design"] is None
        else:
            simple = sum(p * (1 - p) for p in row["probs"]) / (row["n_valid"] - 1)
            effect = sum(e * e for e in row["standard_errors"]) / simple
            assert row["n_eff_design"] == pytest.approx(row["n_valid"] / effect)


def test_cells_of_unknown_design_have_no_errors(designed):
    rows = [
        {**row, "psu": None if row["country"] == "2" and row["psu"] == 3 else row["psu"]}
        for row in designed
    ]
    gold, funnel = gold_table([make_data(rows)], RULES)
    assert [e is None for e in gold["standard_errors"].to_pylist()] == [False, True, False]
    (note,) = (note for note in funnel.notes if "standard errors" in note)
    assert "country 2: time point" in note
    assert [e is None for e in gold["n_eff_design"].to_pylist()] == [False, True, False]
    strata_alone, _ = gold_table(
        [make_data([{k: v for k, v in row.items() if k != "psu"} for row in designed])], RULES
    )
    assert strata_alone["standard_errors"].null_count == 0


def test_empty_columns_of_a_design_are_no_design(designed):
    empty = [{**row, "stratum": None, "psu": None} for row in designed]
    gold, funnel = gold_table([make_data(empty)], RULES)
    assert gold["standard_errors"].null_count == len(gold)
    assert not any("standard errors" in note for note in funnel.notes)


def test_rows_that_do_not_enter_change_nothing(designed):
    extra = [
        {**designed[0], "country": None},
        {**designed[0], "year": None},
        {**designed[0], "country": None, "psu": None},
    ]
    alone, _ = gold_table([make_data(designed)], RULES)
    among, _ = gold_table([make_data([extra[0], *designed, *extra[1:]])], RULES)
    assert alone.equals(among)


def test_several_sources_keep_their_order():
    one = make_data(rows_of(n=10), variables="A", survey="wvs")
    two = make_data(rows_of("DE-E", n=10, B=1), variables="B", survey="gss")
    gold, funnel = gold_table([two, one], RULES)
    assert gold["survey"].to_pylist() == ["gss", "wvs"]
    assert funnel.steps["rows read"] == 20
