"""Whether every item of a map runs the way it is declared to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronocore.errors import InvalidInputError
from chronocore.tolerance import ATOL
from chronocore.validity.protocol import MapSettings, load_protocol

__all__ = ["Direction", "check_directions", "directions"]

Floats = NDArray[np.float64]

#: One-sided level at which a correlation of the wrong sign is told from none.
_TOLD = 0.025
#: That of two items which run the same way must be this far on the wrong side, and be told at
#: this level, before a whole axis counts as mirrored.
_MIRRORED, _MIRRORED_LEVEL = -0.5, 0.001


@dataclass(frozen=True, slots=True)
class Direction:
    """How an item lies on its own axis.

    Attributes
    ----------
    item, axis : str
        ``axis`` is ``"x"`` or ``"y"``.
    loading : float
        On its own axis, times its declared sign: below 0 it runs the other way than most.
    correlation : float
        With the sum of the other items of the axis, all in the direction in which most of them
        run; below 0 likewise. NaN without another item.
    """

    item: str
    axis: str
    loading: float
    correlation: float


def _threshold(n: int, level: float) -> float:
    """Return the correlation of n pairs that is told from 0 at a one-sided level."""
    # Imported here: it takes longer to load than all else that a map needs.
    from scipy.special import stdtrit

    if n < 3:
        return 1.0
    t = float(stdtrit(n - 2, 1 - level))
    return t / math.sqrt(t * t + n - 2)


def _by_axis(items: Sequence[str], settings: MapSettings) -> list[tuple[str, list[int], Floats]]:
    """Return axis, places and declared signs of the items of each axis."""
    place = {item: index for index, item in enumerate(items)}
    found = []
    for axis, anchors in (("x", settings.x), ("y", settings.y)):
        own = [(place[item], float(sign)) for item, sign in anchors.items() if item in place]
        found.append((axis, [index for index, _ in own], np.array([sign for _, sign in own])))
    return found


def directions(
    standard: Floats, loadings: Floats, items: Sequence[str], settings: MapSettings
) -> list[Direction]:
    """Return how the items of a map lie on their axes, whatever way they are coded.

    Parameters
    ----------
    standard : (n, p) float64
        What was fitted: countries' means (or respondents' answers), standardised.
    loadings : (p, 2) float64
        After rotation, in any order and with any signs.
    items : sequence of str
    settings : MapSettings

    Notes
    -----
    Definitions, section 11: the order and the signs of the axes are those with the largest signed
    loadings. Reversing an item changes the sign of its loadings and nothing else; so where a
    loading has the wrong sign, the order is taken from their magnitudes, and the sign of an axis
    from the majority of its items.
    """
    sides = _by_axis(items, settings)

    def signed(order: tuple[int, int]) -> list[Floats]:
        return [loadings[own, column] * signs for (_, own, signs), column in zip(
            sides, order, strict=True)]  # fmt: skip

    orders = ((0, 1), (1, 0))
    totals = [math.fsum(abs(math.fsum(axis)) for axis in signed(order)) for order in orders]
    order = orders[0] if totals[0] >= totals[1] - ATOL else orders[1]
    if any((axis * math.copysign(1.0, math.fsum(axis)) <= ATOL).any() for axis in signed(order)):
        # Something is reversed, which can make the axes change places; magnitudes do not.
        carried = [math.fsum(float(np.abs(axis).sum()) for axis in signed(o)) for o in orders]
        order = orders[0] if carried[0] >= carried[1] - ATOL else orders[1]
    found: list[Direction] = []
    for (axis, own, signs), column in zip(sides, order, strict=True):
        own_loadings = loadings[own, column] * signs
        if math.fsum(own_loadings) < 0:
            own_loadings = -own_loadings
        # Every item in the direction in which its axis runs.
        aligned = standard[:, own] * signs * np.where(own_loadings < 0, -1.0, 1.0)
        total = aligned.sum(axis=1)
        for place, index in enumerate(own):
            correlation = math.nan
            if len(own) > 1:
                alone = aligned[:, place]
                rest = total - alone
                length = math.sqrt(float(alone @ alone) * float(rest @ rest))
                told = float(alone @ rest) / length if length > ATOL else 0.0
                correlation = told if own_loadings[place] >= 0 else -told
            found.append(Direction(items[index], axis, float(own_loadings[place]), correlation))
    return found


def _reversal(item: str) -> str:
    """Return how an item is turned round."""
    known = load_protocol().find(item)
    if known is None:
        return f"turn the codes of {item} round"
    low, high = known.scores
    total = low + high
    return f"{total:g} - {item}" if abs(total) > ATOL else f"-{item}"


def _advice(items: Sequence[str]) -> str:
    return ", ".join(map(_reversal, items))


def check_directions(
    standard: Floats,
    loadings: Floats,
    means: Floats,
    items: Sequence[str],
    settings: MapSettings,
    confirmed: Sequence[str] = (),
) -> None:
    """Refuse items that run the other way than they are declared to.

    Parameters
    ----------
    standard, loadings, items, settings
        As for :func:`directions`.
    means : (n, p) float64
        What was fitted, in the items' own coding.
    confirmed : sequence of str
        Items whose coding was checked by the user.

    Raises
    ------
    InvalidInputError
        An item is reversed or a whole axis is mirrored, or that cannot be told; the message names
        the items, how to reverse them and how to confirm them.
    """
    found = directions(standard, loadings, items, settings)
    asked = [one for one in found if one.item not in set(confirmed)]
    wrong = [one for one in asked if one.loading <= ATOL]
    n = len(standard)
    threshold = _threshold(n, _TOLD)
    if wrong:
        raise InvalidInputError(_told_wrong(found, wrong, n, threshold))
    _check_levels(means, items, settings, confirmed)
    _check_pairs(standard, items, settings, confirmed)


def _told_wrong(
    found: Sequence[Direction], wrong: Sequence[Direction], n: int, threshold: float
) -> str:
    """Return what to say of items whose loading has the wrong sign."""
    names = [one.item for one in wrong]
    clear = all(one.correlation < -threshold for one in wrong)
    subject = "The mean of" if len(names) == 1 else "The means of"
    runs = "runs" if len(names) == 1 else "run"
    confirm = f"if the coding is right, confirm it (confirmed: {', '.join(names)})"
    if not clear:
        shown = ", ".join(
            f"{one.item} {one.loading:+.2f} on {one.axis}, correlation {one.correlation:+.2f}"
            for one in wrong
        )
        return (
            f"the direction of {', '.join(names)} cannot be told from {n} countries ({shown}; "
            f"{threshold:.2f} would tell). The map needs the coding of the Integrated Values "
            f"Surveys: check {', '.join(names)}, reverse what runs the other way "
            f"({_advice(names)}), add countries, or {confirm}"
        )
    other = ""
    for axis in dict.fromkeys(one.axis for one in wrong):
        own = [one.item for one in found if one.axis == axis]
        turned = [name for name in names if name in own]
        rest = [name for name in own if name not in turned]
        if len(turned) > 1 and rest:
            other += f" (or else {', '.join(rest)} {'do' if len(rest) > 1 else 'does'})"
    return (
        f"{subject} {', '.join(names)} {runs} the other way than in the coding of the Integrated "
        f"Values Surveys{other}, judged by the other items of the axis in {n} countries; reverse "
        f"with {_advice(names)}, or {confirm}"
    )


def _check_levels(
    means: Floats, items: Sequence[str], settings: MapSettings, confirmed: Sequence[str]
) -> None:
    """Refuse levels that no set of countries has: the item is reversed, and maybe all its axis."""
    for item, most in settings.at_most.items():
        if item not in items or item in confirmed:
            continue
        level = float(means[:, list(items).index(item)].mean())
        if level > most + ATOL:
            axis = settings.x if item in settings.x else settings.y
            own = [name for name in axis if name in items]
            raise InvalidInputError(
                f"the mean of {item} over all countries is {level:.2f}, which no set of countries "
                f"reaches in the coding of the Integrated Values Surveys (at most {most:g}), and "
                f"the other items of its axis agree with it: {', '.join(own)} run the other way; "
                f"reverse with {_advice(own)}, or, if the coding is right, confirm it (confirmed: "
                f"{item})"
            )


def _check_pairs(
    standard: Floats, items: Sequence[str], settings: MapSettings, confirmed: Sequence[str]
) -> None:
    """Refuse a map on which two items that run the same way, one on each axis, run apart."""
    for one, other in settings.same_way:
        if not {one, other} <= set(items) or {one, other} & set(confirmed):
            continue
        pair = standard[:, [list(items).index(one), list(items).index(other)]]
        length = math.sqrt(float(pair[:, 0] @ pair[:, 0]) * float(pair[:, 1] @ pair[:, 1]))
        correlation = float(pair[:, 0] @ pair[:, 1]) / length if length > ATOL else 0.0
        told = _threshold(len(standard), _MIRRORED_LEVEL)
        if correlation < min(_MIRRORED, -told):
            x = [name for name in settings.x if name in items]
            y = [name for name in settings.y if name in items]
            raise InvalidInputError(
                f"{one} and {other} run the same way in every survey, and here they run apart "
                f"(correlation {correlation:.2f}), while each agrees with its axis: either "
                f"{', '.join(x)} or {', '.join(y)} run the other way than in the coding of the "
                f"Integrated Values Surveys; reverse with {_advice(x)} or with {_advice(y)}, or, "
                f"if the coding is right, confirm it (confirmed: {one}, {other})"
            )
