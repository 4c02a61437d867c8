"""Files of a study that were swapped, edited, doubled or are missing are told by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.provenance import (
    ColumnDigests,
    JsonError,
    changed_column,
    described,
    remedy,
    sealed,
    unsealed,
)
from chronocore.sweep import load_sweep
from chronocore.tables import TABLES

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
            "x": st.one_of(st.none(), st.floats(allow_nan=False)),
            "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            "b": st.one_of(st.none(), st.booleans()),
            "p": st.one_of(st.none(), st.lists(st.floats(allow_nan=False), max_size=3)),
            "o": st.lists(st.fixed_dictionaries({"c": st.integers(0, 9), "l": st.text("ab")})),
        }
    ),
    min_size=1,
)
OPTIONS = pa.list_(pa.struct([pa.field("c", pa.int16()), pa.field("l", pa.string())]))
SCHEMA = pa.schema({"t": pa.string(), "x": pa.float64(), "n": pa.int64(), "b": pa.bool_(),
                    "p": pa.list_(pa.float64()), "o": OPTIONS})  # fmt: skip


@given(ROWS, st.integers(1, 5))
def test_digests_are_of_values_however_they_are_cut_and_stored(rows, size):
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    metadata = described(table, Path("x.parquet")).schema.metadata
    pieces = [table.slice(i, size) for i in range(0, len(table), size)]
    assert changed_column(pa.concat_tables(pieces), metadata) is None
    streamed = ColumnDigests()
    for piece in pieces:
        streamed.update(piece)
    assert streamed.changed(metadata) is None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    assert changed_column(pq.read_table(pa.BufferReader(sink.getvalue())), metadata) is None
    large = table.set_column(0, "t", table["t"].cast(pa.large_string()))
    assert changed_column(large, metadata) is None


@given(ROWS, st.data())
def test_any_changed_value_and_any_changed_number_of_rows_is_told(rows, data):
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    metadata = described(table, Path("x.parquet")).schema.metadata
    number = data.draw(st.integers(0, len(rows) - 1))
    other = {**rows[number], **data.draw(ROWS)[0]}
    edited = pa.Table.from_pylist([*rows[:number], other, *rows[number + 1 :]], schema=SCHEMA)
    told = changed_column(edited, metadata)
    assert (told is None) == (repr(edited.to_pylist()) == repr(table.to_pylist()))
    assert "as many rows" in changed_column(pa.concat_tables([table, table]), metadata)
    if len(rows) > 1:
        assert "as many rows" in changed_column(table.slice(1), metadata)


@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.floats(), st.text(), st.none())))
def test_sealed_json_is_read_as_it_was_and_tells_an_edit(data):
    data.pop("sha256", None)
    content = sealed(data)
    assert repr(unsealed(content)) == repr(json.loads(json.dumps(data)))
    edited = json.loads(content)
    edited["sha256x"] = 1
    with pytest.raises(JsonError, match="was changed"):
        unsealed(json.dumps(edited).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 99_999, b"\xff", b"1", b'{"a": 1}'])
def test_json_that_is_no_sealed_object_is_told(content):
    with pytest.raises(JsonError):
        unsealed(content)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("s/tables/t08.parquet", "chronocore score s"),
        ("s/scores/run=r1/scores.parquet", "chronocore score s"),
        ("s/sweep/part-1.parquet", "chronocore sweep s"),
        ("s/noise/respondents-effective.parquet", "chronocore noise s --n effective"),
        ("s/predictions/run=r/kind=dated/part-1.parquet", "the chronocore predict that asked"),
        ("s/gold.parquet", "chronocore build s"),
        ("s/manifest.json", "chronocore build s"),
    ],
)
def test_every_file_has_a_command_that_makes_it(path, command):
    assert command in remedy(Path(path))


# -- a whole study -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(built_study, tmp_path_factory):
    """Return a study with everything: two runs, noise, scores, a sweep."""
    path = tmp_path_factory.mktemp("whole") / "study"
    shutil.copytree(built_study, path)
    cc.predict(path, "reference:persistence")
    cc.predict(path, "reference:pooled")
    cc.noise(path, repeats=5, floor_repeats=20)
    cc.score(path, resamples=40)
    cc.sweep(path, resamples=40, tau=[0.1], retain=[1.0], boundaries=["default"])
    return path


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "study")
    return tmp_path / "study"


@pytest.mark.parametrize("shift", [1, 5, 11])
def test_no_table_is_shown_under_the_title_of_another(copy, shift):
    names = list(TABLES)
    contents = [(copy / "tables" / f"{name}.parquet").read_bytes() for name in names]
    moved = contents[shift:] + contents[:shift]
    for name, before, after in zip(names, contents, moved, strict=True):
        (copy / "tables" / f"{name}.parquet").write_bytes(after)
        assert before != after
        with pytest.raises(cc.StudyError, match=rf"{name}\.parquet is not.*run: chronocore score"):
            cc.tables(copy, name)


def test_a_file_says_what_it_is_without_the_study(copy):
    for name, path in (("t08.parquet", copy / "tables/t08.parquet"),
                       ("gold.parquet", copy / "gold.parquet")):  # fmt: skip
        metadata = pq.read_schema(path).metadata
        assert metadata[b"chronocore.file"] == name.encode()
        assert set(json.loads(metadata[b"chronocore.columns"])) > {"rows"}
    shutil.copy(copy / "tables/t08.parquet", copy / "tables/t09.parquet")
    with pytest.raises(cc.StudyError, match=r"was written as t08\.parquet"):
        cc.Study.open(copy).table("t09")


def rewrite(path, change):
    """Write a file anew as valid Parquet, with its metadata and other rows."""
    table = pq.ParquetFile(path).read()
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def _first(copy, pattern):
    return sorted(copy.glob(pattern))[0]


CHANGES = {
    "a row less": lambda table: table.slice(1),
    "a row twice": lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    "rows in another order": lambda table: table.take(list(range(len(table)))[::-1]),
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize(
    ("pattern", "use", "command"),
    [
        ("noise/*.parquet", cc.score, "chronocore noise"),
        ("sweep/*.parquet", lambda s: cc.sweep(
            s, resamples=40, tau=[0.1], retain=[1.0], boundaries=["default"]), "chronocore sweep"),
        ("tables/t08.parquet", cc.tables, "chronocore score"),
        ("scores/*/scores.parquet", lambda s: cc.report(s, formats=[]), "chronocore score"),
        ("runs.parquet", cc.status, "runs.parquet"),
        ("predictions/*/kind=dated/*.parquet", cc.score, "ask this model again"),
        ("gold.parquet", cc.status, "chronocore build"),
    ],
)  # fmt: skip
def test_edited_rows_are_told_with_file_and_command(copy, pattern, use, command, change):
    path = _first(copy, pattern)
    rewrite(path, CHANGES[change])
    with pytest.raises(cc.StudyError) as error:
        use(copy)
    assert str(path) in str(error.value)
    assert command in str(error.value)


def test_files_of_two_runs_and_two_scores_do_not_mix(copy, whole):
    a, b = sorted(copy.glob("scores/*/scores.parquet"))
    content = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(content)
    with pytest.raises(cc.StudyError, match=r"scores\.parquet is not the one"):
        cc.report(copy, formats=[])
    cc.score(copy, resamples=40, tau=0.2)
    shutil.copy(whole / "tables/t08.parquet", copy / "tables/t08.parquet")
    with pytest.raises(cc.StudyError, match=r"t08\.parquet is not the one that the last score"):
        cc.tables(copy, "t08")


@pytest.mark.parametrize(
    ("name", "command"),
    [("scores.json", "score"), ("sweep.json", "sweep"), ("manifest.json", "build")],
)
def test_an_edited_or_damaged_json_is_told_with_its_command(copy, name, command):
    def read():
        load_sweep(cc.Study.open(copy)) if name == "sweep.json" else cc.tables(copy, "t08")

    path = copy / name
    content = path.read_bytes()
    data = json.loads(content)
    damaged = [content[: len(content) // 2], b"", b"null", content.replace(b": ", b": 1", 1)]
    for key in [key for key in data if key != "sha256"][:12]:
        damaged.append(json.dumps({k: v for k, v in data.items() if k != key}).encode())
        damaged.append(json.dumps({**data, key: 7}).encode())
    for one in damaged:
        path.write_bytes(one)
        with pytest.raises(cc.StudyError, match=rf"{name}.*run: chronocore {command}"):
            read()
    path.write_bytes(content)
    cc.tables(copy, "t08")


def test_a_damaged_sweep_does_not_leave_the_report_without_a_word(copy):
    (copy / "sweep.json").write_text("{")
    with pytest.raises(cc.StudyError, match=r"sweep\.json cannot be used.*chronocore sweep"):
        cc.report(copy, formats=[])


def test_a_copied_part_is_told(copy):
    part = _first(copy, "predictions/*/kind=dated/*.parquet")
    shutil.copy(part, part.with_name(part.name.replace("part-", "part-9")))
    with pytest.raises(cc.StudyError, match="a copy, or files were swapped"):
        cc.score(copy)
