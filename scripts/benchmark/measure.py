"""Routes measured in turn, and figures that are no times."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmark.data import Case

#: Begins the name of each route that is inspect's own, and of each that checks nothing.
INSPECT, FLOOR = "inspect", "floor"


class Route(NamedTuple):
    """One way to do a piece of work.

    `run` gives something for each sample that it found, so that nobody is fast by finding less
    than the first route of its work. It is run `repeat` times a round and timed as one of them;
    what takes very long is done `once`. `target` is how many times faster than the best of
    inspect's routes it should be.
    """

    work: str
    who: str
    run: Callable[[], Sequence[object]]
    target: float | None = None
    repeat: int = 1
    once: bool = False


class Timing(NamedTuple):
    """The median of a route in ms, and how many times faster than inspect's best it is (None for
    inspect's own, and where inspect has no route)."""

    work: str
    who: str
    ms: float
    ratio: float | None
    target: float | None

    @property
    def missed(self) -> bool:
        return self.target is not None and (self.ratio or 0) < self.target


class Figure(NamedTuple):
    """Something measured that is no ratio; `most` is the target, what it may be at most."""

    work: str
    who: str
    value: float
    unit: str
    most: float | None = None

    @property
    def missed(self) -> bool:
        return self.most is not None and self.value > self.most


def measure(routes: Sequence[Route], rounds: int) -> list[Timing]:
    """Every route once a round, in turn, after a round to warm up."""
    times: dict[Route, list[float]] = {route: [] for route in routes}
    found: dict[str, int] = {}
    for round in range(rounds + 1):
        gc.collect()
        gc.freeze()  # with inspect's modules in it a collection takes longer than most routes
        for route in routes:
            if route.once and round != 1:
                continue
            gc.collect()  # what the route before has left is not this one's to clear away
            started = time.perf_counter()
            for _ in range(route.repeat):
                answer = route.run()
            took = 1000 * (time.perf_counter() - started) / route.repeat
            if len(answer) != found.setdefault(route.work, len(answer)) or not answer:
                raise AssertionError(f"{route.who} found {len(answer)} of {found} in {route.work}")
            del answer
            if round:
                times[route].append(took)
    medians = {route: statistics.median(all) for route, all in times.items()}
    best: dict[str, float] = {}
    for route, ms in medians.items():
        if route.who.startswith(INSPECT):
            best[route.work] = min(ms, best.get(route.work, ms))
    return [
        Timing(
            route.work,
            route.who,
            ms,
            None
            if route.who.startswith(INSPECT) or route.work not in best
            else best[route.work] / ms,
            route.target,
        )
        for route, ms in medians.items()
    ]


# Whole processes


PEAK = """
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
"""


def code(text: str, case: Case) -> list[str]:
    """The command that runs a program about a log in a Python of its own."""
    values = {"log": str(case.log), "index": str(case.index_file), "ids": case.ids}
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    return [sys.executable, "-c", "\n".join([*lines, PEAK, text])]


def process(case: Case, who: str, command: list[str], target: float | None = None) -> Route:
    def run() -> Sequence[object]:
        subprocess.run(command, check=True)
        return case.ids

    return Route(f"{case.work}, whole process", who, run, target)


def told(command: list[str]) -> float:
    """The number that a program prints."""
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
