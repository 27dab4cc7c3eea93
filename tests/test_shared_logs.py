"""Every real log beside the repository, against zipfile and against inspect_ai."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

import evalindex
from evalindex.cli import cli
from tests.builders import SHARED_LOGS, members_by_zipfile

# One member of a sample, by a pattern that is not ours.
_SAMPLE = re.compile(r"\Asamples/.*_epoch_-?[0-9]+\.json\Z", re.DOTALL)


@pytest.fixture(scope="module")
def logs(copied_logs: Path) -> Path:
    return copied_logs


def log_names() -> list[str]:
    return sorted(str(p.relative_to(SHARED_LOGS)) for p in SHARED_LOGS.rglob("*.eval"))


def test_they_are_there(shared_logs: Path) -> None:
    assert len(log_names()) == len(list(shared_logs.rglob("*.eval"))) == 52


def test_all_are_indexed_and_verified(logs: Path) -> None:
    result = CliRunner().invoke(cli, ["build", str(logs)], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert "52 indexed, 0 unchanged, 0 removed, 0 unreadable" in result.output
    with evalindex.open(logs) as index:
        assert index.verify().findings == ()


@pytest.mark.parametrize("name", log_names())
def test_bytes_and_dicts_are_those_that_zipfile_reads(logs: Path, name: str) -> None:
    evalindex.build(logs)
    members = members_by_zipfile(logs / name)
    expected = {name: data for name, data in members.items() if _SAMPLE.match(name)}
    with evalindex.open(logs) as index:
        rows = [row for row in index.samples(logs / name) if not row.chunked]
        assert {f"samples/{r.id}_epoch_{r.epoch}.json" for r in rows} == set(expected)
        data = index.read_samples(logs / name, rows, as_="bytes")
        assert data == [expected[f"samples/{r.id}_epoch_{r.epoch}.json"] for r in rows]
        dicts = index.read_samples(logs / name, rows)
        # repr, since NaN is not equal to itself
        assert repr(dicts) == repr([json.loads(d) for d in data])


@pytest.mark.parametrize("name", log_names())
def test_keys_are_those_that_inspect_reads(logs: Path, name: str) -> None:
    evalindex.build(logs)
    with evalindex.open(logs) as index:
        ours = sorted(((row.id, row.epoch) for row in index.samples(logs / name)), key=repr)
    assert ours == sorted(_keys_by_inspect(logs / name), key=repr)


def _keys_by_inspect(log: Path) -> list[tuple[str | int, int]]:
    samples: Any
    if "chunked" in log.name:  # inspect cannot read these samples, but it lists them
        samples = read_eval_log_sample_summaries(str(log))
    else:
        samples = read_eval_log(str(log)).samples or []
    return [(sample.id, sample.epoch) for sample in samples]


def test_damaged_files_beside_them_are_rows_with_a_reason(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    shutil.copytree(logs, folder)
    whole = (folder / "finished_int_2epochs.eval").read_bytes()
    (folder / "empty.eval").write_bytes(b"")
    (folder / "cut.eval").write_bytes(whole[: len(whole) // 2])
    (folder / "text.eval").write_text("no zip archive at all")
    result = CliRunner().invoke(cli, ["build", str(folder), "--json"], standalone_mode=False)
    assert result.return_value == 3
    report = json.loads(result.stdout)
    assert report["unreadable"] == 3
    assert {Path(f["log"]).name for f in report["failures"]} == {
        "empty.eval",
        "cut.eval",
        "text.eval",
    }
    assert all(f["error"] == "NotAnEvalLog" and f["reason"] for f in report["failures"])
    with evalindex.open(folder) as index:
        assert index.read("finished_int_2epochs.eval", 1)["id"] == 1
        with pytest.raises(evalindex.NotAnEvalLog):
            index.read("cut.eval", 1)


def test_inspect_and_we_agree_that_a_sample_is_missing(logs: Path) -> None:
    from inspect_ai.log import read_eval_log_sample_async

    log = logs / "finished_int_2epochs.eval"
    with pytest.raises(IndexError):
        asyncio.run(read_eval_log_sample_async(str(log), 99, 1))
    with evalindex.open(log) as index:
        for kind in (KeyError, IndexError, evalindex.SampleNotFound):
            with pytest.raises(kind):
                index.read(log, 99)
