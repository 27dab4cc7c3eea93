"""Readers beside evals that write and builders that build, for a while.

EVALINDEX_SOAK_SECONDS makes the while longer than the few seconds of an ordinary run.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import evalindex
from tests.builders import sample, write_log

_SECONDS = float(os.environ.get("EVALINDEX_SOAK_SECONDS", "4"))
_spawn = multiprocessing.get_context("spawn")


def _flush_again_and_again(log: Path, stop: Any) -> None:
    """An eval that flushes: a new file with more samples, renamed over the log."""
    fresh = log.with_suffix(".tmp")
    generation = 1
    while not stop.wait(0.1):
        samples = [sample(n, v=generation * n) for n in range(200 + generation)]
        random.Random(generation).shuffle(samples)
        write_log(fresh, samples, finished=False, settled=False)
        fresh.rename(log)
        generation += 1


def test_a_running_log_is_read_while_it_is_replaced(tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs" / "run.eval", [sample(n, v=n) for n in range(200)])
    evalindex.build(log.parent)
    stop = _spawn.Event()
    writer = _spawn.Process(target=_flush_again_and_again, args=(log, stop))
    writer.start()
    rounds, last, until = 0, 0, time.time() + _SECONDS
    try:
        with evalindex.open(log.parent) as index:
            while time.time() < until or rounds < 5 or last < 5:
                samples = index.read_samples(log, range(200))
                assert [s["id"] for s in samples] == list(range(200))
                generations = {s["v"] // s["id"] for s in samples if s["id"]}
                assert all(s["v"] % s["id"] == 0 for s in samples if s["id"])
                assert min(generations) >= last, "an older sample after a newer one"
                last = max(generations)
                rounds += 1
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0


def _build_again_and_again(root: Path, stop: Any) -> None:
    number = 0
    while not stop.is_set():
        write_log(root / f"new-{number % 7}.eval", [sample(n, v=number) for n in range(50)])
        evalindex.build(root, full=number % 3 == 0)
        number += 1


def _read_again_and_again(root: Path, stop: Any, rounds: Any, failures: Any) -> None:
    """What was there from the start is there at any time, by index and by row."""
    rng = random.Random(os.getpid())
    try:
        with evalindex.open(root) as index:
            while not stop.is_set():
                keys = [(f"old-{rng.randrange(20)}.eval", rng.randrange(50)) for _ in range(20)]
                found = [value["id"] for _, value in index.iter_samples(keys)]
                assert found == [id for _, id in keys]
                log = f"old-{rng.randrange(20)}.eval"
                assert len(list(index.samples(log))) == 50
                evalindex.open(root).close()
                rounds.release()
    except BaseException as error:
        failures.put(repr(error))
        stop.set()


def test_readers_beside_a_builder_never_miss_a_sample(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for number in range(20):
        write_log(root / f"old-{number}.eval", [sample(n) for n in range(50)])
    evalindex.build(root)
    stop, rounds, failures = _spawn.Event(), _spawn.Semaphore(0), _spawn.Queue()
    processes = [_spawn.Process(target=_build_again_and_again, args=(root, stop))]
    processes += [
        _spawn.Process(target=_read_again_and_again, args=(root, stop, rounds, failures))
        for _ in range(8)
    ]
    for process in processes:
        process.start()
    for _ in range(80):
        while not rounds.acquire(timeout=0.5) and not stop.is_set():
            pass
    stop.wait(_SECONDS)
    stop.set()
    for process in processes:
        process.join()
    assert failures.empty(), failures.get()
    assert [process.exitcode for process in processes] == [0] * 9


_MANY = """
import sys, evalindex
root = sys.argv[1]
with evalindex.open(root) as index:
    keys = [(f"{n:04}.eval", 1) for n in range(10_000)] * 2
    values = [value["v"] for _, value in index.iter_samples(keys)]
    assert values == list(range(10_000)) * 2
    assert len(index.status().logs) == 10_000
    assert len(list(index.logs())) == 10_000
    assert index.verify().findings == ()
"""


def test_ten_thousand_logs_in_one_call_with_few_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for number in range(10_000):
        write_log(root / f"{number:04}.eval", [sample(1, v=number)], finished=False)

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    build = [sys.executable, "-m", "evalindex", "build", str(root)]
    subprocess.run(build, check=True, preexec_fn=few, capture_output=True)
    subprocess.run([sys.executable, "-c", _MANY, str(root)], check=True, preexec_fn=few)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_reads_with_an_index_of_its_own(tmp_path: Path, method: str) -> None:
    log = write_log(tmp_path / "logs" / "run.eval", [sample(n) for n in range(20)])
    evalindex.build(log.parent)
    context: Any = multiprocessing.get_context(method)
    failures = context.Queue()
    with evalindex.open(log.parent) as index:
        assert index.read(log, 1) == sample(1)
        if method == "fork":
            target, args = _read_with, (index, log, failures)
        else:
            target, args = _read_anew, (log.parent, log, failures)  # type: ignore[assignment]
        children = [context.Process(target=target, args=args) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0
        assert index.read(log, 2) == sample(2)
    assert failures.empty(), failures.get()


def _read_with(index: evalindex.Index, log: Path, failures: Any) -> None:
    try:
        assert [s["id"] for s in index.read_samples(log, range(20))] == list(range(20))
    except BaseException as error:
        failures.put(repr(error))


def _read_anew(root: Path, log: Path, failures: Any) -> None:
    with evalindex.open(root) as index:
        _read_with(index, log, failures)
