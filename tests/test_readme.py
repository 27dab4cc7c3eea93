"""Every example of the README is run, and its help texts are those of the program."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import pytest

import evalindex
from evalindex.cli import cli
from tests.builders import sample, write_log
from tests.servers import Server
from tests.servers.s3 import client

_REPOSITORY = Path(__file__).resolve().parent.parent
_README = (_REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a reader of the README stands."""
    fields: dict[str, Any] = {"input": "q", "target": "t", "events": [], "store": {}}
    samples = [sample(n, e, **fields) for n in range(1, 60) for e in (1, 2)]
    samples.append(sample("q-alpha", **fields))
    samples[7]["uuid"] = "hV8mYzXUbCFrXrTp4rd2k5"
    summaries = [
        {
            **one,
            "completed": True,
            "scores": {"match": {"value": "I" if n % 9 == 0 else "C"}},
            "error": "TimeoutError('slow')" if n == 3 else None,
        }
        for n, one in enumerate(samples)
    ]
    spec = {
        "task": "gsm8k",
        "task_id": "t1",
        "model": "mockllm/model",
        "created": datetime.now(timezone.utc).isoformat(),
        "dataset": {"samples": 59, "sample_ids": list(range(1, 60))},
        "config": {"epochs": 2},
        "packages": {"inspect_ai": "0.3.285"},
    }
    log = tmp_path / "logs" / "run.eval"
    write_log(log, samples, header={"eval": spec}, summaries=summaries)
    spec = {**spec, "task_id": "t2", "dataset": {"sample_ids": [1]}, "config": {}}
    other = tmp_path / "logs" / "other.eval"
    write_log(other, [sample(1, target="t")], header={"eval": spec})
    (tmp_path / "wanted.csv").write_text("log,id,epoch\nlogs/run.eval,42,2\nlogs/other.eval,1,1\n")
    (tmp_path / "wanted.jsonl").write_text('{"log": "logs/run.eval", "id": "q-alpha"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_commands_run(folder: Path, seaweed_store: Server) -> None:
    bucket = client(seaweed_store.port)
    bucket.create_bucket(Bucket="my-bucket")
    bucket.upload_file(str(folder / "logs" / "run.eval"), "my-bucket", "logs/run.eval")
    commands = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(commands) >= 9
    for command in commands:
        if command.startswith("sqlite3 "):  # the program need not be here; its statement must work
            _, file, statement = shlex.split(command)
            connection = sqlite3.connect(folder / file)
            rows = connection.execute(statement).fetchall()
            connection.close()
            assert len(rows) == 3
            assert rows[0][0] == "run.eval"
            continue
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout or "--out" in command or "export" in command, command
    lines = map(json.loads, (folder / "samples.jsonl").read_text().splitlines())
    assert [(line["id"], line["epoch"]) for line in lines] == [(42, 2), (1, 1)]
    assert json.loads((folder / "sample.json").read_text())["id"] == 42
    assert "TimeoutError" in (folder / "failed.csv").read_text()


def test_the_python_examples_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.is_dir()
    names: dict[str, object] = {}
    code = blocks("python")
    assert len(code) >= 5
    for block in code:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("2 0 0\n")
    assert "998" in printed
    assert names["status"] == "success"
    assert len(names["rows"]) == 2 * 59 + 1  # type: ignore[arg-type]
    assert [type(item) for item in names["found"]] == [dict, evalindex.SampleNotFound, dict]  # type: ignore[attr-defined]


def test_the_help_texts_are_those_of_the_program() -> None:
    command = [sys.executable, "scripts/update_readme.py", "--check"]
    done = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_method_and_command_is_in_the_readme() -> None:
    methods = {name for name in dir(evalindex.Index) if not name.startswith("_")}
    for name in methods - {"close", "path", "locate"}:
        assert re.search(rf"index\.{name}\b", _README), name
    for verb in cli.list_commands(click.Context(cli)):
        assert f"$ evalindex {verb}" in _README
