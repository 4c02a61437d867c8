"""Survey microdata: one module a kind of source, each giving :class:`Microdata`."""

from chronocore.sources.explanation import Explanation, explain
from chronocore.sources.join import join_sources
from chronocore.sources.microdata import Item, Microdata
from chronocore.sources.open_sample import read_open_sample
from chronocore.sources.survey import read_survey, survey_microdata

__all__ = [
    "Explanation",
    "Item",
    "Microdata",
    "explain",
    "join_sources",
    "read_open_sample",
    "read_survey",
    "survey_microdata",
]
