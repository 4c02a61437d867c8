"""How often intervals of measurement validity hold the true value, on simulated panels.

``python -m chronocore_bench.coverage_validity FILE`` writes the table between the coverage markers
of a Markdown file; without a file it is printed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronocore.validity import components, ellipse
from chronocore_bench.markdown import replace_table

__all__ = ["PANELS", "Panel", "PanelCoverage", "ellipse_coverage", "markdown", "panel_coverage"]

Floats = NDArray[np.float64]

MEASURES = ("sigma_seed", "sigma_prompt", "nsr")


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of models: its size, and how far its answers spread.

    Attributes
    ----------
    models, items, variants, seeds : int
    seed, prompt, culture : float
        Standard deviations on a scale from 1 to 10; those of a model and item differ from these
        by a factor of about 1.35 either way.
    whole : bool
        Whether answers are whole points of the scale.
    refused : float
        Share of answers that are refused.
    """

    seed: float
    prompt: float
    culture: float
    whole: bool = True
    models: int = 8
    items: int = 4
    variants: int = 30
    seeds: int = 10
    refused: float = 0.0

    @property
    def name(self) -> str:
        """The panel in words."""
        points = "whole points" if self.whole else "any number"
        refused = f", {self.refused:.0%} refused" if self.refused else ""
        return (
            f"{self.models} models × {self.items} items, {self.variants} variants, {self.seeds} "
            f"seeds; {points}, σ {self.seed:g}/{self.prompt:g}/{self.culture:g}{refused}"
        )


PANELS: tuple[Panel, ...] = (
    Panel(0.8, 0.6, 1.5, whole=False),
    Panel(0.8, 0.6, 1.5),
    Panel(0.5, 0.4, 1.0),
    Panel(0.3, 0.3, 1.5),
    Panel(0.8, 0.6, 0.5),
    Panel(1.5, 1.2, 2.0),
    Panel(0.8, 0.6, 1.5, refused=0.3),
    Panel(0.8, 0.6, 1.5, models=3, items=10),
    Panel(0.8, 0.6, 1.5, models=12, items=10, variants=10, seeds=5),
)


@dataclass(frozen=True, slots=True)
class PanelCoverage:
    """Coverage of the intervals of one measure in one panel."""

    panel: Panel
    intervals: str
    measure: str
    coverage: float
    n: int


def _truth(mean: Floats, deviation: Floats, whole: bool) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the answers that are given."""
    from scipy.special import ndtr

    if not whole:
        return mean, deviation
    points = np.arange(1, 11)
    edges = np.concatenate([[-np.inf], np.arange(1.5, 10), [np.inf]])
    shares = np.diff(ndtr((edges - mean[..., None]) / deviation[..., None]), axis=-1)
    center = shares @ points
    return center, np.sqrt(np.maximum(shares @ points**2 - center**2, 0.0))


def _frame(answers: Floats, drawn: Floats) -> pa.Table:
    """Return answers (M, Q, V) and draws (M, Q, S) in long form; NaN is a refusal."""
    models, items, variants = answers.shape
    seeds = drawn.shape[2]
    both = np.concatenate([answers, drawn], axis=2).reshape(-1)
    model, item, place = np.indices((models, items, variants + seeds)).reshape(3, -1)
    is_seed = place >= variants
    return pa.table(
        {
            # Padded: results are in the order of the names.
            "model": np.char.add("m", np.char.zfill(model.astype(str), 4)),
            "item": np.char.add("q", np.char.zfill(item.astype(str), 4)),
            "variant": np.where(is_seed, 0, place),
            "seed": pa.array(place - variants, mask=~is_seed),
            "score": pa.array(both, mask=np.isnan(both)),
        }
    )


def panel_coverage(
    panel: Panel, *, intervals: str = "chi-square", samples: int = 100, seed: int = 0
) -> list[PanelCoverage]:
    """Return how often the intervals of components hold the truth in simulated panels.

    Parameters
    ----------
    panel : Panel
    intervals : str
        As for :func:`chronocore.validity.components`.
    samples : int
        Panels.
    seed : int
    """
    rng = np.random.default_rng(seed)
    shape = (panel.models, panel.items)
    held = dict.fromkeys(MEASURES, 0)
    total = dict.fromkeys(MEASURES, 0)
    for sample in range(samples):
        mean = 5.5 + panel.culture * rng.standard_normal(shape)
        spread = [s * np.exp(0.3 * rng.standard_normal(shape)) for s in (panel.prompt, panel.seed)]
        given = [
            mean[..., None] + own[..., None] * rng.standard_normal((*shape, n))
            for own, n in zip(spread, (panel.variants, panel.seeds), strict=True)
        ]
        if panel.whole:
            given = [np.clip(np.round(own), 1, 10) for own in given]
        if panel.refused:
            given = [np.where(rng.random(g.shape) < panel.refused, np.nan, g) for g in given]
        center, prompt = _truth(mean, spread[0], panel.whole)
        _, noise = _truth(mean, spread[1], panel.whole)
        truth = {
            "sigma_seed": noise,
            "sigma_prompt": prompt,
            "nsr": (noise + prompt) / center.std(axis=0, ddof=1),
        }
        table = components(_frame(*given), n_resamples=200, seed=sample, intervals=intervals).table
        for measure in MEASURES:
            low, high = (
                np.array(table[f"{measure}_{end}"].to_numpy()).reshape(shape)
                for end in ("low", "high")
            )
            found = np.isfinite(table[measure].to_numpy()).reshape(shape)
            # An upper end that is null has no bound.
            inside = (low <= truth[measure]) & (
                truth[measure] <= np.where(np.isnan(high), np.inf, high)
            )
            held[measure] += int((inside & found).sum())
            total[measure] += int(found.sum())
    return [PanelCoverage(panel, intervals, m, held[m] / total[m], total[m]) for m in MEASURES]


def ellipse_coverage(n: int, *, samples: int = 4000, seed: int = 0) -> tuple[float, float]:
    """Return how often the 95 % ellipse of a mean of n variants holds it.

    Returns
    -------
    hotelling, chi_square : float
        With the radius for n variants, and with that for any number.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1.0, 0.6], [0.6, 2.0]])
    held = [0, 0]
    for _ in range(samples):
        points = rng.standard_normal((n, 2)) @ root.T
        x, y = points.mean(axis=0)
        covariance = np.cov(points.T) / n
        for place, number in enumerate((n, None)):
            found = ellipse(covariance, n=number)
            t = math.radians(found.angle)
            along, across = x * math.cos(t) + y * math.sin(t), y * math.cos(t) - x * math.sin(t)
            held[place] += (along / found.major) ** 2 + (across / found.minor) ** 2 <= 1
    return held[0] / samples, held[1] / samples


def markdown(*, samples: int = 60, seed: int = 0) -> str:
    """Simulate all panels and ellipses; return them as two Markdown tables."""
    lines = [
        "| panel (σ seed/prompt/culture) | σ seed | σ prompt | NSR | percentile: σ seed | σ prompt "
        "| NSR |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for panel in PANELS:
        rows = [
            row
            for kind in ("chi-square", "percentile")
            for row in panel_coverage(panel, intervals=kind, samples=samples, seed=seed)
        ]
        lines.append(f"| {panel.name} | {' | '.join(f'{100 * r.coverage:.1f}' for r in rows)} |")
    lines += [
        "",
        f"Share of 95 % intervals, in %, that hold the truth: {samples} simulated panels each, "
        f"seed {seed}.",
        "",
        "| variants | Hotelling's radius | chi-square radius |",
        "| ---: | ---: | ---: |",
    ]
    for n in (5, 10, 30):
        shares = ellipse_coverage(n, seed=seed)
        lines.append(f"| {n} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")
    lines += [
        "",
        "Share of 95 % ellipses of a mean position, in %, that hold it: 4,000 means each.",
    ]
    return "\n".join(lines)


def _main(arguments: Sequence[str]) -> int:
    table = markdown()
    if not arguments:
        print(table)
    for name in arguments:
        replace_table(Path(name), "validity coverage", table)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
