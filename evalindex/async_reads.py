"""The async twins of the reads, with the types that callers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from evalindex.answers import As, Errors
from evalindex.reads import Reads
from evalindex.twins import all_of, each_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable
    from typing import SupportsIndex

    from inspect_ai.log import EvalSample
    from typing_extensions import Unpack

    from evalindex.answers import DictOptions, Limits, SampleOptions
    from evalindex.inspect_ai.samples import ResolveAttachments
    from evalindex.place import LogLike

K = TypeVar("K")


class AsyncReads(Reads):
    """The reads and, of each read of samples, a twin whose work is done on worker threads: it
    never blocks the caller's loop, asyncio's or trio's, and can be cancelled."""

    @overload
    async def aread(
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
    async def aread(
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
    async def aread(
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
    async def aread(
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

    async def aread(
        self,
        log: LogLike | None = None,
        id: str | SupportsIndex | None = None,
        epoch: SupportsIndex = 1,
        **options: Any,
    ) -> Any:
        """The twin of `read`."""
        answers = await all_of(lambda _: iter([self.read(log, id, epoch, **options)]))
        return answers[0]

    @overload
    async def aread_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        **limits: Unpack[Limits],
    ) -> list[bytes]: ...

    @overload
    async def aread_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["dict"] = "dict",
        errors: Literal["raise", "skip"] = "raise",
        **options: Unpack[DictOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    async def aread_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: Literal["sample"],
        errors: Literal["raise", "skip"] = "raise",
        **options: Unpack[SampleOptions],
    ) -> list[EvalSample]: ...

    @overload
    async def aread_samples(
        self,
        log: LogLike,
        keys: Iterable[Any],
        *,
        as_: As = "dict",
        errors: Errors,
        **options: Unpack[SampleOptions],
    ) -> list[Any]: ...

    async def aread_samples(
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
        """The twin of `read_samples`."""
        options = (exclude_fields, resolve_attachments, concurrency, max_bytes)
        return await all_of(lambda wanted: self._in_log(log, wanted(keys), as_, errors, *options))

    @overload
    def aiter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["bytes"],
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **limits: Unpack[Limits],
    ) -> AsyncGenerator[tuple[K, bytes], None]: ...

    @overload
    def aiter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["dict"] = "dict",
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **options: Unpack[DictOptions],
    ) -> AsyncGenerator[tuple[K, dict[str, Any]], None]: ...

    @overload
    def aiter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: Literal["sample"],
        errors: Literal["raise", "skip"] = "raise",
        ordered: bool = True,
        **options: Unpack[SampleOptions],
    ) -> AsyncGenerator[tuple[K, EvalSample], None]: ...

    @overload
    def aiter_samples(
        self,
        keys: Iterable[K],
        *,
        as_: As = "dict",
        errors: Errors,
        ordered: bool = True,
        **options: Unpack[SampleOptions],
    ) -> AsyncGenerator[tuple[K, Any], None]: ...

    def aiter_samples(
        self, keys: Iterable[K], **options: Any
    ) -> AsyncGenerator[tuple[K, Any], None]:
        """The twin of `iter_samples`; the keys, too, are taken from their iterable on a worker
        thread."""
        return each_of(lambda wanted: self.iter_samples(wanted(keys), **options))
