"""The page "Use your own survey" does what it says, from the first line to the study."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chronocore as cc
from chronocore.sources.presets import preset_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "own-survey.md"
FILE = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(
    r"^```console\n\$ chronocore (?P<command>[^\n]+)\n(?P<printed>(?:(?!```).*\n)*)^```$",
    re.MULTILINE,
)


@pytest.fixture
def example(tmp_path):
    """The files of the example, and what its script makes."""
    for block in FILE.finditer(PAGE.read_text(encoding="utf-8")):
        (tmp_path / block["name"]).write_text(block["text"])
    assert {p.name for p in tmp_path.iterdir()} == {
        "make.py",
        "items.csv",
        "pulse.toml",
        "plan.toml",
    }
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commands_print_what_the_page_shows(example, run_cli, tmp_path):
    blocks = [b for b in CONSOLE.finditer(PAGE.read_text(encoding="utf-8")) if b["printed"]]
    assert [b["command"].split()[0] for b in blocks] == ["build", "build"]
    for block in blocks:
        done = run_cli(
            *block["command"].split(), cwd=example, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == block["printed"]
    study = cc.Study.open(example / "my-study")
    assert len(study.pairs()) == 4


def test_every_preset_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in preset_names():
        assert f"`{name}`" in text, name


def test_every_key_of_columns_is_documented():
    import re
    from pathlib import Path

    from chronocore.config import Columns

    page = Path(__file__).parents[1] / "docs" / "how-to" / "own-survey.md"
    table = page.read_text(encoding="utf-8").split("The keys of `columns`")[1].split("## ")[0]
    keys = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if "| `" in row]
    assert sorted(key for row in keys for key in row) == sorted(Columns.__struct_fields__)
