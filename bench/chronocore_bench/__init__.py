"""Benchmarks: kernels beside their peers in one run, quoted as ratios of medians."""

from chronocore_bench.cases import CASES, Case
from chronocore_bench.run import BenchError, BenchResult, run_bench, write_table

__all__ = ["CASES", "BenchError", "BenchResult", "Case", "run_bench", "write_table"]
