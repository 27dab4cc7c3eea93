"""Opening an index: the file, the pragmas, and what is refused by name.

Nothing here, nor anywhere else in the package, opens an index with `open`: when a process closes
any descriptor of a file, the system drops all locks that the process has on it, those of its
SQLite connections too, and a builder elsewhere would take the index for unused.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from evalindex.errors import (
    EvalIndexError,
    IndexBusy,
    IndexEmpty,
    IndexNotFound,
    IndexNotWritable,
    IndexOutdated,
    IndexTooNew,
    NotAnIndex,
    StoreDenied,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(b"evix", "big")
#: The newest schema that this code knows, and the oldest that it reads as it is.
SCHEMA, OLDEST_SCHEMA = 2, 1
#: Version of the code that turns logs into rows. Builders read logs again whose rows are older;
#: readers refuse rows older than `OLDEST_PARSER`, which were wrong.
PARSER, OLDEST_PARSER = 2, 1

# What has no page of its own is code: a trigger, or a view or virtual table in a table's place.
_CODE = """
SELECT count(*) FROM sqlite_master WHERE NOT rootpage AND (
  type = 'trigger' OR lower(name) IN ('log', 'header', 'member', 'meta', 'metric', 'migration',
    'root', 'sample', 'score', 'summaries')
)
"""
# Pragmas, since to name them in one SELECT takes longer than all else of opening.
_IDENTITY = ("PRAGMA application_id", "PRAGMA user_version", "PRAGMA schema_version", _CODE)
_READ_TIMEOUT = 5.0
_WRITE_TIMEOUT = 60.0
_LITTLE_SPACE = 2**20
_ANOTHER = "name another file with --index"
_REBUILD = "run `evalindex build --full` to make it anew; logs are never touched"


def open_for_reading(path: str) -> sqlite3.Connection:
    """A connection that cannot write. Raises what says why the index cannot be used."""
    _look_at(path)
    with naming_errors(path):
        connection = _connect(path, "ro", _READ_TIMEOUT)
        try:
            schema = _schema_of(connection, path)
            if not schema:
                raise _empty_index(path)
            parser, min_reader = _meta(connection, path)
            if schema > SCHEMA and min_reader > SCHEMA:
                raise _too_new(path)
            if schema < OLDEST_SCHEMA or parser < OLDEST_PARSER:
                raise IndexOutdated(
                    "the index was written by an older evalindex and cannot be read as it is",
                    log=path,
                    hint="run `evalindex build` to bring it up to date",
                )
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_writing(path: str) -> tuple[sqlite3.Connection, int]:
    """A connection for a builder, and the schema found: 0 if there is nothing in the file yet.

    The file is made if it does not exist. A foreign or damaged one is left as it is.
    """
    with naming_errors(path, writing=True):
        connection = _connect(path, "rwc", _WRITE_TIMEOUT)
        try:
            schema = _schema_of(connection, path)
            if schema > SCHEMA:
                raise _too_new(path)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            # Uuids land anywhere in their index: pages are written less often the more wait.
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA wal_autocheckpoint = 16000")
            _enter_wal_mode(connection)
        except BaseException:
            connection.close()
            raise
    return connection, schema


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """Readers go on beside a builder in WAL mode, and a killed builder locks nobody out.

    Where the file system cannot do it (no shared memory) SQLite stays with its rollback journal.
    """
    # Changing the mode does not wait for locks, such as that of a builder that is just ending.
    give_up = time.monotonic() + _WRITE_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def is_ours(path: str) -> bool:
    """Whether a file says that it is an index, damaged or not."""
    try:
        connection = _connect(path, "ro", _READ_TIMEOUT)
        try:
            # The pragma alone reads no more than the first 100 bytes.
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            return bool(application == APPLICATION_ID)
        finally:
            connection.close()
    except sqlite3.Error:
        return False


@contextmanager
def naming_errors(path: str, *, writing: bool = False) -> Iterator[None]:
    """Turn what the driver raises into an error that names the index and the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(error, path, writing) from error
    except UnicodeDecodeError as error:  # of a message that quotes what is in the file
        raise damaged(path, "text in it is no UTF-8") from error


def from_json(text: Any, shape: type[T]) -> T:
    """What is kept as JSON. Raises `sqlite3.DatabaseError` if it is not of that shape."""
    import msgspec  # not needed by a read

    try:
        return msgspec.convert(json.loads(text), shape)
    except (TypeError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise sqlite3.DatabaseError("JSON in it is not as it should be") from error


def _named(error: sqlite3.Error, path: str, writing: bool) -> EvalIndexError:
    # The driver tells its errors apart by text only before Python 3.11.
    text = str(error)
    if "locked" in text or "busy" in text:
        return IndexBusy(
            "another process holds the index", log=path, hint="try again when its build has ended"
        )
    if "FOREIGN KEY" in text:
        return IndexBusy(
            "another builder has taken this root over", log=path, hint="run `evalindex build` again"
        )
    if "not a database" in text:
        return NotAnIndex(
            "this file is no evalindex index, or its start was overwritten",
            log=path,
            hint="move it away or name another file with --index, then run `evalindex build`",
        )
    if "is full" in text or ("disk I/O" in text and _is_full(path)):
        kind = IndexNotWritable if writing else IndexBusy
        return kind("the disk is full", log=path, hint="free some space")
    if "readonly" in text or "unable to open" in text:
        if writing:
            return IndexNotWritable("the index cannot be written here", log=path, hint=_ANOTHER)
        # An index at rest can be read without writing a byte. This one is in WAL mode in a place
        # that cannot be written, or its builder was killed while it changed the mode.
        return IndexBusy(
            "a build of the index was stopped or has not ended, and it cannot be read as it is",
            log=path,
            hint="run `evalindex build` where it can be written",
        )
    return damaged(path, text)


def damaged(path: str, how: str) -> NotAnIndex:
    return NotAnIndex(f"the index is damaged ({how})", log=path, hint=_REBUILD)


def _is_full(path: str) -> bool:
    """Where it is SQLite's shared memory that finds no room, it reports an I/O error."""
    return shutil.disk_usage(os.path.dirname(path)).free < _LITTLE_SPACE


def _look_at(path: str) -> None:
    """Refuse by name what is no file that SQLite could read."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise IndexNotFound(
            "there is no index here", log=path, hint="run `evalindex build` on the logs' folder"
        ) from None
    except OSError as error:
        raise StoreDenied(
            f"the index cannot be read: {error.strerror}", log=path, hint=_ANOTHER
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise NotAnIndex("it is no regular file", log=path, hint=_ANOTHER)
    if not os.access(path, os.R_OK):
        raise StoreDenied("the index may not be read by this user", log=path, hint=_ANOTHER)


def _schema_of(connection: sqlite3.Connection, path: str) -> int:
    """The schema of an index, 0 for a database with nothing in it; others are refused."""
    connection.execute("BEGIN")  # so that a migration cannot come between
    application, schema, changes, live = (
        connection.execute(text).fetchone()[0] for text in _IDENTITY
    )
    connection.execute("COMMIT")
    if application == APPLICATION_ID:
        if live:
            raise damaged(path, "it has triggers, or views in the place of tables")
        return int(schema)
    if application or schema or changes:
        raise NotAnIndex(
            "this database belongs to another program",
            log=path,
            hint=_ANOTHER,
        )
    return 0


def _meta(connection: sqlite3.Connection, path: str) -> tuple[int, int]:
    """The parser's version, and the oldest schema number whose evalindex can read the index."""
    facts = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        return int(facts["parser"]), int(facts["min_reader"])
    except (KeyError, ValueError, TypeError):
        raise damaged(path, "its table meta is not as it should be") from None


def _empty_index(path: str) -> IndexEmpty:
    return IndexEmpty(
        "the index is empty: its first build is starting, or was stopped",
        log=path,
        hint="run `evalindex build`",
    )


def _too_new(path: str) -> IndexTooNew:
    return IndexTooNew(
        "the index was written by a newer evalindex", log=path, hint="upgrade evalindex"
    )


def _connect(path: str, mode: str, timeout: float) -> sqlite3.Connection:
    # `immutable=1` would be faster still, and wrong: rows go missing while a builder adds others.
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,  # transactions begin where the code says so
        check_same_thread=False,
    )
    # What an index from somebody else has in its schema may call no function that does anything.
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
