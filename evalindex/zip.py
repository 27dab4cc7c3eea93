"""Zip directories, sans-IO: bytes in, members out.

Knows the zip format (PKWARE APPNOTE 6.3.10) and nothing of Inspect, files or SQL. Any bytes
whatever either parse or raise `NotAnEvalLog`; a directory is returned whole or not at all.

    end = find_end(tail, size)                   # tail: the last TAIL bytes of the archive
    directory = parse_directory(data, end)       # data: the bytes [end.start, end.stop)
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error
from typing import NamedTuple

from evalindex.errors import NotAnEvalLog
from evalindex.model import Member

_ENTRY_SIGNATURE = b"PK\x01\x02"
_LOCAL_SIGNATURE = b"PK\x03\x04"
_END_SIGNATURE = b"PK\x05\x06"
_END64_SIGNATURE = b"PK\x06\x06"
_LOCATOR_SIGNATURE = b"PK\x06\x07"

_END = Struct("<4x4H2IH")  # disk, directory's disk, entries here, entries, length, offset, comment
_END64 = Struct("<4xQ4x2I4Q")  # record size, disks, entries here, entries, length, offset
_LOCATOR = Struct("<4xIQI")  # disk, offset of the ZIP64 end record, disks
_ENTRY = Struct("<4s4xHH4xIIIHHH8xI")
_LOCAL = Struct("<4s22xHH")
_EXTRA = Struct("<HH")
_U64 = Struct("<Q")

_ENTRY_SIZE = 46
LOCAL_SIZE = 30
_END64_SIZE = 56
_LONGEST_ENTRY = _ENTRY_SIZE + 3 * 65_535
_MAX16, _MAX32 = 0xFFFF, 0xFFFFFFFF
_MAX_STORED = 2**63 - 1

#: Bytes from the end of an archive that hold its end record whatever the comment, with the
#: ZIP64 record and locator before it.
TAIL = 22 + 65_535 + 20 + _END64_SIZE

#: The fields of `Member` behind its name, as the directory gives them, and the raw name.
_Row = tuple[int, int, int, int, int, int, bytes]


class End(NamedTuple):
    """What an end record says: the directory's bytes `[start, stop)` and how many there are.

    `shift` is how many bytes were put before the archive: every offset in it is off by as much.
    `zip64` is False if `entries` was written in 16 bits and may have wrapped.
    """

    start: int
    stop: int
    entries: int
    shift: int
    zip64: bool


class Directory(NamedTuple):
    """The live members by name, and how many entries are not among them.

    `superseded` entries were followed by another of the same name (the last one wins, as in
    zipfile and inspect); `odd` ones have a name that is not UTF-8, or holds a NUL.
    """

    rows: dict[str, _Row]
    superseded: int
    odd: int

    def member(self, name: str) -> Member | None:
        """The live member of this name."""
        row = self.rows.get(name)
        return None if row is None else Member(name, *row[:6])

    def members(self) -> list[Member]:
        """All live members, each where its name was first seen."""
        # A NamedTuple's own constructor would take twice as long.
        new = tuple.__new__
        return [new(Member, (name, *row[:6])) for name, row in self.rows.items()]


def find_end(tail: bytes, size: int) -> End:
    """Find the end record in the last `len(tail)` bytes of an archive of `size` bytes.

    `tail` must be the whole archive or at least its last `TAIL` bytes. Of several records, one
    whose comment ends with the archive beats one that is followed by junk, and a later one beats
    an earlier one, if what it says is possible at all: its signature may as well be part of a
    comment or of a stored member.
    """
    start = size - len(tail)
    exact: list[int] = []
    loose: list[int] = []
    at = tail.rfind(_END_SIGNATURE, 0, max(0, len(tail) - 18))
    while at >= 0:
        stop = at + 22 + int.from_bytes(tail[at + 20 : at + 22], "little")
        if stop == len(tail):
            exact.append(at)
        elif stop < len(tail):
            loose.append(at)
        # Signatures cannot overlap: 4 different bytes.
        at = tail.rfind(_END_SIGNATURE, 0, at)
    for at in (*exact, *loose):
        end = _read_end(tail, at, start)
        if end is not None:
            return end
    if not size:
        raise NotAnEvalLog("the file is empty")
    if exact or loose:
        raise NotAnEvalLog("its zip directory is not where its end record says")
    raise NotAnEvalLog("no zip end record: truncated, being written, or no zip archive")


def _read_end(tail: bytes, at: int, start: int) -> End | None:
    """What the record at `tail[at:]` says, None if that is impossible. `tail` begins at `start`."""
    disk, directory_disk, _, count, length, offset, _ = _END.unpack_from(tail, at)
    stop = start + at
    maxed = count == _MAX16 or _MAX32 in (length, offset)
    zip64 = None
    # An archive of exactly 65,535 members has a maxed count and no ZIP64 record; one with a
    # needless ZIP64 record has nothing maxed, but then its directory does not end here.
    if maxed or offset + length != stop:
        zip64 = _find_end64(tail, at, start)
    if zip64 is not None:
        stop, count64, length64, offset64 = zip64
        count = count64 if count == _MAX16 else count
        length = length64 if length == _MAX32 else length
        offset = offset64 if offset == _MAX32 else offset
    shift = stop - length - offset
    # A count in 16 bits may have wrapped, so it says only how many there are at least.
    most = count * _LONGEST_ENTRY if zip64 is not None else length
    if (
        shift < 0
        or not count * _ENTRY_SIZE <= length <= most
        or not {disk, directory_disk} <= {0, _MAX16}
    ):
        return None
    if not length:
        # Any 18 zero bytes after a signature claim to be an empty archive.
        return End(stop, stop, 0, 0, zip64 is not None) if not (count or shift) else None
    first = stop - length - start
    if first >= 0 and not tail.startswith(_ENTRY_SIGNATURE, first):
        return None
    return End(stop - length, stop, count, shift, zip64 is not None)


def _find_end64(tail: bytes, at: int, start: int) -> tuple[int, int, int, int] | None:
    """The ZIP64 end record's own offset, count, length and offset, if there is such a record."""
    locator = at - _LOCATOR.size
    if locator < 0 or not tail.startswith(_LOCATOR_SIGNATURE, locator):
        return None
    _, offset, _ = _LOCATOR.unpack_from(tail, locator)
    # Directly before the locator as a rule, elsewhere if the record was extended.
    for record in (locator - _END64_SIZE, offset - start):
        if 0 <= record <= locator - _END64_SIZE and tail.startswith(_END64_SIGNATURE, record):
            extent, _, _, _, count, length, first = _END64.unpack_from(tail, record)
            if record + 12 + extent == locator:
                return start + record, count, length, first
    return None


def parse_directory(data: bytes, end: End) -> Directory:
    """Parse the bytes `[end.start, end.stop)` of an archive."""
    if len(data) != end.stop - end.start:
        raise NotAnEvalLog("the archive ends inside its zip directory")
    try:
        rows = _read_rows(data)
    except error:
        raise NotAnEvalLog("its zip directory, or an entry in it, is cut short") from None
    if len(rows) != end.entries and (end.zip64 or len(rows) & _MAX16 != end.entries):
        raise NotAnEvalLog(
            f"its zip directory holds {len(rows):,} entries, its end record counts {end.entries:,}"
        )
    if end.shift:
        rows = [(*row[:5], min(row[5] + end.shift, _MAX_STORED), row[6]) for row in rows]
    try:
        names = b"\0".join([row[6] for row in rows]).decode().split("\0") if rows else []
    except UnicodeDecodeError:
        names = []
    odd = 0
    if len(names) != len(rows):
        count = len(rows)
        rows, names = _with_plain_names(rows)
        odd = count - len(rows)
    live = dict(zip(names, rows, strict=True))
    return Directory(live, len(rows) - len(live), odd)


def _read_rows(data: bytes) -> list[_Row]:
    # One unpack, one slice and one tuple an entry are 0.8 million entries/s. Logs name their
    # samples alike, so runs of entries of one length, with nothing behind the name, are common;
    # a run is checked by columns and unpacked in C, 2 to 3 times faster. Where a run is not
    # found none is looked for during the next entries, so that a mixed directory costs no more.
    rows: list[_Row] = []
    at, single = 0, 0
    while at < len(data):
        (
            signature,
            flags,
            method,
            crc32,
            compressed,
            uncompressed,
            name_size,
            extra_size,
            comment_size,
            offset,
        ) = _ENTRY.unpack_from(data, at)
        if signature != _ENTRY_SIGNATURE:
            raise NotAnEvalLog(f"its zip directory is damaged at entry {len(rows):,}")
        name_at = at + _ENTRY_SIZE
        stop = name_at + name_size
        if single:
            single -= 1
        elif not extra_size and not comment_size:
            stride = stop - at
            run = _run_length(data, at, stride)
            if run >= _SHORTEST_RUN:
                stop = at + run * stride
                rows.extend(_run_struct(name_size).iter_unpack(data[at:stop]))
                at = stop
                continue
            single = 8 * _SHORTEST_RUN
        if extra_size and _MAX32 in (compressed, uncompressed, offset):
            uncompressed, compressed, offset = _widen(
                data[stop : stop + extra_size], uncompressed, compressed, offset
            )
        rows.append((flags, method, crc32, compressed, uncompressed, offset, data[name_at:stop]))
        at = stop + extra_size + comment_size
    if at != len(data):
        raise NotAnEvalLog("its zip directory, or an entry in it, is cut short")
    return rows


_SHORTEST_RUN = 16
_LONGEST_RUN = 1024
_SAME_BYTES = (0, 1, 2, 3, 28, 29, 30, 31, 32, 33)  # signature; name, extra and comment length


def _run_length(data: bytes, at: int, stride: int) -> int:
    """How many entries from `at` on have the first one's signature and lengths."""
    run = min(_LONGEST_RUN, (len(data) - at) // stride)
    for byte in _SAME_BYTES:
        first = at + byte
        column = data[first : first + (run - 1) * stride + 1 : stride]
        run -= len(column.lstrip(column[:1]))
        if run < _SHORTEST_RUN:
            break
    return run


@lru_cache(maxsize=256)
def _run_struct(name_size: int) -> Struct:
    return Struct(f"<8xHH4xIII14xI{name_size}s")


def _widen(extra: bytes, *values: int) -> tuple[int, ...]:
    """Take 64-bit values from the ZIP64 extra field: in order, and only for maxed fields."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += 4
        if kind == 1:
            field = extra[at : at + length]
            wide = []
            for value in values:
                if value == _MAX32:
                    (value,), field = _U64.unpack_from(field), field[8:]
                # No file is this long: the member is listed, and found corrupt when read.
                wide.append(min(value, _MAX_STORED))
            return tuple(wide)
        at += length
    return values


def _with_plain_names(rows: list[_Row]) -> tuple[list[_Row], list[str]]:
    """The rows whose name is UTF-8 and has no NUL, and those names."""
    plain: list[_Row] = []
    names: list[str] = []
    for row in rows:
        try:
            name = row[6].decode()
        except UnicodeDecodeError:
            continue
        if "\0" not in name:
            plain.append(row)
            names.append(name)
    return plain, names


def parse_local_header(data: bytes | memoryview) -> tuple[int, bytes] | None:
    """Where a member's data starts in `data`, which begins at its local header, and the name there.

    None if no local header is there. The name is shorter than it should be if `data` is.
    """
    if len(data) < LOCAL_SIZE:
        return None
    signature, name_size, extra_size = _LOCAL.unpack_from(data)
    if signature != _LOCAL_SIGNATURE:
        return None
    stop = LOCAL_SIZE + name_size
    return stop + extra_size, bytes(data[LOCAL_SIZE:stop])
