"""What a report says of measurement validity: sentences, figures and tables of one section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chronocore import schema
from chronocore.errors import StudyError
from chronocore.store import Study, read_parquet
from chronocore.validity.design import saved_protocol
from chronocore.validity.figures import Drawn, ValidityFigure, draw
from chronocore.validity.score import tables
from chronocore.validity.tables import ValidityTable

__all__ = ["ANCHOR", "ORDER", "ValiditySection", "section"]

ANCHOR = "validity"

#: Where the section stands among those of a report.
ORDER = 70


@dataclass(frozen=True, slots=True)
class ValiditySection:
    """The section of a report.

    Attributes
    ----------
    anchor, heading, text : str
    sentences : tuple of str
        What was found, in words.
    figures : tuple of ValidityFigure
    tables : tuple of ValidityTable
    """

    anchor: str
    heading: str
    text: str
    sentences: tuple[str, ...]
    figures: tuple[ValidityFigure, ...]
    tables: tuple[ValidityTable, ...]


def _rows(folder: Path, name: str, expected: Any) -> list[dict[str, Any]]:
    path = folder / "validity" / f"{name}.parquet"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = read_parquet(path, expected).to_pylist()
    return rows


def _sentences(drawn: Drawn) -> list[str]:
    ok = [row for row in drawn.components if row["status"] == "ok"]
    said = []
    if ok:
        above = sum(bool(row["above_1"]) for row in ok)
        said.append(
            f"{above} of {len(ok)} pairs of a model and an item ({100 * above / len(ok):.0f}%) "
            "have noise above the differences between models; the median ratio is "
            f"{np.median([row['nsr'] for row in ok]):.2f}."
        )
    without = [row for row in drawn.components if row["status"] == "undefined_noise"]
    if without:
        refused = [row for row in without if (row["refusal_rate"] or 0) > 0.5]
        said.append(
            f"{len(without)} pairs have no ratio because fewer than two answers could be used, "
            f"{len(refused)} of them mostly refused. They are left out, not counted as stable."
        )
    shifts = [row for row in drawn.map if row["kind"] == "model" and row["tone_shift"] is not None]
    if shifts:
        most = max(shifts, key=lambda row: float(row["tone_shift"]))
        said.append(
            f"Another tone moves a model by up to {most['tone_shift']:.2f} map units "
            f"({most['label']}, {most['group']})."
        )
    off = [
        row for row in drawn.map
        if row["kind"] == "model" and row["group"] == drawn.standard and row["x"] is None
    ]  # fmt: skip
    if off:
        parts = "; ".join(f"{row['label']} lacks {', '.join(row['lacking'])}" for row in off)
        said.append(f"Not on the map: {parts}.")
    if any(row["seed_lower_bound"] for row in drawn.components):
        labels = sorted({row["label"] for row in drawn.components if row["seed_lower_bound"]})
        said.append(
            f"The seed component of {', '.join(labels)} is a lower bound, and so are its ratios."
        )
    return said


def section(study: str | Path | Study) -> ValiditySection | None:
    """Return the section of a folder, or None if it has no validity results."""
    folder = study.path if isinstance(study, Study) else Path(study)
    standard = "standard"
    if (folder / "validity" / "protocol.toml").is_file():
        standard = saved_protocol(folder).standard
    drawn = Drawn(
        components=_rows(folder, "components", schema.VALIDITY_COMPONENTS),
        map=_rows(folder, "map", schema.VALIDITY_MAP),
        change=_rows(folder, "change", schema.VALIDITY_CHANGE),
        standard=standard,
    )
    try:
        found = tables(folder)
    except StudyError:
        return None
    return ValiditySection(
        anchor=ANCHOR,
        heading="Can the measurement be trusted?",
        text=(
            "A model's answer is shaped by chance (seeds), by the wording of the prompt (variants) "
            "and by what sets models apart (culture). The noise-to-signal ratio is (σ seed + σ "
            "prompt) / σ culture; above 1 an item does not measure the model. A low ratio says "
            "that answers are reliable, not that they are about culture."
        ),
        sentences=tuple(_sentences(drawn)),
        figures=tuple(draw(drawn)),
        tables=tuple(found.values()),
    )
