"""Spans -> bytes: members of one open log, with the fewest reads, each one checked (law 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from evalindex import codec, spans
from evalindex.errors import CorruptMember, UnsupportedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from evalindex.model import Member
    from evalindex.spans import Span
    from evalindex.stores import LogFile

    Content = bytes | CorruptMember | UnsupportedMember
    Fetched = tuple[Member, Content]


class Threads(Protocol):
    """Grants threads, or requests at a time, for as long as the context is held."""

    def __call__(self, wanted: int, *, distant: bool) -> AbstractContextManager[int]: ...


#: Reading over a gap costs less than another system call up to here. Over a network a larger one
#: would save hardly a request of many scattered ones, but read much that nobody wants.
GAP = 4 * 2**10
SPAN_LIMIT = 4 * 2**20
_WORTH_THREADS = 2 * 2**20


def fetch(
    file: LogFile,
    members: Iterable[Member],
    threads: Threads | None = None,
) -> Iterator[Fetched]:
    """Each member with its bytes, or with what is wrong with it; in file order.

    Much work is split among threads, as many as `threads` grants while it is going on, by the
    megabyte: reading, decompressing and summing let go of the GIL, while a thread hop per member
    would cost more than most members. Of a remote log each span is a request for a thread.
    """
    planned = spans.plan(members, file.size, gap=GAP, limit=SPAN_LIMIT)
    if (
        threads
        and len(planned) > 1
        and (file.distant or sum(s.stop - s.start for s in planned) > _WORTH_THREADS)
    ):
        with threads(len(planned), distant=file.distant) as granted:
            if granted > 1:
                yield from _read_in_threads(file, planned, granted)
                return
    for span in planned:
        yield from _read(file, span)


def fetch_one(file: LogFile, member: Member) -> Content:
    """The same for one member, which is the case of many logs with one wanted sample each."""
    data = memoryview(file.read(*spans.extent(member, file.size)))
    try:
        return _unpack(member, data, file)
    except (CorruptMember, UnsupportedMember) as error:
        return error


def _read_in_threads(file: LogFile, planned: list[Span], threads: int) -> Iterator[Fetched]:
    from concurrent.futures import ThreadPoolExecutor

    def read(span: Span) -> list[Fetched]:
        return list(_read(file, span))

    with ThreadPoolExecutor(threads, thread_name_prefix="evalindex-read") as pool:
        try:
            parts = pool.map(read, planned)
        except RuntimeError:  # no thread can be started any more
            parts = map(read, planned)
        for part in parts:
            yield from part


def _read(file: LogFile, span: Span) -> Iterator[Fetched]:
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
