"""Inspect's documents as structures, as far as they are kept. Pure.

They are those of `inspect_ai/log/_log.py`: `EvalLog` without its samples, or `LogStart` while an
eval runs; lists of `EvalSampleSummary`; and an `EvalSample`. Fields came and went with releases,
and logs of others hold what they like: a value of another type than inspect's is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from evalindex.decode import parse
from evalindex.errors import CorruptMember

S = TypeVar("S", bound=msgspec.Struct)

_UNIONS = (Union, UnionType)
_SURROGATES = re.compile("[\ud800-\udfff]")

#: What SQLite stores as an integer.
Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Id = str | int


class Packages(msgspec.Struct):
    inspect_ai: str | None = None


class Revision(msgspec.Struct):
    commit: str | None = None


class Dataset(msgspec.Struct):
    name: str | None = None
    location: str | None = None
    samples: Int | None = None
    sample_ids: Any = None
    shuffled: bool | None = None


class Config(msgspec.Struct):
    epochs: Int | None = None


class Headline(msgspec.Struct):
    reducer: str | None = None
    scorer: str | None = None
    score: str | None = None
    metric: str | None = None


class Spec(msgspec.Struct):
    eval_id: str = ""
    run_id: str = ""
    eval_set_id: str | None = None
    task: str | None = None
    task_id: str = ""
    task_version: str | int | None = None
    task_file: str | None = None
    task_display_name: str | None = None
    model: str | None = None
    solver: str | None = None
    created: str = ""
    tags: list[str] | None = None
    packages: Packages = msgspec.field(default_factory=Packages)
    revision: Revision | None = None
    dataset: Dataset = msgspec.field(default_factory=Dataset)
    config: Config = msgspec.field(default_factory=Config)
    headline_metric: Headline | None = None


class MetricValue(msgspec.Struct):
    value: int | float | None = None


class ScoreResults(msgspec.Struct):
    name: str = ""
    scorer: str | None = None
    reducer: str | None = None
    metrics: dict[str, MetricValue] = {}


class Results(msgspec.Struct):
    total_samples: Int | None = None
    completed_samples: Int | None = None
    logged_samples: Int | None = None
    headline: Headline | None = None
    scores: list[ScoreResults] = []
    # Before 0.3.24 there was one scorer.
    scorer: ScoreResults | None = None
    metrics: dict[str, MetricValue] = {}


class Stats(msgspec.Struct):
    started_at: str | None = None
    completed_at: str | None = None


class Error(msgspec.Struct):
    message: str = ""


class Log(msgspec.Struct):
    status: str = "started"
    invalidated: bool = False
    eval: Spec = msgspec.field(default_factory=Spec)
    results: Results | None = None
    stats: Stats | None = None
    error: Error | None = None
    log_updates: Any = None


class Score(msgspec.Struct, gc=False):
    value: Any = None


class Usage(msgspec.Struct, gc=False):
    total_tokens: Int = 0


class Summary(msgspec.Struct, gc=False):
    """A sample in a list of summaries."""

    id: Id
    epoch: Int
    input: Any = None
    target: Any = None
    scores: dict[str, Score] | None = None
    model_usage: dict[str, Usage] | None = None
    started_at: str | None = None
    completed_at: str | None = None
    total_time: float | None = None
    working_time: float | None = None
    uuid: str | None = None
    error: Any = None
    limit: str | None = None
    retries: Int | None = None
    #: Always there since 0.3.93, long after errors are, so it shows that they would be told.
    completed: bool | None = None
    message_count: Int | None = None
    turn_count: Int | None = None


class Limit(msgspec.Struct):
    type: str | None = None


class Body(msgspec.Struct):
    """A sample itself, but for its long fields."""

    id: Id
    epoch: Int
    input: Any = None
    target: Any = None
    scores: dict[str, Score] | None = None
    model_usage: dict[str, Usage] | None = None
    started_at: str | None = None
    completed_at: str | None = None
    total_time: float | None = None
    working_time: float | None = None
    uuid: str | None = None
    error: Any = None
    limit: Limit | None = None
    invalidation: Any = None
    error_retries: list[msgspec.Raw] | None = None


_log_decoder = msgspec.json.Decoder(Log)
_summaries_decoder = msgspec.json.Decoder(list[Summary])
_body_decoder = msgspec.json.Decoder(Body)
_REFUSED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_log(data: bytes) -> Log:
    """The `header.json` of a log, or its `_journal/start.json`. Raises `CorruptMember` for what is
    no JSON object."""
    try:
        return _log_decoder.decode(data)
    except _REFUSED:
        return _leniently(parse(data), Log)


def read_summaries(data: bytes) -> list[Summary]:
    """The samples in a list of summaries. Raises `CorruptMember` for what is no JSON list."""
    try:
        return _summaries_decoder.decode(data)
    except _REFUSED:
        documents = parse(data)
    if not isinstance(documents, list):
        raise CorruptMember("it is no JSON list")
    found: list[Summary] = []
    for document in documents:
        try:
            found.append(_leniently(document, Summary))
        except CorruptMember:
            continue  # without id or epoch it is nobody's
    return found


def read_body(data: bytes) -> Body:
    """A sample's body, or the first part of a chunked one. Raises `CorruptMember`."""
    try:
        return _body_decoder.decode(data)
    except _REFUSED:
        return _leniently(parse(data), Body)


def _leniently(document: Any, kind: type[S]) -> S:
    """A structure with those fields of a document that are of the right type."""
    if not isinstance(document, dict):
        raise CorruptMember("it is no JSON object")
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in document:
            try:
                value = _fitting(_encodable(document[field.name]), field.type)
                if value == value:  # SQL has no NaN
                    found[field.name] = value
            except (CorruptMember, *_REFUSED):
                continue
    try:
        return kind(**found)
    except TypeError as error:
        raise CorruptMember(f"it has not what it must have: {error}") from None


def _fitting(value: Any, kind: Any) -> Any:
    """As much of a value as is of a type. Raises `CorruptMember` or what msgspec raises."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        for choice in get_args(kind) if get_origin(kind) in _UNIONS else (kind,):
            origin, inner = get_origin(choice), get_args(choice)
            if isinstance(choice, type(msgspec.Struct)):
                return _leniently(value, choice)
            if origin is dict and isinstance(value, dict):
                return dict(_fitting_items(value.items(), inner[1]))
            if origin is list and isinstance(value, list):
                return [item for _, item in _fitting_items(enumerate(value), inner[0])]
        raise


def _fitting_items(items: Iterable[tuple[Any, Any]], kind: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in items:
        try:
            yield key, _fitting(item, kind)
        except (CorruptMember, msgspec.ValidationError):
            continue


def _encodable(value: Any) -> Any:
    """The value with lone surrogates escaped, which neither UTF-8 nor SQL can hold."""
    if isinstance(value, str):
        if _SURROGATES.search(value):
            return value.encode("utf-8", "backslashreplace").decode()
        return value
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    return value
