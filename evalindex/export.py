"""Answers and samples as files: Parquet, Arrow, CSV or JSON lines.

Columns that inspect's data frames have too (`samples_df`, `evals_df` of `inspect_ai.analysis`) have
their names, come first, and mean the same, but for these: `error` and `error_message` are null
where nothing failed, `sample_id` where a sample has no uuid; `input` has no roles and, as `target`,
200 characters; `task_version` is text; `epochs` is 1 where the eval does not say. A score is a
number if it is one in all rows (truth values are 1 and 0), else it is text, with numbers, lists and
mappings as JSON; the entries of a mapping are there as `score_<name>.<key>` too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from evalindex.errors import EvalIndexError
from evalindex.sheets import Column, Format, Kind, write_sheet

if TYPE_CHECKING:
    from evalindex.records import Metric
    from evalindex.rows import LogRow, SampleRow

_SURROGATE = re.compile("[\ud800-\udfff]")


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
    rows = ((row, sample, encode(sample)) for row, sample in read())
    return write_sheet(_SAMPLE_ITSELF, rows, file, form)


def _same(kind: Kind, *names: str) -> list[Column]:
    """Columns that are called as the fields of a row are."""
    return [Column(name, kind, attrgetter(name)) for name in names]


def _without_namespace(task: str | None) -> str | None:
    """As inspect's `remove_namespace`."""
    return None if task is None else task.partition("/")[2] if "/" in task else task


def _task_name(row: SampleRow | LogRow) -> str | None:
    return _without_namespace(row.task)


_SAMPLE_ITSELF = [
    Column("log", "text", lambda read: read[0].log),
    Column("id", "id", lambda read: read[1]["id"]),
    Column("epoch", "integer", lambda read: read[1]["epoch"]),
    Column("sample_id", "text", lambda read: read[0].uuid),
    Column("sample", "long text", itemgetter(2)),
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
    Column("score_headline_name", "text", attrgetter("headline_scorer")),
    Column("score_headline_score", "text", attrgetter("headline_score")),
    Column("score_headline_metric", "text", attrgetter("headline_metric")),
    Column("score_headline_value", "number", attrgetter("headline_value")),
    Column("score_headline_stderr", "number", lambda row: _headline_error(row)),
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


def sample_columns(score_names: dict[str, bool], *, reason: bool) -> list[Column]:
    """The columns of rows of samples: their scores, which are numbers or not, and perhaps the
    reason that `incomplete` gives."""
    scores = [_score_column(*score) for score in score_names.items()]
    behind = _same("text", "reason") if reason else []
    return [*_SAMPLE, *scores, *_SAMPLE_BEHIND_SCORES, *behind]


def log_columns(logs: Iterable[LogRow]) -> list[Column]:
    """The columns of these rows of logs, one for each metric among them."""
    taken = {column.name for column in _LOG}
    values = {log.log: _metrics(log) for log in logs}
    names = dict.fromkeys(name for found in values.values() for name in found)
    metrics = [_metric_column(name, values) for name in names if name not in taken]
    return [*_LOG, *metrics, *_LOG_BEHIND_SCORES]


def _score_column(name: str, is_number: bool) -> Column:
    if is_number:
        return Column(f"score_{name}", "number", lambda row: row.scores.get(name))

    def text(row: SampleRow) -> str | None:
        value = row.scores.get(name)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    return Column(f"score_{name}", "text", text)


def _metric_column(name: str, values: Mapping[str, Mapping[str, float | None]]) -> Column:
    return Column(name, "number", lambda row: values[row.log].get(name))


def _metrics(log: LogRow) -> dict[str, float | None]:
    """The metrics by the names that inspect gives their columns (`eval_log_scores_dict`): the
    reducer is named only where names would be the same without it."""
    keys = [(metric.score, metric.metric) for metric in log.metrics]
    counts = Counter(keys)
    found: dict[str, float | None] = {}
    for metric, key in zip(log.metrics, keys, strict=True):
        reducer = metric.reducer if counts[key] > 1 else None
        score = metric.score if reducer is None else f"{metric.score}_{reducer}"
        found[f"score_{score}_{metric.metric}"] = metric.value
    return found


def _headline_error(log: LogRow) -> float | None:
    """The `stderr` beside the headline, which the metrics alone have."""
    named = (log.headline_scorer, log.headline_score, log.headline_metric)
    found = [m for m in log.metrics if (m.scorer, m.score, m.metric) == named]
    if not found:
        return None
    value = repr(log.headline_value)  # NaN is not equal to itself
    headline = next((metric for metric in found if repr(metric.value) == value), found[0])

    def group(metric: Metric) -> tuple[str | None, ...]:
        return metric.score, metric.scorer, metric.reducer

    same = (metric for metric in log.metrics if group(metric) == group(headline))
    return next((metric.value for metric in same if metric.metric == "stderr"), None)
