"""Survey files become microdata by rules that are declared, and everything odd is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import chronocore as cc
from chronocore.config import Rules, Source, parse_config
from chronocore.errors import ConfigurationError, SourceError
from chronocore.gold import gold_table
from chronocore.sources import join_sources, survey_microdata

pyreadstat = pytest.importorskip("pyreadstat")

IMPORTANT = {
    1: "Very important",
    2: "Rather important",
    3: "Not very important",
    4: "Not at all important",
}
MISSING = {-1: "Don't know", -2: "No answer", -4: "Not asked"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def wvs(n=40, **columns):
    """A small file in the structure of the WVS time series."""
    base = {
        "S007": list(range(n)),
        "S002VS": [3] * (n // 2) + [7] * (n // 2),
        "S003": [8, 276] * (n // 2),
        "S020": [1998] * (n // 2) + [2018] * (n // 2),
        "S017": [1.0] * n,
        "A001": [1, 2, 3, 4] * (n // 4),
    }
    return pl.DataFrame(base | columns)


def sav(path, frame, **options):
    options.setdefault("variable_value_labels", {"A001": IMPORTANT | MISSING})
    pyreadstat.write_sav(frame, str(path), **options)
    return str(path)


def dta(path, frame, **options):
    pyreadstat.write_dta(frame, str(path), **options)
    return str(path)


def counts(data, variable):
    """Missing answers by reason."""
    rows = data.missing.filter(
        [v == variable for v in data.missing["variable"].to_pylist()]
    ).to_pylist()
    found = {}
    for row in rows:
        found[row["reason"]] = found.get(row["reason"], 0) + row["count"]
    return found


def answers(data, variable="A001"):
    return data.respondents[variable].to_pylist()


def read(path="x.sav", preset="wvs-timeseries", **settings):
    return survey_microdata(path, preset=preset, **settings)


# -- codes and reasons -----------------------------------------------------------------------------


def test_negative_codes_are_never_answers_and_are_counted_by_reason():
    values = [1, 2, 3, 4, -1, -2, -3, -4, -5, -77] * 4
    sav("x.sav", wvs(A001=values))
    data = read()
    assert answers(data) == [v if v > 0 else None for v in values]
    assert counts(data, "A001") == {
        "don't know": 4,
        "no answer": 4,
        "not applicable": 4,
        "not asked": 4,
        "other missing": 8,
    }


def test_missing_and_valid_answers_add_up_to_the_rows():
    values = [1, 2, None, 9, -1, 4, 0, 2.5] * 5
    sav("x.sav", wvs(A001=pl.Series(values, dtype=pl.Float64)))
    data = read()
    valid = sum(a is not None for a in answers(data))
    assert counts(data, "A001") == {
        "no value in the file": 5,
        "not on the scale": 15,
        "don't know": 5,
    }
    assert valid + sum(counts(data, "A001").values()) == 40
    assert any(
        "A001: codes that are neither options nor declared missing, left out: 0 (5 answers), 2.5 "
        "(5 answers), 9 (5 answers)" in note
        for note in data.notes
    )


def test_codes_beside_the_scale_stay_out_of_it():
    frame = wvs().with_columns(G006=pl.Series([1, 2, 3, 4, 5] * 8))
    sav("x.sav", frame)
    data = read(variables=["G006"])
    (item,) = data.items
    assert [option.code for option in item.options] == [1, 2, 3, 4]
    assert counts(data, "G006") == {"off scale": 8}


def test_an_order_that_is_not_that_of_the_codes_comes_from_the_catalog():
    sav("x.sav", wvs().with_columns(C001=pl.Series([1, 2, 3, 1] * 10)))
    (item,) = read(variables=["C001"]).items
    assert [(option.code, option.label) for option in item.options] == [
        (1, "Agree"),
        (3, "Neither"),
        (2, "Disagree"),
    ]
    assert item.positions == (1.0, 2.0, 3.0)


def test_what_the_file_declares_missing_is_missing():
    sav(
        "x.sav",
        wvs(A001=[1, 2, 3, 4, -1, 8, 9, 99] * 5),
        variable_value_labels={"A001": IMPORTANT | {8: "Can't choose", 9: "Lost"}},
        missing_ranges={"A001": [{"lo": 8, "hi": 9}, 99]},
    )
    assert counts(read(), "A001") == {
        "don't know": 10,
        "declared missing in the file": 10,
    }


def test_an_option_that_the_file_declares_missing_is_a_contradiction():
    sav("x.sav", wvs(), missing_ranges={"A001": [4]})
    with pytest.raises(SourceError, match="'Not at all important' and declared missing"):
        read()
    data = read(labels="flag")
    assert 4 not in answers(data)
    assert any("declared missing" in note for note in data.notes)


def test_stata_letters_are_reasons_and_numbers_stay_numbers():
    import pandas

    frame = wvs().to_pandas()
    frame["A001"] = pandas.Series([1, "a", 3, "b", "d", "z", None, 2] * 5, dtype=object)
    pyreadstat.write_dta(
        frame, "x.dta", version=15, missing_user_values={"A001": ["a", "b", "d", "z"]}
    )
    data = read("x.dta")
    assert answers(data)[:8] == [1, None, 3, None, None, None, None, 2]
    assert counts(data, "A001") == {
        "don't know": 5,
        "no answer": 5,
        "not asked": 5,
        "missing .z": 5,
        "no value in the file": 5,
    }


def test_a_code_has_one_reason_whatever_its_label_says():
    frame = wvs().with_columns(
        A002=pl.Series([1, 2, -4, 4] * 10), A001=pl.Series([1, 2, -4, 4] * 10)
    )
    sav(
        "x.sav",
        frame,
        variable_value_labels={
            "A001": IMPORTANT | {-4: "Refused"},
            "A002": IMPORTANT | {-4: "Not asked"},
        },
    )
    data = read()
    assert counts(data, "A001") == counts(data, "A002") == {"not asked": 10}


def test_missing_codes_can_be_declared_and_taken_back():
    frame = wvs(A001=[1, 2, 7, 0] * 10)
    sav("x.sav", frame)
    data = read(missing={"lost": [7], "not asked": ["-1..0"]})
    assert counts(data, "A001") == {"lost": 10, "not asked": 10}
    with pytest.raises(ConfigurationError, match=r"7 has two reasons, 'lost' and 'gone'"):
        read(missing={"lost": [7], "gone": [7]})
    with pytest.raises(ConfigurationError, match="runs backwards"):
        read(missing={"lost": ["5..1"]})
    with pytest.raises(ConfigurationError, match="'x' of 'lost' is no missing code"):
        read(missing={"lost": ["x"]})


def test_text_answers_are_matched_by_their_labels():
    words = ["Very important", "rather IMPORTANT", "3", "Don't know", "", "No answer"] * 6
    wvs(36, A001=words).write_csv("x.csv")
    data = read("x.csv")
    assert answers(data)[:6] == [1, 2, 3, None, None, None]
    assert counts(data, "A001") == {
        "don't know": 6,
        "no answer": 6,
        "no value in the file": 6,
    }
    wvs(36, A001=["Very important", "Purple"] * 18).write_csv("y.csv")
    with pytest.raises(SourceError, match=r"y\.csv, column A001, row 2: 'Purple' is no answer"):
        read("y.csv")


# -- time, place and weight ------------------------------------------------------------------------


def test_the_wave_column_decides_and_negative_years_are_missing():
    frame = wvs(S020=[1998, -3, -4, -5, 2004, 1999, 19991231, 1998] * 5)
    sav("x.sav", frame)
    data = read()
    assert data.respondents["year"].to_pylist()[:8] == [
        1998, None, None, None, 2004, 1999, 1999, 1998,
    ]  # fmt: skip
    assert data.respondents["wave"].to_pylist() == frame["S002VS"].to_list()
    sav("y.sav", wvs(S020=[12] * 40))
    with pytest.raises(SourceError, match=r"S020, row 1: 12 is no year.*\[sources.year_codes\] 12"):
        read("y.sav")


def test_a_file_without_its_wave_column_is_refused():
    sav("x.sav", wvs().drop("S002VS"))
    with pytest.raises(SourceError, match=r"x\.sav does not have what wvs-timeseries needs: wave"):
        read()
    sav("y.sav", wvs().rename({"S002VS": "wave_no"}))
    assert read("y.sav", columns={"wave": "WAVE_NO"}).respondents["wave"].to_pylist()[0] == 3


def test_unknown_and_negative_country_codes():
    sav("x.sav", wvs(S003=[8, 9999, -4, 276] * 10))
    data = read()
    assert data.respondents["country"].to_pylist()[:4] == ["8", "9999", None, "276"]
    assert data.respondents["country_name"].to_pylist()[:2] == ["Albania", None]
    _, funnel = gold_table([data], Rules(min_respondents=1, newest="latest"))
    assert any("9999" in note for note in funnel.notes)


def test_former_states_and_samples_stay_apart_until_merged():
    sav("x.sav", wvs(S003=[276, 278, 280, 900] * 10))
    assert set(read().respondents["country"].to_pylist()) == {"276", "278", "280", "900"}
    data = read(merge={"276": ["278", "280", "900"]})
    assert set(data.respondents["country"].to_pylist()) == {"276"}
    assert sum("is taken as 276 (10 rows), as declared" in note for note in data.notes) == 3


def test_alphabetic_samples_under_one_number_stay_apart():
    alpha = ["GB-GBN", "GB-NI", "DE-E", "DE-W"] * 10
    frame = wvs(S003=[826, 826, 276, 276] * 10, COUNTRY_ALPHA=alpha)
    sav("x.sav", frame)
    data = read()
    assert data.respondents["country"].to_pylist()[:4] == ["GB-GBN", "GB-NIR", "DE-E", "DE-W"]
    assert sum("holds the samples" in note for note in data.notes) == 2
    one = frame.with_columns(S003=pl.lit(826), COUNTRY_ALPHA=pl.lit("GB-GBN"))
    sav("y.sav", one)
    assert set(read("y.sav").respondents["country"].to_pylist()) == {"826"}


def test_countries_by_name_become_one_code_and_say_so():
    names = ["Viet Nam", "Vietnam", "Atlantis", "Türkiye"] * 10
    wvs(S003=names).write_csv("x.csv")
    data = read("x.csv")
    assert data.respondents["country"].to_pylist()[:4] == ["704", "704", "Atlantis", "792"]
    assert any("names countries without codes" in note for note in data.notes)


def test_countries_and_waves_can_be_chosen():
    sav("x.sav", wvs())
    assert len(read(countries=["8"]).respondents) == 20
    assert set(read(exclude_countries=["8.0"]).respondents["country"].to_pylist()) == {"276"}
    seventh = read(waves=[7])
    assert set(seventh.respondents["wave"].to_pylist()) == {7}
    assert any("20 rows outside the waves and countries asked for" in n for n in seventh.notes)
    assert seventh.provenance["files"][0]["rows_taken"] == 20
    with pytest.raises(SourceError, match=r"no row in the waves.*countries 276, 8.*\[3, 7\]"):
        read(waves=[4])


def test_weights_are_chosen_by_time_point_and_named():
    frame = wvs(
        S017=[0.0] * 20 + [2.0] * 20,
        S018=[None] * 10 + [1.5] * 10 + [9.0] * 20,
    )
    sav("x.sav", frame)
    data = read(weight=["S017", "S018"])
    people = pl.from_arrow(data.respondents.select(["wave", "weight", "weight_name"]))
    assert people.filter(pl.col("wave") == 7)["weight_name"].unique().to_list() == ["S017"]
    third = people.filter(pl.col("wave") == 3)
    assert third["weight_name"].unique().to_list() == ["S018"]
    assert third["weight"].null_count() == 10
    assert data.weight == "S017, S018"
    none = read(weight="none")
    assert none.weight is None
    assert "weight" not in none.respondents.column_names
    with pytest.raises(SourceError, match=r'no weight column PWGHT.*weight = "none"'):
        read(weight="PWGHT")


def test_a_time_point_without_weights_is_unweighted_and_says_so():
    sav("x.sav", wvs(S017=[None] * 20 + [2.0] * 20))
    gold, funnel = gold_table([read()], Rules(min_respondents=1, newest="latest"))
    rows = {(r["country"], r["wave"]): r["weight"] for r in gold.to_pylist()}
    assert rows == {("8", 3): None, ("8", 7): "S017", ("276", 3): None, ("276", 7): "S017"}
    assert any("unweighted" in note for note in funnel.notes)


def test_repeated_respondents_are_reported_and_dropped_only_when_asked():
    ids = [858069901, *range(1, 40)]
    ids[2] = ids[4] = 858069901
    sav("x.sav", wvs(S007=ids, S003=[8] * 40))
    data = read()
    assert len(data.respondents) == 40
    (note,) = [n for n in data.notes if "more than once" in n]
    assert "1 respondent ids occur more than once (2 rows repeat one)" in note
    assert "858069901 (country 8, wave 3, year 1998)" in note
    assert data.provenance["files"][0]["duplicate_respondents"] == 2
    assert len(read(duplicates="drop").respondents) == 38


def test_strata_and_sampling_units_are_carried_along():
    frame = wvs(stratum=["a", "b"] * 20, psu=[11, None, -4, 14] * 10)
    sav("x.sav", frame)
    people = read(columns={"stratum": "stratum", "psu": "PSU"}).respondents
    assert people["psu"].to_pylist()[:4] == [11, None, None, 14]
    a, b = people["stratum"].to_pylist()[:2]
    assert a != b
    assert people["stratum"].to_pylist() == [a, b] * 20


# -- labels ----------------------------------------------------------------------------------------


def test_a_scale_that_runs_the_other_way_stops_until_it_is_declared():
    backwards = dict(zip(IMPORTANT, reversed(IMPORTANT.values()), strict=True))
    sav("x.sav", wvs(), variable_value_labels={"A001": backwards})
    with pytest.raises(SourceError) as caught:
        read()
    message = str(caught.value)
    assert (
        "A001 in x.sav: code 1 is labelled 'Not at all important' and should be 'Very important'"
        in message
    )
    assert "the scale runs the other way" in message
    data = read(reverse=["A001"])
    assert answers(data)[:4] == [4, 3, 2, 1]
    flagged = read(labels="flag")
    assert answers(flagged)[:4] == [1, 2, 3, 4]
    assert sum("runs the other way" in note for note in flagged.notes) == 4


def test_a_label_that_differs_between_files_stops_with_both():
    sav("a.sav", wvs(20).with_columns(S002VS=pl.lit(3)))
    other = IMPORTANT | {3: "Somewhat purple"}
    sav("b.sav", wvs(20).with_columns(S002VS=pl.lit(7)), variable_value_labels={"A001": other})
    with pytest.raises(
        SourceError,
        match=r"A001 in b\.sav: code 3 is labelled 'Somewhat purple'.*'Not very important'",
    ):
        read(["a.sav", "b.sav"])


def test_labels_of_several_files_are_held_against_each_other():
    for year, (name, labels) in enumerate(
        (
            ("a.sav", {1: "Yes", 2: "No"}),
            ("b.sav", {1: "No", 2: "Yes"}),
            ("c.sav", {1: "Yes", 2: "No", 3: "Maybe so"}),
        ),
        start=2000,
    ):
        frame = pl.DataFrame({"country": [8] * 4, "year": [year] * 4, "q": [1, 2, 1, 2]})
        sav(name, frame, variable_value_labels={"q": labels}, column_labels={"q": "Is it so?"})
    settings = {"preset": "generic", "variables": ["q"]}
    with pytest.raises(
        SourceError, match=r"q in b\.sav: code 1 is labelled 'No' and should be 'Yes'"
    ):
        read(["a.sav", "b.sav"], **settings)
    data = read(["a.sav", "c.sav"], **settings)
    assert [o.label for o in data.items[0].options] == ["Yes", "No", "Maybe so"]


def test_an_answer_the_catalog_does_not_know_stops():
    sav("x.sav", wvs(), variable_value_labels={"A001": IMPORTANT | {5: "Beyond importance"}})
    with pytest.raises(SourceError, match="'Beyond importance', which is no option"):
        read()


def test_an_option_at_one_time_point_only_is_flagged_and_keeps_its_place():
    sav("x.sav", wvs(A001=[1, 2] * 10 + [1, 2, 3, 2] * 5))
    data = read()
    assert any("options that occur once: 3 (Not very important) only in 7" in n for n in data.notes)
    gold, _ = gold_table([data], Rules(min_respondents=1, newest="latest"))
    assert {len(row["probs"]) for row in gold.to_pylist()} == {4}


def test_unconfirmed_codes_need_labels_or_a_declaration():
    ends = {
        1: "People should take more responsibility",
        10: "The government should take more responsibility",
    }
    frame = wvs().with_columns(E037=pl.Series([1, 10, 5, 7] * 10))
    sav("x.sav", frame)
    data = read()
    assert [item.variable for item in data.items] == ["A001"]
    assert any("left out: E037" in note for note in data.notes)
    assert [i.variable for i in read(confirmed=["E037"]).items] == ["A001", "E037"]
    sav("y.sav", frame, variable_value_labels={"E037": ends})
    assert [i.variable for i in read("y.sav").items] == ["A001", "E037"]
    turned = {1: ends[10], 10: ends[1]}
    sav("z.sav", frame, variable_value_labels={"E037": turned})
    assert [i.variable for i in read("z.sav").items] == ["A001"]


# -- items from labels -----------------------------------------------------------------------------


def opinion(labels, values, **options):
    frame = pl.DataFrame(
        {
            "country": [752] * len(values),
            "year": [1999, 2009] * (len(values) // 2),
            "WEIGHT": [1.0] * len(values),
            "V5": values,
        }
    )
    options.setdefault("column_labels", {"V5": "Q3 Differences are too large"})
    return sav("ZA8790.sav", frame, variable_value_labels={"V5": labels}, **options)


AGREE = {
    1: "1. Strongly agree",
    2: "2. Agree",
    3: "3. Neither agree nor disagree",
    4: "4. Disagree",
    5: "5. Strongly disagree",
    8: "8. Can't choose",
    9: "9. No answer",
}


def test_value_labels_make_items_without_their_missing_codes():
    opinion(AGREE, [1, 2, 3, 4, 5, 8, 9, 0] * 5)
    data = read("ZA8790.sav", preset="issp-social-inequality", variables=["v5"])
    (item,) = data.items
    assert item.variable == "ZA8790_V5"
    assert item.survey == "issp"
    assert item.text == "Q3 Differences are too large"
    assert item.topic_broad == "Social inequality, work, and economic values"
    assert [o.label for o in item.options] == [
        "Strongly agree", "Agree", "Neither agree nor disagree", "Disagree", "Strongly disagree",
    ]  # fmt: skip
    assert counts(data, "ZA8790_V5") == {"don't know": 5, "no answer": 5, "not applicable": 5}
    assert (
        read("ZA8790.sav", preset="issp-social-inequality", variables=["ZA8790_V5"]).items
        == data.items
    )


def test_points_between_labelled_ends_belong_to_the_scale():
    opinion({0: "Not at all", 10: "Completely", 77: "Refusal"}, [0, 3, 7, 10, 77, 10] * 4)
    data = read("ZA8790.sav", preset="issp-social-inequality", variables=["V5"])
    # 0 is an answer by its label, whatever the survey uses it for; 1 is a point nobody chose.
    assert [(o.code, o.label) for o in data.items[0].options] == [
        (0, "Not at all"), *((c, str(c)) for c in range(1, 10)), (10, "Completely"),
    ]  # fmt: skip
    assert counts(data, "ZA8790_V5") == {"refused": 4}
    assert any("points without a label, between labelled ones: 1-9" in n for n in data.notes)
    assert any("0 ('Not at all') is an answer by its label" in n for n in data.notes)


def test_a_doubtful_order_stops_until_it_is_declared_or_confirmed():
    opinion({1: "Yes", 2: "No", 3: "It depends"}, [1, 2, 3, 1] * 5)
    settings = {"preset": "issp-social-inequality", "variables": ["V5"]}
    with pytest.raises(SourceError, match=r"'It depends' stands at an end of the scale"):
        read("ZA8790.sav", **settings)
    data = read("ZA8790.sav", **settings, confirmed=["V5"])
    assert [o.code for o in data.items[0].options] == [1, 2, 3]
    assert any("'It depends' stands at an end of the scale" in note for note in data.notes)
    data = read("ZA8790.sav", **settings, order={"V5": [1, 3, 2]})
    assert [o.code for o in data.items[0].options] == [1, 3, 2]
    assert data.items[0].positions == (1.0, 2.0, 3.0)
    with pytest.raises(ConfigurationError, match=r"order\] ZA8790_V5 = \[1, 3\] does not list"):
        read("ZA8790.sav", **settings, order={"V5": [1, 3]})


def test_questions_are_named_and_can_be_worded():
    opinion(AGREE, [1, 2] * 5, column_labels={})
    settings = {"preset": "issp-social-inequality", "variables": ["V5"]}
    with pytest.raises(SourceError, match="ZA8790_V5 has no wording"):
        read("ZA8790.sav", **settings)
    Path("words.csv").write_text("variable,text\nV5,Are differences too large?\n")
    (item,) = read("ZA8790.sav", **settings, questionnaire="words.csv").items
    assert item.text == "Are differences too large?"
    assert "questionnaire words.csv" in item.source
    with pytest.raises(ConfigurationError, match="name the questions to use with variables"):
        read("ZA8790.sav", preset="issp-social-inequality")
    with pytest.raises(SourceError, match=r"no column V6; nearest: V5"):
        read("ZA8790.sav", preset="issp-social-inequality", variables=["V6"])
    with pytest.raises(ConfigurationError, match="twice in variables"):
        read("ZA8790.sav", preset="issp-social-inequality", variables=["V5", "v5"])


def test_a_question_without_labels_needs_a_catalog():
    frame = pl.DataFrame({"country": [8] * 4, "year": [2000] * 4, "q": [1, 2, 3, 9]})
    with pytest.raises(SourceError, match=r"frame, q has no value labels.*item catalog"):
        survey_microdata(frame, variables=["q"])
    Path("items.csv").write_text(
        "variable,text,code,label,off_scale\n"
        "q,Is it so?,1,Yes,\nq,Is it so?,3,Hardly,\nq,Is it so?,9,Other,yes\n"
    )
    data = survey_microdata(frame, items="items.csv")
    assert answers(data, "q") == [1, None, 3, None]
    assert counts(data, "q") == {"off scale": 1, "not on the scale": 1}
    Path("items.toml").write_text(
        '[[items]]\nvariable = "q"\ntext = "Is it so?"\n'
        'options = [{ code = 1, label = "Yes" }, { code = 3, label = "Hardly" },\n'
        '  { code = 9, label = "Other", off_scale = true }]\n'
    )
    assert answers(survey_microdata(frame, items="items.toml"), "q") == [1, None, 3, None]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("variable,code,label\nq,1,Yes\n", r"q has 1 option\(s\)"),
        ("variable,code,label\nq,1,Yes\nq,1,No\n", "code 1 is listed twice"),
        ("variable,code,label\nq,2,Yes\nq,1,No\n", "order of the scale"),
        ("variable,code,label\nq,x,Yes\nq,1,No\n", "code 'x' is no integer"),
        ("variable,kode,label\nq,1,Yes\nq,2,No\n", "no column code"),
        ("variable,code,label,postion\nq,1,Yes,\nq,2,No,\n", "did you mean 'position'"),
        ("variable,code,label\nq,1,Yes\nr,1,a\nr,2,b\nq,2,No\n", "has 1 option"),
        ("variable,code,label,status\nq,1,Yes,sure\nq,2,No,sure\n", "status 'sure'"),
        ("variable,code,label\nq,1\n", "row 2 does not have one value"),
        ("variable,code,label\n", "lists no item"),
    ],
)
def test_catalogs_that_contradict_themselves_are_refused(rows, message):
    Path("items.csv").write_text(rows)
    with pytest.raises(ConfigurationError, match=message):
        survey_microdata(wvs(), items="items.csv")


# -- several files, several sources ----------------------------------------------------------------


def test_files_of_one_survey_are_put_together():
    sav("a.sav", wvs(20).with_columns(S002VS=pl.lit(3), A002=pl.lit(1)))
    wvs(20).with_columns(S002VS=pl.lit(7)).write_csv("b.csv")
    data = read(["a.sav", "b.csv"])
    assert len(data.respondents) == 40
    assert data.respondents["A002"].to_pylist() == [1] * 20 + [None] * 20
    assert counts(data, "A002") == {"not in the file": 20}
    with pytest.raises(SourceError, match=r"a\.sav, a\.sav are the same file"):
        read(["a.sav", "a.sav"])


def test_one_of_three_files_that_cannot_be_read_stops_and_is_named():
    sav("a.sav", wvs())
    sav("b.sav", wvs().with_columns(A001=pl.lit(1)))
    Path("c.sav").write_bytes(b"$FL2 nothing of use")
    with pytest.raises(SourceError, match=r"c\.sav"):
        read(["a.sav", "b.sav", "c.sav"])


def wave7(n=40, **columns):
    base = {
        "D_INTERVIEW": list(range(n)),
        "A_WAVE": [7] * n,
        "A_YEAR": [2018] * n,
        "B_COUNTRY": [8, 276] * (n // 2),
        "B_COUNTRY_ALPHA": ["ALB", "DEU"] * (n // 2),
        "W_WEIGHT": [0.5] * n,
        "Q1": [1, 2, 3, 4] * (n // 4),
        "Q8": [1, 2, -1, 2] * (n // 4),
    }
    return pl.DataFrame(base | columns)


def test_wave_7_takes_the_names_and_codes_of_the_time_series():
    frame = wave7(Q1P=[4] * 40)
    frame.write_csv("w7.csv")
    data = read("w7.csv", preset="wvs-wave7")
    assert [item.variable for item in data.items] == ["A001", "A029"]
    assert answers(data, "A029")[:4] == [1, 0, None, 0]
    assert answers(data, "A001") == frame["Q1"].to_list()
    only = wave7().rename({"Q1": "Q1P"})
    only.write_csv("w7p.csv")
    data = read("w7p.csv", preset="wvs-wave7")
    assert [item.variable for item in data.items] == ["A029"]


def test_sources_that_share_questions_are_joined_and_never_counted_twice():
    sav("ts.sav", wvs(A029=[0, 1] * 20))
    wave7().write_csv("w7.csv")
    series, seventh = read("ts.sav"), read("w7.csv", preset="wvs-wave7")
    with pytest.raises(
        SourceError, match=r"wvs A0\d\d: country \d+, wave 7 is in ts\.sav and in w7\.csv"
    ):
        join_sources([series, seventh])
    (joined,) = join_sources([read("ts.sav", waves=[3]), seventh])
    assert len(joined.respondents) == 60
    assert joined.weight == "S017, W_WEIGHT"
    gold, funnel = gold_table([joined], Rules(min_respondents=1))
    used = {(r["wave"], r["weight"]) for r in gold.to_pylist()}
    assert used == {(3, "S017"), (7, "W_WEIGHT")}
    asked, valid = funnel.steps["answers asked for"], funnel.steps["valid answers"]
    missing = sum(n for step, n in funnel.steps.items() if step.startswith("missing: "))
    assert asked - valid == missing == 10


def test_sources_that_disagree_about_a_question_are_refused():
    first = survey_microdata(wvs(), preset="wvs-timeseries")
    Path("other.csv").write_text(
        "variable,text,code,label\nA001,?,1,Very important\nA001,?,2,Rather important\n"
    )
    other = survey_microdata(wvs(), preset="wvs-timeseries", items="other.csv")
    with pytest.raises(SourceError, match=r"wvs A001 has the codes \[1, 2, 3, 4\] in"):
        join_sources([first, other])
    rows = "".join(f"A001,?,{code},Grade {code}\n" for code in range(1, 5))
    Path("other.csv").write_text("variable,text,code,label\n" + rows)
    other = survey_microdata(wvs(), preset="wvs-timeseries", items="other.csv")
    with pytest.raises(SourceError, match=r"code 1 is 'Very important' in.*'Grade 1' in"):
        join_sources([first, other])


def test_sources_that_share_nothing_stay_apart():
    first = survey_microdata(wvs(), preset="wvs-timeseries")
    other = survey_microdata(
        wvs().with_columns(A002=pl.col("A001")), preset="wvs-timeseries", variables=["A002"]
    )
    assert join_sources([first, other]) == [first, other]


def test_the_integrated_file_keeps_its_studies_apart():
    frame = (
        wvs()
        .rename({"S002VS": "s002vs"})
        .with_columns(
            S001=pl.Series([1, 2] * 20, dtype=pl.Int64),
            S002EVS=pl.Series([5, -4] * 20, dtype=pl.Int64),
        )
    )
    sav("ivs.sav", frame)
    people = read("ivs.sav", preset="ivs").respondents
    assert people["study"].to_pylist()[:2] == ["evs", "wvs"]
    assert people["wave"].to_pylist()[:2] == [5, 3]
    sav("bad.sav", frame.with_columns(S001=pl.lit(3)))
    with pytest.raises(SourceError, match=r"study 3 is none of 1 \(evs\), 2 \(wvs\)"):
        read("bad.sav", preset="ivs")


# -- whole studies ---------------------------------------------------------------------------------


def population(n=1200):
    rng = np.random.default_rng(5)
    wave = np.where(np.arange(n) < n // 2, 3, 7)
    code = rng.integers(1, 5, n)
    code[rng.random(n) < 0.1] = -1
    return pl.DataFrame(
        {
            "S007": np.arange(n),
            "S002VS": wave,
            "S003": np.full(n, 752),
            "S020": np.where(wave == 3, 1996, 2019),
            "S017": np.round(rng.random(n) + 0.5, 3),
            "A001": code,
            "F118": rng.integers(1, 11, n),
        }
    )


def test_every_format_gives_identical_gold(tmp_path):
    frame = population()
    pyreadstat.write_sav(frame, "p.sav", row_compress=True)
    pyreadstat.write_sav(frame, "p.zsav", compress=True)
    pyreadstat.write_dta(frame, "p.dta", version=15)
    frame.write_csv("p.csv")
    frame.write_parquet("p.parquet")
    frame.write_ipc("p.arrow")
    tables = []
    for name in ("p.sav", "p.zsav", "p.dta", "p.csv", "p.parquet", "p.arrow"):
        result = cc.build(f"study-{name}", preset="wvs-timeseries", files=[name])
        tables.append(result.study.gold())
        assert result.weights == [
            {"survey": "wvs", "weight": "S017", "time_points": 4, "dropped": 0}
        ]
    config = cc.StudyConfig(sources=[Source(preset="wvs-timeseries", file="mine")])
    result = cc.build("study-frame", config=config, frames={"mine": frame})
    assert all(table.equals(result.study.gold()) for table in tables)


def test_a_study_is_described_by_its_own_file_and_can_be_built_again(tmp_path):
    (tmp_path / "data").mkdir()
    sav("data/x.sav", population())
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "wvs.toml").write_text(
        '[[sources]]\npreset = "wvs-timeseries"\nfile = "../data/x.sav"\nvariables = ["A001"]\n'
    )
    result = cc.build("studies/mine", config="plans/wvs.toml")
    written = parse_config((tmp_path / "studies/mine/study.toml").read_text())
    assert written.sources[0].file == "../../data/x.sav"
    assert result.funnel["pairs"] == 1
    again = cc.build("studies/mine")
    assert again.funnel == result.funnel
    cc.build("studies/mine", config="plans/wvs.toml")
    manifest = result.study.manifest()
    (source,) = manifest["sources"]
    (file,) = source["files"]
    assert file["file"] == "x.sav"
    assert len(file["sha256"]) == 64
    assert manifest["weights"] == result.weights
    assert str(tmp_path) not in (tmp_path / "studies/mine/manifest.json").read_text()


def test_nothing_is_written_unless_every_source_could_be_read(tmp_path):
    sav("x.sav", population())
    (tmp_path / "plan.toml").write_text(
        '[[sources]]\npreset = "wvs-timeseries"\nfile = "x.sav"\n'
        '[[sources]]\npreset = "gss"\nfile = "gss.dta"\nvariables = ["happy"]\n'
    )
    with pytest.raises(SourceError, match=r"there is no file .*gss\.dta"):
        cc.build("study", config="plan.toml")
    assert not (tmp_path / "study").exists()


def test_settings_that_do_not_exist_are_named():
    with pytest.raises(ConfigurationError, match="unknown setting 'wieght'; nearest: weight"):
        survey_microdata(wvs(), wieght="x")
    with pytest.raises(ConfigurationError, match=r"unknown key 'contry'.*'country'"):
        parse_config('[[sources]]\npreset="ess"\nfile="a"\n[sources.columns]\ncontry="x"\n')
    with pytest.raises(ConfigurationError, match="needs the data: file ="):
        parse_config('[[sources]]\npreset="ess"\n')
    with pytest.raises(ConfigurationError, match="takes only variables and core_only"):
        parse_config('[[sources]]\npreset="open-sample"\nfile="a"\n')
    with pytest.raises(ConfigurationError, match="no question A9; nearest"):
        survey_microdata(wvs(), preset="wvs-timeseries", variables=["A9"])
    with pytest.raises(SourceError, match="no column for A002"):
        survey_microdata(wvs(), preset="wvs-timeseries", variables=["A001", "A002"])


# -- values that are none --------------------------------------------------------------------------

TRUST = (
    "variable,text,topic,code,label\n"
    "q,How much?,T,1,A lot\nq,How much?,T,2,Some\nq,How much?,T,3,None\n"
)


def generic(frame, **settings):
    Path("trust.csv").write_text(TRUST)
    settings = {"items": "trust.csv", "weight": "none"} | settings
    return survey_microdata(frame, preset="generic", **settings)


def people(**columns):
    return pl.DataFrame({"country": ["SE"] * 4, "year": [2004] * 4, "q": [1, 2, 3, 1]} | columns)


def test_none_is_an_answer_where_the_catalog_has_it_and_na_is_none():
    data = generic(people(q=["None", "Some", "NA", "null"]))
    assert answers(data, "q") == [3, 2, None, None]
    assert counts(data, "q") == {"no value in the file": 2}


def test_namibia_is_a_country_among_codes_and_no_value_among_numbers_and_names():
    for countries, expected in (
        (["NA", "SE", "NA", "DE"], ["NA", "SE", "NA", "DE"]),
        (["NA", "752", "NA", "276"], [None, "752", None, "276"]),
        (["NA", "Sweden", "none", "Germany"], [None, "752", None, "276"]),
    ):
        assert generic(people(country=countries)).respondents["country"].to_pylist() == expected, (
            countries
        )


def test_a_country_written_in_several_ways_in_one_column_is_one():
    written = ["SE", "752", "Sweden", "SWE", "DE-E", "DE", "Germany", "DD", "??"]
    frame = pl.DataFrame({"country": written, "year": [2004] * 9, "q": [1] * 9})
    data = generic(frame)
    assert data.respondents["country"].to_pylist() == [
        "752", "752", "752", "752", "DE-E", "276", "276", "DD", "??",
    ]  # fmt: skip
    assert any("writes Sweden as 752, SE, SWE: one country, 752" in note for note in data.notes)


def test_numbers_without_end_are_no_codes_countries_or_weights():
    infinite = float("inf")
    frame = people(q=[1.0, infinite, -infinite, 2.0], weight=[1.0, 1.0, 1.0, infinite])
    data = generic(frame, weight="weight")
    assert answers(data, "q") == [1, None, None, 2]
    gold, _ = gold_table([data], Rules(min_respondents=1, newest="latest"))
    assert gold["probs"].to_pylist() == [[1.0, 0.0, 0.0]]
    assert gold["n_dropped_weight"].to_pylist() == [1]
    data = generic(people(country=[752.0, infinite, 752.5, 752.0]))
    assert data.respondents["country"].to_pylist() == ["752", None, None, "752"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"year": [2004.0, 2019.5, 2004.0, 2004.0]},
            "column year, row 2: 2019.5 is no whole number",
        ),
        ({"year": [2004.0, float("inf"), 1.0, 1.0]}, "column year, row 2: inf is no whole number"),
        ({"year": ["2004", "MMIV", "1", "1"]}, "column year, row 2: 'MMIV' is no whole number"),
        ({"year": [2004, 2004, 12, 12]}, "column year, row 3: 12 is no year"),
        ({"wave": [1, 2, 40_000, 1]}, "column wave, row 3: 40000 is no wave"),
        ({"wave": [1, 65_537, 1, 1]}, "column wave, row 2: 65537 is no wave"),
        ({"wave": [1.0, 2.0, 1.5, 1.0]}, "column wave, row 3: 1.5 is no whole number"),
        ({"wave": ["1", "2", "one", "1"]}, "column wave, row 3: 'one' is no whole number"),
        ({"w": ["1", "1", "high", "1"]}, "column w, row 3: the weight 'high' is no number"),
        ({"q": ["1", "2", "3", "banana"]}, "column q, row 4: 'banana' is no answer"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_row(columns, message):
    settings = {"weight": "w"} if "w" in columns else {}
    if "wave" in columns:
        settings["columns"] = {"wave": "wave"}
    with pytest.raises(SourceError, match=message):
        generic(people(**columns), **settings)


# -- nothing counts twice --------------------------------------------------------------------------


def test_the_same_respondents_in_two_formats_are_refused():
    sav("x.sav", wvs())
    dta("y.dta", wvs())
    wvs().write_csv("z.csv")
    for other in ("y.dta", "z.csv"):
        with pytest.raises(
            SourceError, match=rf"A001: country 276, wave 3 is in x\.sav and in {other}"
        ):
            read(["x.sav", other])
    # What is answered in one of them only does not count twice.
    sav("w.sav", wvs(A001=[-4] * 40))
    assert len(read(["x.sav", "w.sav"]).respondents) == 80


def test_a_file_without_any_question_of_the_catalog_names_what_was_looked_for():
    with pytest.raises(SourceError, match="no column for any question of the catalog: q"):
        generic(people().rename({"q": "other"}))


def test_where_no_time_point_is_large_enough_the_largest_and_the_reasons_are_told():
    frame = people(q=[1, 2, 9, 1], weight=[1.0, -1.0, 1.0, 1.0])
    data = generic(frame, weight="weight")
    with pytest.raises(
        SourceError,
        match=r"has 500 valid answers, the most are 2 \(survey q, country SE, year 2004\); of 4 "
        r"rows read: 1 answers missing: not on the scale; 1 valid answers dropped for their weight",
    ):
        gold_table([data], Rules())
    data = generic(
        people(wave=[1, 1, 2, 2], country=["SE", "SE", "SE", ""]), columns={"wave": "wave"}
    )
    with pytest.raises(
        SourceError,
        match=r"none has any; of 4 rows read: 1 rows without country, wave or year; 3 rows outside "
        r"the waves in use \(3, 4, 5, 6, 7\)",
    ):
        gold_table([data], Rules())
