"""RF3: the default year, and naming a year."""

from __future__ import annotations

from chronocore.report.sections import Section, filled, spread
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 30


def section(results: Results) -> Section | None:
    """Return the section."""
    return Section(
        anchor="rf3",
        tag="RF3",
        heading="RF3: Does naming the year help?",
        text=(
            "The same question is asked without a year. Which survey is that answer nearest to, "
            "and does an answer get nearer to a survey when its year is named?"
        ),
        sentences=tuple(
            one
            for one in (
                spread(
                    results,
                    "Undated prediction nearest to the newest survey",
                    "%",
                    "t16",
                    "all",
                    "newest",
                    "observed",
                    suffix="%",
                ),
                spread(
                    results,
                    "Mean benefit of naming the older year, W × 100",
                    "W x 100",
                    "t17",
                    "all",
                    "mean_benefit",
                    "older",
                ),
                spread(
                    results,
                    "Mean benefit of naming the newer year, W × 100",
                    "W x 100",
                    "t17",
                    "all",
                    "mean_benefit",
                    "newer",
                ),
            )
            if one is not None
        ),
        figures=("fig08", "fig18", "default_year"),
        tables=filled(results, "t15", "t16", "t17", "t18", "t19", "t20"),
    )
