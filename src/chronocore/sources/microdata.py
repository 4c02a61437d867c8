"""What every source gives: respondents in rows, and the items that were asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chronocore.engines.base import Option
from chronocore.errors import SourceError

__all__ = ["MISSING", "Item", "Microdata"]

#: Answers that are none: how many there are for each variable, time point and reason.
MISSING = pa.schema(
    {
        "variable": pa.string(),
        "country": pa.string(),
        "study": pa.string(),
        "wave": pa.int16(),
        "year": pa.int16(),
        "reason": pa.string(),
        "count": pa.int64(),
    }
)


@dataclass(frozen=True, slots=True)
class Item:
    """One survey question with its ordered answer scale.

    ``positions`` are the places of the options on the scale, by default their codes.
    """

    survey: str
    variable: str
    source: str
    text: str
    topic: str | None
    topic_broad: str | None
    options: tuple[Option, ...]
    positions: tuple[float, ...]

    def __post_init__(self) -> None:
        where = f"{self.survey} {self.variable}"
        if len(self.options) < 2:
            raise SourceError(
                f"{where} has {len(self.options)} option(s); a distance needs at least 2"
            )
        if len({option.code for option in self.options}) != len(self.options):
            raise SourceError(f"{where} has an option code twice")
        if len(self.positions) != len(self.options) or any(
            b <= a for a, b in zip(self.positions, self.positions[1:], strict=False)
        ):
            raise SourceError(
                f"{where}: the positions of its options must be strictly increasing, "
                f"they are {list(self.positions)}; list the options in the order of the scale"
            )


@dataclass(frozen=True, slots=True)
class Microdata:
    """Respondents of one survey file, or of several files of one survey.

    Attributes
    ----------
    survey : str
        Lower-case key of the survey programme.
    respondents : pyarrow.Table
        One row a respondent: ``country`` (string), ``country_name`` (string or null), ``wave``
        (int16 or null), ``year`` (int16 or null), ``weight`` (float64, only if there is one),
        and one numeric column of answer codes for each item, named by its variable: null or a
        code that is no option is no valid answer. Indices of a catalog, and the answers they are
        made of, have a column too and are no items unless asked for. Where a file has them:
        ``weight_name`` (string or null, the column a row's weight is from), ``study`` (string),
        ``stratum`` and ``psu`` (int64 or null), ``fieldwork_year`` (int16 or null).
    items : tuple of Item
        The items in the order of the catalog.
    weight : str or None
        Name of the weight column in the file; names joined by ``, `` where there are several.
    source : str
        Where the file is from, for people.
    provenance : dict of str to object
        File names, sizes, sha256, encodings, versions and what was read, for the manifest.
    missing : pyarrow.Table or None
        Answers that are none, counted by reason: schema :data:`MISSING`. Null where the source
        does not say why an answer is missing.
    notes : tuple of str
        What a reader should know about the file.
    """

    survey: str
    respondents: pa.Table
    items: tuple[Item, ...]
    weight: str | None
    source: str
    provenance: dict[str, Any] = field(default_factory=dict)
    missing: pa.Table | None = None
    notes: tuple[str, ...] = ()
