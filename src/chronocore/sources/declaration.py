"""What a source declares, and the columns of its files that are no questions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chronocore.config import Columns, Source
from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources.catalog import CatalogItem, load_catalog, load_indices, load_questionnaire
from chronocore.sources.files import SurveyFile, file_digest, near, open_frame, open_survey_file
from chronocore.sources.presets import MissingCodes, Preset, load_preset
from chronocore.sources.respondents import Roles

__all__ = [
    "Declaration",
    "OpenFile",
    "declare",
    "find_roles",
    "located",
    "no_weight_declared",
    "open_files",
]

_REQUIRED = ("year",)
# Roles in which a merged file may go on in another column.
_CONTINUED = ("country", "wave", "year")
_OPTIONAL = ("respondent", "country_alpha", "country_name", "fieldwork_year", "stratum", "psu")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A preset with everything that a source declares on top of it.

    Attributes
    ----------
    source : Source
    preset : Preset
    survey : str
    columns : Columns
    own_columns : Columns
        Only those that the source names: a file must have them.
    weights : tuple of str
        Weight columns in the order of preference; empty to go without.
    missing : MissingCodes
    year_codes : dict of str to int
    country : str or None
    catalog : tuple of CatalogItem or None
        None: the items come from value labels.
    indices : tuple of CatalogItem
        Read beside the questions of the catalog where a file has them.
    questionnaire : dict of str to str
    order : dict of str to list of int
        By variable: the codes of a scale, as the source declares them.
    reverse, confirmed : frozenset of str
        Variables.
    """

    source: Source
    preset: Preset
    survey: str
    columns: Columns
    own_columns: Columns
    weights: tuple[str, ...]
    missing: MissingCodes
    year_codes: Mapping[str, int]
    country: str | None
    catalog: tuple[CatalogItem, ...] | None
    indices: tuple[CatalogItem, ...]
    questionnaire: Mapping[str, str]
    order: Mapping[str, list[int]] = field(default_factory=dict)
    reverse: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()


@dataclass(slots=True)
class OpenFile:
    """One file of a source, with the columns that are used."""

    file: SurveyFile
    digest: str | None
    size: int | None
    roles: Roles
    questions: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.file.name


def located(base: Path, name: str) -> Path:
    """Return a declared path; ``base`` need not exist yet."""
    return Path(os.path.normpath(base / name))


def declare(source: Source, base: Path) -> Declaration:
    """Put a preset and what a source declares together.

    Parameters
    ----------
    source : Source
    base : Path
        The folder that relative paths start from.

    Raises
    ------
    ConfigurationError
        A preset, a catalog or a questionnaire is missing or contradicts itself.
    """
    name = source.preset
    preset = load_preset(str(located(base, name)) if name.endswith(".toml") else name)
    where = f"[[sources]] {name}"
    columns = preset.columns.updated(source.columns)
    if preset.studies and source.columns.wave is not None:
        raise ConfigurationError(
            f"{where}: columns.wave does nothing here, each study of {name} has waves of its own; "
            "write a preset of your own with [studies]"
        )
    if source.columns.study is not None and not preset.studies:
        raise ConfigurationError(
            f"{where}: columns.study does nothing here, {name} is of one study; a preset of your "
            "own lists [studies]"
        )
    weight = source.weight if source.weight is not None else columns.names("weight")
    weights = [weight] if isinstance(weight, str) else list(weight)
    if len(weights) > 1 and "none" in [w.casefold() for w in weights]:
        raise ConfigurationError(f'{where}: weight "none" stands alone, without other columns')
    if [w.casefold() for w in weights] == ["none"]:
        weights = []
    # A catalog that a preset of the user's own names lies beside that preset.
    items, folder = preset.items, base
    if source.items is not None:
        items = source.items
    elif name.endswith(".toml"):
        folder = located(base, name).parent
    catalog: tuple[CatalogItem, ...] | None = None
    if items != "labels":
        path = Path(items)
        is_file = path.suffix in (".csv", ".toml")
        catalog = load_catalog(str(located(folder, items)) if is_file else items)
    questionnaire: dict[str, str] = {}
    if source.questionnaire is not None:
        questionnaire = load_questionnaire(located(base, source.questionnaire))
    return Declaration(
        source=source,
        preset=preset,
        survey=source.survey or preset.survey,
        columns=columns,
        own_columns=source.columns,
        weights=tuple(weights),
        missing=MissingCodes(source.missing, where, MissingCodes(preset.missing, preset.name)),
        year_codes={**preset.year_codes, **(source.year_codes or {})},
        country=source.country or (None if source.columns.country else preset.country),
        catalog=catalog,
        indices=load_indices(preset.items if items == "labels" else items),
        questionnaire=questionnaire,
    )


def find_roles(declared: Declaration, file: SurveyFile) -> tuple[Roles, dict[str, str]]:
    """Find the columns that are no questions.

    Returns
    -------
    roles : Roles
    lacking : dict of str to str
        What the file must have and has not, and what to do about it.
    """
    columns: dict[str, str] = {}
    lacking: dict[str, str] = {}

    others: dict[str, tuple[str, ...]] = {}

    def look(role: str, required: bool) -> None:
        names = declared.columns.names(role)
        own = getattr(declared.own_columns, role) is not None
        present = [c for name in names if (c := file.find(name, guessed=not own)) is not None]
        found = next(iter(present), None)
        if found is not None:
            columns[role] = found
            rest = tuple(dict.fromkeys(c for c in present if c != found))
            if rest and role in _CONTINUED:
                others[role] = rest
        elif required or getattr(declared.own_columns, role) is not None:
            advice = f'[sources.columns] {role} = "…"'
            lacking[role] = (
                f"no column {' or '.join(names)}{near(names[0], file.columns)}; name it: {advice}"
                if names
                else f"no column is declared: {advice}"
            )

    if declared.country is None:
        look("country", required=True)
    for role in _REQUIRED:
        look(role, required=True)
    waves: dict[str, str] = {}
    if declared.preset.studies:
        look("study", required=True)
        for study, part in declared.preset.studies.items():
            names = [part.wave] if isinstance(part.wave, str) else part.wave
            found = file.first(names, guessed=True)
            if found is not None:
                waves[study] = found
        if not waves:
            lacking["wave"] = "no wave column of any study"
    elif declared.columns.names("wave"):
        look("wave", required=True)
    for role in _OPTIONAL:
        look(role, required=False)
    guessed = declared.source.weight is None
    weights = [
        column
        for name in declared.weights
        if (column := file.find(name, guessed=guessed)) is not None
    ]
    roles = Roles(columns, tuple(dict.fromkeys(weights)), waves, others)
    named = {columns[role] for role in ("country", "country_alpha") if role in columns}
    file.number_columns = frozenset(roles.names()) - named
    return roles, lacking


def open_files(declared: Declaration, base: Path, frames: Mapping[str, object]) -> list[OpenFile]:
    """Open the files of a source and find the columns that are no questions.

    Raises
    ------
    SourceError
        A file cannot be read or lacks a column it must have.
    """
    opened: list[OpenFile] = []
    for name in declared.source.files():
        digest: str | None = None
        size: int | None = None
        if name in frames:
            file = open_frame(frames[name], name)
            if declared.source.encoding is not None:
                raise ConfigurationError(f"{name}: a frame has no encoding; leave it out")
        else:
            path = located(base, name)
            file = open_survey_file(path, declared.source.encoding)
            digest, size = file_digest(path), path.stat().st_size
        roles, lacking = find_roles(declared, file)
        if lacking:
            what = "; ".join(f"{role}: {why}" for role, why in lacking.items())
            raise SourceError(
                f"{file.name} does not have what {declared.source.preset} needs: {what}. "
                "`chronocore build --explain` shows what it has"
            )
        opened.append(OpenFile(file, digest, size, roles))
    _check_columns(declared, opened)
    twice = {
        o.digest for o in opened if o.digest and [p.digest for p in opened].count(o.digest) > 1
    }
    if twice:
        names = ", ".join(o.name for o in opened if o.digest in twice)
        raise SourceError(f"{names} are the same file; list it once")
    if declared.weights and not any(o.roles.weights for o in opened):
        raise SourceError(
            f"{', '.join(o.name for o in opened)} has no weight column "
            f"{' or '.join(declared.weights)}{near(declared.weights[0], opened[0].file.columns)}; "
            'name it with weight = "…", or go without: weight = "none"'
        )
    return opened


_WEIGHT_NAME = re.compile(r"weight|wgt|(?:^|_)w(?:t|eig)|^w$|gewicht|poids|peso", re.IGNORECASE)


def no_weight_declared(declared: Declaration, file: SurveyFile) -> str | None:
    """Return a warning where nothing says whether a file has weights, or None."""
    source = declared.source
    if declared.weights or source.weight is not None or source.columns.weight is not None:
        return None
    candidates = [column for column in file.columns if _WEIGHT_NAME.search(column)]
    if not candidates:
        return None
    return (
        f"{file.name}: no weight is declared, so none is used; candidates: "
        f'{", ".join(candidates[:8])}; weight = "…" names one, weight = "none" goes without'
    )


def _check_columns(declared: Declaration, opened: Sequence[OpenFile]) -> None:
    """Refuse names of columns that no file of the source has.

    The presets of the package list the names of all editions of a file; what a user names must
    be there.
    """
    source = declared.source
    files = ", ".join(one.name for one in opened)
    columns = [column for one in opened for column in one.file.columns]

    def require(name: str, where: str) -> None:
        if not any(one.file.find(name) for one in opened):
            raise SourceError(
                f"{files} has no column {name}, named by {where}{near(name, columns)}"
            )

    for role in Columns.__struct_fields__:
        own = source.columns.names(role)
        for name in own:
            require(name, f"[sources.columns] {role}")
        if source.preset.endswith(".toml") and not own and role != "weight":
            names = declared.preset.columns.names(role)
            if names and not any(one.file.first(names) for one in opened):
                require(names[0], f"{role} of {source.preset}")
    if source.weight is not None and any(one.roles.weights for one in opened):
        for name in declared.weights:
            require(name, "weight")
    if source.duplicates == "drop" and not any("respondent" in o.roles.columns for o in opened):
        raise ConfigurationError(
            f'[[sources]] {source.preset}: duplicates = "drop" needs the column that identifies a '
            'respondent: [sources.columns] respondent = "…"'
        )
