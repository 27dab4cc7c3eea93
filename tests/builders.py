"""Logs for tests, made by hand or with zipfile: never by the code under test."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import sqlite3
import struct
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

import zipfile_zstd  # noqa: F401  (adds method 93 to zipfile)
import zstandard

from evalindex.database import migrate

T = TypeVar("T")

STORED, DEFLATE, ZSTD = 0, 8, 93

#: A day ago: old enough for a version to be recorded.
OLD_NS = time.time_ns() - 86_400 * 10**9

#: The real logs that come beside the repository, where they do.
SHARED_LOGS = Path(__file__).resolve().parents[2] / "shared" / "logs"


#: Code that defines `peak()`: the most memory, in KiB, that its process has had. getrusage would
#: count what the parent had before exec.
PEAK = """
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
"""


def sample(id: str | int, epoch: int = 1, **fields: Any) -> dict[str, Any]:
    return {"id": id, "epoch": epoch, "input": f"question {id}", **fields}


def sample_member(id: str | int, epoch: int = 1) -> str:
    return f"samples/{id}_epoch_{epoch}.json"


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


def write_log(
    path: Path,
    samples: list[dict[str, Any]],
    *,
    finished: bool = True,
    method: int = ZSTD,
    mode: Any = "w",
    settled: bool = True,
    header: dict[str, Any] | None = None,
    summaries: list[dict[str, Any]] | None = None,
) -> Path:
    """A log as inspect lays it out, written by zipfile. `settled` makes it look a day old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # duplicate names are what some tests want
        with zipfile.ZipFile(path, mode, compression=method) as archive:
            if mode == "w":
                archive.writestr("_journal/start.json", encoded({"version": 2}))
            for document in samples:
                name = sample_member(document["id"], document["epoch"])
                archive.writestr(name, encoded(document))
            if finished:
                archive.writestr("summaries.json", encoded(summaries or []))
                ending = {"version": 2, "status": "success", **(header or {})}
                archive.writestr("header.json", encoded(ending))
    if settled:
        settle(path)
    return path


def settle(path: Path, at_ns: int = OLD_NS) -> None:
    """Give a file an old mtime. Its ctime stays new: only `wait_until_settled` ages that."""
    os.utime(path, ns=(at_ns, at_ns))


def members_by_zipfile(path: Path) -> dict[str, bytes]:
    """All live members, the last of each name, as zipfile reads them."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


class Entry(NamedTuple):
    """One member of a hand-built archive; everything that a directory says can be overruled."""

    name: bytes
    data: bytes = b""
    method: int = STORED
    flags: int = 0
    local_name: bytes | None = None
    local_extra: bytes = b""
    extra: bytes = b""
    comment: bytes = b""
    crc32: int | None = None
    compressed_size: int | None = None
    uncompressed_size: int | None = None
    offset: int | None = None
    packed: bytes | None = None


def pack(data: bytes, method: int) -> bytes:
    if method == DEFLATE:
        deflater = zlib.compressobj(wbits=-15)
        return deflater.compress(data) + deflater.flush()
    if method == ZSTD:
        # As inspect writes: no content size in the frame.
        return zstandard.ZstdCompressor(write_content_size=False).compress(data)
    return data


def archive(
    entries: list[Entry],
    *,
    comment: bytes = b"",
    count: int | None = None,
    directory_size: int | None = None,
    directory_offset: int | None = None,
    zip64: bool = False,
    before_directory: bytes = b"",
) -> bytes:
    """An archive, byte by byte (APPNOTE 4.3)."""
    out = bytearray()
    directory = bytearray()
    for entry in entries:
        packed = pack(entry.data, entry.method) if entry.packed is None else entry.packed
        crc = zlib.crc32(entry.data) if entry.crc32 is None else entry.crc32
        csize = len(packed) if entry.compressed_size is None else entry.compressed_size
        usize = len(entry.data) if entry.uncompressed_size is None else entry.uncompressed_size
        offset = len(out) if entry.offset is None else entry.offset
        name = entry.name if entry.local_name is None else entry.local_name
        out += struct.pack(
            "<4s5H3I2H", b"PK\3\4", 20, entry.flags, entry.method, 0, 33,
            crc, min(csize, 0xFFFFFFFF), min(usize, 0xFFFFFFFF), len(name), len(entry.local_extra),
        )  # fmt: skip
        out += name + entry.local_extra + packed
        directory += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, entry.flags, entry.method, 0, 33, crc, csize, usize,
            len(entry.name), len(entry.extra), len(entry.comment), 0, 0, 0, offset,
        )  # fmt: skip
        directory += entry.name + entry.extra + entry.comment
    out += before_directory
    at = len(out) if directory_offset is None else directory_offset
    size = len(directory) if directory_size is None else directory_size
    number = len(entries) if count is None else count
    out += directory
    if zip64:
        record = len(out)
        out += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, size, at)
        out += struct.pack("<4sIQI", b"PK\6\7", 0, record, 1)
        number, size, at = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    out += struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, number, number, size, at, len(comment))
    return bytes(out + comment)


def query(index: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of an index, read by sqlite3 alone and without changing the file."""
    connection = sqlite3.connect(f"file:{quote(str(index))}?mode=ro", uri=True)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def change_index(index: Path, *statements: str) -> None:
    """Run statements on a database, made if it is not there."""
    connection = sqlite3.connect(index, isolation_level=None)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def all_rows(index: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that an index says, without the numbers and times that differ between two builds."""
    of_log = _columns(index, "log", "log_id", "root_id", "indexed_at")
    of_member = _columns(index, "member", "log_id")
    said = {
        table: query(
            index,
            f"SELECT path, {_columns(index, table, 'log_id', 'summaries_id')} FROM {table}"
            f" LEFT JOIN {joined} LEFT JOIN log USING (log_id) ORDER BY 1, 2, 3, 4",
        )
        for table, joined in (
            ("header", "meta ON 0"),
            ("metric", "meta ON 0"),
            ("sample", "header USING (summaries_id)"),
            ("score", "header USING (summaries_id)"),
        )
    }
    return {
        **said,
        "root": query(index, "SELECT location, built_at > 0 FROM root ORDER BY 1"),
        "log": query(
            index, f"SELECT location, {of_log} FROM log JOIN root USING (root_id) ORDER BY path"
        ),
        "member": query(
            index,
            f"SELECT path, {of_member} FROM member LEFT JOIN log USING (log_id) ORDER BY 1, name",
        ),
    }


def _columns(index: Path, table: str, *without: str) -> str:
    names = [row[0] for row in query(index, "SELECT name FROM pragma_table_info(?)", table)]
    return ", ".join(f"{table}.{name}" for name in names if name not in without)


def log_ids(index: Path) -> dict[str, int]:
    return dict(query(index, "SELECT path, log_id FROM log"))


def listing(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Everything in a folder: names, mtimes and contents (None for folders)."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in folder.rglob("*")
    }


NOBODY = 65534


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that any user can reach; pytest's own are closed to all but their owner."""
    folder = Path(tempfile.mkdtemp(prefix="evalindex-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def give_away(*paths: Path) -> None:
    """Make nobody the owner, so that `as_nobody` can write there."""
    for path in paths:
        os.chown(path, NOBODY, NOBODY)


def in_fork(job: Callable[[], T]) -> T:
    """What `job` gives in a forked process; raises what it raises."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _end_if_it_hangs()
            os.close(receive)
            try:
                answer: tuple[bool, object] = (True, job())
            except BaseException as error:
                answer = (False, error)
            with os.fdopen(send, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    fine, value = pickle.loads(data)
    if not fine:
        raise value
    return cast("T", value)


def _end_if_it_hangs() -> None:
    """A forked child that waits for ever would outlive the tests."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(100)


def as_nobody(job: Callable[[], T], *, refused: Path) -> T:
    """What `job` gives when run by a user without rights, to whom `refused` must be closed:
    for reading if it is a file, for writing if it is a folder.

    The job runs in a fork, since others cannot import from root's home: whatever it needs must
    have been imported before, which a build and a read by root see to.
    """
    _warm_up()
    with public_folder() as folder:
        # Alembic reads the migrations when they run, from wherever this checkout is.
        shutil.copytree(migrate._migrations(), folder / "migrations")
        return in_fork(lambda: _without_rights(job, refused, folder / "migrations"))


def _without_rights(job: Callable[[], T], refused: Path, migrations: Path) -> T:
    migrate._migrations = lambda: migrations
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        if refused.is_dir():
            (refused / "probe").touch()
        else:
            refused.read_bytes()
    except PermissionError:
        return job()
    raise AssertionError(f"{refused} was not refused")


@lru_cache(maxsize=1)
def _warm_up() -> None:
    import evalindex

    with public_folder() as folder:
        log = write_log(folder / "a.eval", [sample(1)])
        evalindex.build(folder)
        with evalindex.open(folder) as index:
            index.read(log, 1)
            try:
                index.read(log, 2)
            except evalindex.SampleNotFound:
                pass


def together(count: int, job: Callable[[int], object]) -> None:
    """Run a job in so many forked processes at once; raises unless all of them end well."""
    ready, starter = os.pipe()
    children = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _end_if_it_hangs()
                os.close(starter)
                os.read(ready, 1)  # until all are there
                job(number)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    os.close(ready)
    os.close(starter)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes == [0] * count
