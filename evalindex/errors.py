"""Every error that evalindex raises on purpose.

    EvalIndexError
    ├── SampleNotFound      (KeyError, IndexError)   absent from a log that was checked in this call
    ├── LogNotFound         (FileNotFoundError)      no such log
    ├── LogUnreadable       (OSError)                there, but its bytes cannot be had
    ├── NotAnEvalLog        (ValueError)             a malformed archive, or none at all
    ├── StaleLog                                     changed, and kept changing or may not be healed
    │   └── LogChanged                               again and again, while it was read
    ├── CorruptMember                                its bytes are not what the directory says
    ├── UnsupportedMember                            encrypted, unknown method, or no such form
    ├── MemberNotFound      (KeyError)               no member of that name in the log
    ├── SampleInvalid       (ValueError)             inspect makes no EvalSample of it
    ├── UnsupportedInspect  (ImportError)            an inspect_ai that cannot be used
    ├── AmbiguousLog                                 a relative name means two different logs
    ├── RootUnreadable      (OSError)                cannot be listed, or is suddenly empty
    ├── StoreDenied                                  permission or credentials refused
    ├── IndexNotFound                                nothing was built yet
    ├── NotAnIndex                                   a foreign or damaged file
    ├── IndexTooNew                                  written by a newer evalindex
    ├── IndexOutdated                                written by too old an evalindex
    ├── IndexBusy                                    a builder holds it, or has to run again
    │   └── IndexEmpty                               its first build is starting, or was stopped
    ├── IndexNotWritable    (OSError)                no permission, read-only, a full disk
    ├── IndexClosed         (ValueError)             used after close
    └── MissingExtra        (ImportError)            an optional dependency is not installed

An error says what happened, to which log, and in `.hint` what to do next. Texts that come from
logs (ids, paths, reasons) are escaped when the error is printed, never before.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evalindex.model import SampleKey


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, hide, or fail to encode."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )


class EvalIndexError(Exception):
    """The root of all errors here.

    `reason` is one sentence without the log's name, `log` the path or URL it is about (or None),
    `hint` what a person can do next (or None).
    """

    def __init__(self, reason: str, *, log: str | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.log = log
        self.hint = hint

    def __str__(self) -> str:
        text = self.reason if self.log is None else f"{self.log}: {self.reason}"
        return printable(text if self.hint is None else f"{text} ({self.hint})")

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with `args` alone and lose what makes errors useful.
        return (_revive, (type(self), self.reason, self.__dict__))


def _revive(kind: type[EvalIndexError], reason: str, state: dict[str, Any]) -> EvalIndexError:
    error = kind.__new__(kind)
    EvalIndexError.__init__(error, reason)
    for name, value in state.items():
        setattr(error, name, value)
    return error


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


class SampleNotFound(EvalIndexError, KeyError, IndexError):
    """`missing` holds every key known to be absent, `near` ids of the log that look like them."""

    def __init__(
        self,
        missing: Iterable[SampleKey],
        *,
        near: Iterable[str] = (),
        uuid: str | None = None,
        log: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.missing = tuple(missing)
        self.near = tuple(near)
        logs = {key.log for key in self.missing}
        if log is None and len(logs) == 1:
            (log,) = logs
        shown = [
            f"id {_short(key.id)} epoch {key.epoch}" + ("" if key.log == log else f" of {key.log}")
            for key in self.missing[:10]
        ]
        if len(self.missing) > 10:
            shown.append(f"and {len(self.missing) - 10} more")
        if uuid is not None:
            shown.append(f"the uuid {uuid!r}")
        if hint is None and self.near:
            hint = "near: " + ", ".join(self.near)
        super().__init__("no sample with " + ", ".join(shown), log=log, hint=hint)


class _SystemError(EvalIndexError, OSError):
    """An error that is also an OSError, with the errno and filename that callers look at."""

    code = errno.EIO

    def __init__(
        self,
        reason: str,
        *,
        log: str | None = None,
        hint: str | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(reason, log=log, hint=hint)
        self.errno = self.code if code is None else code
        self.strerror = reason
        self.filename = log

    def __reduce__(self) -> tuple[Any, ...]:
        state = {**self.__dict__, "errno": self.errno, "strerror": self.strerror}
        return (_revive, (type(self), self.reason, {**state, "filename": self.filename}))


class LogNotFound(_SystemError, FileNotFoundError):
    """No log of that name."""

    code = errno.ENOENT


class LogUnreadable(_SystemError):
    """The log exists, but cannot be read: permissions, a folder, a device, an I/O error."""


class NotAnEvalLog(EvalIndexError, ValueError):
    """Empty, truncated, no zip archive, or one whose directory contradicts itself."""


class StaleLog(EvalIndexError):
    """The log is not the one that was indexed, and could not or should not be healed."""


class LogChanged(StaleLog):
    """The log changed between two requests, again and again."""


class CorruptMember(EvalIndexError):
    """Length, CRC-32, name or id of a member differ from what the log's directory says."""


class UnsupportedMember(EvalIndexError):
    """The member exists, but is encrypted, uses an unknown method, or has no such form."""


class MemberNotFound(EvalIndexError, KeyError):
    """The log has no member of that name."""


class SampleInvalid(EvalIndexError, ValueError):
    """The sample is as the log holds it, but inspect refuses it; the cause is its exception."""


class UnsupportedInspect(EvalIndexError, ImportError):
    """The installed inspect_ai has not what is needed to make samples; the hint names versions."""


class AmbiguousLog(EvalIndexError):
    """`candidates` are the logs that a relative name may mean."""

    def __init__(self, name: str, candidates: Iterable[str]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(
            "this name may mean " + " or ".join(self.candidates),
            log=name,
            hint="give the full path",
        )


class RootUnreadable(_SystemError):
    """A root that cannot be listed, or holds no log although the index knows some."""


class StoreDenied(EvalIndexError):
    """Credentials are missing or refused, or the bucket does not exist."""


class IndexNotFound(EvalIndexError):
    """There is no index where one was looked for."""


class NotAnIndex(EvalIndexError):
    """The file is not an index of evalindex, or is one that is damaged."""


class IndexTooNew(EvalIndexError):
    """The index was written by a newer evalindex that this one cannot read."""


class IndexOutdated(EvalIndexError):
    """The index was written by an older evalindex and has to be migrated first."""


class IndexBusy(EvalIndexError):
    """The index cannot be opened now: a builder holds it, or was stopped and must run again."""


class IndexEmpty(IndexBusy):
    """There is nothing in the index yet."""


class IndexNotWritable(_SystemError):
    """The index cannot be written here."""

    code = errno.EACCES


class IndexClosed(EvalIndexError, ValueError):
    """An Index was used after it was closed."""


class MissingExtra(EvalIndexError, ImportError):
    """An optional dependency is missing; the hint names the extra to install."""
