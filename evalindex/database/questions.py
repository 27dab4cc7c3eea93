"""What is asked of headers and samples. SQL as text, on a connection of the question's own.

An answer may mix rows of the index with rows of logs that were read just now: those are put into
temporary tables of the same shape. What is found goes to a temporary table too, which SQLite moves
to a file when it grows, so that an answer can be taken as slowly as one likes: no transaction is
open, no builder waits, and memory stays small.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import translate
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from evalindex.database.engine import naming_errors
from evalindex.database.queries import LOG_COLUMNS, LOG_WIDTH, IndexedLog, indexed_log
from evalindex.database.rows import SAMPLE_COLUMNS, add_samples
from evalindex.errors import IndexOutdated
from evalindex.names import can_exist
from evalindex.records import Header, Metric, ScoreValue

if TYPE_CHECKING:
    from evalindex.database.queries import IndexReader, Lent
    from evalindex.records import Summaries

_SCHEMA = 2  # the first that has these tables

_BRIEF = ("status", "task", "task_id", "model", "eval_id", "created", "invalidated", "epochs",
    "planned", "done", "limits", "unrecorded", "unsummarized", "collisions")  # fmt: skip
_LOGS = f"""
SELECT {LOG_COLUMNS}, h.summaries_id, {", ".join(f"h.{name}" for name in _BRIEF)}
FROM log AS l LEFT JOIN header AS h USING (log_id) WHERE l.root_id = ?
"""
_HEADERS = f"""
SELECT log_id, {", ".join(Header._fields[:-1])} FROM header
WHERE log_id IN (SELECT value FROM json_each(?))
"""
_METRICS = f"""
SELECT log_id, {", ".join(Metric._fields)} FROM metric
WHERE log_id IN (SELECT value FROM json_each(?)) ORDER BY log_id, position
"""
_SAMPLE_IDS = """
SELECT log_id, sample_ids FROM header WHERE log_id IN (SELECT value FROM json_each(?))
"""
_THERE = "SELECT count(*) FROM log WHERE log_id IN (SELECT value FROM json_each(?))"
_INTEGER = SAMPLE_COLUMNS.index("integer")
_FOUND = f"a.rank, a.age, s.summaries_id, {', '.join(f's.{name}' for name in SAMPLE_COLUMNS)}"
_SCHEMAS = ("main", "temp")
_TEMPORARY = "SELECT name FROM temp.sqlite_master WHERE type = 'table'"
_MOST_IDLE_PAGES = 256  # of temporary tables, behind a connection that waits for the next question


class Brief(NamedTuple):
    """What is needed of a header to choose among logs."""

    status: str
    task: str | None
    task_id: str | None
    model: str | None
    eval_id: str | None
    created: str | None
    invalidated: bool
    epochs: int
    planned: int | None
    done: int | None
    limits: int | None
    unrecorded: int | None
    unsummarized: int | None
    collisions: int | None


class FoundLog(NamedTuple):
    """A log of the index; `brief` is None if it or its header could not be read, `summaries_id` if
    there are no rows of its samples."""

    row: IndexedLog
    summaries_id: int | None
    brief: Brief | None


class Asked(NamedTuple):
    """A log whose samples are asked for: where it comes in the answer, and how many of the logs
    that are asked for are newer."""

    summaries_id: int
    rank: int
    age: int


class ScoreTest(NamedTuple):
    """A score of that name, compared with a text, which may be that of a number; `operator` is
    None if it need only be there."""

    name: str
    operator: str | None = None
    text: str = ""
    number: float | None = None


class SampleTest(NamedTuple):
    """Which samples are meant; what is empty or None is not asked. Alternatives within one field,
    but all of `scores`, and all fields, must hold. `errors` are patterns as of `fnmatch`."""

    ids: Sequence[str] = ()
    uuids: Sequence[str] = ()
    errors: Sequence[str] = ()
    limit_hit: bool | None = None
    scores: Sequence[ScoreTest] = ()


class FoundSample(NamedTuple):
    """A row of `sample`: where its log comes in the answer, and the columns from `id` on."""

    rank: int
    columns: tuple[Any, ...]
    scores: list[ScoreValue]


class Standing(NamedTuple):
    """How far one sample is, in a log by its rank. Flags are 0 or 1."""

    rank: int
    id: str
    epoch: int
    uuid: str | None
    recorded: int
    failed: int
    cancelled: int
    invalidated: int
    limited: int


class Question:
    """One question to an index. Close it when its answer has been taken."""

    def __init__(self, reader: IndexReader) -> None:
        self.path = reader.path
        self._reader = reader
        self._lent: Lent | None = reader.lend()
        self._connection = self._lent.connection
        self._added = 0
        with self._named():
            (schema,) = self._connection.execute("PRAGMA user_version").fetchone()
        if schema < _SCHEMA:
            self.close()
            raise IndexOutdated(
                "the index is from before headers and samples were indexed",
                log=self.path,
                hint="run `evalindex build` to bring it up to date",
            )

    def close(self) -> None:
        lent, self._lent = self._lent, None
        if lent is not None:
            self._reader.take_back(lent, clean=self._clear())

    def _clear(self) -> bool:
        """Whether the connection could be made as it was, and takes little room: not while somebody
        still reads rows."""
        execute = self._connection.execute
        try:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            (pages,) = execute("PRAGMA temp.page_count").fetchone()
            for (table,) in execute(_TEMPORARY).fetchall():
                execute(f"DROP TABLE temp.{table}")
        except sqlite3.Error:
            return False
        return bool(pages <= _MOST_IDLE_PAGES)

    @contextmanager
    def _named(self) -> Iterator[None]:
        with naming_errors(self.path):
            yield

    def logs(self, root_id: int) -> list[FoundLog]:
        """All logs of a root."""
        with self._named():
            rows = self._connection.execute(_LOGS, (root_id,)).fetchall()
            return [
                FoundLog(
                    indexed_log(row[:LOG_WIDTH]),
                    row[LOG_WIDTH],
                    None if row[LOG_WIDTH + 1] is None else Brief(*row[LOG_WIDTH + 1 :]),
                )
                for row in rows
            ]

    def add(self, summaries: Summaries) -> int:
        """Take in the samples of a log that was read just now; the `summaries_id` that they get."""
        with self._named():
            if not self._added:
                for table in ("sample", "score"):
                    self._connection.execute(
                        f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table} WHERE 0"
                    )
                self._connection.execute("CREATE INDEX temp.of_log ON sample (summaries_id)")
                self._connection.execute(
                    "CREATE INDEX temp.of_sample ON score (summaries_id, position)"
                )
            self._added += 1
            self._connection.execute("BEGIN")
            add_samples(self._connection, "temp", -self._added, summaries)
            self._connection.execute("COMMIT")
            return -self._added

    @contextmanager
    def moment(self, log_ids: Iterable[int]) -> Iterator[bool]:
        """A moment of the index; whether it still has all of these logs."""
        ids = list(log_ids)
        with self._named():
            self._connection.execute("BEGIN")
            try:
                (there,) = self._connection.execute(_THERE, (_json(ids),)).fetchone()
                yield there == len(ids)
            finally:
                self._connection.execute("COMMIT")

    def headers(self, log_ids: Sequence[int]) -> dict[int, tuple[Header, list[Metric]]]:
        """The headers, but for the sample ids, and metrics of some logs, within a moment."""
        ids = _json(log_ids)
        metrics: dict[int, list[Metric]] = {}
        for log_id, *metric in self._connection.execute(_METRICS, (ids,)):
            metrics.setdefault(log_id, []).append(Metric(*metric))
        return {
            log_id: (Header(*header), metrics.get(log_id, []))
            for log_id, *header in self._connection.execute(_HEADERS, (ids,))
        }

    def sample_ids(self, log_ids: Sequence[int]) -> dict[int, str | None]:
        """The planned sample ids of some logs, as JSON, within a moment."""
        return dict(self._connection.execute(_SAMPLE_IDS, (_json(log_ids),)).fetchall())

    def find(self, asked: Iterable[Asked], test: SampleTest, *, newest: bool) -> int:
        """Find samples, within a moment, for `found` to give; how many there are. `newest` leaves
        only the newest of those that have one uuid."""
        self._ask(asked)
        if test.errors:
            matcher = re.compile("|".join(map(translate, test.errors))).match
            self._connection.create_function("matches", 1, lambda text: bool(matcher(text)))
        conditions, values = _conditions(test)
        self._collect("found", _FOUND, ["s.bytes IS NOT NULL", *conditions], values)
        if newest:
            self._connection.execute(
                "DELETE FROM temp.found WHERE rowid NOT IN (SELECT rowid FROM (SELECT rowid,"
                " row_number() OVER (PARTITION BY coalesce(uuid, rowid) ORDER BY age) AS place"
                " FROM temp.found) WHERE place = 1)"
            )
        return self._collect_scores()

    def find_keys(self, asked: Iterable[Asked], keys: Iterable[tuple[int, str, int]]) -> int:
        """The same for samples that are there: the rank of the log, the id and the epoch of each.
        They are found in this order."""
        self._ask(asked)
        execute = self._connection.execute
        execute("CREATE TEMP TABLE wanted (place INTEGER PRIMARY KEY, rank, id, epoch)")
        self._connection.executemany(
            "INSERT INTO temp.wanted (rank, id, epoch) VALUES (?, ?, ?)", keys
        )
        selects = [
            f"SELECT w.place, {_FOUND} FROM temp.wanted AS w CROSS JOIN temp.asked AS a"
            f" USING (rank) CROSS JOIN {schema}.sample AS s"
            " ON s.summaries_id = a.summaries_id AND s.id = w.id AND s.epoch = w.epoch"
            for schema in self._schemas()
        ]
        execute(f"CREATE TEMP TABLE found AS {' UNION ALL '.join(selects)} ORDER BY place")
        return self._collect_scores()

    def _collect_scores(self) -> int:
        execute = self._connection.execute
        scores = " UNION ALL ".join(
            "SELECT f.rowid AS found, c.name, c.number, c.text FROM temp.found AS f"
            f" CROSS JOIN {schema}.score AS c USING (summaries_id, position)"
            for schema in self._schemas()
        )
        execute(f"CREATE TEMP TABLE found_score AS {scores} ORDER BY 1, 2")
        (count,) = execute("SELECT count(*) FROM temp.found").fetchone()
        return int(count)

    def ranks(self) -> set[int]:
        """The logs of what `find` found."""
        return {row[0] for row in self._connection.execute("SELECT DISTINCT rank FROM temp.found")}

    def found(self) -> Iterator[FoundSample]:
        """The samples that `find` found, by log and in its order."""
        with self._named():
            rows = self._connection.execute(
                f"SELECT rowid, rank, {', '.join(SAMPLE_COLUMNS)} FROM temp.found ORDER BY rowid"
            )
            scores = groupby(
                self._connection.execute(
                    "SELECT found, name, number, text FROM temp.found_score ORDER BY rowid"
                ),
                key=itemgetter(0),
            )
            owner, group = next(scores, (None, iter(())))
            for number, rank, *columns in rows:
                while owner is not None and owner < number:
                    owner, group = next(scores, (None, iter(())))
                mine = [ScoreValue(*score[1:]) for score in group] if owner == number else []
                if columns[_INTEGER] and not columns[0].removeprefix("-").isdecimal():
                    raise sqlite3.DatabaseError("a sample's row is not as it should be")
                yield FoundSample(rank, tuple(columns), mine)

    def score_names(self) -> dict[str, bool]:
        """The scores of what `find` found, and whether all their values are numbers."""
        with self._named():
            rows = self._connection.execute(
                "SELECT name, count(text) = 0 FROM temp.found_score GROUP BY name ORDER BY name"
            )
            return {name: bool(numbers) for name, numbers in rows}

    def standings(self, asked: Iterable[Asked], *, only_bad: bool = False) -> Iterator[Standing]:
        """How far each sample of these logs is, within a moment, log by log; `only_bad` leaves out
        what is reusable, or is not recorded."""
        self._ask(asked)
        what = (
            "a.rank, s.id, s.epoch, s.uuid, s.bytes IS NOT NULL, s.error IS NOT NULL,"
            " s.cancelled, s.invalidated, s.limit_type IS NOT NULL"
        )
        bad = ["s.bytes IS NOT NULL", "(s.error IS NOT NULL OR s.invalidated)"]
        self._collect("standing", what, bad if only_bad else [], [])
        rows = self._connection.execute("SELECT * FROM temp.standing ORDER BY rank")
        return map(Standing._make, rows)

    def _schemas(self) -> Sequence[str]:
        return _SCHEMAS if self._added else _SCHEMAS[:1]

    def _ask(self, asked: Iterable[Asked]) -> None:
        execute = self._connection.execute
        execute("DROP TABLE IF EXISTS temp.asked")
        execute("CREATE TEMP TABLE asked (summaries_id INTEGER PRIMARY KEY, rank UNIQUE, age)")
        self._connection.executemany("INSERT INTO temp.asked VALUES (?, ?, ?)", asked)

    def _collect(
        self, table: str, what: str, conditions: Sequence[str], values: Sequence[object]
    ) -> None:
        """Put samples of the logs that are asked for into a temporary table, in order."""
        self._connection.execute(f"DROP TABLE IF EXISTS temp.{table}")
        where = " AND ".join(conditions) or "1"
        selects = [
            f"SELECT {what} FROM temp.asked AS a JOIN {schema}.sample AS s USING (summaries_id)"
            f" WHERE {where.replace('$schema', schema)}"
            for schema in self._schemas()
        ]
        order = " ORDER BY rank, position" if "position" in what else ""
        self._connection.execute(
            f"CREATE TEMP TABLE {table} AS {' UNION ALL '.join(selects)}{order}",
            [*values] * len(selects),
        )


def _conditions(test: SampleTest) -> tuple[list[str], list[object]]:
    """A test as SQL, in which `$schema` stands for where the scores are."""
    conditions: list[str] = []
    values: list[object] = []
    for column, wanted in (("id", test.ids), ("uuid", test.uuids)):
        if wanted:
            conditions.append(f"s.{column} IN (SELECT value FROM json_each(?))")
            values.append(json.dumps([text for text in wanted if can_exist(text, 1)]))
    if test.errors:
        conditions.append("s.error IS NOT NULL AND matches(s.error)")
    if test.limit_hit is not None:
        conditions.append(f"s.limit_type IS {'NOT ' if test.limit_hit else ''}NULL")
    for score in test.scores:
        if not (can_exist(score.name, 1) and can_exist(score.text, 1)):
            conditions.append("0")  # SQL cannot hold such a text, so nothing has it
            continue
        condition, more = _score_condition(score)
        conditions.append(
            "(s.summaries_id, s.position) IN (SELECT c.summaries_id, c.position FROM temp.asked"
            " JOIN $schema.score AS c USING (summaries_id) WHERE c.name = ?" + condition + ")"
        )
        values += [score.name, *more]
    return conditions, values


def _score_condition(test: ScoreTest) -> tuple[str, list[object]]:
    if test.operator is None:
        return "", []
    if test.operator not in ("=", "!="):
        return f" AND c.number {test.operator} ?", [test.number]
    values: list[object] = [test.text]
    same = "c.text IS ?"
    if test.number is not None:
        is_nan = test.number != test.number
        same += " OR c.number IS NULL AND c.text IS NULL" if is_nan else " OR c.number IS ?"
        values += [] if is_nan else [test.number]
    return f" AND {'NOT ' if test.operator == '!=' else ''}({same})", values


def _json(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
