"""A process must never lose the locks of its own connections to an index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import evalindex
from tests.builders import sample, write_log

_HOLD_OPEN = """
import sys
from evalindex.database.writes import IndexWriter
writer = IndexWriter(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
writer.close()
"""


def test_opening_an_index_twice_does_not_let_a_builder_seal_it(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the locks of the whole process: a builder elsewhere
    would then remove the write-ahead log that the first Index still reads."""
    log = write_log(tmp_path / "logs" / "run.eval", [sample(1)])
    evalindex.build(log.parent)
    file = log.parent / "evalindex.db"
    builder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_OPEN, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert builder.stdout is not None
    assert builder.stdout.readline() == "open\n"
    with evalindex.open(log.parent) as index:
        assert index.read(log, 1) == sample(1)
        with evalindex.open(file) as other:
            assert other.read(log, 1) == sample(1)
        evalindex.open(log).close()
        builder.communicate("")
        assert builder.returncode == 0
        with file.open("rb") as opened:
            assert opened.read(20)[18:] == b"\2\2", "sealed although it is being read"
        assert index.read(log, 1) == sample(1)
