"""Everything in one go: open microdata, references, a recorded language model, tables, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import chronocore_data
from chronocore.build import build
from chronocore.engines.reference import REFERENCES
from chronocore.predict import predict
from chronocore.report import Finding, findings, report
from chronocore.score import score

__all__ = ["QuickstartResult", "quickstart"]


@dataclass(frozen=True, slots=True)
class QuickstartResult:
    """What :func:`quickstart` made.

    Attributes
    ----------
    label : str
        The recorded model.
    n_pairs, n_countries : int
    shifts : dict of str to int
        Pairs by shift class.
    findings : list of Finding
        The answer and the three headline findings in words.
    report : Path
    seconds : float
    """

    label: str
    n_pairs: int
    n_countries: int
    shifts: dict[str, int]
    findings: list[Finding]
    report: Path
    seconds: float


def quickstart(
    study: str | Path = "quickstart-study",
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> QuickstartResult:
    """Build, predict, score and report on real open survey data.

    The language model is SmolLM2-135M-Instruct; its answers were recorded with vLLM and come
    with the package, so that neither a network nor a GPU is needed. They are parsed and scored
    here like any other answers.

    Parameters
    ----------
    study : path
        The study folder.
    progress : callable
        Called with a line of text at each step.

    Returns
    -------
    QuickstartResult
    """
    started = time.monotonic()
    progress("1/4 building the open sample from real survey microdata")
    built = build(study, preset="open-sample")
    progress("2/4 predictions: three references and a recorded language model")
    for name in REFERENCES:
        predict(built.study, f"reference:{name}")
    recorded = predict(built.study, f"file:{chronocore_data.recorded_predictions()}")
    progress("3/4 scores, tables and bootstrap intervals")
    score(built.study)
    progress("4/4 report")
    path = report(built.study)
    return QuickstartResult(
        label=recorded.label,
        n_pairs=sum(built.shifts.values()),
        n_countries=built.countries,
        shifts=built.shifts,
        findings=findings(built.study),
        report=path,
        seconds=time.monotonic() - started,
    )
