"""The same decomposition where an answer is a whole distribution (Fréchet variances).

The distance is the 2-Wasserstein distance on the scale of the question, from 0 to 1. On a line it
is the L2 distance of quantile functions, so that a Fréchet mean is the mean of quantile functions
and everything said of standard deviations of numbers holds: an answer that puts all its mass on one
option is that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore import schema
from chronocore.arrow import rows_of
from chronocore.errors import InvalidInputError
from chronocore.predict import prompts_of
from chronocore.store import Study
from chronocore.tolerance import above, at_most
from chronocore_kernels import frechet

__all__ = ["distribution_components", "frechet_deviation", "study_distributions"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_VALID = ("ok", "recovered")

#: Settings that may differ between the runs of one model.
_FAMILY = (
    "model", "revision", "engine", "engine_version", "elicitation", "structured", "temperature",
    "top_p", "max_tokens", "seed", "chat_template_sha256",
)  # fmt: skip


def _scaled(support: Any, k: int) -> Floats:
    """Return positions from 0 to 1."""
    positions = np.arange(k, dtype=np.float64) if support is None else np.asarray(support, float)
    if positions.shape != (k,) or k < 2:
        raise InvalidInputError(
            f"support must have one position an option ({k}, at least 2), it has the shape "
            f"{positions.shape}"
        )
    if not (np.isfinite(positions).all() and (np.diff(positions) > 0).all()):
        raise InvalidInputError("support must be finite and strictly increasing")
    scaled: Floats = (positions - positions[0]) / (positions[-1] - positions[0])
    return scaled


def _deviations(
    groups: Sequence[Sequence[Sequence[float]]],
    units: Sequence[Sequence[int]],
    supports: Sequence[Floats],
    ddof: float,
) -> Floats:
    """Return the Fréchet standard deviation of every group; NaN with fewer than 2 units."""
    if not groups:
        return np.empty(0)
    sizes = np.array([len(rows) for rows in groups], dtype=np.int64)
    lengths = np.array([len(support) for support in supports], dtype=np.int64)
    per_row = np.repeat(lengths, sizes)
    values = np.array([x for rows in groups for row in rows for x in row], dtype=np.float64)
    variance, _ = frechet.frechet_variance(
        values,
        np.cumsum(per_row) - per_row,
        np.concatenate([[0], np.cumsum(sizes)]),
        lengths,
        np.concatenate(list(supports)),
        np.cumsum(lengths) - lengths,
        np.array([u for own in units for u in own], dtype=np.int64),
        float(ddof),
    )
    return np.asarray(np.sqrt(variance))


def frechet_deviation(distributions: Any, support: Any = None, *, ddof: float = 1) -> float:
    r"""Return the Fréchet standard deviation of distributions on one scale.

    .. math:: \sigma = \sqrt{\frac{1}{n - d} \sum_i W_2(P_i, \bar P)^2}

    Parameters
    ----------
    distributions : array-like of shape (n, K)
        Distributions over the same K options.
    support : array-like of shape (K,), optional
        Positions of the options; equally spaced by default. They are scaled to run from 0 to 1.
    ddof : float
        Delta degrees of freedom d.

    Returns
    -------
    float
        In [0, 1] for ``ddof=0``; NaN for fewer than 2 distributions or no more than ``ddof``. For
        point masses it is the standard deviation of their positions.

    Raises
    ------
    InvalidInputError
        A row is no distribution (the message names it), or the support does not fit.

    Notes
    -----
    :math:`\bar P` is the 2-Wasserstein barycentre, whose quantile function is the mean of the
    quantile functions. It need not lie on the options.

    Examples
    --------
    >>> frechet_deviation([[1, 0, 0], [0, 0, 1]], ddof=0)
    0.5
    >>> frechet_deviation([[0.5, 0.5], [0.5, 0.5]])
    0.0
    """
    rows = rows_of(distributions, "distributions")
    if len(rows.shape) != 1:
        raise InvalidInputError(f"distributions must have the shape (n, K), not {rows.shape}")
    if not len(rows):
        return float("nan")
    if not rows.width:
        raise InvalidInputError("distributions must have the same number of options in every row")
    matrix = np.array(rows.matrix())
    _check(matrix)
    positions = _scaled(support, matrix.shape[1])
    units = [list(range(len(matrix)))]
    return float(_deviations([matrix.tolist()], units, [positions], ddof)[0])


def _check(matrix: Floats) -> None:
    for number, row in enumerate(matrix):
        if not np.isfinite(row).all() or (row < 0).any() or abs(row.sum() - 1) > _SUM:
            raise InvalidInputError(
                f"distributions, row {number}: must be non-negative, finite and sum to 1, it is "
                f"{row.tolist()}"
            )


_SUM = 1e-6


def distribution_components(
    answers: Sequence[Mapping[str, Any]],
    supports: Mapping[str, Any],
    *,
    seed_lower_bound: Mapping[str, bool] | None = None,
    ddof: float = 1,
) -> pa.Table:
    """Split the spread of distributions into seed, prompt and model components.

    Parameters
    ----------
    answers : sequence of mapping
        One row an answer: ``label`` (the model), ``item`` (what was asked), ``stage``
        (``"seeds"`` or ``"variants"``), ``status`` and ``probs``; ``kind``, ``survey``,
        ``variable``, ``country``, ``wave`` and ``year`` are carried along.
    supports : mapping of str to array-like
        Positions of the options by item.
    seed_lower_bound : mapping, optional
        By model.
    ddof : float
        Delta degrees of freedom.

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_DISTRIBUTIONS`, by item and model. ``sigma_seed``
        is over the seeds, ``sigma_prompt`` over the variants (instructions), ``sigma_model`` over
        models of the Fréchet mean of their variants; their ratio and its status as for numbers.

    Notes
    -----
    Extends Measurement Validity in LLM Cultural Alignment, section 3.4, from numbers to the
    distributions of ChronoCulture.

    Examples
    --------
    >>> def row(label, stage, probs):
    ...     return {"label": label, "item": "q", "stage": stage, "status": "ok", "probs": probs}
    >>> rows = [row("a", stage, [1.0, 0.0]) for stage in ("seeds", "variants") for _ in range(3)]
    >>> rows += [row("b", stage, [0.0, 1.0]) for stage in ("seeds", "variants") for _ in range(3)]
    >>> table = distribution_components(rows, {"q": [1, 2]})
    >>> table["nsr"].to_pylist(), round(table["sigma_model"][0].as_py(), 4)
    ([0.0, 0.0], 0.7071)
    """
    carried = ("kind", "survey", "variable", "country", "wave", "year")
    about: dict[str, dict[str, Any]] = {}
    given: dict[tuple[str, str, str], list[list[float]]] = {}
    for row in answers:
        item = row["item"]
        about.setdefault(item, {key: row.get(key) for key in carried})
        rows = given.setdefault((item, row["label"], row["stage"]), [])
        if row["status"] in _VALID and row["probs"] is not None:
            rows.append(list(row["probs"]))
    items = sorted(about)
    named: dict[str, set[str]] = {}
    scaled = {item: _scaled(supports[item], len(supports[item])) for item in items}
    for (item, label, _), own in given.items():
        named.setdefault(item, set()).add(label)
        if any(len(row) != len(scaled[item]) for row in own):
            raise InvalidInputError(
                f"item {item}, {label}: an answer does not have {len(scaled[item])} options"
            )
    labels = {item: sorted(named[item]) for item in items}
    cells = [(item, label) for item in items for label in labels[item]]
    sigma: dict[str, Floats] = {}
    for stage in ("seeds", "variants"):
        groups = [given.get((item, label, stage), []) for item, label in cells]
        sigma[stage] = _deviations(
            groups,
            [range(len(rows)) for rows in groups],
            [scaled[item] for item, _ in cells],
            ddof,
        )
    panels, units = [], []
    for item in items:
        with_any = [
            found for label in labels[item] if (found := given.get((item, label, "variants")))
        ]
        panels.append([row for own in with_any for row in own])
        units.append([unit for unit, own in enumerate(with_any) for _ in own])
    n_models = {item: (max(own) + 1 if own else 0) for item, own in zip(items, units, strict=True)}
    between = dict(
        zip(
            items,
            _deviations(panels, units, [scaled[i] for i in items], ddof).tolist(),
            strict=True,
        )
    )
    out = []
    for index, (item, label) in enumerate(cells):
        noise = float(sigma["seeds"][index] + sigma["variants"][index])
        signal = between[item]
        if np.isnan(noise):
            status = "undefined_noise"
        elif np.isnan(signal):
            status = "undefined_culture"
        elif at_most(signal, 0.0):
            status = "zero_over_zero" if at_most(noise, 0.0) else "infinite"
        else:
            status = "ok"
        nsr = noise / signal if status == "ok" else None
        out.append(
            {
                "label": label,
                "item": item,
                **about[item],
                "kind": about[item]["kind"] or "distribution",
                "survey": about[item]["survey"] or "",
                "variable": about[item]["variable"] or item,
                "n_seeds_valid": len(given.get((item, label, "seeds"), [])),
                "n_variants_valid": len(given.get((item, label, "variants"), [])),
                "n_models": n_models[item],
                "sigma_seed": _number(sigma["seeds"][index]),
                "sigma_prompt": _number(sigma["variants"][index]),
                "sigma_model": _number(signal),
                "nsr": nsr,
                "status": status,
                "above_1": None if nsr is None else bool(above(nsr, 1.0)),
                "seed_lower_bound": bool((seed_lower_bound or {}).get(label)),
            }
        )
    return pa.Table.from_pylist(out, schema=schema.VALIDITY_DISTRIBUTIONS)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def study_distributions(study: Study) -> pa.Table:
    """Return the components of the predictions of a study's models.

    A model's repeats of the default instruction are its seeds, its instructions (one answer each)
    its prompt variants. Runs of one model that differ in anything else are models of their own.
    References have neither seeds nor prompts and stay out.

    Parameters
    ----------
    study : Study

    Returns
    -------
    pyarrow.Table
        Schema :data:`chronocore.schema.VALIDITY_DISTRIBUTIONS`: one row a model and prompt (the
        dated ones of every pair and the undated ones).
    """
    families: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in study.runs().to_pylist():
        if run["engine"] != "reference":
            families.setdefault(tuple(run[key] for key in _FAMILY), []).append(run)
    supports: dict[str, Any] = {}
    answers: list[dict[str, Any]] = []
    bounds: dict[str, bool] = {}
    for runs in families.values():
        default = [run for run in runs if run["instruction"] == "default"]
        label = (default or runs)[0]["label"]
        temperature = runs[0]["temperature"]
        bounds[label] = runs[0]["engine"] != "file" and not temperature
        for run in runs:
            prompts = {
                row["prompt_id"]: row
                for row in prompts_of(study, run["instruction"]).to_pylist()
                if row["kind"] != "modal"
            }
            for row in study.predictions(run["run_id"]).to_pylist():
                prompt = prompts.get(row["prompt_id"])
                if prompt is None:
                    continue
                when = "undated" if prompt["year"] is None else str(prompt["year"])
                item = ":".join((prompt["survey"], prompt["variable"], prompt["country"], when))
                supports[item] = [option["position"] for option in prompt["options"]]
                where = {
                    key: prompt[key]
                    for key in ("kind", "survey", "variable", "country", "wave", "year")
                }
                stages = []
                if run["instruction"] == "default":
                    stages.append("seeds")
                if row["repeat"] == 0:
                    stages.append("variants")
                for stage in stages:
                    answers.append(
                        {
                            "label": label,
                            "item": item,
                            "stage": stage,
                            "status": row["status"],
                            "probs": row["probs"],
                            **where,
                        }
                    )
    return distribution_components(answers, supports, seed_lower_bound=bounds)
