"""How many bytes reads may hold, and how many threads may read (law 8). Nobody ever waits for
anybody."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Budget:
    """Uncompressed bytes that all reads of an Index may hold together, and threads they may use:
    for remote logs as many as requests may be in flight."""

    def __init__(self, most: int, threads: int, requests: int) -> None:
        self._most = most
        self._held = 0
        self._threads = {False: threads, True: requests}
        self._busy = 0
        #: How many forks lie behind this process.
        self.generation = 0
        self._lock = threading.Lock()

    def take(self, size: int, *, always: bool = False) -> bool:
        """Whether `size` bytes are granted; `always` grants them whatever others hold."""
        with self._lock:
            granted = always or self._held + size <= self._most
            if granted:
                self._held += size
            return granted

    def after_fork(self) -> None:
        """What the parent's threads hold is not held here."""
        self._lock = threading.Lock()
        self._held = 0
        self._busy = 0
        self.generation += 1

    def give_back(self, size: int, generation: int = 0) -> None:
        """Only what was taken in this process, which the generation tells."""
        with self._lock:
            if generation == self.generation:
                self._held -= size

    @contextmanager
    def threads(self, limit: int | None, wanted: int, *, distant: bool) -> Iterator[int]:
        """As many threads as are free, up to those wanted and to the call's own limit; one at
        least, for that is the caller's own."""
        with self._lock:
            free = self._threads[distant] - self._busy
            granted = max(1, min(wanted, free if limit is None else min(limit, free)))
            self._busy += granted
        try:
            yield granted
        finally:
            with self._lock:
                self._busy -= granted


class Account:
    """What one call holds of the budget, by position of the sample. The call's threads share it."""

    def __init__(self, budget: Budget, most: int | None) -> None:
        """`most` bounds this call alone."""
        self._budget = budget
        self._generation = budget.generation
        self._most = most
        self._sizes: dict[int, int] = {}
        self._held = 0
        self._lock = threading.Lock()

    def hold(self, position: int, size: int, *, always: bool) -> bool:
        """Hold `size` bytes for a sample, more or less than before, if they are granted.

        `always` is for the sample that is delivered next: it is never refused.
        """
        with self._lock:
            more = size - self._sizes.get(position, 0)
            if not more:
                return True
            too_much = self._most is not None and self._held + more > self._most
            if too_much and more > 0 and not always:
                return False
            if not self._budget.take(more, always=always or more <= 0):
                return False
            self._sizes[position] = size
            self._held += more
            return True

    def release(self, position: int) -> None:
        with self._lock:
            size = self._sizes.pop(position, 0)
            self._held -= size
        self._budget.give_back(size, self._generation)

    def release_all(self) -> None:
        for position in list(self._sizes):
            self.release(position)
