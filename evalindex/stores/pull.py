"""A copy of an index that lies in a store, in the user's cache: fetched when it has changed."""

from __future__ import annotations

import os
from contextlib import suppress
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from evalindex.errors import IndexNotFound, IndexNotWritable, LogNotFound
from evalindex.stores import Meter
from evalindex.stores.access import listed_log
from evalindex.stores.remote import RemoteFile

if TYPE_CHECKING:
    from collections.abc import Callable

_PART = 8 * 2**20


def pull(url: str, copy: str) -> str:
    """Make `copy` what is at a URL now, and return it. Its ETag is kept beside it.

    Raises `IndexNotFound`, `IndexNotWritable`, or what the store answers.
    """
    found = next(listed_log(url, url), None)
    if found is None:
        raise IndexNotFound("there is no such index", log=url)
    label = f"{copy}.version"
    if found.version is not None and os.path.exists(copy):
        with suppress(OSError), open(label, encoding="utf-8") as file:
            if file.read() == found.version:
                return copy
    folder = os.path.dirname(copy)
    try:
        os.makedirs(folder, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(label)  # until the copy is another one, and this its label
        with NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
            try:
                version = _fetch(url, part.write)
            except BaseException:
                os.unlink(part.name)
                raise
        os.replace(part.name, copy)
        if version is not None:
            with open(label, "w", encoding="utf-8") as file:
                file.write(version)
    except LogNotFound:
        raise IndexNotFound("there is no such index", log=url) from None
    except OSError as error:
        raise IndexNotWritable(
            f"no copy of the index can be kept: {error.strerror}", log=copy
        ) from None
    return copy


def _fetch(url: str, write: Callable[[bytes], object]) -> str | None:
    """All the bytes of an object, of one version, which is returned."""
    with RemoteFile(url, None, None, Meter()) as file:
        for start in range(0, file.size, _PART):
            write(file.read(start, start + _PART))
        return file.version
