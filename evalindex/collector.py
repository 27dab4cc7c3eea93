"""The garbage collector, paused while a batch of samples is made.

What is made there is delivered and holds no cycles, while every few hundred objects would have
the collector look for some: a third of the time of decoding, half of it for heavy samples.
"""

from __future__ import annotations

import gc
import os
import threading


class _Paused:
    """A context to hold while nothing of the caller's runs. Shared between threads: the first in
    stops the collector, the last out starts it again if it was running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._holders:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._holders += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders and self._was_enabled:
                gc.enable()

    def after_fork(self) -> None:
        """The child has none of the parent's threads; it may itself be inside, by the thread
        that forked, which is then let run on with the collector on."""
        self._lock = threading.Lock()
        if self._holders and self._was_enabled:
            gc.enable()
        self._holders = 0


paused = _Paused()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=paused.after_fork)
