"""Coverage-guided fuzzing of the pure rooms: any bytes give what they say, or the one error.

    fuzz.py TARGET [libFuzzer options]

Targets: directory, member, header, summaries, sample.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["evalindex"]):
    from evalindex import codec, decode, documents, headers, summaries
    from evalindex.errors import CorruptMember, UnsupportedMember
    from evalindex.model import Member

from tests.test_zip_any_bytes import check_any


def directory(data: bytes) -> None:
    """An archive, or its end, parses or is no log."""
    check_any(data)


def member(data: bytes) -> None:
    """A local header and what follows it give bytes of the right length and CRC, or an error."""
    draw = atheris.FuzzedDataProvider(data)
    wanted = Member(
        "samples/1_epoch_1.json",
        draw.ConsumeIntInRange(0, 0xFFFF),
        draw.PickValueInList([0, 8, 93, 14]),
        draw.ConsumeIntInRange(0, 2**32 - 1),
        draw.ConsumeIntInRange(0, 2**20),
        draw.ConsumeIntInRange(0, 2**63 - 1),
        0,
    )
    rest = draw.ConsumeBytes(sys.maxsize)
    try:
        start = codec.data_start(wanted, rest)
        found = codec.unpack(wanted, rest[start : start + wanted.compressed_size])
    except (CorruptMember, UnsupportedMember):
        return
    assert len(found) == wanted.uncompressed_size
    assert zlib.crc32(found) == wanted.crc32


def header(data: bytes) -> None:
    try:
        headers.read_header(data)
    except CorruptMember:
        pass


def summary(data: bytes) -> None:
    try:
        summaries.add_summaries({}, documents.read_summaries(data))
    except CorruptMember:
        pass


def sample(data: bytes) -> None:
    """A sample is what `json` makes of it, whole or without a field."""
    try:
        found = decode.decode_sample(data, "1", 1)
    except CorruptMember:
        return
    expected = json.loads(data)
    assert json.dumps(found) == json.dumps(expected)  # NaN equals nothing
    without = decode.decode_sample(data, "1", 1, {"events"})
    expected.pop("events", None)
    assert json.dumps(without) == json.dumps(expected)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "directory": directory,
    "member": member,
    "header": header,
    "summaries": summary,
    "sample": sample,
}


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
