"""Benchmarks: kernels beside their peers in one run, quoted as ratios of medians."""

from chronocore_bench.cases import CASES, Case
from chronocore_bench.run import BenchResult, run_bench

__all__ = ["CASES", "BenchResult", "Case", "run_bench"]
