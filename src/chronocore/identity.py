"""Stable ids: the same input gives the same id on every machine.

Ids are SHA-256 digests of canonical JSON (sorted keys, no spaces, UTF-8). No id hashes a float:
the two float settings of a run enter as the shortest decimal text that reads back to them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from chronocore.engines.base import RunSettings

__all__ = ["canonical_json", "derived_seed", "pair_id", "prompt_id", "run_id", "time_point_key"]


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces; a float is refused."""

    def refuse_floats(node: Any) -> None:
        if isinstance(node, float):
            raise TypeError(f"an id must not hash a float: {node!r}")
        if isinstance(node, dict):
            for child in node.values():
                refuse_floats(child)
        elif isinstance(node, list | tuple):
            for child in node:
                refuse_floats(child)

    refuse_floats(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def time_point_key(wave: int | None, year: int | None, study: str | None = None) -> str | None:
    """Return the key of a time point: its wave where it has one, else its year.

    Where one survey joins several studies, each with waves of its own, the study comes first.
    """
    if wave is not None:
        return f"wave:{wave}" if study is None else f"{study}:wave:{wave}"
    return None if year is None else f"year:{year}"


def pair_id(survey: str, variable: str, country: str, old_key: str, new_key: str) -> str:
    """Return ``"p"`` and 16 hex digits that identify a temporal pair."""
    return "p" + _digest([survey, variable, country, old_key, new_key])[:16]


def prompt_id(
    kind: str,
    elicitation: str,
    instruction: str,
    survey: str,
    variable: str,
    country: str,
    key: str | None,
    system: str,
    user: str,
) -> str:
    """Return ``"q"`` and 16 hex digits that identify a prompt and its wording."""
    parts = [kind, elicitation, instruction, survey, variable, country, key, system, user]
    return "q" + _digest(parts)[:16]


def _decimal(value: float | None) -> str | None:
    return None if value is None else format(Decimal(repr(float(value))).normalize() + 0, "f")


def run_id(settings: RunSettings) -> str:
    """Return ``"r"`` and 16 hex digits that identify a model under one set of settings.

    Examples
    --------
    >>> from chronocore.engines.base import RunSettings
    >>> run_id(RunSettings(model="uniform", engine="reference", engine_version="1"))
    'raa7108eda4f7c64f'
    """
    columns = asdict(settings)
    columns["temperature"] = _decimal(settings.temperature)
    columns["top_p"] = _decimal(settings.top_p)
    return "r" + _digest(columns)[:16]


def derived_seed(seed: int, *parts: str | int) -> int:
    """Return a 63-bit seed that depends on ``seed`` and on what is drawn for.

    Every cell of every table has its own stream, so that adding a table or a model never
    changes the interval of another cell.
    """
    text = _ENCODER.encode([seed, *parts])  # what canonical_json gives; a study asks 15,000 times
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
