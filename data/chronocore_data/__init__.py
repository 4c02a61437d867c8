"""Versioned resources of chronocore: catalogs, regions, prompt templates, recorded predictions.

Only the standard library is needed to read them; what they mean is decided in
:mod:`chronocore`.
"""

from __future__ import annotations

import csv
import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = [
    "catalog",
    "catalog_exclusions",
    "catalog_indices",
    "non_response",
    "open_sample",
    "preset_text",
    "presets",
    "prompt_templates",
    "published_tables",
    "published_text",
    "recorded_predictions",
    "regions",
    "validity_protocol",
]


def _text(name: str) -> str:
    return files("chronocore_data").joinpath(name).read_text(encoding="utf-8")


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(name).splitlines()))


def catalog(name: str) -> list[dict[str, str]]:
    """Return an item catalog: one row an option, in the order of the items and of their scales.

    Columns: ``variable``; ``other_names`` of it in older files (``;``); ``wave7_question``;
    ``text`` and ``text_source``; ``topic`` (the survey's own) and ``topic_broad`` (one of five);
    ``order``, what a low or high position means; ``status`` of the codes: ``confirmed``,
    ``partly`` (by analogy with a sister item) or ``unconfirmed`` (to be used only where a file's
    labels confirm them); ``code``; ``label``; ``position`` on the scale, blank where it is the
    code; ``off_scale``, ``yes`` for an answer that is no option; ``aliases``, other spellings of
    the label (``;``); ``recode``, codes of the wave-7 file to codes of the time series
    (``1:1;2:0``), blank where they are the same.

    Parameters
    ----------
    name : str
        ``"wvs"``: World Values Survey, European Values Study and their merge.
    """
    return _rows(f"catalogs/{name}.csv")


def catalog_exclusions(name: str) -> list[dict[str, str]]:
    """Return the repeated variables that a catalog leaves out, with the reason.

    Columns: ``variable``, ``wave7_question``, ``reason``.
    """
    return _rows(f"catalogs/{name}_excluded.csv")


@cache
def non_response() -> dict[str, Any]:
    """Return the labels of codes that are no answers, by language and reason; do not change them.

    ``head``, ``opinion`` and ``beside`` are no languages: see the file.
    """
    return tomllib.loads(_text("nonresponse.toml"))


def catalog_indices(name: str) -> list[dict[str, str]]:
    """Return what is read beside a catalog's questions: indices, and the answers they are made of.

    Columns as in :func:`catalog`; empty for a catalog without indices. They are no questions of a
    benchmark: an index is one where a study names it, and an answer whose ``order`` is ``nominal``
    never is.
    """
    return _rows(f"catalogs/{name}_indices.csv") if name == "wvs" else []


def open_sample() -> dict[str, Any]:
    """Return the catalog of the open sample: its files and its items, in order."""
    return tomllib.loads(_text("open_sample.toml"))


def presets() -> list[str]:
    """Return the names of the survey presets, sorted."""
    folder = files("chronocore_data").joinpath("presets")
    return sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """Return the text of a survey preset."""
    return _text(f"presets/{name}.toml")


@cache
def prompt_templates() -> dict[str, Any]:
    """Return the prompt templates and the published system message; do not change them."""
    return tomllib.loads(_text("prompts.toml"))


def regions() -> list[dict[str, str]]:
    """Return the countries and sub-national samples of the surveys with their region.

    Region assignment is a judgement; doubtful cases are marked ``yes`` with a note.
    """
    return _rows("regions.csv")


def published_tables() -> dict[str, Any]:
    """Return the numbers of the ChronoCulture paper's tables, as printed.

    ``cells`` holds one row a number, its fields named by ``columns``: the table and the cell as
    :mod:`chronocore.tables` names them, the paper's model and the value.
    """
    tables: dict[str, Any] = json.loads(_text("published_tables.json"))
    return tables


def published_text(paper: str) -> dict[str, Any]:
    """Return the values in the running text of a paper, as printed.

    Parameters
    ----------
    paper : {"chronoculture", "validity"}

    Returns
    -------
    dict
        ``source``; ``statement``: section, quote and the cells of our tables with the printed
        values; ``not_compared``: section, quote and why no table holds it.
    """
    text: dict[str, Any] = tomllib.loads(_text("published_text.toml"))[paper]
    return text


def recorded_predictions() -> Path:
    """Return the path of the recorded predictions of SmolLM2-135M-Instruct."""
    return Path(str(files("chronocore_data").joinpath("recorded", "smollm2-135m-instruct.parquet")))


def validity_protocol() -> str:
    """Return the text of the protocol of measurement validity (TOML)."""
    return _text("validity.toml")
