"""Cells of CSV, Markdown and LaTeX hold text and nothing else, whatever the text is."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.markup import csv_text, latex_text, markdown_name, markdown_text
from chronocore.tables import TABLES, format_table

FORMULAS = ("=1+1", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u200b=1")


@given(st.lists(st.one_of(st.text(), st.sampled_from(FORMULAS)), min_size=1, max_size=4))
def test_no_text_of_a_csv_file_begins_a_formula_and_every_row_is_one_line(texts):
    lines = csv_text(texts, [texts]).splitlines()
    rows = list(csv.reader(io.StringIO("\n".join(lines), newline="")))
    assert len(lines) == 2
    for row in rows:
        assert len(row) == len(texts)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", " ")) for cell in row)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_of_a_csv_file_stay_numbers(values):
    rows = list(csv.reader(io.StringIO(csv_text(["x"], [[v] for v in values]))))
    assert [float(cell) for (cell,) in rows[1:]] == values


@given(st.text())
def test_a_cell_of_markdown_has_no_bar_and_no_tag(text):
    for cell in (markdown_text(text), markdown_name(text)):
        assert "<" not in cell
        assert "\n" not in cell
        assert "](" not in cell
        bars = cell.replace("\\\\", "").replace("\\|", "")
        assert "|" not in bars


@given(st.text())
def test_a_latex_text_has_no_command_but_ours(text):
    ours = ("textasciitilde", "textasciicircum", "textbackslash", "textless", "textgreater",
            "textbar", "times", "sigma")  # fmt: skip
    rest = latex_text(text)
    for name in ours:
        rest = rest.replace(f"\\{name}", "")
    for sign in "&%$#_{}":
        rest = rest.replace(f"\\{sign}", "")
    assert "\\" not in rest
    assert not set("&%#_^~") & set(rest)
    assert "\n" not in rest


@pytest.fixture(scope="module")
def hostile_study(built_study, tmp_path_factory):
    """Return a scored study whose run has a formula for a label."""
    import shutil

    path = tmp_path_factory.mktemp("hostile") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, "reference:persistence", name='=HYPERLINK("http://x","a|b")')
    cc.score(path, resamples=40)
    return path


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_tables_of_a_run_with_a_formula_for_a_label(hostile_study, form):
    found = 0
    for name, table in cc.tables(hostile_study).items():
        text = format_table(name, table, form)
        found += "HYPERLINK" in text
        assert not [line for line in text.splitlines() if ",=HYPERLINK" in line]
        assert ',"=HYPERLINK' not in text
        if form == "md":
            assert '"a|b"' not in text
    assert found > 5


def test_files_of_tables_are_escaped_too(hostile_study):
    files = list((hostile_study / "tables").glob("*.csv"))
    assert len(files) == len(TABLES)
    rows = [row for file in files for row in csv.reader(io.StringIO(file.read_text()))]
    assert any(cell.startswith("'=HYPERLINK") for row in rows for cell in row)
    assert not any(cell.startswith("=") for row in rows for cell in row)


def test_groups_and_topics_of_a_table_are_cleaned_where_it_is_laid_out():
    from chronocore import schema

    row = {"run_id": "r", "label": "\x1b[2Jrun", "prediction": "model", "survey": "all",
           "group": "=\x07topic\u202e", "item": None, "measure": "both", "unit": "%",
           "estimate": -1.5, "low": None, "high": None, "n": 30}  # fmt: skip
    table = pa.Table.from_pylist([row], schema=schema.TABLE)
    for name in TABLES:
        for form in ("csv", "md", "latex"):
            text = format_table(name, table, form)
            assert all(c.isprintable() or c == "\n" for c in text), (name, form)
    assert ",'= topic," in format_table("t08", table, "csv")
    assert ",-1.5," in format_table("t08", table, "csv")
