"""Damaged files, short memory and shared machines: clear errors, and nothing for others to read."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import chronocore as cc
from chronocore.config import parse_config
from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources import files
from chronocore.sources.cache import cache_folder, read_columns
from chronocore.sources.files import file_digest, open_survey_file

pyreadstat = pytest.importorskip("pyreadstat")
PROOF = Path(__file__).parent / "proofs" / "mutate_surveys.py"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def frame(n=60):
    return pl.DataFrame({"country": [8] * n, "year": [1999] * n, "q": [1, 2, 3] * (n // 3)})


def read(path, columns=("q",)):
    file = open_survey_file(Path(path))
    return read_columns(file, file_digest(Path(path)), list(columns))


# -- the cache ----------------------------------------------------------------------


def test_the_cache_of_respondents_is_readable_by_its_user_alone(monkeypatch):
    old = os.umask(0o000)
    try:
        frame().write_csv("a.csv")
        read("a.csv")
    finally:
        os.umask(old)
    folder = cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = list(folder.iterdir())
    assert {path.suffix for path in kept} == {".parquet", ".sha256"}
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    folder.chmod(0o755)
    assert cache_folder().stat().st_mode & 0o777 == 0o700


def test_no_respondent_is_kept_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("CHRONOCORE_SURVEY_CACHE", "0")
    assert cache_folder() is None
    frame().write_csv("a.csv")
    assert read("a.csv")["q"].to_pylist() == [1, 2, 3] * 20
    assert not list(Path("cache").rglob("*.parquet"))
    from chronocore_kernels import jit

    assert (os.environ.get("CHRONOCORE_CACHE", "1") != "0") == jit._CACHE_ENABLED


@pytest.mark.parametrize("what", ["footer", "byte", "empty", "gone", "digest", "other"])
def test_a_damaged_cache_is_decoded_again(what):
    frame().write_csv("a.csv")
    first = read("a.csv").to_pydict()
    (kept,) = cache_folder().glob("*.parquet")
    content = bytearray(kept.read_bytes())
    if what == "footer":
        for at in range(len(content) - 200, len(content) - 8, 3):
            damaged = bytearray(content)
            damaged[at] ^= 1
            kept.write_bytes(damaged)
            assert read("a.csv").to_pydict() == first
        return
    if what == "byte":
        content[len(content) // 3] ^= 4
    if what == "other":
        pl.DataFrame({"person": [1]}).write_parquet(kept)
        kept.with_suffix(".sha256").write_text(file_digest(kept))
    elif what == "gone":
        kept.unlink()
    elif what == "digest":
        kept.with_suffix(".sha256").unlink()
    else:
        kept.write_bytes(b"" if what == "empty" else content)
    assert read("a.csv").to_pydict() == first
    assert kept.with_suffix(".sha256").read_text() == file_digest(kept)


# -- what is short is not damage ----------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (pa.ArrowMemoryError("realloc of size 102432768 failed"), "not enough memory"),
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOMEM, "x"), "not enough memory"),
        (OSError(errno.EMFILE, "x"), "not enough file handles"),
        (OSError(errno.EACCES, "x"), "Permission denied"),
        (OSError(errno.EIO, "x"), "Input/output error"),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_what_is_short_is_never_called_damage(monkeypatch, error, said, suffix):
    frame().write_parquet("a.parquet")
    frame().write_ipc("a.arrow")

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(files.pq, "ParquetFile", fail)
    monkeypatch.setattr(files.pa.feather, "read_table", fail)
    with pytest.raises(SourceError, match=said) as caught:
        open_survey_file(Path(f"a.{suffix}"))
    assert "damaged" not in str(caught.value)


# -- readers that crash -------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})", "reader crashed, signal 11"),
        ("import os; os.abort()", "reader crashed, signal 6"),
        ("import os; os._exit(3)", "reader crashed, status 3"),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", "not enough memory"),
    ],
)
def test_a_reader_that_dies_is_a_clear_error(tmp_path, monkeypatch, ending, said):
    pyreadstat.write_sav(frame(), "a.sav")
    child = tmp_path / "child.py"
    child.write_text(ending)
    monkeypatch.setattr(files, "_CHILD", child)
    with pytest.raises(SourceError, match=said) as caught:
        open_survey_file(Path("a.sav"))
    assert ("damaged" in str(caught.value)) == ("crashed" in said)


def test_mutated_files_end_in_the_same_result_or_a_clear_error():
    done = subprocess.run(
        [sys.executable, str(PROOF), "--n", "160", "--kinds", "csv,parquet,arrow,feather"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_mutated_statistical_files_never_end_this_process():
    done = subprocess.run(
        [sys.executable, str(PROOF), "--n", "60", "--kinds", "sav,zsav,dta"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# -- names and settings without measure ---------------------------------------------


def test_many_columns_are_named_in_no_time():
    import time

    started = time.process_time()
    file = files._with_names(
        files.SurveyFile("x.csv", None, "text", ()), [f"V{i}" for i in range(200_000)]
    )
    assert file.find("v199999") == "V199999"
    assert time.process_time() - started < 10
    with pytest.raises(SourceError, match="column 'V1' twice"):
        files._with_names(files.SurveyFile("x.csv", None, "text", ()), ["V1", "V2", "V1"])


def test_a_header_without_end_is_a_clear_error():
    Path("a.csv").write_text("x" * 200_000 + ",y\n1,2\n")
    with pytest.raises(SourceError, match="header line cannot be read"):
        open_survey_file(Path("a.csv"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"is empty; a study needs the survey.*\[\[sources\]\]"),
        ("[rules]\nmin_respondents = 5\n", r"has no \[\[sources\]\]"),
        ("x = " + "9" * 5000, "is not valid TOML"),
        ("x = " + "[" * 5000, "nested too deeply|is not valid TOML"),
    ],
)
def test_a_study_toml_without_measure_is_a_clear_error(text, said):
    with pytest.raises(ConfigurationError, match=f"(?s){said}"):
        parse_config(text)
    Path("mine.toml").write_text(text)
    with pytest.raises(cc.ChronocoreError):
        cc.build("study", config="mine.toml")
    if text.startswith("x"):
        with pytest.raises(ConfigurationError, match=said):
            cc.survey_microdata(frame(), preset="mine.toml")


@pytest.mark.parametrize("name", ["x.sav", "x.dta", "x.parquet"])
def test_a_file_of_no_bytes_is_called_empty(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(SourceError, match="is empty: 0 bytes"):
        cc.explain(tmp_path / name)


@pytest.mark.parametrize("name", ["folder", "folder.sav"])
def test_a_folder_in_a_files_place_is_called_a_folder(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(SourceError, match="is a folder; name a file in it"):
        cc.explain(tmp_path / name)
