"""Survey microdata -> the mean answers of countries to the items of a map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore import schema
from chronocore.config import Source, explain_validation, load_config, source_config
from chronocore.countries import country_name, country_order, region_of
from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources.catalog import load_catalog
from chronocore.sources.files import open_survey_file
from chronocore.sources.microdata import Microdata
from chronocore.sources.presets import load_preset
from chronocore.sources.survey import read_survey
from chronocore.validity.protocol import load_protocol

__all__ = [
    "CountryMeans",
    "Waves",
    "check_coding",
    "country_means",
    "map_microdata",
    "survey_means",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Waves of all studies, or by study; None for all.
Waves = Sequence[int] | Mapping[str, Sequence[int]] | None

#: Child qualities of the autonomy index: trend variables (0/1) and those of wave 7 (1/2).
_AUTONOMY = (("A029", "A039"), ("A040", "A042"))
_AUTONOMY_WAVE7 = (("Q8", "Q14"), ("Q15", "Q17"))
#: What an index is made of where a time point has the answers.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "Y002": ("E003", "E004"),
    "Y003": ("A029", "A039", "A040", "A042"),
}
#: An index of a file that differs from the answers it is made of in a larger share of this many
#: rows is another one.
_MOST_DIFFERENT = 0.01
_ENOUGH = 50


@dataclass(frozen=True, slots=True)
class CountryMeans:
    """Mean answers of countries to the items of a map.

    Attributes
    ----------
    items : tuple of str
    countries, names, regions : tuple of str
        Codes, names (the code where there is none) and regions.
    means : (N, p) float64
    counts : (N, p) int64, optional
        Valid answers behind each mean, unweighted.
    weights_used : tuple of str or None, optional
        The weight columns of each country, joined by ``, ``; None where it is unweighted.
    time_points : pyarrow.Table, optional
        The same of every country, study and wave, also of countries that lack an item: schema
        :data:`chronocore.schema.VALIDITY_COUNTRIES`.
    notes : tuple of str
        What a reader should know: countries left out, indices made from their parts.
    respondents : mapping of str to (R, p) float64, optional
        Complete respondents of each country, and their ``weights``, for the fit on respondents.
    """

    items: tuple[str, ...]
    countries: tuple[str, ...]
    names: tuple[str, ...]
    regions: tuple[str | None, ...]
    means: Floats
    respondents: Mapping[str, Floats] | None = None
    weights: Mapping[str, Floats] | None = None
    counts: Integers | None = None
    weights_used: tuple[str | None, ...] | None = None
    time_points: pa.Table | None = None
    notes: tuple[str, ...] = ()

    def select(self, items: Sequence[str]) -> CountryMeans:
        """Return the same countries with some of the items."""
        columns = [self.items.index(item) for item in items]
        rows, cells = self.respondents, self.time_points
        return replace(
            self,
            items=tuple(items),
            means=self.means[:, columns],
            counts=None if self.counts is None else self.counts[:, columns],
            respondents=None
            if rows is None
            else {code: own[:, columns] for code, own in rows.items()},
            time_points=None
            if cells is None
            else cells.filter(pc.is_in(cells["item"], value_set=pa.array(items, pa.string()))),
        )


# -- reading ---------------------------------------------------------------------------------------


def _settings(preset: str, files: Sequence[str], settings: Mapping[str, Any]) -> Source:
    """Return a source of survey files with settings of its own."""
    source = source_config(preset, list(files)).sources[0]
    try:
        return msgspec.convert({**msgspec.to_builtins(source), **settings}, Source)
    except msgspec.ValidationError as error:
        raise ConfigurationError(explain_validation(error, {"": Source})) from None


def _asked(source: Source, base: Path, items: Sequence[str]) -> Source:
    """Name the questions that the items need and the files have, so that no others are read."""
    preset = load_preset(
        str(base / source.preset) if source.preset.endswith(".toml") else source.preset
    )
    if (source.items or preset.items) != "wvs":
        return msgspec.structs.replace(source, variables=list(items))
    wanted = {*items, *(part for item in items for part in _PARTS.get(item, ()))}
    opened = [open_survey_file(base / name, source.encoding) for name in source.files()]
    by_question = preset.item_column == "wave7_question"
    present = [
        item.variable
        for item in load_catalog("wvs")
        if item.variable in wanted
        and any(
            file.first([item.wave7_question or "?"] if by_question else [item.variable])
            for file in opened
        )
    ]
    if not present:
        names = ", ".join(file.name for file in opened)
        raise SourceError(
            f"{names} has none of the items {', '.join(items)}; "
            "`chronocore build --explain FILE` lists what it has"
        )
    return msgspec.structs.replace(source, variables=present)


def map_microdata(
    files: str | Path | Sequence[str | Path] | Source,
    *,
    preset: str | None = None,
    items: Sequence[str] | None = None,
    base: str | Path = ".",
    progress: Callable[[str], None] = lambda message: None,
    **settings: Any,
) -> Microdata:
    """Read the items of a map, and what its indices are made of, from survey files.

    Parameters
    ----------
    files : path, sequence of paths, or Source
        Files of one survey.
    preset : str
        What is known about them: ``ivs``, ``wvs-timeseries``, ``evs-trend``, ``wvs-wave7``, or the
        path of a preset of your own.
    items : sequence of str, optional
        By default the ten of the published map.
    base : path
        The folder that relative paths start from.
    progress : callable
        Called with a line of text at each step.
    **settings
        Everything a ``[[sources]]`` block of ``study.toml`` takes, such as ``weight``.

    Returns
    -------
    Microdata

    Raises
    ------
    ConfigurationError, SourceError
        The preset is unknown, a file cannot be read or has none of the items, or its labels
        contradict the catalog.

    Notes
    -----
    Definitions, section 11.
    """
    names = tuple(items) if items is not None else _published()
    if isinstance(files, Source):
        source = files
    else:
        if preset is None:
            raise ConfigurationError("survey files need a preset, for example ivs")
        listed = [files] if isinstance(files, str | Path) else list(files)
        source = _settings(preset, [str(one) for one in listed], settings)
    return read_survey(_asked(source, Path(base), names), Path(base), progress=progress)


def _published() -> tuple[str, ...]:
    return tuple(item.variable for item in load_protocol().item)


# -- coding ----------------------------------------------------------------------------------------


def _numbers(respondents: pa.Table, name: str) -> Floats:
    return np.asarray(
        respondents[name].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64
    )


def _within(values: Floats, codes: Iterable[float]) -> Floats:
    return np.where(np.isin(values, list(codes)), values, np.nan)


def _postmaterialism(first: Floats, second: Floats) -> Floats:
    """Return Y002 from the two most important aims (E003, E004)."""
    first, second = _within(first, range(1, 5)), _within(second, range(1, 5))
    material = np.isin(first, (1, 3)) & np.isin(second, (1, 3))
    post = np.isin(first, (2, 4)) & np.isin(second, (2, 4))
    index = np.where(material, 1.0, np.where(post, 3.0, 2.0))
    return np.where(np.isnan(first) | np.isnan(second), np.nan, index)


def _autonomy(columns: Callable[[str], Floats], names: set[str]) -> Floats | None:
    """Return Y003 from the child qualities, in the coding of the trend file or of wave 7."""
    if {name for side in _AUTONOMY for name in side} <= names:
        (a, b), (c, d) = ([_within(columns(n), (0, 1)) for n in side] for side in _AUTONOMY)
        return (a + b) - (c + d)
    if {name for side in _AUTONOMY_WAVE7 for name in side} <= names:
        (a, b), (c, d) = ([_within(columns(n), (1, 2)) for n in side] for side in _AUTONOMY_WAVE7)
        return (c + d) - (a + b)
    return None


#: What the label of the first code says, for the items whose direction is not told by numbers.
_LABEL_WORDS: dict[str, tuple[str, ...]] = {
    "A008": ("very happy",),
    "A165": ("can be trusted", "trusted"),
    "E018": ("good",),
    "E025": ("have done", "done"),
    "F063": ("not at all", "not important"),
    "F118": ("never",),
    "F120": ("never",),
    "G006": ("very proud",),
    "Y002": ("materialist",),
    "Y003": ("obedience",),
}


def check_coding(
    entries: Iterable[tuple[str, Sequence[int], str]], source: str, items: Sequence[str]
) -> None:
    """Refuse items that were recoded: other codes, or a scale that runs the other way.

    Parameters
    ----------
    entries : iterable of (variable, codes, label of the first code)
    source : str
        For the message.
    items : sequence of str
        The items of the map.

    Raises
    ------
    SourceError
        An item is not in the coding of the Integrated Values Surveys.
    """
    protocol = load_protocol()
    for variable, codes, first in entries:
        known = protocol.find(variable)
        if known is None or variable not in items:
            continue
        low, high = known.scores
        wanted = list(range(int(low), int(high) + 1))
        if list(codes) != wanted:
            raise SourceError(
                f"{source}: {variable} has the codes {list(codes)}, the Integrated Values Surveys "
                f"have {wanted}; the cultural map takes no recoded items"
            )
        words = _LABEL_WORDS.get(variable, ())
        label = first.casefold()
        told = label.strip().lstrip("+-").isdecimal() or not words
        if not told and not any(word in label for word in words):
            raise SourceError(
                f"{source}: {variable} calls code {wanted[0]} {first!r}; its scale runs the other "
                "way than in the Integrated Values Surveys, and the cultural map takes no recoded "
                "items"
            )


# -- means -----------------------------------------------------------------------------------------

TimePoint = tuple[str, str | None, int | None]


@dataclass(slots=True)
class _Block:
    """The usable respondents of one source.

    ``point`` places each in ``points``: country, study and wave.
    """

    values: Floats
    weight: Floats
    point: Integers
    points: list[TimePoint]
    years: list[int | None]
    weight_names: list[str | None]
    notes: list[str]


def _index(
    item: str, own: Floats | None, made: Floats | None, point: Integers, source: str
) -> tuple[Floats | None, list[str]]:
    """Return an index as the file has it, and from its parts where the file has none.

    Where a time point has the parts, a value below 0 without them is a code of non-response.
    """
    if own is None or made is None:
        return (made if own is None else own), []
    both = ~np.isnan(own) & ~np.isnan(made)
    different = int((own[both] != made[both]).sum())
    notes = []
    if different:
        told = (
            f"{source}: {item} is not what {', '.join(_PARTS[item])} give in {different:,} of "
            f"{int(both.sum()):,} answers"
        )
        if both.sum() >= _ENOUGH and different > _MOST_DIFFERENT * both.sum():
            raise SourceError(
                f"{told}; it is another index or was recoded. Leave one of them out of the file"
            )
        notes.append(f"{told}; the file's own values are used")
    has_parts = np.bincount(point, weights=~np.isnan(made), minlength=1)[point] > 0
    code = (own < 0) & np.isnan(made) & has_parts
    return np.where(np.isnan(own) | code, made, own), notes


def _answers(
    data: Microdata, items: Sequence[str], point: Integers
) -> tuple[list[Floats | None], list[str]]:
    """Return the answers to each item, None where a source has neither it nor its parts."""
    table = data.respondents
    names = set(table.column_names)
    protocol = load_protocol()
    columns: list[Floats | None] = []
    notes: list[str] = []
    for item in items:
        own: Floats | None = None
        if item in names:
            own = _numbers(table, item)
            known = protocol.find(item)
            if known is not None:
                low, high = known.scores
                own = _within(own, range(int(low), int(high) + 1))
        made: Floats | None = None
        if item == "Y002" and set(_PARTS[item]) <= names:
            made = _postmaterialism(_numbers(table, "E003"), _numbers(table, "E004"))
        elif item == "Y003":
            made = _autonomy(lambda name: _numbers(table, name), names)
            lost = own is not None and bool((own >= 0).any()) and not bool((own < 0).any())
            if lost and made is None:
                raise SourceError(
                    f"{data.source}: no answer of Y003 is below 0, so its codes -2 and -1 were "
                    f"taken for missing; add {', '.join(_PARTS[item])}, from which it is made"
                )
        values, own_notes = _index(item, own, made, point, data.source)
        columns.append(values)
        notes += own_notes
    return columns, notes


def _in_waves(
    study: Sequence[str | None], wave: Sequence[int | None], waves: Waves
) -> NDArray[np.bool_]:
    """Tell which time points are pooled; one without a wave always is."""
    if waves is None:
        return np.ones(len(wave), dtype=bool)

    def wanted(name: str | None, number: int | None) -> bool:
        if number is None:
            return True
        asked = waves.get(name or "", ()) if isinstance(waves, Mapping) else waves
        return number in asked

    return np.array([wanted(s, w) for s, w in zip(study, wave, strict=True)], dtype=bool)


def _points(table: pa.Table, survey: str) -> tuple[Integers, list[TimePoint]]:
    """Return the country, study and wave of each respondent, as places in a list."""
    keys = pa.table(
        {
            "country": table["country"].cast(pa.string()),
            "study": table["study"].cast(pa.string())
            if "study" in table.column_names
            else pa.array([survey] * len(table), pa.string()),
            "wave": table["wave"].cast(pa.int64()),
        }
    )
    joined = pc.binary_join_element_wise(
        *(pc.fill_null(keys[name].cast(pa.string()), "") for name in keys.column_names), "\x1f"
    )
    encoded = pc.dictionary_encode(joined).combine_chunks()
    point = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
    points = []
    for text in encoded.dictionary.to_pylist():
        country, study, wave = text.split("\x1f")
        points.append((country, study or None, int(wave) if wave else None))
    return point, points


def _weights(
    data: Microdata, point: Integers, points: Sequence[TimePoint]
) -> tuple[Floats, list[str | None], list[str]]:
    """Return usable weights (0: none), and the column that each time point's are from."""
    table = data.respondents
    size = len(points)
    if data.weight is None:
        return np.ones(len(table)), [None] * size, []
    weight = np.nan_to_num(_numbers(table, "weight"), nan=0.0, posinf=0.0, neginf=0.0)
    weight = np.where(weight > 0, weight, 0.0)
    names: list[str | None] = [data.weight] * size
    if "weight_name" in table.column_names:
        encoded = pc.dictionary_encode(pc.fill_null(table["weight_name"].cast(pa.string()), ""))
        encoded = encoded.combine_chunks()
        known = encoded.dictionary.to_pylist()
        used: list[set[str]] = [set() for _ in points]
        pairs = np.unique(
            point[weight > 0] * len(known)
            + np.asarray(encoded.indices.to_numpy(), dtype=np.int64)[weight > 0]
        )
        for pair in pairs.tolist():
            used[pair // len(known)].add(known[pair % len(known)])
        names = [", ".join(sorted(own - {""})) or None for own in used]
    without = np.bincount(point, weights=weight, minlength=size) <= 0
    for place in np.flatnonzero(without).tolist():
        names[place] = None
    weight = np.where(without[point], 1.0, weight)
    notes = []
    if without.any():
        shown = ", ".join(_shown(points[place]) for place in np.flatnonzero(without).tolist()[:6])
        notes.append(
            f"{data.source}: nobody has a weight in {int(without.sum())} time points "
            f"({shown}{', …' if without.sum() > 6 else ''}), which are unweighted"
        )
    return weight, names, notes


def _shown(point: TimePoint) -> str:
    country, study, wave = point
    name = country_name(country) or country
    return " ".join(str(part) for part in (name, study, wave) if part is not None)


def _years(
    table: pa.Table, point: Integers, keep: NDArray[np.bool_], size: int
) -> list[int | None]:
    """Return the most frequent year of each time point, ties to the earlier."""
    if "year" not in table.column_names:
        return [None] * size
    year = np.nan_to_num(_numbers(table, "year"), nan=-1.0).astype(np.int64)
    counts: list[Counter[int]] = [Counter() for _ in range(size)]
    pairs, number = np.unique(
        np.stack([point[keep], year[keep]], axis=1), axis=0, return_counts=True
    )
    for (place, value), count in zip(pairs.tolist(), number.tolist(), strict=True):
        if value >= 0:
            counts[place][value] += count
    return [min(own, key=lambda value: (-own[value], value)) if own else None for own in counts]


def _block(data: Microdata, items: Sequence[str], waves: Waves) -> tuple[_Block, list[bool]]:
    """Return the usable respondents of a source, and which items it has in some form."""
    table = data.respondents
    point, points = _points(table, data.survey)
    columns, notes = _answers(data, items, point)
    weight, names, weight_notes = _weights(data, point, points)
    pooled = _in_waves([p[1] for p in points], [p[2] for p in points], waves)
    pooled &= np.array([bool(country) for country, _, _ in points], dtype=bool)
    keep = (weight > 0) & (pooled[point] if len(points) else np.zeros(0, dtype=bool))
    values = np.stack([np.full(len(table), np.nan) if c is None else c for c in columns], axis=1)
    block = _Block(
        values=values[keep],
        weight=weight[keep],
        point=point[keep],
        points=points,
        years=_years(table, point, keep, len(points)),
        weight_names=names,
        notes=notes + weight_notes,
    )
    return block, [column is not None for column in columns]


def _mean(values: Floats, weight: Floats) -> tuple[Floats, Integers]:
    """Return the weighted mean of each item over its valid answers (NaN), and their number."""
    valid = ~np.isnan(values)
    totals = (weight[:, None] * valid).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weight[:, None] * np.where(valid, values, 0.0)).sum(axis=0) / totals
    return means, valid.sum(axis=0)


def _row(
    point: TimePoint,
    name: str,
    item: str,
    mean: float,
    n: int,
    year: int | None,
    weight: str | None,
) -> dict[str, Any]:
    return {
        "country": point[0],
        "country_name": name,
        "region": region_of(point[0]),
        "study": point[1],
        "wave": point[2],
        "year": year,
        "item": item,
        "mean": mean,
        "n_valid": n,
        "weight": weight,
    }


def _check_present(
    blocks: Sequence[_Block],
    has: Sequence[Sequence[bool]],
    items: Sequence[str],
    waves: Waves,
    sources: Sequence[Microdata],
) -> None:
    """Refuse items that no source has, and those without an answer in the waves."""
    where = ", ".join(dict.fromkeys(source.source for source in sources))
    nowhere = [item for j, item in enumerate(items) if not any(own[j] for own in has)]
    if nowhere:
        made = [
            f"{item} (nor {' and '.join(_PARTS[item])}, from which it is made)"
            if item in _PARTS
            else item
            for item in nowhere
        ]
        raise SourceError(
            f"{where} does not have {', '.join(made)}; the cultural map needs all of "
            f"{', '.join(items)}. A file in that coding is read with map_microdata or "
            "`chronocore validity map --file FILE --preset ivs`"
        )
    empty = [
        item
        for j, item in enumerate(items)
        if not any((~np.isnan(block.values[:, j])).any() for block in blocks)
    ]
    if empty:
        told = "" if waves is None else f" in the waves {_told(waves)}"
        raise SourceError(f"{where}: nobody has a valid answer to {', '.join(empty)}{told}")


def _told(waves: Waves) -> str:
    if waves is None:
        return "all"
    if isinstance(waves, Mapping):
        return "; ".join(f"{name} {_told(list(own))}" for name, own in waves.items())
    return ", ".join(map(str, waves))


def country_means(
    sources: Microdata | Sequence[Microdata],
    *,
    items: Sequence[str] | None = None,
    waves: Waves = (5, 6, 7),
    keep_respondents: bool = False,
) -> CountryMeans:
    """Return the mean answers of countries from survey microdata.

    Parameters
    ----------
    sources : Microdata or sequence of Microdata
        Respondents with the items in the coding of the Integrated Values Surveys, such as
        :func:`map_microdata` and :func:`chronocore.survey_microdata` read them. Y002 is made from
        E003 and E004, and Y003 from the child qualities (A029, A039, A040, A042, or Q8, Q14,
        Q15, Q17 of wave 7), where a time point has them.
    items : sequence of str, optional
        By default the ten of the published map.
    waves : sequence of int, mapping of str to sequence of int, or None
        Waves that are pooled, for all studies or by study (``{"wvs": [5, 6, 7], "evs": [4, 5]}``:
        each study numbers its own); None for all. Respondents without a wave (surveys that have
        none) are kept.
    keep_respondents : bool
        Keep complete respondents for ``fit="respondents"``.

    Returns
    -------
    CountryMeans
        Weighted means over pooled respondents, each item over its own valid answers; countries
        with all of them, in the order of their codes.

    Raises
    ------
    SourceError
        An item was recoded (the open sample's E018, A165 and Y002 are), an item is nowhere, or no
        country has all of them.

    Notes
    -----
    Definitions, section 11. A null, NaN, infinite, zero or negative weight drops the respondent;
    a time point in which nobody has a weight is unweighted, and noted.
    """
    names = tuple(items) if items is not None else _published()
    listed = [sources] if isinstance(sources, Microdata) else list(sources)
    if not listed:
        raise SourceError("there is no source to take country means from")
    blocks, has = [], []
    labels: dict[str, str] = {}
    for data in listed:
        entries = (
            (entry.variable, [option.code for option in entry.options], entry.options[0].label)
            for entry in data.items
        )
        check_coding(entries, data.source, names)
        block, own = _block(data, names, waves)
        blocks.append(block)
        has.append(own)
        named = data.respondents.select(["country", "country_name"]).group_by(
            ["country", "country_name"]
        )
        for row in named.aggregate([]).to_pylist():
            if row["country"] is not None and row["country_name"]:
                labels.setdefault(row["country"], row["country_name"])
    _check_present(blocks, has, names, waves, listed)
    return _pooled(blocks, names, labels, keep_respondents)


def survey_means(
    files: Path | Sequence[Path],
    *,
    preset: str | None = None,
    items: Sequence[str] | None = None,
    waves: Waves = (5, 6, 7),
    keep_respondents: bool = False,
    progress: Callable[[str], None] = lambda message: None,
) -> CountryMeans:
    """Return the mean answers of countries from survey files.

    Parameters
    ----------
    files : sequence of path, or path
        Files of the survey that ``preset`` names; or, without a preset, a file of settings with
        ``[[sources]]`` as ``study.toml`` has them.
    preset, items, progress
        As for :func:`map_microdata`.
    waves, keep_respondents
        As for :func:`country_means`.

    Returns
    -------
    CountryMeans
        The notes on the files come before those on the means.
    """
    if preset is not None:
        listed = [files] if isinstance(files, Path) else list(files)
        read = [map_microdata(listed, preset=preset, items=items, progress=progress)]
    else:
        if not isinstance(files, Path):
            raise ConfigurationError("survey files need a preset, for example ivs")
        read = [
            map_microdata(source, items=items, base=files.parent, progress=progress)
            for source in load_config(files).sources
        ]
    means = country_means(read, items=items, waves=waves, keep_respondents=keep_respondents)
    notes = [note for data in read for note in data.notes]
    return replace(means, notes=tuple(dict.fromkeys([*notes, *means.notes])))


def _pooled(
    blocks: Sequence[_Block],
    items: tuple[str, ...],
    labels: Mapping[str, str],
    keep_respondents: bool,
) -> CountryMeans:
    """Pool the respondents of every country."""
    members: dict[str, list[tuple[Floats, Floats]]] = {}
    used: dict[str, set[str]] = {}
    rows: list[dict[str, Any]] = []

    def named(code: str) -> str:
        return labels.get(code) or country_name(code) or code

    for block in blocks:
        for place, point in enumerate(block.points):
            chosen = block.point == place
            if not chosen.any():
                continue
            values, weight = block.values[chosen], block.weight[chosen]
            members.setdefault(point[0], []).append((values, weight))
            own = used.setdefault(point[0], set())
            if block.weight_names[place]:
                own.add(str(block.weight_names[place]))
            means, counts = _mean(values, weight)
            rows += [
                _row(
                    point, named(point[0]), item, float(means[j]), int(counts[j]),
                    block.years[place], block.weight_names[place],
                )
                for j, item in enumerate(items)
                if counts[j]
            ]  # fmt: skip
    kept: list[str] = []
    pooled: list[Floats] = []
    numbers: list[Integers] = []
    lacking: dict[str, list[str]] = {}
    respondents: dict[str, Floats] = {}
    complete_weights: dict[str, Floats] = {}
    for code in sorted(members, key=country_order):
        values = np.concatenate([v for v, _ in members[code]])
        weight = np.concatenate([w for _, w in members[code]])
        means, counts = _mean(values, weight)
        absent = [item for item, n in zip(items, counts.tolist(), strict=True) if not n]
        complete = ~np.isnan(values).any(axis=1)
        if not absent and keep_respondents and not complete.any():
            absent = ["a respondent who answered all items"]
        if absent:
            lacking[code] = absent
            continue
        kept.append(code)
        pooled.append(means)
        numbers.append(counts)
        if keep_respondents:
            respondents[code], complete_weights[code] = values[complete], weight[complete]
    shown = "; ".join(f"{named(code)} lacks {', '.join(own)}" for code, own in lacking.items())
    if not kept:
        raise SourceError(f"no country has all of {', '.join(items)}: {shown}")
    notes = [note for block in blocks for note in block.notes]
    if lacking:
        notes.append(f"not on the map: {shown}")
    return CountryMeans(
        items=items,
        countries=tuple(kept),
        names=tuple(map(named, kept)),
        regions=tuple(region_of(code) for code in kept),
        means=np.array(pooled, dtype=np.float64),
        respondents=respondents if keep_respondents else None,
        weights=complete_weights if keep_respondents else None,
        counts=np.array(numbers, dtype=np.int64),
        weights_used=tuple(", ".join(sorted(used[code])) or None for code in kept),
        time_points=pa.Table.from_pylist(rows, schema=schema.VALIDITY_COUNTRIES),
        notes=tuple(dict.fromkeys(notes)),
    )
