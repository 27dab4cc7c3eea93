"""A log's directory, read or proved to be the one that is known (law 3).

Used wherever rows meet a log: by builds, reads and checks.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from evalindex.errors import NotAnEvalLog
from evalindex.zip import TAIL, Directory, find_end, parse_directory

if TYPE_CHECKING:
    from evalindex.database.queries import IndexedLog, IndexedVersion
    from evalindex.model import Version
    from evalindex.stores import LogFile


#: Seconds before the second and third try at a log that could not be made sense of (law 4).
PAUSES = (0.02, 0.2)


class Proof(NamedTuple):
    """What shows later that a log still has the directory that was read.

    `digest` is 16 bytes of SHA-256 over `[directory_offset, size)`; `version` is None if the log
    had changed too recently to tell a second change from the first.
    """

    version: Version | None
    size: int
    directory_offset: int
    digest: bytes


class ReadDirectory(NamedTuple):
    proof: Proof
    directory: Directory


def read_directory(file: LogFile) -> ReadDirectory:
    """Read and parse the directory of an open log. Raises `NotAnEvalLog`."""
    try:
        return _read_directory(file)
    except NotAnEvalLog as error:
        error.hint = "it may be being written just now; otherwise restore it from a copy"
        raise


def _read_directory(file: LogFile) -> ReadDirectory:
    tail_start = max(0, file.size - TAIL)
    tail = file.read(tail_start, file.size)
    # A log that is being cut while it is read has a shorter tail: no end record, or a wrong one.
    end = find_end(tail, tail_start + len(tail))
    if end.start < tail_start:
        tail = file.read(end.start, tail_start) + tail
        tail_start = end.start
    data = tail[end.start - tail_start :]
    directory = parse_directory(data[: end.stop - end.start], end)
    version = file.version if file.settled else None
    return ReadDirectory(Proof(version, file.size, end.start, _digest(data)), directory)


def prove(proof: Proof, file: LogFile) -> Proof | None:
    """The proof, with a newer version if one was found, or None if the log has changed.

    A version is enough; without one, or with another, equal size and digest are (one read).
    """
    if proof.version is not None and proof.version == file.version:
        return proof
    if (
        proof.size != file.size
        or _digest(file.read(proof.directory_offset, file.size)) != proof.digest
    ):
        return None
    return proof._replace(version=file.version if file.settled else None)


def stored_proof(row: IndexedLog | IndexedVersion) -> Proof | None:
    """The proof that the index has of a log; None if the log was unreadable when it was built."""
    if row.size is None or row.directory_offset is None or row.digest is None:
        return None
    return Proof(row.version, row.size, row.directory_offset, row.digest)


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:16]
