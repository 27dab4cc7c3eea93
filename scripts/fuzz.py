"""Coverage-guided fuzzing of the pure rooms: any bytes give what they say, or the one error.

    fuzz.py TARGET [libFuzzer options] [FOLDER]

Targets: directory, member, header, summaries, sample. FOLDER keeps what was found on the way.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import atheris

with atheris.instrument_imports(include=["evalindex"]):
    from evalindex import codec, decode, documents, headers, summaries
    from evalindex.errors import CorruptMember, UnsupportedMember
    from evalindex.model import Member

from tests.builders import DEFLATE, STORED, ZSTD, Entry, archive, encoded, pack
from tests.test_zip_any_bytes import FRAGMENTS, check_any

_NAME = b"samples/1_epoch_1.json"
_FACTS = struct.Struct("<HHIIQ")  # flags, method, CRC-32, compressed and uncompressed size

_SAMPLE: dict[str, Any] = {
    "id": 1, "epoch": 1, "uuid": "u", "input": "q", "target": ["a", "b"], "events": [{"event": 1}],
    "messages": [], "completed": True, "error": None, "limit": "time", "retries": 1,
    "scores": {"match": {"value": "C"}, "all": {"value": {"a": 1.5, "b": [1]}}},
    "model_usage": {"m": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
    "started_at": "2026-01-01T00:00:00", "total_time": 1.5, "message_count": 2,
}  # fmt: skip
_HEADER: dict[str, Any] = {
    "version": 2, "status": "success", "invalidated": False, "error": {"message": "m"},
    "eval": {
        "task": "t", "task_id": "i", "task_version": 1, "model": "m", "created": "2026-01-01",
        "dataset": {"name": "d", "samples": 2, "sample_ids": [1, "b"], "shuffled": True},
        "config": {"epochs": 2, "limit": [0, 2], "sample_id": ["b"]}, "tags": ["x"],
        "packages": {"inspect_ai": "0.3.285"}, "revision": {"commit": "c"},
    },
    "results": {
        "total_samples": 2, "completed_samples": 1,
        "scores": [{"name": "s", "scorer": "s", "metrics": {"mean": {"value": 0.5}}}],
    },
    "stats": {"started_at": "2026-01-01", "completed_at": "2026-01-02"},
}  # fmt: skip
_ODD: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, 2**70, 1.5, float("nan"), float("inf"), "", "x" * 300, "NaN",
    "\ud800", "\0", "1", [], {}, [[]], [None], {"": None}, {"value": {"value": 1}},
]  # fmt: skip


def directory(data: bytes) -> None:
    """An archive, or its end, parses or is no log."""
    check_any(data)


def member(data: bytes) -> None:
    """A local header and what follows it give bytes of the right length and CRC, or an error."""
    if len(data) < _FACTS.size:
        return
    flags, method, crc32, compressed, uncompressed = _FACTS.unpack_from(data)
    wanted = Member(_NAME.decode(), flags, method, crc32, compressed, uncompressed >> 1, 0)
    rest = data[_FACTS.size :]
    try:
        start = codec.data_start(wanted, rest)
        found = codec.unpack(wanted, rest[start : start + wanted.compressed_size])
    except (CorruptMember, UnsupportedMember):
        return
    assert len(found) == wanted.uncompressed_size
    assert zlib.crc32(found) == wanted.crc32


def _members() -> list[bytes]:
    found = []
    for method in (STORED, DEFLATE, ZSTD):
        body = encoded(_SAMPLE)
        packed = pack(body, method)
        facts = _FACTS.pack(0, method, zlib.crc32(body), len(packed), 2 * len(body))
        found.append(facts + archive([Entry(_NAME, body, method)]))
    return found


def header(data: bytes) -> None:
    try:
        headers.read_header(data)
    except CorruptMember:
        pass


def summary(data: bytes) -> None:
    try:
        summaries.add_summaries({}, documents.read_summaries(data))
    except CorruptMember:
        pass


def sample(data: bytes) -> None:
    """A sample is what `json` makes of it, whole or without a field."""
    try:
        found = decode.decode_sample(data, "1", 1)
    except CorruptMember:
        return
    expected = json.loads(data)
    assert json.dumps(found) == json.dumps(expected)  # NaN equals nothing
    without = decode.decode_sample(data, "1", 1, {"events"})
    expected.pop("events", None)
    assert json.dumps(without) == json.dumps(expected)


class Target(NamedTuple):
    """What is fed, and what to begin with; JSON is changed value by value too."""

    run: Callable[[bytes], None]
    seeds: list[bytes]
    is_json: bool = True


TARGETS = {
    "directory": Target(directory, FRAGMENTS, is_json=False),
    "member": Target(member, _members(), is_json=False),
    "header": Target(header, [encoded(_HEADER)]),
    "summaries": Target(summary, [encoded([_SAMPLE]), encoded([_SAMPLE, {"id": "b", "epoch": 2}])]),
    "sample": Target(sample, [encoded(_SAMPLE)]),
}


def change_value(data: bytes, size: int, seed: int) -> bytes:
    """Another value somewhere in a document; what is no document is changed byte by byte."""
    rng = random.Random(seed)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, (dict, list)) or rng.random() < 0.3:
        return bytes(atheris.Mutate(data, size))
    here: Any = document
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            break
        key = rng.choice(keys)
        if not isinstance(here[key], (dict, list)) or rng.random() < 0.3:
            here[key] = rng.choice(_ODD)
            break
        here = here[key]
    return encoded(document)[:size]


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    with tempfile.TemporaryDirectory() as seeds:
        for number, data in enumerate(target.seeds):
            (Path(seeds) / str(number)).write_bytes(data)
        more = {"custom_mutator": change_value} if target.is_json else {}
        kept = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        found = [] if kept else [tempfile.mkdtemp()]
        atheris.Setup([*sys.argv, *found, seeds], target.run, **more)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
