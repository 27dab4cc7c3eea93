"""The facade that users hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakSet

from evalindex.answers import check_limits
from evalindex.asks import Asks
from evalindex.async_reads import AsyncReads
from evalindex.budget import Budget
from evalindex.errors import IndexClosed, IndexNotFound, LogNotFound, NotAnEvalLog
from evalindex.heal import Healer, OnStale
from evalindex.home import CONVERT_HINT, INDEX_NAME, find_index, named_index, open_reader
from evalindex.locations import absolute, folder_of, is_url, real
from evalindex.place import Places, spelled
from evalindex.stores.access import is_folder

if TYPE_CHECKING:
    from evalindex.database.queries import IndexReader
    from evalindex.place import LogLike
    from evalindex.progress import Progress
    from evalindex.status import IndexStatus
    from evalindex.stores import Stats
    from evalindex.verify import VerifyReport

_MAX_BYTES = 16 * 2**20
_THREADS = min(4, os.cpu_count() or 1)
_REQUESTS = 64


def open(
    where: LogLike,
    *,
    on_stale: OnStale = "refresh",
    concurrency: int | None = None,
    max_bytes: int | None = None,
) -> Index:
    """Open what there is to read: an index file, a root, or one log; each by its path or URL.

    A root needs an index: the one that EVALINDEX_INDEX names, else the nearest `evalindex.db` in
    it or above, else one in the user's cache folder, which comes first for a URL. One log can do
    without. `on_stale="error"` raises `StaleLog` for a log that changed since it was indexed
    instead of reading its directory again. `max_bytes` bounds the uncompressed bytes that all reads
    of the Index hold together (16 MiB if None), `concurrency` the threads that they use together,
    each with one request in flight if logs are remote (if None, 64 for those, and for others as
    many as there are processors, at most 4); a call may ask for less.
    """
    if on_stale not in ("refresh", "error"):
        raise ValueError(f'on_stale is "refresh" or "error", not {on_stale!r}')
    check_limits(concurrency=concurrency, max_bytes=max_bytes)
    path = absolute(spelled(where))
    base: str | None = None
    log: str | None = None
    index: str | None = path
    if is_folder(path) and not path.endswith((".db", ".json")):
        base = real(path)
        index = named_index(None) or find_index(base)
        if index is None:
            raise IndexNotFound("nothing is indexed here", log=path, hint=_hint_below(base))
    elif not (is_url(path) or os.path.lexists(path)) and not path.endswith(
        (".db", ".eval", ".json")
    ):
        raise IndexNotFound("there is no such folder, log or index", log=path)
    elif path.endswith(".json"):
        raise NotAnEvalLog("it is no .eval log", log=path, hint=CONVERT_HINT)
    elif path.endswith(".eval"):
        base, index = _around(path)
        log = path
    return Index(index, base, log, on_stale, _budget(concurrency, max_bytes))


def _hint_below(folder: str) -> str:
    try:
        below = [
            entry.name
            for entry in os.scandir(folder)
            if entry.is_dir() and os.path.exists(os.path.join(entry.path, INDEX_NAME))
        ]
    except OSError:
        below = []
    if not below:
        return "run `evalindex build` on this folder"
    names = ", ".join(sorted(below)[:3]) + (" ..." if len(below) > 3 else "")
    return f"there are indexes in {names}; `evalindex build` makes one of this folder"


def open_log(log: LogLike) -> Index:
    """Open what there is to read one log with, whatever its name ends in."""
    path = absolute(spelled(log))
    base, index = _around(path)
    return Index(index, base, path, "refresh", _budget(None, None))


def _around(path: str) -> tuple[str, str | None]:
    """The folder of a log, and the index that covers it, if there is one."""
    if is_url(path):
        base = folder_of(path)
        return base, named_index(None) or find_index(base)
    if not os.path.lexists(path):
        raise LogNotFound("no such log", log=path)
    base = os.path.realpath(os.path.dirname(path))
    return base, named_index(None) or find_index(base) or find_index(os.path.realpath(path))


def _budget(concurrency: int | None, max_bytes: int | None) -> Budget:
    threads = concurrency or _THREADS
    requests = concurrency or _REQUESTS
    return Budget(_MAX_BYTES if max_bytes is None else max_bytes, threads, requests)


class Index(Asks, AsyncReads):
    """What `open` returns: reads samples, checked against the logs as they are now.

    Safe to share between threads. A context manager, sync and async; closing it closes the index
    file.
    """

    def __init__(
        self,
        index: str | None,
        base: str | None,
        log: str | None,
        on_stale: OnStale,
        budget: Budget,
    ) -> None:
        """Use `open`."""
        reader = None if index is None else open_reader(index)
        super().__init__(Healer(reader, on_stale), budget)
        self._reader = reader
        self._base = base
        self._log = log
        self._closed = False
        _indexes.add(self)

    def _after_fork(self) -> None:
        self._healer.after_fork()
        self._budget.after_fork()

    @property
    def path(self) -> str | None:
        """The index file, None if one log was opened that no index covers."""
        return None if self._reader is None else self._reader.path

    @property
    def stats(self) -> Stats:
        """What the reads of this Index have taken so far, and what the index saved them."""
        return self._healer.meter.read()

    def locate(self, log: LogLike) -> str:
        """The full path of a log, as answers give it, whatever it was called."""
        return self._places().locate(log).location

    def status(self, where: LogLike | None = None) -> IndexStatus:
        """The index itself, and for each log of a folder (or one log, or all that was opened)
        whether it is as it was indexed. Reads no samples."""
        from evalindex.status import status

        return status(self._indexed(), self._places().scope(where))

    def verify(
        self,
        where: LogLike | None = None,
        *,
        sample: int | None = None,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Read every member of each indexed log (or `sample` random ones), compare lengths,
        CRC-32s, names and ids, the index's rows with the logs, and check the index file."""
        check_limits(sample=sample)
        from evalindex.verify import verify

        return verify(
            self._indexed(), self._places().scope(where), sample=sample, progress=progress
        )

    def _indexed(self) -> IndexReader:
        self._check_open()
        if self._reader is None:
            raise IndexNotFound("one log was opened, and no index knows it")
        return self._reader

    def _places(self) -> Places:
        """Names of logs are resolved anew in each call."""
        self._check_open()
        return Places(self._reader, self._base, self._log)

    def _check_open(self) -> None:
        if self._closed:
            raise IndexClosed("the index was closed", log=self.path)

    def close(self) -> None:
        """Close the index file. Reads after that raise `IndexClosed`."""
        self._closed = True
        if self._reader is not None:
            self._reader.close()

    def __repr__(self) -> str:
        return f"<evalindex.Index of {self.path or self._base}{', closed' if self._closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Index cannot be pickled: open it in each process")

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Index:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _after_fork() -> None:
    for index in _indexes:
        index._after_fork()


_indexes: WeakSet[Index] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
