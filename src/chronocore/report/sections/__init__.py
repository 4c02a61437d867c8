"""The sections of results on the page, one module a section.

Every module here with an ``ORDER`` and a function ``section`` is shown, sorted by ``ORDER``: a new
section is a new module, and nothing else changes. ``section(results)`` returns None where the
study has nothing to show.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module

from chronocore.results import Results

__all__ = ["Section", "Sentence", "filled", "sections"]


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
    """

    anchor: str
    tag: str
    heading: str
    text: str
    sentences: tuple[Sentence, ...] = ()
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def filled(results: Results, *names: str) -> tuple[str, ...]:
    """Return those tables that the study has and that hold a number."""
    return tuple(
        name
        for name in names
        if name in results.tables
        and results.tables[name].num_rows > results.tables[name]["estimate"].null_count
    )


def sections(results: Results) -> list[Section]:
    """Return the sections of a study's page in their order."""
    modules = [
        import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
    ]
    found = [
        module.section(results)
        for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__))
    ]
    return [one for one in found if one is not None]
