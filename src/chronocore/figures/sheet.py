"""What the figures of a study are drawn from, read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from chronocore.figures.marks import Row, Spec
from chronocore.figures.svg import MODELS
from chronocore.metrics import SHIFTS
from chronocore.results import Cell, Results
from chronocore.score import RunSummary
from chronocore.tables import words
from chronocore.text import plain
from chronocore.wording import wordings

__all__ = ["Builder", "Drawing", "Omitted", "Sheet"]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure before it is rendered.

    Attributes
    ----------
    title, caption : str
        The caption says everything needed to read the figure.
    description : str
        Alternative text: what the figure shows, with its main numbers.
    sources : tuple of str
        Files of the study, with columns or measures, that hold every number drawn.
    spec : dict
        Vega-Lite.
    """

    title: str
    caption: str
    description: str
    sources: tuple[str, ...]
    spec: Spec


@dataclass(frozen=True, slots=True)
class Omitted:
    """A figure that cannot be drawn.

    Attributes
    ----------
    name, title : str
    why : str
        A sentence: what it would need.
    """

    name: str
    title: str
    why: str


class Sheet:
    """A scored study, for figures.

    Attributes
    ----------
    results : Results
    models : list of RunSummary
        The evaluated runs told apart by colour: at most six, the first by label.
    focus : RunSummary
        The run of figures about one run.
    """

    def __init__(self, results: Results, run: str | None = None) -> None:
        self.results = results
        self.models = results.evaluated[: len(MODELS)]
        self.focus = results.run(run)

    # -- words ---------------------------------------------------------------------------------

    @property
    def level(self) -> str:
        """Confidence level, "95%"."""
        return self.results.level

    @property
    def few(self) -> str:
        """What marks few pairs in a figure of points."""
        return f"Hollow: {self.results.few_words}."

    @property
    def star(self) -> str:
        """What marks few pairs in a label."""
        return f"* {self.results.few_words}."

    @property
    def left_out(self) -> str:
        """Say how many runs the figures leave out, or nothing."""
        more = len(self.results.evaluated) - len(self.models)
        if not more:
            return ""
        return (
            f" Drawn are the first {len(self.models)} runs by label; the tables hold {more} more."
        )

    @property
    def focused(self) -> str:
        """Return the label of the run that figures about one run show."""
        return plain(self.focus.label, 40)

    @property
    def one_of(self) -> str:
        """Say of how many runs a figure about one run shows one, where there are several."""
        number = len(self.results.evaluated)
        return f" Shown is one of {number} runs." if number > 1 else ""

    def name(self, run: RunSummary, limit: int = 26) -> str:
        """Return the label of a run."""
        return plain(run.label, limit)

    # -- rows ----------------------------------------------------------------------------------

    @cached_property
    def pairs(self) -> dict[str, Row]:
        """Pairs by ``pair_id``."""
        return {row["pair_id"]: row for row in self.results.study.pairs().to_pylist()}

    @cached_property
    def items(self) -> dict[tuple[str, str], Row]:
        """Questions by survey and variable."""
        return {(i["survey"], i["variable"]): i for i in self.results.study.items().to_pylist()}

    @cached_property
    def short(self) -> dict[tuple[str, str], str]:
        """Short wordings by survey and variable."""
        return wordings(list(self.items.values()))

    @cached_property
    def _scores(self) -> dict[str, list[Row]]:
        return {}

    def scores(self, run: RunSummary) -> list[Row]:
        """Return the scores of a run, all complete pairs."""
        if run.run_id not in self._scores:
            self._scores[run.run_id] = self.results.scores(run).to_pylist()
        return self._scores[run.run_id]

    def retained(self, run: RunSummary) -> list[Row]:
        """Return the scores of a run on the pairs it is evaluated on."""
        return [row for row in self.scores(run) if row["retained"]]

    @cached_property
    def prompts(self) -> list[Row]:
        """Prompts of the default instruction."""
        rows = self.results.study.prompts().to_pylist()
        return [row for row in rows if row["instruction"] == "default"]

    @cached_property
    def predicted(self) -> dict[tuple[Any, ...], list[float]]:
        """Distributions of the focus run by survey, variable, country and year."""
        study = self.results.study
        (wording,) = (
            (row["instruction"], row["elicitation"])
            for row in study.runs().to_pylist()
            if row["run_id"] == self.focus.run_id
        )
        prompts = {
            row["prompt_id"]: (row["survey"], row["variable"], row["country"], row["year"])
            for row in self.results.prompts()
            if row["kind"] != "modal" and (row["instruction"], row["elicitation"]) == wording
        }
        rows = study.predictions(self.focus.run_id, columns=["prompt_id", "repeat", "probs"])
        return {
            prompts[row["prompt_id"]]: row["probs"]
            for row in rows.to_pylist()
            if row["repeat"] == 0 and row["probs"] is not None and row["prompt_id"] in prompts
        }

    def prediction(self, pair: Row, year: int) -> list[float]:
        """Return the distribution the focus run predicts for a year of a pair."""
        return self.predicted[pair["survey"], pair["variable"], pair["country"], year]

    # -- pairs in words ------------------------------------------------------------------------

    def item(self, pair: Row) -> Row:
        """Return the question of a pair."""
        return self.items[pair["survey"], pair["variable"]]

    def labels(self, pair: Row) -> list[str]:
        """Return the options of a pair's question."""
        return [plain(option["label"]) for option in self.item(pair)["options"]]

    def country(self, pair: Row, limit: int = 30) -> str:
        """Return the country of a pair."""
        return plain(pair["country_name"] or f"country {pair['country']}", limit)

    def where(self, pair: Row) -> str:
        """Return "Chile, wvs F117, 1990 and 2012"."""
        return (
            f"{self.country(pair)}, {pair['survey']} {pair['variable']}, "
            f"{pair['year_old']} and {pair['year_new']}"
        )

    # -- cells ---------------------------------------------------------------------------------

    def cells(
        self, table: str, run: RunSummary, groups: tuple[str, ...], measure: str, **where: Any
    ) -> list[dict[str, Any]]:
        """Return a cell a group, as :func:`chronocore.figures.marks.trend` takes them."""
        found = []
        for group in groups:
            cell: Cell = self.results.cell(table, run, group, measure, **where)
            found.append(
                {
                    "estimate": cell.estimate,
                    "low": cell.low,
                    "high": cell.high,
                    "n": cell.n,
                    "clusters": cell.clusters,
                }
            )
        return found

    def classes(self, run: RunSummary, table: str, measure: str, shifts: tuple[str, ...]) -> str:
        """Return "stable 60.0% (n = 50), moderate …" for alternative text."""
        parts = []
        for shift in shifts:
            cell = self.results.cell(table, run, shift, measure)
            if cell.estimate is not None:
                parts.append(f"{words(shift)} {cell.estimate:.1f} (n = {cell.n:,})")
        return ", ".join(parts) or "no pairs"


#: Shift classes as axes name them.
NAMES: Mapping[str, str] = {shift: words(shift) for shift in SHIFTS}

Builder: TypeAlias = Callable[[Sheet], "Drawing | str"]
