"""Scores -> the result tables, every cell with its interval and its n.

Tables are named after the paper's. Each is tidy: one row a cell and measure. ``label`` says whose
retained pairs are evaluated, ``prediction`` whose predictions: ``model`` for the run's own, or
a reference on the same pairs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.config import ScoreSettings
from chronocore.errors import ConfigurationError
from chronocore.identity import derived_seed
from chronocore.inference import bootstrap, class_shares
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.tolerance import above, at_most, below

__all__ = [
    "FORMATS",
    "SMALL_N",
    "TABLES",
    "Evaluation",
    "TableSpec",
    "all_tables",
    "format_table",
    "settings_line",
    "wide",
]

#: Cells with fewer pairs than this are marked.
SMALL_N = 20

FORMATS = ("md", "csv", "latex", "json")

SHIFTED = SHIFTS[1:]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One run on the pairs it is reported for.

    Attributes
    ----------
    run_id, label : str
        The run whose retained pairs these are.
    scores : mapping of str to list of dict
        Score rows by ``prediction``, retained pairs only, sorted by ``pair_id``.
    scored : list of dict
        All complete pairs of the run, retained or not.
    n_timepoints : mapping of str to int
        Available time points by ``pair_id``.
    """

    run_id: str
    label: str
    scores: Mapping[str, list[dict[str, Any]]]
    scored: list[dict[str, Any]]
    n_timepoints: Mapping[str, int]


@dataclass(slots=True)
class _Cells:
    """Collects the rows of one table."""

    name: str
    settings: ScoreSettings
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        evaluation: Evaluation | None,
        prediction: str | None,
        group: str,
        item: str | None,
        measure: str,
        unit: str,
        estimate: float,
        interval: tuple[float, float] | None,
        n: int,
    ) -> None:
        low, high = interval if interval is not None else (float("nan"), float("nan"))
        self.rows.append(
            {
                "run_id": evaluation.run_id if evaluation else None,
                "label": evaluation.label if evaluation else None,
                "prediction": prediction,
                "group": group,
                "item": item,
                "measure": measure,
                "unit": unit,
                "estimate": None if np.isnan(estimate) else float(estimate),
                "low": None if np.isnan(low) else float(low),
                "high": None if np.isnan(high) else float(high),
                "n": n,
            }
        )

    def _seed(self, evaluation: Evaluation, group: str, item: str | None) -> int:
        # A cell's stream depends on what the cell is, never on which other cells exist. All
        # predictions for the same pairs share it: equal rows get equal intervals.
        return derived_seed(self.settings.seed, self.name, evaluation.run_id, group, item or "")

    def statistic(
        self,
        evaluation: Evaluation,
        prediction: str,
        group: str,
        item: str | None,
        measure: str,
        unit: str,
        values: Sequence[float] | NDArray[np.float64],
        statistic: str,
        scale: float = 1.0,
    ) -> None:
        """Add the mean or median of a cell."""
        sample = np.asarray(values, dtype=np.float64)
        result = bootstrap(
            sample,
            statistic,
            n_resamples=self.settings.resamples,
            confidence_level=self.settings.confidence_level,
            seed=self._seed(evaluation, group, item),
        )
        low, high = result.confidence_interval
        self.add(
            evaluation,
            prediction,
            group,
            item,
            measure,
            unit,
            result.estimate * scale,
            (low * scale, high * scale),
            len(sample),
        )

    def shares(
        self,
        evaluation: Evaluation,
        prediction: str,
        group: str,
        item: str | None,
        categories: Iterable[str],
        values: Sequence[str],
    ) -> None:
        """Add the percentage of each category; all categories share the resamples."""
        names = list(categories)
        codes = [names.index(value) for value in values]
        result = class_shares(
            codes,
            len(names),
            n_resamples=self.settings.resamples,
            confidence_level=self.settings.confidence_level,
            seed=self._seed(evaluation, group, item),
        )
        low, high = result.confidence_interval
        for j, name in enumerate(names):
            self.add(
                evaluation, prediction, group, item, name, "%",
                result.estimate[j] * 100, (low[j] * 100, high[j] * 100), len(codes),
            )  # fmt: skip

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=schema.TABLE)


def _column(rows: list[dict[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _by_shift(
    rows: list[dict[str, Any]], shifts: Sequence[str], everything: str | None = None
) -> list[tuple[str, list[dict[str, Any]]]]:
    groups = [(shift, [row for row in rows if row["shift"] == shift]) for shift in shifts]
    if everything is not None:
        groups.append((everything, [row for row in rows if row["shift"] in shifts]))
    return groups


def _composition(cells: _Cells, pairs: list[dict[str, Any]], _: list[Evaluation]) -> None:
    surveys = list(dict.fromkeys(pair["survey"] for pair in pairs))
    for survey in [*surveys, "all"]:
        members = [pair for pair in pairs if survey in (pair["survey"], "all")]
        for shift in SHIFTS:
            count = sum(pair["shift"] == shift for pair in members)
            cells.add(None, None, survey, None, shift, "pairs", count, None, len(members))
        cells.add(None, None, survey, None, "total", "pairs", len(members), None, len(members))


def _retention(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        surveys = list(dict.fromkeys(row["survey"] for row in evaluation.scored))
        for survey in [*sorted(surveys), "all"]:
            members = [row for row in evaluation.scored if survey in (row["survey"], "all")]
            retained = sum(row["retained"] for row in members)
            cells.add(
                evaluation, "model", survey, None, "scored", "pairs", len(members), None,
                len(members),
            )  # fmt: skip
            cells.add(
                evaluation, "model", survey, None, "retained", "pairs", retained, None,
                len(members),
            )  # fmt: skip


def _accuracy(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    outcomes = ("both", "older_only", "newer_only", "neither")
    for evaluation in evaluations:
        for prediction, rows in evaluation.scores.items():
            for group, members in _by_shift(rows, SHIFTS, "all"):
                values = [row["outcome"] for row in members]
                cells.shares(evaluation, prediction, group, None, outcomes, values)


def _own(evaluation: Evaluation) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """Return the predictions that can change with the year."""
    static = ("uniform", "undated_both")
    return ((p, rows) for p, rows in evaluation.scores.items() if p not in static)


def _alignment(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    categories = ("separated", "older_aligned", "newer_aligned", "reversed", "tied")
    for evaluation in evaluations:
        for prediction, rows in evaluation.scores.items():
            for group, members in _by_shift(rows, SHIFTED, "all_shifted"):
                values = [row["alignment"] for row in members]
                cells.shares(evaluation, prediction, group, None, categories, values)


def _change(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        for prediction, rows in _own(evaluation):
            for group, members in _by_shift(rows, SHIFTED, "all_shifted"):
                shifts = _column(members, "d_m")
                zero = at_most(shifts, 0.0)
                where = (evaluation, prediction, group, None)
                cells.statistic(*where, "zero_shift", "%", zero.astype(float), "proportion", 100.0)
                ratio = _column(members, "ratio")[~zero]
                cosine = _column(members, "cosine")[~zero]
                cosine = cosine[np.isfinite(cosine)]
                cells.statistic(*where, "median_ratio", "ratio", ratio, "median")
                cells.statistic(*where, "median_cosine", "cosine", cosine, "median")
                right = above(cosine, 0.0).astype(float)
                cells.statistic(*where, "right_direction", "%", right, "proportion", 100.0)


def _ratios(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        for prediction, rows in _own(evaluation):
            for group, members in _by_shift(rows, SHIFTED):
                ratio = _column(members, "ratio")
                nonzero = above(_column(members, "d_m"), 0.0)
                where = (evaluation, prediction, group, None)
                cells.statistic(*where, "nonzero_shift", "ratio", ratio[nonzero], "median")
                cells.statistic(*where, "all_pairs", "ratio", ratio, "median")


def _stability(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    categories = ("preserves", "small_drift", "large_drift")
    for evaluation in evaluations:
        for prediction, rows in _own(evaluation):
            values = [row["stability"] for row in rows if row["shift"] == "stable"]
            cells.shares(evaluation, prediction, "stable", None, categories, values)


def _default_year(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    places = ("oldest", "intermediate", "newest")
    for evaluation in evaluations:
        for prediction, rows in evaluation.scores.items():
            if prediction == "undated_both":
                continue  # its undated prediction is the model's own
            counts = [evaluation.n_timepoints[row["pair_id"]] for row in rows]
            credits = {place: np.zeros(len(rows)) for place in places}
            for index, row in enumerate(rows):
                years = row["default_years"]
                for year in years:
                    place = (
                        "oldest"
                        if year == row["year_old"]
                        else "newest"
                        if year == row["year_new"]
                        else "intermediate"
                    )
                    credits[place][index] += 1 / len(years)
            available = np.array(counts)
            for group, inside in (
                ("two", available == 2),
                ("three_or_more", available >= 3),
                ("all", available >= 2),
            ):
                where = (evaluation, prediction, group)
                for place in places:
                    if group == "two" and place == "intermediate":
                        continue
                    cells.statistic(
                        *where, "observed", place, "%", credits[place][inside], "mean", 100.0
                    )
                    own = available[inside].astype(float)
                    chance = (own - 2) / own if place == "intermediate" else 1 / own
                    baseline = float(chance.mean() * 100) if len(own) else float("nan")
                    cells.add(
                        *where, "equal_choice", place, "%", baseline, None, int(inside.sum())
                    )  # fmt: skip


def _naming(
    cells: _Cells, evaluation: Evaluation, prediction: str, group: str, rows: list[dict[str, Any]]
) -> None:
    for item in ("older", "newer"):
        end = {"older": "old", "newer": "new"}[item]
        benefit = _column(rows, f"benefit_{end}")
        where = (evaluation, prediction, group, item)
        cells.statistic(*where, "mean_benefit", "W x 100", benefit, "mean", 100.0)
        helped, hurt = above(benefit, 0.0), below(benefit, 0.0)
        for measure, hits in (
            ("helped", helped),
            ("unchanged", ~helped & ~hurt),
            ("hurt", hurt),
            ("identical", _column(rows, f"identical_{end}") > 0.5),
        ):
            cells.statistic(*where, measure, "%", hits.astype(float), "proportion", 100.0)


def _naming_overall(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        for prediction, rows in _own(evaluation):
            _naming(cells, evaluation, prediction, "all", rows)


def _naming_by_shift(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        for prediction, rows in _own(evaluation):
            for group, members in _by_shift(rows, SHIFTS):
                _naming(cells, evaluation, prediction, group, members)


def _nearest(cells: _Cells, _: list[dict[str, Any]], evaluations: list[Evaluation]) -> None:
    for evaluation in evaluations:
        counts = sorted({evaluation.n_timepoints[row["pair_id"]] for row in evaluation.scored})
        for count in counts:
            values = [
                row["nearest_distance"]
                for row in evaluation.scored
                if evaluation.n_timepoints[row["pair_id"]] == count
            ]
            cells.statistic(
                evaluation, "model", f"{count}", None, "median_nearest_distance", "W", values,
                "median",
            )  # fmt: skip


Builder = Callable[[_Cells, list[dict[str, Any]], list[Evaluation]], None]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a table holds and how it is laid out.

    Attributes
    ----------
    name, title : str
    finding : str
        ``benchmark``, ``filter``, ``RF1``, ``RF2`` or ``RF3``.
    note : str
        How to read it.
    group : str
        Heading of the column ``group``.
    """

    name: str
    title: str
    finding: str
    note: str
    group: str
    build: Builder


TABLES: Mapping[str, TableSpec] = {
    spec.name: spec
    for spec in (
        TableSpec(
            "t01", "Temporal pairs by human shift", "benchmark",
            "Number of pairs in each shift class, by survey.", "survey", _composition,
        ),
        TableSpec(
            "t06", "Knowledge filter: retained pairs", "filter",
            "Pairs scored and retained, by survey.", "survey", _retention,
        ),
        TableSpec(
            "nearest", "Nearest-survey distance by available time points", "filter",
            "Median distance of the undated prediction to its nearest time point, before the "
            "filter.", "time points", _nearest,
        ),
        TableSpec(
            "t08", "RF1: accuracy by human shift", "RF1",
            "Pairs whose predictions are within the tolerance of gold for both years, one of "
            "them, or neither; references on the same pairs.", "human shift", _accuracy,
        ),
        TableSpec(
            "t10", "RF1: which year's gold the predictions are closer to", "RF1",
            "Separated: each prediction is closer to its own year. Shifted pairs only.",
            "human shift", _alignment,
        ),
        TableSpec(
            "t11", "RF2: magnitude and direction of the predicted change", "RF2",
            "Ratio and cosine are medians over pairs with nonzero predicted change; right "
            "direction is the share of them with a positive cosine.", "human shift", _change,
        ),
        TableSpec(
            "t12", "RF2: median magnitude ratio with and without identical predictions", "RF2",
            "Predicted change divided by observed change.", "human shift", _ratios,
        ),
        TableSpec(
            "t13", "RF2: stability and false drift on stable pairs", "RF2",
            "Preserves: the predicted change stays within the stable boundary; large drift from "
            "0.10 on.", "human shift", _stability,
        ),
        TableSpec(
            "t16", "RF3: default year of undated predictions", "RF3",
            "The year whose gold is nearest, beside the share expected if every available year "
            "were equally likely.", "available years", _default_year,
        ),
        TableSpec(
            "t17", "RF3: overall effect of naming a year", "RF3",
            "Benefit: reduction of the distance to gold; helped, unchanged and hurt sum to 100.",
            "human shift", _naming_overall,
        ),
        TableSpec(
            "t18", "RF3: effect of naming a year by human shift", "RF3",
            "Benefit: reduction of the distance to gold.", "human shift", _naming_by_shift,
        ),
    )
}  # fmt: skip


#: Key of the Parquet metadata under which a table carries the settings it was made with.
SETTINGS_METADATA = b"chronocore.settings"


def settings_line(settings: Mapping[str, Any]) -> str:
    """Return the settings of tables in one sentence.

    Examples
    --------
    >>> settings_line(
    ...     {"tau": 0.1, "retain": 0.75, "boundaries": "default", "resamples": 1000,
    ...      "confidence_level": 0.95, "seed": 0}
    ... )
    'Tolerance 0.1; 75% of pairs retained; shift boundaries 0.03, 0.1, 0.2; 95% bootstrap \
intervals from 1,000 resamples, seed 0.'
    """
    boundaries = settings["boundaries"]
    values = BOUNDARIES[boundaries] if isinstance(boundaries, str) else boundaries
    return (
        f"Tolerance {settings['tau']:g}; {settings['retain'] * 100:g}% of pairs retained; "
        f"shift boundaries {', '.join(f'{value:g}' for value in values)}; "
        f"{settings['confidence_level'] * 100:g}% bootstrap intervals from "
        f"{settings['resamples']:,} resamples, seed {settings['seed']}."
    )


def all_tables(
    pairs: pa.Table,
    evaluations: list[Evaluation],
    settings: ScoreSettings,
    boundaries: str | Sequence[float] = "default",
) -> dict[str, pa.Table]:
    """Compute every table.

    Parameters
    ----------
    pairs : pyarrow.Table
        All pairs of the benchmark.
    evaluations : list of Evaluation
    settings : ScoreSettings
        Number of resamples, confidence level and seed of the intervals.
    boundaries : str or three floats
        Shift boundaries in force; like ``settings``, kept in the metadata of each table.

    Returns
    -------
    dict of str to pyarrow.Table
        Schema :data:`chronocore.schema.TABLE`, by name.
    """
    pair_rows = pairs.select(["survey", "shift"]).to_pylist()
    used = {**msgspec.to_builtins(settings), "boundaries": msgspec.to_builtins(boundaries)}
    tables: dict[str, pa.Table] = {}
    for name, spec in TABLES.items():
        cells = _Cells(name, settings)
        spec.build(cells, pair_rows, evaluations)
        table = cells.table()
        metadata = {**table.schema.metadata, SETTINGS_METADATA: json.dumps(used).encode()}
        tables[name] = table.replace_schema_metadata(metadata)
    return tables


# -- rendering ---------------------------------------------------------------------------------

_WORDS = {
    "very_strong": "very strong",
    "all_shifted": "all shifted",
    "older_only": "older only",
    "newer_only": "newer only",
    "older_aligned": "older-aligned",
    "newer_aligned": "newer-aligned",
    "zero_shift": "zero shift",
    "median_ratio": "median ratio",
    "median_cosine": "median cosine",
    "right_direction": "right direction",
    "nonzero_shift": "nonzero shift",
    "all_pairs": "all pairs",
    "small_drift": "small drift",
    "large_drift": "large drift",
    "three_or_more": "three or more",
    "equal_choice": "equal choice",
    "mean_benefit": "mean benefit",
    "undated_both": "undated for both",
    "median_nearest_distance": "median distance",
}


def words(key: str | None) -> str:
    """Return a key as a person reads it."""
    return "" if key is None else _WORDS.get(key, key)


def number(value: float | None, unit: str, digits: int | None = None) -> str:
    """Return a number with the digits its unit deserves; a missing one is a dash."""
    if value is None:
        return "–"
    if digits is None:
        digits = {"%": 1, "pairs": 0, "W x 100": 2}.get(unit, 3 if unit == "W" else 2)
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


@dataclass(frozen=True, slots=True)
class WideTable:
    """A table as a person reads it: one row a group, one column a measure.

    ``cells`` hold (estimate, interval, n) as text; the interval is empty where there is none.
    ``caption`` says how to read the table and with which settings it was made.
    """

    spec: TableSpec
    header: list[str]
    index: list[list[str]]
    measures: list[str]
    cells: list[list[tuple[str, str, str]]]
    caption: str


def _caption(spec: TableSpec, table: pa.Table, rows: list[dict[str, Any]]) -> str:
    parts = [spec.note]
    intervals = [row for row in rows if row["low"] is not None]
    if any(0 < row["n"] < SMALL_N for row in intervals):
        parts.append(f"* fewer than {SMALL_N} pairs.")
    if any(row["low"] == row["high"] and row["unit"] == "%" for row in intervals):
        parts.append(
            "An interval without width: all pairs of the cell agree, which resampling cannot vary."
        )
    used = (table.schema.metadata or {}).get(SETTINGS_METADATA)
    if used is not None and intervals:
        parts.append(settings_line(json.loads(used)))
    return " ".join(parts)


def wide(name: str, table: pa.Table) -> WideTable:
    """Lay a tidy table out as a person reads it."""
    spec = TABLES[name]
    rows = table.to_pylist()
    dimensions = [
        dimension
        for dimension in ("label", "prediction", "group", "item")
        if any(row[dimension] is not None for row in rows)
    ]
    if {row["prediction"] for row in rows} <= {"model", None}:
        dimensions = [d for d in dimensions if d != "prediction"]
    if len({row["group"] for row in rows}) == 1:
        dimensions = [d for d in dimensions if d != "group"]
    heads = {"label": "run", "prediction": "prediction", "group": spec.group, "item": "naming"}
    if name == "t16":
        heads["item"] = "share"
    measures: dict[str, str] = {}
    grid: dict[tuple[Any, ...], dict[str, tuple[str, str, str]]] = {}
    for row in rows:
        unit = row["unit"]
        head = words(row["measure"]) + (
            "" if unit in ("pairs", "ratio", "cosine") else f" ({unit})"
        )
        measures.setdefault(row["measure"], head.replace("W x 100", "W × 100"))
        key = tuple(row[d] for d in dimensions)
        interval = (
            ""
            if row["low"] is None
            else f"[{number(row['low'], unit)}, {number(row['high'], unit)}]"
        )
        mark = "*" if 0 < row["n"] < SMALL_N and unit != "pairs" else ""
        cell = (number(row["estimate"], unit), interval, f"{row['n']}{mark}")
        grid.setdefault(key, {})[row["measure"]] = cell
    return WideTable(
        spec=spec,
        header=[heads[d] for d in dimensions],
        index=[[words(part) for part in key] for key in grid],
        measures=list(measures.values()),
        cells=[[line.get(m, ("–", "", "")) for m in measures] for line in grid.values()],
        caption=_caption(spec, table, rows),
    )


def _flat(layout: WideTable) -> tuple[list[str], list[list[str]]]:
    """Return header and lines with interval and n inside the cells."""
    counts = layout.cells and all(
        len({cell[2] for cell in line if cell[2]}) <= 1 for line in layout.cells
    )
    plain = all(not cell[1] for line in layout.cells for cell in line)
    header = [*layout.header, *(["n"] if counts and not plain else []), *layout.measures]
    lines = []
    for index, line in zip(layout.index, layout.cells, strict=True):
        n = next((cell[2] for cell in line if cell[2]), "")
        texts = []
        for estimate, interval, own in line:
            text = f"{estimate} {interval}".strip()
            texts.append(text if counts or plain or not own else f"{text} n={own}")
        lines.append([*index, *([n] if counts and not plain else []), *texts])
    return header, lines


def format_table(name: str, table: pa.Table, form: str) -> str:
    """Return a table as text.

    Parameters
    ----------
    name : str
        A key of :data:`TABLES`.
    table : pyarrow.Table
        The tidy table.
    form : {"md", "csv", "latex", "json"}
        ``csv`` and ``json`` hold the tidy rows in full precision, the others the layout of a
        page.
    """
    if form == "json":
        return json.dumps(table.to_pylist(), ensure_ascii=False, indent=2) + "\n"
    if form == "csv":
        sink = io.StringIO()
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(list(row.values()) for row in table.to_pylist())
        return sink.getvalue()
    if form not in FORMATS:
        raise ConfigurationError(f"unknown format {form!r}; known: {', '.join(FORMATS)}")
    layout = wide(name, table)
    header, lines = _flat(layout)
    note = layout.caption
    if form == "md":

        def escape(text: str) -> str:
            return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

        body = [header, ["---"] * len(header), *lines]
        text = "\n".join("| " + " | ".join(map(escape, line)) + " |" for line in body)
        return f"**{name}. {layout.spec.title}**\n\n{text}\n\n{note}\n"
    return _latex(name, layout.spec.title, note, header, lines, len(layout.header))


_LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
        "−": "$-$", "×": r"$\times$", "–": "--",
    }
)  # fmt: skip


def _latex(
    name: str, title: str, note: str, header: list[str], lines: list[list[str]], n_index: int
) -> str:
    columns = "l" * n_index + "r" * (len(header) - n_index)
    rows = [" & ".join(cell.translate(_LATEX) for cell in line) + r" \\" for line in lines]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(cell.translate(_LATEX) for cell in header) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{title.translate(_LATEX)}. {note.translate(_LATEX)}}}",
            rf"\label{{tab:{name}}}",
            r"\end{table}",
            "",
        ]
    )
