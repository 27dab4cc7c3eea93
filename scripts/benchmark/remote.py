"""An S3 server, SeaweedFS, behind a proxy that makes each request 20 ms late.

Both sides read with as many requests at once, and as each does if it is not told. With few at once
both wait for round trips: 25 of them if 200 samples are read 8 at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from inspect_ai.log import EvalSample, read_eval_log_sample_async, read_eval_log_samples_by_id

import evalindex
from benchmark.data import many_logs, one_log
from benchmark.measure import INSPECT, Figure, Route, measure
from benchmark.over_logs import at_once
from benchmark.report import Report
from tests.servers.s3 import seaweed

_DELAY = 0.020
_LOGS = 200
_ID = 1

_Read = Callable[[int | None], Sequence[object]]
_Counts = Callable[[], dict[str, int]]


def remote(*, quick: bool, rounds: int) -> Report:
    small = one_log("small", 5_000 if quick else 50_000, 5_000)
    heavy = one_log("heavy", 200 if quick else 2_000, 300_000)
    folder = many_logs(100 if quick else 1_000, 50)
    with tempfile.TemporaryDirectory() as scratch, seaweed(Path(scratch)) as server:
        os.environ.update(server.environment)
        root = server.fresh_root()

        def upload(path: Path) -> str:
            url = f"{root}/{path.parent.name}/{path.name}"
            server.put(url, path.read_bytes())
            return url

        logs = [upload(Path(log)) for log in folder.logs[:_LOGS]]
        urls = {case.name: upload(case.log) for case in (small, heavy)}
        index_file = Path(scratch) / "index.db"
        evalindex.build(root, index_file)
        with _late(server.port) as (port, counts), evalindex.open(index_file) as index:
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            jobs: list[_Job] = []
            for case, how, ids, equal, default in (
                (small, "scattered", small.ids, 3, 5),
                (small, "adjacent", [*range(1, len(small.ids) + 1)], 20, 20),
                (heavy, "scattered", heavy.ids, 3, 5),
            ):
                theirs = partial(_by_inspect, urls[case.name], ids)
                ours = partial(_by_us, index, urls[case.name], ids)
                jobs.append(_Job(f"{case.work}, {how}", theirs, ours, equal, default))
            theirs, ours = partial(_many_by_inspect, logs), partial(_many_by_us, index, logs)
            work = f"1 of each of {len(logs)} logs of {folder.samples}"
            jobs.append(_Job(work, theirs, ours, 3, 3))
            timings = measure([route for job in jobs for route in _routes(job)], rounds)
            figures = [figure for job in jobs for figure in _costs(job, counts)]
            return Report(rounds, timings, figures)


class _Job(NamedTuple):
    """The same samples by inspect and by us, and how many times faster than inspect we should be:
    32 requests at once, and as each does by default."""

    work: str
    theirs: _Read
    ours: _Read
    equal: float
    default: float


def _routes(job: _Job) -> Iterator[Route]:
    for how, most, target in (
        ("8 at once", 8, None),
        ("32 at once", 32, job.equal),
        ("by default", None, job.default),
    ):
        yield Route(f"{job.work}, {how}", INSPECT, partial(job.theirs, most))
        yield Route(f"{job.work}, {how}", "bytes", partial(job.ours, most), target)


def _costs(job: _Job, counts: _Counts) -> Iterator[Figure]:
    for who, read in ((INSPECT, job.theirs), ("bytes", job.ours)):
        counts()
        read(None)
        cost = counts()
        yield Figure(job.work, who, cost["requests"], "requests")
        yield Figure(job.work, who, cost["bytes"] / 1024, "KiB down")


def _by_inspect(log: str, ids: list[int], most: int | None) -> Sequence[object]:
    keys = [(id, 1) for id in ids]
    if most is None:
        return read_eval_log_samples_by_id(log, keys)
    return read_eval_log_samples_by_id(log, keys, concurrency=most)


def _by_us(index: evalindex.Index, log: str, ids: list[int], most: int | None) -> Sequence[object]:
    return index.read_samples(log, ids, as_="bytes", concurrency=most)


def _many_by_inspect(logs: list[str], most: int | None) -> Sequence[object]:
    """Its best: single reads over one file system."""
    found: list[EvalSample] = []

    async def one(log: str) -> None:
        found.append(await read_eval_log_sample_async(log, _ID))

    anyio.run(at_once, logs, one, most or 8)
    return found


def _many_by_us(index: evalindex.Index, logs: list[str], most: int | None) -> Sequence[object]:
    keys = [(log, _ID) for log in logs]
    return list(index.iter_samples(keys, as_="bytes", concurrency=most))


@contextmanager
def _late(port: int) -> Iterator[tuple[int, _Counts]]:
    """A proxy in a process of its own: its port, and what tells the counts since the last call."""
    command = [sys.executable, "-m", "tests.servers.proxy", str(port), str(_DELAY)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline()), partial(_ask, process)
        process.stdin.close()


def _ask(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    counts: dict[str, int] = json.loads(process.stdout.readline())
    return counts
