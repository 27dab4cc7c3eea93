"""Spans -> bytes: members of one open log, with the fewest reads, each one checked (law 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalindex import codec, spans
from evalindex.errors import CorruptMember, UnsupportedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from evalindex.model import Member
    from evalindex.stores import LogFile

_GAP = 4 * 2**10  # reading over a gap costs less than a second system call up to here
_SPAN_LIMIT = 4 * 2**20


def fetch(
    file: LogFile, members: Iterable[Member]
) -> Iterator[tuple[Member, bytes | CorruptMember | UnsupportedMember]]:
    """Each member with its bytes, or with what is wrong with it; in file order."""
    for span in spans.plan(members, file.size, gap=_GAP, limit=_SPAN_LIMIT):
        data = memoryview(file.read(span.start, span.stop))
        for member in span.members:
            try:
                yield member, _unpack(member, data[member.header_offset - span.start :], file)
            except (CorruptMember, UnsupportedMember) as error:
                yield member, error


def _unpack(member: Member, data: memoryview, file: LogFile) -> bytes:
    """`data` begins at the member's local header and holds all of the member, unless the local
    extra field is unusually long."""
    start = codec.data_start(member, data)
    stop = start + member.compressed_size
    if stop <= len(data):
        return codec.unpack(member, data[start:stop])
    offset = member.header_offset
    return codec.unpack(member, file.read(offset + start, offset + stop))
