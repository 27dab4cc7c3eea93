"""What a log's directory, header and samples say, as rows of the index. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from evalindex.documents import Body, Results, ScoreResults, Stats, read_log
from evalindex.names import HEADER, can_exist, sample_epoch

if TYPE_CHECKING:
    from evalindex import documents
    from evalindex.documents import Dataset, Headline, Spec, Summary, Usage
    from evalindex.zip import Directory

#: `finished`: the log has its header, which inspect writes last. `unfinished`: it has none, so the
#: eval runs or has crashed. `unreadable`: no directory could be had.
State = Literal["finished", "unfinished", "unreadable"]

#: name, epoch (None: not a sample), then the fields of `Member` behind the name.
MemberRow = tuple[str, int | None, int, int, int, int, int, int]

_SHORT = 200  # characters that are kept of an input or target
_CANCELLED = ("CancelledError(", "Cancelled(")  # inspect_ai/_util/error.py
_ALPHABET57 = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_EXACT_INT = 2**53
_new = tuple.__new__


def log_state(directory: Directory) -> State:
    return "finished" if HEADER in directory.rows else "unfinished"


def member_rows(directory: Directory) -> list[MemberRow]:
    """All live members in name order, the order in which the index stores them."""
    return [(name, sample_epoch(name), *row[:6]) for name, row in sorted(directory.rows.items())]


class Metric(NamedTuple):
    """One metric of a log's results. `value` is None for NaN, which SQL has not."""

    score: str
    scorer: str | None
    reducer: str | None
    metric: str
    value: float | None


class Header(NamedTuple):
    """The columns of `header` behind its ids; see the schema. Counts are filled in later."""

    status: str = "started"
    invalidated: bool = False
    error: str | None = None
    eval_id: str | None = None
    run_id: str | None = None
    eval_set_id: str | None = None
    task: str | None = None
    task_id: str | None = None
    task_version: str | None = None
    task_file: str | None = None
    task_display_name: str | None = None
    model: str | None = None
    solver: str | None = None
    created: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    tags: str | None = None
    inspect_version: str | None = None
    git_commit: str | None = None
    dataset_name: str | None = None
    dataset_location: str | None = None
    dataset_samples: int | None = None
    dataset_shuffled: bool | None = None
    epochs: int = 1
    planned: int | None = None
    total_samples: int | None = None
    completed_samples: int | None = None
    logged_samples: int | None = None
    headline_scorer: str | None = None
    headline_score: str | None = None
    headline_metric: str | None = None
    headline_value: float | None = None
    done: int | None = None
    errors: int | None = None
    limits: int | None = None
    unrecorded: int | None = None
    unsummarized: int | None = None
    collisions: int | None = None
    sample_ids: str | None = None


class ScoreValue(NamedTuple):
    """A score of one sample: a number, else a text; NaN if neither."""

    name: str
    number: float | None
    text: str | None


class SampleFacts(NamedTuple):
    """What is known of one sample beside its id, epoch and place in the log."""

    integer: bool
    uuid: str | None
    error: str | None
    cancelled: bool
    invalidated: bool
    limit: str | None
    retries: int | None
    started_at: str | None
    completed_at: str | None
    total_time: float | None
    working_time: float | None
    message_count: int | None
    turn_count: int | None
    total_tokens: int
    input: str | None
    target: str | None
    scores: Sequence[ScoreValue]

    @property
    def reusable(self) -> bool:
        return self.error is None and not self.invalidated


#: Samples by id (as text) and epoch, in the order in which each first came.
Facts = dict[tuple[str, int], SampleFacts]


#: Columns of `sample` and `score` behind `summaries_id`.
SampleColumns = tuple[Any, ...]
ScoreColumns = tuple[int, str, "float | None", "str | None"]


class Counts(NamedTuple):
    """Numbers of samples of one log, as in its header's row."""

    done: int
    errors: int
    limits: int
    unrecorded: int
    unsummarized: int
    collisions: int


class Source(NamedTuple):
    """A member that lists samples, as far as it says whether it is the same one."""

    name: str
    crc32: int
    size: int


class KnownSummaries(NamedTuple):
    """What an index has of a log's samples.

    `load` gives those that have a summary, and how many sources they are from, if these are the
    first of the sources that it is given.
    """

    summaries_id: int
    basis: bytes
    counts: Counts
    load: Callable[[int, Sequence[Source]], tuple[Facts, int] | None]


class Summaries(NamedTuple):
    """The samples of a log as rows, samples by id and epoch; see `summaries` in the schema.

    `kept` are the rows that an index has already and that hold still: there are none here then.
    """

    basis: bytes
    sources: Sequence[Source]
    kept: int | None
    samples: list[SampleColumns]
    scores: list[ScoreColumns]


class Contents(NamedTuple):
    """`summaries` is None if they were not asked for."""

    header: Header
    metrics: list[Metric]
    summaries: Summaries | None


def read_header(data: bytes) -> tuple[Header, list[Metric]]:
    """The columns and metrics of `header.json`, or of `_journal/start.json` while an eval runs.

    Raises `CorruptMember` for what is no JSON object.
    """
    log = read_log(data)
    spec, results = log.eval, log.results or Results()
    dataset, epochs = spec.dataset, max(1, spec.config.epochs or 1)
    ids = _sample_ids(dataset)
    scores = results.scores
    if results.scorer is not None and not scores:
        old = results.scorer
        scores = [ScoreResults(old.name, old.name, old.reducer, results.metrics or old.metrics)]
    metrics = [
        Metric(score.name, score.scorer, score.reducer, name, _number(metric.value))
        for score in scores
        for name, metric in score.metrics.items()
    ]
    headline = _headline(scores, results.headline or spec.headline_metric)
    stats = log.stats or Stats()
    created = _utc(spec.created)
    header = Header(
        log.status,
        log.invalidated,
        None if log.error is None else log.error.message,
        spec.eval_id or _id_of_old_eval(spec, created),
        spec.run_id or None,
        spec.eval_set_id,
        spec.task,
        spec.task_id or None,
        None if spec.task_version is None else str(spec.task_version),
        spec.task_file,
        spec.task_display_name,
        spec.model,
        spec.solver,
        created,
        _utc(stats.started_at),
        _utc(stats.completed_at),
        json.dumps(_tags(spec.tags or [], log.log_updates)),
        spec.packages.inspect_ai,
        None if spec.revision is None else spec.revision.commit,
        dataset.name,
        dataset.location,
        dataset.samples,
        dataset.shuffled,
        epochs,
        None if ids is None else len({str(id) for id in ids}) * epochs,
        results.total_samples,
        results.completed_samples,
        results.logged_samples,
        *headline,
        sample_ids=None if ids is None else json.dumps(ids),
    )
    return header, metrics


def _sample_ids(dataset: Dataset) -> list[str | int] | None:
    """What was planned; None unless all of it is told."""
    ids = dataset.sample_ids
    if not isinstance(ids, list) or not {str, int}.issuperset(map(type, ids)):
        return None
    return ids if ids or not dataset.samples else None


def _headline(
    scores: Sequence[ScoreResults], declared: Headline | None
) -> tuple[str | None, str | None, str | None, float | None]:
    """The scorer, score, name and value of the metric that says most, as inspect resolves it
    (`log/_headline.py`): as declared, else the first metric of the first score."""
    chosen: ScoreResults | None = scores[0] if scores else None
    name: str | None = None
    if declared is not None:
        found = [
            score
            for score in scores
            if declared.reducer in (None, score.reducer)
            and declared.scorer in (None, score.scorer)
            and declared.score in (None, score.name)
        ]
        if declared.metric is not None:
            found = [score for score in found if declared.metric in score.metrics]
        if found and found[0].metrics:
            chosen, name = found[0], declared.metric
    if chosen is None or not chosen.metrics:
        return None, None, None, None
    if name is None:
        name = next(iter(chosen.metrics))
    return chosen.scorer, chosen.name, name, _number(chosen.metrics[name].value)


def _id_of_old_eval(spec: Spec, created: str | None) -> str | None:
    """The id that inspect gives to an eval of a log that has none (`base57_id_hash`)."""
    if not created:
        return None
    digest = blake2s((spec.run_id + spec.task_id + created).encode(), digest_size=16).digest()
    number, text = int.from_bytes(digest, "big"), ""
    while number:
        number, digit = divmod(number, 57)
        text = _ALPHABET57[digit] + text
    return text[-22:].rjust(22, _ALPHABET57[0])


def _tags(tags: Iterable[str], updates: Any) -> list[str]:
    """Tags at the time of the eval, with the edits since applied (`EvalLog` does the same)."""
    found = set(tags)
    for update in updates if isinstance(updates, list) else ():
        edits = update.get("edits") if isinstance(update, dict) else None
        for edit in edits if isinstance(edits, list) else ():
            if isinstance(edit, dict):
                found -= _texts(edit.get("tags_remove"))
                found |= _texts(edit.get("tags_add"))
    return sorted(found)


def _texts(value: Any) -> set[str]:
    return {text for text in value if isinstance(text, str)} if isinstance(value, list) else set()


def _utc(text: str | None) -> str | None:
    """A time as inspect spells it when it reads one: ISO, in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return text
    try:
        return (
            (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))
            .astimezone(timezone.utc)
            .isoformat()
        )
    except OverflowError:
        return text


def add_summaries(facts: Facts, summaries: Iterable[Summary]) -> int:
    """Take summaries in as inspect does: the last one of an id and epoch wins, in the place of the
    first. Returns how many ids had the text of another id of another type."""
    collisions = 0
    for summary in summaries:
        id = str(summary.id)
        key = (id, summary.epoch)
        if not id.isalnum() and not can_be_stored(*key):
            continue
        integer = id is not summary.id
        before = facts.get(key)
        if before is not None and before.integer is not integer:
            collisions += 1
        error = summary.error
        if error is not None and type(error) is not str:
            error = _error_text(error)
        # A tuple at once: there may be millions, and a NamedTuple's own constructor is slow.
        facts[key] = _new(
            SampleFacts,
            (
                integer,
                summary.uuid,
                error,
                error is not None and error.startswith(_CANCELLED),
                False,
                summary.limit,
                summary.retries,
                summary.started_at,
                summary.completed_at,
                summary.total_time,
                summary.working_time,
                summary.message_count,
                summary.turn_count,
                _tokens(summary.model_usage) if summary.model_usage else 0,
                _input(summary.input),
                _target(summary.target),
                _scores(summary.scores) if summary.scores else (),
            ),
        )
    return collisions


def add_body(facts: Facts, key: tuple[str, int], body: Body) -> None:
    """Take in what the sample itself says: whether it was invalidated, and how it ended. Of a
    sample without a summary take in all."""
    error = None if body.error is None else _error_text(body.error)
    facts[key] = facts.get(key, _of_body(body))._replace(
        error=error,
        cancelled=error is not None and error.startswith(_CANCELLED),
        limit=None if body.limit is None else body.limit.type,
        invalidated=body.invalidation is not None,
    )


def add_damage(facts: Facts, key: tuple[str, int], reason: str) -> None:
    """Take in that a sample cannot be read: it can then not be used again either."""
    error = f"its record cannot be read: {reason}"
    facts[key] = facts.get(key, _of_body(Body(*key)))._replace(error=error)


def _of_body(body: Body) -> SampleFacts:
    return SampleFacts(
        integer=isinstance(body.id, int),
        uuid=body.uuid,
        error=None,
        cancelled=False,
        invalidated=False,
        limit=None,
        retries=None if body.error_retries is None else len(body.error_retries),
        started_at=body.started_at,
        completed_at=body.completed_at,
        total_time=body.total_time,
        working_time=body.working_time,
        message_count=None,
        turn_count=None,
        total_tokens=_tokens(body.model_usage) if body.model_usage else 0,
        input=_input(body.input),
        target=_target(body.target),
        scores=_scores(body.scores) if body.scores else (),
    )


def _error_text(error: Any) -> str:
    """The message of an error. What has none, or is no error of inspect's, is an error still."""
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str):
        return message
    return json.dumps(error, default=str)


def _tokens(usage: dict[str, Usage]) -> int:
    return min(sum([used.total_tokens for used in usage.values()]), 2**63 - 1)


def _input(input: Any) -> str | None:
    """The text of a conversation, as much as is kept."""
    if isinstance(input, str):
        return input[:_SHORT]
    if not isinstance(input, list):
        return None
    texts: list[str] = []
    for message in input:
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [
            part["text"]
            for part in parts
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
    return "\n".join(texts)[:_SHORT]


def _target(target: Any) -> str | None:
    """Several targets as inspect's data frames join them."""
    if isinstance(target, str):
        return target[:_SHORT]
    return ",".join(map(str, target))[:_SHORT] if isinstance(target, list) else None


def _scores(scores: dict[str, documents.Score]) -> list[ScoreValue]:
    found: list[ScoreValue] = []
    parts: dict[str, Any] = {}
    for name, score in scores.items():
        value = score.value
        if type(value) is str:
            found.append(_new(ScoreValue, (name, None, value)))
            continue
        found.append(_score(name, value))
        if isinstance(value, dict):
            parts |= {f"{name}.{key}": item for key, item in value.items()}
    # A score of its own comes before a part of another that is called the same.
    return found + [_score(name, item) for name, item in parts.items() if name not in scores]


def _score(name: str, value: Any) -> ScoreValue:
    if isinstance(value, str):
        return ScoreValue(name, None, value)
    if isinstance(value, float) or (isinstance(value, int) and -_EXACT_INT < value < _EXACT_INT):
        number = float(value)
        return _new(ScoreValue, (name, number if number == number else None, None))
    return ScoreValue(name, None, json.dumps(value, ensure_ascii=False))


def _number(value: float | None) -> float | None:
    """A number as SQL holds it, which has no NaN."""
    try:
        return None if value is None or value != value else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]


def can_be_stored(id: str, epoch: int) -> bool:
    """Whether a row can hold this key. One with a NUL has no member, but a summary."""
    return can_exist(id.replace("\0", ""), epoch)
