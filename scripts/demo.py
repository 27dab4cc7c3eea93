"""Index a folder of logs, read two samples from it and ask what is to be run again, saying what
happens: see `demo`."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path

import evalindex


def main(folder: str) -> int:
    print(f"$ evalindex build {folder}")
    started = time.perf_counter()
    report = evalindex.build(folder)
    print(
        f"  {report.indexed:,} logs indexed, {report.unchanged:,} unchanged, "
        f"{report.unreadable:,} unreadable, in {time.perf_counter() - started:.2f} s"
    )
    for error in report.failures:
        print(f"  {error}")
    print(f"  the index is {report.indexes[0]}")
    with evalindex.open(folder) as index:
        shown = 0
        for log in sorted(Path(folder).rglob("*.eval")):
            try:
                row = next((row for row in index.samples(log) if not row.chunked), None)
            except evalindex.EvalIndexError:
                continue  # the build has told why
            if row is None:
                continue
            print(f"$ evalindex get {row.log} {row.id!r} {row.epoch}")
            started = time.perf_counter()
            sample = index.read(row.log, row.id, row.epoch)
            text = f"input {str(sample['input'])[:60]!r}, target {str(sample['target'])[:30]!r}"
            print(f"  {text}; {row.bytes:,} bytes in {time.perf_counter() - started:.4f} s")
            shown += 1
            if shown == 2:
                break
        print(f"$ evalindex incomplete {folder}")
        started = time.perf_counter()
        todo = index.incomplete()
        planned = sum(task.planned or 0 for task in todo.tasks)
        done = sum(task.done for task in todo.tasks)
        print(
            f"  {done:,} of {planned:,} planned samples are done, {todo.total:,} to run, "
            f"in {time.perf_counter() - started:.4f} s"
        )
        for row in islice(todo, 3):
            print(f"  {row.path} id {row.id!r} epoch {row.epoch}: {row.reason}")
        todo.close()
    if not shown:
        print("there is no sample to show in this folder", file=sys.stderr)
    return 0 if shown else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except evalindex.EvalIndexError as error:
        sys.exit(f"error: {error}")
