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
from chronocore.sources.files import SurveyFile, is_blank, near, parse_number
from chronocore.sources.presets import Preset, StudyPart
from chronocore.text import plain

__all__ = ["Group", "Respondents", "Roles", "read_respondents"]

#: Country, study, wave and year.
Group = tuple[str | None, str | None, int | None, int | None]

_YEARS = range(1900, 2101)
_NONE = -(2**31)
# Waves are small numbers, and kept in 16 bits.
_MOST_WAVES = 2**15
# Codes of countries have up to nine digits.
_LARGEST_COUNTRY = 10**9
# Keys up to here are numbered by counting, which is faster than sorting them.
_COUNTABLE = 1 << 22


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns of one file that are no questions.

    ``waves`` gives the wave column of every study of a merged file; ``weights`` are in the order of
    preference. ``others`` are the alternatives of a role that the file has too: they must not hold
    what the one in use lacks.
    """

    columns: Mapping[str, str]
    weights: tuple[str, ...]
    waves: Mapping[str, str]
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return all columns, each once."""
        others = [name for names in self.others.values() for name in names]
        named = [*self.columns.values(), *self.weights, *self.waves.values(), *others]
        return list(dict.fromkeys(named))


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
    countries : dict of str to int
        Rows by country.
    unmatched : dict of str to str
        Names in settings that this file does not have, and what to say if no other has them.
    """

    table: pa.Table
    groups: list[Group]
    group: NDArray[np.int64]
    keep: NDArray[np.bool_] | None
    weights: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    duplicates: int = 0
    countries: dict[str, int] = field(default_factory=dict)
    unmatched: dict[str, str] = field(default_factory=dict)


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
        elif number >= -_NONE:
            raise SourceError(
                f"{where}, row {_first_row(place, index)}: {number:g} is no {role}; name another "
                f'column with [sources.columns] {role} = "…"'
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
    if not plain(text):
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
    return spelled if re.fullmatch(r"[A-Z]{2,3}(-[A-Z]{1,4})?", spelled) else plain(text)


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
            whole = math.isfinite(value) and value == int(value) and 0 < value < _LARGEST_COUNTRY
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
                names.setdefault(listed[unit], plain(str(texts[name])))
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


def _resolved(name: str, listed: Sequence[str]) -> str | None:
    """Return the country of a file that a setting names: by code, by another code, or by name."""
    code = country_code(name)
    if code in listed:
        return code
    unit = country_unit(code) or country_unit(country_code_of_name(name) or "")
    if unit is not None:
        return next((one for one in listed if country_unit(one) == unit), None)
    return None


def _no_such_country(setting: str, name: str, listed: Sequence[str]) -> str:
    names = [one for code in listed for one in (code, country_name(code)) if one is not None]
    shown = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
    return (
        f"{setting} names {name}, which the file does not have{near(name, names)}; it has {shown}"
    )


def _merge(
    listed: list[str],
    place: NDArray[np.int64],
    merge: Mapping[str, Sequence[str]],
    who: _Chosen,
    where: str,
) -> tuple[list[str], NDArray[np.int64]]:
    target: dict[str, str] = {}
    for one, parts in merge.items():
        whole = _resolved(one, listed) or country_code(one)
        for part in parts:
            found = _resolved(part, listed)
            if found is None:
                who.unmatched[f"merge {part}"] = _no_such_country("merge", part, listed)
            elif found != whole:
                target[found] = whole
    for part, one in target.items():
        rows = int((place == listed.index(part)).sum())
        who.notes.append(f"{where}: country {part} is taken as {one} ({rows:,} rows), as declared")
    names = [target.get(code, code) for code in listed]
    kept = sorted(set(names))
    lookup = np.array([*(kept.index(name) for name in names), -1], dtype=np.int64)
    return kept, lookup[place]


@dataclass(slots=True)
class _Chosen:
    """What is said, and not found, while rows are chosen."""

    notes: list[str] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)


def _choose(
    groups: Sequence[Group],
    listed: Sequence[str],
    who: _Chosen,
    *,
    waves: Sequence[int] | None,
    countries: Sequence[str] | None,
    exclude_countries: Sequence[str] | None,
) -> list[bool]:
    """Return which groups are in the waves and countries asked for."""
    kept = [True] * len(groups)
    if waves is not None:
        present = sorted({wave for _, _, wave, _ in groups if wave is not None})
        for wave in waves:
            if wave not in present:
                has = ", ".join(map(str, present)) or "no waves"
                who.unmatched[f"waves {wave}"] = (
                    f"waves names {wave}, which the file does not have; it has {has}"
                )
        kept = [k and g[2] in set(waves) for k, g in zip(kept, groups, strict=True)]

    def codes(setting: str, names: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for name in names:
            code = _resolved(name, listed)
            if code is None:
                who.unmatched[f"{setting} {name}"] = _no_such_country(setting, name, listed)
            else:
                found.add(code)
        return found

    if countries is not None:
        only = codes("countries", countries)
        kept = [k and g[0] in only for k, g in zip(kept, groups, strict=True)]
    if exclude_countries is not None:
        out = codes("exclude_countries", exclude_countries)
        kept = [k and g[0] not in out for k, g in zip(kept, groups, strict=True)]
    return kept


def _check_others(file: SurveyFile, table: pa.Table, roles: Roles) -> None:
    """Refuse a file of which one column of a role goes on where another one ends."""
    for role, others in roles.others.items():
        column = roles.columns[role]
        empty = _empty(table[column])
        for other in others:
            rows = int((empty & ~_empty(table[other])).sum())
            if rows:
                raise SourceError(
                    f"{file.name} has both {column} and {other} for the {role}, and {rows:,} rows "
                    f"have only {other}; put them into one column, or name the one to use: "
                    f'[sources.columns] {role} = "…"'
                )


def _empty(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    values, place = distinct_values(column)
    empty = [
        v is None or (is_blank(v) if isinstance(v, str) else not (math.isfinite(v) and v >= 0))
        for v in values
    ]
    return np.array(empty)[place]


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
    numeric = all(
        v is None or (not isinstance(v, str) and abs(v) < 2**53 and v == int(v)) for v in values
    )
    codes = [int(v) if numeric and v is not None else i for i, v in enumerate(values)]
    empty = np.array([v is None or (not isinstance(v, str) and v < 0) for v in values])
    return pa.array(np.array(codes, dtype=np.int64)[place], mask=empty[place])


def _check_year_codes(
    column: pa.ChunkedArray, year_codes: Mapping[str, int] | None, name: str, who: _Chosen
) -> None:
    if not year_codes:
        return
    values, _ = distinct_values(column)
    numbers = [parse_number(v) if isinstance(v, str) else v for v in values]
    present = sorted({int(n) for n in numbers if n is not None and math.isfinite(n)})
    for code in year_codes:
        if int(code) not in present:
            shown = ", ".join(map(str, present[:12]))
            who.unmatched[f"year_codes {code}"] = (
                f"year_codes names {code}, which column {name} does not have; it has {shown}"
            )


def _weight_values(file: SurveyFile, column: str, raw: pa.ChunkedArray) -> NDArray[np.float64]:
    if not pa.types.is_dictionary(raw.type):
        return np.asarray(raw.cast(pa.float64()).to_numpy(), dtype=np.float64)
    texts, place = distinct_values(raw)
    numbers: list[float] = []
    for index, text in enumerate(texts):
        number = parse_number(text) if isinstance(text, str) else None
        if text is not None and number is None:
            raise SourceError(
                f"{file.name}, column {column}, row {_first_row(place, index)}: the weight "
                f'{text!r} is no number; name another column with weight = "…", or go '
                'without: weight = "none"'
            )
        numbers.append(math.nan if number is None else number)
    return np.array(numbers, dtype=np.float64)[place]


def _weights(
    file: SurveyFile,
    table: pa.Table,
    roles: Roles,
    group: NDArray[np.int64],
    groups: Sequence[Group],
    kept: Sequence[bool],
    by_year: bool,
) -> tuple[pa.Array, pa.Array, tuple[str, ...]]:
    """Return weights and where each is from: one column for the whole of a time point.

    It is the first that every year of the time point has, of those that any column has.
    """
    values = [_weight_values(file, column, table[column]) for column in roles.weights]
    has = np.zeros((len(values), len(groups)), dtype=np.bool_)
    for i, weights in enumerate(values):
        usable = np.isfinite(weights) & (weights > 0)
        has[i] = np.bincount(group[usable], minlength=len(groups)) > 0
    members: dict[Group, list[int]] = {}
    for number, (country, study, wave, year) in enumerate(groups):
        point = (country, study, wave, year if wave is None or by_year else None)
        members.setdefault(point, []).append(number)
    chosen = np.full(len(groups), -1, dtype=np.int64)
    for point, own in members.items():
        # A row without a country or a year is of no time point.
        placed = [one for one in own if point[0] is not None and groups[one][3] is not None]
        for part in filter(None, [placed, *([one] for one in own if one not in placed)]):
            part_has = has[:, part]
            weighted = part_has.any(axis=0)
            whole = np.flatnonzero((part_has | ~weighted).all(axis=1))
            if not weighted.any():
                continue
            if not len(whole) and any(kept[one] for one in part):
                raise SourceError(_no_weight_for_all(file, roles, groups, part, has))
            chosen[part] = whole[0] if len(whole) else int(part_has.any(axis=1).argmax())
    place = chosen[group]
    weight = np.full(len(table), np.nan)
    for i, column_values in enumerate(values):
        weight[place == i] = column_values[place == i]
    place = np.where(place < 0, len(roles.weights), place)
    name_of = pa.DictionaryArray.from_arrays(
        pa.array(place.astype(np.int32), mask=place == len(roles.weights)),
        pa.array(list(roles.weights), pa.string()),
    )
    used = tuple(roles.weights[i] for i in sorted(set(chosen.tolist())) if i >= 0)
    return pa.array(weight, from_pandas=True), name_of.cast(pa.string()), used


def _no_weight_for_all(
    file: SurveyFile,
    roles: Roles,
    groups: Sequence[Group],
    part: Sequence[int],
    has: NDArray[np.bool_],
) -> str:
    """Return what to say about a time point whose years have weights in different columns."""
    country, study, wave, _ = groups[part[0]]
    place = " ".join(str(p) for p in (study, f"wave {wave}") if p is not None)
    years = "; ".join(
        f"{groups[one][3]}: "
        + (", ".join(w for i, w in enumerate(roles.weights) if has[i, one]) or "none")
        for one in part
    )
    return (
        f"{file.name}, country {country}, {place}: no weight is in all of its years ({years}), and "
        'weights are not mixed in one time point; name one with weight = "…", or tell the years '
        'apart: [rules] time_point = "year"'
    )


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
    by_year: bool = False,
    own_year_codes: Mapping[str, int] | None = None,
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
    by_year : bool
        A time point is a year, also where there are waves.
    own_year_codes : dict of str to int, optional
        Those of ``year_codes`` that the source itself declares: they must occur.

    Raises
    ------
    SourceError
        A column does not hold what it should.
    """
    _check_others(file, table, roles)
    who = _Chosen()
    notes = who.notes
    listed, place, names = _countries(file, table, roles, country, notes)
    listed, place = _merge(listed, place, merge, who, file.name)
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
    kept = _choose(
        groups,
        listed,
        who,
        waves=waves,
        countries=countries,
        exclude_countries=exclude_countries,
    )
    _check_year_codes(table[columns["year"]], own_year_codes, columns["year"], who)
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
        rows["weight"], rows["weight_name"], used = _weights(
            file, table, roles, group, groups, kept, by_year
        )
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
        unmatched=who.unmatched,
    )


def _labels_of(texts: Sequence[str | None], place: NDArray[np.int64]) -> pa.Array:
    """Return a text for each place, null for -1."""
    return pa.array(list(texts), pa.string()).take(pa.array(place, mask=place < 0))
