"""Score the runs of a study and compute its tables."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chronocore.config import ScoreSettings
from chronocore.errors import ConfigurationError, StudyError
from chronocore.metrics import BOUNDARIES, retained_count, shift_class
from chronocore.predict import find_run, prompts_of
from chronocore.scores import PairPredictions, pair_predictions, score_pairs
from chronocore.store import Study
from chronocore.tables import TABLES, Evaluation, all_tables, format_table

__all__ = ["RunSummary", "ScoreResult", "load_summary", "score", "tables"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How one run was scored.

    Attributes
    ----------
    run_id, label, model, engine : str
    n_pairs, n_complete, n_retained : int
        Pairs of the study, with three valid predictions, and kept by the knowledge filter.
    statuses : dict of str to int
        Dated and undated answers by status.
    empty_strata : list of str
        Strata so small that the filter keeps none of their pairs.
    """

    run_id: str
    label: str
    model: str
    engine: str
    n_pairs: int
    n_complete: int
    n_retained: int
    statuses: dict[str, int]
    empty_strata: list[str]


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What :func:`score` did.

    Attributes
    ----------
    runs : list of RunSummary
    skipped : dict of str to str
        Label of each run that could not be scored, and why.
    settings : dict
        Thresholds, resamples and seed in force.
    tables : list of str
        Names of the tables written.
    pairs_sha256 : str
        Digest of the pairs that were scored.
    """

    runs: list[RunSummary]
    skipped: dict[str, str]
    settings: dict[str, Any]
    tables: list[str]
    pairs_sha256: str

    def unscored(self, study: Study) -> list[str]:
        """Return the labels of runs that came after these scores."""
        known = {run.label for run in self.runs} | set(self.skipped)
        return [row["label"] for row in study.runs().to_pylist() if row["label"] not in known]


def _uniform(data: PairPredictions) -> PairPredictions:
    rows = [[1.0 / len(support)] * len(support) for support in data.supports]
    return replace(data, old=rows, new=rows, undated=rows)


def _rows(table: pa.Table, pair_ids: set[str] | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows if pair_ids is None else [row for row in rows if row["pair_id"] in pair_ids]


def _empty_strata(table: pa.Table, n_timepoints: dict[str, int], retain: float) -> list[str]:
    if retain >= 1:
        return []
    strata = Counter((row["survey"], n_timepoints[row["pair_id"]]) for row in _rows(table))
    return [
        f"{survey}, {count} time points ({n} pair{'s' if n > 1 else ''})"
        for (survey, count), n in sorted(strata.items())
        if retained_count(retain, n) == 0
    ]


def score(
    study: str | Path | Study,
    *,
    tau: float | None = None,
    retain: float | None = None,
    boundaries: str | Sequence[float] | None = None,
    resamples: int | None = None,
    confidence_level: float | None = None,
    seed: int | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> ScoreResult:
    """Score every run of a study and write its tables.

    Parameters
    ----------
    study : path or Study
    tau : float, optional
        Tolerance of accuracy.
    retain : float, optional
        Share the knowledge filter keeps.
    boundaries : str or three floats, optional
        Shift boundaries; by default the study's.
    resamples : int, optional
        Bootstrap resamples of each interval.
    confidence_level : float, optional
    seed : int, optional
        All of these default to ``[score]`` in ``study.toml``.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    ScoreResult

    Raises
    ------
    StudyError
        The study has no predictions, or none that can be scored.
    ConfigurationError
        A setting is out of range.

    Notes
    -----
    A reference beside models is scored on each model's retained pairs, alone on all pairs
    (definitions, section 5).
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    config = opened.config()
    given = {
        "tau": tau,
        "retain": retain,
        "resamples": resamples,
        "confidence_level": confidence_level,
        "seed": seed,
    }
    settings = msgspec.structs.replace(
        config.score, **{key: value for key, value in given.items() if value is not None}
    )
    _check(settings)
    chosen = boundaries if boundaries is not None else config.rules.boundaries
    if isinstance(chosen, str) and chosen not in BOUNDARIES:
        raise ConfigurationError(
            f"boundaries {chosen!r} is none of {', '.join(BOUNDARIES)}; or give three numbers"
        )
    run_rows = opened.runs().to_pylist()
    if not run_rows:
        raise StudyError(
            f"{opened.path} has no predictions yet; make some with: "
            f"chronocore predict {opened.path} --model reference:uniform"
        )
    pairs, gold, items = opened.pairs(), opened.gold(), opened.items()
    if boundaries is not None:
        pairs = _reclassified(pairs, chosen)
    n_timepoints = dict(
        zip(pairs["pair_id"].to_pylist(), pairs["n_timepoints"].to_pylist(), strict=True)
    )
    scored: dict[str, tuple[dict[str, Any], PairPredictions, pa.Table]] = {}
    summaries: list[RunSummary] = []
    skipped: dict[str, str] = {}
    for run in sorted(run_rows, key=lambda row: (row["engine"] == "reference", row["label"])):
        progress(f"scoring {run['label']}")
        predictions = opened.predictions(run["run_id"])
        wording = (run["instruction"], run["elicitation"])
        prompts = prompts_of(opened, *wording)
        data = pair_predictions(pairs, gold, items, prompts, predictions, *wording)
        try:
            table = score_pairs(
                data,
                tau=settings.tau,
                retain=settings.retain,
                boundaries=chosen,
                is_reference=run["engine"] == "reference",
            )
        except StudyError as error:
            skipped[run["label"]] = str(error)
            continue
        scored[run["run_id"]] = (run, data, table)
        kinds = {p["prompt_id"] for p in prompts.to_pylist() if p["kind"] != "modal"}
        statuses = Counter(
            row["status"]
            for row in predictions.select(["prompt_id", "repeat", "status"]).to_pylist()
            if row["prompt_id"] in kinds and row["repeat"] == 0
        )
        summaries.append(
            RunSummary(
                run_id=run["run_id"],
                label=run["label"],
                model=run["model"],
                engine=run["engine"],
                n_pairs=len(pairs),
                n_complete=len(table),
                n_retained=sum(table["retained"].to_pylist()),
                statuses=dict(statuses.most_common()),
                empty_strata=[]
                if run["engine"] == "reference"
                else _empty_strata(table, n_timepoints, settings.retain),
            )
        )
    if not scored:
        raise StudyError("; ".join(f"{label}: {why}" for label, why in skipped.items()))
    progress("computing tables and intervals")
    evaluations = _evaluations(scored, n_timepoints, settings, chosen)
    results = all_tables(pairs, evaluations, settings, chosen)
    result = ScoreResult(
        runs=summaries,
        skipped=skipped,
        settings={**msgspec.to_builtins(settings), "boundaries": msgspec.to_builtins(chosen)},
        tables=list(results),
        pairs_sha256=opened.manifest()["files"]["pairs.parquet"],
    )
    files: dict[str, bytes | pa.Table] = {
        f"scores/run={run_id}/scores.parquet": table for run_id, (_, _, table) in scored.items()
    }
    for name, table in results.items():
        files[f"tables/{name}.parquet"] = table
        files[f"tables/{name}.csv"] = format_table(name, table, "csv").encode()
        files[f"tables/{name}.md"] = format_table(name, table, "md").encode()
    text = json.dumps(msgspec.to_builtins(result), indent=2, ensure_ascii=False) + "\n"
    opened.save_scores(files, list(scored), text.encode())
    return result


def _check(settings: ScoreSettings) -> None:
    for name, holds, what in (
        ("tau", 0 < settings.tau <= 1, "must lie in (0, 1]"),
        ("retain", 0 < settings.retain <= 1, "must lie in (0, 1]"),
        ("resamples", settings.resamples >= 1, "must be at least 1"),
        ("confidence_level", 0 < settings.confidence_level < 1, "must lie in (0, 1)"),
        ("seed", 0 <= settings.seed < 2**63, "must be a non-negative integer"),
    ):
        if not holds:
            raise ConfigurationError(f"{name} {what}, not {getattr(settings, name)}")


def _reclassified(pairs: pa.Table, boundaries: str | Sequence[float]) -> pa.Table:
    shift = shift_class(pairs["d_h"].to_numpy(), boundaries)
    index = pairs.column_names.index("shift")
    return pairs.set_column(index, pairs.schema.field("shift"), pa.array(shift.tolist()))


def _evaluations(
    scored: dict[str, tuple[dict[str, Any], PairPredictions, pa.Table]],
    n_timepoints: dict[str, int],
    settings: ScoreSettings,
    boundaries: str | Sequence[float],
) -> list[Evaluation]:
    models = {key: entry for key, entry in scored.items() if entry[0]["engine"] != "reference"}
    references = {key: entry for key, entry in scored.items() if entry[0]["engine"] == "reference"}
    evaluations: list[Evaluation] = []

    def static(data: PairPredictions) -> pa.Table:
        return score_pairs(data, tau=settings.tau, boundaries=boundaries, is_reference=True)

    for key, (run, data, table) in models.items():
        retained = {row["pair_id"] for row in _rows(table) if row["retained"]}
        scores = {"model": _rows(table, retained)}
        scores["uniform"] = _rows(static(_uniform(data)), retained)
        undated = replace(data, old=data.undated, new=data.undated)
        scores["undated_both"] = _rows(static(undated), retained)
        for reference, _, reference_table in references.values():
            wording = (reference["instruction"], reference["elicitation"])
            if reference["model"] != "uniform" and wording == ("default", "verbalized"):
                scores[reference["model"]] = _rows(reference_table, retained)
        evaluations.append(Evaluation(key, run["label"], scores, _rows(table), n_timepoints))
    if not models:
        for key, (run, _, table) in references.items():
            rows = _rows(table)
            evaluations.append(Evaluation(key, run["label"], {"model": rows}, rows, n_timepoints))
    return evaluations


def load_summary(study: Study) -> ScoreResult:
    """Return the summary that the last :func:`score` wrote.

    Raises
    ------
    StudyError
        The study was not scored yet.
    """
    path = study.path / "scores.json"
    again = f"run: chronocore score {study.path}"
    try:
        result = msgspec.json.decode(path.read_bytes(), type=ScoreResult)
    except FileNotFoundError:
        raise StudyError(
            f"{study.path} has no scores yet, or a score was stopped; {again}"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise StudyError(f"{path} cannot be read ({error}); {again}") from error
    if result.pairs_sha256 != study.manifest()["files"]["pairs.parquet"]:
        raise StudyError(f"{study.path} was built anew since it was scored; {again}")
    return result


def tables(
    study: str | Path | Study,
    names: str | Sequence[str] | None = None,
    *,
    run: str | None = None,
) -> dict[str, pa.Table]:
    """Return result tables of a scored study.

    Parameters
    ----------
    study : path or Study
    names : str or sequence of str, optional
        Names as in :data:`chronocore.tables.TABLES`; by default all.
    run : str, optional
        Only the rows of the run with this label or id.

    Returns
    -------
    dict of str to pyarrow.Table

    Raises
    ------
    ConfigurationError
        A name is not known.
    StudyError
        The study was not scored yet.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    wanted = [names] if isinstance(names, str) else list(names or TABLES)
    for name in wanted:
        if name not in TABLES:
            padded = f"t{name.lstrip('tT'):0>2}"
            near = [padded] if padded in TABLES else difflib.get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigurationError(
                f"there is no table {name!r}; {hint}known tables: {', '.join(TABLES)}"
            )
    load_summary(opened)
    results = {name: opened.table(name) for name in wanted}
    if run is None:
        return results
    identity = find_run(opened, run)["run_id"]
    return {
        # Rows about the benchmark itself belong to no run and stay.
        name: table.filter(pc.fill_null(pc.equal(table["run_id"], identity), True))
        for name, table in results.items()
    }
