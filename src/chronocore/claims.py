"""The findings of the paper as statements that a set of statistics makes true or false."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.metrics import SHIFTS
from chronocore.tolerance import above, at_most, below

__all__ = ["ALL_CLAIMS", "CLAIMS", "IN_EVERY_GROUP", "NEAR_ZERO", "Claim", "GroupClaim"]

Flags = NDArray[np.bool_]
#: A statistic by measure and group: one number, or one a resample.
Statistic = tuple[str, str]

#: A mean benefit is near zero within this distance: one point of W x 100. The published means lie
#: between -0.78 and 0.02 points.
NEAR_ZERO = 0.01

_SHIFTED = SHIFTS[1:]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about statistics of one run.

    Attributes
    ----------
    name : str
    finding : str
        ``RF1``, ``RF2`` or ``RF3``.
    statement : str
        What is claimed, in words.
    needs : tuple of (measure, group)
        The statistics it is about.
    rule : callable
        From one array a statistic to whether it holds, element by element.
    """

    name: str
    finding: str
    statement: str
    needs: tuple[Statistic, ...]
    rule: Callable[[Sequence[NDArray[np.float64]]], Flags]

    def holds(self, statistics: Mapping[Statistic, Any]) -> Flags | None:
        """Return where the claim holds; None if a statistic is undefined."""
        values = [np.asarray(statistics[need], dtype=np.float64) for need in self.needs]
        if any(np.isnan(value).any() for value in values):
            return None
        return np.asarray(self.rule(values))


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A statement about every topic or region of a survey that has enough pairs.

    Attributes
    ----------
    name, finding, statement : str
    dimension : str
        ``topic`` or ``region``.
    needs : tuple of (measure, class)
        The statistics of each group that it is about.
    rule : callable
        As that of :class:`Claim`, for one group.
    """

    name: str
    finding: str
    statement: str
    dimension: str
    needs: tuple[Statistic, ...]
    rule: Callable[[Sequence[NDArray[np.float64]]], Flags]


def _falls(values: Sequence[NDArray[np.float64]]) -> Flags:
    return np.asarray(np.logical_and.reduce([below(b - a, 0.0) for a, b in pairwise(values)]))


def _rises(values: Sequence[NDArray[np.float64]]) -> Flags:
    return np.asarray(np.logical_and.reduce([above(b - a, 0.0) for a, b in pairwise(values)]))


def _each(measure: str, groups: Sequence[str]) -> tuple[Statistic, ...]:
    return tuple((measure, group) for group in groups)


#: What the paper finds, in its order (ChronoCulture, sections 4.2 to 4.4, appendices C.1 and F).
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "both_accurate_falls", "RF1",
        "accuracy in both years falls from each class of human shift to the next",
        _each("both", SHIFTS), _falls,
    ),
    Claim(
        "one_accurate_rises", "RF1",
        "accuracy in exactly one year rises from each class of human shift to the next",
        _each("one_period", SHIFTS), _rises,
    ),
    Claim(
        "undated_better_small_shifts", "RF1",
        "undated predictions for both years are accurate in both more often than dated ones for "
        "stable and moderate pairs",
        _each("both_undated_gap", SHIFTS[:2]),
        lambda values: np.logical_and.reduce([above(value, 0.0) for value in values]),
    ),
    Claim(
        "undated_worse_large_shifts", "RF1",
        "undated predictions for both years are accurate in both less often than dated ones for "
        "strong and very strong pairs",
        _each("both_undated_gap", SHIFTS[2:]),
        lambda values: np.logical_and.reduce([below(value, 0.0) for value in values]),
    ),
    Claim(
        "separated_rises", "RF1",
        "separated pairs become more common from each class of shifted pairs to the next",
        _each("separated", _SHIFTED), _rises,
    ),
    Claim(
        "separated_minority", "RF1",
        "separated pairs are fewer than half in every class of shifted pairs",
        _each("separated", _SHIFTED),
        lambda values: np.logical_and.reduce([below(value, 0.5) for value in values]),
    ),
    Claim(
        "same_period_majority", "RF1",
        "more than half of the shifted pairs have both predictions closer to the same year",
        (("same_period", "all_shifted"),), lambda values: above(values[0], 0.5),
    ),
    Claim(
        "reversed_rarer", "RF1",
        "reversed pairs are rarer than separated ones among shifted pairs",
        (("reversed", "all_shifted"), ("separated", "all_shifted")), _rises,
    ),
    Claim(
        "zero_shift_occurs", "RF2",
        "some shifted pairs get the same prediction for both years",
        (("zero_shift", "all_shifted"),), lambda values: above(values[0], 0.0),
    ),
    Claim(
        "ratio_below_one", "RF2",
        "the median ratio of predicted to human shift is below 1 for strong+ shifts",
        (("median_ratio", "strong_plus"),), lambda values: below(values[0], 1.0),
    ),
    Claim(
        "ratio_falls", "RF2",
        "the median ratio falls from each class of shifted pairs to the next",
        _each("median_ratio", _SHIFTED), _falls,
    ),
    Claim(
        "cosine_rises", "RF2",
        "the median cosine rises from each class of shifted pairs to the next",
        _each("median_cosine", _SHIFTED), _rises,
    ),
    Claim(
        "right_direction_majority", "RF2",
        "more than half of the predicted changes for strong+ shifts go the right way",
        (("right_direction", "strong_plus"),), lambda values: above(values[0], 0.5),
    ),
    Claim(
        "stable_preserved", "RF2",
        "more than half of the stable pairs keep a steady prediction",
        (("preserves", "stable"),), lambda values: above(values[0], 0.5),
    ),
    Claim(
        "newest_minority", "RF3",
        "undated predictions are closest to the newest year in fewer than half of the cases",
        (("newest_default", "all"),), lambda values: below(values[0], 0.5),
    ),
    Claim(
        "older_benefit_near_zero", "RF3",
        "naming the older year changes the mean distance by at most 0.01",
        (("benefit_older", "all"),), lambda values: at_most(np.abs(values[0]), NEAR_ZERO),
    ),
    Claim(
        "newer_benefit_near_zero", "RF3",
        "naming the newer year changes the mean distance by at most 0.01",
        (("benefit_newer", "all"),), lambda values: at_most(np.abs(values[0]), NEAR_ZERO),
    ),
    Claim(
        "older_helps_very_strong", "RF3",
        "naming the older year helps on average after very strong shifts",
        (("benefit_older", "very_strong"),), lambda values: above(values[0], 0.0),
    ),
    Claim(
        "older_helps_more", "RF3",
        "after very strong shifts, naming the older year helps more than naming the newer one",
        (("benefit_gap", "very_strong"),), lambda values: above(values[0], 0.0),
    ),
)  # fmt: skip


def _in_every(dimension: str) -> tuple[GroupClaim, ...]:
    every = f"in every {dimension}"
    return (
        GroupClaim(
            f"both_accurate_falls_in_every_{dimension}", "RF1",
            f"accuracy in both years is lower for strong+ than for stable pairs {every}",
            dimension, _each("both", ("stable", "strong_plus")), _falls,
        ),
        GroupClaim(
            f"ratio_falls_in_every_{dimension}", "RF2",
            f"the median ratio is lower for strong+ than for moderate pairs {every}",
            dimension, _each("median_ratio", ("moderate", "strong_plus")), _falls,
        ),
        GroupClaim(
            f"naming_changes_little_in_every_{dimension}", "RF3",
            f"naming either year changes the mean distance by at most 0.01 {every}",
            dimension, (("benefit_older", "all"), ("benefit_newer", "all")),
            lambda values: np.logical_and.reduce(
                [at_most(np.abs(value), NEAR_ZERO) for value in values]
            ),
        ),
    )  # fmt: skip


#: What the paper finds in every topic and region (appendix C.4).
IN_EVERY_GROUP: tuple[GroupClaim, ...] = (*_in_every("topic"), *_in_every("region"))

ALL_CLAIMS: tuple[Claim | GroupClaim, ...] = (*CLAIMS, *IN_EVERY_GROUP)
