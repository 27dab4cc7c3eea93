"""Where results go: standard output, or a file that has its name only when all is written."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def output(
    out: str | None, inputs: Iterable[str] = (), *, name: str = "--out"
) -> Iterator[BinaryIO]:
    """A binary file for results. `-` or None is standard output.

    A log, an index, or one of the `inputs` is never overwritten. A device or a pipe is written as
    it is; the target of a link takes the result.
    """
    if out in (None, "-"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = os.path.realpath(str(out))
    if path.endswith((".eval", ".db")) or path in map(os.path.realpath, inputs):
        raise click.UsageError(
            f"{name} {out}: a log, an index or a file of keys is never overwritten"
        )
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise click.UsageError(f"{name} {out}: it is a folder")
    if stat.S_ISREG(mode):
        with _renamed(path, f"{name} {out}") as file:
            yield file
    else:
        with open(path, "wb") as file:
            yield file


@contextmanager
def _renamed(path: str, what: str) -> Iterator[BinaryIO]:
    folder, name = os.path.split(path)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    except OSError as error:
        raise click.UsageError(f"{what}: {error.strerror}") from None
    try:
        with open(descriptor, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp lets nobody else read
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
