"""The cultural map from survey files in the layout of the licensed ones, through the command."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from surveys.layouts import evs_trend, ivs, questions_of, wvs_timeseries, wvs_wave7
from surveys.population import Person, Question
from surveys.writing import write

import chronocore as cc
from chronocore import validity as v

PROTOCOL = v.load_protocol()
SETTINGS = PROTOCOL.map
ITEMS = tuple(item.variable for item in PROTOCOL.item)
PLAIN = [item for item in ITEMS if item not in ("Y002", "Y003")]
CHILD = ["A029", "A039", "A040", "A042"]
AIMS = (
    "Maintaining order in the nation",
    "Giving people more say in important government decisions",
    "Fighting rising prices",
    "Protecting freedom of speech",
)
QUESTIONS = [
    *questions_of(*PLAIN, *CHILD),
    Question("E003", (1, 2, 3, 4), AIMS),
    Question("E004", (1, 2, 3, 4), AIMS),
]
COUNTRIES = ["8", "32", "56", "170", "203", "276", "752", "826", "840", "392"]
MIDDLE = {
    "A008": 1.95, "A165": 1.7, "E018": 1.6, "E025": 2.1, "F063": 6.5, "F118": 4.5, "F120": 4.3,
    "G006": 1.7, "Y002": 1.9, "Y003": 0.0,
}  # fmt: skip


def people_of(n=60, seed=0, waves=((5, 2006), (6, 2012)), study="wvs"):
    """Respondents of countries that differ on two factors, with known answers and weights."""
    rng = np.random.default_rng(seed)
    factors = np.random.default_rng(7).standard_normal((len(COUNTRIES), 2)) * 1.3
    people = []
    for c, code in enumerate(COUNTRIES):
        for wave, year in waves:
            for i in range(n):
                weight = round(float(rng.uniform(0.5, 2.0)), 4)
                if i % 20 == 3:
                    weight = [0.0, -1.0, float("nan")][i % 3]
                person = Person(code, year, wave, study, weight, 0, 0, len(people) + 1)
                for question in QUESTIONS[: len(PLAIN)]:
                    axis = 0 if question.variable in SETTINGS.x else 1
                    sign = SETTINGS.x.get(question.variable) or SETTINGS.y.get(question.variable)
                    k = len(question.codes)
                    center = MIDDLE[question.variable] + sign * factors[c, axis] * k / 9
                    code_ = int(np.clip(round(rng.normal(center, k / 5)), 1, k))
                    person.answers[question.variable] = code_
                post = 1 / (1 + np.exp(-1.5 * factors[c, 0]))
                first, second = (
                    rng.permutation([2, 4] if rng.random() < post else [1, 3])[0] for _ in "ab"
                )
                person.answers |= {"E003": int(first), "E004": int(second)}
                free = 1 / (1 + np.exp(-1.5 * factors[c, 1]))
                for name in CHILD:
                    own = free if name in ("A029", "A039") else 1 - free
                    person.answers[name] = int(rng.random() < own)
                for name in list(person.answers):
                    if rng.random() < 0.05:
                        del person.answers[name]
                        person.reasons[name] = "don't know"
                people.append(person)
    return people


def index_of(person, item):
    """An index, person by person, as the definitions have it."""
    own = person.answers
    if item == "Y002":
        if not {"E003", "E004"} <= set(own):
            return None
        pair = {own["E003"], own["E004"]}
        return 1 if pair <= {1, 3} else 3 if pair <= {2, 4} else 2
    if item == "Y003":
        if not set(CHILD) <= set(own):
            return None
        return own["A029"] + own["A039"] - own["A040"] - own["A042"]
    return own.get(item)


def truth(people, waves):
    """Weighted means and counts, counted person by person."""
    means, counts = {}, {}
    for country in sorted({p.country for p in people}, key=int):
        for item in ITEMS:
            rows = [
                (index_of(p, item), p.weight)
                for p in people
                if p.country == country and p.weight > 0 and p.wave in waves[p.study]
            ]
            rows = [(x, w) for x, w in rows if x is not None]
            means[country, item] = sum(x * w for x, w in rows) / sum(w for _, w in rows)
            counts[country, item] = len(rows)
    return means, counts


def with_indices(layout, people, *, y002=True, y003=True):
    """Give a file the indices, as the time series has them."""
    if y002:
        layout.columns["Y002"] = [index_of(p, "Y002") or -5 for p in people]
        layout.value_labels["Y002"] = {1: "Materialist", 2: "Mixed", 3: "Postmaterialist"}
        layout.missing["Y002"] = [{"lo": -99, "hi": -1}]
    if y003:
        values = [index_of(p, "Y003") for p in people]
        layout.columns["Y003"] = [-5 if x is None else x for x in values]
        layout.value_labels["Y003"] = {
            -2: "Obedience/Religious Faith", -1: "-1", 0: "0", 1: "1",
            2: "Determination, perseverance/Independence",
        }  # fmt: skip
        layout.missing["Y003"] = [{"lo": -99, "hi": -3}]
    return layout


def asked(*names):
    return [question for question in QUESTIONS if question.variable in names]


def check(data, people, waves):
    means, counts = truth(people, waves)
    assert sorted(data["means"], key=int) == sorted({c for c, _ in means}, key=int)
    for country, own in data["means"].items():
        assert set(own) == set(ITEMS)
        for item, mean in own.items():
            assert mean == pytest.approx(means[country, item], abs=1e-12)
            assert data["counts"][country][item] == counts[country, item]


WVS = {"wvs": (5, 6, 7)}


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".csv"])
def test_a_time_series_gives_the_map_by_one_command(tmp_path, run_cli, suffix):
    if suffix != ".csv":
        pytest.importorskip("pyreadstat")
    people = people_of(waves=((4, 2000), (5, 2006), (6, 2012)), n=40)
    layout = with_indices(wvs_timeseries(people, asked(*PLAIN)), people)
    path = write(layout, tmp_path / f"WVS_Time_Series{suffix}")
    means = tmp_path / "means.csv"
    done = run_cli(
        "validity", "map", "--file", path, "--preset", "wvs-timeseries", "--output", means, "--json"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    check(data, people, WVS)
    assert set(data["weights"].values()) == {"S017"}
    # What was written is what the map takes.
    with means.open() as handle:
        rows = list(csv.DictReader(handle))
    assert rows[0]["time_points"] == "wvs wave 5 (2006); wvs wave 6 (2012)"
    assert rows[0]["weight"] == "S017"
    again = run_cli("validity", "map", "--countries", means, "--json")
    assert again.returncode == 0, again.stderr
    for code, position in json.loads(again.stdout)["country_positions"].items():
        assert position == pytest.approx(data["country_positions"][code], abs=1e-9)


def merged(tmp_path, suffix=".sav", **indices):
    """An IVS file: the EVS rows have no Y003, which is made there."""
    people = people_of(n=40) + people_of(n=40, seed=1, waves=((4, 2008), (5, 2017)), study="evs")
    layout = ivs(people, QUESTIONS)
    with_indices(layout, people, **indices)
    if indices.get("y003", True):
        layout.columns["Y003"] = [
            -4 if p.study == "evs" else x
            for p, x in zip(people, layout.columns["Y003"], strict=True)
        ]
    return people, write(layout, tmp_path / f"Integrated_values_surveys_1981-2022{suffix}")


@pytest.mark.parametrize("suffix", [".sav", ".csv"])
def test_the_integrated_file_gives_the_map_and_a_folder_keeps_its_means(tmp_path, run_cli, suffix):
    if suffix != ".csv":
        pytest.importorskip("pyreadstat")
    people, path = merged(tmp_path, suffix)
    folder = tmp_path / "panel"
    v.prompts(folder)
    done = run_cli("validity", "map", folder, "--file", path, "--preset", "ivs", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["countries"], data["positions"]) == (10, {})
    check(data, people, {"wvs": (5, 6, 7), "evs": (5,)})
    kept = v.load_country_means(folder)
    assert kept.means.tolist() == [list(own.values()) for own in data["means"].values()]
    v.run(folder, "reference:midpoint")
    v.map_models(folder)
    table = v.tables(folder, ["validity-positions"])["validity-positions"].table.to_pylist()
    assert [row["n"] for row in table if row["label"] == "midpoint" and row["group"] == "all"] == [
        30
    ]
    # Each study numbers its own waves.
    done = run_cli(
        "validity", "map", "--file", path, "--preset", "ivs", "--waves", "wvs:5-7;evs:4-5", "--json"
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), people, {"wvs": (5, 6, 7), "evs": (4, 5)})


def test_single_time_points_are_kept_beside_the_pooled_means(tmp_path):
    pytest.importorskip("pyreadstat")
    people, path = merged(tmp_path)
    means = v.survey_means([path], preset="ivs")
    rows = {
        (r["country"], r["study"], r["wave"], r["item"]): r for r in means.time_points.to_pylist()
    }
    assert len(rows) == 10 * 3 * 10
    own = [p for p in people if (p.country, p.study, p.wave) == ("8", "evs", 5) and p.weight > 0]
    valid = [(index_of(p, "Y003"), p.weight) for p in own]
    valid = [(x, w) for x, w in valid if x is not None]
    row = rows["8", "evs", 5, "Y003"]
    assert row["mean"] == pytest.approx(sum(x * w for x, w in valid) / sum(w for _, w in valid))
    assert (row["n_valid"], row["year"], row["weight"]) == (len(valid), 2017, "S017")


def test_the_shipped_presets_read_what_a_map_needs_beside_their_questions(tmp_path):
    pytest.importorskip("pyreadstat")
    _, path = merged(tmp_path)
    data = cc.survey_microdata(path, preset="ivs")
    assert not {"Y002", "Y003", "E003", "E004"} & {item.variable for item in data.items}
    found = v.country_means(data)
    expected = v.survey_means([path], preset="ivs")
    assert np.array_equal(found.means, expected.means)
    named = cc.survey_microdata(path, preset="ivs", variables=list(ITEMS))
    assert {item.variable for item in named.items} == set(ITEMS)
    with pytest.raises(cc.ConfigurationError, match="no order"):
        cc.survey_microdata(path, preset="ivs", variables=["E003"])


def test_labels_as_the_source_of_scales_do_not_refuse_an_index_below_0(tmp_path):
    pytest.importorskip("pyreadstat")
    people = people_of(n=40)
    layout = with_indices(wvs_timeseries(people, asked(*PLAIN)), people)
    for name in PLAIN:
        layout.value_labels[name] = {
            code: label
            for code, label in layout.value_labels[name].items()
            if not label.startswith("Other answer")
        }
    path = write(layout, tmp_path / "WVS_Time_Series.sav")
    data = cc.survey_microdata(
        path, preset="wvs-timeseries", items="labels", variables=list(ITEMS), confirmed=PLAIN
    )
    codes = {item.variable: [option.code for option in item.options] for item in data.items}
    assert codes["Y003"] == [-2, -1, 0, 1, 2]
    found = v.country_means(data)
    expected = v.survey_means([path], preset="wvs-timeseries")
    assert np.allclose(found.means, expected.means)


def test_the_trend_file_and_wave_7_make_their_indices(tmp_path, run_cli):
    people = people_of(n=40, waves=((5, 2017),), study="evs")
    path = write(evs_trend(people, QUESTIONS), tmp_path / "ZA7503.csv")
    done = run_cli("validity", "map", "--file", path, "--preset", "evs-trend", "--json")
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), people, {"evs": (5,)})


def test_an_item_that_is_nowhere_is_named(tmp_path, run_cli):
    people = people_of(n=40)
    layout = wvs_timeseries(people, asked(*(set(PLAIN) - {"E025"}), *CHILD))
    del layout.columns["Y002"]
    path = write(layout, tmp_path / "part.csv")
    done = run_cli("validity", "map", "--file", path, "--preset", "wvs-timeseries")
    assert done.returncode == 1
    assert "does not have E025, Y002 (nor E003 and E004, from which it is made)" in done.stderr
    with pytest.raises(cc.SourceError, match="does not have E025, Y002"):
        v.country_means(cc.survey_microdata(path, preset="wvs-timeseries"))
    full = write(with_indices(wvs_timeseries(people, asked(*PLAIN)), people), tmp_path / "full.csv")
    done = run_cli("validity", "map", "--file", full, "--preset", "wvs-timeseries", "--waves", "7")
    assert done.returncode == 1
    assert "nobody has a valid answer to A008" in done.stderr
    other = write(wvs_timeseries(people, asked(*CHILD[:1])), tmp_path / "other.csv")
    done = run_cli("validity", "map", "--file", other, "--preset", "gss")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_an_index_that_lost_its_negative_codes_is_refused_or_made(tmp_path):
    people = people_of(n=40)
    layout = with_indices(wvs_timeseries(people, asked(*PLAIN)), people)
    layout.columns["Y003"] = [x if x >= 0 else "" for x in layout.columns["Y003"]]
    path = write(layout, tmp_path / "lost.csv")
    with pytest.raises(cc.SourceError, match="no answer of Y003 is below 0"):
        v.survey_means([path], preset="wvs-timeseries")
    layout = with_indices(wvs_timeseries(people, QUESTIONS), people)
    layout.columns["Y003"] = [x if x >= 0 else "" for x in layout.columns["Y003"]]
    means, _ = truth(people, WVS)
    found = v.survey_means([write(layout, tmp_path / "both.csv")], preset="wvs-timeseries")
    place = found.items.index("Y003")
    for code, row in zip(found.countries, found.means, strict=True):
        assert row[place] == pytest.approx(means[code, "Y003"])
    # Another index under that name is not taken for it.
    layout.columns["Y003"] = [1 + i % 2 for i in range(len(people))]
    with pytest.raises(cc.SourceError, match="Y003 is not what"):
        v.survey_means([write(layout, tmp_path / "off.csv")], preset="wvs-timeseries")


def test_time_points_without_a_weight_are_unweighted_and_said_so(tmp_path):
    people = people_of(n=40)
    for person in people:
        if person.country == "8" and person.wave == 5:
            person.weight = None
    layout = with_indices(wvs_timeseries(people, asked(*PLAIN)), people)
    means = v.survey_means([write(layout, tmp_path / "w.csv")], preset="wvs-timeseries")
    assert any("nobody has a weight in 1 time points (Albania wvs 5)" in n for n in means.notes)
    row = next(
        r for r in means.time_points.to_pylist()
        if (r["country"], r["wave"], r["item"]) == ("8", 5, "F118")
    )  # fmt: skip
    own = [
        p.answers["F118"] for p in people if (p.country, p.wave) == ("8", 5) and "F118" in p.answers
    ]
    assert (row["weight"], row["n_valid"]) == (None, len(own))
    assert row["mean"] == pytest.approx(np.mean(own))


def test_a_wave_7_file_is_read_in_its_own_codes(tmp_path):
    people = people_of(n=40, waves=((7, 2018),))
    layout = wvs_wave7(people, asked(*PLAIN, *CHILD))
    layout.columns["Q154"] = [p.answers.get("E003", -1) for p in people]
    layout.columns["Q155"] = [p.answers.get("E004", -1) for p in people]
    path = write(layout, tmp_path / "WVS_Cross-National_Wave_7.csv")
    found = v.survey_means([path], preset="wvs-wave7")
    means, _ = truth(people, WVS)
    for code, row in zip(found.countries, found.means, strict=True):
        assert dict(zip(ITEMS, row, strict=True)) == pytest.approx(
            {item: means[code, item] for item in ITEMS}
        )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--file", "x.sav"], "--file and --preset go together"),
        (["--preset", "ivs"], "--file and --preset go together"),
        ([], "Missing argument 'FOLDER'"),
        (["--countries", "a.csv", "--file", "x.sav", "--preset", "ivs"], "give one of"),
        (["--countries", "a.csv", "--fit", "respondents"], "needs survey files"),
        (["--file", "x.sav", "--preset", "ivs", "--waves", "7-5"], "not of the form"),
    ],
)
def test_wrong_usage_of_the_command(run_cli, arguments, says):
    done = run_cli("validity", "map", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
