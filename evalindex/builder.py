"""Build an index: scan -> directory -> rows, one transaction a log.

The room is not called `build`, which is the name of the function that users call.
"""

from __future__ import annotations

import logging
import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from evalindex.ahead import work_ahead
from evalindex.database.writes import IndexWriter
from evalindex.errors import (
    EvalIndexError,
    LogUnreadable,
    RootUnreadable,
    printable,
)
from evalindex.home import build_target, named_index
from evalindex.locations import folder_of, full_path, is_at_or_below, is_url, name_of, path_below
from evalindex.outcome import LogReader, Outcome
from evalindex.place import LogLike, full_root, stored_location
from evalindex.progress import Progress, Silent
from evalindex.stores import Listed, Meter, Stats
from evalindex.stores.access import list_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from evalindex.database.queries import IndexedLog, RootRow
    from evalindex.home import Target

# Parsing holds the GIL, and SQLite lets go of it at each step: with threads a build of small logs
# takes 1.7 times as long, unless reading waits, as on a cold disk.
_JOBS = 1
_WAITING_JOBS = 8
_TRIED = 16
_REMOTE_JOBS = 32

_logger = logging.getLogger("evalindex")
_TIMESTAMPED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}")


class BuildReport(NamedTuple):
    """What a build did: numbers of logs, the indexes it wrote, and what it could not read.

    `failures` has an error for each unreadable log and each folder that could not be listed.
    `json_logs` are logs in inspect's `.json` format, which have no directory to index. `stats` says
    what it took.
    """

    indexed: int
    unchanged: int
    removed: int
    unreadable: int
    indexes: tuple[str, ...]
    failures: tuple[EvalIndexError, ...]
    json_logs: tuple[str, ...]
    stats: Stats


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
    """Index what is new or changed below each root (a folder, the URL of one in a store, or one
    log), forget what is gone.

    Without `index` (and without EVALINDEX_INDEX) each root has `evalindex.db` in it, or a file in
    the user's cache folder if nothing can be written there, as in a store. `full` reads every log
    again and makes a damaged index anew. A root that cannot be listed, or is empty though logs of
    it are known, raises `RootUnreadable`, unless `forget` says that they are gone indeed. `jobs`
    logs are read at a time (if None, 32 of a store, else 1, or 8 where reading is mostly waiting).
    Without `summaries` the index is smaller, and answers from rows read what they need from the
    logs. Logs that cannot be read are reported, and stop nothing.
    """
    many = isinstance(roots, (list, tuple, set, frozenset)) or hasattr(roots, "__next__")
    arguments: Sequence[LogLike] = list(roots) if many else [roots]  # type: ignore[arg-type, list-item]
    named = named_index(index)
    targets = [build_target(argument, named) for argument in arguments]
    tally = _Tally()
    for target in targets:
        if target.in_cache:
            _say_where(target)
    with progress or Silent() as listener:
        for file in dict.fromkeys(target.index_file for target in targets):
            writer = IndexWriter(file, replace_damaged=full)
            try:
                for target in targets:
                    if target.index_file == file:
                        job = _Job(writer, target, tally, full, forget, summaries)
                        job.run(jobs, listener)
            finally:
                writer.close()
            tally.indexes.append(file)
    return tally.report()


def _say_where(target: Target) -> None:
    """Tell of an index that is not beside the logs; of a store's, when it is made."""
    if is_url(target.location):
        if os.path.exists(target.index_file):
            return
        what = "%s is in a store: its index is %s"
    else:
        what = "nothing can be written in %s: its index is %s"
    _logger.warning(what, printable(target.location), printable(target.index_file))


class _Tally:
    def __init__(self) -> None:
        self.indexed = self.unchanged = self.removed = self.unreadable = 0
        self.indexes: list[str] = []
        self.failures: list[EvalIndexError] = []
        self.json_logs: list[str] = []
        self.meter = Meter()

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
            self.meter.read(),
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
            self._root = folder_of(target.location) if target.one_log else target.location
            inner = [
                (root_id, f"{prefix}/")
                for location, root_id in known.items()
                if (prefix := path_below(location, self._root)) is not None
            ]
            return stored_location(self._writer.path, self._root), inner

        self._root_id = self._writer.claim_root(choose)
        self._below = path_below(target.location, self._root) or ""

    def run(self, jobs: int | None, progress: Progress) -> None:
        known = self._writer.logs(self._root_id)
        known = {path: row for path, row in known.items() if is_at_or_below(path, self._below)}
        started = time.time_ns()
        listed, unlisted = self._list(known)
        reader = LogReader(
            self._root,
            self._writer.summaries(self._root_id),
            full=self._full,
            summaries=self._summaries,
            meter=self._tally.meter,
        )
        changed = [item for item in listed if not reader.is_unchanged(item, known.get(item.path))]
        self._tally.unchanged += len(listed) - len(changed)
        there = {item.path for item in listed}
        progress.start(name_of(self._root) or self._root, len(changed))

        def read(item: Listed) -> Outcome:
            return reader.read(item.path, known.get(item.path), item.size)

        if jobs is None and is_url(self._root):
            jobs = _REMOTE_JOBS
        for outcome in _outcomes(jobs, read, changed):
            self._store(outcome, reader)
            progress.step()
            if outcome.gone:
                there.discard(outcome.path)
        self._forget_gone(known, there, unlisted)
        if not (listed or self._below if is_url(self._root) else os.path.isdir(self._root)):
            self._writer.drop_root(self._root_id)
        elif not self._below:
            self._writer.set_built(self._root_id, started)

    def _list(self, known: dict[str, IndexedLog]) -> tuple[list[Listed], set[str]]:
        """The logs to look at, and the folders below which nothing can be said to be gone."""
        if self._one_log:
            return [Listed(self._below, None, None)], set()
        listing = list_logs(self._root, self._below, self._tally.meter)
        try:
            listed = list(listing)
        except RootUnreadable as error:
            if is_url(self._root):
                raise  # a store that fails is not gone
            if self._forget:
                return [], set()
            error.hint = "if it is gone for good, build with --forget"
            raise
        folder = full_path(self._root, self._below)
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

    def _store(self, outcome: Outcome, reader: LogReader) -> None:
        if not self._put(outcome):
            # Another builder has dropped what was to be kept.
            outcome = reader.read_anew(outcome.path)
            self._put(outcome)
        if outcome.error is not None:
            self._tally.fail(outcome.error)
        elif outcome.facts is not None:
            self._tally.indexed += 1
        elif outcome.row is not None and not outcome.gone:
            if outcome.version is not None and outcome.version != outcome.row.version:
                self._writer.refresh(outcome.row.log_id, outcome.version)
            self._tally.unchanged += 1

    def _put(self, outcome: Outcome) -> bool:
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


def _outcomes(
    jobs: int | None, read: Callable[[Listed], Outcome], items: Sequence[Listed]
) -> Iterator[Outcome]:
    """What `jobs` threads read of each log, in order. None is as many as help: one, unless the
    first logs show that reading is more waiting than work."""
    if jobs is None:
        waited = worked = 0.0
        for item in items[:_TRIED]:
            started, work_started = time.perf_counter(), time.thread_time()
            outcome = read(item)
            worked += time.thread_time() - work_started
            waited += time.perf_counter() - started
            yield outcome
        items = items[_TRIED:]
        jobs = _WAITING_JOBS if waited > 2 * worked else _JOBS
    yield from work_ahead(jobs, read, items)


def _is_log_of_its_own(path: str) -> bool:
    return not is_url(path) and os.path.isfile(path) and not os.path.islink(path)


def _is_json_log(path: str) -> bool:
    """As inspect lists them, by a time stamp in the name; or by what the file begins with."""
    if _TIMESTAMPED.match(name_of(path)):
        return True
    if is_url(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and b'"version"' in start and b'"eval"' in start
