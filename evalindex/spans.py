"""The planner: members in, the fewest bounded range reads out. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evalindex.zip import LOCAL_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evalindex.model import Member

#: A local extra field is 0 or 20 bytes in inspect's logs; a larger one costs a second read.
_SLACK = 64


class Span(NamedTuple):
    """A half-open byte range of a log, and the members that lie in it."""

    start: int
    stop: int
    members: tuple[Member, ...]


def extent(member: Member, size: int) -> tuple[int, int]:
    """The range that holds a member's local header and data in a log of `size` bytes.

    The name is counted at its longest, 4 bytes a character being cheaper than encoding it. The
    directory says nothing about the length of the local extra field, so some slack is added.
    """
    start = min(member.header_offset, size)
    name_size = len(member.name) if member.name.isascii() else 4 * len(member.name)
    stop = start + LOCAL_SIZE + name_size + _SLACK + member.compressed_size
    return start, min(stop, size)


def plan(members: Iterable[Member], size: int, *, gap: int, limit: int) -> list[Span]:
    """Merge the members of a log of `size` bytes into spans, in file order.

    Two neighbours share a span if at most `gap` bytes between them are wanted by nobody and the
    span stays within `limit` bytes; a member larger than that has a span of its own. Members may
    overlap, or lie outside the log; every one is in exactly one span.
    """
    spans: list[Span] = []
    group: list[Member] = []
    start = stop = 0
    for first, last, member in sorted((*extent(m, size), m) for m in members):
        if group and first <= stop + gap and max(stop, last) - start <= limit:
            group.append(member)
            stop = max(stop, last)
            continue
        if group:
            spans.append(Span(start, stop, tuple(group)))
        group, start, stop = [member], first, last
    if group:
        spans.append(Span(start, stop, tuple(group)))
    return spans
