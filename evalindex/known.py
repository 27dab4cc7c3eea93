"""What is known of logs: rows of the index, and healed directories that are kept for a while.

Rows and the proof that they hold are found, kept and dropped together (law 1).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from evalindex.directory import Proof, ReadDirectory, stored_proof
from evalindex.names import chunked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from evalindex.database.queries import IndexedLog, IndexedVersion, IndexReader
    from evalindex.model import Member, Version
    from evalindex.place import Spot

_HEALED_LIMIT = 64 * 2**20  # bytes of memory (law 4)
_ROW_SIZE = 250  # bytes of memory that a row of a directory takes beside its name
_NEIGHBOURS = 500
_VERSIONS = 100_000


#: A log, and the names of the members that are wanted of it; None is all of them.
LookUp = tuple["Spot", "Sequence[str] | None"]


class Known(NamedTuple):
    """One version of one log: the proof, and its members.

    `log_id` is that of the index, None for what was read from the log itself. From the index,
    `find` and `members` have only what was looked up. `below` has all members of a prefix that
    ends with a slash; none if the index has another version of the log by now.
    """

    proof: Proof
    find: Callable[[str], Member | None]
    members: Callable[[], Iterable[Member]]
    neighbours: Callable[[str], Sequence[str]]
    below: Callable[[str], Sequence[Member]]
    log_id: int | None


def _known_by_itself(read: ReadDirectory) -> Known:
    directory = read.directory

    @lru_cache(maxsize=1)
    def ordered() -> list[str]:
        return sorted(directory.rows)

    def neighbours(name: str) -> Sequence[str]:
        middle = bisect_left(ordered(), name)
        return ordered()[max(0, middle - _NEIGHBOURS) : middle + _NEIGHBOURS]

    def below(prefix: str) -> Sequence[Member]:
        found = islice(ordered(), bisect_left(ordered(), prefix), None)
        names = list(takewhile(lambda name: name.startswith(prefix), found))
        return [member for name in names if (member := directory.member(name)) is not None]

    return Known(read.proof, directory.member, directory.members, neighbours, below, None)


class KnownLogs:
    """All that one Index knows of logs. Safe to share between threads."""

    def __init__(self, reader: IndexReader | None) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._healed: OrderedDict[str, tuple[Known, int]] = OrderedDict()
        self._healed_size = 0
        self._versions: dict[tuple[int, bytes], Version] = {}

    def look_up(self, questions: Sequence[LookUp]) -> list[Known | None]:
        """What was healed of each log, else what is indexed."""
        with self._lock:
            found: list[Known | None] = []
            for spot, _ in questions:
                healed = self._healed.get(spot.location)
                if healed is not None:
                    self._healed.move_to_end(spot.location)
                found.append(None if healed is None else healed[0])
        left = [n for n, known in enumerate(found) if known is None]
        for n, known in zip(left, self.look_up_indexed([questions[n] for n in left]), strict=True):
            found[n] = known
        return found

    def look_up_indexed(self, questions: Sequence[LookUp]) -> list[Known | None]:
        """What the index has; None too for a log that was unreadable when it was built."""
        found: list[Known | None] = [None] * len(questions)
        if self._reader is None:
            return found
        some: dict[int, tuple[int, str, Sequence[str]]] = {}
        for n, (spot, wanted) in enumerate(questions):
            if spot.root_id is None:
                continue
            if wanted is None:
                all_of_it = self._reader.members(spot.root_id, spot.path)
                found[n] = None if all_of_it is None else self._known(*all_of_it)
            else:
                some[n] = (spot.root_id, spot.path, wanted)
        if some:
            answers = self._reader.find(list(some.values()), chunked_name)
            for n, answer in zip(some, answers, strict=True):
                found[n] = None if answer is None else self._known(*answer)
        return found

    def _known(self, row: IndexedLog | IndexedVersion, members: dict[str, Member]) -> Known | None:
        proof, reader = stored_proof(row), self._reader
        if proof is None or reader is None:
            return None
        newer = self._versions.get((row.log_id, proof.digest))
        return Known(
            proof if newer is None else proof._replace(version=newer),
            members.get,
            members.values,
            lambda name: reader.neighbours(row.log_id, name, _NEIGHBOURS),
            lambda prefix: reader.below(row.log_id, prefix),
            row.log_id,
        )

    def proved(self, known: Known, proof: Proof) -> Known:
        """Keep a newer proof, so that the next window need not read the log's tail again."""
        if proof is known.proof:
            return known
        if known.log_id is not None and proof.version is not None:
            if len(self._versions) >= _VERSIONS:
                self._versions.clear()
            self._versions[known.log_id, proof.digest] = proof.version
        return known._replace(proof=proof)

    def remember(self, spot: Spot, read: ReadDirectory) -> Known:
        """Keep what was just read from a log."""
        known, rows = _known_by_itself(read), read.directory.rows
        size = _ROW_SIZE * (len(rows) + 1) + 2 * sum(map(len, rows))  # the name, raw too
        with self._lock:
            self._drop(spot.location)
            if size <= _HEALED_LIMIT:
                self._healed[spot.location] = (known, size)
                self._healed_size += size
            while self._healed_size > _HEALED_LIMIT:
                self._drop(next(iter(self._healed)))
        return known

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def forget(self, spot: Spot) -> None:
        """Drop what was read from a log and holds no more."""
        with self._lock:
            self._drop(spot.location)

    def _drop(self, location: str) -> None:
        entry = self._healed.pop(location, None)
        if entry is not None:
            self._healed_size -= entry[1]
