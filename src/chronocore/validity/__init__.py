"""Whether a model's answers can be trusted as a measurement.

The stages: a protocol (:mod:`~chronocore.validity.protocol`) -> the design, every prompt and its
repetitions (:mod:`~chronocore.validity.design`) -> answers (:mod:`~chronocore.validity.answers`) ->
seed, prompt and culture components (:mod:`~chronocore.validity.components`, and for answers that
are distributions :mod:`~chronocore.validity.distributions`) -> positions on the cultural map, which
is fitted on the means of countries (:mod:`~chronocore.validity.country_means`,
:mod:`~chronocore.validity.cultural_map`, :mod:`~chronocore.validity.positions`) -> tables and
figures.
"""

from chronocore.validity.answers import RunResult, load_answers, load_runs, run
from chronocore.validity.components import (
    AnswerGrid,
    ComponentsResult,
    answer_grid,
    components,
)
from chronocore.validity.country_means import (
    CountryMeans,
    country_means,
    map_microdata,
    survey_means,
)
from chronocore.validity.country_tables import read_country_table, write_country_table
from chronocore.validity.cultural_map import (
    CulturalMap,
    Ellipse,
    ellipse,
    fit_map,
    varimax,
)
from chronocore.validity.design import DesignResult, design_table, prompts
from chronocore.validity.distributions import (
    distribution_components,
    frechet_deviation,
    study_distributions,
)
from chronocore.validity.positions import map_table, positions_over_waves, study_change
from chronocore.validity.protocol import Protocol, ScoreItem, load_protocol
from chronocore.validity.score import (
    MapResult,
    ValidityScore,
    load_country_means,
    map_items,
    map_models,
    score,
    tables,
)

__all__ = [
    "AnswerGrid",
    "ComponentsResult",
    "CountryMeans",
    "CulturalMap",
    "DesignResult",
    "Ellipse",
    "MapResult",
    "Protocol",
    "RunResult",
    "ScoreItem",
    "ValidityScore",
    "answer_grid",
    "components",
    "country_means",
    "design_table",
    "distribution_components",
    "ellipse",
    "fit_map",
    "frechet_deviation",
    "load_answers",
    "load_country_means",
    "load_protocol",
    "load_runs",
    "map_items",
    "map_microdata",
    "map_models",
    "map_table",
    "positions_over_waves",
    "prompts",
    "read_country_table",
    "run",
    "score",
    "study_change",
    "study_distributions",
    "survey_means",
    "tables",
    "varimax",
    "write_country_table",
]
