from __future__ import annotations

import random
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from evalindex.errors import NotAnEvalLog
from evalindex.zip import TAIL, End, find_end, parse_directory
from tests.builders import Entry, archive
from tests.test_zip import END, LOCATOR, MAXED, MOST, numbered, parsed, written


@st.composite
def mixed_entries(draw: st.DrawFn) -> list[Entry]:
    """Runs of names of equal length, broken anywhere by other lengths, extras and comments."""
    entries: list[Entry] = []
    shapes = st.tuples(
        st.integers(0, 70), st.integers(4, 6), st.sampled_from([b"", b"\x09\0\1\0x"]),
        st.sampled_from([b"", b"", b"c", b"PK\1\2"]),
    )  # fmt: skip
    for count, width, extra, comment in draw(st.lists(shapes, min_size=1, max_size=8)):
        for entry in numbered(count):
            number = len(entries)
            entries.append(
                entry._replace(
                    name=b"%0*d" % (width, number), extra=extra, comment=comment, crc32=number
                )
            )
    return entries


@settings(deadline=None)
@given(mixed_entries(), st.booleans())
def test_any_mixture_of_runs_is_what_was_written(entries: list[Entry], zip64: bool) -> None:
    directory = parsed(archive(entries, zip64=zip64))
    assert directory.members() == written(entries)
    assert (directory.superseded, directory.odd) == (0, 0)


def check_any(data: bytes) -> None:
    """Any bytes parse or raise NotAnEvalLog, and nothing else."""
    try:
        end = find_end(data[-TAIL:], len(data))
        assert 0 <= end.start <= end.stop <= len(data)
        directory = parse_directory(data[end.start : end.stop], end)
    except NotAnEvalLog:
        return
    found = len(directory.rows) + directory.superseded + directory.odd
    assert found == end.entries or (not end.zip64 and found & 0xFFFF == end.entries)
    for member in directory.members():
        assert all(0 <= value <= MOST for value in member[1:])
        assert member.name.encode() in data


FRAGMENTS = [
    END, LOCATOR, b"PK\6\6", b"PK\1\2", b"\xff" * 4, b"\xff" * 8, bytes(4), bytes(18), b"\1\0",
    archive([Entry(b"a", b"1")]), archive(numbered(20))[-22:], archive([], zip64=True),
]  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=30), max_size=12).map(b"".join))
def test_any_bytes_parse_or_are_no_log(data: bytes) -> None:
    check_any(data)


@settings(deadline=None, max_examples=500)
@given(st.randoms(use_true_random=False), st.booleans(), st.integers(1, 8), st.booleans())
def test_a_damaged_archive_parses_or_is_no_log(
    random: random.Random, zip64: bool, edits: int, cut: bool
) -> None:
    extra = struct.pack("<HH3Q", 1, 24, 1, 2, 3)
    wide = Entry(b"w", extra=extra, uncompressed_size=MAXED, compressed_size=MAXED, offset=MAXED)
    data = bytearray(archive([*numbered(20), wide, *numbered(3)], comment=b"c", zip64=zip64))
    for _ in range(edits):
        # Most of it is the directory; the end records are hit as often.
        low = random.choice([0, len(data) - 100])
        data[random.randrange(low, len(data))] = random.choice([0, 1, 0x50, 0xFF])
    check_any(bytes(data[: random.randrange(len(data))] if cut else data))


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 2**64), st.booleans())
def test_any_directory_bytes_parse_or_are_no_log(
    data: bytes, entries: int, shift: int, zip64: bool
) -> None:
    for prefix in (b"", b"PK\1\2"):
        whole = prefix + data
        try:
            parse_directory(whole, End(0, len(whole), entries, shift, zip64))
        except NotAnEvalLog:
            pass
