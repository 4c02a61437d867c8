"""The most common answer instead of the distribution."""

from __future__ import annotations

from chronocore.report.sections import Section, Sentence, filled
from chronocore.results import Results
from chronocore.tables import number

__all__ = ["ORDER", "section"]

ORDER = 50


def section(results: Results) -> Section | None:
    """Return the section."""
    sentences = []
    if "mode-change" in results.tables:
        held = {
            (row["group"], row["measure"]): row
            for row in results.tables["mode-change"].to_pylist()
            if row["survey"] in (None, "all")
        }
        kept = held.get(("all_shifted", "mode_kept"))
        changed = held.get(("stable", "mode_changed"))
        parts = []
        if kept is not None and kept["estimate"] is not None:
            parts.append(
                f"{number(kept['estimate'], '%')}% of {kept['n']:,} shifted pairs keep their most "
                "common answer"
            )
        if changed is not None and changed["estimate"] is not None:
            parts.append(
                f"{number(changed['estimate'], '%')}% of {changed['n']:,} stable pairs change it"
            )
        if parts:
            sentences.append(
                Sentence(
                    f"In the benchmark, before any filter, {' and '.join(parts)}.",
                    ("mode-change",),
                )
            )
    shown = filled(results, "mode-change", "t05")
    return Section(
        anchor="modal",
        tag="Modal answers",
        heading="Why whole distributions, and not the most common answer?",
        text=(
            "A scoring by the most common answer misses change that leaves it in place and "
            "overstates change that just tips it."
            + (
                ""
                if "t05" in shown
                else " No run of this study was asked for single answers (predict --kinds modal)."
            )
        ),
        sentences=tuple(sentences),
        figures=("fig04", "fig10"),
        tables=shown,
    )
