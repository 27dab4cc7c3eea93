"""What many rooms pass on. Records of one room live with the room that makes them."""

from __future__ import annotations

from typing import NamedTuple, NewType

#: What proves cheaply that a log is unchanged: `stat INODE MTIME_NS CTIME_NS SIZE` for a local
#: log. Two equal versions mean equal bytes; a version is only ever compared as a whole.
Version = NewType("Version", str)


class SampleKey(NamedTuple):
    """What a user asks for: the log (full path or URL in answers), the id, the epoch."""

    log: str
    id: str | int
    epoch: int = 1


class Member(NamedTuple):
    """One live entry of a log's zip directory; sizes and offsets in bytes."""

    name: str
    flags: int
    method: int
    crc32: int
    compressed_size: int
    uncompressed_size: int
    header_offset: int
