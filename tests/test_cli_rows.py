"""The verbs that answer from rows: what goes to which stream, forms, exit codes."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import evalindex
from evalindex.cli import cli
from tests.builders import sample, write_log


def run(*arguments: object, stdin: str | None = None, columns: int | None = None) -> Any:
    command = [sys.executable, "-m", "evalindex", *map(str, arguments)]
    environment = os.environ if columns is None else {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment)


def log_of(path: Path, task: str, ids: list[str | int], failed: list[str | int]) -> Path:
    """A log of two epochs; what failed has failed in the second one."""
    bodies = [sample(id, epoch, uuid=f"{task}-{id}-{epoch}") for id in ids for epoch in (1, 2)]
    summaries = [
        {
            **body,
            "completed": True,
            "error": "TimeoutError('\x1b[31mslow\nvery')"
            if body["id"] in failed and body["epoch"] == 2
            else None,
            "limit": "token" if body["id"] == 5 else None,
            "scores": {"match": {"value": "C"}, "grade": {"value": body["epoch"] / 3}},
        }
        for body in bodies
    ]
    spec: dict[str, Any] = {
        "task": task,
        "task_id": task,
        "model": "m/x",
        "created": "2026-11-01T00:00:00+00:00",
    }
    spec |= {"dataset": {"sample_ids": [*ids, "never"]}, "config": {"epochs": 2}}
    spec |= {"packages": {"inspect_ai": "0.3.285"}}
    results = {"scores": [{"name": "match", "metrics": {"accuracy": {"value": 0.52345}}}]}
    header = {"eval": spec, "results": results}
    return write_log(path, bodies, header=header, summaries=summaries)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    log_of(folder / "a.eval", "alpha", [1, 2, 5], [2])
    log_of(folder / "b.eval", "beta", ["x", "a,b"], ["x"])
    evalindex.build(folder)
    return folder


def test_find_prints_a_table_that_fits(logs: Path) -> None:
    done = run("find", logs)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["log", "id", "epoch", "scores", "tokens", "outcome"]
    assert len(lines) == 10
    assert lines[0].split() == ["a.eval", "1", "1", "grade=0.3333", "match=C", "0"]
    assert "TimeoutError('\\x1b[31mslow" in lines[3]  # its first line, escaped
    assert "\x1b" not in done.stdout
    assert lines[5].rstrip().endswith("token limit")
    narrow = run("find", logs, columns=50).stdout.splitlines()
    assert max(map(len, narrow)) == 50
    assert any(line.endswith("…") for line in narrow)


def test_find_has_its_answer_in_other_forms(logs: Path) -> None:
    only = (logs, "--error", "Time*", "--task", "alpha")
    (line,) = run("find", *only, "--json").stdout.splitlines()
    with evalindex.open(logs) as index:
        (row,) = index.find(error="Time*", task="alpha")
    found = json.loads(line)
    assert {**found, "checked": 0} == {**row.as_dict(), "checked": 0}
    assert (found["id"], found["epoch"], found["recorded"]) == (2, 2, True)
    (cells,) = csv.DictReader(io.StringIO(run("find", *only, "--csv").stdout))
    assert (cells["log"], cells["id"], cells["epoch"]) == (str(logs / "a.eval"), "2", "2")
    keys = run("find", *only, "--keys").stdout
    assert json.loads(keys) == {"log": str(logs / "a.eval"), "id": 2, "epoch": 2}
    assert run("find", logs, "--count").stdout == "10\n"
    for form in ("--keys", "--csv"):
        given = run("find", logs, form).stdout
        samples = run("get", "--keys", "-", stdin=given).stdout.splitlines()
        got = [(one["log"], one["id"], one["epoch"]) for one in map(json.loads, samples)]
        with evalindex.open(logs) as index:
            assert got == [(row.log, row.id, row.epoch) for row in index.find()]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--id", "2"], 2),
        (["--id", "2", "--id", "x"], 4),
        (["--uuid", "alpha-2-1"], 1),
        (["--error", "*"], 2),
        (["--limit-hit"], 2),
        (["--score", "grade>0.5"], 5),
        (["--score", "grade>0.5", "--score", "match=C", "--model", "m/*", "--id", "5"], 1),
        (["--status", "success", "--status", "error"], 10),
        (["--status", "error"], 0),
        (["--since", "2026-11-02"], 0),
        (["--since", "2026-11-01"], 10),
        (["--newest"], 10),
        (["--newest-uuid", "--task", "beta"], 4),
        (["--fresh"], 10),
    ],
)
def test_filters_are_those_of_the_library(logs: Path, options: list[str], count: int) -> None:
    assert run("find", logs, "--count", *options).stdout == f"{count}\n"


@pytest.mark.parametrize(
    "options", [["--score", "grade<x"], ["--score", ""], ["--since", "soon"], ["--newest", "uuid"]]
)
def test_a_filter_that_means_nothing_is_a_usage_error(logs: Path, options: list[str]) -> None:
    done = run("find", logs, *options)
    assert (done.returncode, done.stdout) == (2, "")


def test_logs_prints_a_row_a_log(logs: Path) -> None:
    done = run("logs", logs)
    assert (done.returncode, done.stderr) == (0, "")
    header, first, second = done.stdout.splitlines()
    assert " ".join(header.split()) == "created task model status done errors metric log"
    assert " ".join(first.split()[2:]) == "alpha m/x success 5/8 1 accuracy 0.5234 a.eval"
    assert "beta" in second
    rows = [json.loads(line) for line in run("logs", logs, "--json").stdout.splitlines()]
    assert [(row["path"], row["done"], row["planned"]) for row in rows] == [
        ("a.eval", 5, 8),
        ("b.eval", 3, 6),
    ]
    assert rows[0]["metrics"][0]["value"] == 0.52345
    assert run("logs", logs, "--id", "x").stdout.count("\n") == 2
    nothing = run("logs", logs, "--task", "none")
    assert (nothing.returncode, nothing.stdout) == (0, "")


def test_incomplete_prints_what_is_to_be_run(logs: Path) -> None:
    done = run("incomplete", logs)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["reason", "id", "epoch", "task", "log", "error"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["missing", "never", "1"],
        ["error", "2", "2"],
        ["missing", "never", "2"],
    ]
    assert lines[-1] == "6 samples to run: 4 missing, 2 error"
    assert "2 tasks in 2 logs: 8 of 14 samples done" in done.stderr
    assert "2 samples ended by a limit" in done.stderr
    quiet = run("incomplete", logs, "-q")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")
    document = json.loads(run("incomplete", logs, "--json").stdout)
    assert [task["done"] for task in document["tasks"]] == [5, 3]
    assert [one["reason"] for one in document["samples"]].count("missing") == 4
    keys = run("incomplete", logs / "a.eval", "--format", "keys").stdout.splitlines()
    assert [(json.loads(key)["id"], json.loads(key)["epoch"]) for key in keys] == [
        ("never", 1),
        (2, 2),
        ("never", 2),
    ]


def test_incomplete_prints_arguments_for_inspect(logs: Path) -> None:
    done = run("incomplete", logs / "a.eval", "--format", "args")
    assert done.returncode == 0
    assert shlex.split(done.stdout) == ["--sample-id", "never,2"]
    assert "2 (2)" in done.stderr  # the epoch that is missing
    several = run("incomplete", logs, "--format", "args")
    assert (several.returncode, several.stdout) == (1, "")
    assert "2 tasks" in several.stderr
    log_of(logs / "c.eval", "gamma", ["a,b"], ["a,b"])
    comma = run("incomplete", logs / "c.eval", "--format", "args")
    assert (comma.returncode, comma.stdout) == (1, "")
    assert "'a,b'" in comma.stderr
    assert "keys" in comma.stderr


def test_what_is_not_known_is_never_complete(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", [sample(1)])
    evalindex.build(tmp_path)
    done = run("incomplete", tmp_path)
    assert done.returncode == 3
    assert "unknown" in done.stderr
    assert "unknown" in run("incomplete", tmp_path, "-q").stderr


def test_what_had_to_be_read_is_told_in_one_line(logs: Path) -> None:
    for name in ("c", "d"):
        log_of(logs / f"{name}.eval", name, [1], [])
    done = run("find", logs, "--count")
    assert done.stdout == "14\n"
    assert done.stderr.count("\n") == 1
    assert "2 logs new or changed" in done.stderr
    assert run("find", logs, "--count", "-q").stderr == ""
    (logs / "a.eval").unlink()
    assert "1 indexed, but no longer there" in run("find", logs, "--count").stderr


def test_a_log_that_cannot_be_read_gives_code_3(logs: Path) -> None:
    (logs / "b.eval").write_bytes(b"junk")
    for verb in ("find", "logs", "incomplete"):
        done = run(verb, logs, "-q")
        assert done.returncode == 3
        assert done.stdout
        assert "b.eval" in done.stderr
    out = logs.parent / "rows.csv"
    assert run("export", out, logs).returncode == 3
    assert len(list(csv.reader(io.StringIO(out.read_text())))) == 7
    one = run("find", logs / "b.eval")
    assert (one.returncode, one.stdout) == (1, "")


def test_get_by_uuid_says_from_which_log(logs: Path) -> None:
    done = run("get", logs, "--uuid", "beta-x-2")
    assert done.returncode == 0
    assert json.loads(done.stdout) == sample("x", 2, uuid="beta-x-2")
    assert str(logs / "b.eval") in done.stderr
    assert run("get", logs, "--uuid", "beta-x-2", "-q").stderr == ""
    one = run("get", logs / "b.eval", "--uuid", "beta-x-2", "--exclude", "input")
    assert "input" not in json.loads(one.stdout)
    missing = run("get", logs / "a.eval", "--uuid", "beta-x-2")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no sample with the uuid 'beta-x-2'" in missing.stderr
    assert run("get", logs, "1", "--uuid", "beta-x-2").returncode == 2


def test_without_an_index_a_folder_cannot_be_asked(tmp_path: Path) -> None:
    log_of(tmp_path / "a.eval", "alpha", [1], [])
    for verb in ("find", "logs", "incomplete"):
        done = run(verb, tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "evalindex build" in done.stderr


def test_build_can_keep_the_index_small(logs: Path) -> None:
    assert run("build", logs, "--no-summaries").stdout.startswith("2 indexed")
    small = (logs / "evalindex.db").stat().st_size
    assert run("build", logs, "--no-summaries").stdout.startswith("0 indexed, 2 unchanged")
    with evalindex.open(logs) as index:
        assert index.find().total == 10
    assert run("build", logs).stdout.startswith("2 indexed")
    assert (logs / "evalindex.db").stat().st_size >= small


def test_a_closed_pipe_ends_quietly(logs: Path) -> None:
    command = f"{sys.executable} -m evalindex find {logs} --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    "verb", [["find", "-q"], ["find"], ["get", "--uuid", "alpha-1-1"], ["status", "-q"]]
)
def test_a_program_that_runs_a_verb_keeps_its_logging(logs: Path, verb: list[str]) -> None:
    logger = logging.getLogger("evalindex")
    before = (logger.level, list(logger.handlers))
    result = CliRunner().invoke(cli, [*verb, str(logs)])
    assert result.exit_code == 0
    assert result.output
    assert (logger.level, logger.handlers) == before
