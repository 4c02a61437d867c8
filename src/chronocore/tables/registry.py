"""All tables by name, in the order of the paper."""

from __future__ import annotations

from collections.abc import Mapping

from chronocore.tables import (
    benchmark,
    breakdowns,
    differences,
    elicitation,
    filter,
    instructions,
    modal,
    noise,
    rf1,
    rf2,
    rf3,
    robustness,
)
from chronocore.tables.cells import TableSpec

__all__ = ["TABLES"]

_MODULES = (
    benchmark,
    filter,
    rf1,
    rf2,
    rf3,
    robustness,
    breakdowns,
    instructions,
    elicitation,
    modal,
    noise,
    differences,
)


def _place(spec: TableSpec) -> tuple[bool, str]:
    """Numbered tables come first; the others keep the order of their modules."""
    numbered = spec.name[0] == "t" and spec.name[1:].isdigit()
    return not numbered, spec.name if numbered else ""


#: Every table by its name.
TABLES: Mapping[str, TableSpec] = {
    spec.name: spec
    for spec in sorted((spec for module in _MODULES for spec in module.SPECS), key=_place)
}
