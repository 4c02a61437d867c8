"""Results and figures -> one HTML page that asks for nothing from a network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.report.figures import Figure, plain
from chronocore.report.findings import Finding, findings_of
from chronocore.report.results import Results
from chronocore.report.svg import COLOURS
from chronocore.schema import chronocore_version
from chronocore.score import RunSummary
from chronocore.tables import SMALL_N, TABLES, WideTable, number, wide, words

__all__ = ["page"]

Row = dict[str, Any]

VALID = ("ok", "recovered")

#: The headline of each finding.
TITLES = {
    "RF1": "Accuracy and alignment",
    "RF2": "Magnitude and direction",
    "RF3": "Naming a year",
}

#: Sections of results: anchor, heading, introduction, figures, tables.
SECTIONS = (
    (
        "rf1", "RF1: Are both years predicted, and kept apart?",
        "A prediction is accurate when its distance to the survey is at most the tolerance. "
        "Accuracy alone does not show whether a prediction belongs to its own year, so each is "
        "also compared with the survey of the other year.",
        ("accuracy", "alignment"), ("t08", "t10"),
    ),
    (
        "rf2", "RF2: Is the change as large as it was, and in its direction?",
        "The distance between the two predictions is compared with the distance between the two "
        "surveys, and the direction of the one with the direction of the other.",
        ("shift",), ("t11", "t12", "t13"),
    ),
    (
        "rf3", "RF3: Does naming the year help?",
        "The same question is asked without a year. Which survey is that answer nearest to, and "
        "does an answer get nearer to a survey when its year is named?",
        ("default_year", "benefit"), ("t16", "t17", "t18"),
    ),
)  # fmt: skip

#: A table with more lines than this starts folded.
LONG_TABLE = 12

_EXAMPLES = 3
_EXAMPLE_RUNS = 6
_ANSWERS = 4
_ANSWER_LENGTH = 500


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a table: its heading cells, and (estimate, interval, n) of the others.

    ``run`` is the label of the run that starts here, ``first`` whether a prediction does.
    """

    run: str | None
    index: list[str]
    n: str
    cells: list[tuple[str, str, str]]
    kind: str
    first: bool


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as the template shows it."""

    name: str
    title: str
    note: str
    header: list[str]
    n_column: bool
    measures: list[str]
    lines: list[_Line]
    folded: bool
    starred: bool


def _table(results: Results, name: str) -> _Table:
    layout: WideTable = wide(name, results.tables[name])
    plain_cells = all(not cell[1] for line in layout.cells for cell in line)
    one_n = all(len({cell[2] for cell in line if cell[2]}) <= 1 for line in layout.cells)
    n_column = one_n and not plain_cells
    at = layout.header.index("prediction") if "prediction" in layout.header else None
    # A run's label is a line of its own and not a column that repeats it.
    skip = int(layout.header[:1] == ["run"])
    lines = []
    for position, (index, cells) in enumerate(zip(layout.index, layout.cells, strict=True)):
        kind = "own" if at is None or index[at] == "model" else "reference"
        before = layout.index[position - 1] if position else None
        shown = [
            cell if not (n_column or plain_cells) else (cell[0], cell[1], "") for cell in cells
        ]
        run = index[0] if skip and (before is None or before[0] != index[0]) else None
        lines.append(
            _Line(
                run=run,
                index=index[skip:],
                n=next((cell[2] for cell in cells if cell[2]), "") if n_column else "",
                cells=shown,
                kind=kind,
                first=run is None
                and at is not None
                and before is not None
                and before[at] != index[at],
            )
        )
    return _Table(
        name=name,
        title=layout.spec.title,
        note=layout.spec.note,
        header=layout.header[skip:],
        n_column=n_column,
        measures=layout.measures,
        lines=lines,
        # The numbers of the first table stand above it as well.
        folded=len(lines) > LONG_TABLE or name == "t01",
        starred=any(cell[2].endswith("*") for line in layout.cells for cell in line),
    )


# -- what was evaluated --------------------------------------------------------------------------


def _surveys(results: Results) -> list[Row]:
    items = results.study.items().select(["survey", "variable"]).to_pylist()
    pairs = results.study.pairs()
    columns = ["survey", "country", "year_old", "year_new", "n_valid_old", "n_valid_new"]
    rows = pairs.select(columns).to_pylist()
    found = []
    for survey in [*dict.fromkeys(item["survey"] for item in items), "all"]:
        members = [row for row in rows if survey in (row["survey"], "all")]
        counts = {
            shift: results.cells[("t01", None, None, survey, None, shift)].estimate
            for shift in SHIFTS
            if ("t01", None, None, survey, None, shift) in results.cells
        }
        gaps = sorted(row["year_new"] - row["year_old"] for row in members)
        found.append(
            {
                "survey": survey,
                "items": sum(survey in (item["survey"], "all") for item in items),
                "countries": len({row["country"] for row in members}),
                "pairs": len(members),
                "counts": [f"{counts.get(shift) or 0:.0f}" for shift in SHIFTS],
                "years": f"{min(r['year_old'] for r in members)}–"
                f"{max(r['year_new'] for r in members)}"
                if members
                else "–",
                "gap": f"{gaps[len(gaps) // 2]} years" if gaps else "–",
            }
        )
    return found


def _settings(run: Row) -> str:
    parts = [str(run["elicitation"]), f"{run['instruction']} instruction"]
    parts.append("structured output" if run["structured"] else "free text")
    for key, text in (
        ("temperature", "temperature {:g}"),
        ("top_p", "top-p {:g}"),
        ("max_tokens", "at most {} tokens"),
        ("seed", "seed {}"),
    ):
        if run[key] is not None:
            parts.append(text.format(run[key]))
    return ", ".join(parts)


def _reasons(results: Results, run: RunSummary) -> list[str]:
    predictions = results.study.predictions(run.run_id).select(
        ["repeat", "status", "reason", "prompt_id"]
    )
    kinds = dict(
        zip(*(results.study.prompts()[c].to_pylist() for c in ("prompt_id", "kind")), strict=True)
    )
    reasons = Counter(
        f"{row['status']}: {words(row['reason']).replace('_', ' ') or 'no reason'}"
        for row in predictions.to_pylist()
        if row["repeat"] == 0
        and row["status"] not in VALID
        and kinds.get(row["prompt_id"]) in ("dated", "undated")
    )
    return [f"{reason} ({count})" for reason, count in reasons.most_common()]


def _runs(results: Results) -> list[Row]:
    settings = {row["run_id"]: row for row in results.study.runs().to_pylist()}
    evaluated = {run.run_id for run in results.evaluated}
    rows = []
    for run in results.summary.runs:
        row = settings.get(run.run_id)
        if row is None:
            continue
        answers = sum(run.statuses.values())
        valid = sum(run.statuses.get(status, 0) for status in VALID)
        rows.append(
            {
                "label": run.label,
                "model": row["model"],
                "engine": " ".join(filter(None, (row["engine"], row["engine_version"]))),
                "revision": row["revision"] or "–",
                "template": row["chat_template_sha256"],
                "settings": "–" if run.engine == "reference" else _settings(row),
                "run_id": run.run_id,
                "answers": answers,
                "valid": valid,
                "statuses": [f"{status} {count}" for status, count in run.statuses.items()],
                "reasons": _reasons(results, run),
                "pairs": run.n_pairs,
                "complete": run.n_complete,
                "incomplete": run.n_pairs - run.n_complete,
                "retained": run.n_retained,
                "reference": run.engine == "reference",
                "evaluated": run.run_id in evaluated,
                "empty": run.empty_strata,
            }
        )
    return rows


# -- examples ------------------------------------------------------------------------------------


def _answers(results: Results, run: RunSummary, instruction: str) -> dict[tuple[Any, ...], Row]:
    columns = ["prompt_id", "kind", "instruction", "survey", "variable", "country", "year"]
    prompts = {
        row["prompt_id"]: row
        for row in results.study.prompts().select(columns).to_pylist()
        if row["kind"] != "modal" and row["instruction"] == instruction
    }
    return {
        (p["survey"], p["variable"], p["country"], p["year"]): row
        for row in results.study.predictions(run.run_id).to_pylist()
        if row["repeat"] == 0 and (p := prompts.get(row["prompt_id"])) is not None
    }


def _examples(results: Results) -> list[Row]:
    items = {(i["survey"], i["variable"]): i for i in results.study.items().to_pylist()}
    pairs = {row["pair_id"]: row for row in results.study.pairs().to_pylist()}
    instructions = {r["run_id"]: r["instruction"] for r in results.study.runs().to_pylist()}
    groups = []
    for run in results.evaluated[:_EXAMPLE_RUNS]:
        answers = _answers(results, run, instructions[run.run_id])
        scores = [row for row in results.study.scores(run.run_id).to_pylist() if row["retained"]]
        scores.sort(key=lambda row: (-row["d_h"], row["pair_id"]))
        examples = []
        for score in scores[:_EXAMPLES]:
            pair = pairs[score["pair_id"]]
            item = items[pair["survey"], pair["variable"]]
            where = (pair["survey"], pair["variable"], pair["country"])
            columns = [
                pair["gold_old"],
                pair["gold_new"],
                *(answers[(*where, y)]["probs"] for y in (pair["year_old"], pair["year_new"])),
            ]
            examples.append(
                {
                    "country": pair["country_name"] or pair["country"],
                    "text": item["text"],
                    "where": f"{pair['survey']} {pair['variable']}",
                    "old": pair["year_old"],
                    "new": pair["year_new"],
                    "rows": [
                        {
                            "label": option["label"],
                            "values": [(f"{100 * c[k]:.1f}", f"{100 * c[k]:.1f}") for c in columns],
                        }
                        for k, option in enumerate(item["options"])
                    ],
                    "d_h": number(score["d_h"], "W"),
                    "d_m": number(score["d_m"], "W"),
                    "d_old": number(score["d_old"], "W"),
                    "d_new": number(score["d_new"], "W"),
                    "shift": words(score["shift"]),
                    "outcome": words(score["outcome"]),
                    "alignment": words(score["alignment"]),
                }
            )
        groups.append({"label": run.label, "examples": examples})
    return groups


def _printable(text: str) -> str:
    """Return a model's answer with control characters made visible, cut to a readable length."""
    shown = "".join(
        c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return shown if len(shown) <= _ANSWER_LENGTH else shown[:_ANSWER_LENGTH] + " …"


def _unusable(results: Results) -> list[Row]:
    """Return answers of models that carry no distribution, a few a run and reason."""
    prompts = {
        row["prompt_id"]: row
        for row in results.study.prompts()
        .select(["prompt_id", "kind", "variable", "country", "year"])
        .to_pylist()
    }
    groups = []
    for run in results.summary.runs:
        if run.engine == "reference":
            continue
        seen: Counter[str | None] = Counter()
        answers: list[Row] = []
        for row in results.study.predictions(run.run_id).to_pylist():
            prompt = prompts.get(row["prompt_id"])
            if prompt is None or row["status"] in VALID or row["text"] is None:
                continue
            if seen[row["reason"]] >= 2 or len(answers) >= _ANSWERS or row["repeat"]:
                continue
            if any(row["text"] == answer["raw"] for answer in answers):
                continue
            seen[row["reason"]] += 1
            answers.append(
                {
                    "status": row["status"],
                    "reason": (row["reason"] or "").replace("_", " "),
                    "prompt": f"{prompt['variable']}, country {prompt['country']}, "
                    + (f"year {prompt['year']}" if prompt["year"] is not None else "no year"),
                    "text": _printable(row["text"]),
                    "raw": row["text"],
                }
            )
        if answers:
            groups.append({"label": run.label, "answers": answers})
    return groups


# -- the page ------------------------------------------------------------------------------------


def _embedded(results: Results, found: dict[str, list[Finding]]) -> str:
    """Return the JSON copy of the tables; no ``<`` is left that could end the script element."""
    payload = {
        "chronocore_version": chronocore_version(),
        "study": results.study.path.resolve().name,
        "settings": results.summary.settings,
        "runs": [msgspec.to_builtins(run) for run in results.summary.runs],
        "findings": {
            label: [asdict(finding) for finding in listed] for label, listed in found.items()
        },
        "tables": {name: table.to_pylist() for name, table in results.tables.items()},
    }
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _boundaries(results: Results) -> str:
    chosen = results.summary.settings["boundaries"]
    values = ", ".join(f"{value:g}" for value in results.boundaries)
    return f"{values} ({chosen})" if isinstance(chosen, str) and chosen in BOUNDARIES else values


def _variables(mode: int) -> str:
    return "".join(f"--fig-{name}:{pair[mode]};" for name, pair in COLOURS.items())


def page(results: Results, figures: Sequence[Figure]) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    results : Results
    figures : sequence of Figure

    Returns
    -------
    str
        The page. It has no script, and names no file and no address.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(
        files("chronocore.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    )
    by_name = {figure.name: figure for figure in figures}
    tables = {name: _table(results, name) for name in TABLES}
    found = {run.label: findings_of(results, run) for run in results.evaluated}
    manifest = results.study.manifest()
    surveys = _surveys(results)
    settings = results.summary.settings
    return template.render(
        study=plain(results.study.path.resolve().name, 80),
        version=chronocore_version(),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        found=found,
        titles=TITLES,
        surveys=surveys,
        total=surveys[-1],
        shifts=[words(shift) for shift in SHIFTS],
        runs=_runs(results),
        skipped=results.summary.skipped,
        sections=[
            {
                "anchor": anchor,
                "heading": heading,
                "text": text,
                "figures": [by_name[name] for name in names],
                "tables": [tables[name] for name in held],
            }
            for anchor, heading, text, names, held in SECTIONS
        ],
        distribution=by_name["distribution"],
        filter_tables=[tables["t06"], tables["nearest"]],
        composition=tables["t01"],
        examples=_examples(results),
        unusable=_unusable(results),
        manifest=manifest,
        settings=settings,
        boundaries=_boundaries(results),
        level=results.level,
        tau=results.tau_text,
        small=SMALL_N,
        references_only=all(run.engine == "reference" for run in results.evaluated),
        light=Markup(_variables(0)),
        dark=Markup(_variables(1)),
        embedded=Markup(_embedded(results, found)),
        svg=Markup,
    )
