"""Tables on a terminal."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chronocore.tables import SMALL_N, wide

__all__ = ["print_table"]


def print_table(name: str, table: pa.Table) -> None:
    """Print a table to stdout: estimates, with interval and n below them in a muted colour."""
    console = Console(highlight=False)
    layout = wide(name, table)
    one_n = all(len({c[2] for c in line if c[2]}) <= 1 for line in layout.cells)
    intervals = any(cell[1] for line in layout.cells for cell in line)
    grid = Table(
        title=f"{name}. {layout.spec.title}", title_justify="left", title_style="bold",
        caption=layout.spec.note, caption_justify="left",
    )  # fmt: skip
    for head in layout.header:
        grid.add_column(head)
    show_n = one_n and intervals
    if show_n:
        grid.add_column("n", justify="right")
    for head in layout.measures:
        grid.add_column(head, justify="right")
    previous: list[str] = []
    small = False
    for index, line in zip(layout.index, layout.cells, strict=True):
        # A label that repeats the line above is left blank, so that blocks stand out.
        shown = [
            "" if index[: i + 1] == previous[: i + 1] and i < len(index) - 1 else part
            for i, part in enumerate(index)
        ]
        previous = index
        small = small or any(cell[2].endswith("*") for cell in line)
        cells: list[Text] = []
        for estimate, interval, n in line:
            text = Text(estimate)
            below = " ".join(
                part
                for part in (interval, f"n={n}" if n and intervals and not one_n else "")
                if part
            )
            if below:
                text.append(f"\n{below}", style="dim")
            cells.append(text)
        n = next((cell[2] for cell in line if cell[2]), "")
        grid.add_row(*map(Text, shown), *([Text(n)] if show_n else []), *cells)
    if small:
        grid.caption = f"{layout.spec.note} * fewer than {SMALL_N} pairs."
    console.print(grid)
    console.print()
