"""The kernels start and run wherever they are: never an abort, a hang or a wrong number."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

WORK = """
import numpy as np
import chronocore as cc
p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
q = np.array([[0.0, 0.5, 0.5], [0.2, 0.3, 0.5]])
def work():
    interval = cc.bootstrap([1.0, 2.0, 4.0], "mean", seed=1, method="resample").confidence_interval
    return cc.wasserstein(p, q).tolist(), interval
"""
ANSWER = ([0.5, 0.0], (1.0, 4.0))


def start(code, environment, **extra):
    return subprocess.Popen(
        [sys.executable, "-c", WORK + code],
        env={**environment, **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, timeout=240):
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out


@pytest.mark.slow
def test_a_read_only_install_without_a_home_compiles_in_memory(tmp_path, child_environment):
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    # A file where the folder should be: nothing can be written there, not even by root.
    (kernels / "chronocore_kernels" / "__pycache__").write_text("")
    path = child_environment["PYTHONPATH"].replace(str(ROOT / "kernels"), str(kernels))
    environment = {k: v for k, v in child_environment.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": path, "HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}
    code = "from chronocore_kernels import jit\nprint(jit._CACHE_FOLDER, work())"
    assert finish(start(code, environment)) == f"None {ANSWER}\n"


@pytest.mark.slow
def test_eight_cold_processes_share_one_cache(tmp_path, child_environment):
    environment = {**child_environment, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [start("print(work())", environment) for _ in range(8)]
    assert {finish(process, 500) for process in processes} == {f"{ANSWER}\n"}
    assert list(tmp_path.glob("numba-*/**/*.nbi"))


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_threads_may_call_kernels_at_once(layer, child_environment):
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print({str(f.result()) for f in [pool.submit(work) for _ in range(64)]})
"""
    environment = {**child_environment, "NUMBA_THREADING_LAYER": layer}
    assert finish(start(code, environment)) == f"{ {str(ANSWER)} }\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_with_one_thread(child_environment):
    code = """
import multiprocessing
before = work()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print({str(before), *map(str, pool.map(lambda_, range(4)))})
"""
    code = "def lambda_(_):\n    return work()\n" + code
    assert finish(start(code, child_environment)) == f"{ {str(ANSWER)} }\n"


@pytest.mark.slow
def test_a_changed_kernel_starts_an_empty_cache(tmp_path, child_environment):
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    path = child_environment["PYTHONPATH"].replace(str(ROOT / "kernels"), str(kernels))
    environment = {**child_environment, "PYTHONPATH": path}
    code = "print(float(cc.wasserstein([1.0, 0.0], [0.0, 1.0])))"
    assert finish(start(code, environment)) == "1.0\n"
    source = kernels / "chronocore_kernels" / "distances.py"
    text = source.read_text()
    source.write_text(text.replace("min(distance / span, 1.0)", "min(distance / span, 0.25)"))
    assert finish(start(code, environment)) == "0.25\n"


def test_flags_that_ignore_nan_are_refused():
    from chronocore_kernels.jit import inline

    with pytest.raises(ValueError, match="NaN"):
        inline(fastmath=frozenset({"nnan"}))


def _damages():
    return {
        "truncated": lambda content: content[: len(content) // 2],
        "empty": lambda content: b"",
        "garbage": lambda content: b"\x80\x04garbage" * 20,
        "flipped": lambda content: content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
    }


@pytest.fixture(scope="module")
def filled_cache(tmp_path_factory, child_environment):
    folder = tmp_path_factory.mktemp("cache")
    assert finish(start("print(work())", {**child_environment, "NUMBA_CACHE_DIR": str(folder)}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", list(_damages()))
def test_a_damaged_cache_is_named_set_aside_and_filled_again(
    suffix, damage, filled_cache, tmp_path, child_environment
):
    cache = tmp_path / "cache"
    shutil.copytree(filled_cache, cache)
    files = sorted(cache.glob(f"numba-*/**/*.{suffix}"))
    assert files
    for path in files:
        path.write_bytes(_damages()[damage](path.read_bytes()))
    environment = {**child_environment, "NUMBA_CACHE_DIR": str(cache)}
    process = start("print(work())", environment, PYTHONWARNINGS="default")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (0, f"{ANSWER}\n"), err
    assert "cache of compiled kernels is damaged" in err
    assert str(cache) in err
    assert "Traceback" not in err
    assert len(list(cache.glob("numba-*.damaged"))) == 1
    environment = {**child_environment, "NUMBA_CACHE_DIR": str(cache)}
    process = start("print(work())", environment, PYTHONWARNINGS="default")
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (0, f"{ANSWER}\n", "")


def test_the_cache_is_its_owners_alone(filled_cache, tmp_path, child_environment):
    (folder,) = filled_cache.glob("numba-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    cache = tmp_path / "cache"
    shutil.copytree(filled_cache, cache)
    (folder,) = cache.glob("numba-*")
    folder.chmod(0o777)
    finish(start("", {**child_environment, "NUMBA_CACHE_DIR": str(cache)}))
    assert folder.stat().st_mode & 0o777 == 0o700
