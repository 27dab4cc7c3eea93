from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.prove.faults import Faults
from tests.prove.machine import Bucket, Folder, Machine
from tests.servers import Server
from tests.servers.lying import Liar

_STEPS = 500


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing gets better by waiting here: there is one thread."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.parametrize("seed", range(6))
def test_lives_of_logs_whose_versions_are_recorded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    folder = Folder(tmp_path / "logs", tick=True)
    index_file = folder.path / "evalindex.db" if seed % 2 else tmp_path / "index.db"
    assert Machine(seed, folder, index_file).run(_STEPS)


@pytest.mark.parametrize("seed", range(100, 106))
def test_lives_of_logs_that_never_settle(tmp_path: Path, seed: int) -> None:
    folder = Folder(tmp_path / "logs", tick=False)
    assert Machine(seed, folder, folder.path / "evalindex.db").run(_STEPS)


@pytest.mark.parametrize("seed", range(200, 204))
def test_lives_of_logs_in_a_store_that_lies(
    liar: tuple[Liar, Server], tmp_path: Path, seed: int
) -> None:
    bucket = Bucket(liar[0], liar[1].fresh_root())
    assert Machine(seed, bucket, tmp_path / "index.db").run(200)


@pytest.mark.parametrize("seed", range(300, 306))
def test_lives_of_logs_while_reads_fail_and_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    tick = seed % 2 == 1
    if tick:
        monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    folder = Folder(tmp_path / "logs", tick=tick)
    faults = Faults(seed, ahead=tick)
    assert Machine(seed, folder, folder.path / "evalindex.db", faults).run(_STEPS)
