"""RF1: accuracy of both years, and alignment."""

from __future__ import annotations

from chronocore.report.sections import Section, filled, spread
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 10


def section(results: Results) -> Section | None:
    """Return the section."""
    return Section(
        anchor="rf1",
        tag="RF1",
        heading="RF1: Are both years predicted, and kept apart?",
        text=(
            "A prediction is accurate when its distance to the survey is at most the tolerance. "
            "Accuracy alone does not show whether a prediction belongs to its own year, so each is "
            "also compared with the survey of the other year."
        ),
        sentences=tuple(
            one
            for one in (
                spread(
                    results,
                    "Both years accurate",
                    "%",
                    "t08",
                    "all",
                    "both",
                    suffix="%",
                ),
                spread(
                    results,
                    "Each prediction nearest to its own year's survey, shifted pairs",
                    "%",
                    "t10",
                    "all_shifted",
                    "separated",
                    suffix="%",
                ),
            )
            if one is not None
        ),
        figures=("fig05", "fig06", "fig12"),
        tables=filled(results, "t08", "t09", "t10"),
    )
