"""Look for wrong answers for as long as one likes, and write what was found to docs/reliability.md.

The machine of tests/prove plays the lives of logs; the fuzzer feeds the pure rooms; readers stand
beside writers and builders; each check of each law is taken away.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from tests.prove.faults import Faults
from tests.prove.machine import Bucket, Folder, Machine, Wrong
from tests.prove.mutations import MUTATIONS, ROOT
from tests.servers.lying import lying

_PAGE = ROOT / "docs" / "reliability.md"
_FUZZED = ("directory", "member", "header", "summaries", "sample")
_READS = ("read bytes", "read dict", "read stream", "by uuid", "member", "slice")
_AT_ONCE = 2_000  # steps of one machine


class Row(NamedTuple):
    """What was tried, how often, and what came out."""

    what: str
    often: str
    outcome: str
    is_good: bool


def _at_once(seed: int, scratch: Path) -> Iterator[Machine]:
    folder = Folder(scratch / "logs", tick=True)
    with patch("evalindex.stores.local.SETTLED_NS", -(10**9)):
        yield Machine(seed, folder, folder.path / "evalindex.db")


def _too_fast(seed: int, scratch: Path) -> Iterator[Machine]:
    folder = Folder(scratch / "logs", tick=False)
    yield Machine(seed, folder, folder.path / "evalindex.db")


def _faulty(seed: int, scratch: Path) -> Iterator[Machine]:
    folder = Folder(scratch / "logs", tick=True)
    with patch("evalindex.stores.local.SETTLED_NS", -(10**9)):
        yield Machine(seed, folder, folder.path / "evalindex.db", Faults(seed, ahead=True))


def _in_a_store(seed: int, scratch: Path) -> Iterator[Machine]:
    with lying() as (liar, server), patch.dict(os.environ, server.environment):
        yield Machine(seed, Bucket(liar, server.fresh_root()), scratch / "index.db")


class Life(NamedTuple):
    """A kind of life: its machine, and its part of all steps."""

    machine: Callable[[int, Path], Iterator[Machine]]
    part: float


_LIVES = {
    "Logs on a file system, versions recorded at once": Life(_at_once, 0.4),
    "Logs that change too fast for times to show it": Life(_too_fast, 0.35),
    "Reads that fail, interrupts, a clock that is set": Life(_faulty, 0.2),
    "A store that ignores `If-Match`, has weak ETags or none": Life(_in_a_store, 0.05),
}


def live(kind: str, seed: int) -> Counter[str] | str:
    """The steps that one machine took, or the story of what went wrong."""
    logging.getLogger("evalindex").setLevel(logging.CRITICAL)
    with (
        tempfile.TemporaryDirectory() as scratch,
        patch("time.sleep", lambda _: None),  # nothing gets better by waiting: there is one thread
        contextmanager(_LIVES[kind].machine)(seed, Path(scratch)) as machine,
    ):
        try:
            return machine.run(_AT_ONCE)
        except Wrong as error:
            return str(error)


def lives(kind: str, played: Sequence[Counter[str] | str]) -> Row:
    total: Counter[str] = Counter()
    stories = [one for one in played if isinstance(one, str)]
    for one in played:
        if isinstance(one, Counter):
            total += one
    for story in stories:
        print(story, file=sys.stderr)
    reads = sum(total[one] for one in _READS)
    return Row(
        kind,
        f"{sum(total.values()):,} steps: {total['build']:,} builds, {total['killed']:,} killed;"
        f" {reads:,} reads, {total['batch']:,} batches, {total['find']:,} questions,"
        f" {total['elsewhere']:,} copies, {total['verify']:,} times verified",
        f"{len(stories)} wrong",
        not stories,
    )


def _run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def fuzz(target: str, seconds: int) -> Row:
    limits = ["-timeout=10", "-rss_limit_mb=1024", "-verbosity=1", "-print_final_stats=1"]
    with tempfile.TemporaryDirectory() as corpus:
        done = _run("scripts/fuzz.py", target, f"-max_total_time={seconds}", *limits, corpus)
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
    return Row(
        f"Fuzzing, guided by coverage: {target}",
        f"{int(runs[1]) if runs else 0:,} inputs in {seconds:,} s",
        "WRONG" if done.returncode else "0 wrong",
        done.returncode == 0,
    )


def soak(seconds: int) -> Row:
    done = _run("-m", "pytest", "-q", "tests/test_live.py", EVALINDEX_SOAK_SECONDS=str(seconds))
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
    return Row(
        "Readers and builders beside evals that write, in processes of their own",
        f"{seconds:,} s each",
        "WRONG" if done.returncode else "0 wrong",
        done.returncode == 0,
    )


def mutate() -> Row:
    done = _run("scripts/mutate.py")
    print(done.stdout, file=sys.stderr)
    survived = done.stdout.count("SURVIVED")
    return Row(
        "Checks of the laws, taken away one at a time",
        f"{len(MUTATIONS)}",
        f"a test fails for {len(MUTATIONS) - survived}",
        done.returncode == 0,
    )


def look(steps: int, first_seed: int, seconds: int, soaked: int) -> list[Row]:
    """Everything, as many at a time as there are cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        others = [pool.submit(fuzz, target, seconds) for target in _FUZZED]
        others += [pool.submit(soak, soaked), pool.submit(mutate)]
        played: Mapping[str, Sequence[Future[Counter[str] | str]]] = {
            kind: [
                pool.submit(live, kind, first_seed + number)
                for number in range(-(-int(steps * life.part) // _AT_ONCE))
            ]
            for kind, life in _LIVES.items()
        }
        rows = [
            lives(kind, [one.result() for one in machines]) for kind, machines in played.items()
        ]
        return [*rows, *(one.result() for one in others)]


def table(rows: Sequence[Row]) -> str:
    lines = [f"| {row.what} | {row.often} | {row.outcome} |" for row in rows]
    return "\n".join(["| what was tried | how often | what came out |", "|---|---|---|", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/reliability", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of all machines together")
    parser.add_argument("--seed", type=int, default=1_000, help="of the first machine of each kind")
    parser.add_argument("--seconds", type=int, default=720, help="of fuzzing, for each target")
    parser.add_argument("--soak", type=int, default=120, help="seconds beside writers, each test")
    options = parser.parse_args()
    rows = look(options.steps, options.seed, options.seconds, options.soak)
    said = f"{date.today().isoformat()}, Python {sys.version.split()[0]}\n\n{table(rows)}"
    print(said)
    _PAGE.write_text(
        re.sub(
            r"(<!-- table -->\n).*(<!-- /table -->)",
            lambda match: f"{match[1]}{said}\n{match[2]}",
            _PAGE.read_text(),
            flags=re.DOTALL,
        )
    )
    return int(not all(row.is_good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
