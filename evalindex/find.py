"""Which logs there are, and which samples: answers from rows, about logs as they are now."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from evalindex.database.questions import Asked, Question, SampleTest, ScoreTest
from evalindex.errors import IndexBusy, LogNotFound
from evalindex.names import checked_id
from evalindex.results import Rows
from evalindex.rows import LogRow, SampleRow, log_row, sample_row
from evalindex.survey import Survey, SurveyedLog, survey

if TYPE_CHECKING:
    from evalindex.database.queries import IndexReader
    from evalindex.heal import Healer
    from evalindex.place import Scope

T = TypeVar("T")

Newest = Literal["task", "uuid"]

#: How often, and for how many seconds, a builder may replace rows while a question is answered.
_TRIES, _PATIENCE = 3, 5.0
_MOST_SCORES = 50
_SCORE = re.compile(r"\s*(.+?)\s*(?:(<=|>=|!=|==|<|>|=)\s*(.*?)\s*)?", re.DOTALL)
_OPERATOR = re.compile("[<>=]")
_STATUSES = ("started", "success", "cancelled", "error")
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[smhdw])")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Filter(NamedTuple):
    """The filters of one question, understood."""

    tasks: tuple[str, ...]
    models: tuple[str, ...]
    statuses: tuple[str, ...]
    since: datetime | None
    newest: Newest | None
    samples: SampleTest

    def chosen(self, logs: Iterable[SurveyedLog]) -> list[SurveyedLog]:
        """The logs that are meant, as far as their headers tell."""
        found = [log for log in logs if self._holds(log)]
        if self.newest != "task":
            return found
        newest: dict[str, SurveyedLog] = {}
        for log in found:
            other = newest.get(log.task_key)
            if other is None or log.newness > other.newness:
                newest[log.task_key] = log
        return [log for log in found if newest[log.task_key] is log]

    def _holds(self, log: SurveyedLog) -> bool:
        brief = log.brief
        return (
            (not self.tasks or _any_matches(brief.task, self.tasks))
            and (not self.models or _any_matches(brief.model, self.models))
            and (not self.statuses or brief.status in self.statuses)
            and (self.since is None or _is_since(brief.created, self.since))
        )


def find_filters(
    task: str | Collection[str] | None = None,
    model: str | Collection[str] | None = None,
    status: str | Collection[str] | None = None,
    id: Any = None,
    uuid: str | Collection[str] | None = None,
    error: str | Collection[str] | bool | None = None,
    limit_hit: bool | None = None,
    score: str | Collection[str] | None = None,
    since: str | date | datetime | timedelta | None = None,
    newest: Newest | bool | None = None,
) -> Filter:
    """Raises `ValueError` or `TypeError` for a filter that means nothing."""
    if newest not in (None, False, True, "task", "uuid"):
        raise ValueError(f'newest is "task" or "uuid", not {newest!r}')
    if isinstance(id, (str, bytes)) or not isinstance(id, Collection):
        id = () if id is None else (id,)
    errors = ("*",) if error is True else _texts("error", None if error is False else error)
    scores = _texts("score", score)
    if len(scores) > _MOST_SCORES:
        raise ValueError(f"at most {_MOST_SCORES} tests of scores, not {len(scores):,}")
    samples = SampleTest(
        tuple(str(checked_id(one)) for one in id),
        _texts("uuid", uuid),
        errors,
        limit_hit,
        tuple(map(parsed_score, scores)),
    )
    statuses = _texts("status", status)
    if not set(statuses) <= set(_STATUSES):
        raise ValueError(f"a log's status is one of {', '.join(_STATUSES)}, not {statuses[0]!r}")
    return Filter(
        _texts("task", task),
        _texts("model", model),
        statuses,
        None if since is None else parsed_since(since),
        "task" if newest is True else newest or None,
        samples,
    )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        raise TypeError(f"{name} is a text or several, not the mapping {value!r}")
    if not isinstance(value, Collection):
        raise TypeError(f"{name} is a text or several, not {value!r}")
    values = (value,) if isinstance(value, str) else tuple(value)
    for one in values:
        if not isinstance(one, str):
            raise TypeError(f"{name} is a text or several, not {one!r}")
    return values


def parsed_score(text: str) -> ScoreTest:
    """`NAME`, or `NAME` and what its value is compared with."""
    match = _SCORE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} names no score; it is as NAME, NAME<0.5 or NAME=C")
    name, operator, value = match.groups()
    if operator is None:
        if _OPERATOR.search(name):
            raise ValueError(f"{text!r} names no score; it is as NAME, NAME<0.5 or NAME=C")
        return ScoreTest(name)
    operator = "=" if operator == "==" else operator
    try:
        number = float(value)
    except ValueError:
        number = None
    if operator not in ("=", "!=") and (number is None or number != number):
        raise ValueError(f"{text!r} compares with what is no number")
    return ScoreTest(name, operator, value, number)


def parsed_since(since: str | date | datetime | timedelta) -> datetime:
    try:
        return _moment(since)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{since!r} is neither a time such as 2026-11-30 nor an age such as 7d"
        ) from None


def _moment(since: str | date | datetime | timedelta) -> datetime:
    if isinstance(since, str):
        match = _AGE.fullmatch(since.strip())
        if match is None:
            since = datetime.fromisoformat(since.strip().replace("Z", "+00:00"))
        else:
            since = timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
    if isinstance(since, timedelta):
        return datetime.now(timezone.utc) - since
    if not isinstance(since, datetime):
        since = datetime(since.year, since.month, since.day)
    return since if since.tzinfo else since.replace(tzinfo=timezone.utc)


def _is_since(created: str | None, since: datetime) -> bool:
    if created is None:
        return False
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) >= since


def _any_matches(text: str | None, patterns: Iterable[str]) -> bool:
    return text is not None and any(fnmatchcase(text, pattern) for pattern in patterns)


class Asker:
    """Asks one index about the logs within a scope."""

    def __init__(self, healer: Healer, reader: IndexReader, scope: Scope, *, fresh: bool) -> None:
        """`fresh` has remote logs listed, not only local ones."""
        self._healer = healer
        self._reader = reader
        self._scope = scope
        self._fresh = fresh

    @contextmanager
    def question(self) -> Iterator[Question]:
        """A question that is closed if it comes to nothing."""
        question = Question(self._reader)
        try:
            yield question
        except BaseException:
            question.close()
            raise

    def at_one_moment(
        self, question: Question, filter: Filter, job: Callable[[list[SurveyedLog]], T]
    ) -> tuple[T, list[SurveyedLog], Survey]:
        """What a job makes of the logs that are meant, while the index still has the rows that
        were proved to hold for them; those logs, and all that was seen."""
        until = time.monotonic() + _PATIENCE
        tries = 0
        while tries < _TRIES or time.monotonic() < until:
            tries += 1
            seen = survey(self._healer, self._reader, question, self._scope, fresh=self._fresh)
            logs = filter.chosen(seen.logs)
            with question.moment(log.log_id for log in logs if log.log_id is not None) as holds:
                if not holds:
                    continue
                if self._scope.one_log is not None:
                    _raise_for(self._scope.one_log, seen)
                for error in seen.failures:
                    logging.getLogger("evalindex").error("%s", error)
                return job(logs), logs, seen
        raise IndexBusy("a builder keeps replacing its rows", log=self._reader.path)

    def find(self, filter: Filter) -> Rows[SampleRow]:
        """The samples that are meant, by log and in the order of each log's summaries."""
        with self.question() as question:

            def select(logs: list[SurveyedLog]) -> int:
                return question.find(asked(logs), filter.samples, newest=filter.newest == "uuid")

            total, logs, seen = self.at_one_moment(question, filter, select)
            rows = (
                sample_row(logs[sample.rank], sample.columns, sample.scores)
                for sample in question.found()
            )
            answer = Rows(rows, total, *seen[1:4], question.close)
            answer.score_names = question.score_names
            return answer

    def logs(self, filter: Filter) -> Rows[LogRow]:
        """The logs that are meant; those that hold such a sample, if samples are asked for."""
        with self.question() as question:

            def select(logs: list[SurveyedLog]) -> list[LogRow]:
                if filter.samples != SampleTest() or filter.newest == "uuid":
                    question.find(asked(logs), filter.samples, newest=filter.newest == "uuid")
                    ranks = question.ranks()
                    logs = [log for rank, log in enumerate(logs) if rank in ranks]
                headers = question.headers([log.log_id for log in logs if log.log_id is not None])
                return [log_row(log, *(log.header or headers[log.log_id or 0])) for log in logs]

            rows, _, seen = self.at_one_moment(question, filter, select)
            question.close()
            return Rows(iter(rows), len(rows), *seen[1:4])


def _raise_for(log: str, seen: Survey) -> None:
    """Of one log nothing can be said if it is not there, or cannot be read."""
    if seen.failures:
        raise seen.failures[0]
    if not seen.logs and not seen.hidden:
        raise LogNotFound("no such log", log=log)


def asked(logs: Iterable[SurveyedLog]) -> list[Asked]:
    """The question for the samples of some logs."""
    ordered = list(logs)
    by_age = sorted(range(len(ordered)), key=lambda n: ordered[n].newness, reverse=True)
    ages = {rank: age for age, rank in enumerate(by_age)}
    return [Asked(log.summaries_id, rank, ages[rank]) for rank, log in enumerate(ordered)]
