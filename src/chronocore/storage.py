"""Where files are: a folder, or a prefix of an object store that fsspec knows.

A study's path is a :class:`pathlib.Path`, or for a URL such as ``s3://bucket/study`` a
:class:`upath.UPath`, which has the same methods. What differs lies here: how a file is written
whole, how it is read, and how a process keeps others out.

Object stores put an object whole or not at all, so nothing has to be renamed there. They have no
locks that the system frees, so a lock is a lease: an object that its holder renews, and that
others may take over once it was not renewed for :data:`LEASE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import filelock

from chronocore.errors import ChronocoreError, MissingDependencyError, StorageError

__all__ = [
    "LEASE_SECONDS",
    "LockHeldError",
    "is_remote",
    "is_stray",
    "location",
    "lock",
    "reaching",
    "read_bytes",
    "storage_error",
    "write_atomic",
]

LEASE_SECONDS = 30.0
"""A lease that was not renewed for this long belongs to nobody."""

_SETTLE_SECONDS = 1.0
_STRAY_SECONDS = 86_400.0


class LockHeldError(Exception):
    """Another process holds a lock."""


def is_remote(path: Path) -> bool:
    """Return whether a path lies in an object store."""
    return not isinstance(path, Path)


def location(path: str | Path) -> Path:
    """Return the path of a file or folder named by a path or a URL.

    Parameters
    ----------
    path : str or path
        ``file:`` URLs and everything without ``://`` are local.

    Returns
    -------
    Path
        For an object store a ``UPath``, which behaves like one.

    Raises
    ------
    MissingDependencyError
        The filesystem of the URL is not installed.
    StorageError
        There is no filesystem of this name.

    Examples
    --------
    >>> location("study").name
    'study'
    """
    if not isinstance(path, str):
        return path
    scheme, separator, rest = path.partition("://")
    if not separator:
        return Path(path)
    if scheme in ("file", "local"):
        return Path(rest)
    try:
        from upath import UPath
    except ImportError:
        raise MissingDependencyError(
            f"{path} is a URL; run: pip install 'chronocore[remote]'"
        ) from None
    try:
        # What others wrote a moment ago must be seen, so nothing is remembered.
        remote = UPath(path.rstrip("/"), use_listings_cache=False)
        _ = remote.fs
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: {error}; for s3:// run: pip install 'chronocore[remote]'"
        ) from None
    except ValueError as error:
        raise StorageError(f"{path}: {error}; use a folder, s3://… or another fsspec URL") from None
    return cast(Path, remote)


def storage_error(action: str, path: Path, error: BaseException) -> StorageError:
    """Return the error of a file that could not be read or written, with what to do."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC and _has_no_inodes(path):
        what = (
            "the file system has no room for another file; delete files you do not need (predict "
            "--compact merges those of a study) and run the command again"
        )
    elif number == errno.ENOSPC:
        what = "the disk is full; free some space and run the command again"
    elif number in (errno.EROFS, errno.EACCES, errno.EPERM) or isinstance(error, PermissionError):
        what = "the folder is read-only for you; choose another folder or change its permissions"
        if is_remote(path):
            what = "the store denies access; check your credentials and the bucket's rights"
    elif number in (errno.ENOTDIR, errno.EEXIST):
        what = "a file stands where a folder is needed; choose another path"
    else:
        what = " ".join(str(getattr(error, "strerror", None) or error).split())
        what = what or type(error).__name__
    return StorageError(f"cannot {action} {path}: {what}")


def _has_no_inodes(path: Path) -> bool:
    """Return whether a file system has space left, but no entry for another file."""
    for folder in path.parents:
        with contextlib.suppress(OSError, AttributeError):
            found = os.statvfs(folder)
            return found.f_files > 0 and found.f_ffree == 0 and found.f_bavail > 0
    return False


@contextlib.contextmanager
def reaching(action: str, path: Path) -> Iterator[None]:
    """Turn whatever an object store raises into a :class:`StorageError`.

    A file that is not there to be read stays ``FileNotFoundError``, and local paths keep their
    errors.
    """
    try:
        yield
    except (ChronocoreError, LockHeldError):
        raise
    except Exception as error:
        missing = isinstance(error, FileNotFoundError) and action not in ("lock", "write")
        if is_remote(path) and not missing:
            raise storage_error(action, path, error) from error
        raise


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises
    ------
    FileNotFoundError
    StorageError
        It is there and cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except Exception as error:
        if isinstance(error, OSError) or is_remote(path):
            raise storage_error("read", path, error) from error
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that no reader ever sees a part of it.

    Raises
    ------
    StorageError
        The disk is full or read-only; ``path`` is as it was before.
    """
    if is_remote(path):
        with reaching("write", path):
            remote: Any = path
            remote.fs.pipe_file(remote.path, content)
        return
    # A link is written through, as other programs do; a device or a folder is no place to write.
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise StorageError(f"cannot write {path}: it is no regular file; choose another path")
    owner = f"{os.getpid()}@{socket.gethostname()}"
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{owner}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise storage_error("write", path, error) from error


def is_stray(temporary: Path) -> bool:
    """Return whether the process that wrote a temporary file is gone.

    Of a process of another machine nothing is known; its file is stray when it is a day old.
    """
    match = re.search(r"\.(\d+)@([^@]*)\.tmp$", temporary.name)
    if match and match[2] == socket.gethostname():
        try:
            os.kill(int(match[1]), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False
    try:
        return time.time() - temporary.stat().st_mtime > _STRAY_SECONDS
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def lock(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of this path; it is free again when the process ends, however it ends.

    Parameters
    ----------
    path : Path
        The file or object that stands for the lock.
    timeout : float
        Seconds to wait for another holder. A lease of a process that was killed is waited for
        in any case, at most :data:`LEASE_SECONDS`.

    Raises
    ------
    LockHeldError
        Another process holds it.
    StorageError
        The lock cannot be written.
    """
    if is_remote(path):
        lease = _Lease(path)
        with reaching("lock", path):
            lease.take(timeout)
        try:
            yield
        finally:
            lease.free()
        return
    held = filelock.FileLock(path, timeout=timeout)
    try:
        held.acquire()
    except filelock.Timeout:
        raise LockHeldError from None
    except OSError as error:
        raise storage_error("lock", path, error) from error
    try:
        yield
    finally:
        held.release()


class _Lease:
    """A lock in an object store: an object that says who holds it and changes while they do.

    Whether a holder still lives is told by watching the object change, never by comparing
    clocks: those of two machines may differ by hours.
    """

    def __init__(self, path: Path) -> None:
        remote: Any = path
        self._fs = remote.fs
        self._path = remote.path
        self._name = uuid.uuid4().hex
        self._renewals = 0
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self, timeout: float) -> None:
        seen, since = None, time.monotonic()
        deadline = since + timeout
        while not self._create():
            content = self._read()
            now = time.monotonic()
            if content is None:
                continue
            if content != seen:
                if seen is not None and now >= deadline:
                    raise LockHeldError  # it was renewed while we watched
                seen, since = content, now
            elif now - since >= LEASE_SECONDS:
                self._put(overwrite=True)
                # Of several that take it over at once the last one to write has it.
                time.sleep(_SETTLE_SECONDS)
                if self._holds():
                    break
                seen, since = None, time.monotonic()
            time.sleep(0.1 if timeout < 1 else 0.25)
        self._renewing = threading.Thread(target=self._renew, name="chronocore-lease", daemon=True)
        self._renewing.start()

    def free(self) -> None:
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()
        with contextlib.suppress(Exception):
            if self._holds():
                self._fs.rm_file(self._path)

    def _create(self) -> bool:
        try:
            self._put(overwrite=False)
        except FileExistsError:
            return False
        except Exception as error:
            # S3's conditional write answers 412 (or 409 while another is under way).
            if any(sign in str(error) for sign in ("PreconditionFailed", "Conditional", "412")):
                return False
            raise
        return True

    def _put(self, *, overwrite: bool) -> None:
        content = f"{self._name} {self._renewals}".encode()
        self._fs.pipe_file(self._path, content, mode="overwrite" if overwrite else "create")

    def _read(self) -> bytes | None:
        try:
            content: bytes = self._fs.cat_file(self._path)
        except FileNotFoundError:
            return None
        return content

    def _holds(self) -> bool:
        content = self._read()
        return content is not None and content.split(b" ")[0] == self._name.encode()

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_SECONDS / 4):
            # A store that is away for a moment is no reason to stop: parts have names of their
            # own, and a row that two processes wrote is read once.
            with contextlib.suppress(Exception):
                if not self._holds():
                    return
                self._renewals += 1
                self._put(overwrite=True)
