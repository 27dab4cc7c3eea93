"""Text for people: aligned tables, counts, sizes and ages. Whatever comes from a log is escaped."""

from __future__ import annotations

import shutil
from itertools import chain, islice
from typing import TYPE_CHECKING

from evalindex.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SURVEYED = 1_000  # rows
_LONGEST, _NARROWEST = 200, 6  # characters of a cell


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
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    paths: Iterable[int] = (),
) -> Iterator[str]:
    """Lines of columns as wide as their longest cell, the widest cut so that all fit a terminal.

    `right` are the columns to align at their right; of `paths` the end is kept. Of very many rows
    the first tell the widths.
    """
    aligned, ends = frozenset(right), frozenset(paths)
    cells = ([_cut(printable(cell), _LONGEST) for cell in row] for row in rows)
    first = [list(header), *islice(cells, _SURVEYED)]
    widths = [max(len(row[column]) for row in first) for column in range(len(header))]
    room = shutil.get_terminal_size((_LONGEST * len(header), 24)).columns - 2 * (len(header) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = max(widths)
        widths[widths.index(widest)] = max(_NARROWEST, widest - (sum(widths) - room), widest - 8)
    for row in chain(first, cells):
        parts = [
            _cut(cell[::-1], widths[n])[::-1] if n in ends else _cut(cell, widths[n])
            for n, cell in enumerate(row)
        ]
        parts = [
            part.rjust(widths[n]) if n in aligned else part.ljust(widths[n])
            for n, part in enumerate(parts)
        ]
        yield _cut("  ".join(parts).rstrip(), room + 2 * (len(header) - 1))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
