"""The tables as they are now. Migrations lead to exactly this; a test compares the two.

The views `logs` and `samples` are for people with sqlite3 or Datasette, and live in the migrations.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

#: `parser`: version of the code that made the rows; `min_reader`: the oldest schema number whose
#: evalindex can read this index.
meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

#: `location`: a URL, an absolute path, or a path relative to the folder of the index ("." for that
#: folder itself), so that a root can be moved together with its index. Times: ns since 1970, UTC.
root = Table(
    "root",
    metadata,
    Column("root_id", Integer, primary_key=True),
    Column("location", Text, nullable=False, unique=True),
    Column("built_at", Integer),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)

#: One version of one log. Rows of `member` never change under one `log_id`, and ids are never
#: reused: a changed log gets a new one.
log = Table(
    "log",
    metadata,
    Column("log_id", Integer, primary_key=True),
    Column("root_id", Integer, ForeignKey("root.root_id"), nullable=False),
    Column("path", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("size", Integer),
    Column("version", Text),
    Column("directory_offset", Integer),
    Column("digest", LargeBinary),
    Column("samples", Integer, nullable=False),
    Column("superseded", Integer, nullable=False),
    Column("odd", Integer, nullable=False),
    Column("indexed_at", Integer, nullable=False),
    UniqueConstraint("root_id", "path"),
    CheckConstraint("state IN ('finished', 'unfinished', 'unreadable')"),
    CheckConstraint("(state = 'unreadable') = (digest IS NULL)"),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)

#: One live member. `epoch` is null for what is no sample; the id is part of the name.
member = Table(
    "member",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("epoch", Integer),
    Column("flags", Integer, nullable=False),
    Column("method", Integer, nullable=False),
    Column("crc32", Integer, nullable=False),
    Column("compressed_size", Integer, nullable=False),
    Column("uncompressed_size", Integer, nullable=False),
    Column("header_offset", Integer, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
