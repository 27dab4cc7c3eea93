"""What all tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.builders import SHARED_LOGS
from tests.servers.fixtures import liar, proxied, seaweed_store, servers, store

__all__ = ["liar", "proxied", "seaweed_store", "servers", "store"]


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index, cache or current folder of the person who runs the tests."""
    monkeypatch.delenv("EVALINDEX_INDEX", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def copied_logs(shared_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of them in which an index can be built."""
    folder = tmp_path_factory.mktemp("shared") / "logs"
    shutil.copytree(shared_logs, folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """The folder of real logs; a test that needs it is skipped where it is not, but never in CI."""
    if not SHARED_LOGS.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"there are no logs in {SHARED_LOGS}")
        pytest.skip(f"there are no logs in {SHARED_LOGS}")
    return SHARED_LOGS
