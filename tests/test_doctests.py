"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import chronocore

MODULES = ["chronocore"] + [
    info.name for info in pkgutil.walk_packages(chronocore.__path__, "chronocore.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    found = [importlib.import_module(name) for name in MODULES]
    examples = sum(len(t.examples) for m in found for t in doctest.DocTestFinder().find(m))
    assert examples >= 30
