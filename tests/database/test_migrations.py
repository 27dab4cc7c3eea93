"""Migrations lead to the tables of schema.py, all at once or not at all."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

import evalindex
from evalindex.database.schema import metadata
from evalindex.database.writes import IndexWriter
from tests.builders import Entry, archive, in_fork, query, sample, together, write_log


@pytest.fixture
def index(tmp_path: Path) -> Path:
    IndexWriter(str(tmp_path / "evalindex.db")).close()
    return tmp_path / "evalindex.db"


def table_texts(rows: list[tuple[str, str]]) -> dict[str, str]:
    """CREATE TABLE statements by table, however they are laid out."""
    return {name: re.sub(r"[\s\"]+", "", text) for name, text in rows}


TABLES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql NOT NULL"


def test_migrations_lead_to_the_schema(index: Path) -> None:
    engine = create_engine(f"sqlite:///{index}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "migration"})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_tables_made_by_migrations_are_those_that_the_schema_makes(
    index: Path, tmp_path: Path
) -> None:
    """Alembic compares neither checks nor SQLite's table options."""
    engine = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    metadata.create_all(engine)
    engine.dispose()
    others = {"migration", "sqlite_sequence"}
    migrated = table_texts(query(index, TABLES))
    assert {name: text for name, text in migrated.items() if name not in others} == {
        name: text
        for name, text in table_texts(query(tmp_path / "other.db", TABLES)).items()
        if name not in others
    }


def test_tables_have_the_options_that_the_design_asks_for(index: Path) -> None:
    options = {
        row[1]: row[4:6]
        for row in query(index, "SELECT * FROM pragma_table_list WHERE schema = 'main'")
    }
    without_rowid_and_strict, strict = (1, 1), (0, 1)
    assert options["meta"] == options["member"] == without_rowid_and_strict
    assert options["metric"] == options["sample"] == without_rowid_and_strict
    assert options["score"] == without_rowid_and_strict
    assert options["root"] == options["log"] == strict
    assert options["header"] == options["summaries"] == strict
    texts = table_texts(query(index, TABLES))
    assert {name for name, text in texts.items() if "AUTOINCREMENT" in text} == {
        "root",
        "log",
        "summaries",
    }


def test_a_new_index_says_what_it_is(index: Path) -> None:
    first_page = index.read_bytes()[:100]
    assert first_page[68:72] == b"evix"  # application_id
    assert first_page[60:64] == b"\0\0\0\2"  # user_version
    facts = dict(query(index, "SELECT key, value FROM meta"))
    assert facts["min_reader"] == "1"
    assert facts["parser"] == "2"


def is_empty(index: Path) -> bool:
    pragmas = "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
    return not query(index, "SELECT * FROM sqlite_master") and query(index, pragmas) == [(0, 0)]


@pytest.mark.parametrize("operation", ["create_table", "execute"])
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_a_migration_that_fails_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, nth: int
) -> None:
    genuine, calls = getattr(op, operation), 0

    def fail(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise RuntimeError("power cut")
        return genuine(*args, **options)

    log = write_log(tmp_path / "a.eval", [sample(1)])
    with monkeypatch.context() as patch:
        patch.setattr(op, operation, fail)
        with pytest.raises(RuntimeError, match="power cut"):
            evalindex.build(tmp_path)
    assert is_empty(tmp_path / "evalindex.db")
    with pytest.raises(evalindex.IndexBusy, match="evalindex build"):
        evalindex.open(tmp_path)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert index.read(log, 1) == sample(1)


def test_a_migration_that_the_database_refuses_is_an_error_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = op.execute
    monkeypatch.setattr(
        op, "execute", lambda text: genuine(text.replace("FROM log", "FROM nothing.log"))
    )
    with pytest.raises(evalindex.EvalIndexError) as caught:
        IndexWriter(str(tmp_path / "evalindex.db"))
    assert caught.value.log == str(tmp_path / "evalindex.db")
    assert is_empty(tmp_path / "evalindex.db")


def test_a_migration_that_is_killed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "evalindex.db"
    monkeypatch.setattr(op, "execute", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(EOFError):
        in_fork(lambda: IndexWriter(str(index)).close())
    monkeypatch.undo()
    assert is_empty(index)
    IndexWriter(str(index)).close()
    assert query(index, "SELECT count(*) FROM meta") == [(2,)]


def test_two_builders_that_migrate_at_once_both_succeed(tmp_path: Path) -> None:
    for turn in range(10):
        index = tmp_path / f"{turn}.db"
        together(4, lambda _, index=index: IndexWriter(str(index)).close())  # type: ignore[misc]
        assert query(index, "SELECT * FROM migration") == [("0002",)]
        assert query(index, "SELECT count(*) FROM meta") == [(2,)]


ODD_IDS = [
    "1",
    "007",
    "",
    "a_epoch_2",
    "a_epoch_2.json",
    "a/b",
    "../up",
    "x/sample.json",
    "line\nbreak",
    "ünï 漢字 🎉",
    "e\u0301 and \u00e9",
    "50%_[x]*?'\"",
    "SAMPLES/x",
    "l" * 5000,
]
EPOCHS = [1, 2, 10, -3, 0]


def test_the_views_give_the_right_ids_whatever_they_hold(tmp_path: Path) -> None:
    wanted = set()
    entries = [Entry(b"header.json", b"{}"), Entry(b"samples/no-epoch.json", b"{}")]
    for id in ODD_IDS:
        for chunked, epoch in enumerate(EPOCHS):
            end = "/sample.json" if chunked % 2 else ".json"
            name = f"samples/{id}_epoch_{epoch}{end}".encode()
            entries.append(Entry(name, f"{id} {epoch}".encode()))
            wanted.add((id, epoch, chunked % 2, len(f"{id} {epoch}".encode())))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "odd.eval").write_bytes(archive(entries))
    evalindex.build(tmp_path)
    index = tmp_path / "evalindex.db"
    samples = query(index, "SELECT id, epoch, chunked, bytes FROM samples")
    assert len(samples) == len(wanted)
    assert set(samples) == wanted
    assert query(index, "SELECT DISTINCT root, path FROM samples") == [(".", "sub/odd.eval")]
    logs = "SELECT root, path, state, samples, size FROM logs"
    size = (tmp_path / "sub" / "odd.eval").stat().st_size
    assert query(index, logs) == [(".", "sub/odd.eval", "finished", len(wanted), size)]


def test_the_tables_refuse_values_of_another_type(index: Path) -> None:
    connection = sqlite3.connect(index)
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT"):
        connection.execute("INSERT INTO root (location, built_at) VALUES ('.', 'junk')")
    connection.close()
