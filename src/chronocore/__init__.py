"""Measure whether a language model knows how a society's attitudes changed.

The data flow, stage by stage: microdata (:mod:`chronocore.sources`) -> gold distributions
(:mod:`chronocore.gold`) -> temporal pairs (:mod:`chronocore.pairs`) -> prompts
(:mod:`chronocore.prompts`) -> predictions (:mod:`chronocore.predict`) -> scores
(:mod:`chronocore.scores`) -> tables (:mod:`chronocore.tables`) -> figures
(:mod:`chronocore.figures`) and report (:mod:`chronocore.report`). Whether answers can be trusted as
a measurement is asked beside it: :mod:`chronocore.validity`.
"""

from chronocore import validity
from chronocore.build import BuildResult, build
from chronocore.components import VarianceComponents, kendalls_w, variance_components
from chronocore.config import StudyConfig, load_config, preset_config
from chronocore.differences import Measure, PairedDifferences, paired_differences
from chronocore.errors import (
    ArgumentError,
    ChronocoreError,
    ConfigurationError,
    EngineError,
    InvalidInputError,
    MissingDependencyError,
    OutOfMemoryError,
    SourceError,
    StoppedError,
    StorageError,
    StudyError,
)
from chronocore.figures import FiguresResult, figures
from chronocore.inference import BootstrapResult, bootstrap
from chronocore.intervals import exact_share
from chronocore.metrics import (
    WeightedDistributions,
    direction_cosine,
    knowledge_filter,
    shift_class,
    wasserstein,
    weighted_distributions,
    weighted_distributions_many,
)
from chronocore.noise import (
    NoiseFloor,
    NoiseResult,
    SamplingNoise,
    false_discovery,
    noise,
    noise_floor,
    sampling_noise,
)
from chronocore.parsing import (
    ParsedChoice,
    ParsedDistribution,
    ParsedScore,
    parse_choice,
    parse_distribution,
    parse_score,
)
from chronocore.plan import Plan, plan
from chronocore.predict import PredictResult, predict
from chronocore.quickstart import QuickstartResult, quickstart
from chronocore.report import Finding, findings, report
from chronocore.runs import (
    CompactResult,
    RegisterResult,
    RunStatus,
    compact,
    export_run,
    register_runs,
    remove_run,
    status,
)
from chronocore.schema import chronocore_version
from chronocore.score import ScoreResult, score, tables
from chronocore.sources import Explanation, Microdata, explain, survey_microdata
from chronocore.store import Study
from chronocore.survey_design import (
    DesignMean,
    DesignShares,
    design_mean,
    design_shares,
    replicate_mean,
)
from chronocore.sweep import SweepResult, sweep
from chronocore.warmup import warmup

__version__ = chronocore_version()

__all__ = [
    "ArgumentError",
    "BootstrapResult",
    "BuildResult",
    "ChronocoreError",
    "CompactResult",
    "ConfigurationError",
    "DesignMean",
    "DesignShares",
    "EngineError",
    "Explanation",
    "FiguresResult",
    "Finding",
    "InvalidInputError",
    "Measure",
    "Microdata",
    "MissingDependencyError",
    "NoiseFloor",
    "NoiseResult",
    "OutOfMemoryError",
    "PairedDifferences",
    "ParsedChoice",
    "ParsedDistribution",
    "ParsedScore",
    "Plan",
    "PredictResult",
    "QuickstartResult",
    "RegisterResult",
    "RunStatus",
    "SamplingNoise",
    "ScoreResult",
    "SourceError",
    "StoppedError",
    "StorageError",
    "Study",
    "StudyConfig",
    "StudyError",
    "SweepResult",
    "VarianceComponents",
    "WeightedDistributions",
    "__version__",
    "bootstrap",
    "build",
    "compact",
    "design_mean",
    "design_shares",
    "direction_cosine",
    "exact_share",
    "explain",
    "export_run",
    "false_discovery",
    "figures",
    "findings",
    "kendalls_w",
    "knowledge_filter",
    "load_config",
    "noise",
    "noise_floor",
    "paired_differences",
    "parse_choice",
    "parse_distribution",
    "parse_score",
    "plan",
    "predict",
    "preset_config",
    "quickstart",
    "register_runs",
    "remove_run",
    "replicate_mean",
    "report",
    "sampling_noise",
    "score",
    "shift_class",
    "status",
    "survey_microdata",
    "sweep",
    "tables",
    "validity",
    "variance_components",
    "warmup",
    "wasserstein",
    "weighted_distributions",
    "weighted_distributions_many",
]
