"""Made-up survey files in the structure of the real ones, with the truth beside them.

``population`` draws respondents of known distributions, ``layouts`` lays them out as the
documentation of each survey describes its file, ``writing`` writes the formats, and ``truth``
counts the respondents slowly, without ever looking at a file.
"""
