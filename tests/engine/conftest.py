"""What the tests of the real engine share: a small study, the model, the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chronocore as cc
from chronocore.config import Source, StudyConfig

#: Two questions over all their countries.
VARIABLES = ["E143", "F117"]


@pytest.fixture(scope="session")
def model():
    return os.environ.get("CHRONOCORE_ENGINE_MODEL", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of its own for every file of tests."""
    preset = cc.preset_config("open-sample")
    config = StudyConfig(
        sources=[Source(preset="open-sample", variables=VARIABLES)],
        rules=preset.rules,
        score=preset.score,
    )
    path = tmp_path_factory.mktemp("engine") / "study"
    cc.build(path, config=config)
    return path


@pytest.fixture(scope="session")
def chronocore():
    """Run a command that must succeed, as a user does."""

    def run(*arguments):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("chronocore")), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    return run
