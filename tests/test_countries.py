"""Country codes, names and regions of the surveys."""

from __future__ import annotations

from collections import Counter

import pytest

import chronocore_data
from chronocore.countries import (
    REGIONS,
    country_code,
    country_code_of_name,
    country_label_parts,
    country_name,
    country_order,
    region_of,
)

ROWS = chronocore_data.regions()


def test_every_country_has_one_of_the_seven_regions():
    assert {row["region"] for row in ROWS} == set(REGIONS)
    assert Counter(row["kind"] for row in ROWS).keys() == {"country", "sample", "former"}
    for row in ROWS:
        assert row["doubtful"] in ("yes", "no")
        if row["doubtful"] == "yes":
            assert row["note"], row["country_name"]


def test_no_code_means_two_units():
    seen: dict[str, str] = {}
    for row in ROWS:
        codes = row["survey_codes"].split(";") + row["alpha_codes"].split(";")
        if row["kind"] != "sample":
            codes += [row["iso_numeric"], row["iso_alpha2"], row["iso_alpha3"]]
        for code in filter(None, codes):
            assert seen.setdefault(code, row["country_name"]) == row["country_name"], code


def test_iso_codes_are_well_formed():
    for row in ROWS:
        if row["kind"] == "country":
            assert len(row["iso_alpha2"]) == 2
            assert len(row["iso_alpha3"]) == 3
            assert row["iso_numeric"].isdecimal() or row["country_name"] == "Kosovo"
        for code in filter(None, row["alpha_codes"].split(";")):
            assert code == code.upper()


def test_every_country_of_the_surveys_is_found_by_each_of_its_codes():
    for row in ROWS:
        for column in ("iso_numeric", "iso_alpha2", "iso_alpha3"):
            if row["kind"] == "country" and row[column]:
                assert country_name(row[column]) == row["country_name"]
                assert region_of(row[column]) == row["region"]
        for code in filter(None, row["survey_codes"].split(";")):
            assert country_name(code) == row["country_name"]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("8", "Albania"),
        ("900", "West Germany"),
        ("901", "East Germany"),
        ("27601", "West Germany"),
        ("27602", "East Germany"),
        ("276", "Germany"),
        ("278", "East Germany"),
        ("280", "West Germany"),
        ("200", "Czechoslovakia"),
        ("203", "Czechia"),
        ("DE-E", "East Germany"),
        ("DE-W", "West Germany"),
        ("DE", "Germany"),
        ("GB-GBN", "Great Britain"),
        ("GB-NIR", "Northern Ireland"),
        ("GB-NI", "Northern Ireland"),
        ("82601", "Great Britain"),
        ("82602", "Northern Ireland"),
        ("826", "United Kingdom"),
        ("909", "Northern Ireland"),
        ("197", "Northern Cyprus"),
        ("196", "Cyprus"),
        ("915", "Kosovo"),
        ("37601", "Israel (Jewish population)"),
        ("37602", "Israel (Arab population)"),
        ("5601", "Flanders (Belgium)"),
        ("5602", "Wallonia (Belgium)"),
        ("5603", "Brussels (Belgium)"),
        ("891", "Serbia and Montenegro"),
        ("688", "Serbia"),
        ("914", None),
        ("101", None),
        ("ZZ", None),
    ],
)
def test_names_of_samples_former_states_and_unnamed_codes(code, name):
    assert country_name(code) == name
    assert (region_of(code) is None) == (name is None)


def test_parts_and_former_states_keep_their_own_code():
    units = ["276", "278", "280", "900", "901", "27601", "27602", "DE", "DE-E", "DE-W", "200"]
    assert [country_code(unit) for unit in units] == units


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("GB-NI", "GB-NIR"),
        ("GB-NIR", "GB-NIR"),
        ("gb-nir ", "GB-NIR"),
        ("NIR", "GB-NIR"),
        ("GB_GBN", "GB-GBN"),
        ("8.0", "8"),
        ("008", "8"),
        (" 8", "8"),
        ("276.1", "276.1"),
        ("NO", "NO"),
        ("no", "NO"),
    ],
)
def test_two_spellings_of_a_unit_are_one_code(written, code):
    assert country_code(written) == code
    assert country_code(code) == code


def test_a_part_without_a_row_of_its_own_has_its_states_region():
    assert region_of("RU-MOW") == "Eastern Europe and Central Asia"
    assert country_name("RU-MOW") is None


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("124. CA-Canada", ("CA", "Canada")),
        ("DE-Germany", ("DE", "Germany")),
        ("GB-GBN Great Britain", ("GB-GBN", "Great Britain")),
        ("GB-NIR-Northern Ireland", ("GB-NIR", "Northern Ireland")),
        ("82602. GB-NIR-Northern Ireland", ("GB-NIR", "Northern Ireland")),
        ("DE-E-Germany East", ("DE-E", "Germany East")),
        ("United States", (None, "United States")),
        ("Korea, South", (None, "Korea, South")),
        ("US-United States", ("US", "United States")),
        ("US", (None, "US")),
        ("DR Congo", (None, "DR Congo")),
        ("", (None, "")),
    ],
)
def test_the_three_forms_of_country_labels(label, parts):
    assert country_label_parts(label) == parts


def test_names_lead_to_codes_where_a_file_has_only_names():
    for row in ROWS:
        code = country_code_of_name(row["country_name"])
        assert code is not None
        assert country_name(code) == row["country_name"]
    assert country_code_of_name("vietnam") == country_code_of_name("Viet  Nam") == "704"
    assert country_code_of_name("Atlantis") is None


def test_integer_codes_sort_as_numbers_before_text():
    codes = ["DE-E", "100", "8", "GB-NIR", "27601"]
    assert sorted(codes, key=country_order) == ["8", "100", "27601", "DE-E", "GB-NIR"]
