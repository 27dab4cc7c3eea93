"""One sample that is asked for, and the members of a log that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evalindex import names
from evalindex.errors import CorruptMember, EvalIndexError, UnsupportedMember
from evalindex.model import Member, SampleKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evalindex.known import Known
    from evalindex.place import Spot

#: What was read of a sample: the bytes of its member, or those of each part of a chunked one by
#: its name below what they have in common.
Content = bytes | dict[str, bytes]


class Request(NamedTuple):
    """One sample that is asked for: the caller's own key, the log, the key itself, and the name of
    the member that holds it in the usual shape (None if no member can).

    An `error` is the answer already: the log that the key names could not be told. A `uuid` must
    be that of the sample.
    """

    given: object
    spot: Spot
    id: str | int
    epoch: int
    name: str | None
    error: EvalIndexError | None = None
    uuid: str | None = None

    @property
    def sample(self) -> SampleKey:
        return SampleKey(self.spot.location, self.id, self.epoch)


def members_of(known: Known, request: Request) -> Sequence[Member]:
    """The members that hold a sample: one, or several if it is chunked; none if it is absent.

    Where both shapes are there, inspect prefers the single member.
    """
    if request.name is None:
        return ()
    member = known.find(request.name)
    if member is not None:
        return (member,)
    shell = known.find(names.chunked_name(request.name))
    if shell is None:
        return ()
    prefix = names.chunked_prefix(request.name)
    members = known.below(prefix)
    if shell not in members:
        raise CorruptMember("the index has another version of the log by now")
    # An id may look like a path, so another sample may lie there too.
    return [member for member in members if names.is_part(member.name[len(prefix) :])]


def is_chunked(request: Request, members: Sequence[Member]) -> bool:
    """Whether a sample that has members is chunked; even then it may be a single one."""
    return members[0].name != request.name


def chunked_refused(request: Request, count: int) -> UnsupportedMember:
    """A chunked sample has no bytes of its own."""
    return UnsupportedMember(
        f"id {request.id!r} epoch {request.epoch} is a chunked sample of {count:,} members",
        hint='as_="dict" puts them together, read_member reads each',
    )


def content_of(
    request: Request,
    members: Sequence[Member],
    found: dict[Member, bytes | CorruptMember | UnsupportedMember],
) -> Content | CorruptMember | UnsupportedMember:
    """What was found of a sample, or the first thing that is wrong with it."""
    if not is_chunked(request, members):
        return found[members[0]]
    assert request.name is not None
    prefix = len(names.chunked_prefix(request.name))
    parts: dict[str, bytes] = {}
    for member in members:
        part = found[member]
        if not isinstance(part, bytes):
            return part
        parts[member.name[prefix:]] = part
    return parts


def held(members: Iterable[Member]) -> int:
    """Bytes that members take while they are read; what claims to shrink may not."""
    size = 0
    for member in members:
        size += max(member.compressed_size, member.uncompressed_size)
    return size
