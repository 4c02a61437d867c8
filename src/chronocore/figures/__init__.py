"""Scored study -> the figures of the paper, of the study's own data, one column wide."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from chronocore.errors import ConfigurationError, MissingDependencyError
from chronocore.results import load_results
from chronocore.store import Study

__all__ = ["FORMATS", "NAMES", "FiguresResult", "chosen", "figures", "require"]

FORMATS = ("svg", "png", "pdf")

#: Every figure. The numbers are those of the figures in the ChronoCulture paper; the last two
#: have none there.
NAMES = (*(f"fig{number:02}" for number in range(1, 19)), "human_shift", "default_year")


@dataclass(frozen=True, slots=True)
class FiguresResult:
    """What :func:`figures` wrote.

    Attributes
    ----------
    files : dict of str to list of Path
        By name of the figure.
    captions : dict of str to str
    omitted : dict of str to str
        Figures that could not be drawn from this study, and why.
    """

    files: dict[str, list[Path]]
    captions: dict[str, str]
    omitted: dict[str, str]


def require(*names: str) -> None:
    """Refuse to go on without packages that draw.

    Raises
    ------
    MissingDependencyError
    ConfigurationError
        Python was told to drop docstrings, from which the drawing library makes its classes.
    """
    if sys.flags.optimize >= 2:
        raise ConfigurationError(
            "figures cannot be drawn without docstrings, which python -OO and PYTHONOPTIMIZE=2 "
            "drop; unset PYTHONOPTIMIZE, or set it to 1, and run the command again"
        )
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"figures and report need {', '.join(missing)}; run: pip install 'chronocore[report]'"
        )


def figures(
    study: str | Path | Study,
    names: str | Sequence[str] | None = None,
    *,
    formats: str | Sequence[str] = FORMATS,
    run: str | None = None,
) -> FiguresResult:
    """Draw the figures of a scored study into its folder ``figures/``.

    Every figure is 85 mm wide, one column of a paper, and tells models apart by colour and shape.
    A figure whose input the study does not have is left out, with a sentence why.

    Parameters
    ----------
    study : path or Study
    names : str or sequence of str, optional
        Some of :data:`NAMES`; by default all.
    formats : str or sequence of str
        ``svg``, ``png`` (300 dots an inch) and ``pdf``.
    run : str, optional
        Label of the run that figures about one run show; by default the first evaluated one.

    Returns
    -------
    FiguresResult

    Raises
    ------
    ConfigurationError
        A name or format is not known, or no evaluated run has this label.
    StudyError
        The study was not scored yet.
    MissingDependencyError
        The extra ``chronocore[report]`` is not installed.

    Notes
    -----
    The figures of ChronoCulture (Saha et al., 2026) in a design of their own. Examples are chosen
    by rules that the captions state.
    """
    wanted = chosen(names if names is not None else NAMES, NAMES, "figure")
    forms = chosen(formats, FORMATS, "format")
    opened = study if isinstance(study, Study) else Study.open(study)
    results = load_results(opened)
    require("altair", "vl_convert")
    from chronocore.figures.draw import draw

    gallery = draw(results, wanted, run)
    files = {
        name: [opened.write(f"figures/{name}.{form}", figure.file(form)) for form in forms]
        for name, figure in gallery.figures.items()
    }
    opened.remove_strays()
    return FiguresResult(
        files=files,
        captions={name: figure.caption for name, figure in gallery.figures.items()},
        omitted={one.name: one.why for one in gallery.omitted},
    )


def chosen(given: str | Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """Return names without repetition.

    Raises
    ------
    ConfigurationError
        One is not known.
    """
    wanted = [given] if isinstance(given, str) else list(dict.fromkeys(given))
    for name in wanted:
        if name not in known:
            raise ConfigurationError(
                f"there is no {what} {name!r}; known {what}s: {', '.join(known)}"
            )
    return wanted
