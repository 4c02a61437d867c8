"""Tables about several runs of one model: against slow plain computations, and how they look."""

from __future__ import annotations

import json
import math
import re
import shutil
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from reference.evaluation import ATOL, apart, cosine, distance, exact, median

import chronocore as cc
from chronocore.engines import Answer, RunSettings
from chronocore.identity import derived_seed
from chronocore.predict import prompts_of
from chronocore.tables import TABLES, Context, Evaluation, format_table, page, wide
from chronocore.tables.breakdowns import _models
from chronocore.tables.elicitation import Asked

INSTRUCTIONS = ("default", "hundred_adults", "national")
SHIFTS = ("stable", "moderate", "strong", "very_strong")
HARD = r"<script>a|b_c & 50% of ${x}^2\ ~ #1</script>"


class Formula:
    """Answers with the surveys' own distributions, pulled to their mean and disturbed a little."""

    in_flight = 0

    def __init__(self, gold, model, pull, instruction="default", elicitation="verbalized"):
        self.settings = RunSettings(
            model=model, engine="formula", engine_version="1", instruction=instruction,
            elicitation=elicitation, temperature=0.0, top_p=1.0, max_tokens=120, seed=0,
        )  # fmt: skip
        self.notes: dict[str, str] = {}
        self.gold, self.pull = gold, pull

    def _distribution(self, request):
        points = self.gold[request.survey, request.variable, request.country]
        mean = np.mean(list(points.values()), axis=0)
        own = mean if request.year is None else np.array(points[request.year])
        # Every second repeat is the first one again.
        which = (request.prompt_id, str(request.repeat % 2))
        rng = np.random.default_rng(derived_seed(0, self.settings.model, *which))
        mixed = (1 - self.pull) * own + self.pull * mean
        return 0.85 * mixed + 0.15 * rng.dirichlet(np.ones(len(own))), rng

    def answers(self, requests):
        for request in requests:
            shares, rng = self._distribution(request)
            codes = [option.code for option in request.options]
            if request.kind == "modal":
                text = json.dumps({"answer": codes[int(rng.permutation(len(codes))[0])]})
                if rng.random() < 0.7:
                    text = json.dumps({"answer": codes[int(shares.argmax())]})
            else:
                percent = [round(100 * share) for share in shares]
                text = json.dumps(dict(zip(map(str, codes), percent, strict=True)))
            yield Answer(
                request.prompt_id, request.repeat,
                text="I cannot say." if rng.random() < 0.03 else text, finish_reason="stop",
            )  # fmt: skip

    def drain(self, seconds):
        pass

    def close(self):
        pass


@pytest.fixture(scope="module")
def several(built_study, tmp_path_factory):
    """A study with repeats, instructions, modal answers and sampling noise, scored."""
    path = tmp_path_factory.mktemp("several") / "study"
    shutil.copytree(built_study, path)
    study = cc.Study.open(path)
    gold = {}
    for row in study.gold().to_pylist():
        where = (row["survey"], row["variable"], row["country"])
        gold.setdefault(where, {})[row["year"]] = row["probs"]
    every = ("dated", "undated", "modal")
    cc.predict(study, Formula(gold, "alpha", 0.3), name="alpha", kinds=every, repeats=3)
    cc.predict(study, Formula(gold, "beta", 0.8), name=HARD, kinds=every)
    for instruction in INSTRUCTIONS[1:]:
        cc.predict(
            study, Formula(gold, "alpha", 0.3, instruction), name=f"alpha {instruction}",
            instruction=instruction,
        )  # fmt: skip
    cc.predict(study, "reference:persistence")
    cc.noise(study, repeats=50, floor_repeats=200)
    cc.noise(study, n="effective", repeats=50, floor_repeats=200)
    # All complete pairs: two topics then have enough of them for a ranking.
    cc.score(study, retain=1.0, resamples=60)
    return study


@pytest.fixture(scope="module")
def answers(several):
    """Valid answers by run label, then survey, variable, country, year, kind and repeat."""
    found = {}
    for run in several.runs().to_pylist():
        prompts = {
            row["prompt_id"]: (
                row["survey"], row["variable"], row["country"], row["year"], row["kind"]
            )
            for row in prompts_of(several, run["instruction"]).to_pylist()
        }  # fmt: skip
        found[run["label"]] = {
            (*prompts[row["prompt_id"]], row["repeat"]): (
                row["choice"] if prompts[row["prompt_id"]][4] == "modal" else exact(row["probs"])
            )
            for row in several.predictions(run["run_id"]).to_pylist()
            if row["status"] in ("ok", "recovered")
        }
    return found


@pytest.fixture(scope="module")
def supports(several):
    return {
        (row["survey"], row["variable"]): [option["position"] for option in row["options"]]
        for row in several.items().to_pylist()
    }


def question(pair):
    return pair["survey"], pair["variable"], pair["country"]


def of_pair(given, pair):
    """The three distributions of a pair, or None if one is missing."""
    where = question(pair)
    keys = [
        (*where, pair["year_old"], "dated", 0), (*where, pair["year_new"], "dated", 0),
        (*where, None, "undated", 0),
    ]  # fmt: skip
    return [given[key] for key in keys] if all(key in given for key in keys) else None


def cells(study, name, **where):
    rows = cc.tables(study, name)[name].to_pylist()
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def same(row, value, n):
    assert row["n"] == n, row
    if value is None:
        assert row["estimate"] is None, row
    else:
        assert row["estimate"] == pytest.approx(float(value), abs=1e-9), row
        if row["low"] is not None:
            assert row["low"] <= row["estimate"] + 1e-9 <= row["high"] + 2e-9, row


def test_repeats_equal_the_plain_computation(several, answers, supports):
    given = answers["alpha"]
    later = [key for key in given if key[5] > 0 and key[4] != "modal" and (*key[:5], 0) in given]
    equal = sum(apart(given[key], given[*key[:5], 0]) <= ATOL for key in later)
    apart_by = sum(distance(given[key], given[*key[:5], 0], supports[key[:2]]) for key in later)
    rows = {row["measure"]: row for row in cells(several, "repeats")}
    same(rows["identical"], Fraction(100 * equal, len(later)), len(later))
    same(rows["mean_distance"], apart_by / len(later), len(later))
    # Repeat 2 is repeat 0 again, repeat 1 is not: neither all nor none.
    assert 40 < rows["identical"]["estimate"] < 70


def test_instructions_equal_the_plain_computation(several, answers, supports):
    runs = {"default": answers["alpha"]}
    runs |= {name: answers[f"alpha {name}"] for name in INSTRUCTIONS[1:]}
    common = [
        pair for pair in several.pairs().to_pylist()
        if all(of_pair(given, pair) is not None for given in runs.values())
    ]  # fmt: skip
    classes = {name: [p for p in common if p["shift"] == name] for name in SHIFTS}
    classes |= {"all": common, "all_shifted": [p for p in common if p["shift"] != "stable"]}
    compared = 0
    for instruction, given in runs.items():
        for group, pairs in classes.items():
            apart_by, both, zero, ratios, cosines = [], 0, 0, [], []
            for pair in pairs:
                support = supports[pair["survey"], pair["variable"]]
                old, new, _ = of_pair(given, pair)
                base_old, base_new, _ = of_pair(runs["default"], pair)
                gold = exact(pair["gold_old"]), exact(pair["gold_new"])
                apart_by.append(
                    (distance(old, base_old, support) + distance(new, base_new, support)) / 2
                )
                d_m, d_h = distance(old, new, support), distance(*gold, support)
                both += all(
                    distance(a, b, support) <= Fraction(1, 10) + ATOL
                    for a, b in zip((old, new), gold, strict=True)
                )
                if d_m <= ATOL:
                    zero += 1
                    continue
                ratios.append(d_m / d_h if d_h else None)
                cosines.append(cosine(*gold, old, new))
            cosines = [value for value in cosines if value is not None]
            found = {
                row["measure"]: row
                for row in cells(several, "instructions", item=instruction, group=group)
            }
            n = len(pairs)
            same(found["mean_distance"], sum(apart_by) / n if n else None, n)
            same(found["both"], Fraction(100 * both, n) if n else None, n)
            compared += 2
            if group in ("stable", "all"):
                assert set(found) == {"mean_distance", "both"}
                continue
            same(found["zero_shift"], Fraction(100 * zero, n) if n else None, n)
            same(found["median_ratio"], median(ratios), len(ratios))
            same(found["median_cosine"], median(cosines), len(cosines))
            compared += 3
    assert compared == 3 * (6 * 2 + 4 * 3)
    assert all(row["estimate"] == 0 for row in cells(
        several, "instructions", item="default", measure="mean_distance", group="all"
    ))  # fmt: skip


@pytest.mark.parametrize("label", ["alpha", HARD])
def test_modal_answers_equal_the_plain_computation(several, answers, supports, label):
    given = answers[label]
    hits, codes = {}, {
        (row["survey"], row["variable"]): [option["code"] for option in row["options"]]
        for row in several.items().to_pylist()
    }  # fmt: skip
    for pair in several.pairs().to_pylist():
        where = question(pair)
        modes, clear = [], True
        for end in ("old", "new"):
            shares = exact(pair[f"gold_{end}"])
            first, second = sorted(shares, reverse=True)[:2]
            clear = clear and first - second >= Fraction(1, 10) - ATOL
            modes.append(codes[where[:2]][shares.index(first)])
        strong = pair["shift"] in ("strong", "very_strong")
        if not clear or not (pair["shift"] == "stable" or (strong and modes[0] != modes[1])):
            continue
        chosen = [given.get((*where, pair[f"year_{end}"], "modal", 0)) for end in ("old", "new")]
        if None in chosen:
            continue
        right = [a == b for a, b in zip(chosen, modes, strict=True)]
        if not any(right):
            continue
        made = of_pair(given, pair)
        ratio = None
        if made is not None:
            support = supports[where[:2]]
            d_h = distance(exact(pair["gold_old"]), exact(pair["gold_new"]), support)
            ratio = distance(made[0], made[1], support) / d_h if d_h else None
        hits.setdefault(pair["shift"], []).append((all(right), right[1], ratio))
    rows = {(r["group"], r["measure"]): r for r in cells(several, "t05", label=label, survey="all")}
    plus = hits.get("strong", []) + hits.get("very_strong", [])
    groups = {name: hits.get(name, []) for name in ("stable", "strong", "very_strong")}
    for group, own in (groups | {"strong_plus": plus}).items():
        both = Fraction(100 * sum(h[0] for h in own), len(own)) if own else None
        same(rows[group, "both_correct"], both, len(own))
    known = [h for h in plus if h[2] is not None]
    missed = sum(h[1] and h[2] < Fraction(1, 2) - ATOL for h in known)
    share = Fraction(100 * missed, len(known)) if known else None
    same(rows["strong_plus", "newer_correct_half_missed"], share, len(known))
    assert len(groups["stable"]) > 10
    assert plus


def test_differences_equal_the_plain_computation(several):
    runs = {row["label"]: row["run_id"] for row in several.runs().to_pylist()}
    models = ["alpha", "alpha hundred_adults", "alpha national", HARD]
    scores = {
        label: {r["pair_id"]: r for r in several.scores(runs[label]).to_pylist() if r["retained"]}
        for label in models
    }
    rows = cells(several, "differences")
    order = list(dict.fromkeys(r["label"] for r in rows if r["label"] is not None))
    assert {(r["label"], r["item"]) for r in rows if r["label"]} == set(
        combinations([*order, *(set(models) - set(order))], 2)
    )
    number = 0
    for row in rows:
        if row["label"] is None:
            continue
        both = scores[row["label"]].keys() & scores[row["item"]].keys()
        ids = [i for i in both if row["group"] in ("all", scores[row["label"]][i]["shift"])]
        assert row["n"] <= len(ids)
        assert (row["low"] is None) == (row["n"] < 20)
        first, second = ([scores[label][i] for i in ids] for label in (row["label"], row["item"]))
        if row["measure"] == "both":
            value = [Fraction(100 * sum(s["outcome"] == "both" for s in own), len(own))
                     for own in (first, second)]  # fmt: skip
        elif row["measure"] == "benefit_newer":
            value = [sum(Fraction(s["benefit_new"]) for s in own) * 100 / len(own)
                     for own in (first, second)]  # fmt: skip
        elif row["measure"] == "median_ratio":
            value = [
                median([Fraction(s["ratio"]) for s in own if s["d_m"] > ATOL])
                for own in (first, second)
            ]
        else:
            continue
        expected = None if None in value else float(value[0]) - float(value[1])
        if expected is not None:
            assert row["estimate"] == pytest.approx(expected, abs=1e-9), row
            number += 1
    assert number > 30
    shares = {"both", "separated", "zero_shift", "right_direction", "newest_default"}
    for row in rows:
        if row["label"] is not None:
            assert (row["unit"] == "pp") == (row["measure"] in shares)
            assert row["unit"] != "%"
    text = format_table("differences", cc.tables(several, "differences")["differences"], "md")
    assert "both (pp)" in text
    assert "(%)" not in text
    said = {row["measure"]: row for row in rows if row["label"] is None}
    wide_enough = sum(
        row["low"] is not None and row["high"] > row["low"] for row in rows if row["label"]
    )
    assert said["comparisons"]["estimate"] == wide_enough
    assert said["comparisons"]["n"] == len(set.union(*(set(own) for own in scores.values())))
    assert "Not compared: persistence (a reference, shown beside every run)." in text


def test_differences_are_pairwise_and_say_who_is_left_out(built_study, tmp_path, run_cli):
    path = tmp_path / "study"
    shutil.copytree(built_study, path)
    study = cc.Study.open(path)
    gold = {}
    for row in study.gold().to_pylist():
        where = (row["survey"], row["variable"], row["country"])
        gold.setdefault(where, {})[row["year"]] = row["probs"]
    for name in ("alpha", "beta"):
        cc.predict(study, Formula(gold, name, 0.5), name=name)
    cc.predict(study, Formula(gold, "some", 0.5), name="some", sample=8)
    cc.predict(study, Formula(gold, "one kind", 0.5), name="one kind", kinds=("dated",))
    cc.predict(study, "reference:uniform")
    cc.score(study, resamples=200)
    rows = cells(study, "differences")
    retained = {
        run["label"]: {r["pair_id"] for r in study.scores(run["run_id"]).to_pylist()
                       if r["retained"]}
        for run in study.runs().to_pylist() if run["label"] in ("alpha", "beta", "some")
    }  # fmt: skip
    assert 0 < len(retained["some"]) < 8 < len(retained["alpha"])
    for a, b in (("alpha", "beta"), ("alpha", "some"), ("beta", "some")):
        (row,) = [
            r for r in rows
            if (r["label"], r["item"], r["group"], r["measure"]) == (a, b, "all", "both")
        ]  # fmt: skip
        assert row["n"] == len(retained[a] & retained[b])
        assert (row["low"] is None) == (b == "some")
    done = run_cli("tables", path, "differences", "--intervals")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert f"some retains {len(retained['some'])} pairs and shares at most" in said
    assert "its differences have no interval" in said
    assert re.search(r"Not compared: one kind \([^)]+\)\.", said)
    assert "Not compared: uniform (a reference, shown beside every run)." in said
    # One run that can be compared is none to compare with.
    for name in ("beta", "some"):
        cc.remove_run(study, name)
    cc.score(study, resamples=50)
    done = run_cli("tables", path, "differences")
    said = " ".join(done.stdout.split())
    assert "needs at least two runs. Not compared: one kind" in said


def concordance(ranked):
    """Kendall's W with tie correction, one list of values a judge."""
    m, n = len(ranked), len(ranked[0])
    totals, ties = [Fraction(0)] * n, Fraction(0)
    for values in ranked:
        for index, value in enumerate(values):
            below = sum(other < value for other in values)
            equal = sum(other == value for other in values)
            totals[index] += below + Fraction(equal + 1, 2)
            # Each of t tied values adds t squared minus 1: together t cubed minus t.
            ties += equal**2 - 1
    mean = sum(totals) / n
    spread = sum((total - mean) ** 2 for total in totals)
    below_line = m**2 * (n**3 - n) - m * ties
    return None if below_line == 0 else 12 * spread / below_line


def test_agreement_and_ranges_equal_the_plain_computation(several):
    # The runs of one model under other instructions are no further models.
    models, compared = ("alpha", HARD), 0
    for name, dimension in (("topics", "topic"), ("regions", "region")):
        table = {}
        for row in cells(several, name):
            if row["label"] not in models:
                continue
            key = (row["survey"], row["item"], row["measure"], row["group"])
            table.setdefault(key, []).append(row["estimate"])
        for row in cells(several, f"{name}-range"):
            own = table[row["survey"], row["item"], row["measure"], row["group"]]
            own = [value for value in own if value is not None]
            assert row["n"] == len(own)
            value = {"mean": lambda v: math.fsum(v) / len(v), "lowest": min, "highest": max}
            expected = value[row["label"]](own) if own else None
            if expected is None:
                assert row["estimate"] is None
            else:
                assert row["estimate"] == pytest.approx(expected, abs=1e-9)
        for row in cells(several, "agreement", group=dimension):
            groups = [
                values for key, values in table.items()
                if key[:3] == (row["survey"], row["item"], row["measure"])
                and len(values) == len(models) and None not in values
            ]  # fmt: skip
            assert row["n"] == len(groups)
            expected = (
                concordance([list(judge) for judge in zip(*groups, strict=True)])
                if len(groups) > 1 else None
            )  # fmt: skip
            if expected is None:
                assert row["estimate"] is None, row
            else:
                assert row["estimate"] == pytest.approx(float(expected), abs=1e-9), row
                compared += 1
    assert compared > 0


def test_a_model_counts_once_and_the_table_says_by_which_run(several):
    said = "One run a model: alpha stands for alpha hundred_adults, alpha national as well."
    for name in ("topics-range", "topics-broad-range", "regions-range", "agreement"):
        table = cc.tables(several, name)[name]
        assert page(name, table).caption.count(said) == 1
        assert wide(name, table).caption.count(said) == 1
        assert said in format_table(name, table, "md")
    assert max(row["n"] for row in cells(several, "topics-range")) == 2
    assert said not in page("regions", cc.tables(several, "regions")["regions"]).caption
    text = cc.report(several, formats=()).read_text(encoding="utf-8")
    assert said in text
    drawn = cc.figures(several, ["fig13"], formats=())
    assert "the mean over 2 models (one run each)" in drawn.captions["fig13"]


def run_of(weights, instruction="default", elicitation="verbalized", greedy=True):
    return Asked((weights, ""), ("vllm", "1"), instruction, elicitation, greedy)


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ([run_of("m"), run_of("m")], ["0"]),
        ([run_of("m", "national"), run_of("m")], ["1"]),
        ([run_of("m", elicitation="sampled", greedy=False), run_of("m", greedy=False)], ["1"]),
        ([run_of("m", greedy=False), run_of("m")], ["1"]),
        ([run_of("m", "national"), run_of("m", elicitation="logprob")], ["1"]),
        ([run_of("m", "national"), run_of("k"), run_of("m", "hundred_adults")], ["0", "1"]),
        ([run_of("m"), None], ["0", "1"]),
    ],
)
def test_the_run_that_stands_for_a_model_is_the_one_nearest_to_the_paper(asked, chosen):
    runs = [Evaluation(str(i), f"label {i}", {}, None) for i in range(len(asked))]
    known = {str(i): one for i, one in enumerate(asked) if one is not None}
    context = Context(None, runs, None, asked=known)
    found, said = _models(context)
    assert found == chosen
    others = {run.label for run in runs if run.run_id not in chosen}
    named = [re.findall(r"label \d", one.split(" stands for ")[1]) for one in said]
    assert {label for labels in named for label in labels} == others


def test_noise_tables_equal_counts_over_the_pairs(several):
    shift = {row["pair_id"]: row["shift"] for row in several.pairs().to_pylist()}
    d_h = {row["pair_id"]: row["d_h"] for row in several.pairs().to_pylist()}
    assert several.noise_designs() == ["500", "effective"]
    for design in several.noise_designs():
        rows = several.noise(design).to_pylist()
        for group in (*SHIFTS, "all", "all_shifted"):
            own = [
                row for row in rows
                if group in ("all", shift[row["pair_id"]])
                or (group == "all_shifted" and shift[row["pair_id"]] != "stable")
            ]  # fmt: skip
            found = {r["measure"]: r for r in cells(several, "noise", item=design, group=group)}
            if not own:
                assert not found
                continue
            above = sum(d_h[row["pair_id"]] > row["noise_p95"] + 1e-12 for row in own)
            same(found["above_p95"], Fraction(100 * above, len(own)), len(own))
            same(found["p95"], median([row["noise_p95"] for row in own]), len(own))
            if group != "all":
                same(found["median"], median([row["noise_median"] for row in own]), len(own))
            if design == "effective":
                floor = {r["measure"]: r for r in cells(several, "noise-floor", group=group)}
                told = sum(row["detected"] for row in own)
                same(floor["detected"], Fraction(100 * told, len(own)), len(own))
                excess = [d_h[row["pair_id"]] - row["expected_shift"] for row in own]
                same(floor["excess_shift"], median(excess), len(own))


# -- how they look -----------------------------------------------------------------------------


def test_no_heading_is_a_key(several):
    for name, table in cc.tables(several).items():
        if not len(table):
            continue
        spec = TABLES[name]
        for layout in (page(name, table), wide(name, table)):
            heads = [*layout.header, *layout.measures, *layout.over]
            heads += [
                part for key in layout.index
                for head, part in zip(layout.header, key, strict=True)
                if head in ("human shift", "instruction", "prediction", "over models", "naming")
            ]  # fmt: skip
            assert not [head for head in heads if "_" in head], name
        assert "label" in spec.names or "over models" in layout.header


def test_a_run_called_like_a_key_keeps_its_name(several):
    table = cc.tables(several, "differences")["differences"]
    frame = pl.from_arrow(table).with_columns(
        pl.col("label", "item").replace(HARD, "older_only")
    )  # fmt: skip
    layout = page("differences", frame.to_arrow())
    assert "older_only" in {part for key in layout.index for part in key}


def test_what_is_said_of_the_whole_table_stands_below_it(several):
    table = cc.tables(several, "differences")["differences"]
    (number,) = (r["estimate"] for r in table.to_pylist() if r["measure"] == "comparisons")
    for layout in (page("differences", table), wide("differences", table)):
        assert f"{number:.0f} comparisons; the intervals reach" in layout.caption
        assert not {"comparisons", "critical value"} & set(layout.measures)


def test_ranges_are_not_marked_as_of_few_pairs(several):
    table = cc.tables(several, "topics-broad-range")["topics-broad-range"]
    layout = page("topics-broad-range", table)
    shown = [cell[0] for line in layout.cells for cell in line]
    assert shown
    assert not [text for text in shown if "*" in text]
    assert "fewer than 20 pairs" not in layout.caption
    assert layout.header[-1] == "over models"


def test_blank_lines_of_breakdowns_are_left_out(several):
    for name in ("topics", "regions", "agreement"):
        table = cc.tables(several, name)[name]
        layout = page(name, table)
        assert all(any(cell[0] != "–" for cell in line) for line in layout.cells)
        assert "lank lines are left out" in layout.caption or "Every line" in layout.caption


def test_labels_are_text_in_every_format(several):
    table = cc.tables(several, "t08")["t08"]
    latex = format_table("t08", table, "latex")
    assert (
        r"\textless{}script\textgreater{}a\textbar{}b\_c \& 50\% of "
        r"\$\{x\}\textasciicircum{}2\textbackslash{} \textasciitilde{} \#1"
    ) in latex
    markdown = format_table("t08", table, "md")
    assert "<script>" not in markdown
    assert r"&lt;script>a\|b_c &amp; 50% of ${x}^2\\ \~" in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    # A pipe parts cells unless a backslash stands before it.
    bars = {len(re.findall(r"(?:^|[^\\])\|", line)) for line in lines}
    assert len(bars) == 1


def test_a_label_cannot_end_a_line_of_latex(several):
    frame = pl.from_arrow(cc.tables(several, "t11")["t11"])
    for label in ("[1] model", "*model"):
        own = frame.with_columns(pl.col("label").replace("alpha", label)).to_arrow()
        text = format_table("t11", own, "latex")
        assert not [line for line in text.splitlines() if line.startswith(label[0])]
        assert label in text


def test_no_number_is_cut_in_a_narrow_terminal(several, run_cli):
    for name in ("differences", "instructions", "topics-range"):
        done = run_cli("tables", several.path, name, env={"COLUMNS": "60"})
        assert done.returncode == 0
        assert "…" not in done.stdout


def test_report_figures_and_sweep_know_every_wording(several, tmp_path):
    path = cc.report(several, tmp_path / "report.html", formats=())
    text = path.read_text()
    assert "alpha hundred_adults" in text
    assert HARD not in text
    found = cc.sweep(several, boundaries=["default"], tau=[0.1], retain=[0.75], resamples=20)
    assert found.cells == 4
    from chronocore.report.sections import sweep
    from chronocore.results import load_results

    said = sweep.section(load_results(several)).text
    factors = [int(text) for text in re.findall(r"(\d+) (?:runs|boundary|tol|filter|boot)", said)]
    assert len(factors) == 5
    assert math.prod(factors) == found.cells


def test_few_pairs_are_counted_where_there_is_no_interval(several):
    for name in ("noise", "noise-floor"):
        table = cc.tables(several, name)[name]
        few = [row["n"] for row in table.to_pylist() if row["n"] < 20]
        assert few
        text = format_table(name, table, "md", intervals=True)
        assert f"| {few[0]}* |" in text
        assert "fewer than 20 pairs" in text


def test_the_report_counts_the_comparisons_that_were_made(several):
    from chronocore.report.sections import comparisons
    from chronocore.results import load_results

    results = load_results(several)
    (number,) = (
        row["estimate"] for row in results.tables["differences"].to_pylist()
        if row["measure"] == "comparisons"
    )  # fmt: skip
    (sentence,) = comparisons.section(results).sentences
    assert f" of {number:,.0f} comparisons" in sentence.text
