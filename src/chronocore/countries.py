"""Country codes as the surveys use them: spellings, names, regions and order."""

from __future__ import annotations

import re
from functools import cache

import chronocore_data

__all__ = [
    "REGIONS",
    "country_code",
    "country_code_of_name",
    "country_label_parts",
    "country_name",
    "country_order",
    "country_unit",
    "region_of",
]

#: The seven regions of ChronoCulture, appendix C.4.
REGIONS: tuple[str, ...] = (
    "Western",
    "Eastern Europe and Central Asia",
    "Latin America",
    "East Asia",
    "South and Southeast Asia",
    "Middle East and North Africa",
    "Sub-Saharan Africa",
)

# "124. CA-Canada", "DE-Germany", "GB-GBN Great Britain", "IL-J-Jews", "Canada"
_LABEL = re.compile(
    r"^\s*(?:\d+\s*[.:)]\s*)?(?:(?P<code>[A-Z]{2}(?:-[A-Z]{1,3}(?=[\s:.-]))?)\s*[-:. ]\s*(?=\S))?"
    r"(?P<name>.*?)\s*$"
)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


@cache
def _rows() -> list[dict[str, str]]:
    # Samples share their state's ISO codes; the states come first and keep them.
    kinds = {"country": 0, "former": 1, "sample": 2}
    return sorted(chronocore_data.regions(), key=lambda row: kinds[row["kind"]])


@cache
def _by_code() -> dict[str, tuple[str, str, str]]:
    """Map every code a survey uses for a country to its name, its region and its kind."""
    table: dict[str, tuple[str, str, str]] = {}
    for row in _rows():
        codes = [*_split(row["survey_codes"]), *_split(row["alpha_codes"])]
        if row["kind"] != "sample":
            codes += [row["iso_numeric"], row["iso_alpha2"], row["iso_alpha3"]]
        for code in codes:
            if code:
                table.setdefault(code, (row["country_name"], row["region"], row["kind"]))
    return table


@cache
def _spellings() -> dict[str, str]:
    """Map alphabetic spellings of a unit to the one that is used."""
    return {
        code: spellings[0]
        for row in _rows()
        for spellings in [_split(row["alpha_codes"])]
        for code in spellings
    }


@cache
def _by_name() -> dict[str, str]:
    """Map names, case-folded, to the numeric code; a sample's own code before its state's."""
    table: dict[str, str] = {}
    for row in _rows():
        codes = [*_split(row["survey_codes"]), *_split(row["alpha_codes"])]
        iso = row["iso_numeric"]
        code = iso if iso and row["kind"] != "sample" else next(iter(codes), iso)
        for name in [row["country_name"], *_split(row["other_names"])]:
            # A part of today's state stands before the dissolved state of the same name.
            if row["kind"] == "sample":
                table[name.casefold()] = code
            else:
                table.setdefault(name.casefold(), code)
    return table


def country_code(code: str) -> str:
    """Return the one spelling of a country code.

    Numbers lose leading zeros and an empty fraction; letters are upper-cased, and the spellings
    of one unit (``GB-NI``, ``GB-NIR``) become one. Nothing else is merged: 276, 278 and 280 stay
    apart, as do a state and its parts. An unknown code is returned as it is written.

    Examples
    --------
    >>> country_code(" 8.0"), country_code("gb-ni"), country_code("DE-E"), country_code("ZZ-9")
    ('8', 'GB-NIR', 'DE-E', 'ZZ-9')
    """
    text = code.strip()
    number = re.fullmatch(r"0*(\d+)(?:\.0*)?", text)
    if number:
        return number[1]
    letters = text.upper().replace("_", "-")
    return _spellings().get(letters, letters if letters.isascii() else text)


def country_code_of_name(name: str) -> str | None:
    """Return the numeric code of a country that a file only names, or None if it is unknown.

    A sub-national sample gives its survey's own code.

    Examples
    --------
    >>> country_code_of_name("Czech Republic"), country_code_of_name("East Germany")
    ('203', '901')
    """
    return _by_name().get(" ".join(name.split()).casefold())


def country_label_parts(label: str) -> tuple[str | None, str]:
    """Split a country label into its alphabetic code, if it has one, and its name.

    Examples
    --------
    >>> country_label_parts("124. CA-Canada"), country_label_parts("GB-GBN Great Britain")
    (('CA', 'Canada'), ('GB-GBN', 'Great Britain'))
    >>> country_label_parts("United States")
    (None, 'United States')
    """
    match = _LABEL.match(label)
    if match is None or not match["name"]:
        return None, label.strip()
    code = match["code"]
    if code is not None and region_of(code) is None:
        # Two capital letters that are no country: a part of the name.
        return None, label.strip()
    return (None if code is None else country_code(code)), match["name"]


def country_name(code: str) -> str | None:
    """Return the name of a country code, or None if it is unknown."""
    entry = _by_code().get(country_code(code))
    return None if entry is None else entry[0]


def country_unit(code: str) -> tuple[str, str] | None:
    """Return the name and the kind (country, former, sample) of what a code stands for.

    Codes of one unit are spellings of each other; a former state is not the sample of its name.

    Examples
    --------
    >>> country_unit("752") == country_unit("SE"), country_unit("278") == country_unit("DE-E")
    (True, False)
    """
    entry = _by_code().get(code)
    return None if entry is None else (entry[0], entry[2])


def region_of(code: str) -> str | None:
    """Return the region of a country code, or None if it is unknown.

    Sub-national alphabetic codes (``DE-E``) belong to their country's region.
    """
    spelled = country_code(code)
    entry = _by_code().get(spelled) or _by_code().get(spelled.split("-")[0])
    return None if entry is None else entry[1]


def country_order(code: str) -> tuple[int, int, str]:
    """Return a sort key: integer codes as numbers, before text."""
    return (0, int(code), "") if code.isdecimal() else (1, 0, code)
