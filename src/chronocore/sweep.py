"""Robustness: every finding under every combination of the choices that could change it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.claims import CLAIMS
from chronocore.errors import ConfigurationError, StudyError
from chronocore.identity import canonical_json, derived_seed
from chronocore.inference import _ideal_mean, bootstrap, seed_base
from chronocore.intervals import ends
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.predict import prompts_of
from chronocore.scores import ALIGNMENTS, STABILITIES, PairScores, pair_predictions, pair_scores
from chronocore.store import Study
from chronocore.tolerance import above, at_least, at_most
from chronocore_kernels import multinomial, resampling

__all__ = [
    "SUPPORTED",
    "Failure",
    "FindingSummary",
    "SweepProgress",
    "SweepResult",
    "load_sweep",
    "sweep",
    "sweep_cell",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: A finding is supported by its data where it holds in at least this share of the resamples.
SUPPORTED = 0.95

# Failures that a summary lists by name; all of them are in the dataset.
_LISTED = 20

# Up to here the rows of a resample are drawn: they cost less than the law of their mean.
_FEW = 64

_SHIFTED = SHIFTS[1:]


@dataclass(frozen=True, slots=True)
class Failure:
    """A grid cell in which a finding does not hold.

    Attributes
    ----------
    finding, label, instruction, boundaries : str
    tau, retain : float
    seeds : int
        Bootstrap seeds of this cell: whether a finding holds does not depend on them.
    """

    finding: str
    label: str
    instruction: str
    boundaries: str
    tau: float
    retain: float
    seeds: int


@dataclass(frozen=True, slots=True)
class FindingSummary:
    """In how many grid cells a finding holds.

    Attributes
    ----------
    name, finding, statement : str
    cells : int
        Grid cells, each run and bootstrap seed counted.
    holds : int
        Cells whose estimates make the statement true.
    undefined : int
        Cells without pairs for one of its statistics.
    supported : int
        Cells where it is true in at least 95 % of the resamples.
    least_support : float or None
        Smallest share of resamples in which it is true, over all defined cells.
    by_run : dict of str to list of int
        For each run, cells in which it holds and cells in which it is defined.
    """

    name: str
    finding: str
    statement: str
    cells: int
    holds: int
    undefined: int
    supported: int
    least_support: float | None
    by_run: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found.

    Attributes
    ----------
    runs : list of str
        Labels.
    instructions, boundaries : list of str
    tau, retain : list of float
    seeds : list of int
    resamples : int
    confidence_level : float
    cells : int
        Grid cells: combinations of all of these.
    computed : int
        Cells computed by this call; the others were there.
    findings : list of FindingSummary
    failures : list of Failure
        The first cells, in the order of the grid, in which a finding does not hold.
    n_failures : int
        Such cells in all, seeds counted once.
    """

    runs: list[str]
    instructions: list[str]
    boundaries: list[str]
    tau: list[float]
    retain: list[float]
    seeds: list[int]
    resamples: int
    confidence_level: float
    cells: int
    computed: int
    findings: list[FindingSummary]
    failures: list[Failure]
    n_failures: int


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Where a sweep stands: grid cells done, of all, and those that were there before."""

    done: int
    total: int
    skipped: int


@dataclass(frozen=True, slots=True)
class _Statistic:
    """A statistic of a group of pairs with its replicates."""

    finding: str
    unit: str
    estimate: float
    low: float
    high: float
    n: int
    replicates: Floats


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How replicates are drawn: their number, the seed of the stream, and the level of ends."""

    resamples: int
    confidence_level: float
    seed: int
    stream: tuple[str, ...]

    def _seed(self, *parts: str) -> int:
        return derived_seed(self.seed, "sweep", *self.stream, *parts)

    @property
    def _levels(self) -> Floats:
        tail = (1 - self.confidence_level) / 2
        return np.array([tail, 1 - tail])

    def shares(
        self,
        finding: str,
        name: str,
        group: str,
        codes: NDArray[np.integer[Any]],
        classes: Mapping[str, Sequence[int]],
        n_classes: int,
    ) -> dict[tuple[str, str], _Statistic]:
        """Return the share of each class, or union of classes, from multinomial counts."""
        n = len(codes)
        if not n:
            nothing = np.empty(0)
            nan = float("nan")
            return {
                (measure, group): _Statistic(finding, "share", nan, nan, nan, 0, nothing)
                for measure in classes
            }
        counts = np.bincount(codes, minlength=n_classes).astype(np.int64)
        drawn = multinomial.multinomial_counts(
            counts, seed_base(self._seed(name, group)), self.resamples
        )
        found = {}
        for measure, members in classes.items():
            own = np.ascontiguousarray(drawn[list(members)].sum(axis=0, dtype=np.int32))
            ends, _ = resampling.count_quantiles(own[None], n, self._levels)
            found[measure, group] = _Statistic(
                finding, "share", float(counts[list(members)].sum() / n),
                float(ends[0, 0] / n), float(ends[0, 1] / n), n, own / n,
            )  # fmt: skip
        return found

    def median(self, finding: str, measure: str, group: str, values: Floats) -> _Statistic:
        """Return a median from the law of its rank."""
        if not len(values):
            nan = float("nan")
            return _Statistic(finding, "", nan, nan, nan, 0, np.empty(0))
        result = bootstrap(
            values, "median", n_resamples=self.resamples, return_replicates=True, method="rank",
            confidence_level=self.confidence_level, seed=self._seed(measure, group),
        )  # fmt: skip
        low, high = result.confidence_interval
        assert result.replicates is not None
        return _Statistic(finding, "", result.estimate, low, high, len(values), result.replicates)

    def mean(
        self, finding: str, measure: str, group: str, values: Floats, unit: str = "W"
    ) -> _Statistic:
        """Return a mean from its law."""
        if not len(values):
            nan = float("nan")
            return _Statistic(finding, unit, nan, nan, nan, 0, np.empty(0))
        drawn = _mean_replicates(values, self.resamples, self._seed(measure, group))
        low, high = (float(end[0]) for end in ends(drawn[:, None], self.confidence_level))
        return _Statistic(finding, unit, float(values.mean()), low, high, len(values), drawn)


def _mean_replicates(values: Floats, n_resamples: int, seed: int) -> Floats:
    """Return means of resamples: of a few rows that are drawn, of many by their law.

    The law is that of all resamples (``n_resamples=math.inf`` of :func:`chronocore.bootstrap`);
    replicates are its quantiles at uniform numbers.
    """
    if len(values) <= _FEW:
        result = bootstrap(
            values, "mean", n_resamples=n_resamples, return_replicates=True, seed=seed
        )
        assert result.replicates is not None
        return result.replicates
    words = resampling.stream_words(seed_base(seed), n_resamples)
    # The upper 52 bits, in the middle of their cells: never 0 nor 1
    uniforms = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return _ideal_mean(values, uniforms)[0]


def _groups(scores: PairScores) -> dict[str, Flags]:
    groups = {name: scores.shift == code for code, name in enumerate(SHIFTS)}
    groups["strong_plus"] = groups["strong"] | groups["very_strong"]
    groups["all_shifted"] = ~groups["stable"]
    groups["all"] = np.ones(len(scores), dtype=bool)
    return groups


def _accuracy(scores: PairScores, drawing: _Drawing) -> dict[tuple[str, str], _Statistic]:
    """Return the statistics that depend on the tolerance."""
    found: dict[tuple[str, str], _Statistic] = {}
    classes = {"both": (0,), "one_period": (1, 2)}
    for group, inside in _groups(scores).items():
        if group in (*SHIFTS, "all"):
            found |= drawing.shares("RF1", "outcome", group, scores.outcome[inside], classes, 4)
    return found


def _others(scores: PairScores, drawing: _Drawing) -> dict[tuple[str, str], _Statistic]:
    """Return the statistics that do not depend on the tolerance."""
    found: dict[tuple[str, str], _Statistic] = {}
    groups = _groups(scores)
    zero = at_most(scores.d_m, 0.0)
    has_ratio = ~zero & np.isfinite(scores.ratio)
    has_direction = ~zero & np.isfinite(scores.cosine)
    alignment = {
        "separated": (ALIGNMENTS.index("separated"),),
        "same_period": (ALIGNMENTS.index("older_aligned"), ALIGNMENTS.index("newer_aligned")),
        "reversed": (ALIGNMENTS.index("reversed"),),
    }
    for group in (*_SHIFTED, "strong_plus", "all_shifted"):
        inside = groups[group]
        codes = scores.alignment[inside]
        found |= drawing.shares("RF1", "alignment", group, codes, alignment, len(ALIGNMENTS))
        flags = zero[inside].astype(np.int8)
        found |= drawing.shares("RF2", "zero_shift", group, flags, {"zero_shift": (1,)}, 2)
        ratio = scores.ratio[inside & has_ratio]
        found["median_ratio", group] = drawing.median("RF2", "median_ratio", group, ratio)
        cosine = scores.cosine[inside & has_direction]
        found["median_cosine", group] = drawing.median("RF2", "median_cosine", group, cosine)
        right = above(cosine, 0.0).astype(np.int8)
        found |= drawing.shares(
            "RF2", "right_direction", group, right, {"right_direction": (1,)}, 2
        )
    stability = {name: (code,) for code, name in enumerate(STABILITIES)}
    codes = scores.stability[groups["stable"]]
    found |= drawing.shares("RF2", "stability", "stable", codes, stability, len(STABILITIES))
    found["newest_default", "all"] = drawing.mean(
        "RF3", "newest_default", "all", np.ascontiguousarray(scores.credit[:, 2]), "share"
    )
    for group in (*SHIFTS, "all"):
        inside = groups[group]
        for measure, benefit in (
            ("benefit_older", scores.benefit_old),
            ("benefit_newer", scores.benefit_new),
        ):
            found[measure, group] = drawing.mean("RF3", measure, group, benefit[inside])
    gap = (scores.benefit_old - scores.benefit_new)[groups["very_strong"]]
    found["benefit_gap", "very_strong"] = drawing.mean("RF3", "benefit_gap", "very_strong", gap)
    return found


def _rows(found: Mapping[tuple[str, str], _Statistic]) -> Iterator[dict[str, Any]]:
    """Yield one row a statistic, then one a claim."""

    def known(value: float) -> float | None:
        return None if np.isnan(value) else value

    for (measure, group), one in found.items():
        yield {
            "kind": "statistic", "finding": one.finding, "group": group, "measure": measure,
            "unit": one.unit, "estimate": known(one.estimate), "low": known(one.low),
            "high": known(one.high), "n": one.n, "holds": None, "support": None,
        }  # fmt: skip
    estimates = {key: one.estimate for key, one in found.items()}
    replicates = {key: one.replicates for key, one in found.items()}
    for claim in CLAIMS:
        holds = claim.holds(estimates)
        support = None
        if holds is not None:
            inside = claim.holds(replicates)
            support = None if inside is None else float(np.mean(inside))
        yield {
            "kind": "finding", "finding": claim.finding, "group": "all", "measure": claim.name,
            "unit": None, "estimate": None, "low": None, "high": None, "n": None,
            "holds": None if holds is None else bool(holds), "support": support,
        }  # fmt: skip


def sweep_cell(
    scores: PairScores,
    *,
    resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    stream: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Return every statistic of RF1 to RF3 of some pairs, and which findings they make true.

    Parameters
    ----------
    scores : PairScores
        The pairs of the cell, retained ones only, under its tolerance and boundaries.
    resamples : int
        Replicates of each statistic, all from exact laws: the time hardly grows with them.
    confidence_level : float
    seed : int
    stream : tuple of str
        Tells apart what is drawn with one seed.

    Returns
    -------
    list of dict
        The columns of :data:`chronocore.schema.SWEEP` from ``kind`` on.
    """
    drawing = _Drawing(resamples, confidence_level, seed, stream)
    return list(_rows({**_accuracy(scores, drawing), **_others(scores, drawing)}))


# -- the grid --------------------------------------------------------------------------------------


def _text(number: float) -> str:
    return format(Decimal(repr(float(number))).normalize() + 0, "f")


def _boundary_text(chosen: str | Sequence[float]) -> str:
    return chosen if isinstance(chosen, str) else ",".join(_text(value) for value in chosen)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run to sweep over, with what its cells are made from."""

    run_id: str
    label: str
    instruction: str
    elicitation: str
    is_reference: bool
    inputs: str


@dataclass(frozen=True, slots=True)
class _Grid:
    """The choices of a sweep."""

    boundaries: tuple[str | tuple[float, float, float], ...]
    tau: tuple[float, ...]
    retain: tuple[float, ...]
    seeds: tuple[int, ...]
    resamples: int
    confidence_level: float

    def cells(self, run: _Run) -> dict[tuple[str, float, float, int], str]:
        """Return the id of every cell of a run by (boundaries, retain, tau, seed)."""
        ids = {}
        for chosen, retain, tau, seed in product(
            self.boundaries, self.retain, self.tau, self.seeds
        ):
            name = _boundary_text(chosen)
            parts = [
                run.run_id, run.inputs, name, _text(tau), _text(retain), seed, self.resamples,
                _text(self.confidence_level), schema.SCHEMA_VERSION,
            ]  # fmt: skip
            digest = hashlib.sha256(canonical_json(parts).encode()).hexdigest()
            ids[name, retain, tau, seed] = "s" + digest[:16]
        return ids


def _grid(
    boundaries: Sequence[str | Sequence[float]],
    tau: Sequence[float],
    retain: Sequence[float],
    seeds: int,
    seed: int,
    resamples: int,
    confidence_level: float,
) -> _Grid:
    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ConfigurationError(what)

    sets: list[str | tuple[float, float, float]] = []
    for chosen in boundaries:
        if isinstance(chosen, str):
            require(
                chosen in BOUNDARIES,
                f"boundaries {chosen!r} is none of {', '.join(BOUNDARIES)}; or give three numbers",
            )
            sets.append(chosen)
        else:
            values = tuple(float(value) for value in chosen)
            require(
                len(values) == 3 and 0 <= values[0] < values[1] < values[2] <= 1,
                f"boundaries must be three increasing values in [0, 1], not {values}",
            )
            sets.append((values[0], values[1], values[2]))
    require(bool(sets and tau and retain), "a sweep needs boundaries, tau and retain")
    for value in tau:
        require(0 < value <= 1, f"tau must lie in (0, 1], not {value}")
    for value in retain:
        require(0 < value <= 1, f"retain must lie in (0, 1], not {value}")
    require(seeds >= 1, f"seeds must be at least 1, not {seeds}")
    require(0 <= seed < 2**63 - seeds, "seed must be a non-negative integer")
    require(resamples >= 1, f"resamples must be at least 1, not {resamples}")
    require(0 < confidence_level < 1, f"confidence_level must lie in (0, 1): {confidence_level}")
    return _Grid(
        tuple(dict.fromkeys(sets)),
        tuple(dict.fromkeys(map(float, tau))),
        tuple(dict.fromkeys(map(float, retain))),
        tuple(range(seed, seed + seeds)),
        resamples,
        confidence_level,
    )


def _runs(study: Study, instructions: Sequence[str] | None) -> tuple[list[_Run], list[_Run]]:
    """Return all runs of a study that can be swept, and those that were asked for."""
    rows = study.runs().to_pylist()
    if not rows:
        raise StudyError(
            f"{study.path} has no predictions yet; make some with: "
            f"chronocore predict {study.path} --model SPEC"
        )
    models = [row for row in rows if row["engine"] != "reference"]
    chosen = sorted(models or rows, key=lambda row: str(row["label"]))
    files = study.manifest()["files"]
    runs = [
        _Run(
            row["run_id"], row["label"], row["instruction"], row["elicitation"],
            row["engine"] == "reference",
            hashlib.sha256(
                canonical_json([dict(files), study.prediction_digests(row["run_id"])]).encode()
            ).hexdigest()[:16],
        )
        for row in chosen
    ]  # fmt: skip
    if instructions is None:
        return runs, runs
    for name in instructions:
        if name not in {run.instruction for run in runs}:
            raise ConfigurationError(
                f"no run has the instruction {name!r}; make one with: "
                f"chronocore predict {study.path} --model SPEC --instruction {name}"
            )
    return runs, [run for run in runs if run.instruction in instructions]


def sweep(
    study: str | Path | Study,
    *,
    boundaries: Sequence[str | Sequence[float]] = ("tighter", "default", "looser"),
    tau: Sequence[float] = (0.05, 0.10, 0.15, 0.20),
    retain: Sequence[float] = (0.25, 0.50, 0.75, 1.0),
    instructions: Sequence[str] | None = None,
    seeds: int = 1,
    seed: int = 0,
    resamples: int = 1000,
    confidence_level: float = 0.95,
    progress: Callable[[SweepProgress], None] = lambda state: None,
) -> SweepResult:
    """Compute every finding under every combination of choices.

    Parameters
    ----------
    study : path or Study
    boundaries : sequence of str or of three floats
        Sets of shift boundaries.
    tau, retain : sequence of float
        Tolerances of accuracy and shares the knowledge filter keeps, in (0, 1].
    instructions : sequence of str, optional
        Instructions whose runs are swept; by default those of all runs there are.
    seeds : int
        Bootstrap seeds, from ``seed`` on.
    seed : int
        The first of them.
    resamples : int
        Replicates of each statistic. They come from exact laws, so that a hundred thousand cost
        little more than a thousand; some 500 bytes of memory each.
    confidence_level : float
    progress : callable
        Called with :class:`SweepProgress` after every part.

    Returns
    -------
    SweepResult
        The cells themselves are in ``sweep/``, schema :data:`chronocore.schema.SWEEP`: one row a
        statistic, and one a finding with whether it holds and in which share of resamples. Cells
        of other sweeps stay there; those of predictions or pairs that have changed are removed.

    Raises
    ------
    ConfigurationError
        A choice is out of range, or no run has an instruction.
    StudyError
        The study has no predictions, or a run none that can be scored.

    Notes
    -----
    ChronoCulture, appendices C.2, F.1, F.2 and F.3. A sweep that was stopped goes on where it
    stopped: finished cells are recognised by a digest of their settings and of all they were
    computed from. Models are swept; references alone where there is no model, on all pairs.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    grid = _grid(boundaries, tau, retain, seeds, seed, resamples, confidence_level)
    known, runs = _runs(opened, instructions)
    wanted = {run.run_id: grid.cells(run) for run in runs}
    total = sum(len(cells) for cells in wanted.values())
    with opened.lock("sweep"):
        opened.clean_sweep({f"{run.run_id}-{run.inputs}" for run in known})
        there = opened.sweep_cells()
        skipped = sum(cell in there for cells in wanted.values() for cell in cells.values())
        done = skipped
        progress(SweepProgress(done, total, skipped))
        for run in runs:
            missing = {key: cell for key, cell in wanted[run.run_id].items() if cell not in there}
            if not missing:
                continue
            scores = _scores(opened, run)
            for chosen, share in product(grid.boundaries, grid.retain):
                part = {
                    key: cell
                    for key, cell in missing.items()
                    if key[:2] == (_boundary_text(chosen), share)
                }
                if not part:
                    continue
                own = scores.under(chosen)
                if not run.is_reference:
                    own = own.take(own.at(share))
                rows = _part(run, own, part, grid)
                opened.add_sweep_part(f"{run.run_id}-{run.inputs}", rows)
                done += len(part)
                progress(SweepProgress(done, total, skipped))
        result = _summary(opened, runs, wanted, grid, done - skipped)
        opened.write(
            "sweep.json", (json.dumps(msgspec.to_builtins(result), indent=2) + "\n").encode()
        )
    return result


def _scores(study: Study, run: _Run) -> PairScores:
    wording = (run.instruction, run.elicitation)
    data = pair_predictions(
        study.pairs(), study.gold(), study.items(), prompts_of(study, *wording),
        study.predictions(run.run_id), *wording,
    )  # fmt: skip
    try:
        return pair_scores(data, is_reference=run.is_reference)
    except StudyError as error:
        raise StudyError(f"{run.label}: {error}") from None


def _part(
    run: _Run,
    scores: PairScores,
    cells: Mapping[tuple[str, float, float, int], str],
    grid: _Grid,
) -> pa.Table:
    """Return the rows of the cells of one run, one set of boundaries and one retention."""
    rows: list[dict[str, Any]] = []
    boundaries, retain = next(iter(cells))[:2]
    stream = (run.run_id, boundaries, _text(retain))
    for seed in dict.fromkeys(key[3] for key in cells):
        drawing = _Drawing(grid.resamples, grid.confidence_level, seed, stream)
        others = _others(scores, drawing)
        for tau in (key[2] for key in cells if key[3] == seed):
            own = _Drawing(grid.resamples, grid.confidence_level, seed, (*stream, _text(tau)))
            found = {**_accuracy(scores.within(tau), own), **others}
            head = {
                "cell_id": cells[boundaries, retain, tau, seed], "run_id": run.run_id,
                "label": run.label, "instruction": run.instruction, "boundaries": boundaries,
                "tau": tau, "retain": retain, "seed": seed, "resamples": grid.resamples,
            }  # fmt: skip
            rows.extend({**head, **row} for row in _rows(found))
    return pa.Table.from_pylist(rows, schema=schema.SWEEP)


# -- the summary -----------------------------------------------------------------------------------


def _summary(
    study: Study,
    runs: Sequence[_Run],
    wanted: Mapping[str, Mapping[tuple[str, float, float, int], str]],
    grid: _Grid,
    computed: int,
) -> SweepResult:
    ids = {cell for cells in wanted.values() for cell in cells.values()}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in study.sweep_findings().to_pylist():
        if row["cell_id"] in ids:
            found[row["cell_id"], row["measure"]] = row
    summaries = []
    failures: dict[tuple[Any, ...], Failure] = {}
    for claim in CLAIMS:
        holds = undefined = supported = 0
        least: float | None = None
        by_run: dict[str, list[int]] = {run.label: [0, 0] for run in runs}
        for run in runs:
            for (boundaries, retain, tau, _), cell in wanted[run.run_id].items():
                row = found[cell, claim.name]
                if row["holds"] is None:
                    undefined += 1
                    continue
                by_run[run.label][1] += 1
                by_run[run.label][0] += row["holds"]
                holds += row["holds"]
                supported += bool(at_least(row["support"], SUPPORTED))
                least = row["support"] if least is None else min(least, row["support"])
                if not row["holds"]:
                    key = (claim.name, run.run_id, boundaries, tau, retain)
                    failures[key] = Failure(
                        claim.name, run.label, run.instruction, boundaries, tau, retain,
                        len(grid.seeds),
                    )  # fmt: skip
        summaries.append(
            FindingSummary(
                claim.name,
                claim.finding,
                claim.statement,
                len(ids),
                holds,
                undefined,
                supported,
                least,
                by_run,
            )
        )
    return SweepResult(
        runs=[run.label for run in runs],
        instructions=sorted({run.instruction for run in runs}),
        boundaries=[_boundary_text(chosen) for chosen in grid.boundaries],
        tau=list(grid.tau),
        retain=list(grid.retain),
        seeds=list(grid.seeds),
        resamples=grid.resamples,
        confidence_level=grid.confidence_level,
        cells=len(ids),
        computed=computed,
        findings=summaries,
        failures=list(failures.values())[:_LISTED],
        n_failures=len(failures),
    )


def load_sweep(study: Study) -> SweepResult:
    """Return the summary that the last :func:`sweep` wrote.

    Raises
    ------
    StudyError
        The study was not swept yet, or the summary cannot be read.
    """
    path = study.path / "sweep.json"
    again = f"run: chronocore sweep {study.path}"
    try:
        return msgspec.json.decode(path.read_bytes(), type=SweepResult)
    except FileNotFoundError:
        raise StudyError(f"{study.path} was not swept yet; {again}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise StudyError(f"{path} cannot be read ({error}); {again}") from error
