# ruff: noqa: E501, PT012, RUF043
"""Every name in study.toml that matches nothing is refused, and every setting that is taken acts."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import chronocore as cc
from chronocore.config import Columns, Rules, Source, parse_config
from chronocore.errors import ChronocoreError, ConfigurationError, SourceError
from chronocore.gold import gold_table
from chronocore.sources import survey_microdata

CATALOG = (
    "variable,text,topic,code,label\n"
    "q,How much?,T,1,A lot\nq,How much?,T,2,Some\nq,How much?,T,3,Little\n"
    "r,And now?,T,1,Yes\nr,And now?,T,2,No\n"
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text(CATALOG)


def people(n=8, **columns):
    base = {
        "person": range(n),
        "country": ["SE", "CL"] * (n // 2),
        "year": [2004] * (n // 2) + [2019] * (n // 2),
        "w": [1.0] * n,
        "q": [1, 2, 3, 1] * (n // 4),
        "r": [1, 2] * (n // 2),
    }
    return pl.DataFrame(base | columns)


def read(frame=None, **settings):
    settings = {"items": "items.csv", "weight": "w"} | settings
    return survey_microdata(people() if frame is None else frame, **settings)


PRESET = 'name = "mine"\nsurvey = "mine"\nitems = "items.csv"\n[columns]\ncountry = "country"\n'


# -- every key of a source, with a name that matches nothing ----------------------------------------

REFUSED = {
    "preset": ({"preset": "gneric"}, "did you mean 'generic'"),
    "file": (None, "there is no file"),
    "survey": ({"survey": "Pulse"}, "survey 'Pulse' must be a lower-case key, for example 'pulse'"),
    "variables": ({"variables": ["qq"]}, "no question qq; nearest: q"),
    "items": ({"items": "item.csv"}, "there is no file item.csv"),
    "questionnaire": ({"questionnaire": "words.csv"}, "there is no file words.csv"),
    "country": ({"country": "SE", "columns": {"country": "country"}}, "keep one of them"),
    "weight": ({"weight": ["w", "ww"]}, "no column ww, named by weight; nearest: w"),
    "columns": ({"columns": {"respondent": "persn"}}, "persn.*nearest: person"),
    "missing": ({"missing": {"lost": ["x"]}}, "'x' of 'lost' is no missing code"),
    "year_codes": ({"year_codes": {"12": 2025}}, "year_codes names 12, .*column year.*2004, 2019"),
    "waves": ({"waves": [3], "columns": {"wave": "r"}}, "waves names 3.*it has 1, 2|no row in the"),
    "countries": ({"countries": ["SW"]}, "countries names SW, .*it has CL, SE"),
    "exclude_countries": ({"exclude_countries": ["Swedn"]}, "Swedn.*nearest: Sweden"),
    "merge": ({"merge": {"752": ["DE"]}}, "merge names DE, which the file does not have"),
    "order": ({"order": {"qq": [1, 2, 3]}}, "order names qq, which is no question.*nearest: q"),
    "reverse": ({"reverse": ["nosuch"]}, "reverse names nosuch"),
    "confirmed": ({"confirmed": ["rr"]}, "confirmed names rr, which is no question.*nearest: r"),
    "labels": ({"labels": "flagg"}, "'flagg'"),
    "duplicates": ({"duplicates": "drop"}, "needs the column that identifies"),
    "encoding": ({"encoding": "utf-9"}, "a frame has no encoding"),
    "core_only": ({"core_only": False}, "core_only is for the open sample"),
}


def test_every_key_of_a_source_is_here():
    assert set(REFUSED) == set(Source.__struct_fields__)


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_of_a_source_that_matches_nothing_is_refused(key):
    settings, message = REFUSED[key]
    with pytest.raises(ChronocoreError, match=message):
        if settings is None:
            survey_microdata("none.csv", items="items.csv")
        else:
            read(**settings)


@pytest.mark.parametrize("role", Columns.__struct_fields__)
def test_a_column_that_matches_nothing_is_refused(role):
    settings = {"columns": {role: "nosuch"}} | ({"weight": None} if role == "weight" else {})
    with pytest.raises(ChronocoreError, match="nosuch|columns.study does nothing here"):
        read(**settings)
    if role not in ("weight", "study"):
        with pytest.raises(ChronocoreError, match="nosuch"):
            read(columns={role: ["q", "nosuch"]})


@pytest.mark.parametrize(
    ("role", "message"),
    [("respondent", "persn"), ("stratum", "persn"), ("country_name", "persn"), ("psu", "persn")],
)
def test_a_column_of_a_preset_of_ones_own_that_matches_nothing_is_refused(role, message):
    Path("mine.toml").write_text(PRESET + f'year = "year"\n{role} = "persn"\n')
    with pytest.raises(SourceError, match=f"no column {message}, named by {role} of mine.toml"):
        survey_microdata(people(), preset="mine.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sources = []', "no .*sources"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\nvariables=[]', "variables is empty"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\ncountries=[]', "countries is empty"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\nwaves=[]', "waves is empty"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\nsurvey="Ü 2"', "must be a lower-case key"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\n[sources.year_codes]\n1 = 99999', "year_codes"),
        ('[[sources]]\npreset="generic"\nfile="a.csv"\n[sources.year_codes]\nx = 1999', "year_codes"),
    ],
)  # fmt: skip
def test_settings_that_cannot_act_are_refused(text, message):
    with pytest.raises(ConfigurationError, match=message):
        parse_config(text)


def test_weights_of_a_preset_and_none_stand_alone():
    with pytest.raises(ConfigurationError, match='"none" stands alone'):
        read(weight=["w", "none"])
    with pytest.raises(ConfigurationError, match="both name the weight"):
        read(weight="w", columns={"weight": "w"})


# -- settings that act ------------------------------------------------------------------------------


def test_countries_are_named_by_any_of_their_codes_or_names():
    for name in ("SE", "752", "SWE", "Sweden"):
        data = read(countries=[name])
        assert set(data.respondents["country"].to_pylist()) == {"SE"}, name
        data = read(exclude_countries=[name])
        assert set(data.respondents["country"].to_pylist()) == {"CL"}, name
        data = read(merge={"Chile": [name]})
        assert set(data.respondents["country"].to_pylist()) == {"CL"}, name


def test_year_codes_of_a_source_are_added_to_those_of_the_preset():
    frame = people(year=[1, 1, 1, 1, 12, 12, 12, 12]).rename(
        {"year": "essround", "country": "cntry"}
    )
    data = read(frame, preset="ess", weight="w", year_codes={"12": 2025})
    assert data.respondents["year"].to_pylist() == [2002] * 4 + [2025] * 4


def test_a_missing_code_that_occurs_nowhere_is_noted():
    data = read(missing={"lost": [98, 3]})
    assert any(
        "[sources.missing] declares codes that are in no question: 98" in n for n in data.notes
    )


def test_one_file_of_several_may_lack_a_country_or_a_wave():
    people().head(4).filter(pl.col("country") == "SE").write_csv("a.csv")
    people().tail(4).write_csv("b.csv")
    settings = {"items": "items.csv", "variables": ["r"]}
    data = survey_microdata(["a.csv", "b.csv"], merge={"SE": ["CL"]}, **settings)
    assert set(data.respondents["country"].to_pylist()) == {"SE"}
    with pytest.raises(ConfigurationError, match="exclude_countries names ZZ"):
        survey_microdata(["a.csv", "b.csv"], exclude_countries=["ZZ"], **settings)


# -- columns that differ in case, or go on in one another --------------------------------------------


def merged(**columns):
    n = 40
    base = {
        "S007": range(n),
        "S003": [8] * n,
        "S020": [1998] * 20 + [2018] * 20,
        "S017": [1.0] * n,
        "A001": [1, 2, 3, 4] * 10,
    }
    return pl.DataFrame(base | columns)


def test_two_columns_that_differ_in_case_stop_with_both_names(tmp_path, run_cli):
    halves = {"S002VS": [3] * 20 + [None] * 20, "s002vs": [None] * 20 + [7] * 20}
    merged(**halves).write_csv("merged.csv")
    with pytest.raises(SourceError, match="columns S002VS and s002vs, which differ in case only"):
        survey_microdata("merged.csv", preset="wvs-timeseries")
    data = survey_microdata("merged.csv", preset="wvs-timeseries", columns={"wave": "S002VS"})
    assert data.respondents["wave"].null_count == 20
    done = run_cli("build", "study", "--preset", "wvs-timeseries", "--file", "merged.csv")
    assert done.returncode == 1
    assert "S002VS and s002vs" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["S003", "S020", "S017", "A001"])
def test_any_column_that_has_a_double_in_another_case_stops(name):
    frame = merged(S002VS=[3] * 20 + [7] * 20).with_columns(pl.col(name).alias(name.lower()))
    with pytest.raises(SourceError, match=f"{name} and {name.lower()}, which differ in case only"):
        survey_microdata(frame, preset="wvs-timeseries")


def test_a_column_that_goes_on_in_another_stops_with_both_names():
    frame = people(cntry=[None] * 4 + ["SE"] * 4, country=["SE"] * 4 + [None] * 4)
    with pytest.raises(SourceError, match="both country and cntry for the country, and 4 rows"):
        read(frame)
    data = read(frame, columns={"country": "cntry"})
    assert data.respondents["country"].null_count == 4
    data = read(people(cntry=["SE", "CL"] * 4))
    assert data.respondents["country"].null_count == 0


# -- one weight for a time point ----------------------------------------------------------------------


def spanning(first, second, year=(2004, 2005)):
    """Wave 3 is in two years; wave 7 in one."""
    n = 40
    years = [year[0]] * 10 + [year[1]] * 10 + [2018] * 20
    return pl.DataFrame(
        {
            "country": ["SE"] * n,
            "wave": [3] * 20 + [7] * 20,
            "year": years,
            "a": first,
            "b": second,
            "q": [1, 2, 3, 1] * 10,
        }
    )


WAVES = {"weight": ["a", "b"], "columns": {"wave": "wave"}}


def test_a_time_point_of_two_years_has_one_weight():
    data = read(spanning([None] * 10 + [1.0] * 30, [2.0] * 40), **WAVES)
    assert set(data.respondents["weight_name"].to_pylist()[:20]) == {"b"}
    assert set(data.respondents["weight_name"].to_pylist()[20:]) == {"a"}
    gold, _ = gold_table([data], Rules(min_respondents=1, newest="latest"))
    assert sorted(set(gold["weight"].to_pylist())) == ["a", "b"]


def test_where_no_weight_is_in_all_years_of_a_time_point_it_stops():
    frame = spanning([None] * 10 + [1.0] * 30, [2.0] * 10 + [None] * 10 + [2.0] * 20)
    with pytest.raises(
        SourceError, match=r"wave 3: no weight is in all of its years \(2004: b; 2005: a\)"
    ):
        read(frame, **WAVES)
    assert len(read(frame, **WAVES, waves=[7]).respondents) == 20
    Path("plan.toml").write_text(
        '[[sources]]\npreset = "generic"\nfile = "f.csv"\nitems = "items.csv"\nvariables = ["q"]\n'
        'weight = ["a", "b"]\n[sources.columns]\nwave = "wave"\n'
        '[rules]\nmin_respondents = 1\ntime_point = "year"\nnewest = "latest"\n'
    )
    frame.write_csv("f.csv")
    result = cc.build("study", config="plan.toml")
    found = {r["year"]: r["weight"] for r in result.study.gold().to_pylist()}
    assert found == {2004: "b", 2005: "a", 2018: "a"}


def test_a_year_without_any_weight_leaves_the_weight_of_the_others():
    data = read(spanning([None] * 10 + [1.0] * 30, [None] * 40), **WAVES)
    assert set(data.respondents["weight_name"].to_pylist()) == {"a"}


def test_a_file_with_a_weight_that_nobody_declared_says_so():
    people().rename({"w": "weight"}).write_csv("x.csv")
    data = survey_microdata("x.csv", items="items.csv")
    assert any(
        "no weight is declared, so none is used; candidates: weight" in n for n in data.notes
    )
    assert any("candidates: weight" in n for n in cc.explain("x.csv", preset="generic").notes)
    for settings in ({"weight": "none"}, {"weight": "weight"}):
        data = survey_microdata("x.csv", items="items.csv", **settings)
        assert not any("no weight is declared" in note for note in data.notes)


# -- frames -------------------------------------------------------------------------------------------


def test_categories_of_polars_and_pandas_are_read():
    words = ["A lot", "Some", None, "Little"] * 2
    for column in (
        pl.Series(words, dtype=pl.Categorical),
        pl.Series(words, dtype=pl.Enum(["A lot", "Some", "Little"])),
        pl.Series(["1", "2", None, "3"] * 2, dtype=pl.Categorical),
    ):
        assert read(people(q=column)).respondents["q"].to_pylist()[:4] == [1, 2, None, 3]
    frame = people().to_pandas()
    frame["q"] = pd.Categorical(words)
    frame["country"] = pd.Categorical(frame["country"])
    assert read(frame).respondents["q"].to_pylist()[:4] == [1, 2, None, 3]
    frame["q"] = pd.Categorical([1, 2, None, 3] * 2)
    assert read(frame).respondents["q"].to_pylist()[:4] == [1, 2, None, 3]


@pytest.mark.parametrize("mixed", [[1, "x"] * 4, [1, [2]] * 4, [1, {"a": 2}] * 4, [b"1", 2] * 4])
def test_a_column_of_mixed_objects_is_a_clear_error(mixed):
    frame = people().to_pandas()
    frame["q"] = pd.Series(mixed, dtype=object)
    with pytest.raises(ChronocoreError, match="mixed values.*column q|column q.*holds no answers"):
        read(frame)


# -- numbers that are too large, names that are none --------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("column", ["q", "person", "year", "country", "w"])
def test_an_integer_beyond_what_a_number_keeps(suffix, column):
    big = 9218868437227405312
    frame = people()
    values = [str(big) if column == "country" else big, *frame[column].to_list()[1:]]
    frame = frame.with_columns(pl.Series(column, values, strict=False))
    write = {"csv": frame.write_csv, "parquet": frame.write_parquet, "arrow": frame.write_ipc}
    write[suffix](f"x.{suffix}")
    settings = {"items": "items.csv", "weight": "w", "columns": {"respondent": "person"}}
    if column == "year":
        with pytest.raises(SourceError, match=r"year, row 1: .* is no year"):
            survey_microdata(f"x.{suffix}", **settings)
        return
    data = survey_microdata(f"x.{suffix}", **settings)
    answers = data.respondents["q"].to_pylist()
    assert answers == [None if column == "q" else 1, 2, 3, 1, 1, 2, 3, 1]


def test_long_ids_of_two_respondents_stay_two():
    ids = [2**60 + i for i in range(8)]
    people(person=ids).with_columns(country=pl.lit("SE"), year=pl.lit(2004)).write_csv("x.csv")
    settings = {"columns": {"respondent": "person"}, "duplicates": "drop", "items": "items.csv"}
    assert len(survey_microdata("x.csv", **settings).respondents) == 8


@pytest.mark.parametrize("value", [1e300, -1e300, 1e19, 2**40])
def test_a_year_without_end_is_a_clear_error(value):
    frame = people(year=pl.Series([float(value), *[2004.0] * 7]))
    for reader in (lambda: read(frame), lambda: (frame.write_csv("x.csv"), read("x.csv"))):
        if value < 0:
            reader()
        else:
            with pytest.raises(SourceError, match="column year, row 1: .* is no year"):
                reader()


def test_text_of_a_file_is_cleaned_where_it_enters():
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"country": [8.0] * 4, "year": [1999.0] * 4, "q": [1.0, 2.0, 1.0, 2.0]})
    evil = "Yes\x1b[31m\u202e\nno" + "x" * 500
    pyreadstat.write_sav(
        frame, "x.sav", variable_value_labels={"q": {1.0: evil, 2.0: "No\u200f"}},
        column_labels=["c", "y", "Is\nit\x07 so?"],
    )  # fmt: skip
    (item,) = survey_microdata("x.sav", variables=["q"]).items
    labels = [option.label for option in item.options]
    assert labels[1] == "No"
    assert labels[0].startswith("Yes [31m nox")
    assert len(labels[0]) <= 200
    assert item.text == "Is it so?"
    data = read(people(country=["A\x1b[1m\nb"] * 8))
    assert set(data.respondents["country"].to_pylist()) == {"A [1m b"}
    assert json.dumps(data.notes).isprintable()
