"""Samples of many logs, and questions about them."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec
import zstandard
from inspect_ai._util.asyncfiles import AsyncFilesystem
from inspect_ai.log import (
    EvalSample,
    EvalSampleSummary,
    read_eval_log_headers_async,
    read_eval_log_sample_async,
    read_eval_log_sample_summaries_async,
)

import evalindex
from benchmark.data import Folder
from benchmark.measure import FLOOR, INSPECT, Route

_ID = 7
_AT_ONCE = 8


def one_of_each(
    folder: Folder, *, bytes: float, dicts: float | None = None, samples: float | None = None
) -> list[Route]:
    """One sample of each log, beside inspect at its best: one file system, 8 at once."""
    index = evalindex.open(folder.path)
    keys = [(log, _ID) for log in folder.logs]

    def at_best() -> Sequence[object]:
        # Not what the loop returns: asyncio makes a text of that.
        found: list[EvalSample] = []

        async def one(log: str) -> None:
            found.append(await read_eval_log_sample_async(log, _ID))

        anyio.run(at_once, folder.logs, one, _AT_ONCE)
        return found

    work = f"1 of each of {len(folder.logs):,} logs of {folder.samples}"
    return [
        Route(work, f"{INSPECT}, {_AT_ONCE} at once", at_best),
        Route(work, "bytes", lambda: list(index.iter_samples(keys, as_="bytes")), bytes),
        Route(work, "dicts", lambda: list(index.iter_samples(keys)), dicts),
        Route(work, "EvalSamples", lambda: list(index.iter_samples(keys, as_="sample")), samples),
        Route(work, f"{FLOOR}, bytes", lambda: _floor(folder)),
        Route(work, f"{FLOOR}, dicts", lambda: _floor_dicts(folder)),
    ]


def questions(folder: Folder) -> list[Route]:
    """Beside inspect that opens each log: their summaries or headers."""
    index = evalindex.open(folder.path)

    def failed() -> Sequence[object]:
        found: list[EvalSampleSummary] = []

        async def one(log: str) -> None:
            found.extend(await read_eval_log_sample_summaries_async(log))

        anyio.run(at_once, folder.logs, one, _AT_ONCE)
        return [one.id for one in found if one.error and "Timeout" in one.error]

    def headers() -> Sequence[object]:
        return [log.eval.task for log in anyio.run(read_eval_log_headers_async, folder.logs)]

    many = f"{len(folder.logs):,} logs"
    return [
        Route(f"which samples of {many} failed", INSPECT, failed),
        Route(f"which samples of {many} failed", "find", lambda: [*index.find(error="*Timeout*")]),
        Route(f"headers of {many}", INSPECT, headers),
        Route(f"headers of {many}", "logs", lambda: [*index.logs()]),
    ]


async def at_once(logs: Sequence[str], one: Callable[[str], Awaitable[None]], most: int) -> None:
    """Do something with each log over one of inspect's file systems."""
    limiter = anyio.CapacityLimiter(most)

    async def limited(log: str) -> None:
        async with limiter:
            await one(log)

    async with AsyncFilesystem(), anyio.create_task_group() as group:
        for log in logs:
            group.start_soon(limited, log)


def _floor(folder: Folder) -> list[bytes]:
    """What has to be done, and no check but the CRC-32."""
    connection = sqlite3.connect(folder.path / "evalindex.db")
    unpack = zstandard.ZstdDecompressor().decompress
    found = []
    for log in folder.logs:
        offset, compressed, uncompressed, crc = connection.execute(
            "SELECT m.header_offset, m.compressed_size, m.uncompressed_size, m.crc32"
            " FROM log AS l JOIN member AS m ON m.log_id = l.log_id AND m.name = ?"
            " WHERE l.root_id = 1 AND l.path = ?",
            (f"samples/{_ID}_epoch_1.json", os.path.basename(log)),
        ).fetchone()
        descriptor = os.open(log, os.O_RDONLY)
        data = os.pread(descriptor, 30 + 64 + 64 + compressed, offset)
        os.close(descriptor)
        start = 30 + int.from_bytes(data[26:28], "little") + data[28]
        text = unpack(data[start : start + compressed], max_output_size=uncompressed)
        if zlib.crc32(text) == crc:
            found.append(text)
    connection.close()
    return found


def _floor_dicts(folder: Folder) -> list[object]:
    decode = msgspec.json.Decoder().decode
    return [decode(text) for text in _floor(folder)]
