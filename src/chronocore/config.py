"""What a study asks for: the contents of ``study.toml``.

Unknown keys are errors that name the nearest valid key, so that a typing mistake never leaves a
default silently in force.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

from chronocore.errors import ConfigurationError
from chronocore.metrics import BOUNDARIES

__all__ = [
    "CLUSTERS",
    "PRESETS",
    "Rules",
    "ScoreSettings",
    "Source",
    "StudyConfig",
    "dump_config",
    "load_config",
    "parse_config",
    "preset_config",
]

PRESETS = ("open-sample",)

#: What intervals can resample.
CLUSTERS = ("pair", "country", "variable")


class Source(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One source of microdata.

    ``variables`` limits the items; ``core_only = false`` adds the stress inputs of the open
    sample.
    """

    preset: Literal["open-sample"]
    variables: list[str] | None = None
    core_only: bool = True


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


class ScoreSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Thresholds and intervals of scores and tables; a change needs no new build.

    ``cluster`` is what intervals resample: single pairs, or all pairs of a country or of a
    variable (``survey`` and ``variable`` together) at once. ``gold_error`` carries the surveys'
    own sampling error into every interval.
    """

    tau: float = 0.10
    retain: float = 0.75
    resamples: int = 1000
    confidence_level: float = 0.95
    seed: int = 0
    cluster: Literal["pair", "country", "variable"] = "pair"
    gold_error: bool = False


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
    "sources": Source,
    "rules": Rules,
    "score": ScoreSettings,
}


def _explain(error: msgspec.ValidationError) -> str:
    """Turn msgspec's message into one that names the nearest valid key."""
    text = str(error)
    match = re.search(r"unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?", text)
    if not match:
        return (
            text.replace("Object", "study.toml").replace(" - at `$.", ", at `").replace("`$`", "")
        )
    at = re.sub(r"\[[^\]]*\]", "", match["at"] or "")
    struct = _SECTIONS.get(at, StudyConfig)
    keys = [field.name for field in msgspec.structs.fields(struct)]
    near = difflib.get_close_matches(match["key"], keys, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(keys)}"
    section = f" in [{at}]" if at else ""
    return f"unknown key {match['key']!r}{section}; {hint}"


def _check(config: StudyConfig, where: str) -> StudyConfig:
    rules, score = config.rules, config.score

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigurationError(f"{where}: {what}")

    require(bool(config.sources), "no [[sources]]; name at least one, for example open-sample")
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
    require(score.resamples >= 1, "score.resamples must be at least 1")
    require(0 < score.confidence_level < 1, "score.confidence_level must lie in (0, 1)")
    require(0 <= score.seed < 2**63, "score.seed must be a non-negative integer")
    return config


def parse_config(text: str, where: str = "study.toml") -> StudyConfig:
    """Parse the text of a ``study.toml``.

    Raises
    ------
    ConfigurationError
        The text is no TOML, has an unknown key or a value out of range.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from None
    try:
        return _check(msgspec.convert(data, StudyConfig), where)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {_explain(error)}") from None


def load_config(path: Path) -> StudyConfig:
    """Read and check a ``study.toml``."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    return parse_config(text, str(path))


def preset_config(name: str) -> StudyConfig:
    """Return the settings of a preset."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known presets: {', '.join(PRESETS)}"
        raise ConfigurationError(f"there is no preset {name!r}; {hint}")
    # The open sample ends at wave 6, so its newest time point is the latest there is.
    return StudyConfig(sources=[Source(preset="open-sample")], rules=Rules(newest="latest"))


def dump_config(config: StudyConfig) -> str:
    """Return the text of a ``study.toml``; reading it back gives the same settings."""

    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without_none(v) for k, v in value.items() if v is not None}
        return [without_none(v) for v in value] if isinstance(value, list | tuple) else value

    head = (
        "# What this study asks for; edit it by hand.\n"
        "# [[sources]] and [rules] take effect with the next `chronocore build`,\n"
        "# [score] with the next `chronocore score`.\n\n"
    )
    data = without_none(msgspec.to_builtins(config))
    sources = "".join(f"[[sources]]\n{tomli_w.dumps(source)}\n" for source in data.pop("sources"))
    # Short lists of numbers or words read better on one line.
    rest = re.sub(
        r"\[\n((?:    [^\[\]{}\n]*,\n)+)\]",
        lambda match: "[" + " ".join(match[1].split()).rstrip(",") + "]",
        tomli_w.dumps(data),
    )
    return head + sources + rest
