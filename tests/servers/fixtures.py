"""Servers as fixtures: each is started when a test first wants it, once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache
from pathlib import Path

import pytest

from tests.servers import Missing, Server
from tests.servers.lying import Liar, lying
from tests.servers.others import azurite, fake_gcs, nginx
from tests.servers.proxy import Proxy, before
from tests.servers.s3 import moto, seaweed

START: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "seaweed": seaweed,
    "moto": moto,
    "azurite": azurite,
    "fake-gcs": fake_gcs,
    "nginx": nginx,
}


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """A server by its name, running from when it is first asked for."""
    with ExitStack() as stack:

        @lru_cache
        def start(name: str) -> Server | Missing:
            try:
                return stack.enter_context(START[name](tmp_path_factory.mktemp(name)))
            except Missing as error:
                return error

        def running(name: str) -> Server:
            found = start(name)
            if not isinstance(found, Missing):
                return found
            if os.environ.get("CI"):
                pytest.fail(str(found))
            pytest.skip(str(found))

        yield running


def reach(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Have the environment tell of a server, and of no other."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def seaweed_store(servers: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    """SeaweedFS, as the environment tells it."""
    return reach(servers("seaweed"), monkeypatch)


@pytest.fixture(params=list(START))
def store(
    request: pytest.FixtureRequest,
    servers: Callable[[str], Server],
    monkeypatch: pytest.MonkeyPatch,
) -> Server:
    """Each of the real servers in turn."""
    return reach(servers(request.param), monkeypatch)


@pytest.fixture
def proxied(seaweed_store: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before SeaweedFS, which the environment tells instead."""
    with before(seaweed_store.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        yield proxy


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Liar, Server]]:
    """A server that lies as it is told."""
    with lying() as (liar, server):
        reach(server, monkeypatch)
        yield liar, server
