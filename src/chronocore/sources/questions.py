"""Which questions a file asks, and whether its labels are what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources.answers import Coding
from chronocore.sources.catalog import CatalogItem
from chronocore.sources.declaration import Declaration, OpenFile, near
from chronocore.sources.files import SurveyFile
from chronocore.sources.labels import (
    LabelConflict,
    clean_label,
    compare_labels,
    doubtful_order,
    missing_reason,
    says_nothing,
    unconfirmed,
)
from chronocore.sources.presets import LETTERS

__all__ = [
    "CheckedItems",
    "catalog_columns",
    "check_labels",
    "code_mapping",
    "coding_of",
    "few",
    "file_labels",
    "find_questions",
    "item_from_labels",
    "scale_from_labels",
    "settle",
    "wanted_items",
    "worded",
]

_MANY = 12


def code_mapping(declared: Declaration, item: CatalogItem) -> tuple[dict[int, int], dict[int, str]]:
    """Return file codes to option codes, and file codes of off-scale answers to their label."""
    scale = [option.code for option in item.scale]
    mapping = {code: code for code in scale}
    off = {o.code: o.label for o in item.options if o.off_scale}
    if declared.preset.item_column == "wave7_question" and item.recode:
        mapping = {file: code for file, code in item.recode.items() if code in mapping}
        off = {code: label for code, label in off.items() if code not in mapping}
    if item.variable in declared.source.reverse:
        mirror = dict(zip(scale, reversed(scale), strict=True))
        mapping = {file: mirror[code] for file, code in mapping.items()}
    return mapping, off


def file_labels(
    declared: Declaration, file: SurveyFile, column: str, mapping: Mapping[int, int]
) -> dict[int, str]:
    """Return a file's labels by the code an answer gets, without those of missing answers."""
    found: dict[int, str] = {}
    for code, label in file.value_labels.get(column, {}).items():
        if code in mapping:
            found[mapping[code]] = label
        elif not _is_missing(declared, file, column, code, label) and code not in mapping.values():
            found.setdefault(code, label)
    return found


def _is_missing(
    declared: Declaration, file: SurveyFile, column: str, code: int, label: str
) -> bool:
    return (
        code < 0
        or code in LETTERS.values()
        or _declared_missing(file, column, code)
        or declared.missing.reason(code) is not None
        or missing_reason(label) is not None
    )


def _declared_missing(file: SurveyFile, column: str, code: int) -> bool:
    return any(low <= code <= high for low, high in file.user_missing.get(column, ()))


def catalog_columns(declared: Declaration, item: CatalogItem) -> list[str]:
    """Return the names a file may give the column of an item."""
    if declared.preset.item_column == "wave7_question":
        return [item.wave7_question] if item.wave7_question else []
    return [item.variable, *item.other_names]


def wanted_items(declared: Declaration) -> list[CatalogItem]:
    """Return the items of the catalog that the source asks for."""
    assert declared.catalog is not None
    if declared.source.variables is None:
        return list(declared.catalog)
    by_name = {item.variable.casefold(): item for item in declared.catalog}
    unknown = [v for v in declared.source.variables if v.casefold() not in by_name]
    if unknown:
        known = [item.variable for item in declared.catalog]
        raise ConfigurationError(
            f"[[sources]] {declared.source.preset}: the catalog has no question "
            f"{', '.join(unknown)}{near(unknown[0], known)}; a catalog of your own is named with "
            "items"
        )
    wanted = {v.casefold() for v in declared.source.variables}
    return [item for item in declared.catalog if item.variable.casefold() in wanted]


def find_questions(
    declared: Declaration, opened: list[OpenFile], notes: list[str]
) -> list[CatalogItem] | list[str]:
    """Find the columns of the questions; return the items, or their names if labels give them.

    Raises
    ------
    ConfigurationError
        A name is none of the catalog's, or no name is given where labels give the items.
    SourceError
        A file lacks a column that is asked for.
    """
    if declared.catalog is None:
        return _find_named(declared, opened)
    items: list[CatalogItem] = []
    absent: list[str] = []
    for item in wanted_items(declared):
        present = False
        for one in opened:
            found = one.file.first(catalog_columns(declared, item))
            if found is not None:
                one.questions[item.variable] = found
                present = True
        if present:
            items.append(item)
        else:
            absent.append(item.variable)
    names = ", ".join(one.name for one in opened)
    if absent and declared.source.variables is not None:
        raise SourceError(
            f"{names} has no column for {few(absent)}; leave it out of variables, or see "
            "`chronocore build --explain`"
        )
    if absent:
        notes.append(f"{names}: questions of the catalog without a column: {few(absent)}")
    return items


def _find_named(declared: Declaration, opened: list[OpenFile]) -> list[str]:
    names = declared.source.variables
    preset = declared.preset
    if not names:
        raise ConfigurationError(
            f"[[sources]] {declared.source.preset}: name the questions to use with variables = "
            "[…] in a settings file (--config FILE); `chronocore build --explain FILE` prints one "
            "with those the file has"
        )
    variables: list[str] = []
    for name in names:
        variable = preset.variable(name)
        bare = variable[len(preset.prefix) :]
        for one in opened:
            found = one.file.first([name, bare])
            if found is not None:
                one.questions[variable] = found
        if not any(variable in one.questions for one in opened):
            raise SourceError(
                f"{', '.join(o.name for o in opened)} has no column {name}"
                f"{near(bare, opened[0].file.columns)}"
            )
        if variable in variables:
            raise ConfigurationError(
                f"[[sources]] {declared.source.preset}: {name} is twice in variables"
            )
        variables.append(variable)
    return variables


def scale_from_labels(
    declared: Declaration, files: Sequence[tuple[SurveyFile, str, Sequence[int]]]
) -> tuple[dict[int, str], list[str]]:
    """Return the options that the value labels of one question give.

    Parameters
    ----------
    declared : Declaration
    files : sequence of (SurveyFile, str, sequence of int)
        Every file that asks the question, its column, and the codes that occur in it.

    Returns
    -------
    options : dict of int to str
        Labels by code, ascending. Codes between labelled ones that occur without a label are
        points of the scale, labelled by their number.
    doubts : list of str
        Labelled codes that are taken for missing although their label does not say so.
    """
    labelled: dict[int, str] = {}
    doubts: list[str] = []
    for file, column, _ in files:
        for code, raw in file.value_labels.get(column, {}).items():
            label = clean_label(raw, code)
            if code in LETTERS.values() or _declared_missing(file, column, code):
                continue
            declared_reason = declared.missing.reason(code)
            if declared_reason is not None and not says_nothing(label):
                if missing_reason(label) is None:
                    doubts.append(
                        f"code {code} ({label!r}) counts as {declared_reason!r}; if it is an "
                        f"answer: [sources.missing] valid = [{code}]"
                    )
                continue
            if code < 0 or missing_reason(label) is not None:
                continue
            labelled.setdefault(code, label)
    if not labelled:
        return {}, doubts
    low, high = min(labelled), max(labelled)
    for file, column, codes in files:
        for code in codes:
            if low < code < high and code not in labelled:
                named = file.value_labels.get(column, {}).get(code)
                if not _declared_missing(file, column, code) and named is None:
                    labelled[code] = str(code)
    return dict(sorted(labelled.items())), list(dict.fromkeys(doubts))


def item_from_labels(
    declared: Declaration,
    variable: str,
    opened: list[OpenFile],
    codes: Sequence[Sequence[int]],
    notes: list[str],
) -> CatalogItem:
    """Make an item of a question from the value labels of the files that ask it.

    ``codes`` lists the codes that occur in each of those files.

    Raises
    ------
    SourceError
        The labels name fewer than two options.
    ConfigurationError
        The declared order is not one of its codes.
    """
    asked = [one for one in opened if variable in one.questions]
    where = f"{', '.join(one.name for one in asked)}, {variable}"
    options, doubts = scale_from_labels(
        declared,
        [(one.file, one.questions[variable], c) for one, c in zip(asked, codes, strict=True)],
    )
    notes.extend(f"{where}: {doubt}" for doubt in doubts)
    if len(options) < 2:
        has = "no value labels" if not options else f"one labelled option, {options}"
        raise SourceError(
            f"{where} has {has}; list its options in an item catalog and name it with items, or "
            f"leave the question out{''.join(f'; {doubt}' for doubt in doubts)}"
        )
    order = declared.source.order.get(variable) or declared.source.order.get(
        asked[0].questions[variable]
    )
    if order is not None and set(order) != set(options):
        raise ConfigurationError(
            f"[sources.order] {variable} = {order} does not list its codes once each; they are "
            f"{list(options)}"
        )
    if order is None:
        doubtful = doubtful_order(list(options.values()))
        if doubtful is not None:
            notes.append(
                f"{where}: {doubtful!r} stands at an end of the scale, in the order of the codes; "
                f"if it belongs elsewhere: [sources.order] {variable} = {list(options)}"
            )
    positions = (
        {code: float(code) for code in options}
        if order is None
        else {code: float(place) for place, code in enumerate(order, start=1)}
    )
    label = next((o.file.labels.get(o.questions[variable]) for o in asked), None)
    return CatalogItem.from_labels(
        variable,
        label or "",
        options,
        positions=positions,
        topic=declared.preset.topic,
        topic_broad=declared.preset.topic_broad,
    )


def worded(declared: Declaration, item: CatalogItem, opened: list[OpenFile]) -> CatalogItem:
    """Give an item its wording: a questionnaire's, the catalog's, or the file's own label."""
    own = declared.questionnaire.get(item.variable)
    if own is None and declared.preset.prefix:
        own = declared.questionnaire.get(item.variable.removeprefix(declared.preset.prefix))
    if own:
        return item.with_text(own, f"questionnaire {Path(str(declared.source.questionnaire)).name}")
    if item.text:
        return item
    for one in opened:
        label = one.file.labels.get(one.questions.get(item.variable, ""))
        if label:
            return item.with_text(label, f"variable label of {one.name}")
    raise SourceError(
        f"{', '.join(one.name for one in opened)}: {item.variable} has no wording, neither in the "
        "catalog nor as a label of the file; give it in a CSV with columns variable and text, "
        "named with questionnaire"
    )


def few(names: Sequence[str], most: int = _MANY) -> str:
    """Return a list in words, cut where it gets long."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


@dataclass(slots=True)
class CheckedItems:
    """Items that can be used, and what speaks against the others."""

    items: list[CatalogItem] = field(default_factory=list)
    conflicts: list[LabelConflict] = field(default_factory=list)
    unconfirmed: dict[str, str] = field(default_factory=dict)
    partly: list[str] = field(default_factory=list)


def check_labels(
    declared: Declaration, items: Sequence[CatalogItem], opened: Sequence[OpenFile]
) -> CheckedItems:
    """Hold every file's labels against the catalog, and decide on unconfirmed items."""
    checked = CheckedItems()
    own = {name.casefold() for name in declared.source.confirmed}
    for item in items:
        asked = [one for one in opened if item.variable in one.questions]
        mapping, off = code_mapping(declared, item)
        found = [
            (one, file_labels(declared, one.file, one.questions[item.variable], mapping))
            for one in asked
        ]
        if item.status == "unconfirmed" and item.variable.casefold() not in own:
            reasons = [
                f"{one.name}: {why}"
                for one, labels in found
                if (why := unconfirmed(item, labels)) is not None
            ]
            if reasons:
                checked.unconfirmed[item.variable] = reasons[0]
                continue
        if item.status == "partly" and item.variable.casefold() not in own:
            checked.partly.append(item.variable)
        checked.items.append(item)
        expected = {o.code: (o.label, *o.aliases) for o in item.scale}
        for one, labels in found:
            column = one.questions[item.variable]
            checked.conflicts += compare_labels(item.variable, labels, expected, off, one.name)
            for code in mapping:
                if _declared_missing(one.file, column, code):
                    label = one.file.value_labels.get(column, {}).get(code, "")
                    checked.conflicts.append(
                        LabelConflict(item.variable, "missing", code, label, None, one.name)
                    )
    return checked


def settle(declared: Declaration, checked: CheckedItems, notes: list[str]) -> None:
    """Stop at contradicting labels, or note them, as declared."""
    lines = [conflict.message() for conflict in checked.conflicts]
    if lines and declared.source.labels == "stop":
        rest = f"\n  and {len(lines) - _MANY} more" if len(lines) > _MANY else ""
        raise SourceError(
            "labels contradict each other:\n  "
            + "\n  ".join(lines[:_MANY])
            + rest
            + "\nCheck them in the codebook. Then leave the question out with variables, declare "
            'reverse = ["…"] for a scale that runs the other way, write a catalog of your own, or '
            'accept all of them with labels = "flag"'
        )
    notes.extend(lines)
    where = declared.source.preset
    if checked.unconfirmed:
        notes.append(
            f"{where}: codes neither confirmed by the catalog nor by the file's labels, left out: "
            f"{few(list(checked.unconfirmed))}; confirmed = […] takes those you checked"
        )
    if checked.partly:
        notes.append(f"{where}: codes known from sister questions only: {few(checked.partly)}")


def coding_of(declared: Declaration, item: CatalogItem, file: SurveyFile, column: str) -> Coding:
    """Return what the codes of a column mean."""
    mapping, off = code_mapping(declared, item)
    aliases = {o.code: (o.label, *o.aliases) for o in item.options if o.off_scale}
    return Coding(
        options=mapping,
        names={o.code: (o.label, *o.aliases) for o in item.scale},
        off_scale={code: aliases.get(code, (label,)) for code, label in off.items()},
        labels=file.value_labels.get(column, {}),
        user_missing=file.user_missing.get(column, ()),
        missing=declared.missing,
    )
