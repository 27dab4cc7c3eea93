"""Real servers that hold logs, and what makes them late or lie. All of them on the loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BUCKET = "evalindex-test"


class Server(NamedTuple):
    """A running server. `base` is the URL of a bucket or folder of it, `environment` tells
    ordinary clients how to reach it; `put` and `delete` take URLs."""

    name: str
    base: str
    environment: Mapping[str, str]
    put: Callable[[str, bytes], None]
    delete: Callable[[str], None]
    #: The address that a proxy would stand before.
    port: int
    can_list: bool = True
    honours_if_match: bool = True
    strong_etags: bool = True

    def fresh_root(self) -> str:
        return f"{self.base}/{uuid.uuid4().hex[:12]}"


class Missing(Exception):
    """The program of a server is not installed."""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def program(name: str, *folders: Path) -> str:
    """Where a program is: in one of the folders, beside Python, or on the path."""
    import sys

    places = [str(folder) for folder in (*folders, Path(sys.executable).parent)]
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


@contextmanager
def running(command: list[str], ready: Callable[[], None], **environment: str) -> Iterator[None]:
    """A program, from when it is ready until it was stopped with all that it started."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    ready()
                    break
                except Exception as error:
                    if process.poll() is not None or time.monotonic() > until:
                        output.seek(0)
                        said = output.read()[-4000:].decode(errors="replace")
                        raise RuntimeError(f"{command[0]} is not ready: {error}\n{said}") from None
                time.sleep(0.1)
            yield
        finally:
            try:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(3)
            except (subprocess.TimeoutExpired, ProcessLookupError):
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def request(method: str, url: str, data: bytes | None = None, **headers: str) -> bytes:
    """An answer of a server without signatures, which must be one of success."""
    asked = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=10) as answer:
        body: bytes = answer.read()
        return body
