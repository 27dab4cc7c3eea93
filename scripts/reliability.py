"""Look for wrong answers for as long as one likes, and write what was found to docs/reliability.md.

The machine of tests/prove plays the lives of logs, some machines at a time; the fuzzer feeds the
pure rooms; each check of each law is taken away.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evalindex.stores import local
from tests.prove.machine import Folder, Machine, Wrong
from tests.prove.mutations import MUTATIONS, ROOT

_PAGE = ROOT / "docs" / "reliability.md"
_TARGETS = ("directory", "member", "header", "summaries", "sample")
_AT_ONCE = 2_000  # steps of one machine
_SETTLED_NS = local.SETTLED_NS


class Row(NamedTuple):
    """What was tried, how often, and what came out."""

    what: str
    often: str
    outcome: str


def play(steps: int, seed: int) -> Counter[str] | str:
    """The steps that one machine took, or the story of what went wrong. Odd seeds have versions
    recorded at once, with a change only when the clock has moved on; even ones play too fast for
    that, and each read is proved by the directory's digest."""
    logging.getLogger("evalindex").setLevel(logging.CRITICAL)
    time.sleep = lambda _: None  # nothing gets better by waiting: there is one thread
    local.SETTLED_NS = -(10**9) if seed % 2 else _SETTLED_NS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(Path(scratch) / "logs", tick=bool(seed % 2))
        try:
            return Machine(seed, folder, folder.path / "evalindex.db").run(steps)
        except Wrong as error:
            return str(error)


def machines(steps: int, first_seed: int) -> Iterator[Row]:
    """Rows about the lives of logs, of so many steps together."""
    seeds = range(first_seed, first_seed + -(-steps // _AT_ONCE))
    total: Counter[str] = Counter()
    stories = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for played in pool.map(partial(play, _AT_ONCE), seeds):
            if isinstance(played, str):
                stories.append(played)
            else:
                total += played
    for story in stories:
        print(story, file=sys.stderr)
    reads = sum(total[kind] for kind in ("read bytes", "read dict", "read stream", "by uuid"))
    yield Row(
        "Lives of logs on a file system: written, run again, edited, cut, damaged, replaced",
        f"{sum(total.values()):,} steps, among them {total['build']:,} builds",
        f"{len(stories)} wrong",
    )
    yield Row(
        "Answers in them, compared with zipfile",
        f"{reads:,} single reads, {total['batch']:,} batches, {total['find']:,} questions,"
        f" {total['elsewhere']:,} copies of root and index",
        f"{len(stories)} wrong",
    )


def fuzzing(seconds: int) -> Iterator[Row]:
    for target in _TARGETS:
        command = [sys.executable, "scripts/fuzz.py", target, f"-max_total_time={seconds}"]
        limits = ["-timeout=10", "-rss_limit_mb=1024", "-verbosity=1", "-print_final_stats=1"]
        with tempfile.TemporaryDirectory() as corpus:
            done = subprocess.run(
                [*command, *limits, corpus], cwd=ROOT, capture_output=True, text=True
            )
        runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
        yield Row(
            f"Fuzzing, guided by coverage: {target}",
            f"{int(runs[1]) if runs else 0:,} inputs in {seconds:,} s",
            "0 wrong" if done.returncode == 0 else "WRONG",
        )


def mutations() -> Row:
    done = subprocess.run(
        [sys.executable, "scripts/mutate.py"], cwd=ROOT, capture_output=True, text=True
    )
    print(done.stdout, file=sys.stderr)
    survived = done.stdout.count("SURVIVED")
    return Row(
        "Checks of the laws, taken away one at a time",
        f"{len(MUTATIONS)}",
        f"a test fails for {len(MUTATIONS) - survived}",
    )


def table(rows: Iterable[Row]) -> str:
    head = Row("what was tried", "how often", "what came out")
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---|---|---|", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/reliability", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of all machines together")
    parser.add_argument("--seed", type=int, default=1_000, help="of the first machine")
    parser.add_argument("--seconds", type=int, default=720, help="of fuzzing, for each target")
    options = parser.parse_args()
    rows = [*machines(options.steps, options.seed), *fuzzing(options.seconds), mutations()]
    said = f"{date.today().isoformat()}, Python {sys.version.split()[0]}\n\n{table(rows)}"
    print(said)
    page = _PAGE.read_text()
    _PAGE.write_text(
        re.sub(
            r"(<!-- table -->\n).*(<!-- /table -->)",
            lambda match: f"{match[1]}{said}\n{match[2]}",
            page,
            flags=re.DOTALL,
        )
    )
    return int(any("wrong" in row.outcome.lower() and row.outcome[0] != "0" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
