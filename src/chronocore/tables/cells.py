"""What tables are made of: the benchmark and the runs as columns, and the cells of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronocore import schema
from chronocore.config import ScoreSettings
from chronocore.effective_size import basis_of_sizes, effective_sizes
from chronocore.identity import derived_seed
from chronocore.intervals import SMALL_N, exact_share
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.noise import NoiseResult
from chronocore.scores import Flags, Floats, Integers, PairScores
from chronocore.tables.intervals import Estimate, Intervals, Quantity, Shares, intervals_for

if TYPE_CHECKING:
    from chronocore.tables.elicitation import Asked
    from chronocore.tables.instructions import InstructionRuns, RepeatedRun
    from chronocore.tables.modal import ModalRun

__all__ = [
    "POOLED",
    "SHIFTED",
    "SMALL_N",
    "STATIC",
    "Benchmark",
    "Builder",
    "Cells",
    "Context",
    "Evaluation",
    "Labels",
    "TableSpec",
    "View",
    "by_shift",
    "clusters_of",
    "sampled",
]

#: The value of ``survey`` in rows over the pairs of all surveys.
POOLED = "all"

SHIFTED = SHIFTS[1:]

#: Predictions that cannot change with the year.
STATIC = ("uniform", "undated_both")


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of text as codes: ``names[codes[i]]``, -1 where there is none."""

    codes: Integers
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: pa.Table, *columns: str) -> Labels:
        """Return the labels of a column, or of several joined; all missing if there is none."""
        if any(column not in table.column_names for column in columns):
            return cls(np.full(len(table), -1), ())
        parts = [table[column].cast(pa.string()).combine_chunks() for column in columns]
        joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")
        encoded = joined.dictionary_encode()
        indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return cls(indices.astype(np.int64), tuple(encoded.dictionary.to_pylist()))


@dataclass(frozen=True)
class Benchmark:
    """The pairs of a study, and what they were made from.

    Attributes
    ----------
    pairs : pyarrow.Table
        All pairs, classified by the boundaries in force.
    gold, items : pyarrow.Table or None
        Without them, the tables that describe surveys and questions are empty.
    """

    pairs: pa.Table
    gold: pa.Table | None = None
    items: pa.Table | None = None

    @cached_property
    def survey(self) -> Labels:
        """Survey of each pair."""
        return Labels.of(self.pairs, "survey")

    @cached_property
    def surveys(self) -> tuple[str, ...]:
        """The surveys, sorted."""
        return tuple(sorted(self.survey.names))

    @cached_property
    def question(self) -> Labels:
        """Survey and variable of each pair."""
        return Labels.of(self.pairs, "survey", "variable")

    @cached_property
    def country(self) -> Labels:
        """Country of each pair."""
        return Labels.of(self.pairs, "country")

    @cached_property
    def topic(self) -> Labels:
        """The survey's own topic of each pair."""
        return Labels.of(self.pairs, "topic")

    @cached_property
    def topic_broad(self) -> Labels:
        """Broad topic of each pair."""
        return Labels.of(self.pairs, "topic_broad")

    @cached_property
    def region(self) -> Labels:
        """Region of each pair's country."""
        return Labels.of(self.pairs, "region")

    @cached_property
    def shift(self) -> NDArray[np.str_]:
        """Shift class of each pair."""
        return np.asarray(self.pairs["shift"].to_numpy(zero_copy_only=False)).astype(str)

    def in_survey(self, survey: str) -> Flags:
        """Return which pairs belong to a survey, or all for :data:`POOLED`."""
        if survey == POOLED:
            return np.ones(len(self.pairs), dtype=bool)
        return np.asarray(self.survey.codes == self.survey.names.index(survey))


@dataclass(frozen=True)
class Evaluation:
    """One run on the pairs it is reported for.

    Attributes
    ----------
    run_id, label : str
        The run whose retained pairs these are.
    scores : mapping of str to PairScores
        By ``prediction``, retained pairs only, sorted by ``pair_id``.
    scored : PairScores
        All complete pairs of the run, retained or not.
    """

    run_id: str
    label: str
    scores: Mapping[str, PairScores]
    scored: PairScores


@dataclass(frozen=True, slots=True)
class View:
    """The scores of one prediction in one survey, or pooled."""

    prediction: str
    survey: str
    scores: PairScores


@dataclass
class Context:
    """Everything tables are computed from.

    Attributes
    ----------
    benchmark : Benchmark
    evaluations : list of Evaluation
    settings : ScoreSettings
        Thresholds, number of resamples, confidence level and seed of the intervals.
    boundaries : str or three floats
        Shift boundaries in force.
    modal : list of ModalRun
        Runs that were asked for single answers, those without other predictions too.
    noise : mapping of str to (NoiseResult, pyarrow.Table), optional
        Sampling noise of all pairs, by design.
    instructions : list of InstructionRuns
        Runs of one model under several instructions.
    repeats : list of RepeatedRun
        Runs with more than one answer to a prompt.
    asked : mapping of str to Asked
        By run_id, how a run asked its model.
    left_out : mapping of str to str
        By label, why a run of the study is not among the evaluated ones.
    """

    benchmark: Benchmark
    evaluations: list[Evaluation]
    settings: ScoreSettings
    boundaries: str | Sequence[float] = "default"
    modal: list[ModalRun] = field(default_factory=list)
    noise: Mapping[str, tuple[NoiseResult, pa.Table]] = field(default_factory=dict)
    instructions: list[InstructionRuns] = field(default_factory=list)
    repeats: list[RepeatedRun] = field(default_factory=list)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def intervals(self) -> Intervals:
        """How cells get their intervals."""
        return intervals_for(self.settings, self.benchmark)

    @cached_property
    def settings_used(self) -> dict[str, Any]:
        """Return the settings in force, and what effective sizes rest on where they are used."""
        used: dict[str, Any] = {
            **msgspec.to_builtins(self.settings),
            "boundaries": msgspec.to_builtins(self.boundaries),
        }
        if self.settings.gold_error and self.benchmark.gold is not None:
            by_design = effective_sizes(self.benchmark.gold).by_design
            used["effective_sizes"] = basis_of_sizes(by_design)
        return used

    @cached_property
    def memory(self) -> dict[tuple[Any, ...], Estimate]:
        """Cells that several tables share, by what they are."""
        return {}

    @cached_property
    def built(self) -> dict[str, Cells]:
        """Cells of tables that other tables read."""
        return {}

    @cached_property
    def kept(self) -> dict[tuple[Any, ...], PairScores]:
        """Views of scores that several tables need."""
        return {}

    @cached_property
    def surveys(self) -> tuple[str, ...]:
        """Pooled, then each survey if there are several."""
        names = self.benchmark.surveys
        return (POOLED, *names) if len(names) > 1 else (POOLED,)

    @cached_property
    def boundary_sets(self) -> dict[str, str | Sequence[float]]:
        """The published boundary sets, and the one in force if it is another."""
        sets: dict[str, str | Sequence[float]] = {
            name: name for name in ("tighter", "default", "looser")
        }
        if not isinstance(self.boundaries, str):
            values = tuple(map(float, self.boundaries))
            if values not in set(BOUNDARIES.values()):
                sets["own"] = values
        return sets

    def in_force(self, boundaries: str | Sequence[float]) -> bool:
        """Return whether a boundary set is the one in force."""

        def values(chosen: str | Sequence[float]) -> tuple[float, ...]:
            return BOUNDARIES[chosen] if isinstance(chosen, str) else tuple(map(float, chosen))

        return values(boundaries) == values(self.boundaries)

    def of_survey(self, scores: PairScores, survey: str) -> PairScores:
        """Return the scores of one survey."""
        if survey == POOLED:
            return scores
        return scores.take(self.benchmark.in_survey(survey)[scores.pair])

    def views(self, evaluation: Evaluation, *, static: bool = True) -> Iterator[View]:
        """Yield every prediction on all pairs, then the run's own in each survey.

        ``static = False`` leaves out predictions that cannot change with the year.
        """
        for prediction, scores in evaluation.scores.items():
            if static or prediction not in STATIC:
                yield View(prediction, POOLED, scores)
        for survey in self.surveys[1:]:
            yield View("model", survey, self.own_scores(evaluation, survey))

    def own_views(self, evaluation: Evaluation) -> Iterator[View]:
        """Yield the run's own predictions on all pairs, then in each survey."""
        for survey in self.surveys:
            yield View("model", survey, self.own_scores(evaluation, survey))

    def keep(self, key: tuple[Any, ...], make: Callable[[], PairScores]) -> PairScores:
        """Return the scores kept under a key, made at first."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def own_scores(self, evaluation: Evaluation, survey: str) -> PairScores:
        """Return the run's own scores in a survey."""
        key = ("model", evaluation.run_id, survey)
        return self.keep(key, lambda: self.of_survey(evaluation.scores["model"], survey))


def by_shift(
    scores: PairScores, shifts: Sequence[str], everything: str | None = None
) -> list[tuple[str, Integers]]:
    """Return the pairs of each shift class, and of all these classes under one more name."""
    masks = [scores.shift == SHIFTS.index(shift) for shift in shifts]
    groups = [(shift, np.flatnonzero(mask)) for shift, mask in zip(shifts, masks, strict=True)]
    if everything is not None:
        groups.append((everything, np.flatnonzero(np.logical_or.reduce(masks))))
    return groups


def clusters_of(context: Context, pairs: Integers) -> Integers | None:
    """Return the cluster of some rows of ``pairs.parquet``; None where pairs are resampled."""
    labels = {"country": context.benchmark.country, "variable": context.benchmark.question}
    cluster = context.settings.cluster
    return labels[cluster].codes[pairs] if cluster in labels else None


def sampled(
    context: Context, pairs: Integers, hits: int | None = None, pairs_alone: bool = True
) -> dict[str, Any]:
    """Return what is resampled in a cell of some rows of ``pairs.parquet``, for :meth:`Cells.add`.

    ``hits`` are the pairs that a share counts.
    """
    clusters = clusters_of(context, pairs)
    if clusters is not None:
        return {"clusters": len(np.unique(clusters)), "pairs_alone": False}
    return {"hits": hits, "pairs_alone": pairs_alone}


_BLANK = np.array([np.nan])


@dataclass(slots=True)
class Cells:
    """Collects the rows of one table."""

    name: str
    context: Context
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    #: What is to be said below the table, of these runs.
    remarks: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        *,
        group: str,
        measure: str,
        unit: str,
        estimate: float,
        n: int,
        low: float | Floats = float("nan"),
        high: float | Floats = float("nan"),
        run_id: str | None = None,
        label: str | None = None,
        prediction: str | None = None,
        survey: str | None = None,
        item: str | None = None,
        clusters: int | None = None,
        hits: int | None = None,
        pairs_alone: bool = True,
    ) -> None:
        """Add a row; a number that is NaN is missing.

        An end that is still to be drawn is an array of one number, read when the table is made.
        ``clusters``, ``hits`` and ``pairs_alone`` are as in an
        :class:`~chronocore.tables.intervals.Estimate`.
        """
        self.rows.append(
            (
                run_id, label, prediction, survey, group, item, measure, unit,
                None if estimate != estimate else float(estimate), low, high, int(n),
                clusters, hits, pairs_alone,
            )
        )  # fmt: skip

    def _seed(
        self, stream: str, evaluation: Evaluation, survey: str, group: str, item: str | None
    ) -> int:
        # A cell's stream depends on what the cell is, never on which other cells exist. All
        # predictions for the same pairs share it: equal rows get equal intervals.
        own = () if survey == POOLED else (survey,)
        return derived_seed(
            self.context.settings.seed, stream, evaluation.run_id, group, item or "", *own
        )

    def _estimate(
        self,
        evaluation: Evaluation,
        view: View,
        group: str,
        rows: Integers,
        what: Quantity | Shares,
        item: str | None,
        cell: tuple[str, str, str | None] | None,
        minimum: int = 0,
    ) -> Estimate:
        stream, seed_group, seed_item = cell or (self.name, group, item)
        key = (
            stream, evaluation.run_id, view.prediction, view.survey, seed_group, seed_item,
            what.measure if isinstance(what, Quantity) else what.names,
        )  # fmt: skip
        memory = self.context.memory
        if key not in memory:
            seed = self._seed(stream, evaluation, view.survey, seed_group, seed_item)
            intervals = self.context.intervals
            if isinstance(what, Shares):
                memory[key] = intervals.shares(what, view.scores, rows, seed)
            else:
                if what.defined is not None:
                    rows = rows[what.defined(view.scores)[rows]]
                if len(rows) < minimum:
                    return Estimate(_BLANK, _BLANK, _BLANK, len(rows))
                memory[key] = intervals.statistic(what, view.scores, rows, seed)
        return memory[key]

    def statistic(
        self,
        evaluation: Evaluation,
        view: View,
        group: str,
        rows: Integers,
        quantity: Quantity,
        *,
        item: str | None = None,
        measure: str | None = None,
        cell: tuple[str, str, str | None] | None = None,
        minimum: int = 0,
    ) -> Estimate:
        """Add the mean, median or share of a cell.

        Parameters
        ----------
        evaluation, view, group, item
            Which cell.
        rows : (n,) int64
            The pairs of the cell in ``view.scores``; those without a value are left out here.
        quantity : Quantity
        measure : str, optional
            Name of the measure, by default the quantity's.
        cell : (table, group, item), optional
            The cell whose random numbers are used, by default this one: a cell that two tables
            show is the same in both.
        minimum : int
            With fewer pairs the cell stays blank and shows its n alone.
        """
        found = self._estimate(evaluation, view, group, rows, quantity, item, cell, minimum)
        self.add(
            run_id=evaluation.run_id, label=evaluation.label, prediction=view.prediction,
            survey=view.survey, group=group, item=item, measure=measure or quantity.measure,
            unit=quantity.unit, estimate=found.estimate[0], low=found.low, high=found.high,
            n=found.n, clusters=found.clusters, pairs_alone=found.pairs_alone,
            hits=None if found.hits is None else int(found.hits[0]),
        )  # fmt: skip
        return found

    def shares(
        self,
        evaluation: Evaluation,
        view: View,
        group: str,
        rows: Integers,
        shares: Shares,
        *,
        item: str | None = None,
        only: Sequence[str] | None = None,
        cell: tuple[str, str, str | None] | None = None,
    ) -> Estimate:
        """Add the percentage of each class; all classes share the resamples."""
        found = self._estimate(evaluation, view, group, rows, shares, item, cell)
        for j, name in enumerate(shares.names):
            if only is None or name in only:
                self.add(
                    run_id=evaluation.run_id, label=evaluation.label, prediction=view.prediction,
                    survey=view.survey, group=group, item=item, measure=name, unit="%",
                    estimate=found.estimate[j], low=found.low[j : j + 1],
                    high=found.high[j : j + 1], n=found.n, clusters=found.clusters,
                    hits=None if found.hits is None else int(found.hits[j]),
                    pairs_alone=found.pairs_alone,
                )  # fmt: skip
        return found

    def table(self) -> pa.Table:
        """Return the rows, schema :data:`chronocore.schema.TABLE`; intervals must be finished."""
        names = [name for name in schema.TABLE.names if not name.startswith("exact_")]
        names += ["hits", "pairs_alone"]
        columns = list(zip(*self.rows, strict=True)) or [()] * len(names)
        named: dict[str, Any] = dict(zip(names, columns, strict=True))
        hits, alone = named.pop("hits"), named.pop("pairs_alone")
        for name in ("low", "high"):
            named[name] = np.array(list(map(_scalar, named[name])), dtype=np.float64)
        named |= self._exact(named, hits, np.array(alone, dtype=bool))
        for name in ("low", "high", "exact_low", "exact_high"):
            named[name] = pa.array(named[name], pa.float64(), mask=np.isnan(named[name]))
        return pa.table(named, schema=schema.TABLE)

    def _exact(
        self, named: dict[str, Any], hits: Sequence[int | None], alone: Flags
    ) -> dict[str, Floats]:
        """Return exact intervals of shares of independent pairs, NaN where there is none.

        A share of 0 or 100 % has one where no resample differs from it; with
        ``exact_intervals = "all"`` every share whose interval the pairs alone make.
        """
        settings = self.context.settings
        n = np.array(named["n"], dtype=np.int64)
        counted = np.array([-1 if one is None else one for one in hits], dtype=np.int64)
        shown = (counted >= 0) & (n > 0)
        at_end = ((counted == 0) | (counted == n)) & (named["low"] == named["high"])
        if settings.exact_intervals == "all":
            shown &= at_end | alone
        else:
            shown &= at_end
        found = {name: np.full(len(n), np.nan) for name in ("exact_low", "exact_high")}
        if shown.any():
            low, high = exact_share(counted[shown], n[shown], settings.confidence_level)
            found["exact_low"][shown], found["exact_high"][shown] = 100 * low, 100 * high
        return found


def _scalar(end: float | Floats) -> float:
    return float(end[0]) if isinstance(end, np.ndarray) else float(end)


Builder = Callable[[Cells, Context], None]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a table holds and how it is laid out.

    Attributes
    ----------
    name, title : str
    finding : str
        ``benchmark``, ``filter``, ``RF1``, ``RF2``, ``RF3``, ``robustness``, ``breakdowns``,
        ``modal`` or ``comparison``.
    note : str
        How to read it.
    group : str
        Heading of the column ``group``.
    build : callable
        Adds the rows to the cells.
    item : str
        Heading of the column ``item``.
    measures : tuple of str
        Measures the page shows, in order; by default all of the table.
    across : tuple of str
        What the columns of the page are, outermost first: ``measure``, and ``group`` or ``item``
        where the paper sets these side by side.
    lines : tuple of str
        What tells the lines of the page apart, outermost first, as far as the table has it.
    names : tuple of str
        Columns that hold names of runs, which are shown as they are.
    by_survey : bool
        Whether the surveys are what the table is about; others show all surveys together first.
    needs : str
        What to run for the table to have rows, where scores alone are not enough.
    """

    name: str
    title: str
    finding: str
    note: str
    group: str
    build: Builder
    item: str = "item"
    measures: tuple[str, ...] = ()
    across: tuple[str, ...] = ("measure",)
    lines: tuple[str, ...] = ("label", "prediction", "survey", "group", "item")
    names: tuple[str, ...] = ("label",)
    by_survey: bool = False
    needs: str = ""
