"""Roots, logs and the live members of their zip directories.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "root",
        sa.Column("root_id", sa.Integer, primary_key=True),
        sa.Column("location", sa.Text, nullable=False, unique=True),
        sa.Column("built_at", sa.Integer),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "log",
        sa.Column("log_id", sa.Integer, primary_key=True),
        sa.Column("root_id", sa.Integer, sa.ForeignKey("root.root_id"), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("size", sa.Integer),
        sa.Column("version", sa.Text),
        sa.Column("directory_offset", sa.Integer),
        sa.Column("digest", sa.LargeBinary),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("superseded", sa.Integer, nullable=False),
        sa.Column("odd", sa.Integer, nullable=False),
        sa.Column("indexed_at", sa.Integer, nullable=False),
        sa.UniqueConstraint("root_id", "path"),
        sa.CheckConstraint("state IN ('finished', 'unfinished', 'unreadable')"),
        sa.CheckConstraint("(state = 'unreadable') = (digest IS NULL)"),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "member",
        sa.Column("log_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer),
        sa.Column("flags", sa.Integer, nullable=False),
        sa.Column("method", sa.Integer, nullable=False),
        sa.Column("crc32", sa.Integer, nullable=False),
        sa.Column("compressed_size", sa.Integer, nullable=False),
        sa.Column("uncompressed_size", sa.Integer, nullable=False),
        sa.Column("header_offset", sa.Integer, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(
        """
        CREATE VIEW logs AS
        SELECT root.location AS root, log.path, log.state, log.reason, log.size,
          log.samples, log.superseded, log.odd,
          datetime(log.indexed_at / 1000000000, 'unixepoch') AS indexed_at_utc, log.log_id
        FROM log JOIN root USING (root_id)
        """
    )
    op.execute(
        """
        CREATE VIEW samples AS
        SELECT root.location AS root, log.path,
          substr(member.name, 9, length(member.name) - length(member.epoch)
            - CASE WHEN member.name LIKE '%/sample.json' THEN 27 ELSE 20 END) AS id,
          member.epoch, member.name LIKE '%/sample.json' AS chunked,
          member.uncompressed_size AS bytes, member.compressed_size AS compressed_bytes,
          member.header_offset, member.log_id
        FROM member JOIN log USING (log_id) JOIN root USING (root_id)
        WHERE member.epoch IS NOT NULL
        """
    )
    op.execute("PRAGMA application_id = 1702259064")
    op.execute("PRAGMA user_version = 1")
    op.execute("INSERT INTO meta VALUES ('min_reader', '1'), ('parser', '1')")
