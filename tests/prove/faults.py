"""What goes wrong around a machine: reads of logs that fail or end early, interrupts, a clock that
is set."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

_HOUR_NS = 3600 * 10**9


class Faults:
    def __init__(self, seed: int, *, ahead: bool) -> None:
        """With `ahead` the clock of programs may be ahead of that of the file system."""
        self._rng = random.Random(seed)
        self._ahead = ahead
        self._offset = 0
        self._active = False

    @contextmanager
    def around(self) -> Iterator[None]:
        with patch.multiple("evalindex.stores.local", _pread=self._pread, time=self):
            yield

    @contextmanager
    def active(self) -> Iterator[None]:
        """Reads of logs go wrong meanwhile."""
        self._active = True
        try:
            yield
        finally:
            self._active = False

    def set_clock(self) -> str:
        self._offset = self._rng.choice([0, -1, -10 * _HOUR_NS, *[_HOUR_NS] * self._ahead])
        return f"{self._offset / 1e9:+} s"

    def time_ns(self) -> int:
        return time.time_ns() + self._offset

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        data = os.pread(descriptor, length, offset)
        if not self._active:
            return data
        fate = self._rng.random()
        if fate < 0.04:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if fate < 0.08:
            return b""
        if fate < 0.1:
            raise KeyboardInterrupt
        return data[: self._rng.randint(1, len(data))] if fate < 0.4 and data else data
