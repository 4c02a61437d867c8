"""The sections of results on the page, one module a section.

Every module here with an ``ORDER`` and a function ``section`` is shown, sorted by ``ORDER``: a new
section is a new module, and nothing else changes. ``section(results)`` returns None where the
study has nothing to show.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from chronocore.results import Cell, Results
from chronocore.tables import number

if TYPE_CHECKING:
    from chronocore.figures.draw import Figure

__all__ = ["Listing", "Section", "Sentence", "filled", "sections", "spread"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something a section says.

    Attributes
    ----------
    text : str
        Plain text; the page escapes it.
    sources : tuple of str
        The tables or files every number of it is read from.
    """

    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A table that is none of the study's result tables, as it stands on the page.

    Attributes
    ----------
    name, title, note : str
    heads : tuple of (str, bool)
        Headings, and whether their column holds numbers.
    rows : tuple of tuple of str
    folded : bool
    """

    name: str
    title: str
    note: str
    heads: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A section of results.

    Attributes
    ----------
    anchor : str
        Short and unique; the target of links.
    heading, text : str
        The introduction says what is asked and how to read the answer.
    tag : str
        Name in the navigation.
    sentences : tuple of Sentence
        What the numbers say.
    figures, tables : tuple of str
        By name; those that the study does not have are left out.
    drawn : tuple of Figure
        Figures of the section's own; ``figures`` names those it shows.
    listings : tuple of Listing
        Tables of the section's own.
    """

    anchor: str
    tag: str
    heading: str
    text: str
    sentences: tuple[Sentence, ...] = ()
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    drawn: tuple[Figure, ...] = ()
    listings: tuple[Listing, ...] = ()


def filled(results: Results, *names: str) -> tuple[str, ...]:
    """Return those tables that the study has and that hold a number."""
    return tuple(
        name
        for name in names
        if name in results.tables
        and results.tables[name].num_rows > results.tables[name]["estimate"].null_count
    )


def spread(
    results: Results,
    what: str,
    unit: str,
    table: str,
    group: str,
    measure: str,
    item: str | None = None,
    suffix: str = "",
) -> Sentence | None:
    """Say how a measure differs between several runs: the lowest and the highest, with intervals.

    Parameters
    ----------
    results : Results
    what : str
        The measure in words, as the beginning of a sentence.
    unit : str
        As in the table.
    table, group, measure, item
        Where the cells are.
    suffix : str
        Behind the numbers.
    """
    cells = [
        (cell.estimate, run.label, cell)
        for run in results.evaluated
        if (cell := results.cell(table, run, group, measure, item)).estimate is not None
    ]
    if len(cells) < 2:
        return None

    def told(entry: tuple[float | None, str, Cell]) -> str:
        estimate, label, cell = entry
        text = f"{number(estimate, unit)}{suffix}"
        if cell.low is not None:
            text += f" [{number(cell.low, unit)}, {number(cell.high, unit)}]"
        return f"{text} ({label}, n = {cell.n:,})"

    ordered = sorted(cells, key=lambda entry: (entry[0], entry[1]))
    return Sentence(
        f"{what}: from {told(ordered[0])} to {told(ordered[-1])} over {len(cells)} runs.", (table,)
    )


def sections(results: Results) -> list[Section]:
    """Return the sections of a study's page in their order."""
    modules = [
        import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
    ]
    found = [
        module.section(results) for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__))
    ]
    return [one for one in found if one is not None]
