"""The facade that users hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload
from weakref import WeakSet

from evalindex.budget import Budget
from evalindex.database.queries import IndexReader
from evalindex.errors import (
    EvalIndexError,
    IndexClosed,
    IndexNotFound,
    LogNotFound,
    NotAnEvalLog,
)
from evalindex.heal import Healer, OnStale
from evalindex.home import CONVERT_HINT, find_index, named_index
from evalindex.keys import request, requests_across_logs, requests_in_log
from evalindex.listing import SampleRow, list_samples
from evalindex.place import Places, spelled
from evalindex.read import Request, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from io import BufferedReader
    from types import TracebackType
    from typing import SupportsIndex

    from evalindex.place import LogLike
    from evalindex.progress import Progress
    from evalindex.status import IndexStatus
    from evalindex.verify import VerifyReport

    As = Literal["dict", "bytes"]
    Errors = Literal["raise", "skip", "return"]

K = TypeVar("K")

_MAX_BYTES = 16 * 2**20


def open(
    where: LogLike,
    *,
    on_stale: OnStale = "refresh",
    concurrency: int | None = None,
    max_bytes: int | None = None,
) -> Index:
    """Open what there is to read: an index file, a root, or one log.

    A root needs an index: the one that EVALINDEX_INDEX names, else the nearest `evalindex.db` in
    it or above, else one in the user's cache folder. One log can do without. `on_stale="error"`
    raises `StaleLog` for a log that changed since it was indexed instead of reading its directory
    again. `max_bytes` bounds the uncompressed bytes that all reads of the Index hold together
    (16 MiB if None), `concurrency` the threads that they use together (as many as there are
    processors, at most 4, if None); a call may ask for less.
    """
    if on_stale not in ("refresh", "error"):
        raise ValueError(f'on_stale is "refresh" or "error", not {on_stale!r}')
    _check_limits(concurrency=concurrency, max_bytes=max_bytes)
    path = os.path.abspath(spelled(where))
    base: str | None = None
    index: str | None = path
    if os.path.isdir(path):
        base = os.path.realpath(path)
        index = named_index(None) or find_index(base)
        if index is None:
            raise IndexNotFound(
                "nothing is indexed here", log=path, hint="run `evalindex build` on this folder"
            )
    elif path.endswith(".json"):
        raise NotAnEvalLog("it is no .eval log", log=path, hint=CONVERT_HINT)
    elif path.endswith(".eval"):
        if not os.path.lexists(path):
            raise LogNotFound("no such log", log=path)
        base = os.path.realpath(os.path.dirname(path))
        index = named_index(None) or find_index(base) or find_index(os.path.realpath(path))
    reader = None if index is None else IndexReader(index)
    threads = concurrency or min(4, os.cpu_count() or 1)
    budget = Budget(_MAX_BYTES if max_bytes is None else max_bytes, threads)
    return Index(reader, base, on_stale, budget)


class Index:
    """What `open` returns: reads samples, checked against the logs as they are now.

    Safe to share between threads. A context manager; closing it closes the index file.

    All reads take `as_`: `"dict"` (exactly what `json.loads` gives) or `"bytes"` (the member's
    own); `exclude_fields`: top-level fields to leave out of a dict, `events_data` goes with
    `events`, `id` and `epoch` stay; `errors`: `"raise"`, `"skip"` (leave the sample out), or
    `"return"` (put the error in its place).
    """

    def __init__(
        self,
        reader: IndexReader | None,
        base: str | None,
        on_stale: OnStale,
        budget: Budget,
    ) -> None:
        self._reader = reader
        self._base = base
        self._healer = Healer(reader, on_stale)
        self._budget = budget
        self._closed = False
        _indexes.add(self)

    def _after_fork(self) -> None:
        self._healer.after_fork()
        self._budget.after_fork()

    @property
    def path(self) -> str | None:
        """The index file, None if one log was opened that no index covers."""
        return None if self._reader is None else self._reader.path

    @overload
    def read(
        self,
        log: LogLike,
        id: str | SupportsIndex,
        epoch: SupportsIndex = 1,
        *,
        as_: Literal["bytes"],
        errors: Literal["raise"] = "raise",
    ) -> bytes: ...

    @overload
    def read(
        self,
        log: LogLike,
        id: str | SupportsIndex,
        epoch: SupportsIndex = 1,
        *,
        as_: Literal["dict"] = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Literal["raise"] = "raise",
    ) -> dict[str, Any]: ...

    @overload
    def read(
        self,
        log: LogLike,
        id: str | SupportsIndex,
        epoch: SupportsIndex = 1,
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors,
    ) -> Any: ...

    def read(
        self,
        log: LogLike,
        id: str | SupportsIndex,
        epoch: SupportsIndex = 1,
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors = "raise",
    ) -> Any:
        """One sample. With `errors="skip"` None if it cannot be had."""
        answers = self.read_samples(
            log, [(id, epoch)], as_=as_, exclude_fields=exclude_fields, errors=errors
        )
        return answers[0] if answers else None

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> list[bytes]: ...

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["dict"] = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Literal["raise", "skip"] = "raise",
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> list[dict[str, Any]]: ...

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Any]: ...

    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors = "raise",
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Any]:
        """Samples of one log, in the order of the keys: ids (epoch 1) or (id, epoch) pairs."""
        requests = requests_in_log(log, keys, self._places())
        answers = self._answers(requests, as_, exclude_fields, errors, True, concurrency, max_bytes)
        return [answer for _, answer in answers]

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[tuple[K, bytes]]: ...

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["dict"] = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[tuple[K, dict[str, Any]]]: ...

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors,
        ordered: bool = True,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[tuple[K, Any]]: ...

    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Errors = "raise",
        ordered: bool = True,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[tuple[K, Any]]:
        """Samples of many logs, streamed in the order of the keys, each with the key it was given.

        Keys are (log, id, epoch), (log, id), or rows; any iterable, consumed once and not further
        ahead than 10,000 keys. Unless `ordered`, samples of one log come together where that is
        faster. `max_bytes` bounds the samples that this call holds undelivered.
        """
        requests = requests_across_logs(keys, self._places())
        return self._answers(requests, as_, exclude_fields, errors, ordered, concurrency, max_bytes)

    def stream(
        self, log: LogLike, id: str | SupportsIndex, epoch: SupportsIndex = 1
    ) -> BufferedReader:
        """One sample's own bytes as a binary file to read, in bounded memory; close it.

        Bytes are handed out before the end of the sample is proved: they are provisional until
        `read` returns `b""`. A bad end raises `CorruptMember`; it is never an end of file.
        """
        from evalindex.stream import open_stream

        return open_stream(self._healer, request(None, self._places().locate(log), id, epoch))

    def locate(self, log: LogLike) -> str:
        """The full path of a log, as answers give it, whatever it was called."""
        return self._places().locate(log).location

    def samples(self, log: LogLike) -> Iterator[SampleRow]:
        """The samples that a log has now, in file order, without reading any."""
        spot = self._places().locate(log)
        return list_samples(self._healer, spot)

    def status(self, where: LogLike | None = None) -> IndexStatus:
        """The index itself, and for each log of a folder (or one log, or all that was opened)
        whether it is as it was indexed. Reads no samples."""
        from evalindex.status import status

        return status(self._indexed(), self._places().scope(where))

    def verify(
        self,
        where: LogLike | None = None,
        *,
        sample: int | None = None,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Read every member of each indexed log (or `sample` random ones), compare lengths,
        CRC-32s, names and ids, the index's rows with the logs, and check the index file."""
        _check_limits(sample=sample)
        from evalindex.verify import verify

        return verify(
            self._indexed(), self._places().scope(where), sample=sample, progress=progress
        )

    def _indexed(self) -> IndexReader:
        self._check_open()
        if self._reader is None:
            raise IndexNotFound("one log was opened, and no index knows it")
        return self._reader

    def _answers(
        self,
        requests: Iterable[Request],
        as_: As,
        exclude_fields: Collection[str] | None,
        errors: Errors,
        ordered: bool,
        concurrency: int | None,
        max_bytes: int | None,
    ) -> Iterator[tuple[Any, Any]]:
        _check_limits(concurrency=concurrency, max_bytes=max_bytes)
        if errors not in ("raise", "skip", "return"):
            raise ValueError(f'errors is "raise", "skip" or "return", not {errors!r}')
        answers = read(
            self._healer,
            self._budget,
            requests,
            _finisher(as_, exclude_fields),
            max_bytes=max_bytes,
            threads=concurrency,
            ordered=ordered,
            all_misses=errors == "raise",
        )
        return _delivered(answers, errors)

    def _places(self) -> Places:
        """Names of logs are resolved anew in each call."""
        self._check_open()
        return Places(self._reader, self._base)

    def _check_open(self) -> None:
        if self._closed:
            raise IndexClosed("the index was closed", log=self.path)

    def close(self) -> None:
        """Close the index file. Reads after that raise `IndexClosed`."""
        self._closed = True
        if self._reader is not None:
            self._reader.close()

    def __repr__(self) -> str:
        return f"<evalindex.Index of {self.path or self._base}{', closed' if self._closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Index cannot be pickled: open it in each process")

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _after_fork() -> None:
    for index in _indexes:
        index._after_fork()


_indexes: WeakSet[Index] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _check_limits(**limits: int | None) -> None:
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"{name} is a whole number of 1 or more, not {limit!r}")


def _finisher(
    as_: As, exclude_fields: Collection[str] | None
) -> Callable[[Request, bytes], bytes | dict[str, Any]]:
    if as_ == "bytes":
        if exclude_fields:
            raise ValueError('bytes are a member\'s own; exclude_fields needs as_="dict"')
        return lambda _, data: data
    if as_ != "dict":
        raise ValueError(f'as_ is "dict" or "bytes", not {as_!r}')
    from evalindex.decode import decode_sample, normalized_exclusions

    excluded = normalized_exclusions(exclude_fields)
    return lambda asked, data: decode_sample(data, str(asked.id), asked.epoch, excluded)


def _delivered(answers: Iterator[tuple[Request, Any]], errors: Errors) -> Iterator[tuple[Any, Any]]:
    for asked, answer in answers:
        if isinstance(answer, EvalIndexError) and errors != "return":
            if errors == "raise":
                raise answer
            continue
        yield asked.given, answer
