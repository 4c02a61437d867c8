"""Scored study -> the findings in words, the figures and one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chronocore.figures import FORMATS, chosen, require
from chronocore.report.findings import LEGEND, Finding, findings
from chronocore.results import load_results
from chronocore.store import Study, page_path, write_atomic

__all__ = ["LEGEND", "Finding", "findings", "report"]


def report(
    study: str | Path | Study,
    path: str | Path | None = None,
    *,
    formats: Sequence[str] = FORMATS,
    run: str | None = None,
) -> Path:
    """Write the report of a scored study: one HTML file, and its figures beside the tables.

    The file holds everything it shows and asks for nothing from a network. The figures are
    written to ``figures/`` of the study as well.

    Parameters
    ----------
    study : path or Study
    path : path, optional
        The HTML file; by default ``report.html`` in the study. It may replace a page, and nothing
        else.
    formats : sequence of str
        Of the figures' files: ``svg``, ``png``, ``pdf``; none for no files.
    run : str, optional
        Label of the run that figures about one run show; by default the first evaluated one.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    StudyError
        The study was not scored yet.
    ConfigurationError
        A format is not known, no evaluated run has this label, or the file exists and is no page.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.
    StorageError
        The file cannot be written.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    target = page_path(opened.path / "report.html" if path is None else path, opened.path)
    results = load_results(opened)
    forms = chosen(formats, FORMATS, "format")
    require("altair", "vl_convert", "jinja2")
    from chronocore.figures.draw import draw
    from chronocore.report.page import page
    from chronocore.report.sections import sections

    gallery = draw(results, run=run)
    shown = sections(results)
    gallery.figures.update({figure.name: figure for one in shown for figure in one.drawn})
    for figure in gallery.figures.values():
        for form in forms:
            opened.write(f"figures/{figure.name}.{form}", figure.file(form))
    # A path that is no text, as Linux allows, may stand in the commands that the page names.
    content = page(results, gallery, shown).encode(errors="backslashreplace")
    write_atomic(target, content)
    opened.remove_strays()
    return target
