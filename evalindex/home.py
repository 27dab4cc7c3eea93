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
    MissingExtra,
    NotAnEvalLog,
    NotAnIndex,
    RootUnreadable,
)
from evalindex.locations import absolute, folder_of, is_text, is_url, path_below, real
from evalindex.place import LogLike, roots_of, spelled
from evalindex.stores.access import is_folder, listed_log

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
    """The index that was named by argument or environment, as a full path or URL."""
    if index is None:
        index = os.environ.get(INDEX_VARIABLE) or None
    if index is None:
        return None
    if isinstance(index, str) and index.startswith(_SERVERS):
        raise NotAnIndex(
            "an index on a server cannot be used yet", log=index, hint="name a file with --index"
        )
    return absolute(spelled(index))


def find_index(location: str) -> str | None:
    """The index to read for a log or folder: the nearest one beside it or above, or the one in
    the user's cache if that was built later. For a URL the cache comes first, and the answer may
    be a URL, for `open_reader`."""
    folders = list(_folders_above(location))
    if is_url(location):
        cached = next(filter(os.path.exists, map(_cache_path, folders)), None)
        return cached or next(
            filter(_is_object, (f"{folder}/{INDEX_NAME}" for folder in folders)), None
        )
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
    one_log = text.endswith(".eval") and not is_folder(text)
    location = real(absolute(text))
    remote = is_url(location)
    if one_log and not remote and not os.path.lexists(text):
        raise LogNotFound("no such log", log=location)
    if not one_log and not remote and os.path.isfile(location):
        raise NotAnEvalLog(
            "it is neither a folder nor an .eval log", log=location, hint=CONVERT_HINT
        )
    if not is_text(location):
        raise RootUnreadable("its name is not UTF-8", log=location, hint="rename it")
    if index is not None and is_url(index):
        raise IndexNotWritable(
            "no index can be built in a store",
            log=index,
            hint="build into a file and copy that there",
        )
    if index is not None:
        target = Target(index, location, one_log, in_cache=False)
    else:
        target = _unnamed_target(location, one_log)
    if not (one_log or remote or os.path.isdir(location) or os.path.exists(target.index_file)):
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
    root = folder_of(location) if one_log else location
    for folder in _folders_above(root):
        for candidate in _index_files(folder):
            if not (os.path.exists(candidate) and _can_write(candidate)):
                continue
            # Whatever is in the root's own index, its builder will deal with it.
            if folder == root or _covers(candidate, location):
                in_cache = os.path.basename(candidate) != INDEX_NAME
                return Target(candidate, location, one_log, in_cache)
    file, *cached = _index_files(root)
    if cached and not _can_write(file) and os.path.isdir(root):
        (file,) = cached
    return Target(file, location, one_log, in_cache=os.path.basename(file) != INDEX_NAME)


def _index_files(folder: str) -> list[str]:
    """Where the index of a folder may be: in it, if files can be there, and in the cache."""
    beside = [] if is_url(folder) else [os.path.join(folder, INDEX_NAME)]
    return [*beside, _cache_path(folder)]


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
    folder = location if is_folder(location) else folder_of(location)
    while True:
        yield folder
        parent = folder_of(folder)
        if parent == folder:
            return
        folder = parent


def _cache_path(root: str) -> str:
    from platformdirs import user_cache_dir

    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return os.path.join(user_cache_dir("evalindex", appauthor=False), f"{digest}.db")


def _is_object(url: str) -> bool:
    """Whether there is an index in a store; what cannot be looked at is none."""
    try:
        return any(listed_log(url, url))
    except MissingExtra:
        raise
    except EvalIndexError:
        return False


def open_reader(index: str) -> IndexReader:
    """Open an index file. One in a store is fetched to the user's cache, unless it is there."""
    if not is_url(index):
        return IndexReader(index)
    from evalindex.stores.pull import pull

    return IndexReader(pull(index, _cache_path(index)), origin=index)
