"""The files of each survey, as their documentation describes them."""

from __future__ import annotations

import chronocore_data

from .population import Question
from .writing import Layout

__all__ = [
    "ISSP_FILES",
    "WVS_CODES",
    "ess",
    "evs_trend",
    "gss",
    "issp",
    "ivs",
    "plain",
    "questions_of",
    "wvs_timeseries",
    "wvs_wave7",
]

#: Missing codes of the value surveys, by reason.
WVS_CODES = {
    "don't know": -1,
    "no answer": -2,
    "not applicable": -3,
    "not asked": -4,
    "other missing": -5,
}
WVS_LABELS = {
    -1: "Don't know",
    -2: "No answer",
    -3: "Not applicable",
    -4: "Not asked",
    -5: "Missing; Unknown",
}
NAMES = {
    "8": "Albania", "32": "Argentina", "56": "Belgium", "170": "Colombia", "203": "Czechia",
    "276": "Germany", "752": "Sweden", "826": "Great Britain", "840": "United States",
    "909": "Northern Ireland", "914": "Unnamed", "392": "Japan",
}  # fmt: skip
ALPHA3 = {
    "8": "ALB", "32": "ARG", "56": "BEL", "170": "COL", "203": "CZE", "276": "DEU", "752": "SWE",
    "826": "GBR", "840": "USA", "909": "NIR", "914": "XXX", "392": "JPN",
}  # fmt: skip
ALPHA2 = {
    "8": "AL", "32": "AR", "56": "BE", "170": "CO", "203": "CZ", "276": "DE", "752": "SE",
    "826": "GB-GBN", "840": "US", "909": "GB-NIR", "914": "XX", "392": "JP",
}  # fmt: skip


def _catalog():
    by_variable = {}
    for row in chronocore_data.catalog("wvs"):
        by_variable.setdefault(row["variable"], []).append(row)
    return by_variable


def questions_of(*variables: str) -> list[Question]:
    """Return questions of the catalog of the value surveys."""
    catalog = _catalog()
    return [
        Question(
            variable,
            tuple(int(r["code"]) for r in catalog[variable] if r["off_scale"] == "no"),
            tuple(r["label"] for r in catalog[variable] if r["off_scale"] == "no"),
            tuple(int(r["code"]) for r in catalog[variable] if r["off_scale"] == "yes"),
        )
        for variable in variables
    ]


def _code(person, question, codes):
    """Return the code a file has for a person's answer."""
    if question.variable in person.answers:
        return person.answers[question.variable]
    reason = person.reasons[question.variable]
    return question.off_scale[0] if reason == "off" else codes[reason]


def _labelled(question):
    labels = dict(zip(question.codes, question.labels, strict=True))
    return {**labels, **{code: f"Other answer {code}" for code in question.off_scale}}


def _value_survey(people, questions, columns):
    """Lay out the columns of a trend file, with labels and user-missing codes."""
    layout = Layout(columns=columns, letters={-1: "a", -2: "b", -3: "c", -4: "d", -5: "e"})
    for question in questions:
        layout.columns[question.variable] = [_code(p, question, WVS_CODES) for p in people]
        layout.labels[question.variable] = f"Question {question.variable}"
        layout.value_labels[question.variable] = {**WVS_LABELS, **_labelled(question)}
        layout.missing[question.variable] = [{"lo": -99, "hi": -1}]
    return layout


def wvs_timeseries(people, questions, *, lower=False) -> Layout:
    """World Values Survey time series: S002VS, S003, COUNTRY_ALPHA, S020, S017 and items."""
    total = sum(p.weight for p in people if p.weight is not None and p.weight > 0)
    columns = {
        "version": ["5-0-0"] * len(people),
        "doi": ["doi.org/10.14281/18241.22"] * len(people),
        "S001": [2] * len(people),
        "S002VS": [p.wave for p in people],
        "S003": [int(p.country) for p in people],
        "COUNTRY_ALPHA": [ALPHA3[p.country] for p in people],
        "COW_NUM": [int(p.country) + 1000 for p in people],
        "S006": [p.number % 50 for p in people],
        "S007": [p.number for p in people],
        "S012": [p.year * 10000 + 615 for p in people],
        "S020": [p.year for p in people],
        "S024": [int(p.country) * 10 + (p.wave or 0) for p in people],
        "S025": [int(p.country) * 10000 + p.year for p in people],
        "S017": [p.weight for p in people],
        "S018": [None if p.weight is None else p.weight * 1000 / total for p in people],
        "PWGHT": [1.0] * len(people),
    }
    layout = _value_survey(people, questions, columns)
    # What no study wants: behaviour, demographics, an index, an inverted copy.
    layout.columns["A062"] = [1 + p.number % 3 for p in people]
    layout.columns["X001"] = [1 + p.number % 2 for p in people]
    layout.columns["Y002"] = [1 + p.number % 3 for p in people]
    layout.columns["A008P"] = [1 + p.number % 4 for p in people]
    layout.value_labels["S003"] = {int(c): NAMES[c] for c in {p.country for p in people}}
    if lower:
        layout.columns = {name.lower(): column for name, column in layout.columns.items()}
        layout.value_labels = {k.lower(): v for k, v in layout.value_labels.items()}
        layout.labels = {k.lower(): v for k, v in layout.labels.items()}
        layout.missing = {k.lower(): v for k, v in layout.missing.items()}
    return layout


def wvs_wave7(people, questions) -> Layout:
    """World Values Survey wave 7: B_COUNTRY, A_YEAR, W_WEIGHT, Q1 ... in its own codes."""
    catalog = _catalog()
    layout = Layout(
        columns={
            "version": ["6-0"] * len(people),
            "A_STUDY": [2] * len(people),
            "A_WAVE": [7] * len(people),
            "A_YEAR": [p.year for p in people],
            "B_COUNTRY": [int(p.country) for p in people],
            "B_COUNTRY_ALPHA": [ALPHA3[p.country] for p in people],
            "D_INTERVIEW": [858069901 if p.number < 4 else p.number for p in people],
            "J_INTDATE": [p.year * 10000 + 315 for p in people],
            "W_WEIGHT": [p.weight for p in people],
            "S018": [1.0] * len(people),
        },
        letters={-1: "a", -2: "b", -3: "c", -4: "d", -5: "e"},
    )
    for question in questions:
        row = catalog[question.variable][0]
        name = row["wave7_question"]
        to_trend = dict(pair.split(":") for pair in row["recode"].split(";") if pair)
        to_file = {int(trend): int(own) for own, trend in to_trend.items()}
        # Where 2 means "no", there is no 2 for "it depends": such people do not answer.
        taken = set(to_file.values()) & set(question.off_scale)
        own = [_code(p, question, WVS_CODES) for p in people]
        own = [WVS_CODES["don't know"] if code in taken else code for code in own]
        layout.columns[name] = [to_file.get(code, code) for code in own]
        layout.labels[name] = f"Question {name}"
        named = {
            to_file.get(code, code): label
            for code, label in _labelled(question).items()
            if code not in taken
        }
        layout.value_labels[name] = {**WVS_LABELS, **named}
        layout.missing[name] = [{"lo": -99, "hi": -1}]
        # The inverted edition has the same question once more, the other way round.
        layout.columns[f"{name}P"] = [c if c < 0 else max(named) - c for c in layout.columns[name]]
    return layout


def evs_trend(people, questions) -> Layout:
    """European Values Study trend file: S002EVS, S003, S009 (GB-NIR), S020, S017."""
    columns = {
        "S001": [1] * len(people),
        "S002EVS": [p.wave for p in people],
        "s002vs": [-4] * len(people),
        "S003": [int(p.country) for p in people],
        "S009": [ALPHA2[p.country] for p in people],
        "S006": [p.number for p in people],
        "S007": [p.number for p in people],
        "S020": [p.year for p in people],
        "S017": [p.weight for p in people],
        "S019": [1] * len(people),
        "x049a": [-4] * len(people),
    }
    return _value_survey(people, questions, columns)


def ivs(people, questions) -> Layout:
    """Integrated Values Surveys: S001 tells the study, each has a wave column of its own."""
    evs = [p.study == "evs" for p in people]
    columns = {
        "S001": [1 if e else 2 for e in evs],
        "S002EVS": [p.wave if e else -4 for p, e in zip(people, evs, strict=True)],
        "S002VS": [-4 if e else p.wave for p, e in zip(people, evs, strict=True)],
        "S003": [int(p.country) for p in people],
        "COUNTRY_ALPHA": ["" if e else ALPHA3[p.country] for p, e in zip(people, evs, strict=True)],
        "S009": [ALPHA2[p.country] if e else "" for p, e in zip(people, evs, strict=True)],
        "S007_01": [p.number for p in people],
        "S020": [p.year for p in people],
        "S017": [p.weight for p in people],
        "S019": [1.0 if e else 1500.0 for e in evs],
    }
    return _value_survey(people, questions, columns)


#: Preset -> file, year column, how the names are written.
ISSP_FILES = {
    "issp-role-of-government": ("ZA4747_v2-1-0", "year_sdno", str.lower),
    "issp-national-identity": ("ZA5960_v1-0-0", "YEAR_SDNO", str.upper),
    "issp-social-inequality": ("ZA8790_v1-0-0", "year", str.upper),
    "issp-religion": ("ZA8792_v2-0-0", "year", str.upper),
    "issp-environment": ("ZA8793_v1-1-0", "year", str.lower),
    "issp-health": ("ZA8794_v1-0-0", "year", str.upper),
    "issp-family": ("ZA8795_v1-0-0", "year", str.upper),
    "issp-work-orientations": ("ZA8797_v1-0-0", "year", str.upper),
}

ISSP_CODES = {"not applicable": 0, "don't know": 8, "no answer": 9, "not asked": None}
ISSP_LABELS = {0: "NAP", 8: "Don't know", 9: "No answer"}


def issp(people, questions, preset) -> Layout:
    """Cumulation of an ISSP module: country (5-digit samples), module year, WEIGHT, V#."""
    study, year, case = ISSP_FILES[preset]
    names = {
        "82601": "GB-GBN Great Britain", "82602": "GB-NIR Northern Ireland",
        "37601": "IL-J-Jews", "37602": "IL-A-Arabs", "5601": "BE-FLA-Flanders",
    }  # fmt: skip
    countries = {p.country for p in people}
    labels = {int(c): names.get(c) or f"{c}. {ALPHA2[c][:2]}-{NAMES[c]}" for c in sorted(countries)}
    layout = Layout(
        columns={
            case("studyno"): [int(study[2:6])] * len(people),
            case("id"): [p.number for p in people],
            case("country"): [int(p.country) for p in people],
            year: [p.year for p in people],
            case("weight"): [p.weight for p in people],
        },
        value_labels={case("country"): labels},
    )
    for question in questions:
        name = case(question.variable.split("_")[1])
        layout.columns[name] = [_code(p, question, ISSP_CODES) for p in people]
        layout.labels[name] = f"Wording of {question.variable}"
        layout.value_labels[name] = {**_labelled(question), **ISSP_LABELS}
        layout.missing[name] = [0, 8, 9]
    return layout


GSS_CODES = {"not applicable": -100, "don't know": -98, "no answer": -99, "not asked": -100}


def gss(people, questions) -> Layout:
    """General Social Survey: lower-case names, letters for what is missing, three weights."""
    early = [p.year <= 2018 for p in people]
    layout = Layout(
        columns={
            "year": [p.year for p in people],
            "id": [p.number for p in people],
            "ballot": [1 + p.number % 3 for p in people],
            "wtssall": [p.weight if e else None for p, e in zip(people, early, strict=True)],
            "wtssps": [None if e else p.weight for p, e in zip(people, early, strict=True)],
            "vstrat": [p.stratum for p in people],
            "vpsu": [p.psu for p in people],
        },
        letters={-100: "i", -98: "d", -99: "n"},
    )
    for question in questions:
        name = question.variable.lower()
        layout.columns[name] = [_code(p, question, GSS_CODES) for p in people]
        layout.labels[name] = f"wording of {name}"
        layout.value_labels[name] = {
            **_labelled(question), -100: "iap", -98: "don't know", -99: "no answer",
        }  # fmt: skip
    return layout


def ess(people, questions) -> Layout:
    """European Social Survey: essround, cntry, anweight, stratum, psu."""
    layout = Layout(
        columns={
            "essround": [(p.year - 2000) // 2 for p in people],
            "cntry": [ALPHA2[p.country][:2] for p in people],
            "idno": [p.number for p in people],
            "dweight": [1.0] * len(people),
            "pspwght": [None if p.weight is None else p.weight / 2 for p in people],
            "pweight": [2.0] * len(people),
            "anweight": [p.weight for p in people],
            "stratum": [p.stratum for p in people],
            "psu": [p.psu for p in people],
        }
    )
    for question in questions:
        wide = len(question.codes) > 9
        codes = {
            "not applicable": 66 if wide else 6,
            "don't know": 88 if wide else 8,
            "no answer": 99 if wide else 9,
            "not asked": None,
        }
        layout.columns[question.variable] = [_code(p, question, codes) for p in people]
        layout.labels[question.variable] = f"Wording of {question.variable}"
        layout.value_labels[question.variable] = {
            **_labelled(question),
            **{code: reason.capitalize() for reason, code in codes.items() if code is not None},
        }
    return layout


def plain(people, questions) -> Layout:
    """A survey of the user's own: nation, wave_no, when, w and questions with text codes."""
    columns = {
        "nation": [p.country for p in people],
        "round": [p.wave for p in people],
        "when": [p.year for p in people],
        "w": [p.weight for p in people],
    }
    layout = Layout(columns=columns)
    for question in questions:
        spelled = []
        for person in people:
            code = person.answers.get(question.variable)
            # One code, however it is written.
            forms = [f"{code}", f" {code}", f"{code}.0"] if code is not None else ["-7"]
            spelled.append(forms[person.number % len(forms)])
        layout.columns[question.variable] = spelled
    return layout
