"""Bring your own predictions: a Parquet file answers the prompts."""

from __future__ import annotations

import contextlib
import errno
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chronocore import storage
from chronocore.engines.base import (
    ELICITATIONS,
    INSTRUCTIONS,
    LARGEST_MAX_TOKENS,
    LARGEST_SEED,
    STATUSES,
    Answer,
    Request,
    RunSettings,
)
from chronocore.errors import ConfigurationError, InvalidInputError, StorageError
from chronocore.finish_reasons import ending
from chronocore.identity import run_id
from chronocore.parquet import DamagedFileError, decoding, open_parquet
from chronocore.row_digest import ROWS_METADATA, RUN_METADATA, RowDigest, rows_digest
from chronocore.schema import PREDICTIONS
from chronocore.text import LONGEST_NAME, plain

__all__ = ["FileEngine"]

#: So many rows are read at a time; each may have a long text.
_BATCH_ROWS = 256

_NOT_OURS = (errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM)

#: What a row answers: prompt id, or place and year, and then the repeat.
Key = tuple[Any, ...]

#: What is read of a file, and as what.
_COLUMNS: dict[str, pa.DataType] = {
    "prompt_id": pa.string(),
    "survey": pa.string(),
    "variable": pa.string(),
    "country": pa.string(),
    "year": pa.int64(),
    "repeat": pa.int64(),
    "probs": pa.list_(pa.float64()),
    "text": pa.string(),
    "thinking": pa.string(),
    "status": pa.string(),
    "reason": pa.string(),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int32(),
    "completion_tokens": pa.int32(),
}

_LOCATION = ("survey", "variable", "country", "year")


def _undecodable(column: pa.ChunkedArray) -> int | None:
    """Return the first row whose text is not UTF-8, if the column holds text."""
    if not pa.types.is_string(column.type):
        return None
    for row, value in enumerate(column.cast(pa.binary()).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return row
    return None


def _plain(text: str | None) -> str | None:
    return None if text is None else plain(text)


def _impossible(settings: RunSettings) -> str | None:
    """Return which setting no run of a study can have, and why."""
    for name, known in (("elicitation", ELICITATIONS), ("instruction", INSTRUCTIONS)):
        value = getattr(settings, name)
        if value not in known:
            return f"an unknown {name}, {plain(value)!r}; known: {', '.join(known)}"
    for name, least, largest in (
        ("max_tokens", 1, LARGEST_MAX_TOKENS),
        ("seed", -LARGEST_SEED - 1, LARGEST_SEED),
    ):
        value = getattr(settings, name)
        if value is not None and not least <= value <= largest:
            return f"{name} {value}; it is a whole number from {least} to {largest}"
    for name in ("temperature", "top_p"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < math.inf:
            return f"{name} {value}; it is a number from 0"
    return None


class FileEngine:
    """Answers prompts from a Parquet file.

    The file has a column ``prompt_id``, or ``survey``, ``variable``, ``country`` and ``year``
    (null: undated); and ``probs`` (lists over the options in their order) or ``text`` (to be
    parsed). ``repeat``, ``finish_reason`` and ``thinking`` are optional. A file exported by
    :func:`chronocore.export_run` carries its run: the predictions come back as that run.

    Raises
    ------
    ConfigurationError
        The file is missing or no Parquet file, or lacks columns.
    InvalidInputError
        Two rows answer one prompt, or a location is incomplete.
    """

    def __init__(
        self, path: Path, instruction: str = "default", elicitation: str = "verbalized"
    ) -> None:
        self._stopped = False
        self.path = path
        self._closing = contextlib.ExitStack()
        try:
            self._open(instruction, elicitation)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, instruction: str, elicitation: str) -> None:
        if self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a folder; name the Parquet file in it")
        with self._decoding():
            # The file stays open: what is checked now is what is answered from later.
            self._file = self._closing.enter_context(open_parquet(self.path))
            schema = self._file.schema_arrow
            schema.names  # noqa: B018  # decodes them
            digest = storage.digest(self.path)
        self.notes = {"file": plain(self.path.name)}
        self.label: str | None = None
        self.settings = RunSettings(
            model=plain(self.path.stem) or "file",
            engine="file",
            engine_version="1",
            revision="sha256:" + digest,
            elicitation=elicitation,
            instruction=instruction,
        )
        self._check_columns(schema)
        metadata = self._file.metadata.metadata or {}
        exported = RUN_METADATA in metadata
        if exported:
            self._take_run(metadata[RUN_METADATA])
        if exported != (ROWS_METADATA in metadata):
            raise ConfigurationError(
                f"{self.path} was exported, and lacks a part of what says so: it is damaged or of "
                "an earlier version; export it again"
            )
        seen = RowDigest(PREDICTIONS) if exported else None
        self._keys = self._index(seen)
        if seen is not None:
            self._check_rows(metadata, seen)

    def _check_rows(self, metadata: Mapping[bytes, bytes], seen: RowDigest) -> None:
        """Refuse rows under the name of a run that are not the ones it was exported with."""
        if metadata[ROWS_METADATA] != rows_digest(metadata[RUN_METADATA], seen):
            raise ConfigurationError(
                f"{self.path}: its rows are not those that were exported with it (edited or "
                "damaged), so they are not taken for that run; export it again, or write it "
                "without its metadata (polars' write_parquet, or pyarrow after "
                "replace_schema_metadata(None)) to import it as a new run"
            )

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        """Tell in terms of a predictions file what is wrong with it."""
        try:
            with decoding(self.path):
                yield
        except FileNotFoundError:
            raise ConfigurationError(f"there is no file {self.path}") from None
        except StorageError as error:
            system = error.__cause__
            if isinstance(system, OSError) and system.errno in _NOT_OURS:
                raise ConfigurationError(
                    f"{self.path} cannot be opened ({system.strerror}); check that it is a file "
                    "and that you may read it"
                ) from None
            raise
        except DamagedFileError as error:
            raise ConfigurationError(
                f"{self.path} is no readable Parquet file; write your predictions with to_parquet "
                f"(pandas) or write_parquet (polars) ({plain(error.cause)})"
            ) from None

    def _tables(self, seen: RowDigest | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yield some rows at a time, with the number of the first of them."""
        columns = [name for name in _COLUMNS if name in self._file.schema_arrow.names]
        chosen = columns if seen is None else None
        batches = self._file.iter_batches(batch_size=_BATCH_ROWS, columns=chosen, use_threads=False)
        start = 0
        while True:
            with self._decoding():
                batch = next(batches, None)
                if batch is None:
                    return
                table = pa.Table.from_batches([batch])
                if seen is not None:
                    seen.update(table)
            yield start, self._typed(table, start)
            start += len(table)

    def _check_columns(self, schema: pa.Schema) -> None:
        names = set(schema.names)
        self._by_id = "prompt_id" in names
        has = plain(", ".join(schema.names)) or "no column"
        if not self._by_id and not set(_LOCATION) <= names:
            raise ConfigurationError(
                f"{self.path} needs a column prompt_id, or all of {', '.join(_LOCATION)}; "
                f"it has {has}"
            )
        if not names & {"probs", "text"}:
            raise ConfigurationError(
                f"{self.path} needs a column probs (lists) or text; it has {has}"
            )
        for name in _COLUMNS:
            if schema.names.count(name) > 1:
                raise ConfigurationError(f"{self.path} has two columns {name}; keep one")
        if "probs" in names and not (
            pa.types.is_list(schema.field("probs").type)
            or pa.types.is_large_list(schema.field("probs").type)
            or pa.types.is_fixed_size_list(schema.field("probs").type)
        ):
            raise ConfigurationError(
                f"{self.path}: probs must be a column of lists of numbers, "
                f"it is {schema.field('probs').type}"
            )

    def _typed(self, table: pa.Table, start: int) -> pa.Table:
        """Cast every column that is read to its type, or say which one cannot be."""
        columns: dict[str, pa.ChunkedArray] = {}
        for name, kind in _COLUMNS.items():
            if name not in table.column_names:
                continue
            column = table.column(name)
            try:
                if pa.types.is_dictionary(column.type):
                    column = column.cast(column.type.value_type)
                if name in ("year", "country", "repeat") and pa.types.is_floating(column.type):
                    # pandas writes integers with missing values as floats; NaN is missing.
                    column = pc.if_else(pc.is_nan(column), None, column).cast(pa.int64())
                if name == "year" and not (
                    pa.types.is_integer(column.type) or pa.types.is_null(column.type)
                ):
                    raise pa.ArrowInvalid("years must be integers, null for undated")
                if name == "probs" and not pa.types.is_null(column.type):
                    value = column.type.value_type
                    if not (pa.types.is_floating(value) or pa.types.is_integer(value)):
                        raise pa.ArrowInvalid(f"lists of {value}, not of numbers")
                if kind == pa.string() and not (
                    pa.types.is_string(column.type)
                    or pa.types.is_large_string(column.type)
                    or pa.types.is_string_view(column.type)
                    or pa.types.is_null(column.type)
                    or (name == "country" and pa.types.is_integer(column.type))
                ):
                    raise pa.ArrowInvalid(f"{column.type}, not text")
                columns[name] = column.cast(kind)
                columns[name].validate(full=True)
            except MemoryError:
                raise
            except pa.ArrowException as error:
                row = _undecodable(columns[name]) if name in columns else None
                where = f"column {name}" if row is None else f"row {start + row}, column {name}"
                what = plain(str(error)) if row is None else "the text is not UTF-8; write it anew"
                raise ConfigurationError(f"{self.path}, {where}: {what}") from None
        statuses = set(columns["status"].to_pylist()) - {None} if "status" in columns else set()
        if statuses - STATUSES:
            raise ConfigurationError(
                f"{self.path}, column status: {plain(min(statuses - STATUSES))!r} is none of "
                f"{', '.join(sorted(STATUSES))}"
            )
        return pa.table(columns)

    def _take_run(self, metadata: bytes) -> None:
        """Take over settings, notes and label of the run that the file carries."""
        try:
            data = json.loads(metadata)
            settings = msgspec.convert(data["settings"], RunSettings)
            notes = msgspec.convert(data["notes"], dict[str, str])
            label = msgspec.convert(data.get("label"), str | None)
            problem = _impossible(settings)
            genuine = problem is not None or data["run_id"] == run_id(settings)
        except RecursionError:
            raise ConfigurationError(
                f"{self.path}: the run it carries cannot be read (nested too deep); export it again"
            ) from None
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise ConfigurationError(
                f"{self.path}: the run it carries cannot be read ({plain(str(error))}); "
                "export it again"
            ) from None
        if problem is not None:
            raise ConfigurationError(f"{self.path}: the run it carries has {problem}")
        if not genuine:
            raise ConfigurationError(
                f"{self.path}: the run it carries does not match its id; export it again"
            )
        texts = {
            name: plain(value) for name, value in asdict(settings).items() if isinstance(value, str)
        }
        if not texts["model"]:
            raise ConfigurationError(
                f"{self.path}: the run it carries names no model; export it again"
            )
        self.settings = replace(settings, **texts)  # type: ignore[arg-type]
        self.notes = {plain(name): plain(value) for name, value in notes.items()}
        self.label = plain(label or "", LONGEST_NAME) or None

    def _index(self, seen: RowDigest | None) -> set[Key]:
        """Return what the rows answer; each row is looked at once."""
        keys: set[Key] = set()
        named = ("prompt_id", *_LOCATION, "repeat")
        for start, table in self._tables(seen):
            table = table.select([name for name in named if name in table.column_names])
            for number, row in enumerate(table.to_pylist(), start=start):
                key = self._key(row, number)
                if key in keys:
                    shown = key[0] if self._by_id else dict(zip(_LOCATION, key, strict=False))
                    raise InvalidInputError(
                        f"{self.path}, row {number}: {shown} (repeat {key[-1]}) is there twice; "
                        "keep one row a prompt"
                    )
                keys.add(key)
        return keys

    def _key(self, row: Mapping[str, Any], number: int) -> Key:
        repeat = row.get("repeat") or 0
        if self._by_id:
            return (row["prompt_id"], repeat)
        location = [row["survey"], row["variable"], row["country"]]
        if None in location:
            raise InvalidInputError(
                f"{self.path}, row {number}: survey, variable or country is missing"
            )
        return (row["survey"].lower(), row["variable"], row["country"], row["year"], repeat)

    def _key_of(self, request: Request) -> Key | None:
        if self._by_id:
            return (request.prompt_id, request.repeat)
        return None if request.kind == "modal" else self._location(request)

    @property
    def n_rows(self) -> int:
        """Number of rows of the file."""
        return len(self._keys)

    def unmatched(self, requests: Sequence[Request]) -> int:
        """Return how many rows of the file answer none of the prompts, whatever their repeat."""
        prompts = {
            key[:-1]
            for request in requests
            for key in ((request.prompt_id, 0), self._location(request))
        }
        return sum(key[:-1] not in prompts for key in self._keys)

    @staticmethod
    def _location(request: Request) -> tuple[Any, ...]:
        where = (request.survey, request.variable, request.country, request.year)
        return (*where, request.repeat)

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield an answer for each request that the file has a row for, in the file's order."""
        asked: dict[Key, list[Request]] = {}
        for request in requests:
            key = self._key_of(request)
            if key in self._keys:
                asked.setdefault(key, []).append(request)
        for start, table in self._tables():
            for number, row in enumerate(table.to_pylist(), start=start):
                for request in asked.get(self._key(row, number), ()):
                    if self._stopped:
                        return
                    answer = self._answer(request, row)
                    if answer is not None:
                        yield answer

    @staticmethod
    def _answer(request: Request, row: Mapping[str, Any]) -> Answer | None:
        """Return what a row says to a request; None for one that got no answer."""
        if ending(row.get("finish_reason")) == "error":
            return None  # what was broken off is no answer
        text, probs = row.get("text"), row.get("probs")
        if text is None and probs is None and row.get("status") == "error":
            return None
        values: tuple[float, ...] | None = None
        if text is None and probs is not None:
            values = tuple(float("nan") if v is None else float(v) for v in probs)
        status = row.get("status")
        recorded = text is None and probs is None and status not in (None, "ok", "recovered")
        return Answer(
            request.prompt_id,
            request.repeat,
            text=text if values is not None or recorded else (text or ""),
            probs=values,
            status=row["status"] if recorded else None,
            reason=_plain(row.get("reason")) if recorded else None,
            thinking=row.get("thinking"),
            finish_reason=_plain(row.get("finish_reason")),
            prompt_tokens=row.get("prompt_tokens"),
            completion_tokens=row.get("completion_tokens"),
        )

    @property
    def in_flight(self) -> int:
        """No request ever waits."""
        return 0

    def drain(self, seconds: float) -> None:
        """End :meth:`answers` with the answer it is at."""
        self._stopped = True

    def close(self) -> None:
        """Close the file."""
        self._closing.close()
