"""A machine that plays the lives of logs against an index that is built, healed and read in any
order. Every answer is compared with what zipfile finds in the log now, or is a named error.

One machine is one seed: the same seed takes the same steps.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, Protocol

import evalindex
from tests.builders import encoded
from tests.prove.faults import Faults
from tests.prove.logs import CHANGES, EPOCHS, IDS, Truth, new_log, truth
from tests.servers.lying import Liar

_NAMES = ("a.eval", "b.eval", "sub/c.eval", "sub/d.eval")
_REMEMBERED = 30
_OLD = 1_700_000_000 * 10**9
_sleep = time.sleep


class Store(Protocol):
    """Where the logs of a machine are."""

    root: str

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, data: bytes, rng: random.Random) -> str:
        """How it was done, in words."""
        ...

    def delete(self, name: str) -> None: ...
    def stir(self, name: str, rng: random.Random) -> str:
        """Something that leaves the bytes as they are."""
        ...


class Folder:
    """Logs on a file system, written in every way that programs write."""

    def __init__(self, root: Path, *, tick: bool) -> None:
        """With `tick` a change is only made when the clock of the file system has moved on, so
        that it shows: versions may be recorded at once then."""
        self.path = root
        self.root = str(root)
        self._tick = tick
        root.mkdir(parents=True)

    def get(self, name: str) -> bytes | None:
        path = self.path / name
        return path.read_bytes() if path.exists() else None

    def put(self, name: str, data: bytes, rng: random.Random) -> str:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        self._wait(path)
        how = rng.choice(["renamed", "in place", "in place, old time", "moved here, old time"])
        old = path.read_bytes() if path.exists() else b""
        if how.startswith("in place") and path.exists():
            same = next(
                (n for n, (a, b) in enumerate(zip(old, data, strict=False)) if a != b),
                min(len(old), len(data)),
            )
            with path.open("r+b") as file:
                file.seek(same)
                file.write(data[same:])
                file.truncate()
        else:
            beside = self.path / "beside"
            beside.write_bytes(data)
            if "old time" in how:
                os.utime(beside, ns=(_OLD, _OLD))
            beside.replace(path)
        if "old time" in how:
            os.utime(path, ns=(_OLD, _OLD))
        return how

    def delete(self, name: str) -> None:
        (self.path / name).unlink()

    def stir(self, name: str, rng: random.Random) -> str:
        path = self.path / name
        how = rng.choice(["touched", "aged", "from the future", "copied over itself"])
        if how == "copied over itself":
            shutil.copy2(path, self.path / "beside")
            (self.path / "beside").replace(path)
        else:
            at = {"touched": time.time_ns(), "aged": _OLD, "from the future": 2 * _OLD}[how]
            os.utime(path, ns=(at, at))
        return how

    def _wait(self, path: Path) -> None:
        if not (self._tick and path.exists()):
            return
        before = path.stat().st_ctime_ns
        probe = self.path / "probe"
        while True:
            probe.touch()
            if probe.stat().st_ctime_ns > before:
                probe.unlink()
                return
            _sleep(0.001)


class Bucket:
    """Logs in a store, which now and then ignores If-Match, or has weak ETags or none."""

    def __init__(self, liar: Liar, root: str) -> None:
        self.root = root
        self._liar = liar

    def get(self, name: str) -> bytes | None:
        found = self._liar.objects.get(f"{self.root}/{name}".removeprefix("s3://"))
        return None if found is None else found[0]

    def put(self, name: str, data: bytes, rng: random.Random) -> str:
        self._liar.put(f"{self.root}/{name}", data)
        return self._lie(rng)

    def delete(self, name: str) -> None:
        self._liar.delete(f"{self.root}/{name}")

    def stir(self, name: str, rng: random.Random) -> str:
        return self._lie(rng)

    def _lie(self, rng: random.Random) -> str:
        self._liar.lies.clear()
        lie = rng.choice(["", "", "ignores_if_match", "weak_etags", "no_etags"])
        if lie:
            self._liar.lies.add(lie)  # type: ignore[arg-type]
        return lie or "no lie"


class Wrong(AssertionError):
    """An answer that is neither the sample that the log holds nor an error that may be."""


class Machine:
    def __init__(
        self, seed: int, store: Store, index_file: Path, faults: Faults | None = None
    ) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._store = store
        self._index_file = index_file
        self._history: deque[str] = deque(maxlen=_REMEMBERED)
        self._seed = seed
        self._truths: dict[bytes, Truth | None] = {}
        self._saved: list[tuple[bytes, bool]] = []
        #: What was built last; empty if that build went wrong.
        self._built: dict[str, bytes | None] = {}
        self._faults = faults
        self._disturbed = self._killed = False
        self._open: list[tuple[evalindex.Index, bool]] = []
        #: Logs in which a bit was changed: zipfile and we need not agree on what can be read.
        self._flipped: set[str] = set()
        self._written: dict[tuple[str, int], set[bytes]] = {}

    def run(self, steps: int) -> Counter[str]:
        """Raises `Wrong`, with the steps that led there."""
        try:
            with self._faults.around() if self._faults else nullcontext():
                for name in _NAMES[:2]:
                    self._put(name, new_log(self.rng))
                self._build()
                for _ in range(steps):
                    self._step()
        except Exception as error:
            story = "\n  ".join(self._history)
            raise Wrong(f"seed {self._seed}: {error!r}\n  {story}") from error
        finally:
            for index, _ in self._open:
                index.close()
        return self.counts

    def _step(self) -> None:
        step = self.rng.choices(list(_STEPS), list(_STEPS.values()))[0]
        self._disturbed = self._faults is not None and self.rng.random() < 0.3
        try:
            with self._faults.active() if self._faults and self._disturbed else nullcontext():
                step(self)
        except KeyboardInterrupt:
            if not self._disturbed:
                raise
            self._history[-1] += ", interrupted"
        except evalindex.IndexBusy:
            if not self._killed:
                raise
            self._history[-1] += ", busy"

    def _note(self, what: str) -> None:
        self._history.append(what)
        self.counts[what.split(":")[0]] += 1

    # What happens to logs

    def _truth(self, name: str) -> Truth | None:
        data = self._store.get(name)
        if data is None:
            return None
        if data not in self._truths:
            if len(self._truths) > 100:
                self._truths.clear()
            self._truths[data] = truth(data)
        return self._truths[data]

    def _there(self) -> list[str]:
        return [name for name in _NAMES if self._store.get(name) is not None]

    def _put(self, name: str, data: bytes) -> None:
        how = self._store.put(name, data, self.rng)
        if self._history:
            self._history[-1] += f", {how}"
        found = self._truth(name)
        for key, document in (found.samples if found else {}).items():
            self._written.setdefault(key, set()).add(encoded(document))

    def change(self) -> None:
        name = self.rng.choice(_NAMES)
        data = self._store.get(name)
        whole = self._truth(name) is not None and name not in self._flipped
        if data is None or not whole or self.rng.random() < 0.1:
            self._note(f"new log: {name}")
            self._flipped.discard(name)
            self._put(name, new_log(self.rng))
            return
        happens = self.rng.choice(CHANGES)
        self._note(f"{happens.__name__}: {name}")
        changed = happens(data, self.rng)
        if happens.__name__ == "flip":
            self._flipped.add(name)
        self._save(data, flipped=False)
        self._put(name, changed)

    def replace(self) -> None:
        """A log is put in the place of another, or comes back as it was."""
        name = self.rng.choice(_NAMES)
        others = [
            (data, one in self._flipped)
            for one in self._there()
            if (data := self._store.get(one)) is not None
        ]
        self._note(f"replace: {name}")
        data, flipped = self.rng.choice(others + self._saved)
        (self._flipped.add if flipped else self._flipped.discard)(name)
        self._put(name, data)

    def delete(self) -> None:
        there = self._there()
        if len(there) > 1:
            name = self.rng.choice(there)
            data = self._store.get(name)
            assert data is not None
            self._save(data, flipped=name in self._flipped)
            self._note(f"delete: {name}")
            self._store.delete(name)

    def _save(self, data: bytes, *, flipped: bool) -> None:
        self._saved = [*self._saved[-5:], (data, flipped)]

    def stir(self) -> None:
        there = self._there()
        if there:
            name = self.rng.choice(there)
            self._note(f"stir: {name}, {self._store.stir(name, self.rng)}")

    # What is done with the index

    def _build(self, **options: Any) -> None:
        self._built = {}
        evalindex.build(self._store.root, self._index_file, forget=True, **options)
        self._killed = False
        if not self._disturbed:
            self._built = {name: self._store.get(name) for name in _NAMES}

    def build(self) -> None:
        options = {"full": self.rng.random() < 0.1, "summaries": self.rng.random() < 0.9}
        self._note(f"build: {options}")
        self._build(**options)

    def killed(self) -> None:
        """A builder is killed, at any moment."""
        if isinstance(self._store, Folder):
            self._note("killed")
            self._built, self._killed = {}, True
            seconds = self.rng.uniform(0.0001, 0.01)
            pid = os.fork()
            if pid == 0:
                try:
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    evalindex.build(self._store.root, self._index_file)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)

    def clock(self) -> None:
        if self._faults:
            self._note(f"clock: {self._faults.set_clock()}")

    def open(self) -> None:
        strict = self.rng.random() < 0.2
        self._note(f"open: {'error' if strict else 'refresh'}")
        index = evalindex.open(self._index_file, on_stale="error" if strict else "refresh")
        self._open.append((index, strict))
        if len(self._open) > 3:
            self._open.pop(self.rng.randrange(3))[0].close()

    def _index(self) -> tuple[evalindex.Index, bool]:
        if not self._open:
            self.open()
        return self.rng.choice(self._open)

    # What is asked

    def _location(self, name: str) -> str:
        return f"{self._store.root}/{name}"

    def _key(self) -> tuple[str, str | int, int]:
        return self.rng.choice(_NAMES), self.rng.choice(IDS), self.rng.choice(EPOCHS)

    def read(self) -> None:
        name, id, epoch = self._key()
        index, strict = self._index()
        how = self.rng.choice(["bytes", "dict", "stream"])
        self._note(f"read {how}: {name} {id!r} {epoch}")
        answer: object
        try:
            if how == "stream":
                with index.stream(self._location(name), id, epoch) as file:
                    answer = file.read()
            elif how == "bytes":
                answer = index.read(self._location(name), id, epoch, as_="bytes")
            else:
                answer = index.read(self._location(name), id, epoch)
        except evalindex.EvalIndexError as error:
            answer = error
        self._compare(name, id, epoch, answer, how, strict=strict)

    def part(self) -> None:
        """Any member, or some messages or events of a sample."""
        name, id, epoch = self._key()
        index, strict = self._index()
        found = self._truth(name)
        answer: object
        wanted: object
        try:
            if self.rng.random() < 0.5:
                member = self.rng.choice([*(found.members if found else {}), "none.json"])
                self._note(f"member: {name} {member!r}")
                wanted = found.members.get(member) if found else None
                answer = index.read_member(self._location(name), member)
            else:
                field: Literal["messages", "events"] = self.rng.choice(["messages", "events"])
                start, stop = sorted(self.rng.choices(range(6), k=2))
                self._note(f"slice: {name} {id!r} {epoch} {field} {start} {stop}")
                sample = found.samples.get((str(id), epoch)) if found else None
                wanted = sample[field][start:stop] if sample else None
                answer = index.read_slice(
                    self._location(name), id, epoch, field=field, start=start, stop=stop
                )
        except evalindex.EvalIndexError as error:
            absent = evalindex.MemberNotFound, evalindex.SampleNotFound, evalindex.LogNotFound
            expected = wanted is None and (found is None or isinstance(error, absent))
            if not (expected or strict or self._disturbed or name in self._flipped):
                raise
            return
        if name in self._flipped:
            return
        if answer != wanted:
            raise Wrong(f"{answer!r} instead of {wanted!r}")

    def batch(self) -> None:
        index, strict = self._index()
        keys = [self._key() for _ in range(self.rng.randint(2, 12))]
        as_: Literal["bytes", "dict"] = self.rng.choice(["bytes", "dict"])
        self._note(f"batch: {len(keys)} {as_}")
        asked = [(self._location(name), id, epoch) for name, id, epoch in keys]
        answers = index.iter_samples(asked, as_=as_, errors="return")
        for (name, id, epoch), (_, answer) in zip(keys, answers, strict=True):
            self._compare(name, id, epoch, answer, as_, strict=strict)

    def by_uuid(self) -> None:
        uuids = self._uuids()
        if uuids:
            index, strict = self._index()
            uuid = self.rng.choice(sorted(uuids))
            self._note(f"by uuid: {uuid}")
            try:
                answer = index.read(uuid=uuid)
            except evalindex.EvalIndexError as error:
                doubtful = strict or any(map(self._is_damaged, _NAMES))
                if not doubtful and (
                    not self._disturbed or isinstance(error, evalindex.SampleNotFound)
                ):
                    raise
                return
            if answer not in uuids[uuid]:
                raise Wrong(f"{uuid} gives {answer}")

    def find(self) -> None:
        index, strict = self._index()
        id = self.rng.choice(IDS)
        self._note(f"find: {id!r}")
        rows = [(row.log, str(row.id), row.epoch, row.uuid) for row in index.find(id=str(id))]
        if len(set(rows)) != len(rows):
            raise Wrong(f"a row twice in {rows}")
        if strict or self._disturbed or not isinstance(self._store, Folder):
            return  # of a store nothing is asked for each question
        for name in _NAMES:
            found, location = self._truth(name), self._location(name)
            if self._is_damaged(name):
                continue
            got = {row[1:] for row in rows if row[0] == location}
            expected = {
                (*key, document["uuid"])
                for key, document in (found.samples if found else {}).items()
                if key[0] == str(id)
            }
            if got != expected:
                raise Wrong(f"found {sorted(got)} in {name} instead of {sorted(expected)}")

    def verify(self) -> None:
        """Finds what is wrong, and nothing else, as far as that is known for sure."""
        index, _ = self._index()
        self._note("verify")
        found = {finding.where: finding for finding in index.verify().findings}
        if str(self._index_file) in found:
            raise Wrong(f"{found[str(self._index_file)]}")
        if self._disturbed:
            return
        for name, built in self._built.items():
            data, finding = self._store.get(name), found.get(self._location(name))
            lost = data is None or self._truth(name) is None
            if finding and data == built and not self._is_damaged(name):
                raise Wrong(f"{finding} of a log that is as it was")
            if not finding and built is not None and lost:
                raise Wrong(f"nothing is found of {name}, which cannot be read")

    def elsewhere(self) -> None:
        """The root and its index are copied, with all times, and read there."""
        if not isinstance(self._store, Folder):
            return
        self._note("elsewhere")
        copy = self._store.path.with_name("copy")
        shutil.copytree(self._store.path, copy)
        try:
            inside = copy / "evalindex.db"
            if not inside.exists():
                return
            with evalindex.open(inside) as index:
                for _ in range(5):
                    name, id, epoch = self._key()
                    try:
                        answer: object = index.read(copy / name, id, epoch, as_="bytes")
                    except evalindex.EvalIndexError as error:
                        answer = error
                    self._compare(name, id, epoch, answer, "bytes", strict=False)
        finally:
            shutil.rmtree(copy)

    # What is right

    def _is_damaged(self, name: str) -> bool:
        """Whether a log is there and cannot be read whole."""
        found = self._truth(name)
        there = self._store.get(name) is not None
        return there and (found is None or not found.whole or name in self._flipped)

    def _uuids(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for name in self._there():
            log = self._truth(name)
            for document in (log.samples if log else {}).values():
                found.setdefault(document["uuid"], []).append(document)
        return found

    def _compare(
        self, name: str, id: str | int, epoch: int, answer: object, how: str, *, strict: bool
    ) -> None:
        def wrong(expected: object) -> Wrong:
            return Wrong(f"{name} {id!r} {epoch} gives {answer!r} instead of {expected!r}")

        data, found = self._store.get(name), self._truth(name)
        error = answer if isinstance(answer, evalindex.EvalIndexError) else None
        if strict and data != self._built.get(name) and isinstance(error, evalindex.StaleLog):
            return
        if self._killed and isinstance(error, evalindex.IndexBusy):
            return
        if data is None:
            if not isinstance(error, evalindex.LogNotFound):
                raise wrong("LogNotFound")
            return
        untrue = evalindex.LogNotFound, evalindex.SampleNotFound
        if self._disturbed and error is not None and not isinstance(error, untrue):
            return
        member = f"samples/{id}_epoch_{epoch}.json"
        if name in self._flipped:
            known = self._written.get((str(id), epoch), set())
            if error is None and _as_bytes(answer, known) not in known:
                raise wrong("an error")
            return
        if found is None:
            if error is None or isinstance(error, evalindex.SampleNotFound):
                raise wrong("another error")
            return
        sample = found.samples.get((str(id), epoch))
        if sample is None:
            if not isinstance(error, evalindex.SampleNotFound):
                raise wrong("SampleNotFound")
        elif how == "dict":
            if answer != sample:
                raise wrong(sample)
        elif member not in found.members:
            if not isinstance(error, evalindex.UnsupportedMember):
                raise wrong("UnsupportedMember")
        elif answer != found.members[member]:
            raise wrong(found.members[member])


def _as_bytes(answer: object, known: set[bytes]) -> object:
    """The bytes of which a dict was made."""
    if isinstance(answer, dict):
        return next((one for one in known if json.loads(one) == answer), None)
    return answer


_STEPS: dict[Callable[[Machine], None], int] = {
    Machine.change: 30,
    Machine.replace: 4,
    Machine.delete: 3,
    Machine.stir: 6,
    Machine.build: 12,
    Machine.open: 5,
    Machine.read: 30,
    Machine.batch: 15,
    Machine.part: 6,
    Machine.by_uuid: 5,
    Machine.find: 8,
    Machine.elsewhere: 2,
    Machine.verify: 2,
    Machine.killed: 1,
    Machine.clock: 1,
}
