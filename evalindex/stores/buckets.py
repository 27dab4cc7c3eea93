"""Clients of object stores and web servers: one a bucket and process, through obstore.

How a store is reached is told by the usual environment (AWS_*, AZURE_*, GOOGLE_*), as inspect's
own file systems have it. What goes wrong is named; obstore has tried again before that.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from evalindex.errors import (
    EvalIndexError,
    LogChanged,
    LogNotFound,
    LogUnreadable,
    MissingExtra,
    StoreDenied,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.stores import Meter

#: Schemes by the kind of store.
_KINDS = {
    "s3": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "http": "http",
    "https": "http",
}
_VARIABLES = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
)
_TRIES = 3
_PAGE = 1_000  # keys that stores list in one request at most
_STATUS = re.compile(r"status code: (\d{3})")
_OTHER_RANGE = re.compile(r"Requested (\d+\.\.\d+), got (\d+\.\.\d+)")
_NO_RANGES = re.compile("non-partial response|CONTENT_RANGE")
_CODE = re.compile(r"<Code>(\w+)</Code>")

#: How much of a log's end is fetched at first, in bytes. It follows what logs need.
_TAIL = 256 * 2**10
_TAIL_LEAST = 32 * 2**10
_TAIL_MOST = 2**20


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


class Bucket:
    """A bucket, container or web server. Safe to share between threads, not to take over a fork."""

    def __init__(self, kind: str, store: Any) -> None:
        self.kind = kind
        self.store = store
        self.has_suffixes = kind != "azure"
        #: What the next log's tail is fetched with.
        self.tail = _TAIL

    def learn(self, needed: int) -> None:
        """A log's last `needed` bytes were read: go some way towards that."""
        if needed > self.tail:
            self.tail = min(_TAIL_MOST, self.tail + (needed - self.tail) // 4)
        elif needed < self.tail // 2:
            self.tail = max(_TAIL_LEAST, self.tail - (self.tail // 2 - needed) // 16)


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
        except _NotSatisfiable:
            raise changed(self._location) from None  # it was longer

    def last(self, length: int, size: int | None) -> Answer:
        """The last bytes of an object, as many as it has; `size` is its own, if that is known."""
        from obstore.exceptions import NotSupportedError

        if self.bucket.has_suffixes:
            try:
                return self._get({"range": {"suffix": length}})
            except _NotSatisfiable:
                size = None  # no bytes
            except (NotSupportedError, _NoRanges):
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
            except _NotSatisfiable:
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
        self._meter.request(len(data))
        if len(data) != stop - start:  # compressed, though nobody asked for that
            raise bad_answer(self._location, f"bytes {start}-{stop}", f"{len(data)} bytes")
        return Answer(data, start, int(meta["size"]), _etag(meta), _modified(meta))

    def head(self) -> Object:
        """What a listing would say of one object."""
        import obstore

        with _naming_errors(self._location):
            meta = obstore.head(self.bucket.store, self.key)
        self._meter.request(0)
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


def bad_answer(location: str, asked: str, got: str) -> LogUnreadable:
    return LogUnreadable(
        f"the server was asked for {asked} and gave {got}",
        log=location,
        hint="it does not serve ranges as it should; copy the log to a folder",
        code=errno.EPROTO,
    )


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


_lock = threading.Lock()
_buckets: dict[tuple[object, ...], Bucket] = {}
_forked = False


def _after_fork() -> None:
    global _forked, _lock
    _lock = threading.Lock()
    _forked = _forked or bool(_buckets)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _refuse_fork(location: str) -> None:
    if _forked:
        raise LogUnreadable(
            "stores cannot be read in a forked process whose parent has read from one",
            log=location,
            hint='start processes with the "spawn" method',
        )


def bucket_of(location: str) -> tuple[Bucket, str]:
    """The bucket of a URL, and the key in it.

    Raises `MissingExtra`, `LogNotFound` for a key that no client can ask for, `LogUnreadable` in a
    child of a process that has used a store (its client would wait for threads that are not there).
    """
    _refuse_fork(location)
    scheme, _, rest = location.partition("://")
    netloc, _, key = rest.partition("/")
    kind = _KINDS.get(scheme)
    if kind is None:
        raise LogUnreadable(
            f"no store is known for {scheme}://",
            log=location,
            hint="there are s3, gs, az, abfs, http and https; or copy the logs to a folder",
        )
    if kind == "http":
        key = unquote(key)
    if "//" in key or any(part in (".", "..") for part in key.split("/")):
        raise LogNotFound("no path of a store can be spelled like this", log=location)
    name = (scheme, netloc, *map(os.environ.get, _VARIABLES))
    with _lock:
        bucket = _buckets.get(name)
        if bucket is None:
            bucket = _buckets[name] = Bucket(kind, _client(kind, scheme, netloc))
    return bucket, key


def _client(kind: str, scheme: str, netloc: str) -> Any:
    url = f"{scheme}://{netloc}"
    try:
        from obstore import store as stores
    except ImportError:
        raise MissingExtra(
            "reading logs from stores needs obstore",
            log=url,
            hint='pip install "evalindex[remote]"',
        ) from None
    common: dict[str, Any] = {
        # A request may be as large as a sample; what must not happen is silence.
        "client_options": {
            "connect_timeout": timedelta(seconds=5),
            "read_timeout": timedelta(seconds=20),
            "timeout": timedelta(minutes=30),
            "default_headers": {"Accept-Encoding": "identity"},
        },
        "retry_config": {
            "max_retries": 5,
            "retry_timeout": timedelta(seconds=20),
            "backoff": {
                "init_backoff": timedelta(milliseconds=50),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }
    options = common["client_options"]
    try:
        if kind == "http":
            options["allow_http"] = scheme == "http"
            return stores.HTTPStore.from_url(url, **common)
        if kind == "s3":
            found = _s3_options(url)
            options["allow_http"] = str(found.get("endpoint", "")).startswith("http://")
            return stores.S3Store(netloc, **found, **common)
        if kind == "gcs":
            emulator = os.environ.get("STORAGE_EMULATOR_HOST")
            found = {} if emulator is None else {"service_account_key": _emulated(emulator)}
            options["allow_http"] = bool(emulator)
            return stores.GCSStore(netloc, **found, **common)
        endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT", "")
        options["allow_http"] = endpoint.startswith("http://")
        return stores.from_url(url, **common)
    except EvalIndexError:
        raise
    except Exception as error:
        raise _named(error, url) from None


def _emulated(host: str) -> str:
    """The account that makes obstore talk to an emulator, without credentials."""
    url = host if "://" in host else f"http://{host}"
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": ""}
    return json.dumps({**account, "private_key_id": ""})


def _s3_options(url: str) -> dict[str, Any]:
    """What obstore does not read from the environment itself."""
    options: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["endpoint"] = endpoint
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        options["region"] = region
    anonymous = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "yes")
    if anonymous or (os.environ.get("AWS_ACCESS_KEY_ID") and not os.environ.get("AWS_PROFILE")):
        return options
    from evalindex.stores.aws import session_options

    return {**session_options(url), **options}


class _NoRanges(LogUnreadable):
    """All of an object was given instead of a range, and is not read; or an error."""


class _NotSatisfiable(Exception):
    """An answer 416: the object is empty, or ends before the range."""


@contextmanager
def _naming_errors(location: str) -> Iterator[None]:
    """Name what obstore raises for a location, but for what it cannot do."""
    _refuse_fork(location)
    from obstore.exceptions import NotSupportedError

    try:
        yield
    except (EvalIndexError, NotSupportedError):
        raise
    except Exception as error:
        raise _named(error, location) from None


def _named(error: Exception, location: str) -> Exception:
    """What an error of obstore means to a person."""
    from obstore import exceptions

    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    number = int(status[1]) if status else 0
    name = code[1] if code else ""
    if name in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in text.lower():
        return StoreDenied("there is no such bucket", log=location, hint="look at its name")
    if isinstance(error, FileNotFoundError):
        return LogNotFound("no such log", log=location)
    if isinstance(error, exceptions.PreconditionError):
        return changed(location)
    if _NO_RANGES.search(text) or number in (400, 405, 501):
        what = f"an error {number}" if number else "something else"
        return _NoRanges(
            f"the server gave {what} where a part was asked for",
            log=location,
            hint="it does not serve ranges; copy the log to a folder",
            code=errno.EPROTO,
        )
    got = _OTHER_RANGE.search(text)
    if got is not None:
        return bad_answer(location, f"bytes {got[1]}", got[2])
    if number == 416:
        return _NotSatisfiable()
    if "without LOCATION" in text or number == 301:
        return StoreDenied(
            "the bucket is in another region", log=location, hint="set AWS_REGION to it"
        )
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    if isinstance(error, denied) or number in (401, 403):
        what = f"the store refused the credentials ({name or number or 'not valid'})"
        return StoreDenied(what, log=location, hint="look at the keys, the profile and the policy")
    if "must be specified" in text:
        return StoreDenied(
            "no account is named", log=location, hint="set AZURE_STORAGE_ACCOUNT_NAME and its key"
        )
    if "redential" in text or "169.254.169.254" in text or "metadata" in text:
        return StoreDenied(
            "no credentials were found",
            log=location,
            hint="set those of your store, or AWS_PROFILE",
        )
    # Not EIO, which would be tried again: obstore has done so.
    first = text.partition("\n")[0]
    return LogUnreadable(f"the store failed: {first}", log=location, code=errno.ECONNABORTED)


def changed(location: str) -> LogChanged:
    return LogChanged(
        "it kept changing while it was read", log=location, hint="try again when it is at rest"
    )
