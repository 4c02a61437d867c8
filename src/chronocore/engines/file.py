"""Bring your own predictions: a Parquet file answers the prompts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from chronocore.errors import ConfigurationError, InvalidInputError
from chronocore.finish_reasons import ending
from chronocore.identity import run_id
from chronocore.text import LONGEST_NAME, plain

__all__ = ["RUN_METADATA", "FileEngine"]

#: Key of the Parquet metadata under which an exported run carries its settings.
RUN_METADATA = b"chronocore.run"

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
        content, table = self._opened()
        self.notes = {"file": plain(path.name)}
        self.label: str | None = None
        self.settings = RunSettings(
            model=plain(path.stem) or "file",
            engine="file",
            engine_version="1",
            revision="sha256:" + hashlib.sha256(content).hexdigest(),
            elicitation=elicitation,
            instruction=instruction,
        )
        exported = (table.schema.metadata or {}).get(RUN_METADATA)
        if exported is not None:
            self._take_run(exported)
        self._check_columns(table.schema)
        self._rows = self._index(self._typed(table))

    def _opened(self) -> tuple[bytes, pa.Table]:
        """Return the bytes of the file and its table, with names that can be read."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise ConfigurationError(f"there is no file {self.path}") from None
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be opened ({error.strerror}); check that it is a file and "
                "that you may read it"
            ) from None
        try:
            table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
            table.column_names  # noqa: B018  # decodes them
        except MemoryError:
            raise  # says nothing about the file
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{self.path} is no readable Parquet file; write your predictions with to_parquet "
                f"(pandas) or write_parquet (polars) ({plain(str(error))})"
            ) from None
        return content, table

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

    def _typed(self, table: pa.Table) -> pa.Table:
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
                where = f"column {name}" if row is None else f"row {row}, column {name}"
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

    def _index(self, table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for number, row in enumerate(table.to_pylist()):
            repeat = row.get("repeat") or 0
            if self._by_id:
                key: tuple[Any, ...] = (row["prompt_id"], repeat)
            else:
                location = [row["survey"], row["variable"], row["country"]]
                if None in location:
                    raise InvalidInputError(
                        f"{self.path}, row {number}: survey, variable or country is missing"
                    )
                key = (row["survey"].lower(), row["variable"], row["country"], row["year"], repeat)
            if key in rows:
                shown = key[0] if self._by_id else dict(zip(_LOCATION, key, strict=False))
                raise InvalidInputError(
                    f"{self.path}, row {number}: {shown} (repeat {repeat}) is there twice; "
                    "keep one row a prompt"
                )
            rows[key] = row
        return rows

    def _row(self, request: Request) -> dict[str, Any] | None:
        if self._by_id:
            return self._rows.get((request.prompt_id, request.repeat))
        if request.kind == "modal":
            return None
        return self._rows.get(self._location(request))

    @property
    def n_rows(self) -> int:
        """Number of rows of the file."""
        return len(self._rows)

    def unmatched(self, requests: Sequence[Request]) -> int:
        """Return how many rows of the file answer none of the prompts, whatever their repeat."""
        prompts = {
            key[:-1]
            for request in requests
            for key in ((request.prompt_id, 0), self._location(request))
        }
        return sum(key[:-1] not in prompts for key in self._rows)

    @staticmethod
    def _location(request: Request) -> tuple[Any, ...]:
        where = (request.survey, request.variable, request.country, request.year)
        return (*where, request.repeat)

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield an answer for each request that the file has a row for."""
        for request in requests:
            if self._stopped:
                return
            row = self._row(request)
            if row is None or ending(row.get("finish_reason")) == "error":
                continue  # what was broken off is no answer
            text, probs = row.get("text"), row.get("probs")
            if text is None and probs is None and row.get("status") == "error":
                continue
            values: tuple[float, ...] | None = None
            if text is None and probs is not None:
                values = tuple(float("nan") if v is None else float(v) for v in probs)
            status = row.get("status")
            recorded = text is None and probs is None and status not in (None, "ok", "recovered")
            yield Answer(
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
        """Do nothing; the file is read already."""
