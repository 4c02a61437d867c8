"""Validity results -> figures and one HTML page that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chronocore.errors import StudyError
from chronocore.figures import FORMATS, require
from chronocore.schema import chronocore_version
from chronocore.storage import location
from chronocore.store import page_path, write_atomic
from chronocore.validity.design import load_design

if TYPE_CHECKING:
    from chronocore.figures.draw import Figure
    from chronocore.report.sections import Section

__all__ = ["figures", "report"]


def _section(folder: Path) -> Section:
    require("altair", "vl_convert", "jinja2")
    from chronocore.report.sections.validity import section_of

    found = section_of(folder)
    if found is None:
        raise StudyError(f"{folder} has no results yet; run: chronocore validity score {folder}")
    return found


def figures(folder: str | Path) -> list[Path]:
    """Write the figures of a folder as SVG, PNG and PDF and return their paths.

    Raises
    ------
    StudyError
        There are no results yet.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.
    """
    place = location(folder)
    return _write(place, _section(place).drawn)


def _write(place: Path, drawn: Sequence[Figure]) -> list[Path]:
    written = []
    for figure in drawn:
        for form in FORMATS:
            path = place / "figures" / f"{figure.name}.{form}"
            write_atomic(path, figure.file(form))
            written.append(path)
    return written


def report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the figures and the page of a folder.

    Parameters
    ----------
    folder : path
    path : path, optional
        By default ``validity/report.html`` in the folder. It may replace a page, and nothing else.

    Returns
    -------
    Path
        The page: sentences, figures and tables, with nothing from a network.

    Raises
    ------
    StudyError
        There are no results yet.
    ConfigurationError
        The file exists and is no page.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.
    """
    place = location(folder)
    if not (place / "validity").is_dir():
        load_design(place)  # says what is missing
    target = page_path(place / "validity" / "report.html" if path is None else path, place)
    found = _section(place)
    _write(place, found.drawn)
    write_atomic(target, _page(place, found).encode())
    return target


def _page(place: Path, found: Section) -> str:
    import jinja2
    from markupsafe import Markup

    from chronocore.figures.svg import COLOURS

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("chronocore.validity", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    light, dark = (
        " ".join(f"--fig-{name}: {pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1)
    )
    return environment.get_template("page.html.jinja").render(
        study=place.resolve().name,
        version=chronocore_version(),
        section=found,
        light=light,
        dark=dark,
        svg=Markup,
    )
