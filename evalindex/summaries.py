"""Samples' summaries and bodies, as inspect writes them -> what is known of each sample. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from evalindex.documents import Body
from evalindex.names import can_exist
from evalindex.records import Facts, SampleFacts, ScoreValue

if TYPE_CHECKING:
    from evalindex.documents import Score, Summary, Usage

_SHORT = 200  # characters that are kept of an input or target
_CANCELLED = ("CancelledError(", "Cancelled(")  # inspect_ai/_util/error.py
_EXACT_INT = 2**53
_new = tuple.__new__


def add_summaries(facts: Facts, summaries: Iterable[Summary]) -> int:
    """Take summaries in as inspect does: the last one of an id and epoch wins, in the place of the
    first. Returns how many ids had the text of another id of another type."""
    collisions = 0
    for summary in summaries:
        id = str(summary.id)
        key = (id, summary.epoch)
        if not id.isalnum() and not _can_be_stored(*key):
            continue
        integer = id is not summary.id
        before = facts.get(key)
        if before is not None and before.integer != integer:
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
    total = sum([used.total_tokens for used in usage.values()])
    return max(-(2**63), min(total, 2**63 - 1))


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


def _scores(scores: dict[str, Score]) -> list[ScoreValue]:
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


def _can_be_stored(id: str, epoch: int) -> bool:
    """Whether a row can hold this key. One with a NUL has no member, but a summary."""
    return can_exist(id.replace("\0", ""), epoch)
