"""Topics and regions."""

from __future__ import annotations

from typing import Any

from chronocore.report.sections import Section, Sentence, filled
from chronocore.results import Results
from chronocore.tables import number, words
from chronocore.text import plain

__all__ = ["ORDER", "section"]

ORDER = 40


def _extremes(rows: list[dict[str, Any]], what: str, several: bool) -> Sentence | None:
    """Say where strong shifts are tracked best and worst."""
    best = {}
    for row in rows:
        if (
            row["measure"] == "both"
            and row["item"] == "strong_plus"
            and row["estimate"] is not None
            and row["survey"] == "all"
            and (row["label"] == "mean" or not several)
        ):
            best[row["group"]] = row["estimate"]
    if len(best) < 2:
        return None
    ranked = sorted(best, key=lambda name: (-best[name], name))
    first, last = ranked[0], ranked[-1]
    if best[first] == best[last]:
        return None
    mean = " on the mean over models" if several else ""
    return Sentence(
        f"Of the {what}s with at least 20 pairs, strong and very strong shifts are most often "
        f"accurate for both years in {plain(first)} ({number(best[first], '%')}%) and least often "
        f"in {plain(last)} ({number(best[last], '%')}%){mean}.",
        (f"{'topics-broad' if what == 'topic' else 'regions'}{'-range' if several else ''}",),
    )


def section(results: Results) -> Section | None:
    """Return the section, where a topic or region has a pair."""
    several = results.n_models > 1
    end = "-range" if several else ""
    shown = filled(results, f"topics{end}", f"topics-broad{end}", f"regions{end}", "agreement")
    counted = [row["n"] for name in ("topics", "regions") if name in results.tables
               for row in results.tables[name].to_pylist()]  # fmt: skip
    if not any(counted):
        return None
    sentences = [
        _extremes(
            [
                row
                for row in results.tables[name + end].to_pylist()
                if row["run_id"] in (None, results.evaluated[0].run_id)
            ],
            what,
            several,
        )
        for name, what in (("topics-broad", "topic"), ("regions", "region"))
        if name + end in results.tables
    ]
    concordance = [
        row
        for row in (
            results.tables["agreement"].to_pylist() if "agreement" in results.tables else ()
        )
        if row["measure"] == "both" and row["item"] == "strong_plus" and row["survey"] == "all"
        and row["estimate"] is not None
    ]  # fmt: skip
    for row in concordance:
        sentences.append(
            Sentence(
                f"The models agree on which {words(row['group'])}s are hardest for strong and very "
                f"strong shifts with Kendall's W = {number(row['estimate'], 'concordance')} over "
                f"{row['n']} of them (1: the same order for every model).",
                ("agreement",),
            )
        )
    return Section(
        anchor="breakdowns",
        tag="Topics and regions",
        heading="Topics and regions",
        text=(
            "The same measures by topic and by region of the world. A cell with fewer than 20 "
            "pairs is blank. Groups differ in more than what a model knows of them, for example in "
            "how much they changed."
            + ("" if shown else " Here no cell has enough: the figures show how many pairs it has.")
            + (
                " The cells of every run are in the tables topics, topics-broad and regions, in "
                "the study's folder and in the copy embedded here."
                if several and shown
                else ""
            )
        ),
        sentences=tuple(one for one in sentences if one is not None),
        figures=("fig13", "fig14"),
        tables=shown,
    )
