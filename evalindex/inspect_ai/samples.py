"""Checked bytes in, inspect's `EvalSample` out (law 9)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Literal

from evalindex.chunked import assemble
from evalindex.decode import check_identity, parse, without_fields
from evalindex.errors import MissingExtra, SampleInvalid, UnsupportedInspect, printable
from evalindex.inspect_ai.guard import parse_sample

if TYPE_CHECKING:
    from collections.abc import Collection

    from evalindex.model import SampleKey

#: As inspect's: leave references, resolve all, or all but those in the calls of model events.
ResolveAttachments = bool | Literal["full", "core"]

_OLD_POOLS = (b'"message_pool":', b'"call_pool":')
_LOOK_AT = 3  # samples of a log; searching each would cost a hundredth of its time
_LOGS = 10_000
_looked_at: dict[str, int] = {}


def eval_sample(
    content: bytes | dict[str, bytes],
    key: SampleKey,
    exclude_fields: Collection[str] = frozenset(),
    resolve_attachments: ResolveAttachments = False,
) -> Any:
    """Inspect's `EvalSample` of the bytes of a member, or of the parts of a chunked sample.

    Fields are left out before inspect parses the rest, which gives what its own, streamed
    `exclude_fields` gives. Raises `CorruptMember` if the bytes are not the sample, `SampleInvalid`,
    from inspect's own exception, if inspect refuses it.
    """
    if isinstance(content, dict):
        data = json.dumps(assemble(content, exclude_fields)).encode()
    elif exclude_fields:
        data = without_fields(content, exclude_fields)
    else:
        data = content
    _say_what_is_lost(data, key.log)
    try:
        sample = parse_sample(
            data, key.log, key.id, key.epoch, resolve_attachments=resolve_attachments
        )
    except (MissingExtra, UnsupportedInspect):
        raise
    except Exception as error:
        parse(data)  # if it is no JSON, that is what is wrong
        raise SampleInvalid(
            f"inspect refuses id {key.id!r} epoch {key.epoch}: {_first_line(error)}",
            hint=_hint(data, exclude_fields),
        ) from error
    check_identity(sample.id, sample.epoch, str(key.id), key.epoch)
    return sample


def _first_line(error: Exception) -> str:
    lines = str(error).split("\n")
    return f"{type(error).__name__}: {'; '.join(line.strip() for line in lines[:3])}"


def _hint(data: bytes, exclude_fields: Collection[str]) -> str:
    document = parse(data)
    if "events" in exclude_fields and isinstance(document, dict) and document.get("timelines"):
        return 'its timelines refer to its events: exclude "timelines" too'
    return 'as_="dict" gives what the log holds'


def _say_what_is_lost(data: bytes, log: str) -> None:
    """Tell once a log of what inspect leaves out without a word.

    Logs of format version 3 (0.3.195 to 0.3.199 with INSPECT_LOG_FORMAT_V3) hold the inputs of
    model events in `message_pool` and `call_pool`, which later releases do not know.
    """
    looked = _looked_at.get(log, 0 if len(_looked_at) < _LOGS else _LOOK_AT)
    if looked >= _LOOK_AT:
        return
    _looked_at[log] = looked + 1
    if not any(name in data for name in _OLD_POOLS):
        return
    document = parse(data)
    if not isinstance(document, dict):
        return
    if not (document.get("message_pool") or document.get("call_pool")):
        return
    _looked_at[log] = _LOOK_AT
    logging.getLogger("evalindex").warning(
        "%s is of format version 3, whose message pools inspect does not read: the inputs and "
        'calls of its model events are empty in samples (as_="dict" has them)',
        printable(log),
    )
