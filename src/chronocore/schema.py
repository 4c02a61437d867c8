"""Names and types of every table of a study, declared once.

Each schema carries its name and version in its metadata; :data:`SCHEMA_VERSION` changes when a
column changes its name, type or meaning, and a study of another version is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

__all__ = [
    "GOLD",
    "ITEMS",
    "NOISE",
    "PAIRS",
    "PREDICTIONS",
    "PROMPTS",
    "RUNS",
    "SCHEMA_VERSION",
    "SCORES",
    "SWEEP",
    "TABLE",
    "VALIDITY_ANSWERS",
    "VALIDITY_CHANGE",
    "VALIDITY_COMPONENTS",
    "VALIDITY_COUNTRIES",
    "VALIDITY_DESIGN",
    "VALIDITY_DISTRIBUTIONS",
    "VALIDITY_MAP",
    "VALIDITY_RUNS",
    "chronocore_version",
    "conform",
    "selected",
]

SCHEMA_VERSION = 1


def chronocore_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("chronocore")
    except PackageNotFoundError:  # a source tree on the path, not installed
        return "0+source"


def _schema(name: str, columns: dict[str, pa.DataType], required: tuple[str, ...]) -> pa.Schema:
    fields = [pa.field(key, kind, nullable=key not in required) for key, kind in columns.items()]
    metadata = {
        "chronocore.schema": name,
        "chronocore.schema_version": str(SCHEMA_VERSION),
        "chronocore.version": chronocore_version(),
    }
    return pa.schema(fields, metadata=metadata)


_TEXT = pa.string()
_REAL = pa.float64()
_PROBS = pa.list_(pa.field("element", pa.float64(), nullable=False))
_OPTIONS = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("code", pa.int16(), nullable=False),
                pa.field("label", pa.string(), nullable=False),
                pa.field("position", pa.float64(), nullable=False),
            ]
        ),
        nullable=False,
    )
)

ITEMS = _schema(
    "items",
    {
        "survey": _TEXT,
        "variable": _TEXT,
        "source": _TEXT,
        "text": _TEXT,
        "topic": _TEXT,
        "topic_broad": _TEXT,
        "options": _OPTIONS,
    },
    ("survey", "variable", "source", "text", "options"),
)

GOLD = _schema(
    "gold",
    {
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "country_name": _TEXT,
        "region": _TEXT,
        "year": pa.int16(),
        "wave": pa.int16(),
        "weight": _TEXT,
        "n_valid": pa.int64(),
        "n_eff": _REAL,
        "n_dropped_weight": pa.int64(),
        "n_options": pa.int16(),
        "collapsed": pa.bool_(),
        "probs": _PROBS,
        "standard_errors": _PROBS,
        "n_eff_design": _REAL,
        "study": _TEXT,
        "fieldwork_year": pa.int16(),
        "n_eff_mean": _REAL,
        "design_df": pa.int64(),
    },
    ("survey", "variable", "country", "year", "n_valid", "n_eff", "n_options", "probs"),
)

PAIRS = _schema(
    "pairs",
    {
        "pair_id": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "country_name": _TEXT,
        "region": _TEXT,
        "topic": _TEXT,
        "topic_broad": _TEXT,
        "wave_old": pa.int16(),
        "wave_new": pa.int16(),
        "year_old": pa.int16(),
        "year_new": pa.int16(),
        "n_timepoints": pa.int16(),
        "n_valid_old": pa.int64(),
        "n_valid_new": pa.int64(),
        "n_eff_old": _REAL,
        "n_eff_new": _REAL,
        "gold_old": _PROBS,
        "gold_new": _PROBS,
        "d_h": _REAL,
        "shift": _TEXT,
        "mode_old": pa.int16(),
        "mode_new": pa.int16(),
        "mode_tied_old": pa.bool_(),
        "mode_tied_new": pa.bool_(),
    },
    ("pair_id", "survey", "variable", "country", "year_old", "year_new", "d_h", "shift"),
)

PROMPTS = _schema(
    "prompts",
    {
        "prompt_id": _TEXT,
        "kind": _TEXT,
        "elicitation": _TEXT,
        "instruction": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "wave": pa.int16(),
        "year": pa.int16(),
        "system": _TEXT,
        "user": _TEXT,
        "options": _OPTIONS,
    },
    ("prompt_id", "kind", "survey", "variable", "country", "system", "user", "options"),
)

RUNS = _schema(
    "runs",
    {
        "run_id": _TEXT,
        "label": _TEXT,
        "model": _TEXT,
        "revision": _TEXT,
        "engine": _TEXT,
        "engine_version": _TEXT,
        "elicitation": _TEXT,
        "instruction": _TEXT,
        "structured": pa.bool_(),
        "temperature": _REAL,
        "top_p": _REAL,
        "max_tokens": pa.int32(),
        "seed": pa.int64(),
        "chat_template_sha256": _TEXT,
    },
    ("run_id", "label", "model", "engine", "elicitation", "instruction", "structured"),
)

PREDICTIONS = _schema(
    "predictions",
    {
        "run_id": _TEXT,
        "model": _TEXT,
        "prompt_id": _TEXT,
        "repeat": pa.int32(),
        "seed": pa.int64(),
        "text": _TEXT,
        "thinking": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "raw_sum": _REAL,
        "sum_off": pa.bool_(),
        "probs": _PROBS,
        "choice": pa.int16(),
        "finish_reason": _TEXT,
        "prompt_tokens": pa.int32(),
        "completion_tokens": pa.int32(),
        "attempt": pa.int32(),
        "created_at": pa.timestamp("us", tz="UTC"),
    },
    ("run_id", "model", "prompt_id", "repeat", "status", "attempt", "created_at"),
)

SCORES = _schema(
    "scores",
    {
        "pair_id": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "year_old": pa.int16(),
        "year_new": pa.int16(),
        "shift": _TEXT,
        "d_h": _REAL,
        "retained": pa.bool_(),
        "nearest_distance": _REAL,
        "d_old": _REAL,
        "d_new": _REAL,
        "d_old_to_new": _REAL,
        "d_new_to_old": _REAL,
        "d_m": _REAL,
        "ratio": _REAL,
        "cosine": _REAL,
        "outcome": _TEXT,
        "alignment": _TEXT,
        "stability": _TEXT,
        "benefit_old": _REAL,
        "benefit_new": _REAL,
        "identical_old": pa.bool_(),
        "identical_new": pa.bool_(),
        "default_years": pa.list_(pa.field("element", pa.int16(), nullable=False)),
    },
    ("pair_id", "survey", "variable", "country", "year_old", "year_new", "shift", "retained"),
)

TABLE = _schema(
    "table",
    {
        "run_id": _TEXT,
        "label": _TEXT,
        "prediction": _TEXT,
        "survey": _TEXT,
        "group": _TEXT,
        "item": _TEXT,
        "measure": _TEXT,
        "unit": _TEXT,
        "estimate": _REAL,
        "low": _REAL,
        "high": _REAL,
        "n": pa.int64(),
        "clusters": pa.int64(),
        "exact_low": _REAL,
        "exact_high": _REAL,
    },
    ("group", "measure", "unit", "n"),
)

#: One row a pair: how far samples of unchanged opinion lie apart, and what the pair's own shift
#: adds to that.
NOISE = _schema(
    "noise",
    {
        "design": _TEXT,
        "pair_id": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "shift": _TEXT,
        "d_h": _REAL,
        "n_old": pa.int64(),
        "n_new": pa.int64(),
        "noise_median": _REAL,
        "noise_p95": _REAL,
        "above_p95": pa.bool_(),
        "n_eff_old": pa.int64(),
        "n_eff_new": pa.int64(),
        "expected_shift": _REAL,
        "expected_median": _REAL,
        "excess_shift": _REAL,
        "p_value": _REAL,
        "q_value": _REAL,
        "detected": pa.bool_(),
    },
    ("design", "pair_id", "survey", "variable", "country", "shift", "d_h"),
)

#: One row a statistic of a grid cell: one run under one set of choices and one bootstrap seed.
SWEEP = _schema(
    "sweep",
    {
        "cell_id": _TEXT,
        "run_id": _TEXT,
        "label": _TEXT,
        "instruction": _TEXT,
        "boundaries": _TEXT,
        "tau": _REAL,
        "retain": _REAL,
        "cluster": _TEXT,
        "gold_error": pa.bool_(),
        "seed": pa.int64(),
        "resamples": pa.int64(),
        "kind": _TEXT,
        "finding": _TEXT,
        "group": _TEXT,
        "measure": _TEXT,
        "unit": _TEXT,
        "estimate": _REAL,
        "low": _REAL,
        "high": _REAL,
        "n": pa.int64(),
        "holds": pa.bool_(),
        "support": _REAL,
        "clusters": pa.int64(),
    },
    ("cell_id", "run_id", "label", "instruction", "boundaries", "tau", "retain", "cluster",
     "gold_error", "seed", "resamples", "kind", "finding", "group", "measure"),
)  # fmt: skip

VALIDITY_DESIGN = _schema(
    "validity_design",
    {
        "prompt_id": _TEXT,
        "repeat": pa.int32(),
        "stage": _TEXT,
        "tone": _TEXT,
        "variant": pa.int16(),
        "seed": pa.int16(),
        "kind": _TEXT,
        "item": _TEXT,
        "wording": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "wave": pa.int16(),
        "year": pa.int16(),
        "system": _TEXT,
        "user": _TEXT,
        "options": _OPTIONS,
    },
    ("prompt_id", "repeat", "stage", "tone", "variant", "kind", "item", "wording", "survey",
     "variable", "system", "user", "options"),
)  # fmt: skip

VALIDITY_RUNS = _schema(
    "validity_runs",
    {
        "label": _TEXT,
        "stage": _TEXT,
        "run_id": _TEXT,
        "model": _TEXT,
        "revision": _TEXT,
        "engine": _TEXT,
        "engine_version": _TEXT,
        "elicitation": _TEXT,
        "instruction": _TEXT,
        "structured": pa.bool_(),
        "temperature": _REAL,
        "top_p": _REAL,
        "max_tokens": pa.int32(),
        "seed": pa.int64(),
        "chat_template_sha256": _TEXT,
        "seed_lower_bound": pa.bool_(),
        "access": _TEXT,
        "origin": _TEXT,
        "region": _TEXT,
    },
    ("label", "stage", "run_id", "model", "engine", "seed_lower_bound"),
)

VALIDITY_ANSWERS = _schema(
    "validity_answers",
    {
        "run_id": _TEXT,
        "model": _TEXT,
        "prompt_id": _TEXT,
        "repeat": pa.int32(),
        "seed": pa.int64(),
        "text": _TEXT,
        "thinking": _TEXT,
        "status": _TEXT,
        "reason": _TEXT,
        "score": _REAL,
        "probs": _PROBS,
        "finish_reason": _TEXT,
        "prompt_tokens": pa.int32(),
        "completion_tokens": pa.int32(),
        "attempt": pa.int32(),
        "created_at": pa.timestamp("us", tz="UTC"),
    },
    ("run_id", "model", "prompt_id", "repeat", "status", "attempt", "created_at"),
)

VALIDITY_COMPONENTS = _schema(
    "validity_components",
    {
        "label": _TEXT,
        "access": _TEXT,
        "origin": _TEXT,
        "region": _TEXT,
        "item": _TEXT,
        "wording": _TEXT,
        "n_variants": pa.int32(),
        "n_variants_valid": pa.int32(),
        "n_seeds": pa.int32(),
        "n_seeds_valid": pa.int32(),
        "mean": _REAL,
        "modal_answer": _REAL,
        "sigma_seed": _REAL,
        "sigma_seed_low": _REAL,
        "sigma_seed_high": _REAL,
        "sigma_prompt": _REAL,
        "sigma_prompt_low": _REAL,
        "sigma_prompt_high": _REAL,
        "sigma_culture": _REAL,
        "sigma_culture_low": _REAL,
        "sigma_culture_high": _REAL,
        "nsr": _REAL,
        "nsr_low": _REAL,
        "nsr_high": _REAL,
        "status": _TEXT,
        "above_1": pa.bool_(),
        "above_2": pa.bool_(),
        "seed_lower_bound": pa.bool_(),
        "refusal_rate": _REAL,
        "parse_failure_rate": _REAL,
        "answered_refusal_rate": _REAL,
        "answered_parse_failure_rate": _REAL,
        "disagreement_rate": _REAL,
        "n_answered": pa.int32(),
        "n_compared": pa.int32(),
    },
    ("label", "item", "wording", "n_variants_valid", "n_seeds_valid", "status",
     "seed_lower_bound"),
)  # fmt: skip

VALIDITY_DISTRIBUTIONS = _schema(
    "validity_distributions",
    {
        "label": _TEXT,
        "item": _TEXT,
        "kind": _TEXT,
        "survey": _TEXT,
        "variable": _TEXT,
        "country": _TEXT,
        "wave": pa.int16(),
        "year": pa.int16(),
        "n_seeds_valid": pa.int32(),
        "n_variants_valid": pa.int32(),
        "n_models": pa.int32(),
        "sigma_seed": _REAL,
        "sigma_prompt": _REAL,
        "sigma_model": _REAL,
        "nsr": _REAL,
        "status": _TEXT,
        "above_1": pa.bool_(),
        "seed_lower_bound": pa.bool_(),
    },
    ("label", "item", "kind", "survey", "variable", "n_seeds_valid", "n_variants_valid", "status"),
)

VALIDITY_COUNTRIES = _schema(
    "validity_countries",
    {
        "country": _TEXT,
        "country_name": _TEXT,
        "region": _TEXT,
        "study": _TEXT,
        "wave": pa.int16(),
        "year": pa.int16(),
        "item": _TEXT,
        "mean": _REAL,
        "n_valid": pa.int64(),
        "weight": _TEXT,
    },
    ("country", "item", "mean"),
)

VALIDITY_CHANGE = _schema(
    "validity_change",
    {
        "label": _TEXT,
        "country": _TEXT,
        "country_name": _TEXT,
        "region": _TEXT,
        "wave_old": pa.int16(),
        "wave_new": pa.int16(),
        "year_old": pa.int16(),
        "year_new": pa.int16(),
        "x_old": _REAL,
        "y_old": _REAL,
        "x_new": _REAL,
        "y_new": _REAL,
        "change": _REAL,
        "survey_change": _REAL,
        "cosine": _REAL,
        "distance_old": _REAL,
        "distance_new": _REAL,
    },
    ("label", "country", "country_name", "x_old", "y_old", "x_new", "y_new", "change"),
)

VALIDITY_MAP = _schema(
    "validity_map",
    {
        "kind": _TEXT,
        "label": _TEXT,
        "name": _TEXT,
        "region": _TEXT,
        "group": _TEXT,
        "x": _REAL,
        "y": _REAL,
        "n": pa.int32(),
        "n_asked": pa.int32(),
        "mean_major": _REAL,
        "mean_minor": _REAL,
        "mean_angle": _REAL,
        "spread_major": _REAL,
        "spread_minor": _REAL,
        "spread_angle": _REAL,
        "tone_shift": _REAL,
        "reference_distance": _REAL,
        "nearest": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "lacking": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "imputed": pa.bool_(),
        "without": pa.list_(pa.field("element", pa.string(), nullable=False)),
    },
    ("kind", "label"),
)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table`` with exactly the columns, order, types and metadata of ``schema``.

    Raises
    ------
    KeyError
        A column is missing. A column too many is an error as well: no result is dropped
        silently.
    """
    if set(table.column_names) != set(schema.names):
        missing = sorted(set(schema.names) - set(table.column_names))
        extra = sorted(set(table.column_names) - set(schema.names))
        raise KeyError(f"columns missing: {missing}, columns too many: {extra}")
    own = {k: v for k, v in (table.schema.metadata or {}).items() if k.startswith(b"chronocore.")}
    result = table.select(schema.names).cast(schema)
    return result.replace_schema_metadata({**own, **schema.metadata})


def selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Return the part of a schema with these columns, in this order."""
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
