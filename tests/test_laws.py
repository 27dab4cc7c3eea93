"""The laws of the design, law by law: each test fails when the check that it names is removed."""

from __future__ import annotations

import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import evalindex
from evalindex import decode, directory, heal
from evalindex.collector import paused
from evalindex.stores import local
from tests.builders import (
    STORED,
    Entry,
    archive,
    change_index,
    encoded,
    in_fork,
    members_by_zipfile,
    sample,
    sample_member,
    settle,
    write_log,
)


@pytest.fixture
def _versions_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are too fresh for their version to prove anything; pretend they are not."""
    monkeypatch.setattr(local, "SETTLED_NS", -(10**9))


recorded = pytest.mark.usefixtures("_versions_are_recorded")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def stored(*documents: dict[str, Any]) -> bytes:
    """A hand-built log with stored members: equal documents sizes give equal offsets."""
    entries = [Entry(b"_journal/start.json", b"{}")]
    entries += [Entry(sample_member(d["id"], d["epoch"]).encode(), encoded(d)) for d in documents]
    return archive([*entries, Entry(b"header.json", b"{}")])


def counted(
    monkeypatch: pytest.MonkeyPatch, room: ModuleType, name: str, note: Callable[[], Any] = int
) -> list[Any]:
    """A list that grows by what `note` says at each call of a function."""
    calls: list[Any] = []
    real = getattr(room, name)

    def counting(*values: Any) -> Any:
        calls.append(note())
        return real(*values)

    monkeypatch.setattr(room, name, counting)
    return calls


def overwrite(path: Path, data: bytes) -> None:
    """Write in place: the inode stays."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


def replace(path: Path, data: bytes) -> None:
    """Write as inspect flushes: a new file, renamed over the old one."""
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(data)
    fresh.rename(path)


def built(root: Path) -> evalindex.Index:
    evalindex.build(root)
    return evalindex.open(root)


# Law 1: pinned reads


@recorded
def test_all_bytes_of_a_window_come_from_the_descriptor_that_was_checked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename between two reads must not mix two versions, nor fail the batch."""
    root.mkdir()
    log = root / "run.eval"
    filler = "x" * 5_000_000  # keeps the two samples in spans of their own
    log.write_bytes(stored(sample(1, v="old"), sample(2, f=filler), sample(3, v="old")))
    with built(root) as index:
        opened = local.LocalFile.read

        def read_then_replace(self: local.LocalFile, start: int, stop: int) -> bytes:
            data = opened(self, start, stop)
            monkeypatch.setattr(local.LocalFile, "read", opened)
            replace(log, stored(sample(3, v="new"), sample(2, f=filler), sample(1, v="new")))
            return data

        monkeypatch.setattr(local.LocalFile, "read", read_then_replace)
        samples = index.read_samples(log, [1, 3])
        assert [(s["id"], s["v"]) for s in samples] == [(1, "old"), (3, "old")]
        assert [s["v"] for s in index.read_samples(log, [1, 3])] == ["new", "new"]


@recorded
def test_the_version_is_compared_when_a_log_is_opened(root: Path) -> None:
    """Two equally long samples change places, size and mtime stay: only the ctime tells."""
    root.mkdir()
    log = root / "run.eval"
    first, second = sample(1, v="a"), sample(2, v="b")
    log.write_bytes(stored(first, second))
    settle(log)
    with built(root) as index:
        overwrite(log, stored(second, first))
        settle(log)
        assert index.read(log, 1) == first
        assert index.read(log, 2) == second


@recorded
def test_a_build_records_no_version_for_a_log_that_changed_while_it_was_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    read = local.LocalFile.read

    def read_then_touch(self: local.LocalFile, start: int, stop: int) -> bytes:
        data = read(self, start, stop)
        os.utime(log, ns=(1, 1))
        return data

    with monkeypatch.context() as patch:
        patch.setattr(local.LocalFile, "read", read_then_touch)
        evalindex.build(root)
    assert _stored_versions(root) == [None]


def _stored_versions(root: Path) -> list[str | None]:
    import sqlite3

    with sqlite3.connect(root / "evalindex.db") as connection:
        return [row[0] for row in connection.execute("SELECT version FROM log")]


# Law 2: checked bytes. The version is made to match, so that only the bytes can tell.


@pytest.fixture
def _versions_always_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SETTLED_NS", -(10**9))
    monkeypatch.setattr(local, "stat_version", lambda _: "stat as ever")


blind = pytest.mark.usefixtures("_versions_always_match")


@blind
@pytest.mark.parametrize("as_", ["bytes", "dict"])
def test_the_local_name_is_compared_with_the_name_that_was_asked_for(root: Path, as_: Any) -> None:
    """Two members of equal bytes, so that length and CRC agree whichever is read."""
    root.mkdir()
    log = root / "run.eval"
    same = encoded({"id": 1, "epoch": 1})
    entries = [Entry(b"samples/1_epoch_1.json", same), Entry(b"samples/2_epoch_1.json", same)]
    log.write_bytes(archive(entries))
    with built(root) as index:
        log.write_bytes(archive([entries[0]._replace(name=b"samples/3_epoch_1.json"), entries[1]]))
        with pytest.raises(evalindex.SampleNotFound):
            index.read(log, 1, as_=as_)


@blind
def test_the_crc_is_compared(root: Path) -> None:
    root.mkdir()
    log = root / "run.eval"
    log.write_bytes(stored(sample(1, v="old")))
    with built(root) as index:
        log.write_bytes(stored(sample(1, v="new")))
        assert json.loads(index.read(log, 1, as_="bytes"))["v"] == "new"


@blind
def test_the_length_is_compared(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1, v="old")])
    with built(root) as index:
        write_log(log, [sample(1, v="longer than it was")])
        assert index.read(log, 1)["v"] == "longer than it was"


@recorded
@pytest.mark.parametrize(
    "body",
    [{"id": 2, "epoch": 1}, {"id": 1, "epoch": 2}, {"epoch": 1}, [1, 1], {"id": "x", "epoch": 1}],
)
def test_the_body_is_compared_with_the_key(root: Path, body: Any) -> None:
    root.mkdir()
    log = root / "run.eval"
    log.write_bytes(archive([Entry(b"samples/1_epoch_1.json", encoded(body))]))
    with built(root) as index, pytest.raises(evalindex.CorruptMember) as caught:
        index.read(log, 1)
    assert caught.value.log == str(log)


# Law 3: three proofs


@recorded
def test_an_equal_version_is_proof_enough(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    with built(root) as index:
        reads = _count_reads(monkeypatch)
        assert index.read(log, 1) == sample(1)
    member = os.path.getsize(log)
    assert len(reads) == 1
    assert reads[0][1] - reads[0][0] < member, "the member and nothing of the directory"


@recorded
@pytest.mark.parametrize("how", ["touch", "copy"])
def test_an_equal_digest_proves_a_log_whose_times_changed(
    root: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read of the tail, no parse, and nothing is said; the next window needs no tail."""
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    evalindex.build(root)
    if how == "touch":
        os.utime(log)
    else:
        shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copy2)
        root, log = tmp_path / "copy", tmp_path / "copy" / "run.eval"
    monkeypatch.setattr(heal, "read_directory", _must_not_be_called)
    with evalindex.open(root) as index:
        reads = _count_reads(monkeypatch)
        assert index.read(log, 1) == sample(1)
        assert len(reads) == 2
        assert reads[0][1] == os.path.getsize(log)
        assert index.read(log, 2) == sample(2)
        assert len(reads) == 3


@recorded
def test_an_equal_size_is_no_proof(root: Path) -> None:
    root.mkdir()
    log = root / "run.eval"
    log.write_bytes(stored(sample(1, v="a"), sample(2, v="b")))
    with built(root) as index:
        replace(log, stored(sample(2, v="b"), sample(1, v="a")))
        assert index.read(log, 1) == sample(1, v="a")


def test_a_fresh_version_is_not_recorded_and_is_once_the_log_is_at_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(root / "run.eval", [sample(1)])
    evalindex.build(root)
    assert _stored_versions(root) == [None]
    report = evalindex.build(root)
    assert (report.indexed, report.unchanged, _stored_versions(root)) == (0, 1, [None])
    monkeypatch.setattr(local, "SETTLED_NS", -(10**9))
    report = evalindex.build(root)
    assert (report.indexed, report.unchanged) == (0, 1)
    assert _stored_versions(root) != [None]


def test_a_version_from_the_future_is_not_recorded(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    tomorrow = time.time_ns() + 86_400 * 10**9
    os.utime(log, ns=(tomorrow, tomorrow))
    evalindex.build(root)
    assert _stored_versions(root) == [None]


def test_a_change_in_the_same_clock_tick_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a coarse clock does: the log changes and its stat does not. The digest stands in."""
    root.mkdir()
    log = root / "run.eval"
    log.write_bytes(stored(sample(1, v="a"), sample(2, v="b")))
    monkeypatch.setattr(local, "stat_version", lambda _: "stat as ever")
    with built(root) as index:
        overwrite(log, stored(sample(2, v="b"), sample(1, v="a")))
        assert index.read(log, 1) == sample(1, v="a")


# Law 4: heal, then fail loudly


@recorded
def test_a_rewritten_log_is_healed_and_that_is_said_once(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = write_log(root / "run.eval", [sample(1, v="old")])
    with built(root) as index:
        for generation in range(3):
            write_log(log, [sample(0), sample(1, v=generation)])
            assert index.read(log, 1)["v"] == generation
    said = [r for r in caplog.records if r.name == "evalindex"]
    assert len(said) == 1
    assert str(log) in said[0].getMessage()
    assert "evalindex build" in said[0].getMessage()


@recorded
def test_a_sample_that_was_run_again_is_the_new_one(root: Path) -> None:
    """The old bytes stay where they were, and their CRC is still right."""
    log = write_log(root / "run.eval", [sample(1, v="first"), sample(2)], finished=False)
    with built(root) as index:
        write_log(log, [sample(1, v="again")], mode="a")
        assert index.read(log, 1)["v"] == "again"
        assert index.read(log, 2) == sample(2)
    evalindex.build(root)
    with evalindex.open(root) as index:
        assert index.read(log, 1)["v"] == "again"


@recorded
@pytest.mark.parametrize("errors", ["raise", "skip", "return"])
def test_a_sample_added_after_the_build_is_never_absent(root: Path, errors: Any) -> None:
    log = write_log(root / "run.eval", [sample(1)], finished=False)
    with built(root) as index:
        write_log(log, [sample(2)], mode="a")
        assert index.read_samples(log, [2, 1], errors=errors) == [sample(2), sample(1)]


@recorded
def test_what_was_healed_is_kept_while_it_holds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(root / "run.eval", [sample(1, v="old")])
    with built(root) as index:
        write_log(log, [sample(1, v="new"), sample(2)])
        assert index.read(log, 1)["v"] == "new"
        with monkeypatch.context() as patch:
            patch.setattr(heal, "read_directory", _must_not_be_called)
            assert index.read(log, 2) == sample(2)
        write_log(log, [sample(1, v="newer"), sample(2)])
        assert index.read(log, 1)["v"] == "newer"


@recorded
def test_a_build_after_a_heal_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(root / "run.eval", [sample(1, v="old")])
    with built(root) as index:
        write_log(log, [sample(1, v="healed")])
        assert index.read(log, 1)["v"] == "healed"
        write_log(log, [sample(1, v="built"), sample(2)])
        evalindex.build(root)
        monkeypatch.setattr(heal, "read_directory", _must_not_be_called)
        assert index.read(log, 1)["v"] == "built"


@recorded
def test_a_log_that_is_gone_for_a_moment_comes_back(root: Path, tmp_path: Path) -> None:
    """Recovery removes a log, then moves the new one there."""
    log = write_log(root / "run.eval", [sample(1, v="old")])
    recovered = write_log(tmp_path / "recovered.eval", [sample(1, v="recovered")])
    with built(root) as index:
        log.unlink()
        timer = threading.Timer(0.1, recovered.rename, [log])
        timer.start()
        assert index.read(log, 1)["v"] == "recovered"
        timer.join()


@recorded
def test_a_log_that_is_gone_is_named(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    with built(root) as index:
        log.unlink()
        with pytest.raises(evalindex.LogNotFound) as caught:
            index.read(log, 1)
    assert caught.value.filename == str(log)


def test_an_edit_in_place_that_is_half_done_is_waited_for(root: Path) -> None:
    """A header edit leaves the log without an end record until it is through."""
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    with built(root) as index:
        whole = log.read_bytes()
        overwrite(log, whole[:-30])
        timer = threading.Timer(0.1, overwrite, [log, whole])
        timer.start()
        assert index.read(log, 2) == sample(2)
        timer.join()


@recorded
def test_a_log_that_never_holds_still_is_stale(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time its members are read, they are no longer where the directory said."""
    root.mkdir()
    log = root / "run.eval"
    versions = [stored(sample(1), sample(n, v="x" * n)) for n in range(2, 50)]
    log.write_bytes(versions.pop())
    monkeypatch.setattr(heal, "PAUSES", (0.0, 0.0))
    with built(root) as index:
        real = directory.read_directory

        def read_then_overwrite(file: local.LocalFile) -> Any:
            found = real(file)
            data = versions.pop()
            overwrite(log, data[:40] + b"\0" * 60 + data[100:])
            return found

        monkeypatch.setattr(heal, "read_directory", read_then_overwrite)
        overwrite(log, versions.pop())
        with pytest.raises(evalindex.StaleLog) as caught:
            index.read(log, 1)
    assert caught.value.log == str(log)


@recorded
def test_on_stale_error_refuses_to_heal(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    same = write_log(root / "same.eval", [sample(1)])
    evalindex.build(root)
    with evalindex.open(root, on_stale="error") as index:
        os.utime(same)
        assert index.read(same, 1) == sample(1)
        write_log(log, [sample(1), sample(2)])
        with pytest.raises(evalindex.StaleLog) as caught:
            index.read(log, 1)
    assert "evalindex build" in str(caught.value)


@recorded
def test_healed_rows_are_bounded_between_windows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalindex import known

    logs = [write_log(root / f"{n}.eval", [sample(1)]) for n in range(6)]
    # Room for three logs of four members (start, sample, summaries, header) and a bit more.
    monkeypatch.setattr(known, "_HEALED_LIMIT", int(3.5 * (5 * known._ROW_SIZE + 150)))
    with built(root) as index:
        for log in logs:
            write_log(log, [sample(1, v="new")])
        for log in logs:
            assert index.read(log, 1)["v"] == "new"
        kept = index._healer._logs
        assert len(kept._healed) == 3
        assert kept._healed_size <= known._HEALED_LIMIT


@recorded
def test_rows_that_the_log_contradicts_are_healed(root: Path) -> None:
    """A flipped bit in the index is not the log's damage."""
    import sqlite3

    log = write_log(root / "run.eval", [sample(1)])
    evalindex.build(root)
    connection = sqlite3.connect(root / "evalindex.db")
    connection.execute("UPDATE member SET crc32 = crc32 + 1, header_offset = header_offset + 1")
    connection.commit()
    connection.close()
    with evalindex.open(root) as index:
        assert index.read(log, 1) == sample(1)


@recorded
def test_a_proof_of_one_index_is_not_used_for_another(root: Path, tmp_path: Path) -> None:
    """Log ids begin anew in an index that takes the place of another."""
    log = write_log(root / "run.eval", [sample(1, v="old")], finished=False)
    evalindex.build(root)
    shutil.copy(root / "evalindex.db", tmp_path / "older.db")
    with evalindex.open(root) as index:
        write_log(log, [sample(1, v="new"), sample(2)], mode="a")
        (root / "evalindex.db").unlink()
        evalindex.build(root)
        os.utime(log)
        assert index.read(log, 1)["v"] == "new"
        os.replace(tmp_path / "older.db", root / "evalindex.db")
        assert index.read(log, 1)["v"] == "new"
        assert index.read(log, 2) == sample(2)


# Law 5: readers never write


@recorded
def test_reading_leaves_the_index_as_it_was(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    with built(root) as index:
        before = (root / "evalindex.db").read_bytes()
        write_log(log, [sample(1), sample(2)])
        index.read_samples(log, [1, 2])
        list(index.samples(log))
        assert sorted(p.name for p in root.iterdir()) == ["evalindex.db", "run.eval"]
    assert (root / "evalindex.db").read_bytes() == before
    assert sorted(p.name for p in root.iterdir()) == ["evalindex.db", "run.eval"]


def test_reading_an_index_that_a_builder_left_open_writes_nothing(root: Path) -> None:
    """A connection that may write would move the write-ahead log into the file when it closes."""
    log = write_log(root / "run.eval", [sample(1)])
    file = root / "evalindex.db"
    evalindex.build(root)
    pid = os.fork()
    if not pid:
        from evalindex.database.writes import IndexWriter

        IndexWriter(str(file)).set_built(1, 1)
        os._exit(0)  # as if killed: the change is in the write-ahead log alone
    os.waitpid(pid, 0)
    before = file.read_bytes()
    with evalindex.open(root) as index:
        assert index.read(log, 1) == sample(1)
    assert file.read_bytes() == before


# Law 6: one bad log or sample never stops the rest


@recorded
def test_a_bad_sample_or_log_is_one_answer(root: Path) -> None:
    good = write_log(root / "good.eval", [sample(n) for n in range(1, 6)], method=STORED)
    data = bytearray(good.read_bytes())
    at = data.index(b"question 3")
    data[at] ^= 1
    good.write_bytes(data)
    cut = root / "cut.eval"
    cut.write_bytes(bytes(data[: len(data) // 2]))
    report = evalindex.build(root)
    assert (report.indexed, report.unreadable) == (1, 1)
    keys = [(good, 1), (good, 3), (cut, 1), (root / "none.eval", 1), (good, 9), (good, 5)]
    with evalindex.open(root) as index:
        answers = [value for _, value in index.iter_samples(keys, errors="return")]
        kept = [key for key, _ in index.iter_samples(keys, errors="skip")]
    assert [type(answer) for answer in answers] == [
        dict,
        evalindex.CorruptMember,
        evalindex.NotAnEvalLog,
        evalindex.LogNotFound,
        evalindex.SampleNotFound,
        dict,
    ]
    assert kept == [keys[0], keys[5]]


# Law 8: bounded


@recorded
def test_a_read_holds_no_more_than_its_budget_and_the_next_sample(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes from 100 to 50,000 bytes under a budget of 20,000: never more in hand."""
    from evalindex.budget import Budget

    held: list[int] = []
    take = Budget.take

    def watched(self: Budget, size: int, *, always: bool = False) -> bool:
        granted = take(self, size, always=always)
        held.append(self._held)
        return granted

    monkeypatch.setattr(Budget, "take", watched)
    sizes = [100, 50_000, 9_000, 9_000, 9_000, 100, 100, 30_000]
    log = write_log(root / "run.eval", [sample(n, pad="x" * s) for n, s in enumerate(sizes)])
    evalindex.build(root)
    with evalindex.open(root, max_bytes=20_000) as index:
        got = [value["id"] for _, value in index.iter_samples([(log, n) for n in range(8)])]
        assert index._budget._held == 0
    assert got == list(range(8))
    assert max(held) < 20_000 + 50_000 + 200


@recorded
def test_a_read_inside_an_iteration_never_waits(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(n, pad="x" * 900) for n in range(30)])
    evalindex.build(root)
    with evalindex.open(root, max_bytes=2_000) as index:
        pairs = [(value, index.read(log, 29)) for _, value in index.iter_samples([(log, 0)] * 9)]
        stopped = index.iter_samples([(log, n) for n in range(30)])
        next(stopped)
        assert len(index.read_samples(log, range(30))) == 30
        stopped.close()  # type: ignore[attr-defined]
        assert index._budget._held == 0
    assert len(pairs) == 9


# Law 10: every text from a log is foreign


@recorded
@pytest.mark.parametrize("id", ["a\0b", "a\0", "\ud800", "a\udfff"])
def test_an_id_that_no_member_name_can_hold_is_absent(root: Path, id: str) -> None:
    """`json_each` cuts at NUL, so the statement would find sample `a`."""
    log = write_log(root / "run.eval", [sample("a"), sample("")])
    with built(root) as index, pytest.raises(evalindex.SampleNotFound) as caught:
        index.read(log, id)
    assert caught.value.missing == (evalindex.SampleKey(str(log), id, 1),)


@recorded
def test_ids_are_not_taken_for_patterns_or_statements(root: Path) -> None:
    ids = ["%", "_", "'; DROP TABLE member; --", '"', "[a-z]*", "\\", "../../etc/passwd", "a\nb"]
    log = write_log(root / "run.eval", [sample(id) for id in ids])
    with built(root) as index:
        assert [s["id"] for s in index.read_samples(log, ids)] == ids
        assert index.read(log, "*", errors="skip") is None


def _count_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    reads: list[tuple[int, int]] = []
    read = local.LocalFile.read

    def counted(self: local.LocalFile, start: int, stop: int) -> bytes:
        reads.append((start, stop))
        return read(self, start, stop)

    monkeypatch.setattr(local.LocalFile, "read", counted)
    return reads


def _must_not_be_called(*_: object) -> Iterator[None]:
    raise AssertionError("a directory was parsed")


def test_the_fixture_writes_what_zipfile_reads(root: Path) -> None:
    log = write_log(root / "run.eval", [sample(1)])
    assert json.loads(members_by_zipfile(log)["samples/1_epoch_1.json"]) == sample(1)


@recorded
def test_a_row_that_the_index_lost_is_no_absence(root: Path) -> None:
    """Rows prove what they find; only the log proves what is not there."""
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    evalindex.build(root)
    change_index(
        root / "evalindex.db", f"UPDATE member SET name = 'x' WHERE name = '{sample_member(1)}'"
    )
    with evalindex.open(root) as index:
        assert index.read_samples(log, [2, 1]) == [sample(2), sample(1)]
    with evalindex.open(root) as index, index.stream(log, 1) as stream:
        assert json.load(stream) == sample(1)
    with evalindex.open(root) as index, pytest.raises(evalindex.SampleNotFound):
        index.read(log, 3)


@recorded
@pytest.mark.parametrize("damage", ["method = 99", "flags = 1"])
def test_a_method_that_the_index_has_wrong_is_not_the_logs(root: Path, damage: str) -> None:
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    evalindex.build(root)
    change_index(root / "evalindex.db", f"UPDATE member SET {damage}")
    with evalindex.open(root) as index:
        assert index.read(log, 1) == sample(1)


@recorded
def test_the_directory_is_read_once_a_window_for_absences(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(root / "run.eval", [sample(n) for n in range(50)])
    reads = counted(monkeypatch, heal, "read_directory")
    evalindex.build(root)
    with evalindex.open(root, max_bytes=1) as index:
        keys = [n for pair in zip(range(50), range(100, 150), strict=True) for n in pair]
        found = index.read_samples(log, keys, errors="return")
        assert [type(answer) for answer in found] == [dict, evalindex.SampleNotFound] * 50
        assert len(reads) == 1
        index.read_samples(log, keys, errors="return")
    assert len(reads) == 1


@recorded
def test_a_log_that_has_not_settled_is_proved_once_a_window(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(root / "run.eval", [sample(n) for n in range(20)])
    evalindex.build(root)
    monkeypatch.setattr(local, "SETTLED_NS", 10**18)
    proofs = counted(monkeypatch, heal, "prove")
    change_index(root / "evalindex.db", "UPDATE log SET version = NULL")
    with evalindex.open(root, max_bytes=1) as index:
        assert len(index.read_samples(log, range(20))) == 20
    assert len(proofs) == 1


@recorded
def test_logs_that_vanished_are_waited_for_together(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [write_log(root / f"{n:02}.eval", [sample(1)]) for n in range(20)]
    evalindex.build(root)
    for log in logs[1:]:
        log.unlink()
    pauses: list[float] = []
    monkeypatch.setattr("evalindex.heal.time.sleep", pauses.append)
    with evalindex.open(root) as index:
        keys = [(log, 1) for log in logs]
        answers = [answer for _, answer in index.iter_samples(keys, errors="return")]
    assert answers[0] == sample(1)
    assert {type(answer) for answer in answers[1:]} == {evalindex.LogNotFound}
    assert pauses == list(directory.PAUSES)


def test_logs_without_an_index_do_not_keep_their_directories(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time is read, and forgotten when the last of its samples was delivered."""
    logs = [write_log(root / f"{n}.eval", [sample(1), sample(2)]) for n in range(9)]
    evalindex.build(logs[0])
    monkeypatch.setattr("evalindex.known._HEALED_LIMIT", 0)
    opened = counted(monkeypatch, heal, "read_directory")
    with evalindex.open(root) as index:
        keys = [(log, id) for log in logs for id in (1, 2)]
        for n, (_, answer) in enumerate(index.iter_samples(keys)):
            assert answer == sample(1 + n % 2)
            assert len(opened) <= n // 2 + 1
    assert len(opened) == 8


def test_the_collector_is_paused_while_samples_are_made_and_never_for_the_caller(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(root / "run.eval", [sample(n) for n in range(4)])
    evalindex.build(root)
    inside = counted(monkeypatch, decode, "decode_sample", gc.isenabled)
    with evalindex.open(root) as index:
        for _ in index.iter_samples([(log, n) for n in range(5)], errors="skip"):
            assert gc.isenabled()
        assert inside == [False] * 4
        with pytest.raises(evalindex.SampleNotFound):
            index.read(log, 9)
        assert gc.isenabled()
        gc.disable()
        try:
            index.read(log, 1)
            assert not gc.isenabled()
        finally:
            gc.enable()


def test_the_collector_runs_again_when_the_last_thread_is_done() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with paused():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with paused():
        pass
    assert not gc.isenabled()
    assert in_fork(gc.isenabled), "the child has no thread that would start it again"
    leave.set()
    thread.join()
    assert gc.isenabled()


@recorded
def test_on_stale_error_holds_for_a_log_that_was_read_before(root: Path) -> None:
    """An absence has the log's directory read; the index is what it is compared with after that."""
    log = write_log(root / "run.eval", [sample(1)])
    evalindex.build(root)
    with evalindex.open(root, on_stale="error") as index:
        with pytest.raises(evalindex.SampleNotFound):
            index.read(log, 99)
        write_log(log, [sample(1, v="new"), sample(2)])
        with pytest.raises(evalindex.StaleLog):
            index.read(log, 1)


def test_an_interrupt_leaves_the_index_usable(root: Path) -> None:
    """Wherever it comes, the next read finds no transaction of the last one."""
    log = write_log(root / "run.eval", [sample(1)])
    evalindex.build(root)
    with evalindex.open(root) as index:
        assert index._reader is not None
        assert index._reader._connection is not None
        index._reader._connection.execute("BEGIN")
        assert index.read(log, 1) == sample(1)


def test_an_exit_that_never_came_leaves_no_collector_off() -> None:
    holder = paused()
    holder.__enter__()
    assert not gc.isenabled()
    del holder
    assert gc.isenabled()


def test_a_file_that_nobody_closed_is_closed_when_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    file = local.LocalFile(str(path))
    descriptor = file._descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
