"""What was measured, as a table, as JSON and as pictures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmark.growth import Size
from benchmark.measure import FLOOR, Figure, Timing


@dataclass(frozen=True)
class Report:
    rounds: int
    timings: list[Timing]
    figures: list[Figure] = field(default_factory=list)
    growth: list[Size] = field(default_factory=list)

    @property
    def missed(self) -> list[str]:
        """The targets that were not reached, in words."""
        return [
            *(
                f"{one.work}, {one.who}: {one.ratio or 0:.1f}x instead of {one.target:g}x"
                for one in self.timings
                if one.missed
            ),
            *(
                f"{one.work}, {one.who}: {one.value:.3g} {one.unit} instead of {one.most:g}"
                for one in self.figures
                if one.missed
            ),
        ]

    def markdown(self) -> str:
        """Tables that can be read as they are, and shown by a README."""
        parts = [_headline(self.rounds), _timings(self.timings)]
        if self.figures:
            parts.append(_figures(self.figures))
        if self.growth:
            parts.append(_growth(self.growth))
        return "\n\n".join(parts)

    def write_json(self, file: Path) -> None:
        document = {
            "date": date.today().isoformat(),
            "machine": _machine(),
            "rounds": self.rounds,
            "timings": [one._asdict() for one in self.timings],
            "figures": [one._asdict() for one in self.figures],
            "growth": [one._asdict() for one in self.growth],
        }
        file.write_text(json.dumps(document, indent=1) + "\n")

    def plot(self, file: Path) -> None:
        """Draw the ratios beside their targets, and the growth if it was measured."""
        from matplotlib.figure import Figure as Drawing

        shown = [one for one in self.timings if one.ratio and not one.who.startswith(FLOOR)]
        drawing = Drawing(figsize=(10, 2 + 0.25 * len(shown)), layout="constrained")
        ratios, *rest = drawing.subplots(1, 2 if self.growth else 1, squeeze=False)[0]
        rows = range(len(shown), 0, -1)
        ratios.barh(rows, [one.ratio for one in shown], color="#4477aa")
        ratios.plot(
            [one.target or float("nan") for one in shown], rows, "k|", markersize=10, label="target"
        )
        ratios.set_yticks(rows, [f"{one.work}: {one.who}" for one in shown], fontsize=7)
        ratios.set_xscale("log")
        ratios.set_xlabel("times faster than inspect")
        ratios.legend()
        for axes in rest:
            entries = [one.entries for one in self.growth]
            for name in ("build_us", "read_us", "read_us_99"):
                values = [getattr(one, name) for one in self.growth]
                axes.loglog(entries, values, marker="o", label=_GROWTH[name])
            axes.set_xlabel("entries in the index")
            axes.set_ylabel("us")
            axes.legend()
        drawing.savefig(file, dpi=120)


_GROWTH = {
    "build_us": "build, an entry",
    "read_us": "read, median",
    "read_us_99": "read, 99 of 100",
}


def _machine() -> str:
    processor = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = next(iter(models), processor)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0
    return (
        f"{os.cpu_count()} cores ({processor}; load {load:.1f}), Python "
        f"{platform.python_version()}, inspect_ai {version('inspect_ai')}"
    )


def _headline(rounds: int) -> str:
    return f"Medians of {rounds} interleaved rounds on {_machine()}, {date.today().isoformat()}."


def _timings(timings: Sequence[Timing]) -> str:
    rows = [
        (
            one.work if place == 0 or timings[place - 1].work != one.work else "",
            one.who,
            _number(one.ms),
            "" if one.ratio is None else f"{_number(one.ratio)}x",
            "" if one.target is None else f"{one.target:g}x" + (" MISSED" if one.missed else ""),
        )
        for place, one in enumerate(timings)
    ]
    return _table(("work", "by", "ms", "faster than inspect", "target"), rows)


def _figures(figures: Sequence[Figure]) -> str:
    rows = [
        (
            one.work,
            one.who,
            f"{_number(one.value)} {one.unit}",
            "" if one.most is None else f"{one.most:g}" + (" MISSED" if one.missed else ""),
        )
        for one in figures
    ]
    return _table(("what", "by", "measured", "at most"), rows)


def _growth(growth: Sequence[Size]) -> str:
    head = (
        "entries in one index",
        "build, us an entry",
        "peak MB",
        "a read, us",
        "99 of 100, us",
        "bytes an entry",
    )
    return _table(head, [(f"{one.entries:,}", *map(_number, one[1:])) for one in growth])


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([line(head), rule, *map(line, rows)])
