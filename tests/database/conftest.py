"""An indexed root, as the tests of this folder need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evalindex
from tests.builders import members_by_zipfile, public_folder, sample, sample_member, write_log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An indexed root with one log."""
    write_log(tmp_path / "logs" / "a.eval", [sample(id) for id in range(100)])
    evalindex.build(tmp_path / "logs")
    return tmp_path / "logs"


@pytest.fixture
def public_root() -> Iterator[Path]:
    """The same, where any user can read it."""
    with public_folder() as folder:
        write_log(folder / "a.eval", [sample(id) for id in range(100)])
        evalindex.build(folder)
        yield folder


def read(root: Path) -> bytes:
    with evalindex.open(root / "evalindex.db") as index:
        return index.read("a.eval", 7, as_="bytes")


def expected(root: Path) -> bytes:
    return members_by_zipfile(root / "a.eval")[sample_member(7)]


@pytest.fixture(autouse=True)
def _versions_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fresh a log is, so that two builds give equal rows however long they take."""
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
