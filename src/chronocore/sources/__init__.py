"""Survey microdata: one module a kind of source, each giving :class:`Microdata`."""

from chronocore.sources.microdata import Item, Microdata
from chronocore.sources.open_sample import read_open_sample

__all__ = ["Item", "Microdata", "read_open_sample"]
