"""One model asked for the distribution, many times for one option, or by its first token."""

from __future__ import annotations

from typing import Any

from chronocore.report.sections import Section, Sentence, filled
from chronocore.results import Results
from chronocore.tables import number

__all__ = ["ORDER", "section"]

ORDER = 57

#: What is said of each way of asking: measure, group, how it reads.
_SAID = (
    ("both", "all", "both years accurate"),
    ("zero_shift", "all_shifted", "no predicted change"),
    ("right_direction", "all_shifted", "right direction"),
)


def section(results: Results) -> Section | None:
    """Return the section, where a model was asked in several ways."""
    if not filled(results, "elicitation"):
        return None
    rows = results.tables["elicitation"].to_pylist()
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_run.setdefault(row["run_id"], []).append(row)
    sentences = []
    for own in by_run.values():
        cells = {(row["measure"], row["group"]): row for row in own}
        parts = []
        for measure, group, reads in _SAID:
            cell = cells.get((measure, group))
            if cell is None or cell["estimate"] is None:
                continue
            text = f"{reads} {number(cell['estimate'], '%')}%"
            if cell["low"] is not None:
                text += f" [{number(cell['low'], '%')}, {number(cell['high'], '%')}]"
            parts.append(f"{text} (n = {cell['n']:,})")
        label, asked = own[0]["label"], own[0]["item"]
        head = label if asked in label else f"{label} ({asked})"
        sentences.append(Sentence(f"{head}: {'; '.join(parts)}.", ("elicitation",)))
    return Section(
        anchor="elicitation",
        tag="Elicitation",
        heading="Does it matter how a model is asked?",
        text=(
            "The same model, asked for the whole distribution (verbalized), asked many times for "
            "one option (sampled), or read by the probabilities of its first token (logprob). All "
            "measures are taken on the pairs that every one of these runs retains, so that only "
            "the way of asking differs."
        ),
        sentences=tuple(sentences),
        tables=("elicitation",),
    )
