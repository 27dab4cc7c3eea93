"""Compressed bytes in, checked bytes out: local name, method, length and CRC-32 (law 2).

Inspect writes zstd (method 93), before 0.3.206 deflate; stored members are read too. A zstd
member has no content size and no checksum of its own, and may be cut into several frames
(`inspect_ai/_util/zipfile.py`), so its end is where the directory says, and only there.
"""

from __future__ import annotations

import threading
import zlib
from typing import IO, TYPE_CHECKING, Protocol, cast

import zstandard

from evalindex.errors import CorruptMember, UnsupportedMember
from evalindex.zip import parse_local_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from evalindex.model import Member

_STORED, _DEFLATE, _ZSTD = 0, 8, 93
_ENCRYPTED = 0x2041  # bit 0: encrypted, 6: strongly, 13: the directory is masked
_ONE_SHOT = 4 * 2**20
# In deflate 2 bits can stand for 258 bytes, in zstd a block of 4 bytes for 128 KiB.
_HIGHEST_RATIO = {_STORED: 1, _DEFLATE: 1_032, _ZSTD: 2**15}
_local = threading.local()

#: What the decompressors raise.
DAMAGE = (zlib.error, zstandard.ZstdError)


def check_supported(member: Member) -> None:
    """Raise `UnsupportedMember` for what can be listed but not read."""
    if member.flags & _ENCRYPTED:
        raise UnsupportedMember(f"member {member.name!r} is encrypted")
    if member.method not in (_STORED, _DEFLATE, _ZSTD):
        raise UnsupportedMember(
            f"member {member.name!r} uses zip method {member.method}",
            hint="methods 0 (stored), 8 (deflate) and 93 (zstd) can be read",
        )


def data_start(member: Member, data: bytes | memoryview) -> int:
    """Where the member's data starts in `data`, which begins at its local header.

    The answer may lie beyond what `data` holds. Only the local header knows the length of its
    extra field; that its name is the one asked for proves that the row points at this member.
    """
    found = parse_local_header(data)
    if found is None:
        raise CorruptMember(f"no member {member.name!r} at offset {member.header_offset:,}")
    start, name = found
    if name != member.name.encode():
        raise CorruptMember(
            f"member {name.decode(errors='replace')!r} is where {member.name!r} should be"
        )
    return start


def unpack(member: Member, data: bytes | memoryview) -> bytes:
    """The member's bytes from its compressed ones, checked against the directory's row."""
    if len(data) != member.compressed_size:
        raise CorruptMember(f"the log ends inside member {member.name!r}")
    check_supported(member)
    if member.uncompressed_size > _HIGHEST_RATIO[member.method] * (len(data) + 1):
        raise CorruptMember(
            f"member {member.name!r} cannot have {member.uncompressed_size:,} bytes"
        )
    try:
        result = _UNPACK[member.method](data, member.uncompressed_size)
    except DAMAGE as error:
        raise CorruptMember(f"member {member.name!r} cannot be decompressed: {error}") from None
    except MemoryError:
        raise UnsupportedMember(
            f"member {member.name!r} does not fit in memory: {member.uncompressed_size:,} bytes",
            hint="stream it",
        ) from None
    if len(result) != member.uncompressed_size:
        raise CorruptMember(
            f"member {member.name!r} does not have the {member.uncompressed_size:,} bytes "
            "that the log's directory says"
        )
    check_crc(member, zlib.crc32(result))
    return result


def check_crc(member: Member, crc32: int) -> None:
    if crc32 != member.crc32:
        raise CorruptMember(f"the CRC-32 of member {member.name!r} is wrong")


# Each of these gives at most `size` + 1 bytes, however much the data would inflate to.


def _stored(data: bytes | memoryview, size: int) -> bytes:
    return bytes(data[: size + 1])


def _inflate(data: bytes | memoryview, size: int) -> bytes:
    return zlib.decompressobj(-15).decompress(data, size + 1)


def _unzstd(data: bytes | memoryview, size: int) -> bytes:
    try:
        decompressor = _local.zstd
    except AttributeError:
        decompressor = _local.zstd = zstandard.ZstdDecompressor()
    if 0 < size <= _ONE_SHOT and zstandard.frame_content_size(data) <= size:
        # One call in C, but it stops at the end of the first frame without a word, and takes the
        # frame's word for how much memory it needs.
        result: bytes = decompressor.decompress(data, max_output_size=size)
        if len(result) == size:
            return result
    # Asked for all at once, the reader reserves `size` bytes; they are only touched as they come.
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        result = reader.read(size)
        rest: bytes = reader.read(1)
        return result + rest if rest else result


_UNPACK: dict[int, Callable[[bytes | memoryview, int], bytes]] = {
    _STORED: _stored,
    _DEFLATE: _inflate,
    _ZSTD: _unzstd,
}


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


def open_member(member: Member, source: Source) -> Source:
    """The uncompressed bytes of a supported member, unchecked, from its compressed ones."""
    if member.method == _STORED:
        return source
    if member.method == _DEFLATE:
        return _Inflater(source)
    return zstandard.ZstdDecompressor().stream_reader(
        cast("IO[bytes]", source), read_across_frames=True
    )


class _Inflater:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._inflater = zlib.decompressobj(-15)

    def read(self, size: int, /) -> bytes:
        while not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or self._source.read(size)
            data = self._inflater.decompress(packed, size)
            if data or not packed:
                return data
        return b""
