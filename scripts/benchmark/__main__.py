"""Measure evalindex beside inspect_ai and beside the floor, all in one interleaved run.

The floor is what a hand-written loop needs that checks nothing but CRCs: sqlite3, pread, zstd.
Prints medians in ms and ratios; each route is checked to give the same samples. Logs are made
once, with inspect_ai's own writer, in .bench/ (or where EVALINDEX_BENCH says).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import anyio
import zstandard
from inspect_ai._util.asyncfiles import AsyncFilesystem
from inspect_ai.log import (
    EvalSampleSummary,
    read_eval_log,
    read_eval_log_headers_async,
    read_eval_log_sample_async,
    read_eval_log_sample_summaries,
    read_eval_log_sample_summaries_async,
    read_eval_log_samples_by_id,
)
from make_logs import make_logs

import evalindex
from evalindex.inspect_ai import read_eval_log_samples_by_id as ours_by_id

_DATA = Path(os.environ.get("EVALINDEX_BENCH", Path(__file__).resolve().parent.parent / ".bench"))
_WANTED = 200


class Route(NamedTuple):
    """One way to do a piece of work; returns ids, so that nobody is fast by doing less. What takes
    very long is done `once`."""

    work: str
    who: str
    run: Callable[[], list[int]]
    once: bool = False


class Case(NamedTuple):
    """A log, the ids that are wanted of it, and its index."""

    name: str
    log: Path
    ids: list[int]
    index_file: Path


def make_case(name: str, samples: int, size: int) -> Case:
    folder = _DATA / f"{name}-{samples}-{size}"
    if not folder.exists():
        print(f"making {folder} ...", file=sys.stderr)
        make_logs(folder, logs=1, samples=samples, size=size, failures=min(137, samples // 20))
    evalindex.build(folder)
    ids = random.Random(7).sample(range(1, samples + 1), min(_WANTED, samples // 2))
    return Case(name, folder / "run-00000.eval", ids, folder / "evalindex.db")


# Whole processes


_COLD = {
    "inspect": """
from inspect_ai.log import read_eval_log_samples_by_id
out = [s.id for s in read_eval_log_samples_by_id({log!r}, [(i, 1) for i in {ids!r}])]
""",
    "bytes": """
import evalindex
with evalindex.open({index!r}) as index:
    out = [len(b) for b in index.read_samples({log!r}, {ids!r}, as_="bytes")]
""",
    "dict": """
import evalindex
with evalindex.open({index!r}) as index:
    out = [s["id"] for s in index.read_samples({log!r}, {ids!r})]
""",
    "get": """
import sys
from evalindex.cli import main
sys.argv = ["evalindex", "get", "--keys", {keys!r}, "--out", {keys!r} + ".out"]
main()
""",
    "python": "out = []",
}


def cold(case: Case, who: str) -> Route:
    keys = case.index_file.with_name("keys.csv")
    keys.write_text("log,id\n" + "".join(f"{case.log},{id}\n" for id in case.ids))
    code = _COLD[who].format(
        log=str(case.log), index=str(case.index_file), ids=case.ids, keys=str(keys)
    )

    def run() -> list[int]:
        subprocess.run([sys.executable, "-c", code], check=True)
        return case.ids

    return Route(f"{case.name}: whole process", who, run)


# Within one process


def warm_inspect(case: Case) -> Route:
    def run() -> list[int]:
        found = read_eval_log_samples_by_id(str(case.log), [(i, 1) for i in case.ids])
        return [int(sample.id) for sample in found]

    return Route(f"{case.name}: warm", "inspect", run)


def warm_ours(case: Case, as_: str) -> Route:
    index = evalindex.open(case.index_file)

    def as_bytes() -> list[int]:
        found = index.read_samples(case.log, case.ids, as_="bytes")
        return case.ids if len(found) == len(case.ids) else []

    def as_dicts() -> list[int]:
        return [sample["id"] for sample in index.read_samples(case.log, case.ids)]

    return Route(f"{case.name}: warm", as_, as_bytes if as_ == "bytes" else as_dicts)


def warm_samples(case: Case, leave_out: set[str] | None = None) -> list[Route]:
    """Inspect's own objects, by its own call and by ours."""
    index = evalindex.open(case.index_file)
    keys = [(id, 1) for id in case.ids]

    def inspects() -> list[int]:
        found = read_eval_log_samples_by_id(str(case.log), keys, exclude_fields=leave_out)
        return [int(sample.id) for sample in found]

    def ours() -> list[int]:
        found = ours_by_id(case.log, keys, exclude_fields=leave_out, index=index)
        return [int(sample.id) for sample in found]

    if leave_out is None:  # inspect's is there already
        return [Route(f"{case.name}: warm", "sample", ours)]
    work = f"{case.name}: without {len(leave_out)} fields"
    return [Route(work, "inspect", inspects), Route(work, "sample", ours)]


def warm_one(case: Case) -> list[Route]:
    id = case.ids[0]

    def ours() -> list[int]:
        with evalindex.open(case.index_file) as index:
            index.read(case.log, id, as_="bytes")
        return [id]

    def inspects() -> list[int]:
        found = read_eval_log_samples_by_id(str(case.log), [(id, 1)])
        return [int(sample.id) for sample in found]

    work = f"{case.name}: one sample, opened anew"
    return [Route(work, "inspect", inspects), Route(work, "bytes", ours)]


def make_many(logs: int) -> Path:
    folder = _DATA / f"many-{logs}-50"
    if not folder.exists():
        print(f"making {folder} ...", file=sys.stderr)
        make_logs(folder, logs=logs, samples=50, failures=1)
    evalindex.build(folder)
    return folder


def many_logs(logs: int) -> list[Route]:
    """One sample from each of many logs, beside inspect at its best: one file system, 8 at once."""
    folder = make_many(logs)
    index = evalindex.open(folder)
    keys = [(str(log), 7) for log in sorted(folder.glob("*.eval"))]
    assert len(keys) == logs

    async def at_best() -> list[int]:
        found: list[int] = []
        limiter = anyio.CapacityLimiter(8)

        async def one(log: str, id: int) -> None:
            async with limiter:
                found.append(int((await read_eval_log_sample_async(log, id)).id))

        async with AsyncFilesystem(), anyio.create_task_group() as group:
            for log, id in keys:
                group.start_soon(one, log, id)
        return found

    def as_bytes() -> list[int]:
        return [len(value) for _, value in index.iter_samples(keys, as_="bytes")]

    def as_dicts() -> list[int]:
        return [value["id"] for _, value in index.iter_samples(keys)]

    def as_samples() -> list[int]:
        return [int(value.id) for _, value in index.iter_samples(keys, as_="sample")]

    work = f"one sample of each of {logs} logs"
    return [
        Route(work, "inspect", lambda: anyio.run(at_best)),
        Route(work, "bytes", as_bytes),
        Route(work, "dict", as_dicts),
        Route(work, "sample", as_samples),
    ]


def build(case: Case) -> list[Route]:
    """All rows of a log, beside inspect that only reads its summaries."""

    def ours() -> list[int]:
        case.index_file.unlink()
        return [evalindex.build(case.log.parent).indexed]

    def inspects() -> list[int]:
        return [int(summary.id) for summary in read_eval_log_sample_summaries(str(case.log))]

    work = f"{case.name}: all rows of a log"
    return [Route(work, "inspect", inspects), Route(work, "build", ours)]


def by_uuid(case: Case) -> list[Route]:
    index = evalindex.open(case.index_file)
    uuid = next(index.find(case.log, id=case.ids[0])).uuid
    assert uuid is not None

    def ours() -> list[int]:
        return [int(row.id) for row in index.find(uuid=uuid)]

    def inspects() -> list[int]:
        found = read_eval_log_sample_summaries(str(case.log))
        return [int(summary.id) for summary in found if summary.uuid == uuid]

    work = f"{case.name}: which has this uuid"
    return [Route(work, "inspect", inspects), Route(work, "find", ours)]


def partial_retry(case: Case) -> list[Route]:
    """What has to be run again, and what went wrong there, beside reading the log for it."""
    index = evalindex.open(case.index_file)

    def ours() -> list[int]:
        rows = list(index.incomplete(case.log))
        return [sample["id"] for sample in index.read_samples(case.log, rows)]

    def inspects() -> list[int]:
        found = read_eval_log(str(case.log)).samples or []
        return [int(sample.id) for sample in found if sample.error is not None]

    work = f"{case.name}: partial retry"
    return [Route(work, "inspect", inspects, once=True), Route(work, "rows", ours)]


def questions(logs: int) -> list[Route]:
    """Questions over many logs, beside inspect that opens each: their summaries or headers."""
    folder = make_many(logs)
    index = evalindex.open(folder)
    names = [str(log) for log in sorted(folder.glob("*.eval"))]

    async def summaries() -> list[EvalSampleSummary]:
        found: list[EvalSampleSummary] = []
        limiter = anyio.CapacityLimiter(8)

        async def one(log: str) -> None:
            async with limiter:
                found.extend(await read_eval_log_sample_summaries_async(log))

        async with AsyncFilesystem(), anyio.create_task_group() as group:
            for log in names:
                group.start_soon(one, log)
        return found

    def failed() -> list[int]:
        found = anyio.run(summaries)
        return [int(one.id) for one in found if one.error and "Timeout" in one.error]

    def headers() -> list[int]:
        return [len(log.eval.task) for log in anyio.run(read_eval_log_headers_async, names)]

    find, list_logs = f"failures in {logs} logs", f"headers of {logs} logs"
    return [
        Route(find, "inspect", failed),
        Route(find, "find", lambda: [int(row.id) for row in index.find(error="*Timeout*")]),
        Route(list_logs, "inspect", headers),
        Route(list_logs, "logs", lambda: [row.planned or 0 for row in index.logs()]),
    ]


def floor(case: Case) -> Route:
    connection = sqlite3.connect(case.index_file)
    names = json.dumps([f"samples/{id}_epoch_1.json" for id in case.ids])

    def run() -> list[int]:
        descriptor = os.open(case.log, os.O_RDONLY)
        unpack = zstandard.ZstdDecompressor().decompress
        rows = connection.execute(
            "SELECT m.header_offset, m.compressed_size, m.uncompressed_size, m.crc32"
            " FROM json_each(?) AS n CROSS JOIN member AS m ON m.log_id ="
            " (SELECT max(log_id) FROM log) AND m.name = n.value",
            (names,),
        )
        found = 0
        for offset, compressed, uncompressed, crc in rows:
            data = os.pread(descriptor, 30 + 64 + 64 + compressed, offset)
            start = 30 + int.from_bytes(data[26:28], "little") + data[28]
            text = unpack(data[start : start + compressed], max_output_size=uncompressed)
            found += zlib.crc32(text) == crc
        os.close(descriptor)
        return case.ids if found == len(case.ids) else []

    return Route(f"{case.name}: warm", "floor", run)


def measure(routes: list[Route], rounds: int) -> dict[str, dict[str, float]]:
    """Median milliseconds by work and route, the routes taken in turn."""
    times: dict[str, dict[str, list[float]]] = {}
    for round in range(rounds + 1):
        for route in routes:
            if route.once and round != 1:
                continue
            started = time.perf_counter()
            found = route.run()
            took = 1000 * (time.perf_counter() - started)
            if not found:
                raise AssertionError(f"{route.who} gave wrong samples for {route.work}")
            if round:  # the first is to warm up
                times.setdefault(route.work, {}).setdefault(route.who, []).append(took)
    return {
        work: {who: statistics.median(found) for who, found in by_who.items()}
        for work, by_who in times.items()
    }


def report(medians: dict[str, dict[str, float]]) -> None:
    print(f"{'work':36} {'route':8} {'median ms':>10} {'inspect / it':>13}")
    for work, by_who in medians.items():
        for who, median in by_who.items():
            ratio = by_who["inspect"] / median
            print(f"{work:36} {who:8} {median:10.2f} {ratio:12.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure beside inspect_ai and the floor.")
    parser.add_argument("--quick", action="store_true", help="smaller logs, under a minute")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the medians there too")
    options = parser.parse_args()
    small = make_case("small", 5_000 if options.quick else 50_000, 5_000)
    heavy = make_case("heavy", 200 if options.quick else 2_000, 300_000)
    routes: list[Route] = []
    for case in (small, heavy):
        routes += [warm_inspect(case), warm_ours(case, "bytes"), warm_ours(case, "dict")]
        routes += [*warm_samples(case), floor(case)]
    routes += warm_samples(heavy, {"events", "store", "attachments"})
    routes += warm_one(small)
    routes += many_logs(100 if options.quick else 1_000)
    routes += questions(100 if options.quick else 1_000)
    routes += [*by_uuid(small), *partial_retry(small), *build(small)]
    routes += [cold(small, who) for who in ("inspect", "bytes", "dict", "get", "python")]
    medians = measure(routes, options.rounds)
    report(medians)
    if options.json:
        options.json.write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
