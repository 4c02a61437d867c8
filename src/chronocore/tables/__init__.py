"""Scores -> the result tables, every cell with its interval and its n.

Tables are named after the paper's, one module a finding. Each is tidy: one row a cell and
measure. ``label`` says whose retained pairs are evaluated, ``prediction`` whose predictions:
``model`` for the run's own, or a reference on the same pairs; ``survey`` is ``all`` for pairs of
every survey together. ``docs/reference/tables.md`` lists groups, items and measures of each.
"""

from __future__ import annotations

import json

import pyarrow as pa

from chronocore.tables.cells import (
    POOLED,
    SMALL_N,
    Benchmark,
    Cells,
    Context,
    Evaluation,
    TableSpec,
)
from chronocore.tables.format import (
    FORMATS,
    REMARKS_METADATA,
    SETTINGS_METADATA,
    WideTable,
    few_units,
    format_table,
    gold_error_words,
    number,
    page,
    pooled,
    remarks,
    settings_line,
    too_few_resamples,
    wide,
    words,
)
from chronocore.tables.instructions import InstructionRuns, RepeatedRun
from chronocore.tables.published import Comparison, compare_published, format_comparison
from chronocore.tables.registry import TABLES

__all__ = [
    "FORMATS",
    "POOLED",
    "SMALL_N",
    "TABLES",
    "Benchmark",
    "Cells",
    "Comparison",
    "Context",
    "Evaluation",
    "InstructionRuns",
    "RepeatedRun",
    "TableSpec",
    "WideTable",
    "all_tables",
    "compare_published",
    "few_units",
    "format_comparison",
    "format_table",
    "gold_error_words",
    "number",
    "page",
    "pooled",
    "remarks",
    "settings_line",
    "too_few_resamples",
    "wide",
    "words",
]


def all_tables(context: Context) -> dict[str, pa.Table]:
    """Compute every table.

    Parameters
    ----------
    context : Context
        Benchmark, scored runs and settings; the settings are kept in the metadata of each table.

    Returns
    -------
    dict of str to pyarrow.Table
        Schema :data:`chronocore.schema.TABLE`, by name. A table that needs what the study does
        not have, for example modal answers, is empty.
    """
    metadata = {SETTINGS_METADATA: json.dumps(context.settings_used).encode()}
    filled: dict[str, Cells] = {}
    for name, spec in TABLES.items():
        filled[name] = Cells(name, context)
        spec.build(filled[name], context)
    # The intervals of all cells are drawn at once.
    context.intervals.finish()
    # Cells know their context: without this, all scores would wait for the garbage collector.
    context.built.clear()
    tables: dict[str, pa.Table] = {}
    for name, cells in filled.items():
        table = cells.table()
        said = {REMARKS_METADATA: json.dumps(cells.remarks).encode()} if cells.remarks else {}
        tables[name] = table.replace_schema_metadata({**table.schema.metadata, **metadata, **said})
    return tables
