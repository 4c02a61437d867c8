"""What is timed: one table of cases, each with its peers.

A case makes its input once and offers our call and its peers', written the way a competent user
would write them. Every peer's answer is checked against ours before anything is timed. A slow
peer does a part of the work, and its time is scaled up to the whole.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.stats
from numpy.typing import NDArray

import chronocore as cc
from chronocore.config import Rules, ScoreSettings
from chronocore.engines.base import Option
from chronocore.gold import gold_table
from chronocore.scores import scores_table
from chronocore.sources import Item, Microdata
from chronocore.tables import Benchmark, Context, all_tables

__all__ = ["CASES", "Case", "Peer", "Prepared"]

Call = Callable[[], Any]
Floats = NDArray[np.float64]

#: Pairs a model keeps in the paper's study; the sample size of its tables.
PAIRS = 7_767


@dataclass(frozen=True, slots=True)
class Peer:
    """Another way to the same answer.

    Attributes
    ----------
    call : callable
    agrees : callable
        Takes our answer and the peer's.
    part : float
        Part of the work the call does.
    """

    call: Call
    agrees: Callable[[Any, Any], bool]
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case with its input made.

    Attributes
    ----------
    ours : callable
    peers : mapping of str to Peer
        By name and settings.
    missing : mapping of str to str
        Peers that are not installed, and how to get them.
    bytes_read : float
        Least bytes the work must read, for the share of the memory's bandwidth; 0 if none.
    words : float
        Random words the work must draw, for the share of the generator's ceiling; 0 if none.
    """

    ours: Call
    peers: Mapping[str, Peer]
    missing: Mapping[str, str] = field(default_factory=dict)
    bytes_read: float = 0.0
    words: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time; ``prepare(quick)`` makes its input, smaller if ``quick``."""

    name: str
    about: str
    prepare: Callable[[bool], Prepared]


def _close(ours: Any, peer: Any) -> bool:
    return bool(np.allclose(np.asarray(ours), np.asarray(peer), atol=1e-9, equal_nan=True))


def _within(share: float) -> Callable[[Any, Any], bool]:
    """Compare intervals that carry Monte-Carlo error: within a share of their width."""

    def agrees(ours: Any, peer: Any) -> bool:
        mine, theirs = np.asarray(ours, float), np.asarray(peer, float)
        width = np.abs(mine[1] - mine[0]).max()
        return bool(np.abs(mine - theirs).max() <= share * width)

    return agrees


def _missing(package: str) -> str:
    return f"{package} is not installed: pip install 'chronocore[bench]'"


# -- distributions -------------------------------------------------------------------------------


def _weighted(ordered: bool) -> Callable[[bool], Prepared]:
    def prepare(quick: bool) -> Prepared:
        rng = np.random.default_rng(1)
        n, n_variables, n_groups = (100_000, 40, 100) if quick else (443_488, 290, 300)
        sizes = rng.choice([2, 3, 4, 5, 10], n_variables)
        codes = np.stack([rng.integers(-1, size + 1, n, dtype=np.int8) for size in sizes])
        groups = rng.integers(0, n_groups, n)
        if ordered:
            groups = np.sort(groups)
        weights = rng.gamma(2.0, 0.5, n)
        options = [list(range(1, size + 1)) for size in sizes]
        few = 8
        frame = pl.DataFrame(
            {"group": groups, "weight": weights, **{f"v{j}": codes[j] for j in range(few)}}
        )

        def ours() -> list[Floats]:
            results = cc.weighted_distributions_many(
                list(codes), groups, weights, options, n_groups
            )
            return [result.probs for result in results]

        def numpy_bincount() -> list[Floats]:
            results = []
            for j in range(few):
                size = sizes[j]
                valid = codes[j] > 0
                cell = groups[valid] * size + (codes[j][valid] - 1)
                sums = np.bincount(cell, weights[valid], n_groups * size).reshape(-1, size)
                results.append(sums / sums.sum(axis=1, keepdims=True))
            return results

        def polars_group_by() -> list[Floats]:
            queries = [
                frame.lazy()
                .filter(pl.col(f"v{j}") > 0)
                .group_by("group", f"v{j}")
                .agg(pl.col("weight").sum())
                .sort("group", f"v{j}")
                for j in range(few)
            ]
            results = []
            for j, result in enumerate(pl.collect_all(queries)):
                sums = result["weight"].to_numpy().reshape(-1, sizes[j])
                results.append(sums / sums.sum(axis=1, keepdims=True))
            return results

        def duckdb_group_by() -> list[Floats]:
            results = []
            for j in range(few):
                query = (
                    f"select sum(weight) as s from frame where v{j} > 0 "
                    f'group by "group", v{j} order by "group", v{j}'
                )
                sums = np.array(connection.execute(query).fetchnumpy()["s"]).reshape(-1, sizes[j])
                results.append(sums / sums.sum(axis=1, keepdims=True))
            return results

        def agrees(mine: Any, theirs: Any) -> bool:
            return all(_close(a, b) for a, b in zip(mine, theirs, strict=False))

        part = few / n_variables
        peers = {
            "numpy.bincount": Peer(numpy_bincount, agrees, part),
            "polars group_by": Peer(polars_group_by, agrees, part),
        }
        missing = {}
        try:
            import duckdb
        except ImportError:
            missing["DuckDB"] = _missing("duckdb")
        else:
            connection = duckdb.connect()
            connection.register("frame", frame.to_arrow())
            peers["DuckDB group by"] = Peer(duckdb_group_by, agrees, part)
        return Prepared(ours, peers, missing, bytes_read=float(codes.nbytes + weights.nbytes))

    return prepare


def _gold(quick: bool) -> Prepared:
    """Read a cached survey file and make its gold distributions, with all that gold says."""
    rng = np.random.default_rng(2)
    n, n_variables, n_countries, n_waves = (60_000, 10, 20, 5) if quick else (443_488, 290, 60, 5)
    sizes = rng.choice([2, 3, 4, 5, 10], n_variables).tolist()
    wave = np.sort(rng.integers(0, n_waves, n)).astype(np.int16) + 3
    country = rng.integers(1, n_countries + 1, n)
    columns: dict[str, Any] = {
        "country": pa.array(country.astype(str)),
        "country_name": pa.nulls(n, pa.string()),
        "wave": pa.array(wave, pa.int16()),
        "year": pa.array(1980 + 5 * wave, pa.int16()),
        "weight": pa.array(rng.gamma(2.0, 0.5, n)),
    }
    items = []
    for j, size in enumerate(sizes):
        codes = rng.integers(0, size + 1, n, dtype=np.int8)
        columns[f"v{j}"] = pa.array(codes, mask=codes == 0)
        options = tuple(Option(code, str(code)) for code in range(1, size + 1))
        support = tuple(float(code) for code in range(1, size + 1))
        items.append(Item("wvs", f"v{j}", "made", "made", None, None, options, support))
    folder = tempfile.mkdtemp(prefix="chronocore-bench-")
    path = f"{folder}/cache.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd")
    some = max(n_variables // 15, 2)
    rules = Rules(min_respondents=1)

    def ours() -> pa.Table:
        data = Microdata("wvs", pq.read_table(path), tuple(items), "weight", "made")
        return gold_table([data], rules)[0]

    def polars_group_by() -> list[Floats]:
        frame = pl.scan_parquet(path)
        queries = [
            frame.filter(pl.col(f"v{j}").is_not_null())
            .group_by("country", "wave", f"v{j}")
            .agg(pl.col("weight").sum())
            .sort(pl.col("country").cast(pl.Int64), "wave", f"v{j}")
            .select("weight")
            for j in range(some)
        ]
        return [
            _shares(result["weight"].to_numpy(), sizes[j])
            for j, result in enumerate(pl.collect_all(queries))
        ]

    def duckdb_group_by() -> list[Floats]:
        results = []
        for j in range(some):
            query = (
                f"select sum(weight) as s from read_parquet('{path}') where v{j} is not null "
                f"group by country, wave, v{j} order by country::int, wave, v{j}"
            )
            sums = np.array(connection.execute(query).fetchnumpy()["s"])
            results.append(_shares(sums, sizes[j]))
        return results

    def agrees(mine: Any, theirs: Any) -> bool:
        # Gold is in the order of items, countries and years, as the peers' rows are.
        starts = mine["probs"].combine_chunks().flatten().to_numpy()
        first = 0
        for result in theirs:
            own = starts[first : first + result.size]
            first += result.size
            if not _close(own, result.reshape(-1)):
                return False
        return True

    part = some / n_variables
    peers = {"polars scan_parquet, group_by": Peer(polars_group_by, agrees, part)}
    missing = {}
    try:
        import duckdb
    except ImportError:
        missing["DuckDB"] = _missing("duckdb")
    else:
        connection = duckdb.connect()
        peers["DuckDB read_parquet, group by"] = Peer(duckdb_group_by, agrees, part)
    # The file goes with the case.
    weakref.finalize(ours, shutil.rmtree, folder, ignore_errors=True)
    return Prepared(ours, peers, missing)


def _shares(sums: Floats, size: int) -> Floats:
    table = sums.reshape(-1, size)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _wasserstein(quick: bool) -> Prepared:
    rng = np.random.default_rng(0)
    n, k = (100_000 if quick else 1_000_000), 10
    p, q = (rng.dirichlet(np.ones(k), n) for _ in range(2))
    positions = np.arange(k, dtype=float)
    few, many = 300, 20_000

    def numpy_chunks() -> Floats:
        out = np.empty(n)
        for start in range(0, n, 10_000):
            part = slice(start, start + 10_000)
            difference = np.cumsum(p[part] - q[part], axis=1)[:, :-1]
            out[part] = np.abs(difference).sum(axis=1) / (k - 1)
        return out

    def scipy_loop() -> Floats:
        distance = scipy.stats.wasserstein_distance
        return np.array([distance(positions, positions, p[i], q[i]) for i in range(few)]) / (k - 1)

    def pot_batched() -> Floats:
        values = np.repeat(positions[:, None], many, axis=1)
        cost = ot.wasserstein_1d(values, values, p[:many].T.copy(), q[:many].T.copy(), p=1)
        result: Floats = np.asarray(cost) / (k - 1)
        return result

    def agrees(mine: Any, theirs: Any) -> bool:
        return bool(np.allclose(mine[: len(theirs)], theirs, atol=1e-7))

    peers = {
        "numpy, chunks of 10,000": Peer(numpy_chunks, agrees),
        "scipy loop": Peer(scipy_loop, agrees, few / n),
    }
    missing = {}
    try:
        import ot
    except ImportError:
        missing["POT"] = _missing("POT")
    else:
        peers["POT, batched"] = Peer(pot_batched, agrees, many / n)
    return Prepared(lambda: cc.wasserstein(p, q), peers, missing, bytes_read=2.0 * p.nbytes)


# -- bootstraps ----------------------------------------------------------------------------------


def _scipy_interval(values: Any, statistic: Any, resamples: int) -> Any:
    interval = scipy.stats.bootstrap(
        (values,), statistic, n_resamples=resamples, batch=20, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return np.array([interval.low, interval.high])


def _sizes(quick: bool) -> tuple[int, int]:
    """Return the number of resamples and those a slow peer makes."""
    return (20_000, 500) if quick else (100_000, 2_000)


def _proportions(quick: bool) -> Prepared:
    b, few = _sizes(quick)
    counts = np.array([3_100, 2_400, 1_700, 567])
    codes = np.repeat(np.arange(4), counts)

    def ours() -> Any:
        return np.array(
            cc.bootstrap(codes, "proportion", n_resamples=b, seed=0).confidence_interval
        )

    def shares(sample: Any, axis: int) -> Any:
        return np.stack([(sample == j).mean(axis=axis) for j in range(4)])

    def numpy_multinomial() -> Any:
        drawn = np.random.default_rng(0).multinomial(PAIRS, counts / PAIRS, size=b) / PAIRS
        return np.percentile(drawn, [2.5, 97.5], axis=0)

    return Prepared(
        ours,
        {
            "scipy.stats.bootstrap, batch 20": Peer(
                lambda: _scipy_interval(codes, shares, few), _within(0.25), few / b
            ),
            "numpy multinomial": Peer(numpy_multinomial, _within(0.1)),
        },
        words=6.0 * b,
    )


def _median(quick: bool) -> Prepared:
    b, few = _sizes(quick)
    values = np.random.default_rng(2).gamma(2.0, size=PAIRS)

    def ours() -> Any:
        return np.array(cc.bootstrap(values, "median", n_resamples=b, seed=0).confidence_interval)

    peers = {
        "scipy.stats.bootstrap, batch 20": Peer(
            lambda: _scipy_interval(values, np.median, few), _within(0.25), few / b
        )
    }
    missing = {}
    try:
        from resample.bootstrap import confidence_interval
    except ImportError:
        missing["resample"] = _missing("resample")
    else:
        tiny = few // 4
        peers["resample, percentile"] = Peer(
            lambda: confidence_interval(
                np.median, values, ci_method="percentile", size=tiny, random_state=1
            ),
            _within(0.5),
            tiny / b,
        )
    return Prepared(ours, peers, missing, words=3.0 * b)


def _mean(quick: bool) -> Prepared:
    b, few = _sizes(quick)
    b //= 5
    values = np.random.default_rng(2).gamma(2.0, size=PAIRS)

    def ours() -> Any:
        result = cc.bootstrap(values, "mean", n_resamples=b, seed=0, method="resample")
        return np.array(result.confidence_interval)

    peers = {
        "scipy.stats.bootstrap, batch 20": Peer(
            lambda: _scipy_interval(values, np.mean, few), _within(0.25), few / b
        )
    }
    missing = {}
    try:
        from arch.bootstrap import IIDBootstrap
    except ImportError:
        missing["arch"] = _missing("arch")
    else:
        peers["arch IIDBootstrap"] = Peer(
            lambda: IIDBootstrap(values, seed=1).conf_int(np.mean, reps=few, method="percentile")[
                :, 0
            ],
            _within(0.25),
            few / b,
        )
    return Prepared(ours, peers, missing, words=0.5 * PAIRS * b)


def _ideal_mean(quick: bool) -> Prepared:
    b, few = _sizes(quick)
    values = np.random.default_rng(2).gamma(2.0, size=PAIRS)
    return Prepared(
        lambda: np.array(cc.bootstrap(values, "mean", n_resamples=math.inf).confidence_interval),
        {
            f"scipy.stats.bootstrap, batch 20, B = {b:,}": Peer(
                lambda: _scipy_interval(values, np.mean, few), _within(0.25), few / b
            )
        },
    )


def _columns(quick: bool) -> Prepared:
    b, few = _sizes(quick)
    b //= 10
    values = np.random.default_rng(3).normal(size=(PAIRS, 4))

    def ours() -> Any:
        return np.array(cc.bootstrap(values, "mean", n_resamples=b, seed=0).confidence_interval)

    def counts_times_columns() -> Any:
        rng = np.random.default_rng(0)
        means = np.empty((few, 4))
        for start in range(0, few, 100):
            counts = rng.multinomial(PAIRS, np.full(PAIRS, 1 / PAIRS), size=100)
            means[start : start + 100] = counts @ values / PAIRS
        return np.percentile(means, [2.5, 97.5], axis=0)

    return Prepared(
        ours,
        {"numpy, counts @ X": Peer(counts_times_columns, _within(0.25), few / b)},
        words=0.5 * PAIRS * b,
    )


def _noise(quick: bool) -> Prepared:
    rng = np.random.default_rng(4)
    n_pairs, repeats, n = (500 if quick else 10_360), 200, 500
    sizes = rng.choice(
        [2, 3, 4, 5, 6, 7, 10, 11], n_pairs, p=[0.12, 0.1, 0.3, 0.18, 0.05, 0.05, 0.15, 0.05]
    )
    probs = [rng.dirichlet(np.ones(size)) for size in sizes]
    few = n_pairs if quick else 1_000

    def numpy_vectorised() -> tuple[Floats, Floats]:
        generator = np.random.default_rng(1)
        median, p95 = np.empty(few), np.empty(few)
        for size in np.unique(sizes[:few]):
            rows = np.flatnonzero(sizes[:few] == size)
            matrix = np.stack([probs[i] for i in rows])
            for start in range(0, len(rows), 256):
                part = matrix[start : start + 256]
                drawn = generator.multinomial(n, part[:, None], size=(len(part), 2 * repeats))
                cumulative = np.cumsum(drawn, axis=2)[:, :, :-1]
                gaps = np.abs(cumulative[:, :repeats] - cumulative[:, repeats:]).sum(axis=2)
                quantiles = np.percentile(gaps / (n * (size - 1)), [50, 95], axis=1)
                place = rows[start : start + 256]
                median[place], p95[place] = quantiles
        return median, p95

    def agrees(mine: Any, theirs: Any) -> bool:
        return bool(abs(mine.median[:few].mean() / theirs[0].mean() - 1) < 0.03)

    return Prepared(
        lambda: cc.sampling_noise(probs, n=n, repeats=repeats, seed=0),
        {"numpy, vectorised": Peer(numpy_vectorised, agrees, few / n_pairs)},
        words=2.0 * repeats * float((sizes - 1).sum()) * 2,
    )


def _components(quick: bool) -> Prepared:
    rng = np.random.default_rng(5)
    n_models, n_items = (50, 200) if quick else (200, 500)
    seeds = rng.normal(size=(n_models, n_items, 10))
    variants = rng.normal(size=(n_models, n_items, 30))
    seeds[rng.random(seeds.shape) < 0.1] = np.nan
    variants[rng.random(variants.shape) < 0.1] = np.nan

    def ours() -> Any:
        return cc.variance_components(seeds, variants).nsr

    def nanstd() -> Any:
        seed = np.nanstd(seeds, axis=2, ddof=1)
        prompt = np.nanstd(variants, axis=2, ddof=1)
        culture = np.nanstd(np.nanmean(variants, axis=2), axis=0, ddof=1)
        return (seed + prompt) / culture

    def by_hand() -> Any:
        def deviation(values: Floats) -> Floats:
            valid = ~np.isnan(values)
            filled = np.where(valid, values, 0.0)
            count = valid.sum(axis=-1)
            mean = filled.sum(axis=-1) / count
            square = np.where(valid, (filled - mean[..., None]) ** 2, 0.0).sum(axis=-1)
            result: Floats = np.sqrt(square / (count - 1))
            return result

        culture = np.nanmean(variants, axis=2).std(axis=0, ddof=1)
        return (deviation(seeds) + deviation(variants)) / culture

    return Prepared(
        ours,
        {"numpy nanstd": Peer(nanstd, _close), "numpy by hand": Peer(by_hand, _close)},
        bytes_read=float(seeds.nbytes + variants.nbytes),
    )


def _study(quick: bool) -> Prepared:
    # Imported here: the other cases need no tables.
    from chronocore_bench import study

    n_pairs, n_models = (1_500, 2) if quick else (10_360, 6)
    benchmark = study.synthetic_benchmark(n_pairs)
    models = study.MODELS[:n_models]
    evaluations, data = study.evaluate(benchmark, models)
    frame = pl.DataFrame(scores_table(data[0], evaluations[0].scored)).filter("retained")

    def ours() -> Any:
        columns = Benchmark(benchmark.pairs, benchmark.gold, benchmark.items)
        return all_tables(Context(columns, evaluations, ScoreSettings()))

    cells = sum(len(table) - table["low"].null_count for table in ours().values())
    return Prepared(
        ours,
        {
            "polars and scipy.stats.bootstrap, batch 100": Peer(
                lambda: study.polars_and_scipy(frame, 1_000),
                lambda mine, theirs: study.agrees_with(mine, models[0], theirs),
                18 / cells,
            )
        },
    )


CASES: tuple[Case, ...] = (
    Case("weighted_sorted", "443,488 x 290 answers, 300 groups in order", _weighted(True)),
    Case("weighted_unsorted", "the same, groups in any order", _weighted(False)),
    Case("gold", "Parquet file of 443,488 x 290 answers to 87,000 gold distributions", _gold),
    Case("wasserstein", "1,000,000 pairs, K = 10", _wasserstein),
    Case("proportions", "4 classes with interval, n = 7,767, B = 100,000", _proportions),
    Case("median", "median with interval, n = 7,767, B = 100,000", _median),
    Case("mean", "mean by index resampling, n = 7,767, B = 20,000", _mean),
    Case("ideal_mean", "mean with the ideal bootstrap, n = 7,767", _ideal_mean),
    Case("columns", "4 columns sharing each resample, n = 7,767, B = 10,000", _columns),
    Case("sampling_noise", "10,360 distributions x 200 x 2 multinomials, n = 500", _noise),
    Case("variance_components", "200 x 500 x (10 + 30) answers", _components),
    Case("study", "all tables of six models on 10,360 pairs, B = 1,000", _study),
)
