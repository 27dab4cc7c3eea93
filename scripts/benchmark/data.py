"""The logs that are measured, made once with inspect_ai's own writer."""

from __future__ import annotations

import os
import random
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from inspect_ai._util.zipfile import zipfile_compress_kwargs
from make_logs import make_logs

import evalindex

#: Where they are kept between runs.
DATA = Path(os.environ.get("EVALINDEX_BENCH", Path(__file__).resolve().parents[2] / ".bench"))
WANTED = 200


class Case(NamedTuple):
    """A log with `samples` ids from 1 on, the ids that are wanted of it, and its index."""

    name: str
    log: Path
    samples: int
    ids: list[int]
    index_file: Path

    @property
    def work(self) -> str:
        return f"{len(self.ids)} of {self.samples:,} {self.name}"


class Folder(NamedTuple):
    """Many logs of as many samples each."""

    path: Path
    logs: list[str]
    samples: int


def one_log(name: str, samples: int, size: int, *, deflated: bool = False) -> Case:
    """A log of `samples` with about `size` bytes of JSON each."""
    folder = DATA / f"{name}-{samples}-{size}"
    _make(folder, 1, samples, size, min(137, samples // 20), deflated)
    evalindex.build(folder)
    ids = random.Random(7).sample(range(1, samples + 1), min(WANTED, -(-samples // 2)))
    return Case(name, folder / "run-00000.eval", samples, ids, folder / "evalindex.db")


def many_logs(logs: int, samples: int) -> Folder:
    folder = DATA / f"many-{logs}-{samples}"
    _make(folder, logs, samples, 5_000, 1, deflated=False)
    evalindex.build(folder)
    return Folder(folder, [str(log) for log in sorted(folder.glob("*.eval"))], samples)


def _make(folder: Path, logs: int, samples: int, size: int, failures: int, deflated: bool) -> None:
    if folder.exists():
        return
    print(f"making {folder} ...", file=sys.stderr)
    unfinished = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    with _deflating() if deflated else _as_usual():
        make_logs(unfinished, logs=logs, samples=samples, size=size, failures=failures)
    unfinished.rename(folder)
    time.sleep(2.5)  # the version of a log that just changed is not recorded


@contextmanager
def _deflating() -> Iterator[None]:
    """Have inspect write as it did before 0.3.206."""
    usual = zipfile_compress_kwargs["compression"]
    zipfile_compress_kwargs["compression"] = zipfile.ZIP_DEFLATED
    try:
        yield
    finally:
        zipfile_compress_kwargs["compression"] = usual


@contextmanager
def _as_usual() -> Iterator[None]:
    yield
