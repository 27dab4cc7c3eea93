"""The rows of headers and samples: how they are written and read back. SQL as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalindex.database.engine import from_json
from evalindex.records import (
    Contents,
    Header,
    Metric,
    SampleFacts,
    ScoreValue,
    Source,
    Summaries,
)

if TYPE_CHECKING:
    import sqlite3

    from evalindex.records import Facts

_OF_LOG = ("metric", "header")
_OF_SUMMARIES = ("sample", "score", "summaries")

#: Columns of `sample` behind `summaries_id`; from `integer` on, those of `SampleFacts`.
SAMPLE_COLUMNS = ("id", "epoch", "position", "bytes", "compressed_bytes", "chunked", "summarized",
    "integer", "uuid", "error", "cancelled", "invalidated", "limit_type", "retries", "started_at",
    "completed_at", "total_time", "working_time", "message_count", "turn_count", "total_tokens",
    "input", "target")  # fmt: skip
_FACTS = SAMPLE_COLUMNS[SAMPLE_COLUMNS.index("integer") :]

_SAMPLES = f"""
SELECT id, epoch, position, {", ".join(_FACTS)} FROM sample
WHERE summaries_id = ? AND summarized ORDER BY position
"""
_HEADER = f"SELECT summaries_id, {', '.join(Header._fields)} FROM header WHERE log_id = ?"
_METRICS = f"SELECT {', '.join(Metric._fields)} FROM metric WHERE log_id = ? ORDER BY position"
_SUMMARIES = "SELECT basis, sources FROM summaries WHERE summaries_id = ?"
_ALL_SAMPLES = f"""
SELECT {", ".join(SAMPLE_COLUMNS)} FROM sample WHERE summaries_id = ? ORDER BY id, epoch
"""
_SOURCES = "SELECT sources FROM summaries WHERE summaries_id = ?"
_SCORES = "SELECT position, name, number, text FROM score WHERE summaries_id = ?"


def add_contents(connection: sqlite3.Connection, log_id: int, contents: Contents) -> None:
    """Write what a log says of itself."""
    summaries = contents.summaries
    summaries_id = None if summaries is None else summaries.kept
    if summaries is not None and summaries_id is None:
        added = connection.execute(
            "INSERT INTO summaries (basis, sources) VALUES (?, ?)",
            (summaries.basis, json.dumps(summaries.sources)),
        )
        summaries_id = int(added.lastrowid or 0)
        add_samples(connection, "main", summaries_id, summaries)
    connection.execute(
        f"INSERT INTO header VALUES (?, ?{', ?' * len(Header._fields)})",
        (log_id, summaries_id, *contents.header),
    )
    connection.executemany(
        "INSERT INTO metric VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((log_id, position, *metric) for position, metric in enumerate(contents.metrics)),
    )


def add_samples(
    connection: sqlite3.Connection, schema: str, summaries_id: int, summaries: Summaries
) -> None:
    """Write samples and scores to the tables of a schema, `main` or `temp`."""
    connection.executemany(
        f"INSERT INTO {schema}.sample VALUES (?{', ?' * len(SAMPLE_COLUMNS)})",
        ((summaries_id, *row) for row in summaries.samples),
    )
    connection.executemany(
        f"INSERT INTO {schema}.score VALUES (?, ?, ?, ?, ?)",
        ((summaries_id, *row) for row in summaries.scores),
    )


def load_contents(connection: sqlite3.Connection, log_id: int) -> Contents | None:
    """What an index holds of what a log said of itself; None if nothing."""
    row = connection.execute(_HEADER, (log_id,)).fetchone()
    if row is None:
        return None
    summaries_id, *header = row
    metrics = [Metric(*metric) for metric in connection.execute(_METRICS, (log_id,))]
    found = connection.execute(_SUMMARIES, (summaries_id,)).fetchone()
    summaries = None
    if found is not None:
        basis, sources = found
        samples = connection.execute(_ALL_SAMPLES, (summaries_id,)).fetchall()
        scores = connection.execute(f"{_SCORES} ORDER BY position, name", (summaries_id,))
        sources = from_json(sources, list[Source])
        summaries = Summaries(basis, sources, None, samples, scores.fetchall())
    return Contents(Header(*header), metrics, summaries)


def drop_contents(connection: sqlite3.Connection, log_id: int, summaries_id: int | None) -> None:
    """Drop what a log said of itself; its samples only with their `summaries_id`."""
    for table in _OF_LOG:
        connection.execute(f"DELETE FROM {table} WHERE log_id = ?", (log_id,))
    if summaries_id is not None:
        for table in _OF_SUMMARIES:
            connection.execute(f"DELETE FROM {table} WHERE summaries_id = ?", (summaries_id,))


def load_facts(
    connection: sqlite3.Connection, summaries_id: int, sources: Sequence[Source]
) -> tuple[Facts, int] | None:
    """What the summaries of a log said of its samples, in their order, and how many sources they
    were in; None unless these are the first of the given ones."""
    row = connection.execute(_SOURCES, (summaries_id,)).fetchone()
    before = from_json(row[0], list[Source]) if row else []
    if not before or before != list(sources[: len(before)]):
        return None
    scores: dict[int, list[ScoreValue]] = {}
    for position, *score in connection.execute(_SCORES, (summaries_id,)):
        scores.setdefault(position, []).append(ScoreValue(*score))
    facts = {
        (id, epoch): SampleFacts._make([*facts, scores.get(position, ())])
        for id, epoch, position, *facts in connection.execute(_SAMPLES, (summaries_id,))
    }
    return facts, len(before)
