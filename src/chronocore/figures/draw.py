"""Figures of a study -> drawings for files and pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import altair as alt
import vl_convert

from chronocore.figures import NAMES, examples, measures
from chronocore.figures.marks import Spec, config
from chronocore.figures.sheet import Builder, Omitted, Sheet
from chronocore.figures.svg import for_file, for_page
from chronocore.results import Results

__all__ = ["BUILDERS", "Figure", "Gallery", "draw", "render"]

#: The function that draws each figure.
BUILDERS: Mapping[str, Builder] = MappingProxyType(
    dict(
        zip(
            NAMES,
            (
                examples.limited_sensitivity,
                examples.pipeline,
                examples.example_pair,
                examples.changed_mode,
                measures.accuracy,
                measures.alignment,
                measures.change,
                measures.benefit,
                examples.prompt_example,
                examples.modal_prompt,
                measures.nearest_distance,
                measures.errors,
                measures.topics,
                measures.regions,
                measures.human_and_model_shift,
                examples.four_patterns,
                examples.cumulative_curves,
                measures.naming_outcomes,
                measures.human_shift,
                measures.default_year,
            ),
            strict=True,
        )
    )
)

#: Pixels of a PNG for one of the drawing: 300 dots an inch of print.
PNG_SCALE = 3.125

#: Points of a PDF for one pixel of the drawing: 85 mm in width.
PDF_SCALE = 0.75


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn figure.

    Attributes
    ----------
    name, title, caption : str
    description : str
        Alternative text: what the figure shows, with its main numbers.
    sources : tuple of str
        Files of the study, with columns or measures, that hold every number drawn.
    drawing : str
        SVG as the renderer made it.
    narrow : str, optional
        The same in another layout, where ``drawing`` is wider than a column; a page shows the one
        that fits.
    """

    name: str
    title: str
    caption: str
    description: str
    sources: tuple[str, ...]
    drawing: str
    narrow: str | None = None

    def file(self, form: str) -> bytes:
        """Return the figure as a file in light colours: ``svg``, ``png`` or ``pdf``."""
        svg = for_file(self.drawing, self.description)
        if form == "svg":
            return svg
        if form == "png":
            png: bytes = vl_convert.svg_to_png(svg.decode(), scale=PNG_SCALE)
            return png
        # A PDF has one point a pixel.
        points = re.sub(
            r'(?<= )(width|height)="([\d.]+)"',
            lambda match: f'{match[1]}="{PDF_SCALE * float(match[2]):.2f}"',
            svg.decode(),
            count=2,
        )
        pdf: bytes = vl_convert.svg_to_pdf(points)
        return pdf

    def inline(self) -> str:
        """Return the figure for a page, coloured by the page's variables."""
        drawing = for_page(self.drawing, self.description, f"{self.name}-")
        if self.narrow is None:
            return drawing
        narrow = for_page(self.narrow, self.description, f"{self.name}-n-")
        return f'<div class="wide">{drawing}</div><div class="narrow">{narrow}</div>'


@dataclass(frozen=True, slots=True)
class Gallery:
    """The figures of a study.

    Attributes
    ----------
    figures : dict of str to Figure
    omitted : list of Omitted
        What could not be drawn, and why.
    """

    figures: dict[str, Figure]
    omitted: list[Omitted]


def _title(builder: Builder) -> str:
    """Return what a figure would show: its docstring without the number."""
    text = (builder.__doc__ or "").strip().splitlines()[0].rstrip(".")
    text = re.sub(r"^Figure \d+: ", "", text)
    return text[0].upper() + text[1:]


def render(spec: Spec) -> str:
    """Return a specification as SVG, with what all figures share."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawing: str = vl_convert.vegalite_to_svg(spec | {"config": config()}, vl_version=version)
    return drawing


def draw(results: Results, names: Sequence[str] | None = None, run: str | None = None) -> Gallery:
    """Draw figures of a study.

    Parameters
    ----------
    results : Results
    names : sequence of str, optional
        By default all of :data:`chronocore.figures.NAMES`.
    run : str, optional
        Label of the run that figures about one run show; by default the first.
    """
    sheet = Sheet(results, run)
    gallery = Gallery({}, [])
    for name in names or NAMES:
        made = BUILDERS[name](sheet)
        if isinstance(made, str):
            gallery.omitted.append(Omitted(name, _title(BUILDERS[name]), made))
            continue
        gallery.figures[name] = Figure(
            name=name,
            title=made.title,
            caption=made.caption,
            description=made.description,
            sources=made.sources,
            drawing=render(made.spec),
        )
    return gallery
