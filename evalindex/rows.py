"""The rows that answers consist of, as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from evalindex.database.engine import from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalindex.records import Header, Metric, ScoreValue
    from evalindex.survey import SurveyedLog

#: Why a planned sample has to be run (again).
Reason = Literal["missing", "error", "cancelled", "invalidated"]


class SampleRow(NamedTuple):
    """One sample of a log; can be passed as a key.

    `log` is the full path, `path` the part below the root; `id` has the type that the eval gave
    it. `error` is the message of what stopped the sample, `limit` the kind of limit that ended it.
    `scores` are numbers, else texts, by the name of the scorer; the entries of a score that is a
    mapping are there as `name.key` too. `input` and `target` are cut to 200 characters; times of
    work are in seconds. `bytes` are those of its member in the log, of a `chunked` sample those of
    its first member alone, and None if there is none (`recorded` False). `summarized` is False for
    a sample that the log's own summaries do not list. `checked` says when the log was last looked
    at, in seconds since 1970. `reason` is given by `incomplete` alone.
    """

    log: str
    path: str
    id: str | int
    epoch: int
    uuid: str | None
    error: str | None
    limit: str | None
    scores: dict[str, float | str]
    task: str | None
    model: str | None
    status: str
    eval_id: str | None
    cancelled: bool
    invalidated: bool
    retries: int | None
    started_at: str | None
    completed_at: str | None
    total_time: float | None
    working_time: float | None
    message_count: int | None
    turn_count: int | None
    total_tokens: int | None
    input: str | None
    target: str | None
    bytes: int | None
    compressed_bytes: int | None
    chunked: bool
    summarized: bool
    checked: float
    reason: Reason | None = None

    @property
    def recorded(self) -> bool:
        """Whether the log holds the sample itself."""
        return self.bytes is not None

    def as_dict(self) -> dict[str, Any]:
        """All that the row says, by name."""
        return {**self._asdict(), "recorded": self.recorded}


class LogRow(NamedTuple):
    """One log.

    `log` is the full path, `path` the part below the root. `planned` is the number of samples,
    epochs multiplied in, that the eval was to run, None if it does not say; `done` how many of
    them need not be run again, `errors` and `limits` how many samples failed or were ended by a
    limit. `metrics` are all of them, in order, and `headline_*` the one that says most, as inspect
    chooses it. `status` is inspect's, `started` for an eval that runs or crashed. Times are ISO
    8601 in UTC, `size` is in bytes, `checked` in seconds since 1970.
    """

    log: str
    path: str
    task: str | None
    model: str | None
    status: str
    done: int | None
    planned: int | None
    errors: int | None
    limits: int | None
    headline_scorer: str | None
    headline_score: str | None
    headline_metric: str | None
    headline_value: float | None
    metrics: tuple[Metric, ...]
    created: str | None
    started_at: str | None
    completed_at: str | None
    task_id: str | None
    eval_id: str | None
    run_id: str | None
    eval_set_id: str | None
    task_version: str | None
    task_file: str | None
    task_display_name: str | None
    solver: str | None
    tags: tuple[str, ...]
    dataset_name: str | None
    dataset_location: str | None
    dataset_samples: int | None
    dataset_shuffled: bool | None
    epochs: int
    total_samples: int | None
    completed_samples: int | None
    logged_samples: int | None
    invalidated: bool
    error: str | None
    inspect_version: str | None
    git_commit: str | None
    finished: bool
    size: int | None
    checked: float

    def as_dict(self) -> dict[str, Any]:
        """All that the row says, by name."""
        return {**self._asdict(), "metrics": [metric._asdict() for metric in self.metrics]}


def sample_row(log: SurveyedLog, columns: Sequence[Any], scores: Sequence[ScoreValue]) -> SampleRow:
    """The row of a sample from the columns of the table, `id` and on."""
    (id, epoch, _, size, compressed, chunked, summarized, integer, uuid, error, cancelled,
     invalidated, limit, retries, started_at, completed_at, total_time, working_time, messages,
     turns, tokens, input, target) = columns  # fmt: skip
    brief = log.brief
    return SampleRow(
        log.location,
        log.path,
        int(id) if integer else id,
        epoch,
        uuid,
        error,
        limit,
        {name: _score(number, text) for name, number, text in scores},
        brief.task,
        brief.model,
        brief.status,
        brief.eval_id,
        cancelled == 1,
        invalidated == 1,
        retries,
        started_at,
        completed_at,
        total_time,
        working_time,
        messages,
        turns,
        tokens,
        input,
        target,
        size,
        compressed,
        chunked == 1,
        summarized == 1,
        log.checked,
    )


def missing_row(log: SurveyedLog, id: str | int, epoch: int) -> SampleRow:
    """The row of a sample that a log should have and has not."""
    columns = (id, epoch, 0, None, None, False, False, isinstance(id, int), *[None] * 15)
    return sample_row(log, columns, ())._replace(reason="missing")


def _score(number: float | None, text: str | None) -> float | str:
    if text is not None:
        return text
    return float("nan") if number is None else number


def log_row(log: SurveyedLog, header: Header, metrics: Sequence[Metric]) -> LogRow:
    fields = {name: getattr(header, name) for name in LogRow._fields if hasattr(header, name)}
    fields["tags"] = from_json(header.tags or "[]", tuple[str, ...])
    for name in ("invalidated", "dataset_shuffled"):
        value = fields[name]
        fields[name] = None if value is None else value == 1
    nan = float("nan")
    if header.headline_metric is not None and header.headline_value is None:
        fields["headline_value"] = nan
    values = (m if m.value is not None else m._replace(value=nan) for m in metrics)
    return LogRow(
        log=log.location,
        path=log.path,
        metrics=tuple(values),
        finished=log.state == "finished",
        size=log.size,
        checked=log.checked,
        **fields,
    )
