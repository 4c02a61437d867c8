"""Surveys -> a study: items, gold, pairs and prompts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from chronocore.config import Source, StudyConfig, load_config, preset_config, source_config
from chronocore.errors import ConfigurationError, SourceError
from chronocore.gold import gold_table, items_table
from chronocore.metrics import SHIFTS
from chronocore.pairs import pairs_table
from chronocore.prompts import KINDS, prompts_table
from chronocore.sources import Microdata, join_sources, read_open_sample, read_survey
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
    weights : list of dict
        Which weight was used where: ``survey``, ``weight`` (None: unweighted), ``time_points``
        and ``dropped``, the valid answers lost for their weight.
    notes : list of str
        What a reader should know about the sources and the cells.
    """

    study: Study
    funnel: dict[str, int]
    shifts: dict[str, int]
    countries: int
    prompts: dict[str, int]
    weights: list[dict[str, Any]]
    notes: list[str]


def _moved(config: StudyConfig, origin: Path, target: Path, frames: Set[str]) -> StudyConfig:
    """Return settings whose relative paths start from the study and no longer from ``origin``."""

    def path(name: str) -> str:
        if name in frames or Path(name).is_absolute():
            return name
        return Path(os.path.relpath(origin / name, target)).as_posix()

    sources: list[Source] = []
    for source in config.sources:
        changes: dict[str, Any] = {}
        if source.file is not None:
            changes["file"] = (
                path(source.file) if isinstance(source.file, str) else [*map(path, source.file)]
            )
        if source.preset.endswith(".toml"):
            changes["preset"] = path(source.preset)
        if source.items is not None and source.items.endswith((".csv", ".toml")):
            changes["items"] = path(source.items)
        if source.questionnaire is not None:
            changes["questionnaire"] = path(source.questionnaire)
        sources.append(msgspec.structs.replace(source, **changes))
    return msgspec.structs.replace(config, sources=sources)


def _config(
    study: Study,
    preset: str | None,
    config: str | Path | StudyConfig | None,
    files: Sequence[str | Path],
    frames: Set[str],
) -> StudyConfig:
    if preset is not None and config is not None:
        raise ConfigurationError("give a preset or a config, not both")
    if files and preset is None:
        raise ConfigurationError("a file needs a preset that says what is in it")
    asked: StudyConfig | None = None
    origin = Path()
    if preset is not None:
        named = [str(file) for file in files]
        asked = source_config(preset, named) if named else preset_config(preset)
    elif isinstance(config, StudyConfig):
        asked = config
    elif config is not None:
        asked = load_config(Path(config))
        origin = Path(config).parent
    if asked is not None:
        asked = _moved(asked, origin, study.path, frames)
    if not study.config_path.exists():
        if asked is None:
            raise ConfigurationError(
                f"{study.path} has no study.toml; name a preset (open-sample) or a config file"
            )
        return asked
    present = study.config()
    same = _moved(present, study.path, study.path, frames)
    if asked is not None and asked.build_part() != same.build_part():
        raise ConfigurationError(
            f"{study.config_path} asks for something else than what you gave; leave the option "
            "out to use it, or choose another folder"
        )
    return present


def _read_sources(
    config: StudyConfig,
    base: Path,
    frames: Mapping[str, object],
    progress: Callable[[str], None],
) -> list[Microdata]:
    sources: list[Microdata] = []
    for source in config.sources:
        if source.preset == "open-sample":
            progress(f"reading {source.preset}")
            sources.extend(read_open_sample(source.variables, core_only=source.core_only))
        else:
            sources.append(
                read_survey(
                    source,
                    base,
                    frames=frames,
                    time_point=config.rules.time_point,
                    progress=progress,
                )
            )
    return join_sources(sources)


def _check_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{path} is a file; a study is a folder, choose another path")


def build(
    study: str | Path,
    *,
    preset: str | None = None,
    files: Sequence[str | Path] = (),
    config: str | Path | StudyConfig | None = None,
    frames: Mapping[str, object] | None = None,
    min_respondents: int | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> BuildResult:
    """Build a study from survey microdata.

    Parameters
    ----------
    study : path
        The study folder; made if it does not exist.
    preset : str, optional
        ``"open-sample"``: real open microdata, no file needed. Any other preset needs ``files``.
    files : sequence of path
        Survey files that the preset describes.
    config : path or StudyConfig, optional
        Settings as in ``study.toml``. Its relative paths start from its own folder, those of a
        StudyConfig from the current one. Without preset and config, the study's own is used.
    frames : dict of str to frame, optional
        Arrow-compatible frames (polars, pyarrow, pandas, DuckDB) that stand for the files of
        their names in ``config``.
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
    frames = frames or {}
    settings = _config(target, preset, config, files, set(frames))
    if min_respondents is not None:
        if min_respondents < 1:
            raise ConfigurationError(f"min_respondents must be at least 1, not {min_respondents}")
        rules = msgspec.structs.replace(settings.rules, min_respondents=min_respondents)
        settings = msgspec.structs.replace(settings, rules=rules)
    sources = _read_sources(settings, target.path, frames, progress)
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
    points = gold.group_by(["survey", "variable", "country"]).aggregate([([], "count_all")])
    single = points["count_all"].to_pylist().count(1)
    funnel.steps["questions by country"] = len(points)
    funnel.steps["questions by country with one time point"] = single
    funnel.steps["questions by country without the newest wave"] = len(points) - single - len(pairs)
    funnel.steps["pairs"] = len(pairs)
    notes = [*dict.fromkeys(note for data in sources for note in data.notes), *funnel.notes]
    provenance: dict[str, Any] = {
        "sources": [
            {"survey": data.survey, "about": data.source, "weight": data.weight, **data.provenance}
            for data in sources
        ],
        "funnel": dict(funnel.steps),
        "weights": funnel.weights,
        "notes": notes,
        "pairs_by_shift": {shift: shifts[shift] for shift in SHIFTS},
        "prompts_by_kind": {kind: kinds[kind] for kind in KINDS},
    }
    tables: dict[str, pa.Table] = {
        "items": items_frame,
        "gold": gold,
        "pairs": pairs,
        "prompts": prompts,
    }
    mended = target.save_build(settings, tables, provenance)
    return BuildResult(
        study=target,
        funnel=dict(funnel.steps),
        shifts=provenance["pairs_by_shift"],
        countries=len(set(pairs["country"].to_pylist())),
        prompts=provenance["prompts_by_kind"],
        weights=funnel.weights,
        notes=[*mended, *notes],
    )
