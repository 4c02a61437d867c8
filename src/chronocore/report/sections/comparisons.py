"""Differences between runs on the same pairs."""

from __future__ import annotations

from chronocore.report.sections import Section, Sentence, filled
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 55


def section(results: Results) -> Section | None:
    """Return the section, where two runs can be compared."""
    shown = filled(results, "differences")
    if not shown:
        return None
    rows = results.tables["differences"].to_pylist()
    # Where every pair differs equally, resampling varies nothing and nothing is compared.
    held = [row for row in rows if row["low"] is not None and row["low"] < row["high"]]
    apart = [row for row in held if row["low"] > 0 or row["high"] < 0]
    return Section(
        anchor="comparisons",
        tag="Comparisons",
        heading="Do the runs differ?",
        text=(
            "Paired differences on the pairs that every run retains. Intervals hold for all "
            "comparisons of the table at once, so that looking at many does not find a difference "
            "by chance."
        ),
        sentences=(
            Sentence(
                f"{len(apart):,} of {len(held):,} comparisons have an interval without zero.",
                ("differences",),
            ),
        ),
        tables=shown,
    )
