"""Requests to stores and web servers, and what comes for them."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from evalindex.errors import EvalIndexError, LogUnreadable
from evalindex.stores.buckets import bucket_of, refuse_fork
from evalindex.stores.failures import NotSatisfiable, bad_answer, changed, named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from evalindex.stores import Meter

_TRIES = 3
_PAGE = 1_000  # keys that stores list in one request at most


class Answer(NamedTuple):
    """What came for a request. `data` begins at `start` of a log of `size` bytes; `etag` is
    without quotes (a weak one begins with `W/`), `modified` in ns since 1970."""

    data: bytes
    start: int
    size: int
    etag: str | None
    modified: int


class Object(NamedTuple):
    """One object of a listing."""

    key: str
    size: int
    etag: str | None
    modified: int


class Requests:
    """The requests about what a URL names, an object or a prefix: counted, their errors named."""

    def __init__(self, location: str, meter: Meter) -> None:
        """Raises as `bucket_of`."""
        self.bucket, self.key = bucket_of(location)
        self._location = location
        self._meter = meter

    def range(self, start: int, stop: int, etag: str | None) -> Answer:
        """The bytes `[start, stop)` of an object, if it still has this ETag."""
        options: dict[str, Any] = {"range": (start, stop)}
        if etag is not None and not etag.startswith("W/"):
            options["if_match"] = f'"{etag}"'
        try:
            return self._get(options)
        except NotSatisfiable:
            raise changed(self._location) from None  # it was longer

    def last(self, length: int, size: int | None) -> Answer:
        """The last bytes of an object, as many as it has; `size` is its own, if that is known."""
        if self.bucket.has_suffixes:
            try:
                return self._get({"range": {"suffix": length}})
            except NotSatisfiable:
                size = None  # no bytes
            except LogUnreadable as error:
                if error.errno != errno.EPROTO:
                    raise  # it has nothing to do with the range
                answer = self._last_of(length, None)
                if answer.size:  # of nothing some give all
                    self.bucket.has_suffixes = False
                return answer
        return self._last_of(length, size)

    def _last_of(self, length: int, size: int | None) -> Answer:
        for _ in range(_TRIES):
            if size is None:
                found = self.head()
                size = found.size
                if not size:
                    return Answer(b"", 0, 0, found.etag, found.modified)
            try:
                answer = self._get({"range": (max(0, size - length), max(1, size))})
            except NotSatisfiable:
                size = None  # it was shortened since it was listed
                continue
            if answer.start + len(answer.data) == answer.size:
                return answer
            size = answer.size  # it grew
        raise changed(self._location)

    def _get(self, options: Any) -> Answer:
        import obstore

        with _naming_errors(self._location):
            result = obstore.get(self.bucket.store, self.key, options=options)
            start, stop = result.range
            meta = result.meta
            data = result.bytes().to_bytes()
        self._meter.requests(1, len(data))
        if len(data) != stop - start:  # compressed, though nobody asked for that
            raise bad_answer(self._location, f"bytes {start}-{stop}", f"{len(data)} bytes")
        return Answer(data, start, int(meta["size"]), _etag(meta), _modified(meta))

    def head(self) -> Object:
        """What a listing would say of one object."""
        import obstore

        with _naming_errors(self._location):
            meta = obstore.head(self.bucket.store, self.key)
        self._meter.requests(1, 0)
        return Object(self.key, int(meta["size"]), _etag(meta), _modified(meta))

    def list(self) -> Iterator[Object]:
        """All the objects below a prefix, in any order."""
        import obstore

        with _naming_errors(self._location):
            for page in obstore.list(self.bucket.store, self.key or None, chunk_size=_PAGE):
                self._meter.listing()
                for meta in page:
                    size = int(meta["size"])
                    yield Object(str(meta["path"]), size, _etag(meta), _modified(meta))


def _etag(meta: Any) -> str | None:
    """Without its quotes; stores do not agree on whether listings have them."""
    etag = meta["e_tag"]
    if etag is None:
        return None
    text = str(etag)
    weak, text = ("W/", text[2:]) if text.startswith("W/") else ("", text)
    return weak + text.strip('"')


def _modified(meta: Any) -> int:
    moment: datetime = meta["last_modified"]
    return int(moment.timestamp() * 1e6) * 1_000


@contextmanager
def _naming_errors(location: str) -> Iterator[None]:
    """Name what obstore raises for a location."""
    refuse_fork(location)
    try:
        yield
    except EvalIndexError:
        raise
    except Exception as error:
        raise named(error, location) from None
