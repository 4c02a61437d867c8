"""A folder of answers -> components, map and tables, written beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronocore import schema
from chronocore.errors import ConfigurationError, StudyError
from chronocore.sources.microdata import Microdata
from chronocore.storage import location
from chronocore.store import read_parquet, write_atomic, write_parquet
from chronocore.validity.answers import load_answers, load_runs
from chronocore.validity.components import ComponentsResult, components, no_answers
from chronocore.validity.country_means import CountryMeans, Waves, country_means
from chronocore.validity.country_tables import (
    means_from_table,
    means_table,
    read_country_table,
)
from chronocore.validity.cultural_map import CulturalMap, fit_map
from chronocore.validity.design import built_study, load_design, saved_protocol
from chronocore.validity.distributions import distribution_components, study_distributions
from chronocore.validity.positions import map_table, study_change
from chronocore.validity.protocol import Protocol
from chronocore.validity.tables import (
    NAMES,
    ValidityTable,
    component_tables,
    distribution_tables,
    format_table,
    map_tables,
    read_table,
)

__all__ = [
    "MapResult",
    "ValidityScore",
    "load_country_means",
    "map_items",
    "map_models",
    "score",
    "tables",
]


@dataclass(frozen=True, slots=True)
class ValidityScore:
    """What :func:`score` found.

    Attributes
    ----------
    models, items : int
    valid, undefined : int
        Pairs of a model and an item with and without a ratio.
    median : float or None
        Of the ratios.
    above_1, above_2 : int
    undefined_pairs : list of (model, item, status)
    undefined_because : list of str
        Why each of them has no ratio, in words.
    tables : list of str
    """

    models: int
    items: int
    valid: int
    undefined: int
    median: float | None
    above_1: int
    above_2: int
    undefined_pairs: list[tuple[str, str, str]]
    undefined_because: list[str]
    tables: list[str]


@dataclass(frozen=True, slots=True)
class MapResult:
    """What :func:`map_models` found.

    Attributes
    ----------
    countries : int
    explained : (float, float)
        Share of the items' variance on each axis.
    tone : str
        The standard tone, in which models are placed.
    positions : dict of str to (float, float)
        Models in the standard tone.
    unprojectable : dict of str to list of str
        Models off the map, with the items they lack.
    changes : int
        Countries whose change over waves could be placed.
    tables : list of str
    notes : list of str
        What a reader should know of the countries' means, such as countries left out.
    """

    countries: int
    explained: tuple[float, float]
    tone: str
    positions: dict[str, tuple[float, float]]
    unprojectable: dict[str, list[str]]
    changes: int
    tables: list[str]
    notes: list[str]


def _root(folder: str | Path) -> Path:
    return location(folder) / "validity"


def _groups(folder: str | Path) -> dict[str, dict[str, Any]]:
    keys = ("access", "origin", "region", "seed_lower_bound")
    return {row["label"]: {key: row[key] for key in keys} for row in load_runs(folder).to_pylist()}


def _components(folder: str | Path, **settings: Any) -> ComponentsResult:
    answers = load_answers(folder)
    if not len(answers):
        raise StudyError(
            f"{folder} has no validity answers; run: chronocore validity run {folder} --model SPEC"
        )
    return components(
        answers,
        groups=_groups(folder),
        standard_tone=saved_protocol(folder).standard,
        **settings,
    )


def _save_tables(folder: str | Path, made: Sequence[ValidityTable]) -> list[str]:
    for one in made:
        path = location(folder) / "tables" / one.name
        write_parquet(path.with_name(f"{one.name}.parquet"), one.with_metadata())
        for form in ("csv", "md"):
            write_atomic(path.with_name(f"{one.name}.{form}"), format_table(one, form).encode())
    return [one.name for one in made]


def score(
    folder: str | Path,
    *,
    culture_base: str = "variants",
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    seed: int = 0,
    intervals: str = "chi-square",
) -> ValidityScore:
    """Compute components, ratios, rates and their tables from the answers in a folder.

    Answers that are whole distributions are decomposed as well: those of the design (``[pairs]``
    in the protocol), and in a study the predictions of its models.

    Parameters
    ----------
    folder : path
    culture_base, n_resamples, confidence_level, seed, intervals
        As for :func:`chronocore.validity.components`.

    Returns
    -------
    ValidityScore

    Raises
    ------
    StudyError
        There is no design or no answer.
    """
    protocol = saved_protocol(folder) if (_root(folder) / "protocol.toml").is_file() else None
    made: list[ValidityTable] = []
    study = built_study(folder)
    if protocol is None and study is None:
        load_design(folder)  # says what is missing
    found: ComponentsResult | None = None
    if protocol is not None and protocol.item:
        found = _components(
            folder,
            culture_base=culture_base,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            seed=seed,
            intervals=intervals,
        )
        write_parquet(_root(folder) / "components.parquet", found.table)
        made += component_tables(found, protocol, load_runs(folder).to_pylist())
    parts = []
    if protocol is not None and protocol.pairs is not None:
        rows = [r for r in load_answers(folder).to_pylist() if r["kind"] == "distribution"]
        rows = [r for r in rows if r["status"] is not None]
        supports = {
            r["item"]: [o["position"] for o in r["options"]]
            for r in load_design(folder).to_pylist()
        }
        bounds = {label: bool(g["seed_lower_bound"]) for label, g in _groups(folder).items()}
        parts.append(distribution_components(rows, supports, seed_lower_bound=bounds))
    if study is not None and any(r["engine"] != "reference" for r in study.runs().to_pylist()):
        parts.append(study_distributions(study))
    if parts:
        table = pa.concat_tables(parts)
        write_parquet(_root(folder) / "distributions.parquet", table)
        made += distribution_tables(table)
    rows = found.table.to_pylist() if found else []
    ratios = sorted(row["nsr"] for row in rows if row["status"] == "ok")
    middle = None
    if ratios:
        half = len(ratios) // 2
        middle = ratios[half] if len(ratios) % 2 else (ratios[half - 1] + ratios[half]) / 2
    return ValidityScore(
        models=len(found.grid.labels) if found else 0,
        items=len(found.grid.items) if found else 0,
        valid=len(ratios),
        undefined=len(rows) - len(ratios),
        median=middle,
        above_1=sum(bool(row["above_1"]) for row in rows),
        above_2=sum(bool(row["above_2"]) for row in rows),
        undefined_pairs=[
            (row["label"], row["item"], row["status"]) for row in rows if row["status"] != "ok"
        ],
        undefined_because=[_no_ratio(row) for row in rows if row["status"] != "ok"],
        tables=_save_tables(folder, made),
    )


def _no_ratio(row: Mapping[str, Any]) -> str:
    """Return why a model and an item have no ratio."""
    if row["status"] == "undefined_culture":
        return "fewer than two models have a usable answer"
    if row["status"] in ("zero_over_zero", "infinite"):
        return "the models do not differ"
    said = f"{row['n_variants_valid']} of {row['n_variants']} variants"
    said += f" and {row['n_seeds_valid']} of {row['n_seeds']} seeds have a usable answer"
    shares = [
        f"{row[name]:.0%} of the variants {what}"
        for name, what in (("refusal_rate", "refused"), ("parse_failure_rate", "unreadable"))
        if row[name]
    ]
    return "; ".join([said, *shares])


def map_items(folder: str | Path) -> list[str]:
    """Return the items of a folder's map.

    Raises
    ------
    ConfigurationError
        Its protocol has no map.
    """
    protocol = saved_protocol(folder)
    if protocol.map is None:
        raise ConfigurationError(
            f"the protocol in {folder} has no [map]: it says no anchors, so nothing can be drawn"
        )
    return [
        item.variable for item in protocol.item if protocol.wording_of(item) == protocol.wording
    ]


def map_models(
    folder: str | Path,
    countries: str | Path | object | None = None,
    *,
    fit: str = "countries",
    rotation: str = "varimax",
    waves: Waves = (5, 6, 7),
    confirmed: Sequence[str] = (),
    confidence_level: float = 0.95,
) -> MapResult:
    """Fit the cultural map and place the models of a folder on it.

    Parameters
    ----------
    folder : path
    countries : path, frame, CountryMeans, Microdata or list of Microdata, optional
        A table of country means of your own (:func:`read_country_table`), means, or survey
        microdata (:func:`country_means`). Without it, the means of the last call.
    fit : {"countries", "respondents"}
        The latter needs microdata.
    rotation : {"varimax", "none"}
    waves : sequence of int, mapping of str to sequence of int, or None
        Waves of microdata that are pooled; see :func:`country_means`.
    confirmed : sequence of str
        Items whose coding you checked; see :func:`fit_map`.
    confidence_level : float
        Of the ellipses.

    Returns
    -------
    MapResult

    Raises
    ------
    StudyError, ConfigurationError, InvalidInputError, SourceError
        Something is missing, or the means are not in the coding of the surveys.
    """
    protocol = saved_protocol(folder)
    root = _root(folder)
    means = _country_means(folder, countries, fit=fit, waves=waves)
    fitted = fit_map(means, protocol.map, fit=fit, rotation=rotation, confirmed=confirmed)
    # Countries can be drawn before any model has answered.
    grid, excluded = no_answers(protocol), {}
    if len(load_answers(folder)):
        found = _components(folder, n_resamples=0)
        grid, excluded = found.grid, _unreliable(found, protocol)
    table = map_table(
        fitted,
        grid,
        protocol,
        groups=_groups(folder),
        excluded=excluded,
        level=confidence_level,
    )
    write_parquet(root / "countries.parquet", means_table(means))
    write_parquet(root / "map.parquet", table)
    change = _change(folder, fitted)
    if change is not None:
        write_parquet(root / "change.parquet", change)
    made = map_tables(table, change)
    own = [
        row
        for row in table.to_pylist()
        if row["kind"] == "model" and row["group"] == protocol.standard
    ]
    return MapResult(
        countries=len(means.countries),
        explained=(float(fitted.explained[0]), float(fitted.explained[1])),
        tone=protocol.standard,
        positions={row["label"]: (row["x"], row["y"]) for row in own if row["x"] is not None},
        unprojectable={row["label"]: row["lacking"] for row in own if row["x"] is None},
        changes=0 if change is None else len(set(change["country"].to_pylist())),
        tables=_save_tables(folder, made),
        notes=list(means.notes),
    )


def load_country_means(folder: str | Path) -> CountryMeans:
    """Return the country means of a folder's last map.

    Raises
    ------
    StudyError
        There are none yet.
    """
    path = _root(folder) / "countries.parquet"
    if not path.is_file():
        raise StudyError(
            f"{folder} has no country means yet; make them from survey files (--file FILE "
            "--preset ivs) or give a table of them (--countries FILE)"
        )
    return means_from_table(read_parquet(path, schema.VALIDITY_COUNTRIES), map_items(folder))


def _country_means(
    folder: str | Path, countries: object, *, fit: str, waves: Waves
) -> CountryMeans:
    """Return the means that a map is fitted on, from whatever they were given as."""
    items = map_items(folder)
    if countries is None:
        if fit == "respondents":
            raise ConfigurationError('fit="respondents" needs microdata with every call')
        return load_country_means(folder)
    if isinstance(countries, CountryMeans):
        return countries.select(items)
    if isinstance(countries, Microdata) or (
        isinstance(countries, list) and all(isinstance(one, Microdata) for one in countries)
    ):
        return country_means(
            countries, items=items, waves=waves, keep_respondents=fit == "respondents"
        )
    return read_country_table(countries, items)


def _unreliable(found: ComponentsResult, protocol: Protocol) -> dict[str, list[str]]:
    """Return the items of each model with a ratio above 1."""
    excluded: dict[str, list[str]] = {}
    for row in found.table.to_pylist():
        if row["above_1"] and row["wording"] == protocol.wording:
            excluded.setdefault(row["label"], []).append(row["item"])
    return excluded


def _change(folder: str | Path, fitted: CulturalMap) -> pa.Table | None:
    """Return the change over waves where the folder is a study with all items of the map."""
    study = built_study(folder)
    if study is None:
        return None
    variables = set(study.items()["variable"].to_pylist())
    return study_change(study, fitted) if set(fitted.items) <= variables else None


def tables(folder: str | Path, names: Sequence[str] = ()) -> dict[str, ValidityTable]:
    """Return the tables of a folder, by default all that were made.

    Raises
    ------
    ConfigurationError
        A name is unknown.
    StudyError
        A table was not made yet.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ConfigurationError(f"there is no table {unknown[0]!r}; tables: {', '.join(NAMES)}")
    found = {}
    for name in names or NAMES:
        path = location(folder) / "tables" / f"{name}.parquet"
        if path.is_file():
            found[name] = read_table(read_parquet(path))
        elif names:
            raise StudyError(
                f"{folder} has no table {name} yet; run: chronocore validity score {folder}, or "
                f"chronocore validity map {folder}"
            )
    if not found:
        raise StudyError(f"{folder} has no tables yet; run: chronocore validity score {folder}")
    return found
