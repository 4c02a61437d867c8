"""Tables in Markdown files that are generated, never typed."""

from __future__ import annotations

from pathlib import Path

from chronocore.errors import ConfigurationError

__all__ = ["replace_table"]


def replace_table(path: Path, name: str, table: str) -> None:
    """Replace what stands between the markers ``name`` and ``end of name`` of a Markdown file.

    Raises
    ------
    ConfigurationError
        The file has no markers.
    """
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, first, rest = path.read_text(encoding="utf-8").partition(start)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ConfigurationError(f"{path} has no lines {start!r} and {end!r}")
    path.write_text(f"{before}{start}\n\n{table}\n\n{end}{after}", encoding="utf-8")
