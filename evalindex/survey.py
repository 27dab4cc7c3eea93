"""The logs of a folder as they are now, for answers from rows alone.

Every log is looked at: rows serve for those that are as they were indexed, and what is new or has
changed is read, with its samples, and told once.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from evalindex.ahead import work_ahead
from evalindex.contents import read_contents
from evalindex.database.questions import Brief, FoundLog
from evalindex.directory import PAUSES, read_directory, stored_proof
from evalindex.errors import EvalIndexError, LogNotFound, LogUnreadable, RootUnreadable, StoreDenied
from evalindex.locations import full_path, is_at_or_below, is_url
from evalindex.names import HEADER
from evalindex.place import Root, Scope, Spot, roots_of
from evalindex.stores import Listed
from evalindex.stores.access import can_list, is_folder, list_logs, listed_log
from evalindex.stores.local import is_alias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from evalindex.database.queries import IndexReader
    from evalindex.database.questions import Question
    from evalindex.heal import Healer, LogInCall
    from evalindex.known import Known
    from evalindex.model import Member
    from evalindex.records import Header, Metric, Summaries
    from evalindex.stores import LogFile

_RECOVERED = "-recovered.eval"
_SHARDS = ".shards"
_REMOTE_JOBS = 16


class SurveyedLog(NamedTuple):
    """One log as it is now. `log_id` is that of the index, None for one that was read just now,
    whose header is then here. `modified` is in ns, `checked` in seconds since 1970."""

    location: str
    path: str
    brief: Brief
    summaries_id: int
    log_id: int | None
    state: str
    size: int | None
    modified: int
    checked: float
    header: tuple[Header, list[Metric]] | None

    @property
    def task_key(self) -> str:
        return task_key(self.brief, self.location)

    @property
    def newness(self) -> tuple[str, int, str]:
        return self.brief.created or "", self.modified, self.location


def task_key(brief: Brief, location: str) -> str:
    """What the attempts of one task have in common; of a log that does not say, its own."""
    return brief.task_id or location


_Read = tuple[SurveyedLog, "Summaries"]


class Survey(NamedTuple):
    """The logs in the order of their paths; what could not be read; the logs that are indexed but
    no longer there; the number of copies that their merged log hides; and the tasks (`task_key`) of
    which a log could not be read."""

    logs: list[SurveyedLog]
    failures: tuple[EvalIndexError, ...]
    gone: tuple[str, ...]
    hidden: int
    doubtful: frozenset[str]


def survey(
    healer: Healer, reader: IndexReader, question: Question, scope: Scope, *, fresh: bool
) -> Survey:
    """Look at every log of an index within a scope, and for new ones. Remote logs are taken as they
    were when the index was built, unless `fresh`."""
    job = _Survey(healer, question)
    for root, below in scope.parts(roots_of(reader)):
        if fresh or not is_url(root.location) or not job.take_as_built(root, below):
            job.look(root, below)
    logs = {log.location: log for log in sorted(job.logs, key=lambda log: log.location)}
    shown = [log for log in logs.values() if not _is_hidden(log, logs)]
    hidden = len(logs) - len(shown)
    gone = tuple(sorted(job.gone))
    return Survey(shown, tuple(job.failures), gone, hidden, frozenset(job.doubtful))


class _Survey:
    def __init__(self, healer: Healer, question: Question) -> None:
        self._healer = healer
        self._question = question
        self.logs: list[SurveyedLog] = []
        self.failures: list[EvalIndexError] = []
        self.doubtful: set[str] = set()
        self.gone: list[str] = []

    def take_as_built(self, root: Root, below: str) -> bool:
        """Take what a build found, unless the times of logs matter, which only a listing tells. A
        log that it could not make rows of is looked at."""
        known = self._known(root, below)
        if any(f"{_SHARDS}/" in path for path in known):
            return False
        checked = (root.built_at or 0) / 1e9
        left: list[tuple[Listed, FoundLog | None]] = []
        for path, found in known.items():
            spot = Spot(full_path(root.location, path), root.root_id, path)
            if found.row.version is None or not self._take(found, spot, 0, checked):
                left.append((Listed(path, None, None), found))
        self._look_at(root, left)
        return True

    def _known(self, root: Root, below: str) -> dict[str, FoundLog]:
        return {
            found.row.path: found
            for found in self._question.logs(root.root_id)
            if is_at_or_below(found.row.path, below)
        }

    def look(self, root: Root, below: str) -> None:
        known = self._known(root, below)
        unlisted: dict[str, str] = {}
        listed = list(self._listed(root, below, list(known), unlisted))
        self._look_at(root, [(item, known.pop(item.path, None)) for item in listed])
        for folder, reason in unlisted.items():
            self.failures.append(LogUnreadable(reason, log=full_path(root.location, folder)))
            for path in [path for path in known if is_at_or_below(path, folder)]:
                self._doubt(known.pop(path), full_path(root.location, path))
        self._look_again(root, known)

    def _listed(
        self, root: Root, below: str, known: Iterable[str], unlisted: dict[str, str]
    ) -> Iterator[Listed]:
        location = full_path(root.location, below)
        if not can_list(location):
            for path in known:
                yield from listed_log(full_path(root.location, path), path, self._healer.meter)
            return
        if below.endswith(".eval") and not is_folder(location):
            yield from listed_log(location, below, self._healer.meter)
            return
        listing = list_logs(root.location, below, self._healer.meter)
        try:
            yield from listing
        except (RootUnreadable, StoreDenied) as error:
            unlisted[below] = error.reason
        for folder, reason in listing.unlisted.items():
            unlisted[folder] = f"it cannot be listed: {reason}"

    def _look_again(self, root: Root, known: dict[str, FoundLog]) -> None:
        """What is not there may be about to be: recovery removes a log, then moves it there."""
        if not known:
            return
        time.sleep(PAUSES[0])
        again: list[tuple[Listed, FoundLog | None]] = []
        there = work_ahead(_jobs(root), partial(_is_there, root.location), list(known))
        for (path, found), is_there in zip(known.items(), there, strict=True):
            if is_there:
                again.append((Listed(path, None, None), found))
            else:
                self.gone.append(full_path(root.location, path))
        self._look_at(root, again)

    def _look_at(self, root: Root, found: Iterable[tuple[Listed, FoundLog | None]]) -> None:
        """Take the rows of what is as it was indexed, read the rest."""
        now = time.time()
        left: list[tuple[Spot, FoundLog | None]] = []
        for item, known in found:
            spot = Spot(full_path(root.location, item.path), root.root_id, item.path)
            if (
                known is None
                or known.row.version is None
                or known.row.version != item.version
                or not self._take(known, spot, item.modified, now)
            ):
                left.append((spot, known))

        def read(one: tuple[Spot, FoundLog | None]) -> _Read | int | EvalIndexError:
            try:
                return self._read(*one, now)
            except EvalIndexError as error:
                return error

        for (spot, known), result in zip(left, work_ahead(_jobs(root), read, left), strict=True):
            if isinstance(result, int):
                assert known is not None
                self._take(known, spot, result, now)
            elif isinstance(result, tuple):
                log, summaries = result
                self.logs.append(log._replace(summaries_id=self._question.add(summaries)))
            elif isinstance(result, LogNotFound):
                self.gone.append(spot.location)
            else:
                result.log = result.log or spot.location
                self.failures.append(result)
                self._doubt(known, spot.location)

    def _doubt(self, known: FoundLog | None, location: str) -> None:
        """Of the task of this log not all is known."""
        if known is not None and known.brief is not None:
            self.doubtful.add(task_key(known.brief, location))

    def _take(self, known: FoundLog, spot: Spot, modified: int, now: float) -> bool:
        """Take the rows of the index, which were proved to hold; False if there are none."""
        row = known.row
        if known.brief is None or known.summaries_id is None:
            return False
        log = (spot.location, spot.path, known.brief, known.summaries_id, row.log_id, row.state)
        self.logs.append(SurveyedLog(*log, row.size, modified, now, None))
        return True

    def _read(self, spot: Spot, known: FoundLog | None, now: float) -> _Read | int:
        """What the log says, or the time of its last change if the index's rows hold for it."""

        def read(_: LogInCall, file: LogFile, proved: Known) -> _Read | int:
            if known is not None and _has_rows(known) and _is_same(proved, known):
                return file.modified
            members = proved.members()
            if proved.log_id is not None:  # of the index, only what was looked up is there
                members = read_directory(file).directory.members()
            return read_log(spot, {member.name: member for member in members}, file, now)

        return self._healer.attempt(spot, [], read)


def _jobs(root: Root) -> int:
    return _REMOTE_JOBS if is_url(root.location) else 1


def _is_there(root: str, path: str) -> bool:
    location = full_path(root, path)
    if not is_url(location):
        return os.path.lexists(location) and not is_alias(location, root)
    try:
        return any(listed_log(location, path))
    except EvalIndexError:
        return True  # reading it will say why


def _has_rows(known: FoundLog) -> bool:
    return known.brief is not None and known.summaries_id is not None


def _is_same(proved: Known, known: FoundLog) -> bool:
    """Whether what was proved are the rows that the question sees: it has its own connection, and
    the index file may have been replaced meanwhile, so ids alone do not tell."""
    stored = stored_proof(known.row)
    return (
        proved.log_id == known.row.log_id and stored is not None and proved.proof[1:] == stored[1:]
    )


def read_log(
    spot: Spot, members: Mapping[str, Member], file: LogFile, now: float
) -> tuple[SurveyedLog, Summaries]:
    """What an open log says of itself, and its samples."""
    header, metrics, summaries = read_contents(file, members)
    assert summaries is not None  # they were asked for
    brief = Brief(*(getattr(header, name) for name in Brief._fields))
    state = "finished" if HEADER in members else "unfinished"
    log = (spot.location, spot.path, brief, 0, None, state, file.size, file.modified, now)
    return SurveyedLog(*log, (header, metrics)), summaries


def _is_hidden(log: SurveyedLog, logs: dict[str, SurveyedLog]) -> bool:
    """Whether a log is the copy of a shard that its merged log already covers.

    As inspect hides them (`inspect_ai/log/_shard_listing.py`): each merged log that is there,
    recovered or not, must have succeeded, and all must have been written after the shard.
    """
    folder, base = os.path.split(os.path.dirname(os.path.dirname(log.location)))
    stem = os.path.join(folder, base.removesuffix(_SHARDS))
    if not base.endswith(_SHARDS) or base == _SHARDS:
        return False
    merged = [logs[path] for path in (stem + ".eval", stem + _RECOVERED) if path in logs]
    if not merged or any(one.brief.status != "success" for one in merged):
        return False
    return log.modified < min(one.modified for one in merged)
