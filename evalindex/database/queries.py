"""What readers ask an index: SQL as text, on the driver's own connection."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from evalindex.database.engine import naming_errors, open_for_reading
from evalindex.errors import IndexClosed
from evalindex.model import Member, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from evalindex.records import Contents

ROOTS = "SELECT root_id, location, built_at FROM root"

# A log's version comes from the same statement as its rows (law 1).
LOG_COLUMNS = """
l.log_id, l.path, l.state, l.reason, l.version, l.size, l.directory_offset, l.digest, l.samples,
l.superseded, l.odd
"""
LOGS = f"SELECT {LOG_COLUMNS} FROM log AS l WHERE l.root_id = ?"
_LOG = f"{LOGS} AND l.path = ?"
_NoneType = type(None)
LOG_WIDTH = 11
_MOST_IDLE = 2
_PROOF_TYPES = {(int, int, bytes), (_NoneType, _NoneType, _NoneType)}

# [[root_id, path, [name, ...]], ...]: one statement for many logs takes half the time of one for
# each. A log without names has one row. The names are strings in every case.
_FIND = """
SELECT q.key, l.log_id, l.version, l.size, l.directory_offset, l.digest,
  n.value, m.flags, m.method, m.crc32, m.compressed_size, m.uncompressed_size, m.header_offset
FROM json_each(?) AS q
CROSS JOIN log AS l
  ON l.root_id = json_extract(q.value, '$[0]') AND l.path = json_extract(q.value, '$[1]')
LEFT JOIN json_each(q.value, '$[2]') AS n
LEFT JOIN member AS m ON m.log_id = l.log_id AND m.name = n.value
"""

_NEIGHBOURS = """
SELECT name FROM (SELECT name FROM member WHERE log_id = ? AND name < ?
  ORDER BY name DESC LIMIT ?)
UNION ALL
SELECT name FROM (SELECT name FROM member WHERE log_id = ? AND name >= ?
  ORDER BY name LIMIT ?)
"""

_BELOW = """
SELECT name, flags, method, crc32, compressed_size, uncompressed_size, header_offset
FROM member WHERE log_id = ? AND name >= ? AND name < ?
"""

_FACTS = """
SELECT user_version, (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'parser'),
  page_count * page_size, (SELECT count(*) FROM log), (SELECT coalesce(sum(samples), 0) FROM log),
  (SELECT count(*) FROM member)
FROM pragma_user_version, pragma_page_count, pragma_page_size
"""

_MEMBERS = """
SELECT name, flags, method, crc32, compressed_size, uncompressed_size, header_offset
FROM member WHERE log_id = ?
"""


class RootRow(NamedTuple):
    root_id: int
    location: str
    built_at: int | None


class IndexedLog(NamedTuple):
    """What the index says of one version of one log."""

    log_id: int
    path: str
    state: str
    reason: str | None
    version: Version | None
    size: int | None
    directory_offset: int | None
    digest: bytes | None
    samples: int
    superseded: int
    odd: int


class IndexedVersion(NamedTuple):
    """What a version of a log is known by."""

    log_id: int
    version: Version | None
    size: int | None
    directory_offset: int | None
    digest: bytes | None


class Lent(NamedTuple):
    """A connection, the file that it was opened on, and how many forks lay behind the process."""

    connection: sqlite3.Connection
    identity: tuple[int, int] | None
    forks: int


class IndexReader:
    """An index open for reading. Safe to share between threads; opens itself again after a fork,
    and when a builder has put a new file in the place of the old one."""

    def __init__(self, path: str, origin: str | None = None) -> None:
        """`origin` is where the file was fetched from, to which its roots are relative."""
        self.path = path
        self.origin = origin or path
        self._lock = threading.Lock()
        self._closed = False
        self._idle: deque[Lent] = deque()
        self._forks = 0
        self._connection: sqlite3.Connection | None = self._open()
        _readers.add(self)

    def _open(self) -> sqlite3.Connection:
        identity = _identity(self.path)
        connection = open_for_reading(self.path)
        self._identity = identity
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise IndexClosed("the index was closed", log=self.path)
            if self._connection is None:
                self._connection = self._open()
            identity = _identity(self.path)
            if identity is not None and identity != self._identity:
                replaced, self._connection = self._connection, self._open()
                replaced.close()
            with naming_errors(self.path):
                try:
                    # An interrupt may come at any point, even behind the last rollback's try.
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    self._connection.execute("BEGIN")
                    yield self._connection
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
        while self._idle:
            self._idle.pop().connection.close()

    def after_fork(self) -> None:
        """Forget what belongs to the parent: its connections, and a lock that it may have held."""
        if self._connection is not None:
            _inherited.append(self._connection)
        self._connection = None
        _inherited.extend(lent.connection for lent in self._idle)
        self._idle.clear()
        self._forks += 1
        self._lock = threading.Lock()

    # A question has a connection of its own, on which rows wait until they are taken. To open one
    # costs more than most questions. Answers are let go of by the garbage collector too, which may
    # run while this thread holds the lock: so there is none here.

    def lend(self) -> Lent:
        """A connection for one question alone, to be given back."""
        identity = _identity(self.path)
        while not self._closed:
            try:
                lent = self._idle.pop()
            except IndexError:
                return Lent(open_for_reading(self.path), identity, self._forks)
            if lent.identity == identity:
                return lent
            lent.connection.close()
        raise IndexClosed("the index was closed", log=self.path)

    def take_back(self, lent: Lent, *, clean: bool) -> None:
        """`clean` says that the connection is as it was lent."""
        if lent.forks != self._forks:
            _inherited.append(lent.connection)
        elif clean and not self._closed and len(self._idle) < _MOST_IDLE:
            self._idle.append(lent)
        else:
            lent.connection.close()

    def facts(self) -> dict[str, int]:
        """Numbers about the index itself: schema, parser, bytes, logs, samples, members."""
        with self._transaction() as connection:
            row = connection.execute(_FACTS).fetchone()
        return dict(
            zip(("schema", "parser", "bytes", "logs", "samples", "members"), row, strict=True)
        )

    def faults(self) -> list[str]:
        """What is wrong with the index file, by SQLite's own checks and ours; reads all of it."""
        from evalindex.database.faults import FAULTS  # not at the top: a read does without

        with self._transaction() as connection:
            faults = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            if faults == ["ok"]:
                (schema,) = connection.execute("PRAGMA user_version").fetchone()
                statements = FAULTS if schema > 1 else FAULTS[:1]
                faults = [row[0] for text in statements for row in connection.execute(text)]
        return faults

    def roots(self) -> list[RootRow]:
        """All roots, as the index spells them."""
        with self._transaction() as connection:
            return [RootRow(*row) for row in connection.execute(ROOTS)]

    def logs(self, root_id: int) -> list[IndexedLog]:
        """All logs of a root."""
        with self._transaction() as connection:
            return [indexed_log(row) for row in connection.execute(LOGS, (root_id,))]

    def log(self, root_id: int, path: str) -> IndexedLog | None:
        with self._transaction() as connection:
            row = connection.execute(_LOG, (root_id, path)).fetchone()
        return None if row is None else indexed_log(row)

    def find(
        self,
        questions: Sequence[tuple[int, str, Sequence[str]]],
        otherwise: Callable[[str], str],
    ) -> list[tuple[IndexedVersion, dict[str, Member]] | None]:
        """For each root, path and wanted members: the log and those of the members that it has;
        None if the log is not indexed. All as of one moment.

        For a member that a log does not have, the one that `otherwise` names is looked up too. No
        name may have a NUL or a lone surrogate.
        """
        with self._transaction() as connection:
            found = _find(connection, questions)
            places, missed = [], []
            for place, (question, answer) in enumerate(zip(questions, found, strict=True)):
                if answer is not None and len(answer[1]) < len(question[2]):
                    root_id, path, wanted = question
                    names = [otherwise(name) for name in wanted if name not in answer[1]]
                    places.append(place)
                    missed.append((root_id, path, names))
            if missed:
                for place, second in zip(places, _find(connection, missed), strict=True):
                    first = found[place]
                    if first is not None and second is not None:
                        first[1].update(second[1])
        return found

    def neighbours(self, log_id: int, name: str, count: int) -> list[str]:
        """Up to `count` names of members on each side of where a name is or would be."""
        with self._transaction() as connection:
            rows = connection.execute(_NEIGHBOURS, (log_id, name, count) * 2).fetchall()
        return [row[0] for row in rows]

    def below(self, log_id: int, prefix: str) -> list[Member]:
        """The members whose names begin with a prefix that ends with a slash, in name order."""
        after = prefix[:-1] + chr(ord("/") + 1)
        with self._transaction() as connection:
            return [_member(m) for m in connection.execute(_BELOW, (log_id, prefix, after))]

    def contents(self, log_id: int) -> Contents | None:
        """What a log said of itself when it was indexed; None if nothing is there."""
        from evalindex.database.rows import load_contents  # not needed by a read

        with self._transaction() as connection:
            return load_contents(connection, log_id)

    def members(self, root_id: int, path: str) -> tuple[IndexedLog, dict[str, Member]] | None:
        """A log and all its members, in name order."""
        with self._transaction() as connection:
            row = connection.execute(_LOG, (root_id, path)).fetchone()
            if row is None:
                return None
            members = {m[0]: _member(m) for m in connection.execute(_MEMBERS, (row[0],))}
        return indexed_log(row), members


# SQLite checks the types of a STRICT table when it writes, not when it reads: a damaged page can
# hold anything.


def indexed_log(row: tuple[Any, ...]) -> IndexedLog:
    found = IndexedLog(*row)
    _check_types(found)
    return found


def _check_types(log: IndexedLog | IndexedVersion) -> None:
    proof = (type(log.size), type(log.directory_offset), type(log.digest))
    if proof not in _PROOF_TYPES or not isinstance(log.version, (str, _NoneType)):
        raise sqlite3.DatabaseError("a log's row is not as it should be")


def _member(row: tuple[Any, ...]) -> Member:
    if set(map(type, row[1:])) != {int} or min(row[1:]) < 0:
        raise sqlite3.DatabaseError("a member's row is not as it should be")
    return Member(*row)


def _find(
    connection: sqlite3.Connection, questions: Sequence[tuple[int, str, Sequence[str]]]
) -> list[tuple[IndexedVersion, dict[str, Member]] | None]:
    found: list[tuple[IndexedVersion, dict[str, Member]] | None] = [None] * len(questions)
    for row in connection.execute(_FIND, (json.dumps(questions),)):
        answer = found[row[0]]
        if answer is None:
            log = IndexedVersion(*row[1:6])
            _check_types(log)
            answer = found[row[0]] = log, {}
        if row[7] is not None:
            answer[1][row[6]] = _member(row[6:])
    return found


def _after_fork() -> None:
    for reader in _readers:
        reader.after_fork()


# SQLite forbids using a connection that was opened before a fork, closing it included.
_inherited: list[sqlite3.Connection] = []
_readers: WeakSet[IndexReader] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
