"""Measure evalindex beside inspect_ai and beside the floor, all in one interleaved run.

The floor is what a hand-written loop needs that checks nothing but CRCs: sqlite3, pread, zstd.
Logs are made once, with inspect_ai's own writer, in .bench/ (or where EVALINDEX_BENCH says).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmark import growth, indexing, memory, one_log, over_logs
from benchmark.data import many_logs
from benchmark.data import one_log as make_log
from benchmark.measure import Route, measure
from benchmark.report import Report

_LARGE = {"events", "store", "attachments"}


def local(*, quick: bool, rounds: int) -> Report:
    """Targets are those of the full sizes."""
    small = make_log("small", 2_000 if quick else 50_000, 5_000)
    heavy = make_log("heavy", 100 if quick else 2_000, 300_000)
    deflated = make_log("deflated", 1_000 if quick else 10_000, 5_000, deflated=True)
    folder = many_logs(40 if quick else 1_000, 50)
    larger = many_logs(4 if quick else 100, 500)
    processes = one_log.cold(small, bytes=25, dicts=20, get=12)
    routes: list[Route] = [
        *([route._replace(once=True) for route in processes] if quick else processes),
        *one_log.warm(small, bytes=40, dicts=18, samples=4),
        *one_log.single(small, 100),
        *one_log.warm(heavy, bytes=20, dicts=6, samples=1.4),
        *one_log.without_fields(heavy, _LARGE, 5),
        *one_log.warm(deflated),
        *over_logs.one_of_each(folder, bytes=30, dicts=18, samples=4),
        *over_logs.one_of_each(larger, bytes=45),
        *over_logs.questions(folder),
        *indexing.asked(small, uuid=500),
        *indexing.builds(small, folder, rows=4, directories=2),
        *indexing.rebuild(folder),
    ]
    if quick:
        routes = [route._replace(target=None) for route in routes]
    else:
        routes += one_log.slow(small)
    timings = measure(routes, rounds)
    huge = None if quick else make_log("huge", 1, 293_000_000)
    figures = [*indexing.figures(small, folder), *memory.figures(small, heavy, huge)]
    thousand = make_log("thousand", 1_000, 5_000)
    sizes = growth.grow(thousand, 10_000 if quick else 5_000_000)
    return Report(rounds, timings, figures, sizes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller logs, under a minute")
    parser.add_argument("--remote", action="store_true", help="on an S3 server, 20 ms away")
    parser.add_argument("--rounds", type=int, metavar="N", help="5, or 3 with --quick")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them there, as PNG")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args()
    if options.check and options.quick:
        parser.error("the targets are those of the full sizes: no --check with --quick")
    rounds = options.rounds or (3 if options.quick else 5)
    if options.remote:
        from benchmark.remote import remote

        report = remote(quick=options.quick, rounds=rounds)
    else:
        report = local(quick=options.quick, rounds=rounds)
    print(report.markdown())
    if options.json:
        report.write_json(options.json)
    if options.plot:
        report.plot(options.plot)
    if options.check:
        for missed in report.missed:
            print(f"missed: {missed}", file=sys.stderr)
        return int(bool(report.missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
