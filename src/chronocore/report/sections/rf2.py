"""RF2: magnitude, direction and stability."""

from __future__ import annotations

from chronocore.report.sections import Section, filled, spread
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 20


def section(results: Results) -> Section | None:
    """Return the section."""
    return Section(
        anchor="rf2",
        tag="RF2",
        heading="RF2: Is the change as large as it was, and in its direction?",
        text=(
            "The distance between the two predictions is compared with the distance between the "
            "two surveys, and the direction of the one with the direction of the other. Pairs "
            "whose surveys hardly differ show whether predictions stay put where they should."
        ),
        sentences=tuple(
            one
            for one in (
                spread(
                    results,
                    "Same prediction for both years, shifted pairs",
                    "%",
                    "t11",
                    "all_shifted",
                    "zero_shift",
                    suffix="%",
                ),
                spread(
                    results,
                    "Median ratio of predicted to observed shift where predictions differ",
                    "ratio",
                    "t11",
                    "all_shifted",
                    "median_ratio",
                ),
                spread(
                    results,
                    "Right direction where predictions differ",
                    "%",
                    "t11",
                    "all_shifted",
                    "right_direction",
                    suffix="%",
                ),
            )
            if one is not None
        ),
        figures=("fig07", "fig15", "fig16", "fig17", "fig01"),
        tables=filled(results, "t11", "t12", "t13", "t14"),
    )
