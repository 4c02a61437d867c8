"""What sampling respondents alone can produce."""

from __future__ import annotations

from chronocore.report.sections import Section, filled
from chronocore.results import Results

__all__ = ["ORDER", "section"]

ORDER = 70


def section(results: Results) -> Section | None:
    """Return the section, where the noise was simulated."""
    shown = filled(results, "noise", "noise-floor")
    if not shown:
        return None
    return Section(
        anchor="noise",
        tag="Sampling noise",
        heading="How much shift can sampling alone produce?",
        text=(
            "Surveys ask samples. Two samples of one unchanged population differ as well; a shift "
            "says something about attitudes only as far as it exceeds that."
        ),
        tables=shown,
    )
