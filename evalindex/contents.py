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

from evalindex import documents, records
from evalindex.collector import paused
from evalindex.database.engine import PARSER
from evalindex.decode import check_identity
from evalindex.errors import CorruptMember, EvalIndexError, UnsupportedMember
from evalindex.fetch import fetch
from evalindex.names import HEADER, chunked_name, parse_sample_name, sample_name
from evalindex.records import (
    Contents,
    Counts,
    KnownSummaries,
    SampleColumns,
    ScoreColumns,
    Source,
    Summaries,
)

if TYPE_CHECKING:
    from evalindex.model import Member
    from evalindex.records import Facts, Header, SampleFacts
    from evalindex.stores import LogFile

_START = "_journal/start.json"
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
    start = members.get(HEADER) or members.get(_START)
    header, metrics = records.Header(), []
    if start is not None:
        header, metrics = _parsed(records.read_header, start, _read(file, start))
    if not summaries:
        return Contents(header, metrics, None)
    with paused():
        found, counts = _Reading(file, members, header).summaries(known)
    return Contents(header._replace(**counts._asdict()), metrics, found)


def _read(file: LogFile, member: Member) -> bytes:
    ((_, data),) = fetch(file, [member])
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
        self._all_bodies = bool(header.invalidated) or _release(header) < _FIRST_WITH_ERRORS

    def summaries(self, known: KnownSummaries | None) -> tuple[Summaries, Counts]:
        basis = self._basis()
        sources = [Source(m.name, m.crc32, m.uncompressed_size) for m in self._sources]
        if known is not None and known.basis == basis:
            return Summaries(basis, sources, known.summaries_id, [], []), known.counts
        facts, collisions = self._facts(known, sources)
        summarized = len(facts)
        unsummarized = self._unsummarized(facts)
        bodies = [*self._recorded(facts), *unsummarized] if self._all_bodies else unsummarized
        self._add_bodies(facts, bodies)
        samples, scores = self._rows(facts, summarized)
        return Summaries(basis, sources, None, samples, scores), self._counts(facts, collisions)

    def _basis(self) -> bytes:
        """A digest of all that the rows depend on; where members lie is no part of it."""
        header = self._header
        rest = [PARSER, header.sample_ids, header.epochs, header.invalidated, self._all_bodies]
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
        if known is not None and not self._all_bodies:
            loaded = known.load(known.summaries_id, sources)
            if loaded is not None:
                (facts, parsed), collisions = loaded, known.counts.collisions
        for member in self._sources[parsed:]:
            found = _parsed(documents.read_summaries, member, _read(self._file, member))
            collisions += records.add_summaries(facts, found)
        return facts, collisions

    def _member_of(self, key: tuple[str, int]) -> Member | None:
        name = sample_name(*key)
        return self._members.get(name) or self._members.get(chunked_name(name))

    def _recorded(self, facts: Facts) -> list[tuple[str, int]]:
        return [key for key in facts if self._member_of(key) is not None]

    def _unsummarized(self, facts: Facts) -> list[tuple[str, int]]:
        found: dict[tuple[str, int], None] = {}
        for name in self._names:
            sample = parse_sample_name(name)
            if sample is not None and (sample.id, sample.epoch) not in facts:
                found[sample.id, sample.epoch] = None
        return list(found)

    def _add_bodies(self, facts: Facts, keys: Iterable[tuple[str, int]]) -> None:
        members = {member: key for key in keys if (member := self._member_of(key)) is not None}
        for member, data in fetch(self._file, members):
            id, epoch = members[member]
            try:
                if not isinstance(data, bytes):
                    raise data
                body = documents.read_body(data)
                check_identity(body.id, body.epoch, id, epoch)
                records.add_body(facts, (id, epoch), body)
            except (CorruptMember, UnsupportedMember) as error:
                records.add_damage(facts, (id, epoch), error.reason)

    def _rows(
        self, facts: Facts, summarized: int
    ) -> tuple[list[SampleColumns], list[ScoreColumns]]:
        samples: list[SampleColumns] = []
        scores: list[ScoreColumns] = []
        members = self._members
        for position, ((id, epoch), fact) in enumerate(facts.items()):
            name = f"samples/{id}_epoch_{epoch}.json"
            member = members.get(name)
            chunked = False
            if member is None:
                member = members.get(chunked_name(name))
                chunked = member is not None
            size = (
                (None, None)
                if member is None
                else (member.uncompressed_size, member.compressed_size)
            )
            is_summarized = position < summarized
            samples.append((id, epoch, position, *size, chunked, is_summarized, *fact[:-1]))
            for name, number, text in fact.scores:
                scores.append((position, name, number, text))
        samples.sort(key=lambda row: row[:2])
        return samples, scores

    def _counts(self, facts: Facts, collisions: int) -> Counts:
        errors = sum(fact.error is not None for fact in facts.values())
        limits = sum(fact.limit is not None and fact.error is None for fact in facts.values())
        header = self._header
        planned = (
            None if header.sample_ids is None else set(map(str, json.loads(header.sample_ids)))
        )
        done = sum(
            self._is_done(key, fact)
            and (planned is None or (key[0] in planned and 1 <= key[1] <= header.epochs))
            for key, fact in facts.items()
        )
        return Counts(done, errors, limits, collisions)

    def _is_done(self, key: tuple[str, int], fact: SampleFacts) -> bool:
        return fact.reusable and self._member_of(key) is not None


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
