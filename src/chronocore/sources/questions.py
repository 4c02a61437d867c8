"""Which questions a file asks, and whether its labels are what they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from chronocore.errors import ConfigurationError, SourceError
from chronocore.sources.answers import Coding
from chronocore.sources.catalog import CatalogItem
from chronocore.sources.declaration import Declaration, OpenFile
from chronocore.sources.files import SurveyFile, near
from chronocore.sources.labels import (
    LabelConflict,
    clean_labels,
    compare_labels,
    same_label,
    says_nothing,
    unconfirmed,
)
from chronocore.sources.nonresponse import missing_reason
from chronocore.sources.presets import LETTERS, VALID
from chronocore.sources.scale import LARGEST_CODE, Asked, Scale, scale_from_labels

__all__ = [
    "CheckedItems",
    "beside",
    "catalog_columns",
    "catalog_order",
    "check_labels",
    "code_mapping",
    "coding_of",
    "doubt_lines",
    "few",
    "file_labels",
    "find_questions",
    "items_from_labels",
    "named_questions",
    "settle",
    "text_advice",
    "text_labels",
    "unsettled",
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
    if item.variable in declared.reverse:
        mirror = dict(zip(scale, reversed(scale), strict=True))
        mapping = {file: mirror[code] for file, code in mapping.items()}
    return mapping, off


def file_labels(
    declared: Declaration, file: SurveyFile, column: str, mapping: Mapping[int, int]
) -> dict[int, str]:
    """Return a file's labels by the code an answer gets, without those of missing answers."""
    found: dict[int, str] = {}
    for code, label in clean_labels(file.value_labels.get(column, {})).items():
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
        or code > LARGEST_CODE
        or _declared_missing(file, column, code)
        or declared.missing.own(code) not in (None, VALID)
        or (says_nothing(label) and declared.missing.habit(code) is not None)
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
    by_name = {item.variable.casefold(): item for item in (*declared.catalog, *declared.indices)}
    for variable in declared.source.variables:
        item = by_name.get(variable.casefold())
        if item is not None and item.nominal:
            raise ConfigurationError(
                f"[[sources]] {declared.source.preset}: the options of {item.variable} have no "
                "order, so it is no question of a study; leave it out of variables"
            )
    unknown = [v for v in declared.source.variables if v.casefold() not in by_name]
    if unknown:
        known = [item.variable for item in declared.catalog]
        raise ConfigurationError(
            f"[[sources]] {declared.source.preset}: the catalog has no question "
            f"{', '.join(unknown)}{near(unknown[0], known)}; a catalog of your own is named with "
            "items"
        )
    wanted = {v.casefold() for v in declared.source.variables}
    return [item for key, item in by_name.items() if key in wanted]


def beside(
    declared: Declaration, items: Sequence[CatalogItem], opened: list[OpenFile], notes: list[str]
) -> list[CatalogItem]:
    """Find the indices that files have beside the questions, such as those of a cultural map.

    One whose labels contradict the catalog is left out with a note: it is not asked for, and
    must not stop what is.
    """
    asked = {item.variable for item in items}
    found: list[CatalogItem] = []
    for item in declared.indices:
        if item.variable in asked:
            continue
        for one in opened:
            column = one.file.first(catalog_columns(declared, item))
            if column is not None:
                one.questions[item.variable] = column
        having = [one for one in opened if item.variable in one.questions]
        conflicts = check_labels(declared, [item], having).conflicts
        if conflicts:
            for one in having:
                del one.questions[item.variable]
            notes.append(f"{conflicts[0].message()}; the index {item.variable} is not read")
        elif having:
            found.append(item)
    return found


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
        return _find_named(declared, opened, notes)
    items: list[CatalogItem] = []
    absent: list[str] = []
    for item in wanted_items(declared):
        present = False
        for one in opened:
            found = one.file.first(catalog_columns(declared, item), guessed=True)
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


def _find_named(declared: Declaration, opened: list[OpenFile], notes: list[str]) -> list[str]:
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
            alike = [c for c in one.file.columns if c.casefold() == (found or "").casefold()]
            if len(alike) > 1:
                notes.append(
                    f"{one.name} has the columns {' and '.join(alike)}; {found} is used, as written"
                )
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


def named_questions(
    declared: Declaration, variables: Sequence[str], opened: Sequence[OpenFile]
) -> Declaration:
    """Take the names in ``order``, ``reverse`` and ``confirmed`` for the questions they name.

    Raises
    ------
    ConfigurationError
        A name is that of no question of the source, or a setting cannot act on it.
    """
    known: dict[str, str] = {}
    for variable in variables:
        columns = [one.questions[variable] for one in opened if variable in one.questions]
        bare = variable.removeprefix(declared.preset.prefix)
        for name in (variable, bare, *columns):
            known.setdefault(name.casefold(), variable)
    where = f"[[sources]] {declared.source.preset}"

    def variable_of(name: str, setting: str) -> str:
        found = known.get(name.casefold())
        if found is None:
            raise ConfigurationError(
                f"{where}: {setting} names {name}, which is no question of this source"
                f"{near(name, list(variables))}"
            )
        return found

    source = declared.source
    order: dict[str, list[int]] = {}
    for name, codes in source.order.items():
        variable = variable_of(name, "order")
        if variable in order:
            raise ConfigurationError(f"{where}: order names {variable} twice")
        order[variable] = codes
    reverse = frozenset(variable_of(name, "reverse") for name in source.reverse)
    if reverse and declared.catalog is None:
        raise ConfigurationError(
            f"{where}: reverse turns the codes of a file to those of an item catalog, and the "
            f"scale of {', '.join(sorted(reverse))} comes from the file's labels; give its codes "
            "in the order of the scale: [sources.order]"
        )
    confirmed = frozenset(variable_of(name, "confirmed") for name in source.confirmed)
    return replace(declared, order=order, reverse=reverse, confirmed=confirmed)


def catalog_order(declared: Declaration, items: Sequence[CatalogItem]) -> list[CatalogItem]:
    """Give catalog items the order that the source declares.

    Raises
    ------
    ConfigurationError
        A declared order does not list the codes of its question once each.
    """
    return [
        item.in_order(_order(declared, item.variable, {o.code for o in item.scale}, ()))
        if item.variable in declared.order
        else item
        for item in items
    ]


def _order(
    declared: Declaration, variable: str, certain: Set[int], possible: Iterable[int]
) -> list[int]:
    order = declared.order[variable]
    codes = set(order)
    if len(codes) < len(order) or not certain <= codes or not codes <= {*certain, *possible}:
        others = sorted(set(possible) - certain)
        maybe = f", and may be {', '.join(map(str, others))}" if others else ""
        for code in sorted(codes - certain - set(others)):
            why = declared.missing.own(code)
            if why not in (None, VALID):
                maybe += f"; [sources.missing] says that {code} is {why!r}"
        raise ConfigurationError(
            f"[sources.order] {variable} = {order} does not list its codes once each; they are "
            f"{sorted(certain)}{maybe}"
        )
    if len(order) < 2:
        raise ConfigurationError(f"[sources.order] {variable} = {order} has fewer than two codes")
    return order


def items_from_labels(
    declared: Declaration,
    variables: Sequence[str],
    opened: Sequence[OpenFile],
    codes: Sequence[Mapping[str, Mapping[int, int]]],
    notes: list[str],
) -> list[CatalogItem]:
    """Make items of questions from the value labels of the files that ask them.

    ``codes`` has, for each file, how many rows have each code, by variable.

    Raises
    ------
    SourceError
        The labels of a question name fewer than two options, or its scale is in doubt and not
        confirmed.
    ConfigurationError
        The declared order is not one of its codes.
    """
    items: list[CatalogItem] = []
    doubtful: list[str] = []
    evidence: dict[str, list[str]] = {}
    # Codes below 0 mean non-response everywhere but in an index, whose scale is known.
    indices = {item.variable: item for item in declared.indices if not item.nominal}
    for variable in variables:
        if variable in indices and variable not in {*declared.confirmed, *declared.order}:
            items.append(indices[variable])
            continue
        asked = [
            Asked(one.file, one.questions[variable], found[variable])
            for one, found in zip(opened, codes, strict=True)
            if variable in one.questions
        ]
        scale = scale_from_labels(
            asked, declared.missing, frozenset(declared.order.get(variable, ()))
        )
        item = _item_from_scale(declared, variable, scale, asked)
        items.append(item)
        lines = list(scale.evidence)
        if variable in declared.confirmed or variable in declared.order:
            lines += [f"{doubt} (settled by the settings)" for doubt in scale.doubts]
        elif scale.doubts:
            doubtful.append(doubt_lines(variable, scale))
        for line in lines:
            evidence.setdefault(line, []).append(variable)
    where = ", ".join(one.name for one in opened)
    if doubtful:
        raise SourceError(unsettled(where, doubtful))
    notes.extend(f"{where}: {line}: {few(names)}" for line, names in evidence.items())
    return items


def doubt_lines(variable: str, scale: Scale) -> str:
    """Return the doubts about a scale, and what is taken if they are confirmed."""
    return "\n".join(
        [f"  {variable}: {doubt}" for doubt in scale.doubts]
        + [f"    the scale would be {scale.shown()}"]
    )


def unsettled(where: str, doubtful: Sequence[str]) -> str:
    """Return what to say about scales in doubt, and how to settle them."""
    rest = f"\n  and {len(doubtful) - _MANY} more questions" if len(doubtful) > _MANY else ""
    return (
        f"{where}: these scales are in doubt:\n"
        + "\n".join(doubtful[:_MANY])
        + rest
        + '\nCheck them in the codebook. Then, in [[sources]], confirmed = ["…"] takes a question '
        "as it is shown, [sources.order] QUESTION = [1, 2, …] lists the codes of its scale, "
        "[sources.missing] says which codes are no answers; or list its options in an item catalog "
        "(items), or leave it out of variables"
    )


def _item_from_scale(
    declared: Declaration, variable: str, scale: Scale, asked: Sequence[Asked]
) -> CatalogItem:
    where = f"{', '.join(one.file.name for one in asked)}, {variable}"
    texts = {t: label for one in asked for t, label in text_labels(one.file, one.column).items()}
    if variable in declared.order:
        order = _order(declared, variable, scale.certain, scale.possible)
        scale.options = {code: scale.possible[code] for code in order}
        positions = {code: float(place) for place, code in enumerate(order, start=1)}
    else:
        positions = {code: float(code) for code in scale.options}
    if len(scale.options) < 2:
        if texts:
            raise SourceError(f"{where}: {text_advice(variable, texts)}")
        has = f"one labelled option, {scale.options}" if scale.options else "no value labels"
        why = "".join(f"; {line}" for line in [*scale.doubts, *scale.evidence])
        raise SourceError(
            f"{where} has {has}; list its options in an item catalog and name it with items, or "
            f"leave the question out{why}"
        )
    label = next((one.file.labels.get(one.column) for one in asked), None)
    return CatalogItem.from_labels(
        variable,
        label or "",
        scale.options,
        positions=positions,
        aside=scale.aside,
        topic=declared.preset.topic,
        topic_broad=declared.preset.topic_broad,
    )


def text_labels(file: SurveyFile, column: str) -> dict[str, str]:
    """Return the labels of a column that holds text in place of codes."""
    return file.text_labels.get(column, {})


def text_advice(variable: str, texts: Mapping[str, str]) -> str:
    """Return what to do about a question whose answers are stored as text."""
    shown = few([f"{value!r} {label!r}" for value, label in texts.items()], 6)
    rows = "; ".join(
        f"{variable},{number},{label},{value}"
        for number, (value, label) in enumerate(texts.items(), start=1)
        if missing_reason(label) is None
    )
    return (
        f"its answers are stored as text ({shown}); list its options in an item catalog, with "
        f"the texts as aliases, and name it with items: variable,code,label,aliases; {rows}"
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
    for item in items:
        asked = [one for one in opened if item.variable in one.questions]
        mapping, off = code_mapping(declared, item)
        found = [
            (one, file_labels(declared, one.file, one.questions[item.variable], mapping))
            for one in asked
        ]
        if item.status == "unconfirmed" and item.variable not in declared.confirmed:
            reasons = [
                f"{one.name}: {why}"
                for one, labels in found
                if (why := unconfirmed(item, labels)) is not None
            ]
            if reasons:
                checked.unconfirmed[item.variable] = reasons[0]
                continue
        if item.status == "partly" and item.variable not in declared.confirmed:
            checked.partly.append(item.variable)
        checked.items.append(item)
        expected = {o.code: (o.label, *o.aliases) for o in item.scale}
        for one, labels in found:
            column = one.questions[item.variable]
            checked.conflicts += compare_labels(item.variable, labels, expected, off, one.name)
            for code in mapping:
                # What the user takes for an answer goes before the file.
                listed = declared.catalog is None and code in declared.order.get(item.variable, ())
                if listed or declared.missing.own(code) == VALID:
                    continue
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


def _lettered(item: CatalogItem, labels: Mapping[int, str]) -> dict[int, int]:
    """Return the options below 0 that a file holds as Stata's letters, told by their labels.

    Merges of the value surveys turn -1 to -5 into ``.a`` to ``.e`` in every column, also where -1
    and -2 are answers.
    """
    found: dict[int, int] = {}
    for option in item.scale:
        if not -len(LETTERS) <= option.code < 0:
            continue
        letter = list(LETTERS.values())[-option.code - 1]
        label = labels.get(letter)
        if label is not None and any(
            same_label(label, name) for name in (option.label, *option.aliases)
        ):
            found[letter] = option.code
    return found


def coding_of(declared: Declaration, item: CatalogItem, file: SurveyFile, column: str) -> Coding:
    """Return what the codes of a column mean."""
    mapping, off = code_mapping(declared, item)
    aliases = {o.code: (o.label, *o.aliases) for o in item.options if o.off_scale}
    return Coding(
        options={**mapping, **_lettered(item, file.value_labels.get(column, {}))},
        names={o.code: (o.label, *o.aliases) for o in item.scale},
        off_scale={code: aliases.get(code, (label,)) for code, label in off.items()},
        labels=clean_labels(file.value_labels.get(column, {})),
        user_missing=file.user_missing.get(column, ()),
        missing=declared.missing,
        listed=frozenset(declared.order.get(item.variable, ()) if declared.catalog is None else ()),
        table_first=declared.preset.items != "labels",
        texts=file.text_labels.get(column, {}),
    )
