"""Tables of country means: read, checked, kept in a folder, written for others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronocore import schema
from chronocore.arrow import frame_table
from chronocore.countries import country_name, country_order, region_of
from chronocore.errors import ConfigurationError, InvalidInputError
from chronocore.markup import csv_text
from chronocore.store import write_atomic, write_parquet
from chronocore.text import plain
from chronocore.tolerance import ATOL
from chronocore.validity.country_means import CountryMeans
from chronocore.validity.own_files import blank, read_own_file
from chronocore.validity.protocol import load_protocol

__all__ = ["means_from_table", "means_table", "read_country_table", "write_country_table"]

#: Columns of the long form, one row a country and item.
_LONG = frozenset({"country", "item", "mean"})


def read_country_table(
    table: str | Path | object, items: Sequence[str] | None = None
) -> CountryMeans:
    """Read a table of country means.

    Parameters
    ----------
    table : path or frame
        A CSV or Parquet file, or any Arrow-compatible frame: a column ``country`` (code or name),
        optionally ``country_name`` and ``region``, and one column of means for each item, in the
        coding of the Integrated Values Surveys. Countries that lack an item do not enter; the
        notes name them. The table that a map keeps in its folder, one row a country and item, is
        read as well.
    items : sequence of str, optional
        The items of the map, by default the ten of the published one.

    Returns
    -------
    CountryMeans

    Raises
    ------
    ConfigurationError, InvalidInputError
        The file cannot be read or is another table, lacks a column, has a mean off the item's
        scale, or no country with all items.
    """
    if items is None:
        items = [item.variable for item in load_protocol().item]
    if isinstance(table, str | Path):
        frame, where = read_own_file(Path(table), "country means"), str(table)
    else:
        frame, where = frame_table(table, "countries"), "countries"
    kind = (frame.schema.metadata or {}).get(b"chronocore.schema")
    if kind is not None and kind != b"validity_countries":
        raise ConfigurationError(
            f"{where} is a table {kind.decode(errors='replace')!r} of chronocore, not one of "
            "country means"
        )
    if set(frame.column_names) >= _LONG and not set(items) & set(frame.column_names):
        return means_from_table(frame, items)
    missing = [name for name in ("country", *items) if name not in frame.column_names]
    if missing:
        raise ConfigurationError(
            f"{where} lacks the columns {', '.join(missing)}; it has "
            f"{', '.join(frame.column_names)}"
        )
    kept: list[tuple[str, str, str | None, list[float]]] = []
    lacking: list[str] = []
    for number, row in enumerate(frame.to_pylist(), start=1):
        if blank(row["country"]):
            raise InvalidInputError(f"{where}, row {number}: country is missing")
        code = str(row["country"]).strip()
        numbers = [_mean(row[item], f"{where}, row {number} ({code}): {item}") for item in items]
        own, region = row.get("country_name"), row.get("region")
        name = country_name(code) or code if blank(own) else plain(str(own))
        absent = [item for item, mean in zip(items, numbers, strict=True) if math.isnan(mean)]
        if absent:
            lacking.append(f"{name} lacks {', '.join(absent)}")
            continue
        region = region_of(code) if blank(region) else plain(str(region))
        kept.append((plain(code), name, region, numbers))
    codes = [code for code, *_ in kept]
    twice = next((code for code in codes if codes.count(code) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where}: country {twice} is there twice")
    if lacking and not kept:
        raise InvalidInputError(
            f"{where}: no country has all of {', '.join(items)}: {'; '.join(lacking)}"
        )
    kept.sort(key=lambda row: country_order(row[0]))
    means = CountryMeans(
        items=tuple(items),
        countries=tuple(code for code, *_ in kept),
        names=tuple(name for _, name, _, _ in kept),
        regions=tuple(region for _, _, region, _ in kept),
        means=np.array([numbers for *_, numbers in kept], dtype=np.float64).reshape(-1, len(items)),
        notes=(f"not on the map: {'; '.join(lacking)}",) if lacking else (),
    )
    _check_scales(means, where)
    return means


def _mean(value: object, where: str) -> float:
    """Return a mean; NaN where there is none."""
    if blank(value):
        return math.nan
    try:
        mean = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        mean = math.inf
    if not math.isfinite(mean):
        raise InvalidInputError(f"{where}: the mean {value!r} is no number")
    return mean


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


def means_table(means: CountryMeans) -> pa.Table:
    """Return country means in long form (schema :data:`chronocore.schema.VALIDITY_COUNTRIES`).

    The rows without a study and wave are the pooled means that a map is fitted on; those of single
    time points follow, where they are known.
    """
    rows: list[dict[str, Any]] = []
    for i, code in enumerate(means.countries):
        for j, item in enumerate(means.items):
            rows.append(
                {
                    "country": code,
                    "country_name": means.names[i],
                    "region": means.regions[i],
                    "study": None,
                    "wave": None,
                    "year": None,
                    "item": item,
                    "mean": float(means.means[i, j]),
                    "n_valid": None if means.counts is None else int(means.counts[i, j]),
                    "weight": None if means.weights_used is None else means.weights_used[i],
                }
            )
    pooled = pa.Table.from_pylist(rows, schema=schema.VALIDITY_COUNTRIES)
    if means.time_points is None:
        return pooled
    return pa.concat_tables([pooled, means.time_points])


def means_from_table(table: pa.Table, items: Sequence[str]) -> CountryMeans:
    """Return the country means that :func:`means_table` wrote."""
    single = pa.array([False] * len(table))
    for name in ("study", "wave", "year"):
        if name in table.column_names:
            single = pc.or_(single, pc.is_valid(table[name]))
    rows: dict[str, dict[str, Any]] = {}
    for row in table.filter(pc.invert(single)).to_pylist():
        own = rows.setdefault(
            row["country"],
            {
                "country": row["country"],
                "country_name": row.get("country_name"),
                "region": row.get("region"),
            },
        )
        if row["item"] in own:
            raise InvalidInputError(
                f"countries: {row['country']} has two means of {row['item']}; keep one"
            )
        own[row["item"]] = row["mean"]
    for own in rows.values():
        for item in items:
            own.setdefault(item, None)
    named = ("country", "country_name", "region", *items)
    return read_country_table(
        pa.table({name: [own[name] for own in rows.values()] for name in named}), items
    )


def write_country_table(means: CountryMeans, path: str | Path) -> None:
    """Write country means as a table with one row a country, as :func:`read_country_table` reads.

    Beside the means: ``time_points``, the studies, waves and years that were pooled; ``weight``,
    the weight columns; and ``n_<item>``, the valid answers behind each mean.

    Parameters
    ----------
    means : CountryMeans
    path : path
        Its suffix decides: ``.csv`` or ``.parquet``.

    Raises
    ------
    ConfigurationError
        Another suffix.
    """
    target = Path(path)
    pooled = _pooled_points(means)
    columns: dict[str, Any] = {
        "country": list(means.countries),
        "country_name": list(means.names),
        "region": pa.array(means.regions, pa.string()),
    }
    columns |= {item: means.means[:, j] for j, item in enumerate(means.items)}
    if means.counts is not None:
        columns |= {f"n_{item}": means.counts[:, j] for j, item in enumerate(means.items)}
    if means.weights_used is not None:
        columns["weight"] = pa.array(means.weights_used, pa.string())
    if means.time_points is not None:
        columns["time_points"] = [pooled.get(code, "") for code in means.countries]
    table = pa.table(columns)
    suffix = target.suffix.lower()
    if suffix == ".csv":
        write_atomic(
            target,
            csv_text(table.column_names, (row.values() for row in table.to_pylist())).encode(),
        )
    elif suffix == ".parquet":
        metadata = {
            b"chronocore.schema": b"validity_countries",
            b"chronocore.version": schema.chronocore_version().encode(),
        }
        write_parquet(target, table.replace_schema_metadata(metadata))
    else:
        raise ConfigurationError(f"{target}: country means are written as .csv or .parquet")


def _pooled_points(means: CountryMeans) -> Mapping[str, str]:
    """Return the time points behind each country's means, in words."""
    if means.time_points is None:
        return {}
    found: dict[str, dict[str, None]] = {}
    for row in means.time_points.to_pylist():
        wave = None if row["wave"] is None else f"wave {row['wave']}"
        year = None if row["year"] is None else f"({row['year']})"
        told = " ".join(part for part in (row["study"], wave, year) if part)
        found.setdefault(row["country"], {})[told] = None
    return {code: "; ".join(sorted(points)) for code, points in found.items()}
