"""What each preset finds in a file, told to somebody who has never used one."""

from __future__ import annotations

import json

import polars as pl
import pytest
from surveys import layouts
from surveys.population import Question, Sample, draw
from surveys.writing import write

import chronocore as cc
from chronocore.config import parse_config
from chronocore.sources.presets import load_preset, preset_names

pytest.importorskip("pyreadstat")
pytest.importorskip("pandas")

AGREE = ("Strongly agree", "Agree", "Neither", "Disagree", "Strongly disagree")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def waves(*countries, study=None, pairs=((1998, 3), (2018, 7))):
    return [Sample(c, year, wave, study) for c in countries for year, wave in pairs]


def files():
    """Preset -> a file in its structure, named as it is when it is downloaded."""
    questions = layouts.questions_of("A001", "F063", "A029")
    people = draw(questions, waves("276", "840"), seed=1)
    seventh = [person for person in people if person.wave == 7]
    both = waves("276", study="wvs") + waves("276", study="evs", pairs=((1999, 3), (2017, 5)))
    yield "wvs-timeseries", layouts.wvs_timeseries(people, questions), "WVS_TimeSeries_4_0.sav"
    yield "wvs-timeseries", layouts.wvs_timeseries(people, questions, lower=True), "renamed.csv"
    yield "wvs-wave7", layouts.wvs_wave7(seventh, questions), "w7.dta"
    yield "evs-trend", layouts.evs_trend(people, questions), "ZA7503_v3-0-0.sav"
    yield "evs-trend", layouts.evs_trend(people, questions), "renamed.dta"
    yield "ivs", layouts.ivs(draw(questions, both, seed=2), questions), "merged.sav"
    for preset, (name, _, _) in layouts.ISSP_FILES.items():
        asked = [Question(f"{name[:6]}_V5", (1, 2, 3, 4, 5), AGREE)]
        samples = [Sample("82601", 1999), Sample("82601", 2009), Sample("276", 2009)]
        yield preset, layouts.issp(draw(asked, samples, seed=3), asked, preset), f"{name}.sav"
    asked = [Question("HAPPY", (1, 2, 3), ("very happy", "pretty happy", "not too happy"))]
    people = draw(asked, [Sample("840", 1998), Sample("840", 2021)], seed=4)
    yield "gss", layouts.gss(people, asked), "gss7224_r3a.dta"
    labels = ("You can't be too careful", *map(str, range(1, 10)), "Most people can be trusted")
    asked = [Question("ppltrst", tuple(range(11)), labels)]
    people = draw(asked, [Sample("276", 2002), Sample("276", 2012)], seed=5)
    yield "ess", layouts.ess(people, asked), "ESS1-11.sav"


CASES = list(files())


def test_every_survey_preset_has_a_case():
    assert {preset for preset, _, _ in CASES} | {"generic"} == set(preset_names())


@pytest.mark.parametrize(
    ("preset", "layout", "name"), CASES, ids=[f"{preset}-{name}" for preset, _, name in CASES]
)
def test_the_preset_is_guessed_and_its_block_builds(tmp_path, preset, layout, name):
    path = write(layout, tmp_path / name)
    found = cc.explain(path)
    assert found.preset == preset
    assert found.lacking == {}
    assert found.rows == len(next(iter(layout.columns.values())))
    assert found.conflicts == []
    assert found.questions
    assert sum(found.countries.values()) == found.rows
    assert sum(found.years.values()) == found.rows
    assert "none" not in found.weights
    for question in found.questions:
        assert question.answers + sum(question.missing.values()) == found.rows
        assert question.undeclared == {}
    rules = '[rules]\nmin_respondents = 5\nnewest = "latest"\n'
    block = found.block.replace(str(path), name)
    (tmp_path / "plan.toml").write_text(block + rules)
    if preset == "wvs-wave7":
        # One wave has no pair; it is there to be joined to the time series.
        with pytest.raises(cc.SourceError, match="no variable has two time points"):
            cc.build("study", config="plan.toml")
        assert not (tmp_path / "study").exists()
        return
    result = cc.build("study", config="plan.toml")
    built = set(result.study.items()["variable"].to_pylist())
    assert built == {question.variable for question in found.questions}


def test_what_is_wrong_is_all_there():
    frame = pl.DataFrame(
        {
            "S002VS": [3, 7] * 20,
            "S003": [8, 9999] * 20,
            "S020": [1998, 2018] * 20,
            "S007": [1, 1] * 20,
            "A001": [1, 2, 7, -1] * 10,
            "E037": [1, 10] * 20,
        }
    )
    found = cc.explain(frame, preset="wvs-timeseries")
    assert found.lacking == {
        "weight": 'no column S017; name it: weight = "…", or go without: weight = "none"'
    }
    assert found.unknown_countries == ["9999"]
    assert found.waves == {"3": 20, "7": 20}
    (question,) = found.questions
    assert question.undeclared == {"7": 10}
    assert question.missing == {"not on the scale": 10, "don't know": 10}
    assert list(found.unconfirmed) == ["E037"]
    assert "has no label" in found.unconfirmed["E037"]
    assert len(found.absent) + 2 == len(cc.sources.catalog.load_catalog("wvs"))
    assert any("more than once" in note for note in found.notes)
    assert parse_config(found.block).sources[0].weight == "none"


def test_labels_that_contradict_are_shown_and_the_block_flags_them(tmp_path):
    questions = layouts.questions_of("A001")
    people = draw(questions, waves("276"), seed=1)
    layout = layouts.wvs_timeseries(people, questions)
    layout.value_labels["A001"] |= {1: "Not at all important", 4: "Very important"}
    found = cc.explain(write(layout, tmp_path / "x.sav"))
    assert len(found.conflicts) == 2
    assert all("runs the other way" in line for line in found.conflicts)
    assert parse_config(found.block).sources[0].labels == "flag"


def test_a_file_of_no_known_survey_says_what_to_declare(tmp_path):
    (tmp_path / "mine.csv").write_text("nation,when,q\n8,1999,1\n8,2009,2\n")
    found = cc.explain("mine.csv")
    assert found.preset == "generic"
    assert set(found.lacking) == {"country", "year"}
    source = parse_config(found.block).sources[0]
    assert (source.columns.country, source.columns.year) == ("?", "?")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nsurvey = "mine"\n[columns]\ncountry = "nation"\nyear = "when"\n'
    )
    found = cc.explain("mine.csv", preset="mine.toml")
    assert found.lacking == {}
    assert found.countries == {"8": 2}
    assert any("no value labels" in note for note in found.notes)
    (tmp_path / "bad.csv").write_text("nation,when,q\n8,12,1\n")
    assert "12 is no year" in cc.explain("bad.csv", preset="mine.toml").lacking["rows"]


def test_presets_alike_are_not_guessed_between(tmp_path):
    frame = pl.DataFrame({"country": [8], "year": [1999], "V5": [1], "WEIGHT": [1.0], "ID": [1]})
    found = cc.explain(frame)
    assert found.preset == "generic"
    assert any("alike by its columns; choose one with --preset" in note for note in found.notes)


def test_the_command_explains_without_a_study(tmp_path, run_cli):
    frame = pl.DataFrame(
        {"cntry": ["NO"], "essround": [9], "idno": [1], "anweight": [1.0], "q": ["x"]}
    )
    frame.write_csv(tmp_path / "ess.csv")
    done = run_cli("build", "--explain", tmp_path / "ess.csv")
    assert done.returncode == 0, done.stderr
    for text in ("preset: ess", "NO Norway (1)", "2018 (1)", "[[sources]]", "anweight (1)"):
        assert text in done.stdout
    assert "reading ess.csv" in done.stderr
    done = run_cli("build", "--explain", tmp_path / "ess.csv", "--json")
    assert json.loads(done.stdout)["preset"] == "ess"
    wrong = run_cli("build", "study", "--explain", tmp_path / "ess.csv")
    assert wrong.returncode == 2
    assert run_cli("build").returncode == 2
    missing = run_cli("build", "--explain", tmp_path / "none.sav")
    assert missing.returncode == 1
    assert "there is no file" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_the_command_builds_from_a_file_and_prints_the_funnel(tmp_path, run_cli):
    questions = layouts.questions_of("A001")
    people = draw(questions, waves("276", "840"), seed=1)
    path = write(layouts.wvs_timeseries(people, questions), tmp_path / "wvs.sav")
    arguments = ("--preset", "wvs-timeseries", "--file", path, "--min-respondents", "5")
    done = run_cli("build", tmp_path / "study", *arguments)
    assert done.returncode == 0, done.stderr
    for text in (
        "rows read",
        "missing: don't know",
        "wvs: weight S017 in 4 time points",
        "2 pairs",
    ):
        assert text in done.stdout
    data = json.loads(run_cli("build", tmp_path / "study", "--json").stdout)
    assert data["weights"][0]["weight"] == "S017"
    lost = run_cli("build", tmp_path / "other", "--preset", "wvs-timeseries")
    assert lost.returncode == 1
    assert "needs the data" in lost.stderr


def test_presets_of_your_own_name_the_nearest_key(tmp_path):
    (tmp_path / "p.toml").write_text('name = "p"\nsurvey = "p"\n[columns]\nyera = "y"\n')
    with pytest.raises(cc.ConfigurationError, match=r"p\.toml: unknown key 'yera'.*'year'"):
        load_preset("p.toml")
    (tmp_path / "p.toml").write_text('name = "p"\nsurvey = "P Q"\n')
    with pytest.raises(cc.ConfigurationError, match="lower-case key"):
        load_preset("p.toml")
    with pytest.raises(cc.ConfigurationError, match="did you mean 'gss'"):
        load_preset("gsss")
    with pytest.raises(cc.ConfigurationError, match="there is no preset file"):
        load_preset("none.toml")


@pytest.mark.parametrize("name", preset_names())
def test_presets_say_where_their_data_are_from(name):
    preset = load_preset(name)
    assert preset.name == name
    if name == "generic":
        return
    assert preset.citation
    assert preset.files
    assert preset.columns.year
    assert preset.missing
    if name.startswith("issp"):
        assert preset.doi.startswith("10.4232/1.")
        assert preset.files == [f"{preset.prefix[:-1]}*"]
        assert preset.topic_broad


@pytest.mark.parametrize("years", [[2004, 2004], [2004, 2019]])
def test_a_file_of_one_time_point_says_that_a_study_compares_two(tmp_path, years):
    rows = "variable,text,code,label\nq,Well?,1,Agree\nq,Well?,2,Disagree\n"
    (tmp_path / "items.csv").write_text(rows)
    (tmp_path / "own.toml").write_text(
        'name = "own"\nsurvey = "own"\nitems = "items.csv"\n'
        '[columns]\ncountry = "country"\nyear = "year"\n'
    )
    lines = [f"SE,{year},{code}" for year in years for code in (1, 2)]
    (tmp_path / "x.csv").write_text("\n".join(["country,year,q", *lines]) + "\n")
    found = cc.explain(tmp_path / "x.csv", preset=str(tmp_path / "own.toml"))
    assert len(found.questions) == 1
    told = any("one time point, and a study compares two" in note for note in found.notes)
    assert told == (len(set(years)) == 1)
