"""Compare samples with those of the installed inspect_ai: equal objects, equal exceptions.

    compare.py [--samples N]

Reads logs that the installed release writes, and those in ../shared/logs where that folder is.
`--samples` bounds the keys of each log. An inspect_ai that is too old has to be refused by name.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import inspect_ai.log as inspect_log

import evalindex
from evalindex import inspect_ai as ours

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "logs"
_FIRST = (0, 3, 184)
#: Before, a read by id gave the first of several members of one name: a superseded record.
_LAST_MEMBER_WINS = (0, 3, 260)
_ATTACHMENTS: list[Any] = [False, True, "full", "core"]
_EXCLUSIONS: list[set[str] | None] = [
    None,
    {"events"},
    {"events", "timelines"},
    {"store", "attachments", "messages"},
    {"input"},
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare with the installed inspect_ai.")
    parser.add_argument("--samples", type=int, default=4)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    release = version("inspect_ai")
    number = tuple(map(int, release.split(".")[:3]))
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "logs"
        write_logs(root)
        if _SHARED.is_dir():
            shutil.copytree(_SHARED, root / "shared")
        evalindex.build(root)
        with evalindex.open(root) as index:
            if number < _FIRST:
                expect_refusal(index, root / "own.eval")
                print(f"inspect_ai {release}: refused by name, dicts and bytes are read")
                return
            last_wins = number >= _LAST_MEMBER_WINS
            compared, different = compare(index, root, options.samples, last_wins)
    print(f"inspect_ai {release}: {compared:,} comparisons, {different} differences")
    sys.exit(1 if different or compared < 200 else 0)


def write_logs(root: Path) -> None:
    """Logs by the release's own public writer."""
    root.mkdir()
    sample = {"input": "q", "target": "a", "store": {"n": 2**60}, "metadata": {"k": "v"}}
    samples = [{"id": id, "epoch": epoch, **sample} for id in (1, "b/c") for epoch in (1, 2)]
    document = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": "2026-01-02T03:04:05+00:00",
            "task": "t",
            "model": "mockllm/model",
            "dataset": {},
            "config": {"epochs": 2},
        },
        "samples": samples,
    }
    log = inspect_log.EvalLog.model_validate(document)
    inspect_log.write_eval_log(log, str(root / "own.eval"))


def expect_refusal(index: evalindex.Index, log: Path) -> None:
    assert index.read(log, 1)["epoch"] == 1
    assert json.loads(index.read(log, "b/c", 2, as_="bytes"))["id"] == "b/c"
    try:
        index.read(log, 1, as_="sample")
        said = "nothing"
    except evalindex.UnsupportedInspect as error:
        said = str(error)
    assert "0.3.184 or newer" in said, said


def compare(index: evalindex.Index, root: Path, samples: int, last_wins: bool) -> tuple[int, int]:
    compared = different = 0
    for log in sorted(root.rglob("*.eval")):
        if not (last_wins or has_unique_names(log)):
            continue
        for key in (*itertools.islice(keys(index, log), samples), ("absent", 1)):
            for attachments, excluded in itertools.product(_ATTACHMENTS, _EXCLUSIONS):
                options = {"resolve_attachments": attachments, "exclude_fields": excluded}
                theirs = outcome(inspect_log.read_eval_log_sample, str(log), *key, **options)
                mine = outcome(ours.read_eval_log_sample, log, *key, **options, index=index)
                compared += 1
                if theirs != mine:
                    different += 1
                    print(f"{log} {key} {options}:\n  {theirs!s:.300}\n  {mine!s:.300}")
    return compared, different


def has_unique_names(log: Path) -> bool:
    if not zipfile.is_zipfile(log):
        return True
    with zipfile.ZipFile(log) as archive:
        return len(archive.namelist()) == len(set(archive.namelist()))


def keys(index: evalindex.Index, log: Path) -> Iterator[tuple[str | int, int]]:
    try:
        for row in index.samples(log):
            if not row.chunked:  # inspect cannot read these
                yield row.id, row.epoch
    except evalindex.EvalIndexError:
        return


def outcome(read: Callable[..., Any], *key: Any, **options: Any) -> Any:
    """The sample as JSON values, or the type of the exception."""
    try:
        return _comparable(json.loads(read(*key, **options).model_dump_json()))
    except Exception as error:
        return type(error).__name__


def _comparable(value: Any) -> Any:
    """Without what inspect draws from the clock or by chance, and with NaN equal to itself."""
    if isinstance(value, dict):
        return {k: _comparable(v) for k, v in value.items() if k != "working_start"}
    if isinstance(value, list):
        return [_comparable(v) for v in value]
    return "NaN" if value != value else value


if __name__ == "__main__":
    main()
