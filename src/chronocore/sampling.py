"""A sample of pairs, drawn before any filter, the same for every model and setting."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from chronocore.identity import derived_seed
from chronocore.metrics import SHIFTS

__all__ = ["sample_notes", "sampled_pairs", "sampled_prompts"]


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
    sizes = _sizes(size, by)
    drawn: list[str] = []
    for group, members in groups.items():
        drawn += sorted(members, key=lambda pair: (derived_seed(seed, "sample", pair), pair))[
            : sizes[group]
        ]
    return pairs.filter(pc.is_in(pairs["pair_id"], value_set=pa.array(drawn, pa.string())))


def _sizes(size: int, by: str | None) -> dict[str, int]:
    """Return how many pairs are drawn of each group."""
    if by != "shift":
        return {"all": size}
    share, rest = divmod(size, len(SHIFTS))
    return {shift: share + (place < rest) for place, shift in enumerate(SHIFTS)}


def sample_notes(pairs: pa.Table, size: int, *, by: str | None = None) -> list[str]:
    """Return a sentence if there are fewer pairs than a sample asks for.

    Parameters
    ----------
    pairs, size, by
        As for :func:`sampled_pairs`.

    Examples
    --------
    >>> pairs = pa.table({"pair_id": ["a", "b", "c"], "shift": ["stable", "stable", "strong"]})
    >>> sample_notes(pairs, 4, by="shift")
    ['the sample has 2 of the 4 pairs asked for: 0 of 1 moderate, 0 of 1 very strong']
    >>> sample_notes(pairs, 4)
    ['the sample has 3 of the 4 pairs asked for: the study has no more']
    >>> sample_notes(pairs, 2)
    []
    """
    present = Counter(pairs["shift"].to_pylist() if by == "shift" else ["all"] * len(pairs))
    sizes = _sizes(size, by)
    short = {group: n for group, n in sizes.items() if present[group] < n}
    if not short:
        return []
    drawn = sum(min(present[group], n) for group, n in sizes.items())
    lacking = [f"{present[group]} of {n} {group.replace('_', ' ')}" for group, n in short.items()]
    why = "the study has no more" if by is None else ", ".join(lacking)
    return [f"the sample has {drawn} of the {size} pairs asked for: {why}"]


def sampled_prompts(
    prompts: pa.Table, pairs: pa.Table, size: int, *, by: str | None = None, seed: int = 0
) -> pa.Table:
    """Return the prompts of a sample of pairs; see :func:`sampled_pairs`."""
    drawn = sampled_pairs(pairs, size, by=by, seed=seed)
    where = ("survey", "variable", "country")
    wanted = set(zip(*(drawn[name].to_pylist() for name in where), strict=True))
    rows = zip(*(prompts[name].to_pylist() for name in where), strict=True)
    return prompts.filter(pa.array([row in wanted for row in rows], pa.bool_()))
