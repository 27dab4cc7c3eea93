"""Text for people: aligned tables, counts, sizes and ages. Whatever comes from a log is escaped."""

from __future__ import annotations

import shutil
from itertools import chain, islice
from typing import TYPE_CHECKING

from evalindex.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SURVEYED = 1_000  # rows


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Bytes in units of 1,024."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(seconds: float) -> str:
    """The largest unit that gives at least 1."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()
) -> Iterator[str]:
    """Lines of columns as wide as their longest cell; cells and lines are cut to fit a terminal.

    `right` are the columns to align at their right. Of very many rows the first tell the widths.
    """
    width = shutil.get_terminal_size((10_000, 24)).columns
    aligned = frozenset(right)
    cells = ([_cut(printable(cell), max(20, width // 3)) for cell in row] for row in rows)
    first = [[printable(cell) for cell in header], *islice(cells, _SURVEYED)]
    widths = [max(len(row[column]) for row in first) for column in range(len(header))]
    for row in chain(first, cells):
        line = "  ".join(
            cell.rjust(widths[n]) if n in aligned else cell.ljust(widths[n])
            for n, cell in enumerate(row)
        )
        yield _cut(line.rstrip(), width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
