"""Item catalogs: which questions there are, how their scales run, and who says so.

A catalog is a CSV file with one row an option, or a TOML file with one ``[[items]]`` a question.
That of the World Values Survey comes with the package; a user's own has the same form.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import chronocore_data
from chronocore.config import read_toml
from chronocore.errors import ConfigurationError
from chronocore.sources.files import LONGEST_WORDING
from chronocore.text import LONGEST, plain

__all__ = ["CatalogItem", "CatalogOption", "load_catalog", "load_indices", "load_questionnaire"]

STATUSES = ("confirmed", "partly", "unconfirmed")

_COLUMNS = (
    "variable",
    "other_names",
    "wave7_question",
    "text",
    "text_source",
    "topic",
    "topic_broad",
    "order",
    "status",
    "code",
    "label",
    "position",
    "off_scale",
    "aliases",
    "recode",
)
_NEEDED = ("variable", "code", "label")


@dataclass(frozen=True, slots=True)
class CatalogOption:
    """One code of an item: an option, or (``off_scale``) an answer that is none."""

    code: int
    label: str
    position: float
    off_scale: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogItem:
    """One question of a catalog.

    Attributes
    ----------
    variable : str
        Name of the variable in a study.
    other_names : tuple of str
        Its other names in files.
    wave7_question : str
        Its name in the file of WVS wave 7, or empty.
    text, text_source : str
        Wording, and where it is from; empty if the file's own label is used.
    topic, topic_broad : str or None
    order : str
        What a low or high position means.
    status : {"confirmed", "partly", "unconfirmed"}
        Whether the codes are confirmed; unconfirmed items need a file whose labels confirm them.
    options : tuple of CatalogOption
        In the order of the scale; off-scale codes last.
    recode : dict of int to int
        Codes of the wave-7 file to codes of the catalog; codes not listed are the same.
    """

    variable: str
    other_names: tuple[str, ...]
    wave7_question: str
    text: str
    text_source: str
    topic: str | None
    topic_broad: str | None
    order: str
    status: str
    options: tuple[CatalogOption, ...]
    recode: Mapping[int, int]

    @property
    def scale(self) -> tuple[CatalogOption, ...]:
        """The options proper, in the order of the scale."""
        return tuple(option for option in self.options if not option.off_scale)

    @classmethod
    def from_labels(
        cls,
        variable: str,
        text: str,
        labels: Mapping[int, str],
        *,
        positions: Mapping[int, float] | None = None,
        aside: Mapping[int, str] | None = None,
        topic: str | None = None,
        topic_broad: str | None = None,
    ) -> CatalogItem:
        """Make an item of value labels, in the order of their positions (by default, codes).

        ``aside`` are labelled answers that are no options.
        """
        places = positions or {code: float(code) for code in labels}
        return cls(
            variable=variable,
            other_names=(),
            wave7_question="",
            text=text,
            text_source="variable label of the file" if text else "",
            topic=topic,
            topic_broad=topic_broad,
            order="",
            status="confirmed",
            options=(
                *(
                    CatalogOption(code, labels[code], places[code])
                    for code in sorted(labels, key=places.__getitem__)
                ),
                *(
                    CatalogOption(code, label, float(code), off_scale=True)
                    for code, label in (aside or {}).items()
                ),
            ),
            recode={},
        )

    def in_order(self, order: Sequence[int]) -> CatalogItem:
        """Return the item with the options in another order, at positions 1 to K."""
        place = {code: float(i) for i, code in enumerate(order, start=1)}
        scale = sorted(self.scale, key=lambda option: place[option.code])
        off = [option for option in self.options if option.off_scale]
        moved = [replace(option, position=place[option.code]) for option in scale]
        return replace(self, options=(*moved, *off))

    @property
    def nominal(self) -> bool:
        """Whether the options have no order, so that no distance is defined between them."""
        return self.order == "nominal"

    def with_text(self, text: str, source: str) -> CatalogItem:
        """Return the item with another wording."""
        return replace(self, text=text, text_source=source)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _integer(text: Any, what: str, where: str) -> int:
    try:
        number = float(str(text).strip())
    except ValueError:
        number = 0.5
    if number != int(number) or abs(number) > 32000:
        raise ConfigurationError(f"{where}: {what} {text!r} is no integer")
    return int(number)


def _option(row: Mapping[str, Any], where: str) -> CatalogOption:
    code = _integer(row["code"], "code", where)
    place = str(row.get("position") or "").strip() if row.get("position") != 0 else "0"
    try:
        position = float(place) if place else float(code)
    except ValueError:
        raise ConfigurationError(f"{where}: position {place!r} is no number") from None
    off = str(row.get("off_scale") or "no").strip().casefold()
    if off not in ("yes", "no", "true", "false"):
        raise ConfigurationError(f"{where}: off_scale {off!r} is neither yes nor no")
    aliases = row.get("aliases") or ""
    return CatalogOption(
        code=code,
        label=plain(str(row["label"])) or str(code),
        position=position,
        off_scale=off in ("yes", "true"),
        aliases=_split(aliases) if isinstance(aliases, str) else tuple(map(str, aliases)),
    )


def _recode(text: Any, where: str) -> dict[int, int]:
    pairs = text.items() if isinstance(text, Mapping) else (p.split(":") for p in _split(text))
    result: dict[int, int] = {}
    for pair in pairs:
        if len(pair) != 2:
            raise ConfigurationError(
                f"{where}: recode {text!r} is not of the form 'file code:catalog code;…'"
            )
        result[_integer(pair[0], "recode", where)] = _integer(pair[1], "recode", where)
    return result


def _item(rows: Sequence[Mapping[str, Any]], where: str) -> CatalogItem:
    first = rows[0]

    def text(column: str) -> str:
        limit = LONGEST_WORDING if column == "text" else LONGEST
        return plain(str(first.get(column) or ""), limit)

    status = text("status") or "confirmed"
    if status not in STATUSES:
        raise ConfigurationError(f"{where}: status {status!r} is none of {', '.join(STATUSES)}")
    options = tuple(_option(row, where) for row in rows)
    codes = [option.code for option in options]
    twice = sorted({code for code in codes if codes.count(code) > 1})
    if twice:
        raise ConfigurationError(f"{where}: code {twice[0]} is listed twice")
    scale = [option for option in options if not option.off_scale]
    if len(scale) < 2:
        raise ConfigurationError(
            f"{where} has {len(scale)} option(s) on its scale; a distance needs at least 2"
        )
    for before, after in pairwise(scale):
        if after.position <= before.position:
            raise ConfigurationError(
                f"{where}: {after.label!r} is listed after {before.label!r}, but its position "
                f"{after.position:g} is not above {before.position:g}; list the options in the "
                "order of the scale, and give positions where codes do not follow it"
            )
    other = first.get("other_names") or ""
    return CatalogItem(
        variable=text("variable"),
        other_names=_split(other) if isinstance(other, str) else tuple(map(str, other)),
        wave7_question=text("wave7_question"),
        text=text("text"),
        text_source=text("text_source"),
        topic=text("topic") or None,
        topic_broad=text("topic_broad") or None,
        order=text("order"),
        status=status,
        options=options,
        recode=_recode(first.get("recode") or "", where),
    )


def _unknown_columns(found: Iterable[str], where: str) -> None:
    for column in found:
        if column not in _COLUMNS:
            near = difflib.get_close_matches(column, _COLUMNS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_COLUMNS)}"
            raise ConfigurationError(f"{where}: unknown column {column!r}; {hint}")


def _from_rows(rows: Sequence[Mapping[str, Any]], where: str) -> tuple[CatalogItem, ...]:
    items: list[CatalogItem] = []
    for variable, group in groupby(rows, key=lambda row: str(row["variable"] or "").strip()):
        if not variable:
            raise ConfigurationError(f"{where}: a row has no variable")
        items.append(_item(list(group), f"{where}, {variable}"))
    seen: set[str] = set()
    for item in items:
        if item.variable in seen:
            raise ConfigurationError(
                f"{where}: the rows of {item.variable} are not next to each other"
            )
        seen.add(item.variable)
    if not items:
        raise ConfigurationError(f"{where} lists no item")
    return tuple(items)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def _rows_of_csv(text: str, where: str, needed: Sequence[str]) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    found = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = found
    missing = [name for name in needed if name not in found]
    if missing:
        raise ConfigurationError(
            f"{where} has no column {', '.join(missing)}; it has {', '.join(found) or 'none'}"
        )
    rows = list(reader)
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise ConfigurationError(
                f"{where}, row {number} does not have one value for each of {len(found)} columns"
            )
    return rows


def load_catalog(name: str) -> tuple[CatalogItem, ...]:
    """Return a catalog of the package by its name, or a user's own from a path.

    Parameters
    ----------
    name : str
        ``"wvs"``, or the path of a ``.csv`` or ``.toml`` file.

    Returns
    -------
    tuple of CatalogItem
        In the order of the catalog.

    Raises
    ------
    ConfigurationError
        There is no such catalog, or a row of it contradicts another.

    Examples
    --------
    >>> item = load_catalog("wvs")[0]
    >>> item.variable, [option.label for option in item.scale][:2]
    ('A001', ['Very important', 'Rather important'])
    """
    path = Path(name)
    if path.suffix == ".csv":
        rows = _rows_of_csv(_read(path), str(path), _NEEDED)
        _unknown_columns(rows[0] if rows else [], str(path))
        return _from_rows(rows, str(path))
    if path.suffix == ".toml":
        data = read_toml(_read(path), str(path))
        return _from_rows(list(_rows_of_toml(data, str(path))), str(path))
    try:
        rows = chronocore_data.catalog(name)
    except FileNotFoundError:
        raise ConfigurationError(
            f"there is no item catalog {name!r}; write the path of a .csv or .toml file, a "
            'catalog of the package ("wvs"), or "labels"'
        ) from None
    return _from_rows(rows, f"catalog {name}")


def load_indices(name: str) -> tuple[CatalogItem, ...]:
    """Return the indices that belong to a catalog, and the answers they are made of.

    Examples
    --------
    >>> [item.variable for item in load_indices("wvs")]
    ['E003', 'E004', 'Y002', 'Y003']
    >>> load_indices("own.csv")
    ()
    """
    rows = chronocore_data.catalog_indices(name)
    return _from_rows(rows, f"indices of catalog {name}") if rows else ()


def _rows_of_toml(data: Mapping[str, Any], where: str) -> Iterable[dict[str, Any]]:
    entries = data.get("items")
    if not isinstance(entries, list):
        raise ConfigurationError(f"{where} has no [[items]]")
    for entry in entries:
        options = entry.get("options")
        if not entry.get("variable") or not isinstance(options, list):
            raise ConfigurationError(
                f"{where}: every [[items]] needs a variable and a list of options"
            )
        common = {key: value for key, value in entry.items() if key != "options"}
        _unknown_columns(common, f"{where}, {entry['variable']}")
        for option in options:
            if not isinstance(option, dict) or not {"code", "label"} <= set(option):
                raise ConfigurationError(
                    f"{where}, {entry['variable']}: an option is no {{ code = …, label = … }}"
                )
            _unknown_columns(option, f"{where}, {entry['variable']}")
            yield {**common, **option}


def load_questionnaire(path: Path) -> dict[str, str]:
    """Return the wording of questions by variable from a CSV with columns variable and text.

    Raises
    ------
    ConfigurationError
        The file is missing or lacks a column.
    """
    rows = _rows_of_csv(_read(path), str(path), ("variable", "text"))
    worded = ((row["variable"].strip(), plain(row["text"], LONGEST_WORDING)) for row in rows)
    return {variable: text for variable, text in worded if text}
