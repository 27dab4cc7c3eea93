"""What builders write to an index: SQL as text, on the driver's own connection.

Text instead of SQLAlchemy Core, since a build of many small logs is four statements a log and
Core's share of each is larger than SQLite's.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from evalindex.database.engine import (
    PARSER,
    SCHEMA,
    damaged,
    is_ours,
    naming_errors,
    open_for_reading,
    open_for_writing,
)
from evalindex.database.queries import LOGS, ROOTS, IndexedLog, RootRow
from evalindex.database.rows import add_contents, drop_contents, load_facts
from evalindex.errors import NotAnIndex
from evalindex.records import Counts, KnownSummaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from evalindex.model import Version
    from evalindex.records import Contents, Facts, Source

_ADD_ROOT = "INSERT INTO root (location) VALUES (?) ON CONFLICT DO NOTHING"
_BUILT = "UPDATE root SET built_at = ? WHERE root_id = ?"
_REBIND = "UPDATE log SET root_id = ?, path = ? || path WHERE root_id = ?"
_DROP_ROOT = "DELETE FROM root WHERE root_id = ?"

_IDS = """
SELECT log_id, summaries_id FROM log LEFT JOIN header USING (log_id) WHERE root_id = ? AND path = ?
"""
_DROP_MEMBERS = "DELETE FROM member WHERE log_id = ?"
_DROP_LOG = "DELETE FROM log WHERE log_id = ?"
_ADD_LOG = """
INSERT INTO log (root_id, path, state, reason, version, size, directory_offset, digest,
  samples, superseded, odd, indexed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_MEMBER = "INSERT INTO member VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SUMMARIES = """
SELECT path, summaries_id, basis, done, errors, limits, unrecorded, unsummarized, collisions
FROM log JOIN header USING (log_id) JOIN summaries USING (summaries_id)
WHERE root_id = ? AND length(digest) > 0
"""
_REFRESH = "UPDATE log SET version = ? WHERE log_id = ?"

_OWNED = [
    *((table, "log", "log_id") for table in ("member", "metric", "header")),
    *((table, "header", "summaries_id") for table in ("sample", "score", "summaries")),
]
_OBJECTS = "SELECT type, name, sql FROM sqlite_master"
_PARSER = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'parser'"
# Rows of an older parser prove nothing any more: neither their version nor their digest can match.
_DISTRUST = "UPDATE log SET version = NULL, digest = zeroblob(0) WHERE digest IS NOT NULL"
_SET_PARSER = "UPDATE meta SET value = ? WHERE key = 'parser'"


#: Roots inside another: the id, and the path below the other with a `/` behind it.
Inner = Iterable[tuple[int, str]]


class LogFacts(NamedTuple):
    """One version of one log, as a builder found it; times in ns since 1970, UTC."""

    state: str
    reason: str | None
    version: Version | None
    size: int | None
    directory_offset: int | None
    digest: bytes | None
    samples: int
    superseded: int
    odd: int
    indexed_at: int


class IndexWriter:
    """An index open for building. Any number of readers, and other builders, may use it too.

    Every method is one transaction, so a builder may be killed between any two instructions.
    """

    def __init__(self, path: str, *, replace_damaged: bool = False) -> None:
        """Open the index, making or migrating it.

        `replace_damaged` makes it anew if it is an index but damaged; never if it is foreign.
        """
        self.path = path
        try:
            self._open()
            if replace_damaged:
                self._check()
                self._sweep()
        except NotAnIndex:
            if not (replace_damaged and is_ours(path)):
                raise
            for suffix in ("", "-wal", "-shm", "-journal"):
                if os.path.exists(path + suffix):
                    os.remove(path + suffix)
            self._open()

    def _open(self) -> None:
        self._connection, schema = open_for_writing(self.path)
        try:
            if schema < SCHEMA:
                self._migrate()
            with self._transaction() as connection:
                (parser,) = connection.execute(_PARSER).fetchone() or (0,)
                if parser < PARSER:
                    connection.execute(_DISTRUST)
                    connection.execute(_SET_PARSER, (str(PARSER),))
        except BaseException:
            self._connection.close()
            raise

    def _check(self) -> None:
        """Raise `NotAnIndex` if the file is damaged, or lacks what migrations make."""
        from evalindex.database.migrate import upgrade

        ideal = sqlite3.connect(":memory:", isolation_level=None)
        upgrade(ideal)
        objects = set(ideal.execute(_OBJECTS))
        ideal.close()
        try:
            with naming_errors(self.path, writing=True):
                (verdict,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok" or not objects <= set(self._connection.execute(_OBJECTS)):
                    raise damaged(self.path, verdict)
        except BaseException:
            self._connection.close()
            raise

    def _sweep(self) -> None:
        """Drop rows that belong to nothing, which a log that is read again would not replace."""
        with self._transaction() as connection:
            for table, owner, key in _OWNED:
                connection.execute(
                    f"DELETE FROM {table} WHERE {key} NOT IN"
                    f" (SELECT {key} FROM {owner} WHERE {key} IS NOT NULL)"
                )

    def _migrate(self) -> None:
        from sqlalchemy.exc import DBAPIError

        from evalindex.database.migrate import upgrade

        with naming_errors(self.path, writing=True):
            try:
                upgrade(self._connection)
            except DBAPIError as error:
                if isinstance(error.orig, sqlite3.Error):
                    raise error.orig from error
                raise

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with naming_errors(self.path, writing=True):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def roots(self) -> list[RootRow]:
        with naming_errors(self.path, writing=True):
            return [RootRow(*row) for row in self._connection.execute(ROOTS)]

    def claim_root(self, choose: Callable[[list[RootRow]], int | tuple[str, Inner]]) -> int:
        """The id of a root: one of those that are there, or a new one, as `choose` says.

        `choose` looks at the roots and no other builder can add one meanwhile. It gives an id, or
        the location of a new root and the roots inside it, whose logs the new one takes over.
        """
        with self._transaction() as connection:
            choice = choose([RootRow(*row) for row in connection.execute(ROOTS)])
            if isinstance(choice, int):
                return choice
            return self._add_root(connection, *choice)

    def add_root(self, location: str, inner: Inner = ()) -> int:
        """The id of the root at `location`, new or not; see `claim_root`."""
        with self._transaction() as connection:
            return self._add_root(connection, location, inner)

    def _add_root(self, connection: sqlite3.Connection, location: str, inner: Inner) -> int:
        connection.execute(_ADD_ROOT, (location,))
        (root_id,) = connection.execute(
            "SELECT root_id FROM root WHERE location = ?", (location,)
        ).fetchone()
        for inner_id, prefix in inner:
            connection.execute(_REBIND, (root_id, prefix, inner_id))
            connection.execute(_DROP_ROOT, (inner_id,))
        return int(root_id)

    def drop_root(self, root_id: int) -> None:
        """Forget a root, if the index knows no log of it any more."""
        with self._transaction() as connection:
            if connection.execute(f"{LOGS} LIMIT 1", (root_id,)).fetchone() is None:
                connection.execute(_DROP_ROOT, (root_id,))

    def set_built(self, root_id: int, at: int) -> None:
        with self._transaction() as connection:
            connection.execute(_BUILT, (at, root_id))

    def logs(self, root_id: int) -> dict[str, IndexedLog]:
        """The logs of a root by path."""
        with naming_errors(self.path, writing=True):
            rows = self._connection.execute(LOGS, (root_id,))
            return {row[1]: IndexedLog(*row) for row in rows}

    def put(
        self,
        root_id: int,
        path: str,
        facts: LogFacts,
        members: Iterable[tuple[object, ...]],
        contents: Contents | None = None,
    ) -> bool:
        """Replace what the index holds of a log, under a new log id.

        `members` are the columns of `member` behind `log_id`, in name order. False, and nothing is
        done, if rows were to be kept that another builder has dropped meanwhile.
        """
        summaries = None if contents is None else contents.summaries
        kept = None if summaries is None else summaries.kept
        with self._transaction() as connection:
            log_id, summaries_id = connection.execute(_IDS, (root_id, path)).fetchone() or (0, None)
            if kept is not None and kept != summaries_id:
                return False
            if log_id:
                _drop(connection, log_id, None if kept is not None else summaries_id)
            new_id = connection.execute(_ADD_LOG, (root_id, path, *facts)).lastrowid
            connection.executemany(_ADD_MEMBER, ((new_id, *row) for row in members))
            if contents is not None:
                add_contents(connection, int(new_id or 0), contents)
        return True

    def summaries(self, root_id: int) -> dict[str, KnownSummaries]:
        """What the index has of the samples of each log of a root, by path."""
        with naming_errors(self.path, writing=True):
            rows = self._connection.execute(_SUMMARIES, (root_id,))
            return {
                path: KnownSummaries(id, basis, Counts(*counts), self._load)
                for path, id, basis, *counts in rows
            }

    def _load(self, summaries_id: int, sources: Sequence[Source]) -> tuple[Facts, int] | None:
        """Called while other threads write: on a connection of its own, as of one moment."""
        connection = open_for_reading(self.path)
        try:
            with naming_errors(self.path):
                connection.execute("BEGIN")
                return load_facts(connection, summaries_id, sources)
        finally:
            connection.close()

    def refresh(self, log_id: int, version: Version) -> None:
        """Record a version under which the rows of a log were proved to hold."""
        with self._transaction() as connection:
            connection.execute(_REFRESH, (version, log_id))

    def forget(self, root_id: int, paths: Iterable[str]) -> None:
        with self._transaction() as connection:
            for path in paths:
                for ids in connection.execute(_IDS, (root_id, path)).fetchall():
                    _drop(connection, *ids)

    def close(self) -> None:
        """Leave one file that can be read from anywhere, unless another process has it open."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            pass  # somebody reads or builds: it stays in WAL mode, which is right too
        finally:
            self._connection.close()


def _drop(connection: sqlite3.Connection, log_id: int, summaries_id: int | None) -> None:
    drop_contents(connection, log_id, summaries_id)
    connection.execute(_DROP_MEMBERS, (log_id,))
    connection.execute(_DROP_LOG, (log_id,))
