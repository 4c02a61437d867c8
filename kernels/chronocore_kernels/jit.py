"""The one door through which every kernel is compiled.

Kernels are compiled on first use and cached on disk. Two environment variables, read when the
package is imported, change that:

``CHRONOCORE_JIT=0``
    Run the kernels as plain Python: slow, for debugging and for coverage.
``CHRONOCORE_CACHE=0``
    Compile in memory only.

Numba keys its cache by the file of a kernel alone, so that a change to a helper in another file
would go unnoticed. The cache therefore lies in a folder named by the digest of all kernel
sources: any change to any of them starts an empty one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numba
import numpy as np

__all__ = ["JIT_ENABLED", "compiled_kernels", "inline", "kernel", "threads"]

F = TypeVar("F", bound=Callable[..., Any])

JIT_ENABLED: bool = os.environ.get("CHRONOCORE_JIT", "1") != "0"
_CACHE_ENABLED: bool = os.environ.get("CHRONOCORE_CACHE", "1") != "0"

# Parallel kernels called from several Python threads at once abort the process under Numba's
# workqueue layer; one lock around every parallel call makes them queue up instead. A child made
# by fork must not inherit the lock while another thread of the parent holds it.
_PARALLEL = threading.Lock()
# Numba's threads do not survive a fork: a child that used them would be killed (GNU OpenMP) or
# hang. It runs the same kernels on one thread instead; their results are the same bits.
_threads_started = False
_threads_lost = False


def _after_fork() -> None:
    global _PARALLEL, _threads_lost
    _PARALLEL = threading.Lock()
    _threads_lost = _threads_started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_kernels: dict[str, Callable[..., Any]] = {}


def _cache_folder() -> str | None:
    """Return a folder for compiled kernels, or None if none can be written."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"numba-{digest.hexdigest()[:16]}"
    candidates = [here / "__pycache__" / name]
    if os.environ.get("NUMBA_CACHE_DIR"):
        candidates.insert(0, Path(os.environ["NUMBA_CACHE_DIR"]) / name)
    user = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder is known
        candidates.append((Path(user) if user else Path.home() / ".cache") / "chronocore" / name)
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except OSError:
            continue
    return None


_CACHE_FOLDER = _cache_folder() if JIT_ENABLED and _CACHE_ENABLED else None


def compiled_kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels known so far by qualified name (for warm-up and tests)."""
    return dict(_kernels)


def _compile(
    function: Callable[..., Any], *, cache: bool = True, **options: Any
) -> Callable[..., Any]:
    if not JIT_ENABLED:

        @wraps(function)
        def interpreted(*arguments: Any) -> Any:
            # Compiled integers wrap around silently and x / 0 is inf; so it is here.
            with np.errstate(all="ignore"):
                return function(*arguments)

        return interpreted
    # error_model="numpy": x / 0 is inf or NaN, as in NumPy, and loops stay branch-free.
    options = {"nogil": True, "error_model": "numpy", **options}
    if _CACHE_FOLDER is None or not cache:
        return cast(Callable[..., Any], numba.njit(cache=False, **options)(function))
    # The locator of the cache is chosen while decorating; other users of Numba in this process
    # keep their own folder.
    settings = vars(numba.config)
    before = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = _CACHE_FOLDER
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, **options)(function))
    finally:
        settings["CACHE_DIR"] = before


def _check_flags(fastmath: frozenset[str]) -> None:
    if fastmath & {"nnan", "ninf", "fast"}:
        raise ValueError("fast-math flags that ignore NaN or infinity are not allowed in kernels")


@overload
def inline(function: F) -> F: ...
@overload
def inline(*, fastmath: frozenset[str]) -> Callable[[F], F]: ...
def inline(function: F | None = None, *, fastmath: frozenset[str] = frozenset()) -> Any:
    """Compile a helper that kernels call.

    Parameters
    ----------
    fastmath : frozenset of str
        LLVM fast-math flags, for sums that may be reordered; flags that ignore NaN or infinity
        are refused.
    """
    _check_flags(fastmath)
    options: dict[str, Any] = {"fastmath": set(fastmath)} if fastmath else {}
    if function is None:
        return lambda one: _compile(one, **options)
    return _compile(function, **options)


def kernel(*, parallel: bool = False) -> Callable[[F], F]:
    """Compile a kernel, NumPy arrays in and out.

    Parameters
    ----------
    parallel : bool
        The kernel uses ``numba.prange``. Calls from several Python threads then queue up.
    """

    def decorate(function: F) -> F:
        compiled = _compile(function, parallel=parallel)
        entry = compiled
        if parallel and JIT_ENABLED:
            # Numba's cache does not tell a serial from a parallel compilation, so only the
            # parallel one is kept there.
            @lru_cache(maxsize=1)
            def serial() -> Callable[..., Any]:
                return _compile(function, cache=False)

            @wraps(function)
            def guarded(*arguments: Any) -> Any:
                global _threads_started
                with _PARALLEL:
                    if _threads_lost:
                        return serial()(*arguments)
                    _threads_started = True
                    return compiled(*arguments)

            entry = guarded
        _kernels[f"{function.__module__}.{function.__qualname__}"] = entry
        return cast(F, entry)

    return decorate


@contextlib.contextmanager
def threads(limit: int) -> Iterator[None]:
    """Run kernels on at most ``limit`` threads: for work that waking another costs more than.

    Where other programs keep the cores busy, a thread that waits for its turn can hold a call of
    microseconds for milliseconds. Results do not depend on the number of threads.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, min(limit, before)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
