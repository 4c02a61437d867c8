"""Survey files of every format give the same columns, and say how they were read."""

from __future__ import annotations

import os
import struct

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore.errors import SourceError
from chronocore.sources.cache import cache_folder, read_columns
from chronocore.sources.files import (
    file_digest,
    open_frame,
    open_survey_file,
    parse_number,
    parse_text,
)
from chronocore.sources.presets import letter_code

pytestmark = pytest.mark.versions

pyreadstat = pytest.importorskip("pyreadstat")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def frame(n=50):
    return pl.DataFrame(
        {
            "S003": [8, 276] * (n // 2),
            "Q1": [1.0, 2.0, None, -1.0, 4.0] * (n // 5),
            "weight": [0.5, 1.25] * (n // 2),
            "alpha": ["ALB", "DEU"] * (n // 2),
        }
    )


LABELS = {"Q1": {1.0: "Very", 2.0: "Rather", 4.0: "Not", -1.0: "Don't know"}}


def write_sav(path, data, **options):
    pyreadstat.write_sav(data, str(path), **options)
    return path


def write_dta(path, data, version=15, **options):
    pyreadstat.write_dta(data, str(path), version=version, **options)
    return path


def read(path, columns=None, encoding=None):
    file = open_survey_file(path, encoding)
    return file, read_columns(file, file_digest(path), columns or file.columns)


def test_every_format_gives_the_same_columns(tmp_path):
    data = frame()
    write_sav(tmp_path / "a.sav", data)
    write_sav(tmp_path / "a.zsav", data, compress=True)
    write_dta(tmp_path / "a.dta", data)
    data.write_csv(tmp_path / "a.csv")
    data.write_csv(tmp_path / "a.tsv", separator="\t")
    data.write_parquet(tmp_path / "a.parquet")
    pa.feather.write_feather(data.to_arrow(), tmp_path / "a.feather")
    data.write_ipc(tmp_path / "a.arrow")
    expected = {
        "S003": data["S003"].to_list(),
        "Q1": data["Q1"].to_list(),
        "weight": data["weight"].to_list(),
        "alpha": data["alpha"].to_list(),
    }
    files = sorted(tmp_path.glob("a.*"))
    assert len(files) == 8
    for path in files:
        file, table = read(path)
        assert file.columns == ("S003", "Q1", "weight", "alpha")
        assert table.to_pydict() == expected, path.name
        assert str(table.schema.field("Q1").type) == "int8", path.name
        assert str(table.schema.field("S003").type) == "int16", path.name
    table = read_columns(open_frame(data, "frame"), None, ["S003", "Q1", "weight", "alpha"])
    assert table.to_pydict() == expected


def test_only_the_columns_asked_for_are_read_and_any_number_of_batches_is_the_same(
    tmp_path, monkeypatch
):
    data = frame(5000)
    path = write_sav(tmp_path / "a.sav", data)
    _, whole = read(path, ["Q1", "alpha"])
    assert whole.column_names == ["Q1", "alpha"]
    monkeypatch.setattr("chronocore.sources.files.CELLS_PER_CHUNK", 2000)
    monkeypatch.setenv("CHRONOCORE_CACHE", "0")
    assert len(list(open_survey_file(path).batches(["Q1", "alpha"]))) == 5
    _, parts = read(path, ["Q1", "alpha"])
    assert parts.to_pydict() == whole.to_pydict()


def test_the_cache_is_used_and_a_changed_file_is_read_again(tmp_path, monkeypatch):
    path = write_sav(tmp_path / "a.sav", frame())
    _, first = read(path, ["Q1"])
    (kept,) = cache_folder().glob("*.parquet")
    assert pq.read_schema(kept).names == ["Q1"]
    reads = []
    original = pyreadstat.read_sav
    monkeypatch.setattr(
        pyreadstat, "read_sav", lambda *a, **k: reads.append(k) or original(*a, **k)
    )
    _, second = read(path, ["Q1"])
    assert second.to_pydict() == first.to_pydict()
    assert all(call.get("metadataonly") for call in reads)
    write_sav(path, frame().with_columns(Q1=pl.lit(2.0)))
    _, third = read(path, ["Q1"])
    assert third["Q1"].to_pylist() == [2] * 50
    kept.write_bytes(b"damaged")
    write_sav(path, frame())
    assert read(path, ["Q1"])[1].to_pydict() == first.to_pydict()
    assert not list(cache_folder().glob(".*"))


def test_no_cache_is_kept_when_none_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv("CHRONOCORE_CACHE", "0")
    read(write_sav(tmp_path / "a.sav", frame()))
    assert not (tmp_path / "cache").exists()


def test_a_header_without_a_row_count_is_read_in_batches(tmp_path, monkeypatch):
    path = write_sav(tmp_path / "a.sav", frame(5000))
    content = bytearray(path.read_bytes())
    assert struct.unpack_from("<i", content, 80) == (5000,)
    struct.pack_into("<i", content, 80, -1)
    path.write_bytes(content)
    monkeypatch.setattr("chronocore.sources.files.CELLS_PER_CHUNK", 2000)
    file, table = read(path, ["S003", "Q1"])
    assert file.rows is None
    assert table["Q1"].to_pylist() == frame(5000)["Q1"].to_list()


def test_user_missing_ranges_are_the_same_whole_and_in_batches(tmp_path, monkeypatch):
    path = write_sav(
        tmp_path / "a.sav",
        frame(5000),
        missing_ranges={"Q1": [{"lo": float("-inf"), "hi": -1}, 4]},
        variable_value_labels=LABELS,
    )
    file, whole = read(path, ["Q1"])
    (low, high), single = file.user_missing["Q1"]
    assert low < -1e100
    assert (high, single) == (-1.0, (4.0, 4.0))
    assert file.value_labels["Q1"] == {1: "Very", 2: "Rather", 4: "Not", -1: "Don't know"}
    # Declared missing values come through as they are: why they are missing is decided later.
    assert set(whole["Q1"].to_pylist()) == {1, 2, 4, -1, None}
    monkeypatch.setattr("chronocore.sources.files.CELLS_PER_CHUNK", 1000)
    monkeypatch.setenv("CHRONOCORE_CACHE", "0")
    assert read(path, ["Q1"])[1].to_pydict() == whole.to_pydict()


def test_stata_letters_stay_apart_from_numbers(tmp_path):
    import pandas

    values = pandas.DataFrame({"q": pandas.Series([1, "a", 3, None, "e", 1], dtype=object)})
    path = write_dta(
        tmp_path / "a.dta",
        values,
        missing_user_values={"q": ["a", "e"]},
        variable_value_labels={"q": {1: "Yes", "a": "dk"}},
    )
    file, table = read(path)
    a, e = letter_code(".a"), letter_code("e")
    assert table["q"].to_pylist() == [1, a, 3, None, e, 1]
    assert file.value_labels["q"] == {1: "Yes", a: "dk"}


def test_a_column_of_nothing_but_letters_is_missing_and_one_of_text_is_text(tmp_path):
    import pandas

    values = pandas.DataFrame(
        {"q": pandas.Series(["a", "b"], dtype=object), "t": ["a", "b"], "n": ["1", " 2.0"]}
    )
    path = write_dta(tmp_path / "a.dta", values, missing_user_values={"q": ["a", "b"]})
    _, table = read(path)
    assert table["q"].to_pylist() == [letter_code("a"), letter_code("b")]
    assert table["t"].to_pylist() == ["a", "b"]
    assert table["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("version", [8, 12, 14])
def test_old_stata_files_are_read(tmp_path, version):
    path = write_dta(tmp_path / "a.dta", frame(), version=version)
    assert read(path, ["Q1"])[1]["Q1"].to_pylist() == frame()["Q1"].to_list()


def broken_text(path):
    """Put a byte that is no UTF-8 in place of a marked character."""
    content = path.read_bytes()
    assert b"Caf\xc3\xa9 au" in content
    path.write_bytes(content.replace(b"Caf\xc3\xa9 au", b"Caf\xe9\x97 au"))
    return path


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_text_in_another_encoding_falls_back_and_says_so(tmp_path, suffix):
    write = write_sav if suffix == "sav" else write_dta
    path = broken_text(
        write(
            tmp_path / f"a.{suffix}",
            frame(),
            column_labels={"Q1": "Café au lait"},
            variable_value_labels={"Q1": {1.0: "Café au lait"}},
        )
    )
    file = open_survey_file(path)
    assert (file.encoding, file.fallback) == ("cp1252", True)
    assert file.value_labels["Q1"] == {1: "Caf\u00e9\u2014 au lait"}
    with pytest.raises(SourceError, match=r"a\.(sav|dta) cannot be decoded.*encoding = "):
        open_survey_file(path, "utf-8")


def test_text_in_the_rows_falls_back_too_and_the_cache_remembers(tmp_path):
    data = frame().with_columns(alpha=pl.lit("Café au"))
    path = broken_text(write_sav(tmp_path / "a.sav", data))
    for _ in range(2):
        file, table = read(path, ["alpha"])
        assert set(table["alpha"].to_pylist()) == {"Caf\u00e9\u2014 au"}
        assert (file.encoding, file.fallback) == ("cp1252", True)


def test_csv_encodings(tmp_path):
    path = tmp_path / "a.csv"
    for content, encoding, fallback in (
        ("country,Q1\nCafé,1\n".encode(), "utf-8", False),
        ("\ufeffcountry,Q1\nCafé,1\n".encode(), "utf-8", False),
        ("country,Q1\nCafé,1\n".encode("cp1252"), "cp1252", True),
        ("country,Q1\nCaf\x81é,1\n".encode("latin1"), "latin1", True),
    ):
        path.write_bytes(content)
        file, table = read(path)
        assert (file.encoding, file.fallback) == (encoding, fallback)
        assert file.columns == ("country", "Q1")
        assert table["country"].to_pylist()[0].replace("\x81", "") == "Café"
    with pytest.raises(SourceError, match=r"a\.csv.*no encoding 'klingon'"):
        open_survey_file(path, "klingon")


def test_csv_headers_with_quotes_and_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"""S003""","Q1: Important: family","A, B"\n8,1,2\n')
    file, table = read(path)
    assert file.columns == ("S003", "Q1", "A, B")
    assert file.labels == {"Q1": "Important: family"}
    assert table.to_pydict() == {"S003": [8], "Q1": [1], "A, B": [2]}
    path.write_text('a,"two\nlines"\n1,"x\ny"\n2,z\n')
    assert read(path)[1].to_pydict() == {"a": [1, 2], "two\nlines": ["x\ny", "z"]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv_separators(tmp_path, separator):
    path = tmp_path / "a.txt"
    path.write_text(separator.join(["a", "b"]) + "\n" + separator.join(["1", "0.5"]) + "\n")
    assert read(path)[1].to_pydict() == {"a": [1], "b": [0.5]}


def test_a_comma_is_a_decimal_point_where_semicolons_separate(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("w;t\n0,934;x\n1,5;y\n")
    assert read(path)[1]["w"].to_pylist() == [0.934, 1.5]


def test_one_code_however_it_is_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('q,t\n1.0,1.0\n"1",yes\n 1,1\n1.,NA\n,.a\n.,\n')
    _, table = read(path)
    assert table["q"].to_pylist() == [1, 1, 1, 1, None, None]
    assert table["t"].to_pylist() == ["1.0", "yes", "1", "NA", ".a", None]
    assert parse_text(pa.array(["1e0", "+1", "-2"])).to_pylist() == [1.0, 1.0, -2.0]
    assert parse_number("1,200") is None


def test_a_column_that_turns_to_text_late_is_text_from_the_start(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("q\n" + "1\n" * 400_000 + "2.5\n" * 400_000 + "yes\n" * 400_000)
    monkeypatch.setattr("pyarrow.csv.ReadOptions", small_blocks(pa.csv.ReadOptions))
    file = open_survey_file(path)
    types = {str(batch.schema.field("q").type) for batch in file.batches(["q"])}
    assert types == {"double", "string"}
    found = read_columns(file, file_digest(path), ["q"])["q"].value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in found} == {
        "1": 400_000,
        "2.5": 400_000,
        "yes": 400_000,
    }


def small_blocks(options):
    return lambda **given: options(**{**given, "block_size": 1 << 18})


def test_wide_integers_and_fractions_keep_their_value(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,x\n20051231,0.1\n9007199254740991,1e30\n")
    _, table = read(path)
    assert table["id"].to_pylist() == [20051231, 9007199254740991]
    assert table["x"].to_pylist() == [0.1, 1e30]


def test_parquet_dictionaries_dates_and_nan(tmp_path):
    import datetime

    table = pa.table(
        {
            "q": pa.array(["1", "2", None]).dictionary_encode(),
            "when": pa.array([datetime.date(1999, 5, 1)] * 3),
            "w": pa.array([1.0, float("nan"), 2.0]),
            "flag": pa.array([True, False, None]),
            "empty": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    _, found = read(tmp_path / "a.parquet")
    assert found.to_pydict() == {
        "q": [1, 2, None],
        "when": [1999] * 3,
        "w": [1.0, None, 2.0],
        "flag": [1, 0, None],
        "empty": [None] * 3,
    }


def test_what_cannot_be_read_names_the_file(tmp_path):
    cases = {
        "a.sav": b"not spss",
        "a.dta": b"not stata",
        "a.parquet": b"not parquet",
        "a.feather": b"not arrow",
        "empty.csv": b"",
        "ragged.csv": b"a,b\n1,2\n1\n",
        "twice.csv": b"a,a\n1,2\n",
        "a.xlsx": b"",
    }
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(SourceError, match=name.replace(".", r"\.")):
            read(path)
    with pytest.raises(SourceError, match=r"there is no file .*none\.sav"):
        open_survey_file(tmp_path / "none.sav")
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n")
    with pytest.raises(SourceError, match=r"rows\.csv has no rows"):
        read(path)
    with pytest.raises(cc.InvalidInputError, match="Arrow-compatible"):
        open_frame([1, 2], "mine")
    nested = pa.table({"a": [[1], [2]]})
    with pytest.raises(SourceError, match=r"mine, column a.*holds no answers"):
        read_columns(open_frame(nested, "mine"), None, ["a"])


def test_an_error_names_the_line_the_folder_or_the_nearest_file(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("a,b\n1,2\n1,2\n1,2,3\n")
    with pytest.raises(
        SourceError, match=r"ragged\.csv, line 4: 3 fields where the header names 2.*1,2,3"
    ):
        read(path)
    (tmp_path / "folder.sav").mkdir()
    with pytest.raises(SourceError, match=r"folder\.sav is a folder; name a file in it"):
        open_survey_file(tmp_path / "folder.sav")
    with pytest.raises(SourceError, match=r"no file .*raged\.csv; its folder has ragged\.csv"):
        open_survey_file(tmp_path / "raged.csv")
    path.chmod(0)
    if not os.access(path, os.R_OK):  # the superuser reads it all the same
        with pytest.raises(SourceError, match=r"ragged\.csv cannot be read: Permission denied"):
            open_survey_file(path)
    with pytest.raises(SourceError, match=r"and no folder .*nowhere"):
        open_survey_file(tmp_path / "nowhere" / "a.csv")


def test_what_is_no_text_is_not_read_as_text(tmp_path):
    sav = write_sav(tmp_path / "a.sav", frame())
    path = tmp_path / "a.csv"
    path.write_bytes(sav.read_bytes())
    with pytest.raises(SourceError, match=r"a\.csv is no text.*encoding = \"utf-16-le\""):
        read(path)
    text = "q,ö\n1,ä\n2,ß\n"
    path.write_bytes(text.encode("utf-16"))
    file, table = read(path)
    assert (file.encoding, file.fallback) == ("utf-16", False)
    assert table.to_pydict() == {"q": [1, 2], "ö": ["ä", "ß"]}
    path.write_bytes(text.encode("utf-16-le"))
    assert read(path, encoding="utf-16-le")[1].to_pydict() == {"q": [1, 2], "ö": ["ä", "ß"]}


@pytest.mark.parametrize("kind", ["csv", "parquet", "sav", "frame"])
def test_words_for_no_value_are_kept_where_they_may_be_codes_or_labels(tmp_path, kind, monkeypatch):
    data = pl.DataFrame(
        {
            "country": ["NA", "NA", "SE"],
            "q": ["None", "None", "Some"],
            "weight": ["NA", "1.5", "nan"],
        }
    )
    if kind == "csv":
        data.write_csv(tmp_path / "a.csv")
    elif kind == "parquet":
        data.write_parquet(tmp_path / "a.parquet")
    elif kind == "sav":
        write_sav(tmp_path / "a.sav", data)
    # Rows apart: a batch of nothing but such words is no column without values.
    monkeypatch.setattr("chronocore.sources.files.CELLS_PER_CHUNK", 1)
    path = tmp_path / f"a.{kind}"
    file = open_frame(data, "a") if kind == "frame" else open_survey_file(path)
    file.number_columns = frozenset({"weight"})
    digest = None if kind == "frame" else file_digest(path)
    assert read_columns(file, digest, file.columns).to_pydict() == {
        "country": ["NA", "NA", "SE"],
        "q": ["None", "None", "Some"],
        "weight": [None, 1.5, None],
    }


def test_a_damaged_cache_is_read_again_and_leftovers_go(tmp_path):
    path = write_sav(tmp_path / "a.sav", frame(5000))
    first = read(path)[1]
    folder = cache_folder()
    (cached,) = folder.glob("*.parquet")
    good = cached.read_bytes()
    for place in range(8, len(good) // 2, 97):
        damaged = bytearray(good)
        damaged[place] ^= 0xFF
        cached.write_bytes(damaged)
        assert read(path)[1].equals(first), place
    cached.write_bytes(good[: len(good) // 2])
    old, young = folder / ".parts-old", folder / ".parts-young"
    for left in (old, young):
        left.mkdir()
        (left / "0.parquet").write_bytes(b"")
    os.utime(old, (0, 0))
    assert read(path)[1].equals(first)
    assert [p.name for p in folder.glob(".*")] == [young.name]


def test_no_space_for_what_is_decoded_is_said(tmp_path, monkeypatch):
    path = write_sav(tmp_path / "a.sav", frame())

    def full(*args, **options):
        raise OSError(28, "Error writing bytes to file. Detail: [errno 28]")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(SourceError, match=r"\.parquet cannot be written \(No space left on device"):
        read(path)
    assert [*cache_folder().iterdir()] == []
    monkeypatch.setenv("CHRONOCORE_CACHE", "0")
    with pytest.raises(SourceError, match=r"a\.sav cannot be decoded.*No space left.*TMPDIR"):
        read(path)


def test_a_truncated_file_is_an_error(tmp_path):
    path = write_sav(tmp_path / "a.sav", frame(5000))
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(SourceError, match=r"a\.sav"):
        read(path, ["Q1"])


def test_names_are_compared_without_regard_to_case(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("s003,Q1,q1\n8,1,2\n")
    file = open_survey_file(path)
    assert file.find("S003") == "s003"
    assert (file.find("Q1"), file.find("q1"), file.find("x")) == ("Q1", "q1", None)
    with pytest.raises(SourceError, match="differ in case only"):
        open_frame(pa.table({"aB": [1], "Ab": [1]}), "f").find("ab")


def test_pyreadstat_is_asked_for_by_name(tmp_path, monkeypatch):
    import sys

    path = write_sav(tmp_path / "a.sav", frame())
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(cc.MissingDependencyError, match=r"pip install 'chronocore\[surveys\]'"):
        open_survey_file(path)


@pytest.mark.slow
def test_five_of_a_thousand_columns_cost_little_memory(tmp_path, child_environment):
    import subprocess
    import sys

    rng = np.random.default_rng(0)
    wide = pl.DataFrame({f"v{i}": rng.integers(1, 5, 20_000, dtype=np.int8) for i in range(1000)})
    path = write_sav(tmp_path / "wide.sav", wide, row_compress=True)
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from chronocore.sources.cache import read_columns\n"
        "from chronocore.sources.files import file_digest, open_survey_file\n"
        "path = Path(sys.argv[1])\n"
        "file = open_survey_file(path)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "table = read_columns(file, file_digest(path), [f'v{i}' for i in range(5)])\n"
        "print(table.nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**child_environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    size, grown = map(int, done.stdout.split())
    assert size == 5 * 20_000
    # The whole file as numbers would be 160 MB.
    assert grown < 60_000
