"""Results and figures -> one HTML page that asks for nothing from a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from chronocore.config import CLUSTERS
from chronocore.figures.draw import Gallery
from chronocore.figures.svg import COLOURS
from chronocore.metrics import BOUNDARIES, SHIFTS
from chronocore.report.basis import (
    VALID,
    Basis,
    Question,
    basis,
    questions,
)
from chronocore.report.explore import pair_data
from chronocore.report.findings import LEGEND, Finding, answer_of, findings_of
from chronocore.report.sections import Section, filled
from chronocore.results import Results
from chronocore.schema import chronocore_version
from chronocore.score import RunSummary
from chronocore.tables import (
    TABLES,
    WideTable,
    gold_error_words,
    number,
    remarks,
    too_few_resamples,
    wide,
    words,
)
from chronocore.text import plain, visible
from chronocore.wording import wordings

__all__ = ["page"]

Row = dict[str, Any]

#: Prompts without their texts by ``prompt_id``.
Prompts = Mapping[str, Row]

#: The headline of each finding.
TITLES = {
    "RF1": "Accuracy and alignment",
    "RF2": "Magnitude and direction",
    "RF3": "Naming a year",
}

#: Tables about what was evaluated, in the order of the page.
COMPOSITION = ("t01", "t02", "t03", "t04", "basis", "t06", "nearest")

#: A table with more lines than this starts folded.
LONG_TABLE = 12

#: Of more questions than ``LONG_TABLE``, so many stand outside the folded table.
_QUESTIONS = 8

#: What more runs than this rest on stands in the overview only.
_HEAD_RUNS = 6

_LOOKED_AT = 100
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
    plain_cells = layout.plain
    one_n = all(len({cell[2] for cell in line if cell[2]}) <= 1 for line in layout.cells)
    n_column = one_n and not plain_cells
    at = layout.header.index("prediction") if "prediction" in layout.header else None
    # A run's label is a line of its own and not a column that repeats it.
    skip = int(layout.header[:1] == ["run"])
    lines = []
    filled_lines = list(zip(layout.index, layout.cells, strict=True))
    for position, (index, cells) in enumerate(filled_lines):
        kind = "own" if at is None or index[at] == "model" else "reference"
        before = filled_lines[position - 1][0] if position else None
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
        note=" ".join([layout.spec.note, *remarks(results.tables[name])]),
        header=layout.header[skip:],
        n_column=n_column,
        measures=layout.measures,
        lines=lines,
        # The numbers of the first tables stand above them as well.
        folded=len(lines) > LONG_TABLE or name in ("t01", "basis"),
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


def _header(surveys: list[Row]) -> list[tuple[str, list[str]]]:
    """Return the table of surveys: (heading, a cell a survey) of every line."""
    lines = [
        ("questions", [f"{row['items']:,}" for row in surveys]),
        ("countries", [f"{row['countries']:,}" for row in surveys]),
        ("pairs", [f"{row['pairs']:,}" for row in surveys]),
    ]
    for index, shift in enumerate(SHIFTS):
        lines.append((words(shift), [row["counts"][index] for row in surveys]))
    lines.append(("years", [row["years"] for row in surveys]))
    lines.append(("median gap", [row["gap"] for row in surveys]))
    return lines


def _retained(run: RunSummary, rests_on: Basis) -> str:
    """Return what the evaluation of a run rests on, as the head of the page says it."""
    text = f"{rests_on.complete:,} answered completely"
    if run.engine == "reference":
        text += ", all of them evaluated" if rests_on.complete else ""
    else:
        text += f"; {rests_on.retained:,} retained by the knowledge filter"
    most, n = rests_on.most, rests_on.n_most
    if most is None:
        return text
    name = most.variable if rests_on.dominated else f"at most {n:,} of one"
    if rests_on.questions == 1:
        held = f"all from one question, {most.variable}"
    elif rests_on.dominated:
        held = f"{n:,} from one question, {name}"
    else:
        held = f"from {rests_on.questions:,} questions, {name}"
    return f"{text} ({held})"


def _concentration(rests_on: Basis) -> str | None:
    """Return how many pairs one question holds, where that is more than a third of them."""
    n, most = rests_on.retained, rests_on.n_most
    if rests_on.most is None or not rests_on.dominated or n < 2:
        return None
    held = f"all {n:,}" if most == n else f"{most:,} of the {n:,}"
    share = "" if most == n else f" ({100 * most / n:.0f}%)"
    return f"{held} evaluated pairs{share} belong to {rests_on.most.variable}"


# -- several runs --------------------------------------------------------------------------------

#: Columns of the overview: heading, table, group, measure, naming, unit.
_OVERVIEW = (
    ("both years accurate (%)", "t08", "all", "both", None, "%"),
    ("separated (%)", "t10", "all_shifted", "separated", None, "%"),
    ("no predicted change (%)", "t11", "all_shifted", "zero_shift", None, "%"),
    ("median ratio of change", "t11", "all_shifted", "median_ratio", None, "ratio"),
    ("right direction (%)", "t11", "all_shifted", "right_direction", None, "%"),
    ("benefit, older year (W × 100)", "t17", "all", "mean_benefit", "older",
     "W x 100"),
    ("benefit, newer year (W × 100)", "t17", "all", "mean_benefit", "newer",
     "W x 100"),
)  # fmt: skip


def _overview(results: Results, rests_on: dict[str, Basis]) -> list[Row]:
    rows = []
    for run in results.evaluated:
        cells = []
        for _, table, group, measure, item, unit in _OVERVIEW:
            cell = results.cell(table, run, group, measure, item)
            interval = (
                f"[{number(cell.low, unit)}, {number(cell.high, unit)}]"
                if cell.low is not None
                else ""
            )
            mark = "*" if cell.few else ""
            cells.append((f"{number(cell.estimate, unit)}{mark}", interval))
        own = rests_on[run.label]
        rows.append(
            {
                "label": run.label,
                "pairs": f"{own.complete:,} / {own.retained:,}",
                "cells": cells,
            }
        )
    return rows


def _questions(results: Results, listed: Sequence[Question]) -> list[Row]:
    return [
        {
            "code": f"{question.survey} {question.variable}",
            "wording": question.wording,
            "pairs": f"{question.pairs:,}",
            "countries": f"{question.countries:,}",
            "runs": [
                (f"{question.complete[run.run_id]:,}", f"{question.retained[run.run_id]:,}")
                for run in results.evaluated
            ],
        }
        for question in listed
    ]


def _more(results: Results, listed: Sequence[Question]) -> Row:
    """Return the questions outside the short table, as one line of it."""
    rest = listed[_QUESTIONS:]
    return {
        "code": "",
        "wording": f"{len(rest):,} other questions",
        "pairs": f"{sum(question.pairs for question in rest):,}",
        "countries": "",
        "runs": [
            (
                f"{sum(question.complete[run.run_id] for question in rest):,}",
                f"{sum(question.retained[run.run_id] for question in rest):,}",
            )
            for run in results.evaluated
        ],
    }


# -- the runs ------------------------------------------------------------------------------------


def _source(results: Results, run: Row, given: pa.Table) -> str:
    """Return what a file held that predictions were read from."""
    texts = results.study.n_texts(run["run_id"])
    what = "numbers" if not texts else "texts" if texts == len(given) else "texts and numbers"
    name = results.study.run_notes(run["run_id"]).get("file")
    source = f"{what} from a file{f', {plain(name, 80)}' if name else ''}"
    parts = [source, "made outside chronocore"]
    if run["instruction"] != "default":
        parts.append(f"read as answers to the {run['instruction']} instruction")
    return "; ".join(parts)


def _settings(results: Results, run: Row, given: pa.Table) -> str:
    if run["engine"] == "reference":
        return "–"
    if run["engine"] == "file":
        return _source(results, run, given)
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


def _reasons(given: pa.Table, kinds: Mapping[str, str]) -> list[str]:
    rows = given.select(["repeat", "status", "reason", "prompt_id"])
    invalid = rows.filter(pc.invert(pc.is_in(rows["status"], value_set=pa.array(VALID))))
    reasons = Counter(
        f"{row['status']}: {words(row['reason']).replace('_', ' ') or 'no reason'}"
        for row in invalid.to_pylist()
        if row["repeat"] == 0 and kinds.get(row["prompt_id"]) in ("dated", "undated")
    )
    return [f"{reason} ({count})" for reason, count in reasons.most_common()]


def _runs(results: Results, given: Mapping[str, pa.Table], prompts: Prompts) -> list[Row]:
    kinds = {prompt_id: row["kind"] for prompt_id, row in prompts.items()}
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
                "engine": "none: predictions were read from a file"
                if row["engine"] == "file"
                else " ".join(filter(None, (row["engine"], row["engine_version"]))),
                "revision": row["revision"] or "–",
                "template": row["chat_template_sha256"],
                "settings": _settings(results, row, given[run.run_id]),
                "run_id": run.run_id,
                "answers": answers,
                "valid": valid,
                "statuses": [f"{status} {count}" for status, count in run.statuses.items()],
                "reasons": _reasons(given[run.run_id], kinds),
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


def _answers(
    given: pa.Table, prompts: Prompts, pairs: Sequence[Row], wording: tuple[str, str]
) -> dict[tuple[Any, ...], list[float]]:
    """Return a run's first distributions for some pairs by survey, variable, country and year."""
    wanted = {(pair["survey"], pair["variable"], pair["country"]) for pair in pairs}
    asked = {
        prompt_id: (*where, row["year"])
        for prompt_id, row in prompts.items()
        if (where := (row["survey"], row["variable"], row["country"])) in wanted
        and row["kind"] != "modal"
        and (row["instruction"], row["elicitation"]) == wording
    }
    rows = given.filter(pc.is_in(given["prompt_id"], value_set=pa.array(list(asked), pa.string())))
    return {
        asked[row["prompt_id"]]: row["probs"]
        for row in rows.select(["prompt_id", "repeat", "probs"]).to_pylist()
        if row["repeat"] == 0
    }


def _examples(results: Results, given: Mapping[str, pa.Table], prompts: Prompts) -> list[Row]:
    items = {(i["survey"], i["variable"]): i for i in results.study.items().to_pylist()}
    pairs = {row["pair_id"]: row for row in results.study.pairs().to_pylist()}
    wordings_of = {
        row["run_id"]: (row["instruction"], row["elicitation"])
        for row in results.study.runs().to_pylist()
    }
    groups = []
    for run in results.evaluated[:_EXAMPLE_RUNS]:
        table = results.scores(run)
        table = table.filter(table["retained"]).sort_by(
            [("d_h", "descending"), ("pair_id", "ascending")]
        )
        scores = table.slice(0, _EXAMPLES).to_pylist()
        chosen = [pairs[score["pair_id"]] for score in scores]
        answers = _answers(given[run.run_id], prompts, chosen, wordings_of[run.run_id])
        examples = []
        for score in scores:
            pair = pairs[score["pair_id"]]
            item = items[pair["survey"], pair["variable"]]
            where = (pair["survey"], pair["variable"], pair["country"])
            columns = [
                pair["gold_old"],
                pair["gold_new"],
                *(answers[(*where, y)] for y in (pair["year_old"], pair["year_new"])),
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


def _invalid(results: Results, run_id: str, table: pa.Table) -> list[Row]:
    """Return the first answers without a distribution, by their ids, with their texts.

    Texts may be long: only these are read, so many of each reason that some of them differ.
    """
    invalid = pc.invert(pc.is_in(table["status"], value_set=pa.array(VALID)))
    rows = table.filter(pc.and_(invalid, pc.equal(table["repeat"], 0)))
    seen: Counter[str | None] = Counter()
    chosen = []
    for prompt, reason in zip(
        rows["prompt_id"].to_pylist(), rows["reason"].to_pylist(), strict=True
    ):
        seen[reason] += 1
        if seen[reason] <= _LOOKED_AT:
            chosen.append(prompt)
    columns = ["prompt_id", "repeat", "status", "reason", "text"]
    found = results.study.answers_to(run_id, pa.array(chosen, pa.string()), columns)
    found = found.filter(pc.and_(pc.equal(found["repeat"], 0), pc.is_valid(found["text"])))
    return list(found.to_pylist())


def _unusable(results: Results, given: Mapping[str, pa.Table], prompts: Prompts) -> list[Row]:
    """Return answers of models that carry no distribution, a few a run and reason."""
    short = wordings(results.study.items().to_pylist())
    countries = {
        (row["survey"], row["country"]): row["country_name"]
        for row in results.study.pairs().select(["survey", "country", "country_name"]).to_pylist()
    }
    groups = []
    for run in results.summary.runs:
        if run.engine == "reference":
            continue
        seen: Counter[str | None] = Counter()
        shown: list[Row] = []
        table = given[run.run_id]
        for row in _invalid(results, run.run_id, table):
            prompt = prompts.get(row["prompt_id"])
            if prompt is None:
                continue
            if seen[row["reason"]] >= 2 or len(shown) >= _ANSWERS or row["repeat"]:
                continue
            if any(row["text"] == answer["raw"] for answer in shown):
                continue
            seen[row["reason"]] += 1
            survey, variable, country = (prompt[c] for c in ("survey", "variable", "country"))
            year = prompt["year"]
            shown.append(
                {
                    "status": row["status"],
                    "reason": (row["reason"] or "").replace("_", " "),
                    "where": f"{countries.get((survey, country)) or f'country {country}'}, "
                    + ("no year" if year is None else f"{year}"),
                    "question": short[survey, variable],
                    "code": f"{survey} {variable}",
                    "text": visible(row["text"], _ANSWER_LENGTH),
                    "raw": row["text"],
                }
            )
        if shown:
            groups.append({"label": run.label, "answers": shown})
    return groups


def _column(values: list[Any]) -> Any:
    """Return a column of texts as its different values and indices into them, others as is."""
    if not any(isinstance(value, str) for value in values):
        return values
    known = sorted({value for value in values if value is not None})
    place = {value: index for index, value in enumerate(known)}
    return {
        "dictionary": known,
        "indices": [None if value is None else place[value] for value in values],
    }


def _embedded(results: Results, found: dict[str, list[Finding]], shown: Sequence[Section]) -> str:
    """Return the JSON copy of the tables."""
    payload = {
        "chronocore_version": chronocore_version(),
        "format": (
            "tables: by name, a column is a list of values, or a dictionary and indices into it"
        ),
        "study": results.study.path.resolve().name,
        "settings": results.summary.settings,
        "runs": [msgspec.to_builtins(run) for run in results.summary.runs],
        "findings": {
            label: [asdict(finding) for finding in listed] for label, listed in found.items()
        },
        "sections": {
            section.anchor: [asdict(sentence) for sentence in section.sentences]
            for section in shown
        },
        "tables": {
            name: {column: _column(values) for column, values in table.to_pydict().items()}
            for name, table in results.tables.items()
        },
    }
    return _in_script(payload)


def _in_script(payload: Any) -> str:
    """Return JSON without a ``<`` that could end the script element."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _script() -> tuple[str, str]:
    """Return the script of the page and its digest, as the page's policy names it."""
    text = files("chronocore.report").joinpath("explore.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"sha256-{digest}"


def _boundaries(results: Results) -> str:
    chosen = results.summary.settings["boundaries"]
    values = ", ".join(f"{value:g}" for value in results.boundaries)
    return f"{values} ({chosen})" if isinstance(chosen, str) and chosen in BOUNDARIES else values


def _variables(mode: int) -> str:
    return "".join(f"--fig-{name}:{pair[mode]};" for name, pair in COLOURS.items())


def page(results: Results, gallery: Gallery, shown: Sequence[Section]) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    results : Results
    gallery : Gallery
        Its figures, those of the sections included.
    shown : sequence of Section

    Returns
    -------
    str
        The page. It names no file and no address, and runs one script, which only filters what
        the page holds.
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["thousands"] = lambda n: n if isinstance(n, str) else f"{n:,}"
    template = environment.from_string(
        files("chronocore.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    )
    composition = filled(results, *COMPOSITION)
    placed = [*composition, *(name for section in shown for name in section.tables)]
    tables = {name: _table(results, name) for name in placed if name in TABLES}
    script, script_hash = _script()
    columns = ["prompt_id", "repeat", "status", "reason", "probs"]
    given = {
        run.run_id: results.study.predictions(run.run_id, columns=columns)
        for run in results.summary.runs
    }
    prompts = {row["prompt_id"]: row for row in results.prompts()}
    listed = questions(results)
    found = {run.label: findings_of(results, run, listed) for run in results.evaluated}
    rests_on = {run.label: basis(results, run, listed) for run in results.evaluated}
    cautions = [(run.label, _concentration(rests_on[run.label])) for run in results.evaluated]
    manifest = results.study.manifest()
    surveys = _surveys(results)
    settings = results.summary.settings
    return template.render(
        study=plain(results.study.path.resolve().name, 80),
        version=chronocore_version(),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        found=found,
        titles=TITLES,
        legend=LEGEND,
        answers=[answer_of(results, run, rests_on[run.label]) for run in results.evaluated],
        surveys=[row["survey"] for row in surveys],
        survey_lines=_header(surveys),
        total=surveys[-1],
        bases=[
            (run.label, _retained(run, rests_on[run.label]))
            for run in results.evaluated
            if len(results.evaluated) <= _HEAD_RUNS
        ],
        fewer=any(one.retained < one.pairs for one in rests_on.values()),
        overview=_overview(results, rests_on),
        overview_heads=[column[0] for column in _OVERVIEW],
        questions=_questions(results, listed),
        more_questions=_more(results, listed) if len(listed) > LONG_TABLE else None,
        shown_questions=_QUESTIONS,
        cautions=[(label, held) for label, held in cautions if held],
        runs=_runs(results, given, prompts),
        skipped=results.summary.skipped,
        sections=shown,
        figures=gallery.figures,
        omitted=gallery.omitted,
        tables=tables,
        composition=composition,
        examples=_examples(results, given, prompts),
        unusable=_unusable(results, given, prompts),
        manifest=manifest,
        settings=settings,
        resampled=CLUSTERS[settings["cluster"]],
        gold_error=gold_error_words(settings["gold_error"], settings.get("effective_sizes")),
        few_resamples=too_few_resamples(settings["resamples"], settings["confidence_level"]),
        boundaries=_boundaries(results),
        level=results.level,
        tau=results.tau_text,
        few=results.few_words,
        references_only=all(run.engine == "reference" for run in results.evaluated),
        light=Markup(_variables(0)),
        dark=Markup(_variables(1)),
        embedded=Markup(_embedded(results, found, shown)),
        pair_data=Markup(_in_script(pair_data(results))),
        script=Markup(script),
        script_hash=Markup(script_hash),
        svg=Markup,
    )
