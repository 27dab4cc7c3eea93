"""An index that cannot be used is refused by name, left as it is, and said what to do about."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import evalindex
from evalindex.database import engine
from tests.builders import all_rows, change_index, listing, query
from tests.database.conftest import expected, read

PAGE = 4096


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
def test_a_foreign_file_is_refused_by_name(tmp_path: Path, make: Callable[[Path], None]) -> None:
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
    with pytest.raises(evalindex.EvalIndexError, match="--index"):
        evalindex.build(root, tmp_path / "folder", full=full)
    with pytest.raises(evalindex.NotAnIndex):
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


def damage_or(use: Callable[[], bytes]) -> bytes | evalindex.NotAnIndex:
    try:
        return use()
    except evalindex.NotAnIndex as error:
        return error


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
    # SQLite refuses to change a table that a view looks at.
    change_index(root / "evalindex.db", "DROP VIEW logs", "DROP VIEW samples", statement)
    right = expected(root)

    def build_and_read() -> bytes:
        evalindex.build(root)
        return read(root)

    for use in (lambda: read(root), build_and_read):
        answer = damage_or(use)
        if isinstance(answer, evalindex.NotAnIndex):
            assert "build --full" in (answer.hint or "")
        else:
            assert answer == right
    evalindex.build(root, full=True)
    assert read(root) == expected(root)


def test_junk_behind_the_header_is_damage_and_a_full_build_makes_it_anew(root: Path) -> None:
    intact = all_rows(root / "evalindex.db")
    overwrite(root / "evalindex.db", 100, b"junk" * 900)
    for use in (lambda: read(root), lambda: evalindex.build(root)):
        with pytest.raises(evalindex.NotAnIndex, match=r"damaged.*build --full"):
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
        answer = damage_or(lambda: read(root))
        if isinstance(answer, evalindex.NotAnIndex):
            assert answer.log == str(path)
            assert "build --full" in (answer.hint or "")
            damaged += 1
        else:
            assert answer == expected(root)
        evalindex.build(root, full=True)
        assert all_rows(path) == intact
    assert damaged >= 3


def test_a_build_of_a_damaged_index_without_full_names_the_remedy(root: Path) -> None:
    path = root / "evalindex.db"
    for offset in range(PAGE, path.stat().st_size, PAGE):
        overwrite(path, offset, b"junk" * (PAGE // 4))
    with pytest.raises(evalindex.NotAnIndex, match=r"damaged.*build --full"):
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


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "live",
    [
        [f"CREATE TRIGGER t AFTER UPDATE ON log BEGIN INSERT INTO score {ENDLESS}; END"],
        ["DROP TABLE member", f"CREATE VIEW Member AS {ENDLESS}"],
        ["DROP TABLE header", "CREATE VIRTUAL TABLE header USING rtree(log_id, low, high)"],
    ],
)
def test_an_index_that_brings_code_along_is_refused_and_made_anew(
    root: Path, live: list[str]
) -> None:
    right = expected(root)
    change_index(root / "evalindex.db", *live)
    for use in (read, evalindex.build):
        with pytest.raises(evalindex.NotAnIndex, match=r"triggers.*build --full"):
            use(root)
    evalindex.build(root, full=True)
    assert read(root) == right


def test_views_that_somebody_added_for_themselves_are_left_alone(root: Path) -> None:
    change_index(root / "evalindex.db", "CREATE VIEW mine AS SELECT * FROM log")
    evalindex.build(root)
    assert read(root) == expected(root)
    assert query(root / "evalindex.db", "SELECT path FROM mine")


def test_the_schema_of_an_index_may_call_no_function_that_does_anything(root: Path) -> None:
    for connection in (
        engine.open_for_reading(str(root / "evalindex.db")),
        engine.open_for_writing(str(root / "evalindex.db"))[0],
    ):
        assert connection.execute("PRAGMA trusted_schema").fetchall() == [(0,)]
        connection.close()


@pytest.mark.parametrize("value", ["NULL", "'x'", "-1", "1.5", "x'00'"])
@pytest.mark.parametrize("column", ["flags", "method", "crc32", "compressed_size", "header_offset"])
def test_rows_of_other_types_than_there_can_be_are_damage(
    root: Path, column: str, value: str
) -> None:
    """SQLite checks types when it writes: a damaged page, or somebody's own index, has any."""
    change_index(
        root / "evalindex.db",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(replace(sql, 'NOT NULL', ''),"
        " 'WITHOUT ROWID,\n STRICT', 'WITHOUT ROWID') WHERE name = 'member'",
        "PRAGMA writable_schema = RESET",
        f"UPDATE member SET {column} = {value}",
    )
    right = expected(root)
    with evalindex.open(root) as index:
        log = next(iter(index.status().logs)).log
        with pytest.raises(evalindex.NotAnIndex, match="damaged"):
            index.member_names(log)
        if (column, value) == ("flags", "NULL"):  # a row that was lost: the log has it
            assert read(root) == right
        else:
            with pytest.raises(evalindex.NotAnIndex, match="damaged"):
                read(root)
