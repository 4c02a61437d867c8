"""Measurement validity: noise and signal of a model's answers, and the cultural map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chronocore import schema
from chronocore.errors import StudyError
from chronocore.report.sections import Listing, Section, Sentence
from chronocore.results import Results
from chronocore.storage import location
from chronocore.store import read_parquet
from chronocore.validity.design import saved_protocol
from chronocore.validity.score import tables
from chronocore.validity.tables import ValidityTable, cell

if TYPE_CHECKING:
    from chronocore.validity.figures import Drawn

__all__ = ["ORDER", "section", "section_of"]

ORDER = 80

#: Tables 1 to 4 of the paper; the others start folded.
_FIRST = ("validity-models", "validity-positions", "validity-nsr-models", "validity-nsr-items")

#: A table with more lines than this starts folded.
_LONG = 15


def _rows(folder: Path, name: str, expected: Any) -> list[dict[str, Any]]:
    path = folder / "validity" / f"{name}.parquet"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = read_parquet(path, expected).to_pylist()
    return rows


def _pairs_have(n: int) -> str:
    return "1 pair has" if n == 1 else f"{n} pairs have"


def _sentences(drawn: Drawn) -> list[Sentence]:
    said: list[tuple[str, str]] = []
    ok = [row for row in drawn.components if row["status"] == "ok"]
    if ok:
        above = sum(bool(row["above_1"]) for row in ok)
        said.append((
            "components",
            f"{above} of {len(ok)} pairs of a model and an item ({100 * above / len(ok):.0f}%) "
            "have noise above the differences between models; the median ratio is "
            f"{np.median([row['nsr'] for row in ok]):.2f}.",
        ))  # fmt: skip
    without = [row for row in drawn.components if row["status"] == "undefined_noise"]
    if without:
        refused = [row for row in without if (row["refusal_rate"] or 0) > 0.5]
        said.append((
            "components",
            f"{_pairs_have(len(without))} no ratio because fewer than two answers could be used, "
            f"{len(refused)} of them mostly refused. They are left out, not counted as stable.",
        ))  # fmt: skip
    shifts = [row for row in drawn.map if row["kind"] == "model" and row["tone_shift"] is not None]
    if shifts:
        most = max(shifts, key=lambda row: float(row["tone_shift"]))
        said.append((
            "map",
            f"Another tone moves a model by up to {most['tone_shift']:.2f} map units "
            f"({most['label']}, {most['group']}).",
        ))  # fmt: skip
    off = [
        row for row in drawn.map
        if row["kind"] == "model" and row["group"] == drawn.standard and row["x"] is None
    ]  # fmt: skip
    if off:
        parts = "; ".join(f"{row['label']} lacks {', '.join(row['lacking'])}" for row in off)
        said.append(("map", f"Not on the map: {parts}."))
    bounded = sorted({row["label"] for row in drawn.components if row["seed_lower_bound"]})
    if bounded:
        names = ", ".join(bounded)
        said.append((
            "components",
            f"The seed component of {names} is a lower bound, and so are its ratios.",
        ))  # fmt: skip
    return [Sentence(text, (f"validity/{table}.parquet",)) for table, text in said]


def _listing(table: ValidityTable) -> Listing:
    """Return a table as it stands on the page."""
    fields = table.table.schema
    rows = tuple(
        tuple(cell(field.name, row[field.name]) for field in fields)
        for row in table.table.to_pylist()
    )
    numbers = [pa.types.is_floating(f.type) or pa.types.is_integer(f.type) for f in fields]
    return Listing(
        name=table.name,
        title=table.title,
        note=table.note,
        heads=tuple(zip(table.heads.values(), numbers, strict=True)),
        rows=rows,
        folded=table.name not in _FIRST or len(rows) > _LONG,
    )


def section(results: Results) -> Section | None:
    """Return the section, where the study has validity results."""
    return section_of(results.study.path)


def section_of(study: str | Path) -> Section | None:
    """Return the section of a folder, or None if it has no validity results."""
    folder = location(study)
    try:
        found = tables(folder)
    except StudyError:
        return None
    standard = "standard"
    if (folder / "validity" / "protocol.toml").is_file():
        standard = saved_protocol(folder).standard
    from chronocore.validity.figures import Drawn, draw

    drawn = Drawn(
        components=_rows(folder, "components", schema.VALIDITY_COMPONENTS),
        map=_rows(folder, "map", schema.VALIDITY_MAP),
        change=_rows(folder, "change", schema.VALIDITY_CHANGE),
        standard=standard,
    )
    figures = tuple(draw(drawn))
    return Section(
        anchor="validity",
        tag="Validity",
        heading="Can the measurement be trusted?",
        text=(
            "A model's answer is shaped by chance (seeds), by the wording of the prompt (variants) "
            "and by what sets models apart (culture). The noise-to-signal ratio is (σ seed + σ "
            "prompt) / σ culture; above 1 an item does not measure the model. A low ratio says "
            "that answers are reliable, not that they are about culture."
        ),
        sentences=tuple(_sentences(drawn)),
        figures=tuple(figure.name for figure in figures),
        drawn=figures,
        listings=tuple(map(_listing, found.values())),
    )
