"""Checked bytes in, a sample as a dict out: exact JSON, exclusions, id check (law 2).

Inspect writes NaN, Infinity, integers of any size and lone surrogates, so the standard library's
`json` is the reference for what a document says. msgspec is several times faster and refuses
whatever it cannot hold, so it goes first and `json` decides the rest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from evalindex.errors import CorruptMember

if TYPE_CHECKING:
    from collections.abc import Collection

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_REFUSED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def decode_sample(
    data: bytes,
    id: str,
    epoch: int,
    exclude_fields: Collection[str] = frozenset(),
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """The sample in `data`, without the excluded top-level fields, or with `only` some of them.

    Raises `CorruptMember` if it is no JSON object, or not the sample (`id` as text, `epoch`).
    """
    try:
        sample = _fast(data, exclude_fields, only)
    except _REFUSED:
        sample = _exact(data, exclude_fields, only)
    if not isinstance(sample, dict):
        raise CorruptMember(f"the member of id {id!r} epoch {epoch} is no JSON object")
    check_identity(sample.get("id"), sample.get("epoch"), id, epoch)
    return sample


def parse(data: bytes) -> Any:
    """What `json.loads` makes of a document. Raises `CorruptMember` for what is none."""
    try:
        return _any.decode(data)
    except _REFUSED:
        return _loads(data)


def without_fields(data: bytes, exclude_fields: Collection[str]) -> bytes:
    """The JSON object in `data` without some top-level fields, whose values are not parsed.

    Raises `CorruptMember` if it is no JSON object.
    """
    try:
        fields = _raw_fields.decode(data)
    except _REFUSED:
        document = _exact(data, exclude_fields, None)
        if not isinstance(document, dict):
            raise CorruptMember("it is no JSON object") from None
        return json.dumps(document).encode()
    kept = [
        msgspec.json.encode(name) + b":" + bytes(value)
        for name, value in fields.items()
        if name not in exclude_fields
    ]
    return b"{" + b",".join(kept) + b"}"


def check_identity(found_id: Any, found_epoch: Any, id: str, epoch: int) -> None:
    """Raise `CorruptMember` if a body's id and epoch are not those of the sample (`id` as text)."""
    # By type too: to Python, True is 1 and so is 1.0.
    if (
        type(found_id) not in (str, int)
        or str(found_id) != id
        or type(found_epoch) is not int
        or found_epoch != epoch
    ):
        raise CorruptMember(
            f"the member of id {id!r} epoch {epoch} holds "
            f"id {_short(found_id)} epoch {_short(found_epoch)}"
        )


def check_uuid(data: bytes, id: str, epoch: int, uuid: str) -> None:
    """Raise `CorruptMember` if a body is not that of the sample with this uuid."""
    found = decode_sample(data, id, epoch, only=("id", "epoch", "uuid")).get("uuid")
    if found != uuid:
        raise CorruptMember(
            f"the member of id {id!r} epoch {epoch} has the uuid {_short(found)}, not {uuid!r}"
        )


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"a deep {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}..."


def normalized_exclusions(exclude_fields: Collection[str] | None) -> frozenset[str]:
    """The fields to drop: `events_data` goes with `events`, `id` and `epoch` always stay."""
    if exclude_fields is None:
        return frozenset()
    names = {exclude_fields} if isinstance(exclude_fields, str) else set(exclude_fields)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"exclude_fields holds names of fields, not {name!r}")
    # As in inspect's _normalize_excluded_fields: a pool without its events has no use, and events
    # without their pool no meaning.
    names.discard("events_data")
    if "events" in names:
        names.add("events_data")
    return frozenset(names - {"id", "epoch"})


def _fast(data: bytes, exclude_fields: Collection[str], only: Collection[str] | None) -> Any:
    if not exclude_fields and only is None:
        return _any.decode(data)
    # Values stay unparsed bytes until it is known that somebody wants them.
    return {
        name: _any.decode(value)
        for name, value in _raw_fields.decode(data).items()
        if name not in exclude_fields and (only is None or name in only)
    }


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMember(f"its JSON cannot be parsed: {error}") from None


def _exact(data: bytes, exclude_fields: Collection[str], only: Collection[str] | None) -> Any:
    sample = _loads(data)
    if not isinstance(sample, dict):
        return sample
    return {
        name: value
        for name, value in sample.items()
        if name not in exclude_fields and (only is None or name in only)
    }
