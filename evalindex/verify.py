"""Read everything and compare everything: logs with themselves, the index with the logs."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Literal, NamedTuple

from evalindex.contents import read_contents
from evalindex.decode import decode_sample
from evalindex.directory import ReadDirectory, read_directory, stored_proof
from evalindex.errors import CorruptMember, EvalIndexError, LogNotFound, UnsupportedMember
from evalindex.fetch import fetch
from evalindex.locations import full_path, is_url
from evalindex.model import Member
from evalindex.names import parse_sample_name
from evalindex.place import roots_of
from evalindex.progress import Progress, Silent
from evalindex.records import log_state
from evalindex.status import status
from evalindex.stores.access import open_log

if TYPE_CHECKING:
    from evalindex.database.queries import IndexedLog, IndexReader
    from evalindex.place import Scope
    from evalindex.records import Contents
    from evalindex.stores import LogFile

_BUILD = "run `evalindex build`"
_BUILD_FULL = "run `evalindex build --full`"
_RESTORE = "restore the log from a copy; its other samples can be read"

#: What is wrong: the index file itself, rows that contradict an unchanged log, a log that changed
#: or went, a log without a usable directory, one member.
Kind = Literal["index", "rows", "stale", "gone", "log", "member"]


class Finding(NamedTuple):
    """One thing that is not as it should be, where, and what to do about it."""

    where: str
    kind: Kind
    what: str
    hint: str


class VerifyReport(NamedTuple):
    """Numbers of logs looked at and members read, the logs that are there but not indexed and so
    were not read, and all that was found wrong."""

    logs: int
    members: int
    unindexed: tuple[str, ...]
    findings: tuple[Finding, ...]


def verify(
    reader: IndexReader,
    scope: Scope,
    *,
    sample: int | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check the index file, each indexed log's rows against a fresh parse, and the length, CRC-32,
    local name and JSON identity of every member, or of `sample` random ones a log."""
    findings = [Finding(reader.path, "index", fault, _BUILD_FULL) for fault in reader.faults()]
    parts = [
        (root, scope.rows(reader, root, below)) for root, below in scope.parts(roots_of(reader))
    ]
    logs = members = 0
    has_contents = reader.facts()["schema"] > 1
    with progress or Silent() as listener:
        listener.start("verify", sum(len(rows) for _, rows in parts))
        for root, rows in parts:
            for row in rows:
                found = reader.members(root.root_id, row.path)
                if found is not None:  # else a builder has just replaced or removed it
                    log = _Log(full_path(root.location, row.path))
                    contents = reader.contents(found[0].log_id) if has_contents else None
                    log.check(*found, contents, has_contents, sample)
                    findings += log.findings
                    members += log.members
                    logs += 1
                listener.step()
    new = [log.log for log in status(reader, scope).logs if log.state == "new"]
    return VerifyReport(logs, members, tuple(new), tuple(findings))


class _Log:
    def __init__(self, location: str) -> None:
        self.location = location
        self.findings: list[Finding] = []
        self.members = 0

    def _find(self, kind: Kind, what: str, hint: str) -> None:
        self.findings.append(Finding(self.location, kind, what, hint))

    def check(
        self,
        row: IndexedLog,
        members: dict[str, Member],
        contents: Contents | None,
        has_contents: bool,
        sample: int | None,
    ) -> None:
        try:
            with open_log(self.location) as file:
                read = read_directory(file)
                same = self._compare(row, members, read)
                chosen = read.directory.members()
                if sample is not None and sample < len(chosen):
                    chosen = random.sample(chosen, sample)
                self._read(file, chosen)
                if same and has_contents and not self.findings:
                    self._compare_contents(file, read, contents)
        except LogNotFound:
            if not is_url(self.location) and os.path.islink(self.location):
                self._find("log", "the link leads nowhere", "remove or mend it")
            else:
                self._find("gone", "it is indexed, but no longer there", _BUILD)
        except EvalIndexError as error:
            self._find("log", error.reason, error.hint or "restore it from a copy")

    def _compare(self, row: IndexedLog, members: dict[str, Member], read: ReadDirectory) -> bool:
        """Whether the rows are those of the log. A version may have changed without harm; size,
        offset and digest may not."""
        found = read.directory
        stored = stored_proof(row)
        if stored is None:
            self._find("stale", "it was unreadable when it was indexed and no longer is", _BUILD)
        elif stored[1:] != read.proof[1:]:
            self._find("stale", "it changed since it was indexed; reads heal it", _BUILD)
        elif members != {member.name: member for member in found.members()} or (
            (row.state, row.superseded, row.odd) != (log_state(found), found.superseded, found.odd)
        ):
            self._find("rows", "the index's rows are not those of the log", _BUILD_FULL)
        else:
            return True
        return False

    def _compare_contents(
        self, file: LogFile, read: ReadDirectory, stored: Contents | None
    ) -> None:
        members = {member.name: member for member in read.directory.members()}
        summaries = stored is None or stored.summaries is not None
        try:
            found = read_contents(file, members, summaries=summaries)
        except (CorruptMember, UnsupportedMember) as error:
            self._find("log", error.reason, error.hint or _RESTORE)
            return
        if stored is None:
            self._find("rows", "its header could not be read when it was indexed", _BUILD)
        elif _in_order(found) != _in_order(stored):
            self._find(
                "rows", "the index's header or samples are not those of the log", _BUILD_FULL
            )

    def _read(self, file: LogFile, members: list[Member]) -> None:
        for member, result in fetch(file, members):
            self.members += 1
            try:
                if not isinstance(result, bytes):
                    raise result
                name = parse_sample_name(member.name)
                if name is not None and not name.chunked:
                    decode_sample(result, name.id, name.epoch)
            except (CorruptMember, UnsupportedMember) as error:
                self._find("member", error.reason, error.hint or _RESTORE)


def _in_order(contents: Contents) -> Contents:
    """The scores of a sample in the order of their names, as an index has them."""
    summaries = contents.summaries
    if summaries is None:
        return contents
    return contents._replace(summaries=summaries._replace(scores=sorted(summaries.scores)))
