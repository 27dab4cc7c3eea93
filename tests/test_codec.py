from __future__ import annotations

import io
import struct
import subprocess
import sys
import threading
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from evalindex.codec import check_supported, data_start, unpack
from evalindex.errors import CorruptMember, UnsupportedMember
from evalindex.model import Member
from tests.builders import DEFLATE, STORED, ZSTD, Entry, archive, pack

METHODS = [STORED, DEFLATE, ZSTD]
TEXT = b"".join(b'{"id": %d}' % i for i in range(400))
#: Above this much, zstd members take another way through the codec.
LARGE = TEXT * 1500
MIB = 2**20


def member(packed: bytes, data: bytes, method: int, name: str = "m") -> Member:
    """The row that a log's directory would have for this."""
    return Member(name, 0, method, zlib.crc32(data), len(packed), len(data), 0)


def frame(data: bytes, *, content_size: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=content_size).compress(data)


def peak_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, LARGE, bytes(3 * MIB)])
def test_every_method_gives_the_bytes_that_were_packed(method: int, data: bytes) -> None:
    packed = pack(data, method)
    assert unpack(member(packed, data, method), packed) == data
    assert unpack(member(packed, data, method), memoryview(packed)) == data


@pytest.mark.parametrize("method", METHODS)
def test_what_zipfile_wrote_is_what_zipfile_reads(method: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        zipped.writestr("a", TEXT)
        zipped.writestr("b", LARGE)
        for info in zipped.infolist():
            row = Member(
                info.filename, info.flag_bits, info.compress_type, info.CRC,
                info.compress_size, info.file_size, info.header_offset,
            )  # fmt: skip
            data = memoryview(file.getvalue())[info.header_offset :]
            start = data_start(row, data)
            assert unpack(row, data[start : start + row.compressed_size]) == zipped.read(info)


@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        [TEXT, TEXT],
        [TEXT, b"x"],
        [b"x", TEXT],
        [b"", TEXT],
        [TEXT, b""],
        [b"", b"", TEXT, b"", b"x"],
        [LARGE, b"x"],
        [b"x", LARGE],
        [LARGE, LARGE],
    ],
    ids=lambda parts: "+".join(str(len(part)) for part in parts),
)
def test_a_zstd_member_is_read_across_its_frames(parts: list[bytes], content_size: bool) -> None:
    data = b"".join(parts)
    packed = b"".join(frame(part, content_size=content_size) for part in parts)
    assert unpack(member(packed, data, ZSTD), packed) == data


def test_the_first_of_several_frames_is_not_the_whole_member() -> None:
    first, packed = frame(TEXT), frame(TEXT) + frame(b"more")
    # A directory that says so would have to have the CRC of the whole.
    wrong = member(packed, TEXT + b"more", ZSTD)._replace(uncompressed_size=len(TEXT))
    with pytest.raises(CorruptMember):
        unpack(wrong, packed)
    with pytest.raises(CorruptMember):
        unpack(member(first, TEXT + b"more", ZSTD), first)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [TEXT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.99])
def test_truncated_data_is_corrupt(method: int, data: bytes, kept: float) -> None:
    packed = pack(data, method)
    cut = packed[: int(len(packed) * kept)]
    with pytest.raises(CorruptMember, match="the log ends inside"):
        unpack(member(packed, data, method), cut)
    # The same if the directory knows no better.
    with pytest.raises(CorruptMember):
        unpack(member(packed, data, method)._replace(compressed_size=len(cut)), cut)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", TEXT], ids=["empty", "text"])
def test_a_wrong_crc_is_corrupt(method: int, data: bytes) -> None:
    packed = pack(data, method)
    row = member(packed, data, method)
    with pytest.raises(CorruptMember, match="CRC-32"):
        unpack(row._replace(crc32=row.crc32 ^ 1), packed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, LARGE], ids=["0", "1", "small", "large"])
@pytest.mark.parametrize("off_by", [-1000, -1, 1, 1000])
def test_another_length_than_declared_is_corrupt_even_if_the_crc_is_right(
    method: int, data: bytes, off_by: int
) -> None:
    size = len(data) + off_by
    if size < 0:
        return
    packed = pack(data, method)
    said = data[:size]  # as much as a reader that stops there would check
    row = member(packed, data, method)._replace(uncompressed_size=size)
    with pytest.raises(CorruptMember):
        unpack(row, packed)
    with pytest.raises(CorruptMember):
        unpack(row._replace(crc32=zlib.crc32(said)), packed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [TEXT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("after", [b"\0", b"junk" * 50, frame(b"another")])
def test_trailing_data_never_changes_the_bytes(method: int, data: bytes, after: bytes) -> None:
    packed = pack(data, method) + after
    try:
        assert unpack(member(packed, data, method), packed) == data
    except CorruptMember:
        pass


@pytest.mark.parametrize("flags", [0x1, 0x40, 0x2000, 0x2041, 0x809])
def test_an_encrypted_member_is_unsupported(flags: int) -> None:
    row = member(TEXT, TEXT, STORED)._replace(flags=flags)
    with pytest.raises(UnsupportedMember, match="encrypted"):
        check_supported(row)
    with pytest.raises(UnsupportedMember, match="encrypted"):
        unpack(row, TEXT)


@pytest.mark.parametrize("flags", [0, 0x2, 0x8, 0x800, 0x808])
def test_other_flags_do_not_matter(flags: int) -> None:
    assert unpack(member(TEXT, TEXT, STORED)._replace(flags=flags), TEXT) == TEXT


@pytest.mark.parametrize("method", [1, 9, 12, 14, 20, 95, 99, 0xFFFF])
def test_an_unknown_method_is_unsupported_and_named(method: int) -> None:
    row = member(TEXT, TEXT, method)
    with pytest.raises(UnsupportedMember, match=f"method {method}") as caught:
        unpack(row, TEXT)
    assert caught.value.hint
    assert "'m'" in str(caught.value)


BOMB = bytes(128 * MIB)
BOMBS = {
    "stored": (STORED, BOMB[: 16 * MIB]),
    "deflate": (DEFLATE, pack(BOMB, DEFLATE)),
    "zstd": (ZSTD, frame(BOMB)),
    "zstd that says its size": (ZSTD, frame(BOMB, content_size=True)),
    "zstd of two frames": (ZSTD, frame(bytes(1000)) + frame(BOMB)),
    "zstd of two frames that say it": (
        ZSTD,
        frame(bytes(500), content_size=True) + frame(BOMB, content_size=True),
    ),
}


@pytest.mark.parametrize(("method", "packed"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_corrupt_before_it_fills_the_memory(method: int, packed: bytes) -> None:
    row = member(packed, bytes(1000), method)
    view = memoryview(packed)

    def work() -> None:
        # Corrupt, unless the declared bytes are right and only what follows them is too much.
        try:
            assert unpack(row, view) == bytes(1000)
        except CorruptMember:
            pass
        with pytest.raises(CorruptMember):
            unpack(row._replace(crc32=1), view)

    assert peak_memory(work) < 8 * MIB


@pytest.mark.parametrize("size", [2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("method", METHODS)
def test_an_impossible_size_is_corrupt_and_never_reserved(method: int, size: int) -> None:
    packed = pack(TEXT, method)
    row = member(packed, TEXT, method)._replace(uncompressed_size=size)

    def work() -> None:
        with pytest.raises(CorruptMember):
            unpack(row, packed)

    assert peak_memory(work) < MIB


HIGH_WATER = """
import random, sys, zlib, zstandard
from evalindex.codec import unpack
from evalindex.errors import CorruptMember
from evalindex.model import Member

def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))

data = random.Random(1).randbytes(2**18)
for method, packed in ((93, zstandard.compress(data)), (8, zlib.compress(data)[2:-4]), (0, data)):
    before = peak()
    try:
        unpack(Member("m", 0, method, 0, len(packed), 2**32, 0), packed)
    except CorruptMember:
        print((peak() - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_possible_but_false_size_touches_no_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIGH_WATER], capture_output=True, text=True, check=True
    )
    assert [int(mib) < 64 for mib in done.stdout.split()] == [True] * 3


@pytest.mark.parametrize("extra", [0, 20, 63, 64, 65, 1000, 65_535])
def test_the_data_starts_behind_a_local_extra_field_of_any_length(extra: int) -> None:
    data = archive([Entry(b"name", TEXT, local_extra=bytes(extra))])
    row = member(TEXT, TEXT, STORED, "name")
    start = data_start(row, data)
    assert start == 34 + extra
    assert unpack(row, data[start : start + len(TEXT)]) == TEXT
    # The start may lie beyond what was read so far.
    assert data_start(row, data[:34]) == start


@pytest.mark.parametrize("there", [b"nam", b"names", b"nbme", b"", b"Name", b"\xff\xfe\xfd\xfc"])
def test_another_local_name_is_corrupt(there: bytes) -> None:
    data = archive([Entry(b"name", TEXT, local_name=there)])
    with pytest.raises(CorruptMember, match="is where 'name' should be"):
        data_start(member(TEXT, TEXT, STORED, "name"), data)


@pytest.mark.parametrize("name", ["é", "日本/🙂", "a\nb", ""])
def test_local_names_are_compared_as_bytes(name: str) -> None:
    data = archive([Entry(name.encode(), TEXT)])
    assert data_start(member(TEXT, TEXT, STORED, name), data) == 30 + len(name.encode())


def test_another_local_name_is_corrupt_at_the_end_of_the_log_too() -> None:
    # There is less to read than the name that is asked for: the data of `x` must not be taken.
    header = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 4, 4, 1, 0)
    with pytest.raises(CorruptMember):
        data_start(member(TEXT, TEXT, STORED, "samples/long_epoch_1.json"), header + b"xDATA")


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"PK\3\4" + bytes(25), bytes(100), b"{" * 100])
def test_no_local_header_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptMember, match="no member 'm' at offset"):
        data_start(member(TEXT, TEXT, STORED), data)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(METHODS), st.integers(0), st.integers(0, 7))
def test_a_flipped_bit_anywhere_gives_the_right_bytes_or_an_error(
    method: int, byte: int, bit: int
) -> None:
    packed = pack(TEXT, method)
    row = member(packed, TEXT, method, "name")
    log = bytearray(archive([Entry(b"name", TEXT, method)]))
    log[byte % (34 + len(packed))] ^= 1 << bit
    try:
        start = data_start(row, bytes(log))
        assert unpack(row, bytes(log[start : start + len(packed)])) == TEXT
    except CorruptMember:
        return
    # What the directory says better may be damaged in the local header, padding may be too.
    assert method != STORED or byte % (34 + len(packed)) < 28


@settings(deadline=None)
@given(st.sampled_from(METHODS), st.binary(max_size=300), st.integers(0, 400), st.integers(0))
def test_bytes_of_a_wrong_crc_are_corrupt_whatever_they_are(
    method: int, packed: bytes, size: int, crc32: int
) -> None:
    row = Member("m", 0, method, crc32 & 0xFFFFFFFF, len(packed), size, 0)
    with pytest.raises(CorruptMember):
        unpack(row._replace(crc32=row.crc32 + 2**32), packed)


def test_a_thread_goes_on_after_a_corrupt_member() -> None:
    packed = frame(TEXT)
    for bad in (packed[:50], b"junk", frame(TEXT * 9)[:-9], packed[:30] + packed):
        with pytest.raises(CorruptMember):
            unpack(member(bad, TEXT, ZSTD), bad)
        assert unpack(member(packed, TEXT, ZSTD), packed) == TEXT


def test_threads_do_not_disturb_each_other() -> None:
    packs = [(data, pack(data, ZSTD)) for data in (bytes([i]) * i * 10_000 for i in range(1, 9))]
    wrong: list[int] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        data, packed = packs[number]
        two = packed + packed
        for _ in range(100):
            if unpack(member(packed, data, ZSTD), packed) != data:
                wrong.append(number)
            if unpack(member(two, data + data, ZSTD), two) != data + data:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
