"""Builds, the size of what they make, and what rows alone answer."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
from inspect_ai._util.async_zip import AsyncZipReader
from inspect_ai._util.asyncfiles import AsyncFilesystem
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

import evalindex
from benchmark.data import Case, Folder
from benchmark.measure import FLOOR, INSPECT, Figure, Route

_FINDS = 500


def builds(case: Case, folder: Folder, *, rows: float, directories: float) -> list[Route]:
    """All rows of a log beside inspect that only reads its summaries; directories alone beside
    inspect that only parses them."""
    index_file = Path(tempfile.mkdtemp()) / "index.db"

    def build(root: Path, *, summaries: bool) -> Sequence[object]:
        index_file.unlink(missing_ok=True)
        return range(evalindex.build(root, index_file, summaries=summaries).indexed)

    work = f"all rows of {case.samples:,} samples"
    one = f"directory of {case.samples:,} samples"
    many = f"directories of {len(folder.logs):,} logs of {folder.samples}"
    return [
        Route(work, INSPECT, lambda: [read_eval_log_sample_summaries(str(case.log))]),
        Route(work, "build", lambda: build(case.log.parent, summaries=True), rows),
        Route(one, f"{INSPECT}, parsing alone", lambda: _parse([str(case.log)])),
        Route(one, "build", lambda: build(case.log.parent, summaries=False)),
        Route(many, f"{INSPECT}, parsing alone", lambda: _parse(folder.logs)),
        Route(many, "build", lambda: build(folder.path, summaries=False), directories),
    ]


def _parse(logs: Sequence[str]) -> Sequence[object]:
    async def parse() -> list[int]:
        async with AsyncFilesystem() as files:
            return [len((await AsyncZipReader(files, log).entries()).entries) for log in logs]

    return anyio.run(parse)


def rebuild(folder: Folder) -> list[Route]:
    """With nothing to do; the floor is a look at each log."""
    work = f"{len(folder.logs):,} unchanged logs"
    return [
        Route(work, "build", lambda: range(evalindex.build(folder.path).unchanged)),
        Route(work, f"{FLOOR}, stat", lambda: [os.stat(log) for log in folder.logs]),
    ]


def asked(case: Case, *, uuid: float) -> list[Route]:
    """Which sample has a uuid, and what has to be run again and what went wrong there."""
    index = evalindex.open(case.index_file)
    log, wanted = str(case.log), _uuid(index, case)

    def summaries() -> Sequence[object]:
        return [one.id for one in read_eval_log_sample_summaries(log) if one.uuid == wanted]

    def failures() -> Sequence[object]:
        return [one for one in read_eval_log(log).samples or [] if one.error is not None]

    by_uuid, retry = f"by uuid, of {case.samples:,} samples", f"failures of {case.samples:,}"
    return [
        Route(by_uuid, INSPECT, summaries),
        Route(by_uuid, "find", lambda: [*index.find(uuid=wanted)], uuid, repeat=20),
        Route(retry, INSPECT, failures, once=True),
        Route(retry, "rows, then dicts", lambda: index.read_samples(log, [*index.incomplete(log)])),
    ]


def figures(case: Case, folder: Folder) -> list[Figure]:
    """What has a limit of its own."""
    index = evalindex.open(case.index_file)
    wanted = _uuid(index, case)
    times = sorted(_time(lambda: [*index.find(uuid=wanted)]) for _ in range(_FINDS))
    found = [Figure("by uuid", "find, 99 of 100", times[int(0.99 * _FINDS)], "ms", 1)]
    took = statistics.median(_time(lambda: evalindex.build(folder.path)) for _ in range(5))
    found.append(Figure("unchanged logs", "build", 1000 * took / len(folder.logs), "us a log", 50))

    def reads() -> None:
        with evalindex.open(case.index_file) as opened:
            opened.read(str(case.log), case.ids[0], as_="bytes")

    took = statistics.median(_time(reads) for _ in range(_FINDS))
    found.append(Figure(f"1 of {case.samples:,}", "bytes, opened anew", took, "ms", 1))
    index_file = Path(tempfile.mkdtemp()) / "index.db"
    took = _time(lambda: evalindex.build(case.log.parent, index_file, summaries=False))
    found.append(Figure(f"directory of {case.samples:,}", "build", took, "ms", 300))
    size = index_file.stat().st_size / case.samples
    found.append(Figure("index, directories alone", "size", size, "bytes an entry", 90))
    size = case.index_file.stat().st_size / case.samples
    found.append(Figure("index, all rows", "size", size, "bytes a sample"))
    return found


def _uuid(index: evalindex.Index, case: Case) -> str:
    uuid = next(index.find(case.log, id=case.ids[0])).uuid
    assert uuid is not None
    return uuid


def _time(run: object) -> float:
    """Milliseconds."""
    assert callable(run)
    started = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - started)
