"""The garbage collector, paused while a batch of samples is made.

What is made there is delivered and holds no cycles, while every few hundred objects would have
the collector look for some: a third of the time of decoding, half of it for heavy samples.
"""

from __future__ import annotations

import gc
import os
import threading


class paused:  # noqa: N801 - used like a function
    """A context to hold while nothing of the caller's runs. Shared between threads: the first in
    stops the collector, the last out starts it again if it was running. An exit that an interrupt
    has swallowed is made up for when the context goes."""

    def __enter__(self) -> None:
        _holders.enter(self)

    def __exit__(self, *_: object) -> None:
        _holders.leave(self)

    __del__ = __exit__


class _Holders:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: set[int] = set()
        self._was_enabled = False

    def enter(self, holder: paused) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
            self._inside.add(id(holder))
            gc.disable()

    def leave(self, holder: paused) -> None:
        if id(holder) not in self._inside:
            return
        with self._lock:
            if self._inside == {id(holder)} and self._was_enabled:
                gc.enable()
            self._inside.discard(id(holder))

    def after_fork(self) -> None:
        """The child has none of the parent's threads; it may itself be inside, by the thread
        that forked, which is then let run on with the collector on."""
        self._lock = threading.RLock()
        if self._inside and self._was_enabled:
            gc.enable()
        self._inside.clear()


_holders = _Holders()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_holders.after_fork)
