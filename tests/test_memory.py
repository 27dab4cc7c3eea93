"""How much memory reads take: the budget's, whatever the size of the job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import evalindex
from tests.builders import PEAK, sample, write_log

_ITERATE = f"""{PEAK}
import sys
import evalindex
count, as_ = int(sys.argv[2]), sys.argv[3]
with evalindex.open(sys.argv[1]) as index:
    log = next(iter(index.status().logs)).log
    for key, value in index.iter_samples(((log, n) for n in range(count)), as_=as_):
        assert value
    print(peak() // 1024)
"""


@pytest.mark.parametrize("as_", ["dict", "bytes"])
def test_heavy_samples_are_iterated_within_the_budget(tmp_path: Path, as_: str) -> None:
    """200 samples of 300 KB of many small values: 60 MB of JSON, several times that as dicts."""
    heavy = [{"a": n, "b": [n, str(n)], "c": {"d": None}} for n in range(7_000)]
    log = write_log(tmp_path / "logs" / "run.eval", [sample(n, events=heavy) for n in range(200)])
    assert len(evalindex.open(log).read(log, 0, as_="bytes")) > 250_000
    evalindex.build(log.parent)
    command = [sys.executable, "-c", _ITERATE, str(log.parent / "evalindex.db"), "200", as_]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 70
