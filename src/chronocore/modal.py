"""Modal answers: what an evaluation by the most common answer alone would show, and miss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.arrow import Rows, rows_of
from chronocore.metrics import SHIFTS
from chronocore.tolerance import at_least, below

__all__ = [
    "CLEAR_LEAD",
    "HALF",
    "ModalAnswers",
    "clear_mode",
    "modal_answers",
    "modal_pairs",
    "mode_changes",
]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: A mode is clear if it leads the next most common option by at least this share.
CLEAR_LEAD = 0.10
#: A model that predicts less than this part of a shift has missed half of it.
HALF = 0.5

_VALID = ("ok", "recovered")


@dataclass(frozen=True, slots=True)
class ModalAnswers:
    """The pairs of a modal-answer evaluation, in the order of ``pairs.parquet``.

    Attributes
    ----------
    pair : (n,) int64
        Row of each pair in ``pairs.parquet``.
    shift : (n,) int8
        Position of its shift class in :data:`chronocore.metrics.SHIFTS`: stable, strong or very
        strong.
    older_choice, newer_choice : (n,) int64
        Codes of the two answers.
    older_correct, newer_correct : (n,) bool
        The answer for that year is the most common option; at least one of them is.
    ratio : (n,) float64
        Predicted over observed shift of the distributions of the same run; NaN if it has none.
    n_unanswered, n_wrong : int
        Pairs left out because an answer is missing or not valid, and because both are wrong.
    """

    pair: NDArray[np.int64]
    shift: NDArray[np.int8]
    older_choice: NDArray[np.int64]
    newer_choice: NDArray[np.int64]
    older_correct: Flags
    newer_correct: Flags
    ratio: Floats
    n_unanswered: int
    n_wrong: int

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def both_correct(self) -> Flags:
        """Pairs with the correct mode for both years."""
        return self.older_correct & self.newer_correct

    @property
    def half_missed(self) -> Flags:
        """Pairs whose newer answer is correct while less than half of the shift is predicted."""
        return self.newer_correct & below(self.ratio, HALF)


def clear_mode(probs: Rows) -> Flags:
    """Return in which distributions one option leads the next by at least 0.10.

    Examples
    --------
    >>> from chronocore.arrow import rows_of
    >>> clear_mode(rows_of([[0.5, 0.4, 0.1], [0.45, 0.36, 0.19]], "gold")).tolist()
    [True, False]
    """
    if not len(probs):
        return np.zeros(0, dtype=bool)
    width = int(probs.lengths.max())
    place = np.arange(width)
    inside = place < probs.lengths[:, None]
    index = np.where(inside, probs.starts[:, None] + place, 0)
    padded = np.where(inside, probs.values[index], 0.0)
    if width < 2:
        return np.ones(len(probs), dtype=bool)
    ordered = np.partition(padded, width - 2, axis=1)
    return at_least(ordered[:, -1] - ordered[:, -2], CLEAR_LEAD)


def _shift_codes(pairs: pa.Table) -> NDArray[np.int8]:
    shift = np.asarray(pairs["shift"].to_numpy(zero_copy_only=False)).astype(str)
    codes = np.full(len(shift), -1, dtype=np.int8)
    for code, name in enumerate(SHIFTS):
        codes[shift == name] = code
    return codes


def mode_changes(pairs: pa.Table) -> Flags:
    """Return which pairs have another most common option in the newer year.

    Over all pairs of the benchmark; ties go to the lowest position (definitions, section 3).
    """
    old, new = (
        np.asarray(pairs[name].to_numpy(zero_copy_only=False)) for name in ("mode_old", "mode_new")
    )
    return np.asarray(old != new)


def modal_pairs(pairs: pa.Table) -> Flags:
    """Return which pairs a modal-answer evaluation can use, before any answer is looked at.

    One option is clearly ahead in both years, and the pair is stable, or strongly or very
    strongly shifted with another mode in the newer year.

    Notes
    -----
    ChronoCulture, appendix A.5; definitions, section 10.
    """
    clear = [
        clear_mode(rows_of(pairs[name].combine_chunks(), name)) for name in ("gold_old", "gold_new")
    ]
    shift = _shift_codes(pairs)
    moved = (shift >= SHIFTS.index("strong")) & mode_changes(pairs)
    return np.asarray(clear[0] & clear[1] & ((shift == 0) | moved))


def modal_answers(
    pairs: pa.Table, prompts: pa.Table, predictions: pa.Table, ratio: Floats
) -> ModalAnswers:
    """Return the modal answers of a run beside the modes of the surveys.

    Parameters
    ----------
    pairs : pyarrow.Table
        All pairs, classified by the boundaries in force.
    prompts : pyarrow.Table
        Those of kind ``modal`` are used.
    predictions : pyarrow.Table
        Answers of the run to modal prompts; repeat 0 counts.
    ratio : (N,) float64
        Predicted over observed shift of every pair for the same run, NaN where there is none.

    Returns
    -------
    ModalAnswers
        Pairs of :func:`modal_pairs` with two valid answers, at least one of them correct.

    Notes
    -----
    ChronoCulture, appendix A.5, Table 5; definitions, section 10.
    """
    chosen = {
        row["prompt_id"]: row["choice"]
        for row in predictions.select(["prompt_id", "repeat", "status", "choice"]).to_pylist()
        if row["repeat"] == 0 and row["status"] in _VALID and row["choice"] is not None
    }
    keys = ("survey", "variable", "country", "year")
    answers = {
        tuple(row[key] for key in keys): chosen[row["prompt_id"]]
        for row in prompts.select(["prompt_id", "kind", *keys]).to_pylist()
        if row["kind"] == "modal" and row["prompt_id"] in chosen
    }
    usable = np.flatnonzero(modal_pairs(pairs))
    columns = ["survey", "variable", "country", "year_old", "year_new", "mode_old", "mode_new"]
    kept: list[int] = []
    given: list[tuple[int, int]] = []
    correct: list[tuple[bool, bool]] = []
    unanswered = wrong = 0
    for index, row in zip(
        usable.tolist(), pairs.select(columns).take(pa.array(usable)).to_pylist(), strict=True
    ):
        where = (row["survey"], row["variable"], row["country"])
        old = answers.get((*where, row["year_old"]))
        new = answers.get((*where, row["year_new"]))
        if old is None or new is None:
            unanswered += 1
            continue
        hits = (old == row["mode_old"], new == row["mode_new"])
        if not any(hits):
            wrong += 1
            continue
        kept.append(index)
        given.append((old, new))
        correct.append(hits)
    pair = np.array(kept, dtype=np.int64)
    choice = np.array(given, dtype=np.int64).reshape(-1, 2)
    hit = np.array(correct, dtype=bool).reshape(-1, 2)
    return ModalAnswers(
        pair=pair,
        shift=_shift_codes(pairs)[pair],
        older_choice=choice[:, 0],
        newer_choice=choice[:, 1],
        older_correct=hit[:, 0],
        newer_correct=hit[:, 1],
        ratio=np.asarray(ratio, dtype=np.float64)[pair],
        n_unanswered=unanswered,
        n_wrong=wrong,
    )
