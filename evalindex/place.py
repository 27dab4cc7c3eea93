"""Where logs are: what a user calls a log or a root, and what that means.

A log has one spelling: the real path of its folder, then its name. The name may be that of a
link, which is an alias and resolved anew in each call.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol, Union
from urllib.parse import unquote

from evalindex.errors import AmbiguousLog, IndexNotFound, LogNotFound
from evalindex.locations import (
    absolute,
    folder_of,
    full_path,
    is_at_or_below,
    is_text,
    is_url,
    path_below,
    real,
)
from evalindex.stores.access import is_folder, listed_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.database.queries import IndexedLog, IndexReader

_NO_NAMES = ("", os.curdir, os.pardir)


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


def spelled(log: LogLike) -> str:
    """A path, absolute or not, or a URL, from whatever names a log or a root. Nothing is looked up
    but whether the text behind `file://` is a file as it stands."""
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
    if "\0" in text:
        raise LogNotFound("no path holds a NUL character", log=text)
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise LogNotFound("no path can be spelled like this", log=text) from None
    return text


class Places:
    """What the names of logs mean during one call, to an open index or to none.

    Roots, and where links lead, are looked up once a call.
    """

    def __init__(self, reader: IndexReader | None, base: str | None, log: str | None) -> None:
        """`base` is the folder that was opened, or that of the one `log`; relative names may also
        start there."""
        self._reader = reader
        self._base = base
        self._log = log
        self._roots = [] if reader is None else roots_of(reader)
        self._folders: dict[str, Spot] = {}

    def scope(self, where: LogLike | None) -> Scope:
        """The folder or log that a question is about; None is all that was opened."""
        where = where or self._log
        if where is None:
            return Scope(self._base)
        text = spelled(where)
        if not is_folder(text) and text.endswith(".eval"):
            location = self.locate(where).location
            return Scope(location, one_log=location)
        return Scope(real(absolute(text)))

    def locate(self, log: LogLike) -> Spot:
        """The log that is meant. Raises `LogNotFound` or `AmbiguousLog` for a relative name.

        An absolute path or URL is taken as it is, whether something is there or not.
        """
        text = spelled(log)
        if is_url(text):
            return self._spot(absolute(text))
        if os.path.isabs(text):
            return self._spot(text)
        found: dict[str, Spot] = {}
        for candidate in self._candidates(text):
            spot = self._spot(candidate)
            if self._exists(spot):
                found[spot.location] = spot
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            raise AmbiguousLog(text, found)
        raise LogNotFound(
            "no such log below the current folder"
            + (", an indexed root or the opened folder" if self._roots or self._base else ""),
            log=text,
            hint="relative names start there; give the full path otherwise",
        )

    def _candidates(self, text: str) -> Iterator[str]:
        try:
            yield os.path.join(os.getcwd(), text)
        except FileNotFoundError:
            pass  # the current folder was removed
        # `..` may lead anywhere from the current folder, as in any command, but not out of a root.
        inside = os.path.normpath(text)
        if inside.split(os.sep)[0] != os.pardir:
            for folder in (self._base, *(root.location for root in self._roots)):
                if folder is not None:
                    yield (
                        full_path(folder, inside)
                        if is_url(folder)
                        else os.path.join(folder, inside)
                    )

    def _spot(self, path: str) -> Spot:
        if is_url(path):
            return _spot_below(path, self._roots)
        cut = path.rfind(os.sep) + 1
        folder, name = path[:cut], path[cut:]
        if name in _NO_NAMES:
            return _spot_below(os.path.realpath(path), self._roots)
        # All logs of a folder lie below the same root: there may be thousands.
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._folder(folder)
        location = known.location + name
        spot = Spot(location, known.root_id, known.path + name)
        if spot.root_id is not None and not is_text(name):
            spot = Spot(location, None, location)
        # A link to a log that is indexed under its own name. One that leads out of the root is
        # indexed under the link's name, for there is no other.
        if os.path.islink(location):
            target = _spot_below(os.path.realpath(location), self._roots)
            if target.root_id is not None or spot.root_id is None:
                return target
        return spot

    def _folder(self, folder: str) -> Spot:
        """What the spots of all logs in a folder begin with."""
        location = os.path.join(os.path.realpath(folder), "")
        any_log = _spot_below(location + "x", self._roots)
        return Spot(location, any_log.root_id, any_log.path[:-1])

    def _exists(self, spot: Spot) -> bool:
        if not is_url(spot.location) and os.path.lexists(spot.location):
            return True
        if (
            self._reader is not None
            and spot.root_id is not None
            and self._reader.log(spot.root_id, spot.path) is not None
        ):
            return True
        return is_url(spot.location) and any(listed_log(spot.location, spot.path))


def _spot_below(location: str, roots: list[Root]) -> Spot:
    for root in roots:
        path = path_below(location, root.location)
        if path and is_text(path):
            return Spot(location, root.root_id, path)
    return Spot(location, None, location)


def roots_of(reader: IndexReader) -> list[Root]:
    """The roots of an index with their full paths."""
    return [
        Root(row.root_id, full_root(reader.origin, row.location), row.built_at)
        for row in reader.roots()
    ]


def full_root(index: str, location: str) -> str:
    """The full path of a root as an index spells it."""
    if is_url(location):
        return location
    if is_url(index):
        return full_path(folder_of(index), "" if location == os.curdir else location)
    return os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(index)), location))


def stored_location(index: str, root: str) -> str:
    """How an index spells a root: relative to its own folder if the root is there or below."""
    if is_url(root):
        return root
    below = path_below(root, os.path.dirname(os.path.realpath(index)))
    return root if below is None else below or "."


class Scope:
    """The part of an index that a question is about: a folder, one log, or all of it."""

    def __init__(self, location: str | None, one_log: str | None = None) -> None:
        """`location` is a full path, `one_log` the same if it is that of a log; None is
        everything."""
        self.location = location
        self.one_log = one_log

    def parts(self, roots: list[Root]) -> list[tuple[Root, str]]:
        """The roots that are meant, and the path in each to which the question is confined."""
        if self.location is None:
            return [(root, "") for root in roots]
        parts = []
        for root in roots:
            below = path_below(self.location, root.location)
            if below is not None:
                parts.append((root, below))
            elif path_below(root.location, self.location) is not None:
                parts.append((root, ""))
        if not parts:
            raise IndexNotFound(
                "the index knows nothing of this place",
                log=self.location,
                hint="run `evalindex build` on it",
            )
        return parts

    @staticmethod
    def rows(reader: IndexReader, root: Root, below: str) -> list[IndexedLog]:
        """The indexed logs of such a part."""
        return [row for row in reader.logs(root.root_id) if is_at_or_below(row.path, below)]
