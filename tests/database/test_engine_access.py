"""Locks, permissions and full disks: who may use an index, and what is left behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import evalindex
from evalindex.database import engine
from tests.builders import (
    all_rows,
    as_nobody,
    change_index,
    give_away,
    in_fork,
    listing,
    query,
    sample,
    write_log,
)
from tests.database.conftest import expected, read

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold(root: Path) -> Iterator[Callable[..., None]]:
    """Makes another process run statements on the index and keep what they lock."""
    holders: list[subprocess.Popen[bytes]] = []

    def start(*statements: str) -> None:
        command = [sys.executable, "-c", HOLD, str(root / "evalindex.db"), *statements]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

    yield start
    for holder in holders:
        holder.communicate()


LOCKS = [
    ("BEGIN EXCLUSIVE",),
    ("PRAGMA journal_mode = WAL", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE"),
]


@pytest.mark.parametrize("statements", LOCKS)
def test_an_index_that_another_process_locks_is_busy_for_readers(
    root: Path, hold: Callable[..., None], statements: tuple[str, ...]
) -> None:
    hold(*statements)
    with pytest.raises(evalindex.IndexBusy) as caught:  # within the time-out of readers
        read(root)
    assert caught.value.log == str(root / "evalindex.db")


@pytest.mark.parametrize("statements", LOCKS)
def test_an_index_that_another_process_locks_is_busy_for_builders(
    root: Path,
    hold: Callable[..., None],
    statements: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_WRITE_TIMEOUT", 0.1)
    hold(*statements)
    with pytest.raises(evalindex.IndexBusy):
        evalindex.build(root)


@pytest.mark.parametrize("again", [evalindex.open, evalindex.build])
def test_using_an_index_twice_in_one_process_keeps_what_the_first_use_locks(
    root: Path, again: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """POSIX drops all locks of a process on a file when it closes any descriptor of it, so the
    file must not be looked at behind SQLite's back: another builder would change it under us."""
    path = str(root / "evalindex.db")
    monkeypatch.setattr(engine, "_WRITE_TIMEOUT", 0.1)
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN EXCLUSIVE')"
    command = [sys.executable, "-c", code, path]
    first = engine.open_for_reading(path)
    first.execute("BEGIN")
    first.execute("SELECT * FROM log").fetchall()
    assert b"locked" in subprocess.run(command, capture_output=True).stderr
    with suppress(evalindex.IndexBusy):
        again(root)
    assert b"locked" in subprocess.run(command, capture_output=True).stderr
    first.close()


def test_reading_beside_a_writer_gives_what_was_committed(
    root: Path, hold: Callable[..., None]
) -> None:
    hold("PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE", "DELETE FROM member")
    assert read(root) == expected(root)


def test_a_reader_of_a_sealed_index_leaves_everything_as_it_is(root: Path) -> None:
    before = listing(root)
    with evalindex.open(root) as index:
        assert index.read("a.eval", 7, as_="bytes") == expected(root)
        assert [row.id for row in index.samples("a.eval")] == list(range(100))
        assert listing(root) == before
    assert listing(root) == before


def test_a_finished_index_is_one_file_in_rollback_mode(root: Path) -> None:
    assert {path.name for path in root.iterdir()} == {"a.eval", "evalindex.db"}
    assert (root / "evalindex.db").read_bytes()[18:20] == b"\1\1"


def test_a_sealed_index_in_a_read_only_folder_is_read_by_another_user(public_root: Path) -> None:
    before = listing(public_root)
    found = as_nobody(lambda: read(public_root), refused=public_root)
    assert found == expected(public_root)
    assert listing(public_root) == before


def test_a_wal_index_in_a_read_only_folder_is_busy_by_name(public_root: Path) -> None:
    change_index(public_root / "evalindex.db", "PRAGMA journal_mode = WAL")
    assert {path.name for path in public_root.iterdir()} == {"a.eval", "evalindex.db"}
    with pytest.raises(evalindex.IndexBusy, match="evalindex build"):
        as_nobody(lambda: read(public_root), refused=public_root)


def test_the_wal_of_a_killed_builder_hides_nothing(public_root: Path) -> None:
    """Its last rows are only in the WAL, so an answer from the file alone would be an old one."""

    def leave_wal() -> None:
        connection = sqlite3.connect(public_root / "evalindex.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'parser'")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(EOFError):
        in_fork(leave_wal)
    assert (public_root / "evalindex.db-wal").stat().st_size > 0
    # The killed builder said that the rows are outdated.
    for file in public_root.iterdir():
        file.chmod(0o644)
    with pytest.raises((evalindex.IndexBusy, evalindex.IndexOutdated)):
        as_nobody(lambda: read(public_root), refused=public_root)
    (public_root / "evalindex.db-shm").unlink()
    with pytest.raises(evalindex.IndexBusy, match="evalindex build"):
        as_nobody(lambda: read(public_root), refused=public_root)
    evalindex.build(public_root)
    assert as_nobody(lambda: read(public_root), refused=public_root) == expected(public_root)


def test_an_index_that_may_not_be_read_is_denied_by_name(public_root: Path) -> None:
    index = public_root / "evalindex.db"
    index.chmod(0)
    with pytest.raises(evalindex.StoreDenied) as caught:
        as_nobody(lambda: read(public_root), refused=index)
    assert caught.value.log == str(index)


def test_an_index_that_may_not_be_written_is_refused_by_name(public_root: Path) -> None:
    index = public_root / "evalindex.db"
    with pytest.raises(evalindex.IndexNotWritable, match="--index") as caught:
        as_nobody(lambda: evalindex.build(public_root, index), refused=public_root)
    assert caught.value.filename == str(index)


@pytest.mark.parametrize("name", ["new.db", "sub/new.db"])
def test_an_index_that_may_not_be_made_is_refused_by_name(public_root: Path, name: str) -> None:
    with pytest.raises(evalindex.IndexNotWritable):
        as_nobody(lambda: evalindex.build(public_root, public_root / name), refused=public_root)


def test_a_builder_may_write_the_index_of_another_user(public_root: Path) -> None:
    give_away(public_root, public_root / "evalindex.db")
    (public_root / "closed").mkdir(mode=0o755)
    write_log(public_root / "b.eval", [sample(1)])
    report = as_nobody(lambda: evalindex.build(public_root), refused=public_root / "closed")
    assert report.indexed == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        reason = f"a small disk cannot be mounted here: {mounted.stderr.strip()}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    filler = disk / "filler"
    filler.write_bytes(b"x" * (free - leave))
    return filler


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("leave", [0, 8192, 40960, 81920])
def test_a_full_disk_is_named_and_nothing_is_lost(
    root: Path, small_disk: Path, leave: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    index = small_disk / "evalindex.db"
    evalindex.build(root, index)
    before, right = all_rows(index), expected(root)
    write_log(root / "big.eval", [sample(f"{id:090}") for id in range(1500)])
    filler = fill(small_disk, leave=leave)
    with pytest.raises(evalindex.IndexNotWritable, match="full"):
        evalindex.build(root, index, full=full)
    try:
        with evalindex.open(index) as opened:
            assert opened.read(root / "a.eval", 7, as_="bytes") == right
    except evalindex.IndexBusy:
        pass  # no room for SQLite's shared memory
    filler.unlink()
    assert all_rows(index)["member"] == before["member"]
    (root / "big.eval").unlink()
    evalindex.build(root, index)
    assert all_rows(index) == before


@pytest.mark.parametrize("leave", [0, 4096, 8192, 20480])
def test_a_disk_too_full_for_a_first_build_is_named(
    root: Path, small_disk: Path, leave: int
) -> None:
    filler = fill(small_disk, leave=leave)
    with pytest.raises(evalindex.IndexNotWritable, match="full"):
        evalindex.build(root, small_disk / "evalindex.db")
    filler.unlink()
    evalindex.build(root, small_disk / "evalindex.db")
    assert query(small_disk / "evalindex.db", "SELECT path FROM log") == [("a.eval",)]
