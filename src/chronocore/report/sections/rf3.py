"""RF3: the default year, and naming a year."""

from __future__ import annotations

from chronocore.report.sections import Section, filled
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
        figures=("fig08", "fig18", "default_year"),
        tables=filled(results, "t15", "t16", "t17", "t18", "t19", "t20"),
    )
