"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builders import SHARED_LOGS


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index, cache or current folder of the person who runs the tests."""
    monkeypatch.delenv("EVALINDEX_INDEX", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def shared_logs() -> Path:
    """The folder of real logs; a test that needs it is skipped where it is not, but never in CI."""
    if not SHARED_LOGS.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"there are no logs in {SHARED_LOGS}")
        pytest.skip(f"there are no logs in {SHARED_LOGS}")
    return SHARED_LOGS
