"""How often intervals and tests hold in whole studies without a difference or a change.

What is simulated goes the way of a study's own data: predictions through ``pair_scores`` and the
table ``differences``, microdata through ``cc.build``, ``cc.noise`` and the redraws of gold.
``chronocore_bench.coverage`` runs it and writes the table.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chronocore as cc
from chronocore.arrow import Rows
from chronocore.config import Columns, ScoreSettings, Source, StudyConfig
from chronocore.effective_size import effective_sizes, respondents
from chronocore.intervals import cell_interval, exact_share
from chronocore.redraws import GoldRedraws
from chronocore.scores import PairPredictions, pair_predictions, pair_scores
from chronocore.store import Study
from chronocore.tables import TABLES, Benchmark, Cells, Context, Evaluation
from chronocore.tolerance import at_least, at_most

__all__ = ["StudyResult", "StudyRow", "studies_without_a_difference"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Pairs by class of shift, about those of the open sample.
CLASSES = (52, 60, 14, 3)
_SHIFTS = (0.02, 0.13, 0.30, 0.55)
_OPTIONS = 4
_COUNTRIES = 65
_RESPONDENTS = 900


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One figure of one kind of study.

    Attributes
    ----------
    case, what : str
    expected : str
        What it should be, as text.
    share, standard_error : float
        Of the studies, pairs or samples, and its Monte-Carlo standard error.
    """

    case: str
    what: str
    expected: str
    share: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class StudyResult:
    """Figures of studies without a difference, and how many were simulated.

    Attributes
    ----------
    rows : dict of str to list of StudyRow
        By the table they stand in.
    studies, surveys, samples, seed : int
    """

    rows: dict[str, list[StudyRow]]
    studies: int
    surveys: int
    samples: int
    seed: int

    def markdown(self, table: str) -> str:
        """Return a table in Markdown."""
        lines = ["| simulated | counted | should be | is |", "| --- | --- | ---: | ---: |"]
        previous = ""
        for row in self.rows[table]:
            text = f"{100 * row.share:.1f} ± {100 * row.standard_error:.1f}"
            case = row.case if row.case != previous else ""
            lines.append(f"| {case} | {row.what} | {row.expected} | {text} |")
            previous = row.case
        size = {
            "study table": f"{self.studies:,} studies of 129 pairs each, 1,000 resamples",
            "survey table": f"{self.surveys:,} builds of each kind of survey (gold error: "
            f"{_fewer(self.surveys):,}), {_PLACES * _QUESTIONS} unchanged pairs each",
            "share table": f"{self.samples:,} cells each, 1,000 resamples",
        }[table]
        tail = f"In %, ± Monte-Carlo standard error; {size}; seed {self.seed}."
        return "\n".join([*lines, "", tail])


def _fewer(surveys: int) -> int:
    return max(surveys // 4, 1)


def _row(case: str, what: str, expected: str, hits: NDArray[np.bool_] | list[bool]) -> StudyRow:
    share = float(np.mean(hits))
    return StudyRow(case, what, expected, share, math.sqrt(share * (1 - share) / len(hits)))


# -- models that do not differ ---------------------------------------------------------------------


def _opinions(rng: np.random.Generator) -> pa.Table:
    """Return microdata of two questions in 65 countries: the pairs of the open sample by class."""
    shifts = rng.permutation(np.repeat(_SHIFTS, CLASSES))
    columns: dict[str, list[NDArray[np.generic]]] = {
        name: [] for name in ("country", "year", "trust", "pride")
    }
    for country in range(_COUNTRIES):
        start = rng.dirichlet(np.full(_OPTIONS, 8.0), 2)
        for year in (2000, 2010):
            columns["country"].append(np.full(_RESPONDENTS, country + 1))
            columns["year"].append(np.full(_RESPONDENTS, year))
            for q, name in enumerate(("trust", "pride")):
                shares = start[q].copy()
                place = q * _COUNTRIES + country
                if place == len(shifts):
                    shares[:] = np.nan
                elif year == 2010:
                    # From the first options to the last: the shift, in units of the whole scale.
                    moved = float(shifts[place])
                    shares = (1 - moved) * shares
                    shares[-1 if start[q] @ np.arange(_OPTIONS) < 1.5 else 0] += moved
                columns[name].append(_answers(shares))
    return pa.table(
        {name: pa.array(np.concatenate(parts), from_pandas=True) for name, parts in columns.items()}
    )


def _answers(shares: Floats) -> Floats:
    """Return the answers of so many respondents in these shares; NaN where nobody was asked."""
    if np.isnan(shares).any():
        return np.full(_RESPONDENTS, np.nan)
    counts = np.floor(np.cumsum(shares) * _RESPONDENTS + 0.5).astype(int)
    counts[-1] = _RESPONDENTS
    return np.repeat(np.arange(1.0, _OPTIONS + 1), np.diff(counts, prepend=0))


def _built(folder: Path, frame: pa.Table, n_options: int, **roles: str) -> Study:
    """Build a study of a frame whose questions all have options 1 to ``n_options``."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = [name for name in frame.column_names if name not in roles.values()]
    lines = ["variable,text,code,label"]
    lines += [
        f"{name},How much {name}?,{k},step {k}"
        for name in questions
        for k in range(1, n_options + 1)
    ]
    catalog = folder / "catalog.csv"
    catalog.write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = Source(
        preset="generic", file="f", items=str(catalog), survey="simulated",
        columns=Columns(**roles),
    )  # fmt: skip
    config = StudyConfig(sources=[source])
    return cc.build(folder / "study", config=config, frames={"f": frame}).study


class _EqualModels:
    """Models whose errors have one law, on the pairs of one study."""

    def __init__(self, study: Study) -> None:
        cc.predict(study, "reference:uniform")
        run = study.runs().to_pylist()[0]
        pairs, gold, items = study.pairs(), study.gold(), study.items()
        self.benchmark = Benchmark(pairs, gold, items)
        self.data = pair_predictions(
            pairs, gold, items, study.prompts(), study.predictions(run["run_id"])
        )
        self.gold = [
            own.values[own.starts[:, None] + np.arange(_OPTIONS)]
            for own in (self.data.gold_old, self.data.gold_new)
        ]
        self.country = self.benchmark.country.codes

    def draw(self, rng: np.random.Generator, models: int, clustered: bool) -> list[PairPredictions]:
        """Return predictions: what makes a pair hard is common, the rest is each model's own."""
        n = len(self.data)
        hard = 0.35 * rng.beta(1.5, 2.0, (n, 1))
        common = rng.dirichlet(np.full(_OPTIONS, 0.8), n)
        found = []
        for _ in range(models):
            pull = rng.beta(2.0, 2.0, (n, 1))
            if clustered:
                pull = 0.3 * pull + 0.7 * rng.random((_COUNTRIES, 1))[self.country]
            ends = []
            mean = (self.gold[0] + self.gold[1]) / 2
            for own in self.gold:
                error = rng.dirichlet(np.full(_OPTIONS, 0.8), n)
                small = 0.2 * rng.random((n, 1))
                right = (1 - pull) * own + pull * mean
                ends.append((1 - hard) * ((1 - small) * right + small * error) + hard * common)
            # One answer for both years, in a quarter of the pairs.
            ends[1] = np.where(rng.random((n, 1)) < 0.25, ends[0], ends[1])
            undated = 0.8 * (ends[0] + ends[1]) / 2
            undated += 0.2 * rng.dirichlet(np.full(_OPTIONS, 0.8), n)
            found.append(
                replace(self.data, old=_rows(ends[0]), new=_rows(ends[1]), undated=_rows(undated))
            )
        return found

    def all_hold(self, rng: np.random.Generator, models: int, clustered: bool) -> bool:
        """Return whether every interval of the table ``differences`` holds zero."""
        evaluations = []
        for number, data in enumerate(self.draw(rng, models, clustered)):
            scores = pair_scores(data, is_reference=True)
            evaluations.append(Evaluation(f"r{number}", f"m{number}", {"model": scores}, scores))
        settings = ScoreSettings(seed=int(rng.integers(2**62)))
        if clustered:
            settings = msgspec.structs.replace(settings, cluster="country")
        context = Context(self.benchmark, evaluations, settings)
        cells = Cells("differences", context)
        TABLES["differences"].build(cells, context)
        rows = cells.table().to_pylist()
        return all(
            bool(at_most(row["low"], 0.0) & at_least(row["high"], 0.0))
            for row in rows
            if row["low"] is not None
        )


def _rows(shares: Floats) -> Rows:
    n, k = shares.shape
    return Rows(shares.reshape(-1), np.arange(n) * k, np.full(n, k), (n,))


def _differences(studies: int, seed: int, progress: Callable[[str], None]) -> Iterator[StudyRow]:
    with tempfile.TemporaryDirectory() as folder:
        study = _built(
            Path(folder), _opinions(np.random.default_rng(seed)), _OPTIONS, country="country",
            year="year",
        )  # fmt: skip
        equal = _EqualModels(study)
        for models, clustered in ((2, False), (4, False), (6, False), (6, True)):
            units = "countries" if clustered else "pairs"
            progress(f"differences of {models} equal models, {units} resampled")
            rng = np.random.default_rng([seed, models, clustered])
            held = [equal.all_hold(rng, models, clustered) for _ in range(studies)]
            yield _row(
                f"table `differences`, {models} equal models, {units} resampled",
                "studies in which all intervals hold", "95", held,
            )  # fmt: skip


# -- surveys without a change ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Surveys:
    """Surveys of two years between which opinion does not change."""

    name: str
    options: int
    areas: int
    respondents: int
    alike: float
    weights: bool = False
    design: bool = True
    rare: bool = False


_UNCHANGED = (
    _Surveys("60 areas of 20, 2 options", 2, 60, 20, 0.3),
    _Surveys("60 areas of 20, 5 options", 5, 60, 20, 0.3),
    _Surveys("60 areas of 20, 10 options", 10, 60, 20, 0.3),
    _Surveys("60 areas of 20, 5 options, weighted", 5, 60, 20, 0.3, weights=True),
    _Surveys("10 areas of 120, 5 options", 5, 10, 120, 0.1),
    _Surveys(
        "no design, a rare answer of those who weigh most", 2, 1200, 1, 0.0, True, False, True
    ),
)
_PLACES, _QUESTIONS = 12, 6


def _unchanged(rng: np.random.Generator, one: _Surveys) -> pa.Table:
    """Return microdata of two years; respondents of one area are alike, by a latent normal."""
    n = one.areas * one.respondents
    area = np.repeat(np.arange(one.areas), one.respondents)
    cuts = np.sort(rng.normal(0.0, 0.9, (_PLACES, _QUESTIONS, one.options - 1)), axis=2)
    if one.rare:
        cuts = rng.uniform(1.4, 2.0, cuts.shape)
    columns: dict[str, list[NDArray[np.generic]]] = {
        name: [] for name in ("country", "year", "stratum", "psu", "weight")
    }
    columns |= {f"q{q}": [] for q in range(_QUESTIONS)}
    for place in range(_PLACES):
        for year in (2000, 2010):
            columns["country"].append(np.full(n, place + 1))
            columns["year"].append(np.full(n, year))
            columns["stratum"].append(area * 2 // one.areas)
            columns["psu"].append(area)
            kind = rng.normal(size=n)
            columns["weight"].append(np.exp(0.7 * kind) if one.weights else np.ones(n))
            for q in range(_QUESTIONS):
                latent = rng.normal(size=n)
                if one.weights:
                    latent = math.sqrt(0.5) * latent + math.sqrt(0.5) * kind
                lean = rng.normal(size=one.areas)[area]
                latent = math.sqrt(one.alike) * lean + math.sqrt(1 - one.alike) * latent
                columns[f"q{q}"].append(1 + np.searchsorted(cuts[place, q], latent))
    return pa.table({name: np.concatenate(parts) for name, parts in columns.items()})


def _noise(studies: int, seed: int, progress: Callable[[str], None]) -> Iterator[StudyRow]:
    for place, one in enumerate(_UNCHANGED):
        progress(f"noise floor: {one.name}")
        p_values, kish, false, false_kish = [], [], [], []
        for number in range(studies):
            rng = np.random.default_rng([seed, place, number])
            with tempfile.TemporaryDirectory() as folder:
                frame = _unchanged(rng, one)
                roles = {"country": "country", "year": "year", "weight": "weight"}
                if one.design:
                    roles |= {"stratum": "stratum", "psu": "psu"}
                else:
                    frame = frame.drop_columns(["stratum", "psu"])
                study = _built(Path(folder), frame, one.options, **roles)
                cc.noise(study, repeats=20, floor_repeats=4000, seed=number)
                own = study.noise("500").to_pydict()
                p_values += own["p_value"]
                false.append(any(own["detected"]))
                if not one.design:
                    continue
                pairs = study.pairs()
                sizes = np.stack(
                    [respondents(pairs[f"n_eff_{end}"]) for end in ("old", "new")], axis=1
                )
                by_weights = cc.noise_floor(
                    pairs["gold_old"], pairs["gold_new"], n=sizes, repeats=4000, seed=number
                ).p_value
                kish += by_weights.tolist()
                false_kish.append(bool((cc.false_discovery(by_weights) <= 0.05).any()))
        case = f"noise floor, {one.name}"
        for level in (0.05, 0.01):
            hits = [bool(at_most(p, level)) for p in p_values]
            yield _row(case, f"unchanged pairs with p ≤ {level:g}", f"{100 * level:g}", hits)
        yield _row(case, "studies with a false discovery at a rate of 5 %", "≤ 5", false)
        if kish:
            hits = [bool(at_most(p, 0.05)) for p in kish]
            yield _row(case, "p ≤ 0.05 by weights alone", "5", hits)
            yield _row(case, "false discovery by weights alone", "≤ 5", false_kish)


def _gold_error(studies: int, seed: int, progress: Callable[[str], None]) -> Iterator[StudyRow]:
    """Redraws of gold spread as surveys of the design do, by effective size of the shares."""
    for place, one in enumerate(_UNCHANGED[:3]):
        progress(f"gold error: {one.name}")
        held: dict[str, list[bool]] = {"design": [], "weights": []}
        for number in range(studies):
            rng = np.random.default_rng([seed, 100 + place, number])
            with tempfile.TemporaryDirectory() as folder:
                roles = {name: name for name in ("country", "year", "weight", "stratum", "psu")}
                study = _built(Path(folder), _unchanged(rng, one), one.options, **roles)
                gold = study.gold()
            kish = gold.set_column(
                gold.column_names.index("n_eff_design"), "n_eff_design",
                pa.nulls(len(gold), pa.float64()),
            )  # fmt: skip
            # Two surveys of one opinion: each mean lies within the other's error, drawn again.
            means = _means(gold)
            for name, table in (("design", gold), ("weights", kish)):
                sizes = effective_sizes(table).respondents
                spread = _spread_of_redraws(GoldRedraws(table, seed=number), len(sizes))
                difference = np.abs(means[1::2] - means[::2])
                half = 1.96 * np.sqrt(spread[::2] ** 2 + spread[1::2] ** 2)
                held[name] += (difference <= half).tolist()
        case = f"gold error, {one.name}"
        for name, hits in held.items():
            what = "by design" if name == "design" else "by weights alone"
            yield _row(case, f"mean answers of the other year within its interval, {what}", "95",
                       hits)  # fmt: skip


def _means(gold: pa.Table) -> Floats:
    return np.array(
        [np.dot(own, np.arange(len(own)) / (len(own) - 1)) for own in gold["probs"].to_pylist()]
    )


def _spread_of_redraws(redraws: GoldRedraws, n: int) -> Floats:
    """Return the standard deviation of the mean answer over the redraws of each time point."""
    shares, starts = redraws.drawn
    k = shares.shape[1] // n
    positions = np.arange(k) / (k - 1)
    means = shares[:, starts[:, None] + np.arange(k)] @ positions
    return np.asarray(means.std(axis=0, ddof=1))


# -- few clusters and shares at the ends -----------------------------------------------------------


def _few_clusters(samples: int, seed: int, progress: Callable[[str], None]) -> Iterator[StudyRow]:
    progress("few clusters")
    rng = np.random.default_rng([seed, 200])
    for clusters in (6, 10, 20, 40):
        held = []
        for _ in range(samples):
            labels = np.repeat(np.arange(clusters), 20)
            chance = rng.beta(3.0, 3.0, clusters)[labels]
            values = (rng.random(len(labels)) < chance).astype(np.float64)
            _, low, high = cell_interval(
                values, "proportion", clusters=labels, seed=int(rng.integers(2**62))
            )
            held.append(bool(at_most(low, 0.5) & at_least(high, 0.5)))
        marked = ", marked" if clusters < 20 else ""
        yield _row(f"share, {clusters} clusters of 20{marked}", "intervals that hold", "95", held)


def _exact_shares(samples: int, seed: int, progress: Callable[[str], None]) -> Iterator[StudyRow]:
    progress("exact shares")
    rng = np.random.default_rng([seed, 300])
    for truth, n in ((0.02, 50), (0.02, 20), (0.1, 20), (0.5, 50)):
        hits = rng.binomial(n, truth, samples)
        low, high = exact_share(hits, n)
        exact = np.asarray(at_most(low, truth) & at_least(high, truth))
        percentile = []
        for count in hits.tolist():
            values = np.zeros(n)
            values[:count] = 1.0
            _, start, end = cell_interval(values, "proportion", seed=int(rng.integers(2**62)))
            percentile.append(bool(at_most(start, truth) & at_least(end, truth)))
        # A share of 0 or 100 % has the exact interval in place of none.
        ends = (hits == 0) | (hits == n)
        default = np.where(ends, exact, percentile)
        case = f"share of {100 * truth:g} %, n = {n}"
        yield _row(case, "percentile intervals that hold", "95", percentile)
        yield _row(case, "with the exact one at 0 and 100 % (default)", "≥ 95", default)
        yield _row(case, 'exact everywhere (`exact_intervals = "all"`)', "≥ 95", exact)


def studies_without_a_difference(
    *,
    studies: int = 300,
    surveys: int = 12,
    samples: int = 1000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda message: None,
) -> StudyResult:
    """Simulate studies and count what holds.

    Parameters
    ----------
    studies : int
        Simulated tables of differences.
    surveys : int
        Simulated builds of each kind of survey, of 72 unchanged pairs each.
    samples : int
        Simulated cells.
    seed : int
        The same seed gives the same figures.
    progress : callable
        Called with a line of text for each case.

    Returns
    -------
    StudyResult
        Tables ``"study table"``, ``"survey table"`` and ``"share table"``.
    """
    rows = {
        "study table": list(_differences(studies, seed, progress)),
        "survey table": [
            *_noise(surveys, seed, progress),
            *_gold_error(_fewer(surveys), seed, progress),
        ],
        "share table": [
            *_few_clusters(samples, seed, progress), *_exact_shares(samples, seed, progress),
        ],
    }  # fmt: skip
    return StudyResult(rows, studies, surveys, samples, seed)
