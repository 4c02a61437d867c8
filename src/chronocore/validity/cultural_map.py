"""Country means of ten items -> the cultural map, and models projected onto it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronocore.countries import country_order
from chronocore.errors import InvalidInputError
from chronocore.tolerance import ATOL
from chronocore.validity.country_means import CountryMeans
from chronocore.validity.directions import check_directions
from chronocore.validity.protocol import MapSettings, load_protocol

__all__ = [
    "FITS",
    "ROTATIONS",
    "CulturalMap",
    "Ellipse",
    "ellipse",
    "fit_map",
    "varimax",
]

Floats = NDArray[np.float64]

FITS: tuple[str, ...] = ("countries", "respondents")
ROTATIONS: tuple[str, ...] = ("varimax", "none")


@dataclass(frozen=True, slots=True)
class CulturalMap:
    """A fitted map: where countries lie, and how any answers are projected.

    Attributes
    ----------
    items : tuple of str
    center, deviation : (p,) float64
        Of the countries (or respondents), by which answers are standardised.
    coefficients : (p, 2) float64
        Standardised answers times these are the scores, of unit variance over what was fitted.
    loadings : (p, 2) float64
        Correlations of the items with the scores.
    explained : (2,) float64
        Share of the variance of the items that each axis carries.
    scale, shift : tuple of float
        Of the scores to map units.
    means : CountryMeans
    positions : (N, 2) float64
        Countries, in the order of ``means``.
    fit, rotation : str
    """

    items: tuple[str, ...]
    center: Floats
    deviation: Floats
    coefficients: Floats
    loadings: Floats
    explained: Floats
    scale: tuple[float, float]
    shift: tuple[float, float]
    means: CountryMeans
    positions: Floats
    fit: str
    rotation: str

    def project(self, answers: Any) -> Floats:
        """Return map positions of answers in the items' own coding.

        Parameters
        ----------
        answers : array-like of shape (..., p)
            NaN where there is no valid answer; such a row has no position (NaN).

        Returns
        -------
        (..., 2) float64
        """
        values = np.asarray(answers, dtype=np.float64)
        if values.shape[-1:] != (len(self.items),):
            raise InvalidInputError(
                f"answers must have {len(self.items)} items in the last axis "
                f"({', '.join(self.items)}), their shape is {values.shape}"
            )
        scores = ((values - self.center) / self.deviation) @ self.coefficients
        return np.asarray(scores * np.array(self.scale) + np.array(self.shift))

    def nearest(self, position: Any, n: int = 5) -> list[tuple[str, float]]:
        """Return the ``n`` countries nearest to a position, with their distances."""
        distance = np.hypot(*(self.positions - np.asarray(position, dtype=np.float64)).T)
        order = sorted(
            range(len(distance)),
            key=lambda i: (distance[i], country_order(self.means.countries[i])),
        )
        return [(self.means.names[i], float(distance[i])) for i in order[:n]]


# -- fitting -------------------------------------------------------------------------------------


def varimax(
    loadings: Any, *, normalise: bool = True, tolerance: float = 1e-14, limit: int = 1000
) -> Floats:
    """Return the rotation that maximises the variance of squared loadings.

    Parameters
    ----------
    loadings : array-like of shape (p, 2)
    normalise : bool
        Give every item the same weight (Kaiser), as R's ``varimax`` does by default.
    tolerance : float
        Largest angle, in radians, that is no longer worth a turn.
    limit : int
        Most turns.

    Returns
    -------
    (2, 2) float64
        A rotation matrix R; ``loadings @ R`` are the rotated loadings.

    Notes
    -----
    Kaiser (1958), The varimax criterion for analytic rotation in factor analysis. For two columns
    the best angle has a closed form, so that one turn suffices.

    Examples
    --------
    >>> turned = np.array([[1.0, 0.0], [0.0, 1.0]]) @ np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> np.abs(turned @ varimax(turned)).round(6).max(axis=1).tolist()
    [1.0, 1.0]
    """
    matrix = np.array(loadings, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != 2:
        raise InvalidInputError(f"loadings must have the shape (p, 2), not {matrix.shape}")
    p = len(matrix)
    if normalise:
        length = np.sqrt((matrix**2).sum(axis=1))
        matrix = matrix / np.where(length > 0, length, 1.0)[:, None]
    rotation = np.eye(2)
    for _ in range(limit):
        x, y = (matrix @ rotation).T
        u, v = x**2 - y**2, 2 * x * y
        a, b = u.sum(), v.sum()
        numerator = 2 * (p * (u * v).sum() - a * b)
        denominator = p * (u**2 - v**2).sum() - (a**2 - b**2)
        angle = math.atan2(numerator, denominator) / 4
        if abs(angle) <= tolerance:
            break
        cos, sin = math.cos(angle), math.sin(angle)
        rotation = rotation @ np.array([[cos, -sin], [sin, cos]])
    return rotation


def _orientation(loadings: Floats, items: Sequence[str], settings: MapSettings) -> Floats:
    """Return the 2 x 2 matrix that puts axes in order and turns them as the anchors say.

    Of the two orders and four signs it takes the one with the largest signed loadings.
    """
    place = {item: index for index, item in enumerate(items)}
    anchors = [
        [(place[item], sign) for item, sign in axis.items() if item in place]
        for axis in (settings.x, settings.y)
    ]
    for axis, found in zip(("x", "y"), anchors, strict=True):
        if not found:
            raise InvalidInputError(
                f"none of the items {', '.join(items)} is an anchor of the {axis} axis"
            )
    best: tuple[float, Floats] | None = None
    for order in ((0, 1), (1, 0)):
        for signs in product((1.0, -1.0), repeat=2):
            matrix = np.zeros((2, 2))
            matrix[order[0], 0], matrix[order[1], 1] = signs
            turned = loadings @ matrix
            # In a fixed order, so that the order of the items cannot matter.
            total = math.fsum(
                sign * turned[index, axis] for axis in (0, 1) for index, sign in anchors[axis]
            )
            if best is None or total > best[0] + ATOL:
                best = (total, matrix)
    assert best is not None
    return best[1]


def _check_order(means: CountryMeans, positions: Floats, settings: MapSettings) -> None:
    """Assert the known order of countries along each axis, where they are present."""
    for axis, pair, word in ((0, settings.right_of, "right of"), (1, settings.above, "above")):
        if pair is None:
            continue
        found = []
        for name in pair:
            codes = {settings.countries.get(name), name}
            found.append(
                next(
                    (
                        i
                        for i, (code, own) in enumerate(
                            zip(means.countries, means.names, strict=True)
                        )
                        if code in codes or own == name
                    ),
                    None,
                )
            )
        first, second = found
        if first is None or second is None:
            continue
        if not positions[first, axis] > positions[second, axis]:
            raise InvalidInputError(
                f"{pair[0]} does not lie {word} {pair[1]} on the fitted map; the means are not in "
                "the coding of the Integrated Values Surveys (an item reversed or recoded?)"
            )


def _moments(rows: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return mean and standard deviation (ddof 1; with weights, of the weighted population)."""
    if weights is None:
        return rows.mean(axis=0), rows.std(axis=0, ddof=1)
    share = weights / weights.sum()
    mean = share @ rows
    return mean, np.sqrt(share @ (rows - mean) ** 2)


def fit_map(
    means: CountryMeans,
    settings: MapSettings | None = None,
    *,
    fit: str = "countries",
    rotation: str = "varimax",
    confirmed: Sequence[str] = (),
) -> CulturalMap:
    """Fit the cultural map on countries.

    Parameters
    ----------
    means : CountryMeans
        From :func:`country_means` or :func:`read_country_table`.
    settings : MapSettings, optional
        Anchors and scale; by default the published ones.
    fit : {"countries", "respondents"}
        What the components are computed from: country means, each country counting once; or
        all complete respondents with their weights, whose positions are then averaged by
        country.
    rotation : {"varimax", "none"}
    confirmed : sequence of str
        Items whose coding you checked; their direction is not questioned.

    Returns
    -------
    CulturalMap

    Raises
    ------
    InvalidInputError
        There are fewer countries than a plane needs, an item does not vary, no item is an anchor
        of an axis, an item runs the other way than declared or that cannot be told, or two
        countries of known order lie the other way round.

    Notes
    -----
    Measurement Validity in LLM Cultural Alignment, section 3.1; definitions, section 11. Axes and
    signs of principal components are arbitrary: the anchors settle them, so that neither the
    order of the items nor a sign that a library chose can mirror the map.
    """
    if fit not in FITS:
        raise InvalidInputError(f"fit {fit!r} is none of {', '.join(FITS)}")
    if rotation not in ROTATIONS:
        raise InvalidInputError(f"rotation {rotation!r} is none of {', '.join(ROTATIONS)}")
    settings = settings or _default_settings()
    n, p = means.means.shape
    if n < 3 or p < 2:
        raise InvalidInputError(
            f"a map needs at least 3 countries and 2 items, there are {n} and {p}"
        )
    weights: Floats | None = None
    rows = means.means
    if fit == "respondents":
        if means.respondents is None or means.weights is None:
            raise InvalidInputError(
                'fit="respondents" needs respondents; country means alone cannot be fitted that way'
            )
        rows = np.concatenate([means.respondents[code] for code in means.countries])
        weights = np.concatenate([means.weights[code] for code in means.countries])
    center, deviation = _moments(rows, weights)
    still = np.flatnonzero(deviation <= ATOL)
    if still.size:
        raise InvalidInputError(f"item {means.items[int(still[0])]} is the same everywhere")
    standard = (rows - center) / deviation
    if weights is None:
        divisor = float(len(rows) - 1)
    else:
        standard = standard * np.sqrt(weights / weights.sum())[:, None]
        divisor = 1.0
    _, singular, axes = np.linalg.svd(standard, full_matrices=False)
    if len(singular) < 2 or singular[1] <= ATOL * singular[0]:
        raise InvalidInputError("the countries lie on a line; two axes cannot be told apart")
    length = singular[:2] / math.sqrt(divisor)
    loadings = axes[:2].T * length
    simple = varimax(loadings)
    # Directions show on simple axes only: unrotated, the first one has something of all items.
    check_directions(standard, loadings @ simple, rows, means.items, settings, confirmed)
    turn = simple if rotation == "varimax" else np.eye(2)
    turn = turn @ _orientation(loadings @ turn, means.items, settings)
    coefficients = (axes[:2].T / length) @ turn
    loadings = loadings @ turn
    scale, shift = np.array(settings.scale), np.array(settings.shift)

    def place(values: Floats) -> Floats:
        return np.asarray(((values - center) / deviation) @ coefficients * scale + shift)

    if fit == "respondents":
        assert means.respondents is not None
        assert means.weights is not None
        positions = np.array(
            [
                np.average(place(means.respondents[code]), axis=0, weights=means.weights[code])
                for code in means.countries
            ]
        )
    else:
        positions = place(means.means)
    _check_order(means, positions, settings)
    return CulturalMap(
        items=means.items,
        center=center,
        deviation=deviation,
        coefficients=coefficients,
        loadings=loadings,
        explained=(loadings**2).sum(axis=0) / p,
        scale=settings.scale,
        shift=settings.shift,
        means=means,
        positions=positions,
        fit=fit,
        rotation=rotation,
    )


def _default_settings() -> MapSettings:
    settings = load_protocol().map
    assert settings is not None
    return settings


# -- ellipses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ellipse:
    """Semi-axes in map units, and the angle of the longer one from the x axis in degrees."""

    major: float
    minor: float
    angle: float


def ellipse(covariance: Any, level: float = 0.95, *, n: int | None = None) -> Ellipse:
    """Return the ellipse that holds ``level`` of a normal distribution on the plane.

    Parameters
    ----------
    covariance : array-like of shape (2, 2)
    level : float
        In (0, 1).
    n : int, optional
        Number of observations that the covariance was estimated from. The ellipse is then the
        confidence region of a mean with this covariance (Hotelling's T²), which is wider for few
        observations and undefined (NaN) for fewer than 3.

    Examples
    --------
    >>> found = ellipse([[4, 0], [0, 1]], 0.95)
    >>> round(found.major, 3), round(found.minor, 3), found.angle
    (4.895, 2.448, 0.0)
    >>> round(ellipse([[4, 0], [0, 1]], 0.95, n=10).major, 3)
    6.335
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (2, 2) or not 0 < level < 1:
        raise InvalidInputError("covariance must be 2 x 2 and level lie between 0 and 1")
    if not np.isfinite(matrix).all() or (n is not None and n < 3):
        return Ellipse(float("nan"), float("nan"), float("nan"))
    radius = _radius(level, n)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.clip(values, 0.0, None)
    angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
    angle = angle % 180.0
    return Ellipse(radius * math.sqrt(values[1]), radius * math.sqrt(values[0]), angle)


def _radius(level: float, n: int | None) -> float:
    """Return how many standard deviations an ellipse reaches."""
    if n is None:
        # The chi-square quantile with two degrees of freedom has a closed form.
        return math.sqrt(-2 * math.log1p(-level))
    # So has that of F with two degrees of freedom above: F = (n - 2) / 2 (p^(-2/(n - 2)) - 1).
    quantile = (n - 2) / 2 * math.expm1(-2 / (n - 2) * math.log1p(-level))
    return math.sqrt(2 * (n - 1) / (n - 2) * quantile)
