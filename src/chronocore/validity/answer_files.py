"""Files of answers of any number of models: checked whole before anything is kept."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronocore.engines import Answer, Request, RunSettings
from chronocore.engines.base import STATUSES
from chronocore.errors import ConfigurationError, InvalidInputError
from chronocore.finish_reasons import ending
from chronocore.text import LONGEST_NAME, is_plain_name, plain
from chronocore.validity.own_files import blank, read_own_file, whole_number

__all__ = ["FileAnswers", "open_answer_file"]

Query = Mapping[str, Any]
Key = tuple[str, int]

#: Columns that are read: text, whole numbers, or numbers.
_TEXTS = ("prompt_id", "model", "item", "wording", "tone", "status", "reason", "finish_reason")
_WHOLE = ("repeat", "variant", "seed")
_PLACE = ("item", "tone", "variant")
_USABLE = ("ok", "recovered")

#: Rows turned into Python objects at a time.
_BATCH = 10_000


class FileAnswers:
    """The answers of one model in a file, one a query at most."""

    def __init__(self, path: Path, model: str, digest: str) -> None:
        self.settings = RunSettings(model=model, engine="file", engine_version="1", revision=digest)
        self.notes = {"file": path.name}
        self.rows: dict[Key, Answer] = {}
        self._stopped = False

    @property
    def in_flight(self) -> int:
        """Nothing waits: the file is read already."""
        return 0

    def drain(self, seconds: float) -> None:
        """Answer nothing more."""
        self._stopped = True

    def answers(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Yield the answers of the file; what it does not have gets none."""
        for request in requests:
            if self._stopped:
                return
            answer = self.rows.get((request.prompt_id, request.repeat))
            if answer is not None:
                yield answer

    def close(self) -> None:
        """Do nothing; the file is read already."""


class _Places:
    """Which query of a design a row answers, and what is wrong with one that answers none."""

    def __init__(self, design: Sequence[Query]) -> None:
        self._kind = {(q["prompt_id"], q["repeat"]): q["kind"] for q in design}
        self._by_place = {
            (q["item"], q["wording"], q["tone"], q["variant"], q["seed"]): (
                q["prompt_id"],
                q["repeat"],
            )
            for q in design
        }
        # Rows without a wording mean the protocol's own, the first one of the item.
        self._first: dict[str, str] = {}
        for query in design:
            self._first.setdefault(query["item"], query["wording"])
        self._known = {
            name: list(dict.fromkeys(q[name] for q in design if q[name] is not None))
            for name in ("item", "wording", "tone", "variant", "seed")
        }

    def kind(self, key: Key) -> str:
        """Return what a query asks for."""
        return str(self._kind[key])

    def find(self, row: Mapping[str, Any], where: str) -> Key:
        """Return the query that a row answers."""
        if row.get("prompt_id") is not None:
            key = (row["prompt_id"], row.get("repeat") or 0)
            if key not in self._kind:
                raise InvalidInputError(
                    f"{where}: prompt_id {key[0]!r} with repeat {key[1]} is no query of the "
                    "design; it was made for other prompts, or is misspelt"
                )
            return key
        for name in _PLACE:
            if row.get(name) is None:
                raise InvalidInputError(f"{where}: {name} is missing")
        wording = row.get("wording") or self._first.get(row["item"])
        place = (row["item"], wording, row["tone"], row["variant"], row.get("seed"))
        found = self._by_place.get(place)
        if found is None:
            raise InvalidInputError(f"{where} answers no query of the design: {self._why(row)}")
        return found

    def _why(self, row: Mapping[str, Any]) -> str:
        """Say which part of a row's place is not in the design."""
        for name in ("item", "wording", "tone"):
            value, known = row.get(name), self._known[name]
            if value is not None and value not in known:
                near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {_few(known)}"
                return f"there is no {name} {value!r}; {hint}"
        for name in ("variant", "seed"):
            value, numbers = row.get(name), self._known[name]
            if value is not None and value not in numbers:
                ends = f"{min(numbers)} to {max(numbers)}" if numbers else "none"
                return f"{name} {value} is not among those of the design ({ends})"
        if row.get("seed") is not None:
            return (
                f"seeds repeat the first variant of the first tone only, not {row['tone']} "
                f"{row['variant']}; a variant has no seed"
            )
        return f"{row['item']} is not asked in tone {row['tone']!r}, variant {row['variant']}"


def _few(names: Iterable[Any], most: int = 12) -> str:
    listed = [str(name) for name in names]
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")


def _columns(table: pa.Table, path: Path) -> pa.Table:
    """Return the columns that are read, or say which are lacking."""
    names = set(table.column_names)
    if "prompt_id" not in names and not set(_PLACE) <= names:
        raise ConfigurationError(
            f"{path} needs a column prompt_id (and repeat), or item, tone, variant and seed; it "
            f"has {', '.join(table.column_names)}"
        )
    if not names & {"score", "text", "probs"}:
        raise ConfigurationError(f"{path} needs a column score, text or probs")
    kept = (*_TEXTS, *_WHOLE, "score", "text", "probs")
    return table.select([name for name in table.column_names if name in kept])


def _row(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a row with blanks as None, whole numbers as such and the score as a number."""
    row: dict[str, Any] = {}
    for name, value in raw.items():
        if name == "text":
            row[name] = None if value is None or value == "" else str(value)
        elif name != "probs" and blank(value):
            row[name] = None
        elif name in _TEXTS:
            row[name] = str(value).strip()
        elif name in _WHOLE:
            row[name] = whole_number(value)
            if row[name] is None:
                raise InvalidInputError(f"{where}, column {name}: {value!r} is no whole number")
        elif name == "score":
            row[name] = _number(value, f"{where}, column score")
        else:
            row[name] = _shares(value, where)
    return row


def _number(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        comma = isinstance(value, str) and "," in value
        hint = "; decimals have a point" if comma else ""
        raise InvalidInputError(f"{where}: {value!r} is no number{hint}") from None


def _shares(value: Any, where: str) -> tuple[float, ...] | None:
    if value is None or value == "":
        return None
    if not isinstance(value, list):
        raise InvalidInputError(f"{where}, column probs: {value!r} is no list of numbers")
    return tuple(
        math.nan if share is None else _number(share, f"{where}, column probs") for share in value
    )


def _answer(row: Mapping[str, Any], key: Key, kind: str, where: str) -> Answer:
    """Return a row as an answer, or say what contradicts itself in it."""
    status, text, score = row.get("status"), row.get("text"), row.get("score")
    if status is not None and status not in STATUSES:
        near = difflib.get_close_matches(status, sorted(STATUSES), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidInputError(
            f"{where}: status {status!r} is none of {', '.join(sorted(STATUSES))}; {hint}leave it "
            "empty where there is nothing to say"
        )
    values: tuple[float, ...] | None = None
    if text is None and kind == "score":
        values = None if score is None else (score,)
    elif text is None:
        values = row.get("probs")
    if values is not None and status is not None and status not in _USABLE:
        raise InvalidInputError(
            f"{where}: status {status!r}, and yet there is a "
            f"{'score' if kind == 'score' else 'distribution'}; leave one of them empty"
        )
    if ending(row.get("finish_reason")) == "error":
        return Answer(key[0], key[1], error="endpoint")  # what was broken off is no answer
    without = text is None and values is None
    given = without and status is not None and status not in _USABLE
    reason = row.get("reason")
    return Answer(
        key[0],
        key[1],
        text=text if text is not None else ("" if without and not given else None),
        probs=values,
        status=status if given else None,
        reason=plain(reason) if given and reason is not None else None,
        finish_reason=row.get("finish_reason"),
    )


def open_answer_file(path: Path, design: Sequence[Query]) -> list[FileAnswers]:
    """Read and check a file of answers.

    Parameters
    ----------
    path : Path
        CSV (``.csv``) or Parquet.
    design : sequence of mapping
        Rows of ``design.parquet``.

    Returns
    -------
    list of FileAnswers
        One a model, in the order in which they first occur. Empty fields are no values.

    Raises
    ------
    ConfigurationError
        The file cannot be read or lacks a column.
    InvalidInputError
        A row answers no query of the design, or one that is answered already; a field is not what
        its column holds; or a row contradicts itself. The message names the row, counted from 1
        without the header.
    """
    table = _columns(read_own_file(path, "answers"), path)
    digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    places = _Places(design)
    models: dict[str, FileAnswers] = {}
    number = 0
    for batch in table.to_batches(max_chunksize=_BATCH):
        for raw in batch.to_pylist():
            number += 1
            where = f"{path}, row {number}"
            row = _row(raw, where)
            name = row.get("model") or plain(path.stem, LONGEST_NAME)
            if not is_plain_name(name):
                raise InvalidInputError(
                    f"{where}: the model's name {plain(name)!r} is not 1 to {LONGEST_NAME} visible "
                    "characters on one line"
                )
            own = models.get(name)
            if own is None:
                own = models[name] = FileAnswers(path, name, digest)
            key = places.find(row, where)
            if key in own.rows:
                raise InvalidInputError(
                    f"{where}: this query of {name} is answered twice; keep one row a query"
                )
            own.rows[key] = _answer(row, key, places.kind(key), where)
    if not models:
        raise ConfigurationError(f"{path} has no rows")
    return list(models.values())
