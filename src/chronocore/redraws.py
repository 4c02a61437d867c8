"""Scores against gold distributions that are drawn again: the surveys' own sampling error."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.arrow import Rows, positions_among, row_keys, rows_of
from chronocore.effective_size import effective_sizes
from chronocore.errors import InvalidInputError, StudyError
from chronocore.identity import derived_seed
from chronocore.inference import seed_base
from chronocore.metrics import rows_distance
from chronocore.scores import (
    Integers,
    PairPredictions,
    PairScores,
    against_gold,
    default_columns,
)
from chronocore.tolerance import at_least
from chronocore_kernels import multinomial

__all__ = ["REDRAWS", "GoldRedraws"]

#: Redraws of the gold distributions that the resamples of a cell share between them.
REDRAWS = 100

# Predictions whose redrawn scores are kept, in single precision: they are random draws. At the size
# of the paper's study that is some 45 MB each. A comparison of models asks for all of them in turn.
_KEPT = 12
# What naming the year does has ten quantities, asked for group by group.
_KEPT_COLUMNS = 16

# Rows that are scored at a time.
_BLOCK_ROWS = 100_000

# Outcomes are decided anew for the tolerance of every view.
_TAU = 0.10

#: What a redraw of gold changes; everything else of a pair stays as it was observed.
_REDRAWN = (
    "d_h", "d_old", "d_new", "ratio", "cosine", "nearest_distance", "benefit_old", "benefit_new",
    "outcome", "alignment", "credit",
)  # fmt: skip

#: Of these, what rests on undated predictions alone.
_DEFAULTS = ("nearest_distance", "credit")


class GoldRedraws:
    """Draws the gold distributions of a study again and scores predictions against them.

    Each time point is a multinomial sample of its effective number of respondents, by design where
    strata or sampling units are known, else by weights. Its redraws
    depend on the seed and on the time point alone: all predictions, and all models, are scored
    against the same ones. Shift classes, the knowledge filter and what rests on predictions alone
    stay as observed.

    Parameters
    ----------
    gold : pyarrow.Table
        Schema :data:`chronocore.schema.GOLD`: every time point of the study.
    seed : int
    repeats : int
        Redraws R.
    """

    def __init__(self, gold: pa.Table, *, seed: int = 0, repeats: int = REDRAWS) -> None:
        self.repeats = repeats
        self._keys = row_keys(gold, ["survey", "variable", "country", "year"])
        self._rows = rows_of(gold["probs"].combine_chunks(), "gold")
        self._sizes = effective_sizes(gold).respondents
        self._base = seed_base(derived_seed(seed, "gold"))
        self._scored: OrderedDict[int, tuple[PairPredictions, dict[str, NDArray[Any]]]] = (
            OrderedDict()
        )
        self._columns: OrderedDict[tuple[int, int], tuple[PairScores, object, NDArray[Any]]] = (
            OrderedDict()
        )

    @cached_property
    def drawn(self) -> tuple[NDArray[np.float64], Integers]:
        """The redraws of all time points, (R, M), and where each of them begins."""
        rows = self._rows
        return multinomial.redrawn_shares(
            rows.values, rows.starts, rows.lengths, self._sizes, np.arange(len(rows)),
            self.repeats, self._base,
        )  # fmt: skip

    def modes(self, pairs: pa.Table, year: str) -> Integers:
        """Return the position of the most common option under every redraw, shape (R, n).

        Parameters
        ----------
        pairs : pyarrow.Table
            With survey, variable and country.
        year : str
            The column that names the time point of each pair.
        """
        where = ["survey", "variable", "country"]
        row = positions_among(row_keys(pairs, [*where, year]), self._keys)
        if (row < 0).any():
            raise StudyError(
                "gold.parquet does not hold the two years of every pair; build it again"
            )
        shares, starts = self.drawn
        found = np.empty((self.repeats, len(row)), dtype=np.int64)
        lengths = self._rows.lengths[row]
        for k in np.unique(lengths):
            inside = np.flatnonzero(lengths == k)
            drawn = shares[:, starts[row[inside]][:, None] + np.arange(k)]
            # Ties go to the lowest position.
            found[:, inside] = at_least(drawn, drawn.max(axis=2, keepdims=True)).argmax(axis=2)
        return found

    def column(
        self, scores: PairScores, what: object, values: Callable[[PairScores], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the values of the pairs of a view under every redraw, shape (R, n).

        Parameters
        ----------
        scores : PairScores
            With its ``data``.
        what : object
            Stands for ``values``: the same object means the same function.
        values : callable
            From scores to one value a pair.
        """
        key = (id(scores), id(what))
        if key in self._columns:
            self._columns.move_to_end(key)
            return self._columns[key][2]
        flat = self.flat(scores)
        found = values(flat).reshape(self.repeats, -1)[:, self.place(scores)]
        # With what the key is made of, so that no id is used again while it is here.
        self._columns[key] = (scores, what, found)
        if len(self._columns) > _KEPT_COLUMNS:
            self._columns.popitem(last=False)
        return found

    def place(self, scores: PairScores) -> Integers:
        """Return where the pairs of a view stand in a redraw of :meth:`flat`."""
        return np.searchsorted(_data(scores).index, scores.pair)

    def flat(self, scores: PairScores) -> PairScores:
        """Return the scores of all pairs of the predictions of a view, redraw after redraw.

        Parameters
        ----------
        scores : PairScores
            With its ``data``; its tolerance is used.

        Returns
        -------
        PairScores
            R * N pairs. Of what predictions and observed gold decide it has the predicted change
            and the number of time points; the rest is left blank.
        """
        data = _data(scores)
        arrays = self._against_gold(data)
        size = self.repeats * len(data)
        d_m = rows_distance(data.old, data.new, data.supports)
        n_timepoints = np.diff(data.point_starts)
        columns: dict[str, NDArray[Any]] = {
            "d_m": np.tile(d_m, self.repeats),
            "n_timepoints": np.tile(n_timepoints, self.repeats),
        }
        for name in _REDRAWN:
            columns[name] = arrays[name].reshape(size, *arrays[name].shape[2:])
        for name in (column.name for column in fields(PairScores)):
            if name not in (*columns, "tau", "data"):
                columns[name] = np.broadcast_to(np.zeros(1, getattr(scores, name).dtype), size)
        flat = PairScores(**columns, tau=_TAU, data=data)
        return flat if scores.tau == _TAU else flat.within(scores.tau)

    def forget(self, undated: Rows) -> None:
        """Free what is kept of predictions with these undated ones."""
        for key, (data, _) in list(self._scored.items()):
            if data.undated is undated:
                del self._scored[key]

    def kept(self, data: PairPredictions) -> bool:
        """Return whether the redrawn scores of some predictions are at hand."""
        return id(data) in self._scored

    def _against_gold(self, data: PairPredictions) -> dict[str, NDArray[Any]]:
        """Return the columns that rest on gold, each of shape (R, n, ...)."""
        key = id(data)
        if key in self._scored:
            self._scored.move_to_end(key)
            return self._scored[key][1]
        # Other predictions for the same pairs may have the same undated ones.
        shared = next(
            (
                kept
                for other, kept in self._scored.values()
                if other.undated is data.undated and other.points is data.points
            ),
            None,
        )
        arrays: dict[str, NDArray[Any]] = {}
        if shared is not None:
            arrays = {name: shared[name] for name in _DEFAULTS}
        d_m = rows_distance(data.old, data.new, data.supports)
        block = max(1, _BLOCK_ROWS // len(data))
        for first in range(0, self.repeats, block):
            last = min(first + block, self.repeats)
            again = self._redrawn(data, first, last)
            d_h = rows_distance(again.gold_old, again.gold_new, again.supports)
            found = {
                "d_h": d_h,
                **against_gold(
                    again, tau=_TAU, d_h=d_h, d_m=np.tile(d_m, last - first), defaults=False
                ),
            }
            if shared is None:
                found |= default_columns(again)
            for name in _REDRAWN:
                own = found.get(name)
                if own is None:
                    continue
                if name not in arrays:
                    kind = np.float32 if own.dtype == np.float64 else own.dtype
                    arrays[name] = np.empty((self.repeats, len(data), *own.shape[1:]), dtype=kind)
                arrays[name][first:last] = own.reshape(last - first, len(data), *own.shape[1:])
        self._scored[key] = (data, arrays)
        if len(self._scored) > _KEPT:
            self._scored.popitem(last=False)
        return arrays

    def _redrawn(self, data: PairPredictions, first: int, last: int) -> PairPredictions:
        """Return predictions beside some redraws of gold, one redraw after the other."""
        repeats = last - first
        shares, starts = self.drawn
        # The time points of the pairs are rows of the gold table: the same flat buffer.
        row = np.searchsorted(self._rows.starts, data.points.starts)
        lengths = np.tile(data.points.lengths, repeats)
        begins = (starts[row] + np.arange(first, last)[:, None] * shares.shape[1]).reshape(-1)
        points = Rows(shares.reshape(-1), begins, lengths, (len(begins),))
        shift = np.arange(repeats)[:, None] * len(row)
        old, new = (
            points.take((_end(data, name) + shift).reshape(-1)) for name in ("year_old", "year_new")
        )
        # Predictions that are one object stay one: they are compared once.
        tiled: dict[int, Rows] = {}

        def tile(rows: Rows) -> Rows:
            if id(rows) not in tiled:
                tiled[id(rows)] = Rows(
                    rows.values, np.tile(rows.starts, repeats), np.tile(rows.lengths, repeats),
                    (repeats * len(rows),),
                )  # fmt: skip
            return tiled[id(rows)]

        years = {
            name: np.tile(data.pairs[name].to_numpy(), repeats) for name in ("year_old", "year_new")
        }
        return replace(
            data,
            pairs=pa.table(years),
            index=np.tile(data.index, repeats),
            old=tile(data.old),
            new=tile(data.new),
            undated=tile(data.undated),
            gold_old=old,
            gold_new=new,
            supports=tile(data.supports),
            points=points,
            point_years=np.tile(data.point_years, repeats),
            point_starts=np.append(
                (data.point_starts[:-1] + shift).reshape(-1), repeats * len(row)
            ),
        )


def _data(scores: PairScores) -> PairPredictions:
    if scores.data is None:
        raise InvalidInputError("scores without their predictions cannot be drawn again")
    return scores.data


def _end(data: PairPredictions, year: str) -> Integers:
    """Return which time point is the older or the newer one of each pair."""
    owner = np.repeat(np.arange(len(data)), np.diff(data.point_starts))
    wanted = np.asarray(data.pairs[year].to_numpy(), dtype=np.int64)[owner]
    found = np.flatnonzero(data.point_years == wanted)
    if not np.array_equal(owner[found], np.arange(len(data))):
        raise StudyError("gold.parquet does not hold the two years of every pair; build it again")
    return found
