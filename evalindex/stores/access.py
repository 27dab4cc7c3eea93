"""The store that a location belongs to. Remote ones are loaded when they are first needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from evalindex.locations import is_url
from evalindex.stores import Meter, local
from evalindex.stores.local import LocalFile, LocalListing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.stores import Listed, Listing, LogFile, Pin

#: What the URLs of stores begin with.
SCHEMES = ("s3://", "gs://", "gcs://", "az://", "abfs://", "abfss://", "http://", "https://")


def open_log(
    location: str, pin: Pin | None = None, *, size: int | None = None, meter: Meter | None = None
) -> LogFile:
    """Open a log. Of a remote one, a `pin` to a strong ETag saves the look at its end: whether it
    holds, the first read will show. `size` is what a listing told.

    Raises `LogNotFound`, `LogUnreadable`, `StoreDenied` or `MissingExtra`.
    """
    if not is_url(location):
        return LocalFile(location, meter)
    from evalindex.stores.remote import RemoteFile

    return RemoteFile(location, pin, size, meter or Meter())


def can_read(url: str) -> bool:
    """Whether there is what it takes to read from such a store."""
    if not url.lower().startswith(SCHEMES):
        return url.startswith("file://")
    from importlib.util import find_spec

    return find_spec("obstore") is not None


def list_logs(root: str, below: str = "", meter: Meter | None = None) -> Listing:
    """The logs below a root, or below a path in it."""
    if not is_url(root):
        return LocalListing(root, below=below)
    from evalindex.stores.remote import RemoteListing

    return RemoteListing(root, below, meter or Meter())


def can_list(root: str) -> bool:
    """Whether what is below a root can be found; of web servers only what is known already."""
    return not root.lower().startswith(("http://", "https://"))


def listed_log(location: str, path: str, meter: Meter | None = None) -> Iterator[Listed]:
    """The log at a location as a listing would have it; nothing if it is not there."""
    if not is_url(location):
        return local.listed_log(location, path)
    from evalindex.stores import remote

    return remote.listed_log(location, path, meter or Meter())


def is_folder(location: str) -> bool:
    """Whether logs can lie below a location; of a URL its name alone tells."""
    return not location.endswith(".eval") if is_url(location) else os.path.isdir(location)
