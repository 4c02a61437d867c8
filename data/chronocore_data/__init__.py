"""Versioned resources of chronocore: catalogs, regions, prompt templates, recorded predictions.

Only the standard library is needed to read them; what they mean is decided in
:mod:`chronocore`.
"""

from __future__ import annotations

import csv
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = [
    "open_sample",
    "prompt_templates",
    "recorded_predictions",
    "regions",
    "validity_protocol",
]


def _text(name: str) -> str:
    return files("chronocore_data").joinpath(name).read_text(encoding="utf-8")


def open_sample() -> dict[str, Any]:
    """Return the catalog of the open sample: its files and its items, in order."""
    return tomllib.loads(_text("open_sample.toml"))


def prompt_templates() -> dict[str, Any]:
    """Return the prompt templates and the published system message."""
    return tomllib.loads(_text("prompts.toml"))


def regions() -> list[dict[str, str]]:
    """Return the countries and sub-national samples of the surveys with their region.

    Region assignment is a judgement; doubtful cases are marked ``yes`` with a note.
    """
    return list(csv.DictReader(_text("regions.csv").splitlines()))


def recorded_predictions() -> Path:
    """Return the path of the recorded predictions of SmolLM2-135M-Instruct."""
    return Path(str(files("chronocore_data").joinpath("recorded", "smollm2-135m-instruct.parquet")))


def validity_protocol() -> str:
    """Return the text of the protocol of measurement validity (TOML)."""
    return _text("validity.toml")
