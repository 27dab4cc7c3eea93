"""What callers may ask of a read: the form of a sample, and what becomes of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from evalindex.collector import paused
from evalindex.errors import EvalIndexError
from evalindex.request import chunked_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator

    from evalindex.inspect_ai.samples import ResolveAttachments
    from evalindex.request import Content, Request

    Answers = Generator[tuple[Request, Any], None, None]

As = Literal["dict", "bytes", "sample"]
Errors = Literal["raise", "skip", "return"]


class Limits(TypedDict, total=False):
    """Threads, and bytes held undelivered; what the Index allows if None."""

    concurrency: int | None
    max_bytes: int | None


class DictOptions(Limits, total=False):
    """Top-level fields to leave out; `events_data` goes with `events`, `id` and `epoch` stay."""

    exclude_fields: Collection[str] | None


class SampleOptions(DictOptions, total=False):
    """Inspect's: leave references, resolve all, or all but those in calls of model events."""

    resolve_attachments: ResolveAttachments


def check_limits(**limits: int | None) -> None:
    for name, limit in limits.items():
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"{name} is a whole number of 1 or more, not {limit!r}")


def finisher(
    as_: As,
    exclude_fields: Collection[str] | None = None,
    resolve_attachments: ResolveAttachments = False,
) -> Callable[[Request, Content], Any]:
    """What makes the wanted form of a sample from its bytes, if they are of the right sample."""
    finish = _finisher(as_, exclude_fields, resolve_attachments)
    pause = None if as_ == "bytes" else paused()

    def checked(asked: Request, content: Content) -> Any:
        if asked.uuid is not None:
            from evalindex.chunked import SHELL
            from evalindex.decode import check_uuid

            body = content if isinstance(content, bytes) else content[SHELL]
            check_uuid(body, str(asked.id), asked.epoch, asked.uuid)
        if pause is None:
            return finish(asked, content)
        with pause:
            return finish(asked, content)

    return checked


def _finisher(
    as_: As, exclude_fields: Collection[str] | None, resolve_attachments: ResolveAttachments
) -> Callable[[Request, Content], Any]:
    if resolve_attachments and as_ != "sample":
        raise ValueError(
            'only inspect resolves attachments; resolve_attachments needs as_="sample"'
        )
    if as_ == "bytes":
        if exclude_fields:
            raise ValueError('bytes are a member\'s own; exclude_fields needs as_="dict"')
        return _as_bytes
    from evalindex.decode import decode_sample, normalized_exclusions

    excluded = normalized_exclusions(exclude_fields)
    if as_ == "sample":
        from evalindex.inspect_ai.samples import eval_sample

        return lambda asked, content: eval_sample(
            content, asked.sample, excluded, resolve_attachments
        )
    if as_ != "dict":
        raise ValueError(f'as_ is "dict", "bytes" or "sample", not {as_!r}')

    def as_dict(asked: Request, content: Content) -> dict[str, Any]:
        if isinstance(content, bytes):
            return decode_sample(content, str(asked.id), asked.epoch, excluded)
        from evalindex.chunked import assemble
        from evalindex.decode import check_identity

        sample = assemble(content, excluded)
        check_identity(sample.get("id"), sample.get("epoch"), str(asked.id), asked.epoch)
        return sample

    return as_dict


def _as_bytes(asked: Request, content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    raise chunked_refused(asked, len(content))


def delivered(answers: Answers, errors: Errors) -> Iterator[tuple[Any, Any]]:
    """Each key with its answer; an error in its place, left out, or raised."""
    if errors not in ("raise", "skip", "return"):
        raise ValueError(f'errors is "raise", "skip" or "return", not {errors!r}')
    return _delivered(answers, errors)


def _delivered(answers: Answers, errors: Errors) -> Iterator[tuple[Any, Any]]:
    try:
        for asked, answer in answers:
            if isinstance(answer, EvalIndexError) and errors != "return":
                if errors == "raise":
                    raise answer
                continue
            yield asked.given, answer
    finally:
        # The error's traceback would keep what the read holds for as long as somebody keeps it.
        answers.close()
