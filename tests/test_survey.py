"""Answers from rows look at every log: what is new, changed, gone, hidden, unreadable, replaced."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import list_eval_logs
from inspect_ai.log._file import without_merged_shards

import evalindex
from evalindex.database import migrate
from evalindex.database.engine import open_for_reading
from evalindex.database.queries import IndexReader
from evalindex.database.questions import Question
from tests.builders import (
    as_nobody,
    change_index,
    in_fork,
    public_folder,
    query,
    sample,
    together,
    write_log,
)


def log_of(path: Path, ids: list[int], task: str = "t", **header: Any) -> Path:
    """A finished log with summaries; sample 1, if there is one, has failed."""
    summaries = [
        {
            **sample(id),
            "uuid": f"{path.stem}-{id}",
            "completed": True,
            "error": "E('x')" if id == 1 else None,
        }
        for id in ids
    ]
    bodies = [sample(id, uuid=f"{path.stem}-{id}") for id in ids]
    spec = {
        "task": task,
        "model": "m",
        "config": {},
        "packages": {"inspect_ai": "0.3.285"},
        "created": "2026-01-01T00:00:00",
    }
    spec |= {"dataset": {"sample_ids": ids}, **header.pop("spec", {})}
    return write_log(path, bodies, header={"eval": spec, **header}, summaries=summaries)


@pytest.fixture(autouse=True)
def _versions_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in "abc":
        log_of(tmp_path / "logs" / f"{name}.eval", [1, 2, 3])
    evalindex.build(tmp_path / "logs")
    return tmp_path / "logs"


def keys(rows: Any) -> list[tuple[str, str | int]]:
    return [(row.path, row.id) for row in rows]


ALL = [(f"{name}.eval", id) for name in "abc" for id in (1, 2, 3)]


def test_nothing_is_read_of_logs_that_are_as_they_were(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalindex.stores.local.LocalFile.read", None)  # whoever calls it fails
    with evalindex.open(root) as index:
        assert keys(index.find()) == ALL
        assert [row.done for row in index.logs()] == [2, 2, 2]
        assert keys(index.incomplete()) == [(f"{name}.eval", 1) for name in "abc"]
        assert index.reusable().total == 6


def test_new_changed_and_lost_logs_are_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with evalindex.open(root) as index:
        log_of(root / "sub" / "new.eval", [7])
        log_of(root / "b.eval", [1, 2, 8])
        (root / "c.eval").unlink()
        answer = index.find()
        assert answer.gone == (str(root / "c.eval"),)
        assert answer.failures == ()
        assert answer.total == 7
        expected = [*ALL[:5], ("b.eval", 8), ("sub/new.eval", 7)]
        assert keys(answer) == expected
        assert [row.path for row in index.logs()] == ["a.eval", "b.eval", "sub/new.eval"]
        assert [row.uuid for row in index.find(id=8)] == ["b-8"]
        assert index.read(uuid="new-7")["id"] == 7
        with pytest.raises(evalindex.SampleNotFound, match="b-3"):
            index.read(uuid="b-3")
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 2  # once a log
    assert any("b.eval has changed" in text for text in told)
    assert any("new.eval is not indexed" in text for text in told)


def test_a_log_that_cannot_be_read_stops_no_other(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "b.eval").write_bytes(b"no log")
    with evalindex.open(root) as index:
        answer = index.find()
        assert [type(error) for error in answer.failures] == [evalindex.NotAnEvalLog]
        assert answer.failures[0].log == str(root / "b.eval")
        assert keys(answer) == [*ALL[:3], *ALL[6:]]
        assert "b.eval" in caplog.text
        for ask in (index.find, index.logs, index.incomplete, index.samples, index.reusable):
            with pytest.raises(evalindex.NotAnEvalLog):
                ask(root / "b.eval")
        # Whether it holds the sample cannot be said.
        with pytest.raises(evalindex.NotAnEvalLog):
            index.read(uuid="nobody's")
        assert index.read(uuid="c-2")["id"] == 2


def test_a_log_whose_summaries_are_damaged_is_told_and_its_samples_are_read(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.eval", [1, 2])
    data = bytearray(log.read_bytes())
    at = data.rindex(b"summaries.json", 0, data.index(b"PK\1\2")) + len(b"summaries.json") + 8
    data[at] ^= 0xFF
    log.write_bytes(data)
    report = evalindex.build(tmp_path)
    assert (report.indexed, report.unreadable) == (0, 1)
    assert "summaries.json" in report.failures[0].reason
    assert evalindex.build(tmp_path).unreadable == 1  # told each time
    with evalindex.open(tmp_path) as index:
        assert index.read(log, 2)["id"] == 2
        answer = index.find()
        assert list(answer) == []
        assert [error.log for error in answer.failures] == [str(log)]
        assert [row.state for row in index.status().logs] == ["fresh"]
    log_of(log, [1, 2])
    assert evalindex.build(tmp_path).indexed == 1


def test_one_log_that_is_not_there_is_an_error(root: Path) -> None:
    (root / "b.eval").unlink()
    with evalindex.open(root) as index:
        for ask in (index.find, index.logs, index.incomplete, index.samples, index.reusable):
            with pytest.raises(evalindex.LogNotFound):
                ask(root / "b.eval")
        (root.parent / "elsewhere").mkdir()
        with pytest.raises(evalindex.IndexNotFound):
            index.find(root.parent / "elsewhere")
        with pytest.raises(evalindex.RootUnreadable, match="no such folder"):
            index.find(root / "typo")
    with evalindex.open(root / "a.eval") as index:
        assert keys(index.find(root / "a.eval")) == ALL[:3]


def test_a_folder_that_cannot_be_listed_is_a_failure(root: Path) -> None:
    with public_folder() as folder:
        copy = folder / "logs"
        shutil.copytree(root, copy)
        log_of(copy / "closed" / "d.eval", [4])
        log_of(copy / "e.eval", [5])
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)
        evalindex.build(copy)
        (copy / "closed").chmod(0o700)

        def job() -> tuple[list[tuple[str, str | int]], list[str | None]]:
            with evalindex.open(copy) as index:
                answer = index.find()
                return keys(answer), [error.log for error in answer.failures]

        with evalindex.open(copy) as index:
            keys(index.find())  # imports what the other user cannot
        found, failed = as_nobody(job, refused=copy)
        assert found == [*ALL, ("e.eval", 5)]
        assert failed == [str(copy / "closed")]


def test_an_index_at_rest_is_asked_where_nothing_can_be_written() -> None:
    with public_folder() as folder:
        log_of(folder / "a.eval", [1, 2])
        (folder / "a.eval").chmod(0o644)
        evalindex.build(folder)
        with evalindex.open(folder) as index:
            keys(index.find())
            keys(index.incomplete())

        def job() -> list[tuple[str, str | int]]:
            with evalindex.open(folder) as index:
                return keys(index.find()) + keys(index.incomplete())

        before = sorted(os.listdir(folder))
        expected = [("a.eval", 1), ("a.eval", 2), ("a.eval", 1)]
        assert as_nobody(job, refused=folder) == expected
        assert sorted(os.listdir(folder)) == before


def test_a_stale_log_is_refused_if_asked_so(root: Path) -> None:
    log_of(root / "b.eval", [1, 2, 8])
    with evalindex.open(root, on_stale="error") as index:
        answer = index.find()
        assert [type(error) for error in answer.failures] == [evalindex.StaleLog]
        assert keys(answer) == [*ALL[:3], *ALL[6:]]


def test_an_index_from_before_is_read_and_its_rows_are_refused_by_name(tmp_path: Path) -> None:
    log = log_of(tmp_path / "a.eval", [1, 2])
    index_file = tmp_path / "evalindex.db"
    evalindex.build(tmp_path)
    members = query(index_file, "SELECT * FROM member")
    index_file.unlink()
    connection = sqlite3.connect(index_file, isolation_level=None)
    migrate.upgrade(connection, "0001")
    connection.close()
    connection = sqlite3.connect(index_file, isolation_level=None)
    connection.execute("INSERT INTO root VALUES (1, '.', 1)")
    connection.execute(
        "INSERT INTO log VALUES (1, 1, 'a.eval', 'finished', NULL, ?, NULL, 0, x'00', 2, 0, 0, 1)",
        (log.stat().st_size,),
    )
    marks = ", ".join("?" * len(members[0]))
    connection.executemany(f"INSERT INTO member VALUES ({marks})", members)
    connection.close()
    with evalindex.open(tmp_path) as index:
        assert index.read(log, 2)["id"] == 2
        assert [row.id for row in index.samples(log)] == [1, 2]  # of the log itself
        assert index.read(log, uuid="a-2")["id"] == 2
        assert {finding.kind for finding in index.verify().findings} == {"stale"}
        for ask in (index.find, index.logs, index.incomplete, index.reusable):
            with pytest.raises(evalindex.IndexOutdated, match="evalindex build"):
                ask()
    assert evalindex.build(tmp_path).indexed == 1
    with evalindex.open(tmp_path) as index:
        assert keys(index.find()) == [("a.eval", 1), ("a.eval", 2)]


def shards(folder: Path) -> list[Path]:
    """Two merged logs, one of them not finished well, with shards from before and after."""
    made = []
    for name, status in (("good", "success"), ("bad", "error"), ("twice", "success")):
        merged = [folder / f"{name}.eval"]
        if name == "twice":
            merged.append(folder / "twice-recovered.eval")
        old = log_of(folder / f"{name}.shards" / "0" / "x.eval", [1], status="success")
        new = log_of(folder / f"{name}.shards" / "1" / "y.eval", [2], status="success")
        for n, path in enumerate(merged):
            log_of(path, [1, 2], status=status)
            os.utime(path, (2_000_000_000 + 10 * n, 2_000_000_000 + 10 * n))
        os.utime(old, (1_999_999_990, 1_999_999_990))
        os.utime(new, (2_000_000_005, 2_000_000_005))
        made += [*merged, old, new]
    log_of(folder / "alone.shards" / "0" / "z.eval", [1], status="success")
    return made


@pytest.mark.parametrize("built", [False, True])
def test_shards_are_hidden_behind_their_merged_log_as_inspect_hides_them(
    tmp_path: Path, built: bool
) -> None:
    folder = tmp_path / "logs"
    log_of(folder / "other.eval", [1])
    evalindex.build(folder)
    shards(folder)
    if built:
        evalindex.build(folder)
    listed = list_eval_logs(str(folder))
    shown = {info.name.removeprefix("file://") for info in without_merged_shards(listed, {})}
    assert 0 < len(shown) < len(listed)
    with evalindex.open(folder) as index:
        answer = index.logs()
        assert answer.hidden == len(listed) - len(shown)
        assert {row.log for row in answer} == shown
        assert {row.log for row in index.find()} == shown
        # The folder of shards itself shows all that is in it.
        assert index.logs(folder / "good.shards").total == 2


# Builders beside questions


def test_rows_that_a_builder_replaces_meanwhile_are_asked_for_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Question.moment
    turns = 0

    def meanwhile(self: Question, log_ids: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == 1:
            log_of(root / "a.eval", [5, 6])
            evalindex.build(root)
        return genuine(self, log_ids)

    with evalindex.open(root) as index:
        monkeypatch.setattr(Question, "moment", meanwhile)
        found = keys(index.find())
    assert found == [("a.eval", 5), ("a.eval", 6), *ALL[3:]]
    assert turns == 2


def test_rows_that_are_always_replaced_are_an_error_by_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Question.moment

    def meanwhile(self: Question, log_ids: Any) -> Any:
        evalindex.build(root, full=True)
        return genuine(self, log_ids)

    with evalindex.open(root) as index:
        monkeypatch.setattr(Question, "moment", meanwhile)
        with pytest.raises(evalindex.IndexBusy):
            index.find()


def test_an_answer_is_taken_as_slowly_as_one_likes(root: Path) -> None:
    """No transaction is open: a builder may come, and even put another index in its place."""
    with evalindex.open(root) as index:
        answer = index.find()
        first = next(answer)
        log_of(root / "a.eval", [9])
        assert in_fork(lambda: evalindex.build(root).indexed) == 1
        (root / "evalindex.db").unlink()
        in_fork(lambda: evalindex.build(root).indexed)
        assert keys([first, *answer]) == ALL


def test_threads_share_one_index(root: Path) -> None:
    failures: list[BaseException] = []

    def ask(index: evalindex.Index) -> None:
        try:
            for _ in range(20):
                assert keys(index.find()) == ALL
                assert keys(index.incomplete()) == [(f"{name}.eval", 1) for name in "abc"]
        except BaseException as error:
            failures.append(error)

    with evalindex.open(root) as index:
        threads = [threading.Thread(target=ask, args=(index,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            evalindex.build(root, full=True)
        for thread in threads:
            thread.join()
    assert failures == []


def test_questions_beside_builders_are_answered_right(root: Path) -> None:
    def job(number: int) -> None:
        if number < 2:
            for _ in range(10):
                evalindex.build(root, full=number == 0)
            return
        for _ in range(30):
            with evalindex.open(root) as index:
                try:
                    found = keys(index.find())
                except evalindex.IndexBusy:
                    continue
                assert found == ALL

    together(4, job)
    rows = "SELECT (SELECT count(*) FROM sample), (SELECT count(*) FROM summaries)"
    assert query(root / "evalindex.db", rows) == [(9, 3)]
    with evalindex.open(root) as index:
        assert index.verify().findings == ()


def test_answers_let_go_of_their_connection(root: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with evalindex.open(root) as index:
        list(index.find())
        before = descriptors()
        asks: list[Callable[[], Any]] = [index.find, index.incomplete, index.reusable, index.logs]
        for ask in asks:
            for _ in range(5):
                list(ask())
                ask().close()
                next(ask())
        assert descriptors() == before


# What verify finds


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("UPDATE sample SET error = NULL WHERE id = '1'", "rows"),
        ("UPDATE header SET status = 'error'", "rows"),
        ("UPDATE sample SET uuid = 'other' WHERE id = '2'", "rows"),
        ("DELETE FROM sample WHERE id = '2'", "rows"),
        ("DELETE FROM summaries WHERE summaries_id = 1", "index"),
        ("INSERT INTO score VALUES (77, 0, 'x', 1, NULL)", "index"),
        ("INSERT INTO metric VALUES (77, 0, 'x', 'x', NULL, 'x', 1)", "index"),
        ("DELETE FROM header WHERE log_id = 1", "rows"),
    ],
)
def test_verify_finds_rows_that_are_not_those_of_the_log(
    root: Path, damage: str, kind: str
) -> None:
    with evalindex.open(root) as index:
        assert index.verify().findings == ()
    change_index(root / "evalindex.db", damage)
    with evalindex.open(root) as index:
        assert kind in {finding.kind for finding in index.verify().findings}
    evalindex.build(root, full=True)
    with evalindex.open(root) as index:
        assert index.verify().findings == ()


@pytest.mark.parametrize("ids", [[4, 5, 6], [1, 2, 3]])
def test_an_index_that_replaces_another_during_a_question_gives_no_old_rows(
    root: Path, monkeypatch: pytest.MonkeyPatch, ids: list[int]
) -> None:
    """Ids start anew in a new file: that they are equal says nothing."""
    genuine = Question.__init__

    def replaced(self: Question, reader: IndexReader) -> None:
        genuine(self, reader)
        (root / "evalindex.db").unlink()
        log_of(root / "a.eval", ids, task="other")
        in_fork(lambda: evalindex.build(root).indexed)

    with evalindex.open(root) as index:
        index.read("a.eval", 1)
        monkeypatch.setattr(Question, "__init__", replaced)
        rows = list(index.find(root / "a.eval"))
    assert [(row.id, row.task) for row in rows] == [(id, "other") for id in ids]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_sample_that_is_read_by_its_uuid_has_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """The log is written again after its rows were found: same ids, others' uuids."""
    genuine, changes = evalindex.Index._with_uuid, [1]

    def replaced(self: evalindex.Index, log: Any, uuid: str, *, fresh: bool) -> evalindex.SampleRow:
        row = genuine(self, log, uuid, fresh=fresh)
        if changes:
            changes.clear()
            if elsewhere:
                (root / "a.eval").rename(root / "moved.eval")
            log_of(root / "other.eval", [1, 2, 3]).rename(root / "a.eval")
        return row

    monkeypatch.setattr(evalindex.Index, "_with_uuid", replaced)
    with evalindex.open(root) as index:
        if elsewhere:
            assert index.read(uuid="a-2")["uuid"] == "a-2"
        else:
            with pytest.raises(evalindex.SampleNotFound):
                index.read(uuid="a-2")
    assert not changes


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each opening of an index for reading."""
    seen: list[str] = []

    def noted(path: str) -> sqlite3.Connection:
        seen.append(path)
        return open_for_reading(path)

    monkeypatch.setattr("evalindex.database.queries.open_for_reading", noted)
    return seen


def test_questions_use_a_connection_again(root: Path, opened: list[str]) -> None:
    with evalindex.open(root) as index:
        opened.clear()
        for id in (1, 2, 3, 99, 1):
            expected = [] if id == 99 else [(str(root / "a.eval"), id)]
            assert [(row.log, row.id) for row in index.find(root / "a.eval", id=id)] == expected
        assert len(opened) == 1
        log_of(root / "a.eval", [7, 8])  # its rows are in temporary tables then
        for id in (7, 1, 8):
            assert index.find(root / "a.eval", id=id).total == (id != 1)
        assert index.incomplete(root / "a.eval").total == 0
        assert {row.id for row in index.find(root / "a.eval")} == {7, 8}
        assert len(opened) == 1


def test_answers_that_are_half_taken_do_not_disturb_each_other(
    root: Path, opened: list[str]
) -> None:
    with evalindex.open(root) as index:
        opened.clear()
        every = [(row.log, row.id) for row in index.find()]
        first, second = index.find(), index.find()
        taken = [next(first), next(second), next(first)]
        assert [(row.log, row.id) for row in taken] == [every[0], every[0], every[1]]
        del first
        assert [(row.log, row.id) for row in index.find()] == every
        assert [(row.log, row.id) for row in second] == every[1:]
        second.close()
        assert [(row.log, row.id) for row in index.find()] == every
        third = index.find()
    assert [(row.log, row.id) for row in third] == every  # it has what it found
    with pytest.raises(evalindex.IndexClosed):
        index.find()


def test_a_forked_child_asks_on_a_connection_of_its_own(root: Path, opened: list[str]) -> None:
    with evalindex.open(root) as index:
        every = [(row.log, row.id) for row in index.find()]
        half_taken = index.find()
        next(half_taken)

        def ask() -> list[tuple[str, str | int]]:
            half_taken.close()
            opened.clear()
            rows = [(row.log, row.id) for row in index.find()]
            assert len(opened) == 2  # the index's, and the question's
            return rows

        assert in_fork(ask) == every
        assert [(row.log, row.id) for row in half_taken] == every[1:]


def test_a_link_in_the_place_of_a_log_is_an_alias(root: Path) -> None:
    (root / "a.eval").unlink()
    (root / "a.eval").symlink_to(root / "b.eval")
    with evalindex.open(root) as index:
        assert keys(index.find()) == ALL[3:]
    evalindex.build(root)
    with evalindex.open(root) as index:
        assert keys(index.find()) == ALL[3:]


def test_a_task_of_which_a_log_cannot_be_read_is_not_complete(tmp_path: Path) -> None:
    log_of(tmp_path / "a.eval", [2], spec={"task_id": "one"})
    log_of(tmp_path / "b.eval", [2], spec={"task_id": "one"})
    log_of(tmp_path / "c.eval", [2], spec={"task_id": "two"})
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert index.incomplete().unknown == ()
        (tmp_path / "b.eval").write_bytes(b"junk")
        answer = index.incomplete()
        assert [Path(task.log).name for task in answer.unknown] == ["a.eval"]
        assert [task.planned for task in answer.tasks] == [None, 1]


# What may be asked


def test_filters_of_any_size_are_taken(root: Path) -> None:
    with evalindex.open(root) as index:
        log_of(root / "d.eval", [1])  # and so half of the rows are elsewhere
        many = [*range(2, 300_000)]
        assert index.find(id=many).total == 6
        assert index.find(uuid=[f"a-{n}" for n in many]).total == 2
        assert index.find(error=[f"no{n}*" for n in range(3_000)] + ["E(*"]).total == 4
        assert index.find(score=["s"] * 50).total == 0
        with pytest.raises(ValueError, match="50"):
            index.find(score=["s"] * 51)


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "'; DROP TABLE log; --", "%", "\x1b[2J"])
def test_odd_texts_match_nothing(root: Path, text: str) -> None:
    with evalindex.open(root) as index:
        for filters in ({"id": text}, {"uuid": text}, {"error": text}, {"score": text}):
            assert index.find(**filters).total == 0  # type: ignore[arg-type]
        for filters in ({"task": text}, {"model": text}, {"score": f"{text}={text}"}):
            assert index.logs(**filters).total == 0  # type: ignore[arg-type]
        assert index.find(id=[text, 2]).total == 3
        with pytest.raises(evalindex.SampleNotFound):
            index.read(uuid=text)
        assert index.find().total == 9


@pytest.mark.parametrize(
    ("filters", "kind"),
    [
        ({"since": "9999999d"}, ValueError),
        ({"since": "99999999999999d"}, ValueError),
        ({"since": "soon"}, ValueError),
        ({"status": "sucess"}, ValueError),
        ({"score": "<0.5"}, ValueError),
        ({"score": "s<x"}, ValueError),
        ({"score": {"match": "I"}}, TypeError),
        ({"newest": "log"}, ValueError),
        ({"uuid": 5}, TypeError),
        ({"task": 5}, TypeError),
        ({"id": b"1"}, TypeError),
        ({"id": 1.0}, TypeError),
        ({"eror": "x"}, TypeError),
    ],
)
def test_a_filter_that_means_nothing_is_refused(root: Path, filters: Any, kind: Any) -> None:
    with evalindex.open(root) as index:
        for ask in (index.find, index.logs):
            with pytest.raises(kind):
                ask(**filters)
        for one in (index.incomplete, index.reusable):
            with pytest.raises(ValueError, match="newest"):
                one(newest="uuid")


def test_an_answer_that_is_used_up_is_empty(root: Path) -> None:
    with evalindex.open(root) as index:
        answer = index.find()
        assert repr(answer) == "<evalindex.Rows of 9 rows>"
        assert len(list(answer)) == 9
        assert list(answer) == []
        assert answer.to_arrow().num_rows == 0
        closed = index.incomplete()
        closed.close()
        assert list(closed) == []
        closed.close()


@pytest.mark.parametrize(
    "damage",
    [
        *(f"UPDATE header SET tags = '{text}'" for text in ("{", "7", "[7]")),
        pytest.param(f"UPDATE header SET tags = '{'[' * 9999}'", id="deep"),
        *(f"UPDATE header SET sample_ids = '{text}'" for text in ("{", "7", '{"1": 2}', "[1.5]")),
        "UPDATE sample SET id = 'zz' WHERE id = '2'",
    ],
)
def test_damaged_rows_are_an_error_by_name(root: Path, damage: str) -> None:
    change_index(root / "evalindex.db", damage)

    def ask_all(index: evalindex.Index) -> None:
        list(index.find())
        list(index.logs())
        list(index.incomplete())

    with evalindex.open(root) as index, pytest.raises(evalindex.NotAnIndex, match="--full"):
        ask_all(index)
