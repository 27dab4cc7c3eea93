"""Keys -> rows -> spans -> bytes, in windows, within limits.

A window is a run of requests that are resolved together. Its samples are fetched in delivery
order, as many at a time as the budget grants, one open descriptor at a time, and handed over in
that order. Whatever goes wrong with one sample is the answer to that one request.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from evalindex import names
from evalindex.budget import Account, Budget
from evalindex.collector import paused
from evalindex.errors import CorruptMember, EvalIndexError, SampleNotFound
from evalindex.fetch import fetch, fetch_one
from evalindex.heal import Healer, LogInCall, absence, last_word, may_pass
from evalindex.locations import is_url
from evalindex.model import Member, SampleKey
from evalindex.request import Content, Request, content_of, held, is_chunked, members_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from evalindex.fetch import Threads
    from evalindex.known import Known
    from evalindex.place import Spot
    from evalindex.stores import LogFile

T = TypeVar("T")

_WINDOW_KEYS = 10_000
_WINDOW_LOGS = 256
_SUGGEST_FOR = 3
_MET_AT_ONCE = 16  # remote logs that no index knows: whole directories are in memory meanwhile


def read(
    healer: Healer,
    budget: Budget,
    requests: Iterable[Request],
    finish: Callable[[Request, Content], T],
    *,
    max_bytes: int | None = None,
    threads: int | None = None,
    ordered: bool = True,
    all_misses: bool = False,
) -> Generator[tuple[Request, T | EvalIndexError], None, None]:
    """The answer to each request, in order: what `finish` makes of the checked bytes, or the
    error in its place.

    `finish` raises `CorruptMember` for bytes that are not the sample; its other errors stand.
    `max_bytes` and `threads` bound this call within the budget. Unless `ordered`, the requests of
    a window are taken log by log. With `all_misses` a `SampleNotFound` names every miss known so
    far.
    """
    account = Account(budget, max_bytes)
    try:
        for window in _windows(requests):
            if not ordered:
                window.sort(key=lambda request: request.spot.location)
            with paused():
                looked_up = _Window(
                    healer, window, account, partial(budget.threads, threads), all_misses
                )
            yield from looked_up.answers(finish)
    finally:
        account.release_all()


def _windows(requests: Iterable[Request]) -> Iterator[list[Request]]:
    window: list[Request] = []
    logs: set[str] = set()
    for request in requests:
        full = len(logs) == _WINDOW_LOGS and request.spot.location not in logs
        if full or len(window) == _WINDOW_KEYS:
            yield window
            window, logs = [], set()
        window.append(request)
        logs.add(request.spot.location)
    if window:
        yield window


class _Log(LogInCall):
    """A log of a window, and the window's requests for it."""

    def __init__(
        self, spot: Spot, wanted: list[str], known: Known | None, positions: list[int]
    ) -> None:
        super().__init__(spot, wanted, known)
        self.positions = positions
        self.left = len(positions)
        #: Its directory was read ahead of its turn, or could not be.
        self.met = False
        #: The rows by which misses were told.
        self.judged: object = None


class _Window:
    def __init__(
        self,
        healer: Healer,
        requests: Sequence[Request],
        account: Account,
        threads: Threads,
        all_misses: bool,
    ) -> None:
        self._healer = healer
        self._threads = threads
        self._requests = requests
        self._account = account
        self._all_misses = all_misses
        self._ready: dict[int, Content | EvalIndexError] = {}
        self._missing: dict[int, SampleKey] = {}
        self._absences = 0
        positions: dict[Spot, list[int]] = {}
        for position, request in enumerate(requests):
            positions.setdefault(request.spot, []).append(position)
            if request.error is not None:
                self._ready[position] = request.error
        questions = [
            (spot, [name for position in found if (name := requests[position].name) is not None])
            for spot, found in positions.items()
        ]
        self._logs = {
            spot: _Log(spot, wanted, known, positions[spot])
            for (spot, wanted), known in zip(questions, healer.look_up(questions), strict=True)
        }

    def answers(
        self, finish: Callable[[Request, Content], T]
    ) -> Iterator[tuple[Request, T | EvalIndexError]]:
        for position, request in enumerate(self._requests):
            if request.error is not None:
                yield request, request.error
                continue
            log = self._logs[request.spot]
            answer = self._answer(position, request, log, finish)
            self._account.release(position)
            log.left -= 1
            if not log.left:
                log.known = None  # it may be a whole directory
            yield request, answer

    def _answer(
        self, position: int, request: Request, log: _Log, finish: Callable[[Request, Content], T]
    ) -> T | EvalIndexError:
        while True:
            if position not in self._ready:
                with paused():
                    self._fetch(position)
            result = self._ready.pop(position)
            if not isinstance(result, EvalIndexError):
                try:
                    answer = finish(request, result)
                    log.delivered()
                    return answer
                except CorruptMember as error:
                    error.log = error.log or log.spot.location
                    result = error
                except EvalIndexError as error:
                    error.log = error.log or log.spot.location
                    return error
            if not self._retry(log, result):
                return self._last_word(log, result)

    def _fetch(self, head: int) -> None:
        """Make the answer at `head` ready, and as many behind it as the budget grants."""
        if self._is_unmet(self._requests[head]):
            self._meet(head)
        chosen: dict[Spot, dict[int, Sequence[Member]]] = {}
        for position in range(head, len(self._requests)):
            if position in self._ready:
                continue
            request = self._requests[position]
            known = self._logs[request.spot].known
            if known is None and position != head:
                break  # what it will take is known when its directory was read
            try:
                members = () if known is None else members_of(known, request)
            except EvalIndexError:
                members = ()  # it will be said when it is read
            if not self._account.hold(position, held(members), always=position == head):
                break
            chosen.setdefault(request.spot, {})[position] = members
        distant = [spot for spot in chosen if is_url(spot.location)]
        if len(distant) > 1:
            self._at_once(
                [
                    partial(self._fetch_from, self._logs[spot], chosen.pop(spot), head)
                    for spot in distant
                ]
            )
        for spot, wanted in chosen.items():
            self._fetch_from(self._logs[spot], wanted, head)

    def _at_once(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do jobs that wait for answers of stores, on threads of their own."""
        with self._threads(len(jobs), distant=True) as granted:
            if granted < 2:
                for job in jobs:
                    job()
                return
            from concurrent.futures import ThreadPoolExecutor

            try:
                with ThreadPoolExecutor(granted, thread_name_prefix="evalindex-read") as pool:
                    for done in [pool.submit(job) for job in jobs]:
                        done.result()
            except RuntimeError:  # no thread can be started any more
                for job in jobs:
                    job()

    def _is_unmet(self, request: Request) -> bool:
        log = self._logs[request.spot]
        return log.known is None and not log.met and is_url(request.spot.location)

    def _meet(self, head: int) -> None:
        """Read the directories of the next remote logs that no index knows."""
        unmet: dict[Spot, _Log] = {}
        for request in islice(self._requests, head, None):
            if request.error is None and self._is_unmet(request):
                unmet[request.spot] = self._logs[request.spot]
                if len(unmet) == _MET_AT_ONCE:
                    break

        def meet(log: _Log) -> None:
            log.met = True
            with suppress(EvalIndexError):  # it will be said when the log is read
                log.known = self._healer.attempt(log.spot, log.wanted, lambda _, __, known: known)

        if len(unmet) > 1:
            self._at_once([partial(meet, log) for log in unmet.values()])

    def _fetch_from(self, log: _Log, wanted: dict[int, Sequence[Member]], head: int) -> None:
        try:
            with self._healer.open(log, pinned=True) as file:
                expected = log.known
                known = self._healer.prove(log, file)
                if known is not expected:
                    wanted = self._wanted_now(known, wanted, head)
                if self._may_miss(log, wanted) and self._find_missing(log, known):
                    known = self._healer.prove_absence(log, file)
                    self._find_missing(log, known)
                    wanted = self._wanted_now(known, wanted, head)
                self._read_members(log, known, file, wanted)
        except EvalIndexError as error:
            log.judged = None  # the misses may not be proved
            error.log = error.log or log.spot.location
            for position in wanted:
                self._ready.setdefault(position, error)

    def _wanted_now(
        self, known: Known, positions: Iterable[int], head: int
    ) -> dict[int, Sequence[Member]]:
        """The members of some requests, and those of them for which the budget still is enough:
        a healed member may be larger than the one that it was asked for."""
        wanted: dict[int, Sequence[Member]] = {}
        for position in positions:
            members = members_of(known, self._requests[position])
            if self._account.hold(position, held(members), always=position == head):
                wanted[position] = members
        return wanted

    def _read_members(
        self, log: _Log, known: Known, file: LogFile, wanted: dict[int, Sequence[Member]]
    ) -> None:
        distinct = {member: None for members in wanted.values() for member in members}
        if len(distinct) == 1:
            (member,) = distinct
            found = {member: fetch_one(file, member)}
        else:
            found = dict(fetch(file, distinct, self._threads))
        for position, members in wanted.items():
            request = self._requests[position]
            content: Content | EvalIndexError
            if members:
                content = content_of(request, members, found)
            else:
                self._absences += 1
                suggest = self._absences <= _SUGGEST_FOR
                content = absence(known, request.sample, request.name, suggest=suggest)
            if isinstance(content, EvalIndexError):
                content.log = content.log or log.spot.location
            self._ready[position] = content
        log.final = log.final and file.at_rest()

    def _may_miss(self, log: _Log, wanted: dict[int, Sequence[Member]]) -> bool:
        """Whether it has to be asked which samples these rows do not have: they were found wanting
        before, or do not have each of these as a single member."""
        if log.judged is not None:
            return True
        for position, members in wanted.items():
            if not members or is_chunked(self._requests[position], members):
                return True
        return False

    def _find_missing(self, log: _Log, known: Known) -> bool:
        """Find which of this window's samples these rows do not have. Whether they prove too
        little: that a sample is absent, or that a chunked one has no more parts."""
        if log.judged is known.find:
            return False
        log.judged = known.find
        unproved = False
        for position in log.positions:
            request = self._requests[position]
            name = request.name
            unproved = unproved or (name is not None and known.find(name) is None)
            if name is not None and (known.find(name) or known.find(names.chunked_name(name))):
                self._missing.pop(position, None)
            else:
                self._missing[position] = request.sample
        return unproved

    def _retry(self, log: _Log, error: EvalIndexError) -> bool:
        if not self._healer.retry(log, error):
            return False
        # Others that failed have waited as long.
        again = {log.spot}
        for position, failed in list(self._ready.items()):
            spot = self._requests[position].spot
            if not isinstance(failed, EvalIndexError) or self._requests[position].error:
                continue
            other = self._logs[spot]
            if spot not in again and may_pass(other, failed):
                other.try_again()
                again.add(spot)
            if spot in again:
                del self._ready[position]
        return True

    def _last_word(self, log: _Log, error: EvalIndexError) -> EvalIndexError:
        if isinstance(error, SampleNotFound) and self._all_misses:
            missing = [self._missing[position] for position in sorted(self._missing)]
            return SampleNotFound(missing, near=error.near, hint=error.hint)
        return last_word(log, error)
