"""The tables as they are now. Migrations lead to exactly this; a test compares the two.

The views `logs`, `samples`, `scores` and `metrics` are for people with sqlite3, duckdb or
Datasette, and live in the migrations.
"""

from __future__ import annotations

from sqlalchemy import (
    REAL,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
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

#: What a log says of itself; one row for each log that is not unreadable. `summaries_id` is null if
#: the index was built without them. `planned` is null where the ids are unknown. `sample_ids` is
#: JSON, and last, since it can be large. Counts are of samples: `done` (planned and reusable),
#: `errors` (cancelled ones too), `limits`, `unrecorded` (a summary, but no member), `unsummarized`
#: (the other way round); `collisions` are ids whose text another id of another type has too.
header = Table(
    "header",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    Column("summaries_id", Integer),
    Column("status", Text, nullable=False),
    Column("invalidated", Integer, nullable=False),
    Column("error", Text),
    Column("eval_id", Text),
    Column("run_id", Text),
    Column("eval_set_id", Text),
    Column("task", Text),
    Column("task_id", Text),
    Column("task_version", Text),
    Column("task_file", Text),
    Column("task_display_name", Text),
    Column("model", Text),
    Column("solver", Text),
    Column("created", Text),
    Column("started_at", Text),
    Column("completed_at", Text),
    Column("tags", Text),
    Column("inspect_version", Text),
    Column("git_commit", Text),
    Column("dataset_name", Text),
    Column("dataset_location", Text),
    Column("dataset_samples", Integer),
    Column("dataset_shuffled", Integer),
    Column("epochs", Integer, nullable=False),
    Column("planned", Integer),
    Column("total_samples", Integer),
    Column("completed_samples", Integer),
    Column("logged_samples", Integer),
    Column("headline_scorer", Text),
    Column("headline_score", Text),
    Column("headline_metric", Text),
    Column("headline_value", REAL),
    Column("done", Integer),
    Column("errors", Integer),
    Column("limits", Integer),
    Column("unrecorded", Integer),
    Column("unsummarized", Integer),
    Column("collisions", Integer),
    Column("sample_ids", Text),
    sqlite_strict=True,
)

Index("header_summaries", header.c.summaries_id)

#: Each metric of `results.scores`, in order; `value` is null for NaN.
metric = Table(
    "metric",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("score", Text, nullable=False),
    Column("scorer", Text),
    Column("reducer", Text),
    Column("metric", Text, nullable=False),
    Column("value", REAL),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

#: One reading of the samples of a log: `sources` are the members that were parsed, as JSON
#: [[name, crc32, size], ...], and `basis` is a digest of all that rows depend on. Rows never change
#: under one `summaries_id`, and it outlives a rewrite of its log that leaves these as they are.
summaries = Table(
    "summaries",
    metadata,
    Column("summaries_id", Integer, primary_key=True),
    Column("basis", LargeBinary, nullable=False),
    Column("sources", Text, nullable=False),
    sqlite_strict=True,
    sqlite_autoincrement=True,
)

#: A sample with a summary, a member, or both: `bytes` is null without a member, `summarized` 0
#: without a summary. `id` is its text, `integer` whether the id is a number.
sample = Table(
    "sample",
    metadata,
    Column("summaries_id", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, nullable=False),
    Column("bytes", Integer),
    Column("compressed_bytes", Integer),
    Column("chunked", Integer, nullable=False),
    Column("summarized", Integer, nullable=False),
    Column("integer", Integer, nullable=False),
    Column("uuid", Text),
    Column("error", Text),
    Column("cancelled", Integer, nullable=False),
    Column("invalidated", Integer, nullable=False),
    Column("limit_type", Text),
    Column("retries", Integer),
    Column("started_at", Text),
    Column("completed_at", Text),
    Column("total_time", REAL),
    Column("working_time", REAL),
    Column("message_count", Integer),
    Column("turn_count", Integer),
    Column("total_tokens", Integer, nullable=False),
    Column("input", Text),
    Column("target", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("sample_uuid", sample.c.uuid, sqlite_where=text("uuid IS NOT NULL"))
Index("sample_error", sample.c.error, sqlite_where=text("error IS NOT NULL"))

#: A score of the sample at `position`: a number, else a text; both null is NaN. The entries of a
#: score that is a mapping are there as `name.key` too.
score = Table(
    "score",
    metadata,
    Column("summaries_id", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("number", REAL),
    Column("text", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
