"""What is known of a log, proved to hold for the one that is open, or healed (laws 3 and 4)."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, Literal, TypeVar

from evalindex import names
from evalindex.directory import PAUSES, Proof, prove, read_directory
from evalindex.errors import (
    CorruptMember,
    EvalIndexError,
    LogChanged,
    LogNotFound,
    LogUnreadable,
    NotAnEvalLog,
    SampleNotFound,
    StaleLog,
    UnsupportedMember,
    printable,
)
from evalindex.known import Known, KnownLogs, LookUp
from evalindex.stores import Meter
from evalindex.stores.access import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from evalindex.database.queries import IndexReader
    from evalindex.model import Member, SampleKey, Version
    from evalindex.place import Spot
    from evalindex.stores import LogFile

T = TypeVar("T")

OnStale = Literal["refresh", "error"]

_SAID = 10_000


class LogInCall:
    """What happens to one log within one window of a call."""

    def __init__(self, spot: Spot, wanted: Sequence[str] | None, known: Known | None) -> None:
        self.spot = spot
        self.wanted = wanted
        self.known = known
        #: Tries again since a sample was delivered, and the versions that were seen in them.
        self.tries = 0
        self.versions: set[Version | None] = set()
        #: It was there before, so if it is missing now it may come back.
        self.seen = known is not None
        #: The version for which `known` was proved in this window.
        self.proved: Version | None = None
        #: Read its directory again, whatever the version says: its bytes contradicted the rows.
        self.doubted = False
        #: Its directory was read from a log at rest: what is wrong with it stays wrong.
        self.final = False

    def try_again(self) -> None:
        self.tries += 1
        self.doubted = True

    def delivered(self) -> None:
        """A sample of it was good: what went wrong before is over."""
        self.tries = 0
        self.versions.clear()


class Healer:
    """Knows the logs of one Index and keeps that knowledge true. Safe to share between threads."""

    def __init__(self, index: IndexReader | None, on_stale: OnStale) -> None:
        self._logs = KnownLogs(index)
        self._on_stale = on_stale
        self._said: set[str] = set()
        self.meter = Meter()

    def look_up(self, questions: Sequence[LookUp]) -> list[Known | None]:
        """What is known of logs and of their members, without a look at them."""
        return self._logs.look_up(questions)

    def open(self, log: LogInCall, *, pinned: bool) -> LogFile:
        """Open a log. `pinned` is for those who read a member of it next: a remote log whose ETag
        is known is not looked at before, since that read will show whether it holds."""
        pin = log.known.proof if pinned and log.known is not None and not log.doubted else None
        return open_log(log.spot.location, pin, meter=self.meter)

    def prove(self, log: LogInCall, file: LogFile) -> Known:
        """What is known of the log that is open, proved to hold for it.

        Otherwise its directory is read from the same descriptor as its members will be. Raises
        `NotAnEvalLog`, or `StaleLog` if healing was refused.
        """
        log.seen = True
        log.versions.add(file.version)
        known = log.known
        if known is not None and not log.doubted:
            if log.proved is not None and log.proved == file.version:
                return known
            proof = self._proof(known, file)
            if proof is None and known.log_id is None:
                # What was healed holds no more, but a builder may have been here since.
                self._logs.forget(log.spot)
                (known,) = self._logs.look_up_indexed([(log.spot, log.wanted)])
                proof = None if known is None else self._proof(known, file)
            if known is not None and proof is not None:
                log.known = self._logs.proved(known, proof)
                log.proved = file.version
                return log.known
        self.meter.directory_read()
        try:
            read = read_directory(file)
        except NotAnEvalLog:
            log.final = file.at_rest()
            raise
        indexed = known
        if indexed is None or indexed.log_id is None:
            (indexed,) = self._logs.look_up_indexed([(log.spot, [])])
        if indexed is None:
            self._say(log.spot, "is not indexed")
        elif indexed.proof[1:] != read.proof[1:]:
            if self._on_stale == "error":
                raise StaleLog("it changed since it was indexed", hint="run `evalindex build`")
            self._say(log.spot, "has changed since it was indexed")
        # Even if the log is the same: it may be the index whose rows are damaged.
        log.known = self._logs.remember(log.spot, read)
        log.proved = file.version
        log.doubted = False
        log.final = file.at_rest()
        return log.known

    def _proof(self, known: Known, file: LogFile) -> Proof | None:
        proof = prove(known.proof, file)
        if proof is known.proof:
            self.meter.directory_saved(proof.size - proof.directory_offset)
        else:
            self.meter.directory_read()
        return proof

    def prove_absence(self, log: LogInCall, file: LogFile) -> Known:
        """What is known of the open log, not by rows of the index alone: they prove, by the CRC-32
        that they hold, what they find, but a row that was lost would be a sample that is absent."""
        if log.known is None or log.known.log_id is not None:
            log.doubted = True
        else:
            file.confirm()
        return self.prove(log, file)

    def retry(self, log: LogInCall, error: EvalIndexError) -> bool:
        """Whether to try the log once more after an error; waits a moment if so."""
        if not may_pass(log, error):
            return False
        time.sleep(PAUSES[log.tries])
        log.try_again()
        return True

    def after_fork(self) -> None:
        self._logs.after_fork()
        self.meter.after_fork()

    def attempt(
        self,
        spot: Spot,
        wanted: Sequence[str] | None,
        job: Callable[[LogInCall, LogFile, Known], T],
        *,
        pinned: bool = False,
        keep_open: bool = False,
    ) -> T:
        """What a job makes of one log, open and with what is known of it proved; healed and tried
        again as long as that may help. `keep_open` leaves it to the result to close the log."""
        (known,) = self._logs.look_up([(spot, wanted)])
        log = LogInCall(spot, wanted, known)
        while True:
            try:
                file = self.open(log, pinned=pinned)
                try:
                    result = job(log, file, self.prove(log, file))
                except BaseException:
                    file.close()
                    raise
                if not keep_open:
                    file.close()
                return result
            except EvalIndexError as error:
                error.log = error.log or spot.location
                if not self.retry(log, error):
                    raise last_word(log, error) from None

    def members(self, spot: Spot) -> list[Member]:
        """All members that a log has now, in file order."""

        def read(_: LogInCall, __: LogFile, known: Known) -> list[Member]:
            return sorted(known.members(), key=lambda member: member.header_offset)

        return self.attempt(spot, None, read)

    def _say(self, spot: Spot, what: str) -> None:
        """Tell once a log that it is read the slow way."""
        if spot.location in self._said or len(self._said) >= _SAID:
            return
        self._said.add(spot.location)
        import logging

        logging.getLogger("evalindex").warning(
            "%s %s, so its directory was read from it (`evalindex build` makes that lasting)",
            printable(spot.location),
            what,
        )


def absence(
    known: Known, key: SampleKey, name: str | None, *, suggest: bool = True
) -> SampleNotFound:
    """Say that a log has no member of this name (None: no member can have the key's)."""
    if name is None or not suggest:
        return SampleNotFound([key])
    try:
        neighbours = known.neighbours(name)
    except EvalIndexError:
        return SampleNotFound([key])  # the answer stands without them
    near = names.near(str(key.id), key.epoch, neighbours)
    some = [] if near else names.some(neighbours)
    hint = None if near else f"it has {', '.join(some)}" if some else "it has no samples"
    return SampleNotFound([key], near=near, hint=hint)


def may_pass(log: LogInCall, error: EvalIndexError) -> bool:
    """Whether there is a next try, at which an error may be gone."""
    if log.tries >= len(PAUSES):
        return False
    if isinstance(error, LogChanged):
        return True
    if isinstance(error, (CorruptMember, NotAnEvalLog, UnsupportedMember)):
        return not log.final
    if isinstance(error, LogUnreadable):
        return error.errno in (errno.EIO, errno.ESTALE)
    return isinstance(error, LogNotFound) and log.seen


def last_word(log: LogInCall, error: EvalIndexError) -> EvalIndexError:
    """The error to give when there are no more tries."""
    if isinstance(error, CorruptMember) and not log.final and len(log.versions) > 1:
        return StaleLog(
            f"it kept changing while it was read: {error.reason}",
            log=log.spot.location,
            hint="try again when it is at rest",
        )
    return error
