"""What a study asks for: the contents of ``study.toml``.

Unknown keys are errors that name the nearest valid key, so that a typing mistake never leaves a
default silently in force.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

import chronocore_data
from chronocore.errors import ConfigurationError
from chronocore.metrics import BOUNDARIES
from chronocore.storage import read_bytes

__all__ = [
    "CLUSTERS",
    "MAXIMUM_RESAMPLES",
    "PRESETS",
    "Columns",
    "Names",
    "Rules",
    "ScoreSettings",
    "Source",
    "StudyConfig",
    "check_source",
    "dump_config",
    "dump_source",
    "explain_validation",
    "is_survey_key",
    "load_config",
    "parse_config",
    "preset_config",
    "read_toml",
    "source_config",
    "survey_key_advice",
    "unknown_preset",
]

#: What ``preset`` can name besides a TOML file of the user.
PRESETS = ("open-sample", *chronocore_data.presets())

Names = str | list[str]

#: What intervals can resample, and what is said of the resamples.
CLUSTERS = {"pair": "", "country": " of whole countries", "variable": " of whole questions"}


class Columns(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Names of the columns that are no questions; a list names alternatives, best first.

    Names are compared without regard to case. ``weight`` is an empty list where a survey has
    none.
    """

    respondent: Names | None = None
    country: Names | None = None
    country_alpha: Names | None = None
    country_name: Names | None = None
    wave: Names | None = None
    year: Names | None = None
    fieldwork_year: Names | None = None
    weight: Names | None = None
    stratum: Names | None = None
    psu: Names | None = None
    study: Names | None = None

    def names(self, role: str) -> list[str]:
        """Return the alternatives for a role, best first."""
        value: Names | None = getattr(self, role)
        return [] if value is None else [value] if isinstance(value, str) else list(value)

    def updated(self, other: Columns) -> Columns:
        """Return these columns with those that ``other`` names replaced."""
        changes = {role: getattr(other, role) for role in other.__struct_fields__}
        return msgspec.structs.replace(self, **{k: v for k, v in changes.items() if v is not None})


class Source(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One source of microdata: a preset and, unless it is the open sample, its files.

    Attributes
    ----------
    preset : str
        ``"open-sample"``, a preset of the package, or the path of one of your own.
    file : str or list of str
        One file, or several of the same survey; relative to ``study.toml``.
    survey : str
        Another key of the survey than the preset's.
    variables : list of str
        Only these questions; by default all of the catalog that the file has.
    items : str
        Catalog of the package, path of a catalog of your own (``.csv`` or ``.toml``), or
        ``"labels"``: the value labels of the columns that ``variables`` names.
    questionnaire : str
        CSV with columns ``variable`` and ``text``: the wording of the questions.
    country : str
        Code of the country, for a file of one country.
    weight : str or list of str
        Weight column; a list names alternatives, and each country and time point takes the first
        it has. ``"none"`` goes without weights.
    columns : Columns
        Column names that differ from the preset's.
    missing : dict of str to list
        Missing codes by reason; they are added to the preset's, and replace the preset's
        meaning of a code.
    year_codes : dict of str to int
        Years that codes of the year column stand for.
    waves : list of int
        Only these waves of this source.
    countries, exclude_countries : list of str
        Only these countries, or all but these.
    merge : dict of str to list of str
        Countries to be taken as one, by the code of the one.
    order : dict of str to list of int
        Codes of a question in the order of its scale, where it is not that of the codes.
    reverse : list of str
        Questions whose codes run the other way in this file than in the catalog.
    confirmed : list of str
        Questions whose codes are unconfirmed in the catalog and were checked by you.
    labels : {"stop", "flag"}
        What to do when labels contradict the catalog or each other.
    duplicates : {"report", "drop"}
        What to do with respondents that occur more than once.
    encoding : str
        Encoding of the text in the file, where it is not found by itself.
    core_only : bool
        ``false`` adds the stress inputs of the open sample.
    """

    preset: str
    file: str | list[str] | None = None
    survey: str | None = None
    variables: list[str] | None = None
    items: str | None = None
    questionnaire: str | None = None
    country: str | None = None
    weight: str | list[str] | None = None
    columns: Columns = Columns()
    missing: dict[str, list[int | str]] = {}
    year_codes: dict[str, int] | None = None
    waves: list[int] | None = None
    countries: list[str] | None = None
    exclude_countries: list[str] | None = None
    merge: dict[str, list[str]] = {}
    order: dict[str, list[int]] = {}
    reverse: list[str] = []
    confirmed: list[str] = []
    labels: Literal["stop", "flag"] = "stop"
    duplicates: Literal["report", "drop"] = "report"
    encoding: str | None = None
    core_only: bool = True

    def files(self) -> list[str]:
        """Return the files as a list."""
        if self.file is None:
            return []
        return [self.file] if isinstance(self.file, str) else list(self.file)


class Rules(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which time points enter and how pairs are formed (ChronoCulture, sections 3.2 and 3.4).

    ``newest = "latest"`` takes the most recent time point; ``"wave7"`` asks for wave 7 where a
    survey has waves.
    """

    min_respondents: int = 500
    time_point: Literal["wave", "year"] = "wave"
    waves: list[int] = msgspec.field(default_factory=lambda: [3, 4, 5, 6, 7])
    newest: Literal["latest", "wave7"] = "wave7"
    boundaries: str | tuple[float, float, float] = "default"


#: Resamples of an interval, at most. Each costs some dozens of bytes while it is drawn.
MAXIMUM_RESAMPLES = 10_000_000


class ScoreSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Thresholds and intervals of scores and tables; a change needs no new build.

    ``cluster`` is what intervals resample: single pairs, or all pairs of a country or of a
    variable (``survey`` and ``variable`` together) at once. ``gold_error`` carries the surveys'
    own sampling error into every interval. ``exact_intervals`` says which shares of independent
    pairs have an exact (Clopper-Pearson) interval beside the percentile one: those of 0 and
    100 % (``ends``), or all.
    """

    tau: float = 0.10
    retain: float = 0.75
    resamples: int = 1000
    confidence_level: float = 0.95
    seed: int = 0
    cluster: Literal["pair", "country", "variable"] = "pair"
    gold_error: bool = False
    exact_intervals: Literal["ends", "all"] = "ends"


class StudyConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The whole of ``study.toml``."""

    sources: list[Source]
    rules: Rules = Rules()
    score: ScoreSettings = ScoreSettings()

    def build_part(self) -> dict[str, Any]:
        """Return what ``build`` depends on; the rest may change without a new build."""
        builtins: dict[str, Any] = msgspec.to_builtins(self)
        del builtins["score"]
        return builtins


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": StudyConfig,
    "sources": Source,
    "sources.columns": Columns,
    "rules": Rules,
    "score": ScoreSettings,
}


def explain_validation(
    error: msgspec.ValidationError, sections: Mapping[str, type[msgspec.Struct]]
) -> str:
    """Turn msgspec's message into one that names the nearest valid key.

    ``sections`` maps the place of a key in the file to its structure.
    """
    text = str(error)
    match = re.search(r"unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?", text)
    if not match:
        return (
            text.replace("Object", "study.toml").replace(" - at `$.", ", at `").replace("`$`", "")
        )
    at = re.sub(r"\[[^\]]*\]", "", match["at"] or "")
    struct = sections.get(at, sections[""])
    keys = [field.name for field in msgspec.structs.fields(struct)]
    near = difflib.get_close_matches(match["key"], keys, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(keys)}"
    section = f" in [{at}]" if at else ""
    return f"unknown key {match['key']!r}{section}; {hint}"


def check_source(source: Source, where: str) -> None:
    """Refuse what a source cannot mean, and settings that could not act.

    Raises
    ------
    ConfigurationError
    """

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigurationError(f"{where}: {what}")

    known = source.preset in PRESETS or source.preset.endswith(".toml")
    require(known, f"sources: preset: {unknown_preset(source.preset)}")
    if source.preset == "open-sample":
        allowed = Source(
            preset=source.preset, variables=source.variables, core_only=source.core_only
        )
        require(source == allowed, "the open sample takes only variables and core_only")
        return
    name = f"[[sources]] with preset {source.preset!r}"
    require(bool(source.files()), f'{name} needs the data: file = "…"')
    if source.survey is not None:
        require(is_survey_key(source.survey), f"{name}: {survey_key_advice(source.survey)}")
    for setting in ("variables", "countries", "waves"):
        value = getattr(source, setting)
        require(value is None or bool(value), f"{name}: {setting} is empty; leave it out for all")
    require(source.core_only, f"{name}: core_only is for the open sample alone; leave it out")
    require(
        source.country is None or source.columns.country is None,
        f"{name}: country is that of a file of one country, and columns.country names a column; "
        "keep one of them",
    )
    require(
        source.weight is None or source.columns.weight is None,
        f"{name}: weight and columns.weight both name the weight; keep one of them",
    )
    for code, year in (source.year_codes or {}).items():
        require(
            re.fullmatch(r"-?\d{1,9}", code) is not None and 1900 <= year <= 2100,
            f"{name}: year_codes {code!r} = {year} is no code with its year, as in 12 = 2025",
        )


def is_survey_key(name: str) -> bool:
    """Tell whether a name can be the key of a survey."""
    return re.fullmatch(r"[a-z][a-z0-9_-]*", name) is not None


def survey_key_advice(name: str) -> str:
    """Return what to say about a name that is no key of a survey."""
    near = re.sub(r"[^a-z0-9_-]+", "-", name.casefold()).strip("-_0123456789")
    hint = f", for example {near!r}" if is_survey_key(near) else " such as 'wvs'"
    return f"survey {name!r} must be a lower-case key{hint}"


def _check(config: StudyConfig, where: str) -> StudyConfig:
    rules, score = config.rules, config.score

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigurationError(f"{where}: {what}")

    require(bool(config.sources), "no [[sources]]; name at least one, for example open-sample")
    for source in config.sources:
        check_source(source, where)
    require(rules.min_respondents >= 1, "rules.min_respondents must be at least 1")
    require(bool(rules.waves), "rules.waves is empty; list the waves to use, for example [3, 4]")
    if isinstance(rules.boundaries, str):
        require(
            rules.boundaries in BOUNDARIES,
            f"rules.boundaries {rules.boundaries!r} is none of {', '.join(BOUNDARIES)}",
        )
    else:
        a, b, c = rules.boundaries
        require(0 <= a < b < c <= 1, "rules.boundaries must be three increasing values in [0, 1]")
    require(0 < score.tau <= 1, "score.tau must lie in (0, 1]")
    require(0 < score.retain <= 1, "score.retain must lie in (0, 1]")
    require(
        1 <= score.resamples <= MAXIMUM_RESAMPLES,
        f"score.resamples must lie between 1 and {MAXIMUM_RESAMPLES:,}, not {score.resamples:,}",
    )
    require(0 < score.confidence_level < 1, "score.confidence_level must lie in (0, 1)")
    require(0 <= score.seed < 2**63, "score.seed must be a non-negative integer")
    return config


def read_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML that somebody wrote.

    Raises
    ------
    ConfigurationError
        It is none, or holds numbers or nesting beyond what can be read.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigurationError(f"{where} is nested too deeply to be read") from None
    except ValueError as error:
        # A number of thousands of digits is a ValueError that names no line.
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from None


def parse_config(text: str, where: str = "study.toml") -> StudyConfig:
    """Parse the text of a ``study.toml``.

    Raises
    ------
    ConfigurationError
        The text is no TOML, has an unknown key or a value out of range.
    """
    data = read_toml(text, where)
    if "sources" not in data:
        what = "is empty" if not data else "has no [[sources]]"
        raise ConfigurationError(
            f"{where} {what}; a study needs the survey it is made of, for example\n"
            '[[sources]]\npreset = "open-sample"\nor what chronocore build --explain FILE '
            "prints"
        )
    try:
        return _check(msgspec.convert(data, StudyConfig), where)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {explain_validation(error, _SECTIONS)}") from None


def load_config(path: Path) -> StudyConfig:
    """Read and check a ``study.toml``.

    Raises
    ------
    ConfigurationError
        There is none, or what it says cannot be used.
    StorageError
        It is there and cannot be read, which says nothing about what is in it.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    return parse_config(text, str(path))


def unknown_preset(name: str) -> str:
    """Return what to say about a preset that does not exist."""
    near = difflib.get_close_matches(name, PRESETS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known presets: {', '.join(PRESETS)}"
    return f"there is no preset {name!r}; {hint}"


def preset_config(name: str) -> StudyConfig:
    """Return the settings of the open sample, the one preset that needs no file."""
    if name != "open-sample":
        if name in PRESETS:
            raise ConfigurationError(f"preset {name!r} needs the data: name its file")
        raise ConfigurationError(unknown_preset(name))
    # The open sample ends at wave 6, so its newest time point is the latest there is.
    return StudyConfig(sources=[Source(preset="open-sample")], rules=Rules(newest="latest"))


def source_config(preset: str, files: list[str]) -> StudyConfig:
    """Return the settings of a study of one survey: its files, and the preset's own rules.

    Examples
    --------
    >>> source_config("gss", ["gss7224_r3a.dta"]).sources[0].file
    'gss7224_r3a.dta'
    """
    file = files[0] if len(files) == 1 else files
    return _check(StudyConfig(sources=[Source(preset=preset, file=file)]), "settings")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list | tuple) else value


def _one_line_lists(text: str) -> str:
    """Write short lists of numbers or words on one line, where they read better."""

    def join(match: re.Match[str]) -> str:
        parts = [line.strip() for line in match[1].splitlines()]
        line = "[" + " ".join(parts).rstrip(",") + "]"
        return line if len(line) <= 80 else match[0]

    return re.sub(r"\[\n((?:    [^\[\]{}\n]*,\n)+)\]", join, text)


def dump_source(source: Source) -> str:
    """Return one ``[[sources]]`` block of a ``study.toml``."""
    text = tomli_w.dumps(_without_none(msgspec.to_builtins(source)))
    # Tables of a source stand below it.
    nested = re.sub(r"^\[(?=[^\]\n]+\]$)", "[sources.", text, flags=re.MULTILINE)
    return _one_line_lists(f"[[sources]]\n{nested}\n")


def dump_config(config: StudyConfig) -> str:
    """Return the text of a ``study.toml``; reading it back gives the same settings."""
    head = (
        "# What this study asks for; edit it by hand.\n"
        "# [[sources]] and [rules] take effect with the next `chronocore build`,\n"
        "# [score] with the next `chronocore score`.\n\n"
    )
    data = _without_none(msgspec.to_builtins(config))
    del data["sources"]
    sources = "".join(map(dump_source, config.sources))
    return head + sources + _one_line_lists(tomli_w.dumps(data))
