"""Build an index: scan -> directory -> rows, one transaction a log.

The room is not called `build`, which is the name of the function that users call.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from evalindex import directory, records
from evalindex.contents import read_contents
from evalindex.database.writes import IndexWriter, LogFacts
from evalindex.errors import (
    CorruptMember,
    EvalIndexError,
    LogNotFound,
    LogUnreadable,
    NotAnEvalLog,
    RootUnreadable,
    UnsupportedMember,
    printable,
)
from evalindex.home import build_target, named_index
from evalindex.place import (
    LogLike,
    full_path,
    full_root,
    is_at_or_below,
    path_below,
    stored_location,
)
from evalindex.progress import Progress, Silent
from evalindex.stores import Listed
from evalindex.stores.local import LocalFile, LocalListing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from evalindex.database.queries import IndexedLog, RootRow
    from evalindex.home import Target
    from evalindex.model import Version
    from evalindex.records import Contents
    from evalindex.zip import Directory

# Reading is a system call or two and parsing holds the GIL: more threads only help cold disks.
_JOBS = 4

_logger = logging.getLogger("evalindex")
_TIMESTAMPED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}")


class BuildReport(NamedTuple):
    """What a build did: numbers of logs, the indexes it wrote, and what it could not read.

    `failures` has an error for each unreadable log and each folder that could not be listed.
    `json_logs` are logs in inspect's `.json` format, which have no directory to index.
    """

    indexed: int
    unchanged: int
    removed: int
    unreadable: int
    indexes: tuple[str, ...]
    failures: tuple[EvalIndexError, ...]
    json_logs: tuple[str, ...]


class _Outcome(NamedTuple):
    """What reading one log gave: facts and rows to store, or a version to record, or nothing."""

    path: str
    row: IndexedLog | None
    facts: LogFacts | None = None
    members: Iterable[tuple[object, ...]] = ()
    contents: Contents | None = None
    version: Version | None = None
    error: EvalIndexError | None = None
    gone: bool = False


def build(
    roots: LogLike | Iterable[LogLike],
    index: LogLike | None = None,
    *,
    full: bool = False,
    forget: bool = False,
    jobs: int | None = None,
    summaries: bool = True,
    progress: Progress | None = None,
) -> BuildReport:
    """Index what is new or changed below each root (a folder, or one log), forget what is gone.

    Without `index` (and without EVALINDEX_INDEX) each root has `evalindex.db` in it, or a file in
    the user's cache folder if nothing can be written there. `full` reads every log again and
    makes a damaged index anew. A root that cannot be listed, or is empty though logs of it are
    known, raises `RootUnreadable`, unless `forget` says that they are gone indeed. `jobs` logs
    are read at a time. Without `summaries` the index is smaller, and answers from rows read what
    they need from the logs. Logs that cannot be read are reported, and stop nothing.
    """
    many = isinstance(roots, (list, tuple, set, frozenset)) or hasattr(roots, "__next__")
    arguments: Sequence[LogLike] = list(roots) if many else [roots]  # type: ignore[arg-type, list-item]
    named = named_index(index)
    targets = [build_target(argument, named) for argument in arguments]
    tally = _Tally()
    for target in targets:
        if target.in_cache:
            _logger.warning(
                "nothing can be written in %s: its index is %s",
                printable(target.location),
                printable(target.index_file),
            )
    with progress or Silent() as listener:
        for file in dict.fromkeys(target.index_file for target in targets):
            writer = IndexWriter(file, replace_damaged=full)
            try:
                for target in targets:
                    if target.index_file == file:
                        job = _Job(writer, target, tally, full, forget, summaries)
                        job.run(jobs or _JOBS, listener)
            finally:
                writer.close()
            tally.indexes.append(file)
    return tally.report()


class _Incomplete(Exception):
    """A log's directory could be read, but not what it says of itself."""

    def __init__(self, outcome: _Outcome) -> None:
        self.outcome = outcome


class _Tally:
    def __init__(self) -> None:
        self.indexed = self.unchanged = self.removed = self.unreadable = 0
        self.indexes: list[str] = []
        self.failures: list[EvalIndexError] = []
        self.json_logs: list[str] = []

    def fail(self, error: EvalIndexError) -> None:
        self.unreadable += 1
        self.failures.append(error)

    def report(self) -> BuildReport:
        return BuildReport(
            self.indexed,
            self.unchanged,
            self.removed,
            self.unreadable,
            tuple(self.indexes),
            tuple(self.failures),
            tuple(sorted(self.json_logs)),
        )


class _Job:
    """The build of one root, of a part of it, or of one log."""

    def __init__(
        self,
        writer: IndexWriter,
        target: Target,
        tally: _Tally,
        full: bool,
        forget: bool,
        summaries: bool,
    ) -> None:
        self._writer = writer
        self._tally = tally
        self._full = full
        self._forget = forget
        self._summaries = summaries
        self._one_log = target.one_log
        self._open_root(target)

    def _open_root(self, target: Target) -> None:
        """The root at or above the target; a new one takes over the roots inside it."""

        def choose(rows: list[RootRow]) -> int | tuple[str, list[tuple[int, str]]]:
            known = {full_root(self._writer.path, row.location): row.root_id for row in rows}
            for location, root_id in known.items():
                if path_below(target.location, location) is not None:
                    self._root = location
                    return root_id
            self._root = os.path.dirname(target.location) if target.one_log else target.location
            inner = [
                (root_id, f"{prefix}/")
                for location, root_id in known.items()
                if (prefix := path_below(location, self._root)) is not None
            ]
            return stored_location(self._writer.path, self._root), inner

        self._root_id = self._writer.claim_root(choose)
        self._below = path_below(target.location, self._root) or ""

    def run(self, jobs: int, progress: Progress) -> None:
        known = self._writer.logs(self._root_id)
        known = {path: row for path, row in known.items() if is_at_or_below(path, self._below)}
        started = time.time_ns()
        listed, unlisted = self._list(known)
        self._known = self._writer.summaries(self._root_id)
        changed = [item for item in listed if not self._is_unchanged(item, known.get(item.path))]
        self._tally.unchanged += len(listed) - len(changed)
        there = {item.path for item in listed}
        progress.start(os.path.basename(self._root) or self._root, len(changed))
        for outcome in _in_parallel(
            jobs, lambda item: self._read(item, known.get(item.path)), changed
        ):
            self._store(outcome)
            progress.step()
            if outcome.gone:
                there.discard(outcome.path)
        self._forget_gone(known, there, unlisted)
        if not os.path.isdir(self._root):
            self._writer.drop_root(self._root_id)
        elif not self._below:
            self._writer.set_built(self._root_id, started)

    def _list(self, known: dict[str, IndexedLog]) -> tuple[list[Listed], set[str]]:
        """The logs to look at, and the folders below which nothing can be said to be gone."""
        if self._one_log:
            return [Listed(self._below, None, None)], set()
        listing = LocalListing(self._root, below=self._below)
        try:
            listed = list(listing)
        except RootUnreadable as error:
            if self._forget:
                return [], set()
            error.hint = "if it is gone for good, build with --forget"
            raise
        folder = full_path(self._root, self._below) if self._below else self._root
        if known and not listed and not self._forget:
            raise RootUnreadable(
                f"it holds no log, though the index knows {len(known):,} in it",
                log=folder,
                hint="if they are gone for good, build with --forget",
            )
        for path, reason in listing.unlisted.items():
            self._tally.fail(
                LogUnreadable(f"it cannot be listed: {reason}", log=full_path(self._root, path))
            )
        self._tally.json_logs += [
            location
            for path in listing.json_files
            if _is_json_log(location := full_path(self._root, path))
        ]
        return listed, set(listing.unlisted)

    def _is_unchanged(self, item: Listed, row: IndexedLog | None) -> bool:
        return (
            not self._full
            and row is not None
            and row.version is not None
            and row.version == item.version
            and self._has_its_rows(item.path)
        )

    def _has_its_rows(self, path: str) -> bool:
        """Whether the index has the samples of a log, if it should; not if they were unreadable."""
        return (path in self._known) == self._summaries

    def _read(self, item: Listed, row: IndexedLog | None) -> _Outcome:
        location = full_path(self._root, item.path)
        try:
            location.encode()
        except UnicodeEncodeError:
            error = LogUnreadable("its name is not UTF-8", log=location, hint="rename it")
            return _Outcome(item.path, None, error=error)
        for pause in (*directory.PAUSES, None):
            try:
                with LocalFile(location) as file:
                    try:
                        return self._outcome(item.path, row, file)
                    except (NotAnEvalLog, _Incomplete) as error:
                        # An edit in place leaves no end record for a moment.
                        if pause is None or file.at_rest():
                            if isinstance(error, _Incomplete):
                                return error.outcome
                            raise
            except EvalIndexError as error:
                return self._failed(item.path, row, error)
            time.sleep(pause)
        raise AssertionError("the last pause is None")

    def _outcome(self, path: str, row: IndexedLog | None, file: LocalFile) -> _Outcome:
        trusted = row is not None and not self._full and self._has_its_rows(path)
        known = directory.stored_proof(row) if row is not None and trusted else None
        proof = None if known is None else directory.prove(known, file)
        if proof is not None:
            return _Outcome(path, row, version=proof.version)
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
        outcome = _Outcome(path, row, facts, members, contents, error=error)
        if error is not None:
            raise _Incomplete(outcome)
        return outcome

    def _contents(
        self, path: str, file: LocalFile, found: Directory
    ) -> tuple[Contents | None, EvalIndexError | None]:
        """What the log says of itself; its samples can be read even if that cannot be."""
        known = None if self._full else self._known.get(path)
        members = {member.name: member for member in found.members()}
        try:
            return read_contents(file, members, summaries=self._summaries, known=known), None
        except (CorruptMember, UnsupportedMember) as error:
            error.log = full_path(self._root, path)
            return None, error

    def _failed(self, path: str, row: IndexedLog | None, error: EvalIndexError) -> _Outcome:
        error.log = full_path(self._root, path)
        if isinstance(error, LogNotFound):
            if not os.path.islink(error.log):
                return _Outcome(path, row, gone=True)
            error = LogUnreadable("the link leads nowhere", log=error.log)
        facts = LogFacts(
            "unreadable", error.reason, None, None, None, None, 0, 0, 0, time.time_ns()
        )
        return _Outcome(path, row, facts, error=error)

    def _store(self, outcome: _Outcome) -> None:
        if outcome.facts is not None and not self._put(outcome):
            # Another builder has dropped what was to be kept: read all of it.
            self._known.pop(outcome.path, None)
            outcome = self._read(Listed(outcome.path, None, None), None)
            self._put(outcome)
        if outcome.error is not None:
            self._tally.fail(outcome.error)
        elif outcome.facts is not None:
            self._tally.indexed += 1
        elif outcome.row is not None and not outcome.gone:
            if outcome.version is not None and outcome.version != outcome.row.version:
                self._writer.refresh(outcome.row.log_id, outcome.version)
            self._tally.unchanged += 1

    def _put(self, outcome: _Outcome) -> bool:
        if outcome.facts is None:
            return True
        return self._writer.put(
            self._root_id, outcome.path, outcome.facts, outcome.members, outcome.contents
        )

    def _forget_gone(
        self, known: dict[str, IndexedLog], there: set[str], unlisted: set[str]
    ) -> None:
        gone = [
            path
            for path in known
            if path not in there
            and not any(is_at_or_below(path, folder) for folder in unlisted)
            # Another builder may have found it since the listing was made.
            and not _is_log_of_its_own(full_path(self._root, path))
        ]
        self._writer.forget(self._root_id, gone)
        self._tally.removed += len(gone)


def _is_log_of_its_own(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _is_json_log(path: str) -> bool:
    """As inspect lists them, by a time stamp in the name; or by what the file begins with."""
    if _TIMESTAMPED.match(os.path.basename(path)):
        return True
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and b'"version"' in start and b'"eval"' in start


def _in_parallel(
    jobs: int, read: Callable[[Listed], _Outcome], items: Sequence[Listed]
) -> Iterator[_Outcome]:
    """The outcome of each item, in order; a few are read ahead of the one that is stored."""
    if jobs < 2 or len(items) < 2:
        yield from map(read, items)
        return
    with ThreadPoolExecutor(jobs, thread_name_prefix="evalindex-build") as pool:
        waiting: deque[Future[_Outcome]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
