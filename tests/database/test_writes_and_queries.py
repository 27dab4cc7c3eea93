"""Rows go in and come out exactly, all of one version together."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import evalindex
from evalindex import contents
from evalindex.database import writes
from evalindex.database.queries import IndexReader
from evalindex.database.writes import IndexWriter, LogFacts
from evalindex.model import Version
from evalindex.names import chunked_name
from tests.builders import (
    all_rows,
    change_index,
    in_fork,
    log_ids,
    query,
    sample,
    write_log,
)


def facts(version: str | None = "v1", *, digest: bytes | None = b"d" * 16) -> LogFacts:
    known = None if version is None else Version(version)
    state = "unreadable" if digest is None else "finished"
    given = {"state": state, "reason": None, "version": known, "size": 100, "digest": digest}
    return LogFacts(**{**dict.fromkeys(LogFacts._fields, 0), **given})  # type: ignore[arg-type]


def row(name: str, crc32: int = 0) -> tuple[object, ...]:
    return (name, 1, 0, 0, crc32, 10, 20, 30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evalindex.db"


@pytest.fixture
def writer(path: Path) -> Iterator[IndexWriter]:
    writer = IndexWriter(str(path))
    yield writer
    writer.close()


@pytest.fixture
def root_id(writer: IndexWriter) -> int:
    return writer.add_root(".")


@pytest.fixture
def reader(writer: IndexWriter) -> Iterator[IndexReader]:
    reader = IndexReader(writer.path)
    yield reader
    reader.close()


def found(reader: IndexReader, root_id: int, path: str, *names: str) -> dict[str, int]:
    """The CRC of each member that was found."""
    (answer,) = reader.find([(root_id, path, names)], chunked_name)
    assert answer is not None
    return {name: member.crc32 for name, member in answer[1].items()}


NAMES = [
    "samples/%_epoch_1.json",
    "samples/__epoch_1.json",
    "samples/a_epoch_1.json",
    "samples/A_epoch_1.json",
    "samples/ a_epoch_1.json",
    "samples/'; DROP TABLE log; --_epoch_1.json",
    'samples/"q"_epoch_1.json',
    "samples/back\\slash_epoch_1.json",
    "samples/\\u0061_epoch_1.json",
    "samples/\t\n\r\x01\x7f_epoch_1.json",
    "samples/" + unicodedata.normalize("NFC", "é") + "_epoch_1.json",
    "samples/" + unicodedata.normalize("NFD", "é") + "_epoch_1.json",
    "samples/🎉 漢字 \u202e\ufeff_epoch_1.json",
    "samples/true_epoch_1.json",
    "samples/" + "l" * 65_000 + "_epoch_1.json",
    "samples/" + "l" * 65_001 + "_epoch_1.json",
]


def test_a_lookup_takes_every_name_exactly(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    for turn, name in enumerate(NAMES):
        others = [row(other, 1) for other in sorted(NAMES) if other != name]
        writer.put(root_id, "all but one", facts(f"v{turn}"), others)
        writer.put(root_id, "one", facts(f"v{turn}"), [row(name, turn)])
        assert found(reader, root_id, "all but one", name) == {}
        assert found(reader, root_id, "one", *NAMES) == {name: turn}


def test_a_lookup_of_many_names_reports_each_once(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    writer.put(root_id, "a.eval", facts(), [row("b"), row("c")])
    questions = [
        (root_id, "b.eval", ["c"]),
        (root_id, "a.eval", ["c", "x", "b", "c"]),
        (root_id + 1, "a.eval", ["c"]),
    ]
    unknown, answer, elsewhere = reader.find(questions, chunked_name)
    assert unknown is elsewhere is None
    assert answer is not None
    assert sorted(answer[1]) == ["b", "c"]
    assert answer[0].version == "v1"


def test_a_name_that_is_missing_is_looked_up_in_its_other_shape(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    whole, chunked = "samples/1_epoch_1.json", "samples/1_epoch_1/sample.json"
    writer.put(root_id, "a.eval", facts(), [row(chunked, 5)])
    assert found(reader, root_id, "a.eval", whole) == {chunked: 5}


def test_a_log_of_one_root_is_not_taken_for_that_of_another(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    other = writer.add_root("/elsewhere")
    writer.put(root_id, "a.eval", facts("here"), [row("n", 1)])
    writer.put(other, "a.eval", facts("there"), [row("n", 2)])
    assert found(reader, root_id, "a.eval", "n") == {"n": 1}
    assert found(reader, other, "a.eval", "n") == {"n": 2}
    writer.forget(other, ["a.eval"])
    assert found(reader, root_id, "a.eval", "n") == {"n": 1}


def test_neighbours_are_those_beside_a_name(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    writer.put(root_id, "a.eval", facts(), [row(name) for name in "bdfhj"])
    log_id = query(Path(writer.path), "SELECT log_id FROM log")[0][0]
    assert sorted(reader.neighbours(log_id, "e", 1)) == ["d", "f"]
    assert sorted(reader.neighbours(log_id, "f", 2)) == ["b", "d", "f", "h"]
    assert reader.neighbours(log_id, "z", 1) == ["j"]


def test_log_ids_are_never_used_again(path: Path) -> None:
    seen: list[int] = []
    for turn in range(4):
        writer = IndexWriter(str(path))
        root_id = writer.add_root(".")
        for name in ("a.eval", "b.eval"):
            writer.put(root_id, name, facts(f"v{turn}"), [row("n")])
        seen += log_ids(path).values()
        if turn % 2:
            writer.forget(root_id, ["a.eval", "b.eval"])
            assert query(path, "SELECT * FROM member") == []
        writer.close()
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


def test_rows_and_version_are_replaced_together(
    writer: IndexWriter, reader: IndexReader, path: Path, root_id: int
) -> None:
    writer.put(root_id, "a.eval", facts("old"), [row("m", 1), row("n", 1)])
    before = all_rows(path), log_ids(path)

    def rows_seen_from_outside() -> Iterator[tuple[object, ...]]:
        yield row("m", 2)
        assert (all_rows(path), log_ids(path)) == before
        assert found(reader, root_id, "a.eval", "m", "n") == {"m": 1, "n": 1}
        yield row("n", 2)

    writer.put(root_id, "a.eval", facts("new"), rows_seen_from_outside())
    assert found(reader, root_id, "a.eval", "m", "n") == {"m": 2, "n": 2}
    assert query(path, "SELECT version FROM log") == [("new",)]
    assert query(path, "SELECT count(*) FROM member") == [(2,)]


def test_a_replacement_that_fails_leaves_the_old_rows(
    writer: IndexWriter, path: Path, root_id: int
) -> None:
    writer.put(root_id, "a.eval", facts("old"), [row("m", 1)])
    before = all_rows(path), log_ids(path)

    def broken() -> Iterator[tuple[object, ...]]:
        yield row("m", 2)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        writer.put(root_id, "a.eval", facts("new"), broken())
    assert (all_rows(path), log_ids(path)) == before
    writer.put(root_id, "a.eval", facts("new"), [row("m", 3)])
    assert query(path, "SELECT crc32 FROM member") == [(3,)]


def test_an_unreadable_log_has_no_digest_and_no_other_has_none(
    writer: IndexWriter, path: Path, root_id: int
) -> None:
    writer.put(root_id, "a.eval", facts(None, digest=None), [])
    with pytest.raises(evalindex.EvalIndexError):
        writer.put(root_id, "b.eval", facts()._replace(state="unreadable"), [])
    with pytest.raises(evalindex.EvalIndexError):
        writer.put(root_id, "b.eval", facts()._replace(state="odd"), [])
    assert query(path, "SELECT path, state FROM log") == [("a.eval", "unreadable")]


def test_a_containing_root_takes_the_logs_of_an_inner_one_over(
    writer: IndexWriter, reader: IndexReader, path: Path
) -> None:
    inner = writer.add_root("in/ner")
    writer.put(inner, "sub/a.eval", facts(), [row("n", 4)])
    before = log_ids(path)["sub/a.eval"]
    outer = writer.add_root("outer", [(inner, "in/ner/")])
    assert found(reader, outer, "in/ner/sub/a.eval", "n") == {"n": 4}
    assert log_ids(path) == {"in/ner/sub/a.eval": before}
    assert query(path, "SELECT location FROM root ORDER BY 1") == [("outer",)]
    assert writer.add_root("outer") == outer


def test_a_reader_sees_what_is_written_after_it_was_opened(
    writer: IndexWriter, reader: IndexReader, root_id: int
) -> None:
    assert reader.log(root_id, "a.eval") is None
    writer.put(root_id, "a.eval", facts(), [row("n", 1)])
    assert found(reader, root_id, "a.eval", "n") == {"n": 1}


def one_log(path: Path, crc32: int) -> Path:
    writer = IndexWriter(str(path))
    writer.put(writer.add_root("."), "a.eval", facts(), [row("n", crc32)])
    writer.close()
    return path


@pytest.mark.parametrize("remove_first", [False, True])
def test_a_reader_sees_a_new_index_in_the_place_of_the_old(path: Path, remove_first: bool) -> None:
    reader = IndexReader(str(one_log(path, 1)))
    assert found(reader, 1, "a.eval", "n") == {"n": 1}
    new = one_log(path.with_name("new.db"), 2)
    if remove_first:
        path.unlink()
        assert found(reader, 1, "a.eval", "n") == {"n": 1}
    os.replace(new, path)
    assert found(reader, 1, "a.eval", "n") == {"n": 2}
    reader.close()


def test_a_reader_that_met_a_new_index_half_made_sees_it_when_it_is_done(path: Path) -> None:
    reader = IndexReader(str(one_log(path, 1)))
    path.unlink()
    path.write_bytes(b"")  # as a builder begins
    with pytest.raises(evalindex.IndexBusy):
        reader.roots()
    one_log(path, 2)
    assert found(reader, 1, "a.eval", "n") == {"n": 2}
    reader.close()


def test_a_reader_works_after_a_fork_in_parent_and_child(path: Path) -> None:
    reader = IndexReader(str(one_log(path, 1)))
    for _ in range(3):
        assert in_fork(lambda: found(reader, 1, "a.eval", "n")) == {"n": 1}
        assert found(reader, 1, "a.eval", "n") == {"n": 1}
    # A grandchild, after its parent has used its own connection.
    grandchild = in_fork(
        lambda: (found(reader, 1, "a.eval", "n"), in_fork(lambda: reader.roots()[0].location))
    )
    assert grandchild == ({"n": 1}, ".")
    reader.close()


def test_a_fork_while_another_thread_reads_does_not_hang_the_child(path: Path) -> None:
    reader = IndexReader(str(one_log(path, 1)))
    with reader._lock:  # as the other thread would hold it
        assert in_fork(lambda: found(reader, 1, "a.eval", "n")) == {"n": 1}
    reader.close()


def test_a_reader_is_shared_by_threads(path: Path) -> None:
    writer = IndexWriter(str(path))
    root_id = writer.add_root(".")
    for log in range(8):
        writer.put(
            root_id, f"{log}.eval", facts(), [row(f"{n:03}", 8 * n + log) for n in range(99)]
        )
    writer.close()
    reader = IndexReader(str(path))

    def read(turn: int) -> bool:
        log, n = turn % 8, turn % 99
        return found(reader, root_id, f"{log}.eval", f"{n:03}") == {f"{n:03}": 8 * n + log}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(4000)))
    reader.close()


def test_a_closed_reader_says_so(path: Path) -> None:
    reader = IndexReader(str(one_log(path, 1)))
    reader.close()
    reader.close()
    for use in (reader.roots, lambda: reader.log(1, "a.eval"), lambda: reader.logs(1)):
        with pytest.raises(evalindex.IndexClosed, match="closed"):
            use()
    with pytest.raises(evalindex.IndexClosed):
        in_fork(reader.roots)


def test_rows_of_an_older_parser_are_read_again_by_the_next_build(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    write_log(tmp_path / "a.eval", [sample(1)])
    evalindex.build(tmp_path)
    intact, first_ids = all_rows(path), log_ids(path)
    assert evalindex.build(tmp_path).unchanged == 1
    # What an older, wrong parser may have left under a version that still holds.
    change_index(path, "UPDATE member SET header_offset = 3, crc32 = 4")
    change_index(path, "UPDATE sample SET input = 'wrong'")
    monkeypatch.setattr(writes, "PARSER", 3)
    monkeypatch.setattr(contents, "PARSER", 3)
    report = evalindex.build(tmp_path)
    assert (report.indexed, report.unchanged) == (1, 0)
    assert all_rows(path) == intact
    assert log_ids(path)["a.eval"] > first_ids["a.eval"]
    assert query(path, "SELECT value FROM meta WHERE key = 'parser'") == [("3",)]
    assert evalindex.build(tmp_path).unchanged == 1


def test_rows_of_an_older_parser_are_distrusted_before_they_are_read_again(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A builder that is killed behind its first transaction must not leave them trusted."""
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    write_log(tmp_path / "a.eval", [sample(1), sample(2)])
    evalindex.build(tmp_path)
    change_index(path, "DELETE FROM member WHERE name LIKE '%2_epoch%'")
    monkeypatch.setattr(writes, "PARSER", 3)
    IndexWriter(str(path)).close()
    with evalindex.open(tmp_path) as index:
        assert index.read("a.eval", 2) == sample(2)


def test_a_builder_whose_root_was_taken_over_leaves_no_rows_without_a_root(path: Path) -> None:
    first, second = IndexWriter(str(path)), IndexWriter(str(path))
    inner = first.add_root("sub")
    second.add_root(".", [(inner, "sub/")])
    facts = LogFacts("finished", None, None, 1, 0, b"digest", 0, 0, 0, 1)
    with pytest.raises(evalindex.IndexBusy, match="again"):
        first.put(inner, "a.eval", facts, [])
    first.close()
    second.close()
    assert (
        query(path, "SELECT root_id FROM log WHERE root_id NOT IN (SELECT root_id FROM root)") == []
    )
