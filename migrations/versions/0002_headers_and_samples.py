"""Headers, metrics, and the samples of each log with their scores.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "header",
        sa.Column("log_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("summaries_id", sa.Integer),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("invalidated", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("eval_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("eval_set_id", sa.Text),
        sa.Column("task", sa.Text),
        sa.Column("task_id", sa.Text),
        sa.Column("task_version", sa.Text),
        sa.Column("task_file", sa.Text),
        sa.Column("task_display_name", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("solver", sa.Text),
        sa.Column("created", sa.Text),
        sa.Column("started_at", sa.Text),
        sa.Column("completed_at", sa.Text),
        sa.Column("tags", sa.Text),
        sa.Column("inspect_version", sa.Text),
        sa.Column("git_commit", sa.Text),
        sa.Column("dataset_name", sa.Text),
        sa.Column("dataset_location", sa.Text),
        sa.Column("dataset_samples", sa.Integer),
        sa.Column("dataset_shuffled", sa.Integer),
        sa.Column("epochs", sa.Integer, nullable=False),
        sa.Column("planned", sa.Integer),
        sa.Column("total_samples", sa.Integer),
        sa.Column("completed_samples", sa.Integer),
        sa.Column("logged_samples", sa.Integer),
        sa.Column("headline_scorer", sa.Text),
        sa.Column("headline_score", sa.Text),
        sa.Column("headline_metric", sa.Text),
        sa.Column("headline_value", sa.REAL),
        sa.Column("done", sa.Integer),
        sa.Column("errors", sa.Integer),
        sa.Column("limits", sa.Integer),
        sa.Column("unrecorded", sa.Integer),
        sa.Column("unsummarized", sa.Integer),
        sa.Column("collisions", sa.Integer),
        sa.Column("sample_ids", sa.Text),
        sqlite_strict=True,
    )
    op.create_index("header_summaries", "header", ["summaries_id"])
    op.create_table(
        "metric",
        sa.Column("log_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("score", sa.Text, nullable=False),
        sa.Column("scorer", sa.Text),
        sa.Column("reducer", sa.Text),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.REAL),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "summaries",
        sa.Column("summaries_id", sa.Integer, primary_key=True),
        sa.Column("basis", sa.LargeBinary, nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sample",
        sa.Column("summaries_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("bytes", sa.Integer),
        sa.Column("compressed_bytes", sa.Integer),
        sa.Column("chunked", sa.Integer, nullable=False),
        sa.Column("summarized", sa.Integer, nullable=False),
        sa.Column("integer", sa.Integer, nullable=False),
        sa.Column("uuid", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("invalidated", sa.Integer, nullable=False),
        sa.Column("limit_type", sa.Text),
        sa.Column("retries", sa.Integer),
        sa.Column("started_at", sa.Text),
        sa.Column("completed_at", sa.Text),
        sa.Column("total_time", sa.REAL),
        sa.Column("working_time", sa.REAL),
        sa.Column("message_count", sa.Integer),
        sa.Column("turn_count", sa.Integer),
        sa.Column("total_tokens", sa.Integer, nullable=False),
        sa.Column("input", sa.Text),
        sa.Column("target", sa.Text),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("sample_uuid", "sample", ["uuid"], sqlite_where=sa.text("uuid IS NOT NULL"))
    op.create_index("sample_error", "sample", ["error"], sqlite_where=sa.text("error IS NOT NULL"))
    op.create_table(
        "score",
        sa.Column("summaries_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.REAL),
        sa.Column("text", sa.Text),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute("DROP VIEW logs")
    op.execute("DROP VIEW samples")
    op.execute(
        """
        CREATE VIEW logs AS
        SELECT root.location AS root, log.path, log.state, log.reason, header.status, header.task,
          header.model, header.created, header.done, header.planned, header.errors, header.limits,
          header.headline_score, header.headline_metric, header.headline_value, header.error,
          header.task_id, header.eval_id, header.run_id, header.eval_set_id, header.tags,
          header.dataset_name, header.epochs, header.invalidated, header.inspect_version,
          log.size, log.samples, log.superseded, log.odd,
          datetime(log.indexed_at / 1000000000, 'unixepoch') AS indexed_at_utc, log.log_id
        FROM log JOIN root USING (root_id) LEFT JOIN header USING (log_id)
        """
    )
    op.execute(
        """
        CREATE VIEW samples AS
        SELECT root.location AS root, log.path, header.task, header.model,
          sample.id, sample.epoch, sample.uuid, sample.error, sample.cancelled, sample.invalidated,
          sample.limit_type AS "limit", sample.retries, sample.started_at, sample.completed_at,
          sample.total_time, sample.working_time, sample.message_count, sample.turn_count,
          sample.total_tokens, sample.input, sample.target, sample.bytes, sample.compressed_bytes,
          sample.chunked, sample.bytes IS NOT NULL AS recorded, sample.summarized, log.log_id
        FROM sample JOIN header USING (summaries_id) JOIN log USING (log_id)
          JOIN root USING (root_id)
        """
    )
    op.execute(
        """
        CREATE VIEW scores AS
        SELECT root.location AS root, log.path, header.task, header.model, sample.id, sample.epoch,
          score.name, score.number, score.text, log.log_id
        FROM score JOIN sample USING (summaries_id, position) JOIN header USING (summaries_id)
          JOIN log USING (log_id) JOIN root USING (root_id)
        """
    )
    op.execute(
        """
        CREATE VIEW metrics AS
        SELECT root.location AS root, log.path, header.task, header.model, header.status,
          metric.score, metric.scorer, metric.reducer, metric.metric, metric.value, log.log_id
        FROM metric JOIN header USING (log_id) JOIN log USING (log_id) JOIN root USING (root_id)
        """
    )
    op.execute("PRAGMA user_version = 2")
