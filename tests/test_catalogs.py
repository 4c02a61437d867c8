"""The item catalog of the value surveys holds together and says what it leaves out."""

from __future__ import annotations

from itertools import groupby

import pytest

import chronocore_data
from chronocore.engines.base import Option
from chronocore.sources import Item

ROWS = chronocore_data.catalog("wvs")
ITEMS = {v: list(rows) for v, rows in groupby(ROWS, key=lambda row: row["variable"])}
EXCLUDED = chronocore_data.catalog_exclusions("wvs")

TOPICS = {
    "Social values, attitudes and stereotypes",
    "Happiness and well-being",
    "Social capital, trust and organizational membership",
    "Economic values",
    "Perceptions of migration",
    "Perceptions of security",
    "Perceptions of science and technology",
    "Religious values",
    "Ethical values and norms",
    "Political interest and political participation",
    "Political culture and political regimes",
}
BROAD = {
    "Government, democracy, and institutions",
    "Religion and national identity",
    "Social inequality, work, and economic values",
    "Family, health, and social attitudes",
    "Environment, science, and technology",
}


def scale(rows):
    return [row for row in rows if row["off_scale"] == "no"]


def test_rows_of_an_item_stand_together_and_variables_are_unique():
    order = [row["variable"] for row in ROWS]
    assert len([v for v, _ in groupby(order)]) == len(set(order)) == 265


def test_every_item_is_an_ordered_scale():
    for variable, rows in ITEMS.items():
        options = scale(rows)
        codes = [int(row["code"]) for row in options]
        positions = [float(row["position"] or row["code"]) for row in options]
        # Raises unless positions rise and codes differ.
        Item(
            "wvs", variable, "", rows[0]["text"], None, None,
            tuple(Option(c, r["label"]) for c, r in zip(codes, options, strict=True)),
            tuple(positions),
        )  # fmt: skip
        if not any(row["position"] for row in options):
            assert codes == sorted(codes), variable
        else:
            assert codes != sorted(codes), f"{variable}: positions without a reason"
        off = [row for row in rows if row["off_scale"] == "yes"]
        assert rows == options + off, variable
        assert not set(codes) & {int(row["code"]) for row in off}


def test_labels_and_aliases_are_unambiguous():
    for variable, rows in ITEMS.items():
        spellings: dict[str, str] = {}
        for row in rows:
            own = [row["label"], *filter(None, row["aliases"].split(";"))]
            for spelling in {" ".join(text.split()).casefold() for text in own}:
                assert spellings.setdefault(spelling, row["code"]) == row["code"], variable
            assert row["label"].strip() == row["label"] != ""


def test_what_holds_for_an_item_is_the_same_in_all_its_rows():
    for variable, rows in ITEMS.items():
        for column in (
            "other_names", "wave7_question", "text", "text_source", "topic", "topic_broad",
            "order", "status", "recode",
        ):  # fmt: skip
            assert len({row[column] for row in rows}) == 1, (variable, column)
        one = rows[0]
        assert one["text"].endswith((".", "?", '"')), one["text"]
        assert one["text_source"]
        assert one["order"].startswith(("low = ", "high = ")), variable
        assert one["topic"] in TOPICS
        assert one["topic_broad"] in BROAD
        assert one["status"] in ("confirmed", "partly", "unconfirmed")
        assert {row["off_scale"] for row in rows} <= {"yes", "no"}


def test_all_topics_are_in_use():
    assert {row["topic"] for row in ROWS} == TOPICS
    assert {row["topic_broad"] for row in ROWS} == BROAD


def test_wave_7_questions_are_unique_and_recodes_lead_to_the_scale():
    questions = [rows[0]["wave7_question"] for rows in ITEMS.values() if rows[0]["wave7_question"]]
    assert len(questions) == len(set(questions))
    for variable, rows in ITEMS.items():
        pairs = [p.split(":") for p in rows[0]["recode"].split(";") if p]
        if not pairs:
            continue
        assert rows[0]["wave7_question"], variable
        codes = {row["code"] for row in scale(rows)}
        assert {target for _, target in pairs} == codes, variable
        assert len({own for own, _ in pairs}) == len(pairs)


def test_nothing_excluded_is_in_the_catalog():
    names = set(ITEMS) | {n for r in ROWS for n in r["other_names"].split(";") if n}
    left_out = [row["variable"] for row in EXCLUDED]
    assert len(left_out) == len(set(left_out))
    assert not names & set(left_out)
    assert all(row["reason"] for row in EXCLUDED)


@pytest.mark.parametrize(
    ("variable", "codes", "off"),
    [
        ("A008", [1, 2, 3, 4], []),
        ("A029", [0, 1], []),
        ("A165", [1, 2], []),
        ("C001", [1, 3, 2], []),
        ("C002", [1, 3, 2], []),
        ("D066_B", [1, 3, 2], []),
        ("B008", [1, 2], [3]),
        ("E012", [0, 1], [2]),
        ("E018", [1, 2, 3], []),
        ("E025", [1, 2, 3], []),
        ("E224", list(range(1, 11)), [0]),
        ("E233B", list(range(1, 11)), [0]),
        ("F034", [1, 2, 3], [4]),
        ("F063", list(range(1, 11)), []),
        ("F200", [1, 2], [3, 4]),
        ("G006", [1, 2, 3, 4], [5]),
    ],
)
def test_scales_of_well_known_items(variable, codes, off):
    rows = ITEMS[variable]
    assert [int(row["code"]) for row in scale(rows)] == codes
    assert [int(row["code"]) for row in rows if row["off_scale"] == "yes"] == off


def test_an_item_whose_direction_is_in_doubt_needs_the_labels_of_the_file():
    rows = ITEMS["E037"]
    assert {row["status"] for row in rows} == {"unconfirmed"}
    # The wave-7 file is known to run the other way than the dictionary of the time series.
    assert rows[0]["recode"].startswith("1:10;2:9;")


def test_items_of_the_open_sample_have_the_same_codes_and_labels():
    shared = 0
    for entry in chronocore_data.open_sample()["item"]:
        rows = ITEMS.get(entry["variable"])
        # These two are recoded in the open sample.
        if (
            rows is None
            or not entry["dataset"].startswith("wvs")
            or entry["variable"] in ("E018", "A165")
        ):
            continue
        shared += 1
        assert [(o["code"], o["label"]) for o in entry["options"]] == [
            (int(row["code"]), row["label"]) for row in scale(rows)
        ]
        assert entry["text"] == rows[0]["text"]
        assert entry["topic"] == rows[0]["topic"]
        assert entry["topic_broad"] == rows[0]["topic_broad"]
    assert shared == 6


def test_indices_stand_beside_the_catalog_and_are_none_of_its_questions():
    indices = {
        v: list(rows)
        for v, rows in groupby(
            chronocore_data.catalog_indices("wvs"), key=lambda row: row["variable"]
        )
    }
    assert {v: [int(row["code"]) for row in rows] for v, rows in indices.items()} == {
        "E003": [1, 2, 3, 4],
        "E004": [1, 2, 3, 4],
        "Y002": [1, 2, 3],
        "Y003": [-2, -1, 0, 1, 2],
    }
    assert not set(indices) & set(ITEMS)
    assert {v for v, rows in indices.items() if rows[0]["order"] == "nominal"} == {"E003", "E004"}
