"""Text of others is harmless once it has passed the door, and stays as it is when it was."""

from __future__ import annotations

import json
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronocore as cc
from chronocore.text import LONGEST, is_plain_name, plain, visible

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_NASTY = "\x1b\x07\r\n\t\x00\x85\x9b\u200b\u200f\u202e\u2066\ufeff\u00ad\u2028\ud800\udfff\uffff"
anything = st.text(
    st.one_of(
        st.characters(), st.characters(categories=["Cs", "Cf", "Cc"]), st.sampled_from(_NASTY)
    )
)


@given(anything, st.one_of(st.none(), st.integers(1, 40)))
def test_nothing_hidden_is_left_and_cleaning_twice_changes_nothing(text, limit):
    cleaned = plain(text, limit)
    assert not {unicodedata.category(c) for c in cleaned} & _HIDDEN
    assert cleaned == " ".join(cleaned.split())
    assert unicodedata.is_normalized("NFC", cleaned)
    assert limit is None or len(cleaned) <= limit
    assert plain(cleaned, limit) == cleaned
    cleaned.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=LONGEST))
def test_visible_text_stays_but_for_its_composed_form(text):
    expected = unicodedata.normalize("NFC", text)
    assert plain(text) == (expected if len(expected) <= LONGEST else plain(expected))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b]0;owned\x07label", "]0;owned label"),
        ("a\r\nb\u2028c", "a b c"),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("e\u200d\u0301", "é"),
        ("half \ud83d", "half \ufffd"),
        ("日本語　国", "日本語 国"),
        ("x" * 201, "x" * 199 + "…"),
        ("\x00\u200b", ""),
    ],
)
def test_cases(text, cleaned):
    assert plain(text) == cleaned


@given(anything)
def test_an_answer_is_shown_with_its_lines_and_nothing_hidden(text):
    seen = visible(text)
    assert len(seen) == len(text)
    assert {c for c in seen if unicodedata.category(c) in _HIDDEN} <= {"\n", "\t"}
    assert visible(text, 5) in (seen, seen[:5] + " …")


def test_a_name_is_taken_composed_or_not():
    assert is_plain_name("cafe\u0301")
    assert not any(map(is_plain_name, ["", " a", "a  b", "a\x1bb", "\u202ea", "x" * 101, "\ud800"]))


def _exported(study, path, **changes):
    """Write a predictions file that carries a run with some settings changed."""
    from chronocore import schema
    from chronocore.engines import RunSettings
    from chronocore.identity import run_id
    from chronocore.row_digest import ROWS_METADATA, RUN_METADATA, RowDigest, rows_digest

    settings = {
        "model": "m", "engine": "vllm", "engine_version": "1", "revision": None,
        "elicitation": "verbalized", "instruction": "default", "structured": False,
        "temperature": 0.0, "top_p": 1.0, "max_tokens": 120, "seed": 0,
        "chat_template_sha256": None,
    }  # fmt: skip
    outer = {key: changes.pop(key) for key in ("label", "notes") if key in changes}
    settings |= changes
    try:
        identity = run_id(RunSettings(**settings))
    except UnicodeEncodeError:
        identity = "r0"
    carried = {"run_id": identity, "label": "carried", "settings": settings, "notes": {}, **outer}
    prompts = [p["prompt_id"] for p in cc.Study.open(study).prompts().to_pylist()[:3]]
    table = pa.table({"prompt_id": prompts, "status": ["invalid"] * 3,
                      "reason": ["\x1b[31mno\nidea"] * 3,
                      "probs": pa.nulls(3, pa.list_(pa.float64()))})  # fmt: skip
    said, digest = json.dumps(carried).encode(), RowDigest(schema.PREDICTIONS)
    digest.update(table)
    bound = {RUN_METADATA: said, ROWS_METADATA: rows_digest(said, digest)}
    table = table.replace_schema_metadata(bound)
    pq.write_table(table, path)
    return path


HOSTILE = "\x1b]0;owned\x07" + "\n\u202e" + "x" * 400


def test_what_a_predictions_file_says_of_its_run_is_cleaned_at_the_door(study, tmp_path):
    path = _exported(
        study, tmp_path / "x.parquet", label=HOSTILE, model=HOSTILE, revision=HOSTILE,
        engine=HOSTILE, engine_version=HOSTILE, notes={HOSTILE: HOSTILE},
    )  # fmt: skip
    result = cc.predict(study, f"file:{path}")
    opened = cc.Study.open(study)
    row = opened.runs().to_pylist()[0]
    texts = [value for value in row.values() if isinstance(value, str)]
    texts += [text for item in opened.run_notes(result.run_id).items() for text in item]
    rows = opened.predictions(result.run_id).to_pylist()
    texts += [rows[0]["reason"], rows[0]["model"], *result.reasons, result.label]
    assert all(plain(text) == text for text in texts)
    assert rows[0]["reason"] == "[31mno idea"
    assert len(result.label) == 100


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"elicitation": "telepathy"}, "unknown elicitation, 'telepathy'"),
        ({"instruction": "a\x1b[2J"}, r"unknown instruction, 'a \[2J'"),
        ({"seed": 2**70}, "seed 1180591620717411303424"),
        ({"seed": -(2**70)}, "seed -"),
        ({"max_tokens": 2**40}, "max_tokens 1099511627776"),
        ({"max_tokens": 0}, "max_tokens 0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": -1.0}, r"temperature -1\.0"),
        ({"top_p": float("inf")}, "top_p inf"),
        ({"model": "\u200b"}, "names no model"),
        ({"model": "\ud800"}, "cannot be read"),
    ],
)
def test_settings_no_run_can_have_are_told_by_file_and_setting(study, tmp_path, changes, message):
    path = _exported(study, tmp_path / "x.parquet", **changes)
    with pytest.raises(cc.ConfigurationError, match=message) as error:
        cc.predict(study, f"file:{path}")
    assert str(path) in str(error.value)
    assert not (study / "runs.parquet").exists()


@pytest.mark.parametrize(
    "carried",
    [b"[" * 100_000, b"\xff", b"null", b"{}", b'{"settings": 5, "notes": {}}', b"1" * 9999],
)
def test_a_run_that_cannot_be_read_is_told(study, tmp_path, carried):
    table = pa.table({"prompt_id": ["q"], "text": ["x"]})
    pq.write_table(
        table.replace_schema_metadata({b"chronocore.run": carried}), tmp_path / "x.parquet"
    )
    with pytest.raises(cc.ConfigurationError, match=r"x\.parquet: the run it carries cannot"):
        cc.predict(study, f"file:{tmp_path / 'x.parquet'}")


@pytest.mark.parametrize(
    "column", ["survey", "variable", "country", "text", "thinking", "reason", "finish_reason"]
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_that_is_not_utf8_is_told_by_its_row(study, tmp_path, column, kind):
    bad = pa.array([b"fine", b"\xff\xfe"]).view(pa.string()).cast(kind)
    columns = {name: ["a", "b"] for name in ("survey", "variable", "country", "text")}
    table = pa.table({**columns, "year": pa.array([1998, 1999]), column: bad})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(
        cc.ConfigurationError, match=rf"x\.parquet, row 1, column {column}: .*UTF-8"
    ):
        cc.predict(study, f"file:{tmp_path / 'x.parquet'}")


def test_names_of_columns_that_are_not_utf8_are_told(study, tmp_path):
    pq.write_table(pa.table({"prompt_id": ["q"], "textt": ["x"]}), tmp_path / "x.parquet")
    damaged = (tmp_path / "x.parquet").read_bytes().replace(b"textt", b"te\xff\xfet")
    (tmp_path / "x.parquet").write_bytes(damaged)
    with pytest.raises(cc.ConfigurationError, match=r"x\.parquet is no readable Parquet file"):
        cc.predict(study, f"file:{tmp_path / 'x.parquet'}")


def test_a_file_that_may_not_be_read_is_not_taken_for_a_damaged_one(study, tmp_path):
    with pytest.raises(cc.ConfigurationError, match="is a folder; name the Parquet file in it"):
        cc.predict(study, f"file:{tmp_path}")
