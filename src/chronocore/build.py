"""Surveys -> a study: items, gold, pairs and prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from chronocore.config import StudyConfig, load_config, preset_config
from chronocore.errors import ConfigurationError, SourceError
from chronocore.gold import gold_table, items_table
from chronocore.metrics import SHIFTS
from chronocore.pairs import pairs_table
from chronocore.prompts import KINDS, prompts_table
from chronocore.sources import Microdata, read_open_sample
from chronocore.store import Study

__all__ = ["BuildResult", "build"]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build made.

    Attributes
    ----------
    study : Study
    funnel : dict of str to int
        Rows and cells in and out by rule, in the order of the rules.
    shifts : dict of str to int
        Pairs by shift class.
    countries : int
        Countries with a pair.
    prompts : dict of str to int
        Prompts by kind.
    notes : list of str
        What a reader should know about the cells.
    """

    study: Study
    funnel: dict[str, int]
    shifts: dict[str, int]
    countries: int
    prompts: dict[str, int]
    notes: list[str]


def _config(
    study: Study, preset: str | None, config: str | Path | StudyConfig | None
) -> StudyConfig:
    if preset is not None and config is not None:
        raise ConfigurationError("give a preset or a config, not both")
    asked: StudyConfig | None = None
    if preset is not None:
        asked = preset_config(preset)
    elif isinstance(config, StudyConfig):
        asked = config
    elif config is not None:
        asked = load_config(Path(config))
    if not study.config_path.exists():
        if asked is None:
            raise ConfigurationError(
                f"{study.path} has no study.toml; name a preset (open-sample) or a config file"
            )
        return asked
    present = study.config()
    if asked is not None and asked.build_part() != present.build_part():
        raise ConfigurationError(
            f"{study.config_path} asks for something else than what you gave; leave the option "
            "out to use it, or choose another folder"
        )
    return present


def _read_sources(config: StudyConfig, progress: Callable[[str], None]) -> list[Microdata]:
    sources: list[Microdata] = []
    for source in config.sources:
        progress(f"reading {source.preset}")
        sources.extend(read_open_sample(source.variables, core_only=source.core_only))
    return sources


def _check_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{path} is a file; a study is a folder, choose another path")


def build(
    study: str | Path,
    *,
    preset: str | None = None,
    config: str | Path | StudyConfig | None = None,
    min_respondents: int | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> BuildResult:
    """Build a study from survey microdata.

    Parameters
    ----------
    study : path
        The study folder; made if it does not exist.
    preset : str, optional
        ``"open-sample"``: real open microdata, no file needed.
    config : path or StudyConfig, optional
        Settings as in ``study.toml``. Without preset and config, the study's own is used.
    min_respondents : int, optional
        Replaces ``[rules] min_respondents`` in ``study.toml``.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    BuildResult

    Raises
    ------
    ConfigurationError
        Settings are missing, unknown or contradict the study's own.
    SourceError, MissingDependencyError
        Microdata are missing or contradict what was declared.
    StorageError
        The folder cannot be written; nothing of a new study is left behind.

    Examples
    --------
    >>> import chronocore as cc
    >>> result = cc.build("my-study", preset="open-sample")  # doctest: +SKIP
    >>> result.shifts  # doctest: +SKIP
    {'stable': 52, 'moderate': 60, 'strong': 14, 'very_strong': 3}
    """
    target = Study(study)
    _check_folder(target.path)
    settings = _config(target, preset, config)
    if min_respondents is not None:
        if min_respondents < 1:
            raise ConfigurationError(f"min_respondents must be at least 1, not {min_respondents}")
        rules = msgspec.structs.replace(settings.rules, min_respondents=min_respondents)
        settings = msgspec.structs.replace(settings, rules=rules)
    sources = _read_sources(settings, progress)
    items = [item for data in sources for item in data.items]
    if not items:
        raise SourceError("the sources have no items; check [[sources]] in study.toml")
    progress("computing gold distributions")
    gold, funnel = gold_table(sources, settings.rules)
    items_frame = items_table(items)
    pairs = pairs_table(gold, items_frame, settings.rules)
    progress("writing prompts")
    prompts = prompts_table(pairs, items_frame)
    shifts = Counter(pairs["shift"].to_pylist())
    kinds = Counter(prompts["kind"].to_pylist())
    points = Counter((r["survey"], r["variable"], r["country"]) for r in gold.to_pylist())
    single = sum(count == 1 for count in points.values())
    funnel.steps["questions by country"] = len(points)
    funnel.steps["questions by country with one time point"] = single
    funnel.steps["questions by country without the newest wave"] = len(points) - single - len(pairs)
    funnel.steps["pairs"] = len(pairs)
    provenance: dict[str, Any] = {
        "sources": [
            {"survey": data.survey, "about": data.source, "weight": data.weight, **data.provenance}
            for data in sources
        ],
        "funnel": dict(funnel.steps),
        "notes": funnel.notes,
        "pairs_by_shift": {shift: shifts[shift] for shift in SHIFTS},
        "prompts_by_kind": {kind: kinds[kind] for kind in KINDS},
    }
    tables: dict[str, pa.Table] = {
        "items": items_frame,
        "gold": gold,
        "pairs": pairs,
        "prompts": prompts,
    }
    target.save_build(settings, tables, provenance)
    return BuildResult(
        study=target,
        funnel=dict(funnel.steps),
        shifts=provenance["pairs_by_shift"],
        countries=len(set(pairs["country"].to_pylist())),
        prompts=provenance["prompts_by_kind"],
        notes=funnel.notes,
    )
