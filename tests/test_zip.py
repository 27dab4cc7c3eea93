from __future__ import annotations

import io
import struct
import warnings
import zipfile

import pytest

from evalindex.errors import NotAnEvalLog
from evalindex.model import Member
from evalindex.zip import TAIL, Directory, find_end, parse_directory, parse_local_header
from tests.builders import DEFLATE, ZSTD, Entry, archive

END = b"PK\5\6"
LOCATOR = b"PK\6\7"
MAXED = 0xFFFFFFFF
MOST = 2**63 - 1


def parsed(data: bytes) -> Directory:
    """As a reader does it: the tail, then the directory."""
    end = find_end(data[-TAIL:], len(data))
    return parse_directory(data[end.start : end.stop], end)


def numbered(count: int) -> list[Entry]:
    """Entries of one length, each with values of its own in every field."""
    return [
        Entry(
            b"%06d" % i, flags=i & 0xFF, method=i % 99, packed=b"", offset=i * 5,
            crc32=i * 11, compressed_size=i * 13, uncompressed_size=i * 17,
        )
        for i in range(count)
    ]  # fmt: skip


def written(entries: list[Entry]) -> list[Member]:
    """What a directory must say of entries that overrule all their fields."""
    return [
        Member(
            e.name.decode(), e.flags, e.method, e.crc32 or 0, e.compressed_size or 0,
            e.uncompressed_size or 0, e.offset or 0,
        )
        for e in entries
    ]  # fmt: skip


def by_zipfile(data: bytes) -> list[Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [
            Member(
                i.filename, i.flag_bits, i.compress_type, i.CRC, i.compress_size, i.file_size,
                i.header_offset,
            )
            for i in file.infolist()
        ]  # fmt: skip


@pytest.fixture(scope="module")
def plain() -> bytes:
    entries = [Entry(b"samples/%d_epoch_1.json" % i, b"{%d}" % i, ZSTD) for i in range(40)]
    return archive([Entry(b"start", b"abc", DEFLATE, comment=b"c", extra=b"ab\0\0"), *entries])


def test_every_field_is_what_zipfile_reads(plain: bytes) -> None:
    assert parsed(plain).members() == by_zipfile(plain)


def test_an_empty_archive_has_no_members() -> None:
    assert parsed(archive([])) == Directory({}, 0, 0)


def test_a_member_is_found_by_its_whole_name_only(plain: bytes) -> None:
    directory = parsed(plain)
    assert directory.member("start") == by_zipfile(plain)[0]
    assert directory.member("star") is None


@pytest.mark.parametrize("count", [65_534, 65_535, 65_536, 70_000])
def test_any_number_of_members_is_read(count: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for i in range(count):
            zipped.writestr(f"{i}", b"")
    members = parsed(file.getvalue()).members()
    assert members == by_zipfile(file.getvalue())
    assert len(members) == count


@pytest.mark.parametrize(
    ("count", "comment"),
    [(0, b""), (1, b""), (1, b"of the archive"), (65_535, b""), (70_000, b"c")],
)
def test_a_needless_zip64_end_record_is_read(count: int, comment: bytes) -> None:
    entries = numbered(count)
    data = archive(entries, zip64=True, comment=comment)
    assert parsed(data).members() == written(entries)
    # The same, with the true values in the plain record too.
    at = len(data) - len(comment) - 22
    if count < 65_536:
        size, offset = (int.from_bytes(data[at - 76 + f :][:8], "little") for f in (40, 48))
        plain_record = struct.pack("<4H2IH", 0, 0, count, count, size, offset, len(comment))
        assert parsed(data[: at + 4] + plain_record + comment).members() == written(entries)


@pytest.mark.parametrize("count", [65_536, 70_000])
def test_a_count_that_wrapped_at_16_bits_loses_nothing(count: int) -> None:
    entries = numbered(count)
    assert parsed(archive(entries, count=count & 0xFFFF)).members() == written(entries)


@pytest.mark.parametrize("before", [b"", b"\x55\x54\x05\0hello", b"\x02\0\0\0"])
@pytest.mark.parametrize("marked", range(8))
def test_zip64_fields_are_taken_in_order_and_only_where_marked(marked: int, before: bytes) -> None:
    wide = [6 << 30, 5 << 30, 7 << 30]  # uncompressed, compressed, offset: the order of the extra
    plain = [60, 50, 70]
    bits = [bool(marked >> bit & 1) for bit in range(3)]
    values = [w for w, bit in zip(wide, bits, strict=True) if bit]
    usize, csize, offset = (MAXED if bit else p for p, bit in zip(plain, bits, strict=True))
    # A disk number and another field follow; with nothing marked they must not be taken either.
    field = struct.pack(f"<{len(values)}QI", *values, 9)
    extra = before + struct.pack("<HH", 1, len(field)) + field + b"\x03\0\x02\0zz"
    entry = Entry(b"m", extra=extra, uncompressed_size=usize, compressed_size=csize, offset=offset)
    (member,) = parsed(archive([entry])).members()
    expected = [w if bit else p for w, p, bit in zip(wide, plain, bits, strict=True)]
    assert [*member[5:3:-1], member.header_offset] == expected


def test_a_maxed_field_without_a_zip64_extra_keeps_its_value() -> None:
    entry = Entry(b"m", extra=b"\x02\0\0\0", uncompressed_size=MAXED)
    (member,) = parsed(archive([entry])).members()
    assert member.uncompressed_size == MAXED


@pytest.mark.parametrize("length", [0, 7, 15])
def test_a_zip64_extra_that_is_too_short_is_an_error(length: int) -> None:
    extra = struct.pack("<HH", 1, length) + bytes(length)
    entry = Entry(b"m", extra=extra, uncompressed_size=MAXED, compressed_size=MAXED)
    with pytest.raises(NotAnEvalLog):
        parsed(archive([entry]))


def test_no_number_exceeds_what_the_index_can_store() -> None:
    extra = struct.pack("<HH3Q", 1, 24, 2**64 - 1, 2**64 - 1, 2**64 - 1)
    entry = Entry(b"m", extra=extra, uncompressed_size=MAXED, compressed_size=MAXED, offset=MAXED)
    for data in (archive([entry]), b"shifted" + archive([entry])):
        (member,) = parsed(data).members()
        assert member[4:] == (MOST, MOST, MOST)


COMMENTS = {
    "short": b"hello",
    "64 KiB": b"x" * 65_535,
    "an empty archive's end record": END + bytes(18),
    "an end record of Zs": END + b"Z" * 18,
    "both": (END + bytes(18) + END + b"Z" * 18) * 3,
    "one and more": END + bytes(18) + b"tail",
    "signatures only": END * 16_383,
    "signature at the end": b"abc" + END,
    "an end record of no directory": struct.pack("<4s4H2IH", END, 0, 0, 1, 1, 46, 0, 0),
    "an end record on disk 1": struct.pack("<4s4H2IH", END, 1, 1, 1, 1, 46, 0, 0),
    "a zip64 end record": struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 0, 0, 0, 0)
    + struct.pack("<4sIQI", LOCATOR, 0, 0, 1)
    + struct.pack("<4s4H2IH", END, 0, 0, 0xFFFF, 0xFFFF, MAXED, MAXED, 0),
}


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("comment", COMMENTS.values(), ids=COMMENTS.keys())
def test_any_comment_is_read_over(comment: bytes, zip64: bool) -> None:
    entries = numbered(30)
    assert parsed(archive(entries, comment=comment, zip64=zip64)).members() == written(entries)


@pytest.mark.parametrize("junk", [b"\0", bytes(4096), b"junk" * 1000, END, END + b"Z" * 20])
def test_what_follows_the_archive_is_ignored(junk: bytes) -> None:
    entries = numbered(30)
    assert parsed(archive(entries) + junk).members() == written(entries)


STORED_SIGNATURES = [END + bytes(18), END + b"Z" * 18, LOCATOR + bytes(16), b"PK\1\2" + bytes(42)]


@pytest.mark.parametrize("junk", [b"", b"\0\0"])
@pytest.mark.parametrize("data", STORED_SIGNATURES)
def test_signatures_before_the_directory_are_data(data: bytes, junk: bytes) -> None:
    entries = [Entry(b"a", b"1"), Entry(b"b", data)]
    expected = by_zipfile(archive(entries))
    assert parsed(archive(entries) + junk).members() == expected
    assert parsed(archive(entries, before_directory=data) + junk).members() == expected


def test_a_false_locator_before_the_end_record_is_no_zip64() -> None:
    # Exactly 65,535 members and no ZIP64: the count looks maxed, and 20 bytes look like a locator.
    entries = numbered(65_534)
    last = Entry(b"last", comment=LOCATOR + bytes(16), crc32=1, offset=0)
    members = parsed(archive([*entries, last])).members()
    assert members[:-1] == written(entries)
    assert members[-1].name == "last"


def test_an_archive_in_a_member_or_followed_by_text_is_data() -> None:
    inner = archive([Entry(b"inner", b"x")])
    entries = [Entry(b"a", b"1"), Entry(b"b.zip", inner + b"text")]
    outer = archive(entries)
    assert parsed(outer).members() == by_zipfile(outer)
    assert [member.name for member in parsed(outer).members()] == ["a", "b.zip"]


@pytest.mark.parametrize("kind", ["comment", "extra"])
def test_what_looks_like_entries_in_a_comment_or_extra_field_is_none(kind: str) -> None:
    # As long as the whole, so that it looks like a run of entries of one length.
    length = 20 * 52
    lengths = (6, length, 0) if kind == "extra" else (6, 0, length)
    false = struct.pack("<4s24x3H12x6s", b"PK\1\2", *lengths, b"falsch") * 20
    entry = Entry(b"theone", **{kind: false})  # type: ignore[arg-type]
    assert [member.name for member in parsed(archive([entry] * 2)).members()] == ["theone"]


def test_an_extended_zip64_end_record_is_read() -> None:
    entries = numbered(30)
    data = archive(entries, zip64=True)
    record, rest = data[-98:-42], data[-42:]
    # The extension ends in what would be a record of an empty archive if its size fitted.
    extension = b"PK\6\6" + struct.pack("<Q", 9) + bytes(44)
    extended = record[:4] + struct.pack("<Q", 44 + len(extension)) + record[12:] + extension
    assert parsed(data[:-98] + extended + rest).members() == written(entries)


@pytest.mark.parametrize("at", [-98, -97, -94, -42, -40], ids=str)
def test_a_damaged_zip64_end_record_or_locator_is_an_error(at: int) -> None:
    data = bytearray(archive(numbered(30), zip64=True))
    data[at] ^= 1
    with pytest.raises(NotAnEvalLog):
        parsed(bytes(data))


@pytest.mark.parametrize("field", [4, 6])
def test_a_part_of_a_split_archive_is_an_error(field: int) -> None:
    data = bytearray(archive(numbered(30)))
    data[len(data) - 22 + field] = 1
    with pytest.raises(NotAnEvalLog):
        parsed(bytes(data))


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("before", [1, 1000, 100_000])
def test_prepended_bytes_shift_every_offset(plain: bytes, before: int, zip64: bool) -> None:
    data = plain if not zip64 else archive([Entry(b"%d" % i, b"x") for i in range(40)], zip64=True)
    shifted = bytes(before) + data
    assert parsed(shifted).members() == by_zipfile(shifted)
    assert parsed(shifted).members()[0].header_offset == before


@pytest.mark.parametrize("size", [0, 1, 21, 22, 5000])
def test_what_holds_no_end_record_is_no_log(size: int) -> None:
    with pytest.raises(NotAnEvalLog):
        find_end(b"{" * size, size)


def test_an_archive_cut_anywhere_is_an_error_never_a_short_list(plain: bytes) -> None:
    for stop in range(len(plain)):
        with pytest.raises(NotAnEvalLog):
            parsed(plain[:stop])


def test_a_directory_cut_anywhere_is_an_error_never_a_short_list(plain: bytes) -> None:
    end = find_end(plain, len(plain))
    directory = plain[end.start : end.stop]
    for stop in range(len(directory)):
        with pytest.raises(NotAnEvalLog, match="the archive ends inside"):
            parse_directory(directory[:stop], end)
        with pytest.raises(NotAnEvalLog):
            parse_directory(directory[:stop], end._replace(stop=end.start + stop))


@pytest.mark.parametrize("index", [1, 2, 15, 16, 17, 50, 99])
@pytest.mark.parametrize("byte", range(4))
def test_a_damaged_signature_is_an_error_wherever_it_is(index: int, byte: int) -> None:
    data = bytearray(archive(numbered(100)))
    end = find_end(bytes(data), len(data))
    data[end.start + index * 52 + byte] ^= 1
    with pytest.raises(NotAnEvalLog):
        parsed(bytes(data))


CONTRADICTIONS = [(40, 39, False), (40, 41, False), (40, 0, False), (70_000, 4463, False)]
CONTRADICTIONS += [(40, 39, True), (40, 41, True), (40, 0, True), (40, 65_576, True)]
CONTRADICTIONS += [(65_576, 40, True)]


@pytest.mark.parametrize(("count", "said", "zip64"), CONTRADICTIONS)
def test_a_count_that_contradicts_the_entries_is_an_error(
    count: int, said: int, zip64: bool
) -> None:
    with pytest.raises(NotAnEvalLog, match=r"its end record (counts|says)"):
        parsed(archive(numbered(count), count=said, zip64=zip64))


@pytest.mark.parametrize("off_by", [-104, -52, -1, 1, 52, 2**31, MAXED - 1, MAXED])
@pytest.mark.parametrize("field", ["directory_size", "directory_offset"])
def test_a_directory_elsewhere_than_said_is_an_error(field: str, off_by: int) -> None:
    entries = numbered(40)
    true = {"directory_size": 40 * 52, "directory_offset": 40 * 36}[field]
    said = min(true + off_by, MAXED)
    data = archive(entries, **{field: said})  # type: ignore[arg-type]
    if field == "directory_offset" and off_by < 0:
        # Cannot be told from bytes put before the archive.
        assert parsed(data).members()[0].header_offset == -off_by
        return
    with pytest.raises(NotAnEvalLog):
        parsed(data)


@pytest.mark.parametrize("name", [b"\xff.json", b"a\0b", b"\0", b"\xed\xa0\x80", b"ab\xc3"])
@pytest.mark.parametrize("index", [0, 25, 50])
def test_a_name_that_is_no_text_is_counted_and_the_rest_is_read(name: bytes, index: int) -> None:
    entries = numbered(50)
    odd = Entry(name, crc32=1, offset=0)
    directory = parsed(archive([*entries[:index], odd, odd, *entries[index:]]))
    assert directory.members() == written(entries)
    assert (directory.odd, directory.superseded) == (2, 0)


def test_names_are_utf_8_whatever_the_flags() -> None:
    names = ["é", "日本", "🙂", "\n", "", "a/../b"]
    directory = parsed(archive([Entry(name.encode(), flags=0) for name in names]))
    assert [member.name for member in directory.members()] == names


def test_the_last_entry_of_a_name_wins_and_the_others_are_counted() -> None:
    entries = numbered(60)
    again = [entry._replace(crc32=99, offset=7) for entry in entries[10:13]]
    directory = parsed(archive([*entries, *again, *again, Entry(b"\xff")]))
    expected = {member.name: member for member in written([*entries, *again])}
    assert {member.name: member for member in directory.members()} == expected
    assert len(directory.members()) == 60
    assert (directory.superseded, directory.odd) == (6, 1)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 128, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize("breaker", [b"", b"longer than six", b"\xc3\xa9"])
def test_runs_of_any_length_are_read(length: int, breaker: bytes) -> None:
    entries = numbered(length * 2 + 20)
    entries[length : length + 1] = [entries[length]._replace(name=breaker)]
    assert parsed(archive(entries)).members() == written(entries)


def test_the_local_header_says_where_the_data_starts() -> None:
    data = archive([Entry(b"name", b"DATA", local_extra=b"\1\0\0\0")])
    found = parse_local_header(data)
    assert found is not None
    start, name = found
    assert (name, data[start : start + 4]) == (b"name", b"DATA")


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"PK\3\4" + bytes(25), b"PK\1\2" + bytes(60)])
def test_what_is_no_local_header_is_none(data: bytes) -> None:
    assert parse_local_header(data) is None


def test_zipfile_appending_to_a_log_supersedes_members() -> None:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for content in (b"old", b"new"):
            with zipfile.ZipFile(file, "a") as zipped:
                zipped.writestr("sample", content)
    directory = parsed(file.getvalue())
    assert directory.member("sample") == by_zipfile(file.getvalue())[-1]
    assert directory.superseded == 1
