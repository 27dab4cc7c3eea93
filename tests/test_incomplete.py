"""What has to be run, and what need not, against inspect_ai's own rule; and `--sample-id`."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspect_ai._eval.task.util import resolve_task_sample_ids, sample_id_filter
from inspect_ai._util.error import is_cancellation_message
from inspect_ai._util.samples import parse_sample_id
from inspect_ai.log import EvalSample, read_eval_log_sample_summaries

import evalindex
from evalindex.database.questions import Brief
from evalindex.incomplete import Incomplete, TaskProgress
from evalindex.rows import missing_row
from evalindex.survey import SurveyedLog
from tests.builders import encoded, sample, write_log
from tests.made_logs import Key, Truth, a_set, change, truth, truths

UNREAD = ("chunked_rich.eval", "journal_gap_score_stream_overwrite.eval")

#: Log, id, epoch, reason.
ToRun = tuple[str, str | int, int, str]


@pytest.fixture(scope="module")
def real(copied_logs: Path) -> Path:
    for name in UNREAD:  # inspect 0.3.285 cannot read these
        (copied_logs / name).unlink()
    evalindex.build(copied_logs)
    return copied_logs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, _ = a_set(tmp_path_factory, 1_000)
    evalindex.build(folder)
    return folder


# --- inspect's rule, over inspect's objects --------------------------------------------------


class Task(NamedTuple):
    """The attempts of one task, from the newest to the oldest, and what follows from them.

    `plan` and the records are by id and epoch; `planned` is None if an attempt does not say.
    """

    attempts: list[Truth]
    plan: dict[Key, str | int]
    planned: int | None
    newest: dict[Key, tuple[Truth, EvalSample]]
    reusable: dict[Key, tuple[Truth, EvalSample]]
    invalid: set[str]

    def to_run(self) -> list[ToRun]:
        plan = dict(self.plan)
        if self.planned is None:  # whatever was recorded belongs to it
            plan = {**{key: one.id for key, (_, one) in self.newest.items()}, **plan}
        found: list[ToRun] = []
        for key, id in plan.items():
            if key in self.reusable:
                continue
            if key not in self.newest:
                found.append((str(self.attempts[0].path), id, key[1], "missing"))
                continue
            log, record = self.newest[key]
            found.append((str(log.path), record.id, key[1], self.reason(record)))
        return found

    def reason(self, record: EvalSample) -> str:
        if record.invalidation is not None or record.uuid in self.invalid:
            return "invalidated"
        assert record.error is not None
        return "cancelled" if is_cancellation_message(record.error.message) else "error"


def task_of(logs: Iterable[Truth]) -> Task:
    attempts = sorted(logs, key=lambda log: log.newness, reverse=True)
    plans = [log.plan for log in attempts]
    plan: dict[Key, str | int] = {}
    for one in plans:
        plan = {**(one or {}), **plan}
    records = [(key, log, log.samples[key]) for log in attempts for key in log.samples]
    invalid = {r.uuid for _, _, r in records if r.invalidation is not None and r.uuid is not None}
    newest: dict[Key, tuple[Truth, EvalSample]] = {}
    reusable: dict[Key, tuple[Truth, EvalSample]] = {}
    for key, log, record in records:
        newest.setdefault(key, (log, record))
        # Of copies of an invalidated record, one that says so itself.
        same = newest[key][1].uuid == record.uuid and record.uuid in invalid
        if same and newest[key][1].invalidation is None and record.invalidation is not None:
            newest[key] = log, record
        # inspect_ai/_eval/task/run.py, classify: neither an error nor invalidated
        bad = record.error is not None or record.invalidation is not None
        if not bad and record.uuid not in invalid:
            reusable.setdefault(key, (log, record))
    known = all(one is not None for one in plans)
    return Task(attempts, plan, len(plan) if known else None, newest, reusable, invalid)


def tasks_of(logs: dict[Path, Truth]) -> list[Task]:
    groups: dict[str, list[Truth]] = {}
    for path, log in logs.items():
        groups.setdefault(log.header.eval.task_id or str(path), []).append(log)
    return [task_of(group) for group in groups.values()]


def told(rows: Iterable[evalindex.SampleRow]) -> list[ToRun]:
    return [(row.log, row.id, row.epoch, str(row.reason)) for row in rows]


def check(index: evalindex.Index, where: Path | None, tasks: list[Task]) -> None:
    """`incomplete` and `reusable` about a log or a root are what the rule gives."""
    answer = index.incomplete(where)
    progress, total, rows = answer.tasks, answer.total, told(answer)
    wanted = [row for task in tasks for row in task.to_run()]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    assert total == len(wanted)
    ours = {one.log: (one.attempts, one.planned, one.done) for one in progress}
    theirs = {
        str(task.attempts[0].path): (
            len(task.attempts),
            task.planned,
            len(task.reusable)
            if task.planned is None
            else len(task.plan.keys() & task.reusable.keys()),
        )
        for task in tasks
    }
    assert ours == theirs
    assert len(progress) == len(tasks)
    assert {one.log for one in answer.unknown} == {
        str(task.attempts[0].path) for task in tasks if task.planned is None
    }
    again = index.reusable(where)
    found = {(row.log, repr(row.id), row.epoch, row.uuid) for row in again}
    assert found == {
        (str(log.path), repr(record.id), record.epoch, _uuid(log, key))
        for task in tasks
        for key, (log, record) in task.reusable.items()
    }
    assert again.total == len(found)


def _uuid(log: Truth, key: Key) -> str | None:
    return log.summaries[key].uuid if key in log.summaries else log.samples[key].uuid


def check_in_order(index: evalindex.Index, log: Truth) -> None:
    """Of one log, in the order of its plan."""
    task = task_of([log])
    if task.planned is not None:
        assert told(index.incomplete(log.path)) == task.to_run()


# --- real and made logs ----------------------------------------------------------------------


def test_each_real_log(real: Path) -> None:
    with evalindex.open(real) as index:
        for path, log in truths(real).items():
            check(index, path, [task_of([log])])
            check_in_order(index, log)


def test_all_real_logs(real: Path) -> None:
    tasks = tasks_of(truths(real))
    assert max(len(task.attempts) for task in tasks) > 1
    with evalindex.open(real) as index:
        check(index, None, tasks)


def test_a_chunked_log_and_one_with_a_gap_are_told_too(shared_logs: Path, tmp_path: Path) -> None:
    """inspect cannot read them; nothing that cannot be read is complete, and no other suffers."""
    for name in UNREAD:
        (tmp_path / name).write_bytes((shared_logs / name).read_bytes())
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        for log in index.logs():
            left, again = list(index.incomplete(log.log)), list(index.reusable(log.log))
            assert log.planned is not None
            assert len(left) + len(again) == log.planned
            assert all(row.recorded and row.error is None for row in again)
        chunked = tmp_path / UNREAD[0]  # its summaries inspect can read
        good = [s for s in read_eval_log_sample_summaries(str(chunked)) if s.error is None]
        assert good
        assert {(r.id, r.epoch) for r in index.reusable(chunked)} == {(s.id, s.epoch) for s in good}


def test_a_task_is_known_only_if_all_its_attempts_say_what_was_planned(tmp_path: Path) -> None:
    _attempt(tmp_path / "0.eval", [sample("q")], 0, invalidated=False)
    _attempt(tmp_path / "1.eval", [sample("q")], 1, invalidated=False, ids=None, told=False)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        for where in (None, tmp_path / "1.eval"):
            assert [task.planned for task in index.incomplete(where).unknown] == [None]
        assert index.incomplete(tmp_path / "0.eval").unknown == ()


def test_each_of_some_made_logs(made: Path) -> None:
    some = list(truths(made).values())[::20]
    with evalindex.open(made) as index:
        for log in some:
            check(index, log.path, [task_of([log])])
            check_in_order(index, log)


def test_a_made_set(made: Path) -> None:
    tasks = tasks_of(truths(made))
    rows = [row for task in tasks for row in task.to_run()]
    assert {row[3] for row in rows} == {"missing", "error", "cancelled", "invalidated"}
    assert any(task.planned is None for task in tasks)
    # a record that is invalid in one attempt and looks well in another
    assert any(
        record.uuid in task.invalid and record.invalidation is None and record.error is None
        for task in tasks
        for log in task.attempts
        for record in log.samples.values()
    )
    with evalindex.open(made) as index:
        check(index, None, tasks)


def test_a_made_set_by_folder_task_and_status(made: Path) -> None:
    logs = truths(made)
    with evalindex.open(made) as index:
        for folder in ("set-0", "set-3"):
            below = {path: log for path, log in logs.items() if path.parent.name == folder}
            check(index, made / folder, tasks_of(below))
        chosen = {
            path: log
            for path, log in logs.items()
            if log.header.eval.task == "task-2" and log.header.status in ("success", "error")
        }
        wanted = [row for task in tasks_of(chosen) for row in task.to_run()]
        ours = told(index.incomplete(task="task-2", status=["success", "error"]))
        assert sorted(map(repr, ours)) == sorted(map(repr, wanted))


def test_changes_behind_the_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, logs = a_set(tmp_path_factory, 1_000)
    evalindex.build(folder)
    with evalindex.open(folder) as index:
        before = [row for task in tasks_of(truths(folder)) for row in task.to_run()]
        change(folder, logs)
        tasks = tasks_of(truths(folder))
        assert before != [row for task in tasks for row in task.to_run()]
        check(index, None, tasks)
        evalindex.build(folder)
        check(index, None, tasks)
    with evalindex.open(folder) as index:
        check(index, None, tasks)


def test_an_invalid_record_stays_so_in_an_attempt_that_took_it_over(tmp_path: Path) -> None:
    """The smallest such case, with the older or the newer attempt's record invalidated."""
    for name, invalid in (("older", 0), ("newer", 1)):
        folder = tmp_path / name
        for number in range(2):
            body = sample("q", uuid="u1", target="t", choices=None)
            if number == invalid:
                body["invalidation"] = {"timestamp": "2026-01-01T00:00:00+00:00", "author": "me"}
            _attempt(folder / f"{number}.eval", [body], number, invalidated=number == invalid)
        evalindex.build(folder)
        with evalindex.open(folder) as index:
            bad = str(folder / f"{invalid}.eval")  # whose record says why
            assert told(index.incomplete()) == [(bad, "q", 1, "invalidated")]
            assert list(index.reusable()) == []
            other = folder / f"{1 - invalid}.eval"  # by itself, it knows nothing of that
            assert list(index.incomplete(other)) == []


def _attempt(path: Path, bodies: list[dict[str, object]], number: int, *, invalidated: bool,
    ids: list[str | int] | None = None, task: str = "t", told: bool = True) -> Path:  # fmt: skip
    write_log(path, bodies, finished=False)
    header = {
        "version": 2, "status": "success", "invalidated": invalidated,
        "eval": {
            "task": task, "task_id": "one", "model": "m", "created": f"2026-01-0{number + 1}",
            "packages": {"inspect_ai": "0.3.285"}, "config": {},
            "dataset": {"samples": 1, "sample_ids": (ids or ["q"]) if told else None},
        },
    }  # fmt: skip
    summaries = [{name: body.get(name) for name in ("id", "epoch", "uuid")} for body in bodies]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("summaries.json", encoded(summaries))
        archive.writestr("header.json", encoded(header))
    return path


# --- --sample-id -------------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.text("ab1:,*?[]! -0'\"\\/$٣²\u200b\n", min_size=0, max_size=5),
    st.sampled_from(["t:a", "T:1", "pkg/t:a", "pkg:a", "007", "7", "-7", "0" * 20 + "7", "a", " a",
        "-0000000000000000007", "[a]", "a*", "٣", "3", "²", "٣:a"]),
    st.text(min_size=1, max_size=4),
)  # fmt: skip
_COMPARABLE = _TEXTS.filter(lambda text: text.isdecimal() or not text.isdigit())
_IDS = st.lists(
    st.one_of(st.integers(-9, 30), st.integers(), _COMPARABLE),
    min_size=1,
    max_size=6,
    unique_by=str,
)


@settings(max_examples=1_500, deadline=None)
@given(plan=_IDS, done=st.sets(st.integers(0, 5)), task=st.sampled_from(["t", "pkg/t", "a"]))
def test_sample_id_is_exact_or_refused(plan: list[str | int], done: set[int], task: str) -> None:
    log = SurveyedLog("/l/a.eval", "a.eval", *[None] * 8)  # type: ignore[arg-type]
    log = log._replace(brief=Brief("success", task, *[None] * 12))  # type: ignore[arg-type]
    left = [id for number, id in enumerate(plan) if number not in done]
    answer = Incomplete(iter(()), 0)
    answer.tasks = (TaskProgress(task, log.location, 1, len(plan), 0, 1, 0, 0, 0, 0),)
    answer._plans = [dict.fromkeys(plan)]
    try:
        text = answer.sample_id_argument(missing_row(log, id, 1) for id in left)
    except evalindex.EvalIndexError:
        assert left
        # What is as plain as can be is not refused.
        assert not all(isinstance(id, int) and id >= 0 for id in plan)
        return
    assert selected(text, plan, task) == left


@pytest.mark.parametrize("left", ["²", "x"])
def test_digits_that_are_no_number(tmp_path: Path, left: str) -> None:
    """inspect takes `"²".isdigit()` for a number, and fails on any plan that has such an id."""
    plan: list[str | int] = ["²", "x"]
    done = [sample(id) for id in plan if id != left]
    log = _attempt(tmp_path / "a.eval", done, 0, invalidated=False, ids=plan)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        try:
            text = index.incomplete(log).sample_id_argument()
        except evalindex.EvalIndexError:
            return
    assert selected(text, plan, "t") == [left]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=_IDS, done=st.sets(st.integers(0, 5)), task=st.sampled_from(["t", "pkg/t", "a"]))
def test_sample_id_selects_exactly_these_ids_in_inspect(
    tmp_path_factory: pytest.TempPathFactory, plan: list[str | int], done: set[int], task: str
) -> None:
    plan = [id for id in plan if isinstance(id, int) or _is_text(id)]
    folder = tmp_path_factory.mktemp("plan")
    bodies = [sample(id) for n, id in enumerate(plan) if n in done and "\0" not in str(id)]
    recorded = [body["id"] for body in bodies]
    log = _attempt(folder / "a.eval", bodies, 0, invalidated=False, ids=plan, task=task)
    wanted = [id for id in plan if id not in recorded]
    evalindex.build(folder)
    with evalindex.open(folder) as index:
        left = index.incomplete(log)
        rows = list(left)
        assert [row.id for row in rows] == wanted
        try:
            text = left.sample_id_argument(rows)
        except evalindex.EvalIndexError:
            assert wanted
            return
    assert selected(text, plan, task) == wanted


def _is_text(id: str) -> bool:
    try:
        id.encode()
    except UnicodeEncodeError:
        return False
    return True


def selected(text: str, plan: list[str | int], task: str) -> list[str | int]:
    """What inspect's command line would run of a dataset with these ids."""
    if not text:
        return []
    assert text.split(" ") == shlex.split(text)  # $(...) takes no quotes away
    option, value = shlex.split(text)
    assert option == "--sample-id"
    found: list[list[str | int]] = []
    for name in (task, task.rpartition("/")[2]):  # whichever name inspect gives the task
        ids = resolve_task_sample_ids(name, list(parse_sample_id(value) or ()), [name])
        assert isinstance(ids, list)
        matcher = sample_id_filter(ids)
        found.append([id for id in plan if matcher.matches(id)])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("plan", "done", "text"),
    [
        ([1, 2, 3], [2], "--sample-id 1,3"),
        (["q-1", "q 2"], ["q 2"], "--sample-id q-1"),
        (["a:b", "c"], ["c"], "--sample-id a:b"),
        (["007", "x"], ["x"], "--sample-id 007"),
        ([1, 2], [1, 2], ""),
    ],
)
def test_plain_ids_are_expressed(
    tmp_path: Path, plan: list[str | int], done: list[str | int], text: str
) -> None:
    log = _attempt(tmp_path / "a.eval", [sample(id) for id in done], 0, invalidated=False, ids=plan)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert index.incomplete(log).sample_id_argument() == text


def test_of_several_tasks_there_is_no_argument(real: Path) -> None:
    with evalindex.open(real) as index, pytest.raises(evalindex.EvalIndexError, match="tasks"):
        index.incomplete().sample_id_argument()
    assert truth(real / "finished_int_2epochs.eval").samples
