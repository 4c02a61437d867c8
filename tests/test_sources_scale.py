# ruff: noqa: E501, RUF001
"""The scale of a question is what its labels say; what is in doubt stops until confirmed.

Every case writes a real SPSS or Stata file and reads it back as a build does.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import chronocore as cc
from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources import survey_microdata
from chronocore.sources.nonresponse import missing_reason, non_response

pyreadstat = pytest.importorskip("pyreadstat")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write(labels, values, name="x.sav", **options):
    values = list(values)
    values += values
    frame = pd.DataFrame(
        {
            "country": [752.0] * len(values),
            "year": [1999.0] * (len(values) // 2) + [2009.0] * (len(values) // 2),
            "q": values,
        }
    )
    options = {"column_labels": {"q": "What do you think?"}} | options
    writer = pyreadstat.write_dta if name.endswith(".dta") else pyreadstat.write_sav
    writer(frame, name, variable_value_labels={"q": labels}, **options)
    return name


def read(labels, values, name="x.sav", preset="generic", written=None, **settings):
    path = write(labels, values, name, **(written or {}))
    settings = {"variables": ["q"], "weight": "none"} | settings
    if preset == "ess":
        settings = {"columns": {"country": "country", "year": "year"}} | settings
    return survey_microdata(path, preset=preset, **settings)


def scale(data):
    return {o.code: o.label for o in data.items[0].options}


def reasons(data):
    rows = data.missing.to_pylist()
    return {r["reason"]: sum(s["count"] for s in rows if s["reason"] == r["reason"]) for r in rows}


SEVEN = [1, 2, 3, 4, 5, 6, 7]
AGREE = {1: "Agree", 2: "Neither", 3: "Disagree"}


# -- points without a label ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "values", "codes"),
    [
        ({1: "Never justifiable", 10: "Always justifiable"}, [1, 2, 3, 4, 5, 6, 7, 8, 10], range(1, 11)),
        ({0: "Not at all", 10: "Completely"}, [0, 3, 7, 10], range(11)),
        ({0: "Left", 5: "Middle", 10: "Right"}, [0, 2, 5, 9, 10], range(11)),
        ({1: "Dislike", 4: "Indifferent", 7: "Like"}, SEVEN, range(1, 8)),
        ({1: "Low", 2: "2", 3: "3", 4: "4", 5: "High"}, [1, 2, 4, 5], range(1, 6)),
        ({1: "Never", 2: "Rarely", 7: "Always"}, SEVEN, range(1, 8)),
        ({1: "Never", 10: "Always", 88: "Don't know"}, [1, 5, 6, 10, 88], range(1, 11)),
    ],
)  # fmt: skip
def test_inner_points_belong_to_the_question_and_not_to_the_answers(labels, values, codes):
    data = read(labels, values)
    assert list(scale(data)) == list(codes)
    if labels.get(2) != "2":
        assert any("points without a label, between labelled ones" in n for n in data.notes)


def test_inner_points_are_the_same_for_every_file():
    ends = {1: "Never", 10: "Always"}
    write(ends, [1, 2, 3, 10], "a.sav")
    frame = pd.DataFrame({"country": [752.0] * 4, "year": [2019.0] * 4, "q": [1.0, 8.0, 9.0, 10.0]})
    pyreadstat.write_sav(frame, "b.sav", variable_value_labels={"q": ends})
    data = survey_microdata(["a.sav", "b.sav"], variables=["q"])
    assert list(scale(data)) == list(range(1, 11))


# -- what is in doubt stops ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "values", "doubt", "taken"),
    [
        ({1: "1 hour", 97: "97 hours or more"}, SEVEN, "'97 hours or more'", SEVEN),
        ({0: "None", 100: "All of them"}, [0, 10, 50, 90], "'All of them'", None),
        ({1: "Yes", 5: "No"}, [1, 5, 5], "no answer is between them", [1, 5]),
        ({1: "Yes", 5: "No"}, [1, 5] * 200 + [3], "1 answers are|2 answers are", [1, 5]),
        (AGREE | {9: "Weet zo niet"}, [1, 2, 3, 9], r"code 9 \('Weet zo niet', 2 answers\) stands apart", [1, 2, 3]),
        ({1: "a", 2: "b", 3: "c", 4: "d", 9: "e"}, [1, 2, 3, 4, 9], "code 9", [1, 2, 3, 4]),
        ({1: "a", 2: "b", 3: "c", 5: "d"}, [1, 2, 3, 5], "code 5", [1, 2, 3, 5]),
        (AGREE | {97: "Something else"}, [1, 2, 3, 97], "code 97", [1, 2, 3]),
        ({-1: "Worse", 0: "The same", 1: "Better"}, [-1, 0, 1], r"valid = \[-1\]", [0, 1]),
        ({1: "For", 2: "No opinion", 3: "Against"}, [1, 2, 3], "code 2 .'No opinion'", [1, 3]),
        ({1: "Rose", 2: "Unchanged", 3: "Declined"}, [1, 2, 3], "code 3 .'Declined'", [1, 2]),
        (AGREE | {4: "Don't know enough about it"}, [1, 2, 3, 4], "code 4", [1, 2, 3, 4]),
        ({1: "Well known", 2: "Little known", 3: "Not known"}, [1, 2, 3], "code 3 .'Not known'", [1, 2]),
        ({1: "Agree", 2: "Disagree", 3: "Neither"}, [1, 2, 3], "'Neither' stands at an end", [1, 2, 3]),
        (AGREE, [1, 2, 3, 4], "code 4 has no label and 2 answers", [1, 2, 3]),
        (AGREE | {99999: "Huge"}, [1, 2, 3], "99999", [1, 2, 3]),
    ],
)  # fmt: skip
def test_a_doubtful_scale_stops_and_can_be_confirmed(labels, values, doubt, taken):
    with pytest.raises(SourceError, match=f"(?s)x.sav: these scales are in doubt.*q: .*{doubt}"):
        read(labels, values)
    data = read(labels, values, confirmed=["Q"])
    if taken is not None:
        assert list(scale(data)) == list(taken)
    assert any("settled by the settings" in note for note in data.notes)
    found = cc.explain("x.sav", preset="generic")
    assert found.questions == []
    (question,) = found.doubtful
    assert question.doubts
    assert "'q'" not in found.block


def test_a_doubt_is_settled_by_listing_the_codes():
    labels, values = {1: "Yes", 5: "No"}, [1, 5, 5]
    data = read(labels, values, order={"q": [5, 1]})
    assert (scale(data), data.items[0].positions) == ({5: "No", 1: "Yes"}, (1.0, 2.0))
    data = read(labels, values, order={"q": [1, 2, 3, 4, 5]})
    assert list(scale(data)) == [1, 2, 3, 4, 5]
    hours = {1: "1 hour", 97: "97 hours or more"}
    data = read(hours, SEVEN, order={"q": SEVEN})
    assert scale(data) == {1: "1 hour"} | {c: str(c) for c in SEVEN[1:]}
    data = read(AGREE | {8: "Don't know"}, [1, 2, 3, 8], order={"q": [1, 2, 8, 3]})
    assert list(scale(data)) == [1, 2, 8, 3]
    with pytest.raises(ConfigurationError, match=r"q = \[0, 1\] does not list its codes once each"):
        read(AGREE, [1, 2, 3], order={"q": [0, 1]})
    with pytest.raises(ConfigurationError, match="does not list"):
        read(AGREE, [1, 2, 3], order={"q": [1, 2, 3, 3]})


def test_a_code_below_zero_is_an_answer_where_the_user_says_so():
    labels = {-1: "Worse", 0: "The same", 1: "Better", -9: "No answer"}
    data = read(labels, [-1, 0, 1, -9], missing={"valid": [-1]})
    assert list(scale(data)) == [-1, 0, 1]
    assert reasons(data) == {"no answer": 2}


TRUST = {1: "Very", 2: "Quite", 3: "Little", 4: "Not", 8: "Weiß nicht", 9: "Keine Angabe"}


@pytest.mark.parametrize("written", [{}, {"missing_ranges": {"q": [8, 9]}}])
@pytest.mark.parametrize(
    "settings", [{"missing": {"valid": [8]}}, {"order": {"q": [1, 2, 3, 4, 8]}}]
)
def test_the_users_word_goes_before_the_file_and_the_label(written, settings):
    data = read(TRUST, [1, 2, 3, 4, 8, 9], written=written, **settings)
    assert list(scale(data)) == [1, 2, 3, 4, 8]
    assert data.respondents["q"].to_pylist()[:6] == [1, 2, 3, 4, 8, None]
    assert sum(reasons(data).values()) == 2
    (note,) = [n for n in data.notes if "8 'Weiß nicht'" in n or "8 ('Weiß nicht')" in n]
    assert "is an answer by [sources." in note
    assert "although " + ("the file declares" if written else "its label says") in note


@pytest.mark.parametrize("written", [{}, {"missing_ranges": {"q": [8, 9]}}])
def test_an_order_may_leave_out_a_code_that_is_valid(written):
    data = read(
        TRUST, [1, 2, 8], written=written, order={"q": [4, 3, 2, 1]}, missing={"valid": [8]}
    )
    assert list(scale(data)) == [4, 3, 2, 1]
    assert data.respondents["q"].to_pylist()[:3] == [1, 2, None]


def test_an_order_and_a_missing_code_that_contradict_each_other_are_told():
    settings = {"order": {"q": [1, 2, 3, 4, 8]}, "missing": {"unsure": [8]}}
    with pytest.raises(ConfigurationError, match=r"\[sources.missing\] says that 8 is 'unsure'"):
        read(TRUST, [1, 2, 8], **settings)


def test_a_valid_code_without_a_label_is_never_passed_over():
    with pytest.raises(SourceError, match=r"code 7 is an answer by \[sources.missing\] valid"):
        read(AGREE, [1, 2, 3, 7], missing={"valid": [7]})
    data = read(AGREE, [1, 2, 3, 7], missing={"valid": [7]}, order={"q": [1, 2, 3, 7]})
    assert scale(data) == AGREE | {7: "7"}


def test_a_stata_letter_is_refused_as_an_answer():
    with pytest.raises(ConfigurationError, match=r"'\.a' of 'valid' is a Stata letter"):
        read(AGREE, [1, 2, 3], missing={"valid": [".a"]})


def test_a_valid_code_of_a_catalog_is_an_answer_although_the_file_declares_it_missing():
    rows = "variable,text,code,label\nq,Well?,1,Agree\nq,Well?,2,Neither\nq,Well?,3,Disagree\n"
    Path("items.csv").write_text(rows)
    settings = {"items": "items.csv", "written": {"missing_ranges": {"q": [3]}}}
    with pytest.raises(SourceError, match="labels contradict"):
        read(AGREE, [1, 2, 3], **settings)
    data = read(AGREE, [1, 2, 3], missing={"valid": [3]}, **settings)
    assert data.respondents["q"].to_pylist()[:3] == [1, 2, 3]


def test_no_answer_is_said_once():
    data = read(AGREE | {9: "Keine Angabe"}, [1, 2, 3, 9])
    assert [n for n in data.notes if "Keine Angabe" in n] == [
        "x.sav: no answer, by its label: 9 'Keine Angabe': q"
    ]


# -- words of non-response -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("Do not know", "don't know"), ("Doesn't know", "don't know"), ("N/A", "not applicable"),
        ("Prefer not to answer", "refused"), ("Declined", "refused"), ("DK/NA", "don't know"),
        ("Weiß nicht", "don't know"), ("WEISS NICHT", "don't know"), ("Keine Angabe", "no answer"),
        ("No sabe / No contesta", "don't know"), ("NS/NR", "don't know"), ("Ne sait pas", "don't know"),
        ("Refus de répondre", "refused"), ("Não sabe", "don't know"), ("Non so", "don't know"),
        ("Weet niet", "don't know"), ("Trudno powiedzieć", "don't know"), ("Bilmiyor", "don't know"),
        ("Затрудняюсь ответить", "don't know"), ("Vet ej", "don't know"), ("Vet ikke", "don't know"),
        ("Ved ikke", "don't know"), ("Ei osaa sanoa", "don't know"), ("Neví", "don't know"),
        ("Nem tudja", "don't know"), ("Nu știe/Nu răspunde", "don't know"), ("Δεν γνωρίζω", "don't know"),
        ("لا أعرف", "don't know"), ("نمی‌دانم", "don't know"), ("不知道", "don't know"),
        ("拒绝回答", "refused"), ("わからない", "don't know"), ("無回答", "no answer"),
        ("모름/무응답", "don't know"), ("Tidak tahu", "don't know"), ("Не знаю", "don't know"),
        ("Don't know (spontaneous)", "don't know"), ("Not asked in Belgium", "not asked"),
        ("8. Can't choose", "don't know"), ("Refused; no answer", "refused"),
    ],
)  # fmt: skip
def test_a_non_answer_in_any_language_is_missing_by_its_reason(label, reason):
    data = read(AGREE | {8: label}, [1, 2, 3, 8])
    assert scale(data) == AGREE
    assert reasons(data) == {reason: 2}
    assert any("8 " in note and "by its label" in note for note in data.notes)


@pytest.mark.parametrize(
    "label",
    [
        "No opinion either way", "Should be refused entry", "Refused by most people", "Nap time",
        "Knows nothing about it", "Not applicable to people like me", "No answer is right",
        "Missing the old days", "Nothing", "None", "Navigation", "Dont le père sait tout",
    ],
)  # fmt: skip
def test_a_label_that_says_something_else_is_an_answer(label):
    labels = {1: "For", 2: label, 3: "Against"}
    data = read(labels, [1, 2, 3])
    assert scale(data) == labels
    assert missing_reason(label) is None


def test_every_word_of_the_lists_is_a_non_answer():
    import chronocore_data

    for language, table in chronocore_data.non_response().items():
        if language in ("beside", "head", "opinion"):
            continue
        for words in table.values():
            for word in words:
                assert non_response(word).reason is not None, (language, word)


# -- the programme's habit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "values", "codes"),
    [
        ({1: "Very much like me", 2: "Like me", 3: "Somewhat", 4: "A little", 5: "Not like me",
          6: "Not like me at all", 7: "Refusal", 8: "Don't know", 9: "No answer"},
         [1, 2, 3, 4, 5, 6, 7, 8, 9], range(1, 7)),
        ({1: "Every day", 2: "More than once a week", 3: "Once a week", 4: "Monthly", 5: "Holy days",
          6: "Less often", 7: "Never", 77: "Refusal", 88: "Don't know", 99: "No answer"},
         [1, 2, 3, 4, 5, 6, 7, 77, 88, 99], range(1, 8)),
        ({1: "Yes", 2: "No", 6: "Not applicable", 7: "Refusal", 8: "Don't know", 9: "No answer"},
         [1, 2, 6, 7, 8, 9], (1, 2)),
        ({0: "Not at all", 10: "Extremely", 77: "Refusal", 88: "Don't know"},
         [0, 3, 6, 7, 8, 9, 10, 77, 88], range(11)),
        ({1: "Always", 2: "Often", 3: "Sometimes", 4: "Never", 5: "Whenever it applies"},
         [1, 2, 3, 4, 5], range(1, 6)),
    ],
)  # fmt: skip
def test_the_items_own_labels_go_before_the_habit_of_the_survey(labels, values, codes):
    data = read(labels, values, preset="ess")
    assert list(scale(data)) == list(codes)
    habits = [c for c in codes if c in (6, 7, 8, 9) and len(labels) > 5 and c in labels]
    for code in habits:
        assert any(f"code {code} " in n and "an answer by its label" in n for n in data.notes)
    assert all(isinstance(c, int) for c in scale(data))


def test_an_eight_point_scale_keeps_its_eighth_point():
    labels = {
        1: "Never", 2: "Less than once a year", 3: "Once a year", 4: "Several times a year",
        5: "Once a month", 6: "2-3 times a month", 7: "Nearly every week", 8: "Every week",
        9: "Several times a week", 98: "Don't know", 99: "No answer", 0: "NAP",
    }  # fmt: skip
    data = read(labels, [*range(10), 98, 99], preset="issp-religion", weight="none")
    assert list(scale(data)) == list(range(1, 10))
    assert scale(data)[6] == "2-3 times a month"
    assert reasons(data) == {"not applicable": 2, "don't know": 2, "no answer": 2}


def test_the_files_declaration_goes_before_the_habit():
    written = {"missing_ranges": {"q": [4, 9]}}
    labels = AGREE | {4: "Some other view", 9: "Lost"}
    data = read(labels, [1, 2, 3, 4, 9], written=written)
    assert scale(data) == AGREE
    assert reasons(data) == {"declared missing in the file": 4}
    assert any("declared missing in the file: 4 'Some other view'" in n for n in data.notes)


# -- codes before labels ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({1: "1 hour", 2: "2 hours", 3: "3 hours or more"}, None),
        ({0: "No children", 1: "1 child", 2: "2 or more children"}, None),
        ({1: "1-2 times", 2: "2-3 times"}, None),
        ({1: "1.5 hours", 2: "2.5 hours"}, None),
        ({1: "1st choice", 2: "2nd choice"}, None),
        ({10: "10% or less", 11: "More"}, None),
        ({1: "1 Stunde", 2: "2 Stunden"}, None),
        ({1: "1. Agree", 2: "2. Disagree"}, {1: "Agree", 2: "Disagree"}),
        ({1: "(1) Agree", 2: "2) Disagree"}, {1: "Agree", 2: "Disagree"}),
        ({1: "1 Agree", 2: "2 Disagree", 8: "8 Don't know"}, {1: "Agree", 2: "Disagree"}),
        ({1: "1 - Agree", 2: "2 – Disagree"}, {1: "Agree", 2: "Disagree"}),
        ({1: "01. Agree", 2: "02. Disagree"}, {1: "Agree", 2: "Disagree"}),
        ({1: "1=1 hour", 2: "2=2 hours"}, {1: "1 hour", 2: "2 hours"}),
    ],
)
def test_a_number_at_the_start_is_the_code_only_if_something_shows_it(labels, expected):
    codes = [c for c in labels if c != 8]
    data = read(labels, [*codes, *(c for c in labels if c == 8)])
    assert scale(data) == (expected or labels)


# -- Stata's letters, and text ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "label", "preset", "reason"),
    [
        ("a", "Refusal", "ess", "refused"),
        ("b", "Don't know", "ess", "don't know"),
        ("c", "No answer", "ess", "no answer"),
        ("d", "Not available", "ess", "not asked"),
        ("i", "Don't know", "gss", "don't know"),
        ("a", "Weiß nicht", "issp-religion", "don't know"),
        ("z", "Prefer not to say", "generic", "refused"),
        ("a", "Purple", "ess", "not applicable"),
    ],
)
def test_a_letter_means_what_its_label_says(letter, label, preset, reason):
    values = pd.Series([1, 2, 3, letter], dtype=object).tolist()
    written = {"missing_user_values": {"q": [letter]}, "version": 15}
    settings = {"columns": {"year": "year"}} if preset == "gss" else {}
    data = read(AGREE | {letter: label}, values, "x.dta", preset, written, **settings)
    assert scale(data) == AGREE
    assert reasons(data) == {reason: 2}


def test_numbers_stored_as_text_are_codes():
    data = read({"1": "Agree", "2": "Neither", "3": "Disagree", "9": "No answer"}, list("1239"))
    assert scale(data) == AGREE
    assert reasons(data) == {"no answer": 2}


def test_a_question_stored_as_text_is_listed_with_what_to_do():
    labels = {"A": "Agree", "B": "Neither", "C": "Disagree", "X": "Don't know"}
    write(labels, list("ABCX"))
    found = cc.explain("x.sav", preset="generic")
    assert list(found.text) == ["q"]
    assert "q,1,Agree,A; q,2,Neither,B; q,3,Disagree,C" in found.text["q"]
    with pytest.raises(SourceError, match=r"x\.sav, q: its answers are stored as text \('A'"):
        survey_microdata("x.sav", variables=["q"])
    rows = ["variable,code,label,aliases", "q,1,Agree,A", "q,2,Neither,B", "q,3,Disagree,C"]
    Path("items.csv").write_text("\n".join(rows) + "\n")
    data = survey_microdata("x.sav", items="items.csv")
    assert data.respondents["q"].to_pylist()[:4] == [1, 2, 3, None]
    assert reasons(data) == {"don't know": 2}


def test_a_label_on_nothing_is_no_code():
    frame = pd.DataFrame({"country": [8.0] * 4, "year": [1999.0] * 4, "q": [1.0, 2.0, 1.0, 2.0]})
    labels = {1.0: "Yes", 2.0: "No", float("nan"): "System"}
    pyreadstat.write_sav(
        frame, "x.sav", variable_value_labels={"q": labels}, column_labels=["a"] * 3
    )
    assert scale(survey_microdata("x.sav", variables=["q"])) == {1: "Yes", 2: "No"}


# -- names that match nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": {"p": [1, 2, 3]}}, "order names p, which is no question of this source"),
        ({"confirmed": ["nosuch"]}, "confirmed names nosuch"),
        ({"reverse": ["nosuch"]}, "reverse names nosuch"),
        ({"reverse": ["q"]}, r"reverse turns .* comes from the file's labels"),
    ],
)
def test_names_of_questions_that_match_nothing_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        read(AGREE, [1, 2, 3], **settings)


def test_order_and_reverse_act_on_questions_of_a_catalog():
    rows = "variable,text,code,label\nq,Well?,1,Agree\nq,Well?,2,Neither\nq,Well?,3,Disagree\n"
    Path("items.csv").write_text(rows)
    settings = {"items": "items.csv", "variables": ["q"]}
    data = read(AGREE, [1, 2, 3], order={"Q": [2, 1, 3]}, **settings)
    assert (list(scale(data)), data.items[0].positions) == ([2, 1, 3], (1.0, 2.0, 3.0))
    turned = {1: "Disagree", 2: "Neither", 3: "Agree"}
    data = read(turned, [1, 2, 3], reverse=["Q"], **settings)
    assert data.respondents["q"].to_pylist()[:3] == [3, 2, 1]
    with pytest.raises(ConfigurationError, match=r"order\] q = \[0, 1\] does not list"):
        read(AGREE, [1, 2, 3], order={"q": [0, 1]}, **settings)
