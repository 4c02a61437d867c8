"""Survey files and what is declared about them -> microdata."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.config import Source, check_source
from chronocore.engines.base import Option
from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources.answers import (
    NOT_IN_THE_FILE,
    Answers,
    code_answers,
    distinct_values,
)
from chronocore.sources.cache import read_columns
from chronocore.sources.catalog import CatalogItem
from chronocore.sources.declaration import (
    Declaration,
    OpenFile,
    declare,
    no_weight_declared,
    open_files,
)
from chronocore.sources.files import near, parse_number
from chronocore.sources.join import TimePoint, same_point
from chronocore.sources.microdata import Item, Microdata
from chronocore.sources.presets import MissingCodes, shown_code
from chronocore.sources.questions import (
    CheckedItems,
    beside,
    catalog_order,
    check_labels,
    coding_of,
    few,
    find_questions,
    items_from_labels,
    named_questions,
    settle,
    wanted_items,
    worded,
)
from chronocore.sources.respondents import Respondents, read_respondents
from chronocore.sources.tally import Tally

__all__ = ["codes_in", "read_survey", "survey_microdata"]


def codes_in(column: pa.ChunkedArray) -> dict[int, int]:
    """Return the whole numbers that occur in a raw column, and in how many rows each does."""
    values, place = distinct_values(column)
    rows = np.bincount(place, minlength=len(values)).tolist()
    return {
        int(value): count
        for value, count in zip(values, rows, strict=True)
        if isinstance(value, int | float) and math.isfinite(value) and value == int(value) and count
    }


def _filtered(table: pa.Table, who: Respondents) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
    if who.keep is None:
        return table, who.table, who.group
    mask = pa.array(who.keep)
    return table.filter(mask), who.table.filter(mask), who.group[who.keep]


def read_survey(
    source: Source,
    base: Path,
    *,
    frames: Mapping[str, object] | None = None,
    time_point: Literal["wave", "year"] = "wave",
    progress: Callable[[str], None] = lambda message: None,
) -> Microdata:
    """Read the files of one source.

    Parameters
    ----------
    source : Source
    base : Path
        The folder that relative paths start from.
    frames : dict of str to frame, optional
        Arrow-compatible frames that stand for the files of their names.
    time_point : {"wave", "year"}
        What is one time point of a survey with waves: each has one weight.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    Microdata

    Raises
    ------
    ConfigurationError
        What is declared cannot be understood.
    SourceError
        A file cannot be read, lacks a column, or contradicts what is declared.

    Notes
    -----
    ChronoCulture, sections 3.1 and 3.2, appendix A.1; definitions, section 1.
    """
    declared = declare(source, base)
    opened = open_files(declared, base, frames or {})
    notes = [
        f"{one.name}: text decoded as {one.file.encoding}, which was found by trying"
        for one in opened
        if one.file.fallback
    ]
    notes += [w for one in opened if (w := no_weight_declared(declared, one.file)) is not None]
    questions = find_questions(declared, opened, notes)
    declared = named_questions(
        declared, [q if isinstance(q, str) else q.variable for q in questions], opened
    )
    checked: CheckedItems | None = None
    if declared.catalog is not None:
        checked = check_labels(
            declared, [q for q in questions if isinstance(q, CatalogItem)], opened
        )
        settle(declared, checked, notes)
        if not checked.items:
            raise SourceError(_no_question(declared, opened, checked))
    indices = beside(declared, checked.items, opened, notes) if checked is not None else []
    tables: list[pa.Table] = []
    for one in opened:
        asked = (
            list(one.questions.values())
            if checked is None
            else [
                one.questions[i.variable]
                for i in (*checked.items, *indices)
                if i.variable in one.questions
            ]
        )
        progress(f"reading {one.name}: {len(asked)} questions of {len(one.file.columns)} columns")
        tables.append(read_columns(one.file, one.digest, [*one.roles.names(), *asked]))
    if checked is None:
        variables = [str(variable) for variable in questions]
        codes = [
            {v: codes_in(table[one.questions[v]]) for v in variables if v in one.questions}
            for one, table in zip(opened, tables, strict=True)
        ]
        items = items_from_labels(declared, variables, opened, codes, notes)
        # Where several files ask one question, the first one's labels are what the others must say.
        between = check_labels(declared, items, opened)
        settle(declared, between, notes)
    else:
        items = catalog_order(declared, checked.items)
    items = [worded(declared, item, opened) for item in items]
    tally = Tally()
    people: list[Respondents] = []
    unmatched: list[dict[str, str]] = []
    occurring: set[int] = set()
    parts: list[pa.Table] = []
    answered: dict[tuple[str, TimePoint], str] = {}
    for number, one in enumerate(opened):
        table = tables[number]
        tables[number] = None
        who = read_respondents(
            one.file,
            table,
            one.roles,
            declared.preset,
            country=declared.country,
            year_codes=declared.year_codes,
            merge=source.merge,
            waves=source.waves,
            countries=source.countries,
            exclude_countries=source.exclude_countries,
            drop_duplicates=source.duplicates == "drop",
            by_year=time_point == "year",
            own_year_codes=source.year_codes,
        )
        people.append(who)
        unmatched.append(who.unmatched)
        notes += who.notes
        raw, kept, group = _filtered(table, who)
        if not len(kept):
            if one is opened[-1]:
                waveless = [
                    {k: v for k, v in names.items() if not k.startswith("waves ")}
                    for names in unmatched
                ]
                _check_matched(declared, waveless)
            raise SourceError(
                f"{one.name} has no row in the waves and countries asked for; it has the countries "
                f"{few(list(who.countries))} and the waves "
                f"{sorted({g[2] for g in who.groups if g[2] is not None})}"
            )
        tally.start(who.groups)
        rows_of_group = np.bincount(group, minlength=len(who.groups))
        columns: dict[str, pa.ChunkedArray] = {n: kept[n] for n in kept.column_names}
        for item in items:
            column = one.questions.get(item.variable)
            if column is None:
                columns[item.variable] = pa.chunked_array([pa.nulls(len(kept), pa.int8())])
                tally.add_missing(item.variable, NOT_IN_THE_FILE, rows_of_group)
                continue
            coding = coding_of(declared, item, one.file, column)
            answers = code_answers(
                raw[column], coding, group, len(who.groups), f"{one.name}, column {column}"
            )
            occurring.update(_codes(answers.values), one.file.value_labels.get(column, {}))
            _check_once(item.variable, answers, who, one.name, answered)
            columns[item.variable] = pa.chunked_array([answers.column])
            tally.add(item.variable, answers)
        columns |= _index_columns(declared, indices, one, raw, notes)
        parts.append(pa.table(columns))
    _check_matched(declared, unmatched)
    idle = [code for code, _ in MissingCodes(source.missing, "").codes() if code not in occurring]
    if idle:
        named = ", ".join(map(shown_code, idle))
        notes.append(f"[sources.missing] declares codes that are in no question: {named}")
    respondents = pa.concat_tables(parts, promote_options="permissive")
    _note_counts(tally, items, opened, notes)
    used = list(dict.fromkeys(name for who in people for name in who.weights))
    if declared.weights and not used:
        notes.append(f"{', '.join(o.name for o in opened)}: no usable weight anywhere, unweighted")
        respondents = respondents.drop_columns(["weight", "weight_name"])
    return Microdata(
        survey=declared.survey,
        respondents=respondents,
        items=tuple(_item(declared, item, opened) for item in items),
        weight=", ".join(used) or None,
        source=declared.preset.about or declared.preset.name,
        provenance=_provenance(declared, opened, people, used, items, tally),
        missing=tally.missing(),
        notes=tuple(notes),
    )


def _index_columns(
    declared: Declaration,
    indices: Sequence[CatalogItem],
    one: OpenFile,
    raw: pa.Table,
    notes: list[str],
) -> dict[str, pa.ChunkedArray]:
    """Return the answers to the indices that a file has beside the questions."""
    columns: dict[str, pa.ChunkedArray] = {}
    for index in indices:
        column = one.questions.get(index.variable)
        if column is None:
            continue
        coding = coding_of(declared, index, one.file, column)
        rows = np.zeros(len(raw), dtype=np.int64)
        try:
            answers = code_answers(raw[column], coding, rows, 1, f"{one.name}, column {column}")
        except SourceError as error:
            notes.append(f"{error}; the index {index.variable} is not read")
            continue
        columns[index.variable] = pa.chunked_array([answers.column])
    return columns


def _codes(values: Sequence[Any]) -> set[int]:
    numbers = [parse_number(value) if isinstance(value, str) else value for value in values]
    return {int(n) for n in numbers if n is not None and math.isfinite(n) and n == int(n)}


def _check_matched(declared: Declaration, unmatched: Sequence[Mapping[str, str]]) -> None:
    """Refuse a name in a setting that no file of the source has."""
    if unmatched:
        nowhere = [name for name in unmatched[0] if all(name in one for one in unmatched)]
        if nowhere:
            raise ConfigurationError(
                f"[[sources]] {declared.source.preset}: {unmatched[-1][nowhere[0]]}"
            )


def _no_question(declared: Declaration, opened: Sequence[OpenFile], checked: CheckedItems) -> str:
    where = ", ".join(one.name for one in opened)
    if checked.unconfirmed:
        why = few([f"{variable} ({reason})" for variable, reason in checked.unconfirmed.items()], 3)
        return (
            f"{where}: nothing confirms the codes of any question of the catalog: {why}; "
            "confirmed = […] takes those you checked"
        )
    names = [item.variable for item in wanted_items(declared)]
    return (
        f"{where} has no column for any question of the catalog: {few(names, 6)}"
        f"{near(names[0], opened[0].file.columns)}; `chronocore build --explain FILE` lists what "
        "it has"
    )


def _check_once(
    variable: str,
    answers: Answers,
    who: Respondents,
    name: str,
    answered: dict[tuple[str, TimePoint], str],
) -> None:
    """Refuse a time point that two files of a source both answer: it would count twice."""
    valid = sum(answers.by_option().values(), np.zeros(len(who.groups), dtype=np.int64))
    for place in np.flatnonzero(valid):
        country, study, wave, year = who.groups[place]
        if country is None or year is None:
            continue
        point = (country, study, wave, year if wave is None else None)
        other = answered.setdefault((variable, point), name)
        if other != name:
            raise same_point(variable, point, other, name)


def _note_counts(
    tally: Tally,
    items: Sequence[CatalogItem],
    opened: Sequence[OpenFile],
    notes: list[str],
) -> None:
    where = ", ".join(one.name for one in opened)
    for item in items:
        seen = tally.undeclared.get(item.variable)
        if seen:
            labels = {
                str(code): label
                for one in opened
                for code, label in one.file.value_labels.get(
                    one.questions.get(item.variable, ""), {}
                ).items()
            }
            shown: list[str] = []
            for value, count in sorted(seen.items()):
                code = value.removesuffix(".0")
                label = f", {labels[code]!r}" if code in labels else ""
                shown.append(f"{code} ({count:,} answers{label})")
            notes.append(
                f"{where}, {item.variable}: codes that are neither options nor declared missing, "
                f"left out: {few(shown, 6)}"
            )
        once = tally.one_time_options(item)
        if once:
            notes.append(f"{where}, {item.variable}: options that occur once: {few(once, 6)}")


def _item(declared: Declaration, item: CatalogItem, opened: Sequence[OpenFile]) -> Item:
    scale = item.scale
    names = ", ".join(one.name for one in opened if item.variable in one.questions)
    wording = f"; wording: {item.text_source}" if item.text_source else ""
    return Item(
        survey=declared.survey,
        variable=item.variable,
        source=f"{declared.preset.about or declared.preset.name}, {names}{wording}",
        text=item.text,
        topic=item.topic,
        topic_broad=item.topic_broad,
        options=tuple(Option(option.code, option.label) for option in scale),
        positions=tuple(option.position for option in scale),
    )


def _provenance(
    declared: Declaration,
    opened: Sequence[OpenFile],
    people: Sequence[Respondents],
    used: Sequence[str],
    items: Sequence[CatalogItem],
    tally: Tally,
) -> dict[str, Any]:
    return {
        "preset": declared.preset.name,
        "citation": declared.preset.citation,
        "doi": declared.preset.doi,
        "files": [
            {
                "file": one.name,
                "bytes": one.size,
                "sha256": one.digest,
                "format": one.file.kind,
                "encoding": one.file.encoding or one.file.declared_encoding,
                "encoding_found_by_trying": one.file.fallback,
                "rows": len(who.group),
                "rows_taken": len(who.group) if who.keep is None else int(who.keep.sum()),
                "duplicate_respondents": who.duplicates,
                "columns": dict(one.roles.columns),
                "waves": dict(one.roles.waves),
                "weights": list(who.weights),
            }
            for one, who in zip(opened, people, strict=True)
        ],
        "weights_used": list(used),
        "questions": len(items),
        "missing_answers": tally.reasons(),
    }


def survey_microdata(data: object, *, preset: str = "generic", **settings: Any) -> Microdata:
    """Read survey microdata from a file or a frame, as a build does.

    Parameters
    ----------
    data : path, or any Arrow-compatible frame
        A survey file, a list of files of one survey, or a frame (polars, pyarrow, pandas,
        DuckDB).
    preset : str
        A preset of the package, or the path of one of your own.
    **settings
        Everything a ``[[sources]]`` block of ``study.toml`` takes: ``variables``, ``columns``,
        ``missing``, ``weight``, ``items``, …

    Returns
    -------
    Microdata
        Respondents with the answers to every item.

    Raises
    ------
    ConfigurationError
        A setting is unknown or contradicts another.
    SourceError
        The data cannot be read or contradict what is declared.

    Notes
    -----
    ChronoCulture, section 3.2.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame = pa.table({"cntry": ["NO", "NO"], "year": [2020, 2020], "trust": [1, 3]})
    >>> catalog = "trust.csv"  # doctest: +SKIP
    >>> survey_microdata(frame, items=catalog).items[0].variable  # doctest: +SKIP
    'trust'
    """
    frames: dict[str, object] = {}
    if isinstance(data, str | Path):
        files: Any = str(data)
    elif isinstance(data, list | tuple) and all(isinstance(one, str | Path) for one in data):
        files = [str(one) for one in data]
    else:
        files = "frame"
        frames = {"frame": data}
    known = [f.name for f in msgspec.structs.fields(Source) if f.name not in ("preset", "file")]
    for name in settings:
        if name not in known:
            raise ConfigurationError(
                f"unknown setting {name!r}{near(name, known)}; a source takes {', '.join(known)}"
            )
    builtins = msgspec.to_builtins({"preset": preset, "file": files, **settings})
    try:
        source = msgspec.convert(builtins, Source)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error)) from None
    check_source(source, "settings")
    return read_survey(source, Path(), frames=frames)
