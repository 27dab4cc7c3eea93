"""Clients of object stores and web servers: one a bucket and process, through obstore.

How a store is reached is told by the usual environment (AWS_*, AZURE_*, GOOGLE_*), as inspect's
own file systems have it.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from evalindex.errors import EvalIndexError, LogNotFound, LogUnreadable, MissingExtra
from evalindex.stores.failures import named

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

#: How much of a log's end is fetched at first, in bytes. It follows what logs need.
_TAIL = 256 * 2**10
_TAIL_LEAST = 32 * 2**10
_TAIL_MOST = 2**20


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


_lock = threading.Lock()
_buckets: dict[tuple[object, ...], Bucket] = {}
_forked = False


def _after_fork() -> None:
    global _forked, _lock
    _lock = threading.Lock()
    _forked = _forked or bool(_buckets)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_fork(location: str) -> None:
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
    refuse_fork(location)
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
        raise named(error, url) from None


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
