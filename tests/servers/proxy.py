"""A proxy before a server: it counts requests, makes them late, and breaks what it is told to.

Bytes pass unchanged, signatures stay valid. Requests are those of the tests: no chunked bodies.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_LIMIT = 2**20


class Seen(NamedTuple):
    """One request that passed."""

    method: str
    path: str
    range: str | None
    if_match: str | None


class Proxy:
    """Set its attributes at any time; they hold for the requests that come then."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        #: Seconds by which each request is late.
        self.delay = 0.0
        #: The next requests are answered by cut connections, by an error status, or by a body that
        #: ends after so many bytes.
        self.resets = 0
        self.failures: list[int] = []
        self.cuts: list[int] = []
        #: No answer at all.
        self.silent = False
        self.seen: list[Seen] = []
        self.bytes = 0

    def forget(self) -> None:
        self.seen.clear()
        self.bytes = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_writer = None
        try:
            up_reader, up_writer = await asyncio.open_connection(
                "127.0.0.1", self._target, limit=_LIMIT
            )
            while await self._pass(reader, writer, up_reader, up_writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            pass  # the tests are over
        finally:
            for one in (writer, up_writer):
                if one is not None:
                    one.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = _parsed(head)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(method, path, headers.get("range"), headers.get("if-match")))
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.silent:
            await asyncio.sleep(3600)
        if self.resets > 0:
            self.resets -= 1
            writer.transport.abort()
            return False
        if self.failures:
            status = self.failures.pop(0)
            writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return True
        up_writer.write(head + body)
        await up_writer.drain()
        head = await up_reader.readuntil(b"\r\n\r\n")
        _, status_text, headers = _parsed(head)
        length = int(headers.get("content-length", "0"))
        if method == "HEAD" or status_text in ("204", "304"):
            length = 0
        writer.write(head)
        cut = self.cuts.pop(0) if self.cuts and length else None
        while length:
            part = await up_reader.read(min(length, 2**16))
            if not part:
                return False
            length -= len(part)
            self.bytes += len(part)
            if cut is not None and cut < len(part):
                writer.write(part[:cut])
                await writer.drain()
                return False
            writer.write(part)
            await writer.drain()
        return True

    async def run(self, started: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LIMIT)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    pairs = (line.partition(":") for line in lines if line)
    return words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


@contextmanager
def before(port: int) -> Iterator[Proxy]:
    """A proxy on a thread of its own."""
    proxy = Proxy(port)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(proxy.run(started, stop))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def main() -> None:
    """`python -m tests.servers.proxy PORT DELAY`: says its own port; at each line of stdin, what
    passed since the last one."""

    def say(what: object) -> None:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()

    with before(int(sys.argv[1])) as proxy:
        proxy.delay = float(sys.argv[2])
        say(proxy.port)
        for _ in sys.stdin:
            say({"requests": len(proxy.seen), "bytes": proxy.bytes})
            proxy.forget()


if __name__ == "__main__":
    main()
