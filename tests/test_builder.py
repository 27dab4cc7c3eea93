"""What a build indexes, leaves alone, retries, and cannot read."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import evalindex
from tests.builders import (
    Entry,
    all_rows,
    archive,
    as_nobody,
    give_away,
    log_ids,
    members_by_zipfile,
    public_folder,
    query,
    sample,
    settle,
    write_log,
)


@pytest.fixture(autouse=True)
def _versions_are_recorded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three logs, not indexed yet."""
    for number, name in enumerate(("a.eval", "b.eval", "sub/deep/c.eval")):
        write_log(tmp_path / "logs" / name, [sample(id) for id in range(number + 1)])
    return tmp_path / "logs"


def counts(report: evalindex.BuildReport) -> tuple[int, int, int, int]:
    return report.indexed, report.unchanged, report.removed, report.unreadable


def versions(root: Path) -> dict[str, str | None]:
    return dict(query(root / "evalindex.db", "SELECT path, version FROM log"))


def version_of(path: Path) -> str:
    status = os.stat(path)
    return f"stat {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"


def test_a_build_counts_what_is_new_changed_unchanged_removed_and_unreadable(root: Path) -> None:
    assert counts(evalindex.build(root)) == (3, 0, 0, 0)
    assert counts(evalindex.build(root)) == (0, 3, 0, 0)
    write_log(root / "a.eval", [sample("other")])
    (root / "b.eval").unlink()
    write_log(root / "new.eval", [sample(1)])
    (root / "bad.eval").write_bytes(b"no zip")
    report = evalindex.build(root)
    assert counts(report) == (2, 1, 1, 1)
    assert report.indexes == (str(root / "evalindex.db"),)
    assert [error.log for error in report.failures] == [str(root / "bad.eval")]


def test_rows_are_those_that_zipfile_sees(root: Path) -> None:
    evalindex.build(root)
    for path in ("a.eval", "b.eval", "sub/deep/c.eval"):
        rows = query(
            root / "evalindex.db",
            "SELECT name, uncompressed_size FROM member JOIN log USING (log_id) WHERE path = ?",
            path,
        )
        sizes = {name: len(data) for name, data in members_by_zipfile(root / path).items()}
        assert dict(rows) == sizes


@pytest.mark.parametrize("jobs", [1, 2, 16])
def test_the_number_of_jobs_changes_nothing(root: Path, tmp_path: Path, jobs: int) -> None:
    (root / "bad.eval").write_bytes(b"no zip")
    evalindex.build(root, tmp_path / "one.db", jobs=1)
    evalindex.build(root, tmp_path / "many.db", jobs=jobs)
    assert all_rows(tmp_path / "one.db") == all_rows(tmp_path / "many.db")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all logs that are opened from now on."""
    names: list[str] = []
    genuine = os.open

    def spy(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith(".eval"):
            names.append(os.path.basename(path))
        return genuine(path, *args, **options)

    monkeypatch.setattr(os, "open", spy)
    return names


def test_an_unchanged_log_is_not_opened(root: Path, opened: list[str]) -> None:
    evalindex.build(root)
    assert sorted(opened) == ["a.eval", "b.eval", "c.eval"]
    opened.clear()
    evalindex.build(root)
    assert opened == []
    evalindex.build(root, full=True)
    assert sorted(opened) == ["a.eval", "b.eval", "c.eval"]


def touch(path: Path) -> None:
    os.utime(path)


def copy_over(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


@pytest.mark.parametrize("change", [touch, copy_over])
def test_a_log_with_the_same_bytes_only_gets_its_version_refreshed(
    root: Path, change: Callable[[Path], None]
) -> None:
    evalindex.build(root)
    ids, old = log_ids(root / "evalindex.db"), versions(root)
    change(root / "a.eval")
    assert version_of(root / "a.eval") != old["a.eval"]
    assert counts(evalindex.build(root)) == (0, 3, 0, 0)
    assert log_ids(root / "evalindex.db") == ids
    assert versions(root) == {**old, "a.eval": version_of(root / "a.eval")}


def test_a_changed_log_gets_a_new_id(root: Path) -> None:
    evalindex.build(root)
    before = log_ids(root / "evalindex.db")
    write_log(root / "a.eval", [sample("another")])
    evalindex.build(root)
    after = log_ids(root / "evalindex.db")
    assert after["a.eval"] > max(before.values())
    assert {**after, "a.eval": None} == {**before, "a.eval": None}


def test_a_log_with_other_bytes_under_its_old_times_and_size_is_read_again(root: Path) -> None:
    """Case C3.1: rewritten in place, with the mtime put back."""
    log = write_log(root / "a.eval", [sample(1), sample(2)], method=0)
    evalindex.build(root)
    inode, size = log.stat().st_ino, log.stat().st_size
    write_log(log, [sample(2), sample(1)], method=0)
    assert (log.stat().st_ino, log.stat().st_size) == (inode, size)
    assert evalindex.build(root).indexed == 1
    with evalindex.open(root) as index:
        assert index.read("a.eval", 1) == sample(1)


def cut(path: Path) -> None:
    data = write_log(path, [sample(id) for id in range(50)]).read_bytes()
    path.write_bytes(data[: len(data) // 2])


def without_last_byte(path: Path) -> None:
    path.write_bytes(write_log(path, [sample(1)]).read_bytes()[:-1])


def no_directory(path: Path) -> None:
    path.write_bytes(archive([Entry(b"samples/1_epoch_1.json", b"{}")], count=7))


UNREADABLE: dict[str, tuple[Callable[[Path], object], type[evalindex.EvalIndexError]]] = {
    "empty": (lambda path: path.write_bytes(b""), evalindex.NotAnEvalLog),
    "cut in half": (cut, evalindex.NotAnEvalLog),
    "without its last byte": (without_last_byte, evalindex.NotAnEvalLog),
    "no zip": (lambda path: path.write_bytes(b"junk" * 1000), evalindex.NotAnEvalLog),
    "a wrong directory": (no_directory, evalindex.NotAnEvalLog),
    "a FIFO": (lambda path: os.mkfifo(path), evalindex.LogUnreadable),
    "a link to nothing": (lambda path: path.symlink_to("gone.eval"), evalindex.LogUnreadable),
    "a link to itself": (lambda path: path.symlink_to(path.name), evalindex.LogUnreadable),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", UNREADABLE)
def test_an_unreadable_log_is_reported_stops_nothing_and_is_tried_again(
    root: Path, what: str
) -> None:
    make, kind = UNREADABLE[what]
    bad = root / "sub" / "bad.eval"
    make(bad)
    report = evalindex.build(root)
    assert counts(report) == (3, 0, 0, 1)
    (error,) = report.failures
    assert isinstance(error, kind)
    assert error.log == str(bad)
    index = root / "evalindex.db"
    assert query(index, "SELECT path, state FROM log WHERE reason NOT NULL") == [
        ("sub/bad.eval", "unreadable")
    ]
    assert counts(evalindex.build(root)) == (0, 3, 0, 1)
    bad.unlink()
    write_log(bad, [sample(1)])
    assert counts(evalindex.build(root)) == (1, 3, 0, 0)
    assert query(index, "SELECT * FROM log WHERE state = 'unreadable'") == []


@pytest.mark.parametrize("summaries", [True, False])
@pytest.mark.parametrize("fault", ["fails", "ends early"])
def test_a_header_that_could_not_be_read_is_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, summaries: bool, fault: str
) -> None:
    """Its directory could be read, and the log stays as it is."""
    with zipfile.ZipFile(root / "a.eval") as log:
        header = log.getinfo("header.json").header_offset

    def disturbed(descriptor: int, length: int, offset: int) -> bytes:
        is_a = os.fstat(descriptor).st_ino == (root / "a.eval").stat().st_ino
        if is_a and 0 < offset <= header < offset + length:  # not its end
            if fault == "fails":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return b""
        return os.pread(descriptor, length, offset)

    with monkeypatch.context() as patched:
        patched.setattr("evalindex.stores.local._pread", disturbed)
        assert evalindex.build(root, summaries=summaries).unreadable == 1
        assert counts(evalindex.build(root, summaries=summaries)) == (0, 2, 0, 1)
    assert counts(evalindex.build(root, summaries=summaries)) == (1, 2, 0, 0)
    assert counts(evalindex.build(root, summaries=summaries)) == (0, 3, 0, 0)
    with evalindex.open(root) as index:
        assert index.verify().findings == ()


def test_a_log_that_became_unreadable_keeps_no_rows(root: Path) -> None:
    evalindex.build(root)
    old_id = log_ids(root / "evalindex.db")["a.eval"]
    (root / "a.eval").write_bytes(b"")
    assert counts(evalindex.build(root)) == (0, 2, 0, 1)
    rows = query(root / "evalindex.db", "SELECT * FROM member WHERE log_id = ?", old_id)
    assert rows == []


def test_a_half_written_log_is_unfinished_and_its_samples_are_read(root: Path) -> None:
    write_log(root / "a.eval", [sample(1)], finished=False)
    evalindex.build(root)
    states = dict(query(root / "evalindex.db", "SELECT path, state FROM log"))
    assert states["a.eval"] == "unfinished"
    assert states["b.eval"] == "finished"
    with evalindex.open(root) as index:
        assert index.read("a.eval", 1) == sample(1)


def test_a_folder_with_the_name_of_a_log_is_a_folder(root: Path) -> None:
    write_log(root / "x.eval" / "inner.eval", [sample(1)])
    assert counts(evalindex.build(root)) == (4, 0, 0, 0)
    assert "x.eval/inner.eval" in log_ids(root / "evalindex.db")


def test_links_to_logs_are_indexed_only_where_nothing_else_names_them(
    root: Path, tmp_path: Path
) -> None:
    outside = write_log(tmp_path / "outside.eval", [sample("out")])
    (root / "inside.eval").symlink_to(root / "a.eval")
    (root / "sub" / "relative.eval").symlink_to("../a.eval")
    (root / "outward.eval").symlink_to(outside)
    evalindex.build(root)
    assert set(log_ids(root / "evalindex.db")) == {
        *("a.eval", "b.eval", "sub/deep/c.eval"),
        "outward.eval",
    }
    with evalindex.open(root) as index:
        for name in ("inside.eval", "sub/relative.eval"):
            assert index.read(name, 0) == sample(0)
        assert index.read("outward.eval", "out") == sample("out")


def test_links_to_folders_are_not_followed(root: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "elsewhere" / "d.eval", [sample(1)])
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "link.eval").symlink_to(tmp_path / "elsewhere")
    (root / "sub" / "loop").symlink_to(root)
    assert counts(evalindex.build(root)) == (3, 0, 0, 0)


def test_a_name_that_is_no_utf8_is_reported_and_stops_nothing(root: Path) -> None:
    for name in (b"\xff.eval", b"sub\xff/d.eval"):
        path = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
        write_log(path, [sample(1)])
    report = evalindex.build(root)
    assert counts(report) == (3, 0, 0, 2)
    assert all("UTF-8" in error.reason for error in report.failures)
    assert all(str(error).isprintable() for error in report.failures)
    assert counts(evalindex.build(root)) == (0, 3, 0, 2)


def test_a_log_that_vanishes_between_listing_and_reading_is_no_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evalindex.build(root)
    write_log(root / "brief.eval", [sample(1)])
    touch(root / "a.eval")
    genuine = os.open

    def vanish(path: Any, *args: Any, **options: Any) -> int:
        if os.path.basename(path) in ("a.eval", "brief.eval"):
            os.unlink(path)
        return genuine(path, *args, **options)

    monkeypatch.setattr(os, "open", vanish)
    report = evalindex.build(root)
    assert report.failures == ()
    assert set(log_ids(root / "evalindex.db")) == {"b.eval", "sub/deep/c.eval"}


def test_a_log_that_changes_while_it_is_read_gets_no_version(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = os.pread

    def change_behind(descriptor: int, length: int, offset: int) -> bytes:
        data = genuine(descriptor, length, offset)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("a.eval"):
            settle(root / "a.eval", 10**18)
        return data

    monkeypatch.setattr("evalindex.stores.local._pread", change_behind)
    evalindex.build(root, jobs=1)
    assert {path: version is None for path, version in versions(root).items()} == {
        "a.eval": True,
        "b.eval": False,
        "sub/deep/c.eval": False,
    }
    monkeypatch.undo()


def test_a_log_that_changed_a_moment_ago_gets_no_version(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", 3600 * 10**9)
    evalindex.build(root)
    assert set(versions(root).values()) == {None}
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    ids = log_ids(root / "evalindex.db")
    assert counts(evalindex.build(root)) == (0, 3, 0, 0)
    assert versions(root) == {path: version_of(root / path) for path in ids}
    assert log_ids(root / "evalindex.db") == ids


@pytest.fixture
def given_away() -> Iterator[Path]:
    """An indexed root that belongs to nobody, with two logs."""
    with public_folder() as folder:
        write_log(folder / "a.eval", [sample(1)])
        write_log(folder / "sub" / "b.eval", [sample(1)])
        evalindex.build(folder)
        give_away(folder, folder / "sub", *folder.rglob("*.*"))
        yield folder


def test_a_log_that_may_not_be_read_is_unreadable(given_away: Path) -> None:
    log = given_away / "sub" / "b.eval"
    os.chown(log, 0, 0)
    log.chmod(0)
    report = as_nobody(lambda: evalindex.build(given_away), refused=log)
    assert counts(report) == (0, 1, 0, 1)
    assert isinstance(report.failures[0], evalindex.LogUnreadable)
    assert report.failures[0].errno == 13


def test_nothing_below_a_folder_that_cannot_be_listed_is_forgotten(given_away: Path) -> None:
    (given_away / "a.eval").unlink()
    write_log(given_away / "c.eval", [sample(1)])
    (given_away / "sub").chmod(0)
    log = given_away / "sub" / "b.eval"
    report = as_nobody(lambda: evalindex.build(given_away), refused=log)
    assert counts(report) == (1, 0, 1, 1)
    assert [error.log for error in report.failures] == [str(given_away / "sub")]
    assert set(log_ids(given_away / "evalindex.db")) == {"c.eval", "sub/b.eval"}


def test_a_log_in_a_folder_that_may_not_be_entered_is_unreadable_and_not_gone(
    given_away: Path,
) -> None:
    os.chown(given_away / "sub", 0, 0)
    (given_away / "sub").chmod(0)

    def states() -> dict[str, tuple[str, str | None]]:
        with evalindex.open(given_away) as index:
            return {log.path: (log.state, log.reason) for log in index.status().logs}

    assert states()["sub/b.eval"][0] != "unreadable"  # root may; the rooms are imported now
    found = as_nobody(states, refused=given_away / "sub" / "b.eval")
    assert found["sub/b.eval"] == ("unreadable", "Permission denied")
    assert found["a.eval"][0] in ("fresh", "unfinished")
