"""Country codes as the surveys use them: names, regions and order."""

from __future__ import annotations

from functools import cache

import chronocore_data

__all__ = ["REGIONS", "country_name", "country_order", "region_of"]

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


@cache
def _by_code() -> dict[str, tuple[str, str]]:
    """Map every code a survey uses for a country to its name and region."""
    table: dict[str, tuple[str, str]] = {}
    rows = chronocore_data.regions()
    # Sub-national samples share their state's ISO codes; the state comes first and keeps them.
    for row in sorted(rows, key=lambda r: "(" in r["country_name"]):
        codes = [row["iso_numeric"], row["iso_alpha2"], *row["survey_codes"].split(";")]
        for code in codes:
            if code:
                table.setdefault(code.strip(), (row["country_name"], row["region"]))
    return table


def country_name(code: str) -> str | None:
    """Return the name of a country code, or None if it is unknown."""
    entry = _by_code().get(code)
    return None if entry is None else entry[0]


def region_of(code: str) -> str | None:
    """Return the region of a country code, or None if it is unknown.

    Sub-national alphabetic codes (``DE-E``) belong to their country's region.
    """
    entry = _by_code().get(code) or _by_code().get(code.split("-")[0])
    return None if entry is None else entry[1]


def country_order(code: str) -> tuple[int, int, str]:
    """Return a sort key: integer codes as numbers, before text."""
    return (0, int(code), "") if code.isdecimal() else (1, 0, code)
