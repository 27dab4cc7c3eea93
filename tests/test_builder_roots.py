"""Which index a build writes, which root it is about, and what it may forget."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import evalindex
from evalindex.cli import cli
from tests.builders import (
    as_nobody,
    change_index,
    give_away,
    log_ids,
    public_folder,
    query,
    sample,
    write_log,
)


@pytest.fixture(autouse=True)
def _versions_are_recorded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An indexed root with three logs."""
    root = tmp_path / "logs"
    for name in ("top.eval", "a/one.eval", "b/two.eval"):
        write_log(root / name, [sample(name)])
    evalindex.build(root)
    return root


def counts(report: evalindex.BuildReport) -> tuple[int, int, int, int]:
    return report.indexed, report.unchanged, report.removed, report.unreadable


def locations(index: Path) -> list[str]:
    return [row[0] for row in query(index, "SELECT location FROM root ORDER BY 1")]


def test_an_empty_root_that_held_logs_is_an_error_and_nothing_is_forgotten(root: Path) -> None:
    for log in root.rglob("*.eval"):
        log.unlink()
    with pytest.raises(evalindex.RootUnreadable, match="--forget"):
        evalindex.build(root)
    assert len(log_ids(root / "evalindex.db")) == 3
    assert counts(evalindex.build(root, forget=True)) == (0, 0, 3, 0)
    assert log_ids(root / "evalindex.db") == {}


def test_a_missing_root_that_held_logs_is_an_error_and_nothing_is_forgotten(
    root: Path, tmp_path: Path
) -> None:
    index = tmp_path / "other.db"
    evalindex.build(root, index)
    shutil.rmtree(root)
    with pytest.raises(evalindex.RootUnreadable, match="--forget") as caught:
        evalindex.build(root, index)
    assert caught.value.filename == str(root)
    assert len(log_ids(index)) == 3
    assert counts(evalindex.build(root, index, forget=True)) == (0, 0, 3, 0)
    assert log_ids(index) == {}


@pytest.mark.parametrize("in_named_index", [False, True])
def test_a_root_that_is_not_there_is_an_error_and_is_not_made(
    tmp_path: Path, in_named_index: bool
) -> None:
    index = tmp_path / "other.db" if in_named_index else None
    with pytest.raises(evalindex.RootUnreadable) as caught:
        evalindex.build(tmp_path / "typo", index)
    assert caught.value.filename == str(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()


def test_a_file_that_is_no_log_is_an_error_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(evalindex.EvalIndexError):
        evalindex.build(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_inside_an_indexed_root_refreshes_only_that_part(root: Path) -> None:
    index = root / "evalindex.db"
    before = log_ids(index)
    for name in ("a/one.eval", "b/two.eval"):
        write_log(root / name, [sample("changed")])
    write_log(root / "a" / "new.eval", [sample(1)])
    write_log(root / "ab" / "other.eval", [sample(1)])
    (root / "top.eval").unlink()
    report = evalindex.build(root / "a")
    assert counts(report) == (2, 0, 0, 0)
    assert report.indexes == (str(index),)
    assert not (root / "a" / "evalindex.db").exists()
    after = log_ids(index)
    assert set(after) == {"top.eval", "a/one.eval", "a/new.eval", "b/two.eval"}
    assert after["b/two.eval"] == before["b/two.eval"]
    assert after["a/one.eval"] != before["a/one.eval"]


def test_an_emptied_folder_inside_an_indexed_root_is_an_error_unless_forgotten(root: Path) -> None:
    (root / "a" / "one.eval").unlink()
    with pytest.raises(evalindex.RootUnreadable) as caught:
        evalindex.build(root / "a")
    assert caught.value.filename == str(root / "a")
    assert counts(evalindex.build(root / "a", forget=True)) == (0, 0, 1, 0)
    assert set(log_ids(root / "evalindex.db")) == {"top.eval", "b/two.eval"}


def test_a_containing_root_takes_the_inner_one_over_in_one_index(
    root: Path, tmp_path: Path
) -> None:
    index = tmp_path / "elsewhere" / "one.db"
    evalindex.build([root / "a", root / "b"], index)
    assert locations(index) == [str(root / "a"), str(root / "b")]
    before = log_ids(index)
    assert counts(evalindex.build(root, index)) == (1, 2, 0, 0)
    assert locations(index) == [str(root)]
    after = log_ids(index)
    assert after["a/one.eval"] == before["one.eval"]
    assert after["b/two.eval"] == before["two.eval"]
    assert set(after) == {"top.eval", "a/one.eval", "b/two.eval"}


def test_one_log_is_refreshed_alone_and_nothing_is_forgotten(root: Path) -> None:
    index = root / "evalindex.db"
    (root / "top.eval").unlink()
    write_log(root / "a" / "one.eval", [sample("changed")])
    write_log(root / "a" / "new.eval", [sample(1)])
    report = evalindex.build(root / "a" / "one.eval")
    assert counts(report) == (1, 0, 0, 0)
    assert report.indexes == (str(index),)
    assert set(log_ids(index)) == {"top.eval", "a/one.eval", "b/two.eval"}
    assert counts(evalindex.build(root / "a" / "one.eval")) == (0, 1, 0, 0)


def test_one_log_without_an_index_makes_its_folder_a_root_that_knows_it_alone(
    tmp_path: Path,
) -> None:
    for name in ("a.eval", "b.eval"):
        write_log(tmp_path / "logs" / name, [sample(name)])
    evalindex.build(tmp_path / "logs" / "a.eval")
    index = tmp_path / "logs" / "evalindex.db"
    assert locations(index) == ["."]
    assert set(log_ids(index)) == {"a.eval"}
    with evalindex.open(tmp_path / "logs") as opened:
        assert opened.read("b.eval", "b.eval") == sample("b.eval")
    assert counts(evalindex.build(tmp_path / "logs")) == (1, 1, 0, 0)


def test_one_log_that_is_not_there_is_an_error(root: Path) -> None:
    with pytest.raises(evalindex.LogNotFound):
        evalindex.build(root / "none.eval")
    assert len(log_ids(root / "evalindex.db")) == 3


def test_a_log_behind_a_link_is_the_log_itself(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias.eval").symlink_to(root / "a" / "one.eval")
    before = log_ids(root / "evalindex.db")
    write_log(root / "a" / "one.eval", [sample("changed")])
    assert counts(evalindex.build(tmp_path / "alias.eval")) == (1, 0, 0, 0)
    after = log_ids(root / "evalindex.db")
    assert set(after) == set(before)
    assert after["a/one.eval"] != before["a/one.eval"]


def test_each_of_several_roots_has_its_own_index(root: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "more" / "m.eval", [sample(1)])
    report = evalindex.build([root, tmp_path / "more"])
    assert counts(report) == (1, 3, 0, 0)
    assert report.indexes == (str(root / "evalindex.db"), str(tmp_path / "more" / "evalindex.db"))


def test_a_build_that_was_killed_at_its_start_above_does_not_stop_one_below(
    tmp_path: Path,
) -> None:
    write_log(tmp_path / "sub" / "a.eval", [sample(1)])
    (tmp_path / "evalindex.db").write_bytes(b"")
    evalindex.build(tmp_path / "sub")
    with evalindex.open(tmp_path / "sub") as index:
        assert index.read("a.eval", 1) == sample(1)


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_named_index_holds_all_roots(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    write_log(tmp_path / "more" / "m.eval", [sample("m")])
    index = tmp_path / "new folder" / "100% #?.db"
    if how == "environment":
        monkeypatch.setenv("EVALINDEX_INDEX", str(index))
    argument = index if how == "argument" else None
    report = evalindex.build([root, tmp_path / "more"], argument)
    assert report.indexes == (str(index),)
    assert locations(index) == [str(root), str(tmp_path / "more")]
    assert not (tmp_path / "more" / "evalindex.db").exists()
    with evalindex.open(index) as opened:
        assert opened.read("m.eval", "m") == sample("m")


def test_a_root_moved_together_with_its_index_keeps_all_rows(root: Path, tmp_path: Path) -> None:
    before = log_ids(root / "evalindex.db")
    moved = tmp_path / "other place" / "renamed"
    moved.parent.mkdir()
    root.rename(moved)
    with evalindex.open(moved) as index:
        assert index.read("a/one.eval", "a/one.eval") == sample("a/one.eval")
    assert counts(evalindex.build(moved)) == (0, 3, 0, 0)
    assert log_ids(moved / "evalindex.db") == before
    assert locations(moved / "evalindex.db") == ["."]


def test_a_root_copied_together_with_its_index_keeps_all_rows(root: Path, tmp_path: Path) -> None:
    before = log_ids(root / "evalindex.db")
    shutil.copytree(root, tmp_path / "copy")
    assert counts(evalindex.build(tmp_path / "copy")) == (0, 3, 0, 0)
    assert log_ids(tmp_path / "copy" / "evalindex.db") == before


def test_a_root_whose_name_is_no_utf8_is_built_or_refused_by_name(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    write_log(root / "a.eval", [sample(1)])
    for index in (None, tmp_path / "named.db"):
        with pytest.raises(evalindex.EvalIndexError, match="UTF-8"):
            evalindex.build(root, index)


def test_logs_in_the_json_format_are_named_and_not_indexed(root: Path) -> None:
    by_name = root / "2024-05-01T10-00-00+00-00_task_abc.json"
    by_name.write_text("[]")
    by_content = root / "a" / "log.json"
    by_content.write_text(' {"version": 2, "status": "success", "eval": {}}')
    (root / "notes.json").write_text('{"version": 2}')
    (root / "eval.json").write_bytes(b"\xff\xfe")
    report = evalindex.build(root)
    assert set(report.json_logs) == {str(by_name), str(by_content)}
    assert report.unreadable == 0


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder with a root that others may only read, and a cache folder that is theirs."""
    with public_folder() as folder:
        write_log(folder / "logs" / "a.eval", [sample(1)])
        (folder / "cache").mkdir()
        give_away(folder / "cache")
        yield folder


def test_a_read_only_root_is_indexed_in_the_cache(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only / "cache"))
    root = read_only / "logs"

    def build_and_read() -> tuple[str, Any, str | None]:
        (index,) = evalindex.build(root).indexes
        with evalindex.open(root) as opened:
            return index, opened.read("a.eval", 1), opened.path

    built, answer, used = as_nobody(build_and_read, refused=root)
    assert answer == sample(1)
    assert built == used
    assert Path(built).parent == read_only / "cache" / "evalindex"
    assert locations(Path(built)) == [str(root)]
    assert [path.name for path in root.iterdir()] == ["a.eval"]


def test_a_named_index_goes_before_the_cache(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only / "cache"))
    root, index = read_only / "logs", read_only / "cache" / "mine.db"
    report = as_nobody(lambda: evalindex.build(root, index), refused=root)
    assert report.indexes == (str(index),)
    assert [path.name for path in (read_only / "cache").iterdir()] == ["mine.db"]


def test_a_read_only_root_without_a_place_for_the_cache_is_an_error_by_name(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only / "logs"))
    with pytest.raises(evalindex.IndexNotWritable, match="--index"):
        as_nobody(lambda: evalindex.build(read_only / "logs"), refused=read_only / "logs")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evalindex", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_says_by_its_exit_code_how_it_went(root: Path, tmp_path: Path) -> None:
    good = run("build", root)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.splitlines()[0] == "0 indexed, 3 unchanged, 0 removed, 0 unreadable"
    (root / "bad.eval").write_bytes(b"")
    partly = run("build", root)
    assert partly.returncode == 3
    assert str(root / "bad.eval") in partly.stderr
    assert run("build", root, "--strict").returncode == 1
    change_index(root / "evalindex.db", "PRAGMA application_id = 5")
    failed = run("build", root)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Traceback" not in failed.stderr
    assert "hint: " in failed.stderr
    assert run("build").returncode == 2
    assert run("build", tmp_path / "typo").returncode == 1


def test_the_command_reports_as_one_json_document(root: Path) -> None:
    (root / "bad.eval").write_bytes(b"")
    result = CliRunner().invoke(cli, ["build", "--json", str(root)], standalone_mode=False)
    assert result.return_value == 3
    document = json.loads(result.stdout)
    assert document["unchanged"] == 3
    assert document["unreadable"] == 1
    assert document["indexes"] == [str(root / "evalindex.db")]
    (failure,) = document["failures"]
    assert failure["log"] == str(root / "bad.eval")
    assert failure["error"] == "NotAnEvalLog"


def test_the_command_takes_an_index_and_forgets_when_told(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "cli.db"
    runner = CliRunner()
    named = ["build", str(root), "--index", str(index)]
    assert runner.invoke(cli, named, standalone_mode=False).return_value == 0
    assert len(log_ids(index)) == 3
    shutil.rmtree(root)
    refused = runner.invoke(cli, named, standalone_mode=False)
    assert isinstance(refused.exception, evalindex.RootUnreadable)
    assert runner.invoke(cli, [*named, "--forget"], standalone_mode=False).return_value == 0
    assert log_ids(index) == {}
