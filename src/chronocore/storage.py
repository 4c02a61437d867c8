"""Where files are: a folder, or a prefix of an object store that fsspec knows.

A study's path is a :class:`pathlib.Path`, or for a URL such as ``s3://bucket/study`` a
:class:`upath.UPath`, which has the same methods. What differs lies here: whether something is
there, how a file is written whole and how it is read. Object stores put an object whole or not
at all, so nothing has to be renamed there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from chronocore.errors import (
    ChronocoreError,
    MissingDependencyError,
    OutOfMemoryError,
    StorageError,
)

__all__ = [
    "LockHeldError",
    "digest",
    "exists",
    "is_file",
    "is_folder",
    "is_remote",
    "is_shortage",
    "is_stray",
    "location",
    "move",
    "reaching",
    "read_bytes",
    "remove",
    "remove_folder",
    "storage_error",
    "write_atomic",
    "writing",
]

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


#: What a library says that had no memory and does not raise MemoryError.
_MEMORY_WORDS = re.compile(
    r"bad_alloc|alloc of size|allocation error|cannot allocate|not enough memory|out of memory"
    r"|can't start new thread|failed to map segment|resource temporarily unavailable",
    re.IGNORECASE,
)

_HINTS = {
    errno.ENOSPC: "the disk is full; free some space and run the command again",
    errno.EDQUOT: "your quota is used up; free some space and run the command again",
    errno.EIO: (
        "the device reports an error (Input/output error); nothing was changed, look at the disk "
        "or the network it is reached by and run the command again"
    ),
    errno.EMFILE: (
        "too many files are open; raise the limit (ulimit -n 1024), or lower --concurrency, and "
        "run the command again"
    ),
    errno.ENFILE: "the system has too many files open; end other programs and run it again",
    errno.ELOOP: "its links lead in a circle; choose another path",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another path",
    errno.EEXIST: "a file stands where a folder is needed; choose another path",
    errno.EISDIR: (
        "Is a directory: a folder stands where a file is needed; move it away or delete it"
    ),
}


def is_shortage(error: BaseException) -> bool:
    """Return whether an error says what a reader lacked, and nothing about what it read.

    Memory, threads, file handles, permission, a device that fails: what is on the disk may be
    perfectly whole. Errors of the system have a number; those of a decoder have none.
    """
    if isinstance(error, MemoryError | StorageError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return True
    return bool(_MEMORY_WORDS.search(str(error)))


def storage_error(action: str, path: Path, error: BaseException) -> StorageError:
    """Return the error of a file that could not be read or written, with what to do."""
    number = error.errno if isinstance(error, OSError) else None
    no_memory = isinstance(error, MemoryError) or number == errno.ENOMEM
    if no_memory or (number is None and _MEMORY_WORDS.search(str(error))):
        return OutOfMemoryError(
            f"cannot {action} {path}: not enough memory; nothing was changed, give the command "
            "more (ulimit -v, or what the job asked the scheduler for) and run it again"
        )
    if number == errno.ENOSPC and _has_no_inodes(path):
        what = (
            "the file system has no room for another file; delete files you do not need (predict "
            "--compact merges those of a study) and run the command again"
        )
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS) or isinstance(error, PermissionError):
        what = _denied(action, path, number)
    elif number in _HINTS:
        what = _HINTS[number]
    else:
        what = " ".join(str(getattr(error, "strerror", None) or error).split())
        what = what or type(error).__name__
    return StorageError(f"cannot {action} {path}: {what}")


def _denied(action: str, path: Path, number: int | None) -> str:
    if is_remote(path):
        return "the store denies access; check your credentials and the bucket's rights"
    if action in ("read", "list", "open") and number != errno.EROFS:
        return "you have no permission to; ask its owner, or change its permissions"
    return "the folder is read-only for you; choose another folder or change its permissions"


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


def _info(path: Path) -> dict[str, Any] | None:
    """Return what a store knows of an object or prefix; None where there is none."""
    remote: Any = path
    try:
        with reaching("read", path):
            found: dict[str, Any] = remote.fs.info(remote.path)
    except FileNotFoundError:
        return None
    return found


def _mode(path: Path) -> int | None:
    """Return the mode of a local file or folder; None where there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error("read", path, error) from error


def exists(path: Path) -> bool:
    """Return whether there is a file or folder.

    Raises
    ------
    StorageError
        It cannot be told: access is denied, the device or the store fails. That is not the same
        as missing.
    """
    return (_info(path) if is_remote(path) else _mode(path)) is not None


def is_file(path: Path) -> bool:
    """Return whether there is a file; raises as :func:`exists`."""
    if is_remote(path):
        found = _info(path)
        return found is not None and found.get("type") == "file"
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder, or a prefix with objects; raises as :func:`exists`."""
    if is_remote(path):
        found = _info(path)
        return found is not None and found.get("type") == "directory"
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


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
        if isinstance(error, OSError | MemoryError) or is_remote(path):
            raise storage_error("read", path, error) from error
        raise


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content; raises as :func:`read_bytes`."""
    if is_remote(path):
        return hashlib.sha256(read_bytes(path)).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise
    except (OSError, MemoryError) as error:
        raise storage_error("read", path, error) from error


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
    with writing(path) as file:
        file.write(content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write to, which becomes ``path`` when the block ends.

    Raises
    ------
    StorageError
        The disk is full or read-only; ``path`` is as it was before, as it is when the block
        raises.
    """
    if is_remote(path):
        remote: Any = path
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "object"
            with local.open("wb") as file:
                yield file
            with reaching("write", path):
                remote.fs.put_file(str(local), remote.path)
        return
    # A link is written through, as other programs do; a device or a folder is no place to write.
    try:
        path = path.resolve()
    except (OSError, RuntimeError) as error:  # 3.11 raises RuntimeError for links in a circle
        raise storage_error("write", path, OSError(errno.ELOOP, str(error))) from error
    if exists(path) and not is_file(path):
        raise StorageError(f"cannot write {path}: it is no regular file; choose another path")
    owner = f"{os.getpid()}@{socket.gethostname()}"
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{owner}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except ChronocoreError:
        raise
    except OSError as error:
        raise storage_error("write", path, error) from error


def move(source: Path, target: Path) -> None:
    """Give a file another name; what was there under that name is replaced."""
    try:
        if is_remote(source):
            remote: Any = source
            aim: Any = target
            remote.fs.copy(remote.path, aim.path)
            remote.fs.rm_file(remote.path)
        else:
            source.replace(target)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise storage_error("rename", source, error) from error


def remove(path: Path) -> None:
    """Remove a file; no matter if it is not there."""
    try:
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    except Exception as error:
        raise storage_error("remove", path, error) from error


def remove_folder(folder: Path) -> int:
    """Remove a folder with all files in it; return how many those were.

    A file that the system keeps under another name while it is open (NFS) keeps its folder, too.
    """
    with reaching("remove", folder):
        files = [path for path in folder.rglob("*") if is_file(path)]
    for path in files:
        remove(path)
    if not is_remote(folder):
        inner = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
        for path in [*inner, folder]:
            with contextlib.suppress(OSError):
                path.rmdir()
    return len(files)


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
