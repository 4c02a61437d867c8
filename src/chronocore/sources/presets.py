"""Surveys as declarations: which columns a survey's files have and what their codes mean.

A preset is a small TOML file. Those of known surveys come with the package; one for a new survey
is written in the same form and named by its path. Everything in it can be overridden for one
source in ``study.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

import chronocore_data
from chronocore.config import (
    Columns,
    Names,
    explain_validation,
    is_survey_key,
    read_toml,
    survey_key_advice,
    unknown_preset,
)
from chronocore.errors import ConfigurationError
from chronocore.text import plain

__all__ = [
    "LETTERS",
    "VALID",
    "MissingCodes",
    "Preset",
    "StudyPart",
    "letter_code",
    "load_preset",
    "preset_names",
    "shown_code",
]

#: Stata's ``.a`` to ``.z`` stand below every code a survey uses, so that they fit beside the
#: codes of a question into 16 bits.
LETTERS = {letter: -32700 - i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}


def letter_code(letter: str) -> int:
    """Return the integer that stands for a Stata missing letter.

    Examples
    --------
    >>> letter_code(".a"), letter_code("b")
    (-32700, -32701)
    """
    return LETTERS[letter.lstrip(".").lower()]


class StudyPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One of the studies a merged file holds: its code, and where its waves are numbered."""

    code: int | str
    wave: Names


class Preset(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is known about the files of one survey.

    Attributes
    ----------
    name, survey : str
        Name of the preset, and the lower-case key of the survey programme.
    about, citation, doi : str
        For people and for the manifest.
    files : list of str
        Patterns of file names, to guess the preset of a file.
    items : str
        A catalog of the package, the path of a catalog, or ``"labels"``: the questions a user
        names, with the options the file's own value labels give.
    item_column : {"variable", "wave7_question"}
        Column of the catalog that names the question in the file.
    prefix, case : str
        How a column becomes the name of a variable.
    country : str or None
        The country of a survey of one country.
    topic, topic_broad : str or None
        Topic of questions that come from labels.
    checks : list of str
        Facts a user should check, because no documentation at hand confirms them.
    columns : Columns
    missing : dict of str to list
        Codes, ranges (``"-99..-5"``) and Stata letters (``".a"``) by reason.
    year_codes : dict of str to int
        Years that the codes of the year column stand for.
    studies : dict of str to StudyPart
        The studies of a merged file, by the name that time points carry.
    """

    name: str
    survey: str
    about: str = ""
    citation: str = ""
    doi: str = ""
    files: list[str] = []
    items: str = "labels"
    item_column: Literal["variable", "wave7_question"] = "variable"
    prefix: str = ""
    case: Literal["", "upper", "lower"] = ""
    country: str | None = None
    topic: str | None = None
    topic_broad: str | None = None
    checks: list[str] = []
    columns: Columns = Columns()
    missing: dict[str, list[int | str]] = {}
    year_codes: dict[str, int] = {}
    studies: dict[str, StudyPart] = {}

    def variable(self, column: str) -> str:
        """Return the name of the variable that a column holds."""
        text = column.upper() if self.case == "upper" else column
        text = text.lower() if self.case == "lower" else text
        if self.prefix and text.casefold().startswith(self.prefix.casefold()):
            text = text[len(self.prefix) :]
        return self.prefix + text


_SECTIONS: dict[str, type[msgspec.Struct]] = {"": Preset, "columns": Columns}


#: A reason that makes a code an answer after all.
VALID = "valid"


class MissingCodes:
    """Reasons by code, from codes, ranges and letters.

    Parameters
    ----------
    declared : dict of str to list
        Codes, ranges and letters by reason; those of the reason ``valid`` are answers, whatever
        ``otherwise`` says of them.
    where : str
        For messages.
    otherwise : MissingCodes, optional
        The habit of the survey programme, asked for codes that are not declared here.

    Examples
    --------
    >>> codes = MissingCodes({"don't know": [-1, ".a"], "other missing": ["-99..-5"]}, "here")
    >>> codes.reason(-1), codes.reason(-7), codes.reason(letter_code("a")), codes.reason(3)
    ("don't know", 'other missing', "don't know", None)
    """

    def __init__(
        self,
        declared: Mapping[str, list[int | str]],
        where: str,
        otherwise: MissingCodes | None = None,
    ) -> None:
        self._exact: dict[int, str] = {}
        self._ranges: list[tuple[int, int, str]] = []
        self._otherwise = otherwise
        for reason, entries in declared.items():
            for low, high in self._parse(reason, entries, where):
                if low != high:
                    self._ranges.append((low, high, reason))
                elif self._exact.setdefault(low, reason) != reason:
                    raise ConfigurationError(
                        f"{where}: the missing code {shown_code(low)} has two reasons, "
                        f"{self._exact[low]!r} and {reason!r}"
                    )

    @staticmethod
    def _parse(reason: str, entries: list[int | str], where: str) -> Iterator[tuple[int, int]]:
        for entry in entries:
            if isinstance(entry, int):
                yield entry, entry
            elif re.fullmatch(r"\.[a-zA-Z]", entry):
                if reason == VALID:
                    raise ConfigurationError(
                        f"{where}: {entry!r} of {reason!r} is a Stata letter, which is no code of "
                        "a scale; give its answers a code in the file"
                    )
                yield letter_code(entry), letter_code(entry)
            elif match := re.fullmatch(r"\s*(-?\d+)\s*(?:\.\.\s*(-?\d+)\s*)?", entry):
                low = int(match[1])
                high = low if match[2] is None else int(match[2])
                if high < low:
                    raise ConfigurationError(
                        f"{where}: the range {entry!r} of {reason!r} runs backwards"
                    )
                yield low, high
            else:
                raise ConfigurationError(
                    f"{where}: {entry!r} of {reason!r} is no missing code; write a number, a "
                    'range like "-99..-5" or a Stata letter like ".a"'
                )

    def own(self, code: int) -> str | None:
        """Return what is declared here for a code, :data:`VALID` included, or None."""
        found = self._exact.get(code)
        if found is None:
            found = next((why for low, high, why in self._ranges if low <= code <= high), None)
        return found

    def habit(self, code: int) -> str | None:
        """Return why the survey programme takes a code for missing, unless declared otherwise."""
        if self._otherwise is None or self.own(code) is not None:
            return None
        return self._otherwise.reason(code)

    def reason(self, code: int) -> str | None:
        """Return why a code is missing, or None if it is not declared."""
        found = self.own(code)
        if found is None:
            return self.habit(code)
        return None if found == VALID else found

    def codes(self) -> list[tuple[int, str]]:
        """Return the single codes that are declared here, with their reasons."""
        return list(self._exact.items())


def shown_code(code: int) -> str:
    """Return a code as a user writes it, a letter with its point."""
    letter = next((letter for letter, number in LETTERS.items() if number == code), None)
    return str(code) if letter is None else f".{letter}"


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of the presets that come with the package."""
    return tuple(sorted(chronocore_data.presets()))


def _parse(text: str, where: str) -> Preset:
    try:
        preset = msgspec.convert(read_toml(text, where), Preset)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {explain_validation(error, _SECTIONS)}") from None
    if not is_survey_key(preset.survey):
        raise ConfigurationError(f"{where}: {survey_key_advice(preset.survey)}")
    MissingCodes(preset.missing, where)
    named = {
        name: plain(getattr(preset, name), 1000)
        for name in ("name", "about", "citation", "doi", "topic", "topic_broad")
        if getattr(preset, name) is not None
    }
    return msgspec.structs.replace(preset, **named)


def load_preset(name: str) -> Preset:
    """Return a preset by its name, or from the path of a TOML file.

    Raises
    ------
    ConfigurationError
        There is no such preset, or the file is none.

    Examples
    --------
    >>> load_preset("gss").columns.weight
    ['wtssall', 'wtssps', 'wtssnrps']
    """
    if name in preset_names():
        return _parse(chronocore_data.preset_text(name), f"preset {name}")
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return _parse(path.read_text(encoding="utf-8-sig"), str(path))
        except FileNotFoundError:
            raise ConfigurationError(f"there is no preset file {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from None
    raise ConfigurationError(
        f"{unknown_preset(name)} (a preset of your own is named by its path, *.toml)"
    )
