"""Bytes, versions and listings of logs on a file system, against what `os` says."""

from __future__ import annotations

import os
import pickle
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalindex.errors import LogNotFound, LogUnreadable, RootUnreadable
from evalindex.stores import local
from evalindex.stores.local import LocalFile, LocalListing
from tests.builders import sample, settle, write_log

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.eval"
    path.write_bytes(CONTENT)
    settle(path)
    return path


@pytest.fixture(params=["pread", "seek and read"])
def _way_to_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "seek and read":
        monkeypatch.setattr(local, "_pread", local._seek_and_read)


@pytest.mark.usefixtures("_way_to_read")
@pytest.mark.parametrize("read_most", [1, 7, 4096, 2**30])
@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 0), (0, 1), (3, 500), (0, 10240), (10230, 10250), (10240, 10300), (99999, 100000), (5, 2)],
)
def test_a_range_is_read_exactly_and_cut_at_the_end_of_the_file(
    log: Path, monkeypatch: pytest.MonkeyPatch, read_most: int, start: int, stop: int
) -> None:
    monkeypatch.setattr(local, "_READ_MOST", read_most)
    with closing(LocalFile(str(log))) as file:
        assert file.read(start, stop) == CONTENT[start:stop]
        assert file.size == len(CONTENT)


def test_ranges_of_threads_do_not_mix_where_there_is_no_pread(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(local, "_pread", local._seek_and_read)
    with closing(LocalFile(str(log))) as file, ThreadPoolExecutor(8) as pool:
        starts = [(7 * turn) % len(CONTENT) for turn in range(3000)]
        answers = pool.map(lambda start: file.read(start, start + 50), starts)
        assert list(answers) == [CONTENT[start : start + 50] for start in starts]


def test_a_read_error_names_the_log(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(local, "_pread", broken)
    with closing(LocalFile(str(log))) as file:
        with pytest.raises(LogUnreadable, match="Input/output error") as caught:
            file.read(0, 1)
        assert (caught.value.errno, caught.value.filename) == (5, str(log))


def test_the_version_is_inode_times_and_size(log: Path) -> None:
    status = os.stat(log)
    with closing(LocalFile(str(log))) as file:
        assert file.version == (
            f"stat {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"
        )


def test_what_is_read_stays_the_file_that_was_opened(log: Path) -> None:
    with closing(LocalFile(str(log))) as file:
        (log.parent / "new").write_bytes(b"another log")
        os.replace(log.parent / "new", log)
        assert file.read(0, 10) == CONTENT[:10]


SECOND = 10**9


def test_a_file_is_settled_two_seconds_after_its_last_change(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = os.stat(log).st_ctime_ns  # the mtime is a day older
    for age, settled in [(-SECOND, False), (0, False), (2 * SECOND - 1, False), (2 * SECOND, True)]:
        monkeypatch.setattr(time, "time_ns", lambda age=age: changed + age)
        with closing(LocalFile(str(log))) as file:
            assert file.settled is settled
            assert file.at_rest() is settled


@pytest.mark.parametrize("ahead", [SECOND, 3600 * SECOND])
def test_a_file_with_an_mtime_in_the_future_is_not_settled(
    log: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    later = os.stat(log).st_ctime_ns + 100 * SECOND
    monkeypatch.setattr(time, "time_ns", lambda: later)
    with closing(LocalFile(str(log))) as file:
        assert file.settled
    settle(log, later + ahead)
    with closing(LocalFile(str(log))) as file:
        assert not file.settled


def test_the_clock_is_read_before_the_file_is_opened(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a change between the two would look older than it is."""
    order: list[str] = []
    open_file, clock = os.open, time.time_ns

    def seen_clock() -> int:
        order.append("clock")
        return clock()

    def seen_open(path: str, flags: int) -> int:
        order.append("open")
        return open_file(path, flags)

    monkeypatch.setattr(time, "time_ns", seen_clock)
    monkeypatch.setattr(os, "open", seen_open)
    LocalFile(str(log)).close()
    assert order == ["clock", "open"]


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def overwrite_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"other")


@pytest.mark.parametrize("change", [grow, overwrite_in_place, settle, os.utime])
def test_a_file_that_changed_since_it_was_opened_is_not_at_rest(
    log: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(local, "SETTLED_NS", -(10**9))
    with closing(LocalFile(str(log))) as file:
        assert file.unchanged()
        assert file.at_rest()
        time.sleep(0.02)  # the kernel's clock of file times ticks each 4 ms
        change(log)
        assert not file.unchanged()
        assert not file.at_rest()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Fails if a test leaves a descriptor open."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.usefixtures("descriptors")
@pytest.mark.timeout(30)
def test_what_is_no_log_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "folder.eval").mkdir()
    os.mkfifo(tmp_path / "fifo.eval")
    (tmp_path / "file").touch()
    for name, kind in [
        ("none.eval", LogNotFound),
        ("file/none.eval", LogNotFound),
        ("folder.eval", LogUnreadable),
        ("fifo.eval", LogUnreadable),
        ("l" * 300, LogUnreadable),
    ]:
        with pytest.raises(kind) as caught:
            LocalFile(str(tmp_path / name))
        assert caught.value.filename == str(tmp_path / name)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_log_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        LocalFile(str(tmp_path / "none.eval"))
    assert caught.value.errno == 2


def test_too_many_open_files_are_named_with_a_remedy(log: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(LogUnreadable, match="ulimit -n"):
            LocalFile(str(log))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_listing_gives_path_version_and_size_of_each_log(tmp_path: Path) -> None:
    names = ["a.eval", "sub/b.eval", "sub/.hidden/c.eval", "ünï code/\n.eval", ".eval"]
    for name in names:
        write_log(tmp_path / name, [sample(1)])
    for other in ("a.EVAL", "b.eval.tmp", "eval", "c.evals"):
        (tmp_path / other).touch()
    found = {listed.path: (listed.version, listed.size) for listed in LocalListing(str(tmp_path))}
    assert set(found) == set(names)
    for name in names:
        status = os.stat(tmp_path / name)
        times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
        version = f"stat {status.st_ino} {times} {status.st_size}"
        assert found[name] == (version, status.st_size)


def test_a_listing_can_be_confined_to_a_part(tmp_path: Path) -> None:
    for name in ("a.eval", "in/b.eval", "in/deep/c.eval", "inner/d.eval"):
        write_log(tmp_path / name, [sample(1)])
    listing = LocalListing(str(tmp_path), below="in")
    assert {listed.path for listed in listing} == {"in/b.eval", "in/deep/c.eval"}


@pytest.mark.parametrize("below", ["", "in"])
def test_a_listing_of_nothing_is_an_error_and_of_an_empty_folder_is_empty(
    tmp_path: Path, below: str
) -> None:
    root = tmp_path / "root"
    with pytest.raises(RootUnreadable) as caught:
        list(LocalListing(str(root), below=below))
    assert caught.value.errno == 2
    (root / below).mkdir(parents=True)
    assert list(LocalListing(str(root), below=below)) == []


def test_a_link_is_listed_with_the_version_of_its_target(tmp_path: Path) -> None:
    target = write_log(tmp_path / "outside.eval", [sample(1)])
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link.eval").symlink_to(target)
    (tmp_path / "root" / "dangling.eval").symlink_to(tmp_path / "none.eval")
    found = {listed.path: listed.size for listed in LocalListing(str(tmp_path / "root"))}
    assert found == {"link.eval": os.stat(target).st_size, "dangling.eval": None}
