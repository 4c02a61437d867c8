"""The gold distributions of a study, for models that answer with what the surveys say."""

from __future__ import annotations

PLACE = ("survey", "variable", "country")


def gold_by_year(study):
    """By survey, variable and country the distribution of each year."""
    gold: dict[tuple, dict[int, list[float]]] = {}
    for row in study.gold().to_pylist():
        gold.setdefault(tuple(row[k] for k in PLACE), {})[row["year"]] = row["probs"]
    return gold
