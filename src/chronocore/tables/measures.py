"""The quantities of RF1 to RF3, each declared once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronocore.scores import ALIGNMENTS, OUTCOMES, PLACES, STABILITIES, Codes, Flags, PairScores
from chronocore.tables.intervals import Quantity, Shares
from chronocore.tolerance import above, at_most, below

__all__ = [
    "ALIGNMENT",
    "BOTH",
    "DEFAULT_PLACES",
    "MEAN_SHIFT",
    "MEDIAN_COSINE",
    "MEDIAN_RATIO",
    "NAMING",
    "NEAREST",
    "NEWER_ACCURATE",
    "OLDER_ACCURATE",
    "ONE_PERIOD",
    "OUTCOME",
    "RATIO_OF_ALL",
    "RATIO_OF_NONZERO",
    "RIGHT_DIRECTION",
    "SAME_PERIOD",
    "STABILITY",
    "ZERO_SHIFT",
]


_NOT_NEGATIVE = (0.0, np.inf)
_SHARE = (0.0, 1.0)


def _flag(codes: Codes, first: int, second: int | None = None) -> Flags:
    # Two comparisons take a tenth of the time of numpy.isin.
    return np.asarray(codes == first if second is None else (codes == first) | (codes == second))


def _changes(scores: PairScores) -> Flags:
    """Return the pairs whose predicted change is not zero."""
    return ~at_most(scores.d_m, 0.0)


def _has_ratio(scores: PairScores) -> Flags:
    return _changes(scores) & np.isfinite(scores.ratio)


def _has_direction(scores: PairScores) -> Flags:
    return _changes(scores) & np.isfinite(scores.cosine)


# -- RF1 ---------------------------------------------------------------------------------------

OUTCOME = Shares(OUTCOMES, lambda scores: scores.outcome)
ALIGNMENT = Shares(ALIGNMENTS, lambda scores: scores.alignment)

BOTH = Quantity("both", "%", "proportion", lambda s: _flag(s.outcome, 0), scale=100.0)
ONE_PERIOD = Quantity(
    "one_period", "%", "proportion", lambda s: _flag(s.outcome, 1, 2), scale=100.0
)
OLDER_ACCURATE = Quantity("older", "%", "proportion", lambda s: _flag(s.outcome, 0, 1), scale=100.0)
NEWER_ACCURATE = Quantity("newer", "%", "proportion", lambda s: _flag(s.outcome, 0, 2), scale=100.0)
SAME_PERIOD = Quantity(
    "same_period", "%", "proportion", lambda s: _flag(s.alignment, 1, 2), scale=100.0
)

# -- RF2 ---------------------------------------------------------------------------------------

ZERO_SHIFT = Quantity(
    "zero_shift", "%", "proportion", lambda s: at_most(s.d_m, 0.0), scale=100.0, by_gold=False
)
MEDIAN_RATIO = Quantity(
    "median_ratio", "ratio", "median", lambda s: s.ratio, _has_ratio, bounds=_NOT_NEGATIVE
)
MEDIAN_COSINE = Quantity(
    "median_cosine", "cosine", "median", lambda s: s.cosine, _has_direction, bounds=(-1.0, 1.0)
)
RIGHT_DIRECTION = Quantity(
    "right_direction", "%", "proportion", lambda s: above(s.cosine, 0.0), _has_direction, 100.0
)
RATIO_OF_NONZERO = Quantity(
    "nonzero_shift", "ratio", "median", lambda s: s.ratio, _has_ratio, bounds=_NOT_NEGATIVE
)
RATIO_OF_ALL = Quantity(
    "all_pairs", "ratio", "median", lambda s: s.ratio, lambda s: np.isfinite(s.ratio),
    bounds=_NOT_NEGATIVE,
)  # fmt: skip
MEAN_SHIFT = Quantity("mean_shift", "W", "mean", lambda s: s.d_h, bounds=_SHARE)
STABILITY = Shares(STABILITIES, lambda scores: scores.stability, by_gold=False)

# -- filter and RF3 ----------------------------------------------------------------------------

NEAREST = Quantity(
    "median_nearest_distance", "W", "median", lambda s: s.nearest_distance, bounds=_SHARE
)


def _place(index: int) -> Quantity:
    return Quantity(
        PLACES[index], "%", "mean", lambda s: s.credit[:, index], scale=100.0, bounds=_SHARE
    )


DEFAULT_PLACES = tuple(_place(index) for index in range(len(PLACES)))


def _naming(end: str) -> tuple[Quantity, ...]:
    def benefit(scores: PairScores) -> NDArray[np.float64]:
        return scores.benefit_old if end == "old" else scores.benefit_new

    def identical(scores: PairScores) -> Flags:
        return scores.identical_old if end == "old" else scores.identical_new

    def unchanged(scores: PairScores) -> Flags:
        return ~above(benefit(scores), 0.0) & ~below(benefit(scores), 0.0)

    return (
        Quantity("mean_benefit", "W x 100", "mean", benefit, scale=100.0, bounds=(-1.0, 1.0)),
        Quantity("helped", "%", "proportion", lambda s: above(benefit(s), 0.0), scale=100.0),
        Quantity("unchanged", "%", "proportion", unchanged, scale=100.0),
        Quantity("hurt", "%", "proportion", lambda s: below(benefit(s), 0.0), scale=100.0),
        Quantity("identical", "%", "proportion", identical, scale=100.0, by_gold=False),
    )


#: What naming a year does, by the year that is named.
NAMING = {"older": _naming("old"), "newer": _naming("new")}
