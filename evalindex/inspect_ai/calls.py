"""What replaces calls of `inspect_ai.log`: the same arguments, order, objects and exceptions.

What is in no `.eval` log is left to inspect.
"""

from __future__ import annotations

import errno
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evalindex.errors import (
    EvalIndexError,
    LogNotFound,
    LogUnreadable,
    NotAnEvalLog,
    SampleInvalid,
    SampleNotFound,
)
from evalindex.index import Index, open, open_log
from evalindex.inspect_ai.guard import Reader, inspect_function
from evalindex.locations import absolute, is_url
from evalindex.place import spelled
from evalindex.stores.access import can_read

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Collection,
        Iterable,
        Iterator,
    )
    from io import BufferedReader

    from inspect_ai.log import EvalSample

    from evalindex.answers import SampleOptions
    from evalindex.inspect_ai.samples import ResolveAttachments
    from evalindex.place import LogLike

    Format = Literal["eval", "json", "auto"]

T = TypeVar("T")

_CHUNK = 2**20


def read_eval_log_samples_by_id(
    log_file: LogLike,
    samples: Iterable[tuple[str | int, int]],
    *,
    concurrency: int = 8,
    resolve_attachments: ResolveAttachments = False,
    format: Format = "auto",
    exclude_fields: Collection[str] | None = None,
    index: Index | LogLike | None = None,
) -> list[EvalSample]:
    """As `inspect_ai.log.read_eval_log_samples_by_id`.

    `index` is an open Index, or what `evalindex.open` takes; by default the index that covers the
    log, if there is one. Raises what inspect raises, its `IndexError` naming all that is missing,
    and evalindex's own errors for what inspect has no exception for (`CorruptMember` and such).
    """
    options = _options(exclude_fields, resolve_attachments, concurrency)
    if _is_for_inspect(log_file, format, exclude_fields):
        by_inspect = inspect_function("read_eval_log_samples_by_id")
        found: list[EvalSample] = by_inspect(log_file, samples, format=format, **options)
        return found
    with _opened(index, log_file) as opened, _inspects_exceptions():
        return opened.read_samples(_path(log_file), _keys(samples), as_="sample", **options)


async def read_eval_log_samples_by_id_async(
    log_file: LogLike,
    samples: Iterable[tuple[str | int, int]],
    *,
    concurrency: int = 8,
    resolve_attachments: ResolveAttachments = False,
    format: Format = "auto",
    exclude_fields: Collection[str] | None = None,
    reader: Any = None,
    index: Index | LogLike | None = None,
) -> list[EvalSample]:
    """The twin of `read_eval_log_samples_by_id`; a `reader` is used as inspect would use it."""
    options = _options(exclude_fields, resolve_attachments, concurrency)
    if reader is not None or _is_for_inspect(log_file, format, exclude_fields):
        by_inspect = inspect_function("read_eval_log_samples_by_id_async")
        found: list[EvalSample] = await by_inspect(
            log_file, samples, format=format, reader=reader, **options
        )
        return found
    async with _aopened(index, log_file) as opened:
        with _inspects_exceptions():
            keys = _keys(samples)
            return await opened.aread_samples(_path(log_file), keys, as_="sample", **options)


def read_eval_log_sample(
    log_file: LogLike,
    id: int | str | None = None,
    epoch: int = 1,
    uuid: str | None = None,
    resolve_attachments: ResolveAttachments = False,
    format: Format = "auto",
    exclude_fields: Collection[str] | None = None,
    *,
    index: Index | LogLike | None = None,
) -> EvalSample:
    """As `inspect_ai.log.read_eval_log_sample`; `index` as in `read_eval_log_samples_by_id`."""
    if _is_for_inspect(log_file, format, exclude_fields) or (id is None and uuid is None):
        found: EvalSample = inspect_function("read_eval_log_sample")(
            log_file, id, epoch, uuid, resolve_attachments, format, exclude_fields
        )
        return found
    with _opened(index, log_file) as opened, _inspects_exceptions():
        return opened.read(
            _path(log_file),
            id,
            epoch,
            uuid=uuid if id is None else None,
            as_="sample",
            exclude_fields=exclude_fields,
            resolve_attachments=resolve_attachments,
        )


async def read_eval_log_sample_async(
    log_file: LogLike,
    id: int | str | None = None,
    epoch: int = 1,
    uuid: str | None = None,
    resolve_attachments: ResolveAttachments = False,
    format: Format = "auto",
    exclude_fields: Collection[str] | None = None,
    reader: Any = None,
    *,
    index: Index | LogLike | None = None,
) -> EvalSample:
    """The twin of `read_eval_log_sample`; a `reader` is used as inspect would use it."""
    if (
        reader is not None
        or _is_for_inspect(log_file, format, exclude_fields)
        or (id is None and uuid is None)
    ):
        found: EvalSample = await inspect_function("read_eval_log_sample_async")(
            log_file, id, epoch, uuid, resolve_attachments, format, exclude_fields, reader
        )
        return found
    async with _aopened(index, log_file) as opened:
        with _inspects_exceptions():
            return await opened.aread(
                _path(log_file),
                id,
                epoch,
                uuid=uuid if id is None else None,
                as_="sample",
                exclude_fields=exclude_fields,
                resolve_attachments=resolve_attachments,
            )


def reader(index: Index, log: LogLike) -> Any:
    """What inspect's `reader=` parameters take: the members of one log, out of an open Index.

    Each member is read anew, checked against the log as it is then, and healed; the directory is
    not read, unless a member is absent or the log not indexed. Inspect's functions do their work
    with it as with their own `AsyncZipReader`.
    """
    if not isinstance(index, Index):
        raise TypeError(f"a reader reads from an open Index, not {index!r}")

    async def names() -> list[str]:
        return await _in_thread(index.member_names, log)

    async def read(name: str) -> bytes:
        return await _in_thread(index.read_member, log, name)

    async def chunks(name: str) -> AsyncGenerator[bytes, None]:
        return _chunks(await _in_thread(index.stream_member, log, name))

    return Reader(names, read, chunks)


async def _chunks(stream: BufferedReader) -> AsyncGenerator[bytes, None]:
    with stream:
        while data := await _in_thread(stream.read, _CHUNK):
            yield data


async def _in_thread(job: Callable[..., T], *values: Any) -> T:
    """What a job gives on a worker thread.

    Its error comes back as a value: ijson, which inspect reads with, takes a failed future's
    exception for itself, and the coroutine that waits for the thread would never be woken.
    """
    from anyio.to_thread import run_sync

    def attempt() -> T | EvalIndexError:
        try:
            return job(*values)
        except EvalIndexError as error:
            return error

    result = await run_sync(attempt)
    if isinstance(result, EvalIndexError):
        raise result
    return result


def _options(
    exclude_fields: Collection[str] | None,
    resolve_attachments: ResolveAttachments,
    concurrency: int,
) -> SampleOptions:
    """What inspect's call and ours take alike. Inspect, too, takes 0 for 1."""
    return {
        "exclude_fields": exclude_fields,
        "resolve_attachments": resolve_attachments,
        "concurrency": max(1, concurrency),
    }


def _path(log_file: LogLike) -> str:
    """Relative names start in the current folder, as in inspect."""
    return absolute(spelled(log_file))


def _keys(samples: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Pairs only; an epoch may be text, as it comes out of a CSV file."""
    for id, epoch in samples:
        canonical = isinstance(epoch, str) and epoch.isdecimal() and str(int(epoch)) == epoch
        yield id, int(epoch) if canonical else epoch


def _is_for_inspect(
    log_file: LogLike, format: Format, exclude_fields: Collection[str] | None
) -> bool:
    """Whether inspect itself has to answer: another format, an exclusion that it refuses."""
    fields = {exclude_fields} if isinstance(exclude_fields, str) else set(exclude_fields or ())
    if {"id", "epoch"} & fields:
        return True
    name = log_file if isinstance(log_file, (str, os.PathLike)) else log_file.name
    text = os.fspath(name)
    if is_url(text) and not can_read(text):
        return True
    return format != "eval" and not (format == "auto" and text.endswith(".eval"))


def _open(index: LogLike | None, log_file: LogLike) -> Index:
    return open_log(log_file) if index is None else open(index)


@contextmanager
def _opened(index: Index | LogLike | None, log_file: LogLike) -> Iterator[Index]:
    if isinstance(index, Index):
        yield index
        return
    with _inspects_exceptions():
        opened = _open(index, log_file)
    with opened:
        yield opened


@asynccontextmanager
async def _aopened(index: Index | LogLike | None, log_file: LogLike) -> AsyncIterator[Index]:
    from anyio.to_thread import run_sync

    if isinstance(index, Index):
        yield index
        return
    with _inspects_exceptions():
        opened = await run_sync(_open, index, log_file)
    async with opened:
        yield opened


@contextmanager
def _inspects_exceptions() -> Iterator[None]:
    """Raise what inspect raises for what went wrong, with our error as its cause."""
    try:
        yield
    except SampleNotFound as error:
        missing = ", ".join(f"id {key.id} for epoch {key.epoch}" for key in error.missing)
        what = f"Sample {missing}" if missing else f"Sample: {error.reason};"
        raise IndexError(f"{what} not found in log {error.log}") from error
    except (LogNotFound, LogUnreadable) as error:
        # Python makes the error of that number: FileNotFoundError, PermissionError and so on.
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), error.log) from error
    except NotAnEvalLog as error:
        raise ValueError(str(error)) from error
    except SampleInvalid as error:
        raise (error.__cause__ or error) from None
