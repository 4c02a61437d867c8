"""Scored study -> the findings in words, the figures and one HTML file that opens offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from chronocore.errors import MissingDependencyError
from chronocore.report.findings import LEGEND, Finding, findings
from chronocore.report.results import load_results
from chronocore.store import Study, write_atomic

__all__ = ["LEGEND", "Finding", "findings", "report"]

_NEEDED = ("altair", "vl_convert", "jinja2")


def _require() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the report needs {', '.join(missing)}; run: pip install 'chronocore[report]'"
        )


def report(study: str | Path | Study, path: str | Path | None = None) -> Path:
    """Write the report of a scored study: one HTML file, and its figures beside the tables.

    The file holds everything it shows and asks for nothing from a network. The figures are
    written to ``figures/`` of the study as SVG and PNG as well.

    Parameters
    ----------
    study : path or Study
    path : path, optional
        The HTML file; by default ``report.html`` in the study.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    StudyError
        The study was not scored yet.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.
    StorageError
        The file cannot be written.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    results = load_results(opened)
    _require()
    from chronocore.report.figures import draw
    from chronocore.report.page import page

    figures = draw(results)
    for figure in figures:
        opened.write(f"figures/{figure.name}.svg", figure.svg)
        opened.write(f"figures/{figure.name}.png", figure.png)
    content = page(results, figures).encode()
    if path is None:
        return opened.write("report.html", content)
    target = Path(path)
    write_atomic(target, content)
    return target
