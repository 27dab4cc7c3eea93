"""Logs on a file system."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from typing import TYPE_CHECKING

from evalindex.errors import LogNotFound, LogUnreadable, RootUnreadable
from evalindex.model import Version
from evalindex.stores import Listed, Meter

if TYPE_CHECKING:
    from collections.abc import Iterator

#: File systems keep times as coarse as 2 s, and a log can change twice within that (law 3).
SETTLED_NS = 2_000_000_000

_READ_MOST = 2**30  # one read gives at most 2 GiB on Linux
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO named x.eval must not hang the build
)


def stat_version(status: os.stat_result) -> Version:
    """Inode, times and size as one text; equal texts mean that nothing was written since."""
    return Version(
        f"stat {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}"
    )


class LocalFile:
    """An open descriptor: a rename over the path does not change what is read."""

    distant = False
    _descriptor = -1

    def __init__(self, path: str, meter: Meter | None = None) -> None:
        """Raise `LogNotFound`, or `LogUnreadable` for what is no readable file."""
        self._path = path
        self._meter = meter or Meter()
        self._reads = self._read = 0
        self._seen = time.time_ns()
        try:
            self._descriptor = os.open(path, _OPEN_FLAGS)
        except OSError as error:
            raise _named(error, path) from None
        try:
            status = os.fstat(self._descriptor)
        except OSError as error:
            self.close()
            raise _named(error, path) from None
        if not stat.S_ISREG(status.st_mode):
            self.close()
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise LogUnreadable(f"it is {what}", log=path, code=errno.EISDIR)
        self.size = status.st_size
        self.version: Version | None = stat_version(status)
        self.modified = status.st_mtime_ns
        self._changed = status.st_ctime_ns

    @property
    def settled(self) -> bool:
        return self._seen - max(self.modified, self._changed) >= SETTLED_NS

    def read(self, start: int, stop: int) -> bytes:
        parts: list[bytes] = []
        while start < stop:
            try:
                part = _pread(self._descriptor, min(stop - start, _READ_MOST), start)
            except OSError as error:
                raise _named(error, self._path) from None
            except MemoryError:
                raise LogUnreadable(
                    f"{stop - start:,} bytes of it do not fit in memory",
                    log=self._path,
                    code=errno.ENOMEM,
                    hint="stream the sample",
                ) from None
            if not part:
                break
            parts.append(part)
            start += len(part)
            self._reads += 1
            self._read += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def confirm(self) -> None:
        """Its version was looked at when it was opened."""

    def unchanged(self) -> bool:
        try:
            return stat_version(os.fstat(self._descriptor)) == self.version
        except OSError as error:
            raise _named(error, self._path) from None

    def at_rest(self) -> bool:
        return self.settled and self.unchanged()

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        # Twice does no harm: the number may be another file's by then.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            self._meter.requests(self._reads, self._read)

    __del__ = close


def _named(error: OSError, path: str) -> LogNotFound | LogUnreadable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return LogNotFound("no such log", log=path)
    hint = None
    if error.errno == errno.EMFILE:
        hint = "too many files are open in this process; raise the limit with ulimit -n"
    reason = f"it cannot be read: {error.strerror or error}"
    return LogUnreadable(reason, log=path, code=error.errno, hint=hint)


def _seek_and_read(descriptor: int, length: int, offset: int) -> bytes:
    with _seek_lock:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, length)


_seek_lock = threading.Lock()
_pread = getattr(os, "pread", _seek_and_read)  # Windows has none


class LocalListing:
    """All `*.eval` below a folder, in no particular order. Links to folders are not followed.

    A link to a log is an alias and is left out if it leads to a log below the same folder, which
    is listed under its own name.
    """

    def __init__(self, folder: str, *, below: str = "") -> None:
        """`below` is a path in `folder` to which the listing is confined ("" for all of it)."""
        self.unlisted: dict[str, str] = {}
        self.json_files: list[str] = []
        self._folder = folder
        self._below = below

    def __iter__(self) -> Iterator[Listed]:
        """Raise `RootUnreadable` if the folder itself cannot be listed."""
        pending = [self._below]
        while pending:
            prefix = pending.pop()
            folder = os.path.join(self._folder, prefix) if prefix else self._folder
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                reason = error.strerror or str(error)
                if prefix == self._below:
                    raise RootUnreadable(
                        f"it cannot be listed: {reason}", log=folder, code=error.errno
                    ) from None
                self.unlisted[prefix] = reason
                continue
            for entry in entries:
                path = f"{prefix}/{entry.name}" if prefix else entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                elif entry.name.endswith(".eval"):
                    listed = self._listed(entry, path)
                    if listed is not None:
                        yield listed
                elif entry.name.endswith(".json"):
                    self.json_files.append(path)

    def _listed(self, entry: os.DirEntry[str], path: str) -> Listed | None:
        if entry.is_symlink() and is_alias(entry.path, self._folder):
            return None
        try:
            status = entry.stat()
        except OSError:
            return Listed(path, None, None)  # opening it will say why
        return Listed(path, stat_version(status), status.st_size, status.st_mtime_ns)


def is_alias(path: str, folder: str) -> bool:
    """Whether what is at a path is a link that a listing of the folder leaves out: to a folder, or
    to a log that is listed under its own name."""
    if not os.path.islink(path):
        return False
    target = os.path.realpath(path)
    if os.path.isdir(target):
        return True
    inside = target.startswith(folder + os.sep) and target.endswith(".eval")
    return inside and os.path.exists(target)


def listed_log(location: str, path: str) -> Iterator[Listed]:
    """The log at a full path as a listing would have it; nothing if it is not there."""
    try:
        status = os.stat(location)
    except OSError as error:
        if os.path.islink(location) or error.errno not in (errno.ENOENT, errno.ENOTDIR):
            yield Listed(path, None, None)  # opening it will say why
        return
    yield Listed(path, stat_version(status), status.st_size, status.st_mtime_ns)
