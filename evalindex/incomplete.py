"""Which planned samples have to be run (again), and which need not.

The rule is that of inspect's own retry (`inspect_ai/_eval/task/run.py`, `eval_log_sample_source`):
a sample is reusable if it was recorded, without an error, and not invalidated; one that a limit
ended is. What was planned is each of the dataset's sample ids in each epoch.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from evalindex.database.engine import from_json
from evalindex.errors import EvalIndexError
from evalindex.find import asked
from evalindex.results import Rows
from evalindex.rows import Reason, SampleRow, missing_row, sample_row

if TYPE_CHECKING:
    from evalindex.database.questions import Question, Standing
    from evalindex.find import Asker, Filter
    from evalindex.survey import SurveyedLog

Key = tuple[str, int]


class TaskProgress(NamedTuple):
    """How far one task is, over all of its attempts that were asked for.

    `log` is the newest of them. `planned` is None if not all of them say what was planned, or one
    of them cannot be read: then it cannot be known that nothing is missing. `done` are planned
    samples that need not be run again (all such samples, if the plan is unknown); `limits` are
    samples that a limit ended, which counts as done. `unrecorded` are listed in a log that does not
    hold them, `unsummarized` the other way round; `collisions` are ids whose text another id of
    another type has.
    """

    task: str | None
    log: str
    attempts: int
    planned: int | None
    done: int
    epochs: int
    limits: int
    unrecorded: int
    unsummarized: int
    collisions: int


class Incomplete(Rows[SampleRow]):
    """The samples to run, task by task, in the order of the plan; `tasks` says how far each is."""

    tasks: tuple[TaskProgress, ...] = ()
    _with_reason = True
    _plans: Sequence[Iterable[str | int]] = ()

    @property
    def unknown(self) -> tuple[TaskProgress, ...]:
        """The tasks of which it is not known what was planned."""
        return tuple(task for task in self.tasks if task.planned is None)

    def sample_id_argument(self, rows: Iterable[SampleRow] | None = None) -> str:
        """What to paste behind `inspect eval` to run these rows (all, if None): `--sample-id 3,17`,
        or "" if there are none.

        Raises `EvalIndexError` if several tasks were asked for, or if inspect would take such an
        argument for anything else than these ids.
        """
        ids = list(dict.fromkeys(row.id for row in (self if rows is None else rows)))
        if not ids:
            return ""
        if len(self.tasks) > 1:
            raise EvalIndexError(
                f"this is about {len(self.tasks)} tasks, by their task_id", hint="name one log"
            )
        task = self.tasks[0]
        wrong = [id for id in ids if not _is_plain(str(id), task.task or "")]
        patterns = {_normalised(str(id)) for id in ids}
        matched = {str(id) for id in self._plans[0] if _normalised(id) in patterns}
        wrong += matched.symmetric_difference(map(str, ids))
        # Inspect takes these for numbers, and fails.
        wrong += [id for id in self._plans[0] if str(id).isdigit() and not str(id).isdecimal()]
        if wrong:
            raise EvalIndexError(
                f"--sample-id cannot express the id {wrong[0]!r}, or not without others",
                log=task.log,
                hint="the format keys can",
            )
        return f"--sample-id {','.join(map(str, ids))}"


def _is_plain(id: str, task: str) -> bool:
    """Whether inspect takes a text in `--sample-id` as it is: it cuts at commas, strips, matches
    shell patterns, and takes the name of a task before a colon away."""
    prefix, colon, _ = id.partition(":")
    names = {task.lower(), task.rpartition("/")[2].lower()}
    special = any(c in ",*?[" for c in id)
    # A shell does not take quotes away from what a command printed.
    plain = shlex.quote(id) == id
    return plain and not special and not (colon and prefix.lower() in names)


def _normalised(id: str | int) -> str:
    """How inspect compares ids (`dataset/_util.py`, `normalise_sample_id`)."""
    if isinstance(id, str) and id.isdecimal():
        id = int(id)
    return id if isinstance(id, str) else str(id).zfill(20)


class _Task:
    """The attempts of one task, and what they recorded."""

    def __init__(self, logs: Iterable[tuple[int, SurveyedLog]]) -> None:
        #: From the newest to the oldest, with their ranks.
        self.logs = sorted(logs, key=lambda ranked: ranked[1].newness, reverse=True)
        self.ranks = [rank for rank, _ in self.logs]
        self.log = self.logs[0][1]
        #: What was planned, as far as logs say it.
        self.plan: dict[Key, str | int] = {}
        #: The newest record of each key that need not be run again.
        self.reusable: dict[Key, Standing] = {}
        #: Key, id, and the newest record if there is one.
        self.to_run: list[tuple[Key, str | int, Standing | None]] = []

    @property
    def is_known(self) -> bool:
        """Whether all attempts say what was planned."""
        return all(log.brief.planned is not None for _, log in self.logs)

    @property
    def is_counted(self) -> bool:
        """Whether the header's numbers say how many are done: of one log they do."""
        return len(self.logs) == 1 and self.is_known

    @property
    def left(self) -> int:
        brief = self.log.brief
        return (brief.planned or 0) - (brief.done or 0)

    def take_plans(self, ids: dict[int, str | None]) -> None:
        for rank, log in self.logs:
            text = ids[rank]
            if text is None:
                continue
            planned = from_json(text, list[str | int])
            for epoch in range(1, log.brief.epochs + 1):
                for id in planned:
                    self.plan.setdefault((str(id), epoch), id)

    def take_bad(self, standings: Iterable[Standing]) -> bool:
        """Take the bad records of one log; False if there is more to be run than these."""
        bad = {(one.id, one.epoch): one for one in standings}
        self.to_run = [(key, id, bad[key]) for key, id in self.plan.items() if key in bad]
        return len(self.to_run) == self.left

    def take(self, standings: dict[int, list[Standing]]) -> None:
        """Take the records of all attempts."""
        everything = [one for rank in self.ranks for one in standings.get(rank, ()) if one.recorded]
        # The same record, seeded into another attempt, is no better there.
        invalidated = {one.uuid for one in everything if one.invalidated and one.uuid}
        newest: dict[Key, Standing] = {}
        for one in everything:
            key = one.id, one.epoch
            before = newest.setdefault(key, one)
            if one.uuid in invalidated:
                if one.invalidated and not before.invalidated and before.uuid == one.uuid:
                    newest[key] = one  # it says itself why it is bad
            elif not (one.failed or one.invalidated):
                self.reusable.setdefault(key, one)
        for key, one in newest.items():
            if one.uuid in invalidated:
                newest[key] = one._replace(invalidated=1)
        plan = self.plan
        if not self.is_known:  # whatever was recorded belongs to it
            plan = {**dict.fromkeys(newest, ""), **plan}
        self.to_run = [
            (key, id, newest.get(key)) for key, id in plan.items() if key not in self.reusable
        ]

    def progress(self, doubtful: Container[str]) -> TaskProgress:
        """`doubtful` are the tasks that have more attempts than could be read."""
        is_known = self.is_known and self.log.task_key not in doubtful
        briefs = [log.brief for _, log in self.logs]
        planned = len(self.plan) if self.plan else self.log.brief.planned
        return TaskProgress(
            self.log.brief.task,
            self.log.location,
            len(self.logs),
            planned if is_known else None,
            (planned or 0) - len(self.to_run) if self.is_known else len(self.reusable),
            max(brief.epochs for brief in briefs),
            sum(brief.limits or 0 for brief in briefs),
            sum(brief.unrecorded or 0 for brief in briefs),
            sum(brief.unsummarized or 0 for brief in briefs),
            sum(brief.collisions or 0 for brief in briefs),
        )


def incomplete(asker: Asker, filter: Filter) -> Incomplete:
    """The planned samples that have no reusable record, over the attempts of each task."""
    _refuse_uuids(filter)
    with asker.question() as question:

        def select(logs: list[SurveyedLog]) -> list[_Task]:
            tasks = _tasks(logs)
            _find_what_to_run(question, logs, tasks)
            question.find_keys(
                asked(logs),
                (
                    (record.rank, *key)
                    for task in tasks
                    for key, _, record in task.to_run
                    if record is not None
                ),
            )
            return tasks

        tasks, logs, seen = asker.at_one_moment(question, filter, select)

        def rows() -> Iterator[SampleRow]:
            recorded = question.found()
            for task in tasks:
                for key, id, record in task.to_run:
                    if record is None:
                        yield missing_row(task.log, id, key[1])
                    else:
                        sample = next(recorded)
                        row = sample_row(logs[sample.rank], sample.columns, sample.scores)
                        yield row._replace(reason=_reason(record))

        total = sum(len(task.to_run) for task in tasks)
        answer = Incomplete(rows(), total, *seen[1:4], question.close)
        answer.score_names = question.score_names
        answer.tasks = tuple(task.progress(seen.doubtful) for task in tasks)
        answer._plans = [dict.fromkeys(task.plan.values()) for task in tasks]
        return answer


def reusable(asker: Asker, filter: Filter) -> Rows[SampleRow]:
    """The samples that need not be run again, of each task the newest record of each."""
    _refuse_uuids(filter)
    with asker.question() as question:

        def select(logs: list[SurveyedLog]) -> int:
            tasks = _tasks(logs)
            standings = _standings(question, logs, range(len(logs)))
            for task in tasks:
                task.take(standings)
            keys = ((one.rank, *key) for task in tasks for key, one in task.reusable.items())
            return question.find_keys(asked(logs), keys)

        total, logs, seen = asker.at_one_moment(question, filter, select)
        rows = (
            sample_row(logs[sample.rank], sample.columns, sample.scores)
            for sample in question.found()
        )
        answer = Rows(rows, total, *seen[1:4], question.close)
        answer.score_names = question.score_names
        return answer


def _refuse_uuids(filter: Filter) -> None:
    if filter.newest == "uuid":
        raise ValueError('of planned samples there is no newest="uuid"')


def _tasks(logs: Iterable[SurveyedLog]) -> list[_Task]:
    attempts: dict[str, list[tuple[int, SurveyedLog]]] = {}
    for rank, log in enumerate(logs):
        attempts.setdefault(log.task_key, []).append((rank, log))
    return [_Task(some) for some in attempts.values()]


def _find_what_to_run(
    question: Question, logs: Sequence[SurveyedLog], tasks: Iterable[_Task]
) -> None:
    """Of a log whose numbers say that nothing is to be run, or nothing but what failed, not all
    samples are looked at: there may be very many."""
    left = [task for task in tasks if not (task.is_counted and task.left == 0)]
    ranks = [rank for task in left for rank in task.ranks]
    indexed = question.sample_ids([id for rank in ranks if (id := logs[rank].log_id) is not None])
    ids = {
        rank: indexed[log.log_id or 0] if log.header is None else log.header[0].sample_ids
        for rank in ranks
        for log in [logs[rank]]
    }
    for task in left:
        task.take_plans(ids)
    counted = [task.ranks[0] for task in left if task.is_counted]
    bad = _standings(question, logs, counted, only_bad=True)
    left = [
        task for task in left if not (task.is_counted and task.take_bad(bad.get(task.ranks[0], ())))
    ]
    standings = _standings(question, logs, [rank for task in left for rank in task.ranks])
    for task in left:
        task.take(standings)


def _standings(
    question: Question,
    logs: Sequence[SurveyedLog],
    ranks: Iterable[int],
    *,
    only_bad: bool = False,
) -> dict[int, list[Standing]]:
    of_all = asked(logs)
    rows = question.standings([of_all[rank] for rank in ranks], only_bad=only_bad)
    return {rank: list(group) for rank, group in groupby(rows, key=attrgetter("rank"))}


def _reason(record: Standing) -> Reason:
    if record.invalidated:
        return "invalidated"
    return "cancelled" if record.cancelled else "error"
