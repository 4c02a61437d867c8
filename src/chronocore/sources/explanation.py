"""What a preset finds in a survey file, and what it cannot."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chronocore.config import Columns, Source, dump_source
from chronocore.countries import country_name
from chronocore.errors import ChronocoreError, SourceError
from chronocore.sources.answers import code_answers
from chronocore.sources.cache import read_columns
from chronocore.sources.catalog import CatalogItem
from chronocore.sources.declaration import (
    Declaration,
    OpenFile,
    declare,
    find_roles,
    no_weight_declared,
)
from chronocore.sources.files import SurveyFile, file_digest, open_frame, open_survey_file
from chronocore.sources.presets import load_preset, preset_names
from chronocore.sources.questions import (
    CheckedItems,
    catalog_columns,
    check_labels,
    coding_of,
    few,
    text_advice,
    text_labels,
)
from chronocore.sources.respondents import Respondents, read_respondents
from chronocore.sources.scale import MOST_POINTS, Asked, Scale, scale_from_labels
from chronocore.sources.survey import codes_in
from chronocore.tolerance import ATOL

__all__ = ["Explanation", "Question", "explain"]

# The share of what a preset looks for that a file must have for the preset to be guessed.
_FITS = 0.6


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a file that a study could use.

    Attributes
    ----------
    variable, column : str
    text : str
        The file's own label, or the catalog's wording.
    options : dict of int to str
        Labels by code, in the order of the scale.
    time_points : int
        Waves or years in which it was asked.
    answers : int
        Valid answers.
    missing : dict of str to int
        Answers that are none, by reason.
    undeclared : dict of str to int
        Values that are neither options nor declared missing.
    evidence : tuple of str
        What was concluded from the labels, and from what.
    doubts : tuple of str
        What has to be confirmed before a study can use the question.
    """

    variable: str
    column: str
    text: str
    options: dict[int, str]
    time_points: int
    answers: int
    missing: dict[str, int]
    undeclared: dict[str, int]
    evidence: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(slots=True)
class Explanation:
    """What a preset finds in a file.

    Attributes
    ----------
    file : str
    preset : str
    fit : dict of str to float
        How well each preset fits the file, best first; 1 is all that it looks for.
    rows : int
    encoding : str or None
    roles : dict of str to str
        Columns that are no questions, by what they are for.
    lacking : dict of str to str
        What the preset needs and does not find, and what to do about it.
    names : list of str
        The columns of the file.
    waves : dict of str to int
        Rows by wave, with the study before it where there are several.
    years : dict of int to int
        Rows by year.
    countries : dict of str to int
        Rows by country.
    unknown_countries : list of str
        Countries without a name: they stay, under their code.
    weights : dict of str to int
        Country-waves (or country-years) by the weight they would use; ``none`` has none.
    questions : list of Question
        Questions that can be used.
    doubtful : list of Question
        Questions whose scale has to be confirmed first; the block leaves them out.
    text : dict of str to str
        Questions stored as text in place of codes, and what to do about them.
    unused : dict of str to str
        Labelled columns that are no questions for a study, and why.
    absent : list of str
        Questions of the catalog that the file lacks.
    unconfirmed : dict of str to str
        Questions whose codes nothing confirms, and what is not confirmed.
    conflicts : list of str
        Labels that contradict the catalog.
    checks : list of str
        Facts about the survey that no documentation at hand confirms.
    notes : list of str
    block : str
        A ``[[sources]]`` block for ``study.toml``.
    """

    file: str
    preset: str
    fit: dict[str, float]
    rows: int | None = None
    names: list[str] = field(default_factory=list)
    encoding: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    waves: dict[str, int] = field(default_factory=dict)
    years: dict[int, int] = field(default_factory=dict)
    countries: dict[str, int] = field(default_factory=dict)
    unknown_countries: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    doubtful: list[Question] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    unconfirmed: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    block: str = ""


def explain(
    data: object,
    *,
    preset: str | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Explanation:
    """Say what a preset finds in a survey file, and what it cannot.

    Parameters
    ----------
    data : path, or any Arrow-compatible frame
        A survey file or a frame.
    preset : str, optional
        A preset of the package or the path of one of your own; by default the one that fits
        best.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    Explanation

    Raises
    ------
    SourceError
        The file cannot be read.
    ConfigurationError
        There is no such preset.

    Notes
    -----
    ChronoCulture, section 3.2.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame = pa.table({"cntry": ["NO"], "essround": [10], "idno": [1], "anweight": [1.0]})
    >>> explain(frame).preset
    'ess'
    """
    digest: str | None = None
    if isinstance(data, str | Path):
        path = Path(data)
        file = open_survey_file(path)
        progress(f"reading {file.name}")
        digest = file_digest(path)
        name = str(path)
    else:
        file = open_frame(data, "frame")
        name = "frame"
    fit = _fits(file)
    notes: list[str] = []
    chosen = preset
    if chosen is None:
        chosen = _one_study(file, digest, _best(fit, notes), notes)
    declared = declare(Source(preset=chosen, file=name), Path())
    result = Explanation(
        file=file.name,
        preset=chosen,
        fit=fit,
        rows=file.rows,
        names=list(file.columns),
        encoding=file.encoding or file.declared_encoding,
        checks=list(declared.preset.checks),
        notes=notes,
    )
    roles, result.lacking = find_roles(declared, file)
    result.roles = {
        **roles.columns,
        **{f"wave of {study}": column for study, column in roles.waves.items()},
    }
    if declared.weights and not roles.weights:
        result.lacking["weight"] = (
            f'no column {" or ".join(declared.weights)}; name it: weight = "…", or go without: '
            'weight = "none"'
        )
    unweighted = no_weight_declared(declared, file)
    if unweighted is not None:
        result.notes.append(unweighted)
    if file.fallback:
        result.notes.append(f"text decoded as {file.encoding}, which was found by trying")
    inverted = [c for c in file.columns if c.upper().startswith("Q") and c.upper().endswith("P")]
    if declared.preset.item_column == "wave7_question" and inverted:
        result.notes.append(f"inverted questions are not used: {few(inverted)}")
    readable = "year" in roles.columns and (
        "country" in roles.columns or declared.country is not None
    )
    if readable:
        _read(declared, OpenFile(file, digest, None, roles), result)
    result.block = _block(declared, result, name)
    return result


def _fits(file: SurveyFile) -> dict[str, float]:
    """Return how well each preset fits a file by its name and its columns, best first."""
    scores: dict[str, float] = {}
    for name in preset_names():
        preset = load_preset(name)
        if name == "generic":
            continue
        looked = [
            [part.wave] if isinstance(part.wave, str) else part.wave
            for part in preset.studies.values()
        ]
        for role in ("respondent", "country", "wave", "year", "weight", "study"):
            names = preset.columns.names(role)
            if names:
                looked.append(names)
        found = sum(file.first(names) is not None for names in looked)
        named = any(
            fnmatch.fnmatch(file.name.casefold(), pattern.casefold()) for pattern in preset.files
        )
        # The name of a file decides between surveys whose columns are called the same.
        scores[name] = (found + 0.5 * named) / (len(looked) + 0.5)
    return dict(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])))


def _best(fit: dict[str, float], notes: list[str]) -> str:
    """Return the preset that fits best, or the generic one."""
    best, score = next(iter(fit.items()))
    if score < _FITS:
        return "generic"
    alike = [name for name, other in fit.items() if other >= score - ATOL]
    if len(alike) > 1:
        notes.append(f"fits {', '.join(alike)} alike by its columns; choose one with --preset")
        return "generic"
    return best


def _one_study(file: SurveyFile, digest: str | None, preset: str, notes: list[str]) -> str:
    """Return the preset of the one study whose rows a file of a merged structure holds."""
    parts = {} if preset == "generic" else load_preset(preset).studies
    column = file.first(load_preset(preset).columns.names("study"))
    if not parts or column is None:
        return preset
    present = set(codes_in(read_columns(file, digest, [column])[column]))
    studies = [name for name, part in parts.items() if part.code in present]
    alone = [n for n in preset_names() if [load_preset(n).survey] == studies]
    single = next((n for n in alone if not load_preset(n).item_column.startswith("wave7")), None)
    if single is None:
        return preset
    notes.append(f"{column} has rows of {studies[0]} alone: {single}, not {preset}")
    return single


def _read(declared: Declaration, one: OpenFile, result: Explanation) -> None:
    """Read the file and say who answered what."""
    items: list[CatalogItem] = []
    if declared.catalog is not None:
        checked = _catalog_items(declared, one, result)
        items = checked.items
        columns = [one.questions[item.variable] for item in items]
    else:
        used = {name.casefold() for name in one.roles.names()}
        labelled = [c for c in one.file.columns if c.casefold() not in used]
        for column in labelled:
            texts = text_labels(one.file, column)
            if texts:
                result.text[column] = text_advice(declared.preset.variable(column), texts)
        columns = [c for c in labelled if one.file.value_labels.get(c)]
    table = read_columns(one.file, one.digest, [*one.roles.names(), *columns])
    result.rows = len(table)
    try:
        who = _respondents(declared, one, table)
    except ChronocoreError as error:
        result.lacking["rows"] = str(error)
        return
    result.notes += who.notes
    sizes = np.bincount(who.group, minlength=len(who.groups)).tolist()
    by_study = sorted(
        zip(who.groups, sizes, strict=True), key=lambda e: (e[0][1] or "", e[0][2] or 0)
    )
    for (_, study, wave, year), size in by_study:
        if wave is not None:
            key = f"{study} {wave}" if study else str(wave)
            result.waves[key] = result.waves.get(key, 0) + size
        if year is not None:
            result.years[year] = result.years.get(year, 0) + size
    result.years = dict(sorted(result.years.items()))
    result.countries = who.countries
    result.unknown_countries = [c for c in who.countries if country_name(c) is None]
    if "weight_name" in who.table.column_names:
        names = who.table["weight_name"].to_numpy(zero_copy_only=False)
        _, first = np.unique(who.group, return_index=True)
        for row in first.tolist():
            name = str(names[row]) if names[row] is not None else "none"
            result.weights[name] = result.weights.get(name, 0) + 1
    if declared.catalog is None:
        for item, scale in _label_items(declared, one, columns, table, result):
            question = _question(declared, one, item, table, who, scale)
            if question.time_points < 2:
                # A question asked once gives no pair.
                result.unused[item.variable] = "answered at one time point only"
            elif scale.doubts or question.doubts:
                result.doubtful.append(question)
            else:
                result.questions.append(question)
        if not one.file.value_labels:
            result.notes.append(
                "the file has no value labels; list the options of the questions in an item "
                'catalog, and name it: items = "…"'
            )
        return
    for item in items:
        result.questions.append(_question(declared, one, item, table, who))
    if len(result.waves or result.years) == 1:
        result.notes.append(
            "the file has one time point, and a study compares two: list further files of the "
            'survey beside it, file = ["…", "…"]'
        )


def _catalog_items(declared: Declaration, one: OpenFile, result: Explanation) -> CheckedItems:
    assert declared.catalog is not None
    present: list[CatalogItem] = []
    for item in declared.catalog:
        found = one.file.first(catalog_columns(declared, item), guessed=True)
        if found is None:
            result.absent.append(item.variable)
        else:
            one.questions[item.variable] = found
            present.append(item)
    checked = check_labels(declared, present, [one])
    result.conflicts = [conflict.message() for conflict in checked.conflicts]
    result.unconfirmed = checked.unconfirmed
    if checked.partly:
        result.notes.append(f"codes known from sister questions only: {few(checked.partly)}")
    return checked


def _label_items(
    declared: Declaration,
    one: OpenFile,
    columns: Sequence[str],
    table: pa.Table,
    result: Explanation,
) -> Iterator[tuple[CatalogItem, Scale]]:
    for column in columns:
        asked = Asked(one.file, column, codes_in(table[column]))
        scale = scale_from_labels([asked], declared.missing)
        variable = declared.preset.variable(column)
        if len(scale.options) < 2 and not scale.doubts:
            result.unused[variable] = f"{len(scale.options)} labelled option(s)"
            continue
        if len(scale.options) > MOST_POINTS and not scale.doubts:
            result.unused[variable] = f"{len(scale.options)} options, more than a scale has"
            continue
        one.questions[variable] = column
        text = one.file.labels.get(column, "")
        yield CatalogItem.from_labels(variable, text, scale.options, aside=scale.aside), scale


def _respondents(declared: Declaration, one: OpenFile, table: pa.Table) -> Respondents:
    return read_respondents(
        one.file,
        table,
        one.roles,
        declared.preset,
        country=declared.country,
        year_codes=declared.year_codes,
        merge={},
        waves=None,
        countries=None,
        exclude_countries=None,
        drop_duplicates=False,
    )


def _question(
    declared: Declaration,
    one: OpenFile,
    item: CatalogItem,
    table: pa.Table,
    who: Respondents,
    scale: Scale | None = None,
) -> Question:
    column = one.questions[item.variable]
    coding = coding_of(declared, item, one.file, column)
    options = {option.code: option.label for option in item.scale}
    try:
        answers = code_answers(
            table[column], coding, who.group, len(who.groups), f"{one.name}, column {column}"
        )
    except SourceError as error:
        doubts = (str(error),)
        return Question(item.variable, column, item.text, options, 0, 0, {}, {}, (), doubts)
    valid = sum(answers.by_option().values(), np.zeros(len(who.groups), dtype=np.int64))
    points = {
        (study, wave if wave is not None else year)
        for (_, study, wave, year), count in zip(who.groups, valid.tolist(), strict=True)
        if count
    }
    return Question(
        variable=item.variable,
        column=column,
        text=item.text or one.file.labels.get(column, ""),
        options=options,
        time_points=len(points),
        answers=int(valid.sum()),
        missing={why: int(counts.sum()) for why, counts in answers.by_reason().items()},
        undeclared=answers.undeclared(),
        evidence=() if scale is None else tuple(scale.evidence),
        doubts=() if scale is None else tuple(scale.doubts),
    )


def _block(declared: Declaration, result: Explanation, file: str) -> str:
    """Return a block for ``study.toml`` that reads the file as it was explained.

    What the file does not say is left to be filled in: ``"?"``.
    """
    changes: dict[str, Any] = {}
    if declared.catalog is None:
        changes["variables"] = [question.column for question in result.questions] or ["?"]
    if "weight" in result.lacking:
        changes["weight"] = "none"
    unknown = [role for role in result.lacking if role in ("country", "wave", "year", "study")]
    if unknown:
        changes["columns"] = Columns(**dict.fromkeys(unknown, "?"))
    if result.conflicts:
        changes["labels"] = "flag"
    source = Source(preset=result.preset, file=file, **changes)
    return dump_source(source).rstrip() + "\n"
