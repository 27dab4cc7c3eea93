"""Where things are: what a user calls a log, a root or an index, and what that means.

A log has one spelling: the real path of its folder, then its name. The name may be that of a
link, which is an alias and resolved anew in each call.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol, Union
from urllib.parse import unquote

from evalindex.database.queries import IndexReader
from evalindex.errors import (
    AmbiguousLog,
    LogNotFound,
    LogUnreadable,
    NotAnIndex,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX_NAME = "evalindex.db"
INDEX_VARIABLE = "EVALINDEX_INDEX"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class LogInfo(Protocol):
    """Inspect's `EvalLogInfo`, as far as it matters here; its name is literal, never quoted."""

    name: str


LogLike = Union[str, "os.PathLike[str]", LogInfo]


class Root(NamedTuple):
    """A root of an index, with its full path."""

    root_id: int
    location: str
    built_at: int | None


class Spot(NamedTuple):
    """One log: its full path, and the indexed root that it lies below, if there is one.

    `path` is the part below that root, with `/` between folders; the full path without a root.
    """

    location: str
    root_id: int | None
    path: str


class Target(NamedTuple):
    """What a build is about: an index file, and the folder or the one log to look at.

    `in_cache` says that the index is not beside the logs because nothing can be written there.
    """

    index_file: str
    location: str
    one_log: bool
    in_cache: bool


def spelled(log: LogLike) -> str:
    """A path, absolute or not, from whatever names a log or a root. Nothing is looked up but
    whether the text behind `file://` is a file as it stands."""
    if isinstance(log, str):
        text = log
        if text.startswith("file://"):
            text = text.removeprefix("file://").removeprefix("localhost")
            if not os.path.lexists(text):
                text = unquote(text)
    elif isinstance(log, os.PathLike):
        text = os.fsdecode(log)
    elif isinstance(getattr(log, "name", None), str):
        text = log.name.removeprefix("file://")
    else:
        raise TypeError(f"a log is named by a str, a Path or an EvalLogInfo, not {log!r}")
    if _URL.match(text):
        raise LogUnreadable(
            "only logs on a file system can be read", log=text, hint="copy the logs to a folder"
        )
    if "\0" in text:
        raise LogNotFound("no path holds a NUL character", log=text)
    return text


def locate_folder(folder: LogLike) -> str:
    """The real path of a root."""
    return os.path.realpath(spelled(folder))


def _locate_file(path: str) -> str:
    folder, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(folder), name)


def path_below(location: str, root: str) -> str | None:
    """The part of a location below a root, None if it is not there; "" for the root itself."""
    if location == root:
        return ""
    prefix = root if root.endswith(os.sep) else root + os.sep
    if not location.startswith(prefix):
        return None
    return location[len(prefix) :].replace(os.sep, "/")


def full_path(root: str, path: str) -> str:
    return os.path.join(root, *path.split("/"))


class Places:
    """What the names of logs mean to one open index, or to none."""

    def __init__(self, reader: IndexReader | None, base: str | None) -> None:
        """`base` is the folder that was opened; relative names may also start there."""
        self._reader = reader
        self._base = base

    def roots(self) -> list[Root]:
        return [] if self._reader is None else roots_of(self._reader)

    def locate(self, log: LogLike) -> Spot:
        """The log that is meant. Raises `LogNotFound` or `AmbiguousLog` for a relative name.

        An absolute path is taken as it is, whether something is there or not.
        """
        text = spelled(log)
        roots = self.roots()
        if os.path.isabs(text):
            return self._spot(text, roots)
        found: dict[str, Spot] = {}
        for candidate in self._candidates(text, roots):
            spot = self._spot(candidate, roots)
            if self._exists(spot):
                found[spot.location] = spot
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            raise AmbiguousLog(text, found)
        raise LogNotFound(
            "no such log below the current folder"
            + (", an indexed root or the opened folder" if roots or self._base else ""),
            log=text,
            hint="relative names start there; give the full path otherwise",
        )

    def _candidates(self, text: str, roots: list[Root]) -> Iterator[str]:
        yield os.path.join(os.getcwd(), text)
        # `..` may lead anywhere from the current folder, as in any command, but not out of a root.
        inside = os.path.normpath(text)
        if inside.split(os.sep)[0] != os.pardir:
            for folder in (self._base, *(root.location for root in roots)):
                if folder is not None:
                    yield os.path.join(folder, inside)

    def _spot(self, path: str, roots: list[Root]) -> Spot:
        location = _locate_file(path)
        spot = _spot_below(location, roots)
        # A link to a log that is indexed under its own name. One that leads out of the root is
        # indexed under the link's name, for there is no other.
        if os.path.islink(location):
            target = _spot_below(os.path.realpath(location), roots)
            if target.root_id is not None or spot.root_id is None:
                return target
        return spot

    def _exists(self, spot: Spot) -> bool:
        if os.path.lexists(spot.location):
            return True
        if self._reader is None or spot.root_id is None:
            return False
        return self._reader.log(spot.root_id, spot.path) is not None


def _spot_below(location: str, roots: list[Root]) -> Spot:
    for root in roots:
        path = path_below(location, root.location)
        if path:
            return Spot(location, root.root_id, path)
    return Spot(location, None, location)


def roots_of(reader: IndexReader) -> list[Root]:
    """The roots of an index with their full paths."""
    return [
        Root(row.root_id, full_root(reader.path, row.location), row.built_at)
        for row in reader.roots()
    ]


def full_root(index: str, location: str) -> str:
    """The full path of a root as an index spells it."""
    return os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(index)), location))


def stored_location(index: str, root: str) -> str:
    """How an index spells a root: relative to its own folder if the root is there or below."""
    below = path_below(root, os.path.dirname(os.path.realpath(index)))
    return root if below is None else below or "."


def named_index(index: LogLike | None) -> str | None:
    """The index that was named by argument or environment, as a full path."""
    text = os.environ.get(INDEX_VARIABLE) or None if index is None else spelled(index)
    return None if text is None else os.path.abspath(text)


def find_index(location: str) -> str | None:
    """The index to read for a log or folder: the nearest one beside it or above, or the one in
    the user's cache if that was built later."""
    folders = list(_folders_above(location))
    beside = (os.path.join(folder, INDEX_NAME) for folder in folders)
    nearest = next(filter(os.path.exists, beside), None)
    cached = next(filter(os.path.exists, map(_cache_path, folders)), None)
    if nearest is None or cached is None:
        return nearest or cached
    return max(cached, nearest, key=lambda path: _built_at(path, location))


def _built_at(index: str, location: str) -> int:
    reader = IndexReader(index)
    try:
        return max(
            (
                root.built_at or 0
                for root in roots_of(reader)
                if path_below(location, root.location) is not None
            ),
            default=-1,
        )
    finally:
        reader.close()


def build_target(argument: LogLike, index: str | None) -> Target:
    """What `build ARGUMENT` is about; `index` is the one that was named, if any."""
    text = spelled(argument)
    one_log = text.endswith(".eval") and not os.path.isdir(text)
    location = _locate_file(text) if one_log else os.path.realpath(text)
    if one_log:
        if not os.path.lexists(location):
            raise LogNotFound("no such log", log=location)
        location = os.path.realpath(location)
    if index is not None:
        return Target(index, location, one_log, in_cache=False)
    root = os.path.dirname(location) if one_log else location
    for folder in _folders_above(root):
        for candidate in (os.path.join(folder, INDEX_NAME), _cache_path(folder)):
            if not (os.path.exists(candidate) and _can_write(candidate)):
                continue
            # Whatever is in the root's own index, its builder will deal with it.
            if folder == root or _covers(candidate, location):
                in_cache = os.path.basename(candidate) != INDEX_NAME
                return Target(candidate, location, one_log, in_cache)
    beside = os.path.join(root, INDEX_NAME)
    if _can_write(beside) or not os.path.isdir(root):
        return Target(beside, location, one_log, in_cache=False)
    return Target(_cache_path(root), location, one_log, in_cache=True)


def _covers(index: str, location: str) -> bool:
    """Whether an index has a root at or above a location."""
    try:
        reader = IndexReader(index)
    except NotAnIndex:
        return False
    try:
        return any(path_below(location, root.location) is not None for root in roots_of(reader))
    finally:
        reader.close()


def _can_write(index: str) -> bool:
    """Whether an index can be made or changed there; SQLite needs the folder too."""
    folder = os.path.dirname(index)
    return os.access(folder, os.W_OK) and (not os.path.exists(index) or os.access(index, os.W_OK))


def _folders_above(location: str) -> Iterator[str]:
    folder = location if os.path.isdir(location) else os.path.dirname(location)
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _cache_path(root: str) -> str:
    from platformdirs import user_cache_dir

    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return os.path.join(user_cache_dir("evalindex", appauthor=False), f"{digest}.db")
