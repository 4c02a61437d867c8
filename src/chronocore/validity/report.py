"""Validity results -> figures and one HTML page that opens offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chronocore.errors import MissingDependencyError, StudyError
from chronocore.schema import chronocore_version
from chronocore.storage import location
from chronocore.store import write_atomic

__all__ = ["figures", "report"]

_NEEDED = ("altair", "vl_convert", "jinja2")


def _section(folder: Path) -> Any:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"figures need {', '.join(missing)}; run: pip install 'chronocore[report]'"
        )
    from chronocore.validity.section import section

    found = section(folder)
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
    return _write(place, _section(place).figures)


def _write(place: Path, drawn: Any) -> list[Path]:
    written = []
    for figure in drawn:
        for form in ("svg", "png", "pdf"):
            path = place / "figures" / f"{figure.name}.{form}"
            write_atomic(path, getattr(figure, form))
            written.append(path)
    return written


def report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the figures and the page of a folder.

    Parameters
    ----------
    folder : path
    path : path, optional
        By default ``validity/report.html`` in the folder.

    Returns
    -------
    Path
        The page: sentences, figures and tables, with nothing from a network.

    Raises
    ------
    StudyError
        There are no results yet.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.
    """
    place = location(folder)
    found = _section(place)
    _write(place, found.figures)
    target = Path(path) if path is not None else place / "validity" / "report.html"
    write_atomic(target, _page(place, found).encode())
    return target


def _page(place: Path, found: Any) -> str:
    import jinja2
    from markupsafe import Markup

    from chronocore.figures.svg import COLOURS
    from chronocore.validity.tables import cell

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("chronocore.validity", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    lines = []
    for table in found.tables:
        fields = table.table.schema
        lines.append(
            {
                "name": table.name,
                "title": table.title,
                "note": table.note,
                "heads": list(zip(table.heads.values(), map(_right, fields), strict=True)),
                "rows": [
                    [(cell(f.name, row[f.name]), _right(f)) for f in fields]
                    for row in table.table.to_pylist()
                ],
            }
        )
    light, dark = (
        " ".join(f"--fig-{name}: {pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1)
    )
    return environment.get_template("page.html.jinja").render(
        study=place.resolve().name,
        version=chronocore_version(),
        section=found,
        tables=lines,
        light=light,
        dark=dark,
        svg=Markup,
    )


def _right(field: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
