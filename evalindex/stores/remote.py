"""Logs in object stores and on web servers: each read is one request, pinned to one version.

A log whose version is known costs no request before its first read: `If-Match` goes with each,
and what each answer says of itself is compared too, since there are servers that ignore it. Of
others the tail is fetched first, which tells version and size and mostly holds what is wanted next.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from evalindex.errors import LogNotFound, LogUnreadable, RootUnreadable
from evalindex.locations import full_path
from evalindex.model import Version
from evalindex.stores import Listed
from evalindex.stores.failures import bad_answer, changed
from evalindex.stores.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.stores import Meter, Pin
    from evalindex.stores.buckets import Bucket
    from evalindex.stores.requests import Answer

_ETAG = "etag "
_SETTLED_NS = 2_000_000_000


def _version(bucket: Bucket, etag: str | None, size: int) -> Version | None:
    """A strong ETag with the size. Those of web servers are often made of time and size, which
    pins a read but proves nothing."""
    if etag is None or etag.startswith("W/") or bucket.kind == "http":
        return None
    return Version(f"{_ETAG}{etag} {size}")


class RemoteFile:
    """One version of a remote log. What was fetched with its end is not fetched again."""

    distant = True

    def __init__(self, location: str, pin: Pin | None, size: int | None, meter: Meter) -> None:
        """With a `pin` to a version that requests can be held to, nothing is asked yet. `size` is
        the log's, if a listing told. Raises `LogNotFound`, `LogUnreadable` or `StoreDenied`."""
        self._location = location
        self._requests = Requests(location, meter)
        self._directory = None if pin is None else pin.directory_offset
        self._lowest: int | None = None
        self.modified = 0
        if pin is not None and pin.version is not None and pin.version.startswith(_ETAG):
            self.version: Version | None = pin.version
            self._etag: str | None = pin.version.removeprefix(_ETAG).rpartition(" ")[0]
            self.size = pin.size
            #: Bytes of the log's end, and where they start.
            self._end = (pin.size, b"")
            return
        bucket = self._requests.bucket
        length = bucket.tail if pin is None else max(1, pin.size - pin.directory_offset)
        answer = self._requests.last(length, size)
        self._check_range(answer, max(0, answer.size - length), answer.size)
        self._end = (answer.start, answer.data)
        self.size = self._lowest = answer.size
        self._etag, self.modified = answer.etag, answer.modified
        self.version = _version(bucket, answer.etag, answer.size)

    @property
    def settled(self) -> bool:
        return True  # each change gives another ETag

    def read(self, start: int, stop: int) -> bytes:
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        if self._lowest is not None:
            self._lowest = min(self._lowest, start)
        end_start, end = self._end
        if stop <= end_start and stop < self.size:
            return self._fetch(start, stop)
        if start < end_start:
            # The directory comes in one go.
            whole = stop == self.size and not end and self._directory is not None
            first = min(start, self._directory or 0) if whole else start
            end_start, end = self._end = (first, self._fetch(first, end_start) + end)
        return end[start - end_start : stop - end_start]

    def _fetch(self, start: int, stop: int) -> bytes:
        answer = self._requests.range(start, stop, self._etag)
        self.modified = self.modified or answer.modified
        if (answer.etag, answer.size) != (self._etag, self.size) or (
            self.version is None and answer.modified != self.modified
        ):
            raise changed(self._location)
        self._check_range(answer, start, stop)
        return answer.data

    def _check_range(self, answer: Answer, start: int, stop: int) -> None:
        if (answer.start, answer.start + len(answer.data)) != (start, stop):
            got = f"{answer.start}-{answer.start + len(answer.data)} of {answer.size}"
            raise bad_answer(self._location, f"bytes {start}-{stop}", got)

    def confirm(self) -> None:
        if not self.modified and self.size:
            self._fetch(0, 1)

    def unchanged(self) -> bool:
        return True  # or a read would have raised

    def at_rest(self) -> bool:
        """What a version that is known by its ETag holds will not change any more."""
        return self.version is not None or time.time_ns() - self.modified >= _SETTLED_NS

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._lowest is not None:
            self._requests.bucket.learn(self.size - self._lowest)
            self._lowest = None


class RemoteListing:
    """All `*.eval` below a prefix, in no particular order. Web servers have none."""

    def __init__(self, root: str, below: str, meter: Meter) -> None:
        """`below` is a path in the root to which the listing is confined ("" for all of it)."""
        self.unlisted: dict[str, str] = {}
        self.json_files: list[str] = []
        self._root = root
        self._below = below
        self._meter = meter

    def __iter__(self) -> Iterator[Listed]:
        """Raise `StoreDenied`, or `RootUnreadable` for what cannot be listed."""
        location = full_path(self._root, self._below)
        requests = Requests(location, self._meter)
        if requests.bucket.kind == "http":
            raise RootUnreadable(
                "a web server cannot be listed", log=location, hint="name its logs one by one"
            )
        root = Requests(self._root, self._meter).key
        skip = len(root) + 1 if root else 0
        try:
            for item in requests.list():
                path = item.key[skip:]
                if item.key.endswith(".eval"):
                    version = _version(requests.bucket, item.etag, item.size)
                    yield Listed(path, version, item.size, item.modified)
                elif item.key.endswith(".json"):
                    self.json_files.append(path)
        except LogUnreadable as error:
            raise RootUnreadable(error.reason, log=location, hint=error.hint) from None


def listed_log(location: str, path: str, meter: Meter) -> Iterator[Listed]:
    """The log at a URL as a listing would have it; nothing if it is not there."""
    requests = Requests(location, meter)
    try:
        found = requests.head()
    except LogNotFound:
        return
    version = _version(requests.bucket, found.etag, found.size)
    yield Listed(path, version, found.size, found.modified)
