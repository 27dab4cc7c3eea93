"""Where logs live: one protocol, one file a backend.

A `Listing` has the logs below a root; a `LogFile` is one log opened once, so that everything that
is read from it comes from one version.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.model import Version


class Listed(NamedTuple):
    """One log below a root: its path there (`/` between folders), and if they are known its size
    in bytes and the time of its last change in ns since 1970."""

    path: str
    version: Version | None
    size: int | None
    modified: int = 0


class Listing(Protocol):
    """What is below a root; iterating it looks at the store."""

    #: Paths of the folders that could not be listed, with the reason.
    unlisted: dict[str, str]
    #: `.json` files below the root that may be logs in inspect's other format.
    json_files: list[str]

    def __iter__(self) -> Iterator[Listed]: ...


class Pin(Protocol):
    """A version of a log that is to be read, and where its directory begins."""

    @property
    def version(self) -> Version | None: ...
    @property
    def size(self) -> int: ...
    @property
    def directory_offset(self) -> int: ...


class LogFile(Protocol):
    """One version of one log, open for reading. A context manager."""

    #: Whether each read is a request that takes a round trip.
    distant: bool
    size: int
    #: Time of the last change, ns since 1970; 0 if the store was not asked yet.
    modified: int
    #: The version, as the store shows it; never to be recorded unless it is `settled`. Of a pinned
    #: log the version that it is pinned to: that it still is the log's, each read proves.
    version: Version | None

    @property
    def settled(self) -> bool:
        """False if it changed so recently that a second change might leave the version as it is."""
        ...

    def read(self, start: int, stop: int) -> bytes:
        """The bytes `[start, stop)`; fewer only if the log ends before. Raises `LogChanged` where
        the store shows that they are another version's."""
        ...

    def confirm(self) -> None:
        """Make sure that a pinned log still has its version, if nothing was read of it yet. Raises
        as `read`."""
        ...

    def unchanged(self) -> bool:
        """Whether the log still is what it was when it was opened."""
        ...

    def at_rest(self) -> bool:
        """Whether it neither changed shortly before it was opened nor since."""
        ...

    def __enter__(self) -> LogFile: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...


class Stats(NamedTuple):
    """What reads took, and what the index saved.

    `requests` and `bytes` are those of reads of logs (of a remote one each is a round trip),
    `listings` the requests that listed a store, `directory_reads` how often a log's directory was
    read, to learn it or to prove it. `directories_saved` were not read, for the version proved
    them: `bytes_saved` is what they take.
    """

    requests: int = 0
    bytes: int = 0
    listings: int = 0
    directory_reads: int = 0
    directories_saved: int = 0
    bytes_saved: int = 0


class Meter:
    """Counts what `Stats` tells. Safe to share between threads."""

    def __init__(self) -> None:
        self.after_fork()
        self._counts = [0] * len(Stats._fields)

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def read(self) -> Stats:
        with self._lock:
            return Stats(*self._counts)

    def requests(self, count: int, size: int) -> None:
        """So many requests or reads gave so many bytes together."""
        with self._lock:
            self._counts[0] += count
            self._counts[1] += size

    def listing(self) -> None:
        with self._lock:
            self._counts[2] += 1

    def directory_read(self) -> None:
        with self._lock:
            self._counts[3] += 1

    def directory_saved(self, size: int) -> None:
        with self._lock:
            self._counts[4] += 1
            self._counts[5] += size
