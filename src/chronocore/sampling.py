"""A sample of pairs, drawn before any filter, the same for every model and setting."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chronocore.identity import derived_seed
from chronocore.metrics import SHIFTS

__all__ = ["sampled_pairs", "sampled_prompts"]


def sampled_pairs(pairs: pa.Table, size: int, *, by: str | None = None, seed: int = 0) -> pa.Table:
    """Draw pairs without replacement.

    Every pair has a number that depends on the seed and its id alone; the smallest ones are
    drawn. The order of the rows does not matter, a larger sample contains the smaller one, and
    another pair in the study changes at most one of those drawn.

    Parameters
    ----------
    pairs : pyarrow.Table
        Schema :data:`chronocore.schema.PAIRS`.
    size : int
        Number of pairs.
    by : {"shift"}, optional
        Draw ``size / 4`` of each shift class; where it does not divide, the first classes get
        one more. A class with fewer pairs gives all it has.
    seed : int

    Returns
    -------
    pyarrow.Table
        The rows drawn, in the order of ``pairs``.

    Notes
    -----
    ChronoCulture, appendix F.3: 300 pairs, 75 a class.
    """
    ids, shifts = pairs["pair_id"].to_pylist(), pairs["shift"].to_pylist()
    groups: dict[str, list[str]] = {}
    for pair, shift in zip(ids, shifts, strict=True):
        groups.setdefault(shift if by == "shift" else "all", []).append(pair)
    if by == "shift":
        share, rest = divmod(size, len(SHIFTS))
        sizes = {shift: share + (place < rest) for place, shift in enumerate(SHIFTS)}
    else:
        sizes = {"all": size}
    drawn: list[str] = []
    for group, members in groups.items():
        drawn += sorted(members, key=lambda pair: (derived_seed(seed, "sample", pair), pair))[
            : sizes[group]
        ]
    return pairs.filter(pc.is_in(pairs["pair_id"], value_set=pa.array(drawn, pa.string())))


def sampled_prompts(
    prompts: pa.Table, pairs: pa.Table, size: int, *, by: str | None = None, seed: int = 0
) -> pa.Table:
    """Return the prompts of a sample of pairs; see :func:`sampled_pairs`."""
    drawn = sampled_pairs(pairs, size, by=by, seed=seed)
    where = ("survey", "variable", "country")
    wanted = set(zip(*(drawn[name].to_pylist() for name in where), strict=True))
    rows = zip(*(prompts[name].to_pylist() for name in where), strict=True)
    return prompts.filter(pa.array([row in wanted for row in rows], pa.bool_()))
