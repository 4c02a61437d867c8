"""Robustness: thresholds, filter, wording and chance."""

from __future__ import annotations

from chronocore.report.sections import Section, filled
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 60


def section(results: Results) -> Section | None:
    """Return the section, where its tables are there."""
    shown = filled(
        results, "t21", "t22", "t23", "t24", "t25", "t07", "t26", "t27", "instructions", "repeats",
    )  # fmt: skip
    if not shown:
        return None
    return Section(
        anchor="robustness",
        tag="Robustness",
        heading="Do the findings depend on our choices?",
        text=(
            "The same measures under tighter and looser boundaries of the shift classes, and at "
            "other levels of the knowledge filter; and, where they were run, under other "
            "instructions and in repeated runs."
        ),
        tables=shown,
    )
