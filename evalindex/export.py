"""Answers and samples as files: Parquet, Arrow, CSV or JSON lines.

Columns that inspect's data frames have too (`samples_df`, `evals_df` of `inspect_ai.analysis`) have
their names, come first, and mean the same, but for these: `error` and `error_message` are null
where nothing failed, `sample_id` where a sample has no uuid; `input` has no roles and, as `target`,
200 characters; `task_version` is text; `epochs` is 1 where the eval does not say. A score is a
number if it is one in all rows (truth values are 1 and 0), else it is text, with numbers, lists and
mappings as JSON; the entries of a mapping are there as `score_<name>.<key>` too.

In Parquet and Arrow times are timestamps, null for a text that is none, and elsewhere ISO text.
Sample ids are text in all but JSON lines, where they have their own type. CSV has nothing for null
(`""` is an empty text), and `NaN`, `inf` and `-inf`; JSON lines have Python's `NaN` and `Infinity`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timezone
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, Protocol, cast, get_args

from evalindex.errors import EvalIndexError, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

    from evalindex.records import Metric
    from evalindex.rows import LogRow, Rows, SampleRow

Format = Literal["parquet", "arrow", "csv", "jsonl"]

_BATCH_ROWS = 2_000
_BATCH_TEXT = 4 * 2**20  # characters
_GROUP_ROWS = 100_000
_GROUP_BYTES = 16 * 2**20
_QUOTE = '"'
_QUOTED = re.compile(r'[",\r\n]')
_SURROGATE = re.compile("[\ud800-\udfff]")

Kind = Literal["text", "long text", "id", "integer", "number", "flag", "time"]
Values = list[Any]


class Column(NamedTuple):
    """`value` takes it from a row."""

    name: str
    kind: Kind
    value: Callable[[Any], Any]


def format_of(path: str | os.PathLike[str]) -> Format:
    """The format that the ending of a file's name asks for."""
    ending = os.path.splitext(path)[1].lower()
    for form in get_args(Format):
        if ending == f".{form}":
            return form  # type: ignore[no-any-return]
    raise ValueError(f"{str(path)!r} ends in none of .parquet, .arrow, .csv, .jsonl")


def export_rows(rows: Rows[SampleRow] | Rows[LogRow], file: BinaryIO, form: Format) -> int:
    """Write the rows that are left of an answer, which is closed then; how many there were.

    Memory is that of a part of them. Raises `MissingExtra` without pyarrow, for the two formats
    that need it.
    """
    with closing(rows):
        columns, found = _columns_of(rows)
        return _write((_values(columns, row) for row in found), _sink(file, form, columns))


def to_arrow(rows: Rows[SampleRow] | Rows[LogRow]) -> pa.Table:
    """The rows that are left of an answer, which is closed then, as one table."""
    with closing(rows):
        pyarrow = _pyarrow()
        columns, found = _columns_of(rows)
        schema = _schema(pyarrow, columns)
        batches = _batches(_values(columns, row) for row in found)
        tables = (_table(pyarrow, schema, columns, batch) for batch in batches)
        return pyarrow.concat_tables([schema.empty_table(), *tables])


def sample_json(document: dict[str, Any]) -> str:
    """JSON on one line that UTF-8 can hold."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def export_samples(
    answers: Iterable[tuple[SampleRow, dict[str, Any] | EvalIndexError]],
    file: BinaryIO,
    form: Format,
    *,
    failed: Callable[[SampleRow, EvalIndexError], object],
    encode: Callable[[dict[str, Any]], str] = sample_json,
) -> int:
    """Write samples, as `iter_samples(rows, errors="return")` gives them; how many there were.

    JSON lines hold log, id, epoch and sample, as those of `evalindex get --keys`; the others hold
    the sample's JSON as text, and its uuid as `sample_id`. `failed` is told of each sample that
    could not be read.
    """

    def read() -> Iterator[tuple[SampleRow, dict[str, Any]]]:
        for row, answer in answers:
            if isinstance(answer, EvalIndexError):
                failed(row, answer)
            else:
                yield row, answer

    if form == "jsonl":
        count = 0
        for row, sample in read():
            line = {"log": row.log, "id": sample["id"], "epoch": sample["epoch"], "sample": sample}
            file.write(encode(line).encode() + b"\n")
            count += 1
        return count
    values = (
        [row.log, sample["id"], sample["epoch"], row.uuid, encode(sample)] for row, sample in read()
    )
    return _write(values, _sink(file, form, _SAMPLE_ITSELF))


def _same(kind: Kind, *names: str) -> list[Column]:
    """Columns that are called as the fields of a row are."""
    return [Column(name, kind, attrgetter(name)) for name in names]


def _without_namespace(task: str | None) -> str | None:
    """As inspect's `remove_namespace`."""
    return None if task is None else task.partition("/")[2] if "/" in task else task


def _task_name(row: SampleRow | LogRow) -> str | None:
    return _without_namespace(row.task)


_SAMPLE_ITSELF = [
    *_same("text", "log"),
    *_same("id", "id"),
    *_same("integer", "epoch"),
    *_same("text", "sample_id"),
    *_same("long text", "sample"),
]
_SAMPLE = [
    Column("sample_id", "text", attrgetter("uuid")),
    *_same("text", "eval_id", "log"),
    *_same("id", "id"),
    *_same("integer", "epoch"),
    *_same("text", "input", "target"),
]
_SAMPLE_BEHIND_SCORES = [
    *_same("integer", "total_tokens"),
    *_same("number", "total_time", "working_time"),
    *_same("integer", "message_count", "turn_count"),
    *_same("text", "error", "limit"),
    *_same("integer", "retries"),
    Column("task_name", "text", _task_name),
    *_same("text", "task", "model", "status"),
    *_same("flag", "cancelled", "invalidated"),
    *_same("time", "started_at", "completed_at"),
    *_same("integer", "bytes", "compressed_bytes"),
    *_same("flag", "chunked", "summarized", "recorded"),
    *_same("text", "path"),
    *_same("number", "checked"),
]
_LOG = [
    *_same("text", "eval_id", "eval_set_id", "run_id", "task_id", "log"),
    *_same("time", "created"),
    Column("tags", "text", lambda row: ",".join(row.tags)),
    *_same("text", "git_commit"),
    Column("task_name", "text", _task_name),
    Column(
        "task_display_name",
        "text",
        lambda row: _task_name(row) if row.task_display_name is None else row.task_display_name,
    ),
    *_same("text", "task_version", "task_file", "solver", "model"),
    *_same("text", "dataset_name", "dataset_location"),
    *_same("integer", "dataset_samples"),
    *_same("flag", "dataset_shuffled"),
    *_same("integer", "epochs"),
    *_same("text", "status"),
    Column("error_message", "text", attrgetter("error")),
    *_same("integer", "total_samples", "completed_samples"),
    Column("score_headline_name", "text", lambda row: _of_headline(row, "scorer")),
    Column("score_headline_score", "text", attrgetter("headline_score")),
    Column("score_headline_metric", "text", attrgetter("headline_metric")),
    Column("score_headline_value", "number", attrgetter("headline_value")),
    Column("score_headline_stderr", "number", lambda row: _of_headline(row, "stderr")),
]
_LOG_BEHIND_SCORES = [
    *_same("text", "task"),
    *_same("integer", "done", "planned", "errors", "limits"),
    *_same("text", "inspect_version"),
    *_same("time", "started_at", "completed_at"),
    *_same("flag", "invalidated", "finished"),
    *_same("integer", "logged_samples", "size"),
    *_same("text", "path"),
    *_same("number", "checked"),
]


def _columns_of(
    rows: Rows[SampleRow] | Rows[LogRow],
) -> tuple[list[Column], Iterable[SampleRow | LogRow]]:
    """The columns of an answer, and its rows."""
    if rows.score_names is not None:
        from evalindex.incomplete import Incomplete

        scores = [_score_column(*score) for score in rows.score_names().items()]
        reason = _same("text", "reason") if isinstance(rows, Incomplete) else []
        return [*_SAMPLE, *scores, *_SAMPLE_BEHIND_SCORES, *reason], rows
    logs = list(cast("Rows[LogRow]", rows))
    taken = {column.name for column in _LOG}
    names = dict.fromkeys(name for log in logs for name in _metrics(log))
    metrics = [_metric_column(name) for name in names if name not in taken]
    return [*_LOG, *metrics, *_LOG_BEHIND_SCORES], logs


def _score_column(name: str, is_number: bool) -> Column:
    if is_number:
        return Column(f"score_{name}", "number", lambda row: row.scores.get(name))

    def text(row: SampleRow) -> str | None:
        value = row.scores.get(name)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    return Column(f"score_{name}", "text", text)


def _metric_column(name: str) -> Column:
    return Column(name, "number", lambda row: _metrics(row).get(name))


def _metrics(log: LogRow) -> dict[str, float | None]:
    """The metrics by the names that inspect gives their columns (`eval_log_scores_dict`): the
    reducer is named only where names would be the same without it."""
    keys = [(metric.score, metric.metric) for metric in log.metrics]
    found: dict[str, float | None] = {}
    for metric, key in zip(log.metrics, keys, strict=True):
        reducer = metric.reducer if keys.count(key) > 1 else None
        score = metric.score if reducer is None else f"{metric.score}_{reducer}"
        found[f"score_{score}_{metric.metric}"] = metric.value
    return found


def _of_headline(log: LogRow, what: Literal["scorer", "stderr"]) -> Any:
    """What a row says of its headline in its metrics alone."""
    named = (log.headline_score, log.headline_metric)
    found = [metric for metric in log.metrics if (metric.score, metric.metric) == named]
    if not found:
        return None
    value = repr(log.headline_value)  # NaN is not equal to itself
    headline = next((metric for metric in found if repr(metric.value) == value), found[0])
    if what == "scorer":
        return headline.scorer

    def group(metric: Metric) -> tuple[str | None, ...]:
        return metric.score, metric.scorer, metric.reducer

    same = (metric for metric in log.metrics if group(metric) == group(headline))
    return next((metric.value for metric in same if metric.metric == "stderr"), None)


def _values(columns: Iterable[Column], row: SampleRow | LogRow) -> Values:
    return [column.value(row) for column in columns]


def _batches(rows: Iterable[Values]) -> Iterator[list[Values]]:
    batch: list[Values] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum([len(value) for value in row if type(value) is str])
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_TEXT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Sink(Protocol):
    """Writes rows of values, in the order of its columns, to a file that it does not close."""

    def write(self, batch: list[Values]) -> None: ...

    def close(self) -> None: ...


def _write(rows: Iterable[Values], sink: _Sink) -> int:
    count = 0
    with closing(sink):
        for batch in _batches(rows):
            sink.write(batch)
            count += len(batch)
    return count


def _sink(file: BinaryIO, form: Format, columns: list[Column]) -> _Sink:
    kinds: dict[Format, Callable[[BinaryIO, list[Column]], _Sink]]
    kinds = {"parquet": _Parquet, "arrow": _Arrow, "csv": _Csv, "jsonl": _JsonLines}
    return kinds[form](file, columns)


class _JsonLines:
    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._file = file
        self._names = [column.name for column in columns]

    def write(self, batch: list[Values]) -> None:
        for row in batch:
            line = json.dumps(dict(zip(self._names, row, strict=True)))
            self._file.write(line.encode() + b"\n")

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._file = file
        self.write([[column.name for column in columns]])

    def write(self, batch: list[Values]) -> None:
        lines = (",".join(map(_cell, row)) + "\n" for row in batch)
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        pass


def _cell(value: Any) -> str:
    """The module csv leaves a lone CR unquoted, unless lines end in one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if value == value else "NaN"
    text = str(value)
    return f'"{text.replace(_QUOTE, _QUOTE * 2)}"' if _QUOTED.search(text) or not text else text


class _Arrow:
    """An Arrow IPC file."""

    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._pyarrow = _pyarrow()
        self._columns = columns
        self._schema = _schema(self._pyarrow, columns)
        self._writer = self._open(file)

    def _open(self, file: BinaryIO) -> Any:
        return self._pyarrow.ipc.new_file(file, self._schema)

    def write(self, batch: list[Values]) -> None:
        self._writer.write_table(_table(self._pyarrow, self._schema, self._columns, batch))

    def close(self) -> None:
        self._writer.close()


class _Parquet(_Arrow):
    """A Parquet file, in row groups that are worth reading at once: of many batches."""

    def _open(self, file: BinaryIO) -> Any:
        from pyarrow.parquet import ParquetWriter

        self._group: list[pa.Table] = []
        return ParquetWriter(file, self._schema, compression="zstd")

    def write(self, batch: list[Values]) -> None:
        self._group.append(_table(self._pyarrow, self._schema, self._columns, batch))
        size = sum(table.nbytes for table in self._group)
        if size >= _GROUP_BYTES or sum(map(len, self._group)) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        group, self._group = self._group, []
        if group:
            self._writer.write_table(self._pyarrow.concat_tables(group))

    def close(self) -> None:
        try:
            self._flush()
        finally:
            super().close()


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtra(
            "Parquet and Arrow need pyarrow", hint="pip install 'evalindex[export]'"
        ) from None
    return pyarrow


def _schema(pyarrow: Any, columns: Iterable[Column]) -> pa.Schema:
    types: dict[Kind, pa.DataType] = {
        "text": pyarrow.string(),
        "long text": pyarrow.large_string(),
        "id": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", "UTC"),
    }
    return pyarrow.schema([(column.name, types[column.kind]) for column in columns])


def _table(
    pyarrow: Any, schema: pa.Schema, columns: Iterable[Column], batch: list[Values]
) -> pa.Table:
    arrays = []
    for number, column in enumerate(columns):
        values = [row[number] for row in batch]
        if column.kind == "id":
            values = [str(value) for value in values]
        elif column.kind == "time":
            values = [_moment(value) for value in values]
        arrays.append(pyarrow.array(values, schema.field(number).type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(
            timezone.utc
        )
    except (ValueError, OverflowError):
        return None
