"""Streams: the member's own bytes, in bounded memory, proved at their end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

import evalindex
from evalindex.stores import local
from tests.builders import (
    DEFLATE,
    PEAK,
    STORED,
    ZSTD,
    Entry,
    archive,
    encoded,
    members_by_zipfile,
    pack,
    sample,
    write_log,
)

BIG = sample(1, pad=["x" * 1000, "y" * 1000] * 1000)


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_a_stream_gives_the_members_bytes(tmp_path: Path, method: int) -> None:
    log = write_log(tmp_path / "logs" / "run.eval", [sample(0), BIG, sample(2)], method=method)
    evalindex.build(log.parent)
    expected = members_by_zipfile(log)["samples/1_epoch_1.json"]
    with evalindex.open(log.parent) as index:
        with index.stream(log, 1) as file:
            assert file.read() == expected
            assert file.read() == b""
        with index.stream(log, 1) as file:
            assert json.load(file) == BIG
        with index.stream(log, 1) as file:
            parts = iter(lambda: file.read(777), b"")
            assert b"".join(parts) == expected


def test_a_stream_reads_across_frames(tmp_path: Path) -> None:
    data = encoded(BIG)
    frames = pack(data[:100_000], ZSTD) + pack(data[100_000:], ZSTD)
    log = tmp_path / "run.eval"
    log.write_bytes(archive([Entry(b"samples/1_epoch_1.json", data, ZSTD, packed=frames)]))
    with evalindex.open(log) as index, index.stream(log, 1) as file:
        assert file.read() == data


def _damaged(kind: str) -> Entry:
    data = encoded(BIG)
    packed = pack(data, ZSTD)
    entry = Entry(b"samples/1_epoch_1.json", data, ZSTD, packed=packed)
    if kind == "crc":
        return entry._replace(crc32=1)
    if kind == "too long":
        return entry._replace(uncompressed_size=len(data) - 1)
    if kind == "too short":
        return entry._replace(uncompressed_size=len(data) + 1)
    if kind == "cut":
        return entry._replace(packed=packed[:-9])
    if kind == "more frames":
        return entry._replace(packed=packed + pack(b"more", ZSTD))
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    return entry._replace(packed=bytes(flipped))


@pytest.mark.parametrize("size", [-1, 1_000, 10_000_000])
@pytest.mark.parametrize(
    "kind", ["crc", "too long", "too short", "cut", "more frames", "flipped bits"]
)
def test_a_bad_end_raises_and_is_never_an_end_of_file(tmp_path: Path, kind: str, size: int) -> None:
    log = tmp_path / "run.eval"
    log.write_bytes(archive([_damaged(kind)]))
    with evalindex.open(log) as index, index.stream(log, 1) as file:
        with pytest.raises(evalindex.CorruptMember) as caught:
            _read_all(file, size)
        assert caught.value.log == str(log)


def _read_all(file: io.BufferedReader, size: int) -> None:
    while file.read(size):
        pass


def test_a_stream_is_opened_on_the_log_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SETTLED_NS", -(10**9))
    log = write_log(tmp_path / "logs" / "run.eval", [sample(1, v="old")])
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        write_log(log, [sample(0), sample(1, v="new")])
        with index.stream(log, 1) as file:
            write_log(log.with_name("other.eval"), [sample(9)]).rename(log)
            assert json.load(file)["v"] == "new", "what was opened is read to its end"
        with pytest.raises(evalindex.SampleNotFound):
            index.stream(log, 1)


def test_what_cannot_be_streamed_is_named(tmp_path: Path) -> None:
    log = tmp_path / "run.eval"
    name = b"samples/1_epoch_1.json"
    log.write_bytes(archive([Entry(name, b"{}", flags=1), Entry(b"samples/2_epoch_1.json", b"")]))
    with evalindex.open(log) as index:
        with pytest.raises(evalindex.UnsupportedMember):
            index.stream(log, 1)
        with pytest.raises(evalindex.SampleNotFound, match="near"):
            index.stream(log, "1 ")
        with pytest.raises(evalindex.LogNotFound):
            index.stream(tmp_path / "none.eval", 1)
        with index.stream(log, 2) as file:
            assert isinstance(file, io.BufferedReader)
            assert file.read() == b""


_STREAM = f"""{PEAK}
import sys
import evalindex, evalindex.stream
with evalindex.open(sys.argv[1]) as index:
    with index.stream(sys.argv[1], 0) as file:
        file.read()
    before = peak()
    with index.stream(sys.argv[1], 1) as file:
        size = sum(len(part) for part in iter(lambda: file.read(1 << 20), b""))
    print(size, peak() - before)
"""


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_a_stream_of_300_mb_takes_little_memory(tmp_path: Path, method: int) -> None:
    data = b'{"id": 1, "epoch": 1, "pad": "' + b"0123456789" * 30_000_000 + b'"}'
    log = tmp_path / "run.eval"
    small = Entry(b"samples/0_epoch_1.json", b"{}", method)
    log.write_bytes(archive([small, Entry(b"samples/1_epoch_1.json", data, method)]))
    command = [sys.executable, "-c", _STREAM, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    size, grown_kib = map(int, done.stdout.split())
    assert size == len(data)
    assert grown_kib < 16 * 1024


def test_compression_of_the_builders_has_no_content_size() -> None:
    assert zstandard.get_frame_parameters(pack(b"x" * 100, ZSTD)).content_size in (0, 2**64 - 1)


def test_a_stream_that_could_not_be_opened_closes_nobody_elses_file(tmp_path: Path) -> None:
    """The number of its descriptor may be another file's by the time that the error is dropped."""
    log = tmp_path / "run.eval"
    log.write_bytes(archive([Entry(b"samples/1_epoch_1.json", b"{}", flags=1)]))
    with evalindex.open(log) as index:
        kept: list[BaseException] = []
        try:
            index.stream(log, 1)
        except evalindex.UnsupportedMember as error:
            kept.append(error)
        with log.open("rb") as file:
            kept.clear()
            assert file.read(2) == b"PK"
