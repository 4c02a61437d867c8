"""Locks that keep a second process out: of the system for folders, leases for object stores.

Object stores have no locks that the system frees, so a lock is a lease: an object that its holder
renews, and that others may take over once it was not renewed for :data:`LEASE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock

from chronocore.errors import StorageError
from chronocore.storage import LockHeldError, is_remote, reaching, storage_error

__all__ = ["LEASE_SECONDS", "lock"]

LEASE_SECONDS = 30.0
"""A lease that was not renewed for this long belongs to nobody."""

_SETTLE_SECONDS = 1.0


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
        _refuse_link(path)
        held.acquire()
    except filelock.Timeout:
        raise LockHeldError from None
    except OSError as error:
        raise storage_error("lock", path, error) from error
    try:
        yield
    finally:
        held.release()


def _refuse_link(path: Path) -> None:
    """Refuse a lock that is a link: to lock a file can empty it, and this one lies elsewhere."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StorageError(
            f"cannot lock {path}: it is a symbolic link, which no lock of ours is; delete it, and "
            "look at who made this folder"
        ) from error


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
