"""All that depends on how inspect_ai is made inside. Nothing else here touches its private names.

From its release 0.3.184 on, `read_eval_log_sample_async` takes a `reader=`: an `AsyncZipReader`
(`inspect_ai/_util/async_zip.py`), of which the read of one sample by id uses `read_member_fully`
alone, or `open_member` if fields are to be left out. So what is handed over is a reader of ours
that has the bytes already.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evalindex.errors import MissingExtra, UnsupportedInspect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine

_OLDEST = "0.3.184"
_NO_LOOP = ("NoEventLoopError", "AsyncLibraryNotFoundError")  # anyio's, sniffio's


@lru_cache
def inspect_function(name: str) -> Callable[..., Any]:
    """A function of `inspect_ai.log`, some of which older releases do not export.

    Raises `MissingExtra` without inspect_ai, `UnsupportedInspect` for one that has it not.
    """
    try:
        import inspect_ai.log as public
        import inspect_ai.log._file as room
    except ModuleNotFoundError as error:
        if error.name not in ("inspect_ai", "inspect_ai.log"):
            raise
        raise MissingExtra(
            "samples as inspect's own objects need inspect_ai",
            hint='pip install "evalindex[inspect]"',
        ) from None
    found = getattr(public, name, None) or getattr(room, name, None)
    if found is None:
        raise _unsupported(f"it has no {name}")
    function: Callable[..., Any] = found
    return function


@lru_cache
def _read_sample() -> Callable[..., Coroutine[Any, Any, Any]]:
    try:
        function = inspect_function("read_eval_log_sample_async")
    except ImportError as error:
        if isinstance(error, (MissingExtra, UnsupportedInspect)):
            raise
        raise _unsupported(str(error)) from error
    if "reader" not in inspect.signature(function).parameters:
        raise _unsupported("its read_eval_log_sample_async takes no reader")
    return function


def parse_sample(data: bytes, log: str, id: str | int, epoch: int, **options: Any) -> Any:
    """Inspect's `EvalSample` of a sample's JSON, by its own public function.

    Raises what inspect raises, and `UnsupportedInspect` if it does anything but read the bytes.
    """
    steps = _read_sample()(log, id, epoch, format="eval", reader=_Bytes(data), **options)
    # There is nothing to wait for, so no event loop is needed.
    try:
        steps.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError as error:
        if type(error).__name__ not in _NO_LOOP:
            raise
    steps.close()
    raise _unsupported("it waits for something while it reads a sample")


class _Bytes:
    """What inspect needs of a reader to read the one sample that is wanted."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read_member_fully(self, _: object) -> bytes:
        return self._data

    def __getattr__(self, name: str) -> Any:
        raise _unsupported(f"it uses a reader's {name}")


class Reader:
    """What inspect needs of a reader of a whole log.

    `names` gives the names of all members, `read` all bytes of one, `chunks` an iterator over
    them, once the awaited call has found the member; they raise `KeyError` for one that is not
    there.
    """

    etag = None

    def __init__(
        self,
        names: Callable[[], Awaitable[list[str]]],
        read: Callable[[str], Awaitable[bytes]],
        chunks: Callable[[str], Awaitable[AsyncGenerator[bytes, None]]],
    ) -> None:
        self._names = names
        self._read = read
        self._chunks = chunks

    async def entries(self) -> Any:
        from inspect_ai._util.async_zip import CentralDirectory

        return CentralDirectory(entries=[_entry(name) for name in await self._names()])

    async def get_member_entry(self, member_name: str) -> Any:
        if member_name in await self._names():
            return _entry(member_name)
        raise KeyError(member_name)

    async def read_member_fully(self, member: Any) -> bytes:
        return await self._read(_name(member))

    async def open_member(self, member: Any) -> _Opened:
        name = _name(member)
        return _Opened(lambda: self._chunks(name), await self._chunks(name))

    def __getattr__(self, name: str) -> Any:
        raise _unsupported(f"it uses a reader's {name}")


class _Opened:
    """A member to be iterated, as often as is wanted."""

    def __init__(
        self,
        chunks: Callable[[], Awaitable[AsyncGenerator[bytes, None]]],
        first: AsyncGenerator[bytes, None],
    ) -> None:
        self._chunks = chunks
        self._first: AsyncGenerator[bytes, None] | None = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks, self._first = self._first or await self._chunks(), None
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()

    async def __aenter__(self) -> _Opened:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._first is not None:
            await self._first.aclose()


def _name(member: Any) -> str:
    name: str = member if isinstance(member, str) else member.filename
    return name


def _entry(name: str) -> Any:
    """A member as inspect knows one; where it lies is our affair."""
    from inspect_ai._util.zip_common import ZipCompressionMethod, ZipEntry

    return ZipEntry(name, ZipCompressionMethod.STORED, 0, 0, 0)


def _unsupported(why: str) -> UnsupportedInspect:
    from importlib.metadata import version

    return UnsupportedInspect(
        f"inspect_ai {version('inspect_ai')} cannot be used to make samples: {why}",
        hint=f'{_OLDEST} or newer works, and as_="dict" with any',
    )
