"""Country means of ten items -> the cultural map, and models projected onto it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chronocore import schema
from chronocore.arrow import frame_table
from chronocore.countries import country_name, country_order, region_of
from chronocore.errors import ConfigurationError, InvalidInputError, SourceError
from chronocore.sources.microdata import Microdata
from chronocore.tolerance import ATOL
from chronocore.validity.protocol import MapSettings, Protocol, load_protocol

__all__ = [
    "FITS",
    "ROTATIONS",
    "CountryMeans",
    "CulturalMap",
    "Ellipse",
    "check_coding",
    "country_means",
    "ellipse",
    "fit_map",
    "means_from_table",
    "means_table",
    "read_country_table",
    "varimax",
]

Floats = NDArray[np.float64]

FITS: tuple[str, ...] = ("countries", "respondents")
ROTATIONS: tuple[str, ...] = ("varimax", "none")

#: Child qualities of the autonomy index: trend variables (0/1) and those of wave 7 (1/2).
_AUTONOMY = (("A029", "A039"), ("A040", "A042"))
_AUTONOMY_WAVE7 = (("Q8", "Q14"), ("Q15", "Q17"))


@dataclass(frozen=True, slots=True)
class CountryMeans:
    """Mean answers of countries to the items of a map.

    Attributes
    ----------
    items : tuple of str
    countries, names, regions : tuple of str
        Codes, names (the code where there is none) and regions.
    means : (N, p) float64
    respondents : mapping of str to (R, p) float64, optional
        Complete respondents of each country, and their ``weights``, for the fit on respondents.
    """

    items: tuple[str, ...]
    countries: tuple[str, ...]
    names: tuple[str, ...]
    regions: tuple[str | None, ...]
    means: Floats
    respondents: Mapping[str, Floats] | None = None
    weights: Mapping[str, Floats] | None = None

    def select(self, items: Sequence[str]) -> CountryMeans:
        """Return the same countries with some of the items."""
        columns = [self.items.index(item) for item in items]
        respondents = self.respondents
        return CountryMeans(
            tuple(items),
            self.countries,
            self.names,
            self.regions,
            self.means[:, columns],
            None
            if respondents is None
            else {code: rows[:, columns] for code, rows in respondents.items()},
            self.weights,
        )


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

    Returns
    -------
    CulturalMap

    Raises
    ------
    InvalidInputError
        There are fewer countries than a plane needs, an item does not vary, no item is an anchor
        of an axis, or two countries of known order lie the other way round.

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
    turn = varimax(loadings) if rotation == "varimax" else np.eye(2)
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


# -- country means -------------------------------------------------------------------------------


def read_country_table(table: str | Path | object, items: Sequence[str]) -> CountryMeans:
    """Read a table of country means of your own.

    Parameters
    ----------
    table : path or frame
        A CSV or Parquet file, or any Arrow-compatible frame: a column ``country`` (code or name),
        optionally ``country_name`` and ``region``, and one column of means for each item, in the
        coding of the Integrated Values Surveys. Countries that lack an item do not enter.
    items : sequence of str
        The items of the map.

    Returns
    -------
    CountryMeans

    Raises
    ------
    ConfigurationError, InvalidInputError
        The file cannot be read, lacks a column, or has a mean off the item's scale.
    """
    if isinstance(table, str | Path):
        path = Path(table)
        try:
            if path.suffix.lower() == ".csv":
                options = pyarrow.csv.ConvertOptions(column_types={"country": pa.string()})
                frame = pyarrow.csv.read_csv(path, convert_options=options)
            else:
                frame = pq.ParquetFile(path).read()
        except FileNotFoundError:
            raise ConfigurationError(f"there is no file {path}") from None
        except (OSError, pa.ArrowException) as error:
            raise ConfigurationError(
                f"{path} is no readable CSV or Parquet file ({str(error).splitlines()[0]})"
            ) from None
        where = str(path)
    else:
        frame, where = frame_table(table, "countries"), "countries"
    missing = [name for name in ("country", *items) if name not in frame.column_names]
    if missing:
        raise ConfigurationError(
            f"{where} lacks the columns {', '.join(missing)}; it has "
            f"{', '.join(frame.column_names)}"
        )
    kept: list[tuple[str, str, str | None, list[float]]] = []
    for number, row in enumerate(frame.to_pylist()):
        values = [row[item] for item in items]
        code = None if row["country"] is None else str(row["country"])
        if code is None:
            raise InvalidInputError(f"{where}, row {number}: country is missing")
        try:
            numbers = [float("nan") if v is None else float(v) for v in values]
        except (TypeError, ValueError):
            raise InvalidInputError(f"{where}, row {number}: a mean is no number") from None
        if all(map(math.isfinite, numbers)):
            name = row.get("country_name") or country_name(code) or code
            kept.append((code, str(name), row.get("region") or region_of(code), numbers))
    codes = [code for code, *_ in kept]
    twice = next((code for code in codes if codes.count(code) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where}: country {twice} is there twice")
    kept.sort(key=lambda row: country_order(row[0]))
    means = CountryMeans(
        items=tuple(items),
        countries=tuple(code for code, *_ in kept),
        names=tuple(name for _, name, _, _ in kept),
        regions=tuple(region for _, _, region, _ in kept),
        means=np.array([numbers for *_, numbers in kept], dtype=np.float64).reshape(-1, len(items)),
    )
    _check_scales(means, where)
    return means


def _check_scales(means: CountryMeans, where: str) -> None:
    """Refuse means that the published coding cannot have."""
    protocol = load_protocol()
    for column, item in enumerate(means.items):
        known = protocol.find(item)
        if known is None:
            continue
        low, high = known.scores
        off = np.flatnonzero(
            (means.means[:, column] < low - ATOL) | (means.means[:, column] > high + ATOL)
        )
        if off.size:
            row = int(off[0])
            raise InvalidInputError(
                f"{where}, country {means.countries[row]}: the mean of {item} is "
                f"{means.means[row, column]:g}, off its scale in the Integrated Values Surveys "
                f"({low:g} to {high:g}); the map takes no recoded items"
            )


def _numbers(respondents: pa.Table, name: str) -> Floats:
    return np.asarray(
        respondents[name].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64
    )


def _within(values: Floats, codes: Iterable[float]) -> Floats:
    return np.where(np.isin(values, list(codes)), values, np.nan)


def _postmaterialism(first: Floats, second: Floats) -> Floats:
    """Return Y002 from the two most important aims (E003, E004)."""
    first, second = _within(first, range(1, 5)), _within(second, range(1, 5))
    material = np.isin(first, (1, 3)) & np.isin(second, (1, 3))
    post = np.isin(first, (2, 4)) & np.isin(second, (2, 4))
    index = np.where(material, 1.0, np.where(post, 3.0, 2.0))
    return np.where(np.isnan(first) | np.isnan(second), np.nan, index)


def _autonomy(columns: Callable[[str], Floats], names: set[str]) -> Floats | None:
    """Return Y003 from the child qualities, in the coding of the trend file or of wave 7."""
    if {name for side in _AUTONOMY for name in side} <= names:
        (a, b), (c, d) = ([_within(columns(n), (0, 1)) for n in side] for side in _AUTONOMY)
        return (a + b) - (c + d)
    if {name for side in _AUTONOMY_WAVE7 for name in side} <= names:
        (a, b), (c, d) = ([_within(columns(n), (1, 2)) for n in side] for side in _AUTONOMY_WAVE7)
        return (c + d) - (a + b)
    return None


def check_coding(
    entries: Iterable[tuple[str, Sequence[int], str]], source: str, items: Sequence[str]
) -> None:
    """Refuse items that were recoded: other codes, or a scale that runs the other way.

    Parameters
    ----------
    entries : iterable of (variable, codes, label of the first code)
    source : str
        For the message.
    items : sequence of str
        The items of the map.

    Raises
    ------
    SourceError
        An item is not in the coding of the Integrated Values Surveys.
    """
    protocol = load_protocol()
    for variable, codes, first in entries:
        known = protocol.find(variable)
        if known is None or variable not in items:
            continue
        low, high = known.scores
        wanted = list(range(int(low), int(high) + 1))
        if list(codes) != wanted:
            raise SourceError(
                f"{source}: {variable} has the codes {list(codes)}, the Integrated Values Surveys "
                f"have {wanted}; the cultural map takes no recoded items"
            )
        words = _LABEL_WORDS.get(variable, ())
        label = first.casefold()
        told = label.strip().lstrip("+-").isdecimal() or not words
        if not told and not any(word in label for word in words):
            raise SourceError(
                f"{source}: {variable} calls code {wanted[0]} {first!r}; its scale runs the other "
                "way than in the Integrated Values Surveys, and the cultural map takes no recoded "
                "items"
            )


#: What the label of the first code says, for the items whose direction is not told by numbers.
_LABEL_WORDS: dict[str, tuple[str, ...]] = {
    "A008": ("very happy",),
    "A165": ("can be trusted", "trusted"),
    "E018": ("good",),
    "E025": ("have done", "done"),
    "F063": ("not at all", "not important"),
    "F118": ("never",),
    "F120": ("never",),
    "G006": ("very proud",),
    "Y002": ("materialist",),
    "Y003": ("obedience",),
}


def country_means(
    sources: Microdata | Sequence[Microdata],
    *,
    items: Sequence[str] | None = None,
    waves: Sequence[int] | None = (5, 6, 7),
    keep_respondents: bool = False,
) -> CountryMeans:
    """Return the mean answers of countries from survey microdata.

    Parameters
    ----------
    sources : Microdata or sequence of Microdata
        Respondents with the items in the coding of the Integrated Values Surveys. Where Y002 is
        missing it is made from E003 and E004, where Y003 is missing from the child qualities
        (A029, A039, A040, A042, or Q8, Q14, Q15, Q17 of wave 7).
    items : sequence of str, optional
        By default the ten of the published map.
    waves : sequence of int or None
        Waves that are pooled; None for all. Respondents without a wave (surveys that have none)
        are kept.
    keep_respondents : bool
        Keep complete respondents for ``fit="respondents"``.

    Returns
    -------
    CountryMeans
        Weighted means over pooled respondents, each item over its own valid answers; countries
        with all of them, in the order of their codes.

    Raises
    ------
    SourceError
        An item was recoded (the open sample's E018, A165 and Y002 are), or is nowhere.

    Notes
    -----
    Definitions, section 11. A null, NaN, infinite, zero or negative weight drops the respondent.
    """
    protocol = load_protocol()
    names = tuple(items) if items is not None else tuple(item.variable for item in protocol.item)
    listed = [sources] if isinstance(sources, Microdata) else list(sources)
    codes: list[Any] = []
    labels: dict[str, str] = {}
    blocks: list[Floats] = []
    weights: list[Floats] = []
    for data in listed:
        check_coding(
            (
                (entry.variable, [option.code for option in entry.options], entry.options[0].label)
                for entry in data.items
            ),
            data.source,
            names,
        )
        block, own = _block(data, protocol, names, waves)
        if block is None:
            continue
        blocks.append(block[0])
        weights.append(block[1])
        codes.extend(own)
        for code, name in zip(
            *(data.respondents[c].to_pylist() for c in ("country", "country_name")), strict=True
        ):
            if code is not None and name:
                labels.setdefault(code, name)
    found = set(codes)
    if not found:
        raise SourceError(f"no source has any of the items {', '.join(names)} in the waves {waves}")
    values = np.concatenate(blocks)
    weight = np.concatenate(weights)
    ordered = sorted(found, key=country_order)
    place = {code: index for index, code in enumerate(ordered)}
    place_of = np.array([place[code] for code in codes], dtype=np.int64)
    kept, means = [], []
    respondents: dict[str, Floats] = {}
    complete_weights: dict[str, Floats] = {}
    for index, code in enumerate(ordered):
        members = place_of == index
        rows, w = values[members], weight[members]
        valid = ~np.isnan(rows)
        totals = (w[:, None] * valid).sum(axis=0)
        if not (totals > 0).all():
            continue
        means.append((w[:, None] * np.where(valid, rows, 0.0)).sum(axis=0) / totals)
        kept.append(code)
        if keep_respondents:
            complete = valid.all(axis=1)
            if not complete.any():
                kept.pop()
                means.pop()
                continue
            respondents[code], complete_weights[code] = rows[complete], w[complete]
    return CountryMeans(
        items=names,
        countries=tuple(kept),
        names=tuple(labels.get(code) or country_name(code) or code for code in kept),
        regions=tuple(region_of(code) for code in kept),
        means=np.array(means, dtype=np.float64).reshape(-1, len(names)),
        respondents=respondents if keep_respondents else None,
        weights=complete_weights if keep_respondents else None,
    )


def _block(
    data: Microdata, protocol: Protocol, items: Sequence[str], waves: Sequence[int] | None
) -> tuple[tuple[Floats, Floats] | None, list[str]]:
    """Return the answers and weights of a file's usable respondents, and their countries."""
    table = data.respondents
    names = set(table.column_names)
    columns: list[Floats] = []
    any_item = False
    for item in items:
        values: Floats | None = None
        if item in names:
            known = protocol.find(item)
            values = _numbers(table, item)
            if known is not None:
                low, high = known.scores
                values = _within(values, range(int(low), int(high) + 1))
        made: Floats | None = None
        if item == "Y002" and {"E003", "E004"} <= names:
            made = _postmaterialism(_numbers(table, "E003"), _numbers(table, "E004"))
        elif item == "Y003":
            made = _autonomy(lambda name: _numbers(table, name), names)
        if values is None:
            values = made
        elif made is not None:
            values = np.where(np.isnan(values), made, values)
        any_item |= values is not None
        columns.append(np.full(len(table), np.nan) if values is None else values)
    if not any_item or not len(table):
        return None, []
    weight = np.ones(len(table))
    if data.weight is not None:
        weight = np.nan_to_num(_numbers(table, "weight"), nan=0.0, posinf=0.0, neginf=0.0)
    country = table["country"].to_pylist()
    keep = (weight > 0) & np.array([code is not None for code in country])
    if waves is not None:
        wave = _numbers(table, "wave")
        keep &= np.isnan(wave) | np.isin(wave, list(waves))
    block = np.stack(columns, axis=1)[keep]
    return (block, weight[keep]), [c for c, k in zip(country, keep, strict=True) if k]


def means_table(means: CountryMeans) -> pa.Table:
    """Return country means in long form (schema :data:`chronocore.schema.VALIDITY_COUNTRIES`)."""
    rows = [
        {
            "country": code,
            "country_name": means.names[i],
            "region": means.regions[i],
            "wave": None,
            "year": None,
            "item": item,
            "mean": float(means.means[i, j]),
            "n_valid": None,
        }
        for i, code in enumerate(means.countries)
        for j, item in enumerate(means.items)
    ]
    return pa.Table.from_pylist(rows, schema=schema.VALIDITY_COUNTRIES)


def means_from_table(table: pa.Table, items: Sequence[str]) -> CountryMeans:
    """Return the country means that :func:`means_table` wrote."""
    rows: dict[str, dict[str, Any]] = {}
    for row in table.to_pylist():
        own = rows.setdefault(
            row["country"],
            {
                "country": row["country"],
                "country_name": row["country_name"],
                "region": row["region"],
            },
        )
        own[row["item"]] = row["mean"]
    for own in rows.values():
        for item in items:
            own.setdefault(item, None)
    return read_country_table(pa.Table.from_pylist(list(rows.values())), items)


# -- ellipses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ellipse:
    """Semi-axes in map units, and the angle of the longer one from the x axis in degrees."""

    major: float
    minor: float
    angle: float


def ellipse(covariance: Any, level: float = 0.95) -> Ellipse:
    """Return the ellipse that holds ``level`` of a normal distribution on the plane.

    Parameters
    ----------
    covariance : array-like of shape (2, 2)
    level : float
        In (0, 1).

    Examples
    --------
    >>> found = ellipse([[4, 0], [0, 1]], 0.95)
    >>> round(found.major, 3), round(found.minor, 3), found.angle
    (4.895, 2.448, 0.0)
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.shape != (2, 2) or not 0 < level < 1:
        raise InvalidInputError("covariance must be 2 x 2 and level lie between 0 and 1")
    if not np.isfinite(matrix).all():
        return Ellipse(float("nan"), float("nan"), float("nan"))
    # The chi-square quantile with two degrees of freedom has a closed form.
    radius = math.sqrt(-2 * math.log1p(-level))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.clip(values, 0.0, None)
    angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
    angle = angle % 180.0
    return Ellipse(radius * math.sqrt(values[1]), radius * math.sqrt(values[0]), angle)
