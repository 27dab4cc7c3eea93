"""Measure evalindex beside inspect_ai on an S3 server, SeaweedFS, 20 ms away.

A proxy makes each request late. Prints medians in ms, ratios, requests and bytes of each route.

The logs are those of bench.py. inspect at equal concurrency stands beside each of our routes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import Case, make_case, make_many
from inspect_ai._util.asyncfiles import AsyncFilesystem
from inspect_ai.log import read_eval_log_sample_async, read_eval_log_samples_by_id

import evalindex
from tests.servers.s3 import seaweed

_DELAY = 0.020


class Route(NamedTuple):
    work: str
    who: str
    run: Callable[[], list[int]]


class Costs(NamedTuple):
    ms: float
    requests: int
    bytes: int


def by_inspect(work: str, log: str, ids: list[int], concurrency: int) -> Route:
    def run() -> list[int]:
        keys = [(id, 1) for id in ids]
        return [
            int(sample.id)
            for sample in read_eval_log_samples_by_id(log, keys, concurrency=concurrency)
        ]

    return Route(work, f"inspect c={concurrency}", run)


def by_us(work: str, index: evalindex.Index, log: str, ids: list[int], concurrency: int) -> Route:
    def run() -> list[int]:
        found = index.read_samples(log, ids, as_="bytes", concurrency=concurrency)
        return ids if all(found) else []

    return Route(work, f"bytes c={concurrency}", run)


def many_by_inspect(work: str, logs: list[str], concurrency: int) -> Route:
    """Its best: single reads over one file system."""

    async def read_all() -> list[int]:
        found: list[int] = []
        limiter = anyio.CapacityLimiter(concurrency)

        async def one(log: str) -> None:
            async with limiter:
                found.append(int((await read_eval_log_sample_async(log, 1)).id))

        async with AsyncFilesystem(), anyio.create_task_group() as group:
            for log in logs:
                group.start_soon(one, log)
        return found

    return Route(work, f"inspect c={concurrency}", lambda: anyio.run(read_all))


def many_by_us(work: str, index: evalindex.Index, logs: list[str], concurrency: int) -> Route:
    def run() -> list[int]:
        keys = [(log, 1) for log in logs]
        read = index.iter_samples(keys, as_="bytes", concurrency=concurrency)
        return [len(value) for _, value in read]

    return Route(work, f"bytes c={concurrency}", run)


@contextmanager
def late(port: int) -> Iterator[tuple[int, Callable[[], dict[str, int]]]]:
    """A proxy in a process of its own: its port, and what tells the counts since the last call."""
    command = [sys.executable, "-m", "tests.servers.proxy", str(port), str(_DELAY)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield (
            int(process.stdout.readline()),
            lambda: _ask(process),
        )
        process.stdin.close()


def _ask(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    counts: dict[str, int] = json.loads(process.stdout.readline())
    return counts


def measure(
    routes: list[Route], rounds: int, counts: Callable[[], dict[str, int]]
) -> dict[Route, Costs]:
    times: dict[Route, list[float]] = {route: [] for route in routes}
    last: dict[Route, dict[str, int]] = {}
    for round in range(rounds + 1):
        for route in routes:
            counts()
            started = time.perf_counter()
            if not route.run():
                raise AssertionError(f"{route.who} gave wrong samples for {route.work}")
            if round:  # the first is to warm up
                times[route].append(1000 * (time.perf_counter() - started))
            last[route] = counts()
    return {
        route: Costs(median(found), last[route]["requests"], last[route]["bytes"])
        for route, found in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure on an S3 server, 20 ms away.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="smaller logs")
    options = parser.parse_args()
    small = make_case("small", 5_000 if options.quick else 50_000, 5_000)
    heavy = make_case("heavy", 200 if options.quick else 2_000, 300_000)
    folder = make_many(100 if options.quick else 1_000)
    with tempfile.TemporaryDirectory() as scratch, seaweed(Path(scratch)) as server:
        os.environ.update(server.environment)
        root = server.fresh_root()

        def upload(path: Path) -> str:
            url = f"{root}/{path.parent.name}/{path.name}"
            server.put(url, path.read_bytes())
            return url

        logs = [upload(path) for path in sorted(folder.glob("*.eval"))[:200]]
        urls = {case.name: upload(case.log) for case in (small, heavy)}
        index_file = Path(scratch) / "index.db"
        evalindex.build(root, index_file)
        with late(server.port) as (port, counts), evalindex.open(index_file) as index:
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            routes: list[Route] = []

            def add(work: str, case: Case, ids: list[int]) -> None:
                for concurrency in (8, 32):
                    routes.append(by_inspect(work, urls[case.name], ids, concurrency))
                for concurrency in (8, 32, 64):
                    routes.append(by_us(work, index, urls[case.name], ids, concurrency))

            add("200 scattered", small, small.ids)
            add("200 adjacent", small, list(range(1, 201)))
            add("200 heavy, scattered", heavy, heavy.ids)
            work = f"one of each of {len(logs)} logs"
            routes += [many_by_inspect(work, logs, concurrency) for concurrency in (8, 32)]
            routes += [many_by_us(work, index, logs, concurrency) for concurrency in (8, 32, 64)]
            found = measure(routes, options.rounds, counts)
    print(
        f"{'work':24} {'route':14} {'median ms':>10} {'requests':>9} {'KiB down':>9}  inspect / it"
    )
    for route, costs in found.items():
        theirs = {
            one.who.partition("c=")[2]: one_costs.ms
            for one, one_costs in found.items()
            if one.work == route.work and one.who.startswith("inspect")
        }
        own = route.who.partition("c=")[2]
        ratio = f"{theirs[own] / costs.ms:.1f}x at equal, " if own in theirs else ""
        print(
            f"{route.work:24} {route.who:14} {costs.ms:10.1f} {costs.requests:9,} "
            f"{costs.bytes / 1024:9,.0f}  {ratio}{theirs['8'] / costs.ms:.1f}x its default"
        )


if __name__ == "__main__":
    main()
