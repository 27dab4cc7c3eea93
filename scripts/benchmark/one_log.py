"""Samples of one log: warm, cold, one at a time."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import zipfile
import zlib
from collections.abc import Sequence

import msgspec
import zstandard
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_samples_by_id

import evalindex
from benchmark.data import Case
from benchmark.measure import FLOOR, INSPECT, Route, code, process
from evalindex.inspect_ai import read_eval_log_samples_by_id as ours_by_id

_SINGLES = 20


def warm(
    case: Case,
    *,
    bytes: float | None = None,
    dicts: float | None = None,
    samples: float | None = None,
) -> list[Route]:
    """Within one process; the targets are those of each form."""
    index = evalindex.open(case.index_file)
    keys = [(id, 1) for id in case.ids]
    log = str(case.log)
    return [
        Route(case.work, INSPECT, lambda: read_eval_log_samples_by_id(log, keys)),
        Route(
            case.work,
            f"{INSPECT}, 32 at once",
            lambda: read_eval_log_samples_by_id(log, keys, concurrency=32),
        ),
        Route(
            case.work,
            "bytes",
            lambda: index.read_samples(case.log, case.ids, as_="bytes"),
            bytes,
        ),
        Route(case.work, "dicts", lambda: index.read_samples(case.log, case.ids), dicts),
        Route(case.work, "EvalSamples", lambda: ours_by_id(log, keys, index=index), samples),
        Route(case.work, f"{FLOOR}, bytes", lambda: _floor(case)),
        Route(case.work, f"{FLOOR}, dicts", lambda: _floor_dicts(case)),
    ]


def without_fields(case: Case, left_out: set[str], target: float) -> list[Route]:
    index = evalindex.open(case.index_file)
    keys = [(id, 1) for id in case.ids]
    log = str(case.log)
    work = f"{case.work}, without {len(left_out)} fields"
    return [
        Route(
            work,
            INSPECT,
            lambda: read_eval_log_samples_by_id(log, keys, exclude_fields=left_out),
        ),
        Route(
            work,
            "EvalSamples",
            lambda: ours_by_id(log, keys, exclude_fields=left_out, index=index),
            target,
        ),
    ]


def single(case: Case, target: float) -> list[Route]:
    """One sample, the index opened each time."""
    id, log, work = case.ids[0], str(case.log), f"1 of {case.samples:,} {case.name}"

    def ours() -> Sequence[object]:
        with evalindex.open(case.index_file) as index:
            return [index.read(log, id, as_="bytes")]

    return [
        Route(work, INSPECT, lambda: read_eval_log_samples_by_id(log, [(id, 1)])),
        Route(work, "bytes, opened anew", ours, target, repeat=20),
    ]


def slow(case: Case) -> list[Route]:
    """The two slow ways, once: the whole log, and one read a sample (scaled from a few)."""
    log = str(case.log)
    work = f"{case.work}, the slow ways"
    index = evalindex.open(case.index_file)

    def whole() -> Sequence[object]:
        wanted = set(case.ids)
        return [one for one in read_eval_log(log).samples or [] if one.id in wanted]

    def loop() -> Sequence[object]:
        for id in case.ids[:_SINGLES]:
            read_eval_log_sample(log, id)
        return case.ids

    return [
        Route(work, f"{INSPECT}, the whole log", whole, once=True),
        Route(work, f"{INSPECT}, {_SINGLES} single reads", loop, once=True),
        Route(work, "EvalSamples", lambda: index.read_samples(log, case.ids, as_="sample")),
    ]


_COLD = {
    INSPECT: """
from inspect_ai.log import read_eval_log_samples_by_id
assert len(list(read_eval_log_samples_by_id(log, [(id, 1) for id in ids]))) == len(ids)
""",
    "bytes": """
import evalindex
with evalindex.open(index) as opened:
    assert len(opened.read_samples(log, ids, as_="bytes")) == len(ids)
""",
    "dicts": """
import evalindex
with evalindex.open(index) as opened:
    assert [sample["id"] for sample in opened.read_samples(log, ids)] == ids
""",
    f"{FLOOR}, Python alone": "",
}


def cold(case: Case, *, bytes: float, dicts: float, get: float) -> list[Route]:
    """As whole processes."""
    keys = case.index_file.with_name("keys.csv")
    keys.write_text("log,id\n" + "".join(f"{case.log},{id}\n" for id in case.ids))
    targets = {"bytes": bytes, "dicts": dicts}
    command = [sys.executable, "-m", "evalindex", "get", "--keys", str(keys)]
    return [
        *(process(case, who, code(text, case), targets.get(who)) for who, text in _COLD.items()),
        process(case, "get --keys", [*command, "--out", f"{keys}.out"], get),
    ]


def _floor(case: Case) -> list[bytes]:
    """What has to be done, and no check but the CRC-32."""
    connection = sqlite3.connect(case.index_file)
    names = json.dumps([f"samples/{id}_epoch_1.json" for id in case.ids])
    descriptor = os.open(case.log, os.O_RDONLY)
    unpack = zstandard.ZstdDecompressor().decompress
    rows = connection.execute(
        "SELECT m.method, m.header_offset, m.compressed_size, m.uncompressed_size, m.crc32"
        " FROM json_each(?) AS n CROSS JOIN member AS m ON m.log_id ="
        " (SELECT max(log_id) FROM log) AND m.name = n.value",
        (names,),
    )
    found = []
    for method, offset, compressed, uncompressed, crc in rows:
        data = os.pread(descriptor, 30 + 64 + 64 + compressed, offset)
        start = 30 + int.from_bytes(data[26:28], "little") + data[28]
        packed = data[start : start + compressed]
        if method == zipfile.ZIP_DEFLATED:
            text = zlib.decompress(packed, -15, uncompressed)
        else:
            text = unpack(packed, max_output_size=uncompressed)
        if zlib.crc32(text) == crc:
            found.append(text)
    os.close(descriptor)
    connection.close()
    return found


def _floor_dicts(case: Case) -> list[object]:
    decode = msgspec.json.Decoder().decode
    return [decode(text) for text in _floor(case)]
