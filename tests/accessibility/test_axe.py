"""The report in a real browser: accessibility rules, keyboard, filters, downloads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import AXE, CHROMIUM, ask

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]

needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="no axe-core here; tests/accessibility/run installs it with npm"
)

#: The shades that say a table can be scrolled keep axe from knowing what text stands on.
_FLAT = """
const flat = document.createElement('style');
flat.textContent = '.scroll { background: none !important; overflow: visible !important } '
  + '.cue { display: none } header, main, footer { max-width: none !important }';
document.head.append(flat);
document.querySelectorAll('details').forEach((part) => { part.open = true; });
"""


@needs_axe
@pytest.mark.parametrize(("width", "dark"), [(3000, False), (3000, True), (500, False)])
def test_axe_finds_nothing(report_study: Path, tmp_path: Path, width: int, dark: bool) -> None:
    found = ask(
        report_study / "report.html",
        _FLAT
        + """
        const result = await axe.run(document);
        // What text of a drawing stands on, axe cannot tell, and the tests of figures compute it;
        // nor can it tell of a heading over two rows, which is coloured as those beside it.
        const known = /^<(text|tspan|th [^>]*rowspan)/;
        const of = (rule) => ({
          rule: rule.id,
          nodes: rule.nodes.map((node) => node.html).filter((html) => !known.test(html)),
        });
        return {
          violations: result.violations.map(of),
          incomplete: result.incomplete.map(of),
          passes: result.passes.map((rule) => rule.id),
          dark: matchMedia('(prefers-color-scheme: dark)').matches,
        };
        """,
        tmp_path, width=width, dark=dark, libraries=[AXE],
    )  # fmt: skip
    assert found["dark"] == dark
    assert found["violations"] == []
    assert {"color-contrast", "svg-img-alt", "select-name", "heading-order"} <= set(found["passes"])
    if width > 1000:  # in a narrow window wide tables lie partly behind its edge
        unknown = [one for one in found["incomplete"] if one["rule"] == "color-contrast"]
        assert [one for one in unknown if one["nodes"]] == []


def test_the_filters_work_and_the_numbers_can_be_downloaded(
    report_study: Path, tmp_path: Path
) -> None:
    found = ask(
        report_study / "report.html",
        """
        const read = () => [...document.querySelectorAll('#explore-rows tr')].map((row) =>
          [...row.querySelectorAll('th, td')].slice(0, 4).map((cell) => cell.textContent));
        const whole = { rows: read(), note: document.getElementById('explore-status').textContent };
        const region = document.getElementById('explore-region');
        region.value = '0';
        region.dispatchEvent(new Event('change'));
        const part = { rows: read(), note: document.getElementById('explore-status').textContent };
        let saved = null;
        const click = HTMLAnchorElement.prototype.click;
        HTMLAnchorElement.prototype.click = function () { saved = [this.download, this.href]; };
        document.getElementById('download').click();
        HTMLAnchorElement.prototype.click = click;
        const text = await (await fetch(saved[1])).text();
        return {
          whole, part, name: saved[0], tables: Object.keys(JSON.parse(text).tables).length,
          seen: !document.getElementById('explore').hidden,
          scrolls: document.documentElement.scrollWidth <= innerWidth,
          unreached: [...document.querySelectorAll('.scroll')].filter((e) => e.tabIndex < 0).length,
        };
        """,
        tmp_path,
        width=500,
    )
    assert found["seen"]
    assert found["scrolls"], "the page is wider than its window"
    assert found["unreached"] == 0
    assert found["name"] == "chronocore-report.json"
    assert found["tables"] > 20
    whole, part = found["whole"], found["part"]
    assert "table t08" in whole["note"]
    assert "without intervals" in part["note"]
    assert any("[" in row[3] for row in whole["rows"])
    assert not any("[" in row[3] for row in part["rows"])
    assert int(part["rows"][-1][2].rstrip("*")) < int(whole["rows"][-1][2].rstrip("*"))
