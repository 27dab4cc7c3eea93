"""The most memory that whole processes take, in MB."""

from __future__ import annotations

from benchmark.data import Case
from benchmark.measure import INSPECT, Figure, code, told

_READ = {
    INSPECT: """
from inspect_ai.log import read_eval_log_samples_by_id
found = list(read_eval_log_samples_by_id(log, [(id, 1) for id in ids]))
print(peak())
""",
    "bytes": """
import evalindex
with evalindex.open(index) as opened:
    found = opened.read_samples(log, ids, as_="bytes")
    print(peak())
""",
    "dicts": """
import evalindex
with evalindex.open(index) as opened:
    found = opened.read_samples(log, ids)
    print(peak())
""",
}
_ITERATE = {
    INSPECT: """
from inspect_ai.log import read_eval_log_sample
for id in ids:
    sample = read_eval_log_sample(log, id)
print(peak())
""",
    "dicts, iterated": """
import evalindex
with evalindex.open(index) as opened:
    for key, sample in opened.iter_samples((log, id) for id in ids):
        pass
    print(peak())
""",
}
_STREAM = {
    INSPECT: """
from inspect_ai.log import read_eval_log_sample
before = peak()
sample = read_eval_log_sample(log, ids[0])
print(peak() - before)
""",
    "stream": """
import evalindex
before = peak()
with evalindex.open(index) as opened, opened.stream(log, ids[0]) as stream:
    while stream.read(2**16):
        pass
print(peak() - before)
""",
}


def figures(small: Case, heavy: Case, huge: Case | None) -> list[Figure]:
    jobs = [(small, small.work, _READ, 60.0), (heavy, heavy.work, _ITERATE, 70.0)]
    if huge is not None:
        jobs.append((huge, "1 of 293 MB, more than before", _STREAM, 16.0))
    return [
        Figure(work, who, told(code(text, case)), "MB", None if who == INSPECT else most)
        for case, work, programs, most in jobs
        for who, text in programs.items()
    ]
