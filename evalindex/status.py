"""What an index knows and how true it still is: a look at each log, without reading samples."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from evalindex.directory import prove, stored_proof
from evalindex.errors import EvalIndexError, LogNotFound, RootUnreadable
from evalindex.locations import full_path, is_url
from evalindex.place import roots_of
from evalindex.stores.access import can_list, is_folder, list_logs, listed_log, open_log
from evalindex.stores.local import stat_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evalindex.database.queries import IndexedLog, IndexReader
    from evalindex.model import Version
    from evalindex.place import Root, Scope
    from evalindex.stores import Listed

#: `fresh`: as indexed, finished. `unfinished`: as indexed, without a header; a running eval and a
#: crashed one cannot be told apart. `stale`: changed since. `gone`: no longer there. `unreadable`:
#: could not be read when the index was built. `new`: there, but not indexed.
State = Literal["fresh", "unfinished", "stale", "gone", "unreadable", "new"]


class LogStatus(NamedTuple):
    """One log. `log` is the full path; `age` the seconds since it last changed, if it is there."""

    log: str
    path: str
    state: State
    reason: str | None
    samples: int | None
    bytes: int | None
    age: float | None


class IndexStatus(NamedTuple):
    """An index and the logs that it knows. `built_at` is when a whole root was last built, in
    seconds since 1970; `unlisted` are folders that could not be listed."""

    index_file: str
    schema: int
    parser: int
    bytes: int
    samples: int
    members: int
    roots: dict[str, float | None]
    logs: tuple[LogStatus, ...]
    unlisted: dict[str, str]


def status(reader: IndexReader, scope: Scope) -> IndexStatus:
    """Look at every log of an index within a scope, and for new ones; reads at most their tails."""
    facts = reader.facts()
    logs: list[LogStatus] = []
    unlisted: dict[str, str] = {}
    for root, below in scope.parts(roots_of(reader)):
        rows = {row.path: row for row in scope.rows(reader, root, below)}
        listed = _listed(root, below, rows, unlisted)
        logs += [_status_of(root, row, listed) for row in rows.values()]
        for path in listed.keys() - rows:
            location = full_path(root.location, path)
            logs.append(LogStatus(location, path, "new", None, None, listed[path].size, None))
    return IndexStatus(
        reader.path,
        facts["schema"],
        facts["parser"],
        facts["bytes"],
        facts["samples"],
        facts["members"],
        {r.location: None if r.built_at is None else r.built_at / 1e9 for r in roots_of(reader)},
        tuple(sorted(logs)),
        unlisted,
    )


def _status_of(root: Root, row: IndexedLog, listed: Mapping[str, Listed]) -> LogStatus:
    location = full_path(root.location, row.path)
    if is_url(location):
        item = listed.get(row.path)
        if item is None:
            return LogStatus(location, row.path, "gone", None, row.samples, row.size, None)
        state, reason = _state(location, row, item.version)
        age = max(0.0, time.time() - item.modified / 1e9)
        return LogStatus(location, row.path, state, reason, row.samples, item.size, age)
    try:
        found = os.stat(location)
    except OSError as error:
        if os.path.islink(location):
            return LogStatus(location, row.path, "unreadable", row.reason, None, None, None)
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            why = error.strerror or str(error)
            return LogStatus(location, row.path, "unreadable", why, row.samples, row.size, None)
        return LogStatus(location, row.path, "gone", None, row.samples, row.size, None)
    state, reason = _state(location, row, stat_version(found))
    age = max(0.0, time.time() - found.st_mtime)
    return LogStatus(location, row.path, state, reason, row.samples, found.st_size, age)


def _state(location: str, row: IndexedLog, version: Version | None) -> tuple[State, str | None]:
    known = stored_proof(row)
    if known is None:
        return "unreadable", row.reason
    if known.version is None or known.version != version:
        try:
            with open_log(location) as file:
                if prove(known, file) is None:
                    return "stale", None
        except LogNotFound:
            return "gone", None
        except EvalIndexError as error:
            return "stale", error.reason
    return ("fresh" if row.state == "finished" else "unfinished"), None


def _listed(
    root: Root, below: str, known: Iterable[str], unlisted: dict[str, str]
) -> dict[str, Listed]:
    """The logs that are there, by path; where nothing can be listed, those that were known."""
    location = full_path(root.location, below)
    if not can_list(location):
        looks = (listed_log(full_path(root.location, path), path) for path in known)
        return {item.path: item for look in looks for item in look}
    if not is_folder(location):
        return {item.path: item for item in listed_log(location, below)} if below else {}
    listing = list_logs(root.location, below)
    found: dict[str, Listed] = {}
    try:
        found = {item.path: item for item in listing}
    except RootUnreadable as error:
        unlisted[str(error.log)] = error.reason
    unlisted.update((full_path(root.location, p), why) for p, why in listing.unlisted.items())
    return found
