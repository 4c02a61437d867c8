"""The protocol of measurement validity as data: items, tones, personas, seeds, map anchors."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import chronocore_data
from chronocore.errors import ConfigurationError
from chronocore.parsing import ParsedScore, parse_score

__all__ = [
    "MapSettings",
    "ModelGroup",
    "PairPrompts",
    "Protocol",
    "Reference",
    "ScoreItem",
    "ScoreOption",
    "Temperature",
    "Tone",
    "load_protocol",
    "parse_protocol",
]


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the protocol; an unknown key is an error."""


class ScoreOption(_Struct, frozen=True):
    """One option: its code and label, what it adds to the score, and other names of it."""

    code: int
    label: str
    value: float | None = None
    aliases: tuple[str, ...] = ()

    @property
    def worth(self) -> float:
        """What choosing it adds to the score: its value, or its code."""
        return float(self.code if self.value is None else self.value)


class ScoreItem(_Struct, frozen=True):
    """One question whose answer is a number.

    ``choose`` is the least and the most options of an answer, ``base`` the score of an answer
    whose options add nothing. ``wording`` tells a paraphrase from the survey's own wording.
    """

    variable: str
    label: str
    text: str
    format: str
    options: tuple[ScoreOption, ...]
    choose: tuple[int, int] = (1, 1)
    base: float = 0.0
    wording: str | None = None

    @property
    def scores(self) -> tuple[float, float]:
        """Lowest and highest score that an answer can have."""
        worths = sorted(option.worth for option in self.options)
        sums = [
            (self.base + sum(worths[:count]), self.base + sum(worths[len(worths) - count :]))
            for count in range(self.choose[0], self.choose[1] + 1)
        ]
        return min(low for low, _ in sums), max(high for _, high in sums)

    @property
    def midpoint(self) -> float:
        """The middle of the scale."""
        low, high = self.scores
        return (low + high) / 2

    def parse(
        self, text: str | None, finish_reason: str | None = None, *, refusal: bool = False
    ) -> ParsedScore:
        """Read an answer to this item; see :func:`chronocore.parse_score`."""
        return parse_score(
            text,
            [msgspec.to_builtins(option) for option in self.options],
            finish_reason,
            choose=self.choose,
            base=self.base,
            refusal=refusal,
        )

    def render(self) -> str:
        """Return the user message: the question, its options and the form of the answer."""
        lines = []
        for option in self.options:
            own = option.label == str(option.code)
            lines.append(str(option.code) if own else f"{option.code}: {option.label}")
        # A scale whose inner points have no words is told by its ends, in the question.
        listed = "" if any(line.isdecimal() for line in lines) else "\n\n" + "\n".join(lines)
        return f"{self.text}{listed}\n\n{self.format}"


class Tone(_Struct, frozen=True):
    """A register, and the system prompts (personas) written in it."""

    name: str
    variants: tuple[str, ...]


class Temperature(_Struct, frozen=True):
    """Sampling temperatures of local models; null is the provider's default."""

    variants: float | None = 0.0
    seeds: float | None = 1.0


class Reference(_Struct, frozen=True):
    """A position that is drawn on the map and that distances are measured to."""

    name: str
    x: float
    y: float


class MapSettings(_Struct, frozen=True):
    """Anchors and scale of the cultural map.

    ``x`` and ``y`` give the sign with which an item's loading counts towards an axis. ``right_of``
    and ``above`` name two countries whose order is checked, with their codes in ``countries``.
    ``same_way`` names pairs of items, one of each axis, that correlate positively everywhere, and
    ``at_most`` levels that the mean of an item over countries does not exceed: they tell a mirrored
    axis where those countries are not there.
    """

    x: dict[str, int]
    y: dict[str, int]
    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)
    right_of: tuple[str, str] | None = None
    above: tuple[str, str] | None = None
    countries: dict[str, str] = {}
    same_way: tuple[tuple[str, str], ...] = ()
    at_most: dict[str, float] = {}
    reference: Reference | None = None


class ModelGroup(_Struct, frozen=True):
    """What is known of a model: how it is reached, who made it, where it is meant to be used."""

    name: str
    access: str | None = None
    origin: str | None = None
    region: str | None = None


class PairPrompts(_Struct, frozen=True):
    """Dated distribution prompts of temporal pairs as further items.

    ``sample`` pairs are drawn with ``seed`` from the study's pairs, all of them if it is null.
    """

    sample: int | None = None
    seed: int = 0


class Protocol(_Struct, frozen=True):
    """Everything that is asked, in which variants and how often."""

    name: str
    survey: str
    tone: tuple[Tone, ...]
    version: int = 1
    wording: str = "native"
    seeds: int = 10
    max_tokens: int = 120
    temperature: Temperature = Temperature()
    item: tuple[ScoreItem, ...] = ()
    pairs: PairPrompts | None = None
    map: MapSettings | None = None
    model: tuple[ModelGroup, ...] = ()

    @property
    def standard(self) -> str:
        """Name of the standard tone, the first one."""
        return self.tone[0].name

    @property
    def n_variants(self) -> int:
        """Number of system prompts over all tones."""
        return sum(len(tone.variants) for tone in self.tone)

    def wording_of(self, item: ScoreItem) -> str:
        """Return the name of an item's wording."""
        return item.wording or self.wording

    def find(self, variable: str, wording: str | None = None) -> ScoreItem | None:
        """Return an item by variable and wording, by default the protocol's own wording."""
        wanted = wording or self.wording
        for item in self.item:
            if item.variable == variable and self.wording_of(item) == wanted:
                return item
        return None

    def group_of(self, name: str) -> ModelGroup:
        """Return what is known of a model by its name, without regard to case."""
        for group in self.model:
            if group.name.casefold() == name.casefold():
                return group
        return ModelGroup(name=name)


_SECTIONS: dict[str, type[_Struct]] = {
    "": Protocol,
    "tone": Tone,
    "temperature": Temperature,
    "item": ScoreItem,
    "item.options": ScoreOption,
    "pairs": PairPrompts,
    "map": MapSettings,
    "map.reference": Reference,
    "model": ModelGroup,
}


def _explain(error: msgspec.ValidationError) -> str:
    """Turn msgspec's message into one that names the nearest valid key."""
    text = str(error)
    match = re.search(r"unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<at>[^`]*)`)?", text)
    if not match:
        return text.replace("Object", "the protocol").replace(" - at `$.", ", at `")
    at = re.sub(r"\[[^\]]*\]", "", match["at"] or "")
    keys = [field.name for field in msgspec.structs.fields(_SECTIONS.get(at, Protocol))]
    near = difflib.get_close_matches(match["key"], keys, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(keys)}"
    return f"unknown key {match['key']!r}{f' in [{at}]' if at else ''}; {hint}"


def _repeated(names: Sequence[Any]) -> Any:
    return next((name for name in names if names.count(name) > 1), None)


def _check(protocol: Protocol, where: str) -> Protocol:
    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigurationError(f"{where}: {what}")

    require(bool(protocol.tone), "no [[tone]]; give at least one with its variants")
    for tone in protocol.tone:
        require(bool(tone.variants), f"tone {tone.name!r} has no variants")
        twice = _repeated(tone.variants)
        require(twice is None, f"tone {tone.name!r} has a variant twice: {twice!r}")
    twice = _repeated([tone.name for tone in protocol.tone])
    require(twice is None, f"two tones are called {twice!r}")
    require(bool(protocol.item) or protocol.pairs is not None, "no [[item]] and no [pairs]")
    require(protocol.seeds >= 0, f"seeds must be at least 0, not {protocol.seeds}")
    require(protocol.max_tokens >= 1, f"max_tokens must be at least 1, not {protocol.max_tokens}")
    for name in ("variants", "seeds"):
        value = getattr(protocol.temperature, name)
        require(value is None or 0 <= value <= 2, f"temperature.{name} must lie in [0, 2]")
    twice = _repeated([(item.variable, protocol.wording_of(item)) for item in protocol.item])
    require(
        twice is None,
        f"item {twice and twice[0]} is there twice in one wording; name the wording of the second",
    )
    for item in protocol.item:
        low, high = item.choose
        require(len(item.options) >= 2, f"item {item.variable} needs at least 2 options")
        twice = _repeated([option.code for option in item.options])
        require(twice is None, f"item {item.variable} has the code {twice} twice")
        require(
            1 <= low <= high <= len(item.options),
            f"item {item.variable}: choose = [{low}, {high}] must lie within "
            f"1 and {len(item.options)}",
        )
        try:
            item.parse("")
        except ValueError as error:
            raise ConfigurationError(f"{where}: item {item.variable}: {error}") from None
    if protocol.pairs is not None and protocol.pairs.sample is not None:
        require(protocol.pairs.sample >= 1, "pairs.sample must be at least 1")
    if protocol.map is not None:
        for axis in ("x", "y"):
            anchors: dict[str, int] = getattr(protocol.map, axis)
            require(bool(anchors), f"map.{axis} names no anchor")
            require(
                set(anchors.values()) <= {-1, 1}, f"map.{axis}: a sign must be 1 or -1: {anchors}"
            )
        require(
            all(value > 0 for value in protocol.map.scale), "map.scale must be two positive numbers"
        )
    return protocol


def parse_protocol(text: str, where: str = "the protocol") -> Protocol:
    """Parse the text of a protocol (TOML).

    Raises
    ------
    ConfigurationError
        The text is no TOML, has an unknown key, or something in it cannot be asked.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from None
    try:
        return _check(msgspec.convert(data, Protocol), where)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {_explain(error)}") from None


def load_protocol(path: str | Path | None = None) -> Protocol:
    """Read a protocol of your own, or without a path the published one.

    Parameters
    ----------
    path : path, optional
        A TOML file as described in the how-to.

    Returns
    -------
    Protocol

    Raises
    ------
    ConfigurationError
        There is no such file, or it is no protocol.

    Notes
    -----
    Measurement Validity in LLM Cultural Alignment, sections 3.1 to 3.3 and appendix B.

    Examples
    --------
    >>> protocol = load_protocol()
    >>> len(protocol.item), protocol.n_variants, protocol.seeds
    (10, 30, 10)
    >>> protocol.find("Y003").scores
    (-2.0, 2.0)
    """
    if path is None:
        return parse_protocol(chronocore_data.validity_protocol())
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    return parse_protocol(text, str(path))
