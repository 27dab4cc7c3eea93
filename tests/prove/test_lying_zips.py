"""Archives that say of themselves what is not so: the right bytes, or a named error."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import evalindex
from tests.builders import (
    DEFLATE,
    PEAK,
    STORED,
    ZSTD,
    Entry,
    archive,
    encoded,
    pack,
    sample,
    sample_member,
    settle,
)

FIRST, SECOND = encoded(sample(1, v="first")), encoded(sample(2, v="other"))
assert len(FIRST) == len(SECOND)
_NAME, _OTHER = sample_member(1).encode(), sample_member(2).encode()
_HEADER = Entry(b"header.json", b'{"version": 2, "status": "success"}')


def honest(method: int = STORED) -> list[Entry]:
    return [Entry(_NAME, FIRST, method), Entry(_OTHER, SECOND, method), _HEADER]


def told(entries: list[Entry], number: int, **lies: object) -> list[Entry]:
    """The entries, of which one lies."""
    changed = list(entries)
    changed[number] = entries[number]._replace(**lies)  # type: ignore[arg-type]
    return changed


#: Whether sample 1, and whether sample 2, can be read all the same.
LIES: dict[str, tuple[list[Entry], bool, bool]] = {
    "nothing": (honest(), True, True),
    "a wrong CRC": (told(honest(), 0, crc32=1), False, True),
    "the CRC of the other": (told(honest(), 0, crc32=zlib.crc32(SECOND)), False, True),
    "too short": (told(honest(), 0, compressed_size=9, uncompressed_size=9), False, True),
    "too long": (told(honest(), 0, compressed_size=10**6, uncompressed_size=10**6), False, True),
    "longer than it inflates": (told(honest(ZSTD), 0, uncompressed_size=10**6), False, True),
    "shorter than it inflates": (told(honest(DEFLATE), 0, uncompressed_size=9), False, True),
    "nothing to inflate": (told(honest(ZSTD), 0, uncompressed_size=0), False, True),
    "another local name": (told(honest(), 0, local_name=b"samples/7_epoch_1.json"), False, True),
    "the local name of the other": (told(honest(), 0, local_name=_OTHER), False, True),
    "encrypted": (told(honest(), 0, flags=1), False, True),
    "strongly encrypted": (told(honest(), 0, flags=0x41), False, True),
    "another method": (told(honest(ZSTD), 0, method=STORED, packed=pack(FIRST, ZSTD)), False, True),
    "an unknown method": (told(honest(), 0, method=99), False, True),
    "an offset behind the end": (told(honest(), 0, offset=2**31), False, True),
    "an offset within the other": (told(honest(), 0, offset=len(FIRST) + 90), False, True),
    "a large local extra field": (told(honest(), 0, local_extra=bytes(60_000)), True, True),
    "another body": ([Entry(_NAME, SECOND), Entry(_OTHER, SECOND), _HEADER], False, True),
}


def _second_offset(entries: list[Entry]) -> int:
    return archive(entries).index(b"PK\3\4", 1)


LIES["swapped offsets"] = (
    told(told(honest(), 0, offset=_second_offset(honest())), 1, offset=0),
    False,
    False,
)
LIES["the offset of the other"] = (
    told(honest(), 0, offset=_second_offset(honest())),
    False,
    True,
)
LIES["the same member twice, under two names"] = (told(honest(), 1, offset=0), True, False)


def streamed(index: evalindex.Index, log: Path, id: int) -> bytes:
    with index.stream(log, id) as file:
        return file.read()


@pytest.mark.parametrize("built", [True, False], ids=["indexed", "healed"])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_noticed_and_costs_no_other_sample(tmp_path: Path, lie: str, built: bool) -> None:
    entries, *readable = LIES[lie]
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    log.write_bytes(archive(entries if built else honest()))
    settle(log)
    evalindex.build(log.parent)
    log.write_bytes(archive(entries))
    settle(log)
    with evalindex.open(log.parent) as index:
        for id, body, fine in zip((1, 2), (FIRST, SECOND), readable, strict=True):
            ways: dict[str, Callable[[], object]] = {
                "dict": partial(index.read, log, id),
                "bytes": partial(index.read, log, id, as_="bytes"),
                "stream": partial(streamed, index, log, id),
            }
            for way, read in ways.items():
                # Bytes are the member's own, whose body is not looked into.
                if way != "dict" and lie == "another body" and id == 1:
                    assert read() == SECOND
                elif fine:
                    assert read() == (json.loads(body) if way == "dict" else body)
                else:
                    with pytest.raises((evalindex.CorruptMember, evalindex.UnsupportedMember)):
                        read()


@pytest.mark.parametrize("method", [DEFLATE, ZSTD])
def test_a_bomb_takes_no_more_memory_than_it_declares(tmp_path: Path, method: int) -> None:
    """It declares 1,000 bytes and inflates to 256 MiB, or declares what it cannot have."""
    packed = pack(bytes(2**28), method)
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    bombs = [
        Entry(sample_member(id).encode(), b"", method, packed=packed, uncompressed_size=size)
        for id, size in ((1, 1_000), (2, 2**32 - 2))
    ]
    log.write_bytes(archive([*bombs, Entry(sample_member(4).encode(), b"{}"), _HEADER]))
    settle(log)
    evalindex.build(log.parent)
    program = f"""{PEAK}
import sys, evalindex
with evalindex.open(sys.argv[1]) as index:
    log = sys.argv[1] + "/run.eval"
    index.read(log, 4, as_="bytes")
    before = peak()
    for id in (1, 2):
        try:
            index.read(log, id)
        except evalindex.CorruptMember:
            pass
        try:
            with index.stream(log, id) as file:
                while file.read(2**16):
                    pass
        except evalindex.CorruptMember:
            continue
        raise SystemExit("it was read")
    print(peak() - before)
"""
    command = [sys.executable, "-c", program, str(log.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 30 * 1024


def test_members_behind_4_gib_are_read(tmp_path: Path) -> None:
    """In a sparse file, with the offsets of ZIP64."""
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    far = 5 * 2**30
    local = archive([Entry(_NAME, FIRST)])[: 30 + len(_NAME) + len(FIRST)]
    with log.open("wb") as file:
        file.truncate(far)
        file.seek(far)
        file.write(local)
        start = file.tell()
        extra = struct.pack("<HHQ", 1, 8, far)
        entry = struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, STORED, 0, 33, zlib.crc32(FIRST), len(FIRST),
            len(FIRST), len(_NAME), len(extra), 0, 0, 0, 0, 0xFFFFFFFF,
        )  # fmt: skip
        file.write(entry + _NAME + extra)
        size, record = file.tell() - start, file.tell()
        file.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, start))
        file.write(struct.pack("<4sIQI", b"PK\6\7", 0, record, 1))
        file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, size, 0xFFFFFFFF, 0))
    settle(log)
    with zipfile.ZipFile(log) as file_by_zipfile:
        assert file_by_zipfile.read(_NAME.decode()) == FIRST
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        assert index.read(log, 1, as_="bytes") == FIRST
        with index.stream(log, 1) as file:
            assert file.read() == FIRST


@pytest.mark.parametrize("lie", LIES)
def test_verify_finds_each_lie(tmp_path: Path, lie: str) -> None:
    entries, *readable = LIES[lie]
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    log.write_bytes(archive(entries))
    settle(log)
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        findings = index.verify().findings
    assert {finding.where for finding in findings} == (set() if all(readable) else {str(log)})
    for finding in findings:
        assert finding.hint
