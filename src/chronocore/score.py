"""Score the runs of a study and compute its tables."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronocore import storage
from chronocore.arrow import Rows, rows_of
from chronocore.config import CLUSTERS, MAXIMUM_RESAMPLES, ScoreSettings
from chronocore.engines.reference import gold_digest, outdated
from chronocore.errors import ArgumentError, InvalidInputError, StudyError
from chronocore.metrics import BOUNDARIES, retained_count, shift_class, wasserstein
from chronocore.modal import ModalAnswers, modal_answers
from chronocore.noise import NoiseResult, load_noise
from chronocore.predict import find_run, prompts_of
from chronocore.provenance import JsonError, sealed, sha256, unsealed
from chronocore.scores import (
    SCORED_COLUMNS,
    VALID,
    PairPredictions,
    PairScores,
    largest_difference,
    pair_predictions,
    pair_scores,
    scores_table,
)
from chronocore.storage import read_bytes
from chronocore.store import DamagedFileError, Study, parquet_bytes
from chronocore.tables import (
    POOLED,
    TABLES,
    Benchmark,
    Context,
    Evaluation,
    InstructionRuns,
    RepeatedRun,
    all_tables,
    format_table,
)
from chronocore.tables.elicitation import Asked
from chronocore.tables.modal import ModalRun
from chronocore.tolerance import ATOL

__all__ = ["RunSummary", "ScoreResult", "load_scores", "load_summary", "score", "tables"]


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
        Label of each run without a complete pair, or with answers from the gold of an earlier
        build, and why it is not scored.
    settings : dict
        Thresholds, resamples and seed in force.
    tables : list of str
        Names of the tables written.
    pairs_sha256 : str
        Digest of the pairs that were scored.
    noise : dict of str to str
        Digest of the sampling noise that entered the tables, by design.
    """

    runs: list[RunSummary]
    skipped: dict[str, str]
    settings: dict[str, Any]
    tables: list[str]
    pairs_sha256: str
    noise: dict[str, str] = field(default_factory=dict)

    def unscored_noise(self, study: Study) -> list[str]:
        """Return the designs of sampling noise that were simulated after these scores."""
        return [
            name
            for name in study.noise_designs()
            if self.noise.get(name) != storage.digest(study.noise_path(name))
            and load_noise(study, name).pairs_sha256 == study.manifest()["files"]["pairs.parquet"]
        ]

    def unscored(self, study: Study) -> list[str]:
        """Return the labels of runs that came after these scores."""
        scored = {run.run_id for run in self.runs}
        return [
            row["label"]
            for row in study.runs().to_pylist()
            if row["run_id"] not in scored and row["label"] not in self.skipped
        ]


@dataclass(frozen=True, slots=True)
class _Scored:
    """A run with its complete pairs and their scores."""

    run: dict[str, Any]
    data: PairPredictions
    scores: PairScores

    @property
    def is_reference(self) -> bool:
        return bool(self.run["engine"] == "reference")


def _uniform(data: PairPredictions) -> PairPredictions:
    lengths = data.supports.lengths
    starts = np.cumsum(lengths) - lengths
    rows = Rows(np.repeat(1.0 / lengths, lengths), starts, lengths, (len(lengths),))
    return replace(data, old=rows, new=rows, undated=rows)


def _empty_strata(scores: PairScores, survey: list[str], retain: float) -> list[str]:
    if retain >= 1:
        return []
    strata = Counter(zip(survey, scores.n_timepoints.tolist(), strict=True))
    return [
        f"{name}, {count} time points ({n} pair{'s' if n > 1 else ''})"
        for (name, count), n in sorted(strata.items())
        if retained_count(retain, n) == 0
    ]


def _statuses(predictions: pa.Table, prompts: pa.Table) -> dict[str, int]:
    """Return how many first answers to dated and undated prompts have each status."""
    asked = prompts.filter(pc.not_equal(prompts["kind"], "modal"))["prompt_id"]
    first = predictions.filter(
        pc.and_(
            pc.equal(predictions["repeat"], 0),
            pc.is_in(predictions["prompt_id"], asked.combine_chunks()),
        )
    )
    return dict(Counter(first["status"].to_pylist()).most_common())


def score(
    study: str | Path | Study,
    *,
    tau: float | None = None,
    retain: float | None = None,
    boundaries: str | Sequence[float] | None = None,
    resamples: int | None = None,
    confidence_level: float | None = None,
    seed: int | None = None,
    cluster: str | None = None,
    gold_error: bool | None = None,
    exact_intervals: str | None = None,
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
        Bootstrap resamples of each interval, ten million at most.
    confidence_level : float, optional
    seed : int, optional
    cluster : {"pair", "country", "variable"}, optional
        What intervals resample: pairs, or all pairs of a country or of a question at once.
    gold_error : bool, optional
        Carry the surveys' own sampling error into the intervals: each resample also draws the
        gold distributions again, with their effective sample sizes.
    exact_intervals : {"ends", "all"}, optional
        Which shares of independent pairs have an exact (Clopper-Pearson) interval beside the
        percentile one: those of 0 and 100 %, or all.
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
    A run without a pair with all three predictions is skipped, and the result says why; its modal
    answers, if it has any, are in table ``t05`` all the same. A reference beside models is scored
    on each model's retained pairs, alone on all pairs (definitions, section 5).
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    config = opened.config()
    given = {
        "tau": tau,
        "retain": retain,
        "resamples": resamples,
        "confidence_level": confidence_level,
        "seed": seed,
        "cluster": cluster,
        "gold_error": gold_error,
        "exact_intervals": exact_intervals,
    }
    settings = msgspec.structs.replace(
        config.score, **{key: value for key, value in given.items() if value is not None}
    )
    _check(settings)
    chosen = boundaries if boundaries is not None else config.rules.boundaries
    if isinstance(chosen, str) and chosen not in BOUNDARIES:
        raise ArgumentError(
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
    benchmark = Benchmark(pairs, gold, items)
    noise = _noise(opened)  # a damaged one is told before the runs are scored
    scored: dict[str, _Scored] = {}
    repeats: list[RepeatedRun] = []
    modal: list[ModalRun] = []
    summaries: list[RunSummary] = []
    skipped: dict[str, str] = {}
    prompts_by: dict[tuple[str, str], pa.Table] = {}
    digest = gold_digest(gold) if any(row["engine"] == "reference" for row in run_rows) else ""
    for run in sorted(run_rows, key=lambda row: (row["engine"] == "reference", row["label"])):
        progress(f"scoring {run['label']}")
        late = outdated(run, digest, opened.path)
        if late is not None:
            skipped[run["label"]] = late
            continue
        predictions = opened.predictions(run["run_id"], columns=SCORED_COLUMNS)
        wording = (run["instruction"], run["elicitation"])
        if wording not in prompts_by:
            prompts_by[wording] = prompts_of(opened, *wording)
        prompts = prompts_by[wording]
        data = pair_predictions(pairs, gold, items, prompts, predictions, *wording)
        is_reference = run["engine"] == "reference"
        try:
            scores = pair_scores(
                data,
                tau=settings.tau,
                retain=settings.retain,
                boundaries=chosen,
                is_reference=is_reference,
            )
        except InvalidInputError as error:
            raise InvalidInputError(
                f"a distribution of run {run['label']!r} cannot be scored: {error}; its answers "
                f"are in {opened.run_folder(run['run_id'])}, and to ask them again: chronocore "
                f"predict {opened.path} --remove '{run['run_id']}', then its predict"
            ) from error
        except StudyError as error:
            skipped[run["label"]] = str(error)
            answers = _modal(None, pairs, prompts, predictions)
            if answers is not None:
                modal.append(ModalRun(run["run_id"], run["label"], answers))
                skipped[run["label"]] = f"{error}; its modal answers are in table t05"
            continue
        entry = _Scored(run, data, scores)
        scored[run["run_id"]] = entry
        answers = _modal(scores, pairs, prompts, predictions)
        if answers is not None:
            modal.append(ModalRun(run["run_id"], run["label"], answers, scores))
        repeated = _repeated(entry, predictions, prompts, items, settings.cluster)
        if repeated is not None:
            repeats.append(repeated)
        surveys = benchmark.survey
        summaries.append(
            RunSummary(
                run_id=run["run_id"],
                label=run["label"],
                model=run["model"],
                engine=run["engine"],
                n_pairs=len(pairs),
                n_complete=len(scores),
                n_retained=int(scores.retained.sum()),
                statuses=_statuses(predictions, prompts),
                empty_strata=[]
                if is_reference
                else _empty_strata(
                    scores,
                    [surveys.names[code] for code in surveys.codes[scores.pair]],
                    settings.retain,
                ),
            )
        )
    if not scored and not modal:
        raise StudyError(
            "; ".join(f"{label}: {why}" for label, why in skipped.items())
            + f" (of {opened.path}; chronocore predict asks for what is missing)"
        )
    references = {run["run_id"] for run in run_rows if run["engine"] == "reference"}
    if any(run_id not in references for run_id in [*scored, *(run.run_id for run in modal)]):
        modal = [run for run in modal if run.run_id not in references]
    progress("computing tables and intervals")
    context = Context(
        benchmark,
        _evaluations(scored, settings, chosen),
        settings,
        chosen,
        modal=modal,
        noise=noise,
        instructions=_instruction_runs(scored),
        repeats=repeats,
        asked={run_id: _asked(entry.run) for run_id, entry in scored.items()},
        left_out=_left_out(scored, skipped),
    )
    results = all_tables(context)
    result = ScoreResult(
        runs=summaries,
        skipped=skipped,
        settings=context.settings_used,
        tables=list(results),
        pairs_sha256=opened.manifest()["files"]["pairs.parquet"],
        noise={name: storage.digest(opened.noise_path(name)) for name in noise},
    )
    files = {
        f"scores/run={run_id}/scores.parquet": parquet_bytes(
            scores_table(entry.data, entry.scores), opened.score_path(run_id)
        )
        for run_id, entry in scored.items()
    }
    for name, table in results.items():
        file = f"tables/{name}.parquet"
        files[file] = parquet_bytes(table, opened.path / file)
        files[f"tables/{name}.csv"] = format_table(name, table, "csv").encode()
        files[f"tables/{name}.md"] = format_table(name, table, "md", intervals=True).encode()
    digests = {name: sha256(content) for name, content in files.items()}
    summary = sealed({**msgspec.to_builtins(result), "files": digests})
    opened.save_scores(files, list(scored), summary)
    return result


def _left_out(scored: Mapping[str, _Scored], skipped: Mapping[str, str]) -> dict[str, str]:
    """Return why runs are not evaluated themselves: they have no scores, or are references."""
    found = dict(skipped)
    if any(not entry.is_reference for entry in scored.values()):
        for entry in scored.values():
            if entry.is_reference:
                found[entry.run["label"]] = "a reference, shown beside every run"
    return found


def _asked(run: Mapping[str, Any]) -> Asked:
    """Return how a run asked its model."""
    # Settings of a sampled run stand in the engine's version; they belong to the way of asking.
    version = str(run["engine_version"]).partition(";")[0]
    return Asked(
        weights=(run["model"], str(run["revision"])),
        engine=(run["engine"], version),
        instruction=run["instruction"],
        elicitation=run["elicitation"],
        greedy=not run["temperature"],
    )


def _check(settings: ScoreSettings) -> None:
    for name, holds, what in (
        ("tau", 0 < settings.tau <= 1, "must lie in (0, 1]"),
        ("retain", 0 < settings.retain <= 1, "must lie in (0, 1]"),
        (
            "resamples", 1 <= settings.resamples <= MAXIMUM_RESAMPLES,
            f"must lie between 1 and {MAXIMUM_RESAMPLES:,}",
        ),
        ("confidence_level", 0 < settings.confidence_level < 1, "must lie in (0, 1)"),
        ("seed", 0 <= settings.seed < 2**63, f"must lie between 0 and {2**63 - 1}"),
        ("cluster", settings.cluster in CLUSTERS, f"must be one of {', '.join(CLUSTERS)}"),
        ("exact_intervals", settings.exact_intervals in ("ends", "all"), "must be ends or all"),
    ):  # fmt: skip
        if not holds:
            value = getattr(settings, name)
            shown = f"{value:,}" if name == "resamples" else value
            raise ArgumentError(f"{name} {what}, not {shown}")


def _modal(
    scores: PairScores | None, pairs: pa.Table, prompts: pa.Table, predictions: pa.Table
) -> ModalAnswers | None:
    """Return the modal answers of a run beside its scores, if any; None if it has none."""
    if predictions["choice"].null_count == len(predictions):
        return None
    ratio = np.full(len(pairs), np.nan)
    if scores is not None:
        ratio[scores.pair] = scores.ratio
    return modal_answers(pairs, prompts, predictions, ratio)


def _noise(study: Study) -> dict[str, tuple[NoiseResult, pa.Table]]:
    """Return the sampling noise that was simulated for the pairs of the study as they are."""
    digest = study.manifest()["files"]["pairs.parquet"]
    found: dict[str, tuple[NoiseResult, pa.Table]] = {}
    for name in study.noise_designs():
        try:
            found[name] = (load_noise(study, name), study.noise(name))
        except StudyError as error:
            path = study.noise_path(name)
            cause = error.cause if isinstance(error, DamagedFileError) else str(error)
            raise StudyError(
                f"the noise in {path} cannot be used ({cause}); delete the file, then make it "
                f"again with: chronocore noise {study.path} --n {name}"
            ) from error
    return {name: noise for name, noise in found.items() if noise[0].pairs_sha256 == digest}


def _reclassified(pairs: pa.Table, boundaries: str | Sequence[float]) -> pa.Table:
    shift = shift_class(pairs["d_h"].to_numpy(), boundaries)
    index = pairs.column_names.index("shift")
    return pairs.set_column(index, pairs.schema.field("shift"), pa.array(shift.tolist()))


def _evaluations(
    scored: dict[str, _Scored], settings: ScoreSettings, boundaries: str | Sequence[float]
) -> list[Evaluation]:
    models = {key: entry for key, entry in scored.items() if not entry.is_reference}
    references = [entry for entry in scored.values() if entry.is_reference]
    evaluations: list[Evaluation] = []

    def static(data: PairPredictions) -> PairScores:
        return pair_scores(data, tau=settings.tau, boundaries=boundaries, is_reference=True)

    uniform: PairScores | None = None
    for key, entry in models.items():
        own = entry.scores.take(entry.scores.retained)
        data = entry.data
        if uniform is None or not np.array_equal(uniform.pair, entry.scores.pair):
            uniform = static(_uniform(data))  # models that answered all pairs share it
        scores = {
            "model": own,
            "uniform": uniform.take(entry.scores.retained),
            "undated_both": static(replace(data, old=data.undated, new=data.undated)).take(
                entry.scores.retained
            ),
        }
        for reference in references:
            run = reference.run
            wording = (run["instruction"], run["elicitation"])
            if run["model"] != "uniform" and wording == ("default", "verbalized"):
                inside = np.isin(reference.scores.pair, own.pair)
                scores[run["model"]] = reference.scores.take(inside)
        evaluations.append(Evaluation(key, entry.run["label"], scores, entry.scores))
    if not models:
        for key, entry in scored.items():
            evaluations.append(
                Evaluation(key, entry.run["label"], {"model": entry.scores}, entry.scores)
            )
    return evaluations


def _instruction_runs(scored: dict[str, _Scored]) -> list[InstructionRuns]:
    """Return the runs that differ from one under the default instruction in nothing else."""
    apart = ("run_id", "label", "instruction")
    families: dict[tuple[Any, ...], dict[str, _Scored]] = {}
    for entry in scored.values():
        if not entry.is_reference:
            key = tuple(value for name, value in entry.run.items() if name not in apart)
            families.setdefault(key, {})[entry.run["instruction"]] = entry
    found = []
    for members in families.values():
        if "default" in members and len(members) > 1:
            order = ["default", *sorted(set(members) - {"default"})]
            base = members["default"].run
            data = {name: members[name].data for name in order}
            found.append(InstructionRuns(base["run_id"], base["label"], data))
    return found


def _repeated(
    entry: _Scored, predictions: pa.Table, prompts: pa.Table, items: pa.Table, cluster: str
) -> RepeatedRun | None:
    """Compare the later answers to each prompt with the first; None if there are none."""
    valid = predictions.filter(
        pc.and_(pc.is_in(predictions["status"], pa.array(VALID)), pc.is_valid(predictions["probs"]))
    )
    repeat = np.asarray(valid["repeat"].to_numpy(), dtype=np.int64)
    if not (repeat > 0).any():
        return None
    prompt = pc.index_in(
        valid["prompt_id"].combine_chunks(), value_set=prompts["prompt_id"].combine_chunks()
    )
    known = np.asarray(pc.fill_null(prompt, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    first = np.full(len(prompts), -1)
    first[known[(repeat == 0) & (known >= 0)]] = np.flatnonzero((repeat == 0) & (known >= 0))
    later = np.flatnonzero((repeat > 0) & (known >= 0) & (first[known] >= 0))
    if not len(later):
        return None
    answers = rows_of(valid["probs"].combine_chunks(), "predictions")
    positions = {
        (row["survey"], row["variable"]): [option["position"] for option in row["options"]]
        for row in items.select(["survey", "variable", "options"]).to_pylist()
    }
    columns = ["survey", "variable", "country", "kind"]
    asked = prompts.select(columns).take(pa.array(known[later])).to_pylist()
    supports = rows_of([positions[row["survey"], row["variable"]] for row in asked], "support")
    unit = known[later]
    if cluster != "pair":
        by = ("country",) if cluster == "country" else ("survey", "variable")
        labels = [tuple(row[name] for name in by) for row in asked]
        numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
        unit = np.array([numbers[label] for label in labels], dtype=np.int64)
    a, b = answers.take(later), answers.take(first[known[later]])
    return RepeatedRun(
        run_id=entry.run["run_id"],
        label=entry.run["label"],
        kind=np.array([row["kind"] for row in asked]),
        unit=unit,
        distance=wasserstein(a, b, supports),
        identical=largest_difference(a, b) <= ATOL,
    )


def _summary_and_files(study: Study) -> tuple[ScoreResult, dict[str, str]]:
    """Return what the last score wrote of itself, and the digests of its files by name."""
    study.settle()
    study.runs()  # refuses a list of runs that lacks some
    path = study.path / "scores.json"
    again = f"run: chronocore score {study.path}"
    try:
        data = unsealed(read_bytes(path))
        files = msgspec.convert(data.pop("files", None), dict[str, str])
        return msgspec.convert(data, ScoreResult), files
    except FileNotFoundError:
        raise StudyError(f"{study.path} has no scores yet; {again}") from None
    except (JsonError, msgspec.ValidationError) as error:
        raise StudyError(f"{path} cannot be used ({error}); {again}") from None


def load_scores(study: Study, run_id: str) -> pa.Table:
    """Return the scores of a run that the last :func:`score` wrote.

    Raises
    ------
    StudyError
        The study was not scored yet, or the file is not the one that was written then.
    """
    _check_files(study, [f"scores/run={run_id}/scores.parquet"])
    return study.scores(run_id)


def _check_files(study: Study, names: Sequence[str]) -> None:
    """Refuse files that are not those of the last score: missing, edited, swapped, of another."""
    _, files = _summary_and_files(study)
    again = f"run: chronocore score {study.path}"
    for name in names:
        path = study.path / name
        try:
            content = read_bytes(path)
        except FileNotFoundError:
            raise StudyError(f"{path} is missing; {again}") from None
        if sha256(content) != files.get(name):
            raise StudyError(
                f"{path} is not the one that the last score wrote (edited, damaged, swapped or of "
                f"another score); {again}"
            )


def load_summary(study: Study) -> ScoreResult:
    """Return the summary that the last :func:`score` wrote.

    Raises
    ------
    StudyError
        The study was not scored yet.
    """
    result, _ = _summary_and_files(study)
    again = f"run: chronocore score {study.path}"
    if result.pairs_sha256 != study.manifest()["files"]["pairs.parquet"]:
        raise StudyError(f"{study.path} was built anew since it was scored; {again}")
    labels = _labels(study)
    runs = [replace(run, label=labels.get(run.run_id, run.label)) for run in result.runs]
    return replace(result, runs=runs)


def _labels(study: Study) -> dict[str, str]:
    """Return the label that each run has now; it may have been renamed since it was scored."""
    return {row["run_id"]: row["label"] for row in study.runs().to_pylist()}


def _relabelled(table: pa.Table, labels: Mapping[str, str]) -> pa.Table:
    """Return a table with the labels that its runs have now."""
    ids, before = table["run_id"].to_pylist(), table["label"].to_pylist()
    after = [labels.get(run_id, label) for run_id, label in zip(ids, before, strict=True)]
    if after == before:
        return table
    index = table.column_names.index("label")
    return table.set_column(index, table.schema.field("label"), pa.array(after, pa.string()))


def tables(
    study: str | Path | Study,
    names: str | Sequence[str] | None = None,
    *,
    run: str | None = None,
    survey: str | None = None,
) -> dict[str, pa.Table]:
    """Return result tables of a scored study.

    Parameters
    ----------
    study : path or Study
    names : str or sequence of str, optional
        Names as in :data:`chronocore.tables.TABLES`; by default all.
    run : str, optional
        Only the rows of the run with this label or id.
    survey : str, optional
        Only the rows of this survey, or ``"all"``: of the pairs of every survey together. Rows
        that belong to no survey stay.

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
            raise ArgumentError(
                f"there is no table {name!r}; {hint}known tables: {', '.join(TABLES)}"
            )
    load_summary(opened)
    _check_files(opened, [f"tables/{name}.parquet" for name in wanted])
    labels = _labels(opened)
    results = {name: _relabelled(opened.table(name), labels) for name in wanted}
    if survey is not None:
        known = sorted(set(opened.pairs()["survey"].unique().to_pylist()))
        if survey not in (POOLED, *known):
            raise ArgumentError(
                f"the study has no survey {survey!r}; known: {', '.join((POOLED, *known))}"
            )
        results = {
            name: table.filter(pc.fill_null(pc.equal(table["survey"], survey), True))
            for name, table in results.items()
        }
    if run is None:
        return results
    identity = find_run(opened, run)["run_id"]
    about = {row for table in results.values() for row in table["run_id"].to_pylist()} - {None}
    if identity not in about:
        shown = ", ".join(repr(labels.get(one, one)) for one in sorted(about)) or "no run"
        raise StudyError(
            f"no row of {', '.join(wanted) if names else 'the tables'} is about run {run!r} (a "
            "reference beside models is shown on their pairs, as their prediction); there are rows "
            f"of {shown}; leave out the run, or if it came after the last score run: "
            f"chronocore score {opened.path}"
        )
    return {
        # Rows about the benchmark itself belong to no run and stay.
        name: table.filter(pc.fill_null(pc.equal(table["run_id"], identity), True))
        for name, table in results.items()
    }
