"""What the names of logs, roots and indexes mean."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from inspect_ai.log import EvalLogInfo

import evalindex
from tests.builders import sample, write_log

NAME = "run 100%25 #1?é.eval"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An indexed root; its log's name looks as if it were percent-encoded."""
    write_log(tmp_path / "logs" / "sub" / NAME, [sample("right")])
    evalindex.build(tmp_path / "logs")
    return tmp_path / "logs"


def info(name: str) -> EvalLogInfo:
    return EvalLogInfo(name=name, type="file", size=1, mtime=None, task="", task_id="", suffix=None)


def below(root: Path) -> Path:
    return root / "sub" / NAME


ABSOLUTE: dict[str, Callable[[Path], Any]] = {
    "str": lambda root: str(below(root)),
    "Path": below,
    "dots": lambda root: f"{root}/./sub/../sub//{NAME}",
    "literal file URL": lambda root: f"file://{below(root)}",
    "encoded file URL": lambda root: f"file://{quote(str(below(root)))}",
    "file URL with host": lambda root: f"file://localhost{below(root)}",
    "Path.as_uri": lambda root: below(root).as_uri(),
    "EvalLogInfo": lambda root: info(str(below(root))),
    "EvalLogInfo with file URL": lambda root: info(f"file://{below(root)}"),
}
RELATIVE: dict[str, Callable[[Path], Any]] = {
    "below the root": lambda _: f"sub/{NAME}",
    "Path below the root": lambda _: Path("sub") / NAME,
    "dot": lambda _: f"./sub/{NAME}",
    "dots inside": lambda _: f"sub/../sub/{NAME}",
    "EvalLogInfo": lambda _: info(f"sub/{NAME}"),
}


@pytest.mark.parametrize("spelling", [*ABSOLUTE.values(), *RELATIVE.values()])
@pytest.mark.parametrize("place", ["/", "logs", "logs/sub"])
def test_every_spelling_from_everywhere_is_the_same_log(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spelling: Callable[[Path], Any],
    place: str,
) -> None:
    monkeypatch.chdir(tmp_path / place)
    with evalindex.open(root) as index:
        assert index.read(spelling(root), "right") == sample("right")
        (row,) = index.samples(spelling(root))
    assert (row.log, row.path) == (str(below(root)), f"sub/{NAME}")


@pytest.mark.parametrize("spelling", ABSOLUTE.values())
def test_one_log_is_opened_by_every_spelling(root: Path, spelling: Callable[[Path], Any]) -> None:
    with evalindex.open(spelling(root)) as index:
        assert index.path == str(root / "evalindex.db")
        assert index.read(NAME, "right") == sample("right")


def test_a_name_in_an_eval_log_info_is_never_decoded(tmp_path: Path) -> None:
    write_log(tmp_path / "a%20b.eval", [sample("literal")])
    write_log(tmp_path / "a b.eval", [sample("decoded")])
    with evalindex.open(tmp_path / "a b.eval") as index:
        assert index.read(info(f"{tmp_path}/a%20b.eval"), "literal") == sample("literal")
        assert index.read(f"file://{tmp_path}/a%20b.eval", "literal") == sample("literal")
        (tmp_path / "a%20b.eval").unlink()
        assert index.read(f"file://{tmp_path}/a%20b.eval", "decoded") == sample("decoded")
        with pytest.raises(evalindex.LogNotFound):
            index.read(info(f"{tmp_path}/a%20b.eval"), "decoded")
        with pytest.raises(evalindex.LogNotFound):
            index.read(f"{tmp_path}/a%20b.eval", "decoded")


ROOTS = {
    "absolute": ("/", "{root}"),
    "relative": (".", "logs"),
    "dot": (".", "./logs"),
    "slash": (".", "logs/"),
    "current": ("logs", "."),
    "parent": ("logs/sub", ".."),
    "link": ("/", "{root}/../link"),
    "link with slash": ("/", "{root}/../link/"),
    "through a link": ("link", "."),
    "file URL": ("/", "file://{root}"),
}


@pytest.mark.parametrize(("place", "spelling"), ROOTS.values(), ids=ROOTS)
def test_every_spelling_of_a_root_is_the_same_root(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, spelling: str
) -> None:
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(tmp_path / place)
    text = spelling.format(root=root)
    report = evalindex.build(text)
    assert (report.indexed, report.unchanged) == (0, 1)
    assert report.indexes == (str(root / "evalindex.db"),)
    with evalindex.open(text) as index:
        assert index.path == str(root / "evalindex.db")
        for name in (below(root), f"sub/{NAME}", tmp_path / "link" / "sub" / NAME):
            (row,) = index.samples(name)
            assert row.log == str(below(root))


def test_an_open_index_outlives_a_change_of_the_current_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with evalindex.open("logs") as index:
        monkeypatch.chdir("/")
        assert index.read(f"sub/{NAME}", "right") == sample("right")


@pytest.mark.parametrize("way", ["../out.eval", "sub/../../out.eval", "./../out.eval"])
def test_a_way_out_of_a_root_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    write_log(tmp_path / "out.eval", [sample("out")])
    monkeypatch.chdir("/")
    for where in (root, root / "evalindex.db", below(root)):
        with evalindex.open(where) as index, pytest.raises(evalindex.LogNotFound):
            index.read(way, "out")
    monkeypatch.chdir(root)  # from the current folder it is a name like any other
    with evalindex.open(root) as index:
        assert index.read("../out.eval", "out") == sample("out")


def test_a_name_that_means_two_logs_names_both(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = write_log(tmp_path / "sub" / NAME, [sample("here")])
    monkeypatch.chdir(tmp_path)
    with evalindex.open(root) as index:
        with pytest.raises(evalindex.AmbiguousLog) as caught:
            index.read(f"sub/{NAME}", "right")
        assert set(caught.value.candidates) == {str(below(root)), str(here)}
        assert str(below(root)) in str(caught.value)
        assert str(here) in str(caught.value)
        assert index.read(str(here), "here") == sample("here")


def test_a_name_in_two_roots_of_one_index_is_ambiguous(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_log(tmp_path / name / "a.eval", [sample(name)])
    evalindex.build([tmp_path / "one", tmp_path / "two"], tmp_path / "both.db")
    with evalindex.open(tmp_path / "both.db") as index:
        with pytest.raises(evalindex.AmbiguousLog):
            index.read("a.eval", "one")
        assert index.read(tmp_path / "two" / "a.eval", "two") == sample("two")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none.eval", evalindex.LogNotFound),
        ("/none.eval", evalindex.LogNotFound),
        ("nul\0.eval", evalindex.LogNotFound),
        ("", evalindex.EvalIndexError),
        (".", evalindex.EvalIndexError),
        ("ftp://host/a.eval", evalindex.LogUnreadable),
        ("https://host/a.eval", evalindex.LogUnreadable),
        ("surrogate\ud800.eval", evalindex.LogNotFound),
        ("l" * 5000 + ".eval", evalindex.EvalIndexError),
    ],
)
def test_a_name_that_means_nothing_is_an_error_by_name(
    root: Path, name: str, kind: type[Exception]
) -> None:
    with evalindex.open(root) as index, pytest.raises(kind):
        index.read(name, "right")


def test_a_log_whose_name_is_no_utf8_is_read_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsdecode(b"\xff.eval")
    write_log(root / name, [sample("odd")])
    with evalindex.open(root) as index:
        assert index.read(root / name, "odd") == sample("odd")
        monkeypatch.chdir(root)
        assert index.read(name, "odd") == sample("odd")


@pytest.mark.parametrize("name", [7, None, 1.5, b"a.eval"])
def test_a_name_of_another_type_is_a_type_error(root: Path, name: Any) -> None:
    with evalindex.open(root) as index, pytest.raises(TypeError, match="EvalLogInfo"):
        index.read(name, "right")


@pytest.mark.parametrize("place", ["logs/alias.eval", "alias.eval"])
def test_a_link_is_an_alias_that_is_resolved_in_each_call(
    root: Path, tmp_path: Path, place: str
) -> None:
    other = write_log(root / "other.eval", [sample("other")])
    evalindex.build(root)
    alias = tmp_path / place
    alias.symlink_to(below(root))
    with evalindex.open(root) as index:
        (row,) = index.samples(alias)
        assert (row.log, row.path) == (str(below(root)), f"sub/{NAME}")
        alias.unlink()
        alias.symlink_to(other)
        assert index.read(alias, "other") == sample("other")
        with pytest.raises(evalindex.SampleNotFound):
            index.read(alias, "right")
        alias.unlink()
        with pytest.raises(evalindex.LogNotFound):
            index.read(alias, "other")


def test_the_nearest_index_above_a_log_is_used(root: Path, tmp_path: Path) -> None:
    with evalindex.open(root / "sub") as index:
        assert index.path == str(root / "evalindex.db")
        assert index.read(NAME, "right") == sample("right")
    evalindex.build(tmp_path)
    with evalindex.open(below(root)) as index:
        assert index.path == str(root / "evalindex.db")
    (root / "evalindex.db").unlink()
    with evalindex.open(below(root)) as index:
        assert index.path == str(tmp_path / "evalindex.db")


def test_a_log_without_any_index_is_opened_and_a_folder_is_not(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.eval", [sample(1)])
    with evalindex.open(log) as index:
        assert index.path is None
        assert index.read(log, 1) == sample(1)
    with pytest.raises(evalindex.IndexNotFound, match="evalindex build"):
        evalindex.open(tmp_path)


def cache_file(root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return Path(os.environ["XDG_CACHE_HOME"]) / "evalindex" / f"{name}.db"


def test_of_a_cached_and_a_near_index_the_one_built_later_is_used(root: Path) -> None:
    cached, near = cache_file(root), root / "evalindex.db"
    evalindex.build(root, cached)
    for where in (root, below(root)):
        with evalindex.open(where) as index:
            assert index.path == str(cached)
    evalindex.build(root, near)
    for where in (root, below(root)):
        with evalindex.open(where) as index:
            assert index.path == str(near)
    near.unlink()
    with evalindex.open(below(root)) as index:
        assert index.path == str(cached)


def test_a_later_index_that_does_not_hold_the_log_is_not_preferred(
    root: Path, tmp_path: Path
) -> None:
    write_log(tmp_path / "unrelated" / "u.eval", [sample(1)])
    evalindex.build(tmp_path / "unrelated", cache_file(root))
    with evalindex.open(below(root)) as index:
        assert index.path == str(root / "evalindex.db")


def test_the_environment_names_the_index(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named.db"
    evalindex.build(root, named)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALINDEX_INDEX", "named.db")
    for where in (root, below(root)):
        with evalindex.open(where) as index:
            assert index.path == str(named)
    with evalindex.open(root / "evalindex.db") as index:
        assert index.path == str(root / "evalindex.db")
    monkeypatch.setenv("EVALINDEX_INDEX", "")
    with evalindex.open(root) as index:
        assert index.path == str(root / "evalindex.db")
    monkeypatch.setenv("EVALINDEX_INDEX", str(tmp_path / "none.db"))
    with pytest.raises(evalindex.IndexNotFound):
        evalindex.open(root)


@pytest.mark.parametrize("server", ["postgresql://u@h/db", "postgres://h/db"])
def test_an_index_on_a_server_is_refused_for_what_it_is(
    root: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(evalindex.NotAnIndex, match="on a server"):
        evalindex.build(root, server)
    monkeypatch.setenv("EVALINDEX_INDEX", server)
    with pytest.raises(evalindex.NotAnIndex, match="on a server"):
        evalindex.open(root)
