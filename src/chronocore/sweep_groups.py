"""Findings in every topic and region: the statistics of each group of a cell, and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chronocore.claims import IN_EVERY_GROUP, GroupClaim
from chronocore.tables.cells import SMALL_N, Benchmark, Labels

if TYPE_CHECKING:
    from chronocore.sweep import _Drawing, _Pairs, _Statistic

__all__ = ["BY_CLASS", "BY_PAIR", "BY_TOLERANCE", "GroupFindings", "Groups", "group_findings"]

Flags = NDArray[np.bool_]

#: Measures of a group that depend on tolerance and classes, on classes alone, or on neither.
BY_TOLERANCE = ("both", "both_undated")
BY_CLASS = ("median_ratio",)
BY_PAIR = ("benefit_older", "benefit_newer")


@dataclass(frozen=True, slots=True)
class Groups:
    """The topics and regions of each survey, over all pairs of a benchmark."""

    members: dict[tuple[str, str], Flags]

    @classmethod
    def of(cls, benchmark: Benchmark) -> Groups:
        """Return the groups by dimension and name; the name begins with the survey's."""
        members = {}
        dimensions: dict[str, Labels] = {"topic": benchmark.topic, "region": benchmark.region}
        for dimension, labels in dimensions.items():
            for survey in benchmark.surveys:
                inside = benchmark.in_survey(survey)
                for code, name in sorted(enumerate(labels.names), key=lambda pair: pair[1]):
                    own = inside & (labels.codes == code)
                    if own.any():
                        members[dimension, f"{survey} {name}"] = own
        return cls(members)


@dataclass(slots=True)
class GroupFindings:
    """The statistics of groups as rows, and where each finding holds in all of them so far.

    Replicates are not kept: a finding needs those of one group at a time.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    holds: dict[str, bool] = field(default_factory=dict)
    support: dict[str, Flags] = field(default_factory=dict)

    def joined(self, other: GroupFindings) -> GroupFindings:
        """Return both, about different measures."""
        return GroupFindings(
            [*self.rows, *other.rows],
            {**self.holds, **other.holds},
            {**self.support, **other.support},
        )

    def finding_rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row a claim; undefined where no group has enough pairs."""
        for claim in IN_EVERY_GROUP:
            holds = self.holds.get(claim.name)
            support = None if holds is None else float(np.mean(self.support[claim.name]))
            yield {
                "kind": "finding", "finding": claim.finding, "group": f"every {claim.dimension}",
                "measure": claim.name, "unit": None, "estimate": None, "low": None, "high": None,
                "n": None, "holds": holds, "support": support, "clusters": None,
            }  # fmt: skip

    def _add(self, claim: GroupClaim, found: dict[tuple[str, str], _Statistic]) -> None:
        """Join a group to a claim, if all of its statistics have enough pairs."""
        ones = [found[need] for need in claim.needs if need in found]
        if len(ones) < len(claim.needs):
            return
        estimates = [np.float64(one.estimate) for one in ones]
        replicates = np.stack([one.replicates for one in ones])
        known = ~np.isnan(replicates).any(axis=0)
        inside = np.zeros(replicates.shape[1], dtype=bool)
        inside[known] = claim.rule(list(replicates[:, known]))
        holds = bool(claim.rule(estimates))  # type: ignore[arg-type]
        self.holds[claim.name] = holds and self.holds.get(claim.name, True)
        self.support[claim.name] = inside & self.support.get(claim.name, True)


def group_findings(
    groups: Groups, pairs: _Pairs, drawing: _Drawing, measures: tuple[str, ...]
) -> GroupFindings:
    """Return the statistics of every topic and region, and the findings that are about them.

    Parameters
    ----------
    groups : Groups
        Of all pairs of the study.
    pairs : _Pairs
        Those of the cell.
    drawing : _Drawing
    measures : tuple of str
        :data:`BY_TOLERANCE`, :data:`BY_CLASS` or :data:`BY_PAIR`.

    Returns
    -------
    GroupFindings
        Groups with fewer than 20 pairs of a class have no statistic of it, as in the tables.
    """
    out = GroupFindings()
    scores = pairs.scores
    shift = scores.shift
    classes = {
        "stable": shift == 0, "moderate": shift == 1, "strong_plus": shift >= 2,
        "all": np.ones(len(scores), dtype=bool),
    }  # fmt: skip
    for (dimension, name), members in groups.members.items():
        own = members[scores.pair]
        found = {}
        for measure, group in _needed(measures):
            inside = own & classes[group]
            if np.count_nonzero(inside) < SMALL_N:
                continue
            one = _statistic(pairs, drawing, measure, inside, f"{dimension} {name} {group}")
            if one is None:
                continue
            found[measure, group] = one
            out.rows.append(
                {
                    "kind": "statistic", "finding": one.finding,
                    "group": f"{dimension}: {name}, {group}", "measure": measure,
                    "unit": one.unit, "estimate": one.estimate, "low": one.low, "high": one.high,
                    "n": one.n, "holds": None, "support": None, "clusters": one.clusters,
                }
            )  # fmt: skip
        for claim in IN_EVERY_GROUP:
            if claim.dimension == dimension and claim.needs[0][0] in measures:
                out._add(claim, found)
    return out


def _needed(measures: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return which classes of a group each measure is computed for."""
    needed = [need for claim in IN_EVERY_GROUP for need in claim.needs if need[0] in measures]
    if "both_undated" in measures:
        needed += [("both_undated", "stable"), ("both_undated", "strong_plus")]
    return list(dict.fromkeys(needed))


def _statistic(
    pairs: _Pairs, drawing: _Drawing, measure: str, inside: Flags, where: str
) -> _Statistic | None:
    """Return a statistic of one class of a group; None if fewer than 20 pairs define it."""
    if measure in BY_TOLERANCE:
        column = "outcome" if measure == "both" else "undated"
        sample = pairs.sample(inside, column)
        return drawing.shares("RF1", column, where, sample, {measure: (0,)}, 4)[measure, where]
    if measure == "median_ratio":
        sample = pairs.sample(inside & np.isfinite(pairs.scores.ratio) & pairs.moved, "ratio")
        if len(sample) < SMALL_N:
            return None
        return drawing.median("RF2", measure, where, sample)
    return drawing.mean("RF3", measure, where, pairs.sample(inside, measure))
