"""What an open log says of itself, as rows: its header, and its samples.

Used by builds, and by answers from rows for logs whose rows do not hold.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from evalindex import documents
from evalindex.collector import paused
from evalindex.database.engine import PARSER
from evalindex.decode import check_identity
from evalindex.errors import CorruptMember, EvalIndexError, UnsupportedMember
from evalindex.fetch import fetch, fetch_one
from evalindex.headers import read_header
from evalindex.names import CHUNKED_SUFFIX, HEADER, chunked_name, parse_sample_name, sample_name
from evalindex.records import (
    Contents,
    Counts,
    Header,
    KnownSummaries,
    SampleColumns,
    ScoreColumns,
    Source,
    Summaries,
)
from evalindex.summaries import add_body, add_damage, add_summaries

if TYPE_CHECKING:
    from evalindex.model import Member
    from evalindex.records import Facts
    from evalindex.stores import LogFile

    Key = tuple[str, int]

#: The members that tell what a log is, the better one first.
HEADERS = (HEADER, "_journal/start.json")
_SUMMARIES = "summaries.json"
_JOURNAL = re.compile(r"_journal/summaries/([0-9]{1,18})\.json", re.ASCII)
_FIRST_WITH_ERRORS = (0, 3, 46)  # the first release whose summaries tell errors


def read_contents(
    file: LogFile,
    members: Mapping[str, Member],
    *,
    summaries: bool = True,
    known: KnownSummaries | None = None,
) -> Contents:
    """Read what a log says of itself. Raises `CorruptMember` or `UnsupportedMember`, which name the
    member."""
    start = next(filter(None, map(members.get, HEADERS)), None)
    header, metrics = Header(), []
    if start is not None:
        header, metrics = _parsed(read_header, start, _read(file, start))
    if not summaries:
        return Contents(header, metrics, None)
    with paused():
        found, counts = _Reading(file, members, header).summaries(known)
    return Contents(header._replace(**counts._asdict()), metrics, found)


def _read(file: LogFile, member: Member) -> bytes:
    data = fetch_one(file, member)
    if isinstance(data, bytes):
        return data
    raise _naming(member, data)


def _parsed(parser: Callable[[bytes], Any], member: Member, data: bytes) -> Any:
    try:
        return parser(data)
    except CorruptMember as error:
        raise _naming(member, error) from None


def _naming(member: Member, error: EvalIndexError) -> EvalIndexError:
    reason = error.reason
    if member.name not in reason:
        reason = f"{member.name}: {reason}"
    return type(error)(reason, log=error.log, hint=error.hint or "restore the log from a copy")


class _Reading:
    """One reading of the samples of one log."""

    def __init__(self, file: LogFile, members: Mapping[str, Member], header: Header) -> None:
        self._file = file
        self._members = members
        self._header = header
        self._sources = sources_of(members)
        self._names = [name for name in members if name.startswith("samples/")]
        # A summary tells neither that a sample was invalidated nor, in old logs, that it failed.
        self._old = _release(header) < _FIRST_WITH_ERRORS
        self._all_bodies = header.invalidated

    def summaries(self, known: KnownSummaries | None) -> tuple[Summaries, Counts]:
        basis = self._basis()
        sources = [Source(m.name, m.crc32, m.uncompressed_size) for m in self._sources]
        if known is not None and known.basis == basis:
            return Summaries(basis, sources, known.summaries_id, [], []), known.counts
        facts, collisions = self._facts(known, sources)
        summarized = len(facts)
        members = list(map(self._member_of, facts))
        unsummarized = self._unsummarized(facts, members)
        self._add_bodies(facts, zip(facts, members, strict=True) if self._all_bodies else ())
        self._add_bodies(facts, unsummarized.items())
        members += unsummarized.values()
        samples, scores = _rows(facts, members, summarized)
        counts = _counts(facts, members, self._header)._replace(
            unsummarized=len(unsummarized), collisions=collisions
        )
        # What bodies said may change without a change of these: it is never taken for theirs.
        sources = [] if self._all_bodies else sources
        return Summaries(basis, sources, None, samples, scores), counts

    def _basis(self) -> bytes:
        """A digest of all that the rows depend on; where members lie is no part of it."""
        header = self._header
        rest = [PARSER, header.sample_ids, header.epochs, header.invalidated, self._old]
        digest = sha256(json.dumps([rest, [member.name for member in self._sources]]).encode())
        digest.update("\0".join(self._names).encode())
        for members in (self._sources, [self._members[name] for name in self._names]):
            numbers = array("Q", [m.crc32 for m in members])
            numbers.extend([m.compressed_size for m in members])
            numbers.extend([m.uncompressed_size for m in members])
            digest.update(numbers.tobytes())
        return digest.digest()[:16]

    def _facts(self, known: KnownSummaries | None, sources: Sequence[Source]) -> tuple[Facts, int]:
        """The samples by their summaries. A journal grows at its end: what was known of its first
        members is not parsed again."""
        facts: Facts = {}
        collisions = parsed = 0
        if known is not None and not (self._old or self._all_bodies):
            loaded = known.load(known.summaries_id, sources)
            if loaded is not None:
                (facts, parsed), collisions = loaded, known.counts.collisions
        for member in self._sources[parsed:]:
            found = _parsed(documents.read_summaries, member, _read(self._file, member))
            if self._old and any(summary.completed is None for summary in found):
                self._all_bodies = True
            collisions += add_summaries(facts, found)
        return facts, collisions

    def _member_of(self, key: Key) -> Member | None:
        name = sample_name(*key)
        return self._members.get(name) or self._members.get(chunked_name(name))

    def _unsummarized(
        self, facts: Facts, members: Sequence[Member | None]
    ) -> dict[Key, Member | None]:
        """The samples that have a member, but no summary."""
        if len(self._names) + members.count(None) == len(members):
            return {}  # all there is was met
        parsed = filter(None, map(parse_sample_name, self._names))
        keys = dict.fromkeys((sample.id, sample.epoch) for sample in parsed)
        return {key: self._member_of(key) for key in keys if key not in facts}

    def _add_bodies(self, facts: Facts, found: Iterable[tuple[Key, Member | None]]) -> None:
        keys = {member: key for key, member in found if member is not None}
        for member, data in fetch(self._file, keys):
            key = keys[member]
            try:
                if not isinstance(data, bytes):
                    raise data
                body = documents.read_body(data)
                check_identity(body.id, body.epoch, *key)
                add_body(facts, key, body)
            except (CorruptMember, UnsupportedMember) as error:
                add_damage(facts, key, error.reason)


def _rows(
    facts: Facts, members: Iterable[Member | None], summarized: int
) -> tuple[list[SampleColumns], list[ScoreColumns]]:
    samples: list[SampleColumns] = []
    scores: list[ScoreColumns] = []
    placed = zip(facts.items(), members, strict=True)
    for position, (((id, epoch), fact), member) in enumerate(placed):
        if member is None:
            place: tuple[int | None, int | None, bool] = (None, None, False)
        else:
            chunked = member.name.endswith(CHUNKED_SUFFIX)
            place = (member.uncompressed_size, member.compressed_size, chunked)
        samples.append((id, epoch, position, *place, position < summarized, *fact[:-1]))
        scores += [(position, *score) for score in fact.scores]
    samples.sort()  # id and epoch come first, and are unique
    return samples, scores


def _counts(facts: Facts, members: Sequence[Member | None], header: Header) -> Counts:
    errors = limits = done = 0
    planned = None if header.sample_ids is None else set(map(str, json.loads(header.sample_ids)))
    for ((id, epoch), fact), member in zip(facts.items(), members, strict=True):
        if fact.error is not None:
            errors += 1
        elif fact.limit is not None:
            limits += 1
        if (
            member is not None
            and fact.reusable
            and (planned is None or (id in planned and 1 <= epoch <= header.epochs))
        ):
            done += 1
    return Counts(done, errors, limits, members.count(None), 0, 0)


def sources_of(members: Mapping[str, Member]) -> list[Member]:
    """The members that list a log's samples: `summaries.json`, else what its journal has, in the
    order of the numbers, whatever is missing between."""
    if _SUMMARIES in members:
        return [members[_SUMMARIES]]
    numbered = [
        (int(match[1]), members[name]) for name in members if (match := _JOURNAL.fullmatch(name))
    ]
    return [member for _, member in sorted(numbered)]


def _release(header: Header) -> tuple[int, ...]:
    """The release that wrote a log; that of a log that does not say is taken for an old one."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", header.inspect_version or "", re.ASCII)
    return tuple(map(int, found.groups())) if found else (0, 0, 0)
