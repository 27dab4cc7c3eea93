"""One index from a thousand to millions of entries: build and look-ups stay what they were.

The logs are one log under many names, so that they cost no room; each name is a log to the index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmark.data import Case
from benchmark.measure import PEAK

_PROGRAM = f"""{PEAK}
import random, sys, time
import evalindex
root, index, samples = sys.argv[1], sys.argv[2], int(sys.argv[3])
started = time.perf_counter()
report = evalindex.build(root, index, summaries=False)
took = time.perf_counter() - started
print(1e6 * took / (report.indexed * samples))
print(peak())
rng = random.Random(7)
times = []
with evalindex.open(index) as opened:
    for turn in range(3_000):
        log, id = f"{{root}}/{{rng.randrange(report.indexed):06}}.eval", rng.randint(1, samples)
        started = time.perf_counter()
        opened.read(log, id, as_="bytes")
        times.append(1e6 * (time.perf_counter() - started))
times = sorted(times[1_000:])
print(times[len(times) // 2])
print(times[int(0.99 * len(times))])
"""


class Size(NamedTuple):
    """An index of so many entries: microseconds an entry to build it and its peak of memory in MB,
    microseconds of a read of one sample of any of its logs (median, and 99 of 100 are faster), and
    bytes of the file an entry."""

    entries: int
    build_us: float
    peak_mb: float
    read_us: float
    read_us_99: float
    bytes: float


def grow(case: Case, most: int) -> list[Size]:
    """`case` is the log that is given many names."""
    found: list[Size] = []
    entries = case.samples
    with tempfile.TemporaryDirectory(dir=case.log.parent.parent) as scratch:
        root = Path(scratch) / "logs"
        root.mkdir()
        while entries <= most:
            for number in range(len(os.listdir(root)), entries // case.samples):
                os.link(case.log, root / f"{number:06}.eval")
            found.append(_size(root, Path(scratch) / "index.db", case, entries))
            entries = min(10 * entries, most) if entries < most else most + 1
    return found


def _size(root: Path, index_file: Path, case: Case, entries: int) -> Size:
    index_file.unlink(missing_ok=True)
    command = [sys.executable, "-c", _PROGRAM, str(root), str(index_file), str(case.samples)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    size = index_file.stat().st_size / entries
    build, peak, read, read_99 = map(float, done.stdout.split())
    return Size(entries, build, peak, read, read_99, size)
