"""Sources that hold the same questions -> one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from chronocore.errors import SourceError
from chronocore.sources.answers import NOT_IN_THE_FILE
from chronocore.sources.labels import same_label
from chronocore.sources.microdata import MISSING, Item, Microdata

__all__ = ["TimePoint", "join_sources", "same_point"]

#: Country, study, wave, and the year where there is no wave.
TimePoint = tuple[str | None, str | None, int | None, int | None]

_KEYS = ("country", "study", "wave", "year")


def join_sources(sources: Sequence[Microdata]) -> list[Microdata]:
    """Put sources together that give the same variables of one survey.

    Sources that share no variable stay as they are, and so does the order of the sources.

    Parameters
    ----------
    sources : sequence of Microdata

    Returns
    -------
    list of Microdata

    Raises
    ------
    SourceError
        Two sources give one variable different codes or labels, or the same time points.
    """
    joined: list[Microdata] = []
    for source in sources:
        variables = {item.variable for item in source.items}
        sharing = [
            other
            for other in joined
            if other.survey == source.survey and variables & {item.variable for item in other.items}
        ]
        if not sharing:
            joined.append(source)
            continue
        place = next(i for i, other in enumerate(joined) if other is sharing[0])
        joined[place] = _join([*sharing, source])
        joined = [one for one in joined if all(one is not other for other in sharing)]
    return joined


def _join(sources: Sequence[Microdata]) -> Microdata:
    items: dict[str, tuple[Item, Microdata]] = {}
    for source in sources:
        for item in source.items:
            first = items.setdefault(item.variable, (item, source))
            if first[1] is not source:
                _check_same(first[0], first[1], item, source)
    answered = [{i.variable: _time_points(s, i.variable) for i in s.items} for s in sources]
    for variable in items:
        points: dict[TimePoint, Microdata] = {}
        for source, found in zip(sources, answered, strict=True):
            for point in found.get(variable, ()):
                other = points.setdefault(point, source)
                if other is not source:
                    name = f"{source.survey} {variable}"
                    raise same_point(name, point, _name(other), _name(source))
    variables = list(items)
    tables = [_with_all(source, variables) for source in sources]
    missing = [_missing(source, variables) for source in sources]
    notes = [note for source in sources for note in source.notes]
    names = " and ".join(_name(source) for source in sources)
    shared = sum(sum(v in found for found in answered) > 1 for v in variables)
    notes.append(f"{names} are joined: {shared} questions are in both")
    weights = [source.weight for source in sources if source.weight]
    return Microdata(
        survey=sources[0].survey,
        respondents=pa.concat_tables(tables, promote_options="permissive"),
        items=tuple(item for item, _ in items.values()),
        weight=", ".join(dict.fromkeys(weights)) or None,
        source=" and ".join(dict.fromkeys(source.source for source in sources)),
        provenance={"joined": [source.provenance for source in sources]},
        missing=pa.concat_tables(missing),
        notes=tuple(notes),
    )


def _name(source: Microdata) -> str:
    files = [str(entry["file"]) for entry in source.provenance.get("files", ())]
    return ", ".join(files) or source.source


def _check_same(one: Item, source: Microdata, other: Item, second: Microdata) -> None:
    where = f"{one.survey} {one.variable}"
    codes = [[option.code for option in item.options] for item in (one, other)]
    advice = "use it from one of them ([[sources]] variables)"
    if codes[0] != codes[1] or one.positions != other.positions:
        raise SourceError(
            f"{where} has the codes {codes[0]} in {_name(source)} and {codes[1]} in "
            f"{_name(second)}; {advice}, or give both the same item catalog"
        )
    for a, b in zip(one.options, other.options, strict=True):
        if not same_label(a.label, b.label):
            raise SourceError(
                f"{where}: code {a.code} is {a.label!r} in {_name(source)} and {b.label!r} in "
                f"{_name(second)}; {advice}, or give both the same item catalog"
            )


def same_point(variable: str, point: TimePoint, first: str, second: str) -> SourceError:
    """Return the error for a time point that two files or sources both have."""
    country, study, wave, year = point
    parts = [f"country {country}", study, f"wave {wave}" if wave is not None else f"year {year}"]
    place = ", ".join(str(part) for part in parts if part is not None)
    return SourceError(
        f"{variable}: {place} is in {first} and in {second}, and would count twice; read each file "
        "in [[sources]] of its own and leave the wave or country out of one of them with waves, "
        "countries or exclude_countries"
    )


def _time_points(source: Microdata, variable: str) -> set[TimePoint]:
    """Return country, study, wave and (where there is no wave) year with answers."""
    table = source.respondents
    names = [name for name in _KEYS if name in table.column_names]
    answered = table.select(names).filter(pc.is_valid(table[variable]))
    rows = answered.group_by(names).aggregate([]).to_pylist()
    points: set[TimePoint] = set()
    for row in rows:
        year = row["year"] if row["wave"] is None else None
        points.add((row["country"], row.get("study"), row["wave"], year))
    return points


def _with_all(source: Microdata, variables: Sequence[str]) -> pa.Table:
    table = source.respondents
    for variable in variables:
        if variable not in table.column_names:
            table = table.append_column(variable, pa.nulls(len(table), pa.int8()))
    return table


def _missing(source: Microdata, variables: Sequence[str]) -> pa.Table:
    """Return the missing answers of a source, those to questions it does not have included."""
    table = MISSING.empty_table() if source.missing is None else source.missing
    own = {item.variable for item in source.items}
    absent = [variable for variable in variables if variable not in own]
    if not absent:
        return table
    people = source.respondents
    names = [name for name in _KEYS if name in people.column_names]
    columns = zip(*(people[name].to_pylist() for name in names), strict=True)
    groups = [
        (dict(zip(names, key, strict=True)), count) for key, count in Counter(columns).items()
    ]
    rows = [
        {"study": None, **key, "variable": variable, "reason": NOT_IN_THE_FILE, "count": count}
        for variable in absent
        for key, count in groups
    ]
    return pa.concat_tables([table, pa.Table.from_pylist(rows, schema=MISSING)])
