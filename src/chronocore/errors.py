"""Errors that say what was wrong, where, and what to do.

Every error of the package derives from :class:`ChronocoreError` and from the built-in class
a caller would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ChronocoreError",
    "ConfigurationError",
    "EngineError",
    "InvalidInputError",
    "MissingDependencyError",
    "OutOfMemoryError",
    "SourceError",
    "StoppedError",
    "StorageError",
    "StudyError",
]


class ChronocoreError(Exception):
    """Root of every error raised on purpose by chronocore."""


class InvalidInputError(ChronocoreError, ValueError):
    """An array, column or argument has a value that no metric is defined for."""


class ConfigurationError(ChronocoreError, ValueError):
    """A setting, a ``study.toml`` or a model specification cannot be understood."""


class ArgumentError(ConfigurationError):
    """An argument of a call is unknown, out of its range, or does not go with another one."""


class MissingDependencyError(ChronocoreError, ImportError):
    """An optional dependency is needed and not installed."""


class SourceError(ChronocoreError, ValueError):
    """Survey microdata are missing, unreadable or contradict what was declared."""


class StudyError(ChronocoreError, ValueError):
    """A folder is not a study, or not in the state the command needs."""


class StorageError(ChronocoreError, OSError):
    """Results could not be written or read back: full, read-only or failing storage."""


class OutOfMemoryError(StorageError, MemoryError):
    """There was not enough memory to read or write a file; the file is as it was."""


class EngineError(ChronocoreError, RuntimeError):
    """An inference engine failed to start or stopped before its work was done."""


class StoppedError(ChronocoreError, KeyboardInterrupt):
    """Work was stopped by Ctrl-C or SIGTERM; what was done is kept."""
