"""Measure whether a language model knows how a society's attitudes changed.

The data flow, stage by stage: microdata (:mod:`chronocore.sources`) -> gold distributions
(:mod:`chronocore.gold`) -> temporal pairs (:mod:`chronocore.pairs`) -> prompts
(:mod:`chronocore.prompts`) -> predictions (:mod:`chronocore.predict`) -> scores
(:mod:`chronocore.scores`) -> tables (:mod:`chronocore.tables`) -> report
(:mod:`chronocore.report`). Whether answers can be trusted as a measurement is asked beside it:
:mod:`chronocore.validity`.
"""

from chronocore import validity
from chronocore.build import BuildResult, build
from chronocore.components import VarianceComponents, kendalls_w, variance_components
from chronocore.config import StudyConfig, load_config, preset_config
from chronocore.errors import (
    ChronocoreError,
    ConfigurationError,
    EngineError,
    InvalidInputError,
    MissingDependencyError,
    SourceError,
    StorageError,
    StudyError,
)
from chronocore.inference import BootstrapResult, bootstrap
from chronocore.metrics import (
    WeightedDistributions,
    direction_cosine,
    knowledge_filter,
    shift_class,
    wasserstein,
    weighted_distributions,
    weighted_distributions_many,
)
from chronocore.noise import SamplingNoise, sampling_noise
from chronocore.parsing import (
    ParsedChoice,
    ParsedDistribution,
    ParsedScore,
    parse_choice,
    parse_distribution,
    parse_score,
)
from chronocore.predict import PredictResult, export_run, predict
from chronocore.quickstart import QuickstartResult, quickstart
from chronocore.report import Finding, findings, report
from chronocore.schema import chronocore_version
from chronocore.score import ScoreResult, score, tables
from chronocore.store import Study
from chronocore.warmup import warmup

__version__ = chronocore_version()

__all__ = [
    "BootstrapResult",
    "BuildResult",
    "ChronocoreError",
    "ConfigurationError",
    "EngineError",
    "Finding",
    "InvalidInputError",
    "MissingDependencyError",
    "ParsedChoice",
    "ParsedDistribution",
    "ParsedScore",
    "PredictResult",
    "QuickstartResult",
    "SamplingNoise",
    "ScoreResult",
    "SourceError",
    "StorageError",
    "Study",
    "StudyConfig",
    "StudyError",
    "VarianceComponents",
    "WeightedDistributions",
    "__version__",
    "bootstrap",
    "build",
    "direction_cosine",
    "export_run",
    "findings",
    "kendalls_w",
    "knowledge_filter",
    "load_config",
    "parse_choice",
    "parse_distribution",
    "parse_score",
    "predict",
    "preset_config",
    "quickstart",
    "report",
    "sampling_noise",
    "score",
    "shift_class",
    "tables",
    "validity",
    "variance_components",
    "warmup",
    "wasserstein",
    "weighted_distributions",
    "weighted_distributions_many",
]
