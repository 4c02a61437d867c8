"""What figures and report draw from: a study's tables and scores, indexed by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from chronocore.errors import ConfigurationError, StudyError
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.predict import prompts_of
from chronocore.score import RunSummary, ScoreResult, load_scores, load_summary, tables
from chronocore.store import Study
from chronocore.tables import SMALL_N, few_units
from chronocore.tables.format import percentage

__all__ = ["Cell", "Results", "load_results"]

SHIFTED = SHIFTS[1:]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: estimate, intervals, and number of pairs and of resampled clusters."""

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int | None = None
    exact_low: float | None = None
    exact_high: float | None = None

    @property
    def few(self) -> bool:
        """Whether it rests on fewer than 20 pairs, or on fewer than 20 clusters."""
        return few_units(self.n, self.clusters)


@dataclass(frozen=True, slots=True)
class Results:
    """A scored study.

    Attributes
    ----------
    study : Study
    summary : ScoreResult
    tables : mapping of str to pyarrow.Table
    cells : mapping
        Cells by (table, run_id, prediction, group, item, measure).
    evaluated : list of RunSummary
        The runs the tables evaluate: the models, or the references where there is no model.
    predictions : mapping of str to list of str
        By run_id, whose predictions are evaluated on its pairs: ``model``, then references.
    """

    study: Study
    summary: ScoreResult
    tables: Mapping[str, pa.Table]
    cells: Mapping[tuple[Any, ...], Cell]
    evaluated: list[RunSummary]
    predictions: Mapping[str, list[str]]

    def cell(
        self,
        table: str,
        run: RunSummary,
        group: str,
        measure: str,
        item: str | None = None,
        prediction: str = "model",
    ) -> Cell:
        """Return a cell; an empty one where the table has none."""
        return self.cells.get((table, run.run_id, prediction, group, item, measure), Cell())

    def scores(self, run: RunSummary) -> pa.Table:
        """Return the scores of a run, checked to be those of the last score."""
        return load_scores(self.study, run.run_id)

    def run(self, label: str | None) -> RunSummary:
        """Return the evaluated run of a label, by default the first.

        Raises
        ------
        ConfigurationError
            No evaluated run has this label.
        """
        if label is None:
            return self.evaluated[0]
        for run in self.evaluated:
            if run.label == label:
                return run
        known = ", ".join(run.label for run in self.evaluated)
        raise ConfigurationError(f"no run called {label!r} is evaluated; known: {known}")

    def prompts(self) -> list[dict[str, Any]]:
        """Return the prompts of every wording that a run was asked in, without their texts."""
        columns = [
            "prompt_id", "kind", "elicitation", "instruction", "survey", "variable", "country",
            "year",
        ]  # fmt: skip
        wordings = {
            (row["instruction"], row["elicitation"]) for row in self.study.runs().to_pylist()
        }
        found: dict[str, dict[str, Any]] = {}
        for wording in sorted(wordings | {("default", "verbalized")}):
            for row in prompts_of(self.study, *wording).select(columns).to_pylist():
                found.setdefault(row["prompt_id"], row)
        return list(found.values())

    @property
    def n_models(self) -> int:
        """Different models among the evaluated runs: several runs may have one model."""
        evaluated = {run.run_id for run in self.evaluated}
        return len(
            {
                (row["model"], row["revision"])
                for row in self.study.runs().to_pylist()
                if row["run_id"] in evaluated
            }
        )

    @property
    def few_words(self) -> str:
        """What too few of are marked: pairs, or pairs or clusters."""
        clustered = self.summary.settings["cluster"] != "pair"
        return f"fewer than {SMALL_N} pairs{' or clusters' if clustered else ''}"

    @property
    def tau(self) -> float:
        """Tolerance of accuracy."""
        return float(self.summary.settings["tau"])

    @property
    def tau_text(self) -> str:
        """Tolerance of accuracy as it is written: two decimals, more if it has more."""
        return f"{self.tau:.2f}" if round(self.tau, 2) == self.tau else f"{self.tau:g}"

    @property
    def level(self) -> str:
        """Confidence level as a percentage, for example ``"95%"``."""
        return f"{percentage(float(self.summary.settings['confidence_level']))}%"

    @property
    def boundary_set(self) -> str:
        """Name of the boundaries in force; those given as numbers are called "own"."""
        chosen = self.summary.settings["boundaries"]
        return chosen if isinstance(chosen, str) else "own"

    @property
    def boundaries(self) -> tuple[float, float, float]:
        """Boundaries of the shift classes in force."""
        chosen = self.summary.settings["boundaries"]
        a, b, c = BOUNDARIES[chosen] if isinstance(chosen, str) else chosen
        return float(a), float(b), float(c)


def load_results(study: Study) -> Results:
    """Read what :func:`chronocore.score` wrote.

    Raises
    ------
    StudyError
        The study was not scored yet.
    """
    summary = load_summary(study)
    loaded = tables(study)
    cells: dict[tuple[Any, ...], Cell] = {}
    predictions: dict[str, list[str]] = {}
    for name, table in loaded.items():
        for row in table.to_pylist():
            if row.get("survey") not in (None, "all"):
                continue  # a survey alone; what is indexed is pooled
            key = (
                name, row["run_id"], row["prediction"], row["group"], row["item"], row["measure"],
            )  # fmt: skip
            cells[key] = Cell(
                row["estimate"], row["low"], row["high"], row["n"], row["clusters"],
                row["exact_low"], row["exact_high"],
            )  # fmt: skip
            if name == "t08":
                known = predictions.setdefault(row["run_id"], [])
                if row["prediction"] not in known:
                    known.append(row["prediction"])
    evaluated = [run for run in summary.runs if run.run_id in predictions]
    if not summary.runs:
        raise StudyError(
            f"no run of {study.path} has valid dated and undated predictions, which figures and "
            f"report are about ({'; '.join(f'{k}: {why}' for k, why in summary.skipped.items())})"
        )
    if not evaluated:
        raise StudyError(
            f"the tables and the scores of {study.path} do not belong together; "
            f"run: chronocore score {study.path}"
        )
    return Results(study, summary, loaded, cells, evaluated, predictions)
