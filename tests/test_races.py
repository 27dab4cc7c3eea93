"""Builders that are killed, builders and readers at the same time: no wrong answer, no lost row."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import evalindex
from evalindex.database.writes import IndexWriter
from tests.builders import all_rows, query, sample, together, write_log

LOGS = 60
MOMENTS = 20


@pytest.fixture(autouse=True)
def _versions_are_recorded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(LOGS):
        write_log(tmp_path / "logs" / f"{number:02}.eval", [sample(number), sample("same")])
    return tmp_path / "logs"


@pytest.fixture
def undisturbed(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a build that nobody disturbed; its index is gone."""
    evalindex.build(root)
    rows = all_rows(root / "evalindex.db")
    assert len(rows["log"]) == LOGS
    (root / "evalindex.db").unlink()
    return rows


def start_slow_build(root: Path) -> tuple[int, int]:
    """A forked builder that writes a byte for each log it stored: its pid, the pipe to read."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid:
        os.close(send)
        return pid, receive
    genuine = IndexWriter.put

    def slow(self: IndexWriter, *args: Any) -> bool:
        done = genuine(self, *args)
        os.write(send, b".")
        time.sleep(0.002)
        return done

    try:
        setattr(IndexWriter, "put", slow)  # noqa: B010  (mypy forbids to assign a method)
        evalindex.build(root)
    finally:
        os._exit(0)


def kill_at(root: Path, stored: int, delay: float) -> None:
    """Kill a builder with SIGKILL a moment after it stored so many logs."""
    pid, pipe = start_slow_build(root)
    for _ in range(stored):
        assert os.read(pipe, 1) == b"."
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(pipe)
    assert os.WIFSIGNALED(status)


def all_samples_are_right(root: Path) -> bool:
    """False if the index is busy; whatever else is wrong raises."""
    try:
        with evalindex.open(root) as index:
            keys = [(f"{number:02}.eval", id) for number in range(LOGS) for id in (number, "same")]
            answers = dict(index.iter_samples(keys))
    except evalindex.IndexBusy:
        return False
    assert answers == {key: sample(key[1]) for key in keys}
    return True


def remove_index(root: Path) -> None:
    for path in root.glob("evalindex.db*"):
        path.unlink()


def test_a_builder_killed_at_any_moment_leaves_nothing_wrong(
    root: Path, undisturbed: dict[str, list[tuple[Any, ...]]]
) -> None:
    chance = random.Random(11)
    partial = 0
    for moment in range(MOMENTS):
        remove_index(root)
        stored = (moment * LOGS) // (MOMENTS + 1)
        # The first is killed while it makes the index.
        delay = chance.uniform(0, 0.004) if stored else chance.uniform(0.005, 0.04)
        kill_at(root, stored, delay)
        readable = all_samples_are_right(root) if (root / "evalindex.db").exists() else False
        assert readable or stored == 0
        if readable:
            partial += 0 < query(root / "evalindex.db", "SELECT count(*) FROM log")[0][0] < LOGS
            # Each log that is there is there as a whole.
            torn = "SELECT count(*) FROM log JOIN member USING (log_id) GROUP BY log_id"
            assert set(query(root / "evalindex.db", torn)) == {(5,)}
        evalindex.build(root)
        assert all_rows(root / "evalindex.db") == undisturbed
        assert all_samples_are_right(root)
    assert partial >= 10


def test_a_builder_killed_again_and_again_gets_on(
    root: Path, undisturbed: dict[str, list[tuple[Any, ...]]]
) -> None:
    for stored in (1, 5, 5, 5):
        kill_at(root, stored, 0)
    # What a killed builder stored is not read again.
    report = evalindex.build(root)
    assert report.indexed <= LOGS - 16
    assert report.indexed + report.unchanged == LOGS
    assert all_rows(root / "evalindex.db") == undisturbed


@pytest.mark.parametrize("change", [lambda log: write_log(log, [sample("new")]), os.unlink])
def test_a_builder_killed_while_it_replaces_or_forgets_leaves_old_or_new(
    root: Path, change: Callable[[Path], object]
) -> None:
    evalindex.build(root)
    for number in range(0, LOGS, 2):
        change(root / f"{number:02}.eval")
    pid, pipe = start_slow_build(root)
    time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pipe)
    try:
        _check_old_or_new(root)
    except evalindex.IndexBusy:
        pass  # killed while it changed SQLite's journal mode
    evalindex.build(root)
    _check_old_or_new(root)
    rows = all_rows(root / "evalindex.db")
    remove_index(root)
    evalindex.build(root)
    assert all_rows(root / "evalindex.db") == rows


def _check_old_or_new(root: Path) -> None:
    with evalindex.open(root) as index:
        for number in range(LOGS):
            path = root / f"{number:02}.eval"
            if number % 2:
                assert index.read(path, number) == sample(number)
            elif path.exists():
                assert index.read(path, "new") == sample("new")
                assert index.read(path, number, errors="skip") is None
            elif number < 6:  # each takes the time of three tries
                with pytest.raises(evalindex.LogNotFound):
                    index.read(path, number)


def test_builders_of_one_root_at_once_all_end_well(
    root: Path, undisturbed: dict[str, list[tuple[Any, ...]]]
) -> None:
    for turn in range(20):
        together(2 + turn % 2, lambda _: evalindex.build(root))
        assert all_rows(root / "evalindex.db") == undisturbed
        if turn % 4:
            remove_index(root)
        else:
            together(2, lambda _: evalindex.build(root, full=True))
            assert all_rows(root / "evalindex.db") == undisturbed


def without_versions(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: [tuple(None if str(v).startswith("stat ") else v for v in row) for row in of_table]
        for table, of_table in rows.items()
    }


def test_commands_that_build_one_root_at_once_all_end_well(
    root: Path, undisturbed: dict[str, list[tuple[Any, ...]]]
) -> None:
    command = [sys.executable, "-m", "evalindex", "build", str(root)]
    for _ in range(3):
        remove_index(root)
        both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
        assert [(builder.communicate()[1], builder.returncode) for builder in both] == [
            (b"", 0),
            (b"", 0),
        ]
        # Whether a version is recorded depends on the age of the logs.
        assert without_versions(all_rows(root / "evalindex.db")) == without_versions(undisturbed)


@pytest.fixture
def builder(root: Path) -> Iterator[int]:
    """Another process that builds the whole root again and again."""
    evalindex.build(root)
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                evalindex.build(root, full=True)
        finally:
            os._exit(1)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.usefixtures("builder")
def test_readers_beside_a_builder_get_every_sample(root: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(all_samples_are_right, [root] * 60))


@pytest.mark.usefixtures("builder")
def test_one_index_beside_a_builder_gives_every_sample_and_no_other(root: Path) -> None:
    with evalindex.open(root) as index:

        def read(turn: int) -> None:
            number = turn % LOGS
            log = f"{number:02}.eval"
            assert index.read(log, number) == sample(number)
            with pytest.raises(evalindex.SampleNotFound):
                index.read(log, "absent")

        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(read, range(1500)))) == 1500


@pytest.mark.usefixtures("builder")
def test_readers_beside_a_builder_of_growing_logs_get_what_was_added(root: Path) -> None:
    with evalindex.open(root) as index:
        for turn in range(200):
            log = root / f"{turn % LOGS:02}.eval"
            write_log(log, [sample(f"new {turn}")], mode="a")
            assert index.read(log, f"new {turn}") == sample(f"new {turn}")


def test_a_builder_beside_readers_leaves_an_index_that_the_next_one_seals(root: Path) -> None:
    evalindex.build(root)
    with evalindex.open(root) as index:
        assert index.read("00.eval", 0) == sample(0)
        evalindex.build(root, full=True)
        assert index.read("00.eval", 0) == sample(0)
    evalindex.build(root)
    assert [path.name for path in root.glob("evalindex.db*")] == ["evalindex.db"]
