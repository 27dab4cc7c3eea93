"""An index that cannot be used is refused by name, left as it is, and said what to do about."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
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
    members_by_zipfile,
    public_folder,
    query,
    sample,
    sample_member,
    write_log,
)

PAGE = 4096


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An indexed root with one log."""
    write_log(tmp_path / "logs" / "a.eval", [sample(id) for id in range(100)])
    evalindex.build(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def public_root() -> Iterator[Path]:
    """The same, where any user can read it."""
    with public_folder() as folder:
        write_log(folder / "a.eval", [sample(id) for id in range(100)])
        evalindex.build(folder)
        yield folder


def read(root: Path) -> bytes:
    with evalindex.open(root / "evalindex.db") as index:
        return index.read("a.eval", 7, as_="bytes")


def expected(root: Path) -> bytes:
    return members_by_zipfile(root / "a.eval")[sample_member(7)]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def foreign_tables(path: Path) -> None:
    change_index(path, "CREATE TABLE log (path TEXT)", "INSERT INTO log VALUES ('mine')")


def foreign_id(path: Path) -> None:
    change_index(path, "PRAGMA application_id = 77")


def foreign_version(path: Path) -> None:
    change_index(path, "PRAGMA user_version = 1")


def text_file(path: Path) -> None:
    path.write_text("notes that somebody wrote\n" * 10)


def start_overwritten(path: Path) -> None:
    change_index(path, f"PRAGMA application_id = {0x65766978}")
    overwrite(path, 0, b"junk" * 20)


FOREIGN = [foreign_tables, foreign_id, foreign_version, text_file, start_overwritten]


@pytest.mark.parametrize("make", FOREIGN)
def test_a_foreign_file_is_refused_by_name(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "other.db"
    make(path)
    with pytest.raises(evalindex.NotAnIndex) as caught:
        evalindex.open(path)
    assert caught.value.log == str(path)
    assert "--index" in (caught.value.hint or "")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("make", FOREIGN)
def test_a_foreign_file_is_never_overwritten(
    root: Path, tmp_path: Path, make: Callable[[Path], None], full: bool
) -> None:
    (tmp_path / "foreign").mkdir()
    path = tmp_path / "foreign" / "other.db"
    make(path)
    before = listing(path.parent)
    with pytest.raises(evalindex.NotAnIndex):
        evalindex.build(root, path, full=full)
    assert listing(path.parent) == before


@pytest.mark.parametrize("full", [False, True])
def test_a_folder_in_the_place_of_an_index_is_refused_by_name(
    root: Path, tmp_path: Path, full: bool
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(evalindex.NotAnIndex, match="folder"):
        evalindex.build(root, tmp_path / "folder", full=full)
    with pytest.raises(evalindex.NotAnIndex, match="folder"):
        engine.open_for_reading(str(tmp_path / "folder"))


def test_a_missing_index_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(evalindex.IndexNotFound, match="evalindex build"):
        evalindex.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_an_empty_file_is_a_build_that_has_to_run_and_then_does(root: Path) -> None:
    index = root / "evalindex.db"
    index.write_bytes(b"")
    with pytest.raises(evalindex.IndexBusy, match="evalindex build"):
        evalindex.open(index)
    assert index.read_bytes() == b""
    evalindex.build(root)
    assert read(root) == expected(root)


def test_a_newer_schema_is_read_if_it_says_so(root: Path) -> None:
    change_index(root / "evalindex.db", "PRAGMA user_version = 99")
    assert query(root / "evalindex.db", "SELECT value FROM meta WHERE key = 'min_reader'") == [
        ("1",)
    ]
    assert read(root) == expected(root)


def test_a_newer_schema_is_refused_if_it_says_so(root: Path) -> None:
    newer = "UPDATE meta SET value = 99 WHERE key = 'min_reader'"
    change_index(root / "evalindex.db", "PRAGMA user_version = 99", newer)
    with pytest.raises(evalindex.IndexTooNew, match="upgrade evalindex"):
        evalindex.open(root)


@pytest.mark.parametrize("full", [False, True])
def test_a_builder_leaves_a_newer_index_as_it_is(root: Path, full: bool) -> None:
    change_index(root / "evalindex.db", "PRAGMA user_version = 99")
    before = listing(root)
    with pytest.raises(evalindex.IndexTooNew):
        evalindex.build(root, full=full)
    assert listing(root) == before


def test_rows_of_a_parser_that_was_wrong_are_refused_until_the_next_build(root: Path) -> None:
    change_index(root / "evalindex.db", "UPDATE meta SET value = '0' WHERE key = 'parser'")
    with pytest.raises(evalindex.IndexOutdated, match="evalindex build"):
        evalindex.open(root)
    evalindex.build(root)
    assert read(root) == expected(root)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM meta",
        "UPDATE meta SET value = 'junk'",
        "DROP TABLE meta",
        "DROP TABLE member",
        "DROP TABLE root",
        "ALTER TABLE log DROP COLUMN superseded",
        "ALTER TABLE log RENAME COLUMN path TO way",
    ],
)
def test_an_index_with_something_missing_is_damaged_by_name(root: Path, statement: str) -> None:
    drop_views = ["DROP VIEW logs", "DROP VIEW samples", "PRAGMA foreign_keys = OFF"]
    change_index(root / "evalindex.db", "PRAGMA user_version = 1", *drop_views, statement)
    try:
        assert read(root) == expected(root)
    except evalindex.NotAnIndex as error:
        assert "build --full" in (error.hint or "")
    try:
        evalindex.build(root)
    except evalindex.NotAnIndex as error:
        assert "build --full" in (error.hint or "")
    evalindex.build(root, full=True)
    assert read(root) == expected(root)


def test_junk_behind_the_header_is_damage_and_a_full_build_makes_it_anew(root: Path) -> None:
    intact = all_rows(root / "evalindex.db")
    overwrite(root / "evalindex.db", 100, b"junk" * 900)
    for use in (lambda: read(root), lambda: evalindex.build(root)):
        with pytest.raises(evalindex.NotAnIndex, match="damaged.*build --full"):
            use()
    evalindex.build(root, full=True)
    assert all_rows(root / "evalindex.db") == intact


def test_a_damaged_page_is_named_and_a_full_build_makes_it_anew(root: Path) -> None:
    path = root / "evalindex.db"
    intact, healthy = all_rows(path), path.read_bytes()
    damaged = 0
    for offset in range(PAGE, len(healthy), PAGE):
        path.write_bytes(healthy)
        overwrite(path, offset, b"junk" * (PAGE // 4))
        try:
            assert read(root) == expected(root)
        except evalindex.NotAnIndex as error:
            assert error.log == str(path)
            assert "build --full" in (error.hint or "")
            damaged += 1
        evalindex.build(root, full=True)
        assert all_rows(path) == intact
    assert damaged >= 3


def test_a_build_of_a_damaged_index_without_full_names_the_remedy(root: Path) -> None:
    path = root / "evalindex.db"
    for offset in range(PAGE, path.stat().st_size, PAGE):
        overwrite(path, offset, b"junk" * (PAGE // 4))
    with pytest.raises(evalindex.NotAnIndex, match="damaged.*build --full"):
        evalindex.build(root)


def test_whatever_bytes_are_wrong_no_other_sample_and_no_unnamed_error_comes(root: Path) -> None:
    path = root / "evalindex.db"
    healthy, right = path.read_bytes(), expected(root)
    chance = random.Random(7)
    # Each byte of SQLite's own header, and runs of bytes anywhere.
    hurts = [(offset, bytes([chance.randrange(256)])) for offset in range(100)]
    hurts += [(chance.randrange(len(healthy) - 40), chance.randbytes(40)) for _ in range(400)]
    named = 0
    for offset, junk in hurts:
        path.write_bytes(healthy)
        overwrite(path, offset, junk)
        try:
            assert read(root) == right
        except evalindex.EvalIndexError:
            named += 1
    assert named > 20


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


def test_reading_beside_a_writer_gives_what_was_committed(
    root: Path, hold: Callable[..., None]
) -> None:
    hold("PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE", "DELETE FROM member")
    assert read(root) == expected(root)


def test_a_reader_of_a_sealed_index_leaves_everything_as_it_is(root: Path) -> None:
    before = listing(root)
    with evalindex.open(root) as index:
        assert index.read("a.eval", 7, as_="bytes") == expected(root)
        assert [row.id for row in index.samples("a.eval")] == [str(id) for id in range(100)]
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
