"""Effective sample sizes of time points: by sampling design where it is known, else by weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.arrow import positions_among, row_keys
from chronocore.errors import InvalidInputError, StudyError

__all__ = ["EffectiveSizes", "basis_of_sizes", "effective_sizes", "respondents", "sizes_of_pairs"]

Floats = NDArray[np.float64]

_PLACE = ("survey", "variable", "country")


@dataclass(frozen=True, slots=True)
class EffectiveSizes:
    """Effective sample sizes, and what each rests on.

    Attributes
    ----------
    respondents : (...) int64
        Halves rounded up.
    by_design : (...) bool
        True where the size is that of strata and sampling units (``n_eff_design``), false where it
        is Kish's of the weights (``n_eff``).
    of_distances : (...) float64
        The size whose multinomial samples lie as far apart as samples of the design: the smaller
        of that of the shares and that of the mean position on the scale (``n_eff_mean``).
        Respondents of one area lean to one side of a scale together, which moves distances more
        than it moves single shares.
    degrees_of_freedom : (...) float64
        With which the sizes were estimated: sampling units minus strata; infinite by weights.
    """

    respondents: NDArray[np.int64]
    by_design: NDArray[np.bool_]
    of_distances: Floats
    degrees_of_freedom: Floats

    def take(self, rows: NDArray[np.int64]) -> EffectiveSizes:
        """Return the sizes of some time points."""
        return EffectiveSizes(
            self.respondents[rows],
            self.by_design[rows],
            self.of_distances[rows],
            self.degrees_of_freedom[rows],
        )

    def widening(self) -> Floats:
        """Return how much farther apart two samples lie than multinomial ones, shape (N,).

        The sizes are those of pairs, (N, 2).
        """
        return np.asarray(
            np.sqrt((1 / self.of_distances).sum(axis=1) / (1 / self.respondents).sum(axis=1))
        )

    def joint_degrees_of_freedom(self) -> Floats:
        """Return the degrees of freedom of the distances of pairs, (N,): Satterthwaite's."""
        variance = 1 / self.of_distances
        with np.errstate(divide="ignore"):
            return np.asarray(
                variance.sum(axis=1) ** 2 / (variance**2 / self.degrees_of_freedom).sum(axis=1)
            )


def respondents(n_eff: Any) -> NDArray[np.int64]:
    """Return effective sample sizes as whole numbers of respondents, halves rounded up.

    Raises
    ------
    InvalidInputError
        A size is not finite or rounds to less than one respondent.

    Examples
    --------
    >>> respondents([812.5, 812.4]).tolist()
    [813, 812]
    """
    sizes = np.floor(np.asarray(n_eff, dtype=np.float64) + 0.5)
    if not (np.isfinite(sizes) & (sizes >= 1)).all():
        raise InvalidInputError("an effective sample size is below one respondent")
    return sizes.astype(np.int64)


def effective_sizes(gold: pa.Table) -> EffectiveSizes:
    """Return the effective size of every time point, shape (M,).

    Parameters
    ----------
    gold : pyarrow.Table
        Schema :data:`chronocore.schema.GOLD`.

    Raises
    ------
    StudyError
        A time point has neither size.

    Notes
    -----
    Definitions, section 9: design-based where strata or sampling units are known, else Kish's.
    """
    kish, design, of_mean, freedom = (
        np.asarray(gold[name].to_numpy(zero_copy_only=False), dtype=np.float64)
        for name in ("n_eff", "n_eff_design", "n_eff_mean", "design_df")
    )
    by_design = np.isfinite(design)
    # A design that leaves less than half a respondent still rests on one.
    sizes = np.where(by_design, np.maximum(design, 1.0), kish)
    bad = np.flatnonzero(~(np.isfinite(sizes) & (sizes >= 0.5)))
    if bad.size:
        row = gold.slice(int(bad[0]), 1).to_pylist()[0]
        raise StudyError(
            f"{row['survey']}, {row['variable']}, country {row['country']}, {row['year']} has "
            "no effective sample size; build the study again"
        )
    whole = respondents(sizes)
    return EffectiveSizes(
        whole,
        by_design,
        np.where(np.isfinite(of_mean), np.fmin(whole, np.maximum(of_mean, 1.0)), whole),
        np.where(by_design & (freedom >= 1), freedom, np.inf),
    )


def sizes_of_pairs(gold: pa.Table, pairs: pa.Table) -> EffectiveSizes:
    """Return the effective sizes of the older and the newer survey of each pair, shape (N, 2).

    Raises
    ------
    StudyError
        A time point has no effective size, or ``gold`` lacks one of a pair.
    """
    found = effective_sizes(gold)
    keys = row_keys(gold, [*_PLACE, "year"])
    rows = np.stack(
        [
            positions_among(row_keys(pairs, [*_PLACE, year]), keys)
            for year in ("year_old", "year_new")
        ],
        axis=1,
    )
    if (rows < 0).any():
        raise StudyError("gold.parquet does not hold the two years of every pair; build it again")
    return found.take(rows)


def basis_of_sizes(by_design: NDArray[np.bool_], what: str = "time points") -> str:
    """Return in words what effective sizes rest on.

    Examples
    --------
    >>> import numpy as np
    >>> basis_of_sizes(np.array([True, False, False]))
    'by strata and sampling units at 1 of 3 time points, else by weights'
    """
    known = int(np.count_nonzero(by_design))
    if known == len(by_design) and known:
        return "by strata and sampling units"
    if not known:
        return "by weights"
    some = f"{known:,} of {len(by_design):,} {what}"
    return f"by strata and sampling units at {some}, else by weights"
