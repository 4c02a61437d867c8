"""Protocol -> design: every prompt, its variant and the seeds that repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import tomli_w

from chronocore import schema
from chronocore.errors import ConfigurationError, StudyError
from chronocore.identity import derived_seed, prompt_id, time_point_key
from chronocore.prompts import render_prompt
from chronocore.storage import location
from chronocore.store import Study, read_parquet, write_atomic, write_parquet
from chronocore.validity.protocol import Protocol, load_protocol

__all__ = [
    "STAGES",
    "DesignResult",
    "design_path",
    "design_table",
    "load_design",
    "prompts",
    "saved_protocol",
]

#: Every variant asked once, and the first of them asked with several seeds; not crossed.
STAGES: tuple[str, ...] = ("variants", "seeds")

_ELICITATION = "verbalized"


@dataclass(frozen=True, slots=True)
class DesignResult:
    """What was written by :func:`prompts`.

    Attributes
    ----------
    path : Path
        ``design.parquet``.
    items, variants, seeds : int
    queries : int
        Answers asked of each model.
    by_stage : dict of str to int
        The same by stage.
    """

    path: Path
    items: int
    variants: int
    seeds: int
    queries: int
    by_stage: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Question:
    """One thing asked, before it is put into variants."""

    item: str
    kind: str
    wording: str
    survey: str
    variable: str
    country: str | None
    wave: int | None
    year: int | None
    system: str
    user: str
    options: list[dict[str, Any]]


def design_path(folder: str | Path) -> Path:
    """Return the path of a folder's design."""
    return location(folder) / "validity" / "design.parquet"


def _score_questions(protocol: Protocol) -> Iterator[_Question]:
    for item in protocol.item:
        yield _Question(
            item=item.variable,
            kind="score",
            wording=protocol.wording_of(item),
            survey=protocol.survey,
            variable=item.variable,
            country=None,
            wave=None,
            year=None,
            system="",
            user=item.render(),
            options=[
                {"code": option.code, "label": option.label, "position": option.worth}
                for option in item.options
            ],
        )


def _pair_questions(protocol: Protocol, study: Study) -> Iterator[_Question]:
    asked = protocol.pairs
    if asked is None:
        return
    rows = sorted(study.pairs().to_pylist(), key=lambda row: str(row["pair_id"]))
    if asked.sample is not None and asked.sample < len(rows):
        generator = np.random.default_rng(derived_seed(asked.seed, "validity", "pairs"))
        chosen = np.sort(generator.choice(len(rows), asked.sample, replace=False))
        rows = [rows[index] for index in chosen.tolist()]
    items = {(row["survey"], row["variable"]): row for row in study.items().to_pylist()}
    for row in rows:
        item = items[row["survey"], row["variable"]]
        country = row["country_name"] or f"the country with survey code {row['country']}"
        for end in ("old", "new"):
            system, user = render_prompt(
                "dated",
                "default",
                country=country,
                text=item["text"],
                options=item["options"],
                year=row[f"year_{end}"],
            )
            yield _Question(
                item=f"{row['pair_id']}:{end}",
                kind="distribution",
                wording="default",
                survey=row["survey"],
                variable=row["variable"],
                country=row["country"],
                wave=row[f"wave_{end}"],
                year=row[f"year_{end}"],
                system=system,
                user=user,
                options=item["options"],
            )


def _rows(protocol: Protocol, questions: Iterable[_Question]) -> Iterator[dict[str, Any]]:
    for question in questions:
        first: dict[str, Any] | None = None
        for tone in protocol.tone:
            for index, variant in enumerate(tone.variants):
                system = f"{variant} {question.system}".strip()
                row: dict[str, Any] = {
                    "prompt_id": prompt_id(
                        "validity",
                        _ELICITATION,
                        question.wording,
                        question.survey,
                        question.variable,
                        question.country or "",
                        time_point_key(question.wave, question.year),
                        system,
                        question.user,
                    ),
                    "repeat": 0,
                    "stage": "variants",
                    "tone": tone.name,
                    "variant": index,
                    "seed": None,
                    "kind": question.kind,
                    "item": question.item,
                    "wording": question.wording,
                    "survey": question.survey,
                    "variable": question.variable,
                    "country": question.country,
                    "wave": question.wave,
                    "year": question.year,
                    "system": system,
                    "user": question.user,
                    "options": question.options,
                }
                first = first or row
                yield row
        assert first is not None
        for seed in range(protocol.seeds):
            # Counted from 1: where an endpoint answers both stages alike, repeat 0 is the
            # variant's own answer and not one of the seeds.
            yield {**first, "stage": "seeds", "seed": seed, "repeat": seed + 1}


def design_table(protocol: Protocol, study: Study | None = None) -> pa.Table:
    """Return every query of one model.

    Parameters
    ----------
    protocol : Protocol
    study : Study, optional
        A built study, for a protocol with ``[pairs]``.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_DESIGN`: the variants of every item, one answer
        each, then the first variant of the first tone once for each seed. Variants and seeds
        are not crossed.

    Raises
    ------
    ConfigurationError
        The protocol asks for temporal pairs and there is no study with any.

    Notes
    -----
    Measurement Validity in LLM Cultural Alignment, section 3.3; definitions, section 11.

    Examples
    --------
    >>> from chronocore.validity import load_protocol
    >>> design_table(load_protocol()).num_rows
    400
    """
    questions = list(_score_questions(protocol))
    if protocol.pairs is not None:
        if study is None:
            raise ConfigurationError(
                "the protocol has [pairs], which needs a built study; "
                "run: chronocore build STUDY, or leave [pairs] out"
            )
        questions += _pair_questions(protocol, study)
    rows = list(_rows(protocol, questions))
    rows.sort(key=lambda row: STAGES.index(row["stage"]))
    return pa.Table.from_pylist(rows, schema=schema.VALIDITY_DESIGN)


def built_study(folder: str | Path) -> Study | None:
    """Return the study in a folder, or None if the folder is no built study."""
    study = Study(location(folder))
    return Study.open(folder) if study.manifest_path.is_file() else None


def prompts(folder: str | Path, protocol: str | Path | Protocol | None = None) -> DesignResult:
    """Write the design of a protocol into a folder.

    Parameters
    ----------
    folder : path
        A study, or any folder; it is made if it does not exist.
    protocol : path or Protocol, optional
        A TOML file of your own; without one, the protocol already in the folder, else the
        published one.

    Returns
    -------
    DesignResult

    Raises
    ------
    ConfigurationError
        The protocol cannot be read, or asks for pairs of a study that is not there.
    """
    if isinstance(protocol, Protocol):
        asked = protocol
    elif protocol is None and (location(folder) / "validity" / "protocol.toml").is_file():
        asked = saved_protocol(folder)
    else:
        asked = load_protocol(protocol)
    table = design_table(asked, built_study(folder) if asked.pairs is not None else None)
    path = design_path(folder)
    write_atomic(path.with_name("protocol.toml"), _dump(asked).encode())
    write_parquet(path, table)
    stages = table["stage"].to_pylist()
    return DesignResult(
        path=path,
        items=len(
            {(r["item"], r["wording"]) for r in table.select(["item", "wording"]).to_pylist()}
        ),
        variants=asked.n_variants,
        seeds=asked.seeds,
        queries=len(table),
        by_stage={stage: stages.count(stage) for stage in STAGES},
    )


def _dump(protocol: Protocol) -> str:
    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_none(child) for key, child in value.items() if child is not None}
        if isinstance(value, list | tuple):
            return [without_none(child) for child in value]
        return value

    data = without_none(msgspec.to_builtins(protocol))
    # TOML has no null; the one setting whose null differs from its default is spelled out.
    missing = [name for name in STAGES if getattr(protocol.temperature, name) is None]
    if missing:
        raise ConfigurationError(
            f"temperature.{missing[0]} cannot be null in a protocol; endpoints use their "
            "provider's default whatever it says"
        )
    return tomli_w.dumps(data)


def saved_protocol(folder: str | Path) -> Protocol:
    """Return the protocol that a folder's design was made from."""
    return load_protocol(location(folder) / "validity" / "protocol.toml")


def load_design(folder: str | Path) -> pa.Table:
    """Read the design of a folder.

    Raises
    ------
    StudyError
        There is none yet.
    """
    path = design_path(folder)
    if not path.is_file():
        raise StudyError(
            f"{folder} has no validity design; run: chronocore validity prompts {folder}"
        )
    return read_parquet(path, schema.VALIDITY_DESIGN)
