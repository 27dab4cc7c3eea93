"""The reads of an Index, with the types that callers see."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from evalindex.answers import As, Errors, check_limits, delivered, finisher
from evalindex.collector import paused
from evalindex.directory import PAUSES
from evalindex.errors import (
    CorruptMember,
    EvalIndexError,
    LogNotFound,
    SampleNotFound,
    StaleLog,
)
from evalindex.keys import request, requests_across_logs, requests_in_log
from evalindex.read import read
from evalindex.request import Request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from io import BufferedReader
    from typing import SupportsIndex

    from inspect_ai.log import EvalSample
    from typing_extensions import Unpack

    from evalindex.answers import DictOptions, Limits, SampleOptions
    from evalindex.budget import Budget
    from evalindex.heal import Healer
    from evalindex.inspect_ai.samples import ResolveAttachments
    from evalindex.parts import Field
    from evalindex.place import LogLike, Places
    from evalindex.rows import SampleRow

K = TypeVar("K")


#: What a sample says that is no more where its uuid was found.
_MOVED = CorruptMember, LogNotFound, SampleNotFound, StaleLog


class Reads:
    """What an Index can read.

    All reads of samples take `as_`: `"dict"` (exactly what `json.loads` gives), `"bytes"` (the
    member's own) or `"sample"` (inspect's `EvalSample`, made by inspect); `exclude_fields`:
    top-level fields to leave out, `events_data` goes with `events`, `id` and `epoch` stay;
    `resolve_attachments`: as in inspect, for `"sample"`; `errors`: `"raise"`, `"skip"` (leave the
    sample out), or `"return"` (put the error in its place).
    """

    def __init__(self, healer: Healer, budget: Budget) -> None:
        self._healer = healer
        self._budget = budget

    def _places(self) -> Places:
        raise NotImplementedError

    def _with_uuid(self, log: LogLike | None, uuid: str, *, fresh: bool) -> SampleRow:
        raise NotImplementedError

    @overload
    def read(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        *,
        uuid: str | None = None,
        as_: Literal["bytes"],
        errors: Literal["raise"] = "raise",
    ) -> bytes: ...

    @overload
    def read(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        *,
        uuid: str | None = None,
        as_: Literal["dict"] = "dict",
        exclude_fields: Collection[str] | None = None,
        errors: Literal["raise"] = "raise",
    ) -> dict[str, Any]: ...

    @overload
    def read(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        *,
        uuid: str | None = None,
        as_: Literal["sample"],
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        errors: Literal["raise"] = "raise",
    ) -> EvalSample: ...

    @overload
    def read(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        *,
        uuid: str | None = None,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        errors: Errors,
    ) -> Any: ...

    def read(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        *,
        uuid: str | None = None,
        as_: As = "dict",
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        errors: Errors = "raise",
    ) -> Any:
        """One sample, by id and epoch or by its uuid: then from the newest log that has it, or
        from `log` alone. With `errors="skip"` None if it cannot be had."""
        options = (exclude_fields, resolve_attachments, None, None)
        if uuid is not None:
            if id is not None:
                raise ValueError("a sample is named by its id or by its uuid, not by both")
            return next(self._by_uuid(log, uuid, as_, errors, *options), None)
        if id is None:
            raise TypeError("read takes a log and an id, or a uuid")
        # Without a log it is the log's type that is wrong.
        answers = self._in_log(cast("LogLike", log), [(id, epoch)], as_, errors, *options)
        return next(answers, None)

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        **limits: Unpack[Limits],
    ) -> list[bytes]: ...

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["dict"] = "dict",
        errors: Literal["raise", "skip"] = "raise",
        **options: Unpack[DictOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["sample"],
        errors: Literal["raise", "skip"] = "raise",
        **options: Unpack[SampleOptions],
    ) -> list[EvalSample]: ...

    @overload
    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: As = "dict",
        errors: Errors,
        **options: Unpack[SampleOptions],
    ) -> list[Any]: ...

    def read_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: As = "dict",
        errors: Errors = "raise",
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Any]:
        """Samples of one log, in the order of the keys: ids (epoch 1) or (id, epoch) pairs."""
        options = (exclude_fields, resolve_attachments, concurrency, max_bytes)
        answers = self._in_log(log, keys, as_, errors, *options)
        with paused():
            return list(answers)

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **limits: Unpack[Limits],
    ) -> Iterator[tuple[K, bytes]]: ...

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["dict"] = "dict",
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **options: Unpack[DictOptions],
    ) -> Iterator[tuple[K, dict[str, Any]]]: ...

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["sample"],
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **options: Unpack[SampleOptions],
    ) -> Iterator[tuple[K, EvalSample]]: ...

    @overload
    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: As = "dict",
        errors: Errors,
        ordered: bool = True,
        **options: Unpack[SampleOptions],
    ) -> Iterator[tuple[K, Any]]: ...

    def iter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: As = "dict",
        errors: Errors = "raise",
        ordered: bool = True,
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[tuple[K, Any]]:
        """Samples of many logs, streamed in the order of the keys, each with the key it was given.

        Keys are (log, id, epoch), (log, id), or rows; any iterable, consumed once and not further
        ahead than 10,000 keys. Unless `ordered`, samples of one log come together where that is
        faster. `max_bytes` bounds the samples that this call holds undelivered.
        """
        options = (exclude_fields, resolve_attachments, concurrency, max_bytes)
        requests = requests_across_logs(keys, self._places())
        return self._answers(requests, as_, errors, *options, ordered=ordered)

    def read_slice(
        self,
        log: LogLike,
        id: str | SupportsIndex,
        epoch: SupportsIndex = 1,
        *,
        field: Field,
        start: int = 0,
        stop: int | None = None,
    ) -> list[Any]:
        """The `messages` or `events` `[start, stop)` of a sample as JSON values, as many as there
        are; of a chunked sample only the chunks that hold them are read."""
        if field not in ("messages", "events"):
            raise ValueError(f'field is "messages" or "events", not {field!r}')
        if start < 0 or (stop is not None and stop < 0):
            raise ValueError("start and stop count from the first, 0 or more")
        from evalindex.parts import read_slice

        asked = request(None, self._places().locate(log), id, epoch)
        return read_slice(self._healer, asked, field, start, stop)

    def read_member(self, log: LogLike, name: str) -> bytes:
        """Any member of a log, such as `header.json` or a part of a chunked sample: its bytes,
        checked. Raises `MemberNotFound`."""
        from evalindex.parts import read_member

        return read_member(self._healer, self._places().locate(log), name)

    def stream_member(self, log: LogLike, name: str) -> BufferedReader:
        """The same as a binary file; what `stream` says of its end holds here too."""
        from evalindex.stream import open_member_stream

        return open_member_stream(self._healer, self._places().locate(log), name)

    def member_names(self, log: LogLike) -> list[str]:
        """All members that a log has now, in file order."""
        return [member.name for member in self._healer.members(self._places().locate(log))]

    def stream(
        self, log: LogLike, id: str | SupportsIndex, epoch: SupportsIndex = 1
    ) -> BufferedReader:
        """One sample's own bytes as a binary file to read, in bounded memory; close it.

        Bytes are handed out before the end of the sample is proved: they are provisional until
        `read` returns `b""`. A bad end raises `CorruptMember`; it is never an end of file.
        """
        from evalindex.stream import open_stream

        return open_stream(self._healer, request(None, self._places().locate(log), id, epoch))

    def _in_log(
        self,
        log: LogLike,
        keys: Iterable[Any],
        as_: As,
        errors: Errors,
        exclude_fields: Collection[str] | None = None,
        resolve_attachments: ResolveAttachments = False,
        concurrency: int | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[Any]:
        options = (exclude_fields, resolve_attachments, concurrency, max_bytes)
        requests = list(requests_in_log(log, keys, self._places()))
        answers = self._answers(requests, as_, errors, *options, ordered=True)
        return (answer for _, answer in answers)

    def _by_uuid(
        self,
        log: LogLike | None,
        uuid: str,
        as_: As,
        errors: Errors,
        *options: Any,
    ) -> Iterator[Any]:
        """The sample that a uuid names. The log may have changed before or since the look at its
        rows, and another sample have the same id and epoch then."""
        for attempt, pause in enumerate((*PAUSES, None)):
            try:
                row = self._with_uuid(log, uuid, fresh=attempt > 0)
            except EvalIndexError as error:
                answer: Any = error
                break
            requests = [*requests_across_logs([row], self._places())]
            requests = [asked._replace(uuid=uuid) for asked in requests]
            found = self._answers(requests, as_, "return", *options, ordered=True)
            answer = next((value for _, value in found), None)
            if pause is None or not isinstance(answer, _MOVED):
                break
            time.sleep(pause)
        if isinstance(answer, EvalIndexError):
            if errors == "skip":
                return
            if errors == "raise":
                raise answer
        yield answer

    def _answers(
        self,
        requests: Iterable[Request],
        as_: As,
        errors: Errors,
        exclude_fields: Collection[str] | None,
        resolve_attachments: ResolveAttachments,
        concurrency: int | None,
        max_bytes: int | None,
        *,
        ordered: bool,
    ) -> Iterator[tuple[Any, Any]]:
        check_limits(concurrency=concurrency, max_bytes=max_bytes)
        answers = read(
            self._healer,
            self._budget,
            requests,
            finisher(as_, exclude_fields, resolve_attachments),
            max_bytes=max_bytes,
            threads=concurrency,
            ordered=ordered,
            all_misses=errors == "raise",
        )
        return delivered(answers, errors)
