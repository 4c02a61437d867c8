"""Composition of the benchmark (Tables 1 to 4), boundary sets (Table 21) and changes of mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.identity import derived_seed
from chronocore.intervals import cell_shares
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.tables.cells import POOLED, SHIFTED, Cells, Context, TableSpec, clusters_of, sampled
from chronocore.tables.intervals import UnitBootstrap
from chronocore_kernels.jit import threads

__all__ = ["SPECS"]


def _classes(cells: Cells, context: Context) -> None:
    benchmark = context.benchmark
    for survey in [*dict.fromkeys(benchmark.survey.names), POOLED]:
        members = benchmark.shift[benchmark.in_survey(survey)]
        for shift in SHIFTS:
            count = int(np.count_nonzero(members == shift))
            cells.add(group=survey, measure=shift, unit="pairs", estimate=count, n=len(members))
        cells.add(
            group=survey, measure="total", unit="pairs", estimate=len(members), n=len(members)
        )


def _time_points(context: Context) -> dict[str, NDArray[Any]] | None:
    """Return the gold cells of the questions that have a pair, as columns."""
    gold = context.benchmark.gold
    if gold is None or not len(gold):
        return None
    columns: dict[str, NDArray[Any]] = {
        name: np.asarray(gold[name].to_numpy(zero_copy_only=False)).astype(str)
        for name in ("survey", "variable", "country")
    }
    columns["year"] = np.asarray(gold["year"].to_numpy(), dtype=np.int64)
    columns["n_valid"] = np.asarray(gold["n_valid"].to_numpy(), dtype=np.int64)
    wave = gold["wave"].fill_null(-1)
    columns["wave"] = np.asarray(wave.to_numpy(), dtype=np.int64)
    question = np.char.add(np.char.add(columns["survey"], " "), columns["variable"])
    inside = np.isin(question, context.benchmark.question.names)
    return {**{name: column[inside] for name, column in columns.items()},
            "question": question[inside]}  # fmt: skip


def _waves(cells: Cells, context: Context) -> None:
    points = _time_points(context)
    if points is None:
        return
    for survey in context.benchmark.surveys:
        own = (points["survey"] == survey) & (points["wave"] >= 0)
        for wave in np.unique(points["wave"][own]):
            inside = own & (points["wave"] == wave)
            country, years = points["country"][inside], points["year"][inside]
            _, which = np.unique(country, return_inverse=True)
            most = np.zeros(which.max() + 1)
            np.maximum.at(most, which, points["n_valid"][inside])
            n = int(inside.sum())
            for measure, unit, value in (
                ("first_year", "year", years.min()),
                ("last_year", "year", years.max()),
                ("countries", "count", len(most)),
                ("questions", "count", len(np.unique(points["question"][inside]))),
                ("respondents", "count", most.sum()),
            ):
                cells.add(survey=survey, group=f"wave {wave}", measure=measure, unit=unit,
                          estimate=value, n=n)  # fmt: skip


def _modules(cells: Cells, context: Context) -> None:
    points, items = _time_points(context), context.benchmark.items
    if points is None or items is None:
        return
    topics = {
        f"{row['survey']} {row['variable']}": row["topic"] or row["source"]
        for row in items.select(["survey", "variable", "topic", "source"]).to_pylist()
    }
    modules = np.array([topics.get(question, "") for question in points["question"]], dtype=str)
    for survey in context.benchmark.surveys:
        own = (points["survey"] == survey) & (points["wave"] < 0)
        for module in np.unique(modules[own]):
            for year in np.unique(points["year"][own & (modules == module)]):
                inside = own & (modules == module) & (points["year"] == year)
                for measure, column in (("countries", "country"), ("questions", "question")):
                    cells.add(survey=survey, group=str(module), item=str(year), measure=measure,
                              unit="count", estimate=len(np.unique(points[column][inside])),
                              n=int(inside.sum()))  # fmt: skip


def _topics(cells: Cells, context: Context) -> None:
    benchmark = context.benchmark
    first = np.unique(benchmark.question.codes, return_index=True)[1]
    topic = benchmark.topic_broad
    for survey in context.surveys:
        members = first[benchmark.in_survey(survey)[first]]
        for code, name in sorted(enumerate(topic.names), key=lambda pair: pair[1]):
            count = int(np.count_nonzero(topic.codes[members] == code))
            if count:
                cells.add(survey=survey, group=name, measure="questions", unit="count",
                          estimate=count, n=len(members))  # fmt: skip
        cells.add(survey=survey, group=POOLED, measure="questions", unit="count",
                  estimate=len(members), n=len(members))  # fmt: skip


def _mode_change(cells: Cells, context: Context) -> None:
    pairs, settings = context.benchmark.pairs, context.settings
    if "mode_old" not in pairs.column_names:
        return
    changed = pairs["mode_old"].to_numpy() != pairs["mode_new"].to_numpy()
    shift = context.benchmark.shift
    redrawn = None
    intervals = context.intervals
    if isinstance(intervals, UnitBootstrap) and intervals.redraws is not None:
        # Which pairs change their mode is all that gold decides here.
        old, new = (intervals.redraws.modes(pairs, year) for year in ("year_old", "year_new"))
        redrawn = (old != new).astype(np.int8)
    for survey in context.surveys:
        inside = context.benchmark.in_survey(survey)
        groups = [(name, shift == name) for name in SHIFTS]
        groups += [("all_shifted", np.isin(shift, SHIFTED)), (POOLED, shift != "")]
        for group, mask in groups:
            rows = np.flatnonzero(inside & mask)
            own = () if survey == POOLED else (survey,)
            # Two dozen small calls: waking a thread for each would cost more than they do.
            with threads(1):
                found = cell_shares(
                    changed[rows].astype(np.int64), 2,
                    n_resamples=settings.resamples, confidence_level=settings.confidence_level,
                    seed=derived_seed(settings.seed, cells.name, "", group, "", *own),
                    clusters=clusters_of(context, rows),
                    redrawn=None if redrawn is None else redrawn[:, rows],
                )  # fmt: skip
            moved = int(changed[rows].sum())
            for measure, hits, share, low, high in zip(
                ("mode_kept", "mode_changed"), (len(rows) - moved, moved),
                *(100 * part for part in found), strict=True,
            ):  # fmt: skip
                cells.add(survey=survey, group=group, measure=measure, unit="%", estimate=share,
                          low=low, high=high, n=len(rows),
                          **sampled(context, rows, hits, redrawn is None))  # fmt: skip


def _boundary_sets(cells: Cells, context: Context) -> None:
    names = ("stable_up_to", "strong_from", "very_strong_from")
    for name, chosen in context.boundary_sets.items():
        values = BOUNDARIES[chosen] if isinstance(chosen, str) else chosen
        for measure, value in zip(names, values, strict=True):
            cells.add(group=name, measure=measure, unit="d_h", estimate=float(value), n=0)


def _basis(cells: Cells, context: Context) -> None:
    benchmark = context.benchmark
    for evaluation in context.evaluations:
        scores = evaluation.scores["model"]
        question = benchmark.question.codes[scores.pair]
        country = benchmark.country.codes[scores.pair]
        n = len(scores)
        for measure, value in (
            ("pairs", len(benchmark.pairs)),
            ("complete", len(evaluation.scored)),
            ("retained", n),
            ("questions", len(np.unique(question))),
            ("countries", len(np.unique(country))),
            ("largest_question", np.bincount(question).max(initial=0)),
            ("identical_years", np.count_nonzero(scores.d_m <= 1e-12)),
            ("even", np.count_nonzero(scores.even)),
        ):
            unit = "count" if measure in ("questions", "countries") else "pairs"
            cells.add(run_id=evaluation.run_id, label=evaluation.label, prediction="model",
                      group=POOLED, measure=measure, unit=unit, estimate=float(value),
                      n=n)  # fmt: skip


SPECS = (
    TableSpec(
        "t01", "Temporal pairs by human shift", "benchmark",
        "Number of pairs in each shift class, by survey.", "survey", _classes,
    ),
    TableSpec(
        "t02", "Survey waves of the benchmark", "benchmark",
        "Years in which most answers of a country were given, countries and questions; "
        "respondents: of each country the most valid answers to one question, summed.",
        "wave", _waves, by_survey=True,
        needs="a survey with waves",
    ),
    TableSpec(
        "t03", "Modules of surveys without waves", "benchmark",
        "Years in which a module was asked, with the countries and questions of each.", "module",
        _modules, item="year", across=("items",), by_survey=True, needs="a survey without waves",
    ),
    TableSpec(
        "t04", "Questions by broad topic", "benchmark",
        "Questions with at least one temporal pair.", "topic", _topics, by_survey=True,
    ),
    TableSpec(
        "mode-change", "Most common answer: kept or changed between the two years", "benchmark",
        "All pairs of the benchmark, before the knowledge filter; the mode is the most common "
        "answer, of tied ones the lowest.", "human shift", _mode_change,
    ),
    TableSpec(
        "basis", "What each run is evaluated on", "benchmark",
        "Even: both dated predictions give every option the same share; identical years: the two "
        "dated predictions are the same.", "pairs", _basis,
    ),
    TableSpec(
        "t21", "Boundaries of human shift", "robustness",
        "Stable up to the first, strong from the second, very strong from the third; moderate in "
        "between.", "set", _boundary_sets,
    ),
)  # fmt: skip
