"""What a build makes of one log: its directory, header and samples as rows, or what is wrong."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from evalindex import directory, records
from evalindex.collector import paused
from evalindex.contents import HEADERS, read_contents
from evalindex.database.writes import LogFacts
from evalindex.errors import (
    CorruptMember,
    EvalIndexError,
    LogNotFound,
    LogUnreadable,
    NotAnEvalLog,
    UnsupportedMember,
)
from evalindex.locations import full_path, is_text, is_url
from evalindex.stores import Meter
from evalindex.stores.access import open_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evalindex.database.queries import IndexedLog
    from evalindex.model import Version
    from evalindex.records import Contents, KnownSummaries
    from evalindex.stores import Listed, LogFile
    from evalindex.zip import Directory


class Outcome(NamedTuple):
    """What reading one log gave: facts and rows to store, or a version to record, or nothing.

    With an `error` there may be facts too: that the log is unreadable, or its directory alone.
    """

    path: str
    row: IndexedLog | None
    facts: LogFacts | None = None
    members: Iterable[tuple[object, ...]] = ()
    contents: Contents | None = None
    version: Version | None = None
    error: EvalIndexError | None = None
    gone: bool = False


class _Incomplete(Exception):
    """A log's directory could be read, but not what it says of itself."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class LogReader:
    """Reads logs of one root for its index. Safe to share between threads."""

    def __init__(
        self,
        root: str,
        known: dict[str, KnownSummaries],
        *,
        full: bool,
        summaries: bool,
        meter: Meter,
    ) -> None:
        """`known` is what the index has of samples, by path; `full` reads every log again."""
        self._root = root
        self._meter = meter
        self._known = known
        self._full = full
        self._summaries = summaries

    def is_unchanged(self, item: Listed, row: IndexedLog | None) -> bool:
        return (
            not self._full
            and row is not None
            and row.version is not None
            and row.version == item.version
            and self._has_its_rows(row)
        )

    def _has_its_rows(self, row: IndexedLog) -> bool:
        """Whether all of a log could be read, and the index has its samples if it should."""
        return row.reason is None and (row.path in self._known) == self._summaries

    def read_anew(self, path: str) -> Outcome:
        """All of a log, whatever the index has of it."""
        self._known.pop(path, None)
        return self.read(path, None)

    def read(self, path: str, row: IndexedLog | None, size: int | None = None) -> Outcome:
        """What became of a log since `row`; all of it, if there is none. `size` was listed."""
        location = full_path(self._root, path)
        if not is_text(location):
            error = LogUnreadable("its name is not UTF-8", log=location, hint="rename it")
            return Outcome(path, None, error=error)
        for pause in (*directory.PAUSES, None):
            try:
                with open_log(location, size=size, meter=self._meter) as file:
                    try:
                        with paused():
                            return self._outcome(path, row, file)
                    except (NotAnEvalLog, _Incomplete) as error:
                        # An edit in place leaves no end record for a moment.
                        if pause is None or file.at_rest():
                            if isinstance(error, _Incomplete):
                                return error.outcome
                            raise
            except EvalIndexError as error:
                return self._failed(path, row, error)
            time.sleep(pause)
        raise AssertionError("the last pause is None")

    def _outcome(self, path: str, row: IndexedLog | None, file: LogFile) -> Outcome:
        trusted = row is not None and not self._full and self._has_its_rows(row)
        known = directory.stored_proof(row) if row is not None and trusted else None
        proof = None if known is None else directory.prove(known, file)
        if proof is not None:
            return Outcome(path, row, version=proof.version)
        self._meter.directory_read()
        read = directory.read_directory(file)
        contents, error = self._contents(path, file, read.directory)
        members = records.member_rows(read.directory)
        # Nothing vouches for these bytes yet, so look again behind them (law 1).
        version = read.proof.version if file.unchanged() else None
        facts = LogFacts(
            records.log_state(read.directory),
            None if error is None else error.reason,
            version,
            read.proof.size,
            read.proof.directory_offset,
            read.proof.digest,
            sum(row[1] is not None for row in members),
            read.directory.superseded,
            read.directory.odd,
            time.time_ns(),
        )
        outcome = Outcome(path, row, facts, members, contents, error=error)
        if error is not None:
            raise _Incomplete(outcome)
        return outcome

    def _contents(
        self, path: str, file: LogFile, found: Directory
    ) -> tuple[Contents | None, EvalIndexError | None]:
        """What the log says of itself; its samples can be read even if that cannot be."""
        known = None if self._full else self._known.get(path)
        wanted = found.members() if self._summaries else filter(None, map(found.member, HEADERS))
        members = {member.name: member for member in wanted}
        try:
            return read_contents(file, members, summaries=self._summaries, known=known), None
        except (CorruptMember, UnsupportedMember) as error:
            error.log = full_path(self._root, path)
            return None, error

    def _failed(self, path: str, row: IndexedLog | None, error: EvalIndexError) -> Outcome:
        error.log = full_path(self._root, path)
        if isinstance(error, LogNotFound):
            if is_url(error.log) or not os.path.islink(error.log):
                return Outcome(path, row, gone=True)
            error = LogUnreadable("the link leads nowhere", log=error.log)
        facts = LogFacts(
            "unreadable", error.reason, None, None, None, None, 0, 0, 0, time.time_ns()
        )
        return Outcome(path, row, facts, error=error)
