"""Where logs live: one protocol, one file a backend.

A `Store` lists what is below a root and opens one log; a `LogFile` is one log opened once, so
that everything read from it comes from one version.
"""

from __future__ import annotations

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


class LogFile(Protocol):
    """One version of one log, open for reading."""

    size: int
    #: Time of the last change, ns since 1970.
    modified: int
    #: The version, as the store shows it; never to be recorded unless it is `settled`.
    version: Version | None

    @property
    def settled(self) -> bool:
        """False if it changed so recently that a second change might leave the version as it is."""
        ...

    def read(self, start: int, stop: int) -> bytes:
        """The bytes `[start, stop)`; fewer only if the log ends before."""
        ...

    def unchanged(self) -> bool:
        """Whether the log still is what it was when it was opened."""
        ...

    def at_rest(self) -> bool:
        """Whether it neither changed shortly before it was opened nor since."""
        ...

    def close(self) -> None: ...
