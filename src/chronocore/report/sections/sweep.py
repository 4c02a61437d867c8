"""In how many cells of a grid of choices the findings hold."""

from __future__ import annotations

from chronocore.config import CLUSTERS
from chronocore.report.sections import Section, Sentence
from chronocore.results import Results
from chronocore.sweep import OutdatedSweepError, load_sweep
from chronocore.tables import gold_error_words
from chronocore.text import plain

__all__ = ["ORDER", "section"]

ORDER = 65


def section(results: Results) -> Section | None:
    """Return the section, where the study was swept."""
    if not (results.study.path / "sweep.json").exists():
        return None
    try:
        swept = load_sweep(results.study)
    except OutdatedSweepError:
        return None
    sentences = []
    for one in swept.findings:
        defined = one.cells - one.undefined
        text = f"{one.finding}, {one.statement}: holds in {one.holds:,} of {defined:,} cells"
        if one.undefined:
            text += f" ({one.undefined:,} more have no pairs for it)"
        text += f", and in {one.supported:,} of them in at least 95% of the resamples."
        sentences.append(Sentence(text, ("sweep.json: findings",)))
    grid = (
        f"{len(swept.runs)} runs × {len(swept.boundaries)} boundary sets × {len(swept.tau)} "
        f"tolerances × {len(swept.retain)} filter levels × {len(swept.seeds)} bootstrap seeds"
    )
    gold = gold_error_words(swept.gold_error, swept.effective_sizes)
    skipped = [
        Sentence(f"{plain(label)} was not swept: {why}.", ("sweep.json: skipped",))
        for label, why in swept.skipped.items()
    ]
    return Section(
        anchor="sweep",
        tag="Sweep",
        heading="In how many combinations of choices do the findings hold?",
        text=(
            f"Every finding was checked in every combination of {grid}, with "
            f"{swept.resamples:,} resamples{CLUSTERS[swept.cluster]} each{gold}. A cell is one run "
            "under one combination."
        ),
        sentences=(*sentences, *skipped),
    )
