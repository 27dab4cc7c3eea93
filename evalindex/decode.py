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


def decode_sample(
    data: bytes, id: str, epoch: int, exclude_fields: Collection[str] = frozenset()
) -> dict[str, Any]:
    """The sample in `data`, without the excluded top-level fields.

    Raises `CorruptMember` if it is no JSON object, or not the sample (`id` as text, `epoch`).
    """
    try:
        sample = _fast(data, exclude_fields)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        sample = _exact(data, exclude_fields)
    if not isinstance(sample, dict):
        raise CorruptMember(f"the member of id {id!r} epoch {epoch} is no JSON object")
    found_id, found_epoch = sample.get("id"), sample.get("epoch")
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
    return sample


def _short(value: Any) -> str:
    text = repr(value)
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


def _fast(data: bytes, exclude_fields: Collection[str]) -> Any:
    if not exclude_fields:
        return _any.decode(data)
    # Values stay unparsed bytes until it is known that somebody wants them.
    return {
        name: _any.decode(value)
        for name, value in _raw_fields.decode(data).items()
        if name not in exclude_fields
    }


def _exact(data: bytes, exclude_fields: Collection[str]) -> Any:
    try:
        sample = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMember(f"its JSON cannot be parsed: {error}") from None
    if not isinstance(sample, dict):
        return sample
    return {name: value for name, value in sample.items() if name not in exclude_fields}
