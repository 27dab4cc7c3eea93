"""A log's header, as inspect writes it -> its row and its metrics. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from hashlib import blake2s
from typing import TYPE_CHECKING, Any

from evalindex.documents import Results, ScoreResults, Stats, read_log
from evalindex.records import Header, Metric

if TYPE_CHECKING:
    from evalindex.documents import Dataset, Headline, Spec

#: A header that plans more samples, epochs multiplied in, says nothing.
_MOST_PLANNED = 2_000_000
_ALPHABET57 = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def read_header(data: bytes) -> tuple[Header, list[Metric]]:
    """The columns and metrics of `header.json`, or of `_journal/start.json` while an eval runs.

    Raises `CorruptMember` for what is no JSON object.
    """
    log = read_log(data)
    spec, results = log.eval, log.results or Results()
    dataset, epochs = spec.dataset, max(1, spec.config.epochs or 1)
    ids = _sample_ids(dataset, epochs)
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


def _sample_ids(dataset: Dataset, epochs: int) -> list[str | int] | None:
    """What was planned; None unless all of it is told."""
    ids = dataset.sample_ids
    if not isinstance(ids, list) or not {str, int}.issuperset(map(type, ids)):
        return None
    if len(ids) * epochs > _MOST_PLANNED:
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


def _number(value: float | None) -> float | None:
    """A number as SQL holds it, which has no NaN."""
    try:
        return None if value is None or value != value else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]
