"""Who answered: country, wave, year, weight and design of every respondent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.countries import (
    country_code,
    country_code_of_name,
    country_label_parts,
    country_name,
    country_order,
    country_unit,
    region_of,
)
from chronocore.errors import SourceError
from chronocore.sources.answers import distinct_values
from chronocore.sources.files import SurveyFile, is_blank, parse_number
from chronocore.sources.presets import Preset, StudyPart

__all__ = ["Group", "Respondents", "Roles", "read_respondents"]

#: Country, study, wave and year.
Group = tuple[str | None, str | None, int | None, int | None]

_YEARS = range(1900, 2101)
_NONE = -(2**31)
# Waves are small numbers, and kept in 16 bits.
_MOST_WAVES = 2**15
# Keys up to here are numbered by counting, which is faster than sorting them.
_COUNTABLE = 1 << 22


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns of one file that are no questions.

    ``waves`` gives the wave column of every study of a merged file; ``weights`` are in the order of
    preference.
    """

    columns: Mapping[str, str]
    weights: tuple[str, ...]
    waves: Mapping[str, str]

    def names(self) -> list[str]:
        """Return all columns, each once."""
        return list(dict.fromkeys([*self.columns.values(), *self.weights, *self.waves.values()]))


@dataclass(slots=True)
class Respondents:
    """The rows of one file.

    Attributes
    ----------
    table : pyarrow.Table
        As in :class:`~chronocore.sources.microdata.Microdata`, without answers.
    groups : list of Group
        Distinct country, study, wave and year.
    group : (N,) int64
        The group of each row.
    keep : (N,) bool or None
        Rows that are taken; None if all are.
    weights : tuple of str
        Weight columns in use.
    notes : list of str
    duplicates : int
        Rows that repeat another respondent.
    """

    table: pa.Table
    groups: list[Group]
    group: NDArray[np.int64]
    keep: NDArray[np.bool_] | None
    weights: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    duplicates: int = 0
    countries: dict[str, int] = field(default_factory=dict)


def _first_row(place: NDArray[np.int64], index: int) -> int:
    """Return the first row, from 1, that holds the distinct value of this index."""
    return int(np.argmax(place == index)) + 1


def _integers(column: pa.ChunkedArray, where: str, role: str) -> NDArray[np.int64]:
    """Return a numeric column as integers, -2**31 where it has none."""
    values, place = distinct_values(column)
    codes: list[int] = []
    for index, value in enumerate(values):
        number = parse_number(value) if isinstance(value, str) else value
        if value is None:
            codes.append(_NONE)
        elif number is None or not math.isfinite(number) or number != int(number):
            shown = repr(value) if isinstance(value, str) else f"{value:g}"
            raise SourceError(
                f"{where}, row {_first_row(place, index)}: {shown} is no whole number; name "
                f'another column with [sources.columns] {role} = "…"'
            )
        else:
            codes.append(max(int(number), _NONE))
    return np.array(codes, dtype=np.int64)[place]


def _numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values, ascending, and the place of each among them."""
    low = int(values.min())
    width = int(values.max()) - low + 1
    if width > _COUNTABLE:
        found, place = np.unique(values, return_inverse=True)
        return found, place.reshape(-1)
    shifted = values - low
    present = np.flatnonzero(np.bincount(shifted, minlength=width))
    lookup = np.zeros(width, dtype=np.int64)
    lookup[present] = np.arange(len(present))
    return present + low, lookup[shifted]


def _grouped(*columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row by several columns at once, and a first row of each group."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # None is far below every other number; it becomes the least of the ones that occur.
        known = column != _NONE
        least = int(column[known].min()) - 1 if known.any() else 0
        found, place = _numbered(np.where(known, column, least))
        _, key = _numbered(key * len(found) + place)
    first = np.zeros(int(key.max()) + 1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    return key, first


def _years(column: pa.ChunkedArray, year_codes: Mapping[str, int], where: str) -> NDArray[np.int64]:
    """Return years; negative codes are missing, dates of the form YYYYMMDD give their year."""
    numbers = _integers(column, where, "year")
    found, place = _numbered(numbers)
    years: list[int] = []
    for index, number in enumerate(found.tolist()):
        if str(number) in year_codes:
            years.append(year_codes[str(number)])
        elif number in _YEARS:
            years.append(number)
        elif number // 10_000 in _YEARS:
            years.append(number // 10_000)
        elif number < 0:
            years.append(_NONE)
        else:
            raise SourceError(
                f"{where}, row {_first_row(place, index)}: {number} is no year; name another "
                f"column with [sources.columns] year, or say which year it stands for: "
                f"[sources.year_codes] {number} = …"
            )
    return np.array(years, dtype=np.int64)[place]


def _waves(column: pa.ChunkedArray, where: str) -> NDArray[np.int64]:
    """Return waves; those below 0 are missing."""
    wave = _integers(column, where, "wave")
    most = int(wave.max(initial=0))
    if most >= _MOST_WAVES:
        row = int(wave.argmax())
        raise SourceError(
            f"{where}, row {row + 1}: {most} is no wave; name another column with "
            '[sources.columns] wave = "…"'
        )
    return np.where(wave < 0, _NONE, wave)


def _text_country(text: str, notes: set[str], where: str) -> str | None:
    """Return the code of a country that a file writes as text."""
    if not text.strip():
        return None
    spelled = country_code(text)
    if country_name(spelled) is not None or re.fullmatch(r"-?\d+", spelled):
        return None if spelled.startswith("-") else spelled
    if re.fullmatch(r"[A-Z]{2}(-[A-Z]{1,4})?", spelled) and region_of(spelled) is not None:
        return spelled
    by_name = country_code_of_name(text)
    if by_name is None:
        code, name = country_label_parts(text)
        by_name = country_code_of_name(name) or code
    if by_name is not None:
        notes.add(f"{where} names countries without codes; their ISO numbers are used")
        return by_name
    return spelled if re.fullmatch(r"[A-Z]{2,3}(-[A-Z]{1,4})?", spelled) else text.strip()


def _alphabetic(values: Sequence[object]) -> bool:
    """Tell whether countries are written in two letters, so that ``NA`` is Namibia."""
    others = [v for v in values if isinstance(v, str) and not is_blank(v)]
    return bool(others) and all(re.fullmatch(r"[A-Z]{2}(-[A-Z]{1,4})?", v) for v in others)


def _one_spelling(codes: list[str | None], notes: set[str], where: str) -> list[str | None]:
    """Give a country that a text column writes in several ways one code, a number if there is one.

    Samples, parts and former states have names of their own, and stay apart.
    """
    spelled: dict[tuple[str, str], set[str]] = {}
    for code in codes:
        unit = None if code is None else country_unit(code)
        if code is not None and unit is not None:
            spelled.setdefault(unit, set()).add(code)
    one: dict[str | None, str] = {}
    for (name, _), ways in spelled.items():
        if len(ways) > 1:
            first, *others = sorted(ways, key=country_order)
            one |= dict.fromkeys(others, first)
            notes.add(
                f"{where} writes {name} as {first}, {', '.join(others)}: one country, {first}"
            )
    return [one.get(code, code) for code in codes]


def _no_country(text: str, alphabetic: bool) -> bool:
    return is_blank(text) and not (alphabetic and text == "NA")


def _countries(
    file: SurveyFile, table: pa.Table, roles: Roles, constant: str | None, notes: list[str]
) -> tuple[list[str], NDArray[np.int64], dict[str, str]]:
    """Return country codes, the place of each row's (or -1), and names from labels."""
    column = roles.columns.get("country")
    if column is None:
        assert constant is not None
        return [constant], np.zeros(len(table), dtype=np.int64), {}
    values, place = distinct_values(table[column])
    where = f"{file.name}, column {column}"
    said: set[str] = set()
    alphabetic = _alphabetic(values)
    codes: list[str | None] = []
    names: dict[str, str] = {}
    for value in values:
        if value is None or (isinstance(value, str) and _no_country(value, alphabetic)):
            codes.append(None)
        elif isinstance(value, str):
            codes.append(_text_country(value, said, where))
        else:
            whole = math.isfinite(value) and value == int(value) and value > 0
            codes.append(str(int(value)) if whole else None)
            label = file.value_labels.get(column, {}).get(int(value)) if whole else None
            if label and codes[-1]:
                names[codes[-1]] = country_label_parts(label)[1]
    if any(isinstance(value, str) for value in values):
        codes = _one_spelling(codes, said, where)
    notes.extend(sorted(said))
    alpha = roles.columns.get("country_alpha")
    if alpha is not None:
        values, alpha_place = distinct_values(table[alpha])
        alphabetic = _alphabetic(values)
        units = [
            country_code(v) if isinstance(v, str) and not _no_country(v, alphabetic) else None
            for v in values
        ]
        codes, place = _with_samples(codes, place, units, alpha_place, notes, file.name)
    listed = sorted({code for code in codes if code is not None})
    index = {code: i for i, code in enumerate(listed)}
    lookup = np.array([-1 if code is None else index[code] for code in codes], dtype=np.int64)
    if "country_name" in roles.columns:
        texts, name_place = distinct_values(table[roles.columns["country_name"]])
        _, first = _grouped(lookup[place], name_place)
        for unit, name in zip(
            lookup[place][first].tolist(), name_place[first].tolist(), strict=True
        ):
            if unit >= 0 and isinstance(texts[name], str):
                names.setdefault(listed[unit], str(texts[name]))
    return listed, lookup[place], names


def _with_samples(
    codes: list[str | None],
    place: NDArray[np.int64],
    units: list[str | None],
    unit_place: NDArray[np.int64],
    notes: list[str],
    where: str,
) -> tuple[list[str | None], NDArray[np.int64]]:
    """Keep samples apart that share a numeric code and differ in the alphabetic one."""
    inverse, first = _grouped(place, unit_place)
    pairs = list(zip(place[first].tolist(), unit_place[first].tolist(), strict=True))
    parts: dict[int, set[str]] = {}
    for code, unit in pairs:
        name = units[unit]
        if name is not None and re.fullmatch(r"[A-Z]{2}-[A-Z]{1,4}", name):
            parts.setdefault(code, set()).add(name)
    split = {code for code, names in parts.items() if len(names) > 1 and codes[code] is not None}
    for code in sorted(split):
        notes.append(
            f"{where}: country {codes[code]} holds the samples {', '.join(sorted(parts[code]))}, "
            "kept apart; [sources.merge] takes them as one"
        )
    merged: list[str | None] = []
    for code, unit in pairs:
        name = units[unit]
        apart = code in split and name in parts[code]
        merged.append(name if apart else codes[code])
    return merged, inverse


def _merge(
    listed: list[str],
    place: NDArray[np.int64],
    merge: Mapping[str, Sequence[str]],
    notes: list[str],
    where: str,
) -> tuple[list[str], NDArray[np.int64]]:
    target: dict[str, str] = {}
    for one, parts in merge.items():
        for part in parts:
            target[country_code(part)] = country_code(one)
    for part, one in target.items():
        if part in listed and part != one:
            rows = int((place == listed.index(part)).sum())
            notes.append(f"{where}: country {part} is taken as {one} ({rows:,} rows), as declared")
    names = [target.get(code, code) for code in listed]
    kept = sorted(set(names))
    lookup = np.array([*(kept.index(name) for name in names), -1], dtype=np.int64)
    return kept, lookup[place]


def _studies(
    table: pa.Table, roles: Roles, parts: Mapping[str, StudyPart], where: str
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the studies of a merged file, each row's, and its wave in that study."""
    values, place = distinct_values(table[roles.columns["study"]])
    listed = sorted(parts)
    by_code = {str(parts[name].code).casefold(): i for i, name in enumerate(listed)}
    by_code |= {name: i for i, name in enumerate(listed)}
    lookup: list[int] = []
    for value in values:
        text = "" if value is None else str(value).casefold().removesuffix(".0")
        found = by_code.get(text)
        if found is None and value is not None:
            known = ", ".join(f"{part.code} ({name})" for name, part in sorted(parts.items()))
            raise SourceError(f"{where}: study {value!r} is none of {known}")
        lookup.append(-1 if found is None else found)
    study = np.array(lookup, dtype=np.int64)[place]
    wave = np.full(len(table), _NONE, dtype=np.int64)
    for i, name in enumerate(listed):
        if name in roles.waves:
            column = roles.waves[name]
            numbers = _waves(table[column], f"{where}, column {column}")
            wave = np.where(study == i, numbers, wave)
    return listed, study, wave


def _design(column: pa.ChunkedArray) -> pa.Array:
    """Return a stratum or PSU column as integer codes, null where it has none or a negative one."""
    values, place = distinct_values(column)
    numeric = all(v is None or (not isinstance(v, str) and v == int(v)) for v in values)
    codes = [int(v) if numeric and v is not None else i for i, v in enumerate(values)]
    empty = np.array([v is None or (not isinstance(v, str) and v < 0) for v in values])
    return pa.array(np.array(codes, dtype=np.int64)[place], mask=empty[place])


def _weights(
    file: SurveyFile, table: pa.Table, roles: Roles, group: NDArray[np.int64], n_groups: int
) -> tuple[pa.Array, pa.Array, tuple[str, ...]]:
    """Return weights and where each is from: the first declared column a group has any of."""
    weight = np.full(len(table), np.nan)
    chosen = np.full(n_groups, -1, dtype=np.int64)
    for i, column in enumerate(roles.weights):
        if pa.types.is_dictionary(table[column].type):
            texts, text_place = distinct_values(table[column])
            index = next(
                i for i, t in enumerate(texts) if isinstance(t, str) and parse_number(t) is None
            )
            raise SourceError(
                f"{file.name}, column {column}, row {_first_row(text_place, index)}: the weight "
                f'{texts[index]!r} is no number; name another column with weight = "…", or go '
                'without: weight = "none"'
            )
        values = np.asarray(table[column].cast(pa.float64()).to_numpy(), dtype=np.float64)
        usable = np.isfinite(values) & (values > 0)
        has = np.bincount(group[usable], minlength=n_groups) > 0
        takes = has & (chosen < 0)
        chosen[takes] = i
        rows = takes[group]
        weight[rows] = values[rows]
    names = [*roles.weights, None]
    place = chosen[group]
    place[place < 0] = len(roles.weights)
    name_of = pa.DictionaryArray.from_arrays(
        pa.array(place.astype(np.int32), mask=place == len(roles.weights)),
        pa.array(list(roles.weights), pa.string()),
    )
    used = tuple(str(names[i]) for i in sorted(set(chosen.tolist())) if i >= 0)
    return pa.array(weight, from_pandas=True), name_of.cast(pa.string()), used


def _duplicates(
    column: pa.ChunkedArray, group: NDArray[np.int64], groups: list[Group], where: str
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return which rows repeat a respondent of their group, and what to say about it."""
    values, place = distinct_values(column)
    known = np.array([v is not None for v in values])[place]
    key = group * len(values) + place
    found, first, counts = np.unique(key, return_index=True, return_counts=True)
    repeats = known.copy()
    repeats[first] = False
    often = found[(counts > 1) & known[first]]
    if not len(often):
        return repeats, []
    worst = int(found[np.argmax(np.where(known[first], counts, 0))])
    country, study, wave, year = groups[worst // len(values)]
    value = values[worst % len(values)]
    shown = int(value) if isinstance(value, float) and value == int(value) else value
    place_text = ", ".join(
        f"{name} {part}"
        for name, part in (("country", country), ("study", study), ("wave", wave), ("year", year))
        if part is not None
    )
    return repeats, [
        f"{where}: {len(often):,} respondent ids occur more than once ({int(repeats.sum()):,} rows "
        f"repeat one), for example {shown} ({place_text})"
    ]


def read_respondents(
    file: SurveyFile,
    table: pa.Table,
    roles: Roles,
    preset: Preset,
    *,
    country: str | None,
    year_codes: Mapping[str, int],
    merge: Mapping[str, Sequence[str]],
    waves: Sequence[int] | None,
    countries: Sequence[str] | None,
    exclude_countries: Sequence[str] | None,
    drop_duplicates: bool,
) -> Respondents:
    """Read who answered from the columns that are no questions.

    Parameters
    ----------
    file : SurveyFile
    table : pyarrow.Table
        The raw columns.
    roles : Roles
    preset : Preset
    country : str or None
        The country of a file of one.
    year_codes : dict of str to int
    merge, waves, countries, exclude_countries, drop_duplicates
        As declared for the source.

    Raises
    ------
    SourceError
        A column does not hold what it should.
    """
    notes: list[str] = []
    listed, place, names = _countries(file, table, roles, country, notes)
    listed, place = _merge(listed, place, merge, notes, file.name)
    columns = roles.columns
    year_where = f"{file.name}, column {columns['year']}"
    year = _years(table[columns["year"]], year_codes, year_where)
    studies: list[str] = []
    study = np.full(len(table), -1, dtype=np.int64)
    if "study" in columns and preset.studies:
        studies, study, wave = _studies(table, roles, preset.studies, file.name)
    elif "wave" in columns:
        wave = _waves(table[columns["wave"]], f"{file.name}, column {columns['wave']}")
    else:
        wave = np.full(len(table), _NONE, dtype=np.int64)
    group, first = _grouped(place, study, wave, year)
    groups: list[Group] = [
        (
            listed[place[i]] if place[i] >= 0 else None,
            studies[study[i]] if study[i] >= 0 else None,
            int(wave[i]) if wave[i] != _NONE else None,
            int(year[i]) if year[i] != _NONE else None,
        )
        for i in first.tolist()
    ]
    kept = [True] * len(groups)
    if waves is not None:
        kept = [k and g[2] in set(waves) for k, g in zip(kept, groups, strict=True)]
    if countries is not None:
        only = {country_code(code) for code in countries}
        kept = [k and g[0] in only for k, g in zip(kept, groups, strict=True)]
    if exclude_countries is not None:
        out = {country_code(code) for code in exclude_countries}
        kept = [k and g[0] not in out for k, g in zip(kept, groups, strict=True)]
    keep = None if all(kept) else np.array(kept)[group]
    if keep is not None:
        notes.append(
            f"{file.name}: {int((~keep).sum()):,} rows outside the waves and countries asked for, "
            "left out"
        )
    repeated = 0
    if "respondent" in columns:
        repeats, said = _duplicates(table[columns["respondent"]], group, groups, file.name)
        repeated = int(repeats.sum())
        if said and drop_duplicates:
            said = [f"{said[0]}; dropped, as declared"]
            keep = ~repeats if keep is None else keep & ~repeats
        elif said:
            said = [f'{said[0]}; kept, duplicates = "drop" keeps the first of each']
        notes += said
    rows: dict[str, pa.Array] = {
        "country": _labels_of(listed, place),
        "country_name": _labels_of([country_name(c) or names.get(c) for c in listed], place),
        "wave": pa.array(wave.astype(np.int16), mask=wave == _NONE),
        "year": pa.array(year.astype(np.int16), mask=year == _NONE),
    }
    if studies:
        rows["study"] = _labels_of(list(studies), study)
    used: tuple[str, ...] = ()
    if roles.weights:
        rows["weight"], rows["weight_name"], used = _weights(file, table, roles, group, len(groups))
    for role in ("stratum", "psu"):
        if role in columns:
            rows[role] = _design(table[columns[role]])
    if "fieldwork_year" in columns:
        fieldwork = _years(
            table[columns["fieldwork_year"]], {}, f"{file.name}, {columns['fieldwork_year']}"
        )
        rows["fieldwork_year"] = pa.array(fieldwork.astype(np.int16), mask=fieldwork == _NONE)
    sizes = np.bincount(place[place >= 0], minlength=len(listed)).tolist()
    return Respondents(
        table=pa.table(rows),
        groups=groups,
        group=group,
        keep=keep,
        weights=used,
        notes=notes,
        duplicates=repeated,
        countries=dict(zip(listed, sizes, strict=True)),
    )


def _labels_of(texts: Sequence[str | None], place: NDArray[np.int64]) -> pa.Array:
    """Return a text for each place, null for -1."""
    return pa.array(list(texts), pa.string()).take(pa.array(place, mask=place < 0))
