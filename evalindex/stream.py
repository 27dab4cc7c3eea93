"""One member as a stream: bounded memory, checked at its end (law 2)."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Any

from evalindex import codec
from evalindex.errors import CorruptMember, EvalIndexError
from evalindex.heal import absence
from evalindex.parts import find_member, proved_members, wanted_member
from evalindex.request import chunked_refused, is_chunked
from evalindex.spans import extent

if TYPE_CHECKING:
    from evalindex.heal import Healer, LogInCall
    from evalindex.known import Known
    from evalindex.model import Member
    from evalindex.place import Spot
    from evalindex.request import Request
    from evalindex.stores import LogFile

_CHUNK = 256 * 2**10
# A local header whose name is as long as the format allows, and some of its extra field.
_HEADER = 30 + 65_535 + 64
_REMOTE_PART = 4 * 2**20


class MemberStream(io.RawIOBase):
    """The uncompressed bytes of a member. What was read is provisional until `read` gives `b""`:
    only then are length and CRC-32 known to be right; otherwise that read raises. Closing the
    stream closes the log."""

    def __init__(self, file: LogFile, member: Member, location: str) -> None:
        """Raises what is wrong with the member's local header, method or flags."""
        super().__init__()
        self._file = file
        self._member = member
        self._location = location
        codec.check_supported(member)
        start, stop = extent(member, file.size)
        first = file.read(start, min(stop, start + _HEADER))
        data = codec.data_start(member, first)
        source = _Source(file, start + data, start + data + member.compressed_size, first[data:])
        self._source = codec.open_member(member, source)
        self._left = member.uncompressed_size
        self._crc32 = 0
        self._failed: EvalIndexError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises `CorruptMember` where the member goes wrong, never an end of file."""
        most = min(len(buffer), _CHUNK)
        if not most:
            return 0
        if self._failed is not None:
            raise self._failed
        try:
            data = self._read(most)
        except codec.DAMAGE as error:
            self._failed = CorruptMember(
                f"member {self._member.name!r} cannot be decompressed: {error}", log=self._location
            )
            raise self._failed from None
        except EvalIndexError as error:
            error.log = error.log or self._location
            self._failed = error
            raise
        buffer[: len(data)] = data
        return len(data)

    def _read(self, most: int) -> bytes:
        # One byte more than there should be, so that a member that goes on is noticed.
        data = self._source.read(min(most, self._left) or 1)
        self._left -= len(data)
        self._crc32 = zlib.crc32(data, self._crc32)
        if self._left < 0 or (self._left and not data):
            raise CorruptMember(f"member {self._member.name!r} does not have the length it should")
        if not self._left:
            codec.check_crc(self._member, self._crc32)
        return data

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Source:
    """The compressed bytes of a member, as a file."""

    def __init__(self, file: LogFile, start: int, stop: int, first: bytes) -> None:
        """`first` are bytes from the start on that were read already."""
        self._file = file
        self._part = memoryview(first)[: stop - start]
        self._at = start + len(self._part)
        self._stop = stop

    def read(self, size: int) -> bytes:
        if not self._part:
            part = max(size, _REMOTE_PART) if self._file.distant else size
            self._part = memoryview(self._file.read(self._at, min(self._at + part, self._stop)))
            self._at += len(self._part)
        data = self._part[:size]
        self._part = self._part[size:]
        return bytes(data)


def open_stream(healer: Healer, request: Request) -> io.BufferedReader:
    """The requested sample's member, as it is now.

    The log is healed until the member is found where it should be; after that nothing is tried
    again, since bytes have been handed out.
    """

    def find(log: LogInCall, file: LogFile, known: Known) -> MemberStream:
        known, members = proved_members(healer, log, file, known, request)
        if not members:
            raise absence(known, request.sample, request.name)
        if is_chunked(request, members):
            raise chunked_refused(request, len(members))
        return MemberStream(file, members[0], request.spot.location)

    wanted = [] if request.name is None else [request.name]
    stream = healer.attempt(request.spot, wanted, find, pinned=True, keep_open=True)
    return io.BufferedReader(stream, _CHUNK)


def open_member_stream(healer: Healer, spot: Spot, name: str) -> io.BufferedReader:
    """Any member of a log. Raises `MemberNotFound`."""

    def find(log: LogInCall, file: LogFile, known: Known) -> MemberStream:
        return MemberStream(file, find_member(healer, log, file, known, name), spot.location)

    stream = healer.attempt(spot, wanted_member(name), find, pinned=True, keep_open=True)
    return io.BufferedReader(stream, _CHUNK)
