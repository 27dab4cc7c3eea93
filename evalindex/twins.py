"""The async twins of the reads: whole runs of samples on worker threads, under asyncio or trio.

There is no event loop in the core (law 7), so a twin is the read itself, done elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evalindex.collector import paused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")
Wanted = Callable[[Iterable[Any]], Iterable[Any]]

#: Seconds of work for which a thread is borrowed: a hop costs a hundredth of that, and no more
#: samples wait for their consumer than are read meanwhile.
_RUN = 0.01


async def all_of(start: Callable[[Wanted], Iterator[T]]) -> list[T]:
    """All that an iterator gives, which is made, and run with the collector paused, on a worker
    thread.

    Cancelled, it returns at once, and the thread stops behind the sample that it is reading, or
    the key that it is taking. `start` is given what makes its keys end there.
    """
    runs = _Runs(start, paused())
    try:
        return await runs.next(for_seconds=float("inf"))
    finally:
        runs.stop()


async def each_of(start: Callable[[Wanted], Iterator[T]]) -> AsyncGenerator[T, None]:
    """The same, in runs, as they come; what is made meanwhile may be the caller's keys."""
    runs = _Runs(start, nullcontext())
    try:
        while items := await runs.next(for_seconds=_RUN):
            for item in items:
                yield item
    finally:
        runs.stop()


class _Runs(Generic[T]):
    """An iterator that is run on worker threads, by one at a time, and can be left alone."""

    def __init__(
        self, start: Callable[[Wanted], Iterator[T]], around: AbstractContextManager[None]
    ) -> None:
        self._start = start
        self._around = around
        self._iterator: Iterator[T] | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()  # is held while the iterator runs
        self._stopped = False

    async def next(self, for_seconds: float) -> list[T]:
        """The items of the next run, none at the end. What goes wrong behind some items is raised
        by the next call."""
        from anyio.to_thread import run_sync

        error, self._error = self._error, None
        if error is not None:
            raise error
        return await run_sync(self._run, time.monotonic() + for_seconds, abandon_on_cancel=True)

    def _run(self, until: float) -> list[T]:
        items: list[T] = []
        with self._lock:
            try:
                if self._iterator is None:
                    self._iterator = self._start(self._wanted)
                with self._around:
                    for item in self._iterator:
                        items.append(item)
                        if self._stopped or time.monotonic() >= until:
                            break
            except Exception as error:
                if not items or until == float("inf"):
                    raise
                self._error = error
        if self._stopped:
            self._close()
        return items

    def _wanted(self, keys: Iterable[Any]) -> Iterable[Any]:
        """The keys, as long as somebody wants the answers."""
        if isinstance(keys, (str, bytes)):
            return keys  # no keys, which will be said
        return takewhile(lambda _: not self._stopped, keys)

    def stop(self) -> None:
        """Let go of what the iterator holds, as soon as it is not running."""
        self._stopped = True
        self._close()

    def _close(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                close = getattr(self._iterator, "close", None)
                if close is not None:
                    close()
            finally:
                self._lock.release()
