"""A server of our own that lies as it is told: as S3 with paths (`/bucket/key`), or as plain HTTP.

Signatures are not looked at. What it does when it does not lie is what S3 does.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers import BUCKET, Server
from tests.servers.proxy import Seen

Lie = Literal[
    "ignores_if_match",
    "answers_200",
    "cut_body",
    "short_body",
    "wrong_range",
    "weak_etags",
    "no_etags",
    "gzip",
    "no_suffix",
]


class Liar:
    """Its objects, by `bucket/key`, and its lies."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.lies: set[Lie] = set()
        #: An error to answer with: its status and the code in its XML.
        self.refusal: tuple[int, str] | None = None
        #: Called before each answer to a GET of an object; it may replace that.
        self.before_get: Callable[[str], None] = lambda _: None
        self.seen: list[Seen] = []

    def put(self, url: str, data: bytes) -> None:
        self.objects[self._name(url)] = (data, time.time())

    def delete(self, url: str) -> None:
        del self.objects[self._name(url)]

    @staticmethod
    def _name(url: str) -> str:
        if url.startswith("s3://"):
            return url.removeprefix("s3://")
        return unquote(urlsplit(url).path).lstrip("/")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 2**16  # one packet for head and body, or each answer takes 40 ms
    liar: Liar

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        liar = self.liar
        parts = urlsplit(self.path)
        name = unquote(parts.path).strip("/")
        range_ = self.headers.get("Range")
        if_match = self.headers.get("If-Match")
        liar.seen.append(Seen(self.command, self.path, range_, if_match))
        if liar.refusal is not None:
            self._error(*liar.refusal)
        elif "list-type" in parts.query:
            self._list(name, parse_qs(parts.query))
        else:
            self._object(liar, name, range_, if_match)

    def _object(self, liar: Liar, name: str, range_: str | None, if_match: str | None) -> None:
        liar.before_get(name)
        if name not in liar.objects:
            self._error(404, "NoSuchKey")
            return
        data, modified = liar.objects[name]
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        if if_match is not None and if_match != etag and "ignores_if_match" not in liar.lies:
            self._error(412, "PreconditionFailed")
            return
        headers = {"Last-Modified": formatdate(modified, usegmt=True), "Accept-Ranges": "bytes"}
        if "no_etags" not in liar.lies:
            headers["ETag"] = f"W/{etag}" if "weak_etags" in liar.lies else etag
        start, stop, status = 0, len(data), 200
        if range_ is not None and "answers_200" not in liar.lies:
            first, _, last = range_.removeprefix("bytes=").partition("-")
            if not first and "no_suffix" in liar.lies:
                self._error(501, "NotImplemented")
                return
            start = int(first) if first else max(0, len(data) - int(last))
            stop = min(len(data), int(last) + 1) if first and last else len(data)
            if start >= stop:
                self._error(416, "InvalidRange")
                return
            status = 206
        body = data[start:stop]
        if "wrong_range" in liar.lies and start > 0:
            start, body = start - 1, data[start - 1 : stop - 1]
            stop -= 1
        if "short_body" in liar.lies:
            body = body[:-1]
        if "gzip" in liar.lies:
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self._answer(status, body, headers, cut="cut_body" in liar.lies)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        most = int(query.get("max-keys", ["1000"])[0])
        found = sorted(
            name.removeprefix(f"{bucket}/")
            for name in self.liar.objects
            if name.startswith(f"{bucket}/{prefix}")
        )
        page = [key for key in found if key > after][:most]
        more = bool(page) and page[-1] != found[-1]
        items = ""
        for key in page:
            data, modified = self.liar.objects[f"{bucket}/{key}"]
            moment = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(modified))
            items += (
                f"<Contents><Key>{escape(key)}</Key><LastModified>{moment}</LastModified>"
                f"<ETag>&quot;{hashlib.md5(data).hexdigest()}&quot;</ETag><Size>{len(data)}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        body = (
            f"<ListBucketResult><Name>{bucket}</Name><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        )
        self._answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _error(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>so it is</Message></Error>".encode()
        self._answer(status, body, {"Content-Type": "application/xml"})

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str], *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # all of a test's connections at once


@contextmanager
def lying() -> Iterator[tuple[Liar, Server]]:
    liar = Liar()
    handler = type("_Handler", (_Handler,), {"liar": liar})
    with _Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        port = server.server_address[1]
        environment = {
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }
        yield liar, Server("liar", f"s3://{BUCKET}", environment, liar.put, liar.delete, port)
        server.shutdown()
