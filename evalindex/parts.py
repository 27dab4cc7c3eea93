"""Less than a sample: one member of a log, or a run of a sample's messages or events."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from evalindex import chunked, names
from evalindex.decode import check_identity, decode_sample
from evalindex.errors import CorruptMember, EvalIndexError, MemberNotFound
from evalindex.fetch import fetch
from evalindex.heal import absence
from evalindex.request import is_chunked, members_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evalindex.heal import Healer, LogInCall
    from evalindex.known import Known
    from evalindex.model import Member
    from evalindex.place import Spot
    from evalindex.request import Request
    from evalindex.stores import LogFile

Field = Literal["messages", "events"]


def read_member(healer: Healer, spot: Spot, name: str) -> bytes:
    """The bytes of a member. Raises `MemberNotFound`."""

    def read(log: LogInCall, file: LogFile, known: Known) -> bytes:
        member = find_member(healer, log, file, known, name)
        return _read(file, [member])[member]

    return healer.attempt(spot, wanted_member(name), read, pinned=True)


def wanted_member(name: str) -> list[str]:
    """What to look up for a member: nothing if no member can have such a name."""
    return [name] if names.can_exist(name, 1) else []


def find_member(healer: Healer, log: LogInCall, file: LogFile, known: Known, name: str) -> Member:
    """Raises `MemberNotFound`, which the log itself has proved."""
    member = known.find(name) or healer.prove_absence(log, file).find(name)
    if member is None:
        raise MemberNotFound(f"it has no member {name!r}", hint="member_names lists them")
    return member


def proved_members(
    healer: Healer, log: LogInCall, file: LogFile, known: Known, request: Request
) -> tuple[Known, Sequence[Member]]:
    """The members of a sample; none if the log itself has proved that it is absent."""
    members = members_of(known, request)
    if request.name is not None and not (members and not is_chunked(request, members)):
        known = healer.prove_absence(log, file)
        members = members_of(known, request)
    return known, members


def read_slice(
    healer: Healer, request: Request, field: Field, start: int, stop: int | None
) -> list[Any]:
    """The items `[start, stop)` of a sample's messages or events, as many as there are.

    Of a chunked sample only the chunks are read that hold them.
    """
    last = sys.maxsize if stop is None else stop

    def read(log: LogInCall, file: LogFile, known: Known) -> list[Any]:
        known, members = proved_members(healer, log, file, known, request)
        if not members:
            raise absence(known, request.sample, request.name)
        if is_chunked(request, members):
            return _chunked_slice(file, request, members, field, start, last)
        data = _read(file, members)[members[0]]
        only = ("id", "epoch", field)
        sample = decode_sample(data, str(request.id), request.epoch, only=only)
        items = sample.get(field)
        if not isinstance(items, (list, type(None))):
            raise CorruptMember(f"the {field} of id {request.id!r} are no list")
        return (items or [])[start:last]

    wanted = [request.name] if request.name else []
    return healer.attempt(request.spot, wanted, read, pinned=True)


def _chunked_slice(
    file: LogFile, request: Request, members: Iterable[Member], field: Field, start: int, stop: int
) -> list[Any]:
    assert request.name is not None
    prefix = len(names.chunked_prefix(request.name))
    parts = {member.name[prefix:]: member for member in members}
    head = parts[chunked.SHELL]
    shell = chunked.shell(_read(file, [head])[head])
    check_identity(shell.get("id"), shell.get("epoch"), str(request.id), request.epoch)
    starts = chunked.chunk_starts(parts, field)
    wanted = [range(start, stop)]
    if field == "messages":
        wanted = chunked.cut(chunked.ranges(shell.get("message_refs", [])), start, stop)
    chosen = {at: parts[chunked.chunk_name(field, at)] for at in chunked.chunks_of(starts, wanted)}
    found = _read(file, chosen.values())
    ends = chunked.chunk_ends(starts)
    chunks = {
        at: chunked.chunk_items(found[member], field, at, ends[at]) for at, member in chosen.items()
    }
    if field == "events":
        end = max((at + len(items) for at, items in chunks.items()), default=0)
        wanted = [range(start, min(stop, end))]
    return chunked.referred(wanted, chunks)


def _read(file: LogFile, members: Iterable[Member]) -> dict[Member, bytes]:
    found: dict[Member, bytes] = {}
    for member, data in fetch(file, members):
        if isinstance(data, EvalIndexError):
            raise data
        found[member] = data
    return found
