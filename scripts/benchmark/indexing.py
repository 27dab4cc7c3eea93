"""Builds, the size of what they make, and what rows alone answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
from inspect_ai._util.async_zip import AsyncZipReader
from inspect_ai._util.asyncfiles import AsyncFilesystem
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

import evalindex
from benchmark.data import Case, Folder
from benchmark.measure import FLOOR, INSPECT, Figure, Route, code, told


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


# Each in a process of its own, in which inspect has left nothing for the garbage collector.

_TIMES = """
import time
def times(count, run):
    found = []
    for turn in range(count + count // 10):
        started = time.perf_counter()
        run()
        found.append(1000 * (time.perf_counter() - started))
    return sorted(found[count // 10:])
"""
_BY_UUID = f"""{_TIMES}
import evalindex
with evalindex.open(index) as opened:
    uuid = next(opened.find(log, id=ids[0])).uuid
    print(times(1_000, lambda: list(opened.find(uuid=uuid)))[990])
"""
_ANEW = f"""{_TIMES}
import evalindex
def read():
    with evalindex.open(index) as opened:
        opened.read(log, ids[0], as_="bytes")
print(times(1_000, read)[500])
"""
_BUILD = f"""{_TIMES}
import os, tempfile
import evalindex
def build():
    with tempfile.TemporaryDirectory() as scratch:
        evalindex.build(os.path.dirname(log), scratch + "/index.db", summaries=False)
print(times(9, build)[4])
"""
_REBUILD = f"""{_TIMES}
import os
import evalindex
print(1000 * times(9, lambda: evalindex.build(os.path.dirname(log)))[4] / {{logs}})
"""


def figures(case: Case, folder: Folder) -> list[Figure]:
    """What has a limit of its own."""
    many = case._replace(log=folder.path / "any.eval")
    rebuild = _REBUILD.format(logs=len(folder.logs))
    index_file = Path(tempfile.mkdtemp()) / "index.db"
    evalindex.build(case.log.parent, index_file, summaries=False)
    alone, whole = (file.stat().st_size for file in (index_file, case.index_file))
    return [
        Figure("by uuid", "find, 99 of 100", told(code(_BY_UUID, case)), "ms", 1),
        Figure("unchanged logs", "build", told(code(rebuild, many)), "us a log", 50),
        Figure(f"1 of {case.samples:,}", "bytes, opened anew", told(code(_ANEW, case)), "ms", 1),
        Figure(f"directory of {case.samples:,}", "build", told(code(_BUILD, case)), "ms", 300),
        Figure("index, directories alone", "size", alone / case.samples, "bytes an entry", 90),
        Figure("index, all rows", "size", whole / case.samples, "bytes a sample"),
    ]


def _uuid(index: evalindex.Index, case: Case) -> str:
    uuid = next(index.find(case.log, id=case.ids[0])).uuid
    assert uuid is not None
    return uuid
