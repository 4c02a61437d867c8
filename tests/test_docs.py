"""The documentation mentions what exists, and its links lead somewhere."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest

import chronocore as cc
from chronocore import schema
from chronocore.config import Rules, ScoreSettings, Source, StudyConfig
from chronocore.tables import TABLES
from chronocore_bench import coverage
from chronocore_bench.studies_without_a_difference import studies_without_a_difference
from chronocore_cli.main import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A block of Python and, if it follows directly, the text it prints.
EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|home|root|tmp|Users|mnt|opt|usr|var)/|[A-Z]:\\")


def read(path):
    return path.read_text(encoding="utf-8")


def anchors(text):
    """Return the anchors of a page's headings, as the site makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def page_id(path):
    return str(path.relative_to(ROOT))


def test_there_is_something_to_check():
    assert len(PAGES) > 15
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {path.name for path in PAGES}


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_is_in_the_reference_and_used_in_the_docs(name):
    reference = read(DOCS / "reference" / "cli.md")
    directive = (
        "::: mkdocs-click\n    :module: chronocore_cli.main\n"
        f"    :command: {name}\n    :prog_name: chronocore {name}\n"
    )
    assert directive in reference
    others = [read(path) for path in PAGES if path != DOCS / "reference" / "cli.md"]
    assert any(f"chronocore {name}" in text for text in others)


def test_the_reference_lists_the_commands_in_the_order_of_the_work():
    listed = re.findall(r":command: (\S+)", read(DOCS / "reference" / "cli.md"))
    assert listed == list(cli.commands)


@pytest.mark.parametrize("name", cc.__all__)
def test_every_public_name_is_in_the_reference(name):
    reference = read(DOCS / "reference" / "api.md")
    thing = getattr(cc, name)
    if isinstance(thing, type) and issubclass(thing, Exception):
        assert name in cc.errors.__all__  # all of that module is listed
        assert "::: chronocore.errors\n" in reference
    elif name == "__version__":
        assert "cc.__version__" in reference
    elif inspect.ismodule(thing):
        assert f"`chronocore.{name}`" in reference
    else:
        assert re.search(rf"^::: chronocore\.[\w.]+\.{name}$", reference, re.MULTILINE)


def test_every_page_is_in_the_navigation():
    navigation = read(ROOT / "mkdocs.yml")
    for path in DOCS.rglob("*.md"):
        assert f"{path.relative_to(DOCS).as_posix()}\n" in navigation


def test_every_column_is_described():
    text = read(DOCS / "reference" / "study-folder.md")
    for columns in (
        schema.ITEMS, schema.GOLD, schema.PAIRS, schema.PROMPTS, schema.RUNS, schema.PREDICTIONS,
        schema.SCORES, schema.NOISE, schema.SWEEP, schema.VALIDITY_DESIGN, schema.VALIDITY_RUNS,
        schema.VALIDITY_ANSWERS,
        schema.VALIDITY_COMPONENTS, schema.VALIDITY_DISTRIBUTIONS, schema.VALIDITY_COUNTRIES,
        schema.VALIDITY_MAP, schema.VALIDITY_CHANGE,
    ):  # fmt: skip
        for name in columns.names:
            assert f"`{name}`" in text, name
    results = read(DOCS / "how-to" / "read-results.md")
    for name in [*schema.TABLE.names, *TABLES]:
        assert f"`{name}`" in results, name


def test_every_setting_is_described():
    text = read(DOCS / "reference" / "study-folder.md")
    for struct in (Source, Rules, ScoreSettings):
        for name in struct.__struct_fields__:
            assert re.search(rf"^(# )?{name} = ", text, re.MULTILINE), name
    for name in StudyConfig.__struct_fields__:
        assert re.search(rf"^\[+{name}\]+", text, re.MULTILINE), name


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_links_resolve(path):
    for target in [a or b for a, b in LINK.findall(FENCE.sub("", read(path)))]:
        if target.startswith(("https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        assert not name.startswith("/"), target
        page = (path.parent / name).resolve() if name else path
        assert page.is_file(), target
        if anchor and page.suffix == ".md":
            assert anchor in anchors(read(page)), target


@pytest.mark.parametrize("path", [*PAGES, ROOT / "mkdocs.yml"], ids=page_id)
def test_no_machine_path_and_no_plain_http(path):
    text = read(path)
    assert "http://" not in text.replace("http://localhost:", "")
    assert not MACHINE_PATH.search(text)


@pytest.mark.parametrize("name", ["intervals", "metrics"])
def test_examples_print_what_the_page_says(name):
    names = {}
    printed = 0
    for example in EXAMPLE.finditer(read(DOCS / "how-to" / f"{name}.md")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(example["code"], name, "exec"), names)
        assert out.getvalue() == (example["printed"] or "")
        printed += example["printed"] is not None
    assert printed >= 3


def test_the_tutorial_quotes_the_answer_that_the_readme_quotes():
    # and that one is compared with a run, in test_quickstart.py
    answer = re.search(r"^Answer  .*?\n\n", read(DOCS / "tutorial.md"), re.MULTILINE | re.DOTALL)
    assert answer[0] in read(ROOT / "README.md")


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("performance.md", "bench"),
        ("how-to/intervals.md", "coverage"),
        ("how-to/intervals.md", "design"),
    ],
)
def test_generated_tables_have_their_markers(page, name):
    lines = read(DOCS / page).splitlines()
    assert lines.index(f"<!-- {name} table -->") < lines.index(f"<!-- end of {name} table -->")


def test_coverage_is_counted_and_written_between_its_markers(tmp_path):
    result = coverage.coverage(samples=20, n_resamples=50, sizes=[20], seed=1)
    again = coverage.coverage(samples=20, n_resamples=50, sizes=[20], seed=1)
    assert result == again
    assert len(result.rows) == len(coverage.CASES) * len(coverage.INTERVALS)
    for row in result.rows:
        assert 0.5 <= row.coverage <= 1
        assert row.standard_error == pytest.approx((row.coverage * (1 - row.coverage) / 20) ** 0.5)
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- coverage table -->\nold\n<!-- end of coverage table -->\nb\n")
    coverage.write_coverage(result, path)
    assert path.read_text().startswith("a\n<!-- coverage table -->\n\n| statistic |")
    assert "old" not in path.read_text()
    path.write_text("no markers")
    with pytest.raises(cc.ConfigurationError, match="no lines"):
        coverage.write_coverage(result, path)
    with pytest.raises(cc.InvalidInputError, match="at least one"):
        coverage.coverage(samples=0)


def test_coverage_of_designs_is_counted():
    result = coverage.design_coverage(samples=5, n_resamples=50, seed=1)
    assert result == coverage.design_coverage(samples=5, n_resamples=50, seed=1)
    assert len(result.markdown().splitlines()) == len(result.rows) + 4
    widths = {(row.case, row.interval): row.width for row in result.rows}
    assert widths["share, countries differ", "countries"] > 1.2
    assert widths["mean distance to surveys", "gold drawn again"] > 1.1
    assert widths["all 15 differences of six equal models", "simultaneous"] > 1.2


@pytest.mark.slow
def test_studies_without_a_difference_are_simulated():
    found = studies_without_a_difference(studies=3, surveys=1, samples=60, seed=4)
    shares = {(row.case, row.what): row.share for rows in found.rows.values() for row in rows}
    clustered = "noise floor, 60 areas of 20, 10 options"
    assert shares[clustered, "p ≤ 0.05 by weights alone"] > 0.2
    assert shares[clustered, "unchanged pairs with p ≤ 0.05"] < 0.15
    rare = "share of 2 %, n = 20"
    assert shares[rare, "percentile intervals that hold"] < 0.6
    assert shares[rare, "with the exact one at 0 and 100 % (default)"] > 0.9
    text = read(DOCS / "how-to" / "intervals.md")
    for name, rows in found.rows.items():
        # The page has the cases of the command, in its own words.
        assert found.markdown(name).splitlines()[0] in text
        assert all(row.case in text for row in rows)
    with pytest.raises(cc.InvalidInputError, match="at least one"):
        coverage.design_coverage(samples=0)
