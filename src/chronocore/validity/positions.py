"""Answers and a fitted map -> positions of models, their uncertainty, and what moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.errors import InvalidInputError, SourceError, StudyError
from chronocore.predict import prompts_of
from chronocore.store import Study
from chronocore.tolerance import ATOL
from chronocore.validity.components import AnswerGrid
from chronocore.validity.country_means import CountryMeans, check_coding
from chronocore.validity.cultural_map import CulturalMap, ellipse, fit_map
from chronocore.validity.protocol import MapSettings, Protocol, Reference

__all__ = ["ALL_TONES", "map_table", "positions_over_waves", "study_change"]

Floats = NDArray[np.float64]

ALL_TONES = "all"
_NEAREST = 5
_SURVEY = "survey"


def _columns(grid: AnswerGrid, items: Sequence[str], protocol: Protocol) -> list[int | None]:
    """Return where each item of a map is among the answers, in the protocol's own wording."""
    place = {key: index for index, key in enumerate(grid.items)}
    return [place.get((item, protocol.wording)) for item in items]


def _take(answers: Floats, columns: Sequence[int | None]) -> Floats:
    """Return answers (n, p) of one model in the order of a map's items."""
    n = answers.shape[1]
    return np.stack([np.full(n, np.nan) if c is None else answers[c] for c in columns], axis=1)


def _lacking(answers: Floats, items: Sequence[str]) -> list[str]:
    """Return the items that keep a model off the map.

    Those without any valid answer; if there is none, those that the fullest variant lacks.
    """
    missing = np.isnan(answers)
    lacks = np.asarray(missing.all(axis=0))
    if not lacks.any() and len(missing):
        lacks = missing[int(missing.sum(axis=1).argmin())]
    return [item for item, lacking in zip(items, lacks.tolist(), strict=True) if lacking]


def _covariance(points: Floats) -> Floats:
    if len(points) < 2:
        return np.full((2, 2), np.nan)
    return np.asarray(np.cov(points.T, ddof=1))


def _row(kind: str, label: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(schema.VALIDITY_MAP.names)
    return (
        row | {"kind": kind, "label": label, "nearest": [], "lacking": [], "without": []} | values
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _place(
    fitted: CulturalMap,
    answers: Floats,
    seeds: Floats,
    reference: Reference | None,
    level: float,
) -> dict[str, Any]:
    """Return position, count and ellipses of one model's variants (n, p) and seeds (s, p)."""
    points = fitted.project(answers)
    points = points[~np.isnan(points).any(axis=1)]
    values: dict[str, Any] = {"n": len(points), "n_asked": len(answers)}
    if not len(points):
        return values | {"lacking": _lacking(answers, fitted.items)}
    position = points.mean(axis=0)
    spread = _covariance(points)
    mean = spread / len(points)
    if len(seeds):
        drawn = fitted.project(seeds)
        drawn = drawn[~np.isnan(drawn).any(axis=1)]
        # Seeds that were refused leave the sampling noise unknown, not zero.
        noise = _covariance(drawn)
        spread = spread + noise
        mean = mean + noise / max(len(drawn), 1)
    # The covariance of a mean of few variants is itself uncertain; that of one more answer is shown
    # as it was found.
    for name, covariance, n in (("mean", mean, len(points)), ("spread", spread, None)):
        found = ellipse(covariance, level, n=n)
        values |= {
            f"{name}_major": _finite(found.major),
            f"{name}_minor": _finite(found.minor),
            f"{name}_angle": _finite(found.angle),
        }
    values |= {
        "x": float(position[0]),
        "y": float(position[1]),
        "nearest": [name for name, _ in fitted.nearest(position, _NEAREST)],
    }
    if reference is not None:
        values["reference_distance"] = float(
            np.hypot(position[0] - reference.x, position[1] - reference.y)
        )
    return values


def map_table(
    fitted: CulturalMap,
    grid: AnswerGrid,
    protocol: Protocol,
    *,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    excluded: Mapping[str, Sequence[str]] | None = None,
    level: float = 0.95,
) -> pa.Table:
    """Place countries and models on a fitted map.

    Parameters
    ----------
    fitted : CulturalMap
    grid : AnswerGrid
    protocol : Protocol
        Which answers are of the survey's own wording, and the reference position.
    groups : mapping, optional
        By model: ``access``, ``origin``, ``region``.
    excluded : mapping, optional
        By model, items with a noise-to-signal ratio above 1: the map is fitted again without
        them and the model placed on it.
    level : float
        Of the ellipses.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_MAP`. ``kind`` is ``country``; ``model`` (one row
        a tone, and one over all); ``variant`` and ``seed`` (single answers of a model);
        ``imputed`` (a model off the map with its missing answers at the middle of the scale: a
        sensitivity check, no measurement); ``without`` (a model on the map without its unreliable
        items); ``panel`` (mean over the models on the map); ``group`` (the same by access, origin
        and region); ``reference``.

    Notes
    -----
    Definitions, section 11. A variant has a position only if every item has a valid answer; a
    model's position is the mean of its variants' and never comes alone. The ``mean`` ellipse is
    that of the position: covariance of the variants divided by their number plus that of the
    seeds divided by theirs, with Hotelling's radius for the number of variants (at least 3); the
    ``spread`` ellipse is where one more variant answered once would lie. Both are normal
    approximations, and null where a component is unknown.
    """
    settings = protocol.map
    reference = settings.reference if settings is not None else None
    rows = [
        _row(
            "country",
            code,
            name=fitted.means.names[i],
            region=fitted.means.regions[i],
            x=float(fitted.positions[i, 0]),
            y=float(fitted.positions[i, 1]),
        )
        for i, code in enumerate(fitted.means.countries)
    ]
    if reference is not None:
        rows.append(_row("reference", reference.name, x=reference.x, y=reference.y))
    columns = _columns(grid, fitted.items, protocol)
    tones = list(dict.fromkeys(tone for tone, _ in grid.variants))
    standard = protocol.standard
    own: dict[str, dict[str, Any]] = {}
    for m, label in enumerate(grid.labels):
        answers = _take(grid.variant_answers[m], columns)
        seeds = _take(grid.seed_answers[m], columns)
        members = {ALL_TONES: np.ones(len(answers), dtype=bool)} | {
            tone: np.array([own_tone == tone for own_tone, _ in grid.variants]) for tone in tones
        }
        placed = {
            tone: _place(fitted, answers[chosen], seeds, reference, level)
            for tone, chosen in members.items()
        }
        base = placed.get(standard, {})
        for tone, values in placed.items():
            if tone not in (standard, ALL_TONES) and "x" in values and "x" in base:
                values["tone_shift"] = float(
                    np.hypot(values["x"] - base["x"], values["y"] - base["y"])
                )
            rows.append(_row("model", label, group=tone, **values))
        if "x" in base:
            own[label] = base
        for (tone, index), point in zip(grid.variants, fitted.project(answers), strict=True):
            if not np.isnan(point).any():
                rows.append(
                    _row("variant", label, group=tone, name=str(index), x=point[0], y=point[1])
                )
        for index, point in enumerate(fitted.project(seeds)):
            if not np.isnan(point).any():
                rows.append(
                    _row("seed", label, group=standard, name=str(index), x=point[0], y=point[1])
                )
        if "x" not in base and standard in members:
            rows.extend(
                _imputed(
                    fitted, answers[members[standard]], seeds, protocol, label, reference, level
                )
            )
        if excluded and excluded.get(label):
            chosen = members[standard if standard in members else ALL_TONES]
            rows.append(
                _without(
                    fitted,
                    grid,
                    protocol,
                    settings,
                    m,
                    label,
                    chosen,
                    excluded[label],
                    reference,
                    level,
                )
            )
    rows.extend(_means(own, groups or {}, reference))
    return pa.Table.from_pylist(rows, schema=schema.VALIDITY_MAP)


def _imputed(
    fitted: CulturalMap,
    answers: Floats,
    seeds: Floats,
    protocol: Protocol,
    label: str,
    reference: Reference | None,
    level: float,
) -> list[dict[str, Any]]:
    """Place a model as if it had answered what it refused with the middle of the scale."""
    found = [protocol.find(item) for item in fitted.items]
    if any(item is None for item in found) or not len(answers) or np.isnan(answers).all():
        return []
    middle = np.array([item.midpoint for item in found if item is not None])
    lacking = _lacking(answers, fitted.items)
    filled = np.where(np.isnan(answers), middle, answers)
    values = _place(fitted, filled, np.empty((0, len(middle))), reference, level)
    # What was filled in does not vary: no ellipse of these answers would mean anything.
    for name in ("mean", "spread"):
        values |= dict.fromkeys((f"{name}_major", f"{name}_minor", f"{name}_angle"))
    return [
        _row(
            "imputed", label, group=protocol.standard, imputed=True, **values | {"lacking": lacking}
        )
    ]


def _without(
    fitted: CulturalMap,
    grid: AnswerGrid,
    protocol: Protocol,
    settings: MapSettings | None,
    m: int,
    label: str,
    chosen: NDArray[np.bool_],
    excluded: Sequence[str],
    reference: Reference | None,
    level: float,
) -> dict[str, Any]:
    """Place a model on the map that is fitted without its unreliable items."""
    left_out = [item for item in fitted.items if item in set(excluded)]
    kept = [item for item in fitted.items if item not in set(excluded)]
    row: dict[str, Any] = {"group": protocol.standard, "without": left_out, "n": 0}
    try:
        reduced = fit_map(
            fitted.means.select(kept),
            settings,
            fit=fitted.fit,
            rotation=fitted.rotation,
            confirmed=kept,  # found to run as declared on the whole map
        )
    except InvalidInputError as error:
        # Too few items are left for two axes; the row says so by having no position.
        return _row("without", label, name=str(error), **row)
    columns = _columns(grid, reduced.items, protocol)
    values = _place(
        reduced,
        _take(grid.variant_answers[m], columns)[chosen],
        _take(grid.seed_answers[m], columns),
        reference,
        level,
    )
    return _row("without", label, **row | values)


def _means(
    own: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Mapping[str, Any]],
    reference: Reference | None,
) -> list[dict[str, Any]]:
    """Return the mean position of the panel and of every group of models."""
    rows = []

    def add(kind: str, label: str, group: str | None, members: list[str]) -> None:
        if not members:
            return
        x, y = (float(np.mean([own[name][axis] for name in members])) for axis in ("x", "y"))
        distance = None if reference is None else float(np.hypot(x - reference.x, y - reference.y))
        rows.append(
            _row(kind, label, group=group, x=x, y=y, n=len(members), reference_distance=distance)
        )

    add("panel", "all models", None, sorted(own))
    for key in ("access", "origin", "region"):
        named = {label: groups.get(label, {}).get(key) for label in own}
        for value in sorted({str(v) for v in named.values() if v is not None}):
            add("group", value, key, sorted(name for name, v in named.items() if v == value))
    return rows


# -- change over waves ---------------------------------------------------------------------------

Time = tuple[str, int]


def positions_over_waves(
    fitted: CulturalMap, by_wave: Mapping[int, CountryMeans]
) -> dict[str, dict[int, tuple[float, float]]]:
    """Return where each country lay in each wave.

    Parameters
    ----------
    fitted : CulturalMap
        Its countries' mean, deviation and loadings place every wave alike.
    by_wave : mapping of int to CountryMeans
        Means of single waves, such as ``country_means(sources, waves=[5])``.

    Returns
    -------
    dict
        By country code, then wave.
    """
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for wave in sorted(by_wave):
        means = by_wave[wave].select(list(fitted.items))
        for code, point in zip(means.countries, fitted.project(means.means), strict=True):
            found.setdefault(code, {})[wave] = (float(point[0]), float(point[1]))
    return found


def _means_by_place(
    rows: Sequence[Mapping[str, Any]],
    positions: Mapping[str, Floats],
    items: Sequence[str],
) -> dict[str, dict[Time, Floats]]:
    """Return complete vectors of mean answers by country and time point."""
    cells: dict[str, dict[Time, dict[str, float]]] = {}
    for row in rows:
        if row["probs"] is None or row["variable"] not in positions:
            continue
        mean = float(np.dot(np.asarray(row["probs"], dtype=float), positions[row["variable"]]))
        cells.setdefault(row["country"], {}).setdefault(_time(row), {})[row["variable"]] = mean
    out: dict[str, dict[Time, Floats]] = {}
    for country, points in cells.items():
        for when, values in points.items():
            if all(item in values for item in items):
                out.setdefault(country, {})[when] = np.array([values[item] for item in items])
    return out


def _time(row: Mapping[str, Any]) -> Time:
    """Return a time point: its wave where it has one, as the items of a wave may differ in year."""
    return ("wave", row["wave"]) if row["wave"] is not None else ("year", row["year"])


def study_change(study: Study, fitted: CulturalMap) -> pa.Table:
    """Return how countries moved on the map, in the surveys and in each model's predictions.

    Parameters
    ----------
    study : Study
        Its questions include all items of the map, in the coding of the Integrated Values Surveys.
    fitted : CulturalMap

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_CHANGE`: one row a country and source. The survey
        (label ``survey``) from its oldest to its newest time point with all items, the models
        between the same two where they predicted all items at both. ``cosine`` is that of the
        two moves, ``distance_old`` and ``distance_new`` how far the model is from the survey.

    Raises
    ------
    StudyError
        The study lacks an item of the map.
    SourceError
        An item was recoded.
    """
    rows = {r["variable"]: r for r in study.items().to_pylist() if r["variable"] in fitted.items}
    missing = [item for item in fitted.items if item not in rows]
    if missing:
        raise StudyError(
            f"{study.path} has no gold of {', '.join(missing)}; change on the map needs all items"
        )
    try:
        check_coding(
            (
                (name, [o["code"] for o in row["options"]], row["options"][0]["label"])
                for name, row in rows.items()
            ),
            str(study.path),
            fitted.items,
        )
    except SourceError as error:
        raise SourceError(f"{error}; build the study from files in that coding") from None
    positions = {
        name: np.array([float(o["code"]) for o in row["options"]]) for name, row in rows.items()
    }
    gold = study.gold().to_pylist()
    about = {r["country"]: (r["country_name"] or r["country"], r["region"]) for r in gold}
    sources = {_SURVEY: _means_by_place(gold, positions, fitted.items)}
    prompts: dict[str, dict[str, dict[str, Any]]] = {}
    for run in study.runs().to_pylist():
        if run["engine"] == "reference":
            continue
        instruction = run["instruction"]
        if instruction not in prompts:
            prompts[instruction] = {
                row["prompt_id"]: row
                for row in prompts_of(study, instruction).to_pylist()
                if row["kind"] == "dated" and row["variable"] in rows
            }
        answers = [
            {**prompts[instruction][row["prompt_id"]], "probs": row["probs"]}
            for row in study.predictions(run["run_id"], "dated").to_pylist()
            if row["repeat"] == 0 and row["prompt_id"] in prompts[instruction]
        ]
        sources[run["label"]] = _means_by_place(answers, positions, fitted.items)
    years: dict[tuple[str, Time], int] = {}
    for row in gold:
        if row["variable"] in rows:
            key = (row["country"], _time(row))
            years[key] = min(row["year"], years.get(key, row["year"]))
    return pa.Table.from_pylist(
        _change_rows(sources, about, years, fitted), schema=schema.VALIDITY_CHANGE
    )


def _change_rows(
    sources: Mapping[str, Mapping[str, Mapping[Time, Floats]]],
    about: Mapping[str, tuple[str, str | None]],
    years: Mapping[tuple[str, Time], int],
    fitted: CulturalMap,
) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    survey = sources[_SURVEY]
    for country in sorted(survey):
        times = sorted(survey[country], key=lambda when: (years[country, when], when))
        for label, means in sources.items():
            shared = [when for when in times if when in means.get(country, {})]
            if len(shared) < 2:
                continue
            old, new = shared[0], shared[-1]
            ends = fitted.project(np.stack([means[country][old], means[country][new]]))
            truth = fitted.project(np.stack([survey[country][old], survey[country][new]]))
            move, moved = ends[1] - ends[0], truth[1] - truth[0]
            length, survey_length = float(np.hypot(*move)), float(np.hypot(*moved))
            cosine = None
            if length > ATOL and survey_length > ATOL:
                cosine = float(np.clip(move @ moved / (length * survey_length), -1.0, 1.0))
            own = label == _SURVEY
            name, region = about[country]
            out.append(
                {
                    "label": label,
                    "country": country,
                    "country_name": name,
                    "region": region,
                    "wave_old": old[1] if old[0] == "wave" else None,
                    "wave_new": new[1] if new[0] == "wave" else None,
                    "year_old": years[country, old],
                    "year_new": years[country, new],
                    "x_old": float(ends[0, 0]),
                    "y_old": float(ends[0, 1]),
                    "x_new": float(ends[1, 0]),
                    "y_new": float(ends[1, 1]),
                    "change": length,
                    "survey_change": survey_length,
                    "cosine": None if own else cosine,
                    "distance_old": None if own else float(np.hypot(*(ends[0] - truth[0]))),
                    "distance_new": None if own else float(np.hypot(*(ends[1] - truth[1]))),
                }
            )
    return out
