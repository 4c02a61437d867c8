"""The benchmark runs, checks its peers and writes its table; how fast is not tested."""

from __future__ import annotations

import pytest

import chronocore as cc
from chronocore_bench import CASES, BenchError, run_bench, write_table
from chronocore_bench.cases import Case, Peer, Prepared


@pytest.fixture(scope="module")
def result():
    return run_bench(only="variance", quick=True)


def test_a_run_has_ratios_with_their_spread_and_the_machine(result):
    for row in result.rows:
        assert row.low <= row.ratio * 1.5
        assert row.ratio > 0
        assert "bandwidth" in row.roofline
    assert {"processor", "vectors", "threads", "numba", "numpy"} <= set(result.machine)
    assert any("ratio" in line for line in result.lines())


def test_the_table_is_written_between_its_markers(result, tmp_path):
    path = tmp_path / "README.md"
    path.write_text("above\n<!-- bench table -->\nold\n<!-- end of bench table -->\nbelow\n")
    write_table(result, path)
    text = path.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "old" not in text
    assert "numpy nanstd" in text
    path.write_text("nothing here")
    with pytest.raises(cc.ConfigurationError, match="no lines"):
        write_table(result, path)


CHECKED = ("weighted_sorted", "weighted_unsorted", "gold", "columns")


@pytest.mark.parametrize("name", CHECKED)
def test_peers_agree_with_ours(name):
    (case,) = (case for case in CASES if case.name == name)
    prepared = case.prepare(True)
    ours = prepared.ours()
    for peer_name, peer in prepared.peers.items():
        assert peer.agrees(ours, peer.call()), peer_name


def test_a_peer_with_another_answer_stops_the_run(monkeypatch):
    wrong = Case(
        "wrong", "",
        lambda quick: Prepared(lambda: 1.0, {"liar": Peer(lambda: 2.0, lambda a, b: a == b)}),
    )  # fmt: skip
    monkeypatch.setattr("chronocore_bench.run.CASES", (wrong,))
    with pytest.raises(BenchError, match="wrong: liar"):
        run_bench()
    with pytest.raises(cc.ConfigurationError, match="no case is called"):
        run_bench(only="nothing")


@pytest.mark.slow
def test_all_tables_of_a_study_of_the_papers_size_are_timed():
    from chronocore_bench.study import time_tables

    seconds, cells = time_tables(20, n_pairs=300)
    assert seconds > 0
    assert cells > 60


def test_the_overhead_of_predict_is_measured(built_study):
    from chronocore_bench.predict import time_overhead

    result = time_overhead(built_study, 8_000)
    assert result.answers == 21 * 387
    assert result.per_second == pytest.approx(result.answers / result.seconds)
    assert 0 < result.memory_tenth <= result.memory_peak
    assert 2 <= result.files <= 20
