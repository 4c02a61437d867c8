"""Reference predictions that need no model.

``uniform`` gives every option the same share; ``persistence`` answers every prompt, the undated
one too, with the oldest gold distribution of its question and country; ``pooled`` answers with
the unweighted mean of the other countries' gold distributions of the same question at the same
time (definitions, section 4).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from chronocore.arrow import row_keys
from chronocore.engines.base import Answer, Request, RunSettings
from chronocore.errors import ConfigurationError

__all__ = ["REFERENCES", "ReferenceEngine", "gold_digest", "outdated"]

REFERENCES = ("uniform", "persistence", "pooled")

Key = tuple[str, str]


#: References whose answers gold decides.
_BY_GOLD = ("persistence", "pooled")

# Gold of two machines agrees to some twelve digits.
_DIGITS = 9


def gold_digest(gold: pa.Table) -> str:
    """Return what identifies the gold distributions that references answer with.

    Parameters
    ----------
    gold : pyarrow.Table
        Schema :data:`chronocore.schema.GOLD`.
    """
    columns = ("survey", "variable", "country", "study", "wave", "year")
    keys = row_keys(gold, columns).to_pylist()
    probs = gold["probs"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    digest = hashlib.sha256("\n".join(keys).encode())
    digest.update((np.round(probs, _DIGITS) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()[:16]


def outdated(run: Mapping[str, Any], digest: str, study: object = "STUDY") -> str | None:
    """Return why a run is of no use with the gold of this digest; None if it is.

    Parameters
    ----------
    run : mapping
        A row of ``runs.parquet``.
    digest : str
        Of :func:`gold_digest`.
    study : object
        What to call the study in the command that helps.
    """
    if run["engine"] != "reference" or run["model"] not in _BY_GOLD or run["revision"] == digest:
        return None
    return (
        "it answers with the gold of an earlier build; ask it again with: "
        f"chronocore predict {study} --model reference:{run['model']}"
    )


class _Point(NamedTuple):
    country: str
    study: str | None
    wave: int | None
    year: int
    probs: tuple[float, ...]


class ReferenceEngine:
    """Answers prompts from gold distributions alone.

    Parameters
    ----------
    name : {"uniform", "persistence", "pooled"}
    gold : pyarrow.Table
        Schema :data:`chronocore.schema.GOLD`.
    instruction, elicitation : str
        Kept in the settings; a reference answers every prompt of a time point alike.
    """

    def __init__(
        self,
        name: str,
        gold: pa.Table,
        instruction: str = "default",
        elicitation: str = "verbalized",
    ) -> None:
        if name not in REFERENCES:
            raise ConfigurationError(
                f"there is no reference {name!r}; known references: {', '.join(REFERENCES)}"
            )
        self.settings = RunSettings(
            model=name,
            engine="reference",
            engine_version="1",
            # Other gold gives other answers, so it is another run.
            revision=gold_digest(gold) if name in _BY_GOLD else None,
            elicitation=elicitation,
            instruction=instruction,
        )
        self._stopped = False
        self.notes: dict[str, str] = {}
        self._points: dict[Key, list[_Point]] = {}
        for row in gold.to_pylist():
            self._points.setdefault((row["survey"], row["variable"]), []).append(
                _Point(row["country"], row["study"], row["wave"], row["year"], tuple(row["probs"]))
            )

    def _distribution(self, request: Request) -> tuple[float, ...] | None:
        points = self._points[request.survey, request.variable]
        if self.settings.model == "uniform":
            return (1.0 / len(request.options),) * len(request.options)
        if self.settings.model == "persistence":
            own = [point for point in points if point.country == request.country]
            return min(own, key=lambda point: point.year).probs
        donors = [point for point in points if point.country != request.country]
        if request.kind != "undated":
            # A study counts its own waves; which one is asked about, the year tells.
            studies = {
                point.study
                for point in points
                if (point.country, point.wave, point.year)
                == (request.country, request.wave, request.year)
            }
            donors = [
                point
                for point in donors
                if (
                    point.wave == request.wave and (point.study in studies or not studies)
                    if request.wave is not None
                    else point.wave is None and point.year == request.year
                )
            ]
        if not donors:
            return None
        mean = np.mean(np.array([point.probs for point in donors]), axis=0)
        return tuple((mean / mean.sum()).tolist())

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield one answer a request, in their order."""
        for request in requests:
            if self._stopped:
                return
            probs = self._distribution(request)
            if probs is None:
                yield Answer(
                    request.prompt_id, request.repeat, status="invalid", reason="no_reference"
                )
            else:
                yield Answer(request.prompt_id, request.repeat, probs=probs)

    @property
    def in_flight(self) -> int:
        """No request ever waits."""
        return 0

    def drain(self, seconds: float) -> None:
        """End :meth:`answers` with the answer it is at."""
        self._stopped = True

    def close(self) -> None:
        """Do nothing; a reference holds no device."""
