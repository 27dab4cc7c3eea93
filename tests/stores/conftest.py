from __future__ import annotations

from tests.servers.fixtures import liar, proxied, seaweed_store, servers, store  # noqa: F401
