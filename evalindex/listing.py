"""The samples of one log, from its rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evalindex.names import parse_sample_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.heal import Healer
    from evalindex.place import Spot


class SampleRow(NamedTuple):
    """One sample of a log, as the log's directory lists it; can be passed as a key.

    `log` is the full path, `path` the part below the root; `id` is the text of the member's name;
    sizes are in bytes, of a `chunked` sample those of its first member alone.
    """

    log: str
    path: str
    id: str
    epoch: int
    chunked: bool
    bytes: int
    compressed_bytes: int


def list_samples(healer: Healer, spot: Spot) -> Iterator[SampleRow]:
    """The samples that a log has now, in file order."""
    for member in healer.members(spot):
        sample = parse_sample_name(member.name)
        if sample is not None:
            yield SampleRow(
                spot.location,
                spot.path,
                sample.id,
                sample.epoch,
                sample.chunked,
                member.uncompressed_size,
                member.compressed_size,
            )
