"""Tables on a terminal."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chronocore.tables import TABLES, Comparison, WideTable, page, remarks, wide
from chronocore.tables.published import (
    NOT_COMPARED_TITLE,
    TEXT_TITLE,
    comparison_lines,
    left_out,
)
from chronocore.tables.published_text import text_lines

__all__ = ["print_comparison", "print_table"]

Line = tuple[list[str], list[tuple[str, str, str]]]


def print_table(name: str, table: pa.Table, *, intervals: bool = False) -> None:
    """Print a table to stdout, in the paper's layout or with interval and n below each estimate.

    With intervals, each run is a section of its own under its label. A table that is wider than
    the terminal is split by measure, so that no number is ever cut.
    """
    console = Console(highlight=False)
    spec = TABLES[name]
    console.print(Text(f"{name}. {spec.title}", style="bold"))
    if not len(table):
        said = " ".join([f"No rows; needs {spec.needs or 'scored pairs'}.", *remarks(table)])
        console.print(Text(said, style="dim"))
        console.print()
        return
    layout = wide(name, table) if intervals else page(name, table)
    labelled = intervals and bool(layout.header) and layout.header[0] == "run"
    sections: dict[str, list[Line]] = {}
    for index, cells in zip(layout.index, layout.cells, strict=True):
        label, rest = (index[0], index[1:]) if labelled else ("", index)
        sections.setdefault(label, []).append((rest, cells))
    header = layout.header[1:] if labelled else layout.header
    for label, lines in sections.items():
        if label:
            console.print(Text(label, style="italic"))
        for part in _parts(console, layout, header, lines):
            console.print(part)
    console.print(Text(layout.caption, style="dim"))
    console.print()


def print_comparison(comparison: Comparison) -> None:
    """Print the paper's values beside a study's own, a table each."""
    console = Console(highlight=False)
    style = "dim" if comparison.same_benchmark else "bold yellow"
    console.print(Text(comparison.note, style=style))
    if left_out(comparison):
        console.print(Text(left_out(comparison), style="dim"))
    console.print()
    for name in dict.fromkeys(comparison.rows["table"].to_pylist()):
        header, lines = comparison_lines(comparison, name)
        if not lines:
            continue
        console.print(Text(f"{name}. {TABLES[name].title}, beside the paper", style="bold"))
        grid = Table(show_edge=False, pad_edge=False)
        for column, head in enumerate(header):
            right = column >= len(header) - 4
            # Names wrap where the terminal is narrow, so that no heading or number is cut.
            grid.add_column(
                head, justify="right" if right else "left", no_wrap=right, overflow="fold"
            )
        for line in lines:
            grid.add_row(*map(Text, line))
        console.print(grid)
        console.print()
    _print_text(console, comparison)


def _print_text(console: Console, comparison: Comparison) -> None:
    """Print the values of the paper's running text, and those that have no counterpart."""
    header, lines = text_lines(comparison.text.to_pylist())
    left = [[row["section"], row["quote"], row["why"]] for row in comparison.not_compared]
    for title, heads, texts in (
        (TEXT_TITLE, header, lines), (NOT_COMPARED_TITLE, ["section", "quote", "why"], left)
    ):  # fmt: skip
        if not texts:
            continue
        console.print(Text(title, style="bold"))
        grid = Table(show_edge=False, pad_edge=False)
        for head in heads:
            right = head in ("paper", "study", "difference")
            grid.add_column(head, justify="right" if right else "left", no_wrap=right)
        for line in texts:
            grid.add_row(*map(Text, line))
        console.print(grid)
        console.print()


def _parts(
    console: Console, layout: WideTable, header: list[str], lines: list[Line]
) -> list[Table]:
    """Return the section as one table, or as several of fewer measures that fit the terminal."""
    for size in range(len(layout.measures), 0, -1):
        starts = range(0, len(layout.measures), size)
        grids = [_grid(layout, header, lines, range(s, s + size)) for s in starts]
        # Measured without the terminal's bound, which would squeeze the columns first.
        unbound = console.options.update(max_width=10_000)
        widest = max(grid.__rich_measure__(console, unbound).maximum for grid in grids)
        if widest <= console.width:
            return grids
        if size == 1:
            # Names wrap, so that no number is cut.
            for grid in grids:
                for column in grid.columns[: len(header)]:
                    column.no_wrap, column.overflow = False, "fold"
            return grids
    return []


def _grid(layout: WideTable, header: list[str], lines: list[Line], measures: range) -> Table:
    shown = [j for j in measures if j < len(layout.measures)]
    one_n = all(len({c[2] for c in cells if c[2]}) <= 1 for _, cells in lines)
    intervals = not layout.plain
    grid = Table(show_edge=False, pad_edge=False)
    for head in header:
        grid.add_column(head, no_wrap=True)
    show_n = one_n and intervals
    if show_n:
        grid.add_column("n", justify="right", no_wrap=True)
    for j in shown:
        head = layout.measures[j].replace(" (", "\n(")
        if any(layout.over):
            # The outer heading stands above the first of its columns that this part shows.
            first = j == shown[0] or layout.over[j] != layout.over[j - 1]
            head = f"{layout.over[j] if first else ''}\n{head}"
        prose = layout.spec.across == ("items",)
        grid.add_column(head, justify="left" if prose else "right", no_wrap=not prose)
    previous: list[str] = []
    for index, cells in lines:
        # A key that repeats the line above is left blank, so that blocks stand out.
        keys = [
            "" if index[: i + 1] == previous[: i + 1] and i < len(index) - 1 else part
            for i, part in enumerate(index)
        ]
        previous = index
        texts: list[Text] = []
        for j in shown:
            estimate, interval, n = cells[j]
            text = Text(estimate)
            count = f"n={n}" if n and intervals and not one_n else ""
            for below in (interval.replace("] exact [", "]\nexact ["), count):
                if below:
                    text.append(f"\n{below}", style="dim")
            texts.append(text)
        n = next((cell[2] for cell in cells if cell[2]), "")
        grid.add_row(*map(Text, keys), *([Text(n)] if show_n else []), *texts)
    return grid
