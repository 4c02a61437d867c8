"""Inference engines: what answers prompts."""

from __future__ import annotations

import difflib
from pathlib import Path

from chronocore.engines.base import Answer, Engine, Option, Request, RunSettings
from chronocore.engines.file import FileEngine
from chronocore.engines.reference import REFERENCES, ReferenceEngine
from chronocore.errors import ConfigurationError

__all__ = [
    "REFERENCES",
    "Answer",
    "Engine",
    "FileEngine",
    "ModelSpec",
    "Option",
    "ReferenceEngine",
    "Request",
    "RunSettings",
    "parse_model_spec",
]

ModelSpec = tuple[str, str]

_ENGINES = ("vllm", "reference", "file")


def parse_model_spec(spec: str) -> ModelSpec:
    """Split a model specification into engine and model.

    Parameters
    ----------
    spec : str
        ``vllm:<model or path>``, ``reference:uniform|persistence|pooled`` or ``file:<parquet>``.

    Raises
    ------
    ConfigurationError
        The engine is not known or the model is missing.

    Examples
    --------
    >>> parse_model_spec("reference:uniform")
    ('reference', 'uniform')
    """
    if not isinstance(spec, str):
        raise ConfigurationError(
            f"model must be text such as 'file:mine.parquet', not {type(spec).__name__}; "
            "write a frame to Parquet first"
        )
    engine, separator, model = spec.partition(":")
    usage = "use vllm:MODEL, reference:uniform|persistence|pooled or file:PARQUET"
    if not separator:
        raise ConfigurationError(f"model {spec!r} names no engine; {usage}")
    if engine not in _ENGINES:
        near = difflib.get_close_matches(engine, _ENGINES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigurationError(f"there is no engine {engine!r}; {hint}{usage}")
    if not model:
        raise ConfigurationError(f"model {spec!r} names no model; {usage}")
    if engine == "reference" and model not in REFERENCES:
        near = difflib.get_close_matches(model, REFERENCES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(REFERENCES)}"
        raise ConfigurationError(f"there is no reference {model!r}; {hint}")
    if engine == "file":
        model = str(Path(model))
    return engine, model
