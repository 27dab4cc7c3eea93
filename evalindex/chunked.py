"""The parts of a chunked sample -> one document. Pure.

The shape is inspect's (`inspect_ai/log/_recorders/chunked/format.py`): `sample.json` holds the
sample without its long fields, and four sequences are cut into chunks that are named by the index
of their first item. A chunk ends where the next one starts. `message_refs` in `sample.json` are
half-open ranges of the `messages` sequence, and `attachment://3` is the fourth attachment.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from evalindex.decode import parse
from evalindex.errors import CorruptMember

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SHELL = "sample.json"

_METADATA = "metadata.json"
_CHUNK = re.compile(r"(messages|events|calls|attachments)/(0|[1-9][0-9]{0,17})\.json", re.ASCII)


_MOST_REPEATS = 10


def assemble(parts: Mapping[str, bytes], exclude_fields: Collection[str]) -> dict[str, Any]:
    """The sample in the single-member shape, but for the excluded fields.

    `parts` are all of the sample's members by their names below its prefix. Attachments keep
    their numbers: `attachments` is `{"0": ...}`. Raises `CorruptMember` for parts that do not
    fit together.
    """
    sample = shell(parts[SHELL])
    refs = sample.pop("message_refs", [])
    wanted = {"messages", "events", "attachments", "metadata"} - set(exclude_fields)
    # The pool is needed by messages, which refer to it, and goes with the events.
    pool = _sequence(parts, "messages") if wanted & {"messages", "events"} else []
    if "metadata" in wanted:
        # Inspect leaves the member out where a single member says {}.
        sample["metadata"] = parse(parts[_METADATA]) if _METADATA in parts else {}
    if "messages" in wanted:
        # The pool has them too, and whoever changes one of a sample's messages means that one.
        sample["messages"] = deepcopy(referred(ranges(refs), {0: pool}))
    if "events" in wanted:
        sample["events"] = _sequence(parts, "events")
        sample["events_data"] = {"messages": pool, "calls": _sequence(parts, "calls")}
    if "attachments" in wanted:
        attachments = _sequence(parts, "attachments")
        sample["attachments"] = {str(n): text for n, text in enumerate(attachments)}
    return {name: value for name, value in sample.items() if name not in exclude_fields}


def shell(data: bytes) -> dict[str, Any]:
    """What `sample.json` holds. Raises `CorruptMember`."""
    document = parse(data)
    if not isinstance(document, dict):
        raise CorruptMember("sample.json of a chunked sample is no JSON object")
    return document


def ranges(refs: Any) -> list[range]:
    """The ranges that `message_refs` holds. Raises `CorruptMember`."""
    try:
        found = [range(start, stop) for start, stop in refs]
    except (TypeError, ValueError):
        found = [range(-1, 0)]
    if any(not 0 <= part.start <= part.stop <= sys.maxsize for part in found):
        raise CorruptMember("the message_refs of a chunked sample are no ranges")
    return found


def cut(whole: Iterable[range], start: int, stop: int) -> list[range]:
    """The items `[start, stop)` of some ranges that follow each other."""
    found: list[range] = []
    for part in whole:
        found.append(part[max(0, start) : max(0, stop)])
        start, stop = start - len(part), stop - len(part)
    return [part for part in found if part]


def referred(wanted: Iterable[range], chunks: Mapping[int, list[Any]]) -> list[Any]:
    """The items of some ranges, out of chunks by where they start.

    Raises `CorruptMember` if they are not all there.
    """
    starts = sorted(chunks)
    items: list[Any] = []
    wanted = list(wanted)
    # Some bytes of references must not become any number of items.
    there = sum(map(len, chunks.values())) + len(wanted)
    if sum(map(len, wanted)) > _MOST_REPEATS * there:
        raise CorruptMember("a chunked sample refers to its items over and over")
    for part in wanted:
        at = part.start
        while at < part.stop:
            chunk = starts[bisect_right(starts, at) - 1] if starts and starts[0] <= at else None
            found = [] if chunk is None else chunks[chunk][at - chunk : part.stop - chunk]
            if not found:
                raise CorruptMember("a chunked sample refers to more items than it has")
            items += found
            at += len(found)
    return items


def chunk_starts(names: Iterable[str], sequence: str) -> list[int]:
    """Where the chunks of a sequence start, ascending. Raises `CorruptMember` if none is at 0."""
    matches = (_CHUNK.fullmatch(name) for name in names)
    starts = sorted(int(match[2]) for match in matches if match and match[1] == sequence)
    if starts and starts[0]:
        raise CorruptMember(f"the first {sequence} of a chunked sample are missing")
    return starts


def chunks_of(starts: list[int], wanted: Iterable[range]) -> list[int]:
    """The starts of those chunks that hold the items of some ranges, ascending."""
    found: set[int] = set()
    for part in wanted:
        first = bisect_right(starts, part.start) - 1
        found.update(starts[max(0, first) : bisect_left(starts, part.stop)])
    return sorted(found)


def chunk_ends(starts: list[int]) -> dict[int, int | None]:
    """Where each chunk ends by where it starts; the last one says so itself (None)."""
    return dict(zip(starts, [*starts[1:], None], strict=False))


def chunk_name(sequence: str, start: int) -> str:
    return f"{sequence}/{start}.json"


def chunk_items(data: bytes, sequence: str, start: int, stop: int | None) -> list[Any]:
    """The items of the chunk that starts at `start`; the next one starts at `stop`, or is None.

    Raises `CorruptMember` if they are not as many as that.
    """
    items = parse(data)
    if (
        not isinstance(items, list)
        or not items
        or (stop is not None and len(items) != stop - start)
    ):
        raise CorruptMember(f"{chunk_name(sequence, start)} of a chunked sample has a wrong length")
    return items


def _sequence(parts: Mapping[str, bytes], sequence: str) -> list[Any]:
    items: list[Any] = []
    starts = chunk_starts(parts, sequence)
    for start, stop in chunk_ends(starts).items():
        items += chunk_items(parts[chunk_name(sequence, start)], sequence, start, stop)
    return items
