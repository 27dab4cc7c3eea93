"""Where an index lives: the one that is named, beside the logs or above, or in the user's cache."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from evalindex.database.queries import IndexReader
from evalindex.errors import (
    EvalIndexError,
    IndexEmpty,
    IndexNotWritable,
    LogNotFound,
    NotAnEvalLog,
    NotAnIndex,
    RootUnreadable,
)
from evalindex.place import LogLike, is_text, path_below, roots_of, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX_NAME = "evalindex.db"
INDEX_VARIABLE = "EVALINDEX_INDEX"
_SERVERS = ("postgresql:", "postgres:")
CONVERT_HINT = "a log in the .json format: inspect log convert --to eval --output-dir DIR LOG"


class Target(NamedTuple):
    """What a build is about: an index file, and the folder or the one log to look at.

    `in_cache` says that the index is not beside the logs because nothing can be written there.
    """

    index_file: str
    location: str
    one_log: bool
    in_cache: bool


def named_index(index: LogLike | None) -> str | None:
    """The index that was named by argument or environment, as a full path."""
    if index is None:
        index = os.environ.get(INDEX_VARIABLE) or None
    if index is None:
        return None
    if isinstance(index, str) and index.startswith(_SERVERS):
        raise NotAnIndex(
            "an index on a server cannot be used yet", log=index, hint="name a file with --index"
        )
    return os.path.abspath(spelled(index))


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
    try:
        reader = IndexReader(index)
    except EvalIndexError:
        return -2  # the other one may do
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
    """What `build ARGUMENT` is about; `index` is the one that was named, if any. The index's folder
    is made if need be."""
    text = spelled(argument)
    one_log = text.endswith(".eval") and not os.path.isdir(text)
    location = os.path.realpath(text)
    if one_log and not os.path.lexists(text):
        raise LogNotFound("no such log", log=location)
    if not one_log and os.path.isfile(location):
        raise NotAnEvalLog(
            "it is neither a folder nor an .eval log", log=location, hint=CONVERT_HINT
        )
    if not is_text(location):
        raise RootUnreadable("its name is not UTF-8", log=location, hint="rename it")
    if index is not None:
        target = Target(index, location, one_log, in_cache=False)
    else:
        target = _unnamed_target(location, one_log)
    if not (one_log or os.path.isdir(location) or os.path.exists(target.index_file)):
        raise RootUnreadable("there is no such folder", log=location, code=errno.ENOENT)
    folder = os.path.dirname(target.index_file)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise IndexNotWritable(
            f"the folder of the index cannot be made: {error.strerror}",
            log=folder,
            hint="name another file with --index",
        ) from None
    return target


def _unnamed_target(location: str, one_log: bool) -> Target:
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
    except (NotAnIndex, IndexEmpty):
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
