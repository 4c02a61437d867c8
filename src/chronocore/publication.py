"""Several files that change as one: either all are new, or all are as they were.

The new files are written beside the old ones first, which is all that can take long or find the
disk full. Then a journal says which file becomes which; from then on the new ones count, and
whoever finds the journal of a process that died puts them where they belong.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from chronocore import storage
from chronocore.errors import StudyError
from chronocore.parquet import parquet_bytes

__all__ = ["discard", "journal_path", "publish", "settle"]


def journal_path(root: Path, name: str) -> Path:
    """Return where the journal of a publication is while its files are put in place."""
    return root / f".{name}.journal"


def publish(
    root: Path, name: str, contents: Mapping[str, bytes | pa.Table], removed: Sequence[str] = ()
) -> None:
    """Replace files as one; the caller holds the lock of this name.

    Parameters
    ----------
    root : Path
    name : str
        What is published; one publication of a name at a time.
    contents : mapping of str to bytes or pyarrow.Table
        By path relative to ``root``; put in place in this order.
    removed : sequence of str
        Files that go.

    Raises
    ------
    StorageError
        Nothing was replaced.
    """
    settle(root, name)
    discard(root, name)
    token = uuid.uuid4().hex[:8]
    moves = {_staged(path, name, token): path for path in contents}
    try:
        # Most of the time of a small file goes into waiting for the disk.
        with ThreadPoolExecutor(max_workers=8) as pool:
            staged = [root / path for path in moves]
            targets = [root / path for path in contents]
            list(pool.map(_write, staged, targets, contents.values()))
        text = json.dumps({"moves": list(moves.items()), "removed": list(removed)})
        storage.write_atomic(journal_path(root, name), text.encode())
    except BaseException:
        if not journal_path(root, name).exists():
            for path in moves:
                with contextlib.suppress(Exception):
                    (root / path).unlink(missing_ok=True)
        raise
    settle(root, name)


def _staged(path: str, name: str, token: str) -> str:
    folder, separator, file = path.rpartition("/")
    return f"{folder}{separator}.{file}.{name}-{token}.staged"


def _write(staged: Path, target: Path, content: bytes | pa.Table) -> None:
    if isinstance(content, pa.Table):
        content = parquet_bytes(content, target)
    storage.write_atomic(staged, content)


def settle(root: Path, name: str) -> None:
    """Put in place what a publication has decided on; the caller holds the lock of this name.

    Does nothing where there is no journal, and may be repeated.

    Raises
    ------
    StudyError
        The journal cannot be read.
    """
    path = journal_path(root, name)
    try:
        journal = json.loads(storage.read_bytes(path))
        moves = [(root / str(source), root / str(target)) for source, target in journal["moves"]]
        removed = [root / str(gone) for gone in journal["removed"]]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StudyError(
            f"{path} cannot be read ({type(error).__name__}); delete it and run the command that "
            f"writes {name} again"
        ) from error
    for source, target in moves:
        with contextlib.suppress(FileNotFoundError):  # it is in place already
            storage.move(source, target)
    for gone in removed:
        storage.remove(gone)
        if not storage.is_remote(gone):
            with contextlib.suppress(OSError):
                gone.parent.rmdir()
    storage.remove(path)


def discard(root: Path, name: str) -> None:
    """Remove what a publication left that never came to its journal."""
    if storage.exists(journal_path(root, name)):
        return
    for folder in (root, root / "tables", *(root / "scores").glob("run=*"), root / "figures"):
        with contextlib.suppress(OSError):
            for path in folder.glob(f".*.{name}-*.staged"):
                path.unlink(missing_ok=True)
