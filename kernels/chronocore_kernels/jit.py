"""The one door through which every kernel is compiled.

Kernels are compiled on first use and cached on disk. Two environment variables, read when the
package is imported, change that:

``CHRONOCORE_JIT=0``
    Run the kernels as plain Python: slow, for debugging and for coverage.
``CHRONOCORE_CACHE=0``
    Compile in memory only.

Numba keys its cache by the file of a kernel alone, so that a change to a helper in another file
would go unnoticed, and two releases of Numba would replace each other's entries. The cache
therefore lies in a folder named by the digest of all kernel sources and the release: any change
to any of them starts an empty one.

Numba unpickles what it finds there. Each file therefore begins with its own checksum, the folder is
its owner's alone, and one in which anything is damaged is set aside and filled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile

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
    digest = hashlib.sha256(numba.__version__.encode())
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
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(folder):
                continue
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except OSError:
            continue
    return None


def _is_private(folder: Path) -> bool:
    """Return whether nobody else can put a file into a folder; one of ours is closed to them."""
    if not hasattr(os, "geteuid"):
        return True
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o077:
        folder.chmod(0o700)
    return True


_CACHE_FOLDER = _cache_folder() if JIT_ENABLED and _CACHE_ENABLED else None


_CHECKSUM = hashlib.sha256().digest_size


class _DamagedError(Exception):
    """A file of the cache is not what was written to it."""


class _CheckedFile(IndexDataCacheFile):
    """The cache of one kernel, in files that begin with their checksum.

    What can be read and is damaged sets the whole folder aside. What cannot be read or written, for
    want of space, handles or permission, counts as not there.
    """

    def _read(self, path: str) -> Any:
        content = Path(path).read_bytes()
        if hashlib.sha256(content[_CHECKSUM:]).digest() != content[:_CHECKSUM]:
            raise _DamagedError(path)
        return pickle.loads(content[_CHECKSUM:])

    def _write(self, path: str, value: Any) -> None:
        content: bytes = self._dump(value)  # type: ignore[no-untyped-call]
        with contextlib.suppress(OSError), self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = self._read(self._index_path)
        except OSError:
            return {}
        except _DamagedError as error:
            _set_aside(str(error))
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        try:
            return self._read(str(Path(self._cache_path) / name))
        except _DamagedError as error:
            _set_aside(str(error))
            return None

    def _save_data(self, name: str, data: Any) -> None:
        self._write(str(Path(self._cache_path) / name), data)


def _set_aside(path: str) -> None:
    """Rename the folder of the cache, in which a file is damaged, and say so."""
    folder = Path(cast(str, _CACHE_FOLDER))
    aside = folder.with_name(f"{folder.name}.damaged")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        folder.mkdir(mode=0o700, exist_ok=True)
        what = f"the folder is now {aside.name}, which you may delete"
    except FileNotFoundError:
        return  # another process found it first
    except OSError as error:
        what = f"delete {folder}, which could not be renamed ({error.strerror})"
    warnings.warn(
        f"the cache of compiled kernels is damaged ({path}); {what}; "
        "the kernels are compiled again",
        RuntimeWarning,
        stacklevel=2,
    )


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
        compiled = numba.njit(cache=True, **options)(function)
    finally:
        settings["CACHE_DIR"] = before
    stored: Any = getattr(compiled, "_cache", None)  # none under NUMBA_DISABLE_JIT
    if stored is not None:
        impl = stored._impl
        stored._cache_file = _CheckedFile(  # type: ignore[no-untyped-call]
            stored.cache_path, impl.filename_base, impl.locator.get_source_stamp()
        )
    return cast(Callable[..., Any], compiled)


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
