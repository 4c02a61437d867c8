"""Intervals of many cells at once, each against resamples drawn one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import multinomial as reference_multinomial
from reference import resampling as reference
from reference.metrics import quantile, resample_indices

import chronocore as cc
from chronocore.inference import seed_base
from chronocore.intervals import Cell, cell_interval, ends_of_cells, median_laws
from chronocore_kernels import resampling

pytestmark = pytest.mark.kernels

B = 7
NUMBERS = st.one_of(st.integers(-9, 9).map(lambda x: x / 8), st.just(math.nan))


@st.composite
def columns(draw, values=NUMBERS):
    """A column of redraws, and cells of it: rows, clusters, weights."""
    n = draw(st.integers(1, 8))
    n_redraws = draw(st.integers(1, 9))
    column = [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(n_redraws)]
    cells = []
    for number in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=9))
        labels = draw(st.lists(st.sampled_from("abc"), min_size=len(rows), max_size=len(rows)))
        weights = draw(st.lists(st.integers(1, 5), min_size=len(rows), max_size=len(rows)))
        cells.append((rows, labels, weights, number))
    return column, cells


def of_cell(column, cell):
    return [[row[i] for i in cell[0]] for row in column]


def cells_of(cells, clustered=False, weighted=False):
    return [
        Cell(
            np.array(rows), seed_base(seed), np.array(labels) if clustered else None,
            np.array(weights, dtype=float) if weighted else None,
        )
        for rows, labels, weights, seed in cells
    ]  # fmt: skip


def ends(replicates):
    known = sorted(x for x in replicates if not math.isnan(x))
    return [quantile(known, p) if known else math.nan for p in (0.025, 0.975)]


def pooled(values, statistic):
    known = sorted(x for row in values for x in row if not math.isnan(x))
    if not known:
        return math.nan
    return quantile(known, 0.5) if statistic == "median" else math.fsum(known) / len(known)


def members(cell, clustered):
    rows, labels, _, _ = cell
    return reference.members(labels if clustered else range(len(rows)))


@settings(max_examples=80)
@given(columns(), st.sampled_from(["mean", "median"]), st.booleans())
def test_means_and_clustered_medians_equal_the_reference(drawn, statistic, clustered):
    column, cells = drawn
    clustered = clustered or statistic == "median"
    found = ends_of_cells(np.array(column), statistic, cells_of(cells, clustered), n_resamples=B)
    for own, cell in zip(found, cells, strict=True):
        values = of_cell(column, cell)
        replicates = reference.two_level(
            values, members(cell, clustered), statistic, int(seed_base(cell[3])), B
        )
        expected = [*ends(replicates), pooled(values, statistic)]
        np.testing.assert_allclose(own, expected, atol=1e-12)


@settings(max_examples=40)
@given(columns(), st.booleans())
def test_weighted_means_equal_the_reference(drawn, clustered):
    column, cells = drawn
    found = ends_of_cells(
        np.array(column), "mean", cells_of(cells, clustered, weighted=True), n_resamples=B
    )
    for own, cell in zip(found, cells, strict=True):
        values, weights = of_cell(column, cell), cell[2]
        units = members(cell, clustered)

        def mean(row, chosen, weights=weights):
            kept = [i for i in chosen if not math.isnan(row[i])]
            below = sum(weights[i] for i in kept)
            return math.fsum(row[i] * weights[i] for i in kept) / below if kept else math.nan

        replicates = [
            mean(
                values[b % len(values)],
                [i for u in resample_indices(int(seed_base(cell[3])), b, len(units))
                 for i in units[u]],
            )
            for b in range(B)
        ]  # fmt: skip
        size = len(weights)
        flat = [x for row in values for x in row]
        centre = mean(flat, range(len(flat)), weights * (len(flat) // size))
        np.testing.assert_allclose(own, [*ends(replicates), centre], atol=1e-12)


@settings(max_examples=60)
@given(columns(st.integers(-1, 2)), st.booleans())
def test_shares_equal_the_reference(drawn, clustered):
    column, cells = drawn
    found = ends_of_cells(
        np.array(column, dtype=np.int8), "shares", cells_of(cells, clustered), n_classes=3,
        n_resamples=B,
    )  # fmt: skip
    for own, cell in zip(found, cells, strict=True):
        values, base = of_cell(column, cell), int(seed_base(cell[3]))
        units = members(cell, clustered)
        counts = []
        for b in range(B):
            codes = values[b % len(values)]
            if clustered:
                chosen = [codes[i] for u in resample_indices(base, b, len(units)) for i in units[u]]
                counts.append([chosen.count(code) for code in (0, 1, 2)])
            else:  # what is left out is a class of its own, the last one
                own_counts = [codes.count(code) for code in (0, 1, 2, -1)]
                counts.append(
                    reference_multinomial.multinomial(base, b, len(codes), own_counts)[:3]
                )
        flat = [code for row in values for code in row if code >= 0]
        for code in range(3):
            replicates = [row[code] / sum(row) if sum(row) else math.nan for row in counts]
            centre = flat.count(code) / len(flat) if flat else math.nan
            np.testing.assert_allclose(own[code], [*ends(replicates), centre], atol=1e-12)


@settings(max_examples=60)
@given(columns(), st.integers(1, 300))
def test_medians_of_pairs_have_the_law_of_their_rank(drawn, spread):
    # Larger cells by repeating rows: the ranks that are drawn then fill a part of them.
    column, cells = drawn
    column = np.array(column)
    wide = [(np.tile(rows, spread), [], [], seed) for rows, _, _, seed in cells]
    found = ends_of_cells(column, "median", cells_of(wide), n_resamples=B)
    for own, cell in zip(found, wide, strict=True):
        values = column[:, cell[0]]
        base = seed_base(cell[3])
        n = len(cell[0])
        law, rank, fraction, first, _, threshold, alias, moves = median_laws(np.array([n]))
        replicates = []
        for b in range(B):
            row = values[b % len(values)]
            if np.isnan(row).any():  # then rows are drawn
                chosen = row[resample_indices(int(base), b, n)]
                known = np.sort(chosen[~np.isnan(chosen)])
                replicates.append(quantile(known.tolist(), 0.5) if len(known) else math.nan)
            else:
                replicates.append(
                    resampling.rank_replicates(
                        np.sort(row), rank[law[0]], fraction[0], first[0], threshold, alias, moves,
                        base, B,
                    )[b]
                )  # fmt: skip
        np.testing.assert_allclose(own[:2], ends(replicates), atol=1e-12)
        np.testing.assert_allclose(own[2], pooled(values.tolist(), "median"), atol=1e-12)


@pytest.mark.parametrize("statistic", ["mean", "median", "proportion"])
def test_one_redraw_of_pairs_is_the_bootstrap(statistic):
    rng = np.random.default_rng(2)
    values = rng.normal(size=301)
    if statistic == "proportion":
        values = (values > 0.3).astype(float)
    found = cell_interval(values, statistic, redrawn=values[None], seed=6)
    result = cc.bootstrap(values, statistic, seed=6)
    assert found == pytest.approx((result.estimate, *result.confidence_interval), rel=1e-14)


def test_cells_do_not_depend_on_each_other():
    rng = np.random.default_rng(3)
    column = rng.normal(size=(20, 500)).astype(np.float32)
    cells = [
        Cell(np.sort(rng.choice(500, n, replace=False)), seed_base(n)) for n in (3, 400, 77, 1, 250)
    ]
    for statistic in ("mean", "median"):
        together = ends_of_cells(column, statistic, cells)
        alone = [ends_of_cells(column, statistic, [cell])[0] for cell in cells]
        np.testing.assert_array_equal(together, alone)
    codes = (column > 0).astype(np.int8)
    together = ends_of_cells(codes, "shares", cells, n_classes=2)
    alone = [ends_of_cells(codes, "shares", [cell], n_classes=2)[0] for cell in cells]
    np.testing.assert_array_equal(together, alone)
